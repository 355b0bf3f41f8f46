"""Event streams for tests: random ones, and what a stage makes of one.

``stream(seed)`` is a list of wire dicts, the same for the same seed. A legal stream has one to
three runs on one thread, with subagents, parallel calls, chunks, reasoning, steps, state,
activities and replayed history; ``stream(seed, faulty=True)`` has one thing wrong with it (which
may happen to be legal: the judge is the verifier, not this file).
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event as SdkEvent
from pydantic import TypeAdapter

from agui_codec import AGUIError, proto

Event = dict[str, Any]

INTEROP = Path(__file__).parent / "interop"
ADAPTER: TypeAdapter[Any] = TypeAdapter(SdkEvent)


def event(kind: str, **fields: Any) -> Event:
    return {"type": kind, **fields}


def start(message: str = "m", **fields: Any) -> Event:
    return event("TEXT_MESSAGE_START", messageId=message, **fields)


def content(delta: str, message: str = "m", **fields: Any) -> Event:
    return event("TEXT_MESSAGE_CONTENT", messageId=message, delta=delta, **fields)


def end(message: str = "m", **fields: Any) -> Event:
    return event("TEXT_MESSAGE_END", messageId=message, **fields)


def models(events: list[Event]) -> list[Any]:
    """The events as models of the SDK."""
    return [ADAPTER.validate_python(event) for event in events]


def wire(events: list[Any]) -> list[Event]:
    """Events as the wire dicts that they are written as."""
    return [
        event if isinstance(event, dict) else json.loads(event.model_dump_json(by_alias=True))
        for event in events
    ]


def feed_all(stage: Any, events: list[Any]) -> tuple[list[Any], AGUIError | None]:
    """What a stage gives for a stream that has not ended, and the error that stopped it."""
    output: list[Any] = []
    for event in events:
        try:
            output += stage.feed(event)
        except AGUIError as error:
            return output, error
    return output, None


def sse(events: list[Event]) -> bytes:
    """Events as a body, by nothing of ours: it has no say in what is sent."""
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def binary(events: list[Event]) -> bytes:
    """Events as frames of protobuf."""
    messages = [proto.encode(event) for event in events]
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


def at(value: Any, path: str) -> Any:
    """What a path of keys and indices, with dots, leads to."""
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def covers(value: Any, expected: Any) -> bool:
    """Whether a value has what is expected: objects on the keys named, arrays in full."""
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            key in value and covers(value[key], inner) for key, inner in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(covers(one, other) for one, other in zip(value, expected, strict=True))
        )
    return type(value) is type(expected) and value == expected


def run(*kinds: str | Event) -> list[Event]:
    """A run around some events."""
    return [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        *[{"type": kind} if isinstance(kind, str) else kind for kind in kinds],
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]


def oracle(script: str, lines: list[Any]) -> list[Any]:
    """The answers of a script in ``tests/interop``, one process for all of them."""
    node = shutil.which("node")
    if node is None or not (INTEROP / "node_modules").is_dir():
        if os.environ.get("AGUI_CODEC_REQUIRE_NODE") == "1":
            raise FileNotFoundError("Node, or the packages of tests/interop")
        pytest.skip("Node, or the packages of tests/interop, are missing")
    result = subprocess.run(
        [node, str(INTEROP / script)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(lines)
    return answers


class Producer:
    """Writes one stream, keeping track of what it has open."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[Event] = []
        self.counter = 0
        self.thread = f"t{seed}"

    # -- small choices -----------------------------------------------------------------

    def maybe(self, probability: float) -> bool:
        return self.random.random() < probability

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        if self.maybe(0.02):
            # Ids are opaque: long ones, other scripts, and the odd shape are ids like any other.
            return f"{prefix}{self.counter}-{self.random.choice(['å', '漢字', '😀', 'x' * 70])}"
        return f"{prefix}{self.counter}"

    def text(self) -> str:
        return self.random.choice(["", "a", "Hello, ", "world", "é", "漢字", "😀", '{"q":', "1}"])

    def emit(self, kind: str, owner: str | None = None, **fields: Any) -> None:
        event: Event = {"type": kind}
        event.update({key: value for key, value in fields.items() if value is not None})
        if owner is not None:
            event["subagentRunId"] = owner
        if self.maybe(0.05):
            event["metadata"] = {self.random.choice("kl"): self.random.randrange(9)}
        if self.maybe(0.04):
            event["rawEvent"] = {"provider": self.random.randrange(9)}
        if self.maybe(0.1):
            event["timestamp"] = 1767323045000 + self.counter
        self.events.append(event)

    def tag(self, owner: str | None) -> str | None:
        """The tag of a continuation: the owner's, or none, which agrees with any."""
        return owner if self.maybe(0.7) else None

    # -- a run -------------------------------------------------------------------------

    def run(self) -> None:
        run = self.fresh("r")
        self.texts: dict[str, str | None] = {}
        self.calls: dict[str, str | None] = {}
        self.spans: dict[str, str | None] = {}
        self.thoughts: dict[str, str | None] = {}
        self.steps: list[tuple[str | None, str]] = []
        self.agents: list[str | None] = [None]
        self.lanes: dict[str | None, tuple[str, str, Event]] = {}
        self.message_owner: dict[str, str | None] = {}
        self.call_owner: dict[str, str | None] = {}
        self.thought_owner: dict[str, str | None] = {}
        self.activities: dict[str, str | None] = {}
        self.has_state = False
        self.mixed_ids: set[str] = set()
        start: Event = {"threadId": self.thread, "runId": run}
        if self.maybe(0.3):
            start["protocolVersion"] = self.random.choice(["1.0", "1.1"])
        if self.maybe(0.2):
            start["input"] = {**start, "messages": self.history()}
        self.emit("RUN_STARTED", **start)
        actions = [
            (self.text_event, 6),
            (self.call_event, 6),
            (self.text_chunk, 6),
            (self.call_chunk, 5),
            (self.thought_chunk, 3),
            (self.reasoning_event, 3),
            (self.step_event, 2),
            (self.subagent_event, 2),
            (self.state_event, 2),
            (self.aside_event, 3),
            (self.snapshot_event, 0.4),
        ]
        weights = [weight for _, weight in actions]
        for _ in range(self.random.randrange(4, 40)):
            self.random.choices(actions, weights)[0][0](self.random.choice(self.agents))
        if self.maybe(0.1):
            self.emit("RUN_ERROR", message="boom")
            return
        self.close_everything()
        outcome = self.random.choice([None, None, {"type": "success"}, "interrupt"])
        if outcome == "interrupt":
            outcome = {
                "type": "interrupt",
                "interrupts": [
                    {"id": self.fresh("i"), "reason": "approval"}
                    for _ in range(self.random.randrange(1, 3))
                ],
            }
        self.emit("RUN_FINISHED", threadId=self.thread, runId=run, outcome=outcome)
        if self.maybe(0.05):
            self.emit("RUN_ERROR", message="while flushing")

    def history(self) -> list[Event]:
        messages: list[Event] = [{"id": self.fresh("u"), "role": "user", "content": "hi"}]
        owner = self.random.choice([None, "s-old"])
        message: Event = {"id": self.fresh("m"), "role": "assistant", "content": "before"}
        if self.maybe(0.5):
            call = self.fresh("c")
            message["toolCalls"] = [
                {"id": call, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ]
            self.call_owner[call] = owner
        if owner is not None:
            message["subagentRunId"] = owner
        self.message_owner[message["id"]] = owner
        messages.append(message)
        return messages

    def close_everything(self) -> None:
        # What is open is closed by its owner; chunks close by themselves.
        for message, owner in list(self.texts.items()):
            self.explicit("TEXT_MESSAGE_END", owner, messageId=message)
        for call, owner in list(self.calls.items()):
            self.explicit("TOOL_CALL_END", owner, toolCallId=call)
        for thought, owner in list(self.thoughts.items()):
            self.explicit("REASONING_MESSAGE_END", owner, messageId=thought)
        for span, owner in list(self.spans.items()):
            self.explicit("REASONING_END", owner, messageId=span)
        for owner, step in list(self.steps):
            self.lanes.pop(owner, None)
            self.emit("STEP_FINISHED", owner, stepName=step)
        for agent in reversed(self.agents[1:]):
            self.finish_subagent(agent)

    def finish_subagent(self, agent: str | None) -> None:
        self.lanes.pop(agent, None)
        if self.maybe(0.8):
            self.emit("SUBAGENT_FINISHED", agent)
        else:
            self.emit("SUBAGENT_ERROR", agent, message="failed")

    def explicit(self, kind: str, owner: str | None, **fields: Any) -> None:
        """An event that closes the chunk stream of the lane that its tag names."""
        tag = self.tag(owner)
        self.lanes.pop(tag, None)
        self.emit(kind, tag, **fields)

    # -- actions -----------------------------------------------------------------------

    def opener(self, kind: str, owner: str | None, **fields: Any) -> None:
        self.lanes.pop(owner, None)
        self.emit(kind, owner, **fields)

    def id_for(self, prefix: str, owners: dict[str, str | None], owner: str | None) -> str:
        """A fresh id, or one of this owner that may open again."""
        lanes = {item for _, item, _ in self.lanes.values()}
        old = [
            item
            for item, known in owners.items()
            if known == owner
            and item not in self.texts
            and item not in self.calls
            and item not in self.thoughts
            and item not in lanes
        ]
        if old and self.maybe(0.15):
            return self.random.choice(old)
        item = self.fresh(prefix)
        owners[item] = owner
        return item

    def text_event(self, agent: str | None) -> None:
        if self.texts and self.maybe(0.7):
            message, owner = self.random.choice(list(self.texts.items()))
            if self.maybe(0.3):
                del self.texts[message]
                self.explicit("TEXT_MESSAGE_END", owner, messageId=message)
            else:
                self.explicit("TEXT_MESSAGE_CONTENT", owner, messageId=message, delta=self.text())
            return
        message = self.id_for("m", self.message_owner, agent)
        self.texts[message] = agent
        role = self.random.choice([None, "assistant", "user", "system", "developer"])
        name = self.random.choice([None, None, None, "Ada"])
        self.opener("TEXT_MESSAGE_START", agent, messageId=message, role=role, name=name)

    def call_event(self, agent: str | None) -> None:
        if self.calls and self.maybe(0.7):
            call, owner = self.random.choice(list(self.calls.items()))
            if self.maybe(0.3):
                del self.calls[call]
                self.explicit("TOOL_CALL_END", owner, toolCallId=call)
                if self.maybe(0.6):
                    result = self.fresh("res")
                    self.message_owner[result] = agent
                    self.opener(
                        "TOOL_CALL_RESULT", agent, messageId=result, toolCallId=call, content="ok"
                    )
            else:
                self.explicit("TOOL_CALL_ARGS", owner, toolCallId=call, delta=self.text())
            return
        call = self.id_for("c", self.call_owner, agent)
        self.calls[call] = agent
        self.opener(
            "TOOL_CALL_START",
            agent,
            toolCallId=call,
            toolCallName=self.random.choice("fg"),
            parentMessageId=self.parent(agent),
        )

    def parent(self, agent: str | None) -> str | None:
        parents = [item for item, owner in self.message_owner.items() if owner == agent]
        if parents and self.maybe(0.4):
            return self.random.choice(parents)
        return self.fresh("ghost") if self.maybe(0.1) else None

    def chunk(
        self,
        kind: str,
        key: str,
        prefix: str,
        agent: str | None,
        owners: dict[str, str | None],
        fields: Event,
    ) -> None:
        lane = self.lanes.get(agent)
        said: Event = {}
        if self.maybe(0.8):
            said["delta"] = self.text()
        if lane is not None and lane[0] == kind and self.maybe(0.75):
            # A continuation: by id, by tag, or by nothing where that is clear.
            alone = sum(1 for other in self.lanes.values() if other[0] == kind) == 1
            parent = self.lanes.get(None)
            clear = agent is None or (alone and (parent is None or parent[0] != kind))
            named = self.maybe(0.5)
            if named:
                said[key] = lane[1]
            tag = agent if (not (named or clear) or self.maybe(0.5)) else None
            if self.maybe(0.3):
                repeated = self.random.choice(list(lane[2]) or [None])
                if repeated is not None:
                    said[repeated] = lane[2][repeated]
            if self.maybe(0.03):
                said["futureProperty"] = {"a": 1}
            self.emit(kind, tag, **said)
            return
        item = self.id_for(prefix, owners, agent)
        self.lanes.pop(agent, None)
        self.lanes[agent] = (kind, item, {k: v for k, v in fields.items() if v is not None})
        if self.maybe(0.03):
            said["futureProperty"] = 1
        self.emit(kind, agent, **{key: item}, **fields, **said)

    def text_chunk(self, agent: str | None) -> None:
        role = self.random.choice([None, "assistant", "user"])
        name = self.random.choice([None, None, "Ada"])
        fields = {"role": role, "name": name}
        self.chunk("TEXT_MESSAGE_CHUNK", "messageId", "m", agent, self.message_owner, fields)

    def call_chunk(self, agent: str | None) -> None:
        fields = {"toolCallName": self.random.choice("fg"), "parentMessageId": self.parent(agent)}
        self.chunk("TOOL_CALL_CHUNK", "toolCallId", "c", agent, self.call_owner, fields)

    def thought_chunk(self, agent: str | None) -> None:
        self.chunk("REASONING_MESSAGE_CHUNK", "messageId", "q", agent, self.thought_owner, {})

    def reasoning_event(self, agent: str | None) -> None:
        if self.thoughts and self.maybe(0.6):
            thought, owner = self.random.choice(list(self.thoughts.items()))
            if self.maybe(0.3):
                del self.thoughts[thought]
                self.explicit("REASONING_MESSAGE_END", owner, messageId=thought)
            else:
                self.explicit(
                    "REASONING_MESSAGE_CONTENT", owner, messageId=thought, delta=self.text()
                )
        elif self.spans and self.maybe(0.6):
            span, owner = self.random.choice(list(self.spans.items()))
            if self.maybe(0.5) and span not in self.thoughts:
                # A message may have the id of its span.
                thought = span if self.maybe(0.3) else self.fresh("q")
                self.thought_owner[thought] = owner
                self.thoughts[thought] = owner
                self.opener("REASONING_MESSAGE_START", owner, messageId=thought, role="reasoning")
            else:
                del self.spans[span]
                self.explicit("REASONING_END", owner, messageId=span)
        else:
            span = self.fresh("q")
            self.spans[span] = agent
            self.opener("REASONING_START", agent, messageId=span)

    def step_event(self, agent: str | None) -> None:
        mine = [step for step in self.steps if step[0] == agent]
        if mine and self.maybe(0.6):
            step = self.random.choice(mine)
            self.steps.remove(step)
            self.opener("STEP_FINISHED", agent, stepName=step[1])
        else:
            name = self.random.choice(["plan", "tools", "answer"])
            if (agent, name) not in self.steps:
                self.steps.append((agent, name))
                self.opener("STEP_STARTED", agent, stepName=name)

    def subagent_event(self, agent: str | None) -> None:
        if agent is None or self.maybe(0.3):
            child = self.fresh("s") if self.maybe(0.98) else ""
            if child in self.agents or (child == "" and "" in self.mixed_ids):
                return
            self.mixed_ids.add(child)
            self.agents.append(child)
            self.emit("SUBAGENT_STARTED", child, name="worker", parentSubagentRunId=agent)
        elif not any(
            agent in set(open_.values())
            for open_ in (self.texts, self.calls, self.thoughts, self.spans)
        ) and not any(owner == agent for owner, _ in self.steps):
            self.agents.remove(agent)
            self.finish_subagent(agent)

    def state_event(self, agent: str | None) -> None:
        if not self.has_state or self.maybe(0.3):
            self.has_state = True
            self.opener("STATE_SNAPSHOT", agent, snapshot={"count": 0, "log": []})
        else:
            patch = self.random.choice(
                [
                    {"op": "replace", "path": "/count", "value": self.counter},
                    {"op": "add", "path": "/log/-", "value": self.text()},
                ]
            )
            self.opener("STATE_DELTA", agent, delta=[patch])

    def aside_event(self, agent: str | None) -> None:
        choice = self.random.randrange(6)
        if choice == 0:
            self.emit("RAW", agent, event={"x": self.counter}, source="provider")
        elif choice == 1:
            activity = self.fresh("a")
            self.activities[activity] = agent
            self.emit(
                "ACTIVITY_SNAPSHOT",
                agent,
                messageId=activity,
                activityType="search",
                content={"found": 0},
                replace=self.random.choice([None, True, False]),
            )
        elif choice == 2 and self.activities:
            activity, owner = self.random.choice(list(self.activities.items()))
            self.emit(
                "ACTIVITY_DELTA",
                self.tag(owner),
                messageId=activity,
                activityType="search",
                patch=[{"op": "replace", "path": "/found", "value": self.counter}],
            )
        elif choice == 3 and self.thought_owner:
            thought, owner = self.random.choice(list(self.thought_owner.items()))
            self.emit(
                "REASONING_ENCRYPTED_VALUE",
                self.tag(owner),
                subtype="message",
                entityId=thought,
                encryptedValue="b3BhcXVl",
            )
        elif choice == 4 and self.call_owner:
            call, owner = self.random.choice(list(self.call_owner.items()))
            self.emit(
                "REASONING_ENCRYPTED_VALUE",
                self.tag(owner),
                subtype="tool-call",
                entityId=call,
                encryptedValue="b3BhcXVl",
            )
        else:
            self.opener("CUSTOM", agent, name="com.example.note", value=self.counter)

    def snapshot_event(self, _agent: str | None) -> None:
        self.lanes.clear()
        self.emit("MESSAGES_SNAPSHOT", messages=self.history())


def _fault(events: list[Event], rng: random.Random) -> None:
    """Does one thing wrong to a stream, in place."""
    at = rng.randrange(len(events))
    event = events[at]
    kind = rng.randrange(14)
    tagged = ["s-other", "s1", "s2", "", None]
    if kind == 0:
        del events[at]
    elif kind == 1:
        events.insert(at, copy.deepcopy(event))
    elif kind == 2 and at + 1 < len(events):
        events[at], events[at + 1] = events[at + 1], events[at]
    elif kind == 3:
        event["subagentRunId"] = rng.choice(tagged)
    elif kind == 4:
        event.pop("subagentRunId", None)
    elif kind == 5:
        ids = [key for key in ("messageId", "toolCallId", "entityId", "stepName") if key in event]
        if ids:
            event[rng.choice(ids)] = f"unknown{at}"
    elif kind == 6:
        chunks = [other for other in events if other["type"].endswith("_CHUNK")]
        if chunks:
            chunk = rng.choice(chunks)
            key = rng.choice(["messageId", "toolCallId", "toolCallName", "delta", "role"])
            chunk.pop(key, None)
    elif kind == 7:
        chunks = [other for other in events if other["type"].endswith("_CHUNK")]
        if chunks:
            chunk = rng.choice(chunks)
            keys = {
                "TEXT_MESSAGE_CHUNK": ["role", "name"],
                "TOOL_CALL_CHUNK": ["toolCallName", "parentMessageId"],
                "REASONING_MESSAGE_CHUNK": ["role", "messageId"],
            }[chunk["type"]]
            chunk[rng.choice(keys)] = "system"
    elif kind == 8:
        events.insert(at, {"type": "RUN_STARTED", "threadId": events[0]["threadId"], "runId": "x"})
    elif kind == 9:
        events.insert(at, {"type": "RUN_ERROR", "message": "too early"})
    elif kind == 10:
        runs = [other for other in events if other["type"] == "RUN_FINISHED"]
        if runs:
            rng.choice(runs)[rng.choice(["runId", "threadId"])] = "another"
    elif kind == 11:
        events.insert(at, {"type": "FUTURE_EVENT", "messageId": "m1"})
    elif kind == 12:
        other = rng.randrange(len(events))
        events.insert(other, copy.deepcopy(event))
    elif kind == 13:
        del events[at:]


def stream(seed: int, *, faulty: bool = False) -> list[Event]:
    """A random stream of wire dicts.

    Args:
        seed: The same seed gives the same stream.
        faulty: Do one thing wrong.
    """
    producer = Producer(seed)
    for _ in range(producer.random.choice([1, 1, 1, 2, 3])):
        producer.run()
    events = producer.events
    if faulty:
        _fault(events, random.Random(seed))
    return events
