"""Pareto-smoothed weights where the tail is known, moments and quantiles where draws can be counted out."""

import warnings

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from credibly.errors import InputError
from credibly.numerics.weighted_draws import (
    WeightedDraws,
    pareto_smoothed,
    weighted_mean,
    weighted_quantiles,
)

REPLICATES = 100


def pareto(k, size, seed=0):
    """Logarithms of ratios U^-k, whose tail is exactly a generalised Pareto of shape k."""
    return -k * np.log(np.random.default_rng(seed).random(size))


def tail_size(size):
    """How many ratios are fitted (Vehtari et al. 2024, sec. 5)."""
    return int(3 * np.sqrt(size)) if size > 225 else size // 5


def ratios_after(smoothed):
    """The smoothed log ratios: weights times their total."""
    return smoothed.log_weights + smoothed.log_mean + np.log(len(smoothed.log_weights))


def body_and_tail(log_ratios):
    order, tail = np.argsort(log_ratios), tail_size(len(log_ratios))
    return order[:-tail], order[-tail:]


# --- k-hat --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.2, 0.5, 0.7])
def test_the_shape_of_a_pareto_tail_is_its_shape_on_average(k):
    """Shrunk towards ½ as by ten more draws (Vehtari et al. 2024, appendix C); standard error (1 + k)/√tail of one."""
    size = 4000
    tail = tail_size(size)
    khats = [pareto_smoothed(pareto(k, size, seed)).khat for seed in range(REPLICATES)]
    expected, one = (tail * k + 5) / (tail + 10), (1 + k) / np.sqrt(tail) * tail / (tail + 10)
    # five standard errors, and the estimator's own bias, which is of order 1/tail
    assert_allclose(np.mean(khats), expected, atol=5 * one / np.sqrt(REPLICATES) + 2 / tail)
    assert_allclose(np.std(khats), one, rtol=5 / np.sqrt(2 * REPLICATES))


@pytest.mark.parametrize("df", [2, 4])
def test_the_shape_of_student_ratios_nears_one_over_the_degrees_of_freedom(df):
    def mean_and_error(size):
        rng = np.random.default_rng(df)
        khats = [pareto_smoothed(np.log(np.abs(rng.standard_t(df, size)))).khat for _ in range(30)]
        tail = tail_size(size)
        # the tail is Pareto only in the limit: the second term of its expansion is of order (tail/size)^(2/df)
        return abs(np.mean(khats) - (tail / df + 5) / (tail + 10)), 5 * np.std(khats) / np.sqrt(30)

    for size in (1000, 20_000):
        bias, error = mean_and_error(size)
        assert bias <= error + 0.3 * (tail_size(size) / size) ** (2 / df)


@pytest.mark.parametrize("size", [100, 101, 512, 4000])
@pytest.mark.parametrize("k", [-0.5, 0.1, 0.6, 0.9])
def test_khat_and_weights_are_those_of_arviz(k, size):
    log_ratios = pareto(k, size) - 1234.5
    log_weights, khat = array_stats.psislw(-log_ratios)
    ours = pareto_smoothed(log_ratios)
    assert_allclose(ours.log_weights, log_weights, rtol=0, atol=1e-12)
    assert_allclose(ours.khat, khat, rtol=1e-12)


def test_a_tail_knows_how_much_it_holds():
    """The shape of a tail does not depend on its size: the same tail, and ever smaller parts of it."""
    tail = np.exp(pareto(0.9, 2000)) - 1.0
    found = [pareto_smoothed(np.log1p(scale * tail)) for scale in (1.0, 1e-3, 1e-4, 1e-5)]
    assert_allclose([it.khat for it in found], found[0].khat, rtol=0.05)  # but for its logarithm's rounding
    held = np.array([it.tail for it in found])
    assert held[0] > 0.05 and (np.diff(held) < 0).all() and held[-1] < 1e-3


def test_khat_orders_tails_and_does_not_depend_on_the_constant_or_the_order():
    khats = [pareto_smoothed(pareto(k, 4000)).khat for k in (0.1, 0.4, 0.8, 1.2)]
    assert (np.diff(khats) > 0).all()
    log_ratios = pareto(0.6, 1000)
    first, again = pareto_smoothed(log_ratios), pareto_smoothed(log_ratios[::-1] + 500.0)
    assert_allclose(again.khat, first.khat, rtol=1e-9)
    assert_allclose(again.log_mean, first.log_mean + 500.0, rtol=1e-13)
    assert_allclose(again.log_weights[::-1], first.log_weights, rtol=0, atol=1e-10)


# --- the mean of the smoothed ratios ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.1, 0.6, 2.0])
def test_weights_sum_to_one_and_the_mean_is_that_of_the_smoothed_ratios(k):
    log_ratios = pareto(k, 2000) - 700.0
    smoothed = pareto_smoothed(log_ratios)
    after, weights = ratios_after(smoothed), smoothed.log_weights
    body, tail = body_and_tail(log_ratios)
    assert_allclose(logsumexp(weights), 0.0, atol=1e-12)
    assert_allclose(after[body], log_ratios[body], rtol=1e-13)  # below the tail nothing is changed
    assert_allclose(logsumexp(after) - np.log(2000), smoothed.log_mean, rtol=1e-13)
    assert (np.diff(after[tail]) >= -1e-12).all() and (np.diff(weights[tail]) >= 0).all()  # the order is kept
    # no weight is beyond the largest ratio seen
    assert np.ptp(weights) <= np.ptp(log_ratios) + 1e-10
    assert_allclose(np.diff(weights[body]), np.diff(log_ratios[body]), atol=1e-10)


@pytest.mark.parametrize("k", [0.1, 0.3])
def test_smoothing_hardly_moves_the_mean_of_ratios_with_a_light_tail(k):
    """E[U^-k] = 1/(1 - k), variance 1/(1 - 2k) - 1/(1 - k)²: within its standard errors over replicates."""
    size = 2000
    means = np.exp([pareto_smoothed(pareto(k, size, seed)).log_mean for seed in range(REPLICATES)])
    one = np.sqrt((1 / (1 - 2 * k) - 1 / (1 - k) ** 2) / size)
    assert_allclose(means.mean(), 1 / (1 - k), atol=5 * one / np.sqrt(REPLICATES))


# --- odd ratios ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, -3.0, 800.0, -1e6])
def test_equal_ratios_are_an_exact_approximation(level):
    same = pareto_smoothed(np.full(128, level))
    assert (same.khat, same.log_mean) == (0.0, pytest.approx(level, rel=1e-15, abs=1e-14))
    assert_allclose(same.log_weights, -np.log(128.0), rtol=1e-9)  # at a level of a million ten digits are left


def test_ratios_that_differ_by_rounding_only_are_equal():
    noise = np.random.default_rng(0).normal(size=500) * 1e-13
    assert pareto_smoothed(-40.0 + noise).khat == 0.0
    assert pareto_smoothed(-40.0 + 1e8 * noise).khat != 0.0


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.95])
def test_excluded_draws_have_no_weight_and_count_in_the_mean(share):
    log_ratios = pareto(0.3, 2000)
    excluded = np.random.default_rng(1).random(2000) < share
    log_ratios[excluded] = -np.inf
    smoothed = pareto_smoothed(log_ratios)
    assert (smoothed.log_weights[excluded] == -np.inf).all()
    assert_allclose(np.exp(smoothed.log_weights).sum(), 1.0, rtol=1e-12)
    plain = logsumexp(log_ratios) - np.log(2000)
    # a zero with probability `share`: smoothing moves the mean by less than its standard error
    error = np.sqrt(np.exp(2 * (log_ratios - plain)).mean() - 1) / np.sqrt(2000)
    assert_allclose(smoothed.log_mean, plain, atol=error)


def test_one_draw_that_is_not_excluded_is_no_sample():
    log_ratios = np.full(200, -np.inf)
    log_ratios[7] = 3.0
    smoothed = pareto_smoothed(log_ratios)
    assert smoothed.khat == np.inf
    assert np.exp(smoothed.log_weights)[7] == pytest.approx(1.0)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_ratios_that_are_no_numbers_give_no_answer(odd):
    log_ratios = pareto(0.3, 300)
    log_ratios[17] = odd
    smoothed = pareto_smoothed(log_ratios)
    assert smoothed.khat == np.inf and np.isnan(smoothed.log_mean)
    assert_allclose(np.exp(smoothed.log_weights).sum(), 1.0)


def test_all_draws_excluded_give_no_answer():
    smoothed = pareto_smoothed(np.full(300, -np.inf))
    assert smoothed.khat == np.inf and np.isnan(smoothed.log_mean)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e300])
def test_ratios_that_span_everything_have_a_huge_khat_and_no_warning(scale):
    log_ratios = scale * np.random.default_rng(0).normal(size=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smoothed = pareto_smoothed(log_ratios)
    assert smoothed.khat > 1.0
    assert_allclose(np.exp(smoothed.log_weights).sum(), 1.0, rtol=1e-9)


def test_a_tail_of_ties_does_not_fail():
    log_ratios = np.repeat([-1.0, 0.0], [400, 600])
    smoothed = pareto_smoothed(log_ratios)
    assert_allclose(np.exp(smoothed.log_weights).sum(), 1.0)
    assert_allclose(smoothed.log_mean, np.log(0.4 * np.exp(-1) + 0.6), rtol=1e-12)


def test_too_few_draws_are_refused():
    pareto_smoothed(pareto(0.3, 100))
    with pytest.raises(InputError, match=r"99 draws are too few .* at least 100"):
        pareto_smoothed(pareto(0.3, 99))


# --- moments and quantiles ----------------------------------------------------------------------------------


def counted(n=40, d=3, seed=0):
    """Draws that count a whole number of times, and the same draws written out."""
    rng = np.random.default_rng(seed)
    x, count = rng.normal(size=(n, d)), rng.integers(0, 5, size=n)
    count[0] = 3
    with np.errstate(divide="ignore"):
        return WeightedDraws(x, np.log(count / count.sum())), np.repeat(x, count, axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_moments_are_those_of_draws_written_out(seed):
    draws, written = counted(seed=seed)
    assert_allclose(draws.weights.sum(), 1.0)
    assert_allclose(draws.mean, written.mean(axis=0), rtol=1e-12, atol=1e-14)
    assert_allclose(draws.cov, np.cov(written.T, ddof=0), rtol=1e-11, atol=1e-14)
    assert_allclose(draws.std, written.std(axis=0), rtol=1e-12)
    assert_allclose(weighted_mean(draws.x**2, draws.weights), (written**2).mean(axis=0), rtol=1e-12)
    away = written.mean(axis=0) + [0.0, -2.0, 1.0] * written.std(axis=0)
    wider = written.std(axis=0) * [1.0, 3.0, 0.5]
    assert_allclose(draws.differences(away, wider), [2.0, 3.0], rtol=1e-12)


@pytest.mark.parametrize("n", [2, 7, 200])
def test_quantiles_of_equal_weights_are_hazens(n):
    x, q = np.random.default_rng(n).normal(size=(n, 2)), np.array([0.01, 0.05, 0.5, 0.77, 0.95])
    ours = weighted_quantiles(x, np.full(n, 1 / n), q)
    assert ours.shape == (2, 5)
    assert_allclose(ours, np.quantile(x, q, axis=0, method="hazen").T, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_lie_between_those_of_draws_written_out(seed):
    draws, written = counted(n=200, seed=seed)
    q, heaviest = np.linspace(0.1, 0.9, 17), draws.weights.max()
    ours = weighted_quantiles(draws.x, draws.weights, q)
    low, high = (np.quantile(written, q + side * heaviest, axis=0, method="inverted_cdf").T for side in (-1, 1))
    assert (low <= ours).all() and (ours <= high).all()
    assert (np.diff(ours, axis=1) >= 0).all()


def test_quantiles_keep_the_other_axes_and_do_not_depend_on_the_order_of_draws():
    rng = np.random.default_rng(0)
    x, weights, q = rng.normal(size=(50, 4, 3)), rng.dirichlet(np.ones(50)), np.array([0.05, 0.95])
    whole = weighted_quantiles(x, weights, q)
    assert whole.shape == (4, 3, 2)
    assert_allclose(whole[2, 1], weighted_quantiles(x[:, 2, 1:2], weights, q)[0], rtol=1e-14)
    order = rng.permutation(50)
    assert_allclose(weighted_quantiles(x[order], weights[order], q), whole, rtol=1e-12)


def test_draws_are_chosen_by_their_weights():
    weights = np.array([0.5, 0.3, 0.2, 0.0])
    with np.errstate(divide="ignore"):
        draws = WeightedDraws(np.arange(4.0)[:, None], np.log(weights))
    size = 10_000
    chosen = draws.choose(np.random.default_rng(0), size)
    assert chosen.shape == (size, 1)
    share = np.bincount(chosen[:, 0].astype(int), minlength=4) / size
    assert_allclose(share, weights, atol=5 * np.sqrt(0.25 / size))
    assert share[3] == 0.0
    assert_array_equal(chosen, draws.choose(np.random.default_rng(0), size))


def test_thinning_keeps_the_distribution_even_of_a_sequence_with_a_pattern():
    """Sobol's points in order: every fourth of them lies in one corner. Thinned at random the mean moves by 1/√R."""
    points = norm.ppf(qmc.Sobol(3, scramble=True, rng=np.random.default_rng(0)).random(2**14))
    log_weights = -np.log(2.0**14) * np.ones(2**14)
    thin = WeightedDraws(points, log_weights).thinned(2**12)
    assert len(thin.x) <= 2**12
    assert_allclose(thin.weights.sum(), 1.0)
    assert np.abs(thin.mean).max() < 4 / np.sqrt(2**12)
    assert_allclose(thin.std, 1.0, atol=4 / np.sqrt(2 * 2**12))


def test_few_draws_are_not_thinned():
    draws, _ = counted()
    assert draws.thinned(40) is draws
