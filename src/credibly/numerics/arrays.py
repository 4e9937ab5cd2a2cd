"""Names for the arrays that travel between the rooms; shapes are written in comments where they are used."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
AnyArray = NDArray[Any]
