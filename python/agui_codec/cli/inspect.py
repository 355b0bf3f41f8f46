"""The command ``agui-codec inspect``: what is in a stream."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from agui_codec import AGUIError, to_json
from agui_codec.cli.checks import Checks
from agui_codec.cli.console import Console
from agui_codec.cli.reading import Events, plain, reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agui_codec import Deviation

# So many runs are shown; JSON has all.
ROWS = 40
# So many types are told apart: a stream can make them up.
TYPES = 1000
OTHER_TYPES = "(other types)"
INTERRUPTED = 130


@dataclass
class Run:
    """What is in one run."""

    run_id: Any
    thread_id: Any
    events: int = 0
    bytes: int = 0
    messages: int = 0
    tool_calls: int = 0
    first: int | None = None
    last: int | None = None
    end: str | None = None

    @property
    def duration(self) -> int | None:
        """Milliseconds between the first and the last timestamp."""
        return None if self.first is None or self.last is None else self.last - self.first


@dataclass
class Summary:
    """What is in a stream. Of its runs those that are asked for are kept."""

    keep: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    tool_calls: int = 0
    runs: list[Run] = field(default_factory=list)
    run_count: int = 0
    ends: Counter[str | None] = field(default_factory=Counter)
    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        self._run: Run | None = None
        # Of the run that goes on: messages and calls are told apart within it.
        self._items: set[tuple[str, str]] = set()

    def add(self, event: dict[str, Any]) -> None:
        """Count one more event."""
        kind = event["type"]
        size = len(to_json(event))
        counted = kind if kind in self.counts or len(self.counts) < TYPES else OTHER_TYPES
        self.counts[counted] += 1
        self.sizes[counted] += size
        if kind == "RUN_STARTED":
            self._begin(event)
        run = self._run
        if run is not None:
            run.events += 1
            run.bytes += size
        if kind.startswith(("TEXT_MESSAGE_", "REASONING_MESSAGE_")):
            self._item("message", event.get("messageId"))
        elif kind.startswith("TOOL_CALL_"):
            self._item("call", event.get("toolCallId"))
        timestamp = event.get("timestamp")
        if isinstance(timestamp, int) and not isinstance(timestamp, bool):
            for one in (self, run):
                if one is not None:
                    one.first = timestamp if one.first is None else min(one.first, timestamp)
                    one.last = timestamp if one.last is None else max(one.last, timestamp)
        if kind in ("RUN_FINISHED", "RUN_ERROR") and run is not None:
            self.ends[run.end] -= 1
            run.end = kind
            self.ends[kind] += 1

    def _begin(self, event: dict[str, Any]) -> None:
        self._run = Run(event.get("runId"), event.get("threadId"))
        self._items.clear()
        self.run_count += 1
        self.ends[None] += 1
        if self.keep is None or len(self.runs) < self.keep:
            self.runs.append(self._run)

    def _item(self, kind: str, item: Any) -> None:
        # (A chunk without an id continues one that had one.)
        if item is None or (kind, item) in self._items:
            return
        self._items.add((kind, item))
        if kind == "message":
            self.messages += 1
        else:
            self.tool_calls += 1
        if self._run is not None and kind == "message":
            self._run.messages += 1
        elif self._run is not None:
            self._run.tool_calls += 1

    @property
    def duration(self) -> int | None:
        """Milliseconds between the first and the last timestamp."""
        return None if self.first is None or self.last is None else self.last - self.first


@click.command(short_help="Count events by type, messages, tool calls and runs.")
@reading
@click.option("--summary", "only_summary", is_flag=True, help="Leave out the runs.")
@click.option("--json", "as_json", is_flag=True, help="Write the counts as one JSON object.")
def inspect(
    file: IO[bytes], source: str | None, allow_done: bool, only_summary: bool, as_json: bool
) -> None:
    """Count what is in FILE (- for stdin): events by type, messages, tool calls and runs.

    Sizes are those of the events as compact JSON. Messages and tool calls are counted once per run.
    The first problem is what agui-codec verify would report; the exit status is 1 if there is one.
    Ctrl-C shows the counts so far, and exits with status 130.
    """
    summary = Summary(0 if only_summary else None if as_json else ROWS)
    checks = Checks()
    # From the decoder, before the events are counted.
    decoding: list[Deviation] = []
    events = Events(file, source, allow_done, on_deviation=decoding.append, progress=True)
    interrupted = False
    try:
        for event in events:
            summary.add(event)
            checks.feed(event, events.line)
        checks.close()
    except (AGUIError, gzip.BadGzipFile) as error:
        checks.unreadable(error, events)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        events.close()
    tolerated = [*map(str, decoding), *map(_tolerated, checks.tolerated)]
    count = len(decoding) + checks.tolerated_count
    problem = None if checks.problem is None else checks.said()
    if as_json:
        found = _as_json(summary, tolerated, problem)
        click.echo(json.dumps({**found, "interrupted": True} if interrupted else found))
    else:
        _show(summary, tolerated, count, problem, only_summary)
        if interrupted:
            click.echo("Interrupted: these are the counts so far", err=True)
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)
    if problem is not None:
        click.get_current_context().exit(1)


def _tolerated(one: dict[str, Any]) -> str:
    about = ": ".join(filter(None, (one["eventType"], one["path"], one["detail"])))
    return f"event {one['index']}: {about}"


def _as_json(summary: Summary, tolerated: list[str], problem: str | None) -> dict[str, Any]:
    return {
        "events": sum(summary.counts.values()),
        "bytes": sum(summary.sizes.values()),
        "types": {
            kind: {"events": count, "bytes": summary.sizes[kind]}
            for kind, count in summary.counts.items()
        },
        "messages": summary.messages,
        "toolCalls": summary.tool_calls,
        "runCount": summary.run_count,
        "runs": [
            {
                "runId": run.run_id,
                "threadId": run.thread_id,
                "events": run.events,
                "bytes": run.bytes,
                "messages": run.messages,
                "toolCalls": run.tool_calls,
                "durationMs": run.duration,
                "end": run.end,
            }
            for run in summary.runs
        ],
        "durationMs": summary.duration,
        "tolerated": tolerated,
        "problem": problem,
    }


def _show(
    summary: Summary, tolerated: list[str], count: int, problem: str | None, only_summary: bool
) -> None:
    console = Console()
    total = sum(summary.sizes.values())
    types = _table("type", ("events", "bytes", "share"))
    for kind, number in summary.counts.most_common():
        size = summary.sizes[kind]
        types.add_row(Text(plain(kind)), f"{number:,}", f"{size:,}", f"{size / total:.0%}")
    types.add_row("all", f"{sum(summary.counts.values()):,}", f"{total:,}", "", style="bold")
    console.print(types)
    if summary.runs:
        console.print()
        _show_runs(console, summary)
    seconds = "no timestamps" if summary.duration is None else f"{summary.duration / 1000:.3f} s"
    ends = ", ".join(
        f"{number:,} {end or 'unfinished'}" for end, number in summary.ends.items() if number
    )
    facts = [
        ("runs", f"{summary.run_count:,}{f' ({ends})' if ends else ''}"),
        ("messages", f"{summary.messages:,}"),
        ("tool calls", f"{summary.tool_calls:,}"),
        ("duration", seconds),
    ]
    if tolerated:
        others = count - 1
        facts.append(("tolerated", tolerated[0] + (f" (and {others:,} more)" if others else "")))
    facts.append(("problem", problem or "none"))
    console.print()
    for name, fact in facts:
        console.print(f"{name:11} {plain(fact)}", markup=False, soft_wrap=True)


def _show_runs(console: Console, summary: Summary) -> None:
    headings = ("events", "bytes", "messages", "calls", "seconds")
    # A narrow terminal gets fewer columns, and a note of what is missing.
    room = {5: 100, 4: 90, 2: 70, 1: 50}
    shown = next((number for number, width in room.items() if console.width >= width), 0)
    table = _table("run", headings[:shown], ("thread", "end"), min_width=8)
    for run in summary.runs:
        figures = (
            f"{run.events:,}",
            f"{run.bytes:,}",
            f"{run.messages:,}",
            f"{run.tool_calls:,}",
            "-" if run.duration is None else f"{run.duration / 1000:.3f}",
        )
        names = (Text(plain(str(one))) for one in (run.run_id, run.thread_id, run.end or "none"))
        first, *others = names
        table.add_row(first, *others, *figures[:shown])
    console.print(table)
    left = summary.run_count - len(summary.runs)
    notes = [f"... and {left:,} more runs; --json lists all"] if left else []
    if shown < len(headings):
        notes.append(f"(no room for: {', '.join(headings[shown:])})")
    for note in notes:
        console.print(note, style="bright_black", markup=False)


def _table(
    first: str, figures: Iterable[str], texts: Iterable[str] = (), *, min_width: int = 26
) -> Table:
    """A plain table; texts that do not fit end with a mark."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, min_width=min_width, no_wrap=True, overflow="ellipsis")
    for heading in texts:
        table.add_column(heading, min_width=6, no_wrap=True, overflow="ellipsis")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True, overflow="ellipsis")
    return table
