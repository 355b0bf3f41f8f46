"""JSON Patch, the reducer of messages and state, and compaction."""

from typing import Any

from ag_ui.core import StateDeltaEvent

from agui_codec._native import (
    Change,
    Compactor,
    EventReducer,
    apply_patch,
    compact_events,
    create_patch,
    make_event,
)

__all__ = [
    "Change",
    "Compactor",
    "EventReducer",
    "apply_patch",
    "compact_events",
    "create_patch",
    "state_delta_event",
]


def state_delta_event(before: Any, after: Any) -> StateDeltaEvent | None:
    """Make the STATE_DELTA that takes a consumer from one state to another.

    Args:
        before: The state that the consumer has: plain JSON values.
        after: The state that it should have.

    Returns:
        The event, with the patch of :func:`agui_codec.create_patch`; None if the two are equal.

    Raises:
        PatchError: As :func:`agui_codec.create_patch` does.

    Example:
        >>> event = state_delta_event({"city": "Lisbon"}, {"city": "Porto"})
        >>> EventEncoder().encode_binary(event)[6:-2]
        b'{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/city","value":"Porto"}]}'
    """
    patch = create_patch(before, after)
    return make_event(StateDeltaEvent, delta=patch) if patch else None
