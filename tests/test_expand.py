"""ChunkExpander: chunks written out, lane by lane."""

from __future__ import annotations

from typing import Any

import pytest

from agui_codec import ChunkExpander, Deviation, SequenceError, expand_chunks
from streams import Event, feed_all, models, stream, wire


def text(messageId: str | None = None, delta: str | None = None, **rest: Any) -> Event:
    return chunk("TEXT_MESSAGE_CHUNK", messageId=messageId, delta=delta, **rest)


def call(toolCallId: str | None = None, delta: str | None = None, **rest: Any) -> Event:
    return chunk("TOOL_CALL_CHUNK", toolCallId=toolCallId, delta=delta, **rest)


def thought(messageId: str | None = None, delta: str | None = None, **rest: Any) -> Event:
    return chunk("REASONING_MESSAGE_CHUNK", messageId=messageId, delta=delta, **rest)


def chunk(kind: str, **fields: Any) -> Event:
    return {"type": kind, **{key: value for key, value in fields.items() if value is not None}}


START, CONTENT, END = "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"
DONE: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def expanded(*events: Event) -> list[Event]:
    """What the events expand to, which is the same for both spellings."""
    output, error = feed_all(ChunkExpander(), list(events))
    if error is not None:
        raise error
    of_models, error = feed_all(ChunkExpander(), models(list(events)))
    assert error is None
    assert all(not isinstance(event, dict) for event in of_models)
    assert of_models == models(output)
    return output


def refused(*events: Event) -> SequenceError:
    _, error = feed_all(ChunkExpander(), list(events))
    assert isinstance(error, SequenceError)
    _, of_models = feed_all(ChunkExpander(), models(list(events)))
    assert str(of_models) == str(error)
    return error


# -- the field's cases -----------------------------------------------------------------


def test_c2_parallel_tool_call_chunks_stay_apart() -> None:
    a, b = call("a", "1", toolCallName="f"), call("b", "2", toolCallName="g")
    error = refused(a, b, call("a", "3"))
    assert (error.event_index, error.event_type, error.id) == (2, "TOOL_CALL_CHUNK", "a")
    assert "toolCallName" in error.expected
    again = expanded(a, b, call("a", "3", toolCallName="f"), DONE)
    assert [(event["type"], event.get("toolCallId")) for event in again] == [
        ("TOOL_CALL_START", "a"),
        ("TOOL_CALL_ARGS", "a"),
        ("TOOL_CALL_END", "a"),
        ("TOOL_CALL_START", "b"),
        ("TOOL_CALL_ARGS", "b"),
        ("TOOL_CALL_END", "b"),
        ("TOOL_CALL_START", "a"),
        ("TOOL_CALL_ARGS", "a"),
        ("TOOL_CALL_END", "a"),
        ("RUN_FINISHED", None),
    ]


def test_c3_a_continuation_needs_neither_id_nor_role() -> None:
    assert expanded(text("m", "a", role="user"), text(delta="b"), DONE) == [
        {"type": START, "messageId": "m", "role": "user"},
        {"type": CONTENT, "messageId": "m", "delta": "a"},
        {"type": CONTENT, "messageId": "m", "delta": "b"},
        {"type": END, "messageId": "m"},
        DONE,
    ]


@pytest.mark.parametrize(
    "between",
    [
        {"type": "RAW", "event": 1},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": {}},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "x", "patch": []},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "m",
            "encryptedValue": "b",
        },
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"},
    ],
    ids=lambda event: event["type"],
)
def test_c4_what_closes_nothing(between: Event) -> None:
    kinds = [event["type"] for event in expanded(text("m", "a"), between, text(delta="b"))]
    assert kinds == [START, CONTENT, between["type"], CONTENT]


@pytest.mark.parametrize(
    "between",
    [
        {"type": "CUSTOM", "name": "n", "value": None},
        {"type": "STATE_SNAPSHOT", "snapshot": {}},
        {"type": "STATE_DELTA", "delta": []},
        {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "STEP_FINISHED", "stepName": "s"},
        {"type": START, "messageId": "x"},
        {"type": CONTENT, "messageId": "x", "delta": ""},
        {"type": END, "messageId": "x"},
        {"type": "TOOL_CALL_START", "toolCallId": "x", "toolCallName": "f"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "x", "delta": ""},
        {"type": "TOOL_CALL_END", "toolCallId": "x"},
        {"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "x", "content": ""},
        {"type": "REASONING_START", "messageId": "x"},
        {"type": "REASONING_MESSAGE_START", "messageId": "x", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "x", "delta": ""},
        {"type": "REASONING_MESSAGE_END", "messageId": "x"},
        {"type": "REASONING_END", "messageId": "x"},
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        DONE,
        {"type": "RUN_ERROR", "message": "boom"},
    ],
    ids=lambda event: event["type"],
)
def test_c4_what_closes_the_lane(between: Event) -> None:
    kinds = [event["type"] for event in expanded(text("m", "a"), between)]
    assert kinds == [START, CONTENT, END, between["type"]]
    error = refused(text("m", "a"), between, text(delta="b"))
    assert "messageId" in str(error)
    assert error.event_index == 2


def test_c5_the_end_of_the_stream_ends_no_message() -> None:
    """An item that was cut off has not ended; the verifier reports the truncated run."""
    expander = ChunkExpander()
    assert len(expander.feed(text("m", "a"))) == 2
    assert expander.close() == []
    assert list(expand_chunks([text("m", "a")]))[-1]["type"] == CONTENT


def test_c6_a_repeat_agrees_with_the_opener_default_included() -> None:
    assert len(expanded(text("m", "a", role="user"), text("m", "b", role="user"))) == 3
    error = refused(text("m", "a", role="user"), text("m", "b", role="system"))
    assert "'system'" in str(error)
    assert "'user'" in error.expected
    assert len(expanded(text("m", "a"), text("m", "b", role="assistant"))) == 3
    assert "'assistant'" in refused(text("m", "a"), text("m", "b", role="user")).expected
    opener = call("c", "a", toolCallName="f")
    assert "'f'" in refused(opener, call("c", "b", toolCallName="g")).expected
    assert refused(opener, call("c", "b", parentMessageId="m")).expected == "none"


def test_c7_the_first_chunk_names_what_it_opens_and_an_empty_id_is_a_name() -> None:
    assert "messageId" in str(refused(text(delta="a")))
    assert "toolCallId" in str(refused(call(delta="a", toolCallName="f")))
    assert "toolCallName" in str(refused(call("c", "a")))
    assert "messageId" in str(refused(thought(delta="a")))
    assert expanded(text("", "a"))[0]["messageId"] == ""
    # An empty id is another one than an open one.
    kinds = [event["type"] for event in expanded(thought("q", "a"), thought("", "b"))]
    assert kinds[2] == "REASONING_MESSAGE_END"


# -- what a chunk carries --------------------------------------------------------------


def test_the_opener_carries_what_it_establishes_and_the_content_the_rest() -> None:
    opener = call(
        "c",
        "{",
        toolCallName="f",
        parentMessageId="m",
        subagentRunId="s",
        metadata={"k": 1},
        rawEvent={"p": 1},
        timestamp=5,
    )
    assert expanded(opener) == [
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "c",
            "toolCallName": "f",
            "parentMessageId": "m",
            "subagentRunId": "s",
            "metadata": {"k": 1},
        },
        {
            "type": "TOOL_CALL_ARGS",
            "toolCallId": "c",
            "delta": "{",
            "subagentRunId": "s",
            "metadata": {"k": 1},
            "rawEvent": {"p": 1},
        },
    ]
    assert expanded(thought("q", name=None))[0] == {
        "type": "REASONING_MESSAGE_START",
        "messageId": "q",
        "role": "reasoning",
    }


def test_a_raw_event_is_content_and_so_is_lone_metadata_of_a_continuation() -> None:
    assert expanded(text("m", rawEvent=1))[1] == {
        "type": CONTENT,
        "messageId": "m",
        "delta": "",
        "rawEvent": 1,
    }
    assert [event["type"] for event in expanded(text("m", metadata={"k": 1}))] == [START]
    assert expanded(text("m"), text("m", metadata={"k": 1}))[1:] == [
        {"type": CONTENT, "messageId": "m", "delta": "", "metadata": {"k": 1}}
    ]
    assert len(expanded(text("m"), text("m"))) == 1
    # Nothing of the chunk that closes an item clings to its END.
    assert expanded(text("m", "a"), text("n", "b", metadata={"k": 1}))[2] == {
        "type": END,
        "messageId": "m",
    }


def test_unknown_properties_ride_on_the_content_else_on_the_opener() -> None:
    start, content = expanded(text("m", "a", future=1))
    assert "future" not in start
    assert content["future"] == 1
    assert expanded(text("m", future=1)) == [
        {"type": START, "messageId": "m", "role": "assistant", "future": 1}
    ]
    assert expanded(text("m"), text("m", future=1))[1]["future"] == 1


def test_a_property_that_the_opener_has_gives_way_and_says_so() -> None:
    seen: list[Deviation] = []
    expander = ChunkExpander(on_deviation=seen.append)
    [start] = expander.feed(thought("q", role="wizard"))
    assert start["role"] == "reasoning"
    assert [(one.kind, one.event_type, one.path) for one in seen] == [
        ("overwritten", "REASONING_MESSAGE_CHUNK", "role")
    ]


def test_both_spellings_of_a_field_are_read() -> None:
    events = [
        {"type": "TEXT_MESSAGE_CHUNK", "message_id": "m", "delta": "a", "raw_event": 1},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "b", "subagent_run_id": None},
    ]
    output, error = feed_all(ChunkExpander(), events)
    assert error is None
    assert output[0] == {"type": START, "messageId": "m", "role": "assistant"}
    assert output[1] == {"type": CONTENT, "messageId": "m", "delta": "a", "rawEvent": 1}


# -- lanes -----------------------------------------------------------------------------


def test_each_lane_assembles_on_its_own() -> None:
    events = expanded(
        text("m", "a"),
        text("n", "b", subagentRunId="s"),
        text(delta="c"),
        text(delta="d", subagentRunId="s"),
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s"},
        text(delta="e"),
        DONE,
    )
    assert [(event["type"], event.get("messageId"), event.get("delta")) for event in events] == [
        (START, "m", None),
        (CONTENT, "m", "a"),
        (START, "n", None),
        (CONTENT, "n", "b"),
        (CONTENT, "m", "c"),
        (CONTENT, "n", "d"),
        (END, "n", None),
        ("SUBAGENT_FINISHED", None, None),
        (CONTENT, "m", "e"),
        (END, "m", None),
        ("RUN_FINISHED", None, None),
    ]


def test_the_run_closes_all_lanes_in_order_of_opening() -> None:
    events = expanded(
        text("b", "x", subagentRunId="s2"),
        call("a", "y", toolCallName="f", subagentRunId="s1"),
        thought("c", "z"),
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
    )
    assert [event["type"] for event in events[-4:]] == [
        END,
        "TOOL_CALL_END",
        "REASONING_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
    ]


def test_a_chunk_without_id_and_tag_goes_on_where_only_one_can_be_meant() -> None:
    assert len(expanded(text("n", "a", subagentRunId="s"), text(delta="b"))) == 3
    # The parent's own comes first.
    events = expanded(text("n", "a", subagentRunId="s"), text("m", "b"), text(delta="c"))
    assert events[-1]["messageId"] == "m"
    error = refused(
        text("n", "a", subagentRunId="s"), text("o", "b", subagentRunId="s2"), text(delta="c")
    )
    assert "ambiguous" in str(error)
    assert error.event_index == 2


def test_an_open_id_goes_on_where_it_is_and_a_tag_may_not_say_otherwise() -> None:
    assert len(expanded(text("n", "a", subagentRunId="s"), text("n", "b"))) == 3
    error = refused(text("n", "a", subagentRunId="s"), text("n", "b", subagentRunId="s2"))
    assert error.id == "n"
    assert "'s2'" in str(error)
    assert "'s'" in str(error)
    error = refused(text("n", "a"), text("n", subagentRunId="s"))
    assert "the parent agent" in str(error)


def test_a_null_tag_is_handed_on_for_verification_to_refuse() -> None:
    output, error = feed_all(
        ChunkExpander(), [text("m", "a"), {"type": "TEXT_MESSAGE_CHUNK", "subagentRunId": None}]
    )
    assert error is None
    assert output[-1] == {"type": CONTENT, "messageId": "m", "delta": "", "subagentRunId": None}


# -- laws ------------------------------------------------------------------------------


def test_all_else_passes_as_the_same_object() -> None:
    expander = ChunkExpander()
    for event in [*stream(1), {"type": "FUTURE"}]:
        if not event.get("type", "").endswith("_CHUNK"):
            assert expander.feed(event)[-1] is event
    for event in models([{"type": CONTENT, "messageId": "m", "delta": ""}]):
        assert expander.feed(event)[0] is event


@pytest.mark.parametrize("seed", range(200))
def test_models_and_wire_dicts_expand_alike(seed: int) -> None:
    events = stream(seed)
    output, error = feed_all(ChunkExpander(), events)
    of_models, of_models_error = feed_all(ChunkExpander(), models(events))
    assert error is None
    assert of_models_error is None
    assert wire(of_models) == wire(models(output))


def test_input_is_never_changed() -> None:
    events = [text("m", "a", metadata={"k": 1}, future=1), text("m", "b"), DONE]
    before = repr(events)
    feed_all(ChunkExpander(), events)
    assert repr(events) == before


def test_how_many_items_may_be_open_at_once() -> None:
    def chunk(number: int) -> Event:
        return {**text(f"m{number}", "a"), "subagentRunId": f"s{number}"}

    expander = ChunkExpander(max_open=3)
    for number in range(3):
        expander.feed(chunk(number))
    with pytest.raises(SequenceError, match=r"3 that may be open at once \(max_open\)") as caught:
        expander.feed(chunk(3))
    assert caught.value.id == "m3"
    # Another item of an open lane takes its place.
    assert expander.feed({**text("other", "a"), "subagentRunId": "s1"})[0]["messageId"] == "m1"
    assert repr(expander) == "<ChunkExpander open=3 max_open=3>"
    expander.feed({"type": "SUBAGENT_FINISHED", "subagentRunId": "s0"})
    expander.feed(chunk(3))


def test_lanes_close_in_the_order_in_which_they_opened() -> None:
    expander = ChunkExpander()
    order = [3, 1, 4, 0, 2]
    for number in order:
        expander.feed({**text(f"m{number}", "a"), "subagentRunId": f"s{number}"})
    # A lane that has closed leaves its place to the next.
    expander.feed({"type": "SUBAGENT_FINISHED", "subagentRunId": "s4"})
    expander.feed(text("m9", "a"))
    *ends, _ = expander.feed(DONE)
    assert [end["messageId"] for end in ends] == ["m3", "m1", "m0", "m2", "m9"]
    assert expander.feed(DONE) == [DONE]
