"""Laws between the rungs of `fit_linear`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_iris

from credibly import Normal
from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.linear.fit import fit_linear, update_linear
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.likelihoods import BernoulliLogit, Categorical

X2, Y2 = (part[:300] for part in load_breast_cancer(return_X_y=True))
X2 = X2[:, :4]
X3, Y3 = load_iris(return_X_y=True)


def data(X, y):
    rows = MemoryRows(np.asarray(X, dtype=float), y)
    return Data(rows, describe(rows), tuple(f"x{j}" for j in range(X.shape[1])), len(y))


TWO, THREE = (data(X2, Y2.astype(float)), BernoulliLogit()), (data(X3, Y3), Categorical(3))


@pytest.mark.parametrize("inference", ["laplace", "variational"])
def test_the_softmax_of_two_classes_is_the_logit_of_their_difference(inference):
    """Two weight vectors of scale s are one difference of scale √2 s."""
    one = Normal(scale=np.sqrt(2.0), intercept_scale=np.sqrt(2.0) * 10)
    logit = fit_linear(TWO[0], LinearSpec(BernoulliLogit(), one, inference=inference))
    softmax = fit_linear(data(X2, Y2), LinearSpec(Categorical(2), Normal(scale=1.0), inference=inference))
    assert_allclose(softmax.log_evidence, logit.log_evidence, rtol=1e-9)
    assert_allclose(softmax.weights[1] - softmax.weights[0], logit.weights[0], rtol=1e-6)


def test_the_posterior_of_three_classes_has_the_density_of_its_moments():
    q = fit_linear(THREE[0], LinearSpec(THREE[1], Normal(scale=1.0), inference="laplace")).posterior
    w = q.mean + 0.1 * q.std
    assert_allclose(q.logpdf(w), multivariate_normal(q.mean, q.cov).logpdf(w), rtol=1e-6)


@pytest.mark.parametrize(("rows", "likelihood"), [TWO, THREE], ids=["two classes", "three classes"])
def test_the_variational_bound_is_below_the_exact_evidence_and_near_it(rows, likelihood):
    prior = Normal(scale=1.0)
    bound = fit_linear(rows, LinearSpec(likelihood, prior, inference="variational"))
    exact = fit_linear(rows, LinearSpec(likelihood, prior, inference="exact"))
    slack = 5 * exact.log_evidence_se + 1e-3  # the rule of three classes errs by less than that over 150 rows
    assert bound.log_evidence <= exact.log_evidence + slack
    assert exact.log_evidence - bound.log_evidence < 1.0  # KL of the best Gaussian, in nats
    shift = np.abs(bound.posterior.free.mean - exact.posterior.free.mean) / np.sqrt(
        (exact.posterior.free.root**2).sum(axis=0)
    )
    assert shift.max() < 0.25


def test_filtering_two_parts_one_after_the_other_is_filtering_them_together():
    first, second = (data(X2[part], Y2[part].astype(float)) for part in (slice(0, 200), slice(200, 300)))
    spec = LinearSpec(BernoulliLogit(), Normal(scale=2.5), inference="adf")
    both, whole = update_linear(fit_linear(first, spec), second), fit_linear(TWO[0], spec)
    assert both.n_rows == whole.n_rows
    assert_allclose(both.log_evidence, whole.log_evidence, rtol=1e-9)
    assert_allclose(both.posterior.mean, whole.posterior.mean, rtol=1e-6)
