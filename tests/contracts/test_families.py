"""What every family must satisfy with every link it offers; a family or link without an entry fails the first test."""

import pickle
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize_scalar

from credibly.errors import InputError
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.families import (
    FAMILIES,
    Bernoulli,
    Binomial,
    Family,
    Gamma,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    resolve_family,
    stirling,
)
from credibly.model.likelihoods.family_likelihood import (
    FamilyLikelihood,
    deviance,
    pearson,
    r_log_likelihood,
    starting_scores,
)
from credibly.model.likelihoods.links import LINKS, THRESHOLDS, Identity, Log, Logit, Power, resolve_link
from helpers import SHARED_IS_HERE, load_refload, needs_shared

EPS = np.finfo(float).eps
S = 0.6  # a dispersion that is not one
ALPHA = 0.5
KINDS = [Gaussian(), Bernoulli(), Binomial(), Poisson(), Gamma(), InverseGaussian(), NegativeBinomial(ALPHA)]
FAMILY = pytest.mark.parametrize("family", KINDS, ids=lambda it: it.name)


def likelihood_of(family: Family, link) -> FamilyLikelihood:
    return FamilyLikelihood(family, resolve_link(link, family), S if family.has_dispersion else 1.0)


PAIRS = [likelihood_of(family, link) for family in KINDS for link in (*family.links, Power(1 / 3))]
EVERY = pytest.mark.parametrize("likelihood", PAIRS, ids=lambda it: f"{it.family.name}-{it.link.name}")

TARGETS = {
    "gaussian": [-1.3, 0.7, 4.0],
    "bernoulli": [0.0, 1.0],
    "binomial": [0.0, 0.3, 1.0],
    "poisson": [0.0, 1.0, 6.0],
    "gamma": [0.2, 1.5, 9.0],
    "inverse_gaussian": [0.2, 1.5, 9.0],
    "negative_binomial": [0.0, 1.0, 6.0],
}
POSITIVE_MEANS = np.array([0.3, 0.8, 2.5, 7.0])
MEANS = dict.fromkeys(FAMILIES, POSITIVE_MEANS) | dict.fromkeys(
    ["bernoulli", "binomial"], np.array([0.03, 0.4, 0.5, 0.9])
)

# The displayed equations, typed again: log p(y | μ, s), V(μ) and μ(f) in multiple precision
STATED_DENSITY = {
    "gaussian": lambda y, mu, s: -((y - mu) ** 2) / (2 * s) - mp.log(2 * mp.pi * s) / 2,
    "bernoulli": lambda y, mu, s: (y and y * mp.log(mu)) + ((1 - y) and (1 - y) * mp.log(1 - mu)),
    "poisson": lambda y, mu, s: y * mp.log(mu) - mu - mp.loggamma(y + 1),
    "gamma": lambda y, mu, s: mp.log(y / (s * mu)) / s - y / (s * mu) - mp.log(y) - mp.loggamma(1 / s),
    "inverse_gaussian": lambda y, mu, s: -((y - mu) ** 2) / (2 * s * mu**2 * y) - mp.log(2 * mp.pi * s * y**3) / 2,
    "negative_binomial": lambda y, mu, s: (
        mp.log(mp.rf(1 / mp.mpf(ALPHA), int(y)) / mp.factorial(y))
        + y * mp.log(ALPHA * mu)
        - (y + 1 / mp.mpf(ALPHA)) * mp.log(1 + ALPHA * mu)
    ),
}
STATED_VARIANCE = {
    "gaussian": lambda mu: mp.mpf(1),
    "bernoulli": lambda mu: mu * (1 - mu),
    "poisson": lambda mu: mu,
    "gamma": lambda mu: mu**2,
    "inverse_gaussian": lambda mu: mu**3,
    "negative_binomial": lambda mu: mu + ALPHA * mu**2,
}
for stated in (STATED_DENSITY, STATED_VARIANCE):
    stated["binomial"] = stated["bernoulli"]
STATED_MEAN = {
    "identity": lambda f: f,
    "log": mp.exp,
    "sqrt": lambda f: f**2,
    "inverse": lambda f: 1 / f,
    "inverse_square": lambda f: 1 / mp.sqrt(f),
    "power(0.333333)": lambda f: f**3,
    "logit": lambda f: 1 / (1 + mp.exp(-f)),
    "probit": lambda f: mp.erfc(-f / mp.sqrt(2)) / 2,
    "cloglog": lambda f: 1 - mp.exp(-mp.exp(f)),
    "loglog": lambda f: mp.exp(-mp.exp(-f)),
    "cauchit": lambda f: mp.atan2(1, -f) / mp.pi,
}


def scores_of(likelihood: FamilyLikelihood) -> np.ndarray:
    """Scores whose means cover the range of the family."""
    if isinstance(likelihood.family, Gaussian) and isinstance(likelihood.link, Identity):
        return np.array([-3.0, -0.2, 0.0, 1.7])
    return likelihood.link.link(MEANS[likelihood.family.name])


def grid_of(likelihood: FamilyLikelihood) -> tuple[np.ndarray, np.ndarray]:
    y, f = np.meshgrid(TARGETS[likelihood.family.name], scores_of(likelihood))
    return y.ravel(), f.ravel()


def stated_log_prob(likelihood: FamilyLikelihood, y: float, f: mp.mpf) -> mp.mpf:
    mu = STATED_MEAN[likelihood.link.name](f)
    return STATED_DENSITY[likelihood.family.name](mp.mpf(y), mu, mp.mpf(likelihood.dispersion))


def stated_information(likelihood: FamilyLikelihood, f: mp.mpf) -> mp.mpf:
    mean = STATED_MEAN[likelihood.link.name]
    variance = STATED_VARIANCE[likelihood.family.name](mean(f))
    return mp.diff(mean, f) ** 2 / (mp.mpf(likelihood.dispersion) * variance)


def exact(likelihood: FamilyLikelihood, y, f, order: int, digits: int = 60) -> np.ndarray:
    """Derivatives of the stated log p(y | f) by differences with many digits, and steps of the size of f."""

    def at(y: float, f: float) -> float:
        step = mp.ldexp(abs(f) or 1, -mp.mp.prec)
        return float(mp.diff(lambda x: stated_log_prob(likelihood, y, x), mp.mpf(f), order, h=step))

    with mp.workdps(digits):
        return np.array([at(float(target), float(score)) for target, score in zip(y, f, strict=True)])


def nodes_of(family: Family, mu: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Targets and weights such that Σ weight · p(y) · g(y) is E[g(y)].

    Counts up to where nothing is left; for densities the trapezoidal rule, which for these smooth functions on the
    whole line (of y, or of log y) converges exponentially.
    """
    if isinstance(family, Bernoulli | Binomial):
        return np.array([0.0, 1.0]), np.ones(2)
    if isinstance(family, Poisson | NegativeBinomial):
        y = np.arange(600.0)  # the geometric tail of the negative binomial is 0.78^600 at μ = 7
        return y, np.ones(y.size)
    if isinstance(family, Gaussian):
        y = np.linspace(mu - 14 * np.sqrt(s), mu + 14 * np.sqrt(s), 2001)
        return y, np.full(y.size, y[1] - y[0])
    t = np.linspace(-30, 8, 20_001)  # e^-30 to the power of the shape 1/0.6 is 1e-22, of the mean is less
    return np.exp(t), np.exp(t) * (t[1] - t[0])


def expectation(likelihood: FamilyLikelihood, f: float, g) -> float:
    mu = float(likelihood.mean(np.array(f)))
    y, weight = nodes_of(likelihood.family, mu, likelihood.dispersion)
    return float(np.sum(weight * np.exp(likelihood.log_prob(y, np.full(y.shape, f))) * g(y)))


# --- Every family with every link ---------------------------------------------------------------------------


def test_every_family_and_link_has_an_entry_here():
    assert set(FAMILIES) == set(STATED_DENSITY) == {family.name for family in KINDS}
    assert set(LINKS) <= set(STATED_MEAN)


@EVERY
def test_the_log_density_is_the_displayed_equation_with_all_constants(likelihood):
    y, f = grid_of(likelihood)
    assert_allclose(likelihood.log_prob(y, f), exact(likelihood, y, f, 0), rtol=1e-13, atol=1e-14)


@EVERY
def test_three_derivatives_agree_with_multiple_precision(likelihood):
    y, f = grid_of(likelihood)
    grad, curvature = likelihood.slopes(y, f)
    got = (grad, -curvature, likelihood.third(y, f))
    for order, value in enumerate(got, start=1):
        # where terms cancel, errors are of their size: that of the expected ones, and of 1/f per order for powers
        size = likelihood.information(f) ** (order / 2)
        want = exact(likelihood, y, f, order)
        assert (np.abs(value - want) <= 1e-12 * np.abs(want) + 1e-13 * size).all(), order


@EVERY
def test_information_and_its_slope_agree_with_multiple_precision(likelihood):
    f = scores_of(likelihood)
    with mp.workdps(60):
        value = [float(stated_information(likelihood, mp.mpf(float(x)))) for x in f]
        slope = [float(mp.diff(lambda x: stated_information(likelihood, x), mp.mpf(float(x)))) for x in f]
    assert_allclose(likelihood.information(f), value, rtol=1e-12)
    rounding = 1e-14 * np.max(value) ** 1.5  # Poisson with "sqrt" has constant information, as a sum of two terms
    assert_allclose(likelihood.information_slope(f), slope, rtol=1e-11, atol=rounding)


@EVERY
def test_the_density_has_mass_one_and_the_stated_mean_and_variance(likelihood):
    for f in scores_of(likelihood):
        mu = likelihood.mean(f)
        assert_allclose(expectation(likelihood, f, np.ones_like), 1, rtol=1e-12)
        assert_allclose(expectation(likelihood, f, lambda y: y), mu, rtol=1e-12, atol=1e-12)
        variance = expectation(likelihood, f, lambda y, mu=mu: (y - mu) ** 2)
        assert_allclose(variance, likelihood.dispersion * likelihood.family.variance(mu), rtol=1e-11)


@EVERY
def test_information_is_the_expected_curvature_and_the_expected_gradient_is_zero(likelihood):
    for f in scores_of(likelihood):
        information = likelihood.information(f)
        expected = expectation(likelihood, f, lambda y, f=f: likelihood.slopes(y, np.full(y.shape, f)).curvature)
        squared = expectation(likelihood, f, lambda y, f=f: likelihood.slopes(y, np.full(y.shape, f)).grad ** 2)
        grad = expectation(likelihood, f, lambda y, f=f: likelihood.slopes(y, np.full(y.shape, f)).grad)
        assert_allclose(expected, information, rtol=1e-11)
        assert_allclose(squared, information, rtol=1e-11)
        assert_allclose(grad, 0, atol=1e-11 * np.sqrt(information))


@EVERY
def test_the_claim_of_log_concavity_is_true_both_ways(likelihood):
    family = likelihood.family
    if isinstance(family, Bernoulli | Binomial):
        mu, y = np.linspace(0.001, 0.999, 201), np.array([0.0, 1.0])  # linear in y, so its ends are enough
    else:
        mu = np.geomspace(1e-3, 1e3, 121)
        y = np.round(mu) if isinstance(family, Poisson | NegativeBinomial) else mu
    y, f = (grid.ravel() for grid in np.meshgrid(y, likelihood.link.link(mu)))
    curvature = likelihood.slopes(y, f).curvature
    assert np.isfinite(curvature).all()
    rounding = 1e-9 * likelihood.information(f)  # terms of that size cancel where the curvature is zero
    assert likelihood.log_concave == (curvature >= -rounding).all()


@EVERY
def test_an_expansion_is_the_log_probability_with_its_slopes(likelihood):
    y, f = grid_of(likelihood)
    outside = np.full(len(y), np.nan)
    for scores in (f, np.where(f > np.median(f), outside, f), outside):
        at, slopes = likelihood.expand(y, scores), likelihood.slopes(y, scores)
        # labels take the threshold's own way, which rounds log p to what a sum over rows has
        assert_allclose(at.log_prob, likelihood.log_prob(y, scores), rtol=1e-15, atol=2 * EPS)
        assert_allclose(at.grad, slopes.grad, rtol=1e-15)
        assert_allclose(at.curvature, slopes.curvature, rtol=1e-15)


@EVERY
def test_every_method_broadcasts_and_is_element_wise(likelihood):
    y, f = np.array(TARGETS[likelihood.family.name])[:, None], scores_of(likelihood)
    flat = tuple(grid.ravel() for grid in np.broadcast_arrays(y, f))
    for method in (likelihood.log_prob, likelihood.third, lambda y, f: likelihood.slopes(y, f).curvature):
        assert_array_equal(method(y, f).ravel(), method(*flat))
        assert_allclose(method(y, f).ravel(), [method(*pair) for pair in zip(*flat, strict=True)], rtol=1e-14)


OUTSIDE = {
    "positive": np.array([-1e300, -2.0, -1e-8, 0.0, np.nan, np.inf]),
    "any": np.array([np.nan, np.inf, -np.inf]),
    "below one": np.array([1.0, 1.5, 1e300, np.nan]),
}


@EVERY
def test_scores_outside_the_domain_are_impossible_and_silent(likelihood):
    link, family = likelihood.link, likelihood.family
    whole_line = link.name in {it.name for it in THRESHOLDS} | {"log"} or (
        isinstance(family, Gaussian) and link.name == "identity"
    )
    f = OUTSIDE["any" if whole_line else "positive"]
    if isinstance(family, Bernoulli | Binomial) and link.power is not None:
        too_large = link.link(np.array([1.0, 1.2, 40.0]))  # means of one and more
        f = np.concatenate([f, too_large])
    for y in TARGETS[family.name]:
        assert_array_equal(likelihood.log_prob(y, f), -np.inf)
        for value in (*likelihood.slopes(y, f), likelihood.third(y, f)):
            assert np.isnan(value).all()
    assert np.isnan(likelihood.information(f)).all()
    assert np.isnan(likelihood.information_slope(f)).all()
    with np.errstate(all="raise"):
        likelihood.mean(f)


@EVERY
def test_scores_far_inside_the_domain_are_silent(likelihood):
    f = np.array([1e-300, 1e-20, 1e-3, 40.0, 800.0, 1e5, 1e200])
    f = np.concatenate([-f, f])
    for y in TARGETS[likelihood.family.name]:
        inside = likelihood.form.inside(f)
        assert not np.isnan(likelihood.log_prob(y, f)).any()
        assert (likelihood.log_prob(y, f)[~inside] == -np.inf).all()


@EVERY
def test_starting_scores_are_inside_the_domain(likelihood):
    y = np.array(TARGETS[likelihood.family.name])
    f = starting_scores(likelihood, y)
    assert np.isfinite(likelihood.log_prob(y, f)).all()
    assert np.isfinite(likelihood.slopes(y, f).grad).all()


@EVERY
def test_the_tilted_moments_agree_with_a_fine_sum(likelihood):
    y, m, v = np.array(TARGETS[likelihood.family.name][0]), scores_of(likelihood)[2], 1e-4
    if isinstance(likelihood.link, Power | Identity):
        v *= m**2 if m else 1.0
    z = np.linspace(-12, 12, 4001)
    f = m + np.sqrt(v) * z
    mass = np.exp(likelihood.log_prob(y, f) - z**2 / 2)
    share = mass / mass.sum()
    tilted = likelihood.tilted(y, m, v)
    mean = share @ f
    assert_allclose(tilted.log_mass, np.log(mass.sum() / np.exp(-(z**2) / 2).sum()), rtol=1e-10, atol=1e-12)
    assert_allclose(tilted.mean, mean, rtol=1e-10, atol=1e-12)
    assert_allclose(tilted.var, share @ (f - mean) ** 2, rtol=1e-8)
    assert_allclose(likelihood.log_average(y, m, v), tilted.log_mass, rtol=1e-14)


@EVERY
def test_likelihoods_are_values(likelihood):
    likelihood.log_prob(1.0, np.array(0.5))
    copy = pickle.loads(pickle.dumps(likelihood))
    assert copy == likelihood
    assert repr(likelihood) == (
        f"FamilyLikelihood(family={likelihood.family!r}, link={likelihood.link!r}, dispersion={likelihood.dispersion})"
    )


# --- Tails --------------------------------------------------------------------------------------------------

TAILS = {
    ("bernoulli", "logit"): [-800.0, -40.0, 40.0, 800.0],
    ("binomial", "logit"): [-800.0, -40.0, 40.0, 800.0],
    ("binomial", "probit"): [-30.0, -9.0, 9.0, 30.0],
    ("binomial", "cloglog"): [-700.0, -40.0, 3.0, 6.0],
    ("binomial", "loglog"): [-6.0, -3.0, 40.0, 700.0],
    ("binomial", "cauchit"): [-1e8, -1e3, 1e3, 1e8],
    ("binomial", "log"): [-800.0, -40.0, -1e-3, -1e-12],
    ("poisson", "log"): [-800.0, -100.0, -40.0, 40.0, 300.0],
    ("poisson", "sqrt"): [1e-100, 1e-8, 1e8, 1e100],
    ("negative_binomial", "log"): [-800.0, -40.0, 40.0, 700.0],
    ("gaussian", "identity"): [-1e100, -1e8, 1e8, 1e100],
    ("gamma", "inverse"): [1e-100, 1e-8, 1e8, 1e100],
    ("gamma", "log"): [-300.0, -40.0, 40.0, 250.0],
    ("inverse_gaussian", "inverse_square"): [1e-100, 1e-8, 1e8, 1e100],
    ("inverse_gaussian", "log"): [-100.0, -40.0, 40.0, 300.0],
}


@pytest.mark.parametrize(("family", "link"), TAILS, ids=["-".join(pair) for pair in TAILS])
def test_tails_agree_with_multiple_precision(family, link):
    likelihood = likelihood_of(next(it for it in KINDS if it.name == family), link)
    y, f = (grid.ravel() for grid in np.meshgrid(TARGETS[family], np.array(TAILS[family, link])))
    # 1 - μ with μ = 1 - e^-800, and second differences of that; gamma and error functions of so many digits are slow
    digits = {"gamma": 120, "binomial-probit": 300, "poisson": 400, "negative_binomial": 400, "gaussian": 300}
    digits = digits.get(family, digits.get(f"{family}-{link}", 1000))
    grad, curvature = likelihood.slopes(y, f)
    got = (likelihood.log_prob(y, f), grad, -curvature)
    for order, value in enumerate(got):
        want = exact(likelihood, y, f, order, digits)
        assert_allclose(value, want, rtol=1e-12, atol=1e-300, err_msg=f"order {order}")


def test_the_normalising_constant_of_a_narrow_gamma_does_not_cancel():
    k = np.array([0.01, 1.0, 14.999, 15.0, 1e3, 1e8, 1e12])
    with mp.workdps(50):
        want = [float(mp.mpf(x) * mp.log(mp.mpf(x)) - mp.mpf(x) - mp.loggamma(mp.mpf(x))) for x in k]
    assert_allclose(stirling(k), want, rtol=2e-14)


def test_a_negative_binomial_without_extra_variance_is_a_poisson():
    y, mu = np.arange(10.0), 2.5
    nearly = NegativeBinomial(1e-10).log_density(y, mu)
    # log p differs by α {(y - μ)² - y} / 2 to first order; logarithms of α lose two digits
    assert_allclose(nearly, Poisson().log_density(y, mu) + 1e-10 * ((y - mu) ** 2 - y) / 2, rtol=1e-12, atol=1e-13)


# --- Families -----------------------------------------------------------------------------------------------

SCIPY = {
    "gaussian": lambda y, mu: stats.norm.logpdf(y, mu, np.sqrt(S)),
    "bernoulli": stats.bernoulli.logpmf,
    "poisson": stats.poisson.logpmf,
    "gamma": lambda y, mu: stats.gamma.logpdf(y, 1 / S, scale=S * mu),
    "inverse_gaussian": lambda y, mu: stats.invgauss.logpdf(y, S * mu, scale=1 / S),
    "negative_binomial": lambda y, mu: stats.nbinom.logpmf(y, 1 / ALPHA, 1 / (1 + ALPHA * mu)),
}


def dispersion_of(family: Family) -> float:
    return S if family.has_dispersion else 1.0


@FAMILY
def test_the_log_density_is_that_of_scipy(family):
    if isinstance(family, Binomial):
        y, totals = np.arange(6) / 5, np.full(6, 5.0)
        whole = totals * family.log_density(y, 0.3) + family.log_coefficients(y, totals)
        assert_allclose(whole, stats.binom.logpmf(np.arange(6), 5, 0.3), rtol=1e-13)
        return
    y, mu = np.meshgrid(TARGETS[family.name], MEANS[family.name])
    assert_allclose(family.log_density(y, mu, dispersion_of(family)), SCIPY[family.name](y, mu), rtol=1e-12)


@FAMILY
def test_the_unit_deviance_is_the_fall_of_the_log_density_from_a_perfect_fit(family):
    y, mu = np.meshgrid(TARGETS[family.name], MEANS[family.name])
    for s in (1.0, S) if family.has_dispersion else (1.0,):
        fall = 2 * s * (family.log_density(y, y.astype(float), s) - family.log_density(y, mu, s))
        assert_allclose(family.unit_deviance(y, mu), fall, rtol=1e-12, atol=1e-13)
    assert_allclose(family.unit_deviance(y, y), 0, atol=4 * EPS) if y.min() > 0 else None


@FAMILY
def test_quantiles_and_distribution_functions_belong_together(family):
    s = 1 / 7 if isinstance(family, Binomial) else dispersion_of(family)
    q, mu = np.meshgrid([0.025, 0.3, 0.5, 0.975], MEANS[family.name])
    y = family.quantile(q, mu, s)
    below = family.cdf(y, mu, s)
    if isinstance(family, Gaussian | Gamma | InverseGaussian):
        assert_allclose(below, q, rtol=1e-9)  # the root finding of scipy
    else:
        grain = s if isinstance(family, Binomial) else 1.0
        assert (below >= q).all()
        assert (family.cdf(y - grain, mu, s) < q).all()


@FAMILY
def test_distribution_functions_are_sums_of_the_density(family):
    if isinstance(family, Binomial):
        k, totals = np.arange(8.0), np.full(8, 7.0)
        p = np.exp(7 * family.log_density(k / 7, 0.3) + family.log_coefficients(k / 7, totals))
        assert_allclose(family.cdf(k / 7, np.full(8, 0.3), 1 / 7), np.cumsum(p), rtol=1e-12)
        return
    s, mu = dispersion_of(family), MEANS[family.name][1]
    y, weight = nodes_of(family, mu, s)
    below = np.cumsum(weight * np.exp(family.log_density(y, np.full(y.shape, mu), s)))
    if family.has_dispersion:  # the trapezoidal sum up to a point, with half of its last term, has an error of order h²
        below -= 0.5 * weight * np.exp(family.log_density(y, np.full(y.shape, mu), s))
    some = slice(0, None, max(1, y.size // 40))
    assert_allclose(family.cdf(y, mu, s)[some], below[some], rtol=1e-12, atol=2e-5 if family.has_dispersion else 0)


@FAMILY
def test_draws_have_the_stated_mean_and_variance(family):
    n, mu = 40_000, MEANS[family.name][2]
    s = 1 / 7 if isinstance(family, Binomial) else dispersion_of(family)
    draws = family.sample(np.random.default_rng(0), np.full(n, mu), s)
    variance = s * family.variance(mu)
    assert_allclose(draws.mean(), mu, atol=5 * np.sqrt(variance / n))  # five standard errors
    spread = np.sqrt(np.var((draws - mu) ** 2) / n)
    assert_allclose(np.mean((draws - mu) ** 2), variance, atol=5 * spread)
    family.check_targets(draws)
    assert family.sample(np.random.default_rng(0), np.array(mu), s).shape == ()


@FAMILY
def test_means_outside_the_range_are_not_valid(family):
    mu = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan])
    want = {
        (-np.inf, np.inf): [1, 1, 1, 1, 1, 0, 0],
        (0.0, np.inf): [0, 0, 1, 1, 1, 0, 0],
        (0.0, 1.0): [0, 0, 1, 0, 0, 0, 0],
    }
    assert_array_equal(family.valid_mean(mu), np.array(want[family.mean_range], dtype=bool))


BAD = {
    "gaussian": [(np.nan, "finite numbers")],
    "bernoulli": [(0.5, "0 or 1"), (2.0, "0 or 1"), (np.inf, "finite")],
    "binomial": [(-0.1, "proportions between 0 and 1"), (1.1, "proportions"), (np.nan, "finite")],
    "poisson": [(-1.0, "0 or more"), (1.5, "whole numbers"), (np.inf, "finite")],
    "gamma": [(0.0, "positive"), (-2.0, "positive"), (np.nan, "finite")],
    "inverse_gaussian": [(0.0, "positive"), (np.nan, "finite")],
    "negative_binomial": [(-1.0, "0 or more"), (1.5, "whole numbers")],
}


@FAMILY
def test_impossible_targets_are_refused_with_their_row(family):
    family.check_targets(np.array(TARGETS[family.name]))
    good = TARGETS[family.name][1]
    for value, rule in BAD[family.name]:
        with pytest.raises(
            InputError, match=rf"{family.name} family must be .*{rule}.*: 2 of 5 are not.* row 2 with {value:g}"
        ):
            family.check_targets(np.array([good, good, value, good, value]))


def test_successes_that_are_not_whole_or_too_many_are_refused():
    Binomial().check_totals(np.array([1 / 3, 0.0, 29 / 49, 0.5]), np.array([3.0, 5.0, 49.0, 0.0]))
    with pytest.raises(InputError, match=r"numbers of successes .* whole numbers: 1 of 2 is not, the first in row 1"):
        Binomial().check_totals(np.array([0.5, 0.5]), np.array([2.0, 3.0]))
    with pytest.raises(InputError, match="at most the number of trials"):
        Binomial().check_totals(np.array([1.5]), np.array([2.0]))
    with pytest.raises(InputError, match="numbers of trials of the binomial family must be whole numbers"):
        Binomial().check_totals(np.array([0.5]), np.array([2.5]))


def test_families_are_resolved_by_name():
    assert resolve_family("inverse_gaussian") == InverseGaussian()
    assert resolve_family(NegativeBinomial(0.3)) == NegativeBinomial(0.3)
    with pytest.raises(InputError, match="'tweedie' is not known; choose 'gaussian', 'bernoulli'"):
        resolve_family("tweedie")


def test_dispersions_are_positive_and_only_where_there_is_one():
    with pytest.raises(InputError, match="the poisson family has no dispersion"):
        FamilyLikelihood(Poisson(), Log(), 2.0)
    with pytest.raises(InputError, match="positive number, not 0"):
        FamilyLikelihood(Gamma(), Log(), 0.0)
    with pytest.raises(InputError, match="positive number, not -1"):
        NegativeBinomial(-1.0)


def test_another_dispersion_divides_the_slopes():
    one = FamilyLikelihood(Gamma(), Log())
    half = one.with_dispersion(0.5)
    y, f = grid_of(one)
    assert half == replace(one, dispersion=0.5)
    assert_allclose(half.slopes(y, f).grad, 2 * one.slopes(y, f).grad, rtol=1e-14)


# --- What the notes say about families ----------------------------------------------------------------------

NATURAL = {  # η(μ) and b(η)
    "gaussian": (lambda mu: mu, lambda eta: eta**2 / 2),
    "poisson": (np.log, np.exp),
    "gamma": (lambda mu: -1 / mu, lambda eta: -np.log(-eta)),
    "inverse_gaussian": (lambda mu: -1 / (2 * mu**2), lambda eta: -np.sqrt(-2 * eta)),
    "bernoulli": (lambda mu: np.log(mu / (1 - mu)), lambda eta: np.logaddexp(0, eta)),
}


@pytest.mark.parametrize("name", NATURAL)
def test_what_is_left_of_the_exponential_dispersion_form_depends_on_the_dispersion_only(name):
    family, (natural, partition) = FAMILIES[name], NATURAL[name]
    y, eta = np.array(TARGETS[name])[:, None], natural(MEANS[name])
    for s in (1.0, S, 2.5) if family.has_dispersion else (1.0,):
        rest = family.log_density(y, MEANS[name], s) - (eta * y - partition(eta)) / s  # log h(y, s)
        assert_allclose(rest, np.broadcast_to(rest[:, :1], rest.shape), rtol=1e-11, atol=1e-12)
    if family.natural_slope is not None:  # κ = dη/df of the canonical link
        f = family.default_link.link(MEANS[name])
        assert_allclose(np.diff(eta) / np.diff(f), family.natural_slope, rtol=1e-12)


SCALED = {  # the dispersion of t when t/s has the dispersion 1
    "gaussian": lambda s: s**2,
    "gamma": lambda s: 1.0,
    "inverse_gaussian": lambda s: 1 / s,
}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("s", [0.4, 3.0])
def test_the_form_of_the_notes_has_a_scale_for_s(name, s):
    """(1/s) h(t/s) g(η) exp(ηt/s), E[t] = -s d ln g / dη: s is the Gaussian's standard deviation, not its variance."""
    family, (natural, partition) = FAMILIES[name], NATURAL[name]
    t = np.array(TARGETS[name])[:, None]
    eta = natural(MEANS[name])
    log_h = family.log_density(t / s, MEANS[name], 1.0) - (eta * t / s - partition(eta))
    stated = -np.log(s) + log_h - partition(eta) + eta * t / s  # ln g = -b
    assert_allclose(family.log_density(t, s * MEANS[name], SCALED[name](s)), stated, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("family", [Gaussian(), Gamma(), InverseGaussian()], ids=lambda it: it.name)
def test_the_constant_of_the_log_likelihood_is_not_constant_in_the_dispersion(family):
    """MISSION 2.2: the shortened form Σ (ηy - b)/s has no maximum over s inside; the whole one has, and it is right."""
    rng, mu = np.random.default_rng(3), np.linspace(1, 3, 200)
    y = family.sample(rng, mu, 0.3)
    natural, partition = NATURAL[family.name]
    natural_terms = float(np.sum(natural(mu) * y - partition(natural(mu))))

    def log_likelihood(log_s: float) -> float:
        return float(np.sum(family.log_density(y, mu, np.exp(log_s))))

    best = minimize_scalar(
        lambda log_s: -log_likelihood(log_s), bounds=(-6, 3), method="bounded", options={"xatol": 1e-9}
    )
    fit = np.exp(best.x)
    if isinstance(family, Gamma):
        shape = 1 / fit  # its maximum likelihood equation: log k - ψ(k) = half the mean deviance
        assert_allclose(np.log(shape) - float(mp.digamma(shape)), deviance(family, y, mu) / 400, rtol=1e-6)
    else:
        assert_allclose(fit, deviance(family, y, mu) / 200, rtol=1e-6)  # xatol; the maximum is flat
    assert abs(natural_terms / fit**2) > 1  # the slope of the shortened form in s, zero nowhere
    rest = [log_likelihood(np.log(s)) - natural_terms / s for s in (0.1, 0.3, 1.0)]
    assert np.ptp(rest) > 1


def scoring(likelihood: FamilyLikelihood, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Fisher scoring: least squares with weights I(f) and working targets f + grad / I(f); back off where L falls."""

    def full_step(f: np.ndarray) -> np.ndarray:
        root = np.sqrt(likelihood.information(f) * w)
        target = f + likelihood.slopes(y, f).grad / likelihood.information(f)
        return np.linalg.lstsq(root[:, None] * X, root * target, rcond=None)[0]

    def value(beta: np.ndarray) -> float:
        return float(np.sum(w * likelihood.log_prob(y, X @ beta)))

    beta = full_step(starting_scores(likelihood, y, w))
    if value(beta) == -np.inf:  # the first step may leave the domain; the scores of one mean for all do not
        beta = np.append(0.0, likelihood.link.link(np.average(y, weights=w)))
    for _ in range(100):
        step = full_step(X @ beta) - beta
        while value(beta + step) < value(beta) and np.abs(step).max() > 1e-12:
            step /= 2
        beta = beta + step
    return beta


def test_the_weights_of_irls_depend_on_the_family():
    """E-29: with one link and one set of means the weights are those of each variance function."""
    f = np.array([-0.5, 0.2, 1.1])
    mu = np.exp(f)
    weights = {
        family.name: FamilyLikelihood(family, Log()).information(f)
        for family in KINDS
        if family.name in SCIPY and family.name != "bernoulli"
    }
    want = {
        "gaussian": mu**2,
        "poisson": mu,
        "gamma": np.ones(3),
        "inverse_gaussian": 1 / mu,
        "negative_binomial": mu / (1 + ALPHA * mu),
    }
    assert weights.keys() == want.keys()
    for name, weight in weights.items():
        assert_allclose(weight, want[name], rtol=1e-14)


def test_estimates_depend_on_the_family_though_mean_and_link_are_the_same():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=80), np.ones(80)])
    y = rng.poisson(np.exp(1.5 + 0.4 * X[:, 0])) + 1.0
    families = [Gaussian(), Poisson(), Gamma(), InverseGaussian(), NegativeBinomial(ALPHA)]
    slopes = [scoring(FamilyLikelihood(family, Log()), X, y, np.ones(80))[0] for family in families]
    assert np.diff(np.sort(slopes)).min() > 1e-3


THEIRS = {
    "gaussian": sm.families.Gaussian,
    "bernoulli": sm.families.Binomial,
    "binomial": sm.families.Binomial,
    "poisson": sm.families.Poisson,
    "gamma": sm.families.Gamma,
    "inverse_gaussian": sm.families.InverseGaussian,
    "negative_binomial": lambda link, **options: sm.families.NegativeBinomial(link, alpha=ALPHA, **options),
}
LINK_OF_THEIRS = {
    "identity": sm.families.links.Identity,
    "log": sm.families.links.Log,
    "sqrt": sm.families.links.Sqrt,
    "inverse": sm.families.links.InversePower,
    "inverse_square": sm.families.links.InverseSquared,
    "logit": sm.families.links.Logit,
    "probit": sm.families.links.Probit,
    "cloglog": sm.families.links.CLogLog,
    "loglog": sm.families.links.LogLog,
    "cauchit": sm.families.links.Cauchy,
}


def has_an_estimate(likelihood: FamilyLikelihood) -> bool:
    """Whether statsmodels gets there: it has no line search, and means above one throw it out."""
    power = likelihood.link.power
    too_bold = power is not None and (power < 0 or (power == 0.5 and isinstance(likelihood.family, Bernoulli)))
    labels = isinstance(likelihood.family, Bernoulli | Binomial)
    return likelihood.link.name in LINK_OF_THEIRS and not (labels and too_bold)


@pytest.mark.parametrize(
    "likelihood", [*filter(has_an_estimate, PAIRS)], ids=lambda it: f"{it.family.name}-{it.link.name}"
)
@pytest.mark.filterwarnings("ignore")  # statsmodels warns of links that it thinks unusual
def test_maximum_likelihood_and_its_deviance_agree_with_statsmodels(likelihood):
    rng, family = np.random.default_rng(11), likelihood.family
    X = np.column_stack([rng.uniform(-1, 1, 60), np.ones(60)])
    proportions = isinstance(family, Bernoulli | Binomial)
    middle, reach = (0.5, 0.25) if proportions else (3.0, 1.2)
    ends = likelihood.link.link(np.array([middle - reach, middle + reach]))
    mu = likelihood.link.mean(ends.mean() + X[:, 0] * np.ptp(ends) / 2)
    w = np.full(60, 9.0) if isinstance(family, Binomial) else np.ones(60)
    s = 1 / 9 if isinstance(family, Binomial) else 0.02 if family.has_dispersion else 1.0
    y = family.sample(rng, mu, s)
    described = THEIRS[family.name](LINK_OF_THEIRS[likelihood.link.name](), check_link=False)
    theirs = sm.GLM(y, X, described, var_weights=w).fit(tol=1e-13, maxiter=200)
    ours = scoring(likelihood, X, y, w)
    assert_allclose(ours, theirs.params, rtol=1e-6)  # their iteration ends when the deviance stands still
    fitted = likelihood.mean(X @ ours)
    assert_allclose(deviance(family, y, fitted, w), theirs.deviance, rtol=1e-9)
    assert_allclose(pearson(family, y, fitted, w), theirs.pearson_chi2, rtol=1e-6)


# --- R ------------------------------------------------------------------------------------------------------

R_NAMES = {"1/mu^2": "inverse_square", "inverse.gaussian": "inverse_gaussian"}


def r_cases() -> dict:
    if not SHARED_IS_HERE:
        return {}
    files = [load_refload().load(name)["cases"] for name in ("glm_binary", "glm_other")]
    return {f"{key}-{link}": (case, link) for cases in files for key, case in cases.items() for link in case["links"]}


@needs_shared
@pytest.mark.parametrize(("case", "link"), r_cases().values(), ids=r_cases().keys())
def test_reports_at_the_estimate_are_those_of_r(case, link, refload):
    X, y, w = refload.design(case["design"])
    stored = case["links"][link]
    family = resolve_family(R_NAMES.get(case["family"].lower(), case["family"].lower()))
    likelihood = FamilyLikelihood(family, resolve_link(R_NAMES.get(link, link), family))
    f = X @ np.asarray(stored["coef"])
    mu = likelihood.mean(f)
    assert_allclose(deviance(family, y, mu, w), stored["deviance"], rtol=1e-10)
    assert_allclose(pearson(family, y, mu, w), stored["pearson_chi2"], rtol=1e-10)
    log_likelihoods = ("loglik", "loglik_binomial", "loglik_at_phi_deviance_over_n", "loglik_ml", "loglik_bernoulli")
    want = next(stored[key] for key in log_likelihoods if key in stored)
    assert_allclose(r_log_likelihood(family, y, mu, w), want, rtol=1e-10)
    s = stored.get("dispersion_pearson", 1.0)
    for kind, weight in (("expected", likelihood.information(f)), ("observed", likelihood.slopes(y, f).curvature)):
        information = X.T @ ((weight * w / s)[:, None] * X)
        errors = np.sqrt(np.diag(np.linalg.solve(information, np.eye(X.shape[1]))))
        assert_allclose(errors, stored[f"se_{kind}_information"], rtol=1e-7)  # conditioning of the columns
    assert_allclose(X.T @ (w * likelihood.slopes(y, f).grad), 0, atol=1e-7 * (w * np.abs(X.T)).sum())


def test_the_log_likelihood_of_weighted_gaussian_rows_divides_their_variance():
    y, mu, w = np.array([1.0, 2.0, 4.0, 9.0]), np.array([1.5, 2.5, 3.0, 0.0]), np.array([1.0, 2.0, 0.5, 0.0])
    s = (w * (y - mu) ** 2).sum() / 3
    want = stats.norm.logpdf(y[:3], mu[:3], np.sqrt(s / w[:3])).sum()
    assert_allclose(r_log_likelihood(Gaussian(), y, mu, w), want, rtol=1e-14)


def test_a_gaussian_with_the_identity_link_is_averaged_in_closed_form():
    likelihood = FamilyLikelihood(Gaussian(), Identity(), 0.5)
    y, m, v = np.array([1.0, -2.0]), np.array([0.3, 0.1]), np.array([0.4, 0.2])
    assert_allclose(likelihood.log_average(y, m, v), stats.norm.logpdf(y, m, np.sqrt(v + 0.5)), rtol=1e-14)
    for got, want in zip(likelihood.tilted(y, m, v), Likelihood.tilted(likelihood, y, m, v), strict=True):
        assert_allclose(got, want, rtol=1e-10)  # quadrature with 64 nodes


def test_labels_are_averaged_as_their_threshold_is():
    likelihood = FamilyLikelihood(Bernoulli(), Logit())
    y, m, v = np.array([1.0, 0.0]), np.array([0.3, 40.0]), np.array([90.0, 0.7])
    for got, want in zip(likelihood.tilted(y, m, v), Logit().threshold.tilted(y, m, v), strict=True):
        assert_array_equal(got, want)


def test_targets_without_a_score_start_where_the_others_are():
    likelihood = FamilyLikelihood(Gaussian(), Log())
    assert_allclose(
        starting_scores(likelihood, np.array([-3.0, 4.0, 0.0])), np.log([np.sqrt(25 / 3), 4.0, np.sqrt(25 / 3)])
    )
    assert_array_equal(starting_scores(likelihood, np.zeros(2)), 0)


@FAMILY
def test_starting_means_are_those_of_r_and_inside_the_range(family):
    y, w = np.array(TARGETS[family.name]), np.array([1.0, 4.0, 2.0])[: len(TARGETS[family.name])]
    start = family.starting_mean(y, w)
    want = {"poisson": y + 0.1, "negative_binomial": y + (y == 0) / 6}
    want |= dict.fromkeys(["bernoulli", "binomial"], (w * y + 0.5) / (w + 1))
    assert_allclose(start, want.get(family.name, y), rtol=1e-15)
    assert family.valid_mean(start).all()
