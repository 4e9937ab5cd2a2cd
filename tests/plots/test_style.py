import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from credibly import LinearDiscriminant, plots
from credibly.errors import InputError
from credibly.plots.style import COLOURS, LONGEST_NAME, MARKERS, colour_of, marker_of, shown, shown_all


def test_importing_credibly_does_not_import_matplotlib():
    code = "import sys, credibly, credibly.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_drawn_as_they_are_written():
    names = ["price in $", "$a$ and $b$", "_hidden", "two\nlines"]
    ax = plots.ranked_bars(names, np.zeros(4), np.zeros(4), "x")
    ax.figure.canvas.draw()
    drawn = [label._preprocess_math(label.get_text()) for label in ax.get_yticklabels()]
    assert drawn == [("price in $", False), ("$a$ and $b$", False), ("_hidden", False), ("two lines", False)]


def test_classes_of_any_name_stand_in_legends(iris):
    X, y = iris.X.iloc[:, :2], np.array(["$a$", "_b", "c"])[np.arange(150) // 50]
    ax = plots.decision_surface(LinearDiscriminant().fit(X, y), X, y, show="probability")
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == [r"\$a\$", "_b", "c"]


def test_long_names_are_shortened_and_stay_different():
    long = [f"the measurement number {k} of the second visit in the year 2020" for k in range(3)]
    assert all(len(shown(name)) <= LONGEST_NAME for name in long)
    same = [f"{'a' * 30}{k}{'b' * 30}" for k in "xy"]
    assert shown(same[0]) == shown(same[1])
    assert shown_all([*same, "c"]) == [*same, "c"]


def test_classes_have_pairs_of_colour_and_marker_of_their_own():
    pairs = {(colour_of(k), marker_of(k)) for k in range(len(COLOURS) * len(MARKERS))}
    assert len(pairs) == len(COLOURS) * len(MARKERS)


def seen(colour: str, kind: str) -> np.ndarray:
    """CIELAB coordinates of what a dichromat sees (Viénot, Brettel & Mollon 1999)."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    lost = np.eye(3)
    if kind == "protan":
        lost[0] = [0, 2.02344, -2.52581]
    elif kind == "deutan":
        lost[1] = [0.494207, 0, 1.24827]
    perceived = np.linalg.solve(lms, lost @ lms @ linear)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(xyz @ perceived / xyz.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", ["normal", "protan", "deutan"])
def test_the_first_classes_differ_for_colour_blind_readers(kind):
    colours = [seen(colour, kind) for colour in COLOURS[:4]]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(colours) for b in colours[:i]]
    assert min(gaps) > 20  # 2.3 can just be told apart side by side


def test_axes_that_are_none_are_refused():
    _, several = plt.subplots(1, 2)
    with pytest.raises(InputError, match=r"ax must be one matplotlib Axes.*choose one"):
        plots.khat([0.1], ax=several)
