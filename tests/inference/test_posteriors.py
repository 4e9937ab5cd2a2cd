"""Posteriors of functions in print, and what they refuse to answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from credibly.errors import InputError
from credibly.inference.function_posterior import FunctionPosterior
from credibly.inference.function_target import FunctionTarget
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.inference.latent_softmax import ClassGaussian, ClassPrecision
from credibly.inference.one_vs_rest import OneVsRestGaussian, OneVsRestLatents
from credibly.kernels import RBF, Constant
from credibly.model.likelihoods import threshold_likelihood
from credibly.predictive import OneVsRestPredictive

PROBIT = threshold_likelihood("probit")
X = np.array([[-1.0], [0.0], [0.5], [2.0]])
Y = np.array([0, 1, 2, 1])
KERNEL = 2.0 * RBF(0.8)


def against_the_rest(code: int):
    return laplace_latents(Latents(KERNEL(X), (Y == code).astype(float), PROBIT))


def test_posteriors_of_functions_in_print():
    one = against_the_rest(1).posterior
    assert repr(one).startswith("LatentGaussian(n=4, log|I + KW|=")
    assert repr(OneVsRestGaussian((one, one, one))) == "OneVsRestGaussian(n=4, C=3)"
    precision = ClassPrecision.of((KERNEL(X),) * 3, np.full((4, 3), 1 / 3))
    assert repr(ClassGaussian(np.zeros((4, 3)), precision)).startswith("ClassGaussian(n=4, C=3, log|I + KW|=")
    whole = FunctionPosterior(np.zeros(4), X, (KERNEL,), one)
    assert repr(whole) == f"FunctionPosterior({one!r}, k = {KERNEL!r})"


def test_a_variance_that_rounding_has_eaten_is_refused():
    """k(x, x) = 1e20 and one row that leaves a variance of one: 1e20 - 1e20."""
    kernel, at = Constant(1e20, variance_bounds="fixed"), np.zeros((1, 1))
    q = LatentGaussian(np.zeros(1), Precision.of(kernel(at), np.ones(1)))
    with pytest.raises(InputError, match=r"posterior variance is lost in rounding \(k\(x, x\) is up to 1\.0e\+20\)"):
        FunctionPosterior(np.zeros(1), at, (kernel,), q).scores(at)
    small = Constant(4.0)
    q = LatentGaussian(np.zeros(1), Precision.of(small(at), np.ones(1)))
    assert_allclose(FunctionPosterior(np.zeros(1), at, (small,), q).scores(at).variance, 0.8)  # 1/(¼ + 1)


def test_the_density_of_a_function_is_that_of_its_latents_and_of_white_coordinates():
    found = against_the_rest(1)
    target = FunctionTarget((KERNEL,), X, (Y == 1).astype(float), PROBIT, found.posterior)
    u = target.q.mean
    log_likelihood = PROBIT.log_prob((Y == 1).astype(float), found.mean).sum()
    assert_allclose(target.log_joints(u[None]), [log_likelihood + norm.logpdf(u).sum()], rtol=1e-9)


def test_each_class_against_the_rest_is_side_by_side_with_the_others():
    parts = tuple(against_the_rest(code) for code in range(3))
    mean, variance = OneVsRestLatents(parts, Y, shared=True).marginals()
    for c, part in enumerate(parts):
        assert_allclose(mean[:, c], part.marginals().mean)
        assert_allclose(variance[:, c, c], part.marginals().variance)
    assert_allclose(variance[:, 0, 1], 0.0)


def test_probabilities_at_the_mean_scores_are_normalised():
    scores = Scores(np.array([[0.5, -1.0, 0.2]]), np.full((1, 3, 3), 7.0))  # whatever the variances
    each = np.exp(PROBIT.log_prob(1.0, scores.mean))
    assert_allclose(np.exp(OneVsRestPredictive(PROBIT).plug_in(scores)), each / each.sum(), rtol=1e-13)
