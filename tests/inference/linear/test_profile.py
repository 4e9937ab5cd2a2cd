"""Profiles of a likelihood where they are known exactly."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.stats import chi2

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.linear.fit import fit_linear
from credibly.inference.linear.profile import Profile, cut_by_plane, on_plane, profile_interval
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton
from credibly.numerics.status import Local
from helpers import raw_objective


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    return rng.normal(size=4), root @ root.T, rng.normal(size=(2, 4))


def quadratic(H, mean):
    def expand(u):
        gap = u - mean
        return Local(float(gap @ H @ gap) / 2, H @ gap, PSD.of(H, "H"))

    return expand


def test_the_profile_of_a_quadratic_is_the_normal_interval(problem):
    mean, H, A = problem
    expand = quadratic(H, mean)
    best = newton(expand, np.zeros(4))
    for a in A:
        se = np.sqrt(a @ np.linalg.solve(H, a))
        for side in (-1, 1):
            assert_allclose(
                Profile(expand, partial(cut_by_plane, expand), best, a).limit(1.96, side),
                a @ mean + side * 1.96 * se,
                rtol=1e-10,
            )


def test_one_weight_needs_no_search():
    """k of n labels: l(f) = k f - n log(1 + e^f); the limits solve 2 (l_max - l) = z² directly."""
    k, n, z = 3.0, 10.0, 1.5

    def loss(f):
        return n * np.logaddexp(0, f) - k * f

    def expand(u):
        p = 1 / (1 + np.exp(-u))
        return Local(float(loss(u[0])), n * p - k, PSD.of(np.diag(n * p * (1 - p)), "H"))

    best = newton(expand, np.zeros(1))
    for side in (-1, 1):
        want = brentq(lambda f: 2 * (loss(f) - best.local.value) - z**2, best.x[0], best.x[0] + side * 20, xtol=1e-13)
        assert_allclose(
            Profile(expand, partial(cut_by_plane, expand), best, np.array([2.0])).limit(z, side), 2 * want, rtol=1e-10
        )


def test_a_likelihood_that_levels_out_has_an_infinite_limit():
    """-log(1/2 + e^(-u²/2)) rises by log 3 in all; for z = 2 it would have to rise by z²/2 = 2."""

    def expand(u):
        e = np.exp(-(u @ u) / 2)
        grad = u * e / (0.5 + e)
        return Local(-float(np.log(0.5 + e)), grad, PSD.of(np.eye(2) * max(e / (0.5 + e), 1e-12), "H"))

    best = newton(expand, np.zeros(2))
    profile = Profile(expand, partial(cut_by_plane, expand), best, np.array([1.0, 0.0]))
    assert_array_equal([profile.limit(2.0, side) for side in (-1, 1)], [-np.inf, np.inf])
    # a lower goal is reached, where log(3/2) - log(1/2 + e^(-u²/2)) = z²/2
    z = 1.0
    e = 1.5 * np.exp(-(z**2) / 2) - 0.5
    assert_allclose(profile.limit(z, 1), np.sqrt(-2 * np.log(e)), rtol=1e-9)


def test_a_wall_on_the_way_is_walked_up_to():
    """-log(1 - u) - log(1 + u): finite inside (-1, 1) only; the limit is sqrt(1 - e^(-z²/2))."""

    def expand(u):
        if abs(u[0]) >= 1:
            raise NotPositiveDefinite("outside")
        a, b = 1 / (1 - u[0]), 1 / (1 + u[0])
        return Local(-float(np.log1p(-u[0]) + np.log1p(u[0])), np.array([a - b]), PSD.of(np.diag([a**2 + b**2]), "H"))

    best = newton(expand, np.zeros(1))
    z = 4.0
    assert_allclose(
        Profile(expand, partial(cut_by_plane, expand), best, np.ones(1)).limit(z, 1),
        np.sqrt(-np.expm1(-(z**2) / 2)),
        rtol=1e-9,
    )


def steep(u):
    """½u² + ¼u⁴."""
    return Local(float(u @ u / 2 + u @ u**3 / 4), u + u**3, PSD(np.diag(np.sqrt(1 + 3 * u**2))))


def outside(u, low, high):
    """The same, but not defined where its weight lies between these."""
    if low < abs(u[0]) < high:
        raise NotPositiveDefinite("outside")
    return steep(u)


def test_a_limit_that_cannot_be_searched_for_is_not_a_number():
    best, a = newton(steep, np.zeros(1)), np.ones(1)
    walled, holed = partial(outside, low=1e-9, high=np.inf), partial(outside, low=0.2, high=0.9)
    there = np.sqrt(np.sqrt(3) - 1)  # u² + ½u⁴ = 1
    assert_allclose(Profile(steep, partial(cut_by_plane, steep), best, a).limit(1.0, 1), there, rtol=1e-12)
    assert np.isnan(Profile(walled, partial(cut_by_plane, walled), best, a).limit(1.0, 1))
    assert np.isnan(Profile(holed, partial(cut_by_plane, holed), best, a).limit(1.0, 1))


def test_a_search_under_the_constraint_that_stalls_gives_no_limit():
    def uphill(t):
        return Local(float(t @ t) / 2, -t - 1.0, PSD(np.eye(t.size)))  # no gradient of that function

    best = newton(steep, np.zeros(2))
    assert np.isnan(Profile(steep, lambda origin, N: uphill, best, np.array([1.0, 0.0])).limit(1.0, 1))


def test_the_profile_leaves_a_saddle_for_the_valleys_beside_it():
    """4v² + ½(1 - v²)w² + ¼w⁴: beyond v = 1 the best w is ±√(v² - 1), and the profile 4v² - ¼(v² - 1)²."""

    def expand(u):
        v, w = u
        value = 4 * v**2 + 0.5 * (1 - v**2) * w**2 + 0.25 * w**4
        H = np.array([[8 - w**2, -2 * v * w], [-2 * v * w, 1 - v**2 + 3 * w**2]])
        bends, V = np.linalg.eigh(H)
        grad = np.array([8 * v - v * w**2, (1 - v**2) * w + w**3])
        return Local(float(value), grad, PSD.of((V * np.abs(bends)) @ V.T, "|H|"), replaced=bool(bends[0] <= 0))

    best = newton(expand, np.zeros(2))
    profile = Profile(expand, partial(cut_by_plane, expand), best, np.array([1.0, 0.0]))
    v = 1.5
    z = np.sqrt(2 * (4 * v**2 - 0.25 * (v**2 - 1) ** 2))
    assert_allclose([profile.limit(z, side) for side in (-1, 1)], [-v, v], rtol=1e-9)


# --- of a model -----------------------------------------------------------------------------------------------


def test_an_objective_on_a_plane_is_the_objective_of_its_points():
    rng = np.random.default_rng(1)
    objective = raw_objective(
        BernoulliLogit(), MemoryRows(rng.normal(size=(30, 4)), rng.integers(0, 2, 30) * 1.0), None
    )
    origin, N = rng.normal(size=4), np.linalg.qr(rng.normal(size=(4, 2)))[0]
    t = rng.normal(size=2)
    here, there = on_plane(objective, origin, N)(t), cut_by_plane(objective.expand, origin, N)(t)
    assert_allclose(here.value, there.value, rtol=1e-14)
    assert_allclose(here.grad, there.grad, rtol=1e-12, atol=1e-13)
    assert_allclose(here.hessian.matrix, there.hessian.matrix, rtol=1e-12, atol=1e-13)


def test_the_interval_of_a_model_is_where_its_likelihood_has_fallen_by_half_a_quantile():
    """A group of 10 labels and one of 12: the likelihood is a product, known for the difference of log odds."""
    y = np.concatenate([np.repeat([1.0, 0.0], [3, 7]), np.repeat([1.0, 0.0], [8, 4])])
    rows = MemoryRows(np.repeat([5.0, 7.0], [10, 12])[:, None], y)
    data = Data(rows, describe(rows), ("group",), 22)
    fit = fit_linear(data, LinearSpec(BernoulliLogit(), None))
    found = profile_interval(fit, data, level=0.9)

    def loss(f: float, k: int, n: int) -> float:
        return n * np.logaddexp(0, f) - k * f

    def profile(slope: float) -> float:
        """Twice the log likelihood lost, the log odds of the first group at its best."""
        score = lambda f: 10 / (1 + np.exp(-f)) - 3 + 12 / (1 + np.exp(-f - 2 * slope)) - 8  # noqa: E731
        f = brentq(score, -30, 30, xtol=1e-14)
        best = loss(np.log(3 / 7), 3, 10) + loss(np.log(2), 8, 12)
        return 2 * (loss(f, 3, 10) + loss(f + 2 * slope, 8, 12) - best)

    top = (np.log(2) - np.log(3 / 7)) / 2
    want = [brentq(lambda s: profile(s) - chi2.ppf(0.9, 1), top, top + side * 5, xtol=1e-13) for side in (-1, 1)]
    assert_allclose(found[0], want, rtol=1e-8)
