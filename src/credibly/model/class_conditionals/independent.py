"""Columns of several kinds, independent given the class: a product of families, each with its own columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credibly.errors import InputError
from credibly.model.class_conditionals.base import (
    Beliefs,
    ClassConditional,
    Density,
    Divisor,
    Estimates,
    Linear,
    NotDetermined,
    Prior,
)
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.statistics import Parts
from credibly.model.conjugate_priors import ConjugatePrior
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix

Pieces = tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """One family and the columns it describes."""

    family: ColumnFamily[Any]
    columns: Codes

    def of(self, X: DesignMatrix) -> DesignMatrix:
        """The group's columns; all columns in order need no copy."""
        if len(self.columns) == X.shape[1]:
            return X
        return X[:, self.columns]


@dataclass(frozen=True)
class Product(ClassConditional[Parts]):
    r"""Independent columns, each of its own kind.

    .. math:: p(x \mid c) = \prod_j p_j(x_j \mid c)

    Columns of one kind are handled together; multinomial columns are one factor.
    """

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, families: Sequence[ColumnFamily[Any]]) -> Product:
        """One family per column; equal ones are collected."""
        groups: list[tuple[ColumnFamily[Any], list[int]]] = []
        for j, family in enumerate(families):
            known = next((columns for other, columns in groups if other == family), None)
            if known is None:
                groups.append((family, [j]))
            else:
                known.append(j)
        return cls(tuple(Group(family, np.array(columns)) for family, columns in groups))

    @property
    def n_columns(self) -> int:
        """How many columns there are in all."""
        return sum(len(group.columns) for group in self.groups)

    def _each(self, do: Callable[..., Any], *parts: Pieces) -> Pieces:
        done = []
        for group, *items in zip(self.groups, *parts, strict=True):
            try:
                done.append(do(group.family, *items))
            except NotDetermined as error:  # its columns are numbered within the group
                columns = None if error.columns is None else group.columns[error.columns]
                raise NotDetermined(error.why, error.code, columns) from error
        return tuple(done)

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Parts:
        parts = (group.family.summarise(group.of(X), codes, weight, n_classes) for group in self.groups)
        return Parts(tuple(parts))

    def empirical_prior(self, pooled: Parts) -> list[ConjugatePrior]:
        return self._in_column_order(self._each(lambda family, part: family.empirical_prior(part), pooled.parts))

    def reference_prior(self) -> list[ConjugatePrior]:
        return self._in_column_order([[g.family.reference_prior()] * len(g.columns) for g in self.groups])

    def _in_column_order(self, parts: Sequence[Sequence[ConjugatePrior]]) -> list[ConjugatePrior]:
        priors: dict[int, ConjugatePrior] = {}
        for group, part in zip(self.groups, parts, strict=True):
            priors |= dict(zip(group.columns.tolist(), part, strict=True))
        return [priors[j] for j in range(self.n_columns)]

    def posterior(self, statistics: Parts, prior: Prior) -> ProductBeliefs:
        if isinstance(prior, Sequence) and len(prior) != self.n_columns:
            raise InputError(
                f"prior has {len(prior)} entries for {self.n_columns} columns; give one, or one for each column."
            )
        given = [[prior[j] for j in g.columns] if isinstance(prior, Sequence) else prior for g in self.groups]
        parts = self._each(lambda family, part, one: family.posterior(part, one), statistics.parts, tuple(given))
        return ProductBeliefs(self.groups, parts, float(sum(part.log_marginal for part in parts)))

    def plug_in(self, statistics: Parts, divisor: Divisor) -> ProductDensity:
        return ProductDensity(self.groups, self._each(lambda f, part: f.plug_in(part, divisor), statistics.parts))

    def n_parameters(self, statistics: Parts) -> int:
        return sum(self._each(lambda family, part: family.n_parameters(part), statistics.parts))

    def row_columns(self, n_columns: int) -> Codes:
        return np.concatenate([group.columns[group.family.row_columns(len(group.columns))] for group in self.groups])

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        for group in self.groups:
            group.family.check(group.of(X), [names[j] for j in group.columns.tolist()])


@dataclass(frozen=True)
class ProductDensity(Density[Parts]):
    """A product of densities over groups of columns."""

    groups: tuple[Group, ...]
    parts: Pieces

    def _sum(self, X: DesignMatrix, log_density: Callable[[Any, DesignMatrix], Array]) -> Array:
        return np.asarray(sum(log_density(part, g.of(X)) for g, part in zip(self.groups, self.parts, strict=True)))

    def log_density(self, X: DesignMatrix) -> Array:
        return self._sum(X, lambda part, table: part.log_density(table))

    def log_likelihood(self, statistics: Parts) -> float:
        return float(sum(part.log_likelihood(s) for part, s in zip(self.parts, statistics.parts, strict=True)))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return _drawn_columns(self.groups, self.parts, rng, codes)

    def linear(self) -> Linear | None:
        return _linear(self.groups, self.parts)

    def center(self) -> Array:
        return np.concatenate([part.center() for part in self.parts], axis=1)

    def spread(self) -> Array:
        return np.concatenate([part.spread() for part in self.parts], axis=1)


def _linear(groups: tuple[Group, ...], parts: Pieces) -> Linear | None:
    found = [part.linear() for part in parts]
    if any(part is None for part in found):
        return None
    slopes = np.empty((len(found[0].offsets), sum(len(group.columns) for group in groups)))
    for group, part in zip(groups, found, strict=True):
        slopes[:, group.columns] = part.slopes
    return Linear(slopes, np.asarray(sum(part.offsets for part in found)))


def _drawn_columns(groups: tuple[Group, ...], parts: Pieces, rng: np.random.Generator, codes: Codes) -> Array:
    X = np.empty((len(codes), sum(len(group.columns) for group in groups)))
    for group, part in zip(groups, parts, strict=True):
        X[:, group.columns] = part.sample(rng, codes)
    return X


@dataclass(frozen=True)
class ProductBeliefs(Beliefs[Parts]):
    """Independent beliefs about the parameters of groups of columns."""

    groups: tuple[Group, ...]
    parts: Pieces
    log_marginal: float = np.nan

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(group.columns)} {group.family.name}" for group in self.groups)
        return f"ProductBeliefs({kinds})"

    def _sum(self, X: DesignMatrix, log_density: Callable[[Any, DesignMatrix], Array]) -> Array:
        return np.asarray(sum(log_density(part, g.of(X)) for g, part in zip(self.groups, self.parts, strict=True)))

    def log_predictive(self, X: DesignMatrix) -> Array:
        return self._sum(X, lambda part, table: part.log_predictive(table))

    def log_expected(self, X: DesignMatrix) -> Array:
        return self._sum(X, lambda part, table: part.log_expected(table))

    def linear(self) -> Linear | None:
        return _linear(self.groups, self.parts)

    def draw(self, rng: np.random.Generator) -> ProductDensity:
        return ProductDensity(self.groups, tuple(part.draw(rng) for part in self.parts))

    def expectation(self) -> ProductDensity:
        return ProductDensity(self.groups, tuple(part.expectation() for part in self.parts))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return _drawn_columns(self.groups, self.parts, rng, codes)

    def estimates(self, level: float) -> Estimates:
        parts = [part.estimates(level) for part in self.parts]
        return Estimates(*(np.concatenate(values, axis=1) for values in zip(*parts, strict=True)))
