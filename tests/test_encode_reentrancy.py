"""Python code that runs in the middle of encoding: hooks, properties, `__del__`, other threads.

What could read freed memory runs in a process of its own under `PYTHONMALLOC=debug`, where freed
memory is overwritten, so that a mistake is a crash or a wrong text.
"""

import enum
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    UserMessage,
)
from pydantic_core import PydanticSerializationError

from agui_codec import EncodeError, EventEncoder, to_json
from oracle import ENCODER, official_text, outcome
from strategies import EVENT_CLASSES, variants

EVENT = TextMessageEndEvent(message_id="m")
FRAME = 'data: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'


# --- hooks that call back ----------------------------------------------------------------------


def test_a_hook_that_encodes_with_the_same_encoder() -> None:
    def default(value: Any) -> Any:
        assert encoder.encode(EVENT) == FRAME
        assert encoder.encode_many([{"type": "X", "v": "é" * 1000}] * 3).count(b"\n") == 6
        assert to_json(EVENT) == FRAME[6:-2].encode()
        if isinstance(value, set):
            return 0
        return encoder.encode(CustomEvent(name="inner", value=depths.pop() if depths else "end"))

    depths: list[Any] = [object(), object()]
    encoder = EventEncoder(default=default)
    text = encoder.encode(CustomEvent(name="outer", value={"a": object(), "é": 1}))
    assert text.startswith('data: {"type":"CUSTOM","name":"outer","value":{"a":"data: {')
    assert text.count("inner") == 3
    assert text.endswith(',"é":1}}\n\n')
    depths[:] = [object()]
    again = encoder.encode({"type": "CUSTOM", "name": "outer", "value": {"a": object(), "é": 1}})
    assert again.count("inner") == 2
    assert again.endswith(',"é":1}}\n\n')


def test_a_property_that_encodes() -> None:
    class Nested(enum.Enum):
        A = 1

        @property
        def value(self) -> Any:
            return ENCODER.encode(EVENT) + ENCODER.encode({"type": "é"})

    for event in (
        CustomEvent(name="n", value=[1, {"k": Nested.A}, "é"]),
        {"type": "CUSTOM", "name": "n", "value": [1, {"k": Nested.A}, "é"]},
    ):
        text = ENCODER.encode(event)
        assert text.startswith('data: {"type":"CUSTOM","name":"n","value":[1,{"k":"data: {')
        assert text.endswith('\\n\\n"},"é"]}\n\n')
    assert ENCODER.encode(CustomEvent(name="n", value=[1, {"k": Nested.A}])) == official_text(
        CustomEvent(name="n", value=[1, {"k": Nested.A}])
    )


def test_a_serializer_that_encodes() -> None:
    import pydantic

    class Wrapping(TextMessageContentEvent):
        @pydantic.field_serializer("delta")
        def _delta(self, value: str) -> str:
            return ENCODER.encode(EVENT)

    event = Wrapping(message_id="m", delta="é")
    assert ENCODER.encode(event) == official_text(event)
    many = ENCODER.encode_many([EVENT, event, EVENT]).decode()
    assert many == FRAME + official_text(event) + FRAME


def test_objects_that_encode_when_they_die() -> None:
    texts = []

    class Dying:
        def __init__(self, encoder: Any = ENCODER) -> None:
            self.encoder = encoder

        def __del__(self) -> None:
            texts.append(self.encoder.encode(EVENT))

    def default(value: Any) -> Any:
        Dying()
        return [Dying().__class__.__name__]

    encoder = EventEncoder(default=default)
    for event in (
        CustomEvent(name="n", value=[object(), object()]),
        {"type": "CUSTOM", "name": "n", "value": [object(), object()]},
    ):
        assert encoder.encode(event).endswith('"value":[["Dying"],["Dying"]]}\n\n')
    assert texts == [FRAME] * 8

    def events() -> Any:
        for _ in range(3):
            Dying(encoder)
            yield {"type": "X", "v": "é"}

    assert encoder.encode_many(events()).count(b"data: ") == 3
    assert texts == [FRAME] * 11


def test_a_hook_that_makes_the_encoder_go_away() -> None:
    def default(value: Any) -> Any:
        box.clear()
        return "gone"

    box = [EventEncoder(default=default)]
    dying = weakref.ref(box[0])
    assert box[0].encode({"type": "X", "v": object()}) == 'data: {"type":"X","v":"gone"}\n\n'
    assert dying() is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_that_are_meant_to_end_the_program(error: type[BaseException]) -> None:
    """Pydantic makes an error of its own of them; ours may let them through, but not lose them."""

    def default(value: Any) -> Any:
        raise error

    encoder = EventEncoder(default=default)
    for event in (
        CustomEvent(name="n", value=[object()]),
        {"type": "CUSTOM", "name": "n", "value": [object()]},
    ):
        with pytest.raises((error, PydanticSerializationError, EncodeError)):
            encoder.encode(event)
        assert encoder.encode(EVENT) == FRAME


# --- hooks that change what is being encoded ---------------------------------------------------


def run_with_debug_allocator(body: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{body}"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONMALLOC": "debug"},
        timeout=120,
    )


EVIL = """
import enum, gc
from ag_ui.core import *
from agui_codec import EventEncoder, EncodeError
from oracle import ENCODER, outcome

class Evil(enum.Enum):
    A = 1
    @property
    def value(self):
        act()
        gc.collect()
        [tuple([i] * n) for i in range(50) for n in range(1, 6)]
        [{"k": i} for i in range(50)], [[i, i] for i in range(50)]
        ["fresh" + str(i) * 9 for i in range(50)]
        return "v"

def long(tag):
    return "text that nobody else holds " + tag

def show(encode, event):
    try:
        text = encode(event)
        print("text", repr(text))
    except BaseException as error:  # Pydantic panics when a dict changes under it.
        print("error", type(error).__name__)

def custom(value, **fields):
    event = CustomEvent(name="n", value=None)
    event.__dict__.update(value=value, **fields)
    return event
"""

CHANGES = {
    "a tuple that the event lets go": """
event = custom(None)
def act(): event.__dict__["value"] = None
event.__dict__["value"] = tuple([Evil.A, long("1"), [long("2")], {long("3"): 1}])
show(ENCODER.encode, event)
""",
    "a list that the event lets go": """
event = custom(None)
def act(): event.__dict__["value"] = None
event.__dict__["value"] = [Evil.A, long("1"), (long("2"),)]
show(ENCODER.encode, event)
""",
    "a dict that the event lets go": """
event = custom(None)
def act(): event.__dict__["value"] = None
event.__dict__["value"] = {long("a"): Evil.A, long("b"): long("c")}
show(ENCODER.encode, event)
""",
    "a nested tuple": """
holder = [None]
def act(): holder[0] = None
holder[0] = ((Evil.A, long("1")), long("2"))
show(ENCODER.encode, custom(holder))
""",
    "the dict of the event, emptied": """
event = custom([Evil.A, long("1")], source=long("2"), metadata={long("3"): long("4")})
def act(): event.__dict__.clear()
show(ENCODER.encode, event)
""",
    "the dict of the event, replaced": """
event = custom([Evil.A, long("1")], metadata={long("3"): long("4")})
def act(): object.__setattr__(event, "__dict__", {})
show(ENCODER.encode, event)
""",
    "the extras, emptied": """
event = TextMessageEndEvent(message_id=long("m"), a=[Evil.A], b=long("1"), c=(long("2"),))
def act(): event.__pydantic_extra__.clear()
show(ENCODER.encode, event)
""",
    "the extras, replaced": """
event = TextMessageEndEvent(message_id=long("m"), a=(Evil.A, long("0")), b=long("1"))
def act(): object.__setattr__(event, "__pydantic_extra__", None)
show(ENCODER.encode, event)
""",
    "the extras, one replaced": """
event = TextMessageEndEvent(message_id=long("m"), a=(Evil.A, long("0")), b=long("1"))
def act(): event.__pydantic_extra__["a"] = 0
show(ENCODER.encode, event)
""",
    "a list that shrinks": """
value = [Evil.A] + [long(str(i)) for i in range(9)]
def act(): del value[:]
show(ENCODER.encode, custom(value))
""",
    "a list that grows without end": """
value = [Evil.A]
def act(): value.append(Evil.A)
show(ENCODER.encode, custom(value))
""",
    "a dict that grows without end": """
value = {"a": Evil.A}
def act(): value[str(len(value))] = Evil.A
show(ENCODER.encode, custom(value))
""",
    "a dict whose entries are replaced": """
value = {long("a"): Evil.A, long("b"): (long("c"),)}
def act():
    value.clear()
    value.update({long("x"): 1, long("y"): 2})
show(ENCODER.encode, custom(value))
""",
    "a dict with other keys that grows": """
value = {1: Evil.A, 2: 2, None: 3}
def act(): value[len(value) + 10] = 1
show(lambda event: ENCODER.encode(event), custom(value))
""",
    "a dict with other keys that shrinks": """
value = {1: Evil.A, 2: long("1"), None: (long("2"),)}
def act(): value.clear()
show(ENCODER.encode, custom(value))
""",
    "a key that is let go": """
class Key(enum.Enum):
    A = 1
    @property
    def value(self):
        value.clear(); gc.collect()
        return "k"
value = {Key.A: long("1"), 2: long("2")}
show(ENCODER.encode, custom(value))
""",
    "the messages of a snapshot": """
event = MessagesSnapshotEvent(messages=[
    UserMessage(id=long("1"), content="c", metadata={"k": Evil.A, "l": long("2")}),
    UserMessage(id=long("3"), content=long("4")),
])
def act(): event.messages.clear()
show(ENCODER.encode, event)
""",
    "the list of messages, replaced": """
event = MessagesSnapshotEvent(messages=[
    UserMessage(id=long("1"), content="c", metadata={"k": Evil.A, "l": long("2")}),
    UserMessage(id=long("3"), content=long("4")),
])
def act(): event.messages = []
show(ENCODER.encode, event)
""",
    "a message, replaced": """
event = MessagesSnapshotEvent(messages=[
    UserMessage(id=long("1"), content=long("c"), extra=(Evil.A, long("0")), other=long("2")),
    UserMessage(id=long("3"), content=long("4")),
])
def act(): event.messages[0] = event.messages[1]
show(ENCODER.encode, event)
""",
    "an input of a run, let go": """
event = RunStartedEvent(thread_id="t", run_id="r", input={"threadId": "t", "runId": "r",
    "state": (Evil.A, long("1")), "messages": [{"id": long("2"), "role": "user", "content": ""}]})
def act(): event.input = None
show(ENCODER.encode, event)
""",
    "a source, let go": """
event = MessagesSnapshotEvent(messages=[UserMessage(id="1", content=[ImagePart(
    source={"type": "url", "value": long("1"), "x": (Evil.A, long("2"))}, metadata=long("3"))])])
def act():
    event.messages[0].content[0].source = None
    event.messages[0].content = ""
show(ENCODER.encode, event)
""",
    "a wire dict, emptied": """
event = {"type": "CUSTOM", "name": long("n"), "value": (Evil.A, long("1")), "x": [long("2")]}
def act(): event.clear()
show(ENCODER.encode, event)
""",
    "a wire dict that grows without end": """
event = {"type": "CUSTOM", "name": "n", "value": Evil.A}
def act(): event[str(len(event))] = Evil.A
show(ENCODER.encode, event)
""",
    "the messages of a wire dict": """
event = {"type": "MESSAGES_SNAPSHOT", "messages": [
    {"id": long("1"), "role": "user", "content": (Evil.A, long("2"))}, {"id": long("3")}]}
def act():
    event["messages"].clear()
    event.clear()
show(ENCODER.encode, event)
""",
    "a message of a wire dict": """
event = {"type": "MESSAGES_SNAPSHOT", "messages": [
    {"id": long("1"), "role": "user", "x": Evil.A, "content": long("2")}, {"id": long("3")}]}
def act(): event["messages"][0] = None
show(ENCODER.encode, event)
""",
    "a wire dict whose keys compare by Python code": """
class Key:
    def __init__(self, like): self.like = like
    def __hash__(self): return hash(self.like)
    def __eq__(self, other):
        event.clear(); gc.collect(); ["x" * 60 for _ in range(100)]
        return False
for like in ("messageId", "type", "delta", "rawEvent", "timestamp"):
    event = {"type": "TEXT_MESSAGE_CONTENT", "message_id": long("m"), "raw_event": (long("r"),),
             Key(like): 1, "delta": long("d")}
    show(ENCODER.encode, event)
    event = {Key(like): 1, "type": "TEXT_MESSAGE_CONTENT", "message_id": long("m")}
    show(ENCODER.encode, event)
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [{"role": long("m"), Key("role"): 1}]}
    show(ENCODER.encode, event)
""",
    "a wire dict of a class with methods of its own": """
class Own(dict):
    def __getitem__(self, key): event.pop("x", None); return super().__getitem__(key)
    def keys(self): event.pop("y", None); return super().keys()
    def items(self): event.pop("y", None); return super().items()
    def __iter__(self): event.pop("z", None); return super().__iter__()
event = Own(type="CUSTOM", name=long("n"), value=1, x=long("x"), y=long("y"), z=long("z"))
show(ENCODER.encode, event)
event = Own(type="X", inner=Own(a=long("a"), b=Own()))
show(ENCODER.encode, event)
""",
    "a hook that empties the payload": """
def default(found):
    value.clear(); gc.collect()
    return long("d")
encoder = EventEncoder(default=default)
for make in (lambda: custom(value), lambda: {"type": "CUSTOM", "name": "n", "value": value}):
    value = [object(), long("1"), [long("2")]]
    show(encoder.encode, make())
""",
    "a hook that empties the event": """
def default(found):
    event.clear() if isinstance(event, dict) else event.__dict__.clear()
    gc.collect()
    return long("d")
encoder = EventEncoder(default=default)
for event in (custom([object(), long("1")], source=long("s")),
              {"type": "CUSTOM", "value": [object(), long("1")], "name": long("2")},
              {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": object(), "role": long("3")}]}):
    show(encoder.encode, event)
""",
    "a hook that grows the list it is in": """
def default(found):
    if len(value) < 100_000: value.append(object())
    return 1
encoder = EventEncoder(default=default)
for make in (lambda: custom(value), lambda: {"type": "CUSTOM", "name": "n", "value": value}):
    value = [object()]
    show(lambda event: len(encoder.encode(event)) > 0, make())
""",
    "a hook that changes the list of events": """
def default(found):
    events.clear(); gc.collect()
    return long("d")
encoder = EventEncoder(default=default)
events = [{"type": long("x"), "v": object(), "w": long("y")}, {"type": long("z")}]
show(encoder.encode_many, events)
""",
    "a class that goes away meanwhile": """
def make():
    class Gone(TextMessageEndEvent):
        more: int = 1
    return Gone(message_id="m", extra=Evil.A)
event = [make()]
def act(): event.clear()
show(lambda event: ENCODER.encode(event.pop()), event)
gc.collect()
""",
    "encoders that share a hook": """
def default(found):
    return encoders.pop().encode({"type": "X", "v": object()}) if encoders else "end"
encoders = [EventEncoder(default=default) for _ in range(20)]
show(EventEncoder(default=default).encode, {"type": "X", "v": object()})
""",
}


def test_events_that_change_while_they_are_encoded() -> None:
    """All in one process, and one by one only to name what went wrong."""
    names, failures = list(CHANGES), []
    while names:
        body = EVIL + "".join(
            f"\nprint('begin {name}', flush=True)\n{CHANGES[name]}" for name in names
        )
        here = Path(__file__).parent
        run = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                f"import sys; sys.path.insert(0, {str(here)!r})\n{body}",
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONMALLOC": "debug"},
            timeout=120,
        )
        current = ""
        for line in run.stdout.splitlines():
            if line.startswith("begin "):
                current = line[6:]
            elif line.startswith("text ") and not _sane(line):
                failures.append(f"{current}: {line[:300]}")
        if run.returncode == 0:
            break
        failures.append(f"{current}: exit code {run.returncode}: {run.stderr[-300:]}")
        names = names[names.index(current) + 1 :]
    assert failures == []


def _sane(line: str) -> bool:
    """Texts are made of what was in the event, never of what was put where it had been."""
    return "fresh" not in line and "\\x" not in line and "xxx" not in line


def test_a_representative_script_under_the_debug_allocator() -> None:
    run = run_with_debug_allocator(
        """
import gc
from oracle import *
from strategies import EVENT_CLASSES, variants, to_wire, snake
from test_encode_values import VALUES, KEYS
import agui_codec
encoder = agui_codec.EventEncoder(default=repr, drop_raw_event=True)
for cls in EVENT_CLASSES:
    for event in variants(cls)[:40]:
        text = official_text(event)
        wire = to_wire(event, snake)
        assert ENCODER.encode(event) == text and ENCODER.encode(wire) == text
        encoder.encode(event), encoder.encode(wire)
        ENCODER.encode_many([event, wire]), agui_codec.to_json(event)
for value in VALUES.values():
    message = {"role": "user", "content": value}
    for event in ({"type": "X", "v": [value, {"k": value}]}, {"type": "X", "metadata": value},
                  {"type": "MESSAGES_SNAPSHOT", "messages": [value, message]}):
        outcome(ENCODER.encode, event), outcome(encoder.encode, event)
for key in KEYS.values():
    outcome(ENCODER.encode, {"type": "X", "v": {key: key}})
    outcome(ENCODER.encode, {"type": "X", key: 1})
for _ in range(2):
    agui_codec.install()
    outcome(official_text, event), ENCODER.encode({"type": "X"})
    agui_codec.uninstall()
gc.collect()
print("done")
"""
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr[-3000:]
    assert "panicked" not in run.stderr


# --- threads -----------------------------------------------------------------------------------


def test_eight_threads_at_once() -> None:
    """On shared encoders and shared events, while one of them patches and rebuilds classes."""
    hooked = EventEncoder(default=lambda value: ENCODER.encode(EVENT))
    jobs: list[tuple[Any, Any, str]] = []
    for cls in EVENT_CLASSES:
        for event in variants(cls)[:8]:
            jobs.append((ENCODER.encode, event, official_text(event)))
    for value in ("é" * 5_000, "x" * 100_000, [{"k": i} for i in range(300)], {1: {2, 3}}):
        event = CustomEvent(name="n", value=value)
        text = official_text(event)
        jobs.append((ENCODER.encode, event, text))
        jobs.append((ENCODER.encode, {"type": "CUSTOM", "name": "n", "value": value}, text))
    bad = {"type": "X", "v": object()}
    jobs.append((hooked.encode, bad, hooked.encode(bad)))
    jobs.append((lambda event: str(outcome(ENCODER.encode, event).error), bad, ""))
    jobs[-1] = (*jobs[-1][:2], jobs[-1][0](bad))
    failures: list[Any] = []
    start, stop = threading.Barrier(9), threading.Event()

    def work(offset: int) -> None:
        start.wait()
        for turn in range(3):
            for at in range(len(jobs)):
                encode, event, text = jobs[(at * 7 + offset + turn) % len(jobs)]
                try:
                    got = encode(event)
                except BaseException as error:
                    got = error
                if got != text:
                    failures.append((event, got))

    def disturb() -> None:
        start.wait()
        original = TextMessageContentEvent.__pydantic_serializer__
        while not stop.is_set():
            TextMessageContentEvent.marker = 1  # type: ignore[attr-defined]
            TextMessageContentEvent.__pydantic_serializer__ = original
            del TextMessageContentEvent.marker  # type: ignore[attr-defined]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n * 11,)) for n in range(8)]
        disturber = threading.Thread(target=disturb)
        for thread in [*threads, disturber]:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        disturber.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_threads_that_change_what_others_encode() -> None:
    """No promise about the text, but it is always one of those that the event could have had."""
    event = RawEvent(event={"a": [1, 2, 3]})
    snapshot = MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c")])
    wire: dict[str, Any] = {"type": "X", "a": [1, 2, 3]}
    stop = threading.Event()

    def change() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            event.event = {"a": [1, 2, 3], "b": turn} if turn % 2 else (1, [turn])
            snapshot.messages = [UserMessage(id=str(turn), content="c")] * (turn % 3)
            wire["a"] = [turn]
            wire[str(turn % 5)] = turn
            wire.pop(str((turn + 1) % 5), None)

    def encode() -> None:
        for _ in range(3_000):
            for each in (event, snapshot, wire):
                got = outcome(ENCODER.encode, each)
                if got.error is None and not (
                    got.result.startswith('data: {"type":"') and got.result.endswith("}\n\n")
                ):
                    broken.append(got)

    broken: list[Any] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        changer = threading.Thread(target=change)
        encoders = [threading.Thread(target=encode) for _ in range(3)]
        for thread in [changer, *encoders]:
            thread.start()
        for thread in encoders:
            thread.join()
        stop.set()
        changer.join()
    finally:
        sys.setswitchinterval(interval)
    assert broken == []


# --- hooks that fail or meddle -----------------------------------------------------------------


class HookError(Exception):
    pass


METHODS = ("encode", "encode_sse", "encode_binary", "encode_protobuf")


def _odd_events(value: Any) -> list[Any]:
    return [
        {"type": "CUSTOM", "name": "n", "value": value},
        CustomEvent(name="n", value=value),
        {"type": "STATE_SNAPSHOT", "snapshot": {"a": [value]}},
        {"type": "X", "a": {"b": value}},
    ]


@pytest.mark.parametrize("method", METHODS)
def test_what_the_hook_raises_is_the_cause(method: str) -> None:
    def hook(value: Any) -> Any:
        raise HookError(type(value).__name__)

    encode = getattr(EventEncoder(default=hook), method)
    for event in _odd_events({"a": [object()]}) + _odd_events({object()}):
        if method == "encode_protobuf" and isinstance(event, dict) and event["type"] == "X":
            continue
        with pytest.raises((EncodeError, PydanticSerializationError)) as caught:
            encode(event)
        assert type(caught.value.__cause__) is HookError
        if isinstance(event, dict) or method == "encode_protobuf":
            assert type(caught.value) is EncodeError


@pytest.mark.parametrize("method", METHODS)
def test_an_interruption_inside_the_hook_is_not_swallowed(method: str) -> None:
    def hook(value: Any) -> Any:
        raise KeyboardInterrupt

    for event in _odd_events(object())[:3]:
        with pytest.raises(KeyboardInterrupt):
            getattr(EventEncoder(default=hook), method)(event)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change", ["grow", "clear", "clear above"])
@pytest.mark.parametrize("model", [False, True])
def test_a_hook_that_changes_the_dict_that_is_written(
    method: str, change: str, *, model: bool
) -> None:
    inner: dict[str, Any] = {"a": object(), "b": 2, "c": 3}
    value = {"inner": inner, "other": 1}

    def hook(_: Any) -> Any:
        if change == "grow":
            inner[str(len(inner))] = 1
        elif change == "clear":
            inner.clear()
        else:
            value.clear()
        return "h"

    event = CustomEvent(name="n", value=value) if model else _odd_events(value)[0]
    encoder = EventEncoder(default=hook)
    with pytest.raises(EncodeError):
        getattr(encoder, method)(event)
    assert encoder.encode({"type": "X"}) == 'data: {"type":"X"}\n\n'
