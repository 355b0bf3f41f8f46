"""What the command line shows: a run of an agent, documents to measure, and the clock for them.

The documents are also the core of ``benches/``, which adds more of them and a report.
"""

import json
import os
import platform
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from typing import Any

from ag_ui import core
from ag_ui.encoder import EventEncoder as OfficialEncoder

from agui_codec import EventEncoder

OFFICIAL = "ag_ui.encoder"
MODEL = "agui_codec, model to str"
DICT = "agui_codec, dict to bytes"
JSON = "json.dumps + framing"
ORJSON = "orjson + framing"


def run() -> list[core.BaseEvent]:
    """A whole run: reasoning, a text, a tool call with its result, state, and the answer."""
    patch = [{"op": "replace", "path": "/weather", "value": {"celsius": 18.5, "sky": "clear"}}]
    return [
        core.RunStartedEvent(thread_id="thread-1", run_id="run-1"),
        core.ReasoningStartEvent(message_id="r1"),
        core.ReasoningMessageStartEvent(message_id="r1"),
        core.ReasoningMessageContentEvent(message_id="r1", delta="Weather: "),
        core.ReasoningMessageContentEvent(message_id="r1", delta="call the tool."),
        core.ReasoningMessageEndEvent(message_id="r1"),
        core.ReasoningEndEvent(message_id="r1"),
        core.TextMessageStartEvent(message_id="m1", role="assistant"),
        core.TextMessageContentEvent(message_id="m1", delta="Let me "),
        core.TextMessageContentEvent(message_id="m1", delta="look."),
        core.TextMessageEndEvent(message_id="m1"),
        core.StateSnapshotEvent(snapshot={"city": "Zürich", "weather": None}),
        core.ToolCallStartEvent(
            tool_call_id="c1", tool_call_name="weather", parent_message_id="m1"
        ),
        core.ToolCallArgsEvent(tool_call_id="c1", delta='{"city": '),
        core.ToolCallArgsEvent(tool_call_id="c1", delta='"Zürich"}'),
        core.ToolCallEndEvent(tool_call_id="c1"),
        core.ToolCallResultEvent(
            message_id="m2", tool_call_id="c1", content='{"celsius": 18.5, "sky": "clear"}'
        ),
        core.StateDeltaEvent.model_validate({"delta": patch}),
        core.TextMessageStartEvent(message_id="m3", role="assistant"),
        core.TextMessageContentEvent(message_id="m3", delta="Clear sky "),
        core.TextMessageContentEvent(message_id="m3", delta="over Zürich."),
        core.TextMessageEndEvent(message_id="m3"),
        core.RunFinishedEvent(thread_id="thread-1", run_id="run-1"),
    ]


def wire_dict(event: core.BaseEvent) -> dict[str, Any]:
    """The event as the dict that a server would write: its keys and its type are interned."""

    def interned(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {sys.intern(key): value for key, value in pairs}

    text = event.model_dump_json(by_alias=True)
    wire: dict[str, Any] = json.loads(text, object_pairs_hook=interned)
    return wire | {"type": sys.intern(wire["type"])}


# --- documents -----------------------------------------------------------------------------


def same_bytes(result: str | bytes, official: str | bytes) -> bool:
    """Whether two frames are the same bytes."""
    pair = [frame.encode() if isinstance(frame, str) else frame for frame in (result, official)]
    return pair[0] == pair[1]


def same_json(result: str | bytes, official: str | bytes) -> bool:
    """Whether two frames are both framed as one event and carry equal JSON."""
    pair = [frame.encode() if isinstance(frame, str) else frame for frame in (result, official)]
    framed = all(frame.startswith(b"data: ") and frame.endswith(b"\n\n") for frame in pair)
    return framed and json.loads(pair[0][6:]) == json.loads(pair[1][6:])


@dataclass(frozen=True)
class Contender:
    """One way of doing a document's work.

    Args:
        name: As the tables show it.
        results: Does the work, item by item, as the body of a streaming response would.
        agrees: Whether a result is as good as the first contender's.
        seconds: For work in another process: does it once, and returns the seconds that an item
            took there.
    """

    name: str
    results: Callable[[], Iterator[Any]]
    agrees: Callable[[Any, Any], bool] = same_bytes
    seconds: Callable[[], float] | None = None


@dataclass(frozen=True)
class Document:
    """Work that several contenders do. The first is the reference: what it makes is right.

    Args:
        name: As the tables show it.
        count: The number of items; times are per item.
        contenders: Those that do it, the reference first.
    """

    name: str
    count: int
    contenders: Sequence[Contender]

    def check(self, contender: Contender) -> None:
        """Raise AssertionError if the contender's results are not those of the reference."""
        expected = list(self.contenders[0].results())
        results = list(contender.results())
        if len(results) != len(expected) or len(results) != self.count:
            raise AssertionError(f"{self.name}, {contender.name}: {len(results)} results")
        for index, pair in enumerate(zip(results, expected, strict=True)):
            if not contender.agrees(*pair):
                raise AssertionError(f"{self.name}, {contender.name}: result {index} differs")


def orjson_dumps() -> Callable[[Any], bytes] | None:
    """``orjson.dumps``, if orjson is installed."""
    try:
        dumps: Callable[[Any], bytes] = import_module("orjson").dumps
    except ModuleNotFoundError:
        return None
    return dumps


def encoding(
    name: str,
    events: Sequence[core.BaseEvent],
    wire: Sequence[dict[str, Any]] | None = None,
) -> Document:
    """The document that has these events to be encoded, one after the other.

    Args:
        name: As the tables show it.
        events: The events as models.
        wire: The same events as dicts; made from the models if not given.
    """
    wire = wire or [wire_dict(event) for event in events]
    encoder = EventEncoder()

    # The framing stands where the call is: a server would not pay for a function around it.
    def each(encode: Callable[[Any], str | bytes], items: Sequence[Any]) -> Iterator[str | bytes]:
        for item in items:
            yield encode(item)

    def with_json() -> Iterator[str]:
        dumps = json.dumps
        for item in wire:
            yield "data: " + dumps(item) + "\n\n"

    contenders = [
        Contender(OFFICIAL, lambda: each(OfficialEncoder().encode, events)),
        Contender(MODEL, lambda: each(encoder.encode, events)),
        Contender(DICT, lambda: each(encoder.encode_binary, wire)),
        Contender(JSON, with_json, same_json),
    ]
    if dumps := orjson_dumps():

        def with_orjson() -> Iterator[bytes]:
            for item in wire:
                yield b"data: " + dumps(item) + b"\n\n"

        contenders.append(Contender(ORJSON, with_orjson, same_json))
    return Document(name, len(events), contenders)


MESSAGE_ID = "209a5510-6881-449d-99eb-c376e9b00666"
ANSWER = "The forecast for the city is a clear sky with light wind from the west. "


def tokens() -> list[str]:
    """An answer of 200 tokens."""
    return [word + " " for word in (ANSWER * 14).split()[:200]]


def text_deltas() -> list[core.BaseEvent]:
    """An answer, token by token."""
    return [core.TextMessageContentEvent(message_id=MESSAGE_ID, delta=it) for it in tokens()]


def messages_snapshot() -> core.BaseEvent:
    """A conversation of 100 messages with tool calls, about 29 kB."""
    messages: list[Any] = []
    for turn in range(25):
        text = f"Turn {turn}: how does the weather in Zürich compare with the week before?"
        answer = (
            f"It is {turn} degrees warmer than a week ago.\n\nThe sky is clear, and the wind "
            'comes from the west at about "two Beaufort", so take a light jacket. Tomorrow will '
            "be much the same, with a few clouds in the afternoon and no rain before the evening; "
            "the lake has twenty degrees.\n\n- **Today**: 18 degrees in the morning, 24 at noon, "
            "clear\n- **Tomorrow**: 17 degrees in the morning, 23 at noon, some clouds\n"
            "- **After that**: rain from the north, 14 degrees, and snow above 2,500 metres. "
            "The mountain railways publish their hours every evening at six; the passes stay open "
            "until further notice, and the boats on the lake keep to the timetable of summer.\n\n"
            "Shall I look up a train?"
        )
        result = json.dumps({"celsius": 18.5 + turn, "sky": "clear", "wind": {"from": "W"}})
        call = core.FunctionCall(name="weather", arguments='{"city": "Zürich", "days": 7}')
        calls = [core.ToolCall(id=f"call-{turn}", function=call)]
        messages += [
            core.UserMessage(id=f"user-{turn}", content=text),
            core.AssistantMessage(id=f"assistant-{turn}", tool_calls=calls),
            core.ToolMessage(id=f"tool-{turn}", tool_call_id=f"call-{turn}", content=result),
            core.AssistantMessage(id=f"answer-{turn}", content=answer),
        ]
    return core.MessagesSnapshotEvent(messages=messages)


def state_snapshot() -> core.BaseEvent:
    """A state of 200 records, each of numbers, texts, a list and an object."""
    records = [
        {
            "id": index,
            "name": f"Record {index}",
            "score": index * 1.25 + 0.1,
            "active": index % 3 == 0,
            "note": None,
            "tags": ["weather", "zürich", f"day-{index % 7}"],
            "position": {"lat": 47.3769 + index / 1000, "lon": 8.5417 - index / 1000},
        }
        for index in range(200)
    ]
    return core.StateSnapshotEvent(snapshot={"records": records, "cursor": 200})


def documents() -> list[Document]:
    """The documents of ``agui-codec demo`` and ``agui-codec bench``."""
    return [
        encoding("text delta", text_deltas()),
        encoding("MESSAGES_SNAPSHOT, 100 messages", [messages_snapshot()]),
        encoding("STATE_SNAPSHOT, 200 records", [state_snapshot()]),
    ]


# --- the clock -----------------------------------------------------------------------------


def exhaust(results: Callable[[], Iterator[Any]]) -> None:
    """Do the work and let go of each result at once."""
    deque(results(), maxlen=0)


@dataclass(frozen=True)
class Measurement:
    """Seconds per item, by contender: one sample a round, all contenders in every round."""

    samples: dict[str, list[float]]

    def seconds(self, name: str) -> float:
        """The contender's median time for one item."""
        return median(self.samples[name])

    def ratio(self, name: str, other: str) -> float:
        """How many times the other's time the contender takes: the median over the rounds."""
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return median(mine / theirs for mine, theirs in pairs)


def measure(document: Document, rounds: int = 25, sample_seconds: float = 0.001) -> Measurement:
    """Time the contenders of a document in turn, round by round.

    What disturbs the machine for a while disturbs all of them, and the clock is that of the
    process, which stands while others have the processor: so the ratios hold when the times do not.
    """
    # Where the process's own clock is too coarse (Windows), the wall's has to do.
    fine = time.get_clock_info("process_time").resolution < sample_seconds / 100
    clock = time.process_time if fine else time.perf_counter

    def seconds(contender: Contender, passes: int) -> float:
        if contender.seconds:
            return contender.seconds()
        start = clock()
        for _ in range(passes):
            exhaust(contender.results)
        return (clock() - start) / passes / document.count

    passes = {}
    for contender in document.contenders:
        once = min(seconds(contender, 1) for _ in range(2)) * document.count
        passes[contender.name] = max(1, round(sample_seconds / max(once, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in passes}
    for index in range(rounds):
        # Now the one comes after the other, now before it.
        for contender in document.contenders[:: 1 if index % 2 else -1]:
            samples[contender.name].append(seconds(contender, passes[contender.name]))
    return Measurement(samples)


def duration(seconds: float) -> str:
    """A time in the unit that suits it, to three figures."""
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def build() -> str:
    """Whether the interpreter was built with profile-guided optimisation, where it says so."""
    options = sysconfig.get_config_var("CONFIG_ARGS")
    if not options:
        return ""
    return f" (built {'with' if '--enable-optimizations' in options else 'without'} PGO)"


def machine() -> str:
    """The machine and the versions that figures depend on, in one line."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    versions = []
    for package in ("agui-codec", "ag-ui-protocol", "pydantic", "orjson"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    python = f"{platform.python_implementation()} {platform.python_version()}{build()}"
    return f"{cpu}, {os.cpu_count()} cores, {sys.platform}; {python}; {', '.join(versions)}"
