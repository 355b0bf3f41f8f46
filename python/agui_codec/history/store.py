"""What a store of runs offers, and what all of them have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agui_codec._native import AGUIError

if TYPE_CHECKING:
    from collections.abc import Callable

    # From the parent that was settled on to the events to store, as a JSON array.
    Build = Callable[[str | None], bytes]


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


def settled(thread: list[RunInfo], thread_id: str, run_id: str, parent: str | None) -> str | None:
    """The parent of a run that is about to be stored behind the others of its thread."""
    known = [run.run_id for run in thread]
    if run_id in known:
        raise AGUIError(f"run {run_id!r} of thread {thread_id!r} is stored already")
    if parent is None:
        return known[-1] if known else None
    if parent not in known:
        raise AGUIError(f"run {run_id!r}: its parent {parent!r} is not stored in {thread_id!r}")
    return parent


def missing(thread_id: str, run_id: str | None) -> AGUIError:
    """That a run is not in the history."""
    if run_id is None:
        return AGUIError(f"there is no run of thread {thread_id!r}")
    return AGUIError(f"there is no run {run_id!r} of thread {thread_id!r}")
