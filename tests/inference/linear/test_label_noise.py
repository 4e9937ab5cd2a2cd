"""Label noise: flip probabilities learnt with the weights, and identities between models."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import beta, norm

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.flips import FlipBelief
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.fit import LinearFit, fit_linear, with_flips
from credibly.inference.linear.hyper import mode_slope, scale_slope
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import ScaledPriors
from credibly.inference.linear.spec import Data, LinearSpec
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Beta, Normal

SYMMETRIC = FlipBelief(np.array([0, 0]), np.zeros(2), Beta(1.0, 9.0))
EACH = FlipBelief(np.array([0, 1]), np.zeros(2), Beta(1.0, 9.0))
ONE_FIXED = FlipBelief(np.array([-1, 0]), np.array([0.05, 0.0]), Beta(2.0, 5.0))
OF_CLASSES = FlipBelief(np.array([0]), np.zeros(1), Beta(1.0, 9.0))


def rows_of(n=80, K=2, flipped=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    true = (np.column_stack([X, np.ones(n)]) @ (2 * rng.normal(size=(3, K))) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y = np.where(rng.random(n) < flipped, (true + 1) % K, true)
    return MemoryRows(X, y.astype(float) if K == 2 else y, rng.integers(1, 3, size=n).astype(float))


def data_of(rows: MemoryRows) -> Data:
    return Data(rows, describe(rows), tuple(f"x{j}" for j in range(rows.X.shape[1])), rows.n_rows)


LOGIT, PROBIT = (LabelNoise(base, 0.1, 0.1) for base in (BernoulliLogit(), BernoulliProbit()))
SOFTMAX = NoisyCategorical(3, 0.1)
MODELS = pytest.mark.parametrize(
    ("likelihood", "belief"),
    [(LOGIT, SYMMETRIC), (LOGIT, EACH), (LOGIT, ONE_FIXED), (PROBIT, SYMMETRIC), (SOFTMAX, OF_CLASSES)],
    ids=["symmetric", "each", "one fixed", "probit", "softmax"],
)


GIVEN = Normal(scale=1.5)


def learnt(likelihood, belief, data: Data | None = None, prior=GIVEN, **choices) -> LinearFit:
    data = data_of(rows_of(K=getattr(likelihood, "n_classes", 2))) if data is None else data
    return fit_linear(data, LinearSpec(likelihood, prior, inference="laplace", flips=belief, **choices))


# --- flip probabilities that are learnt -----------------------------------------------------------------------


@MODELS
def test_the_mode_is_where_evidence_and_belief_are_highest(likelihood, belief):
    """By fits with the flip probabilities given; the status, and what is said of the mode, too."""
    data = data_of(rows_of(K=getattr(likelihood, "n_classes", 2)))
    fit = learnt(likelihood, belief, data)
    mode, h = fit.parameters.mode, 1e-2

    def height(theta) -> float:
        given = likelihood.with_flips(np.resize(belief.flips(theta), likelihood.flips.shape))
        spec = LinearSpec(given, GIVEN, inference="laplace")
        return fit_linear(data, spec).log_evidence + belief.log_density(theta)

    for axis in np.eye(len(mode)):
        near = {k: height(mode + k * h * axis) for k in (-2, -1, 1, 2)}
        slope = (near[-2] - near[2] + 8 * (near[1] - near[-1])) / (12 * h)
        assert abs(slope) < 1e-6  # the goal is 1e-7, differences err by 1e-8
        assert near[1] < height(mode) > near[-1]
    assert fit.status.good
    assert_allclose(fit.log_evidence + belief.log_density(mode), height(mode), rtol=1e-10)


def test_flips_and_evidence_are_those_of_the_exact_posterior():
    """One weight, one flip probability: both integrals on a grid.

    Laplace in the weight errs by less than a hundredth, nine nodes over a skewed posterior of the flips by more.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    y = np.where(rng.random(400) < 0.15, x < 0, rng.random(400) < expit(2 * x)).astype(float)
    rows = MemoryRows(x[:, None], y)
    fit = learnt(LOGIT, SYMMETRIC, data_of(rows), Normal(scale=2.0), intercept=False)
    w, theta = np.linspace(0.0, 8.0, 201), np.linspace(-9.0, 2.0, 111)
    eps, p = 0.5 * expit(theta), expit(np.outer(w, x))
    recorded = np.log((1 - 2 * eps)[:, None, None] * np.where(y == 1, p, 1 - p) + eps[:, None, None]).sum(axis=-1)
    belief = beta.logpdf(2 * eps, 1, 9) + np.log(2 * eps * (1 - 2 * eps))
    log_joint = recorded + norm.logpdf(w, 0, 2.0) + belief[:, None]
    density = np.exp(log_joint - log_joint.max())
    log_evidence = np.log(density.sum() * (w[1] - w[0]) * (theta[1] - theta[0])) + log_joint.max()
    share = density / density.sum()
    mean = (share.sum(axis=1) * eps).sum()
    sd = np.sqrt((share.sum(axis=1) * (eps - mean) ** 2).sum())
    weight = (share.sum(axis=0) * w).sum()
    weight_sd = np.sqrt((share.sum(axis=0) * (w - weight) ** 2).sum())
    (best,) = fit.noise_modes
    assert_allclose(best.flips, mean, rtol=0.03)
    assert_allclose(best.flips_sd, sd, rtol=0.08)
    assert_allclose(fit.integrated_log_evidence, log_evidence, atol=0.02)
    assert abs(fit.posterior.mean[0] - weight) < 0.2 * weight_sd  # a mode, of weights that are skewed
    assert_allclose(fit.posterior.std[0], weight_sd, rtol=0.1)


@MODELS
def test_the_weights_have_their_part_of_the_joint_covariance(likelihood, belief):
    fit = learnt(likelihood, belief)
    joint, moments, q = with_flips(fit), fit.parameters, fit.posterior.free
    whole, M = joint.root.T @ joint.root, q.mean.size
    assert_allclose(joint.mean, np.append(q.mean, moments.mode), rtol=1e-14)
    assert_allclose(whole[:M, :M], q.root.T @ q.root, rtol=1e-9, atol=1e-12)
    assert_allclose(whole[M:, M:], moments.covariance, rtol=1e-9)
    assert_allclose(whole[:M, M:], moments.moved @ moments.covariance, rtol=1e-8, atol=1e-10)


@MODELS
def test_the_weights_move_with_the_flips_as_fits_with_other_flips_say(likelihood, belief):
    data = data_of(rows_of(K=getattr(likelihood, "n_classes", 2)))
    fit, h = learnt(likelihood, belief, data), 1e-3

    def weights(theta) -> np.ndarray:
        given = likelihood.with_flips(np.resize(belief.flips(theta), likelihood.flips.shape))
        return fit_linear(data, LinearSpec(given, GIVEN, inference="laplace")).posterior.free.mean

    for axis, moved in zip(np.eye(belief.n_free), fit.parameters.moved.T, strict=True):
        rise = (weights(fit.parameters.mode + h * axis) - weights(fit.parameters.mode - h * axis)) / (2 * h)
        assert_allclose(moved, rise, rtol=1e-5, atol=1e-5)  # h²


def test_two_softmax_classes_with_noise_are_the_logit_with_noise():
    """Scale s on each class's weights is √2 s on their difference; what they share is integrated out with mass one."""
    rows, root2 = rows_of(), np.sqrt(2)
    codes = data_of(replace(rows, y=rows.y.astype(int)))
    twice = learnt(NoisyCategorical(2, 0.1), OF_CLASSES, codes, Normal(scale=1.0, intercept_scale=3.0))
    once = learnt(LOGIT, SYMMETRIC, data_of(rows), Normal(scale=root2, intercept_scale=3 * root2))
    a, b = twice.noise_modes[0], once.noise_modes[0]
    assert_allclose(a.flips[0], b.flips[0], rtol=1e-9)
    assert_allclose(twice.log_evidence, once.log_evidence, rtol=1e-11)
    assert_allclose(a.log_evidence, b.log_evidence, rtol=1e-11)
    assert_allclose(np.diff(twice.weights, axis=0), once.weights, rtol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_the_evidence_slope_with_noise_matches_differences(K):
    likelihood = LabelNoise(BernoulliLogit(), 0.08, 0.15) if K == 2 else NoisyCategorical(3, 0.12)
    rows = rows_of(K=K)
    columns = describe(rows)
    classes = ClassMap.separate(1) if K == 2 else ClassMap.contrasts(3)
    design = Design(Standardization.of(columns, intercept=True, sparse=False), classes, columns)
    priors = ScaledPriors(design, np.arange(2))

    def evidence(theta):
        objective = Objective(rows, design, likelihood, priors.at(theta))
        return objective, laplace(objective, objective.prior.mean)

    theta = np.array([0.3, -0.2])
    objective, found = evidence(theta)
    exact = scale_slope(priors, theta, found.q, mode_slope(objective, found.q))
    h = 1e-4  # evidence known to 1e-13 relative: rounding 1e-9, truncation 1e-8
    differences = [
        (evidence(theta + h * e)[1].log_evidence - evidence(theta - h * e)[1].log_evidence) / (2 * h) for e in np.eye(2)
    ]
    assert_allclose(exact, differences, rtol=1e-6)


# --- beliefs --------------------------------------------------------------------------------------------------


def test_the_density_of_the_logit_is_that_of_the_beta_with_its_jacobian():
    theta = np.array([-1.3])
    u = 1 / (1 + np.exp(1.3))
    assert_allclose(SYMMETRIC.log_density(theta), beta.logpdf(u, 1, 9) + np.log(u * (1 - u)), rtol=1e-13)


# --- labels that are recorded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_probabilities_of_a_flip_are_bayes_rule(y):
    noisy = LabelNoise(BernoulliLogit(), 0.07, 0.2)
    p = 0.3
    log_true = np.log([0.7, 0.3])
    recorded = {1.0: 0.07 * (1 - p) + 0.8 * p, 0.0: 0.93 * (1 - p) + 0.2 * p}[y]
    flipped = {1.0: 0.07 * (1 - p), 0.0: 0.2 * p}[y] / recorded
    assert_allclose(np.exp(noisy.log_recorded(y, *log_true)), recorded, rtol=1e-14)
    assert_allclose(np.exp(noisy.log_flipped(y, *log_true)), flipped, rtol=1e-14)


def test_recorded_softmax_labels_sum_to_one_and_flips_are_bayes_rule():
    p = np.array([[0.5, 0.3, 0.2]])
    noisy = NoisyCategorical(3, 0.2)
    recorded = np.exp(noisy.log_recorded(np.log(p)))
    assert_allclose(recorded, 0.8 * p + 0.1 * (1 - p), rtol=1e-14)
    assert_allclose(recorded.sum(), 1, rtol=1e-14)
    assert_allclose(np.exp(noisy.log_flipped([1], np.log(p))), 0.1 * 0.7 / recorded[0, 1], rtol=1e-13)


def test_information_with_noise_is_the_curvature_expected_over_labels():
    f = np.random.default_rng(0).normal(size=(5, 3))
    noisy = NoisyCategorical(3, 0.15)
    log_q = noisy.log_recorded(np.log(noisy.base.mean(f)))
    expected = sum(
        np.exp(log_q[:, k])[:, None, None] * noisy.curvature(noisy.expand(np.full(5, k), f)) for k in range(3)
    )
    assert_allclose(noisy.information(f), expected, rtol=1e-12, atol=1e-15)
