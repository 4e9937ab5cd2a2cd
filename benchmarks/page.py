"""docs/benchmarks.md: one table, and how it was measured."""

import math
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.speed import Case, Outcome

PATH = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PACKAGES = "numpy scipy scikit-learn statsmodels glum pyarrow gpy gpytorch torch numpyro jax".split()
BUSY = 0.5  # processes that wanted a core in the minute before

Result = tuple[Case, Outcome | str | None]  # a case, and its outcome, the error that ended it, or None: not run

INTRODUCTION = """# Speed beside other packages

`make bench` writes this page (about 15 minutes on two cores; `BENCH_ARGS="--only gp"` prints some cases,
`BENCH_ARGS="--long"` adds the slowest). A ratio of 2 means that the peer takes twice our time.

- **Ours** is a fit with a fixed Normal prior at the default tolerance, posterior covariance and evidence included. For
  50,000 sparse columns it is the mode alone.
- **The peer** is the fastest that reaches the same objective: its tolerance is tightened until the relative gap to the
  best known minimum is at most 1e-8, and no further. It has 15 s for a fit and 30 s for all tolerances, and the threads
  that it chooses or one, whichever is faster. There is no intercept; scikit-learn's C is the squared scale of the
  prior, glum's alpha is 1/(n scale²). A peer's fit is a point estimate, without a covariance.
- **Times** are medians of seven runs in turns, us, peer, us, peer, …, after one that is not counted. Cases that would
  take more than a minute have fewer turns, three at least. Every case has a process of its own.
"""


def milliseconds(taken: float) -> str:
    if taken < 0.0995:
        return f"{1e3 * taken:.2g}"
    return f"{1e3 * taken:,.0f}"


def cells(case: Case, outcome: Outcome | str | None) -> list[str]:
    """One row of the table."""
    if outcome is None:
        return [case.title, case.goal.words, "", "with `--long` only" if case.long else "", "", "not run"]
    if isinstance(outcome, str):
        return [case.title, case.goal.words, "", outcome, "", "**failed**"]
    ours = f"{outcome.ours:.0f} MB" if case.name.startswith("memory") else milliseconds(outcome.ours)
    sign = "> " if outcome.at_least else ""
    name = outcome.peer or ("none" if outcome.at_least else "")
    peer = f"{name}, {sign}{milliseconds(outcome.theirs)}" if name else ""
    notes = f" ({'; '.join(outcome.notes)})" if outcome.notes else ""
    ratio = "" if math.isnan(outcome.ratio) else f"{sign}{outcome.ratio:,.3g}"
    verdict = {True: "met", False: "**missed**", None: "–"}[case.goal.met(outcome)]
    return [case.title, case.goal.words, ours, (peer + notes).strip(), ratio, verdict]


def table(results: Iterable[Result]) -> str:
    header = ["case", "goal", "ours (ms)", "fastest peer that reaches the same objective (ms)", "ratio", ""]
    rows = [header, ["---", "---", "--:", "---", "--:", "---"], *(cells(*result) for result in results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def write(results: Sequence[Result], load: float, path: Path = PATH) -> None:
    """Write the page; `load` is the load average before the first case."""
    facts = [
        f"- **Machine**: {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; load average "
        f"before the first case {load:.1f}.",
        f"- **Versions**: {versions()}.",
    ]
    if load > BUSY:
        facts.append("- **The machine had other work while this was measured: the numbers are rough.**")
    path.write_text("\n".join([INTRODUCTION.rstrip(), *facts, "", table(results), ""]), encoding="utf-8")
