"""The posterior of the weights in data units: a dense Gaussian written down, or the draws counted out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.posterior import DrawnPosterior, WeightPosterior, refuse_covariance
from credibly.numerics.linalg import PSD
from credibly.numerics.sampling import Chains
from credibly.numerics.settings import MANY_WEIGHTS

CENTER, SCALE = np.array([5.0, -3.0]), np.array([10.0, 0.1])
CLASSES = {
    "two classes": ClassMap.separate(1),
    "two classes alike": ClassMap.contrasts(2),
    "three classes": ClassMap.separate(3),
    "three classes alike": ClassMap.contrasts(3),
}


def gaussian(rng, size):
    root = rng.normal(size=(size, size))
    return Gaussian(rng.normal(size=size), PSD.of(root @ root.T + np.eye(size), "a test"))


def design_of(classes, *, intercept=True):
    center = CENTER if intercept else np.zeros(2)
    rows = MemoryRows(np.random.default_rng(1).normal(size=(5, 2)), np.zeros(5))
    return Design(Standardization(center, SCALE, intercept), classes, describe(rows))


def posterior_of(name, *, intercept=True):
    rng, classes = np.random.default_rng(0), CLASSES[name]
    design = design_of(classes, intercept=intercept)
    shared = gaussian(rng, design.standardization.size) if name.endswith("alike") else None
    return WeightPosterior(gaussian(rng, design.size), shared, design)


def covariance(q):
    return q.root.T @ q.root


def written_down(q, *, intercept=True):
    """Mean and covariance of w = (C ⊗ T) x + (1/√K ⊗ T) s, T from standardized columns to data units."""
    T = np.diag(1 / SCALE)
    if intercept:
        T = np.block([[T, np.zeros((2, 1))], [-(CENTER / SCALE)[None], np.ones((1, 1))]])
    C, K = q.design.classes.matrix, q.design.classes.n_classes
    A = np.kron(C, T)
    mean, cov = A @ q.free.mean, A @ covariance(q.free) @ A.T
    if q.shared is not None:
        B = np.kron(np.ones((K, 1)) / np.sqrt(K), T)
        mean, cov = mean + B @ q.shared.mean, cov + B @ covariance(q.shared) @ B.T
    return mean, cov


every = pytest.mark.parametrize("name", CLASSES)


# --- a Gaussian ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@every
def test_moments_density_and_intervals_are_those_of_the_gaussian_in_data_units(name, intercept):
    q = posterior_of(name, intercept=intercept)
    mean, cov = written_down(q, intercept=intercept)
    sd = np.sqrt(np.diag(cov))
    assert_allclose(q.mean, mean, rtol=1e-12)
    assert_allclose(q.cov, cov, rtol=1e-10, atol=1e-12)
    assert_allclose(q.std, sd, rtol=1e-12)
    assert_allclose(q.positive, norm.cdf(mean / sd), rtol=1e-10)
    assert_allclose(q.interval(0.8), np.column_stack([norm.ppf(p, mean, sd) for p in (0.1, 0.9)]), rtol=1e-10)
    w = mean + sd * np.random.default_rng(2).normal(size=(4, mean.size))
    expected = multivariate_normal(mean, cov, allow_singular=False).logpdf(w)
    assert_allclose(q.logpdf(w), expected, rtol=1e-8)
    assert_allclose(q.logpdf(w[0]), expected[0], rtol=1e-8)


@every
def test_scores_of_rows_are_linear_in_the_weights(name):
    """`project` and `latent` have all K of them; `scores` what probabilities depend on, less the mean over classes."""
    q, K = posterior_of(name), CLASSES[name].n_classes
    mean, cov = written_down(q)
    X = CENTER + SCALE * np.random.default_rng(3).normal(size=(5, 2))
    Phi = np.column_stack([X, np.ones(5)])
    f = Phi @ mean.reshape(K, 3).T
    V = np.einsum("nd,kdje,ne->nkj", Phi, cov.reshape(K, 3, K, 3), Phi)
    centred = np.eye(K) - (1 / K if K > 1 else 0.0)
    expected = (f[:, 0], V[:, 0, 0]) if K == 1 else (f, V)
    for found in (q.project(Phi), q.latent(X)):
        assert_allclose(found.mean, expected[0], rtol=1e-9, atol=1e-10)
        assert_allclose(found.variance, expected[1], rtol=1e-9, atol=1e-10)
    less = expected if K == 1 else (f @ centred, centred @ V @ centred)
    for found in (q.scores(X), q.determined().latent(X)):
        assert_allclose(found.mean, less[0], rtol=1e-9, atol=1e-9)
        assert_allclose(found.variance, less[1], rtol=1e-9, atol=1e-9)


@every
def test_the_likelihood_takes_the_scores_of_all_classes_and_of_two_alike_their_difference(name):
    q = posterior_of(name)
    X = CENTER + SCALE * np.random.default_rng(3).normal(size=(5, 2))
    found = q.of_scores().latent(X)
    if name != "two classes alike":
        assert_allclose(found.mean, q.latent(X).mean)
        return
    f, V = q.latent(X)
    assert_allclose(found.mean, f[:, 1] - f[:, 0], rtol=1e-9, atol=1e-9)
    assert_allclose(found.variance, V[:, 1, 1] + V[:, 0, 0] - 2 * V[:, 0, 1], rtol=1e-9)


@every
def test_draws_have_the_moments_and_their_scores_are_theirs(name):
    q, K, size = posterior_of(name), CLASSES[name].n_classes, 40_000
    w = q.sample(np.random.default_rng(4), size)
    mean, cov = written_down(q)
    sd = np.sqrt(np.diag(cov))
    assert_allclose((w.mean(axis=0) - mean) / sd, 0, atol=5 / np.sqrt(size))
    assert_allclose((np.cov(w.T) - cov) / np.outer(sd, sd), 0, atol=5 * np.sqrt(2 / size))
    x = q.draws_of_free(np.random.default_rng(5), 6)
    weights = q.to_weights(np.random.default_rng(6), x).reshape(6, K, 3)
    X = CENTER + SCALE * np.random.default_rng(3).normal(size=(5, 2))
    f = np.einsum("nd,skd->snk", np.column_stack([X, np.ones(5)]), weights)
    assert_allclose(q.scores_of(X, x), f if K == 1 else f - f.mean(axis=2, keepdims=True), rtol=1e-9, atol=1e-9)


@every
def test_weighted_draws_of_free_weights_have_moments_in_data_units(name):
    """What all classes share has its own, exactly."""
    q, rng = posterior_of(name), np.random.default_rng(7)
    x, weights = q.free.sample(rng, 50), rng.dirichlet(np.ones(50))
    mean = weights @ x
    free = Gaussian.from_mapped_moments(
        mean, (weights[:, None] * (x - mean)).T @ (x - mean), np.eye(len(mean)), "draws"
    )
    expected, cov = written_down(replace(q, free=free))
    found, std = q.moments_of(x, weights)
    assert_allclose(found, expected, rtol=1e-10)
    assert_allclose(std, np.sqrt(np.diag(cov)), rtol=1e-8)


@pytest.mark.parametrize("name", ["two classes alike", "three classes alike"])
def test_weights_up_to_a_constant_have_no_density(name):
    with pytest.raises(InputError, match="no density"):
        replace(posterior_of(name), shared=None).logpdf(np.zeros(3 * CLASSES[name].n_classes))


def test_the_covariance_of_very_many_weights_is_refused():
    few = replace(MANY_WEIGHTS, largest_matrix=10)
    refuse_covariance(10, few)
    with pytest.raises(InputError, match="11 weights"):
        refuse_covariance(11, few)


# --- draws --------------------------------------------------------------------------------------------------


def drawn(name):
    """Three chains of forty draws each, and the Gaussian of their moments."""
    q = posterior_of(name)
    points = q.free.sample(np.random.default_rng(8), 120)
    mean, size = points.mean(axis=0), points.shape[1]
    free = Gaussian.from_mapped_moments(mean, np.cov(points.T, ddof=0).reshape(size, size), np.eye(size), "draws")
    none = np.ones(size)
    chains = Chains(points.reshape(3, 40, size), np.zeros((3, 40)), none, none, none, 0.8, 0, 0, 0.5, 5, 999, True)
    return DrawnPosterior(free, q.shared, q.design, chains), points


@every
def test_draws_in_data_units_have_the_moments_of_draws_of_the_free_weights(name):
    q, points = drawn(name)
    if q.shared is None:
        w = q.design.to_data(points).reshape(120, -1)
        assert_allclose(q.weight_draws, w, rtol=1e-12)
        assert_allclose(q.mean, w.mean(axis=0), rtol=1e-10)
        assert_allclose(q.cov, np.cov(w.T, ddof=0), rtol=1e-9, atol=1e-10)
    mean, cov = written_down(q)
    assert_allclose(q.mean, mean, rtol=1e-10)
    assert_allclose(q.std, np.sqrt(np.diag(cov)), rtol=1e-10)
    # what classes share changes no difference of two of them
    K = CLASSES[name].n_classes
    W, free = q.weight_draws.reshape(120, K, 3), q.design.to_data(points)
    assert_allclose(W - W[:, :1], free - free[:, :1], rtol=1e-9, atol=1e-9)


@every
def test_probabilities_and_intervals_are_counted(name):
    q, _ = drawn(name)
    w = q.weight_draws
    assert_allclose(q.positive, (w > 0).mean(axis=0), rtol=1e-12)
    assert_allclose(q.interval(0.5), np.quantile(w, [0.25, 0.75], axis=0).T, rtol=1e-12)
    rng = np.random.default_rng(9)
    assert set(map(tuple, q.sample(rng, 50))) <= set(map(tuple, w))
    assert set(map(tuple, q.draws_of_free(rng, 50))) <= set(map(tuple, q.draws))
    with pytest.raises(InputError, match="level"):
        q.interval(1.5)


def test_draws_in_print():
    assert repr(drawn("two classes")[0]) == "DrawnPosterior(M=3, 120 draws)"
