"""Squared distances and sums of them, against extended precision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.model.kernels import stationary
from credibly.model.kernels.stationary import squared_distances, take_close_pairs, weighted_squares

EPS = np.finfo(float).eps


def exact(X, Z):
    """The sum as it is written, in extended precision (64 bits of mantissa or more)."""
    difference = X.astype(np.longdouble)[:, None, :] - Z.astype(np.longdouble)[None, :, :]
    return (difference**2).sum(axis=2)


def table(kind: str, n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    if kind == "far from zero":
        X += 1e6
    if kind == "clusters":  # a few tight ones: many pairs cancel
        X = 1e3 * rng.normal(size=(5, d))[rng.integers(5, size=n)] + X
    if kind == "close pairs":  # few pairs cancel, and very much so
        X[n // 2 :: 7] = X[: len(X[n // 2 :: 7])] + 1e-9 * rng.normal(size=(len(X[n // 2 :: 7]), d))
    if kind == "columns of many sizes":
        X *= np.logspace(-6, 6, d)
    X[-1] = X[0]
    return X


KINDS = ["plain", "far from zero", "clusters", "close pairs", "columns of many sizes"]


@pytest.mark.parametrize("d", [1, 3, 19, 20, 64, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_distances_have_the_stated_error(kind, d):
    X = table(kind, 60, d)
    Z = table(kind, 60, d)[::-1][:41] + (0.5 if kind == "plain" else 0.0)
    stated = (d / 2 + 2) * EPS if d < stationary.MANY_COLUMNS else (d + 2) * EPS / stationary.CANCELLED
    for found, want in ((squared_distances(X), exact(X, X)), (squared_distances(X, Z), exact(X, Z))):
        assert (np.abs(found - want) <= stated * want).all()


@pytest.mark.parametrize("d", [2, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_distances_of_one_table_are_symmetric_and_zero_for_the_same_row(kind, d):
    X = table(kind, 301, d)
    r2 = squared_distances(X)
    assert_array_equal(r2, r2.T)
    assert_array_equal(np.diag(r2), 0.0)
    assert r2[0, -1] == 0.0
    assert squared_distances(X[:3], X)[0, -1] == 0.0
    assert r2[0, 1] > 0


def test_blocks_and_chunks_do_not_matter(monkeypatch):
    X = table("close pairs", 90, 30)
    whole = squared_distances(X)
    monkeypatch.setattr(stationary, "BLOCK", 256)
    assert_allclose(squared_distances(X), whole, rtol=100 * 32 * EPS)


def test_where_most_pairs_cancel_they_are_right_too():
    X = np.repeat(1e3 * np.eye(4, 25), 10, axis=0) + np.random.default_rng(0).normal(size=(40, 25))
    assert_allclose(squared_distances(X), exact(X, X).astype(float), rtol=20 * EPS)


def test_distances_leave_their_arguments_alone():
    for d in (3, 30):
        X, Z = table("clusters", 20, d), table("plain", 20, d)
        before = X.copy(), Z.copy()
        squared_distances(X)
        squared_distances(X, Z)
        weighted_squares(np.ones((20, 20)), X, Z)
        assert_array_equal(X, before[0])
        assert_array_equal(Z, before[1])


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("d", [1, 40])
def test_one_or_two_rows(n, d):
    X = np.arange(n * d, dtype=float).reshape(n, d)
    assert_allclose(squared_distances(X), exact(X, X).astype(float))
    assert_allclose(squared_distances(X, X[:1] + 1), exact(X, X[:1] + 1).astype(float))


@pytest.mark.parametrize("d", [1, 40])
def test_no_rows(d):
    none, some = np.empty((0, d)), np.ones((3, d))
    assert squared_distances(none).shape == (0, 0)
    assert squared_distances(none, some).shape == (0, 3)
    assert squared_distances(some, none).shape == (3, 0)


def test_weighted_squares_are_the_sum_that_they_say():
    rng = np.random.default_rng(0)
    X, Z, G = rng.normal(size=(30, 4)) + 1e3, rng.normal(size=(20, 4)) + 1e3, rng.normal(size=(30, 20))
    want = np.einsum("ij,ijd->d", G, (X[:, None, :] - Z[None, :, :]) ** 2)
    assert_allclose(weighted_squares(G, X, Z), want, rtol=1e-12)


def test_close_pairs_are_taken_out_and_lose_no_digit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    X[20:] = X[:20] + 1e-9 * rng.normal(size=(20, 3))
    G = np.zeros((40, 40))
    G[np.arange(20), np.arange(20, 40)] = 1e9 * rng.random(20)  # the weight of a kink, 1/r
    want = np.einsum("ij,ijd->d", G, (X[:, None, :] - X[None, :, :]) ** 2)
    assert abs(weighted_squares(G, X, X) / want - 1).max() > 1  # nothing right: why pairs are taken out
    close = take_close_pairs(G, squared_distances(X), X, X)
    assert_allclose(close + weighted_squares(G, X, X), want, rtol=1e-12)
    assert not G.any()
