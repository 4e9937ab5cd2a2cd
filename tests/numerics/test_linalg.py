"""Positive definite matrices by their factors, against dense NumPy; what a Gaussian process asks of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.kernels import RBF
from credibly.numerics.linalg import (
    LARGEST_SCRATCH,
    PSD,
    from_root,
    from_upper,
    pivots_above,
    scratch,
    semidefinite_root,
    softmax_gram,
    upper_factor,
)

EPS = np.finfo(float).eps


def definite(d: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(d, d))
    return root @ root.T + 0.1 * np.eye(d)


def inverse_of(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


# --- identity_plus and scaled_inverse -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7])
def test_identity_plus_is_the_factor_of_one_plus_sks(n):
    K, s = definite(n), np.linspace(0.0, 2.0, n)
    before = K.copy(), s.copy()
    B = PSD.identity_plus(K, s)
    dense = np.eye(n) + s[:, None] * K * s
    assert_allclose(B.matrix, dense, rtol=1e-13, atol=1e-14)
    assert_array_equal(B.factor, np.tril(B.factor))
    assert_allclose(B.logdet, np.linalg.slogdet(dense)[1], rtol=1e-12, atol=1e-14)
    assert_array_equal(K, before[0])
    assert_array_equal(s, before[1])


def test_identity_plus_takes_a_kernel_matrix_of_rank_one():
    """|I + s²11ᵀ| = 1 + n s², exactly."""
    n, s = 50, 1e4
    B = PSD.identity_plus(np.ones((n, n)), np.full(n, s))
    # n pivots of about one are what is left of 1 + s² when s² is taken off: each is rounded to EPS of s²
    assert_allclose(B.logdet, np.log1p(n * s**2), atol=n * EPS * s**2)
    assert_allclose(PSD.identity_plus(np.zeros((3, 3)), np.full(3, s)).matrix, np.eye(3), rtol=0)


def test_identity_plus_names_a_kernel_matrix_that_is_none():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues 3 and -1
    with pytest.raises(NotPositiveDefinite, match=r"kernel matrix.*-1\.0e\+00"):
        PSD.identity_plus(K, np.full(2, 1.1))
    PSD.identity_plus(K, np.full(2, 0.9))  # 1 - 0.81 is still positive


def test_identity_plus_refuses_what_is_not_finite():
    with pytest.raises(NotPositiveDefinite, match="not finite"):
        PSD.identity_plus(np.full((2, 2), np.nan), np.ones(2))


@pytest.mark.parametrize("n", [1, 2, 7, 70, 256, 257, 600])  # mirrored in blocks of 256
def test_scaled_inverse_is_the_whole_matrix(n):
    K, s = definite(n), np.linspace(0.0, 2.0, n)
    B = PSD.identity_plus(K, s)
    factor = B.factor.copy()
    R = B.scaled_inverse(s)
    assert_allclose(R, s[:, None] * inverse_of(np.eye(n) + s[:, None] * K * s) * s, rtol=1e-10, atol=1e-13)
    assert_allclose(R, R.T, rtol=1e-15, atol=0)
    assert_array_equal(B.factor, factor)


def test_half_solves_are_roots_of_the_inverse():
    A, b = definite(5), np.arange(10.0).reshape(5, 2)
    inverse = inverse_of(A)
    psd = PSD.of(A, "a test")
    half = psd.half_solve(b)
    assert_allclose(half.T @ half, b.T @ inverse @ b, rtol=1e-10)
    root = psd.half_solve_transposed(np.eye(5))
    assert_allclose(root @ root.T, inverse, rtol=1e-10)
    assert_allclose(psd.solve(b), inverse @ b, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no more digits than a double to compare with")
def test_rows_are_whitened_by_a_product_where_the_matrix_is_hardly_definite():
    """As many digits as by substitution, though the inverse of the factor is formed."""
    rng = np.random.default_rng(3)
    kernel, Z, X = RBF(1.5), rng.normal(size=(150, 3)), rng.normal(size=(40, 3))
    matrix, B = PSD.of(kernel(Z, Z), "K"), kernel(X, Z)
    assert np.linalg.cond(matrix.factor) > 1e4
    exact, L = B.astype(np.longdouble), matrix.factor.astype(np.longdouble)
    for i in range(len(L)):
        exact[:, i] = (exact[:, i] - exact[:, :i] @ L[i, :i]) / L[i, i]

    def error(rows):
        return float(np.abs(rows - exact).max())

    assert error(B @ matrix.inverse_root.T) < 4 * error(matrix.half_solve(B.T).T)  # rounding in two orders of sums


# --- semidefinite_root --------------------------------------------------------------------------------------


def test_the_root_of_a_definite_matrix_has_full_rank():
    A = definite(6)
    S = semidefinite_root(A, "a test")
    assert S.shape == (6, 6)
    assert_allclose(S @ S.T, A, rtol=1e-13, atol=1e-14)


def test_the_root_of_a_matrix_of_rank_one_is_one_column():
    v = np.array([0.5, -2.0, 0.0, 3.0])
    S = semidefinite_root(np.outer(v, v), "a test")
    assert S.shape == (4, 1)
    assert_allclose(np.abs(S[:, 0]), np.abs(v), rtol=1e-14)
    assert_allclose(S @ S.T, np.outer(v, v), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_the_root_of_a_singular_matrix_has_as_many_columns_as_the_rank(rank):
    V = np.random.default_rng(0).normal(size=(8, rank))
    S = semidefinite_root(V @ V.T, "a test")
    assert S.shape == (8, rank)
    assert_allclose(S @ S.T, V @ V.T, rtol=1e-12, atol=1e-13)


def test_the_root_of_zero_is_empty():
    S = semidefinite_root(np.zeros((3, 3)), "a test")
    assert_allclose(S @ S.T, np.zeros((3, 3)))
    assert semidefinite_root(np.zeros((0, 0)), "a test").shape == (0, 0)


def test_the_root_is_on_the_scale_of_the_matrix():
    """Rank is relative: a small matrix is not a zero one."""
    for scale in (1e-200, 1e-12, 1.0, 1e200):
        S = semidefinite_root(scale * definite(4), "a test")
        assert_allclose(S @ S.T, scale * definite(4), rtol=1e-12)


def test_two_equal_rows_have_equal_roots():
    """A draw of a function has one value at a row that is asked for twice."""
    A = definite(3)[np.ix_([0, 1, 2, 1], [0, 1, 2, 1])]
    S = semidefinite_root(A, "a test")
    assert S.shape[1] == 3
    assert_allclose(S[3], S[1], atol=1e-14)


@pytest.mark.parametrize(
    "A",
    [
        np.diag([1.0, -1.0]),
        np.diag([1.0, -1e-6]),
        -np.eye(3),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
    ],
    ids=["signed", "slightly", "negative", "correlation-of-two", "no-diagonal"],
)
def test_an_indefinite_matrix_has_no_root(A):
    with pytest.raises(NotPositiveDefinite, match="the posterior is not positive semi-definite"):
        semidefinite_root(A, "the posterior")


def test_eigenvalues_below_zero_by_rounding_are_zeros():
    A = np.ones((2, 2))
    A[0, 0] -= 4 * EPS  # an eigenvalue of -2 EPS
    assert np.linalg.eigvalsh(A)[0] < 0
    S = semidefinite_root(A, "a test")
    assert_allclose(S @ S.T, np.ones((2, 2)), rtol=1e-14)


# --- Scratch memory -------------------------------------------------------------------------------


def test_scratch_memory_is_used_again_up_to_a_size():
    small = scratch(10, 10, "of this test")
    assert np.shares_memory(small, scratch(5, 20, "of this test"))
    assert not np.shares_memory(small, scratch(10, 10, "of this test too"))
    large = scratch(LARGEST_SCRATCH, 2, "of this test")
    assert not np.shares_memory(large, scratch(LARGEST_SCRATCH, 2, "of this test"))
    assert np.shares_memory(small, scratch(10, 10, "of this test"))


# --- upper_factor -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "below",
    [
        pytest.param([(1, 0), (2, 0)], id="one column: a rotation fills the next one"),
        pytest.param([(2, 1), (5, 1), (3, 2), (4, 2)], id="two columns"),
        pytest.param([(5, j) for j in range(5)], id="a last row, as an intercept has"),
        pytest.param([(i, j) for i in range(6) for j in range(i)], id="all"),
        pytest.param([], id="none"),
    ],
)
def test_an_upper_factor_is_triangular_whatever_is_below_the_diagonal(below):
    G = np.diag(np.array([0.9, -1.2, 1.1, 0.7, 2.0, -0.5]))
    for place in below:
        G[place] = 1.0 - 0.3 * sum(place)
    R = upper_factor(G)
    assert_array_equal(np.tril(R, -1), 0.0)
    assert_allclose(R.T @ R, G.T @ G, rtol=0, atol=20 * EPS * np.abs(G).max() ** 2 * len(G))


def test_a_prior_with_one_weight_behind_the_others_keeps_its_covariance():
    """w₁ and w₂ are w₀ plus something of their own: the factor of the inverse has zeros that rotations fill."""
    cov = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    prior = Gaussian.from_mapped_moments(np.zeros(3), cov, np.eye(3), "the prior")
    assert_allclose(prior.precision.solve(np.eye(3)), cov, rtol=0, atol=20 * EPS)


# --- factors from roots and from parts ----------------------------------------------------------------------


def test_a_root_of_any_shape_gives_the_factor_of_its_product():
    M = np.random.default_rng(0).normal(size=(4, 7))
    assert_allclose(from_root(M).factor, np.linalg.cholesky(M @ M.T), rtol=1e-12, atol=1e-14)
    R = np.triu(M[:, :4]) * [[1.0], [-1.0], [1.0], [-1.0]]
    assert_allclose(from_upper(R).factor, np.linalg.cholesky(R.T @ R), rtol=1e-12, atol=1e-14)


def test_a_root_keeps_what_its_product_would_round_away():
    M = np.array([[1.0, 0.0], [1.0, 1e-12]])
    assert from_root(M).factor[1, 1] == pytest.approx(1e-12, rel=1e-3)  # eps / 1e-12
    with pytest.raises(NotPositiveDefinite):
        PSD.of(M @ M.T, "the product")


def test_pivots_tell_what_was_cancelled():
    A = PSD.of(np.array([[4.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0 + 1e-6]]), "A")
    assert pivots_above(A, 0.99e-6) and not pivots_above(A, 1.01e-6)  # 1.000001 - 2²/4
    assert pivots_above(PSD.diagonal(np.array([1e-9, 1e9])), 0.999)
    assert not pivots_above(PSD(np.zeros((1, 1))), 1e-300)


@pytest.mark.parametrize("matrix", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[np.nan]]), np.array([[np.inf]])])
def test_what_is_not_positive_definite_is_refused_by_name(matrix):
    with pytest.raises(NotPositiveDefinite, match="the posterior"):
        PSD.of(matrix, "the posterior")


# --- products over rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_information_of_a_softmax_is_the_sum_over_rows(table, intercept, weighted):
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(9, 2)) * (rng.random((9, 2)) < 0.7), rng.dirichlet(np.ones(3), size=9)
    weight = rng.random(9) if weighted else None
    Z = np.column_stack([X, np.ones(9)]) if intercept else X
    expected = sum(
        (1.0 if weight is None else weight[n]) * np.kron(np.diag(p[n]) - np.outer(p[n], p[n]), np.outer(Z[n], Z[n]))
        for n in range(9)
    )
    assert_allclose(softmax_gram(table(X), p, weight, intercept=intercept), expected, rtol=1e-13, atol=1e-14)
