"""Blocks, frames and weights as the compiled code behind `fused` wants them, which trusts the shapes it is given."""

from typing import Protocol

import numpy as np

from credibly.numerics.arrays import AnyArray, Array

NOTHING = np.empty(0)
CODED = "softmax"  # the kind whose targets are class codes


class Rows(Protocol):
    """A block of rows; `Block` of the data room is one."""

    @property
    def X(self) -> AnyArray:
        """(b, d); read where it lies if it is float64 with contiguous rows or columns, else copied to that."""

    @property
    def y(self) -> AnyArray:
        """(b,) targets: labels 0 and 1, counts, or class codes 0 … K-1."""

    @property
    def weight(self) -> Array | None:
        """(b,) weights ≥ 0; None is one everywhere."""

    @property
    def offset(self) -> Array | None:
        """(b,), added to the scores; None is zero everywhere."""


class Frame(Protocol):
    """How a design z = ((x - center) / scale, 1) is made of rows; `Frame` of the inference room is one."""

    @property
    def center(self) -> Array:
        """(d,)."""

    @property
    def scale(self) -> Array:
        """(d,)."""

    @property
    def intercept(self) -> bool:
        """Whether z ends with a one."""


def block_of(kind: str, rows: Rows) -> tuple[Array | tuple[int, int], ...]:
    """The table as one stretch, its steps, targets, weights, and offsets unless targets are codes."""
    X, y, weight, offset = rows.X, rows.y, rows.weight, rows.offset
    beside = {"y": y, "weight": weight, "offset": offset}
    if X.ndim != 2 or any(part is not None and part.shape != X.shape[:1] for part in beside.values()):
        shapes = ", ".join(f"{name} {part.shape}" for name, part in beside.items() if part is not None)
        raise ValueError(f"X {X.shape}, {shapes} are not of one block.")
    weights = as_compiled(NOTHING if weight is None else weight)
    if kind != CODED:
        return *flat(X), as_compiled(y), weights, as_compiled(NOTHING if offset is None else offset)
    if offset is not None:
        raise ValueError("offsets of softmax scores are not known to the kernel.")
    return *flat(X), as_compiled(y, np.int64), weights


def frame_of(d: int, frame: Frame, W: Array) -> tuple[Array, Array, Array]:
    """Centres, scales and weights, of d columns."""
    check_weights(d, frame, W)
    return as_compiled(frame.center), as_compiled(frame.scale), weights_of(W)


def check_weights(d: int, frame: Frame, W: Array) -> None:
    """Refuse a frame and weights that are not those of d columns."""
    if not frame.center.shape == frame.scale.shape == (d,) or W.ndim != 2 or W.shape[1] != d + frame.intercept:
        raise ValueError(
            f"{d} columns, centres {frame.center.shape}, scales {frame.scale.shape} and weights {W.shape} do not fit "
            f"together {'with' if frame.intercept else 'without'} an intercept."
        )


def weights_of(W: Array) -> Array:
    """A matrix for several classes, a vector for one score."""
    return as_compiled(W if len(W) > 1 else W[0])


def flat(X: AnyArray) -> tuple[Array, tuple[int, int]]:
    """The table as one stretch of memory and the steps from row to row and column to column; copied only if need be."""
    (b, d), item = X.shape, 8
    down, across = X.strides
    native = X.dtype == np.float64 and X.flags.aligned and min(down, across) > 0
    if X.flags.c_contiguous or not native or item not in (down, across) or (down | across) % item:
        return as_compiled(X).reshape(-1), (d, 1)
    length = (b - 1) * (down // item) + (d - 1) * (across // item) + 1
    stretch = np.lib.stride_tricks.as_strided(X, (length,), (item,), writeable=False)
    return stretch, (down // item, across // item)


def as_compiled(array: AnyArray, kind: type[np.generic] = np.float64) -> AnyArray:
    """A view of contiguous, aligned numbers that may not be written to: numba compiles once per kind of array."""
    rows = np.ascontiguousarray(array, dtype=kind)
    view = rows.view() if rows.flags.aligned else rows.copy()
    view.flags.writeable = False
    return view
