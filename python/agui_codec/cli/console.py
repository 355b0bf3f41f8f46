"""The console on which the commands show something to people."""

from __future__ import annotations

from typing import Any

import rich.console


class Console(rich.console.Console):
    """A console that leaves numbers as they are, and a pipe that nobody reads to its caller."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, as writing the bytes would."""
        raise BrokenPipeError
