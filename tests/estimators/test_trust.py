"""`certify`, and inference by "ep", "skew" and "auto", as a user meets them."""

import html
import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    Jeffreys,
    NoisyThresholdClassifier,
    Normal,
    Status,
    StudentT,
)
from credibly.errors import (
    ConvergenceWarning,
    DataWarning,
    ImproperPriorError,
    InputError,
    NewClassError,
    NotDefinedError,
    UnreliableWarning,
)
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.kernels import RBF

LOGIT, PROBIT, GP = BayesianLogisticRegression, BayesianProbitRegression, GaussianProcessClassifier
WAYS = ("ep", "skew", "auto")
EVERY_WAY = pytest.mark.parametrize("inference", WAYS)
BY_DRAWS = pytest.mark.parametrize("inference", ["skew", "auto"])


def toy(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    return X, (X @ [1.0, -0.1, 5.0] - 4.5 + rng.logistic(size=n) > 0).astype(int)


def three(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X @ [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]] + rng.gumbel(size=(n, 3))).argmax(axis=1)


def small():
    """Few rows and a skewed posterior: "auto" must climb."""
    return np.array([-2.0, -1.0, 0.0, 1.0, 5.0])[:, None], np.array([0, 0, 0, 1, 1])


def hopeless():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 100))
    return X, (X[:, :5].sum(axis=1) + rng.logistic(size=300) > 0).astype(int)


def gp_model(**choices):
    return GP(RBF(1.0), optimize=False, **choices)


@pytest.fixture(scope="module")
def certified():
    X, y = toy()
    model = LOGIT(prior=Normal()).fit(X, y)
    return model, model.certify(X, y), X, y


@pytest.fixture(scope="module")
def unreliable():
    X, y = hopeless()
    return LOGIT(prior=Normal()).fit(X, y).certify(X, y), X


# --- the certificate ----------------------------------------------------------------------------------------


def test_a_certificate_has_the_attributes_of_the_contract(certified):
    model, certificate, X, _ = certified
    for name in ("khat", "ess", "shift", "log_evidence", "log_evidence_se"):
        assert isinstance(getattr(certificate, name), float) and np.isfinite(getattr(certificate, name)), name
    assert isinstance(certificate.draws, int) and 1 < certificate.ess <= certificate.draws
    assert certificate.reliable is (certificate.khat <= 0.7) is True
    assert certificate.mean.shape == certificate.std.shape == model.posterior_.mean.shape == (4,)
    assert_allclose(certificate.shift, np.abs((certificate.mean - model.posterior_.mean) / certificate.std).max())
    assert 0 < certificate.log_evidence_se < 0.02 and (certificate.std > 0).all()
    assert certificate.predict_proba(X[:7]).shape == (7, 2) and certificate.predict_khat(X[:7]).shape == (7,)


def test_corrected_probabilities_are_probabilities(certified):
    model, certificate, X, _ = certified
    p = certificate.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(np.exp(certificate.predict_log_proba(X)), p, rtol=1e-14)
    assert_allclose(p, model.predict_proba(X), atol=0.1)  # corrected, not another model
    far = certificate.predict_log_proba([[1e4, 0.0, 0.0]])[0]
    assert np.isfinite(far).all() and far.min() < -5


@pytest.mark.parametrize(
    ("model", "rows", "shape"),
    [
        (LOGIT(prior=Normal()), three, (9,)),
        (LOGIT(prior=Normal(), multi_class="softmax"), toy, (8,)),
        (LOGIT(prior=Normal(), fit_intercept=False), toy, (3,)),
        (PROBIT(), toy, (4,)),
        (LOGIT(prior="ard"), toy, (4,)),
        (LOGIT(prior=StudentT()), toy, (4,)),
        (LOGIT(prior=Normal(), label_noise=0.05), toy, (4,)),
        (LOGIT(prior=Normal(), inference="adf"), toy, (4,)),
        (LOGIT(prior=Normal(), inference="ep"), toy, (4,)),
        (LOGIT(prior=Normal(), inference="skew"), toy, (4,)),
        (LOGIT(prior=Normal(), inference="auto"), toy, (4,)),
        (NoisyThresholdClassifier("gumbel", prior=Normal()), toy, (4,)),
        (gp_model(), toy, (60,)),
        (gp_model(inference="ep", likelihood="probit"), toy, (60,)),
        (gp_model(), three, (90, 3)),
    ],
    ids=lambda it: repr(it) if hasattr(it, "fit") else None,
)
def test_every_model_is_certified_in_its_own_layout(model, rows, shape):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a prior scale at its bound, or a skewed posterior
        model = clone(model).fit(X, y)
    certificate = model.certify(X, y, draws=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableWarning)
        assert certificate.mean.shape == certificate.std.shape == shape
        p = certificate.predict_proba(X[:4])
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p.shape == (4, len(np.unique(y))) and certificate.predict_khat(X[:4]).shape == (4,)
    assert certificate.draws == 2000 and certificate.reliable is bool(certificate.khat <= 0.7)


def test_a_certificate_of_a_linear_model_takes_sparse_rows_and_frames_weights():
    X, y = toy()
    X[np.abs(X) < 0.3] = 0.0
    weight = np.random.default_rng(0).random(60) + 0.5
    model = LOGIT(prior=Normal()).fit(X, y, sample_weight=weight)
    dense = model.certify(X, y, sample_weight=weight)
    sparse = model.certify(csr_array(X), y, sample_weight=weight)
    assert_allclose(sparse.log_evidence, dense.log_evidence, rtol=1e-9)
    assert_allclose(sparse.mean, dense.mean, rtol=1e-6)
    assert_allclose(sparse.predict_proba(csr_array(X)), dense.predict_proba(X), rtol=1e-6)


def test_rows_that_count_twice_are_rows_twice():
    X, y = toy()
    weight = np.repeat([1.0, 2.0], 30)
    weighted = LOGIT(prior=Normal()).fit(X, y, sample_weight=weight).certify(X, y, sample_weight=weight)
    rows, labels = np.vstack([X, X[30:]]), np.append(y, y[30:])
    again = LOGIT(prior=Normal()).fit(rows, labels).certify(rows, labels)
    # the frame differs a little (columns are standardised by rows), so draws do, within their error
    assert_allclose(weighted.log_evidence, again.log_evidence, atol=3 * weighted.log_evidence_se)
    assert_allclose(weighted.mean, again.mean, atol=3 * again.std.max() / np.sqrt(again.ess))


def test_the_same_state_gives_the_same_certificate():
    X, y = toy()
    model = LOGIT(prior=Normal()).fit(X, y)
    first, again = model.certify(X, y), model.certify(X, y)
    assert (first.khat, first.log_evidence) == (again.khat, again.log_evidence)
    assert_array_equal(first.mean, again.mean)
    other = model.certify(X, y, random_state=1)
    assert first.log_evidence != other.log_evidence
    assert_allclose(other.log_evidence, first.log_evidence, atol=4 * first.log_evidence_se)
    assert model.certify(X, y, random_state=np.random.default_rng(1), draws=400).draws == 400
    assert clone(model).set_params(random_state=1).fit(X, y).certify(X, y).log_evidence == other.log_evidence


def test_a_certificate_stays_what_it_is_when_the_model_is_fitted_again():
    X, y = toy()
    model = LOGIT(prior=Normal()).fit(X, y)
    certificate = model.certify(X, y)
    before = certificate.predict_proba(X)
    model.fit(X[:, :1], 1 - y)
    assert_array_equal(certificate.predict_proba(X), before)


@pytest.mark.parametrize("rows", [toy, small, hopeless])
@pytest.mark.parametrize("inference", ["laplace", "ep", "auto"])
def test_the_verdict_is_one_sentence_that_says_what_to_do(rows, inference):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certificate = LOGIT(prior=Normal(), inference=inference).fit(X, y).certify(X, y)
    verdict = certificate.verdict
    assert verdict.endswith(".") and len(re.findall(r"\.\s", verdict)) == 0 and len(verdict) < 300
    assert re.match(r"(You can use this model|Use the corrected numbers|Do not rely on)", verdict)
    assert verdict.startswith("Do not rely") is not certificate.reliable
    if not certificate.reliable:
        assert ("tighter prior" if inference == "auto" else "inference='auto'") in verdict
    assert f"{certificate.khat:.2f}" in verdict


def test_ep_that_hardly_moves_is_not_called_far_from_the_posterior():
    """Sixty rows, four weights: corrected or not, evidence and means agree to 0.003 nats and 0.01 sd."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X @ [1, -1, 0.5] + rng.logistic(size=60) > 0).astype(int)
    model = LOGIT(prior=Normal(), inference="ep").fit(X, y)
    for seed in range(6):
        certificate = model.certify(X, y, random_state=seed)
        assert certificate.shift < 0.02 and certificate.ess > 0.85 * certificate.draws
        assert not certificate.verdict.startswith("Do not rely"), seed


def test_a_certificate_prints_and_shows_in_a_notebook(certified, unreliable):
    for certificate in (certified[1], unreliable[0]):
        text = repr(certificate)  # without a warning
        assert certificate.verdict in text and f"k-hat {certificate.khat:.2f}" in text
        assert f"{certificate.draws} draws" in text
        assert certificate._repr_html_() == "<p>" + html.escape(text).replace("\n", "<br>") + "</p>"
        assert ("corrected log evidence" in text) is certificate.reliable


def test_corrected_numbers_of_an_unreliable_certificate_warn(unreliable):
    certificate, X = unreliable
    assert certificate.khat > 1.0 and certificate.reliable is False
    for read in (
        lambda: certificate.log_evidence,
        lambda: certificate.log_evidence_se,
        lambda: certificate.mean,
        lambda: certificate.std,
        lambda: certificate.predict_proba(X[:2]),
        lambda: certificate.predict_log_proba(X[:2]),
    ):
        with pytest.warns(UnreliableWarning, match=r"not reliable: k-hat is ([\d.]+|inf), above 0\.7") as caught:
            read()
        assert len(caught) == 1 and caught[0].filename == __file__
    assert (certificate.predict_khat(X[:2]) > 0.7).all()  # a diagnosis, not a corrected number


def test_a_reliable_certificate_does_not_warn(certified):
    _, certificate, X, _ = certified
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = certificate.log_evidence, certificate.mean, certificate.std, certificate.predict_proba(X)


def test_a_classifiers_certificate_has_no_mean_of_a_target_and_a_regressions_no_classes():
    X, y = toy()
    for model in (LOGIT(prior=Normal()), gp_model()):
        with pytest.raises(NotDefinedError, match="predict_proba"):
            model.fit(X, y).certify(X, y, draws=400).predict(X)
    counts = np.random.default_rng(0).poisson(2.0, size=60)
    glm = BayesianGLM("poisson", prior=Normal()).fit(X, counts).certify(X, counts, draws=400)
    assert glm.predict(X).shape == (60,) and (glm.predict(X) > 0).all()
    with pytest.raises(NotDefinedError, match=r"predict\(X\)"):
        glm.predict_proba(X)
    assert (glm.predict_khat(X) < 0.7).all()


# --- are these the rows of the fit? -------------------------------------------------------------------------


def test_the_rows_of_the_fit_in_another_order_are_the_same_data(certified):
    model, certificate, X, y = certified
    order = np.random.default_rng(0).permutation(len(y))
    again = model.certify(X[order], y[order])
    assert_allclose(again.log_evidence, certificate.log_evidence, rtol=1e-9)


def test_the_rows_of_a_gaussian_process_in_another_order_are_the_same_data():
    X, y = toy()
    gp_model().fit(X, y).certify(X[::-1], y[::-1], draws=400)


OTHERS = {
    "fewer rows": lambda X, y: (X[:50], y[:50], None),
    "more rows": lambda X, y: (np.vstack([X, X]), np.append(y, y), None),
    "other columns": lambda X, y: (X + 0.1, y, None),
    "permuted labels": lambda X, y: (X, np.random.default_rng(1).permutation(y), None),
    "one label flipped": lambda X, y: (X, np.append(1 - y[0], y[1:]), None),
    "weights": lambda X, y: (X, y, np.full(len(y), 2.0)),
    "a row left out": lambda X, y: (X, y, np.append(0.0, np.ones(len(y) - 1))),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("inference", ["laplace", *WAYS])
def test_other_data_than_the_fits_are_told(other, inference):
    X, y = toy()
    model = LOGIT(prior=Normal(), inference=inference).fit(X, y)
    rows, labels, weight = OTHERS[other](X, y)
    with pytest.warns(DataWarning, match="not the data of the fit") as caught:
        model.certify(rows, labels, draws=400, sample_weight=weight)
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("other", ["fewer rows", "other columns", "permuted labels"])
def test_other_data_than_those_of_a_gaussian_process_or_a_regression_are_told(other):
    X, y = toy()
    rows, labels, _ = OTHERS[other](X, y)
    for model in (gp_model(), BayesianGLM("poisson", prior=Normal())):
        with pytest.warns(DataWarning, match="not the data of the fit"):
            model.fit(X, y).certify(rows, labels, draws=400)


def test_a_pickled_model_knows_its_rows_again():
    X, y = toy()
    model = pickle.loads(pickle.dumps(LOGIT(prior=Normal()).fit(X, y)))
    model.certify(X, y, draws=400)
    with pytest.warns(DataWarning):
        model.certify(X, 1 - y, draws=400)


@pytest.mark.filterwarnings("ignore:partial_fit has drifted")
@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_after_partial_fit_all_rows_are_those_of_the_fit(inference):
    X, y = toy()
    model = LOGIT(prior=Normal(), inference=inference)
    model.partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    certificate = model.certify(X, y)
    whole = LOGIT(prior=Normal()).fit(X, y).certify(X, y)
    assert certificate.reliable and whole.reliable  # one posterior, two ways to it
    error = np.hypot(certificate.log_evidence_se, whole.log_evidence_se)
    assert_allclose(certificate.log_evidence, whole.log_evidence, atol=3 * error)
    with pytest.warns(DataWarning, match="20 rows count here, 60 in the fit"):
        model.certify(X[40:], y[40:], draws=400)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, Jeffreys()], ids=repr)
@pytest.mark.parametrize("model", [LOGIT, PROBIT, lambda prior: BayesianGLM("bernoulli", prior=prior)])
def test_a_prior_that_is_no_distribution_has_no_certificate(model, prior):
    X, y = toy()
    fitted = model(prior=prior).fit(X, y)
    with pytest.raises(ImproperPriorError, match=r"prior=.*Normal\(scale=2.5\)") as caught:
        fitted.certify(X, y)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, AttributeError)


@pytest.mark.parametrize("draws", [0, -5, 10, 199, 1e3, 2.5, True, "many"])
@pytest.mark.parametrize("model", [LOGIT(prior=Normal()), gp_model()], ids=repr)
def test_too_few_draws_and_numbers_of_draws_that_are_none(model, draws):
    X, y = toy(20)
    with pytest.raises(InputError, match=r"draws must be None or a whole number of at least 256"):
        clone(model).fit(X, y).certify(X, y, draws=draws)


@pytest.mark.parametrize("draws", [256, np.int64(300), 1001])
def test_numbers_of_draws_that_will_do(draws):
    X, y = toy(20)
    for model in (LOGIT(prior=Normal()), gp_model()):
        assert model.fit(X, y).certify(X, y, draws=draws).draws == draws + draws % 2


@pytest.mark.parametrize("model", [LOGIT(), PROBIT(), BayesianGLM(), gp_model()], ids=repr)
def test_an_unfitted_model_has_no_certificate(model):
    with pytest.raises(NotFittedError):
        model.certify(*toy())


def test_one_against_the_rest_is_no_posterior_of_all_labels():
    X, y = three()
    model = gp_model(inference="ep", likelihood="probit").fit(X, y)
    with pytest.raises(NotDefinedError, match=r"against the rest.*inference='laplace'"):
        model.certify(X, y)


def test_rows_that_no_fit_would_take_are_refused():
    X, y = toy()
    model = LOGIT(prior=Normal()).fit(X, y)
    with pytest.raises(NewClassError):
        model.certify(X, y + 5)
    with pytest.raises(InputError, match="NaN"):
        model.certify(np.full_like(X, np.nan), y)
    with pytest.raises(InputError, match="2 features"):
        model.certify(X[:, :2], y)


@EVERY_WAY
@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(prior=Normal(), solver="sgd"), r'solver="sgd" does not go with it; leave solver="newton"'),
        (dict(prior=None), r"inference=.*Normal"),
        (dict(prior=Jeffreys()), r"inference=.*Jeffreys"),
        (dict(prior=Normal(), label_noise="estimate"), r"label_noise as a number"),
    ],
    ids=lambda it: repr(it)[:40],
)
def test_choices_that_do_not_go_together_are_refused(inference, choices, message):
    X, y = toy()
    with pytest.raises(InputError, match=message):
        LOGIT(inference=inference, **choices).fit(X, y)


def test_ep_is_for_one_score_a_row_and_a_normal_prior():
    X, y = three()
    for model in (LOGIT(inference="ep"), LOGIT(inference="ep", multi_class="softmax")):
        with pytest.raises(InputError, match=r"one score a row.*Use inference="):
            model.fit(X, y)
    with pytest.raises(InputError, match=r"starts from a normal distribution.*StudentT"):
        LOGIT(inference="ep", prior=StudentT()).fit(*toy())


def test_the_known_ways_are_listed():
    with pytest.raises(InputError, match=r"'laplace', 'ep', 'adf', 'adf_spherical', 'skew', 'auto'; got 'nuts'"):
        LOGIT(inference="nuts").fit(*toy())


@pytest.mark.parametrize("weight", [0.01, 0.5])
def test_parts_of_rows_do_not_go_with_ep(weight):
    X, y = toy(40)
    with pytest.raises(InputError, match=r"sample_weight 0 \(left out\) or at least 1.*the first 0\.\d+ in row 0"):
        LOGIT(prior=Normal(), inference="ep").fit(X, y, sample_weight=np.full(40, weight))


# --- EP, the skew correction and the ladder -----------------------------------------------------------------

MODELS = [
    LOGIT(prior=Normal()),
    LOGIT(),
    LOGIT(prior="ard", fit_intercept=False),
    PROBIT(prior=Normal()),
    PROBIT(prior=Normal(), label_noise=(0.05, 0.02)),
    NoisyThresholdClassifier("cauchy", prior=Normal()),
    NoisyThresholdClassifier("gumbel", prior=Normal()),
]
EVERY = pytest.mark.parametrize("model", MODELS, ids=repr)


def fitted(model, inference, X, y, **choices):
    """Fitted, with what is said of scales at their bound and of skewed posteriors left to `status_`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(inference=inference, **choices).fit(X, y)


@EVERY
@EVERY_WAY
def test_everything_that_follows_from_a_posterior_is_there(model, inference):
    X, y = toy()
    model = fitted(model, inference, X, y)
    q, M = model.posterior_, 3 + model.fit_intercept
    assert q.mean.shape == q.std.shape == (M,) and q.cov.shape == (M, M)
    assert_allclose(np.sqrt(np.diag(q.cov)), q.std, rtol=1e-9)
    low, high = q.interval(0.9).T
    assert (low < q.mean).all() and (q.mean < high).all()
    assert q.sample(np.random.default_rng(0), 5).shape == (5, M)
    assert_allclose(np.append(model.coef_, model.intercept_)[:M], q.mean)
    assert model.log_evidence_ < 0 and isinstance(model.log_evidence_, float)
    assert isinstance(model.log_evidence_se_, float) and 0 < model.effective_parameters_ < 4
    assert_allclose(model.log_evidence_, model.log_likelihood_ + model.occam_factor_)
    assert hasattr(model, "rung_") is (inference == "auto")
    assert np.isfinite([model.bic_, model.aic_]).all()
    assert list(model.summary().to_frame()["mode"]) == pytest.approx(list(q.mean))


@EVERY
@EVERY_WAY
def test_predictions_are_probabilities(model, inference):
    X, y = toy()
    model = fitted(model, inference, X, y)
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


@BY_DRAWS
def test_predictions_of_three_classes_have_the_shapes_of_the_contract(inference):
    X, y = three()
    model = fitted(LOGIT(prior=Normal()), inference, X, y)
    p = model.predict_proba(X)
    assert p.shape == (90, 3) and model.posterior_.mean.shape == (9,)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12 if model.log_evidence_se_ else 1e-9)
    low, high = np.moveaxis(model.predict_interval(X), 2, 0)
    assert low.shape == (90, 3) and ((low < p) & (p < high))[(p > 0.1) & (p < 0.9)].all()
    mean, cov = model.predict_latent(X[:5])
    assert mean.shape == (5, 3) and cov.shape == (5, 3, 3)
    assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)


def test_two_forced_softmax_classes_give_one_interval():
    X, y = toy()
    model = fitted(LOGIT(prior=Normal(), multi_class="softmax"), "skew", X, y)
    low, high = model.predict_interval(X).T
    assert low.shape == (60,) and (low < high).all()


def test_intervals_of_weighted_draws_are_equal_tailed():
    """A tail of 5 in 100 draws on either side, weights counted, for the weights and for the probabilities."""
    X, y = small()
    model = fitted(LOGIT(prior=Normal()), "skew", X, y)
    q = model.posterior_
    low, high = q.interval(0.9).T
    for end, share in ((low, 0.05), (high, 0.95)):
        below = ((q.data.x <= end) * q.data.weights[:, None]).sum(axis=0)
        assert_allclose(below, share, atol=2 * q.data.weights.max())  # interpolated between two draws
    assert_allclose(q.positive, (q.data.weights[:, None] * (q.data.x > 0)).sum(axis=0))
    ends = model.predict_interval([[0.5]], 0.9)[0]
    p = expit(q.data.x @ [0.5, 1.0])
    assert_allclose([(q.data.weights * (p <= end)).sum() for end in ends], [0.05, 0.95], atol=2 * q.data.weights.max())


@pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
def test_an_evidence_that_is_not_drawn_has_no_standard_error(inference):
    assert LOGIT(prior=Normal(), inference=inference).fit(*toy()).log_evidence_se_ == 0.0


@pytest.mark.parametrize("prior", ["empirical", "ard"])
@EVERY_WAY
def test_learnt_scales_are_those_of_laplace(prior, inference):
    X, y = toy()
    laplace, other = (fitted(LOGIT(prior=prior), it, X, y) for it in ("laplace", inference))
    assert_allclose(other.prior_scale_, laplace.prior_scale_, rtol=1e-9)
    again = fitted(LOGIT(prior=other.prior_), inference, X, y)
    assert_allclose(again.log_evidence_, other.log_evidence_, atol=3 * other.log_evidence_se_ + 1e-6)


def test_auto_climbs_only_as_far_as_it_must():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=2000) > 0).astype(int)
    easy = LOGIT(prior=Normal(), inference="auto").fit(X, y)
    plain = LOGIT(prior=Normal()).fit(X, y)
    assert easy.rung_ == "laplace" and 0 < easy.log_evidence_se_ < 0.01
    assert_array_equal(easy.posterior_.mean, plain.posterior_.mean)
    certificate = plain.certify(X, y)
    error = np.hypot(easy.log_evidence_se_, certificate.log_evidence_se)
    assert_allclose(easy.log_evidence_, certificate.log_evidence, atol=3 * error)
    hard = fitted(LOGIT(prior=Normal()), "auto", *small())
    assert hard.rung_ in {"skew", "ep", "importance"}


def test_auto_says_when_nothing_is_near_enough():
    X, y = hopeless()
    with pytest.warns(ConvergenceWarning, match="too far from every approximation tried") as caught:
        model = LOGIT(prior=Normal(), inference="auto").fit(X, y)
    assert len(caught) == 1 and model.status_ is Status.UNTRUSTWORTHY and not model.status_.good
    assert model.rung_ in {"skew", "ep"} and np.isnan(model.log_evidence_se_)  # no error of what is not corrected
    with pytest.warns(ConvergenceWarning, match="too far"):
        skewed = LOGIT(prior=Normal(), inference="skew").fit(X, y)
    assert skewed.log_evidence_ == LOGIT(prior=Normal()).fit(X, y).log_evidence_  # not one that cannot be relied on


def test_the_summary_says_how_the_posterior_was_found():
    X, y = toy()
    auto = fitted(LOGIT(prior=Normal()), "auto", X, y)
    assert f"used '{auto.rung_}'" in str(auto.summary())
    skew = fitted(LOGIT(prior=Normal()), "skew", X, y)
    assert "skew" in str(skew.summary()) and "standard error" in str(skew.summary())
    assert "`mode` is the mean" in str(skew.summary())
    ep = fitted(LOGIT(prior=Normal()), "ep", X, y)
    assert "standard error" not in str(ep.summary()) and "`mode` is the mean" in str(ep.summary())


@EVERY_WAY
def test_tests_and_robust_covariances_still_work(inference):
    X, y = toy()
    model = fitted(LOGIT(prior=Normal()), inference, X, y)
    assert 0 < model.wald_test("x0").pvalue < 1
    assert model.covariance("robust").shape == (4, 4)
    assert_allclose(model.covariance("model"), model.posterior_.cov, rtol=1e-6)
    assert model.loo_log_proba_.shape == (60,) and (model.loo_log_proba_ < 0).all()


# --- life cycle ---------------------------------------------------------------------------------------------


@EVERY
@EVERY_WAY
def test_fitting_again_and_a_pickled_copy_give_the_same_numbers(model, inference):
    X, y = toy()
    first = fitted(model, inference, X, y)
    again, saved = fitted(model, inference, X, y), pickle.loads(pickle.dumps(first))
    for other in (again, saved):
        assert_array_equal(other.predict_log_proba(X), first.predict_log_proba(X))
        assert_array_equal(other.posterior_.interval(), first.posterior_.interval())
        assert other.log_evidence_ == first.log_evidence_
        assert_array_equal(other.log_evidence_se_, first.log_evidence_se_)
        assert other.status_ is first.status_
    copy = clone(first)
    assert not hasattr(copy, "posterior_") and copy.get_params().keys() == first.get_params().keys()


def test_a_saved_skewed_model_holds_no_rows_and_says_so():
    X, y = toy(2000)
    model = fitted(LOGIT(prior=Normal()), "skew", X, y)
    w = model.posterior_.mean
    assert np.isfinite(model.posterior_.logpdf(w))
    saved = pickle.loads(pickle.dumps(model))
    with pytest.raises(NotDefinedError, match="no density at hand"):
        saved.posterior_.logpdf(w)
    assert np.isfinite(model.posterior_.logpdf(w))  # the model itself still has it
    assert saved.posterior_.target is None


def test_importance_weights_have_no_density():
    X, y = three(30)  # a softmax has no EP: importance weights come next
    model = fitted(LOGIT(prior=Normal()), "auto", X, y)
    assert model.rung_ == "importance" and 0 < model.log_evidence_se_ < 0.1 and model.status_.good
    with pytest.raises(NotDefinedError, match="no density at hand"):
        model.posterior_.logpdf(model.posterior_.mean)


@BY_DRAWS
def test_another_random_state_gives_other_draws_of_the_same_posterior(inference):
    X, y = small()
    models = [fitted(LOGIT(prior=Normal()), inference, X, y, random_state=seed) for seed in (0, 1)]
    gap = np.abs(models[0].posterior_.mean - models[1].posterior_.mean) / models[0].posterior_.std
    assert gap.max() < 0.15  # some thousand draws, weighted


@EVERY_WAY
def test_sample_weights_count_rows(inference):
    X, y = toy()
    counts = np.repeat([1, 2, 3], 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = LOGIT(prior=Normal(), inference=inference).fit(X, y, sample_weight=counts)
        copies = LOGIT(prior=Normal(), inference=inference).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    if inference == "ep":
        assert_allclose(weighted.posterior_.mean, copies.posterior_.mean, rtol=1e-6)
        assert_allclose(weighted.log_evidence_, copies.log_evidence_, rtol=1e-9)
    else:  # by other draws: the frame is another
        assert_allclose(weighted.log_evidence_, copies.log_evidence_, atol=0.03)
        assert_allclose(weighted.posterior_.mean, copies.posterior_.mean, atol=0.1 * copies.posterior_.std.max())


@EVERY_WAY
def test_rows_of_weight_zero_are_left_out(inference):
    X, y = toy()
    counts = (np.arange(60) % 3 > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LOGIT(prior=Normal(), inference=inference).fit(X, y, sample_weight=counts)
        some = LOGIT(prior=Normal(), inference=inference).fit(X[counts > 0], y[counts > 0])
    assert model.status_ is some.status_
    assert_allclose(model.log_evidence_, some.log_evidence_, atol=0.03 if inference != "ep" else 1e-7)


@EVERY_WAY
def test_sparse_rows_give_what_dense_rows_give(inference):
    X, y = toy()
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (fitted(LOGIT(prior=Normal()), inference, rows, y) for rows in (X, csr_array(X)))
    # sparse columns are not centred, so draws of other coordinates, and "auto" may stop at another rung: EP alone is
    # equal, draws have a sampling error, and rungs differ by Laplace's own error of some 0.1
    tol = {"ep": 1e-6, "skew": 0.03, "auto": 0.1}[inference]
    assert_allclose(sparse.log_evidence_, dense.log_evidence_, atol=tol)
    assert_allclose(sparse.predict_proba(csr_array(X)), dense.predict_proba(X), atol=tol)


@EVERY_WAY
def test_partial_fit_accumulates_by_the_chain_rule(inference):
    X, y = toy(120)
    model = LOGIT(prior=Normal(), inference=inference)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = model.partial_fit(X[:60], y[:60], classes=[0, 1]).log_evidence_
        se = model.log_evidence_se_
        model.partial_fit(X[60:], y[60:])
        whole = LOGIT(prior=Normal(), inference=inference).fit(X, y)
    assert model.log_evidence_ < first < 0
    assert model.log_evidence_se_ >= se
    assert model.posterior_.mean.shape == (4,)
    # Gaussians in between, and "auto" may stop at Laplace: errors of some tenths of a nat at 60 rows
    assert_allclose(model.log_evidence_, whole.log_evidence_, atol=0.2 + 3 * model.log_evidence_se_)
    gap = np.abs(model.posterior_.mean - whole.posterior_.mean) / whole.posterior_.std
    assert gap.max() < (0.1 if inference == "ep" else 0.3)
    with pytest.raises(InputError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])


@EVERY_WAY
def test_a_first_part_may_lack_a_class(inference):
    X, y = toy()
    model = LOGIT(prior=Normal(), inference=inference)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
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


def test_at_the_boundary_of_the_mode_the_averaged_probability_is_a_half_only_for_a_gaussian():
    """E-22, the third direction: the exact posterior is skewed, and so averaging over it does change a decision."""
    X, y = small()
    scale = 2.5
    prior = Normal(scale=scale, intercept_scale=scale)
    laplace = LOGIT(prior=prior).fit(X, y)
    x = -laplace.intercept_[0] / laplace.coef_[0, 0]
    exact, coarser = exact_predictive(X, y, x, scale)
    assert abs(exact - coarser) < 1e-9 and exact > 0.52  # 0.0244 above ½
    assert_allclose(laplace.predict_proba([[x]]), [[0.5, 0.5]], atol=1e-12)  # averaged or not, whatever the variance
    gap = exact - 0.5
    for model in (fitted(LOGIT(prior=prior), it, X, y) for it in WAYS):
        p = model.predict_proba([[x]])[0, 1]
        assert p > 0.5 + 0.5 * gap and abs(p - exact) < 0.25 * gap, model.inference
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
    laplace = clone(model).fit(X, y)
    assert_allclose(laplace.coef_, 0.0, atol=1e-9)
    assert_allclose(laplace.predict_proba([[1.0]])[0, 1], 0.5, atol=1e-9)
    assert abs(exact - 0.5) > 0.01
    for p in (
        fitted(model, "ep", X, y).predict_proba([[1.0]])[0, 1],
        fitted(model, "skew", X, y).predict_proba([[1.0]])[0, 1],
        laplace.certify(X, y, draws=8192).predict_proba([[1.0]])[0, 1],
    ):
        assert abs(p - exact) < 0.5 * abs(exact - 0.5)


def test_with_one_weight_the_logit_is_symmetric_about_nought():
    """log σ(f) is f/2 and an even function: where the prior takes the slope off, the posterior is symmetric."""
    X, y, prior, exact = one_weight_of_mode_nought(expit, 0.5)
    assert_allclose(exact, 0.5, atol=1e-12)
    for inference in ("laplace", *WAYS):
        model = fitted(LOGIT(prior=prior, fit_intercept=False), inference, X, y)
        assert_allclose(model.predict_proba([[1.0]])[0, 1], 0.5, atol=1e-9)


# --- scikit-learn -------------------------------------------------------------------------------------------

# --- simulation-based calibration ---------------------------------------------------------------------------

REPLICATES, ROWS, LEVEL, SIMULATION_SEED = 400, 20, 0.8, 20_250_101
COVERAGE_ERROR = 4 * np.sqrt(LEVEL * (1 - LEVEL) / REPLICATES)  # four binomial standard errors
SIMULATED = {
    "ep, logit": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="ep"),
    "ep, probit": PROBIT(prior=Normal(scale=1.0, intercept_scale=1.0), inference="ep"),
    "skew": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="skew"),
    "auto": LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0), inference="auto"),
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).partial_fit(X, y, classes=[0, 1])  # a draw of labels may lack a class


def outward(q, w):
    """P(weight < w) under the posterior, counted away from nought: uniform over the prior, if it is right."""
    drawn = isinstance(q, DrawnPosterior)
    below = (q.data.weights[:, None] * (q.data.x <= w)).sum(axis=0) if drawn else stats.norm.cdf((w - q.mean) / q.std)
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
        ranks.append(outward(model.posterior_, w))
        low, high = model.predict_interval(new, LEVEL)[0]
        probabilities.append(low <= p <= high)
    assert_allclose(np.mean(weights, axis=0), LEVEL, atol=COVERAGE_ERROR)
    assert_allclose(np.mean(probabilities), LEVEL, atol=COVERAGE_ERROR)
    assert abs(bias_of(ranks)) < 4


@pytest.mark.slow
def test_the_ranks_tell_that_laplace_lies_too_far_in():
    """So that the test above is known to bite: a mode is nearer to nought than the mean."""
    model = LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0))
    assert bias_of([outward(fitted_to(model, X, y).posterior_, w) for X, y, w, _, _ in simulated(model)]) > 4


@pytest.mark.slow
def test_corrected_laplace_is_calibrated_where_it_is_called_reliable():
    """Standardised errors of corrected means have mean nought and variance one, and probabilities their own share."""
    model = LOGIT(prior=Normal(scale=2.0, intercept_scale=2.0))
    errors, surprise, certain = [], [], []
    for X, y, w, new, p in simulated(model):
        certificate = fitted_to(model, X, y).certify(X, y)
        if not certificate.reliable:
            continue
        errors.append((w - certificate.mean) / certificate.std)
        q = certificate.predict_proba(new)[0, 1]
        surprise.append(p - q)
        certain.append(q)
    errors, n = np.array(errors), len(errors)
    assert n > 0.6 * REPLICATES
    assert_allclose(errors.mean(axis=0), 0.0, atol=4 / np.sqrt(n))
    assert_allclose(errors.var(axis=0), 1.0, atol=4 * np.sqrt(2 / n) * 1.5)  # fourth moments up to twice a Gaussian's
    assert abs(np.mean(surprise)) <= 4 * np.std(surprise) / np.sqrt(n)
