"""Softmax and label noise for rows of any shape and without noise, and what kind of likelihood is which."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Binomial, Gaussian, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import concave_relative, n_outputs, true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Cauchit, Identity, Log, Logit, Power

K = 3
RNG = np.random.default_rng(2)
F = RNG.normal(size=(2, 4, K))
Y = RNG.integers(K, size=(2, 4))
A = RNG.normal(size=(2, 4, K, K))
V = A @ np.swapaxes(A, -1, -2)


def softmax_answers(f, y, V):
    plain, noisy = Categorical(K), NoisyCategorical(K, 0.2)
    at, seen = plain.expand(y, f), noisy.expand(y, f)
    log_proba = np.log(plain.mean(f))
    return [
        plain.log_prob(y, f),
        plain.mean(f),
        *at,
        plain.curvature(at.proba),
        plain.curvature_slope(at.proba, V),
        *seen,
        noisy.curvature(seen),
        noisy.curvature_slope(seen, V),
        noisy.information(f),
        noisy.log_recorded(log_proba),
        noisy.log_flipped(y, log_proba),
        *noisy.flip_slopes(y, f),
    ]


def test_softmax_with_and_without_noise_works_on_rows_of_any_shape():
    whole = softmax_answers(F, Y, V)
    for i in range(2):
        for j in range(4):
            one = softmax_answers(F[i, j], Y[i, j], V[i, j])
            assert len(one) == len(whole)
            for together, alone in zip(whole, one, strict=True):
                assert_allclose(together[i, j], alone, rtol=1e-13, atol=1e-15)


def test_labels_with_noise_work_on_rows_of_any_shape():
    noisy, f, y = LabelNoise(BernoulliLogit(), 0.1, 0.2), F[..., 0], (Y > 0).astype(float)
    v = np.abs(F[..., 1])

    def answers(y, f, v):
        return [*noisy.expand(y, f), noisy.third(y, f), *noisy.tilted(y, f, v), *noisy.flip_slopes(y, f)]

    whole = answers(y, f, v)
    for i in range(2):
        for j in range(4):
            for together, alone in zip(whole, answers(y[i, j], f[i, j], v[i, j]), strict=True):
                assert_allclose(together[i, j], alone, rtol=1e-13, atol=1e-15)


def test_a_flip_probability_of_zero_is_no_noise_and_no_warning():
    plain, noisy = Categorical(K), NoisyCategorical(K, 0.0)
    log_proba = np.log(plain.mean(F))
    assert_allclose(noisy.log_recorded(log_proba), log_proba, rtol=1e-14)
    assert_array_equal(noisy.log_flipped(Y, log_proba), np.full(Y.shape, -np.inf))
    assert_allclose(noisy.curvature(noisy.expand(Y, F)), plain.curvature(plain.mean(F)), rtol=1e-12, atol=1e-15)
    two, f = LabelNoise(BernoulliProbit(), 0.0, 0.0), F[..., 0]
    for y in (np.array(0.0), np.array(1.0)):
        for got, want in zip(two.expand(y, f), BernoulliProbit().expand(y, f), strict=True):
            assert_allclose(got, want, rtol=1e-13)
        assert_array_equal(two.log_flipped(y, np.log(0.4), np.log(0.6)), -np.inf)


def test_other_flips_keep_the_rest():
    noisy = LabelNoise(BernoulliProbit(), 0.1, 0.2).with_flips(np.array([0.3, 0.4]))
    assert noisy == LabelNoise(noisy.base, 0.3, 0.4)
    assert isinstance(noisy.base, BernoulliProbit)
    assert_array_equal(noisy.flips, [0.3, 0.4])
    assert NoisyCategorical(4, 0.1).with_flips(np.array([0.3])) == NoisyCategorical(4, 0.3)


STEP = 1e-5  # central differences: truncation h² and rounding 1e-16/h meet at 1e-10


@pytest.mark.parametrize("K", [2, 4])
def test_the_slopes_of_softmax_labels_in_the_flip_probability_are_its_differences(K):
    f, y, flip = np.random.default_rng(3).normal(size=(5, K)), np.arange(5) % K, 0.17

    def at(flip, f):
        return NoisyCategorical(K, flip).expand(y, f)

    slopes = NoisyCategorical(K, flip).flip_slopes(y, f)
    grad = (at(flip + STEP, f).log_prob - at(flip - STEP, f).log_prob) / (2 * STEP)
    assert_allclose(slopes.grad[:, 0], grad, rtol=1e-8)
    cross = (at(flip + STEP, f).grad - at(flip - STEP, f).grad) / (2 * STEP)
    assert_allclose(slopes.cross[:, 0], cross, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("base", [BernoulliLogit(), BernoulliProbit(), BernoulliCauchit()], ids=repr)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_slopes_of_noisy_labels_are_differences_for_every_threshold(base, y):
    noisy, f, label = LabelNoise(base, 0.1, 0.2), np.linspace(-3, 3, 13), np.array(y)
    third = -(noisy.slopes(label, f + STEP).curvature - noisy.slopes(label, f - STEP).curvature) / (2 * STEP)
    assert_allclose(noisy.third(label, f), third, rtol=1e-7, atol=1e-9)
    slopes = noisy.flip_slopes(label, f)
    for k, step in enumerate(STEP * np.eye(2)):
        up, down = (noisy.with_flips(noisy.flips + side * step) for side in (1, -1))
        grad = (up.log_prob(label, f) - down.log_prob(label, f)) / (2 * STEP)
        assert_allclose(slopes.grad[:, k], grad, rtol=1e-7, atol=1e-9)
        cross = (up.slopes(label, f).grad - down.slopes(label, f).grad) / (2 * STEP)
        assert_allclose(slopes.cross[:, k], cross, rtol=1e-7, atol=1e-9)


# --- kinds --------------------------------------------------------------------------------------------------


def test_a_row_has_one_score_or_one_for_each_class():
    noisy = LabelNoise(BernoulliLogit(), 0.1, 0.1)
    kinds = [BernoulliLogit(), noisy, FamilyLikelihood(Poisson(), Log()), Categorical(4), NoisyCategorical(5, 0.1)]
    assert [n_outputs(kind) for kind in kinds] == [1, 1, 1, 4, 5]


def test_under_label_noise_lies_the_likelihood_of_the_class():
    probit = BernoulliProbit()
    assert true_likelihood(LabelNoise(probit, 0.1, 0.1)) is probit
    assert true_likelihood(NoisyCategorical(4, 0.1)) == Categorical(4)
    assert true_likelihood(probit) is probit


@pytest.mark.parametrize(
    "likelihood", [BernoulliProbit(), Categorical(3), FamilyLikelihood(Poisson(), Log())], ids=repr
)
def test_a_log_concave_likelihood_is_its_own_relative(likelihood):
    assert concave_relative(likelihood) is likelihood


def test_every_other_likelihood_of_labels_has_the_logit_as_its_relative_and_other_targets_have_none():
    assert isinstance(concave_relative(BernoulliCauchit()), BernoulliLogit)
    assert isinstance(concave_relative(LabelNoise(BernoulliCauchit(), 0.1, 0.1)), BernoulliLogit)
    assert isinstance(concave_relative(LabelNoise(BernoulliProbit(), 0.1, 0.1)), BernoulliProbit)
    assert concave_relative(FamilyLikelihood(Binomial(), Cauchit())) == FamilyLikelihood(Binomial(), Logit())
    assert concave_relative(FamilyLikelihood(Gaussian(), Log())) is None
    assert concave_relative(FamilyLikelihood(Gaussian(), Power(0.5))) is None
    assert concave_relative(FamilyLikelihood(Gaussian(), Identity())) == FamilyLikelihood(Gaussian(), Identity())
