"""What a fit of a linear classifier claims, looked at without the library's own optimiser, frame or factorisations.

Notation
--------
====  ==================================================================================  ==========
Z     columns standardised here, ones last                                                (n, D)
u     weights of Z, one vector for each output                                            (K, D)
P     prior precision of one vector u, P = AᵀA                                            (D, D)
R     root of the precision of the posterior, by QR: its condition is not squared         (KD, KD)
δ²    squared Newton decrement ‖R⁻ᵀ g‖², in posterior standard deviations
====  ==================================================================================  ==========
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linprog
from scipy.special import erfcx, expit, log_expit, log_ndtr, log_softmax

from credibly import BayesianProbitRegression, Normal, Status
from credibly.errors import CollinearityError, ConvergenceWarning, InputError, SeparationError, SingularPriorError
from reliability.torture_linear import LinearProblem

EPS = float(np.finfo(float).eps)
ROUNDING = 16 * EPS  # relative, of an objective: what the library says a sum of rounded terms is known to
LONG = np.longdouble


class Standardised(NamedTuple):
    """A problem in units in which no column is large."""

    Z: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray


def standardised(problem: LinearProblem) -> Standardised:
    X, n = problem.X, len(problem.X)
    weight = np.ones(n) if problem.weight is None else problem.weight
    mean = weight @ X / weight.sum()
    scale = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    scale[X.min(axis=0) == X.max(axis=0)] = 1.0
    if not problem.model.fit_intercept:
        return Standardised(X / scale, np.zeros_like(mean), scale, weight)
    return Standardised(np.column_stack([(X - mean) / scale, np.ones(n)]), mean, scale, weight)


def prior_root(problem: LinearProblem, at: Standardised, scale: float | None = None) -> np.ndarray:
    """A with P = AᵀA: of a Normal in the units of the data, or of a scale on standardised columns (1 before a fit)."""
    model, intercept = problem.model, problem.model.fit_intercept
    if model.prior is None:
        return np.zeros((0, at.Z.shape[1]))
    if isinstance(model.prior, Normal):
        slopes = np.full(len(at.scale), 1.0) / (at.scale * model.prior.scale)
        raw = np.append(-at.mean / at.scale, 1.0) / model.prior.intercept_scale  # the intercept at the origin
    else:
        slopes = np.full(len(at.scale), 1.0 / (getattr(model, "prior_scale_", 1.0) if scale is None else scale))
        raw = np.append(np.zeros(len(at.scale)), 1.0) / 10.0  # the intercept at the means
    root = np.diag(slopes)
    return np.vstack([np.pad(root, ((0, 0), (0, 1))), raw]) if intercept else root


class Local(NamedTuple):
    """The log posterior at a point: value, gradient, and a root of its curvature."""

    value: float
    sizes: float  # sum of the absolute terms of the value: what its rounding is relative to
    unknown: float  # of the value, because means of columns are rounded
    grad: np.ndarray  # (K·D,)
    noise: np.ndarray  # of the gradient: eps times the sum of the absolute terms
    root: np.ndarray  # (rows, K·D)


def expanded(problem: LinearProblem, at: Standardised, u: np.ndarray, A: np.ndarray, f: np.ndarray) -> Local:
    """The three likelihoods typed again; f are the scores, (n,) or (n, K), and sums are in long double."""
    Z, weight = at.Z, at.weight
    if f.ndim == 1:
        z = np.where(problem.y == 1, f, -f)
        if isinstance(problem.model, BayesianProbitRegression):
            pull = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
            log_p, curvature = log_ndtr(z), np.maximum(pull * (z + pull), 1e-300)
        else:
            log_p, pull = log_expit(z), expit(-z)
            curvature = pull * expit(z)
        slope = np.where(problem.y == 1, pull, -pull)[:, None]
        rows = np.sqrt(weight * curvature)[:, None] * Z
    else:
        every = log_softmax(f, axis=1)
        p, K = np.exp(every), f.shape[1]
        own = np.arange(len(Z)), problem.y
        slope = -p
        slope[own] = 0.0
        slope[own] = -slope.sum(axis=1)  # 1 - p as what all others have, whose digits a subtraction would lose
        parts = np.sqrt(weight[:, None] * p)[:, :, None] * (
            np.eye(K) - p[:, None, :]
        )  # diag(p) - ppᵀ = Σ_k p_k d_k d_kᵀ
        rows = (parts[:, :, :, None] * Z[:, None, None, :]).reshape(len(Z) * K, -1)
        log_p = every[own]
    pulled = A.astype(LONG) @ u.astype(LONG).T  # (rows of A, K)
    grad = (weight[:, None] * slope).astype(LONG).T @ Z.astype(LONG) - pulled.T @ A.astype(LONG)
    noise = EPS * (np.abs(weight[:, None] * slope).T @ np.abs(Z) + (np.abs(A).T @ (np.abs(A) @ np.abs(u).T)).T)
    blur = mean_blur(problem, at)
    astray = np.abs(u[:, : len(blur)]) @ blur / 100  # (K,): the prior of the intercept there has variance 100
    noise[:, -1] += astray
    log_volume = log_determinant(A)
    value = weight @ log_p + len(u) * log_volume - 0.5 * float((pulled**2).sum())
    sizes = weight @ np.abs(log_p) + len(u) * (abs(log_volume) + A.size) + 0.5 * ((np.abs(A) @ np.abs(u).T) ** 2).sum()
    stacked = np.vstack([rows, np.kron(np.eye(len(u)), A)])
    unknown = float(astray @ (1 + np.abs(u[:, -1])))
    return Local(float(value), float(sizes), unknown, grad.ravel(), noise.ravel(), stacked)


def mean_blur(problem: LinearProblem, at: Standardised) -> np.ndarray:
    """How far the mean of a column is unknown, in its deviations: a learnt prior is on the intercept *there*."""
    learnt = problem.model.fit_intercept and problem.model.prior == "empirical"
    return 4 * EPS * learnt * np.abs(at.mean) / at.scale


def log_determinant(A: np.ndarray) -> float:
    return float(np.linalg.slogdet(A)[1]) if A.size else 0.0


class Solved(NamedTuple):
    """H = rootᵀroot by QR of its columns scaled to one, so that its condition is not squared."""

    R: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, root: np.ndarray) -> "Solved":
        size = np.sqrt((root**2).sum(axis=0))
        return cls(np.linalg.qr(root / size, mode="r"), size)

    def half(self, g: np.ndarray) -> np.ndarray:
        """R⁻ᵀ g, whose squared length is gᵀH⁻¹g."""
        return solve_triangular(self.R, (g.T / self.size).T, trans="T")

    def solve(self, g: np.ndarray) -> np.ndarray:
        return solve_triangular(self.R, self.half(g)) / self.size

    @property
    def logdet(self) -> float:
        return float(2 * (np.log(np.abs(np.diag(self.R))).sum() + np.log(self.size).sum()))

    @property
    def condition(self) -> float:
        values = np.linalg.svd(self.R, compute_uv=False)
        return float((values[0] / values[-1]) ** 2) if values[-1] > 0 else np.inf


class Distance(NamedTuple):
    """How far a claimed mode is from the mode, and what may hide that; all squared, in posterior deviations."""

    squared: float
    rounding: float  # of weights and of gradients
    flat: float  # what the objective cannot show
    condition: float  # of the posterior precision
    log_evidence: float  # Laplace's, here
    unknown: float  # of the log evidence: rounding


def weights_and_scores(problem: LinearProblem, at: Standardised) -> tuple[np.ndarray, np.ndarray]:
    """u by the coefficients, the intercept at the means by a row's score: nothing cancels."""
    model = problem.model
    f = model.predict_latent(problem.X).mean
    u = np.atleast_2d(model.coef_ * at.scale)
    if model.fit_intercept:
        last = np.reshape(f, (len(f), -1))[0] - (u @ at.Z[0, :-1])
        u = np.column_stack([u, last - last.mean() if len(u) > 1 else last])
    return u, f


def distance_to_mode(problem: LinearProblem) -> Distance:
    at = standardised(problem)
    u, f = weights_and_scores(problem, at)
    here = expanded(problem, at, u, prior_root(problem, at), f)
    contrast = np.eye(len(u)) if problem.model.prior is not None else sum_to_zero(len(u))
    spread = np.kron(contrast, np.eye(u.shape[1]))
    H = Solved.of(here.root @ spread)
    squared = float((H.half((here.grad @ spread).astype(float)) ** 2).sum())
    blurred = (H.half((here.noise[:, None] * spread).T) ** 2).sum()
    lengths = np.sqrt((here.root**2).sum(axis=0))
    rounding = float((EPS * np.abs(u).ravel() @ lengths) ** 2 + blurred)
    flat = ROUNDING * (1 + here.sizes)
    unknown = 1e-9 + flat + H.condition * EPS + here.unknown
    return Distance(squared, rounding, flat, H.condition, here.value - 0.5 * H.logdet, unknown)


def evidence_slope(problem: LinearProblem, step: float = 1e-4) -> float:
    """d log evidence / d log scale, by evidences at modes found here; the error is a third derivative times 2e-9."""
    at, heights = standardised(problem), []
    for side in (-step, step):
        A = prior_root(problem, at, problem.model.prior_scale_ * np.exp(side))
        u, f = weights_and_scores(problem, at)
        for _ in range(30):
            here = expanded(problem, at, u, A, f)
            H = Solved.of(here.root)
            move = H.solve(here.grad.astype(float)).reshape(u.shape)
            u = u + move
            f = (at.Z @ u.T)[:, 0] if f.ndim == 1 else at.Z @ u.T
            if (H.half(here.grad.astype(float)) ** 2).sum() < 1e-16:
                break
        here = expanded(problem, at, u, A, f)
        heights.append(here.value - 0.5 * Solved.of(here.root).logdet)
    return (heights[1] - heights[0]) / (2 * step)


def sum_to_zero(K: int) -> np.ndarray:
    if K == 1:
        return np.eye(1)
    return np.linalg.svd(np.eye(K) - 1 / K)[0][:, :-1]


# --- refusals ---------------------------------------------------------------------------------------------------


def dependence(problem: LinearProblem) -> float:
    """Smallest singular value of the standardised design beside the largest; 0 with fewer rows than columns."""
    Z = standardised(problem).Z
    if len(Z) < Z.shape[1]:
        return 0.0
    values = np.linalg.svd(Z, compute_uv=False)
    return float(values[-1] / values[0])


def separable(problem: LinearProblem) -> bool:
    """Whether a linear programme finds a direction along which no row loses and one gains (Konis 2007)."""
    Z, K = standardised(problem).Z, problem.classes
    D, rows = Z.shape[1], []
    for z, label in zip(Z / np.abs(Z).max(axis=1, keepdims=True), problem.y, strict=True):
        for k in range(K):
            if k != label:
                gap = np.zeros((K, D))
                gap[label], gap[k] = z, -z
                rows.append(gap.ravel())
    gaps = np.array(rows)
    found = linprog(-gaps.sum(axis=0), A_ub=-gaps, b_ub=np.zeros(len(gaps)), bounds=(-1, 1), method="highs")
    assert found.status == 0, found.message
    return bool(-found.fun > 1e-6)


def first_condition(problem: LinearProblem) -> float:
    """Condition of the posterior precision at weights of zero, where a fit starts; columns in their own units."""
    at, K = standardised(problem), 1 if problem.classes == 2 else problem.classes
    u, f = np.zeros((K, at.Z.shape[1])), np.zeros(len(at.Z)) if K == 1 else np.zeros((len(at.Z), K))
    return Solved.of(expanded(problem, at, u, prior_root(problem, at), f).root).condition


def widest_score(problem: LinearProblem) -> float:
    """Largest prior variance of a score."""
    at = standardised(problem)
    return float((np.linalg.solve(prior_root(problem, at).T, at.Z.T) ** 2).sum(axis=0).max())


# --- all of it --------------------------------------------------------------------------------------------------

SINGULAR = 1 / (16 * EPS)  # condition from which on a factorisation may fail
DEPENDENT = 1e-6  # the library looks at a Gram matrix, whose eigenvalues are squares known to 1e-13


def examine_linear(problem: LinearProblem) -> str:
    """Fit, predict, and check what is claimed; returns how it ended."""
    model = problem.model
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(problem.X, problem.y, problem.weight)
        except InputError as error:
            assert not told, (told, problem)
            return check_refusal(problem, error)
        look_at_predictions(problem)
    expected = [] if model.status_.good else [(ConvergenceWarning, model.status_.value)]
    assert [(it.category, str(it.message)) for it in told] == expected, problem
    how = check_status(problem)
    return f"{model.inference}: {model.status_.name}{how}"


def check_refusal(problem: LinearProblem, error: InputError) -> str:
    """A refusal must be right about its reason."""
    what = f"{error}\n{problem}"
    if isinstance(error, SeparationError):
        assert problem.model.prior is None and separable(problem), what
    elif isinstance(error, CollinearityError):
        assert problem.model.prior is None and dependence(problem) <= DEPENDENT, what
        assert ("fewer rows" in str(error)) <= (len(problem.X) < problem.X.shape[1] + 1), what
        assert ("Constant columns" in str(error)) <= (np.ptp(problem.X, axis=0) == 0).any(), what
    else:
        assert isinstance(error, SingularPriorError) and problem.model.prior is not None, what
        # EP takes a site's precision off that of its score: nothing is left where the prior's share is below eps
        worst = max(first_condition(problem), widest_score(problem) if problem.model.inference == "ep" else 0.0)
        assert worst >= SINGULAR, (worst, what)
    return type(error).__name__


def look_at_predictions(problem: LinearProblem) -> None:
    """At the rows, and at rows far away."""
    model = problem.model
    rows = np.vstack([problem.X, 1e6 * problem.X, 0 * problem.X[:1]])
    log_proba, interval = model.predict_log_proba(rows), model.predict_interval(rows)
    assert (log_proba <= 0).all() and np.abs(np.exp(log_proba).sum(axis=1) - 1).max() <= 1e-12, problem
    assert (interval >= 0).all() and (interval <= 1).all() and (interval[..., 0] <= interval[..., 1]).all(), problem
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all(), problem
    assert np.isfinite(model.posterior_.std).all() and (model.posterior_.std > 0).all(), problem
    assert model.prior is None or model.log_evidence_ <= 1e-9, problem


def check_status(problem: LinearProblem) -> str:
    """What the status claims; what else is to be counted."""
    model, how = problem.model, ""
    if model.inference == "ep":  # its fixed points are looked at in function space, where sites are to be had
        assert model.status_ is Status.CONVERGED or (
            model.status_ is Status.SWEEP_LIMIT and model.n_iter_ == model.max_iter
        ), problem
        return how
    far = distance_to_mode(problem)
    if model.status_.good:
        if far.squared > 1e-19 + far.flat + 16 * far.rounding:
            # The last step squares what is left, unless some row is far out: there steps gain a factor of e, while they
            # can, from the goal that was set.
            assert far.squared <= model.tol, (far, problem)
            how = ", to the goal only"
        if model.prior is not None and far.condition < SINGULAR:
            off = abs(model.log_evidence_ - far.log_evidence)
            assert off <= 1e-9 * abs(far.log_evidence) + far.unknown, (off, far, problem)
    elif model.status_ is Status.STEP_LIMIT:
        assert model.n_iter_ == model.max_iter + 1, problem
    else:  # flat: a gain that the objective does not show, or curvature that is lost in rounding
        assert model.status_ is Status.STALLED, problem
        assert far.squared / 2 <= far.flat or far.condition >= SINGULAR, (far, problem)
    if model.prior == "empirical":
        check_scale(problem)
    return how


def check_scale(problem: LinearProblem) -> None:
    model = problem.model
    low, high = (np.isclose(model.prior_scale_, bound, rtol=1e-7) for bound in (1e-3, 1e3))
    assert (model.status_ is Status.SCALE_AT_BOUND) == (low or high), problem
    slope = evidence_slope(problem)
    rising = (slope > 0) * (not high) + (slope < 0) * (not low)
    # the library stops at 1e-3 nats per e-fold
    noise = distance_to_mode(problem).flat / 1e-4
    assert abs(slope) * bool(rising) <= 2e-3 + noise, (slope, noise, problem)
