"""Beliefs about the parameters of class-conditional densities: conjugate, so that sums of data update them.

Arrays are allowed where a prior serves several columns: one entry for each.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credibly.model.priors import Beta, check_definite, finite, positive


class _SameNumbers:
    """Equality by value, also where arguments are arrays."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # subclasses are dataclasses
        return all(np.array_equal(np.asarray(getattr(self, a)), np.asarray(getattr(other, a))) for a in names)

    __hash__ = None  # type: ignore[assignment]  # may hold arrays


@dataclass(frozen=True, eq=False)
class NormalInverseWishart(_SameNumbers):
    r"""Beliefs about the mean and covariance of a Gaussian.

    .. math:: Σ \sim \mathrm{IW}(ν, Ψ), \quad μ \mid Σ \sim N(m, Σ / κ), \qquad
              p(Σ) \propto |Σ|^{-(ν + d + 1)/2} \exp(-\tfrac12 \mathrm{tr}(Ψ Σ^{-1}))

    Parameters
    ----------
    mean : (d,) array
        m; one number serves all columns.
    mean_strength : float
        κ: how many rows the belief about the mean is worth.
    scale : (d, d) array
        Ψ. For independent columns (diagonal, spherical) one variance-like number per column, or one for all.
    dof : float
        ν > d - 1; for independent columns every column is a Gaussian of its own, d = 1.

    References
    ----------
    Murphy 2012, sec. 4.6.3.

    Examples
    --------
    >>> NormalInverseWishart(mean=[0.0, 0.0], mean_strength=0.1, scale=[[1.0, 0.0], [0.0, 1.0]], dof=4)
    NormalInverseWishart(mean=(2,), mean_strength=0.1, scale=(2, 2), dof=4)
    """

    mean: ArrayLike
    mean_strength: ArrayLike
    scale: ArrayLike
    dof: ArrayLike

    def __post_init__(self) -> None:
        finite(self.mean, "mean of NormalInverseWishart")
        positive(self.mean_strength, "mean_strength of NormalInverseWishart")
        scale = finite(self.scale, "scale of NormalInverseWishart")
        positive(self.dof, "dof of NormalInverseWishart")
        if scale.ndim >= 2:
            check_definite(scale, "scale of NormalInverseWishart")
        else:
            positive(self.scale, "scale of NormalInverseWishart")

    def __repr__(self) -> str:
        return _written(self)


@dataclass(frozen=True, eq=False)
class Dirichlet(_SameNumbers):
    r"""Beliefs about the probabilities of several outcomes.

    .. math:: p(θ) \propto \prod_l θ_l^{α_l - 1}

    Parameters
    ----------
    alpha : float or array
        One number for all outcomes, or one for each (in the order of the sorted levels).

    Examples
    --------
    >>> Dirichlet(0.5)
    Dirichlet(alpha=0.5)
    """

    alpha: ArrayLike

    def __post_init__(self) -> None:
        positive(self.alpha, "alpha of Dirichlet")

    def __repr__(self) -> str:
        return _written(self)


@dataclass(frozen=True, eq=False)
class Gamma(_SameNumbers):
    r"""Beliefs about a rate.

    .. math:: p(λ) \propto λ^{\mathrm{shape} - 1} \exp(-\mathrm{rate} \cdot λ)

    Examples
    --------
    >>> Gamma(shape=1, rate=0.5)
    Gamma(shape=1, rate=0.5)
    """

    shape: ArrayLike
    rate: ArrayLike

    def __post_init__(self) -> None:
        positive(self.shape, "shape of Gamma")
        positive(self.rate, "rate of Gamma")

    def __repr__(self) -> str:
        return _written(self)


class Reference:
    """No opinion: the improper reference prior of whatever family it is given to."""

    def __repr__(self) -> str:
        return "Reference()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference)

    def __hash__(self) -> int:
        return hash(Reference)


ConjugatePrior: TypeAlias = NormalInverseWishart | Beta | Dirichlet | Gamma | Reference


def _written(prior: Any) -> str:
    parts = []
    for field in fields(prior):
        value = getattr(prior, field.name)
        parts.append(f"{field.name}={value if np.ndim(value) == 0 else np.shape(value)}")
    return f"{type(prior).__name__}({', '.join(parts)})"
