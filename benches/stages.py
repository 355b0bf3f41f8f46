"""The stages: expansion and verification against TypeScript's, and a pipeline against decoding."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from agui_codec import (
    ChunkExpander,
    EventDecoder,
    EventEnforcer,
    EventVerifier,
    Pipeline,
    client_pipeline,
)
from agui_codec._demo import Contender, Document
from benches import suite
from benches.suite import Absent, Budget, node_missing, seconds_in_node

TYPESCRIPT = "@ag-ui/client (Node)"
OURS = "agui-codec"
DECODER = "EventDecoder alone"
PIPELINE = "client_pipeline"

FLOOR = DECODER

DELTAS = "expand and verify, text deltas"
CHUNKS = "expand and verify, chunks"
PIECES = "SSE to verified dicts, an event at a time"
ENFORCE = "enforce a clean text delta"
ENFORCE_TOO = "enforce a clean text delta, in a pipeline"

BUDGETS = {
    (DELTAS, OURS): Budget(faster=3),
    (CHUNKS, OURS): Budget(faster=3),
    (PIECES, PIPELINE): Budget(floor=2),
    (ENFORCE, OURS): Budget(net=60),
    (ENFORCE_TOO, "enforce, expand, verify"): Budget(net=60),
    ("SSE to verified dicts, LangGraph recording", PIPELINE): Budget(floor=2),
    ("SSE to verified dicts, Pydantic AI recording", PIPELINE): Budget(floor=2),
}

Event = dict[str, Any]
START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def documents() -> list[Document | Absent]:
    """Streams of deltas and of chunks, and recorded ones."""
    delta = {"messageId": "msg_0123456789", "delta": "Hello, wor"}
    opened = [START, {"type": "TEXT_MESSAGE_START", "messageId": delta["messageId"]}]
    closed = [{"type": "TEXT_MESSAGE_END", "messageId": delta["messageId"]}, FINISH]
    deltas = [*opened, *({"type": "TEXT_MESSAGE_CONTENT", **delta} for _ in range(2000)), *closed]
    chunks = [START, *({"type": "TEXT_MESSAGE_CHUNK", **delta} for _ in range(2000)), FINISH]
    frames = [
        b"data: %s\n\n" % json.dumps(event, separators=(",", ":")).encode() for event in deltas
    ]
    return [
        expand_and_verify(DELTAS, deltas),
        expand_and_verify(CHUNKS, chunks),
        decode_and_verify(PIECES, frames),
        recording("LangGraph recording", "langgraph.sse"),
        recording("Pydantic AI recording", "pydantic_ai.sse"),
        enforce(deltas[2:-2]),
        enforce_too(deltas),
    ]


def expand_and_verify(name: str, events: list[Event]) -> Document | Absent:
    """What comes out is compared by the tests; here an item is what one event gives."""
    if reason := node_missing():
        return Absent(name, reason)

    def seconds() -> float:
        return seconds_in_node("stream_bench.mjs", events)

    def ours() -> Iterator[Any]:
        feed = Pipeline(ChunkExpander(), EventVerifier()).feed
        for event in events:
            yield feed(event)

    contenders = [
        Contender(TYPESCRIPT, ours, seconds=seconds),
        Contender(OURS, ours, agrees=_equal),
    ]
    return Document(name, len(events), contenders)


def decode_and_verify(name: str, chunks: list[bytes]) -> Document:
    """Bytes to dicts, with and without all that a client makes them go through."""

    def through(stage: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
        def results() -> Iterator[Any]:
            made = stage()
            for chunk in chunks:
                yield from made.feed(chunk)
            yield from made.close()

        return results

    contenders = [
        Contender(DECODER, through(lambda: EventDecoder(as_dict=True)), agrees=_equal),
        Contender(PIPELINE, through(lambda: client_pipeline(as_dict=True)), agrees=_equal),
    ]
    count = sum(chunk.count(b"data: ") for chunk in chunks)
    return Document(name, count, contenders)


def recording(name: str, file: str) -> Document | Absent:
    """A recorded stream, in one piece."""
    name = f"SSE to verified dicts, {name}"
    path = suite.recording(file)
    if not path.exists():
        return Absent(name, f"{path} is missing")
    return decode_and_verify(name, [path.read_bytes()])


def enforce(events: list[Event]) -> Document:
    """Enforcement of what is clean, beside a builtin method that does nothing with an event.

    What is beyond that is enforcement, and neither the loop nor the call.
    """

    def through(feed: Callable[[Event], Any]) -> Iterator[Any]:
        for event in events:
            yield feed(event)

    def passed(result: Any, _: None) -> bool:
        return bool(result == [events[0]])

    nothing: deque[Event] = deque(maxlen=0)
    contenders = [
        Contender("an empty builtin method", lambda: through(nothing.append)),
        Contender(OURS, lambda: through(EventEnforcer().feed), agrees=passed),
    ]
    return Document(ENFORCE, len(events), contenders)


def enforce_too(events: list[Event]) -> Document:
    """What enforcement adds to a pipeline, whose stages share their look at an event."""

    def through(*stages: Any) -> Iterator[Any]:
        feed = Pipeline(*stages).feed
        for event in events:
            yield feed(event)

    contenders = [
        Contender("expand, verify", lambda: through(ChunkExpander(), EventVerifier())),
        Contender(
            "enforce, expand, verify",
            lambda: through(EventEnforcer(), ChunkExpander(), EventVerifier()),
            agrees=_equal,
        ),
    ]
    return Document(ENFORCE_TOO, len(events), contenders)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)
