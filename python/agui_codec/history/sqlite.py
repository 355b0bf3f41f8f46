"""Runs in an SQLite database."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agui_codec.history.store import (
    DamagedRunError,
    RunInfo,
    RunStore,
    StoreError,
    milliseconds,
    missing,
    moment,
    now,
    settled,
    still_open,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from agui_codec.history.store import Build

# Of the tables; in a file written by 0.1 it is 0.
VERSION = 1
COLUMNS = "thread_id, run_id, parent_run_id, outcome, stored_at, began_at, ended_at"


class SQLiteStore(RunStore):
    """Runs in an SQLite database, one transaction a run, with a write-ahead log.

    Any number of processes may read and write; a writer waits for another. What SQLite refuses is
    raised as :class:`StoreError`, which names the file. A file of version 0.1 is brought up to date
    when it is opened.

    Args:
        path: The database file; it is made if it is not there.
        sync: As for :class:`JSONLinesStore`.
        timeout: How many seconds to wait for another writer.

    Raises:
        StoreError: The file cannot be opened, is not a database, or was written by a newer version.

    Example:
        >>> from agui_codec.history import EventHistory, SQLiteStore
        >>> with EventHistory(SQLiteStore(":memory:")) as history:
        ...     history.threads()
        []
    """

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = True, timeout: float = 60.0
    ) -> None:
        self._path = os.fspath(path)
        self._timeout = timeout
        self._guard = threading.RLock()
        with self._errors():
            # Transactions are begun by us: a writer must not find out late that it is not alone.
            self._database = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                self._turn_on_log()
                self._database.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
                self._make_tables()
        except BaseException:
            self._database.close()
            raise

    def __repr__(self) -> str:
        return f"SQLiteStore({self._path!r})"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            waited = f" (for {self._timeout:g} s)" if "locked" in str(error) else ""
            raise StoreError(f"{self._path}: {error}{waited}", path=self._path) from error

    def _turn_on_log(self) -> None:
        """Turn on the write-ahead log, waiting for others that do so, as SQLite does not."""
        deadline = time.monotonic() + self._timeout
        pause = 0.001
        while True:
            try:
                self._database.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            else:
                return

    def _version(self) -> int:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _make_tables(self) -> None:
        if self._version() > VERSION:
            message = f"{self._path} was written by a newer version of agui-codec"
            raise StoreError(message, path=self._path)
        if self._version() == VERSION:
            return
        with self._writing():
            if self._version() == VERSION:
                return
            run = self._database.execute
            run(
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
            # Milliseconds since 1970.
            for column in ("stored_at", "began_at", "ended_at"):
                run(f"ALTER TABLE runs ADD COLUMN {column} INTEGER")
            run("CREATE INDEX runs_by_thread ON runs (thread_id, number)")
            # What an open run has besides the events of its row.
            run(
                """CREATE TABLE batches (
                    number INTEGER PRIMARY KEY,
                    thread_id TEXT NOT NULL,
                    run_id TEXT NOT NULL,
                    events BLOB NOT NULL
                )"""
            )
            run("CREATE INDEX batches_by_run ON batches (thread_id, run_id)")
            run(f"PRAGMA user_version={VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: all or nothing."""
        with self._guard, self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                # SQLite itself gives up a transaction when the disk is full.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def append(self, run: RunInfo, build: Build) -> RunInfo:
        """Store a run; see :meth:`RunStore.append`."""
        with self._writing():
            stored = replace(run, parent_run_id=settled(self, run), stored_at=now())
            self._database.execute(
                f"INSERT INTO runs ({COLUMNS}, events) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*_row(stored), build(stored.parent_run_id)),
            )
        return stored

    def extend(self, thread_id: str, run_id: str, events: bytes) -> None:
        """Store more events of an open run; see :meth:`RunStore.extend`."""
        with self._writing():
            still_open(self, thread_id, run_id)
            self._database.execute(
                "INSERT INTO batches (thread_id, run_id, events) VALUES (?, ?, ?)",
                (thread_id, run_id, events),
            )

    def finish(self, run: RunInfo, events: bytes) -> RunInfo:
        """Store all of an open run; see :meth:`RunStore.finish`."""
        ids = (run.thread_id, run.run_id)
        with self._writing():
            parent = still_open(self, *ids).parent_run_id
            stored = replace(run, parent_run_id=parent, stored_at=now())
            self._database.execute(
                f"UPDATE runs SET ({COLUMNS}, events) = (?, ?, ?, ?, ?, ?, ?, ?)"
                " WHERE thread_id = ? AND run_id = ?",
                (*_row(stored), events, *ids),
            )
            self._database.execute("DELETE FROM batches WHERE thread_id = ? AND run_id = ?", ids)
        return stored

    def delete(self, *, thread_id: str | None = None, before: datetime | None = None) -> int:
        """Delete threads; see :meth:`RunStore.delete`."""
        arguments: tuple[object, ...]
        if thread_id is not None and not _storable(thread_id):
            return 0
        if thread_id is not None:
            chosen, arguments = "?", (thread_id,)
        else:
            # (A time that is not known is not before any.)
            chosen = (
                "SELECT thread_id FROM runs GROUP BY thread_id"
                " HAVING COUNT(stored_at) = COUNT(*) AND MAX(stored_at) < ?"
            )
            arguments = (milliseconds(before),)
        with self._writing():
            self._database.execute(f"DELETE FROM batches WHERE thread_id IN ({chosen})", arguments)
            done = self._database.execute(
                f"DELETE FROM runs WHERE thread_id IN ({chosen})", arguments
            )
        return done.rowcount

    def _select(self, query: str, *arguments: str) -> list[Any]:
        if not all(map(_storable, arguments)):
            return []
        with self._guard, self._errors():
            return self._database.execute(query, arguments).fetchall()

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List runs; see :meth:`RunStore.runs`."""
        query = f"SELECT {COLUMNS} FROM runs"
        if thread_id is None:
            rows = self._select(f"{query} ORDER BY number")
        else:
            rows = self._select(f"{query} WHERE thread_id = ? ORDER BY number", thread_id)
        return [_run(row) for row in rows]

    def info(self, thread_id: str, run_id: str) -> RunInfo | None:
        """Look up one run; see :meth:`RunStore.info`."""
        query = f"SELECT {COLUMNS} FROM runs WHERE thread_id = ? AND run_id = ?"
        rows = self._select(query, thread_id, run_id)
        return _run(rows[0]) if rows else None

    def last(self, thread_id: str) -> RunInfo | None:
        """Look up the last run of a thread; see :meth:`RunStore.last`."""
        query = f"SELECT {COLUMNS} FROM runs WHERE thread_id = ? ORDER BY number DESC LIMIT 1"
        rows = self._select(query, thread_id)
        return _run(rows[0]) if rows else None

    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run; see :meth:`RunStore.events`."""
        # In one statement, so that all of it is of one moment.
        rows = self._select(
            "SELECT events, 0 AS number FROM runs WHERE thread_id = ? AND run_id = ? UNION ALL"
            " SELECT events, number FROM batches WHERE thread_id = ? AND run_id = ?"
            " ORDER BY number",
            *(thread_id, run_id) * 2,
        )
        if not rows:
            raise missing(thread_id, run_id)
        events: list[dict[str, Any]] = []
        try:
            for stored, _ in rows:
                events += json.loads(stored)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"{self._path}: run {run_id!r} of thread {thread_id!r}: {error}"
            raise DamagedRunError(
                message, path=self._path, thread_id=thread_id, run_id=run_id
            ) from error
        return events

    def close(self) -> None:
        """Close the database."""
        with self._guard, self._errors():
            self._database.close()


def _storable(text: str) -> bool:
    """Whether a text can be stored: a lone surrogate cannot be encoded as UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _row(run: RunInfo) -> tuple[Any, ...]:
    times = map(milliseconds, (run.stored_at, run.began_at, run.ended_at))
    return (run.thread_id, run.run_id, run.parent_run_id, run.outcome, *times)


def _run(row: tuple[Any, ...]) -> RunInfo:
    return RunInfo(*row[:4], *map(moment, row[4:]))
