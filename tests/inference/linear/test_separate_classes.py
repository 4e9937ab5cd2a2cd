"""Weights of several classes, of which rows tell nothing about a shift that all have in common, against mpmath."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap
from credibly.inference.linear.objective import separate_precision
from credibly.inference.linear.priors import IndependentStudent, PriorDensity
from credibly.model.likelihoods import Categorical
from credibly.numerics.linalg import PSD, weighted_gram
from helpers import raw_objective

K, D, N = 3, 3, 2000
EPS = np.finfo(float).eps
# Of the second column, whose coefficient has the same prior whatever its unit; and its mean, in its spreads.
UNITS_AND_MEANS = [(unit, mean) for unit in (1.0, 1e3, 1e6, 1e9) for mean in (0.0, 7.0, 1000.0) if unit * mean < 1e11]


def grams(seed: int = 0) -> list[np.ndarray]:
    """Σ p_j p_k zzᵀ of standardised rows, for the pairs of classes."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.normal(size=(N, D - 1)) @ [[1.0, 0.6], [0.0, 0.8]], np.ones(N)])
    p = rng.dirichlet(np.ones(K), size=N)
    return [weighted_gram(Z, p[:, j] * p[:, k]) for j in range(K) for k in range(j)]


def axes_of(unit: float, mean: float) -> np.ndarray:
    """The frame's unit vectors in data units, for every class."""
    one = np.diag([1.0, 1.0 / unit, 1.0])
    one[1, 2] = -mean
    return np.kron(np.eye(K), one)


def softmax_information(pairs: list[np.ndarray], K: int, D: int) -> np.ndarray:
    """The information of K weight vectors from the Gram matrix of every two classes j > k."""
    total = np.zeros((K, D, K, D))
    classes = [(j, k) for j in range(K) for k in range(j)]
    for (j, k), gram in zip(classes, pairs, strict=True):
        total[j, :, k] = total[k, :, j] = -gram
        total[j, :, j] += gram
        total[k, :, k] += gram
    return total.reshape(K * D, K * D)


def exact_covariance(pairs: list[np.ndarray], axes: np.ndarray, bend: np.ndarray) -> tuple[np.ndarray, float]:
    """(I + axes diag(bend) axesᵀ)⁻¹ and the log determinant of what is inverted, in sixty digits."""
    with mp.workdps(60):
        total = mp.zeros(K * D)
        for (j, k), gram in zip([(1, 0), (2, 0), (2, 1)], pairs, strict=True):
            for a in range(D):
                for b in range(D):
                    cell = mp.mpf(float(gram[a, b]))
                    for row, column, sign in ((j, j, 1), (k, k, 1), (j, k, -1), (k, j, -1)):
                        total[row * D + a, column * D + b] += sign * cell
        axes_, bend_ = mp.matrix(axes.tolist()), mp.diag([mp.mpf(float(it)) for it in bend])
        precision = total + axes_ * bend_ * axes_.T
        return np.array((precision**-1).tolist(), dtype=float), float(mp.log(mp.det(precision)))


def posterior_precision(information: np.ndarray, prior: PriorDensity, x: np.ndarray) -> PSD:
    return separate_precision(information, prior.hessian(x), prior.hessian_roots(x), K, "the posterior precision")


def check(precision: PSD, pairs: list[np.ndarray], axes: np.ndarray, bend: np.ndarray) -> None:
    """Variances are right but for eps √(I/P), the square root of what Cholesky of the sum loses; see the docstring."""
    want, logdet = exact_covariance(pairs, axes, bend)
    sd, root = np.sqrt(np.diag(want)), precision.inverse_root
    widest = np.linalg.norm(
        np.linalg.solve(axes * np.sqrt(np.abs(bend)), np.eye(K * D)), 2
    )  # sd that the prior has anywhere
    # What is left to Cholesky is right to 5e-11; a factor of ten for the size of the matrix.
    lost = 5e-11 + 10 * EPS * np.sqrt(N) * widest
    assert_allclose((root.T @ root - want) / np.outer(sd, sd), 0.0, atol=lost)
    assert_allclose(precision.logdet, logdet, atol=lost)


@pytest.mark.parametrize(("unit", "mean"), UNITS_AND_MEANS)
def test_a_precision_under_a_normal_prior_keeps_what_only_the_prior_knows(unit, mean):
    pairs, axes, scale = grams(), axes_of(unit, mean), np.tile([2.5, 2.5, 10.0], K)
    prior = Gaussian.from_mapped_moments(np.zeros(K * D), np.diag(scale**2), axes, "the prior")
    information = softmax_information(pairs, K, D)
    precision = posterior_precision(information, prior, prior.mean)
    check(precision, pairs, axes, 1 / scale**2)


@pytest.mark.parametrize(("unit", "mean"), UNITS_AND_MEANS)
def test_so_it_does_under_a_student_prior(unit, mean):
    pairs, axes, scale = grams(1), axes_of(unit, mean), np.tile([2.5, 2.5, 10.0], K)
    prior, w = IndependentStudent(4.0, scale, axes, 0.0), np.tile([1.0, 1e-3, -2.0], K)
    u = np.linalg.solve(axes.T, w)
    precision = posterior_precision(softmax_information(pairs, K, D), prior, u)
    z2 = (u @ axes / scale) ** 2  # with what rounding did to u
    check(precision, pairs, axes, 5.0 * (4.0 - z2) / (scale * (4.0 + z2)) ** 2)  # of (ν+1)/2 log(1 + z²/ν), ν = 4


@pytest.mark.parametrize(("unit", "mean"), UNITS_AND_MEANS)
def test_so_it_does_where_a_weight_is_far_out(unit, mean):
    """A Student-t prior bends the other way there, of one class; of the others there is enough."""
    pairs, axes, scale = grams(2), axes_of(unit, mean), np.tile([2.5, 2.5, 10.0], K)
    prior, w = IndependentStudent(4.0, scale, axes, 0.0), np.tile([1.0, 1e-3, -2.0], K)
    w[1] = 7.0  # beyond 2.5 √4
    u = np.linalg.solve(axes.T, w)
    assert prior.hessian_roots(u).minus.shape == (K * D, 1)
    precision = posterior_precision(softmax_information(pairs, K, D), prior, u)
    z2 = (u @ axes / scale) ** 2
    check(precision, pairs, axes, 5.0 * (4.0 - z2) / (scale * (4.0 + z2)) ** 2)


@pytest.mark.parametrize("share", [0.0, 1e-3, 1.0, 1e160])
def test_where_all_are_far_out_there_is_no_precision(share):
    """Whatever rows tell of contrasts: a square of 1e160 is none."""
    prior = IndependentStudent(4.0, np.ones(K * D), np.eye(K * D), 0.0)
    information = share * softmax_information(grams(), K, D)
    with pytest.raises(NotPositiveDefinite):
        posterior_precision(information, prior, np.full(K * D, 3.0))


def test_the_roots_of_a_student_prior_are_those_of_its_curvature():
    prior = IndependentStudent(4.0, np.tile([2.5, 2.5, 10.0], K), axes_of(10.0, 2.0), 0.0)
    plus, minus = prior.hessian_roots(u := 20 * np.random.default_rng(0).normal(size=K * D))
    assert plus.shape[1] and minus.shape[1]
    assert_allclose(plus @ plus.T - minus @ minus.T, prior.hessian(u), rtol=1e-12, atol=1e-14)


def test_cholesky_of_the_sum_loses_it():
    """Why there is another way."""
    pairs, axes, scale = grams(), axes_of(1e6, 0.0), np.tile([2.5, 2.5, 10.0], K)
    bend = 1 / scale**2
    plain = PSD.of(softmax_information(pairs, K, D) + (axes * bend) @ axes.T, "the sum")
    want, _ = exact_covariance(pairs, axes, bend)
    assert abs(plain.inverse_diagonal()[1] / want[1, 1] - 1) > 1e-3


def test_a_sum_that_cholesky_factorises_well_is_left_to_it():
    information, prior = softmax_information(grams(), K, D), Gaussian(np.zeros(K * D), PSD(np.eye(K * D)))
    precision = posterior_precision(information, prior, prior.mean)
    assert_array_equal(precision.factor, PSD.of(information + np.eye(K * D), "the sum").factor)


def test_information_may_be_singular():
    """A constant column tells nothing, and two that are the same tell of their sum only, for every pair of classes."""
    pairs, weak = grams(), np.full(K * D, 1e-6)
    for gram in pairs:
        gram[0], gram[:, 0] = gram[1], gram[:, 1]
        gram[0, 0] = gram[1, 1]
        gram[2], gram[:, 2] = 0.0, 0.0
    prior = Gaussian(np.zeros(K * D), PSD.diagonal(weak))
    precision = posterior_precision(softmax_information(pairs, K, D), prior, prior.mean)
    check(precision, pairs, np.eye(K * D), weak)


def test_rows_that_tell_nothing_leave_the_prior():
    """Where all probabilities are 0 or 1."""
    scale = np.geomspace(1.0, 1e12, K * D)
    prior = Gaussian(np.zeros(K * D), PSD.diagonal(scale**-2))
    precision = posterior_precision(np.zeros((K * D, K * D)), prior, prior.mean)
    assert_allclose(precision.factor, np.diag(1 / scale), rtol=1e-15)


@pytest.mark.parametrize("third", [-1e-6, -1e-2])
def test_information_may_be_negative_where_the_prior_outweighs_it(third):
    """That of flipped labels: the blocks of two classes are no Gram matrices."""
    pairs, bend = grams(), np.full(K * D, 1e-2 if third == -1e-6 else 1e5)
    pairs[1] = third * pairs[1]
    prior = Gaussian(np.zeros(K * D), PSD.diagonal(bend))
    check(posterior_precision(softmax_information(pairs, K, D), prior, prior.mean), pairs, np.eye(K * D), bend)


def test_information_that_no_prior_outweighs_is_refused():
    information = softmax_information([-gram for gram in grams()], K, D)
    weak = Gaussian(np.zeros(K * D), PSD(np.eye(K * D)))
    with pytest.raises(NotPositiveDefinite, match="the posterior precision is not positive definite"):
        posterior_precision(information, weak, weak.mean)
    with pytest.raises(NotPositiveDefinite, match="not finite"):
        posterior_precision(np.nan * information, weak, weak.mean)


def test_a_prior_that_vanishes_beside_the_rows_is_refused():
    vanishing = Gaussian(np.zeros(K * D), PSD.diagonal(np.full(K * D, 1e-26)))
    with pytest.raises(NotPositiveDefinite, match="where all classes are shifted alike"):
        posterior_precision(softmax_information(grams(), K, D), vanishing, vanishing.mean)


def test_two_classes_that_overlap_do_not_hide_what_is_known_of_a_third():
    """One class far from the others: of it rows tell some 1e-12 of what they tell of those."""
    pairs, axes, scale = grams(), np.eye(K * D), np.tile([2.5, 2.5, 10.0], K)
    pairs = [pairs[0], 1e-12 * pairs[1], 2e-12 * pairs[2]]
    prior = Gaussian.from_mapped_moments(np.zeros(K * D), np.diag(scale**2), axes, "the prior")
    precision = posterior_precision(softmax_information(pairs, K, D), prior, prior.mean)
    check(precision, pairs, axes, 1 / scale**2)


def test_gradients_of_classes_have_no_shift():
    by_weight = np.random.default_rng(0).normal(size=K * D)
    free = ClassMap.separate(K).free(by_weight)
    assert_allclose(free.reshape(K, D).sum(axis=0), 0.0, atol=10 * EPS)
    contrasts = ClassMap.contrasts(K)
    assert_allclose(contrasts.free(free), contrasts.free(by_weight), atol=10 * EPS)
    assert ClassMap.separate(K).free(np.ones((K * D, 2))).shape == (K * D, 2)


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_an_objective_of_separate_classes_joins_its_rows_and_its_prior_so(unit):
    rng = np.random.default_rng(4)
    Z = np.column_stack([rng.normal(size=(N, D - 1)), np.ones(N)])
    axes, scale = axes_of(unit, 0.5), np.tile([2.5, 2.5, 10.0], K)
    prior = Gaussian.from_mapped_moments(np.zeros(K * D), np.diag(scale**2), axes, "the prior")
    objective = raw_objective(Categorical(K), MemoryRows(Z, rng.integers(0, K, N)), prior)
    thirds = [weighted_gram(Z, np.full(N, 1 / 9)) for _ in range(3)]
    here = objective.expand(np.zeros(K * D))
    check(here.hessian, thirds, axes, 1 / scale**2)
    assert_allclose(here.grad.reshape(K, D).sum(axis=0), 0.0, atol=N * EPS)
