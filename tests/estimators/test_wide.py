"""Very many weights: the same posterior without a matrix of all pairs of them, or a low-rank one of a stated error."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

import credibly
from credibly import BayesianGLM, BayesianLogisticRegression, BayesianProbitRegression, Jeffreys, Normal, StudentT
from credibly.data.columns import describe
from credibly.data.source import MemoryRows
from credibly.errors import CollinearityError, InputError
from credibly.estimators import wide_learning
from credibly.inference.curvature import RowParts, RowPasses, curvature_of
from credibly.inference.dual import REMEMBERED, DualSurface
from credibly.inference.frame import Frame
from credibly.inference.laplace import Controls
from credibly.inference.posterior import Gaussian, WideGaussian
from credibly.inference.wide import ANCHOR_TOL, CHECK_TOL, GOAL, LOOSE, VARIANCE_LIMIT, _exact, wide_mode
from credibly.inference.wide_directions import VARIANCE_GOAL, _balanced, determined, every_class
from credibly.inference.wide_prior import WidePrior
from credibly.model.centred_prior import CentredNormal
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.model.priors import WeightShape
from credibly.numerics.newton import Status

rng = np.random.default_rng(11)


def table(n: int, d: int, *, sparse: bool) -> tuple:
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 3.0, d) + rng.normal(size=d)
    if sparse:
        X = X * (rng.random(X.shape) < 0.3)
    f = 2 * X[:, 0] / X[:, 0].std() + rng.logistic(size=n)
    y = np.digitize(f, np.quantile(f, [0.3, 0.7]))
    return (csr_array(X) if sparse else X), y


def labels(y: np.ndarray, classes: int) -> np.ndarray:
    return np.minimum(y, classes - 1)


def both(monkeypatch, model, *data, limits) -> list:
    """The same fit by a matrix of all pairs of weights, and without."""
    fits = []
    for few, full in limits:
        monkeypatch.setattr(wide_learning, "FEWEST_WIDE", few)
        monkeypatch.setattr(wide_learning, "LARGEST_FULL", full)
        fits.append(model().fit(*data))
    return fits


ROWS = [(10**9, 5000), (1, 5000)]
DIRECTIONS = [(10**9, 5000), (10**9, 100)]


# --- fewer rows than weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [Normal(scale=0.7), Normal(scale=0.4, mean=np.full(61, 0.1)), "empirical"], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_rows_by_rows_is_exactly_weights_by_weights(monkeypatch, prior, classes, sparse):
    """A law: Newton steps, posterior and evidence of n × n matrices are those of M × M ones."""
    X, y = table(25, 60, sparse=sparse)
    weight = rng.integers(0, 3, 25).astype(float)
    y = labels(y, classes)
    full, wide = both(monkeypatch, lambda: BayesianLogisticRegression(prior=prior), X, y, weight, limits=ROWS)
    assert type(full.posterior_.gaussian) is Gaussian and type(wide.posterior_.gaussian) is WideGaussian
    mine, theirs = wide.posterior_, full.posterior_
    size = np.abs(theirs.mean).max()
    np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-10 * size)
    np.testing.assert_allclose(mine.std, theirs.std, rtol=1e-10)
    np.testing.assert_allclose(mine.cov, theirs.cov, atol=1e-10 * np.abs(theirs.cov).max())
    np.testing.assert_allclose(mine.interval(), theirs.interval(), atol=1e-9 * size)
    np.testing.assert_allclose(mine.moments(), theirs.moments(), atol=1e-9 * size)
    at = theirs.mean + 0.1 * rng.normal(size=(3, theirs.mean.size)) * theirs.std
    np.testing.assert_allclose(mine.logpdf(at), theirs.logpdf(at), rtol=1e-9)
    Phi = rng.normal(size=(4, 61))
    for one, other in zip(mine.project(Phi), theirs.project(Phi), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(wide.log_evidence_, full.log_evidence_, rtol=1e-10)
    np.testing.assert_allclose(wide.log_likelihood_, full.log_likelihood_, rtol=1e-9)
    np.testing.assert_allclose(wide.effective_parameters_, full.effective_parameters_, rtol=1e-9)
    np.testing.assert_allclose(mine.gaussian.effective_parameters, full.effective_parameters_, rtol=1e-9)
    np.testing.assert_allclose(wide.predict_proba(X), full.predict_proba(X), atol=1e-10)
    assert wide.status_ is full.status_
    if prior == "empirical":
        np.testing.assert_allclose(wide.prior_scale_, full.prior_scale_, rtol=1e-8)
        shape = wide._shape
        np.testing.assert_allclose(wide.prior_.moments(shape).cov[-1], full.prior_.moments(shape).cov[-1], rtol=1e-8)


def test_a_prior_that_was_learnt_can_be_given():
    X, y = table(25, 1200, sparse=False)
    learnt = BayesianLogisticRegression().fit(X, labels(y, 2))
    again = BayesianLogisticRegression(prior=learnt.prior_).fit(X, labels(y, 2))
    np.testing.assert_allclose(again.log_evidence_, learnt.log_evidence_, rtol=1e-10)
    np.testing.assert_allclose(again.posterior_.mean, learnt.posterior_.mean, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_linear_model_of_counts_with_exposures_is_the_same(monkeypatch, fit_intercept):
    X, y = table(25, 60, sparse=False)
    full, wide = both(
        monkeypatch,
        lambda: BayesianGLM(family="poisson", prior=Normal(scale=0.1), fit_intercept=fit_intercept),
        X,
        y,
        limits=ROWS,
    )
    assert type(wide.posterior_.gaussian) is WideGaussian
    np.testing.assert_allclose(wide.posterior_.mean, full.posterior_.mean, atol=1e-10)
    np.testing.assert_allclose(wide.log_evidence_, full.log_evidence_, rtol=1e-10)


def test_many_more_columns_than_rows_are_quick_and_say_what_they_cannot_do():
    """10,000 columns: nothing of their square is formed, or it would be 800 MB."""
    X, y = table(60, 10_000, sparse=True)
    y = labels(y, 2)
    model = BayesianLogisticRegression().fit(X, y)
    posterior = model.posterior_
    assert repr(posterior.gaussian.precision) == "WidePrecision(M=10001, rank=60)"
    assert posterior.std.shape == (10_001,) and (posterior.std > 0).all()
    draws = posterior.sample(np.random.default_rng(0), 400)
    # Of one weight the draws tell that to 1/√800; the mean over ten thousand is far nearer.
    np.testing.assert_allclose(draws.std(axis=0).mean(), posterior.std.mean(), rtol=1 / np.sqrt(2 * len(draws)))
    assert 0 < posterior.gaussian.effective_parameters < 61
    with pytest.raises(InputError, match=r"10,001 weights would be a matrix of 0\.8 GB.*project"):
        _ = posterior.cov
    with pytest.raises(InputError, match="10,001 weights"):
        model.partial_fit(X, y)
    for choices in (
        {"prior": "ard"},
        {"prior": StudentT()},
        {"inference": "ep"},
        {"inference": "adf"},
        {"label_noise": 0.1},
        {"label_noise": "estimate"},
        {"solver": "sgd"},
    ):
        with pytest.raises(InputError, match=r"10,001 weights.*Without it work: prior='empirical'"):
            BayesianLogisticRegression(**choices).fit(X, y)
    for prior in (None, Jeffreys()):
        with pytest.raises(CollinearityError, match=r"fewer rows \(60\) than weights \(10001\)"):
            BayesianLogisticRegression(prior=prior).fit(X, y)


def test_without_a_prior_more_rows_than_many_weights_are_refused_too(monkeypatch):
    monkeypatch.setattr(wide_learning, "LARGEST_FULL", 10)
    X, y = table(50, 12, sparse=False)
    with pytest.raises(InputError, match="13 weights"):
        BayesianLogisticRegression(prior=None).fit(X, labels(y, 2))


def test_below_the_limit_everything_else_still_works(monkeypatch):
    monkeypatch.setattr(wide_learning, "FEWEST_WIDE", 1)
    X, y = table(25, 60, sparse=False)
    model = BayesianLogisticRegression(prior=Normal(scale=0.3)).fit(X[:20], labels(y, 2)[:20])
    assert type(model.posterior_.gaussian) is WideGaussian
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of drift
        model.partial_fit(X[20:], labels(y, 2)[20:])
    assert type(model.posterior_.gaussian) is Gaussian
    assert "intercept" in str(model.summary())


def test_a_certificate_is_the_same(monkeypatch):
    X, y = table(40, 30, sparse=False)
    model = lambda: BayesianLogisticRegression(prior=Normal(scale=0.1))  # noqa: E731
    full, wide = both(monkeypatch, model, X[:15], labels(y, 2)[:15], limits=ROWS)
    mine, theirs = (fit.certify(X[:15], labels(y, 2)[:15], draws=2048, random_state=0) for fit in (wide, full))
    assert type(wide.posterior_.gaussian) is WideGaussian
    # The draws differ (another root of the same covariance); both estimate the same number.
    spread = np.hypot(mine.log_evidence_se, theirs.log_evidence_se)
    assert abs(mine.log_evidence - theirs.log_evidence) < 4 * spread


# --- more rows than weights, and many of both -----------------------------------------------------------------------


def words(n: int, d: int, classes: int, rng: np.random.Generator = rng) -> tuple:
    """Rows with a few ones in columns of very different frequency."""
    chance = np.arange(1, d + 1) ** -0.8
    columns = rng.choice(d, size=(n, 8), p=chance / chance.sum())
    X = csr_array((np.ones(n * 8), (np.repeat(np.arange(n), 8), columns.reshape(-1))), (n, d))
    f = X @ rng.normal(size=(d, classes))
    return X, (f + rng.gumbel(size=f.shape)).argmax(axis=1)


def most_error(model) -> float:
    """What a variance error found on 6 or 8 rows allows: known to a third itself, against values of CHECK_TOL."""
    return 2 * model.posterior_.variance_error + CHECK_TOL


@pytest.mark.parametrize(("classes", "d"), [(2, 500), (3, 200)])
def test_the_low_rank_posterior_is_as_good_as_it_says(monkeypatch, classes, d):
    X, y = words(2500, d, classes)
    full, wide = both(
        monkeypatch, lambda: BayesianLogisticRegression(prior=Normal(scale=1.0)), X[:1500], y[:1500], limits=DIRECTIONS
    )
    assert type(wide.posterior_.gaussian) is WideGaussian
    assert wide.distance_to_mode_ <= np.sqrt(GOAL)
    gap = np.abs(wide.posterior_.mean - full.posterior_.mean) / full.posterior_.std
    # No weight is farther off, in posterior standard deviations, than the decrement; that is known to a share LOOSE.
    assert gap.max() < np.sqrt(GOAL / (1 - LOOSE))
    mine, theirs = (fit.predict_latent(X[1500:])[1] for fit in (wide, full))
    error = np.sqrt(np.mean((mine / theirs - 1)[theirs > 1e-3 * theirs.max()] ** 2))
    # Directions are added until that is the error on the rows they are chosen by; this one is found on others.
    assert 0 < wide.posterior_.variance_error <= 2 * VARIANCE_GOAL
    assert error < most_error(wide)
    assert abs(wide.log_evidence_ - full.log_evidence_) < 5 * wide.log_evidence_se_
    # A variance off by the share e moves a probability by 0.112 e at most: ½ max z σ'(z). Of a thousand rows one may be
    # off by five times the root mean square.
    atol = 0.112 * 5 * VARIANCE_GOAL
    np.testing.assert_allclose(wide.predict_proba(X[1500:]), full.predict_proba(X[1500:]), atol=atol)
    draws = wide.posterior_.sample(np.random.default_rng(0), 2000)
    np.testing.assert_allclose(draws.std(axis=0), wide.posterior_.std, rtol=5 / np.sqrt(2 * len(draws)))
    assert "variance_error" in repr(wide.posterior_)


def shares(X: csr_array) -> csr_array:
    """Rows whose cells add up to one: any multiple of the intercept can be moved to the slopes."""
    return csr_array(X / X.sum(axis=1)[:, None])


@pytest.mark.parametrize("prior", [Normal(scale=2.5), "empirical"], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["sparse", "shares", "dense"])
def test_the_empty_row_and_the_mean_row_are_exact(monkeypatch, prior, classes, kind):
    """No direction of large curvature says how little the data say of an intercept that other columns make up for."""
    X, y = words(1500, 200, classes, np.random.default_rng(5))
    X = shares(X) if kind == "shares" else X
    rows = X.toarray()
    data = rows if kind == "dense" else X
    wide = both(monkeypatch, lambda: BayesianLogisticRegression(prior=prior), data, y, limits=DIRECTIONS[1:])[0]
    full = both(monkeypatch, lambda: BayesianLogisticRegression(prior=wide.prior_), data, y, limits=DIRECTIONS[:1])[0]
    assert type(full.posterior_.gaussian) is Gaussian and type(wide.posterior_.gaussian) is WideGaussian
    # The modes are √GOAL posterior standard deviations apart; a curvature moves by no larger share than its score.
    apart = np.sqrt(GOAL * spreads(full.predict_latent(data)[1]).max())
    empty = np.eye(1, 201, 200)
    got, want = (spreads(fit.posterior_.project(empty).variance) for fit in (wide, full))
    np.testing.assert_allclose(got, want, rtol=ANCHOR_TOL + apart)
    middle = np.append(rows.mean(axis=0), 1.0)[None]
    got, want = (spreads(fit.posterior_.project(middle).variance) for fit in (wide, full))
    np.testing.assert_allclose(got, want, rtol=ANCHOR_TOL + apart)
    p = full.predict_proba(rows)
    c = (p * (1 - p)).sum(axis=1)
    mean = np.append(c @ rows / c.sum(), 1.0)[None]
    got, want = (spreads(fit.posterior_.project(mean).variance) for fit in (wide, full))
    np.testing.assert_allclose(got, want, rtol=0.05)  # weights here are of averaged probabilities, not the mode's
    # Rows that are half empty, or twice as full, lean on the intercept as the data say.
    for Phi in (np.column_stack([s * rows[:50], np.ones(50)]) for s in (0.5, 2.0)):
        got, want = (spreads(fit.posterior_.project(Phi).variance) for fit in (wide, full))
        assert np.median(got / want) > 1 - most_error(wide)
    draws = wide.posterior_.sample(np.random.default_rng(0), 4000)[:, 200::201]
    got = draws.var() if classes == 2 else spreads(np.cov(draws.T)[None])
    want = spreads(full.posterior_.project(empty).variance)
    np.testing.assert_allclose(got, want, rtol=5 * np.sqrt(2 / len(draws)))


@pytest.mark.parametrize("classes", [2, 3])
def test_without_an_intercept_the_mean_row_is_exact_too(monkeypatch, classes):
    """Weighted as the rows are; columns that are not negative then say together what an intercept would."""
    own = np.random.default_rng(5)
    X, y = words(1500, 200, classes, own)
    weight = own.integers(0, 3, 1500).astype(float)
    model = lambda: BayesianLogisticRegression(prior=Normal(scale=0.5), fit_intercept=False)  # noqa: E731
    full, wide = both(monkeypatch, model, X, y, weight, limits=DIRECTIONS)
    apart = np.sqrt(GOAL * spreads(full.predict_latent(X)[1]).max())  # as above
    mean = (X.T @ weight / weight.sum())[None]
    got, want = (spreads(fit.posterior_.project(mean).variance) for fit in (wide, full))
    np.testing.assert_allclose(got, want, rtol=ANCHOR_TOL + apart)


def test_columns_without_a_mean_and_an_intercept_need_no_anchor(monkeypatch):
    own = np.random.default_rng(0)
    X = own.normal(size=(300, 20))
    X, y = np.concatenate([X, -X]), own.integers(0, 2, 600)
    model = lambda: BayesianLogisticRegression(prior=Normal(scale=0.1), fit_intercept=False)  # noqa: E731
    wide = both(monkeypatch, model, X, y, limits=[(10**9, 10)])[0]
    assert type(wide.posterior_.gaussian) is WideGaussian and np.isfinite(wide.posterior_.std).all()


def spreads(variance: np.ndarray) -> np.ndarray:
    """Variances of scores; of several classes the sum, less what is common to all."""
    if variance.ndim == 1:
        return variance
    return np.einsum("nkk->n", variance) - variance.sum(axis=(1, 2)) / variance.shape[1]


def test_more_rows_change_the_scale_as_the_full_evidence_says(monkeypatch):
    X, y = words(1500, 300, 2)
    full, wide = both(monkeypatch, BayesianLogisticRegression, X, y, limits=DIRECTIONS)
    # Traces by 32 probes: their noise moves the scale by some hundredths.
    np.testing.assert_allclose(wide.prior_scale_, full.prior_scale_, rtol=0.05)
    assert wide.status_.good


def test_dense_columns_that_go_together_need_directions(monkeypatch):
    """Two directions carry most of the variance: a diagonal alone is wrong by far, and directions are found."""
    F = rng.normal(size=(1200, 2)) @ (3 * rng.normal(size=(2, 120))) + 0.3 * rng.normal(size=(1200, 120))
    F, new = F[:600], F[600:]
    y = (F[:, 0] + rng.logistic(size=600) > 0).astype(int)
    full, wide = both(monkeypatch, lambda: BayesianProbitRegression(prior=Normal(scale=0.3)), F, y, limits=DIRECTIONS)
    low = wide.posterior_.gaussian.precision.low
    assert low.directions.shape[-1] >= 2
    assert fresh_error(wide, full, new) < most_error(wide)


def fresh_error(wide, full, new) -> float:
    """Of the variances of new rows, relative, root mean square."""
    mine, theirs = (spreads(fit.predict_latent(new)[1]) for fit in (wide, full))
    return float(np.sqrt(np.mean((mine / theirs - 1) ** 2)))


@pytest.mark.parametrize("classes", [2, 3])
def test_copies_of_a_row_do_not_make_new_rows_certain(monkeypatch, classes):
    """A row of which a copy is left in the data is not new; labels of copies may differ."""
    own = np.random.default_rng(1)
    rows, _ = words(700, 150, classes, own)
    X, new = rows[:400], rows[400:]
    every = X[np.tile(np.arange(400), 8)]
    y = own.integers(0, classes, every.shape[0])
    full, wide = both(
        monkeypatch, lambda: BayesianLogisticRegression(prior=Normal(scale=1.0)), every, y, limits=DIRECTIONS
    )
    mine, theirs = (spreads(fit.predict_latent(new)[1]) for fit in (wide, full))
    assert np.median(mine / theirs) > 1 - wide.posterior_.variance_error


def few(n: int, d: int, rng: np.random.Generator) -> csr_array:
    """Rows with three cells of either sign: many weights hang together by few rows, which no direction tells."""
    return csr_array((rng.choice([-1.0, 1.0], 3 * n), (np.repeat(np.arange(n), 3), rng.integers(0, d, 3 * n))), (n, d))


def test_rough_variances_are_told_by_one_warning(monkeypatch):
    own = np.random.default_rng(5)
    X = few(800, 400, own)
    y = (X @ own.normal(size=400) + own.logistic(size=800) > 0).astype(int)
    model = lambda: BayesianLogisticRegression(prior=Normal(scale=100.0))  # noqa: E731
    with pytest.warns(ConvergenceWarning, match=r"variances.*posterior_\.variance_error.*tighter prior") as caught:
        wide = both(monkeypatch, model, X, y, limits=DIRECTIONS[1:])[0]
    assert len(caught) == 1 and wide.status_ is Status.VARIANCES_ROUGH
    assert wide.posterior_.variance_error > VARIANCE_LIMIT


def heavy_rows(classes: int) -> tuple:
    """Sparse rows, each twice with labels of any kind, heavy, so that their leverage is nearly one; their mode."""
    own = np.random.default_rng(2)
    X = few(60, 50, own)[np.tile(np.arange(60), 2)]
    y, weight = own.integers(0, max(classes, 2), 120), np.full(120, 100.0)
    rows, shape = MemoryRows(X, y, weight, threads=1), WeightShape(50, classes, True)
    frame = Frame.of(describe(rows), intercept=True, sparse=True)
    likelihood = BernoulliLogit() if classes == 1 else Categorical(classes)
    passes = RowPasses(likelihood, RowParts(rows, 50), frame, WidePrior.of(Normal(scale=1.0), shape, frame))
    return passes, wide_mode(passes, np.zeros(passes.shape))


@pytest.mark.parametrize("classes", [1, 3])
def test_checked_rows_are_as_new(classes):
    """A law: their variances are those of the matrix without them and without their copies."""
    passes, mode = heavy_rows(classes)
    checks = _exact(passes, mode, np.random.default_rng(0))[0]
    Z, W = passes.whitened_rows(np.arange(120)), curvature_of(passes, mode.at, np.arange(120))
    M, want = W.shape[1] * Z.shape[1], []
    for z in checks.rows:
        others = (np.abs(Z - z) > 1e-9).any(axis=1)
        assert not others.all() and others.sum() <= 118
        H = np.einsum("nkl,nd,ne->kdle", W[others], Z[others], Z[others]).reshape(M, M)
        own = every_class(z[None], W.shape[1])
        want.append(np.diag(own @ np.linalg.solve(np.eye(M) + H, own.T)))
    np.testing.assert_allclose(checks.variance, determined(np.array(want)), rtol=10 * CHECK_TOL)


def test_the_error_is_found_on_rows_that_had_no_part_in_the_choice():
    passes, mode = heavy_rows(1)
    checks, known = _exact(passes, mode, np.random.default_rng(0))[:2]
    V, H = np.zeros((1, mode.diagonal.size)), mode.diagonal
    found = _balanced(H, V, checks, known)
    factor = np.where(np.arange(len(checks.rows)) % 2, 4.0, 1.0)
    other = _balanced(H, V, checks._replace(variance=checks.variance / factor), known)
    np.testing.assert_array_equal(other.diagonal, found.diagonal)
    assert other.chosen_error == found.chosen_error and other.error > 2 * found.error


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_column_far_from_zero_changes_nothing(monkeypatch, sparse, classes):
    """Σ c(x - p)² as a difference of sums would lose 14 digits here."""
    X, y = table(300, 20, sparse=False)
    X = X * (rng.random(X.shape) < 0.3) if sparse else X
    X[:, 3] = rng.normal(size=300)
    fits = []
    for shift in (0.0, 1e7):
        moved = X + shift * (np.arange(20) == 3)
        data = csr_array(moved) if sparse else moved
        fits += both(monkeypatch, BayesianLogisticRegression, data, labels(y, classes), limits=[(10**9, 10)])
    near, far = fits
    assert type(far.posterior_.gaussian) is WideGaussian and far.status_ is near.status_
    slopes = np.arange(near.posterior_.std.size) % 21 < 20  # the intercept is at zero, far from all rows
    # The empty row, which is exact in both, is another one: the low-rank posteriors differ within their error.
    error = most_error(near) + most_error(far)
    np.testing.assert_allclose(far.posterior_.std[slopes], near.posterior_.std[slopes], rtol=error)
    # A cell loses 1e7 · 2⁻⁵³ = 1e-9 of its spread when it is stored; a thousand times that is for the sums.
    np.testing.assert_allclose(far.posterior_.mean[slopes], near.posterior_.mean[slopes], atol=1e-6)
    np.testing.assert_allclose(far.log_evidence_, near.log_evidence_, rtol=1e-6)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_diagonal_of_the_curvature_is_a_sum_of_squares(sparse, classes):
    """Columns without a zero, with a few, with many, and without anything else; a zero is as far off as it is."""
    full = rng.random((40, 4)) < [1.0, 0.9, 0.2, 0.0]
    X = np.where(full, rng.normal([1e7, 50.0, 2.0, 0.0], 1.0, (40, 4)), 0.0)
    likelihood = BernoulliLogit() if classes == 1 else Categorical(classes)
    rows = MemoryRows(csr_array(X) if sparse else X, rng.integers(0, max(classes, 2), 40), threads=1)
    columns = describe(rows)
    frame = Frame.of(columns, intercept=True, sparse=sparse)
    prior = WidePrior.of(CentredNormal(1 / columns.scale, 10.0, columns.mean), WeightShape(4, classes, True), frame)
    passes = RowPasses(likelihood, RowParts(rows, 4), frame, prior)
    at = passes.expand(rng.normal(size=(40, classes)))
    Z, W = passes.whitened_rows(np.arange(40)), curvature_of(passes, at, np.arange(40))
    want = np.einsum("nkk,nd->kd", W, Z**2)
    # Rounding of cells near 1e7, against a spread of one; the mean over classes has curvature zero but for rounding.
    np.testing.assert_allclose(passes.diagonal(at), want, rtol=1e-8, atol=1e-14 * want.max())
    assert (passes.diagonal(at) >= 0).all()


def test_a_search_for_the_scale_holds_few_matrices():
    X, y = table(20, 30, sparse=False)
    rows = MemoryRows(X, labels(y, 2).astype(float))
    shape, frame = WeightShape(30, 1, False), Frame(np.zeros(30), np.ones(30), intercept=False)
    prior_at = lambda theta: WidePrior.of(Normal(scale=np.exp(theta)), shape, frame)  # noqa: E731
    surface = DualSurface(BernoulliLogit(), rows, prior_at, 0.0, Controls())
    first, second, third = (surface(np.array([theta])) for theta in (0.0, -1.0, -2.0))
    assert len(surface.seen) == REMEMBERED
    assert surface(np.array([-1.0])) is second and surface(np.array([-2.0])) is third
    assert surface(np.array([0.0])) is not first


@pytest.mark.parametrize("limits", [ROWS, DIRECTIONS], ids=["rows", "directions"])
def test_saved_models_come_back(monkeypatch, tmp_path, limits):
    X, y = words(60 if limits is ROWS else 300, 200, 2)
    model = both(monkeypatch, BayesianLogisticRegression, X, y, limits=limits[1:])[0]
    assert type(model.posterior_.gaussian) is WideGaussian
    credibly.save(model, tmp_path / "model")
    again = credibly.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.posterior_.std, model.posterior_.std)
    assert again.posterior_.variance_error == model.posterior_.variance_error


def test_counts_of_few_rows_and_many_columns_find_their_scale():
    """At a wider prior the scores of the last scale's mode would be beyond what a mean of counts can be."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3000)), rng.poisson(2, size=60)
    model = BayesianGLM("poisson").fit(X, y)
    assert model.status_.good
    assert model.log_evidence_ >= BayesianGLM("poisson", prior=Normal(scale=0.01)).fit(X, y).log_evidence_
