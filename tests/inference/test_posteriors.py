"""Posteriors in print, and what they refuse to answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.errors import InputError
from credibly.inference.drawn_posterior import drawn_posterior
from credibly.inference.frame import Frame
from credibly.inference.function_posterior import FunctionPosterior
from credibly.inference.function_target import FunctionTarget
from credibly.inference.importance import FIRST_PAIRS, Pairs, correct
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.inference.latent_softmax import ClassGaussian, ClassPrecision
from credibly.inference.one_vs_rest import OneVsRestGaussian, OneVsRestLatents
from credibly.inference.posterior import Gaussian, Scores, WeightPosterior
from credibly.kernels import RBF, Constant
from credibly.model.likelihoods import threshold_likelihood
from credibly.numerics.linalg import PSD
from credibly.predictive import OneVsRestPredictive

PROBIT = threshold_likelihood("probit")
X = np.array([[-1.0], [0.0], [0.5], [2.0]])
Y = np.array([0, 1, 2, 1])
KERNEL = 2.0 * RBF(0.8)


def against_the_rest(code: int):
    return laplace_latents(Latents(KERNEL(X), (Y == code).astype(float), PROBIT))


# --- functions ----------------------------------------------------------------------------------------------


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


def test_the_log_likelihood_of_a_function_is_that_of_its_latents():
    found = against_the_rest(1)
    target = FunctionTarget((KERNEL,), X, (Y == 1).astype(float), PROBIT, found.posterior)
    assert_allclose(target.log_likelihood, PROBIT.log_prob((Y == 1).astype(float), found.mean).sum(), rtol=1e-9)


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


# --- weights ------------------------------------------------------------------------------------------------


def gaussian(size: int) -> Gaussian:
    return Gaussian(np.zeros(size), PSD(np.eye(size)))


def test_weights_up_to_a_constant_have_no_density():
    contrast = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    q = WeightPosterior(gaussian(4), Frame(np.zeros(1), np.ones(1), True), contrast)
    with pytest.raises(InputError, match="This posterior has no density: without a prior, softmax weights"):
        q.logpdf(np.zeros(6))


def test_draws_in_print():
    around = WeightPosterior(gaussian(2), Frame(np.zeros(1), np.ones(1), True), np.eye(1))
    drawn = drawn_posterior(around, np.zeros((5, 2)), np.full(5, -np.log(5)))
    assert repr(drawn) == "DrawnPosterior(M=2)"


def test_draws_that_are_all_from_q_are_their_own():
    pairs = Pairs(np.zeros(1), np.ones((3, 1)), np.zeros((2, 3)))
    assert pairs.own is pairs


class Exact:
    """A posterior that q is."""

    q = gaussian(2)

    def log_joints(self, steps):
        return np.stack([self.q.logpdf(steps), self.q.logpdf(-steps)]) - 3.0


def test_the_correction_of_what_is_exact_is_reported_once_and_changes_nothing():
    reports = []
    found = correct(np.random.default_rng(0), Exact(), report=reports.append)
    assert reports == [found]
    assert len(found.pairs.steps) <= FIRST_PAIRS
    assert_allclose(found.log_evidence, -3.0, rtol=1e-14)
    assert found.khat == 0.0
