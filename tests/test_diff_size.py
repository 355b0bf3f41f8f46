"""How long the patches of `create_patch` are on the wire, beside those of jsonpatch.

The suite takes a sample. All pairs: ``python tests/test_diff_size.py [PAIRS] [SEED]``.
"""

import copy
import json
import random
import sys
from typing import Any

import jsonpatch
import pytest

from agui_codec import apply_patch, create_patch

WORDS = ["a", "b", "id", "name", "items", "a/b", "m~n", "é", "status", "done", "x" * 12]
TEXTS = [
    "",
    "a",
    "b",
    "on",
    "off",
    "a longer text of some words",
    "ü漢😀",
    'quoted "x"\n',
    "y" * 60,
]


def scalar(rng: random.Random) -> Any:
    kind = rng.randrange(8)
    if kind < 3:
        return rng.randrange(rng.choice([3, 10, 1_000_000]))
    if kind < 6:
        return rng.choice(TEXTS)
    return rng.choice([None, True, False, 1.5, 1e300, -7, 2**70])


def value(rng: random.Random, levels: int) -> Any:
    kind = rng.randrange(10)
    if levels == 0 or kind < 3:
        return scalar(rng)
    size = rng.choice([0, 1, 2, 3, 4, 6, 9])
    if kind < 6:
        return {rng.choice(WORDS): value(rng, levels - 1) for _ in range(size)}
    if kind < 8:
        return [value(rng, levels - 1) for _ in range(size)]
    if kind < 9:
        return [scalar(rng) for _ in range(rng.choice([1, 3, 8, 20, 60]))]
    return [
        {"id": n, "name": rng.choice(TEXTS), "v": value(rng, levels - 1)}
        for n in range(rng.choice([1, 3, 8, 20]))
    ]


def containers(root: Any) -> list[Any]:
    found = [root] if isinstance(root, (dict, list)) else []
    for inner in found and (root.values() if isinstance(root, dict) else root):
        found += containers(inner)
    return found


def edited(rng: random.Random, before: Any) -> Any:
    """A copy with a few changes, as a state has from one event to the next."""
    after = copy.deepcopy(before)
    for _ in range(rng.choice([1, 1, 2, 3, 5, 12])):
        places = containers(after)
        if not places:
            return value(rng, 2)
        place = rng.choice(places)
        kind = rng.randrange(8)
        if isinstance(place, dict):
            keys = list(place)
            if not keys or kind < 2:
                place[rng.choice(WORDS)] = value(rng, 2)
            elif kind < 4:
                del place[rng.choice(keys)]
            elif kind < 6:
                place[rng.choice(keys)] = value(rng, 1)
            else:
                place[rng.choice(WORDS)] = place.pop(rng.choice(keys))
        elif not place or kind < 2:
            place.insert(rng.randint(0, len(place)), value(rng, 2))
        elif kind < 4:
            del place[rng.randrange(len(place))]
        elif kind < 5:
            place[rng.randrange(len(place))] = value(rng, 1)
        elif kind < 6:
            place.insert(rng.randint(0, len(place)), place.pop(rng.randrange(len(place))))
        elif kind < 7:
            rng.shuffle(place)
        else:
            moved = place.pop(rng.randrange(len(place)))
            target = rng.choice(containers(after))
            if isinstance(target, dict):
                target[rng.choice(WORDS)] = moved
            else:
                target.append(moved)
    return after


def pair(rng: random.Random) -> tuple[Any, Any]:
    before = value(rng, rng.randint(1, 4))
    kind = rng.randrange(10)
    if kind < 7:
        return before, edited(rng, before)
    if kind < 8:
        return before, value(rng, rng.randint(1, 3))
    # Short rows of few values, where alignments are ambiguous.
    few = rng.randint(2, 6)
    left, right = ([rng.randrange(few) for _ in range(rng.randint(0, 8))] for _ in range(2))
    if kind < 9:
        return left, right
    return {"x": left, "y": right}, {"x": right, "y": left, "z": left}


def wire_size(patch: Any) -> int:
    return len(json.dumps(patch, separators=(",", ":"), ensure_ascii=False).encode())


def exact(left: Any, right: Any) -> bool:
    """The same values of the same types, but that 1 and 1.0 are one number."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(exact(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(exact, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def compare(pairs: int, seed: int) -> tuple[int, int, list[tuple[int, int, Any, Any]]]:
    """The bytes of both in all, and the pairs in which ours are 5 % more."""
    rng = random.Random(seed)
    ours = theirs = 0
    longer = []
    for _ in range(pairs):
        before, after = pair(rng)
        patch = create_patch(before, after)
        assert exact(apply_patch(before, patch), after), (before, after)
        mine = apply_patch(copy.deepcopy(before), patch, in_place=True)
        assert exact(mine, after), (before, after)
        assert exact(jsonpatch.apply_patch(before, patch), after), (before, after)
        one = wire_size(patch)
        other = wire_size(jsonpatch.make_patch(before, after).patch)
        ours += one
        theirs += other
        if one > other * 1.05:
            longer.append((one, other, before, after))
    return ours, theirs, longer


@pytest.mark.parametrize("seed", range(4))
def test_patches_are_shorter_than_those_of_jsonpatch(seed: int) -> None:
    ours, theirs, longer = compare(250, seed)
    assert longer == []
    assert ours < 0.9 * theirs


def report(pairs: int = 20_000, seed: int = 0) -> int:
    ours, theirs, longer = compare(pairs, seed)
    for one, other, before, after in longer[:20]:
        print(f"{one} against {other}: {json.dumps(before)} -> {json.dumps(after)}")
    print(f"{pairs} pairs: {ours} bytes against {theirs}, {len(longer)} more than 5 % longer")
    return bool(longer) or ours > 0.9 * theirs


if __name__ == "__main__":
    sys.exit(report(*map(int, sys.argv[1:])))
