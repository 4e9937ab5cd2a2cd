"""Searches from several starts: which mode they find, and what happens where some of them fail."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import IndependentStudent
from credibly.inference.linear.several_starts import best_laplace, near_rows_only
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, Slopes
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics.linalg import PSD
from helpers import raw_objective

ZERO = np.zeros(2)


@dataclass(frozen=True)
class Fragile(BernoulliCauchit):
    """A likelihood without curvature where some score is far out."""

    farthest: float = 100.0

    def slopes(self, y, f):
        grad, curvature = super().slopes(y, f)
        return Slopes(grad, np.where(np.abs(f) > self.farthest, np.nan, curvature))

    def information(self, f):
        return np.where(np.abs(f) > self.farthest, np.nan, super().information(f))


def objective(likelihood=None, prior: bool = True) -> Objective:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X @ [1.0, -2.0] + rng.standard_cauchy(60) > 0).astype(float)
    belief = Gaussian(ZERO, PSD(np.eye(2))) if prior else None
    return raw_objective(likelihood or BernoulliCauchit(), MemoryRows(X, y), belief)


def test_a_start_from_which_a_search_fails_is_passed_over_where_others_do_not():
    far = np.array([1e3, 1e3])
    with pytest.raises(NotPositiveDefinite):
        laplace(objective(Fragile()), far)
    assert_allclose(best_laplace(objective(Fragile()), far).q.mean, best_laplace(objective(), ZERO).q.mean, rtol=1e-7)


@pytest.mark.parametrize("likelihood", [BernoulliCauchit(), LabelNoise(BernoulliLogit(), 0.1, 0.1)], ids=repr)
def test_an_error_that_every_search_meets_comes_through(likelihood):
    flat = objective(likelihood, prior=False)
    nothing = np.column_stack([flat.rows.X[:, 0], np.zeros(60)])
    with pytest.raises(NotPositiveDefinite):
        best_laplace(replace(flat, rows=replace(flat.rows, X=nothing)), ZERO)


# One weight, whose rows agree but for some that are far out, or are many: two modes at least.
X = np.concatenate([np.full(30, 1.0), np.full(3, -30.0), np.linspace(-2.0, 2.0, 8)])[:, None]
Y = np.concatenate([np.ones(33), np.tile([0.0, 1.0], 4)])
WIDE = Gaussian(np.zeros(1), PSD(np.full((1, 1), 0.1)))


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (BernoulliCauchit(), WIDE),
        (BernoulliCauchit(), IndependentStudent(1.0, np.array([1.0]), np.eye(1), 0.0)),
        (LabelNoise(BernoulliLogit(), 0.05, 0.05), WIDE),
        (LabelNoise(BernoulliLogit(), 0.2, 0.2), WIDE),
        (LabelNoise(BernoulliLogit(), 0.05, 0.05), None),
        (BernoulliCauchit(), None),
    ],
    ids=repr,
)
def test_the_highest_of_several_modes_is_found(likelihood, prior):
    """By evidence, or by likelihood where there is no prior: searches from everywhere find no higher one."""
    problem = raw_objective(likelihood, MemoryRows(X, Y), prior)

    def height(found) -> float:
        return found.log_likelihood if prior is None else found.log_evidence

    everywhere = []
    for start in np.linspace(-6.0, 6.0, 121):
        try:
            everywhere.append(laplace(problem, np.array([start])))
        except NotPositiveDefinite:
            continue
    good = [found for found in everywhere if found.status.good]
    assert np.ptp([found.q.mean[0] for found in good]) > 0.5  # there are several
    assert_allclose(height(best_laplace(problem, np.zeros(1))), max(map(height, good)), rtol=1e-9)


def test_a_row_k_times_as_far_out_as_the_median_weighs_a_kth_squared():
    Z = np.diag([1.0, 1.0, 1.0, 3.0, 0.5])  # squared norms 1, 1, 1, 9, ¼
    problem = raw_objective(BernoulliLogit(), MemoryRows(Z, np.ones(5)), None)
    assert_allclose(near_rows_only(problem).rows.weight, [1, 1, 1, 1 / 81, 1])
    twice = replace(problem, rows=replace(problem.rows, weight=np.full(5, 2.0)))
    assert_allclose(near_rows_only(twice).rows.weight, [2, 2, 2, 2 / 81, 2])


def test_rows_that_are_not_in_memory_are_taken_as_they_are():
    stored = replace(objective(), rows=SimpleNamespace(n_rows=60))
    assert near_rows_only(stored) is stored
