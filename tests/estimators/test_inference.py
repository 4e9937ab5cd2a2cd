"""Every way of inference as a user meets it: what goes together, what a posterior offers, how it lives on."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Jeffreys,
    NoisyThresholdClassifier,
    Normal,
    Status,
    StudentT,
    compare,
)
from credibly.errors import ConvergenceWarning, InputError

LOGIT, PROBIT = BayesianLogisticRegression, BayesianProbitRegression
GAUSSIANS = ("variational", "ep", "auto")
WAYS = (*GAUSSIANS, "exact")
EVERY_WAY = pytest.mark.parametrize("inference", WAYS)
EVERY_GAUSSIAN = pytest.mark.parametrize("inference", GAUSSIANS)


def toy(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    return X, (X @ [1.0, -0.1, 5.0] - 4.5 + rng.logistic(size=n) > 0).astype(int)


def three(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X @ [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]] + rng.gumbel(size=(n, 3))).argmax(axis=1)


def small():
    """Few rows and a skewed posterior: "auto" must go on from Laplace."""
    return np.array([-2.0, -1.0, 0.0, 1.0, 5.0])[:, None], np.array([0, 0, 0, 1, 1])


def fitted(model, inference, X, y, **choices):
    """Fitted, with what is said of scales at their bound left to `status_`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(inference=inference, **choices).fit(X, y)


def mean_error(model):
    """Four standard errors of the means of draws, in each weight's standard deviation; nearly 0 for a Gaussian."""
    return 4 / np.sqrt(model.ess_) if model.rung_ == "exact" else 1e-9


# --- what goes together -------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["variational", "ep", "exact", "adf", "adf_spherical"])
@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(prior=Normal(), solver="sgd"), r"sgd.*newton"),
        (dict(prior=None), r"inference=.*Normal"),
        (dict(prior=Jeffreys()), r"inference=.*Jeffreys"),
    ],
    ids=lambda it: repr(it)[:40],
)
def test_choices_that_do_not_go_together_are_refused(inference, choices, message):
    X, y = toy()
    with pytest.raises(InputError, match=message):
        LOGIT(inference=inference, **choices).fit(X, y)


@pytest.mark.parametrize("prior", [None, Jeffreys()], ids=repr)
def test_without_a_prior_that_is_a_distribution_auto_is_laplace(prior):
    X, y = toy()
    auto, laplace = (LOGIT(prior=prior, inference=it).fit(X, y) for it in ("auto", "laplace"))
    assert auto.rung_ == "laplace"
    assert_array_equal(auto.posterior_.mean, laplace.posterior_.mean)


def test_ep_is_for_one_score_a_row_and_a_normal_prior():
    X, y = three()
    for model in (LOGIT(inference="ep"), LOGIT(inference="ep", multi_class="softmax"), LOGIT(inference="adf")):
        with pytest.raises(InputError, match=r"one score a row.*variational"):
            model.fit(X, y)
    with pytest.raises(InputError, match=r"starts from a normal distribution.*StudentT"):
        LOGIT(inference="ep", prior=StudentT()).fit(*toy())


def test_the_known_ways_are_listed_and_the_one_that_went_is_named():
    with pytest.raises(InputError, match="'auto', 'laplace', 'variational', 'ep', 'adf', 'adf_spherical', 'exact'"):
        LOGIT(inference="nuts").fit(*toy())
    with pytest.raises(InputError, match=r"skew.*variational.*exact"):
        LOGIT(inference="skew").fit(*toy())


@pytest.mark.parametrize("weight", [0.01, 0.5])
def test_parts_of_rows_do_not_go_with_ep_and_auto_does_without(weight):
    X, y = toy(40)
    with pytest.raises(InputError, match=r"sample_weight 0 \(left out\) or at least 1.*the first 0\.\d+ in row 0"):
        LOGIT(prior=Normal(), inference="ep").fit(X, y, sample_weight=np.full(40, weight))
    assert LOGIT(prior=Normal()).fit(X, y, sample_weight=np.full(40, weight)).rung_ == "variational"


# --- what auto takes ----------------------------------------------------------------------------------------


def test_auto_goes_only_as_far_as_it_must():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=2000) > 0).astype(int)
    easy, plain = (LOGIT(prior=Normal(), inference=it).fit(X, y) for it in ("auto", "laplace"))
    assert easy.rung_ == "laplace" and easy.log_evidence_se_ == 0
    assert_array_equal(easy.posterior_.mean, plain.posterior_.mean)
    assert easy.log_evidence_ == plain.log_evidence_


@pytest.mark.parametrize(
    ("model", "rows", "weight", "rung"),
    [
        (LOGIT(prior=Normal()), small, None, "ep"),
        (PROBIT(prior=Normal()), small, None, "ep"),
        (LOGIT(prior=Normal(), label_noise=0.1), toy, None, "ep"),
        (LOGIT(prior=Normal(), multi_class="softmax"), small, None, "ep"),  # one score: the difference of the two
        (LOGIT(), three, None, "variational"),
        (LOGIT(prior=StudentT()), small, None, "variational"),
        (LOGIT(prior=Normal()), small, np.array([1, 1, 0.5, 1, 1]), "variational"),
        (LOGIT(prior=Normal()), small, np.array([1, 2, 0, 1, 1]), "ep"),
        (BayesianGLM("bernoulli", prior=Normal()), small, None, "ep"),
        (BayesianGLM("poisson", prior=Normal()), small, None, "variational"),
    ],
    ids=lambda it: repr(it) if hasattr(it, "fit") else None,
)
def test_what_comes_after_laplace(model, rows, weight, rung):
    """EP for two classes, a Normal prior and whole rows, else variational: the rung by name has the same numbers."""
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        auto = clone(model).fit(X, y, sample_weight=weight)
    assert auto.rung_ == rung and auto.log_evidence_se_ == 0
    if model.get_params().get("multi_class") != "softmax":  # where EP by name is refused
        named = clone(model).set_params(inference=rung).fit(X, y, sample_weight=weight)
        learns = isinstance(model.prior, str)  # a search for scales ends within a thousandth of a nat of the highest
        gap = np.abs(auto.posterior_.mean - named.posterior_.mean) / named.posterior_.std
        assert gap.max() < (0.01 if learns else 1e-5)
        assert_allclose(auto.log_evidence_, named.log_evidence_, atol=1e-3 if learns else 1e-8)


# --- what every posterior offers ----------------------------------------------------------------------------

MODELS = [
    LOGIT(prior=Normal()),
    LOGIT(),
    LOGIT(prior="ard", fit_intercept=False),
    PROBIT(prior=Normal()),
    PROBIT(prior=Normal(), label_noise=(0.05, 0.02)),
    NoisyThresholdClassifier("cauchy", prior=Normal()),
    NoisyThresholdClassifier("gumbel", prior=Normal()),
]
EVERY = pytest.mark.parametrize("which", range(len(MODELS)), ids=map(repr, MODELS))


@cache
def one_of(which, inference):
    """One of them, fitted to `toy` once for all tests."""
    return fitted(MODELS[which], inference, *toy())


@EVERY
@EVERY_WAY
def test_everything_that_follows_from_a_posterior_is_there(which, inference):
    model = one_of(which, inference)
    q, M = model.posterior_, 3 + model.fit_intercept
    assert q.mean.shape == q.std.shape == (M,) and q.cov.shape == (M, M)
    assert_allclose(np.sqrt(np.diag(q.cov)), q.std, rtol=1e-9)
    low, high = q.interval(0.9).T
    assert (low < q.mean).all() and (q.mean < high).all()
    assert q.sample(np.random.default_rng(0), 5).shape == (5, M)
    assert np.isfinite(q.logpdf(q.mean))
    assert_allclose(np.append(model.coef_, model.intercept_)[:M], q.mean)
    assert model.log_evidence_ < 0 and isinstance(model.log_evidence_, float)
    assert isinstance(model.log_evidence_se_, float) and 0 < model.effective_parameters_ < 4
    assert (model.log_evidence_se_ > 0) is (inference == "exact")
    assert_allclose(model.log_evidence_, model.log_likelihood_ + model.occam_factor_)
    assert hasattr(model, "rhat_") is hasattr(model, "ess_") is (inference == "exact")
    assert np.isfinite([model.bic_, model.aic_]).all()
    assert list(model.summary().to_frame()["estimate"]) == pytest.approx(list(q.mean))


@EVERY
@EVERY_WAY
def test_predictions_are_probabilities(which, inference):
    X, model = toy()[0], one_of(which, inference)
    p, log_p = model.predict_proba(X), model.predict_log_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(np.exp(log_p), p, rtol=1e-14)
    assert_array_equal(model.predict(X), p.argmax(axis=1))
    low, high = model.predict_interval(X, level=0.9).T
    assert ((low >= 0) & (low < high) & (high <= 1)).all()
    inside = (p[:, 1] >= 0.1) & (p[:, 1] <= 0.9)
    assert inside.any() and ((low < p[:, 1]) & (p[:, 1] < high))[inside].all()
    wider = model.predict_interval(X, level=0.99)
    assert (wider[:, 0] <= low).all() and (wider[:, 1] >= high).all()
    draws = model.sample_proba(X, size=500, random_state=0)
    assert draws.shape == (500, 60, 2)
    assert_allclose(draws.mean(axis=0), p, atol=5 * 0.5 / np.sqrt(500))  # a probability's deviation is at most ½


@pytest.mark.parametrize("inference", ["variational", "auto", "exact"])
def test_predictions_of_three_classes_have_the_shapes_of_the_contract(inference):
    X, y = three()
    model = fitted(LOGIT(prior=Normal()), inference, X, y)
    p = model.predict_proba(X)
    assert p.shape == (90, 3) and model.posterior_.mean.shape == (9,)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12 if model.log_evidence_se_ else 1e-6)  # averages: 1e-6
    low, high = np.moveaxis(model.predict_interval(X), 2, 0)
    assert low.shape == (90, 3) and ((low < p) & (p < high))[(p > 0.1) & (p < 0.9)].all()
    mean, cov = model.predict_latent(X[:5])
    assert mean.shape == (5, 3) and cov.shape == (5, 3, 3)
    assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("inference", ["laplace", "variational", "auto", "exact"])
def test_two_forced_softmax_classes_are_the_logit(inference):
    """One model, written twice: precision λ on each class's weights is λ/2 on their difference."""
    X, y = toy()
    logit = fitted(LOGIT(prior=Normal(scale=2.0, intercept_scale=4.0)), inference, X, y)
    half = Normal(scale=2.0 / np.sqrt(2), intercept_scale=4.0 / np.sqrt(2))
    softmax = fitted(LOGIT(prior=half, multi_class="softmax"), inference, X, y)
    assert softmax.rung_ == logit.rung_
    # Fixed points end 1e-4 standard deviations apart at most; of draws, whose chains then differ, four standard errors.
    tol = {"laplace": 1e-9, "exact": np.sqrt(2) * mean_error(logit)}.get(inference, 1e-4)
    gap = np.abs(softmax.coef_[1] - softmax.coef_[0] - logit.coef_[0]) / logit.posterior_.std[:3]
    assert gap.max() < tol
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, atol=tol)
    assert_allclose(softmax.predict_interval(X), logit.predict_interval(X), atol=tol)
    assert_allclose(softmax.loo_log_proba_, logit.loo_log_proba_, atol=tol)


def test_intervals_of_draws_are_equal_tailed():
    """A tail of 5 in 100 draws on either side, for the weights and for the probabilities."""
    X, y = small()
    model = fitted(LOGIT(prior=Normal()), "exact", X, y)
    q = model.posterior_
    draws = q.sample(np.random.default_rng(0), 40_000)  # of those that are held, which are some 16,000
    error = 4 * np.sqrt(0.05 * 0.95 / 10_000)
    low, high = q.interval(0.9).T
    assert_allclose((draws <= low).mean(axis=0), 0.05, atol=error)
    assert_allclose((draws <= high).mean(axis=0), 0.95, atol=error)
    assert_allclose(q.positive, (draws > 0).mean(axis=0), atol=4 * 0.5 / 100)
    ends = model.predict_interval([[0.5]], 0.9)[0]
    p = expit(draws @ [0.5, 1.0])
    assert_allclose([(p <= end).mean() for end in ends], [0.05, 0.95], atol=error)


@pytest.mark.parametrize("inference", ["laplace", "variational", "ep", "adf"])
def test_an_evidence_that_is_not_drawn_has_no_standard_error(inference):
    assert LOGIT(prior=Normal(), inference=inference).fit(*toy()).log_evidence_se_ == 0.0


@pytest.mark.parametrize("inference", ["laplace", "variational", "ep", "auto"])
@pytest.mark.parametrize("model", [LOGIT(), PROBIT()], ids=repr)
def test_a_learnt_scale_maximises_the_evidence_of_the_inference_used(model, inference):
    X, y = toy()
    learnt = fitted(model, inference, X, y)
    best = learnt.prior_scale_
    rung, sd = learnt.rung_, X.std(axis=0)

    def evidence(scale):
        # the intercept at the column means has Normal(0, 10²), as the learnt one
        given = Normal(scale=np.full(3, scale), intercept_scale=10.0, standardized=True)
        return clone(model).set_params(prior=given, inference=rung, tol=1e-14).fit(X, y).log_evidence_

    assert sd.size == 3
    assert_allclose(evidence(best), learnt.log_evidence_, atol=1e-6)
    assert all(evidence(best * factor) < evidence(best) for factor in (0.97, 1.03, 0.5, 2.0))


def test_the_scale_of_exact_inference_is_that_of_the_variational_bound():
    X, y = toy()
    exact, variational = (fitted(LOGIT(), it, X, y) for it in ("exact", "variational"))
    assert_allclose(exact.prior_scale_, variational.prior_scale_, rtol=1e-12)
    assert exact.log_evidence_ > variational.log_evidence_ - 3 * exact.log_evidence_se_  # a lower bound


def test_a_budget_of_passes_that_runs_out_is_said():
    X, y = toy()
    with pytest.warns(ConvergenceWarning) as caught:
        model = LOGIT(prior=Normal(), inference="exact", max_passes=100).fit(X, y)
    assert len(caught) == 1 and model.status_ is Status.CHAINS_NOT_MIXED and not model.status_.good
    more = LOGIT(prior=Normal(), inference="exact", draws=40_000).fit(X, y)
    assert more.status_ is Status.CONVERGED and more.rhat_ < 1.01 and more.ess_ >= 400
    assert more.posterior_.sample(np.random.default_rng(0), 3).shape == (3, 4)
    fewer = LOGIT(prior=Normal(), inference="exact").fit(X, y)
    assert more.ess_ > 1.5 * fewer.ess_


def test_the_summary_says_how_the_posterior_was_found():
    X, y = toy()
    auto = fitted(LOGIT(prior=Normal()), "auto", X, y)
    assert f"used '{auto.rung_}'" in str(auto.summary())
    exact = fitted(LOGIT(prior=Normal()), "exact", X, y)
    assert "exact" in str(exact.summary()) and "standard error" in str(exact.summary())
    assert "is the mean" in str(exact.summary())
    ep = fitted(LOGIT(prior=Normal()), "ep", X, y)
    assert "standard error" not in str(ep.summary()) and "is the mean" in str(ep.summary())
    assert "is the mean" not in str(fitted(LOGIT(prior=Normal()), "laplace", X, y).summary())


@EVERY_WAY
def test_tests_and_robust_covariances_still_work(inference):
    X, y = toy()
    model = fitted(LOGIT(prior=Normal()), inference, X, y)
    assert 0 < model.wald_test("x0").pvalue < 1
    assert model.covariance("robust").shape == (4, 4)
    assert_allclose(model.covariance("model"), model.posterior_.cov, rtol=1e-6)
    assert model.loo_log_proba_.shape == (60,) and (model.loo_log_proba_ < 0).all()


@pytest.mark.parametrize("inference", ["laplace", *WAYS])
def test_estimated_label_noise_is_that_of_laplace_and_weights_are_inferred_at_its_mode(inference):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2))
    y = (2 * X[:, 0] + rng.logistic(size=200) > 0) ^ (rng.random(200) < 0.1)
    model, laplace = (fitted(LOGIT(prior=Normal(), label_noise="estimate"), it, X, y) for it in (inference, "laplace"))
    assert_allclose(model.label_noise_, laplace.label_noise_, rtol=1e-6)
    assert 0 < model.label_noise_std_ < 0.1
    mode = model.fit_.spec.flips.flips(model.fit_.parameters.mode)[0]
    given = fitted(LOGIT(prior=Normal(), label_noise=mode), model.rung_, X, y)
    gap = np.abs(model.posterior_.mean - given.posterior_.mean) / given.posterior_.std
    assert gap.max() < max(1e-4, np.sqrt(2) * mean_error(given))
    assert (model.posterior_.std > given.posterior_.std).all()  # the mean moves with the flips
    assert np.isfinite(model.integrated_log_evidence_) and model.predict_proba(X).shape == (200, 2)


# --- life cycle ---------------------------------------------------------------------------------------------


@EVERY
@EVERY_WAY
def test_fitting_again_and_a_pickled_copy_give_the_same_numbers(which, inference):
    X, y = toy()
    first = one_of(which, inference)
    again, saved = fitted(MODELS[which], inference, X, y), pickle.loads(pickle.dumps(first))
    for other in (again, saved):
        assert_array_equal(other.predict_log_proba(X), first.predict_log_proba(X))
        assert_array_equal(other.posterior_.interval(), first.posterior_.interval())
        assert other.log_evidence_ == first.log_evidence_
        assert_array_equal(other.log_evidence_se_, first.log_evidence_se_)
        assert other.status_ is first.status_
    copy = clone(first)
    assert not hasattr(copy, "posterior_") and copy.get_params().keys() == first.get_params().keys()


def test_another_random_state_gives_other_draws_of_the_same_posterior():
    X, y = small()
    models = [fitted(LOGIT(prior=Normal()), "exact", X, y, random_state=seed) for seed in (0, 1)]
    assert not np.array_equal(*(it.posterior_.mean for it in models))
    gap = np.abs(models[0].posterior_.mean - models[1].posterior_.mean) / models[0].posterior_.std
    assert gap.max() < np.hypot(*(mean_error(it) for it in models))
    error = np.hypot(*(it.log_evidence_se_ for it in models))
    assert_allclose(models[0].log_evidence_, models[1].log_evidence_, atol=4 * error)


def test_comparisons_are_the_same_twice():
    X, y = toy(40)
    models = {"gaussian": LOGIT(prior=Normal()), "drawn": LOGIT(prior=Normal(), inference="exact")}
    one, two = (compare(models, X, y).to_frame()["log_evidence"] for _ in range(2))
    assert_array_equal(one, two)


@EVERY_WAY
def test_sample_weights_count_rows(inference):
    X, y = toy()
    counts = np.repeat([1, 2, 3], 20)
    weighted = LOGIT(prior=Normal(), inference=inference).fit(X, y, sample_weight=counts)
    copies = LOGIT(prior=Normal(), inference=inference).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    error = 4 * np.hypot(weighted.log_evidence_se_, copies.log_evidence_se_)
    assert_allclose(weighted.log_evidence_, copies.log_evidence_, rtol=1e-9, atol=error)
    gap = np.abs(weighted.posterior_.mean - copies.posterior_.mean) / copies.posterior_.std
    assert gap.max() < max(1e-5, np.sqrt(2) * mean_error(copies))


@EVERY_WAY
def test_rows_of_weight_zero_are_left_out(inference):
    X, y = toy()
    counts = (np.arange(60) % 3 > 0).astype(float)
    model = LOGIT(prior=Normal(), inference=inference).fit(X, y, sample_weight=counts)
    some = LOGIT(prior=Normal(), inference=inference).fit(X[counts > 0], y[counts > 0])
    assert model.status_ is some.status_ and model.rung_ == some.rung_
    error = 4 * np.hypot(model.log_evidence_se_, some.log_evidence_se_)
    assert_allclose(model.log_evidence_, some.log_evidence_, rtol=1e-8, atol=error)


@EVERY_WAY
def test_sparse_rows_give_what_dense_rows_give(inference):
    X, y = toy()
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (fitted(LOGIT(prior=Normal()), inference, rows, y) for rows in (X, csr_array(X)))
    assert sparse.rung_ == dense.rung_
    error = 4 * np.hypot(dense.log_evidence_se_, sparse.log_evidence_se_)
    assert_allclose(sparse.log_evidence_, dense.log_evidence_, atol=1e-6 + error)
    # sparse columns are not centred, so draws are of other coordinates; a probability's deviation is at most ½
    p = sparse.predict_proba(csr_array(X))
    assert_allclose(p, dense.predict_proba(X), atol=max(1e-6, 0.5 * np.sqrt(2) * mean_error(dense)))


@pytest.mark.filterwarnings("ignore:partial_fit has drifted")
@EVERY_GAUSSIAN
def test_partial_fit_accumulates_by_the_chain_rule(inference):
    X, y = toy(120)
    model = LOGIT(prior=Normal(), inference=inference)
    first = model.partial_fit(X[:60], y[:60], classes=[0, 1]).log_evidence_
    model.partial_fit(X[60:], y[60:])
    whole = LOGIT(prior=Normal(), inference=inference).fit(X, y)
    assert model.log_evidence_ < first < 0
    assert model.posterior_.mean.shape == (4,)
    # Gaussians in between, and "auto" may stop at Laplace: errors of some tenths of a nat at 60 rows
    assert_allclose(model.log_evidence_, whole.log_evidence_, atol=0.2)
    gap = np.abs(model.posterior_.mean - whole.posterior_.mean) / whole.posterior_.std
    assert gap.max() < (0.3 if inference == "auto" else 0.1)
    with pytest.raises(InputError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])


def test_draws_do_not_go_on_and_say_what_does():
    X, y = toy()
    model = LOGIT(prior=Normal(), inference="exact").fit(X, y)
    before = model.posterior_
    with pytest.raises(InputError, match=r"partial_fit.*variational"):
        model.partial_fit(X, y)
    assert model.posterior_ is before


@EVERY_GAUSSIAN
def test_a_first_part_may_lack_a_class(inference):
    X, y = toy()
    model = LOGIT(prior=Normal(), inference=inference)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
        model.partial_fit(X[y == 1], y[y == 1])
    assert_array_equal(model.classes_, [0, 1])
    assert np.isfinite(model.log_evidence_) and np.isfinite(model.posterior_.mean).all()


# --- averaging and the decision (E-22) ----------------------------------------------------------------------


def exact_predictive(X, y, x, scale):
    """P(y = 1 | x, rows) of a slope and an intercept by trapezoids, and its value on a grid twice as coarse."""

    def on(step):
        g = np.arange(-25.0, 25.0 + step / 2, step)
        a, b = np.meshgrid(g, g, indexing="ij")
        log_joint = stats.norm.logpdf(a, 0, scale) + stats.norm.logpdf(b, 0, scale)
        for xi, yi in zip(X[:, 0], y, strict=True):
            log_joint -= np.logaddexp(0, -(2 * yi - 1) * (a * xi + b))
        share = np.exp(log_joint - log_joint.max())
        return (share * expit(a * x + b)).sum() / share.sum()

    return on(0.05), on(0.1)


def test_at_the_boundary_of_the_mode_the_averaged_probability_is_a_half_only_for_a_gaussian_about_the_mode():
    """E-22, the third direction: the exact posterior is skewed, and so averaging over it does change a decision."""
    X, y = small()
    scale = 2.5
    prior = Normal(scale=scale, intercept_scale=scale)
    laplace = LOGIT(prior=prior, inference="laplace").fit(X, y)
    x = -laplace.intercept_[0] / laplace.coef_[0, 0]
    exact, coarser = exact_predictive(X, y, x, scale)
    assert abs(exact - coarser) < 1e-9 and exact > 0.52  # 0.0244 above ½
    assert_allclose(laplace.predict_proba([[x]]), [[0.5, 0.5]], atol=1e-12)  # averaged or not, whatever the variance
    gap = exact - 0.5
    for model in (fitted(LOGIT(prior=prior), it, X, y) for it in WAYS):
        p = model.predict_proba([[x]])[0, 1]
        error = 0.25 * gap if model.rung_ != "exact" else 3 * 0.5 / np.sqrt(model.ess_)
        assert p > 0.5 + 0.5 * gap and abs(p - exact) < error, model.inference
        assert model.predict([[x]])[0] == 1
    certificate = laplace.certify(X, y, draws=16_384)
    p = certificate.predict_proba([[x]])[0, 1]
    assert certificate.reliable and abs(p - exact) < 3 * 0.5 / np.sqrt(certificate.ess)  # a deviation is at most ½
    assert p > 0.5 + 0.5 * gap


def one_weight_of_mode_nought(cdf, slope):
    """Rows of one column under the prior N(mean, 4) whose pull balances theirs at w = 0, and the exact E[cdf(w)]."""
    x, y = np.array([1.0, 1.0, 2.0, -2.0]), np.array([1, 1, 1, 0])
    mean = -4.0 * slope * (x * (2 * y - 1)).sum()
    w = np.linspace(-30, 30, 60_001)
    density = stats.norm.pdf(w, mean, 2.0) * cdf(np.outer(w, x * (2 * y - 1))).prod(axis=1)
    return x[:, None], y, Normal(mean=[mean], cov=[[4.0]]), (density * cdf(w)).sum() / density.sum()


def test_the_same_with_one_weight_and_the_probit():
    X, y, prior, exact = one_weight_of_mode_nought(stats.norm.cdf, np.sqrt(2 / np.pi))
    model = PROBIT(prior=prior, fit_intercept=False)
    laplace = fitted(model, "laplace", X, y)
    assert_allclose(laplace.coef_, 0.0, atol=1e-9)
    assert_allclose(laplace.predict_proba([[1.0]])[0, 1], 0.5, atol=1e-9)
    assert abs(exact - 0.5) > 0.01
    for p in (
        *(fitted(model, it, X, y).predict_proba([[1.0]])[0, 1] for it in WAYS),
        laplace.certify(X, y, draws=8192).predict_proba([[1.0]])[0, 1],
    ):
        assert abs(p - exact) < 0.5 * abs(exact - 0.5)


def test_with_one_weight_the_logit_is_symmetric_about_nought():
    """log σ(f) is f/2 and an even function: where the prior takes the slope off, the posterior is symmetric."""
    X, y, prior, exact = one_weight_of_mode_nought(expit, 0.5)
    assert_allclose(exact, 0.5, atol=1e-12)
    for inference in ("laplace", *GAUSSIANS):
        model = fitted(LOGIT(prior=prior, fit_intercept=False), inference, X, y)
        assert_allclose(model.predict_proba([[1.0]])[0, 1], 0.5, atol=1e-9)


# --- simulation-based calibration ---------------------------------------------------------------------------

REPLICATES, ROWS, LEVEL, SIMULATION_SEED = 400, 20, 0.8, 20_250_101
COVERAGE_ERROR = 4 * np.sqrt(LEVEL * (1 - LEVEL) / REPLICATES)  # four binomial standard errors
SIMULATED = {
    "ep, logit": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="ep"),
    "ep, probit": PROBIT(prior=Normal(scale=1.0, intercept_scale=1.0), inference="ep"),
    "variational": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="variational"),
    "auto": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="auto"),
    "exact": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="exact"),
}


def simulated(model):
    """Weights from the prior, labels from the model: rows, labels, weights, a new row with its true probability."""
    rng = np.random.default_rng(SIMULATION_SEED)
    mean = expit if isinstance(model, LOGIT) else stats.norm.cdf
    for _ in range(REPLICATES):
        X, w = rng.normal(size=(ROWS + 1, 2)), model.prior.scale * rng.normal(size=3)
        p = mean(X @ w[:2] + w[2])
        yield X[:-1], (rng.random(ROWS) < p[:-1]).astype(int), w, X[-1:], p[-1]


def fitted_to(model, X, y):
    return clone(model).partial_fit(X, y, classes=[0, 1])  # a draw of labels may lack a class


def outward(model, w):
    """P(weight < w) under the posterior, counted away from nought: uniform over the prior, if it is right."""
    q = model.posterior_
    if model.rung_ == "exact":
        below = (q.sample(np.random.default_rng(0), 4000) <= w).mean(axis=0)
    else:
        below = stats.norm.cdf((w - q.mean) / q.std)
    return np.where(q.mean > 0, below, 1 - below)


def bias_of(ranks):
    """How far their mean is from ½, in standard errors over replicates."""
    means = np.mean(ranks, axis=1)
    return (means.mean() - 0.5) / (means.std() / np.sqrt(len(means)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_intervals_of_weights_and_probabilities_cover_as_often_as_they_say(name):
    """Over the prior every interval covers exactly at its level, if the posterior is right."""
    weights, probabilities, ranks = [], [], []
    for X, y, w, new, p in simulated(SIMULATED[name]):
        model = fitted_to(SIMULATED[name], X, y)
        low, high = model.posterior_.interval(LEVEL).T
        weights.append((low <= w) & (w <= high))
        ranks.append(outward(model, w))
        low, high = model.predict_interval(new, LEVEL)[0]
        probabilities.append(low <= p <= high)
    assert_allclose(np.mean(weights, axis=0), LEVEL, atol=COVERAGE_ERROR)
    assert_allclose(np.mean(probabilities), LEVEL, atol=COVERAGE_ERROR)
    assert abs(bias_of(ranks)) < 4


@pytest.mark.slow
def test_the_ranks_tell_that_laplace_lies_too_far_in():
    """So that the test above is known to bite: a mode is nearer to nought than the mean."""
    model = LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="laplace")
    assert bias_of([outward(fitted_to(model, X, y), w) for X, y, w, _, _ in simulated(model)]) > 4


@pytest.mark.slow
def test_corrected_laplace_is_calibrated_where_it_is_called_reliable():
    """Standardised errors of corrected means have mean nought and variance one, and probabilities their own share."""
    model = LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="laplace")
    errors, surprise = [], []
    for X, y, w, new, p in simulated(model):
        certificate = fitted_to(model, X, y).certify(X, y)
        if not certificate.reliable:
            continue
        errors.append((w - certificate.mean) / certificate.std)
        surprise.append(p - certificate.predict_proba(new)[0, 1])
    errors, n = np.array(errors), len(errors)
    assert n > 0.6 * REPLICATES
    assert_allclose(errors.mean(axis=0), 0.0, atol=4 / np.sqrt(n))
    assert_allclose(errors.var(axis=0), 1.0, atol=4 * np.sqrt(2 / n) * 1.5)  # fourth moments up to twice a Gaussian's
    assert abs(np.mean(surprise)) <= 4 * np.std(surprise) / np.sqrt(n)
