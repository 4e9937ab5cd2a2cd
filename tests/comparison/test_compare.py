"""`compare`: the table, its arithmetic, what it refuses, and how it fails."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credibly
from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Comparison,
    GaussianProcessClassifier,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    Normal,
    QuadraticDiscriminant,
    compare,
)
from credibly.comparison.result import stacking_weights
from credibly.errors import ConvergenceWarning, CrediblyError, InputError, NoEvidenceError

PRIOR = Normal(scale=2.5)
COLUMNS = [
    "log_evidence",
    "log_evidence_se",
    "log_bayes_factor",
    "probability",
    "bic",
    "aic",
    "loo",
    "stacking_weight",
    "effective_parameters",
    "khat",
    "fit_time",
    "error",
    "kind",
]
NUMBERS = COLUMNS[:-2]


def toy(n=120, d=2, K=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, K)) * 1.5 + rng.gumbel(size=(n, K))).argmax(axis=1)


X, Y = toy()


def three():
    return {
        "logit": BayesianLogisticRegression(prior=PRIOR),
        "probit": BayesianProbitRegression(prior=PRIOR),
        "lda": LinearDiscriminant(),
    }


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(three(), X, Y, random_state=0)


# --- the table --------------------------------------------------------------------------------------------------


def test_the_frame_has_the_columns_and_an_index_of_names(found):
    frame = found.to_frame()
    assert list(frame.columns) == COLUMNS
    assert set(frame.index) == {"logit", "probit", "lda"} and frame.index[0] == found.best_
    assert frame["error"].isna().all()
    assert frame["kind"].to_dict() == {"logit": "evidence", "probit": "evidence", "lda": "prequential"}


def test_the_numbers_are_those_of_the_models(found):
    frame, models = found.to_frame(), found.models_
    for name in ("logit", "probit"):
        model, row = models[name], frame.loc[name]
        certificate = model.certify(X, Y, random_state=1)
        assert abs(row["log_evidence"] - certificate.log_evidence) < 5 * np.hypot(
            row["log_evidence_se"], certificate.log_evidence_se
        )
        assert row["bic"] == model.bic_ and row["aic"] == model.aic_
        assert row["effective_parameters"] == model.effective_parameters_
        assert_allclose(row["loo"], model.loo_log_proba_.sum())
        assert row["khat"] < 0.7 and row["log_evidence_se"] > 0
    row, lda = frame.loc["lda"], models["lda"]
    assert_allclose(row["loo"], lda.loo_log_proba(X, Y).sum())
    assert row["log_evidence"] < lda.prequential_score(X, Y).mean + 6 * row["log_evidence_se"]
    assert row["log_evidence"] > lda.log_evidence_ + 100  # never the joint evidence
    assert np.isnan(row["bic"]) and np.isnan(row["aic"])  # nor a joint BIC beside conditional ones
    assert (frame["fit_time"] > 0).all()


def test_probabilities_and_bayes_factors_follow_from_the_evidence(found):
    frame = found.to_frame()
    assert_allclose(frame["probability"], softmax(frame["log_evidence"]), rtol=1e-12)
    assert_allclose(frame["probability"].sum(), 1.0)
    assert_allclose(frame["log_bayes_factor"], frame["log_evidence"] - frame["log_evidence"].max())
    assert (frame["log_bayes_factor"] <= 0).all() and frame.loc[found.best_, "log_bayes_factor"] == 0


def test_stacking_weights_are_those_of_the_rows_left_out(found):
    models = found.models_
    loo = {name: models[name].loo_log_proba_ for name in ("logit", "probit")} | {
        "lda": models["lda"].loo_log_proba(X, Y)
    }
    names = list(found.to_frame().index)
    assert_allclose(found.to_frame()["stacking_weight"], stacking_weights(np.column_stack([loo[n] for n in names])))


def test_the_order_of_models_does_not_matter(found):
    turned = compare(dict(reversed(three().items())), X, Y, random_state=0).to_frame()
    columns = [name for name in NUMBERS if name not in {"fit_time", "stacking_weight"}]
    pd.testing.assert_frame_equal(turned[columns], found.to_frame()[columns], check_exact=True)
    assert_allclose(turned["stacking_weight"], found.to_frame()["stacking_weight"], atol=1e-8)


@pytest.mark.slow
def test_other_processes_give_the_same_numbers(found):
    elsewhere = compare(three(), X, Y, n_jobs=2, random_state=0)
    columns = [name for name in NUMBERS if name != "fit_time"]
    pd.testing.assert_frame_equal(elsewhere.to_frame()[columns], found.to_frame()[columns], rtol=1e-9)
    assert_allclose(elsewhere.average().predict_log_proba(X), found.average().predict_log_proba(X), rtol=1e-9)


def test_clones_are_fitted_whatever_came():
    given = BayesianLogisticRegression(prior=PRIOR).fit(X[:50, :1], Y[:50])
    before = copy.deepcopy(vars(given))
    done = compare({"a": given, "b": BayesianProbitRegression(prior=PRIOR)}, X, Y)
    assert done.models_["a"] is not given and done.models_["a"].n_features_in_ == 2
    assert vars(given).keys() == before.keys() and given.n_features_in_ == 1


def test_a_list_is_named_by_classes():
    done = compare([BayesianLogisticRegression(), BayesianLogisticRegression(prior=PRIOR), LinearDiscriminant()], X, Y)
    assert set(done.models_) == {"BayesianLogisticRegression 1", "BayesianLogisticRegression 2", "LinearDiscriminant"}
    assert set(compare([("a", BayesianLogisticRegression())], X, Y).models_) == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1.0, 3.0]], ids=str)
def test_labels_of_any_kind(labels):
    y = np.array(labels)[Y]
    done = compare({"line": BayesianLogisticRegression(), "lda": LinearDiscriminant()}, X, y, random_state=0)
    plain = compare({"line": BayesianLogisticRegression(), "lda": LinearDiscriminant()}, X, Y, random_state=0)
    assert_allclose(done.to_frame()["log_evidence"], plain.to_frame()["log_evidence"])
    assert set(done.average().predict(X)) == set(labels)
    assert done.classes_.tolist() == labels


def test_three_classes_and_frames():
    X3, y3 = toy(90, 3, 3)
    frame = pd.DataFrame(X3, columns=["a", "b", "c"])
    models = {
        "softmax": BayesianLogisticRegression(),
        "qda": QuadraticDiscriminant(),
        "gp": GaussianProcessClassifier(),
    }
    done = compare(models, frame, y3, random_state=0)
    assert done.to_frame()["error"].isna().all()
    assert_allclose(done.average().predict_proba(frame).sum(axis=1), 1.0)


# --- what models are ranked by ----------------------------------------------------------------------------------


def test_by_bic_a_flat_prior_is_fine():
    models = {"flat": BayesianLogisticRegression(prior=None), "none": BayesianLogisticRegression(prior=PRIOR)}
    done = compare(models, X, Y, by="bic")
    frame = done.to_frame()
    assert_allclose(frame["probability"], softmax(-frame["bic"] / 2))
    assert done.best_ == frame["bic"].idxmin()
    assert np.isnan(frame.loc["flat", "log_evidence"]) and frame["error"].isna().all()
    assert done.notes == []


def test_by_loo_the_weights_are_pseudo_bma():
    done = compare(three() | {"flat": BayesianLogisticRegression(prior=None)}, X, Y, by="loo", random_state=0)
    frame = done.to_frame()
    assert_allclose(frame["probability"], softmax(frame["loo"]))
    assert frame["loo"].is_monotonic_decreasing and not frame["loo"].isna().any()


def test_prequential_is_the_evidence_of_a_discriminative_model(found):
    frame = compare(three(), X, Y, by="prequential", random_state=0).to_frame()
    assert_allclose(frame["log_evidence"], found.to_frame()["log_evidence"])


def test_generative_models_among_themselves_have_a_joint_evidence():
    models = {"lda": LinearDiscriminant(), "qda": QuadraticDiscriminant(), "nb": NaiveBayes(features="gaussian")}
    done = compare(models, X, Y, by="joint_evidence")
    frame = done.to_frame()
    for name, model in done.models_.items():
        assert frame.loc[name, "log_evidence"] == model.log_evidence_ and frame.loc[name, "bic"] == model.bic_
    assert set(frame["kind"]) == {"joint evidence"} and (frame["log_evidence_se"] == 0).all()
    assert frame["khat"].isna().all()
    by_bic = compare(models, X, Y, by="bic").to_frame()
    assert set(by_bic["kind"]) == {"joint evidence"} and by_bic["bic"].is_monotonic_increasing
    assert set(compare(models, X, Y, random_state=0).to_frame()["kind"]) == {"prequential"}


def test_glms_of_counts_and_of_real_targets_among_themselves():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(0.5 + X[:, 0]))
    models = {"poisson": BayesianGLM("poisson"), "more": BayesianGLM("negative_binomial", dispersion=1.0)}
    done = compare(models, X, counts, random_state=0)
    assert done.best_ == "poisson" and done.classes_ is None
    with pytest.raises(InputError, match="no labels"):
        done.average()
    t = X[:, 0] + rng.normal(size=len(X))
    exact = BayesianGLM(prior=Normal(scale=1.0), dispersion=1.0)
    frame = compare({"exact": exact, "gauss": BayesianGLM()}, X, t).to_frame()
    assert_allclose(frame.loc["exact", "log_evidence"], clone(exact).fit(X, t).log_evidence_)
    assert (frame["log_evidence_se"] == 0).all() and frame["khat"].isna().all()  # in closed form


def test_a_bernoulli_glm_is_a_model_of_labels():
    glm = BayesianGLM("bernoulli", prior=PRIOR)
    done = compare({"glm": glm, "logit": BayesianLogisticRegression(prior=PRIOR)}, X, Y, random_state=0)
    frame = done.to_frame()
    assert_allclose(*frame["log_evidence"], rtol=1e-9)
    assert_allclose(*frame["loo"], rtol=1e-9)
    assert_allclose(done.average().predict_log_proba(X), done.models_["logit"].predict_log_proba(X), rtol=1e-9)
    assert done.best_ in {"glm", "logit"}  # equals, but for rounding


# --- pipelines --------------------------------------------------------------------------------------------------


def test_a_pipeline_stands_by_its_last_step():
    plain, scaled = BayesianLogisticRegression(), make_pipeline(StandardScaler(), BayesianLogisticRegression())
    glm = make_pipeline(StandardScaler(), BayesianGLM("bernoulli"))
    done = compare({"plain": plain, "scaled": scaled, "glm": glm}, X * [1, 1000] + 5, Y, random_state=0)
    frame = done.to_frame()
    assert frame["error"].isna().all()
    for column in ("log_evidence", "loo", "bic"):  # "empirical" priors are on standardised columns
        assert_allclose(frame.loc["scaled", column], frame.loc["plain", column], rtol=1e-6)
    average = done.average()
    assert_allclose(
        average.predict_proba(X * [1, 1000] + 5), done.models_["plain"].predict_proba(X * [1, 1000] + 5), rtol=1e-4
    )


# --- the average ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["probability", "stacking"])
def test_the_average_is_that_of_the_probabilities(found, weights):
    average = found.average(weights)
    column = {"probability": "probability", "stacking": "stacking_weight"}[weights]
    shares = found.to_frame()[column]
    parts = np.array([model.predict_log_proba(X) for model in found.models_.values()])
    by_hand = logsumexp(parts, axis=0, b=shares[list(found.models_)].to_numpy()[:, None, None])
    assert_allclose(average.predict_log_proba(X), by_hand, rtol=1e-9)
    assert_allclose(average.predict_proba(X), np.exp(average.predict_log_proba(X)))
    assert_allclose(average.predict_proba(X).sum(axis=1), 1.0)
    assert (average.predict(X) == average.classes_[average.predict_proba(X).argmax(axis=1)]).all()
    assert_allclose(sum(average.weights_.values()), 1.0, rtol=1e-6)


def test_the_average_is_accurate_far_from_the_data(found):
    far = np.array([[1e3, -1e3]])
    log_proba = found.average().predict_log_proba(far)
    assert np.isfinite(log_proba).all()
    parts = [model.predict_log_proba(far) for model in found.models_.values()]
    assert (log_proba >= np.min(parts, axis=0) - 1e-9).all() and (log_proba <= np.max(parts, axis=0) + 1e-9).all()


def test_the_average_decides_pickles_and_clones(found):
    average = found.average()
    again = pickle.loads(pickle.dumps(average))
    assert_allclose(again.predict_log_proba(X), average.predict_log_proba(X))
    assert set(average.decide(X, [[0, 1], [5, 0]], reject_cost=0.2, reject_label=-1)) <= {-1, 0, 1}
    new = clone(average)
    assert not hasattr(new, "log_weights_")
    refitted = new.set_params(random_state=0).fit(X, Y)
    assert_allclose(refitted.predict_log_proba(X), average.predict_log_proba(X), rtol=1e-9)
    assert 0.7 < average.score(X, Y) <= 1


def test_an_average_can_be_cross_validated():
    from sklearn.model_selection import cross_val_score

    average = ModelAverage({"a": BayesianLogisticRegression(), "b": BayesianProbitRegression()}, random_state=0)
    assert cross_val_score(average, X, Y, cv=3, scoring="neg_log_loss").mean() > -0.69


def test_a_comparison_pickles(found):
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found) and again.best_ == found.best_


def test_unknown_weights_are_refused(found):
    with pytest.raises(InputError, match="'probability', 'stacking'"):
        found.average("equal")


# --- text and figure --------------------------------------------------------------------------------------------


def test_the_text_is_aligned_and_complete(found):
    lines = str(found).splitlines()
    assert lines[0] == "Comparison of 3 models by evidence, classes [0, 1]"
    assert len({len(line) for line in lines[1:8]}) == 1
    assert "log evidence" in lines[2] and "prequential" in str(found) and repr(found) == str(found)


def test_names_are_escaped():
    done = compare({"<b>&": BayesianLogisticRegression()}, X, Y)
    html = done._repr_html_()
    assert "&lt;b&gt;&amp;" in html and "<b>" not in html
    assert html.count("<tr>") == 2


def test_the_figure_has_a_bar_for_every_model(found):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot as plt

    ax = found.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.to_frame().index)
    assert_allclose([bar.get_width() for bar in ax.patches], found.to_frame()["log_bayes_factor"])
    _, mine = plt.subplots()
    assert found.plot(ax=mine) is mine
    assert "BIC" in compare({"a": BayesianLogisticRegression()}, X, Y, by="bic").plot().get_xlabel()
    plt.close("all")


# --- trust ------------------------------------------------------------------------------------------------------


class Stub(BayesianLogisticRegression):
    """A model whose certificate says what it is told to say."""

    def certify(self, X, y, draws=None, random_state=None):
        return type("Doubtful", (), {"khat": 0.93, "reliable": False, "verdict": "Do not rely on it."})()


class Refusing(BayesianLogisticRegression):
    def certify(self, X, y, draws=None, random_state=None):
        raise InputError("no certificate today")


def test_an_unreliable_certificate_is_marked_and_not_used():
    done = compare({"doubtful": Stub(prior=PRIOR)}, X, Y)
    row = done.to_frame().loc["doubtful"]
    assert row["khat"] == 0.93 and np.isnan(row["log_evidence_se"])
    assert row["log_evidence"] == done.models_["doubtful"].log_evidence_
    assert "doubtful †" in str(done) and "Do not rely on it." in str(done)


def test_a_model_that_cannot_be_certified_stands_by_its_own_evidence():
    done = compare({"a": Refusing(prior=PRIOR)}, X, Y)
    row = done.to_frame().loc["a"]
    assert row["error"] is None and np.isnan(row["log_evidence_se"]) and np.isnan(row["khat"])
    assert row["log_evidence"] == done.models_["a"].log_evidence_
    assert "no certificate today" in str(done)


class Warning_(BayesianLogisticRegression):
    def fit(self, X, y):
        warnings.warn("slow today", ConvergenceWarning, stacklevel=2)
        warnings.warn("slow today", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


def test_warnings_of_single_fits_become_notes():
    done = compare({"a": Warning_(), "b": BayesianLogisticRegression()}, X, Y)
    assert [note for note in done.notes if "slow today" in note] == ["a: ConvergenceWarning: slow today"]


# --- failing ----------------------------------------------------------------------------------------------------


def test_a_failing_model_is_told_in_its_row_and_loses_nobody(found):
    done = compare(three() | {"bad": BayesianLogisticRegression(prior="nonsense")}, X, Y, random_state=0)
    frame = done.to_frame()
    assert "prior must be" in frame.loc["bad", "error"] and frame.loc["bad", NUMBERS].isna().all()
    assert frame.index[-1] == "bad" and "bad" not in done.models_
    assert "bad: failed: prior must be" in str(done)
    others = [name for name in NUMBERS if name != "fit_time"]
    pd.testing.assert_frame_equal(frame.drop(index="bad")[others].astype(float), found.to_frame()[others])
    assert_allclose(done.average().predict_log_proba(X), found.average().predict_log_proba(X))


def test_whatever_a_fit_raises_is_told():
    class Broken(BayesianLogisticRegression):
        def fit(self, X, y):
            raise ZeroDivisionError

    frame = compare({"broken": Broken(), "fine": BayesianLogisticRegression()}, X, Y).to_frame()
    assert frame.loc["broken", "error"] == "ZeroDivisionError"


def test_one_against_the_rest_has_no_evidence_but_the_rest_of_its_row():
    X3, y3 = toy(60, 2, 3)
    parts = GaussianProcessClassifier(inference="ep")
    frame = compare({"parts": parts, "joint": BayesianLogisticRegression()}, X3, y3).to_frame()
    assert "does not exist" in frame.loc["parts", "error"] and frame.loc["parts", "loo"] < 0
    assert np.isnan(frame.loc["parts", "probability"])


def test_if_all_fail_all_are_told():
    bad = {"a": BayesianLogisticRegression(prior="x"), "b": BayesianLogisticRegression(inference="magic")}
    with pytest.raises(InputError, match=r"Every model failed\. 'a': prior must .*'b': "):
        compare(bad, X, Y)


def test_ctrl_c_stops_it():
    class Interrupted(BayesianLogisticRegression):
        def fit(self, X, y):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"a": BayesianLogisticRegression(), "b": Interrupted()}, X, Y)


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, Jeffreys()], ids=repr)
@pytest.mark.parametrize("by", ["evidence", "prequential"])
def test_flat_priors_are_refused_with_the_reason(prior, by):
    models = {"fine": BayesianLogisticRegression(), "flat": BayesianLogisticRegression(prior=prior)}
    with pytest.raises(
        NoEvidenceError, match=r"'flat' has prior=.*no evidence.*arbitrary constant.*by='bic'"
    ) as caught:
        compare(models, X, Y, by=by)
    assert isinstance(caught.value, InputError | ValueError)
    with pytest.raises(CrediblyError, match="'flat'"):
        compare({"flat": make_pipeline(StandardScaler(), models["flat"])}, X, Y, by=by)


@pytest.mark.parametrize("model", [LinearDiscriminant(parameters="plugin"), LinearDiscriminant(prior="reference")])
@pytest.mark.parametrize("by", ["evidence", "joint_evidence"])
def test_generative_models_without_a_proper_prior_are_refused(model, by):
    with pytest.raises(NoEvidenceError, match=r"'it' has .*no evidence"):
        compare({"it": model}, X, Y, by=by)
    assert compare({"it": model}, X, Y, by="loo").best_ == "it"


def test_joint_and_conditional_are_never_mixed():
    with pytest.raises(InputError, match=r"log p\(X, y\), which 'logit', 'probit' does not have"):
        compare(three(), X, Y, by="joint_evidence")
    with pytest.raises(InputError, match="would mix scales"):
        compare(three(), X, Y, by="bic")


def test_targets_are_never_mixed():
    labels = {"line": BayesianLogisticRegression()}
    with pytest.raises(InputError, match="labels: 'line'; real numbers: 'glm'"):
        compare(labels | {"glm": BayesianGLM("gaussian")}, X, Y)
    with pytest.raises(InputError, match="different targets"):
        compare({"a": BayesianGLM("poisson"), "b": BayesianGLM("gaussian")}, X, Y)
    with pytest.raises(InputError, match="coded as real numbers"):
        compare(labels | {"squares": LeastSquaresClassifier(prior=PRIOR)}, X, Y)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, "no models"),
        ([], "no models"),
        (BayesianLogisticRegression(), "dict of names"),
        ("abc", "dict of names"),
        (3, "dict of names"),
        ({"a": LogisticRegression()}, "'a' is no model that can be compared here.*LogisticRegression"),
        ({"a": BayesianLogisticRegression}, "class BayesianLogisticRegression; make one"),
        ({"a": 3}, "got 3"),
        ({1: BayesianLogisticRegression()}, "must be strings; got 1"),
        ([("a", BayesianLogisticRegression()), ("a", BayesianLogisticRegression())], "Two models are called 'a'"),
        ([BayesianLogisticRegression(), None], "got None"),
        ({"a": make_pipeline(StandardScaler())}, "got StandardScaler"),
    ],
    ids=str,
)
def test_what_are_no_models_is_refused(models, message):
    with pytest.raises(InputError, match=message):
        compare(models, X, Y)


def test_unknown_rankings_are_refused():
    with pytest.raises(InputError, match="'evidence', 'bic', 'loo', 'prequential', 'joint_evidence'; got 'aic'"):
        compare(three(), X, Y, by="aic")
    with pytest.raises(InputError, match="Gaussian process does not count"):
        compare({"gp": GaussianProcessClassifier()}, X, Y, by="bic")


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_numbers_of_processes_that_mean_nothing_are_refused(n_jobs):
    with pytest.raises(InputError, match="n_jobs must be"):
        compare(three(), X, Y, n_jobs=n_jobs)


def test_other_classes_are_refused():
    fitted = BayesianLogisticRegression().fit(X, np.array(["no", "yes"])[Y])
    with pytest.raises(InputError, match=r"'a' was fitted with the classes \['no', 'yes'\], but y holds \[0, 1\]"):
        compare({"a": fitted}, X, Y)
    with pytest.raises(InputError, match="only one class"):
        compare(three(), X, np.zeros(len(Y), dtype=int))
    with pytest.raises(InputError, match="class labels"):
        compare(three(), X, X[:, 0])


def test_unlabelled_rows_are_for_generative_models():
    y = Y.astype(object)
    y[:10] = None
    models = {"lda": LinearDiscriminant(), "nb": NaiveBayes(features="gaussian")}
    frame = compare(models, X, y, by="joint_evidence").to_frame()
    assert frame["error"].isna().all() and frame["loo"].isna().all()
    frame = compare({"lda": LinearDiscriminant(), "line": BayesianLogisticRegression()}, X, Y).to_frame()
    assert frame["error"].isna().all()
    with pytest.raises(InputError, match="Every model failed"):
        compare({"lda": LinearDiscriminant(), "line": BayesianLogisticRegression()}, X, y)


def test_tables_that_do_not_fit_fail_in_every_row():
    with pytest.raises(InputError, match="Every model failed"):
        compare(three(), X[:50], Y)


# --- progress ---------------------------------------------------------------------------------------------------


def test_nothing_is_printed_where_there_is_no_terminal(capfd):
    compare({"a": BayesianLogisticRegression()}, X, Y)
    assert capfd.readouterr() == ("", "")


def test_importing_the_package_does_not_import_matplotlib():
    import subprocess
    import sys

    code = "import sys, credibly; credibly.compare; print({'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    assert credibly.compare is compare
