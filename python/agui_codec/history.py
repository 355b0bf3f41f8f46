"""History: the runs of threads, kept compacted in an append-only store, and replayed.

Runs of a thread form a tree: a run continues its ``parentRunId``, and one that names none continues
the run that was stored last on its thread. What a run adds up to is what its line of ancestors adds
up to, from the root to it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agui_codec._native import (
    AGUIError,
    ChunkExpander,
    EventReducer,
    EventVerifier,
    compact_events,
    to_json,
)
from agui_codec.stream import through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ag_ui.core import RunAgentInput
    from ag_ui.core.events import BaseEvent

    Event = BaseEvent | dict[str, Any]
    # From the parent that was settled on to the events to store, as a JSON array.
    Build = Callable[[str | None], bytes]

__all__ = ["EventHistory", "JSONLinesStore", "RunInfo", "RunStore", "SQLiteStore"]


@dataclass(frozen=True)
class RunInfo:
    """A stored run.

    Args:
        thread_id: The thread.
        run_id: The run.
        parent_run_id: The run that it continues; None for the first of a thread.
        outcome: ``success``, ``interrupt``, ``cancelled`` or ``error``.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None
    outcome: str


class RunStore(Protocol):
    """Where an :class:`EventHistory` keeps its runs. What is stored never changes."""

    def append(
        self, thread_id: str, run_id: str, parent_run_id: str | None, outcome: str, build: Build
    ) -> RunInfo:
        """Store a run, whole or not at all.

        Args:
            thread_id: The thread.
            run_id: The run, which must be new to the thread.
            parent_run_id: The run that it continues, which must be stored; by default the last one.
            outcome: How it ended.
            build: Called with the parent, while no other writer can come between, for the events.

        Raises:
            AGUIError: The run is stored already, or the parent is not.
        """

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List the runs of a thread, or all, in the order in which they were stored."""

    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run, as wire dicts.

        Raises:
            AGUIError: There is no such run.
        """

    def close(self) -> None:
        """Give back what the store holds open."""


def _settled(thread: list[RunInfo], thread_id: str, run_id: str, parent: str | None) -> str | None:
    """The parent of a run that is about to be stored behind the others of its thread."""
    known = [run.run_id for run in thread]
    if run_id in known:
        raise AGUIError(f"run {run_id!r} of thread {thread_id!r} is stored already")
    if parent is None:
        return known[-1] if known else None
    if parent not in known:
        raise AGUIError(f"run {run_id!r}: its parent {parent!r} is not stored in {thread_id!r}")
    return parent


def _missing(thread_id: str, run_id: str | None) -> AGUIError:
    if run_id is None:
        return AGUIError(f"there is no run of thread {thread_id!r}")
    return AGUIError(f"there is no run {run_id!r} of thread {thread_id!r}")


class JSONLinesStore:
    """Runs in a file, one JSON object a line.

    Writers, in any number of processes, take turns by a lock on the file. A line counts once it
    ends: what a killed writer left of one is ignored by readers and removed by the next writer. The
    file is read once, and then only what has been added.

    Args:
        path: The file; it is made if it is not there.
        sync: Wait until the disk has a run before :meth:`append` returns. Without, a crash of the
            machine (not of the process) may lose the last ones.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self._path = os.fspath(path)
        self._sync = sync
        self._guard = threading.RLock()
        self._runs: dict[tuple[str, str], tuple[RunInfo, int, int]] = {}
        self._read = 0
        # Made now, so that reading an empty history works.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o644))

    def append(
        self, thread_id: str, run_id: str, parent_run_id: str | None, outcome: str, build: Build
    ) -> RunInfo:
        """Store a run; see :meth:`RunStore.append`."""
        with self._guard, open(self._path, "r+b") as file, _locked(file.fileno()):
            self._refresh()
            parent = _settled(self.runs(thread_id), thread_id, run_id, parent_run_id)
            info = RunInfo(thread_id, run_id, parent, outcome)
            head = {"threadId": thread_id, "runId": run_id, "parentRunId": parent}
            text = json.dumps({**head, "outcome": outcome}, ensure_ascii=False)
            line = text[:-1].encode() + b', "events": ' + build(parent) + b"}\n"
            # What a killed writer has left stands behind the last whole line.
            file.truncate(self._read)
            file.seek(self._read)
            file.write(line)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())
            self._note(info, self._read, len(line))
        return info

    def _note(self, info: RunInfo, start: int, length: int) -> None:
        self._runs[info.thread_id, info.run_id] = (info, start, length)
        self._read = start + length

    def _refresh(self) -> None:
        with open(self._path, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                run = json.loads(line)
                info = RunInfo(run["threadId"], run["runId"], run["parentRunId"], run["outcome"])
                self._note(info, self._read, len(line))

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List runs; see :meth:`RunStore.runs`."""
        with self._guard:
            self._refresh()
            found = [info for info, _, _ in self._runs.values()]
        return [info for info in found if thread_id is None or info.thread_id == thread_id]

    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run; see :meth:`RunStore.events`."""
        with self._guard:
            if (thread_id, run_id) not in self._runs:
                self._refresh()
            if (thread_id, run_id) not in self._runs:
                raise _missing(thread_id, run_id)
            _, start, length = self._runs[thread_id, run_id]
        with open(self._path, "rb") as file:
            file.seek(start)
            events: list[dict[str, Any]] = json.loads(file.read(length))["events"]
        return events

    def close(self) -> None:
        """Do nothing: the file is open only while it is used."""


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Keep other processes out of a file that is open for writing."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # A byte far behind the end, since locked ones cannot be read there.
        place = 1 << 62
        os.lseek(descriptor, place, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        try:
            yield
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        # Given back when the file is closed, also by the end of the process.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


class SQLiteStore:
    """Runs in an SQLite database, one transaction a run, with a write-ahead log.

    Any number of processes may read and write; a writer waits for another.

    Args:
        path: The database file; it is made if it is not there.
        sync: As for :class:`JSONLinesStore`.
        timeout: How many seconds to wait for another writer.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = True, timeout: float = 60.0
    ) -> None:
        self._guard = threading.RLock()
        # Transactions are begun by us: a writer must not find out late that it is not alone.
        self._database = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        self._database.execute(
            """CREATE TABLE IF NOT EXISTS runs (
                number INTEGER PRIMARY KEY AUTOINCREMENT,
                thread_id TEXT NOT NULL,
                run_id TEXT NOT NULL,
                parent_run_id TEXT,
                outcome TEXT NOT NULL,
                events BLOB NOT NULL,
                UNIQUE (thread_id, run_id)
            )"""
        )

    def append(
        self, thread_id: str, run_id: str, parent_run_id: str | None, outcome: str, build: Build
    ) -> RunInfo:
        """Store a run; see :meth:`RunStore.append`."""
        with self._guard:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                parent = _settled(self.runs(thread_id), thread_id, run_id, parent_run_id)
                self._database.execute(
                    "INSERT INTO runs (thread_id, run_id, parent_run_id, outcome, events)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (thread_id, run_id, parent, outcome, build(parent)),
                )
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
        return RunInfo(thread_id, run_id, parent, outcome)

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List runs; see :meth:`RunStore.runs`."""
        query = "SELECT thread_id, run_id, parent_run_id, outcome FROM runs"
        arguments: tuple[str, ...] = ()
        if thread_id is not None:
            query, arguments = query + " WHERE thread_id = ?", (thread_id,)
        with self._guard:
            rows = self._database.execute(query + " ORDER BY number", arguments).fetchall()
        return [RunInfo(*row) for row in rows]

    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run; see :meth:`RunStore.events`."""
        query = "SELECT events FROM runs WHERE thread_id = ? AND run_id = ?"
        with self._guard:
            row = self._database.execute(query, (thread_id, run_id)).fetchone()
        if row is None:
            raise _missing(thread_id, run_id)
        events: list[dict[str, Any]] = json.loads(row[0])
        return events

    def close(self) -> None:
        """Close the database."""
        with self._guard:
            self._database.close()


class EventHistory:
    """The history of threads: append runs, list them, and replay a thread to any of them.

    Args:
        store: Where the runs are kept.

    Raises:
        AGUIError: From the methods, for a run that is unknown or known already.
    """

    #: Of so many runs the reducers are kept: mostly the next run continues one of the last.
    KEPT = 16

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._reducers: OrderedDict[tuple[str, str], EventReducer] = OrderedDict()
        self._guard = threading.Lock()

    def append(
        self, events: Iterable[Event], *, input: RunAgentInput | dict[str, Any] | None = None
    ) -> RunInfo:
        """Store a run.

        Chunks are expanded, the events verified and compacted. Of the messages in the input those
        that the history holds at the parent are left out.

        Args:
            events: The events of one run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR, as SDK
                models or wire dicts.
            input: What the run started from, if RUN_STARTED does not say.

        Returns:
            What was stored.

        Raises:
            SequenceError: The events are no legal run.
            AGUIError: Not one whole run; or its id is stored already, or its parent is not.
        """
        verified = list(through(events, ChunkExpander(), EventVerifier()))
        run = [
            json.loads(to_json(event))
            for event in compact_events(verified, reasoning=True, on_deviation=_ignore)
        ]
        starts = [event for event in run if event["type"] == "RUN_STARTED"]
        if len(starts) != 1 or run[0] is not starts[0]:
            raise AGUIError(f"one run is stored at a time, and here are {len(starts)}")
        started = starts[0]
        if input is not None:
            started["input"] = _plain(input)
        given = started.get("input")
        parent = started.get("parentRunId")
        if parent is None and given is not None:
            parent = given.get("parentRunId")

        def build(parent: str | None) -> bytes:
            if given is not None and parent is not None:
                started["input"] = self._without_known(given, started["threadId"], parent)
            return json.dumps(run, ensure_ascii=False, separators=(",", ":")).encode()

        return self._store.append(
            started["threadId"], started["runId"], parent, _outcome(run[-1]), build
        )

    def threads(self) -> list[str]:
        """List the ids of the threads, the oldest first."""
        return list(dict.fromkeys(run.thread_id for run in self._store.runs()))

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List the runs of a thread, or all, in the order in which they were stored."""
        return self._store.runs(thread_id)

    def line(self, thread_id: str, run_id: str | None = None) -> list[RunInfo]:
        """List the runs that lead to a run, from the first of its thread to itself.

        Args:
            thread_id: The thread.
            run_id: The run; by default the last one stored.
        """
        runs = {run.run_id: run for run in self._store.runs(thread_id)}
        if run_id is None:
            run_id = next(reversed(runs), None)
        line: list[RunInfo] = []
        step = run_id
        while step is not None:
            if step not in runs:
                raise _missing(thread_id, run_id)
            line.append(runs[step])
            step = runs[step].parent_run_id
        if not line:
            raise _missing(thread_id, run_id)
        return line[::-1]

    def replay(self, thread_id: str, run_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the events that lead to a run, as wire dicts.

        Args:
            thread_id: The thread.
            run_id: The run to end with; by default the last one stored.
        """
        for run in self.line(thread_id, run_id):
            yield from self._store.events(run.thread_id, run.run_id)

    def reducer(
        self, thread_id: str, run_id: str | None = None, *, as_dict: bool = False
    ) -> EventReducer:
        """What a thread adds up to at a run, to be looked at or gone on with.

        Args:
            thread_id: The thread.
            run_id: The run; by default the last one stored.
            as_dict: As for :class:`EventReducer`.

        Returns:
            A reducer of the caller's own.
        """
        if not as_dict:
            events = self.replay(thread_id, run_id)
            return EventReducer(on_deviation=_ignore).apply_all(events)
        return self._reduced(self.line(thread_id, run_id)).fork()

    def messages(self, thread_id: str, run_id: str | None = None) -> list[Any]:
        """List the messages of a thread at a run (by default the last), as SDK models."""
        return self.reducer(thread_id, run_id).messages

    def state(self, thread_id: str, run_id: str | None = None) -> Any:
        """Tell the state of a thread at a run (by default the last)."""
        return self.reducer(thread_id, run_id, as_dict=True).state

    def normalized(
        self, input: RunAgentInput | dict[str, Any], *, parent_run_id: str | None = None
    ) -> dict[str, Any]:
        """An input without the messages that the history holds where its run begins.

        Args:
            input: The input of a run, a model or a dict. It is not changed.
            parent_run_id: Where the run begins; by default at the input's ``parentRunId``, else at
                the last run of its thread.

        Returns:
            A wire dict. Replaying a run with it gives the same messages as with ``input``.
        """
        plain = _plain(input)
        parent = parent_run_id or plain.get("parentRunId")
        runs = self._store.runs(plain["threadId"])
        if parent is None and not runs:
            return plain
        return self._without_known(plain, plain["threadId"], parent or runs[-1].run_id)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _without_known(self, given: dict[str, Any], thread_id: str, run_id: str) -> dict[str, Any]:
        held = self._reduced(self.line(thread_id, run_id))
        messages = [one for one in given.get("messages", ()) if held.message(one["id"]) is None]
        return {**given, "messages": messages}

    def _reduced(self, line: list[RunInfo]) -> EventReducer:
        """The reducer at the end of a line, which is not to be changed: runs never do."""
        known, base = 0, EventReducer(as_dict=True, on_deviation=_ignore)
        with self._guard:
            for length in range(len(line), 0, -1):
                kept = self._reducers.get((line[length - 1].thread_id, line[length - 1].run_id))
                if kept is not None:
                    known, base = length, kept
                    break
        if known == len(line):
            return base
        reducer = base.fork()
        for run in line[known:]:
            reducer.apply_all(self._store.events(run.thread_id, run.run_id))
        with self._guard:
            self._reducers[line[-1].thread_id, line[-1].run_id] = reducer
            while len(self._reducers) > self.KEPT:
                self._reducers.popitem(last=False)
        return reducer


def _plain(input: RunAgentInput | dict[str, Any]) -> dict[str, Any]:
    """The wire dict of an input: that of the RUN_STARTED that would carry it."""
    thread = input["threadId"] if isinstance(input, dict) else input.thread_id
    event = {"type": "RUN_STARTED", "threadId": thread, "runId": "", "input": input}
    if not isinstance(input, dict):
        event["input"] = input.model_dump(by_alias=True)
    plain: dict[str, Any] = json.loads(to_json(event))["input"]
    return plain


def _outcome(last: dict[str, Any]) -> str:
    if last["type"] == "RUN_ERROR":
        return "error"
    outcome: str = (last.get("outcome") or {}).get("type", "success")
    return outcome


def _ignore(_deviation: object) -> None:
    """Whoever received the stream was told already."""
