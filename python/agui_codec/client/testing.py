"""For tests of agents and of programs that use them; none of it needs a network beyond loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ag_ui.core import BaseEvent, RunAgentInput

from agui_codec._native import (
    AGUIError,
    ChunkExpander,
    Deviation,
    EventEnforcer,
    EventVerifier,
    to_json,
    upgrade_input,
)
from agui_codec.client import _loop
from agui_codec.client._fields import read
from agui_codec.client.agent import AbstractAgent
from agui_codec.client.errors import ConnectNotImplementedError
from agui_codec.client.subscriber import AgentSubscriber, Call, Subscription
from agui_codec.encoder import EventEncoder

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from agui_codec.client.options import AgentOptions

__all__ = ["Recording", "ScriptedAgent", "assert_conformant", "serve"]

Event = BaseEvent | dict[str, Any]
#: What one run does: gives these events, waits for so many seconds, raises this exception.
Script = Iterable["Event | float | Exception"]


class ScriptedAgent(AbstractAgent):
    """An agent that does what it is told: each run plays the next script.

    Args:
        *scripts: For each run its events (models or wire dicts), between them numbers, which are
            seconds to wait, and exceptions, which are raised; or a function from the input to such
            a script. A script that does not begin with RUN_STARTED or RUN_ERROR is a run's inside:
            it gets a RUN_STARTED and, unless it ends a run, a RUN_FINISHED.
        **agent_options: As for :class:`AbstractAgent`.

    Attributes:
        inputs: The inputs of the runs so far.

    Example:
        agent = ScriptedAgent([TextMessageChunkEvent(message_id="1", delta="Hello")])
        assert (await agent.run_agent("Hi")).text == "Hello"
        assert agent.inputs[0].messages[0].content == "Hi"
    """

    def __init__(
        self,
        *scripts: Script | Callable[[RunAgentInput], Script],
        **agent_options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(**agent_options)
        self.inputs: list[RunAgentInput] = []
        self._scripts = list(scripts)

    async def run(self, input: RunAgentInput) -> AsyncGenerator[dict[str, Any], None]:
        """Play the next script.

        Raises:
            AssertionError: There is none.
        """
        at = len(self.inputs)
        self.inputs.append(input)
        if at >= len(self._scripts):
            raise AssertionError(f"run {at + 1}, and there are {len(self._scripts)} scripts")
        script = self._scripts[at]
        steps = list(script(input) if callable(script) else script)
        types = [_type(step) for step in steps if isinstance(step, (BaseEvent, dict))]
        wraps = not types or types[0] not in ("RUN_STARTED", "RUN_ERROR")
        ids = {"threadId": input.thread_id, "runId": input.run_id}
        if wraps:
            yield {"type": "RUN_STARTED", **ids}
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, (BaseEvent, dict)):
                yield step  # type: ignore[misc]
            elif isinstance(step, (int, float)):
                await _loop.sleep(step)
            else:
                raise TypeError(f"{step!r} in a script: events, seconds and exceptions are allowed")
        if wraps and not (types and types[-1] in ("RUN_FINISHED", "RUN_ERROR")):
            yield {"type": "RUN_FINISHED", **ids}


class Recording(AgentSubscriber):
    """Records the events of an agent's runs, as they come to its caller.

    Args:
        agent: The agent, which is subscribed to.

    Attributes:
        events: The events so far, as wire dicts.

    Example:
        with Recording(agent) as recording:
            await agent.run_agent("Hello")
        recording.save("hello.sse")
    """

    def __init__(self, agent: AbstractAgent) -> None:
        self.events: list[dict[str, Any]] = []
        self._subscription: Subscription = agent.subscribe(self)

    def on_event(self, call: Call) -> None:
        """Record an event."""
        self.events.append(json.loads(to_json(call.event)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the events to a file: JSON Lines if its name ends in ``.jsonl``, else SSE."""
        name = os.fspath(path)
        with open(name, "wb") as file:
            if name.endswith((".jsonl", ".ndjson")):
                file.writelines(to_json(event) + b"\n" for event in self.events)
            else:
                file.write(EventEncoder().encode_many(self.events))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._subscription()


def assert_conformant(events: Iterable[Event]) -> None:
    """Assert that events are what a conforming agent sends.

    Args:
        events: One stream, models or wire dicts.

    Raises:
        AssertionError: An event is malformed, out of place, retired or unknown, or a run has no
            end. It says which event.

    Example:
        assert_conformant([event async for event in MyAgent().run(input)])
    """
    deviations: list[Deviation] = []
    stages: tuple[Any, ...] = (
        EventEnforcer(on_deviation=deviations.append),
        ChunkExpander(on_deviation=deviations.append),
        EventVerifier(),
    )

    def through(items: list[Any], at: int) -> list[Any]:
        for stage in stages[at:]:
            items = [given for item in items for given in stage.feed(item)]
        return items

    index = -1
    try:
        for index, event in enumerate(events):
            through([event], 0)
            if deviations:
                raise AssertionError(f"event {index}: {deviations[0]}")
        for at, stage in enumerate(stages):
            through(stage.close(), at + 1)
    except AGUIError as error:
        where = f"event {index}: " if index >= 0 else ""
        raise AssertionError(f"{where}{error}") from error


@asynccontextmanager
async def serve(agent: AbstractAgent | Callable[..., Any]) -> AsyncIterator[str]:
    """Serve an agent, or any ASGI application, over real HTTP on a port of the loopback.

    Args:
        agent: The agent (each request is a run of its :meth:`AbstractAgent.run`, which is closed
            if the client leaves; ``connect`` and ``get_capabilities`` are served, too), or an ASGI
            application. Needs uvicorn.

    Yields:
        The URL. At the end of the block everything that is live is ended.

    Example:
        async with serve(ScriptedAgent([...])) as url, HttpAgent(url) as agent:
            await agent.run_agent("Hello")
    """
    import uvicorn

    app = _application(agent) if isinstance(agent, AbstractAgent) else agent
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    # The signals are the test's.
    server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]
    task = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            if task.done():
                task.result()
                raise RuntimeError("uvicorn has not started")
            await asyncio.sleep(0.001)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        state = server.server_state
        # What is live ends as if its client had left.
        for connection in list(state.connections):
            connection.transport.abort()
        running = list(state.tasks)
        if running:
            await asyncio.wait(running, timeout=_LAST_SECONDS)
        for one in running:
            one.cancel()
        server.should_exit = server.force_exit = True
        await asyncio.gather(task, *running, return_exceptions=True)


# How long an application may take to notice that its clients have left.
_LAST_SECONDS = 0.5


def _application(agent: AbstractAgent) -> Callable[..., Any]:
    """The smallest application that serves an agent, its connect() and its capabilities."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        asked = scope["method"], scope["path"]
        if asked == ("GET", "/capabilities"):
            found = await agent.get_capabilities()
            if found is not None:
                await _respond(send, 200, found.model_dump_json(by_alias=True, exclude_none=True))
                return
        connects = asked == ("POST", "/connect")
        if not connects and asked != ("POST", "/"):
            await _respond(send, 404, '{"detail": "not found"}')
            return
        try:
            input = RunAgentInput.model_validate(upgrade_input(json.loads(body)))
        except (ValueError, TypeError) as error:
            await _respond(send, 422, json.dumps({"detail": str(error)}))
            return
        try:
            events: Any = agent.connect(input) if connects else agent.run(input)
        except ConnectNotImplementedError as error:
            await _respond(send, 404, json.dumps({"detail": str(error)}))
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        encoder = EventEncoder(headers.get("accept"))

        async def stream() -> None:
            await _start(send, 200, encoder.get_content_type())
            try:
                async for event in events:
                    chunk = encoder.encode_binary(event)
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                if (aclose := getattr(events, "aclose", None)) is not None:
                    await aclose()
            await send({"type": "http.response.body", "body": b""})

        streams = asyncio.ensure_future(stream())
        # There is nothing more to receive but that the client leaves.
        leaves = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({streams, leaves}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (streams, leaves):
                one.cancel()
            await asyncio.wait({streams, leaves})
        if not streams.cancelled():
            streams.result()

    return application


async def _respond(send: Any, status: int, document: str) -> None:
    await _start(send, status, "application/json")
    await send({"type": "http.response.body", "body": document.encode()})


async def _start(send: Any, status: int, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})


def _type(event: Event) -> str:
    found = read(event, "type")
    return str(getattr(found, "value", found))
