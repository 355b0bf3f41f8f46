"""The streams of the conformance corpus, through an agent, as events and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from ag_ui.core import RunAgentInput

from agui_codec import AGUI_MEDIA_TYPE, AGUIError, Deviation, EncodeError
from agui_codec.client import AbstractAgent, HttpAgent, RunFailedError, TruncatedRunError
from agui_codec.client.testing import ScriptedAgent
from conftest import corpus_files
from streams import binary, covers, models, sse, wire
from test_conformance_streams import (
    NOT_BINARY,
    check_events,
    check_request,
    check_warnings,
    said,
)

STREAMS = corpus_files("conformance/streams/*.json")


async def check(case: Any, agent: Any, seen: list[Deviation], request: Any) -> None:
    """Run the agent, and compare all that the corpus expects."""
    expect = case["expect"]
    delivered: list[Any] = []
    error = None
    run = agent.run_agent(resume=case.get("input", {}).get("resume"))
    try:
        async with run:
            async for event in run:
                delivered.append(event)
                assert isinstance(event, dict) == agent.as_dict
    except AGUIError as failure:
        error = failure
    assert not agent.is_running
    assert ("completed" if error is None else "failed") == expect["outcome"], error
    if "errorContains" in expect:
        assert said(expect["errorContains"], [str(error), str(error.__cause__)])
    events = wire(delivered)
    kinds = [event["type"] for event in events]
    if "runError" in expect:
        assert expect["runError"] in [event.get("message") for event in events]
    check_events(expect, events)
    messages = wire(agent.messages)
    assert len(messages) == expect.get("messageCount", len(messages))
    assert covers(messages, expect.get("messages", messages)), messages
    if "state" in expect:
        assert covers(agent.state, expect["state"])
    check_request(expect, request())
    check_warnings(expect, seen)
    result = run.snapshot
    if error is not None:
        truncated = "ended without a terminal event" in str(error)
        assert isinstance(error, TruncatedRunError) == truncated
        assert result.status == ("truncated" if truncated else "error")
    elif kinds[-1] == "RUN_ERROR":
        assert result.status == "error"
        with pytest.raises(RunFailedError, match=events[-1]["message"]):
            result.raise_for_status()
    else:
        outcome = (events[-1].get("outcome") or {}).get("type", "success")
        assert result.status == outcome
        assert result.raise_for_status() is result


def options(case: Any, seen: list[Deviation]) -> dict[str, Any]:
    given = case.get("input", {})
    threads = [event["threadId"] for event in case["stream"] if "threadId" in event]
    return {
        "thread_id": given.get("threadId", threads[0] if threads else None),
        "messages": given.get("messages", ()),
        "state": given.get("state"),
        "peer_version": case.get("client", {}).get("maxProtocolVersion"),
        "on_deviation": seen.append,
    }


@pytest.mark.parametrize("as_dict", [True, False], ids=["dicts", "models"])
@pytest.mark.parametrize("path", STREAMS)
def test_as_events(path: Path, as_dict: bool) -> None:
    case = json.loads(path.read_text("utf-8"))
    seen: list[Deviation] = []
    sent: list[Any] = []

    class Replay(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            sent.append(json.loads(input.model_dump_json(by_alias=True)))
            for event in case["stream"]:
                yield event

    agent = Replay(as_dict=as_dict, **options(case, seen))

    asyncio.run(check(case, agent, seen, lambda: sent[0]))


@pytest.mark.parametrize("module", [httpx, httpx2])
@pytest.mark.parametrize("wire_format", ["sse", "protobuf"])
@pytest.mark.parametrize("path", STREAMS)
def test_over_http(path: Path, wire_format: Any, module: Any) -> None:
    case = json.loads(path.read_text("utf-8"))
    seen: list[Deviation] = []
    sent: list[Any] = []
    if wire_format == "protobuf":
        try:
            body, content_type = binary(case["stream"]), AGUI_MEDIA_TYPE
        except EncodeError:
            assert path.stem in NOT_BINARY
            return
        if path.stem in NOT_BINARY:
            return
    else:
        body, content_type = sse(case["stream"]), "text/event-stream; charset=utf-8"

    def answer(request: Any) -> Any:
        sent.append(json.loads(request.content))
        assert request.headers["accept"].startswith(
            "text/event-stream" if wire_format == "sse" else AGUI_MEDIA_TYPE
        )
        return module.Response(200, headers={"content-type": content_type}, content=body)

    async def main() -> None:
        async with module.AsyncClient(transport=module.MockTransport(answer)) as client:
            agent = HttpAgent(
                "http://agent/", client=client, wire=wire_format, **options(case, seen)
            )
            await check(case, agent, seen, lambda: sent[0])

    asyncio.run(main())


def test_models_in_dicts_out() -> None:
    stream = models([{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}])
    agent = ScriptedAgent(stream, as_dict=True)

    async def main() -> None:
        async with agent.run_agent() as run:
            events: list[Any] = [event async for event in run]
        assert [type(event) for event in events] == [dict] * 5
        assert run.snapshot.text == "Hi"

    asyncio.run(main())
