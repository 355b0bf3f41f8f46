"""The commands ``decode`` and ``inspect``."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

from agui_codec import EventEncoder, _demo, to_json
from agui_codec.cli import commands, reading

RUN = _demo.run()
PROTOBUF = EventEncoder("application/vnd.ag-ui.event+proto")
STREAMS = {
    "sse": b": hello\n\n" + EventEncoder().encode_many(RUN),
    "jsonl": b"".join(to_json(event) + b"\n" for event in RUN),
    "protobuf": PROTOBUF.encode_many(RUN),
}
DICTS = [json.loads(to_json(event)) for event in RUN]


def invoke(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(commands.cli, arguments, input=stdin)


def lines(result: Result) -> list[object]:
    return [json.loads(line) for line in result.stdout.splitlines()]


class TestDecode:
    @pytest.mark.parametrize("source", STREAMS)
    def test_each_form(self, source: str) -> None:
        stream = STREAMS[source]
        for options in ((), ("--from", source)):
            result = invoke("decode", *options, stdin=stream)
            assert result.exit_code == 0, result.output
            assert lines(result) == DICTS
        assert lines(invoke("decode", "-", stdin=gzip.compress(stream))) == DICTS

    def test_compressed(self) -> None:
        packed = gzip.compress(STREAMS["sse"])
        assert lines(invoke("decode", stdin=packed * 2)) == DICTS * 2
        result = invoke("decode", stdin=packed[:-9])
        assert (result.exit_code, lines(result)) == (1, DICTS)
        assert "stdin: line 47: unexpected end of compressed data" in result.stderr
        result = invoke("decode", stdin=packed[:2] + b"x" * 50)
        assert "Error: stdin: the gzip data are damaged" in result.stderr

    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        path.write_bytes(b"\n\n" + STREAMS["jsonl"])
        assert lines(invoke("decode", str(path))) == DICTS

    def test_compressed_oddly(self) -> None:
        packed = gzip.compress(STREAMS["jsonl"])
        # Members with zeros between and behind them, as tapes have.
        stdin = packed + bytes(100_000) + packed + bytes(700)
        assert lines(invoke("decode", stdin=stdin)) == DICTS * 2

        class Slow(io.BytesIO):
            def read1(self, _: int | None = -1) -> bytes:
                return super().read1(1)

        assert list(reading.Events(Slow(packed), None)) == DICTS

    def test_done(self) -> None:
        stdin = STREAMS["sse"] + b"data: [DONE]\n\n"
        result = invoke("decode", "--allow-done", stdin=stdin)
        assert (result.exit_code, lines(result)) == (0, DICTS)
        result = invoke("inspect", "--allow-done", "--json", stdin=stdin)
        assert result.exit_code == 0
        assert json.loads(result.stdout)["tolerated"] == [
            "[DONE], which is no event, was passed over"
        ]

    def test_what_a_terminal_would_obey_is_not_shown(self) -> None:
        stdin = b'{"type":"[/x]\\u001b]0;\\u009b","b":"\\u001b[2J"}\n'
        for command in (["decode", "--to", "pretty"], ["inspect"]):
            shown = invoke(*command, stdin=stdin).stdout
            assert r"[/x]\x1b]0;\x9b" in shown
            assert "\x1b" not in shown

    def test_characters_that_the_terminal_has_not(self) -> None:
        command = [sys.executable, "-m", "agui_codec.cli", "decode", "--to", "pretty"]
        done = subprocess.run(
            command,
            input='{"type":"RAW","event":"é😀"}'.encode(),
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert rb"\xe9\U0001f600" in done.stdout

    def test_pretty(self) -> None:
        shown = invoke("decode", "--to", "pretty", stdin=STREAMS["sse"]).stdout.splitlines()
        assert len(shown) == len(RUN)
        assert shown[-1].split()[-2:] == ["RUN_FINISHED", "run"]

    def test_what_came_before_an_error_is_written(self) -> None:
        result = invoke("decode", stdin=STREAMS["sse"] + b"data: [DONE]\n\n")
        assert result.exit_code == 1
        assert lines(result) == DICTS
        assert result.stderr.startswith(f"Error: stdin: line 49: event {len(RUN)}: ")
        assert "[DONE]" in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_nothing(self) -> None:
        for stdin in (b"", b"\n\n", b": ping\n\n"):
            result = invoke("decode", stdin=stdin)
            assert (result.exit_code, result.stdout) == (0, "")

    def test_follows_a_pipe(self) -> None:
        command = [sys.executable, "-m", "agui_codec.cli", "decode"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for event, expected in zip(RUN[:3], DICTS, strict=False):
                process.stdin.write(EventEncoder().encode_binary(event))
                process.stdin.flush()
                # It would hang here if it waited for more.
                assert json.loads(process.stdout.readline()) == expected
            process.stdin.close()
            assert process.wait() == 0


class TestInspect:
    @pytest.mark.parametrize("source", STREAMS)
    def test_each_form(self, source: str) -> None:
        result = invoke("inspect", "--json", stdin=STREAMS[source])
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)
        assert summary["events"] == len(RUN)
        assert summary["bytes"] == sum(len(to_json(event)) for event in RUN)
        assert summary["types"]["TEXT_MESSAGE_CONTENT"]["events"] == 4
        assert (summary["messages"], summary["toolCalls"]) == (3, 1)
        assert summary["runs"] == [
            {
                "runId": "run-1",
                "threadId": "thread-1",
                "events": len(RUN),
                "bytes": summary["bytes"],
                "messages": 3,
                "toolCalls": 1,
                "durationMs": None,
                "end": "RUN_FINISHED",
            }
        ]
        assert summary["durationMs"] is None
        assert summary["problem"] is None
        assert summary["tolerated"] == []

    def test_a_table(self) -> None:
        shown = invoke("inspect", stdin=STREAMS["sse"]).stdout
        rows = [line.split() for line in shown.splitlines()]
        assert ["messages", "3"] in rows
        assert ["problem", "none"] in rows
        assert ["run-1", "thread-1", "RUN_FINISHED", "23", "1,519"] in [row[:5] for row in rows]
        assert ["runs", "1", "(1", "RUN_FINISHED)"] in rows
        (row,) = [row for row in rows if row[:1] == ["TEXT_MESSAGE_CONTENT"]]
        assert row[1] == "4"

    def test_duration(self) -> None:
        events = [{**event, "timestamp": 1000 + 5 * at} for at, event in enumerate(DICTS)]
        stdin = b"".join(to_json(event) + b"\n" for event in events)
        summary = json.loads(invoke("inspect", "--json", stdin=stdin).stdout)
        assert summary["durationMs"] == 5 * (len(RUN) - 1)

    def test_the_first_problem(self) -> None:
        lone = to_json({"type": "TEXT_MESSAGE_END", "messageId": "m"}) + b"\n"
        stdin = STREAMS["jsonl"] + lone + lone + b"{"
        result = invoke("inspect", "--json", stdin=stdin)
        assert result.exit_code == 1
        summary = json.loads(result.stdout)
        # The first, though more came; and what came is counted all the same.
        assert f"event {len(RUN)} (line {len(RUN) + 1}), TEXT_MESSAGE_END: " in summary["problem"]
        assert summary["events"] == len(RUN) + 2

    def test_bytes_that_are_no_event(self) -> None:
        result = invoke("inspect", stdin=STREAMS["sse"] + b"data: x\n\n")
        assert result.exit_code == 1
        assert (
            f"problem     event {len(RUN)} (line 49): 'x' where a value should be" in result.stdout
        )

    def test_what_is_tolerated(self) -> None:
        future = b'{"type":"FUTURE"}\n'
        first, *others = STREAMS["jsonl"].splitlines(keepends=True)
        stdin = b"".join([first, future, *others])
        result = invoke("inspect", "--json", stdin=stdin)
        assert result.exit_code == 0
        (deviation,) = json.loads(result.stdout)["tolerated"]
        assert deviation.startswith("event 1: FUTURE: ")

    def test_what_is_tolerated_over_protobuf(self) -> None:
        future = b"\0\0\0\x05\xfa\x06\x02\x08\x01"
        result = invoke("inspect", "--json", stdin=future + STREAMS["protobuf"])
        assert result.exit_code == 0
        (deviation,) = json.loads(result.stdout)["tolerated"]
        assert "unknown type was dropped" in deviation

    def test_a_recording(self, shared: Path) -> None:
        result = invoke("inspect", str(shared / "recordings/langgraph.sse"))
        assert result.exit_code == 0
        assert "386" in result.stdout

    def test_nothing(self) -> None:
        result = invoke("inspect", stdin=b"")
        assert result.exit_code in (0, 1)
        assert "all" in result.stdout
