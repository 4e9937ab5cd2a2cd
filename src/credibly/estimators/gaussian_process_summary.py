"""The table of a kernel's hyperparameters."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from credibly.estimators.containers import named
from credibly.estimators.summary import Summary
from credibly.inference.gaussian import normal_quantile
from credibly.inference.kernel_evidence import AT_BOUND
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array

FLATTEST = 1e-3  # curvature of the evidence in a log: below, its standard deviation is more than thirty e-folds
SHARE = 0.01  # of a hyperparameter in a direction, from which on the direction counts for it


def thetas(kernels: tuple[Kernel, ...]) -> tuple[Array, Array, Array]:
    """θ of all kernels, and their lower and upper bounds."""
    low, high = np.concatenate([kernel.bounds for kernel in kernels]).T
    return np.concatenate([kernel.theta for kernel in kernels]), low, high


def at_bounds(kernels: tuple[Kernel, ...]) -> AnyArray:
    """Which hyperparameters are at a bound of theirs, (p,)."""
    theta, low, high = thetas(kernels)
    return np.asarray((theta <= low + AT_BOUND) | (theta >= high - AT_BOUND))


def log_deviations(hessian: Array, held: AnyArray) -> Array:
    """Standard deviations of the logarithms, (p,): NaN where held, at a bound, or not determined by the evidence.

    In directions along which the evidence is flat, or has no maximum, nothing is known; hyperparameters that take no
    part in those keep their standard deviations.
    """
    free = np.append(~held, np.ones(len(hessian) - len(held), dtype=bool))
    sd = np.full(len(free), np.nan)
    if not free.any():
        return sd
    curvature, directions = np.linalg.eigh(-hessian[np.ix_(free, free)])
    flat = curvature < FLATTEST
    known = ((directions[:, flat] ** 2) < SHARE).all(axis=1)
    variance = (directions[:, ~flat] ** 2 / curvature[~flat]).sum(axis=1)
    sd[free] = np.where(known, np.sqrt(variance), np.nan)
    return sd


def hyperparameter_table(
    *,
    title: str,
    kernels: tuple[Kernel, ...],
    columns: Sequence[str],
    classes: Sequence[Any],
    deviations: Array | None,
    level: float,
    notes: list[str],
) -> Summary:
    """One row per hyperparameter: value, interval, standard deviation of its logarithm."""
    theta, low, high = thetas(kernels)
    if not theta.size:
        notes = [*notes, "No hyperparameter is free: there is nothing to learn."]
    names = labels(kernels, columns, classes)
    table = {"value": np.exp(theta)}
    if deviations is not None:
        sd = deviations[: len(theta)]
        half = normal_quantile(level) * sd
        # Nothing is believed beyond the bounds; a nearly flat evidence would reach beyond all numbers.
        table["lower"] = np.exp(np.maximum(theta - half, low))
        table["upper"] = np.exp(np.minimum(theta + half, high))
        table["sd_log"] = sd
        unknown = np.asarray(names)[np.isnan(sd) & ~at_bounds(kernels)]
        notes = [
            *notes,
            *([f"not learnt, or not determined by the evidence: {named(unknown)}"] if unknown.size else []),
        ]
        notes = [*notes, f"lower, upper: {level:.0%} interval within the bounds; sd_log: sd of the natural log."]
    return Summary(title, [*notes[:-1], *bound_notes(kernels, names), *notes[-1:]], names, None, table)


def labels(kernels: tuple[Kernel, ...], columns: Sequence[str], classes: Sequence[Any]) -> list[str]:
    """Names of the hyperparameters, with those of columns and, where each has a kernel of its own, of classes."""
    return [
        with_columns(name, columns) + (f" ({classes[c]})" if len(kernels) > 1 else "")
        for c, kernel in enumerate(kernels)
        for name in kernel.hyperparameters
    ]


def with_columns(name: str, columns: Sequence[str]) -> str:
    """``length_scale[2]`` with the name of the column in the place of its number."""
    return re.sub(r"\[(\d+)\]", lambda found: f"[{columns[int(found[1])]}]", name)


def bound_notes(kernels: tuple[Kernel, ...], names: list[str]) -> list[str]:
    """What it means that hyperparameters are at a bound, a line for each kind."""
    theta, low, high = thetas(kernels)
    lower, upper = theta <= low + AT_BOUND, theta >= high - AT_BOUND
    kind = np.array(["length" if "length_scale" in it else "variance" if "variance" in it else "" for it in names])
    groups = [
        (upper & (kind == "length"), "at the upper bound, which switches the column off"),
        (
            upper & (kind == "variance"),
            "at the upper bound: scores want to be ever larger, as where classes are separated",
        ),
        (lower & (kind == "variance"), "at the lower bound: this part is not needed"),
        (lower & (kind != "variance"), "at the lower bound"),
        (upper & (kind == ""), "at the upper bound"),
    ]
    return [f"{named(np.asarray(names)[which])}: {what}" for which, what in groups if which.any()]
