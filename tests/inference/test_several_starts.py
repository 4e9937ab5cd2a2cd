"""Searches from several starts: what happens where some of them fail, and how outlying rows are kept from leading."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference import several_starts
from credibly.inference.laplace import Controls, laplace
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian
from credibly.inference.several_starts import _trimmed, best_laplace, near_rows_only
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics.linalg import PSD

ZERO = np.zeros(2)


def objective(likelihood=None, prior: bool = True) -> Objective:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X @ [1.0, -2.0] + rng.standard_cauchy(60) > 0).astype(float)
    belief = Gaussian(ZERO, PSD(np.eye(2))) if prior else None
    return Objective(likelihood or BernoulliCauchit(), MemoryRows(X, y), belief, np.eye(1))


def failing(monkeypatch, fails) -> None:
    """Let searches fail whose number, counted from zero, is one of these."""
    count = iter(range(1000))

    def search(problem, start, controls):
        if next(count) in fails:
            raise NotPositiveDefinite("so far out that all curvature is rounded away")
        return laplace(problem, start, controls)

    monkeypatch.setattr(several_starts, "laplace", search)


@pytest.mark.parametrize("fails", [{0}, {1}, {0, 1}, {2, 3, 4}], ids=["relative", "near rows", "both", "starts"])
def test_searches_that_fail_are_passed_over_where_others_do_not(fails, monkeypatch):
    problem = objective()
    best = best_laplace(problem, ZERO)
    failing(monkeypatch, fails)
    found = best_laplace(problem, ZERO)
    assert_allclose(found.posterior.mean, best.posterior.mean, rtol=1e-7)


def test_an_error_that_every_search_meets_comes_through(monkeypatch):
    failing(monkeypatch, range(1000))
    with pytest.raises(NotPositiveDefinite, match="so far out"):
        best_laplace(objective(), ZERO)


def test_a_row_k_times_as_far_out_as_the_median_weighs_a_kth_squared():
    X = np.diag([1.0, 1.0, 1.0, 3.0, 0.5])  # squared norms 1, 1, 1, 9, ¼
    problem = Objective(BernoulliLogit(), MemoryRows(X, np.ones(5)), None, np.eye(1))
    assert_allclose(near_rows_only(problem).rows.weight, [1, 1, 1, 1 / 81, 1])
    twice = replace(problem, rows=replace(problem.rows, weight=np.full(5, 2.0)))
    assert_allclose(near_rows_only(twice).rows.weight, [2, 2, 2, 2 / 81, 2])


def test_rows_that_are_not_in_memory_are_taken_as_they_are():
    stored = replace(objective(), rows=SimpleNamespace(n_rows=60))
    assert near_rows_only(stored) is stored
    assert _trimmed(stored, ZERO, Controls()) == []


def test_trimming_that_leaves_separated_rows_ends_where_it_was(monkeypatch):
    problem = objective(LabelNoise(BernoulliLogit(), 0.1, 0.1))
    relative = replace(problem, likelihood=BernoulliLogit())
    start = laplace(relative, ZERO).posterior.mean
    moved = _trimmed(relative, start, Controls())
    assert all(np.linalg.norm(point) > np.linalg.norm(start) for point in moved)  # without its worst rows: steeper
    failing(monkeypatch, range(1000))
    for point in _trimmed(relative, start, Controls()):
        assert_array_equal(point, start)
