"""LegacyUpgrader, LegacyDowngrader: what older peers send, and what they can be sent."""

from __future__ import annotations

import copy
import itertools
import json
import random
from pathlib import Path
from typing import Any

import ag_ui.core
import pytest
from ag_ui.core import PROTOCOL_VERSION, RunAgentInput
from pydantic import BaseModel

from agui_codec import (
    ChunkExpander,
    Deviation,
    EventEnforcer,
    EventVerifier,
    LegacyDowngrader,
    LegacyUpgrader,
    Pipeline,
    client_pipeline,
    downgrade_input,
    enforce_input,
    upgrade_input,
)
from conftest import corpus_files
from streams import Event, feed_all, models, oracle, run, sse, stream, wire

RUN: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
DONE: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
URL = "https://example.com/cat.png"


def upgraded(*events: Any) -> tuple[list[Any], list[Deviation]]:
    counter = itertools.count(1)
    seen: list[Deviation] = []
    upgrader = LegacyUpgrader(mint_id=lambda: f"id{next(counter)}", on_deviation=seen.append)
    before = copy.deepcopy(events)
    output, error = feed_all(upgrader, list(events))
    assert error is None
    assert upgrader.close() == []
    assert events == before
    return output, seen


def kinds(seen: list[Deviation]) -> list[str]:
    return [one.kind for one in seen]


# -- thinking --------------------------------------------------------------------------

THINKING: list[Event] = [
    {"type": "THINKING_START", "title": "Working", "timestamp": 5},
    {"type": "THINKING_TEXT_MESSAGE_START"},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Let me "},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "check.", "rawEvent": {"a": 1}},
    {"type": "THINKING_TEXT_MESSAGE_END"},
    {"type": "THINKING_END"},
]


def test_d7_thinking_becomes_reasoning() -> None:
    output, seen = upgraded(*THINKING)
    assert output == [
        {"type": "REASONING_START", "timestamp": 5, "messageId": "id1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "id2", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "delta": "Let me ", "messageId": "id2"},
        {
            "type": "REASONING_MESSAGE_CONTENT",
            "delta": "check.",
            "rawEvent": {"a": 1},
            "messageId": "id2",
        },
        {"type": "REASONING_MESSAGE_END", "messageId": "id2"},
        {"type": "REASONING_END", "messageId": "id1"},
    ]
    assert kinds(seen) == ["legacy", "legacy_loss", *["legacy"] * 5]
    assert seen[0].event_type == "THINKING_START"
    assert "'Working'" in seen[1].detail


def test_d7_ids_differ_and_the_stream_verifies() -> None:
    upgrader = LegacyUpgrader(on_deviation=lambda _: None)
    output, _ = feed_all(upgrader, run(*THINKING, *THINKING))
    ids = {event["messageId"] for event in output if "messageId" in event}
    assert len(ids) == 4
    enforced, error = feed_all(EventEnforcer(), output)
    assert error is None
    assert enforced == output
    verified, error = feed_all(EventVerifier(), output)
    assert error is None
    assert len(verified) == 14


def test_a_continuation_without_an_opener_gets_an_id_and_says_so() -> None:
    output, seen = upgraded({"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "x"})
    assert output[0]["messageId"] == "id1"
    assert kinds(seen) == ["legacy", "minted_id"]
    assert "'id1'" in seen[1].detail
    # What ended is over.
    output, seen = upgraded(*THINKING, THINKING[-1])
    assert kinds(seen)[-1] == "minted_id"


# -- nulls -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "rawEvent": None}, "rawEvent"),
        ({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": None}, "result"),
        ({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": None}, "outcome"),
        ({"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "result": None}, "result"),
        (
            {
                "type": "TOOL_CALL_START",
                "toolCallId": "c",
                "toolCallName": "f",
                "parentMessageId": None,
            },
            "parentMessageId",
        ),
        (
            {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "parentMessageId": None},
            "parentMessageId",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value["type"],
)
def test_nulls_that_meant_absence(event: Event, path: str) -> None:
    [output], [seen] = upgraded(event)
    assert output == {key: value for key, value in event.items() if key != path}
    assert (seen.kind, seen.event_type, seen.path) == ("legacy", event["type"], path)


def test_nulls_of_an_echoed_input() -> None:
    given = {
        "threadId": "t",
        "runId": "r",
        "state": None,
        "forwardedProps": None,
        "messages": [],
        "tools": [{"name": "f", "description": "d", "parameters": None}],
        "resume": [{"interruptId": "i", "status": "resolved", "payload": None}],
    }
    [output], seen = upgraded({**RUN, "input": given})
    assert output["input"] == {
        "threadId": "t",
        "runId": "r",
        "messages": [],
        "tools": [{"name": "f", "description": "d"}],
        "resume": [{"interruptId": "i", "status": "resolved"}],
    }
    assert {one.path for one in seen} == {
        "input.state",
        "input.forwardedProps",
        "input.tools[0].parameters",
        "input.resume[0].payload",
    }
    assert upgrade_input(given, on_deviation=lambda _: None) == output["input"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": None},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
        {"type": "RAW", "event": None},
        {"type": "CUSTOM", "name": "n", "value": None},
        {"type": "TEXT_MESSAGE_END", "messageId": "m", "metadata": None},
        {"type": "TEXT_MESSAGE_END", "messageId": "m", "metadata": {"rawEvent": None}},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": None},
        {"type": "FUTURE", "title": "x"},
    ],
    ids=json.dumps,
)
def test_other_nulls_are_data_or_for_enforcement_to_judge(event: Event) -> None:
    [output], seen = upgraded(event)
    assert output is event
    assert seen == []


# -- binary parts ----------------------------------------------------------------------


def binary(mimeType: str = "image/png", **fields: Any) -> Event:
    return {"type": "binary", "mimeType": mimeType, **fields}


def parts(*content: Any) -> tuple[list[Any], list[Deviation]]:
    message = {"id": "1", "role": "user", "content": list(content)}
    [event], seen = upgraded({"type": "MESSAGES_SNAPSHOT", "messages": [message]})
    return event["messages"][0]["content"], seen


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "document"),
        ("image", "document"),
        ("", "document"),
    ],
)
def test_binary_parts_become_parts_of_their_mime_type(mime_type: str, kind: str) -> None:
    [part], [seen] = parts(binary(mime_type, data="aGk=", url=URL, filename="cat.png"))
    source = {"type": "data", "value": "aGk=", "mimeType": mime_type}
    assert part == {"type": kind, "source": source, "metadata": {"filename": "cat.png"}}
    assert (seen.kind, seen.path) == ("legacy", "messages[0].content[0]")
    [part], _ = parts(binary(mime_type, url=URL))
    assert part == {"type": kind, "source": {"type": "url", "value": URL, "mimeType": mime_type}}


def test_a_binary_part_with_an_id_alone_is_kept() -> None:
    legacy = binary(id="file-1")
    [part], [seen] = parts(legacy)
    assert part is legacy
    assert seen.kind == "legacy_kept"
    assert "'file-1'" in seen.detail


def test_a_binary_part_that_repeats_a_modern_one_goes() -> None:
    modern = {"type": "image", "source": {"type": "url", "value": URL, "mimeType": "image/png"}}
    text = {"type": "text", "text": "x"}
    assert parts(text, binary(url=URL), modern)[0] == [text, modern]
    assert parts(modern, binary(url=URL))[0] == [modern]
    # The filename is data, too.
    assert len(parts(modern, binary(url=URL, filename="cat.png"))[0]) == 2
    named = {**modern, "metadata": {"filename": "cat.png"}}
    assert parts(named, binary(url=URL, filename="cat.png"))[0] == [named]
    # Repeats of old parts are intended.
    assert len(parts(binary(url=URL), binary(url=URL))[0]) == 2


# -- the interrupt draft ---------------------------------------------------------------


def test_the_draft_interrupt_becomes_an_outcome() -> None:
    interrupt = {"id": "i", "reason": "approval", "payload": {"q": 1}}
    [output], [seen] = upgraded({**DONE, "outcome": "interrupt", "interrupt": interrupt})
    converted = {"id": "i", "reason": "approval", "metadata": {"payload": {"q": 1}}}
    assert output == {**DONE, "outcome": {"type": "interrupt", "interrupts": [converted]}}
    assert (seen.kind, seen.path) == ("legacy", "outcome")
    # The outcome could be left out, and the id, too.
    [output], seen_all = upgraded({**DONE, "interrupt": {"reason": "x"}})
    assert output["outcome"]["interrupts"] == [{"reason": "x", "id": "id1"}]
    assert kinds(seen_all) == ["legacy", "minted_id"]
    assert upgraded({**DONE, "outcome": "success"})[0] == [{**DONE, "outcome": {"type": "success"}}]
    other = {**DONE, "outcome": "paused"}
    assert upgraded(other)[0][0] is other
    for event in (
        {**DONE, "outcome": "interrupt", "interrupt": interrupt},
        {**DONE, "outcome": "interrupt"},
    ):
        [output], _ = upgraded(event)
        assert EventEnforcer().feed(output) == [output]
        assert models([output])


def test_the_draft_resume_becomes_a_list() -> None:
    given = {"threadId": "t", "runId": "r", "messages": [], "resume": {"interruptId": "i"}}
    seen: list[Deviation] = []
    output = upgrade_input({**given, "resume": {"interruptId": "i", "payload": 1}},
                           on_deviation=seen.append)  # fmt: skip
    assert output["resume"] == [{"interruptId": "i", "payload": 1, "status": "resolved"}]
    assert [one.path for one in seen] == ["resume"]
    assert enforce_input(output) is output


# -- Python names ----------------------------------------------------------------------


def snake(value: Any, names: dict[str, str]) -> Any:
    """A document with the described keys under their Python names; payloads as they are."""
    if isinstance(value, list):
        return [snake(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        names.get(key, key): inner if key in PAYLOADS else snake(inner, names)
        for key, inner in value.items()
    }


# What may hold anything: its keys are the user's.
PAYLOADS = {
    "content", "delta", "event", "forwardedProps", "metadata", "parameters", "patch", "payload",
    "rawEvent", "responseSchema", "result", "snapshot", "state", "value",
}  # fmt: skip


def python_names() -> dict[str, str]:
    """The Python name of each key of the wire, from the models of the SDK."""
    names = {"encryptedValueType": "encrypted_value_type"}
    for value in vars(ag_ui.core).values():
        if isinstance(value, type) and issubclass(value, BaseModel):
            names |= {
                field.alias: name for name, field in value.model_fields.items() if field.alias
            }
    return names


@pytest.mark.parametrize("seed", range(60))
def test_python_names_become_the_wires(seed: int) -> None:
    names = python_names()
    events = stream(seed)
    spelled = [snake(one, names) for one in events]
    output, seen = upgraded(*spelled)
    assert output == events
    assert kinds(seen) == ["spelling"]
    # As models, which read both.
    assert models(output) == models(spelled)
    _, error = feed_all(client_stages(), spelled)
    assert error is None


def client_stages() -> Pipeline:
    ignore: Any = lambda _: None  # noqa: E731
    return Pipeline(
        LegacyUpgrader(on_deviation=ignore), EventEnforcer(), ChunkExpander(), EventVerifier()
    )


def test_where_python_names_are_read() -> None:
    call = {
        "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"},
        "encrypted_value": "v", "encrypted_value_type": "t",
    }  # fmt: skip
    part = {"type": "image", "source": {"type": "url", "value": URL, "mime_type": "image/png"}}
    messages = [
        {"id": "1", "role": "assistant", "tool_calls": [call], "subagent_run_id": "s"},
        {"id": "2", "role": "tool", "tool_call_id": "c", "content": [part]},
        {"id": "3", "role": "activity", "activity_type": "x", "content": {"message_id": 1}},
    ]
    payload = {"message_id": {"run_id": [{"thread_id": 1}]}}
    started = {
        "type": "RUN_STARTED", "thread_id": "t", "run_id": "r", "parent_run_id": "p",
        "input": {"thread_id": "t", "run_id": "r", "messages": messages, "forwarded_props": payload,
                  "state": payload, "context": [], "tools": [
                      {"name": "f", "description": "", "parameters": payload}],
                  "resume": [{"interrupt_id": "i", "status": "resolved", "payload": payload}]},
    }  # fmt: skip
    interrupt = {"id": "i", "reason": "x", "tool_call_id": "c", "response_schema": payload}
    done = {
        "type": "RUN_FINISHED", "thread_id": "t", "run_id": "r", "result": payload,
        "usage": [{"input_tokens": 1, "cache_write_input_tokens": 2}],
        "outcome": {"type": "interrupt", "interrupts": [interrupt]}, "raw_event": payload,
        "metadata": payload,
    }  # fmt: skip
    output, seen = upgraded(started, done)
    text = json.dumps(output)
    for name in ("tool_call", "encrypted_value", "mime_type", "activity_type", "subagent_run",
                 "forwarded_props", "interrupt_id", "response_schema", "input_tokens",
                 "raw_event", "parent_run_id"):  # fmt: skip
        assert name not in text
    # Payloads are never touched.
    assert text.count(json.dumps(payload)) == 8
    assert output[0]["input"]["messages"][2]["content"] == {"message_id": 1}
    assert output[0]["input"]["messages"][0]["toolCalls"][0]["encryptedValueType"] == "t"
    assert [(one.kind, one.path) for one in seen] == [("spelling", "threadId")]
    assert EventEnforcer(on_deviation=pytest.fail).feed(output[0]) == [output[0]]
    assert EventEnforcer(on_deviation=pytest.fail).feed(output[1]) == [output[1]]


def test_the_wires_own_spelling_wins() -> None:
    both = {"type": "TEXT_MESSAGE_END", "messageId": "m", "message_id": "n"}
    assert upgraded(both)[0][0] is both
    # The null of before 1.0, and the draft of interrupts, under Python names.
    output, seen = upgraded({"type": "TEXT_MESSAGE_END", "message_id": "m", "raw_event": None})
    assert output == [{"type": "TEXT_MESSAGE_END", "messageId": "m"}]
    assert kinds(seen) == ["spelling", "legacy"]
    future = {"type": "FUTURE", "thread_id": "t"}
    assert upgraded(future)[0][0] is future


def test_python_names_of_an_input() -> None:
    given = {"thread_id": "t", "run_id": "r", "forwarded_props": {"a_b": 1}, "messages": [
        {"id": "1", "role": "tool", "tool_call_id": "c", "content": ""}]}  # fmt: skip
    seen: list[Deviation] = []
    output = upgrade_input(given, on_deviation=seen.append)
    assert output == {"threadId": "t", "runId": "r", "forwardedProps": {"a_b": 1}, "messages": [
        {"id": "1", "role": "tool", "toolCallId": "c", "content": ""}]}  # fmt: skip
    assert kinds(seen) == ["spelling"]
    assert enforce_input(output) is output


def test_a_client_reads_python_names() -> None:
    events = [
        {"type": "RUN_STARTED", "thread_id": "t", "run_id": "r"},
        {"type": "TEXT_MESSAGE_CHUNK", "message_id": "m", "delta": "a"},
        {"type": "RUN_FINISHED", "thread_id": "t", "run_id": "r"},
    ]
    seen: list[Deviation] = []
    pipeline = client_pipeline(on_deviation=seen.append)
    output = pipeline.feed(sse(events))
    assert [one.type.value for one in output][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert pipeline.close() == []
    assert kinds(seen) == ["spelling"]


# -- laws ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_streams_of_today_pass_as_they_are(seed: int) -> None:
    for events in (stream(seed), models(stream(seed))):
        output, seen = upgraded(*events)
        assert all(one is other for one, other in zip(output, events, strict=True))
        assert seen == []


def old_stream(seed: int) -> list[Event]:
    """A stream with old shapes in it, as may be."""
    rng = random.Random(seed)
    events = stream(seed)
    for _ in range(6):
        at = rng.randrange(1, len(events))
        choice = rng.randrange(5)
        if choice == 0:
            begin = rng.randrange(len(THINKING))
            events[at:at] = copy.deepcopy(THINKING[begin : rng.randrange(begin, 7)])
        elif choice == 1:
            events[at]["rawEvent"] = None
        elif choice == 2:
            key = rng.choice(["result", "outcome", "parentMessageId", "metadata"])
            events[at][key] = None
        elif choice == 3:
            content = rng.sample(
                [
                    {"type": "text", "text": "x"},
                    binary(url=URL),
                    binary(data="aGk=", filename="a"),
                    binary(id="f"),
                    binary(),
                    {"type": "binary"},
                    {"type": "image", "source": {"type": "url", "value": URL,
                                                 "mimeType": "image/png"}},
                    {"type": "image", "source": {"type": "url", "value": URL}, "metadata": None},
                ],
                3,
            )  # fmt: skip
            message = {"id": "h", "role": "user", "content": content}
            events.insert(at, {"type": "MESSAGES_SNAPSHOT", "messages": [message]})
        else:
            echo = {"messages": [], "forwardedProps": None, "tools": [{"parameters": None}]}
            events.insert(at, {**RUN, "input": echo})
    return events


def with_stable_ids(events: list[Event]) -> list[Event]:
    """Minted ids by the order in which they occur."""
    known: dict[str, str] = {}
    for event in events:
        if event["type"].startswith("REASONING_") and len(event.get("messageId", "")) == 36:
            event["messageId"] = known.setdefault(event["messageId"], f"minted{len(known)}")
    return events


def test_upgrades_agree_with_typescript() -> None:
    streams = [old_stream(seed) for seed in range(400)]
    answers = oracle("stream_upgrade_oracle.mjs", streams)
    for seed, (events, theirs) in enumerate(zip(streams, answers, strict=True)):
        output, error = feed_all(LegacyUpgrader(on_deviation=lambda _: None), events)
        assert error is None
        assert with_stable_ids(output) == with_stable_ids(theirs), f"seed {seed}"


# -- downgrades ------------------------------------------------------------------------


@pytest.mark.parametrize("path", corpus_files("conformance/streams/era-*.json"))
def test_requests_to_older_peers(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    expect = case["expect"]
    given = {"threadId": "t", "runId": "r", "messages": [], **case.get("input", {})}
    peer = case.get("client", {}).get("maxProtocolVersion")
    seen: list[Deviation] = []
    before = copy.deepcopy(given)
    request = downgrade_input(given, peer, on_deviation=seen.append)
    assert given == before
    for key, value in expect.get("request", {}).items():
        assert request[key] == (PROTOCOL_VERSION if key == "protocolVersion" else value)
    for key in expect.get("requestAbsentPaths", []):
        assert key not in request
    if path.stem == "era-0-0-39-flattens-content":
        assert kinds(seen) == ["downgrade_loss"]
        assert "image" in seen[0].detail
    else:
        assert seen == []
    if peer is None:
        assert request["protocolVersion"] == PROTOCOL_VERSION


def test_a_peer_of_today_is_told_the_version_of_the_sdk() -> None:
    given = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}
    assert downgrade_input(given) == {**given, "protocolVersion": PROTOCOL_VERSION}
    assert downgrade_input(given, "1.0")["protocolVersion"] == PROTOCOL_VERSION
    declared = {**given, "protocolVersion": "1.0"}
    assert downgrade_input(declared) is declared
    assert downgrade_input(declared, "0.0.57") == given
    assert downgrade_input(given, "0.0.57") is given


def test_before_0_0_40_content_is_text() -> None:
    image = {"type": "image", "source": {"type": "url", "value": URL}}
    text = {"type": "text", "text": "a"}
    content = [text, image, {"type": "text", "text": "b"}]
    given = {
        "threadId": "t",
        "runId": "r",
        "parentRunId": "p",
        "messages": [
            {"id": "1", "role": "user", "content": content},
            {"id": "2", "role": "assistant"},
            {"id": "3", "role": "user", "content": [{"type": "text", "text": 42}, image]},
            {"id": "4", "role": "assistant", "content": None},
        ],
    }
    seen: list[Deviation] = []
    messages = downgrade_input(given, "0.0.39", on_deviation=seen.append)["messages"]
    assert [message.get("content") for message in messages[:2]] == ["ab", ""]
    # A downgrade repairs nothing: what is malformed is enforcement's to refuse.
    assert messages[2:] == given["messages"][2:]
    assert [one.path for one in seen] == ["messages[0].content", "parentRunId"]
    kept = downgrade_input(given, "0.0.40")["messages"]
    assert kept == given["messages"]


def test_inputs_as_models() -> None:
    given = RunAgentInput.model_validate(
        {
            "threadId": "t",
            "runId": "r",
            "messages": [
                {"id": "1", "role": "user", "content": [{"type": "text", "text": "a"}]},
                {"id": "2", "role": "assistant", "content": "b", "subagentRunId": "s"},
            ],
        }
    )
    seen: list[Deviation] = []
    output = downgrade_input(given, "0.0.39", on_deviation=seen.append)
    assert isinstance(output, RunAgentInput)
    assert output.messages[0].content == "a"
    assert output.messages[1].subagent_run_id is None
    assert [one.path for one in seen] == ["messages[1].subagentRunId"]
    assert given.messages[1].subagent_run_id == "s"


@pytest.mark.parametrize("version", ["", "x", "1", "1.2.3.4", "1.-2", "1.0-beta"])
def test_a_version_that_is_none(version: str) -> None:
    with pytest.raises(ValueError, match="max_version"):
        LegacyDowngrader(version)
    with pytest.raises(ValueError, match="max_version"):
        downgrade_input({}, version)


@pytest.mark.parametrize("seed", range(60))
def test_before_0_0_58_there_are_no_subagents(seed: int) -> None:
    events, _ = feed_all(ChunkExpander(), stream(seed))
    tagged = any("subagentRunId" in json.dumps(event) for event in events)
    for spelled in (events, models(events)):
        seen: list[Deviation] = []
        output, error = feed_all(LegacyDowngrader("0.0.57", on_deviation=seen.append), spelled)
        assert error is None
        assert "ubagent" not in json.dumps(wire(output)).replace("parentSubagentRunId", "")
        assert bool(seen) == tagged
        assert "protocolVersion" not in {key for event in wire(output) for key in event}
        same = [one for one in spelled if any(one is other for other in output)]
        assert len(same) >= 2 or tagged


def test_results_and_interrupts_for_older_peers() -> None:
    result = {
        "type": "TOOL_CALL_RESULT",
        "messageId": "m",
        "toolCallId": "c",
        "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}],
    }
    interrupt = {"id": "i", "reason": "x", "subagentRunId": "s"}
    finished = {**DONE, "outcome": {"type": "interrupt", "interrupts": [interrupt]}}
    seen: list[Deviation] = []
    old = LegacyDowngrader("0.0.39", on_deviation=seen.append)
    assert old.feed(result) == [{**result, "content": "a"}]
    assert old.feed(finished)[0]["outcome"]["interrupts"] == [{"id": "i", "reason": "x"}]
    assert [one.path for one in seen] == ["content", "outcome.interrupts[0].subagentRunId"]
    newer = LegacyDowngrader("1.0")
    assert newer.feed(result)[0] is result
    assert newer.feed(finished)[0] is finished


@pytest.mark.parametrize("check", [downgrade_input, enforce_input])
def test_an_input_that_is_none(check: Any) -> None:
    for wrong in ("x", 5, None):
        with pytest.raises(
            TypeError, match="run_agent_input: a RunAgentInput or a dict is needed, not "
        ):
            check(wrong)
