"""HttpAgent against real servers on the loopback."""

from __future__ import annotations

import asyncio
import functools
import gzip
import http.server
import importlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from email.utils import formatdate
from types import ModuleType
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, TextMessageChunkEvent

from agui_codec import AGUIError, Deviation, EnforcementError
from agui_codec.client import (
    AgentSubscriber,
    Call,
    HttpAgent,
    HttpStatusError,
    TruncatedRunError,
    UnexpectedContentTypeError,
)
from agui_codec.client import http as client_http
from agui_codec.client.testing import ScriptedAgent, serve
from loopback import PROTOBUF, SSE, WIRES, Raw, answer, encoded, head, nothing_left, reset
from streams import INTEROP

EVENTS: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Größe 漢字 "},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "😀"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"a": [1, None, {"b": "x" * 300}]}},
    {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": {"n": 1}},
]
BODY = encoded(EVENTS)
GOOD = answer(200, BODY)


class Log(AgentSubscriber):
    """The lifecycle, as it comes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: list[Exception | None] = []

    def on_run_initialized(self, call: Call) -> None:
        self.calls.append("initialized")

    def on_run_failed(self, call: Call) -> None:
        self.calls.append("failed")
        self.errors.append(call.error)

    def on_run_finalized(self, call: Call) -> None:
        self.calls.append("finalized")


class Types(AgentSubscriber):
    """Notes the types of events."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    def on_event(self, call: Call) -> None:
        self._seen.append(call.event.type)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def checked() -> None:
        async with nothing_left():
            await main()

    asyncio.run(checked())


def installed(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the client would have waited between attempts."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(client_http._loop, "sleep", sleep)
    return waited


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    if not (INTEROP / "node_modules/@ag-ui/encoder").is_dir():
        pytest.skip("the Node packages are not installed: make test")
    command = ["node", "server.mjs"]
    with subprocess.Popen(command, cwd=INTEROP, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


# -- whole runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("gzipped", [0, 1])
@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("wire", WIRES)
def test_a_node_server(node: str, wire: Any, size: int, gzipped: int) -> None:
    async def main() -> None:
        url = f"{node}?size={size}&gzip={gzipped}"
        async with HttpAgent(url, wire=wire, thread_id="t", as_dict=True, state={"s": 1}) as agent:
            # The server checks the input against the schema of `@ag-ui/core`.
            one = agent.run_agent(
                "Hi",
                run_id="r",
                parent_run_id="p",
                tools=[{"name": "f", "description": "", "parameters": {}}],
                context=[{"description": "d", "value": "v"}],
                forwarded_props={"events": EVENTS},
            )
            events = [event async for event in one]
            assert [event["type"] for event in events] == [event["type"] for event in EVENTS]
            assert [event.get("delta") for event in events] == [e.get("delta") for e in EVENTS]
            assert agent.state == EVENTS[5]["snapshot"]
            assert (one.snapshot.text, one.snapshot.result) == ("Größe 漢字 😀", {"n": 1})
            assert agent.last_response is not None
            assert agent.last_response.status == 200
            assert agent.last_response.http_version == "HTTP/1.1"
            assert agent.last_response.headers["content-type"].startswith(WIRES[wire])
            # The next run is on the connection that was kept.
            again = agent.run_agent(run_id="r", forwarded_props={"events": EVENTS})
            assert (await again).status == "success"

    run(main)


@pytest.mark.parametrize("name", ["httpx", "httpx2", None])
@pytest.mark.parametrize("wire", WIRES)
def test_serve(wire: Any, name: str | None) -> None:
    async def main() -> None:
        client = None if name is None else installed(name).AsyncClient()
        chunk = TextMessageChunkEvent(message_id="m", delta="Hallo")
        scripted = ScriptedAgent([chunk, 0.0], [chunk])
        async with serve(scripted) as url:
            async with HttpAgent(url, client=client, wire=wire) as agent:
                async with agent.run_agent("Hi") as one:
                    assert [text async for text in one.text_stream] == ["Hallo"]
                assert agent.last_response is not None
                assert agent.last_response.headers["content-type"] == WIRES[wire]
                assert (await agent.run_agent()).status == "success"
                own = agent._client
            assert scripted.inputs[1].messages[1].content == "Hallo"
            if client is None:
                assert own.is_closed
            else:
                # It is the caller's.
                assert not client.is_closed
                await client.aclose()

    run(main)


def test_the_default_client() -> None:
    module = installed("httpx2")

    async def main() -> None:
        async with Raw(GOOD) as raw, HttpAgent(raw.url, thread_id="t") as agent:
            await agent.run_agent()
            assert isinstance(agent._client, module.AsyncClient)

    run(main)


@pytest.mark.parametrize("client", [object(), "httpx", importlib.import_module("httpx").Client])
def test_another_client_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match="expected an AsyncClient of httpx2 or httpx, got"):
        HttpAgent("http://127.0.0.1/", client=client)


def test_no_http_client_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        agent = HttpAgent("http://127.0.0.1/")
        monkeypatch.setitem(sys.modules, "httpx2", None)
        monkeypatch.setitem(sys.modules, "httpx", None)
        with pytest.raises(ImportError, match=r"pip install agui-codec\[client\]"):
            await agent.run_agent()
        assert not agent.is_running

    run(main)


def test_an_unknown_wire_is_refused() -> None:
    with pytest.raises(ValueError, match="'sse' or 'protobuf', not 'json'"):
        HttpAgent("http://127.0.0.1/", wire="json")  # type: ignore[arg-type]


@pytest.fixture
def threaded() -> Iterator[str]:
    """A server in a thread, for clients without asyncio: what to answer is in the path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(500 if self.path == "/fails" else 200)
            self.send_header("content-type", SSE)
            self.end_headers()
            if self.path == "/hangs":
                self.wfile.write(encoded(EVENTS[:3]))
                released.wait(10)
            else:
                self.wfile.write(BODY)

        def log_message(self, *_: object) -> None: ...

    released = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            released.set()
            server.shutdown()
            thread.join()


def test_run_sync(threaded: str) -> None:
    agent = HttpAgent(f"{threaded}/", thread_id="t")
    # Each has an event loop of its own, and no client outlives it.
    assert agent.run_sync("Hi").text == "Größe 漢字 😀"
    assert agent.run_sync("Hi").status == "success"
    assert agent._client is None


@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
def test_on_trio(threaded: str) -> None:
    pytest.importorskip("trio")

    async def main() -> None:
        async with HttpAgent(f"{threaded}/", thread_id="t") as agent:
            assert (await agent.run_agent("Hi")).text == "Größe 漢字 😀"
            agent.url = f"{threaded}/fails"
            with pytest.raises(HttpStatusError):
                await agent.run_agent("Hi")
            agent.url = f"{threaded}/hangs"
            async with anyio.create_task_group() as group:
                one = agent.run_agent("Hi")

                async def abort() -> None:
                    await anyio.sleep(0.05)
                    one.abort()

                group.start_soon(abort)
                assert (await one).status == "aborted"
            with anyio.move_on_after(0.05) as scope:
                await agent.run_agent("Hi")
            assert scope.cancelled_caught
            assert not agent.is_running
        agent = HttpAgent(f"{threaded}/hangs", thread_id="t", idle_timeout=0.05)
        async with agent:
            with pytest.raises(TruncatedRunError) as caught:
                await agent.run_agent("Hi")
            assert caught.value.events == 3

    anyio.run(main, backend="trio")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_chunked_and_compressed(wire: str, size: int) -> None:
    content_type = f"{WIRES[wire]}; charset=utf-8; x=y"
    body = encoded(EVENTS, WIRES[wire])
    packed = gzip.compress(body)

    def chunked(data: bytes, **headers: str) -> Any:
        async def write(writer: asyncio.StreamWriter) -> None:
            writer.write(head(content_type, transfer_encoding="chunked", **headers))
            for at in range(0, len(data), size):
                piece = data[at : at + size]
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")

        return write

    async def main() -> None:
        answers = [
            chunked(body),
            chunked(packed, content_encoding="gzip"),
            answer(200, packed, content_type, content_encoding="gzip"),
        ]
        async with Raw(*answers) as raw:
            for _ in answers:
                async with HttpAgent(raw.url, thread_id="t") as agent:
                    assert (await agent.run_agent()).text == "Größe 漢字 😀"

    run(main)


# -- the request ----------------------------------------------------------------------------


def test_the_request() -> None:
    async def main() -> None:
        async with Raw(GOOD, GOOD, GOOD) as raw:
            async with HttpAgent(raw.url + "?a=1", thread_id="t") as agent:
                await agent.run_agent("Hi", run_id="r1")
            async with HttpAgent(raw.url, thread_id="t", wire="protobuf") as agent:
                await agent.run_agent()
            headers = {"accept": "text/x", "CONTENT-TYPE": "application/x", "X-A": "1"}
            async with HttpAgent(raw.url, thread_id="t", headers=headers) as agent:
                headers.clear()
                await agent.run_agent()
        first, second, third = raw.requests
        assert (first.method, first.target) == ("POST", "/agent?a=1")
        assert first.headers["content-type"] == "application/json"
        assert first.headers["accept"] == SSE
        assert first.json["runId"] == "r1"
        assert first.json["protocolVersion"] == "1.0"
        assert [message["content"] for message in first.json["messages"]] == ["Hi"]
        assert second.headers["accept"] == f"{PROTOBUF}, {SSE}"
        assert third.headers["accept"] == "text/x"
        assert third.headers["content-type"] == "application/x"
        assert third.headers["x-a"] == "1"

    run(main)


def test_request_is_the_point_to_override() -> None:
    class Mine(HttpAgent):
        def request(self, input: RunAgentInput) -> dict[str, Any]:
            request = super().request(input)
            body = {"wrapped": json.loads(request["content"])}
            return {**request, "method": "PUT", "content": json.dumps(body).encode()}

    async def main() -> None:
        async with Raw(GOOD) as raw, Mine(raw.url, thread_id="t") as agent:
            await agent.run_agent()
        assert raw.requests[0].method == "PUT"
        assert raw.requests[0].json["wrapped"]["threadId"] == "t"

    run(main)


class Tokens:
    """Gives another token each time."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self) -> dict[str, str]:
        self.asked += 1
        return {"authorization": f"Bearer {self.asked}"}

    async def method(self, prefix: str = "Bearer") -> dict[str, str]:
        self.asked += 1
        return {"Authorization": f"{prefix} {self.asked}"}


@pytest.mark.parametrize(
    "auth",
    [Tokens(), Tokens().method, functools.partial(Tokens().method, "Bearer")],
    ids=["object", "method", "partial"],
)
def test_auth_is_asked_before_every_attempt(auth: Any, delays: list[float]) -> None:
    async def main() -> None:
        async with Raw(answer(503), answer(429), GOOD) as raw:
            own = {"AUTHORIZATION": "old"}
            async with HttpAgent(raw.url, thread_id="t", auth=auth, headers=own) as agent:
                await agent.run_agent()
        given = [request.headers["authorization"] for request in raw.requests]
        assert given == ["Bearer 1", "Bearer 2", "Bearer 3"]

    run(main)


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_auth_of_the_http_client(name: str) -> None:
    module = installed(name)

    async def main() -> None:
        async with Raw(GOOD, GOOD) as raw, module.AsyncClient() as client:
            for auth in (("u", "p"), module.BasicAuth("u", "p")):
                agent = HttpAgent(raw.url, thread_id="t", client=client, auth=auth)
                await agent.run_agent()
        assert [one.headers["authorization"] for one in raw.requests] == ["Basic dTpw"] * 2

    run(main)


def test_an_auth_that_fails_fails_the_run() -> None:
    async def auth() -> dict[str, str]:
        raise PermissionError("no token")

    async def main() -> None:
        log = Log()
        async with Raw() as raw, HttpAgent(raw.url, auth=auth) as agent:
            with pytest.raises(PermissionError, match="no token"):
                await agent.run_agent(subscriber=log)
            assert not agent.is_running
        assert raw.requests == []
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)


def test_a_malformed_input_is_not_sent() -> None:
    class Breaks(AgentSubscriber):
        def on_run_initialized(self, call: Call) -> None:
            assert call.input is not None
            call.input.messages[0].id = 5  # type: ignore[assignment]

    async def main() -> None:
        log = Log()
        async with Raw() as raw, HttpAgent(raw.url) as agent:
            agent.subscribe(Breaks())
            with pytest.raises(EnforcementError, match="messages"):
                await agent.run_agent("Hi", subscriber=log)
        assert raw.requests == []
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)


def test_what_the_protocol_does_not_know_is_not_sent() -> None:
    class Adds(AgentSubscriber):
        def on_run_initialized(self, call: Call) -> None:
            assert call.input is not None
            call.input.extra = 1  # type: ignore[attr-defined]

    async def main() -> None:
        seen: list[Deviation] = []
        async with (
            Raw(GOOD) as raw,
            HttpAgent(raw.url, thread_id="t", on_deviation=seen.append) as agent,
        ):
            agent.subscribe(Adds())
            await agent.run_agent("Hi")
        assert "extra" not in raw.requests[0].json
        assert [one.path for one in seen] == ["extra"]

    run(main)


# -- retries --------------------------------------------------------------------------------


def test_busy_servers_are_asked_again(delays: list[float]) -> None:
    date = formatdate(time.time() + 30, usegmt=True)

    async def main() -> None:
        log = Log()
        answers = [answer(429, retry_after="7"), answer(503, retry_after=date), answer(503), GOOD]
        async with (
            Raw(*answers) as raw,
            HttpAgent(raw.url, thread_id="t", max_retries=3) as agent,
        ):
            result = await agent.run_agent("Hi", run_id="mine", subscriber=log)
        assert result.status == "success"
        assert [request.json["runId"] for request in raw.requests] == ["mine"] * 4
        assert log.calls == ["initialized", "finalized"]
        assert delays[0] == 7.0
        assert 27 < delays[1] <= 30
        # The third backoff: 2 seconds, less up to a quarter.
        assert 1.5 <= delays[2] <= 2.0

    run(main)


@pytest.mark.parametrize("value", ["nonsense", "", "1.5", "-3", "\xb2", "9" * 400 + "x"])
def test_a_retry_after_that_says_nothing(delays: list[float], value: str) -> None:
    async def main() -> None:
        async with (
            Raw(answer(503, retry_after=value), GOOD) as raw,
            HttpAgent(raw.url, thread_id="t") as agent,
        ):
            await agent.run_agent()
        assert len(delays) == 1
        assert 0.375 <= delays[0] <= 0.5

    run(main)


def test_a_retry_after_in_the_past(delays: list[float]) -> None:
    async def main() -> None:
        past = formatdate(0, usegmt=True)
        async with (
            Raw(answer(503, retry_after=past), GOOD) as raw,
            HttpAgent(raw.url, thread_id="t") as agent,
        ):
            await agent.run_agent()
        assert delays == [0.0]

    run(main)


@pytest.mark.parametrize(
    "value",
    ["61", "9" * 400, formatdate(time.time() + 9999, usegmt=True)],
    ids=["seconds", "digits", "date"],
)
def test_a_retry_after_that_is_too_long(delays: list[float], value: str) -> None:
    async def main() -> None:
        async with (
            Raw(answer(503, b"later", retry_after=value)) as raw,
            HttpAgent(raw.url, thread_id="t") as agent,
        ):
            with pytest.raises(HttpStatusError) as caught:
                await agent.run_agent()
        assert caught.value.headers["retry-after"] == value
        assert delays == []

    run(main)


def test_backoff_doubles_up_to_eight_seconds() -> None:
    for attempt, most in enumerate([0.5, 1, 2, 4, 8, 8, 8]):
        delays = [client_http._backoff(attempt) for _ in range(50)]
        assert all(most * 0.75 <= delay <= most for delay in delays)
        assert len(set(delays)) > 1


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_end(delays: list[float], retries: int) -> None:
    async def main() -> None:
        log = Log()
        async with (
            Raw(*[answer(429, b'{"detail": "slow"}', "application/json")] * 3) as raw,
            HttpAgent(raw.url, max_retries=retries) as agent,
        ):
            with pytest.raises(HttpStatusError) as caught:
                await agent.run_agent(subscriber=log)
        assert caught.value.body == {"detail": "slow"}
        assert len(raw.requests) == retries + 1
        assert len(delays) == retries
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
@pytest.mark.parametrize("through", [False, True], ids=["direct", "middleware"])
def test_connections_that_are_refused(delays: list[float], name: str, through: bool) -> None:
    module = installed(name)

    async def main() -> None:
        log = Log()
        async with Raw() as raw:
            url = raw.url
        async with module.AsyncClient() as client:
            agent = HttpAgent(url, client=client)
            if through:
                agent.use(passing)
            with pytest.raises(module.ConnectError):
                await agent.run_agent(subscriber=log)
        assert len(delays) == 2
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)


async def passing(input: RunAgentInput, next: Any) -> Any:
    async for event in next(input):
        yield event


@pytest.mark.parametrize("name", ["ConnectError", "ConnectTimeout", "PoolTimeout"])
def test_errors_before_there_is_a_connection_are_retried(delays: list[float], name: str) -> None:
    httpx = installed("httpx")
    attempts = 0

    async def handle(request: Any) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise getattr(httpx, name)("no")
        return httpx.Response(200, headers={"content-type": SSE}, content=BODY)

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            agent = HttpAgent("http://host/", client=client, thread_id="t")
            assert (await agent.run_agent()).status == "success"

    run(main)
    assert attempts == 3


@pytest.mark.parametrize("through", [False, True], ids=["direct", "middleware"])
@pytest.mark.parametrize(
    "name", ["ReadTimeout", "WriteTimeout", "ReadError", "WriteError", "RemoteProtocolError"]
)
def test_errors_after_that_are_not(delays: list[float], name: str, through: bool) -> None:
    httpx = installed("httpx")
    attempts = 0

    async def handle(request: Any) -> Any:
        nonlocal attempts
        attempts += 1
        raise getattr(httpx, name)("no")

    async def main() -> None:
        log = Log()
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            agent = HttpAgent("http://host/", client=client)
            if through:
                agent.use(passing)
            # The run may have begun.
            with pytest.raises(TruncatedRunError) as caught:
                await agent.run_agent(subscriber=log)
            assert type(caught.value.__cause__).__name__ == name
            assert caught.value.events == 0
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)
    assert attempts == 1
    assert delays == []


def test_a_run_that_began_is_not_retried(delays: list[float]) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + encoded(EVENTS[:3]))
        await writer.drain()
        await asyncio.sleep(0.02)
        reset(writer)

    async def main() -> None:
        seen: list[str] = []
        async with Raw(cut) as raw, HttpAgent(raw.url, thread_id="t") as agent:
            one = agent.run_agent(subscriber=Types(seen))
            with pytest.raises(TruncatedRunError) as caught:
                await one
        assert seen == [event["type"] for event in EVENTS[:3]]
        assert type(caught.value.__cause__).__name__ == "ReadError"
        assert len(raw.requests) == 1
        assert delays == []

    run(main)


# -- answers that are no run ----------------------------------------------------------------


@pytest.mark.parametrize("status", [300, 304, 400, 401, 403, 404, 405, 422, 500, 502, 504])
def test_a_status(delays: list[float], status: int) -> None:
    async def main() -> None:
        log = Log()
        body = b"" if status == 304 else b'{"detail": ["no"]}'
        given = answer(status, body, "application/problem+json", x_request_id="7")
        async with Raw(given) as raw, HttpAgent(raw.url) as agent:
            one = agent.run_agent("Hi", subscriber=log)
            with pytest.raises(HttpStatusError, match=f"{raw.url} answered .* {status}") as caught:
                # From here, before there is an event.
                await one.__aenter__()
            error = caught.value
            assert error.status == status
            assert error.headers["x-request-id"] == "7"
            assert error.body == ("" if status == 304 else {"detail": ["no"]})
            assert isinstance(error, AGUIError)
            assert not agent.is_running
            assert agent.last_response is not None
            assert agent.last_response.status == status
            assert one.snapshot.status == "error"
            assert log.errors == [error]
            assert log.calls == ["initialized", "failed", "finalized"]
            assert [message.content for message in agent.messages] == ["Hi"]
        assert len(raw.requests) == 1
        assert delays == []

    run(main)


def test_bodies_of_errors() -> None:
    big = b"x" * 200_000
    cases = [
        (answer(500, b"Gr\xc3\xb6\xc3\x9fe", "text/plain"), "Größe"),
        (answer(500, b"\xff", "text/plain"), "\ufffd"),
        (answer(500, b"{broken", "application/json"), "{broken"),
        (answer(500, big, "text/plain"), "x" * 65536),
        (
            answer(500, gzip.compress(b"[1]"), "application/json", content_encoding="gzip"),
            [1],
        ),
        # Cut, and not gzip at all: what there is of it.
        (answer(500, b"hello", "text/plain").replace(b"length: 5", b"length: 9"), "hello"),
        (answer(500, b"hello", "text/plain", content_encoding="gzip"), ""),
    ]

    async def main() -> None:
        async with Raw(*[given for given, _ in cases]) as raw:
            for _, expected in cases:
                async with HttpAgent(raw.url) as agent:
                    with pytest.raises(HttpStatusError) as caught:
                        await agent.run_agent()
                    assert caught.value.body == expected

    run(main)


@pytest.mark.parametrize(
    ("given", "content_type", "body"),
    [
        (answer(200, b"<h1>Log in", "text/html; charset=utf-8"), "text/html; charset=utf-8", "<h1"),
        (answer(200, b'{"a":1}', "application/json"), "application/json", '{"a"'),
        (answer(200, b"what", None), "", "what"),
        (answer(204, b"", None), "", ""),
        (answer(202, b"queued", "text/plain"), "text/plain", "queued"),
        (answer(200, b"what", "text/html").replace(b"h: 4", b"h: 9"), "text/html", "what"),
    ],
)
def test_another_content_type(given: bytes, content_type: str, body: str) -> None:
    async def main() -> None:
        log = Log()
        async with Raw(given) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises(UnexpectedContentTypeError) as caught:
                await agent.run_agent(subscriber=log)
        assert caught.value.content_type == content_type
        assert caught.value.body.startswith(body)
        assert log.calls == ["initialized", "failed", "finalized"]

    run(main)


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_stream_of_any_2xx(status: int) -> None:
    async def main() -> None:
        async with (
            Raw(answer(status, BODY, f"{SSE};charset=UTF-8")) as raw,
            HttpAgent(raw.url, thread_id="t") as agent,
        ):
            assert (await agent.run_agent()).status == "success"

    run(main)


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_that_does_not_end(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    async def trickles(writer: asyncio.StreamWriter) -> None:
        writer.write(head("text/html").replace(b" 200 ", b" %d " % status))
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def main() -> None:
        monkeypatch.setattr(client_http, "_ERROR_SECONDS", 0.1)
        async with Raw(trickles) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises((HttpStatusError, UnexpectedContentTypeError)) as caught:
                await agent.run_agent()
            assert set(caught.value.body) == {"x"}

    run(main)


def test_cookies_are_not_kept() -> None:
    async def main() -> None:
        setting = answer(200, BODY, set_cookie="a=1; Path=/")
        async with Raw(setting, setting, GOOD) as raw:
            async with HttpAgent(raw.url, thread_id="t") as agent:
                await agent.run_agent()
                await agent.run_agent()
            assert "cookie" not in raw.requests[1].headers
            headers = {"Cookie": "mine=1"}
            async with HttpAgent(raw.url, thread_id="t", headers=headers) as agent:
                await agent.run_agent()
            assert raw.requests[2].headers["cookie"] == "mine=1"

    run(main)


# -- redirects ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [307, 308])
def test_redirects_to_the_same_origin(status: int) -> None:
    async def main() -> None:
        async with Raw() as raw:
            absolute = raw.url + "/there"
            raw._answers += [
                answer(status, location="/here?a=1"),
                answer(status, location=absolute),
                GOOD,
            ]
            headers = {"Authorization": "Bearer x"}
            async with HttpAgent(raw.url, headers=headers, thread_id="t") as agent:
                assert (await agent.run_agent("Hi")).status == "success"
        assert [one.target for one in raw.requests] == ["/agent", "/here?a=1", "/agent/there"]
        assert {one.headers["authorization"] for one in raw.requests} == {"Bearer x"}
        assert len({one.body for one in raw.requests}) == 1
        assert {one.method for one in raw.requests} == {"POST"}

    run(main)


def test_redirects_below_the_base_of_a_client() -> None:
    httpx = installed("httpx")

    async def main() -> None:
        async with Raw(answer(307, location="/here"), GOOD) as raw:
            base = raw.url.removesuffix("/agent")
            raw._answers[0] = answer(307, location=f"{base}/here")
            async with httpx.AsyncClient(base_url=base) as client:
                agent = HttpAgent("/agent", client=client, thread_id="t")
                assert (await agent.run_agent()).status == "success"

    run(main)


@pytest.mark.parametrize("follow", [False, True])
def test_redirects_to_another_origin(follow: bool) -> None:
    httpx = installed("httpx")

    async def main() -> None:
        async with Raw(GOOD) as other, Raw(answer(307, location=other.url)) as raw:
            # Nor does the client's own setting change that.
            async with httpx.AsyncClient(follow_redirects=follow) as client:
                headers = {"Authorization": "Bearer x"}
                agent = HttpAgent(raw.url, headers=headers, client=client)
                with pytest.raises(HttpStatusError) as caught:
                    await agent.run_agent()
            assert caught.value.status == 307
            assert caught.value.headers["location"] == other.url
        assert other.requests == []

    run(main)


@pytest.mark.parametrize(
    "given",
    [
        answer(302, location="/here"),
        answer(303, location="/here"),
        answer(307),
        answer(307, location="http://127.0.0.1:port/"),
        answer(307, location="http://[/"),
        answer(308, location="ftp://127.0.0.1/"),
    ],
)
def test_redirects_that_are_not_followed(given: bytes) -> None:
    async def main() -> None:
        async with Raw(given) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises(HttpStatusError):
                await agent.run_agent()
        assert len(raw.requests) == 1

    run(main)


def test_redirects_in_a_circle_end() -> None:
    async def main() -> None:
        async with Raw(*[answer(307, location="/agent")] * 6) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises(HttpStatusError):
                await agent.run_agent()
        assert len(raw.requests) == 6

    run(main)


# -- time -----------------------------------------------------------------------------------


def test_idle_timeout() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def then_silent(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + encoded(EVENTS[:2]))
        await asyncio.sleep(3600)

    async def main() -> None:
        for given, count in ((silent, 0), (then_silent, 2)):
            async with Raw(given) as raw:
                agent = HttpAgent(raw.url, thread_id="t", idle_timeout=0.05)
                async with agent:
                    with pytest.raises(TruncatedRunError) as caught:
                        await agent.run_agent()
                assert caught.value.events == count
                assert type(caught.value.__cause__).__name__ == "ReadTimeout"
                assert len(raw.requests) == 1

    run(main)


def test_comments_are_signs_of_life() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        for event in EVENTS:
            for _ in range(3):
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(encoded([event]))

    async def main() -> None:
        # 0.2 seconds in all, and never one of 0.15 without a byte.
        async with (
            Raw(slow) as raw,
            HttpAgent(raw.url, thread_id="t", idle_timeout=0.15) as agent,
        ):
            assert (await agent.run_agent()).status == "success"

    run(main)


# -- connect --------------------------------------------------------------------------------


def test_connect() -> None:
    async def main() -> None:
        async with Raw(GOOD, GOOD, GOOD, answer(404), answer(405)) as raw:
            urls = {
                raw.url: "/agent/connect",
                raw.url + "/": "/agent/connect",
                raw.url + "?a=1&b=2": "/agent/connect?a=1&b=2",
            }
            for url in urls:
                async with HttpAgent(url, thread_id="t") as agent:
                    assert (await agent.connect_agent()).text == "Größe 漢字 😀"
                    assert agent.state == EVENTS[5]["snapshot"]
            assert [request.target for request in raw.requests] == list(urls.values())
            assert {request.method for request in raw.requests} == {"POST"}
            assert raw.requests[0].json["threadId"] == "t"
            own = raw.url + "/join"
            for _ in (404, 405):
                # No history.
                async with HttpAgent(raw.url, thread_id="t", connect_url=own) as agent:
                    result = await agent.connect_agent()
                    assert (result.status, result.new_messages) == ("success", [])
            assert raw.requests[-1].target == "/agent/join"

    run(main)


def test_connect_fails() -> None:
    async def main() -> None:
        log = Log()
        async with (
            Raw(answer(403), answer(200, encoded(EVENTS[:3]))) as raw,
            HttpAgent(raw.url, thread_id="t") as agent,
        ):
            with pytest.raises(HttpStatusError):
                await agent.connect_agent(subscriber=log)
            assert log.calls == ["initialized", "failed", "finalized"]
            with pytest.raises(TruncatedRunError):
                await agent.connect_agent()

    run(main)


@pytest.mark.parametrize("status", [404, 405])
def test_a_run_has_to_exist(status: int) -> None:
    async def main() -> None:
        async with Raw(answer(status)) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises(HttpStatusError):
                await agent.run_agent()

    run(main)


# -- capabilities ---------------------------------------------------------------------------


def test_capabilities() -> None:
    body = json.dumps({"identity": {"name": "A", "later": 1}, "future": {"x": [1]}}).encode()

    async def main() -> None:
        async with (
            Raw(answer(200, body, "application/json"), answer(404)) as raw,
            HttpAgent(raw.url + "?k=v", headers={"X-A": "1"}) as agent,
        ):
            found = await agent.get_capabilities()
            assert found is not None
            assert found.identity is not None
            assert found.identity.name == "A"
            assert json.loads(found.model_dump_json(by_alias=True, exclude_none=True)) == (
                json.loads(body)
            )
            assert await agent.get_capabilities() is None
        first = raw.requests[0]
        assert (first.method, first.target) == ("GET", "/agent/capabilities?k=v")
        assert first.headers["accept"] == "application/json"
        assert first.headers["x-a"] == "1"

    run(main)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"identity": 5}', b"\xff", b"", b"[" * 9999])
def test_capabilities_that_cannot_be_read(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        seen: list[Deviation] = []
        async with Raw(*[answer(200, body, "application/json")] * 2) as raw:
            async with HttpAgent(raw.url, on_deviation=seen.append) as agent:
                assert await agent.get_capabilities() is None
            assert [one.kind for one in seen] == ["malformed_capabilities"]
            async with HttpAgent(raw.url) as agent:
                assert await agent.get_capabilities() is None
        assert "cannot be read" in caplog.text

    run(main)


def test_capabilities_that_are_refused() -> None:
    async def main() -> None:
        async with Raw(answer(401, b"who?", "text/plain")) as raw, HttpAgent(raw.url) as agent:
            with pytest.raises(HttpStatusError) as caught:
                await agent.get_capabilities()
        assert (caught.value.status, caught.value.body) == (401, "who?")

    run(main)


# -- clones and ends ------------------------------------------------------------------------


def test_clone() -> None:
    async def main() -> None:
        async with Raw(GOOD, GOOD, GOOD) as raw:
            agent = HttpAgent(raw.url, headers={"x": "1"}, thread_id="t")
            await agent.run_agent("Hi")
            clone = agent.clone()
            clone.headers["x"] = "2"
            assert agent.headers == {"x": "1"}
            assert (clone.url, clone.thread_id) == (agent.url, "t")
            async with clone:
                assert clone._client is None
                await clone.run_agent("More")
                assert clone._client is not agent._client
            assert len(agent.messages) == 2
            # The end of the clone is not that of the agent.
            assert (await agent.run_agent()).status == "success"
            await agent.aclose()
            await agent.aclose()

    run(main)


def test_a_clone_shares_the_client_of_the_caller() -> None:
    httpx = installed("httpx")

    async def main() -> None:
        async with httpx.AsyncClient() as client:
            agent = HttpAgent("http://host/", client=client)
            async with agent.clone() as clone:
                assert clone._client is client
            assert not client.is_closed

    run(main)


def test_an_agent_can_be_used_after_it_was_closed() -> None:
    async def main() -> None:
        async with Raw(GOOD, GOOD) as raw:
            agent = HttpAgent(raw.url, thread_id="t")
            for _ in range(2):
                await agent.run_agent()
                await agent.aclose()

    run(main)


def test_closing_ends_the_run_that_another_task_reads() -> None:
    async def then_silent(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + encoded(EVENTS[:2]))
        await asyncio.sleep(3600)

    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        for given in (then_silent, silent):
            for enters in (False, True):
                log = Log()
                async with Raw(given) as raw:
                    agent = HttpAgent(raw.url, thread_id="t")
                    one = agent.run_agent(subscriber=log)
                    entering = one.__aenter__()
                    reading = asyncio.ensure_future(entering if enters else one.result())
                    if not enters:
                        entering.close()
                    await asyncio.sleep(0.03)
                    await agent.aclose()
                    assert agent._client is None
                    assert log.calls == ["initialized", "finalized"]
                    await reading
                    assert one.snapshot.status == "aborted"
                    await one.aclose()
                    assert log.calls == ["initialized", "finalized"]

    run(main)
