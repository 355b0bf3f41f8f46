"""How the commands of ``agui-codec`` read: one way for all, whatever the file holds.

What a file is, its first bytes tell. It is read by the decoder a piece at a time, so that a live
stream can be followed and a long one takes no more memory than its longest event.
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
import stat
import sys
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click
from ag_ui.encoder import AGUI_MEDIA_TYPE
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from agui_codec import SSE_MEDIA_TYPE, AGUIError, iter_events
from agui_codec.cli.console import Console
from agui_codec.decoder import CHUNK_BYTES, JSONL_MEDIA_TYPE, unzipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agui_codec import Deviation

# What a file may hold. JSON that is not one object a line is made so before it is decoded.
SOURCES = {
    "sse": SSE_MEDIA_TYPE,
    "jsonl": JSONL_MEDIA_TYPE,
    "json": JSONL_MEDIA_TYPE,
    "protobuf": AGUI_MEDIA_TYPE,
}
# Short names.
SHORT = {"proto": "protobuf"}

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
# A file of one's own may hold larger events than a peer is allowed to send.
MAX_EVENT_BYTES = 1 << 30
# No pretty-printed document has a first line as long as this.
LONGEST_FIRST_LINE = 1 << 20
# Progress is shown for work that takes longer than this.
PROGRESS_SECONDS = 0.5

# What matters for where a JSON document ends.
JSON_TOKEN = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


def source_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--from``."""
    return click.option(
        "--from",
        "source",
        type=click.Choice([*SOURCES, *SHORT]),
        help="Input format. By default it is recognised from the first bytes.",
    )(command)


def allow_done_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--allow-done``."""
    return click.option(
        "--allow-done", is_flag=True, help="Skip a [DONE] at the end, with a warning."
    )(command)


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """``[FILE]``, ``--from`` and ``--allow-done``, as all commands that read a stream have them."""
    file = click.argument("file", type=click.File("rb"), default="-")
    return file(source_option(allow_done_option(command)))


class Events:
    """The events of a file, as wire dicts, with their positions in it.

    Args:
        file: The file, at its beginning.
        source: Its format, a key of ``SOURCES`` or ``SHORT``; None to recognise it.
        allow_done: As for the decoder.
        on_deviation: As for the decoder.
        progress: Show on stderr how far it has been read, if that is a terminal.
    """

    def __init__(
        self,
        file: IO[bytes],
        source: str | None = None,
        allow_done: bool = False,
        *,
        on_deviation: Callable[[Deviation], object] | None = None,
        progress: bool = False,
    ) -> None:
        name = getattr(file, "name", None)
        #: Its name in error messages.
        self.name = name if isinstance(name, str) and name not in ("-", "<stdin>") else "stdin"
        #: Where the last event begins, or what is wrong, from 1; None in a binary file.
        self.line: int | None = None
        self._file = file
        self._source = None if source is None else SHORT.get(source, source)
        self._options: dict[str, Any] = {"allow_done": allow_done, "on_deviation": on_deviation}
        self._progress = progress
        self._bar: Progress | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pieces, source = self._opened()
        if source == "json":
            pieces = self._documents(pieces)
        elif source != "protobuf":
            pieces = self._numbered(pieces, source == "sse")
        return iter_events(
            pieces, SOURCES[source], as_dict=True, max_event_bytes=MAX_EVENT_BYTES, **self._options
        )

    def close(self) -> None:
        """Remove the progress bar. The file itself belongs to click."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Turn errors in the file into the message that ends the command."""
        try:
            yield
        except (AGUIError, gzip.BadGzipFile) as error:
            raise click.ClickException(self.where(error)) from None
        finally:
            self.close()

    def where(self, reason: object) -> str:
        """The reason, with the file and the line."""
        text = str(reason).removeprefix(f"{self.name}: ")
        line = f"line {self.line}: " if self.line else ""
        return plain(f"{self.name}: {line}{text}")

    # --- bytes ---

    def _chunks(self) -> Iterator[bytes]:
        """The bytes of the file as they come, unpacked if they are compressed with gzip."""
        if self.name == "stdin" and sys.stdin is not None and sys.stdin.isatty():
            click.echo("Reading from the terminal; end with Ctrl-D (see --help)", err=True)
        # From a pipe, read what is there, without waiting for more.
        read = getattr(self._file, "read1", self._file.read)
        pieces = iter(lambda: read(CHUNK_BYTES), b"")
        if self._progress and sys.stderr.isatty():
            pieces = self._watched(pieces)
        start = next(pieces, b"")
        if start == GZIP[:1]:
            start += next(pieces, b"")
        pieces = itertools.chain([start], pieces)
        return unzipped(pieces, self.name) if start.startswith(GZIP) else pieces

    def _watched(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        size = file_size(self._file)
        done, begun, task = 0, time.monotonic(), None
        for piece in pieces:
            done += len(piece)
            if task is not None and self._bar is not None:
                self._bar.update(task, completed=done)
            elif time.monotonic() - begun > PROGRESS_SECONDS:
                columns = (TextColumn(plain(self.name)), BarColumn(), DownloadColumn())
                more = (TransferSpeedColumn(), *([TimeRemainingColumn()] if size else []))
                self._bar = Progress(*columns, *more, console=Console(stderr=True), transient=True)
                click.get_current_context().call_on_close(self.close)
                self._bar.start()
                task = self._bar.add_task("", total=size, completed=done)
            yield piece

    def _opened(self) -> tuple[Iterator[bytes], str]:
        """The bytes, and what they hold."""
        pieces = self._chunks()
        source, start = self._source, b""
        while source is None:
            piece = next(pieces, None)
            start += piece or b""
            source = self._guess(start, at_end=piece is None)
        return itertools.chain([start], pieces), source

    def _guess(self, start: bytes, *, at_end: bool) -> str | None:
        """The format of a file that begins like this; None if more is needed to tell."""
        # Of a frame's length the first byte is 0 up to 16 MiB.
        if start.startswith(b"\x00"):
            return "protobuf"
        text = start.removeprefix(BOM).lstrip()
        if text.startswith(b"["):
            return "json"
        if text.startswith(b"{"):
            line = re.match(rb"[^\r\n]*", text)
            if line is None or (line.end() == len(text) and len(text) < LONGEST_FIRST_LINE):
                return "jsonl" if at_end else None
            # Of a document that goes over several lines the first is not whole.
            return "jsonl" if line[0].rstrip().endswith(b"}") or line.end() == len(text) else "json"
        # (Up to the end of its first line, or as much of it as any name of a field may have.)
        name = re.match(rb"[^:\r\n]{0,8}", text)
        if name is None or (name.end() == len(text) and not at_end):
            return None
        if name[0] in (b"data", b"event", b"id", b"retry") or text[:1] in (b":", b""):
            return "sse"
        self.line = len(start[: start.index(text)].splitlines()) + 1
        raise AGUIError("neither JSON nor Server-Sent Events; use --from")

    # --- lines and documents ---

    def _numbered(self, pieces: Iterator[bytes], sse: bool) -> Iterator[bytes]:
        """The lines, one by one, so that the line of each event is known."""
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

    def _documents(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The elements of a JSON array, or documents over several lines, as one line each."""
        # How deep events stand: 1 in an array, else 0. After an array nothing may follow.
        base: int | None = None
        depth = count = 0
        quoted = closed = False
        number, held, between = 1, b"", b""

        def check(gap: bytes, expected: bytes, bracket: bytes = b"") -> None:
            text = gap.removeprefix(BOM).strip()
            if text != expected or (closed and bracket):
                self.line = number
                shown = (text or bracket)[:40].decode(errors="replace")
                missing = "a comma" if expected else "an event"
                raise AGUIError(f"expected {missing}, found {shown!r}")

        for piece in pieces:
            data = held + piece
            # An escape is not taken apart.
            end = len(data) - (len(data) - len(data.rstrip(b"\\"))) % 2
            held = data[end:]
            place = counted = 0
            for token in JSON_TOKEN.finditer(data, 0, end):
                char, start = token[0], token.start()
                if char == b'"':
                    quoted = not quoted
                if quoted or char not in b"{}[]":
                    continue
                opens = char in b"{["
                if base is None:
                    base = int(char == b"[")
                if depth + opens > base + 1 or depth > base + 1:
                    # Inside of an event.
                    depth += 1 if opens else -1
                    continue
                number += data.count(b"\n", counted, start)
                counted = start
                if depth == base + 1:
                    yield _one_line(data[place : token.end()]) + b"\n"
                    depth, place = base, token.end()
                    continue
                # A bracket of the array, or the beginning of an event.
                gap, between = between + data[place:start], b""
                element = opens and depth == base
                depth += 1 if opens else -1
                check(gap, b"," if element and base and count else b"", char)
                place = start if element else token.end()
                if element:
                    self.line = number
                    count += 1
                elif not opens:
                    if depth < 0 or char != b"]":
                        check(char, b"")
                    base, closed = 0, True
            number += data.count(b"\n", counted, end)
            if base is not None and depth > base:
                yield _one_line(data[place:end])
            else:
                between += data[place:end]
        if base is not None and depth > base:
            yield held
        elif base:
            self.line = number
            raise AGUIError("unterminated JSON array")
        else:
            check(between + held, b"")


def _one_line(document: bytes) -> bytes:
    # White space as well, and as little allowed inside a string.
    return document.replace(b"\n", b"\r")


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


def file_size(file: IO[bytes]) -> int | None:
    """The size of a regular file; None for a pipe, or whatever else has none."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def plain(text: str) -> str:
    """Text from a stream, with the control characters that a terminal would obey escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
