"""Files of strangers: whatever they hold, reading them runs nothing, and none fills the memory.

Model files have tests of their own (tests/persistence/test_malice.py); here are tables, checkpoints, and the rule that
nothing in the library can load a pickle at all.
"""

import ast
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import stat
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import credibly
from credibly import BayesianLogisticRegression, Normal, ParquetRows, load, save
from credibly.cli.reading import ReadOptions, read_batches, read_table
from credibly.cli.reading import stream as streams
from credibly.data.checkpoint import HEAD, NO_PASS, Checkpoint, _packed, _record, _unpacked
from credibly.errors import InputError, ModelFileError, TableError
from persistence.forge import archive_of, edited, members, resealed, written

SRC = Path(credibly.__file__).parent
HERE = "credibly-was-here"


class Bomb(NamedTuple):
    """What a pickle can do to whoever opens it: make a folder."""

    folder: str

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def bomb(tmp_path):
    """A bomb whose folder must not be there when the test ends."""
    folder = tmp_path / HERE
    yield Bomb(str(folder))
    assert not folder.exists(), "the file was obeyed"


def test_the_bomb_is_one(tmp_path):
    pickle.loads(pickle.dumps(Bomb(str(tmp_path / HERE))))
    assert (tmp_path / HERE).is_dir()


# --- the library cannot --------------------------------------------------------------------------------------------

FORBIDDEN = {
    "pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "subprocess", "socket", "urllib", "http", "ftplib",
    "requests", "ctypes", "runpy", "code", "pty",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "breakpoint", "input", "np.load", "numpy.load", "joblib.load",
    "pd.read_pickle", "pd.eval", "os.system", "os.popen", "np.fromfile", "pa.deserialize", "yaml.load",
}  # fmt: skip


def suspicious(source: str) -> list[str]:
    """Imports and calls by which a file, or a text, could become code, or could call home."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [it.name for it in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [name for name in names if name.split(".")[0] in FORBIDDEN]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            pickles = [ast.unparse(it) for it in node.keywords if ast.unparse(it) == "allow_pickle=True"]
            found += [called] * (called in CALLS or called.endswith((".query", ".to_pickle"))) + pickles
    return found


def test_nothing_in_the_library_loads_pickles_evaluates_text_or_opens_connections():
    found = {path.name: them for path in SRC.rglob("*.py") if (them := suspicious(path.read_text(encoding="utf-8")))}
    assert found == {}


def test_the_look_at_the_sources_bites():
    assert suspicious("import pickle") == ["pickle"]
    assert suspicious("from urllib.request import urlopen") == ["urllib.request"]
    assert suspicious("x = eval('1')") == ["eval"]
    assert suspicious("np.save(f, x, allow_pickle=True)") == ["allow_pickle=True"]


# --- tables --------------------------------------------------------------------------------------------------------


def npz(bomb: Bomb) -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.array([bomb], dtype=object), allow_pickle=True)
    return file.getvalue()


def npy(bomb: Bomb) -> bytes:
    file = io.BytesIO()
    np.save(file, np.fromiter([bomb], dtype=object), allow_pickle=True)
    return file.getvalue()


def joblib_file(bomb: Bomb) -> bytes:
    file = io.BytesIO()
    joblib.dump([bomb], file)
    return file.getvalue()


def zipped(bomb: Bomb) -> bytes:
    """As PyTorch keeps weights, and Excel its books."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(bomb))
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return file.getvalue()


def arrow(bomb: Bomb) -> bytes:
    file = io.BytesIO()
    feather.write_feather(pa.table(hostile_schema(bomb)), file, compression="uncompressed")
    return file.getvalue()


def hostile_schema(bomb: Bomb) -> pa.Table:
    """A column of a type that older releases of pyarrow unpickled when a file was opened (CVE-2023-47248)."""
    told = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickle.dumps(bomb)}
    fields = [pa.field("x", pa.float64(), metadata=told), pa.field("label", pa.string())]
    return pa.table([[0.5, 1.5, 2.5, 3.5], ["a", "b", "a", "b"]], schema=pa.schema(fields))


KINDS = {
    "data.pkl": pickle.dumps,
    "data.csv": pickle.dumps,
    "protocol 0.csv": lambda bomb: pickle.dumps(bomb, protocol=0),
    "data.npy": npy,
    "data.npz": npz,
    "data.joblib": joblib_file,
    "data.joblib.z": lambda bomb: zlib.compress(joblib_file(bomb)),
    "data.csv.gz": lambda bomb: gzip.compress(pickle.dumps(bomb)),
    "data.pkl.xz": lambda bomb: lzma.compress(pickle.dumps(bomb)),
    "data.pt": zipped,
    "data.xlsx": zipped,
    "data.feather": arrow,
    "data.h5": lambda bomb: b"\x89HDF\r\n\x1a\n" + pickle.dumps(bomb),
    "data.parquet": lambda bomb: b"PAR1" + pickle.dumps(bomb) + b"PAR1",
}


OLD_PYARROW_SAYS_THAT_IT_REFUSES = pytest.mark.filterwarnings(
    "ignore:pickle-based deserialization:RuntimeWarning", "ignore:pyarrow.PyExtensionType is deprecated:FutureWarning"
)


@OLD_PYARROW_SAYS_THAT_IT_REFUSES
@pytest.mark.parametrize("name", KINDS)
def test_no_file_that_can_hold_code_is_opened_as_a_table_or_as_a_model(tmp_path, bomb, name):
    path = tmp_path / name
    path.write_bytes(KINDS[name](bomb))
    with pytest.raises(TableError):
        read_table(path)
    with pytest.raises(TableError):
        list(read_batches(path))
    with pytest.raises(ModelFileError):
        load(path)


@OLD_PYARROW_SAYS_THAT_IT_REFUSES
def test_a_type_that_is_a_pickle_is_refused_or_read_as_the_numbers_it_stands_for(tmp_path, bomb):
    """Releases of pyarrow that still know the type keep it closed, and then the column is none of ours."""
    path = tmp_path / "data.parquet"
    pq.write_table(hostile_schema(bomb), path)
    try:
        assert read_table(path).frame["x"].tolist() == [0.5, 1.5, 2.5, 3.5]
    except TableError as error:
        assert "no single values" in str(error)
    try:
        model = BayesianLogisticRegression(prior=Normal()).fit(ParquetRows(path, target="label", features=["x"]))
        assert model.classes_.tolist() == ["a", "b"]
    except InputError as error:
        assert "'x'" in str(error)


@pytest.mark.parametrize(
    "told",
    [
        b"[" * 100_000,
        b"\x80\x04",
        json.dumps({"index_columns": ["x"], "columns": [], "column_indexes": []}).encode(),
        json.dumps({"index_columns": [{"kind": "range", "start": 0, "stop": 10**18, "step": 1}]}).encode(),
        json.dumps({"columns": [{"name": "x", "numpy_type": "object", "pandas_type": "unicode"}]}).encode(),
        json.dumps({"columns": [{"name": "x", "numpy_type": "os.system('true')"}], "index_columns": []}).encode(),
    ],
)
def test_what_a_table_says_to_pandas_is_not_listened_to(tmp_path, told):
    table = pa.table({"x": [0.5, 1.5], "label": ["a", "b"]}).replace_schema_metadata({b"pandas": told})
    pq.write_table(table, tmp_path / "data.parquet")
    frame = read_table(tmp_path / "data.parquet").frame
    assert frame["x"].tolist() == [0.5, 1.5] and frame["label"].tolist() == ["a", "b"]


# --- bombs ---------------------------------------------------------------------------------------------------------

PACKS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda it: pa.compress(it, "zstd", asbytes=True),
}


@pytest.mark.parametrize("kind", PACKS)
@pytest.mark.parametrize("content", [b"a,b\n" + b"1,2\n" * 1_500_000, b"a,b\n" + b"\n" * 6_000_000, b"a" * 6_000_000])
def test_what_unpacks_to_hundreds_of_times_its_size_is_refused(tmp_path, monkeypatch, kind, content):
    """Also when it is one long header, or lines without cells. (A quarter of a gigabyte is harmless; here, less.)"""
    monkeypatch.setattr(streams, "HARMLESS", 1 << 19)
    monkeypatch.setattr(streams, "CHUNK", 1 << 18)
    path = tmp_path / "data.csv"
    path.write_bytes(PACKS[kind](content))
    assert len(content) > 300 * path.stat().st_size
    with pytest.raises(TableError, match=r"times its size|header|line"):
        read_table(path)
    with pytest.raises(TableError, match=r"times its size|header|line"):
        list(read_batches(path))


def test_a_table_that_is_packed_well_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "HARMLESS", 1 << 19)
    rng = np.random.default_rng(0)
    sparse = pd.DataFrame((rng.random((20_000, 30)) < 0.01).astype(int), columns=[f"x{i}" for i in range(30)])
    path = tmp_path / "sparse.csv.gz"
    sparse.to_csv(path, index=False)
    unpacked = len(gzip.decompress(path.read_bytes()))
    assert unpacked > 1 << 20
    assert unpacked > 20 * path.stat().st_size  # as good as it gets: 1 cell in 100 is not zero
    assert read_table(path).frame.shape == sparse.shape


# --- checkpoints ---------------------------------------------------------------------------------------------------

ABOUT = {"model": "x", "rows": "y"}


def of(content: bytes, about: bytes | None = None) -> bytes:
    """A checkpoint of one pass, with a right checksum."""
    return _record(NO_PASS, json.dumps(ABOUT).encode() if about is None else about) + _record(0, content)


def told(entries: object, held: bytes = b"") -> bytes:
    """A record that says this of its arrays."""
    return of(json.dumps(entries).encode() + b"\n" + held)


CHECKPOINTS = {
    "a pickle": pickle.dumps,
    "a record that is a pickle": lambda bomb: of(pickle.dumps(bomb)),
    "a record that is an array of objects": lambda bomb: of(npy(bomb)),
    "a record that is an archive of arrays": lambda bomb: of(npz(bomb)),
    "objects": lambda bomb: told([["|O", [1], "C"]], pickle.dumps(bomb)),
    "a type that is code": lambda bomb: told([[f"__import__('os').mkdir('{bomb.folder}')", [1], "C"]]),
    "a type with fields": lambda bomb: told([["f8,f8", [1], "C"]], bytes(16)),
    "an array larger than any memory": lambda bomb: told([["<f8", [10**15], "C"]], bytes(8)),
    "an array of a size that no number holds": lambda bomb: told([["<f8", [10**30], "C"]], bytes(8)),
    "an empty array of such a size": lambda bomb: told([["<f8", [0, 10**30], "C"]]),
    "an array of negative size": lambda bomb: told([["<f8", [-1], "C"]], bytes(8)),
    "an array of a size that is no whole number": lambda bomb: told([["<f8", [1.0], "C"]], bytes(8)),
    "an array of many dimensions": lambda bomb: told([["<f8", [1] * 100, "C"]], bytes(8)),
    "an array in no order": lambda bomb: told([["<f8", [1], "K"]], bytes(8)),
    "more bytes than arrays": lambda bomb: told([["<f8", [1], "C"]], bytes(9)),
    "no list": lambda bomb: told({"<f8": 1}),
    "a list of something else": lambda bomb: told([5]),
    "too few words": lambda bomb: told([["<f8", [1]]], bytes(8)),
    "a record of brackets": lambda bomb: of(b"[" * 200_000),
    "a first record of brackets": lambda bomb: of(b"", b"[" * 200_000),
    "a first record that is no object": lambda bomb: of(b"", b"[1]"),
    "a length beyond the file": lambda bomb: HEAD.pack(NO_PASS, 2**63, 0),
    "nothing but passes": lambda bomb: _record(0, b""),
    "a damaged record": lambda bomb: of(b"abc")[:-1] + b"d",
}  # fmt: skip


def test_what_a_pass_returned_comes_back_as_it_was():
    table = np.arange(6.0).reshape(2, 3)
    given = (1.5, 3, table, np.asfortranarray(table), np.zeros((0, 2)), np.float32(2.0) * np.ones(3, np.float32))
    back = _unpacked(_packed(given))
    for one, other in zip(given, back, strict=True):
        np.testing.assert_array_equal(one, other, strict=isinstance(one, np.ndarray))
        assert other.flags.writeable and np.asarray(one).flags.fnc == other.flags.fnc
    assert _packed((table, "text")) is None and _packed((np.array([{}]),)) is None


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_of_a_stranger_is_refused_and_runs_nothing(tmp_path, bomb, name):
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(CHECKPOINTS[name](bomb))
    before = path.read_bytes()
    tracemalloc.start()
    with pytest.raises(InputError, match="no checkpoint of a fit, or a damaged one"):
        Checkpoint(path, ABOUT).open()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000 and path.read_bytes() == before


# --- model files: what test_malice.py leaves ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.credibly"
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5], [4.0, 1.0], [5.0, 2.0]])
    save(BayesianLogisticRegression(prior=Normal(1.0)).fit(X, [0, 1, 0, 1, 0, 1]), path)
    return path.read_bytes()


def test_a_member_that_says_it_is_a_link_is_followed_nowhere(tmp_path, good):
    """Nothing is extracted, so that a link is at most an array with the wrong bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = b"credibly model 1 sha256 " + b"0" * 64
        for name, content in members(good).items():
            info = zipfile.ZipInfo(name)
            is_array = name.endswith("0.npy")
            info.external_attr = ((stat.S_IFLNK if is_array else stat.S_IFREG) | 0o777) << 16
            archive.writestr(info, b"/etc/passwd" if is_array else content)
    with pytest.raises(ModelFileError, match="not the size"):
        load(written(tmp_path, resealed(out.getvalue())))
    assert [it.name for it in tmp_path.iterdir()] == ["forged.credibly"]


@pytest.mark.parametrize("path", [it for it in ("/dev/zero", "/dev/null", "/dev/random") if os.path.exists(it)])
def test_a_device_is_no_model_and_is_not_read_for_ever(path):
    with pytest.raises(ModelFileError, match="empty"):
        load(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_in_a_header_are_refused(tmp_path, good, number):
    text = members(good)["header.json"].decode()
    assert '"format":1' in text
    forged = text.replace('"format":1', f'"format":{number}', 1).encode()
    with pytest.raises(ModelFileError, match="not the JSON"):
        load(written(tmp_path, archive_of(list((members(good) | {"header.json": forged}).items()))))


def test_a_model_that_claims_a_hostile_name_says_it_and_does_nothing(tmp_path, good, bomb):
    forged = edited(good, lambda whole: whole.update({"class": f"__import__('os').mkdir('{bomb.folder}')"}))
    try:
        assert load(written(tmp_path, forged)).classes_.tolist() == [0, 1]  # what is shown is not what is made
    except ModelFileError:
        pass


def test_options_of_reading_reach_no_codec_that_runs_something():
    for name in ("rot13", "base64", "zip", "hex", "idna", "unicode_escape/../x", "os", "\x00"):
        try:
            ReadOptions(encoding=name)
        except TableError:
            continue
        assert name in {"idna"}, name  # a codec of text to text
