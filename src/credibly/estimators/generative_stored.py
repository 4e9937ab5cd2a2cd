"""Generative models of rows that are not in memory: two passes and a sample, since all that they learn are sums."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.data.rows import LARGEST, SMALLEST, Block, Rows
from credibly.errors import InputError
from credibly.estimators.containers import named
from credibly.estimators.generative_learning import Learnt, class_sums, refuse_large
from credibly.estimators.plans import refuse_tiny
from credibly.estimators.stored import Look, codes_of, joined_labels, labels_of, read_names, refuse_no_weight
from credibly.estimators.validation import check_labels, first_row, refuse_one_class
from credibly.inference.conjugate import JointSums
from credibly.model.class_conditionals.base import ClassConditional, NotDetermined
from credibly.model.class_conditionals.categorical import Categorical
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.status import Status

if TYPE_CHECKING:
    from credibly.estimators.generative_base import GenerativeLearning

PLAN_ROWS = 50_000  # from which families of columns are chosen
PLAN_SEED = 0


class Extent(NamedTuple):
    """Labels and extremes of all rows."""

    labels: AnyArray
    counting: AnyArray  # those among the rows that count
    low: Array  # (d,), NaN for a column without values
    high: Array
    n_counted: int


def fit_stored(model: GenerativeLearning, rows: Any) -> None:
    """Learn the densities of all classes from rows that are not in memory."""
    model._refuse_rowwise_shrinkage("A fit to rows that are not in memory")
    read_names(model, rows, reset=True)
    extent = extent_of(rows)
    check_labels(extent.labels)
    refuse_magnitudes(extent, rows.names)
    refuse_one_class(extent.counting)
    classes = extent.counting
    coded = rows.encoded(partial(codes_of, extent.labels))
    try:
        model._plan = plan = _plan(model, coded, extent)
        refuse_large(plan.family, len(plan.names), len(extent.labels))
        sums = _sums(plan.family, coded.through(plan.encode), len(extent.labels))
        sums = sums.take(np.flatnonzero(np.isin(extent.labels, classes)))  # others have no row that counts
        model._declared, model._entropy, model._completed = set(), 0.0, False
        model._n_rows = extent.n_counted
        model.prior_ = model._resolve_prior(None, sums.statistics.pooled())
        joint = model._rule(len(classes)).learn(plan.family, sums)
    except NotDetermined as error:
        model._explain(error, classes)
    model._keep(Learnt(sums, joint, 0.0, np.array([joint.value]), Status.CONVERGED), classes)


def extent_of(rows: Rows) -> Extent:
    """Labels and extremes, in one pass."""
    labels, counting, low, high, counted = rows.sum(_extent, _merged)
    refuse_no_weight(counted)
    return Extent(labels, counting, low, high, int(counted))


def _extent(block: Block) -> Look:
    X = block.X if block.weight is None else block.X[block.weight > 0]
    low = np.fmin.reduce(X, axis=0, initial=np.nan)  # NaN is a missing cell
    high = np.fmax.reduce(X, axis=0, initial=np.nan)
    return (*labels_of(block), low, high, float(len(X)))


def _merged(a: Look, b: Look) -> Look:
    return (*joined_labels(a[:2], b[:2]), np.fmin(a[2], b[2]), np.fmax(a[3], b[3]), a[4] + b[4])


def refuse_magnitudes(extent: Extent, names: list[str]) -> None:
    """Squares of numbers must be numbers."""
    beyond = np.fmax(np.abs(extent.low), np.abs(extent.high)) > LARGEST
    tiny = ~beyond & (extent.high > extent.low) & (extent.high / 2 - extent.low / 2 < SMALLEST / 2)
    if beyond.any():
        raise InputError(
            f"X has infinity (inf), or values beyond 1e100, in column {named(np.array(names)[beyond])}: their squares "
            "cannot be represented. Drop those rows, or change the unit; a missing cell is NaN."
        )
    if tiny.any():
        refuse_tiny(np.array(names)[tiny])


def _plan(model: GenerativeLearning, rows: Rows, extent: Extent) -> Any:
    """How columns are read, from a sample and, so that no column seems constant that is not, all rows' extremes."""
    n_classes = len(extent.labels)
    size = min(PLAN_ROWS, rows.n_rows)
    sample = rows.sample(np.random.default_rng(PLAN_SEED), size, n_classes)
    table = np.vstack([np.asarray(sample.X, dtype=np.float64), extent.low, extent.high])
    codes = np.append(sample.y, [0, 0]).astype(np.intp)
    plan = model._plan_for(table, codes, np.ones(len(codes)))
    if any(isinstance(family, Categorical) for family in getattr(plan, "families", ())):
        raise InputError(
            "Columns of categories, as numbers, cannot be learnt from rows that are not in memory: their levels are "
            "not known beforehand. Name the column in ParquetRows(categories=[...]): then each level is a column."
        )
    return plan


def _sums(family: ClassConditional[Any], rows: Rows, n_classes: int) -> JointSums:
    return rows.sum(partial(_block_sums, family=family, n_classes=n_classes), JointSums.merge)


def _block_sums(block: Block, family: ClassConditional[Any], n_classes: int) -> JointSums:
    if not family.skips_missing and np.isnan(block.X.sum(dtype=np.float64)):
        first = block.start.describe(first_row(np.isnan(block.X)))
        raise InputError(
            f"{block.where}: cells are missing, first in {first}. Columns that depend on each other need complete rows "
            "here; use NaiveBayes, which skips missing cells, or drop those rows."
        )
    return class_sums(block, family, n_classes)
