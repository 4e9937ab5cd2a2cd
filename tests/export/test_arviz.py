"""Draws for ArviZ: the right distribution, the right names, and numbers that ArviZ's own functions agree with."""

import pickle
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_expit, log_softmax
from scipy.stats import binom, multivariate_normal, norm, poisson
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    StudentT,
)
from credibly.errors import DataWarning, InputError, NotDefinedError
from credibly.export import to_arviz
from credibly.export.arviz import import_arviz
from credibly.inference.linear.fit import with_flips
from credibly.kernels import RBF, White
from credibly.tables import TableModel

try:
    az = import_arviz()  # not importorskip: once a day ArviZ warns of its next release, which here is an error
except ImportError:
    pytest.skip("the extra credibly[arviz] is not installed", allow_module_level=True)

SIGMAS = 5.0  # one in two million for each number compared


def cancer(n=200):
    data = load_breast_cancer(as_frame=True)
    return data.data[["mean radius", "mean texture", "mean smoothness"]][:n], data.target_names[data.target][:n]


def iris():
    data = load_iris(as_frame=True)
    return data.data, data.target_names[data.target]


ARVIZ_1 = "InferenceData" not in vars(az)
LOO_NAMES = dict(
    zip(("sum", "rows", "p"), ("elpd", "elpd_i", "p") if ARVIZ_1 else ("elpd_loo", "loo_i", "p_loo"), strict=True)
)


def groups_of(data):
    """Names of the groups, of an InferenceData (ArviZ below 1) or of a tree (from 1 on)."""
    return set(data.children if ARVIZ_1 else data.groups())


def loo_of(data, **choices):
    """ArviZ's leave-one-out: sum, rows and effective number of parameters, whatever this release calls them."""
    found = az.loo(data, **choices)
    return types.SimpleNamespace(**{ours: getattr(found, name, None) for ours, name in LOO_NAMES.items()})


def flat(variable):
    """Draws of all chains, (S, …)."""
    values = variable.values
    return values.reshape(-1, *values.shape[2:])


def assert_moments(draws, mean, std):
    """Means and standard deviations within the Monte Carlo error of S independent draws of a Gaussian."""
    S = len(draws)
    assert (np.abs(draws.mean(axis=0) - mean) <= SIGMAS * std / np.sqrt(S)).all()
    assert (np.abs(draws.std(axis=0) / std - 1) <= SIGMAS / np.sqrt(2 * S)).all()


# --- linear models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        BayesianLogisticRegression(),
        BayesianLogisticRegression(inference="ep"),
        BayesianLogisticRegression(prior=None),
        BayesianProbitRegression(prior=StudentT()),
        NoisyThresholdClassifier("cauchy"),
        BayesianLogisticRegression(fit_intercept=False),
    ],
    ids=repr,
)
def test_weights_are_drawn_from_the_posterior_under_their_names(model):
    X, y = cancer()
    model.fit(X, y)
    data = to_arviz(model, random_state=1)
    w = flat(data.posterior["coef"])
    assert data.posterior["coef"].dims == ("chain", "draw", "feature")
    assert data.posterior["coef"].coords["feature"].values.tolist() == list(X.columns)
    assert ("intercept" in data.posterior) == model.fit_intercept
    if model.fit_intercept:
        w = np.column_stack([w, flat(data.posterior["intercept"])])
    assert_moments(w, model.posterior_.mean, model.posterior_.std)
    corr = np.corrcoef(w.T) - model.posterior_.cov / np.outer(model.posterior_.std, model.posterior_.std)
    assert np.abs(corr).max() <= SIGMAS / np.sqrt(len(w))


def test_weights_of_several_classes_have_both_coordinates():
    X, y = iris()
    model = BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y)
    data = to_arviz(model, random_state=1)
    coef = data.posterior["coef"]
    assert coef.dims == ("chain", "draw", "feature", "class")
    assert coef.coords["class"].values.tolist() == ["setosa", "versicolor", "virginica"]
    assert data.posterior["intercept"].dims == ("chain", "draw", "class")
    by_class = np.concatenate([flat(coef).swapaxes(1, 2), flat(data.posterior["intercept"])[..., None]], axis=2)
    assert_moments(by_class.reshape(len(by_class), -1), model.posterior_.mean, model.posterior_.std)
    one = coef.sel(feature="petal width (cm)", **{"class": "virginica"})
    assert_allclose(one.mean(), model.posterior_.mean.reshape(3, -1)[2, 3], atol=SIGMAS * one.std() / np.sqrt(4000))


def test_the_log_likelihood_is_that_of_each_draw():
    X, y = cancer()
    data = to_arviz(BayesianLogisticRegression().fit(X, y), draws=10, random_state=0)
    scores = flat(data.posterior["coef"]) @ X.to_numpy().T + flat(data.posterior["intercept"])[:, None]
    sign = np.where(y == "malignant", 1.0, -1.0)
    assert_allclose(flat(data.log_likelihood["y"]), log_expit(sign * scores), rtol=1e-9)
    assert_array_equal(data.observed_data["y"].values, (y == "malignant").astype(int))
    assert_allclose(data.constant_data["X"].values, X.to_numpy())


def test_the_log_likelihood_of_several_classes():
    X, y = iris()
    data = to_arviz(BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y), draws=10, random_state=0)
    scores = np.einsum("nd,sdk->snk", X.to_numpy(), flat(data.posterior["coef"]))
    scores = scores + flat(data.posterior["intercept"])[:, None]
    codes = np.unique(y, return_inverse=True)[1]
    expected = log_softmax(scores, axis=-1)[:, np.arange(len(y)), codes]
    assert_allclose(flat(data.log_likelihood["y"]), expected, rtol=1e-9)


def test_weights_offsets_and_trials_of_the_fit_count():
    rng = np.random.default_rng(0)
    X, offset, weight = rng.normal(size=(50, 2)), rng.normal(size=50), rng.integers(0, 3, 50).astype(float)
    y = rng.poisson(np.exp(X[:, 0] + offset))
    model = BayesianGLM("poisson").fit(X, y, sample_weight=weight, offset=offset)
    data = to_arviz(model, draws=10, random_state=0)
    f = flat(data.posterior["coef"]) @ X.T + flat(data.posterior["intercept"])[:, None] + offset
    assert_allclose(flat(data.log_likelihood["y"]), weight * poisson.logpmf(y, np.exp(f)), rtol=1e-9)
    assert_array_equal(data.constant_data["weight"], weight)
    assert_array_equal(data.constant_data["offset"], offset)
    with pytest.warns(DataWarning, match="leave X and y out"):
        to_arviz(model, X, y, draws=10)


def test_binomial_rows_have_their_trials():
    rng = np.random.default_rng(1)
    X, totals = rng.normal(size=(40, 1)), rng.integers(1, 30, 40)
    ones = rng.binomial(totals, 0.3)
    model = BayesianGLM("binomial").fit(X, np.column_stack([ones, totals - ones]))
    data = to_arviz(model, draws=100, random_state=0)
    total = flat(data.log_likelihood["y"]).sum(axis=1)
    assert total.max() <= model.log_likelihood_ + 0.5  # the mode of the posterior is near that of the likelihood
    again = flat(data.posterior_predictive["y"]) * totals
    assert_allclose(again, np.rint(again), atol=1e-9)
    assert (again.max(axis=0) <= totals + 1e-9).all()


def test_labels_are_drawn_with_their_probabilities():
    X, y = iris()
    model = BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y)
    again = flat(to_arviz(model, random_state=3).posterior_predictive["y"])
    count = np.stack([(again == k).sum(axis=0) for k in range(3)], axis=1)
    p, S, error = model.predict_proba(X), len(again), 1e-4  # what the library promises of its averaged softmax
    assert (binom.sf(count - 1, S, p + error) > 1e-8).all()
    assert (binom.cdf(count, S, np.maximum(p - error, 0.0)) > 1e-8).all()


def test_targets_are_drawn_with_their_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 1.0))
    model = BayesianGLM("poisson").fit(X, y)
    again = flat(to_arviz(model, random_state=3).posterior_predictive["y"])
    assert_array_equal(again, np.rint(again))
    error = SIGMAS * again.std(axis=0) / np.sqrt(len(again))
    assert (np.abs(again.mean(axis=0) - model.predict(X)) <= error).all()


@pytest.mark.parametrize(
    "prior",
    [
        "empirical",
        Normal(scale=[1.0, 2.0, 3.0]),
        Normal(scale=2.0, standardized=True),
        StudentT(df=30.0, scale=2.0),
        StudentT(df=30.0, scale=2.0, standardized=True),
    ],
    ids=repr,
)
def test_the_prior_is_drawn_too(prior):
    X, y = cancer()
    model = BayesianLogisticRegression(prior=prior).fit(X, y)
    data = to_arviz(model, random_state=2)
    w = np.column_stack([flat(data.prior["coef"]), flat(data.prior["intercept"])])
    if isinstance(prior, StudentT):
        unit = X.to_numpy().std(axis=0) if prior.standardized else np.ones(3)
        at_means = X.to_numpy().mean(axis=0) * 2.0 / unit if prior.standardized else np.zeros(3)
        std = np.append(2.0 / unit, np.hypot(10.0, np.linalg.norm(at_means))) * np.sqrt(30 / 28)
    else:
        std = np.sqrt(np.diag(model.prior_.moments(model.fit_.shape).cov))
    assert_moments(w, 0.0, std)


@pytest.mark.parametrize("prior", [None, Jeffreys()])
def test_a_prior_that_is_no_distribution_has_no_group(prior):
    X, y = cancer()
    data = to_arviz(BayesianLogisticRegression(prior=prior).fit(X, y), draws=10)
    assert "prior" not in groups_of(data)


@pytest.mark.parametrize("noise", ["estimate", ("estimate", 0.0), ("estimate", "estimate")])
def test_label_noise_that_is_estimated_is_drawn_with_the_weights(noise):
    X, y = cancer(569)
    model = BayesianLogisticRegression(label_noise=noise).fit(X, y)
    data = to_arviz(model, random_state=0)
    flips = flat(data.posterior["label_noise"])
    assert flips.ndim == (1 if noise == "estimate" else 2)
    if flips.ndim == 2:
        directions = data.posterior["label_noise"].coords["flip"].values.tolist()
        assert directions == ["benign recorded as malignant", "malignant recorded as benign"]
    assert (flips >= 0).all() and (flips < 0.5).all()
    belief, joint = model.fit_.spec.flips, with_flips(model.fit_)
    both = flips.reshape(len(flips), -1)
    theta = np.log(2 * both[:, 0]) - np.log1p(-2 * both[:, 0])  # the first flip probability is free in all cases
    variance = np.linalg.solve(joint.precision.matrix, np.eye(joint.mean.size))[-belief.n_free, -belief.n_free]
    assert_moments(theta, joint.mean[-belief.n_free], np.sqrt(variance))
    prior = flat(data.prior["label_noise"])
    assert_allclose(
        prior.reshape(len(prior), -1)[:, 0].mean(), 0.05, atol=SIGMAS * 0.05 / np.sqrt(4000)
    )  # Beta(1, 9)/2
    scores = flat(data.posterior["coef"]) @ X.to_numpy().T + flat(data.posterior["intercept"])[:, None]
    e01, e10 = both[:, 0], both[:, -1]
    one = e01[:, None] + (1 - e01 - e10)[:, None] / (1 + np.exp(-scores))
    expected = np.log(np.where(y == "malignant", one, 1 - one))
    assert_allclose(flat(data.log_likelihood["y"]), expected, rtol=1e-6, atol=1e-9)  # 1 - p loses digits here


def test_weighted_draws_are_chosen_by_weight():
    X, y = cancer(60)
    model = BayesianLogisticRegression(inference="auto").fit(X, y)
    data = to_arviz(model, random_state=0)
    w = np.column_stack([flat(data.posterior["coef"]), flat(data.posterior["intercept"])])
    # weights vary within the draws that are kept, so the standard deviation is not a Gaussian's: means only
    assert (np.abs(w.mean(axis=0) - model.posterior_.mean) <= SIGMAS * model.posterior_.std / np.sqrt(len(w))).all()
    assert data.attrs["inference"] == model.rung_


# --- ArviZ agrees --------------------------------------------------------------------------------------------------


def test_leave_one_out_agrees_where_it_is_known_exactly():
    """With a Gaussian target of known variance posterior and leave-one-out are exact; az.loo estimates by draws."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=100)
    model = BayesianGLM("gaussian", dispersion=1.0, prior=Normal(scale=2.0)).fit(X, y)
    exact = model.loo_log_proba_.sum()
    found = [loo_of(to_arviz(model, random_state=seed)).sum for seed in range(10)]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) <= 4.8 * error  # Student's t with nine degrees: one in a thousand
    assert error < 0.05


def test_leave_one_out_of_a_classifier_agrees():
    X, y = cancer()
    model = BayesianLogisticRegression(prior=Normal(scale=[0.2, 0.2, 5.0])).fit(X, y)
    loos = [loo_of(to_arviz(model, random_state=seed), pointwise=True) for seed in range(5)]
    found = [loo.sum for loo in loos]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    # Laplace's cavities neglect terms of second order in a row's share of the parameters, in all some p_loo² / n
    neglected = loos[0].p ** 2 / len(y)
    assert (
        abs(np.mean(found) - model.loo_log_proba_.sum()) <= 8.6 * error + neglected
    )  # t with four degrees: 1 in 1,000
    assert np.corrcoef(loos[0].rows, model.loo_log_proba_)[0, 1] > 0.999


def test_summary_and_forest_plot_work():
    import matplotlib.pyplot as plt

    X, y = cancer()
    data = to_arviz(BayesianLogisticRegression().fit(X, y), random_state=0)
    table = az.summary(data)
    assert table.index.tolist() == [*(f"coef[{name}]" for name in X.columns), "intercept"]
    assert (table["r_hat"] < 1.02).all()  # independent draws
    assert (table["ess_bulk"] > 2500).all()
    drawn = az.plot_forest(data, var_names=["coef"])
    axes = plt.gcf().axes if ARVIZ_1 else drawn
    texts = [text for one in axes for text in (*one.get_yticklabels(), *one.texts)]
    shown = " ".join(label.get_text() for label in texts)
    assert all(name in shown for name in X.columns)
    plt.close("all")


def test_a_file_and_back(tmp_path):
    pytest.importorskip("h5netcdf", reason="no engine for netCDF files is installed")
    pytest.importorskip("h5py", reason="… nor what it reads files with, which it does not always bring along")
    X, y = iris()
    data = to_arviz(BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y), draws=20, random_state=0)
    data.to_netcdf(str(tmp_path / "draws.nc"))
    again = az.from_netcdf(str(tmp_path / "draws.nc"))
    for group in groups_of(data):
        assert again[group].load().equals(data[group]), group
    again.close()


# --- which rows ----------------------------------------------------------------------------------------------------


def test_rows_without_labels_are_predictions():
    X, y = cancer()
    data = to_arviz(BayesianLogisticRegression().fit(X, y), X[:7], draws=10)
    assert data.predictions["y"].shape == (4, 10, 7)
    assert data.predictions_constant_data["X"].shape == (7, 3)
    assert not {"log_likelihood", "observed_data", "posterior_predictive"} & groups_of(data)


def test_a_saved_model_has_no_rows_and_takes_others():
    X, y = cancer()
    model = pickle.loads(pickle.dumps(BayesianLogisticRegression().fit(X, y)))
    data = to_arviz(model, draws=10)
    assert groups_of(data) == {"posterior", "prior"}
    given = to_arviz(model, X, y, draws=10, random_state=0)
    fitted = to_arviz(BayesianLogisticRegression().fit(X, y), draws=10, random_state=0)
    assert_allclose(given.log_likelihood["y"], fitted.log_likelihood["y"], rtol=1e-9)


def test_the_same_seed_gives_the_same_draws():
    X, y = cancer()
    model = BayesianLogisticRegression(random_state=5).fit(X, y)
    one, two, other = to_arviz(model, draws=10), to_arviz(model, draws=10), to_arviz(model, draws=10, random_state=6)
    assert one.posterior.equals(two.posterior) and one.posterior_predictive.equals(two.posterior_predictive)
    assert not one.posterior.equals(other.posterior)


def test_least_squares_has_weights_only():
    X, y = iris()
    model = LeastSquaresClassifier().fit(X, y)
    data = to_arviz(model, random_state=0)
    assert groups_of(data) == {"posterior"}
    assert data.posterior["coef"].sizes["class"] == 3
    with pytest.raises(InputError, match="no probabilities"):
        to_arviz(model, X, y)


# --- Gaussian processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_latents_are_drawn_from_the_posterior(inference):
    X, y = cancer(60)
    model = GaussianProcessClassifier(3.0 * RBF(5.0) + White(0.1), inference=inference, optimize=False).fit(X, y)
    data = to_arviz(model, random_state=0)
    assert data.posterior["f"].dims == ("chain", "draw", "row")
    assert_moments(flat(data.posterior["f"]), model.posterior_.mean, np.sqrt(model.posterior_.var))
    sign = np.where(y == "malignant", 1.0, -1.0)
    assert_allclose(flat(data.log_likelihood["y"]), log_expit(sign * flat(data.posterior["f"])), rtol=1e-9)


def test_latents_of_several_classes_and_of_other_rows():
    X, y = iris()
    some = np.r_[0:15, 50:65, 100:115]
    model = GaussianProcessClassifier(4.0 * RBF(2.0), optimize=False).fit(X.iloc[some], y[some])
    data = to_arviz(model, random_state=0)
    assert data.posterior["f"].dims == ("chain", "draw", "row", "class")
    assert_moments(flat(data.posterior["f"]), model.posterior_.mean, np.sqrt(model.posterior_.var))
    other = to_arviz(model, X.iloc[20:23], y[20:23], random_state=0)
    mean, var = model.predict_latent(X.iloc[20:23])
    assert_moments(flat(other.posterior["f"]), mean, np.sqrt(np.einsum("nkk->nk", var)))
    expected = log_softmax(flat(other.posterior["f"]), axis=-1)[..., 0]
    assert_allclose(flat(other.log_likelihood["y"]), expected, rtol=1e-9)


def test_one_class_against_the_rest_has_no_likelihood():
    X, y = iris()
    some = np.r_[0:10, 50:60, 100:110]
    model = GaussianProcessClassifier(4.0 * RBF(2.0), inference="ep", optimize=False).fit(X.iloc[some], y[some])
    data = to_arviz(model, draws=20)
    assert groups_of(data) == {"posterior", "posterior_predictive", "observed_data", "constant_data"}


# --- generative models ---------------------------------------------------------------------------------------------


def test_generative_parameters_have_their_posterior_means():
    X, y = iris()
    model = LinearDiscriminant().fit(X, y)
    data = to_arviz(model, X, y, random_state=0)
    assert data.posterior["mean"].dims == ("chain", "draw", "class", "feature")
    estimates = model.posterior_.estimates(0.9)
    draws = flat(data.posterior["mean"])
    assert (np.abs(draws.mean(axis=0) - estimates.mean) <= SIGMAS * estimates.sd / np.sqrt(len(draws))).all()
    share = flat(data.posterior["class_probability"])
    assert_allclose(share.sum(axis=1), 1.0)
    assert_allclose(share.mean(axis=0), model.class_prior_, atol=SIGMAS * 0.04 / np.sqrt(len(share)))


def test_the_joint_likelihood_is_that_of_each_draw():
    X, y = iris()
    model = NaiveBayes(features="gaussian").fit(X, y)
    data = to_arviz(model, X, y, draws=5, chains=2, random_state=0)
    codes = np.unique(y, return_inverse=True)[1]
    mean, spread = (flat(data.posterior[name])[:, codes] for name in ("mean", "spread"))
    expected = norm.logpdf(X.to_numpy(), mean, spread).sum(axis=-1)
    expected = expected + np.log(flat(data.posterior["class_probability"]))[:, codes]
    assert_allclose(flat(data.log_likelihood["y"]), expected, rtol=1e-9)


@pytest.mark.slow
def test_leave_one_out_of_a_generative_model_is_that_of_fits_without_the_row():
    X, y = iris()
    X = X.to_numpy()[:, 2:]  # two columns: no row is so influential that weights fail
    model = LinearDiscriminant().fit(X, y)
    exact = 0.0
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        left = clone(model).set_params(prior=model.prior_).fit(X[others], y[others])
        exact += left._joint.log_joint(X[i : i + 1])[0, left.classes_.tolist().index(y[i])]
    found = [loo_of(to_arviz(model, X, y, random_state=seed)).sum for seed in range(5)]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) <= 8.6 * error  # Student's t with four degrees: one in a thousand


def test_categories_and_missing_cells_have_names():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "blue"], 60), "size": rng.normal(size=60)})
    frame["kind"] = rng.choice(["a", "b", "c"], 60)
    frame.loc[3, "size"] = np.nan
    y = rng.integers(0, 2, 60)
    model = NaiveBayes().fit(frame, y)
    data = to_arviz(model, frame, y, draws=10)
    names = data.posterior["mean"].coords["feature"].values.tolist()
    assert len(set(names)) == len(names) and "kind=a" in names
    assert np.isfinite(data.log_likelihood["y"]).all()


# --- what is refused -----------------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_is_refused_with_the_reason():
    X, y = iris()
    with pytest.raises(InputError, match="estimates only"):
        to_arviz(LinearDiscriminant(parameters="plugin").fit(X, y))
    with pytest.raises(NotDefinedError, match="ModelAverage"):
        to_arviz(ModelAverage([BayesianLogisticRegression()]))
    with pytest.raises(NotFittedError):
        to_arviz(BayesianLogisticRegression())
    model = BayesianLogisticRegression().fit(X, y)
    with pytest.raises(InputError, match="without X"):
        to_arviz(model, y=y)
    with pytest.raises(InputError, match="chains"):
        to_arviz(model, chains=0)
    with pytest.raises(InputError, match="draws"):
        to_arviz(model, draws=1.5)
    with pytest.raises(InputError, match="fewer draws"):
        to_arviz(model, draws=1_000_000)


def test_a_model_exports_itself_and_says_what_it_is():
    X, y = cancer()
    model = BayesianLogisticRegression(inference="laplace").fit(X, y)
    data = model.to_arviz(draws=7, chains=2, random_state=0)
    assert data.posterior["coef"].shape == (2, 7, 3)
    assert data.posterior.equals(to_arviz(model, draws=7, chains=2, random_state=0).posterior)
    said = {"inference_library": "credibly", "model": "BayesianLogisticRegression", "inference": "laplace"}
    assert said.items() <= dict(data.attrs).items()


def test_a_model_of_a_table_takes_tables():
    X, y = cancer()
    table = X.assign(kind=y)
    model = TableModel.fit(BayesianLogisticRegression(), table, "kind")
    given, fitted = (to_arviz(model, *rows, draws=10, random_state=0) for rows in ((table,), ()))
    assert_allclose(given.log_likelihood["y"], fitted.log_likelihood["y"], rtol=1e-9)
    assert to_arviz(model, X[:4], draws=10).predictions["y"].shape == (4, 10, 4)


def test_multivariate_draws_have_the_right_density():
    """E[log q(w)] of draws of q is minus its entropy: joint shape, and not only margins, are right."""
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    data = to_arviz(model, random_state=9)
    w = np.column_stack([flat(data.posterior["coef"]), flat(data.posterior["intercept"])])
    log_q = model.posterior_.logpdf(w)
    entropy = multivariate_normal(model.posterior_.mean, model.posterior_.cov, allow_singular=True).entropy()
    assert abs(log_q.mean() + entropy) <= SIGMAS * np.sqrt(4 / 2) / np.sqrt(len(w))  # log q varies by √(M/2)
