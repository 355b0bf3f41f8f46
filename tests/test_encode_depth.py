"""How deep an event may nest: 254 levels, the event itself being the first, and never a crash."""

import contextvars
import datetime
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageEndEvent,
    TextPart,
    UserMessage,
)
from pydantic_core import PydanticSerializationError

from agui_codec import MAX_DEPTH, EncodeError, EventEncoder
from oracle import (
    ENCODER,
    assert_fast,
    assert_same,
    assert_wire_same,
    encoded,
    outcome,
    python_calls,
)
from strategies import Dict, List, Point

DAY = datetime.date(2026, 1, 2)

LEVEL: dict[str, Callable[[Any], Any]] = {
    "dict": lambda inner: {"a": inner},
    "list": lambda inner: [inner],
    "tuple": lambda inner: (inner,),
    "dict with int keys": lambda inner: {1: inner},
    "dict subclass": lambda inner: Dict(a=inner),
    "list subclass": lambda inner: List([inner]),
}


def nest(levels: int, leaf: Any = 1, level: Callable[[Any], Any] = LEVEL["dict"]) -> Any:
    for _ in range(levels):
        leaf = level(leaf)
    return leaf


def mixed(levels: int, leaf: Any = 1) -> Any:
    kinds = list(LEVEL.values())
    for number in range(levels):
        leaf = kinds[number % len(kinds)](leaf)
    return leaf


def test_the_limit_is_documented() -> None:
    assert MAX_DEPTH == 254


def assert_refused_as_too_deep(error: EncodeError, place: str) -> None:
    """The path is that of the event as a whole, or begins with the field that is too deep."""
    assert error.path == "" or error.path.startswith(place)
    assert len(str(error)) < 2_000


LEAVES = {"json": 1, "empty dict": {}, "empty list": [], "odd": DAY}


@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize("kind", [*LEVEL, "mixed"])
def test_the_limit_of_a_model_is_pydantics(kind: str, leaf: Any) -> None:
    make = mixed if kind == "mixed" else lambda levels, leaf: nest(levels, leaf, LEVEL[kind])
    last = 253 - isinstance(leaf, dict | list)
    for levels in (100, 200, last - 1, last):
        assert assert_same(CustomEvent(name="n", value=make(levels, leaf))).error is None
    # Which of the next ones pydantic still writes depends on what the innermost container is.
    for levels in (last + 1, last + 2, last + 3, 300, 600):
        got = assert_same(CustomEvent(name="n", value=make(levels, leaf)))
        assert levels <= last + 2 or got.error is not None
        assert got.error is None or got.error[0] is PydanticSerializationError


def places(levels: int) -> dict[str, tuple[Any, Any]]:
    """An event and its wire dict of so many levels in all, in each place that can be deep."""
    state, user = {"threadId": "t", "runId": "r"}, {"id": "1", "role": "user"}
    deep = {outer: nest(levels - outer) for outer in (1, 2, 3, 4, 5, 6)}
    return {
        "value": (
            CustomEvent(name="n", value=deep[1]),
            {"type": "CUSTOM", "name": "n", "value": deep[1]},
        ),
        "event": (RawEvent(event=deep[1]), {"type": "RAW", "event": deep[1]}),
        "snapshot": (
            StateSnapshotEvent(snapshot=deep[1]),
            {"type": "STATE_SNAPSHOT", "snapshot": deep[1]},
        ),
        "rawEvent": (
            TextMessageEndEvent(message_id="m", raw_event=deep[1]),
            {"type": "TEXT_MESSAGE_END", "rawEvent": deep[1], "messageId": "m"},
        ),
        "metadata": (
            TextMessageEndEvent(message_id="m", metadata={"k": deep[2]}),
            {"type": "TEXT_MESSAGE_END", "metadata": {"k": deep[2]}, "messageId": "m"},
        ),
        "extra": (
            TextMessageEndEvent(message_id="m", extra=deep[1]),
            {"type": "TEXT_MESSAGE_END", "messageId": "m", "extra": deep[1]},
        ),
        "result": (
            RunFinishedEvent(thread_id="t", run_id="r", result=deep[1]),
            {"type": "RUN_FINISHED", **state, "result": deep[1]},
        ),
        "delta": (
            StateDeltaEvent(delta=[{"op": "add", "path": "", "value": deep[3]}]),
            {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "", "value": deep[3]}]},
        ),
        "messages": (
            MessagesSnapshotEvent(
                messages=[UserMessage(id="1", content="c", metadata={"k": deep[4]})]
            ),
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [{**user, "metadata": {"k": deep[4]}, "content": "c"}],
            },
        ),
        "part": (
            MessagesSnapshotEvent(
                messages=[UserMessage(id="1", content=[TextPart(text="t", metadata=deep[5])])]
            ),
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [
                    {**user, "content": [{"type": "text", "text": "t", "metadata": deep[5]}]}
                ],
            },
        ),
        "input": (
            RunStartedEvent(
                thread_id="t", run_id="r", input={**state, "state": deep[2], "messages": []}
            ),
            {
                "type": "RUN_STARTED",
                **state,
                "input": {**state, "state": deep[2], "messages": []},
            },
        ),
        "model in a payload": (
            CustomEvent(name="n", value=[TextPart(text="t", metadata=deep[3])]),
            {"type": "CUSTOM", "name": "n", "value": [TextPart(text="t", metadata=deep[3])]},
        ),
    }


@pytest.mark.parametrize("place", places(9))
def test_the_limit_counts_from_the_event(place: str) -> None:
    for levels in (253, 254):
        event, wire = places(levels)[place]
        assert assert_same(event).error is None
        assert_wire_same(wire, event)
        assert_fast(event)
        assert_fast(wire)
    for levels in (255, 256, 257, 258, 300):
        event, wire = places(levels)[place]
        assert assert_same(event).error is not None
        with pytest.raises(EncodeError) as raised:
            ENCODER.encode(wire)
        start = {"part": "messages", "model in a payload": "value"}.get(place, place)
        assert_refused_as_too_deep(raised.value, start)


@pytest.mark.parametrize("kind", [*LEVEL, "mixed"])
@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
def test_the_limit_of_a_wire_dict(kind: str, leaf: Any) -> None:
    make = mixed if kind == "mixed" else lambda levels, leaf: nest(levels, leaf, LEVEL[kind])
    last = 253 - isinstance(leaf, dict | list)
    for levels in (100, 200, last - 1, last):
        value = make(levels, leaf)
        wire = {"type": "CUSTOM", "name": "n", "value": value}
        assert_wire_same(wire, CustomEvent(name="n", value=value))
    for levels in (last + 1, last + 2, last + 3, 300, 600):
        with pytest.raises(EncodeError) as raised:
            ENCODER.encode({"type": "CUSTOM", "name": "n", "value": make(levels, leaf)})
        assert_refused_as_too_deep(raised.value, "value")


def test_what_default_returns_counts_too() -> None:
    for levels, fits in ((3, True), (4, False)):
        encoder = EventEncoder(default=lambda value, levels=levels: nest(levels))
        for event in (
            CustomEvent(name="n", value=nest(250, object())),
            {"type": "CUSTOM", "name": "n", "value": nest(250, object())},
        ):
            if fits:
                assert encoded(event, encoder).count("{") == 254
            else:
                with pytest.raises((EncodeError, PydanticSerializationError)):
                    encoder.encode(event)


@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize("kind", ["dict", "list", "tuple"])
def test_far_too_deep(levels: int, kind: str) -> None:
    value = nest(levels, 1, LEVEL[kind])
    event = CustomEvent(name="n", value=0)
    event.value = value
    assert assert_same(event).error is not None
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode({"type": "CUSTOM", "name": "n", "value": value})
    assert_refused_as_too_deep(raised.value, "value")
    with pytest.raises(EncodeError):
        ENCODER.encode({"type": "MESSAGES_SNAPSHOT", "messages": value})


@pytest.mark.parametrize("kind", ["list subclass", "dict with int keys", "mixed"])
def test_the_work_of_refusing_is_bounded(kind: str) -> None:
    """Looking for the culprit may not ask pydantic about each of the levels."""
    make = mixed if kind == "mixed" else lambda levels, leaf=1: nest(levels, leaf, LEVEL[kind])
    for leaf in (1, object()):
        event = {"type": "CUSTOM", "name": "n", "value": make(1_500, leaf)}
        calls = len(python_calls(outcome, ENCODER.encode, event))
        assert calls < 800, calls
        # Siblings of the culprit are asked about once for each level above them.
        wide = {"type": "CUSTOM", "name": "n", "value": [[DAY] * 100, [[DAY] * 100, {"k": leaf}]]}
        calls = len(python_calls(outcome, ENCODER.encode, wide))
        assert calls < 800, calls


# --- cycles ------------------------------------------------------------------------------------


def cycles() -> dict[str, tuple[Any, str]]:
    """A value that contains itself, and the path to where it does so first."""
    own: dict[str, Any] = {"a": 1}
    own["self"] = own
    items: list[Any] = [1]
    items.append(items)
    pair: tuple[Any, ...] = ([],)
    pair[0].append(pair)
    long: dict[str, Any] = {}
    long["x"] = [{"y": (long,)}]
    message = UserMessage(id="1", content="c", metadata={})
    message.metadata["me"] = message
    point = Point(1)
    point.y = [point]
    subclass = Dict()
    subclass["self"] = subclass
    other: dict[Any, Any] = {}
    other[1] = other
    return {
        "dict": (own, "value.self"),
        "list": (items, "value[1]"),
        "tuple": (pair, "value[0][0]"),
        "longer": (long, "value.x[0].y[0]"),
        "model": (message, "value"),
        "dataclass": (point, "value"),
        "dict subclass": (subclass, "value.self"),
        "int key": (other, "value.1"),
    }


@pytest.mark.parametrize("name", cycles())
def test_cycles(name: str) -> None:
    value, path = cycles()[name]
    event = CustomEvent(name="n", value=0)
    event.value = value
    assert assert_same(event).error is not None
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode({"type": "CUSTOM", "name": "n", "value": value})
    # Once round at most, not 254 times.
    assert_refused_as_too_deep(raised.value, "value")
    assert len(raised.value.path) <= 2 * len(path) + len(".metadata.me")


def test_an_event_that_contains_itself() -> None:
    event = RawEvent(event={})
    event.event["me"] = event
    assert assert_same(event).error is not None
    event = TextMessageEndEvent(message_id="m")
    event.raw_event = event
    assert assert_same(event).error is not None
    wire: dict[str, Any] = {"type": "RAW"}
    wire["event"] = [wire]
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode(wire)
    assert_refused_as_too_deep(raised.value, "event")
    assert len(raised.value.path) < 40
    snapshot: dict[str, Any] = {"type": "MESSAGES_SNAPSHOT", "messages": []}
    snapshot["messages"].append({"role": "user", "content": snapshot["messages"]})
    with pytest.raises(EncodeError):
        ENCODER.encode(snapshot)
    run: dict[str, Any] = {"type": "RUN_STARTED", "input": {}}
    run["input"]["messages"] = [run["input"]]
    with pytest.raises(EncodeError):
        ENCODER.encode(run)


def test_what_merely_occurs_twice_is_no_cycle() -> None:
    shared = {"k": [1]}
    value = [shared, shared, {"a": shared, "b": (shared, [shared])}]
    event = CustomEvent(name="n", value=value)
    assert assert_same(event).error is None
    assert_wire_same({"type": "CUSTOM", "name": "n", "value": value}, event)
    message = UserMessage(id="1", content="c")
    event = MessagesSnapshotEvent(messages=[message, message], raw_event=message)
    assert assert_same(event).error is None


# --- small stacks ------------------------------------------------------------------------------

SMALL_STACK_CASES = {
    "model": 'CustomEvent(name="n", value=nest({levels}))',
    "model of lists": 'CustomEvent(name="n", value=nest({levels}, 1, LEVEL["list"]))',
    "model of tuples": 'CustomEvent(name="n", value=nest({levels}, 1, LEVEL["tuple"]))',
    "model with an odd leaf": 'CustomEvent(name="n", value=nest({levels}, DAY))',
    "model with odd levels": 'CustomEvent(name="n", value=mixed({levels}))',
    "model with extras": 'TextMessageEndEvent(message_id="m", extra=nest({levels}, DAY))',
    "wire": '{{"type": "CUSTOM", "name": "n", "value": nest({levels})}}',
    "wire with an odd leaf": '{{"type": "CUSTOM", "name": "n", "value": nest({levels}, DAY)}}',
    "wire with odd levels": '{{"type": "X", "value": mixed({levels})}}',
    "unknown wire": '{{"type": "X", "unknown": nest({levels}, DAY, LEVEL["list"])}}',
    "models in models": 'CustomEvent(name="n", value=chain({levels}))',
    "models in wire": '{{"type": "X", "value": chain({levels}, DAY)}}',
    "dataclasses": 'CustomEvent(name="n", value=nest({levels}, 1, Point))',
}

SMALL_STACK = """
import os, sys, threading
sys.path.insert(0, {tests!r})
from test_encode_depth import *

def chain(levels, leaf=1):
    return nest(levels, leaf, lambda inner: TextPart(text="t", metadata=inner))

def check(name, make):
    for levels in (60, 200, 253, 254, 400, 2_000):
        print("begin", name, levels, flush=True)
        event, got = make(levels), []
        thread = threading.Thread(target=lambda: got.append(outcome(ENCODER.encode, event)))
        thread.start()
        thread.join()
        if (got[0].error is None) != (levels <= 253):
            print("wrong", name, levels, str(got[0])[:200], flush=True)

threading.stack_size(256 * 1024)
{calls}
print("done", flush=True)
os._exit(0)
"""


def test_in_a_thread_with_a_small_stack() -> None:
    """In processes of their own, since a stack that overflows takes the process along."""
    remaining = list(SMALL_STACK_CASES)
    failures: list[str] = []
    while remaining:
        calls = [
            f"check({name!r}, lambda levels: {SMALL_STACK_CASES[name].format(levels='levels')})"
            for name in remaining
        ]
        script = SMALL_STACK.format(tests=str(Path(__file__).parent), calls="\n".join(calls))
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = run.stdout.splitlines() or [run.stderr]
        failures += [line for line in lines if line.startswith("wrong")]
        if lines[-1] == "done":
            break
        failures.append(f"exit code {run.returncode} after {lines[-1]}")
        crashed = next(
            name for name in reversed(remaining) if lines[-1].startswith(f"begin {name} ")
        )
        remaining = remaining[remaining.index(crashed) + 1 :]
    assert failures == []


# --- whatever runs the deep ones, the caller's surroundings are kept ---------------------------

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="default")


@pytest.mark.parametrize("levels", [3, 70, 200])
def test_the_hook_runs_in_the_context_of_the_caller(levels: int) -> None:
    lock = threading.RLock()
    seen: list[Any] = []

    def default(value: Any) -> Any:
        # Not `with`: a hook on another thread would wait for ever.
        taken = lock.acquire(timeout=0.3)
        if taken:
            lock.release()
        seen.append((VARIABLE.get(), taken))
        return "ok"

    encoder = EventEncoder(default=default)
    token = VARIABLE.set("mine")
    try:
        with lock:
            encoder.encode(CustomEvent(name="n", value=nest(levels, object())))
            encoder.encode({"type": "CUSTOM", "name": "n", "value": nest(levels, object())})
    finally:
        VARIABLE.reset(token)
    assert seen == [("mine", True)] * 2


@pytest.mark.parametrize("levels", [3, 70, 200])
def test_warnings_of_deep_events_are_the_callers(levels: int) -> None:
    event = CustomEvent(name="n", value=nest(levels, DAY))
    event.name = 5
    got = assert_same(event)
    assert len(got.warned) == 1
    assert outcome(ENCODER.encode, event) == got
