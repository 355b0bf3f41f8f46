"""For tests of clients: a server that answers byte for byte, and what a client has left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import struct
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from agui_codec import proto

SSE = "text/event-stream"
PROTOBUF = "application/vnd.ag-ui.event+proto"
WIRES = {"sse": SSE, "protobuf": PROTOBUF}


def encoded(events: Iterable[dict[str, Any]], content_type: str = SSE) -> bytes:
    """Events as a conforming server writes them, by other means than the encoder."""
    if content_type == PROTOBUF:
        messages = [proto.encode(event) for event in events]
        return b"".join(len(one).to_bytes(4, "big") + one for one in messages)
    texts = [json.dumps(event, ensure_ascii=False) for event in events]
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)


@dataclass
class Request:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(
    status: int = 200, body: bytes = b"", content_type: str | None = SSE, /, **headers: str
) -> bytes:
    """A whole response; header names are written with ``_`` for ``-``."""
    lines = [f"HTTP/1.1 {status} Whatever", "connection: close"]
    if status != 204:
        lines.append(f"content-length: {len(body)}")
    if content_type is not None:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def head(content_type: str = SSE, /, **headers: str) -> bytes:
    """The head of a response that ends with its connection."""
    lines = ["HTTP/1.1 200 OK", f"content-type: {content_type}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off with a TCP reset."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Raw:
    """Answers each request on the loopback with the next of some answers.

    Attributes:
        url: Where.
        requests: What came.
    """

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Request] = []
        self.url = ""
        self._answers = list(answers)

    async def __aenter__(self) -> Raw:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/agent"
        self._tasks: set[asyncio.Task[Any] | None] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in [task for task in self._tasks if task is not None]:
            task.cancel()
            await asyncio.wait([task])
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(task := asyncio.current_task())
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = lines[0].split(" ")
            fields = [line.partition(":") for line in lines[1:] if line]
            headers = {name.lower(): value.strip() for name, _, value in fields}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append(Request(method, target, headers, body))
            given = self._answers[len(self.requests) - 1]
            if callable(given):
                await given(writer)
            else:
                writer.write(given)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


@dataclass
class Left:
    """What a block may not leave behind.

    Attributes:
        dropped: Async generators that were dropped before their end, by name.
    """

    dropped: list[str]


def _sockets() -> int:
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        return 0
    count = 0
    for name in os.listdir(folder):
        with suppress(OSError):
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
    return count


@asynccontextmanager
async def nothing_left(*, drops: bool = False) -> AsyncIterator[Left]:
    """Assert that the block leaves no task, no async generator and no socket behind.

    Args:
        drops: Whether async generators may be dropped before their end. Those of an HTTP library
            always may: it does not close its own.
    """
    gc.collect()
    tasks, sockets = asyncio.all_tasks(), _sockets()
    hooks = sys.get_asyncgen_hooks()
    made: list[weakref.ref[Any]] = []
    left = Left([])

    def first(generator: Any) -> None:
        made.append(weakref.ref(generator))
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    def last(generator: Any) -> None:
        file = generator.ag_code.co_filename
        if "/httpx" not in file and "/httpcore" not in file:
            left.dropped.append(generator.__qualname__)
        if hooks.finalizer is not None:
            hooks.finalizer(generator)

    sys.set_asyncgen_hooks(first, last)
    try:
        yield left
        # Transports are closed, and dropped generators finished, one turn later.
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() - tasks == set()
        alive = [one for ref in made if (one := ref()) is not None and one.ag_frame is not None]
        mine = [one for one in alive if one.__qualname__ != "nothing_left"]
        assert mine == []
        assert drops or left.dropped == []
        assert _sockets() == sockets
    finally:
        sys.set_asyncgen_hooks(*hooks)
