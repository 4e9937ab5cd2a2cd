"""What it costs to know how far a posterior can be trusted, in Newton fits.

Run by `python -m benchmarks.certificate`. The unit is the fit itself, with a fixed prior, Normal(scale=2.5):
`certify(X, y)` at its default settings, and fits by EP and by `inference="auto"` (which holds a certificate or more),
are multiples of it. Runs alternate and the fastest of each counts, so that a busy neighbour weighs little; BLAS is held
at one thread (`--threads`). Compiled kernels are loaded beforehand, which makes the Newton fit faster and the multiples
larger.

Beside the costs stands what they buy: k-hat, the number of draws, what these are worth, and the standard error of the
corrected log evidence (the draws are doubled until it is 0.01).
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, logistic_table, seconds
from credibly import BayesianLogisticRegression, Normal

PRIOR = Normal(scale=2.5)
ENOUGH = 3.0  # seconds for one way of one table, after which there is no second run


class Case(NamedTuple):
    n: int
    p: int
    runs: int
    at_most: float | None  # Newton fits that a certificate may cost
    rare: bool = False


CASES = [
    Case(200, 5, 30, None),
    Case(200, 20, 20, None, rare=True),
    Case(500, 8, 30, None),
    Case(2_000, 50, 10, None),
    Case(5_000, 50, 10, 20.0),
    Case(100_000, 30, 3, None),
]


class Row(NamedTuple):
    n: int
    p: int
    columns: str
    fit_ms: float
    certify: float  # all in Newton fits
    ep: float
    auto: float
    at_most: float | None
    khat: float
    draws: int
    ess: float
    se: float
    rung: str
    sweeps: int

    @property
    def met(self) -> bool | None:
        return None if self.at_most is None else self.certify <= self.at_most


def table(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Independent Gaussian columns; a rare class has about one row in fifteen."""
    if not case.rare:
        return logistic_table(case.n, case.p)
    rng = np.random.default_rng(case.n + case.p)
    X = rng.normal(size=(case.n, case.p))
    f = X @ rng.normal(size=case.p) / np.sqrt(case.p) - 3.0
    return X, (rng.random(case.n) < 1 / (1 + np.exp(-f))).astype(int)


def model(inference: str) -> BayesianLogisticRegression:
    return BayesianLogisticRegression(prior=PRIOR, inference=inference)


def fastest(runs: int, ways: list[Callable[[], Any]]) -> list[float]:
    """Seconds of the fastest run of each; they take turns, and slow ones drop out."""
    best, spent = [np.inf] * len(ways), [0.0] * len(ways)
    for run in range(runs):
        for i, way in enumerate(ways):
            if run and spent[i] > ENOUGH:
                continue
            took = seconds(way)
            best[i], spent[i] = min(best[i], took), spent[i] + took
    return best


def measure(case: Case) -> Row:
    X, y = table(case)
    newton, ep, auto = (model(inference).fit(X, y) for inference in ("laplace", "ep", "auto"))
    found = newton.certify(X, y)
    fit, certify, by_ep, by_auto = fastest(
        case.runs,
        [
            lambda: newton.fit(X, y),
            lambda: newton.certify(X, y),
            lambda: ep.fit(X, y),
            lambda: auto.fit(X, y),
        ],
    )
    return Row(
        n=case.n,
        p=case.p,
        columns="rare class" if case.rare else "",
        fit_ms=1e3 * fit,
        certify=certify / fit,
        ep=by_ep / fit,
        auto=by_auto / fit,
        at_most=case.at_most,
        khat=found.khat,
        draws=found.draws,
        ess=found.ess,
        se=found.log_evidence_se,
        rung=str(auto.rung_),
        sweeps=ep.n_iter_,
    )


HEADER = (
    f"{'rows':>7} {'cols':>4} {'':10} {'Newton':>9}  {'certify':>8}  {'asked':18}{'k-hat':>6} {'draws':>6} "
    f"{'worth':>6} {'se':>7}  {'EP':>7} {'sweeps':>6}  {'auto':>6}  rung"
)


def show(row: Row) -> None:
    asked = "" if row.at_most is None else f"at most {row.at_most:g}: {'met' if row.met else 'NOT met'}"
    print(
        f"{row.n:>7} {row.p:>4} {row.columns:10} {row.fit_ms:7.2f}ms  {row.certify:7.1f}x  {asked:18}{row.khat:6.2f} "
        f"{row.draws:>6} {row.ess:6.0f} {row.se:7.4f}  {row.ep:6.1f}x {row.sweeps:>6}  {row.auto:5.1f}x  {row.rung}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000, help="leave out tables with more rows")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS, and of passes over rows")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # k-hat and rung tell what the warnings do
    start, rows = time.perf_counter(), []
    print("x: Newton fits with the same prior; fastest runs.\n" + HEADER)
    with threadpool_limits(arguments.threads, "blas"):
        measure(CASES[0]._replace(runs=1))  # the first fits load libraries
        for case in (case for case in CASES if case.n <= arguments.largest):
            rows.append(measure(case))
            show(rows[-1])
    print(f"{time.perf_counter() - start:.0f} s")
    RESULTS.mkdir(exist_ok=True)
    fits = [{**row._asdict(), "met": row.met} for row in rows]
    summary = {"machine": platform.machine(), "python": platform.python_version(), "fits": fits}
    (RESULTS / "certificate.local.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
