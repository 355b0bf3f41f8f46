"""Bytes from someone who means harm: a typed error or an event, never anything else."""

from __future__ import annotations

import random
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

import random_events
from agui_codec import DecodeError, FrameTooLargeError, TruncatedStreamError, proto, to_json
from by_hand import tag, varint
from conftest import on_small_stack

if TYPE_CHECKING:
    from collections.abc import Iterable

FRAMES = [
    proto.encode(event)
    for event in [
        *random_events.events(41, 62),
        {"type": "STATE_SNAPSHOT", "snapshot": {"a": [1, {"b": "\u20ac"}], "c": None}},
    ]
]
SHORT = [frame for frame in FRAMES if len(frame) < 700]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    # What is dropped is logged, a hundred thousand times here.
    caplog.set_level("CRITICAL", "agui_codec")


def judge(wire: bytes) -> bool:
    """Whether it is an event; then it is one to every other part of this package, too."""
    refused = None
    try:
        event = proto.decode(wire, as_dict=True)
    except DecodeError as error:
        refused = error
    if refused is not None:
        assert str(refused)
        assert refused.offset is None or 0 <= refused.offset <= len(wire)
        return False
    to_json(event)
    again = proto.encode(event)
    try:
        model = proto.decode(wire)
    except DecodeError as error:
        refused = error
    if refused is None:
        assert proto.encode(model) == again
    else:
        # The class is stricter than the wire.
        assert isinstance(refused.__cause__, ValidationError), refused
    return True


def judge_all(wires: Iterable[bytes], *, small_stack: bool) -> None:
    if small_stack:
        on_small_stack(lambda: [judge(wire) for wire in wires])
    else:
        for wire in wires:
            judge(wire)


@pytest.mark.parametrize("small_stack", [False, True])
def test_every_truncation(*, small_stack: bool) -> None:
    wires = [frame[:end] for frame in FRAMES for end in range(min(len(frame), 3000))]
    judge_all(wires, small_stack=small_stack)


@pytest.mark.parametrize("small_stack", [False, True])
def test_every_single_bit_flip(*, small_stack: bool) -> None:
    def flipped() -> Iterable[bytes]:
        for frame in SHORT:
            number = int.from_bytes(frame, "big")
            for bit in range(len(frame) * 8):
                yield (number ^ (1 << bit)).to_bytes(len(frame), "big")

    judge_all(flipped(), small_stack=small_stack)


def test_random_bytes() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    for _ in range(200_000):
        judge(source.randbytes(source.randrange(40)))
    # Most of that ends at the first byte. This looks like a message for longer.
    for _ in range(200_000):
        frame = bytearray(source.choice(SHORT))
        for _ in range(source.randrange(1, 5)):
            at = source.randrange(len(frame))
            match source.randrange(4):
                case 0:
                    frame[at] = source.randrange(256)
                case 1:
                    del frame[at : at + source.randrange(8)]
                    frame = frame or bytearray(1)
                case 2:
                    frame[at:at] = source.randbytes(source.randrange(4))
                case _:
                    other = source.choice(SHORT)
                    start = source.randrange(len(other))
                    frame[at:at] = other[start : start + source.randrange(20)]
        judge(bytes(frame))


def raw(value: bytes) -> bytes:
    """A RAW event of this `Value`."""
    return tag(10, tag(1, b"\x08\x09") + tag(2, value))


LENGTH_BOMBS = [
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    tag(9, tag(1, b"\x08\x08") + b"\x12\xff\xff\xff\x7f"),
    raw(b"\x2a\xff\xff\xff\x7f"),
    raw(b"\x32\xff\xff\xff\x7f\x0a"),
    raw(b"\x1a\xfe\xff\xff\xff\x0f"),
]

# With 32 MiB to allocate, and no more.
STARVED = """
import resource, sys
from agui_codec import DecodeError, proto
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (32 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    bytearray(64 << 20)
except MemoryError:
    pass
else:
    sys.exit("the limit does not hold")
for wire in sys.argv[1:]:
    try:
        proto.decode(bytes.fromhex(wire))
    except DecodeError:
        continue
    sys.exit(f"{wire} was accepted")
reader = proto.FrameReader(max_frame_bytes=2**31)
reader.feed((2**31 - 1).to_bytes(4, "big") + b"x" * 100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is read from /proc")
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="the allocator of free-threaded Python has reserved what the limit would refuse",
)
def test_length_bombs_allocate_nothing() -> None:
    command = [sys.executable, "-c", STARVED, *(wire.hex() for wire in LENGTH_BOMBS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def nested_value(levels: int, *, objects: bool) -> bytes:
    """Lists or objects in each other, made from the inside in linear time."""
    # Innermost first, in reverse, so that each level is appended.
    reverse = bytearray(b"\x00\x08")
    size = 2
    for _ in range(levels):
        for first in (0x12, 0x0A, 0x2A) if objects else (0x0A, 0x32):
            reverse += varint(size)[::-1]
            reverse.append(first)
            size = len(reverse)
    return bytes(reverse[::-1])


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("levels", [254, 255, 1000, 200_000])
def test_nested_bombs(levels: int, *, objects: bool) -> None:
    wire = raw(nested_value(levels, objects=objects))
    on_small_stack(lambda: judge(wire))
    assert not judge(wire)


@pytest.mark.parametrize("objects", [False, True])
def test_the_deepest_that_is_allowed(*, objects: bool) -> None:
    wire = raw(nested_value(253, objects=objects))
    assert judge(wire)
    on_small_stack(lambda: judge(wire))


def test_nested_groups() -> None:
    event = tag(3, tag(1, b"\x08\x02"))
    assert judge(event + b"\xfb\x07" * 300_000 + b"\xfc\x07" * 300_000)
    assert not judge(event + b"\xfb\x07" * 300_000)
    assert not judge(event + b"\xfb\x07" * 300_000 + b"\xfc\x07" * 299_999)


def test_repetition_is_linear() -> None:
    """Each of these takes hours if what occurred before is read again at every occurrence."""
    base = tag(1, b"\x08\x09")
    value = tag(2, b"\x2a\x06\x0a\x04\x0a\x00\x12\x00")
    assert judge(tag(10, base * 500_000))
    assert judge(tag(10, base + value * 300_000))
    assert judge(tag(10, base) * 300_000)
    assert judge(tag(10, base + tag(2, b"\x2a\x00" * 500_000)))
    assert judge(tag(10, base + tag(2, b"\x2a\x00\x08\x00" * 300_000)))
    assert judge(tag(10, base + tag(3, b"source") * 300_000))
    assert judge(tag(10, base + b"\x9a\x06\x00" * 500_000))
    assert judge(raw(tag(6, tag(1, b"\x08\x00") * 300_000)))


def test_nested_repetition_is_linear() -> None:
    """A message that occurs twice at each of many levels: each twice would be 2**100 readings."""
    inner = b""
    for _ in range(100):
        # An object whose one entry has its value in two pieces, the deep one first.
        inner = tag(5, tag(1, tag(2, inner) + tag(2, b"")))
    assert judge(raw(inner))


# --- frames --------------------------------------------------------------------------------


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def test_p6_any_split() -> None:
    messages = [b"", *SHORT[:20], b"x" * 70_000]
    stream = b"".join(framed(message) for message in messages)
    for size in (1, 2, 3, 4, 5, 7, 1000, len(stream)):
        reader = proto.FrameReader()
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [it for chunk in chunks for it in reader.feed(chunk)] == messages
        assert reader.close() == []
    reader = proto.FrameReader()
    assert reader.feed(bytearray(stream)) == messages
    assert reader.feed(memoryview(stream)) == messages
    assert reader.feed(b"") == []


def test_p6_an_empty_message_is_no_event() -> None:
    (message,) = proto.FrameReader().feed(bytes(4))
    with pytest.raises(DecodeError, match="without an event"):
        proto.decode(message)


def test_p6_a_frame_over_the_limit_is_refused_on_sight() -> None:
    reader = proto.FrameReader(max_frame_bytes=10)
    assert reader.feed(framed(b"0123456789")) == [b"0123456789"]
    assert reader.feed(b"\0\0\0") == []
    with pytest.raises(FrameTooLargeError, match="a frame of 11 bytes; the limit is 10 bytes"):
        reader.feed(b"\x0b")
    # For good: where the next frame begins is not known.
    for again in (lambda: reader.feed(framed(b"ok")), reader.close):
        with pytest.raises(FrameTooLargeError):
            again()


def test_p6_what_came_before_a_frame_over_the_limit_is_delivered() -> None:
    reader = proto.FrameReader(max_frame_bytes=10)
    assert reader.feed(framed(b"a") + framed(b"b") + b"\xff\xff\xff\xff" + b"c" * 100) == [
        b"a",
        b"b",
    ]
    with pytest.raises(FrameTooLargeError, match="4294967295"):
        reader.close()


def test_p6_the_default_limit() -> None:
    size = 10 * 1024 * 1024
    assert len(proto.FrameReader().feed(size.to_bytes(4, "big") + bytes(size))[0]) == size
    with pytest.raises(FrameTooLargeError):
        proto.FrameReader().feed((size + 1).to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"\0", "inside the length of a frame, after 1 of 4 bytes"),
        (b"\0\0\0", "after 3 of 4 bytes"),
        (b"\0\0\0\x05", "inside a frame, after 0 of 5 bytes"),
        (b"\0\0\0\x05abcd", "after 4 of 5 bytes"),
    ],
)
def test_p6_a_tail_is_a_truncated_stream(tail: bytes, message: str) -> None:
    reader = proto.FrameReader()
    assert reader.feed(framed(b"whole") + tail) == [b"whole"]
    with pytest.raises(TruncatedStreamError, match=message):
        reader.close()
