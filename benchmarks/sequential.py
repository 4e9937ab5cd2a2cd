"""How far learning in parts drifts from learning all at once.

Run by `python -m benchmarks.sequential`. `partial_fit` takes the posterior so far as the prior of the next rows; what
it forgets is the shape of the posterior beyond a Gaussian. Streams are cut into batches of 100 to 3,000 rows, shuffled
(three times, the worst counts), sorted by the column that matters most, and sorted by label. Measured are the largest
difference of a posterior mean from the batch fit's, in its posterior standard deviations, the largest relative
difference of a standard deviation, and the difference of the log evidence.

Laplace in parts is compared with Laplace on all rows, EP with EP on all rows, and one-pass ADF, which does not depend
on how the rows are cut, with EP on all rows, the answer that more passes would reach. The bar is 0.05 sd for shuffled
batches of at least 1,000 rows; `told` is the model's own estimate, `drift_`, and `warned` counts batches after which it
warned. Times are in batch fits of the same kind (ADF's: of EP).

Some streams are simulated; real ones are read from ../shared/data where that is there (card defaults; flights, also in
the order of their departure), and from statsmodels and scikit-learn, which the development environment has.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS
from credibly import BayesianLogisticRegression, Normal

DATA = Path(__file__).parents[2] / "shared" / "data"
PRIOR = Normal(scale=2.5)
SIZES = (100, 300, 1_000, 3_000)
BAR, LARGE = 0.05, 1_000  # standard deviations, for shuffled batches of so many rows
N_SIMULATED, P_SIMULATED, N_FLIGHTS = 20_000, 8, 50_000


class Stream(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    recorded: bool = False  # whether the order of the rows means something

    def standardised(self) -> "Stream":
        """In units of the columns' standard deviations, which the prior is meant for."""
        return self._replace(X=(self.X - self.X.mean(axis=0)) / self.X.std(axis=0))


# --- streams -----------------------------------------------------------------------------------------------------


def simulated(name: str, *, correlated: bool = False, intercept: float = 0.0) -> Stream:
    """Gaussian columns, independent or with condition number 1000, and labels from a logistic model."""
    rng = np.random.default_rng(N_SIMULATED)
    X = rng.normal(size=(N_SIMULATED, P_SIMULATED))
    if correlated:
        basis = np.linalg.qr(rng.normal(size=(P_SIMULATED, P_SIMULATED)))[0]
        X = X @ (basis * np.geomspace(1, 1000**-0.5, P_SIMULATED)) @ basis.T
    f = X @ rng.normal(size=P_SIMULATED)
    f = 1.5 * f / f.std() + intercept
    return Stream(name, X, (rng.random(N_SIMULATED) < 1 / (1 + np.exp(-f))).astype(int)).standardised()


def defaults() -> Stream:
    import pandas as pd

    frame = pd.read_csv(DATA / "default.csv")
    X = np.column_stack([frame["student"] == "Yes", frame["balance"], frame["income"]]).astype(float)
    return Stream("card defaults", X, (frame["default"] == "Yes").to_numpy(int)).standardised()


def flights() -> Stream:
    """Arrivals 15 minutes late or more, by what is known before departure; one row in some."""
    import polars as pl

    frame = pl.read_parquet(DATA / "nycflights13.parquet").drop_nulls("arr_late15")
    frame = frame.gather_every(len(frame) // N_FLIGHTS).head(N_FLIGHTS)
    hour, month = frame["hour"].to_numpy().astype(float), frame["month"].to_numpy().astype(float)
    season = 2 * np.pi * month / 12
    X = np.column_stack([hour, hour**2, np.sin(season), np.cos(season), frame["distance"].to_numpy().astype(float)])
    return Stream("flights late", X, frame["arr_late15"].to_numpy().astype(int), recorded=True).standardised()


def affairs() -> Stream:
    from statsmodels.datasets import fair

    found = fair.load_pandas()
    return Stream("affairs (statsmodels)", found.exog.to_numpy(float), (found.endog > 0).to_numpy(int)).standardised()


def tumours() -> Stream:
    from sklearn.datasets import load_breast_cancer

    return Stream("breast cancer (sklearn)", *load_breast_cancer(return_X_y=True)).standardised()


def streams() -> Iterator[Stream]:
    yield simulated("simulated, even classes")
    yield simulated("simulated, rare class", intercept=-5.0)
    yield simulated("simulated, correlated", correlated=True)
    if DATA.exists():
        yield defaults()
        yield flights()
    yield affairs()
    yield tumours()


# --- orders ------------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """Ways to arrange the rows; of several the worst counts."""

    name: str
    rows: list[np.ndarray]


def orders(stream: Stream, whole: BayesianLogisticRegression) -> Iterator[Order]:
    n = len(stream.y)
    mixed = [np.random.default_rng(seed).permutation(n) for seed in range(3)]
    yield Order("shuffled", mixed)
    if stream.recorded:
        yield Order("as recorded", [np.arange(n)])
    column = int(np.argmax(np.abs(whole.coef_[0])))
    by_column, by_label = (
        mixed[0][np.argsort(key[mixed[0]], kind="stable")] for key in (stream.X[:, column], stream.y)
    )
    yield Order("sorted by a column", [by_column])
    yield Order("sorted by label", [by_label])


# --- measuring ---------------------------------------------------------------------------------------------------


class Drift(NamedTuple):
    mean: float  # largest, in standard deviations of the batch fit
    sd: float  # largest, relative
    log_evidence: float
    told: float | None  # what the model itself says of the means
    warned: int  # batches
    seconds: float  # of a batch fit's


def model(inference: str) -> BayesianLogisticRegression:
    return BayesianLogisticRegression(prior=PRIOR, inference=inference)


def in_parts(stream: Stream, inference: str, rows: np.ndarray, size: int) -> tuple[BayesianLogisticRegression, int]:
    """Learnt in batches of about this size, and after how many of them there was a warning."""
    learner, warned = model(inference), 0
    for part in np.array_split(rows, max(1, len(rows) // size)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learner.partial_fit(stream.X[part], stream.y[part], classes=[0, 1])
        warned += bool(caught)
    return learner, warned


def drift(
    stream: Stream, inference: str, order: Order, size: int, whole: BayesianLogisticRegression, unit: float
) -> Drift:
    found = []
    for rows in order.rows:
        start = time.perf_counter()
        learner, warned = in_parts(stream, inference, rows, size)
        took = time.perf_counter() - start
        here, there = learner.posterior_, whole.posterior_
        found.append(
            Drift(
                float(np.abs((here.mean - there.mean) / there.std).max()),
                float(np.abs(here.std / there.std - 1).max()),
                learner.log_evidence_ - whole.log_evidence_,
                getattr(learner, "drift_", None),
                warned,
                took / unit,
            )
        )
    return max(found, key=lambda it: it.mean)


class Row(NamedTuple):
    stream: str
    order: str
    size: int | None
    inference: str
    drift: Drift
    bar: float | None

    @property
    def met(self) -> bool | None:
        return None if self.bar is None else self.drift.mean <= self.bar


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return action(), time.perf_counter() - start


def measure(stream: Stream) -> Iterator[Row]:
    laplace, laplace_s = timed(lambda: model("laplace").fit(stream.X, stream.y))
    ep, ep_s = timed(lambda: model("ep").fit(stream.X, stream.y))
    apart = float(np.abs((laplace.posterior_.mean - ep.posterior_.mean) / ep.posterior_.std).max())
    print(
        f"\n{stream.name}: {len(stream.y)} rows, {stream.X.shape[1]} columns, {stream.y.mean():.1%} in class 1; on all "
        f"rows Laplace and EP are {apart:.3f} sd and {abs(laplace.log_evidence_ - ep.log_evidence_):.3f} nats apart"
    )
    print(HEADER)
    for order in orders(stream, laplace):
        for size in (size for size in SIZES if 2 * size <= len(stream.y)):
            bar = BAR if order.name == "shuffled" and size >= LARGE else None
            for inference, whole, unit in (("laplace", laplace, laplace_s), ("ep", ep, ep_s)):
                yield Row(
                    stream.name, order.name, size, inference, drift(stream, inference, order, size, whole, unit), bar
                )
        once = order._replace(rows=order.rows[:1])
        yield Row(stream.name, order.name, None, "adf", drift(stream, "adf", once, LARGE, ep, ep_s), None)


HEADER = (
    f"{'order':20}{'batches of':>11}  {'':8}{'means, sd':>10}{'told':>10}{'sds, rel.':>11}{'log evidence':>14}"
    f"{'warned':>8}{'time':>8}"
)


def show(row: Row) -> None:
    bar = {None: "", True: f"  at most {BAR}: met", False: f"  at most {BAR}: NOT met"}[row.met]
    it = row.drift
    told = "" if it.told is None else f"{it.told:.2g}"
    print(
        f"{row.order:20}{row.size or 'any':>11}  {row.inference:8}{it.mean:10.3f}{told:>10}{it.sd:11.4f}"
        f"{it.log_evidence:+14.3f}{it.warned or '':>8}{it.seconds:7.1f}x{bar}",
        flush=True,
    )


def summary(rows: list[Row]) -> None:
    """For the docs: drift of means over the streams that are long enough for the size."""
    print("\nLargest drift of a posterior mean over all streams, in sd (median of the streams)")
    print(f"{'':22}" + "".join(f"{size:>18}" for size in SIZES))
    kinds = dict.fromkeys((row.order, row.inference) for row in rows if row.size)
    for order, inference in kinds:
        cells = []
        for size in SIZES:
            here = [row.drift.mean for row in rows if (row.order, row.inference, row.size) == (order, inference, size)]
            cells.append(f"{max(here):10.3f} ({np.median(here):.3f})" if here else "")
        print(f"{order:20}{inference:8}" + "".join(f"{cell:>18}" for cell in cells))
    for order in dict.fromkeys(row.order for row in rows):
        here = [row.drift.mean for row in rows if row.order == order and row.inference == "adf"]
        print(f"{order:20}{'adf':8}{max(here):10.3f} ({np.median(here):.3f}), one pass in any batches")
    judged = [row for row in rows if row.met is not None]
    n_met = sum(bool(it.met) for it in judged)
    print(f"bar of {BAR} sd, shuffled batches of at least {LARGE}: {n_met} of {len(judged)} met")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="streams whose name holds this")
    arguments = parser.parse_args()
    start, rows = time.perf_counter(), []
    print(
        "Data of ../shared/data, statsmodels, scikit-learn." if DATA.exists() else "Data of statsmodels, scikit-learn."
    )
    with threadpool_limits(1, "blas"):
        for stream in (stream for stream in streams() if arguments.only in stream.name):
            for row in measure(stream):
                show(row)
                rows.append(row)
    summary(rows)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    RESULTS.mkdir(exist_ok=True)
    lines = [{**row._asdict(), "drift": row.drift._asdict(), "met": row.met} for row in rows]
    found = {"machine": platform.machine(), "python": platform.python_version(), "rows": lines}
    (RESULTS / "sequential.local.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
