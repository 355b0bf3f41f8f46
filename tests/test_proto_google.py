"""Against Google's runtime for Python, compiled from our .proto files."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from ag_ui import core
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

import random_events
from agui_codec import DecodeError, proto
from by_hand import varint
from conftest import ROOT

sys.path.insert(0, str(ROOT))
from benches import upb

SEEDS = (31, 32)
COUNT = 620


@pytest.fixture(scope="module")
def event_class() -> type[Message]:
    """`ag_ui.Event` of Google's runtime."""
    event: type[Message] = upb.classes().Event
    return event


def read(wire: bytes) -> dict[str, Any]:
    return proto.decode(wire, as_dict=True)


def wires(seed: int, count: int = COUNT) -> list[bytes]:
    print(f"seed {seed}")
    return [proto.encode(event) for event in random_events.events(seed, count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_parses_what_the_other_writes(event_class: type[Message], seed: int) -> None:
    for wire in wires(seed):
        message = event_class.FromString(wire)
        assert_no_unknown_fields(message)
        for deterministic in (True, False):
            theirs = message.SerializeToString(deterministic=deterministic)
            assert read(theirs) == read(wire)
            # The maps' own order aside, and empty keys, the bytes say the same.
            assert event_class.FromString(theirs) == message


def assert_no_unknown_fields(message: Message) -> None:
    """Every byte of ours is a field that the contract has."""
    known = message.__class__()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize()


def test_messages_made_by_their_json_read_alike(event_class: type[Message]) -> None:
    """What they see in our bytes, as their own JSON, is enough to make the event anew."""
    for wire in wires(33, 310):
        seen = json_format.MessageToDict(event_class.FromString(wire))
        theirs = json_format.ParseDict(seen, event_class()).SerializeToString()
        assert read(theirs) == read(wire)


@pytest.mark.parametrize("seed", SEEDS)
def test_fields_in_any_order_with_others_between(event_class: type[Message], seed: int) -> None:
    shuffle = random.Random(seed)
    for wire in wires(seed):
        odd = rewritten(wire, event_class.DESCRIPTOR, shuffle)
        assert event_class.FromString(odd) is not None
        assert read(odd) == read(wire)


def fields(wire: bytes) -> list[tuple[int, bytes, bytes | None]]:
    """Number, whole bytes and payload (if it has its length in front) of each field."""
    found = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = wire[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(wire):
        start = at
        tag = number()
        payload = None
        if tag & 7 == 2:
            length = number()
            payload = wire[at : at + length]
            at += length
        elif tag & 7 == 0:
            number()
        else:
            at += {1: 8, 5: 4}[tag & 7]
        found.append((tag >> 3, wire[start:at], payload))
    return found


def unknown(shuffle: random.Random) -> bytes:
    """A field that no message has, of any wire type."""
    number = shuffle.choice([100, 1000, 19000, 2**29 - 1])
    group = varint(number << 3 | 3) + b"\x08\x01" + varint(number << 3 | 4)
    return shuffle.choice(
        [
            varint(number << 3) + b"\xff" * 9 + b"\x01",
            varint(number << 3 | 1) + b"12345678",
            varint(number << 3 | 2) + b"\x03abc",
            varint(number << 3 | 5) + b"1234",
            group,
            varint(99 << 3 | 3) + group + group + varint(99 << 3 | 4),
        ]
    )


def mistyped(descriptor: Any, shuffle: random.Random) -> bytes:
    """The number of a known field with a wire type that is not the field's: an unknown field."""
    field = shuffle.choice(descriptor.fields)
    with_length = field.type in {FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING}
    number = field.number << 3
    payloads = {
        0: b"\xff" * 9 + b"\x01",
        1: b"12345678",
        2: b"\x02\x08\x01",
        3: b"\x08\x01" + varint(number | 4),
        5: b"1234",
    }
    del payloads[1 if field.type == FieldDescriptor.TYPE_DOUBLE else 2 if with_length else 0]
    wire_type = shuffle.choice(list(payloads))
    return varint(number | wire_type) + payloads[wire_type]


def rewritten(wire: bytes, descriptor: Any, shuffle: random.Random) -> bytes:
    """The message with its fields in another order, except where the order says something."""
    by_number: dict[int, list[bytes]] = {}
    for number, whole, payload in fields(wire):
        field = descriptor.fields_by_number[number]
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = rewritten(payload or b"", field.message_type, shuffle)
            whole = varint(number << 3 | 2) + varint(len(inner)) + inner
        elif field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated:
            # The last one counts.
            old = varint(number << 3 | 2) + b"\x03old"
            whole = shuffle.choice([b"", b"", b"", old]) + whole
        by_number.setdefault(number, []).append(whole)
    # Nothing is known to come before the arm of an envelope: others would be ignored either way.
    queues = list(by_number.values())
    out = b""
    while queues:
        if shuffle.random() < 0.3:
            out += shuffle.choice([unknown(shuffle), mistyped(descriptor, shuffle)])
        queue = shuffle.choice(queues)
        out += queue.pop(0)
        if not queue:
            queues.remove(queue)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_merge_as_theirs_do(event_class: type[Message], seed: int) -> None:
    """Two events of one type, one after the other: messages merge, scalars are replaced."""
    maker = random_events.Maker(seed)
    compared = 0
    for at in range(COUNT):
        cls = random_events.EVENT_CLASSES[at % len(random_events.EVENT_CLASSES)]
        both = proto.encode(maker.event(cls)) + proto.encode(maker.event(cls))
        merged = event_class.FromString(both).SerializeToString()
        try:
            expected = read(merged)
        except DecodeError:
            # A string and parts, say: each event had one form of content.
            with pytest.raises(DecodeError):
                read(both)
            continue
        assert read(both) == expected
        compared += 1
    assert compared > COUNT * 0.9


def test_nested_messages_merge_at_every_level(event_class: type[Message]) -> None:
    maker = random_events.Maker(5)
    for _ in range(200):
        wire = proto.encode(maker.event(core.RunStartedEvent))
        odd = doubled(wire, event_class.DESCRIPTOR)
        assert len(odd) > len(wire)
        assert read(event_class.FromString(odd).SerializeToString()) == read(odd)


def doubled(wire: bytes, descriptor: Any) -> bytes:
    """The message with each singular message in it cut in two."""
    out = b""
    for number, whole, payload in fields(wire):
        field = descriptor.fields_by_number[number]
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            out += whole
            continue
        inner = doubled(payload or b"", field.message_type)
        parts = [part for _, part, _ in fields(inner)]
        halves = [parts[: len(parts) // 2], parts[len(parts) // 2 :]]
        for half in [parts] if field.is_repeated else halves:
            joined = b"".join(half)
            out += varint(number << 3 | 2) + varint(len(joined)) + joined
    return out


@pytest.mark.parametrize(
    "wire",
    [b"\x00", b"\x0c", b"\x0b", b"\x0b\x14", b"\x0e", b"\x0a\x05a", b"\x0a", b"\xff" * 11,
     b"\x0a\x02\x0a\x7f", b"\x12\x04\x12\x02\xc3\x28"],
)  # fmt: skip
def test_both_refuse_what_is_no_protobuf(event_class: type[Message], wire: bytes) -> None:
    from google.protobuf.message import DecodeError as TheirError

    with pytest.raises(TheirError):
        event_class.FromString(wire)
    with pytest.raises(DecodeError):
        read(wire)
