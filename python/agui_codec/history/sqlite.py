"""Runs in an SQLite database."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

from agui_codec.history.store import RunInfo, missing, settled

if TYPE_CHECKING:
    import os

    from agui_codec.history.store import Build


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
                parent = settled(self.runs(thread_id), thread_id, run_id, parent_run_id)
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
            raise missing(thread_id, run_id)
        events: list[dict[str, Any]] = json.loads(row[0])
        return events

    def close(self) -> None:
        """Close the database."""
        with self._guard:
            self._database.close()
