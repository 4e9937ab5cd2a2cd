"""Generalised linear models by maximum likelihood against statsmodels.

Run by `make bench`. Fits alternate; medians and their ratio are printed, with the gap between the log-likelihoods, so
that only equal answers are compared.
"""

import statistics
import warnings
from typing import Any

import numpy as np
import statsmodels.api as sm

from benchmarks.linear import seconds
from credibly import BayesianGLM

CASES = [(200, 5, 40), (10_000, 10, 15), (100_000, 30, 5)]
FAMILIES = {
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "binomial": sm.families.Binomial(),
}


def table(n: int, d: int, family: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    f = X @ rng.normal(size=d) / np.sqrt(d)
    if family == "poisson":
        return X, rng.poisson(np.exp(f))
    if family == "gamma":
        return X, rng.gamma(2.0, np.exp(f) / 2.0)
    return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(float)


def compare(n: int, d: int, runs: int, family: str) -> dict[str, Any]:
    X, y = table(n, d, family)
    ours = BayesianGLM(family, "logit" if family == "binomial" else "log", prior=None)

    def mine() -> float:
        return ours.fit(X, y).deviance_

    def theirs() -> float:
        return float(sm.GLM(y, sm.add_constant(X), family=FAMILIES[family]).fit(tol=1e-10).deviance)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gap = theirs() - mine()
        times = [(seconds(mine), seconds(theirs)) for _ in range(runs)]
    fast, slow = (statistics.median(column) for column in zip(*times, strict=True))
    return {"ms": 1e3 * fast, "peer_ms": 1e3 * slow, "ratio": slow / fast, "gap": gap}


def main() -> None:
    print(f"\n{'rows':>9} {'cols':>4}  {'family':9} {'credibly':>10} {'statsmodels':>12}  ratio  deviance gap")
    for n, d, runs in CASES:
        for family in FAMILIES:
            row = compare(n, d, runs, family)
            print(
                f"{n:>9} {d:>4}  {family:9} {row['ms']:8.2f}ms {row['peer_ms']:10.2f}ms  {row['ratio']:5.2f}  "
                f"{row['gap']:+.0e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
