"""The decoder over protobuf and JSON Lines, and recordings of each."""

from __future__ import annotations

import gzip
import json
import random
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_codec import (
    AGUIError,
    DecodeError,
    Deviation,
    EventDecoder,
    FrameTooLargeError,
    SSEParser,
    TruncatedStreamError,
    UnknownEventError,
    decode_event,
    proto,
    read_events,
)
from by_hand import tag

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PROTOBUF = "application/vnd.ag-ui.event+proto"
JSONL = "application/x-ndjson"

EVENTS: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "çš漢😀"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"a": [1, None, {"b": "x" * 300}]}},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
]
# Field 99 of the envelope, a message: an event from the future.
FUTURE = b"\xfa\x06\x02\x08\x01"


def frame(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


STREAMS = {
    PROTOBUF: b"".join(frame(proto.encode(event)) for event in EVENTS),
    JSONL: b"\n".join(json.dumps(event).encode() for event in EVENTS) + b"\r\n\n",
}


def decode(content_type: str, chunks: Iterable[bytes], **options: Any) -> list[Any]:
    decoder = EventDecoder(content_type, **options)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.close()


def until_error(decoder: EventDecoder, chunks: Iterable[bytes]) -> tuple[list[Any], DecodeError]:
    """The events before an error, and the error."""
    events = []
    for chunk in chunks:
        try:
            events += decoder.feed(chunk)
        except DecodeError as error:
            return events, error
    with pytest.raises(DecodeError) as caught:
        decoder.close()
    return events, caught.value


def split(stream: bytes, size: int) -> Iterable[bytes]:
    return (stream[at : at + size] for at in range(0, len(stream), size))


@pytest.mark.parametrize("content_type", STREAMS)
class TestBoth:
    @pytest.mark.parametrize("as_dict", [True, False])
    def test_chunking_independence(self, content_type: str, as_dict: bool) -> None:
        stream = STREAMS[content_type]
        expected = [decode_event(json.dumps(event), as_dict=as_dict) for event in EVENTS]
        assert decode(content_type, [stream], as_dict=as_dict) == expected
        for cut in range(len(stream) + 1):
            assert decode(content_type, [stream[:cut], stream[cut:]], as_dict=as_dict) == expected
        assert decode(content_type, split(stream, 1), as_dict=as_dict) == expected

    @given(cuts=st.lists(st.integers(0, 900)))
    def test_random_cuts(self, content_type: str, cuts: list[int]) -> None:
        stream = STREAMS[content_type]
        edges = [0, *sorted(cuts), len(stream)]
        pieces = [stream[a:b] for a, b in pairwise(edges)]
        assert decode(content_type, pieces, as_dict=True) == EVENTS

    def test_parameters_of_the_content_type(self, content_type: str) -> None:
        for spelling in (content_type.upper(), f"{content_type}; x=y", f" {content_type} ;"):
            assert decode(spelling, [STREAMS[content_type]], as_dict=True) == EVENTS

    def test_each_event_with_its_last_byte(self, content_type: str) -> None:
        for event in EVENTS:
            line = json.dumps(event).encode() + b"\n"
            one = line if content_type == JSONL else frame(proto.encode(event))
            decoder = EventDecoder(content_type, as_dict=True)
            for at in range(len(one) - 1):
                assert decoder.feed(one[at : at + 1]) == []
            assert decoder.feed(one[-1:]) == [event]

    def test_many_in_one_chunk(self, content_type: str) -> None:
        stream = STREAMS[content_type] * 3000
        events = EventDecoder(content_type, as_dict=True, max_event_bytes=500).feed(stream)
        assert len(events) == 3000 * len(EVENTS)


def test_the_older_spelling() -> None:
    assert decode("application/x-ag-ui", [STREAMS[PROTOBUF]], as_dict=True) == EVENTS


UNKNOWN = '{"type":"FUTURE","b":[1,null]}'
STREAMS_UNKNOWN = {
    "text/event-stream": b"data: " + UNKNOWN.encode() + b"\n\n",
    JSONL: UNKNOWN.encode() + b"\n",
    PROTOBUF: frame(FUTURE),
}
LAST = {
    "text/event-stream": b"data: " + json.dumps(EVENTS[-1]).encode() + b"\n\n",
    JSONL: json.dumps(EVENTS[-1]).encode() + b"\n",
    PROTOBUF: frame(proto.encode(EVENTS[-1])),
}
NO_EVENT = {"text/event-stream": b"data: x\n\n", JSONL: b"x\n", PROTOBUF: frame(b"\xff")}


@pytest.mark.parametrize("as_dict", [True, False])
@pytest.mark.parametrize("content_type", LAST)
class TestEachTransportAndMode:
    @pytest.mark.parametrize("on_unknown", ["forward", "drop"])
    def test_unknown_events(self, content_type: str, as_dict: bool, on_unknown: Any) -> None:
        seen: list[Deviation] = []
        options: dict[str, Any] = {"on_unknown": on_unknown, "on_deviation": seen.append}
        last = decode(content_type, [LAST[content_type]], as_dict=as_dict)
        stream = LAST[content_type] + STREAMS_UNKNOWN[content_type] + LAST[content_type]
        for size in (1, len(stream)):
            seen.clear()
            events = decode(content_type, split(stream, size), as_dict=as_dict, **options)
            # Over protobuf nothing is known of it that could be forwarded.
            forwarded = on_unknown == "forward" and content_type != PROTOBUF
            assert events == last + [json.loads(UNKNOWN)] * forwarded + last
            assert [deviation.kind for deviation in seen] == ["unknown_event"] * (not forwarded)

    @pytest.mark.parametrize(
        ("stream", "error"), [(STREAMS_UNKNOWN, UnknownEventError), (NO_EVENT, DecodeError)]
    )
    def test_an_error_is_final(
        self, content_type: str, as_dict: bool, stream: dict[str, bytes], error: type[DecodeError]
    ) -> None:
        good, bad = LAST[content_type], stream[content_type]
        for chunks in ([good, bad, good], [good + bad + good]):
            decoder = EventDecoder(content_type, as_dict=as_dict, on_unknown="raise")
            events, caught = until_error(decoder, chunks)
            assert events == decode(content_type, [good], as_dict=as_dict)
            assert type(caught) is error
            assert caught.event_index == 1
            assert caught.offset in range(len(good), len(good + bad) + 1)
            for call in (decoder.close, partial(decoder.feed, good), partial(decoder.feed, b"")):
                with pytest.raises(error) as again:
                    call()
                assert again.value is caught is decoder.error


class TestProtobuf:
    def test_offsets_of_errors(self) -> None:
        bad = frame(b"\x0a\x02\x0a\xff")
        stream = STREAMS[PROTOBUF] + bad + STREAMS[PROTOBUF]
        errors = set()
        for size in (1, 64, len(stream)):
            events, error = until_error(EventDecoder(PROTOBUF, as_dict=True), split(stream, size))
            assert events == EVENTS
            assert error.event_index == len(EVENTS)
            assert error.offset in range(len(STREAMS[PROTOBUF]) + 4, len(STREAMS[PROTOBUF] + bad))
            errors.add((error.offset, str(error)))
        assert len(errors) == 1

    def test_p6_a_length_beyond_the_limit(self) -> None:
        for size in (1, 3, 1000):
            decoder = EventDecoder(PROTOBUF, as_dict=True)
            stream = STREAMS[PROTOBUF] + b"\xff\xff\xff\xff"
            events, error = until_error(decoder, split(stream, size))
            assert events == EVENTS
            assert type(error) is FrameTooLargeError
            assert "4294967295 bytes" in str(error)
            assert (error.offset, error.event_index) == (len(STREAMS[PROTOBUF]), len(EVENTS))
            with pytest.raises(FrameTooLargeError):
                decoder.close()

    def test_p6_a_cut_stream(self) -> None:
        for cut in range(1, len(frame(proto.encode(EVENTS[-1])))):
            decoder = EventDecoder(PROTOBUF, as_dict=True)
            assert decoder.feed(STREAMS[PROTOBUF][:-cut]) == EVENTS[:-1]
            with pytest.raises(TruncatedStreamError, match="event 5: the stream ended") as caught:
                decoder.close()
            assert caught.value.offset == len(STREAMS[PROTOBUF]) - cut

    def test_p6_an_empty_message(self) -> None:
        with pytest.raises(DecodeError, match="event 0"):
            EventDecoder(PROTOBUF).feed(frame(b""))

    @pytest.mark.parametrize("on_unknown", ["forward", "drop"])
    def test_an_event_from_the_future_is_dropped(self, on_unknown: Any) -> None:
        seen: list[Deviation] = []
        stream = STREAMS[PROTOBUF] + frame(FUTURE) + STREAMS[PROTOBUF]
        options: dict[str, Any] = {"on_unknown": on_unknown, "on_deviation": seen.append}
        assert decode(PROTOBUF, [stream], as_dict=True, **options) == EVENTS * 2
        assert [(deviation.kind, deviation.event_type) for deviation in seen] == [
            ("unknown_event", None)
        ]

    def test_an_event_from_the_future_is_raised(self) -> None:
        decoder = EventDecoder(PROTOBUF, on_unknown="raise")
        with pytest.raises(UnknownEventError, match="event 0: "):
            decoder.feed(frame(FUTURE))

    def test_what_pydantic_refuses_has_a_path(self) -> None:
        event = {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "no-pointer", "value": 1}]}
        message = proto.encode(event)
        with pytest.raises(DecodeError) as caught:
            EventDecoder(PROTOBUF).feed(frame(message))
        assert caught.value.path == "delta[0].path"
        assert caught.value.__cause__ is not None
        with pytest.raises(DecodeError) as alone:
            proto.decode(message)
        assert alone.value.path == "delta[0].path"


class TestJsonLines:
    def test_offsets_of_errors(self) -> None:
        stream = STREAMS[JSONL] + b'{"type":5}\n' + STREAMS[JSONL]
        for size in (1, 7, len(stream)):
            events, error = until_error(EventDecoder(JSONL, as_dict=True), split(stream, size))
            assert events == EVENTS
            assert str(error).startswith("event 6: type: a string is needed")
            assert error.offset == len(STREAMS[JSONL]) + len('{"type":')

    def test_the_last_line(self) -> None:
        last = json.dumps(EVENTS[-1]).encode()
        assert decode(JSONL, [STREAMS[JSONL] + last], as_dict=True) == [*EVENTS, EVENTS[-1]]
        with pytest.raises(TruncatedStreamError, match="event 6"):
            decode(JSONL, [STREAMS[JSONL] + last[:-1]])

    def test_a_byte_order_mark_and_blank_lines(self) -> None:
        """As editors leave them. In the middle the mark is no JSON."""
        mark = b"\xef\xbb\xbf"
        stream = mark + b"\r\n \n" + STREAMS[JSONL] + b" \t\r\n \r"
        for size in (1, 2, len(stream)):
            assert decode(JSONL, split(stream, size), as_dict=True) == EVENTS
            with pytest.raises(DecodeError, match="event 6: ") as caught:
                decode(JSONL, split(STREAMS[JSONL] + mark + STREAMS[JSONL], size))
            assert caught.value.offset == len(STREAMS[JSONL])
        with pytest.raises(DecodeError, match="event 0: ") as caught:
            decode(JSONL, [mark + b"x\n"])
        assert caught.value.offset == 3

    def test_the_limit(self) -> None:
        longest = max(len(json.dumps(event)) for event in EVENTS)
        assert decode(JSONL, [STREAMS[JSONL]], as_dict=True, max_event_bytes=longest) == EVENTS
        with pytest.raises(FrameTooLargeError, match="event 3: more than"):
            decode(JSONL, [STREAMS[JSONL]], max_event_bytes=longest - 1)


class TestRecordings:
    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize(
        ("suffix", "content_type"), [(".pb", PROTOBUF), (".jsonl", JSONL), (".ndjson", JSONL)]
    )
    def test_by_name(
        self, tmp_path: Path, suffix: str, content_type: str, compressed: bool
    ) -> None:
        stream = STREAMS[content_type]
        path = tmp_path / f"a.run{suffix}{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(stream) if compressed else stream)
        assert list(read_events(path, as_dict=True)) == EVENTS
        assert [event.type for event in read_events(str(path))] == [e["type"] for e in EVENTS]

    def test_sse(self, shared: Path, tmp_path: Path) -> None:
        path = shared / "recordings/langgraph.sse"
        events = list(read_events(path, as_dict=True))
        assert len(events) == 386
        assert list(read_events(path, "text/event-stream; charset=utf-8", as_dict=True)) == events
        packed = tmp_path / "a.sse.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert list(read_events(packed, as_dict=True)) == events

    def test_other_names(self, tmp_path: Path) -> None:
        for name in ("a", "a.gz", "a.txt", "a.sse.zip"):
            with pytest.raises(AGUIError, match="cannot tell the format"):
                read_events(tmp_path / name)
        path = tmp_path / "a.txt"
        path.write_bytes(STREAMS[JSONL])
        assert list(read_events(path, JSONL, as_dict=True)) == EVENTS

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            next(read_events(tmp_path / "a.sse"))

    def test_cut_compression(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(STREAMS[JSONL])[:-12])
        with pytest.raises(TruncatedStreamError):
            list(read_events(path))

    def test_what_comes_before_the_cut_is_given(self, tmp_path: Path) -> None:
        count = 2000
        deltas = [random.randbytes(30).hex() for _ in range(count)]
        event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}
        lines = [json.dumps({**event, "delta": delta}).encode() + b"\n" for delta in deltas]
        packed = gzip.compress(b"".join(lines))
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(packed[: len(packed) // 2])
        seen: list[str] = []
        with pytest.raises(TruncatedStreamError):
            seen.extend(one["delta"] for one in read_events(path, as_dict=True))
        assert len(seen) > count // 3
        assert seen == deltas[: len(seen)]

    def test_broken_compression(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        # A block of a kind that there is not; and no gzip at all.
        for data in (gzip.compress(b"")[:10] + b"\xff" * 20, b"plain"):
            path.write_bytes(data)
            with pytest.raises(gzip.BadGzipFile):
                list(read_events(path))

    def test_names_in_capitals(self, tmp_path: Path) -> None:
        path = tmp_path / "RUN.JSONL.GZ"
        path.write_bytes(gzip.compress(STREAMS[JSONL]))
        assert list(read_events(path, as_dict=True)) == EVENTS

    def test_closed_early(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(STREAMS[JSONL])
        events = read_events(path, as_dict=True)
        assert next(events) == EVENTS[0]
        # (A file left open would be a ResourceWarning, and so a failure.)
        events.close()  # type: ignore[attr-defined]


def test_the_reprs_say_how_far_a_stream_has_come() -> None:
    decoder = EventDecoder(f"{JSONL}; charset=utf-8")
    assert repr(decoder) == "<EventDecoder application/x-ndjson events=0 bytes=0>"
    decoder.feed(STREAMS[JSONL])
    size = len(STREAMS[JSONL])
    assert repr(decoder) == f"<EventDecoder application/x-ndjson events=6 bytes={size}>"
    decoder.close()
    assert repr(decoder).endswith(" closed>")
    with pytest.raises(DecodeError):
        (failed := EventDecoder()).feed(b"data: x\n\n")
    assert repr(failed).endswith(" failed>")
    parser = SSEParser()
    parser.feed(b"data: 1\n\ndata: 2")
    assert repr(parser) == "<SSEParser events=1 bytes=16>"
    reader = proto.FrameReader(100)
    reader.feed(frame(b"abc") + b"\0\0")
    assert repr(reader) == "<FrameReader held=2 max_frame_bytes=100>"


@pytest.mark.parametrize("content_type", [None, 5, b"text/event-stream"])
def test_a_content_type_that_is_no_str(content_type: Any) -> None:
    with pytest.raises(TypeError, match=r"^content_type must be a str, not "):
        EventDecoder(content_type)


def test_many_dropped_parts_are_reported_as_a_number() -> None:
    """Two bytes of a peer are enough for one."""
    parts = tag(8, b"") * 5000
    message = tag(1, b"1") + tag(2, b"user") + parts
    wire = tag(9, tag(1, tag(1, 8)) + tag(2, message))
    seen: list[Deviation] = []
    event = proto.decode(wire, as_dict=True, on_deviation=seen.append)
    assert event["messages"] == [{"id": "1", "role": "user", "content": []}]
    assert [deviation.path for deviation in seen[:2]] == ["messages[0].content[0]"] * 2
    assert len(seen) == 101
    assert (seen[-1].path, seen[-1].detail.split()[0]) == ("", "4900")
