"""Pipelines: stages behind each other, as one stage and as iterators."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psutil
import pytest
from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, UserMessage

from agui_codec import (
    AGUIError,
    ChunkExpander,
    Compactor,
    ConcurrentUseError,
    Deviation,
    EnforcementError,
    EventDecoder,
    EventEnforcer,
    EventReducer,
    EventVerifier,
    LegacyDowngrader,
    LegacyUpgrader,
    Pipeline,
    SequenceError,
    athrough,
    client_pipeline,
    enforce_input,
    expand_chunks,
    through,
    verify_events,
)
from streams import Event, feed_all, models, run, stream

CHUNK: Event = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"}
RAW: Event = {"type": "RAW", "event": 1}


def client() -> Pipeline:
    """All of a client's stages, but for the decoder."""
    ignore: Any = lambda _: None  # noqa: E731
    return Pipeline(
        LegacyUpgrader(on_deviation=ignore),
        EventEnforcer(on_deviation=ignore),
        ChunkExpander(on_deviation=ignore),
        EventVerifier(),
    )


def collect(events: Iterator[Any]) -> tuple[list[Any], AGUIError | None]:
    """What an iteration gives, and the error that ended it."""
    out = []
    try:
        for event in events:
            out.append(event)
    except AGUIError as error:
        return out, error
    return out, None


def one_by_one(events: list[Any]) -> list[Any]:
    """What the same stages give when Python hands the events from one to the next."""
    ignore: Any = lambda _: None  # noqa: E731
    for stage in (
        LegacyUpgrader(on_deviation=ignore),
        EventEnforcer(on_deviation=ignore),
        ChunkExpander(on_deviation=ignore),
        EventVerifier(),
    ):
        events, error = feed_all(stage, events)
        assert error is None
        events += stage.close()
    return events


@pytest.mark.parametrize("seed", range(100))
def test_a_pipeline_is_its_stages_one_after_the_other(seed: int) -> None:
    for events in (stream(seed), models(stream(seed))):
        pipeline = client()
        output = [event for one in events for event in pipeline.feed(one)] + pipeline.close()
        assert output == one_by_one(events)


def test_what_nobody_touches_is_the_same_object() -> None:
    for events in (run(RAW), models(run(RAW))):
        assert all(one is other for one, other in zip(through(events, client()), events))  # noqa: B905


def test_models_come_last() -> None:
    pipeline = Pipeline(ChunkExpander(), as_models=True)
    output = [*pipeline.feed(CHUNK), *pipeline.feed(CHUNK)]
    assert [type(event).__name__ for event in output] == [
        "TextMessageStartEvent",
        "TextMessageContentEvent",
        "TextMessageContentEvent",
    ]
    # What is a model already stays it.
    [model] = models([RAW])
    assert pipeline.feed(model)[0] is model


# -- middleware ------------------------------------------------------------------------


def test_middleware_gives_an_event_nothing_or_several() -> None:
    def middleware(event: Event) -> Any:
        if event["type"] == "RAW":
            return None
        if event["type"] == "CUSTOM":
            return [event, {**event, "name": "again"}]
        if event["type"] == "AUDIO":
            return {"type": "RAW", "event": event}
        return event

    custom = {"type": "CUSTOM", "name": "n", "value": 1}
    pipeline = Pipeline(middleware, EventEnforcer())
    assert pipeline.feed(RAW) == []
    assert [event["name"] for event in pipeline.feed(custom)] == ["n", "again"]
    assert pipeline.feed({"type": "AUDIO"}) == [{"type": "RAW", "event": {"type": "AUDIO"}}]
    [model] = models([RAW])
    assert Pipeline(lambda event: event).feed(model) == [model]
    assert Pipeline(lambda _: model).feed(RAW)[0] is model
    assert Pipeline(lambda event: (one for one in (event, event))).feed(RAW) == [RAW, RAW]


def test_middleware_sees_what_enforcement_would_remove() -> None:
    seen: list[Event] = []

    def middleware(event: Event) -> Event | None:
        seen.append(event)
        return event

    pipeline = Pipeline(LegacyUpgrader(), middleware, EventEnforcer(on_deviation=lambda _: None))
    assert pipeline.feed({"type": "FUTURE", "x": 1}) == []
    assert seen == [{"type": "FUTURE", "x": 1}]


def test_middleware_may_change_the_event_in_place() -> None:
    def middleware(event: Event) -> Event:
        event["type"] = "FUTURE"
        return event

    seen: list[Deviation] = []
    pipeline = Pipeline(EventEnforcer(), middleware, EventEnforcer(on_deviation=seen.append))
    assert pipeline.feed(dict(RAW)) == []
    assert seen[0].event_type == "FUTURE"


def test_middleware_that_returns_something_else_or_raises() -> None:
    def answer(result: Any) -> Any:
        def middleware(_event: Event) -> Any:
            return result

        return middleware

    for wrong, name in [(5, "int"), ("ab", "str"), (b"ab", "bytes"), (["ab"], "str"), ([5], "int")]:
        for rest in ((), (EventEnforcer(),)):
            with pytest.raises(TypeError, match=rf"middleware.* returned {name},"):
                Pipeline(answer(wrong), *rest).feed(RAW)
    # What comes before a decoder gives bytes.
    sse = b"data: %s\n\n" % json.dumps(RAW).encode()
    assert Pipeline(answer([sse]), EventDecoder(as_dict=True)).feed(b"") == [RAW]

    def broken(_event: Event) -> None:
        raise LookupError("mine")

    pipeline = Pipeline(broken)
    for _ in range(2):
        with pytest.raises(LookupError, match="mine"):
            pipeline.feed(RAW)


@pytest.mark.parametrize("method", ["feed", "close"])
@pytest.mark.parametrize(("wrong", "name"), [("ab", "str"), (["ab"], "str"), (5, "int")])
def test_a_stage_that_gives_what_is_not_an_event(wrong: Any, name: str, method: str) -> None:
    class Odd:
        def feed(self, event: Any) -> Any:
            return wrong if method == "feed" else [event]

        def close(self) -> Any:
            return wrong

    pipeline = Pipeline(Odd())
    with pytest.raises(TypeError, match=rf"Odd object .* returned {name},"):
        pipeline.feed(RAW) if method == "feed" else pipeline.close()


STAGES: list[Callable[[], Any]] = [
    LegacyUpgrader,
    EventEnforcer,
    ChunkExpander,
    EventVerifier,
    lambda: LegacyDowngrader("0.0.57"),
    lambda: Pipeline(EventEnforcer()),
    lambda: Pipeline(EventEnforcer(), as_models=True),
]


@pytest.mark.parametrize("make", STAGES)
@pytest.mark.parametrize(
    ("other", "text"),
    [
        (None, "not an AG-UI event: NoneType"),
        (5, "not an AG-UI event: int"),
        ("RAW", "not an AG-UI event: str"),
        ([], "not an AG-UI event: list"),
        (
            TextMessageEndEvent,
            "not an AG-UI event: the class TextMessageEndEvent, not an instance of it",
        ),
        (UserMessage(id="1", content="a"), "not an AG-UI event: UserMessage"),
        ({}, 'missing "type"'),
        ({"event": 1}, 'missing "type"'),
        ({"type": None}, '"type" must be a string, not NoneType'),
        ({"type": 5}, '"type" must be a string, not int'),
    ],
    ids=repr,
)
def test_what_is_not_an_event_is_one_error(make: Callable[[], Any], other: Any, text: str) -> None:
    with pytest.raises(AGUIError) as caught:
        make().feed(other)
    assert type(caught.value) is AGUIError
    assert str(caught.value) == text


def test_stages_say_what_they_are() -> None:
    assert repr(ChunkExpander()) == "<ChunkExpander open=0 max_open=10000>"
    assert repr(EventEnforcer()) == "<EventEnforcer after 0 events>"
    assert repr(LegacyUpgrader()) == "<LegacyUpgrader>"
    assert repr(LegacyDowngrader("0.0.57")) == "LegacyDowngrader('0.0.57')"
    assert repr(LegacyDowngrader(None)) == "LegacyDowngrader(None)"
    verifier = EventVerifier()
    assert repr(verifier) == "<EventVerifier before the first run>"
    verifier.feed({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
    verifier.feed({"type": "STEP_STARTED", "stepName": "s"})
    assert repr(verifier) == "<EventVerifier in run 'r' with 1 open>"
    pipeline = Pipeline(ChunkExpander(), EventVerifier(repair=True), as_models=True)
    assert repr(pipeline) == (
        "Pipeline(<ChunkExpander open=0 max_open=10000>, "
        "<EventVerifier before the first run repair=True>, as_models=True)"
    )


def test_stages_of_ones_own() -> None:
    class Delay:
        """Holds each event back until the next."""

        def __init__(self) -> None:
            self.held: list[Event] = []

        def feed(self, event: Event) -> list[Event]:
            out, self.held = self.held, [event]
            return out

        def close(self) -> list[Event]:
            return self.held

    events = stream(3)
    assert list(through(events, Delay(), ChunkExpander(), Delay())) == list(expand_chunks(events))
    assert list(through(events, client(), EventVerifier())) == list(through(events, client()))


@pytest.mark.parametrize("other", [None, 5, "stage", [], {}])
def test_what_is_no_stage(other: Any) -> None:
    with pytest.raises(TypeError, match="a stage has feed and close"):
        through([], other)
    with pytest.raises(TypeError, match="a stage has feed and close"):
        athrough(aiter_of([]), other)


# -- errors ----------------------------------------------------------------------------


def test_events_before_an_error_come_first() -> None:
    """One item may give several events, and the error comes after those before it."""
    several = Pipeline(iter, EventVerifier())
    start = run()[0]
    assert several.feed([start, RAW, start]) == [start, RAW]
    assert isinstance(several.error, SequenceError)
    for call in (lambda: several.feed([RAW]), several.close):
        with pytest.raises(SequenceError) as caught:
            call()
        assert caught.value is several.error
    got, error = collect(through([[start, RAW, start]], iter, EventVerifier()))
    assert got == [start, RAW]
    assert isinstance(error, SequenceError)


def test_a_closed_pipeline_takes_nothing() -> None:
    pipeline = Pipeline(ChunkExpander())
    assert pipeline.close() == []
    assert pipeline.close() == []
    with pytest.raises(AGUIError, match="closed"):
        pipeline.feed(RAW)


def test_a_truncated_stream_is_an_error_at_the_end() -> None:
    got, error = collect(verify_events(run()[:1]))
    assert got == run()[:1]
    assert "terminal" in str(error)


def test_a_source_is_closed_when_the_iteration_ends_early() -> None:
    closed = []

    def source() -> Iterator[Event]:
        try:
            yield from run(RAW)
        finally:
            closed.append(1)

    iterator = through(source(), ChunkExpander())
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert closed == [1]
    with pytest.raises(EnforcementError):
        list(through(iter([{"type": "RAW"}]), EventEnforcer()))


# -- asynchronously --------------------------------------------------------------------


async def aiter_of(events: list[Any]) -> AsyncIterator[Any]:
    for event in events:
        await asyncio.sleep(0)
        yield event


@pytest.mark.parametrize("seed", range(20))
def test_sync_and_async_are_alike(seed: int) -> None:
    async def acollect(events: list[Event]) -> tuple[list[Any], AGUIError | None]:
        out = []
        try:
            async for event in athrough(aiter_of(events), client()):
                out.append(event)
        except AGUIError as error:
            return out, error
        return out, None

    for events in (stream(seed), stream(seed, faulty=True), stream(seed)[:-1]):
        out, error = asyncio.run(acollect(events))
        sync_out, sync_error = collect(through(events, client()))
        assert out == sync_out
        assert str(error) == str(sync_error)


def test_an_async_source_is_closed_when_the_iteration_ends_early() -> None:
    closed = []

    async def source() -> AsyncIterator[Event]:
        try:
            for event in run(RAW):
                yield event
        finally:
            closed.append(1)

    async def main() -> None:
        iterator = athrough(source(), ChunkExpander())
        await iterator.__anext__()
        await iterator.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    assert closed == [1]


def test_an_async_iterable_whose_iterator_is_another_is_closed_too() -> None:
    closed = []

    class Source:
        async def __aiter__(self) -> AsyncIterator[Event]:
            try:
                for event in run(RAW):
                    yield event
            finally:
                closed.append("iterator")

        async def aclose(self) -> None:
            closed.append("iterable")

    async def main() -> None:
        iterator = athrough(Source(), ChunkExpander())
        await iterator.__anext__()
        await iterator.aclose()  # type: ignore[attr-defined]
        assert closed == ["iterator", "iterable"]

    asyncio.run(main())


# -- objects ---------------------------------------------------------------------------


def test_a_callback_may_feed_another_stage_but_not_its_own() -> None:
    inner = EventEnforcer(on_deviation=lambda _: None)
    outer = EventEnforcer(on_deviation=lambda _: inner.feed({**RAW, "zz": 1}))
    assert outer.feed({**RAW, "zz": 1}) == [RAW]
    chunk = {"type": "REASONING_MESSAGE_CHUNK", "messageId": "m", "role": "x"}
    again = ChunkExpander(on_deviation=lambda _: again.feed(RAW))
    with pytest.raises(ConcurrentUseError, match="this ChunkExpander is in use"):
        again.feed(chunk)
    assert again.feed(RAW) == [RAW]


def test_a_callback_may_feed_an_enforcer_itself() -> None:
    """It holds nothing that the event at hand could leave half done."""
    seen = []

    def again(deviation: Deviation) -> None:
        seen.append(enforcer.feed({**RAW, "timestamp": 1}))
        if len(seen) < 3:
            enforcer.feed({**RAW, "yy": 1})

    enforcer = EventEnforcer(on_deviation=again)
    assert enforcer.feed({**RAW, "zz": 1}) == [RAW]
    assert seen == [[{**RAW, "timestamp": 1}]] * 3
    with pytest.raises(EnforcementError, match=r"^event 6 "):
        enforcer.feed({**RAW, "timestamp": "1"})


@pytest.mark.parametrize(
    "make",
    [
        lambda callback: ChunkExpander(on_deviation=callback),
        lambda callback: EventEnforcer(on_deviation=callback),
        lambda callback: LegacyUpgrader(mint_id=callback, on_deviation=callback),
        lambda callback: LegacyDowngrader("0.0.1", on_deviation=callback),
        lambda callback: Pipeline(callback),
        lambda callback: Pipeline(EventEnforcer(on_deviation=callback)),
    ],
)
def test_a_stage_in_a_cycle_is_collected(make: Any) -> None:
    class Callback:
        def __call__(self, _value: Any) -> None: ...

    callback = Callback()
    callback.stage = make(callback)  # type: ignore[attr-defined]
    gone = weakref.ref(callback)
    del callback
    gc.collect()
    assert gone() is None


def test_deviations_compare_print_and_do_not_change() -> None:
    one = Deviation("unknown_property", "RAW", "zz", "removed it")
    assert one == Deviation("unknown_property", "RAW", "zz", "removed it")
    assert hash(one) == hash(Deviation("unknown_property", "RAW", "zz", "removed it"))
    assert one != Deviation("unknown_property", None, "zz", "removed it")
    assert eval(repr(one)) == one
    assert str(one) == "RAW: zz: removed it"
    assert str(Deviation("k", None, "", "d")) == "d"
    with pytest.raises(AttributeError):
        one.path = "x"  # type: ignore[misc]


def test_streams_in_several_threads() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for at in range(seed * 20, seed * 20 + 20):
                events = stream(at)
                assert list(through(events, client())) == one_by_one(events)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# -- memory ----------------------------------------------------------------------------


@pytest.mark.serial
def test_a_million_events_leave_memory_flat() -> None:
    """Bounded by what is open, not by what has passed."""
    process = psutil.Process()
    pipeline = client()
    start, end = run()
    pipeline.feed(start)
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x" * 20}
    other = {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "delta": "y" * 20}
    content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "e", "delta": "z" * 20}
    pipeline.feed({"type": "TEXT_MESSAGE_START", "messageId": "e", "subagentRunId": "s"})

    def pump(rounds: int) -> None:
        for _ in range(rounds):
            pipeline.feed(dict(chunk))
            pipeline.feed(dict(content, subagentRunId="s"))
            pipeline.feed(dict(other))
            pipeline.feed({"type": "STEP_STARTED", "stepName": "s"})
            pipeline.feed({"type": "STEP_FINISHED", "stepName": "s"})

    pump(2_000)
    gc.collect()
    before = process.memory_info().rss
    pump(200_000)
    gc.collect()
    assert process.memory_info().rss - before < 8 * 2**20
    pipeline.feed({"type": "TEXT_MESSAGE_END", "messageId": "e"})
    pipeline.feed(end)
    # Runs that have passed leave nothing, with all the ids that they had.
    for number in range(40_000):
        pipeline.feed({**start, "runId": f"run{number}"})
        pipeline.feed({**chunk, "messageId": f"message{number}"})
        pipeline.feed({**end, "runId": f"run{number}"})
    gc.collect()
    assert process.memory_info().rss - before < 8 * 2**20


def test_models_of_a_stream_are_those_of_the_sdk() -> None:
    pipeline = Pipeline(client(), as_models=True)
    output = [event for one in run(CHUNK) for event in pipeline.feed(one)]
    assert TextMessageContentEvent(message_id="m", delta="a") in output


@pytest.mark.parametrize(
    "make",
    [
        EventDecoder,
        client_pipeline,
        LegacyUpgrader,
        EventEnforcer,
        ChunkExpander,
        Compactor,
        EventReducer,
        functools.partial(LegacyDowngrader, "0.0.50"),
        functools.partial(enforce_input, {}),
    ],
)
def test_a_callback_is_callable(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="a callable is required, not 'int'"):
        make(on_deviation=5)


def test_a_dict_that_changes_while_a_model_is_made_of_it() -> None:
    messages = [{"id": str(at), "role": "user", "content": "c"} for at in range(9)]
    events: list[dict[str, Any]] = []

    def change(_phase: str, _info: dict[str, int]) -> None:
        for event in events:
            event[f"more{len(event)}"] = 1

    before = gc.get_threshold()
    gc.callbacks.append(change)
    gc.set_threshold(1)
    try:
        for _ in range(50):
            events[:] = [{"type": "MESSAGES_SNAPSHOT", "messages": messages, "metadata": {"a": 1}}]
            # Of pydantic, which then reads the dict.
            with contextlib.suppress(ValueError, RuntimeError):
                Pipeline(as_models=True).feed(events[0])
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(change)
