"""Covariances of an estimate: the middle of a sandwich, and whether the model's is that of the curvature."""

import numpy as np
from numpy.testing import assert_allclose

from credibly.data.rows import MemoryRows
from credibly.inference.linear.covariance import curvature_is_expected, squared_group_scores, squared_scores
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Binomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Log, Logit, Power, Probit
from helpers import raw_objective


def test_a_proportion_of_trials_counts_as_its_labels():
    rng = np.random.default_rng(4)
    Z, trials = np.column_stack([rng.normal(size=6), np.ones(6)]), rng.integers(1, 6, size=6)
    successes = rng.binomial(trials, 0.4)
    u, link = np.array([0.7, -0.2]), Probit()
    grouped = MemoryRows(Z, successes / trials, trials.astype(float))
    labels = np.concatenate([np.r_[np.ones(s), np.zeros(m - s)] for s, m in zip(successes, trials, strict=True)])
    expanded = MemoryRows(np.repeat(Z, trials, axis=0), labels)
    by_proportion = squared_scores(raw_objective(FamilyLikelihood(Binomial(), link), grouped, None), u)
    by_label = squared_scores(raw_objective(BernoulliProbit(), expanded, None), u)
    assert_allclose(by_proportion, by_label, rtol=1e-12)


def test_which_likelihoods_have_the_expected_curvature():
    f = np.linspace(-2, 2, 5) + 3.0
    for likelihood, y in (
        (BernoulliLogit(), 1.0),
        (BernoulliProbit(), 1.0),
        (FamilyLikelihood(Binomial(), Probit()), 0.3),
        (FamilyLikelihood(Binomial(), Logit()), 0.3),
        (FamilyLikelihood(Poisson(), Log()), 4.0),
        (FamilyLikelihood(Poisson(), Power(0.5)), 4.0),
    ):
        at = likelihood.slopes(np.full(5, y), f).curvature, likelihood.information(f)
        assert curvature_is_expected(likelihood) == bool(np.allclose(*at, rtol=1e-10))


def scores_of_rows(likelihood, Z, y, weight, x):
    """Gradients of the log likelihoods of single rows, by objectives of one row each."""
    objectives = [raw_objective(likelihood, MemoryRows(Z[[n]], y[[n]]), None) for n in range(len(y))]
    return np.array([-w * it.gradient(x) for it, w in zip(objectives, weight, strict=True)])


def test_the_middle_is_the_sum_of_squared_scores_of_rows_and_of_groups():
    rng = np.random.default_rng(2)
    Z, weight = np.column_stack([rng.normal(size=12), np.ones(12)]), np.tile([1.0, 2.0, 0.0], 4)
    groups, counted = rng.integers(0, 3, 12), np.tile([1.0, 2.0, 0.0], 4) > 0
    for likelihood, y in ((BernoulliProbit(), rng.integers(0, 2, 12) * 1.0), (Categorical(3), rng.integers(0, 3, 12))):
        x = rng.normal(size=6 if isinstance(likelihood, Categorical) else 2)
        objective = raw_objective(likelihood, MemoryRows(Z, y, weight), None)
        one = scores_of_rows(likelihood, Z, y, np.ones(12), x)
        # a row of weight k is k rows
        assert_allclose(squared_scores(objective, x), (one.T * weight) @ one, rtol=1e-11, atol=1e-13)
        by_group = np.array([(weight[:, None] * one)[groups == g].sum(axis=0) for g in range(3)])
        middle = squared_group_scores(objective, x, groups[counted])
        assert_allclose(middle, 1.5 * by_group.T @ by_group, rtol=1e-11, atol=1e-13)
