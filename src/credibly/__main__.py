"""`python -m credibly` is the command `credibly`."""

from credibly.cli.main import run

run()
