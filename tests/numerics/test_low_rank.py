"""Precisions held by a diagonal and directions answer as the matrix would."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from credibly.errors import InputError
from credibly.numerics.anchors import Anchors
from credibly.numerics.arrow import Arrow
from credibly.numerics.conjugate_gradients import conjugate_gradients
from credibly.numerics.lanczos import Lanczos
from credibly.numerics.low_rank import LARGEST_FULL, ChosenDirections, RowDirections, WidePrecision

D, N = 7, 4
rng = np.random.default_rng(3)
ARROW = Arrow(rng.uniform(0.5, 2.0, D), np.append(rng.normal(size=D - 1), 0.0))
SPARSE = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)


def dense_arrow() -> np.ndarray:
    G = np.diag(ARROW.diagonal)
    G[-1] += ARROW.last
    return G


def by_rows(K: int, *, sparse: bool) -> tuple[WidePrecision, np.ndarray]:
    """Exact directions, and the precision that they stand for."""
    B = rng.normal(size=(N, K, K))
    rows = csr_array(SPARSE) if sparse else SPARSE
    total = np.kron(np.eye(K), dense_arrow().T @ dense_arrow())
    for z, b in zip(SPARSE, B, strict=True):
        total += np.kron(b @ b.T, np.outer(z, z))
    return WidePrecision(RowDirections.of(ARROW, rows, B)), total


def chosen(K: int, known: int = 0) -> tuple[WidePrecision, np.ndarray]:
    """A diagonal and three directions, and some projections whose exact covariances come from another matrix."""
    turn = np.linalg.qr(rng.normal(size=(K, K)))[0]
    root, S = rng.uniform(1, 2, (K, D)), rng.normal(size=(K, D, 3))
    flat = S.reshape(K * D, 3)
    inner = np.diag(root.reshape(-1)) @ (np.eye(K * D) + flat @ flat.T) @ np.diag(root.reshape(-1))
    T, G = np.kron(turn, np.eye(D)), np.kron(np.eye(K), dense_arrow())
    if not known:
        return WidePrecision(ChosenDirections.of(ARROW, turn, root, S)), G.T @ T @ inner @ T.T @ G
    R = rng.normal(size=(K * D, K * D))
    E, B, exact = rng.normal(size=(K * D, known)), np.linalg.solve(inner, np.eye(K * D)), R @ R.T / D
    anchors = Anchors.of(E, B @ E, exact @ E)
    low = ChosenDirections.of(ARROW, turn, root, S, anchors)
    # Given t = Eᵀx as before, t itself as it is: the Gaussian's two factors, each from its own matrix.
    on = np.linalg.solve(E.T @ exact @ E, E.T @ exact).T
    given = B - B @ E @ np.linalg.solve(E.T @ B @ E, E.T @ B)
    precision = np.linalg.solve(given + on @ E.T @ exact, np.eye(K * D))
    return WidePrecision(low), G.T @ T @ precision @ T.T @ G


CASES = {
    "rows": lambda: by_rows(1, sparse=False),
    "sparse rows": lambda: by_rows(1, sparse=True),
    "rows of three classes": lambda: by_rows(3, sparse=True),
    "chosen": lambda: chosen(1),
    "chosen for three classes": lambda: chosen(3),
    "anchored": lambda: chosen(1, known=2),
    "anchored for three classes": lambda: chosen(3, known=4),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


def test_it_answers_as_the_matrix(case):
    held, matrix = case
    M = len(matrix)
    b = rng.normal(size=(M, 2))
    np.testing.assert_allclose(held.matrix, matrix, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(held.factor, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(held.times(b.T).T, matrix @ b, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(held.solve(b), np.linalg.solve(matrix, b), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(held.solve(b[:, 0]), held.solve(b)[:, 0], rtol=1e-13)
    np.testing.assert_allclose(held.logdet, np.linalg.slogdet(matrix)[1], rtol=1e-11)
    inverse = np.linalg.solve(matrix, np.eye(len(matrix)))
    np.testing.assert_allclose(held.inverse_diagonal(), np.diag(inverse), rtol=1e-9)
    root = held.half_solve_transposed(np.eye(M))
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(held.half_solve(np.eye(M)), root.T, rtol=1e-9, atol=1e-11)


def test_rows_have_the_covariance_that_the_matrix_gives_them(case):
    held, matrix = case
    K = held.low.outputs
    inverse = np.linalg.solve(matrix, np.eye(len(matrix))).reshape(K, D, K, D)
    want = np.einsum("nd,kdle,ne->nkl", SPARSE, inverse, SPARSE)
    for Z in (SPARSE, csr_array(SPARSE)):
        np.testing.assert_allclose(held.row_covariances(Z), want, rtol=1e-9, atol=1e-10)


def test_what_the_data_left_of_the_prior_is_a_trace(case):
    held, matrix = case
    prior = np.kron(np.eye(held.low.outputs), dense_arrow().T @ dense_arrow())
    np.testing.assert_allclose(held.low.kept, np.trace(np.linalg.solve(matrix, prior)), rtol=1e-10)


@pytest.mark.parametrize("name", ["matrix", "factor", "inverse_root"])
def test_matrices_beyond_a_size_are_refused(name):
    M = LARGEST_FULL + 1
    low = ChosenDirections.of(Arrow(np.ones(M), np.zeros(M)), np.eye(1), np.ones((1, M)), np.ones((1, M, 1)))
    with pytest.raises(InputError, match=r"5,001 weights .* 0\.2 GB.*posterior_\.std.*project"):
        getattr(WidePrecision(low), name)


def test_arrows_take_sparse_rows_as_they_take_dense_ones():
    share, A, B = rng.uniform(size=D), csr_array(SPARSE), rng.normal(size=(3, D))
    white = np.linalg.solve(dense_arrow().T, SPARSE.T).T
    np.testing.assert_allclose(ARROW.whiten(A), white, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ARROW.squares(A, share), white**2 @ share, rtol=1e-11)
    np.testing.assert_allclose(ARROW.products(A, A), white @ white.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ARROW.products(A, B), white @ ARROW.whiten(B).T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ARROW.transposed(B), B @ dense_arrow(), rtol=1e-12)


def test_conjugate_gradients_know_the_log_determinant():
    """All unit vectors as probes give the trace of the logarithm without noise; one that is done early waits."""
    R = rng.normal(size=(6, 6))
    A = R @ R.T + np.eye(6)
    found = conjugate_gradients(lambda x: x @ A, np.vstack([np.eye(6), np.linalg.eigh(A)[1][:, 0]]), tol=1e-10, most=50)
    np.testing.assert_allclose(found.x[:6], np.linalg.solve(A, np.eye(6)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.log_quadratic()[:6].sum(), np.linalg.slogdet(A)[1], rtol=1e-8)
    assert np.isnan(found.alpha[2:, 6]).all()  # an eigenvector is solved in one step, of which the second is told


def test_conjugate_gradients_spend_nothing_on_what_is_done():
    """Each right-hand side to its own accuracy: the same numbers as alone, and no products beyond its own."""
    A, b, tol = np.geomspace(1, 50, 40), rng.normal(size=(3, 40)), np.array([1e-1, 1e-8, 1e-3])
    products = []
    found = conjugate_gradients(lambda x: (products.append(len(x)), x * A)[1], b, tol=tol, most=100)
    alone = [conjugate_gradients(lambda x: x * A, b[[i]], tol=tol[i], most=100) for i in range(3)]
    assert sum(products) == sum(each.steps for each in alone) < 3 * found.steps
    for i, each in enumerate(alone):
        np.testing.assert_allclose(found.x[i], each.x[0], rtol=1e-12)
        np.testing.assert_allclose(found.of(slice(i, i + 1)).log_quadratic(), each.log_quadratic(), rtol=1e-12)


def test_lanczos_that_goes_on_finds_what_one_run_does():
    R = rng.normal(size=(30, 30))
    A, start = R @ R.T, rng.normal(size=30)
    parts = Lanczos(lambda x: x @ A, start)
    parts.extend(10)
    parts.extend(20)
    values, vectors = parts.pairs()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(30), atol=1e-10)


def test_conjugate_gradients_that_are_stopped_give_the_best_point_so_far():
    """One step is that of steepest descent: (bᵀb / bᵀAb) b."""
    found = conjugate_gradients(lambda x: x * np.array([1.0, 3.0]), np.array([[1.0, 1.0]]), tol=1e-12, most=1)
    np.testing.assert_allclose(found.x, [[0.5, 0.5]], rtol=1e-15)
    assert found.steps == 1


def test_no_anchors_change_nothing():
    nothing = np.zeros((D, 0))
    anchors, x = Anchors.of(nothing, nothing, nothing), np.arange(2.0 * D).reshape(2, D)
    for change in (anchors.times, anchors.solve, anchors.times_transposed, anchors.solve_transposed):
        np.testing.assert_array_equal(change(x), x)
    assert (anchors.logdet, anchors.trace) == (0.0, 0.0)
