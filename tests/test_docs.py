"""The documentation: its code and commands run, what it links to and names is there."""

from __future__ import annotations

import ast
import asyncio
import builtins
import gzip
import inspect
import os
import re
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from agui_codec import AGUI_MEDIA_TYPE, SSE_MEDIA_TYPE, EventDecoder, EventEncoder, uninstall
from agui_codec.client.testing import ScriptedAgent, serve
from conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
# The pages that say where things are.
MAPS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PROSE = [*MAPS, ROOT / "SECURITY.md"]
ADDRESS = "http://localhost:8000/"
BLOCK = re.compile(r"^```python( sync)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def says(text: str) -> list[dict[str, Any]]:
    return [{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": text}]


def calls(name: str) -> list[dict[str, Any]]:
    return [{"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": name, "delta": "{}"}]


class Server(ScriptedAgent):
    """Plays a script as often as it is asked, by what the input has."""

    def __init__(self, script: Any) -> None:
        super().__init__()
        self.script = script

    async def run(self, input: Any) -> Any:
        self._scripts.append(self.script(input))
        async for event in super().run(input):
            yield event


def finds_location(input: Any) -> list[dict[str, Any]]:
    answered = input.messages[-1].role == "tool"
    return says("You are in Lisbon.") if answered else calls("get_location")


def asks(input: Any) -> list[dict[str, Any]]:
    if input.resume:
        return says("Booked.")
    interrupt = {"id": "int-1", "reason": "confirm", "message": "Book it?"}
    outcome = {"type": "interrupt", "interrupts": [interrupt]}
    ids = {"threadId": input.thread_id, "runId": input.run_id}
    return [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids, "outcome": outcome}]


async def agent_events() -> Any:
    yield {"type": "STEP_STARTED", "stepName": "search"}


async def run(page: Path) -> dict[str, Any]:
    """The names that the code of a page leaves behind."""
    async with (
        serve(Server(lambda _: says("Hello"))) as url,
        serve(Server(finds_location)) as tool_url,
        serve(Server(asks)) as interrupt_url,
    ):
        module = types.ModuleType(page.stem)
        names = vars(module)
        names.update(url=url, tool_url=tool_url, interrupt_url=interrupt_url)
        names.update(agent_events=agent_events, __builtins__=builtins)
        for sync, code in BLOCK.findall(page.read_text("utf-8")):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compiled = compile(code.replace(f'"{ADDRESS}"', "url"), str(page), "exec", flags)
            function = types.FunctionType(compiled, names)
            if sync:
                await asyncio.to_thread(function)
            elif inspect.isawaitable(result := function()):
                await result
    return names


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are made in a folder that goes, and the official encoder stays official."""
    monkeypatch.chdir(tmp_path)
    yield
    uninstall()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path) -> None:
    asyncio.run(run(page))


@pytest.mark.parametrize("page", [README, ROOT / "docs/encode.md"], ids=lambda page: page.stem)
def test_the_server_of_a_page_answers_in_both_formats(page: Path) -> None:
    app = asyncio.run(run(page))["app"]
    client = TestClient(app)
    accepts = {"*/*": SSE_MEDIA_TYPE, AGUI_MEDIA_TYPE: AGUI_MEDIA_TYPE}
    for accept, content_type in accepts.items():
        response = client.post("/", headers={"accept": accept})
        assert response.headers["content-type"].startswith(content_type)
        decoder = EventDecoder(content_type, as_dict=True)
        assert decoder.feed(response.content) == [{"type": "STEP_STARTED", "stepName": "search"}]


RUN = [
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
    *says("Hello"),
    {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
]
COMMAND = re.compile(r"^\$ (.*agui-codec [a-z]+.*)$", re.MULTILINE)


@pytest.mark.parametrize("command", COMMAND.findall((ROOT / "docs/command-line.md").read_text()))
def test_a_command_of_a_page_runs(command: str, tmp_path: Path) -> None:
    (tmp_path / "run.sse").write_bytes(EventEncoder().encode_many(RUN))
    (tmp_path / "run.pb.gz").write_bytes(
        gzip.compress(EventEncoder(AGUI_MEDIA_TYPE).encode_many(RUN))
    )

    async def done() -> None:
        async with serve(Server(lambda _: says("Hello"))) as url:
            line = command.replace("curl -N " + ADDRESS, "cat run.sse").replace(ADDRESS, url)
            folder = Path(sys.executable).parent
            environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
            process = await asyncio.create_subprocess_shell(line, env=environment)
            assert await process.wait() == 0

    asyncio.run(done())


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")


@pytest.mark.parametrize("page", [*PAGES, *PROSE], ids=lambda page: page.stem)
def test_what_a_page_links_to_exists(page: Path) -> None:
    links = LINK.findall(page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


PATH = re.compile(r"[`\s(]((?:src|python|tests|benches|docs|proto|fuzz)/[\w./-]*\w)")


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.stem)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    named = set(PATH.findall(text))
    assert named
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
