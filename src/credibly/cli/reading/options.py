"""What a reader of tables may be told, and what it gives back."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from credibly.errors import TableError
from credibly.wording import close_names, shortened

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "?")
# "None" is a level in many tables ("visits: None, One, Two"), and "." a word in some; among numbers they are gaps.
MISSING_AMONG_NUMBERS = (".", "None")
SPELT_OUT = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
MOST_COLUMNS = 100_000

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class Table(NamedTuple):
    """A table that was read, and what should be told about how.

    Attributes
    ----------
    frame : DataFrame
        Numbers as numbers, true/false as bool, other text as categories (as text where most cells differ).
    notes : tuple of str
        Sentences about what was not taken quite as it came.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ReadOptions:
    r"""How a text table is written, where that cannot be seen from the file.

    Parameters
    ----------
    delimiter : str, optional
        One character between cells, or a word for it (tab, space …); None: seen from the first lines.
    encoding : str, optional
        Of the text; None: UTF-8, or what a byte-order mark says.
    decimal : "." or ","
    missing : tuple of str
        Cells that count as missing; the default has the usual ones. In Parquet only those beyond the default count.

    Examples
    --------
    >>> ReadOptions(delimiter="tab").delimiter
    '\t'
    >>> ReadOptions(missing=(*MISSING, "-999")).missing[-1]
    '-999'
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    missing: tuple[str, ...] = MISSING

    def __post_init__(self) -> None:
        _check_delimiter(self)
        _check_encoding(self.encoding)
        if self.decimal not in {".", ","}:
            raise TableError(f"The decimal sign must be '.' or ','; got {self.decimal!r}.")
        object.__setattr__(self, "missing", tuple(text.strip() for text in self.missing))

    @property
    def own_missing(self) -> tuple[str, ...]:
        """Missing markers that the user named."""
        return tuple(text for text in self.missing if text not in MISSING)


def _check_delimiter(options: ReadOptions) -> None:
    given = options.delimiter
    if given is None:
        return
    delimiter = SPELT_OUT.get(given.lower(), given)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise TableError(
            f"The delimiter must be one ASCII character other than a quote or a line end, or one of the words "
            f"{', '.join(word for word in SPELT_OUT if word.isalpha())}; got {given!r}."
        )
    object.__setattr__(options, "delimiter", delimiter)


def _check_encoding(encoding: str | None) -> None:
    if encoding is None:
        return
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):  # a ValueError for a name with a NUL in it
        known = False
    if not known:
        raise TableError(f"There is no text encoding {encoding!r}. Common ones: utf-8, latin-1, cp1252, utf-16, gbk.")


PLAIN = ReadOptions()


def chosen_columns(available: Sequence[str], wanted: Iterable[str] | None, where: str) -> list[str]:
    """The columns to read, in the order wanted, or an error that lists all that are not there.

    Examples
    --------
    >>> chosen_columns(["age", "sex"], ["Sex"], "a.csv")
    Traceback (most recent call last):
    credibly.errors.TableError: a.csv has no column 'Sex' (is 'sex' meant?). Its columns: age, sex.
    """
    if wanted is None:
        return list(available)
    names = list(dict.fromkeys(wanted))
    lacking = [name for name in names if name not in set(available)]
    if not lacking:
        return names
    listed = shortened([f"{name!r}{_meant(name, available)}" for name in lacking])
    noun = "column" if len(lacking) == 1 else f"{len(lacking)} of the columns asked for:"
    raise TableError(f"{where} has no {noun} {listed}. Its columns: {shortened(available)}.")


def _meant(name: str, available: Sequence[str]) -> str:
    near = close_names(name, available, 1)
    return f" (is {near[0]!r} meant?)" if near else ""
