"""The binary transport: events as protobuf messages, and the frames of a stream of them.

The messages are those of the ``.proto`` files that are installed with this package, in
``agui_codec/ag_ui``. ``encode`` and ``decode`` handle one message; in a stream each has a
length prefix of four bytes, big-endian, which :class:`FrameReader` removes.
"""

from agui_codec._native import FrameReader
from agui_codec._native import proto_decode as decode
from agui_codec._native import proto_encode as encode

__all__ = ["FrameReader", "decode", "encode"]
