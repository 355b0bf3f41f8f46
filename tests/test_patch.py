"""JSON Patch (RFC 6902) and the patch between two documents: `src/state/{patch,diff}.rs`."""

import collections
import copy
import datetime
import enum
import json
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jsonpatch
import pytest
from ag_ui.core import StateDeltaEvent, StateSnapshotEvent
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import agui_codec
from agui_codec import PatchError, apply_patch, create_patch, state_delta_event
from conftest import on_small_stack

SUITE = pathlib.Path(__file__).parent / "interop/node_modules/json-patch-test-suite"


def json_equal(left: Any, right: Any) -> bool:
    """Equality as JSON has it, written once more, in Python."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return (type(left) is type(right) and left == right) or (
        isinstance(left, (int, float)) and isinstance(right, (int, float)) and left == right
    )


def refused(document: Any, patch: Any, in_place: bool = False) -> PatchError:
    before = copy.deepcopy(document)
    with pytest.raises(PatchError) as caught:
        apply_patch(document, patch, in_place=in_place)
    assert json_equal(document, before)
    return caught.value


def attempt(document: Any, patch: Any, in_place: bool = False) -> tuple[Any, PatchError | None]:
    try:
        return apply_patch(document, patch, in_place=in_place), None
    except PatchError as error:
        return None, error


def both(document: Any, patch: Any) -> Any:
    """The result, after checking that in place it is the same and that inputs are untouched."""
    before, operations = copy.deepcopy(document), copy.deepcopy(patch)
    result = apply_patch(document, patch)
    assert json_equal(document, before)
    assert json_equal(apply_patch(copy.deepcopy(document), patch, in_place=True), result)
    assert patch == operations
    return result


# The public suite ------------------------------------------------------------------------------

# Cases of the suite that are not met, each with the reason.
SUITE_EXCEPTIONS = {
    "duplicate ops": "of two members with one name a dict has one; it is for a reader of JSON text",
}


def suite_cases() -> list[Any]:
    cases = []
    for name in ("tests.json", "spec_tests.json"):
        path = SUITE / name
        if path.exists():
            for at, case in enumerate(json.loads(path.read_text())):
                if "patch" in case:
                    cases.append(pytest.param(case, id=f"{name}-{at}"))
    return cases


def test_the_public_suite_is_there() -> None:
    if not SUITE.exists():
        pytest.skip("npm package json-patch-test-suite is not installed in tests/interop")
    # Disabled cases are run as well: they hold for us.
    assert len(suite_cases()) == 95


@pytest.mark.parametrize("case", suite_cases())
def test_public_suite(case: dict[str, Any]) -> None:
    comment = case.get("comment", "")
    if comment in SUITE_EXCEPTIONS:
        both(case["doc"], case["patch"])
    elif "error" in case:
        refused(case["doc"], case["patch"])
        refused(case["doc"], case["patch"], in_place=True)
    else:
        result = both(case["doc"], case["patch"])
        if "expected" in case:
            assert json_equal(result, case["expected"])


# RFC 6901 --------------------------------------------------------------------------------------

RFC_6901 = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6,
    " ": 7, "m~n": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", RFC_6901), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1),
        ("/c%d", 2), ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
    ],
)  # fmt: skip
def test_rfc_6901_examples(pointer: str, value: Any) -> None:
    both(RFC_6901, [{"op": "test", "path": pointer, "value": value}])


# The cases of the field ------------------------------------------------------------------------


def test_j1_no_parent_is_created() -> None:
    error = refused({}, [{"op": "add", "path": "/todos/-", "value": 1}])
    assert (error.operation_index, error.path) == (0, "/todos/-")
    assert error.reason == 'the object at "" has no member "todos"'
    assert str(error) == f'operation 0 (add "/todos/-"): {error.reason}'
    refused({}, [{"op": "replace", "path": "/steps", "value": 1}])


def test_j2_escaped_keys() -> None:
    document = {"a/b": 1, "m~n": 2, "~1": 3, "": 4}
    patch = [
        {"op": "replace", "path": path, "value": [path]} for path in ("/a~1b", "/m~0n", "/~01", "/")
    ]
    assert both(document, patch) == {"a/b": ["/a~1b"], "m~n": ["/m~0n"], "~1": ["/~01"], "": ["/"]}
    assert both(document, [{"op": "move", "from": "/a~1b", "path": "/x~0y"}]) == {
        "m~n": 2, "~1": 3, "": 4, "x~y": 1,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/~2", "/a~", "/~~0", "a", "#/a"])
def test_j3_pointer_syntax(path: str) -> None:
    document = {"~2": 1, "a~": 1, "~~0": 1, "a": 1}
    for patch in (
        [{"op": "replace", "path": path, "value": 2}],
        [{"op": "copy", "from": path, "path": "/b"}],
    ):
        error = refused(document, patch)
        assert error.path == path
        assert "RFC 6901" in error.reason


@pytest.mark.parametrize(
    "token", ["01", "+1", "-1", "1.0", "1e0", " 1", "1_0", "١", "00", "99999999999999999999", "2"]
)
def test_j4_index_grammar(token: str) -> None:
    for op in ("replace", "test", "remove"):
        refused([10, 20], [{"op": op, "path": f"/{token}", "value": 20}])
    if token != "2":
        refused([10, 20], [{"op": "add", "path": f"/{token}", "value": 20}])


def test_j5_the_end_of_an_array() -> None:
    document = {"v": [1, 2]}
    for op in ("remove", "replace", "test"):
        refused(document, [{"op": op, "path": "/v/-", "value": 2}])
    assert both(document, [{"op": "move", "from": "/v/0", "path": "/v/-"}]) == {"v": [2, 1]}
    assert both(document, [{"op": "copy", "from": "/v/1", "path": "/v/-"}]) == {"v": [1, 2, 2]}
    refused(document, [{"op": "copy", "from": "/v/1", "path": "/v/9"}])
    refused(document, [{"op": "copy", "from": "/v/-", "path": "/v/0"}])


def test_j8_strings_are_leaves() -> None:
    for patch in (
        [{"op": "test", "path": "/f/0", "value": "a"}],
        [{"op": "add", "path": "/f/0", "value": "a"}],
        [{"op": "add", "path": "/f/-", "value": "a"}],
    ):
        assert "str" in refused({"f": "abc"}, patch).reason


def test_j9_no_name_is_special() -> None:
    patch = [
        {"op": "add", "path": "/constructor", "value": 1},
        {"op": "add", "path": "/__proto__", "value": {"x": 1}},
        {"op": "add", "path": "/__class__", "value": 2},
    ]
    assert both({}, patch) == {"constructor": 1, "__proto__": {"x": 1}, "__class__": 2}
    refused({}, [{"op": "replace", "path": "/toString", "value": 1}])


def test_j10_the_root() -> None:
    assert both({"a": 1}, [{"op": "replace", "path": "", "value": [1]}]) == [1]
    assert both({"a": 1}, [{"op": "add", "path": "", "value": 7}]) == 7
    assert both({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1.0}}]) == {"a": 1}
    assert both({"a": 1}, [{"op": "copy", "from": "", "path": "/b"}]) == {"a": 1, "b": {"a": 1}}
    assert both({"a": [1]}, [{"op": "move", "from": "/a", "path": ""}]) == [1]
    assert both({"": 1}, [{"op": "replace", "path": "/", "value": 2}]) == {"": 2}
    assert both({"a": 1}, [{"op": "remove", "path": ""}]) is None
    assert both({"a": 1}, [{"op": "move", "from": "", "path": ""}]) == {"a": 1}
    refused({"a": 1}, [{"op": "move", "from": "", "path": "/b"}])
    refused({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": "/a/b"}])
    assert both({"a": 1, "ab": {}}, [{"op": "move", "from": "/a", "path": "/ab/x"}]) == {
        "ab": {"x": 1}
    }
    refused({}, [{"op": "move", "from": "/a", "path": "/a"}])
    refused({}, [{"op": "move", "from": "/a", "path": "/a/b"}])


def test_j11_values_of_the_patch_are_copied() -> None:
    patch = [
        {"op": "add", "path": "/a", "value": []},
        {"op": "add", "path": "/a/-", "value": {"b": 1}},
    ]
    assert both({}, patch) == both({}, patch) == {"a": [{"b": 1}]}
    for in_place in (False, True):
        document = apply_patch({"x": {"y": [1]}}, [{"op": "copy", "from": "/x", "path": "/z"}],
                               in_place=in_place)  # fmt: skip
        document["x"]["y"].append(2)
        assert document["z"] == {"y": [1]}


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        ({}, {"op": "replace", "path": "/a", "value": 1}),
        ({"a": 1}, {"op": "copy", "from": "/a", "path": "/x/y/z"}),
        ({"a": None}, {"op": "add", "path": "/a/b", "value": 1}),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
        ({"a": True}, {"op": "add", "path": "/a/-", "value": 1}),
        ({"a": 1}, {"op": "remove", "path": "/b"}),
    ],
)
def test_j12_missing_parents(document: Any, operation: Any) -> None:
    refused(document, [operation])
    refused(document, [operation], in_place=True)


def test_j13_atomic() -> None:
    patch = [{"op": "replace", "path": "/a", "value": 2}, {"op": "remove", "path": "/zz"}]
    for in_place in (False, True):
        error = refused({"a": 1}, patch, in_place=in_place)
        assert (error.operation_index, error.path) == (1, "/zz")


def test_in_place_gives_back_order_and_identity() -> None:
    document = {"a": 1, "b": {"x": 1, "y": 2}, "c": [1, 2, 3]}
    inner = document["b"]
    text = json.dumps(document)
    for last in (
        {"op": "remove", "path": "/zz"},
        {"op": "test", "path": "/c", "value": 1},
        {"op": "move", "from": "/c", "path": "/zz/y"},
        {"op": "add", "path": "/c/9", "value": 1},
    ):
        patch = [
            {"op": "remove", "path": "/a"},
            {"op": "move", "from": "/b/x", "path": "/c/1"},
            {"op": "add", "path": "/b/z", "value": 1},
            {"op": "replace", "path": "/c/0", "value": 1},
            {"op": "remove", "path": "/c/2"},
            {"op": "remove", "path": "/b/y"},
            {"op": "add", "path": "/a", "value": 1},
            last,
        ]
        with pytest.raises(PatchError):
            apply_patch(document, patch, in_place=True)
        assert json.dumps(document) == text
        assert document["b"] is inner
    with pytest.raises(PatchError):
        apply_patch(
            document,
            [{"op": "replace", "path": "", "value": 1}, {"op": "remove", "path": "/a"}],
            in_place=True,
        )
    assert json.dumps(document) == text
    assert apply_patch(document, [{"op": "remove", "path": "/c"}], in_place=True) is document


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True), (True, 1, False), (False, 0, False), (0, -0.0, True), (None, False, False),
        ("1", 1, False), ([1, 2], [2, 1], False), ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ([], {}, False), ([True], [1], False), (2**70, 2**70, True), (2**53 + 1, 2.0**53, False),
        ({"a": None}, {}, False), ("é", "é", True), ("e\u0301", "é", False), ([[]], [[[]]], False),
        ({"a": True}, {"a": 1}, False), ("", None, False), (10**400, 1e308, False),
    ],
)  # fmt: skip
def test_the_test_operation_compares_as_json(left: Any, right: Any, same: bool) -> None:
    for one, other in ((left, right), (right, left)):
        patch = [{"op": "test", "path": "/v", "value": other}]
        if same:
            both({"v": one}, patch)
            assert create_patch(one, other) == []
        else:
            assert "the value is" in refused({"v": one}, patch).reason
            assert create_patch(one, other) != []


# What a patch may be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "index", "reason"),
    [
        (None, None, "list of operations"),
        ({"op": "add"}, None, "list of operations"),
        ("[]", None, "list of operations"),
        ([1], 0, "an operation is an object, not int"),
        ([{}], 0, 'an operation has an "op"'),
        ([{"op": 1, "path": ""}], 0, '"op" is a str, not int'),
        ([{"op": "spam", "path": ""}], 0, 'there is no op "spam"'),
        ([{"op": "Add", "path": "", "value": 1}], 0, "there is no op"),
        ([{"op": "add", "value": 1}], 0, 'add needs a "path"'),
        ([{"op": "add", "path": None, "value": 1}], 0, '"path" is a str, not NoneType'),
        ([{"op": "add", "path": ""}], 0, 'add needs a "value"'),
        ([{"op": "test", "path": ""}], 0, 'test needs a "value"'),
        ([{"op": "move", "path": ""}], 0, 'move needs a "from"'),
        ([{"op": "copy", "path": "", "from": 1}], 0, '"from" is a str, not int'),
        ([{"op": "test", "path": "", "value": {}}, {"op": "remove"}], 1, 'needs a "path"'),
    ],
)
def test_malformed(patch: Any, index: int | None, reason: str) -> None:
    error = refused({}, patch)
    assert error.operation_index == index
    assert reason in error.reason
    assert isinstance(error, agui_codec.AGUIError)


def test_null_is_a_value_and_other_members_are_ignored() -> None:
    assert both({}, [{"op": "add", "path": "/a", "value": None}]) == {"a": None}
    assert both({"a": 1}, [{"op": "remove", "path": "/a", "value": 3, "x": 1}]) == {}


def test_models_of_the_sdk() -> None:
    event = StateDeltaEvent(
        delta=[
            {"op": "add", "path": "/a", "value": {"x": [1]}},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/a/x", "path": "/c"},
            {"op": "replace", "path": "/c/0", "value": None, "note": "kept"},
            {"op": "test", "path": "/c", "value": [None]},
            {"op": "remove", "path": "/a"},
        ]
    )
    assert both({}, event.delta) == {"b": {"x": [1]}, "c": [None]}

    class Own(type(event.delta[0])):  # type: ignore[misc]
        pass

    assert both({}, [Own(path="/a", value=1)]) == {"a": 1}


def test_models_as_values_are_copied() -> None:
    snapshot = StateSnapshotEvent(snapshot={"a": [1]}, extra=[1])
    result = apply_patch({}, [{"op": "add", "path": "/e", "value": snapshot}])
    assert result["e"] == snapshot
    assert result["e"] is not snapshot
    result["e"].snapshot["a"].append(2)
    result["e"].extra.append(2)
    assert snapshot.snapshot == {"a": [1]}
    assert snapshot.extra == [1]  # type: ignore[attr-defined]


def test_what_is_not_json_is_a_leaf() -> None:
    class Colour(str, enum.Enum):
        RED = "red"

    moment = datetime.datetime(2026, 1, 2)
    shared = [1]
    document = {"t": (1, shared), "d": moment, "c": Colour.RED, 1: "int key"}
    assert both(document, [{"op": "add", "path": "/x", "value": 1}]) == {**document, "x": 1}
    both(document, [{"op": "test", "path": "/d", "value": datetime.datetime(2026, 1, 2)}])
    both(document, [{"op": "test", "path": "/c", "value": "red"}])
    assert "tuple" in refused(document, [{"op": "remove", "path": "/t/0"}]).reason
    refused(document, [{"op": "remove", "path": "/1"}])
    copied = apply_patch(document, [{"op": "copy", "from": "/t", "path": "/u"}])
    assert copied["u"] == (1, [1])
    assert copied["u"][1] is not shared


def test_subclasses_become_plain_or_are_refused() -> None:
    class Items(list):
        pass

    document = {
        "o": collections.OrderedDict(a=1),
        "l": Items([1]),
        "d": collections.defaultdict(list),
    }
    patch = [
        {"op": "add", "path": "/o/b", "value": 1},
        {"op": "add", "path": "/l/-", "value": 2},
    ]
    result = apply_patch(document, patch)
    assert result == {"o": {"a": 1, "b": 1}, "l": [1, 2], "d": {}}
    assert type(result["o"]) is dict
    assert type(result["l"]) is list
    error = refused(document, patch, in_place=True)
    assert "plain dict or list" in error.reason
    # Nothing is made up on the way.
    refused(document, [{"op": "add", "path": "/d/x/-", "value": 1}])
    assert document["d"] == {}


def test_lone_surrogates_are_reached() -> None:
    document = {"\ud83d/é": 1}
    patch = create_patch(document, {"\ud83d/é": 2, "\udc00": 1})
    assert both(document, patch) == {"\ud83d/é": 2, "\udc00": 1}


class Loud:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("no copy")

    __hash__ = None  # type: ignore[assignment]


def test_what_python_raises_is_the_cause() -> None:
    error = refused_loud([{"op": "test", "path": "/a", "value": Loud()}])
    assert isinstance(error.__cause__, RuntimeError)
    error = refused_loud([{"op": "add", "path": "/b", "value": Loud()}])
    assert isinstance(error.__cause__, RuntimeError)


def refused_loud(patch: Any) -> PatchError:
    with pytest.raises(PatchError) as caught:
        apply_patch({"a": Loud()}, patch)
    return caught.value


# Depth -----------------------------------------------------------------------------------------


def nested(levels: int, leaf: Any = 1) -> Any:
    value = leaf
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@contextmanager
def taken_apart() -> Iterator[Callable[..., Any]]:
    """Makes deep values, and takes them apart at the end.

    CPython's own release of one recurses, and in 3.13 needs more stack than a small thread has.
    """
    made = []

    def deep(*shape: Any) -> Any:
        made.append(nested(*shape))
        return made[-1]

    try:
        yield deep
    finally:
        for value in made:
            while isinstance(value, (dict, list)) and value:
                value = value.pop("a") if isinstance(value, dict) else value.pop()


def test_depth_has_a_limit_and_no_crash() -> None:
    def run() -> None:
        with taken_apart() as made:
            check(made)

    def check(made: Callable[..., Any]) -> None:
        limit = agui_codec.MAX_DEPTH
        deep = made(100_000)
        other = made(100_000)
        leaf_differs = made(100_000, 2)
        for patch in (
            [{"op": "add", "path": "", "value": deep}],
            [{"op": "add", "path": "/x", "value": deep}],
            [{"op": "copy", "from": "/d", "path": "/x"}],
            [{"op": "test", "path": "/d", "value": other}],
            [{"op": "add", "path": "/a" * 100_000, "value": 1}],
        ):
            for in_place in (False, True):
                with pytest.raises(PatchError, match="nested deeper than 254 levels"):
                    apply_patch({"d": deep}, patch, in_place=in_place)
        with pytest.raises(PatchError, match="nested deeper than 254 levels"):
            create_patch(deep, leaf_differs)
        with pytest.raises(PatchError, match="nested deeper than 254 levels"):
            create_patch([], deep)
        apply_patch(None, [{"op": "add", "path": "", "value": nested(limit)}])
        apply_patch({}, [{"op": "add", "path": "/x", "value": nested(limit - 1)}])
        with pytest.raises(PatchError):
            apply_patch({}, [{"op": "add", "path": "/x", "value": nested(limit)}])
        assert len(create_patch(nested(limit), nested(limit, 2))) == 1
        deep_ones = [nested(limit - 1, leaf) for leaf in range(4)]
        assert len(create_patch(deep_ones[:3], [deep_ones[0], deep_ones[3], deep_ones[2]])) == 1
        assert create_patch(deep_ones, [deep_ones[3], 1, deep_ones[0], 2])

    on_small_stack(run)


def test_a_document_that_holds_itself() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    other: dict[str, Any] = {}
    other["self"] = other
    with pytest.raises(PatchError, match="nested deeper"):
        apply_patch({"l": loop}, [{"op": "copy", "from": "/l", "path": "/m"}])
    with pytest.raises(PatchError, match="nested deeper"):
        create_patch({"l": loop}, {"l": other})
    result = apply_patch(loop, [{"op": "add", "path": "/self/self/x", "value": 1}])
    assert "x" not in loop
    assert result["self"]["self"]["x"] == 1


# Sharing ---------------------------------------------------------------------------------------


def test_only_the_path_is_copied() -> None:
    document = {"a": [{"n": 1}, {"n": 2}], "b": {"c": {}}}
    result = apply_patch(document, [{"op": "replace", "path": "/a/0/n", "value": 3}])
    assert result["b"] is document["b"]
    assert result["a"][1] is document["a"][1]
    assert result["a"][0] is not document["a"][0]
    assert document["a"][0] == {"n": 1}
    assert apply_patch(document, []) is document


def test_a_huge_list_is_not_copied_deeply() -> None:
    document = {"items": [{"n": n} for n in range(100_000)]}
    result = apply_patch(document, [{"op": "replace", "path": "/items/5/n", "value": -1}])
    differing = [
        n
        for n, (a, b) in enumerate(zip(document["items"], result["items"], strict=True))
        if a is not b
    ]
    assert differing == [5]


def test_many_operations_copy_each_container_once() -> None:
    document = {"v": [{"n": n} for n in range(50)]}
    patch = [{"op": "replace", "path": f"/v/{n}/n", "value": -n} for n in range(50)] * 2
    first = apply_patch(document, patch)
    assert first == {"v": [{"n": -n} for n in range(50)]}
    assert document == {"v": [{"n": n} for n in range(50)]}
    # A result is a document like any other, and patched again it does not change either.
    second = apply_patch(first, [{"op": "add", "path": "/v/0/n", "value": "x"}])
    assert first["v"][0] == {"n": 0}
    assert second["v"][0] == {"n": "x"}


def test_a_value_that_occurs_twice_changes_once() -> None:
    part = [1]
    document = {"x": part, "y": part}
    assert apply_patch(document, [{"op": "add", "path": "/x/-", "value": 2}]) == {
        "x": [1, 2],
        "y": [1],
    }


# Laws ------------------------------------------------------------------------------------------

# Few keys and values, so that pointers hit.
KEYS = st.sampled_from(["", "a", "b", "a/b", "m~n", "0", "1", "-", "é", "__proto__"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([1.0, 0.5, -0.0, 1e300]),
    st.sampled_from(["", "a", "é😀"]),
)  # fmt: skip
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def pointers(document: Any, prefix: str = "") -> list[str]:
    found = [prefix]
    if isinstance(document, dict):
        for key, value in document.items():
            found += pointers(value, f"{prefix}/{key.replace('~', '~0').replace('/', '~1')}")
        found.append(prefix + "/new")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            found += pointers(value, f"{prefix}/{index}")
        found += [prefix + "/-", f"{prefix}/{len(document)}"]
    return found


@st.composite
def documents_and_patches(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]]]:
    """A document and a patch whose pointers mostly fit it as it then is."""
    document = draw(DOCUMENTS)
    now = document
    patch = []
    for _ in range(draw(st.integers(1, 6))):
        places = pointers(now)
        operation = {
            "op": draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])),
            "path": draw(st.sampled_from(places)),
        }
        if operation["op"] in ("move", "copy"):
            operation["from"] = draw(st.sampled_from(places))
        elif operation["op"] != "remove":
            operation["value"] = draw(DOCUMENTS)
        patch.append(operation)
        try:
            now = apply_patch(now, [operation])
        except PatchError:
            if draw(st.booleans()):
                patch.pop()
    return document, patch


def mutate(value: Any) -> None:
    """Changes every container of a value."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            mutate(inner)
        value["mutated"] = True
    elif isinstance(value, list):
        for inner in list(value):
            mutate(inner)
        value.append("mutated")


def containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(found for inner in value.values() for found in containers(inner))]
    if isinstance(value, list):
        return [value, *(found for inner in value for found in containers(inner))]
    return []


@given(documents_and_patches())
@settings(max_examples=400, deadline=None)
def test_law_atomic_and_in_place_equals_copy(case: tuple[Any, list[Any]]) -> None:
    document, patch = case
    text, operations = json.dumps(document), json.dumps(patch)
    mine = copy.deepcopy(document)
    result, error = attempt(document, patch)
    in_place, error_in_place = attempt(mine, patch, in_place=True)
    assert str(error_in_place) == str(error)
    assert json.dumps(in_place) == json.dumps(result)
    if error:
        assert json.dumps(mine) == text
    assert json.dumps(document) == text
    assert json.dumps(patch) == operations


@given(documents_and_patches(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_law_nothing_is_aliased(case: tuple[Any, list[Any]], in_place: bool) -> None:
    document, patch = case
    try:
        result = apply_patch(copy.deepcopy(document), patch, in_place=in_place)
    except PatchError:
        return
    found = containers(result)
    assert len({id(container) for container in found}) == len(found)
    text, operations = json.dumps(result), json.dumps(patch)
    mutate([operation.get("value") for operation in patch])
    assert json.dumps(result) == text
    patch = json.loads(operations)
    result = apply_patch(copy.deepcopy(document), patch, in_place=in_place)
    mutate(result)
    assert json.dumps(patch) == operations


@given(documents_and_patches())
@settings(max_examples=300, deadline=None)
def test_law_a_result_may_be_patched_again(case: tuple[Any, list[Any]]) -> None:
    document, patch = case
    text = json.dumps(document)
    versions = [document]
    for operation in patch:
        try:
            versions.append(apply_patch(versions[-1], [operation]))
        except PatchError:
            continue
    texts = [json.dumps(version) for version in versions]
    for version in versions:
        for operation in patch:
            try:
                apply_patch(version, [operation])
            except PatchError:
                continue
    assert [json.dumps(version) for version in versions] == texts
    assert json.dumps(document) == text


def jsonpatch_is_right(document: Any, patch: list[Any]) -> bool:
    """Leaves out what jsonpatch 1.48 is known to do otherwise."""
    for operation in patch:
        places = [operation["path"], operation.get("from", "/x")]
        # Operations on the root other than replace and add; it also raises KeyError there.
        if "" in places and operation["op"] not in ("replace", "add", "test"):
            return False
        # True equals 1 for Python.
        if operation["op"] == "test":
            return False
        # Anything may stand below a str.
        if operation["op"] == "move" and operation["path"] == operation["from"]:
            return False
    return True


@given(documents_and_patches())
@settings(max_examples=400, deadline=None)
def test_equal_to_jsonpatch_where_that_is_right(case: tuple[Any, list[Any]]) -> None:
    document, patch = case
    assume(jsonpatch_is_right(document, patch))
    try:
        theirs = jsonpatch.apply_patch(copy.deepcopy(document), patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError):
        with pytest.raises(PatchError):
            apply_patch(document, patch)
    else:
        assert json_equal(apply_patch(document, patch), theirs)


# Making patches --------------------------------------------------------------------------------


def law(before: Any, after: Any) -> list[dict[str, Any]]:
    texts = json.dumps(before), json.dumps(after)
    patch = create_patch(before, after)
    assert json_equal(apply_patch(before, patch), after)
    assert json_equal(jsonpatch_free(before, patch), after)
    mutate([operation.get("value") for operation in patch])
    assert (json.dumps(before), json.dumps(after)) == texts
    return create_patch(before, after)


def jsonpatch_free(document: Any, patch: list[Any]) -> Any:
    return apply_patch(copy.deepcopy(document), patch, in_place=True)


@given(DOCUMENTS, DOCUMENTS)
@settings(max_examples=400, deadline=None)
def test_law_of_create_patch(before: Any, after: Any) -> None:
    patch = law(before, after)
    assert (patch == []) == json_equal(before, after)
    assert create_patch(before, copy.deepcopy(before)) == []


@given(
    st.lists(
        st.integers(0, 4) | st.booleans() | st.lists(st.integers(0, 2), max_size=3), max_size=14
    ),
    st.lists(
        st.integers(0, 4) | st.booleans() | st.lists(st.integers(0, 2), max_size=3), max_size=14
    ),
)
@settings(max_examples=400, deadline=None)
def test_law_of_create_patch_on_nested_lists(before: Any, after: Any) -> None:
    law(before, after)
    law({"x": [before, after]}, {"x": [after, before, before]})


def test_j15_generated_patches_apply() -> None:
    law(["a", "b", ["d", "e"], "f"], ["a", "d", ["e", "g"]])


def test_patches_are_small() -> None:
    assert law({"a": 1, "b": 2}, {"a": 1, "b": 3}) == [{"op": "replace", "path": "/b", "value": 3}]
    assert law({"a": 1}, {"b": 1, "a": 1.0}) == [{"op": "add", "path": "/b", "value": 1}]
    assert law({"a": True}, {"a": 1}) == [{"op": "replace", "path": "/a", "value": 1}]
    assert law({"a/b": {"m~n": 1, "x": 1}}, {"a/b": {"m~n": 2, "x": 1}}) == [
        {"op": "replace", "path": "/a~1b/m~0n", "value": 2}
    ]
    records = [{"id": n, "v": n} for n in range(100)]
    assert law(records, [{"id": -1}, *records]) == [
        {"op": "add", "path": "/0", "value": {"id": -1}}
    ]
    assert law(records, records[:50] + records[51:]) == [{"op": "remove", "path": "/50"}]
    changed = copy.deepcopy(records)
    changed[7]["v"] = "x"
    assert law(records, changed) == [{"op": "replace", "path": "/7/v", "value": "x"}]
    # Two places at once: not everything between them.
    both_ends = [{"id": -1}, *records[:40], *records[41:], {"id": 100}]
    assert len(law(records, both_ends)) == 3
    # Nothing stays: the new value alone.
    assert law([1, 2, 3], [4, 5]) == [{"op": "replace", "path": "", "value": [4, 5]}]
    assert law({"a": [1, 2]}, {"a": {"b": 1}}) == [
        {"op": "replace", "path": "/a", "value": {"b": 1}}
    ]
    assert law({"x": 1, "a": {"p": 1, "q": 2}}, {"x": 1, "a": {"r": 1}}) == [
        {"op": "replace", "path": "/a", "value": {"r": 1}}
    ]


def test_shared_parts_are_not_looked_at() -> None:
    class Never:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]

    before = {"big": [Never()] * 10, "n": 1}
    after = apply_patch(before, [{"op": "replace", "path": "/n", "value": 2}])
    assert create_patch(before, after) == [{"op": "replace", "path": "/n", "value": 2}]


def test_keys_that_are_no_str_cannot_be_addressed() -> None:
    with pytest.raises(PatchError, match="a key of an object is a str, not int") as caught:
        create_patch({"a": {1: 2}}, {"a": {1: 3}})
    assert caught.value.operation_index is None
    assert caught.value.path == "/a"


def test_state_delta_event() -> None:
    event = state_delta_event({"a": 1}, {"a": 2})
    assert event == StateDeltaEvent(delta=[{"op": "replace", "path": "/a", "value": 2}])
    assert state_delta_event({"a": 1}, {"a": 1.0}) is None


@pytest.mark.serial
def test_the_cost_of_a_diff_is_bounded() -> None:
    import time

    def cost(size: int) -> float:
        before, after = [*range(size)], [*range(size, 0, -1)]
        started = time.process_time()
        law(before, after)
        return time.process_time() - started

    cost(1000)
    assert cost(40_000) < 40 * max(cost(4_000), 0.01)


class Counted(int):
    """An int that counts how often it is hashed or compared."""

    calls = 0

    def __hash__(self) -> int:
        Counted.calls += 1
        return 7

    def __eq__(self, other: object) -> bool:
        Counted.calls += 1
        return int.__eq__(self, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ([Counted(k) for k in range(n)], [Counted(k + n) for k in range(n)]),
        lambda n: ([Counted(k) for k in range(n)], [float(k + 1) for k in range(n)]),
        lambda n: ([Counted(k % 2) for k in range(n)], [Counted(k % 3) for k in range(n)]),
        lambda n: ([[Counted(k)] for k in range(n)], [[Counted(k + 1)] for k in range(n)]),
        lambda n: (
            {str(k): Counted(k) for k in range(n)},
            {str(k): Counted(k + 1) for k in range(n)},
        ),
    ],
)
def test_numbers_whose_hashes_collide_are_not_compared_with_each_other(
    make: Callable[[int], tuple[Any, Any]],
) -> None:
    before, after = make(1_000)
    Counted.calls = 0
    create_patch(before, after)
    assert Counted.calls <= 4_000


def test_objects_whose_hashes_collide_are_compared_with_few() -> None:
    class Object:
        calls = 0

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            Object.calls += 1
            return self is other

    def calls(size: int) -> int:
        before, after = ([Object() for _ in range(size)] for _ in range(2))
        Object.calls = 0
        create_patch(before, after)
        return Object.calls

    assert calls(400) < 2.1 * calls(200)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (2**70, 2.0**70), (-(2**70), -(2.0**70)), (10**400, 10**400), (0, -0.0), (5, 5.0),
        (-(2**63), -(2.0**63)), (2**63, 2.0**63), (2**64, 2.0**64), (1e300, int(1e300)),
    ],
)  # fmt: skip
def test_equal_numbers_of_two_types_are_one_element(left: Any, right: Any) -> None:
    assert create_patch([left, "x"], [right, "x"]) == []
    assert create_patch([left, "x", 1], ["y", right, "x", 1]) == [
        {"op": "add", "path": "/0", "value": "y"}
    ]
    assert create_patch([left], [left + 1 if abs(left) < 2**53 else -left]) != []
    assert len(create_patch({"k": left, "t": "x" * 80}, {"k": not left, "t": "x" * 80})) == 1


def test_values_move() -> None:
    text = {"text": "some words, and " * 3}
    assert law({"a": text, "z": 1}, {"b": text, "z": 1}) == [
        {"op": "move", "path": "/b", "from": "/a"}
    ]
    # Between containers; over a member; to another index, also of an array above it.
    assert law({"x": [text, 1], "y": {"k": 2}}, {"x": [1], "y": {"k": text}}) == [
        {"op": "move", "path": "/y/k", "from": "/x/0"}
    ]
    assert law([1, {"k": [2]}, text], [1, {"k": [text, 2]}]) == [
        {"op": "move", "path": "/1/k/0", "from": "/2"}
    ]
    # It stands where the array stood that it goes into, which a move cannot say.
    patch = law([text, [2]], [[text, 2]])
    assert all(not one["path"].startswith(one.get("from", "-") + "/") for one in patch)
    assert law([1, 2, 3, text], [text, 1, 2, 3]) == [{"op": "move", "path": "/0", "from": "/3"}]


def test_whichever_is_shorter() -> None:
    assert law(["a", "b", "c"], ["c", "y", "z"]) == [
        {"op": "replace", "path": "", "value": ["c", "y", "z"]}
    ]
    many = {f"key {n}": n for n in range(20)}
    assert law(many, {**many, "key 3": 0}) == [{"op": "replace", "path": "/key 3", "value": 0}]
    # One level down, whole; beside it, aligned.
    before = {"list": ["a", "b", "c", "d"], "text": "long " * 30, "n": 1}
    after = {"list": ["w", "x"], "text": "long " * 30, "n": 2}
    assert law(before, after) == [
        {"op": "replace", "path": "/list", "value": ["w", "x"]},
        {"op": "replace", "path": "/n", "value": 2},
    ]


@given(DOCUMENTS, DOCUMENTS)
@settings(max_examples=400, deadline=None)
def test_patches_apply_with_jsonpatch_as_well(before: Any, after: Any) -> None:
    patch = create_patch(before, after)
    assert json_equal(jsonpatch.apply_patch(before, patch), after)
    whole = json.dumps([{"op": "replace", "path": "", "value": after}])
    assert len(json.dumps(patch)) <= len(whole) + 8 or patch == []
