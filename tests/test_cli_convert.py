"""``agui-codec convert``: every pair of encodings, errors in the middle, memory."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

import random_events
from agui_codec import AGUI_MEDIA_TYPE, EventEncoder, proto, to_json
from agui_codec.cli import commands

EVENTS = [proto.decode(proto.encode(it), as_dict=True) for it in random_events.events(51, 62)]
STREAMS = {
    "sse": EventEncoder().encode_many(EVENTS),
    "jsonl": b"".join(to_json(event) + b"\n" for event in EVENTS),
    "protobuf": EventEncoder(AGUI_MEDIA_TYPE).encode_many(EVENTS),
}


def convert(*arguments: Any, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(commands.cli, ["convert", *map(str, arguments)], input=stdin)


@pytest.mark.parametrize("source", STREAMS)
@pytest.mark.parametrize("target", STREAMS)
def test_every_pair(source: str, target: str) -> None:
    for options in ((), ("--from", source)):
        done = convert("-", "-", "--to", target, *options, stdin=STREAMS[source])
        assert done.exit_code == 0, done.output
        assert done.stdout_bytes == STREAMS[target]


def test_names_tell(tmp_path: Path) -> None:
    suffixes = {"sse": "a.sse", "jsonl": "a.ndjson", "protobuf": "a.pb"}
    source = tmp_path / "in.sse"
    source.write_bytes(STREAMS["sse"])
    for target, name in suffixes.items():
        assert convert(source, tmp_path / name).exit_code == 0
        assert (tmp_path / name).read_bytes() == STREAMS[target]
    for out in ("-", tmp_path / "a.txt"):
        done = convert(source, out)
        assert done.exit_code == 2
        assert "--to is required" in done.output
    assert not (tmp_path / "a.txt").exists()


def test_an_error_keeps_what_came_before() -> None:
    good = b'{"type":"STEP_STARTED","stepName":"s"}\n'
    for bad in (b'{"type":"OF_ANOTHER_TIME"}\n', b"nonsense\n"):
        done = convert("-", "--from", "jsonl", "--to", "proto", stdin=good + bad + good)
        assert done.exit_code == 1
        assert "event " in done.stderr
        (message,) = proto.FrameReader().feed(done.stdout_bytes)
        assert proto.decode(message, as_dict=True) == json.loads(good)


def test_the_same_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    path.write_bytes(STREAMS["sse"])
    (tmp_path / "b.sse").symlink_to(path)
    for out in (path, tmp_path / "b.sse", tmp_path / ".." / tmp_path.name / "a.sse"):
        done = convert(path, out)
        assert done.exit_code == 2
        assert "IN and OUT are the same file" in done.output
    assert path.read_bytes() == STREAMS["sse"]


def test_no_events_make_an_empty_file(tmp_path: Path) -> None:
    out = tmp_path / "a.JSONL"
    out.write_bytes(b"before")
    assert convert("-", out, stdin=b": ping\n\n").exit_code == 0
    assert out.read_bytes() == b""


def test_which_event_is_wrong() -> None:
    good = b'{"type":"STEP_STARTED","stepName":"s"}\n'
    # One that cannot be written, and one that cannot be read.
    unknown = b'{"type":"OF_ANOTHER_TIME"}\n'
    for bad, message in ((unknown, "type: "), (b"x\n", "'x' where a value")):
        done = convert("-", "--to", "protobuf", stdin=good + bad)
        assert done.stderr.startswith(f"Error: stdin: line 2: event 1: {message}")


def test_done_is_passed_over_if_asked_for() -> None:
    stdin = STREAMS["sse"] + b"data: [DONE]\n\n"
    done = convert("-", "--to", "jsonl", "--allow-done", stdin=stdin)
    assert (done.exit_code, done.stdout_bytes) == (0, STREAMS["jsonl"])
    assert convert("-", "--to", "jsonl", stdin=stdin).exit_code == 1


def test_a_cut_stream_is_an_error() -> None:
    done = convert("-", "--from", "protobuf", "--to", "jsonl", stdin=STREAMS["protobuf"][:-1])
    assert done.exit_code == 1
    assert done.stdout_bytes == b"".join(STREAMS["jsonl"].splitlines(keepends=True)[:-1])


def test_what_is_left_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    event = b'{"type":"STEP_STARTED","stepName":"s","futureProp":1}\n'
    with caplog.at_level(logging.WARNING, "agui_codec"):
        assert convert("-", "--from", "jsonl", "--to", "protobuf", stdin=event).exit_code == 0
    assert "futureProp" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_stream() -> None:
    """A hundred thousand events, more than 10 MB, through a process with a pipe at each end."""
    script = (
        "import sys; from agui_codec import cli; sys.argv[1:] = ['convert', '-', '-', '--from',"
        "'sse', '--to', 'protobuf']\n"
        "try: cli.main()\n"
        "finally:\n"
        " peak = [it for it in open('/proc/self/status') if it.startswith('VmHWM')][0].split()[1]\n"
        " print(peak, file=sys.stderr)"
    )
    frame = EventEncoder().encode_binary(
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m" * 20, "delta": "d" * 40}
    )
    peaks = []
    for count in (1_000, 100_000):
        done = subprocess.run(
            [sys.executable, "-c", script], input=frame * count, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout) > 70 * count
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] - peaks[0] < 8_000, peaks
