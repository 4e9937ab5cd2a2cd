"""Files made by somebody who means harm, with a right checksum: nothing runs, nothing grows, nothing is written."""

import builtins
import io
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_array

from credibly import BayesianLogisticRegression, Normal
from credibly.errors import ModelFileError
from credibly.persistence import header, load, save
from credibly.persistence.codecs import check_hashed
from credibly.persistence.tree import Encoder
from persistence.forge import DIGITS, SEAL, archive_of, edited, members, resealed, with_header, written

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5], [4.0, 1.0], [5.0, 2.0]])
Y = np.array([0, 1, 0, 1, 0, 1])


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.credibly"
    save(BayesianLogisticRegression(prior=Normal(1.0)).fit(X, Y), path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """That a file is refused, that nothing is imported or evaluated meanwhile, and that no file appears."""

    def check(data, match=None):
        path = written(tmp_path, data)
        load_everything_first()
        modules, files = set(sys.modules), sorted(tmp_path.iterdir())

        def forbidden(*args, **_options):
            raise AssertionError(f"this ran: {args!r:.200}")

        with monkeypatch.context() as patch:
            for module, name in (
                (pickle, "loads"),
                (pickle, "load"),
                (os, "system"),
                (builtins, "eval"),
                (builtins, "exec"),
            ):
                patch.setattr(module, name, forbidden)
            with pytest.raises(ModelFileError, match=match):
                load(path)
        assert set(sys.modules) == modules and sorted(tmp_path.iterdir()) == files

    return check


def load_everything_first():
    from credibly.persistence.classes import class_named
    from credibly.persistence.table import CLASSES

    for name in CLASSES:
        class_named(name)


class Bomb:
    """What a pickle can do to whoever opens it."""

    def __reduce__(self):
        return os.system, ("touch /tmp/credibly-was-here",)


# --- code --------------------------------------------------------------------------------------------------------


def test_a_pickle_is_not_opened(refused):
    refused(pickle.dumps(Bomb()), "pickle")
    assert not os.path.exists("/tmp/credibly-was-here")


def test_a_pickle_with_a_seal_is_not_opened(refused):
    refused(resealed(pickle.dumps(Bomb()) + SEAL + b"0" * DIGITS), "archive")


def test_an_array_that_is_a_pickle_is_not_opened(refused, good):
    file = io.BytesIO()
    np.save(file, np.array([Bomb()], dtype=object), allow_pickle=True)
    contents = members(good)
    contents["arrays/0.npy"] = file.getvalue()
    refused(archive_of(list(contents.items())), "not the size")

    def describe(whole):
        whole["arrays"][0] = ["|O", [1], "C"]

    refused(edited(archive_of(list(contents.items())), describe), "type '|O'")


def test_an_array_whose_own_header_is_code_is_not_read(refused, good):
    contents = members(good)
    array = contents["arrays/0.npy"]
    assert b"'descr'" in array
    contents["arrays/0.npy"] = array.replace(b"{'descr': '<", b"{open('/t'): '")[: len(array)]
    refused(archive_of(list(contents.items())), "not what the header says|size")


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "os.system",
        "builtins.eval",
        "subprocess.Popen",
        "credibly.persistence.files:load",
        "model",
        "",
        "__class__",
        "model.BayesianLogisticRegression.__init__",
        "prior.Normal\x00",
        "sklearn.cluster.KMeans",
    ],
)
def test_only_classes_of_the_table_are_made(refused, good, name):
    def put(whole):
        whole["object"] = {name: {"command": "touch /tmp/credibly-was-here"}}

    refused(edited(good, put), "does not know")

    def put_inside(whole):
        whole["object"]["model.BayesianLogisticRegression"]["prior"] = {name: "ls"}

    refused(edited(good, put_inside), "does not know")


@pytest.mark.parametrize(
    "field",
    [
        "__class__",
        "__dict__",
        "__reduce__",
        "__init__",
        "__getattr__",
        "predict",
        "predict_proba",
        "fit",
        "get_params",
        "_repr_html_",
        "log_evidence_",
        "coef_.x",
        "a b",
        "",
        "ø_",
    ],
)
def test_fields_that_would_hide_something_are_refused(refused, good, field):
    def put(whole):
        whole["object"]["model.BayesianLogisticRegression"][field] = "x"

    refused(edited(good, put), "has no field")


def test_fields_of_dataclasses_are_exactly_theirs(refused, good):
    def more(whole):
        whole["object"]["model.BayesianLogisticRegression"]["posterior_"]["posterior.WeightPosterior"]["matrix"] = 1

    def fewer(whole):
        frame = whole["object"]["model.BayesianLogisticRegression"]["posterior_"]["posterior.WeightPosterior"]["frame"]
        del frame["posterior.Frame"]["intercept"]

    refused(edited(good, more), "no field 'matrix'")
    refused(edited(good, fewer), "lacks its field 'intercept'")


@pytest.mark.parametrize("intercept", [-3, 5, 1.0, None, "yes", [True]])
def test_a_flag_that_is_no_flag_is_refused(refused, good, intercept):
    """Compiled code relies on lengths to which it adds."""

    def put(whole):
        frame = whole["object"]["model.BayesianLogisticRegression"]["posterior_"]["posterior.WeightPosterior"]["frame"]
        frame["posterior.Frame"]["intercept"] = intercept

    refused(edited(good, put), "neither True nor False")


def test_a_pipeline_cannot_bring_a_folder_of_pickles(refused, good):
    def put(whole):
        steps = [{"tuple": ["model", whole["object"]]}]
        fields = {"steps": steps, "transform_input": None, "memory": "/tmp/pickles", "verbose": False}
        whole["object"] = {"model.Pipeline": fields}

    refused(edited(good, put), "memory of a Pipeline")


@pytest.mark.parametrize(
    "value",
    [
        {"distribution": ["system", [], {"dict": []}]},
        {"distribution": ["rv_histogram", [], {"dict": []}]},
        {"distribution": ["__class__", [], {"dict": []}]},
        {"distribution": ["norm", ["1"], {"dict": []}]},
        {"distribution": ["norm", [], {"dict": [["seed", 1]]}]},
        {"distribution": ["norm", [1, 2, 3, 4], {"dict": []}]},
        {"dtype": "O"},
        {"dtype": "|O"},
        {"dtype": "f8,f8"},
        {"dtype": "datetime64[1e9]"},
        {"numpy_number": ["<f8", "00"]},
        {"numpy_number": ["|O", "0000000000000000"]},
        {"numerics.Status": "mro"},
        {"numerics.Status": {}},
        {"float": "1e5"},
        {"int": "9" * 5000},
        {"int": 5},
        {"set": [[1]]},
        {"set": [1, 1]},
        {"dict": [[1, 2], [1, 3]]},
        {"dict": [[[], 2]]},
        {"dict": 5},
        {"tuple": {"a": 1}},
        {"tuple": "abc"},
        {"again": 10**6},
        {"again": -1},
        {"again": True},
        {"array": 10**6},
        {"array": -1},
        {"array": "0"},
        {"objects": [[2], [1]]},
        {"objects": [[10**18, 10**18], []]},
        {"objects": [[-1], []]},
        {"strings": [[1], [5]]},
        {"date": "yesterday"},
        {"date": 7},
        {"timedelta": [10**12, 0, 0]},
        {"Decimal": [1]},
        {"Fraction": [1, 0]},
        {"range": ["a"]},
        {"pandas_Interval": [1, 2]},
        {"pandas_Interval": [2, 1, "left"]},
        {"pandas_Timestamp": ["now"]},
        {"a": 1, "b": 2},
        {},
    ],
)
def test_values_that_make_no_sense_are_one_error(refused, good, value):
    def put(whole):
        whole["object"]["model.BayesianLogisticRegression"]["random_state"] = value

    refused(edited(good, put))


# --- memory ------------------------------------------------------------------------------------------------------


def test_a_zip_bomb_is_not_unpacked(refused, good):
    contents = members(good)
    contents["header.json"] = contents["header.json"][:-1] + b" " * 50_000_000 + b"}"
    bomb = archive_of(list(contents.items()), zipfile.ZIP_DEFLATED)
    assert len(bomb) < 200_000
    tracemalloc.start()
    refused(bomb, "compressed")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_a_size_that_the_archive_does_not_have_takes_no_memory(refused, good):
    """The list of members says a terabyte; the file has six thousand bytes."""
    data = bytearray(good)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        start = archive.start_dir
    entry = data.index(b"PK\x01\x02", start)
    for at in (entry + 20, entry + 24):  # compressed and real size
        data[at : at + 4] = (0xF0000000).to_bytes(4, "little")
    refused(resealed(bytes(data)))


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        (["<f8", [10**15], "C"], "not the size"),
        (["<f8", [2**40, 2**40], "C"], "not the size"),
        (["<f8", [0, 2**62], "C"], "not the size"),
        (["<f8", [2**64], "C"], "shape"),
        (["<f8", [-1], "C"], "shape"),
        (["<f8", [1.0], "C"], "shape"),
        (["<f8", [True], "C"], "shape"),
        (["<f8", [1] * 100, "C"], "shape"),
        (["<f8", 3, "C"], "shape"),
        (["<U0", [10**15], "C"], "type"),
        (["|V8", [3], "C"], "type"),
        (["O", [3], "C"], "type"),
        ([[["a", "<f8"]], [3], "C"], "type"),
        (["<M8[x]", [3], "C"], "unknown on this machine"),
        (["<f8", [3], "K"], "order"),
        (["<f8", [3]], "described"),
        ("<f8", "described"),
        (None, "described"),
    ],
)
def test_an_array_of_impossible_size_or_type_takes_no_memory(refused, good, entry, match):
    def put(whole):
        whole["arrays"][0] = entry

    tracemalloc.start()
    refused(edited(good, put), match)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_an_empty_array_with_a_huge_dimension_takes_no_memory(tmp_path, good):
    """Zero rows of many columns: nothing to allocate, whether or not NumPy can make such an array."""
    from credibly.persistence.npy import Stored

    stored = Stored("<f8", (0, 2**62), False)

    def put(whole):
        whole["arrays"].append(stored.entry())
        whole["object"]["model.BayesianLogisticRegression"]["zzz_"] = {"array": len(whole["arrays"]) - 1}

    whole = json.loads(members(good)["header.json"])
    put(whole)
    contents = [*members(good).items(), (f"arrays/{len(whole['arrays']) - 1}.npy", stored.preamble)]
    contents[0] = ("header.json", json.dumps(whole).encode())
    path = written(tmp_path, archive_of(contents))
    tracemalloc.start()
    try:
        assert load(path).zzz_.size == 0
    except ModelFileError:
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_deep_nesting_does_not_end_the_stack(refused, good):
    deep = b"[" * 200_000 + b"]" * 200_000
    text = members(good)["header.json"]
    refused(with_header(good, text[:-1] + b',"x":' + deep + b"}"), "levels deep")
    refused(with_header(good, b'{"x":' * 100_000), "levels deep")


def test_a_header_that_is_too_large_is_not_parsed(refused, good, monkeypatch):
    monkeypatch.setattr("credibly.persistence.container.MOST_HEADER", 1000)
    refused(good, "more than 1000 bytes")


# --- members -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../evil.npy", "/etc/passwd", "arrays/../../x.npy", "arrays\\0.npy", "C:\\x", "header.json"]
)
def test_other_names_are_refused_and_nothing_is_extracted(refused, good, name):
    refused(archive_of([*members(good).items(), (name, b"x")]), "members")


def test_members_missing_renamed_or_in_another_order(refused, good):
    contents = list(members(good).items())
    refused(archive_of(contents[1:]), "members")
    refused(archive_of([contents[1], contents[0], *contents[2:]]), "members")
    refused(archive_of([*contents[:-1], ("arrays/99.npy", contents[-1][1])]), "members")
    refused(archive_of(contents[:-1]), "arrays that its header lists")
    refused(
        archive_of([*contents, (f"arrays/{len(contents) - 1}.npy", contents[-1][1])]), "arrays that its header lists"
    )
    refused(archive_of([]), "members")


def test_members_that_overlap_are_refused(refused, good):
    """A quine of a zip: many entries that share one place would make little file much memory."""
    data = bytearray(good)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        offsets = [it.header_offset for it in archive.infolist()]
        start = archive.start_dir
    second = data.index(b"PK\x01\x02", start + 4)
    third = data.index(b"PK\x01\x02", second + 4)
    data[third + 42 : third + 46] = offsets[1].to_bytes(4, "little")
    refused(resealed(bytes(data)), "not where|archive")


def test_bytes_between_members_are_refused(refused, good):
    refused(resealed(b"MZ executable" + good), "not where|archive")


def test_an_encrypted_member_is_refused(refused, good):
    data = bytearray(good)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        start = archive.start_dir
    data[start + 8] |= 1
    refused(resealed(bytes(data)), "encrypted")


def test_arrays_that_nobody_uses_are_refused(refused, good):
    def drop(whole):
        whole["object"]["model.BayesianLogisticRegression"]["classes_"] = [0, 1]

    refused(edited(good, drop), "in order|no object has")


# --- what compiled code would not check --------------------------------------------------------------------------


def put_random_state(good, value):
    """A file whose model has a value for random_state that only the encoder could have written."""
    encoder = Encoder()
    encoded = encoder.encode(value, "x")
    contents, stored = members(good), len(members(good)) - 1
    whole = json.loads(contents["header.json"])
    fields = whole["object"]["model.BayesianLogisticRegression"]
    from credibly.persistence.npy import Stored, write

    for array in encoder.arrays:
        file = io.BytesIO()
        write(file, array, Stored.of(array))
        contents[f"arrays/{len(contents) - 1}.npy"] = file.getvalue()
        whole["arrays"].append(Stored.of(array).entry())
    text = json.dumps(encoded)
    for k in reversed(range(len(encoder.arrays))):
        text = text.replace(f'{{"array": {k}}}', f'{{"array": {k + stored}}}')
    fields["zzz_"] = json.loads(text)  # comes last, so that arrays are used in order
    contents["header.json"] = json.dumps(whole).encode()
    return archive_of(list(contents.items()))


def test_the_helper_makes_files_that_load(tmp_path, good):
    rng = np.random.RandomState(5)
    back = load(written(tmp_path, put_random_state(good, rng))).zzz_
    assert back.randint(1000, size=5).tolist() == rng.randint(1000, size=5).tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [('"pos", 624', '"pos", 625'), ('"pos", 624', '"pos", -1'), ('"pos", 624', '"pos", 1000000'), ("MT19937", "Evil")],
)
def test_positions_outside_a_generators_buffer_are_refused(refused, good, old, new):
    data = put_random_state(good, np.random.RandomState(5))
    text = members(data)["header.json"].decode()
    assert old in text
    refused(with_header(data, text.replace(old, new).encode()))


def test_positions_outside_philox_buffer_are_refused(refused, good):
    data = put_random_state(good, np.random.Generator(np.random.Philox(1)))
    text = members(data)["header.json"].decode()
    assert '"buffer_pos", 4' in text
    refused(with_header(data, text.replace('"buffer_pos", 4', '"buffer_pos", 4000').encode()), "out of range")


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([0, 9], [0, 1, 2]),
        ([0, -1], [0, 1, 2]),
        ([0, 1], [0, 5, 2]),
        ([0, 1], [0, 2, 1]),
        ([0, 1], [1, 1, 2]),
        ([0, 1], [0, 2]),
    ],
)
def test_sparse_rows_that_point_outside_are_refused(refused, good, indices, indptr):
    rows = csr_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
    rows.indices, rows.indptr = np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)
    refused(put_random_state(good, rows), "point outside")


# --- in a process of its own -------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from credibly.persistence import load
from credibly.persistence.classes import class_named
from credibly.persistence.table import CLASSES
from credibly.errors import ModelFileError
for name in CLASSES:
    class_named(name)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
for path in sys.argv[1:]:
    try:
        load(path)
    except ModelFileError as error:
        print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are set as Linux does")
def test_a_process_with_little_memory_survives_them_all(tmp_path, good):
    bombs = {
        "deflated": archive_of([("header.json", b" " * 400_000_000)], zipfile.ZIP_DEFLATED),
        "huge": edited(good, lambda whole: whole["arrays"].__setitem__(0, ["<f8", [10**12], "C"])),
        "deep": with_header(good, b"[" * 3_000_000),
    }
    paths = []
    for name, data in bombs.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, paths)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(bombs)


def test_headers_are_read_with_the_same_care(tmp_path, good):
    for data in (archive_of([("header.json", b"x")]), with_header(good, b"[" * 100_000), with_header(good, b"[]")):
        with pytest.raises(ModelFileError):
            header(written(tmp_path, data))


def test_keys_that_would_be_hashed_for_ever_are_refused():
    nested: tuple = (1,)
    for _ in range(60):
        nested = (nested, nested)
    with pytest.raises(ModelFileError, match="nested too deeply"):
        check_hashed([nested])
    check_hashed([(1, (2, 3)), "a", frozenset({1})])
