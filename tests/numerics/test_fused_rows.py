"""The compiled likelihoods row by row, and the exponential and logarithms they are made of, against mpmath."""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.numerics import fused

pytestmark = pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")

ULP = 2.0**-52


def expand(kind: str, y: Any, f: Any) -> np.ndarray:
    """Log probability, slope and curvature, (3, n)."""
    from credibly.numerics import _fused_rows

    f = np.atleast_1d(np.asarray(f, dtype=float))
    y = np.broadcast_to(np.asarray(y, dtype=float), f.shape).copy()
    at = np.empty((3, f.size))
    _fused_rows.expand_rows(fused.KINDS[kind], f, y, np.empty((4, f.size)), at)
    return at


def relative_errors(found: np.ndarray, exact: list[Any]) -> np.ndarray:
    return np.array([float(abs(mp.mpf(float(a)) - b) / abs(b)) for a, b in zip(found, exact, strict=True)])


# --- Logit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_logit_against_multiple_precision(y: float) -> None:
    f = np.array([-700.0, -300.0, -37.0, -20.0, -1.0, 0.0, 1e-9, 1.0, 20.0, 37.0, 300.0, 700.0])
    with mp.workdps(700):  # 1 - σ(700), as the formulas have it, cancels 304 digits
        sigma = [1 / (1 + mp.exp(-mp.mpf(x))) for x in f.tolist()]
        exact = [mp.log(s if y else 1 - s) for s in sigma], [y - s for s in sigma], [s * (1 - s) for s in sigma]
        for found, expected, bound in zip(expand("logit", y, f), exact, (3, 3, 5), strict=True):
            assert relative_errors(found, expected).max() < bound * ULP


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("f", [709.0, 745.0, 746.0, 1e5, 1e300, np.finfo(float).max])
def test_scores_beyond_the_exponential_give_the_limit(f: float, y: float) -> None:
    s = 2 * y - 1
    assert expand("logit", y, s * f).ravel().tolist() == [0.0, 0.0, 0.0]
    assert expand("logit", y, -s * f).ravel().tolist() == [-f, s, 0.0]


def test_small_contributions_are_not_rounded_away() -> None:
    """log(1 + e) of confident rows is e, where 1 + e would be 1."""
    assert_allclose(expand("logit", 1.0, 40.0)[0], -np.exp(-40.0), rtol=1e-15)
    assert_allclose(expand("probit", 1.0, 30.0)[0], -4.906713927148187e-198, rtol=1e-14)


# --- Probit ---------------------------------------------------------------------------------------


SCORES = np.concatenate(
    [np.linspace(-12.0, 12.0, 301), np.linspace(-60.0, -12.0, 60), np.linspace(12.0, 37.4, 60), [-1e2, -1e3, -1e5]]
)


def log_cdf(z: Any) -> tuple[Any, Any, Any]:
    """log Φ(z), its slope r and r (z + r)."""
    mass = mp.erfc(-z / mp.sqrt(2)) / 2
    r = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) / mass
    return mp.log(mass), r, r * (z + r)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_probit_against_multiple_precision_in_both_tails(y: float) -> None:
    """A few units in the last place, everywhere; far on the left mass, slope and curvature are those of the limit."""
    s = 2 * y - 1
    with mp.workdps(400):  # 1 - Φ(37) cancels 300 digits
        exact = list(zip(*(log_cdf(mp.mpf(z)) for z in SCORES.tolist()), strict=True))
        log_prob, slope, curvature = expand("probit", y, s * SCORES)
        assert relative_errors(log_prob, exact[0]).max() < 12 * ULP
        assert relative_errors(s * slope, exact[1]).max() < 12 * ULP
        assert relative_errors(curvature, exact[2]).max() < 12 * ULP


def test_probit_where_the_density_underflows_and_beyond() -> None:
    far = np.array([38.5, 39.0, 50.0, 1e10, 1e150, 1e300])
    assert_array_equal(expand("probit", 1.0, far), np.zeros((3, far.size)))
    log_prob, slope, curvature = expand("probit", 1.0, -far[:-1])
    with mp.workdps(30):
        x = [mp.mpf(value) for value in far[:-1].tolist()]
        series = [1 - 1 / v**2 + 3 / v**4 - 15 / v**6 + 105 / v**8 for v in x]  # of Φ(-v) v / φ(v)
        exact = [-v * v / 2 - mp.log(2 * mp.pi) / 2 - mp.log(v) + mp.log(t) for v, t in zip(x, series, strict=True)]
    assert relative_errors(log_prob, exact).max() < 4 * ULP
    assert_allclose(slope, far[:-1] + 1 / far[:-1], rtol=1e-5)  # r = v + 1/v - …
    assert_allclose(curvature, 1 - 1 / far[:-1] ** 2, atol=6.1 * 38.5**-4)
    assert expand("probit", 1.0, -1e300).ravel().tolist() == [-np.inf, 1e300, 1.0]


def test_probit_is_smooth_at_zero() -> None:
    tiny = np.array([-5e-324, -0.0, 0.0, 5e-324])
    log_prob, slope, curvature = expand("probit", 1.0, tiny)
    assert_allclose(log_prob, -np.log(2.0), rtol=2 * ULP)
    assert_allclose(slope, np.sqrt(2 / np.pi), rtol=2 * ULP)
    assert_allclose(curvature, 2 / np.pi, rtol=4 * ULP)


# --- Poisson --------------------------------------------------------------------------------------


COUNTS = [0, 1, 2, 3, 7, 14, 15, 16, 17, 40, 170, 171, 1000, 123_456, 10**9, 10**15]


@pytest.mark.parametrize("shift", [-650.0, -20.0, -1.0, -0.3, -1e-4, 0.0, 1e-9, 0.01, 0.34, 0.36, 1.0, 5.0, 600.0])
def test_poisson_against_multiple_precision(shift: float) -> None:
    """Scores so far from log y. The error of log p is that of the score, whose last place the kernel cannot know."""
    y = np.array(COUNTS, dtype=float)
    f = np.log(np.maximum(y, 1.0)) + shift
    log_prob, slope, curvature = expand("poisson", y, f)
    with mp.workdps(60):
        pairs = [(mp.mpf(c), mp.mpf(v)) for c, v in zip(COUNTS, f.tolist(), strict=True)]
        exact = [c * v - mp.exp(v) - mp.loggamma(c + 1) for c, v in pairs]
        slopes, means = [float(c - mp.exp(v)) for c, v in pairs], [float(mp.exp(v)) for c, v in pairs]
        errors = np.array([float(abs(mp.mpf(float(a)) - b)) for a, b in zip(log_prob, exact, strict=True)])
    score = 2 * ULP * (1 + np.abs(f))
    size = np.array([float(abs(b)) for b in exact])
    assert (errors <= 4 * ULP * (size + 1) + score * np.abs(slopes)).all()
    assert (np.abs(slope - slopes) <= 4 * ULP * np.abs(slopes) + score * np.array(means)).all()
    assert_allclose(curvature, means, rtol=6 * ULP + score.max())


def test_log_probabilities_of_counts_sum_to_one() -> None:
    y = np.arange(400.0)
    for f in (-2.0, 0.0, 2.0, 4.5):
        assert_allclose(np.exp(expand("poisson", y, np.full(400, f))[0]).sum(), 1.0, rtol=1e-13)


def test_counts_at_the_ends() -> None:
    assert expand("poisson", 0.0, -800.0).ravel().tolist() == [0.0, 0.0, 0.0]
    log_prob, slope, curvature = expand("poisson", 3.0, [-800.0, 710.0, 1e4])
    assert_allclose(log_prob[0], -2400 - np.log(6.0), rtol=ULP)
    assert (slope[0], curvature[0]) == (3.0, 0.0)
    assert (log_prob[1:] == -np.inf).all() and (slope[1:] == -np.inf).all() and (curvature[1:] == np.inf).all()


@pytest.mark.parametrize("kind", list(fused.KINDS))
def test_missing_scores_are_not_hidden(kind: str) -> None:
    assert np.isnan(expand(kind, 1.0, np.nan)).all()


# --- Exponential and logarithm --------------------------------------------------------------------


def exponential(f: np.ndarray) -> np.ndarray:
    from credibly.numerics import _fused_rows

    e = np.empty_like(f)
    _fused_rows.exp_minus_abs(f, e)
    return e


def test_exponential_to_an_ulp() -> None:
    f = np.concatenate(
        [np.linspace(0.0, 708.39, 4001), np.logspace(-320, 2.85, 1000), np.log(2) * np.arange(0.5, 1022)]
    )
    with mp.workdps(40):
        assert relative_errors(exponential(f), [mp.exp(-mp.mpf(x)) for x in f.tolist()]).max() < ULP
    assert_array_equal(exponential(-f), exponential(f))


def test_exponential_at_the_ends() -> None:
    assert_array_equal(exponential(np.array([0.0, -0.0, 708.4, 745.0, 1e300, np.inf, -np.inf])), [1, 1, 0, 0, 0, 0, 0])
    assert np.isnan(exponential(np.array([np.nan]))).all()


def mapped(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    return np.array([function(value) for value in x.tolist()])


def test_logarithm_to_an_ulp() -> None:
    from credibly.numerics import _fused_base

    x = np.concatenate([np.logspace(-307.6, 308.2, 1500), np.linspace(0.5, 2.0, 1500), 1 + np.logspace(-15, -1, 60)])
    with mp.workdps(40):
        assert (
            relative_errors(mapped(_fused_base.logarithm, x), [mp.log(mp.mpf(v)) for v in x.tolist()]).max() < 2 * ULP
        )
    assert _fused_base.logarithm(1.0) == 0.0


def test_log_of_one_and_a_share() -> None:
    from credibly.numerics import _fused_softmax

    x = np.concatenate([[0.0], np.logspace(-300, 3, 800), np.linspace(0.39, 0.42, 50)])
    out = np.zeros_like(x)
    _fused_softmax.log_one_plus(x, out)
    with mp.workdps(400):
        assert relative_errors(-out[1:], [mp.log(1 + mp.mpf(v)) for v in x[1:].tolist()]).max() < 2 * ULP
    assert out[0] == 0.0
