"""The arithmetic of `make bench`: objectives, tolerances, turns, the table. No peer but scikit-learn, no real time."""

import math
import time

import numpy as np
import pytest
from benchmarks.problems import Problem, linear, objective
from numpy.testing import assert_allclose
from scipy.special import ndtr

from benchmarks import page, peers, speed, timing


def test_objectives_are_those_computed_by_hand():
    X, y, w = np.array([[1.0], [2.0]]), np.array([1, 0]), np.array([0.5])
    logit = math.log1p(math.exp(-0.5)) + math.log1p(math.exp(1.0))
    assert_allclose(objective(Problem(X, y, scale=2.0), w), logit + 0.25 / 8)
    assert_allclose(objective(Problem(X, y, "probit", None), w), -np.log(ndtr([0.5, -1.0])).sum())
    two = np.array([[0.0], [0.5]])  # two classes of a softmax, the first one's score zero
    assert_allclose(objective(Problem(X, y, "softmax", 2.0), two), logit + 0.25 / 8)


def test_ill_conditioned_columns_have_the_condition_that_is_said():
    assert 800 < np.linalg.cond(linear(20_000, 6, "ill").X) < 1_250  # up to the error of a sample covariance


@pytest.mark.parametrize("columns", ["well", "sparse"])
def test_our_mode_is_a_peers(columns):
    problem = linear(300, 4, columns) if columns == "well" else linear(300, 40, columns)
    ours = objective(problem, speed.with_covariance(problem).coef_[0])
    theirs = timing.loosest(
        lambda tol: peers.scikit_learn("newton-cg", problem, tol), lambda w: objective(problem, w), ours
    )
    assert isinstance(theirs, timing.Peer)
    assert abs(timing.relative_gap(theirs.value, ours)) <= timing.GAP


def test_the_loosest_tolerance_that_gets_there_is_used():
    asked = []

    def fit(tolerance):
        asked.append(tolerance)
        return tolerance

    found = timing.loosest(fit, lambda tolerance: 1 + 1e-4 * tolerance, best=1.0)
    assert found.action.run() == pytest.approx(1e-4)
    assert min(asked) == pytest.approx(1e-4)


def test_a_peer_that_does_not_get_there_is_named_as_such(monkeypatch):
    monkeypatch.setattr(timing, "BUDGET", 0.05)
    assert timing.loosest(lambda tolerance: 2.0, float, best=1.0) == "ends with a gap of 1e+00"
    assert timing.loosest(lambda tolerance: time.sleep(5), float, best=1.0) == "not there after 0 s"


def test_runs_alternate_and_the_first_is_not_counted(monkeypatch):
    order, taken = [], {"a": [9.0, *range(1, 8)], "b": [9.0, *[2.0] * 7]}
    monkeypatch.setattr(timing, "turn", lambda action: order.append(action.run) or taken[action.run].pop(0))
    medians = timing.alternate({"a": timing.Action("a"), "b": timing.Action("b")})
    assert order == ["a", "b"] * 8
    assert medians == {"a": 4.0, "b": 2.0}


def test_the_table_says_what_was_met(tmp_path):
    case = speed.Case("made-up", "a made-up case", speed.ratio(2), lambda: speed.Outcome(1.0))
    met = speed.Outcome(0.05, "peer", 0.125, ("another: not there after 15 s",))
    wrong, slow = met._replace(right=False), met._replace(theirs=0.09)
    page.write([(case, met), (case, wrong), (case, slow), (case, "it failed")], 3.0, tmp_path / "page.md")
    lines = (tmp_path / "page.md").read_text().splitlines()[-4:]
    assert lines[0] == "| a made-up case | ≥ 2× | 50 | peer, 125 (another: not there after 15 s) | 2.5 | met |"
    assert [line.split("|")[-2].strip() for line in lines[1:]] == ["**missed**", "**missed**", "**failed**"]
    assert "other work" in (tmp_path / "page.md").read_text()


def test_names_are_unique():
    assert len(speed.BY_NAME) == len(speed.CASES)
