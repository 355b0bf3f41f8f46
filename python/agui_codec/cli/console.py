"""The console for output that people read."""

from __future__ import annotations

from typing import Any

import rich.console


class Console(rich.console.Console):
    """A console that does not highlight numbers, and raises if nobody reads its pipe."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, as writing the bytes would."""
        raise BrokenPipeError
