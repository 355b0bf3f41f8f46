"""The checks that a client makes on a stream: what it tolerates, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_codec import (
    AGUIError,
    ChunkExpander,
    EventEnforcer,
    EventVerifier,
    LegacyUpgrader,
    Pipeline,
)
from agui_codec.cli.reading import plain

if TYPE_CHECKING:
    from agui_codec import Deviation
    from agui_codec.cli.reading import Events

# At most this many deviations are listed; the rest are counted.
LISTED = 1000


class Checks:
    """The stages of a client, and what they report about a stream.

    Older shapes are converted, unknown properties are removed, chunks are expanded, and each event
    must be well-formed and allowed where it stands.
    """

    def __init__(self) -> None:
        #: The last event checked, counted from 0, and its line.
        self.index = -1
        self.line: int | None = None
        #: The first deviations that were tolerated, and how many there were.
        self.tolerated: list[dict[str, Any]] = []
        self.tolerated_count = 0
        #: The first event that was refused.
        self.problem: dict[str, Any] | None = None
        #: Whether it was the end of the stream that was refused.
        self.ended = False
        self._stages = Pipeline(
            LegacyUpgrader(on_deviation=self.tolerate),
            EventEnforcer(on_deviation=self.tolerate),
            ChunkExpander(on_deviation=self.tolerate),
            EventVerifier(),
        )

    def feed(self, event: dict[str, Any], line: int | None) -> None:
        """Check the next event, unless one was refused before."""
        self.index, self.line = self.index + 1, line
        if self.problem is None:
            try:
                self._stages.feed(event)
                # An error that comes after events, of a chunk say, would be raised a call later.
                if self._stages.error is not None:
                    raise self._stages.error
            except AGUIError as error:
                self.refuse(error)

    def close(self) -> None:
        """Check that the stream may end here."""
        self.index, self.line = self.index + 1, None
        if self.problem is None:
            try:
                self._stages.close()
                if self._stages.error is not None:
                    raise self._stages.error
            except AGUIError as error:
                self.refuse(error, ended=True)

    def unreadable(self, error: Exception, events: Events) -> None:
        """Note that the bytes after the last event are not an event."""
        self.index, self.line = self.index + 1, events.line
        reason = str(error).removeprefix(f"{events.name}: ")
        self.refuse(error, reason=reason.removeprefix(f"event {self.index}: "))

    def tolerate(self, deviation: Deviation) -> None:
        """Note a deviation."""
        self.tolerated_count += 1
        if len(self.tolerated) < LISTED:
            one = {
                "index": max(self.index, 0),
                "line": self.line,
                "kind": deviation.kind,
                "eventType": deviation.event_type,
                "path": deviation.path,
                "detail": deviation.detail,
            }
            self.tolerated.append(one)

    def refuse(self, error: Exception, *, reason: str = "", ended: bool = False) -> None:
        """Note the problem with the last event."""
        if self.problem is None:
            self.problem = {
                "index": self.index,
                "line": self.line,
                "eventType": getattr(error, "event_type", None),
                "id": getattr(error, "id", None),
                "path": getattr(error, "path", None),
                "reason": reason or getattr(error, "reason", "") or str(error),
                "expected": getattr(error, "expected", "") or None,
            }
            self.ended = ended

    def said(self) -> str:
        """The problem, in one line."""
        problem = self.problem or {}
        index = problem["index"]
        where = f"after {index} events" if self.ended else place(index, problem["line"])
        about = ": ".join(filter(None, (problem["eventType"], problem["path"])))
        if self.ended and not about:
            about = "the end"
        return _said(where, about, problem["reason"])


def place(index: int, line: int | None) -> str:
    """The position of an event."""
    return f"event {index} (line {line})" if line else f"event {index}"


def deviation_said(one: dict[str, Any]) -> str:
    """A deviation, in one line."""
    about = ": ".join(filter(None, (one["eventType"], one["path"])))
    return _said(place(one["index"], one["line"]), about, one["detail"])


def _said(where: str, about: str, what: str) -> str:
    return plain(f"{where}, {about}: {what}" if about else f"{where}: {what}")
