"""Subscribers: callbacks of a run, in the order and with the arguments of ``@ag-ui/client``."""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from ag_ui.core import Event, EventType
from pydantic_core import from_json

from agui_codec._native import to_json
from agui_codec.client._fields import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from ag_ui.core import ActivityMessage, Interrupt, Message, RunAgentInput, ToolCall

    from agui_codec._native import Change
    from agui_codec.client.agent import AbstractAgent
    from agui_codec.client.run import Run

    Method = Callable[["Call"], Any]

__all__ = ["UNSET", "AgentSubscriber", "Call", "Mutation", "Returned", "Subscription"]

logger = logging.getLogger("agui_codec.client")


class _Unset(enum.Enum):
    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


#: What a :class:`Mutation` leaves as it is. (None is a state like any other.)
UNSET: Final = _Unset.UNSET


@dataclass(frozen=True)
class Mutation:
    """What a callback may return, to change what the run adds up to.

    Args:
        messages: The whole conversation from now on.
        state: The state from now on, any JSON value.
        stop_propagation: Keep the event from the subscribers behind this one, and from what comes
            next: the callback of its type if :meth:`AgentSubscriber.on_event` returns it, else the
            messages and the state, which it then does not change.

    Example:
        class Redact(AgentSubscriber):
            def on_state_snapshot_event(self, call: Call) -> Mutation:
                return Mutation(state={**call.event.snapshot, "token": None}, stop_propagation=True)
    """

    messages: Iterable[Message | dict[str, Any]] | Literal[_Unset.UNSET] = UNSET
    state: Any = UNSET
    stop_propagation: bool = False


if TYPE_CHECKING:
    #: What a callback returns: a :class:`Mutation` or None, at once or awaited.
    Returned = Mutation | Awaitable[Mutation | None] | None
else:
    Returned = object


class Call:
    """What a callback is told: one object an event, the same for all subscribers.

    Everything but ``agent``, ``run`` and ``event`` is worked out when it is read, so read what you
    need inside the callback: afterwards the run has gone on.

    Attributes:
        agent: The agent.
        run: The run; None for a change outside of one (:meth:`AbstractAgent.add_message`).
        event: The event; None in callbacks that are not about one.
        message: The new message, in ``on_new_message``.
        tool_call: The new tool call, in ``on_new_tool_call``.
        error: Why the run failed, in ``on_run_failed``.
    """

    agent: AbstractAgent
    run: Run | None = None
    # Any: its type follows from the callback, as in `on_custom_event`.
    event: Any = None
    message: Message | None = None
    tool_call: ToolCall | None = None
    error: Exception | None = None
    _messages: list[Any] | None = None
    _existing: Any = UNSET

    def __init__(self, agent: AbstractAgent, run: Run | None = None, event: Any = None) -> None:
        self.agent = agent
        self.run = run
        self.event = event

    def __repr__(self) -> str:
        about = self.event if self.event is not None else self.message or self.error
        return f"Call({about!r})"

    @property
    def input(self) -> RunAgentInput | None:
        """The input of the run."""
        return None if self.run is None else self.run.input

    @property
    def messages(self) -> list[Message]:
        """The conversation, before the event; in notifications of a change, after it."""
        self._messages = self.agent.messages
        return self._messages

    @property
    def state(self) -> Any:
        """The state, before the event; in notifications of a change, after it."""
        return self.agent.state

    @property
    def text_message_buffer(self) -> str:
        """The text of the message so far, without this event's delta."""
        return self.agent._reducer.text(read(self.event, "message_id", "messageId")) or ""

    @property
    def reasoning_message_buffer(self) -> str:
        """The text of the reasoning message so far, without this event's delta."""
        return self.text_message_buffer

    @property
    def tool_call_name(self) -> str:
        """The name of the tool that is called."""
        return self._tool_call()[0]

    @property
    def tool_call_buffer(self) -> str:
        """The arguments of the tool call so far, as text, without this event's delta."""
        return self._tool_call()[1]

    @property
    def partial_tool_call_args(self) -> Any:
        """What can be read of the arguments so far: a JSON value; ``{}`` if nothing."""
        try:
            return from_json(self.tool_call_buffer, allow_partial="trailing-strings")
        except ValueError:
            return {}

    @property
    def tool_call_args(self) -> Any:
        """The arguments of the tool call, parsed; ``{}`` if they are not JSON."""
        try:
            return from_json(self.tool_call_buffer, allow_inf_nan=False)
        except ValueError:
            return {}

    @property
    def existing_message(self) -> Message | None:
        """The message that has the id of the activity event already, whatever its role."""
        if self._existing is UNSET:
            message_id = read(self.event, "message_id", "messageId")
            self._existing = self.agent._reducer.message(message_id)
        return cast("Message | None", self._existing)

    @property
    def activity_message(self) -> ActivityMessage | None:
        """The activity that the event is about, if it exists already."""
        found = self.existing_message
        return cast("ActivityMessage", found) if read(found, "role") == "activity" else None

    @property
    def outcome(self) -> str | None:
        """``success``, ``interrupt`` or ``cancelled`` in ``on_run_finished_event``, else None."""
        if _type_of(self.event) != "RUN_FINISHED":
            return None
        return read(self._outcome(), "type") or "success"

    @property
    def result(self) -> Any:
        """The result of a run that finished with success."""
        return read(self.event, "result") if self.outcome == "success" else None

    @property
    def interrupts(self) -> list[Interrupt]:
        """The interrupts that the run finished with."""
        return list(read(self._outcome(), "interrupts") or ())

    @property
    def pending_tool_call_ids(self) -> list[str]:
        """The tool calls that a finished run leaves to answer."""
        named = read(self._outcome(), "pending_tool_call_ids", "pendingToolCallIds")
        return list(named) if named else self.agent._reducer.pending_tool_calls

    def _outcome(self) -> Any:
        return read(self.event, "outcome")

    def _tool_call(self) -> tuple[str, str]:
        call = self.agent._reducer.tool_call(read(self.event, "tool_call_id", "toolCallId"))
        return call or ("", "")


class AgentSubscriber:
    """Callbacks of runs; override the ones you need, with ``def`` or ``async def``.

    An event is processed before the next one is read: :meth:`on_event`, the callback of its type,
    then messages and state change, then :meth:`on_new_message` or :meth:`on_new_tool_call`, then
    :meth:`on_messages_changed` and :meth:`on_state_changed`. Each goes through all subscribers, in
    the order in which they subscribed, and is awaited. Callbacks may return a :class:`Mutation`.

    What a callback raises is logged under ``agui_codec.client``, and the run goes on; agents made
    with ``on_subscriber_error="raise"`` fail the run instead.

    Example:
        class Printer(AgentSubscriber):
            def on_text_message_content_event(self, call: Call) -> None:
                print(call.event.delta, end="")

        agent.subscribe(Printer())
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith("on_") and name not in CALLBACKS:
                raise TypeError(f"{cls.__qualname__}.{name}: AgentSubscriber has no such callback")

    # -- of a run ---------------------------------------------------------------------------

    def on_run_initialized(self, call: Call) -> Returned:
        """Called before the request: what it changes goes into ``call.input``, too."""

    def on_run_failed(self, call: Call) -> Returned:
        """Called with ``call.error`` when a run breaks, which is raised after that.

        ``stop_propagation`` keeps it from being raised. A RUN_ERROR of the producer is an event,
        for :meth:`on_run_error_event`.
        """

    def on_run_finalized(self, call: Call) -> Returned:
        """Called last, once a run, however it ended."""

    # -- of events --------------------------------------------------------------------------

    def on_event(self, call: Call) -> Returned:
        """Called for every event, before the callback of its type."""

    def on_run_started_event(self, call: Call) -> Returned:
        """RUN_STARTED."""

    def on_run_finished_event(self, call: Call) -> Returned:
        """RUN_FINISHED; see ``call.outcome``, ``result``, ``interrupts`` and so on."""

    def on_run_error_event(self, call: Call) -> Returned:
        """RUN_ERROR."""

    def on_step_started_event(self, call: Call) -> Returned:
        """STEP_STARTED."""

    def on_step_finished_event(self, call: Call) -> Returned:
        """STEP_FINISHED."""

    def on_text_message_start_event(self, call: Call) -> Returned:
        """TEXT_MESSAGE_START."""

    def on_text_message_content_event(self, call: Call) -> Returned:
        """TEXT_MESSAGE_CONTENT; ``call.text_message_buffer`` is the text before the delta."""

    def on_text_message_end_event(self, call: Call) -> Returned:
        """TEXT_MESSAGE_END; ``call.text_message_buffer`` is the whole text."""

    def on_tool_call_start_event(self, call: Call) -> Returned:
        """TOOL_CALL_START."""

    def on_tool_call_args_event(self, call: Call) -> Returned:
        """TOOL_CALL_ARGS; see ``call.tool_call_buffer`` and ``partial_tool_call_args``."""

    def on_tool_call_end_event(self, call: Call) -> Returned:
        """TOOL_CALL_END; see ``call.tool_call_name`` and ``tool_call_args``."""

    def on_tool_call_result_event(self, call: Call) -> Returned:
        """TOOL_CALL_RESULT."""

    def on_state_snapshot_event(self, call: Call) -> Returned:
        """STATE_SNAPSHOT."""

    def on_state_delta_event(self, call: Call) -> Returned:
        """STATE_DELTA."""

    def on_messages_snapshot_event(self, call: Call) -> Returned:
        """MESSAGES_SNAPSHOT."""

    def on_activity_snapshot_event(self, call: Call) -> Returned:
        """ACTIVITY_SNAPSHOT; see ``call.activity_message`` and ``existing_message``."""

    def on_activity_delta_event(self, call: Call) -> Returned:
        """ACTIVITY_DELTA of an activity that exists: ``call.activity_message``."""

    def on_raw_event(self, call: Call) -> Returned:
        """RAW."""

    def on_custom_event(self, call: Call) -> Returned:
        """CUSTOM."""

    def on_reasoning_start_event(self, call: Call) -> Returned:
        """REASONING_START."""

    def on_reasoning_message_start_event(self, call: Call) -> Returned:
        """REASONING_MESSAGE_START."""

    def on_reasoning_message_content_event(self, call: Call) -> Returned:
        """REASONING_MESSAGE_CONTENT; see ``call.reasoning_message_buffer``."""

    def on_reasoning_message_end_event(self, call: Call) -> Returned:
        """REASONING_MESSAGE_END; see ``call.reasoning_message_buffer``."""

    def on_reasoning_end_event(self, call: Call) -> Returned:
        """REASONING_END."""

    def on_reasoning_encrypted_value_event(self, call: Call) -> Returned:
        """REASONING_ENCRYPTED_VALUE."""

    def on_subagent_started_event(self, call: Call) -> Returned:
        """SUBAGENT_STARTED."""

    def on_subagent_finished_event(self, call: Call) -> Returned:
        """SUBAGENT_FINISHED."""

    def on_subagent_error_event(self, call: Call) -> Returned:
        """SUBAGENT_ERROR."""

    # -- of changes -------------------------------------------------------------------------

    def on_new_message(self, call: Call) -> Returned:
        """Called when a message is complete: ``call.message``."""

    def on_new_tool_call(self, call: Call) -> Returned:
        """Called when a tool call is complete: ``call.tool_call``."""

    def on_messages_changed(self, call: Call) -> Returned:
        """Called after the conversation has changed: ``call.messages``."""

    def on_state_changed(self, call: Call) -> Returned:
        """Called after the state has changed: ``call.state``."""


CALLBACKS: Final = frozenset(name for name in vars(AgentSubscriber) if name.startswith("on_"))

#: The event types by the classes of their models.
TYPES: Final[dict[type, str]] = {
    cls: cls.model_fields["type"].default.value for cls in get_args(get_args(Event)[0])
}

# Each of these is about a message or tool call that has to exist, or it is skipped.
_TEXTS = frozenset(
    f"{family}_MESSAGE_{part}" for family in ("TEXT", "REASONING") for part in ("CONTENT", "END")
)
_CALLS = frozenset(("TOOL_CALL_ARGS", "TOOL_CALL_END"))
# After one of these, other messages may exist.
_REPLACING = frozenset(("MESSAGES_SNAPSHOT", "ACTIVITY_SNAPSHOT", "RUN_STARTED"))
# What can change the messages or the state, without a mutation.
_CHANGES_STATE = frozenset(("STATE_SNAPSHOT", "STATE_DELTA"))
_CHANGES_MESSAGES = frozenset(
    (
        *(f"TEXT_MESSAGE_{part}" for part in ("START", "CONTENT", "END")),
        *(f"REASONING_MESSAGE_{part}" for part in ("START", "CONTENT", "END")),
        *(f"TOOL_CALL_{part}" for part in ("START", "ARGS", "END", "RESULT")),
        *("ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", *_REPLACING),
    )
)
_NEW_MESSAGE = frozenset(
    ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")
)
#: What a run itself has to look at.
LIFECYCLE: Final = frozenset(("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"))


class Plan:
    """What is to be done about the events of one type.

    Attributes:
        event_type: The type.
        typed: The callbacks of the type.
        notifies: Whether anybody is told of the changes that such an event makes.
        quick: Whether the callbacks of the type, and those notifications, are all there is.
        targets: The ids of messages or tool calls that exist; None if an event needs none.
        target_of: The id that an event is about, if it needs one.
        deliver: Calls everybody back about an event, and applies it; what it returns is left to
            wait for.
    """

    __slots__ = ("deliver", "event_type", "notifies", "quick", "target_of", "targets", "typed")

    def __init__(self, event_type: str, typed: tuple[Method, ...]) -> None:
        self.event_type = event_type
        self.typed = typed
        self.notifies = False
        self.quick = False
        self.targets: set[str] | None = None
        self.target_of: Callable[[Any], str] = _no_target
        self.deliver: Callable[[Call], Awaitable[None] | None]


class Listeners(dict[Any, "Plan | None"]):
    """The callbacks of some subscribers, found by what an event's plan is looked up under.

    A mapping from event types, and from the classes of event models, to the plan for such events:
    None if nobody listens and the run itself has no interest in them.
    """

    def __init__(self, subscribers: Iterable[AgentSubscriber], agent: AbstractAgent) -> None:
        super().__init__()
        self._agent = agent
        self._subscribers = tuple(subscribers)
        self._events = self._methods("on_event")
        self._new_message = self._methods("on_new_message")
        self._new_tool_call = self._methods("on_new_tool_call")
        self._messages_changed = self._methods("on_messages_changed")
        self._state_changed = self._methods("on_state_changed")
        # What is known to be there for deltas to go to.
        self._known_messages: set[str] = set()
        self._known_calls: set[str] = set()

    def __missing__(self, key: Any) -> Plan | None:
        """Make the plan for an event type, or for the class of a model."""
        event_type = key if isinstance(key, str) else TYPES.get(key)
        if event_type is None:
            # A class of the user's: derived from one of the SDK's, or not an event we know.
            event_type = next((TYPES[cls] for cls in key.__mro__ if cls in TYPES), "")
        typed = self._methods(f"on_{event_type.lower()}_event")
        announces = (event_type in _NEW_MESSAGE and self._new_message) or (
            event_type == "TOOL_CALL_END" and self._new_tool_call
        )
        notifies = (event_type in _CHANGES_MESSAGES and self._messages_changed) or (
            event_type in _CHANGES_STATE and self._state_changed
        )
        plan = None
        if event_type in LIFECYCLE or self._events or typed or announces or notifies:
            plan = Plan(event_type, typed)
            plan.notifies = bool(notifies)
            plan.quick = not (
                self._events
                or announces
                or event_type in LIFECYCLE
                or event_type in _REPLACING
                or event_type == "ACTIVITY_DELTA"
            )
            if event_type in _TEXTS:
                plan.targets = self._known_messages
                plan.target_of = _getter(key, "message_id", "messageId")
            elif event_type in _CALLS:
                plan.targets = self._known_calls
                plan.target_of = _getter(key, "tool_call_id", "toolCallId")
            if plan.quick and len(typed) == 1 and not plan.notifies:
                plan.deliver = self._for_one(plan, typed[0])
            else:
                plan.deliver = partial(self._all, plan)
        self[key] = plan
        return plan

    def _methods(self, name: str) -> tuple[Method, ...]:
        """The callbacks of a name, without those that are not overridden."""
        default = getattr(AgentSubscriber, name, None)
        found = (getattr(subscriber, name, None) for subscriber in self._subscribers)
        return tuple(
            method
            for method in found
            if method is not None and getattr(method, "__func__", method) is not default
        )

    # -- events -----------------------------------------------------------------------------

    def _for_one(self, plan: Plan, method: Method) -> Callable[[Call], Awaitable[None] | None]:
        """The commonest case: one callback, of the type. This runs for each token."""
        apply, targets, target_of = self._agent._reducer.apply, plan.targets, plan.target_of

        def deliver(call: Call) -> Awaitable[None] | None:
            event = call.event
            if targets is not None and target_of(event) not in targets:
                return self._deliver(call, plan)
            try:
                returned = method(call)
            except Exception:
                self._refused(method)
            else:
                if returned is not None:
                    return finish(call, returned)
            apply(event)
            return None

        async def finish(call: Call, returned: Any) -> None:
            if type(returned) is CoroutineType:
                try:
                    returned = await returned
                except Exception:
                    self._refused(method)
                    returned = None
            if returned is None:
                apply(call.event)
            else:
                await self._rest(call, plan, method, returned, iter(()))

        return deliver

    def _all(self, plan: Plan, call: Call) -> Awaitable[None] | None:
        event = call.event
        if not plan.quick or (
            plan.targets is not None and plan.target_of(event) not in plan.targets
        ):
            return self._deliver(call, plan)
        methods = iter(plan.typed)
        for method in methods:
            try:
                returned = method(call)
            except Exception:
                self._refused(method)
                continue
            if returned is not None:
                return self._rest(call, plan, method, returned, methods)
        change = self._agent._reducer.apply(event)
        return self._changed(call, change) if plan.notifies and change else None

    async def _rest(
        self, call: Call, plan: Plan, method: Method, returned: Any, methods: Iterator[Method]
    ) -> None:
        """The rest of a quick delivery, after a callback that has returned something."""
        changes = _Changes()
        while True:
            if type(returned) is CoroutineType:
                try:
                    returned = await returned
                except Exception:
                    self._refused(method)
                    returned = None
            if returned is not None and await self._take(method, returned, call, changes):
                break
            returned = None
            for method in methods:
                try:
                    returned = method(call)
                except Exception:
                    self._refused(method)
                if returned is not None:
                    break
            else:
                changes.add(self._agent._reducer.apply(call.event))
                break
        if changes.messages or changes.state:
            await self._tell(call, changes)

    async def _changed(self, call: Call, change: Change) -> None:
        changes = _Changes()
        changes.add(change)
        await self._tell(call, changes)

    async def _tell(self, call: Call, changes: _Changes) -> None:
        if changes.messages:
            await self._notify(self._messages_changed, call)
        if changes.state:
            await self._notify(self._state_changed, call)

    async def _deliver(self, call: Call, plan: Plan) -> None:
        changes = _Changes()
        if not (self._events and await self._invoke(self._events, call, changes)):
            await self._process(call, plan, changes)
        await self._tell(call, changes)

    async def _process(self, call: Call, plan: Plan, changes: _Changes) -> None:
        event, event_type, typed = call.event, plan.event_type, plan.typed
        ends = plan.targets is not None and event_type.endswith("_END")
        found = True
        if plan.targets is not None and (typed or ends):
            found = self._has_target(plan, plan.target_of(event))
        elif event_type == "ACTIVITY_DELTA" and typed:
            found = call.activity_message is not None
        elif event_type == "ACTIVITY_SNAPSHOT" and self._new_message:
            # Read now: it tells afterwards whether there is a new message.
            _ = call.existing_message
        stopped = bool(typed) and found and await self._invoke(typed, call, changes)
        if not stopped:
            changes.add(self._agent._reducer.apply(event))
            if event_type in _REPLACING:
                self._forget()
                # Told even if no message is another one, as by the TypeScript client.
                changes.messages |= event_type != "RUN_STARTED" or _echoes_messages(event)
        elif event_type == "RUN_STARTED":
            # The run has started all the same: what was pending in the one before is not of this.
            self._agent._reducer.apply(_without_messages(event))
        if not found:
            return
        if ends and event_type == "TOOL_CALL_END":
            if self._new_tool_call:
                call.tool_call = self._agent._tool_call(plan.target_of(event))
                # A callback may have removed it.
                if call.tool_call is not None:
                    await self._notify(self._new_tool_call, call)
        elif self._new_message and (ends or (not stopped and _brings_message(call, event_type))):
            message_id = read(event, "message_id", "messageId")
            call.message = self._agent._reducer.message(message_id)
            if call.message is not None:
                await self._notify(self._new_message, call)

    def _has_target(self, plan: Plan, target: str) -> bool:
        """Whether the message or tool call exists that an event is about."""
        assert plan.targets is not None
        if target in plan.targets:
            return True
        reducer = self._agent._reducer
        if plan.event_type in _CALLS:
            found = reducer.tool_call(target) is not None
        else:
            message = reducer.message(target)
            found = message is not None and read(message, "role") != "activity"
        if found:
            plan.targets.add(target)
        return found

    def _forget(self) -> None:
        """Other messages may exist from now on."""
        self._known_messages.clear()
        self._known_calls.clear()

    # -- calling back -----------------------------------------------------------------------

    async def mutate(self, callbacks: str | Iterator[Method], call: Call) -> tuple[bool, bool]:
        """Call a callback that is not about an event, and tell of what it changed.

        Args:
            callbacks: Its name, or what is left of :meth:`callbacks`.
            call: What they are called with.

        Returns:
            Whether anything was changed, and whether a callback stopped the propagation.
        """
        methods = self._methods(callbacks) if isinstance(callbacks, str) else callbacks
        if not methods:
            return False, False
        changes = _Changes()
        stopped = await self._invoke(methods, call, changes)
        await self._tell(call, changes)
        return changes.messages or changes.state, stopped

    def callbacks(self, name: str) -> Iterator[Method]:
        """The callbacks of a name, for :meth:`mutate`, which may be cut off between them."""
        return iter(self._methods(name))

    async def _invoke(self, methods: Iterable[Method], call: Call, changes: _Changes) -> bool:
        """Call callbacks that may mutate, and tell whether one stops the propagation."""
        for method in methods:
            try:
                returned = method(call)
            except Exception:
                self._refused(method)
                continue
            if returned is not None and await self._take(method, returned, call, changes):
                return True
        return False

    async def _take(self, method: Method, returned: Any, call: Call, changes: _Changes) -> bool:
        """Do what a callback has returned, and tell whether it stops the propagation."""
        try:
            if not isinstance(returned, Mutation):
                returned = await _awaited(method, returned)
            if returned is None:
                return False
            self._mutate(returned, call, changes)
        except Exception:
            self._refused(method)
            return False
        stops: bool = returned.stop_propagation
        return stops

    def _mutate(self, mutation: Mutation, call: Call, changes: _Changes) -> None:
        messages = mutation.messages
        if messages is call._messages:
            messages = UNSET
        if messages is UNSET and mutation.state is UNSET:
            return
        self._agent._replace(messages, mutation.state)
        if messages is not UNSET:
            changes.messages = True
            self._forget()
        if mutation.state is not UNSET:
            changes.state = True

    async def _notify(self, methods: tuple[Method, ...], call: Call) -> None:
        """Call callbacks whose result means nothing."""
        for method in methods:
            try:
                returned = method(call)
                if returned is not None and not isinstance(returned, Mutation):
                    await _awaited(method, returned)
            except Exception:
                self._refused(method)

    def _refused(self, method: Method) -> None:
        """Log the exception at hand, or raise it on."""
        if self._agent._on_subscriber_error == "raise":
            raise
        logger.exception("%s failed; the run goes on", getattr(method, "__qualname__", method))

    # -- outside of a run -------------------------------------------------------------------

    async def added(self, messages: list[Any]) -> None:
        """Tell of messages that the application has added."""
        for message in messages:
            call = Call(self._agent)
            call.message = message
            await self._notify(self._new_message, call)
            for tool_call in read(message, "tool_calls", "toolCalls") or ():
                call = Call(self._agent)
                call.tool_call = tool_call
                await self._notify(self._new_tool_call, call)
        await self.changed(messages=True)

    async def changed(self, *, messages: bool = False, state: bool = False) -> None:
        """Tell of a change that the application has made."""
        if messages:
            await self._notify(self._messages_changed, Call(self._agent))
        if state:
            await self._notify(self._state_changed, Call(self._agent))


class _Changes:
    """What of a conversation has changed."""

    __slots__ = ("messages", "state")

    def __init__(self) -> None:
        self.messages = False
        self.state = False

    def add(self, change: Change) -> None:
        """Add what the application of an event has changed."""
        if change.message_ids:
            self.messages = True
        if change.state:
            self.state = True


class Subscription:
    """What :meth:`AbstractAgent.subscribe` returns: call it to unsubscribe, or use it in ``with``.

    Example:
        with agent.subscribe(Printer()):
            await agent.run_agent("Hello")
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __call__(self) -> None:
        """Unsubscribe; the second time does nothing."""
        self._end()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


async def _awaited(method: Method, returned: Any) -> Mutation | None:
    """What an asynchronous callback returns."""
    if hasattr(returned, "__await__"):
        returned = await returned
    if returned is None or isinstance(returned, Mutation):
        return returned
    name = getattr(method, "__qualname__", repr(method))
    raise TypeError(f"{name} returned {type(returned).__name__}, expected Mutation or None")


def _type_of(event: Any) -> str | None:
    found = read(event, "type")
    return found.value if isinstance(found, EventType) else found


def _no_target(event: Any) -> str:
    raise TypeError(f"{event!r} is about no message or tool call")


def _getter(key: Any, name: str, on_wire: str) -> Callable[[Any], str]:
    """What reads a field of events that are found by a type name or by a class."""
    return itemgetter(on_wire) if isinstance(key, str) else attrgetter(name)


def _echoes_messages(event: Any) -> bool:
    return read(read(event, "input"), "messages") is not None


def _without_messages(event: Any) -> dict[str, Any]:
    """A RUN_STARTED as a wire dict, without the messages that it echoes."""
    wire: dict[str, Any] = dict(event) if isinstance(event, dict) else from_json(to_json(event))
    if isinstance(given := wire.get("input"), dict):
        wire["input"] = {**given, "messages": []}
    return wire


def _brings_message(call: Call, event_type: str) -> bool:
    """Whether an event that was applied has made a message."""
    if event_type != "ACTIVITY_SNAPSHOT":
        return event_type == "TOOL_CALL_RESULT"
    existing = call.existing_message
    replaces = read(call.event, "replace")
    return existing is None or (read(existing, "role") != "activity" and replaces is not False)
