"""Thousands of generated models and wire dicts against the official bytes."""

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agui_codec import EventEncoder
from oracle import ADAPTER, ENCODER, assert_same, assert_wire_same, encoded, official_text
from strategies import (
    EVENT_CLASSES,
    floats,
    integers,
    json_values,
    models,
    python_keys,
    python_values,
    texts,
    wires,
)

# Per class and property; the environment can ask for a longer run.
FACTOR = int(os.environ.get("AGUI_CODEC_EXAMPLES", "1"))


def examples(count: int) -> settings:
    return settings(
        max_examples=count * FACTOR,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


by_class = pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)


@by_class
@examples(35)
@given(data=st.data())
def test_models_with_json_in_them(cls: type[BaseModel], data: Any) -> None:
    event = data.draw(models(cls))
    assert assert_same(event).error is None


@by_class
@examples(25)
@given(data=st.data())
def test_models_with_anything_in_them(cls: type[BaseModel], data: Any) -> None:
    assert_same(data.draw(models(cls, python_values)))


@by_class
@examples(25)
@given(data=st.data())
def test_wire_dicts_in_class_order(cls: type[BaseModel], data: Any) -> None:
    """The dict, in any spelling, is written as the model made of it."""
    model, wire = data.draw(wires(cls))
    assert_wire_same(wire, model)
    assert_wire_same(wire, ADAPTER.validate_python(wire))


@by_class
@examples(25)
@given(data=st.data())
def test_wire_dicts_with_anything_in_them(cls: type[BaseModel], data: Any) -> None:
    model, wire = data.draw(wires(cls, python_values))
    assert_wire_same(wire, model)


@by_class
@examples(10)
@given(data=st.data())
def test_wire_dicts_in_any_order(cls: type[BaseModel], data: Any) -> None:
    """Keys come out in the dict's own order, and the document is the same."""
    model, wire = data.draw(wires(cls))
    shuffled = dict(data.draw(st.permutations(list(wire.items()))))
    text = encoded(shuffled)
    document = json.loads(text)
    assert document == json.loads(encoded(model))
    aliases = {name: field.alias for name, field in cls.model_fields.items()}
    expected = [aliases.get(key, key) for key in shuffled]
    assert [key for key in expected if key in document] == list(document)


@by_class
@examples(10)
@given(data=st.data())
def test_dropping_raw_events_and_many_at_once(cls: type[BaseModel], data: Any) -> None:
    model, wire = data.draw(wires(cls))
    bare = model.model_copy(update={"raw_event": None})
    dropping = EventEncoder(drop_raw_event=True)
    assert dropping.encode(model) == official_text(bare)
    assert dropping.encode(wire) == official_text(bare)
    frames = (official_text(model) * 2).encode()
    assert ENCODER.encode_many([model, wire]) == frames


@examples(250)
@given(value=json_values)
def test_payloads(value: Any) -> None:
    for event in (
        {"type": "CUSTOM", "name": "n", "value": value},
        {"type": "STATE_SNAPSHOT", "snapshot": value},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": value},
    ):
        model = ADAPTER.validate_python(event)
        assert_same(model)
        assert_wire_same(event, model)


@examples(250)
@given(value=python_values)
def test_payloads_of_any_kind(value: Any) -> None:
    event = {"type": "CUSTOM", "name": "n", "value": value}
    model = ADAPTER.validate_python(event)
    assert_same(model)
    assert_wire_same(event, model)


@examples(120)
@given(value=st.dictionaries(st.one_of(python_keys, texts), json_values, max_size=6))
def test_keys_of_any_kind(value: Any) -> None:
    event = {"type": "CUSTOM", "name": "n", "value": {"deep": [value]}}
    model = ADAPTER.validate_python(event)
    assert_same(model)
    assert_wire_same(event, model)


@examples(400)
@given(number=floats)
def test_floats(number: float) -> None:
    event = {"type": "CUSTOM", "name": "n", "value": [number, -number, {"f": number}]}
    assert_wire_same(event, ADAPTER.validate_python(event))
    assert_same(ADAPTER.validate_python(event))


@examples(200)
@given(number=st.one_of(integers, st.integers(-(2**200), 2**200)))
def test_integers(number: int) -> None:
    event = {"type": "CUSTOM", "name": "n", "value": {number: number}}
    assert_wire_same(event, ADAPTER.validate_python(event))
    assert_same(ADAPTER.validate_python(event))


@examples(300)
@given(text=texts, name=texts)
def test_texts(text: str, name: str) -> None:
    event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text}
    model = ADAPTER.validate_python(event)
    assert_same(model)
    assert_wire_same(event, model)
    assert json.loads(encoded({"type": text, name + "!": text})) == {"type": text, name + "!": text}
