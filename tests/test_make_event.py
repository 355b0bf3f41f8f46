"""`make_event`: what it makes cannot be told from what the class itself makes."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
from typing import Any

import pytest
from ag_ui import core
from pydantic import BaseModel

import random_events
from agui_codec import make_event
from conftest import ROOT
from oracle import outcome, python_calls
from strategies import EVENT_CLASSES, variants

DELTA = core.TextMessageContentEvent
SLOTS = ("__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")


def assert_alike(ours: Any, theirs: Any) -> None:
    """Equal down to the order of the instance dictionary, and to the types of all values."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, BaseModel):
        assert ours == theirs
        assert list(ours.__dict__) == list(theirs.__dict__)
        for slot in SLOTS:
            assert_alike(getattr(ours, slot), getattr(theirs, slot))
        for name, value in theirs.__dict__.items():
            assert_alike(ours.__dict__[name], value)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_alike(ours[key], value)
    elif isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    else:
        assert ours == theirs or ours != ours  # NaN


def assert_same(cls: Any, /, *args: Any, **fields: Any) -> None:
    """The same instance, or the same complaint."""
    expected = outcome(lambda: cls(*args, **fields))
    got = outcome(lambda: make_event(cls, *args, **fields))
    assert got.error == expected.error
    assert got.warned == expected.warned
    assert_alike(got.result, expected.result)


def classes() -> list[type[BaseModel]]:
    """The event classes, and those of what events hold."""
    found = [*EVENT_CLASSES]
    for cls in found:
        for value in variants(cls):
            for inner in value.__dict__.values():
                for one in inner if isinstance(inner, list) else [inner]:
                    if isinstance(one, BaseModel) and type(one) not in found:
                        found.append(type(one))
    return found


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_every_form_of_every_class(cls: type[BaseModel]) -> None:
    for model in variants(cls):
        given = {name: getattr(model, name) for name in model.model_fields_set}
        by_alias = {
            field.alias or name: model.__dict__[name]
            for name, field in cls.model_fields.items()
            if name in model.model_fields_set
        }
        for fields in (given, by_alias, dict(reversed(given.items())), model.model_dump()):
            assert_same(cls, **fields)
            assert_same(cls, **{**fields, "foo": 1, "vendorField": {"a": [None]}})
    for model in variants(cls)[:2]:
        fields = {name: getattr(model, name) for name in model.model_fields_set}
        for name in fields:
            assert_same(cls, **{key: fields[key] for key in fields if key != name})
            for other in (None, 5, True, 1.5, "", b"x", [], {}, object, {"a": 1}, [None]):
                assert_same(cls, **{**fields, name: other})


@pytest.mark.parametrize("seed", range(2))
def test_random_events(seed: int) -> None:
    """Wire dicts, in which the nested models are dicts too."""
    kinds = {cls.model_fields["type"].default.value: cls for cls in EVENT_CLASSES}
    for event in random_events.events(seed, 300):
        assert_same(kinds[event["type"]], **event)


def test_what_is_made_lives_as_others_do() -> None:
    ours = make_event(DELTA, message_id="m", delta="d", vendor=[1])
    theirs = DELTA(message_id="m", delta="d", vendor=[1])
    for each in (ours, theirs):
        assert_alike(pickle.loads(pickle.dumps(each)), theirs)
        assert_alike(copy.deepcopy(each), theirs)
        assert_alike(each.model_copy(), theirs)
        assert_alike(DELTA.model_validate(each.model_dump(exclude_unset=True)), theirs)
        assert repr(each) == repr(theirs)
        assert gc.is_tracked(each)
        each.delta = "other"
        each.more = 1
        del each.vendor
    assert_alike(ours, theirs)
    # Nothing is shared with the next one.
    again = make_event(DELTA, message_id="m", delta="d")
    assert_alike(again, DELTA(message_id="m", delta="d"))


def test_keys_that_are_not_plain() -> None:
    class Word(str):
        __slots__ = ()

    key = "".join(["mess", "age_id"])  # Not interned.
    assert_same(DELTA, **{key: "m", "delta": "d"})
    assert_same(DELTA, **{Word("message_id"): "m", "delta": "d"})
    assert_same(DELTA, **{"message_id": "m", "delta": "d", "é": 1, "": 2, "cls": 3, "self": 4})
    assert_same(DELTA, message_id="m", messageId="n", delta="d")
    assert_same(DELTA, delta="d", messageId="n", message_id=5)
    for call in (make_event, DELTA):
        with pytest.raises(TypeError, match="keywords must be strings"):
            call(*((DELTA,) if call is make_event else ()), **{5: 1})  # type: ignore[arg-type]


def test_other_classes_are_called() -> None:
    class Mine(DELTA):
        more: int = 1

    assert_same(Mine, message_id="m", delta="d", more="7")
    assert_same(dict, a=1)
    assert_same(DELTA)
    assert_same(None, a=1)
    assert_same(BaseModel)
    assert make_event(lambda **fields: fields, a=1, cls=2, fields=3) == {  # type: ignore[arg-type]
        "a": 1, "cls": 2, "fields": 3,
    }  # fmt: skip


def test_the_wrong_number_of_arguments() -> None:
    untyped: Any = make_event
    with pytest.raises(TypeError, match=r"^make_event\(\) missing 1 required positional arg"):
        untyped()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'cls'"):
        untyped(cls=DELTA)
    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        untyped(DELTA, 1, 2, delta="d")


def test_it_is_a_function_of_the_package() -> None:
    assert str(inspect.signature(make_event)) == "(cls, /, **fields)"
    assert make_event.__name__ == "make_event"
    assert (make_event.__doc__ or "").startswith("``cls(**fields)``, sooner.\n\nArgs:")
    assert pickle.loads(pickle.dumps(make_event)) is make_event
    stub = (ROOT / "python/agui_codec/_native.pyi").read_text()
    assert "def make_event(cls: type[_T], /, **fields: Any) -> _T" in stub


def test_no_python_runs() -> None:
    def make() -> None:
        make_event(DELTA, message_id="m", delta="d", timestamp=1, vendor={"a": 1})
        make_event(core.UserMessage, id="1", content=[{"type": "text", "text": "t"}])

    make()
    assert python_calls(make) == ["make"]


def test_a_class_that_is_changed_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    official = BaseModel.__init__

    def init(self: Any, **fields: Any) -> None:
        called.append(fields)
        official(self, **fields)

    make_event(DELTA, message_id="m", delta="d")
    with monkeypatch.context() as patch:
        patch.setattr(DELTA, "__init__", init)
        assert_same(DELTA, message_id="m", delta="d")
        assert called == [{"message_id": "m", "delta": "d"}] * 2
    assert_same(DELTA, message_id="m", delta="d")
    assert len(called) == 2


def test_counts_of_references_stay() -> None:
    text, value, key = "d" * 50, ["v"], "k" * 50
    watched = [text, value, key, DELTA, None, make_event, core.EventType.TEXT_MESSAGE_CONTENT]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(each) for each in watched]

    def work() -> None:
        for _ in range(1_000):
            make_event(DELTA, message_id=text, delta=text, raw_event=value, **{key: value})
        for wrong in ({"delta": 5}, {"delta": text, "timestamp": value}, {}):
            with pytest.raises(ValueError, match="validation error"):
                make_event(DELTA, message_id=text, raw_event=value, **wrong)

    work()
    before = counts()
    work()
    drift = [after - earlier for after, earlier in zip(counts(), before, strict=True)]
    assert all(abs(each) < 20 for each in drift), drift


def test_threads_make_what_they_ask_for() -> None:
    wrong: list[Any] = []

    def work(at: int) -> None:
        for number in range(2_000):
            made = make_event(DELTA, message_id=str(at), delta=str(number))
            if made != DELTA(message_id=str(at), delta=str(number)):
                wrong.append(made)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
