"""NoisyThresholdClassifier and LeastSquaresClassifier: equivalences, outliers, several modes, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Jeffreys,
    LeastSquaresClassifier,
    NoisyThresholdClassifier,
    Normal,
    NormalMixture,
    Status,
    StudentT,
)
from credibly.errors import InputError, NoEvidenceError, SeparationError
from credibly.model.likelihoods import LOGISTIC_MIXTURE

THRESHOLD = NoisyThresholdClassifier


def rows_of(n=150, seed=0, noise=np.random.Generator.logistic):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X @ [1.5, -1.0] + 0.3 + noise(rng, size=n) > 0).astype(int)


PRIORS = pytest.mark.parametrize("prior", ["empirical", Normal(), StudentT(), Jeffreys(), None], ids=repr)


def same(a, b, X, rtol=1e-9):
    assert_allclose(a.posterior_.mean, b.posterior_.mean, rtol=rtol)
    assert_allclose(a.posterior_.cov, b.posterior_.cov, rtol=rtol, atol=rtol)
    assert_allclose(a.predict_log_proba(X), b.predict_log_proba(X), rtol=rtol)


@PRIORS
@pytest.mark.parametrize(
    ("threshold", "model"),
    [
        ("logistic", BayesianLogisticRegression),
        ("normal", BayesianProbitRegression),
        (stats.norm(), BayesianProbitRegression),
        (stats.logistic(0, 1), BayesianLogisticRegression),
    ],
    ids=["logistic", "normal", "norm", "logistic of scipy"],
)
def test_logit_and_probit_are_two_choices_of_the_threshold(threshold, model, prior):
    X, y = rows_of()
    same(THRESHOLD(threshold, prior=prior).fit(X, y), model(prior=prior).fit(X, y), X)


@pytest.mark.parametrize("prior", ["empirical", None], ids=repr)
def test_eight_normals_are_the_logistic_threshold(prior):
    X, y = rows_of()
    a, b = THRESHOLD(LOGISTIC_MIXTURE, prior=prior).fit(X, y), BayesianLogisticRegression(prior=prior).fit(X, y)
    assert_allclose(a.posterior_.mean, b.posterior_.mean, rtol=1e-5)  # distribution functions 6e-9 apart
    assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)
    assert_allclose(a.log_likelihood_, b.log_likelihood_, atol=1e-5)


@PRIORS
def test_the_mirrored_gumbel_is_the_gumbel_with_classes_swapped(prior):
    X, y = rows_of()
    a, b = THRESHOLD("gumbel_max", prior=prior).fit(X, y), THRESHOLD("gumbel", prior=prior).fit(X, 1 - y)
    assert_allclose(a.posterior_.mean, -b.posterior_.mean, rtol=1e-7)
    assert_allclose(a.predict_proba(X), b.predict_proba(X)[:, ::-1], rtol=1e-7)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(stats.norm(), stats.norm(0, 2)), (stats.laplace(), stats.laplace(0, 2))],
    ids=["norm", "other"],
)
def test_a_threshold_twice_as_wide_doubles_the_weights(narrow, wide):
    X, y = rows_of()
    a, b = THRESHOLD(narrow, prior=None).fit(X, y), THRESHOLD(wide, prior=None).fit(X, y)
    assert_allclose(2 * a.posterior_.mean, b.posterior_.mean, rtol=1e-6)
    assert_allclose(a.log_likelihood_, b.log_likelihood_, rtol=1e-9)


def test_one_degree_of_freedom_is_the_cauchy_and_many_are_the_normal():
    X, y = rows_of()
    same(THRESHOLD(StudentT(df=1), prior=Normal()).fit(X, y), THRESHOLD("cauchy", prior=Normal()).fit(X, y), X, 1e-8)
    many, normal = (THRESHOLD(t, prior=Normal()).fit(X, y) for t in (StudentT(df=1e7), "normal"))
    assert_allclose(many.posterior_.mean, normal.posterior_.mean, rtol=1e-5)  # 1/ν


@pytest.mark.parametrize("threshold", ["cauchy", "gumbel", StudentT(df=3)], ids=repr)
def test_the_mode_is_that_of_an_independent_optimiser(threshold):
    X, y = rows_of()
    F = {"cauchy": stats.cauchy, "gumbel": stats.gumbel_l}.get(
        threshold if isinstance(threshold, str) else "", stats.t(3)
    )
    model = THRESHOLD(threshold, prior=Normal(scale=1.0, intercept_scale=2.0), inference="laplace").fit(X, y)

    def loss(w):
        f = X @ w[:-1] + w[-1]
        log_p = np.where(y == 1, F.logcdf(f), F.logsf(f)).sum()
        return -log_p - stats.norm.logpdf(w, 0, [1.0, 1.0, 2.0]).sum()

    found = minimize(loss, np.ones(3), method="BFGS", options={"gtol": 1e-7})
    assert_allclose(model.posterior_.mean, found.x, atol=1e-5)
    assert_allclose(model.log_evidence_ - model.occam_factor_, model.log_likelihood_, rtol=1e-12)


# --- the notes' claim, and several modes --------------------------------------------------------------------


def influence(threshold):
    """How far one mislabelled row, further and further out, moves the slope, in units of the slope without it."""
    x = np.linspace(-3, 3, 41)[:, None]
    y = (x[:, 0] + np.tile([-0.9, 0.9, 0.3, -0.3], 11)[:41] > 0).astype(int)
    clean = THRESHOLD(threshold, prior=None).fit(x, y).coef_[0, 0]
    return [
        THRESHOLD(threshold, prior=None).fit(np.append(x, [[out]], axis=0), np.append(y, 0)).coef_[0, 0] / clean
        for out in (4.0, 8.0, 16.0)
    ]


def test_probit_reacts_more_to_outliers_than_logit_and_cauchy_less():
    probit, logit, cauchy = (np.array(influence(t)) for t in ("normal", "logistic", "cauchy"))
    assert (probit < logit).all() and (logit < cauchy).all()
    assert np.ptp(cauchy) < np.ptp(logit)  # the further out, the more the others give way


@pytest.mark.parametrize(("n_far", "far", "n_near", "scale"), [(2, 100.0, 60, 5.0), (3, 40.0, 20, 3.0)])
def test_a_non_concave_threshold_finds_the_higher_of_two_modes(n_far, far, n_near, scale):
    """Rows that disagree: the posterior of a Cauchy threshold has a mode for the far ones and one for the near ones."""
    near = np.linspace(-1, 1, n_near)
    x = np.concatenate([np.full(n_far, far), near])[:, None]
    y = np.concatenate([np.zeros(n_far), near > 0]).astype(int)
    model = THRESHOLD("cauchy", prior=Normal(scale=scale), fit_intercept=False, inference="laplace").fit(x, y)

    def loss(w):
        f = x[:, 0] * w
        return -np.where(y == 1, stats.cauchy.logcdf(f), stats.cauchy.logsf(f)).sum() + (w / scale) ** 2 / 2

    values = np.array([loss(w) for w in np.linspace(-30, 30, 6001)])
    minima = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
    assert minima.sum() == 2  # the case is what it says
    assert loss(model.coef_[0, 0]) <= values.min() + 1e-6


def test_a_threshold_with_two_humps_has_a_mode_where_the_slope_vanishes():
    """Between the humps log p is convex, so that the curvature may have to be replaced on the way."""
    X, y = rows_of(n=40)
    humps = NormalMixture([0.5, 0.5], [-3.0, 3.0], [0.3, 0.3])
    model = THRESHOLD(humps, prior=Normal(), inference="laplace").fit(X * 3, y)
    assert model.status_ in {Status.CONVERGED, Status.CURVATURE_REPLACED}

    def loss(w):
        f = X @ w[:-1] * 3 + w[-1]
        F = [(stats.norm.cdf(side * (f + 3) / 0.3) + stats.norm.cdf(side * (f - 3) / 0.3)) / 2 for side in (1, -1)]
        return -np.log(np.where(y == 1, *F)).sum() - stats.norm.logpdf(w, 0, [2.5, 2.5, 10.0]).sum()

    w, h = model.posterior_.mean, 1e-5
    assert_allclose([(loss(w + h * e) - loss(w - h * e)) / (2 * h) for e in np.eye(3)], 0, atol=1e-6)


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_averages_that_overflow_beside_a_wide_prior_are_no_obstacle(scale):
    """Laplace's Gaussian is so wide that the average of exp(score) is infinite: "auto" goes on to EP."""
    x, y = np.repeat([-5.0, 5.0], 20)[:, None] + np.linspace(-1, 1, 40)[:, None], np.repeat([0, 1], 20)
    model = THRESHOLD("gumbel", prior=Normal(scale=scale, intercept_scale=10 * scale)).fit(x, y)
    assert model.rung_ == "ep" and model.status_ is Status.CONVERGED
    assert_array_equal(model.predict(x), y)


def test_the_evidence_ranks_links_by_what_made_the_labels():
    """Two thousand rows of each kind; the right link of the three has the highest evidence."""
    kinds = {
        "normal": lambda rng, size: rng.normal(size=size),
        "gumbel": lambda rng, size: -np.log(rng.exponential(size=size)),  # -θ for θ ~ gumbel_l
        "cauchy": lambda rng, size: rng.standard_cauchy(size=size),
    }
    for truth, noise in kinds.items():
        X, y = rows_of(n=2000, noise=noise)
        evidences = {name: THRESHOLD(name).fit(X, y).log_evidence_ for name in kinds}
        assert max(evidences, key=evidences.get) == truth, evidences


@pytest.mark.parametrize(
    "threshold", ["cauchy", "gumbel", "gumbel_max", StudentT(df=3), stats.laplace()], ids=["c", "g", "m", "t", "l"]
)
def test_far_from_the_rows_only_the_sign_of_the_score_is_left(threshold):
    """As x grows, mean and standard deviation of the score grow alike, and the transition becomes a step."""
    X, y = rows_of(n=60)
    model = THRESHOLD(threshold, prior=Normal(scale=2.0)).fit(X, y)
    direction = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, 1.0]])
    slopes, cov = model.coef_[0], model.posterior_.cov[:2, :2]
    limit = stats.norm.cdf(direction @ slopes / np.sqrt(np.einsum("ij,jk,ik->i", direction, cov, direction)))
    for far in (1e12, 1e14, 1e16, 1e60):
        assert_allclose(model.predict_proba(far * direction)[:, 1], limit, rtol=1e-9)


# --- least squares ------------------------------------------------------------------------------------------


def test_least_squares_misclassifies_separable_rows_and_logistic_regression_does_not():
    """The notes' counterexample: x = 0, 1, 2, 3, 50; a threshold of 1.5 separates, least squares errs at 2."""
    x, y = np.array([[0.0], [1.0], [2.0], [3.0], [50.0]]), np.array([-1, -1, 1, 1, 1])
    line = LeastSquaresClassifier().fit(x, y)
    assert_array_equal(line.predict(x) == y, [True, True, False, True, True])
    assert_array_equal(BayesianLogisticRegression().fit(x, y).predict(x), y)
    w, b = np.polyfit(x[:, 0], y, 1)
    assert_allclose([line.coef_[0, 0], line.intercept_[0]], [w, b], rtol=1e-10)


def test_other_targets_scale_the_line_and_change_no_decision():
    X, y = rows_of()
    one, other = LeastSquaresClassifier().fit(X, y), LeastSquaresClassifier(targets=0.6).fit(X, y)
    assert_allclose(other.decision_function(X), 0.6 * one.decision_function(X), rtol=1e-10)
    assert_array_equal(one.predict(X), other.predict(X))
    assert_allclose(other.dispersion_, 0.36 * one.dispersion_, rtol=1e-10)


def test_one_of_k_coding_is_one_regression_for_each_class():
    X, y = load_iris(return_X_y=True)
    model = LeastSquaresClassifier().fit(X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    W, *_ = np.linalg.lstsq(Z, np.where(y[:, None] == np.arange(3), 1.0, -1.0))
    assert_allclose(model.coef_, W[:-1].T, rtol=1e-8)
    assert_allclose(model.intercept_, W[-1], rtol=1e-8)
    assert_array_equal(model.predict(X), (Z @ W).argmax(axis=1))
    variance = np.linalg.solve(Z.T @ Z, np.eye(5)) * ((Z @ W)[:, 0] - np.where(y == 0, 1, -1)).var() * 150 / 145
    assert_allclose(model.posterior_.std[:5], np.sqrt(np.diag(variance)), rtol=1e-8)


def test_a_line_is_no_probability_and_its_evidence_needs_a_prior():
    X, y = rows_of()
    assert not hasattr(LeastSquaresClassifier(), "predict_proba")
    with pytest.raises(NoEvidenceError):
        _ = LeastSquaresClassifier().fit(X, y).log_evidence_
    assert np.isfinite(LeastSquaresClassifier(prior="empirical").fit(X, y).log_evidence_)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("logisitc", "logistic"),
        (3.0, "threshold must be"),
        (None, "threshold must be"),
        (stats.norm, "freeze|call"),
        (stats.poisson(3), "continuous|density|discrete"),
        (stats.uniform(), "whole line"),
        (stats.expon(), "whole line"),
        (StudentT(df=3, scale=7.0), "scipy.stats.t"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused_with_the_reason(threshold, message):
    with pytest.raises(InputError, match=message):
        THRESHOLD(threshold).fit(*rows_of())


def test_more_than_two_classes_send_to_softmax():
    with pytest.raises(InputError, match="softmax"):
        THRESHOLD("cauchy").fit(*load_iris(return_X_y=True))


def test_separated_classes_without_a_prior_are_refused_for_every_threshold():
    x, y = np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1]
    for threshold in ("normal", "cauchy", "gumbel", stats.laplace()):
        with pytest.raises(SeparationError, match="x0"):
            THRESHOLD(threshold, prior=None).fit(x, y)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"targets": 0}, "positive"),
        ({"targets": -1.0}, "positive"),
        ({"targets": np.inf}, "positive"),
        ({"prior": Jeffreys()}, "prior=None"),
    ],
)
def test_least_squares_choices_that_make_no_sense_are_refused(choices, message):
    with pytest.raises(InputError, match=message):
        LeastSquaresClassifier(**choices).fit(*rows_of())
