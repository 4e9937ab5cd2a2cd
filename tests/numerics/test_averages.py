"""Averages of inverse links: exact cases, laws, multiple precision; stored references are in tests/reference."""

from collections.abc import Callable
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from credibly import averages as public
from credibly.errors import InputError
from credibly.numerics import averages, softmax_averages, special
from credibly.numerics.averages import (
    Factor,
    Transition,
    averaged_expansion,
    label_averages,
    log_normal_cdf,
    log_sigmoid,
    mackay_sigmoid,
    normal_cdf,
    sigmoid,
    sigmoid_averages,
    tilted,
    tilted_normal_cdf,
    tilted_sigmoid,
)
from credibly.numerics.softmax_averages import log_softmax, softmax, softplus_of_others

ANY_M = st.floats(-1e4, 1e4)
ANY_V = st.one_of(st.just(0.0), st.floats(1e-12, 1e6))
# Both sides of every width at which the rule changes, and far from them.
WIDTHS = np.array([0.01, 0.0899, 0.0901, 0.379, 0.381, 0.869, 0.871, 2.99, 3.01, 12.5, 12.6, 100.0])
MEANS = np.array([-300.0, -40.0, -12.0, -5.0, -2.0, -0.5, 0.0, 1.0, 4.0, 20.0, 45.0])


def mp_moments(g: Callable[[mp.mpf], mp.mpf], m: float, s: float, centre: float) -> list[float]:
    """log mass, mean and variance of g(f) N(f | m, s²) by a trapezoid around the centre of the tilted density."""
    h = mp.mpf(min(s, 1)) / 4  # the poles of σ are at distance π: the error is exp(-2π²/h)
    half = int((11 * s + (40 if s > 1 else 0)) / h)
    near = [centre + i * h for i in range(-half, half + 1)]
    weights = [g(f) * mp.exp(-(((f - m) / s) ** 2) / 2) for f in near]
    mass = mp.fsum(weights)
    mean = mp.fsum(w * f for w, f in zip(weights, near, strict=True)) / mass
    var = mp.fsum(w * (f - mean) ** 2 for w, f in zip(weights, near, strict=True)) / mass
    return [float(mp.log(mass * h / (mp.mpf(s) * mp.sqrt(2 * mp.pi)))), float(mean), float(var)]


def mp_sigmoid(f: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-f))


# --- logistic link ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", WIDTHS)
def test_averaged_sigmoid_and_its_tilted_moments_agree_with_multiple_precision(s: float):
    means = MEANS if s < 5 else MEANS[::4]  # the slowest integrals, thinned
    with mp.workdps(30):
        exact = np.array([mp_moments(mp_sigmoid, m, s, m + min(max(-m, 0), s**2)) for m in means]).T
    log_mass, mean, var = tilted_sigmoid(means, s**2)
    right = exact[0] > -1e-10  # there log Z is a small complement: see the test of the two sides
    assert_allclose(log_mass[~right], exact[0][~right], rtol=1e-12, atol=1e-12)
    assert_allclose((mean - exact[1]) / np.sqrt(exact[2]), 0, atol=1e-11)
    assert_allclose(var, exact[2], rtol=1e-11)


def test_without_variance_the_average_is_the_function():
    m = np.linspace(-800, 800, 33)
    assert_allclose(log_sigmoid(m, 0.0), special.log_sigmoid(m), rtol=1e-14)
    assert_allclose(log_sigmoid(m, 1e-300), special.log_sigmoid(m), rtol=1e-14)
    _, mean, var = tilted_sigmoid(m, 0.0)
    assert_allclose(mean, m)
    assert_allclose(var, 0)


def test_the_far_tail_is_a_log_normal_mean():
    m, v = np.array([-1e4, -800.0, -60.0]), np.array([100.0, 2.0, 0.5])
    assert_allclose(log_sigmoid(m, v), m + v / 2, rtol=1e-14)
    assert_allclose(log_sigmoid(60.0, 0.5), -np.exp(-60 + 0.25), rtol=1e-12)
    zero, one = sigmoid_averages(np.array([60.0, -60.0]), 0.5)
    assert_allclose([zero[0], one[1]], -59.75, rtol=1e-14)
    assert_allclose([one[0], zero[1]], -np.exp(-59.75), rtol=1e-12)


@given(ANY_M, ANY_V)
def test_the_two_classes_share_one(m: float, v: float):
    assert_allclose(sigmoid(m, v) + sigmoid(-m, v), 1, rtol=1e-14)


@given(ANY_M, ANY_V)
def test_the_average_lies_between_the_extremes_and_a_half(m: float, v: float):
    z, plain = float(sigmoid(m, v)), float(special.sigmoid(m))
    assert min(plain, 0.5) * (1 - 1e-13) <= z <= max(plain, 0.5) * (1 + 1e-13)


@given(st.floats(-1e3, 1e3), st.floats(1e-8, 1e4))
def test_the_slope_of_the_log_average_is_the_shift_of_the_tilted_mean(m: float, v: float):
    h = 1e-4 * max(1.0, np.sqrt(v))  # central difference: relative error h² / 6 at most
    slope = (log_sigmoid(m + h, v) - log_sigmoid(m - h, v)) / (2 * h)
    noise = 1e-14 * abs(float(log_sigmoid(m, v))) / h
    shift = (tilted_sigmoid(m, v).mean - m) / v
    assert_allclose(slope, shift, rtol=1e-6, atol=1e-8 + noise + 1e-15 * abs(m) / v)


@given(ANY_M, st.floats(1e-12, 1e6))
def test_seeing_a_label_never_widens_a_score(m: float, v: float):
    _, mean, var = tilted_sigmoid(m, v)
    assert 0 < var <= v * (1 + 1e-12)
    assert mean >= m - 1e-12 * abs(m)


def test_rows_do_not_influence_each_other():
    rng = np.random.default_rng(0)
    m, v = rng.normal(scale=5, size=(50, 40)), 10 ** rng.uniform(-3, 3, size=(50, 40))
    whole = tilted_sigmoid(m, v)
    one = tilted_sigmoid(m[7, 11], v[7, 11])
    assert_allclose([part[7, 11] for part in whole], one, rtol=1e-13)


def test_arguments_broadcast():
    assert log_sigmoid(np.zeros((3, 1)), np.ones(4)).shape == (3, 4)
    assert np.shape(sigmoid(0.0, 1.0)) == ()
    assert sigmoid(np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("average", [sigmoid, log_normal_cdf, mackay_sigmoid, tilted_sigmoid])
def test_a_negative_variance_is_refused(average: Callable[[float, float], object]):
    with pytest.raises(InputError, match="must not be negative"):
        average(0.0, -1e-3)


def test_an_unknown_score_has_an_unknown_average():
    assert np.isnan(log_sigmoid(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))).all()


# --- MacKay's approximation and the misprints of the course notes -------------------------------------------


def test_mackay_is_the_stated_formula():
    m, v = np.linspace(-5, 5, 11), 2.0
    assert_allclose(mackay_sigmoid(m, v), 1 / (1 + np.exp(-m / np.sqrt(1 + np.pi * v / 8))))


def test_mackay_errs_by_less_than_two_hundredths():
    m, v = np.meshgrid(np.linspace(-40, 40, 161), np.logspace(-2, 3, 41))
    error = np.abs(mackay_sigmoid(m, v) - sigmoid(m, v)).max()
    assert 0.01 < error < 0.02


def test_the_probit_that_matches_the_logistic_slope_has_lambda_root_pi_over_eight():
    """E-13: √(π/8) = .6267 gives slope 1/4 at zero; the printed π/(2√2) gives .4431."""
    h = 1e-6

    def slope(scale: float) -> float:
        return float((ndtr(scale * h) - ndtr(-scale * h)) / (2 * h))

    assert_allclose(np.sqrt(np.pi / 8), 0.6267, atol=5e-5)
    assert_allclose(slope(np.sqrt(np.pi / 8)), 0.25, rtol=1e-9)
    assert_allclose(slope(np.pi / (2 * np.sqrt(2))), 0.4431, atol=5e-5)


def test_mackay_scales_the_mean_by_kappa_of_the_variance():
    """E-14, E-39: σ(κ(s²) μ); at μ = 2, s² = 1 it is .845 (exact .8445), not the .700 or .636 of the printed forms."""
    assert_allclose(mackay_sigmoid(2.0, 1.0), 0.845, atol=5e-4)
    assert_allclose(sigmoid(2.0, 1.0), 0.8445, atol=5e-5)
    kappa = 1 / np.sqrt(1 + np.pi / 8)
    assert_allclose(special.sigmoid(kappa), 0.700, atol=5e-4)  # the mean forgotten
    assert abs(mackay_sigmoid(2.0, 1.0) - 0.700) > 0.1
    assert abs(mackay_sigmoid(2.0, 1.0) - 0.6358) > 0.1
    assert abs(mackay_sigmoid(2.0, 4.0) - mackay_sigmoid(2.0, 2.0)) > 0.02  # the argument is s², not s


# --- probit link --------------------------------------------------------------------------------------------


def test_averaged_probit_is_its_closed_form():
    m, v = np.linspace(-6, 6, 13), np.array([[0.0], [0.5], [30.0]])
    assert_allclose(normal_cdf(m, v), ndtr(m / np.sqrt(1 + v)), rtol=1e-13)
    assert_allclose(np.exp(log_normal_cdf(m, v)) + normal_cdf(-m, v), 1, rtol=1e-14)


@pytest.mark.parametrize(("m", "v"), [(-30.0, 0.5), (-3.0, 10.0), (0.0, 1.0), (2.0, 100.0), (8.0, 0.01)])
def test_tilted_probit_agrees_with_multiple_precision(m: float, v: float):
    log_mass, mean, var = tilted_normal_cdf(m, v)
    with mp.workdps(40):
        exact = mp_moments(mp.ncdf, m, float(np.sqrt(v)), float(mean))
    assert_allclose(log_mass, exact[0], rtol=1e-12, atol=1e-15)
    assert_allclose((mean - exact[1]) / np.sqrt(exact[2]), 0, atol=1e-12)
    assert_allclose(var, exact[2], rtol=1e-12)


@given(st.floats(-1e8, 1e8), st.floats(1e-12, 1e8))
def test_the_tilted_probit_variance_is_positive_and_below_the_prior(m: float, v: float):
    var = tilted_normal_cdf(m, v).var
    assert 0 < var <= v * (1 + 1e-12)


# --- softmax ------------------------------------------------------------------------------------------------


def wishart(rng: np.random.Generator, K: int, scale: float, rank: int) -> np.ndarray:
    X = rng.normal(size=(K, rank)) * np.sqrt(scale / rank)
    return X @ X.T


def plain_softmax(f: np.ndarray) -> np.ndarray:
    e = np.exp(f - f.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@lru_cache(maxsize=4)
def sobol_normals(log2_size: int, dim: int, seed: int) -> np.ndarray:
    sobol = qmc.Sobol(dim, rng=np.random.default_rng(900 + seed))
    return ndtri(sobol.random(2**log2_size))


def brute_softmax(m: np.ndarray, V: np.ndarray, log2_size: int, seeds: int) -> tuple[np.ndarray, float]:
    """E[softmax] and its standard error from independently scrambled Sobol points in all K dimensions."""
    variance, axes = np.linalg.eigh(V)
    factor = (axes * np.sqrt(np.where(variance > 0, variance, 0)))[:, ::-1]
    runs = []
    for seed in range(seeds):
        z = sobol_normals(log2_size, len(m), seed)
        parts = np.array_split(z, 2 ** max(0, log2_size - 11))
        runs.append(sum(plain_softmax(m + part @ factor.T).sum(axis=0) for part in parts) / len(z))
    return np.mean(runs, axis=0), float(np.std(runs, axis=0).max() / np.sqrt(seeds - 1))


def test_softmax_without_variance_is_the_function():
    f = np.random.default_rng(0).normal(scale=20, size=(6, 5))
    assert_allclose(log_softmax(f, np.zeros((5, 5))), special.log_softmax(f), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("v", [0.0, 0.3, 9.0, 1e3])
def test_softmax_of_two_classes_is_the_sigmoid_of_their_difference(v: float):
    V = np.array([[v, 0.3 * v], [0.3 * v, 2 * v]])
    exact = log_sigmoid(np.array([3.0, -3.0]), V[0, 0] + V[1, 1] - 2 * V[0, 1])
    assert_allclose(log_softmax([2.0, -1.0], V), exact, rtol=1e-12)


@pytest.mark.parametrize("v", [1e-3, 0.5, 4.0, 100.0])
def test_a_class_that_cannot_be_leaves_the_other_two_alone(v: float):
    V = v * np.array([[1.0, 0.2, 0.1], [0.2, 2.0, 0.0], [0.1, 0.0, 1.0]])
    far = log_softmax([1.0, 0.0, -600.0], V)
    assert_allclose(far[:2], log_softmax([1.0, 0.0], V[:2, :2]), atol=2e-6)  # the product rule is made for 1e-6
    assert far[2] < -400


@pytest.mark.parametrize("mean", [(0.0, 0.0, 0.0), (-1.0, -0.9, -0.7), (3.0, 0.0, 3.0)])
@pytest.mark.parametrize("minor", [0.01, 0.13, 0.5])
def test_softmax_of_three_classes_is_right_to_1e_6_at_every_width(mean: tuple[float, ...], minor: float):
    z, h = np.linspace(-6.5, 6.5, 131, retstep=True)  # poles are at least π/8 off the axis: the error is e⁻²⁴
    density = h * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    first, second = np.meshgrid(z, z, indexing="ij")
    long, short = np.array([2.0, -1.0, -1.0]) / 3, np.array([0.0, 1.0, -1.0]) / 2  # drive two classes 1 apart
    for width in np.geomspace(0.005, 8.0, 60):  # some just below a width at which the rule changes
        axes = np.stack([width * long, minor * width * short])
        f = np.array(mean) + first[..., None] * axes[0] + second[..., None] * axes[1]
        exact = density @ np.tensordot(density, plain_softmax(f), axes=1)
        assert_allclose(softmax(mean, axes.T @ axes), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("K", "v"), [(3, 0.01), (3, 900.0), (4, 30.0), (5, 1.0), (8, 4.0), (20, 0.5)])
def test_exchangeable_classes_are_equally_probable(K: int, v: float):
    V = v * (np.eye(K) + 0.5)
    assert_allclose(softmax(np.zeros(K), V), 1 / K, atol=1e-4)


@pytest.mark.parametrize("K", [3, 5, 9])
def test_a_common_shift_and_its_variance_change_nothing(K: int):
    rng = np.random.default_rng(K)
    m, V = rng.normal(size=K), wishart(rng, K, 0.5, K)
    common = V + 7.0 + np.add.outer(np.arange(K), np.arange(K))  # V + 1aᵀ + a1ᵀ is V but for the common shift
    assert_allclose(softmax(m + 100, common), softmax(m, V), atol=2e-6)


@pytest.mark.parametrize("K", [3, 4, 7])
def test_permuting_the_classes_permutes_the_probabilities(K: int):
    rng = np.random.default_rng(K)
    m, V, order = rng.normal(size=K), wishart(rng, K, 1.0, K), rng.permutation(K)
    assert_allclose(softmax(m[order], V[np.ix_(order, order)]), softmax(m, V)[order], atol=1e-4)


@pytest.mark.parametrize("K", [3, 4, 6, 10])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 25.0])
def test_softmax_is_as_near_to_brute_force_as_stated(K: int, scale: float):
    rng = np.random.default_rng(K)
    for rank, spread in [(1, 0.0), (2, 1.0), (K, np.sqrt(scale)), (3 * K, 3.0)]:
        m, V = rng.normal(size=K) * spread, wishart(rng, K, scale, rank)
        exact, error = brute_softmax(m, V, 14, 4)
        assert_allclose(softmax(m, V), exact, atol=(1e-4 if K <= 5 else 1e-3) + 4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 4, 5, 6, 8, 10, 20])
@pytest.mark.parametrize("scale", [1e-3, 1e-2, 0.1, 1.0, 4.0, 25.0, 100.0, 1e3])
def test_softmax_is_as_near_to_very_brute_force_as_stated(K: int, scale: float):
    """The bounds that are stated: 1e-3 beyond five classes, and five times as much from a deviation of 5 on."""
    bound = (1e-4 if K <= 5 else 1e-3) * (5 if scale >= 25 else 1)
    rng = np.random.default_rng(K)
    for rank, spread in [(1, 0.0), (2, 1.0), (K, 0.0), (K, np.sqrt(scale)), (3 * K, 3.0)]:
        m, V = rng.normal(size=K) * spread, wishart(rng, K, scale, rank)
        exact, error = brute_softmax(m, V, 18, 4)
        assert_allclose(softmax(m, V), exact, atol=bound + 4 * error)


def test_softmax_rows_sum_to_one_and_do_not_influence_each_other():
    rng = np.random.default_rng(1)
    m = rng.normal(size=(30, 4)) * 3
    V = np.stack([wishart(rng, 4, 10 ** rng.uniform(-3, 2), 4) for _ in range(30)])
    p = softmax(m, V)
    assert_allclose(p.sum(axis=1), 1, rtol=1e-13)
    assert_allclose(p[17], softmax(m[17], V[17]), rtol=1e-12)
    assert_allclose(softmax(m, V[3])[5], softmax(m[5], V[3]), rtol=1e-12)


def test_an_improbable_class_of_three_has_its_digits():
    """Against a fine tensor rule that reaches ten standard deviations; ours reaches seven."""
    z, h = np.linspace(-10, 10, 1201, retstep=True)
    density = h * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    first, second = np.meshgrid(z, z, indexing="ij")
    for scale, mean in [(1.0, (0.0, -20.0, 1.0)), (4.0, (0.0, -24.0, -2.0)), (8.0, (5.0, 0.0, -35.0))]:
        axes = scale * np.array([[0.6, -0.5, -0.1], [0.1, 0.4, -0.5]])
        f = np.array(mean) + first[..., None] * axes[0] + second[..., None] * axes[1]
        exact = density @ np.tensordot(density, plain_softmax(f), axes=1)
        assert 1e-10 < exact.min() < 1e-4
        assert_allclose(softmax(mean, axes.T @ axes), exact, rtol=5e-3)


def test_a_hopeless_class_keeps_a_finite_log_probability():
    log_p = log_softmax([0.0, -300.0, -2.0, 1.0, 2.0, 3.0], 4 * np.eye(6))
    assert -305 < log_p[1] < -298  # -300 + v/2, less the log of the sum of the others
    assert_allclose(log_softmax([1000.0, 0.0, -1000.0], np.eye(3)), [0, -999, -1999], atol=1e-5)


def test_wrong_covariances_are_refused():
    with pytest.raises(InputError, match=r"V must end in \(3, 3\)"):
        softmax(np.zeros(3), np.eye(4))
    with pytest.raises(InputError, match="not positive semi-definite"):
        softmax(np.zeros(3), -np.eye(3))


def test_the_public_names_are_these():
    assert sorted(public.__all__) == [
        "log_normal_cdf",
        "log_sigmoid",
        "log_softmax",
        "mackay_sigmoid",
        "normal_cdf",
        "sigmoid",
        "softmax",
    ]
    ours = vars(averages) | vars(softmax_averages)
    assert all(getattr(public, name) is ours[name] for name in public.__all__)


@pytest.mark.parametrize("K", [20, 33, 34, 50, 100])
def test_many_classes_that_are_alike_share_alike(K):
    """By symmetry every class has 1/K, whatever the common variance."""
    p = softmax(np.zeros((2, K)), np.array([np.eye(K), 4 * np.eye(K)]))
    assert_allclose(p, 1 / K, rtol=0, atol=1e-3)
    assert_allclose(p.sum(axis=1), 1, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e40, 1e90])
def test_scores_beyond_single_precision_are_averaged_as_steps(scale):
    """Where only the largest score counts, a common factor of mean and deviation changes nothing."""
    m, B = np.array([0.3, -0.2, 0.1]), np.array([[1.0, 0.2], [-0.5, 0.7], [0.1, -1.0]])
    far, near = (log_softmax(s * m, s**2 * B @ B.T) for s in (scale, 1e20))
    assert_allclose(far, near, rtol=1e-6)  # the points are in single precision, and the same for both


# --- log p of one of several classes ------------------------------------------------------------------------


def of_others(y: int, f: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log(1 + e^(a - shift)) at scores (S, K), its gradient (S, K) and its Hessian (S, K, K), as they are displayed."""
    others = [k for k in range(f.shape[1]) if k != y]
    d = f[:, others] - f[:, [y]]
    a, share = special.log_sum_exp(d), plain_softmax(d)
    p = np.exp(special.log_sigmoid(a - shift))
    jump = np.zeros((len(others), f.shape[1]))
    jump[range(len(others)), others], jump[:, y] = 1.0, -1.0
    slope = share @ jump  # of a
    bend = np.einsum("sj,jk,jl->skl", share, jump, jump) - slope[:, :, None] * slope[:, None, :]
    hessian = (p * (1 - p))[:, None, None] * slope[:, :, None] * slope[:, None, :] + p[:, None, None] * bend
    return special.softplus(a - shift), p[:, None] * slope, hessian


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("K", [2, 3, 4, 7])
def test_log_odds_of_all_others_are_averaged_over_their_scores(K: int, shift: float):
    """Against quasi-random points: 65,536, whose own error is below 2e-4 at unit variances."""
    rng, points = np.random.default_rng(K), sobol_normals(16, K, 0)
    for scale, atol in [(0.0, 1e-7), (0.05, 2e-6 if K < 5 else 1e-5), (1.0, 2e-4 if K < 5 else 2e-3)]:
        m, V = rng.normal(size=(2, K)), np.stack([wishart(rng, K, scale, K) for _ in range(2)])
        y = rng.integers(K, size=2)
        found = softplus_of_others(y, m, V, shift)
        for row in range(2):
            values, axes = np.linalg.eigh(V[row])
            root = axes * np.sqrt(np.maximum(values, 0.0))
            at = of_others(int(y[row]), m[row] + points @ root.T, shift)
            for part, number in zip(found, at, strict=True):
                assert_allclose(part[row], number.mean(axis=0), rtol=0, atol=atol)


# --- any likelihood of one score ----------------------------------------------------------------------------

CAUCHY = Factor(lambda y, f: special.log_cauchy_cdf((2 * y - 1) * f))
LOGIT = Factor(lambda y, f: special.log_sigmoid((2 * y - 1) * f), Transition(width=np.pi))
PROBIT = Factor(lambda y, f: special.log_normal_cdf((2 * y - 1) * f), Transition(width=2.0))


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize(("factor", "exact"), [(PROBIT, tilted_normal_cdf), (LOGIT, tilted_sigmoid)], ids=["Φ", "σ"])
def test_one_rule_serves_every_mean_and_variance(factor, exact, y):
    """Against closed forms and fixed nodes: means to a million, standard deviations from a thousandth to a thousand."""
    means = np.concatenate([[-1e6, -1e4, -300.0], np.linspace(-40, 40, 17), [300.0, 1e4, 1e6]])
    m, s = (grid.ravel() for grid in np.meshgrid(means, np.geomspace(1e-3, 1e3, 19)))
    side = 2 * y - 1
    log_mass, mean, var = exact(side * m, s**2)
    rule = tilted(factor, y, m, s**2)
    assert_allclose(rule.log_mass, log_mass, rtol=1e-12, atol=1e-305)
    # eps |log Z| is the rounding of the exponent, with which the shape of the integrand is known
    unit = 1 + np.abs(log_mass)
    allowed = 1e-12 * unit * np.sqrt(var) + np.spacing(np.abs(mean))
    assert (np.abs(rule.mean - side * mean) <= allowed).all()
    assert_allclose(rule.var / var / unit, 1 / unit, atol=1e-12)


def test_the_likelier_of_two_labels_has_the_digits_of_what_is_missing():
    m = np.array([3.0, 300.0, 1e6, -1e6])
    zero, one = label_averages(CAUCHY, m, 1.0)
    more, less = np.maximum(zero, one), np.minimum(zero, one)
    assert_allclose(-np.expm1(more), np.exp(less), rtol=1e-12)
    assert_allclose(less[2:], -np.log(np.pi * 1e6), rtol=1e-12)
    assert_allclose(tilted(CAUCHY, 1, m, 1.0).log_mass, one, rtol=1e-14)


def test_place_and_width_of_a_likelihood_do_not_change_its_averages():
    moved = Factor(lambda y, f: special.log_cauchy_cdf((2 * y - 1) * (f - 3.0) / 0.05), Transition(3.0, 0.05))
    m, v = np.linspace(-2, 6, 9), np.full(9, 4.0)
    exact = label_averages(CAUCHY, (m - 3.0) / 0.05, v / 0.05**2).one
    assert_allclose(label_averages(moved, m, v).one, exact, rtol=1e-12)


def test_a_narrow_density_far_from_the_mean_is_found():
    """A Gaussian density, which may exceed one: the product of two normals is normal."""
    d = 1e-10
    factor = Factor(lambda y, f: -0.5 * (y - f) ** 2 / d - 0.5 * np.log(2 * np.pi * d), two_labels=False)
    y, m, v = np.array([0.0, 5.0, -7.0]), np.array([0.3, -4.0, 1.0]), np.array([1.0, 9.0, 400.0])
    log_mass, mean, var = tilted(factor, y, m, v)
    assert_allclose(log_mass, -0.5 * (y - m) ** 2 / (v + d) - 0.5 * np.log(2 * np.pi * (v + d)), rtol=1e-10)
    assert_allclose(mean, (y * v + m * d) / (v + d), rtol=1e-10, atol=1e-12)
    assert_allclose(var, v * d / (v + d), rtol=1e-6)  # eps · y²/d is the rounding of the exponent


def test_scores_beyond_a_googol_widths_meet_a_step():
    log_mass, mean, var = tilted(CAUCHY, 1, np.array([0.0, 1e120]), np.array([1e240, 1e240]))
    assert_allclose(log_mass, special.log_normal_cdf(np.array([0.0, 1.0])), rtol=1e-14)
    assert_allclose(mean[0], 1e120 * np.sqrt(2 / np.pi), rtol=1e-14)
    assert_allclose(var[0], 1e240 * (1 - 2 / np.pi), rtol=1e-14)


@pytest.mark.parametrize("s", [0.0, 1e-3, 0.099, 0.101, 0.99, 1.01, 3.9, 4.1, 30.0, 1000.0])
def test_averages_of_polynomials_are_moments_of_the_normal(s: float):
    m = np.array([-50.0, -3.0, 0.0, 0.7, 20.0])
    first, second, fourth = averaged_expansion(lambda y, f: (f, f**2, (f - y) ** 4), Transition(), m, m, s**2)
    assert_allclose(first, m, rtol=1e-12, atol=1e-12 * s)
    assert_allclose(second, m**2 + s**2, rtol=1e-12)
    assert_allclose(fourth, 3 * s**4, rtol=1e-11, atol=1e-26)


def test_rows_of_any_likelihood_do_not_influence_each_other():
    rng = np.random.default_rng(0)
    y, m, v = rng.integers(0, 2, 900), rng.normal(scale=30, size=900), 10 ** rng.uniform(-4, 4, size=900)
    whole, order = tilted(CAUCHY, y, m, v), rng.permutation(900)
    for part, again in zip(whole, tilted(CAUCHY, y[order], m[order], v[order]), strict=True):
        assert_allclose(again, part[order], rtol=1e-15)
