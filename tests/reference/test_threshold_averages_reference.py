"""Averages of noisy thresholds against numbers with forty digits (../shared/reference, and mpmath here)."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from credibly.model.likelihoods import BernoulliCauchit, BernoulliCloglog, BernoulliDistribution, BernoulliLoglog
from helpers import needs_shared


@needs_shared
@pytest.mark.parametrize(("name", "likelihood"), [("cloglog", BernoulliCloglog()), ("cauchit", BernoulliCauchit())])
def test_averaged_thresholds_agree_with_forty_digits(refload, name, likelihood):
    table = refload.load("gaussian_averages")[name]
    ref = dict(zip(table["columns"], np.array(table["rows"], dtype=float).T, strict=True))
    log_mass, mean, var = likelihood.tilted(1, ref["mu"], ref["s2"])
    assert_allclose(log_mass, ref["log_Z"], rtol=1e-13)  # down to log Z = -2e-24
    assert_allclose(likelihood.log_average(1, ref["mu"], ref["s2"]), ref["log_Z"], rtol=1e-13)
    assert_allclose(np.exp(log_mass), ref["Z"], rtol=1e-13)
    assert_allclose((mean - ref["tilted_mean"]) / np.sqrt(ref["tilted_var"]), 0, atol=1e-13)
    assert_allclose(var, ref["tilted_var"], rtol=5e-13)


@needs_shared
def test_the_mirrored_threshold_agrees_with_forty_digits(refload):
    table = refload.load("gaussian_averages")["cloglog"]
    mu, s2, log_Z, _, mean, var = np.array(table["rows"], dtype=float).T
    got = BernoulliLoglog().tilted(0, -mu, s2)
    assert_allclose(got.log_mass, log_Z, rtol=1e-13)
    assert_allclose((got.mean + mean) / np.sqrt(var), 0, atol=1e-13)
    assert_allclose(got.var, var, rtol=5e-13)


def mp_moments(prob, m, v):
    """Log mass, mean and variance by Gauss–Legendre on panels that are shorter than the link is wide."""
    with mp.workdps(30):
        m, s = mp.mpf(m), mp.sqrt(mp.mpf(v))
        ends = sorted({m + k * s for k in range(-12, 13)} | {mp.mpf(k) for k in (-30, -10, -3, -1, 0, 1, 3, 10, 30)})
        ends = [end for end in ends if abs(end - m) <= 12 * s]
        raw = [mp.quad(lambda f, k=k: f**k * prob(f) * mp.npdf(f, m, s), ends) for k in range(3)]
        mean = raw[1] / raw[0]
        return float(mp.log(raw[0])), float(mean), float(raw[2] / raw[0] - mean**2)


def mp_student_half(f):
    """Half a degree of freedom, by the incomplete beta function."""
    nu = mp.mpf(0.5)
    tail = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + f * f), regularized=True) / 2
    return tail if f < 0 else 1 - tail


def mp_student_four(f):
    """Four degrees of freedom, for which the integral is elementary."""
    scale = 1 + f * f / 4
    return mp.mpf(1) / 2 + mp.mpf(3) / 8 * f / mp.sqrt(scale) * (1 - f * f / scale / 12)


@pytest.mark.parametrize(
    ("df", "prob", "m", "v"),
    [
        (0.5, mp_student_half, -6.0, 0.04),
        (4.0, mp_student_four, -6.0, 0.04),
        (4.0, mp_student_four, -2.0, 9.0),
        (4.0, mp_student_four, 5.0, 400.0),
    ],
)
def test_averaged_student_thresholds_agree_with_multiple_precision(df, prob, m, v):
    log_mass, mean, var = mp_moments(prob, m, v)
    got = BernoulliDistribution(stats.t(df)).tilted(1, m, v)
    assert_allclose(got.log_mass, log_mass, rtol=1e-13)
    assert_allclose(got.mean, mean, rtol=1e-13)
    assert_allclose(got.var, var, rtol=1e-12)


def test_the_unlikely_label_of_the_gumbel_threshold_agrees_with_multiple_precision():
    """The integrand exp(-e^f) N(f | 30, 1) peaks 27 standard deviations from the mean of its normal factor."""
    with mp.workdps(40):
        panels = [mp.mpf(k) / 16 for k in range(0, 97)]
        raw = [mp.quad(lambda f, k=k: f**k * mp.exp(-mp.exp(f)) * mp.npdf(f, 30, 1), panels) for k in range(3)]
        mean = raw[1] / raw[0]
        want = float(mp.log(raw[0])), float(mean), float(raw[2] / raw[0] - mean**2)
    for got, number in zip(BernoulliCloglog().tilted(0, 30.0, 1.0), want, strict=True):
        assert_allclose(got, number, rtol=1e-12)
