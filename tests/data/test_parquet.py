"""Rows of Parquet files answer what the same rows in memory answer."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.columns import describe
from credibly.data.parquet import File, ParquetRows
from credibly.data.rows import Block, MemoryRows, OutOfCoreRows, add
from credibly.errors import DataWarning, InputError

N, D = 1003, 4
ROUNDING = 1e-12  # sums of a thousand terms in another order
CLASSES = np.array(["high", "low", "mid"], dtype=object)


def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, D))


def codes() -> np.ndarray:
    """Two common classes, and a rare one."""
    y = np.random.default_rng(1).integers(0, 2, N)
    y[::100] = 2
    return y


def weights() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 4, N) / 2.0


def frame() -> pa.Table:
    X = table()
    columns = {f"x{j}": X[:, j] for j in range(D)}
    return pa.table({**columns, "y": codes(), "label": CLASSES[codes()], "w": weights(), "o": np.arange(N) / 7})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of unequal length, in row groups of a hundred."""
    into = tmp_path_factory.mktemp("parts")
    for k, (start, stop) in enumerate([(0, 250), (250, 251), (251, N)]):
        pq.write_table(frame()[start:stop], into / f"part-{k}.parquet", row_group_size=100)
    return into


FEATURES = [f"x{j}" for j in range(D)]


def stored(folder: Path, target: str = "y", **choices) -> ParquetRows:
    return ParquetRows(folder, target=target, **({"features": FEATURES, "weight": "w", "batch_rows": 64} | choices))


def held(**choices) -> MemoryRows:
    return MemoryRows(**({"X": table(), "y": codes(), "weight": weights()} | choices))


def statistics(block: Block) -> tuple:
    return float(block.weights @ block.y), block.X.T @ (block.weights * block.y), (block.X.T * block.weights) @ block.X


def scores(block: Block) -> np.ndarray:
    return block.X @ np.arange(1.0, D + 1) + block.y


def assert_same(got: tuple, want: tuple) -> None:
    for one, other in zip(got, want, strict=True):
        assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING)


# --- the law: as in memory ------------------------------------------------------------------------------------------

WAYS = {
    "as it comes": {},
    "row by row": {"batch_rows": 1},
    "batches that do not divide row groups": {"batch_rows": 33},
    "row groups together": {"batch_rows": 10_000},
    "by default": {"batch_rows": None},
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@EVERY_WAY
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sums_are_those_of_rows_in_memory(folder, way, threads):
    rows = stored(folder, **way).on_threads(threads)
    assert_same(rows.sum(statistics, add), held().sum(statistics, add))
    assert_same(describe(rows), describe(held()))


@EVERY_WAY
def test_maps_are_those_of_rows_in_memory(folder, way):
    assert_array_equal(stored(folder, **way).map(lambda block: block.X), table())
    assert_allclose(stored(folder, **way).map(scores), held().map(scores), rtol=ROUNDING)


def test_blocks_come_in_order_with_all_that_belongs_to_them(folder):
    blocks = list(stored(folder, offset="o").in_blocks(10).each(lambda block: block))
    assert max(len(block.y) for block in blocks) <= 10
    X, y, weight, offset, where, start, row = zip(*blocks, strict=True)
    assert_array_equal(np.concatenate(X), table())
    assert_array_equal(np.concatenate(y), codes())
    assert_array_equal(np.concatenate(weight), weights())
    assert_array_equal(np.concatenate(offset), np.arange(N) / 7)
    assert (where[0], where[-1]) == (str(folder / "part-0.parquet"), str(folder / "part-2.parquet"))
    assert start[-1].describe(3) == f"row {row[-1] - 251 + 3} of the file (counted from 0)"
    assert_array_equal(row, np.cumsum([0, *map(len, y)])[:-1])
    assert all(block.X.flags.f_contiguous and block.X.dtype == np.float64 for block in blocks)


@pytest.mark.parametrize("other", ["float64", "float32", "int16", "bool", "with a gap"])
def test_columns_of_every_type_are_copied_alike(tmp_path, other):
    """In blocks that divide nothing."""
    first, second = np.random.default_rng(0).normal(size=100), (np.arange(100) % 7 > 2).astype(float)
    cells = pa.array(second).cast(pa.float64() if other == "with a gap" else other)
    if other == "with a gap":
        second[5] = np.nan
        cells = pa.array(second, from_pandas=True)
    pq.write_table(pa.table({"a": first, "b": cells, "y": np.zeros(100)}), tmp_path / "t.parquet", row_group_size=60)
    rows = ParquetRows(tmp_path / "t.parquet", target="y", features=["b", "a"], batch_rows=33).in_blocks(7)
    assert_array_equal(rows.map(lambda block: block.X), np.column_stack([second, first]))
    assert set(rows.each(lambda block: block.X.flags.f_contiguous)) == {True}


def test_what_is_known_without_reading_rows(folder):
    rows = stored(folder)
    assert isinstance(rows, OutOfCoreRows)
    assert (rows.n_rows, rows.names, rows.with_offsets) == (N, FEATURES, False)
    assert stored(folder, offset="o").with_offsets
    assert repr(rows) == "ParquetRows(1,003 rows in 3 files)"


def test_neither_threads_nor_time_change_the_last_bit(folder):
    def uneven(block: Block) -> tuple:
        time.sleep(0.002 * (block.y[0] % 2))
        return statistics(block)

    one = stored(folder).on_threads(1).sum(statistics, add)
    for threads in (2, 4):
        for a, b in zip(one, stored(folder).on_threads(threads).sum(uneven, add), strict=True):
            assert_array_equal(a, b)


def test_changes_codes_and_blocks_are_kept_together(folder):
    rows = stored(folder, "label").encoded(lambda y: np.searchsorted(CLASSES.astype(str), y.astype(str)))
    rows = rows.encoded(lambda y: y.astype(float)).through(lambda X: X - 1.0).through(np.square).in_blocks(20)
    want = np.searchsorted(CLASSES.astype(str), CLASSES[codes()].astype(str))
    assert_array_equal(rows.map(lambda block: block.y), want)
    assert_array_equal(rows.map(lambda block: block.X), (table() - 1.0) ** 2)


def test_numpys_settings_for_errors_hold_on_the_threads(folder):
    with np.errstate(divide="ignore"):
        got = stored(folder).on_threads(2).map(lambda block: np.log(block.weights * 0))
    assert_array_equal(got, np.full(N, -np.inf))
    with pytest.warns(RuntimeWarning, match="divide"):
        stored(folder).on_threads(1).map(lambda block: np.log(block.weights * 0))


def test_rows_of_files_cannot_be_relabelled(folder):
    with pytest.raises(InputError, match="every single row"):
        stored(folder).relabelled(np.zeros(N))


# --- paths ----------------------------------------------------------------------------------------------------------


def test_a_file_a_pattern_a_folder_and_a_list(folder):
    everything = [folder, str(folder / "*.parquet"), [folder / f"part-{k}.parquet" for k in range(3)]]
    for path in everything:
        assert_array_equal(ParquetRows(path, "y", FEATURES).map(lambda block: block.y), codes())
    assert ParquetRows(folder / "part-1.parquet", "y", FEATURES).n_rows == 1
    assert ParquetRows([folder / "part-2.parquet", str(folder / "part-0*")], "y", FEATURES).n_rows == N - 1


# --- samples and batches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_sample_is_of_the_rows_with_all_that_belongs_to_them(folder, n_classes):
    rows = stored(folder, offset="o").through(np.square)
    one, again = (rows.on_threads(threads).sample(np.random.default_rng(5), 60, n_classes) for threads in (1, 3))
    at = np.rint(one.offset * 7).astype(int)
    assert (np.diff(at) > 0).all() and abs(len(at) - 60) <= 20
    assert_array_equal(one.X, table()[at])
    assert_array_equal(one.y, codes()[at])
    counts, taken = (np.bincount(it, minlength=3) if n_classes else np.array([len(it)]) for it in (codes(), one.y))
    standing = (counts / taken)[one.y if n_classes else np.zeros_like(one.y)]
    assert_allclose(one.weight, weights()[at] * standing, rtol=ROUNDING)
    assert_array_equal(one.map(lambda block: block.X), table()[at] ** 2)
    assert_array_equal(one.X, again.X)
    assert n_classes == 0 or taken[2] >= 5  # of one row in a hundred, a sixth of the sample


@pytest.mark.parametrize("size", [1, 10, 100, N, 2 * N])
def test_batches_visit_every_row_once_and_shuffle(folder, size):
    rows = ParquetRows(folder, "o", [*FEATURES, "y"], weight="w", batch_rows=64)
    batches = list(rows.batches(np.random.default_rng(0), size))
    assert {len(batch.y) for batch in batches[:-1]} <= {size}
    at = np.rint(np.concatenate([batch.y for batch in batches]) * 7).astype(int)
    assert_array_equal(np.sort(at), np.arange(N))
    assert not np.array_equal(at, np.arange(N))
    assert_array_equal(np.concatenate([batch.X for batch in batches]), np.column_stack([table(), codes()])[at])
    assert_array_equal(np.concatenate([batch.weight for batch in batches]), weights()[at])


def test_batches_are_the_same_for_the_same_generator(folder):
    one, other = (list(stored(folder).batches(np.random.default_rng(3), 50)) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a.X, b.X)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_block_reaches_the_caller(folder, threads):
    def fails(block: Block) -> tuple:
        raise ZeroDivisionError if "part-2" in block.where else KeyError

    with pytest.raises(KeyError):  # that of the first block, not of the first thread to get there
        stored(folder).on_threads(threads).sum(fails, add)
    assert_same(stored(folder).on_threads(threads).sum(statistics, add), held().sum(statistics, add))


def test_a_pass_that_is_left_is_no_burden(folder):
    results = stored(folder).on_threads(2).each(lambda block: len(block.y))
    assert next(results) == 64
    results.close()
    batches = stored(folder).batches(np.random.default_rng(0), 10)
    next(batches)
    batches.close()
    assert stored(folder).map(lambda block: block.y).tolist() == codes().tolist()


INTERRUPTED = """
import os, signal, sys, threading, time
from credibly import ParquetRows

once = threading.Lock()

def slow(block):
    if once.acquire(blocking=False):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    return (block.y.sum(),)

rows = ParquetRows(sys.argv[1], target="y", features=["x0"], batch_rows=5)
try:
    rows.in_blocks(1).sum(slow)  # 50 seconds, if it were to end by itself
except KeyboardInterrupt:
    print(rows.sum(lambda block: (block.y.sum(),))[0])
"""


def test_ctrl_c_ends_a_pass(folder):
    """A real signal, in a process of its own: there the main thread is the one that asks for the sum."""
    run = [sys.executable, "-c", INTERRUPTED, str(folder)]
    beside = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False, env=beside)
    assert done.stdout == f"{codes().sum()}\n", done.stderr


# --- categories -----------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path) -> Path:
    colour = pa.array(["red", None, "blue", "red", "green", "blue"])
    columns = {
        "colour": colour,
        "shape": pa.array(["b", "a", "a", "b", "a", None]).dictionary_encode(),
        "age": pa.array([3, None, 5, 6, 7, 8]),
        "flag": pa.array([True, False, None, True, True, False]),
        "rank": pa.array([10, 9, 10, 2, 9, 2], pa.int8()),
        "y": ["no", "yes", "no", "no", "yes", "no"],
    }
    pq.write_table(pa.table(columns), tmp_path / "mixed.parquet", row_group_size=2)
    return tmp_path / "mixed.parquet"


GAP = np.nan
COLOURS = np.array([[0, 0, 1], [GAP] * 3, [1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
SHAPES = np.array([[0, 1], [1, 0], [1, 0], [0, 1], [1, 0], [GAP] * 2])
AGES, FLAGS = np.array([3, GAP, 5, 6, 7, 8]), np.array([1, 0, GAP, 1, 1, 0])
RANKS = np.array([10, 9, 10, 2, 9, 2.0])


@pytest.mark.parametrize("batch_rows", [1, 4, None])
def test_text_becomes_indicators_and_gaps_stay_gaps(mixed, batch_rows):
    rows = ParquetRows(mixed, "y", batch_rows=batch_rows)
    shapes = ["shape=a", "shape=b"]
    assert rows.names == ["colour=blue", "colour=green", "colour=red", *shapes, "age", "flag", "rank"]
    want = np.column_stack([COLOURS, SHAPES, AGES, FLAGS, RANKS])
    assert_array_equal(rows.map(lambda block: block.X), want)
    assert rows.map(lambda block: block.y).tolist() == ["no", "yes", "no", "no", "yes", "no"]


def test_listed_columns_are_categories_whatever_they_hold(mixed):
    rows = ParquetRows(mixed, "y", ["rank", "flag", "colour"], categories=["rank", "flag"])
    assert rows.names[:5] == ["rank=2", "rank=9", "rank=10", "flag=False", "flag=True"]
    X = rows.map(lambda block: block.X)
    assert_array_equal(X[:, :3], (RANKS[:, None] == [2, 9, 10]).astype(float))
    assert_array_equal(X[:, 4], FLAGS)


def test_levels_are_found_once_and_only_where_there_are_categories(mixed, monkeypatch):
    read, batches = [], File.batches
    monkeypatch.setattr(
        File, "batches", lambda self, columns, *more: (read.append(columns), batches(self, columns, *more))[1]
    )
    numbers = ParquetRows(mixed, "y", ["age", "rank"])
    assert numbers.names == ["age", "rank"] and not read
    rows = ParquetRows(mixed, "y", batch_rows=100)
    names = rows.names, rows.through(np.square).names, rows.on_threads(1).names
    assert names[0] == names[1] == names[2]
    assert read == [("colour", "shape")]


def test_categories_of_files_are_joined(tmp_path):
    for k, levels in enumerate([["b", "a"], ["c", "b"]]):
        column = pa.array(levels).dictionary_encode()
        pq.write_table(pa.table({"c": column, "y": [0, 1]}), tmp_path / f"{k}.parquet")
    rows = ParquetRows(tmp_path, "y")
    assert rows.names == ["c=a", "c=b", "c=c"]
    assert_array_equal(rows.map(lambda block: block.X), [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_rows_take_the_columns_of_a_model(mixed, tmp_path):
    names = ["rank", "colour=blue", "colour=violet", "shape=a", "shape=b"]
    rows = ParquetRows(mixed).aligned(names)
    assert rows.names == names
    with pytest.warns(DataWarning, match=r"'colour' has levels that were not .* 'green', 'red'") as told:
        X = rows.map(lambda block: block.X)
    assert len(told) == 1
    want = np.column_stack([RANKS, COLOURS[:, 0], COLOURS[:, 0] * 0, SHAPES])
    assert_array_equal(X, want)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(rows.in_blocks(1).map(lambda block: block.X), want)  # told once


def test_columns_of_a_model_that_the_files_do_not_have(mixed):
    with pytest.raises(InputError, match="no column 'weight'"):
        ParquetRows(mixed, "y").aligned(["age", "weight"])
    with pytest.raises(InputError, match="stand together"):
        ParquetRows(mixed, "y").aligned(["colour=red", "age", "colour=blue"])
    with pytest.raises(InputError, match="'colour' held numbers when the model was fitted, and is a category"):
        ParquetRows(mixed, "y").aligned(["age", "colour"])


def test_rows_without_a_target_are_unlabelled(mixed):
    assert np.isnan(ParquetRows(mixed).map(lambda block: block.y)).all()
    with pytest.raises(InputError, match="no target"):
        ParquetRows(mixed).sample(np.random.default_rng(0), 2, n_classes=2)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float16(), pa.decimal128(6, 2), pa.bool_()])
@pytest.mark.parametrize("gap", [False, True])
def test_numbers_of_every_kind(tmp_path, kind, gap):
    values = np.array([0.0, 1.0, 1.0, 0.0]).astype(np.float16)
    cells = [None if gap and k == 2 else value for k, value in enumerate(values)]
    column = (
        pa.array(cells, pa.float16()).cast(pa.float32()).cast(kind) if kind != pa.float16() else pa.array(cells, kind)
    )
    pq.write_table(pa.table({"x": column, "y": [0, 1, 0, 1]}), tmp_path / "kinds.parquet")
    want = np.where([False, False, gap, False], np.nan, [0.0, 1.0, 1.0, 0.0])[:, None]
    assert_array_equal(ParquetRows(tmp_path, "y").map(lambda block: block.X), want)


LABELS = {
    "text": (["b", "a", "b"], object),
    "flags": ([True, False, True], bool),
    "integers": ([3, -1, 3], np.int64),
    "numbers": ([0.5, 1.0, 0.5], np.float64),
}


@pytest.mark.parametrize(("labels", "dtype"), LABELS.values(), ids=LABELS.keys())
def test_labels_come_as_they_are(tmp_path, labels, dtype):
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": labels}), tmp_path / "labels.parquet")
    (y,) = ParquetRows(tmp_path, "y").each(lambda block: block.y)
    assert (y.tolist(), y.dtype) == (labels, dtype)


def test_missing_labels_are_missing(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "text": ["a", None], "whole": [1, None]}), tmp_path / "labels.parquet")
    assert ParquetRows(tmp_path, "text", ["x"]).map(lambda block: block.y).tolist() == ["a", None]
    assert_array_equal(ParquetRows(tmp_path, "whole", ["x"]).map(lambda block: block.y), [1.0, np.nan])


def test_the_fingerprint_tells_rows_from_others(folder, mixed):
    assert stored(folder).fingerprint == stored(folder).on_threads(1).fingerprint
    others = {stored(folder).fingerprint, stored(folder, weight=None).fingerprint, ParquetRows(mixed, "y").fingerprint}
    assert len(others) == 3


# --- memory ---------------------------------------------------------------------------------------------------------

PASSES = """
import resource, sys
import numpy as np
from credibly.data.columns import describe
from credibly.data.parquet import File, ParquetRows
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = ParquetRows(sys.argv[1], "y").on_threads(2)
describe(rows)
rows.sample(np.random.default_rng(0), 10_000, n_classes=2)
for _ in rows.batches(np.random.default_rng(0), 1000):
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_files(tmp_path):
    """Some row groups of 40 megabytes, and 80 of rows that are shuffled together, twice."""
    rng = np.random.default_rng(0)
    for k in range(2):
        columns = {f"x{j}": rng.normal(size=4_000_000) for j in range(20)}
        y = rng.integers(0, 2, 4_000_000)
        pq.write_table(pa.table({**columns, "y": y}), tmp_path / f"{k}.parquet", row_group_size=250_000)
    del columns, y
    done = subprocess.run([sys.executable, "-c", PASSES, tmp_path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 600e6  # of 1.3 GB
