"""The interface of a store of runs, what all stores share, and the errors of a history."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from agui_codec._native import AGUIError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    # From the parent that was settled on to the events to store, as a JSON array.
    Build = Callable[[str | None], bytes]

#: The outcome of a run that is being written, or whose writer was killed.
OPEN = "open"

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class HistoryError(AGUIError):
    """The base of the errors of a history.

    Attributes:
        thread_id: The thread, where it is known.
        run_id: The run, where it is known.

    Example:
        >>> try:
        ...     EventHistory(SQLiteStore(":memory:")).messages("t")
        ... except HistoryError as error:
        ...     print(error.thread_id)
        t
    """

    def __init__(
        self, message: str, *, thread_id: str | None = None, run_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.thread_id = thread_id
        self.run_id = run_id


class RunNotFoundError(HistoryError):
    """The history has no such run or thread. An endpoint answers 404.

    Example:
        >>> try:
        ...     EventHistory(SQLiteStore(":memory:")).messages("t", "r")
        ... except RunNotFoundError as error:
        ...     print(error.run_id)
        r
    """


class DuplicateRunError(HistoryError):
    """The thread already has a run of this id. An endpoint answers 409.

    Example:
        >>> ids = {"threadId": "t", "runId": "r"}
        >>> run = [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids}]
        >>> with EventHistory(SQLiteStore(":memory:")) as history:
        ...     _ = history.append(run)
        ...     try:
        ...         history.append(run)
        ...     except DuplicateRunError as error:
        ...         print(error.run_id)
        r
    """


class DamagedRunError(HistoryError):
    r"""A stored run cannot be read back.

    Attributes:
        path: The file.
        line: The line in it, counted from 1; None in a database.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "history.jsonl")
        ...     _ = path.write_text('{"threadId": "t", "runId": "r", "events": 7}\n')
        ...     try:
        ...         EventHistory(JSONLinesStore(path)).messages("t", "r")
        ...     except DamagedRunError as error:
        ...         print(error.line, error.run_id)
        1 r
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        line: int | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
    ) -> None:
        super().__init__(message, thread_id=thread_id, run_id=run_id)
        self.path = path
        self.line = line


class StoreError(HistoryError):
    """The database failed, or stayed locked for too long; the ``__cause__`` is its own error.

    Attributes:
        path: The database file.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "history.sqlite")
        ...     _ = path.write_text("this is not a database, but a text of some length")
        ...     try:
        ...         SQLiteStore(path)
        ...     except StoreError as error:
        ...         print(type(error.__cause__).__name__)
        DatabaseError
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class RunInfo:
    """A stored run. Equality ignores the times.

    Args:
        thread_id: The thread.
        run_id: The run.
        parent_run_id: The run that it continues; None for the first of a thread.
        outcome: ``success``, ``interrupt``, ``cancelled`` or ``error``, as the run's last event
            says; for a run that broke off, what its writer said, usually ``truncated``; ``open``
            while it is being written, and after its writer was killed.
        stored_at: When it was stored; None if it was stored by version 0.1.
        began_at: The timestamp of its first event that has one.
        ended_at: The timestamp of its last event that has one.

    Example:
        >>> RunInfo("thread-1", "run-2", parent_run_id="run-1", outcome="success").outcome
        'success'
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None
    outcome: str
    stored_at: datetime | None = field(default=None, compare=False)
    began_at: datetime | None = field(default=None, compare=False)
    ended_at: datetime | None = field(default=None, compare=False)


class RunStore(ABC):
    """Where an :class:`EventHistory` keeps its runs.

    A run that has ended never changes. A subclass defines the abstract methods; the others have
    defaults, which it may override to be faster.

    Example:
        >>> class Audited(SQLiteStore):  # a store of your own: here one that says what is deleted
        ...     def delete(self, **which):
        ...         count = super().delete(**which)
        ...         print(count, "runs deleted")
        ...         return count
        >>> isinstance(Audited(":memory:"), RunStore)
        True
        >>> EventHistory(Audited(":memory:")).delete_thread("t")
        0 runs deleted
        0
    """

    @abstractmethod
    def append(self, run: RunInfo, build: Build) -> RunInfo:
        """Store a run, whole or not at all.

        Args:
            run: The run, which must be new to its thread. Its parent must be stored; None stands
                for the last run of the thread. With the outcome ``open`` more events may follow.
            build: Called with the parent, under the store's lock, for the events to store.

        Returns:
            The run with its parent and the time.

        Raises:
            DuplicateRunError: The run is stored already.
            RunNotFoundError: The parent is not stored.
        """

    @abstractmethod
    def extend(self, thread_id: str, run_id: str, events: bytes) -> None:
        """Store more events, a JSON array, of a run that is open.

        Raises:
            RunNotFoundError: There is no such run.
            HistoryError: The run has ended.
        """

    @abstractmethod
    def finish(self, run: RunInfo, events: bytes) -> RunInfo:
        """Replace what was stored of an open run by all of its events.

        Returns:
            The run with its parent and the time.

        Raises:
            RunNotFoundError: There is no such run.
            HistoryError: The run has ended.
        """

    @abstractmethod
    def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List the runs of a thread, or all, in the order in which they were stored."""

    @abstractmethod
    def events(self, thread_id: str, run_id: str) -> list[dict[str, Any]]:
        """Read the events of a run, as wire dicts.

        Raises:
            RunNotFoundError: There is no such run.
            DamagedRunError: Its events cannot be read.
        """

    @abstractmethod
    def delete(self, *, thread_id: str | None = None, before: datetime | None = None) -> int:
        """Delete a thread, or all threads whose last run was stored before a time.

        Returns:
            The number of runs deleted.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what the store holds open."""

    def info(self, thread_id: str, run_id: str) -> RunInfo | None:
        """Look up one run; None if it is not stored."""
        return next((run for run in self.runs(thread_id) if run.run_id == run_id), None)

    def last(self, thread_id: str) -> RunInfo | None:
        """Look up the last run stored of a thread; None if there is none."""
        return next(reversed(self.runs(thread_id)), None)

    def events_of(self, runs: Iterable[RunInfo]) -> Iterator[list[dict[str, Any]]]:
        """Read the events of several runs, one run after the other."""
        for run in runs:
            yield self.events(run.thread_id, run.run_id)

    def damaged(self) -> list[DamagedRunError]:
        """List the damage that the store knows of, without reading the events of every run."""
        return []


def settled(store: RunStore, run: RunInfo) -> str | None:
    """The parent of a run that is about to be stored, checked."""
    thread_id, parent = run.thread_id, run.parent_run_id
    if store.info(thread_id, run.run_id) is not None:
        message = f"run {run.run_id!r} of thread {thread_id!r} is already stored"
        raise DuplicateRunError(message, thread_id=thread_id, run_id=run.run_id)
    if parent is None:
        last = store.last(thread_id)
        return None if last is None else last.run_id
    if store.info(thread_id, parent) is None:
        message = f"run {run.run_id!r}: parent {parent!r} is not stored in thread {thread_id!r}"
        raise RunNotFoundError(message, thread_id=thread_id, run_id=parent)
    return parent


def still_open(store: RunStore, thread_id: str, run_id: str) -> RunInfo:
    """The run, which must be open."""
    run = store.info(thread_id, run_id)
    if run is None:
        raise missing(thread_id, run_id)
    if run.outcome != OPEN:
        message = f"run {run_id!r} of thread {thread_id!r} has already ended ({run.outcome})"
        raise HistoryError(message, thread_id=thread_id, run_id=run_id)
    return run


def missing(thread_id: str, run_id: str | None) -> RunNotFoundError:
    """The error for a run, or a thread, that is not in the history."""
    run = "" if run_id is None else f"run {run_id!r} of "
    message = f"{run}thread {thread_id!r} is not stored"
    return RunNotFoundError(message, thread_id=thread_id, run_id=run_id)


def now() -> datetime:
    """The time, to the millisecond, as the stores keep it."""
    time = datetime.now(timezone.utc)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def moment(milliseconds: Any) -> datetime | None:
    """The time of a timestamp; None if it is not a number, or beyond the years of ``datetime``."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    if not math.isfinite(milliseconds):
        return None
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def milliseconds(time: datetime | None) -> int | None:
    """The timestamp of a time."""
    return None if time is None else (time - EPOCH) // timedelta(milliseconds=1)
