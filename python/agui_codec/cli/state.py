"""The commands of ``agui-codec`` about what streams add up to: compact, replay, diff."""

from __future__ import annotations

import io
import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from agui_codec._native import (
    AGUIError,
    ChunkExpander,
    Compactor,
    EventReducer,
    EventVerifier,
    create_patch,
    to_json,
)
from agui_codec.cli.reading import Events, at, source_option, text_option
from agui_codec.decoder import EventDecoder
from agui_codec.encoder import EventEncoder
from agui_codec.stream import through

if TYPE_CHECKING:
    from collections.abc import Iterator


def _expanded(file: BinaryIO, source: str | None, until: int | None) -> Iterator[dict[str, Any]]:
    """The first events of a stream, their chunks expanded."""
    events = Events(file, source)
    try:
        yield from through(islice(events, until), ChunkExpander())
    except AGUIError as error:
        raise at(events.line, error) from None


@click.command()
@click.argument("file", type=click.File("rb"))
@source_option
@text_option("jsonl")
@click.option("--reasoning", is_flag=True, help="Collapse reasoning as well.")
def compact(file: BinaryIO, source: str | None, target: str, reasoning: bool) -> None:
    """Write the events of FILE (- for stdin) compacted.

    Chunks are expanded, the deltas of a message and the arguments of a call become one event,
    the state events of a run one snapshot. The result adds up to the same messages and state.
    What is final is written at once.
    """
    compactor = Compactor(reasoning=reasoning)
    frame = EventEncoder().encode_binary if target == "sse" else _line
    out = sys.stdout.buffer
    try:
        for event in _expanded(file, source, None):
            for result in compactor.feed(event):
                out.write(frame(result))
            out.flush()
        for result in compactor.close():
            out.write(frame(result))
    except AGUIError as error:
        raise click.ClickException(str(error)) from None


@click.command()
@click.argument("file", type=click.File("rb"))
@source_option
@click.option("--until", type=click.IntRange(0), help="Replay so many events and no more.")
@click.option("--state", "only_state", is_flag=True, help="Write the state alone.")
@click.option("--messages", "only_messages", is_flag=True, help="Write the messages alone.")
def replay(
    file: BinaryIO,
    source: str | None,
    until: int | None,
    only_state: bool,
    only_messages: bool,
) -> None:
    """Write what the events of FILE (- for stdin) add up to, as JSON.

    Without options: messages, state, and what is pending. What the protocol says to tolerate
    is reported on stderr.
    """
    reducer = _reduced(_expanded(file, source, until))
    if only_state and not only_messages:
        result = reducer.state
    elif only_messages and not only_state:
        result = reducer.messages
    else:
        result = _result(reducer)
        if only_state:
            result = {key: result[key] for key in ("messages", "state")}
    _print(result)


@click.command()
@click.argument("before", type=click.File("rb"))
@click.argument("after", type=click.File("rb"))
def diff(before: BinaryIO, after: BinaryIO) -> None:
    """Write the JSON Patch that turns BEFORE into AFTER.

    Each is a JSON document, or a stream of events, which stands for the messages and the state
    that it adds up to. Ends with status 1 if they differ, as diff does.
    """
    documents = [_document(file) for file in (before, after)]
    try:
        patch = create_patch(*documents)
    except AGUIError as error:
        raise click.ClickException(str(error)) from None
    _print(patch)
    if patch:
        sys.exit(1)


def _document(file: BinaryIO) -> Any:
    data = file.read()
    try:
        return json.loads(data)
    except ValueError:
        reducer = _reduced(_expanded(io.BytesIO(data), None, None))
        return {"messages": reducer.messages, "state": reducer.state}


def _reduced(events: Iterator[dict[str, Any]]) -> EventReducer:
    reducer = EventReducer(as_dict=True, on_deviation=lambda one: click.echo(str(one), err=True))
    try:
        return reducer.apply_all(events)
    except AGUIError as error:
        raise click.ClickException(str(error)) from None


def _result(reducer: EventReducer) -> dict[str, Any]:
    return {
        "threadId": reducer.thread_id,
        "runId": reducer.run_id,
        "messages": reducer.messages,
        "state": reducer.state,
        "pendingInterrupts": reducer.pending_interrupts,
        "pendingToolCalls": reducer.pending_tool_calls,
    }


def _line(event: dict[str, Any]) -> bytes:
    return to_json(event) + b"\n"


def _print(value: Any) -> None:
    try:
        data = json.dumps(value, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8, but it has an escape.
        data = json.dumps(value, indent=2).encode()
    sys.stdout.buffer.write(data + b"\n")


def rebuilt(events: list[Any], content_type: str) -> EventReducer:
    """What the bytes of events add up to, as who receives them in small pieces knows it."""
    data = EventEncoder(content_type).encode_many(events)
    pieces = (data[at : at + 64] for at in range(0, len(data), 64))
    decoded = through(pieces, EventDecoder(content_type), ChunkExpander(), EventVerifier())
    return EventReducer().apply_all(decoded)
