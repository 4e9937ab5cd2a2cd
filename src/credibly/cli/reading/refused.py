"""Files that are no tables, told by their first bytes, and what to do with them."""

from __future__ import annotations

import re
from pathlib import Path

SAVE_AS_CSV = "Open it in its program and save the sheet as CSV (UTF-8)."
EXPORT = "Export the table from it as CSV or Parquet."

# Pattern of the first bytes, what the file is, what to do.
REFUSED: tuple[tuple[bytes, str, str], ...] = (
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook (.xls) or another Office file", SAVE_AS_CSV),
    (rb"%PDF-", "a PDF document", "Take the table from where the PDF was made."),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|II\*\0|MM\0\*", "a picture", "Give the table itself."),
    (rb"\x80[\x02-\x05][\x95c(}\])]", "a Python pickle, which is never opened because that runs its code", EXPORT),
    (rb"\x89HDF\r\n", "an HDF5 file", EXPORT),
    (rb"SQLite format 3\0", "an SQLite database", EXPORT),
    (rb"ARROW1|FEA1", "an Arrow/Feather file", "Save it as Parquet: frame.to_parquet(...)."),
    (rb"\x93NUMPY", "a NumPy array", EXPORT),
    (rb"RDX[23]\n|X\n\0\0|A\n[23]\n", "an R data file", "In R: write.csv(data, 'data.csv', row.names = FALSE)."),
    (rb"<stata_dta>|\$FL[23]@|\xc2\xea\x81\x60", "a Stata, SPSS or SAS file", EXPORT),
    (rb"PARE", "an encrypted Parquet file", "Decrypt it first."),
    (rb"\x7fELF|MZ\x90\0", "a program", "Give the table itself."),
    (rb"7z\xbc\xaf\x27\x1c|Rar!", "an archive", "Unpack it and give the table in it."),
    (rb".{257}ustar", "a tar archive", "Unpack it and give the table in it."),
    (rb"\s*(?i:<!doctype html|<html)", "a web page", "Was it a download that failed? Give the table itself."),
    (rb"\s*<\?xml", "an XML file", EXPORT),
    (rb"version https://git-lfs", "a Git LFS pointer, not the data", "Fetch the data: git lfs pull."),
    (rb'\s*(\{\s*"|\[\s*[\[{])', "a JSON file", EXPORT),
)


def why_no_table(head: bytes, path: Path) -> str | None:
    """What a file is and what to do, where its first bytes say that it is no table; None otherwise.

    Examples
    --------
    >>> why_no_table(b"%PDF-1.7 ...", Path("paper.csv"))
    'is a PDF document. Take the table from where the PDF was made.'
    >>> why_no_table(b"a,b", Path("data.csv"))
    """
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(head, path)
    for pattern, kind, advice in REFUSED:
        if re.match(pattern, head, re.DOTALL):
            return f"is {kind}. {advice}"
    return None


def _zipped(head: bytes, path: Path) -> str:
    suffix = path.suffix.lower()
    if b"opendocument.spreadsheet" in head or suffix == ".ods":
        return f"is an OpenDocument spreadsheet. {SAVE_AS_CSV}"
    if suffix in {".xlsx", ".xlsm"} or b"xl/" in head or b"[Content_Types].xml" in head:
        return f"is an Excel workbook (.xlsx). {SAVE_AS_CSV}"
    return "is a zip archive. Unpack it and give the table in it."


def why_no_text(head: bytes) -> str | None:
    """Why the first bytes of a file cannot be text in UTF-8 or the like; None where they can."""
    if b"\0" in head:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if max(even, odd) > 0.3 * len(head) and min(even, odd) < 0.02 * len(head):
            name = "utf-16-le" if odd > even else "utf-16-be"
            return f"looks like UTF-16 without a byte-order mark. Name the encoding: --encoding {name}."
    control = len(re.findall(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", head))
    if control > 0.03 * len(head):
        return "is a binary file, not a table. Give a CSV or Parquet file."
    return None
