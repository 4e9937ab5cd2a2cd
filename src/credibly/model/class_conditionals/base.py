"""What every class-conditional density can do: three roles, from sums over rows to densities.

====================  =========================================================================================
`ClassConditional`    the family: turns rows into statistics (sums that merge), and those into …
`Beliefs`             … a conjugate posterior of the parameters of every class, or …
`Density`             … one density per class, its parameters known.
====================  =========================================================================================

All classes are handled together (first axis of every statistic), since some families share parameters over classes.
NaN is a cell that was not observed: it is integrated out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from credibly.errors import InputError, NotDefinedError
from credibly.model.class_conditionals.statistics import Statistics
from credibly.model.conjugate_priors import ConjugatePrior
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix

Sums = TypeVar("Sums", bound=Statistics)
Prior: TypeAlias = ConjugatePrior | Sequence[ConjugatePrior]


class Linear(NamedTuple):
    """log p(x | c) = slopes_c · x + offset_c + what all classes share."""

    slopes: Array  # (K, d)
    offsets: Array  # (K,)


class Estimates(NamedTuple):
    """What is known of E[x | c]: one row per class, one column per quantity of `row_columns`."""

    mean: Array  # (K, R)
    sd: Array
    lower: Array
    upper: Array


class Completed(NamedTuple):
    """Expected statistics of rows with missing cells, and the entropy of those cells."""

    statistics: Any
    entropy: float


class Divisor(NamedTuple):
    """By what a scatter is divided to become a variance: n - per_group, n_total - per_group · K where shared."""

    per_group: int  # 0: maximum likelihood; 1: R's


MAXIMUM_LIKELIHOOD, MOMENT = Divisor(0), Divisor(1)


class Density(ABC, Generic[Sums]):
    """p(x | c) for every class, parameters known."""

    @abstractmethod
    def log_density(self, X: DesignMatrix) -> Array:
        """log p(x | c), (n, K), missing cells integrated out."""

    def log_ratio(self, X: DesignMatrix) -> Array:
        """log p(x | c) up to a term that all classes share, (n, K): enough for probabilities, and sometimes cheaper."""
        return self.log_density(X)

    @abstractmethod
    def log_likelihood(self, statistics: Sums) -> float:
        """The log density of all rows behind the statistics, each in its class."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        """One row for every class code, (n, d)."""

    @abstractmethod
    def linear(self) -> Linear | None:
        """The density's logarithm as a linear function of x, where it is one."""

    def natural(self) -> Array:
        """Natural parameters η of h(x) g(η) exp(ηᵀu(x)), classes first; with u(x) = x these are the slopes, (K, d)."""
        linear = self.linear()
        if linear is None:
            raise NotDefinedError("These densities have no finite natural parameters with u(x) = x.")
        return linear.slopes

    @abstractmethod
    def center(self) -> Array:
        """E[x | c] for the rows of a summary, (K, R)."""

    @abstractmethod
    def spread(self) -> Array:
        """Standard deviations of x within each class for the rows of a summary, (K, R)."""


class Beliefs(ABC, Generic[Sums]):
    """A conjugate posterior of the parameters of every class."""

    log_marginal: float
    """log p(X | y), parameters integrated out; NaN under an improper prior."""

    @abstractmethod
    def log_predictive(self, X: DesignMatrix) -> Array:
        """log p(x | c, data), (n, K): parameters and missing cells integrated out."""

    @abstractmethod
    def log_expected(self, X: DesignMatrix) -> Array:
        """E[log p(x | c)] over the parameters, (n, K), missing cells completed (variational Bayes)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Density[Sums]:
        """A density with parameters drawn from the posterior."""

    @abstractmethod
    def expectation(self) -> Density[Sums]:
        """The density with parameters at their posterior means."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        """One row of the posterior predictive for every class code, (n, d)."""

    @abstractmethod
    def estimates(self, level: float) -> Estimates:
        """Posterior mean, sd and equal-tailed interval of E[x | c]."""

    def linear(self) -> Linear | None:
        """The predictive density's logarithm as a linear function of x, where it is one."""
        return None

    @property
    def filling(self) -> Density[Sums]:
        """The density that missing cells are completed with."""
        return self.expectation()


class ClassConditional(ABC, Generic[Sums]):
    """A family of densities p(x | c) with conjugate priors; learning is a sum over rows."""

    skips_missing: bool = True
    """Whether a missing cell can simply be left out of the sums."""

    @abstractmethod
    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Sums:
        """Statistics of a block of rows."""

    @property
    def describing(self) -> ClassConditional[Any]:
        """The family whose statistics of all rows, missing cells skipped, the empirical prior is made of."""
        return self

    @abstractmethod
    def empirical_prior(self, pooled: Any) -> Prior:
        """A weak prior in the units of the data, from all rows as one class."""

    @abstractmethod
    def reference_prior(self) -> Any:
        """The prior that has no opinion, often improper."""

    @abstractmethod
    def posterior(self, statistics: Sums, prior: Prior) -> Beliefs[Sums]:
        """What is believed of the parameters after the data."""

    @abstractmethod
    def plug_in(self, statistics: Sums, divisor: Divisor) -> Density[Sums]:
        """The density at the estimated parameters; refuses classes that do not determine them."""

    @abstractmethod
    def n_parameters(self, statistics: Sums) -> int:
        """How many numbers the densities of all classes have."""

    def row_columns(self, n_columns: int) -> Codes:
        """Which column each quantity of a summary is about, (R,)."""
        return np.arange(n_columns)

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        """Refuse values outside the family's support."""

    @property
    def while_completing(self) -> ClassConditional[Sums]:
        """The family that rows are completed with: one whose estimates maximise the likelihood."""
        return self

    def complete(
        self, X: DesignMatrix, codes: Codes, weight: Array, n_classes: int, filling: Density[Sums]
    ) -> Completed:
        """Expected statistics of rows with missing cells; where cells are skipped these are the plain ones."""
        return Completed(self.summarise(X, codes, weight, n_classes), 0.0)


class NotDetermined(InputError):
    """A class whose rows do not determine its parameters.

    Parameters
    ----------
    why : str
        A clause about the class: "has 3 rows for 5 columns".
    code : int or None
        The class, None for all of them together.
    columns : (k,) int array or None
        Columns to name.
    """

    def __init__(self, why: str, code: int | None = None, columns: Codes | None = None) -> None:
        super().__init__(f"{'the classes together' if code is None else f'class number {code}'} {why}")
        self.why, self.code, self.columns = why, code, columns
