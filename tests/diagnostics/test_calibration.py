"""Calibration: bins, bands, tests and transforms against hand counts, scikit-learn, SciPy and complete enumerations."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, binomtest, chi2, kstest, norm, poisson_binom
from sklearn.calibration import calibration_curve

from credibly.diagnostics import calibration_error, calibration_test, randomised_pit, reliability_curve
from credibly.diagnostics.calibration import number_of_events
from credibly.errors import InputError


def predictions(n=500, seed=0):
    """Probabilities, and labels that come from them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, size=n)
    return (rng.random(n) < p).astype(int), p


def outcomes(p):
    """All labels that rows with these probabilities can have, with the chance of each."""
    for y in itertools.product([0, 1], repeat=len(p)):
        labels = np.array(y)
        yield labels, float(np.where(labels == 1, p, 1 - p).prod())


# --- calibration error --------------------------------------------------------------------------------------


def test_the_error_by_hand():
    y, p = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9]
    # of label 1, two bins: (0.2, 0.4) with half, (0.6, 0.9) with all
    assert_allclose(calibration_error(y, p, 2, label=1), (abs(0.5 - 0.3) + abs(1 - 0.75)) / 2)
    assert_allclose(calibration_error(y, p, 2, label=1, norm="squared"), (0.2**2 + 0.25**2) / 2)
    # of the most probable class: confidences 0.8, 0.6, 0.6, 0.9, right but the second; ties share a bin
    assert_allclose(calibration_error(y, p, 2), (2 * abs(0.5 - 0.6) + 2 * abs(1 - 0.85)) / 4)


def test_the_order_of_rows_does_not_matter():
    y, p = predictions(n=100)
    p = p.round(1)
    order = np.random.default_rng(1).permutation(100)
    assert_allclose(calibration_error(y, p, 4), calibration_error(y[order], p[order], 4), rtol=1e-12)


@pytest.mark.parametrize("p", [[0.3, 0.3, 0.3, 0.3], [0.1, 0.3, 0.5, 0.9], [0.05, 0.1, 0.9, 0.95]])
@pytest.mark.parametrize("bins", [1, 2])
def test_right_probabilities_have_no_error_on_average_once_debiased(p, bins):
    """A complete enumeration: exact for given probabilities, however they differ within a bin."""
    p = np.array(p)
    mean, plain, textbook = np.zeros(3)
    for y, chance in outcomes(p):
        settings = {"bins": bins, "label": 1, "labels": [0, 1]}
        mean += chance * calibration_error(y, p, debiased=True, **settings)
        plain += chance * calibration_error(y, p, norm="squared", **settings)
        curve = reliability_curve(y, p, bins=bins, labels=[0, 1])
        noise = curve.observed * (1 - curve.observed) / (curve.count - 1)
        textbook += chance * (curve.count / 4) @ ((curve.observed - curve.predicted) ** 2 - noise)
    assert abs(mean) < 1e-15
    assert plain > 0.01
    constant = len(set(p.tolist())) == 1 or (bins == 2 and np.ptp(p[:2]) == np.ptp(p[2:]) == 0)
    assert abs(textbook) < 1e-15 if constant else textbook < -1e-4  # it counts the spread of probabilities as noise


def test_debiasing_needs_squares():
    with pytest.raises(InputError, match="no unbiased estimator"):
        calibration_error([0, 1], [0.2, 0.8], norm="l1", debiased=True)
    with pytest.raises(InputError, match="norm"):
        calibration_error([0, 1], [0.2, 0.8], norm="l2")


# --- reliability curve --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("bins", [1, 3, 10])
@pytest.mark.parametrize("digits", [1, 17])
def test_the_curve_is_that_of_scikit_learn(strategy, bins, digits):
    y, p = predictions()
    p = p.round(digits)
    curve = reliability_curve(y, p, bins=bins, strategy=strategy)
    observed, predicted = calibration_curve(y, p, n_bins=bins, strategy=strategy)
    assert_allclose(curve.observed, observed, rtol=1e-13)
    assert_allclose(curve.predicted, predicted, rtol=1e-13)
    assert curve.count.sum() == len(y)
    l1 = curve.count @ np.abs(observed - predicted) / len(y)
    assert_allclose(calibration_error(y, p, bins, strategy=strategy, label=1), l1, rtol=1e-12)


def test_intervals_are_wilsons():
    y, p = predictions(n=60)
    y[p < 0.15] = 0  # a bin without events
    curve = reliability_curve(y, p, bins=6, level=0.8)
    assert 0.0 in curve.low
    for k, n, low, high in zip(curve.observed * curve.count, curve.count, curve.low, curve.high, strict=True):
        want = binomtest(round(k), int(n)).proportion_ci(0.8, method="wilson")
        assert_allclose([low, high], [want.low, want.high], atol=1e-14)


def test_wilsons_interval_covers_on_average_over_shares():
    """A complete enumeration over outcomes of 20 rows; its mean coverage is within a hundredth of the level."""
    shares, n = np.linspace(0.02, 0.98, 97), 20
    limits = [reliability_curve([1] * k + [0] * (n - k), [0.5] * n, bins=1, labels=[0, 1]) for k in range(n + 1)]
    held = np.array([(it.low[0] <= shares) & (shares <= it.high[0]) for it in limits])
    coverage = (binom.pmf(np.arange(n + 1)[:, None], n, shares) * held).sum(axis=0)
    assert abs(coverage.mean() - 0.9) < 0.01


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_number_of_events_is_poisson_binomial(n):
    p = np.random.default_rng(n).random(n)
    assert_allclose(number_of_events(p), poisson_binom.pmf(np.arange(n + 1), p), atol=1e-14)


@pytest.mark.parametrize("n", [65, 500, 5000])
def test_for_many_equal_events_it_is_binomial(n):
    assert_allclose(number_of_events(np.full(n, 0.3)), binom.pmf(np.arange(n + 1), n, 0.3), atol=1e-12)
    assert_allclose(number_of_events(np.repeat([0.0, 1.0], n))[n], 1.0, rtol=1e-12)


def test_consistency_bands_hold_a_right_model_as_often_as_they_say():
    """A complete enumeration over labels: at most a tenth beyond either end, which is an exact quantile."""
    p = np.array([0.1, 0.15, 0.2, 0.25, 0.5, 0.6, 0.8, 0.9])
    ends = np.array([poisson_binom.ppf([0.1, 0.9], part) / 4 for part in (p[:4], p[4:])]).T
    below, above = np.zeros((2, 2))
    for y, chance in outcomes(p):
        curve = reliability_curve(y, p, bins=2, level=0.8, labels=[0, 1])
        assert_array_equal([curve.band_low, curve.band_high], ends)
        assert_array_equal(curve.inside, (ends[0] <= curve.observed) & (curve.observed <= ends[1]))
        below += chance * (curve.observed < curve.band_low)
        above += chance * (curve.observed > curve.band_high)
    assert (below <= 0.1).all() and (above <= 0.1).all()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_consistency_bands_are_exact_quantiles(level):
    y, p = predictions(n=120)
    curve = reliability_curve(y, p, bins=3, level=level)
    parts = np.split(np.sort(p), 3)
    ends = [poisson_binom.ppf([0.5 - level / 2, 0.5 + level / 2], part) / 40 for part in parts]
    assert_array_equal([curve.band_low, curve.band_high], np.array(ends).T)


def test_bands_of_an_overconfident_model_do_not_hold_it():
    y, p = predictions(n=4000)
    rash = p**3 / (p**3 + (1 - p) ** 3)
    assert reliability_curve(y, p).inside.sum() >= 7
    assert reliability_curve(y, rash).inside.sum() <= 3


def test_the_curve_of_three_classes_is_that_of_the_most_probable_or_of_the_class_asked_for():
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet([1, 1, 1], size=90), rng.integers(3, size=90)
    top = reliability_curve(y, proba, bins=4)
    observed, predicted = calibration_curve(proba.argmax(axis=1) == y, proba.max(axis=1), n_bins=4, strategy="quantile")
    assert_allclose([top.observed, top.predicted], [observed, predicted], rtol=1e-12)
    assert top.what == "P(most probable class)"
    second = reliability_curve(y, proba, bins=4, label=1)
    assert_allclose(
        second.observed, calibration_curve(y == 1, proba[:, 1], n_bins=4, strategy="quantile")[0], rtol=1e-12
    )
    assert "P(1): " in str(second) and str(second).count("\n") == 5


def test_a_long_curve_is_cut_when_printed():
    y, p = predictions()
    assert str(reliability_curve(y, p, bins=20)).endswith("… and 8 more")


# --- tests --------------------------------------------------------------------------------------------------


def test_spiegelhalters_z_is_the_textbooks():
    y, p = predictions(n=80)
    z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    found = calibration_test(y, p)
    assert_allclose(found.statistic, z, rtol=1e-10)
    assert_allclose(found.pvalue, 2 * norm.sf(abs(z)), rtol=1e-10)
    assert np.isnan(found.df)


@pytest.mark.parametrize("K", [2, 3])
def test_spiegelhalters_z_has_mean_zero_and_variance_one_in_a_complete_enumeration(K):
    proba = np.random.default_rng(0).dirichlet(np.ones(K), size=4)
    first = second = 0.0
    for y in itertools.product(range(K), repeat=4):
        chance = proba[np.arange(4), list(y)].prod()
        z = calibration_test(y, proba, labels=range(K)).statistic
        first, second = first + chance * z, second + chance * z**2
    assert_allclose([first, second], [0, 1], atol=1e-12)


def test_hosmer_and_lemeshows_terms_have_expectation_one_in_a_complete_enumeration():
    p = np.array([0.05, 0.2, 0.3, 0.5, 0.6, 0.95])
    mean = sum(
        chance * calibration_test(y, p, "hosmer-lemeshow", bins=3, labels=[0, 1]).statistic for y, chance in outcomes(p)
    )
    assert_allclose(mean, 3, rtol=1e-12)


def test_hosmer_and_lemeshow_by_hand():
    found = calibration_test([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], "hosmer-lemeshow", bins=2)
    want = (1 - 0.6) ** 2 / (0.16 + 0.24) + (2 - 1.5) ** 2 / (0.24 + 0.09)
    assert_allclose(found, (want, 2, chi2.sf(want, 2)), rtol=1e-12)


@pytest.mark.parametrize("method", ["spiegelhalter", "hosmer-lemeshow"])
def test_wrong_probabilities_are_found_and_right_ones_pass(method):
    y, p = predictions(n=2000, seed=1)
    rash, timid = (p**k / (p**k + (1 - p) ** k) for k in (2, 0.5))
    assert calibration_test(y, p, method).pvalue > 0.01
    assert calibration_test(y, rash, method).pvalue < 1e-6
    assert calibration_test(y, timid, method).pvalue < 1e-6
    if method == "spiegelhalter":
        assert calibration_test(y, rash).statistic > 0 > calibration_test(y, timid).statistic


@pytest.mark.parametrize("method", ["spiegelhalter", "hosmer-lemeshow"])
def test_an_impossible_label_refutes_by_itself(method):
    found = calibration_test([0, 1, 0, 1], [0.3, 0.0, 0.6, 0.7], method, bins=2)
    assert found.statistic == np.inf and found.pvalue == 0


def test_what_cannot_be_tested_is_refused():
    with pytest.raises(InputError, match="hosmer-lemeshow"):
        calibration_test([0, 1, 1], [0.5, 0.5, 0.5])
    with pytest.raises(InputError, match="nothing left"):
        calibration_test([0, 1, 1], [0.0, 1.0, 1.0], "hosmer-lemeshow")
    with pytest.raises(InputError, match="method"):
        calibration_test([0, 1], [0.2, 0.8], "z")


# --- the randomised transform -------------------------------------------------------------------------------


def test_the_transform_lies_in_the_labels_own_part_of_the_unit_interval():
    proba = np.array([[0.2, 0.5, 0.3]] * 3)
    u = randomised_pit([0, 1, 2], proba, random_state=0)
    assert (np.array([0, 0.2, 0.7]) <= u).all() and (u <= [0.2, 0.7, 1.0]).all()
    v = np.random.default_rng(3).uniform(size=3)
    given = randomised_pit([0, 1, 2], proba, random_state=np.random.default_rng(3))
    assert_allclose(given, np.array([0, 0.2, 0.7]) + v * [0.2, 0.5, 0.3], rtol=1e-12)
    assert_array_equal(randomised_pit([0, 1, 2], proba, random_state=0), u)


def test_it_is_uniform_for_right_probabilities_and_not_for_rash_ones():
    y, p = predictions(n=5000)
    assert kstest(randomised_pit(y, p, random_state=0), "uniform").pvalue > 0.01
    assert kstest(randomised_pit(y, p**2, random_state=0), "uniform").pvalue < 1e-6


def test_a_random_state_of_another_kind_is_refused():
    with pytest.raises(InputError, match="random_state"):
        randomised_pit([0, 1], [0.2, 0.8], random_state="now")
