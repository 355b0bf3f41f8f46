"""Protobuf: what is no event and no message, and how the errors say so."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from agui_codec import (
    AGUIError,
    DecodeError,
    EncodeError,
    UnknownEventError,
    proto,
)
from by_hand import tag


def snapshot(value: Any) -> dict[str, Any]:
    return {"type": "STATE_SNAPSHOT", "snapshot": value}


@pytest.mark.parametrize("event", [object(), None, "text", 5, [], {}, {"type": 5}, {"type": "X"}])
def test_what_is_no_event_is_refused(event: Any) -> None:
    with pytest.raises(EncodeError):
        proto.encode(event)


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ({"type": "TEXT_MESSAGE_END", "messageId": 5}, "messageId"),
        ({"type": "TEXT_MESSAGE_END", "messageId": None}, "messageId"),
        ({"type": "CUSTOM", "name": "n", "value": 1, "metadata": [1]}, "metadata"),
        ({"type": "MESSAGES_SNAPSHOT", "messages": {}}, "messages"),
        ({"type": "MESSAGES_SNAPSHOT", "messages": ["text"]}, "messages[0]"),
        ({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {},
          "replace": 1}, "replace"),
        ({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": "i"}, "input"),
        ({"type": "STATE_DELTA", "delta": [{"op": "add", "path": 5}]}, "delta[0].path"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(event: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError, match=re.escape(path) + ": .* needed, not ") as info:
        proto.encode(event)
    assert info.value.path == path
    assert isinstance(info.value, AGUIError)
    assert isinstance(info.value, ValueError)


BASE = tag(1, tag(1, 2))
TEXT_END = tag(3, BASE + tag(2, b"m"))


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        (b"", "without an event"),
        (tag(3, b""), "without a base event"),
        (tag(3, tag(2, b"m")), "without a base event"),
        (tag(3, tag(1, b"") + tag(2, b"m")), "END says that it is of TEXT_MESSAGE_START"),
        (tag(3, tag(1, tag(1, 99))), "an unknown type"),
        (TEXT_END + tag(2, BASE), "more than one event"),
        (tag(3, 5), "without an event"),
        (tag(40, 5), "without an event"),
        (tag(40, b"\x0a\x05"), "without an event"),
        (TEXT_END + b"\x00\x00", "field number 0"),
        (TEXT_END + b"\x1c", "not begun"),
        (TEXT_END + b"\x1b", "inside a group"),
        (TEXT_END + b"\xf6\x01", "wire type"),
        (TEXT_END + b"\x82\x02\x7f", "past the end"),
        (TEXT_END[:-1], "past the end"),
    ],
)  # fmt: skip
def test_malformed_envelopes(wire: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message) as info:
        proto.decode(wire)
    assert type(info.value) is DecodeError


def test_an_event_from_the_future_is_told_apart() -> None:
    for wire in (
        tag(32, b""),
        tag(99, BASE),
        tag(32, b"") + tag(33, BASE),
        tag(40, b"") + b"\x85\x02abcd",
    ):
        with pytest.raises(UnknownEventError, match="does not know"):
            proto.decode(wire)
    assert issubclass(UnknownEventError, DecodeError)
    # Beside a known event it is a field to ignore.
    expected = {"type": "TEXT_MESSAGE_END", "messageId": "m"}
    assert proto.decode(tag(99, b"\xff") + TEXT_END, as_dict=True) == expected


OBJECT = tag(1, tag(1, b"k") + tag(2, tag(3, b"v")))


def test_merging() -> None:
    first = tag(1, tag(1, 9) + tag(4, OBJECT)) + tag(2, tag(5, OBJECT)) + tag(3, b"old")
    other = tag(1, tag(1, b"k2") + tag(2, tag(4, 1)))
    second = tag(2, tag(5, other)) + tag(3, b"new") + tag(1, tag(4, other))
    expected = {
        "type": "RAW",
        "metadata": {"k": "v", "k2": True},
        "event": {"k": "v", "k2": True},
        "source": "new",
    }
    assert proto.decode(tag(10, first) + tag(10, second), as_dict=True) == expected
    assert proto.decode(tag(10, first + second), as_dict=True) == expected
    # Another arm of a value replaces it.
    replaced = tag(
        10,
        first
        + tag(2, tag(3, b"text") + tag(6, tag(1, tag(4, 1))))
        + tag(2, tag(6, tag(1, tag(1, 0)))),
    )
    assert proto.decode(replaced, as_dict=True)["event"] == [True, None]
    # What is replaced has to be well-formed all the same.
    for bad in (tag(2, tag(3, b"\xff")), tag(2, tag(5, b"\x0a\x7f")), tag(3, b"\xff")):
        with pytest.raises(DecodeError):
            proto.decode(tag(10, first + bad + tag(2, tag(4, 1)) + tag(3, b"new")))


def test_what_the_model_refuses_is_a_decode_error() -> None:
    wire = proto.encode({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "nobody"})
    assert proto.decode(wire, as_dict=True)["role"] == "nobody"
    with pytest.raises(DecodeError) as info:
        proto.decode(wire)
    assert isinstance(info.value.__cause__, ValidationError)
    assert info.value.path.endswith("role")


def test_any_bytes_like_object_is_read() -> None:
    for data in (bytearray(TEXT_END), memoryview(TEXT_END), memoryview(TEXT_END * 2)[::2][:0]):
        if data:
            assert proto.decode(data, as_dict=True)["messageId"] == "m"
    with pytest.raises((TypeError, BufferError)):
        proto.decode("text")  # type: ignore[call-overload]


def test_the_encoder_is_reusable_after_an_error() -> None:
    good = proto.encode(snapshot({"a": [1, "x"]}))
    for bad in (
        snapshot({"a": [1, object()]}),
        snapshot({"a": {"b": "\ud800"}}),
    ):
        with pytest.raises(EncodeError):
            proto.encode(bad)
        assert proto.encode(snapshot({"a": [1, "x"]})) == good


@pytest.mark.parametrize(
    "foreign",
    [b"\x0b\x0c", tag(1, 5), b"\x09" + b"\0" * 8, b"\x0d" + b"\0" * 4],
    ids=["group", "varint", "64 bits", "32 bits"],
)
def test_the_number_of_an_arm_with_another_wire_type_is_unknown(foreign: bytes) -> None:
    step = proto.encode({"type": "STEP_STARTED", "stepName": "A"})
    expected = {"type": "STEP_STARTED", "stepName": "A"}
    assert proto.decode(foreign + step, as_dict=True) == expected
    assert proto.decode(step + foreign, as_dict=True) == expected
    with pytest.raises(DecodeError, match="without an event"):
        proto.decode(foreign)
