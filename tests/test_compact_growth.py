"""The compactor: work grows linearly with the stream, and what may be open has a limit.

All that it can hold, each a case below: open messages, calls and their parents, what is held
behind an open item, items whose start has left, the deltas and metadata of one item, and the state
events of a run.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agui_codec import Compactor, SequenceError, compact_events
from counting import EVENTS, growth
from streams import Event, content, end, event, models, start

CASES = (
    EVENTS
    + """
from agui_codec import Compactor, compact_events

def result(number):
    return call("RESULT", number, messageId=f"r{number}", content="")

def thought(number, message="q"):
    return event("REASONING_MESSAGE_CONTENT", messageId=f"{message}{number}", delta="a")

def custom(number):
    return event("CUSTOM", name="n", value=number)

def add(path):
    return event("STATE_DELTA", delta=[{"op": "add", "path": path, "value": 1}])

def activity(number):
    return event("ACTIVITY_SNAPSHOT", messageId=f"p{number}", activityType="t", content={})

def calls(n, **fields):
    return [opened(k, **fields) for k in range(n)]

# What is fed for n.
STREAMS = {
    "calls, then results": lambda n: calls(n) + [result(k) for k in range(n)],
    "calls, then reasoning": lambda n: calls(n) + [thought(k) for k in range(n)],
    "calls, then activities": lambda n: calls(n) + [activity(k) for k in range(n)],
    "calls of one parent, then results": lambda n: (
        calls(n, parentMessageId="m") + [result(k) for k in range(n)]),
    "calls, each of another parent, ended in reverse": lambda n: (
        [opened(k, parentMessageId=f"m{k}") for k in range(n)]
        + [call("ARGS", k, delta="a") for k in range(n)] * 2
        + [call("END", k) for k in reversed(range(n))]),
    "calls that reasoning writes to the parents of": lambda n: [
        one for k in range(n) for one in (
            opened(k, parentMessageId=f"q{k}"), call("ARGS", k, delta="a"), thought(k))],
    "messages, ended in reverse": lambda n: (
        [text("START", k) for k in range(n)] + [text("CONTENT", k, delta="a") for k in range(n)]
        + [text("END", k) for k in reversed(range(n))]),
    "messages by turns": lambda n: [text("CONTENT", k, delta="a") for k in range(n)] * 3,
    "one message, and others behind it": lambda n: (
        [text("START", 0)] + [custom(k) for k in range(n)]
        + [one for k in range(1, n) for one in (text("START", k), text("END", k))]
        + [text("END", 0)]),
    "starts of what is open": lambda n: [opened(0)] * n,
    "snapshots within messages": lambda n: [
        one for k in range(n) for one in (
            text("CONTENT", k, delta="a"), text("CONTENT", 0, delta="a"),
            event("MESSAGES_SNAPSHOT", messages=[]))],
    "calls that have lost their start": lambda n: (
        calls(n) + [event("MESSAGES_SNAPSHOT", messages=[])]
        + [call("ARGS", k, delta="a") for k in range(n)] + [result(k) for k in range(n)]),
    "metadata of deltas": lambda n: [
        text("CONTENT", 0, delta="a", metadata={f"k{k}": k}) for k in range(n)],
    "unknown properties of deltas": lambda n: [
        text("CONTENT", 0, delta="a", **{f"k{k}": k}) for k in range(n)],
    "wide text": lambda n: [text("CONTENT", 0, delta="\\u00e9") for k in range(n)],
    "a state that grows": lambda n: [state({"l": []})] + [add(f"/k{k}") for k in range(n)]
        + [add("/l/-") for k in range(n)],
    "states": lambda n: [state({"n": k}) for k in range(n)],
    "deltas of a state that is not known": lambda n: [add(f"/k{k}") for k in range(n)],
    "metadata of the state": lambda n: [
        {**state(k), "metadata": {f"k{k}": k}, f"p{k}": k} for k in range(n)],
}

def fed(events):
    def work():
        compactor = Compactor(max_open=10**6, on_deviation=lambda deviation: None)
        for event in events:
            compactor.feed(event)
        compactor.close()
    return work

def at_once(events):
    return lambda: compact_events(
        events, reasoning=True, max_open=10**6, on_deviation=lambda deviation: None)

CASES = {
    f"{name}, {way.__name__}": lambda n, stream=stream, way=way: way(stream(n))
    for name, stream in STREAMS.items() for way in (fed, at_once)
}
"""
)


@pytest.mark.serial
def test_work_is_linear() -> None:
    """Four times the stream takes four times the instructions, dicts that grow included."""
    grown = growth(CASES)
    assert len(grown) > 30
    assert max(grown.values()) < 5, grown


# -- limits ------------------------------------------------------------------------------


def opener(sort: str, number: int) -> Event:
    name = f"x{number}"
    made: dict[str, Event] = {
        "message": start(name),
        "call": event("TOOL_CALL_START", toolCallId=name, toolCallName="f"),
        "reasoning": event("REASONING_MESSAGE_START", messageId=name, role="reasoning"),
        # An item without a start is open, too.
        "delta": content("a", name),
        "arguments": event("TOOL_CALL_ARGS", toolCallId=name, delta="a"),
    }
    return made[sort]


SORTS = ["message", "call", "reasoning", "delta", "arguments"]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("as_models", [False, True])
def test_how_many_items_may_be_open_at_once(sort: str, as_models: bool) -> None:
    events = [start("first"), *(opener(sort, number) for number in range(3))]
    given: list[Any] = models(events) if as_models else events
    compactor = Compactor(reasoning=True, max_open=3)
    for one in given[:-1]:
        assert compactor.feed(one) == []
    with pytest.raises(SequenceError, match=r"3 that may be open at once \(max_open\)") as caught:
        compactor.feed(given[-1])
    error = caught.value
    assert (error.id, error.event_index, error.event_type) == ("x2", 3, events[-1]["type"])
    with pytest.raises(SequenceError) as caught:
        compact_events(given, reasoning=True, max_open=3)
    assert caught.value.event_index == 3
    # The event was not taken, and the compactor goes on.
    compactor.feed(end("first"))
    compactor.feed(given[-1])
    left = compactor.close()
    assert [one for one in left if one == given[-1]] == [given[-1]]


def test_the_index_of_the_event_that_is_one_too_many() -> None:
    rows = [start(), *(content("a") for _ in range(7)), start("n")]
    with pytest.raises(SequenceError) as caught:
        compact_events(rows, max_open=1)
    assert caught.value.event_index == 8


def test_the_default_of_what_may_be_open() -> None:
    compactor = Compactor()
    for number in range(10_000):
        compactor.feed(start(f"m{number}"))
    with pytest.raises(SequenceError, match="10000"):
        compactor.feed(start("m"))
    # What a fence lets out is not open any more.
    assert len(compactor.feed(event("MESSAGES_SNAPSHOT", messages=[]))) == 10_001
    compactor.feed(start("m"))
    for face in (Compactor, compact_events):
        assert inspect.signature(face).parameters["max_open"].default == 10_000


def test_what_it_holds_is_shown() -> None:
    compactor = Compactor(max_open=7)
    assert repr(compactor) == "<Compactor open=0 held=0 max_open=7>"
    for one in (start("a"), start("b"), event("CUSTOM", name="n", value=1), end("b")):
        compactor.feed(one)
    assert repr(compactor) == "<Compactor open=1 held=3 max_open=7>"
