"""The commands that add a stream up: compact, replay, diff."""

from __future__ import annotations

import io
import json
import sys
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import click

from agui_codec import AGUIError
from agui_codec._native import ChunkExpander, Compactor, EventReducer, EventVerifier, create_patch
from agui_codec.cli.convert import target_option, writer
from agui_codec.cli.reading import Events, allow_done_option, plain, reading, source_option
from agui_codec.decoder import EventDecoder
from agui_codec.encoder import EventEncoder
from agui_codec.stream import through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agui_codec import Deviation


@click.command(short_help="Write fewer events that add up to the same.")
@reading
@target_option("Output format. By default jsonl.")
@click.option("--reasoning", is_flag=True, help="Collapse reasoning, too.")
def compact(
    file: IO[bytes], source: str | None, allow_done: bool, target: str | None, reasoning: bool
) -> None:
    """Write the events of FILE (- for stdin) compacted.

    Chunks are expanded. The deltas of a message become one event, as do the arguments of a tool
    call; the state events of a run become one snapshot. The result adds up to the same messages
    and state. Each event is written as soon as it is final.
    """
    compactor = Compactor(reasoning=reasoning)
    out = sys.stdout.buffer
    write = writer(out, target or "jsonl", full=False, live=False)
    events = Events(file, source, allow_done, progress=not sys.stdout.isatty())
    with events.reporting():
        for event in _expanded(events):
            for result in compactor.feed(event):
                write(result)
            out.flush()
        for result in compactor.close():
            write(result)


@click.command(short_help="Write the messages and the state that events add up to.")
@reading
@click.option("--until", type=click.IntRange(0), help="Replay only this many events.")
@click.option("--state", "only_state", is_flag=True, help="Write only the state.")
@click.option("--messages", "only_messages", is_flag=True, help="Write only the messages.")
def replay(
    file: IO[bytes],
    source: str | None,
    allow_done: bool,
    until: int | None,
    only_state: bool,
    only_messages: bool,
) -> None:
    """Write what the events of FILE (- for stdin) add up to, as JSON.

    By default: the messages, the state, and the pending interrupts and tool calls. Deviations that
    the protocol tolerates are reported on stderr.
    """
    reducer = _reduced(Events(file, source, allow_done, progress=True), until)
    if only_state and not only_messages:
        result = reducer.state
    elif only_messages and not only_state:
        result = reducer.messages
    else:
        result = _result(reducer)
        if only_state:
            result = {key: result[key] for key in ("messages", "state")}
    _print(result)


@click.command(short_help="Write the JSON Patch between two documents or streams.")
@click.argument("before", type=click.File("rb"))
@click.argument("after", type=click.File("rb"), metavar="[AFTER]", default="-")
@source_option
@allow_done_option
def diff(before: IO[bytes], after: IO[bytes], source: str | None, allow_done: bool) -> None:
    """Write the JSON Patch that turns BEFORE into AFTER (- for stdin).

    Each is a JSON document, or a stream of events, which stands for the messages and the state
    that it adds up to. A JSON array is a document; with --from json it is a stream. Exits with
    status 1 if they differ, like diff.
    """
    files = (before, after)
    if all(_name(file) == "stdin" for file in files):
        raise click.UsageError("BEFORE and AFTER cannot both be stdin")
    documents = [_document(file, source, allow_done) for file in files]
    try:
        patch = create_patch(*documents)
    except AGUIError as error:
        names = " and ".join(map(_name, files))
        raise click.ClickException(plain(f"{names}: {error}")) from None
    _print(patch)
    if patch:
        click.get_current_context().exit(1)


def _name(file: IO[bytes]) -> str:
    return Events(file).name


def _document(file: IO[bytes], source: str | None, allow_done: bool) -> Any:
    data = file.read()
    if source is None:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            # Not a document, so a stream.
            pass
    events = Events(io.BytesIO(data), source, allow_done)
    events.name = _name(file)
    reducer = _reduced(events)
    return {"messages": reducer.messages, "state": reducer.state}


def _expanded(events: Events, until: int | None = None) -> Iterator[dict[str, Any]]:
    """The first events of a stream, their chunks expanded."""
    return through(islice(events, until), ChunkExpander())


def _reduced(events: Events, until: int | None = None) -> EventReducer:
    def report(deviation: Deviation) -> None:
        click.echo(events.where(deviation), err=True)

    reducer = EventReducer(as_dict=True, on_deviation=report)
    with events.reporting():
        reducer.apply_all(_expanded(events, until))
    return reducer


def _result(reducer: EventReducer) -> dict[str, Any]:
    return {
        "threadId": reducer.thread_id,
        "runId": reducer.run_id,
        "messages": reducer.messages,
        "state": reducer.state,
        "pendingInterrupts": reducer.pending_interrupts,
        "pendingToolCalls": reducer.pending_tool_calls,
    }


def _print(value: Any) -> None:
    try:
        data = json.dumps(value, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded as UTF-8, but it can be escaped.
        data = json.dumps(value, indent=2).encode()
    sys.stdout.buffer.write(data + b"\n")


def rebuilt(events: list[Any], content_type: str) -> EventReducer:
    """What a client adds events up to that receives them in small pieces."""
    data = EventEncoder(content_type).encode_many(events)
    pieces = (data[at : at + 64] for at in range(0, len(data), 64))
    decoded = through(pieces, EventDecoder(content_type), ChunkExpander(), EventVerifier())
    return EventReducer().apply_all(decoded)
