"""Random events: valid by the SDK's models, and as odd inside as the protocol allows."""

from __future__ import annotations

import random
import types
import typing
from typing import Any, Literal, Union

from ag_ui.core.events import Event
from pydantic import BaseModel
from pydantic.fields import FieldInfo

SAFE = 2**53 - 1
TEXTS = [
    "", "a", "Hello, world", 'quotes " and \\ and /', "line\nbreak\ttab\r", "\x00\x01\x1f\x7f",
    "caf\u00e9", "\u00ff\u0100", "\u20ac\u2028\u0085", "\ufffd\uffff", "\U0001f378", "x" * 130,
    "\u00e9" * 70, "0", "null",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, 1, -1, 7, 255, SAFE, -SAFE, 2**53, 2**60, -(2**63), 2**70, 0.5, -0.0, 1.5e300, 5e-324,
    1e16, 1e-7, 123456.789, 0.1, 1e21,
]  # fmt: skip

EVENT_CLASSES: tuple[type[BaseModel], ...] = typing.get_args(typing.get_args(Event)[0])


class Maker:
    """Makes events of one seed.

    Args:
        seed: The same seed makes the same events.
        integer_keys: Also make keys like "7" in payloads. JavaScript moves them to the front.
    """

    def __init__(self, seed: int, *, integer_keys: bool = True) -> None:
        self.random = random.Random(seed)
        self.integer_keys = integer_keys

    def event(self, cls: type[BaseModel] | None = None) -> dict[str, Any]:
        """A wire dict, of a random type if none is given."""
        return self.model(cls or self.random.choice(EVENT_CLASSES))

    def model(self, cls: type[BaseModel]) -> dict[str, Any]:
        made = {}
        for name, field in cls.model_fields.items():
            tag = name in ("type", "role", "op") and not field.is_required()
            if tag and field.default is not None:
                made[field.alias or name] = getattr(field.default, "value", field.default)
            elif field.is_required() or self.random.random() < 0.4:
                key = field.alias or name
                value = self.value(field.annotation, field)
                if value is not None or field.is_required():
                    made[key] = value
        return made

    def value(self, kind: Any, field: FieldInfo | None = None) -> Any:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            annotations = arguments[1:]
            if any(getattr(it, "pattern", None) or "pattern" in repr(it) for it in annotations):
                return self.pointer()
            return self.value(arguments[0])
        if field is not None and "pattern" in repr(field.metadata):
            return self.pointer()
        if origin in (Union, types.UnionType):
            kinds = [it for it in arguments if it is not type(None)]
            return self.value(self.random.choice(kinds), field)
        if origin is Literal:
            choice = self.random.choice(arguments)
            return getattr(choice, "value", choice)
        if origin in (list, typing.List):  # noqa: UP006
            least = field is not None and "min_length" in repr(field.metadata)
            return [self.value(arguments[0]) for _ in range(max(self.length(), least))]
        if origin in (dict, typing.Dict):  # noqa: UP006
            return self.object(3)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.model(kind)
        if kind is bool:
            return self.random.random() < 0.5
        if kind is int:
            usage = field is not None and "ge=0" in repr(field.metadata)
            return self.random.choice(
                [0, 1, 127, 128, 1 << 31, SAFE, *([] if usage else [-1, -SAFE])]
            )
        if kind is str:
            return self.text()
        assert kind is Any, kind
        return self.json(3)

    def length(self) -> int:
        return self.random.choice([0, 1, 1, 2, 3, 5])

    def text(self) -> str:
        if self.random.random() < 0.003:
            # A length of three bytes.
            return "\u20ac" * 6000
        return self.random.choice(TEXTS)

    def pointer(self) -> str:
        tokens = ["a", "items", "0", "-", "~0x", "~1y", "\u00e9", ""]
        return "".join("/" + self.random.choice(tokens) for _ in range(self.length()))

    def key(self) -> str:
        keys = [*TEXTS[:-3], "id", "user_id", "messageId", "__class__", "constructor"]
        if self.integer_keys:
            keys += ["0", "7", "12"]
        return self.random.choice(keys)

    def object(self, depth: int) -> dict[str, Any]:
        return {self.key(): self.json(depth - 1) for _ in range(self.length())}

    def json(self, depth: int) -> Any:
        kinds = ["text", "number", "constant", "object", "list"]
        match self.random.choice(kinds if depth > 0 else kinds[:3]):
            case "text":
                return self.text()
            case "number":
                return self.random.choice(NUMBERS)
            case "constant":
                return self.random.choice([None, True, False])
            case "object":
                return self.object(depth)
            case _:
                return [self.json(depth - 1) for _ in range(self.length())]


def events(seed: int, count: int, *, integer_keys: bool = True) -> list[dict[str, Any]]:
    """So many events, of every type in turn."""
    maker = Maker(seed, integer_keys=integer_keys)
    return [maker.event(EVENT_CLASSES[at % len(EVENT_CLASSES)]) for at in range(count)]
