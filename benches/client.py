"""A run of an agent: what it adds to the stages, against HTTP by hand and the TypeScript client."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import repeat
from typing import Any

import httpx2

from agui_codec import EventReducer, client_pipeline
from agui_codec._demo import Contender, Document
from agui_codec.client import AgentSubscriber, Call, HttpAgent
from agui_codec.client.run import Source
from benches.suite import Absent, Budget, node_missing, seconds_in_node

PIPELINE = "client_pipeline"
REDUCED = "client_pipeline and EventReducer"
RUN = "agent.run_agent"
TYPESCRIPT = "@ag-ui/client (Node)"

FLOOR = REDUCED

DICTS = "a run, an event at a time, dicts"
MODELS = "a run, an event at a time, models"
SUBSCRIBED = "a run, with subscribers"
HTTP = "a run over httpx2, an event at a time"
TOKENS = "a run, a token"
BEHIND = "a run, a token behind 200 messages"
TEXTS = "a run, 1 kB and 1 MB of text"

BUDGETS = {
    (DICTS, RUN): Budget(faster=0.33, floor=1.6),
    (MODELS, RUN): Budget(faster=0.45),
    (SUBSCRIBED, "one sync subscriber"): Budget(net=120),
    (SUBSCRIBED, "one async subscriber"): Budget(net=250),
    (HTTP, RUN): Budget(faster=3, floor=1.3),
    (TOKENS, RUN): Budget(faster=15),
    (BEHIND, RUN): Budget(faster=100),
    (TEXTS, "1 MB before"): Budget(faster=0.83),
}

EVENTS = 2000
LOOP = asyncio.new_event_loop()


def documents() -> list[Document | Absent]:
    """A run of many text deltas, in several ways."""
    return [
        in_process(DICTS, as_dict=True),
        in_process(MODELS, as_dict=False),
        subscribed(),
        over_http(),
        typescript(TOKENS, 0),
        typescript(BEHIND, 200),
        texts(),
    ]


def events(count: int = EVENTS, first: str = "") -> list[dict[str, Any]]:
    """The events of a run that is one message, in so many deltas."""
    message = {"messageId": "msg_0123456789"}
    delta = {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": "Hello, wor"}
    return [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_START", **message},
        {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": first},
        *[delta] * count,
        {"type": "TEXT_MESSAGE_END", **message},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]


def frames(given: list[dict[str, Any]]) -> list[bytes]:
    """The events as server-sent events, each by itself."""
    return [b"data: %s\n\n" % json.dumps(one, separators=(",", ":")).encode() for one in given]


class Local(HttpAgent):
    """An agent behind HTTP, without the HTTP: what its response would be is here."""

    def __init__(self, chunks: list[bytes], **options: Any) -> None:
        super().__init__("http://localhost/", thread_id="t", **options)
        self.chunks = chunks

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        return (OSError,)

    async def _response(self, input: Any, *, connects: bool) -> Source:
        return Source(self.items(), "text/event-stream")

    async def items(self) -> AsyncIterator[bytes]:
        """The chunks of the response."""
        for chunk in self.chunks:
            yield chunk


async def read(agent: HttpAgent, **options: Any) -> int:
    """How many events a run gives."""
    count = 0
    async with agent.run_agent(run_id="r", **options) as run:
        async for _ in run:
            count += 1
    return count


def counted(work: Callable[[], Any]) -> Callable[[], Iterator[int]]:
    """The work as a contender does it: as many results as there were events."""
    return lambda: repeat(0, LOOP.run_until_complete(work()))


def staged(chunks: list[bytes], *, as_dict: bool, reduces: bool) -> Callable[[], Any]:
    """The stages alone, over the same asynchronous chunks."""

    async def work() -> int:
        feed = client_pipeline(as_dict=as_dict).feed
        apply = EventReducer(as_dict=as_dict).apply
        count = 0
        async for chunk in Local(chunks).items():
            for event in feed(chunk):
                if reduces:
                    apply(event)
                count += 1
        return count

    return work


def in_process(name: str, *, as_dict: bool) -> Document:
    """What the loop of a run adds to the stages."""
    chunks = frames(events())
    contenders = [
        Contender(PIPELINE, counted(staged(chunks, as_dict=as_dict, reduces=False)), equal),
        Contender(REDUCED, counted(staged(chunks, as_dict=as_dict, reduces=True)), equal),
        Contender(RUN, counted(lambda: read(Local(chunks, as_dict=as_dict))), equal),
    ]
    return Document(name, len(chunks), contenders)


class Listens(AgentSubscriber):
    """A callback of the commonest event."""

    def on_text_message_content_event(self, call: Call) -> None:
        """Do nothing."""


class Waits(AgentSubscriber):
    """The same, asynchronous."""

    async def on_text_message_content_event(self, call: Call) -> None:
        """Do nothing."""


def subscribed() -> Document:
    """What a subscriber costs an event."""
    chunks = frames(events())

    def run(subscriber: AgentSubscriber | None) -> Callable[[], Iterator[int]]:
        return counted(lambda: read(Local(chunks, as_dict=True), subscriber=subscriber))

    contenders = [
        Contender("no subscriber", run(None), equal),
        Contender("one sync subscriber", run(Listens()), equal),
        Contender("one async subscriber", run(Waits()), equal),
    ]
    return Document(SUBSCRIBED, len(chunks), contenders)


class Stream(httpx2.AsyncByteStream):
    """A body in chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


def over_http() -> Document:
    """Against httpx2's own reading of server-sent events, without verifying or adding up."""
    chunks = frames(events())

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Stream(chunks))

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))

    async def by_hand() -> int:
        count = 0
        async with client.stream("POST", "http://localhost/") as response:
            async for event in httpx2.EventSource(response):
                json.loads(event.data)
                count += 1
        return count

    async def with_stages() -> int:
        feed, apply = client_pipeline(as_dict=True).feed, EventReducer(as_dict=True).apply
        count = 0
        async with client.stream("POST", "http://localhost/") as response:
            async for chunk in response.aiter_raw():
                for event in feed(chunk):
                    apply(event)
                    count += 1
        return count

    def agent() -> HttpAgent:
        return HttpAgent("http://localhost/", client=client, as_dict=True, thread_id="t")

    contenders = [
        Contender("httpx2.EventSource and json.loads", counted(by_hand), equal),
        Contender(REDUCED, counted(with_stages), equal),
        Contender(RUN, counted(lambda: read(agent())), equal),
    ]
    return Document(HTTP, len(chunks), contenders)


def typescript(name: str, behind: int) -> Document | Absent:
    """A run of the TypeScript agent, which is given its events as objects."""
    if reason := node_missing():
        return Absent(name, reason)
    chunks = frames(events())
    messages = [{"id": f"m{n}", "role": "user", "content": "Hello"} for n in range(behind)]

    def seconds() -> float:
        # Fewer, since it is slow.
        job = {"events": events(400), "messages": messages}
        return seconds_in_node("client_bench.mjs", job)

    work = counted(lambda: read(Local(chunks, as_dict=True, messages=messages)))
    contenders = [
        Contender(TYPESCRIPT, work, equal, seconds=seconds),
        Contender(RUN, work, equal),
    ]
    return Document(name, len(chunks), contenders)


def texts() -> Document:
    """A delta costs the same however long the text is already."""

    def run(size: int) -> Callable[[], Iterator[int]]:
        chunks = frames(events(first="x" * size))
        return counted(lambda: read(Local(chunks, as_dict=True)))

    contenders = [
        Contender("1 kB before", run(1000), equal),
        Contender("1 MB before", run(1_000_000), equal),
    ]
    return Document(TEXTS, len(events()), contenders)


def equal(one: Any, other: Any) -> bool:
    """Whether both have read all events."""
    return bool(one == other)
