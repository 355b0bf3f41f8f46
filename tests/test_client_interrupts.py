"""Interrupts: how they are answered, by the caller and by the run itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ag_ui.core import Interrupt, ResumeEntry, RunAgentInput

from agui_codec import AGUIError, EventReducer
from agui_codec.client import (
    AgentSubscriber,
    Call,
    InterruptError,
    ToolRoundsError,
    build_resume,
    cancel,
    is_interrupt_expired,
    resolve,
    tool,
)
from agui_codec.client.testing import ScriptedAgent
from streams import Event, content, end, event, start

DONE = [start(), content("Done."), end()]
PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def interrupt(interrupt_id: str, **fields: Any) -> Event:
    return {"id": interrupt_id, "reason": "input_required", **fields}


def interrupted(*interrupts: Event) -> Callable[[RunAgentInput], list[Any]]:
    """A script that ends with interrupts."""

    def script(input: RunAgentInput) -> list[Any]:
        ids = {"threadId": input.thread_id, "runId": input.run_id}
        outcome = {"type": "interrupt", "interrupts": list(interrupts)}
        return [event("RUN_FINISHED", outcome=outcome, **ids)]

    return script


def resumed(agent: ScriptedAgent, number: int = -1) -> list[Event]:
    """What an input answered, as on the wire."""
    given = json.loads(agent.inputs[number].model_dump_json(by_alias=True, exclude_none=True))
    return given.get("resume", [])  # type: ignore[no-any-return]


async def paused(*interrupts: Event, **options: Any) -> ScriptedAgent:
    agent = ScriptedAgent(interrupted(*interrupts), DONE, **options)
    result = await agent.run_agent("Hi")
    assert result.status == "interrupt"
    assert len(result.interrupts) == len(agent.pending_interrupts) == len(interrupts)
    return agent


# -- answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("as_dict", [False, True])
def test_resolved_and_cancelled(as_dict: bool) -> None:
    sent = [
        {"interruptId": "a", "status": "resolved", "payload": {"approved": True}},
        {"interruptId": "b", "status": "cancelled"},
    ]
    entries = [
        ResumeEntry(interrupt_id="a", status="resolved", payload={"approved": True}),
        {"interruptId": "b", "status": "cancelled"},
    ]
    given: list[Any] = [
        {"a": resolve({"approved": True}), "b": cancel()},
        {"b": cancel(), "a": {"approved": True}},
        {"a": entries[0], "b": cancel()},
        entries,
        (one for one in entries),
    ]

    async def main() -> None:
        for resume in given:
            agent = await paused(interrupt("a"), interrupt("b"), as_dict=as_dict)
            assert (await agent.run_agent(resume=resume)).status == "success"
            assert sorted(resumed(agent), key=lambda one: str(one["interruptId"])) == sent
            assert agent.pending_interrupts == []

    run(main)


def test_payloads_and_metadata() -> None:
    cases: list[tuple[Any, Event]] = [
        (resolve(), {"status": "resolved"}),
        (resolve(False), {"status": "resolved", "payload": False}),
        (
            resolve(0, metadata={"by": "me"}),
            {"status": "resolved", "payload": 0, "metadata": {"by": "me"}},
        ),
        (cancel(metadata={"why": "late"}), {"status": "cancelled", "metadata": {"why": "late"}}),
        ("yes", {"status": "resolved", "payload": "yes"}),
        ([1], {"status": "resolved", "payload": [1]}),
    ]  # fmt: skip

    async def main() -> None:
        for answer, expected in cases:
            agent = await paused(interrupt("a"))
            await agent.run_agent(resume={"a": answer})
            assert resumed(agent) == [{"interruptId": "a", **expected}]

    run(main)
    assert repr(resolve({"a": 1})) == "Answer(status='resolved', payload={'a': 1})"


class Log(AgentSubscriber):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_run_initialized(self, call: Call) -> None:
        self.calls.append("initialized")

    def on_run_failed(self, call: Call) -> None:
        self.calls.append("failed")

    def on_run_finalized(self, call: Call) -> None:
        self.calls.append("finalized")

    def on_messages_changed(self, call: Call) -> None:
        self.calls.append("messages")


@pytest.mark.parametrize(
    ("resume", "says"),
    [
        (None, "a"),
        ([], "a"),
        ({}, "a"),
        ({"a": resolve()}, "b"),
        ({"a": resolve(), "b": resolve(), "unknown": cancel()}, "unknown"),
        ([{"interruptId": "a", "status": "cancelled"}] * 2, "a"),
        ({"a": resolve(), "b": resolve(), "late": resolve()}, "late"),
    ],
)
def test_a_run_that_does_not_answer_is_refused_before_anything_is_sent(
    resume: Any, says: str
) -> None:
    async def main() -> None:
        pending = [interrupt("a"), interrupt("b", expiresAt=FUTURE)]
        if says == "late":
            pending.append(interrupt("late", expiresAt=PAST))
        agent, log = await paused(*pending), Log()
        agent.subscribe(log)
        with pytest.raises(InterruptError, match=says):
            await agent.run_agent("And now?", resume=resume)
        assert log.calls == []
        assert len(agent.inputs) == len(agent.messages) == 1
        assert agent.active_run is None
        assert len(agent.pending_interrupts) == len(pending)
        # The next one may be right.
        answers = {**dict.fromkeys("ab", resolve()), "late": cancel()}
        right = {one["id"]: answers[one["id"]] for one in pending}
        assert (await agent.run_agent("And now?", resume=right)).text == "Done."

    run(main)


def test_nothing_to_answer() -> None:
    async def main() -> None:
        agent = ScriptedAgent(DONE)
        with pytest.raises(InterruptError, match="int-1"):
            await agent.run_agent(resume={"int-1": resolve()})
        assert (await agent.run_agent(resume={})).status == "success"

    run(main)


def test_cancel_interrupts() -> None:
    async def main() -> None:
        for as_dict in (False, True):
            agent = await paused(interrupt("a"), interrupt("b", expiresAt=PAST), as_dict=as_dict)
            await agent.run_agent("Never mind.", resume=agent.cancel_interrupts())
            assert [one["status"] for one in resumed(agent)] == ["cancelled"] * 2
            assert agent.cancel_interrupts() == []

    run(main)


def test_they_stay_until_a_run_that_answers_them_has_finished() -> None:
    async def main() -> None:
        agent = ScriptedAgent(interrupted(interrupt("a")), [OSError("gone")], DONE)
        await agent.run_agent()
        with pytest.raises(OSError, match="gone"):
            await agent.run_agent(resume={"a": "yes"})
        assert [one.id for one in agent.pending_interrupts] == ["a"]
        await agent.run_agent(resume={"a": "yes"})
        assert agent.pending_interrupts == []

    run(main)


# -- a run that answers by itself -----------------------------------------------------------


@pytest.mark.parametrize("as_dict", [False, True])
def test_on_interrupt(as_dict: bool) -> None:
    asked: list[list[str]] = []

    async def answer(interrupts: list[Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        ids = [one["id"] if as_dict else one.id for one in interrupts]
        asked.append(ids)
        return {one: {"for": one} for one in ids}

    async def main() -> None:
        agent = ScriptedAgent(
            interrupted(interrupt("a"), interrupt("b")),
            interrupted(interrupt("c")),
            DONE,
            as_dict=as_dict,
        )
        log = Log()
        agent.subscribe(log)
        one = agent.run_agent("Hi", on_interrupt=answer)
        result = await one
        assert (result.status, result.text, one.rounds) == ("success", "Done.", 3)
        assert asked == [["a", "b"], ["c"]]
        assert [one["interruptId"] for one in resumed(agent, 1)] == ["a", "b"]
        assert resumed(agent, 2) == [
            {"interruptId": "c", "status": "resolved", "payload": {"for": "c"}}
        ]
        assert log.calls.count("initialized") == log.calls.count("finalized") == 3
        assert result.interrupts == []

    run(main)


def test_none_stops() -> None:
    async def nobody(interrupts: list[Interrupt]) -> None:
        return None

    async def main() -> None:
        agent = ScriptedAgent(interrupted(interrupt("a")))
        result = await agent.run_agent(on_interrupt=nobody)
        assert result.status == "interrupt"
        assert [one.id for one in result.interrupts] == ["a"]
        assert agent.active_run is None

    run(main)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ({}, InterruptError, "no answer to interrupt 'a'"),
        ({"a": 1, "z": 2}, InterruptError, "interrupt 'z' is not pending"),
        (ZeroDivisionError("broken"), ZeroDivisionError, "broken"),
    ],
)
def test_wrong_answers(answer: Any, error: type[Exception], says: str) -> None:
    async def wrong(interrupts: list[Interrupt]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        agent = ScriptedAgent(interrupted(interrupt("a")), DONE)
        one = agent.run_agent(on_interrupt=wrong)
        with pytest.raises(error, match=says):
            await one
        assert (one.rounds, len(one.snapshot.run_ids)) == (1, 1)
        assert agent.active_run is None
        # It is pending, as before.
        assert (await agent.run_agent(resume={"a": 1})).text == "Done."

    run(main)


def test_one_that_expires_while_it_is_answered() -> None:
    soon = (datetime.now(timezone.utc) + timedelta(seconds=0.15)).isoformat()

    async def slowly(interrupts: list[Interrupt]) -> dict[str, Any]:
        assert not is_interrupt_expired(interrupts[0])
        await asyncio.sleep(0.2)
        return {"a": "yes"}

    async def main() -> None:
        log = Log()
        agent = ScriptedAgent(interrupted(interrupt("a", expiresAt=soon)), DONE)
        agent.subscribe(log)
        one = agent.run_agent(on_interrupt=slowly)
        with pytest.raises(InterruptError, match=r"'a'.*expired"):
            await one
        assert (one.rounds, len(one.snapshot.run_ids), len(agent.inputs)) == (1, 1, 1)
        assert log.calls == ["initialized", "finalized"]
        assert is_interrupt_expired(agent.pending_interrupts[0])
        assert (await agent.run_agent(resume={"a": cancel()})).text == "Done."

    run(main)


@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_the_run_ends_while_it_waits_for_an_answer(how: str) -> None:
    async def never(interrupts: list[Interrupt]) -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        agent = ScriptedAgent(interrupted(interrupt("a")), DONE)
        one = agent.run_agent(on_interrupt=never)
        task = asyncio.ensure_future(one.result())
        await asyncio.sleep(0.01)
        if how == "abort":
            one.abort()
            assert (await task).status == "aborted"
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert agent.active_run is None
        assert len(agent.pending_interrupts) == 1

    run(main)


def test_a_run_that_is_interrupted_for_ever() -> None:
    async def answer(interrupts: list[Interrupt]) -> dict[str, Any]:
        return {one.id: True for one in interrupts}

    async def main() -> None:
        agent = ScriptedAgent(*(interrupted(interrupt(f"i{n}")) for n in range(5)))
        with pytest.raises(ToolRoundsError, match="after 3 rounds") as caught:
            await agent.run_agent(on_interrupt=answer, max_rounds=3)
        assert "tools" not in str(caught.value)
        assert caught.value.result.status == "interrupt"
        assert [one.id for one in agent.pending_interrupts] == ["i2"]

    run(main)


def test_tools_and_interrupts_in_turn() -> None:
    @tool
    def look() -> str:
        return "seen"

    async def answer(interrupts: list[Interrupt]) -> dict[str, Any]:
        return {one.id: "go" for one in interrupts}

    calls = [
        event("TOOL_CALL_START", toolCallId="c", toolCallName="look"),
        event("TOOL_CALL_END", toolCallId="c"),
    ]

    async def main() -> None:
        agent = ScriptedAgent(interrupted(interrupt("a")), calls, DONE)
        result = await agent.run_agent(tools=[look], on_interrupt=answer)
        assert result.text == "Done."
        # What was answered once is not answered again.
        assert [len(resumed(agent, n)) for n in range(3)] == [0, 1, 0]
        # An unanswered call of a run that is interrupted goes on, too.
        agent = ScriptedAgent(lambda given: [*calls, *interrupted(interrupt("a"))(given)], DONE)
        assert (await agent.run_agent(tools=[look], on_interrupt=answer)).text == "Done."

    run(main)


# -- on their own ---------------------------------------------------------------------------


def test_build_resume() -> None:
    pending = [Interrupt(id="a", reason="r"), {"id": "b", "reason": "r"}]
    built = build_resume(pending, {"b": cancel(), "a": 5})
    assert [(one.interrupt_id, one.status, one.payload) for one in built] == [
        ("a", "resolved", 5), ("b", "cancelled", None),
    ]  # fmt: skip
    assert build_resume([], {}) == []
    with pytest.raises(InterruptError, match="no answer to interrupt 'a', 'b'"):
        build_resume(pending, {"c": 1})
    with pytest.raises(InterruptError, match="interrupt 'c' is not pending"):
        build_resume(pending, {"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize(
    ("expires", "expired"),
    [
        (PAST, True),
        (FUTURE, False),
        ("2020-01-01", True),
        ("2999-01-01", False),
        ("2020-01-01T00:00:00.123Z", True),
        ("2020-01-01T00:00:00.1Z", True),
        ("2020-01-01T00:00:00.123456789Z", True),
        ("2020-01-01T00:00Z", True),
        ("2020-01-01T00:00:00z", True),
        ("2020-01-01T00:00:00", True),
        ("2020-01-01T00:00:00+02:00", True),
        ("2020-01-01T00:00:00-0230", True),
        ("2999-01-01T00:00:00.5+14:00", False),
        ("0001-01-01T00:00:00+14:00", True),
        ("9999-12-31T23:59:59-14:00", False),
        ("soon", False),
        ("", False),
        ("2020-13-01T00:00:00Z", False),
        (None, False),
    ],
)
def test_expired(expires: Any, expired: bool) -> None:
    """As the reducer has it, which decides what a run may answer."""
    fields = {} if expires is None else {"expiresAt": expires}
    given = interrupt("a", **fields)
    assert is_interrupt_expired(given) is expired
    assert is_interrupt_expired(Interrupt(id="a", reason="r", expires_at=expires)) is expired
    reducer = EventReducer(as_dict=True)
    reducer.apply(event("RUN_STARTED", threadId="t", runId="r"))
    outcome = {"type": "interrupt", "interrupts": [given]}
    reducer.apply(event("RUN_FINISHED", threadId="t", runId="r", outcome=outcome))
    answer = [{"interruptId": "a", "status": "resolved"}]
    try:
        reducer.next_input("r2", resume=answer)
    except AGUIError:
        assert expired
    else:
        assert not expired


def test_expired_at() -> None:
    at = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    given = interrupt("a", expiresAt="2024-05-01T14:00:00+02:00")
    assert is_interrupt_expired(given, at)
    assert not is_interrupt_expired(given, at - timedelta(milliseconds=1))
