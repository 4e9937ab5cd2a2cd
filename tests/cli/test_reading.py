"""What is read from a table: cells, types, dialects, notes."""

import ast
import bz2
import gzip
import io
import lzma
import math
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import credibly.cli
from credibly.cli.reading import MISSING, ReadOptions, columns_of, read_batches, read_table
from credibly.cli.reading.stream import CHUNK
from credibly.errors import TableError

PLAIN = "age,sex,dose\n31,m,1.5\n28,f,2\n44,m,0.5\n28,f,7\n"


@pytest.fixture
def write(tmp_path):
    """A file with the given content; its path."""

    def write(content, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def cells(path, **options):
    """Columns as lists, missing cells as None."""
    frame = read_table(path, options=ReadOptions(**options)).frame
    return {name: [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame}


EXPECTED = {"age": [31, 28, 44, 28], "sex": ["m", "f", "m", "f"], "dose": [1.5, 2.0, 0.5, 7.0]}


# --- dialects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends_are_seen_from_the_file(write, delimiter, end):
    path = write(PLAIN.replace(",", delimiter).replace("\n", end))
    assert cells(path) == EXPECTED
    assert read_table(path).notes == ()


@pytest.mark.parametrize("word", [":", "space", " "])
def test_another_delimiter_can_be_named(write, word):
    sign = " " if word == "space" else word
    assert cells(write(PLAIN.replace(",", sign)), delimiter=word) == EXPECTED


def test_excels_own_first_line_names_the_delimiter(write):
    assert cells(write("sep=:\r\n" + PLAIN.replace(",", ":"))) == EXPECTED


def zstandard(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_compression_is_seen_from_the_bytes_whatever_the_name(write, pack):
    assert cells(write(pack(PLAIN.encode()), name="data.csv")) == EXPECTED


def test_a_text_that_begins_like_bzip2_is_no_bzip2(write):
    assert list(cells(write("BZh9,b\n1,2\n3,4\n"))) == ["BZh9", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_understood(write, encoding):
    path = write("größe,name\n1,Zoë\n2,İstanbul\n3,Zoë\n", encoding=encoding)
    assert cells(path) == {"größe": [1, 2, 3], "name": ["Zoë", "İstanbul", "Zoë"]}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le", "utf-16-be", "gbk"])
def test_other_encodings_are_named(write, encoding):
    name = "中文" if encoding == "gbk" else "Zoë"
    path = write(f"n,name\n1,{name}\n2,Bob\n", encoding=encoding)
    assert cells(path, encoding=encoding)["name"] == [name, "Bob"]


def test_quoted_cells_hold_delimiters_line_ends_and_quotes(write):
    text = 'n,text\n1,"a, b"\n2,"two\nlines"\n3,"say ""hi"""\n4,""\n'
    assert cells(write(text)) == {"n": [1, 2, 3, 4], "text": ["a, b", "two\nlines", 'say "hi"', None]}


def test_blank_lines_are_no_rows(write):
    assert cells(write("\n\na,b\n\n1,2\n\n\n3,4\n\n")) == {"a": [1, 3], "b": [2, 4]}


def test_a_header_may_have_a_quoted_line_end(write):
    assert cells(write('"first\nname",b\n1,2\n')) == {"first\nname": [1], "b": [2]}


def test_a_row_longer_than_a_block_is_read(write):
    long = "x" * (3 * CHUNK)
    rows = "1,a\n" * (CHUNK // 4)  # so that something has been read before the long row is met
    path = write(f'n,text\n{rows}2,"{long}"\n3,b\n')
    frame = read_table(path).frame
    assert len(frame) == CHUNK // 4 + 2
    assert frame["text"].iloc[-2] == long and frame["n"].iloc[-1] == 3


def test_standard_input_is_read(write, monkeypatch):
    packed = io.BytesIO(gzip.compress(PLAIN.encode()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(packed))
    assert columns_of("-") == list(EXPECTED) and cells("-") == EXPECTED


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are Unix's")
def test_a_pipe_is_read_like_a_file(tmp_path):
    """As in ``credibly fit <(zcat data.csv.gz)``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(PLAIN))
    writer.start()
    assert cells(pipe) == EXPECTED
    writer.join()


# --- types ---------------------------------------------------------------------------------------------------------


def test_types_are_those_of_the_cells(write):
    header = "whole,gap,half,flag,gapflag,word,none,yes\n"
    text = header + "1,1,.5,true,TRUE,a,,yes\n2,NA,2e3,False,,b,,no\n3,3,-1,TRUE,false,a,,yes\n"
    frame = read_table(write(text)).frame
    kinds = ["int64", "float64", "float64", "bool", "object", "category", "float64", "category"]
    assert [str(kind) for kind in frame.dtypes] == kinds
    assert frame["flag"].tolist() == [True, False, True]
    assert frame["gapflag"].tolist() == [True, None, False]
    assert list(frame["word"].cat.categories) == ["a", "b"]
    assert frame["half"].tolist() == [0.5, 2000.0, -1.0]


def test_text_that_hardly_repeats_is_no_category(write):
    frame = read_table(write("id,word\n" + "".join(f"name{i},w{i % 3}\n" for i in range(60)))).frame
    assert str(frame["word"].dtype) == "category" and str(frame["id"].dtype) != "category"
    assert frame["id"].tolist() == [f"name{i}" for i in range(60)]


@pytest.mark.parametrize("marker", [marker for marker in MISSING if marker])
def test_usual_markers_are_missing_cells(write, marker):
    table = read_table(write(f"a,b\n1,x\n{marker},y\n3,{marker}\n4,x\n"))
    assert table.frame["a"].isna().tolist() == [False, True, False, False]
    assert table.frame["b"].isna().tolist() == [False, False, True, False]
    # NaN is a number to the parser, so nobody had to look for it
    assert any(repr(marker) in note for note in table.notes) or marker.lower() == "nan"


@pytest.mark.parametrize("marker", [".", "None"])
def test_some_markers_count_among_numbers_only_and_are_told(write, marker):
    table = read_table(write(f"a,b\n1,x\n{marker},{marker}\n3,y\n4,y\n"))
    assert math.isnan(table.frame["a"][1]) and table.frame["b"][1] == marker
    assert any(note.startswith(f"These cells count as missing: '{marker}' (1), in a") for note in table.notes)
    assert any(note.startswith(f"Column 'b' has '{marker}' as one of its levels") for note in table.notes)


def test_own_markers_may_be_numbers(write):
    path = write("a,b\n-999,1\n2,-999\n-999.0,3\n")
    assert cells(path, missing=(*MISSING, "-999")) == {"a": [None, 2.0, -999.0], "b": [1.0, None, 3.0]}


def test_the_whole_column_decides_and_the_cell_that_spoilt_it_is_told(write):
    rows = 3 * CHUNK // 8  # so that blocks of numbers only come first
    path = write("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(rows)) + "007,n/a?\n0.10,5\n")
    table = read_table(path)
    assert str(table.frame["a"].dtype) == "float64"
    assert table.frame["b"].tolist()[:3] == ["0", "1", "2"] and table.frame["b"].tolist()[-2:] == ["n/a?", "5"]
    (note,) = table.notes
    assert f"1 of {rows + 2} cells is no number: 'n/a?' (line {rows + 2})" in note and "--missing-marker" in note
    assert str(read_table(path, options=ReadOptions(missing=(*MISSING, "n/a?"))).frame["b"].dtype) == "float64"


def test_a_text_column_may_begin_with_missing_cells_only(write):
    rows = CHUNK // 2
    frame = read_table(write("a,b\n" + "1,\n" * rows + "2,x\n")).frame
    assert frame["b"].isna().sum() == rows and frame["b"].iloc[-1] == "x"


def test_a_level_that_is_a_gap_among_numbers_is_kept_when_text_comes_late(write):
    rows = CHUNK // 4
    frame = read_table(write("a,visits\n" + "1,None\n" * rows + "2,One\n")).frame
    assert frame["visits"].value_counts().to_dict() == {"None": rows, "One": 1}


def test_lines_in_notes_count_quoted_line_ends_and_blank_lines(write):
    note = read_table(write('t,n\n"a\nb",1\n\nc,2\nc,x\n')).notes[0]
    assert "'x' (line 6)" in note


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        (["1,5", "2,25", "7"], "--decimal ,"),
        (["1,234,567", "2,000,000", "7"], "thousands separators"),
        (["1,234", "5,678", "7"], "thousands separators (write 1234) or a decimal comma"),
        (["12%", "5 %", "7%"], "leave % and currencies out"),
        (["1", "2", "<0.1"], "limits of what could be measured"),
    ],
)
def test_text_that_looks_like_numbers_is_told_with_advice(write, column, advice):
    table = read_table(write("a;b\n" + "".join(f"{cell};1\n" for cell in column)))
    assert advice in table.notes[0] and table.frame["a"].tolist() == column


def test_limits_that_are_the_levels_of_a_column_are_not_told(write):
    assert read_table(write("a,b\n<= 60,1\n> 60,2\n<= 60,3\n> 60,4\n")).notes == ()


def test_a_decimal_comma_makes_points_no_decimals(write):
    path = write("a;b;c\n1,5;1.500;-2e3\n2,25;3;,5\n")
    assert cells(path, decimal=",") == {"a": [1.5, 2.25], "b": ["1.500", "3"], "c": [-2000.0, 0.5]}


def test_a_value_that_looks_like_a_code_is_told(write):
    text = "a,b,c\n" + "".join(f"{i % 40},{i % 90},{i - 50}\n" for i in range(100)) + "-999,99,-9\n"
    notes = read_table(write(text)).notes
    assert len(notes) == 1  # 99 follows 89, and -9 is one of many
    assert notes[0].startswith("Column 'a' has the value -999 in 1 of 101 cells")


def test_numbers_of_too_many_digits_are_told(write):
    assert "rounded" in read_table(write("id,b\n12345678901234567890,1\n2,1\n")).notes[0]
    assert read_table(write(f"id,b\n{2**62},1\n2,1\n")).frame["id"][0] == 2**62


def test_spaces_around_names_and_cells_are_left_out_and_told(write):
    table = read_table(write(" a ,b\n 1, x\n2,y \n3,x\n"))
    assert list(table.frame) == ["a", "b"] and table.frame["b"].tolist() == ["x", "y", "x"]
    assert table.frame["a"].tolist() == [1, 2, 3]
    assert table.notes == (
        "Spaces around column names were left out: ' a '.",
        "Spaces around cells were left out in b.",
    )


@pytest.mark.parametrize("name", ["", '""', "Unnamed: 0"])
def test_row_names_are_left_out_and_told(write, name):
    path = write(f"{name},a,b\n1,5,6\n2,7,8\n")
    table = read_table(path)
    assert table.frame.to_dict("list") == {"a": [5, 7], "b": [6, 8]}
    assert "taken for row names" in table.notes[0] and columns_of(path) == ["a", "b"]


def test_a_file_without_a_header_is_suspected(write):
    assert "lack a header" in read_table(write("5.1,3.5\n4.9,3.0\n")).notes[0]


def test_columns_are_chosen_in_the_order_asked_for(write):
    assert list(read_table(write(PLAIN), columns=["dose", "age"]).frame) == ["dose", "age"]


def test_given_types_are_kept(write):
    frame = read_table(write(PLAIN), types={"age": "text", "dose": "number"}).frame
    assert frame["age"].tolist() == ["31", "28", "44", "28"] and str(frame["dose"].dtype) == "float64"
    assert str(read_table(write("a,b\ntrue,1\nfalse,2\n"), types={"a": "text"}).frame["a"][0]) == "true"


# --- batches -------------------------------------------------------------------------------------------------------


def big(rows):
    return "n,word,other\n" + "".join(f"{i},w{i % 3},{i}\n" for i in range(rows))


def test_batches_make_up_the_table(write):
    rows = CHUNK // 4
    path = write(big(rows))
    batches = list(read_batches(path, columns=["word", "n"], types={"n": "number"}))
    assert len(batches) > 2
    whole = pd.concat([batch.astype({"word": str}) for batch in batches])
    assert list(whole) == ["word", "n"] and list(whole.index) == list(range(rows))
    np.testing.assert_array_equal(whole["n"], np.arange(rows, dtype=float))
    assert whole["word"].tolist() == [f"w{i % 3}" for i in range(rows)]


def test_a_batch_names_the_line_of_a_cell_that_is_no_number(write):
    rows = CHUNK // 4
    path = write(big(rows) + 'old,w1,"two\nlines"\n\nyoung,w1,0\n')
    with pytest.raises(TableError, match=rf"line {rows + 2}: column 'n' must hold numbers, but the cell is 'old'\. "):
        list(read_batches(path, types={"n": "number"}))
    with pytest.raises(TableError, match=rf"line {rows + 5}: .* is 'young'"):
        list(read_batches(path, types={"n": "number"}, options=ReadOptions(missing=(*MISSING, "old"))))


def test_progress_goes_from_nothing_to_all(write):
    path = write(gzip.compress(big(CHUNK // 4).encode()))
    seen = []
    read_table(path, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2 and all(total == path.stat().st_size for _, total in seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1][0] == path.stat().st_size


def test_an_abandoned_batch_leaves_nothing_open(write):
    batches = read_batches(write(big(CHUNK // 4)))
    next(batches)
    batches.close()  # an open file would be a ResourceWarning, and so an error


# --- Parquet -------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    def parquet(columns, name="data.parquet", **options):
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), tmp_path / name, **options)
        return tmp_path / name

    return parquet


def test_parquet_keeps_its_types(parquet):
    path = parquet(
        {
            "small": pa.array([1, 2, 3], pa.int8()),
            "gap": [1, None, 3],
            "word": [" a", "b", ""],
            "level": pa.array(["u", "v", None]).dictionary_encode(),
            "number level": pa.array([7, 8, 7]).dictionary_encode(),
            "flag": [True, False, True],
            "gapflag": [True, None, False],
            "money": pa.array([1, 2, 3], pa.int64()).cast(pa.decimal128(30, 2)),
            "day": pa.array([0, 1, None], pa.date32()),
            "none": pa.nulls(3),
        }
    )
    frame = read_table(path).frame
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert kinds["day"].startswith("datetime64")
    assert [kinds[name] for name in ("small", "gap", "number level", "flag", "gapflag", "money", "none")] == [
        "int8", "float64", "int64", "bool", "object", "float64", "float64",
    ]  # fmt: skip
    assert frame["word"].isna().tolist() == [False, False, True] and frame["word"][0] == "a"
    assert frame["level"].tolist()[:2] == ["u", "v"] and pd.isna(frame["level"][2])
    assert frame["gapflag"].tolist() == [True, None, False]
    assert columns_of(path)[:2] == ["small", "gap"]


def test_parquet_in_batches_has_the_models_types(parquet):
    n = 200_000
    path = parquet({"n": [str(i) for i in range(n)], "k": list(range(n))}, row_group_size=70_000)
    batches = list(read_batches(path, types={"n": "number", "k": "text"}))
    assert len(batches) > 2
    np.testing.assert_array_equal(pd.concat([batch["n"] for batch in batches]), np.arange(n, dtype=float))
    assert batches[-1]["k"].tolist()[-1] == str(n - 1) and batches[-1].index[-1] == n - 1


def test_own_markers_hold_in_parquet_too(parquet):
    path = parquet({"a": [1, -999, 3], "b": ["x", "gone", "NA"]})
    frame = read_table(path, options=ReadOptions(missing=(*MISSING, "-999", "gone"))).frame
    assert frame["a"].isna().tolist() == [False, True, False]
    assert frame["b"].isna().tolist() == [False, True, False]  # NA is a text here: a missing cell has a sign of its own


def test_row_names_of_pandas_are_left_out_of_parquet(tmp_path):
    pd.DataFrame({"a": [1, 2]}, index=["r", "s"]).to_parquet(tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    assert list(table.frame) == ["a"] and "Row names" in table.notes[0]


# --- the house -----------------------------------------------------------------------------------------------------


def test_heavy_packages_are_imported_when_they_are_used():
    for path in sorted(Path(credibly.cli.__file__).parent.glob("[rw]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in {"pyarrow", "pandas"}], path
