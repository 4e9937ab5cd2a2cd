"""What a user says of the columns, turned into a family that handles all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from credibly.errors import InputError
from credibly.model.class_conditionals.base import ClassConditional
from credibly.model.class_conditionals.bernoulli import Bernoulli
from credibly.model.class_conditionals.categorical import Categorical
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.gaussian import Gaussian, Spherical
from credibly.model.class_conditionals.independent import Product
from credibly.model.class_conditionals.multinomial import Multinomial
from credibly.model.class_conditionals.multivariate import FullGaussian
from credibly.model.class_conditionals.rates import Exponential, Gamma, Poisson

COVARIANCES = ("shared", "per_class", "diagonal", "spherical")
FAMILIES: dict[str, ColumnFamily[Any]] = {
    family.name: family
    for family in (Gaussian(), Bernoulli(), Categorical(), Multinomial(), Poisson(), Exponential(), Gamma())
}


@dataclass(frozen=True)
class MultivariateGaussian:
    r"""Gaussian classes: x ~ N(μ_c, Σ) or N(μ_c, Σ_c).

    Parameters
    ----------
    covariance : "shared" (default), "per_class", "diagonal" or "spherical"
        One covariance for all classes (linear separators), one for each (quadratic ones), one variance per column and
        class, or one variance per class.

    Examples
    --------
    >>> MultivariateGaussian("shared")
    MultivariateGaussian(covariance='shared')
    """

    covariance: str = "shared"

    def __post_init__(self) -> None:
        if self.covariance not in COVARIANCES:
            raise InputError(f"covariance must be one of {', '.join(COVARIANCES)}; got {self.covariance!r}.")

    def family(self, n_columns: int, shrinkage: float = 0.0) -> ClassConditional[Any]:
        """The family for so many columns."""
        if self.covariance in {"shared", "per_class"}:
            return FullGaussian(self.covariance == "shared", shrinkage)
        return Product.of([Gaussian() if self.covariance == "diagonal" else Spherical()] * n_columns)


@dataclass(frozen=True)
class Independent:
    """Columns of any kinds, independent given the class: one family per column.

    Parameters
    ----------
    columns : list
        For each column `Gaussian()`, `Bernoulli()`, `Categorical()`, `Poisson()`, `Exponential()`, `Gamma(shape)` or
        `Multinomial()` (all multinomial columns together are one factor), or the name of one.

    Examples
    --------
    >>> Independent([Gaussian(), "poisson"])
    Independent([Gaussian(), Poisson()])
    """

    columns: Sequence[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Independent([{', '.join(repr(one_family(column)) for column in self.columns)}])"


def one_family(choice: Any) -> ColumnFamily[Any]:
    """A family by name or as it is."""
    if isinstance(choice, ColumnFamily):
        return choice
    if isinstance(choice, str) and choice in FAMILIES:
        return FAMILIES[choice]
    raise InputError(
        f"A column's family is 'auto', one of {', '.join(map(repr, FAMILIES))}, or an object of "
        f"credibly.class_conditionals (features= takes one for all columns, a list or a dict); got {choice!r}."
    )
