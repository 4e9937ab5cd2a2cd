"""What a source of rows answers does not depend on how its rows are held, cut or handed to threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from credibly.data.columns import describe
from credibly.data.rows import COPIED_NUMBERS, Block, MemoryRows, add
from credibly.numerics.settings import BLOCK_SIZES

N, D = 103, 4
ROUNDING = 1e-13  # sums of a hundred terms in another order


def table(n: int = N, d: int = D) -> np.ndarray:
    """Whole numbers and halves, one in three of them zero: exact in float32, worth holding as CSR."""
    rng = np.random.default_rng(0)
    return rng.integers(-8, 9, (n, d)) / 2 * (rng.random((n, d)) < 2 / 3)


def weights(n: int = N) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, n) / 2.0


def statistics(block: Block) -> tuple:
    """What a Newton step asks for: a number, a vector and a matrix."""
    X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
    weight = np.ones(len(block.y)) if block.weight is None else block.weight
    return float(weight @ block.y), X.T @ (weight * block.y), (X.T * weight) @ X


def scores(block: Block) -> np.ndarray:
    return np.asarray(block.X @ np.arange(1.0, D + 1)) + block.y


def rows(**changes) -> MemoryRows:
    return MemoryRows(**({"X": table(), "y": np.arange(N) % 3, "weight": weights()} | changes))


def assert_same_sums(got: tuple, want: tuple, rtol: float = ROUNDING) -> None:
    for one, other in zip(got, want, strict=True):
        assert_allclose(one, other, rtol=rtol, atol=ROUNDING)


WAYS = {
    "one row at a time": {"block_rows": 1},
    "blocks that do not divide the rows": {"block_rows": 10},
    "one block": {"block_rows": N},
    "a block larger than the table": {"block_rows": 5 * N},
    "two threads": {"block_rows": 7, "threads": 2},
    "more threads than blocks": {"block_rows": 60, "threads": 5},
    "float32": {"X": table().astype(np.float32)},
    "float32 in blocks": {"X": table().astype(np.float32), "block_rows": 9},
    "Fortran order": {"X": np.asfortranarray(table())},
    "CSR": {"X": csr_array(table())},
    "CSR in blocks on threads": {"X": csr_array(table()), "block_rows": 8, "threads": 2},
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@EVERY_WAY
def test_a_sum_does_not_depend_on_how_rows_are_held_or_cut(way):
    assert_same_sums(rows(**way).sum(statistics, add), rows().sum(statistics, add))


@EVERY_WAY
def test_a_map_does_not_depend_on_how_rows_are_held_or_cut(way):
    assert_array_equal(rows(**way).map(scores), rows().map(scores))


@EVERY_WAY
def test_columns_are_described_alike_however_rows_are_held_or_cut(way):
    assert_same_sums(describe(rows(**way)), describe(rows()))


def test_a_sum_does_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(2).permutation(N)
    X, y, weight = table()[order], (np.arange(N) % 3)[order], weights()[order]
    shuffled = MemoryRows(X, y, weight, block_rows=11)
    assert_same_sums(shuffled.sum(statistics, add), rows().sum(statistics, add))


def test_the_number_of_threads_changes_not_even_the_last_bit():
    X = np.random.default_rng(3).normal(size=(N, D))  # sums of these do round
    one, many = (MemoryRows(X, X[:, 0], block_rows=5, threads=threads).sum(statistics, add) for threads in (1, 4))
    for a, b in zip(one, many, strict=True):
        assert_array_equal(a, b)


def test_rows_are_cut_by_themselves_once_a_table_is_large():
    n = 2 * BLOCK_SIZES.table_numbers // D
    big = MemoryRows(table(n), np.arange(n) % 3)
    lengths = big.map(lambda block: np.full(len(block.y), len(block.y)))
    assert lengths.max() < n
    assert_same_sums(
        big.sum(statistics, add), MemoryRows(table(n), np.arange(n) % 3, block_rows=n).sum(statistics, add)
    )


def test_integer_weights_are_repeated_rows():
    times = np.arange(N) % 4
    repeated = MemoryRows(np.repeat(table(), times, axis=0), np.repeat(np.arange(N) % 3, times))
    assert_same_sums(rows(weight=times.astype(float)).sum(statistics, add), repeated.sum(statistics, add))


def test_no_weights_are_weights_of_one():
    assert_same_sums(rows(weight=None).sum(statistics, add), rows(weight=np.ones(N)).sum(statistics, add))
    assert rows().n_rows == N


def test_an_error_in_a_block_reaches_the_caller():
    def fails_late(block: Block) -> tuple:
        raise ZeroDivisionError if block.y[0] == 2 else KeyError

    with pytest.raises(KeyError):  # that of the first block, not of the first thread to get there
        rows(block_rows=1, threads=2).sum(fails_late, add)


def test_a_float32_table_is_kept_and_summed_in_float64():
    X = np.full((20_000, 1), 0.1, dtype=np.float32)
    source = MemoryRows(X, np.zeros(20_000))
    assert source.X is X
    (total,) = source.sum(lambda block: (block.X.sum(),), add)
    assert_allclose(total, 20_000 * float(np.float32(0.1)), rtol=1e-12)  # float32 would keep four digits


# --- through ------------------------------------------------------------------------------------------------


def shifted(X):
    return X - 10.0


@pytest.mark.parametrize("block_rows", [None, 7])
def test_rows_seen_through_a_change_are_the_changed_rows(block_rows):
    changed = rows(block_rows=block_rows).through(shifted).through(np.square)
    assert_array_equal(changed.map(scores), rows(X=(table() - 10.0) ** 2).map(scores))


def test_a_large_table_is_changed_block_by_block_and_not_copied():
    n = COPIED_NUMBERS // D + 1
    X = np.broadcast_to(np.arange(1.0, D + 1), (n, D))
    source = MemoryRows(X, np.zeros(n)).through(shifted).through(np.square)
    assert source.X is X
    (total,) = source.sum(lambda block: (block.X.sum(axis=0),), add)
    assert_array_equal(total, n * (np.arange(1.0, D + 1) - 10.0) ** 2)
    part = source.sample(np.random.default_rng(0), 500)
    assert abs(part.n_rows - 500) < 50
    assert_array_equal(part.map(lambda block: block.X), np.tile((np.arange(1.0, D + 1) - 10.0) ** 2, (part.n_rows, 1)))


# --- samples and batches ------------------------------------------------------------------------------------


def test_the_weights_of_a_sample_sum_to_the_number_of_rows():
    sample = rows(weight=None).sample(np.random.default_rng(0), 20)
    assert abs(sample.n_rows - 20) <= 20  # five standard deviations at least
    assert_allclose(sample.map(lambda block: block.weight).sum(), N, rtol=ROUNDING)


@pytest.mark.parametrize("held", [np.asarray, csr_array], ids=["dense", "CSR"])
def test_sums_of_samples_are_those_of_all_rows_on_average(held):
    source, rng = rows(X=held(table())), np.random.default_rng(0)
    estimates = np.array([source.sample(rng, 20).sum(statistics, add)[1] for _ in range(500)])
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (np.abs(estimates.mean(axis=0) - source.sum(statistics, add)[1]) < 5 * error).all()  # standard errors


def test_a_sampled_row_keeps_its_label_and_its_share_of_the_weight():
    source = MemoryRows(table(), np.arange(N), np.arange(N) + 1.0)
    sample = source.sample(np.random.default_rng(0), 20)
    assert_array_equal(sample.X, table()[sample.y])
    assert_allclose(sample.weight, (sample.y + 1.0) * N / sample.n_rows, rtol=ROUNDING)


@pytest.mark.parametrize("held", [np.asarray, csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("size", [1, 10, N, 2 * N])
def test_batches_visit_every_row_once(held, size):
    source = MemoryRows(held(table()), np.arange(N), np.arange(N) / 2.0)
    batches = list(source.batches(np.random.default_rng(0), size))
    assert {len(batch.y) for batch in batches[:-1]} <= {size}
    assert_array_equal(np.sort(np.concatenate([batch.y for batch in batches])), np.arange(N))
    for batch in batches:
        X = batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray()
        assert_array_equal(X, table()[batch.y])
        assert_array_equal(batch.weight, batch.y / 2.0)


# --- columns ------------------------------------------------------------------------------------------------


def assert_described(X: np.ndarray, weight: np.ndarray | None, **how) -> None:
    """Compare with NumPy on the rows that count, in the precision of `longdouble`.

    Each row or merge may round a mean by eps · size of the column, and with it the gap between two means, which is of
    the order of the spread: hence the tolerances. (Sums of raw squares would lose the square of that ratio.)
    """
    held = how.pop("held", np.asarray)
    got = describe(MemoryRows(held(X), np.zeros(len(X)), weight, **how))
    weight = np.ones(len(X)) if weight is None else weight
    wide, w = X.astype(np.longdouble)[weight > 0], weight.astype(np.longdouble)[weight > 0]
    mean = w @ wide / w.sum()
    spread = np.sqrt(w @ (wide - mean) ** 2 / w.sum())
    constant = (wide == wide[0]).all(axis=0)
    size, rounding = np.abs(wide).max(axis=0), len(X) * np.finfo(float).eps
    assert_allclose(got.weight, float(w.sum()), rtol=1e-14)
    assert_array_equal(got.constant, constant)
    assert (np.abs(got.mean - mean) <= rounding * size).all()
    want = np.where(constant, 1, spread)
    off = np.abs(got.scale / want - 1)
    assert (off <= rounding * np.maximum(1, size / want)).all(), off
    assert_array_equal(got.low, wide.min(axis=0).astype(float))
    assert_array_equal(got.high, wide.max(axis=0).astype(float))


def awkward(n: int = 200) -> np.ndarray:
    """A plain column, one far from zero, tiny, huge and constant ones, and one that is mostly zero."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 6))
    rare = np.where(rng.random(n) < 0.03, z[:, 5], 0.0)
    columns = [z[:, 0], 1e8 + z[:, 1], 1e-80 * z[:, 2], 1e80 * z[:, 3], np.full(n, 0.1), np.zeros(n), rare]
    return np.column_stack(columns)


WEIGHTS = {
    "none": None,
    "with zeros": np.random.default_rng(7).integers(0, 3, 200).astype(float),
    "fractions": np.random.default_rng(7).random(200),
    "tiny": 1e-9 * np.random.default_rng(7).random(200),
    "blocks of zeros": np.repeat([0.0, 1.0, 0.0, 0.3], 50),
}


@pytest.mark.parametrize("held", [np.asarray, csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("block_rows", [None, 1, 50])
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_awkward_columns_are_described_as_in_extended_precision(weight, block_rows, held):
    assert_described(awkward(), weight, block_rows=block_rows, held=held)


@given(
    offset=st.floats(-1e7, 1e7),
    scale=st.floats(1e-3, 1e3),
    block_rows=st.integers(1, 30),
    n=st.integers(2, 40),
)
def test_merging_blocks_does_not_cancel(offset, scale, block_rows, n):
    X = offset + scale * np.sin(np.arange(1.0, 2 * n + 1)).reshape(n, 2)
    assert_described(X, None, block_rows=block_rows)


@pytest.mark.parametrize("X", [np.asfortranarray(table()), table(n=1), table(d=1)], ids=["Fortran", "row", "column"])
def test_describing_columns_leaves_the_table_as_it_was(X):
    before = X.copy()
    describe(MemoryRows(X, np.zeros(len(X))))
    assert_array_equal(X, before)


def test_rows_without_weight_do_not_count_in_the_extremes():
    X = np.array([[1.0], [2.0], [1e6]])
    columns = describe(MemoryRows(X, np.zeros(3), np.array([1.0, 1.0, 0.0]), block_rows=1))
    assert (columns.low, columns.high) == (1.0, 2.0)
