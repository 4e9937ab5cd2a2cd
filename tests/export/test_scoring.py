"""JSON for scoring elsewhere: the programs of docs/export.md find what the library finds, from the document alone."""

import json
import math
import re
import shutil
import statistics
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    NormalMixture,
    StudentT,
)
from credibly.errors import InputError, NotDefinedError
from credibly.export import to_json
from credibly.export.documents import SOFTMAX_DRAWS
from credibly.export.reading import score as read_scores
from credibly.export.scoring import FORMAT_VERSION
from credibly.model.likelihoods import BernoulliLogit
from credibly.model.likelihoods.mixture import LOGISTIC_MIXTURE
from helpers import REPOSITORY

TOLERANCE = 1e-8  # what docs/export.md promises


def block(language, mark):
    """The code block of the guide that has a mark in it."""
    page = (REPOSITORY / "docs" / "export.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return next(code for code in found if mark in code)


@pytest.fixture(scope="module")
def scorer():
    """The functions of the guide's Python blocks, without the lines that use them."""
    names = {}
    marks = {"def score(": "\n\nprint(", "def score_by_draws(": "\n\niris = ", "def features(": "\n\nprint("}
    for mark, end in marks.items():
        code = block("python", mark)
        start = code.index("from math import") if mark == "def score(" else code.index(mark)
        exec(code[start : code.rindex(end)], names)
    return names


def cancer(n=569):
    data = load_breast_cancer(as_frame=True)
    return data.data[["mean radius", "mean texture", "mean smoothness"]][:n], data.target_names[data.target][:n]


def iris():
    data = load_iris()
    return data.data, data.target_names[data.target]


# --- two classes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        BayesianLogisticRegression(),
        BayesianLogisticRegression(prior=None),
        BayesianLogisticRegression(inference="ep", prior=Normal(scale=5.0)),
        BayesianLogisticRegression(fit_intercept=False),
        BayesianLogisticRegression(multi_class="softmax"),
        BayesianLogisticRegression(label_noise=(0.05, 0.1)),
        BayesianProbitRegression(),
        NoisyThresholdClassifier("cauchy"),
        NoisyThresholdClassifier("gumbel"),
        NoisyThresholdClassifier("gumbel_max"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [30, 569])  # few rows: uncertain scores, where the average matters
def test_the_guides_program_finds_the_librarys_probabilities(scorer, model, n):
    X, y = cancer(n)
    model.fit(X, y) if model.prior is not None or n > 30 else model.set_params(prior=Normal(scale=1.0)).fit(X, y)
    document = json.loads(to_json(model))
    everyone = cancer()[0]
    found = np.array([scorer["score"](document, row) for row in everyone.to_numpy().tolist()])
    assert_allclose(found[:, 0], model.predict_proba(everyone)[:, 1], atol=TOLERANCE, rtol=0)
    assert_allclose(found[:, 1:], model.predict_interval(everyone), atol=TOLERANCE, rtol=0)
    wide = [scorer["score"](document, row, "0.99")[1:] for row in everyone[:9].to_numpy().tolist()]
    assert_allclose(wide, model.predict_interval(everyone[:9], level=0.99), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    "threshold", [StudentT(df=4.0), StudentT(df=0.4), NormalMixture([0.3, 0.7], [-1.0, 1.0], [0.5, 2.0])], ids=repr
)
def test_links_with_parameters(threshold):
    X, y = cancer(60)
    model = NoisyThresholdClassifier(threshold).fit(X, y)
    document = json.loads(to_json(model))
    everyone = cancer()[0]
    found = read_scores(document, everyone.to_numpy(), 0.9)
    assert_allclose(found.prediction, model.predict_proba(everyone), atol=TOLERANCE, rtol=0)
    assert_allclose(found.interval, model.predict_interval(everyone), atol=TOLERANCE, rtol=0)


def test_a_link_without_a_name_is_refused():
    X, y = cancer(60)
    with pytest.raises(NotDefinedError, match="no name that other programs know"):
        to_json(NoisyThresholdClassifier(stats.laplace()).fit(X, y))


def test_the_logistic_mixture_is_as_good_as_the_document_says():
    f = np.linspace(-60, 60, 200_001)
    w, scales = np.array(LOGISTIC_MIXTURE.weights), np.array(LOGISTIC_MIXTURE.scales)
    difference = np.abs(stats.norm.cdf(f[:, None] / scales) @ w - BernoulliLogit().mean(f)).max()
    document = json.loads(to_json(BayesianLogisticRegression().fit(*cancer(60))))
    assert difference < document["average"]["error"] <= TOLERANCE  # and an average is no larger


def test_units_far_from_zero_lose_no_digits(scorer):
    X, y = cancer(100)
    X = X + 1e6  # the intercept at zero is some 1e8, and its covariance with the slopes as large
    model = BayesianLogisticRegression().fit(X, y)
    document = json.loads(to_json(model))
    found = np.array([scorer["score"](document, row) for row in X.to_numpy().tolist()])
    assert_allclose(found[:, 0], model.predict_proba(X)[:, 1], atol=TOLERANCE, rtol=0)
    assert_allclose(found[:, 1:], model.predict_interval(X), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("inference", ["skew", "auto"])
def test_weighted_draws_are_the_librarys_own(scorer, inference):
    X, y = cancer(60)
    model = BayesianLogisticRegression(inference=inference).fit(X, y)
    document = json.loads(to_json(model))
    assert document["posterior"]["kind"] == "draws" and "largest_difference" not in document["check"]
    some = cancer()[0][100:103]
    found = np.array([scorer["score_by_draws"](document, row) for row in some.to_numpy().tolist()])  # (n, K, 3)
    assert_allclose(found[:, :, 0], model.predict_proba(some), atol=TOLERANCE, rtol=0)
    assert_allclose(found[:, 1, 1:], model.predict_interval(some), atol=TOLERANCE, rtol=0)


def test_draws_of_several_classes_in_a_small_unit_are_the_librarys_own():
    """What all classes share varies by 1e8 there; draws are written, and used, without it."""
    X, y = np.random.default_rng(0).normal(size=(80, 2)) * [1e8, 1.0], np.arange(80) % 3
    model = BayesianLogisticRegression(prior=Normal(2.5), inference="skew").fit(X, y)
    document = json.loads(to_json(model))  # which refuses to write what the library does not find, to 1e-8
    draws = np.array(document["posterior"]["draws"]).reshape(-1, 3, 3)
    shared = 5 * 2.5e8  # five standard deviations, of which rounding is left
    assert_allclose(draws.sum(axis=1), 0.0, atol=3 * np.finfo(float).eps * shared)


def test_coefficients_are_the_models_and_give_the_estimate():
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    document = json.loads(to_json(model, covariance=False))
    assert_allclose(document["coef"], model.coef_, rtol=0)
    assert_allclose(document["intercept"], model.intercept_, rtol=0)
    assert document["prediction"] == "plug_in" and document["posterior"] is None
    assert "at the estimate" in document["notes"][0]
    score = X.to_numpy() @ document["coef"][0] + document["intercept"][0]
    plug_in = read_scores(document, X.to_numpy(), 0.9).prediction[:, 1]
    assert_allclose(plug_in, 1 / (1 + np.exp(-score)), rtol=1e-9)
    assert document["check"]["largest_difference"] > 1e-4  # averaging matters, and the document tells how much


# --- JavaScript ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [BayesianLogisticRegression(), NoisyThresholdClassifier("cauchy")], ids=repr)
def test_the_guides_javascript_finds_the_librarys_probabilities(model, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the JavaScript of docs/export.md was not run")
    X, y = cancer(40)
    model.fit(X, y)
    to_json(model, tmp_path / "model.json")
    everyone = cancer()[0]
    (tmp_path / "rows.json").write_text(json.dumps(everyone.to_numpy().tolist()))
    use = """
const [model, rows] = ["model.json", "rows.json"].map((name) => JSON.parse(require("fs").readFileSync(name)));
console.log(JSON.stringify(rows.map((row) => score(model, row))));
"""
    (tmp_path / "use.js").write_text(block("javascript", "function score") + use)
    done = subprocess.run([node, "use.js"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout))
    assert_allclose(found[:, 0], model.predict_proba(everyone)[:, 1], atol=TOLERANCE, rtol=0)
    assert_allclose(found[:, 1:], model.predict_interval(everyone), atol=TOLERANCE, rtol=0)


# --- three classes and more ----------------------------------------------------------------------------------------


def test_several_classes_are_averaged_over_the_draws_listed(scorer):
    X, y = iris()
    model = BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y)
    document = json.loads(to_json(model))
    found = np.array([scorer["score_by_draws"](document, row) for row in X[::15].tolist()])
    spread = model.sample_proba(X[::15], 2000, random_state=0).std(axis=0)
    # random draws would have this error with probability 0.95; quasi-random ones have less
    error = 2 * spread / math.sqrt(SOFTMAX_DRAWS)
    assert (np.abs(found[..., 0] - model.predict_proba(X[::15])) <= error + 1e-4).all()
    # ranks of quantiles are off by 1/√S at most, which moves an end by a fraction of the spread
    assert (np.abs(found[..., 1:] - model.predict_interval(X[::15])) <= 0.3 * spread[..., None] + 0.005).all()
    assert any("no short closed form" in note for note in document["notes"])


def test_the_check_tells_how_far_the_draws_are_from_the_library():
    X, y = iris()
    document = json.loads(to_json(BayesianLogisticRegression().fit(X, y)))
    check = document["check"]
    apart = np.abs(np.array(check["prediction"]) - check["library_prediction"]).max()
    assert check["largest_difference"] == pytest.approx(apart, abs=1e-15)
    assert 0 < apart < 0.01


def test_several_classes_without_a_prior_are_at_the_estimate():
    X, y = load_wine(return_X_y=True)
    model = BayesianLogisticRegression(prior=None).fit(X[:, :2], y)
    document = json.loads(to_json(model))
    assert document["prediction"] == "plug_in"
    found = read_scores(document, X[:, :2], 0.9)
    assert_allclose(found.prediction, model.predict_proba(X[:, :2]), atol=1e-12)
    assert found.interval.shape == (len(X), 3, 2)


def test_many_weights_take_random_draws():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 80)), np.repeat([0, 1, 2], 30)
    model = BayesianLogisticRegression(prior=Normal(scale=0.3)).fit(X, y)  # 243 weights
    document = json.loads(to_json(model))
    draws = np.array(document["posterior"]["draws"])
    assert draws.shape == (SOFTMAX_DRAWS, 243)
    assert_allclose(draws.mean(axis=0), np.array(document["standardised"]["weights"]).ravel(), atol=1e-8)  # pairs
    assert document["check"]["largest_difference"] < 5 * 0.5 / math.sqrt(SOFTMAX_DRAWS)


# --- means ---------------------------------------------------------------------------------------------------------


def targets(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    mu = np.exp(0.3 * X[:, 0] + 1.0)
    drawn = {
        "poisson": rng.poisson(mu),
        "negative_binomial": rng.poisson(mu * rng.gamma(2.0, 0.5, 120)),
        "gaussian": rng.normal(mu),
        "gamma": rng.gamma(3.0, mu / 3.0),
        "inverse_gaussian": rng.wald(mu, 5.0),
        "bernoulli": rng.random(120) < mu / (1 + mu),
    }
    return X, np.asarray(drawn[family], dtype=float)


@pytest.mark.parametrize(
    ("family", "link"),
    [
        ("gaussian", None),
        ("gaussian", "log"),
        ("poisson", None),
        ("poisson", "identity"),
        ("poisson", "sqrt"),
        ("gamma", None),
        ("gamma", "log"),
        ("inverse_gaussian", None),
        ("negative_binomial", None),
        ("bernoulli", None),
        ("bernoulli", "cloglog"),
    ],
)
@pytest.mark.parametrize("prior", ["empirical", None])
def test_means_and_their_intervals(family, link, prior):
    X, y = targets(family)
    model = BayesianGLM(family, link, prior=prior).fit(X, y)
    document = json.loads(to_json(model))
    assert document["classes"] is None and document["family"] == family
    found = read_scores(document, X, 0.9)
    assert_allclose(found.prediction, model.predict(X), rtol=TOLERANCE)
    assert_allclose(found.interval, model.predict_interval(X), rtol=TOLERANCE)


def test_formulas_of_means_in_plain_arithmetic():
    """What the table of the guide says: e^(m + v/2) for the logarithm, by hand."""
    X, y = targets("poisson")
    model = BayesianGLM("poisson").fit(X, y)
    document = json.loads(to_json(model))
    frame, z90 = document["standardised"], statistics.NormalDist().inv_cdf(0.95)
    z = [(x - c) / s for x, c, s in zip(X[0].tolist(), frame["center"], frame["scale"], strict=True)] + [1.0]
    m = sum(w * x for w, x in zip(frame["weights"][0], z, strict=True))
    v = sum(sum(r * x for r, x in zip(row, z, strict=False)) ** 2 for row in document["posterior"]["root"])
    assert math.exp(m + v / 2) == pytest.approx(model.predict(X[:1])[0], rel=1e-12)
    ends = [math.exp(m - z90 * math.sqrt(v)), math.exp(m + z90 * math.sqrt(v))]
    assert ends == pytest.approx(model.predict_interval(X[:1])[0], rel=1e-12)


def test_a_score_without_a_mean_has_no_prediction():
    X, y = targets("poisson")
    model = BayesianGLM("poisson", "identity").fit(X, y)
    far = np.array([[-40.0, 0.0]])
    assert np.isnan(read_scores(json.loads(to_json(model)), far, 0.9).prediction).all()


# --- generative models ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["plugin", "moment"])
def test_a_linear_discriminant_at_its_estimates_is_exact(parameters):
    X, y = iris()
    model = LinearDiscriminant(parameters=parameters).fit(X, y)
    document = json.loads(to_json(model))
    assert_allclose(read_scores(document, X, 0.9).prediction, model.predict_proba(X), atol=1e-12)
    assert_allclose(document["coef"], model.coef_)
    two = LinearDiscriminant(parameters=parameters).fit(X[50:], y[50:])
    document = json.loads(to_json(two))
    assert document["link"] == {"name": "logit"}
    assert_allclose(read_scores(document, X, 0.9).prediction, two.predict_proba(X), atol=1e-12)


def test_other_generative_models_that_are_linear():
    X, y = iris()
    yes = NaiveBayes(features="bernoulli").fit(X > np.median(X, axis=0), y)
    found = read_scores(json.loads(to_json(yes)), (X > np.median(X, axis=0)).astype(float), 0.9)
    assert_allclose(found.prediction, yes.predict_proba(X > np.median(X, axis=0)), atol=1e-12)
    counts = NaiveBayes(features="poisson", parameters="plugin").fit(np.rint(X), y)
    found = read_scores(json.loads(to_json(counts)), np.rint(X), 0.9)
    assert_allclose(found.prediction, counts.predict_proba(np.rint(X)), atol=1e-12)


def test_a_column_that_was_left_out_has_no_weight():
    X, y = iris()
    X = np.column_stack([X, np.full(len(X), np.nan)])
    with pytest.warns(UserWarning, match="no values"):
        model = LinearDiscriminant(parameters="plugin").fit(X, y)
    document = json.loads(to_json(model))
    assert np.array(document["coef"]).shape == (3, 5)
    assert not np.array(document["coef"])[:, 4].any()


def test_what_is_not_linear_is_refused_with_the_reason():
    X, y = iris()
    with pytest.raises(NotDefinedError, match="parameters='plugin'"):
        to_json(LinearDiscriminant().fit(X, y))
    for other in (
        LeastSquaresClassifier().fit(X, y),
        GaussianProcessClassifier(optimize=False).fit(X[::5], y[::5]),
        make_pipeline(StandardScaler(), BayesianLogisticRegression()).fit(X, y),
    ):
        with pytest.raises(NotDefinedError, match="cannot be written as plain coefficients"):
            to_json(other)
    with pytest.raises(NotFittedError):
        to_json(BayesianLogisticRegression())


# --- tables --------------------------------------------------------------------------------------------------------


def patients(n=200):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50.0, 10.0, n), "sex": rng.choice(["f", "m"], n)})
    frame["smokes"], frame["town"] = rng.random(n) < 0.3, rng.choice(["Bern", "Genf", "Zug"], n)
    odds = np.exp((frame["age"] - 50) / 10 + (frame["sex"] == "m"))
    frame["ill"] = np.where(rng.random(n) < odds / (1 + odds), "yes", "no")
    return frame


def rows_of(frame):
    """Rows as a program elsewhere would have them: plain values, None where a cell is empty."""
    return json.loads(frame.to_json(orient="records"))


@pytest.mark.parametrize("model", [BayesianLogisticRegression(), BayesianProbitRegression(prior=None)], ids=repr)
def test_scoring_begins_from_the_raw_row(scorer, model):
    tables = pytest.importorskip("credibly.tables")
    frame = patients()
    fitted = tables.TableModel.fit(model, frame, "ill")
    document = json.loads(to_json(fitted))
    assert document["target"] == "ill" and document["classes"] == ["no", "yes"]
    found = [scorer["score"](document, scorer["features"](document, row)) for row in rows_of(frame)]
    assert_allclose(np.array(found)[:, 0], fitted.predict_proba(frame)[:, 1], atol=TOLERANCE, rtol=0)
    assert_allclose(np.array(found)[:, 1:], fitted.predict_interval(frame), atol=TOLERANCE, rtol=0)
    check = document["check"]
    again = [scorer["score"](document, scorer["features"](document, row))[0] for row in check["rows"]]
    assert_allclose(again, np.array(check["prediction"])[:, 1], atol=check["tolerance"], rtol=0)


def test_what_the_fit_filled_in_is_in_the_document(scorer):
    tables = pytest.importorskip("credibly.tables")
    frame = patients()
    frame.loc[[3, 7], "age"] = np.nan
    frame.loc[5, "town"] = None
    fitted = tables.TableModel.fit(BayesianLogisticRegression(), frame, "ill", tables.Choices(missing="impute"))
    document = json.loads(to_json(fitted))
    found = [scorer["score"](document, scorer["features"](document, row))[0] for row in rows_of(frame[:10])]
    assert_allclose(found, fitted.predict_proba(frame[:10])[:, 1], atol=TOLERANCE, rtol=0)


def test_a_formula_is_scored_from_its_columns():
    tables = pytest.importorskip("credibly.tables")
    frame = patients()
    choices = tables.Choices(formula="ill ~ age + C(sex)")
    fitted = tables.TableModel.fit(BayesianLogisticRegression(), frame, None, choices)
    document = json.loads(to_json(fitted))
    assert document["design"]["kind"] == "formula" and "not from the raw row" in document["design"]["note"]
    X = fitted.matrix(frame).to_numpy(dtype=float)
    assert_allclose(read_scores(document, X, 0.9).prediction, fitted.predict_proba(frame), atol=TOLERANCE)


# --- the document --------------------------------------------------------------------------------------------------


def test_the_check_is_what_the_library_says_and_no_row_of_the_data(scorer):
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    document = json.loads(to_json(model))
    check = document["check"]
    rows = np.array(check["rows"])
    assert len(np.unique(rows, axis=0)) == len(rows) == 6
    assert not (rows[:, None] == X.to_numpy()).all(axis=2).any()
    assert_allclose(check["prediction"], model.predict_proba(X[:6] * 0 + rows), rtol=0, atol=1e-15)
    assert (document["format"], document["format_version"]) == ("credibly-scoring", FORMAT_VERSION)


def test_the_document_is_written_whole_and_is_the_same_every_time(tmp_path):
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    text = to_json(model, tmp_path / "model.json")
    assert (tmp_path / "model.json").read_text(encoding="utf-8") == text == to_json(model)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match="exists already"):
        to_json(model, tmp_path / "model.json", overwrite=False)
    with pytest.raises(InputError, match="does not exist"):
        to_json(model, tmp_path / "nowhere" / "model.json")


@pytest.mark.parametrize("labels", [["ja", "nein"], [0, 1], [1.0, 2.0], [False, True]])
def test_labels_keep_their_type(labels):
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, np.array(labels)[(y == "malignant").astype(int)])
    found = json.loads(to_json(model))["classes"]
    assert found == labels and [type(label) for label in found] == [type(label) for label in labels]


def test_labels_that_json_has_not_are_refused():
    X, y = cancer()
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")[(y == "malignant").astype(int)]
    with pytest.raises(InputError, match="no text and no number"):
        to_json(BayesianLogisticRegression().fit(X, days))


def test_a_document_that_does_not_reproduce_the_model_is_refused(monkeypatch):
    from credibly.export import documents

    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    honest = documents.threshold_average

    def wrong(likelihood):
        how = honest(likelihood)
        return how | {"scales": [scale * 1.001 for scale in how["scales"]]}

    monkeypatch.setattr(documents, "threshold_average", wrong)
    with pytest.raises(NotDefinedError, match="do not reproduce"):
        to_json(model)


def test_covariance_is_yes_or_no():
    with pytest.raises(InputError, match="covariance"):
        to_json(BayesianLogisticRegression().fit(*cancer()), covariance="full")
