"""EventVerifier(repair=True), ``ending_events`` and ``thread_id``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agui_codec import (
    SSE_MEDIA_TYPE,
    ChunkExpander,
    Deviation,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    SequenceError,
    client_pipeline,
    iter_events,
)
from conftest import corpus_files
from streams import Event, feed_all, models, sse, stream, wire

RUN: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
DONE: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
FAILED: Event = {"type": "RUN_ERROR", "message": "boom"}


def event(kind: str, **fields: Any) -> Event:
    return {"type": kind, **fields}


def text(kind: str, messageId: str = "m", **fields: Any) -> Event:
    if kind == "CONTENT":
        fields.setdefault("delta", "a")
    return event(f"TEXT_MESSAGE_{kind}", messageId=messageId, **fields)


def call(kind: str, toolCallId: str = "c", **fields: Any) -> Event:
    if kind == "START":
        fields.setdefault("toolCallName", "f")
    if kind == "ARGS":
        fields.setdefault("delta", "{}")
    return event(f"TOOL_CALL_{kind}", toolCallId=toolCallId, **fields)


STEP = event("STEP_STARTED", stepName="s")
STEP_DONE = event("STEP_FINISHED", stepName="s")
AGENT = event("SUBAGENT_STARTED", subagentRunId="s", name="n")
AGENT_DONE = event("SUBAGENT_FINISHED", subagentRunId="s")


def repaired(*events: Event) -> tuple[list[Event], list[str]]:
    """What repair gives, alike in both spellings, and the kinds of what it reports."""
    results = []
    for spelled in (list(events), models(list(events))):
        seen: list[Deviation] = []
        verifier = EventVerifier(repair=True, on_deviation=seen.append)
        output, error = feed_all(verifier, spelled)
        assert error is None
        assert all(isinstance(one, dict) == isinstance(spelled[0], dict) for one in output)
        _, error = feed_all(EventVerifier(), output)
        assert error is None
        results.append((output, [one.kind for one in seen]))
    assert wire(results[1][0]) == wire(models(results[0][0]))
    assert results[0][1] == results[1][1]
    return results[0]


def test_what_is_open_at_the_end_is_closed_first() -> None:
    output, kinds = repaired(
        RUN, AGENT, STEP, {**STEP, "subagentRunId": "s"}, event("REASONING_START", messageId="q"),
        event("REASONING_MESSAGE_START", messageId="w", role="reasoning", subagentRunId="s"),
        call("START", subagentRunId="s"), text("START"), text("START", "n"), DONE,
    )  # fmt: skip
    assert output[9:] == [
        text("END"),
        text("END", "n"),
        call("END", subagentRunId="s"),
        event("REASONING_MESSAGE_END", messageId="w", subagentRunId="s"),
        event("REASONING_END", messageId="q"),
        {**STEP_DONE, "subagentRunId": "s"},
        STEP_DONE,
        AGENT_DONE,
        DONE,
    ]
    assert kinds == ["repair"] * 8


def test_an_error_ends_everything_by_itself() -> None:
    assert repaired(RUN, text("START"), STEP, FAILED) == ([RUN, text("START"), STEP, FAILED], [])


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (text("START"), text("END")),
        (call("START"), call("END")),
        (
            event("REASONING_MESSAGE_START", messageId="m", role="reasoning"),
            event("REASONING_MESSAGE_END", messageId="m"),
        ),
        (event("REASONING_START", messageId="m"), event("REASONING_END", messageId="m")),
        (STEP, STEP_DONE),
        ({**STEP, "subagentRunId": "z"}, {**STEP_DONE, "subagentRunId": "z"}),
    ],
    ids=lambda one: one["type"],
)
def test_an_item_that_starts_again_is_closed_first_and_an_end_too_many_goes(
    start: Event, end: Event
) -> None:
    assert repaired(RUN, start, start, end, DONE) == (
        [RUN, start, end, start, end, DONE],
        ["repair"],
    )
    assert repaired(RUN, end, start, end, end, DONE) == ([RUN, start, end, DONE], ["repair"] * 2)


def test_items_side_by_side_are_left_alone() -> None:
    events = [RUN, text("START"), text("START", "n"), call("START"), text("CONTENT"), call("END"),
              text("CONTENT", "n"), text("END"), text("END", "n"), DONE]  # fmt: skip
    assert repaired(*events) == (events, [])


@pytest.mark.parametrize(
    "lost",
    [
        text("CONTENT"),
        call("ARGS"),
        event("REASONING_MESSAGE_CONTENT", messageId="m", delta="a"),
        AGENT_DONE,
        event("SUBAGENT_ERROR", subagentRunId="s", message="x"),
        {**AGENT, "parentSubagentRunId": "nobody"},
    ],
    ids=lambda one: one["type"],
)
def test_what_has_no_place_is_dropped_and_said_to_be_lost(lost: Event) -> None:
    assert repaired(RUN, lost, DONE) == ([RUN, DONE], ["repair_loss"])


def test_a_subagent_starts_once() -> None:
    for events in ([RUN, AGENT, AGENT, AGENT_DONE, DONE], [RUN, AGENT, AGENT_DONE, AGENT, DONE]):
        assert repaired(*events) == ([RUN, AGENT, AGENT_DONE, DONE], ["repair_loss"])


def test_after_the_end_of_a_run() -> None:
    raw = event("RAW", event=1)
    for last in (DONE, FAILED):
        assert repaired(RUN, last, text("END"), raw, text("CONTENT"), {**RUN, "runId": "r2"}) == (
            [RUN, last, {**RUN, "runId": "r2"}],
            ["repair", "repair_loss", "repair_loss"],
        )
    # Producers that say that they have finished after they have failed.
    assert repaired(RUN, FAILED, DONE, FAILED) == ([RUN, FAILED], ["repair_loss"] * 2)
    assert repaired(RUN, DONE, DONE, FAILED) == ([RUN, DONE, FAILED], ["repair_loss"])


def test_a_run_that_starts_twice() -> None:
    assert repaired(RUN, STEP, RUN, STEP_DONE, DONE) == (
        [RUN, STEP, STEP_DONE, DONE],
        ["repair"],
    )


@pytest.mark.parametrize(
    "events",
    [
        [text("START")],
        [event("RAW", event=1)],
        [RUN, {**RUN, "runId": "other"}],
        [RUN, {**DONE, "runId": "other"}],
        [RUN, {**DONE, "threadId": "other"}],
        [RUN, DONE, {**RUN, "threadId": "other"}],
        [RUN, text("START"), text("CONTENT", subagentRunId="s")],
        [RUN, text("START", subagentRunId="s"), text("START", subagentRunId="z")],
        [RUN, text("START"), {**DONE, "runId": "other"}],
        [RUN, {"type": "TEXT_MESSAGE_START"}],
        [RUN, {**DONE, "outcome": {"type": "interrupt", "interrupts": []}}],
    ],
    ids=lambda events: "-".join(one["type"] for one in events),
)
def test_what_stays_refused(events: list[Event]) -> None:
    verifier = EventVerifier(repair=True, on_deviation=pytest.fail)
    *before, last = events
    output, error = feed_all(verifier, before)
    assert (output, error) == (before, None)
    open_before = verifier.open
    with pytest.raises(SequenceError) as caught:
        verifier.feed(last)
    _, plain = feed_all(EventVerifier(), events)
    assert str(caught.value) == str(plain)
    # It is as if it had not been fed.
    assert verifier.open == open_before


def test_a_truncated_run_is_no_success() -> None:
    verifier = EventVerifier(repair=True)
    feed_all(verifier, [RUN, text("START")])
    with pytest.raises(SequenceError, match="without a terminal event"):
        verifier.close()
    with pytest.raises(SequenceError, match="no events"):
        EventVerifier(repair=True).close()


def test_a_report_that_raises_changes_nothing() -> None:
    def refuse(deviation: Deviation) -> None:
        raise LookupError(deviation.detail)

    verifier = EventVerifier(repair=True, on_deviation=refuse)
    feed_all(verifier, [RUN, text("START")])
    for wrong in (text("START"), text("END", "x"), DONE):
        with pytest.raises(LookupError):
            verifier.feed(wrong)
        assert verifier.open["text_messages"] == ["m"]
    assert verifier.feed(text("END")) == [text("END")]
    assert verifier.feed(DONE) == [DONE]


def test_what_is_reported() -> None:
    seen: list[Deviation] = []
    verifier = EventVerifier(repair=True, on_deviation=seen.append)
    feed_all(verifier, [RUN, text("START"), call("END"), DONE])
    assert [str(one) for one in seen] == [
        "TOOL_CALL_END: dropped the event: no tool call 'c' is open",
        "RUN_FINISHED: the text message 'm' was left open; put its TEXT_MESSAGE_END before",
    ]


NAMES = st.sampled_from(["a", "b"])
TAGS: Any = st.one_of(st.none(), st.sampled_from(["s", "z"]))


def tagged(kind: str, **fields: Any) -> st.SearchStrategy[Event]:
    def clean(one: Event) -> Event:
        return {"type": kind, **{key: value for key, value in one.items() if value is not None}}

    return st.fixed_dictionaries({**fields, "subagentRunId": TAGS}).map(clean)


ANY_EVENT = st.one_of(
    st.builds(lambda run: {**RUN, "runId": run}, NAMES),
    st.builds(lambda run: {**DONE, "runId": run}, NAMES),
    st.just(FAILED),
    *(
        tagged(f"{family}_{kind}", messageId=NAMES, **fields)
        for family in ("TEXT_MESSAGE", "REASONING_MESSAGE")
        for kind, fields in (("START", {}), ("CONTENT", {"delta": st.just("x")}), ("END", {}))
    ),
    tagged("REASONING_START", messageId=NAMES),
    tagged("REASONING_END", messageId=NAMES),
    tagged("TOOL_CALL_START", toolCallId=NAMES, toolCallName=st.just("f"), parentMessageId=NAMES),
    tagged("TOOL_CALL_ARGS", toolCallId=NAMES, delta=st.just("x")),
    tagged("TOOL_CALL_END", toolCallId=NAMES),
    tagged("TOOL_CALL_RESULT", toolCallId=NAMES, messageId=NAMES, content=st.just("x")),
    tagged("STEP_STARTED", stepName=NAMES),
    tagged("STEP_FINISHED", stepName=NAMES),
    tagged("SUBAGENT_STARTED", name=NAMES, parentSubagentRunId=TAGS),
    tagged("SUBAGENT_FINISHED"),
    tagged("CUSTOM", name=NAMES, value=NAMES),
    st.builds(
        lambda ids: {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [{"id": one, "role": "assistant", "subagentRunId": "s"} for one in ids],
        },
        st.lists(NAMES, max_size=2),
    ),
)


@settings(max_examples=600)
@given(st.lists(ANY_EVENT, max_size=30), st.booleans())
def test_whatever_repair_gives_verifies(events: list[Event], begins: bool) -> None:
    """For any sequence of events: what is refused is left out, and the rest goes on."""
    seen: list[Deviation] = []
    repairing = EventVerifier(repair=True, on_deviation=seen.append)
    plain = EventVerifier()
    if begins:
        events = [{**RUN, "runId": "a"}, *events]
    for one in events:
        reported = len(seen)
        try:
            output = repairing.feed(one)
        except SequenceError:
            assert len(seen) == reported
            continue
        # Nothing changes without a report, and what was fed is not changed.
        if output != [one]:
            assert len(seen) > reported
            assert not output or output[-1] is one
        for given_ in output:
            assert plain.feed(given_) == [given_]
        assert plain.open == repairing.open
    assert ending(repairing) == ending(plain)


def ending(verifier: EventVerifier) -> str | None:
    """What is wrong with the end of a stream."""
    try:
        assert verifier.close() == []
    except SequenceError as error:
        return error.reason
    return None


@pytest.mark.parametrize("seed", range(200))
def test_a_legal_stream_passes_as_it_is(seed: int) -> None:
    events, _ = feed_all(ChunkExpander(), stream(seed))
    verifier = EventVerifier(repair=True, on_deviation=pytest.fail)
    output, error = feed_all(verifier, events)
    assert error is None
    assert all(one is other for one, other in zip(output, events, strict=True))
    assert verifier.close() == []


@pytest.mark.parametrize("seed", range(0, 400, 2))
def test_a_faulty_stream_after_repair_verifies(seed: int) -> None:
    events, _ = feed_all(ChunkExpander(on_deviation=lambda _: None), stream(seed, faulty=True))
    seen: list[Deviation] = []
    output, _ = feed_all(EventVerifier(repair=True, on_deviation=seen.append), events)
    assert feed_all(EventVerifier(), output)[1] is None


# -- ending a run now ------------------------------------------------------------------


def check_endings(events: list[Any]) -> int:
    """That a run can end after every event of a stream. How many it needed."""
    verifier = EventVerifier()
    ends = 0
    for at, one in enumerate(events):
        try:
            verifier.feed(one)
        except SequenceError:
            return ends
        open_before = verifier.open
        endings = verifier.ending_events()
        assert verifier.open == open_before
        run = open_before["run"]
        if run is None:
            assert endings == []
            continue
        assert all(isinstance(end, dict) == isinstance(one, dict) for end in endings)
        finished: Any = {
            "type": "RUN_FINISHED",
            "threadId": run["thread_id"],
            "runId": run["run_id"],
        }
        finished = finished if isinstance(one, dict) else models([finished])[0]
        copy = EventVerifier()
        _, error = feed_all(copy, [*events[: at + 1], *endings, finished])
        assert error is None, (at, endings)
        assert copy.close() == []
        _, error = feed_all(EventEnforcer(on_deviation=pytest.fail), endings)
        assert error is None
        ends += len(endings)
    return ends


@pytest.mark.parametrize("seed", range(60))
def test_a_run_can_end_anywhere_in_a_random_stream(seed: int) -> None:
    events, _ = feed_all(ChunkExpander(), stream(seed))
    assert check_endings(events) == check_endings(models(events))


@pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))
def test_a_run_can_end_anywhere_in_a_stream_of_the_corpus(path: Path) -> None:
    ignore: Any = lambda _: None  # noqa: E731
    events: list[Any] = json.loads(path.read_text("utf-8"))["stream"]
    for stage in (
        LegacyUpgrader(on_deviation=ignore),
        EventEnforcer(on_deviation=ignore),
        ChunkExpander(on_deviation=ignore),
    ):
        events, _ = feed_all(stage, events)
    check_endings(events)


@pytest.mark.parametrize("path", corpus_files("recordings/*.sse"))
def test_a_run_can_end_anywhere_in_a_recording(path: Path) -> None:
    events = list(iter_events([path.read_bytes()], as_dict=True, on_deviation=lambda _: None))
    expanded, error = feed_all(ChunkExpander(), events)
    assert error is None
    assert check_endings(expanded) > 0


def test_ending_events_belong_to_their_owners() -> None:
    verifier = EventVerifier()
    assert verifier.ending_events() == []
    parent = [text("START", "p", subagentRunId="s"), text("END", "p")]
    feed_all(verifier, [RUN, *parent, call("START", parentMessageId="p"), STEP])
    assert verifier.ending_events() == [call("END", subagentRunId="s"), STEP_DONE]
    feed_all(verifier, [*verifier.ending_events(), DONE])
    assert verifier.ending_events() == []


# -- the thread ------------------------------------------------------------------------


def test_every_run_is_on_the_given_thread() -> None:
    verifier = EventVerifier(thread_id="t")
    with pytest.raises(SequenceError, match="the stream is of thread 't'") as caught:
        verifier.feed({**RUN, "threadId": "other"})
    assert (caught.value.id, caught.value.expected) == ("other", "threadId 't'")
    feed_all(verifier, [RUN, DONE])
    with pytest.raises(SequenceError, match="thread 't'"):
        verifier.feed({**RUN, "threadId": "other"})
    assert verifier.feed({**RUN, "runId": "r2"})


def test_a_client_asks_for_all_of_it() -> None:
    seen: list[Deviation] = []
    pipeline = client_pipeline(
        SSE_MEDIA_TYPE, as_dict=True, thread_id="t", repair=True, on_deviation=seen.append
    )
    assert pipeline.feed(sse([RUN, STEP, DONE])) == [RUN, STEP, STEP_DONE, DONE]
    assert [one.kind for one in seen] == ["repair"]
    with pytest.raises(SequenceError, match="thread 'u'"):
        client_pipeline(thread_id="u").feed(sse([RUN]))
    chunks = [
        event("TEXT_MESSAGE_CHUNK", messageId=name, subagentRunId=name, delta="a")
        for name in ("a", "b")
    ]
    for limited, limit in (
        (client_pipeline(max_open=1), "max_open"),
        (client_pipeline(max_items=1), "max_items"),
    ):
        limited.feed(sse([RUN, *chunks]))
        with pytest.raises(SequenceError, match=rf"\({limit}\)"):
            limited.feed(b"")
