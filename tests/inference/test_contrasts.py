"""Weights of several classes, of which rows tell nothing about a shift that all have in common, against mpmath."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.errors import NotPositiveDefinite
from credibly.inference.contrasts import (
    CANCELLED,
    ClassWeights,
    Contrast,
    information_roots,
    precision_of_roots,
    sum_to_zero,
)
from credibly.inference.posterior import Gaussian
from credibly.inference.student import IndependentStudent
from credibly.numerics.linalg import PSD, Roots, weighted_gram

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
    precision = ClassWeights(np.eye(K)).precision(information, prior, prior.mean, CANCELLED)
    check(precision, pairs, axes, 1 / scale**2)


@pytest.mark.parametrize(("unit", "mean"), UNITS_AND_MEANS)
def test_so_it_does_under_a_student_prior(unit, mean):
    pairs, axes, scale = grams(1), axes_of(unit, mean), np.tile([2.5, 2.5, 10.0], K)
    prior, w = IndependentStudent(4.0, scale, axes, 0.0), np.tile([1.0, 1e-3, -2.0], K)
    u = np.linalg.solve(axes.T, w)
    precision = ClassWeights(np.eye(K)).precision(softmax_information(pairs, K, D), prior, u, CANCELLED)
    z2 = (u @ axes / scale) ** 2  # with what rounding did to u
    check(precision, pairs, axes, 5.0 * (4.0 - z2) / (scale * (4.0 + z2)) ** 2)  # of (ν+1)/2 log(1 + z²/ν), ν = 4


@pytest.mark.parametrize(("unit", "mean"), UNITS_AND_MEANS)
def test_so_it_does_where_a_weight_is_far_out(unit, mean):
    """A Student-t prior bends the other way there, of one class; of the others there is enough."""
    pairs, axes, scale = grams(2), axes_of(unit, mean), np.tile([2.5, 2.5, 10.0], K)
    prior, w = IndependentStudent(4.0, scale, axes, 0.0), np.tile([1.0, 1e-3, -2.0], K)
    w[1] = 7.0  # beyond 2.5 √4
    u = np.linalg.solve(axes.T, w)
    assert prior.roots(u).minus.shape == (K * D, 1)
    precision = ClassWeights(np.eye(K)).precision(softmax_information(pairs, K, D), prior, u, CANCELLED)
    z2 = (u @ axes / scale) ** 2
    check(precision, pairs, axes, 5.0 * (4.0 - z2) / (scale * (4.0 + z2)) ** 2)


def test_where_all_are_far_out_there_is_no_precision():
    prior = IndependentStudent(4.0, np.ones(K * D), np.eye(K * D), 0.0)
    with pytest.raises(NotPositiveDefinite, match="weights of every class are far out"):
        ClassWeights(np.eye(K)).precision(np.zeros((K * D, K * D)), prior, np.full(K * D, 3.0), CANCELLED)


def test_the_roots_of_a_student_prior_are_those_of_its_curvature():
    prior = IndependentStudent(4.0, np.tile([2.5, 2.5, 10.0], K), axes_of(10.0, 2.0), 0.0)
    plus, minus = prior.roots(u := 20 * np.random.default_rng(0).normal(size=K * D))
    assert plus.shape[1] and minus.shape[1]
    assert_allclose(plus @ plus.T - minus @ minus.T, prior.curvature(u), rtol=1e-12, atol=1e-14)


def test_cholesky_of_the_sum_loses_it():
    """Why there is another way."""
    pairs, axes, scale = grams(), axes_of(1e6, 0.0), np.tile([2.5, 2.5, 10.0], K)
    bend = 1 / scale**2
    plain = PSD.of(softmax_information(pairs, K, D) + (axes * bend) @ axes.T, "the sum")
    want, _ = exact_covariance(pairs, axes, bend)
    assert abs(plain.inverse_diagonal()[1] / want[1, 1] - 1) > 1e-3


def test_a_sum_that_cholesky_factorises_well_is_left_to_it():
    information, prior = softmax_information(grams(), K, D), Gaussian(np.zeros(K * D), PSD(np.eye(K * D)))
    precision = ClassWeights(np.eye(K)).precision(information, prior, prior.mean, CANCELLED)
    assert_array_equal(precision.factor, PSD.of(information + np.eye(K * D), "the sum").factor)


def test_information_that_is_singular_has_roots():
    """A constant column has none, and of two that are the same there is one, for every pair of classes."""
    pairs = grams()
    for gram in pairs:
        gram[0], gram[:, 0] = gram[1], gram[:, 1]
        gram[0, 0] = gram[1, 1]
        gram[2], gram[:, 2] = 0.0, 0.0
    information = softmax_information(pairs, K, D)
    plus, minus = information_roots(information, K)
    assert plus.shape == (K * D, 3) and minus.shape == (K * D, 0)
    assert_allclose(plus @ plus.T, information, rtol=1e-13, atol=1e-13 * np.abs(information).max())


def test_rows_that_tell_nothing_leave_the_prior():
    """Where all probabilities are 0 or 1."""
    plus, minus = information_roots(np.zeros((K * D, K * D)), K)
    assert plus.shape == minus.shape == (K * D, 0)
    prior = Gaussian(np.zeros(K * D), PSD(np.eye(K * D)))
    precision = ClassWeights(np.eye(K)).precision(np.zeros((K * D, K * D)), prior, prior.mean, least_pivot=1.0)
    assert_array_equal(precision.factor, np.eye(K * D))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_information_of_either_sign_is_taken_apart_in_contrasts(sign):
    """That of flipped labels: the blocks of two classes are no Gram matrices."""
    pairs = grams()
    pairs[1] = -0.1 * pairs[1]
    information = sign * softmax_information(pairs, K, D)
    plus, minus = information_roots(information, K)
    assert_allclose(plus @ plus.T - minus @ minus.T, information, rtol=1e-12, atol=1e-13 * np.abs(information).max())
    assert_allclose(plus.reshape(K, D, -1).sum(axis=0), 0.0, atol=1e-12)
    strong = Gaussian(np.zeros(K * D), PSD.diagonal(np.full(K * D, 1e5)))
    kept = ClassWeights(np.eye(K)).precision(information, strong, strong.mean, least_pivot=1.0)
    assert_allclose(kept.matrix, information + 1e5 * np.eye(K * D), rtol=1e-11, atol=1e-7)


def test_information_that_no_prior_outweighs_is_refused():
    information = softmax_information([-gram for gram in grams()], K, D)
    weak = Gaussian(np.zeros(K * D), PSD(np.eye(K * D)))
    with pytest.raises(NotPositiveDefinite, match="the posterior precision is not positive definite"):
        ClassWeights(np.eye(K)).precision(information, weak, weak.mean, CANCELLED)
    with pytest.raises(NotPositiveDefinite, match="not finite"):
        ClassWeights(np.eye(K)).precision(np.nan * information, weak, weak.mean, CANCELLED)


def test_a_prior_that_vanishes_beside_the_rows_is_refused():
    known = information_roots(softmax_information(grams(), K, D), K)
    with pytest.raises(NotPositiveDefinite, match="where all classes are shifted alike"):
        precision_of_roots(known, Roots.positive(1e-13 * np.eye(K * D)), "it")


@pytest.mark.parametrize("known", [1e-3, 1e-160])
def test_a_direction_that_bends_more_the_other_way_is_refused(known):
    """However much: a square of 1e160 is none."""
    information, far_out = Roots.positive(np.diag([1.0, known])), Roots(np.zeros((2, 0)), np.array([[0.0], [1.0]]))
    with pytest.raises(NotPositiveDefinite, match="it is not positive definite"):
        precision_of_roots(information, far_out, "it")


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6])
def test_two_classes_that_overlap_do_not_hide_what_is_known_of_a_third(unit):
    """One class far from the others: of it rows tell some 1e-12 of what they tell of those."""
    pairs, axes, scale = grams(), axes_of(unit, 0.0), np.tile([2.5, 2.5, 10.0], K)
    pairs = [pairs[0], 1e-12 * pairs[1], 2e-12 * pairs[2]]
    prior = Gaussian.from_mapped_moments(np.zeros(K * D), np.diag(scale**2), axes, "the prior")
    precision = ClassWeights(np.eye(K)).precision(softmax_information(pairs, K, D), prior, prior.mean, CANCELLED)
    check(precision, pairs, axes, 1 / scale**2)


def test_gradients_of_classes_have_no_shift():
    by_weight = np.random.default_rng(0).normal(size=K * D)
    free = ClassWeights(np.eye(K)).free(by_weight)
    by_class = free.reshape(K, D)
    assert_allclose(by_class.sum(axis=0), 0.0, atol=10 * EPS)
    contrasts = Contrast(sum_to_zero(K))
    assert_allclose(contrasts.free(free), contrasts.free(by_weight), atol=10 * EPS)
    assert ClassWeights(np.eye(K)).free(np.ones((K * D, 2))).shape == (K * D, 2)
