"""The counts tell linear work from quadratic."""

from __future__ import annotations

import pytest

from counting import grows_linearly, script_grows_linearly


def test_allocations() -> None:
    assert grows_linearly(lambda n: lambda: ["x" * 50 + str(k) for k in range(n)], 1_000)
    assert not grows_linearly(lambda n: lambda: [[None] * n for _ in range(n)], 200)


@pytest.mark.serial
def test_instructions() -> None:
    assert script_grows_linearly("for k in range(N): str(k)", 2_000)
    assert not script_grows_linearly("for k in range(N): [None] * N", 500)
