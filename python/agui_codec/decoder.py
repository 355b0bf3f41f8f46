"""The decoder: from the bytes of a stream, in any pieces, to AG-UI events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ag_ui.encoder import AGUI_MEDIA_TYPE

from agui_codec._native import (
    SSE_MEDIA_TYPE,
    AGUIError,
    EventDecoder,
    ServerSentEvent,
    SSEParser,
    TruncatedStreamError,
    decode_event,
)
from agui_codec.stream import athrough, through

if TYPE_CHECKING:
    import os
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Callable,
        Generator,
        Iterable,
        Iterator,
    )

    from ag_ui.core import BaseEvent
    from typing_extensions import Buffer

    from agui_codec._native import Deviation

__all__ = [
    "EventDecoder",
    "SSEParser",
    "ServerSentEvent",
    "aiter_events",
    "decode_event",
    "iter_events",
    "read_events",
]

JSONL_MEDIA_TYPE = "application/x-ndjson"
# What a recording holds, by the end of its name (before `.gz`).
RECORDINGS = {
    ".sse": SSE_MEDIA_TYPE,
    ".jsonl": JSONL_MEDIA_TYPE,
    ".ndjson": JSONL_MEDIA_TYPE,
    ".pb": AGUI_MEDIA_TYPE,
}
CHUNK_BYTES = 1 << 16


@overload
def iter_events(
    chunks: Iterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: Literal[True],
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[dict[str, Any], None, None]: ...


@overload
def iter_events(
    chunks: Iterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: Literal[False] = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]: ...


@overload
def iter_events(
    chunks: Iterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: bool,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]: ...


def iter_events(
    chunks: Iterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: bool = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]:
    r"""Iterate over the events of a stream that comes in chunks.

    An event is given as soon as its last byte has arrived. If the iteration ends early (the caller
    closes it, or an error is raised), ``chunks`` is closed, if it has a ``close``.

    Args:
        chunks: The bytes, in any pieces: a response's, an open binary file, a generator.
        content_type: The stream's content type; see :class:`EventDecoder`.
        as_dict: Give wire dicts instead of models of ``ag_ui.core``.
        max_event_bytes: How large one event may be, in bytes.
        on_unknown: What happens to an event of an unknown type: it is given as a wire dict,
            dropped, or raised as an UnknownEventError.
        on_deviation: Called with a :class:`Deviation` for whatever is tolerated. By default it is
            logged.
        allow_done: Skip ``data: [DONE]``.

    Returns:
        A generator of the events: models of ``ag_ui.core`` (a wire dict for one of an unknown
        type), or wire dicts with ``as_dict=True``.

    Raises:
        AGUIError: For another content type; at once, before any byte is read.
        DecodeError: From the iteration, after the events that came before.

    Example:
        >>> sse = b'data: {"type":"STEP_STARTED","stepName":"search"}\n\n'
        >>> list(iter_events([sse], as_dict=True))
        [{'type': 'STEP_STARTED', 'stepName': 'search'}]
    """
    decoder = EventDecoder(
        content_type,
        as_dict=as_dict,
        max_event_bytes=max_event_bytes,
        on_unknown=on_unknown,
        on_deviation=on_deviation,
        allow_done=allow_done,
    )
    return through(chunks, decoder)


@overload
def aiter_events(
    chunks: AsyncIterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: Literal[True],
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> AsyncGenerator[dict[str, Any], None]: ...


@overload
def aiter_events(
    chunks: AsyncIterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: Literal[False] = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> AsyncGenerator[BaseEvent | dict[str, Any], None]: ...


@overload
def aiter_events(
    chunks: AsyncIterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: bool,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> AsyncGenerator[BaseEvent | dict[str, Any], None]: ...


def aiter_events(
    chunks: AsyncIterable[Buffer],
    content_type: str = SSE_MEDIA_TYPE,
    *,
    as_dict: bool = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> AsyncGenerator[BaseEvent | dict[str, Any], None]:
    r"""Iterate over the events of a stream that comes in chunks, asynchronously.

    As :func:`iter_events`. The events of one chunk are given without another await. On an early end
    (a ``break`` followed by ``aclose``, a cancelled task, an error) ``chunks`` is closed, if it has
    an ``aclose``.

    Args:
        chunks: The bytes, in any pieces: ``response.aiter_bytes()`` of httpx,
            ``response.content.iter_any()`` of aiohttp, an async generator.
        content_type: The stream's content type; see :class:`EventDecoder`.
        as_dict: Give wire dicts instead of models of ``ag_ui.core``.
        max_event_bytes: How large one event may be, in bytes.
        on_unknown: What happens to an event of an unknown type: it is given as a wire dict,
            dropped, or raised as an UnknownEventError.
        on_deviation: Called with a :class:`Deviation` for whatever is tolerated. By default it is
            logged.
        allow_done: Skip ``data: [DONE]``.

    Returns:
        An async generator of the events.

    Raises:
        AGUIError: For another content type; at once, before any byte is read.
        DecodeError: From the iteration, after the events that came before.

    Example:
        >>> import asyncio
        >>> async def chunks():
        ...     yield b'data: {"type":"STEP_STARTED","stepName":"search"}\n\n'
        >>> async def main():
        ...     return [event async for event in aiter_events(chunks(), as_dict=True)]
        >>> asyncio.run(main())
        [{'type': 'STEP_STARTED', 'stepName': 'search'}]
    """
    decoder = EventDecoder(
        content_type,
        as_dict=as_dict,
        max_event_bytes=max_event_bytes,
        on_unknown=on_unknown,
        on_deviation=on_deviation,
        allow_done=allow_done,
    )
    return athrough(chunks, decoder)


@overload
def read_events(
    path: str | os.PathLike[str],
    content_type: str | None = None,
    *,
    as_dict: Literal[True],
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[dict[str, Any], None, None]: ...


@overload
def read_events(
    path: str | os.PathLike[str],
    content_type: str | None = None,
    *,
    as_dict: Literal[False] = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]: ...


@overload
def read_events(
    path: str | os.PathLike[str],
    content_type: str | None = None,
    *,
    as_dict: bool,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]: ...


def read_events(
    path: str | os.PathLike[str],
    content_type: str | None = None,
    *,
    as_dict: bool = False,
    max_event_bytes: int = 10 * 1024 * 1024,
    on_unknown: Literal["forward", "drop", "raise"] = "forward",
    on_deviation: Callable[[Deviation], object] | None = None,
    allow_done: bool = False,
) -> Generator[BaseEvent | dict[str, Any], None, None]:
    r"""Iterate over the events of a recording, which is read a piece at a time.

    Args:
        path: A file of Server-Sent Events (``.sse``), of JSON Lines (``.jsonl``, ``.ndjson``) or of
            protobuf frames (``.pb``); compressed, if its name ends with ``.gz`` after that. Case
            does not matter.
        content_type: What the file holds, if its name does not say; see :class:`EventDecoder`.
        as_dict: Give wire dicts instead of models of ``ag_ui.core``.
        max_event_bytes: How large one event may be, in bytes.
        on_unknown: What happens to an event of an unknown type: it is given as a wire dict,
            dropped, or raised as an UnknownEventError.
        on_deviation: Called with a :class:`Deviation` for whatever is tolerated. By default it is
            logged.
        allow_done: Skip ``data: [DONE]``.

    Returns:
        A generator of the events. The file is open from the first event to the last, or until the
        generator is closed.

    Raises:
        AGUIError: For a name that does not say what the file holds; at once.
        OSError: From the iteration, if the file cannot be read, or is not what gzip writes.
        TruncatedStreamError: From the iteration, if the file ends inside an event, or before its
            compressed data do.
        DecodeError: From the iteration, after the events that came before.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "run.jsonl")
        ...     _ = path.write_text('{"type":"STEP_STARTED","stepName":"search"}\n')
        ...     list(read_events(path, as_dict=True))
        [{'type': 'STEP_STARTED', 'stepName': 'search'}]
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    if content_type is None:
        last = suffixes[:-1] if compressed else suffixes
        content_type = RECORDINGS.get("".join(last[-1:]))
    if content_type is None:
        known = ", ".join(RECORDINGS)
        raise AGUIError(f"cannot tell the format of {path.name!r}: use {known}, or content_type=")
    return iter_events(
        _chunks(path, compressed),
        content_type,
        as_dict=as_dict,
        max_event_bytes=max_event_bytes,
        on_unknown=on_unknown,
        on_deviation=on_deviation,
        allow_done=allow_done,
    )


def _chunks(path: Path, compressed: bool) -> Iterator[bytes]:
    with path.open("rb") as file:
        pieces = iter(partial(file.read1, CHUNK_BYTES), b"")
        yield from unzipped(pieces, path.name) if compressed else pieces


def unzipped(pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Iterate over what gzip has compressed, a piece of at most ``CHUNK_BYTES`` at a time.

    Args:
        pieces: The compressed bytes as they come: one member or several, with zeros between them.
        name: What to call them in an error.

    Raises:
        TruncatedStreamError: They end before the compressed data do; after what there is of these.
        gzip.BadGzipFile: They are not what gzip writes.
    """
    # Imported only when needed.
    import zlib

    unpack: Any = None
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if unpack is None:
                    rest = rest.lstrip(b"\x00")
                    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if rest else None
                    continue
                if data := unpack.decompress(rest, CHUNK_BYTES):
                    yield data
                rest = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                # What is left inside comes with the next call, if there is one.
                while not (rest or unpack.eof) and (data := unpack.decompress(b"", CHUNK_BYTES)):
                    yield data
                unpack = None if unpack.eof else unpack
    except zlib.error as error:
        import gzip

        raise gzip.BadGzipFile(f"{name}: the gzip data are damaged: {error}") from error
    if unpack is not None:
        raise TruncatedStreamError(f"{name}: unexpected end of compressed data")
