"""How near is each way to the truth? After Chopin & Ridgway, "Leave Pima Indians alone" (Statistical Science 2017).

Run by `python -m benchmarks.leave_pima_alone` (ten minutes, most of them for the truth). Logistic and probit regression
on small binary data sets; predictors have mean 0 and standard deviation 0.5, the prior standard deviation is 20 for the
intercept and 5 for slopes. For every way of inference: the largest error of a posterior mean, in posterior standard
deviations, the largest relative error of a posterior standard deviation, the error of the log evidence, and the time in
Laplace fits. The claim to be checked is that EP's error is at most a tenth of Laplace's.

The truth has nothing to do with our code:
- stored: importance sampling done elsewhere (`reference/bayes_linear.json`), for three sets;
- sampled: importance sampling from a Student t that is adapted to the posterior, in this script: Sobol points in
  independently scrambled batches, whose spread is the standard error;
- NUTS (`--nuts`): NumPyro's sampler and bridge sampling. Where NumPyro lives in another interpreter, name that in
  CREDIBLY_NUTS_PYTHON.
The sharpest that is good (standard errors of at most 0.02 sd for means and 0.05 for the log evidence, draws worth at
least a hundredth of their number) is used, and the others are printed with their distance from it.

A line says PASS or FAIL only where the truth is known well enough to tell. The data are read from ../shared/data;
where that is not there, from scikit-learn and statsmodels (fewer sets, and none with stored numbers). Times are of the
fastest of some runs.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_ndtr, logsumexp, stdtrit
from scipy.stats import chi2, qmc
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, seconds
from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal

DATA = Path(__file__).parents[2] / "shared" / "data"
SLOPE_SD, INTERCEPT_SD = 5.0, 20.0
LINKS = {"logit": BayesianLogisticRegression, "probit": BayesianProbitRegression}
TENTH = 0.1
BATCH, FEWEST_BATCHES = 2**13, 16  # draws of the importance sampler with one scrambling, and how often
NUTS_PYTHON = "CREDIBLY_NUTS_PYTHON"


# --- data --------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    name: str
    read: Callable[[], tuple[np.ndarray, np.ndarray]]
    stored: str | None = None  # beginning of the key in bayes_linear.json


class Posterior(NamedTuple):
    """A problem: rows of the design with the intercept last, labels 0 and 1, the link."""

    name: str
    link: str
    Z: np.ndarray
    y: np.ndarray
    stored: str | None

    @property
    def X(self) -> np.ndarray:
        return self.Z[:, :-1]

    @property
    def prior_sd(self) -> np.ndarray:
        return np.append(np.full(self.Z.shape[1] - 1, SLOPE_SD), INTERCEPT_SD)

    def log_joint(self, w: np.ndarray) -> np.ndarray:
        """log p(y, w) for weights (S, M), in blocks that fit the cache."""
        signed, sd = self.Z * (2 * self.y - 1)[:, None], self.prior_sd
        log_sigma = log_ndtr if self.link == "probit" else lambda f: -np.logaddexp(0, -f)
        some = max(1, 1_000_000 // len(signed))
        parts = [log_sigma(w[i : i + some] @ signed.T).sum(axis=1) for i in range(0, len(w), some)]
        return np.concatenate(parts) - 0.5 * ((w / sd) ** 2 + np.log(2 * np.pi * sd**2)).sum(axis=1)


def coded(frame: pd.DataFrame, target: str, positive: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Complete rows as numbers; factors become indicators in their place, without their first level."""
    frame = frame.dropna()
    y = pd.factorize(frame[target], sort=True)[0] if positive is None else (frame[target] == positive).to_numpy(int)
    columns = [pd.get_dummies(frame[[name]], drop_first=True) for name in frame.columns.drop(target)]
    return pd.concat(columns, axis=1).to_numpy(float), y


def from_csv(*names: str, target: str = "y", leave: tuple[str, ...] = (), factors: tuple[str, ...] = ()) -> Any:
    frame = pd.concat([pd.read_csv(DATA / name) for name in names]).drop(columns=list(leave))
    return coded(frame.astype(dict.fromkeys(factors, str)), target)


def training_part(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The 400 training rows of the first official split."""
    X, y = from_csv(f"ida/{name}.csv.gz")
    part = pd.read_csv(DATA / f"ida/{name}_split1.csv.gz")["split1"].to_numpy() == "train"
    return X[part], y[part]


def two_digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    some = np.isin(digit, (3, 8))
    return X[some], (digit[some] == 8).astype(int)


def splice(n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Splice junctions against none, on rows of which every seventh is taken."""
    frame = pd.read_csv(DATA / "dna.csv.gz").iloc[::7].head(n_rows)
    return coded(frame, "Class", "n")


def from_sklearn(name: str, classes: tuple[int, int] = (0, 1)) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    some = np.isin(y, classes)
    return X[some], (y[some] == classes[1]).astype(int)


def from_statsmodels(name: str) -> tuple[np.ndarray, np.ndarray]:
    from statsmodels import datasets

    found = getattr(datasets, name).load_pandas()
    return found.exog.to_numpy(float), (found.endog.to_numpy() > 0).astype(int)


SHARED = [
    Source("pima, 532 rows", lambda: from_csv("pima_tr.csv", "pima_te.csv", target="type"), "chopinridgway_pima532"),
    Source("pima, 768 rows", lambda: from_csv("pima768.csv", target="diabetes")),
    Source("saheart", lambda: from_csv("saheart.csv", target="chd"), "saheart"),
    Source("spector", lambda: from_csv("spector.csv", target="GRADE"), "spector"),
    Source("birthwt", lambda: from_csv("birthwt.csv", target="low", leave=("bwt",), factors=("race",))),
    Source("icu", lambda: from_csv("icu.csv", target="sta", leave=("id",))),
    Source("myopia", lambda: from_csv("myopia.csv", target="myopic", leave=("id", "studyyear", "diopterhr"))),
    Source("heart", lambda: from_csv("ida/heart.csv.gz")),
    Source("breast cancer (IDA)", lambda: from_csv("ida/breast_cancer.csv.gz")),
    Source("german", lambda: from_csv("ida/german.csv.gz")),
    Source("image", lambda: from_csv("ida/image.csv.gz")),
    Source("twonorm", lambda: training_part("twonorm")),
    Source("waveform", lambda: training_part("waveform")),
    Source("wisconsin", lambda: from_csv("wisconsin_breast_original.csv", target="Class", leave=("Id",))),
    Source("ionosphere", lambda: from_csv("ionosphere.csv", target="Class")),
    Source("spam", lambda: from_csv("spam.csv.gz", target="type")),
    Source("digits 3 v 8", two_digits),
    Source("dna", splice),
]
SHIPPED = [
    Source("spector", lambda: from_statsmodels("spector")),
    Source("iris, two species", lambda: from_sklearn("iris", (1, 2))),
    Source("fair", lambda: from_statsmodels("fair")),
    Source("breast cancer", lambda: from_sklearn("breast_cancer")),
    Source("digits 3 v 8", two_digits),
]


def posterior(source: Source, link: str) -> Posterior:
    X, y = source.read()
    sd = X.std(axis=0, ddof=1)
    X = X[:, sd > 0]
    Z = 0.5 * (X - X.mean(axis=0)) / sd[sd > 0]
    stored = None if source.stored is None else f"{source.stored}_{link}"
    return Posterior(source.name, link, np.column_stack([Z, np.ones(len(y))]), y, stored)


# --- the truth ---------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    how: str
    mean: np.ndarray
    sd: np.ndarray
    mean_se: float  # the largest, in posterior standard deviations
    log_evidence: float
    log_evidence_se: float
    worth: float = 1.0  # of one draw
    note: str = ""

    @property
    def good(self) -> bool:
        return bool(self.mean_se <= 0.02 and self.log_evidence_se <= 0.05 and self.worth >= 0.01)


@cache
def stored_cases() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "reference" / "bayes_linear.json").read_text())["cases"]
    return found


def stored_truth(key: str) -> Truth:
    case = stored_cases()[key]
    mean, sd, se = (np.roll(case[name], -1) for name in ("post_mean", "post_sd", "post_mean_mcse"))
    return Truth("stored", mean, sd, float((se / sd).max()), case["is_logZ"], case["is_logZ_se"])


class Proposal(NamedTuple):
    """A multivariate t with `df` degrees of freedom: mean + root · (normal / √(chi² / df))."""

    mean: np.ndarray
    root: np.ndarray  # lower triangular
    df: float

    def draw(self, points: np.ndarray) -> np.ndarray:
        """Weights (S, M) from points (S, M + 1) of the unit cube; the last coordinate is the length's."""
        normal = stdtrit(np.inf, points[:, :-1])
        stretch = np.sqrt(self.df / chi2.ppf(points[:, -1], self.df))
        return self.mean + (normal * stretch[:, None]) @ self.root.T

    def logpdf(self, w: np.ndarray) -> np.ndarray:
        df, M = self.df, len(self.mean)
        white = solve_triangular(self.root, (w - self.mean).T, lower=True)
        constant = gammaln((df + M) / 2) - gammaln(df / 2) - M / 2 * np.log(df * np.pi)
        length = (white**2).sum(axis=0)
        return constant - np.log(np.diag(self.root)).sum() - (df + M) / 2 * np.log1p(length / df)


def mode(problem: Posterior, steps: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Mode and expected information, by scoring with halved steps."""
    w, target = np.zeros(problem.Z.shape[1]), problem.log_joint
    sign = 2 * problem.y - 1
    for _ in range(steps):
        f = problem.Z @ w
        if problem.link == "logit":
            p = 1 / (1 + np.exp(-f))
            slope, weight = problem.y - p, p * (1 - p)
        else:
            log_density = -0.5 * f**2 - 0.5 * np.log(2 * np.pi)
            slope = sign * np.exp(log_density - log_ndtr(sign * f))
            weight = np.exp(2 * log_density - log_ndtr(f) - log_ndtr(-f))
        information = (problem.Z.T * weight) @ problem.Z + np.diag(problem.prior_sd**-2.0)
        step = np.linalg.solve(information, problem.Z.T @ slope - w / problem.prior_sd**2)
        here = target(w[None])[0]
        while target((w + step)[None])[0] < here and np.abs(step).max() > 1e-12:
            step /= 2
        w = w + step
        if np.abs(step).max() < 1e-10:
            break
    return w, information


def cube(rng: np.random.Generator, M: int, size: int) -> np.ndarray:
    """Scrambled Sobol points; 60 bits, so that none has a coordinate 0."""
    return np.asarray(qmc.Sobol(M + 1, scramble=True, bits=60, rng=rng).random(size))


def log_weights(problem: Posterior, proposal: Proposal, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w = proposal.draw(points)
    return w, problem.log_joint(w) - proposal.logpdf(w)


def ess(log_weight: np.ndarray) -> float:
    return float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)))


def tempered(log_weight: np.ndarray, least: float) -> np.ndarray:
    """Weights to a power of at most one, at which they are worth `least` draws."""
    power = 1.0
    while ess(power * log_weight) < least and power > 1e-3:
        power *= 0.8
    return np.exp(power * log_weight - logsumexp(power * log_weight))


def adapted(rng: np.random.Generator, problem: Posterior, rounds: int = 12) -> Proposal:
    """From the mode towards mean and covariance of the posterior, then the tail of highest effective size."""
    w, information = mode(problem)
    M = len(w)
    proposal = Proposal(w, np.linalg.cholesky(np.linalg.solve(information, np.eye(M))), 20.0)
    for _ in range(rounds):
        draws, ratios = log_weights(problem, proposal, cube(rng, M, BATCH))
        weight = tempered(ratios, max(10.0 * M, 200.0))
        mean = weight @ draws
        cov = (draws - mean).T @ ((draws - mean) * weight[:, None])
        proposal = proposal._replace(mean=mean, root=np.linalg.cholesky(cov + 1e-12 * np.diag(np.diag(cov))))
    tails = [proposal._replace(df=df) for df in (5.0, 10.0, 20.0, 50.0, 200.0)]
    return max(tails, key=lambda it: ess(log_weights(problem, it, cube(rng, M, BATCH))[1]))


class Batch(NamedTuple):
    """Sums over draws that share a scrambling: log mass, log of the squared weights' sum, moments of the weights."""

    log_mass: float
    log_squares: float
    mean: np.ndarray
    square: np.ndarray

    @classmethod
    def of(cls, problem: Posterior, proposal: Proposal, points: np.ndarray) -> "Batch":
        draws, ratios = log_weights(problem, proposal, points)
        weight = np.exp(ratios - logsumexp(ratios))
        return cls(float(logsumexp(ratios)), float(logsumexp(2 * ratios)), weight @ draws, weight @ draws**2)


def sampled_truth(problem: Posterior, most: int) -> Truth:
    """Importance sampling; where that is not good enough, with up to `most` draws."""
    rng = np.random.default_rng(len(problem.y))
    proposal = adapted(rng, problem)
    batches: list[Batch] = []
    while True:
        more = [cube(rng, len(proposal.mean), BATCH) for _ in range(max(len(batches), FEWEST_BATCHES))]
        batches += [Batch.of(problem, proposal, points) for points in more]
        found = combined(batches, proposal.df)
        if found.good or 2 * BATCH * len(batches) > most:
            return found


def combined(batches: list[Batch], df: float) -> Truth:
    """With standard errors from the spread of the batches, which are independent."""
    B = len(batches)
    log_mass, log_squares, means, squares = (np.array(it) for it in zip(*batches, strict=True))
    share = np.exp(log_mass - logsumexp(log_mass))
    mean = share @ means
    sd = np.sqrt(share @ squares - mean**2)
    mean_se = np.sqrt(B / (B - 1) * share**2 @ (means - mean) ** 2) / sd
    log_evidence = float(logsumexp(log_mass) - np.log(B * BATCH))
    log_evidence_se = float(np.std(B * share, ddof=1) / np.sqrt(B))
    worth = float(np.exp(2 * logsumexp(log_mass) - logsumexp(log_squares))) / (B * BATCH)
    note = f"t with {df:.0f} degrees of freedom, worth {worth:.1%} of {B * BATCH} draws"
    return Truth("sampled", mean, sd, float(mean_se.max()), log_evidence, log_evidence_se, worth, note)


NUTS = """
import sys
import numpy as np
import jax, jax.numpy as jnp
import numpyro
from numpyro.infer import MCMC, NUTS
numpyro.enable_x64()
given = np.load(sys.argv[1])
signed, sd, center, root = (jnp.asarray(given[name]) for name in ("signed", "sd", "center", "root"))
sigma = jax.scipy.stats.norm.logcdf if sys.argv[3] == "probit" else jax.nn.log_sigmoid
def potential(z):
    w = center + root @ z["u"]
    return 0.5 * jnp.sum((w / sd) ** 2) - jnp.sum(sigma(signed @ w))
kernel = NUTS(potential_fn=potential, target_accept_prob=0.9)
sampler = MCMC(kernel, num_warmup=1000, num_samples=int(sys.argv[4]), num_chains=4, chain_method="vectorized",
               progress_bar=False)
sampler.run(jax.random.PRNGKey(0), init_params={"u": jnp.zeros((4, len(sd)))}, extra_fields=("diverging",))
u = sampler.get_samples(group_by_chain=True)["u"]
np.savez(sys.argv[2], w=np.asarray(center + u @ root.T), diverging=np.asarray(sampler.get_extra_fields()["diverging"]))
"""


def nuts_draws(problem: Posterior, n_draws: int) -> tuple[np.ndarray, int]:
    """Draws (chains, draws, M) by NumPyro in its own interpreter, and how many of them diverged."""
    w, information = mode(problem)
    root = np.linalg.cholesky(np.linalg.solve(information, np.eye(len(w))))
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, signed=problem.Z * (2 * problem.y - 1)[:, None], sd=problem.prior_sd, center=w, root=root)
        python = os.environ.get(NUTS_PYTHON, sys.executable)
        subprocess.run([python, "-c", NUTS, str(given), str(found), problem.link, str(n_draws)], check=True)
        drawn = np.load(found)
        return drawn["w"], int(drawn["diverging"].sum())


def bridge(problem: Posterior, draws: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Log evidence by bridge sampling (Meng & Wong 1996): from a Gaussian, fitted to one half, to the other half."""
    fitted, used = draws.reshape(2, -1, draws.shape[-1])
    mean, root = fitted.mean(axis=0), np.linalg.cholesky(np.cov(fitted.T))
    proposal = Proposal(mean, root, 1e7)
    drawn = mean + rng.normal(size=(len(used), len(mean))) @ root.T
    there, here = (problem.log_joint(w) - proposal.logpdf(w) for w in (used, drawn))
    log_z, n = float(np.median(here)), len(used)
    for _ in range(1000):
        old = log_z
        log_z = float(logsumexp(here - np.logaddexp(here, log_z)) - logsumexp(-np.logaddexp(there, log_z)))
        if abs(log_z - old) < 1e-10:
            break
    top = np.exp(here - np.logaddexp(here, log_z))
    bottom = np.exp(log_z - np.logaddexp(there, log_z))
    independent = max(1.0, n / _autocorrelation(bottom))
    error = np.sqrt(top.var() / (n * top.mean() ** 2) + bottom.var() / (independent * bottom.mean() ** 2))
    return log_z, float(error)


def _autocorrelation(x: np.ndarray) -> float:
    """Integrated autocorrelation time, by means of batches."""
    batch = int(np.sqrt(len(x)))
    means = x[: batch * (len(x) // batch)].reshape(-1, batch).mean(axis=1)
    return max(1.0, float(batch * means.var(ddof=1) / x.var(ddof=1)))


def nuts_truth(problem: Posterior, n_draws: int) -> Truth:
    chains, diverging = nuts_draws(problem, n_draws)
    draws = chains.reshape(-1, chains.shape[-1])
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    batches = chains.reshape(chains.shape[0] * 10, -1, chains.shape[-1]).mean(axis=1)
    mean_se = batches.std(axis=0, ddof=1) / np.sqrt(len(batches)) / sd
    halves = np.concatenate([chains[:, 0::2].reshape(-1, len(mean)), chains[:, 1::2].reshape(-1, len(mean))])
    log_evidence, error = bridge(problem, halves, np.random.default_rng(0))
    note = f"{len(draws)} draws, {diverging} diverged"
    return Truth("NUTS", mean, sd, float(mean_se.max()), log_evidence, error, note=note)


# --- ours --------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What one way says, and the time it took."""

    way: str
    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float
    seconds: float
    note: str = ""


def fitted(problem: Posterior, inference: str) -> Any:
    prior = Normal(scale=SLOPE_SD, intercept_scale=INTERCEPT_SD)
    return LINKS[problem.link](prior=prior, inference=inference).fit(problem.X, problem.y)


def fastest(action: Callable[[], Any], enough: float = 0.5, runs: int = 50) -> float:
    """Seconds of the fastest run; no further one after `enough` of them."""
    best, start = np.inf, time.perf_counter()
    for _ in range(runs):
        best = min(best, seconds(action))
        if time.perf_counter() - start > enough:
            break
    return best


def answers(problem: Posterior) -> Iterator[Answer]:
    for inference in ("laplace", "skew", "ep", "auto"):
        model = fitted(problem, inference)
        took = fastest(lambda inference=inference: fitted(problem, inference))
        note = f"rung {model.rung_!r}" if inference == "auto" else ""
        note += "" if model.status_.good else f" status {model.status_.name}"
        yield Answer(inference, model.posterior_.mean, model.posterior_.std, model.log_evidence_, took, note.strip())
        if inference in ("laplace", "ep"):
            found = model.certify(problem.X, problem.y)
            took += fastest(lambda model=model: model.certify(problem.X, problem.y))
            note = f"k-hat {found.khat:.2f}, {found.draws} draws, se {found.log_evidence_se:.3f}"
            note += "" if found.reliable else ": UNRELIABLE, it says"
            yield Answer(f"{inference}, corrected", found.mean, found.std, found.log_evidence, took, note)


class Error(NamedTuple):
    way: str
    mean: float  # largest, in posterior standard deviations
    sd: float  # largest, relative
    log_evidence: float
    time: float  # in Laplace fits
    note: str

    @classmethod
    def of(cls, answer: Answer, truth: Truth, unit: float) -> "Error":
        return cls(
            answer.way,
            float(np.abs((answer.mean - truth.mean) / truth.sd).max()),
            float(np.abs(answer.sd / truth.sd - 1).max()),
            answer.log_evidence - truth.log_evidence,
            answer.seconds / unit,
            answer.note,
        )


def verdict(ep: float, laplace: float, se: float) -> str:
    """Of "EP's error is at most a tenth of Laplace's", where the truth itself is known to some standard errors.

    An uncertain truth makes small errors look larger, so that a PASS needs no allowance for it.
    """
    noise = 3 * se
    if ep <= TENTH * laplace:
        return "PASS"
    return "FAIL" if ep - noise > TENTH * (laplace + noise) else "not decided"


class Judged(NamedTuple):
    means: str
    evidence: str
    line: str


def judge(problem: Posterior, truth: Truth, errors: list[Error]) -> Judged:
    by = {error.way: error for error in errors}
    laplace, ep = by["laplace"], by["ep"]
    if not truth.good:
        return Judged("no truth", "no truth", "no truth good enough: not judged")
    means = verdict(ep.mean, laplace.mean, truth.mean_se)
    evidence = verdict(abs(ep.log_evidence), abs(laplace.log_evidence), truth.log_evidence_se)
    line = (
        f"{means}: means, EP {ep.mean:.2g} of Laplace {laplace.mean:.2g} sd, ratio {ep.mean / laplace.mean:.3f}, "
        f"truth ± {truth.mean_se:.1g}.  {evidence}: evidence, EP {abs(ep.log_evidence):.2g} of Laplace "
        f"{abs(laplace.log_evidence):.2g} nats, ratio {abs(ep.log_evidence / laplace.log_evidence):.3f}, "
        f"truth ± {truth.log_evidence_se:.1g}"
    )
    return Judged(means, evidence, line)


# --- all of it ---------------------------------------------------------------------------------------------------


def truths(problem: Posterior, most: int, nuts: int) -> list[Truth]:
    """All there are, the one to be used first: the sharpest of the good ones."""
    found = [] if problem.stored is None else [stored_truth(problem.stored)]
    found.append(sampled_truth(problem, most))
    if nuts:
        found.append(nuts_truth(problem, nuts))
    return sorted(found, key=lambda it: (not it.good, it.mean_se))


def show_truths(found: list[Truth]) -> None:
    best = found[0]
    for truth in found:
        beside = ""
        if truth is not best:
            off = float(np.abs((truth.mean - best.mean) / best.sd).max())
            beside = f"; beside the first: means {off:.1g} sd, evidence {truth.log_evidence - best.log_evidence:+.1g}"
        good = "" if truth.good else ", NOT GOOD ENOUGH"
        print(
            f"  truth, {truth.how:8} log evidence {truth.log_evidence:.4f} ± {truth.log_evidence_se:.1g}, means "
            f"± {truth.mean_se:.1g} sd{good}{beside}{'; ' if truth.note else ''}{truth.note}"
        )


def show(error: Error) -> None:
    numbers = f"{error.mean:12.4f}{error.sd:12.4f}{error.log_evidence:+14.4f}{error.time:9.1f}x"
    print(f"  {error.way:20}{numbers}  {error.note}", flush=True)


def run(problem: Posterior, most: int, nuts: int) -> dict[str, Any]:
    n, M = problem.Z.shape
    start = time.perf_counter()
    found = truths(problem, most, nuts)
    took = time.perf_counter() - start
    print(f"\n{problem.name}, {problem.link}: {n} rows, {M - 1} columns (truth in {took:.0f} s)")
    show_truths(found)
    given = list(answers(problem))
    errors = [Error.of(answer, found[0], given[0].seconds) for answer in given]
    print(f"  {'':20}{'means, sd':>12}{'sds, rel.':>12}{'log evidence':>14}{'time':>10}")
    for error in errors:
        show(error)
    judged = judge(problem, found[0], errors)
    print(f"  {judged.line}", flush=True)
    return {
        "set": problem.name,
        "link": problem.link,
        "n": n,
        "p": M - 1,
        "truth": found[0].how,
        **judged._asdict(),
        "errors": [error._asdict() for error in errors],
    }


def summary(rows: list[dict[str, Any]]) -> None:
    print(f"\nEP's error at most {TENTH:g} of Laplace's?")
    print(
        f"{'':22}{'link':8}{'truth':9}{'means':>12}{'ratio':>8}{'evidence':>13}{'ratio':>8}   largest error, sd: L, EP"
    )
    for row in rows:
        by = {error["way"]: error for error in row["errors"]}
        laplace, ep = by["laplace"], by["ep"]
        print(
            f"{row['set']:22}{row['link']:8}{row['truth']:9}{row['means']:>12}{ep['mean'] / laplace['mean']:8.3f}"
            f"{row['evidence']:>13}{abs(ep['log_evidence'] / laplace['log_evidence']):8.3f}   "
            f"{laplace['mean']:.3f}, {ep['mean']:.4f}"
        )
    for what in ("means", "evidence"):
        counts = {it: sum(row[what] == it for row in rows) for it in ("PASS", "FAIL", "not decided", "no truth")}
        print(f"{what}: " + ", ".join(f"{count} {it}" for it, count in counts.items() if count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="sets whose name holds this")
    parser.add_argument("--largest", type=int, default=100, help="leave out sets with more columns")
    parser.add_argument("--draws", type=int, default=2**20, help="at most, of the importance sampler; 2**17 at least")
    parser.add_argument("--nuts", type=int, nargs="?", const=10_000, default=0, help="draws of each of four chains")
    parser.add_argument("--shipped", action="store_true", help="the sets of scikit-learn and statsmodels in any case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # k-hat, rung and status are printed
    shared = DATA.exists() and not arguments.shipped
    print("Data of ../shared/data." if shared else "Data of scikit-learn and statsmodels; no stored truth.")
    start, rows = time.perf_counter(), []
    with threadpool_limits(1, "blas"):
        for source in SHARED if shared else SHIPPED:
            for link in LINKS:
                problem = posterior(source, link) if arguments.only in source.name else None
                if problem is not None and problem.X.shape[1] <= arguments.largest:
                    rows.append(run(problem, arguments.draws, arguments.nuts))
    summary(rows)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    RESULTS.mkdir(exist_ok=True)
    found = {"machine": platform.machine(), "python": platform.python_version(), "sets": rows}
    (RESULTS / "leave_pima_alone.local.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
