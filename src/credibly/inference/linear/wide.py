"""Laplace where weights and rows are many: the mode by Newton and conjugate gradients, the posterior by draws.

Notation
--------
====  ======================================================================================  ===========
x     weights whitened by their prior, w = m + T(s∘x), the score at a point b + pᵀw likewise   (K, D)
T     turns classes such that the first is their mean, of which the rows say nothing          (K, K)
z̃     a row as it multiplies x: (s∘(x_row - p), t), t the intercept's scale                   (D,)
f     scores of the rows                                                                      (n, K)
W     curvature of the likelihood in the scores of a row: a number, or diag(π) - ππᵀ          (n, …)
H     Σ_n W ⊗ z̃z̃ᵀ, so that I + H is the precision of x; never formed                          (M, M)
P     diagonal of I + H, the preconditioner                                                   (M,)
====  ======================================================================================  ===========

Rows are never whitened, centred or scaled: the vectors that they are multiplied with are. Sparse rows stay sparse.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import accumulate, pairwise
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_array

from credibly.data.rows import Block, MemoryRows, Rows
from credibly.data.threads import default_threads, in_order, single_threaded_blas
from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian, Scores
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.design import Standardization
from credibly.inference.linear.row_space import has_independent_slopes
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.centred_prior import IndependentPrior
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.iterative import Solved, conjugate_gradients, log_quadratic
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.newton import newton
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights
from credibly.numerics.status import CONTROLS, Controls, Local, Solution

LOOSE, TIGHT = 0.1, 1e-4  # relative errors of what a Newton step promises; its quadratic is seldom better, or worse
FAR = 1e-3  # of the objective: squared decrements above that gain nothing from an exact step
MOST_PRODUCTS = 500  # with the precision, for one solution
SOLVED = 1e-3  # relative error of what probes say of traces: far below their Monte Carlo error
SOLVED_DRAW = 1e-2  # squared length, in posterior standard deviations, of what is left of a draw in all directions
AT_ONCE = 16  # vectors in a product with the rows: a sparse one takes less than half the time for each, more take more
LOG_SCALE_STEPS = (1.0, 0.3)  # in which a scale is looked for: what a parabola errs by falls with their third power
SEED = 0  # of probes and draws: the same data give the same posterior

Result = TypeVar("Result")


def class_turn(K: int) -> Array:
    """T: an orthonormal basis of K numbers, of which the first vector is their mean."""
    return np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, :-1]]))[0] if K > 1 else np.eye(1)


# --- the rows -------------------------------------------------------------------------------------------------


class Parts:
    """All rows, as blocks that are held: a sparse block is cut out of its table once, not in every pass."""

    def __init__(self, rows: Rows) -> None:
        self.threads = (rows.threads if isinstance(rows, MemoryRows) else None) or default_threads()
        self.blocks: list[Block] = rows.sum(lambda block: [block.counted], add)
        self.cuts = [slice(*ends) for ends in pairwise(accumulate((len(it.y) for it in self.blocks), initial=0))]

    def map(self, work: Callable[[Block, slice], Result]) -> list[Result]:
        """A function of every block and of its place among the rows, on threads, in order."""
        with single_threaded_blas():
            return list(in_order(lambda i: work(self.blocks[i], self.cuts[i]), range(len(self.cuts)), self.threads))


class Expanded(NamedTuple):
    """The log likelihood of all rows at some scores, to second order; rows weighted."""

    log_prob: float
    grad: Array  # (n, K)
    curvature: Array  # (n, 1): W; (n, K): the class probabilities π
    weight: Array  # (n,): what multiplies a curvature made of class probabilities


class WideObjective:
    """½|x|² - log p(y | x): minus the log posterior of whitened weights.

    Parameters
    ----------
    likelihood : Likelihood or Categorical
        Log-concave.
    rows : Rows
        As they came.
    prior : IndependentPrior
    intercept : bool
    """

    def __init__(
        self, likelihood: Likelihood | Categorical, rows: Rows, prior: IndependentPrior, *, intercept: bool
    ) -> None:
        self.likelihood, self.parts, self.prior, self.intercept = likelihood, Parts(rows), prior, intercept
        self.shape = prior.mean.shape  # (K, D)
        K = self.shape[0]
        self.turn = class_turn(K)

    def to_data(self, x: Array) -> Array:
        """Deviations from the prior's mean in data units, (m, K, D), for vectors x (m, M)."""
        x, d = self.turn @ x.reshape(-1, *self.shape), len(self.prior.scale)
        slopes = x[..., :d] * self.prior.scale
        if not self.intercept:
            return np.asarray(slopes)
        b = self.prior.intercept_scale * x[..., d] - slopes @ self.prior.point
        return np.concatenate([slopes, b[..., None]], axis=-1)

    @property
    def log_volume(self) -> float:
        """log |det dx/dw| of all weights."""
        own = np.log(self.prior.scale).sum() + (np.log(self.prior.intercept_scale) if self.intercept else 0.0)
        return float(-self.shape[0] * own)

    def weights(self, x: Array) -> Array:
        """Weights in data units, (K, D), at x (M,)."""
        return np.asarray(self.prior.mean + self.to_data(x[None])[0])

    def coordinates(self, w: Array) -> Array:
        """x (M,) of weights in data units, (K, D)."""
        white = self.prior.whiten(w - self.prior.mean)
        return np.asarray(self.turn.T @ white).reshape(-1)

    def with_prior(self, prior: IndependentPrior) -> "WideObjective":
        """The same rows under another prior."""
        other = copy(self)
        other.prior = prior
        return other

    def _scores(self, part: Block, w: Array) -> Array:
        """Scores of a block of rows at weights (q, D) in data units, (b, q); without offsets."""
        d = len(self.prior.scale)
        f = _product(part.X, w[:, :d].T)
        return f + w[:, d] if self.intercept else f

    def _sum(self, work: Callable[[Block, slice], Array]) -> Array:
        """Σ_n g_n ⊗ z̃_n, (m, M), for what `work` says of every row: g (b, m·K)."""

        def block(part: Block, cut: slice) -> Array:
            g = work(part, cut)
            return np.column_stack([_product(part.X.T, g).T, g.sum(axis=0)])

        sums = reduce(add, self.parts.map(block))
        slopes, total = sums[:, :-1], sums[:, -1:]  # the transpose of `to_data`:
        if self.intercept:
            slopes = slopes - total * self.prior.point
        z = slopes * self.prior.scale
        z = np.hstack([z, self.prior.intercept_scale * total]) if self.intercept else z
        return np.asarray(self.turn.T @ z.reshape(-1, *self.shape)).reshape(-1, self.prior.mean.size)

    def expand(self, goal: float, x: Array) -> Local:
        """Value and gradient at x (M,), and the Hessian as an operator that solves as exactly as is worth while."""
        w = self.weights(x)
        found = self.parts.map(lambda part, cut: _expanded(self.likelihood, part, self._scores(part, w)))
        log_probs, *arrays = zip(*found, strict=True)
        at = Expanded(sum(log_probs), *(np.concatenate(array) for array in arrays))
        value = float(0.5 * (x @ x) - at.log_prob)
        grad = x - self._sum(lambda part, cut: at.grad[cut])[0]
        return Local(value, grad, WideHessian(self, at, self._diagonal(at), value, goal))  # type: ignore[arg-type]

    def product(self, at: Expanded, x: Array) -> Array:
        """(I + H) x for vectors (m, M), in one pass."""
        m, K = len(x), self.shape[0]
        w = self.to_data(x).reshape(m * K, -1)

        def curved(part: Block, cut: slice) -> Array:
            f, c = self._scores(part, w).reshape(-1, m, K), at.curvature[cut][:, None]
            if isinstance(self.likelihood, Categorical):
                f = at.weight[cut][:, None, None] * (f - (c * f).sum(axis=-1, keepdims=True))
            return np.asarray(c * f).reshape(-1, m * K)

        return np.asarray(x + self._sum(curved))

    def _diagonal(self, at: Expanded) -> Array:
        """P, (M,)."""
        c = at.curvature
        if isinstance(self.likelihood, Categorical):  # variances of the turned classes under the probabilities
            variances = c @ self.turn**2 - (c @ self.turn) ** 2
            c = at.weight[:, None] * np.maximum(variances, 0.0)  # below zero by rounding; it moves only the speed
        point = self.prior.point if self.intercept else np.zeros_like(self.prior.point)
        squares = reduce(add, self.parts.map(lambda part, cut: _second_moments(part.X, c[cut], point)))
        H = squares.T * self.prior.scale**2
        if self.intercept:
            H = np.column_stack([H, self.prior.intercept_scale**2 * c.sum(axis=0)])
        return np.asarray(1 + H).reshape(-1)

    def noise(self, rng: np.random.Generator, at: Expanded, size: int) -> Array:
        """Draws of a vector whose covariance is the precision: e₁ + Z̃ᵀW^(1/2) e₂, (size, M)."""
        own = rng.standard_normal((size, self.prior.mean.size))
        e, c = rng.standard_normal((len(at.weight), size, self.shape[0])), at.curvature[:, None]
        e *= np.sqrt(c)
        if isinstance(self.likelihood, Categorical):  # a root of diag(π) - ππᵀ is (I - π1ᵀ) diag(√π)
            e -= c * e.sum(axis=-1, keepdims=True)
            e *= np.sqrt(at.weight)[:, None, None]
        flat = e.reshape(len(e), -1)
        return np.asarray(own + self._sum(lambda part, cut: flat[cut]))


def _product(X: DesignMatrix, V: Array) -> Array:
    """X V, (b, q): a vector at a time is faster where there is but one."""
    return np.asarray(X @ V[:, 0])[:, None] if V.shape[1] == 1 else np.asarray(X @ np.ascontiguousarray(V))


def _expanded(likelihood: Likelihood | Categorical, part: Block, f: Array) -> Expanded:
    weight = part.weights
    if isinstance(likelihood, Categorical):
        classes = likelihood.expand(part.y, f)
        return Expanded(float(classes.log_prob @ weight), classes.grad * weight[:, None], classes.proba, weight)
    at = likelihood.expand(part.y, f[:, 0] if part.offset is None else f[:, 0] + part.offset)
    grad, curvature = ((it * weight)[:, None] for it in (at.grad, at.curvature))
    return Expanded(float(at.log_prob @ weight), grad, curvature, weight)


def _second_moments(X: DesignMatrix, c: Array, point: Array) -> Array:
    """Σ_n c_n (x_n - point)² of every column, (d, K)."""
    if not isinstance(X, csr_array):
        return np.asarray(((X - point) ** 2).T @ c)
    stored = csr_array(((X.data - point[X.indices]) ** 2, X.indices, X.indptr), X.shape)
    squares = np.asarray(stored.T @ c)
    if not point.any():
        return squares
    cells = csr_array((np.ones_like(X.data), X.indices, X.indptr), X.shape)
    return np.asarray(squares + point[:, None] ** 2 * (c.sum(axis=0) - cells.T @ c))


# --- the mode -------------------------------------------------------------------------------------------------


class WideHessian(NamedTuple):
    """I + H at some point, known by its products and its diagonal."""

    objective: WideObjective
    at: Expanded
    diagonal: Array  # P
    value: float  # of the objective
    goal: float  # squared decrement at which a search ends

    def solve(self, b: Array) -> Array:
        """(I + H)⁻¹b for a gradient b (M,), as exactly as a Newton step deserves."""
        return np.asarray(self.solved(b[None], self._forcing(b)).x[0])

    def solved(self, b: Array, tol: float) -> Solved:
        """(I + H)⁻¹b for right-hand sides (m, M)."""
        apply = partial(self.objective.product, self.at)
        return conjugate_gradients(apply, b, self.diagonal, tol=tol, most=MOST_PRODUCTS)

    def _forcing(self, grad: Array) -> float:
        """As far as a step brings the squared decrement near its goal, where it can."""
        about = float((grad**2 / self.diagonal).sum())
        if about > FAR * (1 + abs(self.value)):
            return LOOSE
        return float(np.clip(0.25 * self.goal / max(about, self.goal), TIGHT, LOOSE))


def wide_laplace(
    objective: WideObjective,
    standard: Standardization,
    controls: Controls = CONTROLS,
    limits: ManyWeights = MANY_WEIGHTS,
    start: Array | None = None,
) -> Approximation:
    r"""Approximate the posterior by the Gaussian at its mode, without a matrix of all pairs of weights.

    .. math:: \log Z \approx \log p(y \mid \hat x) - \tfrac12 |\hat x|^2 - \tfrac12 \log\det(I + H)

    The log determinant is estimated by stochastic Lanczos quadrature, the posterior by draws, made when they are first
    asked for.

    Parameters
    ----------
    objective : WideObjective
    standard : Standardization
        Of the columns in whose coordinates the Gaussian is.
    controls : Controls
    limits : ManyWeights
    start : (K, D) array, optional
        Weights in data units from which the search starts.

    References
    ----------
    Nash & Sofer 1990 (truncated Newton); Ubaru, Chen & Saad 2017 (the determinant); Papandreou & Yuille 2010 (draws).
    """
    solution, hessian = _mode(objective, start, controls, limits)
    found = _spectrum(hessian, limits.probes)
    mean = standard.from_data(objective.weights(solution.x)).reshape(-1)
    logdet = found.logdet + 2 * objective.log_volume - 2 * objective.shape[0] * standard.log_volume
    source = DrawSource(hessian, standard, limits.draws)
    return Approximation(
        WideGaussian(mean, Unformed(len(mean), logdet), found.effective_parameters, source),
        -solution.local.value - 0.5 * found.logdet,
        hessian.at.log_prob,
        solution.status,
        solution.steps,
        solution.decrement,
        log_evidence_se=0.5 * found.logdet_se,
    )


def _mode(
    objective: WideObjective, start: Array | None, controls: Controls, limits: ManyWeights
) -> tuple[Solution, WideHessian]:
    goal = max(controls.tol, limits.mode_tol)
    x = np.zeros(objective.prior.mean.size) if start is None else objective.coordinates(start)
    expand = partial(objective.expand, goal)
    solution = newton(expand, x, tol=goal, max_steps=controls.max_steps, report=controls.report)
    hessian: Any = solution.local.hessian
    assert isinstance(hessian, WideHessian)
    return solution, hessian


class Spectrum(NamedTuple):
    """What random probes say of I + H."""

    logdet: float
    logdet_se: float
    effective_parameters: float  # M - tr (I + H)⁻¹


def _spectrum(hessian: WideHessian, probes: int) -> Spectrum:
    """With probes c of random signs, b = P^(1/2) c: E cᵀ log(P^(-1/2) A P^(-1/2)) c and E cᵀ P^(-1/2) A⁻¹ b."""
    P, rng = hessian.diagonal, np.random.default_rng(SEED)
    b = np.sqrt(P) * rng.choice([-1.0, 1.0], (probes, len(P)))
    solved = hessian.solved(b, SOLVED)
    logs = log_quadratic(solved)
    trace = float((b / P * solved.x).sum() / probes)
    logdet = float(np.log(P).sum() + logs.mean())
    return Spectrum(logdet, float(logs.std(ddof=1) / np.sqrt(probes)), len(P) - trace)


# --- the prior's scale ----------------------------------------------------------------------------------------


class BestScale(NamedTuple):
    """The scale of highest evidence, and the mode near it."""

    theta: float  # its logarithm
    weights: Array  # (K, D), in data units
    curvature: float  # of the log evidence there; 0 where it is at a bound


def best_scale(
    objective: WideObjective,
    prior_at: Callable[[float], IndependentPrior],
    bounds: tuple[float, float],
    controls: Controls = CONTROLS,
    limits: ManyWeights = MANY_WEIGHTS,
) -> BestScale:
    """The log scale at which the evidence is highest: uphill in long steps, then in short ones, and by parabolas.

    The same probes serve at every scale, so that their errors are nearly the same and cancel: what is compared is far
    better known than any evidence. A sample of the rows would not do: the fewer rows there are for each weight, the
    smaller is the scale that Laplace's evidence prefers (a third, with a tenth of the rows).
    """
    weights, seen, curvature = np.zeros_like(objective.prior.mean), dict[float, float](), 0.0

    def evidence(theta: float) -> float:
        nonlocal weights
        if theta not in seen:
            here = objective.with_prior(prior_at(theta))
            solution, hessian = _mode(here, weights, controls, limits)
            weights = here.weights(solution.x)
            seen[theta] = -solution.local.value - 0.5 * _spectrum(hessian, limits.probes).logdet
        return seen[theta]

    def beside(theta: float, step: float) -> list[float]:
        return [float(np.clip(theta + shift, *bounds)) for shift in (-step, 0.0, step)]

    theta = -0.5 * float(np.log(objective.shape[1]))  # scores of standardised columns then vary by about one
    for step in LOG_SCALE_STEPS:
        while (best := max(beside(theta, step), key=evidence)) != theta:
            theta = best
        if theta in bounds:
            curvature = 0.0
            break
        three = beside(theta, step)
        a, b, _ = np.polyfit(three, [evidence(it) for it in three], 2)
        theta, curvature = float(-b / (2 * a)), float(-2 * a)
    return BestScale(theta, weights, curvature)


# --- the posterior --------------------------------------------------------------------------------------------


class DrawSource(NamedTuple):
    """What draws of a posterior are made of: the rows, and the curvature at the mode."""

    hessian: WideHessian
    standard: Standardization
    draws: int

    def deviations(self) -> Array:
        """Draws less their mean, (M, S): noise with the precision's own covariance, solved for."""
        objective, rng = self.hessian.objective, np.random.default_rng(SEED)
        size, at_once = objective.prior.mean.size, max(1, AT_ONCE // objective.shape[0])
        out = np.empty((size, self.draws))
        for start in range(0, self.draws, at_once):
            noise = objective.noise(rng, self.hessian.at, min(at_once, self.draws - start))
            w = objective.to_data(self.hessian.solved(noise, SOLVED_DRAW / size).x)  # of draws bᵀA⁻¹b is about M
            out[:, start : start + len(w)] = self.standard.from_data(w).reshape(len(w), -1).T
        return out


@dataclass(frozen=True)
class Unformed:
    """The precision of so many weights that its matrix is not formed; the log determinant is an estimate."""

    size: int
    logdet: float

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked of a precision needs its matrix."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise InputError(
            f"This posterior of {self.size:,} weights is known by its mode and by draws; a matrix of all pairs of "
            f"weights ({8e-9 * self.size**2:.2g} GB), which what was asked for needs, is not formed. posterior_.std, "
            ".interval, .sample and .project(rows), and all predictions, do without it."
        )


@dataclass(frozen=True, repr=False)
class WideGaussian(Gaussian):
    """N(w | mean, Σ) over so many weights that Σ is known by draws: they are made when they are first asked for.

    Examples
    --------
    >>> q = WideGaussian(np.zeros(2), Unformed(2, 0.0), 1.0, None, np.array([[1.0, -1.0], [1.0, 3.0]]))
    >>> q.scores(np.array([[1.0, 0.0], [1.0, 1.0]]))
    Scores(mean=array([0., 0.]), variance=array([1., 4.]))
    """

    precision: Unformed  # type: ignore[assignment]
    effective_parameters: float
    source: DrawSource | None
    held: Array | None = field(default=None)  # draws less their mean, (M, S), once they were made

    def __getstate__(self) -> dict[str, Any]:
        return vars(replace(self, held=self.deviations, source=None))  # a saved model holds no rows

    @property
    def deviations(self) -> Array:
        """Draws less the mean, (M, S)."""
        source = self.source
        if source is not None:
            object.__setattr__(self, "held", source.deviations())
            object.__setattr__(self, "source", None)  # the rows may go
        assert self.held is not None
        return self.held

    @property
    def root(self) -> Array:
        """R (S, M) with Σ = RᵀR, estimated."""
        return np.asarray(self.deviations.T / np.sqrt(self.deviations.shape[1]))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws, (size, M): random combinations of those that are held."""
        return np.asarray(self.mean + rng.standard_normal((size, self.deviations.shape[1])) @ self.root)

    def scores(self, Z: DesignMatrix) -> Scores:
        """Mean and variance of the scores Zw, one per row."""
        moved = np.asarray(Z @ self.deviations)
        return Scores(np.asarray(Z @ self.mean), (moved**2).mean(axis=1))

    def class_scores(self, Z: DesignMatrix, contrast: Array) -> Scores:
        """Mean and covariance of K scores per row: of combinations of the weight vectors that are stacked, (K, J)."""
        J = contrast.shape[1]
        mean = np.asarray(Z @ (contrast @ self.mean.reshape(J, -1)).T)
        vectors = self.deviations.reshape(J, Z.shape[1], -1)
        moved = np.einsum("kj,jns->nks", contrast, np.stack([np.asarray(Z @ V) for V in vectors]))
        return Scores(mean, moved @ moved.transpose(0, 2, 1) / moved.shape[-1])


# --- refusals -------------------------------------------------------------------------------------------------


def refuse_wide(data: Data, spec: LinearSpec) -> None:
    """Raise where a matrix of all pairs of weights is asked for and there are too many."""
    M, largest, likelihood = spec.shape(data).total, spec.limits.largest_matrix, spec.likelihood
    known = isinstance(likelihood, Likelihood | Categorical) and likelihood.log_concave and spec.n_parameters == 0
    laplace = spec.inference in ("auto", "laplace") and spec.solver == "newton"
    if known and laplace and has_independent_slopes(spec.prior):
        return
    raise InputError(
        f"This model has {M:,} weights; with more than {largest:,} of them a fit cannot hold the matrix of all pairs "
        f"({8e-9 * M**2:.1f} GB), which what was asked for needs. Without it work prior='empirical' and "
        f"Normal(scale=…) (not 'ard', StudentT, Jeffreys, a covariance or None): with fewer rows than columns, and at "
        f"most {largest:,} (times classes), however else the model is fitted but for 'adf_spherical'; with more rows "
        "for inference='auto' or 'laplace', solver='newton', label_noise=0, no dispersion to be learnt, and the logit, "
        "probit, softmax and other log-concave likelihoods. Or use fewer columns."
    )
