"""The first Newton step from weights of zero: how far it should go."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.datasets import load_breast_cancer

from credibly.data.source import MemoryRows
from credibly.inference.first_step import LONGEST, stretch_from_zero
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Logit, Probit
from credibly.model.likelihoods.proportions import Bernoulli
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton

NODES, MASSES = np.polynomial.hermite_e.hermegauss(200)
MASSES = MASSES / MASSES.sum()


@pytest.mark.parametrize("variance", [0.01, 0.1, 0.5, 1.0])
def test_normal_scores_are_stretched_to_the_least_loss(variance):
    """t E σ'(t f) = 1/4 by quadrature. For small s² that is t = 1 + s²/4, and ours 1 + π s²/16: a fifth less."""

    def short(t: float) -> float:
        p = expit(t * math.sqrt(variance) * NODES)
        return float(t * MASSES @ (p * (1 - p))) - 0.25

    exact, rows = brentq(short, 0.5, 3), 1000.0
    found = stretch_from_zero(-rows * math.log(2), variance * rows / 4)
    assert_allclose(found - 1, exact - 1, rtol=0.25)


def objective(X: np.ndarray, y: np.ndarray, likelihood=None) -> Objective:
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    prior = Gaussian(np.zeros(Z.shape[1]), PSD(0.4 * np.eye(Z.shape[1])))
    return Objective(likelihood or BernoulliLogit(), MemoryRows(Z, y), prior, np.eye(1))


def decrements(problem: Objective, *, stretched: bool) -> list[float]:
    seen: list[float] = []
    newton(
        lambda x: problem.expand(x)._replace(**({} if stretched else {"stretch": None})),
        np.zeros(problem.rows.X.shape[1]),
        report=lambda step, value, decrement: seen.append(decrement),
    )
    return seen


def test_normal_columns_need_a_step_less():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8))
    y = (X @ np.linspace(-0.6, 0.6, 8) + rng.logistic(size=len(X)) > 0).astype(float)
    plain, ours = (decrements(objective(X, y), stretched=stretched) for stretched in (False, True))
    assert ours[0] == plain[0] and 20 * ours[1] < plain[1]
    assert len(ours) < len(plain)


def test_so_do_columns_that_are_not_normal_and_all_but_separate_the_classes():
    X, y = load_breast_cancer(return_X_y=True)
    plain, ours = (decrements(objective(X, y.astype(float)), stretched=stretched) for stretched in (False, True))
    assert len(ours) < len(plain)


def test_scores_far_from_normal_are_not_trusted():
    assert stretch_from_zero(-100 * math.log(2), 1e6) == LONGEST
    assert stretch_from_zero(-100 * math.log(2), 0.0) == 1.0


def test_only_logistic_weights_of_zero_are_stretched():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50).astype(float)
    logistic = objective(X, y)
    glm = replace(logistic, likelihood=FamilyLikelihood(Bernoulli(), Logit()))
    for known in (logistic, glm):
        stretch = known.expand(np.zeros(3)).stretch
        assert stretch is not None
        assert_allclose(stretch(2.0), stretch_from_zero(-50 * math.log(2), 2.0), rtol=1e-14)
        assert known.expand(np.array([0.0, 0.1, 0.0])).stretch is None
    for other in (BernoulliProbit(), FamilyLikelihood(Bernoulli(), Probit())):
        assert replace(logistic, likelihood=other).expand(np.zeros(3)).stretch is None
