"""Runs in a file of JSON Lines."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from agui_codec.history.store import (
    OPEN,
    DamagedRunError,
    RunInfo,
    RunStore,
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

# Between what says which run a line is of and its events. It cannot stand in a JSON string, whose
# quotes are escaped.
EVENTS = b', "events": ['
# The first line of a file from which something was deleted, with an id of its own.
HEADER = b'{"history": "'
# So much of the beginning of a file tells it from others: a header, or ids and times.
START_BYTES = 256
STRING = rb'"(?:[^"\\]|\\.)*"'
IDS = re.compile(rb'\s*\{\s*"threadId"\s*:\s*(%s)(?:\s*,\s*"runId"\s*:\s*(%s))?' % (STRING, STRING))


# Of a line: its number, thread, run, and what is wrong.
_Damage = tuple[int, "str | None", "str | None", str]


@dataclass
class _Entry:
    """A run of the index: where its events are, or which line of it is damaged."""

    info: RunInfo | None
    # Of each line of the run: where it begins, and how long it is.
    lines: list[tuple[int, int]] = field(default_factory=list)
    damage: _Damage | None = None


class JSONLinesStore(RunStore):
    """Runs in a file, one JSON object a line.

    Writers, in any number of processes, take turns by a lock (on a file beside it, named
    ``<path>.lock``). What a killed writer left of a line is ignored by readers and removed by the
    next writer. The file is read once, and then only what has been added.

    A line that cannot be read concerns the run that it is of, and nobody else: reading that run
    raises :class:`DamagedRunError`. If the line is the last of its thread, so does going on with
    the thread. Blank lines are skipped.

    Args:
        path: The file; it is made if it is not there.
        sync: Wait until the disk has what was written before a method returns. Without, a crash of
            the machine (not of the process) may lose the last runs.

    Example:
        >>> import os, tempfile
        >>> from agui_codec.history import EventHistory, JSONLinesStore
        >>> path = os.path.join(tempfile.mkdtemp(), "history.jsonl")
        >>> with EventHistory(JSONLinesStore(path)) as history:
        ...     history.threads()
        []
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self._path = os.fspath(path)
        self._sync = sync
        self._guard = threading.RLock()
        if not os.path.exists(self._path):
            # Made now, so that reading an empty history works.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o644))
            if sync:
                _sync_folder(self._path)
        self._identity: object = None
        # The file while it is written, by this thread.
        self._held: IO[bytes] | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"JSONLinesStore({self._path!r})"

    def _forget(self) -> None:
        """Empty the index."""
        self._entries: dict[tuple[str, str], _Entry] = {}
        # Of each thread, in the order of the file, damaged lines included.
        self._threads: dict[str, list[_Entry]] = {}
        self._damaged: list[_Damage] = []
        # How much of the file is in the index: bytes, and ends of lines.
        self._start = b""
        self._read = 0
        self._line_ends = 0

    # --- writing ---

    def append(self, run: RunInfo, build: Build) -> RunInfo:
        """Store a run; see :meth:`RunStore.append`."""
        with self._writing() as file:
            stored = replace(run, parent_run_id=settled(self, run), stored_at=now())
            self._write(file, _head(stored), build(stored.parent_run_id))
        return stored

    def extend(self, thread_id: str, run_id: str, events: bytes) -> None:
        """Store more events of an open run; see :meth:`RunStore.extend`."""
        with self._writing() as file:
            still_open(self, thread_id, run_id)
            batch = len(self._entries[thread_id, run_id].lines)
            self._write(file, {"threadId": thread_id, "runId": run_id, "batch": batch}, events)

    def finish(self, run: RunInfo, events: bytes) -> RunInfo:
        """Store all of an open run; see :meth:`RunStore.finish`."""
        with self._writing() as file:
            parent = still_open(self, run.thread_id, run.run_id).parent_run_id
            stored = replace(run, parent_run_id=parent, stored_at=now())
            self._write(file, _head(stored), events)
        return stored

    def delete(self, *, thread_id: str | None = None, before: datetime | None = None) -> int:
        """Delete threads; see :meth:`RunStore.delete`.

        The file is written anew without them. Lines that are damaged, and not of such a thread,
        stay.
        """
        new = f"{self._path}.new"
        with self._guard, _locked(f"{self._path}.lock"):
            with open(self._path, "rb") as file:
                self._refresh(file)
                if thread_id is None:
                    gone = {name for name in self._threads if self._older(name, before)}
                else:
                    gone = {thread_id} & self._threads.keys()
                if not gone:
                    return 0
                self._write_without(gone, file, new)
            deleted = sum(name in gone for name, _ in self._entries)
            _replace(new, self._path)
            # Else what is stored from now on could be lost with the new name, by a crash.
            _sync_folder(self._path)
        return deleted

    def _older(self, thread_id: str, before: datetime | None) -> bool:
        """Whether all runs of a thread are known to have been stored before a time."""
        runs = [entry.info for entry in self._threads[thread_id]]
        return before is not None and all(
            run is not None and run.stored_at is not None and run.stored_at < before for run in runs
        )

    def _write_without(self, gone: set[str], file: IO[bytes], new: str) -> None:
        """Write a file without some threads, nor what the end of a run has replaced."""
        stay = {
            start
            for (thread_id, _), entry in self._entries.items()
            if thread_id not in gone
            for start, _ in entry.lines
        }
        damaged = {line for line, thread_id, *_ in self._damaged if thread_id not in gone}
        with open(new, "wb") as copy:
            # An id of its own tells other processes that their index is of another file.
            copy.write(HEADER + uuid.uuid4().hex.encode() + b'"}\n')
            start = 0
            file.seek(0)
            for number, line in enumerate(file, 1):
                if start in stay or number in damaged:
                    copy.write(line if line.endswith(b"\n") else line + b"\n")
                start += len(line)
            copy.flush()
            os.fsync(copy.fileno())

    @contextmanager
    def _writing(self) -> Iterator[IO[bytes]]:
        """The file, with an index of all that is in it, while no other writer can come between."""
        with self._guard, _locked(f"{self._path}.lock"), open(self._path, "r+b") as file:
            self._refresh(file)
            self._held = file
            try:
                yield file
            finally:
                self._held = None

    def _write(self, file: IO[bytes], head: dict[str, Any], events: bytes) -> None:
        # (Ids may hold half a surrogate pair, which has no UTF-8.)
        line = json.dumps(head)[:-1].encode() + EVENTS[:-1] + events + b"}\n"
        # What a killed writer has left stands behind the last whole line.
        file.truncate(self._read)
        file.seek(max(self._read - 1, 0))
        if self._read and file.read(1) != b"\n":
            line = b"\n" + line
        file.seek(self._read)
        file.write(line)
        file.flush()
        if self._sync:
            os.fsync(file.fileno())
        self._refresh(file)

    # --- reading ---

    def _refresh(self, file: IO[bytes]) -> None:
        """Add to the index what has been added to the file."""
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        file.seek(0)
        start = file.read(START_BYTES)
        # (The number of a file that was deleted may be given to the next.)
        same = identity == self._identity and start.startswith(self._start)
        if not same or status.st_size < self._read:
            self._forget()
        self._identity = identity
        file.seek(self._read)
        for line in file:
            whole = line.endswith(b"\n")
            if not whole and not _is_object(line):
                break
            if line.strip() and not line.startswith(HEADER):
                self._note(line)
            self._read += len(line)
            self._line_ends += whole
        self._start = start[: self._read]

    def _note(self, line: bytes) -> None:
        """Add a line to the index."""
        try:
            head = _parsed(line)
            ids = (head["threadId"], head["runId"])
            if not all(isinstance(one, str) for one in ids):
                raise TypeError("an id is not a string")
            entry = self._entries.get(ids)
            if "batch" in head:
                if entry is None or entry.info is None or entry.info.outcome != OPEN:
                    raise ValueError("events of a run that is not open")
                if head["batch"] != len(entry.lines):
                    raise ValueError(f"batch {head['batch']} follows {len(entry.lines)} batches")
                entry.lines.append((self._read, len(line)))
                return
            times = (moment(head.get(key)) for key in ("storedAt", "beganAt", "endedAt"))
            info = RunInfo(*ids, head["parentRunId"], head["outcome"], *times)
            if entry is None:
                self._add(*ids, _Entry(info, [(self._read, len(line))]))
            elif entry.info is None or entry.info.outcome == OPEN:
                entry.info, entry.lines, entry.damage = info, [(self._read, len(line))], None
            else:
                raise ValueError("the run is already stored")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._note_damage(line, error)

    def _note_damage(self, line: bytes, error: Exception) -> None:
        thread_id, run_id = _ids(line)
        damage = (self._line_ends + 1, thread_id, run_id, _reason(error))
        self._damaged.append(damage)
        if thread_id is None:
            return
        entry = None if run_id is None else self._entries.get((thread_id, run_id))
        if entry is None:
            self._add(thread_id, run_id, _Entry(None, damage=damage))
        elif entry.info is not None and entry.info.outcome == OPEN:
            entry.damage = entry.damage or damage

    def _add(self, thread_id: str, run_id: str | None, entry: _Entry) -> None:
        self._threads.setdefault(thread_id, []).append(entry)
        if run_id is not None:
            self._entries[thread_id, run_id] = entry

    def _error(
        self, line: int, thread_id: str | None, run_id: str | None, reason: str
    ) -> DamagedRunError:
        of = "" if run_id is None else f" (run {run_id!r} of thread {thread_id!r})"
        return DamagedRunError(
            f"{self._path}, line {line}: not a stored run{of}: {reason}",
            path=self._path,
            line=line,
            thread_id=thread_id,
            run_id=run_id,
        )

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        with self._guard:
            if self._held is not None:
                # Nobody else can have added to it.
                yield self._held
                return
            with open(self._path, "rb") as file:
                self._refresh(file)
                yield file

    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List runs; see :meth:`RunStore.runs`."""
        with self._reading():
            found = (
                self._entries.values() if thread_id is None else self._threads.get(thread_id, ())
            )
            return [entry.info for entry in found if entry.info is not None]

    def info(self, thread_id: str, run_id: str) -> RunInfo | None:
        """Look up one run; see :meth:`RunStore.info`.

        Raises:
            DamagedRunError: The run's line is damaged, or one of its thread whose run is unknown.
        """
        with self._reading():
            entry = self._entries.get((thread_id, run_id))
            if entry is None:
                for other in self._threads.get(thread_id, ()):
                    if other.damage is not None and other.info is None and other.damage[2] is None:
                        raise self._error(*other.damage)
                return None
            if entry.info is None and entry.damage is not None:
                raise self._error(*entry.damage)
            return entry.info

    def last(self, thread_id: str) -> RunInfo | None:
        """Look up the last run of a thread; see :meth:`RunStore.last`.

        Raises:
            DamagedRunError: It is damaged.
        """
        with self._reading():
            entries = self._threads.get(thread_id)
            if not entries:
                return None
            if entries[-1].info is None and entries[-1].damage is not None:
                raise self._error(*entries[-1].damage)
            return entries[-1].info

    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run; see :meth:`RunStore.events`."""
        events: list[dict[str, Any]] = []
        with self._reading() as file:
            if self.info(thread_id, run_id) is None:
                raise missing(thread_id, run_id)
            entry = self._entries[thread_id, run_id]
            if entry.damage is not None:
                raise self._error(*entry.damage)
            for start, length in entry.lines:
                file.seek(start)
                try:
                    stored = json.loads(file.read(length))["events"]
                    if not isinstance(stored, list):
                        raise TypeError("the events are not an array")
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    file.seek(0)
                    line = file.read(start).count(b"\n") + 1
                    raise self._error(line, thread_id, run_id, _reason(error)) from error
                events += stored
        return events

    def damaged(self) -> list[DamagedRunError]:
        """List the damaged lines; see :meth:`RunStore.damaged`."""
        with self._reading():
            return [self._error(*damage) for damage in self._damaged]

    @property
    def torn_bytes(self) -> int:
        """The bytes of an unfinished line at the end, left by a crash or being written."""
        with self._reading() as file:
            return max(os.fstat(file.fileno()).st_size - self._read, 0)

    def close(self) -> None:
        """Do nothing: the file is open only while it is used."""


def _head(run: RunInfo) -> dict[str, Any]:
    """What a line says of its run."""
    times = {
        "storedAt": milliseconds(run.stored_at),
        "beganAt": milliseconds(run.began_at),
        "endedAt": milliseconds(run.ended_at),
    }
    return {
        "threadId": run.thread_id,
        "runId": run.run_id,
        "parentRunId": run.parent_run_id,
        "outcome": run.outcome,
        **{key: time for key, time in times.items() if time is not None},
    }


def _parsed(line: bytes) -> Any:
    """What a line says of its run, without parsing the events where that can be avoided."""
    head, found, _ = line.partition(EVENTS)
    # A line that does not end as ours do is damaged, whatever its head says.
    if found and line.rstrip().endswith(b"]}"):
        return json.loads(head + b"}")
    parsed = json.loads(line)
    if not isinstance(parsed, dict):
        raise TypeError("not a JSON object")
    if "events" not in parsed:
        raise KeyError("events")
    return parsed


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {error}"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return str(error)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _ids(line: bytes) -> tuple[str | None, str | None]:
    """The thread and the run of a line that may be damaged, as far as they can be told."""
    found = IDS.match(line)
    if found is None:
        return None, None
    try:
        thread_id = json.loads(found[1])
        run_id = None if found[2] is None else json.loads(found[2])
    except ValueError:
        return None, None
    return thread_id, run_id


def _replace(new: str, path: str) -> None:
    for attempt in range(50):
        try:
            os.replace(new, path)
        except PermissionError:
            # On Windows: a reader has it open, for as long as it takes to read a run.
            if attempt == 49:
                raise
            time.sleep(0.02)
        else:
            return


def _sync_folder(path: str) -> None:
    """Wait until the disk knows the names in the folder of a file."""
    if os.name == "posix":
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Keep other processes out."""
    with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o644), "r+b") as file:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            # Given back when the file is closed, also by the end of the process.
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            yield
