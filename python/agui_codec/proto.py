"""The binary transport: events as protobuf messages, and the frames of a stream of them.

The messages are those of the ``.proto`` files that are installed with this package, in
``agui_codec/ag_ui``. ``encode`` and ``decode`` are about one message; in a stream each has its
length in front as four bytes, big-endian, which :class:`FrameReader` takes off.

The functions are native and bound without a Python frame.
"""

from agui_codec._native import FrameReader
from agui_codec._native import proto_decode as decode
from agui_codec._native import proto_encode as encode

__all__ = ["FrameReader", "decode", "encode"]
