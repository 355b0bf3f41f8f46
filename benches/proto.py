"""Protobuf, against Google's runtime for Python and the TypeScript package; and making events.

Google's runtime (upb, in C) gives messages, not events: its times hold what a program has to write
around it. For a text delta that is the fields one by one, both ways, for a payload its
``json_format``, which is the only way that it has between ``google.protobuf.Value`` and Python. The
TypeScript package works in a Node process of its own and times itself; what goes between the two
processes is not in its time.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from ag_ui import core
from ag_ui.encoder import EventEncoder as OfficialEncoder

from agui_codec import AGUI_MEDIA_TYPE, EventEncoder, _demo, make_event, proto, to_json
from agui_codec._demo import Contender, Document
from benches import suite, upb
from benches.suite import Absent, Budget, Sizes, ask_node, node_missing

FLOOR = None

OURS = "agui-codec"
DICTS = "agui-codec, dicts"
MODELS = "agui-codec, models"
GOOGLE = "protobuf (upb)"
IN_PLACE = "protobuf (upb), set in place"
TYPESCRIPT = "@ag-ui/proto (Node)"

DELTA = "text delta"
STATE = "STATE_SNAPSHOT, 200 records"
READINGS = "STATE_SNAPSHOT, 200 records of readings"
MAKE = "make a text delta"
MAKE_ENCODE = "make a text delta + encode"


def named(work: str, document: str, peer: str) -> str:
    """The name of a document: one for each peer, since ratios are to the one that comes first."""
    return f"protobuf {work}, {document}, and {peer}"


BUDGETS = {
    (named("encode", DELTA, "upb"), MODELS): Budget(faster=10),
    (named("encode", DELTA, "TypeScript"), MODELS): Budget(faster=15),
    (named("decode", DELTA, "upb"), DICTS): Budget(faster=4),
    (named("decode", DELTA, "upb"), MODELS): Budget(faster=1),
    (named("decode", DELTA, "TypeScript"), DICTS): Budget(faster=10),
    (named("encode", STATE, "json_format"), MODELS): Budget(faster=100),
    (named("encode", STATE, "TypeScript"), MODELS): Budget(faster=6),
    (named("decode", STATE, "json_format"), DICTS): Budget(faster=60),
    (named("decode", STATE, "TypeScript"), DICTS): Budget(faster=40),
    (named("encode", READINGS, "json_format"), MODELS): Budget(faster=100),
    (named("encode", READINGS, "TypeScript"), MODELS): Budget(faster=6),
    (named("decode", READINGS, "json_format"), DICTS): Budget(faster=60),
    (named("decode", READINGS, "TypeScript"), DICTS): Budget(faster=40),
    (MAKE, OURS): Budget(faster=3.5),
    (MAKE_ENCODE, OURS): Budget(faster=10),
}


def documents() -> list[Document | Sizes | Absent]:
    """Text deltas and states both ways, making events, and what recorded runs take on the wire."""
    found: list[Document | Sizes | Absent] = []
    for name, events in (
        (DELTA, _demo.text_deltas()),
        (STATE, [_demo.state_snapshot()]),
        (READINGS, [readings()]),
    ):
        found += [with_google(name, events, "encode"), with_typescript(name, events, "encode")]
        found += [with_google(name, events, "decode"), with_typescript(name, events, "decode")]
    return [
        *found,
        making(),
        making_and_encoding(),
        recording("LangGraph recording", "langgraph.sse"),
        recording("Pydantic AI recording", "pydantic_ai.sse"),
    ]


def readings() -> core.BaseEvent:
    """A state that is mostly numbers, where half of the demo's are texts."""
    records = [
        {"id": n, "name": f"sensor {n}", "readings": [n * 0.5 + at for at in range(8)]}
        for n in range(200)
    ]
    return core.StateSnapshotEvent(snapshot={"records": records})


def each(work: Callable[[Any], Any], items: Sequence[Any]) -> Callable[[], Iterator[Any]]:
    def results() -> Iterator[Any]:
        for item in items:
            yield work(item)

    return results


def same_message(ours: bytes, theirs: bytes) -> bool:
    """Whether two messages are the same event: the order of a map's entries may be any."""
    return bool(proto.decode(ours, as_dict=True) == proto.decode(theirs, as_dict=True))


def same_event(ours: Any, theirs: Any) -> bool:
    """Whether two events, dicts or models, are written alike."""
    return bool(json.loads(to_json(ours)) == json.loads(to_json(theirs)))


def ours(events: Sequence[core.BaseEvent], work: str) -> list[Contender]:
    if work == "encode":
        dicts = [_demo.wire_dict(event) for event in events]
        return [
            Contender(MODELS, each(proto.encode, events), same_message),
            Contender(DICTS, each(proto.encode, dicts), same_message),
        ]
    messages = [proto.encode(event) for event in events]

    def to_dicts() -> Iterator[Any]:
        decode = proto.decode
        for message in messages:
            yield decode(message, as_dict=True)

    return [
        Contender(DICTS, to_dicts, same_event),
        Contender(MODELS, each(proto.decode, messages), same_event),
    ]


# --- Google's runtime --------------------------------------------------------------------------


def with_google(name: str, events: Sequence[core.BaseEvent], work: str) -> Document | Absent:
    full_name = named(work, name, "upb" if name == DELTA else "json_format")
    try:
        peers = google_deltas(events, work) if name == DELTA else google_state(events[0], work)
    except ImportError as error:
        return Absent(full_name, f"Google's runtime is missing ({error})")
    return Document(full_name, len(events), [*peers, *ours(events, work)])


def google_deltas(events: Sequence[core.BaseEvent], work: str) -> list[Contender]:
    classes = upb.classes()
    Event, Delta, Base = classes.Event, classes.TextMessageContentEvent, classes.BaseEvent
    number = classes.EventType.TEXT_MESSAGE_CONTENT

    def build(event: Any) -> bytes:
        base = Base(type=number)
        delta = Delta(base_event=base, message_id=event.message_id, delta=event.delta)
        message: bytes = Event(text_message_content=delta).SerializeToString()
        return message

    def set_in_place(event: Any) -> bytes:
        whole = Event()
        delta = whole.text_message_content
        delta.base_event.type = number
        delta.message_id = event.message_id
        delta.delta = event.delta
        message: bytes = whole.SerializeToString()
        return message

    def read(message: bytes) -> dict[str, Any]:
        """Nothing that the message may hold is passed over."""
        event = Event.FromString(message)
        arm = event.WhichOneof("event")
        delta = getattr(event, arm)
        wire = {"type": arm.upper(), "messageId": delta.message_id, "delta": delta.delta}
        if delta.HasField("subagent_run_id"):
            wire["subagentRunId"] = delta.subagent_run_id
        base = delta.base_event
        if base.HasField("timestamp"):
            wire["timestamp"] = base.timestamp
        if base.HasField("raw_event"):
            wire["rawEvent"] = to_dict(base.raw_event)
        if base.HasField("metadata"):
            wire["metadata"] = to_dict(base.metadata)
        return wire

    to_dict = import_module("google.protobuf.json_format").MessageToDict
    if work == "encode":
        return [
            Contender(GOOGLE, each(build, events), same_message),
            Contender(IN_PLACE, each(set_in_place, events), same_message),
        ]
    messages = [proto.encode(event) for event in events]
    return [Contender(GOOGLE, each(read, messages), same_event)]


def google_state(event: Any, work: str) -> list[Contender]:
    classes = upb.classes()
    json_format = import_module("google.protobuf.json_format")
    number = classes.EventType.STATE_SNAPSHOT

    def build(event: Any) -> bytes:
        whole = classes.Event()
        # Its number is 0: setting it says that there is a base event.
        whole.state_snapshot.base_event.type = number
        json_format.ParseDict(event.snapshot, whole.state_snapshot.snapshot)
        message: bytes = whole.SerializeToString()
        return message

    def read(message: bytes) -> dict[str, Any]:
        whole = classes.Event.FromString(message)
        snapshot = json_format.MessageToDict(whole.state_snapshot.snapshot)
        return {"type": "STATE_SNAPSHOT", "snapshot": snapshot}

    if work == "encode":
        return [Contender("json_format", each(build, [event]), same_message)]
    return [Contender("json_format", each(read, [proto.encode(event)]), same_event)]


# --- TypeScript --------------------------------------------------------------------------------


def with_typescript(name: str, events: Sequence[core.BaseEvent], work: str) -> Document | Absent:
    full_name = named(work, name, "TypeScript")
    if reason := node_missing():
        return Absent(full_name, reason)
    if work == "encode":
        items: list[Any] = [_demo.wire_dict(event) for event in events]
    else:
        items = [proto.encode(event).hex() for event in events]
    job = json.dumps({work: items})

    def ask() -> dict[str, Any]:
        return ask_node("proto_bench.mjs", job)

    def results() -> Iterator[Any]:
        for result in ask()["results"]:
            yield bytes.fromhex(result) if work == "encode" else result

    agrees = same_message if work == "encode" else same_event
    peer = Contender(TYPESCRIPT, results, agrees, lambda: ask()["nanoseconds"] * 1e-9)
    return Document(full_name, len(events), [peer, *ours(events, work)])


# --- making ------------------------------------------------------------------------------------


def making() -> Document:
    """A model of a token, by the class and by us."""
    message_id, deltas = _demo.MESSAGE_ID, _demo.tokens()
    cls = core.TextMessageContentEvent

    def official() -> Iterator[Any]:
        for delta in deltas:
            yield cls(message_id=message_id, delta=delta)

    def made() -> Iterator[Any]:
        for delta in deltas:
            yield make_event(cls, message_id=message_id, delta=delta)

    def same(ours: Any, theirs: Any) -> bool:
        return bool(ours == theirs) and ours.__dict__ == theirs.__dict__

    contenders = [Contender("the class", official, same), Contender(OURS, made, same)]
    return Document(MAKE, len(deltas), contenders)


def making_and_encoding() -> Document:
    """What a server does for a token."""
    message_id, deltas = _demo.MESSAGE_ID, _demo.tokens()
    cls = core.TextMessageContentEvent

    def official() -> Iterator[Any]:
        encode = OfficialEncoder().encode
        for delta in deltas:
            yield encode(cls(message_id=message_id, delta=delta))

    def made() -> Iterator[Any]:
        encode = EventEncoder().encode
        for delta in deltas:
            yield encode(make_event(cls, message_id=message_id, delta=delta))

    contenders = [Contender("the class, ag_ui.encoder", official), Contender(OURS, made)]
    return Document(MAKE_ENCODE, len(deltas), contenders)


# --- on the wire -------------------------------------------------------------------------------


def recording(name: str, file: str) -> Sizes | Absent:
    """What a recorded run takes on either wire, all frames of it."""
    name = f"{name} on the wire"
    path = suite.recording(file)
    if not path.exists():
        return Absent(name, f"{path} is missing")
    lines = path.read_bytes().split(b"\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    wires = {"Server-Sent Events": None, "protobuf": AGUI_MEDIA_TYPE}
    sizes = {wire: len(EventEncoder(accept).encode_many(events)) for wire, accept in wires.items()}
    return Sizes(name, len(events), sizes)
