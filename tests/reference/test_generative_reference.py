"""Agreement with numbers made by other tools (R's MASS and e1071, mpmath, certified EM: ../shared), and with print.

Tolerances are those that `shared/reference/README.md` asks for. In R a class prior is "proportions" (n_c / n) or
"equal". Of the stored numbers only MASS's method="debiased" has no counterpart here.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from credibly import LinearDiscriminant, NaiveBayes, QuadraticDiscriminant
from credibly.priors import Beta, Dirichlet, NormalInverseWishart
from helpers import SHARED, SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

DISCRIMINANTS = {"lda": LinearDiscriminant, "qda": QuadraticDiscriminant}
KINDS = pytest.mark.parametrize("kind", ["lda", "qda"])
R_PRIORS = pytest.mark.parametrize("shares", ["proportions", "equal"])


def over(name: str):
    found = load_refload().load(name)["cases"] if SHARED_IS_HERE else {}
    return pytest.mark.parametrize("case", found.values(), ids=found.keys())


def rows_of(case: dict, refload) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = refload.design(case["design"])
    return X, np.array(case["levels"])[y]


def shares_of(case: dict, shares: str):
    """The class prior as R has it: fixed, not averaged over."""
    counts = np.array(case["class_counts"])
    return counts / counts.sum() if shares == "proportions" else "uniform"


def published(name: str) -> pd.DataFrame:
    return pd.read_csv(SHARED / "data" / f"{name}.csv")


# --- R's discriminants --------------------------------------------------------------------------------------


@over("generative")
@KINDS
@R_PRIORS
def test_discriminants_with_rs_divisors_are_those_of_mass(case, kind, shares, refload):
    choice = "learned" if shares == "proportions" else "uniform"
    model = DISCRIMINANTS[kind](parameters="moment", class_prior=choice).fit(*rows_of(case, refload))
    proba = model.predict_proba(case["test_points"])
    assert_allclose(proba, case["posterior_recomputed"][f"{kind} plug-in {shares}"], atol=1e-10)
    assert_allclose(proba, case["posterior_from_R"][f"{kind} plug-in {shares}"], atol=1e-10)


@over("generative")
def test_means_and_covariances_with_rs_divisors_are_rs(case, refload):
    linear, quadratic = (
        model(parameters="moment").fit(*rows_of(case, refload)) for model in (LinearDiscriminant, QuadraticDiscriminant)
    )
    pooled, each = np.array(case["pooled_cov_unbiased"]), np.array(case["class_cov_unbiased"])
    assert_allclose(linear.means_, case["class_means"], rtol=1e-10)
    assert_allclose(quadratic.means_, case["class_means"], rtol=1e-10)
    assert_allclose(linear.covariance_, pooled, rtol=1e-10, atol=1e-13 * np.abs(pooled).max())
    assert_allclose(quadratic.covariance_, each, rtol=1e-10, atol=1e-13 * np.abs(each).max())
    assert_allclose(linear.class_count_, case["class_counts"])


@over("generative")
def test_maximum_likelihood_lda_is_the_mle_method_of_mass(case, refload):
    model = LinearDiscriminant(parameters="plugin").fit(*rows_of(case, refload))
    proba = model.predict_proba(case["test_points"])
    assert_allclose(proba, case["posterior_recomputed"]["lda plug-in mle proportions"], atol=1e-10)
    assert_allclose(proba, case["posterior_from_R"]["lda plug-in mle proportions"], atol=1e-10)


@over("generative")
def test_gaussian_naive_bayes_with_rs_divisors_is_that_of_e1071(case, refload):
    model = NaiveBayes(features="gaussian", parameters="moment").fit(*rows_of(case, refload))
    proba = model.predict_proba(case["test_points"])
    assert_allclose(proba, case["posterior_recomputed"]["gaussian naive Bayes"], atol=1e-10)
    assert_allclose(proba, case["posterior_from_R"]["gaussian naive Bayes"], atol=1e-10)


@over("generative")
@KINDS
@R_PRIORS
def test_forgetting_a_row_is_the_leave_one_out_of_mass(case, kind, shares, refload):
    """CV = TRUE keeps the class prior of all rows, so it is fixed here."""
    X, y = rows_of(case, refload)
    stored = case["posterior_from_R"][f"{kind} loo {shares}"]
    model = DISCRIMINANTS[kind](parameters="moment", class_prior=shares_of(case, shares)).fit(X, y)
    for i, expected in zip(case["test_rows"], stored, strict=True):
        row, label = X[i : i + 1], y[i : i + 1]
        assert_allclose(model.forget(row, label).predict_proba(row)[0], expected, atol=1e-8)  # both update a fit
        model.partial_fit(row, label)


# --- averaging over parameters ------------------------------------------------------------------------------


@over("generative")
@KINDS
@R_PRIORS
def test_the_reference_prior_gives_the_exact_student_predictive(case, kind, shares, refload):
    model = DISCRIMINANTS[kind](prior="reference", class_prior=shares_of(case, shares)).fit(*rows_of(case, refload))
    proba = model.predict_proba(case["test_points"])
    assert_allclose(proba, case["posterior_recomputed"][f"{kind} predictive {shares}"], atol=1e-10)


@over("generative")
@KINDS
@R_PRIORS
def test_the_predictive_method_of_mass_is_not_the_student_predictive(case, kind, shares, refload):
    """A finding (../shared/reference/README.md): MASS's own formulas, retyped, give R's numbers, and those differ."""
    model = DISCRIMINANTS[kind](prior="reference", class_prior=shares_of(case, shares)).fit(*rows_of(case, refload))
    in_r = np.array(case["posterior_from_R"][f"{kind} predictive {shares}"], dtype=float)
    retyped = np.array(case["posterior_recomputed"][f"MASS formula {kind} predictive {shares}"], dtype=float)
    known = ~np.isnan(in_r)
    assert_allclose(in_r[known], retyped[known], atol=1e-12)
    gap = np.abs(model.predict_proba(case["test_points"]) - retyped).max()
    assert gap > 1e-3
    stored = case["max_abs_difference_R_recomputed"][f"{kind} predictive {shares}"]
    assert gap == pytest.approx(stored, abs=1e-8)


def niw_of(case: dict) -> NormalInverseWishart:
    prior = case["niw"]["prior"]
    return NormalInverseWishart(prior["m0"], prior["kappa0"], np.array(prior["Psi0"], dtype=float), prior["nu0"])


@over("generative")
@pytest.mark.parametrize(("kind", "stored"), [("lda", "shared"), ("qda", "separate")])
def test_the_joint_evidence_and_predictions_under_an_explicit_prior_have_all_digits(case, kind, stored, refload):
    niw = case["niw"]
    model = DISCRIMINANTS[kind](prior=niw_of(case), class_prior=Dirichlet(niw["prior"]["alpha"]))
    model.fit(*rows_of(case, refload))
    assert_allclose(model.log_evidence_, niw[f"log_evidence_joint_{stored}_cov"], rtol=1e-10)
    proba = model.predict_proba(case["test_points"])
    assert_allclose(proba, niw[f"posterior_{stored}_cov_test_points"], atol=1e-10)


@over("generative")
def test_the_evidence_is_that_of_labels_times_that_of_the_columns_of_every_class(case, refload):
    X, y = rows_of(case, refload)
    prior = niw_of(case)
    for level, expected in zip(case["levels"], case["niw"]["log_evidence_features_per_class"], strict=True):
        alone = QuadraticDiscriminant(prior=prior, class_prior="uniform").partial_fit(X[y == level], y[y == level])
        assert_allclose(alone.log_evidence_, expected, rtol=1e-10)  # one class: its labels cost nothing
    learned, equal = (
        QuadraticDiscriminant(prior=prior, class_prior=shares).fit(X, y) for shares in ("learned", "uniform")
    )
    of_labels = learned.log_evidence_ - equal.log_evidence_ - len(y) * np.log(len(case["levels"]))
    assert_allclose(of_labels, case["niw"]["log_evidence_labels_dirichlet"], rtol=1e-10)


@over("generative")
def test_posterior_parameters_of_the_first_class_have_all_digits(case, refload):
    q = QuadraticDiscriminant(prior=niw_of(case)).fit(*rows_of(case, refload)).posterior_
    stored = case["niw"]["posterior_params_class0"]
    scale = np.array(stored["Psi_n"])
    assert_allclose(q.means[0], stored["m_n"], rtol=1e-12)
    assert_allclose([q.strength[0], q.dof[0]], [stored["kappa_n"], stored["nu_n"]], rtol=1e-14)
    assert_allclose(q.metrics[0].matrix, scale, rtol=1e-10, atol=1e-12 * np.abs(scale).max())


@over("generative")
@KINDS
def test_the_joint_likelihood_and_its_information_criteria_agree(case, kind, refload):
    X, y = rows_of(case, refload)
    model = DISCRIMINANTS[kind](parameters="plugin").fit(X, y)
    stored, m = case["joint_loglik_ml"][kind], case["joint_loglik_ml"][f"{kind}_parameters"]
    assert_allclose(model.log_likelihood_, stored, rtol=1e-10)
    assert_allclose(model.bic_, -2 * stored + m * np.log(len(y)), rtol=1e-10)
    assert_allclose(model.aic_, -2 * stored + 2 * m, rtol=1e-10)


# --- categories with gaps -----------------------------------------------------------------------------------


def votes(case: dict) -> tuple[pd.DataFrame, np.ndarray]:
    frame = published(case["data"].removesuffix(".csv"))
    return frame[case["features"]], frame[case["class"]].to_numpy()


def given_shares(case: dict) -> np.ndarray:
    counts = np.array(case["class_counts"])
    return counts / counts.sum()


@over("categorical_naive_bayes")
def test_categories_without_laplaces_correction_are_those_of_e1071(case):
    X, y = votes(case)
    model = NaiveBayes(parameters="plugin").fit(X, y)
    assert model.features_ == ["categorical"] * len(case["features"])
    proba = model.predict_proba(X.iloc[case["test_rows"]])
    assert_allclose(proba, case["posterior_recomputed"]["laplace0"], atol=1e-12)
    assert_allclose(proba, case["posterior_e1071"]["laplace0"], atol=1e-12)


@over("categorical_naive_bayes")
def test_laplaces_correction_of_e1071_is_a_uniform_prior_averaged_over(case):
    X, y = votes(case)
    model = NaiveBayes(prior=Dirichlet(1.0), class_prior=given_shares(case)).fit(X, y)
    proba = model.predict_proba(X.iloc[case["test_rows"]])
    assert_allclose(proba, case["posterior_recomputed"]["laplace1"], atol=1e-12)
    assert_allclose(proba, case["posterior_e1071"]["laplace1"], atol=1e-12)


@over("categorical_naive_bayes")
def test_categories_with_all_parameters_averaged_out_are_the_default(case):
    X, y = votes(case)
    proba = NaiveBayes().fit(X, y).predict_proba(X.iloc[case["test_rows"]])
    assert_allclose(proba, case["posterior_dirichlet_1_all_parameters_integrated"], atol=1e-12)


@over("categorical_naive_bayes")
@pytest.mark.parametrize(("stored", "alpha"), [("dirichlet_1", 1.0), ("dirichlet_half", 0.5)])
def test_the_evidence_of_categories_with_gaps_has_all_digits(case, stored, alpha):
    X, y = votes(case)
    reference = case["log_evidence"][stored]
    model = NaiveBayes(prior=Dirichlet(alpha)).fit(X, y)
    assert_allclose(model.log_evidence_, reference["joint"], rtol=1e-10)
    of_columns = NaiveBayes(prior=Dirichlet(alpha), class_prior="uniform").fit(X, y).log_evidence_ + len(y) * np.log(2)
    assert_allclose(model.log_evidence_ - of_columns, reference["labels_dirichlet_1"], rtol=1e-10)
    for level, each in zip(case["levels"], reference["per_class_and_feature"], strict=True):
        for column, expected in zip(case["features"], each, strict=True):
            alone = NaiveBayes(prior=Dirichlet(alpha)).partial_fit(X.loc[y == level, [column]], y[y == level])
            assert_allclose(alone.log_evidence_, expected, rtol=1e-10)


@over("categorical_naive_bayes")
@pytest.mark.parametrize(("stored", "alpha"), [("dirichlet_1", 1.0), ("dirichlet_half", 0.5)])
def test_votes_depend_on_the_party_by_the_stored_bayes_factor(case, stored, alpha):
    """One class of all rows is the model in which columns do not depend on the label."""
    X, y = votes(case)
    reference = case["log_evidence"][stored]
    one = NaiveBayes(prior=Dirichlet(alpha)).partial_fit(X, np.zeros(len(y), dtype=int))
    null = one.log_evidence_ + reference["labels_dirichlet_1"]
    assert_allclose(null, reference["class_independent_features_plus_labels"], rtol=1e-10)
    assert NaiveBayes(prior=Dirichlet(alpha)).fit(X, y).log_evidence_ > null + 1000


@over("categorical_naive_bayes")
def test_two_levels_as_categories_or_as_a_yes_and_no_are_one_model(case):
    X, y = votes(case)
    coded = X.map(lambda vote: {"n": 0.0, "y": 1.0}.get(vote, np.nan)).to_numpy()
    yes_no = NaiveBayes(prior=Beta(1.0, 1.0)).fit(coded, y)
    assert yes_no.features_ == ["bernoulli"] * len(case["features"])
    assert_allclose(yes_no.log_evidence_, case["log_evidence"]["dirichlet_1"]["joint"], rtol=1e-10)


# --- Gaussian columns with gaps -----------------------------------------------------------------------------


def with_gaps(case: dict, refload) -> tuple[np.ndarray, np.ndarray]:
    if "X" in case:
        X = np.array([[np.nan if v is None else v for v in row] for row in case["X"]], dtype=float)
        return X, np.array(case["y"])
    frame = published(case["data"].removesuffix(".csv"))
    return frame[case["features"]].to_numpy(float), frame[case["class"]].to_numpy()


def of_columns(model, y: np.ndarray) -> float:
    """The stored likelihoods are of the columns; ours have the labels' part n_c log(n_c / n), too."""
    n = np.unique(y, return_counts=True)[1]
    return model.log_likelihood_ - (n * np.log(n / n.sum())).sum()


def assert_covariance(found, stored) -> None:
    """To 1e-6, and to 1e-9 of the standard deviations where a covariance happens to be near zero."""
    stored = np.array(stored)
    sd = np.sqrt(np.diagonal(stored, axis1=-2, axis2=-1))
    units = sd[..., :, None] * sd[..., None, :]
    assert_allclose(found / units, stored / units, rtol=1e-6, atol=1e-9)


@over("missing_data_gaussian")
def test_one_covariance_from_rows_with_gaps_is_the_certified_maximum(case, refload):
    X, y = with_gaps(case, refload)
    assert np.isnan(X).sum() == case["n_missing_cells"]
    stored = case["fits"]["class_means_shared_cov"]
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    assert_allclose(model.means_, stored["mean"], rtol=1e-6)
    assert_covariance(model.covariance_, stored["cov"])
    assert_allclose(of_columns(model, y), stored["observed_loglik"], rtol=1e-9)
    assert_allclose(model.predict_proba(X[stored["posterior_rows"]]), stored["posterior"], atol=1e-7)
    rounding = 1e-12 * abs(model.log_likelihood_)
    assert (np.diff(model.objective_path_) >= -rounding).all()
    assert_allclose(model.objective_path_[-1], model.log_likelihood_, rtol=1e-12)


@over("missing_data_gaussian")
def test_class_covariances_from_rows_with_gaps_are_the_certified_maxima(case, refload):
    X, y = with_gaps(case, refload)
    stored = case["fits"]["class_means_class_cov"]
    model = QuadraticDiscriminant(parameters="plugin").fit(X, y)
    assert_allclose(model.means_, [each["mean"] for each in stored["per_class"]], rtol=1e-6)
    assert_covariance(model.covariance_, [each["cov"] for each in stored["per_class"]])
    assert_allclose(of_columns(model, y), stored["observed_loglik"], rtol=1e-9)
    rounding = 1e-12 * abs(model.log_likelihood_)
    assert (np.diff(model.objective_path_) >= -rounding).all()


@over("missing_data_gaussian")
@KINDS
def test_a_single_gaussian_from_rows_with_gaps_is_the_certified_maximum(case, kind, refload):
    X, _ = with_gaps(case, refload)
    stored = case["fits"]["single_gaussian"]
    model = DISCRIMINANTS[kind](parameters="plugin").partial_fit(X, np.zeros(len(X), dtype=int))
    assert_allclose(model.means_, stored["mean"], rtol=1e-6)
    assert_covariance(np.squeeze(model.covariance_), stored["cov"])
    assert_allclose(model.log_likelihood_, stored["observed_loglik"], rtol=1e-9)


@over("semi_supervised")
def test_unlabelled_rows_enter_as_in_the_certified_em(case, refload):
    X, y, _ = refload.design(case["design"])
    labels = y.astype(float)
    unlabelled = np.setdiff1d(np.arange(len(y)), case["labelled_rows"])
    labels[unlabelled] = np.nan
    model = LinearDiscriminant(parameters="plugin").fit(X, labels)
    assert_allclose(model.class_prior_, case["pi"], rtol=1e-6)
    assert_allclose(model.means_, case["mean"], rtol=1e-6)
    assert_covariance(model.covariance_, case["cov"])
    assert_allclose(model.log_likelihood_, case["observed_loglik"], rtol=1e-8)
    rounding = 1e-12 * abs(model.log_likelihood_)
    assert (np.diff(model.objective_path_) >= -rounding).all()
    right = model.predict(X[unlabelled]) == y[unlabelled]
    assert_allclose(right.mean(), case["accuracy_on_unlabelled"])


# --- published ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "train", "test"), [("lda", 0.316, 0.556), ("qda", 0.011, 0.528)])
def test_errors_on_the_vowels_are_those_of_table_4_1_of_the_elements(kind, train, test):
    model = DISCRIMINANTS[kind](parameters="moment")
    rows = {part: published(f"vowel_{part}") for part in ("train", "test")}
    X, y = ({part: frame.iloc[:, columns] for part, frame in rows.items()} for columns in (slice(1, 11), 0))
    model.fit(X["train"], y["train"])
    assert 1 - model.score(X["train"], y["train"]) == pytest.approx(train, abs=5e-4)  # printed to three digits
    assert 1 - model.score(X["test"], y["test"]) == pytest.approx(test, abs=5e-4)


def test_the_first_axis_of_the_irises_is_the_one_in_rs_documentation():
    iris = published("iris")
    X, y = iris.iloc[:, :4].to_numpy(), iris["Species"].to_numpy()
    model = LinearDiscriminant(parameters="moment").fit(X, y)
    axes = model.transform(np.eye(4)) - model.transform(np.zeros((1, 4)))
    first = axes[:, 0] if axes[0, 0] > 0 else -axes[:, 0]
    assert_allclose(first, [0.8294, 1.5345, -2.2012, -2.8105], atol=5e-5)  # printed to four digits
    # R's svd: ratios of the standard deviations between and within classes, with divisors K - 1 and n - K
    centres = model.transform(model.means_)
    spread = np.sqrt(model.class_count_ @ centres**2 / 2)
    assert_allclose(spread, [48.6426, 4.5800], atol=5e-5)


@pytest.mark.parametrize(("kind", "wrong", "left_out"), [("lda", 3, 3), ("qda", 3, 4)])
def test_errors_on_the_irises_are_those_of_rs_documentation(kind, wrong, left_out):
    iris = published("iris")
    X, y = iris.iloc[:, :4].to_numpy(), iris["Species"].to_numpy()
    model = DISCRIMINANTS[kind](parameters="moment", class_prior="uniform").fit(X, y)
    assert (model.predict(X) != y).sum() == wrong
    missed = 0
    for i in range(len(y)):
        row, label = X[i : i + 1], y[i : i + 1]
        missed += int(model.forget(row, label).predict(row)[0] != label[0])
        model.partial_fit(row, label)
    assert missed == left_out


@pytest.mark.parametrize(
    ("kind", "table"), [("lda", [[35, 35], [76, 106]]), ("qda", [[30, 20], [81, 121]])], ids=["lda", "qda"]
)
def test_the_stock_market_tables_are_those_of_islr(kind, table):
    """Rows of a table are predictions, columns the truth: Down, Up."""
    frame = published("smarket")
    lags, past = ["Lag1", "Lag2"], frame["Year"] < 2005
    model = DISCRIMINANTS[kind](parameters="moment").fit(frame.loc[past, lags], frame.loc[past, "Direction"])
    assert_allclose(model.class_prior_, [0.492, 0.508], atol=5e-4)  # printed to three digits
    predicted = model.predict(frame.loc[~past, lags])
    found = pd.crosstab(predicted, frame.loc[~past, "Direction"].to_numpy())
    assert found.to_numpy().tolist() == table


@pytest.mark.parametrize(("kind", "wrong"), [("lda", 67), ("qda", 76)])
def test_errors_on_the_pima_test_rows_are_ripleys(kind, wrong):
    train, test = published("pima_tr"), published("pima_te")
    model = DISCRIMINANTS[kind](parameters="moment").fit(train.drop(columns="type"), train["type"])
    assert (model.predict(test.drop(columns="type")) != test["type"]).sum() == wrong
