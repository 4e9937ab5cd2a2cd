"""Dask tables in, lazy predictions out, for every kind of model; without a cluster, so that it is quick."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
    StudentT,
)
from credibly.data.dask import DaskRows
from credibly.errors import InputError
from credibly.kernels import RBF

N, D = 90, 3
CHUNKS = (20, 0, 41, 29)
SAME = 1e-10
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
SCORES = X @ rng.normal(size=(D, 3))
Y = np.array(["a", "b", "c"])[(SCORES + rng.gumbel(size=SCORES.shape)).argmax(axis=1)]
TWO = Y != "a"
COUNTS = rng.poisson(np.exp(X[:, 0]))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.fixture(autouse=True)
def here():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(table=X, columns=D) -> da.Array:
    return da.from_array(table, chunks=(CHUNKS, columns)[: table.ndim])


MODELS = {
    "logistic": lambda: BayesianLogisticRegression(prior=Normal()).fit(X, TWO),
    "softmax": lambda: BayesianLogisticRegression(prior=Normal()).fit(X, Y),
    "softmax of two": lambda: BayesianLogisticRegression(prior=Normal(), multi_class="softmax").fit(X, TWO),
    "draws": lambda: BayesianLogisticRegression(prior=Normal(), inference="exact", random_state=0).fit(X, TWO),
    "no prior": lambda: BayesianProbitRegression(prior=None).fit(X, TWO),
    "noisy labels": lambda: BayesianLogisticRegression(prior=Normal(), label_noise=0.1).fit(X, TWO),
    "least squares": lambda: LeastSquaresClassifier().fit(X, TWO),
    "least squares of three": lambda: LeastSquaresClassifier().fit(X, Y),
    "counts": lambda: BayesianGLM("poisson", prior=Normal()).fit(X, COUNTS),
    "discriminant": lambda: LinearDiscriminant().fit(X, Y),
    "naive Bayes": lambda: NaiveBayes().fit(X, TWO),
    "Gaussian process": lambda: GaussianProcessClassifier(kernel=RBF(), optimize=False).fit(X, TWO),
    "Gaussian process of three": lambda: GaussianProcessClassifier(kernel=RBF(), optimize=False).fit(X, Y),
}
METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_recorded_proba",
    "predict_interval",
    "predict_latent",
    "decision_function",
    "score_samples",
]


@pytest.mark.parametrize("name", MODELS)
def test_lazy_predictions_are_those_of_the_table(name):
    model = MODELS[name]()
    asked = [method for method in METHODS if hasattr(model, method)]
    assert len(asked) >= 3
    for method in asked:
        want, got = getattr(model, method)(X), getattr(model, method)(lazy())
        pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
        assert type(got) is type(want) if isinstance(want, tuple) else isinstance(got, da.Array)
        for one, other in pairs:
            found = other.compute()
            assert other.shape == found.shape == one.shape and other.dtype == found.dtype == one.dtype, method
            if one.dtype.kind == "f":
                assert_allclose(found, one, rtol=1e-9, atol=1e-12)  # blocks are cut elsewhere
            else:
                assert_array_equal(found, one)


def test_arguments_come_along():
    model = MODELS["softmax"]()
    assert_allclose(model.predict_interval(lazy(), level=0.5).compute(), model.predict_interval(X, 0.5), atol=SAME)
    counts, offset = MODELS["counts"](), np.linspace(0, 1, N)
    for by in (offset, lazy(offset)):
        assert_allclose(counts.predict(lazy(), by).compute(), counts.predict(X, offset), rtol=SAME)
        got = counts.predict_interval(lazy(), kind="observation", offset=by).compute()
        assert_allclose(got, counts.predict_interval(X, kind="observation", offset=offset), rtol=SAME)


def test_a_level_of_none_is_refused_as_it_is_for_the_table_and_not_taken_for_the_default():
    model, counts = MODELS["softmax"](), MODELS["counts"]()
    for asked in (model, counts):
        for table in (X, lazy()):
            with pytest.raises(InputError, match=r"level must lie between 0 and 1.*got None"):
                np.asarray(asked.predict_interval(table, level=None))
    got = counts.predict_interval(lazy(), offset=None).compute()  # no offset is none
    assert_allclose(got, counts.predict_interval(X), rtol=SAME)


def test_frames_are_known_by_the_names_of_their_columns():
    model = BayesianLogisticRegression(prior=Normal()).fit(FRAME, TWO)
    frame = dd.from_pandas(FRAME, npartitions=3)
    assert_allclose(model.predict_proba(frame).compute(), model.predict_proba(FRAME), atol=SAME)
    with pytest.raises(InputError, match="feature names"):  # at once: nothing need be computed for it
        model.predict(frame[["b", "a", "c"]])


def test_what_is_learnt_later_does_not_change_what_was_asked_before():
    model = MODELS["logistic"]()
    want, asked = model.predict_proba(X), model.predict_proba(lazy())
    model.fit(X, ~TWO)
    assert_allclose(asked.compute(), want, atol=SAME)


def test_a_partition_that_cannot_be_used_is_named():
    holed = X.copy()
    holed[25, 1] = np.nan
    with pytest.raises(InputError, match=r"Partition 2: X contains NaN in column 'x1'"):
        MODELS["logistic"]().predict(lazy(holed)).compute()


def test_another_number_of_columns_is_refused_at_once():
    with pytest.raises(InputError, match=r"X has 2 columns, but BayesianLogisticRegression was fitted to .* 3 columns"):
        MODELS["logistic"]().predict(lazy()[:, :2])


# --- Learning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["laplace", "variational"])
@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(), Normal(standardized=True), StudentT(), None], ids=str)
@pytest.mark.parametrize("y", [TWO, Y], ids=["two classes", "three"])
def test_every_prior_gives_the_posterior_of_the_table(prior, y, inference):
    model = BayesianLogisticRegression(prior=prior, inference="auto" if prior is None else inference)
    want, got = clone(model).fit(X, y), clone(model).fit(lazy(columns=(1, 2)), lazy(y))
    size = np.sqrt(np.diag(want.posterior_.cov))
    # Where scales are searched for the search ends within its own tolerance, of which sums in another order move it.
    within = 1e-6 if isinstance(prior, str) else SAME
    assert_allclose((got.posterior_.mean - want.posterior_.mean) / size, 0, atol=within)
    assert_allclose(got.posterior_.cov / np.outer(size, size), want.posterior_.cov / np.outer(size, size), atol=within)
    assert_array_equal(got.classes_, want.classes_)


def test_columns_of_an_array_have_no_names_to_be_held_against_other_arrays():
    model = BayesianLogisticRegression(prior=Normal()).fit(lazy(), lazy(Y))
    assert not hasattr(model, "feature_names_in_")
    assert_allclose(model.predict_proba(lazy()).compute(), model.predict_proba(X), atol=SAME)


def test_columns_of_a_frame_have_the_names_they_were_given():
    named = FRAME.set_axis(["x0", "x1", "x2"], axis=1)
    here, there = BayesianLogisticRegression(prior=Normal()), BayesianLogisticRegression(prior=Normal())
    there.fit(dd.from_pandas(named, npartitions=2), Y)
    assert there.feature_names_in_.tolist() == here.fit(named, Y).feature_names_in_.tolist()


def test_sparse_chunks_give_the_posterior_of_the_table():
    thin = np.where(X > 0.5, X, 0.0)
    want = BayesianLogisticRegression(prior=Normal()).fit(thin, Y)
    got = BayesianLogisticRegression(prior=Normal()).fit(lazy(thin).map_blocks(csr_array), lazy(Y))
    assert_allclose((got.posterior_.mean - want.posterior_.mean) / want.posterior_.std, 0, atol=SAME)
    assert_allclose(got.predict_proba(lazy(thin).map_blocks(csr_array)).compute(), want.predict_proba(thin), atol=SAME)


def test_nan_is_named_with_its_column_and_partition():
    holed = X.copy()
    holed[70, 2] = np.nan
    with pytest.raises(InputError, match="NaN in column 'x2'") as raised:
        BayesianLogisticRegression().fit(lazy(holed), lazy(Y))
    assert "partition 3" in str(raised.value)


def test_one_class_and_lengths_that_differ_are_refused():
    with pytest.raises(InputError, match="only one class"):
        BayesianLogisticRegression().fit(lazy(), lazy(np.ones(N)))
    with pytest.raises(InputError, match="y has 89 rows, X has 90"):
        BayesianLogisticRegression().fit(lazy(), Y[:-1])


def test_labels_in_a_table_of_one_column_are_refused():
    with pytest.raises(InputError, match="y must have one dimension"):
        BayesianLogisticRegression().fit(lazy(), lazy(Y)[:, None])


WEIGHTED = {
    "logistic": lambda weight: BayesianLogisticRegression(prior=Normal()).fit(lazy(), lazy(TWO), sample_weight=weight),
    "least squares": lambda weight: LeastSquaresClassifier().fit(lazy(), lazy(TWO), sample_weight=weight),
    "counts": lambda weight: BayesianGLM("poisson", prior=Normal()).fit(lazy(), lazy(COUNTS), sample_weight=weight),
    "discriminant": lambda weight: LinearDiscriminant().fit(lazy(), lazy(TWO), sample_weight=weight),
}


@pytest.mark.parametrize("fit", WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("held", [np.asarray, lazy], ids=["in memory", "lazy"])
def test_a_weight_that_is_none_is_refused_with_its_partition_and_row(fit, bad, held):
    weight = np.ones(N)
    weight[25] = bad
    with pytest.raises(InputError, match=rf"partition 2: sample_weight is {bad:g} in row 5 of the partition"):
        fit(held(weight))


@pytest.mark.parametrize("fit", WEIGHTED.values(), ids=WEIGHTED)
def test_weights_that_are_all_zero_are_refused(fit):
    with pytest.raises(InputError, match="sample_weight is zero for every row"):
        fit(np.zeros(N))


def test_weights_that_are_no_numbers_are_refused_with_their_partition():
    missing = dd.from_pandas(pd.Series(np.ones(N), dtype="Float64").where(np.arange(N) != 50), npartitions=2)
    frame = dd.from_pandas(FRAME.assign(y=TWO), npartitions=2)
    with pytest.raises(InputError, match="partition 1: sample_weight is nan in row 5 of the partition"):
        NaiveBayes().fit(frame[["a", "b", "c"]], frame["y"], sample_weight=missing)
    with pytest.raises(InputError, match=r"partition \d: sample_weight must hold numbers"):
        WEIGHTED["logistic"](np.array(["heavy"] * N))


@pytest.mark.parametrize(("bad", "told"), [(np.inf, "inf"), (-1e101, r"-1e\+101")])
def test_an_offset_that_is_not_finite_or_huge_is_refused_with_its_partition_and_row(bad, told):
    offset = np.where(np.arange(N) == 89, bad, 0.0)
    with pytest.raises(InputError, match=f"partition 3: offset is {told} in row 28 of the partition"):
        DaskRows(lazy(), lazy(COUNTS), None, lazy(offset)).map(lambda block: block.y)
