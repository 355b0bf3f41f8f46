"""Tools that run in the client: what the agent is told of them, and how its calls are answered."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunStartedEvent, TextPart, Tool, ToolMessage
from pydantic import BaseModel, Field

from agui_codec.client import (
    AbstractAgent,
    AgentSubscriber,
    Call,
    FrontendTool,
    HttpAgent,
    PendingToolCallsError,
    RunFailedError,
    ToolCallContext,
    ToolRoundsError,
    TruncatedRunError,
    tool,
)
from agui_codec.client.subscriber import CALLBACKS
from agui_codec.client.testing import ScriptedAgent
from streams import INTEROP, Event, content, end, event, start

DONE = [start(), content("Done."), end()]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def call(call_id: str, name: str, arguments: str = "{}") -> list[Event]:
    return [
        event("TOOL_CALL_START", toolCallId=call_id, toolCallName=name),
        event("TOOL_CALL_ARGS", toolCallId=call_id, delta=arguments),
        event("TOOL_CALL_END", toolCallId=call_id),
    ]


def answers(agent: AbstractAgent) -> dict[str, Any]:
    """The content of the tool messages, by call."""
    return {one.tool_call_id: one.content for one in agent.messages if isinstance(one, ToolMessage)}


def errors(agent: AbstractAgent) -> dict[str, str | None]:
    return {one.tool_call_id: one.error for one in agent.messages if isinstance(one, ToolMessage)}


async def once(made: Any, arguments: str = "{}", **options: Any) -> ScriptedAgent:
    """An agent that has called a tool once, and got its answer."""
    agent = ScriptedAgent(call("c", options.pop("name", "f"), arguments), DONE)
    assert (await agent.run_agent(tools=[made], **options)).text == "Done."
    return agent


@tool
async def get_location(precision: Literal["coarse", "fine"] = "coarse") -> str:
    """Where the user is."""
    return "Lisbon" if precision == "coarse" else "Rua Augusta"


# -- what ag-ui #2799, #2800 and #2801 ask for, one by one ----------------------------------


def test_a_user_message_is_sent_and_the_text_streams() -> None:
    async def main() -> None:
        agent = ScriptedAgent([start(), content("Hel"), content("lo"), end()])
        async with agent.run_agent("Hi") as one:
            assert [text async for text in one.text_stream] == ["Hel", "lo"]
        (message,) = agent.inputs[0].messages
        assert (message.role, message.content) == ("user", "Hi")

    run(main)


def test_unknown_events_are_skipped() -> None:
    async def main() -> None:
        reported: list[Any] = []
        script = [event("FUTURE_EVENT", x=1), *DONE]
        agent = ScriptedAgent(script, on_deviation=reported.append)
        assert (await agent.run_agent()).text == "Done."
        assert reported[0].event_type == "FUTURE_EVENT"

    run(main)


def test_no_terminal_event_is_an_error() -> None:
    class Cut(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)

    async def main() -> None:
        with pytest.raises(TruncatedRunError):
            await Cut().run_agent()

    run(main)


def test_run_error_is_an_exception() -> None:
    async def main() -> None:
        agent = ScriptedAgent([event("RUN_ERROR", message="no quota", code="q")])
        with pytest.raises(RunFailedError, match="no quota"):
            await agent.run_agent()

    run(main)


def test_sequential_and_interleaved_tool_calls() -> None:
    one, other = (call(name, "add", json.dumps({"a": n, "b": n})) for n, name in enumerate("cd", 1))
    interleaved = [pair for both in zip(one, other, strict=True) for pair in both]

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    async def main() -> None:
        for script in ([*one, *other], interleaved):
            agent = ScriptedAgent(script, DONE)
            await agent.run_agent(tools=[add])
            assert answers(agent) == {"c": "2", "d": "4"}

    run(main)


@pytest.mark.parametrize(
    "arguments", ["{", "[]", "5", '{"precision": "exact"}', '{"x": 1}', " ", "{}{}"]
)
def test_malformed_arguments_name_their_call_and_do_not_end_the_stream(
    arguments: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        script = [*call("bad", "get_location", arguments), *call("good", "get_location"), *DONE]
        agent = ScriptedAgent(script, [])
        with caplog.at_level(logging.WARNING, "agui_codec.client"):
            async with agent.run_agent(tools=[get_location]) as one:
                kinds = [got.type async for got in one]
        assert kinds.count("TEXT_MESSAGE_END") == 1
        assert "'bad'" in caplog.text
        assert errors(agent)["good"] is None
        error = errors(agent)["bad"]
        assert error is not None
        assert error.startswith("Invalid arguments for get_location: ")
        assert "pydantic.dev" not in error
        assert answers(agent) == {"bad": error, "good": "Lisbon"}

    run(main)


def test_a_registered_tool_is_advertised_and_run() -> None:
    async def main() -> None:
        agent = await once(get_location, '{"precision": "fine"}', name="get_location")
        assert [one.tools for one in agent.inputs] == [[get_location.definition()]] * 2
        assert answers(agent) == {"c": "Rua Augusta"}
        # The agent gets the answer with the next run, which is one of its own.
        assert agent.inputs[1].messages[-1].role == "tool"
        assert agent.inputs[0].run_id != agent.inputs[1].run_id
        assert agent.inputs[1].parent_run_id is None
        assert agent.inputs[0].thread_id == agent.inputs[1].thread_id

    run(main)


def test_an_exception_in_a_tool_is_a_tool_error(caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> None:
        raise ZeroDivisionError("no")

    async def main() -> None:
        agent = await once(breaks, name="breaks")
        assert errors(agent) == answers(agent) == {"c": "ZeroDivisionError: no"}
        assert "tool call 'c' of breaks failed" in caplog.text
        assert "Traceback" in caplog.text

    run(main)


def test_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("a connection"))
    run(lambda: once(get_location, name="get_location"))  # type: ignore[arg-type,return-value]


def test_names_as_in_the_typescript_client() -> None:
    declared = INTEROP / "node_modules/@ag-ui/client/dist/index.d.ts"
    if not declared.exists():
        pytest.skip("the packages of tests/interop are missing")
    text = declared.read_text("utf-8")
    (subscriber,) = re.findall(r"interface AgentSubscriber \{(.*?)\n\}", text, re.DOTALL)
    names = re.findall(r"^  (on\w+)\?", subscriber, re.MULTILINE)
    assert {re.sub("([A-Z])", r"_\1", name).lower() for name in names} == set(CALLBACKS)
    (members,) = re.findall(r"abstract class AbstractAgent \{(.*?)\n\}", text, re.DOTALL)
    for name in (
        *("runAgent", "connectAgent", "abortRun", "detachActiveRun", "clone", "use", "subscribe"),
        *("addMessage", "addMessages", "setMessages", "setState", "getCapabilities", "run"),
        *("agentId", "threadId", "description", "messages", "state", "isRunning"),
        *("pendingInterrupts", "connect"),
    ):
        assert re.search(rf"\b{name}\b", members), name
        agent: Any = ScriptedAgent()
        assert hasattr(agent, re.sub("([A-Z])", r"_\1", name).lower()), name
    assert issubclass(HttpAgent, AbstractAgent)


# -- the schema -----------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Place(BaseModel):
    city: str
    zip: str | None = None


@dataclass
class Point:
    x: float
    y: float = 0.0


def test_schema_from_the_signature() -> None:
    @tool(name="book", metadata={"a": 1}, description="Books.")
    def book_it(
        place: Place, when: Annotated[str, Field(description="ISO 8601")], *, people: int = 2
    ) -> None: ...

    definition = book_it.definition()
    assert (definition.name, definition.description) == ("book", "Books.")
    assert definition.metadata == {"a": 1}
    parameters: Any = definition.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place", "when"]
    assert parameters["properties"]["when"] == {
        "description": "ISO 8601", "title": "When", "type": "string",
    }  # fmt: skip
    assert parameters["properties"]["people"]["default"] == 2
    assert parameters["additionalProperties"] is False
    assert parameters["$defs"]["Place"]["required"] == ["city"]
    # A decorated tool is still the function.
    assert book_it.handler is not None
    assert get_location.description == "Where the user is."


def test_arguments_are_what_the_annotations_say() -> None:
    seen: list[Any] = []

    def paint(place: Place, at: Point, colour: Colour, sizes: tuple[int, ...] = (1,)) -> None:
        seen.append((place, at, colour, sizes))

    async def main() -> None:
        given = '{"place": {"city": "Rome"}, "at": {"x": 1}, "colour": "red", "sizes": [2]}'
        await once(paint, given, name="paint")
        assert seen == [(Place(city="Rome"), Point(1.0), Colour.RED, (2,))]

    run(main)


def test_any_name_of_a_parameter() -> None:
    """Those that pydantic's models use themselves, too."""

    def odd(
        copy: int, json: int, schema: int, model_config: int, model_fields: int, _private: int,
        model_dump: int, dict: int, self: int = 0,
    ) -> str:  # fmt: skip
        return f"{copy}{json}{schema}{model_config}{model_fields}{_private}{model_dump}{dict}{self}"

    names = [
        "copy",
        "json",
        "schema",
        "model_config",
        "model_fields",
        "_private",
        "model_dump",
        "dict",
        "self",
    ]

    async def main() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = tool(odd)
        parameters: Any = made.parameters
        assert list(parameters["properties"]) == names
        assert parameters["properties"]["copy"] == {"title": "Copy", "type": "integer"}
        given = {name: n for n, name in enumerate(names, 1)}
        agent = await once(made, json.dumps(given), name="odd")
        assert answers(agent) == {"c": "123456789"}
        agent = await once(made, "{}", name="odd")
        assert "copy: Field required" in answers(agent)["c"]

    run(main)


def test_callables_of_all_kinds() -> None:
    class Bound:
        def method(self, n: int) -> str:
            return f"method {n + 0}"

        @staticmethod
        def static(n: int) -> str:
            return f"static {n + 0}"

        def __call__(self, n: int) -> str:
            return f"object {n + 0}"

    class AsyncObject:
        async def __call__(self, n: int) -> str:
            return f"async {n + 0}"

    def partly(prefix: str, n: int) -> str:
        return f"{prefix} {n + 0}"

    async def apartly(prefix: str, n: int) -> str:
        return f"{prefix} {n + 0}"

    @functools.wraps(partly)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return "wrapped " + partly(*args, **kwargs)

    async def main() -> None:
        cases: list[tuple[Any, str, str]] = [
            (Bound().method, "method", "method 5"),
            (Bound.static, "static", "static 5"),
            (Bound(), "Bound", "object 5"),
            (AsyncObject(), "AsyncObject", "async 5"),
            (tool(name="p")(functools.partial(partly, "partial")), "p", "partial 5"),
            (tool(name="p")(functools.partial(apartly, "partial")), "p", "partial 5"),
        ]
        for handler, name, result in cases:
            # A number, as the annotation says, though it comes as text.
            agent = await once(handler, '{"n": "5"}', name=name)
            assert answers(agent) == {"c": result}
        agent = await once(wrapper, '{"prefix": "x", "n": 5}', name="partly")
        assert answers(agent) == {"c": "wrapped x 5"}

    run(main)


def test_what_is_no_tool() -> None:
    def positional(a: int, /) -> None: ...
    def variadic(*a: int) -> None: ...
    def keywords(**a: int) -> None: ...
    def opaque(a: threading.Lock) -> None: ...  # type: ignore[valid-type]
    def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for wrong, says in [
        (positional, "'a' cannot be passed by keyword"),
        (variadic, "'a' cannot be passed by keyword"),
        (keywords, "'a' cannot be passed by keyword"),
        (opaque, "tool 'opaque': "),
        (unknown, "tool 'unknown': .*Nowhere"),
    ]:
        with pytest.raises(TypeError, match=says):
            tool(wrong)  # type: ignore[arg-type]
    agent = ScriptedAgent()
    for nothing in (5, {"description": "no name"}):
        with pytest.raises(TypeError, match="a tool is a FrontendTool, a function"):
            agent.run_agent(tools=[nothing])  # type: ignore[list-item]
    for tools in (
        [get_location, get_location],
        [get_location, get_location.definition()],
        [{"name": "get_location", "description": "", "parameters": {}}, get_location],
    ):
        with pytest.raises(TypeError, match="two tools have the name 'get_location'"):
            agent.run_agent(tools=tools)


# -- the call -------------------------------------------------------------------------------


def test_context_and_consent() -> None:
    asked: list[ToolCallContext] = []

    def agree(context: ToolCallContext) -> bool:
        asked.append(context)
        return True

    async def agree_later(context: ToolCallContext) -> bool:
        await asyncio.sleep(0)
        return agree(context)

    async def decline(context: ToolCallContext) -> bool:
        return False

    def breaks(context: ToolCallContext) -> bool:
        raise ZeroDivisionError

    def pay(amount: int, context: ToolCallContext) -> str:
        assert context.arguments["amount"] == amount
        assert context.run.agent is context.agent
        return f"paid {amount} for {context.tool_call_id} of {context.name}"

    async def main() -> None:
        assert "context" not in tool(pay).parameters["properties"]
        for consent in (None, agree, agree_later):
            agent = await once(tool(consent=consent)(pay), '{"amount": 5}', name="pay")
            assert answers(agent) == {"c": "paid 5 for c of pay"}
        assert [one.arguments for one in asked] == [{"amount": 5}] * 2
        agent = await once(tool(consent=decline)(pay), '{"amount": 5}', name="pay")
        assert answers(agent) == {"c": "The user declined this tool call."}
        assert errors(agent) == {"c": None}
        agent = await once(tool(consent=breaks)(pay), '{"amount": 5}', name="pay")
        assert errors(agent) == {"c": "ZeroDivisionError: "}
        # Not asked about what cannot be called.
        asked.clear()
        agent = await once(tool(consent=agree)(pay), '{"amount": "x"}', name="pay")
        assert asked == []

    run(main)


def test_timeout() -> None:
    async def slow() -> None:
        await asyncio.sleep(3600)

    release = threading.Event()

    def blocks() -> None:
        release.wait(5)

    async def own() -> None:
        raise TimeoutError("the database")

    async def main() -> None:
        for handler in (slow, blocks):
            agent = await once(tool(name="f", timeout=0.01)(handler))
            assert errors(agent) == answers(agent) == {"c": "f took longer than 0.01 seconds."}
        release.set()
        # A timeout of the handler's own is its error.
        agent = await once(tool(name="f", timeout=60)(own))
        assert errors(agent) == {"c": "TimeoutError: the database"}

    run(main)


def test_sync_handlers_run_in_a_thread_and_several_at_a_time() -> None:
    main_thread = threading.get_ident()
    barrier = threading.Barrier(4, timeout=10)
    threads = set()

    def meet() -> str:
        threads.add(threading.get_ident())
        barrier.wait()
        return "met"

    async def main() -> None:
        script = [one for n in range(4) for one in call(str(n), "meet")]
        agent = ScriptedAgent(script, DONE)
        await agent.run_agent(tools=[meet])
        assert answers(agent) == dict.fromkeys("0123", "met")
        assert len(threads) == 4
        assert main_thread not in threads

    run(main)


def test_four_at_a_time_answered_in_the_order_of_the_calls() -> None:
    running = most = 0
    ended: list[int] = []

    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002 * (9 - n))
        running -= 1
        ended.append(n)
        return n

    async def main() -> None:
        script = [one for n in range(9) for one in call(f"c{n}", "work", f'{{"n": {n}}}')]
        agent = ScriptedAgent(script, DONE)
        await agent.run_agent(tools=[work])
        assert most == 4
        assert ended != sorted(ended)
        assert list(answers(agent).items()) == [(f"c{n}", str(n)) for n in range(9)]

    run(main)


def test_what_a_tool_returns() -> None:
    class Model(BaseModel):
        n: int

    parts = [TextPart(text="a"), TextPart(text="b")]
    cases: list[tuple[Any, Any]] = [
        ("text", "text"),
        (None, ""),
        (5, "5"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Model(n=1), '{"n":1}'),
        ([Model(n=1)], '[{"n":1}]'),
        (Point(1.0), '{"x":1.0,"y":0.0}'),
        (Colour.RED, '"red"'),
        ([], "[]"),
        (parts, parts),
        ([{"type": "text", "text": "a"}], '[{"type":"text","text":"a"}]'),
    ]

    async def main() -> None:
        for result, expected in cases:
            agent = await once(tool(name="f")(lambda: result))  # noqa: B023
            assert answers(agent) == {"c": expected}, result
            assert agent.inputs[1].messages[-1].content == expected
        # Models of the SDK that are no content parts are data.
        definition = Tool(name="t", description="d", parameters={})
        agent = await once(tool(name="f")(lambda: [definition]))
        assert json.loads(answers(agent)["c"])[0]["name"] == "t"
        # What is not JSON is an error of the tool.
        agent = await once(tool(name="f")(object))
        assert "PydanticSerializationError" in errors(agent)["c"]  # type: ignore[operator]

    run(main)


def test_fifty_megabytes() -> None:
    size = 50 * 1024 * 1024

    async def main() -> None:
        agent = await once(tool(name="f")(lambda: "x" * size))
        assert len(answers(agent)["c"]) == size

    run(main)


def test_a_text_that_no_wire_can_carry(caplog: pytest.LogCaptureFixture) -> None:
    """As in the name of a file that is not UTF-8."""
    # Nor can pytest-xdist carry it, in what is logged.
    caplog.set_level(logging.CRITICAL, "agui_codec.client")

    def breaks() -> str:
        raise OSError("no such file: \udce9")

    async def main() -> None:
        for handler in (breaks, lambda: "name: \udce9", lambda: {"name": "\udce9"}):
            agent = await once(tool(name="f")(handler))
            assert r"\udce9" in answers(agent)["c"] or "UnicodeEncodeError" in answers(agent)["c"]
            agent.inputs[1].model_dump_json()

    run(main)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 cannot tell who was cancelled")
def test_a_tool_that_is_cancelled_by_itself() -> None:
    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.sleep(3600))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    async def main() -> None:
        for count in (1, 2):
            script = [one for n in range(count) for one in call(f"c{n}", "inner")]
            agent = ScriptedAgent(script, DONE)
            result = await agent.run_agent(tools=[inner])
            assert result.status == "success"
            assert set(errors(agent).values()) == {"CancelledError: "}

    run(main)


@pytest.mark.parametrize("how", ["cancel", "abort", "detach"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_run_ends_while_a_tool_runs(how: str, count: int) -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        script = [one for n in range(count) for one in call(f"c{n}", "slow")]
        agent = ScriptedAgent(script, DONE)
        one = agent.run_agent(tools=[slow])
        task = asyncio.ensure_future(one.result())
        await asyncio.sleep(0.01)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "abort":
            one.abort()
            assert (await task).status == "aborted"
        else:
            await one.detach()
            assert (await task).status == "detached"
        assert ended == ["cancelled"] * count
        assert agent.active_run is None
        assert asyncio.all_tasks() == {asyncio.current_task()}
        # Unanswered they are, still.
        assert len(agent.pending_tool_calls) == count
        with pytest.raises(PendingToolCallsError):
            await agent.run_agent()

    run(main)


def test_on_trio() -> None:
    pytest.importorskip("trio")

    async def nap(n: int) -> int:
        await anyio.sleep(0)
        return n

    async def slow() -> None:
        await anyio.sleep(3600)

    async def main() -> None:
        script = [*call("a", "nap", '{"n": 1}'), *call("b", "slow")]
        agent = ScriptedAgent(script, DONE)
        await agent.run_agent(tools=[nap, tool(timeout=0.01)(slow)])
        assert answers(agent) == {"a": "1", "b": "slow took longer than 0.01 seconds."}

    anyio.run(main, backend="trio")


# -- rounds ---------------------------------------------------------------------------------


class Rounds(AgentSubscriber):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_run_initialized(self, call: Call) -> None:
        self.calls.append("initialized")

    def on_run_finalized(self, call: Call) -> None:
        self.calls.append("finalized")

    def on_run_failed(self, call: Call) -> None:
        self.calls.append("failed")

    def on_new_message(self, call: Call) -> None:
        assert call.message is not None
        self.calls.append(call.message.role)


def test_rounds_are_runs() -> None:
    async def main() -> None:
        rounds = Rounds()
        agent = ScriptedAgent(call("a", "get_location"), call("b", "get_location"), DONE)
        agent.subscribe(rounds)
        one = agent.run_agent("Hi", tools=[get_location])
        result = await one
        assert one.rounds == 3
        assert result.run_ids == [given.run_id for given in agent.inputs]
        assert [message.role for message in result.new_messages] == [
            "assistant", "tool", "assistant", "tool", "assistant",
        ]  # fmt: skip
        assert rounds.calls == [
            "user", *["initialized", "finalized", "tool"] * 2, "initialized", "assistant",
            "finalized",
        ]  # fmt: skip

    run(main)


def test_max_rounds() -> None:
    async def main() -> None:
        for most in (1, 2, 8):
            rounds = Rounds()
            agent = ScriptedAgent(*(call(f"c{n}", "get_location") for n in range(9)))
            agent.subscribe(rounds)
            with pytest.raises(
                ToolRoundsError, match=f"still calls tools after {most} round"
            ) as caught:
                await agent.run_agent(tools=[get_location], max_rounds=most)
            assert len(agent.inputs) == most
            result = caught.value.result
            assert len(result.run_ids) == most
            assert result.status == "success"
            # The last calls have been answered: the next run can go on.
            assert result.pending_tool_calls == []
            assert rounds.calls.count("finalized") == most
            assert agent.active_run is None

    run(main)


def test_calls_without_a_handler_are_left_to_the_application() -> None:
    async def main() -> None:
        ask = FrontendTool(name="ask", description="Asks the user.")
        script = [*call("a", "get_location"), *call("b", "ask"), *call("d", "ask")]
        agent = ScriptedAgent(script, DONE)
        result = await agent.run_agent(tools=[get_location, ask])
        assert result.status == "success"
        assert [one.id for one in result.pending_tool_calls] == ["b", "d"]
        # Those that have one are executed all the same.
        assert answers(agent) == {"a": "Lisbon"}
        with pytest.raises(PendingToolCallsError, match="'b', 'd'") as caught:
            await agent.run_agent()
        assert caught.value.tool_call_ids == ["b", "d"]
        assert len(agent.inputs) == 1
        await agent.add_tool_result("b", "yes")
        await agent.add_tool_result("d", [TextPart(text="no")], error="broken", message_id="m1")
        assert agent.pending_tool_calls == []
        assert (await agent.run_agent(tools=[get_location, ask])).text == "Done."
        message = agent.inputs[1].messages[-1]
        assert (message.id, message.content) == ("m1", [TextPart(text="no")])
        with pytest.raises(TypeError, match="has no handler"):
            ask()

    run(main)


@pytest.mark.parametrize("as_dict", [False, True])
def test_calls_of_tools_that_nobody_advertised_are_only_reported(as_dict: bool) -> None:
    async def main() -> None:
        script = [*call("a", "backend"), *call("b", "get_location")]
        agent = ScriptedAgent(script, DONE, as_dict=as_dict)
        result = await agent.run_agent(tools=[get_location])
        assert len(result.pending_tool_calls) == 1
        # It was not answered, so there is no other round by itself; but there may be one.
        assert len(agent.inputs) == 1
        assert (await agent.run_agent()).text == "Done."

    run(main)


def test_no_call_before_its_run_has_finished() -> None:
    order: list[str] = []

    def note() -> None:
        order.append("tool")

    async def main() -> None:
        agent = ScriptedAgent([*call("a", "note"), *DONE], DONE)
        async for got in agent.run_agent(tools=[note]):
            order.append(got.type)
        assert order.index("tool") == order.index("RUN_FINISHED") + 1
        # Nor if it ends in another way.
        for last in (
            event("RUN_ERROR", message="x"),
            {"outcome": {"type": "cancelled"}},
            {"outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}},
        ):
            order.clear()

            def ends(input: RunAgentInput, last: Event = last) -> list[Any]:
                ids = {"threadId": input.thread_id, "runId": input.run_id}
                finish = last if "type" in last else event("RUN_FINISHED", **ids, **last)
                return [*call("a", "note"), finish]

            agent = ScriptedAgent(ends)
            await agent.run_agent(tools=[note]).until_done()
            assert order == []

    run(main)


def test_follow_up() -> None:
    shown: list[str] = []

    @tool(follow_up=False)
    def show(text: str) -> None:
        shown.append(text)

    async def main() -> None:
        agent = ScriptedAgent(call("a", "show", '{"text": "hi"}'), DONE)
        result = await agent.run_agent(tools=[show])
        assert shown == ["hi"]
        assert result.pending_tool_calls == []
        assert len(agent.inputs) == 1
        await agent.run_agent(tools=[show])
        # Any tool that wants one is enough.
        agent = ScriptedAgent(
            [*call("a", "show", '{"text": ""}'), *call("b", "get_location")], DONE
        )
        await agent.run_agent(tools=[show, get_location])
        assert len(agent.inputs) == 2

    run(main)


def test_definitions_alone() -> None:
    async def main() -> None:
        given: list[Any] = [
            Tool(name="a", description="", parameters={}),
            {"name": "b", "description": "", "parameters": {"type": "object"}},
        ]
        agent = ScriptedAgent(call("c", "b"))
        result = await agent.run_agent(tools=given)
        assert [one.name for one in agent.inputs[0].tools] == ["a", "b"]
        assert [one.function.name for one in result.pending_tool_calls] == ["b"]

    run(main)


def test_a_handler_of_a_tool_with_a_schema_of_its_own() -> None:
    def handler(**arguments: Any) -> str:
        return json.dumps(arguments)

    async def main() -> None:
        made = FrontendTool(name="f", parameters={"type": "object"}, handler=handler)
        agent = await once(made, '{"a": 1, "b": [2]}')
        assert answers(agent) == {"c": '{"a": 1, "b": [2]}'}
        assert made(x=1) == '{"x": 1}'

    run(main)
