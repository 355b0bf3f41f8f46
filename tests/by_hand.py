"""What the tests of protobuf share: reading back, and messages made by hand."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ag_ui import core
from pydantic import TypeAdapter

from agui_codec import proto

if TYPE_CHECKING:
    import pytest

EVENT: TypeAdapter[core.Event] = TypeAdapter(core.Event)


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The paths of what the log says was left out."""
    found = [record.args[0].path for record in caplog.records if record.name == "agui_codec"]
    caplog.clear()
    return found


def round_trip(event: Any) -> dict[str, Any]:
    """The event as it reads after protobuf."""
    return proto.decode(proto.encode(event), as_dict=True)


def with_wire_defaults(event: dict[str, Any]) -> dict[str, Any]:
    """The event as protobuf reads it, which does not tell an absent list from an empty one."""
    event = copy.deepcopy(event)
    if run_input := event.get("input"):
        for name in ("tools", "context", "resume"):
            run_input.setdefault(name, [])
        messages = run_input["messages"]
    else:
        messages = event.get("messages", [])
    for owner, name in [(event, "usage"), *((message, "toolCalls") for message in messages)]:
        if owner.get(name) == []:
            del owner[name]
    outcome = event.get("outcome", {})
    for name in ("pendingToolCallIds", "interruptIds"):
        if outcome.get(name) == []:
            del outcome[name]
    return event


def message_event(**message: Any) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "1", **message}]}


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, payload: bytes | int) -> bytes:
    """A field of a message: a number, or bytes with their length in front."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload
