"""A process that does a piece of work in a fork of itself, again and again, and lets a fault befall it each time.

A fork costs some milliseconds, where a new process takes seconds to import everything: so the fault can come at every
line of what writes, and at many bytes of what is written. Nothing here waits for a moment to come: the child sends
the signal to itself before the k-th line it runs in the watched files, and the kernel stops a write at the byte where
RLIMIT_FSIZE ends. Signals, processes and files are real.

Requests and answers are lines of JSON on standard input and output; see `Faults` in ``faults.py``, which asks.
"""

import dis
import gc
import json
import linecache
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

STUCK = 300  # seconds after which a child that has not ended is called stuck, and killed
INTERRUPTED, REFUSED, FAILED = 130, 2, 1


class Tripwire:
    """Counts the lines run in files whose paths have certain words, and sends a signal to itself before one of them."""

    def __init__(self, files: Sequence[str], at: int | None, name: str | None) -> None:
        self.files, self.at = tuple(files), at
        self.signal = None if name is None else getattr(signal, name)
        self.lines = 0

    def watch(self) -> None:
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        path = frame.f_code.co_filename
        return self._line if any(part in path for part in self.files) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and may_be_stopped(frame):
            self.lines += 1
            if self.lines == self.at:
                os.kill(os.getpid(), self.signal)
        return self._line


@cache
def _instructions(code: CodeType) -> tuple[dict[int, str], dict[int, int]]:
    """The names of all instructions, and the first one of every line."""
    names = {it.offset: it.opname for it in dis.get_instructions(code)}
    first: dict[int, int] = {}
    for start, _, line in code.co_lines():
        if line is not None:
            first[line] = min(start, first.get(line, start))
    return names, first


def may_be_stopped(frame: FrameType) -> bool:
    """Whether Python might look for signals here: between a block and the exit of its `with`, or at `try`, it does not.

    Otherwise no program that uses locks could be stopped safely.
    """
    names, first = _instructions(frame.f_code)
    leaves = frame.f_lasti > first[frame.f_lineno] and linecache.getline(
        frame.f_code.co_filename, frame.f_lineno
    ).lstrip().startswith("with ")
    return not leaves and names.get(frame.f_lasti) != "NOP"


def limit_bytes(size: int, *, kill: bool) -> None:
    """No file may grow beyond `size`: the write fails as on a full disk, or the kernel kills whoever tries."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kill else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def outcome(work: Callable[[], Any], fault: dict[str, Any]) -> dict[str, Any]:
    """What came of the work in a child of this process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(work, fault, writer)
    os.close(writer)
    told = b""
    while select.select([reader], [], [], STUCK)[0] and (part := os.read(reader, 1 << 16)):
        told += part
    os.close(reader)
    end = _end_of(pid)
    if end is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return {"end": "stuck"}
    return {**(json.loads(told) if told else {}), "end": end}


def _end_of(pid: int) -> int | None:
    """The exit code of a child, or minus the signal that ended it; None where it does not end."""
    signal.alarm(STUCK)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)


def _child(work: Callable[[], Any], fault: dict[str, Any], writer: int) -> None:
    code, said = FAILED, {}
    wire = Tripwire(fault.get("files", ()), fault.get("at"), fault.get("signal"))
    try:
        gc.disable()  # to look through all objects is to copy them
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if "bytes" in fault:
            limit_bytes(fault["bytes"], kill=fault.get("signal") == "SIGXFSZ")
        if wire.files:
            wire.watch()
        result = work()
        sys.settrace(None)
        code, said = (result["code"] if isinstance(result, dict) else 0), {"result": result}
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        sys.settrace(None)
        code = REFUSED if type(error).__module__ == "credibly.errors" else FAILED
        said = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    finally:  # nothing of the parent's is tidied up by its child
        sys.settrace(None)
        os.write(writer, json.dumps(said | {"lines": wire.lines}).encode())
        os._exit(code)


# --- the state of a folder ---------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, str]:
    """Every file, with its bytes as text."""
    return {it.name: it.read_bytes().hex() for it in sorted(folder.iterdir())}


def restore(folder: Path, files: dict[str, str]) -> None:
    """Make the folder hold these files and no others."""
    for it in folder.iterdir():
        it.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(bytes.fromhex(content))


def befall(work: Callable[[], Any], folder: Path, faults: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One outcome for each fault, with what is in the folder afterwards; it is as it was before every one of them."""
    before, found = contents(folder), []
    for fault in faults:
        restore(folder, before)
        found.append(outcome(work, fault) | {"fault": fault, "files": contents(folder)})
    restore(folder, before)
    return found


def serve(scenarios: dict[str, Callable[[Path], Callable[[], Any]]]) -> None:
    """Answer requests until there are no more."""

    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked["folder"])
        try:
            work = scenarios[asked["scenario"]](folder)
            answer: Any = befall(work, folder, asked["faults"])
        except Exception:
            answer = {"broken": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
