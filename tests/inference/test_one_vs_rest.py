"""Each class against the rest: K binary results side by side, nothing between them but a normalisation at the end."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly import GaussianProcessClassifier
from credibly.errors import NoEvidenceError
from credibly.inference.ep import assumed_density_filtering, expectation_propagation
from credibly.inference.kernel_evidence import KernelEvidence
from credibly.inference.latent_laplace import Latents
from credibly.inference.one_vs_rest import one_vs_rest
from credibly.kernels import RBF, Constant, Matern
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.numerics.status import TO_ROUNDING, Status

PROBIT = BernoulliProbit()
SHARED = (Constant(3.0) * RBF((0.9, 1.6)),)
OWN = (Constant(3.0) * RBF((0.9, 1.6)), Matern(1.2, 2.5), Constant(1.0) * RBF(2.0))


def toy(n: int = 18):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(n, 3))).argmax(axis=1)


def infer_by(infer, controls=TO_ROUNDING):
    return lambda problem, start: infer(problem, start, controls)


def inferred(kernels, infer=expectation_propagation):
    X, y = toy()
    matrices = tuple(kernel(X) for kernel in kernels)
    return X, y, matrices, one_vs_rest(infer_by(infer), matrices, y, PROBIT)


both = pytest.mark.parametrize("kernels", [SHARED, OWN], ids=["shared", "own"])


@both
@pytest.mark.parametrize("infer", [expectation_propagation, assumed_density_filtering])
def test_the_parts_are_the_binary_results(kernels, infer):
    _, y, matrices, result = inferred(kernels, infer)
    alone = [infer(Latents(matrices[c % len(matrices)], (y == c).astype(float), PROBIT)) for c in range(3)]
    assert result.shared == (len(kernels) == 1)
    assert_allclose(result.log_evidence, sum(part.log_evidence for part in alone), rtol=1e-13)
    assert_array_equal(result.mean, np.column_stack([part.mean for part in alone]))
    assert result.steps == max(part.steps for part in alone)
    assert_allclose(result.effective_parameters(), sum(part.effective_parameters() for part in alone), rtol=1e-12)


@both
def test_latents_elsewhere_are_independent_between_classes(kernels):
    X, _, _, result = inferred(kernels)
    Z = np.array([[0.0, 0.5], [1.0, 1.0]])
    cross, prior = tuple(k(X, Z) for k in kernels), tuple(k(Z) for k in kernels)
    scores = result.posterior.scores(cross, tuple(np.diag(p) for p in prior))
    joint = result.posterior.joint(cross, prior)
    for c, part in enumerate(result.parts):
        own = part.posterior.joint(cross[c % len(cross)], prior[c % len(prior)])
        assert_allclose(scores.mean[:, c], own.mean, rtol=1e-13)
        assert_allclose(scores.variance[:, c, c], np.diag(own.variance), rtol=1e-12)
        assert_allclose(joint.variance[2 * c : 2 * c + 2, 2 * c : 2 * c + 2], own.variance, rtol=1e-13)
        assert (np.delete(scores.variance[:, c], c, axis=1) == 0).all()
    assert np.count_nonzero(joint.variance) == 3 * 4


@both
def test_the_gradient_of_the_sum_of_evidences(kernels):
    """Central differences of fourth order, h = 1e-2: 3e-10 of a fifth derivative and 1e-10 of an evidence over h."""
    X, y = toy()

    def infer(matrices, _flips, start, controls):
        return one_vs_rest(infer_by(expectation_propagation, controls), matrices, y, PROBIT, start)

    of = KernelEvidence(X, kernels, infer)
    at, h = of.at(of.start, None, TO_ROUNDING), 1e-2
    exact = of.gradient(at, TO_ROUNDING)
    assert exact.shape == of.start.shape
    for slope, e in zip(exact, h * np.eye(len(of.start)), strict=True):
        heights = [of.at(of.start + k * e, at.result.warm, TO_ROUNDING).result.log_evidence for k in (-2, -1, 1, 2)]
        assert_allclose(slope, np.array([1, -8, 8, -1]) @ heights / (12 * h), rtol=1e-7, atol=1e-7)


def test_leave_one_out_is_the_normalised_mass_of_cavities():
    _, y, _, result = inferred(SHARED)
    cavities = [part.cavities() for part in result.parts]
    masses = np.exp(np.column_stack([PROBIT.log_average(np.array(1.0), it.mean, 1 / it.tau) for it in cavities]))
    expected = masses[np.arange(len(y)), y] / masses.sum(axis=1)
    assert_allclose(np.exp(result.leave_one_out()), expected, rtol=1e-12)


def test_a_warm_start_ends_at_the_same_place():
    _, y, matrices, result = inferred(SHARED)
    again = one_vs_rest(infer_by(expectation_propagation), matrices, y, PROBIT, result.warm)
    assert result.warm.shape == (3, 2, 18)
    assert again.steps == 1
    assert_allclose(again.mean, result.mean, rtol=1e-12)


def test_the_status_is_that_of_the_class_that_went_worst():
    X, y = toy()
    K = (Constant(3.0) * RBF(1.0))(X)
    short = partial(expectation_propagation, controls=TO_ROUNDING._replace(max_steps=1))

    def only_class_one_suffers(problem, start):
        return (short if (problem.y == (y == 1)).all() else expectation_propagation)(problem, start)

    assert one_vs_rest(only_class_one_suffers, (K,), y, PROBIT).status is Status.SWEEP_LIMIT
    assert one_vs_rest(infer_by(expectation_propagation), (K,), y, PROBIT).status is Status.CONVERGED


@pytest.mark.parametrize("inference", ["ep", "adf"])
@pytest.mark.parametrize("likelihood", [BernoulliLogit(), PROBIT], ids=repr)
def test_the_classifier_normalises_the_averaged_probabilities_of_its_parts(inference, likelihood):
    X, y = toy()
    Z = np.random.default_rng(1).normal(size=(7, 2))
    options = {"kernel": SHARED[0], "likelihood": likelihood, "inference": inference, "optimize": False}
    model = GaussianProcessClassifier(**options).fit(X, y)
    alone = [GaussianProcessClassifier(**options).fit(X, y == c) for c in range(3)]
    p = np.column_stack([part.predict_proba(Z)[:, 1] for part in alone])
    assert_allclose(model.predict_proba(Z), p / p.sum(axis=1, keepdims=True), rtol=1e-10)
    assert_allclose(model.one_vs_rest_log_evidence_, [part.log_evidence_ for part in alone], rtol=1e-12)
    with pytest.raises(NoEvidenceError, match="one_vs_rest_log_evidence_"):
        _ = model.log_evidence_
    # the gradient is of the sum; ADF's is by differences with steps of 1e-4
    summed = sum(part.log_evidence_gradient_ for part in alone)
    assert_allclose(model.log_evidence_gradient_, summed, rtol=1e-6, atol=1e-7)
