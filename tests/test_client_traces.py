"""What subscribers are told, in every call, against the TypeScript client."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from agui_codec import AGUIError, upgrade_input
from agui_codec.client import AbstractAgent, AgentSubscriber, Call, Mutation
from agui_codec.client.subscriber import CALLBACKS
from streams import Event, oracle, stream

NOTICES = {"on_new_message", "on_new_tool_call", "on_messages_changed", "on_state_changed"}


def camel(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Recorder(AgentSubscriber):
    """As the one in ``client_oracle.mjs``."""

    def __init__(self, number: int, seed: int | None, trace: list[Event]) -> None:
        self.number = number
        self.seed = seed
        self.trace = trace
        self.count = 0
        for name in CALLBACKS:
            setattr(self, name, self.recorder(name))

    def recorder(self, name: str) -> Any:
        def record(call: Call) -> Mutation | None:
            self.trace.append(self.line(name, call))
            if self.seed is None or name in NOTICES:
                return None
            self.count += 1
            return self.mutation(self.count - 1, call)

        return record

    def line(self, name: str, call: Call) -> Event:
        kind = None if name in NOTICES else call.event and call.event["type"]
        said: Event = {"by": self.number, "callback": camel(name), "type": kind}
        if name.startswith(("on_text_message_c", "on_text_message_e")):
            said["buffer"] = call.text_message_buffer
        elif name.startswith(("on_reasoning_message_c", "on_reasoning_message_e")):
            said["buffer"] = call.reasoning_message_buffer
        elif name == "on_tool_call_args_event":
            said["buffer"] = call.tool_call_buffer
            said["name"] = call.tool_call_name
        elif name == "on_tool_call_end_event":
            said["name"] = call.tool_call_name
            said["args"] = call.tool_call_args
        elif name == "on_run_finished_event":
            said["outcome"] = call.outcome
            if call.outcome == "success":
                said["result"] = call.result
                said["pending"] = call.pending_tool_call_ids
            elif call.outcome == "interrupt":
                said["interrupts"] = [one["id"] for one in call.interrupts]
        elif name.startswith("on_activity"):
            said["activity"] = call.activity_message and digest(call.activity_message)
            if name.startswith("on_activity_s"):
                said["existing"] = call.existing_message and digest(call.existing_message)
        elif name == "on_new_message":
            said["message"] = digest(call.message)
        elif name == "on_new_tool_call":
            said["toolCall"] = digest(call.tool_call)
        said |= {"messages": digest(call.messages), "state": digest(call.state)}
        return {key: value for key, value in said.items() if value is not None}

    def mutation(self, count: int, call: Call) -> Mutation | None:
        assert self.seed is not None
        match (self.seed * 31 + count * 17) % 23:
            case 0:
                added = {"id": f"x{count}", "role": "user", "content": "x"}
                return Mutation(messages=[*call.messages, added])
            case 1:
                return Mutation(state={"count": count})
            case 2:
                return Mutation(stop_propagation=True)
            case 3:
                return Mutation(messages=call.messages[:-1], stop_propagation=True)
            case 4:
                return Mutation(messages=call.messages[1:])
            case 5:
                return Mutation()
        return None


def ours(job: Event) -> Event:
    """What our client makes of a job, as ``client_oracle.mjs`` answers it."""
    trace: list[Event] = []

    class Replay(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            for event in job["events"]:
                yield event

    agent = Replay(
        thread_id=job["threadId"],
        messages=job.get("messages", ()),
        state=job.get("state"),
        as_dict=True,
        on_deviation=lambda _: None,
        on_subscriber_error="raise",
    )
    last, *others = (
        Recorder(number, seed, trace)
        for number, seed in enumerate(job.get("subscribers", [None]))
    )
    for subscriber in others:
        agent.subscribe(subscriber)
    answer: Event = {"trace": trace, "resolved": True}

    async def main() -> None:
        run = agent.run_agent(run_id="r", resume=job.get("resume"), subscriber=last)
        try:
            await run.until_done()
        except AGUIError as error:
            answer["resolved"] = False
            answer["error"] = error
        else:
            answer["result"] = run.snapshot.result
            answer["newMessages"] = digest(run.snapshot.new_messages)
        answer["run"] = run

    asyncio.run(main())
    answer["messages"] = agent.messages
    answer["state"] = agent.state
    answer["interrupts"] = [one["id"] for one in agent.pending_interrupts]
    return answer
