"""Every stream of the conformance corpus, as bytes, through ``client_pipeline`` and reduced.

All keys of ``expect`` are looked at, and there is no other key. Errors and warnings are worded by
us: ``SAYS`` has, for each wording of the reference client that the corpus quotes, where ours is
said and what it contains.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import PROTOCOL_VERSION

from agui_codec import (
    AGUI_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    AGUIError,
    Deviation,
    EncodeError,
    EventReducer,
    athrough,
    client_pipeline,
    downgrade_input,
    through,
    upgrade_input,
)
from conftest import corpus_files
from streams import Event, at, binary, covers, sse, wire

# What the corpus quotes of the reference client, and what we say instead (a pattern).
SAYS = {
    # errors
    "does not match the open stream's role": "chunk's role 'assistant' disagrees",
    "does not match the open stream's toolCallName": "chunk's toolCallName 'delete' disagrees",
    "No active text message found with ID 'orphan-content-m1'": (
        "no text message 'orphan-content-m1' is open"
    ),
    "First TEXT_MESSAGE_CHUNK must have a messageId": (
        r"\(TEXT_MESSAGE_CHUNK\): the first chunk of a text message has no messageId"
    ),
    "First TOOL_CALL_CHUNK must have a toolCallName": (
        r"\(TOOL_CALL_CHUNK\): the first chunk of a tool call has no toolCallName"
    ),
    "two interrupts carrying the id 'i-duplicate-interrupt'": (
        "two of its interrupts have the id 'i-duplicate-interrupt'"
    ),
    "The run has already finished with 'RUN_FINISHED'": "already finished with RUN_FINISHED",
    "First event must be 'RUN_STARTED'": "first event .* expected RUN_STARTED",
    "Cannot send 'RUN_STARTED' while a run is still active": (
        r"\(RUN_STARTED\): the run .* is still active"
    ),
    "Cannot send 'RUN_FINISHED' while text messages are still active": (
        r"\(RUN_FINISHED\): text message 'open-message-at-run-finished-m-1' still open"
    ),
    "No active reasoning message found with ID 'm-reasoning-discipline-1'": (
        "no reasoning message 'm-reasoning-discipline-1' is open"
    ),
    'expected \\"reasoning\\"': "role: expected 'reasoning'",
    "must agree on their runId": "its runId is .* but RUN_STARTED said",
    "carry the input's threadId": "its threadId is .* but RUN_STARTED said",
    "carries the input's threadId": "its threadId is .* but the stream is of thread",
    "that was not started": "was not started",
    "ended without a terminal event": "ended without a terminal event",
    "expected object, received array": "outcome: expected an object, got list",
    "s-run-finished-active-subagent-1": "s-run-finished-active-subagent-1",
    "s-subagent-finished-unstarted-1": "s-subagent-finished-unstarted-1",
    "delta": "delta: expected a string",
    "name": "name: required",
    "role": "role: expected",
    # warnings
    "DROPS non-text parts": "dropped parts that are no text: image",
    "THINKING_START": "converted the retired THINKING_START",
    "1.1": "newer than 1.1",
    "cannot interpret": "cannot interpret",
    "FUTURE_EVENT": "unknown type FUTURE_EVENT",
    "/outcome": "^RUN_FINISHED: outcome: removed",
    "/futureProp": "^TEXT_MESSAGE_CONTENT: futureProp: removed",
    "Failed to apply state patch": r"^STATE_DELTA: delta\[1\]: .* does not apply",
}

CHECKED = {
    "outcome",
    "errorContains",
    "runError",
    "eventTypes",
    "eventTypesAbsent",
    "eventPaths",
    "eventAbsentPaths",
    "warnings",
    "noWarnings",
    "messages",
    "messageCount",
    "state",
    "request",
    "requestAbsentPaths",
}

# Where we differ from what the corpus expects, with the reason. There is nothing.
DIFFERENCES: dict[str, str] = {}

# Streams that cannot be sent over the binary wire as they are, or not in full, with the reason.
NOT_BINARY = {
    "era-0-0-45-thinking-translated": "no retired events",
    "malformed-known-field-fatal": "no number for a string",
    "subagent-started-missing-name-fatal": "an absent required string arrives as an empty one",
    "unknown-event-dropped": "no unknown events",
    "unknown-outcome-array-fatal": "no array for an outcome",
    "unknown-property-stripped": "no unknown properties",
}


def said(what: str, texts: list[str]) -> bool:
    return any(re.search(SAYS[what], text) for text in texts)


def reduced(case: Any, events: list[Any], seen: list[Deviation], as_dict: bool) -> Event:
    """What the events add up to, in the keys of ``expect``."""
    # A client converts the retired shapes of its own history before anything else.
    start = upgrade_input(case.get("input", {}), on_deviation=lambda _: None)
    reducer = EventReducer(
        start.get("messages", []),
        start.get("state", {}),
        as_dict=as_dict,
        on_deviation=seen.append,
    )
    messages = wire(reducer.apply_all(events).messages)
    return {"messages": messages, "messageCount": len(messages), "state": reducer.state}


def check_events(expect: Any, events: list[Event]) -> None:
    """Which events are delivered, and what is in them."""
    kinds = [event["type"] for event in events]
    if "eventTypes" in expect:
        assert kinds == expect["eventTypes"]
    for absent in expect.get("eventTypesAbsent", []):
        assert absent not in kinds
    for path, value in expect.get("eventPaths", {}).items():
        assert covers(at(events, path), value), path
    for path in expect.get("eventAbsentPaths", []):
        with pytest.raises(KeyError):
            at(events, path)


def check_request(expect: Any, request: Any) -> None:
    """What is sent for the run."""
    expected = expect.get("request", {})
    if "protocolVersion" in expected:
        # What is declared is the version of the installed SDK; the corpus is that of 1.1.
        expected = {**expected, "protocolVersion": PROTOCOL_VERSION}
    assert covers(request, expected), request
    for path in expect.get("requestAbsentPaths", []):
        with pytest.raises(KeyError):
            at(request, path)


def check_warnings(expect: Any, seen: list[Deviation]) -> None:
    """What is reported."""
    warnings = [str(one) for one in seen]
    for warning in expect.get("warnings", []):
        assert said(warning, warnings), (warning, warnings, SAYS[warning])
    if expect.get("noWarnings"):
        assert warnings == []


def check(
    case: Any,
    delivered: list[Any],
    error: AGUIError | None,
    seen: list[Deviation],
    as_dict: bool = True,
) -> None:
    expect = case["expect"]
    assert set(expect) <= CHECKED
    outcome = "completed" if error is None else "failed"
    assert outcome == expect["outcome"], error
    if "errorContains" in expect:
        assert said(expect["errorContains"], [str(error)]), str(error)
    events = wire(delivered)
    kinds = [event["type"] for event in events]
    if "runError" in expect:
        assert [event["message"] for event in events if event["type"] == "RUN_ERROR"] == [
            expect["runError"]
        ]
    else:
        assert "RUN_ERROR" not in kinds
    check_events(expect, events)
    conversation = reduced(case, delivered, seen, as_dict)
    for key in conversation.keys() & expect.keys():
        assert covers(conversation[key], expect[key]), (key, conversation[key])
    request_seen: list[Deviation] = []
    given = {"threadId": "t", "runId": "r", "messages": [], **case.get("input", {})}
    peer = case.get("client", {}).get("maxProtocolVersion")
    request = downgrade_input(given, peer, on_deviation=request_seen.append)
    check_request(expect, request)
    check_warnings(expect, [*seen, *request_seen])


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


async def apieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for piece in pieces(data, size):
        yield piece


STREAMS = corpus_files("conformance/streams/*.json")
SIZES = [1, 7, 1 << 20]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("as_dict", [True, False], ids=["dicts", "models"])
@pytest.mark.parametrize("path", STREAMS)
def test_over_sse(path: Path, as_dict: bool, size: int) -> None:
    case = json.loads(path.read_text("utf-8"))
    assert path.stem not in DIFFERENCES
    seen: list[Deviation] = []
    pipeline = client_pipeline(SSE_MEDIA_TYPE, as_dict=as_dict, on_deviation=seen.append)
    events, error = [], None
    try:
        for event in through(pieces(sse(case["stream"]), size), pipeline):
            assert isinstance(event, dict) == as_dict
            events.append(event)
    except AGUIError as failure:
        error = failure
    check(case, events, error, seen, as_dict)


@pytest.mark.parametrize("path", STREAMS)
def test_over_sse_asynchronously(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    seen: list[Deviation] = []
    events, errors = [], []

    async def main() -> None:
        pipeline = client_pipeline(as_dict=True, on_deviation=seen.append)
        try:
            async for event in athrough(apieces(sse(case["stream"]), 7), pipeline):
                events.append(event)
        except AGUIError as failure:
            errors.append(failure)

    asyncio.run(main())
    check(case, events, errors[0] if errors else None, seen)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", STREAMS)
def test_over_protobuf(path: Path, size: int) -> None:
    case = json.loads(path.read_text("utf-8"))
    try:
        data = binary(case["stream"])
    except EncodeError:
        assert path.stem in NOT_BINARY
        return
    if path.stem in NOT_BINARY:
        return
    seen: list[Deviation] = []
    pipeline = client_pipeline(AGUI_MEDIA_TYPE, as_dict=True, on_deviation=seen.append)
    events, error = [], None
    try:
        events += through(pieces(data, size), pipeline)
    except AGUIError as failure:
        error = failure
    check(case, events, error, seen)


@pytest.mark.parametrize("media_type", [SSE_MEDIA_TYPE, AGUI_MEDIA_TYPE])
def test_the_addition_of_1_1_comes_through_on_both_wires(media_type: str) -> None:
    """``encryptedValueType``, wherever the schema has it; the SDK may be of 1.0."""
    sealed = {"encryptedValue": "v", "encryptedValueType": "signature"}
    function = {"name": "f", "arguments": "{}"}
    messages: list[Event] = [
        {"id": role, "role": role, "content": "a", **sealed}
        for role in ("developer", "system", "user", "assistant", "reasoning")
    ]
    messages[3]["toolCalls"] = [{"id": "c", "type": "function", "function": function, **sealed}]
    messages.append({"id": "tool", "role": "tool", "toolCallId": "c", "content": "", **sealed})
    ids = {"threadId": "t", "runId": "r"}
    events: list[Event] = [
        {"type": "RUN_STARTED", **ids, "protocolVersion": "1.1"},
        {"type": "MESSAGES_SNAPSHOT", "messages": messages},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "reasoning",
            **sealed,
        },
        {"type": "RUN_FINISHED", **ids},
    ]
    data = sse(events) if media_type == SSE_MEDIA_TYPE else binary(events)
    for as_dict in (True, False):
        pipeline = client_pipeline(media_type, as_dict=as_dict, on_deviation=pytest.fail)
        output = [*pipeline.feed(data), *pipeline.close()]
        assert pipeline.error is None
        assert wire(output) == events


def test_the_table_has_nothing_that_the_corpus_does_not_say(shared: Path) -> None:
    used = set()
    for path in (shared / "conformance/streams").glob("*.json"):
        expect = json.loads(path.read_text("utf-8"))["expect"]
        used |= {expect["errorContains"]} if "errorContains" in expect else set()
        used |= set(expect.get("warnings", []))
    assert used == set(SAYS)
