"""What can go wrong with a run, as exceptions: all of them are :class:`agui_codec.AGUIError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_codec._native import AGUIError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ag_ui.core import RunErrorEvent

    from agui_codec.client.run import RunResult

__all__ = [
    "AgentUsageError",
    "ConnectNotImplementedError",
    "HttpStatusError",
    "InterruptError",
    "PendingToolCallsError",
    "RunError",
    "RunFailedError",
    "RunInProgressError",
    "ToolRoundsError",
    "TruncatedRunError",
    "UnexpectedContentTypeError",
]


class RunError(AGUIError):
    """A run that began did not end well.

    Args:
        message: What happened.
        result: What there was until then; see :class:`RunResult`.

    Attributes:
        result: What there was until then: messages, text, the events' outcome.
        run_id: The run.
        thread_id: Its thread.
    """

    def __init__(self, message: str, result: RunResult, *, run_id: str, thread_id: str) -> None:
        super().__init__(message)
        self.result = result
        self.run_id = run_id
        self.thread_id = thread_id


class RunFailedError(RunError):
    """The producer said that the run failed: RUN_ERROR.

    Iterating over a run yields the event and ends; awaiting it, or :meth:`Run.result`, raises this.

    Attributes:
        message: What the producer said.
        code: Its code for it, if it gave one.
        event: The RUN_ERROR event.

    Example:
        try:
            result = await agent.run_agent("Hello")
        except RunFailedError as error:
            print(error.code, error.result.text)
    """

    def __init__(self, event: RunErrorEvent, result: RunResult, *, run_id: str, thread_id: str):
        code = f" ({event.code})" if event.code else ""
        super().__init__(
            f"run {run_id!r} failed{code}: {event.message}",
            result,
            run_id=run_id,
            thread_id=thread_id,
        )
        self.event = event
        self.message: str = event.message
        self.code: str | None = event.code


class TruncatedRunError(RunError):
    """The stream ended before the run did: no RUN_FINISHED or RUN_ERROR came.

    All events that arrived were delivered. If the transport broke off, its error is the
    ``__cause__``.

    Attributes:
        events: How many events of this run were delivered.
    """

    def __init__(
        self, message: str, result: RunResult, *, events: int, run_id: str, thread_id: str
    ) -> None:
        super().__init__(message, result, run_id=run_id, thread_id=thread_id)
        self.events = events


class ToolRoundsError(RunError):
    """The agent still calls tools, or interrupts its run, after ``max_rounds`` runs."""


class AgentUsageError(AGUIError):
    """An agent was asked for something that its state does not allow; nothing was sent."""


class RunInProgressError(AgentUsageError):
    """The agent is running: an agent has one run at a time; :meth:`AbstractAgent.clone` it."""


class InterruptError(AgentUsageError):
    """``resume`` does not answer the pending interrupts, each once and none that has expired."""


class PendingToolCallsError(AgentUsageError):
    """Calls of tools that this agent advertised have no answer yet.

    Attributes:
        tool_call_ids: The calls; :meth:`AbstractAgent.add_tool_result` answers one.
    """

    def __init__(self, tool_call_ids: list[str]) -> None:
        super().__init__(
            f"tool calls {', '.join(map(repr, tool_call_ids))} have to be answered before the next "
            "run: agent.add_tool_result(tool_call_id, content)"
        )
        self.tool_call_ids = tool_call_ids


class ConnectNotImplementedError(AgentUsageError):
    """The agent cannot re-join a thread: it does not override :meth:`AbstractAgent.connect`."""


class HttpStatusError(AGUIError):
    """The server answered with an HTTP status that is not 2xx, so the run has not begun.

    Attributes:
        status: The status code.
        headers: The response headers, by lower-case name.
        body: The body, as far as the first 64 KiB go: parsed if it is JSON, else text.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: Any, *, url: str) -> None:
        shown = body if isinstance(body, str) else repr(body)
        super().__init__(f"{url} answered with HTTP status {status}: {shown[:500]}".rstrip(": "))
        self.status = status
        self.headers = headers
        self.body = body


class UnexpectedContentTypeError(AGUIError):
    """A successful response carries something other than AG-UI events: a login page, say.

    Attributes:
        content_type: Its ``Content-Type``; empty if it has none.
        body: The beginning of the body, as text.
    """

    def __init__(self, content_type: str, body: str, *, url: str) -> None:
        super().__init__(
            f"{url} answered with content type {content_type or 'none'}, expected an AG-UI event "
            f"stream: {body[:200]}"
        )
        self.content_type = content_type
        self.body = body
