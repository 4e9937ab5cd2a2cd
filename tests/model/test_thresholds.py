"""Noisy thresholds beyond the contract: laws between them, mixtures, distributions of SciPy, and how one is chosen."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import least_squares, linprog
from scipy.special import expit, ndtr, softmax

from credibly.errors import InputError
from credibly.model.likelihoods import (
    LOGISTIC_MIXTURE,
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliDistribution,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliMixture,
    BernoulliProbit,
    LocationScale,
    NormalMixture,
    choices,
    threshold_likelihood,
)
from credibly.model.likelihoods.density import DensityThreshold
from credibly.model.likelihoods.distribution import from_scipy
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.model.priors import StudentT
from credibly.numerics import averages

SCORES = np.linspace(-9, 9, 37)
HUMPS = NormalMixture([0.3, 0.7], [-1.5, 1.0], [0.5, 0.75])
BOTH_LABELS = pytest.mark.parametrize("y", [0, 1])


def assert_same_likelihood(left, right, f, rtol=1e-12):
    for y in (0, 1):
        assert_allclose(left.log_prob(y, f), right.log_prob(y, f), rtol=rtol)
        for one, other in zip(left.slopes(y, f), right.slopes(y, f), strict=True):
            assert_allclose(one, other, rtol=rtol, atol=1e-15)
        assert_allclose(left.third(y, f), right.third(y, f), rtol=rtol, atol=1e-15)


# --- Laws between thresholds ----------------------------------------------------------------------


def student(df: float) -> BernoulliDistribution:
    return threshold_likelihood(StudentT(df=df))


def test_one_degree_of_freedom_is_the_cauchy_threshold():
    f, one, cauchy = np.append(SCORES, [-1e4, 1e4]), student(1.0), BernoulliCauchit()
    for y in (0, 1):
        assert_allclose(one.log_prob(y, f), cauchy.log_prob(y, f), rtol=1e-13)  # SciPy's own digits
        for got, want in zip(one.slopes(y, f), cauchy.slopes(y, f), strict=True):
            assert_allclose(got, want, rtol=1e-9, atol=1e-10)  # five-point differences of the log density
        for got, want in zip(one.tilted(y, f, 4.0), cauchy.tilted(y, f, 4.0), strict=True):
            assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_two_degrees_of_freedom_have_an_elementary_distribution_function():
    tail = 1 / (SCORES**2 + 2 + np.abs(SCORES) * np.sqrt(SCORES**2 + 2))  # ½(1 − |z|/√(2 + z²)), without cancelling
    assert_allclose(np.exp(student(2.0).log_prob(1, -np.abs(SCORES))), tail, rtol=1e-13)


def test_many_degrees_of_freedom_are_the_normal_threshold():
    """The difference fades like 1/ν."""
    f = np.linspace(-4, 4, 17)
    normal = BernoulliProbit().log_prob(1, f)
    gaps = [np.abs(student(df).log_prob(1, f) - normal).max() for df in (1e4, 1e5, 1e6)]
    assert_allclose(np.array(gaps[:2]) / gaps[1:], 10, rtol=0.01)


@pytest.mark.parametrize("df", [0.1, 7.0, 30.5, 1e3, 1e5])
def test_student_tails_agree_with_multiple_precision(df):
    """To the digits of SciPy: 1e-12 of the log probability, fewer of the slope, whose exponent is a difference."""
    z = np.array([-800.0, -40.0, -5.1, -3.0, -0.5, 0.0, 2.0, 9.0])
    log_cdf, hazard = [], []
    with mp.workdps(60):
        nu = mp.mpf(df)
        for x in map(mp.mpf, z.tolist()):
            tail = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + x * x), regularized=True) / 2
            density = (1 + x * x / nu) ** (-(nu + 1) / 2) / (mp.sqrt(nu) * mp.beta(nu / 2, mp.mpf(1) / 2))
            log_cdf.append(float(mp.log(tail) if x < 0 else mp.log1p(-tail)))
            hazard.append(float(density / (tail if x < 0 else 1 - tail)))
    assert_allclose(student(df).log_prob(1, z), log_cdf, rtol=1e-11)
    assert_allclose(student(df).grad(1, z), hazard, rtol=1e-10 + 1e-13 * np.abs(log_cdf).max())


def test_the_two_gumbel_thresholds_are_mirror_images():
    m, v = np.linspace(-5, 5, 11), np.linspace(0, 30, 11)
    least, largest = BernoulliCloglog(), BernoulliLoglog()
    for y in (0, 1):
        one, other = least.tilted(y, m, v), largest.tilted(1 - y, -m, v)
        assert_array_equal(one.log_mass, other.log_mass)
        assert_array_equal(one.mean, -other.mean)
        assert_array_equal(least.log_prob(y, m), largest.log_prob(1 - y, -m))


def test_heavy_tails_forgive_a_wrong_label_and_light_ones_do_not():
    """The pull of one mislabelled row at f = −20: 1/|f|, ν/|f|, 1, |f|."""
    pulls = [BernoulliCauchit(), student(4.0), BernoulliLogit(), BernoulliProbit()]
    assert_allclose([it.slopes(1, -20.0).grad for it in pulls], [0.05, 0.2, 1.0, 20.0], rtol=0.03)  # leading order


@pytest.mark.parametrize("likelihood", [BernoulliCauchit(), BernoulliCloglog()], ids=repr)
def test_nothing_warns_or_breaks_at_the_edge_of_the_number_range(likelihood):
    f = np.array([-1e300, -1e160, 1e160, 1e300])
    for y in (0, 1):
        assert not np.isnan(likelihood.log_prob(y, f)).any()
        assert not any(np.isnan(part).any() for part in likelihood.slopes(y, f))
        assert not np.isnan(likelihood.third(y, f)).any()
    assert_array_equal(likelihood.information(f), [0, 0, 0, 0])


def test_missing_scores_stay_missing():
    for likelihood in (BernoulliCauchit(), student(4.0), BernoulliCloglog(), BernoulliMixture(HUMPS)):
        assert np.isnan(likelihood.log_prob(1, np.nan))
        assert np.isnan(likelihood.slopes(1, np.nan).grad)


@pytest.mark.parametrize("df", [0.0, -1.0])
def test_degrees_of_freedom_must_be_positive(df):
    with pytest.raises(InputError, match="df of StudentT must be"):
        student(df)
    with pytest.raises(InputError, match=r"no usable density|density on"):
        BernoulliDistribution(stats.t(df))


# --- The quadrature -------------------------------------------------------------------------------


def test_hopeless_rows_have_finite_averages():
    """exp(-e^f) at f = 10⁴ is no number; its average is, and the leading term is −(m − f)²/2v at the peak."""
    v = np.array([1.0, 1e-6])
    log_mass, mean, var = BernoulliCloglog().tilted(0, np.array([1e4, 1e4]), v)
    assert_allclose(log_mass, -0.5 * (1e4 - mean) ** 2 / v, rtol=1e-3)
    # at the peak e^f = (m − f)/v, and the curvature of the log integrand is 1/v + e^f
    assert_allclose(np.exp(mean) * v, 1e4 - mean, rtol=0.1)
    assert_allclose(var * np.exp(mean), 1, rtol=0.02)


def test_a_negative_variance_is_refused():
    with pytest.raises(InputError, match="variance must not be negative"):
        BernoulliCauchit().log_average(1, 0.0, -1.0)


# --- Normal mixtures ------------------------------------------------------------------------------


def test_one_part_is_the_normal_threshold():
    assert_same_likelihood(BernoulliMixture(NormalMixture([1.0], [0.0], [1.0])), BernoulliProbit(), SCORES)


def test_equal_parts_are_one_part():
    split = BernoulliMixture(NormalMixture([0.25, 0.75], [0.5, 0.5], [2.0, 2.0]))
    assert_same_likelihood(split, LocationScale(BernoulliProbit(), 0.5, 2.0), SCORES)
    m, v = np.linspace(-3, 3, 7), np.linspace(0, 6, 7)
    for one, other in zip(
        split.tilted(1, m, v), LocationScale(BernoulliProbit(), 0.5, 2.0).tilted(1, m, v), strict=True
    ):
        assert_allclose(one, other, rtol=1e-13, atol=1e-15)


def test_the_averaged_mixture_is_the_displayed_closed_form():
    m, v = np.linspace(-4, 4, 9), np.linspace(0, 8, 9)
    parts = zip(HUMPS.weights, HUMPS.means, HUMPS.scales, strict=True)
    stated = sum(w * ndtr((m - mean) / np.sqrt(scale**2 + v)) for w, mean, scale in parts)
    assert_allclose(np.exp(BernoulliMixture(HUMPS).log_average(1, m, v)), stated, rtol=1e-13)


def test_a_mixture_is_a_value():
    again = NormalMixture(np.array([0.3, 0.7]), (-1.5, 1.0), [0.5, 0.75])
    assert again == HUMPS and hash(again) == hash(HUMPS)
    assert again != NormalMixture([0.3, 0.7], [-1.5, 1.0], [0.5, 0.8])
    assert eval(repr(HUMPS)) == HUMPS
    with pytest.raises(AttributeError):
        again.weights = (0.5, 0.5)


def test_mean_and_variance_of_a_mixture_are_those_of_its_density():
    density = sum(
        w * stats.norm.pdf(np.linspace(-12, 12, 2401), mean, scale)
        for w, mean, scale in zip(HUMPS.weights, HUMPS.means, HUMPS.scales, strict=True)
    )
    x = np.linspace(-12, 12, 2401)  # the trapezoidal rule is exact for these
    mean = (x * density).sum() * 0.01
    assert_allclose(HUMPS.mean, mean, rtol=1e-12)
    assert_allclose(HUMPS.var, ((x - mean) ** 2 * density).sum() * 0.01, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([0.5, 0.4], [0, 0], [1, 1]), "the sum 0.9"),
        (([1.2, -0.2], [0, 0], [1, 1]), "smallest is -0.2"),
        (([0.5, 0.5], [0], [1, 1]), "2 weights, 1 means and 2 scales"),
        (([0.5, 0.5], [0, 0], [1, 0]), "scales .* must be positive; the smallest is 0"),
        (([0.5, 0.5], [0, np.nan], [1, 1]), "means .* finite"),
        (([], [], []), "weights .* list"),
        ((1.0, 0.0, 1.0), "weights .* list"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments, reason):
    with pytest.raises(InputError, match=reason):
        NormalMixture(*arguments)


# --- The logistic distribution as a scale mixture -------------------------------------------------


def test_eight_normals_are_the_logistic_distribution():
    f = np.concatenate([np.linspace(-80, 80, 160_001), [-1e4, 1e4]])
    parts = zip(LOGISTIC_MIXTURE.weights, LOGISTIC_MIXTURE.scales, strict=True)
    error = sum(w * ndtr(f / s) for w, s in parts) - expit(f)
    assert 4e-9 < np.abs(error).max() < 5e-9


def test_averages_of_the_eight_normals_are_those_of_the_logistic_function():
    """An average of an error is no larger than the error."""
    m, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-40, 40, 41), [0.0, 0.1, 1.0, 10.0, 1e3, 1e5]))
    mixture = np.exp(BernoulliMixture(LOGISTIC_MIXTURE).log_average(1, m, v))
    assert_allclose(mixture, averages.sigmoid(m, v), rtol=0, atol=5e-9)


def fit_logistic_mixture(k: int) -> tuple[np.ndarray, float]:
    """k zero-mean normals closest to the logistic distribution: least squares, then linear programmes for the maximum.

    The first scales are quantiles of the mixing distribution, which is twice Kolmogorov's.
    """
    f = np.concatenate([np.linspace(0, 12, 1601)[1:], np.linspace(12, 60, 400)[1:]])

    def error(p):
        return ndtr(f[:, None] / np.exp(p[k - 1 :])) @ softmax(np.append(p[: k - 1], 0.0)) - expit(f)

    def slopes(p):
        weights = softmax(np.append(p[: k - 1], 0.0))
        z = f[:, None] / np.exp(p[k - 1 :])
        cdf = ndtr(z)
        return np.hstack([(weights * (cdf - (cdf @ weights)[:, None]))[:, : k - 1], -weights * z * stats.norm.pdf(z)])

    p = np.concatenate([np.zeros(k - 1), np.log(2 * stats.kstwobign.ppf((np.arange(k) + 0.5) / k))])
    exactly = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 3000}
    for _ in range(6):  # a stalled search gets further when its scaling is made anew
        p = least_squares(lambda p: 1e6 * error(p), p, lambda p: 1e6 * slopes(p), method="lm", **exactly).x
    best, radius = np.abs(error(p)).max(), 0.1
    while radius > 1e-5:
        e, J = error(p) / best, slopes(p) / best
        A = np.block([[J, -np.ones((len(f), 1))], [-J, -np.ones((len(f), 1))]])
        bounds = [(-radius, radius)] * p.size + [(0, None)]
        step = linprog(np.append(np.zeros(p.size), 1.0), A, np.concatenate([-e, e]), bounds=bounds)
        new = np.abs(error(p + step.x[:-1])).max() if step.status == 0 else np.inf
        if new < best * (1 - 1e-4):
            p, best, radius = p + step.x[:-1], new, 1.5 * radius
        else:
            radius /= 3
    return p, best


@pytest.mark.parametrize(("k", "error"), [(1, 9.5e-3), (2, 5.1e-4), (3, 4.4e-5)])
def test_each_further_normal_gains_a_digit(k, error):
    assert_allclose(fit_logistic_mixture(k)[1], error, rtol=0.012)  # two digits are stated


@pytest.mark.slow
def test_the_stored_mixture_can_be_made_again():
    """Prints nothing, stores nothing: to change the numbers, print what this returns, in the order of the scales."""
    assert fit_logistic_mixture(5)[1] < 7.1e-7
    assert fit_logistic_mixture(8)[1] < 6.1e-9


# --- Distributions of SciPy -----------------------------------------------------------------------

KNOWN = [
    (stats.norm(), BernoulliProbit),
    (stats.logistic(), BernoulliLogit),
    (stats.cauchy(), BernoulliCauchit),
    (stats.gumbel_l(), BernoulliCloglog),
    (stats.gumbel_r(), BernoulliLoglog),
]


@pytest.mark.parametrize(("dist", "kind"), KNOWN, ids=lambda it: getattr(it, "__name__", ""))
def test_known_distributions_get_their_closed_form_which_is_that_of_scipy(dist, kind):
    closed, general = threshold_likelihood(dist), BernoulliDistribution(dist)
    assert type(closed) is kind
    f = np.linspace(-4, 3, 15)
    for y in (0, 1):
        assert_allclose(closed.log_prob(y, f), general.log_prob(y, f), rtol=1e-12)
        for one, other in zip(closed.slopes(y, f), general.slopes(y, f), strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-10)  # five-point differences, step eps^(1/5)
        assert_allclose(closed.third(y, f), general.third(y, f), rtol=1e-7, atol=1e-8)  # second differences, eps^(1/6)


def test_loc_and_scale_are_understood_however_they_are_given():
    for dist in (stats.t(4.0, 1.0, 2.0), stats.t(df=4.0, loc=1.0, scale=2.0), stats.t(4.0, 1.0, scale=2.0)):
        assert_allclose(threshold_likelihood(dist).mean(SCORES), dist.cdf(SCORES), rtol=1e-13)
        assert threshold_likelihood(dist).center == 1.0
    for dist in (stats.norm(1.0, 2.0), stats.norm(loc=1.0, scale=2.0), stats.norm(1.0, scale=2.0)):
        assert repr(threshold_likelihood(dist)) == "LocationScale(BernoulliProbit(), loc=1.0, scale=2.0)"


def test_location_and_scale_carry_over_what_is_known():
    assert threshold_likelihood(stats.norm(1.0, 2.0)).log_concave
    assert not threshold_likelihood(stats.cauchy(1.0, 2.0)).log_concave


OTHERS = [
    stats.genlogistic(0.4),
    stats.exponnorm(1.5),
    stats.johnsonsu(1.0, 2.0, scale=3.0),
    stats.hypsecant(),
    stats.laplace(loc=0.7, scale=0.5),
    stats.laplace_asymmetric(2.0),
    stats.gennorm(3.0),
]


@pytest.mark.parametrize("dist", OTHERS, ids=lambda it: it.dist.name)
def test_averages_of_any_distribution_agree_with_brute_force(dist):
    """Twenty thousand cells of Simpson's rule on each side of loc, the only kink."""
    likelihood = threshold_likelihood(dist)
    loc = dist.kwds.get("loc", 0.0)
    for m, v in ((-1.5, 0.2), (0.5, 3.0), (2.0, 80.0)):
        half = np.linspace(0, 12 * np.sqrt(v) + abs(m - loc), 20_001)
        weights = np.where(np.arange(20_001) % 2, 4.0, 2.0) * half[1] / 3
        weights[[0, -1]] = half[1] / 3
        f, w = np.concatenate([loc - half, loc + half]), np.concatenate([weights, weights])
        w = w * stats.norm.pdf(f, m, np.sqrt(v)) * dist.cdf(f)
        mass, mean = w.sum(), (w * f).sum() / w.sum()
        got = likelihood.tilted(1, m, v)
        # a kink leaves the rule the fourth power of its step
        assert_allclose(np.exp(got.log_mass), mass, rtol=1e-7)
        assert_allclose(got.mean, mean, rtol=1e-6, atol=1e-6)
        assert_allclose(got.var, (w * (f - mean) ** 2).sum() / mass, rtol=1e-6)


def test_the_slopes_of_a_skewed_distribution_agree_with_multiple_precision():
    likelihood = BernoulliDistribution(stats.genlogistic(0.4))
    f = np.array([-700.0, -30.0, -1.0, 0.0, 2.0, 30.0, 700.0])
    for y in (0, 1):
        for got, order in zip((*likelihood.slopes(y, f), likelihood.third(y, f)), (1, 2, 3), strict=True):
            with mp.workdps(400):
                c = mp.mpf(0.4)

                def log_prob(x, y=y, c=c):
                    log_one = -c * mp.log1p(mp.exp(-x))
                    return log_one if y else mp.log(-mp.expm1(log_one))

                want = np.array([float(mp.diff(log_prob, mp.mpf(x), order)) for x in f.tolist()])
            want = -want if order == 2 else want
            assert_allclose(got, want, rtol=1e-8, atol=1e-8)  # as its notes say


@pytest.mark.parametrize(
    ("dist", "reason"),
    [
        (stats.norm, "freeze it by calling it: norm\\(\\)"),
        (stats.poisson(3.0), "poisson is discrete"),
        (stats.poisson, "freeze it"),
        (stats.uniform(), "density on \\[0, 1\\] only"),
        (stats.expon(), "density on \\[0, inf\\] only"),
        (stats.norm([0.0, 1.0]), "must be one number"),
        (stats.dgamma(0.5), "no usable density"),
        (stats.vonmises(2.0), "no usable density"),
        (stats.norm(scale=-1.0), "no usable density|density on \\[nan"),
        (stats.multivariate_normal([0.0, 0.0]), "frozen continuous distribution"),
    ],
)
def test_what_cannot_be_a_threshold_is_refused_with_the_reason(dist, reason):
    with pytest.raises(InputError, match=reason):
        threshold_likelihood(dist)
    with pytest.raises(InputError, match=reason):
        BernoulliDistribution(dist)


@pytest.mark.parametrize(("loc", "scale"), [(np.nan, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, np.inf)])
def test_a_threshold_has_a_place_and_a_positive_scale(loc, scale):
    with pytest.raises(InputError, match="finite loc and a positive scale"):
        LocationScale(BernoulliLogit(), loc, scale)


# --- Choosing one ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*choices.THRESHOLDS, *choices.LINKS])
def test_every_name_is_that_of_its_distribution(name):
    distributions = {
        "logistic": stats.logistic,
        "normal": stats.norm,
        "cauchy": stats.cauchy,
        "gumbel": stats.gumbel_l,
        "gumbel_max": stats.gumbel_r,
    }
    dist = distributions[choices.LINKS.get(name, name)]
    assert_allclose(threshold_likelihood(name).mean(SCORES), dist.cdf(SCORES), rtol=1e-12)


def test_objects_are_chosen_by_what_they_are():
    likelihood = BernoulliCauchit()
    assert threshold_likelihood(likelihood) is likelihood
    assert threshold_likelihood(HUMPS).mixture is HUMPS
    assert repr(threshold_likelihood(StudentT(df=4.0))) == "BernoulliDistribution(t(4.0))"


def test_the_scale_of_a_prior_is_not_that_of_a_threshold():
    with pytest.raises(InputError, match="scale one"):
        threshold_likelihood(StudentT(df=4.0, scale=1.0))


@pytest.mark.parametrize("choice", ["Cauchy", "", None, 3.0, int], ids=repr)
def test_any_other_choice_is_refused_with_the_list(choice):
    with pytest.raises(InputError, match=r"'logistic', 'normal', 'cauchy', 'gumbel', 'gumbel_max'.*NormalMixture"):
        threshold_likelihood(choice)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_closed_forms_of_the_complementary_log_log_are_the_general_formulas(y):
    """On a harmless range: at small rates the general ones cancel, at large ones they meet 0 · inf."""
    f, gumbel = np.linspace(-3.0, 2.0, 21), BernoulliCloglog()
    for ours, general in zip(gumbel.slopes(y, f), DensityThreshold.slopes(gumbel, y, f), strict=True):
        assert_allclose(ours, general, rtol=1e-12)
    assert_allclose(gumbel.third(y, f), DensityThreshold.third(gumbel, y, f), rtol=1e-11)
    assert_allclose(gumbel.information(f), DensityThreshold.information(gumbel, f), rtol=1e-12)
    assert_allclose(gumbel.information_slope(f), DensityThreshold.information_slope(gumbel, f), rtol=1e-11, atol=1e-12)


def test_label_noise_averages_a_moved_and_narrow_threshold_where_it_is():
    """p = (1 - e₁₀) F + e₀₁ (1 - F) turns within 0.01 of 3: the rule must know, or its nodes miss the turn."""
    noisy = LabelNoise(from_scipy(stats.logistic(loc=3.0, scale=0.01)), 0.05, 0.1)
    f = np.linspace(1.0, 5.0, 400_001)
    weight = stats.norm(3.1, 0.25).pdf(f) * (f[1] - f[0])
    exact = (weight * noisy.log_prob(np.array(1.0), f)).sum()  # trapezoid, a thousand nodes within the turn
    averaged = noisy.averaged(np.array(1.0), np.array(3.1), np.array(0.25**2))
    assert_allclose(averaged.log_prob, exact, rtol=1e-9)
