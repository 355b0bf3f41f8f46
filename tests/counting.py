"""Counting the instructions that a piece of work takes, which is the same on a busy machine.

``instructions(script)`` runs a script under callgrind. In the script ``count(name, work)`` counts
one call of ``work``, and nothing else is counted, so that imports take a few seconds only. It needs
valgrind, and Linux on x86-64. ``growth(script)`` compares two sizes of each of the script's cases.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sanitized import SANITIZED

PRELUDE = """
import ctypes, mmap

# A client request of valgrind, as valgrind.h has it: no more than a few rotations elsewhere.
_page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
_page.write(bytes.fromhex("4889f831d248c1c70348c1c70d48c1c73d48c1c7334887db4889d0c3"))
_call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(
    ctypes.addressof(ctypes.c_char.from_buffer(_page)))

def _request(number, argument=0):
    arguments = (ctypes.c_ulong * 6)(0x43540000 + number, argument)
    _call(ctypes.addressof(arguments))

def count(name, work):
    label = ctypes.create_string_buffer(name.encode())
    _request(1)  # zero
    _request(4)  # start
    work()
    _request(5)  # stop
    _request(3, ctypes.addressof(label))  # dump
"""


def instructions(script: str) -> dict[str, int]:
    """How many instructions each of the works of a script took, by its name."""
    if shutil.which("valgrind") is None or platform.machine() != "x86_64":
        pytest.skip("valgrind is missing, or this is not x86-64")
    if SANITIZED:
        pytest.skip("valgrind cannot run what is built for the sanitizer")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(PRELUDE + script, "utf-8")
        subprocess.run(
            [
                "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no",
                f"--callgrind-out-file={folder}/out", sys.executable, str(path),
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        counts = {}
        for file in Path(folder).glob("out.*"):
            text = file.read_text("utf-8")
            name = re.search(r"Trigger: Client Request: (.*)", text)
            total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            assert name is not None, text[:500]
            assert total is not None, text[:500]
            counts[name[1]] = int(total[1])
    return counts


EVENTS = """
def event(kind, **fields):
    return {"type": kind, **fields}

def text(kind, number, **fields):
    return event(f"TEXT_MESSAGE_{kind}", messageId=f"m{number}", **fields)

def call(kind, number, **fields):
    return event(f"TOOL_CALL_{kind}", toolCallId=f"c{number}", **fields)

def opened(number, **fields):
    return call("START", number, toolCallName="f", **fields)

def state(value):
    return event("STATE_SNAPSHOT", snapshot=value)
"""


def growth(script: str) -> dict[str, float]:
    """How many times the instructions each of a script's CASES takes for four times as much.

    CASES has functions by their names: from a size to the work of that size.
    """
    counts = instructions(
        script
        + """
for name, case in CASES.items():
    case(50)()
    for n in (400, 1600):
        count(f"{name}:{n}", case(n))
"""
    )
    names = {name.partition(":")[0] for name in counts}
    return {name: counts[f"{name}:1600"] / counts[f"{name}:400"] for name in names}
