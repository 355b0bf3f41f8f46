"""The command ``agui-codec verify``: is a stream valid, or a history whole?"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from agui_codec import AGUIError, EventEnforcer, EventVerifier, Pipeline
from agui_codec.cli.checks import Checks, deviation_said
from agui_codec.cli.reading import Events, plain, reading
from agui_codec.history import JSONLinesStore, SQLiteStore
from agui_codec.history.jsonl import HEADER, IDS
from agui_codec.history.writer import TERMINAL

if TYPE_CHECKING:
    from agui_codec.history import RunInfo, RunStore

SQLITE = b"SQLite format 3\x00"


@click.command(short_help="Check that a stream, or a history, is valid.")
@reading
@click.option("--history", is_flag=True, help="FILE is a history. By default this is recognised.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as one JSON object.")
def verify(
    file: IO[bytes], source: str | None, allow_done: bool, history: bool, as_json: bool
) -> None:
    """Check that the events of FILE (- for stdin) are a valid stream.

    The checks are those of a client: older shapes are converted, unknown properties are removed,
    chunks are expanded, and each event must be well-formed and allowed where it stands.

    Exits with status 0 if the stream is valid. Otherwise exits with status 1 and prints the index
    of the event (from 0), its line, what is wrong and what was expected. Whatever was tolerated is
    listed; it does not affect the status.

    FILE may also be a history (JSONLinesStore or SQLiteStore): then each of its runs is checked.
    """
    if history or (source is None and _is_history(file)):
        _verify_history(file, as_json)
        return
    checks = Checks()
    events = Events(file, source, allow_done, on_deviation=checks.tolerate, progress=True)
    try:
        for event in events:
            checks.feed(event, events.line)
            if checks.problem is not None:
                break
        else:
            checks.close()
    except (AGUIError, gzip.BadGzipFile) as error:
        checks.unreadable(error, events)
    finally:
        events.close()
    problem = checks.problem
    if as_json:
        # A refused event counts; the end of the stream is not one.
        count = checks.index + (problem is not None and not checks.ended)
        verdict = {
            "valid": problem is None,
            "events": count,
            "error": problem,
            "tolerated": checks.tolerated,
        }
        click.echo(json.dumps(verdict))
        if problem is not None:
            click.get_current_context().exit(1)
        return
    for one in checks.tolerated:
        click.echo(deviation_said(one))
    if checks.tolerated_count > len(checks.tolerated):
        click.echo(f"... and {checks.tolerated_count - len(checks.tolerated):,} more")
    if problem is not None:
        expected = f"\n  expected: {plain(problem['expected'])}" if problem["expected"] else ""
        raise click.ClickException(f"{plain(events.name)}: {checks.said()}{expected}")
    click.echo(f"{checks.index} events, valid")


# --- histories -----------------------------------------------------------------------------


def _is_history(file: IO[bytes]) -> bool:
    """Whether a file begins as a history does."""
    if not os.path.isfile(str(getattr(file, "name", ""))):
        return False
    start = file.read(1 << 16)
    file.seek(0)
    line = start.lstrip()
    ids = IDS.match(line)
    run = ids is not None and ids[2] is not None and b'"outcome"' in line
    return line.startswith((SQLITE, HEADER)) or run


def _verify_history(file: IO[bytes], as_json: bool) -> None:
    name = str(getattr(file, "name", ""))
    if not os.path.isfile(name):
        raise click.UsageError("a history cannot be read from stdin")
    tolerated: list[str] = []
    runs: list[RunInfo] = []
    events, problems = 0, list[dict[str, Any]]()
    try:
        with closing(_opened(file, name)) as store:
            if isinstance(store, JSONLinesStore) and store.torn_bytes:
                tolerated.append(f"the last line is unfinished ({store.torn_bytes} bytes)")
            runs, events, problems = _checked(store)
    except (AGUIError, sqlite3.Error) as error:
        if not as_json:
            reason = str(error).removeprefix(f"{name}: ")
            raise click.ClickException(plain(f"{name}: not a history: {reason}")) from None
        problems = [{"threadId": None, "runId": None, "line": None, "reason": str(error)}]
    threads = len({run.thread_id for run in runs})
    if as_json:
        verdict = {
            "valid": not problems,
            "threads": threads,
            "runs": len(runs),
            "events": events,
            "errors": problems,
            "tolerated": tolerated,
        }
        click.echo(json.dumps(verdict))
        if problems:
            click.get_current_context().exit(1)
        return
    for text in tolerated:
        click.echo(text)
    for problem in problems:
        of = f"run {problem['runId']!r} of thread {problem['threadId']!r}: "
        reason = problem["reason"].removeprefix(f"{name}, ").removeprefix(f"{name}: ")
        click.echo(plain(reason if reason.startswith(("line ", "run ")) else of + reason))
    summary = f"{len(runs)} runs of {threads} threads, {events} events"
    if problems:
        raise click.ClickException(f"{plain(name)}: {len(problems)} problems in {summary}")
    click.echo(f"{summary}, valid")


def _opened(file: IO[bytes], name: str) -> RunStore:
    if file.read(len(SQLITE)) != SQLITE:
        return JSONLinesStore(name)
    # Opening another database as a history must not change it.
    path = Path(name).resolve().as_uri()
    with closing(sqlite3.connect(f"{path}?mode=ro", uri=True)) as database:
        database.execute("SELECT thread_id, run_id, outcome, events FROM runs LIMIT 0")
    return SQLiteStore(name)


def _checked(store: RunStore) -> tuple[list[RunInfo], int, list[dict[str, Any]]]:
    """The runs of a history, the number of their events, and the problems."""
    problems = [
        {"threadId": one.thread_id, "runId": one.run_id, "line": one.line, "reason": str(one)}
        for one in store.damaged()
    ]
    damaged = {(one["threadId"], one["runId"]) for one in problems}
    runs, count = store.runs(), 0
    known: set[tuple[str, str | None]] = set()
    for run in runs:
        reasons = []
        parent = (run.thread_id, run.parent_run_id)
        if run.parent_run_id is not None and parent not in known | damaged:
            reasons.append(f"its parent {run.parent_run_id!r} is not stored before it")
        known.add((run.thread_id, run.run_id))
        line = None
        try:
            events = store.events(run.thread_id, run.run_id)
            count += len(events)
            _check_run(run, events)
        except AGUIError as error:
            line = getattr(error, "line", None)
            if (run.thread_id, run.run_id) not in damaged:
                reasons.append(str(error))
        ids = {"threadId": run.thread_id, "runId": run.run_id}
        problems += [{**ids, "line": line, "reason": reason} for reason in reasons]
    return runs, count, problems


def _check_run(run: RunInfo, events: list[dict[str, Any]]) -> None:
    """Raise AGUIError for events that are not those of this run."""
    stages = Pipeline(EventEnforcer(on_deviation=lambda _: None), EventVerifier())
    for event in events:
        stages.feed(event)
    first = events[0] if events else {}
    if (first.get("threadId"), first.get("runId")) != (run.thread_id, run.run_id):
        raise AGUIError("the first event is not the RUN_STARTED of this run")
    ended = events[-1]["type"] in TERMINAL
    if not ended and run.outcome in ("success", "interrupt"):
        raise AGUIError(f"the outcome is {run.outcome}, but the run has no end")
