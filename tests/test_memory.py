"""Memory: nothing grows over a million events, no count drifts, nothing is kept alive."""

import enum
import functools
import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from ag_ui.core import (
    CustomEvent,
    EventType,
    MessagesSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextPart,
    UserMessage,
)

import agui_codec
from agui_codec import EncodeError, EventEncoder, to_json
from conftest import MEMORY_NOISE
from oracle import ENCODER, outcome
from strategies import EVENT_CLASSES, to_wire, variants

pytestmark = pytest.mark.serial


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def assert_flat(work: Callable[[], None], rounds: int) -> None:
    """The process does not grow over so many rounds of work, once it is warm.

    Blocks of Python's allocator are counted, so that one object leaked in a few rounds shows; what
    Rust allocates shows in the resident memory only, where a leak of a string a round does.
    """
    for _ in range(rounds // 4):
        work()
    memory, blocks = resident(), sys.getallocatedblocks()
    for _ in range(rounds):
        work()
    more_memory, more_blocks = resident() - memory, sys.getallocatedblocks() - blocks
    assert more_blocks < min(1_000, rounds // 2), f"{more_blocks} blocks in {rounds} rounds"
    assert more_memory < MEMORY_NOISE, f"{more_memory} bytes in {rounds} rounds"


def refused(encode: Callable[[Any], Any], event: Any) -> None:
    try:
        encode(event)
    except ValueError:
        return
    raise AssertionError("it was encoded")


def test_a_million_events() -> None:
    content = TextMessageContentEvent(message_id="m", delta="token")
    wide = TextMessageContentEvent(message_id="m", delta="tökén 漢 😀")
    snapshot = MessagesSnapshotEvent(
        messages=[UserMessage(id="1", content=[TextPart(text="t", metadata={"k": [1, 2.5, None]})])]
    )
    wires = [to_wire(event) for event in (content, wide, snapshot)]
    unknown = {"type": "FUTURE", "a": {"b": [1, (2,), "é"]}, "timestamp": None}
    encode, many = ENCODER.encode, ENCODER.encode_many

    def work() -> None:
        for _ in range(100):
            encode(content), encode(wide), encode(content)
            encode(wires[0]), encode(wires[1]), encode(unknown)
            to_json(content)
        encode(snapshot), encode(wires[2])
        many([content, wide, *wires])

    assert_flat(work, rounds=1_250)


def test_what_pydantic_writes_and_what_nobody_can() -> None:
    warned = TextMessageContentEvent(message_id="m", delta="d", foo=1)
    extra = TextMessageContentEvent(message_id="m", delta="d", messageId="clash")
    odd = CustomEvent(name="n", value={1, 2})
    bad = CustomEvent(name="n", value={"deep": [object()]})
    lone = CustomEvent(name="n", value=["\ud800"])
    wire_odd = {"type": "X", "value": {1: b"x", "s": {1, 2}}}
    # Long keys, so that a path or a message that is leaked shows.
    long = "k" * 2_000
    wire_bad = {"type": "CUSTOM", "value": {long: [object()]}, "name": "n"}
    wire_key = {"type": "X", long: 1, 5: 1}
    wire_lone = {"type": "X", "a": "é\ud800"}
    hooked = EventEncoder(default=lambda value: ["replaced"], drop_raw_event=True)
    encode = ENCODER.encode

    def work() -> None:
        encode(warned), encode(extra), encode(odd), encode(wire_odd)
        hooked.encode(bad), hooked.encode(wire_bad), hooked.encode(warned)
        for event in (bad, lone, wire_bad, wire_key, wire_lone, None, 5, {"type": None}):
            refused(encode, event)
        refused(ENCODER.encode_many, [warned, bad])

    assert_flat(work, rounds=6_000)


def test_events_that_are_made_and_thrown_away() -> None:
    encode = ENCODER.encode

    def work() -> None:
        for number in range(20):
            encode(TextMessageContentEvent(message_id=str(number), delta="d" * number))
            encode({"type": "X", "payload": {str(number): [number] * number}})
            encode({"type": f"KIND_{number}", f"key_{number}": "é" * number})
        EventEncoder("text/event-stream").encode(TextMessageEndEvent(message_id="m"))

    assert_flat(work, rounds=1_500)


def test_a_large_event_leaves_no_large_buffer() -> None:
    small = TextMessageEndEvent(message_id="m")
    ENCODER.encode(small)
    before = resident()
    for _ in range(3):
        text = ENCODER.encode(CustomEvent(name="n", value="x" * (64 << 20)))
        assert len(text) > 64 << 20
        del text
        ENCODER.encode(small)
    assert resident() - before < 8 << 20


def test_classes_and_patches_come_and_go() -> None:
    def work() -> None:
        class Mine(TextMessageEndEvent):
            more: int = 1

        for encoder in (ENCODER, EventEncoder(default=str)):
            encoder.encode(Mine(message_id="m"))
            encoder.encode({"type": "X", "a": Mine(message_id="m")})
        agui_codec.install()
        Mine(message_id="m").model_dump_json(by_alias=True)
        agui_codec.uninstall()

    # Building a model class is slow and fragments memory; the objects are counted instead.
    for _ in range(5):
        work()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        work()
    gc.collect()
    assert len(gc.get_objects()) - before < 200


def test_traced_allocations_do_not_grow() -> None:
    """What Python's allocators have handed out is exactly as much after as before."""
    events: list[Any] = [variants(cls)[2] for cls in EVENT_CLASSES]
    events += [to_wire(event) for event in events]
    bad = {"type": "X", "a": [object()]}

    def work() -> None:
        for event in events:
            ENCODER.encode(event)
            ENCODER.encode_binary(event)
        refused(ENCODER.encode, bad)

    for _ in range(20):
        work()
    tracemalloc.start()
    try:
        for _ in range(20):
            work()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(200):
            work()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 12,400 events twice each: a leak of one byte in each would show.
    assert after - before < 8_000


# --- reference counts --------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "a value of its own"


def test_reference_counts_stay() -> None:
    delta, key, value, kind = "d" * 50, "k" * 50, [1.5, 2**80, "x" * 50], EventType.CUSTOM
    hook = lambda found: value  # noqa: E731
    event = TextMessageContentEvent(message_id="m" * 50, delta=delta, **{key: value})
    odd = CustomEvent(name=delta, value={key: {1: value, "s": {delta}}, delta: Color.RED})
    bad = CustomEvent(name=delta, value={key: [object(), value]})
    message = UserMessage(id=delta, content="c", metadata={key: value})
    snapshot = MessagesSnapshotEvent(messages=[message, message])
    wires = [to_wire(each) for each in (event, odd, snapshot)]
    wire_bad = {"type": "CUSTOM", key: value, "value": [object()]}
    other_keys = {"type": "X", "v": {1: value, None: delta, Color.RED: key}}
    encoder = EventEncoder(default=hook)
    watched: list[Any] = [
        None, True, False, "", "type", (), 1, 0,
        delta, key, value, *value, kind, hook, event, odd, bad, message, snapshot, Color.RED,
        Color, Color.RED.value, *wires, wire_bad, other_keys, event.__dict__, odd.value,
        event.__pydantic_extra__, snapshot.messages, encoder, ENCODER,
        TextMessageContentEvent, CustomEvent, UserMessage, MessagesSnapshotEvent, EncodeError,
        TextMessageContentEvent.__pydantic_serializer__, EventType.TEXT_MESSAGE_CONTENT,
        *(cls for cls in EVENT_CLASSES), *EventType,
    ]  # fmt: skip

    def work() -> None:
        for each in (event, odd, snapshot, *wires, other_keys):
            ENCODER.encode(each)
            ENCODER.encode_binary(each)
            to_json(each)
        ENCODER.encode_many([event, *wires, event])
        encoder.encode(bad)
        encoder.encode(wire_bad)
        for each in (bad, wire_bad, {"type": "X", key: "\ud800"}, {"type": delta, 5: key}):
            refused(ENCODER.encode, each)
        refused(ENCODER.encode_many, [event, wire_bad])

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(each) for each in watched]

    for _ in range(20):
        work()
    before = counts()
    for _ in range(500):
        work()
    after = counts()
    drift = [
        (repr(each)[:80], later - earlier)
        for each, earlier, later in zip(watched, before, after, strict=True)
        # Small shared objects are used by everyone; ours would be a hundred times as many.
        if abs(later - earlier) > 50
    ]
    assert drift == []


# --- nothing is kept alive ---------------------------------------------------------------------


def test_what_was_encoded_can_die() -> None:
    class Holder:
        pass

    event = TextMessageContentEvent(message_id="m", delta="d", raw_event=Holder())
    wire = {"type": "X", "holder": Holder(), "model": TextPart(text="t")}
    encoder = EventEncoder(default=lambda found: "h")
    dying = [
        weakref.ref(each)
        for each in (event, event.raw_event, wire["holder"], wire["model"], encoder)
    ]
    for each in (event, wire):
        encoder.encode(each)
        encoder.encode_many([each])
        refused(ENCODER.encode, each)
        outcome(ENCODER.encode, each)
    del each, event, wire, encoder
    gc.collect()
    assert [ref() for ref in dying] == [None] * 5


@pytest.mark.parametrize("use", ["encode", "install", "hook", "wire", "error"])
def test_classes_of_the_user_can_die(use: str) -> None:
    class Mine(TextMessageEndEvent):
        more: Any = None

    class Kind(enum.Enum):
        A = "a"

    dying = [weakref.ref(Mine), weakref.ref(Kind)]
    mine = Mine(message_id="m", more=Kind.A)
    if use == "encode":
        ENCODER.encode(mine)
        ENCODER.encode(CustomEvent(name="n", value=[mine, {Kind.A: Kind.A}]))
    elif use == "install":
        agui_codec.install()
        mine.model_dump_json(by_alias=True)
        ENCODER.encode(mine)
        agui_codec.uninstall()
    elif use == "hook":
        answer = functools.partial(dict.get, {"x": mine}, "x")
        EventEncoder(default=lambda found, answer=answer: answer()).encode({"type": "X", "a": 1j})
        EventEncoder(default=lambda found, answer=answer: answer()).encode(
            CustomEvent(name="n", value=object())
        )
        del answer
    elif use == "wire":
        ENCODER.encode({"type": "X", "a": mine, "b": {Kind.A: [Kind.A]}})
    else:
        mine.more = object()
        refused(ENCODER.encode, mine)
        refused(ENCODER.encode, {"type": "X", "a": mine})
    del mine, Mine, Kind
    for _ in range(3):
        gc.collect()
    assert [ref() for ref in dying] == [None, None]


def test_encoders_in_cycles_are_collected() -> None:
    class Server:
        def __init__(self) -> None:
            self.encoder = EventEncoder(default=self.default)

        def default(self, value: Any) -> Any:
            return "d"

    class Own(EventEncoder):
        pass

    server = Server()
    assert server.encoder.encode({"type": "X", "a": object()}) == 'data: {"type":"X","a":"d"}\n\n'
    own = Own()
    own.me = own
    dying = [weakref.ref(server), weakref.ref(server.encoder), weakref.ref(own), weakref.ref(Own)]
    del server, own, Own
    gc.collect()
    gc.collect()
    assert [ref() for ref in dying] == [None] * 4


def test_errors_keep_only_what_their_traceback_does() -> None:
    class Thing:
        pass

    thing = Thing()
    dying = weakref.ref(thing)
    caught = None
    try:
        ENCODER.encode({"type": "X", "a": [thing]})
    except EncodeError as error:
        caught = error.with_traceback(None)
        caught.__cause__ = caught.__context__ = None
    del thing
    gc.collect()
    assert caught is not None
    assert caught.path == "a[0]"
    assert dying() is None


def test_interned_keys_do_not_pile_up() -> None:
    """Keys of the user's dicts are not interned for ever."""

    def work(start: int) -> None:
        for number in range(start, start + 2_000):
            ENCODER.encode({"type": f"type-{number}", f"key-{number}": {f"inner-{number}": 1}})

    work(0)
    tracemalloc.start()
    try:
        work(2_000)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        work(4_000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
