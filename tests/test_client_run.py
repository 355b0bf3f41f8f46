"""Runs: how they begin, are read, and end."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    UserMessage,
)

from agui_codec import SequenceError
from agui_codec.client import (
    AbstractAgent,
    AgentSubscriber,
    AgentUsageError,
    Call,
    ConnectNotImplementedError,
    Mutation,
    Run,
    RunError,
    RunFailedError,
    RunInProgressError,
    TruncatedRunError,
)
from agui_codec.client.testing import Recording, ScriptedAgent, assert_conformant
from streams import content, end, start

HELLO = [TextMessageChunkEvent(message_id="m", delta="Hel"), TextMessageChunkEvent(delta="lo")]


class Log(AgentSubscriber):
    """The lifecycle, as it comes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: list[Exception | None] = []

    def on_run_initialized(self, call: Call) -> None:
        self.calls.append("initialized")

    def on_run_failed(self, call: Call) -> None:
        self.calls.append("failed")
        self.errors.append(call.error)

    async def on_run_finalized(self, call: Call) -> None:
        self.calls.append("finalized")
        await asyncio.sleep(0)


async def collect(one: Run, delivered: list[Any]) -> None:
    async for event in one:
        delivered.append(event)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


# -- reading --------------------------------------------------------------------------------


def test_awaited() -> None:
    async def main() -> None:
        agent = ScriptedAgent(HELLO)
        result = await agent.run_agent("Hi")
        assert result.text == "Hello"
        assert result.status == "success"
        assert [message.role for message in agent.messages] == ["user", "assistant"]
        assert [message.id for message in result.new_messages] == ["m"]
        assert agent.inputs[0].messages[0].content == "Hi"
        assert agent.inputs[0].state == {}
        assert result.run_ids == [agent.inputs[0].run_id]

    run(main)


def test_nothing_happens_before_a_run_is_read() -> None:
    async def main() -> None:
        agent = ScriptedAgent(HELLO)
        one = agent.run_agent("Hi")
        await asyncio.sleep(0)
        assert agent.messages == []
        assert agent.active_run is None
        assert one.snapshot.status == "running"
        # Nor is an unused one reported.
        del one
        gc.collect()

    run(main)


def test_an_event_is_applied_when_it_comes() -> None:
    async def main() -> None:
        agent = ScriptedAgent(HELLO)
        seen = []
        async with agent.run_agent() as one:
            async for event in one:
                assert agent.active_run is one
                if isinstance(event, TextMessageContentEvent):
                    seen.append((event.delta, agent.messages[-1].content))
        assert seen == [("Hel", "Hel"), ("lo", "Hello")]
        assert agent.active_run is None
        assert await one.result() == one.snapshot

    run(main)


def test_text_stream_is_of_the_assistant() -> None:
    script = [
        *[start("u", role="user"), content("no", "u"), end("u")],
        *[start("a"), content("yes", "a"), end("a")],
    ]

    async def main() -> None:
        for as_dict in (True, False):
            async with ScriptedAgent(script, as_dict=as_dict).run_agent() as one:
                assert [text async for text in one.text_stream] == ["yes"]
                assert one.snapshot.text == "yes"

    run(main)


def test_run_sync() -> None:
    agent = ScriptedAgent(HELLO, HELLO)
    assert agent.run_sync("Hi").text == "Hello"

    async def main() -> None:
        with pytest.raises(RuntimeError, match="await run_agent"):
            agent.run_sync("Hi")

    run(main)


def test_on_trio() -> None:
    pytest.importorskip("trio")

    async def main() -> None:
        agent = ScriptedAgent([*HELLO, 60.0])
        async with anyio.create_task_group() as group:
            one = agent.run_agent("Hi")

            async def abort() -> None:
                await anyio.sleep(0.05)
                one.abort()

            group.start_soon(abort)
            assert (await one).status == "aborted"

    anyio.run(main, backend="trio")


# -- ending ---------------------------------------------------------------------------------


def test_run_error_is_an_event_and_is_raised_when_awaited() -> None:
    script = [*HELLO, {"type": "RUN_ERROR", "message": "no quota", "code": "quota"}]

    async def main() -> None:
        log = Log()
        agent = ScriptedAgent(script)
        agent.subscribe(log)
        one = agent.run_agent()
        events = [event async for event in one]
        assert events[-1].type == "RUN_ERROR"
        assert one.snapshot.status == "error"
        assert log.calls == ["initialized", "finalized"]
        with pytest.raises(RunFailedError) as caught:
            await ScriptedAgent(script).run_agent()
        assert (caught.value.message, caught.value.code) == ("no quota", "quota")
        assert caught.value.result.text == "Hello"
        assert not isinstance(caught.value, SequenceError)

    run(main)


@pytest.mark.parametrize("script", [[], HELLO])
def test_truncated(script: list[Any]) -> None:
    class Cut(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            if script:
                yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            for event in script:
                yield event

    async def main() -> None:
        log, agent = Log(), Cut()
        delivered: list[Any] = []
        agent.subscribe(log)
        with pytest.raises(TruncatedRunError) as caught:
            await collect(agent.run_agent(), delivered)
        assert caught.value.events == len(delivered) == (4 if script else 0)
        assert caught.value.result.text == ("Hello" if script else "")
        assert caught.value.result.status == "truncated"
        assert log.calls == ["initialized", "failed", "finalized"]
        assert log.errors == [caught.value]

    run(main)


def test_events_come_before_the_error_and_it_stays() -> None:
    async def main() -> None:
        agent = ScriptedAgent([start(), content("a"), content("b", "other")])
        one = agent.run_agent()
        delivered: list[Any] = []
        with pytest.raises(SequenceError):
            await collect(one, delivered)
        assert len(delivered) == 3
        with pytest.raises(SequenceError):
            await one.result()
        assert one.snapshot.status == "error"

    run(main)


def test_a_producer_that_raises() -> None:
    class Synchronous(AbstractAgent):
        def run(self, input: RunAgentInput) -> Any:
            raise OSError("at once")

    class Coroutine_(AbstractAgent):
        async def run(self, input: RunAgentInput) -> Any:  # type: ignore[override]
            return []

    class NotAsync(AbstractAgent):
        def run(self, input: RunAgentInput) -> Any:
            return []

    async def main() -> None:
        cases: list[tuple[AbstractAgent, Any, str]] = [
            (ScriptedAgent([*HELLO, OSError("late")]), OSError, "late"),
            (Synchronous(), OSError, "at once"),
            (Coroutine_(), TypeError, "Coroutine_.run is a coroutine function"),
            (NotAsync(), TypeError, "NotAsync.run returned list"),
        ]
        for agent, error, says in cases:
            log = Log()
            agent.subscribe(log)
            with pytest.raises(error, match=says):
                await agent.run_agent()
            assert log.calls == ["initialized", "failed", "finalized"]
            assert not agent.is_running

    run(main)


def test_on_run_failed_may_keep_the_error() -> None:
    class Keep(Log):
        def on_run_failed(self, call: Call) -> Mutation:  # type: ignore[override]
            return Mutation(stop_propagation=True, state={"failed": True})

    async def main() -> None:
        agent = ScriptedAgent([OSError()])
        agent.subscribe(Keep())
        result = await agent.run_agent()
        assert result.status == "error"
        assert agent.state == {"failed": True}

    run(main)


# -- one run at a time ----------------------------------------------------------------------


def test_one_run_at_a_time() -> None:
    async def main() -> None:
        agent = ScriptedAgent([*HELLO, 0.05], HELLO)
        async with agent.run_agent("a") as one:
            with pytest.raises(RunInProgressError, match=one.run_id):
                await agent.run_agent("b")
            assert agent.active_run is one
            clone = agent.clone()
            assert not clone.is_running
            await clone.run_agent("c")
            await one
        assert [message.content for message in agent.messages] == ["a", "Hello"]
        assert isinstance(RunInProgressError(), AgentUsageError)

    run(main)


def test_the_second_of_two_tasks_is_refused() -> None:
    async def main() -> None:
        agent = ScriptedAgent([*HELLO, 0.01])
        results = await asyncio.gather(
            agent.run_agent("a").result(), agent.run_agent("b").result(), return_exceptions=True
        )
        assert [type(result).__name__ for result in results] == ["RunResult", "RunInProgressError"]

    run(main)


def test_after_a_break_without_async_with() -> None:
    async def main() -> None:
        log, agent = Log(), ScriptedAgent(HELLO, HELLO)
        agent.subscribe(log)
        async for _ in agent.run_agent():
            break
        gc.collect()
        await asyncio.sleep(0.01)
        assert log.calls == ["initialized", "finalized"]
        assert (await agent.run_agent()).status == "success"

    run(main)


# -- abort, detach, cancellation ------------------------------------------------------------


def waits(log: Log, **options: Any) -> tuple[ScriptedAgent, list[str]]:
    """An agent that waits for ever after some events, and what its producer's end was."""
    ended: list[str] = []

    class Waits(ScriptedAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            try:
                async with aclosing(super().run(input)) as script:
                    async for event in script:
                        yield event
            except BaseException as error:
                ended.append(type(error).__name__)
                raise

    agent = Waits([*HELLO, 3600.0], HELLO, **options)
    agent.subscribe(log)
    return agent, ended


def test_abort_while_waiting() -> None:
    async def main() -> None:
        log = Log()
        agent, ended = waits(log)
        asyncio.get_running_loop().call_later(0.02, agent.abort_run)
        one = agent.run_agent()
        result = await one
        assert (result.status, result.text) == ("aborted", "Hello")
        assert ended == ["CancelledError"]
        assert log.calls == ["initialized", "finalized"]
        task = asyncio.current_task()
        assert task is not None
        assert sys.version_info < (3, 11) or task.cancelling() == 0
        one.abort()
        assert (await agent.run_agent()).status == "success"

    run(main)


def test_abort_in_the_loop_and_in_a_callback() -> None:
    class Aborts(Log):
        def on_text_message_start_event(self, call: Call) -> None:
            assert call.run is not None
            call.run.abort()

    async def main() -> None:
        for log in (Log(), Aborts()):
            agent, ended = waits(log)
            kinds = []
            async for event in (one := agent.run_agent()):
                kinds.append(event.type)
                if event.type == "TEXT_MESSAGE_START":
                    one.abort()
                    one.abort()
            assert kinds == ["RUN_STARTED", "TEXT_MESSAGE_START"]
            assert one.snapshot.status == "aborted"
            assert log.calls == ["initialized", "finalized"]
            assert ended == ["GeneratorExit"]

    run(main)


def test_abort_before_the_start() -> None:
    async def main() -> None:
        log, agent = Log(), ScriptedAgent(HELLO)
        agent.subscribe(log)
        one = agent.run_agent("Hi")
        one.abort()
        assert (await one).status == "aborted"
        assert agent.messages == []
        assert log.calls == []

    run(main)


def test_an_aborted_run_that_nobody_comes_back_to() -> None:
    async def main() -> None:
        log = Log()
        agent, _ = waits(log)
        stream = aiter(one := agent.run_agent())
        await anext(stream)
        one.abort()
        assert (await agent.run_agent()).status == "success"
        assert one.snapshot.status == "aborted"
        assert log.calls == ["initialized", "finalized"] * 2

    run(main)


def test_detach() -> None:
    async def main() -> None:
        log = Log()
        agent, ended = waits(log)
        one = agent.run_agent()
        reading = asyncio.ensure_future(one.result())
        await asyncio.sleep(0.02)
        await agent.detach_active_run()
        assert log.calls == ["initialized", "finalized"]
        assert (await reading).status == "detached"
        assert ended == ["CancelledError"]
        async with agent.run_agent() as one:
            await anext(one)
            await one.detach()
            assert [event async for event in one] == []
        assert one.snapshot.status == "detached"

    run(main)


def test_detach_in_a_callback_does_not_wait() -> None:
    class Detaches(Log):
        async def on_run_started_event(self, call: Call) -> None:
            assert call.run is not None
            await call.run.detach()

    async def main() -> None:
        agent, _ = waits(Detaches())
        assert (await agent.run_agent()).status == "detached"

    run(main)


class Cancels(asyncio.Task[Any]):
    """A task that is cancelled when it waits for the n-th time."""


def drive(make: Callable[[], Coroutine[Any, Any, Any]], checkpoint: int) -> bool:
    """Run a coroutine, cancelled at a checkpoint, and tell whether it came so far."""
    reached = False

    class Counted:
        """Awaits a coroutine, counting how often it waits."""

        def __await__(self) -> Any:
            nonlocal reached
            inner = make().__await__()
            count, send = 0, inner.__next__
            while True:
                try:
                    waited_for = send()
                except StopIteration as done:
                    return done.value
                count += 1
                if count == checkpoint:
                    reached = True
                    if waited_for is not None:
                        waited_for._asyncio_future_blocking = False
                        waited_for.cancel()
                    send = lambda: inner.throw(asyncio.CancelledError())  # noqa: E731
                    continue
                try:
                    yield waited_for
                except BaseException as error:
                    send = lambda error=error: inner.throw(error)  # noqa: E731
                else:
                    send = inner.__next__

    async def main() -> None:
        try:
            await Counted()
        except asyncio.CancelledError:
            assert reached
        current = asyncio.current_task()
        assert [task for task in asyncio.all_tasks() if task is not current] == []

    asyncio.run(main())
    return reached


def test_cancellation_at_every_checkpoint() -> None:
    events: list[list[Any]] = []

    class Async(Log):
        async def on_event(self, call: Call) -> None:
            await asyncio.sleep(0)

        async def on_run_initialized(self, call: Call) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.calls.append("initialized")

    checkpoint = 0
    while True:
        checkpoint += 1
        log = Async()
        closed: list[str] = []

        class Closing(ScriptedAgent):
            async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
                closed.append("open")  # noqa: B023
                try:
                    async with aclosing(super().run(input)) as script:
                        async for event in script:
                            yield event
                finally:
                    closed.append("closed")  # noqa: B023

        agent = Closing([0.0, *HELLO, 0.0])
        agent.subscribe(log)
        seen: list[Any] = []
        events.append(seen)

        async def main() -> None:
            async with agent.run_agent() as one:  # noqa: B023
                async for event in one:
                    seen.append(event.type)  # noqa: B023

        reached = drive(main, checkpoint)
        assert not agent.is_running
        assert closed in ([], ["open", "closed"])
        # Cancelled in its first callback, a run is finalized all the same.
        assert log.calls.count("finalized") == 1, checkpoint
        if not reached:
            break
    assert checkpoint > 10
    assert all(seen == events[-1][: len(seen)] for seen in events)
    assert len(events[-1]) == 6


def test_finalisation_is_bounded_when_cancelled() -> None:
    class Hangs(AgentSubscriber):
        async def on_run_finalized(self, call: Call) -> None:
            await asyncio.sleep(3600)

    async def main() -> None:
        agent = ScriptedAgent([3600.0])
        agent.subscribe(Hangs())
        task = asyncio.ensure_future(agent.run_agent().result())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)


# -- the rest -------------------------------------------------------------------------------


def test_connect() -> None:
    class Joins(ScriptedAgent):
        def connect(self, input: RunAgentInput) -> Any:
            return super().run(input)

    async def main() -> None:
        agent = Joins(
            [
                RunStartedEvent(thread_id="t", run_id="r"),
                RunFinishedEvent(thread_id="t", run_id="r"),
            ],
            thread_id="t",
        )
        assert (await agent.connect_agent()).status == "success"

        class Empty(ScriptedAgent):
            async def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
                return
                yield

        assert (await Empty().connect_agent()).status == "success"
        with pytest.raises(ConnectNotImplementedError, match="ScriptedAgent"):
            await ScriptedAgent().connect_agent()

    run(main)


def test_subscriber_errors(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(AgentSubscriber):
        def on_text_message_content_event(self, call: Call) -> Any:
            raise ZeroDivisionError

        async def on_messages_changed(self, call: Call) -> Any:
            raise ZeroDivisionError

        def on_run_finished_event(self, call: Call) -> Any:
            return "no mutation"

    async def main() -> None:
        agent = ScriptedAgent(HELLO)
        agent.subscribe(Broken())
        with caplog.at_level(logging.ERROR, "agui_codec.client"):
            assert (await agent.run_agent()).text == "Hello"
        assert "on_text_message_content_event failed; the run goes on" in caplog.text
        assert "returned str, expected Mutation or None" in caplog.text
        strict = ScriptedAgent(HELLO, on_subscriber_error="raise")
        strict.subscribe(Broken())
        with pytest.raises(ZeroDivisionError):
            await strict.run_agent()

    run(main)


def test_a_callback_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match=r"on_text: AgentSubscriber has no such callback"):

        class Wrong(AgentSubscriber):
            def on_text(self, call: Call) -> None: ...


def test_unsubscribe() -> None:
    async def main() -> None:
        log, agent = Log(), ScriptedAgent(HELLO, HELLO, HELLO)
        with agent.subscribe(log):
            await agent.run_agent()
        unsubscribe = agent.subscribe(log)
        unsubscribe()
        unsubscribe()
        await agent.run_agent()
        assert log.calls == ["initialized", "finalized"]

    run(main)


def test_delta_is_applied_to_messages_that_a_callback_replaced() -> None:
    class Replaces(AgentSubscriber):
        def on_text_message_content_event(self, call: Call) -> Mutation:
            return Mutation(messages=[*call.messages])

    async def main() -> None:
        agent = ScriptedAgent(HELLO)
        agent.subscribe(Replaces())
        assert (await agent.run_agent()).text == "Hello"

    run(main)


def test_partial_tool_call_args() -> None:
    seen: list[Any] = []

    class Args(AgentSubscriber):
        def on_tool_call_args_event(self, call: Call) -> None:
            seen.append(call.partial_tool_call_args)

    async def main() -> None:
        script = [
            {
                "type": "TOOL_CALL_CHUNK",
                "toolCallId": "c",
                "toolCallName": "f",
                "delta": '{"a": "x',
            },
            *(
                {"type": "TOOL_CALL_CHUNK", "delta": delta}
                for delta in ('y", "b"', ": [1, 2", "]}")
            ),
        ]
        agent = ScriptedAgent(script)
        agent.subscribe(Args())
        await agent.run_agent()
        assert seen == [{}, {"a": "x"}, {"a": "xy"}, {"a": "xy", "b": [1, 2]}]

    run(main)


def test_recording(tmp_path: Any) -> None:
    async def main() -> None:
        agent = ScriptedAgent(HELLO, HELLO)
        with Recording(agent) as recording:
            await agent.run_agent()
        await agent.run_agent()
        assert len(recording.events) == 6
        assert_conformant(recording.events)
        recording.save(tmp_path / "run.sse")
        recording.save(tmp_path / "run.jsonl")
        assert (tmp_path / "run.sse").read_text().count("data: ") == 6
        assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 6
        with pytest.raises(AssertionError, match="event 1"):
            assert_conformant([recording.events[0], content("x", "nobody")])
        with pytest.raises(AssertionError, match="terminal"):
            assert_conformant(recording.events[:-1])

    run(main)


def test_errors_have_the_result() -> None:
    assert issubclass(TruncatedRunError, RunError)
    assert issubclass(RunError, ValueError)
    assert isinstance(ScriptedAgent().run_agent(), Run)


def test_the_package_does_not_import_it() -> None:
    code = """
import sys, agui_codec
def loaded(*names): return [one for one in sys.modules if one.startswith(names)]
assert not loaded("agui_codec.client", "httpx", "anyio")
import agui_codec.client
assert not loaded("agui_codec.client.http", "httpx", "anyio")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("as_dict", [False, True])
def test_a_run_has_started_though_its_event_is_stopped(as_dict: bool) -> None:
    class Stop(AgentSubscriber):
        def on_run_started_event(self, call: Call) -> Mutation:
            return Mutation(stop_propagation=True)

    def starts(input: RunAgentInput) -> list[Any]:
        echoed = RunAgentInput(**{**dict(input), "messages": [UserMessage(id="e", content="no")]})
        return [RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id, input=echoed)]

    def interrupted(input: RunAgentInput) -> list[Any]:
        outcome = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "input_required"}]}
        return [tool_call_start("c"), tool_call_end("c"), finished(input, outcome=outcome)]

    async def main() -> None:
        agent = ScriptedAgent(
            interrupted, lambda input: [*starts(input), finished(input)], as_dict=as_dict
        )
        await agent.run_agent()
        assert agent._reducer.pending_tool_calls == ["c"]
        agent.subscribe(Stop())
        result = await agent.run_agent(resume={"i": "yes"})
        # What it answers, and what is pending of it, is of this run; its messages are left out.
        assert agent.pending_interrupts == []
        assert agent._reducer.pending_tool_calls == []
        assert result.new_messages == []

    def finished(input: RunAgentInput, **more: Any) -> dict[str, Any]:
        ids = {"threadId": input.thread_id, "runId": input.run_id}
        return {"type": "RUN_FINISHED", **ids, **more}

    def tool_call_start(call: str) -> dict[str, Any]:
        return {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "f"}

    def tool_call_end(call: str) -> dict[str, Any]:
        return {"type": "TOOL_CALL_END", "toolCallId": call}

    run(main)
