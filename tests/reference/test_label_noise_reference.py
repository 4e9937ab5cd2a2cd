"""Label noise, Student-t and Jeffreys priors against ../shared/reference; tolerances as its README asks for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly import BayesianLogisticRegression, BayesianProbitRegression, Jeffreys, Status, StudentT
from helpers import SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

MODELS = {"logit": BayesianLogisticRegression, "probit": BayesianProbitRegression}


def over(name):
    cases = load_refload().load(name)["cases"] if SHARED_IS_HERE else {}
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


def intercept_first(w):
    return np.append(w[-1], w[:-1])


def noisy(case, label_noise):
    model = MODELS[case["link"]](prior=None, label_noise=label_noise)
    return model.fit(np.array(case["X"]), np.array(case["y"]))


KINDS = pytest.mark.parametrize(
    ("kind", "label_noise", "n_flips"),
    [("plain", 0.0, 0), ("symmetric", "estimate", 1), ("asymmetric", ("estimate", "estimate"), 2)],
)


@over("label_noise")
@KINDS
def test_maximum_likelihood_with_label_noise(case, kind, label_noise, n_flips):
    model, stored = noisy(case, label_noise), case[kind]
    assert_allclose(model.log_likelihood_, stored["loglik"], rtol=1e-8)
    assert_allclose(intercept_first(model.posterior_.mean), stored["parameters"][n_flips:], rtol=1e-5)
    flips = np.atleast_1d(model.label_noise_)[:n_flips]
    assert_allclose(flips, stored["parameters"][:n_flips], rtol=1e-5, atol=1e-9)
    errors = np.array(stored["se_observed_information"], dtype=float)
    assert_allclose(np.atleast_1d(model.label_noise_std_)[:n_flips], errors[:n_flips], rtol=1e-5)
    if not np.isnan(errors).any():
        assert_allclose(intercept_first(model.posterior_.std), errors[n_flips:], rtol=1e-5)
    elif n_flips:
        assert model.status_ is Status.NO_LABEL_NOISE


@over("label_noise")
def test_flip_probabilities_of_single_rows(case):
    model, stored = noisy(case, "estimate"), case["symmetric"]
    X, y = np.array(case["X"])[:20], np.array(case["y"])[:20]
    if "flip_probability_first_20_rows" in stored:
        assert_allclose(model.flip_probability(X, y), stored["flip_probability_first_20_rows"], rtol=1e-4, atol=1e-9)


@over("label_noise")
def test_a_known_flip_probability(case):
    truth = case["truth"]
    model, stored = noisy(case, (truth["eps0"], truth["eps1"])), case["fixed_eps_at_truth"]
    assert_allclose(model.log_likelihood_, stored["loglik"], rtol=1e-8)
    assert_allclose(intercept_first(model.posterior_.mean), stored["parameters"], rtol=1e-5)


@over("bayes_student_prior")
@pytest.mark.parametrize("df", ["1", "4", "7"])
def test_student_priors(case, df, refload):
    X, y, weight = refload.design(case["design"])
    stored = case["df"][df]
    model = BayesianLogisticRegression(
        prior=StudentT(df=float(df), scale=2.5, intercept_scale=10.0), inference="laplace"
    )
    model.fit(X[:, 1:], y, sample_weight=weight)
    order = np.r_[X.shape[1] - 1, : X.shape[1] - 1]
    assert_allclose(intercept_first(model.posterior_.mean), stored["MAP"], rtol=1e-8)
    assert_allclose(model.posterior_.cov[np.ix_(order, order)], stored["laplace_cov"], rtol=1e-8, atol=1e-12)
    assert_allclose(model.log_evidence_, stored["laplace_log_evidence"], rtol=1e-10)
    assert_allclose(model.log_likelihood_, stored["loglik_at_MAP"], rtol=1e-10)


def firth_cases():
    if not SHARED_IS_HERE:
        return {}
    load = load_refload().load
    separated = {name: (case, case["firth_jeffreys"]) for name, case in load("separation")["cases"].items()}
    overlapping = {
        name: (case, case["links"]["logit"]["firth_jeffreys"])
        for name, case in load("glm_binary")["cases"].items()
        if "firth_jeffreys" in case["links"]["logit"]
    }
    return separated | overlapping


@pytest.mark.parametrize(("case", "stored"), firth_cases().values(), ids=firth_cases().keys())
@pytest.mark.parametrize("multi_class", ["auto", "softmax"])
def test_firth_estimates(case, stored, multi_class, refload):
    X, y, weight = refload.design(case["design"])
    model = BayesianLogisticRegression(prior=Jeffreys(), multi_class=multi_class)
    model.fit(X[:, 1:], y, sample_weight=weight)
    W = np.append(model.intercept_[-1], model.coef_[-1])
    if multi_class == "softmax":
        W = W - np.append(model.intercept_[0], model.coef_[0])
    assert_allclose(W, stored["coef"], rtol=1e-7)
    assert_allclose(model.log_likelihood_, stored["loglik_bernoulli"], rtol=1e-9)
    if multi_class == "auto":
        assert_allclose(intercept_first(model.posterior_.std), stored["se_expected_information"], rtol=1e-7)
