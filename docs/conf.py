"""How the guide is built: `make docs`."""

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

from credibly import __version__

logger = logging.getLogger(__name__)

project = "credibly"
author = "credibly developers"
copyright = "2026, credibly developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_math_renderer = "mathml"  # below: pages are whole, and need no network
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"credibly {release}"
html_static_path = ["_static"]
html_css_files = ["math.css"]

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


NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'  # HTML needs none
ACCENTS = "ˆ^ˉ¯˜~"
# What TeX reads and the converter of docutils does not; everything it does not know is a warning, so it is noticed.
SYMBOLS = str.maketrans(
    {
        "∈": r"\in ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "±": r"\pm ",
        "←": r"\leftarrow ",
        "∂": r"\partial ",
        "…": r"\ldots ",
    }
)
SPELT_OUT = [
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\(log|ln|det|exp)\s*(?=[\w{]|\\(?![bB]ig|left|_|,|\{))"), r"\\\1\\,"),  # browsers leave no space
    (re.compile(r"\\(t?frac)(\d)(\w|\\\w+)"), r"\\\1{\2}{\3}"),  # \frac12
    (re.compile(r"\\textstyle\s*(\\sum|\\prod|\\int)"), r"{\\textstyle\1}"),
    (re.compile(r"\\Big\("), r"\\Bigl("),
    (re.compile(r"\\Big\)"), r"\\Bigr)"),
    (re.compile(r"\\Bigm?\|"), r"\\mid "),
    (re.compile(r"\\texttt\{([^}]*)\}"), lambda found: rf"\text{{{found[1]}}}".replace(r"\_", "_")),
]


def mathml(formula: str, block: bool) -> str:
    """A formula as MathML, which browsers draw by themselves: no script and no network."""
    formula = formula.translate(SYMBOLS)
    for pattern, spelling in SPELT_OUT:
        formula = pattern.sub(spelling, formula)
    try:
        text = tex2mathml(formula, as_block=block).replace(NAMESPACE, "").replace("&ApplyFunction;", "\u2061")
    except MathError as error:
        logger.warning("no MathML for %r: %s (see SPELT_OUT in docs/conf.py)", formula, error)
        return ""
    tree = ElementTree.fromstring(text)
    for node in list(tree.iter("munderover")):
        base, below, above = node
        if above.text in ACCENTS:  # an index of a letter with a hat belongs beside it
            letter = ElementTree.Element("mover", accent="true")
            letter.extend([base, above])
            node.tag, node[:] = "msub", [letter, below]
    for node in tree.iter("msub"):
        if node[0].tag == "munder":  # the label of a brace belongs below it
            node.tag = "munder"
    for node in tree.iter("mtable"):
        node.set("displaystyle", "true")
    return ElementTree.tostring(tree, encoding="unicode")


def inline_math(self: Any, node: Any) -> None:
    """A formula in a line."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def displayed_math(self: Any, node: Any) -> None:
    """A formula on a line of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(mathml(node.astext(), block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
    app.connect("autodoc-process-docstring", quote_fitted_attributes, priority=600)  # after napoleon
    app.connect("autodoc-process-docstring", keep_types_as_prose, priority=700)
