"""Protobuf messages: the corpus in both spellings, and the contract that they follow."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from ag_ui import core
from pydantic import BaseModel, ValidationError

import random_events
from agui_codec import (
    DecodeError,
    proto,
    to_json,
)
from by_hand import EVENT, dropped, round_trip, with_wire_defaults
from conftest import ROOT, corpus_files, shared_corpus
from oracle import outcome

sys.path.insert(0, str(ROOT / "proto"))
import generate

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


@pytest.mark.parametrize("seed", range(4))
def test_random_events_round_trip(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    for event in random_events.events(seed, 700):
        wire = proto.encode(event)
        assert proto.decode(wire, as_dict=True) == with_wire_defaults(event)
        assert proto.encode(dict(reversed(event.items()))) == wire
        model = EVENT.validate_python(event)
        assert proto.encode(model) == wire
        assert_same_model(proto.decode(wire), proto.decode(wire, as_dict=True))
    assert dropped(caplog) == []


def test_events_of_strings_are_written_as_all_others_are() -> None:
    """They are written in one go; with a timestamp, which is none, they are gathered first."""
    for cls in random_events.EVENT_CLASSES:
        maker = random_events.Maker(3)
        for _ in range(30):
            event = {
                key: value for key, value in maker.event(cls).items() if isinstance(value, str)
            }
            try:
                model = EVENT.validate_python(event)
            except ValidationError:
                break
            wire = proto.encode(event)
            assert proto.encode(model) == wire
            assert proto.decode(wire, as_dict=True) == event
            timed = proto.decode(proto.encode({**event, "timestamp": 7}), as_dict=True)
            assert timed == {**event, "timestamp": 7}
            spelled = {name: getattr(model, name) for name in model.model_fields_set}
            assert proto.encode({"type": event["type"], **spelled}) == wire
            assert proto.encode({**event, "metadata": None}) == wire
            for name in event:
                for odd in (5, None, [], {}, b"x", "\ud800"):
                    timed = outcome(proto.encode, {**event, name: odd, "timestamp": 7})
                    plain = outcome(proto.encode, {**event, name: odd})
                    assert plain.error == timed.error


@pytest.mark.parametrize("cls", random_events.EVENT_CLASSES, ids=lambda cls: cls.__name__)
def test_p7_every_type_round_trips(cls: type[BaseModel]) -> None:
    maker = random_events.Maker(7)
    for _ in range(20):
        event = maker.event(cls)
        assert round_trip(event) == with_wire_defaults(event)


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


def test_the_contract_is_installed() -> None:
    installed = resources.files("agui_codec") / "ag_ui"
    for path in (ROOT / "proto/ag_ui").glob("*.proto"):
        assert (installed / path.name).read_text() == path.read_text()


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
