"""Events for people: one line each, with the time, the type, who, and what."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from agui_codec.cli.reading import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

# What a type begins with, and how it is shown. The first that fits counts.
FAMILIES = {
    "RUN_ERROR": "bold red",
    "SUBAGENT_ERROR": "bold red",
    "RUN_": "bold blue",
    "STEP_": "blue",
    "TEXT_MESSAGE_": "green",
    "TOOL_CALL_": "yellow",
    "REASONING_": "magenta",
    "THINKING_": "magenta",
    "STATE_": "cyan",
    "MESSAGES_": "cyan",
    "ACTIVITY_": "bright_cyan",
    "SUBAGENT_": "bright_blue",
}
OTHERS = "bright_black"

# So many subagents have a lane each; those beyond share the last.
LANES = 8
# The names of so many messages and calls are remembered.
NAMES = 1000


class Timeline:
    """Writes events on a console as they come.

    Args:
        console: Where to. Its width is kept to.
        full: Write the whole event below its line.
        clock: Tells the seconds for events without timestamps, if they come live.
    """

    def __init__(
        self, console: Console, *, full: bool = False, clock: Callable[[], float] | None = None
    ) -> None:
        self._console = console
        self._full = full
        self._clock = clock
        self._first: float | None = None
        # Which subagent has a lane; None for a lane that is free.
        self._lanes: list[str | None] = []
        self._names: OrderedDict[str, str] = OrderedDict()
        narrow = console.width < 100
        self._type_width = 21 if narrow else 26
        self._who_width = 10 if narrow else 14

    def show(self, event: dict[str, Any]) -> None:
        """Write one event."""
        kind = str(event["type"])
        who, what = self._about(kind, event)
        width = self._console.width
        style = next((one for start, one in FAMILIES.items() if kind.startswith(start)), OTHERS)
        line = Text(no_wrap=True)
        line.append(f"{self._time(event):>8} ", "bright_black")
        line.append_text(_cell(_short(kind, self._type_width), self._type_width, style))
        line.append_text(self._lane(kind, event))
        line.append_text(_cell(who, self._who_width, "bold"))
        # (More than that is cut off anyway.)
        line.append(plain(what[: 2 * width]))
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)
        if self._full:
            rest = {key: value for key, value in event.items() if key != "type"}
            document = plain(json.dumps(rest, ensure_ascii=False))
            self._console.print(Text(document, "dim"), soft_wrap=True)

    def _time(self, event: dict[str, Any]) -> str:
        """How long after the first event this one comes."""
        stamp: Any = event.get("timestamp")
        if isinstance(stamp, bool) or not isinstance(stamp, int | float):
            if self._clock is None:
                return ""
            stamp = self._clock() * 1000
        if self._first is None:
            self._first = stamp
        milliseconds = stamp - self._first
        sign = "-" if milliseconds < 0 else "+"
        return sign + _duration(abs(milliseconds))

    def _lane(self, kind: str, event: dict[str, Any]) -> Text:
        """A column for the run itself and one for each subagent that works; one has a dot."""
        owner = event.get("subagentRunId")
        known = owner in self._lanes
        if kind.startswith("RUN_"):
            self._lanes.clear()
        elif owner is not None and not known and len(self._lanes) < LANES:
            free = self._lanes.index(None) if None in self._lanes else len(self._lanes)
            self._lanes[free : free + 1] = [owner]
        if not self._lanes:
            return Text()
        mine = 0
        if owner is not None:
            mine = 1 + (self._lanes.index(owner) if owner in self._lanes else len(self._lanes) - 1)
        marks = ["│", *("│" if one is not None else " " for one in self._lanes)]
        marks[mine] = "●"
        if kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR") and owner in self._lanes:
            self._lanes[self._lanes.index(owner)] = None
            while self._lanes and self._lanes[-1] is None:
                self._lanes.pop()
        return Text("".join(marks) + " ", "bright_blue")

    def _about(self, kind: str, event: dict[str, Any]) -> tuple[str, str]:
        """Who an event is of, and what it says."""
        if kind.startswith("TOOL_CALL_"):
            who = self._name(event, "toolCallId", event.get("toolCallName"))
            if kind == "TOOL_CALL_START":
                return who, f"call {_text(event.get('toolCallId'))}"
            return who, _text(event.get("content", event.get("delta")))
        if kind.startswith(("TEXT_MESSAGE_", "REASONING_MESSAGE_")):
            role = "reasoning" if kind.startswith("REASONING") else event.get("role")
            default = "assistant" if kind.endswith(("_START", "_CHUNK")) else None
            who = self._name(event, "messageId", event.get("name") or role, default)
            if kind.endswith("_START"):
                return who, f"message {_text(event.get('messageId'))}"
            return who, _text(event.get("delta"))
        if kind in ("REASONING_START", "REASONING_END"):
            return "reasoning", ""
        if kind == "RUN_STARTED":
            return "run", f"{_text(event.get('runId'))} of {_text(event.get('threadId'))}"
        if kind == "RUN_FINISHED":
            outcome = event.get("outcome")
            said = outcome.get("type") if isinstance(outcome, dict) else outcome
            return "run", " ".join(filter(None, (_text(said), _text(event.get("result")))))
        if kind in ("RUN_ERROR", "SUBAGENT_ERROR"):
            who = "run" if kind == "RUN_ERROR" else self._name(event, "subagentRunId")
            code = event.get("code")
            return who, ": ".join(filter(None, (_text(code), _text(event.get("message")))))
        if kind.startswith("SUBAGENT_"):
            who = self._name(event, "subagentRunId", event.get("name"))
            return who, _text(event.get("description") or event.get("result"))
        if kind.startswith("STEP_"):
            return "step", _text(event.get("stepName"))
        if kind == "STATE_SNAPSHOT":
            return "state", _text(event.get("snapshot"))
        if kind == "STATE_DELTA":
            return "state", _patch(event.get("delta"))
        if kind == "MESSAGES_SNAPSHOT":
            messages = event.get("messages")
            return "messages", f"{len(messages) if isinstance(messages, list) else 0} messages"
        if kind.startswith("ACTIVITY_"):
            what = _patch(event.get("patch")) if "patch" in event else _text(event.get("content"))
            return _text(event.get("activityType")), what
        if kind == "CUSTOM":
            return _text(event.get("name")), _text(event.get("value"))
        if kind == "RAW":
            return _text(event.get("source")), _text(event.get("event"))
        known = {"type", "timestamp", "subagentRunId"}
        rest = {key: value for key, value in event.items() if key not in known}
        return "", _text(rest) if rest else ""

    def _name(self, event: dict[str, Any], key: str, given: Any = None, default: Any = None) -> str:
        """What the item of an event is called, here or where it began."""
        item = f"{key} {event.get(key)}"
        name = given or self._names.get(item) or default
        if name is None:
            return _text(event.get(key))
        self._names[item] = _text(name)
        self._names.move_to_end(item)
        while len(self._names) > NAMES:
            self._names.popitem(last=False)
        return self._names[item]


def _short(kind: str, width: int) -> str:
    """A type that fits: its end says what happens, so it is cut in the middle."""
    end = kind.rpartition("_")[2]
    if len(kind) <= width or len(end) > width - 4:
        return kind
    return f"{kind[: width - len(end) - 2]}…_{end}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _patch(patch: Any) -> str:
    """A JSON Patch in words: ``replace /a 5, remove /b``."""
    if not isinstance(patch, list):
        return _text(patch)
    operations = (one if isinstance(one, dict) else {} for one in patch)
    return ", ".join(
        " ".join(
            filter(None, (_text(one.get("op")), _text(one.get("path")), _text(one.get("value"))))
        )
        for one in operations
    )


def _cell(text: str, width: int, style: str) -> Text:
    """A text that takes so much room and a space, with a mark where it was cut."""
    cell = Text(plain(text[: 2 * width]), style)
    cell.truncate(width, overflow="ellipsis", pad=True)
    cell.append(" ")
    return cell


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
