"""Middleware: what stands between an agent's producer and the run that reads it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ag_ui.core import RunAgentInput

from agui_codec._native import ChunkExpander, EventReducer
from agui_codec.stream import athrough

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

__all__ = [
    "EventFunction",
    "EventStage",
    "FilterToolCallsMiddleware",
    "Middleware",
    "MiddlewareFunction",
    "Next",
]


@runtime_checkable
class EventStage(Protocol):
    """A stage: an object that events go through, such as :class:`agui_codec.ChunkExpander`."""

    def feed(self, event: Any, /) -> list[Any]:
        """Take an event, give events."""

    def close(self) -> list[Any]:
        """End the stream, give the last events."""


class Next:
    """What a middleware runs: the middleware behind it, and at last the agent.

    Calling it gives the events, as wire dicts. It may be called more than once (to try again) or
    not at all; what is still open when the run ends is closed.

    Attributes:
        messages: The agent's conversation.
        state: The agent's state.
    """

    def __init__(
        self,
        run: Callable[[RunAgentInput], AsyncIterator[dict[str, Any]]],
        agent: Any,
        keep: Callable[[Any], object] = lambda events: None,
    ) -> None:
        self._run = run
        self._agent = agent
        # Has an iterator closed when the run ends.
        self._keep = keep

    def __call__(self, input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
        """Run what stands behind, from this input."""
        return self._run(input)

    @property
    def messages(self) -> list[Any]:
        """The agent's conversation."""
        messages: list[Any] = self._agent.messages
        return messages

    @property
    def state(self) -> Any:
        """The agent's state."""
        return self._agent.state


#: An async generator function ``(input, next)``, or any function that gives an async iterator.
MiddlewareFunction = Callable[
    [RunAgentInput, Next], "AsyncIterator[BaseEvent] | AsyncIterator[dict[str, Any]]"
]
#: A function from an event (a wire dict) to an event, None for none, or an iterable of events.
EventFunction = Callable[[Any], "dict[str, Any] | BaseEvent | Iterable[Any] | None"]


class Middleware(ABC):
    """Middleware as a class.

    It stands after the translation of older events and before enforcement, so it sees wire dicts,
    with all that enforcement would remove, chunks not expanded. It may give models or wire dicts.

    Example:
        class Timed(Middleware):
            async def run(self, input, next):
                started = time.monotonic()
                async for event in self.run_next(input, next):
                    yield event
                print(time.monotonic() - started)

        agent.use(Timed())
    """

    @abstractmethod
    def run(
        self, input: RunAgentInput, next: Next
    ) -> AsyncIterator[BaseEvent] | AsyncIterator[dict[str, Any]]:
        """Give the events of a run; mostly an async generator.

        Args:
            input: The input of the run; give ``next`` another one to change it.
            next: What stands behind.
        """

    def run_next(self, input: RunAgentInput, next: Next) -> AsyncIterator[dict[str, Any]]:
        """The events of ``next``, with chunks expanded."""
        events = athrough(next(input), ChunkExpander())
        next._keep(events)
        return events

    def run_next_with_state(
        self, input: RunAgentInput, next: Next
    ) -> AsyncIterator[tuple[dict[str, Any], list[Any], Any]]:
        """The events of ``next``, chunks expanded, with what they add up to.

        Returns:
            An iterator over events, each with the messages and the state after it.
        """
        events = self._with_state(input, next)
        next._keep(events)
        return events

    async def _with_state(
        self, input: RunAgentInput, next: Next
    ) -> AsyncIterator[tuple[dict[str, Any], list[Any], Any]]:
        state = {} if input.state is None else input.state
        reducer = EventReducer(input.messages, state, on_deviation=lambda _: None)
        events = self.run_next(input, next)
        try:
            async for event in events:
                reducer.apply(event)
                yield event, reducer.messages, reducer.state
        finally:
            await events.aclose()  # type: ignore[attr-defined]


class FilterToolCallsMiddleware(Middleware):
    """Drops the calls of some tools from the stream: start, arguments, end and result.

    Args:
        allowed: The names of the only tools whose calls pass.
        disallowed: The names of the tools whose calls do not.
        hide: Take those tools out of the input, too, so that the agent does not know of them.

    Raises:
        TypeError: Not exactly one of ``allowed`` and ``disallowed``.

    Example:
        agent.use(FilterToolCallsMiddleware(disallowed={"delete_everything"}))
    """

    def __init__(
        self,
        *,
        allowed: Iterable[str] | None = None,
        disallowed: Iterable[str] | None = None,
        hide: bool = False,
    ) -> None:
        if (allowed is None) == (disallowed is None):
            raise TypeError("FilterToolCallsMiddleware takes either allowed or disallowed")
        self._allowed = None if allowed is None else frozenset(allowed)
        self._disallowed = frozenset(disallowed or ())
        self._hide = hide

    def run(self, input: RunAgentInput, next: Next) -> AsyncIterator[dict[str, Any]]:
        """The events of ``next`` without the blocked calls."""
        if self._hide and input.tools:
            tools = [tool for tool in input.tools if not self._blocks(tool.name)]
            input = input.model_copy(update={"tools": tools})
        return athrough(next(input), ChunkExpander(), _ToolCallFilter(self._blocks))

    def _blocks(self, name: str) -> bool:
        if self._allowed is not None:
            return name not in self._allowed
        return name in self._disallowed


_OF_A_CALL = frozenset(("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"))


class _ToolCallFilter:
    """The stage of :class:`FilterToolCallsMiddleware`, for one stream."""

    def __init__(self, blocks: Callable[[str], bool]) -> None:
        self._blocks = blocks
        self._blocked: set[str] = set()

    def feed(self, event: dict[str, Any], /) -> list[dict[str, Any]]:
        # What is malformed passes: enforcement, which comes next, says what is wrong with it.
        kind, call = event.get("type"), event.get("toolCallId")
        if kind == "RUN_STARTED":
            # Calls are of a run, and their ids may come again in the next one.
            self._blocked.clear()
        elif kind == "RUN_FINISHED":
            return [self._finished(event)]
        elif isinstance(call, str):
            name = event.get("toolCallName")
            if kind == "TOOL_CALL_START" and isinstance(name, str) and self._blocks(name):
                self._blocked.add(call)
            if call in self._blocked and kind in _OF_A_CALL:
                return []
        return [event]

    def _finished(self, event: dict[str, Any]) -> dict[str, Any]:
        outcome = event.get("outcome")
        if not isinstance(outcome, dict):
            return event
        named = outcome.get("pendingToolCallIds")
        if not isinstance(named, list):
            return event
        left = [one for one in named if not (isinstance(one, str) and one in self._blocked)]
        if len(left) == len(named):
            return event
        return {**event, "outcome": {**outcome, "pendingToolCallIds": left}}

    def close(self) -> list[dict[str, Any]]:
        return []


@dataclass(frozen=True)
class Link:
    """Middleware as an agent keeps it.

    Attributes:
        stage: Makes the stage that it is, for one stream; None if it has to be run.
        run: Runs it.
    """

    stage: Callable[[], Any] | None
    run: Callable[[RunAgentInput, Next], AsyncIterator[Any]]


def link(middleware: Any) -> Link:
    """What a middleware of any kind is to an agent.

    Raises:
        TypeError: It is of no kind that :meth:`AbstractAgent.use` takes.
    """
    if isinstance(middleware, Middleware):
        return Link(None, middleware.run)
    if callable(getattr(middleware, "feed", None)) and callable(getattr(middleware, "close", None)):
        # A class makes a stage for each stream; an object is the stage of every one.
        make = middleware if isinstance(middleware, type) else lambda: middleware
        return _stage(make)
    if isinstance(middleware, type) or not callable(middleware):
        raise TypeError(
            "middleware is a Middleware, a function (input, next), a stage or its class, or a "
            f"function of an event; got {middleware!r}"
        )
    if _takes_two(middleware):
        return Link(None, middleware)
    return _stage(lambda: middleware)


def _stage(make: Callable[[], Any]) -> Link:
    return Link(make, lambda input, next: athrough(next(input), make()))


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is one.empty]
    return len(required) == 2
