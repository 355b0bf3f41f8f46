"""The commands of ``agui-codec``.

A command is a function under ``@cli.command()``. What it prints for people goes through rich; data
goes to the binary stdout. It reports what is wrong by raising ``click.ClickException``, which ends
with status 1. Ctrl-C and a reader of the pipe that has gone are click's business, a full disk
that of ``cli.main``.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import click
from ag_ui.encoder import EventEncoder as OfficialEncoder
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agui_codec import (
    AGUI_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    AGUIError,
    ChunkExpander,
    DecodeError,
    Deviation,
    EventEncoder,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
    __version__,
    _demo,
    _state_commands,
    to_json,
)
from agui_codec._convert import convert
from agui_codec._demo import DICT, MODEL, OFFICIAL, ORJSON
from agui_codec._reading import (
    Events,
    allow_done_option,
    at,
    decode,
    inspect,
    plain,
    source_option,
    text_option,
)

WIDTH = 80


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agui-codec")
def cli() -> None:
    """The AG-UI event wire in Rust: what ag_ui.encoder writes, sooner."""


cli.add_command(convert)
cli.add_command(decode)
cli.add_command(inspect)


# --- demo and bench ------------------------------------------------------------------------

INTRODUCTION = """\
[bold]agui-codec[/] writes AG-UI events as the official encoder does, byte for byte, but
in Rust. A server changes one import, or calls agui_codec.install() once:

  from agui_codec import EventEncoder     [dim]# instead of ag_ui.encoder[/]
  yield EventEncoder().encode(event)      [dim]# str; encode_binary(event): bytes[/]

One run of an agent follows, event by event: the size of each frame, and what
goes over the network. [green]=[/] says that its bytes are exactly those of
ag_ui.encoder.EventEncoder, made from the event's model and from its dict.
"""


@cli.command()
def demo() -> None:
    """Encode a run, and compare with the official encoder."""
    console = _console()
    console.print(INTRODUCTION)
    ours, official = EventEncoder(), OfficialEncoder()
    run = _demo.run()
    total = differing = 0
    for event in run:
        expected = official.encode(event)
        frame = ours.encode(event)
        binary = ours.encode_binary(_demo.wire_dict(event))
        same = _demo.same_bytes(frame, expected) and _demo.same_bytes(binary, expected)
        mark = Text("=", "green") if same else Text("!", "bold red")
        console.print(mark, Text(f"{len(binary):3}  {_cut(frame.rstrip(), WIDTH - 7)}"))
        total += len(binary)
        differing += not same
    if differing:
        raise click.ClickException(f"{differing} frames differ from the official ones")
    console.print(
        f"\nAll {len(run)} frames are equal, {total} bytes. By SSE or protobuf a client then has:"
    )
    _show_rebuilt(console, run)
    console.print("\nWhat encoding an event costs:")
    console.print(_speeds())
    console.print(
        "\nMeasured now, on this machine, in turn: read the ratios. orjson is orjson.dumps\n"
        "of the same dict with SSE framing. Next: agui-codec bench, agui-codec --help"
    )


def _show_rebuilt(console: Console, run: list[Any]) -> None:
    """What a client adds the bytes up to, over both transports."""
    by_sse, by_protobuf = (
        _state_commands.rebuilt(run, media) for media in (SSE_MEDIA_TYPE, AGUI_MEDIA_TYPE)
    )
    same = by_sse.messages == by_protobuf.messages and by_sse.state == by_protobuf.state
    if not same:
        raise click.ClickException("SSE and protobuf add up to different things")
    for message in by_sse.messages:
        calls = getattr(message, "tool_calls", None) or ()
        called = "".join(f" {call.function.name}({call.function.arguments})" for call in calls)
        text = f"{message.role:9} {message.content}{called}"
        console.print(Text("  " + _cut(text, WIDTH - 2)))
    console.print(Text(f"  state     {json.dumps(by_sse.state, ensure_ascii=False)}"))


def _cut(text: str, room: int) -> str:
    """The text, or its beginning and its end if there is no room for more."""
    return text if len(text) <= room else f"{text[: room - 27]}...{text[-24:]}"


def _speeds() -> Table:
    """What one event costs, officially and here."""
    table = _table("one event", "official", "agui-codec", "faster", "orjson")
    for document in _checked_documents():
        measured = _demo.measure(document)
        # The token loop in both spellings; the others as most servers have them.
        tokens = document.count > 1
        for name in (MODEL, DICT) if tokens else (MODEL,):
            spelling = f", {name.partition(', ')[2]}" if tokens else ""
            floor = "-"
            if ORJSON in measured.samples:
                floor = _demo.duration(measured.seconds(ORJSON))
            table.add_row(
                document.name + spelling,
                _demo.duration(measured.seconds(OFFICIAL)),
                _demo.duration(measured.seconds(name)),
                Text(f"{1 / measured.ratio(name, OFFICIAL):.1f}x", "bold"),
                floor,
            )
    return table


@cli.command()
@click.option("--rounds", default=101, show_default=True, help="How often to time each contender.")
def bench(rounds: int) -> None:
    """Measure the encoder on this machine.

    All contenders are timed in turn: the ratios hold on a busy machine when the times do not.
    Every output is compared with the official encoder's first.
    """
    console = _console()
    console.print(
        f"{_demo.machine()}.\n\n"
        "faster: how many times as fast as ag_ui.encoder. of orjson: times the time of\n"
        "orjson.dumps of the same dict with SSE framing."
    )
    for document in _checked_documents():
        measured = _demo.measure(document, rounds)
        floor = ORJSON if ORJSON in measured.samples else None
        table = _table(document.name, "per event", "faster", *(["of orjson"] if floor else []))
        for name in measured.samples:
            faster = f"{1 / measured.ratio(name, OFFICIAL):.1f}x"
            ratios = [faster, *([f"{measured.ratio(name, floor):.2f}x"] if floor else [])]
            table.add_row(name, _demo.duration(measured.seconds(name)), *ratios)
        console.print()
        console.print(table)


def _table(first: str, *others: str) -> Table:
    """A plain table of a first column of names and others of figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, min_width=32)
    for heading in others:
        table.add_column(heading, justify="right", min_width=10)
    return table


def _checked_documents() -> Iterator[_demo.Document]:
    for document in _demo.documents():
        for contender in document.contenders:
            try:
                document.check(contender)
            except AssertionError as error:
                raise click.ClickException(str(error)) from None
        yield document


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH)
    return console


# --- encode --------------------------------------------------------------------------------


@cli.command()
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


# --- verify --------------------------------------------------------------------------------


@cli.command()
@click.argument("file", type=click.File("rb"))
@source_option
@click.option("--json", "as_json", is_flag=True, help="Write the verdict as one JSON object.")
def verify(file: BinaryIO, source: str | None, as_json: bool) -> None:
    """Say whether the events of FILE (- for stdin) are a valid stream.

    They go through what a client makes them go through: older shapes are converted, what is
    unknown is removed, chunks are expanded, and each event must be well-formed and may stand
    where it stands. Status 0: they are. Status 1: they are not, with the index of the event
    (from 0), its line, what is wrong and what would have been right. What was tolerated is
    listed, and changes nothing.
    """
    tolerated: list[dict[str, Any]] = []
    index = -1
    line: int | None = None
    stream = Events(file, source)

    def on_deviation(deviation: Deviation) -> None:
        names = ("kind", "event_type", "path", "detail")
        fields = {name: getattr(deviation, name) for name in names}
        tolerated.append({"index": index, "line": line, **fields})

    pipeline = Pipeline(
        LegacyUpgrader(on_deviation=on_deviation),
        EventEnforcer(on_deviation=on_deviation),
        ChunkExpander(on_deviation=on_deviation),
        EventVerifier(),
    )
    refused: dict[str, Any] | None = None
    ended = False
    try:
        for event in stream:
            index, line = index + 1, stream.line
            pipeline.feed(event)
            # An error that comes after events, of a chunk say, would be raised a call later.
            if pipeline.error is not None:
                raise pipeline.error
        index, line, ended = index + 1, None, True
        pipeline.close()
    except AGUIError as error:
        if isinstance(error, DecodeError):
            if not as_json:
                raise at(stream.line, error) from None
            index, line = index + 1, stream.line
        names = ("event_type", "id", "path")
        refused = {
            "index": index,
            "line": line,
            **{name: getattr(error, name, None) for name in names},
            "reason": getattr(error, "reason", "") or str(error),
            "expected": getattr(error, "expected", "") or None,
        }
    if as_json:
        events = index if ended else index + 1
        verdict = {"valid": refused is None, "events": events}
        click.echo(json.dumps({**verdict, "error": refused, "tolerated": tolerated}))
    else:
        for one in tolerated:
            where = ": ".join(filter(None, (one["event_type"], one["path"])))
            click.echo(plain(f"{_place(one['index'], one['line'])}, {where}: {one['detail']}"))
        if refused is None:
            click.echo(f"{index} events, valid")
    if refused is None:
        return
    if as_json:
        click.get_current_context().exit(1)
    place = f"after {index} events" if ended else _place(index, line)
    about = ": ".join(filter(None, (refused["event_type"], refused["path"])))
    expected = f"\n  expected: {refused['expected']}" if refused["expected"] else ""
    raise click.ClickException(f"{place}, {about or 'the end'}: {refused['reason']}{expected}")


def _place(index: int, line: int | None) -> str:
    return f"event {index} (line {line})" if line else f"event {index}"


# --- compact, replay, diff -------------------------------------------------------------------

_state_commands.add_to(cli)
