"""The table of a kernel's hyperparameters."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.estimators.summary import Summary
from credibly.inference.kernel_evidence import AT_BOUND
from credibly.inference.posterior import normal_quantile
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD


def at_bounds(kernels: tuple[Kernel, ...]) -> AnyArray:
    """Which hyperparameters are at a bound of theirs, (p,)."""
    theta = np.concatenate([kernel.theta for kernel in kernels])
    low, high = np.concatenate([kernel.bounds for kernel in kernels]).T
    return np.asarray((theta <= low + AT_BOUND) | (theta >= high - AT_BOUND))


def hyperparameter_table(
    *,
    title: str,
    kernels: tuple[Kernel, ...],
    columns: Sequence[str],
    classes: Sequence[Any],
    deviations: tuple[Array, list[str]],
    level: float,
    notes: list[str],
) -> Summary:
    """One row per hyperparameter: value, interval, standard deviation of its logarithm."""
    theta, at_bound = np.concatenate([kernel.theta for kernel in kernels]), at_bounds(kernels)
    sd, problem = deviations[0][: len(theta)], deviations[1]
    half = normal_quantile(level) * sd
    names = [
        with_columns(name, columns) if len(kernels) == 1 else f"{with_columns(name, columns)}, class {classes[c]}"
        for c, kernel in enumerate(kernels)
        for name in kernel.hyperparameters
    ]
    bound = [f"at its bound, without a standard deviation: {', '.join(np.asarray(names)[at_bound])}"]
    low, high = np.concatenate([kernel.bounds for kernel in kernels]).T
    # Nothing is believed beyond the bounds; a nearly flat evidence would reach beyond all numbers.
    lower, upper = np.exp(np.maximum(theta - half, low)), np.exp(np.minimum(theta + half, high))
    return Summary(
        title=title,
        notes=[
            *notes,
            *(bound if at_bound.any() else []),
            *problem,
            f"lower, upper: {level:.0%} interval within the bounds; sd_log: standard deviation of the natural log.",
        ],
        names=names,
        classes=None,
        columns={
            "value": np.exp(theta),
            "lower": lower,
            "upper": upper,
            "sd_log": sd,
        },
    )


def with_columns(name: str, columns: Sequence[str]) -> str:
    """``length_scale[2]`` with the name of the column in the place of its number."""
    return re.sub(r"\[(\d+)\]", lambda found: f"[{columns[int(found[1])]}]", name)


def log_deviations(hessian: Array, at_bound: AnyArray) -> tuple[Array, list[str]]:
    """Standard deviations of the logarithms, NaN at bounds and where the evidence has no maximum."""
    free = np.append(~at_bound, np.ones(len(hessian) - len(at_bound), dtype=bool))
    sd = np.full(len(free), np.nan)
    if not free.any():
        return sd, []
    try:
        root = PSD.of(-hessian[np.ix_(free, free)], "the curvature of the evidence").inverse_root
    except NotPositiveDefinite:
        return sd, ["The evidence has no maximum at these hyperparameters: there are no standard deviations."]
    sd[free] = np.sqrt((root**2).sum(axis=0))
    return sd, []
