"""The compiled sums against the generic likelihoods and plain products, in any shape, layout and range."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.source import Block
from credibly.data.threads import Helpers
from credibly.inference.frame import Frame
from credibly.inference.objective import information, row_slopes
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Log
from credibly.numerics import fused
from credibly.numerics.fused_arguments import flat

pytestmark = pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")

TILE = 240  # rows the kernel takes at a time; what matters is that sizes around it, and around 4 and 16, are tried
SIZES = [1, 2, 3, 4, 5, 15, 16, 17, TILE - 1, TILE, TILE + 1, TILE + 4, 3 * TILE + 37]

LIKELIHOODS: dict[str, Any] = {
    "logit": BernoulliLogit(),
    "probit": BernoulliProbit(),
    "poisson": FamilyLikelihood(Poisson(), Log()),
    "softmax": Categorical(4),
}
SCALAR = ["logit", "probit", "poisson"]
kinds = pytest.mark.parametrize("kind", list(LIKELIHOODS))
scalar_kinds = pytest.mark.parametrize("kind", SCALAR)


class Problem(NamedTuple):
    kind: str
    rows: Block
    frame: Frame
    W: np.ndarray

    def changed(self, **parts: Any) -> "Problem":
        return self._replace(rows=self.rows._replace(**parts))

    @property
    def likelihood(self) -> Any:
        return Categorical(len(self.W)) if self.kind == "softmax" else LIKELIHOODS[self.kind]

    @property
    def design(self) -> Block:
        return self.rows._replace(X=self.frame.design(np.asarray(self.rows.X, dtype=float)))


def problem(
    kind: str,
    b: int,
    d: int,
    *,
    intercept: bool = True,
    weighted: bool = False,
    shifted: bool = False,
    reach: float | None = None,
    K: int = 4,
) -> Problem:
    """Random rows; with `reach`, scores spread evenly over ± reach (the first class's, the others' being small)."""
    rng = np.random.default_rng([b, d, intercept, weighted])
    frame = Frame(rng.normal(size=d) * 10, np.exp(rng.normal(size=d)), intercept)
    X = frame.center + frame.scale * rng.normal(size=(b, d))
    W = rng.normal(size=(K if kind == "softmax" else 1, d + intercept)) / np.sqrt(d)
    if reach is not None:
        W[:, 0] = np.arange(len(W)) < 1
        rest = frame.design(X)[:, 1:] @ W[0, 1:]
        X[:, 0] = frame.center[0] + frame.scale[0] * (np.linspace(-reach, reach, b) - rest)
    y = {"softmax": rng.integers(0, len(W), b), "poisson": rng.poisson(3.0, b).astype(float)}.get(
        kind, (rng.random(b) < 0.5).astype(float)
    )
    weight = rng.exponential(size=b) * (rng.random(b) < 0.7) if weighted else None
    return Problem(kind, Block(X, y, weight, rng.normal(size=b) if shifted else None), frame, W)


def compiled(p: Problem) -> fused.Sums:
    return fused.sums(p.kind, p.rows, p.frame, p.W)


def outer(curvature: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Σ C ⊗ zzᵀ for non-negative C (n,) or (n, K, K)."""
    C = curvature.reshape(len(Z), *(curvature.shape[1:] or (1, 1)))
    return np.einsum("njk,na,nb->jakb", C, Z, Z).reshape(2 * (C.shape[1] * Z.shape[1],))


def check(p: Problem) -> None:
    """Errors are measured against the sums of absolute terms: what cancels in a sum cannot be had back.

    Scores are only known to rounding, which moves log p by the slopes and the slopes by the curvature.
    """
    value, score, found = compiled(p)
    block, at = p.design, row_slopes(p.likelihood, p.design, p.W)
    Z, grad = np.asarray(block.X), at.grad.reshape(len(block.y), len(p.W))
    curvature = np.asarray(at.curvature)
    if p.kind == "softmax":
        C = np.abs(p.likelihood.curvature(curvature))
        curvature = C if block.weight is None else C * block.weight[:, None, None]
    spread = curvature if curvature.ndim == 1 else curvature.sum(axis=1)
    shift = 0.0 if block.offset is None else np.abs(block.offset).max(initial=0)
    rounding = 1e-15 * (1 + shift + (np.abs(Z) @ np.abs(p.W).T).max(initial=0))
    tolerance = 1e-13 + rounding
    noise = tolerance * (np.abs(grad) + spread.reshape(grad.shape))
    assert abs(value - at.log_prob.sum()) <= tolerance * np.abs(at.log_prob).sum() + noise.sum()
    assert (np.abs(score - (grad.T @ Z).reshape(-1)) <= (noise.T @ np.abs(Z)).reshape(-1) + 1e-300).all()
    expected = information(p.likelihood, block, at)
    assert (np.abs(found - expected) <= tolerance * outer(curvature, np.abs(Z)) + 1e-300).all()
    assert_array_equal(found, found.T)
    assert found.flags.c_contiguous and score.flags.c_contiguous
    again = fused.gradient(p.kind, p.rows, p.frame, p.W)
    assert (np.abs(again - (grad.T @ Z).reshape(-1)) <= (noise.T @ np.abs(Z)).reshape(-1) + 1e-300).all()
    assert again.flags.c_contiguous


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 7, 8, 11, 30, 61])
@kinds
def test_agrees_with_the_generic_likelihood_in_any_width(kind: str, d: int, intercept: bool, weighted: bool) -> None:
    check(problem(kind, 2 * TILE + 19, d, intercept=intercept, weighted=weighted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 6, 9])
@pytest.mark.parametrize("b", SIZES)
@kinds
def test_agrees_with_the_generic_likelihood_in_any_length(kind: str, b: int, d: int, weighted: bool) -> None:
    check(problem(kind, b, d, weighted=weighted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reach", [1e-8, 1.0, 40.0, 600.0])
@kinds
def test_agrees_with_the_generic_likelihood_far_out(kind: str, reach: float, weighted: bool) -> None:
    check(problem(kind, 1001, 5, weighted=weighted, reach=reach))


@pytest.mark.parametrize("kind", ["logit", "probit", "softmax"])  # a count's mean is infinite there
def test_agrees_with_the_generic_likelihood_at_scores_of_a_thousand_and_more(kind: str) -> None:
    check(problem(kind, 1001, 5, reach=1e3))
    check(problem(kind, 1001, 5, reach=1e6))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("b", [5, TILE + 3])
@scalar_kinds
def test_offsets_are_added_to_the_scores(kind: str, b: int, weighted: bool) -> None:
    check(problem(kind, b, 5, weighted=weighted, shifted=True))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("d", [7, 19, 33])  # tiles; rows read where they lie, with groups of columns that overlap
@pytest.mark.parametrize("K", range(2, 13))
def test_any_number_of_classes(K: int, d: int, intercept: bool) -> None:
    check(problem("softmax", TILE + 37, d, intercept=intercept, weighted=True, K=K))


@pytest.mark.parametrize("K", [2, 3, 5, 9])
def test_classes_with_the_same_weights_share_one_matrix(K: int) -> None:
    p = problem("softmax", TILE + 37, 9, weighted=True, K=K)
    check(p._replace(W=np.repeat(p.W[:1], K, axis=0)))
    check(p._replace(W=np.vstack([np.repeat(p.W[:1], K - 1, axis=0), p.W[-1:]])))  # all but one


def test_labels_that_are_all_but_certain_keep_the_digits_of_their_log_probability() -> None:
    p = problem("softmax", 301, 9, reach=600.0)
    scores = np.asarray(p.design.X) @ p.W.T
    gap = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2]
    sure = np.flatnonzero(gap > 40)  # there 1 + Σ e^f is rounded to one
    certain = p.changed(X=np.asarray(p.rows.X)[sure], y=scores.argmax(axis=1)[sure])
    others = np.exp(np.sort(scores[sure], axis=1)[:, :-1] - scores[sure].max(axis=1)[:, None])
    assert_allclose(compiled(certain).value, -others.sum(), rtol=1e-10)  # scores of 600 are known to 1e-13
    check(certain)


@pytest.mark.parametrize("K", [2, 5])
def test_classes_without_rows_and_ties_of_scores(K: int) -> None:
    p = problem("softmax", 50, 3, K=K)
    check(p.changed(y=np.zeros(50, dtype=int)))
    check(p._replace(W=np.zeros_like(p.W)))


def test_counts_of_any_size() -> None:
    p = problem("poisson", 900, 3)
    f = np.linspace(-3.0, 25.0, 900)
    for y in (np.random.default_rng(1).poisson(np.exp(f)), np.arange(900.0), np.rint(np.exp(f)), np.zeros(900)):
        check(p._replace(W=p.W * 0.01).changed(y=y.astype(float), offset=f))


def test_a_mean_beyond_all_numbers_is_not_hidden() -> None:
    p = problem("poisson", 10, 2)
    value, score, found = compiled(p.changed(offset=np.full(10, 710.0)))
    assert value == -np.inf
    assert not np.isfinite(score).any() and not np.isfinite(found).any()


@kinds
def test_weights_are_repetitions_and_zero_weights_are_absences(kind: str) -> None:
    p = problem(kind, 301, 6)
    times = np.random.default_rng(0).integers(0, 4, size=301)
    repeated = p.changed(X=np.repeat(p.rows.X, times, axis=0), y=np.repeat(p.rows.y, times))
    for ours, theirs in zip(compiled(p.changed(weight=times.astype(float))), compiled(repeated), strict=True):
        assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)  # other tiles, so other sums of some hundred terms


@pytest.mark.parametrize("kind", ["logit", "probit", "softmax"])
def test_a_row_without_weight_may_be_anywhere(kind: str) -> None:
    p = problem(kind, 50, 3, weighted=True)
    assert p.rows.weight is not None
    far = np.array(p.rows.X)
    far[p.rows.weight == 0] *= 1e6
    for ours, theirs in zip(compiled(p.changed(X=far)), compiled(p), strict=True):
        assert_array_equal(ours, theirs)


def layouts(X: np.ndarray) -> dict[str, np.ndarray]:
    n, d = X.shape
    wide, tall = np.repeat(X, 2, axis=1), np.asfortranarray(np.repeat(X, 3, axis=0))
    packed = np.zeros(n, dtype=[("label", "i1"), ("x", float, d)])
    packed["x"] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    return {
        "F": np.asfortranarray(X),
        "columns of a wider table": np.hstack([X, X])[:, :d],
        "rows of a longer table in F": np.asfortranarray(np.vstack([X, X, X]))[n : 2 * n],
        "every other column": wide[:, ::2],
        "every third row": np.repeat(X, 3, axis=0)[::3],
        "every third row in F": tall[::3],
        "reversed": X[::-1].copy()[::-1],
        "reversed in F": np.asfortranarray(X[:, ::-1])[:, ::-1],
        "unaligned": packed["x"],
        "big-endian": X.astype(">f8"),
        "read-only": frozen,
    }


@pytest.mark.parametrize("layout", list(layouts(np.zeros((2, 2)))))
@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("kind", ["logit", "softmax"])
def test_layout_does_not_matter(kind: str, d: int, layout: str) -> None:
    p = problem(kind, 301, d, weighted=True)
    moved = layouts(np.asarray(p.rows.X))[layout]
    for ours, theirs in zip(compiled(p.changed(X=moved)), compiled(p), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("layout", ["F", "columns of a wider table", "rows of a longer table in F", "every third row"])
def test_tables_with_contiguous_rows_or_columns_are_read_where_they_are(layout: str) -> None:
    X = layouts(np.arange(12.0).reshape(4, 3))[layout]
    stretch, (down, across) = flat(X)
    assert np.shares_memory(stretch, X)
    assert_array_equal([[stretch[i * down + j * across] for j in range(3)] for i in range(4)], X)


@kinds
def test_single_precision_and_integer_rows(kind: str) -> None:
    p = problem(kind, 301, 6)
    check(p.changed(X=np.asarray(p.rows.X).astype(np.float32)))
    check(p.changed(X=np.rint(p.rows.X).astype(int)))


def test_every_kind_of_array_runs_the_same_compiled_code() -> None:
    for kind in ("logit", "softmax"):
        p = problem(kind, 20, 6, weighted=True)
        for X in [*layouts(np.asarray(p.rows.X)).values(), np.asarray(p.rows.X, dtype=np.float32)]:
            compiled(p.changed(X=X))
            compiled(p.changed(X=X, weight=None))
        kernels: Any = fused._kernels(kind)
        assert len(kernels.sums.signatures) == 1


@kinds
def test_no_rows_and_no_columns(kind: str) -> None:
    value, score, found = compiled(problem(kind, 0, 3))
    assert value == 0.0
    assert_array_equal(score, np.zeros(16 if kind == "softmax" else 4))
    assert_array_equal(found, np.zeros((len(score), len(score))))
    empty = problem(kind, 5, 1)
    nothing = np.empty(0)
    check(Problem(kind, empty.rows._replace(X=np.empty((5, 0))), Frame(nothing, nothing, True), empty.W[:, 1:]))


@pytest.mark.parametrize("d", [3, 9])
@kinds
def test_missing_values_are_not_hidden(kind: str, d: int) -> None:
    p = problem(kind, 300, d)
    X = np.array(p.rows.X)
    X[250, 1] = np.nan
    value, score, found = compiled(p.changed(X=X))
    assert np.isnan(value)
    assert np.isnan(score).all()
    assert np.isnan(found).all()
    assert np.isnan(fused.gradient(kind, p.changed(X=X).rows, p.frame, p.W)).all()


@kinds
def test_leaves_its_arguments_alone(kind: str) -> None:
    p = problem(kind, 300, 3, weighted=True)
    kept = [np.array(part) for part in (*p.rows[:3], p.W)]
    compiled(p)
    for before, after in zip(kept, (*p.rows[:3], p.W), strict=True):
        assert_array_equal(before, after)
    assert p.rows.X.flags.writeable


@pytest.mark.parametrize(
    "wrong",
    [
        {"X": np.zeros((5, 4))},
        {"X": np.zeros(5)},
        {"y": np.zeros(6)},
        {"y": np.zeros((5, 2))},
        {"weight": np.ones(4)},
        {"weight": np.empty(0)},
        {"offset": np.ones(6)},
    ],
    ids=" ".join,
)
@kinds
def test_shapes_that_do_not_fit_are_refused(kind: str, wrong: dict[str, np.ndarray]) -> None:
    p = problem(kind, 5, 3)
    with pytest.raises(ValueError, match=r"not of one block|do not fit together|tuple index|unpack"):
        compiled(p.changed(**wrong))
    with pytest.raises(ValueError, match="do not fit together"):
        compiled(p._replace(W=p.W[:, 1:]))
    with pytest.raises(ValueError, match="do not fit together"):
        compiled(p._replace(frame=Frame(np.zeros(3), np.ones(2), True)))


def test_offsets_of_softmax_are_refused_not_forgotten() -> None:
    with pytest.raises(ValueError, match="offsets of softmax"):
        compiled(problem("softmax", 5, 3, shifted=True))


# --- Importing ------------------------------------------------------------------------------------


def test_importing_does_not_import_numba() -> None:
    code = "import sys, credibly.numerics.fused; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["logit", "softmax"])
def test_compiled_code_is_kept_on_disk(kind: str) -> None:
    kernels: Any = fused._kernels(kind)
    compiled(problem(kind, 3, 2))
    stats = kernels.sums.stats
    assert stats.cache_path
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) == 1


def test_says_when_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fused.available.cache_clear()
    fused._kernels.cache_clear()
    for name in [name for name in sys.modules if name.startswith("credibly.numerics._fused")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    try:
        assert not fused.available()
    finally:
        fused.available.cache_clear()
        fused._kernels.cache_clear()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (127, 4), (129, 30), (480, 2), (1000, 7)])
def test_columns_are_described_as_numpy_does(shape, order):
    X = np.asarray(1e6 + np.random.default_rng(shape[0]).normal(size=shape), order=order)
    mean, scatter, low, high = fused.describe(X)
    # Deviations from the mean: of the second order in the mean's own rounding, 1e6 times the unit in the last place.
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(scatter, ((X - X.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-8, atol=1e-12)
    assert (low == X.min(axis=0)).all()
    assert (high == X.max(axis=0)).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("row", [5, 137])
def test_what_is_not_finite_shows_in_the_mean(bad, order, d, row):
    X = np.ones((300, d), order=order)
    X[row, 1] = bad
    assert np.isfinite(fused.describe(X)[0]).tolist() == [j != 1 for j in range(d)]


def test_columns_that_rise_from_row_to_row_keep_the_digits_of_their_scatter():
    n, steep = 1000, 1e3
    X = np.outer(steep * np.arange(n), np.arange(1.0, 6.0)) + 1e9
    # Σ (r - (n-1)/2)² = n(n² - 1)/12, times the squared step; the mean's own rounding is 1e-7 of a spread of 1e5.
    want = (steep * np.arange(1.0, 6.0)) ** 2 * n * (n**2 - 1) / 12
    np.testing.assert_allclose(fused.describe(X)[1], want, rtol=1e-12)


@scalar_kinds
@pytest.mark.parametrize("d", [257, 600])
def test_wide_rows_are_read_where_they_lie(kind, d):
    for b in (5, 8, 43):
        check(problem(kind, b, d, weighted=True))


# --- In parts -------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_add_up_to_the_sums_of_blocks(kind, order, weighted):
    p = problem(kind, 700, 6, weighted=weighted)
    rows = p.rows._replace(X=np.asarray(p.rows.X, order=order))
    cuts, M = np.array([0, 1, 250, 251, 600, 700]), p.W.size
    table, whole = fused.Table(kind, rows, p.frame, cuts, p.W.shape), fused.sums(kind, rows, p.frame, p.W)

    def total(ask: Callable[[np.ndarray], None]) -> np.ndarray:
        ask(p.W)
        while table.some():
            pass
        assert table.ended()
        return table.total

    parts, slopes = total(table.ask_sums), total(table.ask_gradient)
    # The same terms in another order
    np.testing.assert_allclose(parts[0], whole.value, rtol=1e-12)
    np.testing.assert_allclose(parts[1 : 1 + M], whole.score, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(parts[1 + M :].reshape(M, M), whole.information, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes, whole.score, rtol=1e-10, atol=1e-10)


def passes(table: fused.Table, helpers: Helpers, weights: list[np.ndarray]) -> list[np.ndarray]:
    """Passes with and without the information, in turns, at other weights each."""
    totals = []
    for i, W in enumerate(weights):
        (table.ask_gradient if i % 2 else table.ask_sums)(W)
        helpers.finish()
        totals.append(table.total)
    return totals


@pytest.mark.parametrize("pause", [0.0, 1e-3])
def test_passes_do_not_depend_on_who_takes_up_their_parts(pause, monkeypatch):
    """However closely they follow each other: helpers stay from one to the next, or go and come again."""
    p = problem("logit", 20_000, 5)
    cuts, weights = np.arange(0, 20_001, 500), [t * p.W for t in np.linspace(0, 2, 40)]
    alone = fused.Table("logit", p.rows, p.frame, cuts, p.W.shape)
    first = passes(alone, Helpers(alone, 1), weights)
    begin = fused.Table.begin
    monkeypatch.setattr(fused.Table, "begin", lambda self, asked: (time.sleep(pause), begin(self, asked)))
    for threads in (2, 3, 8):
        table = fused.Table("logit", p.rows, p.frame, cuts, p.W.shape)
        for ours, theirs in zip(passes(table, Helpers(table, threads), weights), first, strict=True):
            assert_array_equal(ours, theirs)


def test_a_helper_stays_for_the_next_pass_and_goes_when_none_comes():
    p = problem("logit", 4000, 5)
    table = fused.Table("logit", p.rows, p.frame, np.arange(0, 4001, 1000), p.W.shape)
    fused.load("logit")
    table.rounds = 40_000_000  # a tenth of a second at least, mostly a whole one
    with ThreadPoolExecutor(1) as pool:
        helper = pool.submit(table.attend)
        for _ in range(3):  # nobody else does any part
            table.ask_gradient(p.W)
            while not table.ended():
                assert not helper.done()
            assert table.gone == 0
        helper.result(timeout=60)
    assert table.gone == 1


def test_after_an_interruption_nobody_writes_into_later_passes():
    """Whoever was at work goes on in the room of the pass that was stopped."""
    p = problem("logit", 100, 3)
    table = fused.Table("logit", p.rows, p.frame, np.array([0, 50, 100]), p.W.shape)
    table.ask_gradient(p.W)
    before = table.out
    table.stop()
    assert not table.some()
    assert not table.ended() and table.out is not before
    table.ask_gradient(p.W)
    assert not table.some() and table.ended()
    np.testing.assert_allclose(table.total, fused.gradient("logit", p.rows, p.frame, p.W), rtol=1e-12)


def test_weights_of_another_shape_are_refused():
    p = problem("logit", 100, 3)
    table = fused.Table("logit", p.rows, p.frame, np.array([0, 100]), p.W.shape)
    with pytest.raises(ValueError, match="announced"):
        table.ask_sums(np.ones((2, 3)))


@pytest.mark.parametrize("d", [4, 7, 30])
def test_columns_are_described_in_parts_as_at_once(d):
    X = np.random.default_rng(d).normal(size=(1000, d)) * 10.0 ** np.arange(d) + 3
    parts = fused.Columns(X, np.array([0, 1, 400, 1000]))
    parts.begin()
    assert not parts.some() and parts.ended()
    for part, rows in zip(parts.out, (X[:1], X[1:400], X[400:]), strict=True):
        for ours, theirs in zip(part, fused.describe(rows), strict=True):
            assert_array_equal(ours, theirs)
