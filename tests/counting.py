"""Growth by counting: how much work something does, told by allocations or instructions, not time.

    def test_patches_are_linear() -> None:
        assert_linear(lambda n: functools.partial(apply_patch, [], [ADD] * n), 1_000)
"""

from __future__ import annotations

import functools
import gc
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def allocated(call: Callable[[], Any]) -> tuple[int, int]:
    """What a call leaves behind while its result is held, and the most that it had at once.

    Bytes of Python's allocators; what Rust allocates for itself is not among them.
    """
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = call()
        after, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return after - before, peak - before


@functools.cache
def instructions(script: str) -> int:
    """How many instructions `python -c script` takes, by callgrind; a skip where it is missing."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
        environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": ":".join(filter(None, sys.path))}
        run = subprocess.run(
            [*command, "-S", "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr[-2000:]
        (total,) = (line for line in out.read_text().splitlines() if line.startswith("totals: "))
        return int(total.split()[1])


def grows_linearly(
    make: Callable[[int], Callable[[], Any]],
    n: int,
    count: Callable[[Callable[[], Any]], int] = lambda call: allocated(call)[1],
) -> bool:
    """Whether four times as much input is at most five times as much work.

    Quadratic work is sixteen times as much, `n log n` at a thousand 4.8 times.

    Args:
        make: Called with a size, gives the call to measure; what it prepares is not counted.
        n: The smaller size, large enough that what is always the same does not matter.
        count: Counts the work of a call; by default the most bytes that it had allocated at once.
    """
    small, large = (count(make(size)) for size in (n, 4 * n))
    return large <= 5 * small


def script_grows_linearly(script: str, n: int) -> bool:
    """:func:`grows_linearly` for the instructions of a script, in which `N` is the size.

    What the script costs at size 0 (starting Python, the imports) is taken off.
    """
    start, small, large = (instructions(f"N = {size}\n{script}") for size in (0, n, 4 * n))
    return large - start <= 5 * (small - start)
