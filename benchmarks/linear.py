"""Bayesian logistic regression with a fixed prior against scikit-learn's point estimate.

Run by `make bench`. Fits alternate, so that both meet the same neighbours on the machine; medians and their ratio are
printed, with the gap between the two penalised objectives, so that only equal answers are compared. Ours includes
the full posterior covariance and the log evidence. The compiled kernels are loaded beforehand, as they are after the
first large fit of a process (compiling them takes some ten seconds, once for an installation).
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from credibly import BayesianLogisticRegression, Normal
from credibly.numerics import fused

RESULTS = Path(__file__).parent / "results"
SCALE = 1.0  # prior standard deviation of the slopes; scikit-learn's C is its square
FLAT_INTERCEPT = 1e4  # scikit-learn does not penalise the intercept


class Case(NamedTuple):
    n: int
    d: int
    runs: int
    at_least: float | None  # the ratio we hold ourselves to


CASES = [
    Case(200, 5, 200, 1.0),
    Case(10_000, 10, 60, 2.0),
    Case(100_000, 30, 12, None),
    Case(1_000_000, 30, 7, 2.0),
]


def table(case: Case, *, correlated: bool) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian columns, independent or with condition number 1000, and labels from a logistic model."""
    rng = np.random.default_rng(case.n + case.d)
    X = rng.normal(size=(case.n, case.d))
    if correlated:
        basis = np.linalg.qr(rng.normal(size=(case.d, case.d)))[0]
        X = X @ (basis * np.geomspace(1, 1000**-0.5, case.d)) @ basis.T
    w = rng.normal(size=case.d)
    f = X @ w
    y = (rng.random(case.n) < 1 / (1 + np.exp(-f * 1.5 / f.std()))).astype(int)
    return X, y


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def objective(X: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> float:
    f = (2 * y - 1) * (X @ coef + intercept)
    return float(np.logaddexp(0, -f).sum() + (coef @ coef) / (2 * SCALE**2))


def compare(case: Case, *, correlated: bool) -> dict[str, Any]:
    X, y = table(case, correlated=correlated)
    ours = BayesianLogisticRegression(prior=Normal(scale=SCALE, intercept_scale=FLAT_INTERCEPT))
    theirs = LogisticRegression(C=SCALE**2, solver="lbfgs", tol=1e-8, max_iter=10_000)
    ours.fit(X, y)  # the first fits load libraries
    theirs.fit(X, y)
    times = [(seconds(lambda: ours.fit(X, y)), seconds(lambda: theirs.fit(X, y))) for _ in range(case.runs)]
    mine, peer = (statistics.median(column) for column in zip(*times, strict=True))
    best = [objective(X, y, model.coef_[0], model.intercept_[0]) for model in (ours, theirs)]
    return {
        "n": case.n,
        "d": case.d,
        "columns": "correlated" if correlated else "independent",
        "credibly_ms": 1e3 * mine,
        "sklearn_lbfgs_ms": 1e3 * peer,
        "ratio": peer / mine,
        "at_least": case.at_least,
        "relative_objective_gap": (best[1] - best[0]) / abs(best[0]),
        "steps": ours.n_iter_,
        "lbfgs_iterations": int(theirs.n_iter_[0]),
    }


def import_cost(runs: int = 7) -> float:
    """Seconds that `import credibly` adds to `import sklearn.linear_model`, in fresh interpreters."""

    def once(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    pairs = [(once("import sklearn.linear_model"), once("import sklearn.linear_model, credibly")) for _ in range(runs)]
    return statistics.median(both - alone for alone, both in pairs)


def main() -> None:
    fused.available()
    fused.logit_sums(np.ones((1, 1)), np.ones(1), None, np.zeros(1), np.ones(1), np.zeros(2), intercept=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out tables with more rows")
    arguments = parser.parse_args()
    print("Some minutes; the last table takes most of them, for the peer.")
    print(f"{'rows':>9} {'cols':>4}  {'columns':11} {'credibly':>10} {'lbfgs':>10}  ratio  asked  objective gap")
    results = []
    for case in (case for case in CASES if case.n <= arguments.largest):
        for correlated in (False, True):
            row = compare(case, correlated=correlated)
            results.append(row)
            print(
                f"{row['n']:>9} {row['d']:>4}  {row['columns']:11} {row['credibly_ms']:8.2f}ms "
                f"{row['sklearn_lbfgs_ms']:8.2f}ms  {row['ratio']:5.2f}  {row['at_least'] or '-':>5}  "
                f"{row['relative_objective_gap']:+.0e}",
                flush=True,
            )
    added = import_cost()
    print(f"import credibly on top of sklearn.linear_model: {added:.2f} s (asked: at most 0.30 s)")
    RESULTS.mkdir(exist_ok=True)
    summary = {"machine": platform.machine(), "python": platform.python_version(), "import_s": added, "fits": results}
    (RESULTS / "linear.local.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
