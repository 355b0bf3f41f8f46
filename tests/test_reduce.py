"""The reducer: `src/state/{reduce,reducer,conversation,message,pending,input}.rs`."""

from __future__ import annotations

import copy
import gc
import json
import logging
import random
import subprocess
import sys
import weakref
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)
from pydantic import TypeAdapter

import agui_codec
import node_peer
from agui_codec import (
    AGUIError,
    ChunkExpander,
    Deviation,
    EventReducer,
    EventVerifier,
    PatchError,
    _validators,
    through,
)
from streams import content, end, event, start, stream

EVENTS = TypeAdapter(Event)


def reducer(*events: Any, **options: Any) -> EventReducer:
    """A reducer over dicts for which a deviation is a failure, unless asked for otherwise."""

    def refuse(deviation: Deviation) -> None:
        raise AssertionError(deviation)

    options = {"as_dict": True, "on_deviation": refuse, **options}
    return EventReducer(**options).apply_all(events)


def deviating(
    *events: Any, **options: Any
) -> tuple[EventReducer, list[tuple[str, str | None, str]]]:
    found: list[Deviation] = []
    reduced = reducer(*events, on_deviation=found.append, **options)
    return reduced, [(one.kind, one.event_type, one.path) for one in found]


def call(call_id: str = "c", name: str = "f", **fields: Any) -> dict[str, Any]:
    return event("TOOL_CALL_START", toolCallId=call_id, toolCallName=name, **fields)


def args(delta: str, call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return event("TOOL_CALL_ARGS", toolCallId=call_id, delta=delta, **fields)


def result(message: str, call_id: str = "c", text: Any = "ok", **fields: Any) -> dict[str, Any]:
    fields = {"messageId": message, "toolCallId": call_id, "content": text, **fields}
    return event("TOOL_CALL_RESULT", **fields)


def snapshot(*messages: Any) -> dict[str, Any]:
    return event("MESSAGES_SNAPSHOT", messages=list(messages))


def user(message: str = "u", text: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"id": message, "role": "user", "content": text, **fields}


def assistant(message: str = "a", text: str = "yes", **fields: Any) -> dict[str, Any]:
    return {"id": message, "role": "assistant", "content": text, **fields}


def tool(message: str, call_id: str = "c") -> dict[str, Any]:
    return {"id": message, "role": "tool", "toolCallId": call_id, "content": "ok"}


def activity(message: str = "p", **content: Any) -> dict[str, Any]:
    return {"id": message, "role": "activity", "activityType": "search", "content": content}


def reasoning(message: str = "q", text: str = "hm") -> dict[str, Any]:
    return {"id": message, "role": "reasoning", "content": text}


def tool_call(call_id: str = "c", name: str = "f", arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def run_started(run: str = "r", **fields: Any) -> dict[str, Any]:
    return event("RUN_STARTED", threadId="t", runId=run, **fields)


def run_finished(run: str = "r", **fields: Any) -> dict[str, Any]:
    return event("RUN_FINISHED", threadId="t", runId=run, **fields)


def interrupted(*interrupts: str, run: str = "r", **more: Any) -> dict[str, Any]:
    entries = [{"id": interrupt, "reason": "why", **more} for interrupt in interrupts]
    return run_finished(run, outcome={"type": "interrupt", "interrupts": entries})


def ids(reduced: EventReducer) -> list[str]:
    return [message["id"] for message in reduced.messages]


# Text ------------------------------------------------------------------------------------------


def test_text_messages() -> None:
    reduced = reducer(start(), content("Hello, "), content(""), content("world 😀"), end())
    assert reduced.messages == [{"id": "m", "role": "assistant", "content": "Hello, world 😀"}]
    reduced = reducer(start(role="user", name="Ada", subagentRunId="s"))
    assert reduced.messages == [
        {"id": "m", "role": "user", "content": "", "name": "Ada", "subagentRunId": "s"}
    ]


def test_a_message_that_reopens_goes_on() -> None:
    reduced = reducer(
        start(name="Ada"), content("a"), end(), start(role="user"), content("b"), end()
    )
    assert reduced.messages == [{"id": "m", "role": "assistant", "content": "ab", "name": "Ada"}]
    reduced = reducer(snapshot(assistant("m", "before ")), start(), content("after"))
    assert reduced.messages == [assistant("m", "before after")]


def test_text_replaces_content_that_is_no_text() -> None:
    parts = [{"type": "text", "text": "hi"}]
    reduced = reducer(snapshot(user("m", parts)), start(), content("a"), content("b"))
    assert reduced.messages == [user("m", "ab")]


def test_reasoning_messages() -> None:
    reduced = reducer(
        event("REASONING_START", messageId="s"),
        event("REASONING_MESSAGE_START", messageId="q", role="reasoning", subagentRunId="s1"),
        event("REASONING_MESSAGE_CONTENT", messageId="q", delta="h"),
        event("REASONING_MESSAGE_CONTENT", messageId="q", delta="m", metadata={"k": 1}),
        event("REASONING_MESSAGE_END", messageId="q"),
        event("REASONING_END", messageId="s", metadata={"not": "kept"}),
    )
    assert reduced.messages == [{**reasoning(), "subagentRunId": "s1", "metadata": {"k": 1}}]


def test_unknown_targets_are_skipped_and_reported() -> None:
    _, found = deviating(
        content("x"),
        end(),
        args("x"),
        event("TOOL_CALL_END", toolCallId="c"),
        event("REASONING_MESSAGE_CONTENT", messageId="m", delta="x"),
    )
    assert found == [
        ("unknown_target", "TEXT_MESSAGE_CONTENT", "messageId"),
        ("unknown_target", "TEXT_MESSAGE_END", "messageId"),
        ("unknown_target", "TOOL_CALL_ARGS", "toolCallId"),
        ("unknown_target", "TOOL_CALL_END", "toolCallId"),
        ("unknown_target", "REASONING_MESSAGE_CONTENT", "messageId"),
    ]


def test_deviations_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agui_codec"):
        EventReducer().apply(content("x"))
    assert [record.getMessage() for record in caplog.records] == [
        "TEXT_MESSAGE_CONTENT: messageId: there is no message 'm'; the event was skipped"
    ]


def test_the_callback_may_use_the_reducer_and_refuse() -> None:
    seen: list[Any] = []

    def look(deviation: Deviation) -> None:
        seen.append(reduced.messages)
        reduced.apply(start("other"))
        raise RuntimeError("refused")

    reduced = EventReducer(as_dict=True, on_deviation=look)
    with pytest.raises(RuntimeError, match="refused"):
        reduced.apply(content("x"))
    assert seen == [[]]
    assert ids(reduced) == ["other"]


# Tool calls ------------------------------------------------------------------------------------


def test_calls_attach_to_their_parent() -> None:
    reduced = reducer(
        start(),
        content("text"),
        end(),
        call(parentMessageId="m"),
        args('{"a"'),
        call("d", "g", parentMessageId="m"),
        args(":1}"),
        args("[]", "d"),
    )
    assert reduced.messages == [
        assistant(
            "m", "text", toolCalls=[tool_call("c", "f", '{"a":1}'), tool_call("d", "g", "[]")]
        )
    ]


def test_calls_without_a_fitting_parent_get_a_message() -> None:
    reduced = reducer(call(subagentRunId="s"))
    assert reduced.messages == [
        {"id": "c", "role": "assistant", "subagentRunId": "s", "toolCalls": [tool_call()]}
    ]
    assert ids(reducer(call(parentMessageId=""))) == ["c"]
    # A parent that comes later is the same message.
    reduced = reducer(call(parentMessageId="ghost"), start("ghost"), content("x", "ghost"))
    assert reduced.messages == [assistant("ghost", "x", toolCalls=[tool_call()])]
    reduced, found = deviating(start(role="user"), call(parentMessageId="m"))
    assert ids(reduced) == ["m", "c"]
    assert found == [("foreign_parent", "TOOL_CALL_START", "parentMessageId")]


def test_a_replayed_start_does_not_duplicate_a_call() -> None:
    history = snapshot(assistant("m", "", toolCalls=[tool_call("c", "f", '{"a":1}')]))
    assert reducer(history, call()).messages == history["messages"]
    reduced, found = deviating(history, call(name="g", metadata={"k": 1}), args(" "))
    assert reduced.messages[0]["toolCalls"] == [
        {**tool_call("c", "g", '{"a":1} '), "metadata": {"k": 1}}
    ]
    assert found == [("renamed_call", "TOOL_CALL_START", "toolCallName")]


def test_results_stand_behind_their_call() -> None:
    calls = [call(), call("d", parentMessageId="c")]
    later = [start("later"), end("later")]
    reduced = reducer(*calls, *later, result("r1"), result("r2", "d"), result("r3", "unknown"))
    assert ids(reduced) == ["c", "r1", "r2", "later", "r3"]
    parts = [{"type": "text", "text": "t"}]
    reduced = reducer(call(), result("r1", text=parts, subagentRunId="s", metadata={"k": None}))
    assert reduced.messages[1] == {
        "id": "r1", "role": "tool", "toolCallId": "c", "content": parts, "subagentRunId": "s",
        "metadata": {"k": None},
    }  # fmt: skip


def test_text_may_go_on_in_a_result() -> None:
    assert (
        reducer(call(), result("r"), start("r"), content("!", "r")).messages[1]["content"] == "ok!"
    )


# Snapshots -------------------------------------------------------------------------------------


def test_r1_activity_and_reasoning_survive_a_snapshot_without_any() -> None:
    local = [user(), activity(), reasoning(), assistant()]
    reduced = reducer(snapshot(*local), snapshot(user(text="u'"), assistant(text="a'")))
    assert reduced.messages == [user(text="u'"), activity(), reasoning(), assistant(text="a'")]
    reduced = reducer(snapshot(*local), snapshot(user(), activity("p2")))
    assert ids(reduced) == ["u", "q", "p2"]
    reduced = reducer(snapshot(*local), snapshot(reasoning("q2")))
    assert ids(reduced) == ["p", "q2"]


def test_r2_known_ids_in_place_and_unseen_ones_appended() -> None:
    reduced = reducer(
        snapshot(user(), tool("t1"), assistant()), snapshot(user(), tool("t9"), assistant())
    )
    assert ids(reduced) == ["u", "a", "t9"]
    # A snapshot that repeats an id makes one message of it, the last.
    repeated = [("repeated_id", "MESSAGES_SNAPSHOT", "messages[2].id")]
    reduced, found = deviating(snapshot(user(text="1"), assistant(), user(text="2")))
    assert (reduced.messages, found) == ([user(text="2"), assistant()], repeated)
    reduced, found = deviating(
        snapshot(user()), snapshot(user(text="1"), tool("t"), user(text="2"))
    )
    assert (reduced.messages, found) == ([user(text="2"), tool("t")], repeated)


def test_after_a_snapshot_ids_and_calls_are_found_again() -> None:
    held = assistant("m", "", toolCalls=[tool_call("c", "f", "[")])
    reduced = reducer(
        call(), snapshot(user(), held), args("1]"), result("r"), start("m"), content("x")
    )
    assert ids(reduced) == ["u", "m", "r"]
    assert reduced.messages[1] == {
        **held,
        "content": "x",
        "toolCalls": [tool_call("c", "f", "[1]")],
    }
    _, found = deviating(call(), snapshot(user()), args("x"))
    assert found == [("unknown_target", "TOOL_CALL_ARGS", "toolCallId")]


def test_run_started_adds_messages_that_are_not_there() -> None:
    echo = {"threadId": "t", "runId": "r", "messages": [user(text="other"), user("u2")]}
    reduced = reducer(snapshot(user()), run_started(input=echo))
    assert reduced.messages == [user(), user("u2")]
    assert (reduced.thread_id, reduced.run_id) == ("t", "r")
    echo["messages"] = [user(text="1"), user(text="2")]
    reduced, found = deviating(run_started(input=echo))
    assert reduced.messages == [user(text="1")]
    assert found == [("repeated_id", "RUN_STARTED", "input.messages[1].id")]


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, [1], "text", 1.5])
def test_any_json_value_is_a_state(value: Any) -> None:
    reduced = reducer(
        event("STATE_SNAPSHOT", snapshot={"a": 1}), event("STATE_SNAPSHOT", snapshot=value)
    )
    assert reduced.state == value
    assert type(reduced.state) is type(value)
    model = EVENTS.validate_python(event("STATE_SNAPSHOT", snapshot=value))
    assert reducer(model, state={"a": 1}).state == value


def test_state_deltas() -> None:
    add = event("STATE_DELTA", delta=[{"op": "add", "path": "/a/-", "value": 1}])
    reduced = reducer(event("STATE_SNAPSHOT", snapshot={"a": []}), add, add)
    assert reduced.state == {"a": [1, 1]}
    before = reduced.state
    reduced.apply(add)
    assert before == {"a": [1, 1]}
    assert reduced.state == {"a": [1, 1, 1]}


def test_a_delta_that_does_not_apply_is_skipped_whole() -> None:
    patch = [{"op": "replace", "path": "/a", "value": 2}, {"op": "remove", "path": "/zz"}]
    reduced, found = deviating(event("STATE_DELTA", delta=patch), state={"a": 1})
    assert reduced.state == {"a": 1}
    assert found == [("patch_not_applied", "STATE_DELTA", "delta[1]")]


def test_an_unknown_op_is_dropped_and_a_malformed_one_fatal() -> None:
    patch = [{"op": "frobnicate", "path": "/a"}, {"op": "add", "path": "/b", "value": 1}]
    reduced, found = deviating(event("STATE_DELTA", delta=patch), state={})
    assert reduced.state == {"b": 1}
    assert found == [("unknown_op", "STATE_DELTA", "delta[0].op")]
    with pytest.raises(PatchError, match='operation 0: add needs a "value"'):
        reduced.apply(event("STATE_DELTA", delta=[{"op": "add", "path": "/b"}]))


# Activities ------------------------------------------------------------------------------------


def activity_snapshot(message: str = "p", **fields: Any) -> dict[str, Any]:
    fields = {"activityType": "search", "content": {"n": 0}, **fields}
    return event("ACTIVITY_SNAPSHOT", messageId=message, **fields)


def activity_delta(*patch: Any, message: str = "p", **fields: Any) -> dict[str, Any]:
    fields = {"activityType": "search", "patch": list(patch), **fields}
    return event("ACTIVITY_DELTA", messageId=message, **fields)


SET_N = {"op": "replace", "path": "/n", "value": 1}


def test_activities() -> None:
    reduced = reducer(
        activity_snapshot(subagentRunId="s", metadata={"a": 1}),
        activity_delta(SET_N, activityType="found"),
    )
    assert reduced.messages == [
        {**activity(n=1), "activityType": "found", "subagentRunId": "s", "metadata": {"a": 1}}
    ]
    # A snapshot mints the owner again and keeps the metadata.
    reduced.apply(activity_snapshot(content={"x": 1}, metadata={"b": 2}))
    assert reduced.messages == [{**activity(x=1), "metadata": {"a": 1, "b": 2}}]
    reduced.apply(
        activity_snapshot(content={"y": 1}, replace=False, subagentRunId="z", metadata={"a": 3})
    )
    assert reduced.messages == [{**activity(x=1), "metadata": {"a": 3, "b": 2}}]


def test_j14_activity_deltas_without_their_target() -> None:
    reduced, found = deviating(start(), activity_delta(SET_N), activity_delta(SET_N, message="m"))
    assert reduced.messages == [assistant("m", "")]
    assert found == [
        ("unknown_target", "ACTIVITY_DELTA", "messageId"),
        ("foreign_target", "ACTIVITY_DELTA", "messageId"),
    ]


def test_activity_deltas_that_do_not_apply() -> None:
    missing = {"op": "remove", "path": "/zz"}
    reduced, found = deviating(
        activity_snapshot(), activity_delta(SET_N, missing, activityType="x", metadata={"k": 1})
    )
    # Metadata is not part of the patch.
    assert reduced.messages == [{**activity(n=0), "metadata": {"k": 1}}]
    assert found == [("patch_not_applied", "ACTIVITY_DELTA", "patch[1]")]
    reduced, found = deviating(
        activity_snapshot(), activity_delta({"op": "replace", "path": "", "value": 1})
    )
    assert reduced.messages == [activity(n=0)]
    assert found == [("patch_not_applied", "ACTIVITY_DELTA", "patch")]


def test_text_never_touches_an_activity() -> None:
    events = [
        start("p", metadata={"k": 1}), content("x", "p"), end("p", metadata={"k": 1}),
        event("REASONING_MESSAGE_START", messageId="p", role="reasoning"),
        event("REASONING_MESSAGE_CONTENT", messageId="p", delta="x"),
        event("REASONING_MESSAGE_END", messageId="p"),
    ]  # fmt: skip
    reduced, found = deviating(activity_snapshot(), *events)
    assert reduced.messages == [activity(n=0)]
    assert [kind for kind, _, _ in found] == ["foreign_target"] * 6


def test_an_activity_takes_the_place_of_another_message() -> None:
    reduced, found = deviating(call(), activity_snapshot("c"), args("x"))
    assert reduced.messages == [activity("c", n=0)]
    assert [kind for kind, _, _ in found] == ["foreign_target", "unknown_target"]
    reduced, found = deviating(start(), activity_snapshot("m", replace=False))
    assert reduced.messages == [assistant("m", "")]
    assert found == [("foreign_target", "ACTIVITY_SNAPSHOT", "messageId")]


# Metadata and encrypted values -----------------------------------------------------------------


def test_r12_metadata_merges_by_key() -> None:
    reduced = reducer(
        start(metadata={"k": ["a", "b"], "n": None}),
        content("x", metadata={"k": ["c"]}),
        end(metadata={"e": {}}),
    )
    assert reduced.messages[0]["metadata"] == {"k": ["c"], "n": None, "e": {}}
    assert "metadata" not in reducer(start()).messages[0]
    assert reducer(start(metadata={})).messages[0]["metadata"] == {}
    before = reduced.messages
    reduced.apply(start(metadata={"k": 1}))
    assert before[0]["metadata"]["k"] == ["c"]
    assert reduced.messages[0]["metadata"]["k"] == 1


def test_metadata_of_calls_lands_on_the_call() -> None:
    reduced = reducer(call(metadata={"a": 1}), args("x", metadata={"b": 1}),
                      event("TOOL_CALL_END", toolCallId="c", metadata={"a": 2}))  # fmt: skip
    assert reduced.messages == [
        {"id": "c", "role": "assistant",
         "toolCalls": [{**tool_call("c", "f", "x"), "metadata": {"a": 2, "b": 1}}]}
    ]  # fmt: skip


def encrypted(entity: str, subtype: str = "message", **fields: Any) -> dict[str, Any]:
    fields = {"subtype": subtype, "entityId": entity, "encryptedValue": "b3A=", **fields}
    return event("REASONING_ENCRYPTED_VALUE", **fields)


def test_r11_encrypted_values() -> None:
    reduced = reducer(
        start(), encrypted("m", encryptedValueType="sig"), call(), encrypted("c", "tool-call")
    )
    assert reduced.messages[0] == {
        **assistant("m", ""), "encryptedValue": "b3A=", "encryptedValueType": "sig"
    }  # fmt: skip
    assert reduced.messages[1]["toolCalls"] == [{**tool_call(), "encryptedValue": "b3A="}]
    # The type goes with the value.
    reduced.apply(encrypted("m", encryptedValue="x"))
    assert reduced.messages[0] == {**assistant("m", ""), "encryptedValue": "x"}
    reduced.apply(snapshot(assistant("m", "")))
    assert reduced.messages == [assistant("m", "")]
    models = reducer(start(), encrypted("m", encryptedValueType="sig"), as_dict=False).messages
    assert models[0].encrypted_value == "b3A="
    assert models[0].encryptedValueType == "sig"


def test_r11_unknown_entities_and_subtypes() -> None:
    _, found = deviating(
        activity_snapshot(), encrypted("zz"), encrypted("p"), encrypted("zz", "tool-call"),
        encrypted("p", "future"),
    )  # fmt: skip
    assert found == [
        ("unknown_target", "REASONING_ENCRYPTED_VALUE", "entityId"),
        ("unknown_target", "REASONING_ENCRYPTED_VALUE", "entityId"),
        ("unknown_target", "REASONING_ENCRYPTED_VALUE", "entityId"),
        ("unknown_subtype", "REASONING_ENCRYPTED_VALUE", "subtype"),
    ]


# Which activities a snapshot says that it has all of.
AUTHORITATIVE: list[Any] = [
    {}, {"@ag-ui/client": None}, {"@ag-ui/client": {}}, {"@ag-ui/client": [1]},
    *(
        {"@ag-ui/client": {"authoritativeActivityTypes": types}}
        for types in (None, [], ["search"], ["plan", "search"], ["other"], ["search", 1], "plan", 5)
    ),
]  # fmt: skip


def test_activities_of_authoritative_types_are_dropped_as_by_the_typescript_client() -> None:
    local = snapshot(user(), activity(), {**activity("p2"), "activityType": "plan"}, reasoning())
    jobs = [
        {"events": [local, {**snapshot(*messages), "metadata": metadata}]}
        for metadata in AUTHORITATIVE
        for messages in ([user()], [user(), activity("p3")], [user(), activity("p2")])
    ]
    for job, theirs in zip(jobs, node_peer.run("state_oracle.mjs", jobs), strict=True):
        assert (job, reducer(*job["events"]).messages) == (job, theirs["messages"])
        models = [EVENTS.validate_python(one) for one in job["events"]]
        assert (job, reducer(*models).messages) == (job, theirs["messages"])
    # What a snapshot without them leaves, and one with null does not.
    assert {len(reducer(*job["events"]).messages) for job in jobs} >= {2, 4}


# What is pending -------------------------------------------------------------------------------


def test_pending_interrupts_until_they_are_answered() -> None:
    reduced = reducer(run_started(), interrupted("i1", "i2", message=None))
    pending = [{"id": "i1", "reason": "why"}, {"id": "i2", "reason": "why"}]
    assert reduced.pending_interrupts == pending
    # A run that was not started to answer them leaves them, whatever becomes of it.
    reduced.apply_all([run_started("r2"), run_finished("r2")])
    assert reduced.pending_interrupts == pending
    resume = [{"interruptId": "i1", "status": "resolved"}]
    echo = {"threadId": "t", "runId": "r3", "messages": [], "resume": resume}
    reduced.apply_all([run_started("r3", input=echo), event("RUN_ERROR", message="x")])
    assert reduced.pending_interrupts == pending
    reduced.apply_all([run_started("r4", input=echo), run_finished("r4")])
    assert reduced.pending_interrupts == pending[1:]
    # What was asked before a run that interrupts again is not asked any more.
    reduced.apply_all([run_started("r5"), interrupted("i3", run="r5")])
    assert [one["id"] for one in reduced.pending_interrupts] == ["i3"]


def test_pending_tool_calls() -> None:
    calls = [run_started(), call("c"), call("d"), result("r", "c")]
    assert reducer(*calls).pending_tool_calls == ["d"]
    assert reducer(*calls, run_finished()).pending_tool_calls == ["d"]
    named = {"type": "success", "pendingToolCallIds": ["c", "x"]}
    assert reducer(*calls, run_finished(outcome=named)).pending_tool_calls == ["c", "x"]
    none = {"type": "success", "pendingToolCallIds": []}
    assert reducer(*calls, run_finished(outcome=none)).pending_tool_calls == ["d"]
    assert reducer(*calls, run_finished(), run_started("r2")).pending_tool_calls == []


# The next input --------------------------------------------------------------------------------


def test_next_input() -> None:
    reduced = reducer(
        run_started(),
        start(),
        content("hi"),
        end(),
        activity_snapshot(),
        run_finished(),
        state={"a": 1},
    )
    reduced.add_message(UserMessage(id="u", content="go on"))
    built = reduced.next_input("r2", tools=[{"name": "f", "description": "d"}], parent_run_id="r")
    assert built == {
        "threadId": "t", "runId": "r2", "protocolVersion": "1.0", "parentRunId": "r",
        "state": {"a": 1}, "messages": [assistant("m", "hi"), user(text="go on")],
        "tools": [{"name": "f", "description": "d"}], "context": [], "forwardedProps": {},
    }  # fmt: skip
    built["state"]["a"] = built["messages"][0]["content"] = "changed"
    assert reduced.state == {"a": 1}
    assert reduced.messages[0] == assistant("m", "hi")
    model = reducer(start(), as_dict=False).next_input("r", thread_id="t", protocol_version=None)
    assert model == RunAgentInput(
        thread_id="t", run_id="r", messages=[AssistantMessage(id="m", content="")], tools=[],
        context=[], forwarded_props={}, state={},
    )  # fmt: skip
    with pytest.raises(AGUIError, match="thread_id is needed"):
        reducer().next_input("r")


def test_the_version_that_inputs_declare_is_that_of_the_sdk() -> None:
    script = """if True:
        import ag_ui.core
        ag_ui.core.PROTOCOL_VERSION = "9.8"
        from agui_codec import EventReducer, downgrade_input
        print(EventReducer(as_dict=True).next_input("r", thread_id="t")["protocolVersion"])
        print(downgrade_input({"threadId": "t", "runId": "r", "messages": []})["protocolVersion"])
    """
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["9.8", "9.8"]


def test_history_is_not_repeated_when_asked() -> None:
    reduced = reducer(run_started(), start(), end(), run_finished(), messages=[user("u0")])
    reduced.add_message(user("u1"))

    def said() -> list[str]:
        built = reduced.next_input("r2", history=False)
        return [message["id"] for message in built["messages"]]

    assert said() == ["u1"]
    # The run has not started: the other side may not have it.
    assert said() == ["u1"]
    reduced.apply(run_started("r2"))
    reduced.add_message(user("u2"))
    assert said() == ["u2"]


def test_resume_has_to_answer_everything_once() -> None:
    reduced = reducer(run_started(), interrupted("i1", "i2"))
    one, two = ({"interruptId": i, "status": "resolved"} for i in ("i1", "i2"))
    for resume, message in (
        (None, "answer every pending interrupt, and 'i1', 'i2' is not"),
        ([one], "'i2' is not"),
        ([one, two, one], "answers 'i1' twice"),
        ([one, two, {"interruptId": "zz", "status": "resolved"}], "'zz', which is not pending"),
        ([one, {"status": "resolved"}], "without an interruptId"),
    ):
        with pytest.raises(AGUIError, match=message):
            reduced.next_input("r2", resume=resume)
    assert reduced.next_input("r2", resume=[two, one])["resume"] == [two, one]
    reduced.apply_all([run_started("r2"), run_finished("r2")])
    assert reduced.pending_interrupts == []


def test_an_expired_interrupt_can_only_be_cancelled() -> None:
    for expires, expired in (
        ("2020-01-01T00:00:00Z", True), ("2020-01-01T00:00:00", True), ("nonsense", False),
        ("2999-01-01T00:00:00+02:00", False),
    ):  # fmt: skip
        reduced = reducer(run_started(), interrupted("i", expiresAt=expires))
        answer = [{"interruptId": "i", "status": "resolved", "payload": None}]
        if expired:
            with pytest.raises(AGUIError, match="can only be cancelled"):
                reduced.next_input("r2", resume=answer)
        else:
            reduced.next_input("r2", resume=answer)
        reduced.next_input("r2", resume=[{"interruptId": "i", "status": "cancelled"}])


def test_models_stay_models_after_an_input() -> None:
    dicts = [user("u"), assistant("a")]
    for given in (dicts, [TypeAdapter(Message).validate_python(one) for one in dicts]):
        reduced = EventReducer(given)  # type: ignore[arg-type]
        reduced.apply_all([run_started(), start(), content("x"), call(parentMessageId="m")])
        first = reduced.messages[0]
        for fresh in (reduced, reduced.fork()):
            for history in (True, False):
                fresh.next_input("r2", history=history)
            assert type(first) is UserMessage
            kinds = [UserMessage, AssistantMessage, AssistantMessage]
            assert [type(one) for one in fresh.messages] == kinds
            assert type(fresh.message("m")) is AssistantMessage
        as_dict = EventReducer(given, as_dict=True)  # type: ignore[arg-type]
        as_dict.apply(run_started())
        as_dict.next_input("r2")
        assert as_dict.messages == dicts


def test_there_is_no_null_state_unless_the_stream_says_so() -> None:
    reduced = reducer(run_started())
    assert reduced.next_input("r2")["state"] == {}
    assert reduced.fork().next_input("r2")["state"] == {}
    reduced.apply(event("STATE_SNAPSHOT", snapshot=None))
    assert reduced.next_input("r2")["state"] is None
    assert reduced.fork().next_input("r2")["state"] is None
    reduced = reducer(run_started())
    reduced.replace(state=None)
    assert reduced.next_input("r2")["state"] is None


def test_what_an_input_brings_is_known_even_after_a_snapshot() -> None:
    reduced = reducer(run_started(), start(), messages=[user("u0")])
    reduced.add_message(user("u1"))
    assert [one["id"] for one in reduced.next_input("r2", history=False)["messages"]] == ["u1"]
    reduced.apply_all([snapshot(user("u1")), end("u1"), run_finished(), run_started("r2")])
    assert reduced.next_input("r3", history=False)["messages"] == []


# Parts of the conversation ---------------------------------------------------------------------


@pytest.mark.parametrize("as_model", [False, True])
def test_text_and_calls_by_id(as_model: bool) -> None:
    given = [
        user("u", "hi"), user("v", [{"type": "text", "text": "t"}]),
        assistant("a", "yes", toolCalls=[tool_call("c0", "g", "{}"), tool_call("c1")]),
        {"id": "n", "role": "assistant"}, activity(),
    ]  # fmt: skip
    models = [TypeAdapter(Message).validate_python(one) for one in given]
    reduced = reducer(messages=models if as_model else given)
    texts = {one["id"]: reduced.text(one["id"]) for one in given}
    assert texts == {"u": "hi", "v": None, "a": "yes", "n": None, "p": None}
    assert (reduced.text("zz"), reduced.tool_call("zz")) == (None, None)
    assert [reduced.tool_call(one) for one in ("c0", "c1")] == [("g", "{}"), ("f", "")]
    reduced.apply_all([start(), content("x"), content("y"), call(), args("1"), args("2")])
    assert reduced.text("m") == "xy"
    assert reduced.tool_call("c") == ("f", "12")
    reduced.apply_all([args("}", "c0"), content("!", "a"), activity_delta()])
    assert (reduced.tool_call("c0"), reduced.text("a")) == (("g", "{}}"), "yes!")
    assert reduced.text("p") is None


def test_replace() -> None:
    reduced = reducer(
        run_started(), start(), call(), interrupted("i"), messages=[user("u0")], state={"a": 1}
    )
    reduced.add_message(user("u1"))
    state = {"b": [1]}
    reduced.replace(state=state)
    state["b"].append(2)
    assert reduced.state == {"b": [1]}
    assert ids(reduced) == ["u0", "m", "c", "u1"]
    changed = user("u0", "changed")
    reduced.replace(messages=(one for one in [changed, user("u1"), user("new"), assistant("m")]))
    assert reduced.messages == [changed, user("u1"), user("new"), assistant("m")]
    assert reduced.state == {"b": [1]}
    assert reduced.pending_tool_calls == ["c"]
    assert [one["id"] for one in reduced.pending_interrupts] == ["i"]
    assert (reduced.thread_id, reduced.run_id) == ("t", "r")
    resume = [{"interruptId": "i", "status": "cancelled"}]
    built = reduced.next_input("r2", history=False, resume=resume)
    assert [one["id"] for one in built["messages"]] == ["u1", "new"]
    reduced.apply(content("!", "m"))
    assert reduced.text("m") == "yes!"
    for bad in ([user("x"), 5], [user("x"), {}]):
        with pytest.raises((TypeError, AGUIError)):
            reduced.replace(messages=bad, state=1)  # type: ignore[list-item]
    assert (len(reduced.messages), reduced.state) == (4, {"b": [1]})
    reduced.replace()
    assert (len(reduced.messages), reduced.state) == (4, {"b": [1]})
    reduced.replace(messages=[])
    assert reduced.messages == []


def test_repr() -> None:
    assert repr(EventReducer()) == (
        "EventReducer(thread_id=None, run_id=None, messages=0, state=NoneType, "
        "pending_interrupts=0, pending_tool_calls=0)"
    )
    assert repr(reducer(run_started(), call(), interrupted("i"), state={})) == (
        "EventReducer(thread_id='t', run_id='r', messages=1, state=dict, "
        "pending_interrupts=1, pending_tool_calls=1)"
    )


@pytest.mark.parametrize("give", [EventReducer, lambda m: EventReducer().replace(messages=m)])
def test_what_is_no_message(give: Any) -> None:
    with pytest.raises(TypeError, match=r"messages\[1\]: a message is a model .* not int"):
        give([user(), 5])
    with pytest.raises(TypeError, match="messages: an iterable of messages is needed, not int"):
        give(5)
    with pytest.raises(AGUIError, match='a message has an "id"'):
        give([{}])
    with pytest.raises(TypeError, match="not int"):
        EventReducer().add_message(5)  # type: ignore[arg-type]
    with pytest.raises(AGUIError, match=r"MESSAGES_SNAPSHOT: messages\[0\]: .* not int"):
        EventReducer().apply(snapshot(5))


# Either spelling, and no aliasing --------------------------------------------------------------


def test_changes() -> None:
    reduced = reducer()
    change = reduced.apply(start())
    assert (change.message_ids, change.state, bool(change)) == (("m",), False, True)
    assert repr(change) == "Change(message_ids=('m',), state=False)"
    assert not reduced.apply(end())
    assert reduced.apply(event("STATE_SNAPSHOT", snapshot=1)).state
    assert not reduced.apply(event("CUSTOM", name="n", value=1))
    assert reduced.apply(call()).message_ids == ("c",)
    assert reduced.apply(args("x")).message_ids == ("c",)
    assert reduced.apply(snapshot(user(), assistant("m"))).message_ids == ("c", "m", "u")


def test_one_message_by_id() -> None:
    reduced = reducer(start(), content("a"))
    assert reduced.message("m") == assistant("m", "a")
    assert reduced.message("zz") is None


def test_kept_snapshots_do_not_change() -> None:
    reduced = reducer(start(), content("a"), call(parentMessageId="m"))
    before = reduced.messages
    text = json.dumps(before)
    reduced.apply_all(
        [content("b"), args("x"), encrypted("m"), encrypted("c", "tool-call"), start("n")]
    )
    assert json.dumps(before) == text
    again = reduced.messages
    assert again is not reduced.messages
    # What was not written to is the same object.
    assert again[1] is reduced.messages[1]
    reduced.apply(content("c"))
    assert again[0] is not reduced.messages[0]


@pytest.mark.parametrize("as_model", [False, True])
def test_events_are_not_changed_nor_kept(as_model: bool) -> None:
    events: list[Any] = [
        snapshot(user("u", [{"type": "text", "text": "x"}], metadata={"k": [1]})),
        event("STATE_SNAPSHOT", snapshot={"a": [1]}),
        activity_snapshot(content={"n": [1]}),
        call(metadata={"k": [1]}), result("r", text=[{"type": "text", "text": "x"}]),
        event("STATE_DELTA", delta=[{"op": "add", "path": "/b", "value": [1]}]),
    ]  # fmt: skip
    if as_model:
        events = [EVENTS.validate_python(one) for one in events]
    texts = [agui_codec.to_json(one) for one in events]
    reduced = reducer(*events)
    reduced.apply_all(
        [
            start("u"),
            content("y", "u", metadata={"z": 1}),
            activity_delta({"op": "add", "path": "/n/-", "value": 2}),
        ]
    )
    assert [agui_codec.to_json(one) for one in events] == texts
    before = json.dumps([reduced.messages, reduced.state])
    for one in events:
        mutate(one)
    assert json.dumps([reduced.messages, reduced.state]) == before


def mutate(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            mutate(inner)
        value["mutated"] = 1
    elif isinstance(value, list):
        for inner in value:
            mutate(inner)
        value.append("mutated")
    elif hasattr(value, "model_fields_set"):
        for inner in vars(value).values():
            mutate(inner)


class OwnContent(TextMessageContentEvent):
    pass


def test_what_is_an_event() -> None:
    assert reducer(start(), OwnContent(message_id="m", delta="x")).messages[0]["content"] == "x"
    assert not reducer().apply(event("FUTURE_EVENT", messageId="m"))
    for bad, message in (
        (1, "not an AG-UI event: int"), (None, "not an AG-UI event: NoneType"),
        (UserMessage(id="u", content="x"), "not an AG-UI event: UserMessage"),
        ({}, 'missing "type"'), ({"type": 1}, '"type" must be a string, not int'),
    ):  # fmt: skip
        with pytest.raises(AGUIError, match=f"^{message}$"):
            reducer().apply(bad)  # type: ignore[arg-type]
    for chunk in ("TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"):
        with pytest.raises(AGUIError, match=f"{chunk}: chunks are expanded"):
            reducer().apply(event(chunk, delta="x"))
    for bad, message in (
        (
            event("TEXT_MESSAGE_CONTENT", delta="x"),
            "TEXT_MESSAGE_CONTENT: messageId: a str is needed",
        ),
        (event("TEXT_MESSAGE_START", messageId=5), "messageId: a str is needed, not int"),
        (event("STATE_SNAPSHOT"), "STATE_SNAPSHOT: snapshot"),
        (event("MESSAGES_SNAPSHOT", messages=1), "messages: a list is needed"),
        (start(metadata=1), "metadata: an object is needed"),
        (snapshot({"role": "user"}), 'a message has an "id"'),
    ):
        with pytest.raises(AGUIError, match=message):
            reducer().apply(bad)


def test_snake_case_and_enum_types() -> None:
    events = [
        {"type": TextMessageStartEvent(message_id="m").type, "message_id": "m"},
        {"type": "TEXT_MESSAGE_CONTENT", "message_id": "m", "delta": "x"},
        {
            "type": "TOOL_CALL_START",
            "tool_call_id": "c",
            "tool_call_name": "f",
            "parent_message_id": "m",
        },
        {
            "type": "RUN_STARTED",
            "thread_id": "t",
            "run_id": "r",
            "input": {
                "thread_id": "t",
                "run_id": "r",
                "messages": [
                    {
                        "id": "a",
                        "role": "assistant",
                        "tool_calls": [tool_call("d")],
                        "subagent_run_id": None,
                    }
                ],
            },
        },
        args("x", "d"),
    ]
    reduced = reducer(*events)
    assert reduced.messages == [
        assistant("m", "x", toolCalls=[tool_call()]),
        {"id": "a", "role": "assistant", "toolCalls": [tool_call("d", "f", "x")]},
    ]


def verified(seed: int) -> list[dict[str, Any]]:
    return list(through(stream(seed), ChunkExpander(), EventVerifier()))


@pytest.mark.parametrize("seed", range(60))
def test_models_and_dicts_add_up_to_the_same(seed: int) -> None:
    events = verified(seed)
    models = [EVENTS.validate_python(one) for one in events]
    quiet: dict[str, Any] = {"on_deviation": lambda _: None}
    from_dicts = reducer(*events, **quiet)
    from_models = reducer(*models, as_dict=False, **quiet)
    crossed = reducer(*models, **quiet)
    assert crossed.messages == from_dicts.messages
    assert crossed.state == from_models.state == from_dicts.state
    crossed_models = reducer(*events, as_dict=False, **quiet).messages
    assert from_models.messages == crossed_models
    dumped = [message.model_dump(by_alias=True) for message in from_models.messages]
    assert dumped == [normal(message) for message in from_dicts.messages]
    assert from_models.pending_tool_calls == from_dicts.pending_tool_calls
    assert [one.id for one in from_models.pending_interrupts] == [
        one["id"] for one in from_dicts.pending_interrupts
    ]


def normal(message: dict[str, Any]) -> dict[str, Any]:
    from ag_ui.core import Message

    return TypeAdapter(Message).validate_python(message).model_dump(by_alias=True)  # type: ignore[no-any-return]


# Branches --------------------------------------------------------------------------------------


def test_a_fork_goes_its_own_way() -> None:
    reduced = reducer(
        run_started(), start(), content("a"), call(), event("STATE_SNAPSHOT", snapshot={"n": [1]})
    )
    branch = reduced.fork()
    reduced.apply_all([content("b"), args("x"), start("n")])
    branch.apply_all(
        [
            content("c"),
            args("y"),
            event("STATE_DELTA", delta=[{"op": "add", "path": "/n/-", "value": 2}]),
        ]
    )
    assert reduced.messages[0]["content"] == "ab"
    assert branch.messages[0]["content"] == "ac"
    assert ids(reduced) == ["m", "c", "n"]
    assert ids(branch) == ["m", "c"]
    assert reduced.messages[1]["toolCalls"][0]["function"]["arguments"] == "x"
    assert branch.messages[1]["toolCalls"][0]["function"]["arguments"] == "y"
    assert (reduced.state, branch.state) == ({"n": [1]}, {"n": [1, 2]})


@pytest.mark.parametrize("seed", range(40))
def test_a_fork_anywhere_changes_nothing(seed: int) -> None:
    events = verified(seed)
    at = random.Random(seed).randrange(len(events) + 1)
    quiet: dict[str, Any] = {"on_deviation": lambda _: None}
    whole = reducer(*events, **quiet)
    trunk = reducer(*events[:at], **quiet)
    seen = json.dumps([trunk.messages, trunk.state])
    branch = trunk.fork().apply_all(events[at:])
    assert (branch.messages, branch.state) == (whole.messages, whole.state)
    assert branch.pending_tool_calls == whole.pending_tool_calls
    assert branch.pending_interrupts == whole.pending_interrupts
    assert json.dumps([trunk.messages, trunk.state]) == seen


def test_nothing_is_leaked() -> None:
    class Hook:
        reduced: EventReducer

        def __call__(self, deviation: Deviation) -> None:
            pass

    hook = Hook()
    hook.reduced = EventReducer(on_deviation=hook)
    gone = weakref.ref(hook)
    del hook
    gc.collect()
    assert gone() is None


# The TypeScript client -------------------------------------------------------------------


# What this reducer does otherwise than the TypeScript client 1.0.0, each with the reason. The
# random streams meet the first.
EXCEPTIONS = {
    "interrupts": "the client forgets pending interrupts at any RUN_FINISHED (ag-ui #2437)",
    "repeated id in a snapshot": "the client makes two messages of it (R2)",
    "unknown subtype": "the client takes any subtype but tool-call for message (R11)",
    "activity content": "the client lets a patch make it something other than an object (J10)",
    "unknown op": "the client skips the whole patch, where the protocol drops the operation",
}


def test_equal_to_the_typescript_client() -> None:
    seeds = range(400)
    jobs = [{"events": verified(seed), "messages": [user("u-old")], "state": {}} for seed in seeds]
    for seed, job, theirs in zip(seeds, jobs, node_peer.run("state_oracle.mjs", jobs), strict=True):
        reduced = reducer(
            *job["events"], messages=job["messages"], state={}, on_deviation=lambda _: None
        )
        assert (seed, reduced.messages) == (seed, theirs["messages"])
        assert (seed, reduced.state) == (seed, theirs["state"])
        # None of these runs answers an interrupt, so the last that were raised are pending.
        finished = [one for one in job["events"] if one["type"] == "RUN_FINISHED"]
        raised = [(one.get("outcome") or {}).get("interrupts", []) for one in finished]
        pending = next((one for one in reversed(raised) if one), [])
        assert (seed, reduced.pending_interrupts) == (seed, pending)
        # "interrupts": equal where no run has finished since.
        if not raised or raised[-1]:
            assert (seed, theirs["pendingInterrupts"]) == (seed, pending)


# Growth ----------------------------------------------------------------------------------------


TOKENS = """
import json, time
from ag_ui.core import TextMessageContentEvent
from agui_codec import EventReducer

token = TextMessageContentEvent(message_id="m", delta="token ")
sizes = (20, 200, 2_000)
best = dict.fromkeys(sizes, float("inf"))
for _ in range(60):
    # One after the other in turn, so that what else the machine does hits all alike.
    for size in sizes:
        history = [{"id": f"u{n}", "role": "user", "content": "x" * 20} for n in range(size)]
        reduced = EventReducer(messages=history, as_dict=True)
        reduced.apply({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"})
        began = time.process_time()
        for _ in range(1_000):
            reduced.apply(token)
        best[size] = min(best[size], time.process_time() - began)
print(json.dumps(best))
"""


@pytest.mark.serial
def test_a_token_costs_the_same_whatever_the_history() -> None:
    # Processes of their own: among the objects of the other tests, where they happen to be counts.
    # In one process, too, the machine may disturb one size more than the others, so of several the
    # best counts for each; what a history really costs no number of them would take away.
    best: dict[str, float] = {}
    for _ in range(5):
        command = [sys.executable, "-c", TOKENS]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for size, seconds in json.loads(done.stdout).items():
            best[size] = min(best.get(size, seconds), seconds)
        if max(best.values()) <= 1.1 * min(best.values()):
            return
    raise AssertionError(best)


def test_deep_copies_are_not_needed_for_a_token() -> None:
    reduced = EventReducer(messages=[user(f"u{n}") for n in range(50)], as_dict=True)
    reduced.apply(start())
    before = reduced.messages
    reduced.apply(content("x"))
    after = reduced.messages
    assert [old is new for old, new in zip(before, after, strict=True)] == [True] * 50 + [False]


def test_models_in_a_snapshot_are_given_out_as_they_are() -> None:
    message = AssistantMessage(id="a", content="x", extra={"k": [1]})
    reduced = EventReducer().apply_all([MessagesSnapshotEvent(messages=[message])])
    assert reduced.messages == [message]
    assert copy.copy(reduced.messages[0]) is not message


def test_the_official_validator_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Id(str):
        __slots__ = ()

    made = []
    monkeypatch.setattr(_validators, "TypeAdapter", lambda of: made.append(of) or TypeAdapter(of))
    _validators.validator.cache_clear()
    messages = [{"id": Id(n), "role": "user", "content": "x"} for n in range(3)]
    expected = [UserMessage(id=str(n), content="x") for n in range(3)]
    for _ in range(2):
        assert EventReducer(messages).messages == expected
    assert made == [Message]
