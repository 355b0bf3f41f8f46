"""Runs on their way into a history: checked, compacted, and written while they run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agui_codec._native import (
    AGUIError,
    ChunkExpander,
    Compactor,
    EventVerifier,
    Pipeline,
    to_json,
)
from agui_codec.history.store import OPEN, HistoryError, RunInfo, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from types import TracebackType

    from ag_ui.core import RunAgentInput
    from ag_ui.core.events import BaseEvent
    from typing_extensions import Self

    from agui_codec.history.store import RunStore

    Event = BaseEvent | dict[str, Any]
    # From an input, a thread and a run of it to the input without the messages of that run.
    Normalize = Callable[[dict[str, Any], str, str], dict[str, Any]]

TERMINAL = ("RUN_FINISHED", "RUN_ERROR")
# The outcomes of a run that broke off.
BROKEN = ("truncated", "cancelled", "error")


class _Unclosed:
    """A verifier that accepts a stream that just stops."""

    def __init__(self) -> None:
        self.feed = EventVerifier().feed

    def close(self) -> list[Any]:
        return []


class Record:
    """One run, event by event: what is to be stored of it, and what is known about it.

    Args:
        input: The input of the run, if RUN_STARTED does not have it.
        whole: Whether the run must come to its end.
    """

    def __init__(self, input: dict[str, Any] | None, *, whole: bool) -> None:
        self._input = input
        verifier = EventVerifier() if whole else _Unclosed()
        self._checks = Pipeline(ChunkExpander(), verifier)
        self._compactor = Compactor(reasoning=True, on_deviation=ignore)
        self._compacted: list[bytes] = []
        self.started: dict[str, Any] | None = None
        self._began: datetime | None = None
        self._ended: datetime | None = None
        # Of the last event that ended the run, what it says.
        self._outcome: str | None = None

    def check(self, event: Event | None) -> list[Any]:
        """The events to be stored for one that comes, or (None) for the end of the stream.

        An error may come behind events: it is in :attr:`error`, and in the next call.
        """
        checked = self._checks.close() if event is None else self._checks.feed(event)
        for position, one in enumerate(checked):
            kind = _field(one, "type")
            if self.started is None or kind == "RUN_STARTED":
                checked[position] = self._start(one, kind)
            elif kind in TERMINAL:
                self._outcome = _outcome(kind, json.loads(to_json(one)))
            timestamp = _field(one, "timestamp")
            if timestamp is not None:
                self._ended = moment(timestamp)
                self._began = self._began or self._ended
        return checked

    @property
    def error(self) -> BaseException | None:
        """What is wrong with the stream behind the events that were given."""
        return self._checks.error

    def _start(self, event: Event, kind: str) -> dict[str, Any]:
        if self.started is not None or kind != "RUN_STARTED":
            count = 0 if self.started is None else 2
            raise AGUIError(f"expected the events of one run, found {count} runs")
        self.started = json.loads(to_json(event))
        if self._input is not None:
            self.started["input"] = self._input
        _check_started(self.started)
        return self.started

    def keep(self, events: Iterable[Any]) -> None:
        """Take checked events into what is stored in the end."""
        for event in events:
            self._compacted += map(to_json, self._compactor.feed(event))

    def info(self, outcome: str | None = None) -> RunInfo:
        """What is known about the run: it ended by itself, or with this outcome."""
        if self.started is None:
            raise AGUIError("expected the events of one run, found 0 runs")
        given = self.started.get("input") or {}
        return RunInfo(
            self.started["threadId"],
            self.started["runId"],
            self.started.get("parentRunId") or given.get("parentRunId"),
            self._outcome or outcome or "truncated",
            began_at=self._began,
            ended_at=self._ended,
        )

    def normalize(self, without_known: Normalize, parent: str | None) -> None:
        """Leave out of the input the messages that the history holds at the parent."""
        if self.started is not None and parent is not None and self.started.get("input"):
            given, thread_id = self.started["input"], self.started["threadId"]
            self.started["input"] = without_known(given, thread_id, parent)

    def close(self) -> None:
        """End the compaction: nothing more is kept."""
        self._compacted += map(to_json, self._compactor.close())

    def compacted(self) -> bytes:
        """All that was kept, compacted, as a JSON array."""
        # Compaction leaves RUN_STARTED first, and its input may have been normalized since.
        return array([to_json(self.started or {}), *self._compacted[1:]])


class RunWriter:
    """Stores a run while it runs; made by :meth:`EventHistory.writer`.

    Each :meth:`write` is in the store when it returns, so nothing written is lost if the process is
    killed. At the end the events are compacted. As a context manager it ends the run when the block
    is left: as the events say, or else as ``truncated``; after an exception as ``error``; after a
    cancellation (of a task, Ctrl-C, a closed generator) as ``cancelled``.

    Example:
        >>> from agui_codec.history import EventHistory, SQLiteStore
        >>> ids = {"threadId": "t", "runId": "r"}
        >>> with EventHistory(SQLiteStore(":memory:")) as history:
        ...     with history.writer() as writer:
        ...         writer.write([{"type": "RUN_STARTED", **ids}])
        ...         writer.write([{"type": "RUN_FINISHED", **ids}])
        ...     writer.run.outcome
        'success'
    """

    def __init__(
        self, store: RunStore, without_known: Normalize, input: dict[str, Any] | None
    ) -> None:
        self._store = store
        self._without_known = without_known
        self._record = Record(input, whole=False)
        #: The run as it is stored; None before its first event.
        self.run: RunInfo | None = None

    def __repr__(self) -> str:
        if self.run is None:
            return "RunWriter(nothing written)"
        run = self.run
        return f"RunWriter(thread {run.thread_id!r}, run {run.run_id!r}, {run.outcome})"

    def write(self, events: Iterable[Event]) -> None:
        """Store events, as one batch: where they come fast, pass several at a time.

        Args:
            events: The next events of the run, the first of all RUN_STARTED.

        Raises:
            SequenceError: An event is out of place. Those before it are stored.
            DuplicateRunError: The run is stored already.
            RunNotFoundError: Its parent is not stored; or it was deleted.
            AGUIError: The first event is not RUN_STARTED, or the run has ended.
        """
        if self.run is not None and self.run.outcome != OPEN:
            raise HistoryError(f"run {self.run.run_id!r} has already ended ({self.run.outcome})")
        batch: list[Any] = []
        try:
            for event in events:
                batch += self._record.check(event)
                if self._record.error is not None:
                    raise self._record.error
        finally:
            self._put(batch)

    def _put(self, batch: list[Any]) -> None:
        if not batch:
            return
        if self.run is not None:
            self._store.extend(self.run.thread_id, self.run.run_id, array(map(to_json, batch)))
        else:

            def build(parent: str | None) -> bytes:
                self._record.normalize(self._without_known, parent)
                return array(map(to_json, batch))

            info = self._record.info()
            self.run = self._store.append(
                RunInfo(info.thread_id, info.run_id, info.parent_run_id, OPEN, None, info.began_at),
                build,
            )
        self._record.keep(batch)

    def finish(self) -> RunInfo:
        """End the run: as its last event says, or as ``truncated`` if it has no end.

        Returns:
            The run as it is stored.

        Raises:
            AGUIError: Nothing has been written.
        """
        return self.abort("truncated")

    def abort(self, outcome: str = "cancelled") -> RunInfo:
        """End a run that broke off, as it is.

        Args:
            outcome: ``cancelled``, ``error`` or ``truncated``. If the run's own end was written,
                that counts instead.

        Returns:
            The run as it is stored.

        Raises:
            AGUIError: Nothing has been written.
            ValueError: For another outcome.
        """
        checked_outcome(outcome)
        if self.run is None or self.run.outcome == OPEN:
            info = self._record.info(outcome)
            # (After a refused event nothing more is kept.)
            if self._record.error is None:
                self._record.keep(self._record.check(None))
            self._record.close()
            self.run = self._store.finish(info, self._record.compacted())
        return self.run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave(kind)

    def leave(self, kind: type[BaseException] | None) -> None:
        """End the run as its block is left: by an exception of this class, or normally."""
        if self.run is None:
            return
        if kind is None:
            self.finish()
        else:
            self.abort("error" if issubclass(kind, Exception) else "cancelled")


def checked_outcome(outcome: str) -> None:
    """Raise ValueError unless this is an outcome of a run that broke off."""
    if outcome not in BROKEN:
        raise ValueError(f"outcome must be one of {', '.join(BROKEN)}, not {outcome!r}")


def array(documents: Iterable[bytes]) -> bytes:
    """JSON documents as one JSON array."""
    return b"[" + b",".join(documents) + b"]"


def plain_input(input: RunAgentInput | dict[str, Any]) -> dict[str, Any]:
    """The wire dict of an input: that of the RUN_STARTED that would carry it."""
    event = {"type": "RUN_STARTED", "threadId": "", "runId": "", "input": input}
    if not isinstance(input, dict):
        event["input"] = input.model_dump(by_alias=True)
    plain: dict[str, Any] = json.loads(to_json(event))["input"]
    return plain


def _field(event: Any, name: str) -> Any:
    """A field of a model or a dict; None if it has been removed meanwhile."""
    return event.get(name) if isinstance(event, dict) else getattr(event, name, None)


def _check_started(started: dict[str, Any]) -> None:
    """Refuse a RUN_STARTED whose ids or input the history could not read.

    Raises:
        AGUIError: It says what is wrong, and where.
    """
    for name in ("threadId", "runId"):
        # The verifier has seen both, but a dict may change while it is read.
        if _checked(started, name, str, "RUN_STARTED") is None:
            raise AGUIError(f"RUN_STARTED: {name} is missing")
    _checked(started, "parentRunId", str, "RUN_STARTED")
    check_input(_checked(started, "input", dict, "RUN_STARTED") or {}, "RUN_STARTED: input")


def check_input(given: dict[str, Any], where: str) -> None:
    """Refuse an input whose parent or messages the history could not read.

    Raises:
        AGUIError: It says what is wrong, and where.
    """
    for name in ("threadId", "parentRunId"):
        _checked(given, name, str, where)
    for position, message in enumerate(_checked(given, "messages", list, where) or ()):
        if not isinstance(message, dict) or not isinstance(message.get("id"), str):
            raise AGUIError(f"{where}: messages[{position}] is not a message with an id")


def _outcome(kind: str, last: dict[str, Any]) -> str:
    if kind == "RUN_ERROR":
        return "error"
    outcome = _checked(last, "outcome", dict, "RUN_FINISHED") or {}
    named: str | None = _checked(outcome, "type", str, "RUN_FINISHED: outcome")
    return named or "success"


_JSON_NAMES: dict[type, str] = {dict: "an object", list: "an array", str: "a string"}


def _checked(document: dict[str, Any], name: str, kind: type, where: str) -> Any:
    """What stands under a name, if it is of this type; None if there is nothing."""
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        raise AGUIError(f"{where}: {name} is not {_JSON_NAMES[kind]}")
    return value


def ignore(_deviation: object) -> None:
    """Ignore a deviation: the receiver of the stream has already reported it."""
