"""Very many weights: exactly in the space of few rows, or by conjugate gradients and draws with a stated error."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import logit

import credibly
from credibly import BayesianGLM, BayesianLogisticRegression, BayesianProbitRegression, Jeffreys, Normal, StudentT
from credibly.data.rows import MemoryRows
from credibly.errors import CollinearityError, ConvergenceWarning, InputError, NotDefinedError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.wide import LOOSE, WideGaussian, WideObjective
from credibly.model.centred_prior import CentredNormal, IndependentPrior
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.model.priors import WeightShape
from credibly.numerics.settings import ManyWeights
from credibly.numerics.status import Status

FULL = ManyWeights(narrow=10**9)
FEW_ROWS = ManyWeights(narrow=1)
BOTH_MANY = ManyWeights(narrow=10**9, largest_matrix=20)
PROBED = 4.0  # standard errors, themselves known to a fifth
ERROR = 1 / np.sqrt(2 * BOTH_MANY.draws)  # the standard error of a standard deviation by draws, relative
DRAWN = 5 * ERROR  # of thousands of weights some are four standard errors away


def limited(model, limits: ManyWeights):
    """The same estimator with other sizes at which its methods change."""
    kind = type(model)
    return type(kind.__name__, (kind,), {"_many_weights": limits})(**model.get_params(deep=False))


def both(model, *data, limits: ManyWeights = FEW_ROWS) -> tuple:
    """The same fit by a matrix of all pairs of weights, and without."""
    full, other = (limited(model, it).fit(*data) for it in (FULL, limits))
    assert full.posterior_.row_space is None and type(full.posterior_.free) is Gaussian
    assert in_row_space(other) if limits is FEW_ROWS else type(other.posterior_.free) is WideGaussian
    return full, other


def in_row_space(model) -> bool:
    """Whether the posterior is held in the space of few rows."""
    return model.posterior_.row_space is not None


def table(n: int, d: int, classes: int = 2, *, sparse: bool = False, seed: int = 11) -> tuple:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 3.0, d) + rng.normal(size=d)
    if sparse:
        X = X * (rng.random(X.shape) < 0.3)
    f = 2 * X[:, 0] / X[:, 0].std() + rng.logistic(size=n)
    y = np.digitize(f, np.quantile(f, np.linspace(0, 1, classes + 1)[1:-1]))
    return (csr_array(X) if sparse else X), y


def close(mine, theirs, tol: float = 1e-12) -> None:
    """To so many digits of the largest number."""
    assert_allclose(mine, theirs, rtol=0, atol=tol * np.abs(theirs).max())


# --- fewer rows than weights --------------------------------------------------------------------------------------

LINKS = {"logit": (BayesianLogisticRegression, 2), "softmax": (BayesianLogisticRegression, 3)} | {
    "probit": (BayesianProbitRegression, 2)
}


@pytest.mark.parametrize("prior", [Normal(scale=0.7), Normal(scale=0.4, mean=np.full(130, 0.1)), "empirical"], ids=str)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("intercept", [True, False], ids=["", "no intercept"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_in_the_space_of_the_rows_the_posterior_is_that_of_all_weights(prior, link, intercept, sparse):
    """A law: everything that is asked of the two is the same."""
    (kind, classes), rng = LINKS[link], np.random.default_rng(0)
    X, y = table(50, 130, classes, sparse=sparse)
    weight = rng.integers(0, 3, 50).astype(float)
    full, few = both(kind(prior=prior, fit_intercept=intercept, inference="laplace"), X, y, weight)
    mine, theirs = few.posterior_, full.posterior_
    for name in ("mean", "std", "cov", "positive"):
        close(getattr(mine, name), getattr(theirs, name))
    close(mine.interval(), theirs.interval())
    at = theirs.mean + 0.1 * rng.normal(size=(3, theirs.mean.size)) * theirs.std
    close(mine.logpdf(at), theirs.logpdf(at))
    close(mine.logpdf(at[0]), theirs.logpdf(at[0]))
    new = rng.normal(size=(4, 130))
    Phi = np.column_stack([new, np.ones(4)]) if intercept else new
    for one, other in zip(mine.project(Phi), theirs.project(Phi), strict=True):
        close(one, other)
    for name in ("log_evidence_", "log_likelihood_", "effective_parameters_"):
        assert_allclose(getattr(few, name), getattr(full, name), rtol=1e-12)
    for rows in (X, new, csr_array(new)):
        close(few.predict_proba(rows), full.predict_proba(rows))
        close(few.predict_interval(rows), full.predict_interval(rows))
        close(few.predict_latent(rows)[1], full.predict_latent(rows)[1])
    assert few.status_ is full.status_ and str(few.summary()) == str(full.summary())
    if prior == "empirical":
        assert_allclose(few.prior_scale_, full.prior_scale_, rtol=1e-12)
        shape = WeightShape(130, 1, intercept)
        close(few.prior_.moments(shape).cov, full.prior_.moments(shape).cov)
        given = both(kind(prior=few.prior_, fit_intercept=intercept, inference="laplace"), X, y, weight)
        assert_allclose(given[1].log_evidence_, given[0].log_evidence_, rtol=1e-12)
        assert_allclose(given[1].log_evidence_, few.log_evidence_, rtol=1e-6)  # another search, to its own tolerance


@pytest.mark.parametrize(
    "choices",
    [
        {"inference": "variational"},
        {"inference": "ep"},
        {"inference": "adf"},
        {"label_noise": 0.1},
        {"label_noise": "estimate"},
    ],
    ids=str,
)
@pytest.mark.parametrize("prior", [Normal(scale=0.3), "empirical"], ids=str)
def test_every_inference_works_there(choices, prior):
    X, y = table(40, 100)
    full, few = both(BayesianLogisticRegression(prior=prior, tol=1e-16, **choices), X, y)
    if prior == "empirical" and choices.get("inference") in ("ep", "variational"):
        # By these a scale is looked for in steps of some hundredths, over an evidence as flat as that near its maximum.
        assert_allclose(few.prior_scale_, full.prior_scale_, rtol=0.02)
        assert_allclose(few.log_evidence_, full.log_evidence_, atol=1e-3)
        return
    tol = {
        "{'inference': 'variational'}": 1e-7,  # tol: squared distances in standard deviations
        "{'label_noise': 'estimate'}": 1e-5,  # flip probabilities and scales end where neither moves by a millionth
    }.get(str(choices), 1e-10)
    close(few.posterior_.mean, full.posterior_.mean, tol)
    close(few.posterior_.std, full.posterior_.std, tol)
    assert_allclose(few.log_evidence_, full.log_evidence_, rtol=tol)
    assert_allclose(few.loo_log_proba_, full.loo_log_proba_, rtol=1000 * tol)  # and NaN where those are


def test_a_sphere_is_another_one_among_fewer_weights():
    """One variance for all weights is the mean over all of them: it is not looked for in the space of the rows."""
    X, y = table(25, 60)
    full, few = (
        limited(BayesianLogisticRegression(inference="adf_spherical"), it).fit(X, y) for it in (FULL, FEW_ROWS)
    )
    close(few.posterior_.std, full.posterior_.std)


@pytest.mark.parametrize("intercept", [True, False])
def test_counts_with_exposures_are_the_same(intercept):
    X, y = table(40, 100, 3)
    exposure = np.linspace(1, 2, 40)
    model = BayesianGLM(family="poisson", prior=Normal(scale=0.1), fit_intercept=intercept, inference="laplace")
    full, few = both(model, X, y, None, None, exposure)
    close(few.posterior_.mean, full.posterior_.mean)
    assert_allclose(few.log_evidence_, full.log_evidence_, rtol=1e-12)
    assert_allclose([few.deviance_, few.null_deviance_], [full.deviance_, full.null_deviance_], rtol=1e-11)
    new = 0.1 * table(5, 100, seed=1)[0]
    close(few.predict(new), full.predict(new))


def test_counts_of_few_rows_and_many_columns_find_their_scale():
    """At a wider prior the scores of the last scale's mode would be beyond what a mean of counts can be."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3000)), rng.poisson(2, size=60)
    model = BayesianGLM("poisson").fit(X, y)
    assert model.status_.good
    assert model.log_evidence_ >= BayesianGLM("poisson", prior=Normal(scale=0.01)).fit(X, y).log_evidence_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore:partial_fit has drifted")
def test_more_rows_make_the_space_larger(classes, sparse):
    """A law: yesterday's posterior is today's prior, in coordinates that new rows have, too; then in all directions."""
    X, y = table(90, 70, classes, sparse=sparse)
    model = BayesianLogisticRegression(prior=Normal(scale=0.3), inference="laplace")
    models = [limited(model, it) for it in (FULL, FEW_ROWS)]
    for rows in (slice(0, 20), slice(20, 30), slice(20, 25), slice(30, 90)):
        full, few = (model.partial_fit(X[rows], y[rows], classes=np.arange(classes)) for model in models)
        assert in_row_space(few)
        close(few.posterior_.mean, full.posterior_.mean, 1e-10)
        close(few.posterior_.std, full.posterior_.std, 1e-10)
        assert_allclose(few.log_evidence_, full.log_evidence_, rtol=1e-11)
        assert_allclose(few.effective_parameters_, full.effective_parameters_, rtol=1e-10)
        close(few.predict_proba(X), full.predict_proba(X), 1e-10)
    assert few.posterior_.row_space.rank == 70
    # A batch's quadratic is compared where its own posterior was: in all directions, or in those of the rows so far.
    assert 0 < few.drift_ < np.inf


def test_updates_end_where_the_space_would_be_too_large():
    X, y = table(60, 200)
    model = limited(BayesianLogisticRegression(prior=Normal(scale=0.3)), ManyWeights(narrow=1, largest_matrix=50))
    model.fit(X[:40], y[:40])
    before = model.posterior_
    with pytest.raises(InputError, match=r"63 coordinates.*up to 50.*Fit to all rows at once"):
        model.partial_fit(X[40:], y[40:])
    assert model.posterior_ is before


def test_a_certificate_and_every_inference_are_of_the_same_posterior():
    X, y = table(15, 30)
    full, few = both(BayesianLogisticRegression(prior=Normal(scale=0.1), inference="laplace"), X, y)
    mine, theirs = (fit.certify(X, y, draws=4096, random_state=0) for fit in (few, full))
    # Draws in other coordinates: both estimate the same numbers.
    assert abs(mine.log_evidence - theirs.log_evidence) < 4 * np.hypot(mine.log_evidence_se, theirs.log_evidence_se)
    assert_allclose(mine.std, theirs.std, rtol=4 / np.sqrt(min(mine.ess, theirs.ess)))
    assert np.abs(mine.mean - theirs.mean).max() < 4 * theirs.std.max() * np.sqrt(1 / mine.ess + 1 / theirs.ess)
    for inference in ("ep", "variational", "exact"):
        model = BayesianLogisticRegression(prior=Normal(scale=0.1), inference=inference)
        better = limited(model, FEW_ROWS).fit(X, y)
        assert in_row_space(better)
        assert_allclose(better.posterior_.std, theirs.std, rtol=0.1)  # approximations of the same posterior
        assert abs(better.log_evidence_ - theirs.log_evidence) < 0.05 + 4 * theirs.log_evidence_se
        assert better.sample_proba(X, 3, random_state=0).shape == (3, 15, 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_draws_in_the_space_of_the_rows_are_those_of_all_weights(classes):
    """Outside of that space draws are the prior's; exact means and widths agree within what draws know."""
    X, y = table(15, 30, classes)
    full, few = both(BayesianLogisticRegression(prior=Normal(scale=0.2), inference="exact"), X, y)
    error = 4 * np.sqrt(1 / full.ess_ + 1 / few.ess_)
    gap = np.abs(few.posterior_.mean - full.posterior_.mean) / full.posterior_.std
    assert gap.max() < error
    assert_allclose(few.posterior_.std, full.posterior_.std, rtol=error)
    widths = [np.diff(it.posterior_.interval(0.9), axis=1) for it in (few, full)]
    assert_allclose(*widths, rtol=2 * error)  # a quantile is known about half as well as a mean
    assert_allclose(
        few.log_evidence_, full.log_evidence_, atol=4 * np.hypot(few.log_evidence_se_, full.log_evidence_se_)
    )
    assert_allclose(few.predict_proba(X), full.predict_proba(X), atol=0.5 * error)


def test_draws_of_weights_and_of_probabilities_have_the_covariance_of_the_posterior():
    """In each draw all rows share their weights, also where those are as the prior says: rows' scores go together."""
    X, y = table(15, 40)
    full, few = both(BayesianLogisticRegression(prior=Normal(scale=0.1)), X, y)
    size, new = 4000, table(3, 40, seed=2)[0]
    want = np.c_[new, np.ones(3)] @ full.posterior_.cov @ np.c_[new, np.ones(3)].T
    by_weights = few.posterior_.sample(np.random.default_rng(0), size) @ np.c_[new, np.ones(3)].T
    by_proba = logit(few.sample_proba(new, size, random_state=0)[..., 1])
    error = np.sqrt((np.outer(np.diag(want), np.diag(want)) + want**2) / size)
    for scores in (by_weights, by_proba):
        assert (np.abs(np.cov(scores.T) - want) < 4 * error).all()


def test_many_more_columns_than_rows_are_quick_and_say_what_they_cannot_do():
    """10,000 columns: nothing of their square is formed, or it would be 800 MB."""
    X, y = table(60, 10_000, sparse=True)
    model = BayesianLogisticRegression().fit(X, y)
    posterior = model.posterior_
    assert in_row_space(model) and posterior.row_space.rank == 60
    assert posterior.std.shape == (10_001,) and (posterior.std > 0).all()
    assert 0 < model.effective_parameters_ < 61
    assert BayesianLogisticRegression(inference="ep", label_noise=0.1).fit(X, y).status_.good
    with pytest.raises(InputError, match=r"10,001 weights would be a matrix of 0\.8 GB.*project"):
        _ = posterior.cov
    with pytest.raises(InputError, match=r"wald_test is about many rows.*project"):
        model.wald_test(["x0"])
    with pytest.raises(InputError, match=r'covariance "robust" is about many rows'):
        model.covariance("robust")
    for choices in ({"prior": "ard"}, {"prior": StudentT()}, {"inference": "adf_spherical"}):
        with pytest.raises(InputError, match=r"10,001 weights.*Without it work prior='empirical'"):
            BayesianLogisticRegression(**choices).fit(X, y)
    for prior in (None, Jeffreys()):
        with pytest.raises(CollinearityError, match=r"fewer rows \(60\) than weights \(10001\)"):
            BayesianLogisticRegression(prior=prior).fit(X, y)


def test_a_basis_that_is_too_large_is_not_made():
    """Rows as sparse as they are: the columns that occur in them count, not all."""
    X, y = table(30, 200, sparse=True)
    for most, made in ((30 * 200, True), (100, False)):
        limits = ManyWeights(narrow=1, largest_basis=most)
        assert in_row_space(limited(BayesianLogisticRegression(), limits).fit(X, y)) is made


# --- many rows, and many weights ------------------------------------------------------------------------------------


def words(n: int, d: int, classes: int = 2, *, seed: int = 5) -> tuple:
    """Rows with a few ones in columns of very different frequency."""
    rng = np.random.default_rng(seed)
    chance = np.arange(1, d + 1) ** -0.8
    columns = rng.choice(d, size=(n, 8), p=chance / chance.sum())
    X = csr_array((np.ones(n * 8), (np.repeat(np.arange(n), 8), columns.reshape(-1))), (n, d))
    X.sum_duplicates()
    f = X @ rng.normal(size=(d, classes))
    return X, (f + rng.gumbel(size=f.shape)).argmax(axis=1)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_products_are_those_of_the_matrix(classes, sparse):
    """A law, at any weights: (I + H), its diagonal, and the gradient by differences."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 5)) < 0.5, rng.normal(2.0, 1.0, (40, 5)), 0.0)
    y, weight = rng.integers(0, max(classes, 2), 40), rng.integers(0, 3, 40).astype(float)
    likelihood = BernoulliLogit() if classes == 1 else Categorical(classes)
    rows = MemoryRows(csr_array(X) if sparse else X, y, weight, threads=1)
    prior = IndependentPrior.of(
        CentredNormal(rng.uniform(0.5, 2, 5), 3.0, X.mean(axis=0)), WeightShape(5, classes, True)
    )
    objective = WideObjective(likelihood, rows, prior, intercept=True)
    x = rng.normal(size=6 * classes)
    assert_allclose(objective.coordinates(objective.weights(x)), x, rtol=1e-12)
    at = objective.expand(1e-5, x)
    matrix = at.hessian.objective.product(at.hessian.at, np.eye(x.size))
    assert_allclose(matrix, matrix.T, atol=1e-12 * matrix.max())
    assert_allclose(at.hessian.diagonal, np.diag(matrix), rtol=1e-12)
    step = 1e-5  # central differences: errors of 1e-10 of the third derivative, and of rounding
    for direction in step * np.eye(x.size):
        there, back = (objective.expand(1e-5, x + sign * direction) for sign in (1, -1))
        assert_allclose((there.value - back.value) / (2 * step), at.grad @ direction / step, rtol=1e-6, atol=1e-6)
        assert_allclose((there.grad - back.grad) / (2 * step), matrix @ direction / step, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [Normal(scale=1.0), "empirical"], ids=str)
@pytest.mark.parametrize(("classes", "d"), [(2, 200), (3, 80)])
@pytest.mark.parametrize("kind", ["sparse", "dense", "no intercept"])
def test_the_posterior_by_draws_is_as_good_as_draws_are(prior, classes, d, kind):
    rows, y = words(1200, d, classes)
    X, new = (rows.toarray() if kind == "dense" else rows)[:800], rows[800:]
    model = BayesianLogisticRegression(prior=prior, fit_intercept=kind != "no intercept", inference="laplace")
    wide = limited(model, BOTH_MANY).fit(X, y[:800])
    full, again = both(model.set_params(prior=wide.prior_), X, y[:800], limits=BOTH_MANY)
    if prior != "empirical":  # where the search starts from the mode of the scale before
        assert_array_equal(again.posterior_.std, wide.posterior_.std)
    # A Newton step leaves at most LOOSE of the squared decrement, and no weight is farther off than the decrement.
    farthest = np.sqrt(LOOSE * BOTH_MANY.mode_tol)
    assert wide.distance_to_mode_ < farthest
    assert (np.abs(wide.posterior_.mean - full.posterior_.mean) < farthest * full.posterior_.std).all()
    assert_allclose(wide.posterior_.std, full.posterior_.std, rtol=DRAWN)
    assert np.sqrt(np.mean((wide.posterior_.std / full.posterior_.std - 1) ** 2)) < 1.2 * ERROR
    mine, theirs = (spreads(fit.predict_latent(new)[1]) for fit in (wide, full))
    assert_allclose(mine, theirs, rtol=2 * DRAWN)  # variances
    assert 0 < wide.log_evidence_se_ < 5
    assert abs(wide.log_evidence_ - full.log_evidence_) < PROBED * wide.log_evidence_se_
    assert_allclose(wide.effective_parameters_, full.effective_parameters_, rtol=0.05)  # a trace by the same probes
    # A variance off by the share e moves a probability by 0.112 e at most: ½ max z σ'(z).
    assert_allclose(wide.predict_proba(new), full.predict_proba(new), atol=0.112 * 2 * DRAWN)
    if prior == "empirical":
        learnt = limited(model.set_params(prior="empirical"), FULL).fit(X, y[:800])
        # Evidences at two scales differ by the probes' error of the difference, some hundredths of a nat: a tenth of
        # the scale changes the evidence by about as much.
        assert_allclose(wide.prior_scale_, learnt.prior_scale_, rtol=0.1)
        assert wide.status_ is learnt.status_ is Status.CONVERGED


def spreads(variance: np.ndarray) -> np.ndarray:
    """Variances of scores; of several classes the sum, less what is common to all."""
    if variance.ndim == 1:
        return variance
    return np.einsum("nkk->n", variance) - variance.sum(axis=(1, 2)) / variance.shape[1]


def test_sparse_and_dense_rows_and_any_threads_give_the_same():
    X, y = words(600, 100)
    model = limited(BayesianLogisticRegression(prior=Normal(scale=0.5)), BOTH_MANY)
    one, two = (model.set_params(n_jobs=n).fit(X, y).posterior_.std for n in (1, 2))
    assert_array_equal(one, two)
    assert_allclose(model.fit(X.toarray(), y).posterior_.std, one, rtol=1e-6)  # sums are cut elsewhere


def test_columns_that_say_nothing_end_at_the_smallest_scale():
    """Labels that are noise: the evidence falls with the scale, ever more slowly towards zero."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 150)), (rng.random(300) < 0.05).astype(int)
    full, wide = both(BayesianLogisticRegression(inference="laplace"), X, y, limits=BOTH_MANY)
    assert full.status_ is wide.status_ is Status.SCALE_AT_BOUND
    assert_allclose(wide.prior_scale_, full.prior_scale_, rtol=1e-12)
    assert_allclose(wide.log_evidence_, full.log_evidence_, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_column_far_from_zero_changes_nothing(sparse):
    X, y = table(300, 30)
    fits = []
    for shift in (0.0, 1e7):
        moved = X + shift * (np.arange(30) == 3)
        fits.append(limited(BayesianLogisticRegression(), BOTH_MANY).fit(csr_array(moved) if sparse else moved, y))
    near, far = fits
    # A cell loses 1e7 · 2⁻⁵³ = 1e-9 of its spread when it is stored; a thousand times that is for the sums.
    close(far.coef_, near.coef_, 1e-6)
    assert_allclose(far.log_evidence_, near.log_evidence_, rtol=1e-5)
    assert_allclose(far.posterior_.std[:30], near.posterior_.std[:30], rtol=2 * DRAWN)


def test_counts_of_many_columns_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 60))
    y, exposure = rng.poisson(np.exp(0.3 * X[:, 0])), rng.uniform(1, 2, 400)
    model = BayesianGLM("poisson", prior=Normal(scale=0.1), inference="laplace")
    full, wide = both(model, X, y, None, None, exposure, limits=BOTH_MANY)
    assert (np.abs(wide.posterior_.mean - full.posterior_.mean) < 0.01 * full.posterior_.std).all()
    assert_allclose(wide.posterior_.std, full.posterior_.std, rtol=DRAWN)
    variance = full.predict_latent(X)[1]  # the mean is exp(m + v/2)
    assert_allclose(np.log(wide.predict(X)), np.log(full.predict(X)), rtol=0, atol=2 * DRAWN * variance.max() / 2)


def test_draws_are_made_on_first_use_and_saved_without_rows(tmp_path):
    X, y = words(400, 100)
    model = limited(BayesianLogisticRegression(prior=Normal(scale=0.5)), BOTH_MANY).fit(X, y)
    q = model.posterior_.free
    assert q.held is None and q.source is not None
    again = pickle.loads(pickle.dumps(q))
    assert again.source is q.source is None
    assert_array_equal(again.deviations, q.deviations)
    assert model.summary().to_frame().shape == (101, 5)
    draws = model.posterior_.sample(np.random.default_rng(0), 4000)
    assert_allclose(draws.std(axis=0), model.posterior_.std, rtol=5 / np.sqrt(2 * len(draws)))
    assert model.sample_proba(X, 5, random_state=0).shape == (5, 400, 2)
    assert np.isfinite(model.loo_log_proba_).all()


@pytest.mark.parametrize("rows", [60, 6000])
def test_saved_models_come_back(tmp_path, rows):
    X, y = words(rows, 5500)
    model = BayesianLogisticRegression(prior=Normal(scale=0.5)).fit(X, y)
    credibly.save(model, tmp_path / "model")
    again = credibly.load(tmp_path / "model")
    assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))
    assert_array_equal(again.posterior_.std, model.posterior_.std)
    with pytest.raises(InputError, match=r"5,501 weights would be a matrix of 0\.2 GB.*project"):
        _ = model.posterior_.cov


def test_what_needs_the_matrix_is_refused_in_words():
    X, y = words(300, 100)
    model = limited(BayesianLogisticRegression(prior=Normal(scale=0.5), inference="auto"), BOTH_MANY).fit(X, y)
    assert model.rung_ == "laplace"
    q = model.posterior_
    for ask in (
        lambda: q.logpdf(q.mean),
        lambda: model.partial_fit(X, y),
        lambda: model.wald_test(["x1"]),
    ):
        with pytest.raises(
            InputError, match=r"101 weights is known by its mode and by draws.*posterior_\.std.*project"
        ):
            ask()
    with pytest.raises(NotDefinedError, match=r"certify needs the precision.*fewer columns"):
        model.certify(X, y)
    for choices in (
        {"prior": "ard"},
        {"prior": StudentT()},
        {"inference": "ep"},
        {"label_noise": 0.1},
        {"solver": "sgd"},
    ):
        with pytest.raises(InputError, match=r"101 weights; with more than 20.*Without it work prior='empirical'"):
            limited(BayesianLogisticRegression(**choices), BOTH_MANY).fit(X, y)
    with pytest.raises(InputError, match="101 weights"):
        limited(BayesianLogisticRegression(prior=None), BOTH_MANY).fit(X, y)


def test_a_search_that_is_stopped_says_so():
    X, y = words(300, 100)
    with pytest.warns(ConvergenceWarning, match="step limit"):
        model = limited(BayesianLogisticRegression(prior=Normal(), max_iter=1), BOTH_MANY).fit(X, y)
    assert model.status_ is Status.STEP_LIMIT
