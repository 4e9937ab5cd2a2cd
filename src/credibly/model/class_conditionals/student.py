"""Student-t beliefs about means, for the tables of Gaussian classes."""

import numpy as np
from scipy.special import stdtrit

from credibly.model.class_conditionals.base import Estimates
from credibly.numerics.arrays import Array


def student_estimates(mean: Array, scale: Array, dof: Array, level: float) -> Estimates:
    """Mean, sd and interval of Student-t quantities; the sd is infinite up to two degrees of freedom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.where(dof > 2, scale * np.sqrt(dof / (dof - 2)), np.inf)
    half = stdtrit(dof, 0.5 + level / 2) * scale
    return Estimates(mean, sd, mean - half, mean + half)
