"""Very many weights: which fits do without a matrix of all pairs of them, and how.

==========================  ==============================================================================
up to 5,000 weights         the matrix of all pairs
fewer rows than weights     the row space: an ordinary problem with as many weights as rows, exactly
many of both                conjugate gradients: the Gaussian at the mode, its posterior by draws
==========================  ==============================================================================

The numbers are those of `numerics.settings.ManyWeights`.
"""

from operator import add
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from credibly.data.columns import Columns
from credibly.data.memory import refuse_beyond_memory
from credibly.data.rows import Block, MemoryRows, Rows
from credibly.errors import InputError
from credibly.estimators.problem import Learnt, PriorChoice, Problem
from credibly.inference.frame import Frame
from credibly.inference.row_space import RowSpace
from credibly.model.centred_prior import CentredNormal, IndependentPrior
from credibly.model.priors import Normal
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import is_sparse
from credibly.numerics.settings import ManyWeights

FULL_ARRAYS = 5  # of all pairs of weights that a fit holds at the same time, at the least
BASIS_ARRAYS = 2  # as large as the basis of a row space, while it is made: the rows whitened, and itself


class Reduced(NamedTuple):
    """A problem as it is fitted: in the space of its rows where these are few, else as it is."""

    problem: Problem
    prior: PriorChoice
    frame: Frame  # of the posterior
    full: Problem  # as it was
    choice: PriorChoice

    def lift(self, learnt: Learnt) -> Learnt:
        """What was learnt, with the prior of all weights."""
        if self.problem is self.full:
            return learnt
        if isinstance(self.choice, Normal):
            return learnt._replace(resolved=self.choice)
        assert learnt.prior_scale is not None
        return learnt._replace(resolved=scaled_prior(self.full, float(learnt.prior_scale[0])))


def in_row_space(problem: Problem, choice: PriorChoice) -> Reduced:
    """The problem in the space of its rows, where they are few enough beside its weights and the prior allows it."""
    if _few_rows(problem) and has_independent_slopes(choice):
        return spanned(problem, choice)
    return whole(problem, choice)


def whole(problem: Problem, choice: PriorChoice) -> Reduced:
    """The problem as it is."""
    return Reduced(problem, choice, problem.frame, problem, choice)


def spanned(problem: Problem, choice: PriorChoice) -> Reduced:
    """The problem in the space of its rows."""
    table = _table(problem.raw)
    numbers = BASIS_ARRAYS * problem.raw.n_rows * _occurring(table)
    refuse_beyond_memory(numbers, "a basis of the rows", "Use fewer columns, or a machine with more memory.")
    given = choice if isinstance(choice, Normal) else scaled_prior(problem, 1.0)
    prior = IndependentPrior.of(given, problem.shape)
    space, A = RowSpace.of(table.X, problem.frame, prior)
    small = _with_coordinates(problem, space, table, np.column_stack([A, np.zeros(len(A))]))
    if not isinstance(choice, Normal):
        return Reduced(small, choice, space, problem, choice)
    mean, point = space.to_frame(prior.mean).reshape(-1), _point(space, prior.point)
    turned = CentredNormal(np.ones(space.rank + 1), prior.intercept_scale, point, mean=mean)
    return Reduced(small, turned, space, problem, choice)


def in_coordinates(problem: Problem, space: RowSpace) -> Problem:
    """A problem of all columns in the coordinates of a row space."""
    table = _table(problem.raw)
    return _with_coordinates(problem, space, table, space.design(table.X)[:, : space.rank + 1])


def grown(space: RowSpace, rows: Rows, n_outputs: int, limits: ManyWeights) -> RowSpace:
    """The space of more rows, or an error where there would be too many coordinates."""
    space, largest = space.grown(_table(rows).X), limits.largest_matrix
    if n_outputs * (space.rank + 2) > largest:
        raise InputError(
            f"With these rows the posterior would have {n_outputs * (space.rank + 2):,} coordinates; a model of so "
            f"many weights is updated up to {largest:,} (rows so far, times classes). Fit to all rows at once."
        )
    return space


def _with_coordinates(problem: Problem, space: RowSpace, table: Block, coordinates: Array) -> Problem:
    """An ordinary problem whose columns are the coordinates (A, ρ)."""
    d, rows = space.rank + 1, problem.raw
    threads = rows.threads if isinstance(rows, MemoryRows) else None
    raw = MemoryRows(coordinates, table.y, table.weight, threads=threads, offset=table.offset)
    frame = Frame(np.zeros(d), np.ones(d), space.intercept)
    weight = problem.columns.weight
    columns = Columns(weight, _point(space, problem.columns.mean), np.full(d, weight), np.zeros(d), np.ones(d))
    shape = problem.shape._replace(n_features=d)
    names = [f"direction {i}" for i in range(d)]
    return problem._replace(
        rows=raw.through(frame.design), raw=raw, frame=frame, columns=columns, shape=shape, names=names
    )


def _point(space: RowSpace, point: Array) -> Array:
    """Where in the coordinates (a, e) a point of the columns is."""
    return space.rows_to_frame(np.append(point, 1.0)[: len(point) + space.intercept])[: space.rank + 1]


def _table(rows: Rows) -> Block:
    """All rows as one block."""
    if isinstance(rows, MemoryRows) and not rows.transforms:
        return Block(rows.X, rows.y, rows.weight, rows.offset)
    blocks: list[Block] = rows.sum(lambda block: [block], add)
    tables = [block.X for block in blocks]
    X = csr_array(vstack(tables)) if is_sparse(tables[0]) else np.concatenate(tables)
    offsets = [block.offset for block in blocks if block.offset is not None]
    return Block(
        X,
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
        np.concatenate(offsets) if offsets else None,
    )


def _few_rows(problem: Problem) -> bool:
    """Whether the space of the rows is worth looking for: a matrix of its coordinates is far smaller."""
    limits, (n, shape) = problem.limits, (problem.rows.n_rows, problem.shape)
    fewer = n < shape.per_output if shape.total > limits.largest_matrix else n <= limits.few_rows * shape.per_output
    small = shape.n_outputs * (n + 2) <= limits.largest_matrix
    if not (shape.total > limits.narrow and fewer and small):
        return False
    return n * shape.n_features <= limits.largest_basis or n * _occurring(_table(problem.raw)) <= limits.largest_basis


def _occurring(table: Block) -> int:
    """In how many columns some row is not zero."""
    return len(np.unique(table.X.indices)) if isinstance(table.X, csr_array) else int(table.X.shape[1])


def has_independent_slopes(choice: PriorChoice) -> bool:
    """Whether a prior is known by scales alone, so that it looks the same from all sides once it is whitened."""
    return choice == "empirical" or (isinstance(choice, Normal) and choice.cov is None)


def scaled_prior(problem: Problem, scale: float) -> CentredNormal:
    """The prior of standardised columns with one scale, in data units, without a matrix."""
    return CentredNormal(scale / problem.columns.scale, problem.intercept_scale, problem.columns.mean)


# --- refusals ---------------------------------------------------------------------------------------------------


def refuse_wide(problem: Problem) -> None:
    """Raise where a matrix of all pairs of weights is asked for and there are too many."""
    M, largest = problem.shape.total, problem.limits.largest_matrix
    if M > largest:
        raise InputError(
            f"This model has {M:,} weights; with more than {largest:,} of them a fit cannot hold the matrix of all "
            f"pairs ({8e-9 * M**2:.1f} GB), which what was asked for needs. Without it work prior='empirical' and "
            f"Normal(scale=…) (not 'ard', StudentT, Jeffreys, a covariance or None): with fewer rows than columns, and "
            f"at most {largest:,} (times classes), however else the model is fitted but for 'adf_spherical'; with more "
            "rows for inference='laplace', solver='newton', label_noise=0 and the logit, probit, softmax and other "
            "log-concave likelihoods. Or use fewer columns."
        )
    refuse_large(M)


def refuse_large(n_weights: int, arrays: int = FULL_ARRAYS) -> None:
    """Raise where so many matrices of all pairs of weights do not fit into memory."""
    advice = "Use fewer columns, or a machine with more memory."
    refuse_beyond_memory(arrays * n_weights**2, f"the matrices of all pairs of {n_weights:,} weights", advice)
