"""What a group of benchmarks consists of, and where the groups are."""

import atexit
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from agui_codec._demo import Contender, Document

ROOT = Path(__file__).parents[1]
INTEROP = ROOT / "tests/interop"

# To add a group, write the module and put its name here, with its heading in the report. It has
#   documents() -> list[Document | Sizes | Absent]
#   FLOOR: str | None                      the contender that is as fast as can be, for a ratio
#   BUDGETS: dict[tuple[str, str], Budget] by the names of document and contender
HEADINGS = {
    "encode": "Encoding",
    "decode": "Decoding",
    "proto": "Protobuf, and making events",
    "stages": "Stages",
    "state": "State",
    "client": "A client's run",
}
GROUPS = list(HEADINGS)


@dataclass(frozen=True)
class Budget:
    """The ratios that a contender is held to. They are shown, and never asserted.

    Args:
        faster: At least so many times as fast as the document's reference.
        floor: At most so many times the time of the group's floor.
        net: At most so many nanoseconds an item beyond the document's reference, where that is a
            call which does nothing.
    """

    faster: float | None = None
    floor: float | None = None
    net: float | None = None


@dataclass(frozen=True)
class Sizes:
    """Bytes of the same events on several wires, the first being the reference. Not measured."""

    name: str
    count: int
    sizes: dict[str, int]


@dataclass(frozen=True)
class Absent:
    """A document that cannot be measured here."""

    name: str
    reason: str


@dataclass(frozen=True)
class Group:
    """A module of benchmarks."""

    name: str
    documents: list[Document | Sizes | Absent]
    floor: str | None
    budgets: dict[tuple[str, str], Budget]


@dataclass(frozen=True)
class Row:
    """One contender at one document."""

    group: Group
    document: Document
    contender: Contender


@cache
def group(name: str) -> Group:
    """The group of this name, with its documents made."""
    module = import_module(f"benches.{name}")
    return Group(name, module.documents(), module.FLOOR, module.BUDGETS)


def chosen(only: str | None = None) -> Iterator[tuple[Group, Document | Sizes | Absent]]:
    """All documents, or those of one group, or the one document of this name.

    Raises:
        ValueError: If neither a group nor a document is called so.
    """
    every = [(group(name), document) for name in GROUPS for document in group(name).documents]
    found = [pair for pair in every if only in (None, pair[0].name, pair[1].name)]
    if not found:
        names = ", ".join([*GROUPS, *(document.name for _, document in every)])
        raise ValueError(f"no group or document is called {only!r}; there are: {names}")
    yield from found


def recording(file: str) -> Path:
    """Where a recorded run is: ``../shared/recordings``, or the folder ``AGUI_RECORDINGS``."""
    folder = os.environ.get("AGUI_RECORDINGS", ROOT.parent / "shared" / "recordings")
    return Path(folder, file)


def node_missing() -> str | None:
    """Why the TypeScript packages cannot be measured; None if they can."""
    packages = INTEROP / "node_modules/@ag-ui"
    if which("node") and (packages / "client").is_dir() and (packages / "proto").is_dir():
        return None
    return "Node is missing, or `npm ci` in tests/interop"


def seconds_in_node(script: str, job: Any) -> float:
    """The seconds per item that a script of ``tests/interop`` measures for a job."""
    run = ["node", str(INTEROP / script)]
    done = subprocess.run(run, input=json.dumps(job).encode(), capture_output=True, check=True)
    return float(done.stdout)


@cache
def _node(script: str) -> "subprocess.Popen[str]":
    node = subprocess.Popen(
        ["node", str(INTEROP / script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # It ends with its input.
    atexit.register(node.communicate)
    return node


def ask_node(script: str, job: str) -> dict[str, Any]:
    """What a script of ``tests/interop``, which goes on running, answers to a job of one line."""
    node = _node(script)
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(job + "\n")
    node.stdin.flush()
    answer: dict[str, Any] = json.loads(node.stdout.readline())
    return answer


def parameters(pairs: Iterable[tuple[Group, Document | Sizes | Absent]]) -> list[Any]:
    """The rows as pytest parameters, those of a document one after the other."""
    rows = []
    for owner, document in pairs:
        name = f"{owner.name}: {document.name}"
        if isinstance(document, Absent):
            mark = pytest.mark.skip(reason=document.reason)
            rows.append(pytest.param(None, id=name, marks=mark))
        elif isinstance(document, Document):
            for contender in document.contenders:
                row = Row(owner, document, contender)
                rows.append(pytest.param(row, id=f"{name}: {contender.name}"))
    return rows
