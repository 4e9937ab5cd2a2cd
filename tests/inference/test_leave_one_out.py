"""The cavities of leave-one-out: closed forms, and the moments they must have."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from credibly.inference.gaussian import Scores
from credibly.inference.leave_one_out import (
    cavities,
    class_cavities,
    log_class_left_out,
    log_left_out,
    log_power_left_out,
    matched_cavities,
)
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.label_noise import NoisyCategorical
from helpers import UnitGaussian

M, V = np.array([-2.0, 0.3, 1.5]), np.array([0.4, 0.1, 0.9])
Y = np.array([0.0, 1.0, 0.0])


def test_a_gaussian_factor_is_taken_off_exactly():
    """N(f | m₋, v₋) N(y | f, 1) has variance 1/(1/v₋ + 1) and mean in between."""
    before = Scores(np.array([1.0, -0.5]), np.array([2.0, 0.1]))
    y = np.array([0.2, 0.7])
    v = 1 / (1 / before.variance + 1)
    m = v * (before.mean / before.variance + y)
    at = UnitGaussian().expand(y, m)
    found = cavities(Scores(m, v), at.grad, at.curvature)
    assert_allclose(found.mean, before.mean, rtol=1e-12)
    assert_allclose(found.variance, before.variance, rtol=1e-12)
    expected = norm.logpdf(y, before.mean, np.sqrt(before.variance + 1))
    assert_allclose(log_left_out(UnitGaussian(), y, found), expected, rtol=1e-12)
    matched = matched_cavities(UnitGaussian(), y, Scores(m, v))
    assert_allclose(matched.mean, before.mean, rtol=1e-9)


def test_several_scores_that_do_not_couple_are_scalar_cavities():
    grad, W = np.array([[0.3, -0.2], [0.1, 0.4]]), np.array([[0.2, 0.1], [0.3, 0.25]])
    m, v = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0.5, 1.0], [2.0, 0.3]])
    found = class_cavities(Scores(m, v[:, :, None] * np.eye(2)), grad, W[:, :, None] * np.eye(2))
    single = cavities(Scores(m, v), grad, W)
    assert_allclose(found.mean, single.mean)
    assert_allclose(found.variance, single.variance[:, :, None] * np.eye(2), atol=1e-15)


def test_a_row_that_holds_all_there_is_known_has_no_cavity():
    found = cavities(Scores(np.zeros(2), np.ones(2)), np.zeros(2), np.array([1.0, 2.0]))
    assert np.isnan(found.variance).all()
    eye = np.eye(2)
    several = class_cavities(
        Scores(np.zeros((2, 2)), np.array([eye, eye])), np.zeros((2, 2)), np.array([eye, 0.5 * eye])
    )
    assert np.isnan(several.variance).all(axis=(1, 2)).tolist() == [True, False]


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit()], ids=repr)
def test_matched_cavities_give_back_the_moments(likelihood):
    found = matched_cavities(likelihood, Y, Scores(M, V))
    tilted = likelihood.tilted(Y, *found)
    assert_allclose(tilted.mean, M, rtol=1e-10)
    assert_allclose(tilted.var, V, rtol=1e-10)
    assert (found.variance > V).all()  # log-concave factors narrow


def at_the_mode(likelihood, y, w, before: Scores) -> Scores:
    """Laplace's marginal of p(y | f)^w N(f | before): where a fit would be."""
    m = before.mean
    for _ in range(100):
        at = likelihood.expand(y, m)
        m = m - ((m - before.mean) / before.variance - w * at.grad) / (1 / before.variance + w * at.curvature)
    return Scores(m, 1 / (1 / before.variance + w * likelihood.expand(y, m).curvature))


@pytest.mark.parametrize("w", [0.5, 1.0, 2.0, 30.0])
def test_rows_that_count_several_times_are_integrated(w):
    logit, before = BernoulliLogit(), Scores(M, V)
    scores = at_the_mode(logit, Y, w, before)
    at = logit.expand(Y, scores.mean)
    cavity = cavities(scores, w * at.grad, w * at.curvature)
    assert_allclose(cavity.mean, M, rtol=1e-9)
    assert_allclose(cavity.variance, V, rtol=1e-9)
    found = log_power_left_out(logit, Y, np.full(3, w), cavity, scores)

    def mass(y, m, s):
        return quad(lambda f: np.exp(w * logit.log_prob(y, f)) * norm.pdf(f, m, s), m - 12 * s, m + 12 * s, limit=500)[
            0
        ]

    exact = [mass(y, m, np.sqrt(v)) for y, m, v in zip(Y, M, V, strict=True)]
    assert_allclose(np.exp(found), exact, rtol=1e-7)
    if w == 1:
        assert_allclose(found, log_left_out(logit, Y, cavity), rtol=1e-7)


def test_moments_that_no_cavity_has_are_none():
    """Failure must not look like a prediction: a product with N(y | f, 1) has a variance below one."""
    one, y = UnitGaussian(), np.array([0.2, 0.7])
    found = matched_cavities(one, y, Scores(np.array([0.1, 0.3]), np.array([1.5, 0.5])))
    assert np.isnan(found.mean).tolist() == np.isnan(found.variance).tolist() == [True, False]
    assert np.isnan(log_left_out(one, y, found)).tolist() == [True, False]


def test_a_recorded_class_left_out_is_the_true_one_kept_or_another_flipped():
    """With flip probability ε: (1 - ε) p_y + ε (1 - p_y)/(K - 1)."""
    y, flip = np.array([0, 2]), 0.2
    cavity = Scores(np.array([[0.5, 0.0, -0.3], [0.1, 0.4, 0.2]]), np.array([0.7 * np.eye(3), 0.2 * np.eye(3)]))
    true = np.exp(log_class_left_out(Categorical(3), y, cavity))
    recorded = np.exp(log_class_left_out(NoisyCategorical(3, flip), y, cavity))
    assert_allclose(recorded, (1 - flip) * true + flip * (1 - true) / 2, rtol=1e-10)
