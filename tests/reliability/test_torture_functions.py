"""Special functions and families of generalised linear models on extreme arguments, against multiple precision."""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.model.likelihoods.families import (
    Binomial,
    Gamma,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
)
from credibly.numerics import special

SIZES = np.array([1e-300, 1e-8, 1.0, 2.5, 30.0, 700.0, 745.0, 1e4, 1e8, 1e150, 1e300])
EVERYWHERE = np.concatenate([-SIZES[::-1], [0.0], SIZES])
TINY = 2.3e-308  # below this a double has fewer digits


def double(number: mp.mpf) -> float:
    return float(number) if abs(number) < mp.mpf(2) ** 1024 else float(mp.sign(number)) * np.inf


def assert_right(got: np.ndarray, exact: list[mp.mpf], rtol: float, atol: float = TINY) -> None:
    wanted = np.array([double(number) for number in exact])
    infinite = np.isinf(wanted)
    assert_array_equal(np.asarray(got)[infinite], wanted[infinite])
    assert_allclose(np.asarray(got)[~infinite], wanted[~infinite], rtol=rtol, atol=atol)


# --- special functions ----------------------------------------------------------------------------


def mp_softplus(x: mp.mpf) -> mp.mpf:
    if abs(x) > 2000:
        return max(x, mp.mpf(0))
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def mp_log_mills(x: mp.mpf) -> mp.mpf:
    if x > 1e7:
        return -mp.log(x) - 1 / x**2
    if x < -100:
        return x**2 / 2 + mp.log(2 * mp.pi) / 2
    return mp.log(mp.erfc(x / mp.sqrt(2)) / 2) + x**2 / 2 + mp.log(2 * mp.pi) / 2


def mp_hazard(z: mp.mpf) -> mp.mpf:
    if z < -1e7:
        return -z - 1 / z
    return mp.npdf(z) / (mp.erfc(-z / mp.sqrt(2)) / 2) if z < 100 else mp.mpf(0)


FUNCTIONS: list[tuple[Callable[[np.ndarray], np.ndarray], Callable[[mp.mpf], mp.mpf], float]] = [
    (special.softplus, mp_softplus, 4e-16),
    (special.log_sigmoid, lambda x: -mp_softplus(-x), 4e-16),
    (special.log_mills_ratio, mp_log_mills, 2e-14),
    (special.normal_hazard, mp_hazard, 4e-15),
    (special.log_cauchy_cdf, lambda x: mp.log(mp.atan2(1, -x) / mp.pi), 2e-15),
    (special.cauchy_hazard, lambda x: 1 / ((1 + x**2) * mp.atan2(1, -x)), 2e-15),
]


@pytest.mark.parametrize(("function", "exact", "rtol"), FUNCTIONS, ids=lambda it: getattr(it, "__name__", ""))
def test_special_functions_are_right_everywhere(function, exact, rtol):
    with mp.workdps(700):  # 1 + 1e300², and logarithms of one plus 1e-300
        assert_right(function(EVERYWHERE), [exact(mp.mpf(float(x))) for x in EVERYWHERE], rtol)


def test_ratios_of_moments_have_their_limits_at_both_ends():
    """Kⱼ → j/x on the right and → -x on the left, to rounding from 1e8 on."""
    far = np.array([1e8, 1e150, 1e300])
    for j, ratio in enumerate(special.mills_ratios(far), start=1):
        assert_allclose(ratio, j / far, rtol=1e-15)
    for ratio in special.mills_ratios(-far):
        assert_allclose(ratio, far, rtol=1e-15)


def test_softmax_and_sums_of_exponentials_know_the_largest_numbers():
    a = np.array([[1e300, -1e300, 0.0], [-1e300, -1e300, -1e300], [1e8, 1e8 - 745, -1e150], [1e-300, 0.0, -1e-300]])
    assert_allclose(special.log_sum_exp(a), [1e300, -1e300, 1e8, np.log(3)], rtol=1e-15)
    assert_allclose(special.log_softmax(a)[2], [-np.exp(-745.0), -745, -1e150], rtol=1e-15)
    assert_allclose(special.log_softmax(a)[[1, 3]], -np.log(3), rtol=1e-15)
    assert_array_equal(special.log_softmax(a)[0], [0, -2e300, -1e300])
    assert_allclose(special.log_softmax(a[:, :2])[:, 0], [0, -np.log(2), -np.exp(-745.0), -np.log(2)], rtol=1e-15)


# --- families -------------------------------------------------------------------------------------

COUNTS = np.array([0.0, 1.0, 1e15])
MU = np.array([1e-300, 1e-8, 1.0, 1e15, 1e15 * (1 + 1e-8), 1e100])
y_count, mu_count = (grid.ravel() for grid in np.meshgrid(COUNTS, MU))


def of_pairs(exact: Callable[[mp.mpf, mp.mpf], mp.mpf], y: np.ndarray, mu: np.ndarray) -> list[mp.mpf]:
    with mp.workdps(60):
        return [exact(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(y, mu, strict=True)]


def test_poisson_counts_up_to_1e15_are_right():
    exact = of_pairs(lambda y, mu: y * mp.log(mu) - mu - mp.loggamma(y + 1), y_count, mu_count)
    assert_right(Poisson().log_density(y_count, mu_count), exact, 1e-13)


@pytest.mark.parametrize("alpha", [1e-8, 1.0, 1e8])
def test_negative_binomial_counts_up_to_1e15_are_right(alpha):
    def exact(y: mp.mpf, mu: mp.mpf) -> mp.mpf:
        a = mp.mpf(alpha)
        ratio = mp.loggamma(y + 1 / a) - mp.loggamma(1 / a) - mp.loggamma(y + 1)
        return ratio + y * mp.log(a * mu) - (y + 1 / a) * mp.log1p(a * mu)

    got = NegativeBinomial(alpha).log_density(y_count, mu_count)
    # terms of size y log y are added: their rounding is what is left where they cancel
    terms = y_count * (1 + np.abs(np.log(alpha * mu_count))) + np.log1p(alpha * mu_count) / alpha
    assert (np.abs(got - [double(it) for it in of_pairs(exact, y_count, mu_count)]) <= 1e-15 * (40 + 10 * terms)).all()


@pytest.mark.parametrize("s", [1e-8, 1.0, 1e8])
def test_positive_targets_from_1e_minus_100_to_1e100_are_right(s):
    y, mu = (grid.ravel() for grid in np.meshgrid([1e-100, 1e-8, 1.0, 1e15, 1e100], [1e-100, 1.0, 1e15, 1e100]))
    k = 1 / s

    def gamma(y: mp.mpf, mu: mp.mpf) -> mp.mpf:
        shape = mp.mpf(k)
        return shape * mp.log(shape * y / mu) - shape * y / mu - mp.log(y) - mp.loggamma(shape)

    def inverse(y: mp.mpf, mu: mp.mpf) -> mp.mpf:
        return -((y / mu - 1) ** 2) / (2 * mp.mpf(s) * y) - mp.log(2 * mp.pi * mp.mpf(s) * y**3) / 2

    # the ratio y/μ is rounded, and the shape multiplies that
    rounded = 1e-14 * (1 + k * (1 + np.abs(np.log(y / mu))) + np.abs(np.log(y)))
    off = np.abs(Gamma().log_density(y, mu, s) - [double(it) for it in of_pairs(gamma, y, mu)])
    far = y / mu >= 1e20
    assert (off <= rounded)[~far].all()
    assert_right(Gamma().log_density(y[far], mu[far], s), of_pairs(gamma, y[far], mu[far]), 1e-13)
    assert_right(InverseGaussian().log_density(y, mu, s), of_pairs(inverse, y, mu), 1e-12, atol=1e-12)


def test_gaussian_targets_and_binomial_coefficients_are_right():
    y, mu = (grid.ravel() for grid in np.meshgrid([0.0, 1e-300, 1.0, 1e15, 1e150], [0.0, 1.0, -1e15, 1e150]))
    exact = of_pairs(lambda y, mu: -((y - mu) ** 2) / 2 - mp.log(2 * mp.pi) / 2, y, mu)
    assert_right(Gaussian().log_density(y, mu, 1.0), exact, 1e-15)
    totals = np.array([1.0, 10.0, 1e6, 1e15])
    for share in (0.0, 0.5, 1.0):
        success = np.rint(share * totals)
        coefficients = of_pairs(lambda k, m: mp.log(mp.binomial(m, k)), success, totals)
        # SciPy's beta function subtracts gamma functions of size m log m
        assert_allclose(
            Binomial().log_coefficients(success / totals, totals),
            [double(it) for it in coefficients],
            rtol=1e-12,
            atol=1e-13,
        )
