"""``agui-codec verify`` of a history."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

from agui_codec.cli import commands
from agui_codec.history import EventHistory, JSONLinesStore, SQLiteStore
from test_history import STORES, run
from test_history_stores import OLD


def verify(path: Path, *options: str) -> Result:
    return CliRunner().invoke(commands.cli, ["verify", str(path), *options])


def verdict(path: Path) -> Any:
    return json.loads(verify(path, "--json").stdout)


@pytest.fixture(params=STORES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A history of two threads, with a run that broke off and one that is open."""
    path = tmp_path / "history"
    with EventHistory(STORES[request.param](path)) as history:
        history.append(run("r1"))
        history.append(run("r2", parent="r1"))
        history.append(run("r1", thread="other"))
        history.append(run("r3")[:3], outcome="cancelled")
        history.writer().write(run("r4")[:3])
    return path


def test_a_whole_history(path: Path) -> None:
    result = verify(path)
    assert result.exit_code == 0, result.output
    assert result.stdout == "5 runs of 2 threads, 24 events, valid\n"
    assert verdict(path) == {
        "valid": True,
        "threads": 2,
        "runs": 5,
        "events": 24,
        "errors": [],
        "tolerated": [],
    }


@pytest.mark.parametrize("name", ["history.jsonl", "history.sqlite"])
def test_a_history_of_the_first_version(tmp_path: Path, name: str) -> None:
    result = verify(Path(shutil.copy(OLD / name, tmp_path)))
    assert result.exit_code == 0, result.output
    assert "4 runs of 2 threads" in result.stdout


def test_damaged_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with EventHistory(JSONLinesStore(path)) as history:
        for name in ("r1", "r2", "r3"):
            history.append(run(name))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"TEXT_MESSAGE_START", b'"')
    lines.insert(2, b"hello\n")
    path.write_bytes(b"".join(lines) + b'{"threadId": "t", "ru')
    result = verify(path)
    assert result.exit_code == 1
    first, second, third = result.stdout.splitlines()
    assert first == "the last line is unfinished (21 bytes)"
    assert second.startswith("line 3: not a stored run: ")
    assert third.startswith("line 2: not a stored run (run 'r2' of thread 't'): ")
    assert result.stderr == f"Error: {path}: 2 problems in 3 runs of 1 threads, 12 events\n"
    said = verdict(path)
    assert said["valid"] is False
    assert [(one["runId"], one["line"]) for one in said["errors"]] == [(None, 3), ("r2", 2)]
    # The first line does not tell, so it has to be said.
    path.write_bytes(b"".join(lines[2:]))
    assert "neither JSON" in verify(path).stderr
    assert "line 1: " in verify(path, "--history").stdout


def test_runs_that_are_not_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with EventHistory(SQLiteStore(path)) as history:
        for name in ("a", "b", "c", "d", "e"):
            history.append(run(name))
    database = sqlite3.connect(path)
    for name, change in {
        "a": "parent_run_id = 'zz'",
        "b": "events = '['",
        "c": "events = (SELECT events FROM runs WHERE run_id = 'd')",
        "d": """events = '[{"type":"RUN_STARTED","threadId":"t","runId":"d"}]'""",
        "e": "events = '[]'",
    }.items():
        database.execute(f"UPDATE runs SET {change} WHERE run_id = '{name}'")
        database.commit()
    database.close()
    result = verify(path)
    assert result.exit_code == 1
    reasons = [line.partition(": ")[2] for line in result.stdout.splitlines()]
    assert reasons[0] == "its parent 'zz' is not stored before it"
    assert reasons[1].startswith("Expecting value")
    assert reasons[2] == "the first event is not the RUN_STARTED of this run"
    assert reasons[3] == "the outcome is success, but the run has no end"
    assert reasons[4] == "the first event is not the RUN_STARTED of this run"


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE things (x)")
    database.commit()
    database.close()
    before = path.read_bytes()
    result = verify(path)
    assert result.exit_code == 1
    assert f"Error: {path}: not a history: no such table: runs" in result.stderr
    assert verdict(path)["errors"][0]["reason"] == "no such table: runs"
    assert path.read_bytes() == before


def test_a_history_cannot_be_piped() -> None:
    result = CliRunner().invoke(commands.cli, ["verify", "--history"], input=b"{}")
    assert result.exit_code == 2
    assert "cannot be read from stdin" in result.stderr
