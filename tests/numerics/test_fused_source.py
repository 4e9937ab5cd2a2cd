"""The kernels' source as Python runs it: what is compiled is what is written. Only here does coverage see it.

Functions in LLVM's words cannot be run by Python; their docstrings, typed once more with NumPy, stand in for them.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from credibly.data.source import Block
from credibly.inference.frame import Frame
from credibly.numerics import fused

pytestmark = pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")

ROUNDER = 1.5 * 2.0**52
TILE = 240
if fused.available():
    from credibly.numerics._fused_softmax_grams import SPAN
    from credibly.numerics._fused_softmax_lines import SCORED
    from credibly.numerics._fused_softmax_vectors import WIDTH


# --- What LLVM does -------------------------------------------------------------------------------


def parts(x: float) -> tuple[float, int]:
    """x = 2^k m, √½ ≤ m < √2."""
    m, k = np.frexp(x)
    return (2 * float(m), int(k) - 1) if m < np.sqrt(0.5) else (float(m), int(k))


def power_of_two(rounded: float) -> float:
    k = int(rounded - ROUNDER)
    return float(np.ldexp(1.0, k)) if k > -1023 else 0.0


def lines(X: np.ndarray, start: int, step: int, rows: int, d: int) -> np.ndarray:
    return np.array([X[start + r * step : start + r * step + d] for r in range(rows)])


def by_group(d: int) -> np.ndarray:
    """Columns as they lie in groups of four, of which the last overlaps that before it."""
    return np.concatenate([np.arange(4) + min(i, d - 4) for i in range(0, d, 4)])


def dots(  # noqa: PLR0917 - the arguments of the instruction
    X: np.ndarray, start: int, step: int, d: int, G: np.ndarray, f: np.ndarray, to: int
) -> None:
    f[to : to + 4] = (lines(X, start, step, 4, d)[:, by_group(d)] - G[0]) @ G[1]


def pulls(  # noqa: PLR0917 - the arguments of the instruction
    X: np.ndarray, start: int, step: int, d: int, G: np.ndarray, grad: np.ndarray, at: int, total: np.ndarray
) -> None:
    total += grad[at : at + 8] @ (lines(X, start, step, 8, d)[:, by_group(d)] - G[0])


def turn(  # noqa: PLR0917 - the arguments of the instruction
    X: np.ndarray, start: int, step: int, column: int, frame: np.ndarray, Z: np.ndarray, to: int
) -> None:
    four = slice(column, column + 4)
    Z[four, to : to + 4] = ((lines(X, start, step, 4, 4) - frame[0, four]) * frame[1, four]).T


def add_rows(X: np.ndarray, start: int, d: int, n: int, first: int, A: np.ndarray) -> None:
    lanes = np.arange(4 * first, min(4 * first + 16, A.shape[1]))
    x = lines(X.reshape(-1), start, d, n, d)[:, by_group(d)][:, lanes]
    gap = x - A[0, lanes]
    A[1, lanes] += gap.sum(axis=0)
    A[2, lanes] += (gap**2).sum(axis=0)
    A[3, lanes] = np.minimum(A[3, lanes], x.min(axis=0))
    A[4, lanes] = np.maximum(A[4, lanes], x.max(axis=0))


def count_up(turn: np.ndarray, place: int) -> int:
    turn[place] += 1
    return int(turn[place]) - 1


def place(  # noqa: PLR0917 - the arguments of the instruction
    X: np.ndarray, start: int, step: int, d: int, P: np.ndarray, Z: np.ndarray, f: np.ndarray, to: int
) -> None:
    place_rows(lines(X.reshape(-1), start, step, 4, d), P, Z, f, to)


def place_down(  # noqa: PLR0917 - the arguments of the instruction
    X: np.ndarray, start: int, step: int, d: int, P: np.ndarray, Z: np.ndarray, f: np.ndarray, to: int
) -> None:
    place_rows(lines(X, start, step, d, 4).T, P, Z, f, to)


def place_rows(rows: np.ndarray, P: np.ndarray, Z: np.ndarray, f: np.ndarray, to: int) -> None:
    x = np.zeros((4, P.shape[1]))
    x[:, : rows.shape[1]] = rows
    Z[to : to + 4] = (x - P[0]) * P[1]
    f[to : to + 4] = Z[to : to + 4] @ P[2]


def pull(Z: np.ndarray, to: int, grad: np.ndarray, root: np.ndarray, score: np.ndarray) -> None:
    score += grad[to : to + 4] @ Z[to : to + 4]
    Z[to : to + 4] *= root[to : to + 4, None]


def add_gram(count: int) -> Callable[..., None]:
    def add(Z: np.ndarray, n: int, i: int, j: int, H: np.ndarray) -> None:
        right = slice(j, j + 4 * count)
        H[i : i + 4, right] += Z[:n, i : i + 4].T @ Z[:n, right]

    return add


def by_wide_group(d: int, lanes: int) -> np.ndarray:
    """The same in groups of WIDTH, up to this many lanes."""
    return np.concatenate([np.arange(WIDTH) + min(i, d - WIDTH) for i in range(0, lanes, WIDTH)])


def dots_of(classes: int) -> Callable[..., None]:
    def dots(  # noqa: PLR0917 - the arguments of the instruction
        X: np.ndarray, start: int, step: int, d: int, C: np.ndarray, ahead: int, k: int, F: np.ndarray, to: int
    ) -> None:
        rows = lines(X, start, step, SCORED, d)[:, by_wide_group(d, C.shape[1])] - C[0]
        F[k : k + classes, to : to + SCORED] = C[1 + k : 1 + k + classes] @ rows.T

    return dots


def pulls_of(classes: int) -> Callable[..., None]:
    def pulls(  # noqa: PLR0917 - the arguments of the instruction
        X: np.ndarray,
        start: int,
        step: int,
        d: int,
        C: np.ndarray,
        ahead: int,
        G: np.ndarray,
        k: int,
        n: int,
        T: np.ndarray,
        lane: int,
    ) -> None:
        bite = slice(lane, lane + 2 * WIDTH)
        rows = (lines(X, start, step, n, d)[:, by_wide_group(d, C.shape[1])] - C[0])[:, bite]
        T[k : k + classes, bite] += G[k : k + classes, :n] @ rows

    return pulls


def sums_of(pairs: int, columns: int) -> Callable[..., None]:
    def sums(A: np.ndarray, Z: np.ndarray, j: int, n: int, H: np.ndarray, to: int) -> None:
        H[to : to + pairs * columns] += (Z[j : j + columns, :n] @ A[:pairs, :n].T).reshape(-1)

    return sums


def first_of(pairs: int) -> Callable[..., None]:
    def first(  # noqa: PLR0917 - the arguments of the instruction
        S: np.ndarray, m: int, Z: np.ndarray, i: int, A: np.ndarray, n: int, H: np.ndarray, to: int
    ) -> None:
        A[:pairs, :n] = Z[i, :n] * S[m : m + pairs, :n]
        sums_of(pairs, SPAN)(A, Z, 0, n, H, to)

    return first


def scores_of(classes: int) -> Callable[..., None]:
    def scores(Z: np.ndarray, W: np.ndarray, D: int, k: int, F: np.ndarray, r: int) -> None:
        rows = slice(r, r + 2 * WIDTH)
        F[k : k + classes, rows] = W[k : k + classes, :D] @ Z[:D, rows]

    return scores


def slopes(F: np.ndarray, K: int, y: np.ndarray, at: int, G: np.ndarray, r: int) -> None:
    rows = slice(r, r + WIDTH)
    G[:K, rows] = (np.arange(K)[:, None] == y[at : at + WIDTH]) - softmax(F[:K, rows], axis=0)


def expansion(  # noqa: PLR0917 - the arguments of the instruction
    F: np.ndarray, K: int, y: np.ndarray, beside: np.ndarray, P: np.ndarray, G: np.ndarray, r: int
) -> None:
    rows = slice(r, r + WIDTH)
    P[:K, rows] = softmax(F[:K, rows], axis=0)
    slopes(F, K, y, r, G, r)
    G[:K, rows] *= beside[0, rows]
    less = F[:K, rows] - F[:K, rows].max(axis=0)
    beside[1, rows] = less[y[rows], np.arange(WIDTH)]
    beside[2, rows] = np.exp(less).sum(axis=0) - 1.0


OF_SEVERAL: dict[str, Callable[..., Any]] = {
    f"{name}_{several}": of(several)
    for name, of in {"_dots": dots_of, "_pulls": pulls_of, "_scores": scores_of, "_first": first_of}.items()
    for several in (3, 4, 5, 6)
}
IN_PYTHON: dict[str, Callable[..., Any]] = (
    OF_SEVERAL
    | {f"_sums_{pairs}_{columns}": sums_of(pairs, columns) for pairs in (3, 4, 5, 6) for columns in (2, 4)}
    | {
        "slopes": slopes,
        "expansion": expansion,
        "power_of_two": power_of_two,
        "exponent": lambda x: parts(x)[1] + ROUNDER,
        "mantissa": lambda x: parts(x)[0],
        "_dots": dots,
        "_pulls": pulls,
        "_turn": turn,
        "_add_rows": add_rows,
        "count_up": count_up,
        "counted": lambda turn, place: int(turn[place]),
        "put": lambda turn, place, number: turn.__setitem__(place, number),
        "breathe": lambda: None,
        "_place": place,
        "_place_down": place_down,
        "_pull": pull,
        **{f"_add_gram_{count}": add_gram(count) for count in (1, 2, 3)},
        "send_for": lambda X, start, lines: None,
    }
)


# --- The same sums twice --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Callable[[str], ModuleType]]:
    """What `fused._kernels` gives, not compiled."""
    import numba
    import numba.extending

    kinds = (*fused.KINDS, fused.SOFTMAX, fused.COLUMNS)  # all: what is asked for first below would not be compiled
    compiled = {fused._kernels(kind).__name__.split(".")[-1] for kind in kinds}
    room = sys.modules["credibly.numerics"]
    with pytest.MonkeyPatch.context() as patch:  # at the end the compiled modules are back
        for name in [name for name in sys.modules if name.startswith("credibly.numerics._fused")]:
            patch.setattr(room, name.split(".")[-1], sys.modules[name])
            patch.delitem(sys.modules, name)
        with pytest.MonkeyPatch.context() as off:
            off.setattr(numba.config, "DISABLE_JIT", 1)
            off.setattr(numba.extending, "intrinsic", lambda build: IN_PYTHON[build.__name__])
            modules = {name: import_module(f"credibly.numerics.{name}") for name in compiled}
        yield lambda kind: modules[fused._module_of(kind)]


def problem(
    kind: str, n: int, d: int, *, weighted: bool = False, order: Any = "C", classes: int = 4, alike: bool = False
) -> tuple[Block, Frame, np.ndarray]:
    """Random rows; an odd number of them has an intercept."""
    rng = np.random.default_rng([n, d])
    frame = Frame(rng.normal(size=d), np.exp(rng.normal(size=d)), n % 2 == 1)
    X = np.asarray(frame.center + frame.scale * rng.normal(size=(n, d)), order=order)
    y = {"softmax": rng.integers(0, classes, n), "poisson": np.arange(n) % 25}.get(kind, rng.integers(0, 2, n))
    W = rng.normal(size=(classes if kind == "softmax" else 1, d + frame.intercept))
    W = np.repeat(W[:1], len(W), axis=0) if alike else W
    weight = rng.exponential(size=n) if weighted else None
    return Block(X, y, weight, rng.normal(size=n) if weighted and kind != "softmax" else None), frame, W


CASES: dict[str, dict[str, Any]] = {
    "three columns": {"n": 11, "d": 3},
    "two tiles, read where they lie": {"n": TILE + 21, "d": 6, "weighted": True},
    "wide vectors": {"n": 131, "d": 19, "weighted": True, "classes": 5},
    "wide vectors without an intercept": {"n": 72, "d": 9, "classes": 3},
    "two classes": {"n": 21, "d": 9, "classes": 2},
    "classes that are alike": {"n": 21, "d": 9, "classes": 3, "alike": True},
    "more classes than are taken at a time": {"n": 22, "d": 9, "classes": 8},
    "no intercept": {"n": 22, "d": 5, "weighted": True},
    "by columns": {"n": 21, "d": 5, "weighted": True, "order": "F"},
    "one column": {"n": 9, "d": 1},
    "many weights": {"n": 19, "d": 21},
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("kind", [*fused.KINDS, fused.SOFTMAX])
def test_python_and_the_compiler_read_the_same_sums(kind, case, interpreted, monkeypatch):
    asked = (kind, *problem(kind, **CASES[case]))
    compiled = *fused.sums(*asked), fused.gradient(*asked)
    monkeypatch.setattr(fused, "_kernels", interpreted)
    for ours, theirs in zip((*fused.sums(*asked), fused.gradient(*asked)), compiled, strict=True):
        # Sums of some hundred terms in another order; a score's terms cancel, the largest entry says of what size
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


@pytest.mark.parametrize("kind", ["logit", fused.SOFTMAX])
def test_python_and_the_compiler_take_up_the_same_parts(kind, interpreted, monkeypatch):
    (rows, frame, W), cuts = problem(kind, n=31, d=5, weighted=True), np.array([0, 7, 20, 31])

    def totals() -> Iterator[np.ndarray]:
        table = fused.Table(kind, rows, frame, cuts, W.shape)
        for ask in (table.ask_sums, table.ask_gradient):
            ask(W)
            table.attend()
            assert table.ended()
            yield table.total
        assert table.gone == 2

    monkeypatch.setattr(fused.Parts, "rounds", 5)
    compiled = list(totals())
    monkeypatch.setattr(fused, "_kernels", interpreted)
    monkeypatch.setattr(fused, "_parts", lambda: sys.modules["credibly.numerics._fused_parts"])
    for ours, theirs in zip(totals(), compiled, strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (134, 3), (485, 2), (64, 5), (150, 4), (201, 22)])
def test_python_and_the_compiler_describe_columns_alike(shape, order, interpreted, monkeypatch):
    X = np.asarray(np.random.default_rng(shape[0]).normal(size=shape), order=order)
    compiled = fused.describe(X)
    monkeypatch.setattr(fused, "_kernels", interpreted)
    for ours, theirs in zip(fused.describe(X), compiled, strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_python_and_the_compiler_describe_the_same_parts(interpreted, monkeypatch):
    X, cuts = np.random.default_rng(0).normal(size=(150, 6)), np.array([0, 40, 150])

    def described() -> np.ndarray:
        parts = fused.Columns(X, cuts)
        parts.begin()
        assert not parts.some()
        return parts.out

    compiled = described()
    monkeypatch.setattr(fused, "_kernels", interpreted)
    monkeypatch.setattr(fused, "_parts", lambda: sys.modules["credibly.numerics._fused_parts"])
    assert_allclose(described(), compiled, rtol=1e-12, atol=1e-14)


def test_scores_beyond_the_exponential_give_the_limit_in_python_too(interpreted):
    rows = sys.modules["credibly.numerics._fused_rows"]
    f, y, work, at = np.array([-800.0, 800.0]), np.ones(2), np.empty((4, 2)), np.empty((3, 2))
    for kind, value in (("logit", -800.0), ("probit", -0.5 * 800.0**2 - 0.5 * np.log(2 * np.pi) - np.log(800.0))):
        rows.expand_rows(fused.KINDS[kind], f, y, work, at)
        assert_allclose(at[:, 1], 0.0, atol=0)
        assert_allclose(at[0, 0], value, rtol=1e-11)  # the probit's next term is 1/800², of 320,000


def test_where_nothing_can_be_kept_on_disk_kernels_are_compiled_without_keeping(monkeypatch):
    """A read-only installation, without a folder of the user's either."""
    import numba

    from credibly.numerics import _fused_base

    def njit(cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function 'twice': no locator available for file '…'")
        return njit_of_numba(**options)

    njit_of_numba = numba.njit
    monkeypatch.setattr(numba, "njit", njit)

    @_fused_base.compiled({"contract"})
    def twice(x: float) -> float:
        return 2 * x

    assert twice(1.5) == 3.0
    assert not twice.stats.cache_path
