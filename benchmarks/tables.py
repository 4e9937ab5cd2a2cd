"""Results as text: a few lines for a terminal, and docs/benchmarks.md."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.records import CaseResult, Measured, Verdict, fastest
from benchmarks.rules import time

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PICTURES = {
    "bench_rows.png": "seconds against rows, logistic regression with 30 columns",
    "bench_columns.png": "seconds against columns, logistic regression with 100,000 rows",
    "bench_gp.png": "seconds against rows, Gaussian processes",
}
MARKS = {True: "met", False: "**missed**", None: "–"}

INTRODUCTION = """\
# Against other packages

This page is written by `python -m benchmarks` (`make bench`: ten minutes, `make bench-full`: hours). **A ratio of 4
means: the fastest peer that reaches the same answer takes four times as long as credibly.** Ours includes the
covariance of all weights; a peer's is that of a point estimate, unless it says otherwise. Times are of one machine at
one time; fits of us and the peers take turns in one process, and the ratio of their medians is what counts. In a turn
fits that are short are repeated five times, the first not counted: after a peer and a pause it finds a cold cache.

- *The same answer.* Each package's tolerance is tightened until its objective is within 1e-8 (relative) of the best one
  that any of them found, and no further. The prior is the same (scikit-learn's C is the squared scale), and there is no
  intercept. A package that does not get there, or not within its budget of seconds, is named with that.
- *Ours, twice.* By default credibly finds the mode to rounding, eight digits and more beyond that; the ratios of that
  are named *at its default tolerance*. With `tol` chosen as for the others it stops where they do.
- *Threads.* As each package chooses, and with one thread where that may help; the faster counts.
- *Columns.* Independent standard normal; ill-conditioned: condition number of X 1,000; near-separable: labels that
  hardly ever disagree with the sign of the score, for columns of either kind.
- *Limits.* One gradient pass is `X @ w`, which reads the table once; one Hessian pass is BLAS's `dsyrk`. No fit with
  a covariance can do without the like of both.
- *Memory.* The most a process held during its first fit, above the table and what was loaded before.
- *Not asked.* R's `glm` (no R on the machine); dask-ml's `newton` and `gradient_descent`, which take no prior,
  and its `admm`, which has no single tolerance.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "--:") -> str:
    """Markdown; the first column to the left, the others to the right."""
    lines = [" | ".join(header), " | ".join(["---"] + [align] * (len(header) - 1))]
    lines += [" | ".join(cell(text) for text in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def number(value: float, form: str = ".1e") -> str:
    return "–" if math.isnan(value) else format(value, form)


def megabytes(row: Measured) -> str:
    return "–" if row.extra_bytes is None else f"{row.extra_bytes / 1e6:.0f} MB"


def name(row: Measured) -> str:
    return row.label + (f", {row.threads} thread" if row.threads else "")


def better_threads(rows: Iterable[Measured]) -> list[Measured]:
    """One row for a method: the faster number of threads."""
    by_method: dict[str, list[Measured]] = {}
    for row in rows:
        by_method.setdefault(row.method, []).append(row)
    return [fastest(group) or group[0] for group in by_method.values()]


# --- a case --------------------------------------------------------------------------------------------------------


def limit(result: CaseResult, row: Measured) -> str:
    """What a pass amounts to: gigabytes or gigaflops a second."""
    if row.method == "limits.gradient":
        return f"{result.input_bytes / row.seconds / 1e9:.1f} GB/s"
    n, d = result.spec["n"], result.spec["d"]
    return f"{n * d * (d + 1) / row.seconds / 1e9:.0f} Gflop/s"


def relative(result: CaseResult, row: Measured) -> str:
    ours = result.ours
    if ours is None or not ours.times or not row.times or row.family in ("ours", "limit"):
        return ""
    return f"{row.seconds / ours.seconds:.3g}" if row.reached else ""


def line(result: CaseResult, row: Measured) -> list[str]:
    gap = row.difference if math.isnan(row.gap) else row.gap
    what = limit(result, row) if row.family == "limit" and row.times else ""
    note = row.note or what or (f"{len(row.times)} runs" if len(row.times) > 1 else "1 run")
    return [
        name(row),
        time(row.seconds),
        relative(result, row),
        number(gap),
        number(row.gradient_norm),
        megabytes(row),
        note,
    ]


HEADER = ("", "time", "ratio", "gap", "gradient", "memory", "")


def sentence(verdict: Verdict) -> str:
    return f"asked: {verdict.asked}; found: {verdict.found}: {MARKS[verdict.met]}"


def padded(row: Sequence[str], wide: Sequence[int]) -> str:
    first, *numbers, last = (text.rjust(width) for text, width in zip(row, wide, strict=True))
    return "  ".join(["", row[0].ljust(len(first)), *numbers, last.strip()]).rstrip()


def terminal(result: CaseResult) -> str:
    rows = [HEADER, *(line(result, row) for row in result.measured)]
    wide = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    return "\n".join([*(padded(row, wide) for row in rows), *(f"  {sentence(v)}" for v in result.verdicts)])


def section(result: CaseResult) -> str:
    rows = table(HEADER, (line(result, row) for row in better_threads(result.measured)))
    asked = "\n".join(f"- {sentence(verdict)}." for verdict in result.verdicts)
    return f"### {result.title}\n\n{rows}\n" + (f"\n{asked}\n" if asked else "")


# --- the page ------------------------------------------------------------------------------------------------------


def overview(results: Sequence[CaseResult]) -> str:
    """One line for everything that is asked."""
    rows = [
        (result.title if i == 0 else "", verdict.asked, verdict.found, MARKS[verdict.met])
        for result in results
        for i, verdict in enumerate(result.verdicts)
    ]
    return table(("work", "asked", "found", ""), rows, "---")


def circumstances(results: Sequence[CaseResult]) -> str:
    """The machine and the versions; what differs between cases is said for each value."""
    machines = {(m["processor"], m["cores"], m["python"]) for m in (result.machine for result in results)}
    packages = {f"{package} {v}" for result in results for package, v in result.machine["packages"].items()}
    loads = [value for result in results for value in result.load if value is not None]
    where = "; ".join(f"{processor}, {cores} cores, Python {python}" for processor, cores, python in sorted(machines))
    modes = {result.mode for result in results}
    load = f" Load average before and after the cases: {min(loads):.1f} to {max(loads):.1f}." if loads else ""
    if loads and max(loads) > 1 + max(cores for _, cores, _ in machines):  # more than the harness itself
        load += (
            " **The machine was busy with other things: these numbers are good for nothing but trying the harness.**"
        )
    return "\n".join(
        [
            f"- *Measured on* {where}; {' and '.join(sorted(modes))} run.{load}",
            f"- *Versions:* {', '.join(sorted(packages))}.",
        ]
    )


PASSES = """\
## Where the time goes

Passes of one fit over the rows, each with their number and the milliseconds of all of them: the *description* of the
columns, which also finds what is not finite; the *sample*, its Newton steps included; *gradients* of all rows;
*Hessians* of all rows. The *rest* is what scikit-learn checks, labels, the prior, factorisations and the covariance.
Beside them one read of the table (`X @ w`) and BLAS's `dsyrk`, on as many threads as BLAS takes. A well-conditioned
problem costs `lbfgs` some ten iterations, each of which reads the table twice: that is where a ratio ends. Nearly
separable classes cost it 19 to 33, however nearly, as long as columns are independent (scores spread over 30 to 1,000,
priors of scale 1 to 1,000,000): fifty times as fast would be less than one Hessian pass. Columns that are not
independent cost it a thousand. Two threads are as fast as memory lets them be, which they share with the neighbours of
a virtual machine: at 100,000 × 30 the same fit, to rounding, took between 9.3 and 15 ms in runs on two days, and was
3.4 to 4.0 times as fast as `lbfgs`; to its accuracy, 3.95 to 5.2 times. Here all fits follow one another; in the
comparison only short ones do, five in a row.
"""


def passes(found: dict[str, Any] | None) -> list[str]:
    """The section on passes, if they were timed."""
    if found is None:
        return []
    kinds = ("description", "sample", "gradient", "hessian")
    rows = []
    for row in found["rows"]:
        spec, total = row["spec"], row["total"]
        classes = f" × {spec['classes']}" if spec["kind"] == "softmax" else ""
        title = f"{spec['kind']} {spec['n']:,} × {spec['d']}{classes}" + (
            "" if spec["columns"] == "well" else f", {spec['columns']}"
        )
        parts = [f"{row['calls'][kind]}: {1e3 * row['seconds'][kind]:.3g}" for kind in kinds]
        rest = total - sum(row["seconds"].values())
        limits = [f"{1e3 * row['limits'][kind]:.3g}" for kind in ("gradient", "hessian")]
        rows.append([title, f"{1e3 * total:.3g}", *parts, f"{1e3 * rest:.2g}", *limits])
    header = ("milliseconds", "fit", *kinds, "rest", "`X @ w`", "`dsyrk`")
    return [PASSES, table(header, rows), f"Load average after it: {found['load']}."]


def page(results: Sequence[CaseResult], images: Sequence[str] = (), timed: dict[str, Any] | None = None) -> str:
    parts = [
        INTRODUCTION,
        circumstances(results),
        "## What is asked, and what was found",
        overview(results),
        *(f"![{PICTURES.get(image, image)}](images/{image})" for image in images),
        *passes(timed),
        "## All numbers",
        *(section(result) for result in results),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_page(results: Sequence[CaseResult], path: Path = PAGE) -> Path:
    images = sorted(image.name for image in (path.parent / "images").glob("bench_*.png"))
    path.write_text(page(results, images, records.load_passes()), encoding="utf-8")
    return path
