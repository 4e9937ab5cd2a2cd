"""Simulation-based calibration: it passes what is right, finds what is wrong, and says which way."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import binom, chi2, kstest
from scipy.stats import t as student_t

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    GenerativeClassifier,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
    StudentT,
)
from credibly.class_conditionals import Bernoulli
from credibly.diagnostics import SBC, Simulator, sbc
from credibly.diagnostics.simulated_models import _draw_labels, simulator_of
from credibly.errors import InputError
from credibly.kernels import RBF, Constant, White
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.priors import Beta, NormalInverseWishart
from helpers import some

X = np.random.default_rng(0).normal(size=(40, 2))
WISHART = NormalInverseWishart(mean=[0.0, 0.0], mean_strength=1.0, scale=np.eye(2), dof=5)
ELSEWHERE = NormalInverseWishart(mean=[2.0, 2.0], mean_strength=5.0, scale=np.eye(2), dof=5)
KERNEL, FLAT = Constant(2.0) * RBF(1.0), Constant(0.3) * RBF(1.0)


def normal_mean(shift=0.0, width=1.0, prior_sd=1.0):
    """y ~ N(θ, 1), θ ~ N(0, prior_sd²); the posterior is that of a prior of variance one, moved and stretched."""

    def simulate(rng):
        theta = rng.normal(scale=prior_sd)
        return np.array([theta]), rng.normal(theta)

    def posterior(rng, y, size):
        sd = np.sqrt(1 / 2)
        return rng.normal(y / 2 + shift * sd, width * sd, size=(size, 1))

    return Simulator(simulate, posterior, ["mean"])


# --- what ranks say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("L", [2, 9, 99])
def test_shift_and_spread_are_standardised_exactly(L):
    """Over all ranks 0 … L, each once, both have mean zero; over single replicates, variance one."""
    one_each = SBC(np.arange(L + 1)[:, None], L, ["a"])
    row = one_each.table[0]
    assert_allclose([row.shift, row.spread, row.pvalue], [0, 0, 1], atol=1e-12)
    single = SBC(np.arange(L + 1)[None, :], L, [str(r) for r in range(L + 1)])
    shift, spread = np.array([[row.shift, row.spread] for row in single.table]).T
    assert_allclose([(shift**2).mean(), (spread**2).mean(), (shift * spread).mean()], [1, 1, 0], atol=1e-12)
    assert_allclose(single.pvalues, chi2.sf(shift**2 + spread**2, 2), rtol=1e-12)


def test_uniform_ranks_are_suspected_as_rarely_as_stated():
    """20 000 quantities: five standard errors of a share of 0.05 are 0.0077."""
    ranks = np.random.default_rng(0).integers(0, 100, size=(100, 20_000))
    pvalues = SBC(ranks, 99, [""] * 20_000).pvalues
    assert abs((pvalues < 0.05).mean() - 0.05) < 0.0077
    assert (pvalues < 1e-5).sum() <= 5


def test_coverage_counts_central_ranks_and_has_a_binomial_band():
    found = SBC(np.arange(20)[:, None], 19, ["a"]).coverage(0.8, band=0.95)
    assert found.expected == 0.8 and found.observed == [0.8]
    assert_allclose([found.low * 20, found.high * 20], binom.interval(0.95, 20, 0.8))
    assert SBC(np.arange(20)[:, None], 19, ["a"]).coverage(0.5).observed == [0.5]
    assert SBC(np.array([[0], [19], [9]]), 19, ["a"]).coverage(0.9).observed == [1 / 3]


def test_the_histogram_counts_every_rank_once():
    ranks = np.random.default_rng(0).integers(0, 100, size=(50, 3))
    found = SBC(ranks, 99, list("abc")).histogram(bins=7)
    assert_array_equal(found.counts.sum(axis=0), [50] * 3)
    assert_allclose(found.expected.sum(), 50)
    want = [np.histogram(r, bins=7, range=(-0.5, 99.5))[0] for r in ranks.T]  # edges between ranks as 100/7 falls
    assert (np.abs(found.counts.T - want) <= 3).all()
    exact = SBC(ranks, 99, list("abc")).histogram(bins=10, level=0.8)
    assert_array_equal(exact.counts.T, [np.bincount(r // 10, minlength=10) for r in ranks.T])
    assert_allclose([exact.band_low, exact.band_high], np.array([binom.interval(0.8, 50, [0.1] * 10)])[0])
    with pytest.raises(InputError, match="bins"):
        SBC(ranks, 99, list("abc")).histogram(bins=101)


# --- a posterior that is known ------------------------------------------------------------------------------


def test_the_right_posterior_passes():
    found = sbc(normal_mean(), replicates=2000, random_state=0)
    assert found.suspects() == []
    low, high = found.coverage(0.9, band=0.999)[2:]
    assert low <= found.coverage(0.9).observed[0] <= high
    inside = found.histogram(level=0.999)
    assert (inside.band_low <= inside.counts[:, 0]).all() and (inside.counts[:, 0] <= inside.band_high).all()


@pytest.mark.parametrize("e", [-0.2, 0.2])
def test_a_shifted_posterior_is_found_with_its_sign_and_size(e):
    """A posterior too high by e standard deviations: shift is about -e√R; the bound is four standard errors."""
    row = sbc(normal_mean(shift=e), replicates=1000, random_state=1).table[0]
    assert row.pvalue < 1e-3
    assert abs(row.shift + e * np.sqrt(1000)) < 4
    assert abs(row.spread) < 4


@pytest.mark.parametrize("d", [-0.2, 0.2])
def test_a_posterior_that_is_too_narrow_or_wide_is_found_with_its_sign_and_size(d):
    """Too narrow by a share d: spread is about d√R/0.8; a tenth for the curvature, and four standard errors."""
    row = sbc(normal_mean(width=1 - d), replicates=1000, random_state=2).table[0]
    assert row.pvalue < 1e-3
    assert abs(row.spread - d * np.sqrt(1000) / 0.81) < 4 + 0.15 * np.sqrt(1000) * abs(d)
    assert abs(row.shift) < 4


def test_a_prior_that_is_not_the_models_is_found():
    assert sbc(normal_mean(prior_sd=2.0), replicates=1000, random_state=0).suspects(0.001) == ["mean"]


def test_the_log_likelihood_finds_a_posterior_that_has_not_looked_at_the_data():
    def simulate(rng):
        theta = rng.normal()
        y = rng.normal(theta)
        return np.array([theta, -((y - theta) ** 2)]), y

    def prior_again(rng, y, size):
        theta = rng.normal(size=size)
        return np.column_stack([theta, -((y - theta) ** 2)])

    found = sbc(Simulator(simulate, prior_again, ["θ", "fit"]), replicates=500, random_state=0)
    assert found.suspects(0.001) == ["fit"]


def test_ties_are_broken_by_chance():
    constant = Simulator(lambda rng: (np.zeros(1), None), lambda rng, data, size: np.zeros((size, 1)))
    found = sbc(constant, replicates=500, draws=9, random_state=0)
    assert found.names == ["quantity 0"]
    assert set(found.ranks[:, 0]) == set(range(10)) and found.suspects(0.001) == []


def test_the_same_seed_gives_the_same_ranks():
    one, two, other = (sbc(normal_mean(), replicates=20, random_state=seed).ranks for seed in (0, 0, 1))
    assert_array_equal(one, two)
    assert (one != other).any()


def test_results_are_shown(capsys):
    found = sbc(normal_mean(), replicates=20, random_state=0, verbose=True)
    assert capsys.readouterr().out.startswith("replicate 2 of 20\nreplicate 4 of 20\n")
    assert "20 replicates × 99 draws" in str(found) and "mean" in str(found)
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["shift", "spread", "coverage", "pvalue"] and list(frame.index) == ["mean"]
    many = SBC(np.zeros((5, 30), dtype=int), 9, [f"q{j}" for j in range(30)])
    assert "… and 10 more" in str(many) and "not uniform: q0, q1" in str(many)


# --- the classifiers ----------------------------------------------------------------------------------------

NARROW = Normal(scale=1.0, intercept_scale=1.0)
EXACT = {
    "quadratic": QuadraticDiscriminant(prior=WISHART),
    "linear": LinearDiscriminant(prior=WISHART),
    "bernoulli": GenerativeClassifier(class_conditional=Bernoulli(), prior=Beta(2.0, 1.0)),
    "naive": NaiveBayes(features=["gaussian", "gaussian"], prior=NormalInverseWishart([0.0], 1.0, [[1.0]], 4.0)),
    "uniform classes": QuadraticDiscriminant(prior=WISHART, class_prior="uniform"),
}
NEARLY = {
    "logit": BayesianLogisticRegression(prior=NARROW),
    "no intercept": BayesianLogisticRegression(prior=NARROW, fit_intercept=False),
    "probit": BayesianProbitRegression(prior=Normal(scale=0.5, intercept_scale=0.5)),
    "Student": BayesianLogisticRegression(prior=StudentT(df=7, scale=0.5, intercept_scale=0.5)),
    "label noise": BayesianLogisticRegression(prior=NARROW, label_noise=0.05),
    "threshold": NoisyThresholdClassifier(threshold="logistic", prior=NARROW),
    "function": GaussianProcessClassifier(KERNEL, optimize=False),
    "function, EP": GaussianProcessClassifier(KERNEL + White(0.5), inference="ep", optimize=False),
}


def rows_for(name):
    return (X > 0).astype(float) if name == "bernoulli" else X


def test_weights_are_drawn_from_the_prior():
    """20 000 draws: five standard errors of a mean, and of a variance."""
    rng, y = np.random.default_rng(0), (X[:, 0] > 0).astype(int)
    prior = Normal(mean=[1.0, 2.0, 3.0], cov=[[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.25]])
    w = BayesianLogisticRegression(prior=prior).fit(X, y).fit_.prior_draws(rng, 20_000)
    sd = np.sqrt(np.diag(prior.cov))
    assert (np.abs(w.mean(axis=0) - prior.mean) < 5 * sd / np.sqrt(20_000)).all()
    assert (np.abs(np.cov(w.T) - prior.cov) < 5 * np.outer(sd, sd) * np.sqrt(2 / 20_000)).all()
    student = StudentT(df=3, scale=[2.0, 0.5])
    heavy = BayesianLogisticRegression(prior=student, inference="laplace").fit(X, y).fit_.prior_draws(rng, 5000)
    for column, scale in zip(heavy.T, (2.0, 0.5, 10.0), strict=True):
        assert kstest(column / scale, student_t(3).cdf).pvalue > 1e-4


@pytest.mark.parametrize("likelihood", [Categorical(3), NoisyCategorical(3, 0.2), BernoulliLogit()])
def test_labels_are_drawn_from_the_likelihood(likelihood):
    """40 000 rows alike: shares within five standard errors of the probabilities of recorded labels."""
    two = isinstance(likelihood, BernoulliLogit)
    f = np.broadcast_to([1.0] if two else [0.0, 2.0, -1.0], (40_000, 1 if two else 3))
    softmax = np.exp(f[0]) / np.exp(f[0]).sum()
    want = np.array([1 - expit(1.0), expit(1.0)]) if two else softmax
    want = 0.8 * want + 0.1 * (1 - want) if isinstance(likelihood, NoisyCategorical) else want
    shares = np.bincount(_draw_labels(np.random.default_rng(0), likelihood, f, len(want))) / 40_000
    assert (np.abs(shares - want) < 5 * np.sqrt(want * (1 - want) / 40_000)).all()


@pytest.mark.parametrize("name", some(EXACT, *list(EXACT)[:2]))
def test_conjugate_models_pass(name):
    found = sbc(EXACT[name], rows_for(name), replicates=60, draws=19, random_state=0)
    assert found.ranks.shape == (60, 9) and found.names[-1] == "log likelihood"
    assert found.suspects(0.001) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NEARLY)
def test_approximate_models_are_near_enough_for_a_short_look(name):
    found = sbc(NEARLY[name], X, replicates=60, draws=19, random_state=0)
    assert found.suspects(0.001) == []
    assert (found.coverage(0.9).observed > 0.75).all()


@pytest.mark.parametrize("name", ["logit", "function"])
def test_three_classes_have_a_weight_vector_or_a_function_each(name):
    found = sbc(NEARLY[name], X, classes=["a", "b", "c"], replicates=40, draws=19, random_state=0)
    assert found.ranks.shape[1] == (10 if name == "logit" else 25)
    assert found.suspects(0.001) == []


@pytest.mark.slow
def test_noise_of_three_classes_is_simulated_too():
    model = BayesianLogisticRegression(prior=NARROW, label_noise=0.05)
    assert sbc(model, X, classes=[0, 1, 2], replicates=30, draws=19, random_state=0).suspects(0.001) == []


def test_a_fitted_model_keeps_its_classes_and_is_not_changed():
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = BayesianLogisticRegression(prior=NARROW).fit(frame, np.where(X[:, 0] > 0, "yes", "no"))
    before = model.posterior_.mean.copy()
    found = sbc(model, frame, replicates=5, draws=9, random_state=0)
    assert found.names == ["age", "dose", "intercept", "log likelihood"]
    assert_array_equal(model.posterior_.mean, before)
    unfitted = BayesianLogisticRegression(prior=NARROW)
    sbc(unfitted, X, replicates=2, draws=9)
    assert not hasattr(unfitted, "classes_")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (BayesianLogisticRegression(prior=Normal(1.0, 1.0)), BayesianLogisticRegression(prior=Normal(0.3, 1.0))),
        (QuadraticDiscriminant(prior=WISHART), QuadraticDiscriminant(prior=ELSEWHERE)),
        (GaussianProcessClassifier(KERNEL, optimize=False), GaussianProcessClassifier(FLAT, optimize=False)),
        (BayesianLogisticRegression(prior=NARROW), BayesianLogisticRegression(prior=NARROW, label_noise=0.3)),
    ],
)
def test_a_model_that_learns_under_another_prior_or_likelihood_is_found(right, wrong):
    truth, learner = simulator_of(right, X, [0, 1]), simulator_of(wrong, X, [0, 1])
    mixed = Simulator(truth.simulate, learner.posterior, truth.names)
    assert sbc(mixed, replicates=150, draws=19, random_state=0).suspects(1e-4) != []


@pytest.mark.slow  # a quarter of a minute each
@pytest.mark.parametrize("name", EXACT)
def test_conjugate_models_pass_a_long_look(name):
    found = sbc(EXACT[name], rows_for(name), replicates=1000, draws=49, random_state=1)
    assert found.suspects(0.001) == []


@pytest.mark.slow  # seconds
def test_a_long_look_at_laplace_finds_little():
    """2 000 replicates see a shift of a tenth of a standard deviation, and a width wrong by a tenth."""
    rows = np.random.default_rng(3).normal(size=(150, 2))
    found = sbc(BayesianLogisticRegression(prior=NARROW), rows, replicates=2000, random_state=1)
    shift, spread = np.array([[row.shift, row.spread] for row in found.table]).T / np.sqrt(2000)
    assert np.abs(shift).max() < 0.1 and np.abs(spread).max() < 0.1


# --- what it cannot do --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (BayesianLogisticRegression(), "prior=model.prior_"),
        (BayesianLogisticRegression(prior="ard"), "prior=model.prior_"),
        (BayesianLogisticRegression(prior=None), "explicit"),
        (BayesianLogisticRegression(prior=Jeffreys()), "explicit"),
        (BayesianLogisticRegression(prior=NARROW, label_noise="estimate"), "fixed likelihood"),
        (GaussianProcessClassifier(), "optimize=False"),
        (QuadraticDiscriminant(), "prior=model.prior_"),
        (QuadraticDiscriminant(prior="reference"), "explicit"),
        (QuadraticDiscriminant(prior=WISHART, parameters="plugin"), "integrated"),
        (NaiveBayes(prior=Beta(1, 1)), "features="),
        (NaiveBayes(prior=Beta(1, 1), features=["auto", "bernoulli"]), "features="),
        (LeastSquaresClassifier(), "Simulator"),
        ("logit", "Simulator"),
    ],
)
def test_models_without_a_fixed_prior_are_refused(model, said):
    with pytest.raises(InputError, match=said):
        sbc(model, (X > 0).astype(float))


def test_one_against_the_rest_is_refused():
    with pytest.raises(InputError, match="against the rest"):
        sbc(GaussianProcessClassifier(KERNEL, optimize=False, inference="ep"), X, classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"replicates": 1}, "replicates"),
        ({"replicates": 2.5}, "replicates"),
        ({"draws": 0}, "draws"),
        ({"random_state": "now"}, "random_state"),
        ({"X": X}, "leave X out"),
    ],
)
def test_bad_arguments_are_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        sbc(normal_mean(), **arguments)


def test_bad_simulators_are_refused():
    def posterior(rng, data, size):
        return rng.normal(size=(size, 1))

    with pytest.raises(InputError, match=r"shape \(99, 2\); got \(99, 1\)"):
        sbc(Simulator(lambda rng: (np.zeros(2), None), posterior))
    with pytest.raises(InputError, match="finite"):
        sbc(Simulator(lambda rng: (np.array([np.nan]), None), posterior))
    with pytest.raises(InputError, match="2 names for 1"):
        sbc(Simulator(lambda rng: (np.zeros(1), None), posterior, ["a", "b"]), replicates=2)


def test_rows_and_classes_are_needed():
    model = BayesianLogisticRegression(prior=NARROW)
    with pytest.raises(InputError, match="needs the rows X"):
        sbc(model)
    with pytest.raises(InputError, match="two classes"):
        sbc(model, X, classes=["a"])
    with pytest.raises(InputError, match="two classes"):
        sbc(model, X[:1])


def test_a_prior_under_which_a_class_never_comes_is_refused():
    always = BayesianLogisticRegression(prior=Normal(mean=[0.0, 0.0, 60.0], cov=np.eye(3) * 0.01))
    with pytest.raises(InputError, match="lacked a class"):
        sbc(always, X)
