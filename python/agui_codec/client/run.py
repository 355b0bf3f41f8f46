"""One run of an agent, from its input to its end: what :meth:`AbstractAgent.run_agent` returns."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

from ag_ui.core import Event, RunErrorEvent, TokenUsage, UserMessage

from agui_codec._native import AGUIError, SequenceError, TruncatedStreamError
from agui_codec.client import _loop
from agui_codec.client._fields import read
from agui_codec.client.errors import (
    InterruptError,
    PendingToolCallsError,
    RunFailedError,
    RunInProgressError,
    ToolRoundsError,
    TruncatedRunError,
)
from agui_codec.client.interrupt import build_resume, resume_entries
from agui_codec.client.subscriber import LIFECYCLE, Call, Listeners
from agui_codec.client.tool import ToolSet, execute

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Generator, Iterable, Iterator
    from types import AsyncGeneratorType, TracebackType

    from ag_ui.core import ContentPart, Interrupt, Message, RunAgentInput, ToolCall
    from typing_extensions import Self

    from agui_codec._native import Pipeline
    from agui_codec.client.agent import AbstractAgent
    from agui_codec.client.subscriber import AgentSubscriber, Plan

__all__ = ["OnInterrupt", "Run", "RunResult", "Source", "Status", "Turn"]

logger = logging.getLogger("agui_codec.client")

Status = Literal[
    "success", "interrupt", "cancelled", "error", "aborted", "detached", "truncated", "running"
]

#: Answers interrupts: by id, as ``resume`` takes them; None leaves them to the caller of the run.
OnInterrupt = Callable[["list[Interrupt]"], "Awaitable[Mapping[str, Any] | None]"]

# How long finalisation may take in a task that is being cancelled.
_LAST_SECONDS = 1.0

_new_call = object.__new__


@dataclass(frozen=True)
class RunResult:
    """What a run came to, or has come to so far.

    Args:
        status: ``success``, ``interrupt`` and ``cancelled`` are the outcomes of RUN_FINISHED;
            ``error`` is RUN_ERROR, or a stream that was refused; ``truncated`` a stream that broke
            off; ``aborted`` and ``detached`` are what the caller did; ``running`` is the rest.
        result: The result of the last RUN_FINISHED with success, any JSON value.
        new_messages: The messages that were not there when the run started, nor its prompt.
        text: The text of the new assistant messages, joined.
        interrupts: What the agent waits for, if the status is ``interrupt``.
        pending_tool_calls: The calls that wait for an answer.
        usage: The tokens used, by provider and model, of all rounds.
        run_ids: The ids of the runs: one a round.
        error: The RUN_ERROR, if the status is ``error`` because of one.
    """

    status: Status
    result: Any
    new_messages: list[Message]
    text: str
    interrupts: list[Interrupt]
    pending_tool_calls: list[ToolCall]
    usage: list[TokenUsage]
    run_ids: list[str]
    error: RunErrorEvent | None
    _thread_id: str = ""

    def raise_for_status(self) -> Self:
        """Return the result, unless the producer said that the run failed.

        Raises:
            RunFailedError: The last event was RUN_ERROR.
        """
        if self.error is not None:
            run_id = self.run_ids[-1] if self.run_ids else ""
            raise RunFailedError(self.error, self, run_id=run_id, thread_id=self._thread_id)
        return self


@dataclass(frozen=True)
class Turn:
    """What a run was asked for; see :meth:`AbstractAgent.run_agent`."""

    prompt: str | Sequence[ContentPart] | None = None
    parent_run_id: str | None = None
    tools: Sequence[Any] = ()
    context: Sequence[Any] = ()
    forwarded_props: Any = None
    resume: Iterable[Any] | Mapping[str, Any] | None = None
    on_interrupt: OnInterrupt | None = None
    max_rounds: int = 8
    subscriber: AgentSubscriber | None = None
    connects: bool = False


async def _nothing() -> None:
    """Close nothing."""


@dataclass
class Source:
    """Where a run's stream comes from.

    Args:
        items: Events, or the chunks of bytes of a response.
        content_type: Of the response, if the items are bytes.
        transport_errors: What ``items`` raises if the transport breaks off.
        close: Gives back what is open.
    """

    items: AsyncIterator[Any]
    content_type: str | None = None
    transport_errors: tuple[type[Exception], ...] = ()
    close: Callable[[], Awaitable[None]] = _nothing


class _Ended(Exception):
    """The caller has ended the run."""


class Run(AsyncIterator[Event]):
    """A run: await it for its result, or iterate over its events.

    Nothing has happened until then, and nothing goes on in between: a run advances when it is
    awaited or iterated over, in the task that does so. Iterate inside ``async with``, so that the
    request ends with the block, however that is left.

    An event is given after it has been applied and all callbacks have returned, so
    ``agent.messages`` includes it. Where the stream ends without the run having ended, or breaks a
    rule, iteration raises after the events before; where the producer says RUN_ERROR, that is an
    event, and only awaiting and :meth:`result` raise.

    Attributes:
        agent: The agent.
        input: What the run was started with; None before. With several rounds, the last.
        run_id: The id of the run, of the last round.
        thread_id: The thread.
        rounds: How many runs were started: one, and one for each round of tools and interrupts.

    Example:
        async with agent.run_agent("Hello") as run:
            async for event in run:
                print(event.type)

        result = await agent.run_agent("Hello")
        print(result.text)
    """

    def __init__(self, agent: AbstractAgent, turn: Turn, run_id: str | None = None) -> None:
        self.agent = agent
        self.input: RunAgentInput | None = None
        self.run_id = str(uuid4()) if run_id is None else run_id
        self.thread_id = agent.thread_id
        self.rounds = 0
        self._turn = turn
        self._tools = ToolSet(turn.tools)
        self._resume = resume_entries(turn.resume)
        self._stream = cast("AsyncGeneratorType[Event, None]", self._iterate())
        self._interruption = _loop.Interruption()
        # What the caller has done to the run, until it ends.
        self._ending: Literal["aborted", "detached"] | None = None
        self._started = False
        # Whether a task is starting or ending it, outside of the generator.
        self._outside = False
        self._over = False
        self._waiters: list[Any] = []
        self._status: Status = "running"
        self._failure: Exception | None = None
        self._result: Any = None
        self._error: RunErrorEvent | None = None
        self._usage: list[Any] = []
        self._run_ids: list[str] = []
        self._known: frozenset[str] = frozenset()
        # Of the round at hand.
        self._listeners: Listeners
        self._source: Source | None = None
        self._pipeline: Pipeline
        self._open = False
        self._finalizers: Iterator[Any] | None = None
        self._events = 0

    def __repr__(self) -> str:
        return f"Run({self.run_id!r}, {self.snapshot.status})"

    # -- reading ----------------------------------------------------------------------------

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself, so that nothing stands between it and `async for`.
        return self._stream

    def __anext__(self) -> Awaitable[Event]:
        return self._stream.__anext__()

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self.result().__await__()

    async def __aenter__(self) -> Self:
        if not self._started:
            self._outside, self._interruption.task = True, _loop.current_task()
            try:
                await self._begin()
            except BaseException as error:
                await self._conclude(error)
            finally:
                self._outside = False
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it has not ended: close the stream, call ``on_run_finalized``.

        If another task reads it, this waits for that to end.
        """
        if self._busy:
            self._end("aborted")
            await self._wait_for_end()
            return
        try:
            if self._started and not self._over:
                # Outside of the generator: another task may ask that for the next event.
                self._outside, self._interruption.task = True, _loop.current_task()
                await self._conclude(GeneratorExit())
        finally:
            self._outside = False
            if not self._stream.ag_running:
                await self._stream.aclose()

    @property
    def _busy(self) -> bool:
        """Whether a task is in it just now."""
        return self._outside or self._stream.ag_running

    async def until_done(self) -> None:
        """Read the run to its end.

        Raises:
            TruncatedRunError: The stream ended before the run did.
            AGUIError: The stream breaks a rule of the protocol.
        """
        async for _ in self._stream:
            pass

    async def result(self) -> RunResult:
        """Read the run to its end, and give its result.

        Raises:
            RunFailedError: The producer said RUN_ERROR.
            TruncatedRunError: The stream ended before the run did.
            AGUIError: The stream breaks a rule of the protocol.
        """
        await self.until_done()
        if self._failure is not None:
            raise self._failure
        return self.snapshot.raise_for_status()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text of assistant messages as it comes, of all rounds.

        It reads the same stream as iterating over the run does: use one of the two.

        Example:
            async with agent.run_agent("Hello") as run:
                async for text in run.text_stream:
                    print(text, end="", flush=True)
        """
        return _TextStream(self._stream)

    @property
    def snapshot(self) -> RunResult:
        """The result so far. It never raises."""
        return self._result_with(self._status if self._over else "running")

    def _result_with(self, status: Status) -> RunResult:
        agent = self.agent
        new = [message for message in agent.messages if read(message, "id") not in self._known]
        return RunResult(
            status=status,
            result=self._result,
            new_messages=new if self.rounds else [],
            text="".join(_assistant_text(message) for message in new) if self.rounds else "",
            interrupts=agent.pending_interrupts if status == "interrupt" else [],
            pending_tool_calls=agent.pending_tool_calls if self.rounds else [],
            usage=list(self._usage),
            run_ids=list(self._run_ids),
            error=self._error,
            _thread_id=self.thread_id,
        )

    # -- ending -----------------------------------------------------------------------------

    def abort(self) -> None:
        """End the run: close the request, read no more.

        Callable from any task of the event loop and, on asyncio, from other threads. A wait for
        the next event ends at once; a callback that is running ends first. Iteration ends without
        an error, the status is ``aborted``, and awaiting gives what there is. If nobody is
        waiting, the request is closed as soon as the run is iterated over or left, or the agent
        is run again. After the run's end, or a second time, it does nothing.
        """
        self._end("aborted")

    async def detach(self) -> None:
        """Stop reading, and wait until that is done: as :meth:`abort`, with status ``detached``.

        The agent may go on without us, where the server keeps runs alive. Called from a callback of
        this run, it does not wait: the run ends after that.
        """
        self._end("detached")
        if self._over or not self._started:
            return
        if not self._busy:
            await self.aclose()
        else:
            await self._wait_for_end()

    async def _wait_for_end(self) -> None:
        """Wait until another task, which the run advances in, has ended it."""
        if self._interruption.task != _loop.current_task():
            event = _loop.anyio().Event()
            self._waiters.append(event)
            await event.wait()

    def _end(self, how: Literal["aborted", "detached"]) -> None:
        if self._over or self._ending is not None:
            return
        self._ending = how
        self._interruption.interrupt()

    # -- a round ----------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start the run."""
        agent = self.agent
        self._started = True
        if self._ending is not None:
            raise _Ended
        while (active := agent.active_run) is not None:
            if active._ending is None or active._busy:
                raise RunInProgressError(
                    f"run {active.run_id!r} of this agent has not ended; clone() the agent to run "
                    "several at a time"
                )
            # It was aborted, and nobody has come back to it.
            await active.aclose()
        agent._active = weakref.ref(self)
        if unanswered := agent._unanswered():
            raise PendingToolCallsError(unanswered)
        if not self._turn.connects:
            self._check_resume()
        self._known = frozenset(read(message, "id") for message in agent.messages)
        if (prompt := self._turn.prompt) is not None:
            message = UserMessage(id=str(uuid4()), content=cast("Any", prompt))
            self._known |= {message.id}
            await agent.add_message(message)
        await self._begin_round()

    def _check_resume(self) -> None:
        """Refuse, before anything happens, a run that does not answer what is pending."""
        reducer = self.agent._reducer
        if self._resume is None and not reducer.pending_interrupts:
            return
        try:
            reducer.fork().next_input(self.run_id, thread_id=self.thread_id, resume=self._resume)
        except AGUIError as error:
            raise InterruptError(str(error)) from error

    async def _begin_round(self) -> None:
        agent, turn = self.agent, self._turn
        self._stop_if_ended()
        self.rounds += 1
        self._run_ids.append(self.run_id)
        self._status, self._error, self._events = "running", None, 0
        subscribers = [*agent._subscribers, *([turn.subscriber] if turn.subscriber else [])]
        self._listeners = Listeners(subscribers, agent)
        self.input = self._make_input()
        self._open, self._finalizers = True, None
        changed, _ = await self._listeners.mutate("on_run_initialized", self._call())
        if changed:
            self.input = self._make_input()
        self._stop_if_ended()
        agent._advertised = self._tools.names
        opening = agent._open(self.input, connects=turn.connects)
        try:
            source, self._pipeline = await self._interruption.wait(opening)
        except agent._transport_errors() as error:
            raise self._truncated("the connection broke off") from error
        if not _loop.on_asyncio():
            source.items = _loop.ScopedIterator(source.items, self._interruption)
        self._source = source
        self._stop_if_ended()

    def _stop_if_ended(self) -> None:
        """Go no further if the caller has ended the run."""
        if self._ending is not None:
            raise _Ended

    def _make_input(self) -> RunAgentInput:
        turn = self._turn
        return self.agent._next_input(
            self.run_id,
            parent_run_id=turn.parent_run_id,
            resume=self._resume,
            tools=self._tools.definitions,
            context=turn.context,
            forwarded_props=turn.forwarded_props,
        )

    def _call(self, event: Any = None) -> Call:
        return Call(self.agent, self, event)

    async def _iterate(self) -> AsyncGenerator[Event, None]:
        """The run, as the generator that everything else reads."""
        interruption = self._interruption
        agent = self.agent
        key_of: Callable[[Any], Any] = itemgetter("type") if agent.as_dict else type
        if self._over:
            return
        if self._outside:
            if self._ending is None:
                raise RuntimeError(f"run {self.run_id!r} is being started by another task")
            await self._wait_for_end()
            return
        try:
            if not self._started:
                await self._begin()
            counts = _loop.counts_cancellations()
            current_task = asyncio.current_task if _loop.on_asyncio() else _loop.current_task
            while True:
                source = cast("Source", self._source)
                pull, pipeline, plans = source.items.__anext__, self._pipeline, self._listeners
                feed = pipeline.feed
                ended = False
                while not ended:
                    if self._ending is not None:
                        raise _Ended
                    task: Any = current_task()
                    interruption.task = task
                    if counts:
                        interruption.cancelling = task.cancelling()
                    interruption.waiting = True
                    try:
                        item = await pull()
                    except StopAsyncIteration:
                        ended = True
                    except source.transport_errors as error:
                        if self._status == "running":
                            raise self._truncated("the connection broke off") from error
                        # The run has ended; so may its connection.
                        break
                    finally:
                        interruption.waiting = False
                    if self._ending is not None:
                        # What has come has come too late.
                        raise _Ended
                    for event in self._last_events() if ended else feed(item):
                        plan = plans[key_of(event)]
                        if plan is None:
                            agent._reducer.apply(event)
                        else:
                            call = _new_call(Call)
                            call.agent, call.run, call.event = agent, self, event
                            rest = plan.deliver(call)
                            if rest is not None:
                                await rest
                            if plan.event_type in LIFECYCLE:
                                self._note(event, plan)
                        self._events += 1
                        yield event
                        if self._ending is not None:
                            raise _Ended
                    if (refused := pipeline.error) is not None:
                        failure = self._at_end(refused) if ended else refused
                        if failure is not None:
                            raise failure
                await self._end_round()
                if not await self._answer():
                    break
                await self._begin_round()
        except BaseException as error:
            await self._conclude(error)
        else:
            await self._conclude(None)

    def _last_events(self) -> list[Any]:
        """What the stages still hold when the stream has ended."""
        if self._turn.connects and self._events == 0:
            # No history, which is not a broken run.
            return []
        try:
            return self._pipeline.close()
        except AGUIError as error:
            if (failure := self._at_end(error)) is not None:
                raise failure from error
            return []

    def _at_end(self, error: BaseException) -> BaseException | None:
        """What an error of the stages means at the end of the stream; None for nothing."""
        if self._status != "running":
            # The run has ended; so may its connection, even inside an event.
            return None if isinstance(error, TruncatedStreamError) else error
        if not isinstance(error, (SequenceError, TruncatedStreamError)):
            return error
        truncated = self._truncated("the stream ended without a terminal event")
        truncated.__cause__ = error
        return truncated

    def _note(self, event: Any, plan: Plan) -> None:
        """Remember how the run began and ended."""
        kind = plan.event_type
        if kind == "RUN_STARTED":
            self._status, self._error = "running", None
            return
        usage = read(event, "usage")
        self._usage += [
            TokenUsage.model_validate(one) if isinstance(one, dict) else one for one in usage or ()
        ]
        if kind == "RUN_ERROR":
            self._status = "error"
            self._error = RunErrorEvent.model_validate(event) if isinstance(event, dict) else event
            return
        outcome = read(event, "outcome")
        self._status = "success" if outcome is None else read(outcome, "type")
        if self._status == "success":
            self._result = read(event, "result")

    async def _end_round(self) -> None:
        """The stream has ended: tell whether the run has, too, and call the last callbacks."""
        if self._status == "running":
            if not (self._turn.connects and self._events == 0):
                raise self._truncated("the stream ended without a terminal event")
            # Nothing to join.
            self._status = "success"
        await self._finalize(None)

    def _truncated(self, what: str) -> TruncatedRunError:
        return TruncatedRunError(
            f"run {self.run_id!r}: {what}, after {self._events} events",
            self._result_with("truncated"),
            events=self._events,
            run_id=self.run_id,
            thread_id=self.thread_id,
        )

    async def _answer(self) -> bool:
        """Answer what the run has left, and tell whether there is another round."""
        turn, agent = self._turn, self.agent
        if turn.connects:
            return False
        if self._status == "interrupt" and turn.on_interrupt is not None:
            self._stop_if_ended()
            interrupts = agent.pending_interrupts
            answers = await self._interruption.wait(turn.on_interrupt(interrupts))
            if answers is None:
                return False
            self._resume = build_resume(interrupts, answers)
            # One may have expired in the meantime.
            self._check_resume()
        elif self._status == "success" and (calls := agent.pending_tool_calls):
            executable = self._tools.executable(calls)
            if not executable:
                return False
            self._stop_if_ended()
            answered = await self._interruption.wait(execute(executable, self))
            await agent.add_messages(answered)
            if len(executable) < len(calls) or not any(one.follow_up for one, _ in executable):
                return False
            self._resume = None
        else:
            return False
        self._stop_if_ended()
        if self.rounds >= turn.max_rounds:
            still = "interrupts its run" if self._status == "interrupt" else "calls tools"
            raise ToolRoundsError(
                f"the agent still {still} after {self.rounds} rounds",
                self._result_with(self._status),
                run_id=self.run_id,
                thread_id=self.thread_id,
            )
        self.run_id = str(uuid4())
        return True

    # -- the end ----------------------------------------------------------------------------

    async def _conclude(self, error: BaseException | None) -> None:
        """End the run; what ended it is raised, unless the caller did."""
        if self._over:
            return
        if self._outside and self._interruption.task != _loop.current_task():
            # Another task does.
            await self._wait_for_end()
            return
        try:
            # Whatever the interruption has led to.
            if self._interruption.take_back() and isinstance(error, asyncio.CancelledError):
                error = _Ended()
            if error is None:
                return
            if isinstance(error, GeneratorExit):
                # Closed, or dropped, before the end of the stream; the run may have ended.
                if self._ending is not None:
                    self._status = self._ending
                elif self._status == "running":
                    self._status = "aborted"
                self._ending = self._ending or "aborted"
                await self._finalize(None)
            elif not isinstance(error, Exception):
                self._status = "aborted"
                await _loop.shielded(self._close_round(None), _LAST_SECONDS)
                raise error
            elif self._ending is not None:
                # Whatever came of it: the caller wants no more of the run.
                self._status = self._ending
                await self._finalize(None)
            else:
                if isinstance(error, TruncatedRunError):
                    self._status = "truncated"
                elif not isinstance(error, ToolRoundsError):
                    self._status = "error"
                if not await self._finalize(error):
                    self._failure = error
                    raise error
        finally:
            self._over = True
            if self.agent.active_run is self:
                self.agent._active = None
            for event in self._waiters:
                event.set()

    async def _finalize(self, failure: Exception | None) -> bool:
        """Close the stream and call the last callbacks of the round, even if that is cancelled.

        Returns:
            Whether a subscriber keeps the failure from being raised.
        """
        try:
            return await self._close_round(failure)
        except BaseException:
            # Cancelled, or a subscriber has raised and may: what is left is done all the same.
            await _loop.shielded(self._close_round(None), _LAST_SECONDS)
            raise

    async def _close_round(self, failure: Exception | None) -> bool:
        """As :meth:`_finalize`; if it is cut off, another call goes on where it was."""
        source, self._source = self._source, None
        if source is not None:
            try:
                await source.close()
            except Exception:
                logger.exception("run %r: its stream failed to close", self.run_id)
        if not self._open:
            return False
        stopped = False
        if failure is not None:
            call = self._call()
            call.error = failure
            _, stopped = await self._listeners.mutate("on_run_failed", call)
        if self._finalizers is None:
            self._finalizers = self._listeners.callbacks("on_run_finalized")
        await self._listeners.mutate(self._finalizers, self._call())
        self._open = False
        return stopped


class _TextStream(AsyncIterator[str]):
    """The text of a run; no generator, since nobody closes one that is left."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events = events
        # The messages of others than the assistant.
        self._others: set[str] = set()

    async def __anext__(self) -> str:
        async for event in self._events:
            kind = read(event, "type")
            if kind == "TEXT_MESSAGE_CONTENT":
                if read(event, "message_id", "messageId") not in self._others:
                    text: str = read(event, "delta")
                    return text
            elif kind == "TEXT_MESSAGE_START" and read(event, "role") not in (None, "assistant"):
                self._others.add(read(event, "message_id", "messageId"))
        raise StopAsyncIteration


def _assistant_text(message: Any) -> str:
    content = read(message, "content")
    return content if read(message, "role") == "assistant" and isinstance(content, str) else ""
