"""The command ``agui-codec convert``: a stream of events from one encoding to another."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import click
from ag_ui.encoder import AGUI_MEDIA_TYPE
from rich.console import Console
from rich.text import Text

from agui_codec import AGUIError, EncodeError, EventEncoder, to_json
from agui_codec.cli.reading import (
    SOURCES,
    Events,
    allow_done_option,
    at,
    file_argument,
    opened,
    plain,
    read,
    source_option,
    text_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# What the names of files end in.
SUFFIXES = {
    ".sse": "sse",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".pb": "protobuf",
    ".proto": "protobuf",
}
# Short forms are accepted, too.
ENCODINGS = {**{name: name for name in SOURCES}, "proto": "protobuf"}


def _writer(target: str) -> Callable[[dict[str, Any]], bytes]:
    """What makes the bytes of one event."""
    if target == "protobuf":
        return EventEncoder(AGUI_MEDIA_TYPE).encode_binary
    if target == "sse":
        return EventEncoder().encode_binary
    return lambda event: to_json(event) + b"\n"


def _named(path: str) -> str | None:
    """What a file is by its name; a compressed one by the name before `.gz`."""
    suffixes = [suffix for suffix in map(str.lower, Path(path).suffixes) if suffix != ".gz"]
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


@click.command()
@click.argument("file", type=click.File("rb"), metavar="IN")
@click.argument("out", type=click.File("wb", lazy=True), metavar="OUT", default="-")
@click.option(
    "--from",
    "source",
    type=click.Choice(list(ENCODINGS)),
    help="What IN is. By default its first bytes tell.",
)
@allow_done_option
@click.option(
    "--to",
    "target",
    type=click.Choice(list(ENCODINGS)),
    help="What to write. By default the name of OUT tells: .sse, .jsonl or .pb.",
)
def convert(
    file: IO[bytes], out: IO[bytes], source: str | None, allow_done: bool, target: str | None
) -> None:
    """Convert the events of IN to another encoding in OUT (- for stdin and stdout).

    Server-Sent Events, JSON Lines and protobuf frames are converted into each other, an event at
    a time, so that a stream of any length takes no more memory than its longest event, and a live
    one can be followed. What the binary encoding has no place for (properties and parts that the
    protocol does not know) is left out and named in a warning. The first event that is none ends
    the work with status 1; what came before it has been written.
    """
    if target is None and (target := _named(out.name)) is None:
        raise click.UsageError("--to is needed where the name of OUT does not tell")
    names = (getattr(file, "name", ""), out.name)
    if all(map(os.path.exists, names)) and os.path.samefile(*names):
        # It would be emptied while it is read.
        raise click.UsageError("IN and OUT are the same file")
    write = _writer(ENCODINGS[target])
    count = 0
    try:
        for event in read(*opened(file, source and ENCODINGS[source]), allow_done):
            out.write(write(event))
            out.flush()
            count += 1
    except EncodeError as error:
        raise click.ClickException(f"event {count}: {error}") from None
    except AGUIError as error:
        raise click.ClickException(str(error)) from None
    # Of no events at all a file is made, too.
    out.flush()


@click.command()
@click.argument("file", type=click.File("rb"))
@source_option
@allow_done_option
@text_option("sse")
def encode(file: BinaryIO, source: str | None, allow_done: bool, target: str) -> None:
    """Write the events of FILE (- for stdin) as SSE.

    FILE holds one JSON object a line, Server-Sent Events or protobuf frames, possibly compressed.
    Each event is written at once, so a live stream can be piped through. Keys in snake_case become
    camelCase, and optional fields that are null are left out. The first event that is none ends
    the work with status 1 and says at which line; what came before it has been written.
    """
    out = sys.stdout.buffer
    frame = EventEncoder().encode_binary
    events = Events(file, source, allow_done)
    try:
        for event in events:
            out.write(frame(event) if target == "sse" else to_json(event) + b"\n")
            out.flush()
    except AGUIError as error:
        raise at(events.line, error) from None


@click.command()
@file_argument
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
