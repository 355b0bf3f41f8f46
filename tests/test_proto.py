"""Protobuf messages: the corpus, both spellings, what is refused and what is left out."""

from __future__ import annotations

import copy
import enum
import json
import logging
import pickle
import re
import sys
import threading
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from ag_ui import core
from ag_ui.core.deprecated import BinaryInputContent
from pydantic import BaseModel, TypeAdapter, ValidationError

import random_events
from agui_codec import (
    MAX_DEPTH,
    AGUIError,
    DecodeError,
    EncodeError,
    EventEncoder,
    UnknownEventError,
    proto,
    to_json,
)
from conftest import ROOT, corpus_files, shared_corpus

sys.path.insert(0, str(ROOT / "proto"))
import generate

EVENT: TypeAdapter[core.Event] = TypeAdapter(core.Event)


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The paths of what the log says was left out."""
    found = [record.args[0].path for record in caplog.records if record.name == "agui_codec"]
    caplog.clear()
    return found


def round_trip(event: Any) -> dict[str, Any]:
    return proto.decode(proto.encode(event), as_dict=True)


def snapshot(value: Any) -> dict[str, Any]:
    return {"type": "STATE_SNAPSHOT", "snapshot": value}


def carried(value: Any) -> Any:
    """What becomes of a payload on the way, the same for a dict and a model."""
    wire = proto.encode(snapshot(value))
    assert proto.encode(core.StateSnapshotEvent(snapshot=value)) == wire
    return proto.decode(wire, as_dict=True)["snapshot"]


# --- the corpus ----------------------------------------------------------------------------


def corpus_rows() -> list[Any]:
    corpus = shared_corpus()
    if corpus is None:
        return [pytest.param(None, id="missing", marks=pytest.mark.skip(reason="no corpus"))]
    rows = json.loads((corpus / "conformance/proto-bytes.json").read_text())
    assert len(rows) == 379
    return [pytest.param(row, id=row["name"]) for row in rows]


# What a row loses of its own: this property is no part of the protocol.
LOSES = {"streams/unknown-property-stripped.json#2": ["futureProp"]}


@pytest.mark.parametrize("row", corpus_rows())
def test_corpus_bytes(row: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    assert proto.encode(row["event"]).hex() == row["hex"]
    lost = LOSES.get(row["name"], [])
    assert dropped(caplog) == lost
    assert proto.decode(bytes.fromhex(row["hex"]), as_dict=True) == row["decoded"]
    try:
        model = EVENT.validate_python(row["event"])
    except ValidationError:
        # Streams also hold events that the models refuse; the bytes are events all the same.
        with pytest.raises(DecodeError):
            proto.decode(bytes.fromhex(row["hex"]))
        return
    assert proto.encode(model).hex() == row["hex"]
    assert dropped(caplog) == lost
    assert_same_model(proto.decode(bytes.fromhex(row["hex"])), row["decoded"])


def assert_same_model(model: BaseModel, wire: dict[str, Any]) -> None:
    """The model is what the official path makes of the wire dict."""
    official = EVENT.validate_python(wire)
    assert type(model) is type(official)
    assert model == official
    assert model.model_fields_set == official.model_fields_set
    assert model.model_extra == official.model_extra
    assert to_json(model) == to_json(official)


def is_event(path: Any) -> bool:
    file = path.values[0]
    return file is None or (
        file.parent.parent.name.endswith("Event") and not file.name.endswith(".expect.json")
    )


FIXTURES = [path for path in corpus_files("conformance/fixtures/*/valid/*.json") if is_event(path)]


@pytest.mark.parametrize("path", FIXTURES)
def test_valid_fixtures_round_trip(path: Path) -> None:
    event = json.loads(path.read_text())
    expected = with_wire_defaults(event)
    assert round_trip(event) == expected
    model = EVENT.validate_python(event)
    assert proto.encode(model) == proto.encode(event)
    assert_same_model(proto.decode(proto.encode(model)), expected)


def with_wire_defaults(event: dict[str, Any]) -> dict[str, Any]:
    """The event as protobuf reads it, which does not tell an absent list from an empty one."""
    event = copy.deepcopy(event)
    if run_input := event.get("input"):
        for name in ("tools", "context", "resume"):
            run_input.setdefault(name, [])
        messages = run_input["messages"]
    else:
        messages = event.get("messages", [])
    for owner, name in [(event, "usage"), *((message, "toolCalls") for message in messages)]:
        if owner.get(name) == []:
            del owner[name]
    outcome = event.get("outcome", {})
    for name in ("pendingToolCallIds", "interruptIds"):
        if outcome.get(name) == []:
            del outcome[name]
    return event


@pytest.mark.parametrize("seed", range(4))
def test_random_events_round_trip(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    for event in random_events.events(seed, 700):
        wire = proto.encode(event)
        assert proto.decode(wire, as_dict=True) == with_wire_defaults(event)
        model = EVENT.validate_python(event)
        assert proto.encode(model) == wire
        assert_same_model(proto.decode(wire), proto.decode(wire, as_dict=True))
    assert dropped(caplog) == []


@pytest.mark.parametrize("cls", random_events.EVENT_CLASSES, ids=lambda cls: cls.__name__)
def test_p7_every_type_round_trips(cls: type[BaseModel]) -> None:
    maker = random_events.Maker(7)
    for _ in range(20):
        event = maker.event(cls)
        assert round_trip(event) == with_wire_defaults(event)


def test_key_order_is_the_objects_own() -> None:
    keys = ["z", "10", "", "a", "9", "\u00e9"]
    assert list(carried(dict.fromkeys(keys, 1))) == keys


def test_decoded_models_behave_like_made_ones() -> None:
    wire = proto.encode(core.TextMessageContentEvent(message_id="m", delta="d", timestamp=5))
    model = proto.decode(wire)
    assert isinstance(model, core.TextMessageContentEvent)
    assert model.type is core.EventType.TEXT_MESSAGE_CONTENT
    assert pickle.loads(pickle.dumps(model)) == copy.deepcopy(model) == model
    model.delta = "other"
    assert proto.decode(proto.encode(model), as_dict=True)["delta"] == "other"


# --- the contract --------------------------------------------------------------------------


def test_table_is_what_the_proto_files_say() -> None:
    assert generate.TABLE.read_text() == generate.rust(generate.read())


def test_numbers_are_those_of_the_ledger(shared: Path) -> None:
    ledger = (shared / "conformance/proto-freeze.txt").read_text()
    numbers = re.findall(r"^(\w[\w.]*) = (\d+)$", ledger, re.MULTILINE)
    assert len(numbers) == 301
    assert generate.read().ledger() == {name: int(number) for name, number in numbers}


# Fields of the wire that the models of SDK 1.0 do not have: AG-UI 1.1 adds them.
AHEAD = {
    "Message.encryptedValueType",
    "ToolCall.encryptedValueType",
    "ReasoningEncryptedValueEvent.encryptedValueType",
}
# Fields of the wire that are not keys in JSON: shapes that differ.
SHAPES = {
    "Message.contentParts",
    "Message.activityContent",
    "ToolCallResultEvent.contentParts",
    "RunFinishedEvent.interrupts",
    "RunFinishedEvent.pendingToolCallIds",
    "SubagentFinishedEvent.interruptIds",
}
# Keys in JSON that are no fields: the arm of a oneof says them.
ARMS = {f"{name}.type" for name in ("TextPart", "ImagePart", "AudioPart", "VideoPart",
        "DocumentPart", "DataSource", "UrlSource", "FileSource")}  # fmt: skip
# What classes are called on the wire, where that differs from the SDK.
CALLED = {
    "TextInputPart": "TextPart",
    "ImageInputPart": "ImagePart",
    "AudioInputPart": "AudioPart",
    "VideoInputPart": "VideoPart",
    "DocumentInputPart": "DocumentPart",
    "InputContentDataSource": "DataSource",
    "InputContentUrlSource": "UrlSource",
    "InputContentFileSource": "FileSource",
    "ToolCall.Function": "FunctionCall",
    "Usage": "TokenUsage",
}
UNIONS = {
    "Message": [core.DeveloperMessage, core.SystemMessage, core.AssistantMessage, core.UserMessage,
                core.ToolMessage, core.ActivityMessage, core.ReasoningMessage],
    "JsonPatchOperation": [getattr(sys.modules["ag_ui._generated.models"], f"{op}Operation")
                           for op in ("Add", "Remove", "Replace", "Move", "Copy", "Test")],
}  # fmt: skip


def test_keys_are_those_of_the_models() -> None:
    models = vars(sys.modules["ag_ui._generated.models"])
    base = {"baseEvent", "type", "timestamp", "rawEvent", "metadata"}
    for message in generate.read().messages.values():
        if message.union:
            continue
        classes = UNIONS.get(message.name) or [models[CALLED.get(message.name, message.name)]]
        keys = {field.alias or name for cls in classes for name, field in cls.model_fields.items()}
        ours = {field.key for field in message.fields}
        if message.name.endswith("Event"):
            keys, ours = keys | base, ours | base
        name = CALLED.get(message.name, message.name)
        assert {f"{name}.{key}" for key in ours - keys} <= AHEAD | SHAPES
        assert {f"{name}.{key}" for key in keys - ours} <= ARMS
        if message.name == "RunFinishedEvent":
            assert models["RunFinishedInterruptOutcome"].model_fields.keys() >= {"interrupts"}


def test_fields_of_the_next_version_are_carried(caplog: pytest.LogCaptureFixture) -> None:
    event = {
        "type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "e",
        "encryptedValue": "v", "encryptedValueType": "t",
    }  # fmt: skip
    assert round_trip(event) == event
    assert proto.encode(EVENT.validate_python(event)) == proto.encode(event)
    messages = [
        {"id": "1", "role": "assistant", "encryptedValueType": "t", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""},
             "encryptedValueType": "t"}]},
    ]  # fmt: skip
    event = {"type": "MESSAGES_SNAPSHOT", "messages": messages}
    assert round_trip(event) == event
    assert dropped(caplog) == []


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
def test_p1_an_integer_that_no_double_carries_is_refused(value: int) -> None:
    for event in (snapshot({"a": [0, value]}), core.StateSnapshotEvent(snapshot={"a": [0, value]})):
        with pytest.raises(
            EncodeError, match=r"^snapshot\.a\[1\]: -?\d+ cannot be carried"
        ) as info:
            proto.encode(event)
        assert info.value.path == "snapshot.a[1]"


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
    for refused in (2**53, -(2**53), 2**64, 0.5, True, "5"):
        with pytest.raises(EncodeError) as info:
            proto.encode({"type": "STEP_STARTED", "timestamp": refused, "stepName": "s"})
        assert info.value.path == "timestamp"
    wire = proto.encode({"type": "STEP_STARTED", "timestamp": 1, "stepName": "s"})
    beyond = b"\x7a\x12\x0a\x0d" + wire[4:6] + b"\x10" + b"\x80" * 7 + b"\x20"
    beyond = beyond[:3] + bytes([len(beyond) - 4]) + beyond[4:] + wire[-3:]
    beyond = beyond[:1] + bytes([len(beyond) - 2]) + beyond[2:]
    with pytest.raises(DecodeError, match=r"^timestamp: .*2\^53-1"):
        proto.decode(beyond)


def nest(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"k": value} if level % 2 else [value]
    return value


def in_small_thread(call: Any) -> Any:
    """What the call gives on a stack of 256 KiB."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:
            result.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return result[0]


def test_depth_has_the_limit_of_json() -> None:
    deepest = snapshot(nest(MAX_DEPTH - 1))
    assert round_trip(deepest) == deepest
    wire = in_small_thread(lambda: proto.encode(deepest))
    assert wire == proto.encode(deepest)
    assert in_small_thread(lambda: proto.decode(wire, as_dict=True)) == deepest
    assert in_small_thread(lambda: proto.decode(wire)) == EVENT.validate_python(deepest)
    for deeper in (snapshot(nest(MAX_DEPTH)), snapshot(nest(100_000))):
        error = in_small_thread(lambda event=deeper: proto.encode(event))
        assert isinstance(error, EncodeError)
        assert "deeper than 254 levels" in str(error)
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


# --- shapes --------------------------------------------------------------------------------


def message_event(**message: Any) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "1", **message}]}


def test_an_empty_list_of_parts_is_a_list() -> None:
    for event in (
        message_event(role="user", content=[]),
        message_event(role="tool", toolCallId="c", content=[]),
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": []},
    ):
        assert round_trip(event) == event


def test_an_unknown_role_keeps_its_content() -> None:
    text = {"type": "text", "text": "t"}
    for content in ("text", [text], {"an": "object"}):
        event = message_event(role="hologram", content=content)
        assert round_trip(event) == event
    event = message_event(role="hologram", name="n", toolCallId="c")
    assert round_trip(event) == event


@pytest.mark.parametrize(
    ("role", "content"),
    [("assistant", []), ("assistant", {}), ("system", [{}]), ("activity", "text"),
     ("activity", []), ("user", {}), ("tool", {}), ("reasoning", {"a": 1}), ("user", 5),
     ("user", None), ("hologram", 5)],
)  # fmt: skip
def test_content_that_a_role_does_not_have_is_refused(role: str, content: Any) -> None:
    with pytest.raises(EncodeError) as info:
        proto.encode(message_event(role=role, content=content))
    assert info.value.path == "messages[0].content"


def tag(number: int, payload: bytes | int) -> bytes:
    """A field of a message by hand."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return bytes(out)

    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


MESSAGES_BASE = tag(1, tag(1, 8))
TEXT_PART = tag(1, tag(1, b"t"))
OBJECT = tag(1, tag(1, b"k") + tag(2, tag(3, b"v")))


@pytest.mark.parametrize(
    ("role", "forms", "valid"),
    [
        ("user", [tag(3, b"s")], True),
        ("user", [tag(8, TEXT_PART)], True),
        ("user", [tag(3, b"s"), tag(8, TEXT_PART)], False),
        ("user", [tag(13, OBJECT)], False),
        ("user", [], True),
        ("assistant", [tag(8, TEXT_PART)], False),
        ("assistant", [tag(13, b"")], False),
        ("assistant", [], True),
        ("activity", [tag(13, OBJECT)], True),
        ("activity", [tag(3, b"s")], False),
        ("activity", [tag(3, b"s"), tag(13, OBJECT)], False),
        ("activity", [tag(8, TEXT_PART), tag(13, OBJECT)], False),
        ("hologram", [tag(13, OBJECT)], True),
        ("hologram", [tag(3, b""), tag(13, OBJECT)], False),
        ("hologram", [tag(8, TEXT_PART), tag(3, b"s")], False),
    ],
)
def test_one_form_of_content(role: str, forms: list[bytes], *, valid: bool) -> None:
    message = tag(1, b"1") + tag(2, role.encode()) + b"".join(forms)
    wire = tag(9, MESSAGES_BASE + tag(2, message))
    if valid:
        assert proto.decode(wire, as_dict=True)["messages"][0]["role"] == role
        return
    with pytest.raises(DecodeError, match="content") as info:
        proto.decode(wire, as_dict=True)
    assert info.value.path == "messages[0]"


def test_a_tool_result_has_one_form_of_content() -> None:
    base = tag(1, tag(1, 21))
    both = base + tag(5, b"s") + tag(7, TEXT_PART)
    with pytest.raises(DecodeError, match="content"):
        proto.decode(tag(22, both))


def test_parts_that_are_not_known_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    text = {"type": "text", "text": "t"}
    url = {"type": "url", "value": "u"}
    content = [
        text,
        {"type": "hologram", "text": "t"},
        {"type": "image", "source": {"type": "telepathy", "value": "v"}},
        {"type": "image", "source": url},
        {"text": "no type"},
    ]
    event = round_trip(message_event(role="user", content=content))
    assert event["messages"][0]["content"] == [text, {"type": "image", "source": url}]
    assert dropped(caplog) == [f"messages[0].content[{at}]" for at in (1, 2, 4)]

    future = tag(8, tag(9, b""))
    no_source = tag(8, tag(2, tag(1, tag(7, b""))))
    no_field = tag(8, tag(2, b""))
    parts = tag(8, TEXT_PART) + future + no_source + no_field
    message = tag(1, b"1") + tag(2, b"user") + parts
    event = proto.decode(tag(9, MESSAGES_BASE + tag(2, message)), as_dict=True)
    assert event["messages"][0]["content"] == [text, {"type": "image"}]
    assert dropped(caplog) == ["messages[0].content[1]", "messages[0].content[1]"]

    for two in (TEXT_PART + tag(2, b""), tag(2, tag(1, tag(1, b"") + tag(2, b"")))):
        message = tag(1, b"1") + tag(2, b"user") + tag(8, two)
        with pytest.raises(DecodeError, match="more than one kind"):
            proto.decode(tag(9, MESSAGES_BASE + tag(2, message)))


def test_a_legacy_binary_part_travels_as_a_document(caplog: pytest.LogCaptureFixture) -> None:
    def carried_as(**part: Any) -> Any:
        event = message_event(role="user", content=[{"type": "binary", **part}])
        (message,) = round_trip(event)["messages"]
        return message["content"]

    metadata = {"legacyBinary": True, "filename": "f", "id": "i"}
    data = {"type": "data", "value": "QQ==", "mimeType": "image/png"}
    assert carried_as(
        mimeType="image/png", data="QQ==", url="u", filename="f", id="i"
    ) == [{"type": "document", "source": data, "metadata": metadata}]  # fmt: skip
    url = {"type": "url", "value": "u", "mimeType": "image/png"}
    assert carried_as(mimeType="image/png", data="", url="u") == [
        {"type": "document", "source": url, "metadata": {"legacyBinary": True}}
    ]
    assert carried_as(mimeType="image/png", id="i")[0]["source"]["value"] == "i"
    assert dropped(caplog) == []
    assert carried_as(mimeType="image/png") == []
    assert dropped(caplog) == ["messages[0].content[0]"]
    part = BinaryInputContent(mime_type="image/png", data="QQ==")
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [
        {"id": "1", "role": "user", "content": [part]}]}  # fmt: skip
    assert round_trip(event)["messages"][0]["content"][0]["source"] == data


def test_outcomes(caplog: pytest.LogCaptureFixture) -> None:
    def run(outcome: Any) -> dict[str, Any]:
        return {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}

    def subagent(outcome: Any) -> dict[str, Any]:
        return {"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": outcome}

    interrupt = {"id": "i", "reason": "r"}
    for event in (
        run({"type": "success"}),
        run({"type": "success", "pendingToolCallIds": ["c", ""]}),
        run({"type": "interrupt", "interrupts": [interrupt]}),
        run({"type": "interrupt", "interrupts": []}),
        run({"type": "cancelled"}),
        run({"type": "paused"}),
        subagent({"type": "success"}),
        subagent({"type": "suspended", "interruptIds": ["i"]}),
        subagent({"type": "asleep"}),
    ):
        assert round_trip(event) == event
    assert dropped(caplog) == []
    # Only what the outcome's own type has is carried.
    assert round_trip(run({"type": "success", "interrupts": [interrupt]})) == run(
        {"type": "success"}
    )
    assert dropped(caplog) == ["outcome.interrupts"]
    assert round_trip(run({"type": "paused", "until": 5})) == run({"type": "paused"})
    assert dropped(caplog) == ["outcome.until"]
    # The members belong to the outcome, not to the event.
    stray = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "interrupts": [interrupt]}
    assert "interrupts" not in round_trip(stray)
    assert dropped(caplog) == ["interrupts"]
    for outcome in (["interrupt"], "success", 5, {}, {"type": ""}, {"type": 5}):
        for make in (run, subagent):
            with pytest.raises(EncodeError) as info:
                proto.encode(make(outcome))
            assert info.value.path.startswith("outcome")


def test_patch_operations(caplog: pytest.LogCaptureFixture) -> None:
    def delta(*operations: Any) -> dict[str, Any]:
        return {"type": "STATE_DELTA", "delta": list(operations)}

    null = delta({"op": "add", "path": "/a", "value": None}, {"op": "remove", "path": ""})
    assert round_trip(null) == null
    assert tag(2, tag(2, b"/a") + tag(4, tag(1, 0))) in proto.encode(null), "ADD is 0 and absent"
    # A number that a reader does not know comes back as its digits, and goes out again.
    wire = tag(8, tag(1, tag(1, 7)) + tag(2, tag(1, 9) + tag(2, b"/a")))
    assert proto.decode(wire, as_dict=True) == delta({"op": "9", "path": "/a"})
    assert proto.encode(delta({"op": "9", "path": "/a"})) == wire
    extended = delta({"op": "add", "path": "/a", "value": 1, "comment": "c", "from": "/b"})
    del extended["delta"][0]["comment"]
    assert round_trip(extended | {"x": 1}) == extended
    assert dropped(caplog) == ["x"]
    extended["delta"][0]["comment"] = "c"
    proto.encode(EVENT.validate_python(extended))
    assert dropped(caplog) == ["delta[0].comment"]
    assert round_trip(delta({"op": "increment", "path": "/a"}, {"path": "/b"})) == delta()
    assert dropped(caplog) == ["delta[0]", "delta[1]"]


def test_p9_absences() -> None:
    wire = proto.encode({"type": "TEXT_MESSAGE_END"})
    assert proto.decode(wire, as_dict=True) == {"type": "TEXT_MESSAGE_END", "messageId": ""}
    assert proto.decode(wire).message_id == ""
    assert round_trip({"type": "MESSAGES_SNAPSHOT"})["messages"] == []
    event = {"type": "RUN_ERROR", "message": "m", "metadata": {}, "usage": []}
    assert round_trip(event) == {"type": "RUN_ERROR", "message": "m", "metadata": {}}
    event = message_event(role="assistant", toolCalls=[])
    assert round_trip(event) == message_event(role="assistant")
    assert round_trip({"type": "RUN_FINISHED", "threadId": "", "runId": "r", "result": None}) == {
        "type": "RUN_FINISHED", "threadId": "", "runId": "r",
    }  # fmt: skip


def test_p10_what_has_no_place_is_named(caplog: pytest.LogCaptureFixture) -> None:
    event = {
        "type": "RUN_STARTED", "threadId": "t", "runId": "r", "futureProp": 1,
        "input": {"threadId": "t", "runId": "r", "messages": [
            {"id": "1", "role": "user", "content": "c", "mood": "good"}], "more": None},
    }  # fmt: skip
    model = EVENT.validate_python(event)
    for spelling in (event, model):
        with caplog.at_level(logging.WARNING, "agui_codec"):
            proto.encode(spelling)
        assert {record.levelno for record in caplog.records} == {logging.WARNING}
        expected = {"futureProp", "input.messages[0].mood", "input.more"}
        assert set(dropped(caplog)) == expected


# --- what is refused -----------------------------------------------------------------------


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
        ({"type": "RUN_ERROR", "message": "m", "usage": [{"inputTokens": "5"}]},
         "usage[0].inputTokens"),
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
        (TEXT_END + tag(2, 5), "more than one event"),
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
        snapshot([2**53 + 1]),
        snapshot({"a": {"b": "\ud800"}}),
    ):
        with pytest.raises(EncodeError):
            proto.encode(bad)
        assert proto.encode(snapshot({"a": [1, "x"]})) == good
    assert EventEncoder is not None
