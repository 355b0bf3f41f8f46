"""The AG-UI event wire for Python, in Rust.

Everything between an AG-UI event object and the bytes on the network. The event classes are those
of ``ag_ui.core``; this package has no second set. A server replaces
``ag_ui.encoder.EventEncoder`` with :class:`EventEncoder`, or calls :func:`install` once.
"""

import warnings
from typing import TYPE_CHECKING

from agui_codec import proto
from agui_codec._native import (
    DEBUG_BUILD,
    MAX_DEPTH,
    SSE_MEDIA_TYPE,
    AGUIError,
    Change,
    ChunkExpander,
    Compactor,
    ConcurrentUseError,
    DecodeError,
    Deviation,
    EncodeError,
    EnforcementError,
    EventEnforcer,
    EventReducer,
    EventVerifier,
    FrameTooLargeError,
    LegacyDowngrader,
    LegacyUpgrader,
    PatchError,
    Pipeline,
    SequenceError,
    TruncatedStreamError,
    UnknownEventError,
    __version__,
    apply_patch,
    compact_events,
    create_patch,
    downgrade_input,
    enforce_input,
    make_event,
    to_json,
    upgrade_input,
)
from agui_codec.decoder import (
    EventDecoder,
    ServerSentEvent,
    SSEParser,
    aiter_events,
    decode_event,
    iter_events,
    read_events,
)
from agui_codec.encoder import AGUI_MEDIA_TYPE, EventEncoder
from agui_codec.install import install, uninstall
from agui_codec.state import state_delta_event
from agui_codec.stream import (
    athrough,
    client_pipeline,
    expand_chunks,
    through,
    verify_events,
)

if TYPE_CHECKING:
    from agui_codec.history import (
        AsyncEventHistory,
        DuplicateRunError,
        EventHistory,
        JSONLinesStore,
        RunInfo,
        RunNotFoundError,
        SQLiteStore,
    )

if DEBUG_BUILD:
    warnings.warn(
        "agui_codec was built without optimisation (a debug build) and is slow; "
        "build it with `maturin develop --release`",
        RuntimeWarning,
        stacklevel=2,
    )

__all__ = [
    "AGUI_MEDIA_TYPE",
    "MAX_DEPTH",
    "SSE_MEDIA_TYPE",
    "AGUIError",
    "AsyncEventHistory",
    "Change",
    "ChunkExpander",
    "Compactor",
    "ConcurrentUseError",
    "DecodeError",
    "Deviation",
    "DuplicateRunError",
    "EncodeError",
    "EnforcementError",
    "EventDecoder",
    "EventEncoder",
    "EventEnforcer",
    "EventHistory",
    "EventReducer",
    "EventVerifier",
    "FrameTooLargeError",
    "JSONLinesStore",
    "LegacyDowngrader",
    "LegacyUpgrader",
    "PatchError",
    "Pipeline",
    "RunInfo",
    "RunNotFoundError",
    "SQLiteStore",
    "SSEParser",
    "SequenceError",
    "ServerSentEvent",
    "TruncatedStreamError",
    "UnknownEventError",
    "__version__",
    "aiter_events",
    "apply_patch",
    "athrough",
    "client_pipeline",
    "compact_events",
    "create_patch",
    "decode_event",
    "downgrade_input",
    "enforce_input",
    "expand_chunks",
    "install",
    "iter_events",
    "make_event",
    "proto",
    "read_events",
    "state_delta_event",
    "through",
    "to_json",
    "uninstall",
    "upgrade_input",
    "verify_events",
]


_HISTORY = {
    "AsyncEventHistory",
    "DuplicateRunError",
    "EventHistory",
    "JSONLinesStore",
    "RunInfo",
    "RunNotFoundError",
    "SQLiteStore",
}


def __getattr__(name: str) -> object:
    """Import the history on first use: servers seldom need it, and SQLite takes milliseconds."""
    if name in _HISTORY:
        from agui_codec import history

        return getattr(history, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
