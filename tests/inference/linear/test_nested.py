"""Models within models, where the statistics are known by hand."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import f

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.errors import CollinearityError, InputError
from credibly.inference.linear.covariance import covariance
from credibly.inference.linear.fit import LinearFit, fit_linear
from credibly.inference.linear.nested import lr_test, lr_test_of_columns, score_test
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.model.likelihoods.families import Gaussian, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Identity, Log
from credibly.model.priors import Normal

RNG = np.random.default_rng(0)
X = RNG.normal([10.0, 0.0], [1.0, 5.0], size=(60, 2))
WEIGHT = np.tile([1.0, 2.0, 3.0], 20)
FAMILIES = {
    "logit": (BernoulliLogit(), (RNG.random(60) < 0.4).astype(float)),
    "softmax": (Categorical(3), RNG.integers(0, 3, 60)),
    "poisson": (FamilyLikelihood(Poisson(), Log()), RNG.poisson(2.0, 60).astype(float)),
    "gaussian": (FamilyLikelihood(Gaussian(), Identity()), X @ [0.3, 0.1] + RNG.normal(size=60)),
}


def data_of(columns: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Data:
    rows = MemoryRows(columns, y, weight)
    return Data(rows, describe(rows), tuple(f"x{j}" for j in range(columns.shape[1])), len(y))


def fitted(name: str, columns: np.ndarray, weight: np.ndarray | None = None) -> tuple[LinearFit, Data]:
    likelihood, y = FAMILIES[name]
    data = data_of(columns, y, weight)
    return fit_linear(data, LinearSpec(likelihood, None, free_dispersion=name == "gaussian")), data


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weights"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_test_of_all_columns_is_that_against_a_model_without_any(name, weight):
    """Columns that are dropped one after the other have statistics that add up to that of all."""
    fit, data = fitted(name, X, weight)
    whole = lr_test_of_columns(fit, data)
    smaller, smaller_data = fitted(name, X[:, :1], weight)
    one, rest = lr_test(fit, data, smaller, smaller_data), lr_test_of_columns(smaller, smaller_data)
    assert whole.df == one.df + rest.df == (4 if name == "softmax" else 2)
    if name == "gaussian":  # in units of the dispersion of the larger model of each test
        rest = replace(rest, statistic=rest.statistic * smaller.dispersion / fit.dispersion)
    assert_allclose(whole.statistic, one.statistic + rest.statistic, rtol=1e-8)


def test_of_a_gaussian_model_the_statistic_is_that_of_fisher_times_its_columns():
    fit, data = fitted("gaussian", X)
    y, Z = FAMILIES["gaussian"][1], np.column_stack([X, np.ones(60)])
    left = ((y - Z @ np.linalg.lstsq(Z, y)[0]) ** 2).sum()
    statistic = (((y - y.mean()) ** 2).sum() - left) / 2 / (left / 57)
    assert_allclose(lr_test_of_columns(fit, data).statistic, 2 * statistic, rtol=1e-9)
    assert lr_test_of_columns(fit, data).pvalue < f.sf(statistic, 2, 57)  # χ² knows the dispersion for certain


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weights"])
def test_the_score_of_a_column_is_its_covariance_with_what_is_left(weight):
    """Beside an intercept alone: (Σ w z (y - p))² / p(1 - p) Σ w (z - z̄)², z the part that the column adds."""
    w = np.ones(60) if weight is None else weight
    fit, data = fitted("logit", X[:, :1], weight)
    Z, y = np.column_stack([data.rows.X, np.ones(60)]), FAMILIES["logit"][1]
    p = 1 / (1 + np.exp(-Z @ fit.weights[0]))
    variance, extra = w * p * (1 - p), X[:, 1:]
    added = extra - Z @ np.linalg.solve(Z.T @ (Z * variance[:, None]), Z.T @ (extra * variance[:, None]))
    statistic = (w @ (added[:, 0] * (y - p))) ** 2 / (variance @ added[:, 0] ** 2)
    assert_allclose(score_test(fit, data, extra, ["x1"]).statistic, statistic, rtol=1e-8)


def test_a_column_that_the_model_has_cannot_be_tested():
    fit, data = fitted("logit", X)
    with pytest.raises(CollinearityError, match="twice"):
        score_test(fit, data, 2 * X[:, :1] + 1.0, ["twice"])


def test_a_model_with_a_prior_has_no_maximum_of_a_likelihood():
    likelihood, y = FAMILIES["logit"]
    data = data_of(X, y)
    fit = fit_linear(data, LinearSpec(likelihood, Normal(scale=1.0), inference="laplace"))
    for test in (lambda: lr_test_of_columns(fit, data), lambda: score_test(fit, data, X[:, :1], ["x0"])):
        with pytest.raises(InputError, match="prior=None"):
            test()


def test_two_groups_are_enough_for_a_covariance_and_one_is_not():
    """Scores of two groups are the same but for the sign, for they add to zero: the middle is 2 · 2 s sᵀ."""
    fit, data = fitted("logit", X)
    groups = np.arange(60) < 25
    Z, y = np.column_stack([X, np.ones(60)]), FAMILIES["logit"][1]
    p = 1 / (1 + np.exp(-Z @ fit.weights[0]))
    s = (Z * (y - p)[:, None])[groups].sum(axis=0)
    bread = np.linalg.solve(Z.T @ (Z * (p * (1 - p))[:, None]), s)
    assert_allclose(covariance(fit, data, "cluster", groups), 4 * np.outer(bread, bread), rtol=1e-6)
    with pytest.raises(InputError, match="one group"):
        covariance(fit, data, "cluster", np.zeros(60))
