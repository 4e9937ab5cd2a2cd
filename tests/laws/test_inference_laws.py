"""Laws between the ways of inference of a linear model: where they must agree, and which must be above which."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris

from credibly import BayesianGLM, BayesianLogisticRegression, NoisyThresholdClassifier, Normal, StudentT
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.fit import Problem, fit_linear
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.spec import LinearSpec
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit, Categorical, Likelihood
from credibly.model.likelihoods.families import Gaussian as GaussianFamily
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.model.likelihoods.links import Identity
from credibly.numerics.linalg import PSD
from credibly.numerics.status import silent
from inference_rows import data

CANCER_X, CANCER_Y = load_breast_cancer(return_X_y=True)
CANCER_X = ((CANCER_X - CANCER_X.mean(axis=0)) / CANCER_X.std(axis=0))[:60, [0, 1, 4]]
CANCER_Y = CANCER_Y[:60]
IRIS_X, IRIS_Y = load_iris(return_X_y=True)
LINE = np.linspace(-2, 2, 20)[:, None]
WAYS = ("laplace", "ep", "variational", "adf", "exact")
WAY = pytest.mark.parametrize("inference", WAYS)


def fit(likelihood, X, y, prior, inference, weight=None, **choices):
    y = np.asarray(y, dtype=float) if isinstance(likelihood, Likelihood) else np.asarray(y)
    return fit_linear(data(X, y, weight), LinearSpec(likelihood, prior, inference=inference, **choices))


def slack(model) -> float:
    """Five standard errors of an evidence that is estimated, else rounding."""
    return max(5 * model.log_evidence_se, 1e-9)


# --- where all agree ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior", [Normal(scale=2.0), Normal(mean=np.array([1.0, -1, 0]), cov=np.eye(3) + 0.5)], ids=repr
)
def test_of_gaussian_targets_all_are_the_posterior(prior):
    y = CANCER_X @ [1.0, -0.5, 0.2] + np.sin(np.arange(60.0))
    likelihood = FamilyLikelihood(GaussianFamily(), Identity(), 0.4)
    laplace, bound, exact, auto = (
        fit(likelihood, CANCER_X, y, prior, how) for how in ("laplace", "variational", "exact", "auto")
    )
    assert auto.rung == "laplace"
    assert_allclose(bound.log_evidence, laplace.log_evidence, rtol=1e-12)
    assert_allclose(bound.posterior.mean, laplace.posterior.mean, rtol=1e-8)
    assert_allclose(bound.posterior.cov, laplace.posterior.cov, rtol=1e-8, atol=1e-12)
    assert abs(exact.log_evidence - laplace.log_evidence) < slack(exact)
    error = 5 * laplace.posterior.std / np.sqrt(exact.posterior.chains.ess_bulk.min())
    assert (np.abs(exact.posterior.mean - laplace.posterior.mean) < error).all()


def test_they_come_together_as_rows_do():
    """The same rows ever more often: differences of evidences and of means, in deviations, fade."""
    evidences, means = [], []
    for weight in (4.0, 32.0, 256.0):
        fits = [
            fit(BernoulliLogit(), CANCER_X, CANCER_Y, Normal(scale=2.0), how, np.full(60, weight))
            for how in ("laplace", "ep", "variational")
        ]
        laplace, ep, bound = fits
        evidences.append([abs(it.log_evidence - ep.log_evidence) for it in (laplace, bound)])
        shift = [
            np.abs(it.posterior.mean - ep.posterior.mean).max() / ep.posterior.std.max() for it in (laplace, bound)
        ]
        means.append(shift)
    evidences, means = np.array(evidences), np.array(means)
    assert (evidences[-1] < evidences[0] / 16).all()  # of order 1/n; on the way Laplace's error changes its sign
    assert (means[1:, 0] < 0.6 * means[:-1, 0]).all()  # of order 1/√n: the mode is not the mean
    assert (means[1:, 1] < 0.4 * means[:-1, 1]).all()  # of order 1/n^(3/2)
    assert evidences[-1].max() < 0.02 and means[-1].max() < 0.1


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "exact"])
def test_no_label_noise_is_the_limit_of_little(inference):
    noisy = fit(LabelNoise(BernoulliLogit(), 1e-9, 1e-9), CANCER_X, CANCER_Y, Normal(scale=1.0), inference)
    clean = fit(BernoulliLogit(), CANCER_X, CANCER_Y, Normal(scale=1.0), inference)
    error = slack(clean) + slack(noisy) + 1e-5
    assert abs(noisy.log_evidence - clean.log_evidence) < error
    assert_allclose(noisy.posterior.mean, clean.posterior.mean, atol=1e-4 if inference != "exact" else 0.2)


@pytest.mark.parametrize("inference", ["laplace", "variational"])
@pytest.mark.parametrize("multi_class", ["auto", "softmax"])
def test_a_student_prior_of_many_degrees_is_a_normal_one(inference, multi_class):
    options = {"inference": inference, "multi_class": multi_class}
    student, normal = (
        BayesianLogisticRegression(prior=prior, **options).fit(CANCER_X, CANCER_Y)
        for prior in (StudentT(df=1e7, scale=1.5, intercept_scale=4.0), Normal(scale=1.5, intercept_scale=4.0))
    )
    assert_allclose(student.log_evidence_, normal.log_evidence_, rtol=1e-5)
    assert_allclose(student.coef_, normal.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("inference", ["laplace", "variational", "exact"])
def test_the_softmax_of_two_classes_is_the_logit_of_their_difference(inference):
    root = np.sqrt(2.0)
    softmax = fit(Categorical(2), CANCER_X, CANCER_Y, Normal(scale=1.0, intercept_scale=2.0), inference)
    logit = fit(BernoulliLogit(), CANCER_X, CANCER_Y, Normal(scale=root, intercept_scale=2 * root), inference)
    assert abs(softmax.log_evidence - logit.log_evidence) < slack(softmax) + slack(logit) + 1e-7
    difference = softmax.weights[1] - softmax.weights[0]
    assert_allclose(difference, logit.weights[0], atol=1e-6 if inference != "exact" else 0.1)


# --- names of classes -----------------------------------------------------------------------------------------


@WAY
@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit(), BernoulliCauchit()], ids=repr)
def test_the_other_class_has_the_other_sign(likelihood, inference):
    one, other = (fit(likelihood, CANCER_X, y, Normal(scale=1.0), inference) for y in (CANCER_Y, 1 - CANCER_Y))
    assert abs(one.log_evidence - other.log_evidence) < slack(one) + slack(other)
    assert_allclose(other.posterior.mean, -one.posterior.mean, rtol=1e-5, atol=1e-6 if inference != "exact" else 0.15)


@pytest.mark.parametrize("inference", ["laplace", "variational"])
@pytest.mark.parametrize("prior", [Normal(scale=1.0), "empirical", StudentT()], ids=repr)
def test_classes_in_another_order_have_their_weights_in_that_order(inference, prior):
    order = np.array([2, 0, 1])
    one, other = (
        BayesianLogisticRegression(prior=prior, inference=inference).fit(IRIS_X, y) for y in (IRIS_Y, order[IRIS_Y])
    )
    assert_allclose(other.log_evidence_, one.log_evidence_, atol=1e-4 if prior == "empirical" else 2e-5)
    assert_allclose(other.coef_[order], one.coef_, rtol=5e-3 if prior == "empirical" else 1e-4, atol=1e-3)


# --- one above the other --------------------------------------------------------------------------------------

MODELS = {
    "logit": (BernoulliLogit(), CANCER_X, CANCER_Y, Normal(scale=2.0)),
    "probit, separated": (BernoulliProbit(), LINE, LINE[:, 0] > 0, Normal(scale=10.0)),
    "Cauchy threshold": (BernoulliCauchit(), CANCER_X, CANCER_Y, Normal(scale=2.0)),
    "label noise": (LabelNoise(BernoulliLogit(), 0.1, 0.1), LINE, np.sin(2 * LINE[:, 0]) > 0, Normal(scale=1.0)),
    "Student-t prior": (BernoulliLogit(), LINE, LINE[:, 0] > 0, StudentT(df=3, scale=2.5)),
    "three classes": (Categorical(3), LINE, np.digitize(LINE[:, 0], [-0.7, 0.6]), Normal(scale=5.0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_variational_bound_is_below_the_evidence(name):
    bound, exact = (fit(*MODELS[name], how) for how in ("variational", "exact"))
    assert exact.status.good
    assert bound.log_evidence < exact.log_evidence + slack(exact)


def bound_of(objective: Objective, q: Gaussian) -> float:
    """E_q[log p(y, x)] + H[q]."""
    entropy = 0.5 * (q.mean.size * (1 + np.log(2 * np.pi)) - q.precision.logdet)
    return objective.averages(q).log_likelihood - objective.expected_prior(q).value + entropy


@pytest.mark.parametrize("name", MODELS)
def test_no_other_gaussian_has_a_higher_bound(name):
    """Laplace's, that of EP, that of the draws' moments, and the variational one pushed in any direction."""
    likelihood, X, y, prior = MODELS[name]
    y = np.asarray(y, dtype=float) if isinstance(likelihood, Likelihood) else np.asarray(y)
    problem = Problem.of(data(X, y), LinearSpec(likelihood, prior, inference="variational"), silent)
    objective = problem.at(problem.choices.start)
    best = fit(likelihood, X, y, prior, "variational")
    top = bound_of(objective, best.posterior.free)
    assert_allclose(top, best.log_evidence, rtol=1e-9)
    others = ["laplace", "exact"]
    if isinstance(likelihood, Likelihood) and isinstance(prior, Normal):
        others += ["ep", "adf"]
    rivals = [fit(likelihood, X, y, prior, how).posterior.free for how in others]
    q, rng = best.posterior.free, np.random.default_rng(0)
    for _ in range(10):
        push = 0.1 * rng.standard_normal((q.mean.size, q.mean.size))
        root = q.root.T @ (np.eye(q.mean.size) + push)
        rivals.append(Gaussian.from_covariance_root(q.mean + 0.1 * q.root.T @ rng.standard_normal(q.mean.size), root))
    assert all(bound_of(objective, it) < top for it in rivals)


def test_the_second_order_of_the_bound_is_the_fisher_metric_where_the_likelihood_is_gaussian():
    """Off its maximum by KL(q‖q*), exactly."""
    y = CANCER_X @ [1.0, -0.5, 0.2]
    likelihood = FamilyLikelihood(GaussianFamily(), Identity(), 0.4)
    problem = Problem.of(data(CANCER_X, y), LinearSpec(likelihood, Normal(scale=1.0)), silent)
    objective = problem.at(problem.choices.start)
    best = fit(likelihood, CANCER_X, y, Normal(scale=1.0), "variational")
    p = best.posterior.free
    q = Gaussian(p.mean + 0.1, PSD.of(1.3 * p.precision.matrix, "a narrower one"))
    shift = q.mean - p.mean
    trace = p.mean.size / 1.3
    kl = 0.5 * (trace - p.mean.size + shift @ p.precision.matrix @ shift + p.mean.size * np.log(1.3))
    assert_allclose(best.log_evidence - bound_of(objective, q), kl, rtol=1e-9)


# --- filters and updates --------------------------------------------------------------------------------------


def test_one_row_is_filtered_as_it_is_by_expectation_propagation():
    adf, ep = (fit(BernoulliCauchit(), CANCER_X[:1], [1], Normal(scale=2.0), how) for how in ("adf", "ep"))
    assert_allclose(adf.log_evidence, ep.log_evidence, rtol=1e-9)
    assert_allclose(adf.posterior.mean, ep.posterior.mean, rtol=1e-6, atol=1e-9)
    assert_allclose(adf.posterior.cov, ep.posterior.cov, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("inference", ["laplace", "variational", "auto"])
def test_two_batches_of_gaussian_targets_are_one(inference):
    y = CANCER_X @ [1.0, -0.5, 0.2] + np.cos(np.arange(60.0))
    make = partial(BayesianGLM, "gaussian", dispersion=0.5, prior=Normal(scale=1.0), inference=inference)
    parts = make().partial_fit(CANCER_X[:25], y[:25]).partial_fit(CANCER_X[25:], y[25:])
    whole = make().fit(CANCER_X, y)
    assert_allclose(parts.log_evidence_, whole.log_evidence_, rtol=1e-10)
    assert_allclose(parts.posterior_.mean, whole.posterior_.mean, rtol=1e-7)
    assert_allclose(parts.posterior_.cov, whole.posterior_.cov, rtol=1e-7, atol=1e-12)


# --- predictions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", ["logistic", "normal", "cauchy"])
def test_averaged_probabilities_of_all_ways_are_near_those_of_draws(threshold):
    """Means of the scores and their spreads are what averages need: a Gaussian is good enough for a hundredth."""
    exact, ep, bound = (
        NoisyThresholdClassifier(threshold=threshold, prior=Normal(scale=2.0), inference=how)
        .fit(CANCER_X, CANCER_Y)
        .predict_proba(CANCER_X)[:, 1]
        for how in ("exact", "ep", "variational")
    )
    assert np.abs(ep - exact).max() < 0.01
    assert np.abs(bound - exact).max() < 0.02
