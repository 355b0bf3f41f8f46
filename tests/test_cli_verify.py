"""``agui-codec verify``: is this file a valid stream?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

from agui_codec.cli import commands
from conftest import corpus_files
from streams import Event, run


def verify(events: list[Event] | bytes, *options: str) -> Result:
    data = events
    if not isinstance(data, bytes):
        data = b"".join(json.dumps(event).encode() + b"\n" for event in data)
    return CliRunner().invoke(commands.cli, ["verify", "-", *options], input=data)


def verdict(events: list[Event] | bytes) -> tuple[int, Any]:
    result = verify(events, "--json")
    return result.exit_code, json.loads(result.stdout)


END: Event = {"type": "TEXT_MESSAGE_END", "messageId": "m"}


def test_a_valid_stream() -> None:
    result = verify(run({"type": "RAW", "event": 1}))
    assert (result.exit_code, result.stdout) == (0, "3 events, valid\n")
    status, said = verdict(run())
    assert status == 0
    assert said == {"valid": True, "events": 2, "error": None, "tolerated": []}


def test_an_event_out_of_place() -> None:
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "q", "delta": "x"}
    events = run(chunk, END)
    result = verify(events)
    assert result.exit_code == 1
    assert "event 2 (line 3), TEXT_MESSAGE_END: no text message 'm' is open" in result.stderr
    assert "expected: TEXT_MESSAGE_START of it first" in result.stderr
    status, said = verdict(events)
    assert status == 1
    assert said["valid"] is False
    assert said["events"] == 3
    assert said["error"] == {
        # Of the file, though the chunk before it has become two events.
        "index": 2,
        "line": 3,
        "eventType": "TEXT_MESSAGE_END",
        "id": "m",
        "path": None,
        "reason": "no text message 'm' is open",
        "expected": "TEXT_MESSAGE_START of it first",
    }


def test_a_malformed_event() -> None:
    status, said = verdict(run({**END, "messageId": 5}))
    assert status == 1
    assert (said["error"]["index"], said["error"]["path"]) == (1, "messageId")
    assert said["error"]["reason"] == "expected a string, got 5"
    assert "messageId: expected a string" in verify(run({**END, "messageId": 5})).stderr


def test_a_stream_that_just_stops() -> None:
    status, said = verdict(run()[:1])
    assert status == 1
    assert said["events"] == 1
    assert (said["error"]["index"], said["error"]["line"]) == (1, None)
    assert said["error"]["id"] == "r"
    assert "after 1 events" in verify(run()[:1]).stderr
    assert verdict(b"")[0] == 1


def test_what_is_tolerated_is_listed() -> None:
    events = run({"type": "FUTURE"}, {"type": "RAW", "event": 1, "zz": 1})
    result = verify(events)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "event 1 (line 2), FUTURE: dropped an event of the unknown type FUTURE",
        "event 2 (line 3), RAW: zz: removed an unknown property",
        "4 events, valid",
    ]
    _, said = verdict(events)
    assert [one["kind"] for one in said["tolerated"]] == ["unknown_event", "unknown_property"]


def test_what_is_no_event_stream() -> None:
    result = verify(b"{}\n[]\n")
    assert result.exit_code == 1
    assert "type" in result.stderr
    assert verify(b"hello\n").exit_code == 1
    assert verify(b'{"type":"RAW","event":1').stderr.startswith(
        "Error: stdin: event 0 (line 1): the stream"
    )
    # As JSON it is a verdict like any other.
    status, said = verdict(
        b"".join(json.dumps(event).encode() + b"\n" for event in run()[:1]) + b"x\n"
    )
    assert status == 1
    assert said["events"] == 2
    assert (said["error"]["index"], said["error"]["line"]) == (1, 2)
    assert "'x' where a value should be" in said["error"]["reason"]


@pytest.mark.parametrize("path", corpus_files("recordings/*.sse"))
def test_recordings_are_valid(path: Path) -> None:
    result = verify(path.read_bytes())
    assert result.exit_code == 0
    assert result.stdout.endswith("events, valid\n")


@pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))
def test_the_corpus(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    failed = case["expect"]["outcome"] == "failed"
    assert verdict(case["stream"])[0] == failed
