"""How the commands of ``agui-codec`` read streams, and two that do little else.

What a stream is, its first bytes tell; it is read by the decoder, a piece at a time.
"""

from __future__ import annotations

import itertools
import re
import zlib
from typing import IO, TYPE_CHECKING, Any

import click
from ag_ui.encoder import AGUI_MEDIA_TYPE

from agui_codec import (
    SSE_MEDIA_TYPE,
    iter_events,
)
from agui_codec.decoder import CHUNK_BYTES, JSONL_MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = {"sse": SSE_MEDIA_TYPE, "jsonl": JSONL_MEDIA_TYPE, "protobuf": AGUI_MEDIA_TYPE}

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
# A file of one's own may hold larger events than a peer is allowed to send.
MAX_EVENT_BYTES = 1 << 30

file_argument = click.argument("file", type=click.File("rb"), default="-")
source_option = click.option(
    "--from",
    "source",
    type=click.Choice(list(SOURCES)),
    help="What FILE is. By default its first bytes tell.",
)
allow_done_option = click.option(
    "--allow-done", is_flag=True, help="Pass over a [DONE] at the end, with a warning."
)


def text_option(default: str) -> Callable[[Any], Any]:
    """``--to``, for a command that writes text."""
    return click.option(
        "--to",
        "target",
        type=click.Choice(["sse", "jsonl"]),
        default=default,
        show_default=True,
        help="What to write.",
    )


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a file as they come, unpacked if they are compressed with gzip."""
    # What there is of a pipe, without waiting for more.
    read = getattr(file, "read1", file.read)
    pieces = iter(lambda: read(CHUNK_BYTES), b"")
    start = next(pieces, b"")
    if start == GZIP[:1]:
        start += next(pieces, b"")
    pieces = itertools.chain([start], pieces)
    return _unpacked(pieces) if start.startswith(GZIP) else pieces


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpack = None
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if unpack is None:
                    # Another member may follow, since gzip files can be concatenated; or zeros.
                    rest = rest.lstrip(b"\x00")
                    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if rest else None
                if unpack is not None:
                    yield unpack.decompress(rest)
                    rest = unpack.unused_data
                    unpack = None if unpack.eof else unpack
    except zlib.error as error:
        raise click.ClickException(f"not gzip after all: {error}") from None
    if unpack is not None:
        raise click.ClickException("the compressed data are cut")


def opened(file: IO[bytes], source: str | None) -> tuple[Iterator[bytes], str]:
    """The chunks of a file and its content type."""
    pieces = chunks(file)
    start = b""
    while source is None:
        piece = next(pieces, None)
        start += piece or b""
        source = _guess(start, at_end=piece is None)
    return itertools.chain([start], pieces), SOURCES[source]


def _guess(start: bytes, *, at_end: bool) -> str | None:
    """What a stream is that begins like this; None if that cannot be told yet."""
    # Of a frame's length the first byte is 0 up to 16 MiB.
    if start.startswith(b"\x00"):
        return "protobuf"
    text = start.removeprefix(BOM).lstrip()
    if text.startswith(b"{"):
        return "jsonl"
    # (Up to the end of its first line, or as much of it as any name of a field may have.)
    name = re.match(rb"[^:\r\n]{0,8}", text)
    if name is None or (name.end() == len(text) and not at_end):
        return None
    if name[0] in (b"data", b"event", b"id", b"retry") or text[:1] in (b":", b""):
        return "sse"
    number = len(start[: start.index(text)].splitlines()) + 1
    raise at(number, "neither a JSON object nor Server-Sent Events (--from says which)")


def at(line: int | None, reason: object) -> click.ClickException:
    """That something is wrong at this line of the file, if it has lines."""
    return click.ClickException(f"line {line}: {reason}" if line else str(reason))


def read(
    pieces: Iterator[bytes], content_type: str, allow_done: bool = False
) -> Iterator[dict[str, Any]]:
    """The events, as wire dicts, of what :func:`opened` gives."""
    return iter_events(
        pieces,
        content_type,
        as_dict=True,
        max_event_bytes=MAX_EVENT_BYTES,
        allow_done=allow_done,
    )


class Events:
    """The events of a file, as wire dicts, and where they stand in it.

    Args:
        file: The file, at its beginning.
        source: What it holds; None to find out.
        allow_done: As for the decoder.
    """

    def __init__(self, file: IO[bytes], source: str | None, allow_done: bool = False) -> None:
        self._file = file
        self._source = source
        self._allow_done = allow_done
        # Where the last event begins, or what is wrong; None in a binary file.
        self.line: int | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pieces, content_type = opened(self._file, self._source)
        if content_type != AGUI_MEDIA_TYPE:
            pieces = self._numbered(pieces, content_type == SSE_MEDIA_TYPE)
        return read(pieces, content_type, self._allow_done)

    def _numbered(self, pieces: Iterator[bytes], sse: bool) -> Iterator[bytes]:
        """The lines, one by one, so that it is known which of them an event comes of."""
        inside = False
        for number, line in enumerate(_lines(pieces), 1):
            blank = not line.rstrip(b"\r\n")
            if not inside and not blank:
                self.line = number
                # Of a Server-Sent Event the first line of data counts.
                inside = sse and line.removeprefix(BOM).startswith(b"data")
            elif blank:
                inside = False
            # The decoder takes LF alone for the end of a JSON line; a file may have CR.
            yield line[:-1] + b"\n" if not sse and line.endswith(b"\r") else line


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The lines with their ends: LF, CRLF or CR."""
    parts: list[bytes] = []
    held = 0
    for piece in pieces:
        parts.append(piece)
        held += len(piece)
        # What is longer than any event may be is not collected any further.
        if b"\n" not in piece and b"\r" not in piece and held <= MAX_EVENT_BYTES:
            continue
        lines = b"".join(parts).splitlines(keepends=True)
        # A line that may go on, or a CR that an LF may follow, waits.
        parts = [] if lines[-1].endswith(b"\n") or held > MAX_EVENT_BYTES else [lines.pop()]
        held = sum(map(len, parts))
        yield from lines
    yield from b"".join(parts).splitlines(keepends=True)


def plain(text: str) -> str:
    """A text that a stream has made up, without what a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
