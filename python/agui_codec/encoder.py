"""The encoder: AG-UI events to the bytes that a client reads."""

from typing import Any

from ag_ui.encoder import AGUI_MEDIA_TYPE
from ag_ui.encoder import EventEncoder as _OfficialEventEncoder

from agui_codec import _native

__all__ = ["AGUI_MEDIA_TYPE", "EventEncoder"]


class EventEncoder(_native.EventEncoder, _OfficialEventEncoder):
    r"""Encodes AG-UI events for a client, in the format that its ``Accept`` header asks for.

    As Server-Sent Events the text of an event model is exactly that of the official
    ``ag_ui.encoder.EventEncoder``; events and values that this package does not handle itself
    are handed to pydantic, whole. As protobuf the bytes are exactly those of
    ``@ag-ui/encoder``. An event may also be a *wire dict*, with the camelCase keys of the protocol
    or the snake_case names of its fields; see :func:`agui_codec.to_json` for what is then written.

    The methods are native, without a Python frame. One encoder may be used from several threads,
    and again after an error.

    Args:
        accept: The ``Accept`` header of the request. Protobuf is chosen if the header names its
            media type, ``application/vnd.ag-ui.event+proto`` or the older ``application/x-ag-ui``,
            with a ``q`` above 0; otherwise, and for None, Server-Sent Events. Relative ``q`` values
            are not compared, as AG-UI says.
        default: Called with a value that JSON cannot carry; its result is written instead.
            Without it such a value raises.
        drop_raw_event: Leave ``rawEvent`` out of every event.
        protobuf_on_wildcard: Let ``*/*`` and ``application/*`` choose protobuf, as the AG-UI 1.0
            text recommends. Off by default: plain HTTP clients send ``*/*`` and cannot read frames.
        exact_integers: Over protobuf, refuse an integer that a double cannot carry. Otherwise the
            nearest double is sent, which is what a JavaScript client reads from JSON as well, and
            ``on_deviation`` is called.
        on_deviation: Called with a :class:`agui_codec.Deviation` for everything in an event that
            protobuf cannot carry, and for each number that it changes. By default they are logged,
            at WARNING under the name ``agui_codec``. Its exceptions propagate.

    Raises:
        TypeError: For an argument of the wrong type.
        EncodeError: From the encoding methods, for an object that is neither an event model nor
            a dict, or one that cannot be written. For models in JSON the error is pydantic's own
            (``PydanticSerializationError``).

    Example:
        >>> encoder = EventEncoder(accept="text/event-stream")
        >>> encoder.encode({"type": "STEP_STARTED", "stepName": "search"})
        'data: {"type":"STEP_STARTED","stepName":"search"}\n\n'
        >>> encoder.get_content_type()
        'text/event-stream'
    """

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._settings, vars(self)

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        settings, attributes = state
        self.__init__(**settings)  # type: ignore[misc]
        vars(self).update(attributes)
