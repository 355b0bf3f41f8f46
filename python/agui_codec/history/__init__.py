"""History: the runs of threads, stored compacted, and replayed.

The runs of a thread form a tree: a run continues its ``parentRunId``, and a run without one
continues the run that was stored last on its thread. The messages and the state at a run are what
its line of ancestors adds up to, from the root to the run itself.
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
