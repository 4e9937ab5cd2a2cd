"""The mode of many rows: found from a sample, it is the mode that Newton finds, for fewer Hessians."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from credibly import BayesianLogisticRegression
from credibly.data.rows import Block, MemoryRows
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.laplace import at_mode, laplace, sample_sizes, sampled_start, stochastic_gradient
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliProbit,
    Categorical,
)
from credibly.model.likelihoods.families import Gamma, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Log
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton
from credibly.numerics.settings import COSTS, CostModel
from credibly.numerics.status import TO_ROUNDING, Controls, Local, Solution, Status, silent
from helpers import raw_objective

N, D = 20_000, 20


@dataclass(frozen=True)
class CountedRows(MemoryRows):
    """Rows that count the passes over all of them, by what is summed; a sample is not counted."""

    def sum(self, block, merge):
        PASSES[getattr(block, "func", block).__name__] += 1
        return super().sum(block, merge)

    def sample(self, rng, size, n_classes=0):
        return MemoryRows(self.X, self.y, self.weight, offset=self.offset).sample(rng, size, n_classes)


PASSES: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _count_anew():
    PASSES.clear()


def wide_prior(n_weights: int) -> Gaussian:
    return Gaussian(np.zeros(n_weights), PSD.diagonal(np.full(n_weights, 0.01)))


def problem(likelihood, *, kind="well", n=N, d=D, outputs=1, **more) -> Objective:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(n, d))
    if kind == "ill":  # condition 10³, columns mixed
        Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        Z = Z * np.geomspace(1, 1e-3, d) @ Q
    steep = {"well": 1.0, "ill": 2.0, "near": 60.0, "nearer": 400.0}[kind]
    W = rng.normal(size=(outputs, d)) / np.sqrt(d)
    f = steep * (Z @ W.T) / (Z @ W.T).std()
    y = targets(rng, likelihood, f)
    objective = raw_objective(likelihood, CountedRows(Z, y, **more), wide_prior(outputs * d))
    PASSES.clear()
    return objective


def targets(rng, likelihood, f):
    if isinstance(likelihood, Categorical):
        return np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    if likelihood.two_labels:
        return (f[:, 0] + rng.logistic(size=len(f)) > 0).astype(float)
    return rng.poisson(np.exp(f[:, 0] / 2)) + (0.5 if "Gamma" in repr(likelihood) else 0.0)


def agrees_with_newton(objective: Objective) -> None:
    start = np.zeros(objective.prior.mean.size)
    found = laplace(objective, start)
    PASSES["by sample"] = PASSES["expanded_block"]
    plain = newton(objective.expand, start, tol=1e-20)
    q = found.q
    assert found.status is plain.status is Status.CONVERGED
    # standard deviations: the squared distance that is left is at most the default tol
    assert_allclose(plain.local.hessian.factor.T @ (q.mean - plain.x), 0, atol=1e-5)
    white = plain.local.hessian.half_solve(q.precision.factor)
    assert_allclose(white @ white.T, np.eye(start.size), rtol=0, atol=COSTS.hessian_error)
    evidence = -plain.local.value - float(Gaussian(plain.x, plain.local.hessian).logpdf(plain.x))
    assert_allclose(found.log_evidence, evidence, rtol=0, atol=0.5 * COSTS.hessian_error * start.size)
    # at the mode the objective is flat: its error is a third power of the last step
    assert_allclose(found.log_likelihood + objective.log_prior(q.mean), -plain.local.value, rtol=1e-12, atol=1e-8)


@pytest.mark.parametrize(("kind", "most"), [("well", 2), ("ill", 2), ("near", 7), ("nearer", 11)])
@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit()], ids=repr)
def test_two_labels(likelihood, kind, most):
    """Of the nearer kind even half of the rows are all but separated: the sample is only a start for Newton.

    Of the near kind chance decides whether a sample is (in a third of them, for the probit).
    """
    agrees_with_newton(problem(likelihood, kind=kind))
    assert PASSES["by sample"] <= most


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit()], ids=repr)
def test_two_labels_under_a_flat_prior(likelihood):
    objective = replace(problem(likelihood), prior=None)
    found = laplace(objective, np.zeros(D), TO_ROUNDING)
    assert PASSES["expanded_block"] <= 2
    plain = newton(objective.expand, np.zeros(D), tol=1e-20)
    assert found.status is plain.status is Status.CONVERGED
    assert_allclose(plain.local.hessian.factor.T @ (found.q.mean - plain.x), 0, atol=1e-9)


def test_a_column_that_is_zero_in_every_sample_is_left_to_newton_under_a_flat_prior():
    objective = replace(problem(BernoulliLogit()), prior=None)
    Z, y = objective.rows.X, objective.rows.y
    Z[:, 0] = 0.0
    drawn = {tuple(row) for size in sample_sizes(objective, D, COSTS) for row in _sampled(objective, size)}
    rare = np.array([tuple(row) not in drawn for row in Z])
    assert np.unique(y[rare]).size == 2
    Z[rare, 0] = np.random.default_rng(0).normal(size=rare.sum())
    agreed = laplace(objective, np.zeros(D))
    assert agreed.status is Status.CONVERGED
    assert_allclose(agreed.q.mean, newton(objective.expand, np.zeros(D)).x, rtol=0, atol=1e-9)


def _sampled(objective, size):
    return objective.sample(np.random.default_rng(0), size).rows.X


@pytest.mark.parametrize(
    "likelihood", [BernoulliCloglog(), FamilyLikelihood(Poisson(), Log()), FamilyLikelihood(Gamma(), Log())], ids=repr
)
def test_other_targets(likelihood):
    agrees_with_newton(problem(likelihood))
    assert PASSES["by sample"] <= 3  # two for most samples


def test_softmax_asks_for_few_hessians_since_they_are_dear():
    agrees_with_newton(problem(Categorical(8), outputs=8, n=20_000))
    assert PASSES["by sample"] <= 2


def test_weights_and_offsets():
    rng = np.random.default_rng(1)
    more = {"weight": rng.exponential(size=N), "offset": rng.normal(size=N)}
    agrees_with_newton(problem(BernoulliLogit(), **more))


def test_sparse_rows():
    dense = problem(BernoulliLogit())
    Z = np.where(np.random.default_rng(0).random((N, D)) < 0.2, dense.rows.X, 0.0)
    agrees_with_newton(replace(dense, rows=replace(dense.rows, X=csr_array(Z))))


def test_a_rare_class_is_in_the_sample():
    """Of 20,000 rows 12 are of class 1: a sample of one in twenty would miss them every other time."""
    objective = problem(BernoulliLogit())
    y = np.zeros(N)
    y[:12] = 1.0
    rare = replace(objective, rows=replace(objective.rows, y=y))
    sample = rare.sample(np.random.default_rng(0), 1000)
    assert sample.rows.y.sum() == 12
    agrees_with_newton(rare)


def test_rows_that_are_nearly_separated_take_few_passes_where_newton_takes_many():
    objective = problem(BernoulliLogit(), kind="nearer", n=100_000)
    agrees_with_newton(objective)
    assert PASSES["by sample"] <= 2
    assert PASSES["expanded_block"] - PASSES["by sample"] >= 10
    assert PASSES["gradient_block"] <= 10


def test_a_score_too_large_for_an_exponential_sends_the_search_back():
    """One row far out, and not in the sample: at the sample's mode its mean is infinite."""
    objective = problem(FamilyLikelihood(Poisson(), Log()))
    Z = objective.rows.X.copy()
    mode = laplace(objective, np.zeros(D)).q.mean
    first = sample_sizes(objective, D, COSTS)[0]
    numbered = MemoryRows(Z, np.arange(N)).sample(np.random.default_rng(0), first)
    out = np.setdiff1d(np.arange(N), numbered.y)[0]
    Z[out] = 2000 * mode / (mode @ mode)
    y = objective.rows.y.copy()
    y[out] = 0.0
    outlying = replace(objective, rows=replace(objective.rows, X=Z, y=y))
    with np.errstate(over="ignore", invalid="ignore"):
        found = laplace(outlying, np.zeros(D))
        plain = newton(outlying.expand, np.zeros(D))
    assert found.status is Status.CONVERGED
    assert_allclose(plain.local.hessian.factor.T @ (found.q.mean - plain.x), 0, atol=1e-8)


# --- where it is not done -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        partial(problem, BernoulliLogit(), n=500),
        partial(problem, BernoulliLogit(), n=30_000, d=3),
        partial(problem, BernoulliCauchit()),
        lambda: replace(problem(FamilyLikelihood(Poisson(), Log())), prior=None),
    ],
    ids=["few rows", "few numbers", "not log-concave", "counts under a flat prior"],
)
def test_plain_newton_does_the_rest(objective):
    objective = objective()
    start = np.zeros(objective.rows.X.shape[1])
    assert sampled_start(objective, start) is start
    assert not PASSES


def test_costs_decide_whether_a_sample_comes_first_and_how_well_the_hessian_is_known():
    objective, start = problem(BernoulliLogit()), np.zeros(D)
    dear, rough = CostModel(sampling=np.inf), CostModel(hessian_error=1e-30)
    assert sampled_start(objective, start, dear) is start
    laplace(objective, start, costs=dear)
    assert PASSES["gradient_block"] == 0
    PASSES.clear()
    laplace(objective, start, costs=rough)  # no last step is short enough: another Hessian
    assert PASSES["gradient_block"] > 0 and PASSES["expanded_block"] == 2


@pytest.mark.parametrize(
    ("likelihood", "costs", "guides"),
    [
        (BernoulliLogit(), COSTS, True),
        (BernoulliLogit(), CostModel(sample_steps=0), False),  # a search that does not end is none
        (BernoulliLogit(), CostModel(least_loss=np.inf), False),  # nor labels that are fitted too well
        (FamilyLikelihood(Poisson(), Log()), CostModel(least_loss=np.inf), True),  # targets may be fitted however well
    ],
)
def test_a_sample_is_a_guide_if_its_search_ends_and_its_labels_are_not_fitted_too_well(likelihood, costs, guides):
    start = np.zeros(D)
    found = sampled_start(problem(likelihood), start, costs)
    assert (found.metric is not None) == guides
    assert found.fallback is start
    assert np.isfinite(found.x).all()


@pytest.mark.parametrize(("nats", "guides"), [(-30.0, True), (30.0, False)])
def test_labels_of_a_sample_are_fitted_too_well_below_so_many_nats_for_each_weight(nats, guides):
    """Counted in rows of the sample, and without the prior, whose log density is some -64 nats."""
    objective, size = problem(BernoulliLogit()), COSTS.sample_sizes(N, D, 1)[0]
    sample = objective.sample(np.random.default_rng(0), size)
    mode = newton(sample.expand, np.zeros(D)).x
    loss = -sample.log_likelihood(mode)
    found = sampled_start(objective, np.zeros(D), CostModel(least_loss=(loss + nats) / (D * N / sample.rows.n_rows)))
    assert (found.metric is not None) == guides


def test_larger_samples_are_tried_where_the_hessian_changes_much():
    sizes: list[int] = []

    class Sampled(CountedRows):
        def sample(self, rng, size, n_classes=0):
            sizes.append(size)
            return super().sample(rng, size, n_classes)

    objective = problem(BernoulliLogit())
    watched = replace(objective, rows=Sampled(objective.rows.X, objective.rows.y))
    for most, tried in ((1.0, 1), (0.0, 3)):
        sizes.clear()
        costs = CostModel(sample_shares=(200, 40), most_nonlinear=most)
        sampled_start(watched, np.zeros(D), costs)
        assert sizes == costs.sample_sizes(N, D, 1)[:tried]


def test_rows_in_other_blocks_take_the_same_steps():
    """The sample does not depend on how rows are cut, nor on where they are: files give what memory gives."""
    objective = problem(BernoulliLogit())
    parts = replace(objective, rows=objective.rows.in_blocks(1_777))
    whole, cut = (laplace(it, np.zeros(D)) for it in (objective, parts))
    assert_allclose(cut.q.mean, whole.q.mean, rtol=1e-11)
    assert_allclose(cut.q.precision.matrix, whole.q.precision.matrix, rtol=0, atol=1e-8)
    assert_allclose(cut.log_evidence, whole.log_evidence, rtol=1e-13)


def test_the_same_rows_give_the_same_numbers():
    objective = problem(BernoulliLogit())
    one, two = (laplace(objective, np.zeros(D)) for _ in range(2))
    assert_array_equal(one.q.mean, two.q.mean)
    assert one.log_evidence == two.log_evidence


def test_without_a_prior_there_is_no_evidence_and_the_likelihood_is_the_objective():
    objective = replace(problem(BernoulliLogit(), n=500), prior=None)
    found = laplace(objective, np.zeros(D))
    assert np.isnan(found.log_evidence)
    assert_allclose(found.log_likelihood, -objective.expand(found.q.mean).value, rtol=1e-14)


def test_the_evidence_and_likelihood_of_a_point_follow_from_its_local_quadratic():
    objective, x = replace(problem(BernoulliLogit(), n=20, d=2), prior=wide_prior(2)), np.array([0.3, -0.2])
    local = Local(2.0, np.zeros(2), PSD.diagonal(np.array([4.0, 9.0])))
    found = at_mode(objective, Solution(x, local, Status.CONVERGED, 3, 0.25, 0.5))
    assert_array_equal(found.q.mean, x)
    assert_allclose(found.log_evidence, -2.0 + np.log(2 * np.pi) - np.log(6.0), rtol=1e-14)
    log_prior = -0.005 * (0.09 + 0.04) + np.log(0.01) - np.log(2 * np.pi)
    assert_allclose(found.log_likelihood, -2.0 - log_prior, rtol=1e-14)
    assert (found.status, found.steps, found.decrement, found.nonlinearity) == (Status.CONVERGED, 3, 0.25, 0.5)


@pytest.mark.parametrize("rare", [1, 4, 8])
def test_a_column_that_is_constant_in_the_sample_does_not_lead_the_search_astray(rare):
    """Without a prior the sample leaves it open, but for rounding: a step along it would end at 1e18."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 16))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    X[:, 5] = 0.0
    X[17 : 17 + 2 * rare, 5] = 1.0
    y[17 : 17 + 2 * rare] = np.tile([0, 1], rare)
    model = BayesianLogisticRegression(prior=None).fit(X, y)
    p = 1 / (1 + np.exp(-X @ model.coef_[0] - model.intercept_[0]))
    # the equations of maximum likelihood: what is predicted adds up to what was seen, for every column
    assert_allclose(np.column_stack([X, np.ones(len(X))]).T @ (p - y), 0, atol=1e-7 * len(X) ** 0.5)
    assert model.status_ is Status.CONVERGED


# --- stochastic gradient --------------------------------------------------------------------------------------


class Walk:
    """An objective whose gradient and Hessian are known numbers: those of batches, and those of all rows."""

    def __init__(self, n_rows, grads=(1.0,), hessian=1.0, batches=1):
        self.rows, self.prior, self.n_batches = SimpleNamespace(n_rows=n_rows), None, batches
        self.grads, self.hessian = grads, hessian
        self.expanded, self.sizes, self.shares = [], [], []

    def batches(self, rng, size):
        self.sizes.append(size)
        return [Block(np.zeros((3, 1)), np.zeros(3), np.ones(3))] * self.n_batches

    def expand(self, x):
        grad = self.grads[min(len(self.expanded), len(self.grads) - 1)]
        self.expanded.append(float(x[0]))
        return Local(10.0 + len(self.expanded), np.full(len(x), grad), PSD.diagonal(np.full(len(x), self.hessian)))

    def batch_gradient(self, batch, x, share):
        self.shares.append(share)
        return np.full_like(x, -self.hessian)  # so that a step is as long as its rate

    def log_prior(self, x):
        return 0.0

    def ended(self, d=1, sweeps=7, report=silent):
        return stochastic_gradient(
            np.random.default_rng(0), self, np.zeros(d), Controls(max_steps=sweeps, report=report)
        )


def rates(n: int) -> np.ndarray:
    return (1.0 + np.arange(n)) ** -0.6


@pytest.mark.parametrize(
    ("n_rows", "size"), [(10, 64), (64, 64), (65, 8), (127, 8), (144, 9), (1000, 62), (1024, 64), (9999, 64)]
)
def test_batches_are_a_sixteenth_of_the_rows_within_limits(n_rows, size):
    walk = Walk(n_rows)
    walk.ended(sweeps=1)
    assert walk.sizes == [size]
    assert walk.shares == [3 / n_rows]


def test_the_average_forgets_at_powers_of_two():
    told, walk = [], Walk(100, hessian=4.0)
    found = walk.ended(report=lambda *it: told.append(it))
    x = np.append(0.0, np.cumsum(rates(7)))  # where the sweeps end
    averages = [0.0, x[1], x[2], x[2:4].mean(), x[4], x[4:6].mean(), x[4:7].mean(), x[4:8].mean()]
    assert_allclose(walk.expanded, averages, rtol=1e-14)
    assert_allclose(found.q.mean, averages[-1], rtol=1e-14)
    assert (found.status, found.steps, found.decrement) == (Status.AWAY_FROM_MODE, 7, 0.25)
    assert told == [(k, 11.0 + k, 0.25) for k in range(1, 8)]


def test_a_sweep_is_averaged_over_its_batches_and_the_next_goes_on_with_shorter_steps():
    walk = Walk(100, batches=3)
    walk.ended(sweeps=2)
    x = np.cumsum(rates(6))
    assert_allclose(walk.expanded, [0.0, x[:3].mean(), x[3:].mean()], rtol=1e-14)


@pytest.mark.parametrize(("d", "first"), [(1, 1.0), (4, 1.0), (8, 0.5), (16, 0.25)])
def test_the_first_step_is_shorter_where_a_batch_has_few_rows_for_each_weight(d, first):
    walk = Walk(100)
    walk.ended(d=d, sweeps=1)
    assert walk.expanded[1] == first


@pytest.mark.parametrize(
    ("grads", "steps", "status"),
    [((0.15, 0.15, 0.0999), 2, Status.NEAR_MODE), ((0.15, 0.101), 7, Status.AWAY_FROM_MODE)],
)
def test_sweeps_end_within_a_tenth_of_a_standard_deviation(grads, steps, status):
    found = Walk(100, grads=grads).ended()
    assert (found.steps, found.status) == (steps, status)
