"""What the package offers to tests: ScriptedAgent, Recording, assert_conformant, serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pytest
from ag_ui.core import (
    AgentCapabilities,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    TextMessageChunkEvent,
)

from agui_codec import SequenceError, read_events
from agui_codec.client import (
    AbstractAgent,
    HttpAgent,
    HttpStatusError,
    TruncatedRunError,
)
from agui_codec.client.testing import Recording, ScriptedAgent, assert_conformant, serve
from streams import Event, content, end, event, start

pytest.importorskip("uvicorn")

HELLO = [TextMessageChunkEvent(message_id="m", delta="Hel"), TextMessageChunkEvent(delta="lo")]
TEXT = [start(), content("Hello"), end()]
RUN = [
    event("RUN_STARTED", threadId="t", runId="r"),
    *TEXT,
    event("RUN_FINISHED", threadId="t", runId="r"),
]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


# -- ScriptedAgent --------------------------------------------------------------------------


def test_scripts_are_played_in_turn() -> None:
    async def main() -> None:
        agent = ScriptedAgent(
            HELLO,
            lambda input: [start("n"), content(input.messages[-1].content, "n"), end("n")],  # type: ignore[arg-type]
            [RunErrorEvent(message="no")],
            [],
        )
        assert (await agent.run_agent("a")).text == "Hello"
        assert (await agent.run_agent("b")).text == "b"
        await agent.run_agent("c").until_done()
        assert (await agent.run_agent("d")).status == "success"
        assert [len(one.messages) for one in agent.inputs] == [1, 3, 5, 6]
        with pytest.raises(AssertionError, match="run 5, and there are 4 scripts"):
            await agent.run_agent("e")

    run(main)


def test_delays_and_exceptions() -> None:
    async def main() -> None:
        agent = ScriptedAgent([*TEXT, 0.02, OSError("gone")])
        before = monotonic()
        with pytest.raises(OSError, match="gone"):
            await agent.run_agent()
        assert monotonic() - before >= 0.02
        assert agent.messages[0].content == "Hello"

    run(main)


def test_a_script_may_be_a_whole_stream() -> None:
    async def main() -> None:
        agent = ScriptedAgent(RUN, RUN[:-1], thread_id="t")
        recording = Recording(agent)
        await agent.run_agent()
        assert recording.events == RUN
        with pytest.raises(TruncatedRunError):
            await agent.run_agent()
        # One that ends by itself gets no second end.
        agent = ScriptedAgent(
            lambda given: [RunFinishedEvent(thread_id=given.thread_id, run_id=given.run_id)]
        )
        async with agent.run_agent() as one:
            assert [got.type async for got in one] == ["RUN_STARTED", "RUN_FINISHED"]

    run(main)


def test_a_script_may_be_malformed() -> None:
    async def main() -> None:
        for wrong in ({"foo": 1}, {"type": 5}, {"type": None}):
            with pytest.raises(ValueError, match="type"):
                await ScriptedAgent([wrong]).run_agent()
        with pytest.raises(TypeError, match="'x' in a script"):
            await ScriptedAgent(["x"]).run_agent()  # type: ignore[list-item]

    run(main)


# -- Recording ------------------------------------------------------------------------------


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("name", ["run.sse", "run.jsonl", "run.ndjson"])
def test_recordings_are_read_back(as_dict: bool, name: str, tmp_path: Path) -> None:
    async def main() -> None:
        agent = ScriptedAgent(HELLO, [*TEXT, OSError("gone")], HELLO, as_dict=as_dict)
        with Recording(agent) as recording:
            await agent.run_agent()
            with pytest.raises(OSError, match="gone"):
                await agent.run_agent()
        await agent.run_agent()
        # Chunks are expanded; the one that failed is there, as far as it came.
        assert len(recording.events) == 6 + 4
        assert all(type(one) is dict for one in recording.events)
        recording.save(tmp_path / name)
        assert list(read_events(tmp_path / name, as_dict=True)) == recording.events
        recording.save(str(tmp_path / name))

    run(main)


# -- assert_conformant ----------------------------------------------------------------------


def test_conformant() -> None:
    assert_conformant(RUN)
    assert_conformant(iter(RUN))
    chunk = event("TEXT_MESSAGE_CHUNK", messageId="m", delta="x")
    assert_conformant([RUN[0], chunk, TextMessageChunkEvent(delta="y"), RUN[-1], *RUN])


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "^end of stream.*no events"),
        (RUN[:-1], "event 3: .*terminal"),
        (RUN[1:], "event 0: "),
        ([RUN[0], start(), RUN[-1]], "event 2: "),
        ([RUN[0], content("x"), RUN[-1]], "event 1: "),
        ([RUN[0], event("TEXT_MESSAGE_START"), RUN[-1]], "event 1.*messageId"),
        ([RUN[0], {**start(), "vendor": 1}, end(), RUN[-1]], "event 1.*vendor"),
        ([RUN[0], event("THINKING_START"), event("THINKING_END"), RUN[-1]], "event 1.*THINKING"),
        ([RUN[0], event("NEW_EVENT"), RUN[-1]], "event 1.*NEW_EVENT"),
        ([RUN[0], {"foo": 1}, RUN[-1]], "event 1: .*type"),
    ],
)
def test_not_conformant(events: list[Event], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        assert_conformant(events)


# -- serve ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["sse", "protobuf"])
def test_serve(wire: Literal["sse", "protobuf"]) -> None:
    async def main() -> None:
        broken = [start("n"), content("Hello", "n"), end("n"), OSError("broken")]
        served = ScriptedAgent(HELLO, broken)
        async with serve(served) as url, HttpAgent(url, wire=wire) as agent:
            assert (await agent.run_agent("Hi")).text == "Hello"
            assert served.inputs[0].messages[0].content == "Hi"
            assert served.inputs[0].thread_id == agent.thread_id
            assert agent.last_response is not None
            assert ("protobuf" if wire == "sse" else "event-stream") not in (
                agent.last_response.headers["content-type"]
            )
            with pytest.raises(TruncatedRunError) as caught:
                await agent.run_agent("Again")
            assert caught.value.result.text == "Hello"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)


def test_serve_an_application() -> None:
    async def teapot(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b"short and stout"})

    async def main() -> None:
        async with serve(teapot) as url, HttpAgent(url) as agent:
            with pytest.raises(HttpStatusError, match="418: short and stout"):
                await agent.run_agent("Hi")

    run(main)


def test_what_a_client_asks_besides() -> None:
    class Joins(ScriptedAgent):
        async def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
            async with aclosing(self.run(input)) as script:
                async for one in script:
                    yield one

        async def get_capabilities(self) -> AgentCapabilities:
            return AgentCapabilities(transport={"streaming": True})  # type: ignore[arg-type]

    async def main() -> None:
        async with serve(Joins(HELLO, HELLO)) as url, HttpAgent(url) as agent:
            assert (await agent.connect_agent()).text == "Hello"
            capabilities = await agent.get_capabilities()
            assert capabilities is not None
            assert capabilities.transport is not None
        plain = ScriptedAgent()
        async with serve(plain) as url, HttpAgent(url) as agent:
            result = await agent.connect_agent()
            assert (result.status, result.new_messages) == ("success", [])
            assert await agent.get_capabilities() is None
            assert plain.inputs == []
        async with serve(plain) as url:
            for path in ("elsewhere", "x/connect"):
                async with HttpAgent(url + path) as agent:
                    with pytest.raises(HttpStatusError, match="404"):
                        await agent.run_agent()

    run(main)


def test_an_input_that_is_none_is_refused() -> None:
    import httpx

    async def main() -> None:
        async with serve(ScriptedAgent()) as url, httpx.AsyncClient() as client:
            for body in (b"", b"{", b"[]", b'{"threadId": 5}', b"\xff"):
                response = await client.post(url, content=body)
                assert response.status_code == 422
                assert response.json()["detail"]

    run(main)


class Waits(AbstractAgent):
    """An agent that never ends, and writes down when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []
        self.closed = asyncio.Event()
        self.answered = asyncio.Event()

    async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
        try:
            yield event("RUN_STARTED", threadId=input.thread_id, runId=input.run_id)
            yield start()
            self.answered.set()
            await asyncio.sleep(3600)
        except BaseException as error:
            self.ends.append(type(error).__name__)
            raise
        finally:
            self.closed.set()


def test_the_agent_is_closed_when_its_client_leaves() -> None:
    async def main() -> None:
        served = Waits()
        async with serve(served) as url, HttpAgent(url) as agent:
            async with agent.run_agent("Hi") as one:
                await anext(one)
            await asyncio.wait_for(served.closed.wait(), 10)
            assert served.ends == ["CancelledError"]

    run(main)


def test_leaving_ends_what_is_live(capfd: pytest.CaptureFixture[str]) -> None:
    async def hangs(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        answered.set()
        await asyncio.sleep(3600)

    answered = asyncio.Event()

    async def main() -> None:
        waits = Waits()
        for served, live in ((waits, waits.answered), (hangs, answered)):
            before = monotonic()
            async with serve(served) as url:
                agent = HttpAgent(url)
                task = asyncio.ensure_future(agent.run_agent("Hi").result())
                await asyncio.wait_for(live.wait(), 10)
            with pytest.raises(TruncatedRunError):
                await task
            await agent.aclose()
            assert monotonic() - before < 5
            assert asyncio.all_tasks() == {asyncio.current_task()}
            if isinstance(served, Waits):
                assert served.closed.is_set()
                assert capfd.readouterr().err == ""

    run(main)


def test_what_fails_inside_is_raised_on() -> None:
    async def main() -> None:
        async def fails() -> None:
            async with serve(ScriptedAgent()):
                raise SequenceError("inside")

        with pytest.raises(SequenceError, match="inside"):
            await fails()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)
