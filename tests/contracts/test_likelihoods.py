"""What every likelihood must satisfy; a subclass of `Likelihood` without an entry in `STATED` fails the first test."""

from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical, Likelihood

EPS = np.finfo(float).eps
STEP = EPS ** (1 / 3)  # central differences: truncation h²/6 and rounding eps/h meet at the cube root
SCORES = np.linspace(-6, 6, 25)
TAILS = np.array([-1e4, -800.0, -40.0, -5.0, 0.0, 5.0, 40.0, 800.0, 1e4])


class Stated(NamedTuple):
    """The displayed equation, typed again: log p(y | f) in multiple precision, for both labels."""

    log_zero: Callable[[mp.mpf], mp.mpf]
    log_one: Callable[[mp.mpf], mp.mpf]

    def __getitem__(self, y):
        return (self.log_zero, self.log_one)[y]


def mp_log_sigmoid(f: mp.mpf) -> mp.mpf:
    return mp.log(1 / (1 + mp.exp(-f))) if f < 0 else -mp.log1p(mp.exp(-f))


def mp_log_normal_cdf(f: mp.mpf) -> mp.mpf:
    return mp.log(mp.erfc(-f / mp.sqrt(2)) / 2) if f < 0 else mp.log1p(-mp.erfc(f / mp.sqrt(2)) / 2)


STATED = {
    BernoulliLogit: Stated(lambda f: mp_log_sigmoid(-f), mp_log_sigmoid),
    BernoulliProbit: Stated(lambda f: mp_log_normal_cdf(-f), mp_log_normal_cdf),
}


def shipped_likelihoods() -> list[type[Likelihood]]:
    """Every concrete subclass that credibly itself defines (tests may define others)."""
    found, waiting = [], [Likelihood]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("credibly."):
                found.append(kind)
    return found


EVERY = pytest.mark.parametrize("likelihood", [kind() for kind in shipped_likelihoods()], ids=repr)
BOTH_LABELS = pytest.mark.parametrize("y", [0, 1])


def derivative(log_prob: Callable[[mp.mpf], mp.mpf], order: int, f: np.ndarray) -> np.ndarray:
    with mp.workdps(120):  # log p is up to 5e7 and its third derivative down to 2e-12: 20 digits cancel per order
        return np.array([float(mp.diff(log_prob, mp.mpf(float(x)), order)) for x in f])


def test_every_likelihood_has_an_entry_here():
    assert set(shipped_likelihoods()) == set(STATED)


@EVERY
@BOTH_LABELS
def test_the_log_probability_is_that_of_the_displayed_equation(likelihood, y):
    stated = [float(mp.exp(STATED[type(likelihood)][y](mp.mpf(f)))) for f in SCORES]
    assert_allclose(np.exp(likelihood.log_prob(y, SCORES)), stated, rtol=1e-14)


@EVERY
def test_the_mean_is_the_probability_of_class_one(likelihood):
    assert_allclose(likelihood.mean(SCORES), np.exp(likelihood.log_prob(1, SCORES)), rtol=1e-13)


@EVERY
@BOTH_LABELS
def test_slopes_match_central_differences(likelihood, y):
    up, down = SCORES + STEP, SCORES - STEP
    grad, curvature = likelihood.slopes(y, SCORES)
    rise = likelihood.log_prob(y, up) - likelihood.log_prob(y, down)
    fall = likelihood.slopes(y, down).grad - likelihood.slopes(y, up).grad
    # rounding: eps |log p| / h with |log p| ≤ 21 in this range, and eps |grad| / h with |grad| ≤ 6.2
    assert_allclose(grad, rise / (2 * STEP), rtol=1e-9, atol=25 * EPS / STEP)
    assert_allclose(curvature, fall / (2 * STEP), rtol=1e-9, atol=10 * EPS / STEP)


@EVERY
@BOTH_LABELS
def test_the_third_derivative_matches_central_differences(likelihood, y):
    up, down = (likelihood.slopes(y, SCORES + h).curvature for h in (STEP, -STEP))
    assert_allclose(likelihood.third(y, SCORES), (down - up) / (2 * STEP), rtol=1e-8, atol=5 * EPS / STEP)


@EVERY
@BOTH_LABELS
def test_tails_agree_with_multiple_precision(likelihood, y):
    stated = STATED[type(likelihood)][y]
    grad, curvature = likelihood.slopes(y, TAILS)
    smallest = 1e-305  # what is smaller than any positive double is rightly zero
    assert_allclose(likelihood.log_prob(y, TAILS), derivative(stated, 0, TAILS), rtol=1e-14, atol=smallest)
    assert_allclose(grad, derivative(stated, 1, TAILS), rtol=1e-13, atol=smallest)
    assert_allclose(curvature, -derivative(stated, 2, TAILS), rtol=1e-13, atol=smallest)
    differences = 1e-120  # the third derivative is itself a difference of numbers with 120 digits
    assert_allclose(likelihood.third(y, TAILS), derivative(stated, 3, TAILS), rtol=1e-12, atol=differences)


@EVERY
@BOTH_LABELS
def test_an_expansion_is_the_log_probability_with_its_slopes(likelihood, y):
    f = np.concatenate([SCORES, TAILS])
    log_prob, grad, curvature = likelihood.expand(y, f)
    assert_allclose(log_prob, likelihood.log_prob(y, f), rtol=1e-15, atol=2 * EPS)  # a sum over rows has no more
    assert_array_equal(grad, likelihood.slopes(y, f).grad)
    assert_array_equal(curvature, likelihood.slopes(y, f).curvature)


@EVERY
def test_every_method_is_element_wise_on_any_shape(likelihood):
    f = SCORES[:24].reshape(2, 3, 4)
    y = (np.arange(24).reshape(f.shape) % 2).astype(float)
    for method in (likelihood.log_prob, likelihood.third, lambda y, f: likelihood.expand(y, f).grad):
        one_by_one = [method(label, score) for label, score in zip(y.ravel(), f.ravel(), strict=True)]
        assert_allclose(method(y, f).ravel(), one_by_one, rtol=1e-15)


@EVERY
@BOTH_LABELS
def test_the_closed_form_of_the_tilted_moments_agrees_with_quadrature(likelihood, y):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-3, 3, 7), [0.01, 0.25, 0.64, 1.0]))
    exact, quadrature = likelihood.tilted(y, m, v), Likelihood.tilted(likelihood, y, m, v)
    for got, want in zip(exact, quadrature, strict=True):  # 64 nodes are exact to rounding while v ≤ 1
        assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@EVERY
@BOTH_LABELS
def test_the_log_average_is_the_log_mass_of_the_tilted_density(likelihood, y):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-30, 30, 13), [0.0, 1e-6, 0.5, 9.0, 1e3]))
    assert_allclose(likelihood.log_average(y, m, v), likelihood.tilted(y, m, v).log_mass, rtol=1e-14)


@EVERY
def test_the_probabilities_of_both_labels_sum_to_one(likelihood):
    f = np.concatenate([SCORES, TAILS])
    assert_allclose(np.exp(likelihood.log_prob(0, f)) + np.exp(likelihood.log_prob(1, f)), 1, rtol=1e-15)


@EVERY
def test_the_averaged_probabilities_of_both_labels_sum_to_one(likelihood):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-40, 40, 17), [0.0, 1e-6, 0.5, 9.0, 1e3]))
    total = sum(np.exp(likelihood.log_average(y, m, v)) for y in (0, 1))
    assert_allclose(total, 1, rtol=1e-14)


@EVERY
@BOTH_LABELS
def test_the_curvature_slope_matches_central_differences(likelihood, y):
    v = np.linspace(0.1, 4.0, SCORES.size)
    up, down = (v * likelihood.slopes(y, SCORES + h).curvature for h in (STEP, -STEP))
    slope = likelihood.curvature_slope(y, SCORES, v)
    assert_allclose(slope, (up - down) / (2 * STEP), rtol=1e-8, atol=5 * v.max() * EPS / STEP)


@EVERY
def test_the_representation_is_the_constructor_call(likelihood):
    assert repr(likelihood) == f"{type(likelihood).__name__}()"


# --- Categorical: the one likelihood with a class axis ------------------------------------------------------

CLASSES = pytest.mark.parametrize("K", [2, 3, 6])


def class_scores(K: int, rows: int = 7) -> np.ndarray:
    """Scores between -3 and 3 in no particular order."""
    return 3 * np.sin(1.7 * np.arange(rows * K)).reshape(rows, K)


def bumps(K: int):
    return ((k, STEP * np.eye(K)[k]) for k in range(K))


@CLASSES
def test_softmax_is_the_displayed_equation(K):
    f = class_scores(K)
    stated = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    assert_allclose(Categorical(K).mean(f), stated, rtol=1e-14)
    for y in range(K):
        assert_allclose(np.exp(Categorical(K).log_prob(np.full(len(f), y), f)), stated[:, y], rtol=1e-13)


@CLASSES
def test_softmax_gradients_match_central_differences(K):
    f, likelihood = class_scores(K), Categorical(K)
    y = np.arange(len(f)) % K
    grad = likelihood.expand(y, f).grad
    for k, h in bumps(K):
        rise = likelihood.log_prob(y, f + h) - likelihood.log_prob(y, f - h)
        assert_allclose(grad[:, k], rise / (2 * STEP), rtol=1e-9, atol=10 * EPS / STEP)


@CLASSES
def test_the_softmax_curvature_matches_central_differences_of_the_gradient(K):
    f, likelihood = class_scores(K), Categorical(K)
    y = np.arange(len(f)) % K
    W = likelihood.curvature(likelihood.mean(f))
    for k, h in bumps(K):
        fall = likelihood.expand(y, f - h).grad - likelihood.expand(y, f + h).grad
        assert_allclose(W[:, :, k], fall / (2 * STEP), rtol=1e-8, atol=5 * EPS / STEP)


@CLASSES
def test_the_softmax_curvature_slope_matches_central_differences(K):
    f, likelihood = class_scores(K), Categorical(K)
    root = class_scores(K, rows=len(f) * K).reshape(len(f), K, K)
    V = root @ root.transpose(0, 2, 1)

    def trace(scores):
        return np.einsum("nkj,nkj->n", V, likelihood.curvature(likelihood.mean(scores)))

    slope = likelihood.curvature_slope(likelihood.mean(f), V)
    for k, h in bumps(K):
        difference = (trace(f + h) - trace(f - h)) / (2 * STEP)
        assert_allclose(slope[:, k], difference, rtol=1e-8, atol=5 * V.max() * EPS / STEP)


def test_softmax_tails_agree_with_multiple_precision():
    f = np.array([[0.0, -1e4, 3.0], [800.0, 0.0, -800.0], [1e4, 1e4 + 1, 0.0], [-40.0, 40.0, 0.0]])
    likelihood = Categorical(3)
    for y in range(3):
        at = likelihood.expand(np.full(len(f), y), f)
        for row, scores in enumerate(f):
            with mp.workdps(50):
                terms = [mp.exp(mp.mpf(float(score))) for score in scores]
                p = [term / mp.fsum(terms) for term in terms]
                others = mp.fsum(p[k] for k in range(3) if k != y)
                log_prob = mp.log(p[y]) if p[y] < 0.5 else mp.log1p(-others)
                grad = [others if k == y else -p[k] for k in range(3)]
            assert_allclose(at.log_prob[row], float(log_prob), rtol=1e-13, atol=1e-305)
            assert_allclose(at.grad[row], [float(g) for g in grad], rtol=1e-12, atol=1e-305)


@CLASSES
def test_class_probabilities_sum_to_one(K):
    f = np.concatenate([class_scores(K), 300 * class_scores(K)])
    assert_allclose(Categorical(K).mean(f).sum(axis=1), 1, rtol=1e-14)


@CLASSES
def test_averaged_class_probabilities_sum_to_one(K):
    f = class_scores(K)
    root = class_scores(K, rows=len(f) * K).reshape(len(f), K, K)
    for scale in (1e-3, 1.0, 10.0):
        V = scale * root @ root.transpose(0, 2, 1)
        assert_allclose(np.exp(Categorical(K).log_average(f, V)).sum(axis=1), 1, rtol=1e-12)


@CLASSES
def test_softmax_without_uncertainty_is_not_averaged(K):
    f = class_scores(K)
    no_spread = np.zeros((len(f), K, K))
    assert_allclose(np.exp(Categorical(K).log_average(f, no_spread)), Categorical(K).mean(f), rtol=1e-13)


def test_two_classes_averaged_by_softmax_agree_with_the_logit():
    m = np.column_stack([np.linspace(-1, 1, 9), np.linspace(3, -4, 9)])
    V = np.tile([[2.0, 0.5], [0.5, 1.0]], (9, 1, 1))  # the difference of the scores has variance 2
    logit = BernoulliLogit().log_average(1, m[:, 1] - m[:, 0], np.full(9, 2.0))
    # the library promises an absolute error of 1e-4 for K classes
    assert_allclose(np.exp(Categorical(2).log_average(m, V)[:, 1]), np.exp(logit), atol=1e-4, rtol=0)


@CLASSES
def test_a_constant_added_to_all_scores_changes_no_probability(K):
    f, likelihood = class_scores(K), Categorical(K)
    y = np.arange(len(f)) % K
    assert_allclose(likelihood.log_prob(y, f + 5.0), likelihood.log_prob(y, f), rtol=1e-13)
    W = likelihood.curvature(likelihood.mean(f))
    assert_allclose(W.sum(axis=-1), 0, atol=4 * EPS)
