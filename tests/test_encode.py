"""Encoding of event models: every class in every form, and the cases from the field (E1 to E15)."""

import collections
import copy
import enum
import json
import pickle
from pathlib import Path
from typing import Any

import ag_ui.encoder
import pytest
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    EventType,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningMessageStartEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallStartEvent,
    UserMessage,
)
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

import agui_codec
from agui_codec import EncodeError, EventEncoder, to_json
from oracle import (
    ADAPTER,
    ENCODER,
    assert_fast,
    assert_same,
    encoded,
    official,
    official_text,
    outcome,
)
from strategies import EVENT_CLASSES, variants

by_class = pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)


# --- every class -------------------------------------------------------------------------------


def test_the_union_is_what_the_schema_and_the_enum_say(shared: Path) -> None:
    schema = json.loads((shared / "conformance" / "schema-1.1.json").read_text())
    names = {ref["$ref"].rsplit("/", 1)[1] for ref in schema["$defs"]["Event"]["oneOf"]}
    assert {cls.__name__ for cls in EVENT_CLASSES} == names
    types = {cls.model_fields["type"].default for cls in EVENT_CLASSES}
    assert types == set(EventType)
    assert len(EVENT_CLASSES) == 31


@by_class
def test_every_form_of_every_class(cls: type[BaseModel]) -> None:
    for event in variants(cls):
        assert_same(event)


@by_class
def test_every_form_of_every_class_is_written_natively(cls: type[BaseModel]) -> None:
    for event in variants(cls):
        assert_fast(event)


@by_class
def test_every_form_of_every_class_after_a_round_trip(cls: type[BaseModel]) -> None:
    """Instances that pydantic's own reader made, which differ in where their parts come from."""
    for event in variants(cls):
        text = encoded(event)
        assert encoded(ADAPTER.validate_json(text)) == text
        assert encoded(ADAPTER.validate_python(json.loads(text))) == text


@by_class
def test_pickled_and_copied_instances(cls: type[BaseModel]) -> None:
    event = variants(cls)[2]
    text = official_text(event)
    for other in (
        pickle.loads(pickle.dumps(event)),
        copy.copy(event),
        copy.deepcopy(event),
        event.model_copy(),
        event.model_copy(deep=True),
        cls.model_construct(**{**event.__dict__, **(event.__pydantic_extra__ or {})}),
    ):
        assert assert_same(other).result == text


@by_class
def test_a_subclass_that_adds_nothing_is_the_same_on_the_wire(
    cls: type[BaseModel],
) -> None:
    sub = type("Sub" + cls.__name__, (cls,), {"__module__": __name__})
    event = variants(cls)[0]
    assert assert_same(sub(**event.__dict__)).result == official_text(event)


def test_the_base_event_itself() -> None:
    for kind in EventType:
        assert_same(BaseEvent(type=kind, timestamp=1, raw_event={"a": None}, metadata={}))
        assert_same(BaseEvent(type=kind, messageId="m", other=[1]))


# --- the cases from the field ------------------------------------------------------------------


def test_e1_names_are_camel_case_and_payload_keys_are_untouched() -> None:
    event = TextMessageContentEvent(message_id="m7", delta="hej")
    text = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m7","delta":"hej"}'
    assert encoded(event) == text
    assert to_json(event) == text.encode()
    assert encoded({"type": "TEXT_MESSAGE_CONTENT", "message_id": "m7", "delta": "hej"}) == text
    payload = {"user_id": 1, "messageId": 2, "message_id": 3}
    for event in (
        StateSnapshotEvent(snapshot=payload),
        RawEvent(event=payload),
        CustomEvent(name="n", value=payload),
        TextMessageEndEvent(message_id="m", raw_event=payload, metadata=payload),
    ):
        assert '{"user_id":1,"messageId":2,"message_id":3}' in assert_same(event).result


def test_e2_absent_fields_are_left_out_and_nulls_that_are_data_stay() -> None:
    event = ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id=None)
    assert encoded(event) == '{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"f"}'
    for event, text in (
        (CustomEvent(name="n", value=None), '"value":null'),
        (
            TextMessageEndEvent(message_id="m", metadata={"k": None}),
            '"metadata":{"k":null}',
        ),
        (
            StateDeltaEvent(delta=[{"op": "add", "path": "/a", "value": None}]),
            '{"op":"add","path":"/a","value":null}',
        ),
        (StateSnapshotEvent(snapshot=None), '"snapshot":null'),
        (RawEvent(event=None), '"event":null'),
        (TextMessageEndEvent(message_id="m", foo=None), '"foo":null'),
    ):
        assert text in assert_same(event).result
    finished = RunFinishedEvent(thread_id="t", run_id="r", result=None)
    assert encoded(finished) == '{"type":"RUN_FINISHED","threadId":"t","runId":"r"}'


@pytest.mark.parametrize("alien", [None, object(), "RAW", 5, [], ("type", "RAW"), len, {1}])
def test_e3_what_is_no_event_raises_before_any_byte(alien: Any) -> None:
    encoder = EventEncoder()
    for method in (encoder.encode, encoder.encode_sse, encoder.encode_binary, to_json):
        with pytest.raises(EncodeError) as raised:
            method(alien)
        assert raised.value.path == ""
        assert type(alien).__name__ in str(raised.value)
    with pytest.raises(EncodeError):
        encoder.encode_many([TextMessageEndEvent(message_id="m"), alien])
    assert encoded({"type": "RAW", "event": 1}, encoder) == '{"type":"RAW","event":1}'


def test_e4_a_value_that_is_not_json_fails_by_name_and_the_encoder_goes_on() -> None:
    encoder = EventEncoder()
    bad = {"type": "RAW", "event": {"tool": len}}
    with pytest.raises(EncodeError) as raised:
        encoder.encode(bad)
    assert raised.value.path == "event.tool"
    assert str(raised.value).startswith("event.tool: ")
    assert isinstance(raised.value.__cause__, PydanticSerializationError)
    with pytest.raises(PydanticSerializationError):
        encoder.encode(RawEvent(event={"tool": len}))
    assert_same(RawEvent(event={"tool": len}), encoder)
    assert_same(RawEvent(event={"tool": 1}), encoder)
    hooked = EventEncoder(default=lambda value: f"<{value.__name__}>")
    for event in (bad, RawEvent(event={"tool": len})):
        assert encoded(event, hooked) == '{"type":"RAW","event":{"tool":"<len>"}}'


def test_e6_numbers_that_json_does_not_have() -> None:
    from decimal import Decimal

    snapshot = {"t": float("nan"), "d": Decimal("NaN"), "i": float("-inf")}
    text = '{"type":"STATE_SNAPSHOT","snapshot":{"t":null,"d":"NaN","i":null}}'
    assert encoded(StateSnapshotEvent(snapshot=snapshot)) == text
    assert_same(StateSnapshotEvent(snapshot=snapshot))
    assert encoded({"type": "STATE_SNAPSHOT", "snapshot": snapshot}) == text
    for number in (float("nan"), float("inf"), float("-inf")):
        assert_same(StateSnapshotEvent(snapshot=number))
        # Where None means absence, the official encoder takes these for None.
        assert_same(RunFinishedEvent(thread_id="t", run_id="r", result=number))
        assert_same(TextMessageEndEvent(message_id="m", raw_event=number, foo=number))


@pytest.mark.parametrize(
    "text", ["ok \ud83d", "\ude00", "\ud83dx\ude00", "é\ud800", "a" * 99 + "\udfff"]
)
def test_e7_half_a_surrogate_pair_is_an_error_that_names_the_place(text: str) -> None:
    event = TextMessageContentEvent(message_id="m", delta="")
    event.delta = text
    assert assert_same(event).error is not None
    assert_same(CustomEvent(name="n", value=[{"k": text}]))
    for wire, path in (
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}, "delta"),
        ({"type": "CUSTOM", "name": "n", "value": [1, {"k": text}]}, "value[1].k"),
        (
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [{"role": "user", "content": text}],
            },
            None,
        ),
    ):
        with pytest.raises(EncodeError) as raised:
            ENCODER.encode(wire)
        assert raised.value.path == (path or "messages[0].content")
    assert assert_same(TextMessageContentEvent(message_id="m", delta="😀")).error is None


def test_e9_bytes_are_text_if_they_are_utf8() -> None:
    assert '"hé"' in assert_same(CustomEvent(name="b", value="hé".encode())).result
    assert assert_same(CustomEvent(name="b", value=b"\xed\xa0\x80")).error is not None
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode({"type": "CUSTOM", "name": "b", "value": {"x": b"\xff"}})
    assert raised.value.path == "value.x"
    assert encoded({"type": "CUSTOM", "name": "b", "value": b"x"}).endswith('"value":"x"}')


def test_e10_what_faster_back_ends_refuse() -> None:
    class Color(enum.Enum):
        RED = "red"

    class MyStr(str):
        pass

    snapshot = {7: {"n": 2**80}, Color.RED: "x", MyStr("q"): 1}
    text = (
        '{"type":"STATE_SNAPSHOT","snapshot":{"7":{"n":1208925819614629174706176},"red":"x","q":1}}'
    )
    assert encoded(StateSnapshotEvent(snapshot=snapshot)) == text
    assert_same(StateSnapshotEvent(snapshot=snapshot))
    assert encoded({"type": "STATE_SNAPSHOT", "snapshot": snapshot}) == text


def test_e11_moments_are_written_as_the_installed_pydantic_does() -> None:
    import datetime

    utc = datetime.timezone.utc
    for moment in (
        datetime.datetime(2026, 1, 2, 3, 4, 5, 120000, tzinfo=utc),
        datetime.datetime(2026, 1, 2, 3, 4, 5),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=-9.5))),
        datetime.date(1, 1, 1),
        datetime.time(23, 59, 59, 999999, tzinfo=utc),
        datetime.timedelta(days=-1, microseconds=1),
    ):
        expected = assert_same(CustomEvent(name="n", value={"at": moment})).result
        assert ENCODER.encode({"type": "CUSTOM", "name": "n", "value": {"at": moment}}) == expected


def test_e12_an_empty_delta_is_legal() -> None:
    event = TextMessageContentEvent(message_id="m", delta="")
    assert encoded(event) == '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}'
    assert_fast(event)


def test_e13_the_role_of_a_reasoning_message() -> None:
    event = ReasoningMessageStartEvent(message_id="m", role="reasoning")
    assert '"role":"reasoning"' in assert_same(event).result
    with pytest.raises(ValidationError):
        ReasoningMessageStartEvent(message_id="m", role="assistant")
    # By assignment it gets through to the serializer, which warns.
    event.role = "assistant"
    assert_same(event)


@pytest.mark.parametrize("timestamp", [1767323045123, -1, 0, 2**53 - 1, -(2**53 - 1)])
def test_e14_timestamps(timestamp: int) -> None:
    event = TextMessageEndEvent(message_id="m", timestamp=timestamp)
    assert f'"timestamp":{timestamp},' in assert_same(event).result
    assert_fast(event)


@pytest.mark.parametrize("timestamp", [1767323045.5, 2.0, 2**60, 2**80, True, "5"])
def test_e14_timestamps_of_a_wrong_kind(timestamp: Any) -> None:
    event = TextMessageEndEvent(message_id="m")
    event.timestamp = timestamp
    assert_same(event)


@pytest.mark.parametrize("text", ["A\u2028B", "A\x0bB", "hi\n", "\r\n\r\n", "\x85", "data: x\n\n"])
def test_e15_one_data_line_whatever_the_text(text: str) -> None:
    for event in (
        TextMessageContentEvent(message_id="m", delta=text),
        CustomEvent(name=text, value={text: text}),
        {"type": "X", text: text},
    ):
        frame = ENCODER.encode_binary(event)
        assert frame.startswith(b"data: {")
        assert frame.endswith(b"}\n\n")
        assert frame.count(b"\n") == 2
        assert b"\r" not in frame
        assert text in _texts(json.loads(frame[6:]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    return [value] if isinstance(value, str) else []


# --- text --------------------------------------------------------------------------------------

KINDS = {"ascii": "", "latin-1": "é", "two bytes": "漢", "four bytes": "😀"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_low_code_point_at_every_offset(kind: str) -> None:
    """In each of the ways in which CPython stores a str."""
    for code in [
        *range(0x180),
        0x2028,
        0x2029,
        0xD7FF,
        0xE000,
        0xFEFF,
        0xFFFF,
        0x10FFFF,
    ]:
        lengths = (0, 1, 7, 8, 15, 16, 17) if code < 0x80 else (0, 16)
        text = kind + "|".join("a" * length + chr(code) for length in lengths)
        event = TextMessageContentEvent(message_id="m", delta=text)
        assert ENCODER.encode(event) == official_text(event)


def test_escapes_are_the_ones_of_pydantic() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/\x7f'
    expected = (
        "\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r"
        "\\u000e\\u000f\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017"
        '\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f\\"\\\\/\x7f'
    )
    event = TextMessageContentEvent(message_id="m", delta=text)
    assert (
        encoded(event) == f'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{expected}"}}'
    )
    assert_same(event)
    assert (
        encoded({"type": text, text: text}) == f'{{"type":"{expected}","{expected}":"{expected}"}}'
    )


LENGTHS = [*range(70), 4095, 4096, 4097, 65536, 2**20 - 60, 3 * 2**20]


@pytest.mark.parametrize("letter", ["a", '"', "\n", "é", "漢", "😀"])
def test_lengths(letter: str) -> None:
    for length in LENGTHS:
        text = letter * length
        event = TextMessageContentEvent(message_id=letter, delta=text)
        expected = official_text(event)
        # Not compared by `assert ==`, which would explain a difference of megabytes.
        assert (ENCODER.encode(event) == expected) is True, length
        assert (ENCODER.encode_binary(event) == expected.encode()) is True, length
        wire = f'data: {{"type":"X","v":{json.dumps(text, ensure_ascii=False)}}}\n\n'
        assert (ENCODER.encode({"type": "X", "v": text}) == wire) is True, length


def test_the_kind_of_str_that_comes_out() -> None:
    """An ASCII result is stored as one; `sys.getsizeof` tells."""
    import sys

    ascii_text = ENCODER.encode(TextMessageContentEvent(message_id="m", delta="hej"))
    assert ascii_text.isascii()
    assert sys.getsizeof(ascii_text) == sys.getsizeof("a" * len(ascii_text))
    for letter in ("é", "漢", "😀"):
        wide = ENCODER.encode(TextMessageContentEvent(message_id="m", delta=letter))
        assert sys.getsizeof(wide) == sys.getsizeof(wide.encode().decode())
    # A wide event before does not make the next one wide.
    assert sys.getsizeof(
        ENCODER.encode(TextMessageContentEvent(message_id="m", delta="hej"))
    ) == sys.getsizeof(ascii_text)


# --- the encoder as an object ------------------------------------------------------------------

EVENT = TextMessageEndEvent(message_id="m", raw_event={"a": 1})
FRAME = 'data: {"type":"TEXT_MESSAGE_END","rawEvent":{"a":1},"messageId":"m"}\n\n'


def test_it_is_a_drop_in() -> None:
    for encoder in (
        EventEncoder(),
        EventEncoder(None),
        EventEncoder("text/event-stream"),
        EventEncoder(accept="text/event-stream"),
        EventEncoder(accept="*/*", default=None, drop_raw_event=False),
    ):
        assert isinstance(encoder, ag_ui.encoder.EventEncoder)
        assert encoder.get_content_type() == "text/event-stream"
        assert encoder.encode(EVENT) == FRAME
        assert type(encoder.encode(EVENT)) is str
        assert type(encoder.encode_binary(EVENT)) is bytes
    assert issubclass(EventEncoder, ag_ui.encoder.EventEncoder)
    assert agui_codec.AGUI_MEDIA_TYPE == ag_ui.encoder.AGUI_MEDIA_TYPE
    assert agui_codec.SSE_MEDIA_TYPE == "text/event-stream"


def test_the_methods_take_the_keyword_that_the_official_one_takes() -> None:
    assert ag_ui.encoder.EventEncoder().encode(event=EVENT) == FRAME
    assert ENCODER.encode(event=EVENT) == FRAME


def test_the_private_method_that_subclasses_of_the_official_class_use() -> None:
    class Numbered(EventEncoder):
        def encode(self, event: Any) -> str:
            return "id: 1\n" + self._encode_sse(event)

    assert Numbered().encode(EVENT) == "id: 1\n" + FRAME
    dropping = Numbered(drop_raw_event=True).encode(EVENT)
    assert dropping == 'id: 1\ndata: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'


def test_subclasses() -> None:
    class Labelled(EventEncoder):
        def __init__(self, label: str, **options: Any) -> None:
            super().__init__(**options)
            self.label = label

        def encode(self, event: Any) -> str:
            return f": {self.label}\n" + super().encode(event)

    class Silent(EventEncoder):
        def __init__(self) -> None:
            pass

    labelled = Labelled("x", drop_raw_event=True)
    assert labelled.encode(EVENT) == ': x\ndata: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'
    assert Silent().encode(EVENT) == FRAME


def test_wrong_arguments_are_refused() -> None:
    for call in (
        lambda: EventEncoder("a", "b"),
        lambda: EventEncoder(nonsense=1),
        lambda: EventEncoder().encode(),
        lambda: EventEncoder().encode(EVENT, EVENT),
    ):
        with pytest.raises(TypeError):
            call()


def test_encoders_can_be_pickled_and_copied() -> None:
    official_encoder = ag_ui.encoder.EventEncoder()
    for encoder in (
        official_encoder,
        EventEncoder(),
        EventEncoder("a", drop_raw_event=True),
    ):
        for other in (
            pickle.loads(pickle.dumps(encoder)),
            copy.copy(encoder),
            copy.deepcopy(encoder),
        ):
            assert type(other) is type(encoder)
            assert other.encode(EVENT) == encoder.encode(EVENT)
    hooked = EventEncoder(default=str)
    assert '"<class' in copy.copy(hooked).encode(CustomEvent(name="n", value=int))


def test_attributes_can_be_set_as_on_the_official_one() -> None:
    encoder = EventEncoder()
    encoder.note = 1
    assert encoder.note == 1


# --- many events -------------------------------------------------------------------------------


def test_many_events_are_their_frames_in_order() -> None:
    events = [event for cls in EVENT_CLASSES for event in variants(cls)]
    frames = "".join(map(official_text, events)).encode()
    for iterable in (events, tuple(events), iter(events), (event for event in events)):
        assert ENCODER.encode_many(iterable) == frames
    assert ENCODER.encode_many(collections.deque(events)) == frames
    assert ENCODER.encode_many([]) == b""
    mixed = ENCODER.encode_many([EVENT, {"type": "X"}, EVENT])
    assert mixed == FRAME.encode() + b'data: {"type":"X"}\n\n' + FRAME.encode()


def test_many_events_are_all_or_nothing() -> None:
    encoder = EventEncoder()
    for bad, error in (
        (object(), EncodeError),
        ({"type": "RAW", "event": {"tool": len}}, EncodeError),
        (RawEvent(event={"tool": len}), PydanticSerializationError),
    ):
        with pytest.raises(error):
            encoder.encode_many([EVENT, EVENT, bad, EVENT])
        assert encoder.encode_many([EVENT]) == FRAME.encode()
        assert encoder.encode(EVENT) == FRAME
    with pytest.raises(TypeError):
        encoder.encode_many(5)


def test_an_error_of_the_iterable_comes_through() -> None:
    class Stop(BaseException):
        pass

    def events() -> Any:
        yield EVENT
        raise Stop

    with pytest.raises(Stop):
        ENCODER.encode_many(events())
    assert ENCODER.encode(EVENT) == FRAME


def test_an_iterable_that_encodes() -> None:
    def events() -> Any:
        for _ in range(3):
            assert ENCODER.encode(EVENT) == FRAME
            yield EVENT
            assert ENCODER.encode_many([{"type": "é"}] * 3)

    assert ENCODER.encode_many(events()) == FRAME.encode() * 3


# --- errors ------------------------------------------------------------------------------------


def test_the_error_tree() -> None:
    assert issubclass(EncodeError, agui_codec.AGUIError)
    assert issubclass(agui_codec.AGUIError, ValueError)
    with pytest.raises(EncodeError) as raised:
        ENCODER.encode({"type": "CUSTOM", "name": "n", "value": [{"x": object()}]})
    error = raised.value
    assert error.path == "value[0].x"
    assert isinstance(error.__cause__, PydanticSerializationError)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.path, str(copied)) == (
        EncodeError,
        error.path,
        str(error),
    )


def test_errors_leave_no_trace_in_what_follows() -> None:
    encoder = EventEncoder()
    good = MessagesSnapshotEvent(messages=[UserMessage(id="1", content="x")])
    bad = good.model_copy(deep=True)
    bad.messages[0].metadata = {"x": object()}
    wire_bad = {"type": "CUSTOM", "name": "é", "value": [[[object()]]]}
    text = official_text(good)
    for _ in range(3):
        assert outcome(encoder.encode, bad) == official(bad)
        with pytest.raises(EncodeError):
            encoder.encode(wire_bad)
        assert encoder.encode(good) == text
        assert encoder.encode_binary(good) == text.encode()


# --- default= ----------------------------------------------------------------------------------


def test_default_is_called_for_what_json_cannot_carry() -> None:
    seen: list[Any] = []

    def default(value: Any) -> Any:
        seen.append(value)
        return {"was": type(value).__name__}

    encoder = EventEncoder(default=default)
    thing = object()
    value = {"ok": [1, "x"], "bad": [thing, {"deep": thing}]}
    text = '{"ok":[1,"x"],"bad":[{"was":"object"},{"deep":{"was":"object"}}]}'
    for event in (
        CustomEvent(name="n", value=value),
        {"type": "CUSTOM", "name": "n", "value": value},
    ):
        seen.clear()
        assert encoded(event, encoder) == f'{{"type":"CUSTOM","name":"n","value":{text}}}'
        assert seen == [thing, thing]
    for event in (
        TextMessageEndEvent(message_id="m", raw_event=thing),
        {"type": "TEXT_MESSAGE_END", "rawEvent": thing, "messageId": "m"},
        TextMessageEndEvent(message_id="m", metadata={"k": thing}),
        TextMessageEndEvent(message_id="m", extra=thing),
        {"type": "TEXT_MESSAGE_END", "messageId": "m", "extra": thing},
        MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c", metadata={"k": thing})]),
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [{"role": "user", "metadata": {"k": thing}}],
        },
        {"type": "FUTURE", "x": thing},
        {"type": "FUTURE", "x": TextMessageEndEvent(message_id="m", raw_event=thing)},
    ):
        assert '{"was":"object"}' in encoded(event, encoder)


def test_default_is_not_called_for_what_json_carries() -> None:
    def default(value: Any) -> Any:
        raise AssertionError(value)

    encoder = EventEncoder(default=default)
    for cls in EVENT_CLASSES:
        for event in variants(cls):
            assert_same(event, encoder)
    assert encoder.encode({"type": "X", "a": {1, 2}, "b": b"x", "c": (None,)})


def test_what_default_returns_is_written_like_any_value() -> None:
    from decimal import Decimal

    answers: list[Any] = [
        None,
        5,
        "é",
        [Decimal("1.5"), (1,)],
        {"k": {2: None}},
        EVENT,
        b"x",
    ]
    texts = ["null", "5", '"é"', '["1.5",[1]]', '{"k":{"2":null}}', FRAME[6:-2], '"x"']
    for answer, text in zip(answers, texts, strict=True):
        encoder = EventEncoder(default=lambda value, answer=answer: answer)
        for event in (
            CustomEvent(name="n", value=object()),
            {"type": "CUSTOM", "name": "n", "value": object()},
        ):
            assert encoded(event, encoder) == f'{{"type":"CUSTOM","name":"n","value":{text}}}'


def test_default_that_fails_or_never_ends() -> None:
    class Boom(Exception):
        pass

    def fail(value: Any) -> Any:
        raise Boom("boom")

    def same(value: Any) -> Any:
        return value

    def another(value: Any) -> Any:
        return [object()]

    for default in (fail, same, another):
        encoder = EventEncoder(default=default)
        with pytest.raises(PydanticSerializationError):
            encoder.encode(CustomEvent(name="n", value={"x": object()}))
        with pytest.raises(EncodeError) as raised:
            encoder.encode({"type": "CUSTOM", "name": "n", "value": {"x": object()}})
        assert raised.value.path == "value.x"
        assert raised.value.__cause__ is not None
        assert encoder.encode(EVENT) == FRAME


def test_default_does_not_make_an_event_of_what_is_none() -> None:
    encoder = EventEncoder(default=lambda value: {"type": "RAW"})
    with pytest.raises(EncodeError):
        encoder.encode(object())
    with pytest.raises(EncodeError):
        encoder.encode({"type": object()})


# --- drop_raw_event= ---------------------------------------------------------------------------


@by_class
def test_drop_raw_event(cls: type[BaseModel]) -> None:
    dropping = EventEncoder(drop_raw_event=True)
    for event in variants(cls):
        bare = event.model_copy(update={"raw_event": None})
        assert dropping.encode(event) == official_text(bare)
        assert dropping.encode_binary(event) == official_text(bare).encode()


def test_drop_raw_event_when_pydantic_writes() -> None:
    dropping = EventEncoder(drop_raw_event=True)
    warned = TextMessageContentEvent(message_id="m", delta="", raw_event={1})
    warned.delta = 5
    got = outcome(dropping.encode, warned)
    warned.raw_event = None
    assert got == official(warned)

    class Mine(TextMessageEndEvent):
        more: int = 1

    class Narrow(TextMessageEndEvent):
        def model_dump_json(self, by_alias: bool = False) -> str:
            return super().model_dump_json(by_alias=by_alias)

    for event in (
        TextMessageEndEvent(message_id="m", raw_event={1: object()}, metadata={"rawEvent": 1}),
        Mine(message_id="m", raw_event=1),
        Narrow(message_id="m", raw_event=1),
    ):
        bare = event.model_copy(update={"raw_event": None})
        assert dropping.encode(event) == official_text(bare)


def test_default_is_callable() -> None:
    with pytest.raises(TypeError, match="a callable is required, not 'str'"):
        EventEncoder(default="str")  # type: ignore[arg-type]


def test_drop_raw_event_of_what_only_looks_like_an_event() -> None:
    class Duck:
        def __init__(self) -> None:
            self.raw_event: object = {"big": 1}

        def model_dump_json(self, by_alias: bool = False, exclude_none: bool = False) -> str:
            return json.dumps({"type": "DUCK", "rawEvent": self.raw_event})

    duck = Duck()
    assert EventEncoder().encode(duck) == 'data: {"type": "DUCK", "rawEvent": {"big": 1}}\n\n'
    dropping = EventEncoder(drop_raw_event=True)
    assert dropping.encode(duck) == 'data: {"type": "DUCK", "rawEvent": null}\n\n'
    assert duck.raw_event == {"big": 1}


def test_drop_raw_event_drops_it_only_on_the_event_itself() -> None:
    dropping = EventEncoder(drop_raw_event=True)
    inner = {"rawEvent": 1, "raw_event": 2}
    event = RunStartedEvent(
        thread_id="t",
        run_id="r",
        raw_event={"gone": 1},
        metadata=inner,
        input={
            "threadId": "t",
            "runId": "r",
            "messages": [AssistantMessage(id="1", metadata=inner, rawEvent=3)],
            "state": TextMessageStartEvent(message_id="m", raw_event={"stays": 1}),
        },
    )
    text = encoded(event, dropping)
    assert "gone" not in text
    assert text == encoded(event.model_copy(update={"raw_event": None}))
    assert text.count('"rawEvent":') == 4
    wire = {
        "type": "CUSTOM",
        "name": "n",
        "rawEvent": {"gone": 1},
        "value": [inner, EVENT, {"type": "RAW", "rawEvent": 1}],
    }
    text = encoded(wire, dropping)
    assert "gone" not in text
    assert text.count('"rawEvent":') == 3
    raw = RawEvent(event={"rawEvent": 1}, raw_event=2)
    assert encoded(raw, dropping) == '{"type":"RAW","event":{"rawEvent":1}}'


@pytest.mark.parametrize(
    "raw",
    [
        {"rawEvent": {"gone": 1}},
        {"raw_event": {"gone": 1}},
        {"rawEvent": "gone", "raw_event": "gone"},
        {"rawEvent": None, "raw_event": "gone"},
        {"rawEvent": len},
        {"raw_event": "gone\ud800"},
    ],
)
@pytest.mark.parametrize("kind", ["TEXT_MESSAGE_END", EventType.TEXT_MESSAGE_END, "FUTURE"])
def test_drop_raw_event_in_wire_dicts(raw: dict[str, Any], kind: Any) -> None:
    wire = {"type": kind, **raw, "messageId": "m"}
    name = getattr(kind, "value", kind)
    text = encoded(wire, EventEncoder(drop_raw_event=True))
    assert text == f'{{"type":"{name}","messageId":"m"}}'


@pytest.mark.parametrize(
    ("alien", "reason"),
    [
        (None, "not an AG-UI event: NoneType"),
        ("RAW", "not an AG-UI event: str"),
        (5, "not an AG-UI event: int"),
        (object(), "not an AG-UI event: object"),
        (TextMessageEndEvent, "not an AG-UI event: the class TextMessageEndEvent"),
        (dict, "not an AG-UI event: the class dict"),
        ({}, 'missing "type"'),
        ({"messageId": "m"}, 'missing "type"'),
        ({"type": None}, "type: a str is needed, not NoneType"),
    ],
)
def test_what_is_not_an_event_is_one_error_everywhere(alien: Any, reason: str) -> None:
    seen = set()
    for accept in (None, agui_codec.AGUI_MEDIA_TYPE):
        encoder = EventEncoder(accept)
        for encode in (
            encoder.encode,
            encoder.encode_sse,
            encoder._encode_sse,
            encoder.encode_binary,
            encoder.encode_protobuf,
            lambda event, encoder=encoder: encoder.encode_many([event]),
            to_json,
            agui_codec.proto.encode,
        ):
            with pytest.raises(EncodeError) as caught:
                encode(alien)
            seen.add(str(caught.value))
    (text,) = seen
    assert text.startswith(reason)


def test_events_that_cannot_be_iterated_over() -> None:
    with pytest.raises(TypeError, match=r"^events must be an iterable of events, not int$"):
        EventEncoder().encode_many(5)


def test_the_repr_of_an_encoder() -> None:
    assert repr(EventEncoder()) == "EventEncoder()"
    text = "EventEncoder('application/x-ag-ui', drop_raw_event=True, exact_integers=True)"
    encoder = EventEncoder("application/x-ag-ui", drop_raw_event=True, exact_integers=True)
    assert repr(encoder) == text
    assert repr(eval(text)) == text
    assert repr(EventEncoder(default=len)) == "EventEncoder(default=<built-in function len>)"

    class Mine(EventEncoder):
        pass

    assert repr(Mine()) == "Mine()"
