"""Conjugate gradients against matrices: solutions, log determinants, and no work beyond what was asked for."""

import numpy as np
from numpy.testing import assert_allclose

from credibly.numerics.iterative import conjugate_gradients, log_quadratic

rng = np.random.default_rng(3)


def test_unit_vectors_give_solutions_and_the_log_determinant_without_noise():
    """Σ_j c_jᵀ log(P^(-1/2) A P^(-1/2)) c_j over unit vectors c_j is the trace of the logarithm."""
    R = rng.normal(size=(6, 6))
    A = R @ R.T + np.eye(6)
    P = rng.uniform(0.5, 2.0, 6)
    found = conjugate_gradients(lambda x: x @ A, np.diag(np.sqrt(P)), P, tol=1e-12, most=50)
    assert_allclose(found.x, np.diag(np.sqrt(P)) @ np.linalg.solve(A, np.eye(6)), rtol=1e-7, atol=1e-9)
    assert_allclose(np.log(P).sum() + log_quadratic(found).sum(), np.linalg.slogdet(A)[1], rtol=1e-9)


def test_nothing_is_spent_on_what_is_done():
    """Right-hand sides of few and of many steps: the same numbers as alone, and no products beyond their own."""
    A, P = np.geomspace(1, 50, 40), np.ones(40)
    b = np.vstack([np.eye(40)[3], rng.normal(size=(2, 40)), np.zeros(40)])
    products = []
    found = conjugate_gradients(lambda x: (products.append(len(x)), x * A)[1], b, P, tol=1e-6, most=100)
    alone = [conjugate_gradients(lambda x: x * A, b[[i]], P, tol=1e-6, most=100) for i in range(4)]
    assert sum(products) == sum(each.steps for each in alone) < 3 * found.steps
    for i, each in enumerate(alone[:3]):
        assert_allclose(found.x[i], each.x[0], rtol=1e-12)
        assert_allclose(log_quadratic(found._replace(**one(found, i)))[0], log_quadratic(each)[0], rtol=1e-12)
    assert not found.x[3].any()


def one(found, i):
    return {"alpha": found.alpha[:, [i]], "beta": found.beta[:, [i]], "start": found.start[[i]]}


def test_the_goal_is_on_the_quadratic_form():
    A, b = np.geomspace(1e-4, 1, 200), rng.normal(size=(1, 200))
    exact = (b**2 / A).sum()
    for tol in (1e-2, 1e-5):
        found = conjugate_gradients(lambda x: x * A, b, np.ones(200), tol=tol, most=1000)
        assert 0 <= 1 - float((b * found.x).sum()) / exact <= tol


def test_steps_that_are_stopped_give_the_best_point_so_far():
    """One step is that of steepest descent: (bᵀb / bᵀAb) b."""
    found = conjugate_gradients(lambda x: x * np.array([1.0, 3.0]), np.ones((1, 2)), np.ones(2), tol=1e-12, most=1)
    assert_allclose(found.x, [[0.5, 0.5]], rtol=1e-15)
    assert found.steps == 1
