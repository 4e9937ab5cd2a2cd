"""Sums over a table in memory by a compiled kernel, on threads that share its parts without the interpreter."""

import numpy as np

from credibly.data.source import MemoryRows, Rows, Sums, whole_block
from credibly.data.threads import Helpers, default_threads
from credibly.inference.frame import Frame
from credibly.numerics import fused
from credibly.numerics.arrays import Array, Codes

WORTH_SHARING = 200_000  # numbers in a table times classes: below, a pass is done before anybody is awake
PART_NUMBERS = 100_000  # in a part: a tenth of a millisecond, about what threads wait for each other
FEWEST_PARTS, MOST_PARTS = 4, 256
MOST_KEPT = 2_000_000  # numbers in the sums of all parts: 16 megabytes


def part_cuts(n: int, shape: tuple[int, int]) -> Codes | None:
    """Where n rows are cut into parts for weights of this shape; None where the sums of a part are too large."""
    n_weights = shape[0] * shape[1]
    most = MOST_KEPT // n_weights**2
    count = 1 if n * n_weights < WORTH_SHARING else max(FEWEST_PARTS, n * shape[1] // PART_NUMBERS)
    count = min(count, most - most % 2, MOST_PARTS)
    return None if most < FEWEST_PARTS else n * np.arange(count + 1) // count


class SharedTable:
    """A table as a compiled kernel reads it, and the threads that walk over it together."""

    def __init__(self, table: fused.Table, threads: int) -> None:
        self._table, self._helpers = table, Helpers(table, threads)

    @classmethod
    def of(cls, kind: str, rows: Rows, frame: Frame, n_outputs: int) -> "SharedTable | None":
        """Rows that are one table in memory, if the sums of its parts are small enough to be kept."""
        whole, shape = whole_block(rows), (n_outputs, frame.center.size + frame.intercept)
        cuts = part_cuts(rows.n_rows, shape)
        if whole is None or cuts is None or not isinstance(rows, MemoryRows):
            return None
        return cls(fused.Table(kind, whole, frame, cuts, shape), rows.threads or default_threads())

    def sums(self, W: Array) -> Sums:
        """Value, score and information of the weights W, as of `fused.sums`."""
        self._table.ask_sums(W)
        self._helpers.finish()
        total, M = self._table.total, W.size
        return float(total[0]), total[1 : 1 + M], total[1 + M :].reshape(M, M)

    def gradient(self, W: Array) -> Sums:
        """The score alone."""
        self._table.ask_gradient(W)
        self._helpers.finish()
        return (self._table.total,)
