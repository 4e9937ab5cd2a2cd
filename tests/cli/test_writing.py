"""Tables that are written: whole or not at all, and the same when they are read."""

import errno
import gzip
import io
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credibly.cli.reading import read_table
from credibly.data.table_files import TableWriter
from credibly.errors import FileWriteError, InputError, TableError

SUFFIXES = ["csv", "csv.gz", "parquet"]
FRAME = pd.DataFrame(
    {
        "prediction": ["yes", 'say "no", or\nnothing', "a;b", " ", None],
        "p_yes": [0.1 + 0.2, 5e-324, 1.7976931348623157e308, math.nan, -0.0],
        "n": [1, 2, 3, 4, 2**62],
        "flag": [True, False, True, True, False],
        'p_"odd", name': pd.Categorical(["u", "v", "u", None, "u"]),
    }
)


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


# --- what is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_in_parts_is_read_back_whole(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    with TableWriter(path) as table:
        table.write(FRAME.iloc[:2])
        table.write(FRAME.iloc[2:])
    frame = read_table(path).frame
    assert list(frame) == list(FRAME) and leftovers(tmp_path) == [f"out.{suffix}"]
    np.testing.assert_array_equal(frame["p_yes"], FRAME["p_yes"])
    assert frame["n"].tolist() == FRAME["n"].tolist() and frame["flag"].tolist() == FRAME["flag"].tolist()
    read = frame["prediction"].tolist()
    assert read[:3] == FRAME["prediction"].tolist()[:3] and pd.isna(read[3]) and pd.isna(read[4])
    assert frame.iloc[:, 4].tolist()[:3] == ["u", "v", "u"] and pd.isna(frame.iloc[3, 4])


@given(numbers=st.lists(st.floats(allow_nan=False), min_size=1, max_size=20), suffix=st.sampled_from(SUFFIXES))
def test_numbers_come_back_to_the_last_bit(tmp_path_factory, numbers, suffix):
    path = tmp_path_factory.mktemp("bits") / f"out.{suffix}"
    with TableWriter(path) as table:
        table.write(pd.DataFrame({"x": numbers, "k": 1}))
    np.testing.assert_array_equal(read_table(path).frame["x"], numbers)


def test_the_same_table_gives_the_same_bytes(tmp_path):
    for name in ("one.csv.gz", "two.csv.gz"):
        with TableWriter(tmp_path / name) as table:
            table.write(FRAME)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()).startswith(b'"prediction","p_yes"')


def test_missing_levels_at_first_do_not_fix_the_type(tmp_path):
    with TableWriter(tmp_path / "out.parquet") as table:
        table.write(pd.DataFrame({"a": [None, None], "b": [1.0, 2.0]}))
        table.write(pd.DataFrame({"a": ["x", "y"], "b": [3, 4]}))
    frame = read_table(tmp_path / "out.parquet").frame
    assert frame["a"].tolist()[2:] == ["x", "y"] and frame["b"].tolist() == [1, 2, 3, 4]


def test_standard_output(capfdbinary):
    with TableWriter("-") as table:
        table.write(pd.DataFrame({"a": [1], "b": ["x"]}))
    assert capfdbinary.readouterr().out == b'"a","b"\n1,"x"\n'


# --- whole or not at all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, FileNotFoundError])
def test_an_interruption_leaves_nothing_and_is_passed_on(tmp_path, suffix, error):
    with pytest.raises(error), TableWriter(tmp_path / f"out.{suffix}") as table:
        table.write(FRAME)
        assert f"out.{suffix}" not in leftovers(tmp_path)
        raise error
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_name_that_is_taken_is_kept_unless_it_may_be_overwritten(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    path.write_text("mine")
    with pytest.raises(InputError, match="exists already"), TableWriter(path) as table:
        table.write(FRAME)
    with pytest.raises(ValueError, match="stop"), TableWriter(path, overwrite=True) as table:
        table.write(FRAME)
        raise ValueError("stop")
    assert path.read_text() == "mine"
    with TableWriter(path, overwrite=True) as table:
        table.write(FRAME)
    assert len(read_table(path).frame) == len(FRAME) and leftovers(tmp_path) == [path.name]


class FullDisk(io.BytesIO):
    """A file on a disk with little space."""

    def write(self, data):
        if self.tell() + len(data) > 2000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_told_in_one_line_and_leaves_nothing(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("pathlib.Path.open", lambda self, mode="r": FullDisk() if mode == "wb" else open(self, mode))
    numbers = pd.DataFrame({"x": np.random.default_rng(0).normal(size=5000)})
    expected = rf"^Cannot write .*out\.{suffix}: No space left on device\. Free some space or choose another place\.$"
    with pytest.raises(FileWriteError, match=expected), TableWriter(tmp_path / f"out.{suffix}") as table:
        for _ in range(20):
            table.write(numbers)
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is Linux's")
def test_a_standard_output_that_is_full_is_told_in_one_line():
    code = (
        "import pandas as pd; from credibly.data.table_files import TableWriter\n"
        "with TableWriter('-') as table: table.write(pd.DataFrame({'a': range(99999)}))"
    )
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert "FileWriteError: Cannot write to standard output: No space left on device." in done.stderr


# --- what cannot be written ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.xlsx", "out", "csv", "out.csv.bz2"])
def test_another_ending_is_refused_before_anything_is_done(tmp_path, name):
    with pytest.raises(TableError, match=r"must end in \.csv, \.csv\.gz or \.parquet"):
        TableWriter(tmp_path / name)
    assert leftovers(tmp_path) == []


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="does not exist"), TableWriter(tmp_path / "no" / "out.csv"):
        pass


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_written_is_no_table(tmp_path, suffix):
    with pytest.raises(TableError, match="Nothing was written"), TableWriter(tmp_path / f"out.{suffix}"):
        pass
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_columns_are_refused(tmp_path, suffix):
    with pytest.raises(TableError, match=r"columns of the first ones \(a\); got b"):
        with TableWriter(tmp_path / f"out.{suffix}") as table:
            table.write(pd.DataFrame({"a": [1]}))
            table.write(pd.DataFrame({"b": [1]}))
    assert leftovers(tmp_path) == []


def test_another_type_is_refused_where_the_format_has_types(tmp_path):
    with pytest.raises(TableError, match="changes its type"), TableWriter(tmp_path / "out.parquet") as table:
        table.write(pd.DataFrame({"a": [1]}))
        table.write(pd.DataFrame({"a": ["x"]}))
    assert leftovers(tmp_path) == []


def test_writing_needs_a_block(tmp_path):
    with pytest.raises(RuntimeError, match="with TableWriter"):
        TableWriter(tmp_path / "out.csv").write(FRAME)
