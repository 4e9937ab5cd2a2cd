"""Scores against hand counts, identities, complete enumerations and scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from credibly.diagnostics import (
    auc,
    brier_decomposition,
    brier_score,
    calibration_error,
    calibration_test,
    log_score,
    randomised_pit,
    reliability_curve,
)
from credibly.errors import InputError


def predictions(n=200, K=2, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(K, 0.8), size=n)
    return (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), proba


# --- log and Brier scores -----------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 5])
def test_scores_agree_with_scikit_learn(K):
    y, proba = predictions(K=K)
    assert_allclose(log_score(y, proba), -log_loss(y, proba), rtol=1e-12)
    onehot = np.eye(K)[y]
    each = [brier_score_loss(onehot[:, k], proba[:, k]) for k in range(K)]
    assert_allclose(brier_score(y, proba), sum(each), rtol=1e-12)


def test_scores_of_two_rows_by_hand():
    y, proba = ["b", "a"], [[0.3, 0.7], [0.4, 0.6]]
    assert_allclose(log_score(y, proba), (np.log(0.7) + np.log(0.4)) / 2)
    assert_allclose(brier_score(y, proba), (2 * 0.3**2 + 2 * 0.6**2) / 2)
    assert_allclose(log_score(y, [0.7, 0.6]), log_score(y, proba))  # that of the second label alone


def test_a_probability_of_zero_for_what_happened_scores_minus_infinity():
    assert log_score([0, 1], [0.5, 0.0]) == -np.inf
    assert log_score([0, 0], [[1.0, 0.0]] * 2) == 0.0


def test_columns_mean_what_labels_say():
    proba = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
    want = (np.log(0.7) + np.log(0.8)) / 2
    assert_allclose(log_score(["c", "a"], proba, labels=["c", "a", "b"]), want)
    assert_allclose(log_score([0, 1], proba), want)  # integers say which column they mean
    assert_allclose(log_score([False, False], [0.25, 0.25]), np.log(0.75))
    assert_allclose(brier_score(["c", "a"], proba, labels=["c", "a", "b"]), brier_score([0, 1], proba))


SCORES = [
    log_score,
    brier_score,
    brier_decomposition,
    calibration_error,
    reliability_curve,
    calibration_test,
    randomised_pit,
    auc,
]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("y", "proba", "labels", "said"),
    [
        ([0, 1], [[0.5, 0.6], [0.5, 0.5]], None, "row 0 adds up to 1.1"),
        ([0, 1], [[-0.1, 1.1], [0.5, 0.5]], None, "between 0 and 1"),
        ([0, 1], [-0.1, 0.5], None, "between 0 and 1"),
        ([0, 1], [0.5, 1.5], None, "between 0 and 1"),
        ([0, 1], [0.5, np.nan], None, "NaN"),
        ([0, 1], [[0.5, 0.5]], None, "one row of probabilities per label"),
        ([], [], None, "at least one"),
        ([0, 1], 0.5, None, "shape"),
        ([0, 1], [[1.0], [1.0]], None, "shape"),
        ([0, 1], np.full((2, 2, 2), 0.5), None, "shape"),
        ([0, 1], ["a", "b"], None, "numbers"),
        ([[0, 1]], [0.5, 0.5], None, "one row of probabilities per label"),
        ([np.nan, 1.0], [0.5, 0.5], None, "NaN"),
        (["a", "b"], [[0.2, 0.3, 0.5]] * 2, None, "labels=model.classes_"),
        ([1, 3], [[0.2, 0.3, 0.5]] * 2, None, "labels=model.classes_"),
        (["a", "z"], [[0.5, 0.5]] * 2, ["a", "b"], "'z'"),
        (["a", "b"], [[0.5, 0.5]] * 2, ["a", "b", "c"], "one for each column"),
        (["a", "b"], [[0.5, 0.5]] * 2, ["a", "a"], "different"),
        (np.array(["a", 1], dtype=object), [0.5, 0.5], None, "of one kind"),
    ],
)
def test_bad_input_is_refused_with_the_reason(score, y, proba, labels, said):
    with pytest.raises(InputError, match=said):
        score(y, proba, labels=labels)


def test_single_precision_may_miss_one_by_its_rounding():
    proba = np.array([[0.3, 0.7], [0.6, 0.4]], dtype=np.float32) * np.float32(1 + 1e-5)
    assert_allclose(log_score([1, 0], proba), np.log(0.7 * 0.6) / 2, rtol=1e-4)
    with pytest.raises(InputError, match="add up"):
        log_score([1, 0], proba.astype(float))


# --- the Brier score in parts -------------------------------------------------------------------------------


def test_the_parts_by_hand():
    p, y = np.array([0.1, 0.3, 0.6, 0.8]), np.array([0, 1, 0, 1])
    parts = brier_decomposition(y, p, bins=2)  # bins (0.1, 0.3) and (0.6, 0.8), half of each happened
    assert_allclose(parts.reliability, 2 * ((0.2 - 0.5) ** 2 + (0.7 - 0.5) ** 2) / 2)
    assert_allclose(parts.resolution, 0, atol=1e-15)
    assert_allclose(parts.uncertainty, 2 * 0.25)
    assert_allclose(parts.within_variance, 2 * 0.01)
    assert_allclose(parts.within_covariance, 2 * 2 * 0.05)  # both bins: deviations ∓0.1 of p with ∓0.5 of o


@given(
    st.integers(2, 4),
    st.integers(1, 12),
    st.sampled_from(["quantile", "uniform"]),
    st.integers(0, 1000),
    st.booleans(),
)
def test_the_parts_add_up_to_the_score_exactly(K, bins, strategy, seed, rounded):
    y, proba = predictions(n=60, K=K, seed=seed)
    if rounded and K == 2:
        proba = np.column_stack([1 - proba[:, 1].round(1), proba[:, 1].round(1)])  # many ties
    parts = brier_decomposition(y, proba, bins=bins, strategy=strategy, labels=range(K))
    assert_allclose(parts.score, brier_score(y, proba, labels=range(K)), atol=1e-14)
    assert parts.reliability >= 0 and parts.resolution >= 0


@pytest.mark.parametrize("K", [2, 3])
def test_debiased_parts_add_up_too_and_correct_in_the_right_direction(K):
    y, proba = predictions(n=90, K=K)
    parts, plain = brier_decomposition(y, proba, 5, debiased=True), brier_decomposition(y, proba, 5)
    assert_allclose(parts.score, brier_score(y, proba), atol=1e-14)
    assert parts.reliability < plain.reliability
    assert parts.uncertainty > plain.uncertainty


def test_with_constant_probabilities_in_bins_the_correction_is_that_of_ferro_and_fricker():
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.4, 0.8], size=50)
    o = (rng.random(50) < p).astype(int)
    parts = brier_decomposition(o, p, bins=10, strategy="uniform", debiased=True)
    rel = res = 0.0
    n, base = len(p), o.mean()
    for value in (0.1, 0.4, 0.8):
        mine = o[p == value]
        n_b, o_b = len(mine), mine.mean()
        noise = o_b * (1 - o_b) / (n_b - 1)
        rel += n_b / n * ((value - o_b) ** 2 - noise)
        res += n_b / n * ((o_b - base) ** 2 - noise)
    overall = base * (1 - base) / (n - 1)
    want = 2 * np.array([rel, res + overall, base * (1 - base) + overall])
    assert_allclose(parts[:3], want, rtol=1e-12)
    assert_allclose(parts[3:], 0, atol=1e-15)


POPULATION = [(0.2, 0, 0.3), (0.2, 1, 0.1), (0.4, 0, 0.2), (0.4, 1, 0.4)]  # p, o, how probable such a row is


def expectation(of, n=4):
    """Over all samples of n rows from the population."""
    total = np.zeros(5)
    for rows in itertools.product(POPULATION, repeat=n):
        p, o, chance = np.array(rows).T
        total += chance.prod() * np.array(of(o.astype(int), p))
    return total


def test_debiased_parts_are_right_on_average_in_a_complete_enumeration():
    """One bin, rows at random: the mean gap, the uncertainty and both parts inside bins have known expectations."""
    p, o, chance = np.array(POPULATION).T
    p_mean, o_mean = chance @ p, chance @ o
    want = 2 * np.array(
        [
            (p_mean - o_mean) ** 2,
            0.0,
            o_mean * (1 - o_mean),
            chance @ (p - p_mean) ** 2,
            2 * chance @ ((p - p_mean) * (o - o_mean)),
        ]
    )
    labels = [0, 1]
    got = expectation(lambda o, p: brier_decomposition(o, p, 1, debiased=True, labels=labels))
    assert_allclose(got, want, atol=1e-14)
    biased = expectation(lambda o, p: brier_decomposition(o, p, 1, labels=labels))
    assert (np.abs(biased - want)[[0, 2, 3, 4]] > 0.001).all()  # so the enumeration can tell
    error = expectation(
        lambda o, p: np.full(5, calibration_error(o, p, 1, debiased=True, label=1, labels=labels)),
    )
    assert_allclose(error, (p_mean - o_mean) ** 2, atol=1e-14)


def test_debiased_resolution_given_the_bins_is_right_but_for_the_overall_frequency():
    """Two bins of two rows with fixed probabilities: Σ n_b/n (ō_b² - v_b) has expectation Σ n_b/n π_b²."""
    pi, p = np.array([0.3, 0.3, 0.8, 0.8]), np.array([0.2, 0.2, 0.9, 0.9])
    total = 0.0
    for o in map(np.array, itertools.product([0, 1], repeat=4)):
        parts = brier_decomposition(o, p, 2, strategy="uniform", debiased=True, labels=[0, 1])
        square = parts.resolution / 2 + o.mean() ** 2 - o.mean() * (1 - o.mean()) / 3
        total += np.where(o == 1, pi, 1 - pi).prod() * square
    assert_allclose(total, (0.3**2 + 0.8**2) / 2, rtol=1e-12)


def test_a_bin_of_one_row_cannot_be_debiased():
    with pytest.raises(InputError, match="single row"):
        brier_decomposition([0, 1, 1], [0.1, 0.5, 0.9], bins=3, debiased=True)


@pytest.mark.parametrize("bins", [0, -1, 2.5, "ten", True, None])
@pytest.mark.parametrize("score", [brier_decomposition, calibration_error, reliability_curve])
def test_bins_are_a_positive_whole_number(score, bins):
    with pytest.raises(InputError, match="bins must be a whole number"):
        score([0, 1], [0.2, 0.8], bins=bins)


@pytest.mark.parametrize("score", [brier_decomposition, calibration_error, reliability_curve])
def test_the_strategy_is_one_of_two(score):
    with pytest.raises(InputError, match="'quantile', 'uniform'"):
        score([0, 1], [0.2, 0.8], strategy="kmeans")


# --- AUC ----------------------------------------------------------------------------------------------------


def naive_delong(inside, outside):
    """The definition: placements by all pairs."""
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    return wins.mean(), wins.mean(axis=1).var(ddof=1) / len(inside) + wins.mean(axis=0).var(ddof=1) / len(outside)


@pytest.mark.parametrize("ties", [False, True])
def test_the_auc_and_its_variance_agree_with_their_definitions(ties):
    y, proba = predictions(n=120)
    p = proba[:, 1].round(1) if ties else proba[:, 1]
    found = auc(y, p, level=0.95)
    value, variance = naive_delong(p[y == 1], p[y == 0])
    assert_allclose([found.value, found.std_error], [value, np.sqrt(variance)], rtol=1e-12)
    assert found.value == roc_auc_score(y, p) == float(found)
    half = norm.ppf(0.975) * np.sqrt(variance) / (value * (1 - value))
    assert_allclose([found.low, found.high], expit(logit(value) + np.array([-half, half])), rtol=1e-12)


def test_the_auc_does_not_care_for_monotone_maps_and_mirrors_with_the_classes():
    y, proba = predictions(n=60)
    one, other = auc(y, proba[:, 1]), auc(y, proba, label=0)
    assert_allclose([one.value, one.low, one.high], [other.value, other.low, other.high], rtol=1e-12)
    bent = auc(y, proba[:, 1] ** 3)
    assert_allclose([one.low, one.high], [bent.low, bent.high], rtol=1e-12)
    against = auc(1 - y, proba[:, 1])
    assert_allclose([against.low, against.high], [1 - one.high, 1 - one.low], rtol=1e-12)


@pytest.mark.parametrize(("m", "n"), [(3, 5), (8, 3)])
def test_perfect_order_is_no_certainty(m, n):
    """Wilson's interval at a share of one out of the smaller class: [k/(k + z²), 1]."""
    y = np.r_[np.zeros(m, int), np.ones(n, int)]
    found = auc(y, np.linspace(0, 1, m + n), level=0.9)
    z2, smaller = norm.ppf(0.95) ** 2, min(m, n)
    assert found.value == found.high == 1.0
    assert_allclose(found.low, smaller / (smaller + z2), rtol=1e-12)
    wrong = auc(1 - y, np.linspace(0, 1, m + n), level=0.9)
    assert (wrong.value, wrong.low) == (0.0, 0.0)
    assert_allclose(wrong.high, 1 - found.low, rtol=1e-12)


def test_ties_throughout_and_a_single_row_of_a_class_have_an_interval_too():
    tied = auc([0, 0, 1, 1], [0.5] * 4)
    assert tied.value == 0.5 and tied.low < 0.3 and tied.high > 0.7
    single = auc([0, 0, 0, 1], [0.1, 0.2, 0.6, 0.5])
    assert_allclose(single.value, 2 / 3)
    assert single.low < 0.3 and single.high > 0.9


def test_of_several_classes_one_is_set_against_the_rest():
    y, proba = predictions(n=100, K=3)
    assert auc(y, proba, label=2).value == roc_auc_score(y == 2, proba[:, 2])
    with pytest.raises(InputError, match="label="):
        auc(y, proba)
    with pytest.raises(InputError, match="none of the classes"):
        auc(y, proba, label="x")


def test_one_class_has_no_auc():
    with pytest.raises(InputError, match="0 rows are of it and 2 are not"):
        auc([0, 0], [0.2, 0.8])


@pytest.mark.parametrize("level", [0, 1, 90, -0.1, "0.9", True, None, np.nan])
@pytest.mark.parametrize("ask", [auc, reliability_curve])
def test_a_level_lies_between_zero_and_one(ask, level):
    with pytest.raises(InputError, match="level"):
        ask([0, 1], [0.2, 0.8], level=level)


@pytest.mark.slow  # seven seconds
def test_intervals_of_the_auc_cover():
    """Normal scores one apart: A = Φ(1/√2). 4 000 samples of 30 + 50: five standard errors of a share of 0.9 are 0.024.

    DeLong's interval is an approximation for many rows; at these sizes it is within two hundredths of its level.
    """
    rng, held = np.random.default_rng(0), 0
    truth, y = norm.cdf(1 / np.sqrt(2)), np.r_[np.ones(30, int), np.zeros(50, int)]
    for _ in range(4000):
        found = auc(y, expit(rng.normal(y)), level=0.9)
        held += found.low <= truth <= found.high
    assert abs(held / 4000 - 0.9) < 0.024
