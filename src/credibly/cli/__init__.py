"""The command: parse, call one function, print."""

DONE, UNEXPECTED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
STOPPED = "Interrupted. No file was left half-written."
