"""How to make the report again: command, code, versions, a fingerprint of the data."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from credibly._version import __version__
from credibly.report.glance import columns_words
from credibly.report.material import Material
from credibly.report.tables import Cell, Head, Table
from credibly.report.words import count, counted

LONGEST = 5_000  # letters of a model's parameters that are shown
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


def fingerprint(material: Material) -> str:
    """SHA-256 of the columns' names, the cells and the labels, unless one is given."""
    if material.about.fingerprint:
        return material.about.fingerprint
    digest = hashlib.sha256()
    digest.update(repr(material.names).encode())
    digest.update(_bytes(material))
    digest.update(repr([str(label) for label in material.y.tolist()]).encode())
    return digest.hexdigest()


def _bytes(material: Material) -> bytes:
    if material.matrix is not None:
        return np.ascontiguousarray(material.matrix, dtype="<f8").tobytes()
    X: Any = material.X
    if hasattr(X, "toarray"):
        rows = X.tocsr()
        return b"".join(np.ascontiguousarray(it).tobytes() for it in (rows.indptr, rows.indices, rows.data))
    return repr(X.to_numpy(dtype=object).tolist()).encode() if hasattr(X, "to_numpy") else repr(X.tolist()).encode()


def code(material: Material) -> str:
    """Python that fits the same model to the same rows and writes the page again."""
    if material.about.code:
        return material.about.code
    model = material.model.__repr__(N_CHAR_MAX=LONGEST)
    return (
        f"{_imports(model)}\n"
        f"\n"
        f"model = {model}\n"
        f"model.fit(X, y)  # the {counted(len(material.codes), 'row')} of the fingerprint\n"
        f'model.report(X, y, "report.html", random_state={material.settings.seed})'
    )


def _imports(model: str) -> str:
    """The lines that make the names in the text of a model known."""
    import credibly
    from credibly import kernels

    def used(names: list[str]) -> list[str]:
        return [name for name in names if re.search(rf"\b{name}\(", model)]

    lines = [f"from credibly import {', '.join(used(credibly.__all__))}"]
    special = used(kernels.__all__)
    return "\n".join([*lines, *([f"from credibly.kernels import {', '.join(special)}"] if special else [])])


def origins(material: Material) -> Table:
    """Versions, data and seed."""
    rows = [
        [Cell("credibly"), Cell(__version__)],
        [Cell("Python"), Cell(platform.python_version())],
        *[[Cell(name), Cell(found)] for name in PACKAGES if (found := _version(name))],
        [Cell("Rows"), Cell(count(len(material.codes)))],
        [Cell("Columns"), Cell(columns_words(material))],
        [
            Cell("SHA-256 of the names and cells of the columns used and of the target (not of a file's bytes)"),
            Cell(fingerprint(material)),
        ],
        [Cell("Seed of folds and draws"), Cell(str(material.settings.seed))],
        [Cell("Level of intervals"), Cell(f"{material.settings.level:g}")],
    ]
    heads = [Head("What", numeric=False, sortable=False), Head("Value", numeric=False, sortable=False)]
    return Table.of("Where the numbers come from", heads, rows)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
