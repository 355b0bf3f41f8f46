"""The decoder: the bytes of a stream, in any pieces, to AG-UI events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    from typing_extensions import Buffer

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


def read_events(
    path: str | os.PathLike[str], content_type: str | None = None, **options: Any
) -> Iterator[Any]:
    """Iterate over the events of a recording, which is read a piece at a time.

    Args:
        path: A file of Server-Sent Events (``.sse``), of JSON Lines (``.jsonl``, ``.ndjson``) or of
            protobuf frames (``.pb``); compressed, if its name ends with ``.gz`` after that. Case
            does not matter.
        content_type: What the file holds, if its name does not say; see :class:`EventDecoder`.
        **options: The other arguments of :class:`EventDecoder`.

    Returns:
        An iterator over the events. The file is open from the first event to the last, or until
        the iterator is closed.

    Raises:
        AGUIError: For a name that does not say what the file holds; at once.
        OSError: From the iteration, if the file cannot be read, or is not what gzip writes.
        TruncatedStreamError: From the iteration, if the file ends inside an event, or before its
            compressed data do.
        DecodeError: From the iteration, after the events that came before.
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    if content_type is None:
        last = suffixes[:-1] if compressed else suffixes
        content_type = RECORDINGS.get("".join(last[-1:]))
    if content_type is None:
        known = ", ".join(RECORDINGS)
        raise AGUIError(f"{path.name!r} does not say what it holds: {known}, or content_type=")
    return iter_events(_chunks(path, compressed), content_type, **options)


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
    # Few need it: not imported with the package.
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
        raise TruncatedStreamError(f"{name}: the compressed data end too early")
