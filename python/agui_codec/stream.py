"""Event streams: stages behind each other, as iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_codec._native import ChunkExpander, EventVerifier, Pipeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

__all__ = ["athrough", "expand_chunks", "through", "verify_events"]


def through(events: Iterable[Any], *stages: Any) -> Iterator[Any]:
    """Iterate over what comes out when a stream goes through stages.

    At the end the stages are closed, and what that gives comes last. An error of a stage comes
    after the events before it. If the iteration ends early, ``events`` is closed, if it has a
    ``close``.

    Args:
        events: What the first stage takes: events, or bytes for a decoder.
        *stages: Objects with ``feed`` and ``close``, or callables from an event to an event, None
            or an iterable of events; see :class:`Pipeline`.

    Returns:
        An iterator over events.

    Raises:
        TypeError: For something that is no stage; at once.
        AGUIError: From the iteration, what a stage raises.
    """
    return _through(events, Pipeline(*stages))


def _through(events: Iterable[Any], pipeline: Pipeline) -> Iterator[Any]:
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


def athrough(events: AsyncIterable[Any], *stages: Any) -> AsyncIterator[Any]:
    """Iterate over what comes out when a stream goes through stages, asynchronously.

    As :func:`through`; the stages themselves do not wait for anything. On an early end ``events``
    is closed, if it has an ``aclose``.

    Args:
        events: What the first stage takes, as it comes.
        *stages: As for :func:`through`.

    Returns:
        An async iterator over events.

    Raises:
        TypeError: For something that is no stage; at once.
        AGUIError: From the iteration, what a stage raises.
    """
    return _athrough(events, Pipeline(*stages))


async def _athrough(events: AsyncIterable[Any], pipeline: Pipeline) -> AsyncIterator[Any]:
    complete = False
    try:
        async for event in events:
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
        aclose = None if complete else getattr(events, "aclose", None)
        if aclose is not None:
            await aclose()


def expand_chunks(events: Iterable[Any]) -> Iterator[Any]:
    """Iterate over events with their chunks expanded; see :class:`ChunkExpander`.

    Args:
        events: Event models or wire dicts.

    Returns:
        An iterator over events without ``*_CHUNK``.

    Raises:
        SequenceError: From the iteration, for a chunk that contradicts the ones before it.
    """
    return through(events, ChunkExpander())


def verify_events(events: Iterable[Any]) -> Iterator[Any]:
    """Iterate over events, each of which may stand where it stands; see :class:`EventVerifier`.

    Args:
        events: Event models or wire dicts, without chunks.

    Returns:
        An iterator over the same events.

    Raises:
        SequenceError: From the iteration, for an event out of place, or a stream that ended before
            its run did.
    """
    return through(events, EventVerifier())
