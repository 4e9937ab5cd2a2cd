"""Variational inference: the best Gaussian, found by steps that raise the bound, wherever rows are held."""

import itertools

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.stats import norm, t
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from credibly import BayesianGLM, BayesianLogisticRegression, Normal, ParquetRows, Status, StudentT
from credibly.inference.linear.fit import Problem, fit_linear, update_linear
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.spec import LinearSpec
from credibly.inference.linear.variational import variational
from credibly.model.likelihoods import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliProbit,
    Categorical,
    Likelihood,
)
from credibly.model.likelihoods.families import Gamma, Gaussian, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Identity, Log
from credibly.numerics.status import Controls, silent
from inference_rows import data

CANCER_X, CANCER_Y = load_breast_cancer(return_X_y=True)
CANCER_X, CANCER_Y = CANCER_X[:200, [0, 1, 4]], CANCER_Y[:200]
IRIS_X, IRIS_Y = load_iris(return_X_y=True)
WINE_X, WINE_Y = load_wine(return_X_y=True)
LINE = np.linspace(-2, 2, 20)[:, None]
NOISE = np.random.default_rng(0)


def labels(likelihood, y):
    return np.asarray(y, dtype=float) if isinstance(likelihood, Likelihood) else np.asarray(y, dtype=int)


def fitted(likelihood, X, y, prior, **choices):
    spec = LinearSpec(likelihood, prior, inference="variational", **choices)
    return fit_linear(data(X, labels(likelihood, y)), spec)


def objective_of(likelihood, X, y, prior, **parts) -> Objective:
    spec = LinearSpec(likelihood, prior, inference="variational")
    problem = Problem.of(data(X, labels(likelihood, y), **parts), spec, silent)
    return problem.at(problem.choices.start)


def searched(objective: Objective, tol: float = 1e-10, **choices):
    """The approximation, and what was reported of every step: the bound, and how far it was to go."""
    steps = []
    controls = Controls(tol, report=lambda step, value, rise: steps.append((-value, rise)))
    start = laplace(objective, objective.prior.mean).q
    return variational(objective, start, controls, **choices), np.array(steps)


# --- where the best Gaussian is known -------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_of_gaussian_targets_it_is_the_exact_posterior_with_the_exact_evidence(intercept):
    X, s = CANCER_X[:30, :2], 0.7
    y = X @ [0.2, -0.1] + NOISE.normal(size=30)
    fit = fitted(FamilyLikelihood(Gaussian(), Identity(), s), X, y, Normal(scale=2.0), intercept=intercept)
    Phi = np.column_stack([X, np.ones(30)]) if intercept else X
    S0 = np.diag([4.0, 4.0, 100.0][: Phi.shape[1]])
    precision = np.linalg.solve(S0, np.eye(len(S0))) + Phi.T @ Phi / s
    assert_allclose(fit.posterior.mean, np.linalg.solve(precision, Phi.T @ y / s), rtol=1e-8)
    assert_allclose(fit.posterior.cov @ precision, np.eye(len(S0)), atol=1e-8)
    marginal = Phi @ S0 @ Phi.T + s * np.eye(30)
    log_evidence = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    assert_allclose(fit.log_evidence, log_evidence, rtol=1e-10)
    assert fit.steps <= 2


GRID = np.linspace(-60, 60, 24_001)  # of one weight: trapezoids of smooth functions that end at zero
UNIT_NODES = np.linspace(-9, 9, 2001)
UNIT_WEIGHTS = norm.pdf(UNIT_NODES) / norm.pdf(UNIT_NODES).sum()


def log_joint(likelihood, x, y, log_prior):
    """log p(y, w) of one weight, no intercept."""
    return lambda w: likelihood.log_prob(y[:, None], np.multiply.outer(x, np.ravel(w))).sum(axis=0) + log_prior(w)


ONE_WEIGHT = {
    "logit": (BernoulliLogit(), Normal(scale=3.0), lambda w: norm.logpdf(w, 0, 3)),
    "probit": (BernoulliProbit(), Normal(scale=3.0), lambda w: norm.logpdf(w, 0, 3)),
    "label noise": (LabelNoise(BernoulliLogit(), 0.1, 0.05), Normal(scale=3.0), lambda w: norm.logpdf(w, 0, 3)),
    "Student-t prior": (BernoulliLogit(), StudentT(df=3, scale=2.0), lambda w: t.logpdf(w / 2, 3) - np.log(2)),
    "Cauchy threshold": (BernoulliCauchit(), Normal(scale=3.0), lambda w: norm.logpdf(w, 0, 3)),
}


@pytest.mark.parametrize("name", ONE_WEIGHT)
def test_of_one_weight_it_is_the_gaussian_of_the_highest_bound_which_is_below_the_evidence(name):
    """Beside a search in (m, log s) over integrals at 2,001 nodes, by somebody else's optimizer."""
    likelihood, prior, log_prior = ONE_WEIGHT[name]
    x, y = LINE[:, 0], (LINE[:, 0] + 1.3 * np.sin(9 * LINE[:, 0]) > 0).astype(float)
    joint = log_joint(likelihood, x, y, log_prior)

    def minus_bound(point):
        m, s = point[0], np.exp(point[1])
        return -(UNIT_WEIGHTS @ joint(m + s * UNIT_NODES) + point[1] + 0.5 * np.log(2 * np.pi * np.e))

    best = minimize(minus_bound, [1.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13})
    fit = fitted(likelihood, LINE, y, prior, intercept=False)
    assert fit.status.good
    assert_allclose(fit.log_evidence, -best.fun, rtol=1e-10)
    assert_allclose(fit.posterior.mean[0], best.x[0], rtol=1e-5)  # a maximum is flat: the root of 1e-10
    assert_allclose(fit.posterior.std[0], np.exp(best.x[1]), rtol=1e-5)
    values = joint(GRID)
    log_evidence = values.max() + np.log(np.exp(values - values.max()).sum() * (GRID[1] - GRID[0]))
    assert log_evidence - 0.15 < fit.log_evidence < log_evidence


@pytest.mark.parametrize("y", [LINE[:, 0] > 0, np.sin(3 * LINE[:, 0]) > 0.2], ids=["separated", "overlapping"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_of_two_weights_the_bound_is_below_the_evidence(scale, y):
    log_evidence = quadrature_of_two(BernoulliLogit(), LINE[:, 0], y.astype(float), scale)
    fit = fitted(BernoulliLogit(), LINE, y, Normal(scale=scale, intercept_scale=scale))
    assert log_evidence - 0.5 < fit.log_evidence < log_evidence


def quadrature_of_two(likelihood, x, y, scale):
    """log ∫∫ of a slope and an intercept: an even grid in a reach of eight prior deviations, fine near zero."""
    u = np.linspace(-1, 1, 1201)
    w, dw = 8 * scale * u**3, 24 * scale * u**2 * (u[1] - u[0])
    slope = w[:, None] * x[None]
    log_prior = norm.logpdf(w, 0, scale)
    total = np.array([likelihood.log_prob(y, slope + b).sum(axis=1) for b in w]) + log_prior + log_prior[:, None]
    top = total.max()
    return top + np.log(dw @ np.exp(total - top) @ dw)


# --- the conditions of a maximum ------------------------------------------------------------------------------

STATIONARY = {
    "logit": (BernoulliLogit(), Normal(scale=1.0)),
    "probit": (BernoulliProbit(), Normal(mean=np.array([0.3, 0, 0, 1.0]), cov=np.diag([1.0, 4.0, 0.5, 9.0]) + 0.2)),
    "Cauchy threshold": (BernoulliCauchit(), Normal(scale=2.0)),
    "label noise": (LabelNoise(BernoulliLogit(), 0.05, 0.1), Normal(scale=1.0)),
}


@pytest.mark.parametrize("name", STATIONARY)
def test_averaged_gradients_are_zero_and_the_precision_is_the_averaged_curvature(name):
    """E_q[∇ log p] = 0 and Λ = Λ₀ + Σ E_q[curvature] φφᵀ, in data units, by nodes of this test's own."""
    likelihood, prior = STATIONARY[name]
    X = (CANCER_X - CANCER_X.mean(axis=0)) / CANCER_X.std(axis=0) * [1.0, 0.5, 3.0]
    q = fitted(likelihood, X, CANCER_Y, prior).posterior
    Phi = np.column_stack([X, np.ones(len(X))])
    mean, cov = q.mean, q.cov
    scores = (Phi @ mean)[:, None] + np.sqrt(np.einsum("ni,ij,nj->n", Phi, cov, Phi))[:, None] * UNIT_NODES
    grad, curvature = (part @ UNIT_WEIGHTS for part in likelihood.slopes(CANCER_Y[:, None].astype(float), scores))
    m0, S0 = (np.zeros(4), np.diag([prior.scale**2] * 3 + [100.0])) if prior.cov is None else (prior.mean, prior.cov)
    precision = np.linalg.solve(S0, np.eye(4))
    whitened = np.linalg.cholesky(cov).T @ (Phi.T @ grad - precision @ (mean - m0))
    assert_allclose(whitened, 0, atol=2e-5)  # in standard deviations; tol is 1e-10 of them, squared
    assert_allclose(cov @ (precision + (Phi.T * curvature) @ Phi), np.eye(4), atol=5e-5)


@pytest.mark.parametrize("likelihood", [Categorical(3), NoisyCategorical(3, 0.1)], ids=repr)
def test_so_they_are_for_three_classes(likelihood):
    X = (IRIS_X - IRIS_X.mean(axis=0)) / IRIS_X.std(axis=0)
    objective = objective_of(likelihood, X, IRIS_Y, Normal(scale=1.5, intercept_scale=4.0))
    q = searched(objective)[0].q
    design = objective.design
    W = design.to_data(q.mean)  # (K, D)
    axes = design.to_data(q.root)  # rows of the root, in data units
    Phi = np.column_stack([X, np.ones(len(X))])
    x = np.linspace(-8, 8, 161)
    nodes = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    weights = np.multiply.outer(norm.pdf(x), norm.pdf(x)).ravel() * (x[1] - x[0]) ** 2
    contrasts = np.linalg.qr(np.eye(3)[:, :2] - 1 / 3)[0]
    gradient, information = np.zeros((3, 5)), np.zeros((15, 15))
    for phi, y in zip(Phi, IRIS_Y, strict=True):
        f, white = W @ phi, contrasts.T @ (axes @ phi).T
        values, vectors = np.linalg.eigh(white @ white.T)
        at = likelihood.expand(np.full(len(nodes), y), f + nodes @ (contrasts @ vectors * np.sqrt(values)).T)
        curvature = likelihood.curvature(at.proba if isinstance(likelihood, Categorical) else at)
        gradient += np.multiply.outer(weights @ at.grad, phi)
        information += np.kron(np.tensordot(weights, curvature, axes=1), np.multiply.outer(phi, phi))
    tau = np.diag([1.5**-2] * 4 + [4.0**-2])
    gradient -= W @ tau
    information += np.kron(np.eye(3), tau)
    R = axes.reshape(len(axes), -1)
    assert_allclose(R @ gradient.ravel(), 0, atol=2e-5)
    assert_allclose(R @ information @ R.T, np.eye(len(R)), atol=5e-5)


# --- steps ----------------------------------------------------------------------------------------------------

SEARCHES = {
    "logit": (BernoulliLogit(), CANCER_X, CANCER_Y, Normal(scale=1.0)),
    "logit, separated": (BernoulliLogit(), LINE, LINE[:, 0] > 0, Normal(scale=100.0)),
    "probit, separated": (BernoulliProbit(), LINE, LINE[:, 0] > 0, Normal(scale=100.0)),
    "cloglog, separated": (BernoulliCloglog(), LINE, LINE[:, 0] > 0, Normal(scale=100.0)),
    "Cauchy": (BernoulliCauchit(), CANCER_X, CANCER_Y, Normal(scale=1.0)),
    "Cauchy prior": (BernoulliLogit(), LINE, LINE[:, 0] > 0, StudentT(df=1, scale=2.5)),
    "noise": (LabelNoise(BernoulliLogit(), 0.05, 0.05), CANCER_X, CANCER_Y, Normal(scale=1.0)),
    "iris": (Categorical(3), IRIS_X, IRIS_Y, Normal(scale=1.0)),
    "iris, wide": (Categorical(3), IRIS_X, IRIS_Y, Normal(scale=100.0)),
    "wine, wide": (Categorical(3), WINE_X, WINE_Y, Normal(scale=100.0)),
    "iris with noise": (NoisyCategorical(3, 0.1), IRIS_X, IRIS_Y, Normal(scale=10.0)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_bound_never_falls_and_searches_end(name):
    objective = objective_of(*SEARCHES[name])
    found, steps = searched(objective, tol=1e-8)
    bounds, rises = steps.T
    assert found.status is Status.CONVERGED and found.steps <= 60
    assert (np.diff(bounds) >= 0).all()
    assert found.log_evidence == bounds[-1] and rises[-1] < 1e-8


def test_a_group_of_zeros_under_a_wide_prior_of_their_logarithm_is_found():
    """Laplace's start is so wide there that the average of e^f is beyond all numbers."""
    group = np.repeat([0.0, 1.0], 20)[:, None]
    y = np.where(group[:, 0] == 1, 0.0, np.arange(40) % 5)
    fit = fitted(FamilyLikelihood(Poisson(), Log()), group, y, Normal(scale=100.0))
    assert fit.status.good
    rates = np.exp(fit.posterior.sample(np.random.default_rng(0), 1000) @ [1.0, 1.0])
    assert rates.mean() < 0.2  # of twenty rows without any count


def test_many_classes_with_a_wide_prior_converge():
    X, y = load_digits(return_X_y=True)
    X, y = X[:250:1, [10, 20, 21, 26, 34, 42, 60]], y[:250]
    fit = fitted(Categorical(10), X, y, Normal(scale=20.0, standardized=True))
    assert fit.status is Status.CONVERGED and fit.steps < 60
    assert np.isfinite(fit.log_evidence)


@pytest.mark.parametrize("K", [6, 12])
def test_many_classes_have_a_bound_below_their_evidence(K):
    """Beside bridge sampling; averages at points are off by 1e-3 a row and deviation, here of either sign."""
    y = np.arange(5 * K) % K
    X = np.column_stack([np.cos(2 * np.pi * y / K), np.sin(2 * np.pi * y / K)]) + 0.2 * NOISE.normal(size=(5 * K, 2))
    bound, exact = (
        fit_linear(data(X, y), LinearSpec(Categorical(K), Normal(scale=2.5), inference=inference))
        for inference in ("variational", "exact")
    )
    assert bound.status.good and exact.status.good
    slack = 5 * exact.log_evidence_se + 0.02
    assert exact.log_evidence - 1.5 < bound.log_evidence < exact.log_evidence + slack


def test_a_step_limit_is_told():
    found, _ = searched(objective_of(*SEARCHES["wine, wide"]))
    short = fit_linear(
        data(WINE_X, WINE_Y), LinearSpec(Categorical(3), Normal(scale=100.0), inference="variational", max_iter=10)
    )
    assert short.status is Status.STEP_LIMIT and short.log_evidence < found.log_evidence


# --- learnt scales --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("X", "y"), [(CANCER_X, CANCER_Y), (IRIS_X, IRIS_Y)], ids=["two classes", "three classes"])
def test_the_learnt_scale_is_that_of_the_highest_bound(X, y):
    learnt = BayesianLogisticRegression(inference="variational").fit(X, y)
    units = X.std(axis=0)

    def at(factor):
        scale = learnt.prior_scale_ * factor
        prior = Normal(scale=np.full(X.shape[1], scale), standardized=True)
        return BayesianLogisticRegression(inference="variational", prior=prior).fit(X, y).log_evidence_

    assert units.shape == learnt.coef_.shape[1:]
    values = [at(factor) for factor in (0.8, 1.0, 1.25)]
    assert_allclose(values[1], learnt.log_evidence_, atol=1e-4)
    assert values[0] < values[1] > values[2]


def test_every_column_has_the_scale_of_the_highest_bound_and_idle_ones_are_switched_off():
    X = np.column_stack([CANCER_X, np.sin(np.arange(200.0) ** 2)])
    model = BayesianLogisticRegression(inference="variational", prior="ard").fit(X, CANCER_Y)
    assert model.status_ is Status.SCALE_AT_BOUND and model.prior_scale_[3] < 1.001e-3
    for j, factor in itertools.product(range(3), (0.8, 1.25)):
        if model.prior_scale_[j] > 1.001e-3:
            scale = model.prior_scale_ * np.where(np.arange(4) == j, factor, 1.0)
            other = BayesianLogisticRegression(inference="variational", prior=Normal(scale=scale, standardized=True))
            assert other.fit(X, CANCER_Y).log_evidence_ < model.log_evidence_


# --- laws -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learnt", [False, True])
def test_the_softmax_of_two_classes_is_the_logit(learnt):
    """Two weight vectors of scale s are one difference of scale √2 s."""
    root = np.sqrt(2.0)
    two = "empirical" if learnt else Normal(scale=1.0, intercept_scale=3.0)
    softmax = BayesianLogisticRegression(prior=two, inference="variational", multi_class="softmax")
    softmax.fit(CANCER_X, CANCER_Y)
    if learnt:
        one = Normal(scale=root * softmax.prior_scale_ * np.ones(3), intercept_scale=10 * root, standardized=True)
    else:
        one = Normal(scale=root, intercept_scale=3 * root)
    logit = BayesianLogisticRegression(prior=one, inference="variational").fit(CANCER_X, CANCER_Y)
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-8)
    assert_allclose(softmax.coef_[1] - softmax.coef_[0], logit.coef_[0], rtol=1e-6)
    assert_allclose(softmax.predict_proba(CANCER_X), logit.predict_proba(CANCER_X), atol=1e-6)


def test_it_is_where_each_class_has_a_prior_of_its_own():
    """Without contrasts: two classes of weights, of which rows see the difference."""
    cov = np.diag([1.0, 2.0, 0.5, 9.0])
    prior = Normal(mean=np.zeros(8), cov=np.kron(np.diag([1.0, 2.0]), cov))
    X = (CANCER_X - CANCER_X.mean(axis=0)) / CANCER_X.std(axis=0)
    softmax = fitted(Categorical(2), X, CANCER_Y, prior)
    logit = fitted(BernoulliLogit(), X, CANCER_Y, Normal(mean=np.zeros(4), cov=3 * cov))
    assert_allclose(softmax.log_evidence, logit.log_evidence, rtol=1e-7)
    assert_allclose(softmax.weights[1] - softmax.weights[0], logit.weights[0], rtol=1e-3)  # steps end at 1e-6
    one, other = np.array([1.0, 0, 0, 0]), softmax.posterior.cov
    difference = np.concatenate([-one, one])
    assert_allclose(difference @ other @ difference, logit.posterior.cov[0, 0], rtol=1e-3)


@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=2.0, standardized=True)], ids=repr)
@pytest.mark.parametrize(("X", "y"), [(CANCER_X, CANCER_Y), (IRIS_X, IRIS_Y)], ids=["two classes", "three classes"])
def test_units_and_origins_of_columns_change_nothing(X, y, prior):
    unit, shift = np.geomspace(1e-4, 1e5, X.shape[1]), np.linspace(-30, 10, X.shape[1])
    one, other = (
        BayesianLogisticRegression(prior=prior, inference="variational").fit(rows, y) for rows in (X, unit * X + shift)
    )
    assert_allclose(other.log_evidence_, one.log_evidence_, rtol=1e-6)
    assert_allclose(other.coef_ * unit, one.coef_, rtol=1e-3, atol=1e-4 * np.abs(one.coef_).max())
    assert_allclose(other.predict_proba(unit * X + shift), one.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize(("X", "y"), [(CANCER_X, CANCER_Y), (IRIS_X, IRIS_Y)], ids=["two classes", "three classes"])
def test_rows_in_files_on_clusters_and_in_sparse_tables_are_rows_in_memory(X, y, tmp_path):
    names = [f"x{j}" for j in range(X.shape[1])]
    table = pa.table(dict(zip(names, X.T, strict=True)) | {"y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=37)
    options = {"prior": Normal(scale=2.0), "inference": "variational"}
    memory = BayesianLogisticRegression(**options).fit(X, y)
    stored = BayesianLogisticRegression(**options).fit(ParquetRows(tmp_path / "rows.parquet", target="y"))
    lazy = BayesianLogisticRegression(**options).fit(da.from_array(X, chunks=(41, -1)), da.from_array(y, chunks=41))
    sparse = BayesianLogisticRegression(**options).fit(csr_array(X), y)
    for other in (stored, lazy):
        assert_allclose(other.log_evidence_, memory.log_evidence_, rtol=1e-10)
        assert_allclose(other.posterior_.mean, memory.posterior_.mean, rtol=1e-8, atol=1e-10)
    # columns that are not centred have other first steps: as near as searches come, 1e-10 of a squared deviation
    away = np.abs(sparse.posterior_.mean - memory.posterior_.mean) / memory.posterior_.std
    assert away.max() < (2e-5 if len(memory.classes_) == 2 else 2e-3)  # and 1e-6 a weight for several classes
    assert_allclose(sparse.log_evidence_, memory.log_evidence_, atol=1e-9 if len(memory.classes_) == 2 else 1e-5)


@pytest.mark.parametrize(("X", "y"), [(CANCER_X, CANCER_Y), (IRIS_X, IRIS_Y)], ids=["two classes", "three classes"])
def test_a_row_of_weight_three_is_the_row_three_times_and_one_of_zero_is_not_there(X, y):
    weight = np.arange(len(y)) % 4
    options = {"prior": Normal(scale=1.0), "inference": "variational"}
    weighted = BayesianLogisticRegression(**options).fit(X, y, sample_weight=weight)
    repeated = BayesianLogisticRegression(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-10)
    assert_allclose(weighted.posterior_.cov, repeated.posterior_.cov, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("family", ["poisson", "gamma", "binomial"])
def test_an_offset_that_all_rows_share_is_another_origin_of_the_intercept(family):
    y = {"poisson": np.arange(20) % 6, "gamma": 0.5 + np.arange(20) % 5, "binomial": np.arange(20) % 2}[family]
    link = "log" if family != "binomial" else "logit"
    options = {"family": family, "link": link, "inference": "variational"}
    if family == "gamma":
        options["dispersion"] = 0.6
    cov = np.diag([1.0, 4.0])
    with_offset = BayesianGLM(prior=Normal(mean=np.array([0.2, -0.5]), cov=cov), **options)
    with_offset.fit(LINE, y, offset=np.full(20, 0.7))
    moved = BayesianGLM(prior=Normal(mean=np.array([0.2, 0.2]), cov=cov), **options).fit(LINE, y)
    assert_allclose(with_offset.log_evidence_, moved.log_evidence_, rtol=1e-10)
    assert_allclose(moved.posterior_.mean - with_offset.posterior_.mean, [0.0, 0.7], atol=1e-6)
    assert_allclose(with_offset.posterior_.cov, moved.posterior_.cov, rtol=1e-6)


def test_offsets_of_single_rows_are_those_of_a_column_whose_weight_is_known():
    """A column with a prior that holds its weight at one, nearly: to first order in the variance of that prior."""
    offset = np.sin(np.arange(20.0))
    y = np.arange(20) % 4
    cov = np.diag([1.0, 1e-10, 4.0])
    known = BayesianGLM(
        family="poisson", prior=Normal(mean=np.array([0.0, 1.0, 0.0]), cov=cov), inference="variational"
    )
    known.fit(np.column_stack([LINE, offset]), y)
    given = BayesianGLM(family="poisson", prior=Normal(cov=cov[::2, ::2]), inference="variational")
    given.fit(LINE, y, offset=offset)
    assert_allclose(given.log_evidence_, known.log_evidence_, atol=1e-7)
    assert_allclose(given.posterior_.mean, known.posterior_.mean[::2], atol=1e-7)


@pytest.mark.parametrize("prior", [Normal(scale=1.0), "empirical"], ids=repr)
def test_the_first_half_of_the_rows_is_the_prior_of_the_second(prior):
    """Of Gaussian targets exactly; of labels nearly, and the better the more rows there are."""
    one, two = data(CANCER_X[:100], CANCER_Y[:100].astype(float)), data(CANCER_X[100:], CANCER_Y[100:].astype(float))
    spec = LinearSpec(BernoulliLogit(), prior, inference="variational")
    both = update_linear(fit_linear(one, spec), two)
    assert both.rung == "variational" and both.n_parts == 2
    whole = fit_linear(data(CANCER_X, CANCER_Y.astype(float)), spec)
    if prior == "empirical":  # scales stay those of the first half
        assert both.scales == fit_linear(one, spec).scales
        return
    assert_allclose(both.posterior.mean, whole.posterior.mean, atol=0.25 * whole.posterior.std.max())
    assert_allclose(both.log_evidence, whole.log_evidence, atol=0.5)


@pytest.mark.parametrize("likelihood", [FamilyLikelihood(Gamma(), Log(), 0.5), FamilyLikelihood(Poisson(), Log())])
def test_skewed_families_have_a_bound_below_their_evidence(likelihood):
    y = 1.0 + np.arange(20.0) % 5
    fit = fitted(likelihood, LINE, y, Normal(scale=2.0, intercept_scale=2.0))
    log_evidence = quadrature_of_two(likelihood, LINE[:, 0], y, 2.0)
    assert log_evidence - 0.02 < fit.log_evidence < log_evidence
