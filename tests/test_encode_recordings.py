"""Recorded streams of real servers, and the documents and streams of the conformance corpus."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import EventType
from pydantic import ValidationError

from agui_codec import EventEncoder, to_json
from oracle import ADAPTER, ENCODER, assert_fast, assert_same, assert_wire_same, official_text
from strategies import EVENT_CLASSES, snake, to_wire

RECORDINGS = {"langgraph.sse": 386, "pydantic_ai.sse": 179}


def compact(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture(params=RECORDINGS)
def frames(request: pytest.FixtureRequest, shared: Path) -> list[bytes]:
    body = (shared / "recordings" / request.param).read_bytes()
    frames = [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]
    assert len(frames) == RECORDINGS[request.param]
    return frames


def document(frame: bytes) -> Any:
    return json.loads(frame.removeprefix(b"data: "))


def test_a_recording_as_wire_dicts(frames: list[bytes]) -> None:
    for frame in frames:
        assert ENCODER.encode_binary(document(frame)) == frame
        assert ENCODER.encode(document(frame)) == frame.decode()
        assert to_json(document(frame)) == frame[6:-2]
    documents = [document(frame) for frame in frames]
    assert ENCODER.encode_many(documents) == b"".join(frames)


def test_a_recording_as_models(frames: list[bytes]) -> None:
    events = [ADAPTER.validate_json(frame[6:-2]) for frame in frames]
    for event in events:
        assert_same(event)
        assert_fast(event)
    assert ENCODER.encode_many(events) == "".join(map(official_text, events)).encode()


def test_a_recording_as_models_and_their_dicts(frames: list[bytes]) -> None:
    """Dicts in class order, in both spellings, and with the enum for the type."""
    for frame in frames:
        event = ADAPTER.validate_json(frame[6:-2])
        for wire in (to_wire(event), to_wire(event, snake)):
            assert isinstance(wire["type"], EventType)
            assert_wire_same(wire, event)
            assert_wire_same({**wire, "type": wire["type"].value}, event)
            assert_fast(wire)


def test_a_recording_without_raw_events(frames: list[bytes]) -> None:
    dropping = EventEncoder(drop_raw_event=True)
    for frame in frames:
        wire = document(frame)
        rest = {key: value for key, value in wire.items() if key != "rawEvent"}
        assert dropping.encode(wire) == ENCODER.encode(rest)
        event = ADAPTER.validate_python(wire)
        assert dropping.encode(event) == official_text(event.model_copy(update={"raw_event": None}))


# --- the corpus --------------------------------------------------------------------------------

EVENT_NAMES = {cls.__name__ for cls in EVENT_CLASSES}


def fixtures(shared: Path, kind: str) -> Iterator[tuple[Path, Any]]:
    for path in sorted((shared / "conformance" / "fixtures").glob(f"*Event/{kind}/*.json")):
        if not path.name.endswith(".expect.json"):
            yield path, json.loads(path.read_text())


def test_valid_documents(shared: Path) -> None:
    seen = set()
    for path, event in fixtures(shared, "valid"):
        seen.add(event["type"])
        # They hold no null where that means absence, so they are forwarded as they are.
        assert to_json(event).decode() == compact(event), path
        model = ADAPTER.validate_python(event)
        assert_same(model)
        assert_wire_same(to_wire(model), model)
        assert json.loads(to_json(model)) == event, path
    assert seen == {kind.value for kind in EventType}


def without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {k: without_nulls(v) for k, v in document.items() if v is not None}
    if isinstance(document, list):
        return [without_nulls(item) for item in document]
    return document


def test_invalid_documents_are_forwarded(shared: Path) -> None:
    """A codec judges nothing: only what is None in an optional place is left out."""
    count = 0
    for path, event in fixtures(shared, "invalid"):
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            continue
        count += 1
        if "null" not in compact(event):
            assert to_json(event).decode() == compact(event), path
        else:
            assert without_nulls(json.loads(to_json(event))) == without_nulls(event), path
    assert count > 20


def test_documents_that_are_no_events_stand_in_events(shared: Path) -> None:
    """Messages, tools, interrupts and inputs, in the place where an event holds one."""
    folder = shared / "conformance" / "fixtures"
    run = {"threadId": "t", "runId": "r"}
    places: dict[str, Any] = {
        "UserMessage": lambda it: {"type": "MESSAGES_SNAPSHOT", "messages": [it]},
        "ToolMessage": lambda it: {"type": "MESSAGES_SNAPSHOT", "messages": [it]},
        "RunAgentInput": lambda it: {"type": "RUN_STARTED", **run, "input": it},
        "Tool": lambda it: {
            "type": "RUN_STARTED",
            **run,
            "input": {**run, "messages": [], "tools": [it]},
        },
        "ResumeEntry": lambda it: {
            "type": "RUN_STARTED",
            **run,
            "input": {**run, "messages": [], "resume": [it]},
        },
        "Interrupt": lambda it: {
            "type": "RUN_FINISHED",
            **run,
            "outcome": {"type": "interrupt", "interrupts": [it]},
        },
    }
    names = {path.name for path in folder.iterdir()} - EVENT_NAMES
    assert names == set(places)
    for name, place in places.items():
        for path in sorted((folder / name / "valid").glob("*.json")):
            event = place(json.loads(path.read_text()))
            assert to_json(event).decode() == compact(event), path
            model = ADAPTER.validate_python(event)
            assert_same(model)
            assert_fast(model)
            assert json.loads(to_json(model)) == event, path


def test_which_nulls_are_left_out(shared: Path) -> None:
    corpus = json.loads((shared / "conformance" / "null-omission.json").read_text())
    count = 0
    for case in corpus["stream"]:
        count += 1
        written = json.loads(to_json(case["input"]))
        assert written == case["expected"], case["name"]
        if "python" not in case.get("producedBy", ["python"]):
            continue
        model = ADAPTER.validate_python(case["input"])
        assert_same(model)
        assert json.loads(to_json(model)) == case["expected"], case["name"]
        # And with every absent field given as None.
        full = to_wire(model, keep_none=lambda: True)
        assert json.loads(to_json(full)) == case["expected"], case["name"]
        full = to_wire(model, snake, keep_none=lambda: True)
        assert json.loads(to_json(full)) == case["expected"], case["name"]
    assert count > 10


def events_of(stream: Any) -> list[Any]:
    """The events of a stream document, wherever it keeps them."""
    if isinstance(stream, dict):
        if isinstance(stream.get("type"), str) and stream["type"].isupper():
            return [stream]
        return [event for value in stream.values() for event in events_of(value)]
    if isinstance(stream, list):
        return [event for value in stream for event in events_of(value)]
    return []


def test_streams(shared: Path) -> None:
    count = 0
    for path in sorted((shared / "conformance" / "streams").glob("*.json")):
        for event in events_of(json.loads(path.read_text())):
            count += 1
            if "null" not in compact(event):
                assert to_json(event).decode() == compact(event), path
            try:
                model = ADAPTER.validate_python(event)
            except ValidationError:
                continue
            assert_same(model)
            assert_wire_same(to_wire(model), model)
    assert count > 200


def test_the_documents_of_the_protobuf_corpus(shared: Path) -> None:
    for case in json.loads((shared / "conformance" / "proto-bytes.json").read_text()):
        event = case["event"]
        if "null" not in compact(event):
            assert to_json(event).decode() == compact(event), case["name"]
        try:
            model = ADAPTER.validate_python(event)
        except ValidationError:
            continue
        assert_same(model)
        assert_wire_same(to_wire(model), model)
