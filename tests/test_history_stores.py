"""What stores promise beyond storing: errors, damage, deletion, times, files of older versions."""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agui_codec
from agui_codec import AGUIError, EventReducer, verify_events
from agui_codec.history import (
    DamagedRunError,
    DuplicateRunError,
    EventHistory,
    HistoryError,
    JSONLinesStore,
    RunNotFoundError,
    RunStore,
    SQLiteStore,
    StoreError,
)
from agui_codec.history import store as store_module
from test_history import STORES, run

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = Path(__file__).parent / "corpus/history-0.1"


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Callable[[Any], RunStore]:
    return STORES[request.param]


def ids(history: EventHistory, thread: str | None = None) -> list[str]:
    return [one.run_id for one in history.runs(thread)]


# --- errors --------------------------------------------------------------------------------


def test_what_is_missing_is_said_at_once(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    with EventHistory(store(tmp_path / "history")) as history:
        history.append(run("r1"))
        for ask in (
            history.replay,
            history.line,
            history.messages,
            history.state,
            history.reducer,
            history.end,
        ):
            with pytest.raises(
                RunNotFoundError, match="'nope' of thread 't' is not stored"
            ) as caught:
                ask("t", "nope")
            assert (caught.value.thread_id, caught.value.run_id) == ("t", "nope")
        with pytest.raises(RunNotFoundError, match="thread 'nope' is not stored"):
            history.replay("nope")
        with pytest.raises(RunNotFoundError, match="parent 'nope'"):
            history.append(run("r2", parent="nope"))


def test_an_id_that_no_store_can_hold(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    with EventHistory(store(tmp_path / "history")) as history:
        history.append(run("r1"))
        with pytest.raises(RunNotFoundError):
            history.messages("\ud800")
        with pytest.raises(RunNotFoundError):
            history.messages("t", "\ud800")
        assert history.runs("\ud800") == []
        assert history.delete_thread("\ud800") == 0
        with pytest.raises(AGUIError, match="surrogate"):
            history.append(run("\ud800"))
        with pytest.raises(AGUIError, match="no threadId"):
            history.normalized({"runId": "r"})


def test_what_is_there_already(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    with EventHistory(store(tmp_path / "history")) as history:
        history.append(run("r1"))
        with pytest.raises(
            DuplicateRunError, match="'r1' of thread 't' is already stored"
        ) as caught:
            history.append(run("r1"))
        assert isinstance(caught.value, HistoryError)
        assert isinstance(caught.value, AGUIError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.run_id) == (str(caught.value), "r1")


def test_a_database_that_stays_locked(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with EventHistory(SQLiteStore(path, timeout=0.01)) as history:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreError, match=r"history: database is locked \(for 0.01 s\)"
        ) as caught:
            history.append(run("r1"))
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert caught.value.path == str(path)
        other.execute("ROLLBACK")
        other.close()
        history.append(run("r1"))


def test_what_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(StoreError, match="history: file is not a database"):
        SQLiteStore(path)
    with pytest.raises(StoreError, match="unable to open"):
        SQLiteStore(tmp_path / "no/such/folder")
    history = EventHistory(SQLiteStore(tmp_path / "closed"))
    history.close()
    with pytest.raises(StoreError, match="closed database"):
        history.runs()


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "history"
    SQLiteStore(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version=99")
    other.close()
    with pytest.raises(StoreError, match="newer version"):
        SQLiteStore(path)


def test_events_in_a_database_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with EventHistory(SQLiteStore(path)) as history:
        history.append(run("r1"))
        history.append(run("r1", thread="other"))
        other = sqlite3.connect(path)
        other.execute("UPDATE runs SET events = '[' WHERE thread_id = 't'")
        other.commit()
        other.close()
        with pytest.raises(DamagedRunError, match="history: run 'r1' of thread 't'") as caught:
            history.messages("t")
        assert caught.value.path == str(path)
        assert len(history.messages("other")) == 1


OPENER = textwrap.dedent(
    """
    import sys
    from agui_codec.history import SQLiteStore

    print("ready", flush=True)
    for path in sys.stdin:
        try:
            SQLiteStore(path.strip()).close()
        except BaseException as error:
            print(repr(error), flush=True)
        else:
            print("ok", flush=True)
    """
)


def test_processes_open_a_fresh_database_at_once(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    openers = [
        subprocess.Popen([sys.executable, "-c", OPENER], stdin=pipe, stdout=pipe, text=True)
        for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    said = []
    for attempt in range(60):
        for opener in openers:
            assert opener.stdin is not None
            opener.stdin.write(f"{tmp_path / str(attempt)}\n")
            opener.stdin.flush()
        for opener in openers:
            assert opener.stdout is not None
            said.append(opener.stdout.readline())
    for opener in openers:
        opener.communicate()
    assert said == ["ok\n"] * 180


# --- damaged files -------------------------------------------------------------------------


def damaged_history(tmp_path: Path, change: Callable[[list[bytes]], None]) -> Path:
    """Runs a of thread t, b of thread other, c of thread t; and what is done to their lines."""
    path = tmp_path / "history.jsonl"
    history = EventHistory(JSONLinesStore(path))
    history.append(run("a"))
    history.append(run("b", thread="other"))
    history.append(run("c"))
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))
    return path


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[:] = [b"\n", lines[0], b" \r\n", b"\n", *lines[1:], b"\n"]

    history = EventHistory(JSONLinesStore(damaged_history(tmp_path, change)))
    assert ids(history) == ["a", "b", "c"]
    history.append(run("d"))
    assert [message.content for message in history.messages("t")] == ["x"] * 3


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b'{"time": 5, "level": "info"}\n',
        b"[1]\n",
        b"5\n",
        b"\xff\xfe\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b'{"a": 1,}\n',
        b'{"threadId": 5, "runId": "x", "parentRunId": null, "outcome": "x", "events": []}\n',
    ],
    ids=lambda line: line[:20].decode("latin-1"),
)
def test_a_line_of_something_else(tmp_path: Path, line: bytes) -> None:
    path = damaged_history(tmp_path, lambda lines: lines.insert(1, line))
    store = JSONLinesStore(path)
    history = EventHistory(store)
    assert ids(history) == ["a", "b", "c"]
    history.append(run("d"))
    assert len(history.messages("t")) == 3
    (damage,) = store.damaged()
    assert str(damage).startswith(f"{path}, line 2: not a stored run: ")
    assert (damage.path, damage.line, damage.thread_id) == (str(path), 2, None)
    # It is nobody's, and stays.
    history.delete_thread("t")
    assert line in path.read_bytes()


@pytest.mark.parametrize("where", ["head", "events", "end"])
def test_a_damaged_line_is_of_its_run_alone(tmp_path: Path, where: str) -> None:
    def change(lines: list[bytes]) -> None:
        cut = {"head": lines[0].index(b"outcome"), "end": len(lines[0]) - 5}.get(
            where, lines[0].index(b"TEXT_MESSAGE_START")
        )
        lines[0] = lines[0][:cut] + (b"" if where == "end" else b"\xff") + lines[0][cut + 4 :]
        if where == "end":
            lines[0] = lines[0][:-2] + b"\n"

    path = damaged_history(tmp_path, change)
    history = EventHistory(JSONLinesStore(path))
    message = r"history.jsonl, line 1: .*run 'a' of thread 't'"
    for ask in (history.messages, history.replay):
        with pytest.raises(DamagedRunError, match=message):
            list(ask("t", "a"))
    # What continues it is not readable without it.
    with pytest.raises(DamagedRunError):
        history.messages("t")
    assert len(history.messages("other")) == 1
    history.append(run("d", thread="other"))
    assert ids(history, "other") == ["b", "d"]
    with pytest.raises((DuplicateRunError, DamagedRunError)):
        history.append(run("a"))
    assert history.delete_thread("t") == 2
    assert ids(history) == ["b", "d"]
    assert b'"threadId": "t"' not in path.read_bytes()


def test_a_thread_does_not_forget_that_its_last_run_is_damaged(tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[2] = lines[2][: lines[2].index(b"outcome")] + b"\n"

    history = EventHistory(JSONLinesStore(damaged_history(tmp_path, change)))
    assert ids(history, "t") == ["a"]
    for ask in (history.messages, history.replay, history.line, history.state):
        with pytest.raises(DamagedRunError, match="line 3"):
            ask("t")
    with pytest.raises(DamagedRunError, match="line 3"):
        history.append(run("d"))
    # What does not need it goes on.
    assert len(history.messages("t", "a")) == 1
    history.append(run("d", parent="a"))
    assert len(history.messages("t")) == 2


def test_a_run_whose_id_is_damaged_may_be_any_of_its_thread(tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[0] = lines[0][:20] + b"\n"

    history = EventHistory(JSONLinesStore(damaged_history(tmp_path, change)))
    with pytest.raises(DamagedRunError, match="line 1"):
        history.messages("t", "a")
    with pytest.raises(RunNotFoundError):
        history.messages("other", "a")


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    def change(lines: list[bytes]) -> None:
        lines[2] = lines[2].rstrip(b"\n")

    path = damaged_history(tmp_path, change)
    history = EventHistory(JSONLinesStore(path))
    assert ids(history) == ["a", "b", "c"]
    EventHistory(JSONLinesStore(path)).append(run("d"))
    for opened in (history, EventHistory(JSONLinesStore(path))):
        assert ids(opened) == ["a", "b", "c", "d"]
        assert len(opened.messages("t")) == 3
    assert len(path.read_bytes().splitlines()) == 4


def test_a_line_that_another_program_has_written(tmp_path: Path) -> None:
    """Other spaces, another order: as `jq -cS .` would write it."""

    def change(lines: list[bytes]) -> None:
        lines[:] = [
            json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode() + b"\n"
            for line in lines
        ]

    path = damaged_history(tmp_path, change)
    history = EventHistory(JSONLinesStore(path))
    assert ids(history) == ["a", "b", "c"]
    assert len(history.messages("t")) == 2
    assert history.delete_thread("other") == 1
    assert ids(history) == ["a", "c"]
    assert b"other" not in path.read_bytes()


def test_a_run_that_is_there_twice_is_the_first(tmp_path: Path) -> None:
    path = damaged_history(tmp_path, lambda lines: lines.append(lines[0].replace(b"x", b"y")))
    store = JSONLinesStore(path)
    assert EventHistory(store).messages("t", "a")[0].content == "x"
    assert "line 4" in str(store.damaged()[0])


def test_an_id_may_look_like_the_middle_of_a_line(tmp_path: Path) -> None:
    odd = 't", "events": [{"\\'
    with EventHistory(JSONLinesStore(tmp_path / "history")) as history:
        history.append(run(odd, thread=odd))
        history.append(run("r2", thread=odd))
    opened = EventHistory(JSONLinesStore(tmp_path / "history"))
    assert ids(opened, odd) == [odd, "r2"]
    assert len(opened.messages(odd)) == 2
    assert opened.delete_thread(odd) == 2


def test_a_file_that_was_cut_or_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = EventHistory(JSONLinesStore(path))
    history.append(run("r1"))
    first = path.read_bytes()
    history.append(run("r2"))
    path.write_bytes(first)
    assert ids(history) == ["r1"]
    path.unlink()
    EventHistory(JSONLinesStore(path)).append(run("new"))
    assert ids(history) == ["new"]


# --- deletion and times --------------------------------------------------------------------


def test_a_thread_is_deleted(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    path = tmp_path / "history"
    with EventHistory(store(path)) as history, EventHistory(store(path)) as other:
        secret = "S3CRET-TEXT"
        for number in range(3):
            history.append(run(f"r{number}", secret))
            history.append(run(f"r{number}", thread="kept"))
        assert len(other.messages("t")) == 3
        assert history.delete_thread("t") == 3
        assert history.delete_thread("t") == 0
        for opened in (history, other):
            assert opened.threads() == ["kept"]
            assert len(opened.messages("kept")) == 3
            with pytest.raises(RunNotFoundError):
                opened.messages("t")
        # Its ids can be used again, and nothing of the old is left in what is kept in memory.
        other.append(run("r0", "new"))
        assert [message.content for message in history.messages("t")] == ["new"]
        assert history.state("t") == {"r0": "new"}
        assert other.delete_thread("t") == 1
        history.append(run("r3", thread="kept"))
        assert len(other.messages("kept")) == 4
    if store is JSONLinesStore:
        assert secret.encode() not in path.read_bytes()


def test_threads_that_have_rested_are_deleted(
    store: Callable[[Any], RunStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    days = iter(range(9))
    for name in ("jsonl", "sqlite"):
        module = sys.modules[f"agui_codec.history.{name}"]
        monkeypatch.setattr(module, "now", lambda: start + timedelta(days=next(days)))
    with EventHistory(store(tmp_path / "history")) as history:
        history.append(run("r1", thread="old"))
        history.append(run("r1", thread="gone"))
        history.append(run("r2", thread="gone"))
        history.append(run("r2", thread="old"))
        assert [one.stored_at for one in history.runs("old")] == [start, start + timedelta(days=3)]
        # The first run of `old` is older than that, but its last is not.
        assert history.delete_before(start + timedelta(days=2)) == 0
        assert history.delete_before(start + timedelta(days=3)) == 2
        assert history.threads() == ["old"]
        with pytest.raises(ValueError, match="time zone"):
            history.delete_before(datetime(2026, 1, 1))


def test_a_run_knows_its_times(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    path = tmp_path / "history"
    with EventHistory(store(path)) as history:
        before = store_module.now()
        history.append(
            [{**event, "timestamp": 1000 + 500 * n} for n, event in enumerate(run("r1"))]
        )
        history.append(run("r2"))
        history.append([{**event, "timestamp": 2**53 - 1} for event in run("r3")])
    with EventHistory(store(path)) as history:
        timed, without, absurd = history.runs()
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        assert timed.began_at == epoch + timedelta(seconds=1)
        assert timed.ended_at == epoch + timedelta(seconds=3.5)
        assert timed.stored_at is not None
        assert before <= timed.stored_at <= store_module.now()
        assert (without.began_at, without.ended_at) == (None, None)
        # No date, and no failure.
        assert (absurd.began_at, absurd.ended_at) == (None, None)


# --- files of version 0.1 ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["history.jsonl", "history.sqlite"])
def test_what_the_first_version_has_written(tmp_path: Path, name: str) -> None:
    path = shutil.copy(OLD / name, tmp_path)
    kind = JSONLinesStore if name.endswith("jsonl") else SQLiteStore
    for attempt in range(2):
        with EventHistory(kind(path)) as history:
            assert ids(history, "t")[:3] == ["r1", "r2", "r3"]
            assert [one.outcome for one in history.runs()[:4]] == ["success"] * 3 + ["error"]
            assert all(one.stored_at is None for one in history.runs()[:4])
            assert [one.content for one in history.messages("t", "r3")] == [
                "Hallo",
                "Grüezi 😀",
                "drei",
            ]
            assert history.state("t", "r2") == {"r2": "zwei"}
            if attempt == 0:
                history.append(run("r4", "vier", parent="r2"))
            assert history.messages("t")[-1].content == "vier"
            # When they were stored is not known.
            assert history.delete_before(datetime(2999, 1, 1, tzinfo=timezone.utc)) == 0
    with EventHistory(kind(path)) as history:
        assert history.delete_thread("t") == 4
        assert history.threads() == ["other"]


def test_an_old_database_is_brought_up_to_date_by_all_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path = shutil.copy(OLD / "history.sqlite", tmp_path / str(attempt))
        stores: list[SQLiteStore] = []
        threads = [
            threading.Thread(target=lambda p=path, s=stores: s.append(SQLiteStore(p)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(store.runs()) for store in stores] == [4] * 4
        for store in stores:
            store.close()


# --- and the rest --------------------------------------------------------------------------


def test_reprs(tmp_path: Path) -> None:
    path = str(tmp_path / "history")
    with EventHistory(JSONLinesStore(path)) as history:
        assert repr(history) == f"EventHistory(JSONLinesStore({path!r}))"
        assert repr(history.writer()) == "RunWriter(nothing written)"
    with EventHistory(SQLiteStore(":memory:")) as history:
        assert repr(history) == "EventHistory(SQLiteStore(':memory:'))"


def test_the_names_of_the_package() -> None:
    for name in ("AsyncEventHistory", "DuplicateRunError", "RunNotFoundError", "EventHistory"):
        assert name in agui_codec.__all__
        assert getattr(agui_codec, name).__name__ == name


def test_appending_does_not_depend_on_the_thread(
    store: Callable[[Any], RunStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: what is read of a run for a run that continues a thread of any length."""
    with EventHistory(store(tmp_path / "history")) as history:
        reads: list[str] = []
        for name in ("events", "info", "last", "runs"):
            real = getattr(type(history._store), name)

            def counted(self: RunStore, *args: Any, real: Any = real, name: str = name) -> Any:
                reads.append(name)
                return real(self, *args)

            monkeypatch.setattr(type(history._store), name, counted)
        counts = []
        for number in range(60):
            reads.clear()
            messages = [{"id": f"u{number}", "role": "user", "content": "x"}]
            history.append(
                run(f"r{number}"),
                input={"threadId": "t", "runId": f"r{number}", "messages": messages},
            )
            counts.append(len(reads))
            assert "runs" not in reads
        assert counts[5] == counts[59]


def test_a_replay_is_a_legal_stream(store: Callable[[Any], RunStore], tmp_path: Path) -> None:
    with EventHistory(store(tmp_path / "history")) as history:
        history.append(run("r1"))
        for number, outcome in enumerate(("cancelled", "error", "truncated")):
            events = run(f"broken{number}", "abc")
            for cut in range(1, len(events)):
                name = f"{number}.{cut}"
                events[0]["runId"] = name
                assert history.append(events[:cut], outcome=outcome).outcome == outcome
        replayed = list(verify_events(history.replay("t")))
        assert [one["code"] for one in replayed if one["type"] == "RUN_ERROR"] == (
            ["cancelled"] * 7 + ["error"] * 7 + ["truncated"] * 7
        )
        reduced = EventReducer(on_deviation=lambda _: None).apply_all(replayed)
        assert reduced.messages == history.messages("t")


def test_a_run_that_broke_off_after_all_ended(tmp_path: Path) -> None:
    with EventHistory(JSONLinesStore(tmp_path / "history")) as history:
        assert history.append(run("r1"), outcome="cancelled").outcome == "success"
        with pytest.raises(ValueError, match="not 'open'"):
            history.append(run("r2"), outcome="open")
        chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "half of"}
        history.append([run("r2")[0], chunk], outcome="truncated")
        assert history.messages("t")[-1].content == "half of"
