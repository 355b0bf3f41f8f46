"""The commands ``agui-codec demo`` and ``agui-codec bench``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from ag_ui.encoder import EventEncoder as OfficialEncoder
from rich.table import Table
from rich.text import Text

from agui_codec import AGUI_MEDIA_TYPE, SSE_MEDIA_TYPE, EventEncoder, _demo
from agui_codec._demo import DICT, MODEL, OFFICIAL, ORJSON
from agui_codec.cli.console import Console
from agui_codec.cli.state import rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 80

INTRODUCTION = """\
[bold]agui-codec[/] writes AG-UI events byte for byte as the official encoder does, but
in Rust. A server changes one import, or calls agui_codec.install() once:

  from agui_codec import EventEncoder     [dim]# instead of ag_ui.encoder[/]
  yield EventEncoder().encode(event)      [dim]# str; encode_binary(event): bytes[/]

One run of an agent follows, event by event: the size of each frame, and the
bytes on the network. [green]=[/] means that they equal those of
ag_ui.encoder.EventEncoder, encoded from the event's model and from its dict.
"""


@click.command()
def demo() -> None:
    """Encode a run, and compare it with the official encoder."""
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
        f"\nAll {len(run)} frames are equal, {total} bytes. Over SSE or protobuf a client gets:"
    )
    _show_rebuilt(console, run)
    console.print("\nWhat encoding an event costs:")
    console.print(_speeds())
    console.print(
        "\nMeasured now, on this machine, in turn: trust the ratios. orjson is orjson.dumps\n"
        "of the same dict with SSE framing. Next: agui-codec bench, agui-codec --help"
    )


def _show_rebuilt(console: Console, run: list[Any]) -> None:
    """Show what a client adds the bytes up to, over both transports."""
    by_sse, by_protobuf = (rebuilt(run, media) for media in (SSE_MEDIA_TYPE, AGUI_MEDIA_TYPE))
    same = by_sse.messages == by_protobuf.messages and by_sse.state == by_protobuf.state
    if not same:
        raise click.ClickException("SSE and protobuf add up to different results")
    for message in by_sse.messages:
        calls = getattr(message, "tool_calls", None) or ()
        called = "".join(f" {call.function.name}({call.function.arguments})" for call in calls)
        text = f"{message.role:9} {message.content}{called}"
        console.print(Text("  " + _cut(text, WIDTH - 2)))
    console.print(Text(f"  state     {json.dumps(by_sse.state, ensure_ascii=False)}"))


def _cut(text: str, room: int) -> str:
    """The text, or its beginning and end if it is too long."""
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


@click.command()
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=101,
    show_default=True,
    help="How often to time each contender.",
)
def bench(rounds: int) -> None:
    """Measure the encoder on this machine.

    All contenders take turns, so that the ratios hold on a busy machine even if the times do not.
    Every output is first compared with the official encoder's.
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
    console = Console()
    console.width = min(console.width, WIDTH)
    return console
