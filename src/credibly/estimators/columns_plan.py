"""Columns that are independent given the class: which family describes each, and how its cells become numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credibly.errors import DataWarning, InputError
from credibly.estimators.containers import named
from credibly.estimators.left_out import constant_columns, empty_columns, refuse_news, warn_left_out, warn_no_counts
from credibly.estimators.mixed_columns import (
    Column,
    Levels,
    MixedTable,
    Table,
    column_of,
    encoded,
    find_levels,
    in_order,
    infer,
)
from credibly.estimators.plans import GaussianPlan, Plan, Statistics
from credibly.model.class_conditionals.bernoulli import Bernoulli
from credibly.model.class_conditionals.categorical import Categorical, Counts, relevelled
from credibly.model.class_conditionals.choices import Independent, MultivariateGaussian, one_family
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.constant import Constant
from credibly.model.class_conditionals.gaussian import Gaussian
from credibly.model.class_conditionals.independent import Product
from credibly.model.class_conditionals.multivariate import FullGaussian
from credibly.model.class_conditionals.rates import Gamma, gamma_shape
from credibly.model.class_conditionals.statistics import Parts
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense


@dataclass(frozen=True)
class ColumnsPlan(Plan):
    """One family per column, and the levels of those that hold categories."""

    family: Product
    names: list[str]
    families: list[ColumnFamily[Any]]
    levels: list[Levels | None]
    guessed: tuple[int, ...] = ()  # columns whose family features="auto" chose

    @classmethod
    def of(
        cls,
        families: list[ColumnFamily[Any]],
        levels: list[Levels | None],
        names: list[str],
        guessed: tuple[int, ...] = (),
    ) -> ColumnsPlan:
        """Collect columns by family; categories learn how many levels their columns have."""
        product = Product.of(families)
        groups = []
        for group in product.groups:
            # A column without any level yet has one that nobody saw.
            sizes = tuple(max(1, len(one.known)) for j in group.columns.tolist() if (one := levels[j]) is not None)
            kind = Categorical(sizes) if isinstance(group.family, Categorical) else group.family
            groups.append(replace(group, family=kind))
        return cls(Product(tuple(groups)), names, families, levels, guessed)

    def without(self, table: Table, *, drop_constant: bool, drop_empty: bool) -> ColumnsPlan:
        """The plan without columns that have no values, and without Gaussian ones of one value, if so wished."""
        left_out: dict[int, float | None] = {}
        if drop_empty:
            left_out |= dict.fromkeys(empty_columns(table))
            warn_left_out(self.names, list(left_out), "has no values")
        plain = [j for j, family in enumerate(self.families) if type(family) is Gaussian and j not in left_out]
        if drop_constant and plain:
            constant = {j: value for j, value in constant_columns(table).items() if j in plain}
            warn_left_out(self.names, list(constant), "has one value only")
            left_out |= constant
        if not left_out:
            return self
        families = [Constant(left_out[j]) if j in left_out else family for j, family in enumerate(self.families)]
        levels = [None if j in left_out else one for j, one in enumerate(self.levels)]
        return ColumnsPlan.of(families, levels, self.names, self.guessed)

    def encode(self, table: Table) -> DesignMatrix:
        """Numbers, inside the support of every family."""
        X = encoded(table, self.levels)
        try:
            self.family.check(X, self.names)
        except InputError as error:
            if not self.guessed:
                raise
            raise InputError(
                f"{error} features='auto' chose the families of columns from the rows of the first fit; name this "
                "one's, as in features={'column': 'gaussian'}."
            ) from error
        return X

    def to_predict(self, table: Table) -> DesignMatrix:
        """Numbers to predict from: where "auto" saw two values, a third counts as missing, with a warning."""
        X = encoded(table, self.levels)
        strange = {}
        for j in self.guessed:
            family = self.families[j]
            if isinstance(family, Bernoulli) and (news := family.strange(column_of(X, j).values)).any():
                strange[j] = news
        if strange:
            X = dense(X).copy()
            for j, news in strange.items():
                X[news, j] = np.nan
            warnings.warn(
                f"Column {named([self.names[j] for j in strange])} had two values in training and was read as "
                "Bernoulli; other values count as missing. If it is no yes/no, name its family, as in "
                "features={'column': 'poisson'}.",
                DataWarning,
                stacklevel=4,
            )
        return self.encode(X) if strange else self.encode(table)

    def grown(self, table: Table, statistics: Statistics) -> tuple[Plan, Statistics]:
        """With the levels of these rows, too."""
        constant = {j: family.value for j, family in enumerate(self.families) if isinstance(family, Constant)}
        refuse_news(constant, table, self.names)
        found = find_levels(table, self.families)
        levels = [
            None if old is None or new is None else old.joined(new) for old, new in zip(self.levels, found, strict=True)
        ]
        return self._with(levels, statistics)

    def shrunk(self, statistics: Statistics) -> tuple[Plan, Statistics]:
        """Without levels that have no count and were not declared."""
        levels = list(self.levels)
        for group, part in zip(self.family.groups, statistics.parts, strict=True):
            if isinstance(group.family, Categorical):
                for j, start, size in zip(group.columns, group.family.starts, group.family.sizes, strict=False):
                    counts, known = part.counts[:, start : start + size].sum(axis=0), self.levels[j]
                    assert known is not None  # it is a column of categories
                    kept = {lev for lev, n in zip(known.known, counts, strict=True) if n > 0 or lev in known.declared}
                    levels[j] = Levels(in_order(kept), known.declared)
        return self._with(levels, statistics)

    def joined(self, other: Plan, mine: Statistics, theirs: Statistics) -> tuple[Plan, Statistics, Statistics]:
        """One plan with the levels of both."""
        if not isinstance(other, ColumnsPlan) or self.families != other.families:
            what = other.families if isinstance(other, ColumnsPlan) else other.kinds
            raise InputError(
                f"The models read their columns as different families: {self.families} and {what}. Give both the "
                "same features=."
            )
        pairs = zip(self.levels, other.levels, strict=True)
        levels = [None if a is None or b is None else a.joined(b) for a, b in pairs]
        plan, ours = self._with(levels, mine)
        return plan, ours, other._with(levels, theirs)[1]

    def _with(self, levels: list[Levels | None], statistics: Statistics) -> tuple[ColumnsPlan, Statistics]:
        if levels == self.levels:
            return self, statistics
        plan = ColumnsPlan.of(self.families, levels, self.names, self.guessed)
        parts = []
        for old, new, part in zip(self.family.groups, plan.family.groups, statistics.parts, strict=True):
            parts.append(self._moved(old.family, new.family, part, old.columns, levels))
        return plan, Parts(tuple(parts))

    def _moved(
        self, old: ColumnFamily[Any], new: ColumnFamily[Any], part: Any, columns: Codes, levels: Sequence[Levels | None]
    ) -> Any:
        if not isinstance(old, Categorical) or not isinstance(new, Categorical):
            return part
        order = []
        for j in columns.tolist():
            was, now = self.levels[j], levels[j]
            assert was is not None and now is not None  # columns of categories
            index = {level: i for i, level in enumerate(now.known)}
            order.append(np.array([index.get(level, -1) for level in was.known], dtype=np.intp))
        assert isinstance(part, Counts)
        return relevelled(part, old, order, new.sizes)

    def decode(self, X: Array) -> AnyArray:
        """Numbers of levels as levels; an array of objects where some are not numbers."""
        if all(one is None for one in self.levels):
            return X
        table = X.astype(object)
        for j, one in enumerate(self.levels):
            if one is not None:
                table[:, j] = np.array(one.known, dtype=object)[X[:, j].astype(int)]
        numbers = all(isinstance(v, int | float) for one in self.levels if one is not None for v in one.known)
        return table.astype(float) if numbers else table

    @property
    def kinds(self) -> list[str]:
        """The name of each column's family."""
        return [family.name for family in self.families]

    def row_names(self) -> list[str]:
        """Columns, or levels of columns."""
        names, seen = [], dict.fromkeys(range(len(self.names)), 0)
        for j in self.family.row_columns(len(self.names)).tolist():
            one = self.levels[j]
            names.append(self.names[j] if one is None else f"{self.names[j]}={one.known[seen[j]]}")
            seen[j] += 1
        return names


def gaussian_plan(
    choice: MultivariateGaussian,
    table: Table,
    names: list[str],
    *,
    shrinkage: float,
    drop_constant: bool,
    drop_empty: bool,
) -> Plan:
    """The plan for Gaussian classes with any kind of covariance."""
    assert not isinstance(table, MixedTable)  # read as numbers
    family = choice.family(table.shape[1], shrinkage)
    if isinstance(family, FullGaussian):
        return GaussianPlan.of(family, table, names, drop_constant=drop_constant)
    assert isinstance(family, Product)
    kinds = [family.groups[0].family] * table.shape[1]
    plan = ColumnsPlan.of(kinds, [None] * table.shape[1], names)
    return plan.without(table, drop_constant=drop_constant, drop_empty=drop_empty)


def chosen_families(choice: Any, table: Table, names: list[str]) -> tuple[list[ColumnFamily[Any]], tuple[int, ...]]:
    """One family per column (all alike, listed, named in a dict, or inferred), and which were inferred."""
    if isinstance(choice, Independent):
        choice = choice.columns
    if isinstance(choice, dict):
        unknown = [key for key in choice if key not in names]
        if unknown:
            raise InputError(f"features names columns that are not there: {named(unknown)}; there are {named(names)}.")
        choice = [choice.get(name, "auto") for name in names]
    if not isinstance(choice, list | tuple):
        choice = [choice] * len(names)
    if len(choice) != len(names):
        raise InputError(f"There are {len(choice)} families for {len(names)} columns; give one for each.")
    guessed = tuple(j for j, one in enumerate(choice) if isinstance(one, str) and one == "auto")
    inferred = infer(table) if guessed else []
    return [inferred[j] if j in set(guessed) else one_family(one) for j, one in enumerate(choice)], guessed


def columns_plan(choice: Any, table: Table, codes: Codes, weight: Array | None, names: list[str]) -> ColumnsPlan:
    """The plan for columns that are independent given the class."""
    families, guessed = chosen_families(choice, table, names)
    families = [
        _with_shape(family, column_of(table, j), codes, weight) if isinstance(family, Gamma) else family
        for j, family in enumerate(families)
    ]
    warn_no_counts(families, guessed, table, codes, names)
    return ColumnsPlan.of(families, find_levels(table, families), names, guessed)


def _with_shape(family: Gamma, column: Column, codes: Codes, weight: Array | None) -> Gamma:
    """A gamma column whose shape is to be found: maximum likelihood with a rate for every class."""
    values = column.values
    if family.shape is not None or column.text or not (values[~np.isnan(values)] > 0).all():
        return Gamma(1.0) if family.shape is None else family  # outside the support: the family's check says so
    weights = np.ones(len(codes)) if weight is None else weight
    gap, total = 0.0, 0.0
    for c in range(int(codes.max()) + 1):
        chosen = (codes == c) & ~np.isnan(values)
        x, w = values[chosen], weights[chosen]
        if w.sum() > 0:
            mean, log_mean = float(w @ x / w.sum()), float(w @ np.log(x) / w.sum())
            gap, total = gap + w.sum() * (np.log(mean) - log_mean), total + w.sum()
    return Gamma(gamma_shape(gap / total if total else 0.0))
