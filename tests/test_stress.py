"""A minute of the random stress, with freed memory overwritten, and that it finds faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STRESS = Path(__file__).with_name("stress.py")
# A package folder with the build of the profile `checked`, which `make test` makes.
CHECKED = os.environ.get("AGUI_CODEC_CHECKED")


def stress(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    if CHECKED:
        environment["PYTHONPATH"] = CHECKED
    return subprocess.run(
        [sys.executable, str(STRESS), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.serial
@pytest.mark.parametrize(("threads", "seconds"), [(1, 40), (4, 20)])
def test_a_minute_of_stress(threads: int, seconds: int) -> None:
    run = stress("--threads", str(threads), "--seconds", str(seconds))
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-5000:]


@pytest.mark.serial
@pytest.mark.parametrize("fault", ["raise", "crash", "hang", "panic"])
def test_it_notices(fault: str) -> None:
    """A stress that cannot fail would show nothing."""
    run = stress("--seconds", "30", "--fault", fault, "--patience", "5")
    assert run.returncode == 1
    expected = {"raise": "AssertionError: planted", "crash": "ended with -11", "hang": "hung",
                "panic": "SystemError: planted"}  # fmt: skip
    assert expected[fault] in run.stdout + run.stderr
    assert "seed 1" in run.stdout
    assert "planted" in run.stdout
