"""The history of threads for asyncio."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agui_codec.history.history import EventHistory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from datetime import datetime
    from types import TracebackType

    from ag_ui.core import RunAgentInput
    from typing_extensions import Self

    from agui_codec._native import EventReducer
    from agui_codec.history.store import RunInfo, RunStore
    from agui_codec.history.writer import Event, RunWriter

Result = TypeVar("Result")

# How many events of a replay are fetched at a time.
REPLAYED_AT_ONCE = 1000


async def _in_thread(call: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Make a call in a thread, and wait for it even if cancelled."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            # Its error, if it had one, is not to be reported as forgotten.
            running.exception()
        raise


class AsyncEventHistory:
    """:class:`EventHistory` for asyncio: the same methods, awaitable.

    Each call works in a thread, so that the event loop never waits for a disk. A call that is
    cancelled is done, or has done nothing, when ``CancelledError`` is raised: no work goes on
    behind its back, and what it was storing is stored whole or not at all.

    Args:
        history: The history, or the store to make one of. Both may be used beside it.

    Example:
        >>> import asyncio
        >>> from agui_codec.history import AsyncEventHistory, SQLiteStore
        >>> async def main():
        ...     ids = {"threadId": "t", "runId": "r"}
        ...     async with AsyncEventHistory(SQLiteStore(":memory:")) as history:
        ...         async with history.writer() as writer:
        ...             await writer.write([{"type": "RUN_STARTED", **ids}])
        ...             await writer.write([{"type": "RUN_FINISHED", **ids}])
        ...         return [event["type"] async for event in await history.replay("t")]
        >>> asyncio.run(main())
        ['RUN_STARTED', 'RUN_FINISHED']
    """

    def __init__(self, history: EventHistory | RunStore) -> None:
        self._history = history if isinstance(history, EventHistory) else EventHistory(history)

    def __repr__(self) -> str:
        return f"Async{self._history!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def append(
        self,
        events: Iterable[Event],
        *,
        input: RunAgentInput | dict[str, Any] | None = None,
        outcome: str | None = None,
    ) -> RunInfo:
        """Store a run; see :meth:`EventHistory.append`."""
        return await _in_thread(self._history.append, events, input=input, outcome=outcome)

    def writer(self, *, input: RunAgentInput | dict[str, Any] | None = None) -> AsyncRunWriter:
        """Make a writer that stores a run while it happens; see :meth:`EventHistory.writer`."""
        return AsyncRunWriter(self._history.writer(input=input))

    async def end(self, thread_id: str, run_id: str, outcome: str = "truncated") -> RunInfo:
        """End a run whose writer was killed; see :meth:`EventHistory.end`."""
        return await _in_thread(self._history.end, thread_id, run_id, outcome)

    async def delete_thread(self, thread_id: str) -> int:
        """Delete a thread; see :meth:`EventHistory.delete_thread`."""
        return await _in_thread(self._history.delete_thread, thread_id)

    async def delete_before(self, time: datetime) -> int:
        """Delete old threads; see :meth:`EventHistory.delete_before`."""
        return await _in_thread(self._history.delete_before, time)

    async def threads(self) -> list[str]:
        """List the threads; see :meth:`EventHistory.threads`."""
        return await _in_thread(self._history.threads)

    async def runs(self, thread_id: str | None = None) -> list[RunInfo]:
        """List runs; see :meth:`EventHistory.runs`."""
        return await _in_thread(self._history.runs, thread_id)

    async def line(self, thread_id: str, run_id: str | None = None) -> list[RunInfo]:
        """List the runs that lead to a run; see :meth:`EventHistory.line`."""
        return await _in_thread(self._history.line, thread_id, run_id)

    async def replay(
        self, thread_id: str, run_id: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Read the events that lead to a run; see :meth:`EventHistory.replay`.

        Returns:
            An async iterator: ``async for event in await history.replay("t")``.
        """
        return _events(await _in_thread(self._history.replay, thread_id, run_id))

    async def reducer(
        self, thread_id: str, run_id: str | None = None, *, as_dict: bool = False
    ) -> EventReducer:
        """Make a reducer of a thread at a run; see :meth:`EventHistory.reducer`."""
        return await _in_thread(self._history.reducer, thread_id, run_id, as_dict=as_dict)

    async def messages(self, thread_id: str, run_id: str | None = None) -> list[Any]:
        """List the messages of a thread; see :meth:`EventHistory.messages`."""
        return await _in_thread(self._history.messages, thread_id, run_id)

    async def state(self, thread_id: str, run_id: str | None = None) -> Any:
        """Return the state of a thread; see :meth:`EventHistory.state`."""
        return await _in_thread(self._history.state, thread_id, run_id)

    async def normalized(
        self, input: RunAgentInput | dict[str, Any], *, parent_run_id: str | None = None
    ) -> dict[str, Any]:
        """Copy an input without what the history holds; see :meth:`EventHistory.normalized`."""
        return await _in_thread(self._history.normalized, input, parent_run_id=parent_run_id)

    async def close(self) -> None:
        """Close the store."""
        await _in_thread(self._history.close)


async def _events(replay: Iterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    from itertools import islice

    while True:
        events: list[dict[str, Any]] = await _in_thread(list, islice(replay, REPLAYED_AT_ONCE))
        if not events:
            return
        for event in events:
            yield event


class AsyncRunWriter:
    """:class:`RunWriter` for asyncio; made by :meth:`AsyncEventHistory.writer`.

    Example:
        >>> import asyncio
        >>> ids = {"threadId": "t", "runId": "r"}
        >>> async def main():
        ...     async with AsyncEventHistory(SQLiteStore(":memory:")) as history:
        ...         async with history.writer() as writer:
        ...             await writer.write([{"type": "RUN_STARTED", **ids}])
        ...             await writer.write([{"type": "RUN_FINISHED", **ids}])
        ...         return writer.run.outcome
        >>> asyncio.run(main())
        'success'
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        # Batches are stored in the order in which they were given.
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Async{self._writer!r}"

    @property
    def run(self) -> RunInfo | None:
        """The run as it is stored; None before its first event."""
        return self._writer.run

    async def _call(self, call: Callable[..., Result]) -> Result:
        async with self._turn:
            return await _in_thread(call)

    async def write(self, events: Iterable[Event]) -> None:
        """Store events; see :meth:`RunWriter.write`."""
        await self._call(partial(self._writer.write, events))

    async def finish(self) -> RunInfo:
        """End the run; see :meth:`RunWriter.finish`."""
        return await self._call(self._writer.finish)

    async def abort(self, outcome: str = "cancelled") -> RunInfo:
        """End a run that broke off; see :meth:`RunWriter.abort`."""
        return await self._call(partial(self._writer.abort, outcome))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._call(partial(self._writer.leave, kind))
