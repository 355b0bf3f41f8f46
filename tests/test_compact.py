"""Compaction: `src/state/{compact,segment,window}.rs`."""

from __future__ import annotations

import copy
import gc
import json
import random
import time
from typing import Any

import pytest
from ag_ui.core import Event, TextMessageContentEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import agui_codec
import node_peer
from agui_codec import (
    AGUIError,
    ChunkExpander,
    Compactor,
    Deviation,
    EventReducer,
    EventVerifier,
    compact_events,
    through,
    verify_events,
)
from streams import content, end, event, start, stream

EVENTS = TypeAdapter(Event)
Events = list[dict[str, Any]]


def call(call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return event("TOOL_CALL_START", toolCallId=call_id, toolCallName="f", **fields)


def args(delta: str, call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return event("TOOL_CALL_ARGS", toolCallId=call_id, delta=delta, **fields)


def call_end(call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return event("TOOL_CALL_END", toolCallId=call_id, **fields)


def thought(part: str, message: str = "q", **fields: Any) -> dict[str, Any]:
    return event(f"REASONING_MESSAGE_{part}", messageId=message, **fields)


def custom(value: Any = 1) -> dict[str, Any]:
    return event("CUSTOM", name="n", value=value)


def state(value: Any, **fields: Any) -> dict[str, Any]:
    return event("STATE_SNAPSHOT", snapshot=value, **fields)


def delta(*patch: Any, **fields: Any) -> dict[str, Any]:
    return event("STATE_DELTA", delta=list(patch), **fields)


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def messages(*given: Any) -> dict[str, Any]:
    return event("MESSAGES_SNAPSHOT", messages=list(given))


STARTED = event("RUN_STARTED", threadId="t", runId="r")
FINISHED = event("RUN_FINISHED", threadId="t", runId="r")


def quiet(_: Deviation) -> None:
    """What replays the same is all the same."""


def outcome(events: Events) -> tuple[Any, ...]:
    """What a stream adds up to."""
    reduced = EventReducer(state={"old": []}, as_dict=True, on_deviation=quiet).apply_all(events)
    return (
        reduced.messages, reduced.state, reduced.pending_interrupts, reduced.pending_tool_calls,
        reduced.thread_id, reduced.run_id,
    )  # fmt: skip


def verifies(events: Events) -> bool:
    try:
        list(verify_events(events))
    except AGUIError:
        return False
    return True


def lawful(events: Events, **options: Any) -> Events:
    """The compacted stream, after every law was checked."""
    text = json.dumps(events)
    compacted = compact_events(events, on_deviation=quiet, **options)
    assert json.dumps(events) == text
    assert outcome(compacted) == outcome(events)
    assert not verifies(events) or verifies(compacted)
    assert compact_events(compacted, on_deviation=quiet, **options) == compacted
    compactor = Compactor(on_deviation=quiet, **options)
    fed = [one for given in events for one in compactor.feed(given)] + compactor.close()
    assert fed == compacted
    return compacted


# Text and calls --------------------------------------------------------------------------------


def test_the_seed_example() -> None:
    events = [start(), content("a"), content("b"), custom(), content("c"), end()]
    assert lawful(events) == [start(), content("abc"), end(), custom()]


def test_arguments_of_a_call() -> None:
    events = [call(), args("{"), custom(), args("}"), call_end(), custom(2)]
    assert lawful(events) == [call(), args("{}"), call_end(), custom(), custom(2)]


def test_empty_deltas_are_deltas() -> None:
    assert lawful([start(), content(""), end()]) == [start(), content(""), end()]
    assert lawful([start(), content(""), content(""), end()]) == [start(), content(""), end()]
    assert lawful([start(), end()]) == [start(), end()]


def test_collapsed_deltas_keep_attribution_metadata_and_unknown_properties() -> None:
    events = [
        start(subagentRunId="s"),
        content("a", subagentRunId="s", metadata={"k": 1, "l": [1]}, timestamp=1, zz=1),
        content("b", metadata={"k": 2}, rawEvent={"x": 1}, zz=2, yy={"a": 1}),
        end(metadata={"e": 1}),
    ]
    assert lawful(events) == [
        events[0],
        content("ab", metadata={"k": 2, "l": [1]}, subagentRunId="s", zz=2, yy={"a": 1}),
        events[3],
    ]


def test_a_delta_that_stands_alone_is_kept_whole() -> None:
    events = [start(), content("a", timestamp=1, rawEvent=None, metadata={}), end()]
    assert all(ours is theirs for ours, theirs in zip(lawful(events), events, strict=True))


def test_interleaved_items_stand_in_the_order_of_their_starts() -> None:
    events = [
        start("a"), start("b"), content("1", "b"), content("1", "a"), custom(), content("2", "b"),
        end("b"), content("2", "a"), end("a"), custom(2),
    ]  # fmt: skip
    assert lawful(events) == [
        start("a"), content("12", "a"), end("a"), start("b"), content("12", "b"), end("b"),
        custom(), custom(2),
    ]  # fmt: skip


def test_a_call_inside_its_parent() -> None:
    events = [
        start(),
        call(parentMessageId="m"),
        args("1"),
        content("a"),
        args("2"),
        call_end(),
        event("TOOL_CALL_RESULT", messageId="r", toolCallId="c", content="ok"),
        end(),
    ]
    assert [one["type"] for one in lawful(events)] == [
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TOOL_CALL_START",
        "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
    ]  # fmt: skip


def test_a_message_that_reopens_is_two_items() -> None:
    events = [
        start(),
        content("a"),
        content("b"),
        end(),
        custom(),
        start(),
        content("c"),
        content("d"),
        end(),
    ]
    assert lawful(events) == [
        start(),
        content("ab"),
        end(),
        custom(),
        start(),
        content("cd"),
        end(),
    ]


def test_reasoning_is_collapsed_on_request() -> None:
    events = [
        thought("START", role="reasoning"),
        thought("CONTENT", delta="a"),
        thought("CONTENT", delta="b"),
        thought("END"),
    ]
    assert lawful(events) == events
    assert lawful(events, reasoning=True) == [events[0], thought("CONTENT", delta="ab"), events[3]]


# Fences ----------------------------------------------------------------------------------------


def user(message: str = "u") -> dict[str, Any]:
    return {"id": message, "role": "user", "content": "hi"}


def test_r6_a_snapshot_inside_a_message_stays_inside() -> None:
    events = [
        start(),
        content("a"),
        content("a"),
        messages(user()),
        content("b"),
        content("b"),
        end(),
    ]
    assert lawful(events) == [start(), content("aa"), messages(user()), content("bb"), end()]
    kept = messages(user(), {"id": "m", "role": "assistant", "content": "x"})
    events[3] = kept
    assert lawful(events) == [start(), content("aa"), kept, content("bb"), end()]
    assert outcome(events)[0][0]["content"] == "xbb"


def test_an_item_open_at_the_end_of_a_run() -> None:
    error = event("RUN_ERROR", message="x")
    events = [
        STARTED,
        start(),
        content("a"),
        content("b"),
        error,
        STARTED,
        start(),
        content("c"),
        content("d"),
        end(),
        FINISHED,
    ]
    assert lawful(events) == [
        STARTED,
        start(),
        content("ab"),
        error,
        STARTED,
        start(),
        content("cd"),
        end(),
        FINISHED,
    ]
    assert lawful([STARTED, start(), content("a"), content("b")]) == [
        STARTED,
        start(),
        content("ab"),
    ]


def test_events_that_write_to_an_open_message_are_not_passed() -> None:
    activity = event("ACTIVITY_SNAPSHOT", messageId="m", activityType="t", content={"n": 0})
    events = [start(), content("a"), activity, content("b"), end()]
    assert lawful(events) == events
    events = [call(), args("a"), {**activity, "messageId": "c"}, args("b"), call_end()]
    assert lawful(events) == events
    # Text and reasoning with one id write to one message.
    events = [start(), content("a"), thought("CONTENT", "m", delta="b"), content("c"), end()]
    assert lawful(events) == events
    assert lawful(events, reasoning=True) == events
    other = {**activity, "messageId": "p"}
    assert lawful([start(), content("a"), other, content("b"), end()])[-1] == other


def test_a_message_that_comes_to_be_behind_a_fence() -> None:
    events = [
        start(),
        messages(user()),
        content("lost"),
        call(parentMessageId="m"),
        content("kept"),
        end(),
    ]
    compacted = lawful(events)
    assert outcome(compacted)[0][1]["content"] == "kept"


def test_a_start_of_what_is_open() -> None:
    events = [
        call(metadata={"a": 1}),
        args("a"),
        {**call(metadata={"a": 2}), "toolCallName": "g"},
        args("b"),
        call_end(),
    ]
    assert lawful(events) == events


class Evil(str):
    """An id that is equal to nothing, itself included."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def test_ids_count_by_their_text() -> None:
    opened = [call("c"), call("c", parentMessageId="m"), args("a", "c"), args("b", "c")]
    closing = [
        call_end("c"),
        event("ACTIVITY_SNAPSHOT", messageId="m", activityType="t", content={}),
    ]
    events = [*opened, *closing]
    keys = ("toolCallId", "parentMessageId", "messageId")
    evil = [
        {key: Evil(value) if key in keys else value for key, value in one.items()} for one in events
    ]
    assert json.dumps(compact_events(evil)) == json.dumps(compact_events(events))


def test_what_stands_between_a_call_and_its_parent() -> None:
    """An event that writes to the parent of an open call passes none of the call's arguments."""
    thoughts = thought("CONTENT", "m", delta="x")
    opened = [call("c", parentMessageId="m"), call("d", parentMessageId="m")]
    events = [*opened, args("a"), args("b"), call_end(), thoughts, args("c", "d"), call_end("d")]
    assert lawful(events) == [
        opened[0], args("ab"), call_end(), opened[1], thoughts, args("c", "d"), call_end("d"),
    ]  # fmt: skip
    # When no call of it is open any more, nothing is between.
    events = [start("z"), *opened, call_end(), call_end("d"), thoughts, content("a", "z"), end("z")]
    assert lawful(events)[:3] == [start("z"), content("a", "z"), end("z")]


# Errors ----------------------------------------------------------------------------------------


def test_an_event_is_taken_whole_or_not_at_all() -> None:
    for bad, path in (
        (content("lost", metadata=5), "metadata"),
        (content(5), "delta"),  # type: ignore[arg-type]
        (event("STATE_SNAPSHOT"), "snapshot"),
        (state({"lost": 1}, metadata=5), "metadata"),
        (delta(add("/lost", 1), metadata=5), "metadata"),
    ):
        compactor = Compactor()
        out: Events = []
        for one in (start(), content("a"), state({})):
            out += compactor.feed(one)
        with pytest.raises(AGUIError, match=path):
            compactor.feed(bad)
        for one in (content("b"), end(), delta(add("/x", 1))):
            out += compactor.feed(one)
        out += compactor.close()
        assert out == [start(), content("ab"), end(), state({"x": 1})]


def test_what_was_ready_before_an_error_comes_with_the_next_call() -> None:
    class RefusedError(Exception):
        pass

    def refuse(_: Deviation) -> None:
        raise RefusedError

    odd: Any = {**state({}), 5: "a key that JSON does not have"}
    compactor = Compactor(on_deviation=refuse)
    compactor.feed(start())
    with pytest.raises(RefusedError):
        compactor.feed(odd)
    assert compactor.feed(end()) == [start(), end()]
    # A start of what is open lets out what is held, and is one too many then.
    compactor = Compactor(max_open=0)
    with pytest.raises(AGUIError, match="max_open"):
        compactor.feed(start())
    compactor = Compactor(max_open=1)
    compactor.feed(call())
    fence = call(parentMessageId="m")
    assert compactor.feed(fence) == [call()]
    with pytest.raises(AGUIError, match="delta"):
        compactor.feed(event("TOOL_CALL_ARGS", toolCallId="c"))
    assert compactor.close() == [fence]


@pytest.mark.parametrize(
    "more",
    [{5: 1}, {"metadata": {5: 1}}, {"subagentRunId": 5}, {(): 1}, {None: 1}],
)
@pytest.mark.parametrize("as_model", [False, True])
def test_what_no_collapsed_delta_can_say_stays(more: dict[Any, Any], as_model: bool) -> None:
    """Such an event comes out as it went in, and what is open behind it goes on."""
    odd: Any = {**content("b"), **more}
    if as_model:
        fields = {"subagent_run_id" if key == "subagentRunId" else key for key in more}
        if not fields <= {"metadata", "subagent_run_id"}:
            return
        given = dict(zip(fields, more.values(), strict=True))
        odd = TextMessageContentEvent.model_construct(message_id="m", delta="b", **given)
    events = [start(), content("a"), odd, odd, content("c"), content("d"), end()]
    compacted = compact_events(events)
    assert compacted == [start(), content("a"), odd, odd, content("cd"), end()]
    assert compacted[2] is odd
    assert compact_events(compacted) == compacted
    assert outcome(compacted) == outcome(events)


def test_calls_behind_a_fence_that_an_error_broke_off() -> None:
    """What has left is not looked for where it was."""
    odd = TextMessageContentEvent.model_construct(message_id="m", delta="b", subagent_run_id=5)
    results = [
        event("TOOL_CALL_RESULT", messageId=f"r{n}", toolCallId="c", content="") for n in range(3)
    ]
    events = [content("a"), odd, odd, call(), *results, messages(user()), *results, call_end()]
    assert compact_events(events) == events


# State -----------------------------------------------------------------------------------------


def test_state_events_of_a_run_become_a_snapshot() -> None:
    events = [
        STARTED, delta(add("/old/-", 1)), state({"a": []}), custom(), delta(add("/a/-", 1)),
        delta(add("/a/-", 2)), custom(2), FINISHED,
    ]  # fmt: skip
    assert lawful(events) == [STARTED, custom(), custom(2), state({"a": [1, 2]}), FINISHED]


def test_r4_deltas_alone_stay_deltas() -> None:
    deltas = [delta(add("/old/-", 1)), delta(add("/old/-", 2))]
    events = [STARTED, deltas[0], custom(), deltas[1], FINISHED]
    assert lawful(events) == [STARTED, custom(), *deltas, FINISHED]
    second = [STARTED, *deltas, FINISHED]
    events = [STARTED, state({"old": []}), FINISHED, *second]
    assert lawful(events) == events


def test_only_the_last_snapshot_counts() -> None:
    events = [
        state(1, metadata={"a": 1, "b": 1}),
        state({"x": 1}),
        delta(add("/y", 2), metadata={"a": 2}),
    ]
    assert lawful(events) == [state({"x": 1, "y": 2}, metadata={"a": 2, "b": 1})]
    lone = [state({"x": 1}, timestamp=1, rawEvent={})]
    assert lawful(lone)[0] is lone[0]
    assert lawful([state(1), state(None)]) == [state(None)]


def test_state_keeps_the_owner_that_all_name() -> None:
    one = {"subagentRunId": "s"}
    assert lawful([state({}, **one), delta(add("/a", 1), **one)]) == [state({"a": 1}, **one)]
    assert lawful([state({}, **one), delta(add("/a", 1))]) == [state({"a": 1})]


def test_a_snapshot_keeps_what_the_state_events_said_besides() -> None:
    events = [
        state({}, zz=1, yy=1),
        delta(add("/a", 1), zz=2),
        delta(add("/b", 2), xx={"k": [1]}),
    ]
    assert lawful(events) == [state({"a": 1, "b": 2}, zz=2, yy=1, xx={"k": [1]})]
    # A snapshot that stands alone is whole only if nothing was said before it.
    events = [state(1, zz=1), state(2)]
    assert lawful(events) == [state(2, zz=1)]


def test_members_that_json_does_not_have_are_reported() -> None:
    found: list[Deviation] = []
    odd: Any = {**state({}), 5: 1}
    compacted = compact_events([odd, delta(add("/a", 1))], on_deviation=found.append)
    assert compacted == [state({"a": 1})]
    assert [(one.kind, one.event_type) for one in found] == [("unknown_property", "STATE_SNAPSHOT")]


def test_a_delta_that_does_not_apply_is_left_out_and_reported() -> None:
    found: list[Deviation] = []
    events = [
        state({}),
        delta(add("/a", 1)),
        delta(add("/x/y", 1)),
        delta({"op": "zap", "path": ""}),
    ]
    assert compact_events(events, on_deviation=found.append) == [state({"a": 1})]
    assert [(one.kind, one.path) for one in found] == [
        ("patch_not_applied", "delta[0]"),
        ("unknown_op", "delta[0].op"),
    ]
    lawful(events)


def test_a_malformed_delta_stays_where_it_is() -> None:
    bad = delta({"op": "add", "path": "/a"})
    assert compact_events([state({}), delta(add("/a", 1)), bad, delta(add("/b", 1))]) == [
        state({"a": 1}), bad, delta(add("/b", 1)),
    ]  # fmt: skip
    events = [start(), state({}), bad, content("a"), content("b"), end()]
    assert compact_events(events) == [start(), content("ab"), end(), state({}), bad]


def test_the_events_own_snapshot_is_not_patched() -> None:
    before = state({"a": [1]}, metadata={"k": 1})
    events = [state(0, metadata={"z": 1}), before, delta(add("/a/-", 2))]
    assert lawful(events) == [state({"a": [1, 2]}, metadata={"z": 1, "k": 1})]
    assert before == state({"a": [1]}, metadata={"k": 1})


# Spelling --------------------------------------------------------------------------------------


def verified(seed: int) -> Events:
    return list(through(stream(seed), ChunkExpander(), EventVerifier()))


@pytest.mark.parametrize("seed", range(60))
def test_models_come_out_as_models(seed: int) -> None:
    events = verified(seed)
    models = [EVENTS.validate_python(one) for one in events]
    compacted = compact_events(models, on_deviation=quiet)
    assert all(hasattr(one, "model_fields_set") for one in compacted)
    expected = [EVENTS.validate_python(one) for one in compact_events(events, on_deviation=quiet)]
    assert [agui_codec.to_json(one) for one in compacted] == [
        agui_codec.to_json(one) for one in expected
    ]
    assert [one.model_fields_set for one in compacted] == [one.model_fields_set for one in expected]


class Own(type(EVENTS.validate_python(content("a")))):  # type: ignore[misc]
    pass


def test_subclasses_unknown_types_and_what_is_no_event() -> None:
    future = event("FUTURE_EVENT", x=1)
    own = [Own(message_id="m", delta="a"), Own(message_id="m", delta="b")]
    compacted = compact_events([start(), *own, future, end()])
    assert [compacted[0], *compacted[2:]] == [start(), end(), future]
    assert compacted[1].delta == "ab"
    for bad in (1, {}, None):
        with pytest.raises(AGUIError):
            compact_events([bad])
    with pytest.raises(AGUIError, match="TEXT_MESSAGE_CONTENT: delta: a str is needed"):
        compact_events([start(), content("a"), event("TEXT_MESSAGE_CONTENT", messageId="m")])
    with pytest.raises(TypeError):
        compact_events(1)  # type: ignore[arg-type]


def test_ids_and_deltas_of_any_script() -> None:
    for message in ("å", "漢字", "😀", "", "\ud83d"):
        events = [
            start(message),
            *[content(part, message) for part in ("å", "漢", "\ud83d", "")],
            end(message),
        ]
        assert compact_events(events)[1] == content("å漢\ud83d", message)


class Text(str):
    """A str that is not exactly one."""

    __slots__ = ()


def test_deltas_are_joined_whatever_their_text_and_spelling() -> None:
    """The short way takes exact strs in the usual order of keys; all else goes the long way."""
    for parts in (
        ["", "a", "b"],
        ["a", "é", "b", "c", "漢", "😀", "d"],
        ["é", "é"],
        ["a", Text("b"), "c", Text("é")],
        ["x", "y" * 100_000, "\ud83d", "z"],
        ["0123456789abcdef"[:size] for size in range(17)],
    ):
        joined = content("".join(parts))
        deltas = [content(part) for part in parts]
        backwards = [dict(reversed(one.items())) for one in deltas]
        named = [{"type": Text(one["type"]), "message_id": "m", "delta": one["delta"]}
                 for one in deltas]  # fmt: skip
        # Equal strs, of which none is the one that the decoder gives.
        read = json.loads(json.dumps(deltas))
        mixed = [*deltas[:1], *backwards[1:2], *named[2:3], *deltas[3:4], *read[4:]]
        for spelled in (deltas, backwards, named, read, mixed):
            compacted = compact_events([start(), *spelled, end()])
            assert compacted == [start(), joined, end()]
            assert type(compacted[1]["delta"]) is str
            calls = [{("toolCallId" if k in ("messageId", "message_id") else k):
                      ("TOOL_CALL_ARGS" if k == "type" else v) for k, v in one.items()}
                     for one in spelled]  # fmt: skip
            assert compact_events([call("m"), *calls])[1] == args("".join(parts), "m")
    # An id is the same if its text is, however long and wherever it differs.
    for one, other in (("m" * 16, "m" * 15 + "n"), ("m" * 17, "m" * 16 + "n"), ("m" * 8, "m" * 9)):
        events = [start(one), start(other), *(content("a", i) for i in (one, one, other, other))]
        for spelled in (events, [json.loads(json.dumps(said)) for said in events]):
            compacted = compact_events(spelled)
            assert compacted == [start(one), content("aa", one), start(other), content("aa", other)]


@pytest.mark.parametrize("read", [copy.deepcopy, lambda one: json.loads(json.dumps(one))])
def test_what_looks_like_a_delta_but_says_more(read: Any) -> None:
    """In each place of the short way, the strs themselves or equal ones."""
    usual = [content("a"), content("b")]
    for odd in (
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta="c", subagentRunId="s"),
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta="c", metadata={"k": 1}),
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta="c", more=1),
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta="c", timestamp=1),
        event("TEXT_MESSAGE_CONTENT", messageId="other", delta="c"),
        event("REASONING_MESSAGE_CONTENT", messageId="m", delta="c"),
        event("CUSTOM", name="n", value="c"),
    ):
        events = [read(one) for one in (start(), *usual, odd, *usual, end())]
        [first, joined, *rest] = compact_events(events)
        models = [EVENTS.validate_python(one) for one in events]
        by_model = [
            one.model_dump(by_alias=True, exclude_none=True, mode="json")
            for one in compact_events(models)
        ]
        assert by_model == [first, joined, *rest]
        assert first == start()
        if odd["type"] == "TEXT_MESSAGE_CONTENT" and odd["messageId"] == "m":
            more = {k: v for k, v in odd.items() if k not in (*content(""), "timestamp")}
            assert joined == {**content("abcab"), **more}
            assert rest == [end()]
        else:
            assert "c" not in joined["delta"]
            assert odd in rest
    for keys in (("messageId", "more"), ("subject", "delta")):
        odd = event("TEXT_MESSAGE_CONTENT", **dict(zip(keys, ("m", "c"), strict=True)))
        with pytest.raises(AGUIError, match="a str is needed"):
            compact_events([read(one) for one in (start(), *usual, odd)])


# Laws over random streams ----------------------------------------------------------------------


@pytest.mark.parametrize("reasoning", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
def test_law(seed: int, reasoning: bool) -> None:
    lawful(verified(seed), reasoning=reasoning)


@given(seed=st.integers(0, 2**32 - 1))
def test_law_of_streams_that_do_not_verify(seed: int) -> None:
    """Replay and idempotence hold for shuffled streams as well."""
    events = [one for one in verified(seed) if one["type"] != "MESSAGES_SNAPSHOT"]
    rng = random.Random(seed)
    for _ in range(5):
        at, other = rng.randrange(len(events)), rng.randrange(len(events))
        events[at], events[other] = events[other], events[at]
    compacted = compact_events(events, on_deviation=quiet)
    assert compact_events(compacted, on_deviation=quiet) == compacted
    assert outcome(compacted) == outcome(events)


# The TypeScript client -------------------------------------------------------------------------


def comparable(events: Events) -> Events:
    """Without what the client drops of any delta and snapshot that it makes anew (R7)."""
    dropped = ("timestamp", "rawEvent", "subagentRunId")
    made = ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "STATE_SNAPSHOT")
    return [
        {key: value for key, value in one.items() if one["type"] not in made or key not in dropped}
        for one in events
    ]


def interleaves(events: Events) -> bool:
    """Whether an item begins, or a fence stands, while an item is open."""
    opened: set[tuple[str, str]] = set()
    for one in events:
        kind, _, part = one["type"].rpartition("_")
        item = (kind, str(one.get("messageId", one.get("toolCallId"))))
        if kind in ("TEXT_MESSAGE", "TOOL_CALL") and part == "START":
            if opened:
                return True
            opened.add(item)
        elif kind in ("TEXT_MESSAGE", "TOOL_CALL") and part == "END":
            opened.discard(item)
        elif opened and one["type"] in ("MESSAGES_SNAPSHOT", "RUN_ERROR"):
            return True
    return False


def exception(events: Events, theirs: Events) -> str | None:
    """Why the TypeScript client's compaction of a stream may differ from ours."""
    if outcome(theirs) != outcome(events):
        return "its replay differs: items leave in the order of their ends"
    if not verifies(theirs):
        return "it does not verify: what is open at the end of a run leaves behind that"
    if interleaves(events):
        return "items interleave: its order is that of their ends, ours that of their starts"
    if any("futureProperty" in one for one in events):
        return "it drops unknown properties of deltas"
    return None


def sequential(seed: int) -> Events:
    """A stream whose items do not interleave, with all sorts of other events between and within."""
    rng = random.Random(seed)
    events: Events = [{**STARTED, "runId": f"r{seed}"}]
    has_state = False
    for item in range(rng.randrange(1, 6)):
        text = rng.random() < 0.6
        opener, part, close = (start, content, end) if text else (call, args, call_end)
        events.append(opener(f"i{item}"))
        for _ in range(rng.randrange(6)):
            choice = rng.random()
            if choice < 0.5:
                more = {"metadata": {rng.choice("kl"): rng.randrange(3)}} if choice < 0.1 else {}
                events.append(part(rng.choice(["a", "", "é", "😀"]), f"i{item}", **more))
            elif choice < 0.65:
                events.append(custom(rng.randrange(9)))
            elif choice < 0.75:
                events.append(event("RAW", event={"x": 1}))
            elif choice < 0.85 and has_state:
                events.append(delta(add("/n", rng.randrange(9))))
            elif choice < 0.9:
                has_state = True
                events.append(state({"n": 0}))
            else:
                events.append(event("STEP_STARTED", stepName=f"s{len(events)}"))
                events.append(event("STEP_FINISHED", stepName=f"s{len(events) - 1}"))
        events.append(close(f"i{item}"))
        if not text and rng.random() < 0.5:
            result = {"messageId": f"res{item}", "toolCallId": f"i{item}", "content": "ok"}
            events.append(event("TOOL_CALL_RESULT", **result))
    events.append({**FINISHED, "runId": f"r{seed}"})
    return events


def test_equal_to_the_typescript_client_where_that_keeps_the_law() -> None:
    streams = [sequential(seed) for seed in range(300)] + [verified(seed) for seed in range(300)]
    answers = node_peer.run("state_oracle.mjs", [{"events": events} for events in streams])
    equal = 0
    for seed, (events, answer) in enumerate(zip(streams, answers, strict=True)):
        ours = compact_events(events, on_deviation=quiet)
        if comparable(ours) == comparable(answer["compacted"]):
            equal += 1
        else:
            assert exception(events, answer["compacted"]), seed
    assert equal >= 300


# Growth ----------------------------------------------------------------------------------------


def long_stream(size: int) -> Events:
    """So many events: messages of a hundred deltas, state, and the odd other one."""
    events: Events = []
    while len(events) < size:
        message = f"m{len(events)}"
        events += [{**STARTED, "runId": message}, state({"n": 0}), start(message)]
        for number in range(100):
            events.append(content("twenty characters ..", message))
            if number % 20 == 0:
                events += [custom(number), delta({"op": "replace", "path": "/n", "value": number})]
        events += [end(message), {**FINISHED, "runId": message}]
    return events[:size]


def test_the_compactor_holds_only_what_is_open() -> None:
    compactor = Compactor()
    events = long_stream(20_000)
    waiting = 0
    most = 0
    for one in events:
        waiting += 1
        waiting -= len(compactor.feed(one))
        if one["type"] == "RUN_FINISHED":
            # Nothing is held between runs: what came in since was collapsed or has left.
            waiting = 0
        most = max(most, waiting)
    assert most < 130
    assert compactor.close() is not None


def test_200_000_deltas_of_one_message() -> None:
    deltas = [content("twenty characters ..") for _ in range(200_000)]
    assert compact_events([start(), *deltas, end()]) == [
        start(),
        content("twenty characters .." * 200_000),
        end(),
    ]


@pytest.mark.serial
def test_memory_stays_flat() -> None:
    psutil = pytest.importorskip("psutil")
    process = psutil.Process()
    compactor = Compactor()
    events = long_stream(10_000)

    def rounds(count: int) -> int:
        for _ in range(count):
            for one in events:
                compactor.feed(copy.copy(one))
        return int(process.memory_info().rss)

    before = rounds(3)
    assert rounds(10) - before < 4 * 2**20


@pytest.mark.serial
def test_compaction_is_linear() -> None:
    whole = long_stream(1_000_000)
    # The same events, so that both read and fill as much memory: with less of it the caches help.
    parts = [whole[at : at + 100_000] for at in range(0, len(whole), 100_000)]

    def cost(streams: list[Events]) -> float:
        began = time.process_time()
        kept = [compact_events(one) for one in streams]
        spent = time.process_time() - began
        assert sum(map(len, kept)) < len(whole)
        return spent

    # The collector would walk all the events again and again.
    gc.disable()
    spent = [(cost([whole]), cost(parts)) for _ in range(6)]
    gc.enable()
    # What else the machine does only adds to it.
    at_once, in_parts = (min(times) for times in zip(*spent, strict=True))
    assert at_once < 1.1 * in_parts
