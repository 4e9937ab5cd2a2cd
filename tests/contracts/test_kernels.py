"""What every kernel must satisfy; a kernel of the library without an entry in `ENTRIES` fails the first test."""

import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly import kernels
from credibly.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    LogNormal,
    Matern,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
    White,
)

EPS = np.finfo(float).eps
STEP = EPS ** (1 / 5)  # central differences of fourth order: truncation h⁴/30 and rounding eps/h meet at the fifth root
D = 3


class Entry(NamedTuple):
    """A kernel, the displayed equation typed again for rows x, z (`same`: one row of one table), and its repr."""

    kernel: Kernel
    naive: Callable[[np.ndarray, np.ndarray, bool], float]
    shown: str
    noise: bool = False  # k(X, X), two tables, is not k(X), one


SCALES = np.array([0.7, 3.1, 1.9])


def r(x, z, scale=1.3):
    return np.sqrt((((x - z) / scale) ** 2).sum())


def periodic(x, z, scale=0.8, period=1.7):
    return np.prod([np.exp(-2 * np.sin(np.pi * (a - b) / period) ** 2 / scale**2) for a, b in zip(x, z, strict=True)])


ENTRIES = {
    "RBF": Entry(RBF(1.3), lambda x, z, _: np.exp(-(r(x, z) ** 2) / 2), "RBF(ℓ=1.3)"),
    "RBF-ard": Entry(RBF(SCALES), lambda x, z, _: np.exp(-(r(x, z, SCALES) ** 2) / 2), "RBF(ℓ=[0.7, 3.1, 1.9])"),
    "Matern-1/2": Entry(Matern(1.3, 0.5), lambda x, z, _: np.exp(-r(x, z)), "Matern(ℓ=1.3, ν=1/2)"),
    "Matern-1/2-ard": Entry(
        Matern(SCALES, 0.5), lambda x, z, _: np.exp(-r(x, z, SCALES)), "Matern(ℓ=[0.7, 3.1, 1.9], ν=1/2)"
    ),
    "Matern-3/2": Entry(
        Matern(1.3), lambda x, z, _: (1 + 3**0.5 * r(x, z)) * np.exp(-(3**0.5) * r(x, z)), "Matern(ℓ=1.3, ν=3/2)"
    ),
    "Matern-5/2-ard": Entry(
        Matern(SCALES, nu=2.5),
        lambda x, z, _: (
            (1 + 5**0.5 * r(x, z, SCALES) + 5 * r(x, z, SCALES) ** 2 / 3) * np.exp(-(5**0.5) * r(x, z, SCALES))
        ),
        "Matern(ℓ=[0.7, 3.1, 1.9], ν=5/2)",
    ),
    "RationalQuadratic": Entry(
        RationalQuadratic(1.3, 0.4),
        lambda x, z, _: (1 + r(x, z) ** 2 / (2 * 0.4)) ** -0.4,
        "RationalQuadratic(ℓ=1.3, α=0.4)",
    ),
    "RationalQuadratic-ard": Entry(
        RationalQuadratic(SCALES, 2.5),
        lambda x, z, _: (1 + r(x, z, SCALES) ** 2 / (2 * 2.5)) ** -2.5,
        "RationalQuadratic(ℓ=[0.7, 3.1, 1.9], α=2.5)",
    ),
    "Periodic": Entry(Periodic(0.8, 1.7), lambda x, z, _: periodic(x, z), "Periodic(ℓ=0.8, period=1.7)"),
    "Linear": Entry(Linear(), lambda x, z, _: x @ z, "Linear()"),
    "Linear-bias": Entry(Linear(0.6), lambda x, z, _: x @ z + 0.6**2, "Linear(bias=0.6)"),
    "Polynomial": Entry(Polynomial(3, 0.6), lambda x, z, _: (x @ z + 0.6**2) ** 3, "Polynomial(degree=3, bias=0.6)"),
    "Polynomial-1": Entry(Polynomial(1, 0.6), lambda x, z, _: x @ z + 0.6**2, "Polynomial(degree=1, bias=0.6)"),
    "Constant": Entry(Constant(1.44), lambda x, z, _: 1.44, "1.2²"),
    "White": Entry(White(0.3), lambda x, z, same: 0.3 * same, "White(σ²=0.3)", noise=True),
    "Sum": Entry(
        RBF(1.3) + 2.0,
        lambda x, z, _: np.exp(-(r(x, z) ** 2) / 2) + 2,
        "RBF(ℓ=1.3) + 1.414²",
    ),
    "Product": Entry(
        RBF(1.3) * Linear(0.6),
        lambda x, z, _: np.exp(-(r(x, z) ** 2) / 2) * (x @ z + 0.6**2),
        "RBF(ℓ=1.3) · Linear(bias=0.6)",
    ),
    "everything": Entry(
        2.0 * (RBF(SCALES) + Periodic(0.8, 1.7) * Matern(1.3)) * 0.5 + White(0.3) + Linear(),
        lambda x, z, same: (
            np.exp(-(r(x, z, SCALES) ** 2) / 2)
            + periodic(x, z) * (1 + 3**0.5 * r(x, z)) * np.exp(-(3**0.5) * r(x, z))
            + 0.3 * same
            + x @ z
        ),
        "1.414² · (RBF(ℓ=[0.7, 3.1, 1.9]) + Periodic(ℓ=0.8, period=1.7) · Matern(ℓ=1.3, ν=3/2)) · 0.7071²"
        " + White(σ²=0.3) + Linear()",
        noise=True,
    ),
}
EVERY = pytest.mark.parametrize("name", list(ENTRIES))
LOOKING = pytest.mark.parametrize("name", [it for it, e in ENTRIES.items() if hasattr(e.kernel, "columns")])


def rows(n: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D))


def weights(n: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(n, n))


def concrete(kind: type = Kernel) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield from concrete(below)
        if not inspect.isabstract(below) and below.__module__.startswith("credibly."):
            yield below


def stated(entry: Entry, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    other = X if Z is None else Z
    return np.array([[entry.naive(x, z, Z is None and i == j) for j, z in enumerate(other)] for i, x in enumerate(X)])


def by_differences(kernel: Kernel, X: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Σ M ∘ ∂K/∂θ by central differences of fourth order."""

    def total(theta):
        return (M * kernel.with_theta(theta)(X)).sum()

    steps = STEP * np.eye(len(kernel.theta))
    near = [total(kernel.theta + h) - total(kernel.theta - h) for h in steps]
    far = [total(kernel.theta + 2 * h) - total(kernel.theta - 2 * h) for h in steps]
    return (8 * np.array(near) - np.array(far)) / (12 * STEP)


def test_every_kernel_has_an_entry_and_is_public():
    tested = {type(it.kernel) for it in ENTRIES.values()}
    assert set(concrete()) == tested
    assert {it.__name__ for it in tested} <= set(kernels.__all__)


# --- the matrix ---------------------------------------------------------------------------------------------


@EVERY
def test_it_is_the_equation_of_its_docstring(name):
    entry = ENTRIES[name]
    X, Z = rows(), rows(5, seed=1)
    assert ".. math::" in inspect.getdoc(type(entry.kernel))
    assert_allclose(entry.kernel(X), stated(entry, X), rtol=1e-12, atol=1e-14)
    assert_allclose(entry.kernel(X, Z), stated(entry, X, Z), rtol=1e-12, atol=1e-14)


@EVERY
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_it_is_symmetric_and_positive_semidefinite(name, scale):
    k, X = ENTRIES[name].kernel, scale * rows(40)
    X[30:] = X[:10]
    K = k(X)
    assert k.positive_definite
    assert np.isfinite(K).all()
    assert_array_equal(K, K.T)
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -len(K) * EPS * values[-1]  # the backward error of the eigenvalues, and of K


@EVERY
def test_two_tables_that_are_one_give_the_same(name):
    kernel, noise, X = ENTRIES[name].kernel, ENTRIES[name].noise, rows()
    own = 0.3 * np.eye(len(X)) if noise else 0.0  # rows of two tables do not share their noise
    assert_allclose(kernel(X, X) + own, kernel(X), rtol=1e-13, atol=1e-15)


@EVERY
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_diag_is_the_diagonal(name, scale):
    k, X = ENTRIES[name].kernel, scale * rows()
    assert_allclose(k.diag(X), np.diag(k(X)), rtol=1e-13)


@EVERY
def test_no_row_one_row_and_rows_that_repeat(name):
    k, X = ENTRIES[name].kernel, rows(4)
    assert k(X[:0]).shape == (0, 0)
    assert k(X[:0], X).shape == (0, 4)
    assert_array_equal(k.gradient_sums(X[:0], np.empty((0, 0))), np.zeros_like(k.theta))
    assert k(X[:1]).shape == (1, 1)
    assert k(X[:1], X).shape == (1, 4)
    assert k.gradient_sums(X[:1], np.ones((1, 1))).shape == k.theta.shape
    twice = np.vstack([X, X])
    assert_allclose(k(twice)[:4, :4], k(X), rtol=1e-13)
    M = weights(8)
    assert_allclose(k.gradient_sums(twice, M), by_differences(k, twice, M), atol=1e-9 * np.abs(M).sum())


# --- the derivatives ----------------------------------------------------------------------------------------


@EVERY
def test_gradient_sums_agree_with_differences(name):
    k, X, M = ENTRIES[name].kernel, rows(), weights(12)
    want = by_differences(k, X, M)
    assert want.shape == k.theta.shape
    # the fifth derivative of a periodic kernel by its period is 1e4 or so: h⁴/30 of it is 1e-10
    scale = (np.abs(M) * np.abs(k(X))).sum()
    assert_allclose(k.gradient_sums(X, M), want, rtol=1e-9, atol=1e-9 * scale)


@EVERY
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_a_known_matrix_changes_nothing_but_the_time(name, scale):
    k, X, M = ENTRIES[name].kernel, scale * rows(), weights(12)
    K = k(X)
    size = (np.abs(M) * np.abs(K)).sum()
    found = k.gradient_sums(X, M, K)
    assert np.isfinite(found).all()
    assert_allclose(found, k.gradient_sums(X, M), rtol=1e-12, atol=1e-14 * size)


@EVERY
def test_gradient_sums_are_linear_in_the_matrix(name):
    k, X, M = ENTRIES[name].kernel, rows(), weights(12)
    whole = k.gradient_sums(X, M)
    parts = [k.gradient_sums(X, M * (np.arange(12) % 3 == i)) for i in range(3)]
    assert_allclose(sum(parts), whole, rtol=1e-11, atol=1e-12)
    assert_allclose(k.gradient_sums(X, M.T), whole, rtol=1e-11, atol=1e-12)  # since ∂K/∂θ is symmetric
    assert_allclose(k.gradient_sums(X, np.asfortranarray(M)), whole, rtol=1e-11, atol=1e-12)


@EVERY
def test_nothing_that_is_passed_in_is_changed(name):
    k, X, Z, M = ENTRIES[name].kernel, rows(), rows(5, seed=1), weights(12)
    K = k(X)
    for it in (X, Z, M, K):
        it.flags.writeable = False
    k(X)
    k(X, Z)
    k.diag(X)
    k.gradient_sums(X, M)
    k.gradient_sums(X, M, K)


# --- the hyperparameters ------------------------------------------------------------------------------------


@EVERY
def test_theta_goes_in_as_it_came_out(name):
    k = ENTRIES[name].kernel
    p = len(k.theta)
    assert k.theta.shape == (p,) and k.bounds.shape == (p, 2)
    assert len(k.hyperparameters) == len(set(k.hyperparameters)) == p
    assert k.with_theta(k.theta) == k
    other = k.theta + np.linspace(0.1, 0.2, p)
    assert_allclose(k.with_theta(other).theta, other, rtol=1e-14)
    assert_array_equal(k.with_theta(other).bounds, k.bounds)
    assert type(k.with_theta(other)) is type(k)
    assert_array_equal(k.with_theta(k.bounds[:, 1]).bounds, k.bounds)  # the end of a search, to rounding
    assert (k.bounds[:, 0] <= k.theta).all() and (k.theta <= k.bounds[:, 1]).all()


@EVERY
def test_what_is_fixed_is_not_in_theta(name):
    k = ENTRIES[name].kernel
    if isinstance(k, Sum | Product):
        return
    names = [number.name for number in k.numbers]
    for held in names:
        fixed = dataclasses.replace(k, **{f"{held}_bounds": "fixed"})
        assert fixed.hyperparameters == tuple(it for it in k.hyperparameters if it.split("[")[0] != held)
        assert_array_equal(fixed.theta, [t for t, it in zip(k.theta, k.hyperparameters, strict=True) if held not in it])
        X, M = rows(), weights(12)
        kept = [held not in it for it in k.hyperparameters]
        assert_allclose(fixed.gradient_sums(X, M), k.gradient_sums(X, M)[kept], rtol=1e-13)
        assert_array_equal(fixed.with_theta(fixed.theta)(X), k(X))


@EVERY
def test_priors_are_densities_of_the_logarithm(name):
    k = ENTRIES[name].kernel
    assert k.log_prior == 0.0
    assert_array_equal(k.log_prior_gradient, np.zeros_like(k.theta))
    if isinstance(k, Sum | Product):
        return
    k = dataclasses.replace(k, **{f"{it.name}_prior": LogNormal(2.0, 0.5) for it in k.numbers})
    z = (k.theta - np.log(2.0)) / 0.5
    assert_allclose(k.log_prior, (-(z**2) / 2 - np.log(0.5 * np.sqrt(2 * np.pi))).sum(), rtol=1e-14)
    steps = 1e-3 * np.eye(len(k.theta))  # of a parabola central differences are exact, whatever the step
    differences = [k.with_theta(k.theta + h).log_prior - k.with_theta(k.theta - h).log_prior for h in steps]
    assert_allclose(k.log_prior_gradient, np.array(differences) / 2e-3, rtol=1e-9)


# --- the object ---------------------------------------------------------------------------------------------


@EVERY
def test_it_is_a_value(name):
    k = ENTRIES[name].kernel
    again = pickle.loads(pickle.dumps(k))
    assert again == k and hash(again) == hash(k)
    assert_array_equal(again(rows()), k(rows()))
    assert k != k.with_theta(k.theta + 0.1) or not k.theta.size
    with pytest.raises(dataclasses.FrozenInstanceError):
        k.positive = 1.0


@EVERY
def test_it_reads_like_mathematics(name):
    assert repr(ENTRIES[name].kernel) == ENTRIES[name].shown


@LOOKING
def test_it_looks_at_the_columns_that_it_is_told(name):
    k, X = ENTRIES[name].kernel, np.random.default_rng(3).normal(size=(9, 5))
    by_number = dataclasses.replace(k, columns=[4, 0, 2])
    by_name = dataclasses.replace(k, columns=["e", 0, "c"])
    seen, M = X[:, [4, 0, 2]], weights(9)
    assert by_name.resolved(list("abcde")) == by_number
    assert_array_equal(by_number(X), k(seen))
    assert_array_equal(by_number(X, X[:2]), k(seen, seen[:2]))
    assert_array_equal(by_number.diag(X), k.diag(seen))
    assert_array_equal(by_number.gradient_sums(X, M), k.gradient_sums(seen, M))
    assert "columns=[4, 0, 2]" in repr(by_number)
    assert "columns=['e', 0, 'c']" in repr(by_name)
    assert k.resolved(list("abcde")) == k
