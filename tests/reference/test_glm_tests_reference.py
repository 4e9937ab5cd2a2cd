"""Standard errors, tests and profile limits against R and 50-digit numbers (../shared/reference/glm_binary.json).

Tolerances are those of `shared/reference/README.md`. References have the intercept first, credibly last.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Jeffreys,
    NoisyThresholdClassifier,
)
from helpers import SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

CASES = load_refload().load("glm_binary")["cases"] if SHARED_IS_HERE else {}
LINKS = {f"{name}-{link}": (case, link) for name, case in CASES.items() for link in case["links"]}
TESTS = {
    f"{key}-{name}": (case, link, test)
    for key, (case, link) in LINKS.items()
    for name, test in case["links"][link]["tests"].items()
}
PROFILES = {key: pair for key, pair in LINKS.items() if "profile_ci95" in pair[0]["links"][pair[1]]}

over_links = pytest.mark.parametrize(("case", "link"), LINKS.values(), ids=LINKS.keys())
over_tests = pytest.mark.parametrize(("case", "link", "test"), TESTS.values(), ids=TESTS.keys())
over_profiles = pytest.mark.parametrize(("case", "link"), PROFILES.values(), ids=PROFILES.keys())


def model(link, prior=None):
    if link == "logit":
        return BayesianLogisticRegression(prior=prior)
    return BayesianProbitRegression(prior=prior) if link == "probit" else NoisyThresholdClassifier(link, prior=prior)


def rows(case, refload):
    """A frame without the intercept, labels and weights; proportions become two weighted rows each."""
    X, y, w = refload.design(case["design"])
    frame = pd.DataFrame(X[:, 1:], columns=case["coef_names"][1:])
    if set(np.unique(y)) <= {0.0, 1.0}:
        return frame, y.astype(int), w
    counts = np.concatenate([w * y, w * (1 - y)])
    both = pd.concat([frame, frame], ignore_index=True)
    return both[counts > 0], np.repeat([1, 0], len(y))[counts > 0], counts[counts > 0]


def intercept_last(vector, axes=(-1,)) -> np.ndarray:
    return np.roll(np.asarray(vector, dtype=float), (-1,) * len(axes), axis=axes)


@over_links
def test_standard_errors_and_covariances_are_those_of_the_expected_information(case, link, refload):
    X, y, w = rows(case, refload)
    fitted, stored = model(link).fit(X, y, sample_weight=w), case["links"][link]
    cov = intercept_last(stored["cov_expected_information"], (0, 1))
    assert_allclose(fitted.standard_errors_, intercept_last(stored["se_expected_information"]), rtol=1e-8)
    assert_allclose(fitted.covariance(), cov, rtol=1e-7, atol=1e-8 * np.abs(cov).max())


@over_tests
def test_the_three_tests_of_dropped_columns(case, link, test, refload):
    X, y, w = rows(case, refload)
    dropped, df = test["dropped"], test["df"]
    full = model(link).fit(X, y, sample_weight=w)
    found = [(full.wald_test(dropped), test["wald_chi2"], test["wald_p"])]
    if len(dropped) < X.shape[1]:  # a model without columns cannot be fitted
        reduced = model(link).fit(X.drop(columns=dropped), y, sample_weight=w)
        found += [
            (full.lr_test(reduced), test["deviance_difference"], test["lr_p"]),
            (
                reduced.score_test(X[dropped], X.drop(columns=dropped), y, w),
                test["score_rao"],
                test["score_p"],
            ),
        ]
    for result, statistic, p in found:
        assert result.df == df
        assert_allclose(result.statistic, statistic, rtol=1e-8)
        assert_allclose(result.pvalue, p, rtol=1e-7)  # p amplifies the error of the statistic by about statistic/2


@over_profiles
def test_profile_limits_are_the_fifty_digit_ones(case, link, refload):
    X, y, w = rows(case, refload)
    limits = model(link).fit(X, y, sample_weight=w).profile_interval()
    stored = np.roll(np.array(case["links"][link]["profile_ci95"]), -1, axis=0)
    assert_allclose(limits, stored, rtol=1e-8)


@pytest.mark.parametrize("name", ["spector", "sex2"])
def test_firth_standard_errors(name, refload):
    case = CASES[name]
    X, y, w = rows(case, refload)
    fitted = model("logit", Jeffreys()).fit(X, y, sample_weight=w)
    stored = case["links"]["logit"]["firth_jeffreys"]["se_expected_information"]
    assert_allclose(fitted.standard_errors_, intercept_last(stored), rtol=1e-7)


def test_penalised_profile_limits_are_those_that_logistf_prints(refload):
    """``logistf`` on its own example, to the two decimals in the tests of R's `parameters` package."""
    case = refload.load("separation")["cases"]["sex2_dia"]
    X, y, w = rows(case, refload)
    limits = model("logit", Jeffreys()).fit(X, y, sample_weight=w).profile_interval()
    printed = {
        "age": (-1.97, -0.31),
        "oc": (-0.94, 0.79),
        "vic": (1.27, 3.44),
        "vicl": (-3.26, -1.12),
        "vis": (-1.61, 0.02),
        "dia": (0.77, 8.03),  # this column separates the classes
        "intercept": (-0.82, 1.07),
    }
    assert_allclose(limits, list(printed.values()), atol=0.005)
