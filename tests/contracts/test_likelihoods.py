"""What every likelihood must satisfy; a subclass of `Likelihood` without an entry in `ENTRIES` fails the first test.

The family likelihoods of generalised linear models have targets that are no labels, and a contract of their own.
"""

import inspect
import itertools
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from credibly.errors import InputError
from credibly.model import likelihoods
from credibly.model.likelihoods import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliDistribution,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliMixture,
    BernoulliProbit,
    Categorical,
    Likelihood,
    LocationScale,
    NormalMixture,
)
from credibly.model.likelihoods.families import EVERY as EVERY_FAMILY
from credibly.model.likelihoods.families import Gaussian
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Identity, resolve_link
from credibly.numerics.quadrature import gauss_hermite
from credibly.numerics.special import log_sum_exp

EPS = np.finfo(float).eps
STEP = EPS ** (1 / 3)  # central differences: truncation h²/6 and rounding eps/h meet at the cube root
SCORES = np.linspace(-6, 6, 25)
TAILS = np.array([-1e4, -800.0, -40.0, -5.0, 0.0, 5.0, 40.0, 800.0, 1e4])
ELSEWHERE = {"FamilyLikelihood"}  # has its own contract


class Digits(NamedTuple):
    """Relative errors that are allowed in the tails, and the absolute one of the derivatives."""

    log_prob: float = 1e-14
    grad: float = 1e-13
    curvature: float = 1e-13
    third: float = 1e-12
    floor: float = 0.0


class Entry(NamedTuple):
    """One likelihood and the displayed equation, typed again: log p(y | f) in multiple precision, for both labels."""

    likelihood: Likelihood
    log_zero: Callable[[mp.mpf], mp.mpf]
    log_one: Callable[[mp.mpf], mp.mpf]
    digits: Digits = Digits()

    def stated(self, y):
        return (self.log_zero, self.log_one)[y]


def mp_log_sigmoid(f: mp.mpf) -> mp.mpf:
    return mp.log(1 / (1 + mp.exp(-f))) if f < 0 else -mp.log1p(mp.exp(-f))


def mp_normal_cdf(f: mp.mpf) -> mp.mpf:
    return mp.erfc(-f / mp.sqrt(2)) / 2


def mp_log_normal_cdf(f: mp.mpf) -> mp.mpf:
    return mp.log(mp_normal_cdf(f)) if f < 0 else mp.log1p(-mp_normal_cdf(-f))


def mp_log_cauchy_cdf(f: mp.mpf) -> mp.mpf:
    return mp.log(mp.mpf(1) / 2 + mp.atan(f) / mp.pi)


def mp_log_student_cdf(f: mp.mpf) -> mp.mpf:
    """Three degrees of freedom, for which the integral is elementary."""
    t = f / mp.sqrt(3)
    return mp.log(mp.mpf(1) / 2 + (t / (1 + t**2) + mp.atan(t)) / mp.pi)


def mp_log_cloglog(f: mp.mpf) -> mp.mpf:
    if f > 50:  # exp(-e^50) and its derivatives are zero to a million digits, which mpmath would try to find
        return mp.mpf(0)
    return mp.log(-mp.expm1(-mp.exp(f))) if f < 0 else mp.log1p(-mp.exp(-mp.exp(f)))


HUMPS = NormalMixture([0.3, 0.7], [-2.0, 1.5], [0.75, 1.0])  # scales that are exact in binary


def mp_log_humps(sign: int) -> Callable[[mp.mpf], mp.mpf]:
    """Log probability of one label, from the smaller of the two sums."""

    def side(f: mp.mpf) -> mp.mpf:
        parts = zip(HUMPS.weights, HUMPS.means, HUMPS.scales, strict=True)
        terms = [(mp.mpf(w), (f - mp.mpf(m)) / mp.mpf(s)) for w, m, s in parts]
        total = mp.fsum(w for w, _ in terms)
        own, other = (mp.fsum(w * mp_normal_cdf(k * sign * z) for w, z in terms) / total for k in (1, -1))
        return mp.log(own) if own < other else mp.log1p(-other)

    return side


def mp_log_flipped(y: int) -> Callable[[mp.mpf], mp.mpf]:
    """Ten per cent of the zeros and a fifth of the ones are recorded wrongly; the numbers are those of doubles."""

    def side(f: mp.mpf) -> mp.mpf:
        up, down = mp.mpf(0.1), mp.mpf(0.2)
        one = mp.exp(mp_log_sigmoid(f))
        return mp.log(up * (1 - one) + (1 - down) * one if y else (1 - up) * (1 - one) + down * one)

    return side


def mp_log_genlogistic(f: mp.mpf) -> mp.mpf:
    return -mp.mpf(2.5) * mp.log1p(mp.exp(-f))


# SciPy's functions and differences of its log density: see the notes of BernoulliDistribution
BY_SCIPY = Digits(log_prob=1e-10, grad=1e-10, curvature=1e-9, third=1e-7, floor=1e-7)

ENTRIES = [
    Entry(BernoulliLogit(), lambda f: mp_log_sigmoid(-f), mp_log_sigmoid),
    Entry(BernoulliProbit(), lambda f: mp_log_normal_cdf(-f), mp_log_normal_cdf),
    Entry(BernoulliCauchit(), lambda f: mp_log_cauchy_cdf(-f), mp_log_cauchy_cdf),
    Entry(BernoulliCloglog(), lambda f: -mp.exp(f), mp_log_cloglog),
    Entry(BernoulliLoglog(), lambda f: mp_log_cloglog(-f), lambda f: -mp.exp(-f)),
    # the third cumulant of the shares is a sum of terms that are larger than it
    Entry(BernoulliMixture(HUMPS), mp_log_humps(-1), mp_log_humps(1), Digits(third=1e-11)),
    Entry(
        LocationScale(BernoulliProbit(), 0.5, 2.0),
        lambda f: mp_log_normal_cdf(-(f - 0.5) / 2),
        lambda f: mp_log_normal_cdf((f - 0.5) / 2),
    ),
    Entry(
        BernoulliDistribution(stats.genlogistic(2.5)),
        lambda f: mp.log(-mp.expm1(mp_log_genlogistic(f))),
        mp_log_genlogistic,
        BY_SCIPY,
    ),
    Entry(BernoulliDistribution(stats.t(3.0)), lambda f: mp_log_student_cdf(-f), mp_log_student_cdf, BY_SCIPY),
    Entry(LabelNoise(BernoulliLogit(), 0.1, 0.2), mp_log_flipped(0), mp_log_flipped(1)),
]


def shipped_likelihoods() -> set[type[Likelihood]]:
    """Every concrete subclass that credibly itself defines (tests may define others)."""
    found, waiting = set(), [Likelihood]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            ours = kind.__module__.startswith("credibly.") and kind.__name__ not in ELSEWHERE
            if ours and not inspect.isabstract(kind):
                found.add(kind)
    return found


EVERY = pytest.mark.parametrize("likelihood", [it.likelihood for it in ENTRIES], ids=lambda it: type(it).__name__)
EVERY_ENTRY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda it: type(it.likelihood).__name__)
BOTH_LABELS = pytest.mark.parametrize("y", [0, 1])


def double(number: mp.mpf) -> float:
    """Nearest double; infinite where there is none."""
    return float(number) if abs(number) < mp.mpf(2) ** 1024 else float(mp.sign(number)) * np.inf


def derivative(log_prob: Callable[[mp.mpf], mp.mpf], order: int, f: np.ndarray) -> np.ndarray:
    with mp.workdps(120):  # log p is up to 5e7 and its third derivative down to 2e-12: 20 digits cancel per order
        return np.array([double(mp.diff(log_prob, mp.mpf(float(x)), order)) for x in f])


def test_every_likelihood_has_an_entry_here():
    assert shipped_likelihoods() == {type(entry.likelihood) for entry in ENTRIES}


@EVERY_ENTRY
@BOTH_LABELS
def test_the_log_probability_is_that_of_the_displayed_equation(entry, y):
    with mp.workdps(40):
        stated = [float(mp.exp(entry.stated(y)(mp.mpf(f)))) for f in SCORES]
    # log p has a relative error of eps, and down to -403 of cloglog it is the exponent of p
    most = np.abs(entry.likelihood.log_prob(y, SCORES)).max()
    assert_allclose(np.exp(entry.likelihood.log_prob(y, SCORES)), stated, rtol=1e-14 + 2 * EPS * most)


@EVERY
def test_the_mean_is_the_probability_of_class_one(likelihood):
    most = np.abs(likelihood.log_prob(1, SCORES)).max()
    assert_allclose(likelihood.mean(SCORES), np.exp(likelihood.log_prob(1, SCORES)), rtol=1e-13 + 2 * EPS * most)


@EVERY_ENTRY
@BOTH_LABELS
def test_slopes_match_central_differences(entry, y):
    likelihood = entry.likelihood
    up, down = SCORES + STEP, SCORES - STEP
    grad, curvature = likelihood.slopes(y, SCORES)
    rise = likelihood.log_prob(y, up) - likelihood.log_prob(y, down)
    fall = likelihood.slopes(y, down).grad - likelihood.slopes(y, up).grad
    # rounding: eps |log p| / h and eps |grad| / h, relative to what is largest in this range
    noise = 2 * EPS / STEP * np.array([1 + np.abs(likelihood.log_prob(y, SCORES)).max(), 1 + np.abs(grad).max()])
    assert_allclose(grad, rise / (2 * STEP), rtol=1e-9, atol=noise[0])
    assert_allclose(curvature, fall / (2 * STEP), rtol=1e-9, atol=noise[1] + entry.digits.floor)


@EVERY_ENTRY
@BOTH_LABELS
def test_the_third_derivative_matches_central_differences(entry, y):
    likelihood = entry.likelihood
    up, down = (likelihood.slopes(y, SCORES + h).curvature for h in (STEP, -STEP))
    noise = 5 * EPS / STEP * (1 + np.abs(up).max())
    if entry.digits.floor:  # a difference of a difference: the curvature has an error of 1e-11
        noise = 1e-11 / STEP
    assert_allclose(likelihood.third(y, SCORES), (down - up) / (2 * STEP), rtol=1e-8, atol=noise)


@EVERY_ENTRY
@BOTH_LABELS
def test_tails_agree_with_multiple_precision(entry, y):
    likelihood, stated, digits = entry.likelihood, entry.stated(y), entry.digits
    grad, curvature = likelihood.slopes(y, TAILS)
    smallest = 1e-305 + digits.floor  # what is smaller than any positive double is rightly zero
    assert_allclose(likelihood.log_prob(y, TAILS), derivative(stated, 0, TAILS), rtol=digits.log_prob, atol=1e-305)
    assert_allclose(grad, derivative(stated, 1, TAILS), rtol=digits.grad, atol=smallest)
    assert_allclose(curvature, -derivative(stated, 2, TAILS), rtol=digits.curvature, atol=smallest)
    differences = 1e-120 + digits.floor  # the third derivative is itself a difference of numbers with 120 digits
    assert_allclose(likelihood.third(y, TAILS), derivative(stated, 3, TAILS), rtol=digits.third, atol=differences)


@EVERY
@BOTH_LABELS
def test_an_expansion_is_the_log_probability_with_its_slopes(likelihood, y):
    f = np.concatenate([SCORES, TAILS])
    log_prob, grad, curvature = likelihood.expand(y, f)
    assert_allclose(log_prob, likelihood.log_prob(y, f), rtol=1e-15, atol=2 * EPS)  # a sum over rows has no more
    # to the last bit, but for the probit, whose expansion gives up three digits for speed
    for found, slope in ((grad, likelihood.slopes(y, f).grad), (curvature, likelihood.slopes(y, f).curvature)):
        assert_allclose(found, slope, rtol=1e-13, atol=1e-300)


@EVERY
@BOTH_LABELS
def test_the_gradient_alone_is_that_of_the_slopes(likelihood, y):
    f = np.concatenate([SCORES, TAILS])
    assert_allclose(likelihood.grad(y, f), likelihood.slopes(y, f).grad, rtol=1e-13, atol=1e-300)


@EVERY
def test_every_method_is_element_wise_on_any_shape(likelihood):
    f = SCORES[:24].reshape(2, 3, 4)
    y = (np.arange(24).reshape(f.shape) % 2).astype(float)
    for method in (likelihood.log_prob, likelihood.third, lambda y, f: likelihood.expand(y, f).grad):
        one_by_one = [method(label, score) for label, score in zip(y.ravel(), f.ravel(), strict=True)]
        # NumPy's loops for vectors and for the rest differ by an ulp, of the largest term of a sum
        assert_allclose(method(y, f).ravel(), one_by_one, rtol=1e-13, atol=4 * EPS)


@EVERY
def test_averages_broadcast_labels_means_and_variances(likelihood):
    y, m, v = np.array([0.0, 1.0])[:, None, None], np.linspace(-2, 2, 3)[:, None], np.array([0.0, 0.3, 2.0, 50.0])
    tilted = likelihood.tilted(y, m, v)
    assert likelihood.log_average(y, m, v).shape == tilted.log_mass.shape == tilted.mean.shape == tilted.var.shape
    assert tilted.var.shape == (2, 3, 4)
    for index in np.ndindex(2, 3, 4):
        one = likelihood.tilted(y[index[0], 0, 0], m[index[1], 0], v[index[2]])
        for whole, part in zip(tilted, one, strict=True):
            assert np.ndim(part) == 0
            assert_allclose(whole[index], part, rtol=1e-13, atol=1e-14)


@EVERY
@BOTH_LABELS
def test_tilted_moments_agree_with_quadrature(likelihood, y):
    """Six hundred Gauss–Hermite nodes: the Cauchy link has poles at ±i, which 64 are too few for."""
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-3, 3, 7), [0.01, 0.25, 0.64, 1.0]))
    x, log_weights = gauss_hermite(600)
    f = m[:, None] + np.sqrt(v)[:, None] * x
    terms = log_weights + likelihood.log_prob(y, f)
    log_mass = log_sum_exp(terms)
    share = np.exp(terms - log_mass[:, None])
    mean = (share * f).sum(axis=1)
    want = log_mass, mean, (share * (f - mean[:, None]) ** 2).sum(axis=1)
    for got, number in zip(likelihood.tilted(y, m, v), want, strict=True):
        assert_allclose(got, number, rtol=1e-12, atol=1e-14)


@EVERY
@BOTH_LABELS
def test_the_closed_form_of_the_tilted_moments_agrees_with_the_rule_of_all_likelihoods(likelihood, y):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-30, 30, 13), [1e-6, 0.3, 4.0, 400.0]))
    unit = 1 + np.abs(likelihood.log_average(y, m, v))
    for got, want in zip(likelihood.tilted(y, m, v), Likelihood.tilted(likelihood, y, m, v), strict=True):
        assert_allclose(got / unit, want / unit, rtol=1e-12, atol=1e-13)


@EVERY
def test_both_labels_are_averaged_together_as_they_are_one_by_one(likelihood):
    m, v = np.linspace(-9, 9, 7), np.array([[0.0], [0.1], [3.0]])
    zero, one = likelihood.label_averages(m, v)
    assert_array_equal(zero, likelihood.log_average(np.array(0), m, v))
    assert_array_equal(one, likelihood.log_average(np.array(1), m, v))


# --- averages of log p and its slopes, for variational inference --------------------------------------------

AVERAGED_M, AVERAGED_V = (grid.ravel() for grid in np.meshgrid(np.linspace(-8, 8, 9), [1e-4, 0.05, 0.3, 2.0, 20.0]))


def composite(m: float, v: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores and weights for E[g(f)], f ~ N(m, v): forty Gauss–Legendre nodes in many pieces.

    They are dense where a likelihood turns, around zero, and reach as far as e^(2f) does, whose mass is around m + 2v.
    """
    s, turns = np.sqrt(v), 2.0 ** np.arange(-5.0, 13.0)
    low, high = m - 14 * s - 4 * v, m + 14 * s + 4 * v
    turns = np.concatenate([-turns, np.linspace(-20, 20, 81), turns])
    edges = np.concatenate([m + s * np.linspace(-14, 14, 57), np.linspace(low, high, 40), turns])
    edges = np.unique(edges[(edges >= low) & (edges <= high)])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    f = (edges[:-1, None] + half * (1 + nodes)).ravel()
    return f, (half * weights).ravel() * stats.norm.pdf(f, m, s)


def integrated(likelihood, y: float, m: float, v: float) -> list[float]:
    """E[log p], E[gradient] and E[curvature]."""
    f, weights = composite(m, v)
    with np.errstate(all="ignore"):  # far out, where a density of zero meets a value that is none
        parts = likelihood.expand(np.full(f.shape, y), f)
        return [float(np.where(weights > 0, weights * part, 0.0).sum()) for part in parts]


@EVERY_ENTRY
@BOTH_LABELS
@pytest.mark.parametrize("v", [1e-8, 1e-3, 0.7, 30.0, 600.0])
def test_averages_over_scores_of_any_width_agree_with_integrals(entry, y, v):
    """1e-8 of the larger of one and the number; e^f is beyond all numbers for the widest of some links."""
    for m in (-40.0, -2.5, 0.3, 6.0):
        want = integrated(entry.likelihood, y, m, v)
        if np.isfinite(want).all():
            got = entry.likelihood.averaged(y, m, v)
            assert_allclose(got, want, rtol=1e-8, atol=1e-8 + 10 * entry.digits.floor)


FAMILIES = [
    FamilyLikelihood(family, resolve_link(link, family), 0.6 if family.has_dispersion else 1.0)
    for family in EVERY_FAMILY
    for link in family.links
]
ON_THE_WHOLE_LINE = [it for it in FAMILIES if it.link.threshold is not None or it.link.name == "log"]
TAKE_EVERY_SCORE = [  # a proportion has no mean above one, and only a Gaussian one below zero
    *(it for it in ON_THE_WHOLE_LINE if it.link.name != "log" or it.family.name not in ("bernoulli", "binomial")),
    FamilyLikelihood(Gaussian(), Identity(), 0.6),
]
OTHERS = [it for it in FAMILIES if it not in TAKE_EVERY_SCORE]
TARGETS = {
    "gaussian": [-1.3, 4.0],
    "bernoulli": [0.0, 1.0],
    "binomial": [0.0, 0.3, 1.0],
    "gamma": [0.2, 9.0],
    "inverse_gaussian": [0.2, 9.0],
}


def named(likelihood: FamilyLikelihood) -> str:
    return f"{likelihood.family.name}-{likelihood.link.name}"


@pytest.mark.parametrize("likelihood", TAKE_EVERY_SCORE, ids=named)
@pytest.mark.parametrize("v", [1e-8, 1e-3, 0.7, 4.0, 16.0])
def test_averages_of_families_agree_with_integrals(likelihood, v):
    for y, m in itertools.product(TARGETS.get(likelihood.family.name, [0.0, 6.0]), (-3.0, 0.4, 5.0)):
        want = integrated(likelihood, y, m, v)
        assert_allclose(likelihood.averaged(np.array(y), np.array(m), np.array(v)), want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("likelihood", TAKE_EVERY_SCORE, ids=named)
def test_averages_of_families_without_uncertainty_are_values_and_rows_do_not_influence_each_other(likelihood):
    y, m = TARGETS.get(likelihood.family.name, [0.0, 6.0])[-1], np.array([-3.0, 0.4, 5.0])
    for got, want in zip(likelihood.averaged(y, m, 0.0), likelihood.expand(y, m), strict=True):
        assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    variances = np.array([0.0, 1e-12, 1e-3, 0.3, 4.0, 16.0])
    whole = likelihood.averaged(y, 0.3, variances)
    for row, v in enumerate(variances):
        one = likelihood.averaged(y, np.array([0.3]), variances[row : row + 1])
        assert_allclose([part[row] for part in whole], [part[0] for part in one], rtol=1e-12, err_msg=str(v))


@pytest.mark.parametrize("likelihood", OTHERS, ids=named)
def test_where_some_scores_have_no_mean_there_is_no_average(likelihood):
    with pytest.raises(InputError, match=likelihood.link.name):
        likelihood.averaged(np.array(TARGETS.get(likelihood.family.name, [1.0])[-1]), np.array(0.5), np.array(0.1))


@EVERY_ENTRY
@BOTH_LABELS
def test_averages_of_log_p_and_its_slopes_agree_with_integrals(entry, y):
    """Evenly spaced sums, which converge geometrically; ±15 deviations hold e^f, whose mass is 4.5 off the mean."""
    x = np.linspace(-15, 15, 6001)
    weights = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
    f = AVERAGED_M[:, None] + np.sqrt(AVERAGED_V)[:, None] * x
    want = [values @ weights for values in entry.likelihood.expand(y, f)]
    got = entry.likelihood.averaged(y, AVERAGED_M, AVERAGED_V)
    for ours, number in zip(got, want, strict=True):
        assert_allclose(ours, number, rtol=1e-9, atol=1e-10 + 10 * entry.digits.floor)


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit(), BernoulliCauchit()], ids=repr)
@pytest.mark.parametrize(("m", "v"), [(0.4, 0.5), (-3.0, 9.0), (2.0, 0.001)])
def test_an_averaged_log_probability_agrees_with_multiple_precision(likelihood, m, v):
    entry = next(it for it in ENTRIES if type(it.likelihood) is type(likelihood))
    with mp.workdps(25):
        s = mp.sqrt(mp.mpf(v))
        stops = [m + k * s for k in range(-12, 13)]
        want = float(mp.quad(lambda f: entry.log_one(f) * mp.npdf(f, m, s), stops))
    assert_allclose(likelihood.averaged(1, m, v).log_prob, want, rtol=1e-12)


@EVERY_ENTRY
@BOTH_LABELS
def test_averages_of_slopes_are_derivatives_of_the_averaged_log_probability(entry, y):
    """d/dm E[log p] = E[grad] and 2 d/dv E[log p] = -E[curvature] (Bonnet, Price)."""
    likelihood, m, v = entry.likelihood, AVERAGED_M, AVERAGED_V

    def value(m, v):
        return likelihood.averaged(y, m, v).log_prob

    _, grad, curvature = likelihood.averaged(y, m, v)
    step, share = 1e-3 * np.sqrt(v), 1e-3 * v
    by_m = (8 * (value(m + step, v) - value(m - step, v)) - (value(m + 2 * step, v) - value(m - 2 * step, v))) / 12
    by_v = (8 * (value(m, v + share) - value(m, v - share)) - (value(m, v + 2 * share) - value(m, v - 2 * share))) / 12
    # rounding of E[log p], 1e-15 of its size, over the step, a thousandth, of a derivative in units of √v or v
    size = 1 + np.abs(value(m, v)) + np.sqrt(v) * np.abs(grad) + v * np.abs(curvature)
    noise = 1e-9 * size + entry.digits.floor
    assert (np.abs(by_m / step - grad) * np.sqrt(v) <= noise).all()
    assert (np.abs(2 * by_v / share + curvature) * v <= noise).all()


@EVERY
def test_a_log_probability_without_uncertainty_is_not_averaged(likelihood):
    for y in (0, 1):
        for got, want in zip(likelihood.averaged(y, SCORES, 0.0), likelihood.expand(y, SCORES), strict=True):
            assert_allclose(got, want, rtol=1e-13, atol=1e-14)


@EVERY
def test_averages_of_log_p_broadcast(likelihood):
    y, m, v = np.array([0.0, 1.0])[:, None, None], np.linspace(-2, 2, 3)[:, None], np.array([0.0, 0.3, 2.0, 50.0])
    whole = likelihood.averaged(y, m, v)
    for part in whole:
        assert part.shape == (2, 3, 4)
    one = likelihood.averaged(1.0, m[2, 0], 50.0)
    assert_allclose([part[1, 2, 3] for part in whole], one, rtol=1e-13, atol=1e-14)


@EVERY
@BOTH_LABELS
def test_rows_of_other_widths_change_no_average(likelihood, y):
    """Rows of two variances side by side, no variance among them, are what each is in a table of its own."""
    variances = [0.0, 1e-12, 1e-3, 0.3, 4.0, 50.0, 1e4]
    for v, w in itertools.combinations(variances, 2):
        both = np.array([v, w])
        for average in (likelihood.averaged, likelihood.tilted):
            whole = average(y, 0.3, both)
            for row in (0, 1):
                one = average(y, 0.3, both[row : row + 1])
                for part, alone in zip(whole, one, strict=True):
                    assert_allclose(part[row], alone[0], rtol=1e-12, atol=1e-14)
        assert_allclose(
            likelihood.log_average(y, 0.3, both),
            [likelihood.log_average(y, 0.3, variance) for variance in both],
            rtol=1e-12,
        )


@EVERY
@BOTH_LABELS
def test_the_log_average_is_the_log_mass_of_the_tilted_density(likelihood, y):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-30, 30, 13), [0.0, 1e-6, 0.5, 9.0, 1e3]))
    assert_allclose(likelihood.log_average(y, m, v), likelihood.tilted(y, m, v).log_mass, rtol=1e-14)


@EVERY
@BOTH_LABELS
def test_a_score_without_uncertainty_is_not_averaged(likelihood, y):
    log_mass, mean, var = likelihood.tilted(y, SCORES, np.zeros(SCORES.size))
    assert_allclose(log_mass, likelihood.log_prob(y, SCORES), rtol=1e-13, atol=2 * EPS)
    assert_allclose(mean, SCORES, rtol=1e-15, atol=EPS)
    assert_array_equal(var, 0)


@EVERY
@BOTH_LABELS
def test_tilted_moments_are_derivatives_of_the_log_average(likelihood, y):
    """mean = m + v d(log Z)/dm and var = v + v² d²(log Z)/dm², for any likelihood whatever."""
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-8, 8, 9), [0.3, 4.0, 100.0]))
    h = 1e-3 * np.sqrt(v)
    values = [likelihood.log_average(y, m + k * h, v) for k in (-2, -1, 0, 1, 2)]
    first = (8 * (values[3] - values[1]) - (values[4] - values[0])) / (12 * h)
    second = (16 * (values[3] + values[1]) - (values[4] + values[0]) - 30 * values[2]) / (12 * h**2)
    _, mean, var = likelihood.tilted(y, m, v)
    # truncation h⁴/30; rounding eps |log Z| / h and / h² in units of √v: 2e-13 and 2e-10 for each unit of log Z
    unit = 1 + np.abs(values[2])
    assert_allclose((mean - m - v * first) / np.sqrt(v) / unit, 0, atol=5e-12)
    assert_allclose((var / v - 1 - v * second) / unit, 0, atol=5e-9)


@EVERY
def test_the_probabilities_of_both_labels_sum_to_one(likelihood):
    f = np.concatenate([SCORES, TAILS])
    assert_allclose(np.exp(likelihood.log_prob(0, f)) + np.exp(likelihood.log_prob(1, f)), 1, rtol=1e-15)


@EVERY
def test_the_averaged_probabilities_of_both_labels_sum_to_one(likelihood):
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-40, 40, 17), [0.0, 1e-6, 0.5, 9.0, 1e3]))
    total = sum(np.exp(likelihood.log_average(y, m, v)) for y in (0, 1))
    assert_allclose(total, 1, rtol=1e-14)


@EVERY_ENTRY
@BOTH_LABELS
def test_the_curvature_slope_matches_central_differences(entry, y):
    likelihood, v = entry.likelihood, np.linspace(0.1, 4.0, SCORES.size)
    up, down = (v * likelihood.slopes(y, SCORES + h).curvature for h in (STEP, -STEP))
    slope = likelihood.curvature_slope(y, SCORES, v)
    noise = 5 * v.max() * EPS / STEP * (1 + np.abs(up).max())
    if entry.digits.floor:  # as for the third derivative
        noise = v.max() * 1e-11 / STEP
    assert_allclose(slope, (up - down) / (2 * STEP), rtol=1e-8, atol=noise)


@EVERY_ENTRY
def test_the_information_is_the_expected_curvature_and_the_expected_square_of_the_slope(entry):
    likelihood, f = entry.likelihood, np.concatenate([SCORES, [-40.0, 40.0]])
    p = [np.exp(likelihood.log_prob(y, f)) for y in (0, 1)]
    slopes = [likelihood.slopes(y, f) for y in (0, 1)]
    squares = sum(p[y] * slopes[y].grad ** 2 for y in (0, 1))
    curvatures = sum(p[y] * slopes[y].curvature for y in (0, 1))
    assert (likelihood.information(f) >= 0).all()
    assert_allclose(likelihood.information(f), squares, rtol=1e-12, atol=1e-16)
    assert_allclose(likelihood.information(f), curvatures, rtol=1e-12, atol=1e-15 + 1e-3 * entry.digits.floor)


@EVERY_ENTRY
def test_the_slope_of_the_information_matches_central_differences(entry):
    likelihood = entry.likelihood
    up, down = (likelihood.information(SCORES + h) for h in (STEP, -STEP))
    noise = 2 * EPS / STEP + 1e-3 * entry.digits.floor
    assert_allclose(likelihood.information_slope(SCORES), (up - down) / (2 * STEP), rtol=1e-8, atol=noise)


@EVERY
def test_only_a_concave_log_probability_is_called_so(likelihood):
    f = np.linspace(-30, 30, 601)
    lowest = min(likelihood.slopes(y, f).curvature.min() for y in (0, 1))
    if likelihood.log_concave:
        assert lowest >= 0
    elif not isinstance(likelihood, BernoulliDistribution):  # of a distribution of SciPy nobody knows
        assert lowest < -1e-3


@EVERY
def test_the_representation_is_the_constructor_call(likelihood):
    names = vars(likelihoods) | {"LabelNoise": LabelNoise, "genlogistic": stats.genlogistic, "t": stats.t}
    again = eval(repr(likelihood), names)
    assert type(again) is type(likelihood)
    assert_array_equal(again.log_prob(1, SCORES), likelihood.log_prob(1, SCORES))


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


def wide_scores(K: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of a few rows."""
    m = class_scores(K)
    root = class_scores(K, rows=len(m) * K).reshape(len(m), K, K) / 3
    return m, scale * root @ root.transpose(0, 2, 1)


def several(K: int) -> list[Categorical | NoisyCategorical]:
    return [Categorical(K), NoisyCategorical(K, 0.1), NoisyCategorical(K, 0.0)]


KINDS_AND_CLASSES = [(likelihood, K) for K in (2, 3, 4, 6, 10) for likelihood in several(K)]
SEVERAL = pytest.mark.parametrize(("likelihood", "K"), KINDS_AND_CLASSES, ids=repr)


def curvature_of(likelihood, at) -> np.ndarray:
    return likelihood.curvature(at.proba if isinstance(likelihood, Categorical) else at)


def class_nodes(K: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal nodes (S, K - 1) and weights: products of evenly spaced ones, quasi-random for many classes."""
    if K > 4:
        points = stats.norm.ppf(stats.qmc.Sobol(K - 1, rng=np.random.default_rng(K)).random(2**15))
        return points, np.full(len(points), 1 / len(points))
    x = np.linspace(-8.5, 8.5, n)
    weight = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
    grid = np.stack(np.meshgrid(*[x] * (K - 1)), axis=-1).reshape(-1, K - 1)
    return grid, np.prod(np.meshgrid(*[weight] * (K - 1)), axis=0).ravel()


def averaged_at_nodes(likelihood, y: int, m: np.ndarray, V: np.ndarray, n: int) -> list[np.ndarray]:
    """E[log p], E[gradient] and E[curvature] of one row; a shift of all scores alike changes none of them."""
    K = len(m)
    contrasts = np.linalg.qr(np.eye(K)[:, :-1] - 1 / K)[0]
    variance, axes = np.linalg.eigh(contrasts.T @ V @ contrasts)
    z, weights = class_nodes(K, n)
    f = m - m.mean() + z @ (contrasts @ axes * np.sqrt(np.maximum(variance, 0.0))).T
    at = likelihood.expand(np.full(len(f), y), f)
    parts = at.log_prob, at.grad, curvature_of(likelihood, at)
    return [np.tensordot(weights, part, axes=1) for part in parts]


@SEVERAL
@pytest.mark.parametrize("sd", [0.3, 1.0, 3.0])
def test_averages_of_several_classes_agree_with_nodes(likelihood, K, sd):
    """1e-4 for up to four classes; of more, 1e-3 at unit deviations, and as many times as much as those are larger.

    The points of the reference may be off by half of that.
    """
    y = np.arange(3) % K
    m = max(sd, 0.5) * class_scores(K, rows=3) / 2
    root = np.random.default_rng(K).normal(size=(3, K, K))
    V = root @ root.swapaxes(1, 2)
    size = sd / np.sqrt(np.einsum("nkk->nk", V))
    V *= size[:, :, None] * size[:, None, :]
    got = likelihood.averaged(y, m, V)
    for row in range(3):
        want = averaged_at_nodes(likelihood, int(y[row]), m[row], V[row], {2: 801, 3: 301, 4: 61}[min(K, 4)])
        for part, number in zip(got, want, strict=True):
            assert_allclose(part[row], number, rtol=0, atol=1e-4 if K <= 4 else 1.5e-3 * max(sd, 1.0))


@SEVERAL
def test_averages_over_scores_that_depend_on_each_other_agree_with_nodes(likelihood, K):
    """Two directions of uncertainty, for any number of classes."""
    m, V = wide_scores(K, 1.0)
    y = np.arange(len(m)) % K
    got = likelihood.averaged(y, m, V)
    for row in range(3):
        want = averaged_at_nodes(likelihood, int(y[row]), m[row], V[row], {2: 801, 3: 301, 4: 61}[min(K, 4)])
        for part, number in zip(got, want, strict=True):
            assert_allclose(part[row], number, rtol=0, atol=1e-4 if K <= 4 else 5e-3)


@SEVERAL
def test_averages_of_several_classes_without_uncertainty_are_values(likelihood, K):
    m, V = wide_scores(K, 1.0)
    y = np.arange(len(m)) % K
    at = likelihood.expand(y, m)
    want = at.log_prob, at.grad, curvature_of(likelihood, at)
    for known in (0.0 * V, 1e-16 * V, np.ones_like(V)):  # none, next to none, and of what all scores share alone
        for part, number in zip(likelihood.averaged(y, m, known), want, strict=True):
            assert_allclose(part, number, rtol=0, atol=5e-8)  # what normals leave of the logistic distribution


@SEVERAL
def test_rows_of_several_classes_do_not_influence_each_other(likelihood, K):
    m, V = wide_scores(K, 1.0)
    V *= 10.0 ** np.array([-20.0, -12.0, -6.0, -2.0, 0.0, 1.0, 3.0])[:, None, None]
    y = np.arange(len(m)) % K
    whole = likelihood.averaged(y, m, V)
    for row in range(len(m)):
        one = likelihood.averaged(y[row : row + 1], m[row : row + 1], V[row : row + 1])
        for part, alone in zip(whole, one, strict=True):
            assert_allclose(part[row], alone[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_two_classes_are_averaged_as_the_logit_of_their_difference(flip):
    m = np.column_stack([np.linspace(-1, 1, 9), np.linspace(6, -8, 9)])
    V = np.multiply.outer(np.geomspace(1e-6, 1e3, 9), [[1.0, 0.25], [0.25, 0.5]])
    for y in (0, 1):
        two = NoisyCategorical(2, flip).averaged(np.full(9, y), m, V)
        logit = LabelNoise(BernoulliLogit(), flip, flip) if flip else BernoulliLogit()
        one = logit.averaged(y, m[:, 1] - m[:, 0], V[:, 0, 0] + V[:, 1, 1] - 2 * V[:, 0, 1])
        for got, want in zip((two.log_prob, two.grad[:, 1], two.curvature[:, 1, 1]), one, strict=True):
            assert_allclose(got, want, rtol=0, atol=1e-7)


@CLASSES
def test_the_averaged_gradient_of_the_softmax_is_the_slope_of_the_averaged_log_probability(K):
    """To rounding: the nodes of a row do not depend on its mean."""
    m, V = wide_scores(K, 0.5)
    y = np.arange(len(m)) % K
    grad = Categorical(K).averaged(y, m, V).grad
    for k, h in bumps(K):
        rise = Categorical(K).averaged(y, m + h, V).log_prob - Categorical(K).averaged(y, m - h, V).log_prob
        assert_allclose(grad[:, k], rise / (2 * STEP), rtol=1e-9, atol=20 * EPS / STEP)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_averaged_curvature_of_the_softmax_is_the_slope_in_the_covariance(K):
    """2 d/dV E[log p] = -E[curvature], where nodes are exact to 1e-8; that over the step is the error."""
    m, V = wide_scores(K, 0.2)
    V += 0.1 * np.eye(K)
    y = np.arange(len(m)) % K
    curvature = Categorical(K).averaged(y, m, V).curvature
    direction = np.cos(np.arange(K))
    change = 1e-3 * np.outer(direction, direction)
    rise = Categorical(K).averaged(y, m, V + change).log_prob - Categorical(K).averaged(y, m, V - change).log_prob
    assert_allclose(rise / 1e-3, -np.einsum("k,nkj,j->n", direction, curvature, direction), atol=5e-5)


@CLASSES
def test_the_averaged_curvature_of_the_softmax_is_the_slope_of_its_averaged_gradient(K):
    """To rounding, as the gradient is that of the value."""
    m, V = wide_scores(K, 0.5)
    y = np.arange(len(m)) % K
    curvature = Categorical(K).averaged(y, m, V).curvature
    for k, h in bumps(K):
        fall = Categorical(K).averaged(y, m - h, V).grad - Categorical(K).averaged(y, m + h, V).grad
        assert_allclose(curvature[:, :, k], fall / (2 * STEP), rtol=1e-8, atol=20 * EPS / STEP)


@CLASSES
def test_averaged_gradients_sum_to_zero(K):
    _, grad, curvature = Categorical(K).averaged(np.arange(7) % K, *wide_scores(K, 5.0))
    assert_allclose(grad.sum(axis=1), 0, atol=1e-13)
    assert_allclose(curvature.sum(axis=2), 0, atol=1e-13)
    assert (np.linalg.eigvalsh(curvature) > -1e-13).all()
