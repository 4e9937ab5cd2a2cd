"""Thousands of damaged and forged files: each gives a ModelFileError, or (with a right checksum) a model.

Blind changes of bytes are found by the checksum, or, where that is made right again, mostly by the archive's own
checks. So half of the forgeries change the parsed header, at random places and to values chosen to hurt, and rebuild
the archive around it: those get as far as the decoder.
"""

import copy
import json
import random
import tracemalloc

import pytest

from credibly.errors import ModelFileError
from credibly.persistence import header, load, save
from credibly.persistence.classes import name_of
from credibly.persistence.table import CLASSES
from persistence.cases import CASES
from persistence.forge import archive_of, members, resealed, written

SUBJECTS = ("logistic by skew", "NaiveBayes on a mixed frame", "threshold scipy t", "GP by EP", "formula", "comparison")

NASTY = [
    None,
    True,
    0,
    -1,
    2**63,
    10**19,
    0.5,
    1e308,
    "",
    "nan",
    "0x",
    "\ud800",
    "x" * 1000,
    [],
    {},
    [[]],
    [None] * 50,
    {"tuple": []},
    {"dict": [[[], 1]]},
    {"set": [{"set": []}]},
    {"float": "inf"},
    {"int": "-0xff"},
    {"array": 0},
    {"array": 1},
    {"again": 0},
    {"again": 3},
    {"objects": [[2, 2], [1, 2, 3, 4]]},
    {"numpy_number": ["<f8", "0000000000000000"]},
    {"numpy_str": 5},
    {"dtype": "<f8"},
    {"slice": [1, 2]},
    {"range": [1, 10**18, 0]},
    {"distribution": ["levy_stable", [1.5], {"dict": []}]},
    {"RandomState": [{"dict": []}, 0, 0.0]},
    {"Generator": {"dict": [["bit_generator", "PCG64"], ["state", {"dict": []}]]}},
    {"csr_array": [[1, 1], [], [], []]},
    {"pandas_Timestamp": [{"numpy_number": ["<M8[ns]", "0000000000000080"]}]},
    {"Decimal": "1e999999999999999999"},
    {"prior.Normal": {}},
    {"kernel.Sum": {"left": 1, "right": 2}},
    {"numerics.Status": "CONVERGED"},
    {"model.Pipeline": {"steps": [], "transform_input": None, "memory": None, "verbose": False}},
]


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits flipped, bytes replaced, cut, inserted, repeated or moved."""
    out, times = bytearray(data), rng.choice([1, 1, 1, 2, 8])
    for _ in range(times):
        at, length = rng.randrange(len(out)), rng.choice([1, 2, 4, 30, 300])
        match rng.randrange(7):
            case 0 | 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at : at + length] = rng.randbytes(length)
            case 3:
                del out[at : at + length]
            case 4:
                out[at:at] = rng.randbytes(length)
            case 5:
                out[at:at] = out[at : at + length]
            case _:
                del out[at:]
        out = out or bytearray(b"\x00")
    return bytes(out)


def places(tree: object) -> list[tuple[object, object]]:
    """Every container inside a tree, with each of its keys."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        pairs = (
            list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
        )
        found += [(node, key) for key, _ in pairs]
        todo += [value for _, value in pairs]
    return found


def changed_header(rng: random.Random, data: bytes) -> bytes:
    """Parts of the header replaced, removed, renamed or exchanged; the archive is made anew around it."""
    contents = members(data)
    whole = json.loads(contents["header.json"])
    for _ in range(rng.choice([1, 1, 2, 5])):
        every = places(whole)
        node, key = rng.choice(every)
        other, place = rng.choice(every)
        match rng.randrange(5):
            case 0 | 1:
                node[key] = copy.deepcopy(rng.choice(NASTY))
            case 2:
                del node[key]
            case 3 if isinstance(node, dict):
                names = [str(key) + "_", "__class__", "__dict__", *CLASSES, *map(str, other)]
                node[rng.choice(names)] = node.pop(key)
            case _:
                node[key] = copy.deepcopy(other[place])
    contents["header.json"] = json.dumps(whole).encode()
    return archive_of(list(contents.items()))


def changed_array(rng: random.Random, data: bytes) -> bytes:
    """Bytes of one array changed; the archive's own checks are made right again."""
    contents = members(data)
    name = rng.choice([it for it in contents if it != "header.json"])
    contents[name] = changed_bytes(rng, contents[name])
    return archive_of(list(contents.items()))


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    path = tmp_path_factory.mktemp("subjects") / "model"
    found = []
    for name in SUBJECTS:
        save(CASES[name]().model, path)
        data = path.read_bytes()
        found.append(data)
        for file in (load, header):
            file(path)  # whatever it imports is imported now
    return found


def outcome(path, data, forged):
    """Whether a file loads; anything but a model or the one error fails the test."""
    path.write_bytes(data)
    try:
        header(path)
        model = load(path)
    except ModelFileError as error:
        assert str(error).startswith(f"Cannot load {path}: ") and len(str(error)) < 1000
        return False
    assert forged, "a damaged file was loaded"
    assert str(name_of(type(model))).startswith("model.")
    return True


def run(folder, subjects, times):
    """So many damaged files, and so many forged ones; how many of the forged ones loaded."""
    rng, path = random.Random(0), written(folder, b"")
    loaded = 0
    for _ in range(times):
        data = rng.choice(subjects)
        damaged = changed_bytes(rng, data)
        if damaged != data:
            outcome(path, damaged, forged=False)
        forge = rng.choice([changed_header, changed_header, changed_array, lambda r, d: resealed(changed_bytes(r, d))])
        loaded += outcome(path, forge(rng, data), forged=True)
    assert [it.name for it in folder.iterdir()] == [path.name]
    return loaded


def test_hundreds_of_damaged_and_forged_files(tmp_path, subjects):
    tracemalloc.start()
    loaded = run(tmp_path, subjects, 200)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Text of a header becomes objects, some thirty bytes for one; subjects with large headers have 30 kB.
    assert peak < 10 * max(map(len, subjects)) + 5_000_000
    assert loaded > 5  # forgeries do get as far as a model


@pytest.mark.slow
def test_ten_thousand_damaged_and_ten_thousand_forged_files(tmp_path, subjects):
    loaded = run(tmp_path, subjects, 10_000)
    assert 250 < loaded < 9_000
