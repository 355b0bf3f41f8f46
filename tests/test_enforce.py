"""EventEnforcer: what the protocol describes is judged, what it does not is removed."""

from __future__ import annotations

import collections
import copy
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ag_ui.core import MessagesSnapshotEvent, RunAgentInput, TextMessageEndEvent

from agui_codec import AGUIError, Deviation, EnforcementError, EventEnforcer, enforce_input
from conftest import corpus_files, shared_corpus
from streams import ADAPTER, Event, feed_all, models, oracle, stream


def enforce(event: Any) -> tuple[Any, list[Deviation]]:
    """What becomes of one event (None if it is dropped), and what was said of it."""
    seen: list[Deviation] = []
    before = copy.deepcopy(event)
    output = EventEnforcer(on_deviation=seen.append).feed(event)
    assert event == before
    return (output[0] if output else None), seen


def refused(event: Any) -> EnforcementError:
    with pytest.raises(EnforcementError) as caught:
        EventEnforcer().feed(event)
    assert caught.value.event_index == 0
    assert caught.value.path in str(caught.value)
    return caught.value


def message(kind: str = "END", **fields: Any) -> Event:
    return {"type": f"TEXT_MESSAGE_{kind}", "messageId": "m", **fields}


def snapshot(*messages: Any) -> Event:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


# -- the corpus ------------------------------------------------------------------------

EVENT_FIXTURES = "conformance/fixtures/*Event"


@pytest.mark.parametrize("path", corpus_files(f"{EVENT_FIXTURES}/valid/*.json"))
def test_valid_events_pass_as_they_are(path: Path) -> None:
    event = json.loads(path.read_text("utf-8"))
    output, seen = enforce(event)
    assert output is event
    assert seen == []
    [model] = models([event])
    output, seen = enforce(model)
    assert output is model
    assert seen == []


@pytest.mark.parametrize("path", corpus_files("conformance/fixtures/RunAgentInput/valid/*.json"))
def test_valid_inputs_pass_as_they_are(path: Path) -> None:
    given = json.loads(path.read_text("utf-8"))
    assert enforce_input(given) is given
    model = RunAgentInput.model_validate(given)
    assert enforce_input(model) is model


@pytest.mark.parametrize("path", corpus_files("conformance/fixtures/*/valid/*.json"))
def test_valid_parts_pass_as_they_are(path: Path) -> None:
    """The other definitions, each where it stands in an event or in an input."""
    definition = path.parents[1].name
    if definition.endswith("Event") or definition == "RunAgentInput":
        return
    _, wrap = HOSTS[definition]
    document = wrap(json.loads(path.read_text("utf-8")))
    if "type" in document:
        assert enforce(document) == (document, [])
    else:
        assert enforce_input(document) is document


# What is removed and not refused, with what is said of it: unknown properties and unknown members.
REMOVED = {
    "MessagesSnapshotEvent/role-shaped-like-a-tool-message": ("unknown_member", "messages[0]"),
    "MessagesSnapshotEvent/role-shaped-like-an-activity-message": (
        "unknown_member",
        "messages[0]",
    ),
    "MessagesSnapshotEvent/role-shaped-like-an-assistant-message": (
        "unknown_member",
        "messages[0]",
    ),
    "MessagesSnapshotEvent/unknown-role": ("unknown_member", "messages[0]"),
    "ReasoningEncryptedValueEvent/unknown-subtype": ("unknown_member", "subtype"),
    "RunFinishedEvent/outcome-success-carrying-interrupts": (
        "unknown_property",
        "outcome.interrupts",
    ),
    "StateDeltaEvent/patch-unknown-op": ("unknown_member", "delta[0]"),
    "SubagentFinishedEvent/outcome-success-carrying-interrupt-ids": (
        "unknown_property",
        "outcome.interruptIds",
    ),
    "TextMessageEndEvent/unknown-property": ("unknown_property", "somethingNewer"),
    "UserMessage/legacy-binary-part": ("unknown_member", "messages[0].content[0]"),
    "UserMessage/part-shaped-like-media-with-unknown-type": (
        "unknown_member",
        "messages[0].content[0]",
    ),
    "UserMessage/part-shaped-like-text-with-unknown-type": (
        "unknown_member",
        "messages[0].content[0]",
    ),
}

# Where the fixtures of other definitions stand in an event or an input.
HOSTS: dict[str, tuple[str, Any]] = {
    "Interrupt": (
        "outcome.interrupts[0]",
        lambda doc: {
            "type": "RUN_FINISHED",
            "threadId": "t",
            "runId": "r",
            "outcome": {"type": "interrupt", "interrupts": [doc]},
        },
    ),
    "UserMessage": ("messages[0]", snapshot),
    "ToolMessage": ("messages[0]", snapshot),
    "ResumeEntry": (
        "resume[0]",
        lambda doc: {"threadId": "t", "runId": "r", "messages": [], "resume": [doc]},
    ),
    "Tool": (
        "tools[0]",
        lambda doc: {"threadId": "t", "runId": "r", "messages": [], "tools": [doc]},
    ),
    "RunAgentInput": ("", lambda doc: doc),
}


def dotted(host: str, pointer: str) -> str:
    path = host
    for token in pointer.split("/")[1:]:
        path += f"[{token}]" if token.isdigit() else f".{token}" if path else token
    return path


@pytest.mark.parametrize("path", corpus_files("conformance/fixtures/*/invalid/*[!t].json"))
def test_invalid_documents_are_refused_where_the_corpus_says_or_stripped(path: Path) -> None:
    if path is None or path.name.endswith(".expect.json"):
        return
    definition = path.parents[1].name
    name = f"{definition}/{path.stem}"
    host, wrap = HOSTS.get(definition, ("", lambda doc: doc))
    document = wrap(json.loads(path.read_text("utf-8")))
    expect = json.loads(path.with_suffix(".expect.json").read_text("utf-8"))
    seen: list[Deviation] = []
    try:
        if "type" in document:
            EventEnforcer(on_deviation=seen.append).feed(document)
        else:
            enforce_input(document, on_deviation=seen.append)
    except EnforcementError as error:
        where = error.path
        if expect["keyword"] == "required":
            # The corpus names the object, we name the field that it lacks.
            where, _, field = where.rpartition(".")
            assert field
        assert where == dotted(host, expect["instanceLocation"])
        assert name not in REMOVED
    else:
        assert (seen[0].kind, seen[0].path) == REMOVED[name]
        assert len(seen) == 1


# -- the field's cases -----------------------------------------------------------------


def test_d2_an_unknown_member_goes_and_a_malformed_one_does_not() -> None:
    known = {"id": "2", "role": "user", "content": "y"}
    unknown = {"id": "1", "role": "hologram", "content": "x"}
    output, [seen] = enforce(snapshot(unknown, known))
    assert output["messages"] == [known]
    assert output["messages"][0] is known
    assert (seen.kind, seen.event_type, seen.path) == (
        "unknown_member",
        "MESSAGES_SNAPSHOT",
        "messages[0]",
    )
    assert "'hologram'" in seen.detail
    assert refused(snapshot({"role": "hologram"})).path == "messages[0].id"
    assert refused(snapshot({"id": "1", "role": "user", "content": 5})).path == (
        "messages[0].content"
    )
    # Without a tag it is no member of a later version, but a broken one of this.
    assert refused(snapshot({"id": "1", "content": "x"})).path == "messages[0].role"
    assert refused(snapshot({"id": "1", "role": 5})).path == "messages[0].role"


def test_d3_an_event_of_an_unknown_type_is_dropped() -> None:
    output, [seen] = enforce({"type": "AUDIO_CHUNK", "b": 1})
    assert output is None
    assert (seen.kind, seen.event_type, seen.path) == ("unknown_event", "AUDIO_CHUNK", "")


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (message(messageId=12345), "messageId"),
        (message(messageId=None), "messageId"),
        (message(timestamp="5"), "timestamp"),
        (message(timestamp=True), "timestamp"),
        (message(timestamp=1.5), "timestamp"),
        (message(timestamp=2**53), "timestamp"),
        (message(timestamp=-(2**53)), "timestamp"),
        (message(timestamp=2**200), "timestamp"),
        (message(timestamp=float("nan")), "timestamp"),
        (message(timestamp=float("inf")), "timestamp"),
        (message(metadata=None), "metadata"),
        (message(metadata=[]), "metadata"),
        (message(rawEvent=None), "rawEvent"),
        (message("START", role="narrator"), "role"),
        (message("CONTENT", delta=b"x"), "delta"),
        ({"type": "CUSTOM", "name": "n"}, "value"),
        ({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"}, "role"),
        ({"type": "REASONING_MESSAGE_START", "messageId": "m"}, "role"),
        ({"type": "STATE_DELTA", "delta": [{"path": "/a"}]}, "delta[0].op"),
        ({"type": "STATE_DELTA", "delta": ({"op": "remove", "path": "/a"},)}, "delta"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["type"],
)
def test_d4_values_are_never_coerced(event: Event, path: str) -> None:
    assert refused(event).path == path


@pytest.mark.parametrize("timestamp", [0, -1, 2**53 - 1, -(2**53) + 1, 2.0])
def test_e14_timestamps_that_are_integers(timestamp: float) -> None:
    event = message(timestamp=timestamp)
    output, _ = enforce(event)
    assert output is event


def test_d5_a_broken_interrupt_is_named_and_not_lost() -> None:
    good = {"id": "i", "reason": "x"}
    outcome = {"type": "interrupt", "interrupts": [good, {"id": "j"}, {**good, "id": "k"}]}
    event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}
    error = refused(event)
    assert error.path == "outcome.interrupts[1].reason"
    assert error.event_type == "RUN_FINISHED"


def test_d6_an_unknown_outcome_goes_and_an_array_is_fatal() -> None:
    event: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    output, [seen] = enforce({**event, "outcome": {"type": "paused"}})
    assert output == event
    assert (seen.kind, seen.path) == ("unknown_member", "outcome")
    assert refused({**event, "outcome": ["interrupt"]}).path == "outcome"
    assert refused({**event, "outcome": {}}).path == "outcome.type"
    assert refused({**event, "outcome": None}).path == "outcome"


def test_d12_what_is_open_is_not_looked_into() -> None:
    patch = {"op": "remove", "path": "/a", "value": 3, "x": 1}
    for event in (
        {"type": "STATE_DELTA", "delta": [patch]},
        {"type": "STATE_SNAPSHOT", "snapshot": {"zz": None}},
        {"type": "RAW", "event": None, "rawEvent": {"zz": None}},
        message(metadata={"zz": None, "__proto__": 1}),
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": {"z": 1}},
    ):
        output, seen = enforce(event)
        assert output is event
        assert seen == []
    output, [seen] = enforce(message(zz=1))
    assert output == message()
    assert (seen.kind, seen.path) == ("unknown_property", "zz")


# -- rules -----------------------------------------------------------------------------


def test_a_required_member_takes_what_contains_it_along() -> None:
    """An image of an unknown kind of source goes whole, and only that is said."""
    image = {"type": "image", "source": {"type": "hologram", "value": "x"}, "zz": 1}
    text = {"type": "text", "text": "x", "yy": 1}
    output, seen = enforce(snapshot({"id": "1", "role": "user", "content": [image, text]}))
    assert output["messages"][0]["content"] == [{"type": "text", "text": "x"}]
    assert [one.path for one in seen] == ["messages[0].content[0]", "messages[0].content[1].yy"]
    value = {"type": "REASONING_ENCRYPTED_VALUE", "entityId": "m", "encryptedValue": "b"}
    output, [one] = enforce({**value, "subtype": "future"})
    assert output is None
    assert (one.kind, one.path) == ("unknown_member", "subtype")
    assert "dropped the event" in one.detail


def test_fields_of_1_1_are_known() -> None:
    value = {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "message",
        "entityId": "m",
        "encryptedValue": "b",
        "encryptedValueType": "x",
    }
    function = {"name": "f", "arguments": ""}
    call = {"id": "c", "type": "function", "function": function, "encryptedValueType": "x"}
    usage = [{"cacheWriteInputTokens": 1}]
    for event in (
        value,
        snapshot({"id": "1", "role": "assistant", "toolCalls": [call], "encryptedValueType": "x"}),
        {"type": "RUN_ERROR", "message": "x", "usage": usage},
    ):
        output, seen = enforce(event)
        assert output is event
        assert seen == []
        [model] = models([event])
        assert enforce(model) == (model, [])
    assert refused({**value, "encryptedValueType": 5}).path == "encryptedValueType"
    assert refused({**value, "encryptedValueType": None}).path == "encryptedValueType"
    assert enforce(message(encryptedValueType="x"))[1][0].kind == "unknown_property"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("1.0", None),
        ("1.1", None),
        ("0.9", None),
        ("1.2", "1.1"),
        ("1.10", "1.1"),
        ("2.0", "1.1"),
        ("99999999999999999999.0", "1.1"),
        ("draft", "cannot interpret"),
        ("1", "cannot interpret"),
        ("1.0.0", "cannot interpret"),
        ("1.x", "cannot interpret"),
        ("", "cannot interpret"),
        (" 1.0", "cannot interpret"),
        ("+1.0", "cannot interpret"),
    ],
)
def test_a_newer_or_unreadable_version_is_announced(declared: str, said: str | None) -> None:
    event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": declared}
    output, seen = enforce(event)
    assert output is event
    assert [one.kind for one in seen] == ["protocol_version"] * (said is not None)
    assert all(said is not None and said in one.detail for one in seen)


def test_the_wire_spells_keys_as_the_protocol_does() -> None:
    """A snake_case key is an unknown one on the wire, and the deviation says what it was meant."""
    seen: list[Deviation] = []
    with pytest.raises(EnforcementError) as caught:
        EventEnforcer(on_deviation=seen.append).feed(
            {"type": "TEXT_MESSAGE_END", "message_id": "m"}
        )
    assert caught.value.path == "messageId"
    _, [one] = enforce(message(subagent_run_id="s"))
    assert "subagentRunId" in one.detail


# -- models ----------------------------------------------------------------------------


def test_extra_fields_of_models_are_unknown_properties() -> None:
    [model] = models([message(zz=1, yy=2)])
    output, seen = enforce(model)
    assert output == TextMessageEndEvent(message_id="m")
    assert type(output) is TextMessageEndEvent
    assert [one.path for one in seen] == ["zz", "yy"]
    [nested] = models([snapshot({"id": "1", "role": "user", "content": "x", "zz": 1})])
    output, [one] = enforce(nested)
    assert type(output) is MessagesSnapshotEvent
    assert one.path == "messages[0].zz"
    assert output == models([snapshot({"id": "1", "role": "user", "content": "x"})])[0]


def test_models_changed_behind_the_validator_are_judged() -> None:
    [model] = models([message()])
    model.message_id = 5
    assert refused(model).path == "messageId"
    [model] = models([message()])
    model.timestamp = True
    assert refused(model).path == "timestamp"


def test_subclasses_of_models_are_read_as_they_are_written() -> None:
    class Mine(TextMessageEndEvent):
        pass

    class Wider(TextMessageEndEvent):
        more: int = 1

    mine = Mine(message_id="m")
    output, seen = enforce(mine)
    assert output is mine
    assert seen == []
    output, [one] = enforce(Wider(message_id="m"))
    assert output == TextMessageEndEvent(message_id="m")
    assert one.path == "more"


# -- inputs ----------------------------------------------------------------------------


def test_inputs_are_judged_before_they_are_sent() -> None:
    given = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "1", "role": "user", "content": "x", "zz": 1}],
        "forwardedProps": None,
        "tools": [{"name": "f", "description": "d", "parameters": None}],
    }
    seen: list[Deviation] = []
    output = enforce_input(given, on_deviation=seen.append)
    # None is absence in what is to be sent, and no deviation.
    assert output == {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "1", "role": "user", "content": "x"}],
        "tools": [{"name": "f", "description": "d"}],
    }
    assert [(one.kind, one.event_type, one.path) for one in seen] == [
        ("unknown_property", None, "messages[0].zz")
    ]
    with pytest.raises(EnforcementError) as caught:
        enforce_input({"threadId": "t", "runId": 5, "messages": []})
    assert (caught.value.path, caught.value.event_index) == ("runId", None)
    model = RunAgentInput(
        thread_id="t", run_id="r", state=None, messages=[], tools=[], context=[],
        forwarded_props=None, zz=1,
    )  # fmt: skip
    output = enforce_input(model, on_deviation=seen.append)
    assert isinstance(output, RunAgentInput)
    assert not output.model_extra
    assert seen[-1].path == "zz"


# -- laws ------------------------------------------------------------------------------


def test_nothing_is_removed_unannounced_by_default(caplog: pytest.LogCaptureFixture) -> None:
    EventEnforcer().feed(message(zz=1))
    [record] = caplog.records
    assert (record.name, record.levelname) == ("agui_codec", "WARNING")
    assert "zz" in record.getMessage()


def test_what_on_deviation_raises_comes_through() -> None:
    def strict(deviation: Deviation) -> None:
        raise LookupError(deviation.path)

    with pytest.raises(LookupError, match="zz"):
        EventEnforcer(on_deviation=strict).feed(message(zz=1))


@pytest.mark.parametrize("seed", range(100))
def test_legal_streams_pass_as_they_are(seed: int) -> None:
    events = [one for one in stream(seed) if "futureProperty" not in one]
    seen: list[Deviation] = []
    output, error = feed_all(EventEnforcer(on_deviation=seen.append), events)
    assert error is None
    assert seen == []
    assert all(one is other for one, other in zip(output, events, strict=True))
    spelled = models(events)
    output, error = feed_all(EventEnforcer(), spelled)
    assert error is None
    assert all(one is other for one, other in zip(output, spelled, strict=True))


# -- against the JSON schema, and the TypeScript client --------------------------------

VALUES: list[Any] = [
    None, True, False, 0, -1, 5, 2.0, 1.5, 2**53, -(2**53), "", "x", "success", "interrupt", "/a",
    "tool", "text", [], [1], ["x"], {}, {"type": "text", "text": "a"}, {"type": "future"},
    {"a": 1},
]  # fmt: skip
KEYS = [
    "zz", "messageId", "timestamp", "metadata", "rawEvent", "subagentRunId", "role", "name",
    "encryptedValue", "encryptedValueType", "outcome", "usage", "toolCalls", "content", "result",
    "id", "parentMessageId", "op", "path", "value", "from", "input", "interrupts", "source", "type",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutated(document: Event, rng: random.Random) -> Event:
    """A document with one or two values changed, removed or added, but for its type."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2])):
        inside = [path for path in places(document) if path not in ((), ("type",))]
        objects = [path for path in places(document) if isinstance(at(document, path), dict)]
        action = rng.randrange(4)
        if action < 2 and inside:
            path = rng.choice(inside)
            container = at(document, path[:-1])
            if action == 0:
                container[path[-1]] = copy.deepcopy(rng.choice(VALUES))
            else:
                del container[path[-1]]
        else:
            path = rng.choice(objects)
            key = rng.choice([key for key in KEYS if path or key != "type"])
            at(document, path)[key] = copy.deepcopy(rng.choice(VALUES))
    return document


class EventSchema:
    """The schema of events. An event is held against the definition of its type alone: trying all
    31 for each takes minutes.
    """

    def __init__(self, document: Any) -> None:
        self.validators = {}
        for name, definition in document["$defs"].items():
            kind = definition.get("properties", {}).get("type", {}).get("const", "")
            if name.endswith("Event") and kind:
                schema = {**document, "$ref": f"#/$defs/{name}"}
                self.validators[kind] = jsonschema.Draft202012Validator(schema)
        assert len(self.validators) == 31

    def is_valid(self, event: Event) -> bool:
        validator = self.validators.get(event["type"])
        return validator is not None and bool(validator.is_valid(event))


@pytest.fixture(scope="module")
def schema(shared: Path) -> EventSchema:
    return EventSchema(json.loads((shared / "conformance/schema-1.1.json").read_text("utf-8")))


@pytest.fixture(scope="module")
def mutants(shared: Path, schema: EventSchema) -> list[Event]:
    assert shared_corpus() == shared
    paths = sorted((shared / "conformance").glob("fixtures/*Event/valid/*.json"))
    documents = [json.loads(path.read_text("utf-8")) for path in paths]
    for path in sorted((shared / "conformance/streams").glob("*.json")):
        events = json.loads(path.read_text("utf-8"))["stream"]
        documents += [event for event in events if schema.is_valid(event)]
    rng = random.Random(20260601)
    return [mutated(rng.choice(documents), rng) for _ in range(4000)]


def test_the_verdict_is_that_of_the_json_schema(mutants: list[Event], schema: EventSchema) -> None:
    """Valid: the same object. Invalid: refused, or stripped to something valid."""
    counts = collections.Counter[str]()
    for event in mutants:
        try:
            output, seen = enforce(event)
        except EnforcementError:
            assert not schema.is_valid(event), event
            counts["refused"] += 1
            continue
        seen = [one for one in seen if one.kind != "protocol_version"]
        if schema.is_valid(event):
            assert output is event, (event, seen)
            assert seen == []
            counts["valid"] += 1
        else:
            assert seen, event
            assert output is None or schema.is_valid(output), (event, output)
            counts["stripped"] += 1
    assert min(counts.values()) > 200, counts


def missing_tag(event: Event, error: AGUIError | None, theirs: Any) -> bool:
    """We are right: a union member without a readable tag is a broken one, not a future one.

    The TypeScript client removes it, so that an interrupt whose type got lost reads as a success.
    """
    path = getattr(error, "path", "")
    return path.endswith((".type", ".op", ".role", ".id")) and "refused" not in theirs


def unknown_subtype(event: Event, error: AGUIError | None, theirs: Any) -> bool:
    """We are lenient: an unknown subtype is one of a later version; the event is dropped."""
    return event["type"] == "REASONING_ENCRYPTED_VALUE" and "subtype" in theirs.get("refused", "")


def defaults_filled_in(event: Event, error: AGUIError | None, theirs: Any) -> bool:
    """We are right: it adds the defaults of an echoed input, which nobody sent."""
    return event["type"] == "RUN_STARTED" and "input" in event and error is None


def version_1_1(event: Event, error: AGUIError | None, theirs: Any) -> bool:
    """We are newer: it knows 1.0 only, and removes encryptedValueType."""
    return "encryptedValueType" in json.dumps(event)


EXCEPTIONS = [missing_tag, unknown_subtype, defaults_filled_in, version_1_1]


def test_the_verdict_is_that_of_the_typescript_client(mutants: list[Event]) -> None:
    answers = oracle("stream_enforce_oracle.mjs", mutants)
    excepted = collections.Counter[str]()
    for event, theirs in zip(mutants, answers, strict=True):
        output, error = None, None
        try:
            output, _ = enforce(event)
        except EnforcementError as refusal:
            error = refusal
        if error is not None and "refused" in theirs:
            continue
        if error is None and "refused" not in theirs and output == theirs["event"]:
            continue
        name = next((it.__name__ for it in EXCEPTIONS if it(event, error, theirs)), None)
        assert name is not None, (event, output, error, theirs)
        excepted[name] += 1
    assert sum(excepted.values()) < len(mutants) / 20, excepted


def test_the_sdk_agrees_on_what_passes(mutants: list[Event], schema: EventSchema) -> None:
    """What is enforced can always be made a model."""
    for event in mutants[:1000]:
        try:
            output, _ = enforce(event)
        except EnforcementError:
            continue
        if output is not None:
            ADAPTER.validate_python(output)
