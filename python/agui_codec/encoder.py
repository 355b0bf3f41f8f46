"""The encoder: AG-UI events to the bytes that a client reads."""

from typing import Any

from ag_ui.encoder import AGUI_MEDIA_TYPE
from ag_ui.encoder import EventEncoder as _OfficialEventEncoder

from agui_codec import _native

__all__ = ["AGUI_MEDIA_TYPE", "EventEncoder"]


class EventEncoder(_native.EventEncoder, _OfficialEventEncoder):
    """Encodes AG-UI events as Server-Sent Events, as ``ag_ui.encoder.EventEncoder`` does.

    For every event model the text is exactly that of the official encoder; events, values and
    errors that this package does not handle itself are handed to pydantic whole. An event may
    also be a *wire dict*, with the camelCase keys of the protocol or the snake_case names of its
    fields; see :func:`agui_codec.to_json` for what is then written.

    The methods are native and bound without a Python frame. One encoder may be used from several
    threads, and again after an error.

    Args:
        accept: The ``Accept`` header of the request. Not read yet: the content type is always
            ``text/event-stream``.
        default: Called with a value that JSON cannot carry; what it returns is written in its
            place. Without it such a value raises.
        drop_raw_event: Leave ``rawEvent`` out of every event.

    Raises:
        EncodeError: From the encoding methods, for an object that is neither an event model nor
            a dict, or a dict that JSON cannot carry. For models the error is pydantic's own
            (``PydanticSerializationError``).
    """

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._settings, vars(self)

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        settings, attributes = state
        self.__init__(**settings)  # type: ignore[misc]
        vars(self).update(attributes)
