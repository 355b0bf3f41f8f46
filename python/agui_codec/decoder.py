"""The decoder: the bytes of a stream, in any pieces, to AG-UI events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_codec._native import (
    SSE_MEDIA_TYPE,
    EventDecoder,
    ServerSentEvent,
    SSEParser,
    decode_event,
)
from agui_codec.stream import athrough, through

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    from typing_extensions import Buffer

__all__ = [
    "EventDecoder",
    "SSEParser",
    "ServerSentEvent",
    "aiter_events",
    "decode_event",
    "iter_events",
]


def iter_events(
    chunks: Iterable[Buffer], content_type: str = SSE_MEDIA_TYPE, **options: Any
) -> Iterator[Any]:
    """Iterate over the events of a stream that comes in chunks.

    An event is given as soon as its last byte has arrived. If the iteration ends early (the caller
    closes it, or an error is raised), ``chunks`` is closed, if it has a ``close``.

    Args:
        chunks: The bytes, in any pieces: a response's, an open binary file, a generator.
        content_type: The stream's content type; see :class:`EventDecoder`.
        **options: The other arguments of :class:`EventDecoder`.

    Returns:
        An iterator over the events: models of ``ag_ui.core``, or wire dicts with ``as_dict=True``.

    Raises:
        AGUIError: For a content type that is none of AG-UI's; at once, before any byte is read.
        DecodeError: From the iteration, after the events that came before.
    """
    return through(chunks, EventDecoder(content_type, **options))


def aiter_events(
    chunks: AsyncIterable[Buffer], content_type: str = SSE_MEDIA_TYPE, **options: Any
) -> AsyncIterator[Any]:
    """Iterate over the events of a stream that comes in chunks, asynchronously.

    As :func:`iter_events`. The events of one chunk are given without another await. On an early end
    (a ``break`` followed by ``aclose``, a cancelled task, an error) ``chunks`` is closed, if it has
    an ``aclose``.

    Args:
        chunks: The bytes, in any pieces: ``response.aiter_bytes()`` of httpx,
            ``response.content.iter_any()`` of aiohttp, an async generator.
        content_type: The stream's content type; see :class:`EventDecoder`.
        **options: The other arguments of :class:`EventDecoder`.

    Returns:
        An async iterator over the events.

    Raises:
        AGUIError: For a content type that is none of AG-UI's; at once, before any byte is read.
        DecodeError: From the iteration, after the events that came before.
    """
    return athrough(chunks, EventDecoder(content_type, **options))
