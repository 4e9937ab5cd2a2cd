"""Prior scales of highest evidence: where they are known, by whatever inference, and for how many passes over the rows.

A column of a Gaussian model whose rows say a (its precision) and b (its pull) has, as a function of its prior scale s,
log Z = -½ log(1 + a s²) + ½ b² s² / (1 + a s²), largest at s² = (b² - a)/a² if that is positive, else at zero
(Tipping & Faul 2003, eq. 20).
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import root
from scipy.stats import norm

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.fit import LinearFit, fit_linear
from credibly.inference.linear.hyper import (
    LOG_SCALE_BOUNDS,
    SWITCHED_OFF,
    Choices,
    FrozenLikelihood,
    Maximum,
    maximise,
    mode_slope,
    scale_slope,
)
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import ScaledPriors
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.priors import Normal
from credibly.numerics.newton import Start
from credibly.numerics.status import Status
from helpers import UnitGaussian

LOWEST, HIGHEST = LOG_SCALE_BOUNDS
COMMON, EACH = "empirical", "ard"


# --- columns that know nothing of each other ------------------------------------------------------------------


class Columns:
    """A Gaussian model of orthogonal columns with given precisions and pulls."""

    def __init__(self, a, b, kind: str = EACH):
        self.a, self.b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        d = self.a.size
        rows = MemoryRows(np.diag(np.sqrt(self.a)), self.b / np.sqrt(self.a))
        design = Design(Standardization(np.zeros(d), np.ones(d), intercept=False), ClassMap.separate(1), describe(rows))
        self.priors = ScaledPriors(design, np.zeros(d, dtype=np.intp) if kind == COMMON else np.arange(d))
        self.rows, self.design, self.runs = rows, design, 0

    def objective(self, theta) -> Objective:
        return Objective(self.rows, self.design, UnitGaussian(), self.priors.at(theta))

    def run(self, theta, near, *, brief):
        self.runs += 1
        return laplace(self.objective(theta), np.zeros(self.a.size))

    def maximum(self, start) -> Maximum:
        choices = Choices(lambda _: UnitGaussian(), self.priors)
        return maximise(self.run, choices, self.objective, np.asarray(start, dtype=float), moves=True)

    @property
    def best(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = 0.5 * np.log((self.b**2 - self.a) / self.a**2)
        return np.where(self.b**2 > self.a, theta, LOWEST)

    def gains(self, theta) -> np.ndarray:
        """Log evidence of each column beside that of a scale of zero."""
        s2 = np.exp(2 * theta)
        wide = 1 + self.a * s2
        return -0.5 * np.log(wide) + 0.5 * self.b**2 * s2 / wide


@pytest.mark.parametrize("theta", [[0.3, -0.7], [-2.0, 1.0]])
def test_the_evidence_of_these_columns_is_the_formula(theta):
    columns = Columns([1.0, 4.0], [3.0, 1.0])
    nothing = norm.logpdf(columns.rows.y).sum()
    found = columns.run(np.array(theta), None, brief=False)
    assert_allclose(found.log_evidence, nothing + columns.gains(np.array(theta)).sum(), rtol=1e-12)


@pytest.mark.parametrize("start", [-3.0, 0.0, 4.0])
def test_one_scale_is_found_from_either_side(start):
    columns = Columns([2.0], [5.0])
    assert_allclose(columns.maximum([start]).theta, columns.best, atol=1e-7)


def test_a_start_that_is_the_best_is_kept():
    columns = Columns([2.0], [5.0])
    assert_allclose(columns.maximum(columns.best).theta, columns.best, atol=1e-9)
    assert columns.runs == 1


def test_a_scale_that_should_be_zero_ends_at_the_bound():
    found = Columns([2.0], [1.0]).maximum([0.0])
    assert found.theta == LOWEST
    assert found.status is Status.SCALE_AT_BOUND


def test_a_scale_that_should_be_infinite_ends_at_the_other_bound():
    found = Columns([1e-8], [1e3]).maximum([0.0])
    assert found.theta == HIGHEST
    assert found.status is Status.SCALE_AT_BOUND


def test_of_two_maxima_the_higher_is_found():
    """A column that is known well and has little effect, and one that is hardly known and has much."""
    columns = Columns([1e6, 1e-3], [1.5e3, 0.6], COMMON)
    grid = np.linspace(LOWEST, HIGHEST, 20_001)
    heights = np.array([columns.gains(theta).sum() for theta in grid])
    tops = np.flatnonzero((heights[1:-1] > heights[:-2]) & (heights[1:-1] > heights[2:])) + 1
    assert len(tops) == 2
    for start in grid[tops]:
        assert_allclose(columns.maximum([start]).theta, grid[np.argmax(heights)], atol=1e-3)


A, B = [1.0, 4.0, 2.0, 9.0], [3.0, 1.0, 5.0, 0.5]


@pytest.mark.parametrize("start", [np.zeros(4), np.full(4, -4.0), [LOWEST + 1, 0, 0, 0]])
def test_columns_that_tell_something_are_found_and_the_others_switched_off(start):
    columns = Columns(A, B)
    found = columns.maximum(start)
    assert_allclose(found.theta, columns.best, atol=1e-6)
    assert found.status is Status.SCALE_AT_BOUND


@pytest.mark.parametrize("share", [4.0, 0.25])
def test_a_column_is_kept_if_it_tells_anything_to_speak_of(share):
    """The evidence gained is a quarter of the square of the excess of b² over a."""
    excess = np.sqrt(4 * share * SWITCHED_OFF)
    columns = Columns([1.0, 1.0], [np.sqrt(1 + excess), 3.0])
    off = columns.maximum(np.zeros(2)).theta[0] == LOWEST
    assert off == (share < 1)


# --- what is integrated out -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [([2.0], [5.0]), ([2.0], [1.0]), ([2.0, 1.0], [5.0, 3.0])])
def test_the_integrated_evidence_is_the_integral_over_log_scales(a, b):
    """Columns that know nothing of each other: a product of integrals."""
    columns = Columns(a, b)
    one = [Columns([a_], [b_]) for a_, b_ in zip(a, b, strict=True)]
    integrals = [quad(lambda t, it=it: np.exp(it.gains(t)[0]) * norm.pdf(t), -9, 9)[0] for it in one]
    nothing = norm.logpdf(columns.rows.y).sum()
    found = columns.maximum(np.zeros(len(a)))
    # Around a skewed peak nine nodes err by some 1e-3, and five in each of two dimensions by some 1e-2.
    assert_allclose(found.log_integral, nothing + np.log(integrals).sum(), atol=5e-3 if len(a) == 1 else 2e-2)


# --- a frozen likelihood ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Rows, and the family of priors over log scales."""

    data: Data
    likelihood: object
    priors: ScaledPriors

    def objective(self, theta) -> Objective:
        return Objective(self.data.rows, self.priors.design, self.likelihood, self.priors.at(theta))

    def laplace(self, theta):
        """By Newton steps over all rows alone."""
        objective = self.objective(theta)
        return laplace(objective, Start(objective.prior.mean, objective.prior.mean))

    def slope(self, theta) -> np.ndarray:
        """That of the log evidence."""
        q = self.laplace(theta).q
        return scale_slope(self.priors, theta, q, mode_slope(self.objective(theta), q))

    def frozen(self, theta) -> FrozenLikelihood:
        found = self.laplace(theta)
        return FrozenLikelihood(self.priors, theta, found, mode_slope(self.objective(theta), found.q), concave=True)


def problem(kind: str, likelihood=None, n=100_000, d=10, silent=5) -> Problem:
    """d columns, the last few without effect."""
    likelihood = BernoulliLogit() if likelihood is None else likelihood
    K = likelihood.n_classes if isinstance(likelihood, Categorical) else 1
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(n, d)), rng.normal(size=(K, d))
    W[:, d - silent :] = 0.0
    f = X @ W.T
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1) if K > 1 else (f[:, 0] + rng.logistic(size=n) > 0).astype(float)
    rows = CountedRows(X, y)
    columns = describe(rows)
    standard = Standardization.of(columns, intercept=True, sparse=False)
    design = Design(standard, ClassMap.contrasts(K) if K > 1 else ClassMap.separate(1), columns)
    priors = ScaledPriors(design, np.zeros(d, dtype=np.intp) if kind == COMMON else np.arange(d))
    PASSES.clear()
    return Problem(Data(rows, columns, tuple(f"x{j}" for j in range(d)), n), likelihood, priors)


@dataclass(frozen=True, eq=False)
class CountedRows(MemoryRows):
    """Rows that count the passes over all of them; a sample is not counted."""

    def sum(self, block, merge=None):
        PASSES["passes"] += 1
        return super().sum(block, merge)

    def sample(self, rng, size, n_classes=0):
        return MemoryRows(self.X, self.y, self.weight).sample(rng, size, n_classes)


PASSES: Counter[str] = Counter()


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), Categorical(3)], ids=repr)
def test_the_frozen_likelihood_is_exact_where_it_was_taken(likelihood):
    it, theta = problem(EACH, likelihood, n=300, d=3, silent=1), np.array([-0.5, 0.3, -1.0])
    value, slope = it.frozen(theta)(theta)
    assert_allclose(value, it.laplace(theta).log_evidence, rtol=1e-13)
    assert_allclose(slope, it.slope(theta), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), Categorical(3)], ids=repr)
def test_the_slope_over_a_frozen_likelihood_is_that_of_its_evidence(likelihood):
    frozen = problem(EACH, likelihood, n=300, d=3, silent=1).frozen(np.zeros(3))
    theta, h = np.array([-0.5, 0.3, -1.0]), 1e-5
    differences = [(frozen(theta + h * e)[0] - frozen(theta - h * e)[0]) / (2 * h) for e in np.eye(3)]
    assert_allclose(frozen(theta)[1], differences, rtol=1e-6, atol=1e-7)  # h² and rounding over h


def test_the_error_of_the_frozen_likelihood_falls_with_the_square_of_the_distance():
    """Value and slope are those of the evidence, so what differs nearby is of second order."""
    it, theta = problem(COMMON, n=300, d=3, silent=0), np.zeros(1)
    frozen = it.frozen(theta)
    errors = [frozen(theta - h)[0] - it.laplace(theta - h).log_evidence for h in (0.1, 0.05, 0.025)]
    assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.15)  # the next order is h times as large


# --- many rows ------------------------------------------------------------------------------------------------------


def learnt(it: Problem, kind: str, **choices) -> LinearFit:
    return fit_linear(it.data, LinearSpec(it.likelihood, kind, inference="laplace", **choices))


@pytest.mark.parametrize(
    ("kind", "likelihood", "most"),
    [
        (COMMON, BernoulliLogit(), 12),  # 32 by a search over the evidence itself
        (EACH, BernoulliLogit(), 17),  # 167
        (COMMON, BernoulliProbit(), 12),
        (COMMON, Categorical(3), 12),
        (EACH, Categorical(3), 17),
    ],
    ids=repr,
)
def test_many_rows_are_passed_few_times_and_the_slope_is_zero(kind, likelihood, most):
    it = problem(kind, likelihood, d=6 if isinstance(likelihood, Categorical) else 10)
    fit = learnt(it, kind)
    assert PASSES["passes"] <= most
    assert fit.status in (Status.CONVERGED, Status.SCALE_AT_BOUND)
    theta = np.log(fit.scales)
    slope = scale_slope(it.priors, theta, fit.posterior.free, mode_slope(it.objective(theta), fit.posterior.free))
    free = theta > LOWEST + 1e-9
    assert free.any()
    # nats in a unit of θ: the Hessian of many rows is that of a point a last step away, and slopes are no better
    assert np.abs(slope[free]).max() < 5e-6


@pytest.mark.parametrize("kind", [COMMON, EACH])
def test_the_scales_are_those_at_which_the_slope_of_the_evidence_is_zero(kind):
    it = problem(kind, n=50_000, d=5, silent=0)
    fit = learnt(it, kind)
    exact = root(it.slope, np.log(fit.scales) + 0.1, tol=1e-12).x
    assert_allclose(np.log(fit.scales), exact, rtol=0, atol=1e-6)  # see above; here by Newton steps over all rows alone
    assert_allclose(fit.log_evidence, it.laplace(exact).log_evidence, rtol=1e-10)


def test_columns_without_any_effect_are_switched_off():
    fit = learnt(problem(COMMON, silent=10), COMMON)
    assert fit.status is Status.SCALE_AT_BOUND
    assert_allclose(np.log(fit.scales), LOWEST)
    assert PASSES["passes"] <= 12


def test_one_scale_of_few_rows_takes_few_fits():
    """Two or three over frozen likelihoods, then secants of the slope."""
    fits: list[np.ndarray] = []
    it = problem(COMMON, n=60, d=3, silent=1)

    def run(theta, near, *, brief):
        fits.append(theta)
        return it.laplace(theta)

    best = maximise(run, Choices(lambda _: it.likelihood, it.priors), it.objective, moves=True)
    assert len(fits) <= 6
    assert abs(it.slope(best.theta)[0]) < 1e-9


# --- other ways of inference ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [("ep", BernoulliLogit()), ("variational", BernoulliLogit()), ("variational", Categorical(3))],
    ids=str,
)
def test_the_learnt_scale_is_that_of_highest_evidence_by_the_same_inference(inference, likelihood):
    it = problem(COMMON, likelihood, n=200, d=3, silent=1)
    best = fit_linear(it.data, LinearSpec(likelihood, COMMON, inference=inference))

    def log_evidence(log_factor: float) -> float:
        prior = Normal(scale=float(best.scales[0]) * np.exp(log_factor), standardized=True)
        return fit_linear(it.data, LinearSpec(likelihood, prior, inference=inference)).log_evidence

    here, near = log_evidence(0.0), [log_evidence(step) for step in (-0.2, 0.2)]
    assert_allclose(best.log_evidence, here, rtol=1e-6)
    assert here > max(near)
    slope, curvature = (near[1] - near[0]) / 0.4, (near[0] + near[1] - 2 * here) / 0.04
    assert abs(slope / curvature) < 0.02  # of a log scale: nats that nobody sees
