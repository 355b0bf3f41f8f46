"""Wire dicts: what is read as described, what passes through, what is refused."""

import collections
import enum
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    EventType,
    MessagesSnapshotEvent,
    TextMessageEndEvent,
    TextPart,
    UserMessage,
)
from pydantic import BaseModel

from agui_codec import EncodeError, EventEncoder, proto, to_json
from oracle import (
    ADAPTER,
    ENCODER,
    assert_fast,
    assert_wire_same,
    encoded,
    official,
    official_text,
    outcome,
)
from strategies import (
    EVENT_CLASSES,
    Color,
    Dict,
    List,
    Str,
    camel,
    is_optional,
    snake,
    to_wire,
    variants,
)

by_class = pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)

RUN = {"threadId": "t", "runId": "r"}


# --- every class -------------------------------------------------------------------------------


@by_class
def test_every_form_of_every_class_in_both_spellings(cls: type[BaseModel]) -> None:
    for event in variants(cls):
        text = official_text(event)
        for spell in (camel, snake):
            for keep_none in (False, True):
                wire = to_wire(event, spell, lambda keep_none=keep_none: keep_none)
                assert ENCODER.encode(wire) == text, wire
                wire["type"] = wire["type"].value
                assert ENCODER.encode(wire) == text, wire


@by_class
def test_every_form_of_every_class_is_written_natively(cls: type[BaseModel]) -> None:
    for event in variants(cls):
        assert_fast(to_wire(event))
        assert_fast(to_wire(event, snake))


@by_class
def test_the_order_of_the_keys_is_the_dicts(cls: type[BaseModel]) -> None:
    event = variants(cls)[2]
    wire = to_wire(event)
    backwards = dict(reversed(wire.items()))
    written = json.loads(encoded(backwards))
    assert written == json.loads(official_text(event)[6:])
    assert list(written) == list(backwards)


@by_class
def test_the_validated_dict_is_written_alike(cls: type[BaseModel]) -> None:
    for event in variants(cls):
        wire = to_wire(event, snake)
        assert_wire_same(wire, ADAPTER.validate_python(wire))


@by_class
def test_the_dict_is_not_changed(cls: type[BaseModel]) -> None:
    wire = to_wire(variants(cls)[2], snake, lambda: True)
    before = repr(wire)
    ENCODER.encode(wire)
    EventEncoder(default=str, drop_raw_event=True).encode(wire)
    assert repr(wire) == before


def test_keys_that_are_equal_but_not_the_interned_ones() -> None:
    event = variants(EVENT_CLASSES[0])[2]
    wire = {"".join(list(key)): value for key, value in to_wire(event).items()}
    wire["type"] = "".join(list(wire["type"].value))
    assert encoded(wire) == encoded(event)


# --- None --------------------------------------------------------------------------------------


@by_class
def test_none_is_absence_exactly_where_the_model_says_so(cls: type[BaseModel]) -> None:
    minimal = variants(cls)[0]
    for name, field in cls.model_fields.items():
        for key in {name, field.alias}:
            if name == "type":
                continue
            wire = {**to_wire(minimal), key: None}
            if key != field.alias:
                wire.pop(field.alias, None)
            written = json.loads(encoded(wire))
            if is_optional(field):
                assert field.alias not in written
                assert key not in written
            else:
                assert written[field.alias] is None


def test_none_stays_in_payloads_and_under_unknown_keys() -> None:
    wire = {
        "type": "CUSTOM",
        "name": "n",
        "value": {"timestamp": None, "rawEvent": None, "deep": [None, {"metadata": None}]},
        "metadata": {"metadata": None},
        "unknown": None,
        "unknownToo": {"metadata": None},
    }
    assert json.loads(encoded(wire)) == wire
    future = {"type": "FUTURE", "messageId": None, "timestamp": None, "metadata": None, "x": None}
    assert json.loads(encoded(future)) == {"type": "FUTURE", "messageId": None, "x": None}


def test_none_in_the_objects_inside_an_event() -> None:
    wire = {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [
            {
                "id": "1",
                "role": "assistant",
                "name": None,
                "content": None,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}", "extra": None},
                        "encrypted_value": None,
                    }
                ],
            },
            {
                "id": "2",
                "role": "user",
                "content": [
                    {"type": "text", "text": "t", "id": None, "metadata": None},
                    {
                        "type": "image",
                        "source": {"type": "url", "value": "u", "mime_type": None},
                        "metadata": {"kept": None},
                    },
                    {"type": "hologram", "id": None, "mime_type": None},
                ],
            },
            {"id": "3", "role": "hologram", "name": None, "tool_call_id": None},
            {"id": "4", "name": None},
        ],
    }
    assert json.loads(encoded(wire))["messages"] == [
        {
            "id": "1",
            "role": "assistant",
            "toolCalls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}", "extra": None},
                }
            ],
        },
        {
            "id": "2",
            "role": "user",
            "content": [
                {"type": "text", "text": "t"},
                {
                    "type": "image",
                    "source": {"type": "url", "value": "u"},
                    "metadata": {"kept": None},
                },
                # Objects of no known kind pass through as they are.
                {"type": "hologram", "id": None, "mime_type": None},
            ],
        },
        {"id": "3", "role": "hologram", "name": None, "tool_call_id": None},
        {"id": "4", "name": None},
    ]


# --- spellings ---------------------------------------------------------------------------------


@by_class
def test_with_both_spellings_the_camel_case_one_is_the_field(cls: type[BaseModel]) -> None:
    minimal = to_wire(variants(cls)[0])
    for name, field in cls.model_fields.items():
        if name == field.alias:
            continue
        for first, second in ((name, field.alias), (field.alias, name)):
            rest = {k: v for k, v in minimal.items() if k != field.alias}
            values = {field.alias: "the field", name: "the other"}
            wire = {**rest, first: values[first], second: values[second]}
            written = json.loads(encoded(wire))
            assert written == {**rest, "type": minimal["type"].value, **values}
            assert list(written)[-2:] == [first, second]
            # Both are absent where they are None: the official serializer leaves out either key.
            wire = {**rest, first: None, second: None}
            written = json.loads(encoded(wire))
            assert (name in written) is not is_optional(field)
            assert (field.alias in written) is not is_optional(field)


NOTHING = [None, float("nan"), float("inf"), Color.NONE, Color.NAN]


def with_both(model: BaseModel, value: Any) -> Any:
    """The wire dict of a model, with `value` under the other spelling of every field in it."""
    wire = {}
    for name, field in type(model).model_fields.items():
        inner = model.__dict__[name]
        if isinstance(inner, BaseModel):
            inner = with_both(inner, value)
        elif isinstance(inner, list):
            inner = [
                with_both(item, value) if isinstance(item, BaseModel) else item for item in inner
            ]
        wire[field.alias or name] = inner
    for name, field in type(model).model_fields.items():
        if field.alias not in (None, name):
            wire[name] = value
    return wire


@by_class
def test_the_losing_spelling_without_a_value_is_left_out_at_every_level(
    cls: type[BaseModel],
) -> None:
    for event in variants(cls):
        for value in [*NOTHING, 0, "", [None]]:
            wire = with_both(event, value)
            assert_wire_same(wire, ADAPTER.validate_python(wire))
            proto.encode(wire)


def test_with_both_spellings_the_model_agrees() -> None:
    wire = {
        "type": "TEXT_MESSAGE_CONTENT",
        "messageId": "camel",
        "delta": "d",
        "message_id": "snake",
        "raw_event": {"snake": 1},
        "rawEvent": {"camel": 1},
    }
    in_class_order = {
        key: wire[key]
        for key in ("type", "rawEvent", "messageId", "delta", "message_id", "raw_event")
    }
    assert_wire_same(in_class_order, ADAPTER.validate_python(wire))


def test_payload_keys_are_not_respelled() -> None:
    for wire in (
        {"type": "STATE_SNAPSHOT", "snapshot": {"message_id": 1, "rawEvent": 2}},
        {"type": "CUSTOM", "name": "n", "value": [{"tool_call_id": None}]},
        {"type": "X", "metadata": {"raw_event": {"message_id": None}}},
        {"type": "X", "rawEvent": {"raw_event": {"message_id": None}}},
        {"type": "ACTIVITY_SNAPSHOT", "content": {"message_id": 1, "metadata": None}},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/", "value": {"from_": None}}]},
        {"type": "RAW", "event": {"type": "TEXT_MESSAGE_END", "message_id": "m", "name": None}},
        {"type": "FUTURE", "messages": [{"role": "user", "tool_call_id": None}]},
    ):
        assert json.loads(encoded(wire)) == wire


def test_a_name_of_another_class_is_an_unknown_key() -> None:
    wire = {"type": "TEXT_MESSAGE_END", "messageId": "m", "tool_call_id": None, "run_id": 1}
    assert json.loads(encoded(wire)) == wire


def test_the_field_whose_name_is_a_keyword() -> None:
    for op in ("move", "copy"):
        for key in ("from", "from_"):
            wire = {"type": "STATE_DELTA", "delta": [{"op": op, key: "/a", "path": "/b"}]}
            written = json.loads(encoded(wire))
            assert written["delta"] == [{"op": op, "from": "/a", "path": "/b"}]
    wire = {"type": "STATE_DELTA", "delta": [{"op": "add", "from_": "/a", "path": "/b"}]}
    assert json.loads(encoded(wire)) == wire


# --- the type ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(EventType))
def test_the_type_may_be_the_enum(kind: EventType) -> None:
    assert encoded({"type": kind}) == f'{{"type":"{kind.value}"}}'
    assert encoded({"type": kind.value}) == f'{{"type":"{kind.value}"}}'
    assert encoded({"timestamp": None, "type": kind}) == f'{{"type":"{kind.value}"}}'


def test_the_type_may_stand_anywhere() -> None:
    wire = {"message_id": "m", "raw_event": None, "delta": "d", "type": "TEXT_MESSAGE_CONTENT"}
    expected = '{"messageId":"m","delta":"d","type":"TEXT_MESSAGE_CONTENT"}'
    assert encoded(wire) == expected


def test_the_type_may_be_another_str_of_the_same_text() -> None:
    class Kind(str, enum.Enum):
        CONTENT = "TEXT_MESSAGE_CONTENT"

    for kind in (Kind.CONTENT, Str("TEXT_MESSAGE_CONTENT")):
        wire = {"type": kind, "message_id": "m", "delta": "d", "timestamp": None}
        expected = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}'
        assert encoded(wire) == expected


@pytest.mark.parametrize("kind", ["", "FUTURE", "THINKING_START", "raw", "RAW ", "é\n", "RAW\0"])
def test_unknown_types_pass_through(kind: str) -> None:
    wire = {"type": kind, "message_id": "m", "messages": [{"role": "user", "name": None}]}
    assert json.loads(encoded(wire)) == wire
    # What every event has is described for these too.
    assert json.loads(encoded({"type": kind, "raw_event": 1, "metadata": None})) == {
        "type": kind,
        "rawEvent": 1,
    }


@pytest.mark.parametrize(
    "wire",
    [
        {},
        {"type": None},
        {"type": 5},
        {"type": ["RAW"]},
        {"type": b"RAW"},
        {"type": object()},
        {"Type": "RAW"},
        {b"type": "RAW"},
        {"messageId": "m"},
        {5: 6},
    ],
    ids=range(10),
)
def test_a_dict_without_a_type_is_no_event(wire: dict[Any, Any]) -> None:
    for method in (ENCODER.encode, ENCODER.encode_binary, to_json):
        with pytest.raises(EncodeError, match="type"):
            method(wire)


# --- kinds of dict, list and key ---------------------------------------------------------------

KINDS_OF_DICT = {
    "ordered": lambda **items: collections.OrderedDict(items),
    "default": lambda **items: collections.defaultdict(list, items),
    "counter": lambda **items: collections.Counter(items),
    "subclass": lambda **items: Dict(items),
}


@pytest.mark.parametrize("make", KINDS_OF_DICT.values(), ids=KINDS_OF_DICT)
def test_subclasses_of_dict_everywhere(make: Any) -> None:
    plain = {
        "type": "MESSAGES_SNAPSHOT",
        "raw_event": {"k": None},
        "timestamp": None,
        "messages": [
            {"id": "1", "role": "user", "name": None, "content": [{"type": "text", "id": None}]},
            {
                "id": "2",
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f"}, "encrypted_value": None}],
            },
        ],
    }

    def remake(value: Any) -> Any:
        if isinstance(value, dict):
            return make(**{key: remake(inner) for key, inner in value.items()})
        if isinstance(value, list):
            return List(remake(inner) for inner in value)
        return value

    assert encoded(remake(plain)) == encoded(plain)
    assert '"name"' not in encoded(plain).replace('"name":"f"', "")


def test_the_order_of_an_ordered_dict_is_its_own() -> None:
    wire = collections.OrderedDict(type="X", a=1, b=2)
    wire.move_to_end("type")
    wire.move_to_end("a")
    assert encoded(wire) == '{"b":2,"type":"X","a":1}'
    message = collections.OrderedDict(content="c", id="1", role="user")
    message.move_to_end("content")
    outer = {"type": "MESSAGES_SNAPSHOT", "messages": [message]}
    assert encoded(outer).endswith('[{"id":"1","role":"user","content":"c"}]}')


def test_mappings_that_are_no_dict_are_no_event() -> None:
    for mapping in (
        types.MappingProxyType({"type": "RAW"}),
        collections.ChainMap({"type": "RAW"}),
        collections.UserDict({"type": "RAW"}),
    ):
        with pytest.raises(EncodeError):
            ENCODER.encode(mapping)


def test_tuples_where_a_list_is_described() -> None:
    wire = {
        "type": "MESSAGES_SNAPSHOT",
        "messages": (
            {"id": "1", "role": "user", "content": ({"type": "text", "id": None},), "name": None},
        ),
    }
    expected = [{"id": "1", "role": "user", "content": [{"type": "text"}]}]
    assert json.loads(encoded(wire))["messages"] == expected


def test_str_subclasses_as_keys() -> None:
    class Key(str, enum.Enum):
        TYPE = "type"
        DELTA = "delta"
        SNAKE = "message_id"

    expected = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}'
    for make in (Str, Key):
        wire = {make("type"): "TEXT_MESSAGE_CONTENT", make("message_id"): "m", make("delta"): "d"}
        assert encoded(wire) == expected
    message = {Str("id"): "1", Str("role"): "user", Str("tool_call_id"): None, Str("name"): None}
    wire = {"type": "MESSAGES_SNAPSHOT", "messages": [message]}
    assert json.loads(encoded(wire))["messages"] == [
        {"id": "1", "role": "user", "tool_call_id": None}
    ]


def test_values_are_read_once() -> None:
    """Also where a key makes the dict be read another way: a generator gives its items once."""
    seen: list[Any] = []
    encoder = EventEncoder(default=lambda value: seen.append(value) or "d")
    for make in (
        lambda inner, key: {"type": "X", "a": inner, key: None},
        lambda inner, key: {"type": "RUN_STARTED", "input": {"state": inner, key: None}},
        lambda inner, key: Dict({"type": "X", "a": inner, key: None}),
    ):
        for key in ("k", Str("k")):
            written = encoded(make((number for number in (1, 2)), key))
            assert written.count("[1,2]") == 1
            seen.clear()
            assert encoded(make(object(), key), encoder).count('"d"') == 1
            assert len(seen) == 1


@pytest.mark.parametrize("key", [5, None, 1.5, True, b"x", (1,), object], ids=repr)
def test_keys_of_an_event_are_str(key: Any) -> None:
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode({"type": "X", key: 1})
    assert raised.value.path == ""
    with pytest.raises(EncodeError):
        ENCODER.encode({key: 1, "type": "X"})


# --- models in dicts ---------------------------------------------------------------------------


class MyPart(TextPart):
    more: Any = None


def test_models_inside_a_dict() -> None:
    """They are written as they are inside a model, by their own class."""
    user = UserMessage(id="1", content=[TextPart(text="t", metadata={"k": None})], foo=None)
    for value in (user, [user], {"k": user}, (user, TextMessageEndEvent(message_id="m"))):
        wire = {"type": "CUSTOM", "name": "n", "value": value}
        assert_wire_same(wire, ADAPTER.validate_python(wire))
    wire = {"type": "MESSAGES_SNAPSHOT", "messages": [user, AssistantMessage(id="2")]}
    assert_wire_same(wire, MessagesSnapshotEvent(messages=[user, AssistantMessage(id="2")]))
    half = {
        "id": "1",
        "role": "user",
        "content": [TextPart(text="t"), {"type": "text", "id": None}],
    }
    written = json.loads(encoded({"type": "MESSAGES_SNAPSHOT", "messages": [half]}))
    assert written["messages"][0]["content"] == [{"type": "text", "text": "t"}, {"type": "text"}]
    # A subclass shows what it adds: a dict declares no class that could take it away.
    wire = {"type": "CUSTOM", "name": "n", "value": MyPart(text="t", more=1)}
    assert '"more":1' in encoded(wire)


def test_models_inside_a_dict_warn_as_they_do_inside_a_model() -> None:
    part = TextPart(text="t")
    part.text = 5
    wire = {"type": "CUSTOM", "name": "n", "value": [part]}
    expected = official(CustomEvent(name="n", value=[part]))
    assert len(expected.warned) == 1
    assert outcome(ENCODER.encode, wire) == expected


def test_events_inside_events() -> None:
    inner = TextMessageEndEvent(message_id="m", raw_event={"a": 1})
    wire = {"type": "RAW", "event": inner, "rawEvent": {"type": "RAW", "raw_event": None}}
    text = '{"type":"TEXT_MESSAGE_END","rawEvent":{"a":1},"messageId":"m"}'
    tail = '"rawEvent":{"type":"RAW","raw_event":null}'
    assert encoded(wire) == f'{{"type":"RAW","event":{text},{tail}}}'


# --- a codec forwards --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "TEXT_MESSAGE_CONTENT"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": 5, "delta": ["d"]},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "hologram"},
        {"type": "X", "timestamp": "5", "metadata": [1]},
        {"type": "X", "timestamp": 2**60},
        {"type": "MESSAGES_SNAPSHOT", "messages": {"0": {"role": "user", "tool_call_id": 1}}},
        {"type": "MESSAGES_SNAPSHOT", "messages": [1, "two", True, [], {"role": 5}, {"role": []}]},
        {"type": "MESSAGES_SNAPSHOT", "messages": "none"},
        {"type": "STATE_DELTA", "delta": [{"op": "frobnicate", "path": "x", "from_": 1}]},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "no pointer", "x": 1}]},
        {"type": "RUN_FINISHED", **RUN, "outcome": ["interrupt"]},
        {"type": "RUN_FINISHED", **RUN, "outcome": {"type": "paused", "interrupt_ids": []}},
        {"type": "RUN_FINISHED", **RUN, "outcome": {"type": "interrupt", "interrupts": []}},
        {"type": "RUN_FINISHED", **RUN, "usage": {"input_tokens": 1}},
        {"type": "RUN_STARTED", **RUN, "input": "text"},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "future", "entityId": 1},
        {"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"},
        {"type": "ACTIVITY_SNAPSHOT", "content": [1], "replace": "yes"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "d"},
    ],
    ids=lambda wire: json.dumps(wire)[:60],
)
def test_wrong_values_and_unknown_things_pass_through(wire: dict[str, Any]) -> None:
    assert json.loads(encoded(wire)) == wire
    assert list(json.loads(encoded(wire))) == list(wire)


@pytest.mark.parametrize(
    ("field", "choices", "rest"),
    [
        ("role", ["developer", "system", "assistant", "user"], {"type": "TEXT_MESSAGE_START"}),
        ("role", ["developer", "system", "assistant", "user"], {"type": "TEXT_MESSAGE_CHUNK"}),
        ("role", ["tool"], {"type": "TOOL_CALL_RESULT"}),
        ("role", ["reasoning"], {"type": "REASONING_MESSAGE_START"}),
        ("subtype", ["tool-call", "message"], {"type": "REASONING_ENCRYPTED_VALUE"}),
    ],
)
def test_each_choice_of_a_literal(field: str, choices: list[str], rest: dict[str, Any]) -> None:
    for choice in [*choices, "other"]:
        assert json.loads(encoded({**rest, field: choice})) == {**rest, field: choice}
        assert json.loads(encoded({**rest, field: Str(choice)})) == {**rest, field: choice}


def test_each_choice_of_a_literal_inside() -> None:
    for status in ("resolved", "cancelled", "other"):
        resume = [{"interruptId": "i", "status": status}]
        wire = {"type": "RUN_STARTED", **RUN, "input": {**RUN, "messages": [], "resume": resume}}
        assert json.loads(encoded(wire)) == wire
    for role in ("developer", "system", "assistant", "user", "tool", "activity", "reasoning"):
        wire = {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "1", "role": role}]}
        assert json.loads(encoded(wire)) == wire
    for kind in ("text", "image", "audio", "video", "document", "binary"):
        for source in ("data", "url", "file", "other"):
            part = {"type": kind, "source": {"type": source, "value": "v"}}
            wire = {"type": "TOOL_CALL_RESULT", "content": [part]}
            assert json.loads(encoded(wire)) == wire
    for kind in ("success", "interrupt", "cancelled", "suspended", "paused"):
        for event in ("RUN_FINISHED", "SUBAGENT_FINISHED"):
            wire = {"type": event, "outcome": {"type": kind, "x": 1}}
            assert json.loads(encoded(wire)) == wire


@by_class
def test_keys_of_the_next_protocol_version_pass_through(cls: type[BaseModel]) -> None:
    wire = {**to_wire(variants(cls)[0]), "encryptedValueType": "signature", "futureKey": [None]}
    written = json.loads(encoded(wire))
    assert written["encryptedValueType"] == "signature"
    assert written["futureKey"] == [None]
    assert_wire_same(wire, ADAPTER.validate_python(wire))


def test_an_odd_value_beside_described_ones() -> None:
    """What pydantic has to write does not change how its neighbours are read."""
    import datetime

    day = datetime.date(2026, 1, 2)
    wire = {
        "type": "MESSAGES_SNAPSHOT",
        "metadata": {"day": day},
        "messages": [
            {"id": "1", "role": "user", "name": None, "metadata": {"day": {day}}, "content": "c"},
            {"id": "2", "role": "tool", "tool_call_id": "c", "error": None, "content": day},
        ],
        "unknown": {day: {"name": None}},
        "raw_event": None,
    }
    assert json.loads(encoded(wire)) == {
        "type": "MESSAGES_SNAPSHOT",
        "metadata": {"day": "2026-01-02"},
        "messages": [
            {"id": "1", "role": "user", "metadata": {"day": ["2026-01-02"]}, "content": "c"},
            {"id": "2", "role": "tool", "toolCallId": "c", "content": "2026-01-02"},
        ],
        "unknown": {"2026-01-02": {"name": None}},
    }


def test_enum_members_beside_odd_values() -> None:
    for odd in ({1}, b"x", Str("s"), Dict(a=1)):
        for value in ((odd, Color.RED), [Color.RED, {"k": odd}], {Color.RED: [odd, Color.DICT]}):
            wire = {"type": "CUSTOM", "name": "n", "value": value}
            assert_wire_same(wire, CustomEvent(name="n", value=value))


class Node:
    """An object of an application, which knows others that know it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def graph() -> Node:
    node = Node(children=[])
    node.children.append(Node(parent=node, kind=Color.RED, of=Node, module=json))
    return node


def test_objects_that_lead_everywhere_are_for_the_hook() -> None:
    encoder = EventEncoder(default=lambda value: f"<{type(value).__name__}>")
    for wire in (
        {"type": "X", "a": graph()},
        {"type": "X", "a": [{"b": graph()}, Node, json]},
        {"type": "X", "metadata": {"b": graph()}},
        {"type": "MESSAGES_SNAPSHOT", "messages": [graph(), {"role": "user", "x": graph()}]},
    ):
        assert '"<Node>"' in encoded(wire, encoder)


def test_objects_that_lead_everywhere_are_named_in_the_error() -> None:
    for value, path in (
        (graph(), "a"),
        ([0, {"b": graph()}], "a[1].b"),
        (Node, "a"),
        ([json], "a[0]"),
        (graph().children[0].parent.__init__, "a"),
        ({1: {2}, "deep": (Color.RED, graph())}, "a.deep[1]"),
    ):
        with pytest.raises(EncodeError) as raised:
            ENCODER.encode({"type": "X", "a": value})
        assert raised.value.path == path
        assert "deeper" not in str(raised.value)


@pytest.mark.parametrize("make", ["objects", "models", "dataclasses", "wire"])
def test_objects_that_are_reached_in_many_ways_do_not_hang(make: str) -> None:
    """Forty of them with two ways to the next one: there are 2**40 paths."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_wire_dicts import *
from strategies import Point
node = Node()
for _ in range(40):
    node = Node(a=node, b=node)
event = {{
    "objects": lambda: CustomEvent(name="n", value=[node]),
    "models": lambda: CustomEvent(name="n", value=TextPart(text="t", metadata=node)),
    "dataclasses": lambda: CustomEvent(name="n", value=Point(node)),
    "wire": lambda: {{"type": "X", "a": [node]}},
}}[{make!r}]()
assert outcome(ENCODER.encode, event).error is not None
assert '"node"' in EventEncoder(default=lambda value: "node").encode(event)
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr[-2000:]
