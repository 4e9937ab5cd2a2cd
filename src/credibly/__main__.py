"""Where the command `credibly` begins; `python -m credibly` is the same."""

import sys

from credibly.cli import INTERRUPTED, STOPPED


def run() -> None:
    """Import the command, which takes a second, and run it."""
    try:
        from credibly.cli.main import run as command
    except KeyboardInterrupt:
        print(f"credibly: {STOPPED}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    run()
