"""How the commands of ``agui-codec`` read streams, and two that do little else.

What a stream is, its first bytes tell; it is read by the decoder, a piece at a time.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import click
from ag_ui.encoder import AGUI_MEDIA_TYPE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agui_codec import (
    SSE_MEDIA_TYPE,
    AGUIError,
    Deviation,
    EventDecoder,
    Pipeline,
    client_pipeline,
    iter_events,
    to_json,
)
from agui_codec.decoder import CHUNK_BYTES, JSONL_MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = {"sse": SSE_MEDIA_TYPE, "jsonl": JSONL_MEDIA_TYPE, "protobuf": AGUI_MEDIA_TYPE}

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
# A file of one's own may hold larger events than a peer is allowed to send.
MAX_EVENT_BYTES = 1 << 30

_file = click.argument("file", type=click.File("rb"), default="-")
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


# --- decode --------------------------------------------------------------------------------


@click.command()
@_file
@source_option
@allow_done_option
@click.option(
    "--to",
    "target",
    type=click.Choice(["pretty", "jsonl"]),
    help="What to write. By default pretty on a terminal, else jsonl.",
)
def decode(file: IO[bytes], source: str | None, allow_done: bool, target: str | None) -> None:
    """Write the events of FILE (- for stdin) as JSON, one a line.

    FILE holds Server-Sent Events, JSON Lines or protobuf frames, possibly compressed. Optional
    fields that are null are left out. Each event is written as soon as it is there, so a live
    stream can be followed:

    curl -N ... | agui-codec decode

    The first event that is none ends the work with status 1; what came before it has been written.
    """
    pretty = target == "pretty" if target else sys.stdout.isatty()
    console = Console(highlight=False, soft_wrap=True)
    out = sys.stdout.buffer
    try:
        for event in read(*opened(file, source), allow_done):
            if pretty:
                console.print(_line(event))
            else:
                out.write(to_json(event) + b"\n")
                out.flush()
    except AGUIError as error:
        raise click.ClickException(str(error)) from None


def _line(event: dict[str, Any]) -> Text:
    """An event for people: its type, and the rest of it."""
    rest = {key: value for key, value in event.items() if key != "type"}
    line = Text(f"{plain(event['type']):26} ", "bold")
    return line.append(json.dumps(rest, ensure_ascii=False), "not bold")


def plain(text: str) -> str:
    """A text that a stream has made up, without what a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


# --- inspect -------------------------------------------------------------------------------


@dataclass
class Summary:
    """What is in a stream."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    messages: set[str] = field(default_factory=set)
    tool_calls: set[str] = field(default_factory=set)
    runs: list[dict[str, Any]] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    problem: str | None = None
    deviations: list[str] = field(default_factory=list)

    def add(self, event: dict[str, Any]) -> None:
        """Count one more event."""
        kind = event["type"]
        self.counts[kind] += 1
        self.sizes[kind] += len(to_json(event))
        if kind.startswith("TEXT_MESSAGE_") or kind.startswith("REASONING_MESSAGE_"):
            self.messages.add(str(event.get("messageId")))
        elif kind.startswith("TOOL_CALL_"):
            self.tool_calls.add(str(event.get("toolCallId")))
        elif kind == "RUN_STARTED":
            run = {"runId": event.get("runId"), "threadId": event.get("threadId"), "end": None}
            self.runs.append(run)
        elif kind in ("RUN_FINISHED", "RUN_ERROR") and self.runs:
            self.runs[-1]["end"] = kind
        timestamp = event.get("timestamp")
        if isinstance(timestamp, int):
            self.first = timestamp if self.first is None else min(self.first, timestamp)
            self.last = timestamp if self.last is None else max(self.last, timestamp)

    @property
    def duration(self) -> int | None:
        """Milliseconds between the first and the last timestamp."""
        return None if self.first is None or self.last is None else self.last - self.first


def summarise(pieces: Iterator[bytes], content_type: str, allow_done: bool = False) -> Summary:
    """Read a stream to its end, or to the event that is none."""
    summary = Summary()
    checks: Pipeline | None = client_pipeline(
        JSONL_MEDIA_TYPE,
        as_dict=True,
        max_event_bytes=2 * MAX_EVENT_BYTES,
        on_deviation=lambda deviation: summary.deviations.append(_deviation(summary, deviation)),
    )
    decoder = EventDecoder(
        content_type,
        as_dict=True,
        max_event_bytes=MAX_EVENT_BYTES,
        # (Of a chunk, whose events are not counted yet.)
        on_deviation=lambda deviation: summary.deviations.append(str(deviation)),
        allow_done=allow_done,
    )
    try:
        for piece in itertools.chain(pieces, [None]):
            for event in decoder.close() if piece is None else decoder.feed(piece):
                summary.add(event)
                checks = _check(summary, checks, to_json(event) + b"\n")
            if decoder.error is not None:
                raise decoder.error
        _check(summary, checks, None)
    except AGUIError as error:
        summary.problem = summary.problem or str(error)
    return summary


def _check(summary: Summary, checks: Pipeline | None, line: bytes | None) -> Pipeline | None:
    """Send an event through what a client makes of it; None once that has refused one."""
    if checks is None:
        return None
    try:
        checks.close() if line is None else checks.feed(line)
        error: Any = checks.error
    except AGUIError as caught:
        error = caught
    if error is None:
        return checks
    summary.problem = str(error)
    return None


def _deviation(summary: Summary, deviation: Deviation) -> str:
    return f"event {sum(summary.counts.values()) - 1}: {deviation}"


@click.command()
@_file
@source_option
@allow_done_option
@click.option("--json", "as_json", is_flag=True, help="Write it as one JSON object.")
def inspect(file: IO[bytes], source: str | None, allow_done: bool, as_json: bool) -> None:
    """Say what is in FILE (- for stdin): events by type, messages, tool calls, runs.

    Bytes are those of the events as compact JSON. The first problem is that of a client which
    decodes, upgrades, enforces, expands and verifies the stream; see agui-codec verify. Status 1 if
    there is one.
    """
    summary = summarise(*opened(file, source), allow_done)
    if as_json:
        click.echo(json.dumps(_as_json(summary)))
    else:
        _show(summary)
    if summary.problem is not None:
        click.get_current_context().exit(1)


def _as_json(summary: Summary) -> dict[str, Any]:
    return {
        "events": sum(summary.counts.values()),
        "bytes": sum(summary.sizes.values()),
        "types": {
            kind: {"events": count, "bytes": summary.sizes[kind]}
            for kind, count in summary.counts.items()
        },
        "messages": len(summary.messages),
        "toolCalls": len(summary.tool_calls),
        "runs": summary.runs,
        "durationMs": summary.duration,
        "tolerated": summary.deviations,
        "problem": summary.problem,
    }


def _show(summary: Summary) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("type", min_width=26)
    for heading in ("events", "bytes", "share"):
        table.add_column(heading, justify="right", min_width=8)
    total = sum(summary.sizes.values())
    for kind, count in summary.counts.most_common():
        size = summary.sizes[kind]
        table.add_row(Text(plain(kind)), f"{count:,}", f"{size:,}", f"{size / total:.0%}")
    table.add_row("all", f"{sum(summary.counts.values()):,}", f"{total:,}", "", style="bold")
    console.print(table)
    duration = "no timestamps" if summary.duration is None else f"{summary.duration / 1000:.3f} s"
    console.print(
        f"\nmessages    {len(summary.messages)}\n"
        f"tool calls  {len(summary.tool_calls)}\n"
        f"duration    {duration}",
        markup=False,
    )
    for run in summary.runs:
        end = run["end"] or "no end"
        about = plain(f"{run['runId']} of {run['threadId']}")
        console.print(f"run         {about}: {end}", markup=False)
    if summary.deviations:
        others = len(summary.deviations) - 1
        more = f" (and {others} more)" if others else ""
        first = plain(summary.deviations[0])
        console.print(f"tolerated   {first}{more}", markup=False, soft_wrap=True)
    problem = plain(summary.problem or "none")
    console.print(f"problem     {problem}", markup=False, soft_wrap=True)
