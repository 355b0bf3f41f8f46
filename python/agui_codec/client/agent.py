"""Agents: what a program talks to, whatever the transport."""

from __future__ import annotations

import asyncio
import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    ResumeEntry,
    RunAgentInput,
    ToolCall,
    ToolMessage,
)

from agui_codec._native import (
    ChunkExpander,
    EventEnforcer,
    EventReducer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
    TruncatedStreamError,
    decode_event,
    downgrade_input,
    to_json,
    upgrade_input,
)
from agui_codec.client._fields import read
from agui_codec.client.errors import ConnectNotImplementedError
from agui_codec.client.interrupt import cancel, entry
from agui_codec.client.middleware import Link, Next, link
from agui_codec.client.run import Run, RunResult, Source, Turn
from agui_codec.client.subscriber import UNSET, Listeners, Subscription
from agui_codec.decoder import EventDecoder
from agui_codec.stream import athrough

if TYPE_CHECKING:
    import weakref

    from ag_ui.core import AgentCapabilities, ContentPart, Context, Interrupt, Message, Tool
    from typing_extensions import Self, Unpack

    from agui_codec._native import Deviation
    from agui_codec.client.middleware import (
        EventFunction,
        EventStage,
        Middleware,
        MiddlewareFunction,
    )
    from agui_codec.client.options import RunOptions
    from agui_codec.client.run import OnInterrupt
    from agui_codec.client.subscriber import AgentSubscriber
    from agui_codec.client.tool import FrontendTool

__all__ = ["AbstractAgent", "Producer"]

#: What an agent's ``run`` gives: event models or wire dicts.
Producer = AsyncIterator[BaseEvent] | AsyncIterator[dict[str, Any]]


class AbstractAgent(ABC):
    """An agent, and the conversation with it.

    Implement :meth:`run`, an async generator of events, and call :meth:`run_agent`. An agent has
    one run at a time (:meth:`clone` it for more), belongs to one event loop, and is not
    thread-safe.

    Args:
        agent_id: A name for the agent; by default a new UUID.
        description: What it is, for people.
        thread_id: The conversation; by default a new UUID.
        messages: What the conversation begins with, models or dicts.
        state: The state it begins with, any JSON value; None for ``{}``.
        as_dict: Give events, messages and interrupts as wire dicts instead of models.
        peer_version: The newest protocol version that the agent behind :meth:`run` understands:
            what is sent is converted to it. None for one of our own time.
        on_deviation: Called with each :class:`agui_codec.Deviation` that is tolerated. Without it
            they are logged at WARNING under the name ``agui_codec``.
        on_subscriber_error: ``log`` what callbacks raise, and go on, or ``raise`` it, which fails
            the run: for tests.

    Attributes:
        agent_id: The name.
        description: The description.
        thread_id: The conversation.
        as_dict: Whether everything is a wire dict.

    Example:
        class Echo(AbstractAgent):
            async def run(self, input):
                yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
                text = input.messages[-1].content
                yield TextMessageChunkEvent(message_id="1", delta=text)
                yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

        result = await Echo().run_agent("Hello")
        assert result.text == "Hello"
    """

    def __init__(
        self,
        *,
        agent_id: str | None = None,
        description: str = "",
        thread_id: str | None = None,
        messages: Iterable[Message | dict[str, Any]] = (),
        state: Any = None,
        as_dict: bool = False,
        peer_version: str | None = None,
        on_deviation: Callable[[Deviation], object] | None = None,
        on_subscriber_error: Literal["log", "raise"] = "log",
    ) -> None:
        self.agent_id = str(uuid4()) if agent_id is None else agent_id
        self.description = description
        self.thread_id = str(uuid4()) if thread_id is None else thread_id
        self.as_dict = as_dict
        self._peer_version = peer_version
        self._on_deviation = on_deviation
        self._on_subscriber_error = on_subscriber_error
        self._reducer = EventReducer(
            _upgraded(messages),
            {} if state is None else state,
            as_dict=as_dict,
            on_deviation=on_deviation,
        )
        self._subscribers: list[AgentSubscriber] = []
        self._middleware: list[Link] = []
        self._advertised: frozenset[str] = frozenset()
        # Not a strong one: a run that is dropped has to end.
        self._active: weakref.ref[Run] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    # -- what the conversation adds up to ---------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """The conversation: a new list, which does not change any more."""
        return cast("list[Message]", self._reducer.messages)

    @property
    def state(self) -> Any:
        """The state: a value, which does not change any more. Treat it as one."""
        return self._reducer.state

    @property
    def pending_interrupts(self) -> list[Interrupt]:
        """The interrupts that the agent waits for; the next run has to answer them (``resume``)."""
        return cast("list[Interrupt]", self._reducer.pending_interrupts)

    @property
    def pending_tool_calls(self) -> list[ToolCall]:
        """The tool calls that the last run has left to answer; see :meth:`add_tool_result`."""
        pending = self._reducer.pending_tool_calls
        if not pending:
            return []
        calls: dict[str, ToolCall] = {}
        for message in self.messages:
            answered = read(message, "tool_call_id", "toolCallId")
            if answered in pending:
                pending.remove(answered)
            for call in read(message, "tool_calls", "toolCalls") or ():
                calls[read(call, "id")] = call
        return [calls[call] for call in pending if call in calls]

    @property
    def active_run(self) -> Run | None:
        """The run that has begun and not ended; None between runs."""
        return None if self._active is None else self._active()

    @property
    def is_running(self) -> bool:
        """Whether there is an active run."""
        return self.active_run is not None

    # -- for subclasses ---------------------------------------------------------------------

    @abstractmethod
    def run(self, input: RunAgentInput) -> Producer:
        """Give the events of a run: mostly an async generator.

        It is closed when the run ends early. Callers use :meth:`run_agent`.

        Args:
            input: The conversation, the state, the tools and so on.
        """

    def connect(self, input: RunAgentInput) -> Producer:
        """Give the events of a thread's runs so far, and of the one that is live; as :meth:`run`.

        Raises:
            ConnectNotImplementedError: The agent cannot.
        """
        raise ConnectNotImplementedError(f"{type(self).__name__} does not implement connect()")

    async def get_capabilities(self) -> AgentCapabilities | None:
        """Ask what the agent can do; None if it does not say."""
        return None

    # -- set up -----------------------------------------------------------------------------

    def use(
        self, *middleware: Middleware | MiddlewareFunction | EventStage | EventFunction | type
    ) -> Self:
        """Add middleware: the first added is the outermost, which sees events last.

        Args:
            *middleware: :class:`Middleware`; functions ``(input, next)`` that give events; stages,
                or better their classes, of which each run makes one; functions from an event (a
                wire dict) to an event, None or several. Stages and functions of an event cost
                nothing but themselves, if all middleware is of these kinds.

        Returns:
            The agent.

        Raises:
            TypeError: Something of another kind.

        Example:
            agent.use(FilterToolCallsMiddleware(disallowed={"rm"}), without_raw_events)
        """
        self._middleware += [link(one) for one in middleware]
        return self

    def subscribe(self, subscriber: AgentSubscriber) -> Subscription:
        """Have a subscriber called back in all runs that begin from now on.

        Returns:
            What unsubscribes when it is called, or at the end of a ``with`` block.
        """
        self._subscribers.append(subscriber)

        def end() -> None:
            # By identity: subscribers may compare equal.
            self._subscribers = [one for one in self._subscribers if one is not subscriber]

        return Subscription(end)

    def clone(self) -> Self:
        """Make an agent of the same conversation, which goes on by itself and is not running."""
        cloned = copy.copy(self)
        cloned._reducer = self._reducer.fork()
        cloned._subscribers = list(self._subscribers)
        cloned._middleware = list(self._middleware)
        cloned._active = None
        return cloned

    # -- running ----------------------------------------------------------------------------

    def run_agent(
        self,
        prompt: str | Sequence[ContentPart] | None = None,
        /,
        *,
        run_id: str | None = None,
        parent_run_id: str | None = None,
        tools: Sequence[FrontendTool | Callable[..., Any] | Tool | dict[str, Any]] = (),
        context: Sequence[Context | dict[str, Any]] = (),
        forwarded_props: Any = None,
        resume: Sequence[ResumeEntry | dict[str, Any]] | Mapping[str, Any] | None = None,
        on_interrupt: OnInterrupt | None = None,
        max_rounds: int = 8,
        subscriber: AgentSubscriber | None = None,
    ) -> Run:
        """Run the agent. Nothing happens until the run is awaited or iterated over.

        Args:
            prompt: A message of the user to begin with.
            run_id: The id of the run; by default a new UUID.
            parent_run_id: The run that spawned this one.
            tools: What the agent may call. Those with a handler are executed here when the run has
                finished, and the agent is run again with the answers.
            context: What else the agent shall know.
            forwarded_props: Handed through to the agent, any JSON value.
            resume: Answers to all pending interrupts: entries, or by id what :func:`resolve` and
                :func:`cancel` give (or just the payload).
            on_interrupt: Asked for the answers when a run ends with interrupts; None from it ends
                the run with status ``interrupt``.
            max_rounds: How often the agent is run, at most.
            subscriber: Called back in this run, after the agent's subscribers.

        Returns:
            The run.

        Raises:
            RunInProgressError: When the run starts: another one has not ended.
            InterruptError: When it starts: ``resume`` does not answer what is pending.
            PendingToolCallsError: When it starts: tool calls have no answer yet.

        Example:
            result = await agent.run_agent("Where am I?", tools=[get_location])
            print(result.text)
        """
        turn = Turn(
            prompt=prompt,
            parent_run_id=parent_run_id,
            tools=tools,
            context=context,
            forwarded_props=forwarded_props,
            resume=resume,
            on_interrupt=on_interrupt,
            max_rounds=max_rounds,
            subscriber=subscriber,
        )
        return Run(self, turn, run_id)

    def connect_agent(self, *, subscriber: AgentSubscriber | None = None) -> Run:
        """Join the thread: its history, and the run that is live there, if any.

        As :meth:`run_agent`, over :meth:`connect` and without middleware. A stream without events
        is a thread without history, and a success.
        """
        return Run(self, Turn(subscriber=subscriber, connects=True))

    def run_sync(
        self, prompt: str | Sequence[ContentPart] | None = None, /, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Run the agent from code that is not asynchronous, in an event loop of its own.

        Args:
            prompt: As for :meth:`run_agent`.
            **options: As for :meth:`run_agent`.

        Raises:
            RuntimeError: There is a running event loop: await :meth:`run_agent` there.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("run_sync() inside a running event loop: await run_agent() there")

        async def main() -> RunResult:
            try:
                return await self.run_agent(prompt, **options)
            finally:
                await self._leave_loop()

        return asyncio.run(main())

    async def _leave_loop(self) -> None:  # noqa: B027 - most agents have nothing
        """Give back what belongs to the event loop, which is about to end."""

    def abort_run(self) -> None:
        """Abort the active run, if there is one; see :meth:`Run.abort`."""
        if (run := self.active_run) is not None:
            run.abort()

    async def detach_active_run(self) -> None:
        """Stop reading the active run, if there is one; see :meth:`Run.detach`."""
        if (run := self.active_run) is not None:
            await run.detach()

    # -- changing the conversation ----------------------------------------------------------

    async def add_message(self, message: Message | dict[str, Any]) -> None:
        """Add a message of the application's, for the next run, and call subscribers back."""
        await self.add_messages([message])

    async def add_messages(self, messages: Iterable[Message | dict[str, Any]]) -> None:
        """Add messages; ``on_messages_changed`` comes once, after all of them."""
        added = list(messages)
        for message in added:
            self._reducer.add_message(message)
        ids = [read(message, "id") for message in added]
        await self._listeners().added([self._reducer.message(one) for one in ids])

    async def set_messages(self, messages: Iterable[Message | dict[str, Any]]) -> None:
        """Replace the whole conversation, and call subscribers back."""
        self._replace(_upgraded(messages), UNSET)
        await self._listeners().changed(messages=True)

    async def set_state(self, state: Any) -> None:
        """Replace the state by any JSON value, and call subscribers back."""
        self._replace(UNSET, state)
        await self._listeners().changed(state=True)

    async def add_tool_result(
        self,
        tool_call_id: str,
        content: str | Sequence[ContentPart],
        *,
        error: str | None = None,
        message_id: str | None = None,
    ) -> None:
        """Answer a tool call; the agent gets the answer with the next run.

        Args:
            tool_call_id: The call, as in :attr:`pending_tool_calls`.
            content: What the tool returned: text or content parts.
            error: Why it failed, if it did.
            message_id: The id of the message; by default a new UUID.
        """
        message = ToolMessage(
            id=str(uuid4()) if message_id is None else message_id,
            tool_call_id=tool_call_id,
            content=cast("Any", content),
            error=error,
        )
        await self.add_message(message)

    def cancel_interrupts(self) -> list[ResumeEntry]:
        """Give up on all pending interrupts.

        Returns:
            What cancels them, as ``resume`` of the next run.

        Example:
            await agent.run_agent("Never mind.", resume=agent.cancel_interrupts())
        """
        return [entry(read(one, "id"), cancel()) for one in self.pending_interrupts]

    # -- for runs ---------------------------------------------------------------------------

    def _listeners(self) -> Listeners:
        return Listeners(self._subscribers, self)

    def _unanswered(self) -> list[str]:
        """The pending calls of tools that this agent has advertised."""
        if not self._advertised:
            return []
        return [
            read(call, "id")
            for call in self.pending_tool_calls
            if read(read(call, "function"), "name") in self._advertised
        ]

    def _tool_call(self, tool_call_id: str) -> ToolCall | None:
        """A tool call of the conversation."""
        for message in reversed(self.messages):
            for call in read(message, "tool_calls", "toolCalls") or ():
                if read(call, "id") == tool_call_id:
                    return cast("ToolCall", call)
        return None

    def _replace(self, messages: Any, state: Any) -> None:
        """Replace messages, state or both."""
        replaced = {} if messages is UNSET else {"messages": list(messages)}
        if state is not UNSET:
            replaced["state"] = state
        self._reducer.replace(**replaced)

    def _next_input(self, run_id: str, **fields: Any) -> RunAgentInput:
        """The input of the next run, a model whatever ``as_dict`` says."""
        given = self._reducer.next_input(run_id, thread_id=self.thread_id, **fields)
        return RunAgentInput.model_validate(given) if isinstance(given, dict) else given

    async def _open(self, input: RunAgentInput, *, connects: bool) -> tuple[Source, Pipeline]:
        """Start the producer, and make the stages that its stream goes through."""
        links = [] if connects else self._middleware
        as_stages = [one.stage for one in reversed(links) if one.stage is not None]
        after = (
            EventEnforcer(on_deviation=self._on_deviation),
            ChunkExpander(on_deviation=self._on_deviation),
            EventVerifier(thread_id=self.thread_id),
        )
        if len(as_stages) < len(links):
            chain = _Chain(self, links)
            source = Source(chain.start(input), close=chain.close, transport_errors=chain.errors)
            last = [_to_dict] if self.as_dict else []
            return source, Pipeline(*last, *after, as_models=not self.as_dict)
        source = await self._source(self._outgoing(input), connects=connects)
        stages: list[Any] = []
        for at, make in enumerate(as_stages, 1):
            stages.append(make())
            native = type(stages[-1]).__module__ == "agui_codec._native"
            if not native and (at < len(as_stages) or self.as_dict):
                # It may give models; the next one sees wire dicts.
                stages.append(_to_dict)
        if source.content_type is not None:
            before: list[Any] = [self._decoder(source.content_type)]
        else:
            # Middleware sees wire dicts.
            before = [_to_dict] if stages or self.as_dict else []
        before.append(LegacyUpgrader(on_deviation=self._on_deviation))
        return source, Pipeline(*before, *stages, *after, as_models=not self.as_dict)

    def _outgoing(self, input: RunAgentInput) -> RunAgentInput:
        if self._peer_version is None:
            return input
        given = downgrade_input(input, self._peer_version, on_deviation=self._on_deviation)
        return cast("RunAgentInput", given)

    def _decoder(self, content_type: str) -> EventDecoder:
        return EventDecoder(content_type, as_dict=True, on_deviation=self._on_deviation)

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        """What the source raises if its transport breaks off."""
        return (TruncatedStreamError,)

    async def _source(self, input: RunAgentInput, *, connects: bool) -> Source:
        """Where the events come from; transports with bytes of their own override it."""
        events: Any = self.connect(input) if connects else self.run(input)
        return Source(
            _events(events, self),
            transport_errors=self._transport_errors(),
            close=_closer(events),
        )


class _Chain:
    """The middleware of one run, where some of it has to be run."""

    def __init__(self, agent: AbstractAgent, links: Sequence[Link]) -> None:
        self._agent = agent
        self._links = links
        # Everything that was started, with its depth: 0 for the outermost middleware.
        self._started: list[tuple[int, Any]] = []
        self.errors = agent._transport_errors()

    def start(self, input: RunAgentInput) -> AsyncIterator[Any]:
        run: Callable[[RunAgentInput], AsyncIterator[Any]] = self._produce
        for depth in reversed(range(len(self._links))):
            run = self._step(depth, Next(run, self._agent, partial(self._keep, depth)))
        return run(input)

    def _step(
        self, depth: int, next: Next
    ) -> Callable[[RunAgentInput], AsyncIterator[dict[str, Any]]]:
        one = self._links[depth]

        def run(input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
            events = one.run(input, next)
            self._keep(depth, events)
            if depth == 0:
                return _events(events, one.run)
            # The middleware in front sees wire dicts.
            converted = athrough(_events(events, one.run), _to_dict)
            self._keep(depth, converted)
            return converted

        return run

    def _produce(self, input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
        events = self._read(input)
        self._keep(len(self._links), events)
        return events

    def _keep(self, depth: int, events: Any) -> None:
        self._started.append((depth, events))

    async def _read(self, input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
        """The producer's events as wire dicts of today's protocol."""
        agent = self._agent
        source = await agent._source(agent._outgoing(input), connects=False)
        decoder = _to_dict if source.content_type is None else agent._decoder(source.content_type)
        try:
            upgraded = athrough(
                source.items, decoder, LegacyUpgrader(on_deviation=agent._on_deviation)
            )
            async with aclosing(upgraded):
                async for event in upgraded:
                    yield event
        finally:
            await source.close()

    async def close(self) -> None:
        """Close everything, the outermost first, whatever that raises."""
        started, self._started = self._started, []
        started.sort(key=itemgetter(0))
        async with AsyncExitStack() as stack:
            for _, events in reversed(started):
                stack.push_async_callback(_closer(events))


def _events(events: Any, made_by: Any) -> AsyncIterator[Any]:
    """The iterator over what a producer or a middleware has returned."""
    if hasattr(events, "__aiter__"):
        return cast("AsyncIterator[Any]", aiter(events))
    if isinstance(made_by, AbstractAgent):
        made_by = made_by.run
    # A partial has no name, nor has an object that is called.
    made_by = getattr(made_by, "func", made_by)
    name = getattr(made_by, "__qualname__", type(made_by).__qualname__)
    if hasattr(events, "close") and hasattr(events, "send"):
        events.close()
        raise TypeError(f"{name} is a coroutine function; it has to yield its events")
    raise TypeError(f"{name} returned {type(events).__name__}, expected an async iterator")


def _closer(events: Any) -> Callable[[], Any]:
    async def close() -> None:
        if (aclose := getattr(events, "aclose", None)) is not None:
            await aclose()

    return close


def _to_dict(event: Any) -> Any:
    """The wire dict of an event model."""
    return decode_event(to_json(event), as_dict=True) if isinstance(event, BaseEvent) else event


def _upgraded(messages: Iterable[Any]) -> list[Any]:
    """Messages of a conversation, with retired shapes as those of today: nothing is lost."""
    given = list(messages)
    if not any(isinstance(one, dict) for one in given):
        return given
    upgraded = upgrade_input({"messages": given}, on_deviation=lambda _: None)
    return cast("list[Any]", upgraded["messages"])
