"""`inference="auto"`: Laplace where averaging bears it out, else the next rung; the check, and what it costs."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Jeffreys,
    NoisyThresholdClassifier,
    Normal,
    ParquetRows,
    Status,
    StudentT,
)
from credibly.data.rows import MemoryRows
from credibly.inference.linear.auto import MOST_CHANGE, MOST_SHIFT, MOST_WIDENING, checked
from credibly.inference.linear.fit import Problem, fit_linear, update_linear
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.spec import LinearSpec
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, Categorical
from credibly.model.likelihoods.families import Gaussian
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Identity
from credibly.numerics.status import silent
from inference_rows import data

LINE = np.linspace(-2, 2, 20)[:, None]
SEPARATED = (LINE[:, 0] > 0).astype(int)
IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


def many(n: int = 5000, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X @ np.arange(1, d + 1) / d + rng.logistic(size=n) > 0).astype(int)


def check_of(likelihood, X, y, prior, weight=None):
    problem = Problem.of(data(X, y, weight), LinearSpec(likelihood, prior), silent)
    objective = problem.at(problem.choices.start)
    return checked(objective, laplace(objective, problem.start))


# --- what is chosen -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=2.5), StudentT()], ids=repr)
def test_many_rows_keep_laplace_to_the_last_bit(prior):
    X, y = many()
    auto = BayesianLogisticRegression(prior=prior).fit(X, y)
    laplace_ = BayesianLogisticRegression(prior=prior, inference="laplace").fit(X, y)
    assert auto.rung_ == "laplace" and auto.status_ is Status.CONVERGED
    assert auto.log_evidence_ == laplace_.log_evidence_
    assert_array_equal(auto.posterior_.cov, laplace_.posterior_.cov)


CHOICES = {
    "two classes": (BayesianLogisticRegression(prior=Normal(scale=2.5)), "ep"),
    "two classes, learnt scale": (BayesianLogisticRegression(), "ep"),
    "probit": (BayesianProbitRegression(prior=Normal(scale=2.5)), "ep"),
    "Cauchy threshold": (NoisyThresholdClassifier(threshold="cauchy", prior=Normal(scale=2.5)), "ep"),
    "label noise": (BayesianLogisticRegression(prior=Normal(scale=2.5), label_noise=0.1), "ep"),
    "Student-t prior": (BayesianLogisticRegression(prior=StudentT()), "variational"),
    "softmax": (BayesianLogisticRegression(prior=Normal(scale=2.5), multi_class="softmax"), "ep"),
    "binomial": (BayesianGLM("binomial", prior=Normal(scale=2.5)), "variational"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_separated_rows_leave_laplace_for_the_rung_that_can_do_it(name):
    """Two classes by softmax under a prior that treats them alike are the logit of their difference."""
    model, rung = CHOICES[name]
    model.fit(LINE, SEPARATED)
    assert model.rung_ == rung and model.status_.good
    assert f"inference='auto' used {rung!r}" in str(model.summary())


@pytest.mark.parametrize(
    ("rows", "rung"),
    [
        ({"sample_weight": np.where(np.arange(20) == 3, 0.5, 1.0)}, "variational"),
        ({"sample_weight": np.where(np.arange(20) == 3, 0.0, 1.5)}, "ep"),
    ],
    ids=["a row that counts half", "rows that count once and a half"],
)
def test_a_row_that_counts_in_part_has_no_moments(rows, rung):
    assert BayesianLogisticRegression(prior=Normal(scale=2.5)).fit(LINE, SEPARATED, **rows).rung_ == rung


def test_rows_in_files_go_on_to_variational_inference(tmp_path):
    pq.write_table(pa.table({"x": LINE[:, 0], "y": SEPARATED}), tmp_path / "rows.parquet")
    model = BayesianLogisticRegression(prior=Normal(scale=2.5)).fit(ParquetRows(tmp_path / "rows.parquet", target="y"))
    memory = BayesianLogisticRegression(prior=Normal(scale=2.5), inference="variational").fit(LINE, SEPARATED)
    assert model.rung_ == "variational"
    assert_allclose(model.log_evidence_, memory.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize("prior", ["empirical", Normal(scale=2.5)], ids=repr)
@pytest.mark.parametrize(("X", "y"), [(LINE, SEPARATED), IRIS], ids=["two classes", "three classes"])
def test_what_it_says_is_what_that_rung_says(prior, X, y):
    auto = BayesianLogisticRegression(prior=prior).fit(X, y)
    rung = BayesianLogisticRegression(prior=prior, inference=auto.rung_).fit(X, y)
    assert auto.rung_ == ("ep" if len(auto.classes_) == 2 else "variational")
    assert_allclose(auto.log_evidence_, rung.log_evidence_, atol=1e-3 if prior == "empirical" else 1e-5)
    assert_allclose(auto.predict_proba(X), rung.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize(
    ("X", "y"), [(LINE, SEPARATED), IRIS, (WINE[0][:, :5], WINE[1])], ids=["separated", "iris", "wine"]
)
def test_it_is_nearer_to_exact_than_laplace_is(X, y):
    prior = Normal(scale=2.5, standardized=True)
    exact, auto, mode = (
        BayesianLogisticRegression(prior=prior, inference=how).fit(X, y) for how in ("exact", "auto", "laplace")
    )
    assert auto.rung_ != "laplace"
    means = [it.posterior_.determined().mean for it in (exact, auto, mode)]
    off, further = (np.abs(mean - means[0]).max() for mean in means[1:])
    assert off < further
    assert np.abs(auto.predict_proba(X) - exact.predict_proba(X)).max() < 0.02
    assert abs(auto.log_evidence_ - exact.log_evidence_) < 0.6  # Laplace's may be nearer, by luck: it has no sign


# --- what stays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [{"prior": None}, {"prior": Jeffreys()}, {"solver": "sgd"}], ids=repr)
def test_without_a_prior_and_by_stochastic_gradient_it_is_laplace(choices):
    y = (np.sin(3 * LINE[:, 0]) > 0.2).astype(int)
    auto = BayesianLogisticRegression(random_state=0, **choices).fit(LINE, y)
    laplace_ = BayesianLogisticRegression(random_state=0, inference="laplace", **choices).fit(LINE, y)
    assert auto.rung_ == "laplace"
    assert_array_equal(auto.coef_, laplace_.coef_)
    assert auto.status_ is laplace_.status_


@pytest.mark.parametrize(
    ("family", "link"),
    [("gamma", None), ("inverse_gaussian", None), ("poisson", "identity"), ("poisson", "sqrt"), ("gamma", "inverse")],
)
def test_where_averages_do_not_exist_laplace_stays_and_the_status_says_so(family, link):
    y = 1.0 + np.arange(20) % 5
    auto = BayesianGLM(family, link, prior=Normal(scale=1.0)).fit(LINE, y)
    laplace_ = BayesianGLM(family, link, prior=Normal(scale=1.0), inference="laplace").fit(LINE, y)
    assert auto.rung_ == "laplace" and auto.log_evidence_ == laplace_.log_evidence_
    assert auto.status_ is Status.LAPLACE_UNCHECKED and auto.status_.good
    assert laplace_.status_ is Status.CONVERGED
    assert BayesianGLM(family, link, prior=None).fit(LINE, y).status_ is Status.CONVERGED


def test_a_group_without_any_count_is_left_to_averages():
    """Laplace's mode of a log rate is there far from its mean."""
    group = np.repeat([0.0, 1.0], 20)[:, None]
    y = np.where(group[:, 0] == 1, 0.0, np.arange(40) % 5)
    model = BayesianGLM("poisson", prior=Normal(scale=30.0)).fit(group, y)
    exact = BayesianGLM("poisson", prior=Normal(scale=30.0), inference="exact").fit(group, y)
    mode = BayesianGLM("poisson", prior=Normal(scale=30.0), inference="laplace").fit(group, y)
    assert model.rung_ == "variational" and model.status_.good
    assert abs(model.coef_[0] - exact.coef_[0]) < abs(mode.coef_[0] - exact.coef_[0])


# --- the check ------------------------------------------------------------------------------------------------


def test_of_gaussian_targets_averaging_moves_nothing():
    check = check_of(FamilyLikelihood(Gaussian(), Identity(), 0.5), LINE, np.sin(LINE[:, 0]), Normal(scale=2.0))
    assert check.shift < 1e-6 and check.widening < 1e-12 and check.change == 0.0 and check.holds


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliCauchit()], ids=repr)
def test_one_weight_moves_as_far_as_its_averages_say(likelihood):
    """m + g/λ and λ, with gradient and precision averaged over Laplace's Gaussian, by nodes of this test's own."""
    y, scale = (np.sin(3 * LINE[:, 0]) > 0.2).astype(float), 1.0
    spec = LinearSpec(likelihood, Normal(scale=scale), inference="laplace", intercept=False)
    fit = fit_linear(data(LINE, y), spec)
    (m,), (sd,) = fit.posterior.mean, fit.posterior.std
    x = np.linspace(-9, 9, 2001)
    weights = norm.pdf(x) / norm.pdf(x).sum()
    w = m + sd * x
    grad, curvature = likelihood.slopes(y[:, None], LINE * w)
    gradient = (LINE[:, 0] @ grad) @ weights - m / scale**2
    precision = (LINE[:, 0] ** 2 @ curvature) @ weights + 1 / scale**2
    problem = Problem.of(data(LINE, y), spec, silent)
    objective = problem.at(problem.choices.start)
    check = checked(objective, laplace(objective, problem.start))
    assert_allclose(check.shift, abs(gradient / precision) / sd, rtol=1e-6)
    assert_allclose(check.widening, abs(precision**-0.5 / sd - 1), rtol=1e-6)
    moved = m + gradient / precision
    before, after = (
        np.exp(likelihood.label_averages(LINE[:, 0] * mean, (LINE[:, 0] * spread) ** 2).one)
        for mean, spread in ((m, sd), (moved, precision**-0.5))
    )
    assert check.change == np.inf or abs(check.change - np.abs(after - before).max()) < 1e-7


def test_what_it_finds_fades_like_one_over_the_rows():
    X, y = many(400)
    weights = (1.0, 4.0, 16.0)
    checks = [check_of(BernoulliLogit(), X, y.astype(float), Normal(scale=2.5), np.full(400, w)) for w in weights]
    shifts, widenings = np.array([it.shift for it in checks]), np.array([it.widening for it in checks])
    assert_allclose(shifts[:-1] / shifts[1:], 2.0, rtol=0.15)  # a shift is of order 1/√n standard deviations,
    assert_allclose(widenings[:-1] / widenings[1:], 4.0, rtol=0.15)  # a change of a width 1/n


def test_a_rung_stays_exactly_where_the_check_holds():
    """The same rows with ever larger weights: from some weight on Laplace stays, and the check changes there."""
    y = (np.sin(3 * LINE[:, 0]) > 0.2).astype(float)
    rungs = []
    for weight in (1.0, 2.0, 4.0, 8.0, 16.0, 64.0):
        check = check_of(BernoulliLogit(), LINE, y, Normal(scale=2.5), np.full(20, weight))
        within = check.shift <= MOST_SHIFT and check.widening <= MOST_WIDENING and check.change <= MOST_CHANGE
        assert check.holds == within
        rows = data(LINE, y, np.full(20, weight))
        fit = fit_linear(rows, LinearSpec(BernoulliLogit(), Normal(scale=2.5)))
        assert (fit.rung == "laplace") == check.holds
        rungs.append(fit.rung)
    assert rungs[0] == "ep" and rungs[-1] == "laplace" and rungs == sorted(rungs)


def test_rows_without_weight_have_no_say():
    X = np.vstack([LINE, [[1e6]]])
    y = np.append((np.sin(3 * LINE[:, 0]) > 0.2).astype(float), 1.0)
    weight = np.append(np.full(20, 3.0), 0.0)
    one = check_of(BernoulliLogit(), LINE, y[:-1], Normal(scale=2.5), weight[:-1])
    other = check_of(BernoulliLogit(), X, y, Normal(scale=2.5), weight)
    assert_allclose([other.shift, other.widening], [one.shift, one.widening], rtol=1e-9)


# --- what it costs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedRows(MemoryRows):
    """Rows that count how many passes over them are made."""

    passes: list[int] = field(default_factory=list)

    def parts(self, work):
        self.passes.append(self.n_rows)
        return super().parts(work)


def passes(spec: LinearSpec, X, y) -> list[int]:
    rows = CountedRows(X, y)
    described = data(X, y)
    fit_linear(type(described)(rows, described.columns, described.names, described.n_counted), spec)
    return rows.passes


@pytest.mark.parametrize("n", [3000, 30_000])
@pytest.mark.parametrize("likelihood", [BernoulliLogit(), Categorical(2)], ids=repr)
def test_the_check_is_three_passes_over_no_more_than_a_sample(n, likelihood):
    X, y = many(n)
    y = y.astype(float) if isinstance(likelihood, BernoulliLogit) else y
    spec = partial(LinearSpec, likelihood, Normal(scale=2.5))
    auto, plain = (sorted(passes(spec(inference=how), X, y)) for how in ("auto", "laplace"))
    more = len(auto) - len(plain)
    assert more <= (3 if n == 3000 else 6)  # a sample is counted and drawn in two passes, one of them over labels
    if n > 8000:
        assert sum(auto) - sum(plain) <= 2 * n + 4 * 6000


def test_the_same_rows_have_the_same_rung_and_the_same_numbers():
    X, y = many(20_000)
    fits = [BayesianLogisticRegression(prior="ard", random_state=seed).fit(X, y) for seed in (None, 0, 1)]
    assert {it.rung_ for it in fits} == {"laplace"}
    assert_array_equal(fits[1].coef_, fits[0].coef_)
    assert_array_equal(fits[2].coef_, fits[0].coef_)
    few = [BayesianLogisticRegression(random_state=seed).fit(*IRIS) for seed in (0, 1)]
    assert_array_equal(few[1].coef_, few[0].coef_)


def test_more_rows_of_a_fit_by_a_later_rung_are_checked_again():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = (X[:, :3] - X[:, :3].mean(axis=0)) / X[:, :3].std(axis=0), y.astype(float)
    fit = fit_linear(data(X[:30], y[:30]), LinearSpec(BernoulliLogit(), Normal(scale=2.5)))
    assert fit.rung == "ep"
    for start in range(30, 530, 100):
        fit = update_linear(fit, data(X[start : start + 100], y[start : start + 100]))
    assert fit.rung == "laplace"
