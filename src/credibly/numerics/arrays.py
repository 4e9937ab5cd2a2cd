"""Names for the arrays that travel between the rooms, and blocks of their rows.

Shapes are written in comments where the names are used.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credibly.numerics.settings import BLOCK_SIZES

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
AnyArray = NDArray[Any]


def row_blocks(n_rows: int, per_row: int, numbers: int = BLOCK_SIZES.temporaries) -> Iterator[slice]:
    """Slices of rows whose temporaries, of `per_row` numbers for each row, have at most `numbers` numbers.

    Examples
    --------
    >>> [(it.start, it.stop) for it in row_blocks(5, 10, numbers=25)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, numbers // max(per_row, 1))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
