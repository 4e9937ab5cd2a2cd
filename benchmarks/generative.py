"""Generative classifiers against scikit-learn's.

Run by `make bench`. Fits and predictions alternate, so that both meet the same neighbours on the machine; medians and
their ratio are printed, with the largest difference of two probabilities, so that only equal answers are compared (an
averaged model differs from a plug-in one by a term that falls like 1/n). Memory is the peak above the table itself, as
NumPy reports it, of the first call: buffers that are kept for the next one are counted, too.

One thing has a limit: scikit-learn predicts with its linear discriminant by one matrix-vector product (per class, from
three on), which reads the table once, at memory bandwidth. Ours does the same with estimated parameters; nothing can
be gained there. Averaging over the covariance needs a quadratic form of every row, d times as many operations.
"""

import argparse
import json
import platform
import statistics
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from benchmarks.linear import RESULTS, seconds
from credibly import LinearDiscriminant, NaiveBayes, QuadraticDiscriminant


class Case(NamedTuple):
    n: int
    d: int
    K: int
    runs: int
    at_least: tuple[float, float] | None  # ratios we hold ourselves to: fit, prediction


class Pair(NamedTuple):
    name: str
    ours: Any
    theirs: Any


CASES = [Case(100_000, 20, 5, 9, None), Case(1_000_000, 50, 2, 5, (1.0, 2.0))]
PAIRS = [
    Pair("LDA, averaged", LinearDiscriminant(), LinearDiscriminantAnalysis()),
    Pair("LDA, estimated", LinearDiscriminant(parameters="plugin"), LinearDiscriminantAnalysis()),
    Pair("QDA, averaged", QuadraticDiscriminant(), QuadraticDiscriminantAnalysis()),
    Pair("QDA, estimated", QuadraticDiscriminant(parameters="plugin"), QuadraticDiscriminantAnalysis()),
    Pair("NB, averaged", NaiveBayes(features="gaussian"), GaussianNB()),
    Pair("NB, estimated", NaiveBayes(features="gaussian", parameters="plugin"), GaussianNB()),
]


def table(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes with correlated columns, each class with spreads of its own."""
    rng = np.random.default_rng(case.n + case.d)
    y = rng.integers(case.K, size=case.n)
    mixing = np.eye(case.d) + rng.normal(size=(case.d, case.d)) / np.sqrt(4 * case.d)
    spread, centre = rng.uniform(0.8, 1.2, size=(case.K, case.d)), rng.normal(size=(case.K, case.d)) / 3
    X = rng.normal(size=(case.n, case.d))
    X *= spread[y]
    X += centre[y]
    return X @ mixing, y


def peak(action: Callable[[], Any]) -> float:
    """Megabytes above those in use before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    action()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / 1e6


def alternate(runs: int, mine: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Median milliseconds of both."""
    times = [(seconds(mine), seconds(theirs)) for _ in range(runs)]
    ours, peers = zip(*times, strict=True)
    return 1e3 * statistics.median(ours), 1e3 * statistics.median(peers)


def compare(case: Case, pair: Pair, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    ours, theirs = pair.ours, pair.theirs
    memory = [peak(lambda: ours.fit(X, y)), peak(lambda: ours.predict_proba(X))]
    theirs.fit(X, y)
    gap = float(np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max())
    fit = alternate(case.runs, lambda: ours.fit(X, y), lambda: theirs.fit(X, y))
    predict = alternate(case.runs, lambda: ours.predict_proba(X), lambda: theirs.predict_proba(X))
    return {
        **case._asdict(),
        "model": pair.name,
        "fit_ms": fit,
        "fit_ratio": fit[1] / fit[0],
        "predict_ms": predict,
        "predict_ratio": predict[1] / predict[0],
        "largest_gap": gap,
        "fit_mb": memory[0],
        "predict_mb": memory[1],
    }


HEADER = (
    f"{'':15}{'fit':>9}{'sklearn':>11}{'ratio':>7}{'asked':>6}  {'predict':>9}{'sklearn':>11}{'ratio':>7}{'asked':>6}"
    f"  {'gap':>6}  memory"
)
FOOTNOTE = (
    "* scikit-learn predicts by one matrix-vector product, at memory bandwidth; ours with estimated parameters does\n"
    "  the same. Averaging over the covariance needs a quadratic form of every row, d times the operations."
)


def half(ms: tuple[float, float], ratio: float, asked: float | None) -> str:
    return f"{ms[0]:7.1f}ms{ms[1]:9.1f}ms{ratio:7.1f}{asked or '-':>6}"


def show(row: dict[str, Any]) -> None:
    asked = row["at_least"] or (None, None)
    fit = half(row["fit_ms"], row["fit_ratio"], asked[0])
    predict = half(row["predict_ms"], row["predict_ratio"], asked[1])
    memory = f"{row['fit_mb']:.0f}, {row['predict_mb']:.0f} MB"
    star = " *" if row["model"].startswith("LDA") else ""
    print(f"{row['model']:15}{fit}  {predict}  {row['largest_gap']:6.0e}  {memory}{star}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out tables with more rows")
    arguments = parser.parse_args()
    for pair in PAIRS:  # the first fits load libraries
        pair.ours.fit(*table(Case(100, 3, 2, 0, None)))
    results = []
    for case in (case for case in CASES if case.n <= arguments.largest):
        print(f"\n{case.n} rows, {case.d} columns, {case.K} classes ({8e-6 * case.n * case.d:.0f} MB)")
        print(HEADER)
        X, y = table(case)
        for pair in PAIRS:
            results.append(compare(case, pair, X, y))
            show(results[-1])
        print(FOOTNOTE)
    RESULTS.mkdir(exist_ok=True)
    summary = {"machine": platform.machine(), "python": platform.python_version(), "runs": results}
    (RESULTS / "generative.local.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
