"""``python -m benches.report``: measures every document and writes the figures down.

All tables go to ``docs/benchmarks.md``, the rows named in ``ROWS`` to the README.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from shutil import which

from agui_codec._demo import Document, Measurement, duration, machine, measure
from benches.suite import HEADINGS, ROOT, Absent, Budget, Group, Sizes, chosen

START = "<!-- bench:start -->"
END = "<!-- bench:end -->"

INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. The six rows of the README come from here.

## How it is measured

These figures come from a shared machine, so trust the ratios more than the times. All contenders of
a document take turns on one core, in one process (except Node, which times itself), by the
process's own clock, and a ratio is the median over the rounds. Your events are not these.

Every output is compared with that of the first contender, the reference, before anything is
measured: ours with the official encoder's byte for byte. A budget is what this package holds itself
to: at least (>=) so many times as fast as the reference, at most (<=) so many times the time of the
floor, or at most so many nanoseconds beyond the reference (net).
"""

# The README's table: what each row is called, the document, the contender.
ROWS = [
    ("encode a text delta", "text delta", "agui_codec, model to str"),
    (
        "encode a snapshot of 100 messages",
        "MESSAGES_SNAPSHOT, 100 messages",
        "agui_codec, model to str",
    ),
    ("decode a token from SSE to a model", "SSE token stream to models", "agui_codec, models"),
    (
        "encode a text delta as protobuf",
        "protobuf encode, text delta, and upb",
        "agui-codec, models",
    ),
    ("patch one of 1,000 records", "1 op on 1,000 records", "agui-codec"),
    ("run an agent, a token", "a run, a token", "agent.run_agent"),
]


@dataclass(frozen=True)
class Report:
    """What was measured, as Markdown: the page of all tables, and the README's table."""

    page: str
    rows: str


def stay_on_one_core() -> None:
    """Keep this process and its children on one core, where the system can.

    The cores of a virtual machine may differ by a factor of two, with what else the host does; Node
    would be measured on the one and this process on the other.
    """
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def report(rounds: int, only: str | None = None) -> Report:
    """Check and measure the documents.

    Args:
        rounds: How often each contender is timed.
        only: The name of the one group or document to measure.

    Raises:
        AssertionError: If a contender's output is wrong.
        ValueError: If nothing is called what ``only`` says.
    """
    again = "make bench" if only is None else f'python -m benches.report --only "{only}"'
    parts = [INTRODUCTION, f"Machine: {machine()}{peers()}.\n\nReproduce: `{again}`\n"]
    heading = None
    figures: dict[str, Measurement | Absent] = {}
    for group, document in chosen(only):
        if group.name != heading:
            heading = group.name
            parts.append(f"## {HEADINGS[heading]}\n")
        if isinstance(document, Absent):
            figures[document.name] = document
            parts.append(f"**{document.name}**: not measured, {document.reason}\n")
            continue
        if isinstance(document, Sizes):
            parts.append(sizes(document))
            continue
        print(f"{group.name}: {document.name}", file=sys.stderr)
        for contender in document.contenders:
            document.check(contender)
        measured = measure(document, rounds, sample_seconds=0.002)
        figures[document.name] = measured
        parts.append(table(group, document, measured))
    return Report("\n".join(parts), summary(figures))


def summary(figures: Mapping[str, Measurement | Absent]) -> str:
    """The README's table, of the documents that were measured."""
    rows = []
    for label, document, name in ROWS:
        measured = figures.get(document)
        if isinstance(measured, Absent):
            rows.append([label, "", "", f"not measured: {measured.reason}"])
        elif measured is not None:
            reference = next(iter(measured.samples))
            faster = 1 / measured.ratio(name, reference)
            times = f"{faster:.1f}x" if faster < 100 else f"{faster:,.0f}x"
            theirs = f"{duration(measured.seconds(reference))} ({reference})"
            rows.append([label, theirs, duration(measured.seconds(name)), times])
    return markdown(["work", "reference", "agui-codec", "faster"], rows)


def peers() -> str:
    """The versions of what else is measured, as the end of the line on the machine."""
    versions = [
        f"protobuf {metadata.version('protobuf')}",
        f"jsonpatch {metadata.version('jsonpatch')}",
    ]
    if node := which("node"):
        run = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        lock = json.loads((ROOT / "tests/interop/package-lock.json").read_bytes())["packages"]
        versions.append(f"Node {run.stdout.strip().removeprefix('v')}")
        versions.append(f"@ag-ui/client {lock['node_modules/@ag-ui/client']['version']}")
    return ", " + ", ".join(versions)


def table(group: Group, document: Document, measured: Measurement) -> str:
    """The table of one document as Markdown."""
    names = [contender.name for contender in document.contenders]
    reference = names[0]
    floor = group.floor if group.floor in names else None
    items = f", each of {document.count} events" if document.count > 1 else ""
    header = ["contender", "median", f"faster than {reference}"]
    header += [f"time of {floor}"] if floor else []
    rows = []
    for name in names:
        faster = 1 / measured.ratio(name, reference)
        of_floor = measured.ratio(name, floor) if floor else None
        row = [name, duration(measured.seconds(name)), f"{faster:.1f}x"]
        row += [f"{of_floor:.2f}x"] if of_floor else []
        net = (measured.seconds(name) - measured.seconds(reference)) * 1e9
        budget = group.budgets.get((document.name, name))
        rows.append([*row, verdict(budget, faster, of_floor, net)])
    return f"**{document.name}**{items}\n\n{markdown([*header, 'budget'], rows)}"


def verdict(
    budget: Budget | None, faster: float, of_floor: float | None, net: float | None = None
) -> str:
    """The budget in words, and what of it is missed.

    Args:
        budget: What the row is held to.
        faster: How many times as fast as the reference it is.
        of_floor: How many times the time of the floor it takes.
        net: How many nanoseconds an item it takes beyond the reference.
    """
    words = []
    if budget and budget.faster:
        missed = " (missed)" if faster < budget.faster else ""
        words.append(f">= {budget.faster:g}x{missed}")
    if budget and budget.floor:
        missed = " (missed)" if of_floor and of_floor > budget.floor else ""
        words.append(f"<= {budget.floor:g}x{missed}")
    if budget and budget.net and net is not None:
        missed = " (missed)" if net > budget.net else ""
        words.append(f"{net:.0f} ns net, <= {budget.net:g} ns{missed}")
    return ", ".join(words)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is also aligned as text: the first and last columns to the left."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    last = len(header) - 1

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if at in (0, last) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |\n"

    rule = [
        "-" * width if at in (0, last) else "-" * (width - 1) + ":"
        for at, width in enumerate(widths)
    ]
    return line(header) + line(rule) + "".join(map(line, rows))


def sizes(document: Sizes) -> str:
    """The table of what some events take on several wires."""
    reference, whole = next(iter(document.sizes.items()))
    rows = [[name, f"{size:,}", f"{size / whole:.2f}x"] for name, size in document.sizes.items()]
    table = markdown(["wire", "bytes", f"of {reference}"], rows)
    return f"**{document.name}**, {document.count} events\n\n{table}"


def write(readme: Path, text: str) -> bool:
    """Put a table between the README's markers; false if it has none."""
    before, start, rest = readme.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        return False
    readme.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; write the page and the README unless only a part was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benches.report", description=__doc__)
    parser.add_argument("--only", metavar="GROUP", help="one group or document; nothing is written")
    parser.add_argument("--rounds", type=int, default=101, help="timings of each (default: 101)")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/benchmarks.md", metavar="FILE")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        done = report(options.rounds, options.only)
    except ValueError as error:
        parser.error(str(error))
    print(done.page)
    if options.only:
        return 0
    options.page.write_text(done.page, encoding="utf-8")
    print(f"{options.page}: written", file=sys.stderr)
    if not write(options.readme, done.rows):
        print(f"{options.readme}: not written, {START} and {END} are missing", file=sys.stderr)
        return 1
    print(f"{options.readme}: {len(ROWS)} rows written", file=sys.stderr)
    return 0


if __name__ == "__main__":
    stay_on_one_core()
    sys.exit(main())
