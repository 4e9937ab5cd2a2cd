"""Priors of the free weights: what is given or learnt in data units, as a density in the coordinates of a fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, t

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.errors import SingularPriorError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.posterior import WeightPosterior
from credibly.inference.linear.priors import (
    FreePrior,
    IndependentStudent,
    ScaledPriors,
    given_prior,
    treats_classes_alike,
)
from credibly.model.priors import Normal, StudentT, WeightShape

SHAPES = {K: WeightShape(2, K, True) for K in (1, 3)}


def design_of(K: int, *, alike: bool = True, intercept: bool = True, sparse: bool = False) -> Design:
    """Two columns, one far from zero and of a large unit."""
    X = np.random.default_rng(0).normal([3.0, -500.0], [1.0, 100.0], size=(50, 2))
    columns = describe(MemoryRows(X, np.zeros(50)))
    standard = Standardization.of(columns, intercept=intercept, sparse=sparse)
    return Design(standard, ClassMap.contrasts(K) if K > 1 and alike else ClassMap.separate(K), columns)


def in_data_units(prior: FreePrior, design: Design) -> WeightPosterior:
    return WeightPosterior(prior.free, prior.shared, design)


# --- normal priors ----------------------------------------------------------------------------------------------

NORMALS = [
    Normal(scale=2.5),
    Normal(scale=[0.5, 2.0], intercept_scale=3.0),
    Normal(mean=[1.0, -2.0, 0.5], cov=np.diag([1.0, 4.0, 9.0]) + 0.5),
    Normal(mean=[1.0, -2.0], cov=np.array([[1.0, 0.6], [0.6, 2.0]])),
]


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("prior", NORMALS, ids=repr)
def test_a_normal_prior_has_its_moments_and_density_in_data_units(prior, sparse, K):
    """Of several classes by contrasts and their mean, which are independent."""
    design, shape = design_of(K, sparse=sparse), SHAPES[K]
    assert treats_classes_alike(prior, shape)
    moments = prior.moments(shape)
    found = in_data_units(given_prior(prior, design, shape), design)
    assert_allclose(found.mean, moments.mean, rtol=1e-10, atol=1e-11)
    assert_allclose(found.cov, moments.cov, rtol=1e-9, atol=1e-10)
    w = moments.mean + np.random.default_rng(1).normal(size=(4, moments.mean.size))
    assert_allclose(found.logpdf(w), multivariate_normal(moments.mean, moments.cov).logpdf(w), rtol=1e-9)


def test_a_prior_that_tells_classes_apart_keeps_them_apart():
    K, root = 3, np.tril(np.random.default_rng(2).normal(size=(9, 9))) + 3 * np.eye(9)
    prior = Normal(mean=np.arange(9.0), cov=root @ root.T)
    assert not treats_classes_alike(prior, SHAPES[K])
    design = design_of(K, alike=False)
    found = in_data_units(given_prior(prior, design, SHAPES[K]), design)
    assert_allclose(found.mean, np.arange(9.0), rtol=1e-9, atol=1e-9)
    assert_allclose(found.cov, root @ root.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("K", [1, 3])
def test_a_normal_prior_on_standardized_columns_does_not_depend_on_units(K):
    """Scales are those of a column's spread, and the intercept is that at the column means."""
    prior, design = Normal(scale=[0.5, 2.0], intercept_scale=3.0, standardized=True), design_of(K)
    found = in_data_units(given_prior(prior, design, SHAPES[K]), design)
    columns, V = design.columns, found.cov.reshape(K, 3, K, 3)
    for k in range(K):
        slopes, at_means = np.sqrt(np.diag(V[k, :, k])[:2]), np.append(columns.mean, 1.0)
        assert_allclose(slopes, [0.5, 2.0] / columns.scale, rtol=1e-9)
        assert_allclose(at_means @ V[k, :, k] @ at_means, 9.0, rtol=1e-7)


def test_a_prior_that_is_singular_beside_the_columns_is_refused():
    design = design_of(1)
    huge = Design(
        Standardization(np.array([0.0, 1e300]), np.array([1.0, 1e-10]), intercept=True), design.classes, design.columns
    )
    with np.errstate(all="ignore"), pytest.raises(SingularPriorError):
        given_prior(Normal(mean=np.zeros(3), cov=np.eye(3)), huge, SHAPES[1])


# --- Student-t priors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_student_prior_is_independent_in_data_units(sparse, K):
    """The density of the free weights is that of the weights times the volume of the map."""
    prior, design = StudentT(df=3, scale=[0.5, 2.0], intercept_scale=4.0), design_of(K, alike=False, sparse=sparse)
    free = given_prior(prior, design, SHAPES[K]).free
    x = np.random.default_rng(1).normal(size=(4, 3 * K))
    w = design.to_data(x).reshape(4, -1)
    volume = np.linalg.slogdet(design.to_data(np.eye(3 * K)).reshape(3 * K, -1))[1]
    exact = t(3, scale=np.tile([0.5, 2.0, 4.0], K)).logpdf(w).sum(axis=1) + volume
    assert_allclose(free.logpdf(x), exact, rtol=1e-12)


def test_a_student_prior_on_standardized_columns_is_one_in_their_units():
    prior, design = StudentT(df=3, scale=[0.5, 2.0], intercept_scale=4.0, standardized=True), design_of(1)
    free, x = given_prior(prior, design, SHAPES[1]).free, np.array([0.3, -5.0, 2.0])
    assert_allclose(free.logpdf(x), t(3, scale=[0.5, 2.0, 4.0]).logpdf(x).sum(), rtol=1e-12)
    sparse = design_of(1, sparse=True)  # whose columns are scaled, not centred: the intercept is that at zero
    w = np.array([0.3, -5.0, 2.0 - np.array([0.3, -5.0]) @ (design.columns.mean / design.columns.scale)])
    assert_allclose(given_prior(prior, sparse, SHAPES[1]).free.logpdf(w), free.logpdf(x), rtol=1e-12)


def student(df: float = 4.0) -> IndependentStudent:
    axes = np.array([[1.0, 0.0, -0.5], [0.0, 0.2, 1.0], [0.0, 0.0, 1.0]])
    return IndependentStudent(df, np.array([1.0, 0.3, 2.0]), axes, float(np.log(np.linalg.det(axes))))


@pytest.mark.parametrize("point", [[0.3, -0.5, 0.7], [4.0, -9.0, 30.0]], ids=["near", "far out"])
def test_the_derivatives_of_a_student_prior_are_differences(point):
    prior, x, h = student(), np.array(point), 1e-5
    steps = h * np.eye(3)
    rises = [(prior.logpdf(x - step) - prior.logpdf(x + step)) / (2 * h) for step in steps]
    assert_allclose(prior.gradient(x), rises, rtol=1e-7, atol=1e-9)
    bends = [(prior.gradient(x + step) - prior.gradient(x - step)) / (2 * h) for step in steps]
    assert_allclose(prior.hessian(x), bends, rtol=1e-6, atol=1e-8)
    plus, minus = prior.hessian_roots(x)
    assert_allclose(plus @ plus.T - minus @ minus.T, prior.hessian(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("point", [[0.3, -0.5, 0.7], [4.0, -9.0, 30.0]], ids=["near", "far out"])
def test_what_stands_in_for_the_hessian_is_that_of_the_gaussian_with_the_same_gradient(point):
    prior, x = student(), np.array(point)
    stand_in = prior.stand_in(x)
    assert_allclose(stand_in @ x, prior.gradient(x), rtol=1e-12)
    assert np.linalg.eigvalsh(stand_in)[0] > 0
    assert (np.linalg.eigvalsh(prior.hessian(x))[0] > 0) == (point[0] == 0.3)


@pytest.mark.parametrize("df", [1.0, 4.0])
def test_averages_of_a_student_prior_are_integrals(df):
    """Of every weight by itself: log t, its gradient and its curvature under the weight's own normal."""
    prior = student(df)
    q = Gaussian.from_covariance_root(
        np.array([0.5, -1.0, 2.0]), np.array([[0.3, 0, 0], [0.1, 2.0, 0], [0, -0.4, 1.0]])
    )
    m, sd = q.mean @ prior.axes, np.sqrt(((q.root @ prior.axes) ** 2).sum(axis=0))
    found = prior.expected(q)
    value, gradient, curvature = -prior.log_volume, np.zeros(3), np.zeros(3)
    for j, (s, mean, spread) in enumerate(zip(prior.scale, m, sd, strict=True)):

        def average(function, mean=mean, spread=spread):
            ends = mean - 12 * spread, mean + 12 * spread
            return quad(
                lambda w: function(w) * norm.pdf(w, mean, spread), *ends, points=[0.0], epsabs=1e-12, limit=200
            )[0]

        value -= average(lambda w, s=s: t.logpdf(w, df, scale=s))
        gradient[j] = average(lambda w, s=s: (df + 1) * w / (df * s**2 + w**2))
        curvature[j] = average(lambda w, s=s: (df + 1) * (df * s**2 - w**2) / (df * s**2 + w**2) ** 2)
    assert_allclose(found.value, value, rtol=1e-9)
    assert_allclose(found.gradient, prior.axes @ gradient, rtol=1e-8, atol=1e-10)
    assert_allclose(found.hessian, (prior.axes * curvature) @ prior.axes.T, rtol=1e-8, atol=1e-10)
    assert_allclose(found.roots.plus @ found.roots.plus.T - found.roots.minus @ found.roots.minus.T, found.hessian)


# --- priors whose scales are learnt -------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("kind", ["common", "each"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_learnt_prior_is_the_one_it_says_in_data_units(K, kind, sparse, intercept):
    design = design_of(K, sparse=sparse, intercept=intercept)
    priors = ScaledPriors(design, np.zeros(2, dtype=np.intp) if kind == "common" else np.arange(2), unit=1.5)
    theta = np.array([0.4, -0.7])[: priors.n_scales]
    found = WeightPosterior(priors.at(theta), priors.shared(theta), design)
    moments = priors.resolved(theta).moments(WeightShape(2, K, intercept))
    assert_allclose(found.mean, moments.mean, atol=1e-12)
    assert_allclose(found.cov, moments.cov, rtol=1e-8, atol=1e-9)
    D = 2 + intercept
    slopes = np.sqrt(np.diag(moments.cov)).reshape(K, D)[:, :2]
    assert_allclose(slopes * design.columns.scale, np.broadcast_to(1.5 * np.exp(theta), (K, 2)), rtol=1e-12)


def test_the_growth_of_coefficients_is_that_of_all_of_them():
    priors = ScaledPriors(design_of(3), np.zeros(2, dtype=np.intp))
    x, other = np.array([1.0, 2.0, 50.0, 2.0, 4.0, -9.0]), np.array([3.0, 6.0, 0.0, 6.0, 12.0, 7.0])
    assert_allclose(priors.growth(x, other), np.log(3.0), rtol=1e-14)  # intercepts do not count
