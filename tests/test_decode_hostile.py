"""The decoder under attack: what it costs, what it keeps, and that it never crashes."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_codec import (
    AGUIError,
    DecodeError,
    EventDecoder,
    FrameTooLargeError,
    decode_event,
    iter_events,
    proto,
)
from conftest import MEMORY_NOISE, on_small_stack
from counting import instructions

if TYPE_CHECKING:
    from collections.abc import Iterator

SSE = "text/event-stream"
PROTOBUF = "application/vnd.ag-ui.event+proto"
JSONL = "application/x-ndjson"
TRANSPORTS = (SSE, PROTOBUF, JSONL)


def framed(content_type: str, event: dict[str, Any]) -> bytes:
    if content_type == PROTOBUF:
        message = proto.encode(event)
        return len(message).to_bytes(4, "big") + message
    document = json.dumps(event).encode()
    return document + b"\n" if content_type == JSONL else b"data: " + document + b"\n\n"


RUN: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "é\n"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"a": [1.5, None, {"b": "\\"}], "c": -1}},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]},
    {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [{"id": "1", "role": "user", "content": [{"type": "text", "text": "x"}]}],
    },
]


def drain(content_type: str, chunks: list[bytes], **options: Any) -> tuple[list[Any], str | None]:
    """The events and the error of a stream, whatever it holds."""
    decoder = EventDecoder(content_type, on_deviation=lambda _: None, **options)
    events: list[Any] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        events += decoder.close()
    except AGUIError as error:
        return events, str(error)
    return events, None


def split(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


@given(st.sampled_from(TRANSPORTS), st.binary(max_size=200), st.booleans())
def test_random_bytes(content_type: str, stream: bytes, as_dict: bool) -> None:
    whole = drain(content_type, [stream], as_dict=as_dict)
    assert drain(content_type, split(stream, 1), as_dict=as_dict) == whole
    for prefix in (b"data: ", b"\x00\x00\x00\x40"):
        drain(content_type, [prefix, stream], as_dict=as_dict)


@given(st.sampled_from(TRANSPORTS), st.data(), st.booleans())
def test_flipped_bits(content_type: str, data: st.DataObject, as_dict: bool) -> None:
    stream = bytearray(b"".join(framed(content_type, event) for event in RUN))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    whole = drain(content_type, [bytes(stream)], as_dict=as_dict)
    size = data.draw(st.integers(1, 50))
    assert drain(content_type, split(bytes(stream), size), as_dict=as_dict) == whole


@given(st.data(), st.booleans())
def test_cut_and_pasted(data: st.DataObject, as_dict: bool) -> None:
    document = json.dumps(data.draw(st.sampled_from(RUN)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(document))] * 2)))
    pasted = data.draw(st.sampled_from(["", '"', "{", "[" * 300, "\\u", "1e999", "NaN", "\x00"]))
    mutant = document[:start] + pasted + document[end:]
    try:
        event = decode_event(mutant, as_dict=as_dict)
    except DecodeError:
        return
    expected = json.loads(mutant)
    if as_dict:
        assert event == expected


@pytest.mark.parametrize("content_type", [SSE, JSONL])
def test_deep_nesting_on_a_small_stack(content_type: str) -> None:
    def work() -> None:
        for opening in ("[", '{"a":'):
            for key in ("event", "unknown"):
                document = f'{{"type":"RAW","{key}":{opening * 100_000}'
                line = b"data: " + document.encode() + b"\n\n"
                for as_dict in (True, False):
                    events, error = drain(
                        content_type,
                        [line if content_type == SSE else document.encode() + b"\n"],
                        as_dict=as_dict,
                    )
                    assert events == []
                    assert error is not None
                    assert "nested deeper than 254 levels" in error

    work()
    on_small_stack(work)


@pytest.mark.parametrize("as_dict", [True, False])
def test_deep_nesting_over_protobuf_on_a_small_stack(as_dict: bool) -> None:
    def work() -> None:
        for levels in (200, 240):
            value: Any = None
            for _ in range(levels):
                value = [value]
            message = proto.encode({"type": "RAW", "event": value})
            frame = len(message).to_bytes(4, "big") + message
            events, error = drain(PROTOBUF, split(frame, 64), as_dict=as_dict)
            assert error is None
            assert len(events) == 1

    work()
    on_small_stack(work)


# --- work and memory -----------------------------------------------------------------------


GROWING = """
import json

from agui_codec import EventDecoder, proto

def split(stream):
    return [stream[at : at + 64] for at in range(0, len(stream), 64)]

def decode(content_type, chunks):
    decoder = EventDecoder(content_type, as_dict=True)
    events = 0
    for chunk in chunks:
        events += len(decoder.feed(chunk))
    assert events == 1

def large(size):
    event = {"type": "STATE_SNAPSHOT", "snapshot": "x" * size}
    text, message = json.dumps(event).encode(), proto.encode(event)
    return {
        "text/event-stream": b"data: " + text + b"\\n\\n",
        "application/vnd.ag-ui.event+proto": len(message).to_bytes(4, "big") + message,
        "application/x-ndjson": text + b"\\n",
    }

def lines(count):
    return b'data: {"type":"RAW","event":[\\n' + b"data: 1,\\n" * count + b"data: 1]}\\n\\n"

for times in (1, 4):
    for content_type, stream in large(times << 18).items():
        chunks = split(stream)
        count(f"{content_type} {times}", lambda: decode(content_type, chunks))
    chunks = split(lines(times * 20_000))
    count(f"lines {times}", lambda: decode("text/event-stream", chunks))
"""


def test_work_grows_with_the_input() -> None:
    """An event four times as long, or of four times as many lines, in 64-byte chunks, is four times
    the work: quadratic work would be sixteen times."""
    counts = instructions(GROWING)
    assert {name.rsplit(" ", 1)[0] for name in counts} == {*TRANSPORTS, "lines"}
    for name, count in counts.items():
        if name.endswith(" 4"):
            growth = count / counts[name[:-1] + "1"]
            assert 3.5 < growth < 4.4, f"{name}: {growth:.2f}"


def resident(*, collected: bool = True) -> int:
    if collected:
        gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.serial
@pytest.mark.parametrize(
    ("content_type", "piece"),
    [
        (SSE, b"x" * 65536),
        (SSE, b"data: " + b"x" * 65530),
        (SSE, b"data: x\n" * 8192),
        (SSE, b"data:\n" * 8192),
        (SSE, b"data\n" * 8192),
        (JSONL, b"x" * 65536),
    ],
    ids=["no line end", "one line", "lines", "empty lines", "lines without a colon", "JSON Lines"],
)
def test_s10_what_does_not_end_is_refused_and_not_kept(content_type: str, piece: bytes) -> None:
    before = resident()
    decoder = EventDecoder(content_type)
    fed = 0
    peak = 0
    error = None
    while error is None and fed < 256 << 20:
        try:
            decoder.feed(piece)
        except FrameTooLargeError as caught:
            error = caught
        fed += len(piece)
        if fed % (1 << 20) < len(piece) or error is not None:
            peak = max(peak, resident(collected=False))
    assert error is not None
    # At most the limit, in a buffer that has doubled.
    assert peak - before < 32 << 20
    if len(set(piece)) == 1:
        assert fed <= (10 << 20) + 2 * len(piece)


@pytest.mark.serial
def test_s10_one_chunk_beyond_the_limit_is_not_copied() -> None:
    chunk = b"data: " + b"x" * (64 << 20)
    before = resident()
    with pytest.raises(FrameTooLargeError):
        EventDecoder().feed(chunk)
    assert resident() - before < 4 << 20


@pytest.mark.serial
def test_p6_a_length_of_4_gib_reserves_nothing() -> None:
    before = resident()
    with pytest.raises(FrameTooLargeError):
        EventDecoder(PROTOBUF, max_event_bytes=1 << 30).feed(b"\xff\xff\xff\xff")
    decoder = EventDecoder(PROTOBUF, max_event_bytes=1 << 32)
    assert decoder.feed(b"\xff\xff\xff\xff" + b"x" * 1000) == []
    assert resident() - before < 4 << 20


@pytest.mark.serial
@pytest.mark.parametrize("as_dict", [True, False])
@pytest.mark.parametrize("content_type", TRANSPORTS)
def test_a_stream_of_1_gib_takes_no_memory(content_type: str, as_dict: bool) -> None:
    """As one run in a day of a busy gateway: neither behind it nor on the way."""
    events = [{**RUN[1], "delta": "x" * 1000, "messageId": f"m{at}"} for at in range(1000)]
    piece = b"".join(framed(content_type, event) for event in events)
    rounds = (1 << 30) // len(piece) + 1
    peak = 0

    def stream(rounds: int) -> Iterator[bytes]:
        nonlocal peak
        for _ in range(rounds):
            yield from split(piece, 65536)
            peak = max(peak, resident(collected=False))

    def run(rounds: int) -> None:
        count = sum(1 for _ in iter_events(stream(rounds), content_type, as_dict=as_dict))
        assert count == rounds * len(events)

    run(rounds // 20)
    before = resident()
    peak = 0
    run(rounds)
    assert peak - before < 4 << 20
    assert resident() - before < 4 << 20


@pytest.mark.serial
@pytest.mark.parametrize("as_dict", [True, False])
def test_errors_leave_nothing_behind(as_dict: bool) -> None:
    streams = [
        framed(SSE, RUN[0]) + b"data: " + bad + b"\n\n"
        for bad in (b"x", b'{"type":5}', b'{"type":"RUN_ERROR"}', b"[" * 300, b'{"a":"\xff"}')
    ]

    def work() -> None:
        for stream in streams:
            drain(SSE, [stream, b""], as_dict=as_dict)

    for _ in range(300):
        work()
    before = resident()
    for _ in range(3000):
        work()
    assert resident() - before < MEMORY_NOISE
