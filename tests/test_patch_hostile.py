"""JSON Patch while Python code or other threads change the document under it."""

import gc
import json
import subprocess
import sys
import sysconfig
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import agui_codec
from agui_codec import EventReducer, PatchError, apply_patch, create_patch


class Key(str):
    """A key that hashes like the plain str and runs `act` when it is compared."""

    act: Callable[[], object] = staticmethod(lambda: None)

    def __eq__(self, other: object) -> bool:
        type(self).act()
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def key_that(act: Callable[[], object], text: str = "a") -> str:
    class Acting(Key):
        pass

    key = Acting(text)
    Acting.act = staticmethod(act)
    return key


def outcome(document: Any, patch: list[Any]) -> PatchError | None:
    try:
        apply_patch(document, patch, in_place=True)
    except PatchError as error:
        return error
    return None


FAILS = {"op": "test", "path": "/b", "value": "not this"}


@pytest.mark.parametrize("op", ["remove", "replace", "add", "move", "copy"])
@pytest.mark.parametrize("then", [[], [FAILS]])
def test_a_key_whose_comparison_clears_the_document(op: str, then: list[Any]) -> None:
    document: dict[str, Any] = {}
    armed = False

    def act() -> None:
        if armed:
            document.clear()

    document[key_that(act)] = 1
    document["b"] = 2
    operation = {"op": op, "path": "/a", "value": 3}
    if op in ("move", "copy"):
        operation = {"op": op, "from": "/a", "path": "/c"}
    armed = True
    error = outcome(document, [operation, *then])
    armed = False
    assert error is not None
    # What Python did stands, and nothing of the patch does.
    assert document == {}


@pytest.mark.parametrize("path", ["/a", "/a/x"])
def test_a_comparison_that_adds_members_without_end(path: str) -> None:
    document: dict[str, Any] = {}
    armed = False

    def act() -> None:
        if armed:
            document[f"k{len(document)}"] = 0

    document[key_that(act)] = {"x": 1}
    armed = True
    outcome(document, [{"op": "remove", "path": path}, {"op": "add", "path": "/q", "value": 1}])
    outcome(document, [{"op": "test", "path": "", "value": {"a": 1}}])
    armed = False


def test_a_comparison_that_shortens_a_list() -> None:
    items: list[Any] = [1, 2, 3]

    class Shortens:
        def __eq__(self, other: object) -> bool:
            items.clear()
            return True

        __hash__ = None  # type: ignore[assignment]

    items[0] = Shortens()
    document = {"items": items, "n": 1}
    error = outcome(
        document,
        [
            {"op": "replace", "path": "/n", "value": 2},
            {"op": "test", "path": "/items", "value": [Shortens(), 2, 3]},
        ],
    )
    assert error is not None
    assert error.operation_index == 1
    assert document == {"items": [], "n": 1}


def test_a_copy_that_changes_the_document() -> None:
    document: dict[str, Any] = {"a": [1, 2], "n": 1}

    class Changes:
        def __deepcopy__(self, memo: Any) -> int:
            document["a"].clear()
            document.pop("n", None)
            return 5

    error = outcome(
        document,
        [
            {"op": "replace", "path": "/n", "value": 2},
            {"op": "add", "path": "/a/0", "value": Changes()},
            {"op": "add", "path": "/a/9", "value": 1},
        ],
    )
    assert error is not None
    # Both were emptied by Python, so that is how they stay.
    assert document["a"] == []
    assert document == {"a": []}


def test_a_change_is_seen_also_where_every_operation_applies() -> None:
    document: dict[str, Any] = {"a": {}, "n": 1}

    class Changes:
        def __deepcopy__(self, memo: Any) -> int:
            document["extra"] = True
            return 5

    error = outcome(
        document,
        [
            {"op": "add", "path": "/m", "value": 2},
            {"op": "add", "path": "/a/x", "value": Changes()},
        ],
    )
    assert error is not None
    assert "changed" in error.reason
    assert document["extra"] is True
    assert document["a"] == {}


def test_finalizers_of_removed_values_run_when_the_patch_is_done() -> None:
    document: dict[str, Any] = {"n": 1}

    class Last:
        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def __del__(self) -> None:
            document.clear()
            document["del"] = True

    # The last reference goes with the operation, which is then done: no error, no crash.
    for patch in (
        [{"op": "remove", "path": "/x"}],
        [{"op": "replace", "path": "/x", "value": 1}],
        [{"op": "add", "path": "/x", "value": 1}],
        [{"op": "remove", "path": "/x"}, {"op": "add", "path": "/y", "value": 1}],
    ):
        document.clear()
        document["x"] = Last()
        assert outcome(document, patch) is None
        assert document == {"del": True}
    # In a list.
    items: list[Any] = []

    class Item:
        def __del__(self) -> None:
            items.clear()

    for patch in (
        [{"op": "remove", "path": "/0"}],
        [{"op": "replace", "path": "/0", "value": 1}],
        [{"op": "replace", "path": "/1", "value": 1}, {"op": "remove", "path": "/0"}],
    ):
        items[:] = [Item(), 2, 3]
        assert outcome(items, patch) is None
        assert items == []
    # A patch that fails puts the value back, and nothing is finalized.
    document.clear()
    document["x"] = keep = Last()
    assert outcome(document, [{"op": "remove", "path": "/x"}, {"op": "remove", "path": "/zz"}])
    assert document == {"x": keep}


def test_a_patch_within_a_patch_is_refused() -> None:
    document: dict[str, Any] = {"a": 1}
    inner: list[PatchError | None] = []

    class Patches:
        def __deepcopy__(self, memo: Any) -> int:
            inner.append(outcome(document, [{"op": "remove", "path": "/a"}]))
            return 5

    assert outcome(document, [{"op": "add", "path": "/b", "value": Patches()}]) is None
    assert inner[0] is not None
    assert "being patched" in inner[0].reason
    assert document == {"a": 1, "b": 5}
    # And then it may be patched again.
    assert outcome(document, [{"op": "remove", "path": "/a"}]) is None
    assert document == {"b": 5}


class Slow:
    """A value whose copy and comparison let other threads run."""

    def __deepcopy__(self, memo: Any) -> "Slow":
        for _ in range(20):
            pass
        return self

    def __eq__(self, other: object) -> bool:
        for _ in range(20):
            pass
        return self is other

    __hash__ = None  # type: ignore[assignment]


def at_once(*works: Callable[[], None]) -> None:
    failed: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []


def test_threads_that_patch_one_document() -> None:
    slow = Slow()
    document: dict[str, Any] = {"a": {"n": 0}, "items": [1, 2, 3], "z": slow, "y": 1}
    document[key_that(lambda: sum(range(20)), "y")] = document.pop("y")
    good = [
        {"op": "remove", "path": "/a"},
        {"op": "test", "path": "/z", "value": slow},
        {"op": "add", "path": "/items/1", "value": 9},
        {"op": "add", "path": "/a", "value": {"n": 0}},
        {"op": "remove", "path": "/items/1"},
    ]
    bad = [
        {"op": "remove", "path": "/y"},
        {"op": "add", "path": "/items/0", "value": slow},
        {"op": "test", "path": "/z", "value": Slow()},
    ]

    def work(patch: list[Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(1_500):
                outcome(document, patch)

        return run

    at_once(work(good), work(bad), work(good), work(bad))
    assert document == {"a": {"n": 0}, "items": [1, 2, 3], "z": slow, "y": 1}


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="taking a patch back moves keys to their places: without the lock others see one absent",
)
def test_threads_that_write_while_a_document_is_patched() -> None:
    slow = Slow()
    document: dict[str, Any] = {"a": {"n": 0}, "items": [1, 2, 3], "z": slow}
    bad = [
        {"op": "remove", "path": "/a"},
        {"op": "add", "path": "/items/0", "value": slow},
        {"op": "test", "path": "/z", "value": Slow()},
    ]

    def write() -> None:
        for n in range(3_000):
            document[f"k{n % 50}"] = n
            document["items"].append(n)
            document.pop(f"k{(n + 25) % 50}", None)
            document["items"].pop()

    def patch() -> None:
        for _ in range(1_000):
            assert outcome(document, bad) is not None
            apply_patch(document, [{"op": "copy", "from": "", "path": "/copy"}])
            create_patch(document, {"items": [2, 3], "z": 1})

    at_once(patch, write, write)


def test_order_and_work_of_many_removals() -> None:
    # Taking one back needs the order of the members; that is kept once, not once a removal.
    size = 2_000
    document: dict[str, Any] = {f"k{n}": n for n in range(size)}
    text = json.dumps(document)
    patch = [{"op": "remove", "path": f"/k{n}"} for n in range(0, size, 2)]
    patch += [
        {"op": "add", "path": "/k0", "value": 1},
        {"op": "replace", "path": "/k1", "value": 2},
    ]
    error = outcome(document, [*patch, {"op": "remove", "path": "/zz"}])
    assert error is not None
    assert json.dumps(document) == text
    assert outcome(document, patch) is None
    assert len(document) == size // 2 + 1


# What a patch may make -------------------------------------------------------------------------

BOMB = [{"op": "copy", "from": "", "path": "/-"}] * 22


def count(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_patch_makes_is_bounded(in_place: bool) -> None:
    document: list[Any] = [0]
    with pytest.raises(PatchError, match="more than 1000000 values") as caught:
        apply_patch(document, BOMB, in_place=in_place)
    assert document == [0]
    assert caught.value.operation_index == 18
    assert caught.value.path == "/-"
    # By the number: what fits is made, one less is refused.
    made = count(apply_patch(document, BOMB[:8])) - 2
    result = apply_patch([0], BOMB[:8], in_place=in_place, max_values=made)
    assert count(result) == made + 2
    with pytest.raises(PatchError) as caught:
        apply_patch([0], BOMB[:8], in_place=in_place, max_values=made - 1)
    assert caught.value.operation_index == 7


def test_the_bound_counts_what_is_put_in_as_well() -> None:
    value = {"a": [1, 2], "b": {"c": None}}
    patch = [{"op": "add", "path": "/x", "value": value}]
    assert count(value) == 6
    assert apply_patch({}, patch, max_values=6) == {"x": value}
    with pytest.raises(PatchError, match="more than 5 values"):
        apply_patch({}, patch, max_values=5)
    for op in ("replace", "add"):
        with pytest.raises(PatchError, match="operation 1"):
            apply_patch({}, [*patch, {"op": op, "path": "/x", "value": 1}], max_values=6)
    # What is only moved, removed or compared makes nothing.
    moved = [
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "test", "path": "/b", "value": [1, 2, 3]},
        {"op": "remove", "path": "/b/0"},
    ]
    assert apply_patch({"a": [1, 2, 3]}, moved, max_values=0) == {"b": [2, 3]}


def test_no_more_is_made_than_the_bound() -> None:
    patch = [dict(operation) for operation in BOMB]
    for in_place in (False, True):
        tracemalloc.start()
        try:
            with pytest.raises(PatchError):
                apply_patch([0], patch, in_place=in_place, max_values=2_000)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # A value is a list header, its items and a slot in its parent.
        assert peak < 2_000 * 200


def test_the_reducer_has_the_bound_as_well() -> None:
    seen: list[agui_codec.Deviation] = []
    reducer = EventReducer(state=[0], on_deviation=seen.append, max_patch_values=100)
    reducer.apply({"type": "STATE_DELTA", "delta": BOMB})
    assert reducer.state == [0]
    assert [one.kind for one in seen] == ["patch_not_applied"]
    assert "more than 100 values" in seen[0].detail
    reducer.fork().apply({"type": "STATE_DELTA", "delta": BOMB})
    assert len(seen) == 2
    by_default = EventReducer(state=[0], on_deviation=seen.append)
    by_default.apply({"type": "STATE_DELTA", "delta": BOMB})
    assert by_default.state == [0]
    activity = EventReducer(
        [{"id": "m", "role": "activity", "activityType": "t", "content": {"l": [0]}}],
        on_deviation=seen.append,
        as_dict=True,
        max_patch_values=100,
    )
    bomb = [{"op": "copy", "from": "/l", "path": "/l/-"}] * 22
    activity.apply({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": bomb})
    assert activity.messages[0]["content"] == {"l": [0]}


@pytest.mark.parametrize("value", [-1, "1", 1.5])
def test_a_bound_that_is_none(value: Any) -> None:
    with pytest.raises((TypeError, OverflowError)):
        apply_patch({}, [], max_values=value)


# Depth on small stacks -------------------------------------------------------------------------

DEEP = """
import sys, threading
from agui_codec import MAX_DEPTH, PatchError, apply_patch, create_patch

def nested(levels, leaf, wide):
    value = leaf
    for level in range(levels):
        value = [0, value] if level % 2 ^ wide else {"k": value, "j": 0}
    return value

def run():
    for levels in (250, MAX_DEPTH, MAX_DEPTH - 1):
        for wide in (0, 1):
            one, two, same = (nested(levels, leaf, wide) for leaf in (1, 2, 1))
            patch = create_patch(one, two)
            assert len(patch) == 1
            for in_place in (False, True):
                apply_patch(same, patch, in_place=in_place)
            assert create_patch(one, nested(levels, 1, wide)) == []
            assert len(create_patch([], two)) == 1
            refused = 0
            try:
                assert create_patch([one, two], [two, one, 5]) != []
            except PatchError:
                refused += 1
            for document, patch in (
                ({"d": one}, [{"op": "copy", "from": "/d", "path": "/e"}]),
                ({"d": one}, [{"op": "test", "path": "/d", "value": nested(levels, 1, wide)}]),
                ({"d": one}, [{"op": "add", "path": "/e", "value": two}]),
                (one, [{"op": "test", "path": "", "value": two}]),
            ):
                for in_place in (False, True):
                    try:
                        apply_patch(document, patch, in_place=in_place)
                    except PatchError:
                        refused += 1
            print(levels, wide, refused, flush=True)
            keep.append((one, two, same))

# Python's own release of a deep value is left to the main thread.
keep = []

threading.stack_size(int(sys.argv[1]) * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("kibibytes", [256, 8192])
def test_documents_of_the_greatest_depth_on_a_small_stack(kibibytes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(kibibytes)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split("\n") == [
        *(f"250 {wide} 2" for wide in (0, 1)),
        *(f"254 {wide} 7" for wide in (0, 1)),
        *(f"253 {wide} 2" for wide in (0, 1)),
        "",
    ]


def test_nothing_is_kept() -> None:
    document: dict[str, Any] = {"a": 1, "b": [1, 2, 3]}
    patch = [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/b/0"}, FAILS]
    gc.collect()
    for _ in range(200):
        outcome(document, patch)
    blocks = sys.getallocatedblocks()
    for _ in range(2_000):
        outcome(document, patch)
    assert sys.getallocatedblocks() - blocks < 100
