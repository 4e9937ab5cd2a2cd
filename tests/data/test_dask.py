"""Rows of Dask collections answer as rows in memory do, however they are cut."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, random_array

from credibly.data import dask as data_dask
from credibly.data.columns import describe
from credibly.data.dask import MERGED_AT_ONCE, DaskRows, lazy_arrays, partitions
from credibly.data.rows import FEWEST_ROWS, Block, MemoryRows, add, block_cuts, is_dask
from credibly.errors import InputError
from credibly.numerics.settings import BLOCK_SIZES

N, D = 120, 4
ROUNDING = 1e-12  # sums of a hundred terms in another order
rng = np.random.default_rng(0)
X, Y, WEIGHT = rng.normal(size=(N, D)), rng.integers(0, 3, N), rng.integers(0, 4, N) / 2.0
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=Y, weight=WEIGHT)

EQUAL, UNEQUAL, EMPTY = (40, 40, 40), (7, 100, 13), (50, 0, 70, 0)
MANY = (1,) * N  # several levels of the tree


@pytest.fixture(autouse=True)
def here():
    """In this thread: what fails is seen where it fails."""
    with dask.config.set(scheduler="synchronous"):
        yield


def statistics(block: Block) -> tuple:
    """What a Newton step asks for: a number, a vector and a matrix."""
    weight = block.weights
    return float(weight @ block.y), block.X.T @ (weight * block.y), (block.X.T * weight) @ block.X


def scores(block: Block) -> np.ndarray:
    return block.X @ np.arange(1.0, D + 1) + block.y


def memory(**changes) -> MemoryRows:
    return MemoryRows(**({"X": X, "y": Y, "weight": WEIGHT} | changes))


def frames(npartitions: int = 3):
    held = dd.from_pandas(FRAME, npartitions=npartitions)
    return held[["a", "b", "c", "d"]], held["y"], held["weight"]


def vectors(chunks) -> tuple:
    return da.from_array(Y, chunks=(chunks,)), da.from_array(WEIGHT, chunks=(chunks,))


WAYS = {
    "equal chunks": lambda: DaskRows(da.from_array(X, chunks=(EQUAL, D)), *vectors(EQUAL)),
    "unequal chunks": lambda: DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), *vectors(UNEQUAL)),
    "empty chunks": lambda: DaskRows(da.from_array(X, chunks=(EMPTY, D)), *vectors(EMPTY)),
    "columns in chunks": lambda: DaskRows(da.from_array(X, chunks=(UNEQUAL, (1, 3))), *vectors(UNEQUAL)),
    "labels cut elsewhere": lambda: DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), *vectors(EQUAL)),
    "labels in memory": lambda: DaskRows(da.from_array(X, chunks=(EMPTY, D)), Y, WEIGHT),
    "a chunk for each row": lambda: DaskRows(da.from_array(X, chunks=(MANY, D)), *vectors(MANY)),
    "sparse chunks": lambda: DaskRows(da.from_array(X, chunks=(EQUAL, D)).map_blocks(csr_array), *vectors(EQUAL)),
    "frames": lambda: DaskRows(*frames()),
    "a frame, labels in memory": lambda: DaskRows(frames()[0], FRAME["y"], WEIGHT),
    "small blocks": lambda: DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), *vectors(UNEQUAL)).in_blocks(11),
}
EVERY_WAY = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS.keys())


def assert_same_sums(got: tuple, want: tuple) -> None:
    for one, other in zip(got, want, strict=True):
        assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING)


@EVERY_WAY
def test_sums_are_those_of_rows_in_memory(make):
    rows = make()
    assert rows.n_rows == N
    assert_same_sums(rows.sum(statistics, add), memory().sum(statistics, add))
    assert_same_sums(describe(rows), describe(memory()))


@EVERY_WAY
def test_maps_are_those_of_rows_in_memory_in_their_order(make):
    want = memory().map(scores)
    assert_allclose(make().map(scores), want, rtol=ROUNDING, atol=ROUNDING)
    assert_allclose(np.concatenate(list(make().each(scores))), want, rtol=ROUNDING, atol=ROUNDING)


@EVERY_WAY
def test_every_row_is_in_one_batch(make):
    batches = list(make().batches(np.random.default_rng(0), 16))
    assert max(len(batch.y) for batch in batches) <= 16
    got = np.concatenate([np.column_stack([batch.X, batch.y, batch.weight]) for batch in batches])
    want = np.column_stack([X, Y, WEIGHT])
    assert not np.array_equal(got, want)  # shuffled
    assert_array_equal(got[np.lexsort(got.T)], want[np.lexsort(want.T)])


def test_results_are_merged_in_the_order_of_the_rows():
    rows = DaskRows(da.from_array(X, chunks=(MANY, D)), Y)
    assert MERGED_AT_ONCE**2 < N  # more than two levels
    assert rows.sum(lambda block: [block.X[0, 0]], lambda a, b: a + b) == X[:, 0].tolist()


def test_changes_codes_and_labels_apply_to_every_block():
    rows = DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), Y)
    changed = rows.through(lambda X: X * 2).through(lambda X: X + 1).encoded(lambda y: y + 1).encoded(lambda y: y * 10)
    assert_array_equal(changed.map(lambda block: np.column_stack([block.X, block.y])), np.c_[X * 2 + 1, (Y + 1) * 10])
    again = changed.relabelled(np.arange(2.0 * N).reshape(N, 2))
    assert_array_equal(again.map(lambda block: block.y), np.arange(2.0 * N).reshape(N, 2))


def test_a_partition_that_begins_at_any_byte_gives_the_same_bits():
    """As those do that came over a network."""
    assert not _moved(X).flags.aligned
    table = da.from_array(X, chunks=(EQUAL, D)).map_blocks(_moved, dtype=float)
    first, again = (DaskRows(held, Y).sum(statistics, add) for held in (da.from_array(X, chunks=(EQUAL, D)), table))
    for one, other in zip(first, again, strict=True):
        assert_array_equal(one, other)
    assert all(DaskRows(table, Y).each(lambda block: block.X.flags.aligned))


def _moved(part: np.ndarray) -> np.ndarray:
    shifted = np.empty(part.nbytes + 1, dtype=np.uint8)[1:].view(np.float64).reshape(part.shape)
    shifted[:] = part
    return shifted


WIDE = 2_000  # columns
THIN = random_array((3_000, WIDE), density=0.002, format="csr", rng=rng)  # four numbers in a row, of two thousand


def test_sparse_chunks_are_made_dense_in_blocks_as_small_as_those_of_dense_ones():
    """Cut by what they hold they would be one block, of 48 megabytes."""
    assert block_cuts(THIN.shape, None, THIN.nnz) == [slice(0, 3_000)]
    rows = DaskRows(da.from_array(THIN.toarray(), chunks=(3_000, WIDE)).map_blocks(csr_array))
    assert max(rows.each(lambda block: block.X.size)) <= max(BLOCK_SIZES.table_numbers, FEWEST_ROWS * WIDE)
    assert_array_equal(rows.map(lambda block: block.X), THIN.toarray())
    assert set(rows.in_blocks(100).each(lambda block: len(block.y))) == {100}  # as many as were asked for


def test_a_sparse_partition_is_fetched_as_it_is_and_made_dense_batch_by_batch():
    rows = DaskRows(da.from_array(THIN.toarray(), chunks=(1_500, WIDE)).map_blocks(csr_array), np.arange(3_000))
    travelled, computed = [], data_dask.computed

    def noting(tasks):
        found = computed(tasks)
        travelled.extend(block for parts in found for part in parts for block in part)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_dask, "computed", noting)
        batches = list(rows.through(lambda X: 2 * X).batches(np.random.default_rng(0), 100))
    assert {type(block.X) for block in travelled} == {csr_array}
    y = np.concatenate([batch.y for batch in batches])
    assert_array_equal(np.sort(y), np.arange(3_000))
    assert_array_equal(np.concatenate([batch.X for batch in batches]), 2 * THIN.toarray()[y])


def test_columns_of_frames_have_names_and_those_of_arrays_numbers():
    table = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])  # names that somebody gave, though they look like numbers
    frame, array = DaskRows(dd.from_pandas(table, npartitions=2), Y), DaskRows(da.from_array(X, chunks=(EQUAL, D)), Y)
    assert frame.names == array.names
    assert frame.named and not array.named
    assert not array.through(lambda X: X).encoded(lambda y: y).in_blocks(10).named


def test_blocks_know_their_partition():
    rows = DaskRows(da.from_array(X, chunks=(EMPTY, D)), Y)
    assert list(rows.each(lambda block: block.where)) == ["partition 0", "partition 2"]


def test_offsets_come_along():
    offset = np.linspace(0, 1, N)
    rows = DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), Y, None, da.from_array(offset, chunks=30))
    assert_array_equal(rows.map(lambda block: block.offset), offset)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_sample_estimates_sums_without_bias(n_classes):
    """The mean over many samples: within five standard errors."""
    rows = DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), Y, WEIGHT)
    sums = []
    for seed in range(200):
        sample = rows.sample(np.random.default_rng(seed), 30, n_classes)
        assert len(np.unique(sample.X[:, 0])) == sample.n_rows  # without replacement
        sums.append(sample.weight @ sample.X)
    spread = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - WEIGHT @ X) < 5 * spread).all()


def test_a_rare_class_is_in_the_sample_with_its_own_weight():
    y = np.zeros(N)
    y[[3, 118]] = 1
    rows = DaskRows(da.from_array(X, chunks=(UNEQUAL, D)), y)
    sample = rows.sample(np.random.default_rng(0), 20, 2)
    assert sample.weight[sample.y == 1].tolist() == [1.0, 1.0]
    assert_allclose(sample.weight.sum(), N)
    assert_array_equal(sample.X, X[np.isin(X[:, 0], sample.X[:, 0])])  # in order, columns as they came


def test_a_sample_of_all_rows_is_all_rows():
    sample = DaskRows(da.from_array(X, chunks=(EMPTY, D)), Y, WEIGHT).sample(np.random.default_rng(0), N)
    assert_array_equal(sample.X, X)
    assert_array_equal(sample.weight, WEIGHT)


# --- What is refused ----------------------------------------------------------------------------------------------


def test_lengths_that_differ_are_both_named():
    table = da.from_array(X, chunks=(UNEQUAL, D))
    for labels in (Y[:-1], da.from_array(Y[:-1], chunks=50)):
        with pytest.raises(InputError, match="y has 119 rows, X has 120"):
            DaskRows(table, labels)
    with pytest.raises(InputError, match="sample_weight has 119 rows, X has 120"):
        DaskRows(table, Y, WEIGHT[:-1])


def test_frames_that_cannot_be_matched_are_refused():
    table = frames(3)[0]
    with pytest.raises(InputError, match=r"Partitions of y have 30, 30, 30, 30 rows, those of X 40, 40, 40"):
        DaskRows(table, frames(4)[1])
    with pytest.raises(InputError, match="y has 4 partitions, X has 3, and not all their lengths are known"):
        partitions(table, [frames(4)[1]], ["y"], count=False)


def test_columns_of_text_are_named():
    held = dd.from_pandas(FRAME.assign(city="Delft", kind=pd.Categorical(["u"] * N)), npartitions=2)
    with pytest.raises(InputError, match="not numbers: 'city', 'kind'"):
        DaskRows(held[["a", "city", "kind"]], held["y"])


def test_no_rows_and_no_columns_are_refused():
    with pytest.raises(InputError, match="no rows"):
        DaskRows(da.from_array(X[:0], chunks=(1, D)), Y[:0])
    with pytest.raises(InputError, match="1 dimension"):
        DaskRows(da.from_array(Y, chunks=50), Y)


def test_missing_cells_of_nullable_columns_are_nan():
    table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    rows = DaskRows(dd.from_pandas(table, npartitions=1), np.zeros(3))
    assert_array_equal(rows.map(lambda block: block.X), [[1, 1], [np.nan, 0], [3, 1]])


# --- What is lazy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table", [X, Y, FRAME, FRAME["y"], [[1.0]], None, csr_array(X)], ids=lambda it: type(it).__name__
)
def test_tables_in_memory_are_not_lazy(table):
    assert not is_dask(table)


@pytest.mark.parametrize("index", [0, 1])
def test_dask_collections_are(index):
    assert is_dask(frames()[index]) and is_dask(da.from_array(X))


def test_nothing_is_computed_before_it_is_asked_for():
    def refuse(block):
        raise AssertionError

    table = da.from_array(X, chunks=(EMPTY, D)).map_blocks(refuse, dtype=float, meta=np.empty((0, 0)))
    assert lazy_arrays(lambda X: X, table).shape == (N, D)


def test_vectors_come_with_their_partition():
    table, shift = da.from_array(X, chunks=(EMPTY, (2, 2))), np.arange(N)
    for by in (shift, da.from_array(shift, chunks=7)):
        lazy = lazy_arrays(lambda X, shift: X + shift[:, None], table, shift=by)
        assert_array_equal(lazy.compute(), X + shift[:, None])
