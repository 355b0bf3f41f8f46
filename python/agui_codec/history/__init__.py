"""History: the runs of threads, kept compacted in an append-only store, and replayed.

Runs of a thread form a tree: a run continues its ``parentRunId``, and one that names none continues
the run that was stored last on its thread. What a run adds up to is what its line of ancestors adds
up to, from the root to it.
"""

from agui_codec.history.aio import AsyncEventHistory, AsyncRunWriter
from agui_codec.history.history import EventHistory
from agui_codec.history.jsonl import JSONLinesStore
from agui_codec.history.sqlite import SQLiteStore
from agui_codec.history.store import (
    DamagedRunError,
    DuplicateRunError,
    HistoryError,
    RunInfo,
    RunNotFoundError,
    RunStore,
    StoreError,
)
from agui_codec.history.writer import RunWriter

__all__ = [
    "AsyncEventHistory",
    "AsyncRunWriter",
    "DamagedRunError",
    "DuplicateRunError",
    "EventHistory",
    "HistoryError",
    "JSONLinesStore",
    "RunInfo",
    "RunNotFoundError",
    "RunStore",
    "RunWriter",
    "SQLiteStore",
    "StoreError",
]
