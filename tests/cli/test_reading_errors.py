"""Every way in which a file can be no table, and what is said then."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import re
import sys
import zipfile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from credibly.cli.reading import ReadOptions, columns_of, read_batches, read_table
from credibly.errors import TableError


@pytest.fixture
def refused(tmp_path):
    """What is said of a file with the given content; always one line that names the file."""

    def refused(content, name="data.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(TableError) as caught:
            read_table(path, options=ReadOptions(**options))
        message = str(caught.value)
        assert "\n" not in message and str(path) in message
        with pytest.raises(TableError, match=re.escape(message)):
            list(read_batches(path, options=ReadOptions(**options)))
        return message.replace(str(path), "FILE")

    return refused


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_file_that_does_not_exist(tmp_path):
    (tmp_path / "patients.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"There is no file .*patient\.csv\. Did you mean patients\.csv\?"):
        read_table(tmp_path / "patient.csv")
    with pytest.raises(TableError, match=r"The folder .*nowhere does not exist either\."):
        read_table(tmp_path / "nowhere" / "patients.csv")
    with pytest.raises(TableError, match="Download the table first"):
        columns_of("https://example.org/data.csv")


def test_a_folder(tmp_path):
    (tmp_path / "patients.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=rf"is a folder\. Give a file in it, such as {tmp_path}/patients\.csv\."):
        read_table(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(TableError, match="may not be read by this user"):
        read_table(path)


def test_a_file_that_may_not_be_read_even_by_root(tmp_path, monkeypatch):
    def forbidden(self, *args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", forbidden)
    with pytest.raises(TableError, match=r"may not be read by this user\. Change its permissions"):
        read_table(tmp_path / "data.csv")


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"\xef\xbb\xbf", b"\xff\xfe", gzip.compress(b"", mtime=0)])
def test_an_empty_file(refused, content):
    assert refused(content).startswith("FILE is empty")


def test_empty_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(TableError, match=r"^standard input is empty"):
        read_table("-")


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\n\n\n"])
def test_only_a_header(refused, content):
    assert refused(content) == "FILE has a header but no rows below it."


def excel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr("xl/workbook.xml", "<workbook/>")
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("data.csv", "a,b\n1,2\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (excel(), "is an Excel workbook (.xlsx). Open it in its program and save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is an old Excel workbook (.xls)"),
        (archive(), "is a zip archive. Unpack it"),
        (b"%PDF-1.7\n%\xe2\xe3", "is a PDF document."),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "is a picture."),
        (b"\xff\xd8\xff\xe0" + bytes(99), "is a picture."),
        (pickle.dumps({"a": 1}), "is a Python pickle, which is never opened because that runs its code."),
        (gzip.compress(pickle.dumps([1, 2])), "is a Python pickle"),
        (gzip.compress(b"X\n\0\0\0\3" + bytes(99)), "is an R data file."),
        (b"SQLite format 3\0" + bytes(99), "is an SQLite database."),
        (b"\n<!DOCTYPE html><html>", "is a web page. Was it a download that failed?"),
        (b'[{"a": 1}]', "is a JSON file."),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (gzip.compress(b"\0" * 257 + b"ustar\x0000"), "is a tar archive."),
        (gzip.compress(gzip.compress(b"a,b\n1,2\n")), "is compressed twice."),
        (bytes(range(256)) * 20, "is a binary file, not a table."),
        (
            "a,b\n1,2\n".encode("utf-16-le"),
            "looks like UTF-16 without a byte-order mark. Name the encoding: --encoding utf-16-le.",
        ),
        ("a,b\n1,2\n".encode("utf-16-be"), "--encoding utf-16-be."),
    ],
    ids=lambda it: it if isinstance(it, str) else "file",
)
def test_other_kinds_of_files(refused, content, kind):
    assert kind in refused(content)


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, lambda it: pa.compress(it, codec="zstd", asbytes=True)]
)
def test_a_compressed_file_that_is_cut_off(refused, pack):
    whole = pack(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(50_000)))
    assert "cut off" in refused(whole[: len(whole) // 2])


def test_a_compressed_file_that_is_damaged(refused):
    whole = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 5000))
    whole[-6] ^= 1  # the checksum
    assert refused(bytes(whole)).startswith("FILE is compressed with gzip and is damaged (CRC check failed")


# --- text ----------------------------------------------------------------------------------------------------------


def test_the_wrong_encoding(refused):
    message = refused("a,b\nx,1\nGöteborg,2\n".encode("latin-1"))
    assert message.startswith("FILE, line 3: byte 0xf6 is not UTF-8 (invalid")
    assert message.endswith("Name the encoding of the file, such as --encoding latin-1 or --encoding cp1252.")


def test_the_wrong_encoding_far_into_the_file(refused):
    rows = 1_000_000
    message = refused(b"a,b\n" + b"x,1\n" * rows + "ö,2\n".encode("latin-1"))
    assert message.startswith(f"FILE, line {rows + 2}: byte 0xf6 is not UTF-8")


def test_a_named_encoding_that_is_wrong(refused):
    assert "byte 0x81 is not CP1252" in refused(b"a,b\n\x81,1\n", encoding="cp1252")
    assert "--encoding utf-8 or --encoding latin-1" in refused(b"a,b\n\x81,1\n", encoding="cp1252")


def test_nul_bytes(refused):
    assert refused(b"a,b\n" + b"1,2\n" * 50 + b"1,\0\n").startswith("FILE, line 52: a NUL byte.")


# --- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2\n1,2,3\n", "line 3: 3 cells, but the header has 2 (separated by ','). A cell that contains ',' must"),
        ("1,2\n5\n", "line 3: 1 cell, but the header has 2 (separated by ','). Complete the row"),
        ('1,"x\ny"\n\n5\n', "line 5: 1 cell,"),
        ("1,2,3\n4,5,6\n", "line 2: 3 cells, but the header has 2 (separated by ','). Does the header lack the name"),
        ('1,"x\n2,y"\n"3\n4",5,6\n', "line 4: 3 cells, but the header has 2 (separated by ','). The row goes on to"),
        ('1,2\n3,"4\n5,6\n7,8\n', "line 3: a quote is opened in this row and never closed; the row would go on to"),
        ('1,2\n"3,4\n5,6\n', "line 3: a quote is opened in this row and never closed"),
        ('5,"6', "line 2: a quote is opened in this row and never closed"),
        ('1, "a,b"\n', "line 2: 3 cells, but"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_the_header(refused, rows, message):
    assert message in refused("a,b\n" + rows)


def test_a_ragged_row_far_into_the_file(refused):
    rows = 400_000
    assert f"line {rows + 2}: 3 cells" in refused("a,b\n" + "1,2\n" * rows + "1,2,3\n" + "1,2\n" * rows)


def test_a_quote_that_is_part_of_a_cell_is_no_error(tmp_path):
    (tmp_path / "data.csv").write_text('pipe,n\n5" wide,1\n6",2\n')
    assert read_table(tmp_path / "data.csv").frame["pipe"].tolist() == ['5" wide', '6"']


# --- columns -------------------------------------------------------------------------------------------------------


def test_one_column(refused):
    assert refused("abc\n1\n2\n") == (
        "FILE has one column only ('abc'), taking ',' for the delimiter. If there are more, name it with --delimiter."
    )
    assert refused("a b\n1 2\n3 4\n").endswith("It seems to be a space: give --delimiter ' '.")
    assert refused("a;b\n1;2\n3;4\n", delimiter="|").endswith("It seems to be ';': give --delimiter ';'.")


def test_one_column_is_enough_if_it_is_the_one_asked_for(tmp_path):
    (tmp_path / "data.csv").write_text("abc\n1\n2\n")
    assert read_table(tmp_path / "data.csv", columns=["abc"]).frame["abc"].tolist() == [1, 2]


def test_columns_that_are_not_there(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("age,sex,dose\n1,m,2\n")
    with pytest.raises(TableError) as caught:
        read_table(path, columns=["Age", "dose", "weigth"])
    assert str(caught.value) == (
        f"{path} has no 2 of the columns asked for: 'Age' (is 'age' meant?), 'weigth'. Its columns: age, sex, dose."
    )
    with pytest.raises(TableError, match=r"has no column 'sexx' \(is 'sex' meant\?\)\."):
        next(read_batches(path, columns=["sexx"]))


def test_columns_without_a_name(refused):
    assert (
        refused("a,,c,\n1,2,3,4\n")
        == "Columns 2, 4 have no name in the header of FILE (4 columns). Name or delete what is there."
    )
    assert refused("a,b,\n1,2,\n").startswith("Column 3 has no name")
    assert "only column" in refused('""\n1\n')


def test_columns_of_the_same_name(refused):
    assert refused("a,b,a ,b,c\n1,2,3,4,5\n") == (
        "Column names must differ; FILE has 'a' (2 times), 'b' (2 times). Rename them."
    )
    assert "lack a header?" in refused("1,2,2\n3,4,5\n")


def test_too_many_columns(refused):
    names = [f"c{i}" for i in range(100_001)]
    assert refused(",".join(names) + "\n").startswith("FILE has 100001 columns, more than 100000.")


def test_a_quote_left_open_in_the_header(refused):
    assert refused('"a,b\n1,2\n') == "FILE, line 1: a quote in the header is never closed."


# --- what is asked for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_a_delimiter_that_cannot_be_one(delimiter):
    with pytest.raises(TableError, match="must be one ASCII character"):
        ReadOptions(delimiter=delimiter)


@pytest.mark.parametrize("encoding", ["utf-9", "base64", "rot13", "\0"])
def test_an_encoding_that_is_none(encoding):
    with pytest.raises(TableError, match="There is no text encoding"):
        ReadOptions(encoding=encoding)


def test_a_decimal_sign_that_is_none():
    with pytest.raises(TableError, match=r"must be '\.' or ','; got '-'"):
        ReadOptions(decimal="-")


def test_types_and_columns_that_make_no_sense(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"'number', 'text'; got \{'a': 'date'\}"):
        read_table(tmp_path / "data.csv", types={"a": "date"})
    with pytest.raises(TableError, match="No column was asked for"):
        read_table(tmp_path / "data.csv", columns=[])
    with pytest.raises(TypeError, match="must be a list of names"):
        read_table(tmp_path / "data.csv", columns="ab")


def test_a_cell_that_must_be_a_number(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n.,3\nNA,5\n1e,4\n")
    with pytest.raises(TableError, match=r"line 5: column 'a' must hold numbers, but the cell is '1e'\. Correct it"):
        read_table(tmp_path / "data.csv", types={"a": "number"})


# --- Parquet -------------------------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path):
    """A Parquet file of four row groups with checksums, as bytes."""
    table = pa.table({"a": list(range(4000)), "b": [f"x{i}" for i in range(4000)]})
    pq.write_table(table, tmp_path / "whole.parquet", row_group_size=1000, write_page_checksum=True)
    return (tmp_path / "whole.parquet").read_bytes()


def test_parquet_that_is_cut_off(refused, whole):
    message = refused(whole[: len(whole) // 2], name="data.parquet")
    assert message.startswith("FILE is not a Parquet file, or is truncated or damaged: its footer")


def test_parquet_that_is_damaged_names_the_file(refused, whole, tmp_path):
    third = pq.ParquetFile(tmp_path / "whole.parquet").metadata.row_group(2)
    broken = bytearray(whole)
    broken[third.column(0).data_page_offset + 400] ^= 0xFF
    assert refused(bytes(broken), name="data.parquet").startswith("FILE is damaged or cut off (")


def test_parquet_with_nested_columns(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": [1], "l": [[1, 2]], "s": [{"x": 1}], "raw": [b"\0"]}), path)
    with pytest.raises(TableError) as caught:
        read_table(path)
    assert (
        "'l' (list<" in str(caught.value)
        and "'s' (struct<" in str(caught.value)
        and "'raw' (binary)" in str(caught.value)
    )
    assert read_table(path, columns=["a"]).frame["a"].tolist() == [1]
    assert columns_of(path) == ["a", "l", "s", "raw"]


def test_parquet_without_rows_or_columns(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(TableError, match=r"has columns but no rows\."):
        read_table(path)
    pd.DataFrame(index=range(3)).to_parquet(path)
    with pytest.raises(TableError, match=r"has no columns\."):
        read_table(path)


def test_parquet_with_columns_of_the_same_name(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a "]), path)
    with pytest.raises(TableError, match=r"has 'a' \(2 times\)"):
        read_table(path)


def test_a_parquet_cell_that_must_be_a_number(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": ["1", None, "two"]}), path)
    with pytest.raises(TableError, match="row 3: column 'a' must hold numbers, but the cell is 'two'"):
        list(read_batches(path, types={"a": "number"}))


def test_compressed_parquet(refused, whole):
    assert "is a compressed Parquet file. Unpack it first" in refused(gzip.compress(whole), name="data.parquet.gz")
