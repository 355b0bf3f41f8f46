"""The commands of ``agui-codec``.

Output for people goes through rich, data to the binary stdout. Errors are reported by raising
``click.ClickException``, which exits with status 1. Click handles Ctrl-C, ``cli.main`` a full disk.
"""

import os
import sys
from typing import Any

import click

from agui_codec import __version__
from agui_codec.cli.chat import chat
from agui_codec.cli.convert import convert, decode, encode
from agui_codec.cli.demo import bench, demo
from agui_codec.cli.inspect import inspect
from agui_codec.cli.state import compact, diff, replay
from agui_codec.cli.verify import verify

# The status that shells give a program killed by SIGPIPE.
BROKEN_PIPE = 141


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; end it quietly if the reader of its output has gone (``| head``)."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What the interpreter still has to write when it ends would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agui-codec")
def cli() -> None:
    """Read, convert, check and replay streams of AG-UI events.

    Commands read Server-Sent Events, JSON Lines, JSON or protobuf frames, optionally compressed
    with gzip, from FILE or stdin; the format is recognised. They exit with status 1 on input that
    is not an event stream, and with 130 after Ctrl-C.
    """


commands = (chat, demo, decode, encode, convert, inspect, verify, compact, replay, diff, bench)
for command in commands:
    cli.add_command(command)
