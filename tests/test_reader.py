"""The JSON reader: its grammar, its values, and what it refuses, against json and pydantic."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

import pydantic_core
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agui_codec import MAX_DEPTH, DecodeError, decode_event, proto
from conftest import on_small_stack

# What the reader refuses though json.loads or pydantic's from_json does not. RFC 8259 is on its
# side, and the peers in other languages refuse these too.
STRICTER = {
    "NaN": "pydantic and json",
    "Infinity": "pydantic and json",
    "-Infinity": "pydantic and json",
    '"\\ud800"': "json",
    '"\\udc00"': "json",
    '"\\ud800\\ud800"': "json",
    "1" * 4301: "neither: Python reads no longer int",
}

VALUES = [
    '""', '"a"', '"ab"', '"\\u00e9"', '"\\ud83c\\udf78"', '"\\\\\\/\\b\\f\\n\\r\\t\\""', '"é漢😀"',
    '"\\u0000"', '"\\u007f"', '"' + "a" * 100 + '\\n"', "true", "false", "null", "0", "-0", "1",
    "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "999999999999999999", "1000000000000000000", "9999999999999999999",
    "1" * 400, "0.0", "-0.0", "1.0", "0.1", "1e0", "1E5", "1e-5", "1.5e+10",
    "123456789.123456789", "1e22", "1e23", "5e-324", "2.2250738585072011e-308",
    "1.7976931348623157e308", "1e400", "-1e400", "1e-400", "1" * 400 + ".5", "9007199254740993.0",
    "0.30000000000000004", "[]", "{}", "[ ]", "{ }", "[1,2]", " [ 1 , 2 ] ", '{"a":1}',
    ' { "a" : 1 , "b" : [ ] } ', '{"a":1,"a":2}', '{"a":1,"b":2,"a":3}', '{"":0}',
    '{"\\u0061":1,"a":2}', '{"é":1}', '{"\\u00e9":1}', '\t\r\n [\t\r\n1\t\r\n] \n',
    '[[],{},[{}]]', '{"messageId":1,"type":"T","role":{"type":"x"}}', '{"' + "k" * 100 + '":1}',
]  # fmt: skip

REFUSED = [
    "", " ", "[", "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1 2]", '{"a"', '{"a":', '{"a":1',
    '{"a":1,', '{"a":1,}', "{,}", '{"a" 1}', '{"a":}', "{a:1}", "{'a':1}", "{1:1}", '"', '"a',
    "'a'", '"\n"', '"\t"', '"\x00"', '"\x1f"', '"\\', '"\\a"', '"\\x41"', '"\\u"', '"\\u12"',
    '"\\u12g4"', '"\\u+123"', "01", "-01", "00", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+",
    "0x1", "1_000", "--1", "tru", "True", "nul", "None", "fals", "nan", "inf", "truefalse", "1 2",
    "[] []", "{} x", "null,", "\ufeff1", "[\ufeff1]", "\x0b1", "\xa01", "1\x0c", "[1}", '{"a":1]',
    "// x\n1", "/**/1", "[1]]", "undefined", "1,2", '"a" "b"', '{"a":1 "b":2}', "[1;2]",
    *STRICTER,
]  # fmt: skip


def decoded(text: str) -> tuple[Any, Any]:
    """An event with the value, as a dict and as a model."""
    document = f'{{"type":"CUSTOM","name":"n","value":{text}}}'
    as_dict = decode_event(document, as_dict=True)
    assert decode_event(document.encode(), as_dict=True).keys() == as_dict.keys()
    return as_dict, decode_event(document)


def read(text: str) -> Any:
    """The value, as the reader reads it inside an event."""
    as_dict, model = decoded(text)
    assert same(model.value, as_dict["value"])
    return as_dict["value"]


def same(a: object, b: object) -> bool:
    """Equal, of the same types, with keys in the same order and NaN equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b


@pytest.mark.parametrize("text", VALUES, ids=range(len(VALUES)))
def test_values(text: str) -> None:
    assert same(read(text), json.loads(text))
    assert same(read(text), pydantic_core.from_json(text)) or text == "-0"


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_refused(text: str) -> None:
    if text not in STRICTER:
        for other in (json.loads, pydantic_core.from_json):
            with pytest.raises(ValueError, match=r"column|invalid|Extra"):
                other(text)
    for document in (f'{{"type":"CUSTOM","name":"n","value":{text}}}', text):
        for as_dict in (True, False):
            with pytest.raises(DecodeError) as caught:
                decode_event(document, as_dict=as_dict)
            assert 0 <= caught.value.offset <= len(document.encode())
            assert f"(at byte {caught.value.offset})" in str(caught.value)
            assert caught.value.event_index is None


def test_d11_nan_is_refused_though_pydantic_accepts_it() -> None:
    document = '{"type":"STATE_SNAPSHOT","snapshot":NaN}'
    for as_dict in (True, False):
        with pytest.raises(DecodeError, match="NaN and Infinity are no JSON") as caught:
            decode_event(document, as_dict=as_dict)
        assert caught.value.offset == document.index("NaN")


def test_d10_surrogates() -> None:
    assert read('"\\ud83c\\udf78"') == "\U0001f378"
    for text in ('"\\ud83cx\\udf78"', '"\\udf78\\ud83c"', '"\\ud83c"', '"\\ud83c\\n"'):
        with pytest.raises(DecodeError, match="half a surrogate pair"):
            read(text)
    with pytest.raises(DecodeError, match="half a surrogate pair in a str"):
        decode_event('{"type":"RAW","event":"\ud83c"}')


def test_d8_of_equal_keys_the_last_wins() -> None:
    document = '{"type":"TEXT_MESSAGE_END","messageId":"a","messageId":"b"}'
    assert decode_event(document, as_dict=True)["messageId"] == "b"
    assert decode_event(document).message_id == "b"
    document = '{"type":"RAW","type":"TEXT_MESSAGE_END","messageId":"a","type":"RAW","event":1}'
    assert decode_event(document, as_dict=True)["type"] == "RAW"
    assert decode_event(document).event == 1


def test_s9_no_utf8() -> None:
    for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80"):
        for place in (b'"ab%b"', b'{"k%b":1}', b'"ab%b\\n"', b'{"\\n%b":1}'):
            document = b'{"type":"CUSTOM","name":"n","value":' + place.replace(b"%b", bad) + b"}"
            for as_dict in (True, False):
                with pytest.raises(DecodeError, match=r"UTF-8") as caught:
                    decode_event(document, as_dict=as_dict)
                assert document[caught.value.offset :].startswith((bad, b'"'))


def deep(levels: int) -> list[str]:
    return ["[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels]


@pytest.mark.parametrize("levels", [1, 200, MAX_DEPTH - 1])
def test_d9_depth(levels: int) -> None:
    for text in deep(levels):
        assert read(text) == json.loads(text)


def test_d9_deeper_than_the_limit() -> None:
    for opening in ("[", '{"a":'):
        for levels in (MAX_DEPTH, 100_000):
            text = '{"type":"RAW","event":' + opening * levels
            with pytest.raises(DecodeError, match="nested deeper than 254 levels") as caught:
                decode_event(text, as_dict=True)
            assert caught.value.offset == 22 + (MAX_DEPTH - 1) * len(opening)
            with pytest.raises(DecodeError, match="nested deeper than 254 levels"):
                decode_event(text)
            with pytest.raises(DecodeError, match="nested deeper than 254 levels"):
                decode_event('{"type":"FUTURE","unknown":' + opening * levels)


def test_d9_on_a_small_stack() -> None:
    for text in deep(MAX_DEPTH - 1):
        as_dict, model = on_small_stack(partial(decoded, text))
        assert as_dict["value"] == model.value == json.loads(text)
    on_small_stack(test_d9_deeper_than_the_limit)


def test_d9_pydantic_is_asked_on_a_small_stack() -> None:
    """A timestamp to be coerced, so that pydantic reads the document, deep as it is."""

    def work() -> None:
        for levels in (150, 199, MAX_DEPTH - 1):
            text = "[" * levels + "]" * levels
            event = decode_event(f'{{"type":"RAW","timestamp":"5","event":{text}}}')
            assert event.timestamp == 5
            assert event.event == json.loads(text)

    work()
    on_small_stack(work)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(JSON, st.booleans(), st.sampled_from([None, 1]), st.booleans())
@example({"a": float("inf")}, True, None, False)
def test_any_value(value: Any, ascii_only: bool, indent: int | None, tight: bool) -> None:
    separators = (",", ":") if tight else None
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)
    text = text.replace("Infinity", "1e999")
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        return
    try:
        expected = json.loads(text)
        expected_text = json.dumps(expected, ensure_ascii=False)
        expected_text.encode()
    except UnicodeEncodeError:
        with pytest.raises(DecodeError):
            read(text)
        return
    assert same(read(text), expected)


@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
)
@example(2.0**-1074)
@example(1.7976931348623157e308)
def test_any_number(number: Any) -> None:
    text = str(number)
    assert same(read(text), json.loads(text))


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,20})\.[0-9]{1,22}", fullmatch=True))
@example("9007199254740992.0")
@example("9007199254740993.0")
@example("900719925474099.3")
@example("-0.9007199254740993")
@example("0.0000000000000000001")
@example("1844674407370955161.7")
@example("-0.0")
def test_any_decimal(text: str) -> None:
    assert same(read(text), float(text))


@given(st.text(alphabet='{}[]",:\\ue0aA1-+.tfn \n\x00é', max_size=40))
def test_any_text(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(DecodeError):
            read(text)
        return
    try:
        json.dumps(expected, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(DecodeError):
            read(text)
        return
    assert same(read(text), expected)


@given(st.binary(max_size=60))
def test_any_bytes(document: bytes) -> None:
    for as_dict in (True, False):
        with pytest.raises(DecodeError):
            decode_event(document, as_dict=as_dict)


def test_keys_that_collide() -> None:
    """More keys than the cache has slots, twice over, of every length."""
    keys = [f"{'k' * (n % 70)}{n}" for n in range(5000)]
    for _ in range(2):
        assert list(read(json.dumps(dict.fromkeys(keys, 1)))) == keys


NAMES = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    'a"',
    "a\\",
    'a"b',
    'a":1',
    "a\n",
    "\x7f",
    "\xe9",
    "type",
    "k" * 65,
]


@given(st.lists(st.lists(st.sampled_from(NAMES), max_size=6, unique=True), max_size=12))
@example([["a\\"], ["a\\"], ['a"b'], ["a"], ["a"], ["ab"], ["a"], ["a"], ['a":1']])
@example([["a"], ["a"], ['a"'], ["a"], ["a\\"], [""], ["a"], ["a", "b"], ["a", "ab"]])
def test_keys_in_any_order(objects: list[list[str]]) -> None:
    """What came after a key last is what is looked for first, and nothing else may pass for it.

    The binary transport reads its keys, which need no escapes, into the same cache.
    """
    value = [dict.fromkeys(names, 1) for names in objects]
    for _ in range(2):
        message = proto.encode({"type": "RAW", "event": value})
        assert same(proto.decode(message, as_dict=True)["event"], value)
        assert same(read(json.dumps(value, ensure_ascii=False)), value)


def test_the_protocols_keys_are_shared_objects() -> None:
    document = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-1","delta":"x"}'
    _, first, second = (decode_event(document, as_dict=True) for _ in range(3))
    for a, b in zip(first, second, strict=True):
        assert a is b
    assert first["type"] is second["type"]
    # An id that comes again, too.
    assert first["messageId"] is second["messageId"]
