"""The command ``agui-codec chat``: a conversation with an agent behind HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import click

from agui_codec import AGUIError, to_json
from agui_codec.cli.console import Console
from agui_codec.cli.convert import named, writer
from agui_codec.cli.reading import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agui_codec import Deviation
    from agui_codec.client import HttpAgent, Run, RunResult

PROMPT = "> "
# How the kinds of things look.
REASONING, CALL, STATE, NOTE, FAILURE = "dim", "yellow", "cyan", "dim", "bold red"


def _headers(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    headers = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon or not name.strip() or not one.isascii():
            raise click.BadParameter(f"{one!r} is not 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers


@click.command(short_help="Talk to an agent.")
@click.argument("url")
@click.option("-m", "--message", "messages", multiple=True, help="Send this; may be repeated.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="'NAME: VALUE'",
    help="Send this header; may be repeated.",
)
@click.option("--wire", type=click.Choice(["sse", "protobuf"]), default="sse", show_default=True)
@click.option("--thread-id", help="The conversation to continue. By default a new one.")
@click.option("--state", "shows_state", is_flag=True, help="Show how the state changes.")
@click.option("--json", "as_json", is_flag=True, help="Write the events as JSON Lines.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False),
    metavar="OUT",
    help="Also write the events to a file, by its name as .sse, .jsonl or .pb.",
)
def chat(
    url: str,
    messages: tuple[str, ...],
    headers: dict[str, str],
    wire: Literal["sse", "protobuf"],
    thread_id: str | None,
    shows_state: bool,
    as_json: bool,
    record: str | None,
) -> None:
    """Talk to the agent at URL.

    Each line typed, or read from stdin, is a message; so is each -m. When the agent interrupts its
    run to ask for something, the next line is the answer: JSON, or else text; an empty one cancels.

    Ctrl-C ends the run; Ctrl-D, or Ctrl-C at the prompt, ends the conversation. Exits with status 1
    if the first run fails, or any run without a terminal.
    """
    try:
        from agui_codec.client import HttpAgent
    except ImportError as error:
        raise click.ClickException(str(error)) from None

    if "://" not in url:
        url = f"http://{url}"
    view = _View(as_json, shows_state)
    agent = HttpAgent(
        url,
        headers=headers,
        wire=wire,
        thread_id=thread_id,
        as_dict=True,
        max_retries=0,
        on_deviation=view.deviation,
    )
    target = None
    if record is not None:
        target = None if record.endswith(".gz") else named(record)
        if target is None:
            raise click.BadParameter("name it .sse, .jsonl or .pb", param_hint="--record")
    interactive = not messages and sys.stdin.isatty()
    if interactive:
        with suppress(ImportError):
            import readline  # noqa: F401 (lines can be edited then)
    lines = _lines(iter(messages) if messages else None, view)
    with ExitStack() as stack:
        shows: list[Callable[[dict[str, Any]], object]] = [view.show]
        if record is not None and target is not None:
            file = stack.enter_context(open(record, "wb"))
            # Each event at once: whatever happens next, it is there.
            shows += [writer(file, target, full=False, live=False), lambda event: file.flush()]
        loop = stack.enter_context(_event_loop(agent))
        _Conversation(agent, loop, lines, view, shows, interactive).go_on()


class _Conversation:
    """The turns of a conversation."""

    def __init__(
        self,
        agent: HttpAgent,
        loop: asyncio.AbstractEventLoop,
        lines: Callable[[str], str | None],
        view: _View,
        shows: list[Callable[[dict[str, Any]], object]],
        interactive: bool,
    ) -> None:
        self._agent = agent
        self._loop = loop
        self._line = lines
        self._view = view
        self._shows = shows
        self._interactive = interactive
        self._turns = 0

    def go_on(self) -> None:
        """Take turns until there is nothing left to say."""
        while True:
            if self._agent.pending_interrupts:
                resume = self._answers()
                if resume is None:
                    return
                self._turn(None, resume)
            elif (said := self._line(PROMPT)) is None:
                return
            elif said.strip():
                self._turn(said, None)

    def _turn(self, said: str | None, resume: dict[str, Any] | None) -> None:
        run = self._agent.run_agent(said, resume=resume)
        failure = None
        try:
            with self._interruptible(run):
                result = self._loop.run_until_complete(self._read(run))
        except self._errors() as error:
            failure = f"{self._agent.url}: {plain(str(error) or type(error).__name__)}"
        else:
            if result.error is not None:
                code = f" ({result.error.code})" if result.error.code else ""
                failure = plain(f"the run failed{code}: {result.error.message}")
            elif result.status == "aborted":
                if not self._interactive:
                    raise click.Abort
                self._view.note("aborted")
            elif result.status == "cancelled":
                self._view.note("cancelled by the agent")
        self._view.end_line()
        if failure is not None:
            if not (self._interactive and self._turns):
                raise click.ClickException(failure)
            self._view.note(failure, FAILURE)
        self._turns += 1

    async def _read(self, run: Run) -> RunResult:
        async with run:
            async for event in run:
                for show in self._shows:
                    show(event)  # type: ignore[arg-type]
        return run.snapshot

    @contextmanager
    def _interruptible(self, run: Run) -> Iterator[None]:
        """Have Ctrl-C abort the run, and a second one end the program."""
        aborted = False

        def interrupt(*_: object) -> None:
            nonlocal aborted
            if aborted:
                raise KeyboardInterrupt
            aborted = True
            self._loop.call_soon_threadsafe(run.abort)

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _answers(self) -> dict[str, Any] | None:
        """Answers to all pending interrupts, by id; None if there is nobody to give them."""
        from agui_codec.client import cancel, is_interrupt_expired, resolve

        answers: dict[str, Any] = {}
        pending: list[Any] = self._agent.pending_interrupts
        for one in pending:
            self._view.interrupt(one)
            if is_interrupt_expired(one):
                self._view.note("expired: it is cancelled")
                answers[one["id"]] = cancel()
                continue
            said = self._line("answer> ")
            if said is None:
                if self._interactive:
                    return None
                names = ", ".join(repr(other["id"]) for other in pending)
                raise click.ClickException(f"the agent waits for an answer to interrupt {names}")
            answers[one["id"]] = resolve(_value(said)) if said.strip() else cancel()
            # It may have expired while the answer was typed.
        return {
            one["id"]: cancel() if is_interrupt_expired(one) else answers[one["id"]]
            for one in pending
        }

    def _errors(self) -> tuple[type[Exception], ...]:
        """What a run raises that cannot be made, or fails."""
        try:
            module = self._agent._http()
        except ImportError:
            return (ImportError,)
        return (AGUIError, module.HTTPError, module.InvalidURL)


class _View:
    """What is seen of a conversation, on stdout; remarks are on stderr."""

    def __init__(self, as_json: bool, shows_state: bool) -> None:
        self._as_json = as_json
        self._shows_state = shows_state
        self._out = Console(soft_wrap=True)
        self._remarks = Console(stderr=True, soft_wrap=True)
        # What the line at hand is part of; None at the beginning of a line.
        self._inside: str | None = None
        self._ends_line = True
        # The names and the arguments of calls that go on.
        self._calls: dict[str, tuple[str, list[str]]] = {}

    @property
    def as_json(self) -> bool:
        """Whether stdout is for JSON alone."""
        return self._as_json

    def show(self, event: dict[str, Any]) -> None:
        """Show an event as it comes."""
        if self._as_json:
            sys.stdout.buffer.write(to_json(event) + b"\n")
            sys.stdout.buffer.flush()
            return
        kind = event["type"]
        if kind == "TEXT_MESSAGE_CONTENT":
            self._write(event["messageId"], event["delta"])
        elif kind == "REASONING_MESSAGE_CONTENT":
            self._write(event["messageId"], event["delta"], REASONING)
        elif kind in ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END"):
            if self._inside == event["messageId"]:
                self.end_line()
        elif kind == "TOOL_CALL_START":
            self._calls[event["toolCallId"]] = (event["toolCallName"], [])
        elif kind == "TOOL_CALL_ARGS" and event["toolCallId"] in self._calls:
            self._calls[event["toolCallId"]][1].append(event["delta"])
        elif kind == "TOOL_CALL_END" and event["toolCallId"] in self._calls:
            name, arguments = self._calls.pop(event["toolCallId"])
            self._line(f"{name}({''.join(arguments)})", CALL)
        elif kind == "TOOL_CALL_RESULT":
            content = event["content"]
            self._line(f"  = {content if isinstance(content, str) else _json(content)}", CALL)
        elif kind == "STATE_SNAPSHOT" and self._shows_state:
            self._line(f"state {_json(event['snapshot'])}", STATE)
        elif kind == "STATE_DELTA" and self._shows_state:
            for one in event["delta"]:
                last = f" {_json(one['value'])}" if "value" in one else f" {one.get('from', '')}"
                self._line(f"state {one['op']} {one['path']}{last}".rstrip(), STATE)
        elif kind == "RUN_STARTED":
            self._calls.clear()

    def interrupt(self, interrupt: dict[str, Any]) -> None:
        """Show what the agent waits for."""
        message = interrupt.get("message") or interrupt["reason"]
        self.note(f"? {plain(message)}", "bold")
        if interrupt.get("responseSchema"):
            self.note(f"  {plain(_json(interrupt['responseSchema']))}")

    def deviation(self, deviation: Deviation) -> None:
        """Show what is tolerated."""
        self.note(f"warning: {plain(str(deviation))}")

    def note(self, text: str, style: str = NOTE) -> None:
        """Show a remark, on a line of its own."""
        self.end_line()
        self._remarks.out(text, style=style)

    def end_line(self) -> None:
        """Go to the beginning of a line."""
        if self._inside is not None and not self._ends_line:
            self._out.out("")
        self._inside = None

    def _write(self, inside: str, text: str, style: str | None = None) -> None:
        if self._inside != inside:
            self.end_line()
            self._inside = inside
        if text:
            self._ends_line = text.endswith("\n")
            self._out.out(_lines_of(text), style=style, end="")

    def _line(self, text: str, style: str) -> None:
        self.end_line()
        self._out.out(_lines_of(text), style=style)


def _lines(given: Iterator[str] | None, view: _View) -> Callable[[str], str | None]:
    """What gives the next line, and None after the last."""
    stdin = sys.stdin

    def line(prompt: str) -> str | None:
        if given is not None:
            return next(given, None)
        asks = stdin.isatty()
        try:
            if asks and sys.stdout.isatty() and not view.as_json:
                return input(prompt)
            if asks:
                click.echo(prompt, err=True, nl=False)
            read = stdin.readline()
        except EOFError:
            read = ""
        if not read and asks:
            click.echo(err=True)
        # Bytes that are not UTF-8 could not be sent.
        read = read.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return read.rstrip("\r\n") if read else None

    return line


@contextmanager
def _event_loop(agent: HttpAgent) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop, which at the end has nothing left to do."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        try:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(agent.aclose())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _value(said: str) -> Any:
    """An answer: JSON, or else the text that it is."""
    try:
        return json.loads(said)
    except ValueError:
        return said


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines_of(text: str) -> str:
    """A text of the agent's, without what a terminal would obey, but in lines."""
    return "".join(char if char in "\n\t" else plain(char) for char in text)
