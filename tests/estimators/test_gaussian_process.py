"""What a Gaussian process classifier says: probabilities, draws, intervals, evidence, hyperparameters, label noise."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn.gaussian_process.kernels as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_expit, logit, ndtr
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier as TheirClassifier

from credibly import GaussianProcessClassifier, Status
from credibly.errors import ConvergenceWarning, DataWarning, InputError
from credibly.estimators import gaussian_process_plan
from credibly.inference import kernel_evidence
from credibly.kernels import RBF, Constant, Kernel, Linear, LogNormal, Matern, Number, Polynomial, White
from credibly.priors import Beta

ERRORS = 5  # standard errors that a correct answer may be off: one in two million


def table(n: int = 40, K: int = 2, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    angle = np.linspace(0, 2 * np.pi, K, endpoint=False)
    wave = np.column_stack([np.sin(1.5 * X[:, 0]), X[:, -1]])
    score = 3 * wave @ np.array([np.cos(angle), np.sin(angle)]) + rng.gumbel(size=(n, K))
    return X, score.argmax(axis=1)


KERNEL = 4.0 * RBF([1.0, 1.5])
NEW = np.random.default_rng(9).normal(size=(6, 2))


@cache
def fitted(K: int = 2, **options) -> GaussianProcessClassifier:
    """At fixed hyperparameters."""
    return GaussianProcessClassifier(KERNEL, optimize=False, **options).fit(*table(K=K))


@cache
def learnt(**options) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(**options).fit(*table())


def posterior_by_hand(model, X, new):
    """Mean and covariance of a logit Laplace posterior at new rows, from its mode alone."""
    f = model.posterior_.mean
    W = expit(f) * expit(-f)
    kernel = model.kernel_
    gain = np.linalg.solve(kernel(X) + np.diag(1 / W), kernel(X, new)).T
    return kernel(X, new).T @ np.linalg.solve(kernel(X), f), kernel(new) - gain @ kernel(X, new)


# --- predictions ----------------------------------------------------------------------------------------------


def test_the_mode_is_where_the_gradient_vanishes_and_predictions_follow_from_it():
    X, y = table()
    model = fitted()
    f = model.posterior_.mean
    assert_allclose(f, KERNEL(X) @ (y - expit(f)), rtol=1e-9, atol=1e-10)
    mean, cov = posterior_by_hand(model, X, NEW)
    found = model.predict_latent(NEW)
    assert_allclose(found.mean, mean, rtol=1e-7)
    assert_allclose(found.variance, np.diag(cov), rtol=1e-7)


@pytest.mark.parametrize("likelihood", ["logit", "probit", "cauchy"])
@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_probabilities_are_averages_over_the_latent(inference, likelihood):
    model = fitted(inference=inference, likelihood=likelihood)
    mean, variance = model.predict_latent(NEW)
    nodes = np.linspace(-12, 12, 20_001)  # a trapezium in units of the standard deviation: exact to rounding
    link = {"logit": expit, "probit": ndtr, "cauchy": lambda f: 0.5 + np.arctan(f) / np.pi}[likelihood]
    values = link(mean[:, None] + np.sqrt(variance)[:, None] * nodes) * norm.pdf(nodes)
    assert_allclose(model.predict_proba(NEW)[:, 1], values.sum(axis=1) * (nodes[1] - nodes[0]), rtol=1e-8)


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_interval_is_the_link_of_the_quantiles_of_the_latent(likelihood, level):
    model = fitted(likelihood=likelihood)
    mean, variance = model.predict_latent(NEW)
    half = norm.ppf(0.5 + level / 2) * np.sqrt(variance)
    link = expit if likelihood == "logit" else ndtr
    want = np.column_stack([link(mean - half), link(mean + half)])
    assert_allclose(model.predict_interval(NEW, level=level), want, rtol=1e-12)


def test_the_softmax_of_two_classes_has_the_interval_of_the_difference():
    model = fitted(likelihood="softmax")
    mean, cov = model.predict_latent(NEW)
    m, v = mean[:, 1] - mean[:, 0], cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    half = norm.ppf(0.95) * np.sqrt(v)
    assert_allclose(model.predict_interval(NEW), np.column_stack([expit(m - half), expit(m + half)]), rtol=1e-10)


def test_two_classes_by_the_softmax_are_the_logit_with_twice_the_variance():
    X, y = table()
    two = GaussianProcessClassifier(KERNEL, likelihood="softmax", optimize=False).fit(X, y)
    one = GaussianProcessClassifier(2.0 * KERNEL, optimize=False).fit(X, y)
    assert_allclose(two.log_evidence_, one.log_evidence_, rtol=1e-10)
    # Averages over joint scores are good to 1e-4 (predict_log_proba says so).
    assert_allclose(two.predict_proba(NEW), one.predict_proba(NEW), rtol=0, atol=1e-4)


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
@pytest.mark.parametrize("inference", ["ep", "adf"])
def test_one_against_the_rest_normalises_averaged_probabilities(inference, likelihood):
    X, y = table(K=3)
    model = fitted(K=3, inference=inference, likelihood=likelihood)
    mean, cov = model.predict_latent(NEW)
    assert_array_equal(cov, cov * np.eye(3))
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    link = expit if likelihood == "logit" else ndtr
    f = mean[..., None] + np.sqrt(np.einsum("ncc->nc", cov))[..., None] * nodes
    own = link(f) @ weights / weights.sum()
    # 150 nodes leave 1e-9 of an average over a logistic function some five of its widths across.
    assert_allclose(model.predict_proba(NEW), own / own.sum(axis=1, keepdims=True), rtol=1e-6)
    for c in range(3):
        part = GaussianProcessClassifier(KERNEL, optimize=False, inference=inference, likelihood=likelihood)
        part.fit(X, y == c)
        assert_allclose(model.predict_latent(NEW).mean[:, c], part.predict_latent(NEW).mean, rtol=1e-7, atol=1e-9)
        assert_allclose(model.one_vs_rest_log_evidence_[c], part.log_evidence_, rtol=1e-9)


def test_the_logit_with_three_classes_is_the_joint_softmax():
    logit_, softmax = fitted(K=3), fitted(K=3, likelihood="softmax")
    assert logit_.log_evidence_ == softmax.log_evidence_
    assert_array_equal(logit_.predict_log_proba(NEW), softmax.predict_log_proba(NEW))
    X, y = table(K=3)
    f = logit_.posterior_.mean
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    assert_allclose(f, KERNEL(X) @ (np.eye(3)[y] - p), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["probit", "cauchy", "gumbel"])
def test_other_thresholds_refuse_three_classes_and_point_on(likelihood):
    model = GaussianProcessClassifier(likelihood=likelihood)
    with pytest.raises(InputError, match=rf"'{likelihood}' is for two classes; 3 .*'logit' .*softmax.*inference='ep'"):
        model.fit(*table(K=3))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_far_from_the_data_the_prior_comes_back(inference, K):
    model = fitted(K=K, inference=inference)
    mean, cov = model.predict_latent([[1e4, -1e4]])
    assert_allclose(mean, 0, atol=1e-12)
    assert_allclose(cov, 4.0 if K == 2 else 4.0 * np.eye(3)[None], atol=1e-12)
    assert_allclose(model.predict_proba([[1e4, -1e4]]), 1 / K, atol=1e-3 if K == 3 else 1e-12)  # as documented for K


# --- draws ----------------------------------------------------------------------------------------------------

SIZE = 20_000


@pytest.mark.parametrize(("inference", "K"), [("laplace", 2), ("ep", 2), ("adf", 2), ("laplace", 3)])
def test_draws_average_to_the_probability(inference, K):
    model = fitted(K=K, inference=inference)
    draws = model.sample_proba(NEW, size=SIZE, random_state=0)
    error = ERRORS * draws.std(axis=0) / np.sqrt(SIZE)
    # Averages over joint scores are good to 1e-4 (predict_log_proba says so).
    assert (np.abs(draws.mean(axis=0) - model.predict_proba(NEW)) < error + (1e-4 if K == 3 else 0)).all()


def test_draws_of_one_against_the_rest_are_normalised_one_by_one():
    model = fitted(K=3, inference="ep")
    draws = model.sample_proba(NEW, size=SIZE, random_state=0)
    mean, cov = model.predict_latent(NEW)
    f = mean + np.sqrt(np.einsum("ncc->nc", cov)) * np.random.default_rng(1).standard_normal((SIZE, 6, 3))
    want = expit(f) / expit(f).sum(axis=2, keepdims=True)
    error = ERRORS * np.sqrt((draws.var(axis=0) + want.var(axis=0)) / SIZE)
    assert (np.abs(draws.mean(axis=0) - want.mean(axis=0)) < error).all()
    # predict_proba averages first and normalises then: not the same number, but near.
    assert_allclose(draws.mean(axis=0), model.predict_proba(NEW), rtol=0, atol=0.03)


def test_draws_of_two_rows_vary_together_as_the_posterior_says():
    X, _ = table()
    near = np.array([[0.2, 0.1], [0.4, 0.3], [-1.5, 1.0]])
    mean, cov = posterior_by_hand(fitted(), X, near)
    f = logit(fitted().sample_proba(near, size=SIZE, random_state=1)[:, :, 1])
    var = np.diag(cov)
    assert (np.abs(f.mean(axis=0) - mean) < ERRORS * np.sqrt(var / SIZE)).all()
    error = np.sqrt((np.outer(var, var) + cov**2) / SIZE)  # of a covariance of Gaussians
    assert (np.abs(np.cov(f.T) - cov) < ERRORS * error).all()
    assert cov[0, 1] > 10 * error[0, 1]  # it would be seen


def test_draws_of_classes_vary_together_as_the_posterior_says():
    model = fitted(K=3)
    _, cov = model.predict_latent(NEW[:1])
    log_p = np.log(model.sample_proba(NEW[:1], size=SIZE, random_state=1)[:, 0])
    contrast = np.array([[1, -1, 0], [0, 1, -1]])  # the softmax does not tell the level
    want = contrast @ cov[0] @ contrast.T
    error = np.sqrt((np.outer(np.diag(want), np.diag(want)) + want**2) / SIZE)
    assert (np.abs(np.cov(contrast @ log_p.T) - want) < ERRORS * error).all()


def test_rows_far_apart_are_drawn_independently_and_equal_rows_alike():
    rows = np.array([[0.0, 0.0], [50.0, 50.0], [50.0, 50.0]])
    f = logit(fitted().sample_proba(rows, size=SIZE, random_state=2)[:, :, 1])
    correlation = np.corrcoef(f.T)
    assert abs(correlation[0, 1]) < ERRORS / np.sqrt(SIZE)
    assert_allclose(f[:, 1], f[:, 2], rtol=0, atol=1e-5)  # the root of a singular covariance loses half the digits


def test_the_same_seed_gives_the_same_draws():
    model = fitted(random_state=3)
    want = model.sample_proba(NEW, size=3, random_state=7)
    assert_array_equal(model.sample_proba(NEW, size=3, random_state=7), want)
    assert_array_equal(model.sample_proba(NEW, size=3), model.sample_proba(NEW, size=3))  # that of the model
    assert (model.sample_proba(NEW, size=3, random_state=8) != want).all()
    shared = np.random.default_rng(7)
    first, second = (model.sample_proba(NEW, size=3, random_state=shared) for _ in range(2))
    assert (first != second).all()


@pytest.mark.parametrize(
    ("inference", "kernel"),
    [("laplace", 1000.0 * Linear(1.0)), ("ep", 1000.0 * Linear(1.0)), ("laplace", Polynomial(2))],
    ids=["laplace-linear", "ep-linear", "laplace-polynomial"],
)
def test_functions_of_few_dimensions_can_be_drawn(inference, kernel):
    X, y = table()
    model = GaussianProcessClassifier(kernel, optimize=False, inference=inference).fit(X + 100.0, y)
    assert np.isfinite(model.predict_log_proba(X + 100.0)).all()
    assert model.sample_proba(X + 100.0, size=2, random_state=0).shape == (2, 40, 2)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_three_classes_hold_their_share_of_the_draws(inference, level):
    model = fitted(K=3, inference=inference)
    low, high = np.moveaxis(model.predict_interval(NEW, level=level), -1, 0)
    draws = model.sample_proba(NEW, size=SIZE, random_state=3)
    tail = (1 - level) / 2
    error = ERRORS * np.sqrt(tail * (1 - tail) / SIZE) + 3e-3  # quantiles by 4096 points: ranks to some 1e-3
    assert (np.abs((draws < low).mean(axis=0) - tail) < error).all()
    assert (np.abs((draws > high).mean(axis=0) - tail) < error).all()
    assert_array_equal(model.predict_interval(NEW, level=level)[..., 0], low)  # the same at every call


# --- evidence and leave one out -------------------------------------------------------------------------------

SEVERAL = [
    KERNEL,
    3.0 * Matern(1.2),
    RBF(0.8) + White(0.3),
]
GRADIENTS = {
    "laplace": (2, {}),
    "probit": (2, {"likelihood": "probit"}),
    "cauchy": (2, {"likelihood": "cauchy"}),
    "noise": (2, {"label_noise": (0.05, 0.1)}),
    "softmax": (2, {"likelihood": "softmax"}),
    "ep": (2, {"inference": "ep"}),
    "adf": (2, {"inference": "adf"}),
    "joint": (3, {}),
    "joint-kernels": (3, {"kernel": SEVERAL}),
    "ep-kernels": (3, {"kernel": SEVERAL, "inference": "ep"}),
}


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_the_gradient_is_that_of_refits_in_the_order_of_theta(name):
    K, options = GRADIENTS[name]
    X, y = table(n=25, K=K)
    model = GaussianProcessClassifier(**{"kernel": KERNEL, "optimize": False} | options).fit(X, y)
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]

    def height(c, shift):
        moved = [kernel.with_theta(kernel.theta + shift) if i == c else kernel for i, kernel in enumerate(kernels)]
        again = GaussianProcessClassifier(**model.get_params() | {"kernel": moved if len(moved) > 1 else moved[0]})
        again.fit(X, y)
        return again.one_vs_rest_log_evidence_.sum() if K > 2 and model.inference == "ep" else again.log_evidence_

    slopes = [
        (height(c, h) - height(c, -h)) / 2e-4
        for c, kernel in enumerate(kernels)
        for h in 1e-4 * np.eye(len(kernel.theta))
    ]
    # Central differences with steps of 1e-4: 1e-8 of the third derivative, and rounding of 1e-11 / 1e-4.
    assert_allclose(model.log_evidence_gradient_, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("K", [2, 3])
def test_leave_one_out_is_near_what_refits_without_the_row_say(inference, K):
    X, y = table(K=K)
    model = fitted(K=K, inference=inference)
    refits = [
        GaussianProcessClassifier(KERNEL, optimize=False, inference=inference)
        .fit(np.delete(X, i, axis=0), np.delete(y, i))
        .predict_log_proba(X[i : i + 1])[0, y[i]]
        for i in range(0, 40, 4)
    ]
    # An approximation: other rows' factors stay as they were with row i. Rows differ by 1.6 nats, this by 0.1.
    assert_allclose(model.loo_log_proba_[::4], refits, rtol=0, atol=0.1)
    assert np.corrcoef(model.loo_log_proba_[::4], refits)[0, 1] > 0.999


def test_adf_is_a_chain_rule_in_the_order_of_the_rows():
    X, y = table(n=20)
    first = int(np.flatnonzero(y != y[0])[0]) + 1

    def until(n):
        return GaussianProcessClassifier(KERNEL, optimize=False, inference="adf").fit(X[:n], y[:n])

    for n in range(first, 20, 3):
        gain = until(n + 1).log_evidence_ - until(n).log_evidence_
        assert_allclose(gain, until(n).predict_log_proba(X[n : n + 1])[0, y[n]], rtol=1e-7)
    back = GaussianProcessClassifier(KERNEL, optimize=False, inference="adf").fit(X[::-1], y[::-1])
    assert back.log_evidence_ != until(20).log_evidence_  # the order matters, and is documented to


@pytest.mark.parametrize(("inference", "K"), [("laplace", 2), ("laplace", 3), ("ep", 2), ("ep", 3)])
def test_the_order_of_rows_does_not_matter(inference, K):
    X, y = table(K=K)
    order = np.random.default_rng(0).permutation(len(y))
    here = fitted(K=K, inference=inference)
    there = GaussianProcessClassifier(KERNEL, optimize=False, inference=inference).fit(X[order], y[order])
    assert_allclose(there.predict_log_proba(NEW), here.predict_log_proba(NEW), rtol=1e-7)
    assert_allclose(there.loo_log_proba_, here.loo_log_proba_[order], rtol=1e-7, atol=1e-9)
    assert_allclose(there.log_evidence_gradient_, here.log_evidence_gradient_, rtol=1e-7, atol=1e-7)


THEIRS = {
    "rbf": theirs.RBF(1.5),
    "ard": 2.0 * theirs.RBF([1.0, 2.0]),
    "matern-white": theirs.Matern(1.2, nu=2.5) + theirs.WhiteKernel(0.3),
    "linear": theirs.DotProduct(0.7),
    "quadratic": 0.5 * theirs.RationalQuadratic(1.2, 0.8),
    "sum": 1.5 * theirs.ConstantKernel(0.5) * theirs.RBF() + theirs.DotProduct(1.0) ** 2,
}


@pytest.mark.parametrize("name", list(THEIRS))
def test_kernels_of_scikit_learn_give_scikit_learns_evidence_and_gradient(name):
    X, y = table()
    kernel = THEIRS[name]
    value, slope = (
        TheirClassifier(kernel, optimizer=None).fit(X, y).log_marginal_likelihood(kernel.theta, eval_gradient=True)
    )
    model = GaussianProcessClassifier(kernel, optimize=False).fit(X, y)
    assert_allclose(model.kernel_.theta, kernel.theta, rtol=1e-14, atol=1e-15)
    assert_allclose(model.kernel_.bounds, kernel.bounds, rtol=1e-14)
    assert_allclose(model.log_evidence_, value, rtol=1e-8)
    assert_allclose(model.log_evidence_gradient_, slope, rtol=1e-6, atol=1e-8)


# --- hyperparameters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"likelihood": "probit"}, {"inference": "ep"}], ids=["logit", "probit", "ep"])
def test_the_search_climbs_to_where_the_evidence_is_flat(options):
    X, y = table()
    kernel = 1.0 * RBF([1.0, 1.0])
    model = GaussianProcessClassifier(kernel, **options).fit(X, y)
    start = GaussianProcessClassifier(kernel, optimize=False, **options).fit(X, y)
    assert model.log_evidence_ > start.log_evidence_ + 0.1
    low, high = model.kernel_.bounds.T
    inside = (model.kernel_.theta > low + 1e-6) & (model.kernel_.theta < high - 1e-6)
    assert inside.any()
    # L-BFGS ends where the evidence changes by 1e-9: with curvatures of order one, slopes of order 1e-4.
    assert np.abs(model.log_evidence_gradient_[inside]).max() < 1e-3
    again = GaussianProcessClassifier(model.kernel_, optimize=False, **options).fit(X, y)
    assert_allclose(again.log_evidence_, model.log_evidence_, rtol=1e-8)
    assert_allclose(again.predict_log_proba(NEW), model.predict_log_proba(NEW), rtol=1e-6)


def test_several_classes_are_optimised_too():
    X, y = table(K=3)
    kernels = [1.0 * RBF(), 1.0 * RBF(), 1.0 * Matern(1.0)]
    model = GaussianProcessClassifier(kernels).fit(X, y)
    start = GaussianProcessClassifier(kernels, optimize=False).fit(X, y)
    assert model.log_evidence_ > start.log_evidence_
    assert len(model.kernel_) == 3
    assert len({kernel.left.variance for kernel in model.kernel_}) == 3
    theta = np.concatenate([kernel.theta for kernel in model.kernel_])
    bounds = np.concatenate([kernel.bounds for kernel in model.kernel_])
    inside = (theta > bounds[:, 0] + 1e-6) & (theta < bounds[:, 1] - 1e-6)
    assert np.abs(model.log_evidence_gradient_[inside]).max() < 1e-2  # flat to FLAT, as its status says


@dataclass(frozen=True, repr=False)
class Watched(RBF):
    """Remembers which length scales were tried."""

    tried: ClassVar[list[float]] = []

    def __call__(self, X, Z=None):
        self.tried.append(self.length_scale)
        return super().__call__(X, Z)


def test_restarts_begin_inside_the_bounds_and_never_lower_the_evidence():
    X, y = table(n=30, seed=3)
    for seed in range(4):
        kernel = Watched(0.02, length_scale_bounds=(0.01, 50.0))
        alone = GaussianProcessClassifier(kernel).fit(X, y)
        Watched.tried.clear()
        more = GaussianProcessClassifier(kernel, n_restarts=3, random_state=seed).fit(X, y)
        assert more.log_evidence_ >= alone.log_evidence_ - 1e-9
        tried = np.array(Watched.tried)
        assert ((tried >= 0.01 * (1 - 1e-12)) & (tried <= 50.0 * (1 + 1e-12))).all()
        assert len(set(tried)) > 3
        again = GaussianProcessClassifier(kernel, n_restarts=3, random_state=seed).fit(X, y)
        assert again.log_evidence_ == more.log_evidence_


def test_restarts_are_spread_evenly_over_the_logarithms(monkeypatch):
    starts = []
    climb = kernel_evidence._climb

    def spy(evidence, bounds, start, *more):
        starts.append(start)
        return climb(evidence, bounds, start, *more)

    monkeypatch.setattr(kernel_evidence, "_climb", spy)
    bounds = (1e-2, 1e2)
    kernel = RBF(1.0, length_scale_bounds=bounds)
    GaussianProcessClassifier(kernel, n_restarts=60, random_state=0).fit(*table(n=6))
    drawn = np.array(starts)
    assert_allclose(drawn[0], 0.0, atol=1e-15)
    u = (drawn[1:, 0] - np.log(bounds[0])) / np.log(bounds[1] / bounds[0])
    assert ((u > 0) & (u < 1)).all()
    assert abs(u.mean() - 0.5) < ERRORS * np.sqrt(1 / 12 / 60)
    assert u.min() < 0.2 and u.max() > 0.8


def test_without_optimisation_hyperparameters_are_those_given_to_the_last_digit():
    X, y = table()
    kernel = Constant(0.3) * RBF([0.7, 0.1]) + White(1e-3)
    for inference in ("laplace", "ep", "adf"):
        model = GaussianProcessClassifier(kernel, optimize=False, inference=inference).fit(X, y)
        assert model.kernel_ == kernel


@pytest.mark.parametrize("options", [{"likelihood": "cauchy"}, {"label_noise": 0.1}], ids=["cauchy", "noise"])
def test_without_a_search_no_other_inference_runs(options, monkeypatch):
    def unwanted(*_):
        raise AssertionError("EP was run for inference='laplace'")

    monkeypatch.setattr(gaussian_process_plan, "expectation_propagation", unwanted)
    GaussianProcessClassifier(KERNEL, optimize=False, **options).fit(*table())


def test_fixed_hyperparameters_stay_and_others_move():
    X, y = table()
    kernel = Constant(1.0) * RBF([0.7, 3.0], length_scale_bounds="fixed")
    model = GaussianProcessClassifier(kernel).fit(X, y)
    assert model.kernel_.right.length_scale == (0.7, 3.0)
    assert model.kernel_.left.variance != 1.0
    assert model.log_evidence_gradient_.shape == (1,)
    pinned = GaussianProcessClassifier(RBF(0.7, length_scale_bounds=(0.7, 0.7))).fit(X, y)
    assert_allclose(pinned.kernel_.length_scale, 0.7, rtol=1e-14)


def test_bounds_hold_and_the_status_says_so():
    X, y = table()
    model = GaussianProcessClassifier(2.0 * RBF(0.1, length_scale_bounds=(0.05, 0.2))).fit(X, y)
    assert_allclose(model.kernel_.right.length_scale, 0.2, rtol=1e-12)
    assert model.status_ is Status.HYPERPARAMETER_AT_BOUND
    assert model.log_evidence_gradient_[1] > 0  # the evidence rises beyond
    summary = model.summary()
    assert np.isnan(summary.to_frame().loc["length_scale", "sd_log"])
    assert "'length_scale': at the upper bound, which switches the column off" in str(summary)


def test_a_prior_pulls_and_is_no_part_of_the_evidence():
    X, y = table()
    free = GaussianProcessClassifier(4.0 * RBF(1.0)).fit(X, y)
    far = 10 * free.kernel_.right.length_scale
    values = [free.kernel_.right.length_scale]
    for sigma in (10.0, 1.0, 0.3):
        kernel = 4.0 * RBF(1.0, length_scale_prior=LogNormal(far, sigma))
        model = GaussianProcessClassifier(kernel).fit(X, y)
        values.append(model.kernel_.right.length_scale)
        again = GaussianProcessClassifier(
            Constant(model.kernel_.left.variance) * RBF(model.kernel_.right.length_scale), optimize=False
        ).fit(X, y)
        assert_allclose(model.log_evidence_, again.log_evidence_, rtol=1e-9)
    assert values == sorted(values) and values[-1] < far


def test_a_tight_prior_decides_and_the_rest_is_still_learnt():
    kernel = 4.0 * RBF(1.0, length_scale_prior=LogNormal(10.0, 0.003))
    model = GaussianProcessClassifier(kernel).fit(*table())
    assert_allclose(model.kernel_.right.length_scale, 10.0, rtol=0.003)  # a standard deviation of the prior
    assert abs(model.log_evidence_gradient_[0]) < 1e-2


def test_uncertainty_of_hyperparameters_is_that_of_the_evidence():
    X, y = table()
    model = GaussianProcessClassifier(RBF(1.0)).fit(X, y)
    theta, h = model.kernel_.theta[0], 1e-2

    def height(t):
        return GaussianProcessClassifier(RBF(np.exp(t)), optimize=False).fit(X, y).log_evidence_

    curvature = (2 * height(theta) - height(theta + h) - height(theta - h)) / h**2
    row = model.summary(level=0.9).to_frame().loc["length_scale"]
    assert_allclose(row["sd_log"], curvature**-0.5, rtol=1e-3)  # differences with a step of 1e-2
    z = norm.ppf(0.95) * row["sd_log"]
    assert_allclose([row["lower"], row["upper"]], row["value"] * np.exp([-z, z]), rtol=1e-10)


@dataclass(frozen=True, repr=False)
class Laplacian(Kernel):
    """exp(-|x - z|₁ / scale), written by a user who knows the three methods and nothing else."""

    scale: float = 1.0

    numbers: ClassVar = (Number("scale"),)

    def _distance(self, X, Z=None):
        return np.abs(X[:, None] - (X if Z is None else Z)[None]).sum(axis=2)

    def __call__(self, X, Z=None):
        return np.exp(-self._distance(X, Z) / self.scale)

    def diag(self, X):
        return np.ones(len(X))

    def gradient_sums(self, X, M, K=None):
        return np.array([(M * self(X) * self._distance(X)).sum() / self.scale])


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_kernel_written_by_a_user_works_like_ours(inference):
    X, y = table(d=1)
    model = GaussianProcessClassifier(2.0 * Laplacian(0.5), inference=inference).fit(X, y)
    ours = GaussianProcessClassifier(2.0 * Matern(0.5, nu=0.5), inference=inference).fit(X, y)  # the same in one column
    assert_allclose(model.log_evidence_, ours.log_evidence_, rtol=1e-8)
    # Two searches that end within 1e-9 of the highest evidence: their places differ by the root of that.
    assert_allclose(model.kernel_.theta, ours.kernel_.theta, rtol=0, atol=1e-3)
    assert_allclose(model.predict_proba(NEW[:, :1]), ours.predict_proba(NEW[:, :1]), rtol=0, atol=1e-3)
    assert list(model.summary().to_frame().index) == ["variance", "scale"]


# --- the default kernel ---------------------------------------------------------------------------------------


def test_units_of_columns_do_not_matter():
    X, y = table(d=3)
    plain = GaussianProcessClassifier().fit(X, y)
    scale, shift = np.array([1e6, 1e-6, 1.0]), np.array([3e6, -1e-6, 100.0])
    moved = GaussianProcessClassifier().fit(X * scale + shift, y)
    new = np.random.default_rng(1).normal(size=(20, 3))
    assert_allclose(moved.log_evidence_, plain.log_evidence_, rtol=1e-8)
    assert_allclose(moved.predict_proba(new * scale + shift), plain.predict_proba(new), rtol=0, atol=1e-6)
    assert_allclose(np.array(moved.kernel_.right.length_scale) / scale, plain.kernel_.right.length_scale, rtol=1e-4)


def test_a_constant_column_does_not_matter_where_it_keeps_its_value():
    X, y = table()
    without = GaussianProcessClassifier().fit(X, y)
    beside = GaussianProcessClassifier().fit(np.column_stack([X, np.full(40, 7.0)]), y)
    # Another start of the search; where the evidence is nearly flat both end within 1e-4 nats of its top.
    assert_allclose(beside.log_evidence_, without.log_evidence_, rtol=0, atol=1e-4)
    here = beside.predict_proba(np.column_stack([NEW, np.full(6, 7.0)]))
    assert_allclose(here, without.predict_proba(NEW), rtol=0, atol=1e-3)


def test_a_constant_column_is_ignored_at_prediction_too():
    X, y = table()
    model = GaussianProcessClassifier().fit(np.column_stack([X, np.full(40, 7.0)]), y)
    here, there = (model.predict_proba(np.column_stack([NEW, np.full(6, value)])) for value in (7.0, 12.0))
    assert_allclose(there, here, rtol=0, atol=1e-6)


def test_a_constant_column_does_not_spoil_the_summary():
    X, y = table()
    without = GaussianProcessClassifier().fit(X, y).summary().to_frame()
    frame = GaussianProcessClassifier().fit(np.column_stack([X, np.full(40, 7.0)]), y).summary().to_frame()
    assert_allclose(frame["sd_log"][: len(without)], without["sd_log"], rtol=1e-2)


def test_a_nearly_flat_hyperparameter_has_a_summary_without_warnings():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 12))  # columns that say nothing: their length scales wander off
    GaussianProcessClassifier().fit(X, [0, 1, 0, 1, 1, 0]).summary()


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_duplicated_rows_are_counted_twice(inference):
    X, y = table(n=20)
    model = GaussianProcessClassifier(KERNEL, optimize=False, inference=inference)
    model.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert model.status_ is Status.CONVERGED
    # Three observations of one latent instead of one: the same as a likelihood to the third power.
    f = model.posterior_.mean
    assert_allclose(f[::3], f[1::3], rtol=1e-6, atol=1e-7)
    if inference == "laplace":
        assert_allclose(f[::3], KERNEL(X) @ (3 * (y - expit(f[::3]))), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_the_same_row_with_both_labels_is_a_coin(inference):
    model = GaussianProcessClassifier(inference=inference).fit([[1.0], [1.0], [1.0], [1.0]], [0, 1, 1, 0])
    assert_allclose(model.predict_proba([[1.0]]), 0.5, atol=1e-6 if inference != "adf" else 0.05)  # ADF: the order
    assert np.isfinite(model.log_evidence_)


# --- odd sizes ------------------------------------------------------------------------------------------------

ODD = {
    "two rows": ([[0.0], [1.0]], [0, 1]),
    "two equal rows": ([[1.0, 2.0], [1.0, 2.0]], ["a", "b"]),
    "three rows, three classes": ([[0.0], [1.0], [2.0]], [0, 1, 2]),
    "one row of a class": (table(n=15)[0], np.arange(15) == 3),
    "one row of a third class": (table(n=15)[0], np.where(np.arange(15) == 3, 2, table(n=15)[1])),
    "separated": (np.linspace(-3, 3, 20)[:, None], np.linspace(-3, 3, 20) > 0),
    "more columns than rows": (np.random.default_rng(0).normal(size=(6, 12)), [0, 1, 0, 1, 1, 0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
@pytest.mark.parametrize("name", list(ODD))
def test_small_and_lopsided_tables_give_sensible_numbers(name, inference):
    X, y = ODD[name]
    model = GaussianProcessClassifier(inference=inference).fit(X, y)
    proba, limits = model.predict_proba(X), model.predict_interval(X)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    assert (limits[..., 0] <= limits[..., 1]).all()
    assert model.status_.good
    assert np.isfinite(model.loo_log_proba_).all()
    if inference != "adf":  # whose slopes are differences, one by one
        assert np.isfinite(model.log_evidence_gradient_).all()
    if name == "separated":
        assert np.mean(model.predict(X) == y) >= 0.95  # ADF takes rows in order, and the last of a class surprises it
        assert (proba.max(axis=1)[[0, -1]] > 0.6).all()  # Laplace is known to be timid here (Kuss & Rasmussen 2005)
        assert (proba.max(axis=1) < 1).all()  # never certain


def test_thirty_classes_of_two_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 30
    model = GaussianProcessClassifier(4.0 * RBF(0.5), optimize=False).fit(X, y)
    assert model.predict_proba(X).shape == (60, 30)
    assert model.score(X, y) > 0.2  # chance is one in thirty
    assert model.predict_interval(X[:2]).shape == (2, 30, 2)
    assert model.sample_proba(X[:2], 3, random_state=0).shape == (3, 2, 30)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_hundred_to_one(inference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(101, 2))
    X[0] = [4.0, 4.0]
    y = np.arange(101) == 0
    model = GaussianProcessClassifier(100.0 * RBF(3.0), optimize=False, inference=inference).fit(X, y)
    assert model.status_ is Status.CONVERGED
    p = model.predict_proba(X)[:, 1]
    assert p[0] > 0.5 > p[1:].max()
    assert p[1:].mean() < 0.1


# --- what is told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_verbose_shows_every_step_and_silence_nothing(inference, capsys):
    X, y = table(n=20)
    GaussianProcessClassifier(1.0 * RBF(), inference=inference, verbose=True).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    steps = [line for line in lines if line.startswith("start 1,")]
    assert len(steps) > 2 and all("log evidence" in line for line in steps)
    GaussianProcessClassifier(1.0 * RBF(), inference=inference).fit(X, y).summary()
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_verbose_shows_newton_steps_where_nothing_is_learnt(capsys):
    X, y = table(n=20)
    model = GaussianProcessClassifier(RBF(), optimize=False, verbose=True).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) >= model.n_iter_ - 1
    assert model.predict_proba(X).shape == (20, 2)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("K", [2, 3])
def test_ep_cut_short_warns_once_and_is_usable(K):
    X, y = table(K=K)
    with pytest.warns(ConvergenceWarning) as caught:
        model = GaussianProcessClassifier(KERNEL, optimize=False, inference="ep", max_iter=1).fit(X, y)
    assert model.status_ is Status.SWEEP_LIMIT
    assert [str(it.message) for it in caught] == [model.status_.value]
    assert "max_iter" in model.status_.value
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert np.isfinite(model.loo_log_proba_).all()
    assert model.predict_interval(X).shape[0] == 40
    assert model.status_.value in str(model.summary())


def test_a_warning_points_to_the_line_that_called_fit():
    model = GaussianProcessClassifier(KERNEL, optimize=False, inference="ep", max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*table())
    assert caught[0].filename == __file__


def test_newton_cut_short_warns_once_and_is_usable():
    X, y = table()
    with pytest.warns(ConvergenceWarning) as caught:
        model = GaussianProcessClassifier(KERNEL, optimize=False, max_iter=1).fit(X, y)
    assert model.status_ is Status.STEP_LIMIT
    assert [str(it.message) for it in caught] == [model.status_.value]
    # One Newton step from zero is a least-squares fit: rough, and the right way round.
    assert np.mean(model.predict(X) == y) > 0.7


def test_a_search_cut_short_warns_once_and_is_usable(monkeypatch):
    monkeypatch.setattr(kernel_evidence, "MOST_STEPS", 1)
    X, y = table()
    with pytest.warns(ConvergenceWarning) as caught:
        model = GaussianProcessClassifier().fit(X, y)
    assert model.status_ is Status.HYPERPARAMETERS_NOT_FOUND
    assert [str(it.message) for it in caught] == [model.status_.value]
    assert np.isfinite(model.predict_log_proba(X)).all()


# --- label noise ----------------------------------------------------------------------------------------------


@cache
def flipped(n=100, share=0.1, seed=0):
    """Labels that follow a sharp rule, a tenth of them flipped."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    truth = (np.sin(2 * X[:, 0]) > 0).astype(int)
    wrong = rng.random(n) < share
    return X, np.where(wrong, 1 - truth, truth), wrong


@pytest.mark.parametrize("noise", [0.1, (0.02, 0.2)], ids=["one", "pair"])
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_noisy_predictions_are_of_the_true_class(inference, noise):
    X, y = table()
    model = GaussianProcessClassifier(KERNEL, optimize=False, inference=inference, label_noise=noise).fit(X, y)
    eps01, eps10 = np.broadcast_to(noise, 2)
    mean, variance = model.predict_latent(NEW)
    nodes = np.linspace(-12, 12, 20_001)
    p = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ norm.pdf(nodes) * (nodes[1] - nodes[0])
    assert_allclose(model.predict_proba(NEW)[:, 1], p, rtol=1e-8)
    recorded = (1 - eps10) * p + eps01 * (1 - p)
    assert_allclose(model.predict_recorded_proba(NEW)[:, 1], recorded, rtol=1e-8)
    assert_allclose(model.flip_probability(NEW, np.ones(6, dtype=int)), eps01 * (1 - p) / recorded, rtol=1e-8)
    assert_allclose(model.flip_probability(NEW, np.zeros(6, dtype=int)), eps10 * p / (1 - recorded), rtol=1e-8)
    half = norm.ppf(0.95) * np.sqrt(variance)
    assert_allclose(model.predict_interval(NEW), expit(np.column_stack([mean - half, mean + half])), rtol=1e-10)
    draws = logit(model.sample_proba(NEW, size=4000, random_state=0)[:, :, 1])
    assert (np.abs(draws.mean(axis=0) - mean) < ERRORS * np.sqrt(variance / 4000)).all()
    assert_allclose(model.label_noise_, noise)
    assert_allclose(model.label_noise_std_, np.zeros(np.shape(noise)))
    # leave one out is about the label that is recorded, so that it can be scored
    assert model.loo_log_proba_.max() < np.log1p(-min(eps01, eps10))


def test_without_noise_nothing_was_flipped():
    X, y = table()
    assert_array_equal(fitted().flip_probability(X, y), np.zeros(40))
    assert_array_equal(fitted().predict_recorded_proba(X), fitted().predict_proba(X))


SHARP = 20.0 * RBF(0.8)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_tenth_of_flipped_labels_is_found(inference):
    X, y, wrong = flipped(n=80)
    kernel = 50.0 * RBF(0.8)
    model = GaussianProcessClassifier(kernel, optimize=False, inference=inference, label_noise="estimate").fit(X, y)
    assert model.kernel_ == kernel
    # The count of flips is binomial and near the boundary a flip cannot be told: three standard deviations.
    assert abs(model.label_noise_ - wrong.mean()) < 3 * np.sqrt(0.1 * 0.9 / len(y))
    suspects = np.argsort(-model.flip_probability(X, y))[: wrong.sum()]
    assert wrong[suspects].mean() >= 0.9


def test_each_kind_of_flip_has_its_own_probability():
    X, y, _ = flipped(n=60)
    model = GaussianProcessClassifier(SHARP, optimize=False, inference="ep", label_noise=(0.0, "estimate")).fit(X, y)
    assert model.label_noise_.shape == (2,)
    assert model.label_noise_[0] == 0.0
    assert 0.0 < model.label_noise_[1] < 0.4
    assert model.log_evidence_gradient_.shape == (2,)  # of the kernel alone


def test_a_belief_about_label_noise_pulls():
    X, y, _ = flipped(n=40)
    found = [
        GaussianProcessClassifier(SHARP, optimize=False, inference="ep", label_noise=belief).fit(X, y).label_noise_
        for belief in (Beta(1.0, 1000.0), Beta(1.0, 9.0), Beta(500.0, 500.0))
    ]
    assert found[0] < found[1] < found[2]
    assert found[0] < 0.01
    assert abs(found[2] - 0.25) < 0.02  # half of one half, a thousand observations strong


def test_learning_never_lowers_the_evidence_of_noisy_labels():
    X, y, _ = flipped(n=40)
    kernel = Constant(4.0, variance_bounds=(1e-4, 1e6)) * RBF(1.7)
    start = GaussianProcessClassifier(kernel, optimize=False, label_noise=0.1).fit(X, y)
    model = GaussianProcessClassifier(kernel, label_noise=0.1).fit(X, y)
    assert model.log_evidence_ > start.log_evidence_
    assert model.log_evidence_ > 40 * np.log(0.5)


def test_kernel_and_label_noise_are_learnt_together():
    X, y, _ = flipped(n=60)
    model = GaussianProcessClassifier(20.0 * RBF(0.8), label_noise="estimate").fit(X, y)
    assert model.kernel_.right.length_scale != 0.8
    assert 0 < model.label_noise_ < 0.3
    fixed = GaussianProcessClassifier(model.kernel_, optimize=False, label_noise=model.label_noise_).fit(X, y)
    assert_allclose(fixed.log_evidence_, model.log_evidence_, rtol=1e-8)
    assert_allclose(fixed.predict_log_proba(X), model.predict_log_proba(X), rtol=1e-6)


@pytest.mark.parametrize("noise", ["estimate", ("estimate", "estimate")], ids=["one", "pair"])
def test_learnt_label_noise_has_a_standard_deviation(noise):
    X, y, _ = flipped(n=60)
    model = GaussianProcessClassifier(5.0 * RBF(0.8, length_scale_bounds="fixed"), label_noise=noise).fit(X, y)
    assert model.status_.good
    sd = np.asarray(model.label_noise_std_)
    assert sd.shape == np.shape(model.label_noise_)
    assert ((sd > 0.005) & (sd < 0.2)).all()  # √(0.1 · 0.9 / 60) = 0.04 if every flip were seen
    assert "label noise: " in str(model.summary()) and "(sd " in str(model.summary())


def test_modes_of_label_noise_are_told():
    X, y, _ = flipped(n=40)
    fitted_ = GaussianProcessClassifier(5.0 * RBF(0.8), optimize=False, label_noise="estimate").fit(X, y)
    assert len(fitted_.label_noise_modes_) >= 1


@pytest.mark.parametrize("noise", ["estimate", (0.0, "estimate")], ids=["one", "pair"])
def test_label_noise_has_a_standard_deviation_where_the_kernel_is_held(noise):
    X, y, _ = flipped(n=60)
    model = GaussianProcessClassifier(50.0 * RBF(3.0), optimize=False, label_noise=noise).fit(X, y)
    assert np.isfinite(model.label_noise_std_).all()


@pytest.mark.parametrize(
    "options", [{"inference": "ep"}, {}, {"likelihood": "softmax"}], ids=["ep", "joint", "softmax"]
)
@pytest.mark.parametrize("noise", [0.1, "estimate"])
def test_label_noise_of_several_classes_is_refused_with_the_way_on(noise, options):
    model = GaussianProcessClassifier(label_noise=noise, **options)
    with pytest.raises(InputError, match=r"two classes.*BayesianLogisticRegression\(label_noise"):
        model.fit(*table(K=2 if "likelihood" in options else 3))


# --- interruption ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Interrupted(RBF):
    """A user loses patience at the given call."""

    calls: ClassVar[list[int]] = [0]

    def __call__(self, X, Z=None):
        self.calls[0] -= 1
        if self.calls[0] == 0:
            raise KeyboardInterrupt
        return super().__call__(X, Z)


@pytest.mark.parametrize("call", [1, 2, 5])
@pytest.mark.parametrize("error", [KeyboardInterrupt])
def test_ctrl_c_leaves_an_earlier_fit_as_it_was(call, error):
    X, y = table()
    model = GaussianProcessClassifier(4.0 * RBF()).fit(X, y)
    want, fields = model.predict_log_proba(NEW), set(vars(model))
    status, kernel, loo = model.status_, model.kernel_, model.loo_log_proba_
    model.set_params(kernel=4.0 * Interrupted())
    Interrupted.calls[0] = call
    X3, y3 = table(K=3, d=3)
    with pytest.raises(error):
        model.fit(X3, y3)
    assert set(vars(model)) == fields
    assert_array_equal(model.predict_log_proba(NEW), want)
    assert (model.status_, model.kernel_, model.n_features_in_) == (status, kernel, 2)
    assert_array_equal(model.loo_log_proba_, loo)
    fresh = GaussianProcessClassifier(4.0 * Interrupted())
    Interrupted.calls[0] = call
    with pytest.raises(error):
        fresh.fit(X3, y3)
    assert not hasattr(fresh, "classes_") and not hasattr(fresh, "n_features_in_")


# --- any table ------------------------------------------------------------------------------------------------


@st.composite
def tables(draw):
    n, d, K = draw(st.integers(2, 12)), draw(st.integers(1, 3)), draw(st.integers(2, 3))
    K = min(K, n)
    cells = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 2))
    X = np.array(draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array([*range(K), *draw(st.lists(st.integers(0, K - 1), min_size=n - K, max_size=n - K))])
    return X, y


def check_predictions(model, X):
    proba, limits = model.predict_proba(X), model.predict_interval(X)
    assert ((proba >= 0) & (proba <= 1)).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (limits[..., 0] <= limits[..., 1]).all()
    p = proba[:, 1] if limits.ndim == 2 else proba
    middling = (p > 0.1) & (p < 0.9)
    # Averages of three joint scores are good to 1e-4, and so may lie beside an interval that is narrower.
    slack = 0 if limits.ndim == 2 else 1e-3
    assert ((limits[..., 0] - slack <= p) & (p <= limits[..., 1] + slack))[middling].all()


@settings(max_examples=15)
@given(tables())
def test_any_small_table_is_fitted(data):
    X, y = data
    model = GaussianProcessClassifier().fit(X, y)
    assert np.isfinite(model.log_evidence_) and model.log_evidence_ <= 1e-9
    check_predictions(model, X)
    check_predictions(model, X[:1] + 1.0)
    again = GaussianProcessClassifier().fit(X, y)
    assert again.log_evidence_ == model.log_evidence_
    assert_array_equal(again.predict_log_proba(X), model.predict_log_proba(X))


@settings(max_examples=25)
@given(tables(), st.sampled_from(["laplace", "ep", "adf"]), st.sampled_from(["logit", "probit"]))
def test_any_small_table_is_fitted_by_any_inference(data, inference, likelihood):
    X, y = data
    if likelihood == "probit" and inference == "laplace" and y.max() > 1:
        y = np.minimum(y, 1)
    options = {"kernel": 4.0 * RBF(1.5), "optimize": False, "inference": inference, "likelihood": likelihood}
    model = GaussianProcessClassifier(**options).fit(X, y)
    check_predictions(model, X)
    assert np.isfinite(model.loo_log_proba_).all()
    assert np.isfinite(model.log_evidence_gradient_).all()
    assert model.status_ is Status.CONVERGED
    if inference != "adf":
        there = GaussianProcessClassifier(**options).fit(X[::-1], y[::-1])
        assert_allclose(there.predict_proba(X), model.predict_proba(X), rtol=1e-7, atol=1e-9)
        assert_allclose(there.log_likelihood_, model.log_likelihood_, rtol=1e-7)


# --- kernels that know some rows for certain ------------------------------------------------------------------


def test_a_linear_kernel_knows_the_score_of_a_row_of_zeros():
    X, y = table()
    X[7] = 0.0
    model = GaussianProcessClassifier(Linear(), optimize=False).fit(X, y)
    assert_allclose(model.predict_proba([[0.0, 0.0], [1.0, 1.0]])[0], 0.5, atol=1e-12)
    # The row says nothing about the slopes, and its label has the probability one half.
    without = GaussianProcessClassifier(Linear(), optimize=False).fit(np.delete(X, 7, axis=0), np.delete(y, 7))
    assert_allclose(model.predict_log_proba(NEW), without.predict_log_proba(NEW), rtol=1e-8)
    assert_allclose(model.log_evidence_, without.log_evidence_ + log_expit(0.0), rtol=1e-9)


@pytest.mark.parametrize("inference", ["ep", "adf"])
def test_a_row_of_zeros_does_not_break_ep(inference):
    X, y = table()
    X[7] = 0.0
    model = GaussianProcessClassifier(Linear(), optimize=False, inference=inference).fit(X, y)
    without = GaussianProcessClassifier(Linear(), optimize=False, inference=inference)
    without.fit(np.delete(X, 7, axis=0), np.delete(y, 7))
    assert_allclose(model.predict_log_proba(NEW), without.predict_log_proba(NEW), rtol=1e-6)
    assert_allclose(model.log_evidence_, without.log_evidence_ + log_expit(0.0), rtol=1e-6)


# --- what fresh eyes found --------------------------------------------------------------------------------------


def test_the_mode_is_not_given_up_while_old_factors_still_help():
    """The evidence that further Newton steps give in multi-precision; an early stop was 3e-6 off."""
    model = GaussianProcessClassifier(Constant(5948.892077934341) * RBF(0.5), likelihood="probit", optimize=False).fit(
        [[0.0], [1.0]], [0, 1]
    )
    assert_allclose(model.log_evidence_, -2.7486228757546, atol=1e-9)


def test_scores_far_wider_than_a_link_give_one_half():
    model = GaussianProcessClassifier(Polynomial(degree=10, bias=1.0), likelihood="cauchit", optimize=False)
    model.fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1])
    assert_allclose(model.predict_proba([[30.0]]), 0.5, rtol=1e-9)


@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_digits_that_are_lost_are_told_or_refused(inference):
    """Rounding of kernel values is what latents are known to: 1e-16 of k(x, x)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=30) > 0).astype(int)
    model = GaussianProcessClassifier(Linear(1.0), optimize=False, inference=inference)
    with pytest.warns(DataWarning, match=r"known to about 4e-06 only\. Centre and scale"):
        model.fit(1e5 + X, y)
    assert model.status_ is Status.CONVERGED
    with pytest.raises(InputError, match=r"known to about 4e-02 only\. Centre and scale"):
        model.fit(1e7 + X, y)


def test_names_of_columns_stay_in_the_kernel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(c=1.0)
    y = (X["a"].abs() > 0.7).astype(int)
    model = GaussianProcessClassifier(4.0 * RBF(1.0, columns=["a"])).fit(X, y)
    assert model.kernel_.right.columns == ("a",)
    assert list(model.summary().to_frame().index) == ["variance", "length_scale[a]"]
    turned = GaussianProcessClassifier(model.kernel_, optimize=False).fit(X[["c", "b", "a"]], y)
    assert_allclose(turned.log_evidence_, model.log_evidence_, rtol=1e-8)
    assert GaussianProcessClassifier().fit(X, y).kernel_.right.columns == ("a", "b")


def test_what_the_evidence_does_not_determine_spoils_nothing_else():
    """A column twice: its two length scales trade off, and the variance keeps its standard deviation."""
    X, y = table()
    X = np.column_stack([X[:, 0], X[:, 0], X[:, 1]])
    frame = GaussianProcessClassifier(4.0 * RBF([1.0, 1.0, 1.0])).fit(X, y).summary().to_frame()
    assert np.isfinite(frame.loc["variance", "sd_log"])
    assert not (frame["sd_log"] > 30).any()


def test_a_summary_without_uncertainty_takes_no_fits(monkeypatch):
    X, y = table()
    model = GaussianProcessClassifier().fit(X, y)
    monkeypatch.setattr(kernel_evidence.KernelEvidence, "hessian", None)
    assert list(model.summary(uncertainty=False).to_frame()) == ["value"]


def test_a_summary_says_when_laplace_is_far_from_the_posterior():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), np.arange(100) < 4
    X[:4] += 2.0
    model = GaussianProcessClassifier().fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() > 0.09  # their share is 0.04
    assert "Laplace is far" in str(model.summary()) and "Use inference='ep'" in str(model.summary())
    better = GaussianProcessClassifier(model.kernel_, inference="ep", optimize=False).fit(X, y)
    assert abs(better.predict_proba(X)[:, 1].mean() - 0.04) < 0.03
    assert "inference='ep'" not in str(better.summary())


def test_a_periodic_kernel_of_scikit_learn_is_for_one_column():
    X, y = table()
    with pytest.raises(InputError, match="ExpSineSquared is no covariance in several columns"):
        GaussianProcessClassifier(theirs.ExpSineSquared(1.0, 3.0)).fit(X, y)
    GaussianProcessClassifier(theirs.ExpSineSquared(1.0, 3.0)).fit(X[:, :1], y)


def test_missing_labels_among_numbers_are_told_by_row():
    X, y = table()
    with pytest.raises(InputError, match=r"missing labels \(None or NaN\) in 1 of 40 rows, the first in row 3"):
        GaussianProcessClassifier().fit(X, np.where(np.arange(40) == 3, np.nan, y))


def test_a_status_prints_as_its_sentence():
    assert str(Status.CONVERGED) == "Converged."
