"""The commands ``convert``, ``decode`` and ``encode``: events from one form to another.

All three are one: ``decode`` and ``encode`` write to stdout, and have another default format.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from agui_codec import AGUI_MEDIA_TYPE, EncodeError, EventEncoder, to_json
from agui_codec.cli.console import Console
from agui_codec.cli.reading import (
    SHORT,
    SOURCES,
    Events,
    allow_done_option,
    file_size,
    reading,
    source_option,
)
from agui_codec.cli.timeline import Timeline
from agui_codec.decoder import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[[dict[str, Any]], object]

PRETTY = "pretty"
TARGETS = ["sse", "jsonl", "protobuf", PRETTY, *SHORT]

full_option = click.option("--full", is_flag=True, help="With pretty: also write the whole events.")


def target_option(help: str) -> Callable[..., Any]:
    """``--to``."""
    return click.option("--to", "target", type=click.Choice(TARGETS), help=help)


@click.command(short_help="Convert events from one form to another.")
@click.argument("file", type=click.File("rb"), metavar="[IN]", default="-")
@click.argument("out", type=click.File("wb", lazy=True), metavar="[OUT]", default="-")
@source_option
@allow_done_option
@target_option("Output format. By default from the name of OUT: .sse, .jsonl or .pb.")
@full_option
def convert(
    file: IO[bytes],
    out: IO[bytes],
    source: str | None,
    allow_done: bool,
    target: str | None,
    full: bool,
) -> None:
    """Convert the events of IN to another format in OUT.

    They default to stdin and stdout, as does -.

    IN holds Server-Sent Events, JSON Lines, a JSON array or protobuf frames, optionally compressed
    with gzip. OUT is compressed if its name ends with .gz: convert run.sse run.pb.gz

    Each event is written at once, so that a live stream can be followed; memory use is that of the
    largest event. Properties and parts that protobuf cannot carry are left out, with a warning.
    Exits with status 1 at the first input that is not an event, after writing those before it.
    """
    target = target or named(out.name)
    if target is None:
        raise click.UsageError("--to is required: the name of OUT does not say the format")
    names = (getattr(file, "name", ""), out.name)
    if all(map(os.path.exists, names)) and os.path.samefile(*names):
        # It would be truncated while it is read.
        raise click.UsageError("IN and OUT are the same file")
    _convert(file, out, source, allow_done, target, full)


@click.command(short_help="Show events as a timeline, or write them as JSON Lines.")
@reading
@target_option("Output format. By default pretty on a terminal, else jsonl.")
@full_option
def decode(
    file: IO[bytes], source: str | None, allow_done: bool, target: str | None, full: bool
) -> None:
    """Show the events of FILE (- for stdin), or write them as JSON Lines.

    In a pipe: JSON Lines. On a terminal: one line per event, with the time since the first, the
    type, the author and the content, cut to the width of the terminal; each active subagent has a
    column. The time is the timestamp of the events, or of their arrival if the stream is live:

    curl -N ... | agui-codec decode
    """
    if target is None:
        target = PRETTY if full or sys.stdout.isatty() else "jsonl"
    _convert(file, None, source, allow_done, target, full)


@click.command(short_help="Write events as Server-Sent Events.")
@reading
@target_option("Output format. By default sse.")
@full_option
def encode(
    file: IO[bytes], source: str | None, allow_done: bool, target: str | None, full: bool
) -> None:
    """Write the events of FILE (- for stdin) as a server does.

    The same as agui-codec convert --to sse. Keys in snake_case become camelCase, and optional
    fields that are null are left out.
    """
    _convert(file, None, source, allow_done, target or "sse", full)


def named(path: str) -> str | None:
    """The format that a name stands for; of a compressed file, the name before `.gz`."""
    suffixes = [suffix for suffix in map(str.lower, Path(path).suffixes) if suffix != ".gz"]
    media = RECORDINGS.get(suffixes[-1]) if suffixes else None
    return next((name for name, held in SOURCES.items() if held == media), None)


def _convert(
    file: IO[bytes],
    out: IO[bytes] | None,
    source: str | None,
    allow_done: bool,
    target: str,
    full: bool,
) -> None:
    to_terminal = sys.stdout.isatty() and (out is None or out.name == "-")
    events = Events(file, source, allow_done, progress=not to_terminal)
    packed = out is not None and out.name.lower().endswith(".gz")
    count = 0
    with events.reporting():
        # OUT is opened, and so truncated, only now.
        first = list(islice(stream := iter(events), 1))
        with _opened(out, packed) as output:
            live = file_size(file) is None
            write = writer(output, SHORT.get(target, target), full, live=live)
            for event in chain(first, stream):
                try:
                    write(event)
                except EncodeError as error:
                    raise EncodeError(f"event {count}: {error}") from None
                if not packed:
                    output.flush()
                count += 1
            # An empty stream makes a file, too.
            output.flush()


def _opened(out: IO[bytes] | None, packed: bool) -> AbstractContextManager[Any]:
    if out is None:
        return nullcontext(sys.stdout.buffer)
    if packed:
        # The gzip trailer is written even if the work is interrupted.
        return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)
    return nullcontext(out)


def writer(out: Any, target: str, full: bool, *, live: bool) -> Write:
    """A function that writes one event."""
    if target == PRETTY:
        to_stdout = out is sys.stdout.buffer or getattr(out, "name", "") == "-"
        console = Console(file=None if to_stdout else _Text(out), soft_wrap=True)
        return Timeline(console, full=full, clock=time.monotonic if live else None).show
    if target == "jsonl":
        return lambda event: out.write(to_json(event) + b"\n")
    encode = EventEncoder(AGUI_MEDIA_TYPE if target == "protobuf" else None).encode_binary
    return lambda event: out.write(encode(event))


class _Text:
    """A binary file that text is written to."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def write(self, text: str) -> int:
        self._out.write(text.encode(errors="backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing: the file is flushed after each event."""
