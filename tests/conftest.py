"""The shared corpus, Hypothesis profiles, and the rule that no test is skipped unnoticed."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from sanitized import SANITIZED, SMALL_STACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = pytest.TestReport | pytest.CollectReport

ROOT = Path(__file__).resolve().parents[1]
# The protocol's conformance documents and recorded streams, kept beside the repository.
SHARED = ROOT.parent / "shared"
MISSING = f"the shared corpus is not at {SHARED}"

# AddressSanitizer keeps freed memory for a while.
MEMORY_NOISE = (80 if SANITIZED else 3) << 20

# A run in the background of a script ignores SIGINT, and all that it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a machine that other work shares.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", settings.get_profile("default"), print_blob=True)


def shared_corpus() -> Path | None:
    """The corpus folder; None where it is absent and may be (AGUI_CODEC_REQUIRE_SHARED unset)."""
    if SHARED.is_dir():
        return SHARED
    if os.environ.get("AGUI_CODEC_REQUIRE_SHARED") == "1":
        raise FileNotFoundError(MISSING)
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    return shared_corpus() or pytest.skip(MISSING)


def corpus_files(pattern: str) -> list[object]:
    """Parameters for a test: the files of the corpus that match, as ``Path``, by relative name.

    ``@pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))``
    """
    corpus = shared_corpus()
    if corpus is None:
        return [pytest.param(None, id="missing", marks=pytest.mark.skip(reason=MISSING))]
    files = sorted(corpus.glob(pattern))
    if not files:
        raise FileNotFoundError(f"nothing in {SHARED} matches {pattern}")
    return [pytest.param(file, id=str(file.relative_to(corpus))) for file in files]


def on_small_stack(call: Callable[[], Any]) -> Any:
    """What the call gives or raises in a thread with a stack of ``SMALL_STACK`` bytes."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


ALLOWED_SKIPS = pytest.StashKey[frozenset[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--allowed-skips", metavar="FILE", help="fail each test that is skipped but not in FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("allowed_skips"):
        lines = (config.rootpath / file).read_text("utf-8").splitlines()
        config.stash[ALLOWED_SKIPS] = frozenset(_test_id(line) for line in lines if line[:1] != "#")


def _test_id(line: str) -> str:
    test, _, reason = line.partition("  # ")
    if not reason:
        raise pytest.UsageError(f"an allowed skip needs a reason: {line!r}")
    return test


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    return _refuse_skip(item.config, report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return _refuse_skip(collector.config, report)


def _refuse_skip(config: pytest.Config, report: Report) -> Report:
    """Turn a skip that is not allowed into a failure. An expected failure is no skip."""
    allowed = config.stash.get(ALLOWED_SKIPS, None)
    if allowed is None or not report.skipped or hasattr(report, "wasxfail"):
        return report
    if report.nodeid not in allowed:
        report.outcome = "failed"
        *_, reason = report.longrepr
        report.longrepr = f"{reason} (not in {config.getoption('allowed_skips')})"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The rules of the protocol, and how many streams of the corpus show each."""
    reports = terminalreporter.stats.get("passed", [])
    if not any("test_corpus.py" in report.nodeid for report in reports):
        return
    from test_corpus import cases, rules

    counts = Counter(name for name, _ in cases("streams"))
    terminalreporter.section("streams for each rule of the protocol")
    for rule in rules():
        terminalreporter.line(f"{counts[rule]:3} {rule}")
