"""Label noise: derivatives, the joint posterior of weights and flip probabilities, and identities between models."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference import label_noise
from credibly.inference.evidence import ScaledPriors, evidence_gradient
from credibly.inference.label_noise import FlipBelief, JointObjective, noise_modes
from credibly.inference.laplace import laplace
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.linalg import PSD

STEP = np.finfo(float).eps ** (1 / 3)
BELIEF = FlipBelief(np.array([0, 0]), np.zeros(2), (1.0, 9.0))
EACH = FlipBelief(np.array([0, 1]), np.zeros(2), (1.0, 9.0))
ONE_FIXED = FlipBelief(np.array([-1, 0]), np.array([0.05, 0.0]), (2.0, 5.0))


def rows_of(n=80, K=2, flipped=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    true = (X @ (2 * rng.normal(size=(3, K))) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y = np.where(rng.random(n) < flipped, (true + 1) % K, true)
    return MemoryRows(X, y.astype(float) if K == 2 else y, rng.integers(1, 3, size=n).astype(float))


def isotropic(size, precision=0.5):
    return Gaussian(np.zeros(size), PSD.diagonal(np.full(size, precision)))


def binary(belief, base=None):
    likelihood = LabelNoise(base or BernoulliLogit(), 0.1, 0.1)
    return JointObjective(Objective(likelihood, rows_of(), isotropic(3), np.eye(1)), belief)


def softmax():
    objective = Objective(NoisyCategorical(3, 0.1), rows_of(K=3), isotropic(9), np.eye(3))
    return JointObjective(objective, FlipBelief(np.array([0]), np.zeros(1), (1.0, 9.0)))


JOINTS = pytest.mark.parametrize(
    "joint",
    [binary(BELIEF), binary(EACH), binary(ONE_FIXED), binary(BELIEF, BernoulliProbit()), softmax()],
    ids=["symmetric", "each", "one fixed", "probit", "softmax"],
)


@JOINTS
def test_the_joint_gradient_and_hessian_match_differences(joint):
    rng = np.random.default_rng(1)
    size = joint.objective.prior.mean.size + joint.belief.n_free
    point = np.concatenate([rng.normal(size=size - joint.belief.n_free) / 2, np.full(joint.belief.n_free, -1.5)])
    here = joint.expand(point)
    up, down = ([joint.expand(point + h * e) for e in np.eye(size)] for h in (STEP, -STEP))
    rise = np.array([(a.value - b.value) / (2 * STEP) for a, b in zip(up, down, strict=True)])
    bend = np.array([(a.grad - b.grad) / (2 * STEP) for a, b in zip(up, down, strict=True)])
    assert_allclose(here.grad, rise, atol=1e-8 * abs(here.value))  # eps |value| / h
    if not here.replaced:
        assert_allclose(here.hessian.matrix, bend, atol=1e-8 * np.abs(bend).max())


@JOINTS
def test_at_a_mode_the_gradient_is_zero_and_the_curvature_positive(joint):
    best = noise_modes(joint, joint.objective.prior.mean)[0]
    assert best.result.solution.status.good
    local = joint.expand(best.result.solution.x)
    assert not local.replaced
    assert local.grad @ local.hessian.solve(local.grad) < 1e-18


def test_the_density_of_the_logit_is_that_of_the_beta_with_its_jacobian():
    theta = np.array([-1.3])
    u = 1 / (1 + np.exp(1.3))
    assert_allclose(BELIEF.log_density(theta), beta.logpdf(u, 1, 9) + np.log(u * (1 - u)), rtol=1e-13)


def test_the_weights_are_left_with_their_part_of_the_joint_covariance():
    joint = binary(EACH)
    best = noise_modes(joint, np.zeros(3))[0]
    local = joint.expand(best.result.solution.x)
    whole = np.linalg.solve(local.hessian.matrix, np.eye(5))
    root = best.result.posterior.precision.inverse_root
    assert_allclose(root.T @ root, whole[:3, :3], rtol=1e-10)
    jacobian = EACH.slope(best.result.solution.x[3:])
    assert_allclose(best.flips_std, np.sqrt(np.diag(jacobian @ whole[3:, 3:] @ jacobian.T)), rtol=1e-10)
    dimensions = 5
    laplace_formula = best.log_joint + dimensions / 2 * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(whole)[1]
    assert_allclose(best.log_evidence, laplace_formula, rtol=1e-12)


def test_two_softmax_classes_with_noise_are_the_logit_with_noise():
    """Precision λ on each class's weights is λ/2 on their difference; the sum is integrated out with mass one."""
    rows = rows_of()
    as_codes = replace(rows, y=rows.y.astype(int))
    belief = FlipBelief(np.array([0]), np.zeros(1), (1.0, 9.0))
    twice = JointObjective(Objective(NoisyCategorical(2, 0.1), as_codes, isotropic(6, 1.0), np.eye(2)), belief)
    once = JointObjective(Objective(LabelNoise(BernoulliLogit(), 0.1, 0.1), rows, isotropic(3, 0.5), np.eye(1)), BELIEF)
    a, b = noise_modes(twice, np.zeros(6))[0], noise_modes(once, np.zeros(3))[0]
    assert_allclose(a.flips[0], b.flips[0], rtol=1e-9)
    assert_allclose(a.log_evidence, b.log_evidence, rtol=1e-11)
    assert_allclose(np.diff(a.result.posterior.mean.reshape(2, 3), axis=0)[0], b.result.posterior.mean, rtol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_the_evidence_gradient_with_noise_matches_differences(K):
    likelihood = LabelNoise(BernoulliLogit(), 0.08, 0.15) if K == 2 else NoisyCategorical(3, 0.12)
    outputs = 1 if K == 2 else 3
    priors = ScaledPriors(np.arange(2), np.array([0.0, 0.0, 1.0]), outputs)
    objective = Objective(likelihood, rows_of(K=K), None, np.eye(outputs))

    def evidence(theta):
        prior = priors.prior(theta)
        return laplace(replace(objective, prior=prior), prior.mean)

    theta = np.array([0.3, -0.2])
    exact = evidence_gradient(objective, priors, theta, evidence(theta).posterior)
    h = 1e-4  # evidence known to 1e-13 relative: rounding 1e-9, truncation 1e-8
    differences = [
        (evidence(theta + h * e).log_evidence - evidence(theta - h * e).log_evidence) / (2 * h) for e in np.eye(2)
    ]
    assert_allclose(exact, differences, rtol=1e-6)


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


def test_searches_that_fail_are_passed_over_where_others_do_not(monkeypatch):
    joint = binary(BELIEF)
    modes, search = noise_modes(joint, np.zeros(3)), label_noise._search

    def failing(joint, start, guess, controls):
        if guess in fails:
            raise NotPositiveDefinite("runs away")
        return search(joint, start, guess, controls)

    monkeypatch.setattr(label_noise, "_search", failing)
    fails = label_noise.FIRST_GUESSES[:1]
    assert_allclose(noise_modes(joint, np.zeros(3))[0].flips, modes[0].flips, rtol=1e-7)
    fails = label_noise.FIRST_GUESSES
    with pytest.raises(NotPositiveDefinite, match="runs away"):
        noise_modes(joint, np.zeros(3))
