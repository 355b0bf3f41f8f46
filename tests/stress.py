"""A random stress of the whole public API by objects that misbehave while they are read.

    python tests/stress.py --seconds 60 --seed 1 --threads 1

A case makes an event, a stream, a document or bytes, plants traps in it (values, keys, classes and
callbacks that run Python code when they are looked at), and calls something of `agui_codec`. A trap
changes, empties or lets go of what is being read, raises, collects garbage, changes classes, or
calls the same object again. A case may end in a value, an AGUIError, a TypeError or ValueError, or
in what a trap raised; never in any other exception, a crash or a hang; and then simple events are
encoded as ever. With more than one thread, cases also share objects, and change those of others.

The cases of one seed are always the same (with one thread). Run it under AddressSanitizer, or with
`PYTHONMALLOC=debug`, so that reading freed memory is seen. On failure it prints the seed and the
last cases; `--case N` runs one alone, `--until N` all before it, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import datetime
import decimal
import enum
import gc
import json
import logging
import mmap
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ag_ui.core
import ag_ui.encoder
import pydantic

with warnings.catch_warnings():
    # A build with debug assertions says that it is slow.
    warnings.simplefilter("ignore")
    import agui_codec
from agui_codec import _native, proto
from agui_codec.history import EventHistory, SQLiteStore
from random_events import EVENT_CLASSES, Maker
from sanitized import SMALL_STACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SSE = "text/event-stream"
PROTOBUF = "application/vnd.ag-ui.event+proto"
CONTENT_TYPES = (SSE, PROTOBUF, "application/x-ndjson")
CLASSES = {cls.model_fields["type"].default.value: cls for cls in EVENT_CLASSES}


class Prank(Exception):
    """What traps raise."""


# --- traps -------------------------------------------------------------------------------------

_here = threading.local()


def trap() -> None:
    """Do something to what is being read, if a case is running and has not done enough."""
    world: World | None = getattr(_here, "world", None)
    if world is None or not world.armed or world.pranks <= 0:
        return
    world.pranks -= 1
    world.prank()


def _profile(*_: Any) -> None:
    """Outlives its use and does not raise: Python 3.11 calls freed memory otherwise."""
    world: World | None = getattr(_here, "world", None)
    if world is not None and world.chance(0.1):
        with contextlib.suppress(Exception):
            trap()


def trapped(base: type, *methods: str, lies: float = 0.1) -> type:
    """A subclass, some of whose methods are traps, and sometimes give what they must not."""

    def method(name: str) -> Any:
        original = getattr(base, name, lambda self: True)

        def call(self: Any, *args: Any) -> Any:
            trap()
            world = getattr(_here, "world", None)
            if world is not None and world.armed and world.random.random() < lies:
                answers = [True, False] if name == "__eq__" else LIES
                return world.random.choice(answers)
            return original(self, *args)

        return call

    made = {name: method(name) for name in methods}
    if "__eq__" in made and "__hash__" not in made:
        made["__hash__"] = base.__hash__
    return type(f"Trap{base.__name__.title()}", (base,), made)


LIES = [None, True, False, 0, -1, 5, "", "x", NotImplemented]


class Thing:
    """An object of no known class."""

    def __init__(self, *holds: Any) -> None:
        self.holds = holds


def _dies(self: Any) -> None:
    trap()


COMPARED = ("__eq__", "__ne__", "__lt__", "__hash__", "__repr__", "__str__", "__format__")
TrapStr = trapped(str, *COMPARED, "encode", "__len__", "__iter__", "__getitem__", "startswith")
# Found by dicts: only what is asked when it is compared or shown.
TrapKey = trapped(str, "__eq__", "__repr__", "__str__", lies=0.3)
TrapInt = trapped(int, *COMPARED, "__index__", "__int__", "__float__", "__bool__")
TrapFloat = trapped(float, *COMPARED, "__float__", "__int__", "__bool__", "is_integer")
TrapDict = trapped(
    dict, "__iter__", "keys", "items", "values", "get", "copy", "__len__", "__getitem__",
    "__contains__", "__eq__", "__repr__", "__bool__", "pop", "update", "__setitem__",
)  # fmt: skip
TrapList = trapped(
    list, "__iter__", "__len__", "__getitem__", "__eq__", "__repr__", "copy", "append", "__bool__",
)  # fmt: skip
TrapTuple = trapped(tuple, "__iter__", "__len__", "__getitem__", "__eq__", "__hash__", "__repr__")
TrapThing = trapped(Thing, "__eq__", "__hash__", "__repr__", "__str__", "__bool__")
TrapThing.__getattr__ = lambda self, name: (trap(), object.__getattribute__(self, name))[1]
Dying = type("Dying", (Thing,), {"__del__": _dies})
DyingStr = type("DyingStr", (str,), {"__del__": _dies})
DyingDict = type("DyingDict", (dict,), {"__del__": _dies})


class Fickle(enum.Enum):
    """Members whose value is a property."""

    A = "a"
    B = "b"

    @property
    def value(self) -> Any:
        trap()
        return [1, {"k": "v"}, "é", None][getattr(_here, "turn", 0) % 4]


class FickleStr(str, enum.Enum):
    A = "a"

    def __str__(self) -> str:
        trap()
        return "a"

    __repr__ = __str__


def subclass(cls: type) -> type:
    """A subclass of an event class with a trap in what pydantic or the codec may call."""
    text = next((n for n, f in cls.model_fields.items() if f.annotation is str), None)

    class Sub(cls):  # type: ignore[misc,valid-type]
        more: Any = None

        @classmethod
        def _omittable_keys(cls) -> Any:
            trap()
            return super()._omittable_keys()

        if text is not None:

            @pydantic.field_serializer(text, check_fields=False)
            def _trap(self, value: Any) -> Any:
                trap()
                return value

    return Sub


SUBCLASSES = [subclass(cls) for cls in EVENT_CLASSES[::3]]
PLAIN_SUBCLASSES = [type("Plain", (cls,), {"__module__": __name__}) for cls in EVENT_CLASSES[:6]]
MODELS = [
    cls for cls in vars(ag_ui.core).values()
    if isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)
]  # fmt: skip
LEAVES: list[Callable[[random.Random], Any]] = [
    lambda r: TrapStr(r.choice(["", "a", "é", "\ud800", "x" * 200])),
    lambda r: TrapStr(r.choice(["success", "interrupt", "text", "user", "add", "string"])),
    lambda r: TrapInt(r.choice([0, 1, -1, 2**53, 2**70])),
    lambda r: TrapFloat(r.choice([0.5, 1.0, float("nan")])),
    lambda r: TrapThing(),
    lambda r: Dying([0] * r.randrange(9)),
    lambda r: DyingStr("d" * r.randrange(90)),
    lambda r: DyingDict(a=Dying()),
    lambda r: r.choice(list(Fickle)),
    lambda r: FickleStr.A,
    lambda r: r.choice([float("nan"), float("inf"), -float("inf"), 10**400, -(2**70), 2**53 + 1]),
    lambda r: r.choice(["\ud800", "a\udfffb", "\U0001f378" * 50, "\x00", "x" * 70_000]),
    lambda r: r.choice([b"x", b"\xff", {1}, {"a", "b"}, (1, "a"), ..., 1j, object(), int, None]),
    lambda r: r.choice([decimal.Decimal("1.5"), datetime.datetime.now(), Path("p"), 5, True]),
    lambda r: TrapTuple([Dying(), 1, "a"]),
    lambda r: {TrapKey("a"): Dying(), "b": [Dying()], 5: 1, None: 2, (1,): 3},
    lambda r: ag_ui.core.TextPart.model_construct(text=TrapStr("t"), metadata={"k": Dying()}),
    lambda r: (item for item in [1, Dying()]),
    lambda r: range(3),
]


# --- a case ------------------------------------------------------------------------------------


class World:
    """One case: its choices, what its traps may change, and what they may call again."""

    def __init__(self, seed: str, shared: Shared) -> None:
        self.random = random.Random(seed)
        self.maker = Maker(self.random.randrange(1 << 62))
        self.shared = shared
        self.containers: list[Any] = []
        # What the call at hand was given.
        self.given: list[Any] = []
        self.again: list[Callable[[], Any]] = []
        self.armed = False
        self.pranks = self.random.choice([0, 1, 3, 10, 30])
        self.rate = self.random.choice([0, 0.03, 0.1, 0.3])
        # Only some: where each key or value is a trap, the first ends it.
        self.kinds = self.random.sample(LEAVES, self.random.randint(1, 4))
        families = ["text", "text", "key", "leaf", "leaf", "container", "extra"]
        self.families = set(self.random.sample(families, self.random.choice([1, 1, 2, 3])))
        self.raising = self.random.random() < 0.3
        self.faults: list[str] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # -- pranks --

    def prank(self) -> None:
        r = self.random
        for _ in range(r.choice([1, 1, 1, 2, 4])):
            chosen = r.random()
            if chosen < 0.55:
                # Of a copy: `choice` never ends if the collector's callback empties its list.
                within = [*(self.given if self.given and r.random() < 0.5 else self.containers)]
                if within:
                    self.hurt(r.choice(within))
            elif chosen < 0.65:
                again = [*self.again]
                if again and self.pranks > 0:
                    self.pranks -= 3
                    self.judged(r.choice(again))
            elif chosen < 0.72:
                gc.collect()
            elif chosen < 0.80:
                _junk(r)
            elif chosen < 0.86 and self.raising:
                raise Prank("on purpose")
            elif chosen < 0.92:
                self.touch_class()
            elif chosen < 0.96:
                self.containers.clear()
                self.given.clear()
                self.again.clear()
            else:
                time.sleep(0)

    def hurt(self, it: Any) -> None:
        """Change a container, as any Python code could."""
        try:
            if isinstance(it, dict):
                self._hurt_dict(it)
            elif isinstance(it, list):
                self._hurt_list(it)
            elif isinstance(it, bytearray):
                it.clear() if self.chance(0.5) else it.extend(b"x" * 5000)
            elif isinstance(it, pydantic.BaseModel):
                self._hurt_model(it)
        except Prank:
            raise
        except Exception:
            # Another thread, or a lie of a trap, was in between.
            pass
        _junk(self.random)

    def _hurt_dict(self, it: dict[Any, Any]) -> None:
        r, key = self.random, None
        if it and r.random() < 0.8:
            key = r.choice(list(dict.keys(it)))
        match r.randrange(9):
            case 0 | 8:
                dict.clear(it)
            case 1:
                dict.pop(it, key, None)
            case 2 | 3:
                dict.__setitem__(it, key if key is not None else "new", self.small())
            case 4:
                dict.update(it, {f"more{n}": n for n in range(r.choice([1, 9, 200]))})
            case 5:
                value = dict.pop(it, key, None)
                dict.__setitem__(it, key if isinstance(key, str) else "back", value)
            case 6:
                items = list(dict.items(it))
                dict.clear(it)
                dict.update(it, items[::-1])
            case _:
                dict.__setitem__(it, r.choice(["type", "delta", "messageId", "role"]), self.small())

    def _hurt_list(self, it: list[Any]) -> None:
        r = self.random
        match r.randrange(7):
            case 0:
                list.clear(it)
            case 1:
                list.pop(it)
            case 2:
                it[r.randrange(len(it))] = self.small()
            case 3:
                list.extend(it, range(r.choice([1, 9, 200])))
            case 4:
                it[:] = [self.small()]
            case 5:
                list.insert(it, 0, self.small())
            case _:
                list.reverse(it)

    def _hurt_model(self, it: pydantic.BaseModel) -> None:
        r, fields = self.random, it.__dict__
        name = r.choice(list(fields)) if fields else "x"
        match r.randrange(9):
            case 0:
                object.__delattr__(it, name)
            case 1 | 2:
                object.__setattr__(it, name, self.small())
            case 3:
                object.__setattr__(it, "__dict__", {"type": "RAW", "a": 1})
            case 4:
                fields.clear()
            case 5:
                it.__pydantic_extra__ = r.choice([None, {}, {"late": 1}, {5: 5}, []])
            case 6:
                del it.__pydantic_fields_set__
            case 7:
                it.__class__ = r.choice([type(it), *EVENT_CLASSES, *SUBCLASSES])
            case _:
                setattr(it, name, self.small())

    def touch_class(self) -> None:
        """Change an attribute of a class."""
        cls: Any = self.random.choice(EVENT_CLASSES)
        cls.marker = 1
        with contextlib.suppress(AttributeError):
            del cls.marker

    # -- objects --

    def small(self) -> Any:
        return self.random.choice([None, 1, "s", "RAW", [], {}, [1], {"k": "v"}, Dying(), 1.5])

    def plant(self, value: Any, top: bool = True) -> Any:
        """The value with traps in it. All containers in it can be changed from then on."""
        r = self.random
        if not top and self.hits("leaf"):
            return r.choice(self.kinds)(r)
        if isinstance(value, dict):
            made: Any = TrapDict() if self.hits("container") else {}
            for key, inner in value.items():
                # A text that nobody else holds is freed with the dict.
                key = key[:1] + key[1:] if r.random() < 0.7 else key
                if self.hits("key"):
                    key = r.choice([TrapKey, TrapKey, DyingStr, TrapStr])(key)
                kept = top and key == "type" and r.random() < 0.8
                dict.__setitem__(made, key, inner if kept else self.plant(inner, False))
            if self.hits("extra"):
                dict.__setitem__(made, r.choice(["extra", "user_id", 5]), r.choice(self.kinds)(r))
        elif isinstance(value, list):
            made = [self.plant(inner, False) for inner in value]
            if self.hits("container"):
                made = TrapList(made)
            if self.hits("extra"):
                made.append(r.choice([made, *(kind(r) for kind in self.kinds)]))
        elif isinstance(value, str):
            if self.hits("text"):
                if r.random() < 0.3:
                    # As a tag, one that nobody knows.
                    return TrapStr("nope")
                return r.choice([TrapStr, TrapStr, TrapKey, DyingStr])(value)
            return value[:1] + value[1:]
        elif type(value) is int and self.hits("text"):
            return TrapInt(value)
        else:
            return value
        self.containers.append(made)
        return made

    def hits(self, family: str) -> bool:
        """Whether to plant a trap of this family here."""
        return family in self.families and self.random.random() < self.rate

    def wire(self, kind: str | None = None) -> dict[str, Any]:
        """A valid wire dict, whose ids are a few, so that events of a stream have to do with each
        other."""
        made = self.maker.event(CLASSES[kind] if kind else None)
        for key in made.keys() & {
            "messageId", "toolCallId", "parentMessageId", "subagentRunId", "id", "entityId",
        }:  # fmt: skip
            made[key] = self.random.choice(["m", "m", "n", "o"])
        for key in made.keys() & {"threadId", "runId"}:
            made[key] = key[0]
        return made

    def event(self, kind: str | None = None) -> Any:
        """An event with traps, as a dict or a model."""
        return self.form(self.wire(kind))

    def form(self, wire: dict[str, Any]) -> Any:
        r = self.random
        chosen = r.random()
        if chosen < 0.5:
            return self.plant(wire)
        cls: Any = CLASSES.get(wire.get("type", ""), ag_ui.core.RawEvent)
        for other in SUBCLASSES + PLAIN_SUBCLASSES:
            if issubclass(other, cls) and r.random() < 0.2:
                cls = other
        try:
            event = cls.model_validate(copy.deepcopy(wire))
        except ValueError:
            event = cls.model_construct(**wire)
        if chosen < 0.9:
            for name, value in list(event.__dict__.items()):
                event.__dict__[name] = self.plant(value)
            if event.__pydantic_extra__:
                self.containers.append(event.__pydantic_extra__)
            self.containers += [event, event.__dict__]
        if chosen > 0.97:
            return r.choice([Thing(), None, 5, "text", cls, [], TrapThing(), event.__dict__])
        return event

    def stream(self) -> list[Any]:
        """Events that mostly follow each other as they may, with traps in some."""
        r = self.random
        wires: list[dict[str, Any]] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
        for _ in range(r.randint(0, 6)):
            key, name = "messageId", r.choice(["m", "n"])
            match r.randrange(6):
                case 0 | 1:
                    kind, middle, more = "TEXT_MESSAGE", "CONTENT", {"role": "assistant"}
                case 2:
                    kind, middle, more = "REASONING_MESSAGE", "CONTENT", {"role": "reasoning"}
                case 3:
                    kind, middle, more, key = (
                        "TOOL_CALL",
                        "ARGS",
                        {"toolCallName": "f"},
                        "toolCallId",
                    )
                case 4:
                    kind = r.choice(["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "STATE_DELTA"])
                    wires.append(self.wire(kind))
                    continue
                case _:
                    wires.append(self.wire())
                    continue
            wires.append({"type": f"{kind}_START", key: name, **more})
            count = r.choice([1, 2, 3, 40])
            wires += [
                {"type": f"{kind}_{middle}", key: name, "delta": f"d{n}"} for n in range(count)
            ]
            if r.random() < 0.3:
                wires.insert(-1, self.wire())
            if r.random() < 0.9:
                wires.append({"type": f"{kind}_END", key: name})
        if r.random() < 0.7:
            end = self.wire("RUN_FINISHED") if r.random() < 0.6 else {"type": "RUN_FINISHED"}
            wires.append({**end, "threadId": "t", "runId": "r"})
        if r.random() < 0.1:
            r.shuffle(wires)
        as_models, rate = r.random() < 0.5, self.rate
        events = []
        for wire in wires:
            self.rate = rate if r.random() < 0.4 else 0
            if as_models and not self.rate:
                with contextlib.suppress(ValueError):
                    events.append(CLASSES[wire["type"]].model_validate(wire))
                    continue
            events.append(self.form(wire) if self.rate else wire)
        self.rate = rate
        self.containers.append(events)
        return events

    def iterable(self, items: list[Any]) -> Any:
        """The items, in one of the forms in which they may be given."""

        def walk() -> Iterator[Any]:
            for item in items:
                trap()
                yield item

        match self.random.randrange(4):
            case 0 | 1:
                return items
            case 2:
                return walk()
            case _:
                return TrapList(items) if self.chance(0.5) else tuple(items)

    def bytes(self, content_type: str) -> bytes:
        """A stream of bytes: that of some events, now and then damaged."""
        encoder = agui_codec.EventEncoder(content_type)
        r, data = self.random, bytearray()
        for _ in range(r.randint(0, 5)):
            wire = self.wire()
            with contextlib.suppress(ValueError):
                if content_type == CONTENT_TYPES[2]:
                    data += agui_codec.to_json(wire) + b"\n"
                else:
                    data += encoder.encode_binary(wire)
        for _ in range(r.choice([0, 0, 1, 2, 10])):
            at = r.randrange(len(data) + 1)
            match r.randrange(5):
                case 0:
                    data[at : at + 1] = bytes([r.randrange(256)])
                case 1:
                    del data[at : at + r.randrange(20)]
                case 2:
                    data[at:at] = r.randbytes(r.randrange(9))
                case 3:
                    data[at:at] = r.choice(
                        [b"data: ", b"\n\n", b"\r", b"[" * 300, b'{"a":' * 260, b"NaN", b"1e999",
                         b'"\\ud800"', b"data: [DONE]\n\n", b"\xed\xa0\x80", b"9" * 5000]
                    )  # fmt: skip
                case _:
                    del data[at:]
        return bytes(data)

    def pieces(self, data: bytes) -> Iterator[Any]:
        r, at = self.random, 0
        while at < len(data):
            size = r.choice([1, 2, 7, 50, 5000])
            piece = data[at : at + size]
            at += size
            match r.randrange(4):
                case 0:
                    again = bytearray(piece)
                    self.containers.append(again)
                    yield again
                case 1:
                    yield memoryview(piece)
                case _:
                    yield piece

    def hook(self, *answers: Any) -> Any:
        """A callback that is a trap; None now and then."""
        if self.chance(0.3):
            return None

        def call(*_args: Any) -> Any:
            trap()
            return self.random.choice(answers) if answers else None

        return call

    def document(self) -> Any:
        r = self.random
        document = {"a": {"b": [1, 2, {"c": 3}], "d": "x"}, "list": [0, 1, 2], "n": None}
        document[self.maker.key()] = self.maker.json(3)
        if r.random() < 0.2:
            document["long"] = [{"id": n, "text": f"t{n}"} for n in range(40)]
        return self.plant(document)

    def pointer(self, document: Any) -> str:
        path = ""
        with contextlib.suppress(IndexError):
            # Another thread may have emptied what was not empty.
            path = self._pointer(document)
        return path

    def _pointer(self, document: Any) -> str:
        r, path = self.random, ""
        while True:
            if isinstance(document, dict) and document and r.random() < 0.8:
                key = r.choice(list(dict.keys(document)))
                document = dict.get(document, key)
                path += (
                    "/" + str.__str__(key).replace("~", "~0").replace("/", "~1")
                    if isinstance(key, str)
                    else "/5"
                )
            elif isinstance(document, list) and document and r.random() < 0.8:
                index = r.randrange(len(document))
                document = list.__getitem__(document, index)
                path += f"/{index}"
            else:
                return path + r.choice(["", "", "/new", "/-", "/0", "/a"])
            if r.random() < 0.4 or len(path) > 200:
                return path

    def patch(self, document: Any) -> Any:
        operations = []
        for _ in range(self.random.choice([1, 2, 3, 8])):
            op = self.random.choice(["add", "remove", "replace", "move", "copy", "test"])
            operation = {"op": op, "path": self.pointer(document)}
            if op in ("move", "copy"):
                operation["from"] = self.pointer(document)
            elif op != "remove":
                operation["value"] = self.maker.json(2)
            operations.append(operation)
        if self.chance(0.3):
            # Which fails, and all has to be taken back.
            operations.append({"op": "test", "path": "", "value": 5})
        return operations if self.chance(0.7) else self.plant(operations)

    # -- running --

    def judged(self, call: Callable[[], Any]) -> Any:
        """What the call gives; None if it raises what it may. Anything else is a fault."""
        try:
            return call()
        except (agui_codec.AGUIError, TypeError, ValueError, Prank, StopIteration):
            return None
        except BaseException as error:
            if type(error).__name__ == "ConcurrentUseError" or _of_python(error):
                return None
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            last = traceback.format_exception(error)
            self.faults.append(f"{type(error).__name__}: {error}\n{''.join(last[-12:])}")
            return None

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call it with the traps armed; traps can call it again."""
        self.again.append(lambda: function(*args, **kwargs))
        self.given = [it for it in args if isinstance(it, (dict, list, pydantic.BaseModel))]
        self.armed = True
        try:
            return self.judged(lambda: function(*args, **kwargs))
        finally:
            self.armed = False

    def loop(self, function: Callable[[], Any]) -> Any:
        """Call what is asynchronous."""
        self.armed = True
        try:
            return self.judged(lambda: asyncio.run(function()))
        finally:
            self.armed = False


def _of_python(error: BaseException) -> bool:
    """Whether Python or pydantic raised it for what a trap has changed: the same without us."""
    if isinstance(error, RecursionError):
        return True
    texts = ("changed size during iteration", "changed during iteration", "mutated during")
    if isinstance(error, RuntimeError) and any(text in str(error) for text in texts):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if type(error).__name__ == "PanicException":
        # Of pydantic's own Rust, where another thread adds a key to a dict that it walks over.
        places = ("/pydantic/", "/ag_ui/")
        return "changed size" in str(error) and any(it in frames[-1].filename for it in places)
    if isinstance(error, (AttributeError, KeyError, IndexError)) and frames:
        # From code of the SDK, of pydantic or of the standard library, or a method of a trap, whose
        # container is no longer what it was.
        last = frames[-1]
        if last.filename == __file__:
            # The official encoder asks a trap, which is no model, for its `model_dump_json`.
            official = len(frames) > 1 and "/ag_ui/" in frames[-2].filename
            return official or (last.line or "").startswith("return original(")
        return "agui_codec" not in last.filename
    # Of arguments: the operation `anything` gives any.
    return isinstance(error, OverflowError)


def _junk(r: random.Random) -> None:
    """Objects of many sizes, which take the memory of those that were just freed."""
    [bytearray(b"J" * r.choice([24, 48, 56, 64, 96, 128, 200, 400])) for _ in range(8)]
    [{"junk": n} for n in range(4)]
    ["j" * n for n in range(30, 40)]


# --- what threads share ------------------------------------------------------------------------


def seal(r: random.Random) -> str:
    """A text with its checksum: a torn one does not pass `check`."""
    text = r.choice(["a", "é", "漢", "\U0001f378"]) * r.choice([1, 5, 40, 3000])
    return f"{text}|{zlib.crc32(text.encode()):08x}"


def check(value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("type", "messageId", "subagentRunId", "op", "path"):
                check(inner)
    elif isinstance(value, list):
        for inner in value:
            check(inner)
    elif isinstance(value, str):
        text, bar, crc = value.partition("|")
        if bar != "|" or crc != f"{zlib.crc32(text.encode()):08x}":
            raise AssertionError(f"a torn value: {value[:80]!r}")


class Shared:
    """What all threads of a run use at once."""

    KEPT = 24

    def __init__(self, threads: int) -> None:
        self.threads = threads
        r = random.Random(1)
        self.objects: list[Any] = [None] * self.KEPT
        self.sealed: dict[str, Any] = {
            "type": "TEXT_MESSAGE_CONTENT",
            "messageId": "m",
            "delta": seal(r),
            "rawEvent": {"a": seal(r), "list": [seal(r), seal(r)], "deep": {"x": {"y": seal(r)}}},
        }
        self.document: dict[str, Any] = {"a": seal(r), "list": [seal(r)], "o": {"k": seal(r)}}
        self.reducer = agui_codec.EventReducer(
            state=copy.deepcopy(self.document), as_dict=True, on_deviation=None
        )
        self.events: list[Any] = []

    def keep(self, world: World, it: Any) -> Any:
        """The object, or one that another case has made, which others may be using right now."""
        r = world.random
        if self.threads == 1 or it is None:
            return it
        slot = r.randrange(self.KEPT)
        if r.random() < 0.3:
            self.objects[slot] = it
        elif r.random() < 0.5 and type(self.objects[slot]) is type(it):
            return self.objects[slot]
        return it


# --- what is called ----------------------------------------------------------------------------

OPERATIONS: list[Callable[[World], None]] = []


def operation(function: Callable[[World], None]) -> Callable[[World], None]:
    OPERATIONS.append(function)
    return function


@operation
def encode(w: World) -> None:
    r = w.random
    encoder = w.shared.keep(
        w,
        agui_codec.EventEncoder(
            r.choice([None, SSE, PROTOBUF, "*/*", f"{PROTOBUF};q=0.5, {SSE}", "\ud800", "a" * 99]),
            default=w.hook("replaced", [], {"a": Dying()}, object(), float("nan"), Fickle.A),
            drop_raw_event=r.random() < 0.3,
            protobuf_on_wildcard=r.random() < 0.3,
        ),
    )
    event = w.shared.keep(w, w.event())
    w.containers.append(event)
    for _ in range(r.randint(1, 3)):
        match r.randrange(8):
            case 0 | 1:
                w.call(encoder.encode, event)
            case 2:
                w.call(encoder.encode_sse, event)
            case 3:
                w.call(encoder.encode_binary, event)
            case 4 | 5:
                w.call(encoder.encode_protobuf, event)
            case 6:
                w.call(encoder.encode_many, w.iterable(w.stream()))
            case _:
                w.call(encoder.get_content_type)
                w.call(repr, encoder)
    expected = agui_codec.EventEncoder(encoder.get_content_type()).encode(PLAIN)
    if w.judged(lambda: encoder.encode(PLAIN)) != expected:
        w.faults.append(f"the encoder is broken: {encoder.encode(PLAIN)!r}")


@operation
def one_document(w: World) -> None:
    event = w.event()
    for call in (agui_codec.to_json, proto.encode, _native.proto_encode):
        w.call(call, event)


@operation
def make_event(w: World) -> None:
    wire = w.plant(w.wire())
    cls = w.random.choice([*EVENT_CLASSES, *SUBCLASSES, *MODELS, dict, int, Thing])
    if w.chance(0.7):
        cls = CLASSES.get(
            str.__str__(wire["type"])
            if isinstance(wire, dict) and isinstance(wire.get("type"), str)
            else "",
            cls,
        )
    names = {field.alias or name: name for name, field in getattr(cls, "model_fields", {}).items()}
    if isinstance(wire, dict):
        fields = {names.get(key, key): value for key, value in dict.items(wire)}
        w.containers.append(fields)
        w.call(agui_codec.make_event, cls, **{k: v for k, v in fields.items() if type(k) is str})


@operation
def patch(w: World) -> None:
    document = w.shared.keep(w, w.document())
    operations = w.patch(document)
    w.call(agui_codec.apply_patch, document, operations, in_place=w.chance(0.6))
    w.call(agui_codec.apply_patch, document, operations, in_place=True)


@operation
def diff(w: World) -> None:
    before = w.document()
    after = w.plant(copy_of(before)) if w.chance(0.6) else w.document()
    if w.chance(0.5):
        w.judged(lambda: agui_codec.apply_patch(after, w.patch(after), in_place=True))
    w.containers += [before, after]
    found = w.call(agui_codec.create_patch, before, after)
    if found is not None and w.chance(0.5):
        w.call(agui_codec.apply_patch, before, found, in_place=w.chance(0.5))
    w.call(agui_codec.state_delta_event, before, after)


def copy_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy_of(inner) for key, inner in list(dict.items(value))[:50]}
    return [*value] if type(value) is list else value


@operation
def stages(w: World) -> None:
    r, on = w.random, w.hook()
    stage: Any
    match r.randrange(7):
        case 0 | 1:
            stage = agui_codec.EventEnforcer(on_deviation=on)
        case 2:
            stage = agui_codec.ChunkExpander(on_deviation=on)
        case 3:
            stage = agui_codec.EventVerifier()
        case 4:
            mint = w.hook("id", "", TrapStr("i"), 5, None)
            stage = agui_codec.LegacyUpgrader(mint_id=mint, on_deviation=on)
        case 5:
            stage = agui_codec.LegacyDowngrader(
                r.choice(["0.9", "1.0", "0.0.39", "0.0.45", "2", "x"]), on_deviation=on
            )
        case _:
            stage = agui_codec.Compactor(reasoning=r.random() < 0.5, on_deviation=on)
    stage = w.shared.keep(w, stage)
    for event in [w.event() for _ in range(3)] if r.random() < 0.4 else w.stream():
        w.call(stage.feed, event)
        if r.random() < 0.1:
            w.call(getattr, stage, "open", None)
            w.call(repr, stage)
    w.again.append(stage.close)
    w.call(stage.close)


@operation
def compact(w: World) -> None:
    events = w.stream()
    if w.chance(0.3):
        events = w.shared.keep(w, events)
        w.containers.append(events)
    w.call(
        agui_codec.compact_events,
        w.iterable(events) if w.chance(0.5) else events,
        reasoning=w.chance(0.5),
        on_deviation=w.hook(),
    )


@operation
def pipelines(w: World) -> None:
    r = w.random

    def middleware(event: Any) -> Any:
        w.containers.append(event)
        trap()
        match r.randrange(6):
            case 0:
                return None
            case 1:
                return [event, event]
            case 2:
                return w.iterable([event])
            case 3:
                return w.event()
            case _:
                return event

    class Python:
        feed = staticmethod(lambda event: [middleware(event)])
        close = staticmethod(lambda: [w.wire()])

    kinds: list[Any] = [
        middleware, Python(), agui_codec.EventEnforcer(), agui_codec.ChunkExpander(),
        agui_codec.EventVerifier(), agui_codec.LegacyUpgrader(on_deviation=w.hook()),
        agui_codec.Compactor(), agui_codec.Compactor(reasoning=True),
    ]  # fmt: skip
    chosen = r.sample(kinds, r.randint(1, 4))
    match r.randrange(4):
        case 0:
            content_type = r.choice(CONTENT_TYPES)
            pipeline = agui_codec.client_pipeline(
                content_type, middleware, as_dict=r.random() < 0.5, on_deviation=w.hook()
            )
            items: Any = list(w.pieces(w.bytes(content_type)))
        case 1:
            items = w.stream()
            w.call(lambda: list(agui_codec.through(w.iterable(items), *chosen)))
            w.call(lambda: list(agui_codec.expand_chunks(items)))
            w.call(lambda: list(agui_codec.verify_events(items)))
            return
        case 2:
            items = w.stream()

            async def give() -> Any:
                for item in items:
                    trap()
                    yield item

            async def run() -> list[Any]:
                return [event async for event in agui_codec.athrough(give(), *chosen)]

            w.loop(run)
            return
        case _:
            pipeline = agui_codec.Pipeline(*chosen, as_models=r.random() < 0.5)
            items = w.stream()
    pipeline = w.shared.keep(w, pipeline)
    for item in items:
        w.call(pipeline.feed, item)
    w.call(pipeline.close)
    w.call(getattr, pipeline, "error")
    w.call(repr, pipeline)


@operation
def reduce(w: World) -> None:
    r = w.random
    messages = w.iterable(w.event("MESSAGES_SNAPSHOT") and [
        w.plant({"id": "m", "role": "user", "content": "c"}),
        ag_ui.core.AssistantMessage(id="n", role="assistant", content="x"),
    ]) if r.random() < 0.4 else ()  # fmt: skip
    reducer = w.call(
        agui_codec.EventReducer,
        messages,
        w.document() if r.random() < 0.5 else None,
        as_dict=r.random() < 0.5,
        on_deviation=w.hook(),
    )
    reducer = w.shared.keep(w, reducer)
    if reducer is None:
        return
    events = w.stream()
    for event in events:
        w.call(reducer.apply, event)
        match r.randrange(14):
            case 0:
                state = w.call(getattr, reducer, "state")
                w.containers.append(state)
                operations = w.patch(state)
                w.call(reducer.apply, {"type": "STATE_DELTA", "delta": operations})
            case 1:
                found = w.call(getattr, reducer, "messages")
                w.containers += [found, *(found or [])]
            case 2:
                other = w.call(reducer.fork)
                if other is not None:
                    w.call(other.apply, w.event())
            case 3:
                w.call(reducer.message, w.plant("m"))
                for name in ("pending_interrupts", "pending_tool_calls", "run_id", "thread_id"):
                    w.call(getattr, reducer, name)
            case 4:
                w.call(reducer.add_message, w.plant({"id": "p", "role": "user", "content": [
                    {"type": "text", "text": "t"}]}))  # fmt: skip
            case 5:
                w.call(
                    reducer.next_input,
                    w.plant("r2"),
                    resume=w.plant([{"interruptId": "i", "payload": {}}])
                    if w.chance(0.3)
                    else None,
                    tools=w.plant([{"name": "t", "description": "d", "parameters": {}}]),
                    context=w.plant([]),
                    forwarded_props=w.plant({"a": 1}),
                    history=r.random() < 0.5,
                )
    w.call(reducer.apply_all, w.iterable(events))
    w.call(repr, reducer)


@operation
def decode(w: World) -> None:
    r = w.random
    content_type = r.choice(CONTENT_TYPES)
    options = {
        "as_dict": r.random() < 0.5,
        "max_event_bytes": r.choice([1, 50, 1000, 10**7]),
        "on_unknown": r.choice(["forward", "drop", "raise"]),
        "on_deviation": w.hook(),
        "allow_done": r.random() < 0.5,
    }
    data = w.bytes(content_type)
    match r.randrange(6):
        case 0:
            w.call(lambda: list(agui_codec.iter_events(w.pieces(data), content_type, **options)))
        case 1:

            async def run() -> list[Any]:
                async def give() -> Any:
                    for piece in w.pieces(data):
                        yield piece

                events = agui_codec.aiter_events(give(), content_type, **options)
                return [event async for event in events]

            w.loop(run)
        case 2:
            with tempfile.NamedTemporaryFile(suffix=r.choice([".sse", ".pb", ".jsonl"])) as file:
                file.write(data)
                file.flush()
                w.call(lambda: list(agui_codec.read_events(file.name, **options)))
        case _:
            decoder = w.shared.keep(w, agui_codec.EventDecoder(content_type, **options))
            for piece in w.pieces(data):
                w.containers += w.call(decoder.feed, piece) or []
            w.call(decoder.close)
            w.call(getattr, decoder, "error")
            w.call(repr, decoder)


@operation
def decode_parts(w: World) -> None:
    r = w.random
    data = w.bytes(CONTENT_TYPES[2])
    for line in data.split(b"\n"):
        form = r.choice([bytes, bytearray, memoryview, lambda it: it.decode("utf-8", "replace")])
        w.call(agui_codec.decode_event, form(line), as_dict=r.random() < 0.5)
    data = w.bytes(PROTOBUF)
    for start in (0, 4, r.randrange(len(data) + 1)):
        w.call(proto.decode, data[start:], as_dict=r.random() < 0.5)
        w.call(_native.proto_decode, data[start:], as_dict=r.random() < 0.5)
    limit = r.choice([10, 10**6])
    parser = w.shared.keep(w, agui_codec.SSEParser(max_event_bytes=limit))
    reader = w.shared.keep(w, _native.FrameReader(limit))
    for piece in w.pieces(data):
        w.call(parser.feed, piece)
        w.call(reader.feed, piece)
    w.call(parser.close)
    w.call(reader.close)


@operation
def inputs(w: World) -> None:
    given: Any = {
        "threadId": "t", "runId": "r", "state": w.maker.json(2), "tools": [], "context": [],
        "messages": w.wire("MESSAGES_SNAPSHOT")["messages"],
        "forwardedProps": w.maker.json(2),
    }  # fmt: skip
    planted = w.plant(given)
    if w.chance(0.4):
        with contextlib.suppress(ValueError):
            planted = ag_ui.core.RunAgentInput.model_validate(given)
            for name, value in list(planted.__dict__.items()):
                planted.__dict__[name] = w.plant(value)
            w.containers += [planted, planted.__dict__]
    on = w.hook()
    w.call(agui_codec.upgrade_input, planted, on_deviation=on)
    w.call(agui_codec.enforce_input, planted, on_deviation=on)
    w.call(agui_codec.downgrade_input, planted, w.random.choice(["1.0", "0.9", None, "0.0.45"]),
           on_deviation=on)  # fmt: skip


@operation
def installed(w: World) -> None:
    w.call(agui_codec.install)
    encoder = w.judged(ag_ui.encoder.EventEncoder)
    event = w.event()
    if encoder is not None:
        w.call(encoder.encode, event)
        # Another thread may have uninstalled it.
        if encode_binary := getattr(encoder, "encode_binary", None):
            w.call(encode_binary, event)
    if isinstance(event, pydantic.BaseModel):
        w.call(lambda: event.model_dump_json(by_alias=True))
        w.call(lambda: event.model_dump_json(indent=w.small()))
    if w.chance(0.7):
        w.call(agui_codec.uninstall)


@operation
def history(w: World) -> None:
    if w.shared.threads > 1 or not w.chance(0.3):
        return
    with contextlib.closing(SQLiteStore(":memory:", sync=False)) as store:
        kept = EventHistory(store)
        w.call(kept.append, w.stream())
        w.call(kept.append, w.stream())
        w.call(kept.threads)
        w.call(kept.runs)
        w.call(kept.messages, "t")
        w.call(kept.state, "t")
        w.call(lambda: list(kept.replay("t")))
        w.call(lambda: kept.normalized({"threadId": "t", "runId": "r9", "messages": []}))


@operation
def small_values(w: World) -> None:
    r = w.random
    for cls, count in ((agui_codec.Deviation, 4), (agui_codec.ServerSentEvent, 3)):
        made = w.call(cls, *(w.plant(self) for self in ["kind", "t", "path", "detail"][:count]))
        if made is not None:
            w.call(repr, made)
            w.call(hash, made)
            w.call(made.__eq__, r.choice([made, TrapThing(), None]))
            w.call(lambda made=made: pickle.loads(pickle.dumps(made)))


@operation
def deep(w: World) -> None:
    """Deep documents in a thread with a small stack."""
    r = w.random
    levels = r.choice([100, 250, 253, 254, 255, 256, 1000])
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if r.random() < 0.5 else [value]
    other = pickle.loads(pickle.dumps(value)) if levels < 300 else value
    text = agui_codec.to_json({"type": "RAW", "event": 0}).replace(
        b"0", b"[" * levels + b"]" * levels
    )
    calls: list[Callable[[], Any]] = [
        lambda: agui_codec.to_json({"type": "RAW", "event": value}),
        lambda: agui_codec.to_json(ag_ui.core.RawEvent.model_construct(event=value)),
        lambda: proto.encode({"type": "RAW", "event": value}),
        lambda: agui_codec.decode_event(text, as_dict=r.random() < 0.5),
        lambda: agui_codec.create_patch({"s": [value]}, {"s": [0, other]}),
        lambda: agui_codec.apply_patch(value, [{"op": "test", "path": "", "value": other}]),
        lambda: agui_codec.apply_patch([value], [{"op": "copy", "from": "/0", "path": "/-"}]),
        lambda: agui_codec.EventReducer(state=value).apply(
            {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/b", "value": other}]}
        ),
        lambda: agui_codec.EventEnforcer().feed({"type": "RAW", "event": value}),
        lambda: agui_codec.enforce_input({"threadId": "t", "state": value}),
    ]
    call = r.choice(calls)
    with _stacks:
        # The size is that of all threads that start meanwhile.
        before = threading.stack_size(SMALL_STACK if w.shared.threads == 1 else 0)
        thread = threading.Thread(target=lambda: w.judged(call))
        thread.start()
        threading.stack_size(before)
    thread.join()


_stacks = threading.Lock()

# It breaks the rule on purpose, in builds with debug assertions.
ON_PURPOSE = "use_lent_after_call"
NATIVE = [
    getattr(_native, name)
    for name in dir(_native)
    if not name.startswith("_") and name != ON_PURPOSE
]
NATIVE = [it for it in NATIVE if callable(it) and not (
    isinstance(it, type) and issubclass(it, BaseException))]  # fmt: skip


@operation
def anything(w: World) -> None:
    """All that the native module offers, also what is too new for this file, with any arguments."""
    r = w.random

    def argument() -> Any:
        makers = [
            w.event, w.stream, w.document, w.small, w.hook, lambda: "r",
            lambda: w.bytes(SSE), lambda: w.random.choice(LEAVES)(r),
            lambda: w.plant(w.maker.json(3)),
            lambda: r.choice(CONTENT_TYPES), lambda: r.choice(EVENT_CLASSES), lambda: -1,
        ]  # fmt: skip
        return r.choice(makers)()

    called = r.choice(NATIVE)
    made = w.call(called, *(argument() for _ in range(r.randrange(4))))
    if made is None and isinstance(called, type):
        made = w.call(called)
    if made is None or type(made).__module__.startswith("builtins"):
        return
    made = w.shared.keep(w, made)
    for name in r.sample(dir(made), min(6, len(dir(made)))):
        if name in ("__class__", "__getattribute__", "__delattr__", "__setattr__"):
            continue
        if name in ("__mul__", "__imul__", "__rmul__"):
            # Of a list: as much memory as a number says.
            continue
        found = w.call(getattr, made, name)
        if callable(found) and not isinstance(found, type):
            w.call(found, *(argument() for _ in range(r.randrange(3))))


@operation
def torn(w: World) -> None:
    """Threads write sealed texts into one event and one document, and read them: none is torn."""
    r, event, document = w.random, w.shared.sealed, w.shared.document
    raw = event["rawEvent"]
    for _ in range(20):
        match r.randrange(19):
            case 0 | 1 | 2:
                event["type"] = "".join(["TEXT_MESSAGE", "_CONTENT"])
                event["delta"] = seal(r)
            case 3:
                raw["a"] = seal(r)
                raw["deep"]["x"] = {"y": seal(r)}
            case 4:
                raw["list"][:] = [seal(r) for _ in range(r.randrange(5))]
            case 5:
                raw["list"].append(seal(r))
            case 6:
                event.pop("metadata", None)
                event["metadata"] = {str(n): seal(r) for n in range(r.randrange(20))}
            case 7:
                text = w.judged(lambda: agui_codec.to_json(event))
                check(json.loads(text) if text else None)
            case 8:
                text = w.judged(lambda: SHARED_ENCODER.encode(event))
                check(json.loads(text[6:]) if text else None)
            case 9:
                data = w.judged(lambda: proto.encode(event))
                check(
                    w.judged(lambda data=data: proto.decode(data, as_dict=True)) if data else None
                )
            case 10:
                given = w.judged(lambda: agui_codec.EventEnforcer().feed(event))
                check(copy_of((given or [None])[0]))
            case 11 | 12:
                change = [
                    {"op": r.choice(["add", "replace"]), "path": r.choice(["/a", "/o/k", "/o/n"]),
                     "value": seal(r)},
                    {"op": "add", "path": "/list/-", "value": seal(r)},
                    {"op": "remove", "path": r.choice(["/list/0", "/o/n", "/o/k"])},
                ]  # fmt: skip
                r.shuffle(change)
                if r.random() < 0.5:
                    change.append({"op": "test", "path": "/a", "value": 5})
                w.judged(lambda c=change: agui_codec.apply_patch(document, c, in_place=True))
            case 13:
                made = w.judged(
                    lambda: agui_codec.apply_patch(
                        document, [{"op": "copy", "from": "/o", "path": "/again"}]
                    )
                )
                check(copy_of(made))
            case 14:
                check(w.judged(lambda: agui_codec.create_patch({}, document)))
                w.judged(lambda: agui_codec.create_patch(document, raw))
            case 15:
                reducer = agui_codec.EventReducer(state=document, as_dict=True)
                w.judged(lambda reducer=reducer: reducer.apply(event))
                w.judged(lambda reducer=reducer: reducer.messages)
            case 16 | 17:
                # What it has given out stays as it was.
                reducer = w.shared.reducer
                given = w.judged(lambda reducer=reducer: reducer.state)
                text = json.dumps(given)
                change = [
                    {"op": "add", "path": r.choice(["/a", "/o/k", "/list/-"]), "value": seal(r)},
                    {"op": "add", "path": "/o", "value": {"k": seal(r)}},
                ][: r.choice([1, 1, 1, 1, 2])]
                if given and len(given["list"]) > 20:
                    change.append({"op": "replace", "path": "/list", "value": []})
                delta = {"type": "STATE_DELTA", "delta": change}
                w.judged(lambda reducer=reducer, delta=delta: reducer.apply(delta))
                check(given or {})
                if json.dumps(given) != text:
                    raise AssertionError("a state that was given out has changed")
            case _:
                if len(document["list"]) > 50:
                    del document["list"][:]
                if r.random() < 0.2:
                    document["o"] = {"k": seal(r)}


def planted(fault: str) -> Callable[[World], None]:
    """A call with a fault, to see that it is noticed."""

    def planted(w: World) -> None:
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "hang":
            threading.Event().wait()
        error = "AssertionError" if fault == "raise" else "SystemError"
        w.call(exec, f"raise {error}('planted')")

    return planted


# --- running -----------------------------------------------------------------------------------

PLAIN = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "é"}
PLAIN_TEXT = 'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"é"}\n\n'
SHARED_ENCODER = agui_codec.EventEncoder()


def plain(world: World) -> None:
    """Simple things work as ever."""
    model = ag_ui.core.TextMessageContentEvent(message_id="m", delta="é")
    text = SHARED_ENCODER.encode(PLAIN)
    if text != PLAIN_TEXT or SHARED_ENCODER.encode(model) != PLAIN_TEXT:
        world.faults.append(f"simple events are broken: {text!r}")
    back = agui_codec.EventDecoder(as_dict=True).feed(PLAIN_TEXT.encode())
    if back != [PLAIN] or proto.decode(proto.encode(model), as_dict=True) != PLAIN:
        world.faults.append(f"simple events are broken: {back!r}")
    if agui_codec.apply_patch([1], [{"op": "add", "path": "/0", "value": 2}]) != [2, 1]:
        world.faults.append("simple patches are broken")


class Log:
    """The last cases of each thread, in a file that outlives a crash."""

    WIDTH, LINES = 120, 20

    def __init__(self, path: str, threads: int, *, create: bool = False) -> None:
        size = self.WIDTH * self.LINES * threads
        if create:
            Path(path).write_bytes(b" " * size)
        self.file = open(path, "r+b")  # noqa: SIM115
        self.map = mmap.mmap(self.file.fileno(), size)

    def note(self, thread: int, case: int, text: str) -> None:
        at = (thread * self.LINES + case % self.LINES) * self.WIDTH
        line = f"{case:9} thread {thread} {text}"[: self.WIDTH - 1].ljust(self.WIDTH - 1)
        self.map[at : at + self.WIDTH] = line.encode("ascii", "replace") + b"\n"

    def lines(self) -> list[str]:
        return sorted(line for line in self.map[:].decode("ascii").splitlines() if line.strip())


def run_case(seed: int, thread: int, case: int, shared: Shared, log: Log | None) -> list[str]:
    """Run one case; what was wrong."""
    world = World(f"{seed}/{thread}/{case}", shared)
    do = world.random.choice(OPERATIONS)
    if shared.threads > 1 and torn in OPERATIONS and world.chance(0.3):
        do = torn
    if log:
        log.note(thread, case, f"{do.__name__} pranks={world.pranks} rate={world.rate}")
    if world.chance(0.002):
        wear_out(world.random)
    _here.world, _here.turn = world, case
    # Where nothing else runs Python code of ours, the collector does, and a profiler.
    often, profiled = world.chance(0.1), world.chance(0.05)
    if often:
        gc.set_threshold(1)
    if profiled:
        sys.setprofile(_profile)
    try:
        world.judged(lambda: do(world))
    finally:
        sys.setprofile(None)
        _here.world = None
        if often:
            gc.set_threshold(700)
    world.judged(lambda: plain(world))
    return [f"{do.__name__}, case {case} of thread {thread}: {fault}" for fault in world.faults]


def wear_out(r: random.Random) -> None:
    """Use up the version tags of a class: from Python 3.12 on a class can have a thousand."""
    classes = [ag_ui.core.TextMessageContentEvent, ag_ui.core.ToolCallArgsEvent]
    cls: Any = r.choice([*classes, *EVENT_CLASSES])
    for number in range(1200):
        cls.marker = number
        cls.marker  # noqa: B018
    with contextlib.suppress(AttributeError):
        del cls.marker


def collected(phase: str, _info: dict[str, int]) -> None:
    world = getattr(_here, "world", None)
    if phase == "start" and world is not None and world.chance(0.3):
        with contextlib.suppress(Prank):
            trap()


def child(args: argparse.Namespace) -> int:
    """Run the cases in this process."""
    warnings.simplefilter("ignore")
    logging.getLogger("agui_codec").addHandler(logging.NullHandler())
    logging.getLogger("agui_codec").propagate = False
    # What `__del__` and the collector's callbacks raise.
    sys.unraisablehook = lambda _unraisable: None
    gc.callbacks.append(collected)
    sys.setrecursionlimit(600)
    OPERATIONS[:] = [it for it in OPERATIONS if it.__name__ not in args.skip.split(",")]
    if args.fault:
        OPERATIONS[:] = [planted(args.fault)]
    shared = Shared(args.threads)
    log = Log(args.child, args.threads)
    end = time.monotonic() + args.seconds
    faults: Counter[str] = Counter()
    counts = [0] * args.threads

    def work(thread: int) -> None:
        first = args.case or 0
        last = first if args.case is not None else args.until
        case = first
        while time.monotonic() < end and (last is None or case <= last):
            for fault in run_case(args.seed, thread, case, shared, log):
                key = fault.partition(",")[0] + fault.partition(":")[2].partition("\n")[0][:90]
                faults[key] += 1
                if faults[key] == 1:
                    print(fault, file=sys.stderr, flush=True)
            counts[thread] += 1
            case += 1
            if faults and not args.keep_going:
                break

    if args.threads == 1:
        work(0)
    else:
        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(args.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"stress: {sum(counts)} cases, {sum(faults.values())} faults, seed {args.seed}")
    for fault, count in faults.most_common():
        print(f"  {count} times: {fault}")
    sys.stdout.flush()
    # Not through the end of the interpreter: traps die in odd orders there.
    gc.callbacks.remove(collected)
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--until", type=int, help="run the cases up to this one")
    parser.add_argument("--skip", default="", help="operations to leave out, with commas")
    parser.add_argument("--keep-going", action="store_true", help="list all kinds of faults")
    parser.add_argument("--patience", type=float, default=120, help="seconds without progress")
    parser.add_argument("--fault", help="plant one, to see that it is noticed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        log = Log(path, args.threads, create=True)
        command = [sys.executable, "-X", "faulthandler", *sys.argv, "--child", path]
        environment = {
            "RUST_BACKTRACE": "0",
            **os.environ,
            "PYTHONHASHSEED": str(args.seed % 2**32),
        }
        process = subprocess.Popen(command, env=environment, cwd=os.getcwd())
        seen, since, hung = b"", time.monotonic(), False
        while True:
            try:
                code = process.wait(1)
                break
            except subprocess.TimeoutExpired:
                now = log.map[:]
                if now != seen:
                    seen, since = now, time.monotonic()
                elif time.monotonic() - since > args.patience and not hung:
                    # The fault handler prints where each thread is.
                    hung = True
                    process.send_signal(signal.SIGABRT)
        if code:
            what = "hung" if hung else f"ended with {code}"
            print(f"stress: {what}; seed {args.seed}, threads {args.threads}; the last cases:")
            print("\n".join(line.rstrip() for line in log.lines()))
        return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
