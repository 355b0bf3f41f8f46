"""Runs that are cancelled, or aborted, at each of the points where they wait."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal

import anyio
import httpx
import pytest
from ag_ui.core import RunAgentInput

from agui_codec.client import AgentSubscriber, Call, HttpAgent, Middleware, Next, Run, tool
from agui_codec.client.testing import ScriptedAgent
from loopback import PROTOBUF, SSE, encoded, nothing_left

Event = dict[str, Any]
How = Literal["cancel", "abort", "detach", "close"]


# -- a coroutine that is stopped at its n-th wait -------------------------------------------


class Stepped:
    """Awaits a coroutine, and does something when it waits for the n-th time.

    Args:
        work: The coroutine.
        checkpoint: Which wait; the first is 1.
        then: Called there. If it gives an exception, the wait ends with that.

    Attributes:
        waits: How often it has waited so far.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, Any],
        checkpoint: int,
        then: Callable[[], BaseException | None],
    ) -> None:
        self._work = work
        self._checkpoint = checkpoint
        self._then = then
        self.waits = 0

    def __await__(self) -> Any:
        step: Callable[[], Any] = lambda: self._work.send(None)  # noqa: E731
        while True:
            try:
                waited_for = step()
            except StopIteration as done:
                return done.value
            self.waits += 1
            if self.waits == self._checkpoint and (error := self._then()) is not None:
                if waited_for is not None:
                    waited_for._asyncio_future_blocking = False
                    waited_for.cancel()
                step = lambda error=error: self._work.throw(error)  # type: ignore[misc]  # noqa: E731
                continue
            try:
                yield waited_for
            except BaseException as thrown:
                step = lambda error=thrown: self._work.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                step = lambda: self._work.send(None)  # noqa: E731


# -- a run that waits wherever a run can ----------------------------------------------------


def ids(body: dict[str, Any]) -> Event:
    return {"threadId": body["threadId"], "runId": body["runId"]}


def first(body: dict[str, Any]) -> list[Event]:
    """Text and two tool calls."""
    calls = [
        event
        for call in ("c1", "c2")
        for event in (
            {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "act"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": '{"at": 1}'},
            {"type": "TOOL_CALL_END", "toolCallId": call},
        )
    ]
    return [
        {"type": "RUN_STARTED", **ids(body)},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "漢字"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        *calls,
        {"type": "RUN_FINISHED", **ids(body)},
    ]


def second(body: dict[str, Any]) -> list[Event]:
    """An interrupt."""
    interrupts = [{"id": "i", "reason": "input_required"}]
    outcome = {"type": "interrupt", "interrupts": interrupts}
    return [
        {"type": "RUN_STARTED", **ids(body)},
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
        {"type": "RUN_FINISHED", **ids(body), "outcome": outcome},
    ]


def third(body: dict[str, Any]) -> list[Event]:
    """The end."""
    return [
        {"type": "RUN_STARTED", **ids(body)},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]},
        {"type": "RUN_FINISHED", **ids(body), "result": "done"},
    ]


class Body(httpx.AsyncByteStream):
    """The body of a response, which waits before each piece."""

    def __init__(self, data: bytes, size: int) -> None:
        self._pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self.open = False

    def __aiter__(self) -> Any:
        self.open = True
        self._left = iter(self._pieces)
        return self

    async def __anext__(self) -> bytes:
        await anyio.sleep(0)
        for piece in self._left:
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        try:
            await anyio.sleep(0)
        finally:
            self.open = False


class Server:
    """Plays the rounds over a transport of httpx, and counts what is open."""

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self.bodies: list[Body] = []
        self.rounds = [first, second, third]

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(0)
        body = json.loads(request.content)
        script = self.rounds[min(len(self.bodies), len(self.rounds) - 1)]
        data = encoded(script(body), self._content_type)
        self.bodies.append(Body(data, 150))
        headers = {"content-type": self._content_type}
        return httpx.Response(200, headers=headers, stream=self.bodies[-1])


class Watch(AgentSubscriber):
    """Waits in every callback, and notes what it was told."""

    def __init__(self) -> None:
        self.events: dict[str, list[str]] = {}
        self.rounds: dict[str, list[str]] = {}

    def note(self, call: Call, what: str) -> None:
        assert call.input is not None
        self.rounds.setdefault(call.input.run_id, []).append(what)

    async def on_run_initialized(self, call: Call) -> None:
        self.note(call, "initialized")
        await anyio.sleep(0)

    async def on_event(self, call: Call) -> None:
        assert call.input is not None
        self.events.setdefault(call.input.run_id, []).append(call.event["type"])
        await anyio.sleep(0)

    async def on_messages_changed(self, call: Call) -> None:
        await anyio.sleep(0)

    async def on_new_message(self, call: Call) -> None:
        await anyio.sleep(0)

    async def on_run_failed(self, call: Call) -> None:
        self.note(call, "failed")
        await anyio.sleep(0)

    async def on_run_finalized(self, call: Call) -> None:
        self.note(call, "finalized")
        await anyio.sleep(0)


class Waits(Middleware):
    """Waits before, between and after the events, and in the end."""

    def __init__(self) -> None:
        self.open = 0

    async def run(self, input: RunAgentInput, next: Next) -> AsyncIterator[Any]:
        self.open += 1
        try:
            await anyio.sleep(0)
            async for event in next(input):
                yield event
                await anyio.sleep(0)
        finally:
            self.open -= 1
            await anyio.sleep(0)


class Case:
    """One agent and one run, and what has to hold when it was stopped."""

    def __init__(self, *, middleware: bool, content_type: str = SSE) -> None:
        self.server = Server(content_type)
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self.server))
        self.agent = HttpAgent("http://host/", client=self.client, as_dict=True)
        self.watches = [Watch(), Watch()]
        for watch in self.watches:
            self.agent.subscribe(watch)
        self.middleware = [Waits(), Waits()] if middleware else []
        self.agent.use(*self.middleware)
        self.delivered: list[Event] = []
        self.acting = 0

        @tool
        async def act(at: int) -> str:
            self.acting += 1
            try:
                await anyio.sleep(0)
                return str(at)
            finally:
                self.acting -= 1

        async def answer(interrupts: Any) -> Any:
            await anyio.sleep(0)
            return {"i": {"yes": True}}

        self.one = self.agent.run_agent("Hi", tools=[act], on_interrupt=answer)

    async def read(self) -> Run:
        async with self.one:
            async for event in self.one:
                self.delivered.append(event)
                await anyio.sleep(0)
        return self.one

    def check(self, whole: list[str]) -> None:
        """What holds whenever and however a run was stopped."""
        assert self.agent.active_run is None
        assert self.acting == 0
        assert [body.open for body in self.server.bodies if body.open] == []
        assert [one.open for one in self.middleware] == [0] * len(self.middleware)
        types = [event["type"] for event in self.delivered]
        assert types == whole[: len(types)]
        one_watch, other = self.watches
        for run_id, calls in one_watch.rounds.items():
            assert calls.count("finalized") == 1, calls
            assert calls.count("initialized") == 1, calls
            assert calls[-1] == "finalized"
            assert "failed" not in calls
            # Nor may another subscriber be forgotten because of the first, or called twice.
            assert other.rounds.get(run_id, []).count("finalized") == 1
        seen = [kind for run_id in one_watch.rounds for kind in one_watch.events.get(run_id, [])]
        # What was delivered was seen; what was seen is at most one event further.
        assert types == seen[: len(types)]
        assert len(seen) - len(types) <= 1
        # The conversation is what the events say, and no event is half in it.
        self.agent.messages  # noqa: B018
        contents = [message.get("content") for message in self.agent.messages]
        assert set(contents) <= {"Hi", "漢字", "", None, "1"}

    async def runs_again(self) -> None:
        """The agent is as good as before."""
        for call in self.agent.pending_tool_calls:
            await self.agent.add_tool_result(call["id"], "late")  # type: ignore[index]
        self.server.rounds = [third]
        self.server.bodies = []
        self.agent._reducer.replace(state={"n": 1})
        result = await self.agent.run_agent(resume=self.agent.cancel_interrupts())
        assert (result.status, result.result) == ("success", "done")
        await self.client.aclose()


async def whole_run(**options: Any) -> tuple[list[str], int]:
    """The types of all events, and how often the whole run waits."""
    case = Case(**options)
    stepped = Stepped(case.read(), 0, lambda: None)
    one = await stepped
    assert one.snapshot.status == "success"
    assert one.rounds == 3
    types = [event["type"] for event in case.delivered]
    assert len(types) == 17
    case.check(types)
    await case.runs_again()
    return types, stepped.waits


OPTIONS = [
    {"middleware": False},
    {"middleware": True},
    {"middleware": True, "content_type": PROTOBUF},
]
NAMES = ["stages", "middleware", "protobuf"]


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_cancellation_at_every_checkpoint(options: dict[str, Any]) -> None:
    async def main() -> None:
        types, waits = await whole_run(**options)
        assert waits > 100
        for checkpoint in range(1, waits + 1):
            case = Case(**options)
            with pytest.raises(asyncio.CancelledError):
                await Stepped(case.read(), checkpoint, asyncio.CancelledError)
            case.check(types)
            await case.runs_again()

    async def checked() -> None:
        # With cyclic garbage left alone: what is closed is closed by the run.
        gc.disable()
        try:
            async with nothing_left():
                await main()
        finally:
            gc.enable()

    asyncio.run(checked())


@pytest.mark.parametrize("middleware", [False, True])
def test_two_cancellations_at_every_checkpoint(middleware: bool) -> None:
    """The second comes at the next wait, when the run is about to end: it gives up, in order."""

    async def main() -> None:
        types, waits = await whole_run(middleware=middleware)
        for checkpoint in range(1, waits + 1, 3):
            case = Case(middleware=middleware)
            again = Stepped(case.read(), checkpoint, asyncio.CancelledError)

            def twice(again: Stepped = again) -> BaseException:
                again._checkpoint += 1
                again._then = asyncio.CancelledError
                return asyncio.CancelledError()

            again._then = twice
            with pytest.raises(asyncio.CancelledError):
                await again
            assert case.agent.active_run is None
            for calls in case.watches[0].rounds.values():
                assert calls.count("finalized") <= 1
            assert [event["type"] for event in case.delivered] == types[: len(case.delivered)]
            await case.runs_again()

    async def checked() -> None:
        async with nothing_left():
            await main()

    asyncio.run(checked())


@pytest.mark.parametrize("how", ["abort", "detach"])
@pytest.mark.parametrize("options", OPTIONS[:2], ids=NAMES[:2])
def test_abort_at_every_checkpoint(options: dict[str, Any], how: How) -> None:
    async def main() -> None:
        types, waits = await whole_run(**options)
        background: list[asyncio.Task[None]] = []
        statuses: dict[str, int] = {}
        for checkpoint in range(1, waits + 1):
            case = Case(**options)

            def stop(case: Case = case) -> None:
                # As another task would, between two steps of this one.
                if how == "abort":
                    asyncio.get_running_loop().call_soon(case.one.abort)
                else:
                    background.append(asyncio.ensure_future(case.one.detach()))

            one = await asyncio.ensure_future(_task(Stepped(case.read(), checkpoint, stop)))
            status = one.snapshot.status
            statuses[status] = statuses.get(status, 0) + 1
            case.check(types)
            await case.runs_again()
        await asyncio.gather(*background)
        expected = "aborted" if how == "abort" else "detached"
        # In the very last waits there is nothing more to end.
        assert set(statuses) == {expected, "success"}
        assert statuses["success"] < 12

    async def checked() -> None:
        async with nothing_left():
            await main()

    asyncio.run(checked())


async def _task(stepped: Stepped) -> Any:
    result = await stepped
    # No cancellation is left for whatever comes next.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return result


@pytest.mark.parametrize("options", OPTIONS[:2], ids=NAMES[:2])
def test_left_at_every_event(options: dict[str, Any]) -> None:
    async def main() -> None:
        types, _ = await whole_run(**options)
        for count in range(len(types)):
            case = Case(**options)
            async with case.one as one:
                async for event in one:
                    case.delivered.append(event)
                    if len(case.delivered) > count:
                        break
            case.check(types)
            await case.runs_again()

    async def checked() -> None:
        async with nothing_left():
            await main()

    asyncio.run(checked())


@pytest.mark.parametrize("options", OPTIONS[:2], ids=NAMES[:2])
def test_cancellation_while_an_error_is_reported(options: dict[str, Any]) -> None:
    """A run that fails is cancelled wherever it waits: its last callbacks come all the same."""

    def broken(body: dict[str, Any]) -> list[Event]:
        return first(body)[:3]

    async def main() -> None:
        checkpoint = 0
        while True:
            checkpoint += 1
            case = Case(**options)
            case.server.rounds = [broken]
            stepped = Stepped(case.read(), checkpoint, asyncio.CancelledError)
            try:
                await stepped
            except asyncio.CancelledError:
                pass
            except ValueError:
                assert stepped.waits < checkpoint
                break
            for watch in case.watches:
                for calls in watch.rounds.values():
                    assert calls.count("finalized") == 1
                    assert calls.count("failed") <= 1
                    assert calls[-1] == "finalized"
            assert case.agent.active_run is None
            await case.runs_again()
        assert checkpoint > 15

    async def checked() -> None:
        async with nothing_left():
            await main()

    asyncio.run(checked())


# -- other event loops ----------------------------------------------------------------------


# httpx does not close its own generators, which trio warns of.
@pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")
@pytest.mark.parametrize("how", ["cancel", "abort"])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("middleware", [False, True])
def test_in_a_scope_of_anyio(backend: str, how: str, middleware: bool) -> None:
    """Cancelled by a scope, whose cancellation comes again at each wait until it is left."""

    async def main() -> None:
        for ticks in range(60):
            case = Case(middleware=middleware)

            async def stop(ticks: int, scope: anyio.CancelScope, case: Case) -> None:
                for _ in range(ticks * 3):
                    await anyio.sleep(0)
                if how == "cancel":
                    scope.cancel()
                else:
                    case.one.abort()

            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    group.start_soon(stop, ticks, scope, case)
                    await case.read()
            types = [event["type"] for event in case.delivered]
            case.check(types)
            await case.runs_again()

    if backend == "trio":
        pytest.importorskip("trio")
    anyio.run(main, backend=backend)


def test_on_trio() -> None:
    pytest.importorskip("trio")

    async def main() -> None:
        case = Case(middleware=True)
        one = await case.read()
        assert one.snapshot.status == "success"
        assert len(case.delivered) == 17
        await case.runs_again()

        async def hold(scope: anyio.CancelScope) -> None:
            await anyio.sleep(0.01)
            scope.cancel()

        agent = ScriptedAgent([3600.0])
        watch = Watch()
        agent.subscribe(watch)
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(hold, scope)
                await agent.run_agent()
        assert [*watch.rounds.values()] == [["initialized", "finalized"]]
        assert not agent.is_running

    anyio.run(main, backend="trio")


def test_timeouts_end_a_run() -> None:
    async def main() -> None:
        agent = ScriptedAgent([3600.0], as_dict=True)
        watch = Watch()
        agent.subscribe(watch)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(agent.run_agent().result(), 0.02)
        assert [*watch.rounds.values()] == [["initialized", "finalized"]]
        assert not agent.is_running

    asyncio.run(main())


def test_abort_from_another_thread() -> None:
    async def main() -> None:
        agent = ScriptedAgent([3600.0])
        one = agent.run_agent()

        async def abort() -> None:
            await asyncio.sleep(0.01)
            await asyncio.to_thread(one.abort)

        aborting = asyncio.ensure_future(abort())
        assert (await asyncio.wait_for(one.result(), 5)).status == "aborted"
        await aborting

    asyncio.run(main())
