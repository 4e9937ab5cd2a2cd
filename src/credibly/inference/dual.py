"""Fewer rows than weights: Laplace with matrices of rows by rows, exactly what weight space would give.

Notation
--------
====  ======================================================================================  =============
Z     rows of the design                                                                      (n, D)
P     precision of the prior of one weight vector, GᵀG                                        never formed
K     covariance of the scores under the prior, Z P⁻¹ Zᵀ                                      (n, n)
a     the mode is u = m₀ + P⁻¹Zᵀa                                                             (n,) or (n, C)
B     root of a row's curvature in its scores, B Bᵀ                                           (n, C, J)
C     I + BᵀKB                                                                                (n·J, n·J)
θ     log scale of all slopes of standardised columns                                         scalar
====  ======================================================================================  =============

A linear model is a Gaussian process with kernel K; the search for the mode is that of function space.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import vstack

from credibly.data.source import Rows
from credibly.inference.laplace import Controls
from credibly.inference.latent import Precision
from credibly.inference.latent_newton import AtMode, Mode, Point, find_mode
from credibly.inference.posterior import InferenceResult, WideGaussian
from credibly.inference.scale_search import Evidence
from credibly.inference.wide_prior import WidePrior
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.arrow import Arrow
from credibly.numerics.linalg import PSD, DesignMatrix
from credibly.numerics.low_rank import RowDirections, WidePrecision, rows_core
from credibly.numerics.newton import Local, Solution, Status

REMEMBERED = 2  # fits: a search by bracketing comes back to its last points


class RowTable(NamedTuple):
    """All rows at once: there are few."""

    Z: DesignMatrix
    y: AnyArray
    weight: Array
    offset: Array | float

    @classmethod
    def of(cls, rows: Rows) -> "RowTable":
        """Read the rows."""
        parts = list(rows.each(lambda block: block))
        tables = [part.X for part in parts]
        Z = np.concatenate(tables) if isinstance(tables[0], np.ndarray) else vstack(tables, format="csr")
        offset = None if parts[0].offset is None else np.concatenate([part.offset for part in parts])
        y, weight = np.concatenate([part.y for part in parts]), np.concatenate([part.weights for part in parts])
        return cls(Z, y, weight, 0.0 if offset is None else offset)


class At(NamedTuple):
    """The likelihood at some scores, rows weighted."""

    log_prob: Array
    grad: Array
    root: Array  # B, (n, C, J)


class Weighed(NamedTuple):
    """K⁻¹ + B Bᵀ, factorised."""

    root: Array
    core: PSD

    @property
    def logdet(self) -> float:
        """Log determinant of I + K B Bᵀ."""
        return self.core.logdet

    def weigh(self, u: Array) -> Array:
        """(K + (B Bᵀ)⁻¹)⁻¹ u = B C⁻¹ Bᵀ u."""
        n, C, J = self.root.shape
        inner = self.core.solve(np.einsum("nkj,nk->nj", self.root, u.reshape(n, C)).reshape(-1))
        return np.asarray(np.einsum("nkj,nj->nk", self.root, inner.reshape(n, J))).reshape(u.shape)


class DualProblem(NamedTuple):
    """What the search for the mode in function space asks of a linear model."""

    likelihood: Likelihood | Categorical
    table: RowTable
    K: Array  # (n, n)
    center: Array | float  # scores at the prior mean, with offsets

    def times(self, u: Array) -> Array:
        """K u."""
        return np.asarray(self.K @ u)

    def expand(self, f: Array) -> At:
        """The likelihood at some scores."""
        weight = self.table.weight
        if isinstance(self.likelihood, Categorical):
            classes = self.likelihood.expand(self.table.y, f + self.center)
            root = np.sqrt(classes.proba)
            # B = diag(√p) - p √pᵀ, for B Bᵀ = diag(p) - p pᵀ.
            B = root[:, :, None] * np.eye(root.shape[1]) - classes.proba[:, :, None] * root[:, None, :]
            return At(classes.log_prob * weight, classes.grad * weight[:, None], B * np.sqrt(weight)[:, None, None])
        at = self.likelihood.expand(self.table.y, f + self.center)
        return At(at.log_prob * weight, at.grad * weight, np.sqrt(at.curvature * weight)[:, None, None])

    def factorise(self, here: Point[At]) -> tuple[Weighed, bool]:
        """K⁻¹ + B Bᵀ; the likelihood is log-concave, so that nothing has to stand in."""
        return Weighed(here.at.root, rows_core(self.K, here.at.root)), False


@dataclass(frozen=True)
class DualFit(AtMode[At, Weighed]):
    """The Gaussian at the mode, its evidence, and how the search ended."""

    problem: DualProblem

    def result(self, prior: WidePrior) -> InferenceResult:
        """The posterior of the weights."""
        point, table = self.mode.point, self.problem.table
        pull = np.asarray(table.Z.T @ point.a).T.reshape(prior.mean.shape)
        mean = prior.mean + prior.arrow.solve(prior.arrow.whiten(pull))
        core = self.mode.precision.core
        precision = WidePrecision(RowDirections(prior.arrow, table.Z, point.at.root, core))
        residual = point.a - point.at.grad
        left = self.problem.times(residual)
        decrement = float(np.vdot(left, residual - self.mode.precision.weigh(left)))
        grad = np.asarray(table.Z.T @ residual).T.reshape(-1)
        local = Local(point.value, grad, precision)  # type: ignore[arg-type]  # answers the same questions
        return InferenceResult(
            posterior=WideGaussian(mean.reshape(-1), precision),
            log_evidence=self.log_evidence,
            log_likelihood=self.log_likelihood,
            solution=Solution(mean.reshape(-1), local, self.status, self.steps, decrement),
        )

    def scale_slope(self, intercept: float) -> float:
        r"""d log Z / dθ where K = e^{2θ} S + t² 11ᵀ, with the mode's own movement; `intercept` is t.

        .. math:: a^T K' a - \operatorname{tr}(R K') + 2 u^T K' a, \quad K' = e^{2θ} S, \quad u = (I + B B^T K)^{-1} s,
            \quad s = -\tfrac12 \partial \operatorname{tr}(Σ_i B_i B_i^T) / \partial f_i

        References
        ----------
        RW06 eq. 5.21–5.24, Alg. 5.1.
        """
        point, precision = self.mode.point, self.mode.precision
        n, C, J = point.at.root.shape
        a = point.a.reshape(n, C)
        moved = self.problem.times(a) - intercept**2 * a.sum(axis=0)  # K'a
        s = -0.5 * self._curvature_slope().reshape(n, C)
        u = s - precision.weigh(self.problem.times(s))
        lean = precision.core.half_solve(np.asfortranarray(point.at.root.transpose(0, 2, 1).reshape(n * J, C)))
        trace = n * J - precision.core.inverse_diagonal().sum() - intercept**2 * (lean**2).sum()
        return float(np.vdot(a, moved) - trace + 2 * np.vdot(u, moved))

    def _curvature_slope(self) -> Array:
        """d tr(Σ_i W_i)/df_i for every row and score, Σ held still; rows weighted."""
        problem, weight = self.problem, self.problem.table.weight
        f = self.mode.point.f + problem.center
        root, core = self.mode.precision
        if not isinstance(problem.likelihood, Categorical):
            curvature, one = root[:, 0, 0] ** 2, root[:, 0, 0]
            v = Precision(curvature, one, core, None, core.logdet).variances(problem.K)
            return problem.likelihood.curvature_slope(problem.table.y, f, v) * weight
        n, C, J = root.shape
        cross = np.einsum("nm,nkj->njmk", problem.K, root).reshape(n * J, n * C)
        white = core.half_solve(np.asfortranarray(cross)).reshape(n * J, n, C)
        V = np.diag(problem.K)[:, None, None] * np.eye(C) - np.einsum("rnk,rnl->nkl", white, white)
        return problem.likelihood.curvature_slope(problem.likelihood.mean(f), V) * weight[:, None]


def inner_products(arrow: Arrow, Z: DesignMatrix) -> Array:
    """K, symmetric to the last bit."""
    K = arrow.products(Z, Z)
    return np.asarray(0.5 * (K + K.T))


def dual_fit(problem: DualProblem, start: Array | None, controls: Controls) -> DualFit:
    """Find the mode, and the Gaussian there."""
    C = problem.likelihood.n_classes if isinstance(problem.likelihood, Categorical) else None
    zero = np.zeros(len(problem.K) if C is None else (len(problem.K), C))
    mode: Mode[At, Weighed] = find_mode(problem, zero if start is None else _lower(problem, start, zero), controls)
    return DualFit(mode, problem)


def _lower(problem: DualProblem, start: Array, zero: Array) -> Array:
    """Where to start: at the mode of another scale, unless scores that grew with the scale make it a bad place."""
    with np.errstate(over="ignore", invalid="ignore"):
        there, origin = (Point(a, f, problem.expand(f)).value for a in (start, zero) for f in (problem.times(a),))
    return start if there <= origin else zero  # what is not a number is no place to start from


def dual_laplace(
    likelihood: Likelihood | Categorical, rows: Rows, prior: WidePrior, controls: Controls = Controls()
) -> InferenceResult:
    """Laplace under a given prior: the same posterior and evidence as `laplace`, at the cost of n × n matrices.

    Parameters
    ----------
    likelihood : Likelihood or Categorical
        Log-concave.
    rows : Rows of the design
    prior : WidePrior
    controls : Controls
    """
    table = RowTable.of(rows)
    scores = np.asarray(table.Z @ prior.mean.T)
    center = scores if isinstance(likelihood, Categorical) else scores[:, 0] + table.offset
    problem = DualProblem(likelihood, table, inner_products(prior.arrow, table.Z), center)
    return dual_fit(problem, None, controls).result(prior)


class DualSurface:
    """The evidence as a function of one log scale of all slopes: one Gram matrix serves all scales.

    Parameters
    ----------
    likelihood : Likelihood or Categorical
        Log-concave.
    rows : Rows of the design
    prior_at : function of the log scale
        The prior, of mean zero; its arrow's last diagonal entry is that of the intercept, whatever the scale.
    intercept : float
        The scale of the intercept, zero where there is none.
    controls : Controls
    """

    def __init__(
        self,
        likelihood: Likelihood | Categorical,
        rows: Rows,
        prior_at: Callable[[float], WidePrior],
        intercept: float,
        controls: Controls,
    ) -> None:
        self.prior_at, self.intercept, self.controls = prior_at, intercept, controls
        table = RowTable.of(rows)
        slopes = inner_products(prior_at(0.0).arrow, table.Z) - intercept**2
        self.problem = DualProblem(likelihood, table, slopes, table.offset)
        self.status = Status.CONVERGED  # of the worst fit so far
        self.seen: dict[float, Evidence] = {}
        self.warm: Array | None = None

    def __call__(self, theta: Array) -> Evidence:
        """The fit at a scale, started from the last one."""
        at = float(theta[0])
        if at not in self.seen:
            for old in list(self.seen)[: 1 - REMEMBERED]:  # before the fit: each holds a matrix of rows by rows
                del self.seen[old]
            fit = dual_fit(
                self.problem._replace(K=np.exp(2 * at) * self.problem.K + self.intercept**2), self.warm, self.controls
            )
            if not fit.status.good:
                self.status = fit.status
            self.warm = fit.warm
            gradient = np.array([fit.scale_slope(self.intercept)])
            self.seen[at] = Evidence(fit.result(self.prior_at(at)), gradient, np.empty(0))
        return self.seen[at]
