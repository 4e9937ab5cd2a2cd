"""Passes over rows as they came give the objective of standardized ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from credibly.data.rows import Block, MemoryRows
from credibly.inference.evidence import curvature_slopes
from credibly.inference.frame import Frame
from credibly.inference.jeffreys import _slopes as jeffreys_slopes
from credibly.inference.objective import Objective, RawRows, expected_information, information, row_slopes
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.links import Log
from credibly.numerics.linalg import PSD

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
    sparse = isinstance(rows.X, csr_array)
    X = np.asarray(rows.X.toarray() if sparse else rows.X, dtype=float)
    center = X.mean(axis=0) if intercept and not sparse else np.zeros(D)
    frame = Frame(center, X.std(axis=0), intercept=intercept)
    K, M = (3, 3 * (D + intercept)) if several(likelihood) else (1, D + intercept)
    prior = Gaussian(np.zeros(M), PSD(np.eye(M)))
    return Objective(likelihood, rows.through(frame.design), prior, np.eye(K), RawRows.of(rows, frame))


@pytest.mark.parametrize("kind", ["plain", "weights and offsets", "far from zero", "sparse", "no intercept", "float32"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_raw_rows_and_rows_of_the_design_have_one_objective(likelihood: Any, kind: str) -> None:
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
    at = objective(likelihood, rows, intercept=kind != "no intercept")
    x = 0.3 * rng.normal(size=at.prior.mean.size)
    if not isinstance(likelihood, NoisyCategorical | BernoulliCauchit):
        raw, plain = at.expand(x), replace(at, raw=None).expand(x)
        assert_allclose(raw.value, plain.value, rtol=1e-12)
        size = np.sqrt(np.outer(np.diag(plain.hessian.matrix), np.diag(plain.hessian.matrix)))
        assert_allclose(raw.hessian.matrix / size, plain.hessian.matrix / size, rtol=0, atol=1e-11)
        assert_allclose(raw.grad, plain.grad, rtol=0, atol=1e-11 * size.max())
    assert_allclose(at.gradient(x), replace(at, raw=None).expand(x).grad, rtol=0, atol=1e-11 * N)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_gradient_and_hessian_are_differences_of_the_value(likelihood: Any) -> None:
    at = objective(likelihood, rows_of(likelihood))
    x = 0.1 * np.random.default_rng(1).normal(size=at.prior.mean.size)
    local, h = at.expand(x), 1e-5
    steps = h * np.eye(x.size)
    rises = [(at.expand(x + step).value - at.expand(x - step).value) / (2 * h) for step in steps]
    assert_allclose(local.grad, rises, rtol=1e-6, atol=1e-4)  # values of some 1e3 are rounded to 1e-13: 1e-8 of a rise
    if not local.replaced:
        bends = [(at.gradient(x + step) - at.gradient(x - step)) / (2 * h) for step in steps]
        assert_allclose(local.hessian.matrix, bends, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda it, rows: row_slopes(it, rows, np.zeros((1, 1))), "no expansion"),
        (lambda it, rows: information(it, rows, None), "no information matrix"),
        (lambda it, rows: expected_information(it, rows, np.zeros((1, 1))), "no expected information"),
        (lambda it, rows: curvature_slopes(it, rows, None), "no curvature slope"),
        (lambda it, rows: jeffreys_slopes(it, rows, np.zeros((1, 1)), None, None), "no Jeffreys prior"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_likelihood_of_an_unknown_kind_is_refused_by_name(ask: Any, what: str) -> None:
    with pytest.raises(TypeError, match=rf"^{what} is known for 'no likelihood'$"):
        ask("no likelihood", Block(np.zeros((1, 1)), np.zeros(1), None, None))


def test_label_noise_of_several_classes_counts_weights_as_repetitions() -> None:
    rng = np.random.default_rng(0)
    X, y, times = rng.normal(size=(6, 2)), np.array([0, 1, 2, 0, 1, 2]), np.array([1, 2, 1, 3, 1, 1])
    likelihood, W = NoisyCategorical(3, 0.1), rng.normal(size=(3, 2))
    weighted = row_slopes(likelihood, Block(X, y, times.astype(float), None), W)
    repeated = row_slopes(likelihood, Block(np.repeat(X, times, axis=0), np.repeat(y, times), None, None), W)
    assert_allclose(weighted.log_prob.sum(), repeated.log_prob.sum(), rtol=1e-14)
    assert_allclose(weighted.grad.T @ X, repeated.grad.T @ np.repeat(X, times, axis=0), rtol=1e-12)


@pytest.mark.parametrize("raw", [False, True])
def test_a_sample_of_all_rows_is_the_objective_itself(raw: bool) -> None:
    whole = objective(BernoulliLogit(), rows_of(BernoulliLogit()))
    whole = whole if raw else replace(whole, raw=None)
    part = whole.sample(np.random.default_rng(0), N)
    x = np.linspace(-1.0, 1.0, D + 1)
    assert (part.raw is not None) == raw
    assert_allclose(part.expand(x).value, whole.expand(x).value, rtol=1e-12)
