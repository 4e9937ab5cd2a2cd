"""prior="hierarchical": the scale of the coefficients is drawn along with them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, t

from credibly import BayesianGLM, BayesianLogisticRegression
from credibly.errors import InputError
from credibly.inference.linear.exact import log_scale_density


def rows() -> tuple[np.ndarray, np.ndarray]:
    x = np.array([-1.5, -1.2, -0.6, -0.3, 0.1, 0.4, 0.9, 1.3, 1.6, 2.1])
    return ((x - x.mean()) / x.std())[:, None], np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 1])


def half_t(s: float) -> float:
    return float(2 * t.pdf(s / 2.5, 3) / 2.5)


def test_the_prior_of_the_scale_is_half_student_t() -> None:
    theta = np.array([-3.0, 0.0, 0.7, 4.0])
    log_density, slope = log_scale_density(theta)
    assert_allclose(np.exp(log_density), [half_t(s) * s for s in np.exp(theta)], rtol=1e-12)
    up, down = (log_scale_density(theta + h)[0] for h in (1e-5, -1e-5))
    assert_allclose(slope, (up - down) / 2e-5, rtol=1e-8)


def test_weights_scale_and_evidence_are_those_of_quadrature() -> None:
    X, y = rows()
    model = BayesianLogisticRegression(
        prior="hierarchical", inference="exact", fit_intercept=False, draws=20_000, random_state=0
    ).fit(X, y)
    w, theta = np.linspace(-30, 30, 6001), np.linspace(-7, 9, 641)  # trapezoids of smooth functions that end at zero
    log_likelihood = -np.logaddexp(0, np.where(y, -1, 1)[:, None] * X * w).sum(axis=0)
    log_prior = norm.logpdf(w[:, None], 0, np.exp(theta)) + np.log([half_t(s) * s for s in np.exp(theta)])
    joint = np.exp(log_likelihood[:, None] + log_prior) * (w[1] - w[0]) * (theta[1] - theta[0])
    evidence, share = joint.sum(), joint.sum(axis=1) / joint.sum()
    mean = share @ w
    sd = np.sqrt(share @ (w - mean) ** 2)
    draws = model.posterior_.draws[:, 0]
    error = sd / np.sqrt(model.ess_)
    assert abs(draws.mean() - mean) < 5 * error
    assert abs(draws.std() - sd) < 5 * error
    assert abs(model.log_evidence_ - np.log(evidence)) < max(5 * model.log_evidence_se_, 1e-3)
    assert model.integrated_log_evidence_ == model.log_evidence_
    mean_scale = (joint.sum(axis=0) / evidence) @ np.exp(theta)
    assert_allclose(model.prior_scale_, mean_scale, rtol=0.05)  # heavy-tailed: its standard error is about 1 %


def test_several_classes_on_separated_rows_converge() -> None:
    x = np.repeat([-2.0, 0.0, 2.0], 8) + np.tile(np.linspace(-0.5, 0.5, 8), 3)
    model = BayesianLogisticRegression(prior="hierarchical", inference="exact").fit(x[:, None], np.repeat([0, 1, 2], 8))
    assert model.status_.good and model.rhat_ < 1.01
    assert "Prior scale" in str(model.summary())
    assert_allclose(model.predict_proba(x[:, None]).sum(axis=1), 1)


@pytest.mark.parametrize("inference", ["auto", "laplace", "variational", "ep"])
def test_only_draws_can_do_it(inference: str) -> None:
    with pytest.raises(InputError, match="exact"):
        BayesianLogisticRegression(prior="hierarchical", inference=inference).fit(*rows())


def test_other_families_have_it_too() -> None:
    X, _ = rows()
    y = np.array([0, 1, 0, 1, 1, 2, 2, 4, 3, 7])
    model = BayesianGLM(family="poisson", prior="hierarchical", inference="exact").fit(X, y)
    assert model.status_.good and model.rhat_ < 1.01
