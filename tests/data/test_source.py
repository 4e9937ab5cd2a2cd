"""How rows in memory are sampled: without favour, every class with its share, the same for the same seed."""

import numpy as np
import pytest
from credibly.data.rows import FEW_CLASSES, MemoryRows, class_counts, drawn_rows, shares, stratified, strewn
from numpy.testing import assert_allclose, assert_array_equal

SEEDS = range(2000)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def within_five_errors(draws: np.ndarray, expected: np.ndarray) -> bool:
    error = draws.std(axis=0) / np.sqrt(len(draws))
    return bool((np.abs(draws.mean(axis=0) - expected) <= 5 * error + 1e-12).all())


@pytest.mark.parametrize(("n", "size"), [(10, 1), (10, 4), (10, 7), (10, 9), (10, 10), (11, 5), (1, 1), (5, 0)])
def test_every_row_is_as_likely_to_be_strewn_as_any_other(n, size):
    drawn = np.array([np.bincount(strewn(rng(seed), n, size), minlength=n) for seed in SEEDS])
    assert drawn.max(initial=0) <= 1  # without replacement
    assert_array_equal(drawn.sum(axis=1), size)
    assert within_five_errors(drawn, np.full(n, size / n))


def test_strewn_rows_are_in_order_and_no_stretch_is_left_out():
    chosen = strewn(rng(3), 100_003, 1000)
    assert (np.diff(chosen) > 0).all()
    assert np.diff(chosen).max() <= 2 * 101  # the last of one stretch of a hundred, the first of the one after the next
    assert_array_equal(chosen, strewn(rng(3), 100_003, 1000))
    assert (chosen != strewn(rng(4), 100_003, 1000)).any()


@pytest.mark.parametrize("dtype", [float, np.int8, np.intp])
@pytest.mark.parametrize("n_classes", [3, FEW_CLASSES + 1])
def test_rows_are_counted_by_class(dtype, n_classes):
    assert class_counts(np.array([2, 0, 2, 2], dtype=dtype), n_classes).tolist() == [1, 0, 3] + [0] * (n_classes - 3)


def labels() -> np.ndarray:
    """1,000 rows: two common classes, one of 30 rows, one of 3; the rare ones at the end."""
    return np.concatenate([np.tile([0, 1, 0], 322), [1], np.full(30, 2), np.full(3, 3)])


@pytest.mark.parametrize("dtype", [float, np.intp])
def test_every_class_has_its_share_of_a_sample_and_stands_for_all_its_rows(dtype):
    y, counts = labels().astype(dtype), np.bincount(labels())
    for seed in range(50):
        chosen, standing = stratified(rng(seed), y, 100, 4)
        assert (np.diff(chosen) > 0).all()
        codes = labels()[chosen]
        taken = np.bincount(codes)
        assert (np.abs(taken - shares(counts, 100))[:2] <= 5 * np.sqrt(100 / 4)).all()  # binomial, or nearer
        assert taken[2:].tolist() == [12, 3]  # half of an equal share, or all there are
        assert_allclose(np.bincount(codes, standing), counts, rtol=1e-12)


def test_sums_over_a_stratified_sample_are_those_of_all_rows_on_average():
    y, x = labels(), np.random.default_rng(8).normal(size=1000) + labels()
    drawn = (stratified(rng(seed), y, 100, 4) for seed in SEEDS)
    sums = np.array([np.bincount(y[chosen], standing * x[chosen]) for chosen, standing in drawn])
    assert within_five_errors(sums, np.bincount(y, x))


def test_a_sample_is_the_same_for_the_same_seed():
    one, two, other = (stratified(rng(seed), labels(), 100, 4) for seed in (1, 1, 2))
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])
    assert len(one[0]) != len(other[0]) or (one[0] != other[0]).any()


def test_labels_in_order_are_no_trap():
    y = np.sort(labels())
    chosen, standing = stratified(rng(), y, 100, 4)
    assert_allclose(np.bincount(y[chosen], standing), np.bincount(y), rtol=1e-12)
    assert_array_equal(drawn_rows(rng(), y, np.array([0, 0, 30, 3])), np.arange(967, 1000))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_rows_are_copied_as_they_are(order, dtype):
    X = np.arange(3000.0).reshape(1000, 3).astype(dtype, order=order)
    sample = MemoryRows(X, np.arange(1000), offset=np.arange(1000) / 2).sample(rng(), 70)
    assert sample.X.dtype == dtype
    assert_array_equal(sample.X, X[sample.y])
    assert_array_equal(sample.offset, sample.y / 2)
