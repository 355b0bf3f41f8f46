"""The history of threads over a store of runs."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from agui_codec._native import (
    AGUIError,
    ChunkExpander,
    EventReducer,
    EventVerifier,
    compact_events,
    to_json,
)
from agui_codec.history.store import missing
from agui_codec.stream import through

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ag_ui.core import RunAgentInput
    from ag_ui.core.events import BaseEvent

    from agui_codec.history.store import RunInfo, RunStore

    Event = BaseEvent | dict[str, Any]


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
                raise missing(thread_id, run_id)
            line.append(runs[step])
            step = runs[step].parent_run_id
        if not line:
            raise missing(thread_id, run_id)
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
