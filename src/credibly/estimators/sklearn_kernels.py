"""Kernels of scikit-learn as ours: the same matrix, the same θ, the same bounds, in the same order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as theirs

from credibly.errors import InputError
from credibly.model.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)

ACCEPTED = (
    "a kernel of credibly.kernels, or scikit-learn's ConstantKernel, WhiteKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf), "
    "RationalQuadratic, ExpSineSquared, DotProduct, DotProduct(…) ** degree, and sums and products of them"
)


def as_kernel(kernel: object) -> Kernel:
    """A kernel of credibly as it is, one of scikit-learn translated, with its values and bounds.

    Raises
    ------
    InputError
        For anything else; the message lists what is accepted.

    Notes
    -----
    ExpSineSquared takes the sine of a Euclidean distance, `Periodic` a product over columns: the same in one column,
    and only there is the former positive definite.

    Examples
    --------
    >>> as_kernel(1.44 * theirs.RBF([0.7, 3.1]) + theirs.WhiteKernel(0.1))
    1.2² · RBF(ℓ=[0.7, 3.1]) + White(σ²=0.1)
    """
    if isinstance(kernel, Kernel):
        return kernel
    translate = TRANSLATIONS.get(type(kernel))
    if translate is None:
        raise InputError(f"kernel must be {ACCEPTED}; got {_what(kernel)}.")
    return translate(kernel)


def _what(kernel: object) -> str:
    kind = type(kernel)
    return repr(kernel) if isinstance(kernel, str) else f"{kind.__module__}.{kind.__qualname__}"


def one_or_several(value: Any) -> float | Sequence[float]:
    """A length scale for all columns, or one for each; scikit-learn takes a single one in a list for the former."""
    return float(np.squeeze(value)) if np.size(value) == 1 else tuple(np.asarray(value, dtype=float).tolist())


def bounds_of(kernel: Any, name: str) -> Any:
    """A pair, one pair for each value, or "fixed"."""
    bounds = getattr(kernel, f"{name}_bounds")
    if isinstance(bounds, str):
        return bounds
    pairs = np.atleast_2d(np.asarray(bounds, dtype=float)).tolist()
    return tuple(pairs[0]) if len(pairs) == 1 else tuple(map(tuple, pairs))


def matern(kernel: Any) -> Kernel:
    """Matérn, or RBF for ν = ∞."""
    scale, bounds = one_or_several(kernel.length_scale), bounds_of(kernel, "length_scale")
    if kernel.nu == np.inf:
        return RBF(scale, length_scale_bounds=bounds)
    return Matern(scale, kernel.nu, length_scale_bounds=bounds)


def power(kernel: Any) -> Kernel:
    """A whole power of a dot product is a polynomial."""
    base, degree = kernel.kernel, kernel.exponent
    if type(base) is not theirs.DotProduct or degree != np.floor(degree) or degree < 1:
        raise InputError(
            f"Of scikit-learn's Exponentiation, DotProduct(…) ** degree is taken, degree a whole number from 1 on; "
            f"got ({base}) ** {degree}."
        )
    return Polynomial(int(degree), base.sigma_0, bias_bounds=bounds_of(base, "sigma_0"))


TRANSLATIONS: dict[type, Callable[[Any], Kernel]] = {
    theirs.ConstantKernel: lambda k: Constant(k.constant_value, variance_bounds=bounds_of(k, "constant_value")),
    theirs.WhiteKernel: lambda k: White(k.noise_level, variance_bounds=bounds_of(k, "noise_level")),
    theirs.RBF: lambda k: RBF(one_or_several(k.length_scale), length_scale_bounds=bounds_of(k, "length_scale")),
    theirs.Matern: matern,
    theirs.RationalQuadratic: lambda k: RationalQuadratic(
        k.length_scale,
        k.alpha,
        length_scale_bounds=bounds_of(k, "length_scale"),
        alpha_bounds=bounds_of(k, "alpha"),
    ),
    theirs.ExpSineSquared: lambda k: Periodic(
        k.length_scale,
        k.periodicity,
        length_scale_bounds=bounds_of(k, "length_scale"),
        period_bounds=bounds_of(k, "periodicity"),
    ),
    theirs.DotProduct: lambda k: Linear(k.sigma_0, bias_bounds=bounds_of(k, "sigma_0")),
    theirs.Exponentiation: power,
    theirs.Sum: lambda k: as_kernel(k.k1) + as_kernel(k.k2),
    theirs.Product: lambda k: as_kernel(k.k1) * as_kernel(k.k2),
}
