"""What is believed about weights before the data, and after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.plots.asking import last_step
from credibly.plots.style import (
    BAND,
    GREY,
    PALE,
    axes_for,
    colour_of,
    headline,
    how_many,
    legend_below,
    shown,
    shown_all,
)
from credibly.plots.weight_tables import is_linear, refuse, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.9  # of intervals that are not drawn


class Density(NamedTuple):
    """A density, and where it is worth looking at."""

    center: float
    spread: float
    pdf: Callable[[Array], Array]

    def times(self, factor: float) -> Density:
        """The density of a multiple."""
        return Density(self.center * factor, self.spread * factor, lambda x: self.pdf(x / factor) / factor)


def normal(mean: float, sd: float) -> Density:
    """N(mean, sd²).

    Examples
    --------
    >>> float(normal(1.0, 2.0).times(3.0).pdf(np.array([3.0]))[0] * 6.0 * np.sqrt(2 * np.pi))
    1.0
    """
    from scipy.stats import norm

    return Density(float(mean), float(sd), lambda x: np.asarray(norm.pdf(x, mean, sd)))


def student(df: float, scale: float) -> Density:
    """Student's t about zero."""
    from scipy.stats import t

    return Density(0.0, scale, lambda x: np.asarray(t.pdf(x, df, scale=scale)))


def smooth(draws: Array, moments: tuple[float, float]) -> Density:
    """A kernel density of draws."""
    from scipy.stats import gaussian_kde

    return Density(float(moments[0]), float(moments[1]), gaussian_kde(draws))


def prior_posterior(
    model: Any,
    names: Sequence[str] | str | None = None,
    *,
    standardized: bool = True,
    most: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Densities of coefficients before the data (grey) and after them, one line for each column.

    Where the two are alike the data said nothing about the coefficient. Within a line both densities have the same
    scale, so that areas can be compared.

    Parameters
    ----------
    model : fitted linear model or GLM with a Normal or StudentT prior, or a pipeline that ends in one
    names : str or sequence of str, optional
        Columns; those with the strongest coefficients if None.
    standardized : bool
        For a step of one standard deviation of the column, or of one unit of it.
    most : int
        How many columns, where `names` is None.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianLogisticRegression, plots
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> ax = plots.prior_posterior(BayesianLogisticRegression().fit(X, y == 2), ["petal width (cm)"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['petal width (cm)']
    """
    last = last_step(model)
    if hasattr(last, "class_prior_"):
        raise InputError(
            f"prior_posterior draws the weights of a linear model; {type(last).__name__} has beliefs about the columns "
            "of each class instead. plots.coefficients draws its class means."
        )
    if not is_linear(last):
        refuse(last)
    table = table_of(model, LEVEL, standardized=standardized)
    columns = table.by_strength[: how_many(most)].tolist() if names is None else _numbers_of(table.names, names)
    before, after = _priors(last, columns), _posteriors(last, columns)
    if standardized:
        steps = [float(last.posterior_.design.columns.scale[j]) for j in columns]
        before, after = (
            [[it.times(s) for it in row] for s, row in zip(steps, rows, strict=True)] for rows in (before, after)
        )
    ax = axes_for(ax, 6.4, 1.7 + 0.7 * len(columns))
    ends = _limits(before, after)
    for place, (prior, posterior) in enumerate(zip(before, after, strict=True)):
        _ridge(ax, len(columns) - 1 - place, prior, posterior, ends)
    ax.set_yticks(np.arange(len(columns))[::-1], shown_all([table.names[j] for j in columns]))
    ax.axvline(0, color=GREY, lw=0.8, ls=":")
    ax.set(xlim=ends, ylim=(-0.15, len(columns) + 0.05), xlabel=table.axis)
    headline(
        ax,
        "What the data taught about the coefficients",
        "densities before the data and after them, one scale in each line",
    )
    _legend(ax, table.classes)
    return ax


def _numbers_of(known: list[str], names: Sequence[str] | str) -> list[int]:
    asked = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise InputError(f"The model has no columns {unknown!r}; it has {known[:10]!r}{' …' * (len(known) > 10)}.")
    return [known.index(name) for name in asked]


def _priors(last: Any, columns: list[int]) -> list[list[Density]]:
    """For every column a density for each class, of what is determined of the weight."""
    prior, shape = last.prior_, last.fit_.shape
    K = shape.n_outputs
    if hasattr(prior, "moments"):
        mean, cov = prior.moments(shape)
        contrast = np.eye(K) - (1 / K if K > 1 else 0.0)
        places = [np.arange(K) * shape.per_output + j for j in columns]
        return [
            [
                normal(m, v**0.5)
                for m, v in zip(contrast @ mean[at], np.diag(contrast @ cov[np.ix_(at, at)] @ contrast), strict=True)
            ]
            for at in places
        ]
    if not hasattr(prior, "degrees"):
        raise InputError(f"prior={prior!r} is not a distribution, so there is no density to draw before the data.")
    if K > 1:
        raise InputError(
            "Of several classes only what differs between them is determined, and its prior density has no closed form "
            "for a StudentT prior; prior_posterior draws that of a Normal prior."
        )
    unit = last.fit_.posterior.design.columns.scale if prior.standardized else np.ones(shape.n_features)
    scales = prior.scales(shape)[: shape.n_features] / unit
    return [[student(prior.degrees, float(scales[j]))] for j in columns]


def _posteriors(last: Any, columns: list[int]) -> list[list[Density]]:
    posterior, K = last.posterior_.determined(), last.fit_.shape.n_outputs
    mean, sd = (it.reshape(K, -1) for it in (posterior.mean, posterior.std))
    if not hasattr(posterior, "weight_draws"):
        return [[normal(mean[k, j], sd[k, j]) for k in range(K)] for j in columns]
    draws = posterior.weight_draws.reshape(len(posterior.weight_draws), K, -1)
    return [[smooth(draws[:, k, j], (mean[k, j], sd[k, j])) for k in range(K)] for j in columns]


def _limits(before: list[list[Density]], after: list[list[Density]]) -> tuple[float, float]:
    """All of the posteriors, and of the priors as much as leaves the posteriors to be seen."""
    posterior, prior = ([it for row in rows for it in row] for rows in (after, before))
    low, high = min(it.center - 4 * it.spread for it in posterior), max(it.center + 4 * it.spread for it in posterior)
    room = 0.75 * (high - low)
    wanted = min(it.center - 2.5 * it.spread for it in prior), max(it.center + 2.5 * it.spread for it in prior)
    return max(min(low, wanted[0]), low - room), min(max(high, wanted[1]), high + room)


def _ridge(ax: Axes, base: int, prior: list[Density], posterior: list[Density], ends: tuple[float, float]) -> None:
    """The densities of one column, on one scale and standing on one line."""
    centers = np.concatenate([it.center + it.spread * np.linspace(-5, 5, 201) for it in (*prior, *posterior)])
    x = np.unique(np.clip(np.concatenate([centers, np.linspace(*ends, 201)]), *ends))
    tallest = max(it.pdf(x).max() for it in (*prior, *posterior))
    for it in prior:
        ax.plot(x, base + 0.85 * it.pdf(x) / tallest, color=GREY, lw=1.3, ls="--")
    for k, it in enumerate(posterior):
        height = base + 0.85 * it.pdf(x) / tallest
        ax.fill_between(x, base, height, color=colour_of(k), alpha=BAND, lw=0)
        ax.plot(x, height, color=colour_of(k), lw=1.6)
    ax.axhline(base, color=PALE, lw=0.8, zorder=0)


def _legend(ax: Axes, classes: list[Any] | None) -> None:
    from matplotlib.lines import Line2D

    named = ["after"] if classes is None else [f"after, {shown(name)}" for name in classes]
    handles = [Line2D([], [], color=GREY, lw=1.3, ls="--", label="before the data (prior)")]
    handles += [Line2D([], [], color=colour_of(k), lw=1.6, label=f"{name} (posterior)") for k, name in enumerate(named)]
    legend_below(ax, handles)
