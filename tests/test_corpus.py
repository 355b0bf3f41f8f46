"""The project's own corpus: each rule of the protocol, shown by streams and documents.

``corpus/README.md`` describes the files. Every stream goes through ``client_pipeline`` as bytes, on
both wires, and through the agent of ``@ag-ui/client`` in Node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agui_codec import (
    AGUI_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    AGUIError,
    Deviation,
    EncodeError,
    EventReducer,
    EventVerifier,
    client_pipeline,
    compact_events,
    through,
)
from streams import at, binary, covers, oracle, sse, wire

CORPUS = Path(__file__).parent / "corpus"
KEYS = {
    "outcome", "error", "events", "delivered", "absent", "deviations", "someDeviations", "messages",
    "messageIds", "reasoningTexts", "state", "interrupts", "pendingToolCalls", "typescript",
    "protobuf",
}  # fmt: skip


def cases(folder: str) -> Iterator[tuple[str, Any]]:
    """The cases of a folder of the corpus, each with its id: the file's name and the rule's."""
    for path in sorted((CORPUS / folder).glob("*.json")):
        for case in json.loads(path.read_text("utf-8")):
            yield f"{path.stem}/{case['rule']}", case


def rules() -> dict[str, str]:
    """What the rules say, by family and name."""
    family, found = "", {}
    for line in (CORPUS / "rules.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            family = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, says = line.partition(": ")
            found[f"{family}/{name}"] = says
    return found


STREAMS = dict(cases("streams"))
stream = pytest.mark.parametrize("name", STREAMS)


def play(
    data: bytes, content_type: str, size: int, as_dict: bool
) -> tuple[list[Any], AGUIError | None, list[Deviation]]:
    """The events that a client delivers, the error that ends them, and what was tolerated."""
    seen: list[Deviation] = []
    pipeline = client_pipeline(content_type, as_dict=as_dict, on_deviation=seen.append)
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    events: list[Any] = []
    try:
        for event in through(pieces, pipeline):
            events.append(event)
    except AGUIError as error:
        return events, error, seen
    return events, None, seen


def check(
    expect: Any, delivered: list[Any], error: AGUIError | None, seen: list[Deviation], as_dict: bool
) -> None:
    assert set(expect) <= KEYS
    assert ("refused" if error else "completed") == expect["outcome"], error
    for part in expect.get("error", []):
        assert part in str(error)
    reducer = EventReducer(as_dict=as_dict, on_deviation=seen.append)
    reducer.apply_all(delivered)
    events = wire(delivered)
    if "events" in expect:
        assert [event["type"] for event in events] == expect["events"]
    for index, fields in expect.get("delivered", {}).items():
        assert covers(events[int(index)], fields), events[int(index)]
    for path in expect.get("absent", []):
        with pytest.raises(KeyError):
            at(events, path)
    messages = wire(reducer.messages)
    if "messages" in expect:
        assert messages == expect["messages"]
    if "messageIds" in expect:
        assert [message["id"] for message in messages] == expect["messageIds"]
    if "reasoningTexts" in expect:
        texts = [message["content"] for message in messages if message["role"] == "reasoning"]
        assert texts == expect["reasoningTexts"]
    if "state" in expect:
        assert reducer.state == expect["state"]
    if "interrupts" in expect:
        assert [one["id"] for one in wire(reducer.pending_interrupts)] == expect["interrupts"]
    if "pendingToolCalls" in expect:
        assert reducer.pending_tool_calls == expect["pendingToolCalls"]
    if "deviations" in expect:
        said = [str(one) for one in seen]
        for part in expect["deviations"]:
            assert any(part in text for text in said), said
        if not expect.get("someDeviations"):
            assert len(said) == len(expect["deviations"]), said


@stream
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("as_dict", [True, False], ids=["dicts", "models"])
def test_a_stream_over_sse(name: str, as_dict: bool, size: int) -> None:
    case = STREAMS[name]
    check(case["expect"], *play(sse(case["stream"]), SSE_MEDIA_TYPE, size, as_dict), as_dict)


@stream
def test_a_stream_over_protobuf(name: str) -> None:
    case = STREAMS[name]
    try:
        data = binary(case["stream"])
    except EncodeError:
        assert "protobuf" in case["expect"], "what protobuf cannot carry needs its reason"
        return
    if "protobuf" not in case["expect"]:
        check(case["expect"], *play(data, AGUI_MEDIA_TYPE, 7, True), True)


@stream
def test_what_a_stream_delivers_may_be_compacted(name: str) -> None:
    delivered, error, _ = play(sse(STREAMS[name]["stream"]), SSE_MEDIA_TYPE, 1 << 20, True)
    compacted = compact_events(delivered)
    assert compact_events(compacted) == compacted
    before, after = (
        EventReducer(as_dict=True, on_deviation=lambda _: None).apply_all(events)
        for events in (delivered, compacted)
    )
    assert after.messages == before.messages
    assert after.state == before.state
    assert after.pending_interrupts == before.pending_interrupts
    if error is None:
        assert list(through(compacted, EventVerifier())) == compacted


def test_every_rule_has_a_stream_and_every_stream_a_rule() -> None:
    assert set(STREAMS) == set(rules())
    assert all(rules().values())


def without_minted_ids(messages: list[Any]) -> list[Any]:
    """Messages without the ids that were minted for them, which are random."""
    return [
        {
            key: value
            for key, value in message.items()
            if key != "id" or len(value) < len("uuid" * 8)
        }
        for message in messages
    ]


@pytest.fixture(scope="module")
def typescript() -> dict[str, Any]:
    answers = oracle("corpus_oracle.mjs", [case["stream"] for case in STREAMS.values()])
    return dict(zip(STREAMS, answers, strict=True))


@stream
def test_typescript_agrees(name: str, typescript: dict[str, Any]) -> None:
    case, answer = STREAMS[name], typescript[name]
    differs = case["expect"].get("typescript", {})
    because = differs.get("because")
    assert bool(differs) == bool(because), "a difference needs its reason"
    delivered, error, _ = play(sse(case["stream"]), SSE_MEDIA_TYPE, 1 << 20, True)
    reducer = EventReducer(as_dict=True, on_deviation=lambda _: None).apply_all(delivered)
    ours: dict[str, Any] = {"outcome": "refused" if error else "completed"}
    # Its failure overtakes events that were delivered: what a refused stream added up to is open.
    if ours["outcome"] == answer["outcome"] == "completed":
        ours["events"] = [event["type"] for event in delivered]
        ours["interrupts"] = [one["id"] for one in reducer.pending_interrupts]
        ours["messages"] = without_minted_ids(reducer.messages)
        answer["messages"] = without_minted_ids(answer["messages"])
        if reducer.state is not None:
            ours["state"] = reducer.state
    differences = {key: answer[key] for key in ours if answer[key] != ours[key]}
    assert differences == {key: value for key, value in differs.items() if key != "because"}, answer
