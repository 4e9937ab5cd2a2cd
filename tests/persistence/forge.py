"""Making model files that `save` would not make: with a right checksum, and anything inside."""

import hashlib
import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

DIGITS = 64
SEAL = b"credibly model 1 sha256 "


def resealed(data: bytes) -> bytes:
    """The same bytes with the digits at their end made right."""
    return data[:-DIGITS] + hashlib.sha256(data[:-DIGITS]).hexdigest().encode()


def members(data: bytes) -> dict[str, bytes]:
    """The contents of every member of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(contents: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED, seal: bytes = SEAL) -> bytes:
    """An archive of these members with a right checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        archive.comment = seal + b"0" * DIGITS
        for name, content in contents:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return resealed(out.getvalue())


def edited(data: bytes, change: Any) -> bytes:
    """A file whose header, as a dict, was changed in place by a function."""
    contents = members(data)
    header = json.loads(contents["header.json"])
    change(header)
    contents["header.json"] = json.dumps(header).encode()
    return archive_of(list(contents.items()))


def with_header(data: bytes, text: bytes) -> bytes:
    """A file with another text for its header."""
    return archive_of(list((members(data) | {"header.json": text}).items()))


def written(folder: Path, data: bytes) -> Path:
    path = folder / "forged.credibly"
    path.write_bytes(data)
    return path
