"""The option of the benchmarks."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--only NAME`` measures one group or one document."""
    parser.addoption("--only", metavar="NAME", help="the group or the document to measure")
