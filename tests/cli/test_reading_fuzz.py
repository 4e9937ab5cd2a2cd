"""Tables of any content come back as they were; files of any bytes give a table or one clean error."""

import csv
import gzip
import io
import math
import random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credibly.cli.reading import read_batches, read_table
from credibly.cli.reading.header import layout_of
from credibly.cli.reading.options import MISSING, MISSING_AMONG_NUMBERS, ReadOptions
from credibly.cli.reading.records import records
from credibly.cli.reading.source import open_source
from credibly.errors import TableError

# --- what was written is read --------------------------------------------------------------------------------------

# Lone surrogates cannot be written, and a file with many control characters is taken for a binary one.
LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], include_characters="\n\t")
WORDS = st.text(LETTERS, max_size=12).map(str.strip)
TAKEN = {*MISSING, *MISSING_AMONG_NUMBERS, "true", "false"}
TEXT = WORDS.filter(lambda word: word and word not in TAKEN and word.lower() not in TAKEN and not is_number(word))
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))


def is_number(word: str) -> bool:
    """Whether Python takes it for a number; more than the reader does, which is on the safe side here."""
    try:
        float(word)
    except ValueError:
        return False
    return True


@st.composite
def tables(draw):
    """Columns of numbers or of text, with gaps, under names that differ."""
    rows = draw(st.integers(1, 12))
    names = draw(st.lists(TEXT, min_size=2, max_size=5, unique=True).filter(lambda it: not it[0].startswith("Unnamed")))
    kinds = [draw(st.sampled_from([NUMBERS, TEXT])) for _ in names]
    columns = [draw(st.lists(st.none() | kind, min_size=rows, max_size=rows)) for kind in kinds]
    return dict(zip(names, columns, strict=True))


DIALECTS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(",;\t|"),
        "lineterminator": st.sampled_from(["\n", "\r\n", "\r"]),
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    }
).filter(lambda it: it["lineterminator"] != "\r" or it["quoting"] != csv.QUOTE_MINIMAL)  # which leaves "\n" unquoted


def written(table, dialect) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, **dialect)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return file.getvalue()


def same(cell, expected) -> bool:
    if expected is None:
        return bool(pd.isna(cell))
    return cell == expected if isinstance(expected, str) else math.isclose(float(cell), float(expected), rel_tol=0)


@pytest.mark.slow
@given(table=tables(), dialect=DIALECTS, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_every_table_in_every_dialect_is_read_back(tmp_path_factory, table, dialect, encoding):
    path = tmp_path_factory.mktemp("dialect") / "data.csv"
    path.write_bytes(written(table, dialect).encode(encoding))
    frame = read_table(path, options=ReadOptions(delimiter=dialect["delimiter"])).frame
    assert list(frame) == list(table)
    for name, column in table.items():
        if any(isinstance(cell, str) for cell in column):
            assert not pd.api.types.is_numeric_dtype(frame[name].dtype)
        assert all(map(same, frame[name], column)), (name, column, list(frame[name]))


@given(table=tables(), dialect=DIALECTS)
def test_rows_counted_by_hand_are_the_parsers_rows(tmp_path_factory, table, dialect):
    path = tmp_path_factory.mktemp("rows") / "data.csv"
    text = written(table, dialect)
    path.write_bytes(text.encode())
    with open_source(path, ReadOptions(delimiter=dialect["delimiter"])) as source:
        names = layout_of(source).names
    assert names == tuple(table)
    found = list(records(io.StringIO(text, newline=""), dialect["delimiter"]))
    assert len(found) == 1 + len(next(iter(table.values())))
    assert all(record.cells == len(names) and record.closed for record in found)


# --- what is damaged is told ---------------------------------------------------------------------------------------

TOKENS = (
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b";",
    b"\t",
    b'""',
    b"PAR1",
    b"nan",
    b"1e999",
    b"\xef\xbb\xbf",
    b" ",
)


def mutated(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, kind = rng.randrange(len(changed) + 1), rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 1:
            changed[at:at] = rng.choice(TOKENS)
        elif kind == 2:
            del changed[at : at + rng.choice([1, 3, 50])]
        elif kind == 3:
            del changed[at:]
        else:
            changed[at:at] = changed[at : at + rng.choice([1, 10, 200])]
    return bytes(changed)


def sample() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "a": [1, 2, 3, None],
            "b": ["x", "y", 'q"z\n', None],
            "c": [True, False, True, True],
            "d": pd.Categorical(["u", "v", "u", "v"]),
        }
    )
    return pd.concat([frame] * 5, ignore_index=True)


def as_parquet(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


FORMATS = {
    "csv": lambda frame: frame.to_csv(index=False).encode(),
    "gzip": lambda frame: gzip.compress(frame.to_csv(index=False).encode(), mtime=0),
    "utf-16": lambda frame: frame.to_csv(index=False).encode("utf-16"),
    "parquet": as_parquet,
}


def check_mutations(path, kind: str, count: int) -> None:
    content, rng, fine = FORMATS[kind](sample()), random.Random(0), 0
    for _ in range(count):
        path.write_bytes(mutated(content, rng))
        try:
            fine += len(read_table(path).frame) > 0
            list(read_batches(path, types={"a": "number"}))
        except TableError as error:
            assert str(error) and "\n" not in str(error)
    assert 0 < fine < count  # some damage is none, and some is found


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_give_a_table_or_one_clean_error(tmp_path, kind):
    check_mutations(tmp_path / "data", kind, 300)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_files_give_a_table_or_one_clean_error(tmp_path, kind):
    check_mutations(tmp_path / "data", kind, 5000)


@given(content=st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes_give_a_table_or_one_clean_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "data.csv"
    path.write_bytes(content)
    for options in (ReadOptions(), ReadOptions(delimiter=" ", encoding="latin-1", decimal=",")):
        try:
            read_table(path, options=options)
        except TableError as error:
            assert str(error)
