"""Against @ag-ui/proto and @ag-ui/client in Node: what either writes, the other reads alike."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import random_events
from agui_codec import UnknownEventError, proto, to_json
from conftest import ROOT

INTEROP = ROOT / "tests/interop"
SEEDS = (11, 12, 13)
COUNT = 1500

pytestmark = pytest.mark.skipif(
    not (INTEROP / "node_modules/@ag-ui/proto").is_dir(),
    reason="the Node packages are not installed: make test, or npm ci --prefix tests/interop",
)


def node(requests: list[Any]) -> list[Any]:
    """The peer's answers, all from one process."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    command = ["node", "proto.mjs"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=INTEROP)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line, parse_int=integer) for line in done.stdout.split("\n")[:-1]]
    assert len(answers) == len(requests)
    return answers


def integer(text: str) -> int | float:
    """JavaScript has doubles only, and prints large ones without an exponent."""
    return int(text) if abs(int(text)) < 2**53 else float(text)


def events(seed: int, count: int = COUNT) -> list[dict[str, Any]]:
    print(f"seed {seed}")
    return random_events.events(seed, count, integer_keys=False)


@pytest.fixture(scope="module", params=SEEDS)
def written(request: pytest.FixtureRequest) -> list[tuple[dict[str, Any], bytes, Any, Any]]:
    """Events, our bytes, the peer's bytes, and what the peer reads in ours."""
    originals = events(request.param)
    ours = [proto.encode(event) for event in originals]
    theirs = node([{"encode": event} for event in originals])
    read = node([{"decode": wire.hex()} for wire in ours])
    return list(zip(originals, ours, theirs, read, strict=True))


def test_bytes_are_the_peers(written: Any) -> None:
    for event, ours, theirs, _ in written:
        assert theirs == {"hex": ours.hex()}, event


def test_the_peer_reads_what_we_read(written: Any) -> None:
    for _, ours, _, read in written:
        assert read == {"event": proto.decode(ours, as_dict=True)}


def test_models_are_written_alike(written: Any) -> None:
    for _, ours, _, read in written:
        model = proto.decode(ours)
        assert proto.encode(model) == ours
        assert json.loads(to_json(model), parse_int=integer) == read["event"]


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_stream_of_ours_is_read_by_the_client(piece: int) -> None:
    """Every type of event; the client's own reader of frames."""
    originals = events(21, 93)
    stream = b"".join(framed(proto.encode(event)) for event in originals)
    chunks = [stream[at : at + piece].hex() for at in range(0, len(stream), piece)]
    (answer,) = node([{"stream": chunks}])
    assert answer == {
        "events": [proto.decode(proto.encode(event), as_dict=True) for event in originals]
    }
    assert {event["type"] for event in answer["events"]} == {
        cls.model_fields["type"].default.value for cls in random_events.EVENT_CLASSES
    }


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def test_a_stream_of_the_peer_is_read_by_us() -> None:
    originals = events(22, 93)
    stream = b"".join(
        framed(bytes.fromhex(answer["hex"]))
        for answer in node([{"encode": it} for it in originals])
    )
    reader = proto.FrameReader()
    messages = [message for byte in stream for message in reader.feed(bytes([byte]))]
    assert reader.close() == []
    read = [proto.decode(message, as_dict=True) for message in messages]
    assert read == [proto.decode(proto.encode(event), as_dict=True) for event in originals]


def test_both_refuse_the_same() -> None:
    """Every truncation of some messages, and an event from the future."""
    wires = [proto.encode(event) for event in events(23, 31)]
    cut = [wire[:end] for wire in wires for end in range(0, min(len(wire), 120))]
    for wire, answer in zip(cut, node([{"decode": wire.hex()} for wire in cut]), strict=True):
        try:
            read = {"event": proto.decode(wire, as_dict=True)}
        except UnknownEventError:
            assert answer.get("name") == "AGUIUnknownEventTypeError", wire.hex()
        except ValueError:
            assert "error" in answer, wire.hex()
        else:
            assert answer == read, wire.hex()
    (future,) = node([{"decode": "820200"}])
    assert future["name"] == "AGUIUnknownEventTypeError"
    with pytest.raises(UnknownEventError):
        proto.decode(b"\x82\x02\x00")


# Where our bytes or our verdict differ from the peer's, each with the reason.


def test_difference_integer_like_keys_keep_their_place() -> None:
    """JavaScript moves them to the front of an object; we keep the object's own order."""
    event = {"type": "CUSTOM", "name": "n", "value": {"b": 1, "7": 2}}
    ours = proto.encode(event)
    theirs, read = node([{"encode": event}, {"decode": ours.hex()}])
    assert theirs["hex"] != ours.hex()
    assert proto.decode(bytes.fromhex(theirs["hex"]), as_dict=True) == read["event"] == event


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**53 + 3, -(2**63) - 1, 10**19 + 1, 10**308, 10**309, -(10**400)]
)
def test_integers_that_no_double_carries_become_what_javascript_reads(value: int) -> None:
    event = {"type": "CUSTOM", "name": "n", "value": {"a": [value]}}
    (theirs,) = node([{"encode": event}])
    expected = proto.decode(bytes.fromhex(theirs["hex"]), as_dict=True)
    assert proto.decode(proto.encode(event), as_dict=True) == expected


def test_difference_half_surrogates() -> None:
    """The peer writes U+FFFD for them; we refuse them, as over SSE."""
    event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "\ud83d"}
    (theirs,) = node([{"encode": event}])
    assert proto.decode(bytes.fromhex(theirs["hex"]), as_dict=True)["delta"] == "\ufffd"
    with pytest.raises(ValueError, match="surrogate"):
        proto.encode(event)


def test_difference_wrong_types_are_refused() -> None:
    """The peer writes the text of a number for a string; we refuse it, as SSE readers do."""
    event = {"type": "TEXT_MESSAGE_END", "messageId": 5}
    (theirs,) = node([{"encode": event}])
    assert proto.decode(bytes.fromhex(theirs["hex"]), as_dict=True)["messageId"] == "5"
    with pytest.raises(ValueError, match="messageId: a str is needed"):
        proto.encode(event)


def test_difference_a_part_with_an_unknown_source_is_left_out_whole() -> None:
    """The peer writes an image without a source, which its own reader then refuses as invalid."""
    source = {"type": "telepathy", "value": "v"}
    message = {"id": "1", "role": "user", "content": [{"type": "image", "source": source}]}
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [message]}
    (theirs,) = node([{"encode": event}])
    read = proto.decode(bytes.fromhex(theirs["hex"]), as_dict=True)
    assert read["messages"][0]["content"] == [{"type": "image"}]
    ours = proto.decode(proto.encode(event), as_dict=True)
    assert ours["messages"][0]["content"] == []


def test_difference_fields_of_the_next_version_are_carried() -> None:
    """Their numbers are in the ledger; the peer's 1.0 does not know them yet."""
    message = {"id": "1", "role": "reasoning", "content": "c", "encryptedValueType": "t"}
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [message]}
    ours = proto.encode(event)
    theirs, read = node([{"encode": event}, {"decode": ours.hex()}])
    assert theirs["hex"] != ours.hex()
    assert "encryptedValueType" not in read["event"]["messages"][0]
    assert proto.decode(ours, as_dict=True) == event
