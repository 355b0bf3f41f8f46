"""The public types, as mypy and pyright see them."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agui_codec.client import AbstractAgent, AgentOptions, RunOptions
from conftest import ROOT

FOLDER = Path(__file__).parent / "typing"


def test_mypy() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", str(FOLDER)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_pyright() -> None:
    pyright = ROOT / "tests/interop/node_modules/pyright/index.js"
    node = shutil.which("node")
    if node is None or not pyright.exists():
        pytest.skip("Node, or pyright of tests/interop, is missing")
    command = [node, str(pyright), "--outputjson", "--pythonpath", sys.executable, str(FOLDER)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] >= 1
    assert found["generalDiagnostics"] == []


@pytest.mark.parametrize(
    ("options", "function"),
    [(AgentOptions, AbstractAgent.__init__), (RunOptions, AbstractAgent.run_agent)],
)
def test_options_are_the_arguments(options: type, function: object) -> None:
    parameters = inspect.signature(function).parameters.values()
    assert set(options.__annotations__) == {
        parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
