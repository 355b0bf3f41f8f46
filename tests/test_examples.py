"""The programs in ``examples/``, each against an agent on the loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agui_codec.client import TruncatedRunError
from agui_codec.client.testing import ScriptedAgent, serve
from streams import Event, content, end, event, start

pytest.importorskip("uvicorn")

EXAMPLES = Path(__file__).parent.parent / "examples"
DONE = [start(), content("All "), content("done."), end()]


def call(name: str, arguments: Any) -> list[Event]:
    return [
        event("TOOL_CALL_START", toolCallId=name, toolCallName=name),
        event("TOOL_CALL_ARGS", toolCallId=name, delta=json.dumps(arguments)),
        event("TOOL_CALL_END", toolCallId=name),
    ]


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(name: str, agent: ScriptedAgent, stdin: str = "") -> str:
    """What an example writes, as the program that it is."""

    async def main() -> str:
        async with serve(agent) as url:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, EXAMPLES / f"{name}.py", url, "Hello"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            out, errors = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
            assert (process.returncode, errors) == (0, b"")
            return out.decode()

    return asyncio.run(main())


def test_all_are_tested() -> None:
    text = Path(__file__).read_text("utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.stem}"' in text


def test_chat_client() -> None:
    agent = ScriptedAgent(DONE)
    assert ran("chat_client", agent) == "All done.\n"
    assert agent.inputs[0].messages[0].content == "Hello"
    # As it says, eight lines.
    code = (EXAMPLES / "chat_client.py").read_text("utf-8").split('"""')
    lines = "".join(code[2::2]).splitlines()
    assert len([line for line in lines if line and "__main__" not in line]) <= 10


@pytest.mark.parametrize("allowed", [True, False])
def test_frontend_tool(allowed: bool) -> None:
    agent = ScriptedAgent(call("local_time", {}), call("get_location", {"precision": "fine"}), DONE)
    shown = ran("frontend_tool", agent, "y\n" if allowed else "no\n")
    assert "The agent calls get_location{'precision': 'fine'}. Allow it? [y/N] " in shown
    assert shown.endswith("All done.\n")
    assert [one.name for one in agent.inputs[0].tools] == ["local_time", "get_location"]
    answer = agent.inputs[-1].messages[-1].content
    assert isinstance(answer, str)
    assert ("Rua Augusta" in answer) is allowed
    assert ("declined" in answer) is not allowed


WANTED = {
    "description": "A \x1b[31mtable",
    "data": {"name": "Ada"},
    "output": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "people": {"type": "integer"},
            "where": {"type": "string", "enum": ["in", "out"]},
            "note": {"type": "string"},
        },
        "required": ["people"],
    },
}


def test_generative_ui() -> None:
    agent = ScriptedAgent(call("generateUserInterface", WANTED), DONE)
    shown = ran("generative_ui", agent, "\n\nmany\ntrue\n4\nup\nout\n\n")
    assert "A \\x1b[31mtable\n" in shown
    assert "Your name [Ada]: " in shown
    assert "required" in shown
    assert "expected integer" in shown
    assert "expected one of in, out" in shown
    assert shown.endswith("All done.\n")
    answer: Any = agent.inputs[1].messages[-1].content
    assert json.loads(answer) == {"name": "Ada", "people": 4, "where": "out"}


def test_generative_ui_with_a_form_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    async def form(description: str, schema: dict[str, Any], data: dict[str, Any]) -> Any:
        asked.append((description, schema, data))
        return {"people": 2}

    async def main() -> None:
        agent = ScriptedAgent(call("generateUserInterface", WANTED), DONE)
        async with serve(agent) as url:
            await example("generative_ui").main(url, "Hello", form)
        assert agent.inputs[1].messages[-1].content == '{"people":2}'

    asyncio.run(main())
    assert asked == [(WANTED["description"], WANTED["output"], WANTED["data"])]
    assert capsys.readouterr().out == "All done.\n"


@pytest.mark.parametrize("whole", [True, False])
def test_websocket_agent(whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    server = pytest.importorskip("websockets.asyncio.server")
    module = example("websocket_agent")
    inputs: list[Event] = []

    async def answer(socket: Any) -> None:
        given = json.loads(await socket.recv())
        inputs.append(given)
        ids = {"threadId": given["threadId"], "runId": given["runId"]}
        ends = [event("RUN_FINISHED", **ids)] if whole else []
        for one in [event("RUN_STARTED", **ids), *DONE, *ends]:
            await socket.send(json.dumps(one))

    async def main() -> None:
        async with server.serve(answer, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            await module.main(f"ws://127.0.0.1:{port}", "Hello")

    if whole:
        asyncio.run(main())
        assert capsys.readouterr().out == "All done.\n"
    else:
        with pytest.raises(TruncatedRunError):
            asyncio.run(main())
    assert inputs[0]["messages"][0]["content"] == "Hello"
