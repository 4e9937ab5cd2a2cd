"""Decisions of every classifier, and what averaging does to them (misprint E-22 of docs/theory.md)."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.special import expit
from sklearn.base import is_classifier

import credibly
from credibly import averages
from credibly.decisions import REJECT, least_cost
from credibly.diagnostics import (
    auc,
    brier_decomposition,
    calibration_error,
    log_score,
    reliability_curve,
    uncertainty_split,
)
from credibly.errors import InputError
from credibly.kernels import RBF
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit

CLASSIFIERS = {
    "BayesianLogisticRegression": [
        credibly.BayesianLogisticRegression(),
        credibly.BayesianLogisticRegression(label_noise=0.1),
    ],
    "BayesianProbitRegression": [credibly.BayesianProbitRegression()],
    "NoisyThresholdClassifier": [credibly.NoisyThresholdClassifier(threshold="cauchy", prior=credibly.Normal())],
    "GaussianProcessClassifier": [
        credibly.GaussianProcessClassifier(RBF(1.0), optimize=False),
        credibly.GaussianProcessClassifier(RBF(1.0), optimize=False, inference="ep"),
    ],
    "LinearDiscriminant": [credibly.LinearDiscriminant(), credibly.LinearDiscriminant(parameters="plugin")],
    "QuadraticDiscriminant": [credibly.QuadraticDiscriminant()],
    "ModelAverage": [
        credibly.ModelAverage({"one": credibly.LinearDiscriminant()}, by="joint_evidence", random_state=0)
    ],
    "NaiveBayes": [credibly.NaiveBayes()],
    "GenerativeClassifier": [
        credibly.GenerativeClassifier(class_conditional=credibly.class_conditionals.MultivariateGaussian())
    ],
}
WITHOUT_PROBABILITIES = {"LeastSquaresClassifier"}
TWO_CLASSES = {"BayesianProbitRegression", "NoisyThresholdClassifier"}
EVERY = [
    pytest.param(model, K, id=f"{name}-{i}-{K}")
    for name, models in CLASSIFIERS.items()
    for i, model in enumerate(models)
    for K in ([2] if name in TWO_CLASSES else [2, 3])
]


def rows(K, n=60):
    rng = np.random.default_rng(K)
    codes = np.arange(n) % K
    return rng.normal(size=(n, 2)) + 1.2 * np.eye(3)[codes, :2], np.array(["ann", "bob", "cleo"])[codes]


def test_every_public_classifier_is_here():
    public = {name for name in credibly.__all__ if inspect.isclass(getattr(credibly, name))}
    found = {name for name in public if hasattr(getattr(credibly, name), "fit")}
    classifiers = {name for name in found if name != "BayesianGLM"}  # its predictions are means
    assert classifiers == CLASSIFIERS.keys() | WITHOUT_PROBABILITIES
    assert all(is_classifier(model) for models in CLASSIFIERS.values() for model in models)


def test_without_probabilities_there_is_nothing_to_decide_by():
    assert not hasattr(credibly.LeastSquaresClassifier, "predict_proba")
    assert not hasattr(credibly.LeastSquaresClassifier, "decide")


@pytest.mark.parametrize(("model", "K"), EVERY)
def test_every_classifier_decides_by_least_expected_cost_or_declines(model, K):
    X, y = rows(K)
    fitted = model.fit(X, y)
    proba, classes = fitted.predict_proba(X), fitted.classes_.tolist()
    parameters = list(inspect.signature(fitted.decide).parameters)
    assert parameters == ["X", "costs", "reject_cost", "reject_label"]
    costs = np.random.default_rng(1).uniform(0.5, 2.0, size=(K, K)) * (1 - np.eye(K))
    reject_cost = float(np.median((proba @ costs).min(axis=1)))  # so that about half is declined
    labels, declined = fitted.decide(X, costs), fitted.decide(X, costs, reject_cost, "nobody")
    assert set(labels) <= set(classes) and {"nobody"} < set(declined)
    for p, label, other in zip(proba, labels, declined, strict=True):
        expected = {name: sum(p[i] * costs[i, j] for i in range(K)) for j, name in enumerate(classes)}
        cheapest = min(expected, key=expected.get)
        assert label == cheapest
        assert other == ("nobody" if reject_cost < expected[cheapest] else cheapest)
    assert_array_equal(fitted.decide(X, 1 - np.eye(K)), fitted.predict(X))
    assert fitted.decide(X, costs, reject_cost=reject_cost).dtype == object


@pytest.mark.parametrize(("model", "K"), EVERY)
def test_every_classifiers_arrays_can_be_judged(model, K):
    X, y = rows(K)
    fitted = model.fit(X, y)
    proba = fitted.predict_proba(X)
    assert log_score(y, proba) < 0 < calibration_error(y, proba)
    assert np.isclose(brier_decomposition(y, proba).score, ((proba - (y[:, None] == fitted.classes_)) ** 2).sum() / 60)
    assert reliability_curve(y, proba, label="bob").count.sum() == 60
    assert auc(y, proba, label="bob").value > 0.5
    if getattr(fitted, "parameters", "integrated") == "integrated" and hasattr(fitted, "sample_proba"):
        split = uncertainty_split(fitted.sample_proba(X[:5], size=50, random_state=0))
        assert (split.noise > 0).all() and (split.ignorance > 0).all()


@pytest.mark.parametrize("reject_cost", ["cheap", np.nan, np.inf, [0.1]])
def test_a_reject_cost_is_a_finite_number(reject_cost):
    with pytest.raises(InputError, match="reject_cost"):
        least_cost(np.array([[0.5, 0.5]]), 1 - np.eye(2), reject_cost)


def test_ties_are_decided():
    p = np.array([[0.5, 0.5]])
    assert least_cost(p, 1 - np.eye(2), reject_cost=0.5) == [0]
    assert least_cost(p, 1 - np.eye(2), reject_cost=0.4999) == [REJECT]


# --- does averaging change the decision? --------------------------------------------------------------------

LOTS = st.floats(-30, 30), st.floats(1e-6, 1e3)


@given(*LOTS)
def test_two_classes_at_equal_costs_no(m, v):
    """A Gaussian score and a symmetric link: averaging pulls to one half, never across."""
    if abs(m) < 1e-9:  # where rounding decides
        return
    for likelihood in (BernoulliLogit(), BernoulliProbit()):
        log_proba = [likelihood.log_average(np.array(c), np.array([m]), np.array([v]))[0] for c in (0, 1)]
        assert (log_proba[1] > log_proba[0]) == (m > 0)
        assert log_proba[0] != log_proba[1]


@given(*LOTS)
def test_two_classes_at_unequal_costs_only_towards_the_dearer_mistake(m, v):
    """Acting from a probability of a tenth on: averaged ones are nearer to one half, so they act more often."""
    costs = [[0.0, 1.0], [9.0, 0.0]]
    plug_in, averaged = expit(m), float(averages.sigmoid(m, v))
    act = [least_cost(np.array([[1 - p, p]]), costs)[0] for p in (plug_in, averaged)]
    assert act[1] >= act[0] or abs(plug_in - 0.1) < 1e-9


def test_two_classes_at_unequal_costs_yes():
    """Score -3 ± 3: 0.047 plugged in, 0.18 averaged; a threshold of a tenth lies between."""
    costs = [[0.0, 1.0], [9.0, 0.0]]
    plug_in, averaged = expit(-3.0), float(averages.sigmoid(-3.0, 9.0))
    assert plug_in < 0.05 and averaged > 0.15
    assert least_cost(np.array([[1 - plug_in, plug_in]]), costs) == [0]
    assert least_cost(np.array([[1 - averaged, averaged]]), costs) == [1]


def test_two_classes_with_the_option_to_decline_yes():
    plug_in, averaged = expit(3.0), float(averages.sigmoid(3.0, 9.0))
    decisions = [least_cost(np.array([[1 - p, p]]), 1 - np.eye(2), 0.1)[0] for p in (plug_in, averaged)]
    assert decisions == [1, REJECT]


def test_three_classes_at_equal_costs_yes():
    mean, V = np.array([[0.0, -0.3, 0.0]]), np.diag([0.0, 16.0, 0.0])[None]
    plug_in, averaged = np.exp(mean) / np.exp(mean).sum(), averages.softmax(mean, V)
    assert_array_equal(plug_in.round(3), [[0.365, 0.270, 0.365]])
    assert np.abs(averaged - [[0.295, 0.410, 0.295]]).max() < 6e-4  # stored to three digits; the library's is 1e-4
    assert least_cost(plug_in, 1 - np.eye(3)) == [0]
    assert least_cost(averaged, 1 - np.eye(3)) == [1]


def test_a_reject_label_that_is_a_class_is_refused():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "yes", "no", "yes"]
    model = credibly.BayesianLogisticRegression(prior=credibly.Normal()).fit(X, y)
    with pytest.raises(InputError, match="is a class"):
        model.decide(X, [[0, 1], [1, 0]], reject_cost=0.1, reject_label="no")
