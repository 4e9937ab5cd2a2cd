"""Files of strangers: whatever they hold, reading them runs nothing, and none fills the memory.

Model files have tests of their own (tests/persistence/test_hostile.py); here are tables, checkpoints, and the rule that
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
from credibly import BayesianLogisticRegression, Normal, ParquetRows, load
from credibly.cli.reading import ReadOptions, read_batches, read_table
from credibly.cli.reading import stream as streams
from credibly.errors import InputError, ModelFileError, TableError
from persistence.forge import archive_of

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


def checkpoint(header: object, array: bytes | None = None) -> bytes:
    """A checkpoint with this header, and with this for its first array, under a right checksum."""
    contents = [("header.json", json.dumps(header).encode())] + ([] if array is None else [("arrays/0.npy", array)])
    return archive_of(contents, kind="checkpoint")


ONE_PASS = {"about": {}, "passes": [[0, 1]]}
CHECKPOINTS = {
    "a pickle": pickle.dumps,
    "an archive of pickles": npz,
    "a model": lambda bomb: archive_of([("header.json", b"{}")]),
    "an array of objects": lambda bomb: checkpoint(ONE_PASS, npy(bomb)),
    "fewer arrays than it says": lambda bomb: checkpoint(ONE_PASS),
    "passes that are none": lambda bomb: checkpoint({"about": {}, "passes": 5}),
    "a number that is none": lambda bomb: checkpoint({"about": {}, "passes": [["x", 0]]}),
    "more arrays than any memory": lambda bomb: checkpoint({"about": {}, "passes": [[0, 10**15]]}),
    "no passes": lambda bomb: checkpoint({"about": {}}),
    "nothing": lambda bomb: checkpoint([]),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_of_a_stranger_is_refused_and_runs_nothing(tmp_path, bomb, name):
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(CHECKPOINTS[name](bomb))
    before = path.read_bytes()
    tracemalloc.start()
    with pytest.raises(InputError, match="not a checkpoint of a fit, or is damaged"):
        BayesianLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], resume=path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000 and path.read_bytes() == before


# --- codecs ---------------------------------------------------------------------------------------------------------


def test_options_of_reading_reach_no_codec_that_runs_something():
    for name in ("rot13", "base64", "zip", "hex", "idna", "unicode_escape/../x", "os", "\x00"):
        try:
            ReadOptions(encoding=name)
        except TableError:
            continue
        assert name in {"idna"}, name  # a codec of text to text
