"""What the command line shows to people: the timeline, tables, progress, Ctrl-C."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result
from rich.cells import cell_len

from agui_codec import _demo, to_json
from agui_codec.cli import commands, inspect, reading
from agui_codec.cli.console import Console
from agui_codec.cli.timeline import LANES, NAMES, Timeline

COMMAND = [sys.executable, "-m", "agui_codec"]
RUN = [json.loads(to_json(event)) for event in _demo.run()]
SUBAGENTS: list[dict[str, Any]] = [
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "researcher"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m9", "role": "assistant", "subagentRunId": "s1"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "critic"},
    {"type": "STEP_STARTED", "stepName": "look"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m9", "subagentRunId": "s1"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
    {"type": "CUSTOM", "name": "progress", "value": 1, "subagentRunId": "s2"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s2"},
    {"type": "STEP_FINISHED", "stepName": "look"},
]


def shown(events: list[dict[str, Any]], width: int = 80, **options: Any) -> list[str]:
    out = io.StringIO()
    timeline = Timeline(Console(file=out, width=width, soft_wrap=True), **options)
    for event in events:
        timeline.show(event)
    return out.getvalue().splitlines()


def invoke(*arguments: str, stdin: bytes = b"", columns: int = 80) -> Result:
    env = {"COLUMNS": str(columns)}
    return CliRunner(env=env).invoke(commands.cli, arguments, input=stdin)


def wait_for_more(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has read all of its pipe, done its work, and waits for more."""
    import fcntl
    import termios

    assert process.stdin is not None
    deadline = time.monotonic() + 60
    idle = 0
    while idle < 5:
        assert time.monotonic() < deadline, "the process did not read its pipe"
        assert process.poll() is None
        unread = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)) != bytes(4)
        stat = Path(f"/proc/{process.pid}/stat")
        # The state is behind the name, which is in brackets: S for a process that waits.
        waits = stat.read_text().rpartition(") ")[2][0] == "S" if stat.exists() else True
        idle = idle + 1 if waits and not unread else 0
        time.sleep(0.05)


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(to_json(event) + b"\n" for event in events)


# --- the timeline --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_one_line_an_event_that_fits(width: int) -> None:
    wide = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "漢字" * 100 + "\n" * 300}
    events = [*RUN, wide, {"type": "X" * 500, "a": "é" * 500}, *SUBAGENTS]
    found = shown(events, width)
    assert len(found) == len(events)
    assert max(map(cell_len, found)) <= width
    # What was cut says so.
    assert found[len(RUN)].endswith("…")


def test_who_and_what() -> None:
    found = [line.split() for line in shown(RUN, 120)]
    assert ["TEXT_MESSAGE_CONTENT", "assistant", "Let", "me"] in found
    assert ["TOOL_CALL_ARGS", "weather", '"Zürich"}'] in found
    assert ["REASONING_MESSAGE_CONTENT", "reasoning", "Weather:"] in found
    assert ["RUN_STARTED", "run", "run-1", "of", "thread-1"] in found
    assert found[-1] == ["RUN_FINISHED", "run"]
    (patch,) = (line for line in shown(RUN, 120) if "STATE_DELTA" in line)
    assert 'replace /weather {"celsius": 18.5' in patch


def test_a_cut_type_keeps_its_end() -> None:
    found = [line.split()[0] for line in shown(RUN, 60)]
    assert "REASONING_ME…_CONTENT" in found
    assert "REASONING_MESSA…_START" not in found
    assert "REASONING_MESSAGE_END" in found


def test_times() -> None:
    stamps = [0, 12, 999, 1000, 99_000, 100_000, 3_599_000, 3_600_000, -5]
    events = [{"type": "RAW", "event": 1, "timestamp": 1_700_000_000_000 + one} for one in stamps]
    times = [line[:9].strip() for line in shown(events)]
    assert times == [
        "+0 ms", "+12 ms", "+999 ms", "+1.0 s", "+99.0 s", "+1:40", "+59:59", "+1:00:00", "-5 ms",
    ]  # fmt: skip
    # Without timestamps: of their arrival, if they come live.
    assert shown([{"type": "RAW", "event": 1}])[0].startswith(" " * 9 + "RAW")
    clock = iter([5.0, 5.25])
    events = [{"type": "RAW", "event": 1}] * 2
    assert shown(events, clock=lambda: next(clock))[1].startswith(" +250 ms RAW")


def test_lanes() -> None:
    marks = [re.findall("[│●][│● ]*", line) for line in shown(SUBAGENTS, 60)]
    assert [mark[0].rstrip() if mark else "" for mark in marks] == [
        "│●", "│●", "││●", "●││", "│●│", "│●│", "│ ●", "│ ●", "",
    ]  # fmt: skip
    # A lane that is free is used again, and there are only so many.
    starts = [{"type": "SUBAGENT_STARTED", "subagentRunId": f"s{n}"} for n in range(100)]
    assert shown(starts)[-1].count("│") == LANES
    names = [{"type": "TEXT_MESSAGE_START", "messageId": f"m{n}"} for n in range(3 * NAMES)]
    timeline = Timeline(Console(file=io.StringIO()))
    for event in names:
        timeline.show(event)
    assert len(timeline._names) == NAMES


def test_colours_are_of_the_family() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="standard")
    timeline = Timeline(console)
    for event in [*RUN, {"type": "RUN_ERROR", "message": "x"}, {"type": "OTHER"}]:
        timeline.show(event)
    assert "\x1b[32mTEXT_MESSAGE_START" in out.getvalue()
    assert "\x1b[33mTOOL_CALL_ARGS" in out.getvalue()
    assert "\x1b[1;31mRUN_ERROR" in out.getvalue()


@pytest.mark.parametrize(
    "event",
    [
        {"type": "MESSAGES_SNAPSHOT", "messages": 5},
        {"type": "MESSAGES_SNAPSHOT"},
        {"type": "STATE_DELTA", "delta": [1, {"op": 5, "path": None}]},
        {"type": "STATE_DELTA", "delta": "x"},
        {"type": "TEXT_MESSAGE_CONTENT", "delta": 5},
        {"type": "TEXT_MESSAGE_START", "messageId": {"a": 1}, "role": [1], "name": {}},
        {"type": "TOOL_CALL_START", "toolCallName": 7},
        {"type": "TOOL_CALL_RESULT", "content": [{"type": "text", "text": "x"}]},
        {"type": "RUN_FINISHED", "outcome": "interrupt", "result": {"a": 1}},
        {"type": "RUN_ERROR", "message": None, "code": 5},
        {"type": "SUBAGENT_STARTED", "subagentRunId": 5},
        {"type": "RAW", "timestamp": True},
        {"type": "RAW", "timestamp": "now"},
        {"type": ""},
    ],
)
def test_what_is_malformed_is_shown_all_the_same(event: dict[str, Any]) -> None:
    assert len(shown([event])) == 1


def test_whole_events() -> None:
    found = invoke("decode", "--full", stdin=lines(RUN)).stdout.splitlines()
    assert len(found) == 2 * len(RUN)
    assert json.loads(found[1]) == {"threadId": "thread-1", "runId": "run-1"}


def test_a_timeline_in_a_file(tmp_path: Path) -> None:
    out = tmp_path / "run.txt"
    assert invoke("convert", "-", str(out), "--to", "pretty", stdin=lines(RUN)).exit_code == 0
    assert len(out.read_text("utf-8").splitlines()) == len(RUN)
    assert "\x1b" not in out.read_text("utf-8")


# --- tables --------------------------------------------------------------------------------


def test_a_row_for_each_run_that_fits(tmp_path: Path) -> None:
    runs = [
        {**event, **({"runId": f"run-{n}-{'x' * 40}"} if "runId" in event else {})}
        for n in range(3)
        for event in RUN
    ]
    for columns in (50, 60, 80, 120):
        result = invoke("inspect", stdin=lines(runs), columns=columns)
        assert result.exit_code == 0
        table = [line for line in result.stdout.splitlines() if line.startswith("run-")]
        assert len(table) == 3
        assert max(map(len, result.stdout.splitlines())) <= columns
        if columns < 120:
            # What is not there is said.
            assert all("…" in line for line in table)
        headings = {"events", "bytes", "messages", "calls", "seconds"}
        assert all(heading in result.stdout for heading in headings)
    assert (
        "(no room for: bytes, messages, calls, seconds)"
        in invoke("inspect", stdin=lines(runs), columns=60).stdout
    )


def test_of_many_runs_the_first_are_shown() -> None:
    stdin = lines(RUN) * 100
    shown = invoke("inspect", stdin=stdin).stdout
    assert shown.count("\nrun-1 ") == inspect.ROWS
    assert f"... and {100 - inspect.ROWS} more runs; --json lists all" in shown
    assert "runs        100 (100 RUN_FINISHED)" in shown
    summary = json.loads(invoke("inspect", "--json", stdin=stdin).stdout)
    assert (summary["runCount"], len(summary["runs"]), summary["messages"]) == (100, 100, 300)
    shown = invoke("inspect", "--summary", stdin=stdin).stdout
    assert "run-1" not in shown
    assert "runs        100 (100 RUN_FINISHED)" in shown
    summary = json.loads(invoke("inspect", "--summary", "--json", stdin=stdin).stdout)
    assert (summary["runCount"], summary["runs"]) == (100, [])


def test_what_a_stream_makes_up_does_not_pile_up() -> None:
    """Counted: what a summary keeps of a stream of any length."""
    summary = inspect.Summary(0)
    for number in range(3000):
        summary.add({"type": "RUN_STARTED", "threadId": "t", "runId": str(number)})
        summary.add({"type": "TEXT_MESSAGE_START", "messageId": str(number)})
        summary.add({"type": f"MADE_UP_{number}"})
    assert (summary.run_count, summary.messages) == (3000, 3000)
    assert not summary.runs
    assert len(summary._items) == 1
    assert len(summary.counts) == inspect.TYPES + 1
    assert sum(summary.counts.values()) == 9000
    assert summary.ends == {None: 3000}
    future = lines([RUN[0], *[{"type": "FUTURE"}] * 1500, RUN[-1]])
    verdict = json.loads(invoke("verify", "--json", stdin=future).stdout)
    assert (verdict["events"], len(verdict["tolerated"])) == (1502, 1000)
    assert "... and 500 more" in invoke("verify", stdin=future).stdout
    assert "(and 1,499 more)" in invoke("inspect", stdin=future).stdout


# --- a terminal ----------------------------------------------------------------------------

posix = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")


def on_terminal(
    *arguments: str, columns: int = 80, interrupt: bool = False, **streams: Any
) -> tuple[int, str]:
    """The status of a command, and what a terminal shows of it."""
    import pty

    ours, theirs = pty.openpty()
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams}
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen([*COMMAND, *arguments], env=env, **ends)
    os.close(theirs)
    output = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # Linux, when the other end is closed.
            break
        if not piece:
            break
        output += piece
        if interrupt and b"MB/s" in output:
            interrupt = False
            process.send_signal(signal.SIGINT)
    os.close(ours)
    return process.wait(30), output.decode()


@posix
def test_on_a_terminal_there_is_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(lines(RUN))
    status, output = on_terminal("decode", str(path), columns=60)
    assert status == 0
    assert "\x1b[" in output
    text = re.sub("\x1b\\[[0-9;]*m", "", output).splitlines()
    assert len(text) == len(RUN)
    assert max(map(len, text)) <= 60
    # In a pipe JSON Lines, without colour.
    done = subprocess.run([*COMMAND, "decode", str(path)], capture_output=True)
    assert done.stdout == lines(RUN)


@posix
def test_a_terminal_is_told_that_it_is_read() -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "decode"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    assert process.stderr is not None
    assert b"Ctrl-D" in process.stderr.readline()
    os.write(ours, lines(RUN[:1]) + b"\x04\x04")
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert out == lines(RUN[:1])


@posix
def test_progress_is_shown_and_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(lines(RUN) * 12_000)
    status, output = on_terminal("inspect", "--summary", str(path), columns=100)
    assert status == 0
    # (The last thing done to the bar is to erase it.)
    assert "MB/s" in output
    assert "MB/s" not in output[output.rindex("\x1b[2K") :]
    assert "12,000 RUN_FINISHED" in output
    # Not where stderr is no terminal.
    with open(tmp_path / "errors", "w+b") as errors:
        status, output = on_terminal("inspect", "--summary", str(path), stderr=errors)
        errors.seek(0)
        assert (status, errors.read()) == (0, b"")
    assert "MB/s" not in output


@posix
def test_ctrl_c_shows_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(lines(RUN) * 60_000)
    status, output = on_terminal("inspect", str(path), columns=120, interrupt=True)
    assert status == 130
    assert "Interrupted: these are the counts so far" in output
    assert "problem     none" in output
    text = re.sub("\x1b\\[[0-9;]*m", "", output)
    count = int(re.findall(r"all +([0-9,]+)", text)[0].replace(",", ""))
    assert 0 < count < 60_000 * len(RUN)
    assert "Traceback" not in output


@posix
def test_ctrl_c_while_a_pipe_is_silent() -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*COMMAND, "inspect", "--json"], stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdin is not None
    process.stdin.write(lines(RUN))
    process.stdin.flush()
    wait_for_more(process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    summary = json.loads(out)
    assert (summary["events"], summary["interrupted"]) == (len(RUN), True)
    assert errors == b""


@posix
def test_ctrl_c_leaves_a_whole_archive(tmp_path: Path) -> None:
    out = tmp_path / "run.sse.gz"
    command = [*COMMAND, "convert", "-", str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(lines(RUN))
    process.stdin.flush()
    wait_for_more(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert len(gzip.decompress(out.read_bytes()).splitlines()) == 2 * len(RUN)


def test_the_size_of_what_is_no_file() -> None:
    assert reading.file_size(io.BytesIO(b"x")) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_memory_of_inspect_does_not_grow_with_the_stream() -> None:
    script = (
        "import sys; from agui_codec import cli; sys.argv[1:] = ['inspect', '--summary']\n"
        "try: cli.main()\n"
        "finally:\n"
        " peak = [it for it in open('/proc/self/status') if it.startswith('VmHWM')][0].split()[1]\n"
        " print(peak, file=sys.stderr)"
    )
    peaks = []
    for count in (100, 10_000):
        stdin = b"".join(
            lines([{**event, "runId": f"r{n}"} if "runId" in event else event for event in RUN])
            for n in range(count)
        )
        done = subprocess.run([sys.executable, "-c", script], input=stdin, capture_output=True)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] - peaks[0] < 4_000, peaks
