"""Links against their displayed equations in multiple precision, averages against a fine sum."""

import pickle

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.errors import InputError
from credibly.model.likelihoods.families import FAMILIES, Gamma, NegativeBinomial, Poisson
from credibly.model.likelihoods.links import LINKS, POWERS, THRESHOLDS, Log, Logit, Power, resolve_link

EVERY_LINK = (*LINKS.values(), Power(1 / 3), Power(-0.4))
EVERY = pytest.mark.parametrize("link", EVERY_LINK, ids=lambda link: link.name)
OF_THRESHOLDS = pytest.mark.parametrize("link", THRESHOLDS, ids=lambda link: link.name)

# The displayed equations, typed again: μ(f)
STATED_MEAN = {
    "identity": lambda f: f,
    "log": mp.exp,
    "sqrt": lambda f: f**2,
    "inverse": lambda f: 1 / f,
    "inverse_square": lambda f: 1 / mp.sqrt(f),
    "power(0.333333)": lambda f: f**3,
    "power(-0.4)": lambda f: f ** (mp.mpf(-5) / 2),
    "logit": lambda f: 1 / (1 + mp.exp(-f)),
    "probit": lambda f: mp.erfc(-f / mp.sqrt(2)) / 2,
    "cloglog": lambda f: -mp.expm1(-mp.exp(f)),
    "loglog": lambda f: mp.exp(-mp.exp(-f)),
    "cauchit": lambda f: mp.atan2(1, -f) / mp.pi,
}


def scores(link) -> np.ndarray:
    """Scores of all sizes that the link has a mean for."""
    return np.geomspace(0.05, 20, 7) if isinstance(link, Power) else np.array([-6.5, -2.0, -0.3, 0.0, 0.1, 1.5, 4.0])


def exact(function, f, order: int) -> np.ndarray:
    with mp.workdps(60):
        return np.array([float(mp.diff(function, mp.mpf(float(x)), order)) for x in f])


@EVERY
def test_the_inverse_link_and_its_derivatives_are_those_of_the_displayed_equation(link):
    f, stated = scores(link), STATED_MEAN[link.name]
    # loglog has the mean exp(-665) in this range: half a unit in the last place of 665 is a relative error of 6e-14
    assert_allclose(link.mean(f), exact(stated, f, 0), rtol=1e-13)
    for order, got in enumerate(link.derivatives(f), start=1):  # some pass through zero
        assert_allclose(got, exact(stated, f, order), rtol=1e-13, atol=1e-16)


@EVERY
def test_the_log_mean_and_its_derivatives_are_those_of_the_displayed_equation(link):
    f = scores(link)
    f = f[f > 0] if link.name == "identity" else f
    stated = lambda x: mp.log(STATED_MEAN[link.name](x))  # noqa: E731
    assert_allclose(link.log_mean(f), exact(stated, f, 0), rtol=1e-13, atol=1e-15)
    for order, got in enumerate(link.log_mean_derivatives(f), start=1):
        assert_allclose(got, exact(stated, f, order), rtol=1e-12, atol=1e-60)  # differences have 60 digits


@EVERY
def test_the_link_undoes_its_inverse(link):
    f = scores(link)[:-1]  # at f = 4 the mean of cloglog is 1 - 2e-24
    moved = 4 * np.finfo(float).eps * np.abs(link.mean(f) / link.derivatives(f)[0])  # f moves so when μ is rounded
    assert (np.abs(link.link(link.mean(f)) - f) <= moved + 4 * np.finfo(float).eps * np.abs(f)).all()


@EVERY
def test_derivatives_in_the_far_tails_are_finite_and_silent(link):
    f = np.array([1e-100, 1e-3, 50.0, 800.0, 1e100, 1e200])
    f = f if isinstance(link, Power) else np.concatenate([-f, f])
    for order, got in enumerate(link.derivatives(f)):
        expected_overflow = link.name == "log" or isinstance(link, Power)  # e^800 and 1e-100^-3 are no doubles
        assert not np.isnan(got).any(), order
        assert expected_overflow or np.isfinite(got).all(), order


@OF_THRESHOLDS
def test_the_lower_tail_keeps_its_digits(link):
    f = np.array([-30.0, -5.0]) if link.name != "loglog" else np.array([-6.0, -2.0])
    assert_allclose(link.mean(f), exact(STATED_MEAN[link.name], f, 0), rtol=1e-13)


@OF_THRESHOLDS
def test_a_threshold_likelihood_has_the_same_probability_of_label_one(link):
    f = np.linspace(-6, 6, 25)
    assert_allclose(link.threshold.mean(f), link.mean(f), rtol=1e-13)
    assert_allclose(np.exp(link.threshold.log_prob(np.array(1.0), f)), link.mean(f), rtol=1e-13)


def fine_average(link, m: float, v: float) -> float:
    """Trapezoidal sum over ±14 standard deviations: its error is exp(-2πa/h) with a pole a step-lengths away."""
    z = np.linspace(-14, 14, 20_001)
    weight = np.exp(-0.5 * z**2)
    f = m + np.sqrt(v) * z
    mean = f**2 if link.name == "sqrt" else link.mean(f)
    return float(weight @ mean / weight.sum())


@pytest.mark.parametrize("m", [-4.0, 0.3, 2.0])
@pytest.mark.parametrize("v", [1e-8, 0.3, 9.0])
@pytest.mark.parametrize(
    "link", [link for link in POWERS if link.average(0.0, 1.0) is not None] + list(THRESHOLDS), ids=lambda it: it.name
)
def test_the_average_is_the_integral_over_the_score(link, m, v):
    assert_allclose(link.average(np.array(m), np.array(v)), fine_average(link, m, v), rtol=1e-12)


def test_averages_exist_for_all_links_but_the_diverging_ones():
    without = {link.name for link in EVERY_LINK if link.average(np.array(1.0), np.array(0.1)) is None}
    assert without == {"inverse", "inverse_square", "power(0.333333)", "power(-0.4)"}


@EVERY
def test_averages_broadcast(link):
    average = link.average(np.array([0.1, 0.2]), np.array([[1.0], [2.0], [3.0]]))
    assert average is None or average.shape == (3, 2)


@EVERY
def test_scores_without_a_mean_are_not_valid(link):
    f = np.array([-1.0, 0.0, 1.0, np.inf, np.nan])
    assert_array_equal(link.valid(f), [not isinstance(link, Power), not isinstance(link, Power), True, False, False])


def test_the_ends_of_the_range_of_means_have_infinite_scores():
    for link in THRESHOLDS:
        assert link.link(np.array(0.0)) < -1e15
        assert link.link(np.array(1.0)) > 1e15
    assert Log().link(np.array(0.0)) == -np.inf
    assert np.isnan(Log().link(np.array(-1.0)))


@EVERY
def test_links_are_values(link):
    assert pickle.loads(pickle.dumps(link)) == link
    assert hash(link) == hash(pickle.loads(pickle.dumps(link)))


def test_the_probit_is_the_quantile_and_not_the_distribution_function():  # E-8
    assert_allclose(LINKS["probit"].link(np.array(0.975)), 1.959963984540054, rtol=1e-14)
    assert_allclose(LINKS["probit"].mean(np.array(1.959963984540054)), 0.975, rtol=1e-14)


def test_names_are_resolved_for_a_family():
    assert resolve_link("inverse", Gamma()) == Power(-1.0)
    assert resolve_link(None, Gamma()) == Power(-1.0)
    assert resolve_link(None, NegativeBinomial(0.3)) == Log()
    assert resolve_link(Power(1 / 3), Poisson()) == Power(1 / 3)
    for family in FAMILIES.values():
        assert family.default_link.name in family.links
        assert [resolve_link(name, family).name for name in family.links] == list(family.links)


def test_an_unknown_link_is_refused_with_the_choices():
    with pytest.raises(
        InputError, match=r"'logit' is not a link of the poisson family; choose 'identity', 'log', 'sqrt'"
    ):
        resolve_link("logit", Poisson())


def test_a_power_of_zero_is_refused():
    with pytest.raises(InputError, match=r"use Log\(\)"):
        Power(0.0)
    assert Logit().power is None
