"""The command line ``agui-codec``. Its commands are in ``_commands``, which needs the extra."""

import os
import sys


def main() -> None:
    """Run ``agui-codec``; without the ``cli`` extra, say how to get it and exit with 1."""
    try:
        from agui_codec._commands import cli
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        print('The command line needs its extra: pip install "agui-codec[cli]"', file=sys.stderr)
        sys.exit(1)
    try:
        cli(prog_name="agui-codec")
    except OSError as error:
        print(f"Error: {error}", file=sys.stderr)
        # What the interpreter still has to write when it ends would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
