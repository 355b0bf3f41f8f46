"""The reducer, the patch and the diff: work grows linearly with what they are given.

All that can grow, each a case below: messages, calls, results and what is pending; the state, an
activity and metadata; the operations of a patch and the document that it changes; the documents
that are compared.
"""

from __future__ import annotations

import pytest

from counting import EVENTS, growth

CASES = (
    EVENTS
    + """
import gc
# What it looks through depends on what the other cases have left.
gc.disable()

from agui_codec import EventReducer, PatchError, apply_patch, create_patch

def result(number):
    return call("RESULT", number, messageId=f"r{number}", content="ok")

def add(path, value=1, op="add"):
    return {"op": op, "path": path, "value": value}

def remove(path):
    return {"op": "remove", "path": path}

def delta(*patch):
    return event("STATE_DELTA", delta=list(patch))

def plan(*patch):
    return event("ACTIVITY_DELTA", messageId="p", activityType="plan", patch=list(patch))

def planned(value):
    return event("ACTIVITY_SNAPSHOT", messageId="p", activityType="plan", content=value)

def wide(n):
    return {f"k{k}": k for k in range(n)}

def snapshot(n):
    return event("MESSAGES_SNAPSHOT", messages=[
        {"id": f"m{k}", "role": "user", "content": "a"} for k in range(n)])

STREAMS = {
    "messages": lambda n: [text(kind, k, **more) for k in range(n) for kind, more in
        (("START", {"role": "assistant"}), ("CONTENT", {"delta": "a"}), ("END", {}))],
    "messages by turns": lambda n: [text("START", k) for k in range(n)] + [
        text("CONTENT", k, delta="a") for k in range(n)] * 2,
    "one long text": lambda n: [text("START", 0)] + [text("CONTENT", 0, delta="a")] * n,
    "long arguments": lambda n: [opened(0)] + [call("ARGS", 0, delta="a")] * n,
    "calls of one message and their results": lambda n: [
        opened(k, parentMessageId="m") for k in range(n)] + [result(k) for k in range(n)],
    "calls of one message, and results in reverse": lambda n: [
        opened(k, parentMessageId="m") for k in range(n)] + [
        result(k) for k in reversed(range(n))],
    "calls of one message and arguments by turns": lambda n: [
        opened(k, parentMessageId="m") for k in range(n)] + [
        call("ARGS", k, delta="a") for k in range(n)] * 2,
    "calls of their own messages": lambda n: [
        opened(k) for k in range(n)] + [result(k) for k in range(n)],
    "reasoning": lambda n: [event(f"REASONING_MESSAGE_{kind}", messageId=f"q{k}", delta="a")
        for k in range(n) for kind in ("START", "CONTENT", "END")],
    "snapshots of few messages": lambda n: [snapshot(3)] * n,
    "a snapshot": lambda n: [snapshot(n), snapshot(n)],
    "a snapshot that keeps activities": lambda n: [
        {**planned({}), "messageId": f"p{k}"} for k in range(n)] + [snapshot(n)],
    "activities": lambda n: [{**planned({}), "messageId": f"p{k}"} for k in range(n)] * 2,
    "a state that grows": lambda n: [state({"l": []})] + [delta(add(f"/k{k}")) for k in range(n)]
        + [delta(add("/l/-")) for k in range(n)],
    "a state that grows, two at a time": lambda n: [state({"l": []})] + [
        delta(add(f"/k{k}"), add("/l/-")) for k in range(n)],
    "a state whose keys are replaced": lambda n: [state(wide(n))] + [
        delta(add(f"/k{k}", 2, op="replace"), add("/k0", k)) for k in range(n)],
    "a state whose keys go": lambda n: [state(wide(n))] + [delta(remove(f"/k{k}"))
        for k in range(n)],
    "a state whose keys go and come": lambda n: [state(wide(n))] + [
        delta(remove(f"/k{k}"), add(f"/n{k}")) for k in range(n)],
    "an activity that grows": lambda n: [planned({"l": []})] + [
        plan(add(f"/k{k}"), add("/l/-")) for k in range(n)],
    "metadata": lambda n: [text("START", 0)] + [
        text("CONTENT", 0, delta="a", metadata={f"k{k}": k}) for k in range(n)],
    "deltas that are refused": lambda n: [state(wide(n))] + [
        delta(add("/x"), add("/no/such")) for k in range(n)],
    "subagents": lambda n: [event(kind, subagentRunId=f"s{k}", name="n")
        for k in range(n) for kind in ("SUBAGENT_STARTED", "SUBAGENT_FINISHED")],
    "steps": lambda n: [event(kind, stepName=f"s{k}")
        for kind in ("STEP_STARTED", "STEP_FINISHED") for k in range(n)],
    "interrupts": lambda n: [event("RUN_STARTED", threadId="t", runId="r"), event(
        "RUN_FINISHED", threadId="t", runId="r", outcome={"type": "interrupt", "interrupts": [
            {"id": f"i{k}", "reason": "x"} for k in range(n)]})],
}

PATCHES = {
    "adds": lambda n: ({}, [add(f"/k{k}") for k in range(n)]),
    "appends": lambda n: ([], [add("/-") for k in range(n)]),
    "removes": lambda n: (wide(n), [remove(f"/k{k}") for k in range(n)]),
    "removes in reverse": lambda n: (wide(n), [remove(f"/k{k}") for k in reversed(range(n))]),
    "removes from the end": lambda n: (list(range(n)), [remove(f"/{k}") for k in
        reversed(range(n))]),
    "replacements": lambda n: (wide(n), [add(f"/k{k}", 2, op="replace") for k in range(n)]),
    "tests": lambda n: (wide(n), [add(f"/k{k}", k, op="test") for k in range(n)]),
    "moves": lambda n: (wide(n), [
        {"op": "move", "from": f"/k{k}", "path": f"/n{k}"} for k in range(n)]),
    "copies": lambda n: ({"a": 1}, [
        {"op": "copy", "from": "/a", "path": f"/n{k}"} for k in range(n)]),
    "whole documents": lambda n: ({}, [add("", wide(3)) for k in range(n)]),
    "a wide document whose member changes": lambda n: (
        {"a": wide(n), "b": list(range(n))}, [add("/a/k0", 5)]),
    "refused at the end": lambda n: (wide(n), [remove(f"/k{k}") for k in range(n)]
        + [remove("/no")]),
    "refused after whole documents": lambda n: (
        wide(n), [add("", wide(3)) for k in range(n)] + [remove("/no")]),
}

BIG = 2**61 - 1
DIFFS = {
    "integers that collide": lambda n: (
        [k * BIG for k in range(n)], [k * BIG for k in range(n, 2 * n)]),
    "integers that collide, reversed": lambda n: (
        [k * BIG for k in range(n)], [k * BIG for k in reversed(range(n))]),
    "objects of integers that collide": lambda n: (
        [{"a": k * BIG} for k in range(n)], [{"a": k * BIG} for k in reversed(range(n))]),
    "arrays of integers that collide": lambda n: (
        [[k * BIG] for k in range(n)], [[k * BIG, 1] for k in range(n)]),
    "reversed": lambda n: (list(range(n)), list(reversed(range(n)))),
    "rotated": lambda n: (list(range(n)), [*range(n // 2, n), *range(n // 2)]),
    "nothing in common": lambda n: (list(range(n)), [f"{k}" for k in range(n)]),
    "one value": lambda n: ([1] * n, [1] * (n // 2)),
    "two values": lambda n: ([k % 2 for k in range(n)], [k % 3 == 0 and 1 or 0 for k in range(n)]),
    "each item twice": lambda n: ([k // 2 for k in range(n)], [k % (n // 2) for k in range(n)]),
    "objects that are nearly alike": lambda n: (
        [{"id": k, "a": 1, "b": [1, 2]} for k in range(n)],
        [{"id": k, "a": 2, "b": [1, 2]} for k in reversed(range(n))]),
    "an object": lambda n: (wide(n), {f"k{k}": k + 1 for k in range(n)}),
    "keys that change": lambda n: (wide(n), {f"n{k}": k for k in range(n)}),
    "equal": lambda n: ([wide(3)] * n, [wide(3) for k in range(n)]),
    "long texts": lambda n: ({"a": "x" * n}, {"a": "x" * n + "y"}),
}

def reduced(events, as_dict):
    def work():
        reducer = EventReducer(as_dict=as_dict, on_deviation=lambda deviation: None)
        for one in events:
            try:
                reducer.apply(one)
            except PatchError:
                pass
        reducer.messages, reducer.state
    return work

def patched(given, in_place):
    def work():
        try:
            apply_patch(*given, in_place=in_place)
        except PatchError:
            pass
    return work

CASES = {}
for name, stream in STREAMS.items():
    for as_dict in (True, False):
        CASES[f"reduce {name} {as_dict}"] = (
            lambda n, stream=stream, as_dict=as_dict: reduced(stream(n), as_dict))
for name, given in PATCHES.items():
    for in_place in (True, False):
        CASES[f"patch {name} {in_place}"] = (
            lambda n, given=given, in_place=in_place: patched(given(n), in_place))
for name, pair in DIFFS.items():
    CASES[f"diff {name}"] = (
        lambda n, pair=pair: lambda given=pair(n): create_patch(*given))
"""
)


@pytest.mark.serial
def test_work_is_linear() -> None:
    """Four times as much takes four times the instructions, dicts that grow included."""
    grown = growth(CASES)
    assert len(grown) > 70
    too_much = {name: ratio for name, ratio in grown.items() if ratio >= 5.5}
    assert not too_much, too_much
