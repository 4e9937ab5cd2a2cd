"""BayesianGLM(prior=None) is R's glm: ../shared/reference, tolerances as its README asks for (rtol 1e-8, 1e-10)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly import BayesianGLM
from helpers import SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

FAMILIES = {"Gamma": "gamma", "inverse.gaussian": "inverse_gaussian"}
LINKS = {"1/mu^2": "inverse_square"}


def fits():
    found = {}
    for file in ("glm_binary", "glm_other"):
        for name, case in (load_refload().load(file)["cases"] if SHARED_IS_HERE else {}).items():
            found |= {f"{name}-{link}": (case, link) for link in case["links"]}
    return pytest.mark.parametrize(("case", "link"), found.values(), ids=found.keys())


def design(case):
    X, y, weight = load_refload().design(case["design"])
    return X[:, 1:], y, weight, [str(name) for name in case["coef_names"][1:]]


def fitted(case, link, columns=None):
    X, y, weight, names = design(case)
    if columns is not None:
        X = X[:, [names.index(name) for name in columns]]
    family = FAMILIES.get(case["family"], case["family"])
    return BayesianGLM(family, LINKS.get(link, link), prior=None).fit(X, y, sample_weight=weight)


def intercept_first(w):
    return np.append(w[-1], w[:-1])


@fits()
def test_coefficients_errors_and_deviance(case, link):
    model, stored = fitted(case, link), case["links"][link]
    assert_allclose(np.append(model.intercept_, model.coef_), stored["coef"], rtol=1e-8)
    assert_allclose(intercept_first(model.standard_errors_), stored["se_expected_information"], rtol=1e-8)
    assert_allclose(intercept_first(model.posterior_.std), stored["se_observed_information"], rtol=1e-8)
    assert_allclose(model.deviance_, stored["deviance"], rtol=1e-10)
    assert_allclose(model.null_deviance_, stored["null_deviance"], rtol=1e-10)
    X, *_ = design(case)
    assert_allclose(model.predict(X[:5]), stored["fitted_first_rows"], rtol=1e-8)


@fits()
def test_likelihood_dispersion_and_criteria(case, link):
    model, stored = fitted(case, link), case["links"][link]
    keys = ("loglik_binomial", "loglik_bernoulli", "loglik", "loglik_ml", "loglik_at_phi_deviance_over_n")
    assert_allclose(model.log_likelihood_, next(stored[key] for key in keys if key in stored), rtol=1e-10)
    assert_allclose(model.dispersion_, stored.get("dispersion_pearson", 1.0), rtol=1e-8)
    if "aic" in stored:
        assert_allclose(model.aic_, stored["aic"], rtol=1e-10)
        assert_allclose(model.bic_, stored["bic_R"], rtol=1e-10)
    else:  # R counts the dispersion as a parameter
        assert_allclose(model.aic_, -2 * model.log_likelihood_ + 2 * (len(stored["coef"]) + 1), rtol=1e-12)


@fits()
def test_the_three_tests(case, link):
    full, stored = fitted(case, link), case["links"][link]
    X, y, weight, names = design(case)
    full.feature_names_in_ = np.array(names, dtype=object)
    for test in stored["tests"].values():
        wald = full.wald_test(test["dropped"])
        assert_allclose(wald.statistic, test["wald_chi2"], rtol=1e-8)
        assert wald.df == test["df"]
        if "wald_p" in test:
            assert_allclose(wald.pvalue, test["wald_p"], rtol=1e-7)
        kept = [name for name in names if name not in test["dropped"]]
        if not kept:
            assert_allclose(full.lr_test().statistic, test["deviance_difference"] / full.dispersion_, rtol=1e-8)
            assert full.lr_test().df == test["df"]
            continue
        small = fitted(case, link, kept)
        scale = full.dispersion_
        assert_allclose(full.lr_test(small).statistic, test["deviance_difference"] / scale, rtol=1e-7)
        extra, base = (X[:, [names.index(name) for name in part]] for part in (test["dropped"], kept))
        score = small.score_test(extra, base, y, sample_weight=weight)
        assert_allclose(score.statistic, test["score_rao"] / small.dispersion_, rtol=1e-7)
