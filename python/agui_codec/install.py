"""Putting this package in the place of the official encoder, without touching its users."""

import threading
from typing import Any

from ag_ui.core.events import BaseEvent
from ag_ui.encoder import EventEncoder as _Official

from agui_codec import _native
from agui_codec.encoder import EventEncoder

__all__ = ["install", "uninstall"]

_lock = threading.Lock()
# While installed: what the classes had under each name that was set, or _ABSENT.
_saved: dict[tuple[type, str], Any] = {}
_ABSENT = object()


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    if type(self)._encode_sse is not _Official._encode_sse:
        # A subclass with framing of its own sends text, whatever is asked for.
        args, kwargs = (), {**kwargs, "accept": None}
    self._agui_codec = EventEncoder(*args, **kwargs)


def _ours(encoder: Any) -> EventEncoder:
    """The encoder behind an instance of the official class, made now if it is older than us."""
    if "_agui_codec" not in vars(encoder):
        _init(encoder)
    ours: EventEncoder = encoder._agui_codec
    return ours


def _delegate(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        return getattr(_ours(self), name)(*args)

    method.__name__ = name
    method.__doc__ = getattr(EventEncoder, name).__doc__
    return method


def install() -> None:
    """Make ``ag_ui.encoder.EventEncoder`` encode with this package, in place.

    Works for code that has already imported the class, since it is the class that changes, and so
    also for encoders that exist already and for subclasses. It takes the arguments and has the
    methods of :class:`agui_codec.EventEncoder`. ``event.model_dump_json(by_alias=True)`` of the
    SDK's events, called with exactly this argument, takes the same path; called otherwise it is
    pydantic's.

    Calling it again changes nothing. It may be called from any thread; :func:`uninstall` undoes it.
    """
    with _lock:
        if _saved:
            return
        patches: dict[tuple[type, str], Any] = {
            (_Official, "__init__"): _init,
            # The hot ones are native and bind without a Python frame.
            (_Official, "encode"): _native.official_encode,
            (_Official, "_encode_sse"): _delegate("encode_sse"),
            (BaseEvent, "model_dump_json"): _native.model_dump_json,
        }
        for name in (
            "encode_sse",
            "encode_binary",
            "encode_protobuf",
            "encode_many",
            "get_content_type",
        ):
            patches[_Official, name] = _delegate(name)
        for (cls, name), value in patches.items():
            _saved[cls, name] = cls.__dict__.get(name, _ABSENT)
            setattr(cls, name, value)


def uninstall() -> None:
    """Undo :func:`install`: the official class is what it was, for all its instances."""
    with _lock:
        for (cls, name), value in _saved.items():
            if value is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, value)
        _saved.clear()
