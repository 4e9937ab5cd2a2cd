"""Families and links at their edges: defaults, shapes, precision, weights, and what the refusals say."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from credibly.errors import InputError
from credibly.model.likelihoods.families import (
    Bernoulli,
    Binomial,
    Gamma,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    excess,
    resolve_family,
    stirling,
)
from credibly.model.likelihoods.family_base import check_counts, check_finite
from credibly.model.likelihoods.family_likelihood import (
    FamilyLikelihood,
    deviance,
    pearson,
    r_log_likelihood,
    starting_scores,
)
from credibly.model.likelihoods.links import LINKS, Derivatives, Identity, Link, Log, Logit, Power

KINDS = [Gaussian(), Bernoulli(), Binomial(), Poisson(), Gamma(), InverseGaussian(), NegativeBinomial(0.5)]
FAMILY = pytest.mark.parametrize("family", KINDS, ids=lambda it: it.name)
LINK = pytest.mark.parametrize("link", (*LINKS.values(), Power(1 / 3)), ids=lambda it: it.name)
MEANS = np.array([[0.2, 0.5, 0.9], [0.4, 0.7, 0.3]])


# --- defaults, shapes and precision -------------------------------------------------------------------------


@FAMILY
def test_the_dispersion_is_one_unless_another_is_given(family):
    y, q = np.ones(MEANS.shape), np.full(MEANS.shape, 0.3)
    assert_array_equal(family.log_density(y, MEANS), family.log_density(y, MEANS, 1.0))
    for target in (0 * y, y):
        assert_array_equal(family.cdf(target, MEANS), family.cdf(target, MEANS, 1.0))
    assert_array_equal(family.quantile(q, MEANS), family.quantile(q, MEANS, 1.0))
    assert_array_equal(family.distribution(MEANS).var(), family.distribution(MEANS, 1.0).var())
    one, two = (family.sample(np.random.default_rng(0), MEANS, *s) for s in ((), (1.0,)))
    assert_array_equal(one, two)


@FAMILY
def test_there_is_a_draw_for_each_mean_and_dispersion_and_draws_are_numbers_alike(family):
    mu, s = np.array([[0.2], [0.6]]), np.ones(3)
    draws = family.sample(np.random.default_rng(0), mu, s)
    assert draws.shape == (2, 3)
    assert draws.dtype == np.float64
    assert family.quantile(np.array(0.5), mu).dtype == np.float64


@FAMILY
def test_slopes_and_informations_have_the_shape_of_the_means(family):
    values = [*family.log_mean_slopes(np.ones(MEANS.shape), MEANS, 1.0, np.log(MEANS))]
    values += [*family.log_mean_information(MEANS, 1.0, np.log(MEANS)), family.variance(MEANS)]
    assert [np.shape(value) for value in values] == 6 * [MEANS.shape]


@LINK
def test_derivatives_have_the_shape_of_the_scores(link):
    f = np.array([[0.5, 1.0, 1.5], [2.0, 0.1, 0.7]])
    values = [link.link(f), link.mean(f), link.log_mean(f), *link.derivatives(f), *link.log_mean_derivatives(f)]
    assert [np.shape(value) for value in values] == 9 * [f.shape]


@LINK
def test_whole_numbers_are_scores_and_means_too(link):
    whole = np.array([1, 2, 5])  # NumPy refuses negative powers of these
    exact = whole.astype(float)
    got = [link.mean(whole), link.log_mean(whole), *link.derivatives(whole), *link.log_mean_derivatives(whole)]
    want = [link.mean(exact), link.log_mean(exact), *link.derivatives(exact), *link.log_mean_derivatives(exact)]
    for one, other in zip(got, want, strict=True):
        assert one.dtype == np.float64
        assert_allclose(one, other, rtol=1e-14)
    assert link.link(whole).dtype == np.float64
    ends = np.array([0, 1])
    for one, other in zip(link.link(ends), link.link(ends.astype(float)), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16])
def test_counts_of_any_type_are_computed_in_double_precision(dtype):
    y, mu = np.array([3, 40, 100]), np.array([5, 41, 90])
    assert_array_equal(excess(y.astype(dtype), mu.astype(dtype)), excess(y.astype(float), mu.astype(float)))
    assert_array_equal(stirling(y.astype(dtype)), stirling(y.astype(float)))
    assert_array_equal(Poisson().log_density(y.astype(dtype), mu), Poisson().log_density(y.astype(float), mu))


@pytest.mark.parametrize("y", [5.0, 300.0, 1e6, 1e12])
def test_the_excess_of_a_count_near_its_mean_does_not_cancel(y):
    """y log(y/μ) - y + μ is about (y - μ)²/2μ there: the difference of numbers that are larger by any factor."""
    mu = y * (1 + np.array([-0.15, -0.09, -1e-2, -1e-4, -1e-6, 0.0, 1e-7, 1e-3, 0.05, 0.18]))
    with mp.workdps(50):
        exact = [float(y * mp.log(mp.mpf(y) / mp.mpf(m)) - y + mp.mpf(m)) for m in mu]
    assert_allclose(excess(np.full(mu.shape, y), mu), exact, rtol=1e-14)


@pytest.mark.parametrize("k", [0.5, 3.0, 14.9, 15.1, 40.0, 1e4])
def test_what_stirling_leaves_of_the_gamma_function_is_exact_on_both_sides_of_fifteen(k):
    with mp.workdps(50):
        exact = float(k * mp.log(k) - k - mp.loggamma(mp.mpf(k)))
    # below 15 the rounding of terms as large as k log k counts, which is 90 times the difference at 15
    assert_allclose(stirling(np.array(k)), exact, rtol=3e-14 if k < 15 else 2e-15)


def test_whole_exponents_and_whole_targets_are_numbers_too():
    assert_array_equal(Power(-1).link(np.array([2, 4])), [0.5, 0.25])
    far = np.array([-100, 100], dtype=np.int8)  # whose squares are no int8
    assert_allclose(starting_scores(FamilyLikelihood(Gaussian(), Log()), far), np.log([100.0, 100.0]), rtol=1e-14)
    small = np.array([-0.3, 0.4])
    want = np.log([np.sqrt(0.125), 0.4])
    assert_allclose(starting_scores(FamilyLikelihood(Gaussian(), Log()), small), want, rtol=1e-14)
    for family in KINDS:
        assert family.starting_mean(np.array([1, 1]), np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("m", [5, 10, 49, 103])
def test_a_proportion_is_as_many_successes_as_it_was_made_of(m):
    """k/m divided by 1/m is a rounding below k now and then, and must not be k - 1."""
    k = np.arange(m + 1)
    assert_array_equal(Binomial().cdf(k / m, np.array(0.4), 1 / m), stats.binom.cdf(k, m, 0.4))
    assert_array_equal(Binomial().cdf((k[:-1] + 0.5) / m, np.array(0.4), 1 / m), stats.binom.cdf(k[:-1], m, 0.4))


def test_a_gaussian_score_at_its_target_has_the_shape_and_variance_of_the_others():
    likelihood = FamilyLikelihood(Gaussian(), Identity(), 0.5)
    at = likelihood.tilted(np.array([1.0, 2.0, 3.0]), np.array(2.0), np.array(0.25))
    assert_allclose(at.var, np.full(3, 0.25 * 0.5 / 0.75), rtol=1e-15)
    assert_allclose(at.mean, 2.0 + np.array([-1, 0, 1]) / 3, rtol=1e-15)


class Softplus(Link):
    """A link of one's own: neither a power nor a threshold, so that all of it comes from the mean's derivatives."""

    def link(self, mu):
        return np.log(np.expm1(mu))

    def mean(self, f):
        return np.log1p(np.exp(f))

    def derivatives(self, f):
        p = 1 / (1 + np.exp(-f))
        return Derivatives(p, p * (1 - p), p * (1 - p) * (1 - 2 * p))


def test_the_log_mean_of_a_link_of_ones_own_follows_from_its_mean():
    f = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    with mp.workdps(40):
        exact = [[float(mp.diff(lambda x: mp.log(mp.log1p(mp.exp(x))), it, k)) for it in f] for k in range(4)]
    assert_allclose([Softplus().log_mean(f), *Softplus().log_mean_derivatives(f)], exact, rtol=1e-12)
    assert Softplus().name == "softplus"
    assert Softplus().average(f, f**2) is None
    assert_array_equal(Softplus().valid(np.array([0.0, np.inf, np.nan])), [True, False, False])


# --- what is reported about a fit ---------------------------------------------------------------------------


@FAMILY
def test_rows_without_weights_have_weight_one(family):
    y, mu = np.array([1.0, 1.0, 1.0]), MEANS[0]
    ones = np.ones(3)
    for report in (deviance, pearson, r_log_likelihood):
        assert report(family, y, mu) == report(family, y, mu, ones)
        assert isinstance(report(family, y, mu), float)


@pytest.mark.parametrize("family", [Gamma(), InverseGaussian()], ids=lambda it: it.name)
def test_weights_multiply_rows_of_positive_targets_in_the_deviance_and_in_the_count(family):
    y, mu, w = np.array([0.5, 1.5, 4.0]), np.array([1.0, 1.2, 3.0]), np.array([1.0, 3.0, 2.0])
    repeated = [np.repeat(it, w.astype(int)) for it in (y, mu)]
    assert_allclose(r_log_likelihood(family, y, mu, w), r_log_likelihood(family, *repeated), rtol=1e-13)
    s = np.sum(w * family.unit_deviance(y, mu)) / 6
    assert_allclose(r_log_likelihood(family, y, mu, w), np.sum(w * family.distribution(mu, s).logpdf(y)), rtol=1e-13)


def test_trials_of_proportions_are_weights_and_their_coefficients_are_counted():
    y, mu, m = np.array([0.25, 0.5]), np.array([0.3, 0.6]), np.array([4.0, 10.0])
    assert_allclose(r_log_likelihood(Binomial(), y, mu, m), stats.binom.logpmf([1, 5], [4, 10], mu).sum(), rtol=1e-13)


def test_weights_move_the_start_of_proportions_only():
    y, w = np.array([0.0, 1.0]), np.array([9.0, 4.0])
    proportions = FamilyLikelihood(Binomial(), Logit())
    assert_allclose(starting_scores(proportions, y, w), np.log([0.5 / 9.5, 4.5 / 0.5]), rtol=1e-13)
    assert_allclose(starting_scores(proportions, y), np.log([0.5 / 1.5, 1.5 / 0.5]), rtol=1e-13)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_a_dispersion_is_positive_and_finite(value):
    with pytest.raises(InputError, match=rf"^the dispersion of the negative binomial is a positive .*, not {value}\.$"):
        NegativeBinomial(value)
    with pytest.raises(InputError, match=rf"^a dispersion is a positive number, not {value}\.$"):
        FamilyLikelihood(Gaussian(), Identity(), value)


@pytest.mark.parametrize("p", [0, 0.0, np.nan, np.inf, "1", None])
def test_an_exponent_is_a_number_other_than_zero(p):
    with pytest.raises(InputError, match=rf"^the exponent of a power link is a number other than 0, not {p}; for 0"):
        Power(p)


def test_refusals_say_what_how_many_and_where():
    with pytest.raises(InputError) as caught:
        check_finite(np.array([[1.0, np.nan], [np.inf, 2.0]]), "gamma")
    assert str(caught.value) == (
        "targets of the gamma family must be finite numbers: 2 of 4 are not, the first in row 1 with nan."
    )
    with pytest.raises(InputError) as caught:
        check_counts(np.array([1.0, -2.0]), "poisson")
    assert str(caught.value) == (
        "targets of the poisson family must be counts, 0 or more: 1 of 2 is not, the first in row 1 with -2."
    )
    with pytest.raises(
        InputError, match=r"^weights of the poisson family must be whole numbers: 1 of 1 is not, .*0\.5"
    ):
        check_counts(np.array([0.5]), "poisson", "weights")
    check_counts(np.array([0.0, 3.0]), "poisson")


@pytest.mark.parametrize(
    ("family", "bad", "rule"),
    [
        (Gaussian(), np.nan, "finite numbers"),
        (Bernoulli(), 0.5, "0 or 1"),
        (Binomial(), 1.5, "proportions between 0 and 1"),
        (Poisson(), 0.5, "whole numbers"),
        (Gamma(), 0.0, "positive"),
        (InverseGaussian(), 0.0, "positive"),
        (NegativeBinomial(), 0.5, "whole numbers"),
    ],
)
def test_targets_are_refused_by_the_rule_of_their_family(family, bad, rule):
    with pytest.raises(InputError) as caught:
        family.check_targets(np.array([1.0, bad]))
    assert str(caught.value) == (
        f"targets of the {family.name} family must be {rule}: 1 of 2 is not, the first in row 1 with {bad:g}."
    )


@pytest.mark.parametrize(
    ("y", "totals", "message"),
    [
        (0.5, np.inf, "numbers of trials of the binomial family must be finite numbers: 1 of 1 is not, .* with inf."),
        (0.5, -2.0, "numbers of trials of the binomial family must be counts, 0 or more: .* with -2."),
        (0.5, 2.5, "numbers of trials of the binomial family must be whole numbers: .* with 2.5."),
        (1.5, 2.0, "numbers of successes of the binomial family must be at most the number of trials: .* with 3."),
        (0.5, 3.0, "numbers of successes of the binomial family must be whole numbers: .* with 1.5."),
    ],
)
def test_numbers_of_trials_are_refused_with_the_reason(y, totals, message):
    with pytest.raises(InputError, match=rf"^{message}$"):
        Binomial().check_totals(np.array([y]), np.array([totals]))


@pytest.mark.parametrize("family", ["tweedie", 3, None])
def test_an_unknown_family_is_refused_with_the_list(family):
    with pytest.raises(
        InputError, match=rf"^family={family!r} is not known; choose 'gaussian', 'bernoulli', 'binomial'"
    ):
        resolve_family(family)


def test_the_log_link_takes_every_score():
    assert Log().valid(np.array([-800.0, 800.0])).all()


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(0.5)])
def test_a_count_of_zero_has_no_deviance_from_a_mean_that_is_rounded_to_zero(family):
    assert_allclose(family.unit_deviance(np.zeros(2), np.array([0.0, 1e-300])), [0.0, 2e-300], rtol=1e-12)
