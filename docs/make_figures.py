"""Draws the picture of the README: python docs/make_figures.py (needs matplotlib)."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from credibly import BayesianLogisticRegression

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"  # safe for colour-blind readers


def panel(axes: plt.Axes, radius: np.ndarray, malignant: np.ndarray, title: str) -> None:
    model = BayesianLogisticRegression().fit(radius[:, None], malignant)
    grid = np.linspace(6, 30, 300)[:, None]
    low, high = model.predict_interval(grid, level=0.9).T
    axes.fill_between(grid[:, 0], low, high, color=BLUE, alpha=0.2, lw=0, label="90 % credible interval")
    axes.plot(grid, model.predict_proba(grid)[:, 1], color=BLUE, lw=2, label="averaged over the posterior")
    score = grid @ model.coef_[0] + model.intercept_
    axes.plot(grid, 1 / (1 + np.exp(-score)), color=ORANGE, lw=1.2, ls="--", label="one best guess")
    axes.plot(radius, malignant + np.where(malignant == 1, 0.03, -0.03), "|", color=GREY, alpha=0.6, ms=7)
    axes.set(title=title, xlabel="mean radius of the nuclei", ylim=(-0.08, 1.08), xlim=(6, 30))
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    data = load_breast_cancer()
    radius, malignant = data.data[:, 0], (data.target == 0).astype(int)
    some = np.random.default_rng(0).permutation(len(radius))[:20]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    panel(left, radius[some], malignant[some], "20 patients")
    panel(right, radius, malignant, f"all {len(radius)} patients")
    left.set_ylabel("P(malignant)")
    left.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.05))
    figure.savefig(Path(__file__).parent / "images" / "readme.png", dpi=130)


if __name__ == "__main__":
    main()
