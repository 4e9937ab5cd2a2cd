"""Gaussian processes of a few rows in sixty digits: kernels, modes, sites, evidences, predictions.

Length scales are 1e-3 to 1e6 and amplitudes 1e-3 to 1e3, without any noise: at the ends the kernel matrix is the
identity, or all its rows are the same to rounding. What is allowed is the rounding of kernel values, eps · k(x, x).
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly import GaussianProcessClassifier
from credibly.inference.sites import Cavities, Sites, cavities_of, matched, tilted_of
from credibly.kernels import RBF, Constant, Linear, Matern, Periodic, RationalQuadratic
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit

DIGITS = 60
EPS = float(np.finfo(float).eps)
X = np.array([[0.0], [0.7], [0.7], [1.5], [-2.25]])  # one row is there twice
Y = np.array([0, 1, 0, 1, 0])
NEW = np.array([[0.1], [-5.0], [1e6]])
FIXED = {"length_scale_bounds": "fixed"}
SHAPES = [(length, amplitude) for length in (1e-3, 0.5, 1e3, 1e6) for amplitude in (1e-3, 1.0, 1e3)]
EVERY_SHAPE = pytest.mark.parametrize(("length", "amplitude"), SHAPES)
BOTH_LINKS = pytest.mark.parametrize("likelihood", ["logit", "probit"])


# --- kernels --------------------------------------------------------------------------------------


def mp_kernel(length: float, amplitude: float, x: np.ndarray, z: np.ndarray) -> mp.matrix:
    variance = mp.mpf(float(amplitude**2))
    entries = [
        [variance * mp.exp(-(((mp.mpf(float(a)) - mp.mpf(float(b))) / mp.mpf(length)) ** 2) / 2) for b in z[:, 0]]
        for a in x[:, 0]
    ]
    return mp.matrix(entries)


@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_kernel_values_are_right_from_one_to_below_the_smallest_number(length):
    x = np.array([[0.0], [1e-9], [1e-3], [1.0], [30.0], [1e6]])
    kernels = {
        RBF(length, **FIXED): lambda r: mp.exp(-(r**2) / 2),
        Matern(length, nu=0.5, **FIXED): lambda r: mp.exp(-r),
        Matern(length, nu=1.5, **FIXED): lambda r: (1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r),
        Matern(length, nu=2.5, **FIXED): lambda r: (1 + mp.sqrt(5) * r + 5 * r**2 / 3) * mp.exp(-mp.sqrt(5) * r),
        RationalQuadratic(length, 0.5, **FIXED): lambda r: (1 + r**2) ** mp.mpf(-0.5),
    }
    for kernel, exact in kernels.items():
        with mp.workdps(DIGITS):
            gaps = [[abs(mp.mpf(float(a)) - mp.mpf(float(b))) / mp.mpf(length) for b in x[:, 0]] for a in x[:, 0]]
            wanted = np.array([[float(exact(r)) for r in row] for row in gaps])
        # an exponent has an error of 4 eps: of a difference, a division and a square
        exponent = np.where(wanted > 0, np.abs(np.log(np.where(wanted > 0, wanted, 1.0))), 0.0)
        assert (np.abs(kernel(x) - wanted) <= 4 * EPS * (1 + exponent) * wanted + 1e-307).all(), kernel


def test_periodic_and_linear_kernels_are_right_far_from_the_origin():
    x = np.array([[0.0], [1e-8], [0.25], [1e6 + 0.25]])
    with mp.workdps(DIGITS):
        numbers = [mp.mpf(float(a)) for a in x[:, 0]]
        periodic = [[float(mp.exp(-2 * mp.sin(mp.pi * (a - b) / 3) ** 2 / 4)) for b in numbers] for a in numbers]
        linear = [[float(a * b + mp.mpf(0.25)) for b in numbers] for a in numbers]
    assert_allclose(Periodic(2.0, 3.0)(x), periodic, rtol=1e-9)  # a phase of 1e6 has lost six of its sixteen digits
    assert_allclose(Linear(0.5)(x), linear, rtol=1e-15)


# --- Laplace and EP in sixty digits ---------------------------------------------------------------


class Answer(NamedTuple):
    """What a Gaussian process says of the rows, and of new ones."""

    log_evidence: float
    mean: list[float]
    new_mean: list[float]
    new_var: list[float]


def expanded(likelihood: str, sign: int, f: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    z = sign * f
    if likelihood == "logit":
        s = 1 / (1 + mp.exp(-z))
        return mp.log(s), sign * (1 - s), s * (1 - s)
    Phi = mp.erfc(-z / mp.sqrt(2)) / 2
    r = mp.npdf(z) / Phi
    return mp.log(Phi), sign * r, r * (z + r)


def answer(cross: mp.matrix, prior: mp.mpf, a: mp.matrix, R: mp.matrix, evidence: mp.mpf, mean: list[mp.mpf]) -> Answer:
    new = [cross[:, j] for j in range(cross.cols)]
    means = [float((c.T * a)[0]) for c in new]
    variances = [float(prior - (c.T * R * c)[0]) for c in new]
    return Answer(float(evidence), [float(it) for it in mean], means, variances)


def laplace(likelihood: str, K: mp.matrix, cross: mp.matrix, prior: mp.mpf) -> Answer:
    """Damped Newton from zero: f ← (I + KW)⁻¹ K (W f + g), halved until Ψ falls."""
    n, sign = K.rows, [2 * int(y) - 1 for y in Y]
    eye, a = mp.eye(n), mp.matrix(n, 1)

    def psi(a: mp.matrix) -> mp.mpf:
        f = K * a
        return (a.T * f)[0] / 2 - mp.fsum(expanded(likelihood, sign[i], f[i])[0] for i in range(n))

    for _ in range(100):
        f = K * a
        at = [expanded(likelihood, sign[i], f[i]) for i in range(n)]
        W, g = mp.diag([it[2] for it in at]), mp.matrix([it[1] for it in at])
        b = W * f + g
        goal = b - W * mp.lu_solve(eye + K * W, K * b)
        step = mp.mpf(1)
        while psi(a + step * (goal - a)) > psi(a) + mp.mpf(10) ** -50:
            step /= 2
        a, last = a + step * (goal - a), goal - a
        if mp.norm(last) < mp.mpf(10) ** -45:
            break
    f = K * a
    at = [expanded(likelihood, sign[i], f[i]) for i in range(n)]
    W = mp.diag([it[2] for it in at])
    B = eye + K * W
    evidence = mp.fsum(it[0] for it in at) - (a.T * f)[0] / 2 - mp.log(mp.det(B)) / 2
    return answer(cross, prior, a, W * mp.inverse(B), evidence, list(f))


def ep_probit(K: mp.matrix, cross: mp.matrix, prior: mp.mpf) -> Answer:
    """Row by row until nothing moves in thirty digits (RW06 algorithm 3.5), and log Z by its definition."""
    n, sign = K.rows, [2 * int(y) - 1 for y in Y]
    tau, nu, eye = [mp.mpf(0)] * n, [mp.mpf(0)] * n, mp.eye(n)

    def posterior() -> tuple[mp.matrix, mp.matrix]:
        cov = mp.inverse(eye + K * mp.diag(tau)) * K
        return cov * mp.matrix(nu), cov

    def tilted(i: int, mean: mp.matrix, cov: mp.matrix) -> tuple[mp.mpf, ...]:
        t, w = 1 / cov[i, i] - tau[i], mean[i] / cov[i, i] - nu[i]
        m, v = w / t, 1 / t
        z = sign[i] * m / mp.sqrt(1 + v)
        Z = mp.erfc(-z / mp.sqrt(2)) / 2
        r = mp.npdf(z) / Z
        return t, w, mp.log(Z), m + sign[i] * v * r / mp.sqrt(1 + v), v - v**2 * r * (z + r) / (1 + v)

    for _ in range(400):
        moved = mp.mpf(0)
        for i in range(n):
            mean, cov = posterior()
            t, w, _, wanted, var = tilted(i, mean, cov)
            moved = max(
                moved, abs(1 / var - t - tau[i]) * cov[i, i], abs(wanted / var - w - nu[i]) * mp.sqrt(cov[i, i])
            )
            tau[i], nu[i] = 1 / var - t, wanted / var - w
        if moved < mp.mpf(10) ** -25:
            break
    mean, cov = posterior()
    evidence = (mp.matrix(nu).T * mean)[0] / 2 - mp.log(mp.det(eye + K * mp.diag(tau))) / 2
    for i in range(n):
        t, w, log_mass, _, _ = tilted(i, mean, cov)
        evidence += log_mass + mp.log1p(tau[i] / t) / 2 - ((w + nu[i]) ** 2 / (t + tau[i]) - w**2 / t) / 2
    R = mp.diag(tau) * mp.inverse(eye + K * mp.diag(tau))
    return answer(cross, prior, mp.matrix(nu) - mp.diag(tau) * mean, R, evidence, list(mean))


def check(length: float, amplitude: float, likelihood: str, inference: str) -> None:
    kernel = Constant(amplitude**2, variance_bounds="fixed") * RBF(length, **FIXED)
    model = GaussianProcessClassifier(kernel, likelihood=likelihood, inference=inference).fit(X, Y)
    with mp.workdps(DIGITS):
        K, cross = mp_kernel(length, amplitude, X, X), mp_kernel(length, amplitude, X, NEW)
        prior = mp.mpf(float(amplitude**2))
        exact = laplace(likelihood, K, cross, prior) if inference == "laplace" else ep_probit(K, cross, prior)
    size = amplitude**2
    found = model.predict_latent(NEW)
    assert_allclose(model.log_evidence_, exact.log_evidence, rtol=1e-11, atol=40 * EPS * size)
    # a mean is a sum of kernel values times slopes of order one; EP's sites are known to 1e-9 of a deviation
    near = (1e-11 if inference == "laplace" else 4e-9) * min(amplitude, 1.0)
    assert_allclose(model.posterior_.mean, exact.mean, rtol=1e-9, atol=near + 40 * EPS * size)
    assert_allclose(found.mean, exact.new_mean, rtol=1e-9, atol=near + 40 * EPS * size)
    assert_allclose(found.variance, exact.new_var, rtol=1e-8, atol=40 * EPS * size)


@BOTH_LINKS
@EVERY_SHAPE
def test_laplace_agrees_with_sixty_digits(length, amplitude, likelihood):
    check(length, amplitude, likelihood, "laplace")


@EVERY_SHAPE
def test_expectation_propagation_agrees_with_sixty_digits(length, amplitude):
    check(length, amplitude, "probit", "ep")


# --- sites ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit()], ids=repr)
def test_sites_of_extreme_cavities_give_the_moments_back(likelihood):
    """Cavity × site has the tilted moments: precisions and means from 1e-16 to 1e16 times those of the cavity."""
    m, v = (grid.ravel() for grid in np.meshgrid([-1e4, -30.0, 0.0, 1e-8, 30.0, 1e4], [1e-16, 1e-4, 1.0, 1e4, 1e12]))
    for y in (0.0, 1.0):
        cavity = Cavities(1 / v, m / v, np.ones(m.size, dtype=bool))
        wanted = tilted_of(likelihood, np.full(m.size, y), cavity)
        sites = matched(wanted, cavity)
        precision = cavity.tau + sites.tau
        assert_allclose(1 / precision, wanted.var, rtol=1e-12)
        off = np.abs((cavity.nu + sites.nu) / precision - wanted.mean)
        assert (off <= 1e-12 * np.sqrt(wanted.var) + 4 * np.spacing(np.abs(wanted.mean) + np.abs(m))).all()
        assert (sites.tau >= -1e-15 * cavity.tau).all()  # log-concave: what is learnt narrows


def test_a_latent_without_variance_has_a_site_that_says_nothing():
    cavity = cavities_of(np.array([0.0, 1.0]), np.array([0.0, 2.0]), Sites(np.zeros(2), np.zeros(2)))
    assert_allclose(cavity.tau, [np.inf, 0.5])
    sites = matched(tilted_of(BernoulliProbit(), np.ones(2), cavity), cavity)
    assert sites.tau[0] == sites.nu[0] == 0.0
