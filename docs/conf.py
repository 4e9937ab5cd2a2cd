"""How the guide is built: `make docs`."""

import re
from typing import Any

from credibly import __version__

project = "credibly"
author = "credibly developers"
copyright = "2026, credibly developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"credibly {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say it better: shapes, ranges, units
autodoc_default_options = {
    # what scikit-learn adds to every estimator is documented there
    "exclude-members": "set_fit_request, set_partial_fit_request, set_predict_request, set_score_request, "
    "set_transform_request, set_inverse_transform_request, get_metadata_routing, set_output",
}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

PROSE = re.compile(r"^(:type [^:]+: )([^`*]+)$")
FITTED = re.compile(r"(?<![`\w\\.*:])([A-Za-z]\w+_)(?![\w`*{^])")


def quote_fitted_attributes(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show log_evidence_ as code: to reStructuredText a word that ends in an underscore is a link."""
    for i, line in enumerate(lines):
        if "math:" not in line and not line.lstrip().startswith((">>>", "...")):
            lines[i] = FITTED.sub(r"``\1``", line)


def keep_types_as_prose(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Types are sentences here: without markup every word of them is looked up, and "name" is an attribute of many."""
    lines[:] = [PROSE.sub(r"\1*\2*", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", quote_fitted_attributes, priority=600)  # after napoleon
    app.connect("autodoc-process-docstring", keep_types_as_prose, priority=700)
