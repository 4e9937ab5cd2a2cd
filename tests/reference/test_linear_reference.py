"""Agreement with numbers made by other tools: R and mpmath (../shared/reference, ../shared/data/reference).

Tolerances are those that `shared/reference/README.md` asks for. References have the intercept first, credibly last.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal, separation
from credibly.errors import SeparationError
from helpers import SHARED, SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

MODELS = {
    "logit": BayesianLogisticRegression,
    "probit": BayesianProbitRegression,
    "softmax": BayesianLogisticRegression,
}


def cases(name: str) -> dict:
    return load_refload().load(name)["cases"] if SHARED_IS_HERE else {}


def over(name: str):
    found = cases(name)
    return pytest.mark.parametrize("case", found.values(), ids=found.keys())


def over_links(name: str):
    """Every case with every link that is stored for it and that the linear models have."""
    found = {
        f"{key}-{link}": (case, link) for key, case in cases(name).items() for link in case["links"] if link in MODELS
    }
    return pytest.mark.parametrize(("case", "link"), found.values(), ids=found.keys())


def intercept_last(vector) -> np.ndarray:
    return np.roll(np.asarray(vector, dtype=float), -1, axis=-1)


def square_intercept_last(matrix) -> np.ndarray:
    return np.roll(np.asarray(matrix, dtype=float), (-1, -1), axis=(-2, -1))


def without_ones(X: np.ndarray) -> np.ndarray:
    assert (X[:, 0] == 1).all()
    return X[:, 1:]


def labelled(X, y, w):
    """Proportions of trials as two weighted rows each: y = 1 for the successes, y = 0 for the failures."""
    if set(np.unique(y)) <= {0.0, 1.0}:
        return X, y.astype(int), w
    rows = np.vstack([X, X])
    labels = np.repeat([1, 0], len(y))
    counts = np.concatenate([w * y, w * (1 - y)])
    return rows[counts > 0], labels[counts > 0], counts[counts > 0]


# --- maximum likelihood -------------------------------------------------------------------------------------


@over_links("glm_binary")
def test_maximum_likelihood_agrees_with_fifty_digit_newton(case, link, refload):
    X, y, w = labelled(*refload.design(case["design"]))
    stored = case["links"][link]
    model = MODELS[link](prior=None).fit(without_ones(X), y, sample_weight=w)
    assert_allclose(model.posterior_.mean, intercept_last(stored["coef"]), rtol=1e-8)
    assert_allclose(model.posterior_.std, intercept_last(stored["se_observed_information"]), rtol=1e-8)
    assert_allclose(model.log_likelihood_, stored["loglik_bernoulli"], rtol=1e-10)


@over_links("glm_binary")
def test_information_criteria_are_those_of_r_where_every_row_is_one_trial(case, link, refload):
    X, y, w = labelled(*refload.design(case["design"]))
    model = MODELS[link](prior=None).fit(without_ones(X), y, sample_weight=w)
    m = X.shape[1]
    assert_allclose(model.aic_, -2 * case["links"][link]["loglik_bernoulli"] + 2 * m, rtol=1e-10)
    assert_allclose(model.bic_, -2 * case["links"][link]["loglik_bernoulli"] + m * np.log(len(y)), rtol=1e-10)
    if case["n_rows"] == case["n_trials"]:
        assert_allclose(model.aic_, case["links"][link]["aic"], rtol=1e-10)
        assert_allclose(model.bic_, case["links"][link]["bic_R"], rtol=1e-10)


@over("glm_binary")
def test_the_logits_standard_errors_covariances_and_wald_statistics_are_rs(case, refload):
    X, y, w = labelled(*refload.design(case["design"]))
    stored = case["links"]["logit"]  # canonical: expected and observed information agree
    model = BayesianLogisticRegression(prior=None).fit(without_ones(X), y, sample_weight=w)
    cov = square_intercept_last(stored["cov_expected_information"])
    assert_allclose(model.posterior_.cov, cov, rtol=1e-7, atol=1e-8 * np.abs(cov).max())
    assert_allclose(model.summary().to_frame()["z"], intercept_last(stored["z"]), rtol=1e-8)


@over("glm_multinomial")
def test_multinomial_maximum_likelihood_agrees_with_fifty_digit_newton(case, refload):
    X, y, w = refload.design(case["design"])
    model = BayesianLogisticRegression(prior=None).fit(without_ones(X), y, sample_weight=w)
    K, D = len(case["levels"]), X.shape[1]
    W, cov = model.posterior_.mean.reshape(K, D), model.posterior_.cov.reshape(K, D, K, D)
    against_first = np.array([np.diag(cov[k, :, k] + cov[0, :, 0] - cov[k, :, 0] - cov[0, :, k]) for k in range(1, K)])
    assert_allclose(W[1:] - W[0], intercept_last(case["coef"]), rtol=1e-8)
    assert_allclose(np.sqrt(against_first), intercept_last(case["se"]), rtol=1e-8)
    assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    assert_allclose(model.log_likelihood_, case["loglik"], rtol=1e-10)
    assert_allclose(model.aic_, case["aic"], rtol=1e-10)
    assert_allclose(model.predict_proba(without_ones(X))[:5], case["probabilities_first_rows"], rtol=1e-8)
    m = (K - 1) * D
    if (w == 1).all():
        assert_allclose(model.bic_, case["bic"], rtol=1e-10)
    else:  # the contract counts rows of the table, the reference the trials that they stand for
        assert_allclose(model.bic_, case["bic"] + m * (np.log(len(y)) - np.log(case["n"])), rtol=1e-10)


# --- R's glm on other tables --------------------------------------------------------------------------------


def r_fits() -> dict:
    """Fits of plain columns, one trial a row, with the columns and the response they name."""
    if not SHARED_IS_HERE:
        return {}
    responses = {
        "pima_tr": ("type", "Yes"),
        "chdage": ("chd", "Yes"),
        "plasma": ("ESR", "ESR > 20"),
        "senility": ("s", "1"),
        "donner": ("survival", "1"),
        "smarket": ("Direction", "Up"),
        "saheart": ("chd", "1"),
        "default": ("default", "Yes"),
    }
    found = {}
    for fit in load_refload().load("glm_r", SHARED / "data" / "reference")["fits"]:
        link = fit["name"].rsplit("-", 1)[1]
        table = load_refload().table(f"{fit['data']}.csv")
        if link in MODELS and fit["data"] in responses and set(fit["terms"][1:]) <= set(table):
            column, positive = responses[fit["data"]]
            found[f"{fit['name']}: {fit['model']}"] = (fit, link, table, column, positive)
    return found


R_FITS = r_fits()


@pytest.mark.parametrize(("fit", "link", "table", "column", "positive"), R_FITS.values(), ids=R_FITS.keys())
def test_maximum_likelihood_agrees_with_r(fit, link, table, column, positive):
    X = np.column_stack([np.array(table[term], dtype=float) for term in fit["terms"][1:]])
    y = np.array([value == positive for value in table[column]]).astype(int)
    model = MODELS[link](prior=None).fit(X, y)
    assert_allclose(model.posterior_.mean, intercept_last(fit["coef"]), rtol=1e-6)  # R's are printed to 12 digits
    assert_allclose(model.log_likelihood_, fit["loglik"], rtol=1e-10)
    assert_allclose([model.aic_, model.bic_], [fit["aic"], fit["bic"]], rtol=1e-10)
    if link == "logit":
        assert_allclose(model.posterior_.std, intercept_last(fit["se"]), rtol=1e-6)


# --- Laplace ------------------------------------------------------------------------------------------------


def prior_of(case: dict, K: int = 1) -> Normal:
    D = len(case["coef_names"])
    mean = intercept_last(np.reshape(case["m0"], (K, D))).reshape(-1)
    if "S0" in case:
        return Normal(mean=mean, cov=square_intercept_last(case["S0"]))
    return Normal(mean=mean, cov=np.diag(intercept_last(np.reshape(case["S0_diagonal"], (K, D))).reshape(-1)))


@over("bayes_binary")
def test_mode_covariance_and_evidence_agree_with_forty_digits(case, refload):
    X, y, w = labelled(*refload.design(case["design"]))
    model = MODELS[case["link"]](prior=prior_of(case), inference="laplace").fit(without_ones(X), y, sample_weight=w)
    cov = square_intercept_last(case["laplace_cov"])
    assert_allclose(model.posterior_.mean, intercept_last(case["MAP"]), rtol=1e-8)
    assert_allclose(model.posterior_.cov, cov, rtol=1e-8, atol=1e-9 * np.abs(cov).max())
    assert_allclose(model.log_likelihood_, case["loglik_at_MAP"], rtol=1e-8)
    assert_allclose(model.log_evidence_, case["laplace_log_evidence"], rtol=1e-8)


@over("bayes_softmax")
def test_softmax_mode_covariance_and_evidence_agree_with_forty_digits(case, refload):
    X, y, _ = refload.design(case["design"])
    K, D = len(case["levels"]), X.shape[1]
    model = BayesianLogisticRegression(prior=prior_of(case, K), inference="laplace").fit(without_ones(X), y)
    cov = np.roll(np.reshape(case["laplace_cov"], (K, D, K, D)), (-1, -1), axis=(1, 3)).reshape(K * D, K * D)
    mode = intercept_last(np.reshape(case["MAP"], (K, D))).reshape(-1)
    assert_allclose(model.posterior_.mean, mode, rtol=1e-8, atol=1e-9)
    assert_allclose(model.posterior_.cov, cov, rtol=1e-8, atol=1e-9 * np.abs(cov).max())
    assert_allclose(model.log_likelihood_, case["loglik_at_MAP"], rtol=1e-8)
    assert_allclose(model.log_evidence_, case["laplace_log_evidence"], rtol=1e-8)


BAYES_LINEAR = {f"{data}_{link}": (data, link) for data in ("saheart", "spector") for link in ("logit", "probit")}


@pytest.mark.parametrize(("data", "link"), BAYES_LINEAR.values(), ids=BAYES_LINEAR.keys())
def test_laplace_agrees_with_the_stored_bayesian_regressions(data, link, refload):
    """Columns (x - mean) / (2 sd), prior sd 20 for the intercept and 5 for the slopes."""
    case = refload.load("bayes_linear", SHARED / "data" / "reference")["cases"][f"{data}_{link}"]
    frame = pd.read_csv(SHARED / "data" / f"{data}.csv")
    frame = frame.replace({"Present": 1, "Absent": 0}).infer_objects() if data == "saheart" else frame
    values = frame.to_numpy(dtype=float)
    X, y = values[:, :-1], values[:, -1].astype(int)
    X = 0.5 * (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    model = MODELS[link](prior=Normal(scale=5.0, intercept_scale=20.0), inference="laplace").fit(X, y)
    assert_allclose(model.log_evidence_, case["laplace_logZ"], rtol=1e-8)
    assert_allclose(model.posterior_.mean, intercept_last(case["map"]), rtol=1e-6, atol=1e-7)  # their optimiser's
    assert_allclose(model.posterior_.std, intercept_last(case["laplace_sd"]), rtol=1e-6)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_laplace_agrees_with_the_pima_benchmark_of_chopin_and_ridgway(link, refload):
    case = refload.load("bayes_linear", SHARED / "data" / "reference")["cases"][f"chopinridgway_pima532_{link}"]
    X, y = pima()
    X = 0.5 * (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    model = MODELS[link](prior=Normal(scale=5.0, intercept_scale=20.0), inference="laplace").fit(X, y)
    assert_allclose(model.log_evidence_, case["laplace_logZ"], rtol=1e-8)
    assert_allclose(model.posterior_.std, intercept_last(case["laplace_sd"]), rtol=1e-6)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("tau", [0.01, 1.0])
@pytest.mark.parametrize(
    "columns", [["npreg", "glu", "bmi", "ped"], ["npreg", "glu", "bmi", "ped", "age"]], ids=["M1", "M2"]
)
def test_laplace_agrees_with_the_pima_models_of_friel_and_wyse(columns, tau, ddof, refload):
    name = f"frielwyse_pima532_M{len(columns) - 3}_tau{tau}_ddof{ddof}"
    case = refload.load("bayes_linear", SHARED / "data" / "reference")["cases"][name]
    X, y = pima(columns)
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=ddof)
    model = BayesianLogisticRegression(
        prior=Normal(scale=tau**-0.5, intercept_scale=tau**-0.5), inference="laplace"
    ).fit(X, y)
    assert_allclose(model.log_evidence_, case["laplace_logZ"], rtol=1e-8)
    assert_allclose(model.posterior_.mean, intercept_last(case["map"]), rtol=1e-6)  # their optimiser's


def pima(columns=("npreg", "glu", "bp", "skin", "bmi", "ped", "age")) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.concat([pd.read_csv(SHARED / "data" / f"pima_{part}.csv") for part in ("tr", "te")])
    return frame[list(columns)].to_numpy(float), (frame["type"] == "Yes").to_numpy(int)


# --- separation ---------------------------------------------------------------------------------------------


def frame_of(case: dict, refload) -> tuple[pd.DataFrame, np.ndarray]:
    X, y, _ = refload.design(case["design"])
    return pd.DataFrame(without_ones(X), columns=case["coef_names"][1:]), y.astype(int)


@over("separation")
def test_separated_data_are_recognised_with_the_columns_to_blame(case, refload):
    X, y = frame_of(case, refload)
    found = separation(X, y)
    assert found
    assert found.kind == ("complete" if case["complete_separation"] else "quasi-complete")
    assert set(found.columns) <= set(case["infinite_ml_coefficients"])
    # complete: a direction exists with every row strictly on its side (the stored one leaves a row on the line)
    assert len(found.rows) == (len(y) if case["complete_separation"] else case["rows_strictly_separated_by_lp"])
    f = np.column_stack([X, np.ones(len(X))]) @ found.direction * (2 * y - 1)
    assert f.min() >= -1e-9 * np.abs(f).max()


@over("separation")
@pytest.mark.parametrize("model", [BayesianLogisticRegression, BayesianProbitRegression])
def test_maximum_likelihood_on_separated_data_is_refused_and_names_the_column(case, model, refload):
    X, y = frame_of(case, refload)
    with pytest.raises(SeparationError) as caught:
        model(prior=None).fit(X, y)
    assert isinstance(caught.value, ValueError)
    assert any(f"'{name}'" in str(caught.value) for name in case["infinite_ml_coefficients"])
    assert "prior" in str(caught.value)


@over("glm_binary")
def test_data_with_a_maximum_likelihood_estimate_are_not_called_separated(case, refload):
    X, y, _ = labelled(*refload.design(case["design"]))
    assert separation(without_ones(X), y).kind == "none"


def test_separated_data_have_a_finite_answer_with_a_prior(refload):
    X, y = frame_of(cases("separation")["iris_setosa"], refload)
    model = BayesianLogisticRegression().fit(X, y)
    assert np.isfinite(model.log_evidence_)
    assert (model.predict(X) == y).all()
