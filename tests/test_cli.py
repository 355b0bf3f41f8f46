"""The command line: in process where that shows it, as a process for pipes and signals."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from ag_ui.encoder import EventEncoder as OfficialEncoder

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

import agui_codec
from agui_codec import _demo
from agui_codec.cli import commands, demo, reading

COMMAND = [sys.executable, "-m", "agui_codec"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes and signals")

FRAMES = [OfficialEncoder().encode(event).encode() for event in _demo.run()]
SSE = b"".join(FRAMES)
JSONL = b"".join(frame[6:-1] for frame in FRAMES)


def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(commands.cli, arguments, input=stdin)


def encode(stdin: bytes, *options: str) -> Result:
    return invoke("encode", "-", *options, stdin=stdin)


# --- the group -----------------------------------------------------------------------------


def test_help_names_the_commands():
    result = invoke("--help")
    assert result.exit_code == 0
    assert {"demo", "encode", "decode", "inspect", "bench"} <= set(result.output.split())


def test_version():
    assert agui_codec.__version__ in invoke("--version").output


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from agui_codec.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert 'pip install "agui-codec[cli]"' in done.stderr


def test_another_missing_module_is_not_taken_for_the_extra():
    code = "import sys; sys.modules['ag_ui'] = None; from agui_codec.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr


# --- demo and bench ------------------------------------------------------------------------


def test_demo_shows_a_run_on_one_screen():
    done = subprocess.run([*COMMAND, "demo"], capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("= ") for line in lines) == len(FRAMES)
    for word in ("REASONING", "TOOL_CALL_RESULT", "STATE_DELTA", "RUN_FINISHED", "faster"):
        assert word in done.stdout.decode()
    assert not done.stderr


def test_demo_fails_when_a_frame_differs(monkeypatch):
    class Other(OfficialEncoder):
        def encode(self, event: Any) -> str:
            return super().encode(event).replace("Let me ", "Let us ")

    monkeypatch.setattr(demo, "OfficialEncoder", Other)
    result = invoke("demo")
    assert result.exit_code == 1
    assert "1 frames differ" in result.output
    assert "\n!  74  data:" in result.output


def test_the_embedded_run_is_a_whole_one():
    types = [json.loads(line)["type"] for line in JSONL.splitlines()]
    assert types[0] == "RUN_STARTED"
    assert types[-1] == "RUN_FINISHED"
    assert {"STATE_SNAPSHOT", "STATE_DELTA", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"} <= set(types)


def test_bench_prints_every_contender():
    result = invoke("bench", "--rounds", "1")
    assert result.exit_code == 0
    for document in _demo.documents():
        assert document.name in result.output
    assert result.output.count(_demo.OFFICIAL) >= len(_demo.documents())
    assert max(map(len, result.output.splitlines())) <= 80


def test_bench_refuses_wrong_output(monkeypatch):
    def wrong() -> list[_demo.Document]:
        good = _demo.Contender("good", lambda: iter([b"data: {}\n\n"]))
        bad = _demo.Contender("bad", lambda: iter([b"data: []\n\n"]))
        return [_demo.Document("document", 1, [good, bad])]

    monkeypatch.setattr(_demo, "documents", wrong)
    result = invoke("bench")
    assert result.exit_code == 1
    assert "document, bad: result 0 differs" in result.output


def test_the_documents_are_of_the_size_they_claim():
    messages = _demo.messages_snapshot().model_dump_json(by_alias=True)
    assert len(json.loads(messages)["messages"]) == 100
    assert 28_000 < len(messages) < 30_000
    state = json.loads(_demo.state_snapshot().model_dump_json(by_alias=True))
    assert len(state["snapshot"]["records"]) == 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234e-7, "123 ns"), (9.996e-7, "1 us"), (6.1e-6, "6.1 us"), (0.0125, "12.5 ms"), (2, "2 s")],
)
def test_duration(seconds, text):
    assert _demo.duration(seconds) == text


def test_ratios_are_taken_round_by_round():
    measured = _demo.Measurement({"a": [1.0, 10.0, 3.0], "b": [2.0, 20.0, 1.0]})
    assert measured.seconds("a") == 3.0
    assert measured.ratio("a", "b") == 0.5


def test_a_contender_in_another_process_has_its_own_clock():
    here = _demo.Contender("here", lambda: iter([1]))
    there = _demo.Contender("there", lambda: iter([1]), seconds=lambda: 0.5)
    measured = _demo.measure(_demo.Document("document", 1, [here, there]), 3, 1e-5)
    assert measured.samples["there"] == [0.5] * 3
    assert len(measured.samples["here"]) == 3


# --- encode: what comes in and what goes out -----------------------------------------------


@pytest.mark.parametrize("stdin", [SSE, JSONL], ids=["sse", "jsonl"])
@pytest.mark.parametrize(("target", "expected"), [("sse", SSE), ("jsonl", JSONL)])
def test_both_forms_in_both_forms_out(stdin, target, expected):
    result = encode(stdin, "--to", target)
    assert result.exit_code == 0
    assert result.stdout_bytes == expected


def test_a_file(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(JSONL)
    assert invoke("encode", str(path)).stdout_bytes == SSE


def test_a_file_that_is_not_there():
    result = invoke("encode", "no-such-file")
    assert result.exit_code == 2
    assert "no-such-file" in result.output


@pytest.mark.parametrize("name", ["langgraph.sse", "pydantic_ai.sse"])
def test_recordings_come_out_as_they_are(name):
    folder = os.environ.get("AGUI_RECORDINGS", Path(__file__).parents[2] / "shared/recordings")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert invoke("encode", str(path)).stdout_bytes == path.read_bytes()


@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["CRLF", "CR"])
@pytest.mark.parametrize("lines", [SSE, JSONL], ids=["sse", "jsonl"])
def test_other_line_ends(lines, end):
    assert encode(lines.replace(b"\n", end)).stdout_bytes == SSE


@pytest.mark.parametrize("stdin", [SSE, JSONL], ids=["sse", "jsonl"])
def test_any_cut_gives_the_same_events(stdin):
    class Chunks(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(3)

    stdin = b"\xef\xbb\xbf" + stdin.replace(b"\n", b"\r\n")
    events = list(reading.Events(Chunks(stdin), None))
    assert events == [json.loads(line) for line in JSONL.splitlines()]


def test_what_server_sent_events_may_hold():
    stdin = (
        b": ping\n\nretry: 5\nid: 7\nevent: message\n"
        b'data: {"type":"RUN_ERROR",\ndata:"message":"x\xe2\x80\xa8y"}\n\n\n'
        b': end\ndata: {"type":"STEP_STARTED","stepName":"s"}'
    )
    result = encode(stdin)
    assert result.exit_code == 0
    assert result.stdout_bytes == (
        b'data: {"type":"RUN_ERROR","message":"x\xe2\x80\xa8y"}\n\n'
        b'data: {"type":"STEP_STARTED","stepName":"s"}\n\n'
    )


def test_blank_lines_between_json_lines_and_snake_case():
    result = encode(b'\n\n {"type":"RUN_STARTED","thread_id":"t","run_id":"r","input":null}\n\n')
    assert result.stdout_bytes == b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\n'


@pytest.mark.parametrize("stdin", [b"", b"\n\r\n"])
def test_nothing_in_nothing_out(stdin):
    result = encode(stdin)
    assert result.exit_code == 0
    assert result.stdout_bytes == b""


# --- encode: errors ------------------------------------------------------------------------

GOOD = b'{"type":"RUN_ERROR","message":"x"}'


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (GOOD + b'\n\n{"type":', "line 3: event 1: the stream ended inside an event"),
        (GOOD + b"\n[1]\n", "line 2: event 1: an event is a JSON object, not an array"),
        (GOOD + b'\n{"message":"x"}\n', 'line 2: event 1: an event has a "type"'),
        (
            GOOD + b'\n{"type":"CUSTOM","name":"n","value":NaN}\n',
            "line 2: event 1: NaN and Infinity are no JSON",
        ),
        (
            GOOD + b'\n{"type":"RUN_ERROR","message":"\xc3"}\n',
            "line 2: event 1: bytes that are no UTF-8",
        ),
        (
            GOOD + b'\n{"type":"CUSTOM","value":' + b"[" * 100_000 + b"\n",
            "line 2: event 1: nested deeper than 254 levels",
        ),
        (
            GOOD + b'\n{"type":"RUN_ERROR","message":"\\ud800"}\n',
            "line 2: event 1: half a surrogate pair",
        ),
        (
            b"data: " + GOOD + b"\n\n: c\n\ndata: [DONE]\n\n",
            "line 5: event 1: 'D' where a value should be",
        ),
        (
            b"data: " + GOOD + b'\n\ndata: {"type":\n',
            "line 3: event 1: the stream ended inside an event",
        ),
    ],
)
def test_an_error_names_the_line_after_what_came_before_it(stdin, message):
    result = encode(stdin)
    assert result.exit_code == 1
    assert result.stdout_bytes == b"data: " + GOOD + b"\n\n"
    assert result.stderr.startswith(f"Error: stdin: {message}")
    assert len(result.stderr.splitlines()) == 1


def test_a_form_that_is_not_known():
    result = encode(b"\nhello\n")
    assert result.exit_code == 1
    assert "stdin: line 2: neither JSON nor Server-Sent Events" in result.stderr
    assert "line 1: event 0: 'h' where" in encode(b"hello\n", "--from", "jsonl").stderr


def test_done_is_passed_over_if_asked_for():
    stdin = SSE + b"data: [DONE]\n\n"
    result = encode(stdin, "--allow-done")
    assert (result.exit_code, result.stdout_bytes) == (0, SSE)
    assert encode(stdin).exit_code == 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 16])
def test_lines_are_counted_however_they_come(end, size):
    class Pieces(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return super().read1(size)

    good = b'data: {"type":"RAW",\ndata: "event":1}\n\n'
    sse = b"\xef\xbb\xbf" + good + b"\n: ping\n\nid: 1\n" + good + b"\n: x\ndata: {}\n\n"
    jsonl = b'\n{"type":"RAW","event":1}\n\n \n{"type":"RAW","event":1}\n{}\n'
    for stdin, lines, last in ((sse, [1, 8], 13), (jsonl, [2, 5], 6)):
        events = reading.Events(Pieces(stdin.replace(b"\n", end)), None)
        seen = []

        def read(events=events, seen=seen) -> None:
            for _ in events:
                seen.append(events.line)

        with pytest.raises(agui_codec.DecodeError, match='event 2: an event has a "type"'):
            read()
        assert seen == lines
        assert events.line == last


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "x: y\n"])
def test_what_is_no_stream_is_said(end):
    for text in ("hello", "da", "<html>", "datum: 1", "HTTP/1.1 200 OK"):
        for command in ("encode", "decode", "replay", "compact"):
            result = invoke(command, "-", stdin=b"\n" + (text + end).encode())
            assert result.exit_code == 1
            assert "stdin: line 2: neither JSON nor Server-Sent Events" in result.stderr


@pytest.mark.parametrize("command", ["encode", "compact", "replay", "verify"])
def test_what_decode_reads_all_read(command):
    whole = invoke(command, "-", stdin=SSE).stdout_bytes
    binary = agui_codec.EventEncoder(agui_codec.AGUI_MEDIA_TYPE).encode_many(
        [json.loads(line) for line in JSONL.splitlines()]
    )
    for stdin in (binary, gzip.compress(binary), gzip.compress(SSE), b"\xef\xbb\xbf" + JSONL):
        result = invoke(command, "-", stdin=stdin)
        assert result.exit_code == 0, result.output
        assert len(result.stdout_bytes.splitlines()) == len(whole.splitlines())


# --- encode: as part of a pipeline ---------------------------------------------------------


def start(*command: str) -> "subprocess.Popen[bytes]":
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *(command or ["encode"]), "-"], stdin=pipe, stdout=pipe, stderr=pipe
    )


def test_each_event_is_written_before_the_next_comes():
    with start() as process:
        for frame in FRAMES:
            process.stdin.write(frame[6:-1])
            process.stdin.flush()
            assert process.stdout.readline() + process.stdout.readline() == frame
        process.stdin.close()
        assert process.wait(10) == 0


@posix
@pytest.mark.parametrize("command", [["encode"], ["decode"], ["convert", "--to", "sse"]])
def test_ctrl_c_ends_it_without_a_traceback(command):
    with start(*command) as process:
        process.stdin.write(JSONL[: JSONL.index(b"\n") + 1])
        process.stdin.flush()
        assert json.loads(process.stdout.readline().removeprefix(b"data: ")) == json.loads(
            FRAMES[0][6:]
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() in (b"", b"\n")


@posix
@pytest.mark.parametrize(
    ("command", "to"),
    [
        ("encode", "sse"),
        ("encode", "jsonl"),
        ("decode", "jsonl"),
        ("decode", "pretty"),
        ("convert", "jsonl"),
    ],
)
def test_a_reader_that_goes_ends_it_quietly(tmp_path, command, to):
    path = tmp_path / "long.jsonl"
    path.write_bytes(JSONL * 1000)
    command = [*COMMAND, command, str(path), "--to", to]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        # As of a program that SIGPIPE ends; 1 would be an invalid stream.
        assert process.wait(10) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, "encode", "-"]
        done = subprocess.run(command, input=JSONL, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.decode() == "Error: [Errno 28] No space left on device\n"


def test_memory_does_not_grow_with_the_input():
    class Endless(io.RawIOBase):
        left = 60

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return SSE * 20 if self.left >= 0 else b""

    tracemalloc.start()
    try:
        count = sum(1 for _ in reading.Events(Endless(), None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 60 * 20 * len(FRAMES)
    assert peak < 500_000


def test_a_very_long_line_is_read_once():
    text = "x" * 30_000_000
    line = json.dumps({"type": "RUN_ERROR", "message": text}).encode()
    assert (
        encode(line).stdout_bytes
        == b'data: {"type":"RUN_ERROR","message":"%b"}\n\n' % text.encode()
    )


# --- compact, replay, diff -----------------------------------------------------------------


def test_demo_rebuilds_the_conversation():
    result = invoke("demo")
    assert "Over SSE or protobuf a client gets:" in result.output
    assert 'weather({"city": "Zürich"})' in result.output
    assert '  state     {"city": "Zürich", "weather": {"celsius": 18.5, "sky": "clear"}}' in (
        result.output
    )


@pytest.mark.parametrize("stdin", [SSE, JSONL])
def test_compact(stdin):
    result = invoke("compact", "-", "--reasoning", stdin=stdin)
    events = [json.loads(line) for line in result.stdout_bytes.splitlines()]
    deltas = [event["delta"] for event in events if "CONTENT" in event["type"]]
    assert deltas == ["Weather: call the tool.", "Let me look.", "Clear sky over Zürich."]
    assert sum(event["type"].startswith("STATE") for event in events) == 1
    again = invoke("compact", "-", "--reasoning", stdin=result.stdout_bytes)
    assert again.stdout_bytes == result.stdout_bytes
    frames = invoke("compact", "-", "--to", "sse", stdin=stdin).stdout_bytes
    assert frames.startswith(b'data: {"type":"RUN_STARTED"')
    whole, short = (json.loads(invoke("replay", "-", stdin=one).stdout) for one in (stdin, frames))
    assert whole == short


def test_replay():
    whole = json.loads(invoke("replay", "-", stdin=SSE).stdout)
    assert (whole["threadId"], whole["runId"]) == ("thread-1", "run-1")
    assert [message["role"] for message in whole["messages"]] == [
        "reasoning",
        "assistant",
        "tool",
        "assistant",
    ]
    assert json.loads(invoke("replay", "-", "--state", stdin=SSE).stdout) == whole["state"]
    assert json.loads(invoke("replay", "-", "--messages", stdin=SSE).stdout) == whole["messages"]
    both = json.loads(invoke("replay", "-", "--messages", "--state", stdin=SSE).stdout)
    assert both == {key: whole[key] for key in ("messages", "state")}
    until = json.loads(invoke("replay", "-", "--until", "4", stdin=SSE).stdout)
    assert until["messages"] == [{"id": "r1", "role": "reasoning", "content": "Weather: "}]
    assert json.loads(invoke("replay", "-", "--until", "0", "--state", stdin=SSE).stdout) is None


def test_replay_reports_what_it_tolerates_and_what_it_does_not():
    lost = b'{"type":"TEXT_MESSAGE_END","messageId":"zz"}\n'
    result = invoke("replay", "-", stdin=lost)
    assert result.exit_code == 0
    assert "TEXT_MESSAGE_END: messageId: there is no message 'zz'" in result.stderr
    bad = invoke("replay", "-", stdin=lost + b'{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}\n')
    assert bad.exit_code == 1
    assert "line 2: " in bad.output
    assert invoke("compact", "-", stdin=b'{"type":"TEXT_MESSAGE_START"}\n').exit_code == 1


def test_diff(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text('{"a": [1, 2], "b": 1}')
    after.write_text('{"a": [1, 2, 3], "b": 1.0}')
    result = invoke("diff", str(before), str(after))
    assert result.exit_code == 1
    assert json.loads(result.stdout) == [{"op": "add", "path": "/a/2", "value": 3}]
    same = invoke("diff", str(before), str(before))
    assert (same.exit_code, json.loads(same.stdout)) == (0, [])
    # Streams stand for what they add up to.
    before.write_bytes(SSE)
    after.write_bytes(invoke("compact", "-", stdin=SSE).stdout_bytes)
    assert invoke("diff", str(before), str(after)).exit_code == 0
