"""The history of threads over a store of runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from agui_codec._native import AGUIError, EventReducer
from agui_codec.history.store import OPEN, missing, still_open
from agui_codec.history.writer import (
    TERMINAL,
    Record,
    RunWriter,
    check_input,
    checked_outcome,
    ignore,
    plain_input,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from types import TracebackType

    from ag_ui.core import RunAgentInput
    from typing_extensions import Self

    from agui_codec.history.store import RunInfo, RunStore
    from agui_codec.history.writer import Event


class EventHistory:
    """The history of threads: append runs, list them, and replay a thread to any of them.

    It may be used by several threads. As a context manager it closes its store at the end.

    Args:
        store: Where the runs are kept.

    Raises:
        RunNotFoundError: From the methods, for a run or a thread that is not stored.
        DamagedRunError: From the methods, for a run that cannot be read back.
        StoreError: From the methods, if the database fails.

    Example:
        >>> from agui_codec.history import EventHistory, SQLiteStore
        >>> ids = {"threadId": "t", "runId": "r"}
        >>> with EventHistory(SQLiteStore(":memory:")) as history:
        ...     events = [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids}]
        ...     run = history.append(events)
        ...     history.threads(), run.outcome
        (['t'], 'success')
    """

    #: How many reducers are cached: the next run usually continues one of the last.
    KEPT = 16

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._reducers: OrderedDict[tuple[object, ...], EventReducer] = OrderedDict()
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"EventHistory({self._store!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def append(
        self,
        events: Iterable[Event],
        *,
        input: RunAgentInput | dict[str, Any] | None = None,
        outcome: str | None = None,
    ) -> RunInfo:
        """Store a run.

        Chunks are expanded, the events verified and compacted. Messages of the input that the
        history holds at the parent are left out.

        Args:
            events: The events of one run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR, as SDK
                models or wire dicts.
            input: The input of the run, if RUN_STARTED does not have it.
            outcome: For a run that broke off, which is stored as it is: ``cancelled``, ``error`` or
                ``truncated``. If the events do have an end, that counts instead.

        Returns:
            What was stored.

        Raises:
            SequenceError: The events are not a legal run.
            DuplicateRunError: The run is stored already.
            RunNotFoundError: Its parent is not stored.
            AGUIError: The events are not one run.
            ValueError: For another outcome.

        Example:
            ``history.append(events, input=run_agent_input)`` after a run has ended;
            ``history.append(events, outcome="cancelled")`` after its client has gone.
        """
        if outcome is not None:
            checked_outcome(outcome)
        record = Record(None if input is None else plain_input(input), whole=outcome is None)
        checked: list[Any] = []
        for event in events:
            checked += record.check(event)
            if record.error is not None:
                raise record.error
        checked += record.check(None)
        if record.error is not None:
            raise record.error
        info = record.info(outcome)
        record.keep(checked)
        record.close()

        def build(parent: str | None) -> bytes:
            record.normalize(self._without_known, parent)
            return record.compacted()

        return self._store.append(info, build)

    def writer(self, *, input: RunAgentInput | dict[str, Any] | None = None) -> RunWriter:
        """Make a writer that stores a run while it happens.

        The outcome of the run is ``open`` until it ends. If the process is killed, it stays open
        until :meth:`end` ends it.

        Args:
            input: The input of the run, if RUN_STARTED does not have it.

        Returns:
            A context manager with ``write(events)``, ``finish()`` and ``abort()``.
        """
        given = None if input is None else plain_input(input)
        return RunWriter(self._store, self._without_known, given)

    def end(self, thread_id: str, run_id: str, outcome: str = "truncated") -> RunInfo:
        """End a run whose writer was killed, keeping what was written.

        Args:
            thread_id: The thread.
            run_id: The run, whose outcome is ``open``.
            outcome: Its outcome: ``truncated``, ``cancelled`` or ``error``.

        Returns:
            The run as it is stored now.

        Raises:
            HistoryError: The run has ended already.
        """
        checked_outcome(outcome)
        still_open(self._store, thread_id, run_id)
        record = Record(None, whole=False)
        for event in self._store.events(thread_id, run_id):
            record.keep(record.check(event))
        record.close()
        return self._store.finish(record.info(outcome), record.compacted())

    def delete_thread(self, thread_id: str) -> int:
        """Delete all runs of a thread.

        Args:
            thread_id: The thread.

        Returns:
            The number of runs deleted: 0 for a thread that is not stored.
        """
        return self._store.delete(thread_id=thread_id)

    def delete_before(self, time: datetime) -> int:
        """Delete the threads to which nothing has been added since a time.

        A thread goes as a whole, since its later runs continue the earlier ones. Runs stored by
        version 0.1 have no time: their threads stay.

        Args:
            time: The time, with a time zone.

        Returns:
            The number of runs deleted.

        Raises:
            ValueError: The time has no time zone.

        Example:
            ``history.delete_before(datetime.now(timezone.utc) - timedelta(days=30))``
        """
        if time.tzinfo is None:
            raise ValueError("time needs a time zone, like datetime.now(timezone.utc)")
        return self._store.delete(before=time)

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
        if run_id is None:
            last = self._store.last(thread_id)
            if last is None:
                raise missing(thread_id, None)
            run_id = last.run_id
        runs = {run.run_id: run for run in self._store.runs(thread_id)}
        line: dict[str, RunInfo] = {}
        step: str | None = run_id
        while step is not None and step not in line:
            line[step] = runs.get(step) or self._run(thread_id, step)
            step = line[step].parent_run_id
        return list(line.values())[::-1]

    def _run(self, thread_id: str, run_id: str) -> RunInfo:
        run = self._store.info(thread_id, run_id)
        if run is None:
            raise missing(thread_id, run_id)
        return run

    def replay(self, thread_id: str, run_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the events that lead to a run, as wire dicts.

        They are one legal stream: a run that broke off ends with a RUN_ERROR whose ``code`` is its
        outcome. Only if the last run is still open, the stream has no end.

        Args:
            thread_id: The thread.
            run_id: The run to end with; by default the last one stored.

        Raises:
            RunNotFoundError: There is no such run; at once, not at the first event.
        """
        return self._replay(self.line(thread_id, run_id))

    def _replay(self, line: list[RunInfo]) -> Iterator[dict[str, Any]]:
        for run, events in zip(line, self._store.events_of(line), strict=True):
            yield from events
            ended = bool(events) and events[-1].get("type") in TERMINAL
            if not ended and (run.outcome != OPEN or run is not line[-1]):
                message = f"the run broke off ({run.outcome})"
                yield {"type": "RUN_ERROR", "message": message, "code": run.outcome}

    def reducer(
        self, thread_id: str, run_id: str | None = None, *, as_dict: bool = False
    ) -> EventReducer:
        """Make a reducer with the messages and the state of a thread at a run.

        Args:
            thread_id: The thread.
            run_id: The run; by default the last one stored.
            as_dict: As for :class:`EventReducer`.

        Returns:
            A new reducer, which the caller may change.
        """
        if not as_dict:
            events = self.replay(thread_id, run_id)
            return EventReducer(on_deviation=ignore).apply_all(events)
        return self._reduced(thread_id, run_id).fork()

    def messages(self, thread_id: str, run_id: str | None = None) -> list[Any]:
        """List the messages of a thread at a run (by default the last), as SDK models."""
        return self.reducer(thread_id, run_id).messages

    def state(self, thread_id: str, run_id: str | None = None) -> Any:
        """Return the state of a thread at a run (by default the last)."""
        return self.reducer(thread_id, run_id, as_dict=True).state

    def normalized(
        self, input: RunAgentInput | dict[str, Any], *, parent_run_id: str | None = None
    ) -> dict[str, Any]:
        """Copy an input without the messages that the history holds where its run begins.

        Args:
            input: The input of a run, a model or a dict. It is not changed.
            parent_run_id: Where the run begins; by default at the input's ``parentRunId``, else at
                the last run of its thread.

        Returns:
            A wire dict. Replaying a run with it gives the same messages as with ``input``.

        Raises:
            AGUIError: The input has no thread, or messages without an id.
        """
        plain = plain_input(input)
        check_input(plain, "the input")
        if plain.get("threadId") is None:
            raise AGUIError("the input has no threadId")
        parent = parent_run_id or plain.get("parentRunId")
        if parent is None:
            last = self._store.last(plain["threadId"])
            if last is None:
                return plain
            parent = last.run_id
        return self._without_known(plain, plain["threadId"], parent)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _without_known(self, given: dict[str, Any], thread_id: str, run_id: str) -> dict[str, Any]:
        held = self._reduced(thread_id, run_id)
        messages = [one for one in given.get("messages") or () if held.message(one["id"]) is None]
        return {**given, "messages": messages}

    def _reduced(self, thread_id: str, run_id: str | None) -> EventReducer:
        """The cached reducer at a run, which must not be changed."""
        if run_id is None:
            last = self._store.last(thread_id)
            if last is None:
                raise missing(thread_id, None)
            run_id = last.run_id
        # From the run back to one whose reducer is kept.
        line: list[RunInfo] = []
        base: EventReducer | None = None
        step: str | None = run_id
        while step is not None and base is None:
            run = self._run(thread_id, step)
            with self._guard:
                base = self._reducers.get(_key(run))
            if base is None:
                line.append(run)
                step = run.parent_run_id
        if not line and base is not None:
            return base
        line.reverse()
        reducer = EventReducer(as_dict=True, on_deviation=ignore) if base is None else base.fork()
        reducer.apply_all(self._replay(line))
        # A run that is open may still grow.
        if all(run.outcome != OPEN for run in line):
            with self._guard:
                self._reducers[_key(line[-1])] = reducer
                while len(self._reducers) > self.KEPT:
                    self._reducers.popitem(last=False)
        return reducer


def _key(run: RunInfo) -> tuple[object, ...]:
    # With the time, since a run that was deleted may be stored anew.
    return run.thread_id, run.run_id, run.stored_at
