"""The decoder: documents to events, streams to events, and what becomes of the rest."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import logging
import pickle
import subprocess
import sys
import threading
import weakref
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import events as official
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from agui_codec import (
    AGUIError,
    ConcurrentUseError,
    DecodeError,
    Deviation,
    EventDecoder,
    EventEncoder,
    FrameTooLargeError,
    LegacyUpgrader,
    TruncatedStreamError,
    UnknownEventError,
    decode_event,
    to_json,
)
from conftest import corpus_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ADAPTER: TypeAdapter[Any] = TypeAdapter(official.Event)
KINDS = [kind.value for kind in official.EventType if "THINKING" not in kind.value]


def equal(a: object, b: object) -> bool:
    """Whether two values cannot be told apart, down to what pydantic keeps of a model."""
    if type(a) is not type(b):
        return False
    if isinstance(a, BaseModel):
        return (
            list(a.__dict__) == list(b.__dict__)
            and a.model_fields_set == b.model_fields_set
            and all(equal(a.__dict__[name], b.__dict__[name]) for name in a.__dict__)
            and equal(a.__pydantic_extra__, b.__pydantic_extra__)
            and a.__pydantic_private__ == b.__pydantic_private__
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def check(document: str | bytes) -> None:
    """Both spellings of a document are what the official validator and json make of it."""
    expected = json.loads(document)
    assert equal(decode_event(document, as_dict=True), expected)
    if expected["type"] not in KINDS:
        assert equal(decode_event(document), expected)
        return
    model = judgement(document)
    if isinstance(model, ValidationError):
        assert refusal(document).errors() == model.errors()
        return
    ours = decode_event(document)
    assert equal(ours, model), (ours, model)
    assert ours == model
    assert ours.model_dump_json() == model.model_dump_json()


def judgement(document: str | bytes) -> Any:
    """What the official validator makes of a document: a model, or an error."""
    try:
        return ADAPTER.validate_json(document)
    except ValidationError as error:
        return error


def refusal(document: str | bytes) -> ValidationError:
    """What pydantic has to say of a document that is refused."""
    with pytest.raises(DecodeError) as caught:
        decode_event(document)
    assert isinstance(caught.value.__cause__, ValidationError)
    return caught.value.__cause__


def decode(*chunks: bytes, **options: Any) -> list[Any]:
    decoder = EventDecoder(**options)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.close()


def sse(*documents: str) -> bytes:
    return b"".join(b"data: " + document.encode() + b"\n\n" for document in documents)


def text(delta: str, **more: Any) -> str:
    return json.dumps({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta, **more})


class TestEqualToTheOfficialValidator:
    @pytest.mark.parametrize("path", corpus_files("conformance/fixtures/*Event/*/*.json"))
    def test_fixtures(self, path: Path) -> None:
        if path.name.endswith(".expect.json"):
            return
        check(path.read_text())
        # The fixtures are pretty-printed; producers are not.
        check(json.dumps(json.loads(path.read_text()), separators=(",", ":")))

    @pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))
    def test_streams(self, path: Path) -> None:
        for event in json.loads(path.read_text())["stream"]:
            check(json.dumps(event))

    @pytest.mark.parametrize("path", corpus_files("recordings/*.sse"))
    def test_recordings(self, path: Path) -> None:
        stream = path.read_bytes()
        documents = [block.removeprefix(b"data: ") for block in stream.split(b"\n\n") if block]
        for document in documents:
            check(document)
        for size in (1, 7, 1400, len(stream)):
            chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
            assert decode(*chunks, as_dict=True) == [json.loads(document) for document in documents]
            if size != 1:
                models = [ADAPTER.validate_json(document) for document in documents]
                assert all(map(equal, decode(*chunks), models))

    def test_d1_every_kind_of_the_schema(self, shared: Path) -> None:
        schema = json.loads((shared / "conformance/schema-1.1.json").read_text())
        types = [d.get("properties", {}).get("type", {}) for d in schema["$defs"].values()]
        kinds = {kind for kind in (t.get("const", "") for t in types) if kind.isupper()}
        assert kinds == set(KINDS) == set(MINIMAL)

    @pytest.mark.parametrize(
        "document",
        [
            # What pydantic coerces, keeps or refuses, one of each.
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":"5"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":true}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":2.0}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":2.5}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":-1}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":9007199254740991}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":9007199254740992}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":99999999999999999999}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","timestamp":null}',
            '{"type":"TEXT_MESSAGE_END","message_id":"a"}',
            '{"type":"TEXT_MESSAGE_END","message_id":"a","messageId":"b"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"b","message_id":"a"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","messageId":"b"}',
            '{"messageId":"a","type":"TEXT_MESSAGE_END"}',
            '{"messageId":{"type":"RAW"},"type":"TEXT_MESSAGE_END"}',
            '{"messageId":"a","x":{"type":"RAW"},"type":"TEXT_MESSAGE_END"}',
            '{"message\\u0049d":"a","type":"TEXT_MESSAGE_END"}',
            '{"t\\u0079pe":"TEXT_MESSAGE_END","messageId":"a"}',
            '{"type":"TEXT_MESSAGE_\\u0045ND","messageId":"a"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","type":"TEXT_MESSAGE_END"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","type":"RUN_ERROR","message":"m"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","zz":1,"é":[2],"metadata":{"k":null}}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","zz":1,"zz":2}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","raw_event":1,"rawEvent":2}',
            '{"type":"TEXT_MESSAGE_END","messageId":12345}',
            '{"type":"TEXT_MESSAGE_END","messageId":null}',
            '{"type":"TEXT_MESSAGE_END"}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","metadata":[]}',
            '{"type":"TEXT_MESSAGE_END","messageId":"a","metadata":null}',
            '{"type":"TEXT_MESSAGE_START","messageId":"a","role":"user"}',
            '{"type":"TEXT_MESSAGE_START","messageId":"a","role":"hologram"}',
            '{"type":"REASONING_MESSAGE_START","messageId":"a","role":"reasoning"}',
            '{"type":"REASONING_MESSAGE_START","messageId":"a","role":"assistant"}',
            '{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused"}}',
            '{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":["interrupt"]}',
            '{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":null}',
            '{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":null}]}',
            '{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a","value":3,"x":1}]}',
            '{"type":"STATE_DELTA","delta":[{"path":"/a","value":1,"op":"add"}]}',
            '{"type":"STATE_DELTA","delta":[{"op":"add","path":"a","value":1}]}',
            '{"type":"STATE_DELTA","delta":[{"op":"grow","path":"/a"}]}',
            '{"type":"STATE_DELTA","delta":[]}',
            '{"type":"STATE_DELTA","delta":{}}',
            '{"type":"MESSAGES_SNAPSHOT","messages":[]}',
            '{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"hologram","content":"x"}]}',
            '{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":"x"},1]}',
            '{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"text":"a","type":'
            '"text"}],"id":"1"},{"content":"x","id":"2","role":"assistant","toolCalls":[{"id":"c",'
            '"type":"function","function":{"name":"f","arguments":"{}"}}]}]}',
            '{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"type":"text"}],'
            '"id":"1"}]}',
            '{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"x","role":"tool"}',
            '{"type":"STATE_SNAPSHOT","snapshot":null}',
            '{"type":"STATE_SNAPSHOT"}',
            '{"type":"CUSTOM","name":"n","value":{"type":"RAW","messageId":"a"}}',
            '{"type":"RUN_ERROR","message":"m","code":5}',
            '{"type":"AUDIO_CHUNK","b":1,"timestamp":"x"}',
            '{"type":"THINKING_START","title":"t"}',
        ],
    )
    def test_corners(self, document: str) -> None:
        check(document)
        check(" " + document.replace(":", " : ").replace(",", "\n, ") + "\r\n")

    @given(st.data())
    def test_random_events(self, data: st.DataObject) -> None:
        check(json.dumps(data.draw(random_events())))

    @given(st.data())
    def test_mutated_documents(self, data: st.DataObject) -> None:
        """What is JSON and what an event: the same verdict, and the same event."""
        document = json.dumps(MINIMAL[data.draw(st.sampled_from(KINDS))], separators=(",", ":"))
        for _ in range(data.draw(st.integers(1, 3))):
            entries = [0, *(at + 1 for at, char in enumerate(document) if char in "{[,")]
            at = data.draw(st.sampled_from(entries) | st.integers(0, len(document)))
            end = data.draw(st.just(at) | st.integers(at, len(document)))
            document = document[:at] + data.draw(st.sampled_from(PIECES)) + document[end:]
        expected = judgement(document)
        try:
            event = decode_event(document)
        except DecodeError as error:
            # Known difference: pydantic takes NaN and Infinity for JSON, RFC 8259 does not.
            strict = "NaN and Infinity are no JSON" in str(error)
            assert strict or isinstance(expected, ValidationError), document
            return
        if isinstance(event, dict):
            # Known difference: an event of an unknown type is a wire dict.
            assert event["type"] not in KINDS
            assert isinstance(expected, ValidationError)
        else:
            assert equal(event, expected), document

    def test_what_a_model_is(self) -> None:
        event = decode_event(text("x", extra=1))
        official_event = ADAPTER.validate_json(text("x", extra=1))
        assert type(event) is official.TextMessageContentEvent
        assert event.type is official.EventType.TEXT_MESSAGE_CONTENT
        assert equal(pickle.loads(pickle.dumps(event)), event)
        assert equal(copy.deepcopy(event), event)
        event.delta = "y"
        assert event.model_fields_set == official_event.model_fields_set
        # Nothing is shared between events that could be changed.
        other = decode_event(text("x", extra=1))
        other.model_fields_set.add("z")
        other.model_extra["w"] = 1
        assert decode_event(text("x", extra=1)) == official_event


PIECES = [
    *(
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\t",
        "\0",
        "-",
        "0",
        "5",
        "1.5",
        "NaN",
        "\ufeff",
        "é",
    ),
    *("\\n", "\\u", "\\ud800", "\\udc00", "1e999", "9" * 25, "-0", "1E3", "true", "null", ""),
    *('"type":"RAW",', '"type":"FUTURE",', '"type":null,', '"messageId":"z",', '"role":"user",'),
    *('"a":1,', '"a":1,"a":2,', '"metadata":{},', '"rawEvent":null,', '"subagentRunId":"x",'),
    *(f'"timestamp":{at},' for at in ("1.0", "1e3", "1.5e3", "-0", "true", "null", "1e30")),
    *(f'"timestamp":{at},' for at in ('"1"', '" 7 "', '"1_0"', "9007199254740993", "[]")),
]


def random_events() -> st.SearchStrategy[dict[str, Any]]:
    """Events with fields of the right names, whose values are mostly right."""
    payload = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-9, 9)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(alphabet="aé\n", max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "type", "id"]), inner)
        ),
        max_leaves=5,
    )
    fields = {
        field.alias or name
        for kind in official.EventType
        if kind.value in KINDS
        for name, field in ADAPTER.validate_python(
            MINIMAL[kind.value]
        ).__class__.model_fields.items()
    } - {"type"}
    values = (
        st.text(alphabet="abc", max_size=3)
        | st.sampled_from(["user", "tool", "reasoning"])
        | payload
    )
    extras = st.dictionaries(st.sampled_from([*sorted(fields), "extra"]), values, max_size=5)
    minimal = st.sampled_from(list(MINIMAL.values()))
    order = st.randoms(use_true_random=False)

    def mixed(parts: tuple[dict[str, Any], dict[str, Any], Any]) -> dict[str, Any]:
        items = list(
            {**parts[1], **parts[0]}.items()
            if parts[2].random() < 0.7
            else {**parts[0], **parts[1]}.items()
        )
        if parts[2].random() < 0.3:
            parts[2].shuffle(items)
        return dict(items)

    return st.tuples(minimal, extras, order).map(mixed)


MINIMAL: dict[str, dict[str, Any]] = {
    event["type"]: event
    for event in [
        {"type": "TEXT_MESSAGE_START", "messageId": "m"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "TEXT_MESSAGE_CHUNK"},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_CHUNK"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "r"},
        {"type": "STATE_SNAPSHOT", "snapshot": {}},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]},
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "1", "role": "user", "content": "x"}]},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {}},
        {"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": []},
        {"type": "RAW", "event": {}},
        {"type": "CUSTOM", "name": "n", "value": None},
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
        {"type": "RUN_ERROR", "message": "m"},
        {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "STEP_FINISHED", "stepName": "s"},
        {"type": "REASONING_START", "messageId": "m"},
        {"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "d"},
        {"type": "REASONING_MESSAGE_END", "messageId": "m"},
        {"type": "REASONING_MESSAGE_CHUNK"},
        {"type": "REASONING_END", "messageId": "m"},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "e",
            "encryptedValue": "v",
        },
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "s", "message": "m"},
    ]
}


def test_minimal_events_are_one_of_each_kind() -> None:
    assert sorted(MINIMAL) == sorted(KINDS)
    for event in MINIMAL.values():
        assert ADAPTER.validate_python(event)
        check(json.dumps(event))


class TestErrors:
    @pytest.mark.parametrize(
        ("document", "path", "at"),
        [
            ('{"type":"TEXT_MESSAGE_START","messageId":12345}', "messageId", "12345"),
            ('{"type":"TEXT_MESSAGE_START"}', "messageId", "{"),
            ('{"type":"RUN_ERROR","message":"m","code":[]}', "code", "[]"),
            (
                '{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt",'
                '"interrupts":[{"id":"1","reason":"r"},{"id":"2"},{"id":"3","reason":"r"}]}}',
                "outcome.interrupts[1].reason",
                '{"id":"2"}',
            ),
            (
                '{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":"x"},'
                '{"id":"2","role":"user","content":[{"type":"text","text":5}]}]}',
                "messages[1].content",
                '[{"type":"text"',
            ),
            (
                '{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","toolCalls":'
                '[{"id":"c","type":"function","function":{"name":"f","arguments":5}}]}]}',
                "messages[0].toolCalls[0].function.arguments",
                "5",
            ),
            (
                '{"type":"STATE_DELTA","delta":[{"op":"add","path":"/","value":1},{"op":"x"}]}',
                "delta[1]",
                '{"op":"x"}',
            ),
            ('{"type":"TEXT_MESSAGE_END","messageId":1,"messageId":2}', "messageId", "2}"),
            ('{"type":5}', "type", "5}"),
            ('{"a":1, "type":null}', "type", "null"),
            ('  {"a":1}', "", '{"a"'),
            (" []", "", "[]"),
            (" null", "", "null"),
            ('"RAW"', "", '"RAW"'),
            ("5", "", "5"),
            ("true", "", "true"),
        ],
    )
    def test_what_and_where(self, document: str, path: str, at: str) -> None:
        with pytest.raises(DecodeError) as caught:
            decode_event(document)
        assert document[caught.value.offset :].startswith(at), document[caught.value.offset :]
        if path != "messages[1].content":
            assert caught.value.path == path
        else:
            # The first of pydantic's errors is that it is no string either.
            assert caught.value.path.startswith(path)
        assert str(caught.value).startswith(f"{path}: " if path else "an event ")
        stream = sse(text("a")) + b"data:" + document.encode() + b"\n\n"
        decoder = EventDecoder()
        assert len(decoder.feed(stream)) == 1
        with pytest.raises(DecodeError, match="event 1: ") as in_stream:
            decoder.close()
        assert in_stream.value.offset == len(sse(text("a"))) + 5 + caught.value.offset
        assert in_stream.value.event_index == 1
        assert in_stream.value.path == caught.value.path

    def test_defaults(self) -> None:
        error = DecodeError("x")
        assert (error.offset, error.path, error.event_index) == (None, "", None)
        assert issubclass(DecodeError, AGUIError)
        assert issubclass(AGUIError, ValueError)

    def test_the_text_is_shown(self) -> None:
        with pytest.raises(DecodeError, match=r"'D' where a value should be, near \"\[DONE\]\""):
            decode_event("[DONE]")

    @pytest.mark.parametrize("data", [5, None, ["{}"], {}, array("h", [1])])
    def test_other_types(self, data: object) -> None:
        with pytest.raises(TypeError, match="bytes-like object is required"):
            decode_event(data)  # type: ignore[call-overload]

    def test_pickled(self) -> None:
        with pytest.raises(DecodeError) as caught:
            decode(sse(text("a"), '{"type":"RUN_ERROR","message":5}'))
        error = pickle.loads(pickle.dumps(caught.value))
        assert type(error) is DecodeError
        assert (str(error), error.offset, error.path, error.event_index) == (
            str(caught.value),
            caught.value.offset,
            "message",
            1,
        )
        deviation = Deviation("done", None, "p", "d")
        for copied in (pickle.loads(pickle.dumps(deviation)), copy.deepcopy(deviation)):
            assert copied == deviation
        # A stream is read once.
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(EventDecoder())

    def test_kinds_of_input(self) -> None:
        document = text("é")
        expected = decode_event(document)
        for kind in (str.encode, lambda d: bytearray(d.encode()), lambda d: memoryview(d.encode())):
            assert decode_event(kind(document)) == expected


class TestStream:
    STREAM = (
        b"\xef\xbb\xbf: hello\r\n\r\n"
        + sse(text("a"), text("çš漢😀"))
        + b'data: {"type":"RAW",\r\ndata: "event":\rdata:1}\n\n'
        + b'event: x\nid: 7\nretry: 5\ndata:{"type":"STATE_SNAPSHOT","snapshot":[1,{"a":null}]}\n\n'
        + sse('{"type":"FUTURE","timestamp":1,"data":[]}')
        + b": ping\n\ndata: "
        + text("last").encode()
        + b"\r\r"
    )

    @pytest.mark.parametrize("as_dict", [True, False])
    def test_chunking_independence(self, as_dict: bool) -> None:
        expected = decode(self.STREAM, as_dict=as_dict)
        assert len(expected) == 6
        for cut in range(len(self.STREAM) + 1):
            assert decode(self.STREAM[:cut], self.STREAM[cut:], as_dict=as_dict) == expected
        assert decode(*split(self.STREAM, 1), as_dict=as_dict) == expected

    @given(st.lists(st.integers(0, len(STREAM))), st.booleans())
    def test_random_cuts(self, cuts: list[int], as_dict: bool) -> None:
        edges = [0, *sorted(cuts), len(self.STREAM)]
        pieces = [self.STREAM[a:b] for a, b in pairwise(edges)]
        assert decode(*pieces, as_dict=as_dict) == decode(self.STREAM, as_dict=as_dict)

    def test_each_event_with_its_last_byte(self) -> None:
        decoder = EventDecoder()
        stream = sse(text("a"), text("b"))
        seen = [len(decoder.feed(stream[at : at + 1])) for at in range(len(stream))]
        half = len(sse(text("a")))
        assert [at for at, count in enumerate(seen) if count] == [half - 1, len(stream) - 1]

    def test_events_before_an_error_are_given(self) -> None:
        good, bad = sse(text("a"), text("b")), sse('{"type":"RAW","event":}')
        for stream in ([good, bad, good], [good + bad + good]):
            decoder = EventDecoder(as_dict=True)
            events = []
            errors = []
            for chunk in [*stream, good, b""]:
                try:
                    events += decoder.feed(chunk)
                except DecodeError as error:
                    errors.append(error)
            with pytest.raises(DecodeError) as caught:
                decoder.close()
            assert events == [json.loads(text("a")), json.loads(text("b"))]
            assert errors
            assert all(error is caught.value for error in errors)
            assert decoder.error is caught.value
            assert caught.value.event_index == 2
            assert caught.value.offset == len(good) + len('data: {"type":"RAW","event":')

    def test_data_of_several_lines(self) -> None:
        stream = b'data: {"type":"RAW",\ndata: "event":}\n\n'
        with pytest.raises(DecodeError) as caught:
            EventDecoder().feed(stream)
        # Where its data begin.
        assert caught.value.offset == 6

    def test_s5_the_last_event_without_its_blank_line(self) -> None:
        whole = sse(text("a"), text("b"))
        for cut in (1, 2):
            assert [event.delta for event in decode(whole[:-cut])] == ["a", "b"]
        for cut in range(3, len(sse(text("b")))):
            decoder = EventDecoder()
            assert len(decoder.feed(whole[:-cut])) == 1
            with pytest.raises(
                TruncatedStreamError, match="event 1: the stream ended inside"
            ) as caught:
                decoder.close()
            assert caught.value.offset == len(whole) - cut
            with pytest.raises(TruncatedStreamError):
                decoder.close()
        decoder = EventDecoder()
        decoder.feed(b'data: {"type":5}\n')
        with pytest.raises(DecodeError, match="a string is needed"):
            decoder.close()

    def test_closed(self) -> None:
        decoder = EventDecoder()
        assert decoder.close() == decoder.close() == []
        for _ in range(2):
            with pytest.raises(AGUIError, match="the decoder is closed"):
                decoder.feed(b"")
        # The caller's mistake is none of the stream's.
        assert decoder.error is None
        assert decoder.close() == []

    def test_closed_after_an_error(self) -> None:
        decoder = EventDecoder()
        decoder.feed(b"data: {")
        for call in (decoder.close, decoder.close, lambda: decoder.feed(b"")):
            with pytest.raises(TruncatedStreamError, match="ended inside an event: the document"):
                call()

    @pytest.mark.parametrize("data", ["null", "[]", "[DONE]", "", "5", '"x"', "{", "{}"])
    def test_s13_what_is_no_object(self, data: str) -> None:
        decoder = EventDecoder()
        assert len(decoder.feed(sse(text("a"), data, text("b")))) == 1
        with pytest.raises(DecodeError, match="event 1: ") as caught:
            decoder.feed(b"")
        assert caught.value.event_index == 1

    def test_s10_the_limit(self) -> None:
        document = text("x" * 100)
        assert len(decode(sse(document), max_event_bytes=len(document))) == 1
        with pytest.raises(FrameTooLargeError, match="max_event_bytes") as caught:
            decode(
                sse(text("a")) + b"data: " + document.encode(), max_event_bytes=len(document) - 1
            )
        assert caught.value.event_index == 1
        assert caught.value.offset == len(sse(text("a"))) + 6

    def test_s10_many_small_events(self) -> None:
        stream = sse(text("x" * 90)) * 100_000
        assert len(stream) > 15 << 20
        assert len(EventDecoder(as_dict=True).feed(stream)) == 100_000

    def test_s11_a_long_event(self) -> None:
        document = json.dumps({"type": "STATE_SNAPSHOT", "snapshot": "x" * (3 << 20)})
        (event,) = decode(*split(sse(document), 1024))
        assert event.snapshot == "x" * (3 << 20)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_buffers(self, kind: type) -> None:
        assert decode(kind(sse(text("a")))) == [decode_event(text("a"))]

    def test_a_str_is_no_chunk(self) -> None:
        with pytest.raises(TypeError, match="bytes-like object is required"):
            EventDecoder().feed("data: x")  # type: ignore[arg-type]


def split(stream: bytes, size: int) -> Iterable[bytes]:
    return (stream[at : at + size] for at in range(0, len(stream), size))


class TestContentType:
    @pytest.mark.parametrize(
        "content_type",
        ["text/event-stream", "text/event-stream; charset=utf-8", " Text/Event-Stream ;x=y"],
    )
    def test_known(self, content_type: str) -> None:
        assert len(decode(sse(text("a")), content_type=content_type)) == 1

    @pytest.mark.parametrize("content_type", ["", "application/json", "text/html; charset=utf-8"])
    def test_unknown(self, content_type: str) -> None:
        with pytest.raises(AGUIError, match="no AG-UI stream has the content type") as caught:
            EventDecoder(content_type)
        assert repr(content_type).strip("'") in str(caught.value)


class TestUnknown:
    """D3, D7: types that this version of the protocol does not have."""

    DOCUMENT = '{"type":"AUDIO_CHUNK","timestamp":5,"b":[1,2.5,"é"],"rawEvent":{"x":null}}'

    @pytest.mark.parametrize("as_dict", [True, False])
    def test_forwarded(self, as_dict: bool) -> None:
        stream = sse(text("a"), self.DOCUMENT, text("b"))
        events = decode(stream, as_dict=as_dict)
        assert events[1] == json.loads(self.DOCUMENT)
        assert decode_event(self.DOCUMENT, as_dict=as_dict) == events[1]
        # It is written as it came.
        assert to_json(events[1]) == self.DOCUMENT.encode()
        assert json.loads(EventEncoder().encode(events[1])[6:]) == json.loads(self.DOCUMENT)

    @pytest.mark.parametrize("as_dict", [True, False])
    def test_dropped(self, as_dict: bool, caplog: pytest.LogCaptureFixture) -> None:
        stream = sse(text("a"), self.DOCUMENT, text("b"))
        seen: list[Deviation] = []
        options: dict[str, Any] = {"on_unknown": "drop", "as_dict": as_dict}
        events = decode(stream, on_deviation=seen.append, **options)
        assert events == decode(sse(text("a"), text("b")), as_dict=as_dict)
        (deviation,) = seen
        assert (deviation.kind, deviation.event_type) == ("unknown_event", "AUDIO_CHUNK")
        assert not caplog.records
        with caplog.at_level(logging.WARNING, "agui_codec"):
            assert decode(stream, **options) == events
        (record,) = caplog.records
        assert record.name == "agui_codec"
        assert "AUDIO_CHUNK" in record.getMessage()

    def test_raised(self) -> None:
        decoder = EventDecoder(on_unknown="raise")
        assert len(decoder.feed(sse(text("a"), self.DOCUMENT))) == 1
        with pytest.raises(UnknownEventError, match='"AUDIO_CHUNK" is no event type') as caught:
            decoder.close()
        assert (caught.value.event_index, caught.value.path) == (1, "type")

    def test_counted(self) -> None:
        decoder = EventDecoder(on_unknown="drop", on_deviation=lambda _: None)
        with pytest.raises(DecodeError) as caught:
            decoder.feed(sse(self.DOCUMENT, "x"))
        assert caught.value.event_index == 1

    def test_what_on_deviation_raises_comes_through(self) -> None:
        class Refused(Exception):
            pass

        def refuse(deviation: Deviation) -> None:
            raise Refused(deviation.event_type)

        decoder = EventDecoder(on_unknown="drop", on_deviation=refuse)
        for _ in range(2):
            with pytest.raises(Refused, match="AUDIO_CHUNK"):
                decoder.feed(sse(self.DOCUMENT))

    def test_other_names(self) -> None:
        with pytest.raises(ValueError, match='"forward", "drop" or "raise", not "keep"'):
            EventDecoder(on_unknown="keep")  # type: ignore[arg-type]


class TestDone:
    """S13: ``data: [DONE]`` at the end of a stream, as OpenAI's servers write it."""

    @pytest.mark.parametrize("as_dict", [True, False])
    @pytest.mark.parametrize(
        "end", ["data: [DONE]\n\n", "data:[DONE] \r\n\r\n", "data: [DONE]\n", "data: [DONE]"]
    )
    def test_passed_over_and_reported(self, end: str, as_dict: bool) -> None:
        stream = sse(text("a"), text("b")) + end.encode()
        expected = decode(sse(text("a"), text("b")), as_dict=as_dict)
        for size in (1, 7, len(stream)):
            seen: list[Deviation] = []
            options: dict[str, Any] = {"as_dict": as_dict, "on_deviation": seen.append}
            assert decode(*split(stream, size), allow_done=True, **options) == expected
            (deviation,) = seen
            assert (deviation.kind, deviation.event_type, deviation.path) == ("done", None, "")
            assert "[DONE]" in deviation.detail

    def test_json_lines(self) -> None:
        seen: list[Deviation] = []
        options: dict[str, Any] = {"allow_done": True, "on_deviation": seen.append}
        lines = text("a").encode() + b"\n[DONE]\n"
        assert len(decode(lines, content_type="application/x-ndjson", **options)) == 1
        assert [deviation.kind for deviation in seen] == ["done"]

    def test_is_no_event(self) -> None:
        """It is not counted, and what comes after it is read."""
        seen: list[Deviation] = []
        decoder = EventDecoder(allow_done=True, on_deviation=seen.append)
        assert len(decoder.feed(sse(text("a"), "[DONE]", text("b"), "[DONE]", "{"))) == 2
        with pytest.raises(DecodeError, match="event 2: "):
            decoder.close()
        assert len(seen) == 2

    def test_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "agui_codec"):
            assert decode(sse("[DONE]"), allow_done=True) == []
        (record,) = caplog.records
        assert "[DONE]" in record.getMessage()

    @pytest.mark.parametrize("data", ["[done]", "[DONE", "DONE", '"[DONE]"', "[DONE]x", "[]", ""])
    def test_nothing_else_is(self, data: str) -> None:
        with pytest.raises(DecodeError):
            decode(sse(data), allow_done=True)

    def test_an_error_by_default_and_alone(self) -> None:
        for options in ({}, {"allow_done": False}):
            with pytest.raises(DecodeError, match="near"):
                decode(sse("[DONE]"), **options)
        with pytest.raises(DecodeError):
            decode_event("[DONE]")

    def test_a_cut_one_is_truncation(self) -> None:
        with pytest.raises(TruncatedStreamError):
            decode(b"data: [DON", allow_done=True)

    def test_what_on_deviation_raises_comes_through(self) -> None:
        def refuse(deviation: Deviation) -> None:
            raise LookupError(deviation.kind)

        decoder = EventDecoder(allow_done=True, on_deviation=refuse)
        assert len(decoder.feed(sse(text("a"), "[DONE]"))) == 1
        with pytest.raises(LookupError, match="done"):
            decoder.close()


class TestCases:
    """Bug reports from the field; the others are beside what they are about.

    D1 and D12 to the official validator, D8, D9, D10 and D11 in test_reader.py, S2 to S9 and S11 in
    test_sse.py and TestStream, S13 there and in TestDone, S10 there and in test_decode_hostile.py.
    """

    def test_d2_an_unknown_role_is_kept_in_dicts_and_refused_by_the_models(self) -> None:
        """As pydantic does; removing it with a warning is for the enforcer, which reads dicts."""
        messages = [
            {"id": "1", "role": "hologram", "content": "x"},
            {"id": "2", "role": "user", "content": "y"},
        ]
        document = json.dumps({"type": "MESSAGES_SNAPSHOT", "messages": messages})
        assert decode_event(document, as_dict=True)["messages"] == messages
        with pytest.raises(DecodeError) as caught:
            decode_event(document)
        assert caught.value.path == "messages[0]"

    def test_d3_an_unknown_event_does_not_end_the_stream(self) -> None:
        run = '"threadId":"t","runId":"r"}'
        documents = [
            f'{{"type":"RUN_STARTED",{run}',
            '{"type":"AUDIO_CHUNK","b":1}',
            f'{{"type":"RUN_FINISHED",{run}',
        ]
        kept = decode(sse(*documents))
        assert kept[1] == {"type": "AUDIO_CHUNK", "b": 1}
        dropped = decode(sse(*documents), on_unknown="drop", on_deviation=lambda _: None)
        assert [event.type for event in dropped] == ["RUN_STARTED", "RUN_FINISHED"]

    def test_d4_a_number_for_an_id_is_fatal(self) -> None:
        with pytest.raises(DecodeError) as caught:
            decode_event('{"type":"TEXT_MESSAGE_START","messageId":12345}')
        assert caught.value.path == "messageId"
        # What pydantic coerces is coerced in models; dicts are as they came.
        document = '{"type":"TEXT_MESSAGE_START","messageId":"m","timestamp":"5"}'
        assert decode_event(document).timestamp == 5
        assert decode_event(document, as_dict=True)["timestamp"] == "5"

    def test_d5_a_malformed_interrupt_has_a_path(self) -> None:
        interrupts = [{"id": "1", "reason": "a"}, {"id": "2"}, {"id": "3", "reason": "c"}]
        outcome = {"type": "interrupt", "interrupts": interrupts}
        event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}
        with pytest.raises(DecodeError) as caught:
            decode_event(json.dumps(event))
        assert caught.value.path == "outcome.interrupts[1].reason"

    @pytest.mark.parametrize("outcome", ['{"type":"paused"}', '["interrupt"]'])
    def test_d6_an_unknown_outcome(self, outcome: str) -> None:
        document = f'{{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{outcome}}}'
        assert decode_event(document, as_dict=True)["outcome"] == json.loads(outcome)
        with pytest.raises(DecodeError) as caught:
            decode_event(document)
        assert caught.value.path == "outcome"

    def test_d7_retired_events_come_as_dicts_for_the_upgrader(self) -> None:
        document = '{"type":"THINKING_START","title":"t"}'
        upgrader = LegacyUpgrader(on_deviation=lambda _: None)
        (event,) = upgrader.feed(decode_event(document))
        assert event["type"] == "REASONING_START"

    def test_d12_what_is_unknown_is_kept(self) -> None:
        document = '{"type":"TEXT_MESSAGE_END","messageId":"m","zz":1}'
        assert decode_event(document).model_extra == {"zz": 1}
        operation = {"op": "remove", "path": "/a", "value": 3, "x": 1}
        document = json.dumps({"type": "STATE_DELTA", "delta": [operation]})
        assert decode_event(document).delta[0].model_extra == {"value": 3, "x": 1}
        assert decode_event(document, as_dict=True)["delta"] == [operation]


class TestHabits:
    """Events that begin as the one before did are read from a copy of its beginning."""

    BEGINNINGS = (
        '"messageId":"a"',
        '"messageId":"b"',
        '"messageId":"a","toolCallId":"c"',
        '"messageId":"a","parentMessageId":null',
        '"messageId":"a","fooId":"x"',
        '"messageId":"a","fooId":["x"]',
        '"messageId":"a","messageId":"b"',
        '"messageId":5',
        '"message\\u0049d":"a\\n"',
        '"message_id":"a"',
        '"messageId":"a","type":"TEXT_MESSAGE_START"',
        '"messageId":"a","type":"FUTURE"',
        '"messageId":"' + "long" * 200 + '"',
        '"timestamp":5,"messageId":"a"',
    )
    ENDS = (
        '"delta":"x"',
        '"delta": "y"',
        '"delta":"x","delta":"z"',
        '"delta":"x","messageId":"z"',
        '"delta":5',
        '"delta":"x","metadata":{"k":[]}',
        '"role":"user"',
        '"metadata":{"k":[]},"delta":"x"',
        '"zz":[1],"delta":"x"',
        '"type":"TEXT_MESSAGE_END"',
    )

    @pytest.mark.parametrize("beginning", BEGINNINGS)
    @pytest.mark.parametrize("kind", ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_START", "FUTURE"])
    def test_any_end_after_any_beginning(self, kind: str, beginning: str) -> None:
        for space in ("", " "):
            for first in self.ENDS:
                for end in self.ENDS:
                    for then in (first, first, first, end, first):
                        check(f'{{"type":{space}"{kind}",{beginning},{space}{then}}}')

    @given(st.lists(st.sampled_from(BEGINNINGS), min_size=1), st.data())
    def test_any_mixture(self, beginnings: list[str], data: st.DataObject) -> None:
        for beginning in beginnings:
            kind = data.draw(st.sampled_from(["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]))
            end = data.draw(st.sampled_from(self.ENDS))
            for _ in range(data.draw(st.integers(1, 3))):
                check(f'{{"type":"{kind}",{beginning},{end}}}')

    def test_nothing_is_shared_that_can_be_changed(self) -> None:
        document = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x","q":[]}'
        for as_dict in (True, False):
            for _ in range(4):
                event = decode_event(document, as_dict=as_dict)
                assert equal(event, decode_event(document, as_dict=as_dict))
                if as_dict:
                    event["messageId"] = event["new"] = 1
                    event["q"].append(1)
                else:
                    event.message_id = event.timestamp = 1
                    event.model_extra["q"].append(1)
                    event.model_fields_set.clear()


class TestOwnership:
    def test_a_decoder_in_a_cycle_is_collected(self) -> None:
        class Client:
            def __init__(self) -> None:
                self.decoder = EventDecoder(on_unknown="drop", on_deviation=self.seen)

            def seen(self, deviation: Deviation) -> None: ...

        client = Client()
        gone = weakref.ref(client)
        del client
        gc.collect()
        assert gone() is None

    def test_a_failed_decoder_is_collected(self) -> None:
        class Local:
            pass

        def fail() -> weakref.ref[Local]:
            local = Local()
            decoder = EventDecoder()
            with contextlib.suppress(DecodeError):
                decoder.feed(b"data: x\n\n")
            return weakref.ref(local)

        gone = fail()
        gc.collect()
        assert gone() is None

    def test_another_thread_is_refused_and_does_no_harm(self) -> None:
        errors: list[BaseException] = []

        def intrude() -> None:
            try:
                decoder.feed(sse(text("b")))
            except ConcurrentUseError as error:
                errors.append(error)

        def wait(_: Deviation) -> None:
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()

        decoder = EventDecoder(on_unknown="drop", on_deviation=wait)
        stream = sse(text("a"), TestUnknown.DOCUMENT, text("c"))
        assert [event.delta for event in decoder.feed(stream)] == ["a", "c"]
        assert len(errors) == 1
        assert decoder.close() == []

    def test_another_decoder_may_be_used_from_within(self) -> None:
        other = EventDecoder(as_dict=True)
        seen: list[Any] = []

        def use(_: Deviation) -> None:
            seen.extend(other.feed(sse(text("b", zz="x\n"))))
            seen.append(decode_event(text("c")))
            gc.collect()

        decoder = EventDecoder(on_unknown="drop", on_deviation=use)
        stream = sse(text("a"), TestUnknown.DOCUMENT, text("a"))
        assert [event.delta for event in decoder.feed(stream)] == ["a", "a"]
        assert seen == [json.loads(text("b", zz="x\n")), decode_event(text("c"))]

    def test_a_call_from_within_is_refused(self) -> None:
        def again(_: Deviation) -> None:
            decoder.feed(b"")

        decoder = EventDecoder(on_unknown="drop", on_deviation=again)
        with pytest.raises(ConcurrentUseError, match="this EventDecoder is in use"):
            decoder.feed(sse(TestUnknown.DOCUMENT))


def test_where_no_python_code_runs() -> None:
    # A thread that only C code has begun, as a host that embeds Python may.
    script = """
import _thread, sys, threading
from agui_codec import decode_event

done = threading.Event()
def hook(failed):
    print(repr(failed.exc_value))
    done.set()
sys.unraisablehook = hook
event = '{"type":"TEXT_MESSAGE_START","messageId":"m","role":"nobody"}'
_thread.start_new_thread(decode_event, (event,))
done.wait(60)
"""
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.stdout.startswith('DecodeError("role: Input should be'), run.stderr
