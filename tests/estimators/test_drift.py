"""partial_fit against one fit to all rows: the estimate of the distance, and the warning."""

import pickle
import warnings

import numpy as np
import pytest

from credibly import BayesianGLM, BayesianLogisticRegression, BayesianProbitRegression, Normal
from credibly.errors import UnreliableWarning

DRIFTED = "ignore:partial_fit has drifted:credibly.errors.UnreliableWarning"


def stream(rng, n, p, signal=1.0):
    X = rng.standard_normal((n, p))
    w = rng.standard_normal(p) * signal / np.sqrt(p)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ w))).astype(int)


def fed(model, X, y, batch, **extra):
    for start in range(0, len(y), batch):
        model.partial_fit(X[start : start + batch], y[start : start + batch], **extra)
    return model


def distance(model, whole):
    return np.abs((model.posterior_.mean - whole.posterior_.mean) / whole.posterior_.std).max()


@pytest.mark.filterwarnings(DRIFTED)
@pytest.mark.parametrize("model", [BayesianLogisticRegression, BayesianProbitRegression])
@pytest.mark.parametrize("inference", ["laplace", "variational", "ep", "auto"])
@pytest.mark.parametrize("batch", [100, 400])
def test_the_estimate_is_of_the_size_of_the_distance(model, inference, batch):
    """Over ten streams the mean estimate is within a factor of three of the mean distance."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        X, y = stream(rng, 2000, 4)
        choices = {"prior": Normal(scale=2.5), "inference": inference}
        parts = fed(model(**choices), X, y, batch, classes=[0, 1])
        found.append([parts.drift_, distance(parts, model(**choices).fit(X, y))])
    estimate, actual = np.mean(found, axis=0)
    assert actual / 3 < estimate < 3 * actual


def test_shuffled_batches_of_a_thousand_stay_near_and_say_nothing():
    X, y = stream(np.random.default_rng(1), 10_000, 5, signal=0.5)
    parts = fed(BayesianLogisticRegression(prior=Normal()), X, y, 1000)
    assert distance(parts, BayesianLogisticRegression(prior=Normal()).fit(X, y)) < 0.05
    assert 0 < parts.drift_ < 0.15


@pytest.mark.parametrize("inference", ["laplace", "ep", "auto"])
def test_rows_sorted_by_label_are_told_once(inference):
    X, y = stream(np.random.default_rng(2), 3000, 5)
    order = np.argsort(y, kind="stable")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = BayesianLogisticRegression(prior=Normal(), inference=inference)
        parts = fed(model, X[order], y[order], 1000, classes=[0, 1])
    about = [str(one.message) for one in told if issubclass(one.category, UnreliableWarning)]
    assert len(about) == 1
    assert "shuffle the rows" in about[0] and told[0].filename == __file__
    assert parts.drift_ > 1


@pytest.mark.filterwarnings(DRIFTED)
def test_softmax_and_glms_have_an_estimate_too():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 2))
    y = (X[:, 0] + rng.standard_normal(600) > 0).astype(int) + (X[:, 1] > 1)
    softmax = fed(BayesianLogisticRegression(prior=Normal()), X, y, 200)
    assert 0 < softmax.drift_ < 1
    counts = rng.poisson(np.exp(0.5 * X[:, 0]))
    poisson = fed(BayesianGLM("poisson", prior=Normal()), X, counts, 200)
    assert poisson.drift_ > 0
    inverse = fed(BayesianGLM("gamma", prior=Normal(mean=np.zeros(2), cov=np.eye(2) * 1e-4)), X, counts + 1.0, 200)
    assert np.isnan(inverse.drift_)  # no averages over a Gaussian: it is not known
    normal = fed(BayesianGLM("gaussian", prior=Normal(), dispersion=1.0), X, X[:, 0], 200)
    assert normal.drift_ == pytest.approx(0, abs=1e-12)  # a quadratic is remembered as it is


def test_one_fit_has_no_drift():
    X, y = stream(np.random.default_rng(4), 200, 2)
    assert not hasattr(BayesianLogisticRegression().fit(X, y), "drift_")


@pytest.mark.parametrize("model", [BayesianLogisticRegression(prior=Normal()), BayesianGLM("poisson", prior=Normal())])
def test_a_saved_model_goes_on_and_does_not_know_its_drift(model):
    """Its first rows are not saved, so what their quadratic lacks is unknown: NaN, not zero."""
    X, y = stream(np.random.default_rng(5), 2000, 2)
    saved = pickle.loads(pickle.dumps(model.fit(X[:1000], y[:1000])))
    saved.partial_fit(X[1000:], y[1000:])
    assert np.isnan(saved.drift_)
    whole = model.partial_fit(X[1000:], y[1000:])
    np.testing.assert_array_equal(saved.posterior_.mean, whole.posterior_.mean)
    again = pickle.loads(pickle.dumps(whole)).partial_fit(X[:500], y[:500])  # an account that was begun is kept
    assert again.drift_ > 0


def test_updates_without_a_prior_have_no_estimate():
    X, y = stream(np.random.default_rng(6), 400, 2)
    model = BayesianLogisticRegression(prior=None).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert np.isnan(model.drift_)
