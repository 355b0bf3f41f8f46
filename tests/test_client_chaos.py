"""What can go wrong under a run, and that it leaves the conversation and the loop in order."""

from __future__ import annotations

import asyncio
import gc
import gzip
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
import pytest
from ag_ui.core import RunAgentInput

from agui_codec import FrameTooLargeError, SequenceError
from agui_codec.client import (
    AbstractAgent,
    AgentSubscriber,
    Call,
    HttpAgent,
    HttpStatusError,
    Mutation,
    Next,
    Run,
    RunInProgressError,
    TruncatedRunError,
    tool,
)
from agui_codec.client.testing import ScriptedAgent
from loopback import PROTOBUF, SSE, WIRES, Raw, answer, encoded, head, nothing_left, reset

IDS = {"threadId": "t", "runId": "r"}


def thirty() -> list[dict[str, Any]]:
    """Thirty events of a run that has something of everything."""
    events: list[dict[str, Any]] = [
        {"type": "RUN_STARTED", **IDS},
        {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 0, "ü": "漢"}},
        {"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"},
    ]
    for at in range(9):
        events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": f"{at} é漢😀 "})
    events += [
        {"type": "TEXT_MESSAGE_END", "messageId": "a"},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"x": "'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": 'ö"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_RESULT", "messageId": "b", "toolCallId": "c", "content": "ok"},
    ]
    for at in range(1, 9):
        delta = [{"op": "replace", "path": "/n", "value": at}]
        events.append({"type": "STATE_DELTA", "delta": delta})
    events += [
        {"type": "STEP_FINISHED", "stepName": "s"},
        {"type": "CUSTOM", "name": "c", "value": [1]},
        {"type": "RUN_FINISHED", **IDS, "result": 1},
    ]
    assert len(events) == 30
    return events


EVENTS = thirty()
TYPES = [event["type"] for event in EVENTS]


# -- what always holds ----------------------------------------------------------------------


class Watch(AgentSubscriber):
    """What a run's callbacks have seen."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lifecycle: list[str] = []

    def on_event(self, call: Call) -> None:
        self.events.append(call.event["type"])

    def on_run_initialized(self, call: Call) -> None:
        self.lifecycle.append("initialized")

    def on_run_failed(self, call: Call) -> None:
        self.lifecycle.append("failed")

    def on_run_finalized(self, call: Call) -> None:
        self.lifecycle.append("finalized")


async def check(
    agent: AbstractAgent,
    status: str,
    count: int,
    *,
    error: type[Exception] | None = None,
    read: Callable[[Run], Coroutine[Any, Any, None]] | None = None,
    subscriber: AgentSubscriber | None = None,
    types: Iterable[str] = TYPES,
    starts: bool = True,
    **options: Any,
) -> Run:
    """Run the agent, and assert what holds for every run, however it ends.

    Args:
        agent: It gives wire dicts.
        status: How the run ends.
        count: How many of the events of ``types`` come, from the first on.
        error: What it raises.
        read: Reads the run instead of an ordinary loop.
        subscriber: Another subscriber.
        types: The whole stream.
        starts: Whether the run gets as far as its first callback.
        **options: Of the run.
    """
    watch = Watch()
    delivered: list[dict[str, Any]] = []
    one = agent.run_agent(subscriber=watch, **options)
    unsubscribe = agent.subscribe(subscriber) if subscriber is not None else None

    async def loop() -> None:
        async for event in one:
            delivered.append(event)

    raised: BaseException | None = None
    async with one:
        try:
            await (loop() if read is None else read(one))
        except Exception as caught:
            raised = caught
    assert type(raised) is (error or type(None)), raised
    expected = list(types)[:count]
    # No event twice, none lost, none half.
    assert watch.events == expected
    assert read is not None or [event["type"] for event in delivered] == expected
    failed = ["failed"] if error is not None else []
    assert watch.lifecycle == (["initialized", *failed, "finalized"] if starts else [])
    assert agent.active_run is None
    assert one.snapshot.status == status
    assert await anext(aiter(one), None) is None
    if unsubscribe is not None:
        unsubscribe()
    # Nor does anything come that was meant for the run.
    task = asyncio.current_task()
    assert task is not None
    await asyncio.sleep(0)
    if sys.version_info >= (3, 11):
        assert task.cancelling() == 0
    return one


def run(main: Callable[[], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def checked() -> None:
        async with nothing_left(**options):
            await main()

    asyncio.run(checked())


# -- transports that break ------------------------------------------------------------------


class Body(httpx.AsyncByteStream):
    """The body of a response, which breaks off or waits for ever after its pieces."""

    def __init__(
        self, pieces: Iterable[bytes], end: Exception | None = None, *, waits: bool = False
    ) -> None:
        self.pieces = list(pieces)
        self.end = end
        self.waits = waits
        self.closed = 0

    def __aiter__(self) -> Any:
        # No generator: httpx does not close it.
        return Pieces(self)

    async def aclose(self) -> None:
        self.closed += 1


class Pieces:
    """One iteration over a body."""

    def __init__(self, body: Body) -> None:
        self._left = iter(body.pieces)
        self._body = body

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        if self._body.waits:
            await asyncio.sleep(3600)
        if self._body.end is not None:
            raise self._body.end
        raise StopAsyncIteration


def mocked(
    body: Body, content_type: str = SSE, kind: type[HttpAgent] = HttpAgent, **options: Any
) -> HttpAgent:
    """An agent whose server answers everything with this."""

    async def handle(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        return httpx.Response(200, headers={"content-type": content_type}, stream=body)

    client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return kind("http://host/", client=client, thread_id="t", as_dict=True, **options)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


async def passing(input: RunAgentInput, next: Next) -> AsyncIterator[Any]:
    async for event in next(input):
        yield event


class Wraps(HttpAgent):
    """Has a producer of its own around that of the transport."""

    async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
        async with aclosing(super().run(input)) as events:  # type: ignore[type-var]
            async for event in events:
                yield event


@pytest.mark.parametrize("way", ["plain", "middleware", "subclass"])
@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_cut_at_every_byte(wire: str, breaks: bool, way: str) -> None:
    frames = [encoded([event], wire) for event in EVENTS]
    whole = b"".join(frames)
    # An event whose last line is whole comes, if the body ends there and does not break off.
    blank = 2 if wire == SSE and not breaks else 0
    ends = [sum(map(len, frames[: at + 1])) - blank for at in range(len(frames))]

    async def main() -> None:
        for cut in range(0, len(whole) + 1, 1 if way == "plain" else 3):
            count = sum(end <= cut for end in ends) if cut < len(whole) else 30
            error = httpx.ReadError("reset") if breaks else None
            body = Body([whole[:cut]] if cut % 2 else pieces(whole[:cut], 61), error)
            agent = mocked(body, wire, Wraps if way == "subclass" else HttpAgent)
            if way == "middleware":
                agent.use(passing)
            if count == 30:
                one = await check(agent, "success", 30)
            else:
                one = await check(agent, "truncated", count, error=TruncatedRunError)
                failure = one._failure
                assert isinstance(failure, TruncatedRunError)
                assert failure.events == count
                if breaks:
                    assert failure.__cause__ is error
            assert body.closed == 1
            if count >= 13:
                text = "".join(event["delta"] for event in EVENTS[4:13])
                assert one.snapshot.text == text

    run(main)


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_pieces(wire: str, size: int) -> None:
    async def main() -> None:
        body = Body(pieces(encoded(EVENTS, wire), size))
        agent = mocked(body, wire)
        await check(agent, "success", 30)
        assert agent.state == {"n": 8, "ü": "漢"}

    run(main)


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_resets_of_a_connection(wire: str) -> None:
    whole = encoded(EVENTS, wire)
    first_two = len(encoded(EVENTS[:2], wire))
    inside_character = whole.index("漢".encode()) + 1
    cuts = {0: 0, first_two + 2: 2, inside_character: 2}

    def breaking(data: bytes | None) -> Any:
        async def write(writer: asyncio.StreamWriter) -> None:
            if data is not None:
                writer.write(head(wire) + data)
                await writer.drain()
            # So that it has been read: a reset throws away what has not.
            await asyncio.sleep(0.03)
            reset(writer)

        return write

    async def main() -> None:
        async with Raw(breaking(None), *[breaking(whole[:cut]) for cut in cuts]) as raw:
            for count in (0, *cuts.values()):
                async with HttpAgent(raw.url, thread_id="t", as_dict=True) as agent:

                    async def read(one: Run) -> None:
                        await one.until_done()

                    if count == 0:
                        one = agent.run_agent()
                        with pytest.raises(TruncatedRunError):
                            await one
                        assert not agent.is_running
                    else:
                        await check(agent, "truncated", count, error=TruncatedRunError, read=read)

    run(main)


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_an_event_that_is_too_large(wire: str) -> None:
    big = {"type": "CUSTOM", "name": "c", "value": "x" * (10 * 1024 * 1024 + 1)}

    async def main() -> None:
        body = Body(pieces(encoded([*EVENTS[:3], big, *EVENTS[3:]], wire), 65536))
        await check(mocked(body, wire), "error", 3, error=FrameTooLargeError)
        assert body.closed == 1
        # It is the caller's to allow it.
        body = Body(pieces(encoded([*EVENTS[:3], big, *EVENTS[3:]], wire), 65536))
        types = [*TYPES[:3], "CUSTOM", *TYPES[3:]]
        agent = mocked(body, wire, max_event_bytes=11 * 1024 * 1024)
        await check(agent, "success", 31, types=types)

    run(main)


def test_bad_gzip() -> None:
    packed = gzip.compress(encoded(EVENTS))
    flushed = gzip.compress(b"")[:0]

    async def main() -> None:
        answers = [
            answer(200, b"data: {}\n\n", SSE, content_encoding="gzip"),
            answer(200, packed[: len(packed) // 2] + flushed, SSE, content_encoding="gzip"),
        ]
        async with Raw(*answers) as raw:
            for _ in answers:
                async with HttpAgent(raw.url, thread_id="t", as_dict=True) as agent:
                    seen: list[str] = []
                    watch = Watch()
                    one = agent.run_agent(subscriber=watch)
                    with pytest.raises(TruncatedRunError):
                        await one
                    seen += watch.events
                    assert seen == TYPES[: len(seen)]
                    assert watch.lifecycle == ["initialized", "failed", "finalized"]

    run(main)


def test_a_stream_that_breaks_a_rule_is_closed() -> None:
    async def main() -> None:
        body = Body([encoded([*EVENTS[:4], EVENTS[3]]), encoded(EVENTS[4:])], waits=True)
        await check(mocked(body), "error", 4, error=SequenceError)
        assert body.closed == 1

    run(main)


@pytest.mark.parametrize("way", ["plain", "middleware", "subclass"])
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_half_an_event_after_the_end_of_the_run(wire: str, way: str) -> None:
    async def main() -> None:
        for error in (None, httpx.ReadError("reset")):
            half = encoded([{"type": "RUN_ERROR", "message": "late"}], wire)[:-4]
            agent = mocked(
                Body([encoded(EVENTS, wire) + half], error),
                wire,
                Wraps if way == "subclass" else HttpAgent,
            )
            if way == "middleware":
                agent.use(passing)
            await check(agent, "success", 30)

    run(main)


@pytest.mark.parametrize("way", ["middleware", "subclass"])
def test_leaving_a_producer_around_the_transport(way: str) -> None:
    async def main() -> None:
        async def read(one: Run) -> None:
            async for event in one:
                if event["type"] == "TEXT_MESSAGE_START":
                    break

        body = Body([encoded(EVENTS)], waits=True)
        agent = mocked(body, SSE, Wraps if way == "subclass" else HttpAgent)
        if way == "middleware":
            agent.use(passing)
        await check(agent, "aborted", 4, read=read)
        assert body.closed == 1
        asyncio.get_running_loop().call_later(0.02, agent.abort_run)
        await check(agent, "aborted", 30)
        assert body.closed == 2

    run(main)


def test_nothing_after_the_end_is_lost_or_waited_for() -> None:
    late = {"type": "RUN_ERROR", "message": "late"}

    async def main() -> None:
        # The connection breaks off after the run has ended.
        body = Body([encoded(EVENTS)], httpx.ReadError("reset"))
        assert (await check(mocked(body), "success", 30)).snapshot.result == 1
        # An error that comes late is an error.
        body = Body([encoded([*EVENTS, late])])
        one = await check(mocked(body), "error", 31, types=[*TYPES, "RUN_ERROR"])
        assert one.snapshot.error is not None

    run(main)


# -- abort ----------------------------------------------------------------------------------


def test_abort_before_the_start() -> None:
    async def main() -> None:
        async def read(one: Run) -> None:
            assert [event async for event in one] == []
            assert (await one).status == "aborted"

        body = Body([encoded(EVENTS)])
        agent = mocked(body)
        one = agent.run_agent()
        one.abort()
        one.abort()
        async with one:
            await read(one)
        assert one.snapshot.status == "aborted"
        assert not agent.is_running
        assert body.closed == 0
        assert agent.last_response is None

    run(main)


@pytest.mark.parametrize("enters", [False, True])
def test_abort_while_connecting(enters: bool) -> None:
    ended: list[str] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        try:
            await asyncio.sleep(3600)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        raise AssertionError

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            agent = HttpAgent("http://host/", client=client, as_dict=True)
            asyncio.get_running_loop().call_later(0.02, agent.abort_run)
            watch = Watch()
            one = agent.run_agent(subscriber=watch)
            if enters:
                async with one:
                    assert [event async for event in one] == []
            assert (await one).status == "aborted"
            assert watch.lifecycle == ["initialized", "finalized"]
        assert ended == ["CancelledError"]

    run(main)


@pytest.mark.parametrize("count", [0, 5])
def test_abort_over_a_real_connection(count: int) -> None:
    gone: list[str] = []

    async def waits(writer: asyncio.StreamWriter) -> None:
        asyncio.get_running_loop().call_later(0.03, agents[0].abort_run)
        if count:
            writer.write(head() + encoded(EVENTS[:count]))
        try:
            while True:
                writer.write(b": \n\n" if count else b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.005)
        except ConnectionError:
            gone.append("gone")
            raise

    agents: list[HttpAgent] = []

    async def main() -> None:
        async with Raw(waits) as raw, HttpAgent(raw.url, thread_id="t", as_dict=True) as agent:
            agents.append(agent)

            async def read(one: Run) -> None:
                await one.until_done()

            if count:
                await check(agent, "aborted", count, read=read)
            else:
                assert (await agent.run_agent()).status == "aborted"
            await asyncio.sleep(0.05)
        # The server sees that the connection is closed.
        assert gone == ["gone"]

    run(main)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("times", [1, 2])
def test_abort_in_a_callback(kind: str, times: int) -> None:
    class Sync(AgentSubscriber):
        def on_text_message_start_event(self, call: Call) -> None:
            assert call.run is not None
            for _ in range(times):
                call.run.abort()

    class Async(AgentSubscriber):
        async def on_text_message_start_event(self, call: Call) -> None:
            for _ in range(times):
                call.agent.abort_run()
                await asyncio.sleep(0)

    async def main() -> None:
        body = Body([encoded(EVENTS)], waits=True)
        subscriber = Sync() if kind == "sync" else Async()
        # The event of the callback still comes: it has been applied.
        await check(mocked(body), "aborted", 4, subscriber=subscriber)
        assert body.closed == 1

    run(main)


def test_abort_in_the_first_and_the_last_callback() -> None:
    class First(AgentSubscriber):
        async def on_run_initialized(self, call: Call) -> None:
            call.agent.abort_run()
            await asyncio.sleep(0)

    class Last(AgentSubscriber):
        def on_run_finalized(self, call: Call) -> None:
            call.agent.abort_run()

    async def main() -> None:
        body = Body([encoded(EVENTS)])
        await check(mocked(body), "aborted", 0, subscriber=First())
        assert body.closed == 0
        # The run has ended: nothing is left to abort.
        await check(mocked(body), "success", 30, subscriber=Last())

    run(main)


def test_abort_after_the_end() -> None:
    async def main() -> None:
        one = await check(mocked(Body([encoded(EVENTS)])), "success", 30)
        one.abort()
        await one.detach()
        assert one.snapshot.status == "success"
        assert (await one).status == "success"

    run(main)


def test_leaving_the_loop_after_the_end_of_the_run() -> None:
    async def main() -> None:
        async def read(one: Run) -> None:
            async for event in one:
                if event["type"] == "RUN_FINISHED":
                    break

        async def earlier(one: Run) -> None:
            async for event in one:
                if event["type"] == "CUSTOM":
                    break

        body = Body([encoded(EVENTS)], waits=True)
        await check(mocked(body), "success", 30, read=read)
        assert body.closed == 1
        await check(mocked(body), "aborted", 29, read=earlier)

    run(main)


def test_leaving_text_stream() -> None:
    async def main() -> None:
        async def read(one: Run) -> None:
            async for _ in one.text_stream:
                break

        body = Body([encoded(EVENTS)], waits=True)
        await check(mocked(body), "aborted", 5, read=read)
        assert body.closed == 1

    run(main)


class Answers(AbstractAgent):
    """An agent whose producer answers the end of its wait in some way."""

    def __init__(self, way: str) -> None:
        super().__init__(thread_id="t", as_dict=True)
        self.way = way

    def run(self, input: RunAgentInput) -> Any:
        return self if self.way != "aclose" else self._raises_when_closed()

    async def _raises_when_closed(self) -> AsyncIterator[Any]:
        try:
            for event in EVENTS:
                yield event
        finally:
            raise ZeroDivisionError("in finally")

    def __aiter__(self) -> Any:
        self._left = iter(EVENTS[:2])
        return self

    async def __anext__(self) -> Any:
        for event in self._left:
            return event
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if self.way == "item":
                return EVENTS[2]
            if self.way == "stop":
                raise StopAsyncIteration from None
            if self.way == "error":
                raise OSError from None
            if self.way == "transport":
                raise ConnectionError from None
            raise


class Transport(Answers):
    """The same with the errors of a transport."""

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        return (ConnectionError,)


@pytest.mark.parametrize("way", ["item", "stop", "error", "transport", "raise"])
@pytest.mark.parametrize("kind", [Answers, Transport])
def test_abort_of_a_producer_that_catches_it(kind: type[Answers], way: str) -> None:
    async def main() -> None:
        agent = kind(way)
        asyncio.get_running_loop().call_later(0.01, agent.abort_run)
        await check(agent, "aborted", 2)

    run(main)


def test_a_producer_that_fails_when_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def read(one: Run) -> None:
            await anext(one)

        await check(Answers("aclose"), "aborted", 1, read=read)
        assert "ZeroDivisionError: in finally" in caplog.text

        async def abort(one: Run) -> None:
            async for _ in one:
                one.abort()

        await check(Answers("aclose"), "aborted", 1, read=abort)

    run(main)


@pytest.mark.parametrize("waits", [False, True])
def test_a_producer_that_aborts_its_own_run(waits: bool) -> None:
    class Aborts(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            yield EVENTS[0]
            self.abort_run()
            if waits:
                await asyncio.sleep(3600)
            yield EVENTS[1]

    async def main() -> None:
        class Pauses(AgentSubscriber):
            async def on_run_finalized(self, call: Call) -> None:
                await asyncio.sleep(0)
                ended.append(True)

        ended: list[bool] = []
        agent = Aborts(thread_id="t", as_dict=True)
        await check(agent, "aborted", 1, subscriber=Pauses())
        assert ended == [True]

    run(main)


def test_an_auth_that_aborts() -> None:
    async def auth() -> dict[str, str]:
        agent.abort_run()
        return {}

    async def main() -> None:
        await check(agent, "aborted", 0)
        assert body.closed == (0 if agent.last_response is None else 1)

    body = Body([encoded(EVENTS)])
    agent = mocked(body, auth=auth)
    run(main)


def test_abort_when_what_is_waited_for_has_come() -> None:
    """The task is about to go on when it is cancelled."""

    async def main() -> None:
        ready = asyncio.get_running_loop().create_future()

        class Ready(AbstractAgent):
            async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
                yield EVENTS[0]
                yield await ready

        def both() -> None:
            ready.set_result(EVENTS[1])
            agent.abort_run()

        agent = Ready(thread_id="t", as_dict=True)
        asyncio.get_running_loop().call_later(0.01, both)
        await check(agent, "aborted", 1)

    run(main)


@pytest.mark.parametrize("first", ["abort", "cancel"])
def test_abort_and_cancel_at_once(first: str) -> None:
    async def main() -> None:
        agent = ScriptedAgent([3600.0], thread_id="t", as_dict=True)
        watch = Watch()
        task = asyncio.ensure_future(agent.run_agent(subscriber=watch).result())
        await asyncio.sleep(0.01)
        if first == "abort":
            agent.abort_run()
        task.cancel()
        agent.abort_run()
        if sys.version_info >= (3, 11):
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await asyncio.wait([task])
        assert watch.lifecycle == ["initialized", "finalized"]
        assert not agent.is_running

    run(main)


def test_abort_in_a_task_that_was_cancelled_before() -> None:
    async def main() -> None:
        agent = ScriptedAgent([3600.0])

        async def last_words() -> str:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(0.01, agent.abort_run)
                return (await agent.run_agent("Bye")).status
            raise AssertionError

        task = asyncio.ensure_future(last_words())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "aborted"

    run(main)


TOOL_CALL = [
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "act"},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
]


@pytest.mark.parametrize("where", ["tool", "tool waits", "finalized", "answered"])
def test_abort_between_rounds(where: str) -> None:
    acted: list[str] = []

    @tool
    async def act() -> str:
        acted.append("acted")
        if where.startswith("tool"):
            agent.abort_run()
            if where == "tool waits":
                await asyncio.sleep(3600)
        return "done"

    class Aborts(AgentSubscriber):
        def on_run_finalized(self, call: Call) -> None:
            if where == "finalized":
                call.agent.abort_run()

        def on_new_message(self, call: Call) -> None:
            if where == "answered" and call.message["role"] == "tool":
                call.agent.abort_run()

    agent = ScriptedAgent(TOOL_CALL, [], as_dict=True)

    async def main() -> None:
        watch = Watch()
        agent.subscribe(Aborts())
        one = agent.run_agent(tools=[act], subscriber=watch)
        result = await one
        assert result.status == "aborted"
        assert acted == ([] if where == "finalized" else ["acted"])
        # There is no second round, not even its beginning.
        assert len(agent.inputs) == one.rounds == len(result.run_ids) == 1
        assert watch.lifecycle == ["initialized", "finalized"]
        assert not agent.is_running
        await asyncio.sleep(0)

    run(main)


# -- subscribers ----------------------------------------------------------------------------


def test_subscribers_that_raise() -> None:
    class Raises(AgentSubscriber):
        def on_event(self, call: Call) -> None:
            raise ZeroDivisionError

        async def on_messages_changed(self, call: Call) -> None:
            raise ZeroDivisionError

        def on_run_initialized(self, call: Call) -> None:
            raise ZeroDivisionError

        def on_run_finalized(self, call: Call) -> None:
            raise ZeroDivisionError

    async def main() -> None:
        await check(mocked(Body([encoded(EVENTS)])), "success", 30, subscriber=Raises())
        body = Body([encoded(EVENTS)], waits=True)
        agent = mocked(body, on_subscriber_error="raise")
        agent.subscribe(Raises())
        with pytest.raises(ZeroDivisionError):
            await agent.run_agent()
        assert not agent.is_running
        assert body.closed == 0

    run(main)


def test_subscribers_that_raise_at_the_end() -> None:
    class Raises(AgentSubscriber):
        def on_run_failed(self, call: Call) -> None:
            raise ZeroDivisionError

        def on_run_finalized(self, call: Call) -> None:
            finalized.append(True)

    finalized: list[bool] = []

    async def main() -> None:
        body = Body([encoded(EVENTS[:3])])
        agent = mocked(body, on_subscriber_error="raise")
        agent.subscribe(Raises())
        with pytest.raises(ZeroDivisionError):
            await agent.run_agent()
        assert finalized == [True]
        assert body.closed == 1
        assert not agent.is_running

    run(main)


def test_a_subscriber_that_hangs() -> None:
    class Hangs(AgentSubscriber):
        async def on_step_started_event(self, call: Call) -> None:
            await asyncio.sleep(3600)

    async def main() -> None:
        body = Body([encoded(EVENTS)], waits=True)
        agent, watch = mocked(body), Watch()
        agent.subscribe(Hangs())
        reading = asyncio.ensure_future(agent.run_agent(subscriber=watch).result())
        await asyncio.sleep(0.01)
        agent.abort_run()
        await asyncio.sleep(0.01)
        # A callback that is running ends first; the task can be cancelled.
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert watch.lifecycle == ["initialized", "finalized"]
        assert not agent.is_running
        assert body.closed == 1

    run(main)


def test_a_subscriber_that_starts_another_run() -> None:
    refused: list[Exception] = []

    class Starts(AgentSubscriber):
        async def on_step_started_event(self, call: Call) -> None:
            await self.start(call)

        async def on_run_initialized(self, call: Call) -> None:
            await self.start(call)

        async def on_run_finalized(self, call: Call) -> None:
            await self.start(call)

        async def start(self, call: Call) -> None:
            try:
                await call.agent.run_agent("Again")
            except RunInProgressError as error:
                refused.append(error)
            # A clone may.
            if len(clones) < 2:
                clones.append(clone := call.agent.clone())
                assert (await clone.run_agent("More")).status == "success"

    clones: list[AbstractAgent] = []

    async def main() -> None:
        agent = mocked(Body([encoded(EVENTS)]))
        await check(agent, "success", 30, subscriber=Starts())
        assert len(refused) >= 3
        assert all(message["role"] != "user" for message in agent.messages)

    run(main)


def test_a_subscriber_that_mutates() -> None:
    class Mutates(AgentSubscriber):
        def on_text_message_content_event(self, call: Call) -> Mutation:
            return Mutation(messages=[])

        def on_state_delta_event(self, call: Call) -> Mutation:
            return Mutation(state="no object")

        async def on_tool_call_start_event(self, call: Call) -> Mutation:
            return Mutation(stop_propagation=True)

    async def main() -> None:
        # Deltas without what they are for are reported, and no reason to fail.
        seen: list[Any] = []
        agent = mocked(Body([encoded(EVENTS)]), on_deviation=seen.append)
        await check(agent, "success", 30, subscriber=Mutates())
        assert agent.state == "no object"
        assert len(seen) > 8

    run(main)


# -- runs at once, and runs that are dropped ------------------------------------------------


def test_two_runs_at_once() -> None:
    async def main() -> None:
        body = Body([encoded(EVENTS)])
        agent = mocked(body)
        results = await asyncio.gather(
            *[agent.run_agent().result() for _ in range(5)], return_exceptions=True
        )
        kinds = Counter(type(one).__name__ for one in results)
        assert kinds == {"RunResult": 1, "RunInProgressError": 4}
        assert body.closed == 1
        # Clones have nothing in common.
        clones = [agent.clone() for _ in range(5)]
        results = await asyncio.gather(*[one.run_agent(str(at)) for at, one in enumerate(clones)])
        assert [one.messages[-1]["content"] for one in clones] == [str(at) for at in range(5)]
        assert len(agent.messages) == 3

    run(main)


def test_two_readers_of_one_run() -> None:
    async def main() -> None:
        body = Body(pieces(encoded(EVENTS), 40))
        agent, seen = mocked(body), []
        async with agent.run_agent() as one:

            async def read() -> None:
                async for event in one:
                    seen.append(event["type"])
                    await asyncio.sleep(0)

            await asyncio.gather(read(), read(), return_exceptions=True)
        # Between them, once each.
        assert seen == TYPES

    run(main)


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_an_agent_that_is_dropped(closes: bool, ends: bool) -> None:
    async def serves(writer: asyncio.StreamWriter) -> None:
        # The connection stays open for another request.
        data = encoded(EVENTS if ends else EVENTS[:5])
        length = len(data) if ends else 10_000
        given = f"HTTP/1.1 200 OK\r\ncontent-type: {SSE}\r\ncontent-length: {length}\r\n\r\n"
        writer.write(given.encode() + data)
        await writer.drain()
        await asyncio.sleep(3600)

    async def main() -> None:
        async with Raw(serves) as raw:
            agent = HttpAgent(raw.url, thread_id="t", as_dict=True)
            async with AsyncExitStack() as stack:
                if closes:
                    await stack.enter_async_context(agent)
                async with agent.run_agent() as one:
                    async for event in one:
                        if event["type"] == "TEXT_MESSAGE_CONTENT" and not ends:
                            break
            del agent, one

    def warned() -> list[Any]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asyncio.run(main())
            gc.collect()
        return [one for one in caught if issubclass(one.category, ResourceWarning)]

    # A connection that is kept, and closed by nobody.
    assert bool(warned()) == (ends and not closes)


def test_a_run_that_is_dropped_ends() -> None:
    async def main() -> None:
        body = Body([encoded(EVENTS)], waits=True)
        agent, watch = mocked(body), Watch()
        await anext(agent.run_agent(subscriber=watch))
        gc.collect()
        await asyncio.sleep(0.01)
        assert watch.lifecycle == ["initialized", "finalized"]
        assert body.closed == 1
        assert not agent.is_running
        body.waits = False
        assert (await agent.run_agent()).status == "success"

    run(main, drops=True)


def test_the_agent_is_good_after_each_of_these() -> None:
    """One agent, one failure after the other, and a good run after each."""

    async def main() -> None:
        whole = encoded(EVENTS)
        good = answer(200, whole)
        bad = [
            answer(500),
            answer(200, b"<html>", "text/html"),
            answer(200, whole[:300]),
            answer(200, encoded([*EVENTS[:4], EVENTS[3]])),
            answer(200, b"data: {broken\n\n"),
            answer(200, b"\x00\x00\x00\x05ab", PROTOBUF),
            answer(200, b"x", SSE, content_encoding="gzip"),
        ]
        answers = [one for each in bad for one in (each, good)]
        async with Raw(*answers) as raw, HttpAgent(raw.url, thread_id="t") as agent:
            for _ in bad:
                with pytest.raises(
                    (HttpStatusError, ValueError),
                ):
                    await agent.run_agent()
                result = await agent.run_agent()
                assert result.status == "success"
                assert agent.state == {"n": 8, "ü": "漢"}

    run(main)
