"""Protobuf: the shapes that differ from JSON, and what has no place on the wire."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from ag_ui.core.deprecated import BinaryInputContent

from agui_codec import (
    DecodeError,
    EncodeError,
    proto,
)
from by_hand import EVENT, dropped, message_event, round_trip, tag


def test_an_empty_list_of_parts_is_a_list() -> None:
    for event in (
        message_event(role="user", content=[]),
        message_event(role="tool", toolCallId="c", content=[]),
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": []},
    ):
        assert round_trip(event) == event


def test_an_unknown_role_keeps_its_content() -> None:
    text = {"type": "text", "text": "t"}
    for content in ("text", [text], {"an": "object"}):
        event = message_event(role="hologram", content=content)
        assert round_trip(event) == event
    event = message_event(role="hologram", name="n", toolCallId="c")
    assert round_trip(event) == event


@pytest.mark.parametrize(
    ("role", "content"),
    [("assistant", []), ("assistant", {}), ("system", [{}]), ("activity", "text"),
     ("activity", []), ("user", {}), ("tool", {}), ("reasoning", {"a": 1}), ("user", 5),
     ("user", None), ("hologram", 5)],
)  # fmt: skip
def test_content_that_a_role_does_not_have_is_refused(role: str, content: Any) -> None:
    with pytest.raises(EncodeError) as info:
        proto.encode(message_event(role=role, content=content))
    assert info.value.path == "messages[0].content"


MESSAGES_BASE = tag(1, tag(1, 8))
TEXT_PART = tag(1, tag(1, b"t"))
OBJECT = tag(1, tag(1, b"k") + tag(2, tag(3, b"v")))


@pytest.mark.parametrize(
    ("role", "forms", "valid"),
    [
        ("user", [tag(3, b"s")], True),
        ("user", [tag(8, TEXT_PART)], True),
        ("user", [tag(3, b"s"), tag(8, TEXT_PART)], False),
        ("user", [tag(13, OBJECT)], False),
        ("user", [], True),
        ("assistant", [tag(8, TEXT_PART)], False),
        ("assistant", [tag(13, b"")], False),
        ("assistant", [], True),
        ("activity", [tag(13, OBJECT)], True),
        ("activity", [tag(3, b"s")], False),
        ("activity", [tag(3, b"s"), tag(13, OBJECT)], False),
        ("activity", [tag(8, TEXT_PART), tag(13, OBJECT)], False),
        ("hologram", [tag(13, OBJECT)], True),
        ("hologram", [tag(3, b""), tag(13, OBJECT)], False),
        ("hologram", [tag(8, TEXT_PART), tag(3, b"s")], False),
    ],
)
def test_one_form_of_content(role: str, forms: list[bytes], *, valid: bool) -> None:
    message = tag(1, b"1") + tag(2, role.encode()) + b"".join(forms)
    wire = tag(9, MESSAGES_BASE + tag(2, message))
    if valid:
        assert proto.decode(wire, as_dict=True)["messages"][0]["role"] == role
        return
    with pytest.raises(DecodeError, match="content") as info:
        proto.decode(wire, as_dict=True)
    assert info.value.path == "messages[0]"


def test_a_tool_result_has_one_form_of_content() -> None:
    base = tag(1, tag(1, 21))
    both = base + tag(5, b"s") + tag(7, TEXT_PART)
    with pytest.raises(DecodeError, match="content"):
        proto.decode(tag(22, both))


def test_parts_that_are_not_known_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    text = {"type": "text", "text": "t"}
    url = {"type": "url", "value": "u"}
    content = [
        text,
        {"type": "hologram", "text": "t"},
        {"type": "image", "source": {"type": "telepathy", "value": "v"}},
        {"type": "image", "source": url},
        {"text": "no type"},
    ]
    event = round_trip(message_event(role="user", content=content))
    assert event["messages"][0]["content"] == [text, {"type": "image", "source": url}]
    assert dropped(caplog) == [f"messages[0].content[{at}]" for at in (1, 2, 4)]

    future = tag(8, tag(9, b""))
    no_source = tag(8, tag(2, tag(1, tag(7, b""))))
    no_field = tag(8, tag(2, b""))
    parts = tag(8, TEXT_PART) + future + no_source + no_field
    message = tag(1, b"1") + tag(2, b"user") + parts
    event = proto.decode(tag(9, MESSAGES_BASE + tag(2, message)), as_dict=True)
    assert event["messages"][0]["content"] == [text, {"type": "image"}]
    assert dropped(caplog) == ["messages[0].content[1]", "messages[0].content[1]"]

    for two in (TEXT_PART + tag(2, b""), tag(2, tag(1, tag(1, b"") + tag(2, b"")))):
        message = tag(1, b"1") + tag(2, b"user") + tag(8, two)
        with pytest.raises(DecodeError, match="more than one kind"):
            proto.decode(tag(9, MESSAGES_BASE + tag(2, message)))


def test_a_legacy_binary_part_travels_as_a_document(caplog: pytest.LogCaptureFixture) -> None:
    def carried_as(**part: Any) -> Any:
        event = message_event(role="user", content=[{"type": "binary", **part}])
        (message,) = round_trip(event)["messages"]
        return message["content"]

    metadata = {"legacyBinary": True, "filename": "f", "id": "i"}
    data = {"type": "data", "value": "QQ==", "mimeType": "image/png"}
    assert carried_as(
        mimeType="image/png", data="QQ==", url="u", filename="f", id="i"
    ) == [{"type": "document", "source": data, "metadata": metadata}]  # fmt: skip
    url = {"type": "url", "value": "u", "mimeType": "image/png"}
    assert carried_as(mimeType="image/png", data="", url="u") == [
        {"type": "document", "source": url, "metadata": {"legacyBinary": True}}
    ]
    assert carried_as(mimeType="image/png", id="i")[0]["source"]["value"] == "i"
    assert dropped(caplog) == []
    assert carried_as(mimeType="image/png") == []
    assert dropped(caplog) == ["messages[0].content[0]"]
    part = BinaryInputContent(mime_type="image/png", data="QQ==")
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [
        {"id": "1", "role": "user", "content": [part]}]}  # fmt: skip
    assert round_trip(event)["messages"][0]["content"][0]["source"] == data


def test_outcomes(caplog: pytest.LogCaptureFixture) -> None:
    def run(outcome: Any) -> dict[str, Any]:
        return {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}

    def subagent(outcome: Any) -> dict[str, Any]:
        return {"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": outcome}

    interrupt = {"id": "i", "reason": "r"}
    for event in (
        run({"type": "success"}),
        run({"type": "success", "pendingToolCallIds": ["c", ""]}),
        run({"type": "interrupt", "interrupts": [interrupt]}),
        run({"type": "interrupt", "interrupts": []}),
        run({"type": "cancelled"}),
        run({"type": "paused"}),
        subagent({"type": "success"}),
        subagent({"type": "suspended", "interruptIds": ["i"]}),
        subagent({"type": "asleep"}),
    ):
        assert round_trip(event) == event
    assert dropped(caplog) == []
    # Only what the outcome's own type has is carried.
    assert round_trip(run({"type": "success", "interrupts": [interrupt]})) == run(
        {"type": "success"}
    )
    assert dropped(caplog) == ["outcome.interrupts"]
    assert round_trip(run({"type": "paused", "until": 5})) == run({"type": "paused"})
    assert dropped(caplog) == ["outcome.until"]
    # The members belong to the outcome, not to the event.
    stray = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "interrupts": [interrupt]}
    assert "interrupts" not in round_trip(stray)
    assert dropped(caplog) == ["interrupts"]
    for outcome in (["interrupt"], "success", 5, {}, {"type": ""}, {"type": 5}):
        for make in (run, subagent):
            with pytest.raises(EncodeError) as info:
                proto.encode(make(outcome))
            assert info.value.path.startswith("outcome")


def test_patch_operations(caplog: pytest.LogCaptureFixture) -> None:
    def delta(*operations: Any) -> dict[str, Any]:
        return {"type": "STATE_DELTA", "delta": list(operations)}

    null = delta({"op": "add", "path": "/a", "value": None}, {"op": "remove", "path": ""})
    assert round_trip(null) == null
    assert tag(2, tag(2, b"/a") + tag(4, tag(1, 0))) in proto.encode(null), "ADD is 0 and absent"
    # A number that a reader does not know comes back as its digits, and goes out again.
    wire = tag(8, tag(1, tag(1, 7)) + tag(2, tag(1, 9) + tag(2, b"/a")))
    assert proto.decode(wire, as_dict=True) == delta({"op": "9", "path": "/a"})
    assert proto.encode(delta({"op": "9", "path": "/a"})) == wire
    extended = delta({"op": "add", "path": "/a", "value": 1, "comment": "c", "from": "/b"})
    del extended["delta"][0]["comment"]
    assert round_trip(extended | {"x": 1}) == extended
    assert dropped(caplog) == ["x"]
    extended["delta"][0]["comment"] = "c"
    proto.encode(EVENT.validate_python(extended))
    assert dropped(caplog) == ["delta[0].comment"]
    assert round_trip(delta({"op": "increment", "path": "/a"}, {"path": "/b"})) == delta()
    assert dropped(caplog) == ["delta[0]", "delta[1]"]


def test_p9_absences() -> None:
    wire = proto.encode({"type": "TEXT_MESSAGE_END"})
    assert proto.decode(wire, as_dict=True) == {"type": "TEXT_MESSAGE_END", "messageId": ""}
    assert proto.decode(wire).message_id == ""
    assert round_trip({"type": "MESSAGES_SNAPSHOT"})["messages"] == []
    event = {"type": "RUN_ERROR", "message": "m", "metadata": {}, "usage": []}
    assert round_trip(event) == {"type": "RUN_ERROR", "message": "m", "metadata": {}}
    event = message_event(role="assistant", toolCalls=[])
    assert round_trip(event) == message_event(role="assistant")
    assert round_trip({"type": "RUN_FINISHED", "threadId": "", "runId": "r", "result": None}) == {
        "type": "RUN_FINISHED", "threadId": "", "runId": "r",
    }  # fmt: skip


def test_p10_what_has_no_place_is_named(caplog: pytest.LogCaptureFixture) -> None:
    event = {
        "type": "RUN_STARTED", "threadId": "t", "runId": "r", "futureProp": 1,
        "input": {"threadId": "t", "runId": "r", "messages": [
            {"id": "1", "role": "user", "content": "c", "mood": "good"}], "more": None},
    }  # fmt: skip
    model = EVENT.validate_python(event)
    for spelling in (event, model):
        with caplog.at_level(logging.WARNING, "agui_codec"):
            proto.encode(spelling)
        assert {record.levelno for record in caplog.records} == {logging.WARNING}
        expected = {"futureProp", "input.messages[0].mood", "input.more"}
        assert set(dropped(caplog)) == expected
