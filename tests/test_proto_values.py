"""Protobuf: numbers, text, depth, and payloads that are not plain JSON."""

from __future__ import annotations

import enum
import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from ag_ui import core
from pydantic import BaseModel

from agui_codec import (
    AGUI_MEDIA_TYPE,
    MAX_DEPTH,
    DecodeError,
    Deviation,
    EncodeError,
    EventEncoder,
    proto,
    to_json,
)
from by_hand import EVENT, dropped, round_trip
from conftest import on_small_stack


def snapshot(value: Any) -> dict[str, Any]:
    return {"type": "STATE_SNAPSHOT", "snapshot": value}


def carried(value: Any) -> Any:
    """What becomes of a payload on the way, the same for a dict and a model."""
    wire = proto.encode(snapshot(value))
    assert proto.encode(core.StateSnapshotEvent(snapshot=value)) == wire
    return proto.decode(wire, as_dict=True)["snapshot"]


def test_key_order_is_the_objects_own() -> None:
    keys = ["z", "10", "", "a", "9", "\u00e9"]
    assert list(carried(dict.fromkeys(keys, 1))) == keys


# --- numbers, text, depth ------------------------------------------------------------------


def test_p1_integers_come_back_as_integers() -> None:
    value = {"a": 1, "c": 2**70, "d": -0.0, "e": 1.0, "max": 2**53 - 1, "min": -(2**53 - 1)}
    back = carried(value)
    assert back == value
    assert type(back["a"]) is type(back["e"]) is type(back["max"]) is type(back["min"]) is int
    assert json.dumps(back["e"]) == "1"
    # Past 2^53-1 a double may stand for several integers; and no int is -0.0.
    assert type(back["c"]) is type(carried(2**53)) is type(back["d"]) is float
    assert str(back["d"]) == "-0.0"


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 + 1, 2**70 + 1, 10**400])
def test_p1_an_integer_that_no_double_carries(value: int) -> None:
    for event in (snapshot({"a": [0, value]}), core.StateSnapshotEvent(snapshot={"a": [0, value]})):
        seen: list[Deviation] = []
        encoder = EventEncoder(AGUI_MEDIA_TYPE, on_deviation=seen.append)
        wire = proto.encode(event, on_deviation=seen.append)
        frame = len(wire).to_bytes(4, "big") + wire
        assert encoder.encode(event) == encoder.encode_many([event]) == frame
        assert encoder.encode_binary(event) == encoder.encode_protobuf(event) == frame
        assert len(seen) == 5
        (deviation,) = set(seen)
        assert (deviation.kind, deviation.event_type) == ("inexact_number", "STATE_SNAPSHOT")
        assert deviation.path == "snapshot.a[1]"
        assert deviation.detail.startswith(f"{value} is ")
        (_, back) = proto.decode(wire, as_dict=True)["snapshot"]["a"]
        assert back == (None if value == 10**400 else float(value))
        exact = EventEncoder(AGUI_MEDIA_TYPE, exact_integers=True)
        for encode in (
            lambda event: proto.encode(event, exact_integers=True),
            exact.encode,
            exact.encode_binary,
            exact.encode_protobuf,
            lambda event, exact=exact: exact.encode_many([event]),
        ):
            with pytest.raises(EncodeError, match=r"^snapshot\.a\[1\]: -?\d+: ") as info:
                encode(event)
            assert info.value.path == "snapshot.a[1]"


def test_p1_each_place_of_such_an_integer_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    big = 2**60 + 1
    event = {
        "type": "MESSAGES_SNAPSHOT",
        "rawEvent": {1: {"a": big}, "b": (big, big)},
        "metadata": {"m": big, "exact": 2**60},
        "messages": [
            {"id": "1", "role": "activity", "activityType": "t", "content": {"": [big]}},
            {"id": "2", "role": "user", "content": [
                {"type": "image", "source": {"type": "url", "value": "u"}, "metadata": {"x": big}}
            ]},
        ],
    }  # fmt: skip
    expected = [
        "rawEvent.1.a", "rawEvent.b[0]", "rawEvent.b[1]", "metadata.m", "messages[0].content.[0]",
        "messages[1].content[0].metadata.x",
    ]  # fmt: skip
    back = round_trip(event)
    assert dropped(caplog) == expected
    assert back["rawEvent"] == {"1": {"a": float(big)}, "b": [float(big)] * 2}
    # What the event's other values make of it: the whole is read by way of its JSON.
    event["timestamp"] = Decimal(5)
    back = round_trip(event)
    assert dropped(caplog) == expected
    assert back["timestamp"] == 5


def test_what_on_deviation_raises_comes_through() -> None:
    class NoLossError(Exception):
        pass

    def refuse(deviation: Deviation) -> None:
        raise NoLossError(deviation.path)

    encoder = EventEncoder(AGUI_MEDIA_TYPE, on_deviation=refuse)
    for event, path in (
        (snapshot(2**53 + 1), "snapshot"),
        ({"type": "STEP_STARTED", "stepName": "s", "vendor": 1}, "vendor"),
    ):
        with pytest.raises(NoLossError, match=path):
            encoder.encode(event)
        with pytest.raises(NoLossError, match=path):
            encoder.encode_many([event])
    assert encoder.encode(snapshot(1)) == EventEncoder(AGUI_MEDIA_TYPE).encode(snapshot(1))


def test_more_digits_than_python_prints() -> None:
    for event in (snapshot(10**5000), snapshot([10**5000, Decimal(1)])):
        seen: list[Deviation] = []
        back = proto.decode(proto.encode(event, on_deviation=seen.append), as_dict=True)
        assert back["snapshot"] in (None, [None, "1"])
        assert [deviation.kind for deviation in seen] == ["inexact_number"]


def test_p4_not_a_number_is_null_as_in_json() -> None:
    nan, inf = float("nan"), float("inf")
    assert carried({"a": nan, "b": [inf, -inf]}) == {"a": None, "b": [None, None]}
    assert carried(nan) is None
    # In an optional field JSON leaves it out.
    event = core.CustomEvent(name="n", value=nan, raw_event=nan)
    assert round_trip(event) == json.loads(to_json(event))


def test_p5_half_a_surrogate_pair_is_refused() -> None:
    for event, path in [
        (core.TextMessageContentEvent(message_id="m", delta="ok \ud83d"), "delta"),
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "\ud83d"}, "delta"),
        (snapshot({"a": ["\udc00"]}), "snapshot.a[0]"),
        (snapshot({"a": {"\ud83d": 1}}), "snapshot.a.\ufffd\ufffd\ufffd"),
    ]:
        with pytest.raises(EncodeError, match="surrogate") as info:
            proto.encode(event)
        assert info.value.path == path


@pytest.mark.parametrize("text", [b"\xed\xa0\x80", b"\xff", b"ok\xc3", b"\xc0\x80"])
def test_p5_text_that_is_not_utf8_is_refused(text: bytes) -> None:
    wire = proto.encode({"type": "CUSTOM", "name": "NAME", "value": {"k": "VALUE"}})
    for old in (b"NAME", b"VALUE"):
        spoilt = wire.replace(old, text.ljust(len(old), b"."))
        with pytest.raises(DecodeError, match="UTF-8") as info:
            proto.decode(spoilt)
        assert info.value.path == {b"NAME": "name", b"VALUE": "value.k"}[old]
        assert info.value.offset in range(len(wire))
        assert spoilt[info.value.offset] > 0x7F


def test_p8_timestamps() -> None:
    for timestamp in (0, -5, 2**53 - 1, -(2**53 - 1)):
        event = {"type": "STEP_STARTED", "timestamp": timestamp, "stepName": "s"}
        assert round_trip(event) == event
    assert "timestamp" not in round_trip({"type": "STEP_STARTED", "stepName": "s"})
    # JSON does not tell them apart.
    assert round_trip({"type": "STEP_STARTED", "timestamp": 2.0, "stepName": "s"})["timestamp"] == 2
    wire = proto.encode({"type": "STEP_STARTED", "timestamp": 1, "stepName": "s"})
    beyond = b"\x7a\x12\x0a\x0d" + wire[4:6] + b"\x10" + b"\x80" * 7 + b"\x20"
    beyond = beyond[:3] + bytes([len(beyond) - 4]) + beyond[4:] + wire[-3:]
    beyond = beyond[:1] + bytes([len(beyond) - 2]) + beyond[2:]
    with pytest.raises(DecodeError, match=r"^timestamp: .*2\^53-1"):
        proto.decode(beyond)


class Bridged(core.StepStartedEvent):
    """As bridges between frameworks declare it."""

    timestamp: Any = None


@pytest.mark.parametrize(
    ("timestamp", "expected", "lossy"),
    [
        ("5", 5, False),
        ("-1700000000000", -1700000000000, False),
        ("5.0", 5, False),
        (Decimal(5), 5, False),
        (Decimal("1700000000000"), 1700000000000, False),
        (2.0, 2, False),
        (float("nan"), None, False),
        (1700000000.75, 1700000000, True),
        (-0.5, 0, True),
        ("2026-01-01T00:00:00Z", None, True),
        (datetime(2026, 1, 1, tzinfo=timezone.utc), None, True),
        ("", None, True),
        ("nan", None, True),
        ("5 ms", None, True),
        (True, None, True),
        ([5], None, True),
        (2**53, None, True),
        (-(2**53), None, True),
        (2**64, None, True),
        (10**400, None, True),
        (1e300, None, True),
        ("9007199254740993", None, True),
    ],
)
def test_p8_a_timestamp_that_is_no_int_does_not_end_the_run(
    timestamp: Any, expected: int | None, lossy: bool
) -> None:
    assert EventEncoder().encode(Bridged(step_name="s", timestamp=timestamp))
    for event in (
        {"type": "STEP_STARTED", "timestamp": timestamp, "stepName": "s"},
        Bridged(step_name="s", timestamp=timestamp),
    ):
        seen: list[Deviation] = []
        back = proto.decode(proto.encode(event, on_deviation=seen.append), as_dict=True)
        assert back.pop("timestamp", None) == expected
        assert back == {"type": "STEP_STARTED", "stepName": "s"}
        assert [deviation.path for deviation in seen] == ["timestamp"] * lossy


def test_token_counts_that_are_no_int() -> None:
    event = {"type": "RUN_ERROR", "message": "m", "usage": [{"inputTokens": "5", "model": "x"}]}
    assert round_trip(event)["usage"] == [{"inputTokens": 5, "model": "x"}]
    seen: list[Deviation] = []
    event["usage"][0]["inputTokens"] = "many"
    proto.encode(event, on_deviation=seen.append)
    assert [deviation.path for deviation in seen] == ["usage[0].inputTokens"]


def nest(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"k": value} if level % 2 else [value]
    return value


def test_depth_has_the_limit_of_json() -> None:
    deepest = snapshot(nest(MAX_DEPTH - 1))
    assert round_trip(deepest) == deepest
    wire = on_small_stack(lambda: proto.encode(deepest))
    assert wire == proto.encode(deepest)
    assert on_small_stack(lambda: proto.decode(wire, as_dict=True)) == deepest
    assert on_small_stack(lambda: proto.decode(wire)) == EVENT.validate_python(deepest)
    for deeper in (snapshot(nest(MAX_DEPTH)), snapshot(nest(100_000))):
        with pytest.raises(EncodeError, match="deeper than 254 levels"):
            on_small_stack(lambda event=deeper: proto.encode(event))
        with pytest.raises(EncodeError):
            to_json(snapshot(nest(MAX_DEPTH)))


def test_depth_counts_as_json_nests() -> None:
    """The deepest that JSON writes is the deepest that protobuf reads, wherever it is deep."""

    def messages(levels: int) -> dict[str, Any]:
        parts = [{"type": "text", "text": "t", "metadata": nest(levels)}]
        message = {"id": "1", "role": "user", "content": parts}
        return {"type": "MESSAGES_SNAPSHOT", "messages": [message]}

    def interrupts(levels: int) -> dict[str, Any]:
        interrupt = {"id": "i", "reason": "r", "metadata": {"k": nest(levels - 1)}}
        outcome = {"type": "interrupt", "interrupts": [interrupt]}
        return {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}

    def raw(levels: int) -> dict[str, Any]:
        return {"type": "STEP_STARTED", "stepName": "s", "rawEvent": nest(levels)}

    for make, above in ((messages, 5), (interrupts, 4), (raw, 1)):
        deepest = make(MAX_DEPTH - above)
        to_json(deepest)
        wire = proto.encode(deepest)
        assert proto.decode(wire, as_dict=True) == deepest
        with pytest.raises(EncodeError):
            proto.encode(make(MAX_DEPTH - above + 1))
        with pytest.raises(EncodeError):
            to_json(make(MAX_DEPTH - above + 1))


def test_cycles_are_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = [loop]
    with pytest.raises(EncodeError, match="254 levels"):
        proto.encode(snapshot(loop))


# --- values that are not plain JSON --------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    NOTHING = None


class Word(str):
    pass


class Point(BaseModel):
    x: int
    y: float | None = None


class CustomSubclass(core.CustomEvent):
    added: int = 3


ODD_VALUES = [
    datetime(2026, 1, 2, 3, 4, 5, 120000, tzinfo=timezone.utc),
    Decimal("1.50"),
    Colour.RED,
    Colour.NOTHING,
    Word("subclass"),
    Point(x=1),
    (1, ("two", None)),
    {1, },
    b"bytes",
    {7: {"n": 2**52}, Colour.RED: "x", Word("q"): 1, None: 2, True: 3},
    core.UserMessage(id="1", content="nested"),
]  # fmt: skip


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
def test_odd_payloads_are_what_json_writes(value: Any) -> None:
    for payload in (value, [value], {"k": [value, {"deep": value}]}):
        for event in (
            core.StateSnapshotEvent(snapshot=payload),
            {"type": "STATE_SNAPSHOT", "snapshot": payload},
            core.CustomEvent(name="n", value=1, raw_event=payload),
        ):
            assert round_trip(event) == json.loads(to_json(event))


def test_odd_events_are_what_json_writes(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = [
        CustomSubclass(name="n", value=[1]),
        core.CustomEvent.model_construct(name="n", value=1),
        {"type": core.EventType.CUSTOM, "name": Word("n"), "value": 1},
        {"type": "TEXT_MESSAGE_START", "message_id": "m", "role": Colour.RED},
        {"type": "MESSAGES_SNAPSHOT", "messages": (core.UserMessage(id="1", content="c"),)},
    ]
    for event in events:
        written = json.loads(to_json(event))
        written.pop("added", None)
        assert round_trip(event) == written
    assert dropped(caplog) == ["added"]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_models_that_were_not_validated_are_what_json_writes() -> None:
    message = {"id": "1", "role": "user", "content": "c"}
    event = core.MessagesSnapshotEvent.model_construct(messages=[message])
    assert round_trip(event) == json.loads(to_json(event))
    renamed = core.UserMessage(id="1", content="c")
    renamed.name = 5  # type: ignore[assignment]
    with pytest.raises(EncodeError, match="a str is needed, not int") as info:
        proto.encode(core.MessagesSnapshotEvent.model_construct(messages=[renamed]))
    assert info.value.path == "messages[0].name"
    retyped = core.CustomEvent(name="n", value=1)
    retyped.type = core.EventType.RAW  # type: ignore[assignment]
    assert round_trip(retyped)["type"] == "RAW"


def test_default_is_asked_for_what_json_cannot_carry() -> None:
    event = snapshot({"a": object()})
    with pytest.raises(EncodeError, match="object") as info:
        proto.encode(event)
    assert info.value.path == "snapshot.a"
    assert info.value.__cause__ is not None


def test_changes_meanwhile_are_noticed() -> None:
    payload: dict[str, Any] = {"a": 1}

    class Changer(datetime):
        def isoformat(self, *_: Any, **__: Any) -> str:
            return ""

        @property
        def value(self) -> int:
            return 1

    class Growing(enum.Enum):
        A = 1

        @property
        def value(self) -> Any:
            payload[f"k{len(payload)}"] = 1
            return 1

    payload["grow"] = Growing.A
    payload["after"] = 1
    with pytest.raises(EncodeError, match="changed"):
        proto.encode(snapshot(payload))
