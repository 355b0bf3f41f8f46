"""The code in the documentation runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from agui_codec.client.testing import ScriptedAgent, serve
from conftest import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
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


async def run(page: Path) -> int:
    blocks = BLOCK.findall(page.read_text("utf-8"))
    async with (
        serve(Server(lambda _: says("Hello"))) as url,
        serve(Server(finds_location)) as tool_url,
        serve(Server(asks)) as interrupt_url,
    ):
        module = types.ModuleType(page.stem)
        names = vars(module)
        names.update(url=url, tool_url=tool_url, interrupt_url=interrupt_url)
        for sync, code in blocks:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compiled = compile(code, str(page), "exec", flags)
            function = types.FunctionType(compiled, names)
            if sync:
                await asyncio.to_thread(function)
            elif inspect.isawaitable(result := function()):
                await result
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path) -> None:
    assert asyncio.run(run(page)) > 0
