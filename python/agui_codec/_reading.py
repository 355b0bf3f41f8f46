"""The commands of ``agui-codec`` that read streams: ``decode`` and ``inspect``.

What a stream is, its name or its first bytes tell; it is read by the decoder, a piece at a time.
"""

from __future__ import annotations

import itertools
import json
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
    from collections.abc import Iterator

SOURCES = {"sse": SSE_MEDIA_TYPE, "jsonl": JSONL_MEDIA_TYPE, "protobuf": AGUI_MEDIA_TYPE}

GZIP = b"\x1f\x8b"

_file = click.argument("file", type=click.File("rb"), default="-")
_from = click.option(
    "--from",
    "source",
    type=click.Choice(list(SOURCES)),
    help="What FILE is. By default its first bytes tell.",
)


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a file as they come, unpacked if they are compressed with gzip."""
    # What there is of a pipe, without waiting for more.
    read = getattr(file, "read1", file.read)
    pieces = iter(lambda: read(CHUNK_BYTES), b"")
    start = next(pieces, b"")
    pieces = itertools.chain([start], pieces)
    return _unpacked(pieces) if start.startswith(GZIP) else pieces


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpack = None
    try:
        for piece in pieces:
            rest = piece
            while rest:
                # Another member may follow: gzip files can be concatenated.
                unpack = unpack or zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
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
    if source is not None:
        return pieces, SOURCES[source]
    start = b""
    for piece in pieces:
        start += piece
        if start.lstrip():
            break
    return itertools.chain([start], pieces), SOURCES[_guess(start)]


def _guess(start: bytes) -> str:
    # Of a frame's length the first byte is 0 up to 16 MiB.
    if start.startswith(b"\x00"):
        return "protobuf"
    return "jsonl" if start.lstrip().startswith(b"{") else "sse"


# --- decode --------------------------------------------------------------------------------


@click.command()
@_file
@_from
@click.option(
    "--to",
    "target",
    type=click.Choice(["pretty", "jsonl"]),
    help="What to write. By default pretty on a terminal, else jsonl.",
)
def decode(file: IO[bytes], source: str | None, target: str | None) -> None:
    """Write the events of FILE (- for stdin) as JSON, one a line.

    FILE holds Server-Sent Events, JSON Lines or protobuf frames, possibly compressed. Optional
    fields that are null are left out. Each event is written as soon as it is there, so a live
    stream can be followed:

    curl -N ... | agui-codec decode

    The first event that is none ends the work with status 1; what came before it has been written.
    """
    pieces, content_type = opened(file, source)
    pretty = target == "pretty" if target else sys.stdout.isatty()
    console = Console(highlight=False, soft_wrap=True)
    out = sys.stdout.buffer
    try:
        for event in iter_events(pieces, content_type, as_dict=True):
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
    line = Text(f"{event['type']:26} ", "bold")
    return line.append(json.dumps(rest, ensure_ascii=False), "not bold")


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


def summarise(pieces: Iterator[bytes], content_type: str) -> Summary:
    """Read a stream to its end, or to the event that is none."""
    summary = Summary()
    checks: Pipeline | None = client_pipeline(
        JSONL_MEDIA_TYPE,
        as_dict=True,
        on_deviation=lambda deviation: summary.deviations.append(_deviation(summary, deviation)),
    )
    decoder = EventDecoder(content_type, as_dict=True, on_deviation=lambda _: None)
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
@_from
@click.option("--json", "as_json", is_flag=True, help="Write it as one JSON object.")
def inspect(file: IO[bytes], source: str | None, as_json: bool) -> None:
    """Say what is in FILE (- for stdin): events by type, messages, tool calls, runs.

    Bytes are those of the events as compact JSON. The first problem is that of a client which
    decodes, upgrades, enforces, expands and verifies the stream; see agui-codec verify. Status 1 if
    there is one.
    """
    summary = summarise(*opened(file, source))
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
        table.add_row(kind, f"{count:,}", f"{size:,}", f"{size / total:.0%}")
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
        console.print(f"run         {run['runId']} of {run['threadId']}: {end}", markup=False)
    if summary.deviations:
        others = len(summary.deviations) - 1
        more = f" (and {others} more)" if others else ""
        console.print(f"tolerated   {summary.deviations[0]}{more}", markup=False, soft_wrap=True)
    console.print(f"problem     {summary.problem or 'none'}", markup=False, soft_wrap=True)
