"""The command ``agui-codec verify``."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import click

from agui_codec import (
    AGUIError,
    ChunkExpander,
    DecodeError,
    Deviation,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
)
from agui_codec.cli.reading import Events, at, plain, source_option


@click.command()
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
