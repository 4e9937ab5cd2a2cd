"""Tables are written as they come, and a file has its name only when it is whole."""

import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from credibly import BayesianLogisticRegression
from credibly.data.parquet import ParquetRows
from credibly.data.table_files import GROUP_ROWS, write_table
from credibly.errors import InputError, TableError


def batches(lengths, seed=0):
    rng = np.random.default_rng(seed)
    for n in lengths:
        p = rng.random(n)
        yield {"prediction": np.where(p < 0.5, "no", "yes").astype(object), "p_yes": p, "count": np.arange(n)}


def test_what_is_written_is_read_back_to_the_last_bit(tmp_path):
    path = tmp_path / "out.parquet"
    assert write_table(path, batches([3, 5, 1])) == 9
    got = pq.read_table(path)
    for name in ("prediction", "p_yes", "count"):
        want = np.concatenate([batch[name] for batch in batches([3, 5, 1])])
        assert_array_equal(got[name].to_numpy(), want)
    assert_array_equal(ParquetRows(path, "prediction").map(lambda block: block.X), got.drop(["prediction"]).to_pandas())


def test_csv_where_the_name_says_so(tmp_path):
    path = tmp_path / "out.CSV"
    assert write_table(path, [{"a": np.array([0.1 + 0.2, np.nan])}, {"a": np.array([1.0])}]) == 3
    assert path.read_text() == '"a"\n0.30000000000000004\n\n1\n'


def test_small_batches_share_a_row_group_and_rows_stream(tmp_path):
    """The next batch is asked for when the last is done with: no more are held than a row group takes."""
    made = []

    def source():
        for k, batch in enumerate(batches([GROUP_ROWS // 4] * 9)):
            made.append(k)
            yield batch

    write_table(tmp_path / "out.parquet", source())
    footer = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [footer.row_group(k).num_rows for k in range(3)] == [GROUP_ROWS, GROUP_ROWS, GROUP_ROWS // 4]


def test_a_source_that_fails_leaves_nothing(tmp_path):
    def source():
        yield from batches([GROUP_ROWS, GROUP_ROWS])
        raise KeyboardInterrupt

    for name in ("out.parquet", "out.csv"):
        (tmp_path / name).write_text("before")
        with pytest.raises(KeyboardInterrupt):
            write_table(tmp_path / name, source(), overwrite=True)
        assert (tmp_path / name).read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.parquet"]


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, name):
    """A limit to the size of a file stands for the disk: the system refuses to write in the same way."""
    lines = (
        "import resource, signal, numpy as np\n"
        "from credibly.data.table_files import write_table\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "rng = np.random.default_rng(0)\n"
        f"write_table({str(tmp_path / name)!r}, ({{'p': rng.random(200_000)}} for _ in range(3)))\n"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert f"FileWriteError: Cannot write {tmp_path / name}: File too large. Free some space" in done.stderr
    assert os.listdir(tmp_path) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000


BAD = {
    "another ending": ("out.txt", [{"a": np.ones(1)}], "must end in .csv, .csv.gz or .parquet"),
    "nothing": ("out.parquet", [], "no rows"),
    "other columns": ("out.parquet", [{"a": np.ones(1)}, {"b": np.ones(1)}], r"columns of the first ones \(a\)"),
    "another type": ("out.parquet", [{"a": np.ones(1)}, {"a": np.array(["x"], dtype=object)}], "changes its type"),
    "other lengths": ("out.parquet", [{"a": np.ones(1), "b": np.ones(2)}], "the same length"),
}


@pytest.mark.parametrize(("name", "tables", "message"), BAD.values(), ids=BAD.keys())
def test_tables_that_cannot_be_written(tmp_path, name, tables, message):
    with pytest.raises(TableError, match=message):
        write_table(tmp_path / name, tables)
    assert os.listdir(tmp_path) == []


def test_names_that_cannot_be_written_to(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        write_table(tmp_path / "nowhere" / "out.parquet", batches([1]))
    write_table(tmp_path / "out.parquet", batches([1]))
    with pytest.raises(InputError, match="exists already"):
        write_table(tmp_path / "out.parquet", batches([1]))


def test_predictions_are_not_written_over_the_file_that_they_are_made_from(tmp_path):
    path = tmp_path / "rows.parquet"
    write_table(path, [{"x": np.arange(4.0), "y": np.array([0, 0, 1, 1])}])
    model = BayesianLogisticRegression().fit(ParquetRows(path, target="y"))
    with pytest.raises(InputError, match=r"rows\.parquet"):
        model.predict_to(ParquetRows(path, features=["x"]), path, overwrite=True)
    assert pq.read_table(path).column_names == ["x", "y"]
