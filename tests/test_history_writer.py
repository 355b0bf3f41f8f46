"""Runs that are stored while they run, and the history of asyncio."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from agui_codec import AGUIError, SequenceError, verify_events
from agui_codec.history import (
    AsyncEventHistory,
    DuplicateRunError,
    EventHistory,
    HistoryError,
    JSONLinesStore,
    RunNotFoundError,
    RunStore,
    SQLiteStore,
)
from agui_codec.history import aio as aio_module
from test_history import STORES, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], RunStore]:
    return lambda: STORES[request.param](tmp_path / "history")


def test_a_run_is_there_while_it_runs(store: Callable[[], RunStore]) -> None:
    with EventHistory(store()) as history, EventHistory(store()) as reader:
        events = run("r1", "abcdef")
        with history.writer() as writer:
            for position, event in enumerate(events):
                writer.write([event])
                assert [one.outcome for one in reader.runs()] == ["open"]
                assert len(list(reader.replay("t"))) == position + 1
                shown = "".join("abcdef"[: max(0, min(position - 2, 6))])
                assert "".join(one.content or "" for one in reader.messages("t")) == shown
            assert "run 'r1', open" in repr(writer)
        assert writer.run is not None
        assert writer.run.outcome == "success"
        assert writer.run.stored_at is not None
        assert [one.outcome for one in reader.runs()] == ["success"]
        # Compacted, as if it had been appended.
        history.delete_thread("t")
        stored = list(reader.replay("t")) if reader.threads() else None
        assert stored is None
        history.append(events)
        expected = list(history.replay("t"))
        history.delete_thread("t")
        with history.writer() as writer:
            writer.write(events)
        assert list(reader.replay("t")) == expected


def test_what_an_exception_leaves(store: Callable[[], RunStore]) -> None:
    with EventHistory(store()) as history:
        errors: list[tuple[type[BaseException], str]] = [
            (RuntimeError, "error"),
            (KeyboardInterrupt, "cancelled"),
            (asyncio.CancelledError, "cancelled"),
            (GeneratorExit, "cancelled"),
        ]
        for number, (error, outcome) in enumerate(errors):

            def broken(number: int = number, error: type[BaseException] = error) -> None:
                with history.writer() as writer:
                    writer.write(run(f"r{number}", "abc")[:4])
                    raise error

            with pytest.raises(error):
                broken()
            assert history.runs()[-1].outcome == outcome
        with history.writer() as writer:
            writer.write(run("last")[:3])
        assert history.runs()[-1].outcome == "truncated"
        list(verify_events(history.replay("t")))
        # Nothing written, nothing stored.
        with history.writer():
            pass
        assert len(history.runs()) == 5


def test_finish_and_abort(store: Callable[[], RunStore]) -> None:
    with EventHistory(store()) as history:
        writer = history.writer()
        with pytest.raises(AGUIError, match="found 0 runs"):
            writer.finish()
        writer.write(run("r1")[:3])
        with pytest.raises(ValueError, match="not 'success'"):
            writer.abort("success")
        first = writer.abort()
        assert first.outcome == "cancelled"
        assert writer.abort("error") is first
        assert writer.finish() is first
        with pytest.raises(HistoryError, match="'r1' has already ended"):
            writer.write(run("r1")[3:4])
        writer = history.writer()
        writer.write(run("r2"))
        # Its own end counts.
        assert writer.abort("error").outcome == "success"


def test_what_is_refused(store: Callable[[], RunStore]) -> None:
    with EventHistory(store()) as history:
        history.append(run("r1"))
        with pytest.raises(DuplicateRunError):
            history.writer().write(run("r1"))
        with pytest.raises(RunNotFoundError):
            history.writer().write(run("r2", parent="zz"))
        with pytest.raises(SequenceError):
            history.writer().write(run("r2")[1:])
        with pytest.raises(AGUIError, match="found 0 runs"):
            history.writer().write([{"type": "RUN_ERROR", "message": "x"}])
        writer = history.writer()
        with pytest.raises(AGUIError, match="found 2 runs"):
            writer.write(run("r2") + run("r3"))
        assert writer.finish().outcome == "success"
        assert len(history.runs()) == 2
        # What came before an event out of place is stored, and the run can be ended.
        writer = history.writer()
        with pytest.raises(SequenceError, match="no text message 'zz'"):
            writer.write([*run("r4", "ab")[:4], {"type": "TEXT_MESSAGE_END", "messageId": "zz"}])
        assert history.messages("t")[-1].content == "a"
        assert writer.abort("error").outcome == "error"
        assert history.messages("t")[-1].content == "a"
        # A run that was deleted, or ended by someone else, under its writer.
        writer = history.writer()
        writer.write(run("r5")[:2])
        assert history.end("t", "r5").outcome == "truncated"
        with pytest.raises(HistoryError, match="has already ended"):
            writer.write(run("r5")[2:])
        with pytest.raises(HistoryError, match="has already ended"):
            history.end("t", "r5")
        history.delete_thread("t")
        with pytest.raises(RunNotFoundError):
            writer.finish()


def test_the_input_is_normalized(store: Callable[[], RunStore]) -> None:
    with EventHistory(store()) as history:
        users = [{"id": f"u{n}", "role": "user", "content": str(n)} for n in range(2)]
        history.append(run("r1"), input={"threadId": "t", "runId": "r1", "messages": users[:1]})
        with history.writer(input={"threadId": "t", "runId": "r2", "messages": users}) as writer:
            writer.write(run("r2"))
        starts = [one for one in history.replay("t") if one["type"] == "RUN_STARTED"]
        assert [[m["id"] for m in one["input"]["messages"]] for one in starts] == [["u0"], ["u1"]]


def test_runs_side_by_side(store: Callable[[], RunStore]) -> None:
    """Two writers of a process and one of another store, a thread each."""
    with EventHistory(store()) as history, EventHistory(store()) as other:

        def work(where: EventHistory, thread: str) -> None:
            for number in range(5):
                with where.writer() as writer:
                    for event in run(f"r{number}", "abc", thread=thread):
                        writer.write([event])

        places = ((history, "a"), (history, "b"), (other, "c"))
        threads = [threading.Thread(target=work, args=place) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for thread_id in "abc":
            assert [one.content for one in other.messages(thread_id)] == ["abc"] * 5
            assert {one.outcome for one in history.runs(thread_id)} == {"success"}


KILLED = textwrap.dedent(
    """
    import sys
    from agui_codec.history import EventHistory, JSONLinesStore, SQLiteStore

    kind, path, run = sys.argv[1:]
    history = EventHistory({"jsonl": JSONLinesStore, "sqlite": SQLiteStore}[kind](path, sync=False))
    writer = history.writer()
    writer.write([{"type": "RUN_STARTED", "threadId": "t", "runId": run},
                  {"type": "TEXT_MESSAGE_START", "messageId": run}])
    print(0, flush=True)
    for number in range(1, 100_000):
        writer.write([{"type": "TEXT_MESSAGE_CONTENT", "messageId": run, "delta": "x" * 1000}])
        print(number, flush=True)
    """
)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("kind", STORES)
def test_kill_9_loses_no_batch(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    for attempt in range(5):
        name = f"run{attempt}"
        command = [sys.executable, "-c", KILLED, kind, str(path), name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(20 + 7 * attempt):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
        process.wait()
        process.stdout.close()
        written = 19 + 7 * attempt + len(rest)
        with EventHistory(STORES[kind](path)) as history:
            info = history.runs()[-1]
            assert (info.run_id, info.outcome) == (name, "open")
            length = len(history.messages("t")[-1].content)
            # The last batch may be stored without having been reported.
            assert length in (1000 * written, 1000 * (written + 1))
            assert len(history.messages("t")) == attempt + 1
            if attempt % 2:
                assert history.end("t", name).outcome == "truncated"
                assert len(history.messages("t")[-1].content) == length
    with EventHistory(STORES[kind](path)) as history:
        outcomes = [one.outcome for one in history.runs()]
        assert outcomes == ["open", "truncated", "open", "truncated", "open"]
        # The last may be running still, all others are closed by what the replay adds.
        *_, last = history.replay("t")
        assert last["type"] == "TEXT_MESSAGE_CONTENT"
        list(verify_events([*history.replay("t"), {"type": "RUN_ERROR", "message": "x"}]))
        history.append(run("next", parent="run4"))
        list(verify_events(history.replay("t")))


def test_a_lost_batch_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = EventHistory(JSONLinesStore(path))
    writer = history.writer()
    for event in run("r1"):
        writer.write([event])
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[2]
    path.write_bytes(b"".join(lines))
    opened = EventHistory(JSONLinesStore(path))
    with pytest.raises(AGUIError, match=r"line 3: .*batch 3 follows 2"):
        opened.messages("t")


def test_deletion_drops_what_the_end_of_a_run_replaced(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with EventHistory(JSONLinesStore(path)) as history:
        with history.writer() as writer:
            for event in run("r1", "abcdef"):
                writer.write([event])
        going = history.writer()
        going.write(run("r2")[:2])
        going.write(run("r2")[2:4])
        history.append(run("r1", thread="gone"))
        before = len(path.read_bytes().splitlines())
        assert history.delete_thread("gone") == 1
        assert before - len(path.read_bytes().splitlines()) == 11 + 1 - 1
        # Those of a run that is open stay, and its writer goes on.
        going.write(run("r2")[4:])
        assert going.finish().outcome == "success"
        assert [one.content for one in history.messages("t")] == ["abcdef", "x"]


# --- asyncio -------------------------------------------------------------------------------


def test_the_history_of_asyncio(store: Callable[[], RunStore]) -> None:
    async def main() -> None:
        async with AsyncEventHistory(store()) as history:
            assert (await history.append(run("r1", "ab"))).outcome == "success"
            with pytest.raises(DuplicateRunError):
                await history.append(run("r1"))
            with pytest.raises(RunNotFoundError):
                await history.replay("t", "nope")
            async with history.writer() as writer:
                for event in run("r2", "cd", parent="r1"):
                    await writer.write([event])
            assert writer.run is not None
            assert writer.run.outcome == "success"
            assert repr(writer).startswith("AsyncRunWriter(thread 't'")
            assert await history.threads() == ["t"]
            assert len(await history.runs()) == len(await history.line("t")) == 2
            assert [one.content for one in await history.messages("t")] == ["ab", "cd"]
            assert await history.state("t") == {"r1": "ab", "r2": "cd"}
            assert len((await history.reducer("t")).messages) == 2
            given = {"threadId": "t", "runId": "r3", "messages": [{"id": "m-r1", "role": "user"}]}
            assert (await history.normalized(given))["messages"] == []
            kinds = [event["type"] async for event in await history.replay("t")]
            assert kinds.count("RUN_STARTED") == 2
            writer = history.writer()
            await writer.write(run("r3")[:2])
            assert (await writer.abort()).outcome == "cancelled"
            writer = history.writer()
            await writer.write(run("r4")[:2])
            assert (await history.end("t", "r4")).outcome == "truncated"
            assert await history.delete_thread("t") == 4
            assert await history.delete_before(datetime.now(timezone.utc)) == 0
            assert repr(history).startswith("AsyncEventHistory(")

    asyncio.run(main())


def test_every_method_is_there() -> None:
    sync = {name for name in vars(EventHistory) if not name.startswith("_")} - {"KEPT"}
    assert sync == {name for name in vars(AsyncEventHistory) if not name.startswith("_")}


def test_both_faces_of_one_history() -> None:
    history = EventHistory(SQLiteStore(":memory:"))

    async def main() -> list[str]:
        await AsyncEventHistory(history).append(run("r1"))
        return await AsyncEventHistory(history).threads()

    assert asyncio.run(main()) == history.threads() == ["t"]
    history.close()


def test_a_long_replay_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_module, "REPLAYED_AT_ONCE", 3)

    async def main() -> None:
        async with AsyncEventHistory(SQLiteStore(":memory:")) as history:
            for number in range(4):
                await history.append(run(f"r{number}"))
            events = [event async for event in await history.replay("t")]
            assert len(events) == 4 * 6

    asyncio.run(main())


def test_a_cancelled_call_leaves_no_work_behind(
    store: Callable[[], RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go = threading.Event(), threading.Event()
    real = RunStore.append

    async def main() -> None:
        async with AsyncEventHistory(store()) as history:
            inner: Any = history._history._store
            real = inner.append
            done = []

            def slow(*args: Any) -> Any:
                entered.set()
                go.wait(10)
                stored = real(*args)
                done.append(stored)
                return stored

            monkeypatch.setattr(inner, "append", slow)
            task = asyncio.create_task(history.append(run("r1")))
            await asyncio.to_thread(entered.wait)
            task.cancel()
            await asyncio.sleep(0.02)
            assert not task.done()
            task.cancel()
            await asyncio.sleep(0.02)
            assert not task.done()
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            # What it had begun was done, whole, before the task ended.
            assert len(done) == 1
            assert [one.run_id for one in await history.runs()] == ["r1"]

    assert real is RunStore.append
    asyncio.run(main())


def test_a_cancelled_run_is_stored_as_it_is(store: Callable[[], RunStore]) -> None:
    async def main() -> None:
        async with AsyncEventHistory(store()) as history:
            written = asyncio.Event()

            async def serve() -> None:
                async with history.writer() as writer:
                    await writer.write(run("r1", "abc")[:5])
                    written.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(serve())
            await written.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [one.outcome for one in await history.runs()] == ["cancelled"]
            assert (await history.messages("t"))[0].content == "ab"

    asyncio.run(main())
