"""The compiled logit sums against the generic likelihood and plain products, and its exponential against mpmath."""

import subprocess
import sys
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.inference.frame import Frame
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics import fused

pytestmark = pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")

TILE = 240  # rows the kernel takes at a time; what matters is that sizes around it, and around 4 and 16, are tried
SIZES = [1, 2, 3, 4, 5, 15, 16, 17, TILE - 1, TILE, TILE + 1, TILE + 4, 3 * TILE + 37]


class Problem(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    frame: Frame
    u: np.ndarray


def problem(b: int, d: int, *, intercept: bool = True, weighted: bool = False, reach: float | None = None) -> Problem:
    """Random rows; with `reach`, scores spread evenly over ± reach."""
    rng = np.random.default_rng([b, d, intercept, weighted])
    frame = Frame(rng.normal(size=d) * 10, np.exp(rng.normal(size=d)), intercept)
    X = frame.center + frame.scale * rng.normal(size=(b, d))
    u = rng.normal(size=d + intercept)
    if reach is not None:
        f = np.linspace(-reach, reach, b)
        u[0] = 1.0
        rest = frame.design(X)[:, 1:] @ u[1:]
        X[:, 0] = frame.center[0] + frame.scale[0] * (f - rest)
    y = (rng.random(b) < 0.5).astype(float)
    weight = rng.exponential(size=b) * (rng.random(b) < 0.7) if weighted else None
    return Problem(X, y, weight, frame, u)


def compiled(p: Problem) -> tuple[float, np.ndarray, np.ndarray]:
    return fused.logit_sums(p.X, p.y, p.weight, p.frame.center, p.frame.scale, p.u, intercept=p.frame.intercept)


def gradient(p: Problem) -> tuple[float, np.ndarray]:
    return fused.logit_gradient(p.X, p.y, p.weight, p.frame.center, p.frame.scale, p.u, intercept=p.frame.intercept)


def check(p: Problem) -> None:
    """Errors are measured against the sums of absolute terms: what cancels in a sum cannot be had back."""
    value, score, information = compiled(p)
    Z = p.frame.design(p.X.astype(float))
    at = BernoulliLogit().expand(p.y, Z @ p.u)
    weight = np.ones(len(p.y)) if p.weight is None else p.weight
    log_prob, grad, curvature = (weight * part for part in at)
    # the scores themselves are only known to rounding, which moves log p by |grad| and the slopes by curvature ~ slope
    rounding = 1e-15 * (1 + (np.abs(Z) @ np.abs(p.u)).max())
    tolerance = 1e-13 + rounding
    assert abs(value - log_prob.sum()) <= tolerance * (np.abs(log_prob) + np.abs(grad)).sum()
    assert (np.abs(score - Z.T @ grad) <= tolerance * (np.abs(Z).T @ np.abs(grad))).all()
    bound = tolerance * (np.abs(Z).T * curvature) @ np.abs(Z)
    assert (np.abs(information - (Z.T * curvature) @ Z) <= bound).all()
    assert_array_equal(information, information.T)
    assert information.flags.c_contiguous
    assert_allclose(gradient(p)[0], value, rtol=1e-14)
    assert_allclose(gradient(p)[1], score, rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 7, 8, 11, 30, 61])
def test_agrees_with_the_generic_likelihood_in_any_width(d: int, intercept: bool, weighted: bool) -> None:
    check(problem(2 * TILE + 19, d, intercept=intercept, weighted=weighted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("b", SIZES)
def test_agrees_with_the_generic_likelihood_in_any_length(b: int, d: int, weighted: bool) -> None:
    check(problem(b, d, weighted=weighted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reach", [1e-8, 1.0, 40.0, 700.0])
def test_agrees_with_the_generic_likelihood_far_out(reach: float, weighted: bool) -> None:
    check(problem(1001, 5, weighted=weighted, reach=reach))


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("f", [-700.0, -300.0, -37.0, -20.0, -1.0, 0.0, 1e-9, 1.0, 20.0, 37.0, 300.0, 700.0])
def test_one_row_against_multiple_precision(f: float, y: float) -> None:
    value, score, information = fused.logit_sums(
        np.array([[f]]), np.array([y]), None, np.zeros(1), np.ones(1), np.array([1.0, 0.0]), intercept=True
    )
    with mp.workdps(700):  # 1 - σ(700), as the formulas have it, cancels 304 digits
        sigma = 1 / (1 + mp.exp(-mp.mpf(f)))
        chosen = sigma if y else 1 - sigma
        expected = float(mp.log(chosen)), float(y - sigma), float(sigma * (1 - sigma))
    assert_allclose(value, expected[0], rtol=1e-15)
    assert_allclose(score, expected[1] * np.array([f, 1.0]), rtol=1e-15)
    assert_allclose(information, expected[2] * np.array([[f * f, f], [f, 1.0]]), rtol=2e-15)


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("f", [709.0, 745.0, 746.0, 1e5, 1e300, np.finfo(float).max])
def test_scores_beyond_the_exponential_give_the_limit(f: float, y: float) -> None:
    one, sign = np.ones(1), 2 * y - 1
    for z, expected in [(sign * f, (0.0, 0.0, 0.0)), (-sign * f, (-f, -f, 0.0))]:  # right, wrong
        sums = fused.logit_sums(np.array([[z]]), y * one, None, 0 * one, one, one, intercept=False)
        assert tuple(float(np.squeeze(part)) for part in sums) == expected


def test_small_contributions_are_not_rounded_away() -> None:
    """log(1 + e) of confident rows is e, where 1 + e would be 1."""
    X, y, one = np.full((500, 1), 40.0), np.ones(500), np.ones(1)
    value, _ = fused.logit_gradient(X, y, None, 0 * one, one, one, intercept=False)
    assert_allclose(value, -500 * np.exp(-40.0), rtol=1e-14)


def test_weights_are_repetitions_and_zero_weights_are_absences() -> None:
    p = problem(301, 6)
    times = np.random.default_rng(0).integers(0, 4, size=301)
    repeated = p._replace(X=np.repeat(p.X, times, axis=0), y=np.repeat(p.y, times))
    for ours, theirs in zip(compiled(p._replace(weight=times.astype(float))), compiled(repeated), strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_row_without_weight_may_be_anywhere() -> None:
    p = problem(50, 3, weighted=True)
    assert p.weight is not None
    far = p.X.copy()
    far[p.weight == 0] *= 1e6
    for ours, theirs in zip(compiled(p._replace(X=far)), compiled(p), strict=True):
        assert_array_equal(ours, theirs)


def layouts(X: np.ndarray) -> dict[str, np.ndarray]:
    wide = np.repeat(X, 2, axis=1)
    packed = np.zeros(len(X), dtype=[("label", "i1"), ("x", float, X.shape[1])])
    packed["x"] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    return {
        "F": np.asfortranarray(X),
        "strided": wide[:, ::2],
        "reversed": X[::-1].copy()[::-1],
        "unaligned": packed["x"],
        "read-only": frozen,
    }


@pytest.mark.parametrize("layout", list(layouts(np.zeros((2, 2)))))
def test_layout_does_not_matter(layout: str) -> None:
    p = problem(301, 6, weighted=True)
    for ours, theirs in zip(compiled(p._replace(X=layouts(p.X)[layout])), compiled(p), strict=True):
        assert_array_equal(ours, theirs)


def test_single_precision_and_integer_rows() -> None:
    p = problem(301, 6)
    check(p._replace(X=p.X.astype(np.float32)))
    check(p._replace(X=np.rint(p.X).astype(int)))


def test_every_kind_of_array_runs_the_same_compiled_code() -> None:
    kernels: Any = fused._kernels()
    p = problem(20, 6, weighted=True)
    for X in [*layouts(p.X).values(), p.X.astype(np.float32)]:
        compiled(p._replace(X=X))
        compiled(p._replace(X=X, weight=None))
    assert len(kernels.sums.signatures) == 1


def test_no_rows_and_no_columns() -> None:
    value, score, information = compiled(problem(0, 3))
    assert value == 0.0
    assert_array_equal(score, np.zeros(4))
    assert_array_equal(information, np.zeros((4, 4)))
    value, score, information = fused.logit_sums(
        np.empty((5, 0)), np.ones(5), None, np.empty(0), np.empty(0), np.zeros(1), intercept=True
    )
    assert_allclose(value, -5 * np.log(2), rtol=1e-15)
    assert_allclose((score.item(), information.item()), (2.5, 1.25), rtol=1e-15)


def test_missing_values_are_not_hidden() -> None:
    p = problem(300, 3)
    p.X[250, 1] = np.nan
    value, score, information = compiled(p)
    assert np.isnan(value)
    assert np.isnan(score).all()
    assert np.isnan(information).all()


def test_leaves_its_arguments_alone() -> None:
    p = problem(300, 3, weighted=True)
    kept = p.X.copy()
    compiled(p)
    assert_array_equal(p.X, kept)
    assert p.X.flags.writeable


@pytest.mark.parametrize(
    "wrong",
    [
        {"X": np.zeros((5, 4))},
        {"X": np.zeros(5)},
        {"y": np.zeros(6)},
        {"weight": np.ones(4)},
        {"weight": np.empty(0)},
        {"u": np.zeros(3)},
        {"scale": np.ones(2)},
    ],
    ids=" ".join,
)
def test_shapes_that_do_not_fit_are_refused(wrong: dict[str, np.ndarray]) -> None:
    right = {"X": np.zeros((5, 3)), "y": np.zeros(5), "center": np.zeros(3), "scale": np.ones(3), "u": np.zeros(4)}
    arguments: dict[str, Any] = {"weight": None} | right | wrong
    with pytest.raises(ValueError, match=r"not of one block|do not fit together"):
        fused.logit_sums(**arguments, intercept=True)


# --- The exponential ------------------------------------------------------------------------------


def exponential(f: np.ndarray) -> np.ndarray:
    e = np.empty_like(f)
    fused._kernels().exp_minus_abs(f, e)
    return e


def test_exponential_to_an_ulp() -> None:
    f = np.concatenate(
        [np.linspace(0.0, 708.39, 4001), np.logspace(-320, 2.85, 1000), np.log(2) * np.arange(0.5, 1022)]
    )
    with mp.workdps(40):
        exact = [mp.exp(-mp.mpf(float(value))) for value in f]
        errors = [abs(mp.mpf(float(e)) / x - 1) for e, x in zip(exponential(f), exact, strict=True)]
    assert float(max(errors)) < 2**-52  # 2⁻⁵³ is half a unit in the last place
    assert_array_equal(exponential(-f), exponential(f))


def test_exponential_at_the_ends() -> None:
    assert_array_equal(exponential(np.array([0.0, -0.0, 708.4, 745.0, 1e300, np.inf, -np.inf])), [1, 1, 0, 0, 0, 0, 0])
    assert np.isnan(exponential(np.array([np.nan]))).all()


# --- Importing ------------------------------------------------------------------------------------


def test_importing_does_not_import_numba() -> None:
    code = "import sys, credibly.numerics.fused; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compiled_code_is_kept_on_disk() -> None:
    kernels: Any = fused._kernels()
    compiled(problem(3, 2))
    stats = kernels.sums.stats
    assert stats.cache_path
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) == 1


def test_says_when_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fused.available.cache_clear()
    fused._kernels.cache_clear()
    monkeypatch.delitem(sys.modules, "credibly.numerics._fused_kernels", raising=False)
    monkeypatch.delattr("credibly.numerics._fused_kernels", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    try:
        assert not fused.available()
    finally:
        fused.available.cache_clear()
