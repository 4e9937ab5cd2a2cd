"""Passes over rows as they came give the objective of standardized ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.links import Log
from credibly.numerics.linalg import PSD
from helpers import raw_objective

N, D = 3000, 5
LIKELIHOODS: list[Any] = [
    BernoulliLogit(),
    BernoulliProbit(),
    BernoulliCauchit(),
    FamilyLikelihood(Poisson(), Log()),
    Categorical(3),
    NoisyCategorical(3, 0.1),
]


def several(likelihood: Any) -> bool:
    return isinstance(likelihood, Categorical | NoisyCategorical)


def rows_of(likelihood: Any, shift: float = 5.0, **beside: Any) -> MemoryRows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * [1.0, 10.0, 0.1, 1.0, 3.0] + shift
    y = rng.integers(0, 3, N) if several(likelihood) else rng.integers(0, 2, N).astype(float)
    return MemoryRows(X, y, **beside)


def objective(likelihood: Any, rows: MemoryRows, *, intercept: bool = True) -> Objective:
    columns, K = describe(rows), 3 if several(likelihood) else 1
    standard = Standardization.of(columns, intercept=intercept, sparse=isinstance(rows.X, csr_array))
    design = Design(standard, ClassMap.separate(K), columns)
    return Objective(rows, design, likelihood, Gaussian(np.zeros(design.size), PSD(np.eye(design.size))))


def over_standardized_rows(raw: Objective) -> Objective:
    """The same, where rows are standardized before any pass."""
    standard = raw.design.standardization
    assert isinstance(raw.rows, MemoryRows)
    table = MemoryRows(standard.design(raw.rows.X), raw.rows.y, raw.rows.weight, raw.rows.offset)
    return raw_objective(raw.likelihood, table, raw.prior)


@pytest.mark.parametrize("kind", ["plain", "weights and offsets", "far from zero", "sparse", "no intercept", "float32"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_raw_rows_and_standardized_rows_have_one_objective(likelihood: Any, kind: str) -> None:
    """Sums of rows that came far from zero (1e8 spreads) are as good: those are centred first."""
    rng = np.random.default_rng(1)
    beside: dict[str, Any] = {}
    if kind == "weights and offsets":
        beside = {"weight": rng.exponential(size=N) * (rng.random(N) < 0.8)}
        beside |= {} if several(likelihood) else {"offset": rng.normal(size=N)}
    rows = rows_of(likelihood, 1e8 if kind == "far from zero" else 5.0, **beside)
    if kind == "sparse":
        rows = replace(rows, X=csr_array(np.where(rng.random((N, D)) < 0.3, rows.X, 0.0)))
    if kind == "float32":
        rows = replace(rows, X=rows.X.astype(np.float32))
    raw = objective(likelihood, rows, intercept=kind != "no intercept")
    plain = over_standardized_rows(raw)
    x = 0.3 * rng.normal(size=raw.design.size)
    here, there = raw.expand(x), plain.expand(x)
    size = np.sqrt(np.outer(np.diag(there.hessian.matrix), np.diag(there.hessian.matrix)))
    assert_allclose(here.value, there.value, rtol=1e-12)
    assert_allclose(here.hessian.matrix / size, there.hessian.matrix / size, rtol=0, atol=1e-11)
    assert_allclose(here.grad, there.grad, rtol=0, atol=1e-11 * size.max())
    assert_allclose(raw.gradient(x), there.grad, rtol=0, atol=1e-11 * N)
    assert_allclose(raw.log_likelihoods(np.array([0 * x, x]))[1] + raw.log_prior(x), -here.value, rtol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_averages_over_a_gaussian_are_those_of_standardized_rows_and_of_draws(likelihood: Any) -> None:
    raw, rng = objective(likelihood, rows_of(likelihood)), np.random.default_rng(2)
    M = raw.design.size
    root = 0.1 * np.eye(M) + 0.02 * np.tril(rng.normal(size=(M, M)), -1)
    q = Gaussian.from_covariance_root(0.2 * rng.normal(size=M), root)
    here, there = raw.averages(q), over_standardized_rows(raw).averages(q)
    assert_allclose(here.log_likelihood, there.log_likelihood, rtol=1e-12)
    assert_allclose(here.gradient, there.gradient, rtol=0, atol=1e-11 * N)
    assert_allclose(here.information, there.information, rtol=0, atol=1e-11 * N)
    draws = q.mean + np.concatenate([z := rng.normal(size=(1000, M)), -z]) @ root.T
    values = raw.log_likelihoods(draws)
    pairs = values.reshape(2, -1).mean(axis=0)
    assert abs(here.log_likelihood - values.mean()) < 5 * pairs.std() / np.sqrt(len(pairs))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_gradient_and_hessian_are_differences_of_the_value(likelihood: Any) -> None:
    at = objective(likelihood, rows_of(likelihood))
    x = 0.1 * np.random.default_rng(1).normal(size=at.design.size)
    local, h = at.expand(x), 1e-5
    steps = h * np.eye(x.size)
    rises = [(at.expand(x + step).value - at.expand(x - step).value) / (2 * h) for step in steps]
    assert_allclose(local.grad, rises, rtol=1e-6, atol=1e-4)  # values of some 1e3 are rounded to 1e-13: 1e-8 of a rise
    if not local.replaced:
        bends = [(at.gradient(x + step) - at.gradient(x - step)) / (2 * h) for step in steps]
        assert_allclose(local.hessian.matrix, bends, rtol=1e-5, atol=1e-3)


def test_label_noise_of_several_classes_counts_weights_as_repetitions() -> None:
    rng = np.random.default_rng(0)
    X, y, times = rng.normal(size=(6, 2)), np.array([0, 1, 2, 0, 1, 2]), np.array([1, 2, 1, 3, 1, 1])
    likelihood, x = NoisyCategorical(3, 0.1), rng.normal(size=6)
    weighted = raw_objective(likelihood, MemoryRows(X, y, times.astype(float)), None)
    repeated = raw_objective(likelihood, MemoryRows(np.repeat(X, times, axis=0), np.repeat(y, times)), None)
    assert_allclose(weighted.log_likelihood(x), repeated.log_likelihood(x), rtol=1e-14)
    assert_allclose(weighted.gradient(x), repeated.gradient(x), rtol=1e-12, atol=1e-14)
    assert_allclose(weighted.expected_information(x), repeated.expected_information(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shift", [5.0, 1e8])
def test_a_sample_of_all_rows_is_the_objective_itself(shift: float) -> None:
    whole = objective(BernoulliLogit(), rows_of(BernoulliLogit(), shift))
    part = whole.sample(np.random.default_rng(0), N)
    x = np.linspace(-1.0, 1.0, D + 1)
    assert_allclose(part.expand(x).value, whole.expand(x).value, rtol=1e-12)


@pytest.mark.parametrize("K", [3, 4])
def test_contrasts_of_classes_are_separate_weights_that_add_to_zero(K: int) -> None:
    """f = ZCx: with W = Cx, the chain rule along C."""
    rng = np.random.default_rng(0)
    rows = MemoryRows(rng.normal(size=(200, 2)), rng.integers(0, K, 200))
    columns, classes = describe(rows), ClassMap.contrasts(K)
    standard = Standardization.of(columns, intercept=True, sparse=False)
    free = Objective(rows, Design(standard, classes, columns), Categorical(K), None)
    separate = Objective(rows, Design(standard, ClassMap.separate(K), columns), Categorical(K), None)
    x = rng.normal(size=free.design.size)
    C, w = np.kron(classes.matrix, np.eye(3)), classes.weights(x).reshape(-1)
    assert_allclose(classes.weights(x).sum(axis=0), 0.0, atol=1e-14)
    assert_allclose(free.log_likelihood(x), separate.log_likelihood(w), rtol=1e-13)
    assert_allclose(free.gradient(x), C.T @ separate.gradient(w), rtol=1e-11, atol=1e-12)
    assert_allclose(free.expand(x).hessian.matrix, C.T @ separate.expected_information(w) @ C, rtol=1e-11, atol=1e-11)


def test_of_two_classes_the_contrast_is_their_difference() -> None:
    """The softmax of two classes, in its one free vector, is the logit."""
    rng = np.random.default_rng(0)
    rows = MemoryRows(rng.normal(size=(50, 2)), rng.integers(0, 2, 50))
    columns = describe(rows)
    standard = Standardization.of(columns, intercept=True, sparse=False)
    logit = Objective(rows, Design(standard, ClassMap.contrasts(2), columns), BernoulliLogit(), None)
    softmax = Objective(rows, Design(standard, ClassMap.separate(2), columns), Categorical(2), None)
    x = rng.normal(size=3)
    w = ClassMap.contrasts(2).weights(x).reshape(-1)
    assert_allclose(logit.log_likelihood(x), softmax.log_likelihood(w), rtol=1e-14)
    assert_allclose(np.kron([-0.5, 0.5], logit.gradient(x)) * 2, softmax.gradient(w), rtol=1e-12, atol=1e-13)
