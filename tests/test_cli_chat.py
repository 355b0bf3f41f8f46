"""The command ``agui-codec chat``, against agents on the loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("uvicorn")

from ag_ui.core import RunAgentInput

from agui_codec import read_events
from agui_codec.client.testing import ScriptedAgent, serve
from streams import Event, content, end, event, start

COMMAND = [sys.executable, "-m", "agui_codec", "chat"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")


@contextmanager
def served(agent: Any) -> Iterator[str]:
    """The URL of an agent, which is served in a thread of its own."""
    ready: list[str] = []
    up, down = threading.Event(), threading.Event()

    async def main() -> None:
        async with serve(agent) as url:
            ready.append(url)
            up.set()
            while not down.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert up.wait(30)
        yield ready[0]
    finally:
        down.set()
        thread.join()


def chat(*arguments: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([*COMMAND, *arguments], input=given, capture_output=True, timeout=60)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def echo(input: RunAgentInput) -> list[Any]:
    message = f"m{len(input.messages)}"
    said = str(input.messages[-1].content)
    return [start(message), content("You said ", message), content(said, message), end(message)]


def interrupted(*interrupts: Event) -> Any:
    def script(input: RunAgentInput) -> list[Any]:
        ids = {"threadId": input.thread_id, "runId": input.run_id}
        return [
            event("RUN_FINISHED", outcome={"type": "interrupt", "interrupts": [*interrupts]}, **ids)
        ]

    return script


def resumed(agent: ScriptedAgent) -> list[Event]:
    return json.loads(agent.inputs[-1].model_dump_json(by_alias=True, exclude_none=True))["resume"]  # type: ignore[no-any-return]


# -- without a terminal ---------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["sse", "protobuf"])
def test_lines_of_stdin_are_messages(wire: str) -> None:
    agent = ScriptedAgent(echo, echo)
    with served(agent) as url:
        done = chat(url, "--wire", wire, stdin="one\n\n  \ntwo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "You said one\nYou said two\n"
    # It is one conversation.
    assert [len(one.messages) for one in agent.inputs] == [1, 3]
    assert agent.inputs[0].thread_id == agent.inputs[1].thread_id


def test_messages_headers_and_thread() -> None:
    seen: list[dict[str, str]] = []
    agent = ScriptedAgent(echo, echo)

    async def looks(scope: Any, receive: Any, send: Any) -> None:
        from agui_codec.client.testing import _application

        seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await _application(agent)(scope, receive, send)

    with served(looks) as url:
        options = ["--header", "Authorization: Bearer a:b", "--header", "X-Two:2"]
        done = chat(
            url.removeprefix("http://"), *options, "-m", "a", "--message", "b", "--thread-id", "t9"
        )
    assert (done.returncode, done.stdout) == (0, "You said a\nYou said b\n")
    assert [(one["authorization"], one["x-two"]) for one in seen] == [("Bearer a:b", "2")] * 2
    assert agent.inputs[0].thread_id == "t9"
    for wrong in ("no colon", ": x", "X: é"):
        done = chat("localhost", "--header", wrong, "-m", "x")
        assert done.returncode == 2
        assert "Name: value" in done.stderr


EVERYTHING = [
    event("REASONING_MESSAGE_START", messageId="r", role="reasoning"),
    event("REASONING_MESSAGE_CONTENT", messageId="r", delta="Hm."),
    event("REASONING_MESSAGE_END", messageId="r"),
    event("TOOL_CALL_START", toolCallId="a", toolCallName="look"),
    event("TOOL_CALL_START", toolCallId="b", toolCallName="hear"),
    event("TOOL_CALL_ARGS", toolCallId="a", delta='{"x":'),
    event("TOOL_CALL_ARGS", toolCallId="b", delta="{}"),
    event("TOOL_CALL_ARGS", toolCallId="a", delta="1}"),
    event("TOOL_CALL_END", toolCallId="a"),
    event("TOOL_CALL_END", toolCallId="b"),
    event("TOOL_CALL_RESULT", messageId="t", toolCallId="a", content="a wall"),
    event("STATE_SNAPSHOT", snapshot={"n": 1}),
    event(
        "STATE_DELTA",
        delta=[
            {"op": "replace", "path": "/n", "value": 2},
            {"op": "copy", "from": "/n", "path": "/m"},
            {"op": "remove", "path": "/n"},
        ],
    ),
    start("1"),
    start("2"),
    content("A wall.\n", "1"),
    content("At \x1b[31mleast\x07\r", "2"),
    content("I think.", "1"),
    end("1"),
    end("2"),
]


def test_what_is_shown() -> None:
    with served(ScriptedAgent(EVERYTHING, EVERYTHING)) as url:
        done = chat(url, "-m", "x", "--state")
        assert done.stdout.splitlines() == [
            "Hm.",
            'look({"x":1})',
            "hear({})",
            "  = a wall",
            'state {"n": 1}',
            "state replace /n 2",
            "state copy /m /n",
            "state remove /n",
            "A wall.",
            # Nothing that a terminal would obey.
            r"At \x1b[31mleast\x07\r",
            "I think.",
        ]
        assert "state" not in chat(url, "-m", "x").stdout
    assert done.stderr == ""


def test_json() -> None:
    with served(ScriptedAgent(EVERYTHING)) as url:
        done = chat(url, "--json", "-m", "x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["type"] for one in events[:2]] == ["RUN_STARTED", "REASONING_MESSAGE_START"]
    assert events[1:-1] == EVERYTHING


@pytest.mark.parametrize("name", ["out.sse", "out.jsonl", "out.pb"])
def test_record(name: str, tmp_path: Path) -> None:
    agent = ScriptedAgent([*EVERYTHING], echo)
    with served(agent) as url:
        done = chat(url, "--record", str(tmp_path / name), "-m", "x", "-m", "y")
    assert done.returncode == 0, done.stderr
    events = list(read_events(tmp_path / name, as_dict=True))
    assert [one["type"] for one in events].count("RUN_FINISHED") == 2
    assert events[1 : 1 + len(EVERYTHING)] == EVERYTHING


def test_record_to_what(tmp_path: Path) -> None:
    for name in ("out.txt", "out.sse.gz"):
        (tmp_path / name).write_text("mine")
        done = chat("localhost", "--record", str(tmp_path / name), "-m", "x")
        assert (done.returncode, "name it .sse, .jsonl or .pb" in done.stderr) == (2, True)
        assert (tmp_path / name).read_text() == "mine"
    done = chat("localhost", "--record", str(tmp_path / "nowhere" / "out.sse"), "-m", "x")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_interrupts() -> None:
    schema = {"type": "boolean"}
    agent = ScriptedAgent(
        interrupted(
            {"id": "a", "reason": "approval", "message": "Really?", "responseSchema": schema},
            {"id": "b", "reason": "input_required"},
            {"id": "c", "reason": "late", "expiresAt": "2020-01-01T00:00:00Z"},
            {"id": "d", "reason": "any"},
        ),
        [start("x"), content("Thanks.", "x"), end("x")],
        interrupted({"id": "e", "reason": "again"}),
    )
    with served(agent) as url:
        done = chat(url, stdin="go\ntrue\nsome text\n\n")
        assert (done.returncode, done.stdout) == (0, "Thanks.\n")
        assert resumed(agent) == [
            {"interruptId": "a", "status": "resolved", "payload": True},
            {"interruptId": "b", "status": "resolved", "payload": "some text"},
            {"interruptId": "c", "status": "cancelled"},
            {"interruptId": "d", "status": "cancelled"},
        ]
        assert "? Really?" in done.stderr
        assert '{"type": "boolean"}' in done.stderr
        assert "expired" in done.stderr
        done = chat(url, stdin="go\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: the agent waits for an answer to interrupt 'e'"


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_errors_are_one_line() -> None:
    async def teapot(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/html")]
        status = 418 if scope["path"] == "/" else 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"<h1>\nlog in</h1>\n"})

    agent = ScriptedAgent(
        [start(), content("Well"), event("RUN_ERROR", message="no\nquota", code="q")],
        [start(), content("Well"), OSError("gone")],
    )
    with served(teapot) as url, served(agent) as broken:
        for where, says in [
            (f"http://127.0.0.1:{free_port()}", r"127.0.0.1:\d+: .*"),
            (url, "418"),
            (url + "login", "content type text/html"),
            ("ftp://host/", "ftp"),
            ("http://[::1", "."),
            (broken, r"^Error: the run failed \(q\): no\\nquota$"),
            (broken, "broke off"),
        ]:
            before = time.monotonic()
            done = chat(where, "-m", "hello", "-m", "never said")
            assert done.returncode == 1, done
            (line,) = done.stderr.splitlines()
            assert line.startswith("Error: ")
            assert re.search(says, line), line
            assert time.monotonic() - before < 20
            assert done.stdout in ("", "Well\n")


def test_input_that_is_no_utf8() -> None:
    agent = ScriptedAgent(echo)
    with served(agent) as url:
        done = chat(url, stdin=b"a\xffb\r\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert agent.inputs[0].messages[0].content == "a�b"


def test_deviations_are_told() -> None:
    with served(ScriptedAgent([event("FUTURE", x=1), *EVERYTHING[-1:-1]])) as url:
        done = chat(url, "-m", "x")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: ")
    assert "FUTURE" in done.stderr


@posix
def test_ctrl_c_in_a_script() -> None:
    with served(ScriptedAgent([start(), content("Well"), 3600.0])) as url:
        process = subprocess.Popen(
            [*COMMAND, url, "-m", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.read(4) == b"Well"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_a_reader_that_has_gone() -> None:
    with served(ScriptedAgent([start(), *[content("x" * 1000)] * 500, end()])) as url:
        process = subprocess.Popen(
            [*COMMAND, url, "-m", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()


# -- at a terminal --------------------------------------------------------------------------


class Terminal:
    """A chat on a pseudo-terminal."""

    def __init__(self, *arguments: str, **streams: Any) -> None:
        import pty

        self.ours, theirs = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams}
        # In a session of its own, of which this is the terminal: Ctrl-C is a character.
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], env=env, start_new_session=True, preexec_fn=self.control, **ends
        )
        os.close(theirs)
        self.shown = ""
        self.seen = 0

    @staticmethod
    def control() -> None:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def expect(self, text: str) -> str:
        """Wait until a text is shown, after what was waited for before."""
        deadline = time.monotonic() + 30
        while (at := self.shown.find(text, self.seen)) < 0:
            assert time.monotonic() < deadline, self.shown
            try:
                piece = os.read(self.ours, 1 << 16)
            except OSError:
                piece = b""
            assert piece, f"{text!r} was not shown: {self.shown!r}"
            self.shown += piece.decode()
        passed = self.shown[self.seen : at]
        self.seen = at + len(text)
        return passed

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def end(self, typing: str = "") -> int:
        """Type something that ends it, and wait for the end.

        What is typed between the prompt and the wait for a line has no effect on Python's `input`,
        so it is typed a little later, and again if it had none.
        """
        now = time.monotonic()
        deadline, next_time = now + 40, now + 0.3
        while True:
            if typing and time.monotonic() >= next_time:
                next_time += 10
                with suppress(OSError):
                    self.type(typing)
            if not select.select([self.ours], [], [], 0.1)[0]:
                assert time.monotonic() < deadline, self.shown
                continue
            try:
                piece = os.read(self.ours, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            self.shown += piece.decode()
        os.close(self.ours)
        return self.process.wait(30)


@posix
def test_a_conversation() -> None:
    agent = ScriptedAgent(
        [*EVERYTHING[:3], *EVERYTHING[3:4], *EVERYTHING[8:9]],
        interrupted({"id": "a", "reason": "approval", "message": "Really?"}),
        echo,
    )
    with served(agent) as url:
        terminal = Terminal(url)
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("\x1b[2mHm.")  # dimmed
        terminal.expect("\x1b[33mlook()")
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("? Really?")
        terminal.expect("answer> ")
        terminal.type("yes\n")
        terminal.expect("You said go")
        terminal.expect("> ")
        assert terminal.end("\x04") == 0
    assert "Traceback" not in terminal.shown
    assert resumed(agent)[0]["payload"] == "yes"


@posix
def test_ctrl_c_ends_the_run_and_then_the_conversation() -> None:
    agent = ScriptedAgent([start(), content("Well"), 3600.0], echo)
    with served(agent) as url:
        terminal = Terminal(url)
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("Well")
        terminal.type("\x03")
        terminal.expect("aborted")
        terminal.expect("> ")
        terminal.type("again\n")
        terminal.expect("You said again")
        terminal.expect("> ")
        assert terminal.end("\x03") == 130
    assert "Traceback" not in terminal.shown
    assert len(agent.inputs) == 2


@posix
def test_a_failure_after_the_first_turn_is_shown() -> None:
    agent = ScriptedAgent(echo, [event("RUN_ERROR", message="no quota")], echo)
    with served(agent) as url:
        terminal = Terminal(url)
        for said, shown in [
            ("a", "You said a"),
            ("b", "the run failed: no quota"),
            ("c", "said c"),
        ]:
            terminal.expect("> ")
            terminal.type(f"{said}\n")
            terminal.expect(shown)
        assert terminal.end("\x04") == 0
    terminal = Terminal(f"http://127.0.0.1:{free_port()}")
    terminal.expect("> ")
    terminal.type("a\n")
    assert terminal.end() == 1
    assert "Error: http://127.0.0.1" in terminal.shown


@posix
def test_prompts_go_to_stderr_when_stdout_is_a_pipe(tmp_path: Path) -> None:
    with served(ScriptedAgent(echo)) as url, open(tmp_path / "out", "w+b") as out:
        terminal = Terminal(url, "--json", stdout=out)
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("> ")
        assert terminal.end("\x04") == 0
        out.seek(0)
        kinds = [json.loads(line)["type"] for line in out.read().splitlines()]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] == "RUN_FINISHED"
