"""The official encoder as the judge of ours: what it answers, raises and warns."""

import gc
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import ag_ui.encoder
from ag_ui.core import Event
from pydantic import TypeAdapter

import agui_codec

ADAPTER: TypeAdapter[Any] = TypeAdapter(Event)
ENCODER = agui_codec.EventEncoder()

# Taken before any test can call `install()`.
_official_encode_sse = ag_ui.encoder.EventEncoder.__dict__["_encode_sse"]


@dataclass(frozen=True)
class Outcome:
    """What a call did: its result or its exception, and the warnings it gave."""

    result: Any
    error: tuple[type[BaseException], str] | None
    warned: tuple[tuple[type[Warning], str], ...]


def outcome(function: Callable[..., Any], *args: Any) -> Outcome:
    result, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args)
        except Exception as raised:
            error = (type(raised), str(raised))
    return Outcome(result, error, tuple((w.category, str(w.message)) for w in caught))


def official_text(event: Any) -> str:
    text: str = _official_encode_sse(None, event)
    return text


def official(event: Any) -> Outcome:
    """What the encoder of the SDK makes of the event."""
    return outcome(official_text, event)


def assert_same(event: Any, encoder: Any = ENCODER) -> Outcome:
    """Our encoder answers, raises and warns as the official one, by every method."""
    expected = official(event)
    got = outcome(encoder.encode, event)
    assert got == expected, f"\nofficial {expected}\nours     {got}"
    if expected.result is None:
        return expected
    frame = expected.result.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert encoder.encode_sse(event) == expected.result
        assert encoder.encode_binary(event) == frame
        assert encoder.encode_many([event, event]) == frame * 2
        assert b"data: " + agui_codec.to_json(event) + b"\n\n" == frame
    assert frame.count(b"\n") == 2
    return expected


def encoded(event: Any, encoder: Any = ENCODER) -> str:
    """The JSON text of the event, without the frame."""
    frame: str = encoder.encode(event)
    assert frame.startswith("data: "), frame
    assert frame.endswith("\n\n"), frame
    return frame[len("data: ") : -2]


def assert_wire_same(wire: dict[Any, Any], event: Any) -> None:
    """The dict is written as the model is, or refused by EncodeError where the model is."""
    expected = official(event)
    if expected.error is None:
        got = outcome(ENCODER.encode, wire)
        assert (got.result, got.error) == (expected.result, None), (
            f"\nofficial {expected.result}\nours     {got.result} {got.error}"
        )
        assert ENCODER.encode_binary(wire) == expected.result.encode()
        return
    got = outcome(ENCODER.encode, wire)
    assert got.error is not None, f"\nofficial {expected.error}\nours     {got.result}"
    assert got.error[0] is agui_codec.EncodeError


def python_calls(function: Callable[..., Any], *args: Any) -> list[str]:
    """The names of the Python functions that run during a call."""
    called: list[str] = []

    def profile(frame: FrameType, kind: str, _: Any) -> None:
        if kind == "call":
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    # The garbage collector has callbacks in Python (hypothesis's), which are not the call's.
    gc.disable()
    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
        gc.enable()
    return called


def assert_fast(event: Any) -> None:
    """The event is written natively: no Python function runs, neither ours nor pydantic's."""
    encode = ENCODER.encode
    encode(event)  # The first call may have to look at the class.
    called = python_calls(encode, event)
    assert called == [], f"{event!r:.300} is written by pydantic: {called}"
