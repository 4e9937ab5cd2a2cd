"""Log densities and their derivatives on extreme scores, against multiple precision or the limit that is stated.

`tests/contracts/test_likelihoods.py` goes to ±1e4; here scores go to ±1e300. What is asked for is the double nearest to
the exact value, up to the relative error beside each likelihood: infinite where that is beyond the range of numbers,
zero where it is below. Warnings are errors, so no step on the way may overflow unasked.
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
    Categorical,
    Likelihood,
    LocationScale,
    NormalMixture,
)
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import LINKS

SIZES = np.array([1e-300, 1e-8, 1.0, 30.0, 700.0, 745.0, 1e4, 1e8, 1e150, 1e300])
SCORES = np.concatenate([-SIZES[::-1], [0.0], SIZES])
TINY = 2.3e-308  # below this a double has fewer digits
BOTH_LABELS = pytest.mark.parametrize("y", [0, 1])

Exact = tuple[mp.mpf, mp.mpf, mp.mpf, mp.mpf]  # log p, its slope, minus its second derivative, its third


def double(number: mp.mpf) -> float:
    """Nearest double; infinite where there is none."""
    return float(number) if abs(number) < mp.mpf(2) ** 1024 else float(mp.sign(number)) * np.inf


def assert_right(got: np.ndarray, exact: list[mp.mpf], rtol: float) -> None:
    wanted = np.array([double(number) for number in exact])
    infinite = np.isinf(wanted)
    assert_array_equal(np.asarray(got)[infinite], wanted[infinite])
    assert_allclose(np.asarray(got)[~infinite], wanted[~infinite], rtol=rtol, atol=TINY)


# --- exact values ---------------------------------------------------------------------------------


def exact_logit(z: mp.mpf) -> Exact:
    """Of log σ(z); beyond ±2000 the exponential is below every double."""
    if z > 2000:
        return mp.mpf(0), mp.mpf(0), mp.mpf(0), mp.mpf(0)
    if z < -2000:
        return z, mp.mpf(1), mp.mpf(0), mp.mpf(0)
    e = mp.exp(-abs(z))
    small, large = e / (1 + e), 1 / (1 + e)
    log_p = -mp.log1p(e) if z > 0 else z - mp.log1p(e)
    return log_p, small if z > 0 else large, small * large, small * large * mp.tanh(z / 2)


def exact_probit(z: mp.mpf) -> Exact:
    """Of log Φ(z); far on the left by three terms of the series in 1/z², whose error is 1e-48 at 1e8."""
    if z < -1e7:
        x = -z
        log_p = -(x**2) / 2 - mp.log(2 * mp.pi) / 2 - mp.log(x) - 1 / x**2
        return log_p, x + 1 / x - 2 / x**3, 1 - 1 / x**2 + 6 / x**4, 2 / x**3 - 24 / x**5
    if z > 100:
        return mp.mpf(0), mp.mpf(0), mp.mpf(0), mp.mpf(0)
    Phi = mp.erfc(-z / mp.sqrt(2)) / 2
    r = mp.npdf(z) / Phi
    log_p = mp.log(Phi) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)
    return log_p, r, r * (z + r), r * ((z + r) * (z + 2 * r) - 1)


def exact_student(df: float) -> Callable[[mp.mpf], Exact]:
    """Of the log distribution function of Student's t, by the incomplete beta function of the smaller side."""

    def at(z: mp.mpf) -> Exact:
        nu = mp.mpf(df)
        tail = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + z**2), regularized=True) / 2
        F = tail if z < 0 else 1 - tail
        log_density = -(nu + 1) / 2 * mp.log1p(z**2 / nu) - mp.log(nu) / 2 - mp.log(mp.beta(nu / 2, mp.mpf(1) / 2))
        g = mp.exp(log_density) / F
        first, second = -(nu + 1) * z / (nu + z**2), (nu + 1) * (z**2 - nu) / (nu + z**2) ** 2
        third = g * ((first - g) * (first - 2 * g) + second)
        return mp.log(F) if z < 0 else mp.log1p(-tail), g, g * (g - first), third

    return at


def exact_cloglog(y: int) -> Callable[[mp.mpf], Exact]:
    """Of both labels in f: log(1 - e^-u) and -u with u = e^f; beyond 8, e^-u is below every double."""

    def at(f: mp.mpf) -> Exact:
        if f < -2000:
            return (f, mp.mpf(1), mp.mpf(0), mp.mpf(0)) if y else (mp.mpf(0),) * 4
        if f > 2000:
            huge = mp.mpf(10) ** 400
            return (mp.mpf(0),) * 4 if y else (-huge, -huge, huge, -huge)
        u = mp.exp(f)
        if not y:
            return -u, -u, u, -u
        if f > 8:
            return (mp.mpf(0),) * 4
        if u < mp.mpf(10) ** -40:  # the first term of each series
            return f - u / 2, 1 - u / 2, u / 2, -u / 2
        B = u / mp.expm1(u)
        D = u / -mp.expm1(-u) - 1
        return mp.log(-mp.expm1(-u)), B, B * D, B * (D**2 + B * D - u)

    return at


def turned(exact: Callable[[mp.mpf], Exact], y: int) -> Callable[[mp.mpf], Exact]:
    """Of a threshold that is symmetric: label 0 sees the score with its sign turned."""
    side = 2 * y - 1

    def at(f: mp.mpf) -> Exact:
        log_p, first, curvature, third = exact(side * f)
        return log_p, side * first, curvature, side * third

    return at


def mirrored(y: int) -> Callable[[mp.mpf], Exact]:
    """Of the log-log link: the complementary one with labels and scores turned."""

    def at(f: mp.mpf) -> Exact:
        log_p, first, curvature, third = exact_cloglog(1 - y)(-f)
        return log_p, -first, curvature, -third

    return at


def moved(exact: Callable[[mp.mpf], Exact], loc: float, scale: float) -> Callable[[mp.mpf], Exact]:
    def at(f: mp.mpf) -> Exact:
        log_p, first, curvature, third = exact((f - mp.mpf(loc)) / mp.mpf(scale))
        a = mp.mpf(scale)
        return log_p, first / a, curvature / a**2, third / a**3

    return at


CASES: list[tuple[Likelihood, Callable[[int], Callable[[mp.mpf], Exact]], float]] = [
    (BernoulliLogit(), lambda y: turned(exact_logit, y), 1e-15),
    (BernoulliProbit(), lambda y: turned(exact_probit, y), 2e-14),
    (BernoulliCauchit(), lambda y: turned(exact_student(1.0), y), 2e-14),
    (BernoulliCloglog(), exact_cloglog, 4e-14),  # e^f to 700 · eps of f
    (BernoulliLoglog(), mirrored, 4e-14),
    (LocationScale(BernoulliProbit(), 0.5, 2.0), lambda y: moved(turned(exact_probit, y), 0.5, 2.0), 2e-14),
]


@BOTH_LABELS
@pytest.mark.parametrize(
    ("likelihood", "exact", "rtol"), CASES, ids=lambda it: repr(it) if isinstance(it, Likelihood) else ""
)
def test_log_densities_and_derivatives_are_right_on_extreme_scores(likelihood, exact, rtol, y):
    f = SCORES
    with mp.workdps(90):
        log_p, first, curvature, third = zip(*(exact(y)(mp.mpf(float(x))) for x in f), strict=True)
        assert_right(likelihood.log_prob(y, f), log_p, rtol)
        assert_right(likelihood.slopes(y, f).grad, first, rtol)
        assert_right(likelihood.slopes(y, f).curvature, curvature, rtol)
        assert_right(likelihood.third(y, f), third, 100 * rtol)  # a product of differences
    assert_allclose(likelihood.expand(y, f).log_prob, likelihood.log_prob(y, f), rtol=1e-15, atol=3e-16)


# --- what all likelihoods have in common ----------------------------------------------------------

HUMPS = NormalMixture([0.3, 0.7], [-2.0, 1.5], [0.75, 1.0])
BASES = [BernoulliLogit(), BernoulliProbit(), BernoulliCauchit(), BernoulliCloglog(), BernoulliMixture(HUMPS)]
FLIPS = [(0.0, 0.0), (1e-300, 1e-300), (0.0, 0.3), (0.5, 0.5), (1 - 1e-16, 0.0), (0.1, 1e-16)]
NOISY = [LabelNoise(base, *flips) for base in BASES for flips in FLIPS]
EVERYONE = [it for it, _, _ in CASES] + [
    BernoulliMixture(HUMPS),
    LocationScale(BernoulliCauchit(), 1e8, 1e-8),
    BernoulliDistribution(stats.genlogistic(2.5)),
    *NOISY,
]
EVERY = pytest.mark.parametrize("likelihood", EVERYONE, ids=repr)


@EVERY
def test_every_finite_score_gives_a_number_or_an_infinite_limit(likelihood):
    for y in (0, 1):
        log_p = likelihood.log_prob(y, SCORES)
        assert (log_p <= 2.3e-16).all()  # with flips it is the logarithm of a sum, which may round up
        for part in (*likelihood.slopes(y, SCORES), likelihood.third(y, SCORES), *likelihood.expand(y, SCORES)):
            assert not np.isnan(part).any()
    assert (likelihood.information(SCORES) >= 0).all()
    assert not np.isnan(likelihood.information_slope(SCORES)).any()
    assert ((likelihood.mean(SCORES) >= 0) & (likelihood.mean(SCORES) <= 1)).all()


@pytest.mark.parametrize("noisy", NOISY, ids=repr)
def test_noisy_labels_are_the_mixture_that_is_displayed(noisy):
    """q = Σ_t p(y | t) p(t): log q from probabilities that are known to full precision on both sides."""
    f = SCORES[np.abs(SCORES) <= 30]
    keep = [
        [mp.mpf(1) - mp.mpf(noisy.flip_01), mp.mpf(noisy.flip_10)],
        [mp.mpf(noisy.flip_01), 1 - mp.mpf(noisy.flip_10)],
    ]
    logs = [noisy.base.log_prob(t, f) for t in (0, 1)]
    for y in (0, 1):
        with mp.workdps(60):
            exact = [mp.log(sum(keep[y][t] * mp.exp(mp.mpf(float(logs[t][i]))) for t in (0, 1))) for i in range(len(f))]
        # an exponent of -log p is known to eps, and near one a logarithm has the absolute error of its sum
        assert_allclose(noisy.log_prob(y, f), [double(it) for it in exact], rtol=1e-15, atol=4e-16)


@BOTH_LABELS
@pytest.mark.parametrize("base", BASES, ids=repr)
def test_without_flips_noise_changes_nothing(base, y):
    noisy = LabelNoise(base, 0.0, 0.0)
    for got, want in zip(noisy.expand(y, SCORES), (base.log_prob(y, SCORES), *base.slopes(y, SCORES)), strict=True):
        assert_allclose(got, want, rtol=1e-15, atol=1e-323)
    assert_allclose(noisy.third(y, SCORES), base.third(y, SCORES), rtol=1e-15, atol=1e-323)


@BOTH_LABELS
def test_far_out_a_flip_explains_the_label_and_nothing_pulls(y):
    f = np.array([-1e300, -1e150, -1e8, 1e8, 1e150, 1e300])
    for base in (BernoulliLogit(), BernoulliProbit()):
        noisy = LabelNoise(base, 0.1, 0.2)
        expected = np.log([0.9, 0.9, 0.9, 0.2, 0.2, 0.2] if y == 0 else [0.1, 0.1, 0.1, 0.8, 0.8, 0.8])
        assert_allclose(noisy.log_prob(y, f), expected, rtol=1e-15)
        for part in (*noisy.slopes(y, f), noisy.third(y, f)):
            assert_array_equal(part, 0)


@BOTH_LABELS
def test_far_from_all_parts_a_mixture_is_its_widest_part(y):
    f = np.array([-1e300, -1e150, -1e8, -1e4]) if y else np.array([1e4, 1e8, 1e150, 1e300])
    wide = LocationScale(BernoulliProbit(), 1.5, 1.0)
    mixed = BernoulliMixture(HUMPS)
    assert_allclose(mixed.log_prob(y, f), wide.log_prob(y, f) + np.log(0.7), rtol=1e-15)
    for got, want in zip(mixed.slopes(y, f), wide.slopes(y, f), strict=True):
        assert_allclose(got, want, rtol=1e-13)
    assert_allclose(mixed.third(y, f), wide.third(y, f), rtol=1e-13, atol=TINY)


@BOTH_LABELS
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_it_is_wherever_the_widest_part_stands_among_those_whose_squares_overflow(y, order):
    scales = np.array([0.5, 0.7, 1.0, 2.0])[order]
    mixed = BernoulliMixture(NormalMixture(np.full(4, 0.25), np.zeros(4), scales))
    wide = LocationScale(BernoulliProbit(), 0.0, 2.0)
    f = np.array([1e160, 1e200, 1e300]) * (-1 if y else 1)
    for got, want in zip(mixed.slopes(y, f), wide.slopes(y, f), strict=True):
        assert_allclose(got, want, rtol=1e-13)
    assert not any(np.isnan(part).any() for part in mixed.tilted(np.array(float(y)), f, np.array(1e4)))


# --- softmax --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [0.0, 1e-300, 0.5, 2 / 3 - 1e-16])  # beyond two thirds classes change their names
def test_softmax_is_right_on_extreme_scores_with_and_without_flips(flip):
    f = np.array([[0.0, a, b] for a in SCORES[::3] for b in (0.0, -30.0, 745.0, 1e300)])
    plain, noisy = Categorical(3), NoisyCategorical(3, flip)
    for y in range(3):
        codes = np.full(len(f), y)
        at, kept = plain.expand(codes, f), noisy.expand(codes, f)
        gaps = f - f.max(axis=1, keepdims=True)
        with mp.workdps(60):
            rows = [[mp.exp(mp.mpf(max(float(g), -1e4))) for g in gap] for gap in gaps]
            p = [[term / mp.fsum(row) for term in row] for row in rows]
            others = [mp.fsum(row[k] for k in range(3) if k != y) for row in p]
            log_p = [
                mp.log1p(-o) if o < 0.5 else mp.mpf(float(gap[y])) - mp.log(mp.fsum(row))
                for o, gap, row in zip(others, gaps, rows, strict=True)
            ]
            q = [mp.log((1 - mp.mpf(flip)) * row[y] + mp.mpf(flip) / 2 * o) for o, row in zip(others, p, strict=True)]
        assert_right(at.log_prob, log_p, 1e-14)
        assert_right(at.grad[:, y], others, 1e-14)
        for part in (*at, *kept, plain.curvature(at.proba), noisy.curvature(kept), noisy.information(f)):
            assert not np.isnan(part).any()
        if flip > 0:  # near one a logarithm has the absolute error of its sum
            assert_allclose(kept.log_prob, [double(it) for it in q], rtol=1e-14, atol=4e-16)


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logit", "probit", "cloglog", "loglog", "cauchit"])
def test_probabilities_and_their_scores_are_each_others_inverse_into_the_tails(name):
    link = LINKS[name]
    p = np.array([1e-300, 1e-100, 1e-16, 1e-8, 0.3, 0.5])
    back = link.mean(link.link(p))
    # the error of a score of size |f| is eps |f|, and p moves by p' times that
    slope = np.abs(link.derivatives(link.link(p)).first * link.link(p)) / p
    assert_allclose(back, p, rtol=4e-16 * (4 + slope.max()))
    assert np.isfinite(link.link(np.array([1 - 1e-16]))).all()
    assert_array_equal(np.abs(link.link(np.array([0.0, 1.0]))), np.inf) if name != "cauchit" else None
    for f in (link.derivatives(SCORES), link.log_mean_derivatives(SCORES)):
        assert not any(np.isnan(part).any() for part in f)


@pytest.mark.parametrize("name", sorted(LINKS))
def test_no_link_warns_and_every_score_with_a_mean_has_a_logarithm_of_it(name):
    link = LINKS[name]
    valid = link.valid(SCORES) & (SCORES > 0 if link.power is not None and link.power != 0 else True)
    assert not np.isnan(link.mean(SCORES)[valid]).any()
    assert not np.isnan(link.log_mean(SCORES)[valid]).any()
    m, v = (grid.ravel() for grid in np.meshgrid(SCORES, [0.0, 1e-300, 1e-16, 1.0, 1e4, 1e12, 1e100]))
    averaged = link.average(m, v)
    assert averaged is None or not np.isnan(averaged).any()
