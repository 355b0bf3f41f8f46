"""How the command line reads: any form, one way for all commands, and errors that say where."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner, Result

from agui_codec import AGUIError, EventEncoder, _demo, to_json
from agui_codec.cli import commands
from agui_codec.cli.reading import Events

RUN = [json.loads(to_json(event)) for event in _demo.run()]
SSE = EventEncoder().encode_many(RUN)
READERS = ("decode", "encode", "convert", "inspect", "verify", "compact", "replay")


def invoke(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(commands.cli, [*map(str, arguments)], input=stdin)


def read(command: str, *arguments: object, stdin: bytes = b"") -> Result:
    options = ("--to", "jsonl") if command == "convert" else ()
    return invoke(command, *arguments, *options, stdin=stdin)


class Pieces(io.BytesIO):
    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read1(self, _: int | None = -1) -> bytes:
        return super().read1(self._size)


# --- one way for all -----------------------------------------------------------------------


@pytest.mark.parametrize("command", READERS)
def test_all_take_stdin_and_done_and_a_form(command: str, tmp_path: Path) -> None:
    done = SSE + b"data: [DONE]\n\n"
    assert read(command, "--allow-done", "--from", "sse", stdin=done).exit_code == 0
    assert read(command, stdin=done).exit_code == 1
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(SSE))
    result, expected = read(command, path), read(command, stdin=SSE)
    assert result.exit_code == expected.exit_code == 0
    assert result.stdout == expected.stdout


@pytest.mark.parametrize("command", READERS)
def test_errors_name_the_file_and_the_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.sse"
    path.write_bytes(SSE + b"data: {}\n\n")
    result = read(command, path)
    assert result.exit_code == 1
    if command == "inspect":
        assert "event 23 (line 47)" in result.stdout
    else:
        assert f"Error: {path}: " in result.stderr
        assert "line 47" in result.stderr


def test_diff(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.sse"
    before.write_text(json.dumps({"messages": [], "state": None}))
    after.write_bytes(SSE + b"data: [DONE]\n\n")
    result = invoke("diff", before, after)
    assert result.exit_code == 1
    assert f"Error: {after}: line 47: event 23: " in result.stderr
    assert result.stdout == ""
    assert invoke("diff", before, after, "--allow-done").stdout.startswith("[\n")
    for arguments in (("-", "-"), ("-",)):
        result = invoke("diff", *arguments, stdin=b"{}")
        assert result.exit_code == 2
        assert "cannot both be stdin" in result.stderr
    assert invoke("diff", before, stdin=before.read_bytes()).exit_code == 0
    # Arrays are documents, or streams if that is said.
    before.write_text(json.dumps(RUN))
    after.write_text(json.dumps(RUN, indent=1))
    assert invoke("diff", before, after, "--from", "json").exit_code == 0
    assert json.loads(invoke("diff", before, after).stdout) == []


# --- JSON that is not one object a line ------------------------------------------------------


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read(command: str, indent: int | None) -> None:
    expected = read(command, stdin=SSE)
    assert read(command, stdin=json.dumps(RUN, indent=indent).encode()).stdout == expected.stdout


def test_pretty_printed_documents_are_read() -> None:
    stdin = "\n".join(json.dumps(event, indent=4) for event in RUN).encode()
    assert invoke("decode", stdin=stdin).stdout == invoke("decode", stdin=SSE).stdout


@pytest.mark.parametrize("seed", range(100))
def test_any_document_however_it_is_cut(seed: int) -> None:
    choose = random.Random(seed)

    def value(depth: int = 0) -> Any:
        kind = choose.random()
        if depth > 3 or kind < 0.3:
            return choose.choice([1, None, 'x"\\[{', "\\", "a\nb{", "é}]", 1.5, "\\\\"])
        if kind < 0.6:
            return [value(depth + 1) for _ in range(choose.randrange(4))]
        return {choose.choice('ab"\\{'): value(depth + 1) for _ in range(choose.randrange(4))}

    events = [{"type": "CUSTOM", "name": "n", "value": value()} for _ in range(choose.randrange(5))]
    options: Any = {"indent": choose.choice([None, 1]), "ensure_ascii": choose.random() < 0.5}
    if seed % 2:
        text = json.dumps(events, **options)
    else:
        text = "\n".join(json.dumps(event, **options) for event in events)
    if choose.random() < 0.3:
        text = text.replace("\n", "\r\n")
    for data in (text.encode(), b"\xef\xbb\xbf \n" + text.encode()):
        for size in (1, 2, 5, 1 << 16):
            assert list(Events(Pieces(data, size))) == events


RAW = '{"type":"RAW","event":1}'


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("[1]", 0, "line 1: expected an event, found '1'"),
        (f"[{RAW} {RAW}]", 1, "line 1: expected a comma, found '{'"),
        (f"[{RAW},]", 1, "line 1: expected an event, found ','"),
        (f"[{RAW},\n\n{RAW}", 2, "line 3: unterminated JSON array"),
        (f'[{RAW},\n{{"type"', 1, "line 2: event 1: the stream ended inside an event"),
        ("[]\nx", 0, "line 2: expected an event, found 'x'"),
        ("[] []", 0, "line 1: expected an event, found '['"),
        ("[\n{}]", 0, 'line 2: event 0: an event has a "type"'),
        ("[[1]]", 0, "line 1: event 0: an event is a JSON object, not an array"),
        (f"[{RAW},,{RAW}]", 1, "line 1: expected a comma, found ',,'"),
        ("[}", 0, "line 1: expected an event, found '}'"),
        ('{\n"type":"RAW",\n"event":1}\n x', 1, "line 4: expected an event, found 'x'"),
        ('{\n"type":"RAW",\n"event":"\n"}', 0, "line 1: event 0: a control character"),
        ('[{"type":"RAW","event":[}]', 0, "line 1: event 0: '}' where a value should be"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 16])
def test_json_that_is_damaged(text: str, count: int, message: str, size: int) -> None:
    events = Events(Pieces(text.encode(), size))
    seen: list[Any] = []
    with pytest.raises(AGUIError) as caught:
        seen.extend(events)
    assert len(seen) == count
    assert events.where(caught.value).startswith(f"stdin: {message}")


# --- compression ---------------------------------------------------------------------------


def test_the_name_of_the_output_compresses_it(tmp_path: Path) -> None:
    source = tmp_path / "in.sse"
    source.write_bytes(SSE)
    for name in ("out.sse.gz", "out.SSE.GZ", "out.pb.gz", "out.jsonl.gz"):
        out = tmp_path / name
        assert invoke("convert", source, out).exit_code == 0
        assert out.read_bytes().startswith(b"\x1f\x8b")
        assert invoke("encode", out).stdout_bytes == SSE
        assert invoke("convert", out, tmp_path / "back.sse").exit_code == 0
        assert (tmp_path / "back.sse").read_bytes() == SSE
    # What came before an error is there, and whole.
    source.write_bytes(SSE + b"data: x\n\n")
    assert invoke("convert", source, out).exit_code == 1
    assert len(gzip.decompress(out.read_bytes()).splitlines()) == len(RUN)


def test_a_schema_is_no_recording(tmp_path: Path) -> None:
    source = tmp_path / "in.sse"
    source.write_bytes(SSE)
    result = invoke("convert", source, tmp_path / "out.proto")
    assert result.exit_code == 2
    assert "--to is required" in result.stderr


def test_what_is_no_stream_leaves_the_output_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.sse"
    out.write_bytes(b"before")
    assert invoke("convert", "-", out, stdin=b"hello\n").exit_code == 1
    assert out.read_bytes() == b"before"


def test_a_small_archive_that_is_large_inside_is_unpacked_a_piece_at_a_time() -> None:
    """Counted: no piece that the decoder gets is larger than the documented one."""
    from agui_codec.decoder import CHUNK_BYTES, unzipped

    packed = gzip.compress(b"\n" * 20_000_000)
    sizes = [len(piece) for piece in unzipped([packed[:7], packed[7:]], "name")]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= CHUNK_BYTES


# --- verdicts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stdin", [b"hello\n", b"", gzip.compress(SSE)[:-9], b"\x1f\x8b" + b"x" * 50, b"\0\0\0\5zz"]
)
def test_verify_says_it_in_json_whatever_it_was_given(stdin: bytes) -> None:
    result = invoke("verify", "--json", stdin=stdin)
    assert result.exit_code == 1
    verdict = json.loads(result.stdout)
    assert verdict["valid"] is False
    assert verdict["error"]["reason"]


def test_keys_are_camel_case() -> None:
    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {*value, *(key for one in value.values() for key in keys(one))}
        return {key for one in value for key in keys(one)} if isinstance(value, list) else set()

    bad = b'data: {"type":"FUTURE"}\n\ndata: {"type":"TEXT_MESSAGE_END","messageId":"q"}\n\n'
    stdin = SSE + bad
    for command in (["verify", "--json"], ["inspect", "--json"], ["replay"]):
        found = keys(json.loads(invoke(*command, stdin=stdin).stdout))
        assert not {key for key in found if "_" in key and not key.isupper()}, command


def test_rounds() -> None:
    result = invoke("bench", "--rounds", "0")
    assert result.exit_code == 2
    assert "--rounds" in result.stderr
