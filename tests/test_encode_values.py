"""Values and keys that are not plain JSON, in every place where a value can stand."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    CustomEvent,
    EventType,
    ImagePart,
    MessagesSnapshotEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    TokenUsage,
    UserMessage,
)
from ag_ui.core.types import BinaryInputContent
from pydantic import BaseModel

from agui_codec import EncodeError
from oracle import ENCODER, assert_fast, assert_same, assert_wire_same, official_text, outcome
from strategies import (
    Account,
    Color,
    Dict,
    Flag,
    Float,
    Int,
    IntEnum,
    List,
    Pair,
    Point,
    Str,
    StrEnum,
)

utc = datetime.timezone.utc
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 120000, tzinfo=utc)


class Bytes(bytes):
    pass


class Tuple(tuple):
    pass


DictEnum = enum.Enum("DictEnum", {"A": {"k": None}}, type=dict)


class FloatEnum(float, enum.Enum):
    A = 1.5
    NAN = float("nan")


class TupleEnum(tuple, enum.Enum):
    A = (1, None)


class OwnMeta(enum.EnumMeta):
    pass


class MetaEnum(enum.Enum, metaclass=OwnMeta):
    A = "meta"


class Plain(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Holder:
    color: enum.Enum
    _private: int = 3
    items: list[Any] = dataclasses.field(default_factory=lambda: [None])


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    a: int
    b: Any = None


class Root(pydantic.RootModel[list[Any]]):
    pass


class Spelled(BaseModel):
    """Its own aliases and its own ways to write bytes and NaN."""

    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings", ser_json_bytes="hex")
    some_name: int = pydantic.Field(1, serialization_alias="someName")
    raw: bytes = b"x"
    nan: float = float("nan")


class Computed(BaseModel):
    @pydantic.computed_field
    @property
    def answer(self) -> int:
        return 42


class Hidden(BaseModel):
    shown: int = 1
    secret: int = pydantic.Field(2, exclude=True)


class MyPart(TextPart):
    more: Any = None


class Failing:
    """Python code of its own at every turn, none of which pydantic should need."""

    def __repr__(self) -> str:
        return "Failing"

    def __str__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


TWICE = ["the same list"]

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "i64 max": 2**63 - 1,
    "i64 min": -(2**63),
    "above i64": 2**63,
    "below i64": -(2**63) - 1,
    "u64 max": 2**64 - 1,
    "big": 10**400,
    "more digits than Python prints": 10**5000,
    "float": 1.0,
    "minus zero": -0.0,
    "1e16": 1e16,
    "1e15": 1e15,
    "123456789012345680.0": 123456789012345680.0,
    "1e-5": 1e-5,
    "1e-7": 1e-7,
    "tiny": 5e-324,
    "max": sys.float_info.max,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "controls": "".join(map(chr, range(0x30))) + "\x7f",
    "latin-1": 'é\xa0\xff\n"',
    "two bytes": "漢\u2028\ufeff\t",
    "astral": "😀\\\U0010ffff",
    "lone surrogate": "a\ud83d",
    "lone low surrogate": "\ude00",
    "enum": Color.RED,
    "enum of none": Color.NONE,
    "enum of nan": Color.NAN,
    "enum of a list": Color.LIST,
    "enum of a dict": Color.DICT,
    "str enum": StrEnum.B,
    "int enum": IntEnum.ONE,
    "int flag": Flag.A | Flag.B,
    "flag": Plain.A | Plain.B,
    "dict enum": DictEnum.A,
    "float enum": FloatEnum.A,
    "float enum of nan": FloatEnum.NAN,
    "tuple enum": TupleEnum.A,
    "enum with its own metaclass": MetaEnum.A,
    "event type": EventType.RAW,
    "str subclass": Str('q\n"'),
    "int subclass": Int(2**70),
    "float subclass": Float(1e16),
    "float subclass nan": Float("nan"),
    "list subclass": List([1, None, List()]),
    "dict subclass": Dict(a=None, b=Dict()),
    "tuple subclass": Tuple((1, None)),
    "bytes subclass": Bytes(b"x"),
    "named tuple": Pair(1, None),
    "tuple": (1, (), (None,)),
    "set": {1},
    "frozenset": frozenset("a"),
    "deque": collections.deque([1, None]),
    "ordered dict": collections.OrderedDict(b=1, a=None),
    "default dict": collections.defaultdict(list, a=[1]),
    "counter": collections.Counter("aab"),
    "chain map": collections.ChainMap({"a": 1}),
    "mapping proxy": types.MappingProxyType({"a": 1}),
    "range": range(3),
    "dict keys": {"a": 1}.keys(),
    "dict values": {"a": 1}.values(),
    "dict items": {"a": 1}.items(),
    "array": array.array("i", [1]),
    "dataclass": Point(1, Point(None)),
    "dataclass with an enum": Holder(Color.RED),
    "dataclass with slots": Slotted(1),
    "dataclass class": Point,
    "datetime": MOMENT,
    "naive datetime": datetime.datetime(2026, 1, 2),
    "datetime with fold": datetime.datetime(2026, 1, 2, fold=1),
    "datetime with an odd zone": MOMENT.astimezone(
        datetime.timezone(datetime.timedelta(hours=5, minutes=45))
    ),
    "date": datetime.date(1, 1, 1),
    "time": datetime.time(1, 2, 3, 4),
    "time with a zone": datetime.time(1, 2, tzinfo=utc),
    "timedelta": datetime.timedelta(days=-1, seconds=3, microseconds=5),
    "zero timedelta": datetime.timedelta(0),
    "decimal": decimal.Decimal("1.10"),
    "decimal nan": decimal.Decimal("NaN"),
    "decimal inf": decimal.Decimal("-Infinity"),
    "fraction": fractions.Fraction(1, 2),
    "complex": 1 + 2j,
    "uuid": uuid.UUID(int=5),
    "path": pathlib.PurePosixPath("/a/é"),
    "ip address": ipaddress.ip_address("::1"),
    "ip network": ipaddress.ip_network("10.0.0.0/8"),
    "pattern": re.compile("a+"),
    "url": pydantic.AnyUrl("http://a.b/c?d=é"),
    "secret": pydantic.SecretStr("hidden"),
    "bytes": b"h\xc3\xa9",
    "bytes that are no UTF-8": b"\xed\xa0\x80",
    "bytearray": bytearray(b"x"),
    "memoryview": memoryview(b"x"),
    "sdk message": UserMessage(id="1", content=[TextPart(text="t")], foo=None),
    "sdk part": ImagePart(source={"type": "url", "value": "u"}),
    "sdk model of absences": TokenUsage(),
    "sdk event": TextMessageEndEvent(message_id="m", raw_event=0, metadata={"k": None}),
    "sdk subclass": MyPart(text="t", more=None),
    "sdk deprecated": BinaryInputContent(mime_type="a/b", id="1"),
    "user model": Account(balance=[None]),
    "user model with aliases": Spelled(),
    "user model with a computed field": Computed(),
    "user model with an excluded field": Hidden(),
    "root model": Root([1, None, {"a": None}]),
    "model class": Account,
    "object": object(),
    "object that fails": Failing(),
    "function": len,
    "lambda": lambda: None,
    "class": int,
    "module": sys,
    "ellipsis": ...,
    "not implemented": NotImplemented,
    "exception": ValueError("x"),
    "the same twice": [TWICE, TWICE, {"again": TWICE}],
}

KEYS: dict[str, Any] = {
    "empty": "",
    "escapes": '"\\\n\x00',
    "wide": "é漢😀",
    "lone surrogate": "\ud800",
    "none": None,
    "true": True,
    "false": False,
    "int": 7,
    "negative": -3,
    "big": 2**80,
    "more digits than Python prints": 10**5000,
    "float": 1.0,
    "1e-5": 1e-5,
    "1e16": 1e16,
    "minus zero": -0.0,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "enum": Color.RED,
    "enum of none": Color.NONE,
    "enum of nan": Color.NAN,
    "str enum": StrEnum.B,
    "int enum": IntEnum.ONE,
    "int flag": Flag.A | Flag.B,
    "flag": Plain.A,
    "float enum": FloatEnum.A,
    "tuple enum": TupleEnum.A,
    "enum with its own metaclass": MetaEnum.A,
    "event type": EventType.RAW,
    "str subclass": Str("s\n"),
    "int subclass": Int(5),
    "float subclass": Float(2.5),
    "bytes subclass": Bytes(b"z"),
    "datetime": MOMENT,
    "date": datetime.date(2026, 1, 2),
    "time": datetime.time(1, 2),
    "timedelta": datetime.timedelta(1),
    "decimal": decimal.Decimal("1.10"),
    "decimal nan": decimal.Decimal("NaN"),
    "uuid": uuid.UUID(int=5),
    "bytes": b"x",
    "bytes that are no UTF-8": b"\xff",
    "tuple": (1, "a"),
    "nested tuple": ((1, None), 2),
    "named tuple": Pair(1, 2),
    "frozenset": frozenset([1]),
    "fraction": fractions.Fraction(1, 2),
    "complex": 1j,
    "path": pathlib.PurePosixPath("/a"),
    "ip address": ipaddress.ip_address("1.2.3.4"),
    "url": pydantic.AnyUrl("http://a.b/c"),
    "secret": pydantic.SecretStr("x"),
    "frozen dataclass": Slotted(1),
    "object": object(),
    "class": int,
    "function": len,
}

values = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def with_field(event: Any, **fields: Any) -> Any:
    """The event with fields put in its dict, where no validator looks at them."""
    event.__dict__.update(fields)
    return event


def with_extra(event: Any, extra: dict[Any, Any]) -> Any:
    object.__setattr__(event, "__pydantic_extra__", extra)
    return event


def end(**fields: Any) -> Any:
    return with_field(TextMessageEndEvent(message_id="m"), **fields)


def custom(value: Any) -> Any:
    return with_field(CustomEvent(name="n", value=None), value=value)


def finished(**fields: Any) -> Any:
    return with_field(RunFinishedEvent(thread_id="t", run_id="r"), **fields)


@values
def test_in_a_payload(value: Any) -> None:
    for inside in (value, [value], (1, value), {"k": value}, [{"a": ({"b": value}, None)}]):
        event = custom(inside)
        assert_same(event)
        assert_wire_same({"type": "CUSTOM", "name": "n", "value": inside}, event)
    assert_same(with_field(StateSnapshotEvent(snapshot=0), snapshot=value))
    operation = {"op": "add", "path": "/a", "value": None}
    delta = StateDeltaEvent(delta=[operation])
    with_field(delta.delta[0], value=value)
    assert_same(delta)
    assert_wire_same({"type": "STATE_DELTA", "delta": [{**operation, "value": value}]}, delta)


@values
def test_in_a_payload_that_may_be_absent(value: Any) -> None:
    """Where None means absence, so does what becomes null on the way."""
    event = finished(result=value)
    assert_same(event)
    wire = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": value}
    assert_wire_same(wire, event)
    event = end(raw_event=value)
    assert_same(event)
    assert_wire_same({"type": "TEXT_MESSAGE_END", "rawEvent": value, "messageId": "m"}, event)
    assert_wire_same({"type": "TEXT_MESSAGE_END", "raw_event": value, "messageId": "m"}, event)
    part = with_field(TextPart(text="t"), metadata=value)
    event = MessagesSnapshotEvent(messages=[UserMessage(id="1", content=[part])])
    assert_same(event)
    wire_part = {"type": "text", "text": "t", "metadata": value}
    message = {"id": "1", "role": "user", "content": [wire_part]}
    assert_wire_same({"type": "MESSAGES_SNAPSHOT", "messages": [message]}, event)
    run = {"threadId": "t", "runId": "r", "messages": []}
    event = RunStartedEvent(thread_id="t", run_id="r", input=run)
    with_field(event.input, state=value)
    assert_same(event)
    run = {"threadId": "t", "runId": "r", "state": value, "messages": []}
    assert_wire_same({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": run}, event)


@values
def test_as_an_extra(value: Any) -> None:
    event = with_extra(end(), {"foo": value})
    assert_same(event)
    assert_wire_same({"type": "TEXT_MESSAGE_END", "messageId": "m", "foo": value}, event)
    message = with_extra(UserMessage(id="1", content="c"), {"foo": value})
    event = MessagesSnapshotEvent(messages=[message])
    assert_same(event)
    wire = {"id": "1", "role": "user", "content": "c", "foo": value}
    assert_wire_same({"type": "MESSAGES_SNAPSHOT", "messages": [wire]}, event)


@values
def test_under_a_key_of_the_metadata(value: Any) -> None:
    event = end(metadata={"k": value, "l": None})
    assert_same(event)
    wire = {"type": "TEXT_MESSAGE_END", "metadata": {"k": value, "l": None}, "messageId": "m"}
    assert_wire_same(wire, event)


def misplaced() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """A value in the place of each kind of field that is declared to hold something else."""
    yield "str", lambda value: with_field(CustomEvent(name="", value=0), name=value)
    yield "optional str", lambda value: end(subagent_run_id=value)
    yield "int", lambda value: end(timestamp=value)
    yield "map", lambda value: end(metadata=value)
    yield "type", lambda value: end(type=value)
    yield "literal", lambda value: with_field(TextMessageStartEvent(message_id="m"), role=value)
    snapshot = lambda: ActivitySnapshotEvent(message_id="m", activity_type="a", content={})  # noqa: E731
    yield "required map", lambda value: with_field(snapshot(), content=value)
    yield "bool", lambda value: with_field(snapshot(), replace=value)
    yield "list", lambda value: with_field(MessagesSnapshotEvent(messages=[]), messages=value)
    yield "item", lambda value: with_field(MessagesSnapshotEvent(messages=[]), messages=[value])
    yield "outcome", lambda value: finished(outcome=value)
    yield "usage", lambda value: finished(usage=[value])
    yield "input", lambda value: with_field(RunStartedEvent(thread_id="", run_id=""), input=value)
    yield "operation", lambda value: with_field(StateDeltaEvent(delta=[]), delta=[value])

    def in_message(**fields: Any) -> Any:
        message = with_field(UserMessage(id="1", content="c"), **fields)
        return MessagesSnapshotEvent.model_construct(messages=[message])

    yield "content", lambda value: in_message(content=value)
    yield "part", lambda value: in_message(content=[value])
    yield "id", lambda value: in_message(id=value)

    def in_part(value: Any) -> Any:
        return in_message(
            content=[with_field(ImagePart(source={"type": "url", "value": "u"}), source=value)]
        )

    yield "source", in_part


MISPLACED = dict(misplaced())


@pytest.mark.parametrize("place", MISPLACED.values(), ids=MISPLACED)
def test_in_the_place_of_something_else(place: Callable[[Any], Any]) -> None:
    """The same text and the same warning, or the same error."""
    for name, value in VALUES.items():
        event = place(value)
        try:
            assert_same(event)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@values
def test_a_wire_dict_forwards_a_value_in_the_place_of_something_else(value: Any) -> None:
    """No type is asked for: it is written as in a payload, except that None is absence."""
    shown = outcome(official_text, custom(value))
    for event, place in (
        ({"type": "CUSTOM", "name": value}, "name"),
        ({"type": "TEXT_MESSAGE_END", "messageId": value}, "messageId"),
        ({"type": "ACTIVITY_SNAPSHOT", "content": value}, "content"),
        ({"type": "STATE_DELTA", "delta": value}, "delta"),
        ({"type": "X", "other": value}, "other"),
    ):
        if shown.error is None:
            tail = shown.result.partition('"value":')[2]
            assert ENCODER.encode(event) == f'data: {{"type":"{event["type"]}","{place}":{tail}'
        else:
            with pytest.raises(EncodeError) as raised:
                ENCODER.encode(event)
            assert raised.value.path.startswith(place)
            assert raised.value.__cause__ is not None
    for event, place in (
        ({"type": "X", "timestamp": value}, "timestamp"),
        ({"type": "X", "metadata": value}, "metadata"),
        ({"type": "X", "rawEvent": value}, "rawEvent"),
        ({"type": "RUN_STARTED", "input": value}, "input"),
        ({"type": "RUN_FINISHED", "outcome": value}, "outcome"),
        ({"type": "TEXT_MESSAGE_START", "role": value}, "role"),
    ):
        if shown.error is None:
            tail = shown.result.partition('"value":')[2]
            whole = f'data: {{"type":"{event["type"]}","{place}":{tail}'
            absent = f'data: {{"type":"{event["type"]}"}}\n\n'
            assert ENCODER.encode(event) == (absent if tail == "null}\n\n" else whole)
        else:
            with pytest.raises(EncodeError):
                ENCODER.encode(event)


BAD = ["object", "function", "lone surrogate", "bytes that are no UTF-8", "range", "class"]


@pytest.mark.parametrize("bad", [VALUES[name] for name in BAD], ids=BAD)
def test_the_path_names_the_place(bad: Any) -> None:
    message = {"id": "1", "role": "user", "content": "c"}
    for wire, path in (
        ({"type": "CUSTOM", "name": "n", "value": bad}, "value"),
        ({"type": "CUSTOM", "name": "n", "value": [0, {"a": {"b": (1, bad)}}]}, "value[1].a.b[1]"),
        ({"type": "CUSTOM", "name": bad, "value": 0}, "name"),
        ({"type": "TEXT_MESSAGE_CONTENT", "message_id": "m", "delta": bad}, "delta"),
        ({"type": "TEXT_MESSAGE_END", "message_id": bad}, "messageId"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "raw_event": [bad]}, "rawEvent[0]"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "foo": {"x": bad}}, "foo.x"),
        ({"type": "FUTURE", "foo": {"x": bad}}, "foo.x"),
        ({"type": "X", "metadata": {"k": [bad]}}, "metadata.k[0]"),
        (
            {"type": "MESSAGES_SNAPSHOT", "messages": [message, {**message, "content": bad}]},
            "messages[1].content",
        ),
        (
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [
                    {
                        **message,
                        "content": [
                            {"type": "text", "text": "t"},
                            {"type": "image", "source": {"type": "url", "value": bad}},
                        ],
                    }
                ],
            },
            "messages[0].content[1].source.value",
        ),
        (
            {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": {"v": bad}}]},
            "delta[0].value.v",
        ),
        (
            {"type": "RUN_STARTED", "input": {"messages": [message, {"role": "tool", "id": bad}]}},
            "input.messages[1].id",
        ),
        (
            {
                "type": "RUN_FINISHED",
                "outcome": {
                    "type": "interrupt",
                    "interrupts": [{"id": "i", "metadata": {"k": bad}}],
                },
            },
            "outcome.interrupts[0].metadata.k",
        ),
        ({"type": "RUN_FINISHED", "usage": [{"input_tokens": bad}]}, "usage[0].inputTokens"),
    ):
        with pytest.raises(EncodeError) as raised:
            ENCODER.encode(wire)
        assert raised.value.path == path
        assert str(raised.value).startswith(path + ": ")
        assert raised.value.__cause__ is not None


@keys
def test_as_a_key_of_a_payload(key: Any) -> None:
    for value in ({key: 1}, [{"a": {"z": 0, key: None, "y": 1}}]):
        event = custom(value)
        assert_same(event)
        assert_wire_same({"type": "CUSTOM", "name": "n", "value": value}, event)


@keys
def test_as_a_key_of_the_metadata(key: Any) -> None:
    event = end(metadata={key: 1})
    assert_same(event)
    # The model's validator would not have let a key through that is no str, or is not UTF-8.
    if isinstance(key, str) and key != "\ud800":
        wire = {"type": "TEXT_MESSAGE_END", "metadata": {key: 1}, "messageId": "m"}
        assert_wire_same(wire, event)


@keys
def test_as_a_key_of_an_extra(key: Any) -> None:
    event = with_extra(end(), {key: 1})
    assert_same(event)
    assert_wire_same({"type": "TEXT_MESSAGE_END", "messageId": "m", key: 1}, event)


@pytest.mark.parametrize(
    "colliding",
    [
        {1: "int", "1": "str"},
        {"1": "str", "x": 0, 1: "int"},
        {True: "bool", "true": "str"},
        {None: "none", "None": "str"},
        {"red": 1, Color.RED: 2, "blue": 3},
        {"a": 1, Str("b"): 2, StrEnum.A: 3},
        {1.5: 1, "1.5": 2, decimal.Decimal("1.50"): 3, decimal.Decimal("1.5"): 4},
        {float("nan"): 1, "None": 2, None: 3, float("inf"): 4},
        {datetime.date(2026, 1, 2): 1, "2026-01-02": 2},
        {b"x": 1, "x": 2},
    ],
    ids=str,
)
def test_keys_that_become_the_same(colliding: dict[Any, Any]) -> None:
    for value in (colliding, [{"deep": {"inner": colliding}}], {"set": {1}, **colliding}):
        event = custom(value)
        assert_same(event)
        assert_wire_same({"type": "CUSTOM", "name": "n", "value": value}, event)
    assert_wire_same(
        {"type": "TEXT_MESSAGE_END", "messageId": "m", "foo": colliding},
        with_extra(end(), {"foo": colliding}),
    )


def test_a_generator_is_read_once() -> None:
    def numbers() -> Iterator[Any]:
        yield 1
        yield {"a": None}

    expected = official_text(custom(numbers()))
    assert ENCODER.encode(custom(numbers())) == expected
    assert ENCODER.encode({"type": "CUSTOM", "name": "n", "value": numbers()}) == expected
    both = [object.__new__(Point), numbers()]
    both[0].__dict__.update(x=numbers())
    expected = official_text(custom([Point(numbers()), numbers()]))
    assert ENCODER.encode(custom([Point(numbers()), numbers()])) == expected


@pytest.mark.parametrize("limit", [0, 640])
def test_integers_whatever_python_agrees_to_print(limit: int) -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for number in (10**639, 10**640, -(10**640), 10**5000):
            for value in (number, {number: 1}, [Int(number)]):
                assert_same(custom(value))
                assert_wire_same({"type": "CUSTOM", "name": "n", "value": value}, custom(value))
    finally:
        sys.set_int_max_str_digits(before)


JSON_VALUES = [
    "none",
    "true",
    "i64 max",
    "above i64",
    "big",
    "1e16",
    "1e-7",
    "nan",
    "controls",
    "latin-1",
    "astral",
    "tuple",
    "enum",
    "sdk message",
    "sdk event",
    "the same twice",
]


@pytest.mark.parametrize("name", JSON_VALUES)
def test_what_is_common_is_written_natively(name: str) -> None:
    for value in (VALUES[name], [VALUES[name]], {"k": {"l": VALUES[name]}}, {1: VALUES[name]}):
        if name == "enum":  # Its value is a property, and so a Python call.
            continue
        assert_fast(custom(value))
        assert_fast({"type": "CUSTOM", "name": "n", "value": value})
