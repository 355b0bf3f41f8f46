"""The stages: work grows linearly with the stream, and what a peer can make grow has a limit.

All that a stage can hold, each a case below: lanes of chunks (opened, continued, closed in the
reverse order and all at once); open messages, calls, spans, steps and subagents; owners of what has
closed; owners that a snapshot or the echo of an input names; interrupts of one event; what an
upgrader and a downgrader walk over in one event.
"""

from __future__ import annotations

from typing import Any

import pytest

from agui_codec import ChunkExpander, EventVerifier, SequenceError
from counting import growth
from streams import Event

CASES = """
from agui_codec import (
    ChunkExpander, EventEnforcer, EventVerifier, LegacyDowngrader, LegacyUpgrader, Pipeline,
    SequenceError,
)

RUN = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
DONE = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
quiet = lambda deviation: None

def chunk(number, **fields):
    return {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"m{number}", "delta": "a",
            "subagentRunId": f"s{number}", **fields}

def ended(number):
    return {"type": "SUBAGENT_FINISHED", "subagentRunId": f"s{number}"}

def text(kind, number):
    return {"type": f"TEXT_MESSAGE_{kind}", "messageId": f"m{number}"}

def call(kind, number):
    return {"type": f"TOOL_CALL_{kind}", "toolCallId": f"c{number}", "toolCallName": "f"}

def step(kind, number):
    return {"type": f"STEP_{kind}", "stepName": f"p{number}"}

def started(number):
    return {"type": "SUBAGENT_STARTED", "subagentRunId": f"s{number}", "name": "n"}

def message(number):
    return {"id": f"m{number}", "role": "assistant", "content": "", "tool_calls": [
        {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": ""}}]}

def interrupt(number):
    return {"id": f"i{number}", "reason": "x"}

def snapshot(n):
    return {"type": "MESSAGES_SNAPSHOT", "messages": [message(k) for k in range(n)]}

def repairing():
    return EventVerifier(repair=True, on_deviation=quiet)

def refused(verifier, events):
    for event in events:
        try:
            verifier.feed(event)
        except SequenceError:
            continue

def of(make, events):
    stage = make()
    def work():
        for event in events:
            stage.feed(event)
    return work

CASES = {
    "lanes opened": lambda n: of(ChunkExpander, [chunk(k) for k in range(n)]),
    "lanes in turn": lambda n: of(ChunkExpander, [chunk(k) for k in range(n)] * 3),
    "lanes closed from the last": lambda n: of(
        ChunkExpander, [chunk(k) for k in range(n)] + [ended(k) for k in reversed(range(n))]),
    "lanes closed from the first, then one": lambda n: of(
        ChunkExpander, [chunk(k) for k in range(n)] + [ended(k) for k in range(n - 1)]
        + [{"type": "TEXT_MESSAGE_CHUNK", "delta": "b"}] * n),
    "lanes closed at once": lambda n: of(ChunkExpander, [chunk(k) for k in range(n)] + [DONE]),
    "lanes of untagged items": lambda n: of(
        ChunkExpander, [chunk(k, toolCallId=f"c{k}", type="TOOL_CALL_CHUNK", toolCallName="f")
                        for k in range(n)]
        + [{"type": "TOOL_CALL_CHUNK", "toolCallId": f"c{k}", "delta": ""} for k in range(n)]),
    "messages open": lambda n: of(EventVerifier, [RUN] + [
        text(kind, k) for kind in ("START", "CONTENT", "CONTENT", "END") for k in range(n)]),
    "calls open": lambda n: of(EventVerifier, [RUN] + [
        call(kind, k) for kind in ("START", "ARGS", "END") for k in range(n)]),
    "steps open": lambda n: of(EventVerifier, [RUN] + [
        step(kind, k) for kind in ("STARTED", "FINISHED") for k in range(n)]),
    "steps that were not started": lambda n: lambda verifier=EventVerifier(): refused(
        verifier, [RUN] + [step("STARTED", k) for k in range(n)]
        + [{**step("FINISHED", k), "subagentRunId": "s"} for k in range(n)]),
    "subagents open": lambda n: of(EventVerifier, [RUN] + [
        event(k) for event in (started, ended) for k in range(n)]),
    "messages closed": lambda n: of(EventVerifier, [RUN] + [
        text(kind, k) for k in range(n) for kind in ("START", "END")]),
    "runs refused to finish": lambda n: lambda verifier=EventVerifier(): refused(
        verifier, [RUN] + [text("START", k) for k in range(n)] + [DONE] * n),
    "snapshots": lambda n: of(EventVerifier, [RUN, snapshot(n), DONE]),
    "the echo of an input": lambda n: of(
        EventVerifier, [{**RUN, "input": {"messages": snapshot(n)["messages"]}}, DONE]),
    "interrupts": lambda n: of(EventVerifier, [RUN, {**DONE, "outcome": {
        "type": "interrupt", "interrupts": [interrupt(k) for k in range(n)]}}]),
    "repair closes": lambda n: of(
        repairing, [RUN] + [step("STARTED", k) for k in range(n)]
        + [text("START", k) for k in range(n)] * 2 + [DONE]),
    "repair drops": lambda n: of(
        repairing, [RUN] + [text("START", k) for k in range(n)] + [step("STARTED", "")]
        + [call("END", k) for k in range(n)] + [step("FINISHED", k) for k in range(n)]),
    "ending events": lambda n: lambda verifier=EventVerifier(): (
        [verifier.feed(event) for event in [RUN] + [text("START", k) for k in range(n)]],
        verifier.ending_events()),
    "upgrade of a snapshot": lambda n: of(
        lambda: LegacyUpgrader(on_deviation=quiet), [snapshot(n)]),
    "downgrade of a snapshot": lambda n: of(
        lambda: LegacyDowngrader("0.0.39", on_deviation=quiet), [snapshot(n)]),
    "enforcement of a snapshot": lambda n: of(
        lambda: EventEnforcer(on_deviation=quiet), [snapshot(n)]),
    "a pipeline": lambda n: of(
        lambda: Pipeline(LegacyUpgrader(), EventEnforcer(), ChunkExpander(), EventVerifier(),
                         as_models=True),
        [RUN] + [chunk(k) for k in range(n)] * 2 + [DONE]),
}
"""

RUN: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}


@pytest.mark.serial
def test_work_is_linear() -> None:
    """Four times the stream takes four times the instructions, dicts that grow included."""
    grown = growth(CASES)
    assert len(grown) > 20
    assert max(grown.values()) < 5, grown


# -- limits ----------------------------------------------------------------------------


def opener(sort: str, number: int) -> Event:
    name = f"x{number}"
    made: dict[str, Event] = {
        "text": {"type": "TEXT_MESSAGE_START", "messageId": name},
        "call": {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": "f"},
        "message": {"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"},
        "span": {"type": "REASONING_START", "messageId": name},
        "step": {"type": "STEP_STARTED", "stepName": name},
        "subagent": {"type": "SUBAGENT_STARTED", "subagentRunId": name, "name": "n"},
    }
    return made[sort]


SORTS = ["text", "call", "message", "span", "step", "subagent"]


@pytest.mark.parametrize("sort", SORTS)
def test_how_many_items_may_be_open_at_once(sort: str) -> None:
    verifier = EventVerifier(max_open=3)
    verifier.feed(RUN)
    # The limit is one of all sorts together.
    verifier.feed(opener("step", 99))
    for number in range(2):
        verifier.feed(opener(sort, number))
    with pytest.raises(SequenceError, match=r"3 that may be open at once \(max_open\)") as caught:
        verifier.feed(opener(sort, 2))
    assert caught.value.id == "x2"
    verifier.feed({"type": "STEP_FINISHED", "stepName": "x99"})
    verifier.feed(opener(sort, 2))


def test_the_default_of_what_may_be_open() -> None:
    verifier = EventVerifier()
    verifier.feed(RUN)
    for number in range(10_000):
        verifier.feed(opener("text", number))
    with pytest.raises(SequenceError, match="10000"):
        verifier.feed(opener("text", 10_000))
    expander = ChunkExpander()
    for number in range(10_000):
        expander.feed(
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"m{number}", "subagentRunId": f"s{number}"}
        )
    with pytest.raises(SequenceError, match="10000"):
        expander.feed({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"})


CLOSERS: dict[str, dict[str, Any]] = {
    "text": {"type": "TEXT_MESSAGE_END"},
    "call": {"type": "TOOL_CALL_END"},
    "message": {"type": "REASONING_MESSAGE_END"},
    "span": {"type": "REASONING_END"},
    "subagent": {"type": "SUBAGENT_FINISHED"},
}


@pytest.mark.parametrize("sort", CLOSERS)
def test_how_many_items_of_a_run_are_remembered(sort: str) -> None:
    verifier = EventVerifier(max_items=3)

    def feed(number: int) -> None:
        event = opener(sort, number)
        verifier.feed(event)
        kept = ("messageId", "toolCallId", "subagentRunId")
        verifier.feed({**{key: event[key] for key in kept if key in event}, **CLOSERS[sort]})

    verifier.feed(RUN)
    for number in range(3):
        feed(number)
    with pytest.raises(SequenceError, match=r"more than 3 items .*\(max_items\)"):
        feed(3)
    if sort != "subagent":
        # What is remembered may open again.
        feed(1)
    # Another run starts clean.
    verifier.feed({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
    verifier.feed({**RUN, "runId": "r2"})
    feed(3)


def test_replayed_messages_count_among_the_items() -> None:
    def messages(*names: str) -> list[Event]:
        return [{"id": name, "role": "user", "content": ""} for name in names]

    verifier = EventVerifier(max_items=3)
    with pytest.raises(SequenceError, match="max_items"):
        verifier.feed({**RUN, "input": {"messages": messages("a", "b", "c", "d")}})
    verifier.feed({**RUN, "input": {"messages": messages("a", "b")}})
    snapshot: Event = {"type": "MESSAGES_SNAPSHOT"}
    # Those that are known are not counted again.
    for _ in range(3):
        verifier.feed({**snapshot, "messages": messages("a", "b", "c")})
    with pytest.raises(SequenceError, match="max_items"):
        verifier.feed({**snapshot, "messages": messages("a", "d")})
    for late in (
        {"type": "TOOL_CALL_RESULT", "messageId": "z", "toolCallId": "c", "content": ""},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "z", "activityType": "x", "content": {}},
    ):
        with pytest.raises(SequenceError, match="max_items"):
            verifier.feed(late)
    verifier.feed({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
    assert verifier.close() == []
