"""Files that are missing, damaged, different or changed, and columns that are of no use, are told as such."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from credibly.data import memory
from credibly.data.categories import MOST_LEVELS
from credibly.data.parquet import ParquetRows
from credibly.errors import InputError, TableError

N = 400


def written(path, changes=None, *, drop=(), **how):
    columns = {"a": np.arange(float(N)), "b": np.arange(N) % 7, "y": np.arange(N) % 2} | (changes or {})
    pq.write_table(
        pa.table({k: v for k, v in columns.items() if k not in drop}), path, **({"row_group_size": 100} | how)
    )
    return path


def total(rows):
    return rows.sum(lambda block: (block.X.sum(),), lambda a, b: (a[0] + b[0],))


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.parquet", "No such file: .*missing.parquet"),
        ("*.nothing", r"No file matches .*\*.nothing"),
        ("empty", "The folder .*empty holds no .parquet files"),
    ],
)
def test_no_files(tmp_path, path, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match=message):
        ParquetRows(tmp_path / path, "y")


def test_paths_that_are_none(tmp_path):
    with pytest.raises(TableError, match="empty list"):
        ParquetRows([], "y")
    with pytest.raises(InputError, match="Expected a path"):
        ParquetRows([3], "y")
    with pytest.raises(TableError, match=r"s3://bucket/a.parquet is an address; .* read it with Dask"):
        ParquetRows("s3://bucket/a.parquet", "y")
    path = written(tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"a.parquet is given twice"):
        ParquetRows([path, str(tmp_path / "*.parquet")], "y")


def test_rows_without_rows(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.float64()), "y": pa.array([], pa.int8())}), tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"no rows: '.*a.parquet'"):
        ParquetRows(tmp_path, "y")


def test_files_without_rows_are_passed_over(tmp_path):
    written(tmp_path / "b.parquet")
    pq.write_table(pq.read_table(tmp_path / "b.parquet")[:0], tmp_path / "a.parquet")
    assert ParquetRows(tmp_path, "y").map(lambda block: block.y).tolist() == [k % 2 for k in range(N)]


def test_a_column_that_one_file_lacks(tmp_path):
    written(tmp_path / "1.parquet")
    written(tmp_path / "2.parquet", drop=("b",))
    with pytest.raises(TableError, match=r"2.parquet has no column 'b'\. It has 'a', 'y'"):
        ParquetRows(tmp_path, "y")


@pytest.mark.parametrize("column", ["a", "b", "y"])
def test_a_column_that_has_another_type_in_one_file(tmp_path, column):
    written(tmp_path / "1.parquet")
    written(tmp_path / "2.parquet", {column: np.array(["text"] * N, dtype=object)})
    kind = "double" if column == "a" else "int64"
    message = rf"'{column}' has another type in .*2.parquet than in .*1.parquet: string instead of {kind}"
    with pytest.raises(TableError, match=message):
        ParquetRows(tmp_path, "y")


def test_columns_that_are_not_used_may_differ(tmp_path):
    written(tmp_path / "1.parquet", {"more": np.zeros(N)})
    written(tmp_path / "2.parquet")
    assert ParquetRows(tmp_path, "y", ["a", "b"]).n_rows == 2 * N


def test_something_else_than_a_parquet_file(tmp_path):
    (tmp_path / "a.parquet").write_text("a,y\n1,2\n")
    with pytest.raises(TableError, match=r"a.parquet is not a Parquet file, or is truncated or damaged"):
        ParquetRows(tmp_path, "y")


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_a_truncated_file(tmp_path, keep):
    path = written(tmp_path / "cut.parquet")
    size = path.stat().st_size
    os.truncate(path, keep if isinstance(keep, int) else int(size * keep))
    with pytest.raises(TableError, match=r"cut.parquet is not a Parquet file, or is truncated or damaged: its footer"):
        ParquetRows(tmp_path, "y")


def damaged(path, group):
    """A byte of the data of one row group turned over."""
    values = {"a": np.random.default_rng(0).normal(size=N)}
    written(path, values, write_page_checksum=True, compression="none", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    at = column.data_page_offset + column.total_compressed_size // 2
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 255]))


DAMAGED = r"bad.parquet is damaged or cut off"


@pytest.mark.parametrize("batch_rows", [100, 250, None])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_damaged_page_names_the_file(tmp_path, batch_rows, threads):
    written(tmp_path / "a.parquet")
    damaged(tmp_path / "bad.parquet", 2)
    rows = ParquetRows(tmp_path, "y", batch_rows=batch_rows).on_threads(threads)
    with pytest.raises(TableError, match=DAMAGED):
        total(rows)
    with pytest.raises(TableError, match=DAMAGED):
        rows.sample(np.random.default_rng(0), 200)
    with pytest.raises(TableError, match=DAMAGED):
        list(rows.batches(np.random.default_rng(0), 10))


def test_a_page_that_cannot_be_decoded_names_the_file(tmp_path):
    path = written(tmp_path / "bad.parquet", {"a": np.random.default_rng(0).normal(size=N)}, compression="gzip")
    column = pq.ParquetFile(path).metadata.row_group(3).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(content))
    with pytest.raises(TableError, match=DAMAGED):
        total(ParquetRows(path, "y", batch_rows=100))


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for year, last in (("2020", 1.0), ("2021", -1.0)):
        (tmp_path / f"year={year}").mkdir()
        written(tmp_path / f"year={year}" / "part-0.parquet", {"w": np.append(np.ones(N - 1), last)})
    rows = ParquetRows("year=*/part-0.parquet", "y", ["a"], weight="w")
    with pytest.raises(InputError, match=r"^year=2021/part-0.parquet: the weight"):
        total(rows)


def test_a_file_that_changes_between_passes(tmp_path):
    path = written(tmp_path / "a.parquet")
    rows = ParquetRows(path, "y")
    total(rows)
    written(path, {"a": np.ones(N)})
    os.utime(path, ns=(0, 0))
    with pytest.raises(TableError, match=r"a.parquet has changed since it was first read"):
        total(rows)


def test_a_file_that_is_truncated_between_passes(tmp_path):
    path = written(tmp_path / "a.parquet")
    rows = ParquetRows(path, "y")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(TableError, match=r"a.parquet has changed since it was first read"):
        total(rows)


def test_a_file_that_disappears(tmp_path):
    path = written(tmp_path / "a.parquet")
    rows = ParquetRows(path, "y")
    path.unlink()
    with pytest.raises(TableError, match=r"a.parquet can no longer be read"):
        total(rows)


def test_a_file_that_is_copied_back_unchanged_is_the_same(tmp_path):
    path = written(tmp_path / "a.parquet")
    rows = ParquetRows(path, "y")
    first = total(rows)
    shutil.copy2(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    assert total(rows) == first


# --- columns --------------------------------------------------------------------------------------------------------

BAD_CHOICES = {
    "a target that is not there": ({"target": "yy"}, "has no column 'yy'. Did you mean 'y'"),
    "a feature that is not there": ({"features": ["a", "c"]}, "has no column 'c'"),
    "a feature twice": ({"features": ["a", "a"]}, "more than once among the features: 'a'"),
    "a target among features": (
        {"features": ["a", "y"]},
        "one role: feature, target, weight or offset; 'y' has several",
    ),
    "a weight that is the target": ({"weight": "y"}, "target, weight or offset; 'y' has several"),
    "features that are one string": ({"features": "a"}, "features must be a list"),
    "no features": ({"features": []}, "No features"),
    "categories that are one string": ({"categories": "b"}, 'categories must be "auto", a list'),
    "a category that is no feature": ({"features": ["a"], "categories": ["b"]}, "must be features; 'b' is not"),
    "no rows at a time": ({"batch_rows": 0}, "batch_rows must be a positive number"),
}


@pytest.mark.parametrize(("choices", "message"), BAD_CHOICES.values(), ids=BAD_CHOICES.keys())
def test_choices_that_cannot_be(tmp_path, choices, message):
    written(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        ParquetRows(**({"path": tmp_path, "target": "y"} | choices))


def test_text_is_refused_where_there_are_to_be_no_categories(tmp_path):
    written(tmp_path / "a.parquet", {"c": np.array(["u", "v"] * (N // 2), dtype=object)})
    for categories in (None, ()):
        with pytest.raises(TableError, match="'c' holds text"):
            ParquetRows(tmp_path, "y", categories=categories)


@pytest.mark.parametrize(
    "column",
    [pa.array([[1.0]] * N), pa.array([{"k": 1}] * N), pa.array([0] * N, pa.date32()), pa.nulls(N)],
    ids=["lists", "structures", "dates", "nothing"],
)
def test_columns_that_are_neither_numbers_nor_categories(tmp_path, column):
    written(tmp_path / "a.parquet", {"c": column})
    with pytest.raises(TableError, match=r"Column 'c' .* is neither a number nor a category"):
        ParquetRows(tmp_path, "y")
    assert ParquetRows(tmp_path, "y", ["a"]).names == ["a"]


def test_roles_that_a_column_cannot_have(tmp_path):
    text = np.array(["u", "v"] * (N // 2), dtype=object)
    written(tmp_path / "a.parquet", {"c": text, "l": pa.array([[1.0]] * N)})
    with pytest.raises(TableError, match=r"'c' .* cannot be the weight"):
        ParquetRows(tmp_path, "y", ["a"], weight="c")
    with pytest.raises(TableError, match=r"'c' .* cannot be the offset"):
        ParquetRows(tmp_path, "y", ["a"], offset="c")
    with pytest.raises(TableError, match=r"'l' .* cannot be the target"):
        ParquetRows(tmp_path, "l", ["a"])


def test_a_category_of_too_many_levels(tmp_path):
    levels = np.array([f"name {k}" for k in range(MOST_LEVELS + 1)], dtype=object)
    for at in (slice(0, MOST_LEVELS), slice(MOST_LEVELS, None)):
        n = len(levels[at])
        pq.write_table(pa.table({"c": levels[at], "y": np.zeros(n)}), tmp_path / f"{at.start}.parquet")
    with pytest.raises(TableError, match=rf"'c' has more than {MOST_LEVELS} levels \(up to .*{MOST_LEVELS}.parquet\),"):
        _ = ParquetRows(tmp_path, "y").names
    assert len(ParquetRows(tmp_path / "0.parquet", "y").names) == MOST_LEVELS


def test_a_category_without_levels(tmp_path):
    written(tmp_path / "a.parquet", {"c": pa.array([None] * N, pa.string())})
    with pytest.raises(TableError, match="'c' is a category without levels"):
        _ = ParquetRows(tmp_path, "y").names


@pytest.mark.parametrize("batch_rows", [30, 250, None])
@pytest.mark.parametrize(("bad", "told"), [(-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf"), (None, "nan")])
def test_a_weight_that_is_none_is_named(tmp_path, bad, told, batch_rows):
    weight = pa.array([1.0] * 357 + [bad] + [1.0] * (N - 358))
    written(tmp_path / "a.parquet", {"w": weight})
    rows = ParquetRows(tmp_path, "y", weight="w", batch_rows=batch_rows)
    place = rf"{tmp_path / 'a.parquet'}: the weight in column 'w' is {told} in row 357 of the file"
    with pytest.raises(InputError, match=place):
        total(rows)


def test_an_offset_that_is_none_is_named(tmp_path):
    written(tmp_path / "a.parquet", {"o": pa.array([-1.0] * (N - 1) + [None])})
    with pytest.raises(InputError, match=r"a.parquet: the offset in column 'o' is nan .* must be finite"):
        total(ParquetRows(tmp_path, "y", offset="o"))


def test_row_names_of_pandas_are_no_features(tmp_path):
    written(tmp_path / "a.parquet", {"__index_level_0__": np.arange(N)})
    assert ParquetRows(tmp_path, "y").names == ["a", "b"]


def test_names_with_dots_and_signs(tmp_path):
    written(tmp_path / "a.parquet", {"a.b": np.ones(N), "b=c": np.ones(N)})
    rows = ParquetRows(tmp_path, "y", ["b=c", "a.b"])
    assert total(rows) == (2.0 * N,)
    assert rows.aligned(["a.b", "b=c"]).names == ["a.b", "b=c"]


def test_row_groups_that_do_not_fit_into_memory_are_refused_with_what_to_do(tmp_path, monkeypatch):
    """Their data are in memory as a whole."""
    pq.write_table(
        pa.table({"x": np.zeros(5_000_000), "y": np.zeros(5_000_000)}), tmp_path / "a.parquet", row_group_size=5_000_000
    )
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    with pytest.raises(InputError, match=r"row groups of 5,000,000 rows.*row_group_size=500_000"):
        ParquetRows(tmp_path, "y")
