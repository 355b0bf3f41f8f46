"""The command line ``agui-codec``. The commands are in ``commands``, which needs the extra."""

import io
import os
import sys


def main() -> None:
    """Run ``agui-codec``; without the ``cli`` extra, say how to get it and exit with status 1.

    Exits with status 130 after Ctrl-C, as shells expect.
    """
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(130)


def _main() -> None:
    try:
        import click

        from agui_codec.cli.commands import cli
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        print('The command line needs its extra: pip install "agui-codec[cli]"', file=sys.stderr)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An event may have characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(cli.main(prog_name="agui-codec", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except OSError as error:
        print(f"Error: {error}", file=sys.stderr)
        # What the interpreter still has to write when it ends would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
