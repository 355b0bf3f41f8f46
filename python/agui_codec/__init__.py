"""The AG-UI event wire for Python, in Rust.

Everything between an AG-UI event object and the bytes on the network. The event classes are those
of ``ag_ui.core``; this package has no second set. A server replaces
``ag_ui.encoder.EventEncoder`` by :class:`EventEncoder`, or calls :func:`install` once.
"""

import warnings

from agui_codec._native import (
    DEBUG_BUILD,
    MAX_DEPTH,
    SSE_MEDIA_TYPE,
    AGUIError,
    Deviation,
    EncodeError,
    PatchError,
    __version__,
    apply_patch,
    create_patch,
    to_json,
)
from agui_codec.encoder import AGUI_MEDIA_TYPE, EventEncoder
from agui_codec.install import install, uninstall
from agui_codec.state import state_delta_event

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
    "Deviation",
    "EncodeError",
    "EventEncoder",
    "PatchError",
    "__version__",
    "apply_patch",
    "create_patch",
    "install",
    "state_delta_event",
    "to_json",
    "uninstall",
]
