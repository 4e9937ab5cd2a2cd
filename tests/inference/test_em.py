"""How the completion of missing labels and cells ends; what it finds is tested with the generative models."""

from types import SimpleNamespace

import numpy as np
import pytest

from credibly.inference import em
from credibly.inference.conjugate import JointSums
from credibly.model.class_conditionals.base import NotDetermined
from credibly.model.class_conditionals.categorical import Counts
from credibly.numerics.status import Status, silent


def complete(values, moves, monkeypatch, max_iter: int = 4):
    """Values of the model step by step, and expected sums that move by so much each time."""
    value, total = iter(values), iter(np.cumsum(moves))

    def expect(family, rows, joint, n_classes):
        there = np.array([1.0 + next(total)])
        return em.Expected(JointSums(there, Counts(there[:, None])), 0.0)

    monkeypatch.setattr(em, "expect", expect)
    rule = SimpleNamespace(learn=lambda family, sums: SimpleNamespace(value=next(value)))
    rule.while_completing = rule
    family = SimpleNamespace()
    family.while_completing = family
    none = JointSums(np.zeros(1), Counts(np.zeros((1, 1))))
    return em.complete(family, rule, none, None, None, em.Limits(1e-6, max_iter, silent))


def test_sums_and_a_value_that_stand_still_are_the_end(monkeypatch):
    done = complete([0.0, 1.5, 1.5, 1.5], [1.0, 0.5, 0.0, 0.0], monkeypatch)
    assert done.status is Status.CONVERGED
    assert done.path.tolist() == [0.0, 1.5, 1.5]


def test_a_value_that_rises_is_not_the_end_although_sums_stand_still(monkeypatch):
    done = complete([0.0, 1.0, 1.5, 2.0], [1.0, 0.5, 0.0, 0.0], monkeypatch)
    assert done.status is Status.STEP_LIMIT
    assert done.path.tolist() == [0.0, 1.0, 1.5, 2.0]


def test_sums_that_still_move_after_the_last_step_are_told(monkeypatch):
    done = complete([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0], monkeypatch)
    assert done.status is Status.STEP_LIMIT
    assert done.sums.counts.tolist() == [5.0]


def test_a_value_that_falls_says_that_a_covariance_has_lost_its_digits(monkeypatch):
    with pytest.raises(NotDetermined, match="becomes singular while missing cells or labels are filled in"):
        complete([0.0, 1.0, 0.5, 2.0], [1.0, 1.0, 1.0, 1.0], monkeypatch)
