"""What the reducer copies: counted by looking for the containers that hold a marker."""

from __future__ import annotations

import contextlib
import gc
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agui_codec import EventReducer, PatchError, apply_patch
from streams import event, start


@pytest.fixture(autouse=True)
def few_objects() -> Iterator[None]:
    # What was there before is not looked through for each of the many looks.
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def holder(marker: str) -> int:
    """The id of the one dict that has this very marker under "marker", without reading it."""
    found = [
        one
        for one in gc.get_referrers(marker)
        if type(one) is dict and one.get("marker") is marker and "tracked" in one
    ]
    assert len(found) == 1, found
    return id(found[0])


def marked(marker: str) -> dict[str, Any]:
    # A list keeps the dict among the objects that the garbage collector knows.
    return {"marker": marker, "tracked": [], "deep": {"list": [1]}}


def state_delta(*patch: Any) -> dict[str, Any]:
    return event("STATE_DELTA", delta=list(patch))


def add(path: str, value: Any = 1) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def growing_state(marker: str, as_dict: bool) -> tuple[EventReducer, Callable[[int], Any]]:
    reduced = EventReducer(as_dict=as_dict)
    reduced.apply(event("STATE_SNAPSHOT", snapshot=marked(marker)))
    return reduced, lambda n: reduced.apply(state_delta(add(f"/k{n}"), add("/tracked/-", [n])))


def growing_activity(marker: str, as_dict: bool) -> tuple[EventReducer, Callable[[int], Any]]:
    reduced = EventReducer(as_dict=True)
    target = {"messageId": "p", "activityType": "plan"}
    reduced.apply(event("ACTIVITY_SNAPSHOT", content=marked(marker), **target))
    return reduced, lambda n: reduced.apply(
        event("ACTIVITY_DELTA", patch=[add(f"/k{n}")], **target)
    )


def growing_metadata(marker: str, as_dict: bool) -> tuple[EventReducer, Callable[[int], Any]]:
    reduced = EventReducer(as_dict=as_dict)
    reduced.apply(start("m", metadata=marked(marker)))
    return reduced, lambda n: reduced.apply(
        event("TEXT_MESSAGE_CONTENT", messageId="m", delta="x", metadata={f"k{n}": n})
    )


def growing_call_metadata(marker: str, as_dict: bool) -> tuple[EventReducer, Callable[[int], Any]]:
    reduced = EventReducer(as_dict=as_dict)
    fields: dict[str, Any] = {"toolCallId": "c", "metadata": marked(marker)}
    reduced.apply(event("TOOL_CALL_START", toolCallName="f", **fields))
    return reduced, lambda n: reduced.apply(
        event("TOOL_CALL_ARGS", toolCallId="c", delta="x", metadata={f"k{n}": n})
    )


def text_of(*values: Any) -> str:
    def plain(value: Any) -> Any:
        return value.model_dump(by_alias=True)

    return json.dumps(values, default=plain)


GROWING = [growing_state, growing_activity, growing_metadata, growing_call_metadata]


@pytest.mark.parametrize("growing", GROWING)
def test_what_nobody_read_is_not_copied(growing: Any) -> None:
    marker = "".join(["mark", "er"])
    reduced, grow = growing(marker, True)
    grow(0)
    first = holder(marker)
    for n in range(1, 2_000):
        grow(n)
    assert holder(marker) == first
    assert "k1999" in text_of(reduced.messages, reduced.state)


@pytest.mark.parametrize("growing", GROWING)
@pytest.mark.parametrize("as_dict", [True, False])
def test_what_was_read_never_changes_and_is_copied_few_times(growing: Any, as_dict: bool) -> None:
    marker = "".join(["mark", "er"])
    reduced, grow = growing(marker, as_dict)
    for n in range(500):
        grow(n)
    seen = [reduced.messages, reduced.state]
    text = text_of(*seen)
    copies = set()
    for n in range(500, 1_500):
        grow(n)
        found = {
            id(one)
            for one in gc.get_referrers(marker)
            if type(one) is dict and "k499" in one and "tracked" in one
        }
        copies |= found
    assert text_of(*seen) == text
    # That which was read, a few copies on the way, and one that stays.
    assert len(copies) <= 8
    after = text_of(reduced.messages, reduced.state)
    assert '"k1499"' in after
    branch = reduced.fork()
    grow(1_500)
    assert text_of(branch.messages, branch.state) == after
    between = text_of(reduced.messages, reduced.state)
    assert '"k1500"' in between


def test_results_stand_behind_their_message_in_the_order_they_came() -> None:
    reduced = EventReducer(as_dict=True)
    for n in range(300):
        fields = {"toolCallId": f"c{n}", "parentMessageId": "a"}
        reduced.apply(event("TOOL_CALL_START", toolCallName="f", **fields))
    reduced.apply(start("later"))

    def result(n: int) -> None:
        fields = {"messageId": f"r{n}", "toolCallId": f"c{n}"}
        reduced.apply(event("TOOL_CALL_RESULT", content="ok", **fields))

    for n in range(200):
        result(n)
    branch = reduced.fork()
    # A row of results that something else interrupts ends there.
    reduced.apply(event("ACTIVITY_SNAPSHOT", messageId="r50", activityType="t", content={}))
    for n in range(200, 202):
        result(n)
    rows = [f"r{n}" for n in range(202)]
    ids = [message["id"] for message in reduced.messages]
    assert ids == ["a", *rows[:50], *rows[200:], *rows[50:200], "later"]
    reduced = branch
    result(200)
    assert [message["id"] for message in reduced.messages] == ["a", *rows[:201], "later"]


PATHS = ["", "/a", "/b", "/a/x", "/a/list", "/a/list/0", "/a/list/1", "/a/list/-", "/b/0", "/b/0/y",
         "/zz/q"]  # fmt: skip


def random_patch(rng: random.Random) -> list[dict[str, Any]]:
    def operation() -> dict[str, Any]:
        op = rng.choice(["add", "add", "add", "replace", "remove", "move", "copy", "test"])
        path = rng.choice(PATHS[1:] if rng.random() < 0.9 else PATHS)
        if op in ("move", "copy"):
            return {"op": op, "from": rng.choice(PATHS[1:]), "path": path}
        value = rng.choice([1, {"x": 1}, {"list": [{"x": 1}, 2]}, [{"y": 1}], []])
        return (
            {"op": op, "path": path, "value": value} if op != "remove" else {"op": op, "path": path}
        )

    return [operation() for _ in range(rng.choice([1, 1, 2, 3]))]


@pytest.mark.parametrize("seed", range(40))
def test_patches_are_whole_and_do_not_reach_what_was_read(seed: int) -> None:
    rng = random.Random(seed)
    document: Any = {"a": {"x": 1, "list": [{"x": 1}, 2]}, "b": [{"y": 1}]}
    reduced = EventReducer(as_dict=True, on_deviation=lambda _: None)
    target = {"messageId": "p", "activityType": "plan"}
    reduced.apply(event("STATE_SNAPSHOT", snapshot=document))
    reduced.apply(event("ACTIVITY_SNAPSHOT", content=document, **target))
    content = document
    kept: list[tuple[Any, str]] = []
    branches: list[tuple[EventReducer, str]] = []
    for _ in range(150):
        patch = random_patch(rng)
        before = json.dumps(patch)
        reduced.apply(state_delta(*patch))
        reduced.apply(event("ACTIVITY_DELTA", patch=patch, **target))
        assert json.dumps(patch) == before
        with contextlib.suppress(PatchError):
            document = apply_patch(document, patch)
        with contextlib.suppress(PatchError):
            patched = apply_patch(content, patch)
            content = patched if isinstance(patched, dict) else content
        if rng.random() < 0.3:
            assert reduced.state == document
            assert reduced.messages[0]["content"] == content
            for one in (reduced.state, reduced.messages):
                kept.append((one, json.dumps(one)))
        if rng.random() < 0.05:
            branch, reduced = reduced, reduced.fork()
            branches.append((branch, json.dumps([branch.messages, branch.state])))
    assert reduced.state == document
    assert all(json.dumps(one) == text for one, text in kept)
    assert all(json.dumps([one.messages, one.state]) == text for one, text in branches)
