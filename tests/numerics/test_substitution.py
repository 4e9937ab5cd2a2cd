"""Triangular systems for rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.kernels import RBF
from credibly.numerics.linalg import PSD, STRIP, Substitution


def factored(m, seed=0):
    A = np.random.default_rng(seed).normal(size=(m, 2 * m))
    return PSD.of(A @ A.T, "an example")


@pytest.mark.parametrize("m", [1, 7, STRIP, STRIP + 1, 3 * STRIP - 5])
@pytest.mark.parametrize("n", [1, 30])
def test_rows_are_solved_as_lapack_solves_columns(m, n):
    matrix, B = factored(m), np.random.default_rng(1).normal(size=(n, m))
    by_rows = Substitution.of(matrix)
    assert_allclose(by_rows.forward(B.copy()).T, matrix.half_solve(B.T), rtol=1e-9, atol=1e-12)
    assert_allclose(by_rows.backward(B.copy()).T, matrix.half_solve_transposed(B.T), rtol=1e-9, atol=1e-12)


def test_the_answer_is_in_the_place_of_the_question():
    B = np.ones((5, 60))
    assert Substitution.of(factored(60)).forward(B) is B


def test_no_rows_are_solved_at_once():
    assert Substitution.of(factored(60)).backward(np.ones((0, 60))).shape == (0, 60)


def test_rows_that_lie_apart_in_memory_are_solved_where_they_lie():
    matrix, wide = factored(60), np.random.default_rng(2).normal(size=(9, 100))
    before = wide.copy()
    Substitution.of(matrix).forward(wide[:, 20:80])
    assert_allclose(wide[:, 20:80].T, matrix.half_solve(before[:, 20:80].T), rtol=1e-10)
    assert np.array_equal(wide[:, :20], before[:, :20])
    assert np.array_equal(wide[:, 80:], before[:, 80:])


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no more digits than a double to compare with")
def test_as_many_digits_as_lapack_where_the_matrix_is_hardly_definite():
    rng = np.random.default_rng(3)
    kernel, Z, X = RBF(1.5), rng.normal(size=(150, 3)), rng.normal(size=(40, 3))
    matrix, B = PSD.of(kernel(Z, Z), "K"), kernel(X, Z)
    assert np.linalg.cond(matrix.factor) > 1e4
    exact, L = B.astype(np.longdouble), matrix.factor.astype(np.longdouble)
    for i in range(len(L)):
        exact[:, i] = (exact[:, i] - exact[:, :i] @ L[i, :i]) / L[i, i]

    def error(found):
        return float(np.abs(found - exact).max())

    by_rows = Substitution.of(matrix).forward(B.copy())
    assert error(by_rows) < 4 * error(matrix.half_solve(B.T).T)  # rounding errors of two orders of the same sums
