"""The cases and their goals. Each runs in a process of its own, so that memory and threads do not mix.

Ours is at its default tolerance and includes the covariance of all weights (the mode alone for 50,000 sparse columns);
a peer's fit is a point estimate. A ratio above 1 means that we are faster.
"""

import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import norm, qmc

from benchmarks import peers, problems
from benchmarks.problems import Array, Problem
from benchmarks.timing import (
    BUDGET,
    CLOSE,
    GAP,
    Action,
    Peer,
    alternate,
    best_threads,
    loosest,
    relative_gap,
    seconds,
    time_limit,
)

OURS = "credibly"


class Outcome(NamedTuple):
    """Median seconds of us and of the fastest peer (memory: megabytes), and whether our answer is right."""

    ours: float
    peer: str = ""
    theirs: float = math.nan
    notes: tuple[str, ...] = ()
    right: bool = True
    at_least: bool = False  # no peer got there: `theirs` is the time that they had

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


class Goal(NamedTuple):
    """The goal in words, and whether an outcome meets it (None: there is none)."""

    words: str
    met: Callable[[Outcome], bool | None]


class Case(NamedTuple):
    name: str
    title: str
    goal: Goal
    run: Callable[[], Outcome]
    long: bool = False


def ratio(least: float, words: str = "") -> Goal:
    return Goal(words or f"≥ {least:g}×", lambda outcome: outcome.right and outcome.ratio >= least)


def at_most(limit: float, words: str) -> Goal:
    return Goal(words, lambda outcome: outcome.right and outcome.ours <= limit)


REPORTED = Goal("–", lambda outcome: None)


# --- linear models -------------------------------------------------------------------------------------------------


def fit_ours(problem: Problem) -> Any:
    from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal

    kind = BayesianProbitRegression if problem.link == "probit" else BayesianLogisticRegression
    prior = None if problem.scale is None else Normal(scale=problem.scale)
    return kind(prior=prior, fit_intercept=False, inference="laplace").fit(problem.X, problem.y)


def with_covariance(problem: Problem) -> Any:
    model = fit_ours(problem)
    model.posterior_.cov  # noqa: B018 - computed when it is first read
    return model


def mode_only(problem: Problem) -> Any:
    """The fit of very many weights without the random probes of the determinant, which only the evidence needs."""
    from credibly.inference import wide

    with patch.object(wide, "_spectrum", return_value=wide.Spectrum(0.0, 0.0, 0.0)):
        return fit_ours(problem)


def linear(
    make: Callable[[], Problem], others: Mapping[str, peers.LinearFit], fit: Callable[[Problem], Any] = with_covariance
) -> Outcome:
    """Us against the fastest peer that reaches the best known objective."""
    problem = make()
    value = partial(problems.objective, problem)
    coef = fit(problem).coef_
    ours = value(coef if problem.link == "softmax" else coef[0])
    best = min(ours, reference_value(problem, next(iter(others.values()))))
    found = {name: loosest(partial(other, problem), value, best) for name, other in others.items()}
    reached = {name: peer for name, peer in found.items() if isinstance(peer, Peer)}
    notes = [f"{name}: {reason}" for name, reason in found.items() if isinstance(reason, str)]
    gap = relative_gap(ours, min(best, *(peer.value for peer in reached.values()), math.inf))
    if gap > GAP:
        notes.append(f"ours ends with a gap of {gap:.0e}")
    quickest = min((peer.seconds for peer in reached.values()), default=BUDGET)
    close = {name: peer.action for name, peer in reached.items() if peer.seconds <= CLOSE * quickest}
    times = alternate({OURS: Action(lambda: fit(problem)), **close})
    outcome = fastest(times, tuple(notes), right=gap <= GAP)
    return outcome if close else outcome._replace(theirs=BUDGET, at_least=True)


def reference_value(problem: Problem, fit: peers.LinearFit) -> float:
    """The objective of a peer at a tight tolerance: the minimum is not taken from us alone."""
    try:
        with time_limit(4 * BUDGET):
            return problems.objective(problem, fit(problem, 1e-10))
    except (TimeoutError, ImportError):
        return math.inf


def fastest(times: Mapping[str, float], notes: tuple[str, ...] = (), *, right: bool = True) -> Outcome:
    others = {name: taken for name, taken in times.items() if name != OURS}
    peer = min(others, key=lambda name: others[name], default="")
    return Outcome(times[OURS], peer, others.get(peer, math.nan), notes, right)


def versus(
    ours: Callable[[], Any], others: Mapping[str, Callable[[], Any]], notes: tuple[str, ...] = (), *, right: bool = True
) -> Outcome:
    """Us against peers that have no tolerance to match."""
    actions = {name: best_threads(run)[0] for name, run in others.items()}
    return fastest(alternate({OURS: Action(ours), **actions}), notes, right=right)


def small() -> Outcome:
    problem = problems.linear(200, 5)
    default = {"scikit-learn, its default": lambda: peers.scikit_learn_default(problem)}
    return versus(lambda: with_covariance(problem), default)


def likelihood_only(n: int, d: int) -> Problem:
    return problems.linear(n, d, link="probit")._replace(scale=None)


def neighbours() -> Outcome:
    """The default fit, whose prior scale is learnt, a row below and a row above 40,000."""
    from credibly import BayesianLogisticRegression

    X, y, *_ = problems.linear(40_001, 30)

    def fit(n: int) -> Action:
        return Action(lambda: BayesianLogisticRegression(inference="laplace").fit(X[:n], y[:n]))

    return fastest(alternate({OURS: fit(39_999), "ours, 40,001 rows": fit(40_001)}))


def peak_memory() -> Outcome:
    """Megabytes that a fit takes above the table and what was loaded before it."""
    fit_ours(problems.linear(1_000, 3))  # imports are not counted
    problem = problems.linear(1_000_000, 100)
    before = resident("VmRSS")
    with_covariance(problem)
    return Outcome((resident("VmHWM") - before) / 1e6, notes=(f"table {problem.X.nbytes / 1e6:.0f} MB",))


def resident(key: str) -> int:
    """Bytes of this process as Linux counts them: VmRSS now, VmHWM the most so far."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[key].split()[0])


def nuts() -> Outcome:
    problem = problems.linear(768, 8)._replace(scale=2.5)
    sample = peers.numpyro_nuts(problem)
    exact = expit(problem.X @ sample().T).mean(axis=1)
    off = np.abs(with_covariance(problem).predict_proba(problem.X)[:, 1] - exact).max()
    notes = (f"probabilities differ by {off:.0e}",)
    return versus(lambda: with_covariance(problem), {"NumPyro NUTS, compiled": sample}, notes, right=bool(off <= 0.01))


# --- prediction ----------------------------------------------------------------------------------------------------


def predict_two() -> Outcome:
    problem = problems.linear(1_000_000, 30)
    some = problem._replace(X=problem.X[:10_000], y=problem.y[:10_000])
    ours, theirs = fit_ours(some), peers.scikit_learn_default(some)
    return versus(lambda: ours.predict_proba(problem.X), {"scikit-learn": lambda: theirs.predict_proba(problem.X)})


def predict_classes(classes: int, allowed: float) -> Outcome:
    """10,000 rows of a model that learnt from 100; the error of the first 200 averages."""
    problem = problems.linear(10_000, 5, link="softmax", classes=classes)
    model = fit_ours(problem._replace(X=problem.X[:100], y=problem.y[:100]))
    exact, sd = long_averages(model.posterior_, problem.X[:200], classes)
    error = np.abs(model.predict_proba(problem.X)[:200] - exact).max()
    taken = alternate({OURS: Action(lambda: model.predict_proba(problem.X))})[OURS]
    return Outcome(taken, notes=(f"error {error:.0e}", f"sd of scores up to {sd:.1f}"), right=bool(error <= allowed))


def long_averages(posterior: Any, X: Array, classes: int) -> tuple[Array, float]:
    """Class probabilities averaged over Gaussian scores at very many nodes, and the largest sd of a score."""
    d = X.shape[1]
    mean, cov = posterior.mean.reshape(classes, d), posterior.cov.reshape(classes, d, classes, d)
    nodes, weights = grid(401) if classes == 3 else sobol(classes - 1, 2**16)
    centre = np.eye(classes) - 1 / classes  # a shift of all scores changes nothing
    averages, largest = [], 0.0
    for x in X:
        V = np.einsum("i,kilj,j->kl", x, cov, x)
        values, vectors = np.linalg.eigh(centre @ V @ centre)
        root = (vectors * np.sqrt(np.maximum(values, 0)))[:, :0:-1]  # the best coordinates for the widest directions
        averages.append(weights @ softmax(mean @ x + nodes @ root.T, axis=1))
        largest = max(largest, float(np.sqrt(V.diagonal().max())))
    return np.array(averages), largest


def grid(n: int) -> tuple[Array, Array]:
    """Evenly spaced nodes in two dimensions, and standard normal weights: exact to rounding for scores like these."""
    x = np.linspace(-9, 9, n)
    nodes = np.array(np.meshgrid(x, x)).reshape(2, -1).T
    weights = np.exp(-0.5 * (nodes**2).sum(axis=1))
    return nodes, weights / weights.sum()


def sobol(dimensions: int, n: int) -> tuple[Array, Array]:
    return norm.ppf(qmc.Sobol(dimensions, seed=0).random(n)), np.full(n, 1 / n)


# --- Parquet -------------------------------------------------------------------------------------------------------


def parquet_pass(rows: int = 20_000_000, columns: int = 20) -> Outcome:
    """The gradient of a logistic model over files, against pyarrow's decoding of the same columns."""
    from credibly import ParquetRows

    with tempfile.TemporaryDirectory(prefix="credibly-bench-") as folder:
        size = write_parquet(Path(folder), rows, columns)
        w, table = np.full(columns, 0.1), ParquetRows(folder, target="y", progress=False)

        def gradient(block: Any) -> Array:
            return np.asarray(block.X.T @ (1 / (1 + np.exp(-(block.X @ w))) - block.y))

        others = {
            "pyarrow, row groups": Action(partial(decode_row_groups, Path(folder))),
            "pyarrow, batches": Action(partial(decode_batches, Path(folder))),
        }
        times = alternate({OURS: Action(lambda: table.sum(gradient, np.add)), **others})
        return fastest(times, (f"float64, {size / 1e9:.1f} GB in files",))


def write_parquet(folder: Path, rows: int, columns: int, group: int = 500_000, groups_per_file: int = 10) -> int:
    """Write one row group of normal numbers again and again; the size of all files in bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, group = np.random.default_rng(0), min(group, rows)
    table = pa.table({f"x{j}": rng.normal(size=group) for j in range(columns)} | {"y": rng.integers(2, size=group)})
    for start in range(0, rows // group, groups_per_file):
        with pq.ParquetWriter(folder / f"part-{start:03d}.parquet", table.schema) as writer:
            for _ in range(start, min(start + groups_per_file, rows // group)):
                writer.write_table(table)
    return sum(path.stat().st_size for path in folder.iterdir())


def decode_row_groups(folder: Path) -> None:
    import pyarrow.parquet as pq

    for path in sorted(folder.iterdir()):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group, use_threads=True)


def decode_batches(folder: Path) -> None:
    import pyarrow.parquet as pq

    for path in sorted(folder.iterdir()):
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(use_threads=True):
                pass


# --- fresh processes -----------------------------------------------------------------------------------------------

IRIS = "from sklearn.datasets import load_iris; X, y = load_iris(return_X_y=True); "
OUR_IRIS = IRIS + "from credibly import BayesianLogisticRegression as Model; Model(inference='laplace').fit(X, y)"
THEIR_IRIS = IRIS + "from sklearn.linear_model import LogisticRegression as Model; Model(max_iter=1000).fit(X, y)"


def fresh(code: str) -> Action:
    return Action(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def importing() -> Outcome:
    times = alternate({"import": fresh("import credibly"), "nothing": fresh("pass")})
    return Outcome(times["import"] - times["nothing"], notes=("beyond starting Python",))


def first_fit() -> Outcome:
    return fastest(alternate({OURS: fresh(OUR_IRIS), "scikit-learn": fresh(THEIR_IRIS)}))


# --- generative models ---------------------------------------------------------------------------------------------


def generative_models(name: str, **options: Any) -> tuple[Any, Any]:
    """Our model and scikit-learn's, unfitted."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    from credibly import LinearDiscriminant, NaiveBayes, QuadraticDiscriminant

    return {
        "LDA": lambda: (LinearDiscriminant(**options), LinearDiscriminantAnalysis(solver="lsqr")),
        "QDA": lambda: (QuadraticDiscriminant(**options), QuadraticDiscriminantAnalysis()),
        "naive Bayes": lambda: (NaiveBayes(features="gaussian", **options), GaussianNB()),
    }[name]()


def generative(name: str, *, predict: bool = False, **options: Any) -> Outcome:
    X, y, *_ = problems.gaussian_classes(1_000_000, 50)
    ours, theirs = generative_models(name, **options)
    some = X[:10_000]
    off = np.abs(ours.fit(X, y).predict_proba(some) - theirs.fit(X, y).predict_proba(some)).max()
    peer, notes = "scikit-learn lsqr" if name == "LDA" else "scikit-learn", (f"probabilities differ by {off:.0e}",)
    if predict:
        others = {peer: lambda: theirs.predict_proba(X)}
        return versus(lambda: ours.predict_proba(X), others, notes, right=bool(off <= 0.01))
    return versus(lambda: ours.fit(X, y), {peer: lambda: theirs.fit(X, y)}, notes, right=bool(off <= 0.01))


# --- Gaussian processes --------------------------------------------------------------------------------------------


def our_gp(problem: Problem, **options: Any) -> Any:
    from credibly import GaussianProcessClassifier
    from credibly.kernels import RBF, Constant

    kernel = Constant(peers.VARIANCE, variance_bounds=peers.BOUNDS)
    kernel *= RBF((peers.LENGTH,) * problem.X.shape[1], length_scale_bounds=peers.BOUNDS)
    return GaussianProcessClassifier(kernel, **options).fit(problem.X, problem.y)


def gp(name: str, peer: Callable[[Problem], float], accuracy: float, **options: Any) -> Outcome:
    """Us against one peer; our log evidence may be below the peer's by no more than the accuracy (relative)."""
    problem = problems.waves(1_000)
    theirs = peer(problem)
    gap = relative_gap(-our_gp(problem, **options).log_evidence_, -theirs)
    notes, others = (f"relative gap of the log evidence {gap:.0e}",), {name: lambda: peer(problem)}
    return versus(lambda: our_gp(problem, **options), others, notes, right=gap <= accuracy)


def gp_inducing(n: int = 50_000, n_test: int = 10_000, equal: float = 1e-3) -> Outcome:
    """Us against the shortest training of SVGP whose held-out log score is ours; else against the best one."""
    X, y, *_ = problems.waves(n + n_test)
    train = Problem(X[:n], y[:n])

    def log_score(p: Array) -> float:
        return float(np.log(np.where(y[n:] == 1, p, 1 - p)).mean())

    fitted: list[Any] = []
    taken = seconds(lambda: fitted.append(our_gp(train, optimize=True, inducing=500)))
    ours, found = log_score(fitted[0].predict_proba(X[n:])[:, 1]), {}
    for epochs in (5, 15, 30):
        spent = seconds(lambda epochs=epochs: fitted.append(peers.gpytorch_svgp(train, epochs)))
        found[epochs] = spent, log_score(fitted[-1](X[n:]))
        if found[epochs][1] >= ours - equal:
            break
    best = max(score for _, score in found.values())
    epochs = min(it for it, (_, score) in found.items() if score >= min(best, ours) - equal)
    notes = (f"held-out log score {ours:.4f}, theirs {found[epochs][1]:.4f}", "one run each")
    return Outcome(taken, f"GPyTorch SVGP, {epochs} epochs", found[epochs][0], notes, right=ours >= best - equal)


# --- all of them ---------------------------------------------------------------------------------------------------


def logistic(name: str, title: str, goal: float, *shape: Any, others: Any = peers.LOGISTIC) -> Case:
    return Case(name, title, ratio(goal), partial(linear, partial(problems.linear, *shape), others))


NEWTON = peers.NEWTON
SOFTMAX = partial(linear, partial(problems.linear, 100_000, 30, link="softmax", classes=5), peers.SOFTMAX)
SPARSE = partial(linear, partial(problems.linear, 100_000, 50_000, "sparse"), peers.SPARSE, mode_only)
PROBIT = partial(linear, partial(likelihood_only, 100_000, 30), peers.PROBIT)
GP_LAPLACE = partial(gp, "scikit-learn", partial(peers.scikit_learn_gp, learnt=False), 1e-6, optimize=False)
GP_LEARNT = partial(gp, "scikit-learn", partial(peers.scikit_learn_gp, learnt=True), 1e-4, optimize=True)
EP = {"optimize": False, "inference": "ep", "likelihood": "probit"}
GP_EP = partial(gp, "GPy EP", partial(peers.gpy_ep, parallel=False), 1e-6, **EP)
GP_EP_PARALLEL = partial(gp, "GPy EP, parallel updates", partial(peers.gpy_ep, parallel=True), 1e-6, **EP)
PREDICT_LDA = partial(generative, "LDA", predict=True, parameters="plugin")
NEIGHBOURS = Goal("within 20 % of each other", lambda outcome: 1 / 1.2 <= outcome.ratio <= 1.2)
MEMORY = at_most(0.1 * 800 + 200, "≤ 280 MB (10 % of the table + 200 MB)")
TWICE, DECODING = ratio(0.5, "≤ 2× scikit-learn's"), ratio(1 / 1.5, "≤ 1.5× pyarrow's")
THREE, TEN = at_most(1.0, "≤ 1 s, error ≤ 1e-6"), at_most(5.0, "≤ 5 s, error ≤ 1e-3")

CASES = [
    Case("logistic-200x5", "logistic 200 × 5, accuracy not matched", ratio(1), small),
    logistic("logistic-1e4x10", "logistic 10⁴ × 10", 1.5, 10_000, 10),
    logistic("logistic-1e5x30", "logistic 10⁵ × 30", 2, 100_000, 30),
    logistic("logistic-1e6x30", "logistic 10⁶ × 30", 3, 1_000_000, 30),
    logistic("logistic-1e6x100", "logistic 10⁶ × 100", 1.1, 1_000_000, 100),
    Case("memory-1e6x100", "… peak memory above the table", MEMORY, peak_memory),
    logistic("logistic-ill", "… 10⁵ × 100, condition 10³", 3, 100_000, 100, "ill"),
    logistic("logistic-separable", "… 10⁵ × 30, near-separable (Newton)", 4, 100_000, 30, "separable", others=NEWTON),
    logistic("logistic-ill-separable", "… and condition 10³ (Newton)", 4, 100_000, 30, "ill-separable", others=NEWTON),
    Case("softmax", "softmax 10⁵ × 30 × 5", ratio(1.5), SOFTMAX),
    Case("sparse", "logistic CSR 10⁵ × 5·10⁴, the mode", ratio(0.8), SPARSE),
    Case("probit", "probit 10⁵ × 30, maximum likelihood", ratio(8), PROBIT),
    Case("neighbours", "39,999 × 30 and 40,001 × 30, prior scale learnt", NEIGHBOURS, neighbours),
    Case("nuts", "logistic 768 × 8 against 4 × 1,000 draws", ratio(1_000), nuts),
    Case("parquet", "Parquet, a gradient pass over 2·10⁷ × 20", DECODING, parquet_pass),
    Case("predict-2", "predict_proba 10⁶ × 30, 2 classes", TWICE, predict_two),
    Case("predict-3", "predict_proba 10⁴ × 5, 3 classes", THREE, partial(predict_classes, 3, 1e-6)),
    Case("predict-10", "predict_proba 10⁴ × 5, 10 classes", TEN, partial(predict_classes, 10, 1e-3)),
    Case("import", "import credibly", at_most(0.1, "≤ 100 ms"), importing),
    Case("first-fit", "iris in a fresh process, imports included", REPORTED, first_fit),
    Case("generative-lda", "LDA 10⁶ × 50", ratio(1), partial(generative, "LDA")),
    Case("generative-qda", "QDA 10⁶ × 50", ratio(1), partial(generative, "QDA")),
    Case("generative-naive", "naive Bayes 10⁶ × 50", ratio(1), partial(generative, "naive Bayes")),
    Case("generative-lda-predict", "LDA, plug-in, predict_proba", ratio(0.5), PREDICT_LDA),
    Case("generative-qda-predict", "QDA, predict_proba", ratio(1), partial(generative, "QDA", predict=True)),
    Case("generative-naive-predict", "… naive Bayes", ratio(1), partial(generative, "naive Bayes", predict=True)),
    Case("gp-laplace", "GP Laplace, n = 1,000, kernel given", ratio(3), GP_LAPLACE),
    Case("gp-learnt", "GP Laplace, n = 1,000, kernel learnt", ratio(5), GP_LEARNT),
    Case("gp-ep", "GP EP, n = 1,000, kernel given", ratio(10), GP_EP),
    Case("gp-ep-parallel", "… GPy's parallel updates", REPORTED, GP_EP_PARALLEL),
    Case("gp-inducing", "GP, n = 50,000, 500 inducing points", ratio(5), gp_inducing, long=True),
]
BY_NAME = {case.name: case for case in CASES}


def run(name: str) -> Outcome:
    """The outcome of a case; in a process of its own."""
    warnings.simplefilter("ignore")  # peers warn of their tolerances; answers are judged by the objective
    return BY_NAME[name].run()
