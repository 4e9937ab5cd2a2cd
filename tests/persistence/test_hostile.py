"""Damaged files, and files made by somebody who means harm: an error of ours or the same predictions; nothing runs."""

import copy
import io
import json
import os
import pickle
import pkgutil
import random
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import credibly
from credibly import BayesianLogisticRegression, Normal, load, save
from credibly.errors import ModelFileError
from credibly.persistence import header
from persistence.cases import CASES
from persistence.forge import Contents, archive_of, contents_of, edited, with_header, written

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5], [4.0, 1.0], [5.0, 2.0]])
LOGISTIC = "credibly.estimators.linear:BayesianLogisticRegression"
PRIOR = "credibly.model.priors:Normal"
STATUS = "credibly.numerics.status:Status"
LARGEST_PEAK = 8_000_000  # bytes of memory: some hundred times the file's 7,000


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model.credibly"
    save(BayesianLogisticRegression(prior=Normal(1.0)).fit(X, [0, 1, 0, 1, 0, 1]), path)
    return path.read_bytes()


# --- what runs while a file is read ---------------------------------------------------------------------------------

FORBIDDEN = {
    *("import", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
    *("os.link", "os.symlink", "os.chmod", "os.truncate", "subprocess.Popen", "shutil.rmtree", "pickle.find_class"),
    *("socket.connect", "ctypes.dlopen", "code.__new__", "builtins.input", "builtins.breakpoint"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
watching: list[list[str]] = []


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    ours = event == "exec" and not sys._getframe(1).f_globals.get("__name__", "").startswith("scipy.")  # its templates
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if event in FORBIDDEN or ours or writes:
        watching[-1].append(f"{event} {arguments!r:.200}")


sys.addaudithook(hook)


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Python itself reports imports, executed code, processes, unpickling, and files that are opened for writing."""
    watching.append([])
    try:
        yield
    finally:
        events = watching.pop()
    assert events == []


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """So that whatever is imported later is imported because of a file."""
    for module in pkgutil.walk_packages(credibly.__path__, "credibly."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for module in ("sklearn.pipeline", "sklearn.preprocessing", "sklearn.gaussian_process.kernels"):
        import_module(module)


def test_the_watch_bites(tmp_path):
    for act in (lambda: os.system("true"), lambda: eval("1"), lambda: (tmp_path / "x").write_text("")):
        with pytest.raises(AssertionError), nothing_runs():
            act()


def outcome(path, data: bytes, expected: np.ndarray | None) -> str:
    """How reading a file ends: "refused" or "loaded", with the expected predictions; all else fails the test."""
    path.write_bytes(data)
    with nothing_runs():
        try:
            header(path)
            model = load(path)
        except ModelFileError as error:
            assert str(error).startswith(f"Cannot load {path}: ") and len(str(error)) < 1000
            return "refused"
    if expected is not None:
        np.testing.assert_array_equal(model.predict_log_proba(X), expected)
    return "loaded"


# --- damage ---------------------------------------------------------------------------------------------------------


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bits flipped, bytes replaced, cut out, put in, repeated or cut off; members exchanged."""
    if rng.randrange(10) == 0:
        return exchanged(rng, data)
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        at, length = rng.randrange(len(out)), rng.choice([1, 2, 4, 30, 300])
        match rng.randrange(8):
            case 0 | 1 | 2:
                out[at] ^= 1 << rng.randrange(8)
            case 3:
                out[at : at + length] = rng.randbytes(length)
            case 4:
                del out[at : at + length]
            case 5:
                out[at:at] = rng.randbytes(length)
            case 6:
                out[at:at] = out[at : at + length]
            case _:
                del out[at:]
        out = out or bytearray(b"\x00")
    return bytes(out)


def exchanged(rng: random.Random, data: bytes) -> bytes:
    """Two members with each other's contents, under the old checksum."""
    contents = contents_of(data)
    one, other = rng.sample(range(len(contents)), 2)
    swapped = list(contents)
    swapped[one], swapped[other] = (contents[one][0], contents[other][1]), (contents[other][0], contents[one][1])
    comments = [zipfile.ZipFile(io.BytesIO(it)).comment for it in (archive_of(swapped), data)]
    return archive_of(swapped).replace(*comments)


def damage(path, good: bytes, times: int) -> None:
    rng, expected = random.Random(0), load(written(path.parent, good)).predict_log_proba(X)
    ends = [outcome(path, damaged(rng, good), expected) for _ in range(times)]
    assert ends.count("refused") > 0.9 * times  # dates and flags of members may change without harm
    assert [it.name for it in path.parent.iterdir()] == [path.name]


def test_two_thousand_damaged_files(tmp_path, good):
    damage(tmp_path / "forged.credibly", good, 2_000)


@pytest.mark.slow
def test_twenty_thousand_damaged_files(tmp_path, good):
    damage(tmp_path / "forged.credibly", good, 20_000)


# --- hostile files by hand: all have a right checksum ---------------------------------------------------------------


class Bomb:
    """What a pickle can do to whoever opens it."""

    def __reduce__(self):
        return os.system, ("touch /tmp/credibly-was-here",)


NAMES = """
    os:system os.system builtins:eval builtins:exec builtins:object builtins:type subprocess:Popen posix:system
    pickle:Unpickler importlib:import_module sys:exit shutil:rmtree pathlib:Path types:FunctionType functools:partial
    ctypes:CDLL numpy:ndarray numpy:load numpy.random:RandomState sklearn.cluster:KMeans sklearn.pipeline:make_pipeline
    sklearn.preprocessing:FunctionTransformer sklearn.preprocessing._data:StandardScaler sklearn.base:BaseEstimator
    scipy.stats:norm joblib:Memory credibly:load credibly.__main__:run credibly.cli.main:app credibly.report:Report
    credibly.persistence.model_file:load credibly.persistence.objects:Decoder credibly.data.parquet:ParquetRows
    credibly.data.checkpoint:Checkpoint credibly.data.rows:OutOfCoreRows credibly.data.rows:MemoryRows
    credibly.data.archive:Archive credibly.model.priors:np credibly.model.priors:finite credibly.model.priors:ArrayLike
    credibly.estimators.linear:Normal credibly.estimators.linear:BayesianLogisticRegression.fit
    credibly.model.likelihoods.base:Likelihood credibly.model.kernels.base:Kernel credibly.inference:posterior
    credibly.model..priors:Normal credibly.model.priors:__name__ credibly.model.priors.Normal credibly.model.priors:
    credibly.modelx.priors:Normal credibly.model.../../os:system credibly.model.__init__:Normal :Normal model
    __class__ 0 credibly.model.priors:Normal\x00 ＣREDIBLY.model.priors:Normal credibly.model.nothing:Normal
"""
CLASSES = [*NAMES.split(), "", " ", "credibly.model.priors:Normal ", "a" * 100_000]

ATTRIBUTES = """
    __class__ __dict__ __reduce__ __init__ __getattr__ __getstate__ __setstate__ __del__ __call__ __sklearn_tags__
    __module__ __doc__ predict predict_proba predict_log_proba fit partial_fit get_params set_params _repr_html_ summary
    log_evidence_ to_arviz coef_.x ø_ 0 a-b lambda:0
"""
FIELDS = [*ATTRIBUTES.split(), "", "a b", "x\n", "x\x00", "predict\n"]

VALUES: list[Any] = [
    *({"distribution": it} for it in (["system", [], {"dict": []}], ["__class__", [], {"dict": []}], ["norm", ["1"]])),
    *({"distribution": it} for it in ([], 5, ["norm", [1, 2, 3, 4], {"dict": []}], [["norm"], [], {"dict": []}])),
    {"distribution": ["norm", [], {"dict": [["seed", 1]]}]},
    {"distribution": ["rv_histogram", [], {"dict": []}]},
    {"distribution": ["norm", [{PRIOR: {}}], {"dict": []}]},
    *({"scalar": it} for it in (["|O", "00" * 8], ["<f8", "00"], ["<f8", "zz"], ["f8,f8", "00" * 16], [], 5)),
    *({"scalar": it} for it in (["<U1000000000", ""], ["<M8[1e9]", "00" * 8], ["<f8", "00" * 8, 1], ["<f8", ""])),
    *({"scalar": [f"__import__('os').system('{it}')", ""]} for it in ("true", "false")),
    *({"float": it} for it in (["1e5"], [5], [], ["nan", "nan"], "nan", [None], [["nan"]], {"a": 1})),
    {"bytes": ["00"]},
    *({"date": it} for it in (["yesterday"], [7], [], "2024-01-01", ["2024-02-30"])),
    {"datetime": ["2024-01-01T00:00:00"]},
    *({"set": it} for it in ([[1]], [{"set": []}], [{"dict": []}], 5, [{"array": 0}], [{"again": 0}], "abc")),
    {"set": [number * (2**61 - 1) for number in range(10_001)]},  # all hash to zero
    {"dict": [[number * (2**61 - 1), 0] for number in range(10_001)]},
    *({"dict": it} for it in ([[[], 2]], 5, [1], [[1]], [[1, 2, 3]], {"a": 1}, [[{"array": 0}, 1]])),
    *({"dict": [[key, 1]]} for key in ({"again": 0}, {"tuple": [{"tuple": [1]}]}, {"tuple": [{"again": 0}] * 2})),
    *({"tuple": it} for it in ({"a": 1}, "abc", 5, None)),
    *({"again": it} for it in (10**6, -1, True, "0", None, 0.0, [], 10**30)),
    *({"array": it} for it in (10**6, -1, True, "0", None, 0.0, [], 10**30)),
    *({"objects": it} for it in ([[2], 1], [[10**18, 10**18]], [[-2], 1], [], ["x", 1], [[1.5], 1], [[0, 2**62]], 5)),
    {"csr_array": [[1, 1], {"array": 0}, {"array": 0}, {"array": 0}]},
    *({"interval": it} for it in ([1, 2], [2, 1, "left"], [[], [], "left"], [1, 2, "sideways"], [{PRIOR: {}}] * 3, 5)),
    *({"timestamp": it} for it in (["now"], [], [{"scalar": ["<f8", "00" * 8]}], 5)),
    *({STATUS: it} for it in ("mro", "__class__", {}, [], None, 5, "converged", {"name": "CONVERGED"})),
    *({PRIOR: it} for it in ([], "x", 5, None, {"predict": 1, "moments": 2}, {"__class__": 1}, {"moments": len("x")})),
    {"sklearn.pipeline:Pipeline": {"steps": [], "transform_input": None, "memory": "/tmp/pickles", "verbose": False}},
    *({"a": 1, "b": 2}, {}, {"tuple": [1], "set": [2]}, {"": 1}, {"eval": "1"}, {"__class__": "x"}),
]  # fmt: skip


def npy(array: np.ndarray, old: bytes = b"", new: bytes = b"", extra: bytes = b"") -> bytes:
    """A .npy file, some bytes of which are replaced."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue().replace(old, new) + extra


def described(text: str, size: int = 48, version: bytes = b"\x01\x00") -> bytes:
    """A .npy file with this text for its header."""
    padded = text.encode("latin1") + b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded + bytes(size)


ARRAYS: list[bytes] = [
    npy(np.array([Bomb()], dtype=object)),
    pickle.dumps(Bomb()),
    *(b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\xff\xff", b"x" * 100),
    npy(np.arange(6.0), extra=b"more"),
    npy(np.arange(6.0))[:-1],
    npy(np.zeros(2, dtype=[("a", float), ("b", float)])),
    *(described(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}") for shape in (
        "(1000000000000,)", "(2**40, 2**40)", "(1099511627776, 1099511627776)", "(-6,)", "(-1, -6)", "(6.0,)", "6",
        "(True,)", "(0, 4611686018427387904)", "(" + "1, " * 30 + ")", "__import__('os').system('true')", "(10**9999,)",
        "[6]")),
    *(described(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (6,), }}") for descr in (
        "'|O'", "'O'", "'|V8'", "'<U0'", "'<U1000000000'", "'f8,f8'", "[('a', '<f8')]", "'<M8[x]'", "'<f3'", "None",
        "''", "('<f8', (1000000000,))", "__import__('os').system('true')", "open('/tmp/credibly-was-here', 'w')")),
    *(described(text) for text in ("", "[]", "{}", "{'descr': '<f8'}", "(" * 110, "{'shape': (6,)}", "lambda: 0")),
    described("{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", version=b"\x02\x00"),
    described("{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", version=b"\x09\x09"),
]  # fmt: skip

HEADERS: list[bytes] = [
    *(b"", b"{", b"[]", b"[1,]", b"null", b"5", b'"text"', b"{}", b"\xff\xfe", b"\x00", b"{'a': 1}", b'["\\'),
    *(b"NaN", b'{"class": NaN}', b"[Infinity]", b"[-Infinity]", b"9" * 30, b"9" * 100_000, b"1e999", b'"\\ud800"'),
    *(b"[" * 100_000, b"[" * 500 + b"]" * 500, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000),
    b'{"class": "x", "versions": {}, "object": 1}',
    b'{"class": "x", "versions": {"credibly": "0"}, "object": ' + b'{"tuple":[' * 50_000 + b"]}" * 50_000 + b"}",
    b'{"class": "x", "versions": {"credibly": "0"}, "object": ' + b"[" * 900 + b"]" * 900 + b"}",
]


def at_object(value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda whole: whole.update(object=value)


def at_field(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda whole: whole["object"][LOGISTIC].update({name: value})


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def archives(good: bytes) -> Iterator[bytes]:
    """Archives whose members are not what they should be."""
    contents: Contents = contents_of(good)
    start = good.index(b"PK\x01\x02")  # of the list of members
    yield from (
        archive_of(it)
        for it in (
            [],
            contents[1:],
            contents[:1],
            contents[:-1],
            [contents[1], contents[0], *contents[2:]],
            [*contents, contents[0]],
            [*contents, contents[-1]],
            [*contents[:-1], ("arrays/99.npy", contents[-1][1])],
        )
    )
    names = ("../evil.npy", "/etc/passwd", "arrays/../../x.npy", "arrays\\0.npy", "C:\\x", "arrays/", "a" * 60_000)
    yield from (archive_of([*contents, (name, b"x")]) for name in names)
    yield from (archive_of(contents, kind) for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    yield archive_of([("header.json", b" " * 50_000_000)], zipfile.ZIP_DEFLATED)
    yield archive_of([("header.json", b"[" + b"1," * 17_000_000 + b"1]")])
    for size in (0xF0000000, 0xFFFFFFFF, 0):
        yield patched(good, start + 20, size.to_bytes(4, "little") * 2)
        yield patched(good, start + 24, size.to_bytes(4, "little"))
    second = good.index(b"PK\x01\x02", start + 4)
    yield patched(good, second + 42, bytes(4))  # the second member where the first is
    yield patched(good, start + 8, b"\x01")  # encrypted
    yield patched(good, start + 10, b"\x63")  # compressed in an unknown way
    yield patched(good, start + 6, b"\xff\xff")  # needs a zip of the future
    yield b"MZ an executable" + good
    yield good + b"more"
    yield good.replace(b"credibly model 1", b"credibly check 1")
    yield good.replace(b"credibly model 1", b"credibly model 9")
    yield pickle.dumps(Bomb()) + good
    yield b"PK\x03\x04" + pickle.dumps(Bomb())


def hostile(good: bytes) -> dict[str, bytes]:
    """Every hostile file, by what it is."""
    contents = contents_of(good)
    found = {f"class {name!r:.40}": edited(good, at_object({name: {"command": "ls"}})) for name in CLASSES}
    found |= {f"class {name!r:.40} inside": edited(good, at_field("random_state", {name: "ls"})) for name in CLASSES}
    found |= {f"field {name!r:.40}": edited(good, at_field(name, "x")) for name in FIELDS}
    found |= {f"value {value!r:.70}": edited(good, at_field("random_state", value)) for value in VALUES}
    found |= {
        f"array {k}": archive_of([contents[0], (contents[1][0], data), *contents[2:]]) for k, data in enumerate(ARRAYS)
    }
    found |= {f"header {text!r:.40} {len(text)}": with_header(good, text) for text in HEADERS}
    return found | {f"archive {k}": data for k, data in enumerate(archives(good))}


def test_hostile_files_are_refused_run_nothing_and_take_no_memory(tmp_path, good):
    path, files = tmp_path / "forged.credibly", hostile(good)
    assert len(files) > 350
    expected = load(written(tmp_path, good)).predict_log_proba(X)
    loaded = set()
    for name, data in files.items():
        tracemalloc.start()
        if outcome(path, data, expected) == "loaded":
            loaded.add(name)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < LARGEST_PEAK + len(data), name
    assert len(loaded) <= 3 and all(it.startswith(("value", "archive")) for it in loaded), loaded  # harmless
    assert [it.name for it in tmp_path.iterdir()] == [path.name] and not os.path.exists("/tmp/credibly-was-here")


def test_a_formula_that_is_code_is_not_run(tmp_path):
    """A formula is text that a model carries out later: what is not a formula is refused then."""
    fitted, path = CASES["formula"](), tmp_path / "model.credibly"
    save(fitted.model, path)
    text = path.read_bytes()
    forged = contents_of(text)[0][1].replace(b"I(length > 6)", b"I(open(6)>6)  "[:13])
    assert forged != contents_of(text)[0][1]
    path.write_bytes(with_header(text, forged))
    with pytest.raises(ValueError), nothing_runs():
        load(path).predict(fitted.X)


# --- random changes of the header, with a right checksum -------------------------------------------------------------


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container inside a tree, with each of its keys."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        found += [(node, key) for key in keys]
        todo += [node[key] for key in keys]
    return found


def changed_header(rng: random.Random, data: bytes) -> bytes:
    """Parts of the header replaced, removed, renamed or exchanged."""
    whole = json.loads(contents_of(data)[0][1])
    for _ in range(rng.choice([1, 1, 2, 5])):
        every = places(whole)
        (node, key), (other, place) = rng.choice(every), rng.choice(every)
        match rng.randrange(5):
            case 0 | 1:
                node[key] = copy.deepcopy(rng.choice([None, 0, -1, 2**63, 0.5, "", "x" * 1000, [], *VALUES]))
            case 2:
                del node[key]
            case 3 if isinstance(node, dict):
                node[rng.choice([*FIELDS, *CLASSES, *map(str, other)])] = node.pop(key)
            case _:
                node[key] = copy.deepcopy(other[place])
    return with_header(data, json.dumps(whole).encode())


@pytest.fixture(scope="module")
def subjects(tmp_path_factory) -> list[bytes]:
    path = tmp_path_factory.mktemp("subjects") / "model"
    found = []
    for name in ("logistic by ep", "NaiveBayes on a mixed frame", "threshold scipy t", "GP by EP", "formula"):
        save(CASES[name]().model, path)
        found.append(path.read_bytes())
    return found


def forge(path, subjects: list[bytes], times: int) -> None:
    rng = random.Random(0)
    ends = [outcome(path, changed_header(rng, rng.choice(subjects)), None) for _ in range(times)]
    assert 0.02 * times < ends.count("loaded") < 0.9 * times


def test_hundreds_of_forged_headers(tmp_path, subjects):
    forge(tmp_path / "forged.credibly", subjects, 400)


@pytest.mark.slow
def test_ten_thousand_forged_headers(tmp_path, subjects):
    forge(tmp_path / "forged.credibly", subjects, 10_000)
