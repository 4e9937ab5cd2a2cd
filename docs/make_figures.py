"""Draws the pictures of the README and the guide: python docs/make_figures.py (needs matplotlib)."""

import io
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy.special import expit, log_expit
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.model_selection import cross_val_predict

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, LinearDiscriminant, compare, plots

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"  # safe for colour-blind readers
IMAGES = Path(__file__).parent / "images"
Z = 1.6449  # half a 90 % interval, in standard deviations


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


def readme() -> None:
    """How uncertainty shrinks with the number of patients."""
    data = load_breast_cancer()
    radius, malignant = data.data[:, 0], (data.target == 0).astype(int)
    some = np.random.default_rng(0).permutation(len(radius))[:20]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    panel(left, radius[some], malignant[some], "20 patients")
    panel(right, radius, malignant, f"all {len(radius)} patients")
    left.set_ylabel("P(malignant)")
    left.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.05))
    figure.savefig(IMAGES / "readme.png", dpi=130)


def curve_or_line() -> None:
    """A Gaussian process in one column beside logistic regression: scores, and probabilities."""
    iris = load_iris()
    x, versicolor = iris.data[:, :1], iris.target == 1
    grid = np.linspace(3.5, 9.0, 300)[:, None]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    models = {
        "Gaussian process": (GaussianProcessClassifier(), BLUE, "-"),
        "logistic regression": (BayesianLogisticRegression(), ORANGE, "--"),
    }
    for name, (model, colour, dashes) in models.items():
        model.fit(x, versicolor)
        mean, variance = model.predict_latent(grid)
        half = Z * np.sqrt(variance)
        label = f"{name}, log evidence {model.log_evidence_:.1f}"
        left.plot(grid, mean, color=colour, ls=dashes, lw=2, label=name)
        left.fill_between(grid[:, 0], mean - half, mean + half, color=colour, alpha=0.15, lw=0)
        right.plot(grid, model.predict_proba(grid)[:, 1], color=colour, ls=dashes, lw=2, label=label)
        right.fill_between(grid[:, 0], *model.predict_interval(grid).T, color=colour, alpha=0.15, lw=0)
    jitter = np.random.default_rng(0).uniform(0.0, 0.05, len(x))  # many flowers have the same length
    right.plot(x, np.where(versicolor, 1.02 + jitter, -0.02 - jitter), ".", color=GREY, alpha=0.5, ms=3)
    left.set(title="score", ylim=(-9, 5), ylabel="latent function, 90 % band")
    right.set(title="probability", ylim=(-0.1, 1.32), ylabel="P(versicolor), 90 % band", yticks=np.linspace(0, 1, 6))
    right.legend(frameon=False, fontsize=8, loc="upper left")
    for axes in (left, right):
        axes.set(xlabel="sepal length in cm", xlim=(3.5, 9.0))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "gaussian_process.png", dpi=130)


def surface() -> None:
    """Two columns: the averaged probability, and how far it is known."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    model = GaussianProcessClassifier(inference="ep").fit(X, y)
    across, up = np.meshgrid(np.linspace(-3, 4, 120), np.linspace(-2.5, 3, 100))
    grid = np.column_stack([across.ravel(), up.ravel()])
    low, high = model.predict_interval(grid).T
    drawn = {
        "averaged probability": (model.predict_proba(grid)[:, 1], "PuOr_r"),
        "width of its 90 % interval": (high - low, "Greys"),
    }
    figure, both = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axes, (title, (value, colours)) in zip(both, drawn.items(), strict=True):
        levels = axes.contourf(
            across, up, value.reshape(across.shape), levels=np.linspace(0, 1, 11), cmap=colours, alpha=0.9
        )
        axes.contour(across, up, drawn["averaged probability"][0].reshape(across.shape), levels=[0.5], colors="k")
        axes.plot(*X[y == 0].T, "o", color=BLUE, ms=4, mec="white", mew=0.5)
        axes.plot(*X[y == 1].T, "^", color="white", ms=5, mec=ORANGE, mew=0.8)
        axes.set(title=title, xlabel="first column")
        figure.colorbar(levels, ax=axes)
    both[0].set_ylabel("second column")
    figure.savefig(IMAGES / "gaussian_process_surface.png", dpi=130)


class Grid:
    """A slope and an intercept on a fine grid, with what the exact posterior and others say there."""

    def __init__(self, model: BayesianLogisticRegression, x: np.ndarray, y: np.ndarray) -> None:
        around = model.posterior_
        self.slope = around.mean[0] + around.std[0] * np.linspace(-5, 9, 561)
        steps = np.linspace(-12, 12, 481)  # of the intercept, given the slope
        given = around.cov[1, 0] / around.cov[0, 0]
        left = np.sqrt(around.cov[1, 1] - given * around.cov[1, 0])
        center = around.mean[1] + given * (self.slope - around.mean[0])
        self.intercept = center[:, None] + left * steps
        self.points = np.stack([np.broadcast_to(self.slope[:, None], self.intercept.shape), self.intercept], axis=-1)
        f = self.points[..., :1] * x[:, 0] + self.points[..., 1:]
        log_prior = multivariate_normal(np.zeros(2), model.prior_.cov).logpdf(self.points)
        self.exact = self.normalised(log_expit(np.where(y == 1, f, -f)).sum(axis=-1) + log_prior)

    def normalised(self, log_density: np.ndarray) -> np.ndarray:
        mass = np.exp(log_density - log_density.max())
        return mass / mass.sum()

    def density(self, mass: np.ndarray) -> np.ndarray:
        """Of the slope alone."""
        return mass.sum(axis=1) / (self.slope[1] - self.slope[0])

    def proba(self, mass: np.ndarray, x: np.ndarray) -> np.ndarray:
        """P(y = 1 | x), averaged."""
        return np.array([(mass * expit(self.slope[:, None] * at + self.intercept)).sum() for at in x])


def how_far() -> None:
    """The posterior of one coefficient from twenty patients by three Gaussians, and the error of probabilities."""
    data = load_breast_cancer()
    some = np.random.default_rng(0).permutation(len(data.data))[:20]
    x, y = data.data[some, :1], (data.target[some] == 0).astype(int)
    prior = BayesianLogisticRegression().fit(x, y).prior_
    shown = {
        "laplace": ("Laplace", BLUE, "--"),
        "variational": ("variational", ORANGE, "-."),
        "ep": ("EP", GREEN, "-"),
    }
    fits = {way: BayesianLogisticRegression(prior=prior, inference=way).fit(x, y) for way in shown}
    grid, at = Grid(fits["laplace"], x, y), np.linspace(6, 30, 121)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.fill_between(grid.slope, grid.density(grid.exact), color=GREY, alpha=0.3, lw=0, label="exact")
    exact = grid.proba(grid.exact, at)
    for way, (name, colour, dashes) in shown.items():
        posterior = fits[way].posterior_
        density = norm.pdf(grid.slope, posterior.mean[0], posterior.std[0])
        left.plot(grid.slope, density, color=colour, ls=dashes, lw=1.8, label=name)
        right.plot(at, fits[way].predict_proba(at[:, None])[:, 1] - exact, color=colour, ls=dashes, lw=1.8, label=name)
    right.axhline(0, color=GREY, alpha=0.5, lw=1)
    left.set(
        title="posterior of the slope, 20 patients", xlabel="slope, log-odds for one unit of radius", xlim=(-0.1, 2.1)
    )
    left.set(ylabel="density", ylim=(0, None))
    right.set(title="error of the averaged probability", xlabel="mean radius of the nuclei", xlim=(6, 30))
    left.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "trust.png", dpi=130)


BLOCK_OR_PICTURE = re.compile(r"^```python\n(?P<code>.*?)^```$|^!\[[^\]]*\]\(images/(?P<picture>[^)]+)\)", re.M | re.S)


def save_small(figure: plt.Figure, name: str, dpi: int = 120) -> None:
    """A picture of 128 colours takes a third of the room, and lines and bands do not need more."""
    whole = io.BytesIO()
    figure.savefig(whole, dpi=dpi)
    Image.open(whole).convert("RGB").quantize(128).save(IMAGES / name, optimize=True)
    plt.close(figure)


def page(name: str) -> None:
    """The pictures of a page, by its own code: each shows the `ax` of the block above it."""
    names: dict[str, object] = {}
    for found in BLOCK_OR_PICTURE.finditer((Path(__file__).parent / name).read_text(encoding="utf-8")):
        if found["code"]:
            exec(compile(found["code"], name, "exec"), names)
        else:
            save_small(names["ax"].figure, found["picture"])


def gallery() -> None:
    """Six pictures of one table, for the README."""
    data = load_breast_cancer(as_frame=True)
    X = data.data[["mean radius", "mean texture", "mean smoothness", "mean concavity", "mean symmetry"]]
    two, y = X[["mean radius", "mean texture"]], data.target_names[data.target]
    model, curve = BayesianLogisticRegression().fit(X, y), GaussianProcessClassifier().fit(two, y)
    proba = cross_val_predict(BayesianLogisticRegression(), X, y, cv=5, method="predict_proba")
    models = {"line": BayesianLogisticRegression(), "curve": curve, "two Gaussians": LinearDiscriminant()}
    figure = plt.figure(figsize=(16.5, 8.6), layout="constrained")
    # Each picture in a figure of its own, so that the names beside one axis do not narrow the others.
    a, b, c, d, e, f = (part.subplots() for part in figure.subfigures(2, 3, wspace=0.03, hspace=0.04).ravel())
    plots.coefficients(model, ax=a)
    plots.effect(model, X, "mean radius", ax=b)
    plots.decision_surface(curve, two, y, ax=c)
    plots.reliability(y, proba, ax=d, bins=8)
    plots.prior_posterior(BayesianLogisticRegression().fit(X[::10], y[::10]), ax=e)
    plots.evidence(compare(models, two, y, random_state=0), ax=f)
    save_small(figure, "plots_gallery.png", dpi=80)


if __name__ == "__main__":
    page("plots.md")
    gallery()
    readme()
    curve_or_line()
    surface()
    how_far()
