"""The client as type checkers see it. Nothing here runs; `ignore` marks what they must refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import Event, Interrupt, Message, RunAgentInput, TextMessageContentEvent, ToolCall
from typing_extensions import assert_type

from agui_codec import ChunkExpander, EventVerifier
from agui_codec.client import (
    AgentSubscriber,
    Call,
    FilterToolCallsMiddleware,
    FrontendTool,
    HttpAgent,
    Mutation,
    Next,
    Run,
    RunResult,
    resolve,
    tool,
)


@tool
async def get_location(precision: str = "coarse") -> str:
    """Where the user is."""
    return precision


@tool(name="delete", timeout=5)
def remove(path: str) -> None:
    """Delete a file."""


class Printer(AgentSubscriber):
    def on_text_message_content_event(self, call: Call) -> None:
        assert_type(call.text_message_buffer, str)
        assert_type(call.messages, list[Message])

    async def on_run_finished_event(self, call: Call) -> Mutation | None:
        return Mutation(state={}, stop_propagation=True)


class Wrong(AgentSubscriber):
    def on_new_message(self, call: Call) -> str:  # type: ignore[override]
        return ""


async def whole(input: RunAgentInput, next: Next) -> AsyncIterator[dict[str, Any]]:
    async for event in next(input):
        assert_type(event, dict[str, Any])
        yield event


async def consume() -> None:
    assert_type(get_location, FrontendTool)
    assert_type(remove, FrontendTool)
    async with HttpAgent("http://localhost", wire="protobuf") as agent:
        assert_type(agent, HttpAgent)
        assert_type(agent.use(FilterToolCallsMiddleware(allowed=["a"])), HttpAgent)
        agent.use(whole, ChunkExpander, EventVerifier)
        assert_type(agent.messages, list[Message])
        assert_type(agent.pending_interrupts, list[Interrupt])
        run = agent.run_agent("Hello", tools=[get_location, remove], subscriber=Printer())
        assert_type(run, Run)
        async with run:
            async for event in run:
                assert_type(event, Event)
                if isinstance(event, TextMessageContentEvent):
                    assert_type(event.delta, str)
            async for text in run.text_stream:
                assert_type(text, str)
        result = await agent.run_agent(resume={"int-1": resolve({"approved": True})})
        assert_type(result, RunResult)
        assert_type(result.text, str)
        assert_type(result.pending_tool_calls, list[ToolCall])
        assert_type(result.raise_for_status(), RunResult)
        assert_type(agent.clone(), HttpAgent)
        with agent.subscribe(Printer()):
            pass
        agent.run_agent(5)  # type: ignore[arg-type]
        agent.run_agent("Hello", tool=[get_location])  # type: ignore[call-arg]
        agent.subscribe("x")  # type: ignore[arg-type]
        HttpAgent("http://localhost", wire="json")  # type: ignore[arg-type]
        HttpAgent("http://localhost", header={})  # type: ignore[call-arg]
