"""How a case is run: every method probed alone, then those that got there in turns.

1. *Probe.* Each method in a fresh process with a budget of seconds: its tolerance is tightened until the objective is
   within 1e-8 (relative) of the best one known. The loosest tolerance that does is used from then on. Here the peak
   memory of the first fit is read, too. A method that uses up its budget is stopped, and recorded as such.
2. *Turns.* One process with ours, the limits and all peers that got there and are not ten times slower than the
   fastest peer: us, peer, us, peer, …; medians count. Slower peers keep the one time of their probe, and so does
   everybody in a case whose fits take minutes.

A package's threads are its own affair; most are tried with one thread as well, and the better one counts.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks import machine
from benchmarks.child import READY
from benchmarks.peers import LIMIT, OTHER, OURS, find
from benchmarks.problems import LOSSES, Spec
from benchmarks.records import CaseResult, Measured, best_known, relative_gap
from benchmarks.rules import Rule

ACCURACY = 1e-8
TOO_SLOW = 10.0  # times the fastest peer's probe: not run again
TIGHTEST = "its tightest tolerance does not get there"
START_UP = 600.0  # seconds to import packages, make the table and compile: no part of any budget
WORTH_ANOTHER = 1.6  # times the better number of threads, in the probe
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    """What is compared, and what is asked of it."""

    name: str
    title: str
    spec: Spec
    ours: str
    peers: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    limits: tuple[str, ...] = ()
    accuracy: float = ACCURACY  # relative gap of the objective at which an answer counts as equal
    reference: str | None = None  # the method whose probabilities others are compared with
    turns: bool = True  # False where fits take minutes: the times of the probes count
    quick: bool = False
    quick_peers: tuple[str, ...] | None = None  # fewer peers, in the quick run


@dataclass(frozen=True)
class Budget:
    """Seconds for a probe and for the turns, and the most turns."""

    probe: float
    turns: float
    most: int = 101


BUDGETS = {"quick": Budget(15, 3), "full": Budget(600, 40)}


# --- processes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """Lines that a child printed, and why it ended early, if it did."""

    lines: list[dict[str, Any]]
    note: str = ""
    stopped: float = math.nan


class Child:
    """A job in a fresh process, with so many seconds from the moment on at which it is ready to fit."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
        )
        self.lines: list[dict[str, Any]] = []
        self.ready = Event()
        self.reader = Thread(target=self.read, daemon=True)
        self.reader.start()
        assert self.process.stdin is not None
        with self.process.stdin as job_of_child:
            job_of_child.write(json.dumps(job))

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == READY:
                self.ready.set()
            elif line.startswith("{"):  # anything else is a package talking to itself
                self.lines.append(json.loads(line))
        self.ready.set()

    def end(self) -> None:
        """An interrupted run leaves nothing behind, either."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def wait(self, seconds: float) -> Report:
        in_time = self.ready.wait(START_UP)
        self.reader.join(seconds if in_time else 0)
        if self.reader.is_alive():
            self.process.kill()
            self.reader.join()
            return Report(self.lines, f"stopped after {seconds:.0f} s", seconds)
        if self.process.wait() == 0:
            return Report(self.lines)
        self.errors.seek(0)
        return Report(self.lines, f"failed: {last_line(self.errors.read())}")


def child(job: dict[str, Any], seconds: float) -> Report:
    """Run a job in a fresh process; end it when it takes longer."""
    worker = Child(job)
    try:
        return worker.wait(seconds)
    finally:
        worker.end()


def last_line(text: str) -> str:
    """What an error says, without the places it passed through; paths are nobody's business."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].replace(str(ROOT), "…")[:200] if lines else "no message"


# --- probing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """What is known of a method after its probe: a row for each number of threads."""

    rows: list[Measured]
    input_bytes: int | None = None


def probe(case: Case, name: str, best: float | None, budget: Budget) -> Probe:
    """A method at every number of threads it is worth trying, the first at all its tolerances."""
    try:
        method = find(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("credibly", "benchmarks")):
            raise
        return Probe([Measured(name, name, OTHER, None, math.nan, (), note=f"not installed: {error.name}")])
    job = {"job": "probe", "spec": list(case.spec), "method": name, "best": best, "accuracy": case.accuracy}
    if name == case.ours and case.spec.kind in LOSSES:
        child(job | {"job": "warm"}, START_UP)
    report = child(job, budget.probe)
    empty = Measured(name, method.label, method.family, None, math.nan, ())
    if not report.lines:
        return Probe([replace(empty, note=report.note, stopped=report.stopped)])
    last = {line["threads"]: line for line in report.lines}  # the tightest tolerance tried with so many threads
    rows = [read_probe(empty, line, best, case.accuracy) for line in last.values()]
    memory = report.lines[0]["extra_bytes"]  # of the first fit in this process
    rows = [row if row.reached else replace(row, note=report.note or TIGHTEST, stopped=report.stopped) for row in rows]
    rows = [replace(row, extra_bytes=memory) for row in rows]
    return Probe(rows, report.lines[0]["input_bytes"])


def read_probe(empty: Measured, line: dict[str, Any], best: float | None, accuracy: float) -> Measured:
    return replace(
        empty,
        threads=line["threads"],
        tolerance=line["tolerance"],
        times=(line["seconds"],),
        value=line["value"],
        gap=math.nan if best is None else relative_gap(line["value"], best),
        gradient_norm=line["gradient_norm"],
        reached=equal(line["value"], best, accuracy),
    )


def equal(value: float, best: float | None, accuracy: float) -> bool:
    """Whether an objective counts as the best one; where there is no objective everything does."""
    return best is None or math.isnan(best) or relative_gap(value, best) <= accuracy  # not for a NaN


def worth_turns(rows: Sequence[Measured]) -> list[Measured]:
    """Ours, and of the peers that got there those that are not far slower than the fastest."""
    peers = [row for row in rows if row.reached and row.family not in (OURS, LIMIT)]
    least = min((row.seconds for row in peers), default=math.nan)
    by_method: dict[str, float] = {}
    for row in peers:
        by_method[row.method] = min(row.seconds, by_method.get(row.method, math.inf))
    kept = [
        row for row in peers if row.seconds <= TOO_SLOW * least and row.seconds <= WORTH_ANOTHER * by_method[row.method]
    ]
    return [row for row in rows if row.family == OURS and row.times] + kept


# --- a case --------------------------------------------------------------------------------------------------------


def probes(case: Case, mode: str) -> list[Probe]:
    """All methods, ours first: its objective is the first one to be compared with."""
    budget = BUDGETS[mode]
    found = [probe(case, case.ours, None, budget)]
    asked = case.quick_peers if mode == "quick" and case.quick_peers is not None else case.peers
    for name in asked:
        best = best_known(row.value for item in found for row in item.rows)
        found.append(probe(case, name, None if math.isnan(best) else best, budget))
    return found


def unprobed(name: str) -> Measured:
    """A limit: it has no objective, and takes its turns at once."""
    method = find(name)
    return Measured(name, method.label, method.family, None, math.nan, ())


def take_turns(case: Case, rows: list[Measured], budget: Budget) -> list[Measured]:
    """The rows with the times of their turns in place of those of the probe, where they had turns; then the limits."""
    limits = [unprobed(name) for name in case.limits]
    entries = worth_turns(rows) + limits
    if not case.turns or not entries:
        return rows
    job = {
        "job": "time",
        "spec": list(case.spec),
        "entries": [{"method": row.method, "threads": row.threads, "tolerance": row.tolerance} for row in entries],
        "reference": reference(case, entries),
        "seconds": budget.turns,
        "most": budget.most,
    }
    one_round = sum(row.seconds for row in entries if row.times)
    report = child(job, 120 + 3 * budget.turns + 10 * one_round)
    if not report.lines:
        return [replace(row, note=row.note or f"in turns {report.note}") if row in entries else row for row in rows]
    fresh = {
        (entry.method, entry.threads): replace(
            entry, **(line | {"times": tuple(line["times"])}), note="" if entry.reached else entry.note
        )
        for entry, line in zip(entries, report.lines[0]["rows"], strict=True)
    }
    return [fresh.get((row.method, row.threads), row) for row in [*rows, *limits]]


def reference(case: Case, entries: Sequence[Measured]) -> str | None:
    """Whose probabilities others are compared with: the one named, or, if it had no turns, another peer's."""
    names = [row.method for row in entries if row.family not in (OURS, LIMIT)]
    if case.reference is None or case.reference in names:
        return case.reference
    return names[0] if names else None


def judged(rows: Iterable[Measured], accuracy: float) -> list[Measured]:
    """Gaps against the best objective that any of them found."""
    rows = list(rows)
    best = best_known(row.value for row in rows if row.family != LIMIT)
    return [
        row
        if row.family == LIMIT
        else replace(
            row,
            gap=relative_gap(row.value, best),
            reached=bool(row.times) and not row.note and equal(row.value, best, accuracy),
        )
        for row in rows
    ]


def run(case: Case, mode: str) -> CaseResult:
    """A case from beginning to end."""
    before = machine.load()
    found = probes(case, mode)
    rows = judged(take_turns(case, [row for item in found for row in item.rows], BUDGETS[mode]), case.accuracy)
    sizes = [item.input_bytes for item in found if item.input_bytes]
    result = CaseResult(
        case=case.name,
        title=case.title,
        mode=mode,
        spec=case.spec._asdict(),
        input_bytes=sizes[0] if sizes else 0,
        machine=machine.facts(),
        load=(before, machine.load()),
        measured=tuple(rows),
        verdicts=(),
    )
    return replace(result, verdicts=tuple(rule.judge(result) for rule in case.rules))
