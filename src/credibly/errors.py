"""Every exception and warning that credibly raises, as one tree.

::

    CrediblyError
    ├── InputError (also ValueError)          the data or an argument cannot be used as given
    │   ├── SeparationError                   no maximum-likelihood estimate exists: classes are separated
    │   ├── CollinearityError                 no unique maximum-likelihood estimate: columns are collinear
    │   ├── SingularPriorError (also NotPositiveDefinite)   a prior in data units that vanishes beside the columns
    │   ├── NewClassError                     a label that the model was not built for
    │   ├── NoModeError                       a density has no mode where it was looked for: flat, a saddle, unbounded
    │   ├── CellTypeError (also TypeError)    a cell that is neither a number nor a category
    │   ├── FileWriteError (also OSError)     a file cannot be written: its disk is full, its folder is read-only
    │   ├── TableError                        a file, a table or a formula that does not give rows and columns
    │   └── ModelFileError                    a file that holds no model, a damaged one, or one of a newer release
    ├── NotPositiveDefinite (also ValueError, ArithmeticError)   a matrix that must be positive definite is not
    └── NotDefinedError (also AttributeError) the quantity does not exist for this model
        ├── NoRowsError (also InputError)     … any more: it needs the rows of the fit, and a saved model holds none
        └── NoEvidenceError               … as the evidence of a flat prior
            └── ImproperPriorError (also InputError)   … which a comparison by evidence was asked for

    ConvergenceWarning (scikit-learn's)       an iteration ended without reaching its goal
    DataWarning                               the data were used, but not quite as they came
    UnreliableWarning                         a corrected number was read that its own check does not support

A message says what was expected, what came, and what to change.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "CellTypeError",
    "CollinearityError",
    "ConvergenceWarning",
    "CrediblyError",
    "DataWarning",
    "FileWriteError",
    "ImproperPriorError",
    "InputError",
    "ModelFileError",
    "NewClassError",
    "NoEvidenceError",
    "NoModeError",
    "NoRowsError",
    "NotDefinedError",
    "NotPositiveDefinite",
    "SeparationError",
    "SingularPriorError",
    "TableError",
    "UnreliableWarning",
]


class CrediblyError(Exception):
    """The root of every error raised by credibly."""


class InputError(CrediblyError, ValueError):
    """The data or an argument cannot be used as given."""


class SeparationError(InputError):
    """The classes are separated, so the maximum-likelihood estimate is infinite."""


class CollinearityError(InputError):
    """Columns are linearly dependent, so the maximum-likelihood estimate is not unique."""


class NewClassError(InputError):
    """A label appeared that was not among the classes of the first fit."""


class NoModeError(InputError):
    """A density has no mode where one was looked for: it is flat there, unbounded, or has a saddle.

    `direction` is the unit vector (M,) along which, in unbounded coordinates; None where there is none to tell.
    """

    def __init__(self, message: str, direction: NDArray[np.float64] | None = None):
        super().__init__(message)
        self.direction = direction


class FileWriteError(InputError, OSError):
    """A file cannot be written: the disk is full, the folder is read-only, and the like."""


class TableError(InputError):
    """A file, a table or a formula does not give the rows and columns that a model needs."""


class ModelFileError(InputError):
    """A file holds no model, a damaged one, or one that a newer release has written."""


class CellTypeError(InputError, TypeError):
    """A cell of a table is neither a number nor something that can be a category."""


class NotPositiveDefinite(CrediblyError, ValueError, ArithmeticError):
    """A matrix that must be positive definite is not."""


class SingularPriorError(InputError, NotPositiveDefinite):
    """A prior in the units of the data is numerically singular beside the columns."""


class NotDefinedError(CrediblyError, AttributeError):
    """The quantity does not exist for this model: slopes where log odds are not linear, say."""


class NoRowsError(NotDefinedError, InputError):
    """A quantity needs the rows of the fit, which a model that was saved, copied or updated does not hold."""


class NoEvidenceError(NotDefinedError):
    """There is no evidence, or nothing that follows from it: the prior is not a distribution."""


class ImproperPriorError(InputError, NoEvidenceError):
    """A model without a proper prior was to be ranked by its evidence."""


class DataWarning(UserWarning):
    """The data were used, but not quite as they came."""


class UnreliableWarning(UserWarning):
    """A corrected number was read although its own check says not to rely on it."""
