"""Whether the installed package works: run with an environment's Python, from any folder."""

import sys
from sysconfig import get_config_var

import ag_ui.core
import ag_ui.encoder

import agui_codec
from agui_codec import _native

event = ag_ui.core.TextMessageContentEvent(message_id="m", delta="h\u00e9llo\n")
official = ag_ui.encoder.EventEncoder().encode(event)
assert agui_codec.EventEncoder().encode(event) == official
agui_codec.install()
assert ag_ui.encoder.EventEncoder().encode(event) == official
assert not _native.DEBUG_BUILD
# An extension that does not declare itself safe turns the lock back on.
assert not get_config_var("Py_GIL_DISABLED") or not sys._is_gil_enabled()
print(f"agui_codec {agui_codec.__version__} works: {agui_codec.__file__}")
