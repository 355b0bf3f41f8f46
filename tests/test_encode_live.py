"""Real agent servers with scripted models, once with the official encoder and once with ours."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import ag_ui.encoder
import pytest

import agui_codec
from oracle import ADAPTER, ENCODER, official_text

pytest.importorskip("httpx")
pytest.importorskip("fastapi")

import fastapi
import httpx

RUN = {
    "threadId": "thread-1",
    "runId": "run-1",
    "state": {"counter": 1, "nothing": None},
    "messages": [{"id": "u1", "role": "user", "content": "Grüße aus Köln 😀"}],
    "tools": [],
    "context": [],
    "forwardedProps": {"some_key": None},
}


# What the frameworks warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def installed() -> Iterator[Callable[[], None]]:
    """A switch that is off again after the test."""
    yield agui_codec.install
    agui_codec.uninstall()


def pydantic_ai_app() -> Any:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models.function import (
        AgentInfo,
        DeltaThinkingPart,
        DeltaToolCall,
        FunctionModel,
    )
    from pydantic_ai.ui.ag_ui import AGUIAdapter

    async def script(messages: Any, info: AgentInfo) -> AsyncIterator[Any]:
        if not any(isinstance(message, ModelResponse) for message in messages):
            for word in ("Let me ", "think \u2028 about", " it"):
                yield {0: DeltaThinkingPart(content=word)}
            yield {1: DeltaToolCall(name="weather", json_args='{"city":', tool_call_id="c1")}
            yield {1: DeltaToolCall(json_args='"Köln"}', tool_call_id="c1")}
        else:
            for word in ("Es ist ", 'sonnig \n "warm" ', "und 漢字 😀", "", "."):
                yield word

    agent = Agent(FunctionModel(stream_function=script))

    @agent.tool_plain
    def weather(city: str) -> dict[str, Any]:
        return {"city": city, "degrees": 21.5, "note": None}

    app = fastapi.FastAPI()

    @app.post("/")
    async def run(request: fastapi.Request) -> Any:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return app


def pydantic_ai_test_model_app() -> Any:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.ui.ag_ui import AGUIAdapter

    agent = Agent(TestModel())

    @agent.tool_plain
    def broken(city: str) -> str:
        return city * 2

    app = fastapi.FastAPI()

    @app.post("/")
    async def run(request: fastapi.Request) -> Any:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return app


def langgraph_app() -> Any:
    pytest.importorskip("langgraph")
    pytest.importorskip("ag_ui_langgraph")
    from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
    from langchain_core.outputs import ChatGenerationChunk
    from langgraph.checkpoint.memory import MemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    class Model(GenericFakeChatModel):
        """Calls a tool before it says anything, piece by piece."""

        def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if any(isinstance(message, ToolMessage) for message in messages):
                yield from super()._stream(messages, *args, **kwargs)
                return
            for call in (
                {"name": "weather", "args": "", "id": "c1", "index": 0},
                {"name": None, "args": '{"city":', "id": None, "index": 0},
                {"name": None, "args": '"Köln"}', "id": None, "index": 0},
            ):
                chunk = AIMessageChunk(content="", tool_call_chunks=[call], id="call-1")
                yield ChatGenerationChunk(message=chunk)

    model = Model(messages=iter([AIMessage('Es ist sonnig "und" \n warm 漢字 😀')]))

    class State(MessagesState):
        counter: int

    async def chat(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])], "counter": 2}

    def tools(state: Any) -> Any:
        return {"messages": [ToolMessage("21.5°", tool_call_id="c1", id="tool-1")]}

    def then(state: Any) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(State)
    graph.add_node("chat", chat)
    graph.add_node("tools", tools)
    graph.add_edge(START, "chat")
    graph.add_conditional_edges("chat", then, ["tools", END])
    graph.add_edge("tools", "chat")
    app = fastapi.FastAPI()
    agent = LangGraphAgent(name="agent", graph=graph.compile(checkpointer=MemorySaver()))
    add_langgraph_fastapi_endpoint(app, agent, "/")
    return app


APPS = {
    "pydantic-ai": pydantic_ai_app,
    "pydantic-ai with its test model": pydantic_ai_test_model_app,
    "langgraph": langgraph_app,
}


def body_of(app: Any) -> bytes:
    async def ask() -> bytes:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            response = await client.post("/", json=RUN, headers={"accept": "text/event-stream"})
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            return response.content

    return asyncio.run(ask())


def normalised(body: bytes) -> list[str]:
    """Random ids by the order in which they appear, and no moments."""
    text = re.sub(r'"timestamp":\d+', '"timestamp":0', body.decode())
    ids: dict[str, str] = {}
    pattern = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b"
    text = re.sub(pattern, lambda found: ids.setdefault(found[0], f"id{len(ids)}"), text)
    return text.split("\n\n")


@pytest.mark.parametrize("make", APPS.values(), ids=APPS)
def test_the_stream_is_the_same_with_and_without_us(
    make: Callable[[], Any], installed: Callable[[], None]
) -> None:
    expected = normalised(body_of(make()))
    assert len(expected) > 10
    assert expected[-1] == ""
    installed()
    assert ag_ui.encoder.EventEncoder().encode({"type": "X"}) == 'data: {"type":"X"}\n\n'
    assert normalised(body_of(make())) == expected
    agui_codec.uninstall()
    assert normalised(body_of(make())) == expected


@pytest.mark.parametrize("make", APPS.values(), ids=APPS)
def test_each_frame_can_be_read_and_written_again(make: Callable[[], Any]) -> None:
    body = body_of(make())
    for frame in body.split(b"\n\n")[:-1]:
        event = ADAPTER.validate_json(frame[6:])
        assert ENCODER.encode(event) == official_text(event)
        assert ENCODER.encode_binary(json.loads(frame[6:])) == frame + b"\n\n"
