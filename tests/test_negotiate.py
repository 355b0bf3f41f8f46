"""Content negotiation: the Accept header, the encoder, and a live endpoint."""

import copy
import pickle
import threading
from collections.abc import AsyncIterator, Iterator

import ag_ui.encoder
import httpx
import pytest
import uvicorn
from ag_ui import core
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

import agui_codec
import node_peer

PROTO = "application/vnd.ag-ui.event+proto"
OLD = "application/x-ag-ui"
SSE = "text/event-stream"

EVENTS: list[core.BaseEvent] = [
    core.RunStartedEvent(thread_id="t", run_id="r"),
    core.TextMessageStartEvent(message_id="m", role="assistant"),
    core.TextMessageContentEvent(message_id="m", delta="Grüße, 漢字 😀"),
    core.TextMessageEndEvent(message_id="m"),
    core.StateSnapshotEvent(snapshot={"a": [1, None, {"b": 2.5}]}),
    core.RunFinishedEvent(thread_id="t", run_id="r"),
]

# What clients send, and what they get.
TABLE = [
    (None, SSE),
    ("", SSE),
    (SSE, SSE),
    ("*/*", SSE),
    ("application/*", SSE),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", SSE),
    (PROTO, PROTO),
    (PROTO.upper(), PROTO),
    (f"{PROTO}, {SSE}", PROTO),
    (f"{SSE}, {PROTO}", PROTO),
    (f"{SSE};q=1.0, {PROTO};q=0.1", PROTO),
    (f"{PROTO};q=0, {SSE}", SSE),
    (f"{PROTO};q=0", SSE),
    (f"{PROTO}; version=1 ; q=0.5", PROTO),
    (f'text/plain;x="a, {PROTO}"', SSE),
    (f'text/plain;x="a,b", {PROTO}', PROTO),
    (OLD, OLD),
    (f"{SSE}, {OLD}", OLD),
    (f"{OLD}, {PROTO}", PROTO),
    (f'{PROTO};q="0"', SSE),
    (f'{PROTO};q="1"', SSE),
    (f"{PROTO};q=2", SSE),
    (f"{PROTO};q=.5", SSE),
    (f"{PROTO};q=0.0001", SSE),
    (f"{PROTO};Q=0.001", PROTO),
    (f'{PROTO};x=";q=0";q=1.000', PROTO),
    (f"{PROTO};q=bad, {OLD}", OLD),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An endpoint as the SDK's documentation has it: the official import, and ``install()``."""
    app = FastAPI()

    @app.post("/")
    async def run(request: Request) -> StreamingResponse:
        encoder = ag_ui.encoder.EventEncoder(accept=request.headers.get("accept"))

        async def events() -> AsyncIterator[str | bytes]:
            for event in EVENTS:
                yield encoder.encode(event)

        return StreamingResponse(events(), media_type=encoder.get_content_type())

    agui_codec.install()
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="off")
    uvicorn_server = uvicorn.Server(config)
    thread = threading.Thread(target=uvicorn_server.run)
    thread.start()
    try:
        while not uvicorn_server.started:
            assert thread.is_alive()
        port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        uvicorn_server.should_exit = True
        thread.join()
        agui_codec.uninstall()


@pytest.mark.parametrize(("accept", "expected"), TABLE)
def test_encoder(accept: str | None, expected: str) -> None:
    encoder = agui_codec.EventEncoder(accept)
    assert encoder.get_content_type() == expected
    event = EVENTS[2]
    text = ag_ui.encoder.EventEncoder().encode(event)
    frame = encoder.encode_protobuf(event)
    body = agui_codec.proto.encode(event)
    assert frame == len(body).to_bytes(4, "big") + body
    assert encoder.encode_sse(event) == text
    if expected == SSE:
        assert encoder.encode(event) == text
        assert encoder.encode_binary(event) == text.encode()
        assert encoder.encode_many([event, event]) == text.encode() * 2
    else:
        assert encoder.encode(event) == frame
        assert encoder.encode_binary(event) == frame
        assert encoder.encode_many([event, event]) == frame * 2


@pytest.mark.parametrize(
    ("accept", "expected"),
    [("*/*", PROTO), ("application/*", PROTO), (SSE, SSE), (f"*/*, {PROTO};q=0", SSE)],
)
def test_wildcards_on_request(accept: str, expected: str) -> None:
    encoder = agui_codec.EventEncoder(accept, protobuf_on_wildcard=True)
    assert encoder.get_content_type() == expected


@pytest.mark.parametrize("accept", [5, b"x", object(), [PROTO]])
def test_what_is_no_header_is_a_type_error(accept: object) -> None:
    with pytest.raises(TypeError, match=r"^accept must be a str, not"):
        agui_codec.EventEncoder(accept)  # type: ignore[arg-type]
    # The official encoder takes no notice of the argument.
    agui_codec.install()
    try:
        assert ag_ui.encoder.EventEncoder(accept).get_content_type() == SSE  # type: ignore[arg-type]
    finally:
        agui_codec.uninstall()


def test_a_copy_answers_in_the_same_format() -> None:
    encoder = agui_codec.EventEncoder(OLD, drop_raw_event=True)
    for other in (copy.copy(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert other.get_content_type() == OLD
        event = core.TextMessageEndEvent(message_id="m", raw_event={"a": 1})
        assert other.encode(event) == encoder.encode(core.TextMessageEndEvent(message_id="m"))


def test_an_error_leaves_the_encoder_usable() -> None:
    encoder = agui_codec.EventEncoder(PROTO)
    with pytest.raises(agui_codec.EncodeError) as error:
        encoder.encode_many(
            [EVENTS[0], {"type": "CUSTOM", "name": "n", "value": {"odd": "\ud83d"}}]
        )
    assert error.value.path == "value.odd"
    assert encoder.encode(EVENTS[0]) == encoder.encode_protobuf(EVENTS[0])


@pytest.mark.parametrize(("accept", "expected"), TABLE)
def test_endpoint(server: str, accept: str | None, expected: str) -> None:
    request = httpx.Request("POST", server, json={})
    if accept is not None:
        request.headers["accept"] = accept
    with httpx.Client() as client:
        response = client.send(request)
    assert response.headers["content-type"].split(";")[0] == expected
    events = agui_codec.iter_events([response.content], response.headers["content-type"])
    assert list(events) == EVENTS


def test_http_agent(server: str) -> None:
    """The TypeScript client, told to accept protobuf, completes a run."""
    jobs = [{"url": server, "accept": accept} for accept in (PROTO, SSE)]
    for job, outcome in zip(jobs, node_peer.run("agent.mjs", jobs), strict=True):
        assert outcome["contentType"].split(";")[0] == job["accept"]
        assert [(m["id"], m["content"]) for m in outcome["messages"]] == [("m", "Grüße, 漢字 😀")]
        assert outcome["state"] == {"a": [1, None, {"b": 2.5}]}
