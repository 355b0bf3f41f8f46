"""The command ``agui-codec inspect``."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agui_codec import AGUIError, Deviation, EventDecoder, Pipeline, client_pipeline, to_json
from agui_codec.cli.reading import (
    MAX_EVENT_BYTES,
    allow_done_option,
    file_argument,
    opened,
    plain,
    source_option,
)
from agui_codec.decoder import JSONL_MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator


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
@file_argument
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
