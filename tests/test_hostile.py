"""Python code that runs where it is least expected, and threads that share an object.

What could read freed memory runs in a process of its own under ``PYTHONMALLOC=debug``, where freed
memory is overwritten, so that a mistake is a crash or a wrong text.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import StateDeltaEvent, TextMessageContentEvent

from agui_codec import (
    AGUIError,
    ChunkExpander,
    Compactor,
    ConcurrentUseError,
    EventDecoder,
    EventVerifier,
    LegacyUpgrader,
    _native,
    client_pipeline,
    make_event,
)
from agui_codec.proto import FrameReader
from streams import run


def in_a_process_of_its_own(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_repr_in_a_message_may_clear_the_event_that_is_judged() -> None:
    said = in_a_process_of_its_own("""
        import gc
        from agui_codec import EnforcementError, EventEnforcer

        class Tag(str):
            def __repr__(self):
                event.clear()
                gc.collect()
                return "tag"

        # The key is the dict's alone, so that clearing the dict frees it.
        event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
        event["".join(["out", "come"])] = {"type": Tag("of a later version")}
        try:
            EventEnforcer(on_deviation=lambda deviation: None).feed(event)
        except EnforcementError as error:
            print(error.event_type, error.path)
    """)
    assert said.startswith("RUN_FINISHED")


def test_compaction_walks_a_list_that_another_thread_changes() -> None:
    in_a_process_of_its_own("""
        import threading
        from ag_ui.core import TextMessageContentEvent
        from agui_codec import compact_events

        # So many changes leave the class without a version, and each look at it runs Python code.
        for number in range(1500):
            TextMessageContentEvent.touched = number
        start = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
        make = lambda: [start] + [
            TextMessageContentEvent(message_id="m", delta=f"{n} ") for n in range(300)
        ]
        events, done = make(), threading.Event()

        def change():
            while not done.is_set():
                events[1:] = make()[1:]
                del events[200:]

        thread = threading.Thread(target=change)
        thread.start()
        for _ in range(60):
            for event in compact_events(events):
                assert isinstance(event, dict) or event.message_id == "m"
        done.set()
        thread.join()
    """)


def test_ids_that_compare_by_python_code() -> None:
    """A call that has ended is forgotten, whatever its id says of itself."""
    in_a_process_of_its_own("""
        import contextlib
        from agui_codec import AGUIError, Compactor, EventReducer

        class Evil(str):
            __hash__ = str.__hash__

            def __eq__(self, other):
                answers[0] -= 1
                return answers[0] > 0

            def __ne__(self, other):
                return not self == other

        for count in range(8):
            answers = [count]
            for take in (Compactor().feed, EventReducer(on_deviation=lambda deviation: None).apply):
                for _ in range(3):
                    for event in (
                        {"type": "TOOL_CALL_START", "toolCallId": Evil("c"), "toolCallName": "n"},
                        {"type": "TOOL_CALL_ARGS", "toolCallId": Evil("c"), "delta": Evil("x")},
                        {"type": "TOOL_CALL_END", "toolCallId": Evil("c")},
                        {"type": "TOOL_CALL_START", "toolCallId": "d", "toolCallName": "n"},
                        {"type": "TOOL_CALL_RESULT", "messageId": Evil("m"),
                         "toolCallId": Evil("c"), "content": "r"},
                        {"type": "TOOL_CALL_END", "toolCallId": "d"},
                    ):
                        with contextlib.suppress(AGUIError, KeyError):
                            take(event)
    """)


# Each takes what `change` changes, whenever the garbage collector runs: up to Python 3.11 in the
# middle of making a dict or a list, and on each version where a class is looked at by Python code.
CHANGED = {
    "make_event": "make_event(RunStartedEvent, thread_id='t', run_id='r', input=event['input'])",
    "encode": "encoder.encode(event)",
    "encode a payload": """encoder.encode({"type": "CUSTOM", "name": "n", "value": event})""",
    "encode protobuf": "proto.encode(event)",
    "encode a model": """encoder.encode(CustomEvent(name="n", value=event))""",
    "enforce": "EventEnforcer(on_deviation=silent).feed(event)",
    "upgrade": "LegacyUpgrader(on_deviation=silent).feed(old)",
    "downgrade": """LegacyDowngrader(None, on_deviation=silent).feed(done)""",
    "expand": "[expander.feed(chunk), expander.feed(done)]",
    "verify": "EventVerifier(on_deviation=silent).feed(event)",
    "reduce": "[(r := EventReducer(on_deviation=silent)).apply(event), r.apply(snapshot),"
    " r.messages]",
    "reduce to dicts": "[(r := EventReducer(as_dict=True)).apply(snapshot), r.messages, r.state]",
    "compact": "compact_events(events)",
    "create a patch": "create_patch(event, done)",
    "patch": """apply_patch(event, [{"op": "copy", "from": "/input", "path": "/b"}])""",
    "patch in place": """apply_patch(event, [{"op": "add", "path": "/b", "value": done},
        {"op": "move", "from": "/input", "path": "/c"}, {"op": "test", "path": "/b", "value": done},
        {"op": "remove", "path": "/b"}], in_place=True)""",
    "a pipeline": "[(p := client_pipeline()).feed(b'data: {}'), p]",
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_read_may_change_whenever_the_collector_runs(name: str) -> None:
    said = in_a_process_of_its_own(f"""
        import gc, itertools, textwrap
        from ag_ui.core import CustomEvent, RunStartedEvent, TextMessageContentEvent, UserMessage
        from agui_codec import *
        from agui_codec import proto
        from pydantic import ValidationError

        # So many changes leave a class without a version.
        for number in range(1500):
            for cls in (RunStartedEvent, UserMessage, TextMessageContentEvent, CustomEvent):
                cls.touched = number
        silent = lambda deviation: None
        encoder, expander = EventEncoder(), ChunkExpander(on_deviation=silent)

        def fresh():
            message = {{"id": "m", "role": "user", "content": "".join(["c", "d"]),
                "x": {{"k": [1]}}}}
            given = {{"threadId": "t", "runId": "r", "state": {{"a": [1, {{"b": "c"}}]}},
                "messages": [message, dict(message)], "tools": [], "context": [],
                "forwardedProps": {{}}}}
            event = {{"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": given}}
            done = {{"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "usage": [],
                "outcome": {{"type": "cancelled"}}, "metadata": {{"k": {{"l": 1}}}}}}
            old = {{"type": "RUN_STARTED", "thread_id": "t", "run_id": "r", "input": given,
                "title": "x"}}
            snapshot = {{"type": "MESSAGES_SNAPSHOT", "messages": given["messages"]}}
            chunk = {{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "d", "zz": [1]}}
            delta = {{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d"}}
            events = [event,
                {{"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}},
                *(dict(delta) for _ in range(3)),
                *(TextMessageContentEvent(message_id="m", delta="d", x=1) for _ in range(3)),
                {{**delta, "metadata": {{"a": 1}}, "other": 1}}, dict(delta), snapshot, done]
            return {{name: it for name, it in locals().items()}}

        def containers(value):
            if isinstance(value, (dict, list)):
                yield value
                for inner in list(value.values() if isinstance(value, dict) else value):
                    yield from containers(inner)

        def change(phase, info):
            global turn
            turn += phase == "start"
            if turn != when or phase == "stop":
                return
            for at, container in enumerate(targets):
                if how == "clear":
                    container.clear()
                elif isinstance(container, dict) and how == "grow":
                    container["".join(["new", str(at)])] = at
                elif isinstance(container, dict):
                    for key in list(container):
                        if how == "replace":
                            container[key] = "".join(["new", str(at)])
                        elif how == "rename":
                            container["".join([key, "x"])] = container.pop(key)
                        else:
                            del container[key]
                            break
                elif how == "grow":
                    container.insert(0, 1)
                elif container:
                    container[0] = 5
                    del container[1:]

        call = compile(textwrap.dedent({CHANGED[name]!r}), "call", "eval")
        counts = {{}}
        changes = ("clear", "grow", "replace", "rename", "drop")
        for how, when in itertools.product(changes, range(40)):
            globals().update(fresh())
            targets = [*containers(events), *containers(old), *containers(chunk)]
            turn = 0
            gc.callbacks.append(change)
            gc.set_threshold(1)
            try:
                eval(call)
                outcome = "result"
            except (AGUIError, ValidationError, TypeError) as error:
                outcome = type(error).__name__
            except RuntimeError as error:
                assert "changed" in str(error), error
                outcome = "changed"
            except (KeyError, IndexError) as error:
                # Of Python code of the SDK or of pydantic.
                outcome = type(error).__name__
            finally:
                gc.set_threshold(0)
                gc.callbacks.clear()
            counts[outcome] = counts.get(outcome, 0) + 1
        print("done", counts)
    """)
    assert said.startswith("done")


@pytest.mark.parametrize(
    "refused",
    [
        lambda: make_event(),  # type: ignore[call-arg]
        lambda: make_event(TextMessageContentEvent, 1),  # type: ignore[call-arg]
        lambda: make_event(TextMessageContentEvent, message_id="m", delta=5),
        lambda: make_event(StateDeltaEvent, delta=[{"op": "add", "path": "\ud800", "value": 1}]),
    ],
    ids=["nothing", "positional", "a wrong type", "a lone surrogate"],
)
def test_refusals_keep_nothing(refused: Callable[[], Any]) -> None:
    def refuse(times: int) -> None:
        # Only calls that are refused: another call of the package could clear up after them.
        for _ in range(times):
            with contextlib.suppress(TypeError, ValueError):
                refused()

    refuse(500)
    before = sys.getallocatedblocks()
    refuse(5_000)
    assert sys.getallocatedblocks() - before < 500


def test_threads_replace_what_others_encode() -> None:
    in_a_process_of_its_own("""
        import threading
        from agui_codec import EventEncoder

        encoder = EventEncoder()
        types = ["".join(["STEP_", end]) for end in ("STARTED", "FINISHED")]
        event = {"type": types[0], "stepName": "s", "metadata": {"k": [1, 2, 3]}}
        done = threading.Event()

        def change():
            turn = 0
            while not done.is_set():
                turn += 1
                event["type"] = "".join(["STEP_", ("STARTED", "FINISHED")[turn % 2]])
                event["metadata"] = {"k": ["x" * 30] * (turn % 5)}

        threads = [threading.Thread(target=change) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20_000):
                text = encoder.encode(event)
                assert text.startswith('data: {"type":"STEP_'), text
        finally:
            done.set()
        for thread in threads:
            thread.join()
    """)


START = run()[0]
OBJECTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "LegacyUpgrader": (
        lambda callback: LegacyUpgrader(on_deviation=callback),
        {"type": "THINKING_START", "title": "x"},
    ),
    "ChunkExpander": (
        lambda callback: ChunkExpander(on_deviation=callback),
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"},
    ),
    "EventDecoder": (
        lambda callback: EventDecoder(on_unknown="drop", on_deviation=callback),
        b'data: {"type":"UNKNOWN"}\n\n',
    ),
}


@pytest.mark.parametrize("name", ["LegacyUpgrader", "EventDecoder"])
def test_a_callback_may_not_call_the_object_that_calls_it(name: str) -> None:
    make, item = OBJECTS[name]
    errors: list[AGUIError] = []

    def callback(_: Any) -> None:
        with pytest.raises(ConcurrentUseError, match=f"this {name} is in use") as caught:
            stage.feed(item)
        errors.append(caught.value)
        assert name in repr(stage)

    stage = make(callback)
    stage.feed(item)
    assert errors
    # And is as usable as before.
    stage.feed(item)


@pytest.mark.parametrize(
    ("make", "item"),
    [
        (EventDecoder, b'data: {"type":"STEP_STARTED","stepName":"s"}\n\n' * 50),
        (FrameReader, b"\x00\x00\x00\x01x" * 50),
        (EventVerifier, START),
        (ChunkExpander, {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"}),
        (Compactor, START),
        (client_pipeline, b'data: {"type":"RAW","event":{}}\n\n' * 50),
    ],
    ids=["EventDecoder", "FrameReader", "EventVerifier", "ChunkExpander", "Compactor", "Pipeline"],
)
def test_threads_that_share_an_object_get_a_named_error_at_worst(
    make: Callable[[], Any], item: Any
) -> None:
    shared = make()
    unexpected: list[BaseException] = []

    def feed() -> None:
        for _ in range(300):
            try:
                with contextlib.suppress(AGUIError):
                    shared.feed(item)
                repr(shared)
            except BaseException as error:
                unexpected.append(error)

    threads = [threading.Thread(target=feed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert unexpected == []


@pytest.mark.skipif(not _native.DEBUG_BUILD, reason="builds with debug assertions check this")
def test_a_lent_reference_is_not_used_after_python_code() -> None:
    use: Callable[..., None] = _native.use_lent_after_call  # type: ignore[attr-defined]
    use({"key": "value"}, dict)
    with pytest.raises(BaseException, match="a lent reference was used after Python code had run"):
        use({"key": "value"}, lambda: None)
