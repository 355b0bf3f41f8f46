"""The consumer's side of AG-UI: agents that a program talks to.

    agent = HttpAgent("https://example.com/agent")
    async with agent.run_agent("Hello") as run:
        async for text in run.text_stream:
            print(text, end="")

Names and behaviour follow ``@ag-ui/client``, in Python's spelling. :class:`HttpAgent` needs the
extra ``agui-codec[client]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_codec.client.agent import AbstractAgent
from agui_codec.client.errors import (
    AgentUsageError,
    ConnectNotImplementedError,
    HttpStatusError,
    InterruptError,
    PendingToolCallsError,
    RunError,
    RunFailedError,
    RunInProgressError,
    ToolRoundsError,
    TruncatedRunError,
    UnexpectedContentTypeError,
)
from agui_codec.client.interrupt import build_resume, cancel, is_interrupt_expired, resolve
from agui_codec.client.middleware import (
    EventFunction,
    EventStage,
    FilterToolCallsMiddleware,
    Middleware,
    MiddlewareFunction,
    Next,
)
from agui_codec.client.options import AgentOptions, RunOptions
from agui_codec.client.run import Run, RunResult
from agui_codec.client.subscriber import UNSET, AgentSubscriber, Call, Mutation, Subscription
from agui_codec.client.tool import FrontendTool, ToolCallContext, tool

if TYPE_CHECKING:
    from agui_codec.client.http import HttpAgent, ResponseInfo

__all__ = [
    "UNSET",
    "AbstractAgent",
    "AgentOptions",
    "AgentSubscriber",
    "AgentUsageError",
    "Call",
    "ConnectNotImplementedError",
    "EventFunction",
    "EventStage",
    "FilterToolCallsMiddleware",
    "FrontendTool",
    "HttpAgent",
    "HttpStatusError",
    "InterruptError",
    "Middleware",
    "MiddlewareFunction",
    "Mutation",
    "Next",
    "PendingToolCallsError",
    "ResponseInfo",
    "Run",
    "RunError",
    "RunFailedError",
    "RunInProgressError",
    "RunOptions",
    "RunResult",
    "Subscription",
    "ToolCallContext",
    "ToolRoundsError",
    "TruncatedRunError",
    "UnexpectedContentTypeError",
    "build_resume",
    "cancel",
    "is_interrupt_expired",
    "resolve",
    "tool",
]


def __getattr__(name: str) -> object:
    """What needs an HTTP client, imported on first use."""
    if name in {"HttpAgent", "ResponseInfo"}:
        from agui_codec.client import http

        return getattr(http, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
