"""Encoding events as Server-Sent Events: models and dicts, against the official encoder."""

import json
from collections.abc import Iterator
from typing import Any

from ag_ui import core
from ag_ui.encoder import EventEncoder as OfficialEncoder
from pydantic import TypeAdapter

from agui_codec import EventEncoder, _demo, install, uninstall
from agui_codec._demo import DICT, JSON, MODEL, OFFICIAL, ORJSON, Contender, Document
from benches import suite
from benches.suite import Absent, Budget

FLOOR = ORJSON

LANGGRAPH = "LangGraph recording"
PYDANTIC_AI = "Pydantic AI recording"

BUDGETS = {
    ("text delta", MODEL): Budget(faster=25, floor=0.9),
    ("text delta", DICT): Budget(floor=0.8),
    ("MESSAGES_SNAPSHOT, 100 messages", MODEL): Budget(faster=40, floor=1.5),
    ("STATE_SNAPSHOT, 200 records", MODEL): Budget(faster=8, floor=1.5),
    (LANGGRAPH, MODEL): Budget(faster=11, floor=1.3),
    (PYDANTIC_AI, MODEL): Budget(faster=15),
}


def documents() -> list[Document | Absent]:
    """Single events of each kind that matters, and two recorded runs."""
    text_delta, messages, state = _demo.documents()
    return [
        text_delta,
        _demo.encoding("text delta, dicts read from JSON", *_read_from_json(_demo.text_deltas())),
        construct_and_encode(),
        _demo.encoding("text delta, of a subclass", subclass_deltas()),
        encoder_for_each_event(),
        _demo.encoding("tool args", tool_args()),
        messages,
        state,
        recording(LANGGRAPH, "langgraph.sse"),
        recording(PYDANTIC_AI, "pydantic_ai.sse"),
    ]


def _read_from_json(events: list[core.BaseEvent]) -> tuple[list[core.BaseEvent], list[Any]]:
    """The events with their dicts as a gateway has them: no key is interned."""
    return events, [json.loads(event.model_dump_json(by_alias=True)) for event in events]


def tool_args() -> list[core.BaseEvent]:
    """The arguments of a call in 100 pieces: JSON in a string, so full of quotes to escape."""
    arguments = json.dumps({f"field_{index}": f'a "value" of {index}' for index in range(60)})
    size = len(arguments) // 100 + 1
    return [
        core.ToolCallArgsEvent(tool_call_id="call_9S1GLOzvKHb9", delta=arguments[at : at + size])
        for at in range(0, len(arguments), size)
    ]


class Chunk(core.TextMessageContentEvent):
    """As integrations derive from events, to name them."""


def subclass_deltas() -> list[core.BaseEvent]:
    """The text deltas as a class derived from theirs, which adds nothing to what is written."""
    return [Chunk(message_id=_demo.MESSAGE_ID, delta=delta) for delta in _demo.tokens()]


def encoder_for_each_event() -> Document:
    """As some integrations do: an encoder of the official class for each event, under install()."""
    # So many that install() itself counts for little.
    events = _demo.text_deltas() * 20

    def texts() -> Iterator[str]:
        for event in events:
            yield OfficialEncoder().encode(event)

    def installed() -> Iterator[str]:
        install()
        try:
            yield from texts()
        finally:
            uninstall()

    contenders = [Contender(OFFICIAL, texts), Contender("agui_codec, installed", installed)]
    return Document("text delta, an encoder for each", len(events), contenders)


def construct_and_encode() -> Document:
    """What a server does for a token: make the event, then encode it."""
    message_id = _demo.MESSAGE_ID
    deltas = _demo.tokens()

    def models(encoder: OfficialEncoder) -> Iterator[str]:
        encode = encoder.encode
        for delta in deltas:
            yield encode(core.TextMessageContentEvent(message_id=message_id, delta=delta))

    def dicts() -> Iterator[bytes]:
        encode = EventEncoder().encode_binary
        for delta in deltas:
            yield encode({"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta})

    def with_json() -> Iterator[str]:
        dumps = json.dumps
        for delta in deltas:
            event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}
            yield "data: " + dumps(event) + "\n\n"

    contenders = [
        Contender(OFFICIAL, lambda: models(OfficialEncoder())),
        Contender(MODEL, lambda: models(EventEncoder())),
        Contender(DICT, dicts),
        Contender(JSON, with_json, _demo.same_json),
    ]
    if dumps := _demo.orjson_dumps():

        def with_orjson() -> Iterator[bytes]:
            for delta in deltas:
                event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}
                yield b"data: " + dumps(event) + b"\n\n"

        contenders.append(Contender(ORJSON, with_orjson, _demo.same_json))
    return Document("text delta, construct + encode", len(deltas), contenders)


def recording(name: str, file: str) -> Document | Absent:
    """A recorded run, encoded event by event."""
    path = suite.recording(file)
    if not path.exists():
        return Absent(name, f"{path} is missing")
    lines = [line[6:] for line in path.read_bytes().split(b"\n") if line.startswith(b"data: ")]
    adapter: TypeAdapter[core.BaseEvent] = TypeAdapter(core.Event)
    events = [adapter.validate_json(line) for line in lines]
    return _demo.encoding(name, events, [json.loads(line) for line in lines])
