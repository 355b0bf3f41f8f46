"""Decoding Server-Sent Events to wire dicts and to models, against what Python has otherwise."""

import json
import operator
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import httpx
import httpx_sse
from ag_ui import core
from pydantic import TypeAdapter

from agui_codec import EventDecoder, EventEncoder, _demo, decode_event, to_json
from agui_codec._demo import Contender, Document
from benches import suite
from benches.suite import ROOT, Absent, Budget

FLOOR = "orjson.loads of the documents alone"

DICTS = "agui_codec, dicts"
MODELS = "agui_codec, models"
ONE = "agui_codec.decode_event"
HAND = "hand loop + orjson"
LANGGRAPH = "LangGraph recording to dicts"

BUDGETS = {
    ("SSE token stream to dicts", DICTS): Budget(faster=18, floor=0.8),
    ("SSE token stream to models", MODELS): Budget(faster=9),
    ("text delta to model", ONE): Budget(faster=3),
    ("every valid fixture to model", ONE): Budget(faster=1),
    (LANGGRAPH, DICTS): Budget(faster=1),
}

# What a TCP segment holds.
CHUNK = 1400

ADAPTER: TypeAdapter[Any] = TypeAdapter(core.Event)


def documents() -> list[Document | Absent]:
    """A token stream, single documents, and a recorded run."""
    deltas = _demo.text_deltas() * 5
    texts = [to_json(event) for event in deltas]
    stream = EventEncoder().encode_many(deltas)
    chunks = [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]
    return [
        Document(
            "SSE token stream to dicts",
            len(texts),
            [
                Contender("httpx-sse + json", lambda: with_httpx_sse(chunks, json.loads), same),
                Contender(DICTS, lambda: decoded(chunks, as_dict=True), same),
                *with_orjson(texts, chunks),
            ],
        ),
        Document(
            "SSE token stream to models",
            len(texts),
            [
                Contender(
                    "httpx-sse + TypeAdapter",
                    lambda: with_httpx_sse(chunks, ADAPTER.validate_json),
                    same,
                ),
                Contender(MODELS, lambda: decoded(chunks), same),
            ],
        ),
        single("text delta to model", texts[:200]),
        fixtures(),
        *recording("langgraph.sse"),
    ]


same = operator.eq


def decoded(chunks: Iterable[bytes], **options: Any) -> Iterator[Any]:
    """The events of a stream, as this package decodes them."""
    decoder = EventDecoder(**options)
    for chunk in chunks:
        yield from decoder.feed(chunk)
    yield from decoder.close()


def with_httpx_sse(chunks: list[bytes], read: Callable[[str], Any]) -> Iterator[Any]:
    """The events of a response, as a client of httpx reads them."""

    class Stream(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(chunks)

    headers = {"content-type": "text/event-stream"}
    response = httpx.Response(200, headers=headers, stream=Stream())
    for sse in httpx_sse.EventSource(response).iter_sse():
        yield read(sse.data)


def with_orjson(texts: list[bytes], chunks: list[bytes]) -> list[Contender]:
    """What orjson does with the bare documents, and in a loop that takes LF LF for the end."""
    try:
        loads = import_module("orjson").loads
    except ModuleNotFoundError:
        return []

    def hand_loop() -> Iterator[Any]:
        rest = b""
        for chunk in chunks:
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                yield loads(block[6:])

    return [
        Contender(HAND, hand_loop, same),
        Contender(FLOOR, lambda: each(loads, texts), same),
    ]


def each(read: Callable[[bytes], Any], texts: list[bytes]) -> Iterator[Any]:
    """The results of one call a document."""
    for text in texts:
        yield read(text)


def single(name: str, texts: list[bytes]) -> Document:
    """Documents by themselves, to models."""
    return Document(
        name,
        len(texts),
        [
            Contender(
                "TypeAdapter(Event).validate_json",
                lambda: each(ADAPTER.validate_json, texts),
                same,
            ),
            Contender(ONE, lambda: each(decode_event, texts), same),
        ],
    )


def fixtures() -> Document | Absent:
    """The conformance documents that the official validator accepts."""
    name = "every valid fixture to model"
    folder = ROOT.parent / "shared" / "conformance" / "fixtures"
    if not folder.is_dir():
        return Absent(name, f"{folder} is not there")
    texts = []
    for path in sorted(folder.glob("*Event/valid/*.json")):
        text = json.dumps(json.loads(path.read_bytes()), separators=(",", ":")).encode()
        try:
            ADAPTER.validate_json(text)
        except ValueError:
            continue
        texts.append(text)
    return single(name, texts)


def recording(file: str) -> list[Document | Absent]:
    """A recorded run."""
    path = suite.recording(file)
    if not path.exists():
        return [Absent(LANGGRAPH, f"{path} is missing")]
    stream = path.read_bytes()
    chunks = [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]
    texts = [block[6:] for block in stream.split(b"\n\n") if block]
    ours = Contender(DICTS, lambda: decoded(chunks, as_dict=True), same)
    others = with_orjson(texts, chunks)
    to_dicts: Document | Absent = Absent(LANGGRAPH, "orjson is not installed")
    if others:
        hand, floor = others
        to_dicts = Document(LANGGRAPH, len(texts), [hand, ours, floor])
    to_models = Document(
        "LangGraph recording to models",
        len(texts),
        [
            Contender(
                "TypeAdapter(Event).validate_json",
                lambda: each(ADAPTER.validate_json, texts),
                same,
            ),
            Contender(MODELS, lambda: decoded(chunks), same),
        ],
    )
    return [to_dicts, to_models]
