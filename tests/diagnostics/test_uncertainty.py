"""Noise and ignorance: exact cases, the identity, and the limits of arithmetic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma
from scipy.stats import entropy

from credibly import BayesianLogisticRegression, Normal
from credibly.diagnostics import uncertainty_split
from credibly.errors import InputError


def draws(size=50, n=7, K=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.3), size=(size, n))


def test_both_parts_are_their_definitions():
    p = draws()
    split = uncertainty_split(p)
    assert_allclose(split.total, entropy(p.mean(axis=0), axis=-1), rtol=1e-12)
    assert_allclose(split.noise, entropy(p, axis=-1).mean(axis=0), rtol=1e-12)
    assert_allclose(split.ignorance, entropy(p, p.mean(axis=0)[None], axis=-1).mean(axis=0), rtol=1e-12)
    assert_array_equal(split.total, split.noise + split.ignorance)


def test_equal_draws_know_everything_but_the_noise():
    p = np.broadcast_to(np.random.default_rng(0).dirichlet(np.ones(4), size=20), (37, 20, 4))
    split = uncertainty_split(p)
    assert_allclose(split.ignorance, 0, atol=1e-30)
    assert_allclose(split.noise, entropy(p[0], axis=-1), rtol=1e-12)


def test_draws_that_are_certain_and_differ_are_all_ignorance():
    p = np.eye(4)[:, None, :]  # each draw is sure of another class
    split = uncertainty_split(p)
    assert_array_equal(split.noise, [0.0])
    assert_allclose(split.ignorance, [np.log(4)], rtol=1e-15)


def test_a_dirichlet_belief_has_the_mutual_information_of_its_formula():
    """E[H(p)] under Dirichlet(a) is ψ(A + 1) - Σ a/A ψ(a + 1); 20 000 draws, five standard errors."""
    a = np.array([0.5, 1.5, 3.0])
    p = np.random.default_rng(0).dirichlet(a, size=(20_000, 1))
    noise = digamma(a.sum() + 1) - a / a.sum() @ digamma(a + 1)
    split, spread = uncertainty_split(p), entropy(p, axis=-1).std() / np.sqrt(20_000)
    assert abs(split.noise[0] - noise) < 5 * spread
    assert abs(split.ignorance[0] - (entropy(a / a.sum()) - noise)) < 10 * spread


@pytest.mark.parametrize("h", [1e-3, 1e-6, 1e-9, 1e-12])
def test_small_ignorance_is_accurate(h):
    """Two draws p ± h: ignorance is h²/(2p(1-p)) to leading order; a difference of entropies loses it below 1e-8."""
    p = 0.25
    split = uncertainty_split([[[p + h, 1 - p - h]], [[p - h, 1 - p + h]]])
    exact = np.float64(p + h) - np.float64(p)  # what h became in floating point
    assert_allclose(split.ignorance[0], exact**2 / (2 * p * (1 - p)), rtol=max(1e-4, 10 * h))


def test_ignorance_is_never_negative():
    base = np.random.default_rng(0).dirichlet(np.full(3, 0.2), size=(1, 500))
    jitter = np.random.default_rng(1).normal(scale=1e-15, size=(10, 500, 3))
    p = base * (1 + jitter)
    assert (uncertainty_split(p / p.sum(axis=-1, keepdims=True)).ignorance >= 0).all()


def test_zeros_and_the_smallest_numbers_do_no_harm():
    tiny = 5e-324
    split = uncertainty_split([[[0.0, 1.0], [tiny, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    assert np.isfinite(split.total).all()
    assert_allclose(split.total, 0, atol=1e-300)


def test_far_from_the_rows_a_model_is_ignorant_and_between_overlapping_classes_it_sees_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = (rng.random(300) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    model = BayesianLogisticRegression(prior=Normal()).fit(np.c_[X, rng.normal(scale=0.05, size=300)], y)
    centre, far = [0.0, 0.0], [0.0, 3.0]  # the second column hardly varies: its weight is not known
    split = uncertainty_split(model.sample_proba([centre, far], size=4000, random_state=0))
    assert split.noise[0] > 0.65 and split.ignorance[0] < 0.01
    assert split.ignorance[1] > 0.2 and split.noise[1] < split.noise[0] - 0.2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.full((4, 2), 0.5), "shape"),
        (np.full((3, 4, 1), 1.0), "shape"),
        (np.full((3, 0, 2), 0.5), "shape"),
        (np.full((1, 4, 2), 0.5), "size=1000"),
        (np.full((0, 4, 2), 0.5), "size=1000"),
        (np.full((2, 4, 2), 0.6), "add up"),
        (np.full((2, 4, 2), np.nan), "NaN"),
        (np.array([[[-0.5, 1.5]]] * 2), "between 0 and 1"),
        ([[["a", "b"]]] * 2, "numbers"),
    ],
)
def test_draws_of_another_form_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        uncertainty_split(given)
