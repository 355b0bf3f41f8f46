"""Chained stages, as iterators over events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_codec._native import (
    SSE_MEDIA_TYPE,
    ChunkExpander,
    EventDecoder,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable

    from agui_codec._native import Deviation

__all__ = ["athrough", "client_pipeline", "expand_chunks", "through", "verify_events"]


def through(events: Iterable[Any], *stages: Any) -> Generator[Any, None, None]:
    """Iterate over the events that come out of chained stages.

    At the end the stages are closed, and what they still hold comes last. An error is raised after
    the events before it. If the iteration ends early, ``events`` is closed, if it has a
    ``close``.

    Args:
        events: What the first stage takes: events, or bytes for a decoder or a
            :func:`client_pipeline`.
        *stages: Objects with ``feed`` and ``close``, or callables from an event to an event, None
            or an iterable of events; see :class:`Pipeline`.

    Returns:
        A generator of events.

    Raises:
        TypeError: For something that is not a stage; at once. From the iteration, for a stage that
            gives something that is not an event.
        AGUIError: From the iteration, if a stage raises it.

    Example:
        >>> chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}
        >>> print(*(event["type"] for event in through([chunk], ChunkExpander())))
        TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT
    """
    return _through(events, Pipeline(*stages))


def _through(events: Iterable[Any], pipeline: Pipeline) -> Generator[Any, None, None]:
    complete = False
    try:
        for event in events:
            yield from pipeline.feed(event)
            if pipeline.error is not None:
                raise pipeline.error
        complete = True
        yield from pipeline.close()
        if pipeline.error is not None:
            raise pipeline.error
    finally:
        close = None if complete else getattr(events, "close", None)
        if close is not None:
            close()


def athrough(events: AsyncIterable[Any], *stages: Any) -> AsyncGenerator[Any, None]:
    """Iterate over the events that come out of chained stages, asynchronously.

    As :func:`through`; the stages themselves do not wait for anything. On an early end ``events``
    is closed, if it has an ``aclose``.

    Args:
        events: What the first stage takes, as it comes.
        *stages: As for :func:`through`.

    Returns:
        An async generator of events.

    Raises:
        TypeError: For something that is not a stage; at once. From the iteration, for a stage that
            gives something that is not an event.
        AGUIError: From the iteration, if a stage raises it.

    Example:
        >>> import asyncio
        >>> async def events():
        ...     yield {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}
        >>> async def main():
        ...     return [event["type"] async for event in athrough(events(), ChunkExpander())]
        >>> asyncio.run(main())
        ['TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT']
    """
    return _athrough(events, Pipeline(*stages))


async def _athrough(events: AsyncIterable[Any], pipeline: Pipeline) -> AsyncGenerator[Any, None]:
    complete = False
    iterator = aiter(events)
    try:
        async for event in iterator:
            for result in pipeline.feed(event):
                yield result
            if pipeline.error is not None:
                raise pipeline.error
        complete = True
        for result in pipeline.close():
            yield result
        if pipeline.error is not None:
            raise pipeline.error
    finally:
        if not complete:
            # An iterable may give an iterator of its own: a generator that waits to be closed.
            for source in (events,) if iterator is events else (iterator, events):
                if aclose := getattr(source, "aclose", None):
                    await aclose()


def expand_chunks(events: Iterable[Any]) -> Generator[Any, None, None]:
    """Iterate over events with their chunks expanded; see :class:`ChunkExpander`.

    Args:
        events: Event models or wire dicts.

    Returns:
        A generator of events without ``*_CHUNK``.

    Raises:
        SequenceError: From the iteration, for a chunk that contradicts the ones before it.

    Example:
        >>> chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}
        >>> print(*(event["type"] for event in expand_chunks([chunk])))
        TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT
    """
    return through(events, ChunkExpander())


def verify_events(events: Iterable[Any]) -> Generator[Any, None, None]:
    """Iterate over events that are checked to be in a legal order; see :class:`EventVerifier`.

    Args:
        events: Event models or wire dicts, without chunks.

    Returns:
        A generator of the same events.

    Raises:
        SequenceError: From the iteration, for an event out of place, or a stream that ended before
            its run did.

    Example:
        >>> ids = {"threadId": "t", "runId": "r"}
        >>> run = [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids}]
        >>> list(verify_events(run)) == run
        True
    """
    return through(events, EventVerifier())


def client_pipeline(
    content_type: str = SSE_MEDIA_TYPE,
    *middleware: Any,
    as_dict: bool = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
    thread_id: str | None = None,
    repair: bool = False,
    max_open: int = 10_000,
    max_items: int = 1_000_000,
) -> Pipeline:
    r"""Make the stages between the bytes of a response and the events that a client can trust.

    Decode, upgrade from older versions, the given middleware, enforce, expand chunks, verify: in
    this order, so that middleware can translate what enforcement would remove. All of them work on
    wire dicts, which can carry what models cannot; models are made last.

    It is a stage like any other: ``through(chunks, client_pipeline(content_type))`` for the chunks
    of bytes of a response, ``athrough`` for those of an asynchronous one, or ``feed`` and
    ``close``.

    Args:
        content_type: The ``Content-Type`` of the response, parameters and all.
        *middleware: Callables from an event (a wire dict) to an event, None or an iterable of
            events; or stages.
        as_dict: Give wire dicts instead of models of ``ag_ui.core``.
        max_event_bytes: How large one event may be; see :class:`EventDecoder`.
        on_deviation: Called with a :class:`Deviation` for whatever is tolerated. By default they
            are logged, at WARNING under the name ``agui_codec``.
        allow_done: Skip ``data: [DONE]``; see :class:`EventDecoder`.
        thread_id: The thread that every run must be on: the one of the input that was sent. None
            for the thread of the first run.
        repair: Close what a producer left open, and drop events out of place; see
            :class:`EventVerifier`.
        max_open: How many items may be open at once; see :class:`ChunkExpander` and
            :class:`EventVerifier`.
        max_items: How many items of one run may be remembered; see :class:`EventVerifier`.

    Returns:
        The pipeline, for one stream.

    Raises:
        AGUIError: For another content type. From ``feed`` and ``close``: DecodeError for bytes
            that are not an event, EnforcementError for a malformed event, SequenceError for an
            event out of place.

    Example:
        >>> pipeline = client_pipeline("text/event-stream")
        >>> pipeline.feed(b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\n')[0].run_id
        'r'
    """
    return Pipeline(
        EventDecoder(
            content_type,
            as_dict=True,
            max_event_bytes=max_event_bytes,
            on_deviation=on_deviation,
            allow_done=allow_done,
        ),
        LegacyUpgrader(on_deviation=on_deviation),
        *middleware,
        EventEnforcer(on_deviation=on_deviation),
        ChunkExpander(max_open=max_open, on_deviation=on_deviation),
        EventVerifier(
            thread_id=thread_id,
            repair=repair,
            max_open=max_open,
            max_items=max_items,
            on_deviation=on_deviation,
        ),
        as_models=not as_dict,
    )
