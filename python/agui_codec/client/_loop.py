"""What a client needs of an event loop: little, and only off the ordinary path.

On asyncio nothing is needed but the standard library; on trio it goes through anyio.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from anyio import CancelScope

T = TypeVar("T")


def on_asyncio() -> bool:
    """Whether the caller runs on asyncio; else it is trio."""
    return asyncio._get_running_loop() is not None


def anyio() -> Any:
    """The module anyio.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import anyio as module
    except ImportError as error:  # pragma: no cover
        raise ImportError("this needs anyio: pip install agui-codec[client]") from error
    return module


def current_task() -> Any:
    """The task that the caller runs in, on any event loop."""
    return asyncio.current_task() if on_asyncio() else anyio().get_current_task().id


def counts_cancellations() -> bool:
    """Whether tasks have ``cancelling``: those of asyncio, since Python 3.11."""
    return sys.version_info >= (3, 11) and on_asyncio()


class Interruption:
    """Lets one task end what another waits for, without ending the other.

    On asyncio the waiting task is cancelled, and takes the cancellation back; on trio it waits in
    a scope of its own.
    """

    __slots__ = ("_scope", "cancelling", "requested", "task", "waiting")

    def __init__(self) -> None:
        # The last task that waited, and whether it does now. Set by `Run`, for each wait.
        self.task: Any = None
        self.waiting = False
        self.requested = False
        # How often others had cancelled the task when the wait began: that is theirs.
        self.cancelling = 0
        self._scope: CancelScope | None = None

    def interrupt(self) -> None:
        """End the wait, if there is one."""
        if not self.waiting or self.requested:
            return
        if self._scope is not None:
            self.requested = True
            self._scope.cancel()
        elif not on_asyncio() or asyncio.current_task() is self.task:
            # From another thread, or from within what is waited for. A task that is running cannot
            # take its cancellation back (before Python 3.13), so let it come to its wait first.
            self.task.get_loop().call_soon_threadsafe(self.interrupt)
        else:
            self.requested = True
            self.task.cancel()

    def take_back(self) -> bool:
        """Whether the cancellation at hand was our own; if so it has no effect any more."""
        if not self.requested:
            return False
        self.requested = False
        uncancel = getattr(self.task, "uncancel", None)
        # Somebody else may have cancelled the task as well.
        return uncancel is None or uncancel() <= self.cancelling

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Wait for something off the ordinary path: a request, tools.

        Raises:
            Interrupted: :meth:`interrupt` was called.
        """
        self.task, self.waiting = current_task(), True
        self.cancelling = self.task.cancelling() if counts_cancellations() else 0
        try:
            if on_asyncio():
                return await awaitable
            with anyio().CancelScope() as self._scope:
                return await awaitable
            raise Interrupted
        except asyncio.CancelledError:
            if self.take_back():
                raise Interrupted from None
            raise
        finally:
            self.waiting = False
            self._scope = None


class Interrupted(Exception):
    """What was waited for has been interrupted."""


class TimedOut(Exception):
    """What was called has taken too long; a TimeoutError may be one of its own."""


class ScopedIterator:
    """An async iterator, each step of which :class:`Interruption` can end, for trio."""

    def __init__(self, iterator: Any, interruption: Interruption) -> None:
        self._iterator = iterator
        self._interruption = interruption

    def __aiter__(self) -> ScopedIterator:
        return self

    async def __anext__(self) -> Any:
        return await self._interruption.wait(self._iterator.__anext__())


async def call(
    handler: Callable[..., Any], arguments: Mapping[str, Any], timeout: float | None
) -> Any:
    """Call a function of the user's, a sync one in a thread.

    Raises:
        TimedOut: It took longer than ``timeout`` seconds.
    """
    if timeout is None:
        return await _called(handler, arguments)
    with anyio().move_on_after(timeout):
        return await _called(handler, arguments)
    raise TimedOut


async def _called(handler: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    function = handler if inspect.isroutine(handler) else type(handler).__call__
    if inspect.iscoroutinefunction(function):
        return await handler(**arguments)
    work = partial(handler, **arguments)
    result = await anyio().to_thread.run_sync(work, abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result


async def gather(jobs: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """The results of some jobs, of which so many run at the same time."""
    if len(jobs) == 1:
        return [await jobs[0]()]
    results: list[Any] = [None] * len(jobs)
    limiter = anyio().Semaphore(limit)

    async def run(at: int) -> None:
        async with limiter:
            results[at] = await jobs[at]()

    async with anyio().create_task_group() as group:
        for at in range(len(jobs)):
            group.start_soon(run, at)
    return results


async def shielded(work: Awaitable[object], seconds: float) -> None:
    """Do some last work in a task that is being cancelled, for so long at most."""
    try:
        module = anyio()
    except ImportError:
        try:
            await asyncio.wait_for(asyncio.ensure_future(work), seconds)
        except asyncio.TimeoutError:
            return
    else:
        with module.move_on_after(seconds, shield=True):
            await work


async def sleep(seconds: float) -> None:
    """Wait for so many seconds."""
    await (asyncio.sleep(seconds) if on_asyncio() else anyio().sleep(seconds))
