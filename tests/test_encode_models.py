"""Models that are not quite what their class says: subclasses, patched classes, changed instances.

The native path is only for what it recognises; whatever is odd must come out as the official
encoder writes it.
"""

import collections
import copy
import gc
import pickle
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pydantic
import pytest
from ag_ui._generated.models import AddOperation
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    EventType,
    FunctionCall,
    Interrupt,
    MessagesSnapshotEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ag_ui.core.types import BinaryInputContent, ConfiguredBaseModel
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError

from agui_codec import EventEncoder, proto
from oracle import ENCODER, assert_fast, assert_same, official_text
from strategies import EVENT_CLASSES, Str, variants

by_class = pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)


def content(**fields: Any) -> TextMessageContentEvent:
    return TextMessageContentEvent(**{"message_id": "m", "delta": "d", **fields})


# --- subclasses --------------------------------------------------------------------------------


class WithField(TextMessageContentEvent):
    more: int = 1
    nothing: Any = None


class WithAlias(TextMessageContentEvent):
    other: int = Field(1, serialization_alias="OTHER", validation_alias="oTHER")


class WithExcluded(TextMessageContentEvent):
    secret: str = Field("s", exclude=True)


class WithModelSerializer(TextMessageContentEvent):
    @pydantic.model_serializer
    def _serialize(self) -> dict[str, Any]:
        return {"own": [1, None], "type": self.type}


class WithFieldSerializer(TextMessageContentEvent):
    @pydantic.field_serializer("delta")
    def _upper(self, value: str) -> str:
        return value.upper()


class WithComputed(TextMessageContentEvent):
    @pydantic.computed_field
    @property
    def size(self) -> int:
        return len(self.delta)


class WithDump(TextMessageContentEvent):
    def model_dump_json(self, **arguments: Any) -> str:
        return f"own {sorted(arguments)}\n"


class WithConfig(TextMessageContentEvent):
    model_config = ConfigDict(ser_json_bytes="hex", use_enum_values=True)


class WithoutExtras(TextMessageContentEvent):
    model_config = ConfigDict(extra="ignore")


class WithAttribute(TextMessageContentEvent):
    @property
    def __pydantic_extra__(self) -> Any:  # type: ignore[override]
        return {"trap": 1}


class WithSlots(TextMessageContentEvent):
    __slots__ = ("spare",)


class WithPrivate(TextMessageContentEvent):
    _hidden: int = pydantic.PrivateAttr(default=1)

    def model_post_init(self, context: Any) -> None:
        self.delta = self.delta + "!"


class WithNewType(TextMessageContentEvent):
    type: Literal["MINE"] = "MINE"  # type: ignore[assignment]


SUBCLASSES = [
    WithField,
    WithAlias,
    WithExcluded,
    WithModelSerializer,
    WithFieldSerializer,
    WithComputed,
    WithDump,
    WithConfig,
    WithoutExtras,
    WithSlots,
    WithPrivate,
    WithNewType,
]


@pytest.mark.parametrize("cls", SUBCLASSES, ids=lambda cls: cls.__name__)
def test_subclasses_of_an_event(cls: type[TextMessageContentEvent]) -> None:
    event = cls(message_id="m", delta="d", raw_event=b"x", foo=None)
    expected = official_text(event)
    assert ENCODER.encode(event) == expected
    assert ENCODER.encode_binary(event) == expected.encode()
    assert ENCODER.encode({"type": "X", "e": 1}) == 'data: {"type":"X","e":1}\n\n'
    if cls is not WithDump:
        assert_same(CustomEvent(name="n", value=event))
        assert_same(CustomEvent(name="n", value={"list": [event]}))


def test_a_subclass_that_hides_the_slot_of_the_extras() -> None:
    event = content(foo=1)
    event.__class__ = WithAttribute
    assert_same(event)


# --- subclasses that add nothing to what is written ---------------------------------------------


class Plain(TextMessageContentEvent):
    pass


class PlainAgain(Plain):
    """With what is not on the wire."""

    kind: ClassVar[str] = "mine"

    def shout(self) -> str:
        return self.delta.upper()

    @property
    def size(self) -> int:
        return len(self.delta)


class Mixin:
    def whisper(self) -> str:
        return "..."


class PlainWithMixin(Mixin, TextMessageContentEvent):
    pass


@pytest.mark.parametrize("cls", [Plain, PlainAgain, PlainWithMixin], ids=lambda cls: cls.__name__)
def test_a_subclass_that_adds_nothing_is_as_fast_as_its_base(
    cls: type[TextMessageContentEvent],
) -> None:
    event = cls(message_id="m", delta="d", raw_event={"a": 1}, foo=None)
    base = TextMessageContentEvent(message_id="m", delta="d", raw_event={"a": 1}, foo=None)
    assert_fast(event)
    assert assert_same(event).result == official_text(base)
    assert proto.encode(event) == proto.encode(base)


def test_a_subclass_that_changes_is_looked_at_anew() -> None:
    class Changing(TextMessageContentEvent):
        pass

    event = Changing(message_id="m", delta="d")
    assert_fast(event)
    Changing.model_dump_json = lambda self, **arguments: "own"  # type: ignore[method-assign,assignment]
    assert ENCODER.encode(event) == "data: own\n\n"
    del Changing.model_dump_json
    assert_fast(event)
    for number in range(40):
        Changing.note = number  # type: ignore[attr-defined]
        assert ENCODER.encode(event) == official_text(event)


def test_subclasses_are_not_kept_alive() -> None:
    alive = []
    for _ in range(200):
        cls = type("Passing", (TextMessageContentEvent,), {"__module__": __name__})
        assert ENCODER.encode(cls(message_id="m", delta="d"))
        alive.append(weakref.ref(cls))
        del cls
    plain = weakref.ref(type("Plain", (), {}))
    gc.collect()
    if plain() is not None:
        pytest.skip("this Python, 3.13 without its lock, keeps each class once a thread has run")
    assert sum(it() is not None for it in alive) == 0


class Foreign(BaseModel):
    type: str = "FOREIGN"
    my_value: Any = None


def test_events_that_are_no_event_classes_of_the_sdk() -> None:
    class Own(ConfiguredBaseModel):
        type: Literal["OWN"] = "OWN"
        my_value: Any = None

    class Duck:
        def model_dump_json(self, by_alias: bool) -> str:
            return f'{{"duck":"é","by_alias":{by_alias}}}'

    for event in (Own(), Own(my_value=1), Own(foo=None), Foreign(), Duck()):
        expected = official_text(event)
        assert ENCODER.encode(event) == expected
        assert ENCODER.encode_binary(event) == expected.encode()
    assert_same(BaseEvent(type=EventType.RAW, timestamp=1))


class MyUser(UserMessage):
    lost: int = 1


class MyAssistant(AssistantMessage):
    @pydantic.model_serializer
    def _serialize(self) -> dict[str, Any]:
        return {"own": 1}


class MyPart(TextPart):
    lost: int = 1


class MyCall(ToolCall):
    lost: int = 1


class MyFunction(FunctionCall):
    lost: int = 1


class MyOperation(AddOperation):
    lost: int = 1


class MyOutcome(RunFinishedSuccessOutcome):
    lost: int = 1


class MyUsage(TokenUsage):
    lost: int = 1


class MyInterrupt(Interrupt):
    lost: int = 1


def test_nested_subclasses_are_written_as_their_declared_class() -> None:
    user = MyUser(id="1", content="c", kept="as an extra")
    for event in (
        MessagesSnapshotEvent(messages=[user]),
        MessagesSnapshotEvent(messages=[UserMessage(id="0", content="c"), user]),
        MessagesSnapshotEvent(messages=[MyAssistant(id="1")]),
        MessagesSnapshotEvent(messages=[UserMessage(id="1", content=[MyPart(text="t")])]),
        MessagesSnapshotEvent(
            messages=[
                AssistantMessage(
                    id="1",
                    tool_calls=[
                        MyCall(id="c", function=FunctionCall(name="f", arguments="")),
                        ToolCall(id="c", function=MyFunction(name="f", arguments="")),
                    ],
                )
            ]
        ),
        StateDeltaEvent(delta=[MyOperation(path="", value=1)]),
        RunFinishedEvent(
            thread_id="t", run_id="r", outcome=MyOutcome(), usage=[MyUsage(model="m")]
        ),
        RunFinishedEvent(
            thread_id="t",
            run_id="r",
            outcome={"type": "interrupt", "interrupts": [MyInterrupt(id="i", reason="r")]},
        ),
    ):
        assert '"lost"' not in assert_same(event).result
    assert '"lost":1' in assert_same(CustomEvent(name="n", value=user)).result
    assert '"lost":1' in assert_same(CustomEvent(name="n", value=[{"k": MyPart(text="t")}])).result


def test_nested_models_of_a_wrong_class() -> None:
    """Put there by construction without validation, or by assignment."""
    for message in (
        BinaryInputContent(mime_type="a/b", id="1"),
        TextPart(text="t"),
        {"id": "1", "role": "user", "content": "c", "name": None},
        Foreign(),
        content(),
    ):
        assert_same(MessagesSnapshotEvent.model_construct(messages=[message]))
        good = UserMessage(id="1", content="c")
        assert_same(MessagesSnapshotEvent.model_construct(messages=[good, message]))
        event = RunStartedEvent(thread_id="t", run_id="r")
        event.input = message
        assert_same(event)
    swapped = UserMessage(id="1", content="c")
    swapped.__class__ = ToolMessage
    assert_same(MessagesSnapshotEvent.model_construct(messages=[swapped]))
    event = MessagesSnapshotEvent(messages=[UserMessage(id="1", content=[TextPart(text="t")])])
    event.messages = tuple(event.messages)
    assert_same(event)


# --- patched classes ---------------------------------------------------------------------------


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Undone before the check that the native path is taken again."""
    yield monkeypatch
    monkeypatch.undo()
    assert_same(content())
    assert_same(MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c")]))
    assert_fast(content())


class FakeSerializer:
    def to_json(self, *args: Any, **kwargs: Any) -> bytes:
        return b'"fake"'


def test_a_replaced_serializer(patch: pytest.MonkeyPatch) -> None:
    event = content()
    assert_same(event)
    patch.setattr(TextMessageContentEvent, "__pydantic_serializer__", FakeSerializer())
    assert assert_same(event).result == 'data: "fake"\n\n'
    assert_same(TextMessageEndEvent(message_id="m"))
    assert_same(WithField(message_id="m", delta="d"))


def test_a_replaced_serializer_of_a_nested_class(patch: pytest.MonkeyPatch) -> None:
    event = MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c")])
    inferred = CustomEvent(name="n", value=UserMessage(id="1", content="c"))
    assert_same(event)
    part = TextPart.__pydantic_serializer__
    patch.setattr(UserMessage, "__pydantic_serializer__", part)
    assert_same(event)
    assert_same(inferred)


@pytest.mark.parametrize(
    "where", [TextMessageContentEvent, BaseEvent, ConfiguredBaseModel, BaseModel]
)
def test_a_replaced_model_dump_json(where: Any, patch: pytest.MonkeyPatch) -> None:
    event = content()
    assert_same(event)
    patch.setattr(where, "model_dump_json", lambda self, **arguments: "patched")
    assert assert_same(event).result == "data: patched\n\n"


@pytest.mark.parametrize("name", ["_omittable_keys", "_agui_omittable_keys"])
def test_replaced_rules_of_omission(name: str, patch: pytest.MonkeyPatch) -> None:
    event = content()
    assert_same(event)
    value: Any = frozenset()
    if name == "_omittable_keys":
        value = classmethod(lambda cls: frozenset({"delta"}))
    patch.setattr(TextMessageContentEvent, name, value, raising=False)
    assert '"timestamp":null' in assert_same(event).result


@pytest.mark.parametrize("cls", [TextMessageContentEvent, UserMessage, MessagesSnapshotEvent])
def test_a_rebuilt_class(cls: type[BaseModel]) -> None:
    """`model_rebuild(force=True)` makes a new serializer; in a process of its own, it stays."""
    import subprocess
    import sys

    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(__file__)!r}.rpartition("/")[0])
from ag_ui.core import *
from oracle import assert_same
events = [
    TextMessageContentEvent(message_id="m", delta="d", foo=None),
    MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c", foo=None)]),
    CustomEvent(name="n", value=UserMessage(id="1", content="c")),
]
for event in events: assert_same(event)
assert {cls.__name__}.model_rebuild(force=True)
for event in events: assert_same(event)
old = {cls.__name__}.model_fields
{cls.__name__}.model_config["ser_json_bytes"] = "hex"
{cls.__name__}.model_rebuild(force=True)
for event in events: assert_same(event)
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_an_attribute_set_on_a_class_that_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    event = content()
    assert_fast(event)
    patch.setattr(TextMessageContentEvent, "my_helper", lambda self: 1, raising=False)
    assert_same(event)
    assert_fast(event)


# --- changed instances -------------------------------------------------------------------------


def test_a_method_put_on_an_instance() -> None:
    event = content()
    object.__setattr__(event, "model_dump_json", lambda **arguments: "mine")
    assert assert_same(event).result == "data: mine\n\n"
    event = content()
    event.model_dump_json = lambda **arguments: "mine"
    assert assert_same(event).result == "data: mine\n\n"


@by_class
def test_attributes_deleted_and_set_again(cls: type[BaseModel]) -> None:
    full = variants(cls)[2]
    for name in list(full.__dict__):
        event = copy.copy(full)
        value = event.__dict__[name]
        delattr(event, name)
        assert_same(event)
        setattr(event, name, value)  # Now the last of the dict, and so of the text.
        assert_same(event)
        assert_fast(event)


@by_class
def test_attributes_of_a_wrong_type_are_written_with_the_same_warning(cls: type[BaseModel]) -> None:
    full = variants(cls)[2]
    for name in cls.model_fields:
        for wrong in (5, 1.5, True, "text", b"bytes", [], [1], {}, {1: 2}, (), None, EventType.RAW):
            event = copy.copy(full)
            setattr(event, name, wrong)
            assert_same(event)


def test_the_warning_can_be_made_an_error() -> None:
    event = content()
    event.delta = 5
    texts = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for encode in (official_text, ENCODER.encode):
            with pytest.raises(PydanticSerializationError, match="Expected `str`") as raised:
                encode(event)
            texts.append(str(raised.value))
    assert texts[0] == texts[1]
    event.delta = "d"
    assert_same(event)


def test_the_warning_names_the_same_line_of_code() -> None:
    event = content()
    event.delta = 5
    places = []
    for encode in (official_text, ENCODER.encode):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encode(event)
        places.append([(warning.filename, warning.lineno) for warning in caught])
    assert places[0] == places[1]


def test_type_assigned() -> None:
    for kind in ("TEXT_MESSAGE_CONTENT", Str("TEXT_MESSAGE_CONTENT"), EventType.RAW, "X", None, 5):
        event = content()
        event.type = kind
        assert_same(event)


def test_keys_in_the_dict_that_are_no_fields() -> None:
    for key in ("foo", "messageId", "message_Id", "rawEvent", "é", Str("foo"), 5, None, ("a",)):
        event = content()
        event.__dict__[key] = 1
        assert_same(event)
        event = content(foo=2)
        del event.__dict__["timestamp"]  # As many keys as before.
        event.__dict__[key] = 1
        assert_same(event)


def test_dicts_of_another_kind() -> None:
    event = content()
    object.__setattr__(event, "__dict__", collections.OrderedDict(event.__dict__))
    assert_same(event)
    event = content()
    object.__setattr__(event, "__dict__", {Str(k): v for k, v in event.__dict__.items()})
    assert_same(event)
    event = content()
    # Equal keys that are other objects than the interned ones.
    object.__setattr__(event, "__dict__", {"".join(list(k)): v for k, v in event.__dict__.items()})
    assert_same(event)
    event = content()
    object.__setattr__(event, "__dict__", {})
    assert_same(event)
    event = content()
    object.__setattr__(event, "__dict__", dict(reversed(event.__dict__.items())))
    assert_same(event)
    assert_fast(event)


def test_instances_made_without_a_constructor() -> None:
    assert_same(object.__new__(TextMessageContentEvent))
    assert_same(TextMessageContentEvent.model_construct())
    assert_same(TextMessageContentEvent.model_construct(delta="d"))
    assert_same(TextMessageContentEvent.model_construct(message_id="m", delta="d", foo=1))
    assert_same(TextMessageContentEvent.model_construct(message_id=5, delta=None, type="X"))
    assert_same(MessagesSnapshotEvent.model_construct(messages=[UserMessage.model_construct()]))


def test_class_assigned() -> None:
    from ag_ui.core import ReasoningMessageContentEvent

    for cls in (TextMessageEndEvent, ReasoningMessageContentEvent, WithField, BaseEvent):
        event = content(foo=1)
        event.__class__ = cls
        assert_same(event)


def test_copies_with_an_update() -> None:
    event = content(foo=1)
    assert_same(event.model_copy(update={"delta": 5}))
    assert_same(event.model_copy(update={"delta": "x", "zzz": 1}))
    assert_same(event.model_copy(update={"messageId": "x"}))
    assert_same(pickle.loads(pickle.dumps(event.model_copy(update={"delta": 5}))))


# --- extras ------------------------------------------------------------------------------------


EXTRAS: list[tuple[Any, Any]] = [
    ("foo", None),
    ("foo", 1),
    ("é\n", "é\n"),
    ("", 1),
    ("messageId", "alias of a required field"),
    ("messageId", None),
    ("message_id", "name of a required field"),
    ("message_id", None),
    ("timestamp", 5),
    ("timestamp", None),
    ("rawEvent", 1),
    ("rawEvent", None),
    ("raw_event", 1),
    ("raw_event", None),
    ("type", "X"),
    ("type", None),
    ("delta", None),
    ("subagentRunId", None),
    ("model_config", 1),
    ("__dict__", 1),
    (5, 1),
    (None, 1),
    (b"x", 1),
    (Str("s"), 1),
    (Str("messageId"), 1),
    (EventType.RAW, 1),
    ("\ud800", 1),
]


@pytest.mark.parametrize(("key", "value"), EXTRAS, ids=str)
def test_extras_that_clash_or_are_odd(key: Any, value: Any) -> None:
    for others in ({}, {"zz": 1}):
        event = content()
        object.__setattr__(event, "__pydantic_extra__", {**others, key: value})
        assert_same(event)
        event.timestamp = 7
        event.raw_event = {"a": 1}
        assert_same(event)
        message = UserMessage(id="1", content="c")
        object.__setattr__(message, "__pydantic_extra__", {**others, key: value})
        assert_same(MessagesSnapshotEvent(messages=[message]))
        assert_same(CustomEvent(name="n", value=message))


@by_class
def test_an_extra_under_each_name_and_alias(cls: type[BaseModel]) -> None:
    for base in variants(cls)[:2]:
        for name, field in cls.model_fields.items():
            for key in {name, field.alias}:
                for value in (None, "x", 1):
                    event = copy.copy(base)
                    object.__setattr__(event, "__pydantic_extra__", {key: value, "z": None})
                    assert_same(event)


def test_both_spellings_given_to_the_constructor() -> None:
    event = TextMessageContentEvent(**{"messageId": "alias", "message_id": "name", "delta": ""})
    assert_same(event)
    event = TextMessageEndEvent(
        **{"messageId": "m", "rawEvent": None, "raw_event": 1, "subagent_run_id": "s"}
    )
    assert_same(event)


@pytest.mark.parametrize("extra", [None, [], 5, "text", collections.OrderedDict(z=1), {}], ids=repr)
def test_a_slot_of_extras_that_holds_something_else(extra: Any) -> None:
    event = content()
    object.__setattr__(event, "__pydantic_extra__", extra)
    assert_same(event)


def test_slots_that_are_empty() -> None:
    for slot in ("__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__"):
        event = content()
        object.__delattr__(event, slot)
        assert_same(event)


def test_encoders_share_nothing_that_a_class_change_would_spoil() -> None:
    """Two encoders and the module function agree after a class was patched and restored."""
    event = content()
    first, second = EventEncoder(), EventEncoder(drop_raw_event=True)
    text = official_text(event)
    original = TextMessageContentEvent.__pydantic_serializer__
    for _ in range(3):
        assert first.encode(event) == second.encode(event) == text
        TextMessageContentEvent.__pydantic_serializer__ = FakeSerializer()  # type: ignore[assignment]
        try:
            assert first.encode(event) == 'data: "fake"\n\n'
        finally:
            TextMessageContentEvent.__pydantic_serializer__ = original
    assert first.encode(event) == second.encode(event) == text
