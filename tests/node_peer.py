"""Scripts of `tests/interop`, run in one Node process for a whole batch of jobs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

INTEROP = Path(__file__).parent / "interop"


def run(script: str, jobs: list[Any]) -> list[Any]:
    """What the script answers to each job: one JSON document per line, in and out."""
    lines = "\n".join(json.dumps(job) for job in jobs)
    done = subprocess.run(
        ["node", str(INTEROP / script)], input=lines, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(jobs)
    return answers
