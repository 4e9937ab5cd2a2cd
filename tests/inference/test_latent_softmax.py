"""Joint softmax Laplace against explicit Cn × Cn matrices, which the library never forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from credibly.inference.kernel_evidence import KernelEvidence
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.inference.latent_softmax import ClassLatents, ClassPrecision, softmax_latents
from credibly.kernels import RBF, Constant, Linear, Matern, White
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.numerics.status import TO_ROUNDING, Status

NUGGET = White(0.1, variance_bounds="fixed")  # so that the explicit formulas may invert K


def toy(n: int, C: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X @ rng.normal(size=(2, C)) + rng.gumbel(size=(n, C))).argmax(axis=1)
    y[:C] = np.arange(C)
    return X, y


def kernels_of(C: int, *, own: bool):
    each = tuple(Constant(1.0 + c) * RBF((0.8 + 0.3 * c, 1.9)) + NUGGET for c in range(C))
    return each if own else each[:1]


def inverse(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


def block_diagonal(blocks) -> np.ndarray:
    n = len(blocks[0])
    full = np.zeros((n * len(blocks),) * 2)
    for c, block in enumerate(blocks):
        full[c * n : (c + 1) * n, c * n : (c + 1) * n] = block
    return full


class Dense:
    """Everything typed again with vec f = (f_1, …, f_C), class by class."""

    def __init__(self, matrices, y, f):
        n, C = f.shape
        self.n, self.C, self.y, self.f = n, C, y, f
        self.K = block_diagonal([matrices[c % len(matrices)] for c in range(C)])
        pi = softmax(f, axis=1)
        stacked = np.vstack([np.diag(pi[:, c]) for c in range(C)])
        self.W = np.diag(pi.T.ravel()) - stacked @ stacked.T
        self.S = inverse(inverse(self.K) + self.W)
        self.R = self.W - self.W @ self.S @ self.W

    @property
    def log_evidence(self) -> float:
        vec = self.f.T.ravel()
        fit = log_softmax(self.f, axis=1)[np.arange(self.n), self.y].sum()
        determinant = np.linalg.slogdet(np.eye(self.n * self.C) + self.K @ self.W)[1]
        return float(fit - 0.5 * vec @ np.linalg.solve(self.K, vec) - 0.5 * determinant)

    def cov(self) -> np.ndarray:
        """Of the classes at every row, (n, C, C)."""
        return np.array([self.S[i :: self.n, i :: self.n] for i in range(self.n)])


@pytest.fixture(
    params=[(2, False), (3, False), (3, True), (5, False), (5, True)], ids=lambda it: f"C={it[0]}-own={it[1]}"
)
def case(request):
    C, own = request.param
    X, y = toy(12, C)
    kernels = kernels_of(C, own=own)
    matrices = tuple(kernel(X) for kernel in kernels)
    result = softmax_latents(ClassLatents(matrices, y, Categorical(C)))
    return X, y, kernels, result, Dense(matrices, y, result.mean)


def test_the_mode_is_where_the_gradient_vanishes_and_no_other_search_finds_more(case):
    """f̂_c = K_c (y_c - π_c), for every class."""
    X, y, _, result, dense = case
    assert result.status is Status.CONVERGED
    residual = np.eye(dense.C)[y] - softmax(result.mean, axis=1)
    assert_allclose(result.mean.T.ravel(), dense.K @ residual.T.ravel(), rtol=1e-9, atol=1e-9)
    P = inverse(dense.K)

    def psi(vec):
        f = vec.reshape(dense.C, dense.n).T
        residual = np.eye(dense.C)[y] - softmax(f, axis=1)
        fit = log_softmax(f, axis=1)[np.arange(len(X)), y].sum()
        return 0.5 * vec @ P @ vec - fit, P @ vec - residual.T.ravel()

    found = minimize(psi, np.zeros(dense.n * dense.C), jac=True, method="BFGS").fun
    assert psi(result.mean.T.ravel())[0] <= found + 1e-10


def test_the_evidence_is_the_dense_one(case):
    _, _, _, result, dense = case
    assert_allclose(result.log_evidence, dense.log_evidence, rtol=1e-11)
    assert_allclose(
        result.mode.precision.logdet, np.linalg.slogdet(np.eye(len(dense.K)) + dense.K @ dense.W)[1], rtol=1e-11
    )
    assert_allclose(result.effective_parameters(), np.trace(dense.S @ dense.W), rtol=1e-9)


def test_the_solver_applies_the_dense_inverse(case):
    _, _, _, result, dense = case
    u = np.random.default_rng(1).normal(size=(dense.n, dense.C))
    expected = (dense.R @ u.T.ravel()).reshape(dense.C, dense.n).T
    assert_allclose(result.mode.precision.weigh(u), expected, rtol=1e-8, atol=1e-10)


def test_marginals_at_the_training_rows(case):
    _, _, _, result, dense = case
    mean, cov = result.marginals()
    assert_allclose(mean, dense.f)
    assert_allclose(cov, dense.cov(), rtol=1e-9, atol=1e-11)
    blocks, _ = result._blocks()
    for c, block in enumerate(blocks):
        part = slice(c * dense.n, (c + 1) * dense.n)
        assert_allclose(block, dense.R[part, part], rtol=1e-8, atol=1e-10)


def test_latents_elsewhere(case):
    """k*ᵀ a, and prior - k*ᵀ R k* with all classes' rows together; one at a time, and jointly."""
    X, _, kernels, result, dense = case
    Z = np.array([[0.0, 0.0], [1.0, -0.5], [0.3, 2.0], [50.0, 50.0]])
    cross, m, C = tuple(kernel(X, Z) for kernel in kernels), len(Z), dense.C
    full = np.zeros((dense.n * C, m * C))
    prior = np.zeros((m * C, m * C))
    for c in range(C):
        full[c * dense.n : (c + 1) * dense.n, c * m : (c + 1) * m] = cross[c % len(cross)]
        prior[c * m : (c + 1) * m, c * m : (c + 1) * m] = kernels[c % len(kernels)](Z)
    mean = (full.T @ np.linalg.solve(dense.K, dense.f.T.ravel())).reshape(C, m).T
    cov = prior - full.T @ dense.R @ full
    scores = result.posterior.scores(cross, tuple(kernel.diag(Z) for kernel in kernels))
    joint = result.posterior.joint(cross, tuple(kernel(Z) for kernel in kernels))
    for found in (scores, joint):
        assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-10)
    assert_allclose(joint.variance, cov, rtol=1e-9, atol=1e-11)
    assert_allclose(scores.variance, [cov[i::m, i::m] for i in range(m)], rtol=1e-9, atol=1e-11)


def slopes(function, theta, step=1e-2):
    """Central differences of fourth order: truncation h⁴/30 (3e-10), and 1e-10 of an evidence over h (1e-8)."""
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    steps = step * np.eye(len(theta))
    return np.array([sum(w * function(theta + k * e) for k, w in weights.items()) / step for e in steps])


def evidence(X, y, kernels, C) -> KernelEvidence:
    def inferred(matrices, _flips, start, controls):
        return softmax_latents(ClassLatents(matrices, y, Categorical(C)), start, controls)

    return KernelEvidence(X, kernels, inferred)


def test_the_gradient_of_the_evidence(case):
    X, y, kernels, _, dense = case
    of = evidence(X, y, kernels, dense.C)
    at = of.at(of.start, None, TO_ROUNDING)
    differences = slopes(lambda theta: of.at(theta, at.result.warm, TO_ROUNDING).result.log_evidence, of.start)
    assert_allclose(of.gradient(at, TO_ROUNDING), differences, rtol=1e-7, atol=1e-7)


def test_the_gradient_with_kernels_of_different_kinds():
    X, y = toy(12, 3)
    of = evidence(X, y, (Constant(2.0) * RBF(0.8), Matern((1.0, 2.0), 2.5), Linear(bias=0.7)), 3)
    at = of.at(of.start, None, TO_ROUNDING)
    assert of.start.size == 2 + 2 + 1
    differences = slopes(lambda theta: of.at(theta, at.result.warm, TO_ROUNDING).result.log_evidence, of.start)
    assert_allclose(of.gradient(at, TO_ROUNDING), differences, rtol=1e-7, atol=1e-7)


def test_the_movement_of_the_mode_counts_in_the_gradient(case):
    X, y, kernels, result, dense = case
    of = evidence(X, y, kernels, dense.C)
    at = of.at(of.start, None, TO_ROUNDING)
    a = result.mode.point.a
    explicit = [0.5 * (np.outer(a[:, c], a[:, c]) - block) for c, block in enumerate(result._blocks()[0])]
    if len(kernels) == 1:
        explicit = [sum(explicit)]
    without = np.concatenate([k.gradient_sums(X, M) for k, M in zip(kernels, explicit, strict=True)])
    assert np.abs(without - of.gradient(at, TO_ROUNDING)).max() > 1e-3


# --- leave one out ------------------------------------------------------------------------------------------


def test_the_cavity_of_leave_one_out_is_the_dense_one(case):
    """(Σ_i⁻¹ - W_i)⁻¹, and the mean that the row's own gradient takes off."""
    _, y, _, result, dense = case
    likelihood = Categorical(dense.C)
    W, cov = likelihood.curvature(softmax(dense.f, axis=1)), dense.cov()
    grad = np.eye(dense.C)[y] - softmax(dense.f, axis=1)
    V = np.array([inverse(inverse(S) - w) for S, w in zip(cov, W, strict=True)])
    m = np.array([f - v @ g for f, v, g in zip(dense.f, V, grad, strict=True)])
    expected = likelihood.log_average(m, V)[np.arange(dense.n), y]
    # both averages are good to 1e-6 of a probability, and they are at the same cavity but for rounding
    assert_allclose(np.exp(result.leave_one_out()), np.exp(expected), atol=2e-6)


def test_leave_one_out_approaches_refitting():
    """As for two classes: what is neglected falls faster than the variance squared (down to the 1e-6 of averages)."""
    X, y = toy(15, 3)

    def error(variance):
        K = (variance * RBF(1.0))(X)
        whole = softmax_latents(ClassLatents((K,), y, Categorical(3))).leave_one_out()
        refitted = []
        for i in range(15):
            rest = np.delete(np.arange(15), i)
            left = softmax_latents(ClassLatents((K[np.ix_(rest, rest)],), y[rest], Categorical(3)))
            scores = left.posterior.scores((K[rest, i : i + 1],), (K[i : i + 1, i],))
            refitted.append(Categorical(3).log_average(*scores)[0, y[i]])
        return np.abs(whole - np.array(refitted)).max()

    errors = [error(v) for v in (4.0, 1.0, 0.25)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[1] < 1e-2


# --- what must not matter, and extremes ---------------------------------------------------------------------


def test_a_start_elsewhere_ends_in_the_same_mode(case):
    X, y, kernels, result, dense = case
    problem = ClassLatents(tuple(kernel(X) for kernel in kernels), y, Categorical(dense.C))
    far = softmax_latents(problem, 100 * np.random.default_rng(0).normal(size=(dense.n, dense.C)))
    assert far.status is Status.CONVERGED
    assert_allclose(far.mean, result.mean, rtol=1e-8, atol=1e-9)


def test_too_few_steps_are_said():
    X, y = toy(12, 3)
    result = softmax_latents(
        ClassLatents((100 * RBF(1.0)(X),), y, Categorical(3)), controls=TO_ROUNDING._replace(max_steps=1)
    )
    assert result.status is Status.STEP_LIMIT and np.isfinite(result.log_evidence)


@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("variance", [1e-8, 1e8])
@pytest.mark.parametrize("length", [1e-3, 1e3])
@pytest.mark.parametrize("rows", ["different", "identical"])
def test_extremes(C, variance, length, rows):
    X, y = toy(12, C)
    K = variance * RBF(length)(X if rows == "different" else np.zeros_like(X))
    result = softmax_latents(ClassLatents((K,), y, Categorical(C)))
    assert result.status.good
    assert np.isfinite(result.log_evidence) and result.log_evidence <= 1e-9
    assert np.isfinite(result.gradient_matrices()[0]).all()
    assert (np.einsum("ncc->nc", result.marginals().variance) > 0).all()
    if variance < 1:
        assert_allclose(result.log_evidence, -12 * np.log(C), atol=1e-6)


def test_one_row():
    """Two classes, one row: the logit of one row with twice the variance."""
    softmax_one = softmax_latents(ClassLatents((np.array([[1.5]]),), np.array([1]), Categorical(2)))
    logit = laplace_latents(Latents(np.array([[3.0]]), np.ones(1), BernoulliLogit()))
    assert_allclose(softmax_one.log_evidence, logit.log_evidence, rtol=1e-12)


def test_certain_rows_do_not_break_the_sum_of_class_precisions():
    """π at 0 and 1 to all digits: E_c is nearly zero for the classes that are out of the question."""
    X = np.array([[-100.0], [0.0], [100.0]]).repeat(4, axis=0)
    y = np.repeat([0, 1, 2], 4)
    K = 1e6 * RBF(1.0)(X)
    result = softmax_latents(ClassLatents((K,), y, Categorical(3)))
    assert result.status.good and np.isfinite(result.log_evidence)
    parts = ClassPrecision.of((K,), softmax(1e3 * np.eye(3)[y], axis=1))
    assert np.isfinite(parts.logdet)
