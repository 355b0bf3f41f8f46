"""``python -m agui_codec.cli``: the command line."""

from agui_codec.cli import main

if __name__ == "__main__":
    main()
