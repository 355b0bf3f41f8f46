"""The benchmarks: what they time is right, and the report shows it. No time is asserted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from agui_codec._demo import Contender, Document, Measurement, same_bytes, same_json
from benches import report
from benches.suite import GROUPS, Absent, Budget, Group, Sizes, chosen, group, parameters


@pytest.mark.parametrize("row", parameters(chosen()))
def test_every_row_makes_what_the_reference_makes(row):
    row.document.check(row.contender)


def test_a_wrong_result_is_found():
    def made(*frames):
        return lambda: iter(frames)

    document = Document("document", 2, [Contender("first", made("data: 1\n\n", "data: 2\n\n"))])
    document.check(Contender("as bytes", made(b"data: 1\n\n", b"data: 2\n\n")))
    with pytest.raises(AssertionError, match="result 1 differs"):
        document.check(Contender("another", made(b"data: 1\n\n", b"data: 3\n\n")))
    with pytest.raises(AssertionError, match="1 results"):
        document.check(Contender("fewer", made(b"data: 1\n\n")))


def test_what_counts_as_the_same():
    assert same_bytes("ü", "ü".encode())
    assert same_json(b'data: {"a": "\\u00fc", "b": 1}\n\n', 'data: {"b":1,"a":"ü"}\n\n')
    assert not same_json(b'data: {"a": 1}\n\n', 'data: {"a":2}\n\n')
    assert not same_json(b'{"a": 1}', 'data: {"a":1}\n\n')


@pytest.mark.parametrize("name", GROUPS)
def test_every_budget_is_of_a_row(name):
    owner = group(name)
    rows = {
        (document.name, contender.name)
        for document in owner.documents
        if isinstance(document, Document)
        for contender in document.contenders
    }
    absent = {document.name for document in owner.documents if isinstance(document, Absent)}
    assert not {pair for pair in owner.budgets if pair not in rows and pair[0] not in absent}


def test_one_document_can_be_chosen():
    assert [document.name for _, document in chosen("tool args")] == ["tool args"]
    assert list(chosen("encode")) == [pair for pair in chosen() if pair[0].name == "encode"]
    with pytest.raises(ValueError, match="tool args"):
        list(chosen("no such"))


# --- the report ----------------------------------------------------------------------------


def test_the_table_shows_ratios_and_budgets():
    names = ["official", "ours", "floor"]
    document = Document("doc", 3, [Contender(name, lambda: iter(())) for name in names])
    budgets = {("doc", "ours"): Budget(faster=10, floor=1.5)}
    owner = Group("group", [document], "floor", budgets)
    measured = Measurement({"official": [4e-6], "ours": [2e-7], "floor": [1e-7]})
    assert report.table(owner, document, measured).splitlines() == [
        "**doc**, each of 3 events",
        "",
        "| contender | median | faster than official | time of floor | budget                   |",
        "| --------- | -----: | -------------------: | ------------: | ------------------------ |",
        "| official  |   4 us |                 1.0x |        40.00x |                          |",
        "| ours      | 200 ns |                20.0x |         2.00x | >= 10x, <= 1.5x (missed) |",
        "| floor     | 100 ns |                40.0x |         1.00x |                          |",
    ]


def test_the_table_of_sizes():
    sizes = Sizes("run on the wire", 3, {"text": 12_000, "binary": 3_000})
    assert report.sizes(sizes).splitlines() == [
        "**run on the wire**, 3 events",
        "",
        "| wire   |  bytes | of text |",
        "| ------ | -----: | ------- |",
        "| text   | 12,000 | 1.00x   |",
        "| binary |  3,000 | 0.25x   |",
    ]


README = f"# Name\n\n{report.START}\nold\n{report.END}\n\nmore\n"


def test_the_report_goes_between_the_markers(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(README)
    assert report.write(readme, "first")
    assert report.write(readme, "a table ≥")
    expected = f"# Name\n\n{report.START}\na table ≥\n{report.END}\n\nmore\n"
    assert readme.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("text", ["# Name\n", f"{report.START}\n", f"{report.END}{report.START}"])
def test_a_readme_without_markers_stays(tmp_path, text):
    readme = tmp_path / "README.md"
    readme.write_text(text)
    assert not report.write(readme, "table")
    assert readme.read_text() == text


def test_the_whole_report(tmp_path, capsys):
    readme, page = tmp_path / "README.md", tmp_path / "benchmarks.md"
    readme.write_text(README)
    files = ["--readme", str(readme), "--page", str(page)]
    assert report.main(["--rounds", "1", *files]) == 0
    written = page.read_text(encoding="utf-8")
    assert written.index("trust the ratios") < written.index("Machine: ")
    assert "Reproduce: `make bench`" in written
    for _, document in chosen():
        assert f"**{document.name}**" in written
    said = capsys.readouterr()
    assert said.out.strip() == written.strip()
    for row, *_ in report.ROWS:
        assert f"| {row} " in readme.read_text(encoding="utf-8")
    assert said.err.endswith(f"{page}: written\n{readme}: 6 rows written\n")


def test_a_part_of_the_report_is_not_written(tmp_path, capsys):
    readme, page = tmp_path / "README.md", tmp_path / "benchmarks.md"
    readme.write_text(README)
    files = ["--readme", str(readme), "--page", str(page)]
    report.main(["--rounds", "1", "--only", "tool args", *files])
    assert "**tool args**" in capsys.readouterr().out
    assert readme.read_text() == README
    assert not page.exists()


def test_the_rows_of_the_readme():
    label, document, name = report.ROWS[0]
    measured = Measurement({"ref": [4e-6], name: [2e-7]})
    other, absent, _ = report.ROWS[1]
    figures = {document: measured, absent: Absent(absent, "no Node")}
    assert report.summary(figures).splitlines() == [
        "| work                              |  reference | agui-codec | faster                |",
        "| --------------------------------- | ---------: | ---------: | --------------------- |",
        f"| {label}               | 4 us (ref) |     200 ns | 20.0x                 |",
        f"| {other} |            |            | not measured: no Node |",
    ]


def test_every_row_of_the_readme_is_of_a_document():
    documents = {document.name: document for _, document in chosen()}
    for _, document, name in report.ROWS:
        found = documents[document]
        names = [contender.name for contender in getattr(found, "contenders", ())]
        assert isinstance(found, Absent) or name in names[1:]


def test_what_is_absent_is_said(monkeypatch, capsys):
    owner = Group("group", [], None, {})
    monkeypatch.setitem(report.HEADINGS, "group", "Group")
    monkeypatch.setattr(report, "chosen", lambda only: [(owner, Absent("doc", "it is not there"))])
    report.main(["--only", "doc"])
    assert "**doc**: not measured, it is not there" in capsys.readouterr().out


def test_no_such_group(capsys):
    with pytest.raises(SystemExit, match="2"):
        report.main(["--only", "no such"])
    assert "no group or document is called 'no such'" in capsys.readouterr().err
