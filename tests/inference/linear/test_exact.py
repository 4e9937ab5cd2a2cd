"""Exact inference: draws beside quadrature, within their own Monte Carlo error; what they cost, and what they refuse.

Tolerances are five standard errors: of a mean the standard deviation over the root of the effective number of draws, of
a probability p √(p(1 - p)) over it, of the evidence what bridge sampling says.
"""

import signal
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import chi2, norm, t

from credibly import BayesianGLM, BayesianLogisticRegression, Jeffreys, Normal, Status, StudentT
from credibly.errors import ConvergenceWarning, InputError
from credibly.inference.linear.exact import exact
from credibly.inference.linear.fit import Problem, fit_linear
from credibly.inference.linear.posterior import DrawnPosterior
from credibly.inference.linear.spec import LinearSpec
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics.status import CONTROLS, silent
from inference_rows import data

LINE = np.linspace(-2, 2, 16)
OVERLAPPING = (np.sin(3 * LINE) > 0.2).astype(int)
SEPARATED = (LINE > 0.3).astype(int)


def separated() -> BayesianLogisticRegression:
    return BayesianLogisticRegression(prior=Normal(scale=5.0), inference="exact", random_state=0).fit(
        LINE[:, None], SEPARATED
    )


class Quadrature:
    """The posterior of a slope and an intercept on a grid, fine near zero: its evidence, and averages over it."""

    def __init__(self, likelihood, x, y, log_prior, reach):
        u = np.linspace(-1, 1, 1001)
        w, dw = reach * u**3, 3 * reach * u**2 * (u[1] - u[0])
        y = np.asarray(y, dtype=float)
        log_joint = np.stack([likelihood.log_prob(y, np.multiply.outer(w, x) + b).sum(axis=1) for b in w], axis=1)
        log_joint += log_prior(w[:, None], w[None, :])
        top = log_joint.max()
        mass = np.exp(log_joint - top) * np.multiply.outer(dw, dw)
        self.slope, self.intercept = np.meshgrid(w, w, indexing="ij")
        self.log_evidence, self.share = top + np.log(mass.sum()), mass / mass.sum()

    def average(self, values) -> float:
        return float((self.share * values).sum())


def normal(scale, intercept_scale):
    return lambda w, b: norm.logpdf(w, 0, scale) + norm.logpdf(b, 0, intercept_scale)


CASES = {
    "logit": (BernoulliLogit(), OVERLAPPING, Normal(scale=2.0, intercept_scale=3.0), normal(2.0, 3.0), 30.0),
    "separated": (BernoulliLogit(), SEPARATED, Normal(scale=5.0), normal(5.0, 10.0), 90.0),
    "probit, separated": (BernoulliProbit(), SEPARATED, Normal(scale=5.0), normal(5.0, 10.0), 90.0),
    "Cauchy threshold": (BernoulliCauchit(), OVERLAPPING, Normal(scale=2.0), normal(2.0, 10.0), 90.0),
    "label noise": (LabelNoise(BernoulliLogit(), 0.1, 0.1), SEPARATED, Normal(scale=3.0), normal(3.0, 10.0), 90.0),
    "Student-t prior": (
        BernoulliLogit(),
        SEPARATED,
        StudentT(df=4, scale=1.0, intercept_scale=2.0),
        lambda w, b: t.logpdf(w, 4) + t.logpdf(b / 2, 4) - np.log(2),
        400.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_means_deviations_tails_and_evidence_are_those_of_quadrature(name):
    likelihood, y, prior, log_prior, reach = CASES[name]
    known = Quadrature(likelihood, LINE, y, log_prior, reach)
    spec = LinearSpec(likelihood, prior, inference="exact", draws=20_000)
    fit = fit_linear(data(LINE[:, None], y.astype(float)), spec)
    assert fit.status is Status.CONVERGED and fit.rung == "exact"
    assert abs(fit.log_evidence - known.log_evidence) < 5 * fit.log_evidence_se
    assert 0 < fit.log_evidence_se < 0.02
    draws, chains = fit.posterior.weight_draws, fit.posterior.chains
    ess = min(chains.ess_bulk.min(), chains.ess_tail.min())
    for j, grid in enumerate((known.slope, known.intercept)):
        mean = known.average(grid)
        sd = np.sqrt(known.average((grid - mean) ** 2))
        kurtosis = known.average(((grid - mean) / sd) ** 4)
        assert abs(draws[:, j].mean() - mean) < 5 * sd / np.sqrt(ess)
        assert abs(draws[:, j].std() / sd - 1) < 5 * np.sqrt((kurtosis - 1) / 4 / ess)
        for level in (0.05, 0.5, 0.95):
            beyond = known.average(grid > np.quantile(draws[:, j], level))
            assert abs(beyond - (1 - level)) < 5 * np.sqrt(level * (1 - level) / ess) + 2e-3  # a cell of the grid
        assert_allclose(fit.posterior.mean[j], draws[:, j].mean(), atol=1e-10 + 1e-9 * sd)
    assert_allclose(fit.posterior.cov, np.cov(draws.T, ddof=0), rtol=1e-6)


def test_probabilities_and_their_intervals_are_averages_over_the_posterior():
    model = separated()
    known = Quadrature(BernoulliLogit(), LINE, SEPARATED, normal(5.0, 10.0), 90.0)
    rows = np.array([[-3.0], [0.2], [0.35], [2.5]])
    proba, ends = model.predict_proba(rows)[:, 1], model.predict_interval(rows, 0.9)
    for x, p, (low, high) in zip(rows[:, 0], proba, ends, strict=True):
        at = expit(known.slope * x + known.intercept)
        mean = known.average(at)
        sd = np.sqrt(known.average((at - mean) ** 2))
        assert abs(p - mean) < 5 * sd / np.sqrt(model.ess_)
        for end, level in ((low, 0.05), (high, 0.95)):
            assert abs(known.average(at < end) - level) < 5 * np.sqrt(0.05 * 0.95 / model.ess_) + 5e-3
    mean, variance = model.predict_latent(rows)
    f = model.posterior_.weight_draws @ np.column_stack([rows, np.ones(4)]).T
    assert_allclose(mean, f.mean(axis=0), rtol=1e-8)
    assert_allclose(variance, f.var(axis=0), rtol=1e-6)
    drawn = model.sample_proba(rows, 50, random_state=0)[:, :, 1]
    assert np.isin(drawn.round(12), expit(f).round(12)).all()  # those that are held


def test_intervals_of_weights_are_quantiles_and_densities_those_of_the_moments():
    model = separated()
    posterior = model.posterior_
    assert isinstance(posterior, DrawnPosterior)
    assert_allclose(posterior.interval(0.8).T, np.quantile(posterior.weight_draws, [0.1, 0.9], axis=0))
    assert_allclose(posterior.positive, (posterior.weight_draws > 0).mean(axis=0))
    low, high = posterior.interval(0.9)[0]
    assert high - posterior.mean[0] > 1.1 * (posterior.mean[0] - low)  # skewed: separated rows bound it on one side
    at = posterior.mean + np.array([1.0, -0.5])
    gaussian = norm.logpdf(0) * 2 - 0.5 * np.linalg.slogdet(posterior.cov)[1]
    gaussian -= 0.5 * (at - posterior.mean) @ np.linalg.solve(posterior.cov, at - posterior.mean)
    assert_allclose(posterior.logpdf(at), gaussian, rtol=1e-9)


def test_three_weights_of_a_poisson_model_are_those_of_quadrature():
    y = np.array([0, 0, 1, 0, 2, 1, 1, 3, 2, 1, 4, 2, 5, 3, 6, 9])
    X = np.column_stack([LINE, LINE**2 - 1.4])
    model = BayesianGLM(family="poisson", prior=Normal(scale=1.0, intercept_scale=2.0), inference="exact", draws=20_000)
    model.fit(X, y)
    axes = [
        m + 9 * s * np.linspace(-1, 1, 91) for m, s in zip(model.posterior_.mean, model.posterior_.std, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    f = grid @ np.column_stack([X, np.ones(16)]).T
    log_joint = (y * f - np.exp(f)).sum(axis=1) + norm.logpdf(grid / [1.0, 1.0, 2.0]).sum(axis=1) - np.log(2.0)
    log_joint -= sum(np.log(np.arange(1, k + 1)).sum() for k in y)
    mass = np.exp(log_joint - log_joint.max())
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    log_evidence = log_joint.max() + np.log(mass.sum() * cell)
    assert abs(model.log_evidence_ - log_evidence) < 5 * model.log_evidence_se_
    mean = mass @ grid / mass.sum()
    sd = np.sqrt(mass @ (grid - mean) ** 2 / mass.sum())
    assert (np.abs(model.posterior_.mean - mean) < 5 * sd / np.sqrt(model.ess_)).all()


def test_the_evidence_of_two_classes_by_softmax_is_that_of_their_difference():
    root = np.sqrt(2.0)
    softmax = BayesianLogisticRegression(prior=Normal(scale=2.0), inference="exact", multi_class="softmax")
    softmax.fit(LINE[:, None], OVERLAPPING)
    known = Quadrature(BernoulliLogit(), LINE, OVERLAPPING, normal(2.0 * root, 10.0 * root), 120.0)
    assert abs(softmax.log_evidence_ - known.log_evidence) < 5 * softmax.log_evidence_se_


def test_where_averages_do_not_exist_draws_are_found_all_the_same():
    """A rate that is a line: counts of 16 rows, beside quadrature over scores that are all positive."""
    y = np.array([3, 2, 4, 3, 5, 4, 6, 5, 7, 5, 8, 7, 6, 9, 8, 9])
    model = BayesianGLM(family="poisson", link="identity", prior=Normal(scale=2.0), inference="exact", draws=20_000)
    model.fit(LINE[:, None], y)
    w, b = np.linspace(-8, 12, 2001)[:, None], np.linspace(0, 30, 3001)[None]
    log_joint = normal(2.0, 10.0)(w, b)
    with np.errstate(all="ignore"):
        for x, k in zip(LINE, y, strict=True):
            mu = w * x + b
            log_joint = log_joint + np.where(mu > 0, k * np.log(mu) - mu, -np.inf) - np.log(np.arange(1, k + 1)).sum()
    mass = np.exp(log_joint - log_joint.max())
    log_evidence = log_joint.max() + np.log(mass.sum() * 0.01 * 0.01)
    assert abs(model.log_evidence_ - log_evidence) < 5 * model.log_evidence_se_
    mean = (mass.sum(axis=1) @ w[:, 0]) / mass.sum()
    sd = np.sqrt((mass.sum(axis=1) @ (w[:, 0] - mean) ** 2) / mass.sum())
    assert abs(model.coef_[0] - mean) < 5 * sd / np.sqrt(model.ess_)


# --- seeds, budgets, interruptions ----------------------------------------------------------------------------


def test_one_seed_is_one_answer_however_many_threads_and_another_is_another():
    X = np.column_stack([LINE, np.cos(5 * LINE)])
    X, y = np.tile(X, (40, 1)), np.tile(OVERLAPPING, 40)
    y[::7] = 1 - y[::7]

    def draws(seed, n_jobs):
        model = BayesianLogisticRegression(prior=Normal(scale=1.0), inference="exact", random_state=seed, n_jobs=n_jobs)
        return model.fit(X, y).posterior_.draws

    one = draws(3, 1)
    assert_array_equal(draws(3, 2), one)
    assert_array_equal(draws(3, 4), one)
    assert (draws(4, 1)[:100] != one[:100]).any()
    assert_array_equal(draws(None, 1), draws(None, 2))  # without one, the same every time


def test_as_many_draws_as_asked_for_at_least():
    few, many = (
        BayesianLogisticRegression(prior=Normal(scale=1.0), inference="exact", draws=draws).fit(
            LINE[:, None], SEPARATED
        )
        for draws in (None, 30_000)
    )
    assert len(few.posterior_.draws) < 30_000 <= len(many.posterior_.draws)
    assert many.log_evidence_se_ < few.log_evidence_se_
    assert few.rhat_ < 1.01 and few.ess_ >= 400


def test_a_budget_that_runs_out_is_told():
    X = np.column_stack([LINE**k for k in range(1, 4)])
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        model = BayesianLogisticRegression(prior=Normal(scale=5.0), inference="exact", max_passes=1000).fit(
            X, SEPARATED
        )
    assert model.status_ is Status.CHAINS_NOT_MIXED and not model.status_.good
    assert 900 < model.n_iter_ <= 1000 and model.rhat_ > 1.01
    assert np.isfinite(model.log_evidence_) and not model.certify(X, SEPARATED).reliable


def test_a_budget_that_ends_in_warm_up_is_an_error():
    with pytest.raises(InputError, match="max_passes=20"):
        BayesianLogisticRegression(prior=Normal(scale=1.0), inference="exact", max_passes=20).fit(
            LINE[:, None], SEPARATED
        )


@pytest.mark.parametrize("prior", [None, Jeffreys()], ids=repr)
def test_without_a_prior_that_is_a_distribution_there_is_nothing_to_draw_from(prior):
    with pytest.raises(InputError, match="prior"):
        BayesianLogisticRegression(prior=prior, inference="exact").fit(LINE[:, None], OVERLAPPING)


class Nowhere:
    """A density that is no number anywhere."""

    dim = 2

    def density(self, z):
        return np.full(len(z), np.nan), np.full(z.shape, np.nan)

    def points(self, z):
        return z


def test_chains_that_cannot_start_are_an_error():
    rows = data(LINE[:, None], OVERLAPPING.astype(float))
    problem = Problem.of(rows, LinearSpec(BernoulliLogit(), Normal(scale=1.0), inference="exact"), silent)
    with pytest.raises(InputError, match=r"64 of 64 chains cannot start"):
        exact(np.random.default_rng(0), Nowhere(), problem.at(problem.choices.start), CONTROLS)


def test_draws_are_no_prior_of_more_rows():
    model = separated()
    before = model.posterior_.draws
    with pytest.raises(InputError, match="partial_fit"):
        model.partial_fit(LINE[:, None], SEPARATED)
    assert model.posterior_.draws is before


def test_what_only_draws_have_is_told_of_other_fits():
    model = BayesianLogisticRegression(prior=Normal(scale=1.0), inference="laplace").fit(LINE[:, None], SEPARATED)
    for name in ("rhat_", "ess_"):
        with pytest.raises(AttributeError, match="laplace"):
            getattr(model, name)
    assert model.log_evidence_se_ == 0.0


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ctrl-C after a tenth of a second."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_an_interrupt_is_heard_and_leaves_the_model_as_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 20)), np.arange(20_000) % 2
    model = BayesianLogisticRegression(prior=Normal(scale=1.0), inference="exact")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "fit_")


def test_every_pass_is_reported_and_an_interrupt_between_two_passes_through():
    seen = []

    def report(step, value, rise):
        seen.append(step)
        if len(seen) == 30:
            raise KeyboardInterrupt

    spec = LinearSpec(BernoulliLogit(), Normal(scale=1.0), inference="exact")
    with pytest.raises(KeyboardInterrupt):
        fit_linear(data(LINE[:, None], OVERLAPPING.astype(float)), spec, report)
    assert seen[-1] > 10


# --- calibration ----------------------------------------------------------------------------------------------


def ranks(simulations: int, seed: int) -> np.ndarray:
    """Ranks of weights drawn from the prior among twenty draws of their posterior, (simulations, weights).

    Draws far apart in their chains, so that they are as good as independent.
    """
    rng, X = np.random.default_rng(seed), np.column_stack([LINE[::2], np.ones(8)])
    found = np.empty((simulations, 2), dtype=int)
    for i in range(simulations):
        w = rng.normal(size=2) * [2.0, 1.5]
        y = rng.random(8) < expit(X @ w)
        spec = LinearSpec(
            BernoulliLogit(), Normal(scale=2.0, intercept_scale=1.5), inference="exact", seed=int(rng.integers(2**31))
        )
        posterior = fit_linear(data(X[:, :1], y.astype(float)), spec).posterior
        chains = posterior.weight_draws.reshape(*posterior.chains.points.shape[:2], 2)
        found[i] = (chains[:20, -1] < w).sum(axis=0)
    return found


def uniform(found: np.ndarray) -> float:
    """p-value of χ² of ranks 0 … 20 in seven bins of three."""
    counts = np.bincount(found // 3, minlength=7)
    expected = len(found) / 7
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 6))


def test_ranks_of_what_was_simulated_are_uniform():
    """Talts et al. 2018: fifty simulations, enough to see an interval that is half as wide as it should be."""
    for found in ranks(50, seed=1).T:
        assert uniform(found) > 1e-3


@pytest.mark.slow
def test_ranks_of_many_simulations_are_uniform():
    for found in ranks(1000, seed=2).T:
        assert uniform(found) > 1e-3
