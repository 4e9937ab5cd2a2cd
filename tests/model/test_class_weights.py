"""Class probabilities: learnt, estimated or given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from credibly.model.class_weights import ClassWeights, FixedWeights, LearnedWeights, Proportions

COUNTS = np.array([5.0, 0.0, 12.0])
GIVEN = np.log([0.2, 0.5, 0.3])
EVERY = pytest.mark.parametrize(
    "weights",
    [LearnedWeights(), LearnedWeights(0.3), Proportions(), FixedWeights(GIVEN)],
    ids=lambda it: type(it).__name__,
)
ALPHA = pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0, 4.0])
LABELS = st.lists(st.integers(0, 3), min_size=0, max_size=30)


def test_every_kind_of_class_weights_is_tested_here():
    shipped = {kind for kind in ClassWeights.__subclasses__() if kind.__module__.startswith("credibly.")}
    assert shipped == {LearnedWeights, Proportions, FixedWeights}


@EVERY
def test_class_probabilities_sum_to_one(weights):
    assert_allclose(np.exp(weights.log_average(COUNTS)).sum(), 1, rtol=1e-14)
    assert_allclose(np.exp(weights.draw(np.random.default_rng(0), COUNTS)).sum(), 1, rtol=1e-14)


@EVERY
def test_the_log_likelihood_is_the_sum_over_labels(weights):
    labels = np.repeat(np.arange(3), COUNTS.astype(int))
    assert_allclose(weights.log_likelihood(COUNTS), weights.log_average(COUNTS)[labels].sum(), rtol=1e-14)


@ALPHA
@given(labels=LABELS)
def test_the_evidence_of_labels_is_the_product_of_their_predictives(alpha, labels):
    """Dirichlet-multinomial, the labels in the order they came: any order gives the same."""
    weights, n, total = LearnedWeights(alpha), np.zeros(4), 0.0
    for label in labels:
        total += weights.log_average(n)[label]
        n[label] += 1
    assert_allclose(weights.log_marginal(n), total, rtol=1e-11, atol=1e-11)


@ALPHA
def test_the_evidence_of_counts_is_that_of_scipy_without_the_number_of_orders(alpha):
    n = COUNTS.astype(int)
    orders = stats.multinomial.logpmf(n, n.sum(), np.full(3, 1 / 3)) + n.sum() * np.log(3)
    want = stats.dirichlet_multinomial.logpmf(n, np.full(3, alpha), n.sum()) - orders
    assert_allclose(LearnedWeights(alpha).log_marginal(COUNTS), want, rtol=1e-12)


@ALPHA
def test_the_evidence_of_two_classes_is_an_integral_over_their_probability(alpha):
    n = np.array([3.0, 8.0])
    exact = quad(lambda p: p ** n[0] * (1 - p) ** n[1] * stats.beta.pdf(p, alpha, alpha), 0, 1, epsabs=0)[0]
    assert_allclose(LearnedWeights(alpha).log_marginal(n), np.log(exact), rtol=1e-9)


@ALPHA
def test_the_expected_log_probability_is_the_derivative_of_the_evidence(alpha):
    """d/dn_c log ∫ Π π^n p(π) dπ = E[log π_c]."""
    weights, h = LearnedWeights(alpha), 1e-3
    got = weights.log_expected(COUNTS + 1)
    for c in range(3):
        step = h * np.eye(3)[c]
        up, down, far_up, far_down = (weights.log_marginal(COUNTS + 1 + k * step) for k in (1, -1, 2, -2))
        # truncation h⁴/30 · ψ⁗(1) ≈ 1e-12; rounding eps · |log Z| / h ≈ 1e-11
        assert_allclose(got[c], (8 * (up - down) - far_up + far_down) / (12 * h), rtol=1e-9)


def test_the_average_is_the_share_with_pseudo_counts():
    assert_allclose(np.exp(LearnedWeights(1.0).log_average(COUNTS)), [6 / 20, 1 / 20, 13 / 20], rtol=1e-15)
    assert_allclose(np.exp(LearnedWeights(0.5).log_average(np.zeros(4))), 0.25, rtol=1e-15)


@ALPHA
def test_the_expected_log_probability_is_below_that_of_the_average(alpha):
    weights = LearnedWeights(alpha)
    assert (weights.log_expected(COUNTS) < weights.log_average(COUNTS)).all()  # Jensen


@ALPHA
def test_drawn_probabilities_have_the_posterior_means(alpha):
    weights, rng, many = LearnedWeights(alpha), np.random.default_rng(1), 4_000
    draws = np.array([weights.draw(rng, COUNTS) for _ in range(many)])
    for values, want in ((np.exp(draws), np.exp(weights.log_average(COUNTS))), (draws, weights.log_expected(COUNTS))):
        error = values.std(axis=0) / np.sqrt(many)
        assert (np.abs(values.mean(axis=0) - want) < 5 * error).all()


def test_a_drawn_probability_is_never_zero_however_weak_the_prior():
    """Gamma(1e-3) draws are below the smallest double half of the time; their logarithms are not lost."""
    rng = np.random.default_rng(2)
    draws = np.array([LearnedWeights(1e-3).draw(rng, np.zeros(3)) for _ in range(200)])
    assert np.isfinite(draws).all()
    assert draws.min() < -745


def test_proportions_maximise_the_likelihood_of_labels():
    best, rng = Proportions().log_likelihood(COUNTS), np.random.default_rng(3)
    for p in rng.dirichlet(np.ones(3), size=100):
        assert FixedWeights(np.log(p)).log_likelihood(COUNTS) < best
    assert_allclose(np.exp(Proportions().log_average(COUNTS)), COUNTS / 17, rtol=1e-15)


def test_a_class_without_rows_has_no_proportion_and_costs_no_likelihood():
    assert Proportions().log_average(COUNTS)[1] == -np.inf
    assert_allclose(Proportions().log_likelihood(COUNTS), stats.binom.logpmf(5, 17, 5 / 17) - np.log(6188), rtol=1e-12)


@pytest.mark.parametrize("weights", [Proportions(), FixedWeights(GIVEN)], ids=lambda it: type(it).__name__)
def test_weights_without_a_belief_are_what_they_are(weights):
    want = weights.log_average(COUNTS)
    assert_array_equal(weights.log_expected(COUNTS), want)
    assert_array_equal(weights.draw(np.random.default_rng(4), COUNTS), want)
    assert weights.log_marginal(COUNTS) == weights.log_likelihood(COUNTS)


def test_given_weights_do_not_learn():
    assert_array_equal(FixedWeights(GIVEN).log_average(COUNTS), GIVEN)
    assert_array_equal(FixedWeights(GIVEN).log_average(1e6 * COUNTS), GIVEN)


def test_estimated_probabilities_are_counted_as_parameters_and_given_ones_are_not():
    assert LearnedWeights().n_parameters(4) == Proportions().n_parameters(4) == 3
    assert FixedWeights(GIVEN).n_parameters(3) == 0
