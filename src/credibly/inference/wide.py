"""Laplace for very many weights and rows: the mode by truncated Newton, the posterior by a diagonal and directions.

Notation as in `curvature`; in addition

====  ===================================================================================  =======
g     gradient of ½|x|² - log p(y | x), whose Hessian is I + H                             (K, D)
δ²    squared Newton decrement gᵀ(I + H)⁻¹g                                                scalar
Δ     diagonal of what the posterior keeps beside its directions                           (K, D)
A     Δ^(-1/2) (I + H) Δ^(-1/2)                                                            (M, M)
====  ===================================================================================  =======
"""

from typing import NamedTuple

import numpy as np

from credibly.inference.curvature import Expanded, RowPasses, curvature_of, score_curvature
from credibly.inference.laplace import Controls
from credibly.inference.posterior import InferenceResult, WideGaussian
from credibly.inference.preconditioner import preconditioner, solved
from credibly.inference.wide_directions import Checks, Found, Known, determined, directions, every_class
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.conjugate_gradients import OwnTerm
from credibly.numerics.low_rank import ChosenDirections, WidePrecision
from credibly.numerics.newton import ARMIJO, HALVINGS, Local, Solution, Status, rounding
from credibly.numerics.sparse_views import transposed

GOAL = 1e-5  # squared decrement: the mode to three thousandths of a posterior standard deviation
FAR = 1e-3  # of the objective: squared decrements above that gain nothing from an exact step
LOOSE, TIGHT = 0.1, 1e-4  # relative errors of what a step promises; its quadratic model is seldom better
CHECKED_SCORES, FEWEST_CHECKED, MOST_CHECKED = 36, 8, 16  # rows, times classes: variances compared with exact ones
COPY_TOL = 1e-9  # of the spread of a random projection: rows that differ by less there are the same
PROBED_NUMBERS, FEWEST_PROBES, MOST_PROBES = 40_000, 4, 32  # of random vectors, for determinants and traces
VARIANCE_LIMIT = 0.25  # of `variance_error`: five times the goal of `directions`; beyond it a fit warns
VARIANCE_TOL = 0.02  # of traces
CHECK_TOL = 1e-3  # of the variances that are called exact; where rows hang together, what is left out is ten times that
ANCHOR_TOL = 1e-4  # of the variances of anchors: other rows' are then wrong by at most twice its root, for that reason
RESOLVED = 1e-2  # share of an anchor's variance: what those errors leave to see of one beside another
LOG_TOL = 1e-3  # of the probes' solutions: what they leave out of a log determinant all has one sign
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


def wide_result(passes: RowPasses, mode: WideMode) -> tuple[InferenceResult, float]:
    """The posterior at a mode, and the standard error of its log evidence.

    The precision is Gᵀ(Δ + VVᵀ)G, but for the scores of the empty row (the intercept) and of mean rows: their
    variances, and covariances with all else, are exact (`numerics.anchors`). V are directions of largest curvature
    against its diagonal, by Lanczos; Δ is the rest of the diagonal, of whose likelihood's part a share is taken such
    that the predictive variances of some rows of the data, as if they were new, are right on average; exact ones come
    from conjugate gradients. Directions are added until those variances have a root mean square error of 5 %, or more
    of them do not help; the error on other rows, which had no part in that, is `posterior.variance_error`. The log
    determinant in the evidence is not that of this precision but of the exact one, by stochastic Lanczos quadrature.

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
    checks, known, logdet, se = _exact(passes, mode, rng)
    found = directions(mode.diagonal, apply, checks, known, rng)
    precision = WidePrecision(_held(passes, found))
    mean = passes.weights(mode.x).reshape(-1)
    grad = passes.prior.arrow.transposed(passes.turn @ mode.grad).reshape(-1)
    local = Local(mode.value, grad, precision)  # type: ignore[arg-type]  # answers the same questions
    result = InferenceResult(
        posterior=WideGaussian(mean, precision, found.error),
        log_evidence=float(-mode.value - 0.5 * logdet),
        log_likelihood=mode.at.log_prob,
        solution=Solution(mean, local, _status(mode.status, found.error), mode.steps, mode.decrement),
    )
    return result, 0.5 * se


def _status(search: Status, variance_error: float) -> Status:
    """How the search ended; where it ended well, whether the variances are good for something."""
    return Status.VARIANCES_ROUGH if search.good and not variance_error <= VARIANCE_LIMIT else search


def _held(passes: RowPasses, found: Found) -> ChosenDirections:
    root = np.sqrt(found.diagonal)
    return ChosenDirections.of(passes.prior.arrow, passes.turn, root, found.directions, found.anchors)


def _exact(passes: RowPasses, mode: WideMode, rng: np.random.Generator) -> tuple[Checks, Known, float, float]:
    """Variances of some rows, anchors, and log det(I + H) with its standard error: one run of conjugate gradients."""
    K, D = passes.shape
    near = preconditioner(passes, mode.at, mode.diagonal)
    anchors = _anchors(passes, mode)
    rows, W = _checked(passes, mode.at, rng)
    probes = near.colour(rng.choice([-1.0, 1.0], (n_probes(K * D), K * D)))
    parts = anchors.reshape(-1, K * D), every_class(rows, K), probes
    tol, n_anchors = np.repeat([ANCHOR_TOL, CHECK_TOL, LOG_TOL], [len(part) for part in parts]), len(parts[0])
    found = solved(passes, mode.at, near, np.concatenate(parts), tol, _without(rows, W, n_anchors))
    known = _known(anchors, found.x[:n_anchors].reshape(anchors.shape))
    left_out = np.einsum("md,mkld->mkl", rows, found.x[n_anchors : -len(probes)].reshape(-1, K, K, D))
    checks = _checks(rows, left_out, W, known)
    logs = found.of(slice(-len(probes), None)).log_quadratic()
    return checks, known, float(near.logdet + logs.mean()), float(logs.std(ddof=1) / np.sqrt(len(logs)))


def _checked(passes: RowPasses, at: Expanded, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some rows, whitened (m, D), each with the curvature of itself and of all its copies (m, K, K)."""
    n, K = len(at.weight), passes.shape[0]
    m = min(n, int(np.clip(CHECKED_SCORES // K, FEWEST_CHECKED, MOST_CHECKED)))
    chosen = np.sort(rng.choice(n, m, replace=False))
    mark = passes.directions(rng.standard_normal(passes.shape))  # the same for equal rows, and for no others
    near = COPY_TOL * np.sqrt((mark**2).mean(axis=0))
    W = [curvature_of(passes, at, np.flatnonzero((np.abs(mark - mark[i]) <= near).all(axis=1))) for i in chosen]
    return passes.whitened_rows(chosen), np.stack([copies.sum(axis=0) for copies in W])


def _without(rows: Array, W: Array, first: int) -> OwnTerm:
    """What leaves a checked row and its copies out of H, for the right-hand sides of its scores, from `first` on."""
    m, K = W.shape[:2]

    def own(v: Array, places: AnyArray) -> Array:
        out, row = np.zeros_like(v), (places - first) // K
        for j in np.flatnonzero((row >= 0) & (row < m)):
            z = rows[row[j]]
            out[j] = -np.outer(W[row[j]] @ (v[j].reshape(K, -1) @ z), z).reshape(-1)
        return out

    return own


def _anchors(passes: RowPasses, mode: WideMode) -> Array:
    """The scores of the empty row (the intercepts) and of mean rows, as vectors (a, K, K·D) of length one.

    All rows have the intercept in common, and columns that are not negative make up for it together, or do without it
    where there is none: no direction of large curvature tells that, and a diagonal says the contrary. There are two
    means, one weighted as the rows are and one by their curvature. Under `Categorical` the first score, the mean over
    classes, is left to the prior, and needs no anchor.
    """
    K, D = passes.shape
    weights = np.column_stack([mode.at.weight, score_curvature(passes, mode.at).mean(axis=1)])
    weights = weights[:, weights.any(axis=0)]
    total = passes.parts.sum(lambda part, cut: (np.asarray(transposed(part.X) @ weights[cut]),))[0]
    Phi = (total / weights.sum(axis=0)).T
    if passes.frame.intercept:
        Phi = np.vstack([np.eye(1, D, D - 1), np.column_stack([Phi, np.ones(len(Phi))])])
    rows = passes.prior.arrow.whiten(passes.frame.rows_to_frame(Phi))
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows[length[:, 0] > 0] / length[length[:, 0] > 0]
    return every_class(rows, K).reshape(len(rows), K, -1)[:, min(K - 1, 1) :]


def _known(E: Array, F: Array) -> Known:
    """Anchors E (a, k, M) and their covariances F; one that is nearly made up of those before it is left out.

    It would say what they say, but for errors of the solutions.
    """
    used = np.zeros(E.shape[:2], dtype=bool)
    covariances = np.einsum("akm,lkm->kal", E, F)
    for k, S in enumerate(0.5 * (covariances + np.swapaxes(covariances, 1, 2))):
        for a in range(len(E)):
            before = np.flatnonzero(used[:, k])
            told = S[a, before] @ np.linalg.solve(S[np.ix_(before, before)], S[before, a])
            used[a, k] = S[a, a] - told > RESOLVED * S[a, a]
    return Known(E[used].T, F[used].T)


def _checks(rows: Array, left_out: Array, W: Array, known: Known) -> Checks:
    """Some rows as if each were new, from the covariances (m, K, K) of their scores without their curvature W."""
    K, m = W.shape[1], len(rows)
    along = (every_class(rows, K) @ known.exact).reshape(m, K, -1)
    leans = along + left_out @ W @ along  # covariances with the anchors, and below those of the anchors: Woodbury
    spread = known.ends.T @ known.exact + np.swapaxes(along, 1, 2) @ W @ leans
    anchored = leans @ np.linalg.solve(spread, np.swapaxes(leans, 1, 2))
    curvature, variance, with_anchors = (np.einsum("mkk->mk", it) for it in (W, left_out, anchored))
    return Checks(rows, curvature, determined(variance), with_anchors)


def n_probes(size: int) -> int:
    """How many random vectors serve for determinants and traces: each averages over all weights."""
    return int(np.clip(PROBED_NUMBERS // size, FEWEST_PROBES, MOST_PROBES))
