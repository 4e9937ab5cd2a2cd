"""The objective is the same whether a compiled kernel walks the rows or NumPy does."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from credibly.data.source import Block, MemoryRows
from credibly.inference.evidence import curvature_slopes
from credibly.inference.frame import Frame
from credibly.inference.jeffreys import _slopes as jeffreys_slopes
from credibly.inference.objective import (
    GRADIENT,
    Objective,
    Raw,
    compiled_kind,
    compiled_pays,
    expected_information,
    information,
    row_slopes,
)
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import (
    BernoulliCauchit,
    BernoulliLogit,
    BernoulliProbit,
    Categorical,
)
from credibly.model.likelihoods.families import NegativeBinomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.links import Identity, Log, Logit, Power, Probit
from credibly.model.likelihoods.proportions import Bernoulli, Binomial
from credibly.numerics import fused
from credibly.numerics.linalg import PSD

N, D = 3000, 5
KIND: list[tuple[Any, str | None]] = [
    (BernoulliLogit(), "logit"),
    (BernoulliProbit(), "probit"),
    (Categorical(3), "softmax"),
    (FamilyLikelihood(Bernoulli(), Logit()), "logit"),
    (FamilyLikelihood(Bernoulli(), Probit()), "probit"),
    (FamilyLikelihood(Poisson(), Log()), "poisson"),
    (FamilyLikelihood(Poisson(), Power(0.5)), None),
    (FamilyLikelihood(Poisson(), Identity()), None),
    (FamilyLikelihood(Binomial(), Logit()), None),
    (FamilyLikelihood(NegativeBinomial(), Log()), None),
    (BernoulliCauchit(), None),
]
COMPILED = [likelihood for likelihood, kind in KIND if kind is not None]


def rows_of(likelihood: Any, **beside: Any) -> MemoryRows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * [1.0, 10.0, 0.1, 1.0, 3.0] + 5.0
    counts = rng.poisson(2.0, N).astype(float) if compiled_kind(likelihood) == "poisson" else rng.integers(0, 2, N)
    y = rng.integers(0, 3, N) if isinstance(likelihood, Categorical) else counts
    return MemoryRows(X, y, **beside)


def objective(likelihood: Any, rows: MemoryRows) -> Objective:
    frame = Frame(rows.X.mean(axis=0), rows.X.std(axis=0), intercept=True)
    K = likelihood.n_classes if isinstance(likelihood, Categorical) else 1
    prior = Gaussian(np.zeros(K * (D + 1)), PSD(np.eye(K * (D + 1))))
    return Objective(likelihood, rows.through(frame.design), prior, np.eye(K), Raw.of(rows, frame))


@pytest.mark.parametrize(("likelihood", "kind"), KIND, ids=repr)
def test_which_likelihoods_are_compiled(likelihood: Any, kind: str | None) -> None:
    assert compiled_kind(likelihood) == kind


@pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")
@pytest.mark.parametrize("beside", ["nothing", "weights", "weights and offsets"])
@pytest.mark.parametrize("likelihood", COMPILED, ids=repr)
def test_compiled_and_generic_passes_agree(likelihood: Any, beside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    parts = {} if beside == "nothing" else {"weight": rng.exponential(size=N) * (rng.random(N) < 0.8)}
    if "offsets" in beside and not isinstance(likelihood, Categorical):
        parts["offset"] = rng.normal(size=N)
    at = objective(likelihood, rows_of(likelihood, **parts))
    assert at.prior is not None
    x = 0.3 * rng.normal(size=at.prior.mean.size)
    asked: list[str] = []
    monkeypatch.setattr(fused, "pays", lambda kind, numbers: asked.append(kind) or True)
    local, gradient = at.expand(x), at.gradient(x)
    assert asked == 2 * [compiled_kind(likelihood)]
    monkeypatch.setattr(fused, "pays", lambda *_: False)
    plain = at.expand(x)
    assert_allclose(local.value, plain.value, rtol=1e-13)
    size = np.abs(np.diag(plain.hessian.matrix)).max()  # of the sums that cancel in a gradient
    assert_allclose(local.grad, plain.grad, atol=1e-13 * size, rtol=0)
    assert_allclose(local.hessian.matrix, plain.hessian.matrix, atol=1e-13 * size, rtol=0)
    assert_allclose(gradient, at.gradient(x), atol=1e-13 * size, rtol=0)


@pytest.mark.parametrize("likelihood", COMPILED, ids=repr)
def test_kernels_walk_dense_rows_only(likelihood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "pays", lambda *_: True)
    rows, kind = rows_of(likelihood), compiled_kind(likelihood)
    assert kind is not None
    W = np.zeros((3 if kind == "softmax" else 1, D + 1))
    assert compiled_pays(kind, rows, W)
    wide = np.zeros((len(W), 600))
    assert not compiled_pays(kind, rows, wide)
    assert compiled_pays(kind, rows, wide, GRADIENT) == (kind != "softmax")  # it reads rows where they lie,
    turned = MemoryRows(np.asfortranarray(rows.X), rows.y)
    assert not compiled_pays(kind, turned, wide, GRADIENT)  # not columns
    assert not compiled_pays(kind, rows, np.zeros((500, D + 1)))  # 124,750 pairs of classes
    assert not compiled_pays(kind, MemoryRows(csr_array(rows.X), rows.y), W)
    shifted = MemoryRows(rows.X, rows.y, offset=np.ones(N))
    assert compiled_pays(kind, shifted, W) == (kind != "softmax")


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
