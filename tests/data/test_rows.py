"""How rows are sampled: without favour, every class with its share, the same for the same seed."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from credibly.data.rows import MOST_PARTS, MemoryRows, block_cuts


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def within_five_errors(draws: np.ndarray, expected: np.ndarray) -> bool:
    error = draws.std(axis=0) / np.sqrt(len(draws))
    return bool((np.abs(draws.mean(axis=0) - expected) <= 5 * error + 1e-12).all())


def test_every_row_is_as_likely_to_be_drawn_as_any_other():
    rows = MemoryRows(np.zeros((100, 1)), np.arange(100), block_rows=30)
    drawn = np.array([np.bincount(rows.sample(rng(seed), 40).y, minlength=100) for seed in range(1000)])
    assert drawn.max() == 1  # without replacement
    assert within_five_errors(drawn, np.full(100, 0.4))


@pytest.mark.parametrize("size", [2, 10, 100])
def test_no_class_loses_all_its_rows_to_chance(size):
    y = np.repeat(np.arange(10), [2, 30, 50, 100, 200, 500, 1000, 2000, 3000, 4000])
    for seed in range(200):
        assert set(MemoryRows(np.zeros((len(y), 1)), y).sample(rng(seed), size, 10).y) == set(range(10))


def labels() -> np.ndarray:
    """1,000 rows: two common classes, one of 30 rows, one of 3; the rare ones at the end."""
    return np.concatenate([np.tile([0, 1, 0], 322), [1], np.full(30, 2), np.full(3, 3)])


def table(y: np.ndarray | None = None, **more) -> MemoryRows:
    """A column with the number of the row."""
    return MemoryRows(np.arange(1000.0)[:, None], labels() if y is None else y, **more)


@pytest.mark.parametrize("dtype", [float, np.intp])
@pytest.mark.parametrize("block_rows", [None, 90])
def test_every_class_has_its_share_of_a_sample_and_stands_for_all_its_rows(dtype, block_rows):
    counts = np.bincount(labels())
    for seed in range(50):
        sample = table(labels().astype(dtype), block_rows=block_rows).sample(rng(seed), 100, 4)
        codes = sample.y.astype(int)
        assert (np.diff(sample.X[:, 0]) > 0).all()
        assert_array_equal(codes, labels()[sample.X[:, 0].astype(int)])
        taken = np.bincount(codes)
        # Binomial numbers, whose standard deviations are below √64, √32 and √7: five of them at most.
        assert (np.abs(taken - np.array([64.4, 32.3, 20, 3])) <= [40, 28, 13, 0]).all()
        assert_allclose(np.bincount(codes, sample.weight), counts, rtol=1e-12)


@pytest.mark.parametrize("block_rows", [None, 90])
def test_sums_over_samples_are_those_of_all_rows_on_average(block_rows):
    y, x = labels(), rng(8).normal(size=1000) + labels()
    rows = MemoryRows(x[:, None], y, block_rows=block_rows)
    samples = (rows.sample(rng(seed), 100, 4) for seed in range(500))
    sums = np.array([np.bincount(it.y, it.weight * it.X[:, 0]) for it in samples])
    assert within_five_errors(sums, np.bincount(y, x))


def test_a_sample_is_the_same_for_the_same_seed_and_any_number_of_threads():
    one, two, other = (table(block_rows=50).on_threads(k).sample(rng(k // 3), 100, 4) for k in (1, 2, 3))
    assert_array_equal(one.X, two.X)
    assert_array_equal(one.weight, two.weight)
    assert one.n_rows != other.n_rows or (one.X != other.X).any()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_rows_are_copied_as_they_are(order, dtype):
    X = np.arange(3000.0).reshape(1000, 3).astype(dtype, order=order)
    sample = MemoryRows(X, np.arange(1000), offset=np.arange(1000) / 2).sample(rng(), 70)
    assert sample.X.dtype == dtype
    assert_array_equal(sample.X, X[sample.y])
    assert_array_equal(sample.offset, sample.y / 2)


def test_a_sample_of_sparse_rows_is_sparse():
    X = csr_array(np.diag(np.arange(1.0, 101)))
    sample = MemoryRows(X, np.arange(100), block_rows=30).sample(rng(), 40)
    assert isinstance(sample.X, csr_array)
    assert_array_equal(sample.X.toarray(), X.toarray()[sample.y])


@pytest.mark.parametrize(("n", "d"), [(1, 1), (10, 3), (10**6, 30), (10**6 + 1, 30), (300, 10**5), (10**8, 2)])
def test_cuts_cover_the_table_in_order_and_are_of_a_size(n, d):
    cuts = block_cuts((n, d))
    assert cuts[0].start == 0 and cuts[-1].stop == n
    assert all(one.stop == two.start for one, two in pairwise(cuts))
    sizes = {cut.stop - cut.start for cut in cuts}
    assert max(sizes) - min(sizes) <= 1


def test_a_table_is_summed_in_few_parts():
    parts = list(MemoryRows(np.zeros((10_000, 1)), np.zeros(10_000), block_rows=7).parts(lambda it: len(list(it))))
    assert len(parts) <= MOST_PARTS and sum(parts) == len(block_cuts((10_000, 1), 7))
