"""Every contender at every document under pytest-benchmark: output checked, then time taken.

For looking closely at one row, saving runs and comparing them (``pytest benches --only "text
delta" --benchmark-autosave --benchmark-compare``). A time is for all items of the document. For
ratios between contenders use ``python -m benches.report``, which takes them in turn.
"""

from typing import Any

import pytest

from agui_codec._demo import exhaust
from benches.suite import Row, chosen, parameters


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each row, those of a document one after the other."""
    try:
        pairs = list(chosen(metafunc.config.getoption("only")))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize("row", parameters(pairs))


def test_row(benchmark: Any, row: Row) -> None:
    """The contender's output is right, and this is how long it takes."""
    row.document.check(row.contender)
    benchmark.group = f"{row.group.name}: {row.document.name}"
    benchmark.extra_info["items"] = row.document.count
    benchmark(exhaust, row.contender.results)
