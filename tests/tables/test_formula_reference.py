"""Formulas against the packages that others use: formulaic and patsy for the columns, statsmodels for whole fits."""

import re

import formulaic
import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose
from scipy.linalg import orth

from credibly import BayesianGLM, BayesianLogisticRegression
from credibly.tables.formula import FormulaDesign


@pytest.fixture(scope="module")
def votes() -> pd.DataFrame:
    """The American National Election Study of 1996: votes for Dole (1) or Clinton (0)."""
    data = sm.datasets.anes96.load_pandas().data
    party = data["PID"].map(lambda it: "democrat" if it < 2 else "republican" if it > 4 else "independent")
    return data[["vote", "age", "income", "popul"]].assign(
        party=party, educ=data["educ"].astype(int), urban=np.where(data["popul"] > 100, "city", "country")
    )


FORMULAS = [
    "age", "party", "C(educ)", "party + age", "party*age", "party:age", "0 + party", "0 + party + urban", "party*urban",
    "party:urban", "party*urban*age", "0 + party*urban", "age + party:age", "party + party:urban", "urban/party",
    "(party + urban + age)**2", "poly(income, 2)*party", "C(educ):poly(age, 2)", "0 + C(educ):age", "bs(age, df=5)",
    "bs(age, knots=[30, 50], degree=2):urban", "log(income) + I(income**2) + center(age) + scale(income)",
    "age:income:party", "party:urban:C(educ)", "party*C(educ) + urban", "age:poly(income, 2) - 1",
    "party*urban - party", "age*urban - 1", "party:urban - 1 + age",
]  # fmt: skip


def ours(name: str) -> str:
    """A column's name in formulaic or patsy, as this library calls it."""
    name = name.replace("I(income > 15)[T.True]", "I(income > 15)")  # a truth value is a number here
    return re.sub(r"(?:C\((\w+)\)|\b(party|urban))\[(?:T\.)?([^\]]*)\]", r"\1\2=\3", name)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("formula", FORMULAS)
def test_columns_are_those_of_formulaic_in_its_order_under_our_names(votes, formula, reference):
    theirs = formulaic.model_matrix(formula, votes, ensure_full_rank=reference, output="pandas", context={})
    design = FormulaDesign.of(f"vote ~ {formula}", votes, reference=reference)
    assert design.has_intercept == ("Intercept" in theirs.columns)
    theirs = pd.DataFrame(theirs).drop(columns="Intercept", errors="ignore")
    assert list(design.names) == [ours(name) for name in theirs.columns]
    assert_allclose(design.matrix(votes), theirs.astype(float), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("formula", [it for it in FORMULAS if "poly" not in it and "urban:C(educ)" not in it])
def test_columns_without_a_prior_span_those_of_patsy(votes, formula):
    """Patsy has no poly; and some cells of party by urban by educ are empty, so that no coding can be of full rank."""
    theirs = orth(np.asarray(patsy.dmatrix(formula.replace("log(", "np.log("), votes)))
    design = FormulaDesign.of(f"~ {formula}", votes, reference=True)
    X = design.matrix(votes).to_numpy()
    span = orth(np.column_stack([np.ones(len(X)), X]) if design.has_intercept else X)
    assert span.shape == theirs.shape == (len(X), X.shape[1] + design.has_intercept)
    assert_allclose(span @ (span.T @ theirs), theirs, atol=1e-9)  # orth's own rounding, with condition numbers near 1e5


def test_polynomials_are_orthonormal_and_span_the_powers(votes):
    X = FormulaDesign.of("~ poly(age, 4)", votes).matrix(votes).to_numpy()
    assert_allclose(X.T @ X, np.eye(4), atol=1e-12)
    assert_allclose(X.sum(axis=0), 0, atol=1e-12)
    x = ((votes["age"] - votes["age"].mean()) / votes["age"].std()).to_numpy()
    q, r = np.linalg.qr(np.vander(x, 5, increasing=True))
    assert_allclose(X, (q * np.sign(np.diag(r)))[:, 1:], atol=1e-12)  # leading coefficients are positive, as in R


def test_natural_splines_span_those_of_patsy(votes):
    knots = "knots=[30, 45, 60]"
    theirs = orth(np.asarray(patsy.dmatrix(f"0 + cr(age, {knots})", votes)))
    X = FormulaDesign.of(f"~ ns(age, {knots})", votes).matrix(votes).to_numpy()
    span = orth(np.column_stack([np.ones(len(X)), X]))
    assert span.shape == theirs.shape == (len(X), 5)
    assert_allclose(span @ (span.T @ theirs), theirs, atol=1e-12)


def test_natural_splines_are_one_at_their_knot_and_zero_at_the_others(votes):
    design = FormulaDesign.of("~ ns(age, 3)", votes)
    ((_, knots),) = design.learnt
    assert_allclose(knots, np.quantile(votes["age"], [0, 1 / 3, 2 / 3, 1]))
    assert_allclose(design.matrix(pd.DataFrame({"age": knots})), np.eye(4)[:, 1:], atol=1e-14)


@pytest.mark.parametrize(
    "formula",
    ["age + C(educ)", "party*age + urban", "0 + party + income", "urban + party:age", "I(income > 15) + center(age)"],
)
def test_coefficients_without_a_prior_are_those_of_statsmodels(votes, formula):
    theirs = smf.logit(f"vote ~ {formula}", votes).fit(disp=False, tol=1e-12, maxiter=100)
    design = FormulaDesign.of(f"vote ~ {formula}", votes, reference=True)
    model = BayesianLogisticRegression(prior=None, fit_intercept=design.has_intercept)
    model.fit(design.matrix(votes), votes["vote"])
    found = dict(zip(design.names, model.coef_.ravel(), strict=True))
    if design.has_intercept:
        found["Intercept"] = float(np.squeeze(model.intercept_))
    expected = {ours(name): value for name, value in theirs.params.items()}
    assert found.keys() == expected.keys()
    assert_allclose([found[name] for name in expected], list(expected.values()), rtol=1e-6, atol=1e-8)


# Statsmodels reads formulas by patsy, which has no poly and no ns: what they span is written out.
SPANS = [
    ("poly(income, 2) + C(educ)", "income + I(income**2) + C(educ)"),
    ("party + poly(scale(age), 3):party", "age:party + I(age**2):party + I(age**3):party + party"),
    ("bs(age, df=5) + party:urban", "bs(age, df=5) + party:urban"),
    ("ns(age, knots=[30, 50])*urban", "cr(age, knots=[30, 50]):urban - 1"),
]


@pytest.mark.parametrize(("formula", "theirs"), SPANS)
def test_predictions_on_new_rows_without_a_prior_are_those_of_statsmodels(votes, formula, theirs):
    """What poly and the splines learnt is applied to other rows in the same way: nothing is learnt anew."""
    first, last = votes.iloc[:700], votes.iloc[700:]
    last = last[last["age"].between(first["age"].min(), first["age"].max())]
    fitted = smf.logit(f"vote ~ {theirs}", first).fit(disp=False, tol=1e-12, maxiter=200)
    design = FormulaDesign.of(f"vote ~ {formula}", first, reference=True)
    model = BayesianLogisticRegression(prior=None).fit(design.matrix(first), first["vote"])
    f = design.matrix(last).to_numpy() @ model.coef_.ravel() + model.intercept_
    # Their columns are badly scaled (age³), ours are not; six digits of the probability are what theirs have.
    assert_allclose(1 / (1 + np.exp(-f)), fitted.predict(last), rtol=1e-6)


def test_a_regression_without_a_prior_is_that_of_statsmodels(votes):
    theirs = smf.glm("income ~ scale(age, ddof=1) + party*urban", votes, family=sm.families.Gaussian()).fit()
    design = FormulaDesign.of("income ~ scale(age) + party*urban", votes, reference=True)
    model = BayesianGLM("gaussian", prior=None).fit(design.matrix(votes), votes["income"])
    expected = theirs.params.rename(ours).rename({"scale(age, ddof=1)": "scale(age)"}).drop("Intercept")
    assert_allclose(pd.Series(model.coef_, index=list(design.names))[expected.index], expected, rtol=1e-8)
