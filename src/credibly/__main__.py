"""Where the command `credibly` begins; `python -m credibly` is the same."""

import os
import sys

from credibly.cli import INTERRUPTED, STOPPED


def run() -> None:
    """Import the command, which takes a second, and run it."""
    try:
        from credibly.cli.main import run as command
    except ModuleNotFoundError as error:
        print(f"credibly: the command needs {error.name}: pip install 'credibly[cli]'", file=sys.stderr, flush=True)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"credibly: {STOPPED}", file=sys.stderr, flush=True)
        # Where Ctrl-C met code that is made of text, as dataclasses are, Python would not heed sys.exit's number.
        os._exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    run()
