"""Decoding what real servers send: the TypeScript encoder in Node, and Pydantic AI."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from agui_codec import aiter_events, iter_events, proto
from conftest import ROOT
from oracle import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTEROP = ROOT / "tests/interop"
PROTOBUF = "application/vnd.ag-ui.event+proto"

needs_node = pytest.mark.skipif(
    not (INTEROP / "node_modules/@ag-ui/encoder").is_dir(),
    reason="the Node packages are not installed: make test, or npm ci --prefix tests/interop",
)


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    process = subprocess.Popen(
        ["node", "server.mjs"], cwd=INTEROP, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def recorded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(block[6:]) for block in path.read_bytes().split(b"\n\n") if block]


@needs_node
@pytest.mark.parametrize("size", [1, 7, 1400, 1 << 20])
@pytest.mark.parametrize("name", ["pydantic_ai", "langgraph"])
@pytest.mark.parametrize("accept", ["text/event-stream", PROTOBUF])
def test_a_node_server(node: str, shared: Path, accept: str, name: str, size: int) -> None:
    events = recorded(shared / f"recordings/{name}.sse")
    if size < 100:
        # A byte a packet, each with a turn of its own, takes its time.
        events = events[:40]
    expected = events
    if accept == PROTOBUF:
        expected = [proto.decode(proto.encode(event), as_dict=True) for event in events]
    headers = {"accept": accept}
    with httpx.stream("POST", f"{node}?size={size}", json=events, headers=headers) as response:
        content_type = response.headers["content-type"]
        assert content_type == accept
        decoded = list(iter_events(response.iter_bytes(), content_type, as_dict=True))
    assert decoded == expected


@needs_node
@pytest.mark.parametrize("accept", ["text/event-stream", PROTOBUF])
def test_a_node_server_asynchronously(node: str, shared: Path, accept: str) -> None:
    events = recorded(shared / "recordings/pydantic_ai.sse")

    async def main() -> list[Any]:
        async with (
            httpx.AsyncClient(headers={"accept": accept}) as client,
            client.stream("POST", f"{node}?size=1000", json=events) as response,
        ):
            chunks = response.aiter_bytes()
            content_type = response.headers["content-type"]
            return [event async for event in aiter_events(chunks, content_type)]

    assert asyncio.run(main()) == [ADAPTER.validate_python(event) for event in events]


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.filterwarnings("ignore")
def test_a_pydantic_ai_server() -> None:
    pytest.importorskip("pydantic_ai")
    import test_encode_live

    with served(test_encode_live.pydantic_ai_app()) as url:
        headers = {"accept": "text/event-stream"}
        with httpx.stream("POST", url, json=test_encode_live.RUN, headers=headers) as response:
            chunks = list(response.iter_raw())
            content_type = response.headers["content-type"]
    body = b"".join(chunks)
    documents = [block.removeprefix(b"data: ") for block in body.split(b"\n\n") if block]
    models = list(iter_events(chunks, content_type))
    assert models == [ADAPTER.validate_json(document) for document in documents]
    assert models[0].type == "RUN_STARTED"
    assert models[-1].type == "RUN_FINISHED"
    deltas = [event.delta for event in models if event.type == "TEXT_MESSAGE_CONTENT"]
    assert "".join(deltas) == 'Es ist sonnig \n "warm" und 漢字 😀.'
    dicts = list(iter_events([body], content_type, as_dict=True))
    assert dicts == [json.loads(document) for document in documents]
