"""Making model files that `save` would not make: with a right checksum, and anything inside."""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Contents = list[tuple[str, bytes]]


def contents_of(data: bytes) -> Contents:
    """Names and contents of the members of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def archive_of(
    contents: Contents, compression: int = zipfile.ZIP_STORED, version: int = 1, kind: str = "model"
) -> bytes:
    """An archive of these members with the checksum that belongs to them."""
    digests = b"".join(hashlib.sha256(content).digest() for _, content in contents)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in contents:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
        archive.comment = f"credibly {kind} {version} sha256 {hashlib.sha256(digests).hexdigest()}".encode()
    return out.getvalue()


def with_header(data: bytes, text: bytes) -> bytes:
    """A file with another text for its header."""
    return archive_of([("header.json", text), *contents_of(data)[1:]])


def edited(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A file whose header, as a dict, was changed in place by a function."""
    header = json.loads(contents_of(data)[0][1])
    change(header)
    return with_header(data, json.dumps(header).encode())


def written(folder: Path, data: bytes) -> Path:
    path = folder / "forged.credibly"
    path.write_bytes(data)
    return path
