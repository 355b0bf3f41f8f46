"""Every event model and wire dict, derived from the SDK's own classes.

`variants` enumerates: each class with its required fields alone, with each optional field in each
of its forms, with all. The hypothesis strategies draw from the same shapes with open values.
"""

import collections
import dataclasses
import datetime
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ag_ui.core import Event, EventType, TextPart, UserMessage
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

# --- the classes -------------------------------------------------------------------------------


def union_members(annotation: Any) -> tuple[type[BaseModel], ...]:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_args(annotation)


EVENT_CLASSES: tuple[type[BaseModel], ...] = union_members(Event)


def is_optional(field: FieldInfo) -> bool:
    return not field.is_required() and field.default is None


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def without_none(annotation: Any) -> Any:
    """The X of `Optional[X]`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if is_union(annotation):
        rest = tuple(part for part in get_args(annotation) if part is not type(None))
        return without_none(rest[0]) if len(rest) == 1 else Union[rest]  # noqa: UP007
    return annotation


def given(name: str, field: FieldInfo) -> str:
    """The key by which `model_validate` takes the field, whatever its configuration."""
    return field.alias or name


# --- enumeration -------------------------------------------------------------------------------

PAYLOAD = {
    "user_id": 1,
    "none": None,
    "list": [None, True, 1.5, "é"],
    "rawEvent": {"": []},
}


@functools.cache
def _examples(annotation: Any, pattern: bool) -> tuple[Any, ...]:
    annotation = without_none(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if is_union(annotation):
        return tuple(value for part in args for value in _examples(part, pattern))
    if origin is Literal:
        return args
    if origin is list:
        items = _examples(args[0], False)
        one_of_each = list({type(item): item for item in items}.values())
        return ([], *([item] for item in items), one_of_each)
    if origin is dict:
        return ({}, PAYLOAD, {"key": None})
    if annotation is Any:
        return (None, False, 0, "", [], {}, PAYLOAD)
    if annotation is str:
        return ("", "/a~1b/0") if pattern else ("", 'text "q" \\ \n\x00 é 漢 😀')
    if annotation is bool:
        return (False, True)
    if annotation is int:
        return (0, 2**53 - 1)
    if is_model(annotation):
        return variants(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(annotation)
    raise TypeError(f"no examples for {annotation!r}")


def field_examples(field: FieldInfo) -> tuple[Any, ...]:
    pattern = any(getattr(part, "pattern", None) for part in field.metadata)
    values = _examples(field.annotation, pattern)
    if any(getattr(part, "min_length", 0) for part in field.metadata):
        values = tuple(value for value in values if value)
    return values


@functools.cache
def variants(cls: type[BaseModel]) -> tuple[BaseModel, ...]:
    """Instances of the class in which each field takes each form that it has."""
    return tuple(_variants(cls))


def _variants(cls: type[BaseModel]) -> Iterator[BaseModel]:
    fields = cls.model_fields
    minimal = {given(n, f): field_examples(f)[-1] for n, f in fields.items() if f.is_required()}
    yield cls.model_validate(minimal)
    everything = {given(n, f): field_examples(f)[-1] for n, f in fields.items()}
    yield cls.model_validate(everything)
    yield cls.model_validate({**everything, "vendorField": PAYLOAD, "snake_extra": None})
    for name, field in fields.items():
        for value in field_examples(field):
            yield cls.model_validate({**minimal, given(name, field): value})
        if is_optional(field):
            yield cls.model_validate({**minimal, given(name, field): None})


def to_wire(
    value: Any,
    spell: Callable[[str, FieldInfo], str] = given,
    keep_none: Callable[[], bool] = lambda: False,
) -> Any:
    """The wire dict of a model: fields in class order, then extras; payloads as they are."""
    if isinstance(value, list):
        return [to_wire(item, spell, keep_none) for item in value]
    if not isinstance(value, BaseModel):
        return value
    wire = {}
    for name, field in type(value).model_fields.items():
        inner = value.__dict__[name]
        if inner is None and is_optional(field) and not keep_none():
            continue
        payload = without_none(field.annotation) is Any or get_origin(field.annotation) is dict
        wire[spell(name, field)] = inner if payload else to_wire(inner, spell, keep_none)
    return {**wire, **(value.__pydantic_extra__ or {})}


def camel(name: str, field: FieldInfo) -> str:
    return field.alias or name


def snake(name: str, field: FieldInfo) -> str:
    return name


# --- values ------------------------------------------------------------------------------------


Color = enum.Enum(
    "Color",
    {"RED": "red", "NONE": None, "NAN": float("nan"), "LIST": [1, None], "DICT": {"k": None}},
)


class StrEnum(str, enum.Enum):
    A = "a"
    B = 'b"\n'


class IntEnum(enum.IntEnum):
    ONE = 1


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Str(str):
    pass


class Int(int):
    pass


class Float(float):
    pass


class List(list):
    pass


class Dict(dict):
    pass


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


class Account(BaseModel):
    """A user's model, with aliases of its own and no omission of None."""

    owner_name: str = "o"
    balance: Any = None


# Text around the lengths at which a vector or word loop ends, with every kind of escape.
_special = st.sampled_from(
    list('"\\\n\r\t\b\f\0\x1f\x7f\x80éÿĀ\u2028\u2029\ud7ff\ue000\ufeff\uffff😀\U0010ffff')
)
texts = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=40),
    st.builds(
        lambda before, middle, after: "a" * before + middle + "b" * after,
        st.integers(0, 34),
        st.lists(_special, max_size=3).map("".join),
        st.integers(0, 34),
    ),
)
integers = st.one_of(st.integers(-10, 10), st.integers(), st.sampled_from([2**63, -(2**63), 2**64]))
floats = st.one_of(
    st.floats(),
    st.integers(-30, 330).map(lambda exponent: float(f"1e{exponent}")),
    st.sampled_from([0.0, -0.0, 1e16, 1e15, 1.5e16, 1e-5, 1e-7, 5e-324, 0.1 + 0.2, 2.0**53]),
)


def _containers(keys: Any) -> Callable[[Any], Any]:
    return lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
    )


json_leaves = st.one_of(st.none(), st.booleans(), integers, floats, texts)
json_values = st.recursive(json_leaves, _containers(texts), max_leaves=8)

_moments = st.one_of(
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.timezone.utc)),
    st.datetimes(timezones=st.timezones()),
    st.dates(),
    st.times(),
    st.timedeltas(),
)
python_leaves = st.one_of(
    json_leaves,
    _moments,
    st.decimals(),
    st.uuids(),
    st.binary(max_size=4),
    texts.map(str.encode),
    texts.map(Str),
    integers.map(Int),
    floats.map(Float),
    st.sampled_from([*Color, *StrEnum, *IntEnum, *Flag, EventType.RAW]),
    st.sampled_from([object(), len, int, 1j, ...]),
)
python_keys = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    integers,
    floats,
    _moments,
    st.decimals(allow_nan=False),
    st.uuids(),
    texts.map(Str),
    st.sampled_from(["1", "None", "true", "red", StrEnum.A, IntEnum.ONE, Color.RED, (1, "a")]),
)
python_values = st.recursive(
    python_leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(List),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(python_keys, inner, max_size=4),
        st.dictionaries(texts, inner, max_size=3).map(Dict),
        st.dictionaries(texts, inner, max_size=3).map(collections.OrderedDict),
        st.builds(Pair, inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Account, balance=inner),
        st.builds(lambda value: TextPart(text="t", metadata=value), inner),
        st.builds(lambda value: UserMessage(id="u", content="c", metadata={"k": value}), inner),
    ),
    max_leaves=8,
)


# --- models and dicts --------------------------------------------------------------------------

_pointers = st.lists(
    st.text(max_size=4).map(lambda part: part.replace("~", "~0").replace("/", "~1")),
    max_size=3,
).map(lambda parts: "".join("/" + part for part in parts))


def fields_of(annotation: Any, values: Any, metadata: Any = ()) -> Any:
    annotation = without_none(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if is_union(annotation):
        return st.one_of(*(fields_of(part, values) for part in args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is list:
        low = max((getattr(part, "min_length", 0) or 0 for part in metadata), default=0)
        return st.lists(fields_of(args[0], values), min_size=low, max_size=3)
    if origin is dict:
        return st.dictionaries(texts, values, max_size=3)
    if annotation is Any:
        return values
    if annotation is str:
        return _pointers if any(getattr(part, "pattern", None) for part in metadata) else texts
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        low = next(part.ge for part in metadata if hasattr(part, "ge"))
        high = next(part.le for part in metadata if hasattr(part, "le"))
        return st.integers(low, high)
    if is_model(annotation):
        return models(annotation, values)
    raise TypeError(f"no strategy for {annotation!r}")


_extra_names = st.one_of(
    texts.filter(bool),
    # Names that mean something elsewhere in the protocol, or to Python.
    st.sampled_from(["foo", "x_y", "encryptedValueType", "self", "__class__", "model_config"]),
)


def extras_of(cls: type[BaseModel], values: Any) -> Any:
    taken = {key for name, field in cls.model_fields.items() for key in (name, field.alias)}
    names = _extra_names.filter(lambda name: name not in taken)
    return st.one_of(st.just({}), st.dictionaries(names, values, max_size=2))


@functools.cache
def _models(cls: type[BaseModel], values: Any) -> Any:
    required, optional = {}, {}
    for name, field in cls.model_fields.items():
        strategy = fields_of(field.annotation, values, field.metadata)
        if is_optional(field):
            optional[given(name, field)] = st.one_of(st.none(), strategy)
        elif field.is_required():
            required[given(name, field)] = strategy
    known = st.fixed_dictionaries(required, optional=optional)
    return st.builds(
        lambda known, extra: cls.model_validate({**known, **extra}),
        known,
        extras_of(cls, values),
    )


def models(cls: type[BaseModel], values: Any = json_values) -> Any:
    """Instances of the class: any of the optional fields given, absent or None, and extras."""
    return st.deferred(lambda: _models(cls, values))


@st.composite
def wires(draw: Any, cls: type[BaseModel], values: Any = json_values) -> Any:
    """A model and its wire dict, each key in either spelling, absent fields sometimes None."""
    model = draw(models(cls, values))
    choices = draw(st.randoms(use_true_random=False))
    wire = to_wire(
        model,
        spell=lambda name, field: choices.choice([camel, camel, snake])(name, field),
        keep_none=lambda: choices.random() < 0.3,
    )
    if choices.random() < 0.5:
        wire["type"] = wire["type"].value
    return model, wire
