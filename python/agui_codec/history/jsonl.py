"""Runs in a file of JSON Lines."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agui_codec.history.store import RunInfo, missing, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agui_codec.history.store import Build


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
            parent = settled(self.runs(thread_id), thread_id, run_id, parent_run_id)
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
                raise missing(thread_id, run_id)
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
