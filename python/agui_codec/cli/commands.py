"""The commands of ``agui-codec``.

What a command prints for people goes through rich; data goes to the binary stdout. It reports what
is wrong by raising ``click.ClickException``, which ends with status 1. Ctrl-C and a reader of the
pipe that has gone are click's business, a full disk that of ``cli.main``.
"""

import click

from agui_codec import __version__
from agui_codec.cli.convert import convert, decode, encode
from agui_codec.cli.demo import bench, demo
from agui_codec.cli.inspect import inspect
from agui_codec.cli.state import compact, diff, replay
from agui_codec.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agui-codec")
def cli() -> None:
    """The AG-UI event wire in Rust: what ag_ui.encoder writes, sooner."""


for command in (demo, encode, decode, convert, inspect, verify, compact, replay, diff, bench):
    cli.add_command(command)
