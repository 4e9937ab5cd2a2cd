"""Gaussian processes with inducing points: what `inducing=` may be, and how such a model learns."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import DataWarning, InputError
from credibly.estimators.gaussian_process_plan import EP_SEARCH_TOL, LAPLACE_SEARCH_TOL, Plan
from credibly.inference.inducing_evidence import InducingEvidence, inferring
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.inducing_search import Points
from credibly.inference.kernel_slopes import fixed_places
from credibly.model.kernels import Kernel
from credibly.model.likelihoods import Categorical
from credibly.numerics.arrays import AnyArray, Array, Codes

CHECKED_ROWS = 1_000
POINTS_SEED = 0  # where random_state is None: the same rows give the same points


class Induced(NamedTuple):
    """A plan for latents that hang together through points."""

    plan: Plan
    X: Array
    y: Codes
    kernels: tuple[Kernel, ...]
    threads: int | None

    def evidence(self, rows: AnyArray | None, points: Array) -> InducingEvidence:
        """log p(y | X) of some rows (None: of all) as a function of hyperparameters, with these points."""
        X, y = (self.X, self.y) if rows is None else (self.X[rows], self.y[rows])
        likelihood: Any = self.plan.likelihood
        return InducingEvidence(
            X,
            self.kernels,
            inferring(self.plan.inference, likelihood, y, self.plan.n_classes),
            search_tol=EP_SEARCH_TOL if self.plan.inference == "ep" else LAPLACE_SEARCH_TOL,
            points=points,
            threads=self.threads,
        )

    def begin(self, rows: AnyArray | None, f: Array) -> Array:
        """Where a search for the latents may start, from a guess of them: what the likelihood looks like there."""
        likelihood: Any = self.plan.likelihood
        own_y = self.y if rows is None else self.y[rows]
        labels = [own_y] if f.ndim == 1 else [own_y == c for c in range(f.shape[1])]
        found = []
        for y, own in zip(labels, f.reshape(len(f), -1).T, strict=True):
            at = likelihood.expand(y.astype(float), own)
            found.append(np.stack([at.curvature, at.curvature * own + at.grad]))
        return found[0] if f.ndim == 1 else np.stack(found)


def check_plan(plan: Plan) -> None:
    """Refuse what has no form with inducing points here, and say what has."""
    if isinstance(plan.likelihood, Categorical):
        raise InputError(
            "With inducing points the joint softmax is not available. For more than two classes use inference='ep', "
            "which takes each class against the rest; for two classes likelihood='logit'."
        )
    if plan.inference == "adf":
        raise InputError("With inducing points inference must be 'laplace' or 'ep'; got 'adf'.")
    if plan.noise is not None:
        raise InputError(
            "label_noise is not available with inducing points. Use BayesianLogisticRegression(label_noise=...) on a "
            "basis (credibly.basis.GaussianBasis), or all of fewer rows (inducing=None)."
        )
    if not plan.likelihood.log_concave:
        raise InputError(
            f"With inducing points the likelihood must be log-concave, as 'logit', 'probit' and 'cloglog' are; got "
            f"{plan.likelihood!r}. Use one of those, or all of fewer rows (inducing=None)."
        )


def check_moving(kernels: tuple[Kernel, ...]) -> None:
    """Refuse kernels whose points cannot move."""
    fixed = sorted({part for kernel in kernels for part in fixed_places(kernel)})
    if fixed:
        raise InputError(
            f"optimize_inducing=True is for smooth stationary kernels (RBF, RationalQuadratic, Matern with nu above "
            f"0.5), and sums and products of them with constants; got {', '.join(fixed)}. Use another kernel, or leave "
            "the points where they are (optimize_inducing=False)."
        )


def read_points(rng: np.random.Generator, inducing: Any, X: Array) -> Points:
    """`inducing=`: how many points, or the points."""
    if np.ndim(inducing) == 0:
        return Points(rng, X, _number(inducing, len(X)), None)
    try:
        points = np.array(inducing, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"inducing must be None, a number of points, or a table of them, (m, {X.shape[1]}); got {inducing!r}."
        ) from error
    return Points(rng, X, len(points), _table(points, X.shape[1]))


def _number(inducing: Any, n_rows: int) -> int:
    if isinstance(inducing, bool | np.bool_) or not isinstance(inducing, int | np.integer) or inducing < 1:
        raise InputError(
            f"inducing must be None, a whole number of points of at least 1, or a table; got {inducing!r}."
        )
    if inducing > n_rows:
        raise InputError(
            f"inducing={inducing} points were asked for, and there are {n_rows} rows to choose them from. Use at most "
            "so many, or inducing=None for the exact model."
        )
    return int(inducing)


def _table(points: Array, n_columns: int) -> Array:
    if points.ndim != 2 or points.shape[1] != n_columns or not len(points):
        raise InputError(
            f"inducing must be a table with a row for each point and the {n_columns} columns of X; got shape "
            f"{points.shape}."
        )
    if not np.isfinite(points).all():
        raise InputError("inducing has entries that are NaN or infinite; a point needs a number in every column.")
    return points


def widest_rows(kernel: Kernel, X: Array) -> Array:
    """Some rows to check a kernel on: spread over the table, and the one with the largest variance."""
    with np.errstate(all="ignore"):  # what overflows is refused by the check
        size = np.asarray(kernel.diag(X))
    some = np.linspace(0, len(X) - 1, min(len(X), CHECKED_ROWS)).astype(int)
    return np.asarray(X[np.unique(np.append(some, size.argmax()))])


def used_points(posterior: InducingPosterior, points: Points) -> Array:
    """The points that were used; says so where some of those given say nothing beside the others."""
    used = max((part.whitening.points for part in posterior.parts), key=len)
    if points.given is not None and len(used) < len(points.given):
        warnings.warn(
            f"Of the {len(points.given)} inducing points given {len(used)} are used: the others are the same, or so "
            "near to them that the kernel's values do not tell them apart.",
            DataWarning,
            stacklevel=6,
        )
    return used
