"""Whether two objects are made of the same parts, numbers bit by bit."""

import copy
from enum import Enum
from typing import Any

import numpy as np

from credibly.persistence.classes import fields_of, name_of


def same(left: Any, right: Any, path: str, seen: set[tuple[int, int]]) -> None:
    """Assert it; `path` says where, `seen` has the pairs that were compared already."""
    if left is right or (id(left), id(right)) in seen:
        return
    seen.add((id(left), id(right)))
    assert type(left) is type(right), path
    if name_of(type(left)) is not None and not isinstance(left, Enum):
        left, right = fields_of(left), fields_of(right)
    if isinstance(left, np.ndarray):
        same_arrays(left, right, path, seen)
    elif isinstance(left, dict):
        assert list(left) == list(right), path
        for key in left:
            same(left[key], right[key], f"{path}[{key!r}]", seen)
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), path
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            same(one, other, f"{path}[{i}]", seen)
    else:
        same_single(left, right, path)


def same_arrays(left: Any, right: Any, path: str, seen: set[tuple[int, int]]) -> None:
    assert left.dtype == right.dtype and left.shape == right.shape, path
    assert left.flags.f_contiguous == right.flags.f_contiguous or not left.flags.forc, path
    if left.dtype == object:
        same(left.reshape(-1).tolist(), right.reshape(-1).tolist(), path, seen)
    else:
        assert left.tobytes() == right.tobytes(), path


def same_single(left: Any, right: Any, path: str) -> None:
    if type(left) is float and left != left:  # noqa: PLR0124 — NaN, of which there are many; a file keeps that it is one
        assert right != right, path  # noqa: PLR0124
    elif isinstance(left, np.random.RandomState | np.random.Generator):
        left, right = copy.deepcopy(left), copy.deepcopy(right)
        assert left.normal(size=5).tolist() == right.normal(size=5).tolist(), path
    elif hasattr(left, "dist"):
        assert (left.dist.name, left.args, left.kwds) == (right.dist.name, right.args, right.kwds), path
    elif isinstance(left, float | np.generic) and not isinstance(left, str | bytes):
        assert np.asarray(left).dtype == np.asarray(right).dtype, path
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes(), path
    else:
        assert left == right, path
