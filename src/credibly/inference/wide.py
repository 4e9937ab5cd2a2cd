"""Laplace for very many weights and rows: the mode by truncated Newton, the posterior by a diagonal and directions.

Notation as in `curvature`; in addition

====  ===================================================================================  =======
g     gradient of ½|x|² - log p(y | x), whose Hessian is I + H                             (K, D)
δ²    squared Newton decrement gᵀ(I + H)⁻¹g                                                scalar
Δ     diagonal of what the posterior keeps beside its directions                           (K, D)
A     Δ^(-1/2) (I + H) Δ^(-1/2)                                                            (M, M)
====  ===================================================================================  =======
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from credibly.inference.curvature import Expanded, RowPasses, curvature_of
from credibly.inference.laplace import Controls
from credibly.inference.posterior import InferenceResult, WideGaussian
from credibly.inference.preconditioner import preconditioner, solved
from credibly.numerics.arrays import Array
from credibly.numerics.lanczos import Lanczos
from credibly.numerics.linalg import PSD
from credibly.numerics.low_rank import ChosenDirections, WidePrecision
from credibly.numerics.newton import ARMIJO, HALVINGS, Local, Solution, Status, rounding

GOAL = 1e-5  # squared decrement: the mode to three thousandths of a posterior standard deviation
FAR = 1e-3  # of the objective: squared decrements above that gain nothing from an exact step
LOOSE, TIGHT = 0.1, 1e-4  # relative errors of what a step promises; its quadratic model is seldom better
CHECKED_SCORES, FEWEST_CHECKED = 8, 4  # rows, times classes: their variances are compared with exact ones
PROBED_NUMBERS, FEWEST_PROBES, MOST_PROBES = 40_000, 4, 32  # of random vectors, for determinants and traces
VARIANCE_TOL = 0.02  # of the variances that are called exact
VARIANCE_GOAL = 0.05  # relative error of predictive variances, root mean square
LOG_TOL = 1e-3  # of the probes' solutions: what they leave out of a log determinant all has one sign
CHUNK, MOST_STEPS = 32, 256  # of Lanczos
WORTH, PATIENCE = 0.9, 2  # chunks in a row that do not lower the error by that factor are the last
LEAST_SHARE = 1e-3  # of the diagonal of the curvature
SEED = 0  # of the checked rows and probes: the same data give the same posterior


class WideMode(NamedTuple):
    """Where a search for the mode ended."""

    x: Array  # (K, D)
    f: Array  # (n, K)
    at: Expanded
    value: float
    grad: Array
    diagonal: Array  # of H
    decrement: float
    steps: int
    status: Status


def wide_mode(passes: RowPasses, start: Array, controls: Controls = Controls()) -> WideMode:
    """Minimise ½|x|² - log p(y | x) by Newton steps, each solved by conjugate gradients as far as it pays."""
    goal, x = max(controls.tol, GOAL), start
    f = passes.scores(x)
    at = passes.expand(f)
    for step in range(controls.max_steps + 1):
        value = float(0.5 * np.vdot(x, x) - at.log_prob)
        grad, diagonal = x - passes.pull(at.grad), passes.diagonal(at)
        direction = _newton_direction(passes, at, grad, diagonal, _forcing(grad, diagonal, goal, value))
        decrement = float(-np.vdot(grad, direction))
        controls.report(step, value, decrement)
        here = WideMode(x, f, at, value, grad, diagonal, decrement, step + 1, Status.CONVERGED)
        if decrement <= goal:
            return here
        if step == controls.max_steps:
            return here._replace(status=Status.STEP_LIMIT)
        shift = passes.directions(direction)
        for t in 0.5 ** np.arange(HALVINGS):
            there, at_there = x + t * direction, passes.expand(f + t * shift)
            lower = 0.5 * np.vdot(there, there) - at_there.log_prob
            if lower <= value - ARMIJO * t * decrement + rounding(value):
                break
        else:
            return here._replace(status=Status.STALLED)
        x, f, at = there, f + t * shift, at_there
    raise AssertionError("unreachable: the loop returns")


def _forcing(grad: Array, diagonal: Array, goal: float, value: float) -> float:
    """How exactly a step is solved: as far as it brings the squared decrement near its goal, where it can."""
    about = float((grad**2 / (1 + diagonal)).sum())
    if about > FAR * (1 + abs(value)):
        return LOOSE
    return float(np.clip(0.25 * goal / max(about, goal), TIGHT, LOOSE))


def _newton_direction(passes: RowPasses, at: Expanded, grad: Array, diagonal: Array, tol: float) -> Array:
    near = preconditioner(passes, at, diagonal)
    return solved(passes, at, near, -grad.reshape(1, -1), tol).x.reshape(grad.shape)


class Checks(NamedTuple):
    """Some rows whose variances are known, as if each were new."""

    rows: Array  # x, whitened: (m, D)
    curvature: Array  # of every score in its row, (m, K)
    variance: Array  # exact, of what is determined of the scores, without the row's own curvature: (m,)


def wide_result(passes: RowPasses, mode: WideMode) -> tuple[InferenceResult, float]:
    """The posterior at a mode, and the standard error of its log evidence.

    The precision is Gᵀ(Δ + VVᵀ)G. V are directions of largest curvature against its diagonal, by Lanczos; Δ is the rest
    of the diagonal, of whose likelihood's part a share is taken such that the predictive variances of some rows of
    the data, as if they were new, are right on average; exact ones come from conjugate gradients. Directions are added
    until those variances have a root mean square error of 5 %, or more of them do not help; the error that is left is
    `posterior.variance_error`. The log determinant in the evidence is not that of this precision but of the exact one,
    by stochastic Lanczos quadrature.

    References
    ----------
    Ubaru, Chen & Saad 2017 (quadrature); the variance of a row left out is that of its Laplace cavity.
    """
    K, D = passes.shape
    scale = np.sqrt(1 + mode.diagonal).reshape(-1)

    def apply(v: Array) -> Array:
        w = v / scale
        return (w + passes.product(mode.at, w.reshape(-1, K, D)).reshape(v.shape)) / scale

    rng = np.random.default_rng(SEED)
    checks, logdet, se = _exact(passes, mode, rng)
    found = _directions(mode.diagonal, apply, checks, rng)
    precision = WidePrecision(_held(passes, found))
    mean = passes.weights(mode.x).reshape(-1)
    grad = passes.prior.arrow.transposed(passes.turn @ mode.grad).reshape(-1)
    local = Local(mode.value, grad, precision)  # type: ignore[arg-type]  # answers the same questions
    result = InferenceResult(
        posterior=WideGaussian(mean, precision, found.error),
        log_evidence=float(-mode.value - 0.5 * logdet),
        log_likelihood=mode.at.log_prob,
        solution=Solution(mean, local, mode.status, mode.steps, mode.decrement),
    )
    return result, 0.5 * se


def _held(passes: RowPasses, found: "Found") -> ChosenDirections:
    return ChosenDirections.of(passes.prior.arrow, passes.turn, np.sqrt(found.diagonal), found.directions)


def _exact(passes: RowPasses, mode: WideMode, rng: np.random.Generator) -> tuple[Checks, float, float]:
    """Variances of some rows, and log det(I + H) with its standard error, by conjugate gradients."""
    K, D = passes.shape
    n = len(mode.at.weight)
    chosen = np.sort(rng.choice(n, min(n, max(FEWEST_CHECKED, CHECKED_SCORES // K)), replace=False))
    rows, m = passes.whitened_rows(chosen), len(chosen)
    b = np.einsum("md,kl->mkld", rows, np.eye(K)).reshape(m * K, K * D)
    near = preconditioner(passes, mode.at, mode.diagonal)
    against = solved(passes, mode.at, near, b, VARIANCE_TOL).x
    sigma = np.einsum("mkd,mld->mkl", b.reshape(m, K, -1), against.reshape(m, K, -1))
    W = curvature_of(passes, mode.at, chosen)
    left_out = np.linalg.solve(np.eye(K) - np.swapaxes(W @ sigma, 1, 2), sigma)  # (Σ⁻¹ - W)⁻¹
    probes = rng.choice([-1.0, 1.0], (n_probes(K * D), K * D))
    logs = solved(passes, mode.at, near, near.colour(probes), LOG_TOL).log_quadratic()
    logdet = float(near.logdet + logs.mean())
    checks = Checks(rows, np.einsum("mkk->mk", W), _determined(left_out))
    return checks, logdet, float(logs.std(ddof=1) / np.sqrt(len(logs)))


def n_probes(size: int) -> int:
    """How many random vectors serve for determinants and traces: each averages over all weights."""
    return int(np.clip(PROBED_NUMBERS // size, FEWEST_PROBES, MOST_PROBES))


def _determined(cov: Array) -> Array:
    """Total variance of the scores of each row, less their mean over classes, which changes no probability."""
    own = np.einsum("mkk->mk", cov)
    return np.asarray(own[:, 0] if own.shape[1] == 1 else own[:, 1:].sum(axis=1))


class Found(NamedTuple):
    """A diagonal and directions."""

    diagonal: Array  # Δ, (K, D)
    directions: Array  # S, (K, D, r)
    error: float


def _directions(H: Array, apply: Callable[[Array], Array], checks: Checks, rng: np.random.Generator) -> Found:
    """Add directions until the variances of the checked rows are good enough, or no better."""
    best = _balanced(H, np.zeros((1, H.size)), checks)
    krylov, idle = Lanczos(apply, rng.standard_normal(H.size)), 0
    while best.error > VARIANCE_GOAL and len(krylov.diagonal) < min(MOST_STEPS, H.size):
        krylov.extend(min(CHUNK, H.size - len(krylov.diagonal)))
        values, vectors = krylov.pairs()
        large = values > 1  # their mean, so that what is left has less
        bulk = (H.size - values[large].sum()) / (H.size - large.sum())  # mean of the other eigenvalues: tr A = M
        V = np.sqrt(values[large] - bulk)[:, None] * vectors[large] * np.sqrt(1 + H).reshape(-1)
        found = _balanced(H, V, checks)
        idle = 0 if found.error < WORTH * best.error else idle + 1
        if found.error < best.error:
            best = found
        if idle == PATIENCE:
            break
    return best


def _balanced(H: Array, V: Array, checks: Checks) -> Found:
    """Δ for directions V (r, M) of I + H: the rest of the diagonal of H, by the share that makes checked rows right."""
    from scipy.optimize import brentq

    # Data add to the prior's precision, so that Δ ≥ 1. A direction that Lanczos has not quite found may hold more of a
    # weight than the diagonal of H: then nothing is left to add, and what that does to variances is in the error.
    rest = np.maximum(H - (V**2).sum(axis=0).reshape(H.shape), 0.0)
    part = rest / np.where(H > 0, H, 1.0)

    def log_ratio(share: float) -> Array:
        return np.log(_left_out(1 + share * rest, share * part, V, checks) / checks.variance)

    share = 1.0
    if log_ratio(1.0).mean() < 0 < log_ratio(LEAST_SHARE).mean():
        share = float(brentq(lambda s: log_ratio(s).mean(), LEAST_SHARE, 1.0, xtol=1e-3))
    error = float(np.sqrt(np.mean(np.expm1(log_ratio(share)) ** 2)))
    diagonal = 1 + share * rest
    return Found(diagonal, np.moveaxis((V / np.sqrt(diagonal).reshape(-1)).reshape(-1, *H.shape), 0, 2), error)


def _left_out(diagonal: Array, share: Array, V: Array, checks: Checks) -> Array:
    """Variances of the checked rows' scores under Δ + VᵀV, without a row's own part of Δ.

    `share` (K, D) is how much of the diagonal of H is in Δ: as much of what the row adds to it.
    """
    cov, squares = -_explained(diagonal, V, checks.rows), checks.rows**2
    for k, own in enumerate(diagonal):
        alone = own - share[k] * checks.curvature[:, [k]] * squares  # at least 1: H has the row's part in its sum
        cov[:, k, k] += (squares / alone).sum(axis=1)
    return _determined(cov)


def _explained(diagonal: Array, V: Array, rows: Array) -> Array:
    """What the directions take off the covariance of every row's scores under Δ alone, (m, K, K)."""
    spread = np.einsum("rkd,md->rmk", V.reshape(len(V), *diagonal.shape) / diagonal, rows, optimize=True)
    core = PSD.of((V / diagonal.reshape(-1)) @ V.T + np.eye(len(V)), "the low-rank core")
    white = core.half_solve(spread.reshape(len(V), -1)).reshape(spread.shape)
    return np.asarray(np.einsum("rmk,rml->mkl", white, white))
