"""`loo_log_proba_` of linear models against refits, closed forms and a Gaussian process; of generative ones exactly."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, log_expit, logsumexp
from scipy.stats import norm
from sklearn.base import clone

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
)
from credibly.errors import InputError, NotDefinedError
from credibly.kernels import Linear

PRIOR = Normal(scale=1.5)


def toy(n=40, d=2, K=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))
    return X, scores.argmax(axis=1)


def refitted(make, X, y):
    """log p(y_i | others) by fitting without every row in turn."""
    found = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        found.append(make().fit(X[rest], y[rest]).predict_log_proba(X[i : i + 1])[0, y[i]])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "K"),
    [
        (BayesianLogisticRegression(), 2),
        (BayesianLogisticRegression(), 3),
        (BayesianProbitRegression(), 2),
        (NoisyThresholdClassifier("gumbel"), 2),
        (BayesianLogisticRegression(label_noise=0.1), 2),
    ],
    ids=["logit", "softmax", "probit", "gumbel", "label noise"],
)
@pytest.mark.parametrize("inference", ["laplace", "variational", "ep"])
def test_it_approaches_refits_as_the_prior_tightens(model, K, inference):
    """What is neglected, the movement of the other rows' curvatures, fades with the posterior's width."""
    if inference == "ep" and K > 2:
        return  # refused
    X, codes = toy(K=K)
    y = np.array([12, 10, 14])[codes]  # labels are no codes

    def gap(scale):
        # an intercept has a prior of its own
        new = clone(model).set_params(prior=Normal(scale=scale), fit_intercept=False, inference=inference)
        loo, near = clone(new).fit(X, y).loo_log_proba_, []
        for i in range(len(y)):
            rest = np.delete(np.arange(len(y)), i)
            left = clone(new).fit(X[rest], y[rest])
            recorded = left.predict_recorded_proba(X[i : i + 1])[0]
            near.append(np.log(recorded[left.classes_ == y[i]][0]))
        return np.abs(loo - near).max()

    gaps = [gap(scale) for scale in (0.5, 0.25, 0.125)]
    floor = 5e-6 if K > 2 else 1e-9  # averages over classes are good to 1e-6
    assert gaps[0] < 0.1
    assert gaps[1] < max(gaps[0] / 3, floor) and gaps[2] < max(gaps[1] / 3, floor), gaps


def test_it_is_exact_for_a_gaussian_target():
    X, _ = toy(30, 3)
    t = np.random.default_rng(1).normal(size=30)
    model = BayesianGLM(prior=Normal(scale=2.0), dispersion=0.7, fit_intercept=False).fit(X, t)
    C = np.linalg.solve(0.7 * np.eye(30) + 4.0 * X @ X.T, np.eye(30))
    exact = norm.logpdf(t, t - C @ t / np.diag(C), np.diag(C) ** -0.5)
    assert_allclose(model.loo_log_proba_, exact, rtol=1e-9)


@pytest.mark.parametrize("K", [2, 3])
def test_a_linear_kernel_leaves_the_same_row_out(K):
    """Weight space and function space are one model, so their cavities are the same."""
    X, y = toy(25, 2, K)
    line = BayesianLogisticRegression(prior=Normal(scale=1.2), fit_intercept=False, inference="laplace").fit(X, y)
    process = GaussianProcessClassifier(1.2**2 * Linear(), optimize=False, inference="laplace").fit(X, y)
    assert_allclose(line.log_evidence_, process.log_evidence_, rtol=1e-8)
    assert_allclose(line.loo_log_proba_, process.loo_log_proba_, atol=1e-6 if K == 2 else 5e-6)


def test_maximum_likelihood_is_refitted_at_the_estimate():
    """Without a prior predictions are at the estimate, and so are those of rows left out: one Newton step."""
    X, y = toy(400, 2)
    model = BayesianLogisticRegression(prior=None).fit(X, y)
    some = np.arange(0, 400, 20)
    near = []
    for i in some:
        rest = np.delete(np.arange(400), i)
        near.append(
            BayesianLogisticRegression(prior=None).fit(X[rest], y[rest]).predict_log_proba(X[i : i + 1])[0, y[i]]
        )
    assert_allclose(model.loo_log_proba_[some], near, atol=2e-3)  # curvatures move by O(1/n²), 400 rows


@pytest.mark.parametrize(
    ("family", "y"), [("poisson", [1, 0, 3, 2, 5, 8, 4]), ("gamma", [0.5, 1.0, 0.8, 2.0, 1.7, 3.0, 2.2])]
)
def test_other_targets(family, y):
    """A positive density, or probability, of every target, near that of refits at the same dispersion."""
    X, y = np.arange(7.0)[:, None], np.array(y, dtype=float)
    dispersion = 0.2 if family == "gamma" else None
    settings = {"family": family, "link": "log", "prior": Normal(scale=0.3), "dispersion": dispersion}
    settings["inference"] = "laplace"
    model = BayesianGLM(**settings).fit(X, y)
    for i in range(7):
        rest = np.delete(np.arange(7), i)
        part = BayesianGLM(**settings).fit(X[rest], y[rest])
        near = part._likelihood.log_average(y[i : i + 1], *part.predict_latent(X[i : i + 1]))[0]
        assert_allclose(model.loo_log_proba_[i], near, atol=0.06)  # measured 0.055: seven rows


def test_counts_of_trials_are_left_out_together():
    """k successes of N in one row are N labels; both evidences differ by the coefficient, and so does what is left."""
    X, k, N = np.array([[-1.0], [0.0], [0.5], [1.5]]), np.array([1, 3, 4, 9]), np.array([8, 8, 8, 10])
    grouped = BayesianGLM("binomial", prior=PRIOR, inference="laplace").fit(X, np.column_stack([k, N - k]))
    weighted = BayesianLogisticRegression(prior=PRIOR, inference="laplace").fit(
        np.vstack([X, X]), np.repeat([1, 0], 4), sample_weight=np.concatenate([k, N - k])
    )
    assert_allclose(grouped.posterior_.mean, weighted.posterior_.mean, rtol=1e-9)
    coefficient = gammaln(N + 1) - gammaln(k + 1) - gammaln(N - k + 1)
    f = grouped.posterior_.sample(np.random.default_rng(0), 4)  # finite, and below log 1
    assert f.shape == (4, 2)
    assert (grouped.loo_log_proba_ < 0).all() and (grouped.loo_log_proba_ - coefficient < -2).all()
    # each row given the three others, by a refit without it
    for i in range(4):
        rest = np.delete(np.arange(4), i)
        part = BayesianGLM("binomial", prior=PRIOR, inference="laplace").fit(X[rest], np.column_stack([k, N - k])[rest])
        m, v = part.predict_latent(X[i : i + 1])
        f = m + np.sqrt(v) * np.random.default_rng(1).normal(size=200_000)
        likelihood = np.exp(k[i] * -np.logaddexp(0, -f) + (N[i] - k[i]) * -np.logaddexp(0, f) + coefficient[i])
        assert_allclose(grouped.loo_log_proba_[i], np.log(likelihood.mean()), atol=0.1)  # eight labels are much


def test_ep_is_nearer_to_refits_of_ep_than_laplace():
    X, y = toy(30)
    near = refitted(lambda: BayesianLogisticRegression(prior=PRIOR, inference="ep"), X, y)
    ep = BayesianLogisticRegression(prior=PRIOR, inference="ep").fit(X, y).loo_log_proba_
    laplace = BayesianLogisticRegression(prior=PRIOR, inference="laplace").fit(X, y).loo_log_proba_
    assert np.abs(ep - near).max() < np.abs(laplace - near).max() / 3


@pytest.mark.parametrize("inference", ["variational", "ep", "exact", "auto"])
def test_it_is_that_of_the_posterior_where_laplaces_is_not(inference):
    """Against exact refits on a grid, where Laplace's cavities are a nat off: separated classes, one weight."""
    x = np.random.default_rng(0).normal(size=20)
    y = (x > 0).astype(int)
    grid = np.linspace(-60, 60, 24_001)
    log_prior = norm.logpdf(grid, 0, 10)
    rows = log_expit(np.where(y == 1, 1, -1)[:, None] * x[:, None] * grid)
    exact = [
        logsumexp(log_prior + rows.sum(axis=0)) - logsumexp(log_prior + np.delete(rows, i, 0).sum(axis=0))
        for i in range(20)
    ]
    model = BayesianLogisticRegression(prior=Normal(scale=10.0), fit_intercept=False)
    found, laplace = (
        clone(model).set_params(inference=it).fit(x[:, None], y).loo_log_proba_ for it in (inference, "laplace")
    )
    off, worst = (abs(it.sum() - np.sum(exact)) for it in (found, laplace))
    assert off < 0.25 * worst


def test_blocks_and_threads_do_not_matter():
    X, y = toy(3000, 3, 3)
    one = BayesianLogisticRegression(prior=PRIOR, n_jobs=1).fit(X, y).loo_log_proba_
    two = BayesianLogisticRegression(prior=PRIOR, n_jobs=2).fit(X, y).loo_log_proba_
    assert_allclose(one, two, rtol=1e-10)


def test_without_the_rows_of_the_fit_there_is_none():
    X, y = toy(2000)  # large batches: partial_fit does not drift
    model = BayesianLogisticRegression().fit(X, y)
    with pytest.raises(InputError, match="rows of the fit"):
        pickle.loads(pickle.dumps(model)).loo_log_proba_  # noqa: B018
    with pytest.raises(InputError, match="partial_fit does not keep them"):
        model.partial_fit(X, y).loo_log_proba_  # noqa: B018


def test_least_squares_has_none_and_softmax_needs_whole_rows():
    X, y = toy(K=3)
    with pytest.raises(NotDefinedError, match="no probabilities"):
        LeastSquaresClassifier().fit(X, y).loo_log_proba_  # noqa: B018
    model = BayesianLogisticRegression().fit(X, y, sample_weight=np.full(40, 2.0))
    with pytest.raises(InputError, match="Repeat rows"):
        model.loo_log_proba_  # noqa: B018


# --- generative -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        LinearDiscriminant(),
        QuadraticDiscriminant(),
        NaiveBayes(features="gaussian"),
        LinearDiscriminant(parameters="plugin"),
        QuadraticDiscriminant(prior="reference"),
    ],
    ids=lambda it: f"{type(it).__name__}-{it.parameters}-{it.prior}",
)
def test_a_generative_model_forgets_every_row_in_turn(model):
    X, y = toy(60, 2, 3)
    model.fit(X, y)
    found = []
    for i in range(60):
        left = copy.deepcopy(model).forget(X[i : i + 1], y[i : i + 1])
        found.append(left.predict_log_proba(X[i : i + 1])[0, y[i]])
    assert_allclose(model.loo_log_proba(X, y), found, rtol=1e-12)


def test_a_generative_model_says_when_it_cannot_leave_rows_out():
    X, y = toy(60, 2, 3)
    with pytest.raises(InputError, match="60 rows of the fit"):
        LinearDiscriminant().fit(X, y).loo_log_proba(X[1:], y[1:])
    with pytest.raises(InputError, match="every single row"):
        LinearDiscriminant(parameters="plugin", shrinkage="oas").fit(X, y).loo_log_proba(X, y)
    holes = X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(InputError, match="missing cells"):
        LinearDiscriminant().fit(holes, y).loo_log_proba(holes, y)
    assert np.isfinite(NaiveBayes(features="gaussian").fit(holes, y).loo_log_proba(holes, y)).all()


def test_a_class_with_one_row_is_still_a_class_without_it():
    X, y = toy(30, 2, 2)
    y[0] = 7
    assert np.isfinite(LinearDiscriminant().fit(X, y).loo_log_proba(X, y)).all()
    plugin = QuadraticDiscriminant(parameters="plugin")
    with pytest.raises(InputError):
        plugin.fit(X, y)
