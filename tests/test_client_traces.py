"""What subscribers are told, in every call, against the TypeScript client."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from agui_codec import AGUIError, EventDecoder, SequenceError, through, upgrade_input
from agui_codec.client import AbstractAgent, AgentSubscriber, Call, Mutation, TruncatedRunError
from agui_codec.client.subscriber import CALLBACKS
from conftest import corpus_files
from streams import Event, oracle, stream

NOTICES = {"on_new_message", "on_new_tool_call", "on_messages_changed", "on_state_changed"}


def camel(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.lru_cache(1 << 16)
def digest_of(text: str) -> str:
    canonical = json.dumps(
        json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return sha(canonical)


def digest(value: Any) -> str:
    if isinstance(value, list):
        return sha(",".join(map(digest, value)))
    return digest_of(json.dumps(value))


class Recorder(AgentSubscriber):
    """As the one in ``client_oracle.mjs``."""

    def __init__(self, number: int, seed: int | None, trace: list[Event]) -> None:
        self.number = number
        self.seed = seed
        self.trace = trace
        self.count = 0
        self.new_messages: str | None = None
        for name in CALLBACKS:
            setattr(self, name, self.recorder(name))

    def recorder(self, name: str) -> Any:
        def record(call: Call) -> Mutation | None:
            self.trace.append(self.line(name, call))
            if name == "on_run_finalized" and self.new_messages is None:
                assert call.run is not None
                self.new_messages = digest(call.run.snapshot.new_messages)
            if self.seed is None or name in NOTICES:
                return None
            self.count += 1
            return self.mutation(self.count - 1, name, call)

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

    def mutation(self, count: int, name: str, call: Call) -> Mutation | None:
        assert self.seed is not None
        if re.search("content|args|_end_|activity", name):
            return Mutation(stop_propagation=self.seed % 2 == 1 and count % 19 == 0)
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
        Recorder(number, seed, trace) for number, seed in enumerate(job.get("subscribers", [None]))
    )
    for subscriber in others:
        agent.subscribe(subscriber)
    first = (*others, last)[0]
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
            answer["newBeforeFinalized"] = first.new_messages
        answer["run"] = run

    asyncio.run(main())
    answer["messages"] = agent.messages
    answer["state"] = agent.state
    answer["interrupts"] = [one["id"] for one in agent.pending_interrupts]
    return answer


# -- the named differences ------------------------------------------------------------------


def apart(theirs: Event, mine: Event) -> set[str]:
    """How the two answers to a job differ: the names of the differences, all explained below.

    - ``messages-before-state``: where an event changes both, their ``onMessagesChanged`` is shown
      the state of before. Ours are shown what there is.
    - ``interrupts-answered``: any RUN_FINISHED clears their pending interrupts; ours stay until a
      run that answers them has finished (ag-ui #2437).
    - ``truncated``: a stream without a terminal event is a success to them.
    - ``ids``: they do not compare the ids of RUN_FINISHED and of later runs with those of the run,
      nor those of interrupts with each other.
    - ``result-before-finalized``: they do not wait for ``onRunFinalized``, so that what it changes
      is not in their new messages. Ours are what there is in the end.
    - ``failure-overtakes``: their failure may overtake callbacks of the event before it. Ours come
      in order.
    """
    found: set[str] = set()
    left = [{k: v for k, v in line.items() if v is not None} for line in theirs["trace"]]
    right: list[Event] = mine["trace"]
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one == other or one["callback"] != "onMessagesChanged":
            continue
        after = next((it for it in left[at:] if it["callback"] != "onMessagesChanged"), {})
        if after.get("callback") == "onStateChanged" and after["state"] == other.get("state"):
            one["state"] = other["state"]
            found.add("messages-before-state")
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    left, right = left[same:], right[same:]
    failures = [line["callback"] for line in right]
    error = mine.get("error")
    if isinstance(error, TruncatedRunError) and theirs["resolved"]:
        failed = [line for line in right if line["callback"] == "onRunFailed"]
        assert right[: len(failed)] == failed
        right = right[len(failed) :]
        assert left == right
        return {*found, "truncated"}
    if isinstance(error, SequenceError) and re.search("runId|threadId|interrupts", error.reason):
        assert set(failures) == {"onRunFailed", "onRunFinalized"}
        return {*found, "ids"}
    if theirs["interrupts"] != mine["interrupts"]:
        assert theirs["interrupts"] == [], theirs["interrupts"]
        found.add("interrupts-answered")
    assert mine["resolved"] == theirs["resolved"], error
    if not mine["resolved"] and left != right:
        assert left[0]["callback"] == "onRunFailed"
        # What was overtaken is what the refused event closes, of chunks.
        assert all(re.search("_END$", line.get("type", "_END")) for line in right)
        assert failures[-1] == "onRunFinalized"
        return {*found, "failure-overtakes"}
    assert left == right
    if mine["resolved"]:
        assert mine["messages"] == theirs["messages"]
        assert mine["state"] == theirs["state"]
        assert mine.get("result") == theirs.get("result")
        if mine["newMessages"] != theirs["newMessages"]:
            assert mine["newBeforeFinalized"] == theirs["newMessages"]
            found.add("result-before-finalized")
    return found


def compare(jobs: list[Event]) -> set[str]:
    """All differences that occur in some jobs."""
    found: set[str] = set()
    for job, theirs in zip(jobs, oracle("client_oracle.mjs", jobs), strict=True):
        found |= apart(theirs, ours(job))
    return found


def job(events: list[Event], **more: Any) -> Event:
    threads = [event["threadId"] for event in events if "threadId" in event]
    return {"threadId": threads[0] if threads else "t", "events": events, **more}


BATCH = 250
ALWAYS = {"interrupts-answered"}


@pytest.mark.parametrize("batch", range(8))
def test_legal_streams(batch: int) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    assert compare([job(stream(seed)) for seed in seeds]) <= ALWAYS


@pytest.mark.parametrize("batch", range(2))
def test_faulty_streams(batch: int) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    found = compare([job(stream(seed, faulty=True)) for seed in seeds])
    assert found <= {*ALWAYS, "truncated", "ids", "failure-overtakes"}


@pytest.mark.parametrize("subscribers", [[7, None, 3], [12, 4], [None, 5, 8, None]])
def test_several_subscribers_of_which_some_mutate(subscribers: list[int | None]) -> None:
    jobs = [job(stream(seed), subscribers=subscribers) for seed in range(120)]
    assert compare(jobs) <= {*ALWAYS, "messages-before-state", "result-before-finalized"}


@pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))
def test_corpus(path: Path) -> None:
    if path.stem == "era-0-0-45-thinking-translated":
        return  # both make up ids, which are never the same
    case = json.loads(path.read_text("utf-8"))
    given = case.get("input", {})
    start = upgrade_input({"messages": given.get("messages", [])}, on_deviation=lambda _: None)
    more = {"messages": start["messages"], "state": given.get("state", {})}
    found = compare([job(case["stream"], **more)])
    assert found <= {"truncated", "ids", "interrupts-answered"}


@pytest.mark.parametrize("path", corpus_files("recordings/*.sse"))
def test_recordings(path: Path) -> None:
    events = list(through([path.read_bytes()], EventDecoder(as_dict=True)))
    assert compare([job(events)]) == set()
