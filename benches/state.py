"""State: JSON Patch, the reducer and compaction, against jsonpatch and the TypeScript client.

The TypeScript client works in a Node process of its own and times itself; what goes between the two
processes is not in its time.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonpatch
from ag_ui.core import Event
from pydantic import TypeAdapter

from agui_codec import EventReducer, apply_patch, compact_events, decode_event
from agui_codec._demo import Contender, Document
from benches.suite import Absent, Budget, ask_node, node_missing

FLOOR = None

OURS = "agui-codec"
MODELS = "agui-codec, models"
LOADED = "agui-codec, json.loads"
TYPESCRIPT = "@ag-ui/client"

ONE_OP = "1 op on 1,000 records"
IN_PLACE = "1 op on 1,000 records, in place"
REDUCE = "reduce a run of 1,002 events"
REDUCE_LONG = "the same behind 200 messages"
COMPACT = "compact 1,002 events"

BUDGETS = {
    (ONE_OP, OURS): Budget(faster=300),
    (IN_PLACE, OURS): Budget(faster=5),
    (REDUCE, OURS): Budget(faster=15),
    (REDUCE_LONG, OURS): Budget(faster=100),
    (COMPACT, OURS): Budget(faster=4),
    (COMPACT, LOADED): Budget(faster=4),
}


def documents() -> list[Document | Absent]:
    """One operation on a state, a run of a thousand tokens, and the same made short."""
    found: list[Document | Absent] = [one_operation(), in_place()]
    if reason := node_missing():
        return [*found, *(Absent(name, reason) for name in (REDUCE, REDUCE_LONG, COMPACT))]
    return [*found, reduce(REDUCE, []), reduce(REDUCE_LONG, history()), compact()]


def records() -> dict[str, Any]:
    return {"records": [{"id": n, "name": f"record {n}", "tags": ["a", "b"]} for n in range(1000)]}


OPERATION = [{"op": "replace", "path": "/records/500/name", "value": "renamed"}]


def _same(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs)


def _patching(name: str, theirs: Callable[[Any], Any], ours: Callable[[Any], Any]) -> Document:
    state = records()

    def contender(name: str, patch: Callable[[Any], Any]) -> Contender:
        return Contender(name, lambda: iter([patch(state)]), _same)

    return Document(name, 1, [contender("jsonpatch", theirs), contender(OURS, ours)])


def one_operation() -> Document:
    return _patching(
        ONE_OP,
        lambda state: jsonpatch.apply_patch(state, OPERATION),
        lambda state: apply_patch(state, OPERATION),
    )


def in_place() -> Document:
    return _patching(
        IN_PLACE,
        lambda state: jsonpatch.apply_patch(state, OPERATION, in_place=True),
        lambda state: apply_patch(state, OPERATION, in_place=True),
    )


def run() -> list[dict[str, Any]]:
    """A message of a thousand tokens, as read from JSON: no text is one object twice."""
    message = {"messageId": "msg_9S1GLOzvKHb9"}
    return [
        json.loads(json.dumps(event))
        for event in (
            {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"},
            *({"type": "TEXT_MESSAGE_CONTENT", **message, "delta": "token "} for _ in range(1000)),
            {"type": "TEXT_MESSAGE_END", **message},
        )
    ]


def history() -> list[dict[str, Any]]:
    return [
        {"id": f"m{n}", "role": ("user", "assistant")[n % 2], "content": "text " * 40}
        for n in range(200)
    ]


def _typescript(work: str, events: list[Any], messages: list[Any]) -> Contender:
    """The client, which does the work once each time it is asked."""
    job = json.dumps({"work": work, "events": events, "messages": messages})

    def ask() -> dict[str, Any]:
        return ask_node("state_bench.mjs", job)

    def results() -> Iterator[Any]:
        yield ask()["result"]

    return Contender(TYPESCRIPT, results, _same, lambda: ask()["nanoseconds"] * 1e-9)


def _models(events: list[Any]) -> list[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(Event)
    return [adapter.validate_python(event) for event in events]


def reduce(name: str, messages: list[Any]) -> Document:
    """From the first event to the messages as wire dicts."""
    events = run()
    start = EventReducer(messages, as_dict=True)

    def reduced(events: list[Any]) -> Callable[[], Iterator[Any]]:
        def results() -> Iterator[Any]:
            reducer = start.fork()
            apply = reducer.apply
            for event in events:
                apply(event)
            yield reducer.messages

        return results

    given = [(OURS, events), (MODELS, _models(events))]
    ours = [Contender(name, reduced(events), _same) for name, events in given]
    return Document(name, 1, [_typescript("reduce", events, messages), *ours])


def _same_events(ours: Any, theirs: Any) -> bool:
    plain = [one if isinstance(one, dict) else one.model_dump(by_alias=True) for one in ours]
    return bool(json.loads(json.dumps(plain)) == theirs)


def compact() -> Document:
    """Events as they come from this package's decoder, as it comes after JSON.parse in Node.

    Beside them those that json.loads reads one by one, in which no two strs are one object: these
    take twice the memory, and every key has to be compared.
    """
    events = run()
    decoded = [decode_event(json.dumps(event), as_dict=True) for event in events]

    def compacted(events: list[Any]) -> Callable[[], Iterator[Any]]:
        return lambda: iter([compact_events(events)])

    given = [(OURS, decoded), (LOADED, events), (MODELS, _models(events))]
    ours = [Contender(name, compacted(events), _same_events) for name, events in given]
    return Document(COMPACT, 1, [_typescript("compact", events, []), *ours])
