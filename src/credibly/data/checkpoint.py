"""A fit that was stopped goes on where it was: what every pass over the rows returned is written to a file.

A fit is a fixed sequence of passes, each of which returns a few numbers, a vector and a matrix. So the state of an
optimizer need not be known: a fit that starts again is handed the recorded results, without a look at the rows, until
the record ends, and computes from there on. The file is one archive of arrays, replaced as a whole after every pass.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from credibly.data.archive import STORABLE, read_archive, write_archive
from credibly.data.files import check_name, write_errors, written_whole
from credibly.data.rows import OutOfCoreRows, Result, Rows
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray

NOT_WRITTEN = (
    " Passes that are recorded there stay so: with space, the same call of fit goes on after them. Without resume= a "
    "fit writes nothing."
)


class Checkpoint:
    """The results of passes in the order in which a fit makes them, and the file that holds them.

    Parameters
    ----------
    path : str or Path
        Read when it exists, replaced after every pass.
    about : mapping
        What the fit is of, but for the rows, as JSON can hold it; a file that says otherwise is refused.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = Path(path), dict(about)
        self._results: dict[int, tuple[AnyArray, ...]] = {}
        self._number = 0  # of the next pass
        self._begun_here = False  # whether this fit has begun the file

    def record(self, rows: Rows) -> Rows:
        """The same rows, whose sums are looked up first. The first rows given are those that the fit is of."""
        if "rows" not in self.about:
            self.about["rows"] = fingerprint(rows)
            check_name(self.path, overwrite=True)
            self._begun_here = not self.path.exists()
            if not self._begun_here:
                self._results = self._read()
        return rows.recorded(self.result_of)

    def delete(self) -> None:
        """The fit is done: the record is not needed any more."""
        self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """The fit was refused: a record that it has begun would be in the way of the next."""
        if self._begun_here:
            self.delete()

    def result_of(self, work: Callable[[], Result]) -> Result:
        """The recorded result of the next pass, or else that of the work, which is then recorded.

        Only a plain tuple of numbers and arrays is; any other result is computed again.
        """
        number, self._number = self._number, self._number + 1
        if number in self._results:
            return cast(Result, tuple(float(part) if part.ndim == 0 else part for part in self._results[number]))
        result: Any = work()
        parts = tuple(np.asarray(part) for part in result) if type(result) is tuple else (np.array(None),)
        if all(part.dtype.kind in STORABLE for part in parts):
            self._results[number] = parts
            self._write()
        return cast(Result, result)

    def _write(self) -> None:
        header = {"about": self.about, "passes": [[number, len(parts)] for number, parts in self._results.items()]}
        arrays = [part for parts in self._results.values() for part in parts]
        with write_errors(self.path, more=NOT_WRITTEN), written_whole(self.path) as new:
            write_archive(new, "checkpoint", header, arrays)

    def _read(self) -> dict[int, tuple[AnyArray, ...]]:
        try:
            header, arrays = read_archive(self.path, "checkpoint")
            about, parts = header["about"], iter(arrays)
            results = {int(number): tuple(next(parts) for _ in range(count)) for number, count in header["passes"]}
            differing = sorted(key for key in self.about if about.get(key) != self.about[key])
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, OSError) as error:
            raise InputError(
                f"resume={str(self.path)!r} is not a checkpoint of a fit, or is damaged. Name another file; if it is "
                "a checkpoint, delete it to start anew."
            ) from error
        if differing:
            raise InputError(
                f"resume={str(self.path)!r} is the checkpoint of another fit: {', '.join(differing)} differ. Delete it "
                "to start anew, or fit the same model to the same rows."
            )
        return results


def fingerprint(rows: Any) -> str:
    """A text that must be the same for a fit to go on: files with their sizes and times, partitions, or the numbers."""
    if isinstance(rows, OutOfCoreRows):
        return rows.fingerprint
    digest = sha256()
    for held in (rows.X, rows.y, rows.weight, rows.offset):
        for part in (held.data, held.indices, held.indptr) if isinstance(held, csr_array) else (held,):
            digest.update(repr(None if part is None else (part.shape, str(part.dtype))).encode())
            digest.update(b"" if part is None else np.ascontiguousarray(part).data)
    return digest.hexdigest()
