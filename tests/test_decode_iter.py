"""Iterating over events: promptly, to the end, and no further."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from agui_codec import (
    AGUIError,
    DecodeError,
    SequenceError,
    TruncatedStreamError,
    aiter_events,
    client_pipeline,
    iter_events,
    read_events,
    through,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


def sse(delta: str) -> bytes:
    event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


class Source:
    """Chunks, synchronous or not, and what became of them."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.given = 0
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            self.given += 1
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            await asyncio.sleep(0)
            self.given += 1
            yield chunk

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class TestSync:
    def test_prompt(self) -> None:
        first, second, third = sse("1"), sse("2"), sse("3")
        source = Source(first + second[:9], second[9:-1], second[-1:] + third)
        seen = [(event.delta, source.given) for event in iter_events(source)]
        assert seen == [("1", 1), ("2", 3), ("3", 3)]
        assert not source.closed

    def test_options(self) -> None:
        (event,) = iter_events([sse("1")], "text/event-stream", as_dict=True)
        assert event["delta"] == "1"
        with pytest.raises(AGUIError, match="no AG-UI stream"):
            iter_events([], "application/json")

    def test_s13_a_done_at_the_end(self) -> None:
        seen: list[Any] = []
        source = Source(sse("1"), b"data: [DONE]\n\n")
        (event,) = iter_events(source, allow_done=True, on_deviation=seen.append)
        assert (event.delta, [deviation.kind for deviation in seen]) == ("1", ["done"])
        with pytest.raises(DecodeError, match=r"event 1: .*\[DONE\]"):
            list(iter_events(Source(sse("1"), b"data: [DONE]\n\n")))

    def test_a_file(self) -> None:
        assert len(list(iter_events(io.BytesIO(sse("1") + sse("2"))))) == 2

    def test_an_early_end_closes_the_source(self) -> None:
        source = Source(sse("1"), sse("2"))
        events: Any = iter_events(source)
        assert next(events).delta == "1"
        events.close()
        assert source.closed
        assert source.given == 1

    def test_an_error_comes_at_once_and_closes_the_source(self) -> None:
        source = Source(sse("1") + sse("2") + b"data: x\n\n" + sse("3"), sse("4"))
        events = iter_events(source)
        assert [next(events).delta, next(events).delta] == ["1", "2"]
        with pytest.raises(DecodeError, match="event 2: ") as caught:
            next(events)
        assert caught.value.event_index == 2
        assert source.given == 1
        assert source.closed

    def test_a_truncated_stream(self) -> None:
        events = iter_events([sse("1"), sse("2")[:-9]])
        assert next(events).delta == "1"
        with pytest.raises(TruncatedStreamError):
            next(events)

    def test_the_last_event_without_its_blank_line(self) -> None:
        assert [event.delta for event in iter_events([sse("1"), sse("2")[:-2]])] == ["1", "2"]


class TestAsync:
    def run(self, source: Any, **options: Any) -> list[Any]:
        async def collect() -> list[Any]:
            return [event async for event in aiter_events(source, **options)]

        return asyncio.run(collect())

    def test_prompt(self) -> None:
        first, second, third = sse("1"), sse("2"), sse("3")
        source = Source(first + second[:9], second[9:-1], second[-1:] + third)

        async def collect() -> list[tuple[str, int]]:
            return [(event.delta, source.given) async for event in aiter_events(source)]

        assert asyncio.run(collect()) == [("1", 1), ("2", 3), ("3", 3)]
        assert not source.closed

    def test_events_of_one_chunk_need_no_further_turn(self) -> None:
        async def main() -> int:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            counter = asyncio.create_task(count())
            events = aiter_events(Source(b"".join(sse(str(at)) for at in range(100))))
            await anext(events)
            before = turns
            for _ in range(99):
                await anext(events)
            counter.cancel()
            return turns - before

        assert asyncio.run(main()) == 0

    def test_options(self) -> None:
        (event,) = self.run(Source(sse("1")), as_dict=True)
        assert event["delta"] == "1"
        with pytest.raises(AGUIError, match="no AG-UI stream"):
            aiter_events(Source(), "application/json")

    def test_s13_a_done_at_the_end(self) -> None:
        seen: list[Any] = []
        source = Source(sse("1"), b"data: [DONE]\n\n")
        (event,) = self.run(source, allow_done=True, on_deviation=seen.append)
        assert (event.delta, [deviation.kind for deviation in seen]) == ("1", ["done"])
        with pytest.raises(DecodeError, match=r"event 1: .*\[DONE\]"):
            self.run(Source(sse("1"), b"data: [DONE]\n\n"))

    def test_an_early_end_closes_the_source(self) -> None:
        source = Source(sse("1"), sse("2"))

        async def main() -> None:
            events: Any = aiter_events(source)
            async for event in events:
                assert event.delta == "1"
                break
            await events.aclose()

        asyncio.run(main())
        assert source.closed

    def test_cancelled(self) -> None:
        closed = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            try:
                yield sse("1")
                await asyncio.Event().wait()
            finally:
                closed.set()

        async def main() -> list[str]:
            seen = []

            async def read() -> None:
                async for event in aiter_events(endless()):
                    seen.append(event.delta)

            task = asyncio.create_task(read())
            while not seen:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return seen

        assert asyncio.run(main()) == ["1"]
        assert closed.is_set()

    def test_an_error_comes_at_once_and_closes_the_source(self) -> None:
        source = Source(sse("1") + b"data: x\n\n", sse("2"))

        async def main() -> None:
            events = aiter_events(source)
            assert (await anext(events)).delta == "1"
            with pytest.raises(DecodeError, match="event 1: "):
                await anext(events)

        asyncio.run(main())
        assert source.given == 1
        assert source.closed

    def test_a_truncated_stream(self) -> None:
        with pytest.raises(TruncatedStreamError):
            self.run(Source(sse("1")[:-9]))


def test_s13_a_client_that_allows_done() -> None:
    run = '"threadId":"t","runId":"r"}'
    started = f'data: {{"type":"RUN_STARTED",{run}\n\n'.encode()
    finished = f'data: {{"type":"RUN_FINISHED",{run}\n\n'.encode()
    done = b"data: [DONE]\n\n"
    seen: list[Any] = []
    pipeline = client_pipeline(allow_done=True, on_deviation=seen.append)
    assert len(list(through([started, finished, done], pipeline))) == 2
    assert [deviation.kind for deviation in seen] == ["done"]
    with pytest.raises(DecodeError, match=r"\[DONE\]"):
        list(through([started, finished, done], client_pipeline()))
    # It does not end the run.
    pipeline = client_pipeline(allow_done=True, on_deviation=seen.append)
    with pytest.raises(SequenceError):
        list(through([started, done], pipeline))


def test_iterators_are_generators_with_explicit_keywords(tmp_path: Path) -> None:
    events = iter_events([sse("a") * 2])
    assert inspect.isgenerator(events)
    next(events)
    events.close()
    assert list(events) == []

    async def main() -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield sse("a") * 2

        stream = aiter_events(chunks())
        assert inspect.isasyncgen(stream)
        await anext(stream)
        await stream.aclose()

    asyncio.run(main())
    file = tmp_path / "a.sse"
    file.write_bytes(sse("a") * 2)
    assert inspect.isgenerator(read_events(file))
    options = ["as_dict", "max_event_bytes", "on_unknown", "on_deviation", "allow_done"]
    for function in (iter_events, aiter_events, read_events):
        parameters = inspect.signature(function).parameters
        assert list(parameters)[2:] == options
        with pytest.raises(TypeError, match="as_dcit"):
            function(file, as_dcit=True)  # type: ignore[call-overload]
