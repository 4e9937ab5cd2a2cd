"""The evidence with what is learnt integrated out, beside sums over it of the evidences of the same inference.

Under the documented priors: log scales on standardized columns N(0, 1), a log dispersion N(first guess, 3²), twice a
flip probability Beta(1, 9). Tolerances are in nats: a factor of 1.02 of a Bayes factor for one scale, and where a scale
and a parameter are integrated one after the other, each around the maximum of the other, 1.05.
"""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp
from scipy.stats import beta, norm
from sklearn.datasets import load_breast_cancer, load_iris

from credibly import BayesianGLM, BayesianLogisticRegression, Normal, Status, StudentT
from credibly.errors import NoEvidenceError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.hyper import Choices, Parameter, maximise
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics.linalg import PSD

LINE = np.linspace(-2, 2, 20)[:, None]
OVERLAPPING, SEPARATED = (np.sin(3 * LINE[:, 0]) > 0.2).astype(int), (LINE[:, 0] > 0).astype(int)
THREE = np.digitize(LINE[:, 0], [-0.7, 0.6])
COUNTS = np.random.default_rng(0).poisson(np.exp(LINE[:, 0]))
CANCER_X, CANCER_Y = load_breast_cancer(return_X_y=True)
PAIR = np.random.default_rng(1).normal(size=(60, 2))
TARGETS = PAIR @ [1.0, 0.3] + 0.7 * np.random.default_rng(2).normal(size=60)
IDLE = np.random.default_rng(3).integers(0, 2, 60)


def log_sum(log_values: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """log ∫ over the last axis, by the trapezoidal rule."""
    ends = np.ones(len(axis))
    ends[[0, -1]] = 0.5
    return logsumexp(log_values + np.log(ends * (axis[1] - axis[0])), axis=-1)


def at_scales(make, X, y, *log_scales: float) -> float:
    """The log evidence under given scales of standardized columns."""
    scale = np.exp(np.resize(log_scales, X.shape[1]))
    return make(prior=Normal(scale=scale, standardized=True)).fit(X, y).log_evidence_


def over_one_scale(make, X, y, points: int = 33) -> float:
    theta = np.linspace(-5.0, 5.5, points)
    return float(log_sum(np.array([at_scales(make, X, y, it) for it in theta]) + norm.logpdf(theta), theta))


# --- nothing is learnt ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "exact", "adf", "auto"])
def test_where_nothing_is_learnt_it_is_the_evidence(inference):
    model = BayesianLogisticRegression(prior=Normal(scale=2.0), inference=inference, label_noise=0.05)
    model.fit(LINE, OVERLAPPING)
    assert model.integrated_log_evidence_ == model.log_evidence_


def test_so_it_is_for_other_priors_and_families():
    for prior in (StudentT(), Normal(mean=np.zeros(2), cov=np.eye(2))):
        model = BayesianGLM("poisson", prior=prior).fit(LINE, COUNTS)
        assert model.integrated_log_evidence_ == model.log_evidence_
    with pytest.raises(NoEvidenceError, match="integrated_log_evidence_"):
        _ = BayesianLogisticRegression(prior=None).fit(LINE, OVERLAPPING).integrated_log_evidence_


# --- scales ---------------------------------------------------------------------------------------------------

LOGIT, POISSON = BayesianLogisticRegression, partial(BayesianGLM, "poisson")
ONE_SCALE = {
    "overlapping": (LOGIT, LINE, OVERLAPPING, ["laplace", "ep", "variational"]),
    "separated, the scale at its upper bound": (LOGIT, LINE, SEPARATED, ["laplace", "ep"]),
    "nothing to learn, the scale at its lower bound": (LOGIT, PAIR, IDLE, ["laplace", "variational"]),
    "few rows": (LOGIT, CANCER_X[:30, :2], CANCER_Y[:30], ["laplace", "variational"]),
    "a large scale": (LOGIT, CANCER_X[:200, :3], CANCER_Y[:200], ["laplace", "ep"]),
    "three classes": (LOGIT, LINE, THREE, ["laplace", "variational"]),
    "counts": (POISSON, LINE, COUNTS, ["laplace", "variational"]),
}


@pytest.mark.parametrize(
    ("name", "inference"), [(name, how) for name, (*_, rungs) in ONE_SCALE.items() for how in rungs]
)
def test_one_scale_is_integrated_over_the_evidences_of_the_same_inference(name, inference):
    make, X, y, _ = ONE_SCALE[name]
    make = partial(make, inference=inference)
    learnt = make(prior="empirical").fit(X, y)
    assert learnt.integrated_log_evidence_ < learnt.log_evidence_
    assert_allclose(learnt.integrated_log_evidence_, over_one_scale(make, X, y), atol=0.02)


def test_many_columns_have_a_narrow_peak():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 30))
    y = (X[:, :10] @ np.ones(10) + rng.logistic(size=400) > 0).astype(int)
    make = partial(LOGIT, inference="laplace")
    learnt = make(prior="empirical").fit(X, y)
    assert_allclose(learnt.integrated_log_evidence_, over_one_scale(make, X, y, points=65), atol=0.02)


@pytest.mark.parametrize(("X", "y"), [(PAIR, (TARGETS > 0).astype(int)), (PAIR, IDLE)], ids=["one tells", "idle"])
@pytest.mark.parametrize("inference", ["laplace", pytest.param("variational", marks=pytest.mark.slow)])
def test_two_scales_are_integrated_over_a_plane(inference, X, y):
    make, theta = partial(LOGIT, inference=inference), np.linspace(-4.5, 5.0, 15)
    values = np.array([[at_scales(make, X, y, one, other) for other in theta] for one in theta])
    log_integral = log_sum(log_sum(values + norm.logpdf(theta) + norm.logpdf(theta)[:, None], theta), theta)
    learnt = make(prior="ard").fit(X, y)
    assert_allclose(learnt.integrated_log_evidence_, log_integral, atol=0.1)  # five nodes in each dimension


def test_many_scales_are_integrated_by_laplaces_method():
    """Of orthogonal columns under a Gaussian likelihood it is a product of integrals, each by Laplace's method."""
    Q = np.linalg.qr(np.column_stack([np.ones(40), np.random.default_rng(5).normal(size=(40, 4))]))[0]
    X = Q[:, 1:] * np.sqrt(40)
    y = X @ [1.5, -0.8, 0.6, 1.0] + np.random.default_rng(6).normal(size=40)
    make = partial(BayesianGLM, "gaussian", dispersion=1.0, inference="laplace")
    learnt = make(prior="ard").fit(X, y)
    unit = np.std(y)  # of what scales are multiples
    gains = []
    for x in X.T:
        theta = np.linspace(-6, 6, 241)
        a, b = x @ x * np.exp(2 * theta) * unit**2, (x @ y) ** 2 * np.exp(2 * theta) * unit**2
        gains.append(log_sum(-0.5 * np.log1p(a) + 0.5 * b / (1 + a) + norm.logpdf(theta), theta))
    intercept = 10 * np.hypot(y.mean(), unit)  # its scale
    marginal = np.eye(40) + intercept**2
    nothing = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    assert_allclose(learnt.integrated_log_evidence_, nothing + sum(gains), atol=0.2)


def test_draws_take_it_from_the_rung_before_them():
    exact, bound = (
        BayesianLogisticRegression(inference=how).fit(LINE, OVERLAPPING) for how in ("exact", "variational")
    )
    assert_allclose(
        exact.integrated_log_evidence_ - exact.log_evidence_,
        bound.integrated_log_evidence_ - bound.log_evidence_,
        atol=1e-9,
    )


def test_units_change_nothing():
    one, other = (
        LOGIT(inference="ep").fit(X, CANCER_Y[:100]) for X in (CANCER_X[:100, :2], 1e4 * CANCER_X[:100, :2] - 7)
    )
    assert_allclose(other.integrated_log_evidence_, one.integrated_log_evidence_, atol=1e-4)


# --- parameters of the likelihood -----------------------------------------------------------------------------

FAMILIES = {
    "gaussian": (None, TARGETS),
    "gamma": ("log", np.exp(TARGETS)),
    "negative_binomial": (None, np.random.default_rng(7).poisson(np.exp(TARGETS))),
}


def guess(family: str, y: np.ndarray) -> float:
    """Where the log dispersion is believed to be: Pearson's around the mean, the extra variance of counts."""
    excess = {
        "gaussian": y.var(),
        "gamma": y.var() / y.mean() ** 2,
        "negative_binomial": (y.var() - y.mean()) / y.mean() ** 2,
    }
    return float(np.log(excess[family]))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("inference", ["laplace", "variational"])
def test_a_dispersion_is_integrated_over_the_evidences(family, inference):
    link, y = FAMILIES[family]
    make = partial(BayesianGLM, family, link, prior=Normal(scale=1.0), inference=inference)
    learnt = make().fit(PAIR, y)
    s = np.linspace(-4, 4, 33) + np.log(learnt.dispersion_)
    values = np.array([make(dispersion=float(np.exp(it))).fit(PAIR, y).log_evidence_ for it in s])
    log_integral = log_sum(values + norm.logpdf(s, guess(family, y), 3.0), s)
    assert_allclose(learnt.integrated_log_evidence_, log_integral, atol=2e-3)


def test_a_scale_and_a_dispersion_are_integrated_one_after_the_other():
    y = np.exp(TARGETS)
    make = partial(BayesianGLM, "gamma", "log", inference="laplace")
    learnt = make(prior="empirical").fit(PAIR, y)
    s, theta = np.linspace(-2, 2, 17) + np.log(learnt.dispersion_), np.linspace(-4, 3, 22)
    values = np.array([[at_scales(partial(make, dispersion=float(np.exp(it))), PAIR, y, t) for it in s] for t in theta])
    prior = norm.logpdf(theta)[:, None] + norm.logpdf(s, guess("gamma", y), 3.0)
    assert_allclose(learnt.integrated_log_evidence_, log_sum(log_sum(values + prior, s), theta), atol=0.05)


def flips() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of twice a flip probability, the probabilities, and log densities of the logits."""
    logit = np.linspace(-9, 5, 29)
    twice = expit(logit)
    return logit, twice / 2, beta.logpdf(twice, 1, 9) + np.log(twice) + np.log1p(-twice)


NOISY = np.where(np.random.default_rng(8).random(60) < 0.15, TARGETS < 0, TARGETS > 0).astype(int)


@pytest.mark.parametrize("inference", ["laplace", "ep", pytest.param("variational", marks=pytest.mark.slow)])
def test_a_flip_probability_is_integrated_over_the_evidences(inference):
    make, (logit, flip, log_prior) = partial(LOGIT, prior=Normal(scale=2.0), inference=inference), flips()
    learnt = make(label_noise="estimate").fit(PAIR, NOISY)
    values = np.array([make(label_noise=float(it)).fit(PAIR, NOISY).log_evidence_ for it in flip])
    log_integral = log_sum(values + log_prior, logit)
    # by Laplace's evidences, whichever rung follows: their shape is nearly that of the rung
    assert_allclose(learnt.integrated_log_evidence_, log_integral, atol=0.01 if inference == "laplace" else 0.05)
    if inference == "laplace":
        share = np.exp(values + log_prior - log_integral) * (logit[1] - logit[0])
        assert_allclose(learnt.label_noise_, share @ flip, rtol=0.02)
        assert_allclose(learnt.label_noise_std_, np.sqrt(share @ (flip - share @ flip) ** 2), rtol=0.05)


def test_draws_have_the_uncertainty_of_flips_too():
    given, learnt = (
        LOGIT(prior=Normal(scale=2.0), inference="exact", label_noise=it).fit(PAIR, NOISY) for it in (0.1, "estimate")
    )
    assert learnt.status_.good and learnt.label_noise_std_ > 0.02
    assert_allclose(learnt.posterior_.cov, np.cov(learnt.posterior_.weight_draws.T, ddof=0), rtol=1e-6)
    same = LOGIT(prior=Normal(scale=2.0), inference="exact", label_noise=learnt.label_noise_).fit(PAIR, NOISY)
    assert learnt.posterior_.std[0] > 1.02 * same.posterior_.std[0]
    assert given.label_noise_std_ == 0.0


# --- what is not known is said --------------------------------------------------------------------------------


class Toy:
    """Evidence as a function of one parameter, of a model with one weight."""

    def __init__(self, evidence):
        self.evidence = evidence

    def maximum(self):
        def run(theta, near, *, brief):
            q = Gaussian(np.zeros(1), PSD(np.eye(1, order="F")))
            return Approximation(q, self.evidence(float(theta[0])), -1.0, Status.CONVERGED, 1)

        weak = Parameter(0.5, (-5.0, 5.0), lambda _: 0.0, lambda it: float(norm.logpdf(it)))
        choices = Choices(lambda _: BernoulliLogit(), Gaussian(np.zeros(1), PSD(np.eye(1, order="F"))), (weak,))
        return maximise(run, choices, lambda _: None, moves=False)


def test_a_parameter_with_a_maximum_is_known_by_its_curvature():
    found = Toy(lambda it: -2.0 * (it - 1.0) ** 2).maximum()
    assert found.status is Status.CONVERGED
    assert_allclose(found.theta, 1.0, atol=1e-5)
    assert_allclose(found.parameters.covariance, 0.25, rtol=1e-6)
    log_integral = -0.5 * (1.0 / 1.25 + np.log(2 * np.pi * 1.25)) + 0.5 * np.log(2 * np.pi * 0.25)
    assert_allclose(found.log_integral, log_integral, atol=1e-4)


def test_a_parameter_of_which_the_evidence_knows_nothing_is_a_warning():
    found = Toy(lambda it: -3.0).maximum()
    assert found.status is Status.PARAMETER_SPREAD_UNKNOWN and not found.status.good
    assert np.isnan(found.parameters.covariance).all()


def test_iris_has_the_evidence_of_its_own_sum():
    """The default of the field's most common table, whose classes are nearly separated."""
    X, y = load_iris(return_X_y=True)
    make = partial(LOGIT, inference="variational")
    theta = np.linspace(-1.0, 4.0, 21)
    values = np.array([at_scales(make, X, y, it) for it in theta]) + norm.logpdf(theta)
    learnt = LOGIT().fit(X, y)
    assert learnt.rung_ == "variational"
    assert_allclose(learnt.integrated_log_evidence_, log_sum(values, theta), atol=0.02)
