"""``ag-ui-validate``, an independent validator, beside our pipeline: accept or refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agui_codec import (
    AGUIError,
    ChunkExpander,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
    iter_events,
    through,
)
from conftest import corpus_files
from streams import Event

# It needs Python 3.11.
ag_ui_validate = pytest.importorskip("ag_ui_validate")

# Where the two disagree, with its rule (None: it sees nothing wrong), and who is right and why.
# It follows the SDK 0.1.21, before 1.0.
DISAGREEMENTS = {
    # We are: the corpus has these as fatal.
    "chunk-conflicting-role-fatal": None,
    "chunk-conflicting-tool-name-fatal": None,
    "duplicate-interrupt-id-fatal": None,
    "run-finished-wrong-run-id-fatal": None,
    "run-finished-wrong-thread-id-fatal": None,
    "second-run-on-another-thread-fatal": None,
    # We are: a run error may come first, and late, in 1.0 (so the corpus).
    "run-error-first-run-continues": "AGUI001",
    "late-run-error-after-finished-run-continues": "AGUI005",
    # We are: a patch that does not apply is reported by the reducer, and the run goes on.
    "state-delta-unappliable-warns-and-keeps": "AGUI302",
    # We are: a tool's result may have parts in 1.0.
    "tool-result-file-source-passes-through": "AGUI504",
    # We are: an event of a later version is dropped with a warning.
    "unknown-event-dropped": "AGUI503",
    # Both: the arguments of a call are text to the protocol, and need not be JSON; that these are
    # none is worth knowing.
    "langgraph": "AGUI204",
}


def theirs(events: list[Event]) -> set[str]:
    validator = ag_ui_validate.create_validator()
    for event in events:
        validator.feed(event)
    validator.finalize()
    report = validator.report()
    assert report.internal_errors == []
    return {one.rule for one in report.diagnostics if one.severity == "error"}


def ours(events: list[Event]) -> AGUIError | None:
    ignore: Any = lambda _: None  # noqa: E731
    pipeline = Pipeline(
        LegacyUpgrader(on_deviation=ignore),
        EventEnforcer(on_deviation=ignore),
        ChunkExpander(on_deviation=ignore),
        EventVerifier(),
    )
    try:
        for _ in through(events, pipeline):
            pass
    except AGUIError as error:
        return error
    return None


def compare(name: str, events: list[Event]) -> None:
    rules, error = theirs(events), ours(events)
    if name in DISAGREEMENTS:
        rule = DISAGREEMENTS[name]
        assert rules == ({rule} if rule else set())
        assert (error is None) == (rule is not None)
    else:
        assert (error is None) == (rules == set()), (error, rules)


@pytest.mark.parametrize("path", corpus_files("conformance/streams/*.json"))
def test_the_corpus(path: Path) -> None:
    compare(path.stem, json.loads(path.read_text("utf-8"))["stream"])


@pytest.mark.parametrize("path", corpus_files("recordings/*.sse"))
def test_the_recordings(path: Path) -> None:
    events = list(iter_events([path.read_bytes()], as_dict=True))
    assert ours(events) is None
    compare(path.stem, events)
