"""The keyword arguments that several calls take, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from ag_ui.core import Context, Message, ResumeEntry, Tool

    from agui_codec._native import Deviation
    from agui_codec.client.run import OnInterrupt
    from agui_codec.client.subscriber import AgentSubscriber
    from agui_codec.client.tool import FrontendTool

__all__ = ["AgentOptions", "RunOptions"]


class AgentOptions(TypedDict, total=False):
    """The arguments of :class:`agui_codec.client.AbstractAgent`, for classes that pass them on.

    Example:
        class MyAgent(AbstractAgent):
            def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
                super().__init__(**options)
    """

    agent_id: str | None
    description: str
    thread_id: str | None
    messages: Iterable[Message | dict[str, Any]]
    state: Any
    as_dict: bool
    peer_version: str | None
    on_deviation: Callable[[Deviation], object] | None
    on_subscriber_error: Literal["log", "raise"]


class RunOptions(TypedDict, total=False):
    """The arguments of :meth:`agui_codec.client.AbstractAgent.run_agent`."""

    run_id: str | None
    parent_run_id: str | None
    tools: Sequence[FrontendTool | Callable[..., Any] | Tool | dict[str, Any]]
    context: Sequence[Context | dict[str, Any]]
    forwarded_props: Any
    resume: Sequence[ResumeEntry | dict[str, Any]] | Mapping[str, Any] | None
    on_interrupt: OnInterrupt | None
    max_rounds: int
    subscriber: AgentSubscriber | None
