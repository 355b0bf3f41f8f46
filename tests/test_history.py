"""History: `python/agui_codec/history/`."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import Event, RunAgentInput, UserMessage
from pydantic import TypeAdapter

from agui_codec import (
    AGUIError,
    ChunkExpander,
    EventReducer,
    EventVerifier,
    SequenceError,
    through,
)
from agui_codec.history import EventHistory, JSONLinesStore, RunInfo, RunStore, SQLiteStore
from streams import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EVENTS = TypeAdapter(Event)
STORES: dict[str, Callable[[Any], RunStore]] = {"jsonl": JSONLinesStore, "sqlite": SQLiteStore}


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], EventHistory]]:
    """Opens the same store each time it is called."""
    opened: list[EventHistory] = []

    def open_store() -> EventHistory:
        opened.append(EventHistory(STORES[request.param](tmp_path / "history")))
        return opened[-1]

    yield open_store
    for history in opened:
        history.close()


def run(
    run_id: str, text: str = "x", *, parent: str | None = None, thread: str = "t", **more: Any
) -> list[dict[str, Any]]:
    started: dict[str, Any] = {"type": "RUN_STARTED", "threadId": thread, "runId": run_id, **more}
    if parent is not None:
        started["parentRunId"] = parent
    message = f"m-{run_id}"
    return [
        started,
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/{run_id}", "value": text}]}
        if parent is not None
        else {"type": "STATE_SNAPSHOT", "snapshot": {run_id: text}},
        {"type": "TEXT_MESSAGE_START", "messageId": message},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": one} for one in text),
        {"type": "TEXT_MESSAGE_END", "messageId": message},
        {"type": "RUN_FINISHED", "threadId": thread, "runId": run_id},
    ]


def contents(history: EventHistory, run_id: str | None = None) -> list[str]:
    return [message.content for message in history.messages("t", run_id)]


def test_runs_are_kept_and_replayed(make: Callable[[], EventHistory]) -> None:
    history = make()
    assert history.append(run("r1", "abc")) == RunInfo("t", "r1", None, "success")
    history.append([EVENTS.validate_python(one) for one in run("r2", "de", parent="r1")])
    history.append(run("r1", thread="other"))
    for opened in (history, make()):
        assert opened.threads() == ["t", "other"]
        assert [one.run_id for one in opened.runs("t")] == ["r1", "r2"]
        assert len(opened.runs()) == 3
        assert contents(opened) == ["abc", "de"]
        assert contents(opened, "r1") == ["abc"]
        assert opened.state("t") == {"r1": "abc", "r2": "de"}
        assert opened.state("t", "r1") == {"r1": "abc"}
    # Stored compacted.
    assert [event["type"] for event in history.replay("t", "r1")] == [
        "RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "STATE_SNAPSHOT", "RUN_FINISHED",
    ]  # fmt: skip


def test_branches_of_branches(make: Callable[[], EventHistory]) -> None:
    history = make()
    for run_id, parent in (
        ("r1", None),
        ("r2", "r1"),
        ("r3", "r1"),
        ("r4", "r2"),
        ("r5", "r3"),
        ("r6", "r4"),
    ):
        history.append(run(run_id, run_id, parent=parent))
    for opened in (history, make()):
        assert contents(opened, "r6") == ["r1", "r2", "r4", "r6"]
        assert contents(opened, "r5") == ["r1", "r3", "r5"]
        assert opened.state("t", "r4") == {"r1": "r1", "r2": "r2", "r4": "r4"}
        assert [one.run_id for one in opened.line("t", "r5")] == ["r1", "r3", "r5"]
    # Without a parent a run continues what was stored last.
    history.append([one for one in run("r7", "r7") if one["type"] != "STATE_SNAPSHOT"])
    assert contents(history) == ["r1", "r2", "r4", "r6", "r7"]


def test_what_is_no_run_is_refused(make: Callable[[], EventHistory]) -> None:
    history = make()
    history.append(run("r1"))
    for events, error, message in (
        (run("r1"), AGUIError, "'r1' of thread 't' is already stored"),
        (run("r2", parent="zz"), AGUIError, "parent 'zz' is not stored"),
        (run("r2") + run("r3"), AGUIError, "expected the events of one run, found 2 runs"),
        (run("r2")[:-1], AGUIError, None),
        (run("r2")[1:], SequenceError, None),
        ([], AGUIError, None),
        ([{"type": "RUN_ERROR", "message": "x"}], AGUIError, "found 0 runs"),
    ):
        with pytest.raises(error, match=message):
            history.append(events)
    for ask in (history.messages, history.line, history.state):
        with pytest.raises(AGUIError, match="run 'zz' of thread 't' is not stored"):
            ask("t", "zz")
        with pytest.raises(AGUIError, match="thread 'zz' is not stored"):
            ask("zz")
    assert [one.run_id for one in history.runs()] == ["r1"]
    assert make().messages("t")[0].content == "x"


@pytest.mark.parametrize(
    ("at", "fields", "said"),
    [
        (0, {"input": "x"}, "RUN_STARTED: input is not an object"),
        (0, {"input": {"parentRunId": 5}}, "RUN_STARTED: input: parentRunId is not a string"),
        (0, {"input": {"messages": 5}}, "RUN_STARTED: input: messages is not an array"),
        (
            0,
            {"input": {"messages": [5]}},
            r"RUN_STARTED: input: messages\[0\] is not a message with an id",
        ),
        (0, {"input": {"messages": [{"id": 5}]}}, r"input: messages\[0\] is not a message"),
        (0, {"parentRunId": 5}, "RUN_STARTED: parentRunId is not a string"),
        (-1, {"outcome": "success"}, "RUN_FINISHED: outcome is not an object"),
        (-1, {"outcome": ["x"]}, "RUN_FINISHED: outcome is not an object"),
        (-1, {"outcome": {"type": 5}}, "RUN_FINISHED: outcome: type is not a string"),
    ],
)
def test_a_run_that_could_not_be_read_again_is_refused(
    make: Callable[[], EventHistory], at: int, fields: dict[str, Any], said: str
) -> None:
    history = make()
    history.append(run("a"))
    events = run("b")
    events[at].update(fields)
    with pytest.raises(AGUIError, match=said):
        history.append(events)
    assert [one.run_id for one in history.runs()] == ["a"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the input has no threadId"),
        ({"threadId": 5}, "the input: threadId is not a string"),
        ({"threadId": "t", "parentRunId": 5}, "the input: parentRunId is not a string"),
        ({"threadId": "t", "messages": 5}, "the input: messages is not an array"),
        ({"threadId": "t", "messages": [{}]}, r"messages\[0\] is not a message with an id"),
    ],
)
def test_an_input_that_cannot_be_normalized_is_refused(
    make: Callable[[], EventHistory], given: dict[str, Any], said: str
) -> None:
    history = make()
    history.append(run("a"))
    with pytest.raises(AGUIError, match=said):
        history.normalized(given)


def test_null_stands_for_what_is_not_there(make: Callable[[], EventHistory]) -> None:
    history = make()
    history.append(run("a"))
    events = run("b", input={"messages": None, "parentRunId": None})
    events[-1]["outcome"] = {"type": None}
    assert history.append(events).outcome == "success"


def test_outcomes(make: Callable[[], EventHistory]) -> None:
    history = make()
    failed = [*run("r1")[:-1], {"type": "RUN_ERROR", "message": "x"}]
    assert history.append(failed).outcome == "error"
    late = [*run("r2"), {"type": "RUN_ERROR", "message": "x"}]
    assert history.append(late).outcome == "error"
    interrupted = run("r3")
    interrupted[-1]["outcome"] = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "y"}]}
    assert history.append(interrupted).outcome == "interrupt"
    assert [one.id for one in history.reducer("t").pending_interrupts] == ["i"]


def test_inputs_are_stored_without_what_is_known(make: Callable[[], EventHistory]) -> None:
    history = make()
    users = [{"id": f"u{n}", "role": "user", "content": str(n)} for n in range(3)]
    given = {"threadId": "t", "runId": "r1", "messages": users[:1], "state": None}
    history.append(run("r1", input=given))
    model = RunAgentInput(
        thread_id="t", run_id="r2", parent_run_id="r1", tools=[], context=[], forwarded_props={},
        messages=[*history.messages("t"), UserMessage(id="u1", content="1")],
    )  # fmt: skip
    assert [one["id"] for one in history.normalized(model)["messages"]] == ["u1"]
    assert len(model.messages) == 3
    history.append(run("r2"), input=model)
    stored = [one for one in make().replay("t") if one["type"] == "RUN_STARTED"]
    assert [[one["id"] for one in start["input"]["messages"]] for start in stored] == [
        ["u0"],
        ["u1"],
    ]
    assert history.line("t")[-1].parent_run_id == "r1"
    assert [one.id for one in history.messages("t")] == ["u0", "m-r1", "u1", "m-r2"]
    # Where the branch does not hold it, it stays.
    branch = {**given, "runId": "r3", "parentRunId": "r1", "messages": users}
    assert [one["id"] for one in history.normalized(branch)["messages"]] == ["u1", "u2"]
    assert history.normalized({**given, "threadId": "new"})["messages"] == users[:1]


def test_a_reducer_is_the_callers_own(make: Callable[[], EventHistory]) -> None:
    history = make()
    history.append(run("r1", "a"))
    mine = history.reducer("t", as_dict=True)
    mine.apply_all(run("r2", "b", parent="r1"))
    assert len(mine.messages) == 2
    assert len(history.reducer("t", as_dict=True).messages) == 1
    history.append(run("r2", "b", parent="r1"))
    assert history.reducer("t", as_dict=True).messages == mine.messages


@pytest.mark.parametrize("seed", range(25))
def test_replay_equals_the_streams(make: Callable[[], EventHistory], seed: int) -> None:
    """Random runs, each told to continue the one before."""
    history, reduced = make(), EventReducer(as_dict=True, on_deviation=lambda _: None)
    for number in range(3):
        events = list(through(stream(seed * 3 + number), ChunkExpander(), EventVerifier()))
        end = next(
            at for at, one in enumerate(events) if one["type"] in ("RUN_FINISHED", "RUN_ERROR")
        )
        events = json.loads(json.dumps(events[: end + 1]))
        for one in events:
            for key in ("threadId", "runId"):
                if key in one:
                    one[key] = "t" if key == "threadId" else f"r{number}"
        history.append(events)
        reduced.apply_all(events)
    for opened in (history, make()):
        found = opened.reducer("t", as_dict=True)
        assert found.messages == reduced.messages
        assert found.state == reduced.state


# Crashes and other writers ---------------------------------------------------------------------

WRITER = textwrap.dedent(
    """
    import sys
    from agui_codec.history import EventHistory, JSONLinesStore, SQLiteStore

    kind, path, writer, parts = sys.argv[1:]
    store = {"jsonl": JSONLinesStore, "sqlite": SQLiteStore}[kind](path, sync=False)
    history = EventHistory(store)
    number = sum(run.run_id.startswith(f"{writer}-") for run in history.runs("t"))
    print("ready", flush=True)
    while True:
        run = f"{writer}-{number}"
        message = {"messageId": f"m-{run}"}
        history.append([
            {"type": "RUN_STARTED", "threadId": "t", "runId": run},
            {"type": "TEXT_MESSAGE_START", **message},
            {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": "x" * int(parts)},
            {"type": "TEXT_MESSAGE_END", **message},
            {"type": "CUSTOM", "name": "big", "value": "y" * int(parts)},
            {"type": "RUN_FINISHED", "threadId": "t", "runId": run},
        ])
        print(run, flush=True)
        number += 1
    """
)


def writer(kind: str, path: Path, name: str, size: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", WRITER, kind, str(path), name, str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", STORES)
def test_kill_9_loses_no_completed_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    rng = random.Random(1)
    completed: list[str] = []
    for _ in range(12):
        process = writer(kind, path, "w", 200_000)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.08)
        process.send_signal(signal.SIGKILL)
        completed += process.stdout.read().split()
        process.wait()
        process.stdout.close()
        history = EventHistory(STORES[kind](path))
        stored = [one.run_id for one in history.runs("t")]
        # The last may be stored without having been reported.
        assert stored[: len(completed)] == completed
        assert len(stored) - len(completed) <= 1
        completed = stored
        if stored:
            assert len(history.messages("t")) == len(stored)
        history.close()
    assert len(completed) > 12


@pytest.mark.parametrize("kind", STORES)
def test_two_processes_append(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    processes = [writer(kind, path, name, 2_000) for name in "ab"]
    reported: list[list[str]] = []
    for process in processes:
        assert process.stdout is not None
        for _ in range(30):
            assert process.stdout.readline()
    for process in processes:
        assert process.stdout is not None
        process.send_signal(signal.SIGKILL)
        reported.append(process.stdout.read().split())
        process.wait()
        process.stdout.close()
    history = EventHistory(STORES[kind](path))
    stored = [one.run_id for one in history.runs("t")]
    assert len(stored) >= 58
    for name, rest in zip("ab", reported, strict=True):
        mine = [one for one in stored if one.startswith(name)]
        assert mine == [f"{name}-{number}" for number in range(len(mine))]
        assert set(rest) <= set(mine)
    # One line through all of them: each run continues the one that was stored before it.
    assert [one.run_id for one in history.line("t")] == stored
    assert len(history.messages("t")) == len(stored)
    history.close()


@pytest.mark.parametrize("kind", STORES)
def test_threads_of_one_process_append(kind: str, tmp_path: Path) -> None:
    history = EventHistory(STORES[kind](tmp_path / "history"))

    def work(name: str) -> None:
        for number in range(20):
            history.append(run(f"{name}{number}"))

    workers = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(history.line("t")) == 60
    history.close()


def test_a_torn_line_is_ignored_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = EventHistory(JSONLinesStore(path))
    history.append(run("r1"))
    whole = path.read_bytes()
    for torn in (b"{", whole[:-2], whole[: len(whole) // 2], b"\xff"):
        path.write_bytes(whole + torn)
        opened = EventHistory(JSONLinesStore(path))
        assert [one.run_id for one in opened.runs()] == ["r1"]
        opened.append(run("r2"))
        assert [json.loads(line)["runId"] for line in path.read_bytes().splitlines()] == [
            "r1",
            "r2",
        ]


def test_a_failed_append_leaves_nothing(
    make: Callable[[], EventHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = make()
    history.append(run("r1"))

    def fail(*_: object) -> Any:
        raise RuntimeError("while building")

    monkeypatch.setattr(EventHistory, "_without_known", fail)
    given = {"threadId": "t", "runId": "r2", "messages": []}
    with pytest.raises(RuntimeError):
        history.append(run("r2", input=given))
    monkeypatch.undo()
    history.append(run("r2", input=given))
    assert [one.run_id for one in make().runs()] == ["r1", "r2"]


def test_ids_and_texts_of_any_script(make: Callable[[], EventHistory]) -> None:
    history = make()
    history.append(run("漢 \n'\"", "å😀\u2028\n", thread="t😀"))
    assert make().messages("t😀")[0].content == "å😀\u2028\n"
    assert make().runs("t😀")[0].run_id == "漢 \n'\""
