"""Averages and tilted moments at extreme means and variances, against multiple precision or the limit that is stated.

Means are 1e-300 to 1e300, variances 0 to 1e100. Errors are relative for log masses and variances and in standard
deviations for means, plus the last digit of a mean: a number cannot hold more.
"""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from credibly.model.likelihoods import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliDistribution,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliMixture,
    BernoulliProbit,
    Likelihood,
    LocationScale,
    NormalMixture,
)
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics import averages, softmax_averages, special
from credibly.numerics.averages import tilted_probit
from credibly.numerics.quadrature import gauss_hermite, trapezoid
from credibly.numerics.special import truncated_normal_variance

SIZES = np.array([1e-300, 1e-8, 1.0, 30.0, 700.0, 745.0, 1e4, 1e8, 1e150, 1e300])
MEANS = np.concatenate([-SIZES[::-1], [0.0], SIZES])
VARIANCES = np.array([0.0, 1e-300, 1e-16, 1.0, 1e4, 1e12, 1e100])
M, V = (grid.ravel() for grid in np.meshgrid(MEANS, VARIANCES))
HUMPS = NormalMixture([0.3, 0.7], [-2.0, 1.5], [0.75, 1.0])
TINY = 2.3e-308


def double(number: mp.mpf) -> float:
    return float(number) if abs(number) < mp.mpf(2) ** 1024 else float(mp.sign(number)) * np.inf


def assert_moments(got: averages.Tilted, exact: list[tuple[mp.mpf, mp.mpf, mp.mpf]], rtol: float) -> None:
    log_mass, mean, var = (np.array([double(row[k]) for row in exact]) for k in range(3))
    infinite = np.isinf(log_mass)
    assert_array_equal(got.log_mass[infinite], log_mass[infinite])
    assert_allclose(got.log_mass[~infinite], log_mass[~infinite], rtol=rtol, atol=TINY)
    off = np.abs(got.mean - mean)
    allowed = rtol * np.sqrt(var) + 2 * np.spacing(np.abs(mean))
    assert (off <= allowed).all(), list(zip(got.mean[off > allowed], mean[off > allowed], strict=True))
    assert_allclose(got.var, var, rtol=rtol, atol=TINY)


# --- the probit, in closed form -------------------------------------------------------------------


def mills(x: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """x + r - … : the mean beyond x of a normal cut at x, less x; and its variance."""
    if x > 1e7:
        return 1 / x - 2 / x**3, 1 / x**2 - 6 / x**4
    r = mp.npdf(x) / (mp.erfc(x / mp.sqrt(2)) / 2)
    return r - x, 1 - r * (r - x)


def exact_probit(m: float, v: float) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    m, v = mp.mpf(m), mp.mpf(v)
    z = m / mp.sqrt(1 + v)
    first, left = (z, mp.mpf(1)) if z > 1e3 else mills(-z)
    if z < -1e7:
        log_mass = -(z**2) / 2 - mp.log(2 * mp.pi) / 2 - mp.log(-z) - 1 / z**2
    else:
        tail = mp.erfc(abs(z) / mp.sqrt(2)) / 2 if z < 1e3 else mp.mpf(0)
        log_mass = mp.log(tail) if z < 0 else mp.log1p(-tail)
    return log_mass, m / (1 + v) + v / mp.sqrt(1 + v) * first, v / (1 + v) * (1 + v * left)


def test_the_tilted_probit_is_right_for_every_mean_and_variance():
    with mp.workdps(700):  # 1 + 1e-300 and its square
        exact = [exact_probit(float(m), float(v)) for m, v in zip(M, V, strict=True)]
        assert_moments(averages.tilted_normal_cdf(M, V), exact, 2e-13)  # K₂ near 2.5 is known to 4e-14


def test_a_mixture_of_one_normal_is_that_normal_for_every_mean_and_variance():
    one = BernoulliMixture(NormalMixture([1.0], [0.0], [1.0]))
    for y, side in ((1, 1.0), (0, -1.0)):
        got, want = one.tilted(y, M, V), averages.tilted_normal_cdf(side * M, V)
        # near one the log mass is what the other label has, by an exponent of up to 700 with an error of eps
        assert_allclose(got.log_mass, want.log_mass, rtol=2e-13, atol=TINY)
        assert_allclose(got.mean, side * want.mean, rtol=1e-15, atol=TINY)
        assert_allclose(got.var, want.var, rtol=1e-15, atol=TINY)


def test_a_step_is_a_cut_without_width():
    """Known moments of a normal cut at its mean, at 1e8 standard deviations below it, and far above it."""
    z, mean, var = tilted_probit(np.array([0.0, -1e8, 1e8]), np.ones(3), 0.0, 0.0)
    assert_allclose(z, [0.0, -1e8, 1e8])
    assert_allclose(mean, [np.sqrt(2 / np.pi), 1e-8, 1e8], rtol=1e-15)
    assert_allclose(var, [1 - 2 / np.pi, 1e-16, 1.0], rtol=1e-14)


def test_what_is_left_of_a_cut_normal_does_not_cancel():
    z = np.concatenate([-SIZES[:8], [-2.51, -2.49, -5.0, 0.0, 3.0, 38.9, 39.1]])
    with mp.workdps(90):
        exact = [double(mills(mp.mpf(-float(x)))[1]) for x in z]
    assert_allclose(truncated_normal_variance(z), exact, rtol=2e-13)
    assert_array_equal(truncated_normal_variance(np.array([-1e300, 1e300, -np.inf, np.inf])), [0, 1, 0, 1])


# --- the logit, by integrals ----------------------------------------------------------------------


def integrated(link: Callable[[mp.mpf], mp.mpf], m: float, v: float) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """Moments of link(f) N(f | m, v), with pieces that are dense where the link turns."""
    m, s = mp.mpf(m), mp.sqrt(mp.mpf(v))
    turns = [(k * mp.mpf(2) ** j - m) / s for j in range(-1, 8) for k in (-1, 1)] + [-m / s]
    marks = [mp.mpf(k) for k in (-38, -20, *range(-14, 15, 2), 20, 38)]
    stops = sorted({*marks, *(t for t in turns if abs(t) < 38)})  # standard deviations
    heights = [link(m + s * x) * mp.exp(-(x**2) / 2) for x in stops]
    top = max(heights)  # mpmath's tolerance is absolute

    def moment(g: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
        return mp.quad(lambda x: g(x) * (link(m + s * x) / top) * mp.exp(-(x**2) / 2), stops)

    mass = moment(lambda x: mp.mpf(1))
    mean = moment(lambda x: x) / mass
    var = moment(lambda x: (x - mean) ** 2) / mass
    return mp.log(mass * top / mp.sqrt(2 * mp.pi)), m + s * mean, s**2 * var


def logistic(f: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-f))


def cauchy(f: mp.mpf) -> mp.mpf:
    return mp.atan(-1 / f) / mp.pi if f < 0 else mp.mpf(1) / 2 + mp.atan(f) / mp.pi


def gumbel(f: mp.mpf) -> mp.mpf:
    return -mp.expm1(-mp.exp(f)) if f < 10 else mp.mpf(1)


INTEGRALS = [(m, v) for v in (1.0, 1e4, 1e12) for m in (-30.0, 0.0, 1e-8, 30.0)]
MORE_INTEGRALS = [(m, v) for v in (1e-16, 1e-2, 9.0, 1e6) for m in (-745.0, -30.0, -1.0, 1.0, 30.0, 745.0)]
LINKS = [(BernoulliLogit(), logistic), (BernoulliCauchit(), cauchy), (BernoulliCloglog(), gumbel)]
EACH_LINK = pytest.mark.parametrize(
    ("likelihood", "link"), LINKS, ids=lambda it: repr(it) if isinstance(it, Likelihood) else ""
)


def check_integrals(likelihood: Likelihood, link: Callable[[mp.mpf], mp.mpf], cases: list[tuple[float, float]]) -> None:
    m, v = np.array(cases).T
    with mp.workdps(22):
        exact = [integrated(link, *case) for case in cases]
    log_mass, mean, var = (np.array([float(row[k]) for row in exact]) for k in range(3))
    got = likelihood.tilted(1, m, v)
    plain = log_mass < -1e-6  # nearer to one the integral itself has no digits of what is missing
    assert_allclose(got.log_mass[plain], log_mass[plain], rtol=1e-12)
    assert (np.abs(got.mean - mean) <= 1e-11 * np.sqrt(var) + np.spacing(np.abs(mean))).all()
    assert_allclose(got.var, var, rtol=1e-10)


@EACH_LINK
def test_wide_and_narrow_scores_are_averaged_as_integrals_say(likelihood, link):
    check_integrals(likelihood, link, INTEGRALS[::5])


@pytest.mark.slow
@EACH_LINK
def test_more_scores_are_averaged_as_integrals_say(likelihood, link):
    check_integrals(likelihood, link, INTEGRALS[1::5] + MORE_INTEGRALS[::2])


def test_the_far_tail_of_the_logit_is_log_normal_to_the_end_of_the_number_range():
    m = np.array([-1e300, -1e150, -1e8, -1e4])
    for v in (0.0, 1e-300, 1e-16, 1.0):
        log_mass, mean, var = averages.tilted_sigmoid(m, v)
        assert_allclose(log_mass, m + v / 2, rtol=1e-15)
        assert_allclose(mean, m + v, rtol=1e-15)
        assert_allclose(var, v, rtol=1e-12)
        assert_array_equal(averages.tilted_sigmoid(-m, v).log_mass, 0)


def test_of_a_score_that_is_all_spread_half_is_on_either_side():
    for likelihood in (BernoulliLogit(), BernoulliProbit(), BernoulliCauchit(), BernoulliDistribution(stats.t(3.0))):
        log_mass, mean, var = likelihood.tilted(1, np.zeros(1), np.array([1e100]))
        assert_allclose(log_mass, -np.log(2), rtol=1e-14)
        assert_allclose(mean, 1e50 * np.sqrt(2 / np.pi), rtol=1e-12)
        assert_allclose(var, 1e100 * (1 - 2 / np.pi), rtol=1e-12)


# --- every likelihood -----------------------------------------------------------------------------

BASES = [
    BernoulliLogit(),
    BernoulliProbit(),
    BernoulliCauchit(),
    BernoulliDistribution(stats.t(3.0)),
    BernoulliCloglog(),
    BernoulliLoglog(),
    BernoulliMixture(HUMPS),
    LocationScale(BernoulliProbit(), 0.5, 2.0),
    LocationScale(BernoulliCauchit(), 1e8, 1e-8),
    BernoulliDistribution(stats.genlogistic(2.5)),
]
FLIPS = [(0.0, 0.0), (1e-300, 1e-300), (0.5, 0.5), (1 - 1e-16, 0.0)]
EVERYONE = BASES + [LabelNoise(base, *flips) for base in BASES[:5] for flips in FLIPS]
EVERY = pytest.mark.parametrize("likelihood", EVERYONE, ids=repr)


@EVERY
def test_every_mean_and_variance_give_numbers(likelihood):
    for y in (0, 1):
        log_mass, mean, var = likelihood.tilted(y, M, V)
        assert (log_mass <= 1e-13).all()  # rounding of a mass that is one
        assert np.isfinite(mean).all()
        assert (var >= 0).all()
        assert_array_equal(var[V == 0], 0)
        assert_allclose(likelihood.log_average(y, M, V), log_mass, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("likelihood", BASES, ids=repr)
def test_a_score_that_is_known_is_not_averaged(likelihood):
    for y in (0, 1):
        for v in (0.0, 1e-300):
            if isinstance(likelihood, BernoulliCloglog | BernoulliLoglog) and v:
                continue  # where p(y | f) is below every number, a variance of 1e-300 still reaches a better place
            log_mass, mean, var = likelihood.tilted(y, MEANS, np.full(MEANS.size, v))
            near = np.abs(MEANS) < 1e100
            assert_allclose(log_mass[near], likelihood.log_prob(y, MEANS)[near], rtol=1e-12, atol=3e-16)
            place = (
                abs(likelihood.loc) if isinstance(likelihood, LocationScale) else 0.0
            )  # hides digits of scores near it
            assert_allclose(mean[near], MEANS[near], rtol=1e-15, atol=1e-100 + 4e-16 * place)
            assert_allclose(var[near], v, rtol=1e-9)


@pytest.mark.parametrize("likelihood", BASES[:4], ids=repr)
def test_both_labels_share_one_at_every_mean_and_variance(likelihood):
    total = np.logaddexp(likelihood.log_average(0, M, V), likelihood.log_average(1, M, V))
    assert_allclose(total, 0, atol=1e-13)


# --- softmax, quadrature --------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 6])
def test_averaged_softmax_knows_extreme_means_and_variances(K):
    for v in (0.0, 1e-300, 1e-16, 1.0, 1e4):
        for top in (1e-300, 30.0, 745.0, 1e8, 1e300):
            m = np.zeros(K)
            m[0] = top
            log_p = softmax_averages.log_softmax(m, v * np.eye(K))
            assert not np.isnan(log_p).any()
            assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-13)
            if v <= 1e-16:
                assert_allclose(log_p, special.log_softmax(m), rtol=1e-6, atol=1e-12)
            if top > 1e4 and v <= 1e4:
                assert_allclose(log_p[0], 0, atol=1e-12)
                assert_allclose(log_p[1:], -top, rtol=2e-4)  # v/2 and the other classes: 1e4 of 1e8 at most


@pytest.mark.parametrize("K", [2, 3, 4, 6])
@pytest.mark.parametrize("v", [1e12, 1e40, 1e100])
def test_scores_that_are_all_spread_make_every_class_as_probable(K, v):
    p = softmax_averages.softmax(np.zeros(K), v * np.eye(K))
    assert_allclose(p, 1 / K, atol=5e-3)  # the error stated for standard deviations beyond 5


def test_rules_of_every_size_have_moments_of_the_normal():
    for n in (2, 20, 128):
        x, log_w = gauss_hermite(n)
        assert_allclose([np.exp(log_w).sum(), np.exp(log_w) @ x**2], [1, 1], rtol=1e-12)
        assert np.isfinite(log_w).all()
    for n in (64, 8192):
        x, log_w = trapezoid(n, 6.0)
        assert_allclose([np.exp(log_w).sum(), np.exp(log_w) @ x**2], [1, 1], rtol=1e-7)  # x² beyond six deviations


@pytest.mark.parametrize("below", [-1e3, -1e40, -1e300])
def test_a_class_far_below_the_others_leaves_them_as_they_are(below):
    """Below −3e38 it is −inf in single precision; to scale it into range would make the others one point."""
    rng, K = np.random.default_rng(0), 6
    A, m = rng.normal(size=(K, K)), rng.normal(size=K)
    V = np.pad(3 * A @ A.T, (0, 1))
    V[K, K] = 3.0
    p = softmax_averages.softmax(np.append(m, below), V)
    assert p[K] == 0.0
    assert_allclose(p[:K], softmax_averages.softmax(m, V[:K, :K]), rtol=0, atol=2e-3)  # 1e-3 each


@pytest.mark.parametrize(("label", "flips"), [(1.0, (0.0, 0.1)), (0.0, (0.1, 0.0))])
def test_a_label_that_nothing_can_flip_stays_true_where_its_probability_vanishes(label, flips):
    """Both ways to that label have log probability −inf there; shares of 0/0 would be NaN."""
    base, y, f = BernoulliProbit(), np.array(label), np.array(-1e200 if label else 1e200)
    noise = LabelNoise(base, *flips)
    assert noise.log_prob(y, f) == -np.inf
    assert_array_equal(noise.expand(y, f), base.expand(y, f))
    assert_array_equal(noise.third(y, f), base.third(y, f))
    one = np.array(1.0)
    assert_allclose(noise.tilted(y, f, one)[1:], base.tilted(y, f, one)[1:], rtol=1e-15)
