"""Replacing the official encoder in place, without changing the code that uses it."""

import inspect
import threading
from collections import deque
from typing import Any

from ag_ui.encoder import EventEncoder as _Official

from agui_codec import _native
from agui_codec.encoder import EventEncoder

__all__ = ["install", "uninstall"]

_lock = threading.RLock()
# The options of calls not yet carried out, None for an uninstall(). Setting an attribute may run
# the garbage collector, and so code that calls us again in the same thread: that call takes its
# turn when the one at work is done.
_waiting: deque[dict[str, bool] | None] = deque()
_at_work = False
# While installed: what the classes had under each name that was set, or _ABSENT.
_saved: dict[tuple[type, str], Any] = {}
_ABSENT = object()
_NO_OPTIONS = {"drop_raw_event": False, "protobuf_on_wildcard": False, "exact_integers": False}
_options = _NO_OPTIONS


def _init(self: Any, accept: object = None, **options: Any) -> None:
    """``__init__`` of the official class, if it is called with arguments."""
    if type(self)._encode_sse is not _Official._encode_sse:
        # A subclass with framing of its own sends text, whatever is asked for.
        accept = None
    # The official encoder ignores the argument, so anything but a str is ignored here.
    header = accept if isinstance(accept, str) else None
    self._agui_codec = EventEncoder(header, **{**_options, **options})


class _Signature:
    """``__signature__`` of the official class: its arguments while installed.

    From Python 3.13 on, `inspect` binds ``__init__`` to the class, which a native method refuses.
    """

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        ours = owner.__init__ is vars(_Official)["__init__"] and owner.__new__ is object.__new__
        if instance is not None or not ours:
            raise AttributeError("__signature__")
        _self, *parameters = inspect.signature(owner.__init__).parameters.values()
        return inspect.Signature(parameters)


def install(
    *,
    drop_raw_event: bool = False,
    protobuf_on_wildcard: bool = False,
    exact_integers: bool = False,
) -> None:
    r"""Make ``ag_ui.encoder.EventEncoder`` encode with this package, in place.

    It is the class itself that changes, so this works for code that has imported it, for encoders
    that exist already and for subclasses. The class then takes the arguments and has the
    methods of :class:`agui_codec.EventEncoder`. ``event.model_dump_json(by_alias=True)`` of the
    SDK's events, called with exactly this argument, is encoded here as well; any other call goes to
    pydantic.

    Calling it again replaces the options, also for encoders that exist already, except those made
    with options of their own, or that answer protobuf. It may be called from any thread;
    :func:`uninstall` undoes it.

    Args:
        drop_raw_event: Leave ``rawEvent`` out of every event.
        protobuf_on_wildcard: Let ``*/*`` and ``application/*`` in an ``Accept`` header choose
            protobuf; see :class:`agui_codec.EventEncoder`.
        exact_integers: Refuse an integer that protobuf cannot carry exactly, instead of sending
            the nearest double.

    Example:
        >>> import agui_codec
        >>> agui_codec.install(drop_raw_event=True)
        >>> from ag_ui.core import StepStartedEvent
        >>> from ag_ui.encoder import EventEncoder
        >>> EventEncoder().encode(StepStartedEvent(step_name="a", raw_event={"large": "object"}))
        'data: {"type":"STEP_STARTED","stepName":"a"}\n\n'
        >>> agui_codec.uninstall()
    """
    _change(
        {
            "drop_raw_event": drop_raw_event,
            "protobuf_on_wildcard": protobuf_on_wildcard,
            "exact_integers": exact_integers,
        }
    )


def uninstall() -> None:
    """Undo :func:`install`: restore the official class, for all its instances.

    Example:
        >>> import agui_codec, ag_ui.encoder
        >>> before = ag_ui.encoder.EventEncoder.encode
        >>> agui_codec.install()
        >>> agui_codec.uninstall()
        >>> ag_ui.encoder.EventEncoder.encode is before
        True
    """
    _change(None)


def _change(options: dict[str, bool] | None) -> None:
    """Install with these options, or uninstall for None: now, or after the call at work."""
    global _at_work
    with _lock:
        _waiting.append(options)
        if _at_work:
            return
        _at_work = True
        try:
            while _waiting:
                wanted = _waiting.popleft()
                if wanted is None:
                    _take_back()
                else:
                    _set(wanted)
        finally:
            _at_work = False


def _set(options: dict[str, bool]) -> None:
    global _options
    _native.set_installed(**options)
    _options = options
    # The methods are native, and run without a Python frame.
    for cls, name, value in (*_native.patches(), (_Official, "__signature__", _Signature())):
        if (cls, name) not in _saved:
            _saved[cls, name] = vars(cls).get(name, _ABSENT)
            setattr(cls, name, value)


def _take_back() -> None:
    global _options
    for (cls, name), value in list(_saved.items()):
        if value is not _ABSENT:
            setattr(cls, name, value)
        elif name in vars(cls):
            # Ctrl-C may have stopped an install() before it was set.
            delattr(cls, name)
        del _saved[cls, name]
    _native.set_installed(**_NO_OPTIONS)
    _options = _NO_OPTIONS
