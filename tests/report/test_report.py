"""A report says what the model found, of every kind of model; and the same rows give the same page."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
    compare,
)
from credibly.comparison.measures import Evidence, Measured
from credibly.comparison.result import Comparison
from credibly.diagnostics.calibration import calibration_test
from credibly.diagnostics.cross_validation import CrossValidated
from credibly.errors import InputError
from credibly.report import About, Report, Settings, report, report_table
from credibly.report.asked import method
from credibly.report.limits import limits
from credibly.report.material import gather
from credibly.report.performance import Failed, Performance, calibration_doubtful, calibration_words, performance
from credibly.report.provenance import fingerprint
from credibly.report.ranking import ranking_words
from credibly.report.trust import trust
from credibly.report.weights import Links, effects, said_of
from helpers import load_by_path, some

pages = load_by_path(Path(__file__).with_name("pages.py"))
Page, cancer, wine, hostile = pages.Page, pages.cancer, pages.wine, pages.hostile

SECTIONS = ["asked", "data", "answer", "calibration", "trust", "limits", "again"]
FEW = Settings(folds=3)


def mixed():
    """A table with words, a column of two values, and gaps."""
    X, y = cancer()
    rng = np.random.default_rng(1)
    table = X.copy()
    table["site"] = pd.Categorical(rng.choice(["left", "right", "both"], size=len(X)))
    table.iloc[::7, 0] = np.nan
    return table, y


def zero_one():
    X, y = cancer()
    return X, (y == "malignant").astype(int)


MODELS = {
    "logit": (BayesianLogisticRegression(), cancer),
    "softmax": (BayesianLogisticRegression(), wine),
    "softmax of two": (BayesianLogisticRegression(multi_class="softmax"), cancer),
    "draws": (BayesianLogisticRegression(inference="exact"), lambda: cancer(80, 2)),
    "probit": (BayesianProbitRegression(prior=Normal(scale=1.0)), cancer),
    "cauchit, noise": (NoisyThresholdClassifier("cauchy", label_noise=0.05), cancer),
    "maximum likelihood": (BayesianLogisticRegression(prior=None), cancer),
    "LDA": (LinearDiscriminant(), wine),
    "LDA, estimates": (LinearDiscriminant(parameters="plugin"), wine),
    "QDA": (QuadraticDiscriminant(), cancer),
    "naive Bayes": (NaiveBayes(features="gaussian"), wine),
    "naive Bayes of words": (NaiveBayes(), mixed),
    "GP": (GaussianProcessClassifier(), lambda: cancer(80, 2)),
    "GP of three": (GaussianProcessClassifier(), lambda: wine(2)),
    "average": (ModelAverage([LinearDiscriminant(), BayesianLogisticRegression()]), cancer),
    "GLM": (BayesianGLM(family="bernoulli", link="probit"), zero_one),
}


@pytest.mark.parametrize("name", some(MODELS, "logit", "LDA"))
def test_every_kind_of_model_has_a_whole_page(name):
    model, data = MODELS[name]
    X, y = data()
    page = Page(report(model.fit(X, y), X, y, about=About(target="outcome"), settings=FEW).html)
    assert [it["id"] for it in page.all("section")] == SECTIONS
    assert "A picture is missing" not in page.words
    assert len(page.all("figure")) >= 2
    assert {it.get("role") for it in page.all("svg") if it.get("aria-hidden") != "true"} == {"img"}
    assert all(it.get("aria-label") for it in page.all("svg") if it.get("aria-hidden") != "true")
    assert not re.search(r"\bnan\b|\bNone\b(?!\))", page.words.partition("How to make this again")[0]), name


@pytest.mark.parametrize("name", some(["logit", "softmax", "GP", "LDA"], "logit"))
def test_ids_are_unique_links_stay_inside_and_nothing_is_loaded(name):
    model, data = MODELS[name]
    X, y = data()
    page = Page(report(model.fit(X, y), X, y, settings=FEW).html)
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = [value for _, it in page.elements for key, value in it.items() if key in {"href", "src", "xlink:href"}]
    assert links
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    shared = [value for _, it in page.elements for value in it.values() if value and "url(" in value]
    assert {found for value in shared for found in re.findall(r"url\(#([^)]+)\)", value)} <= set(ids)
    assert not [value for value in shared if re.search(r"url\((?!#)", value)]


def test_the_same_rows_give_the_same_bytes_and_another_seed_other_folds():
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    first, again = (report(model, X, y, settings=FEW).html for _ in range(2))
    assert first == again
    assert first == report(BayesianLogisticRegression().fit(X, y), X, y, settings=FEW).html
    assert first != report(model, X, y, settings=FEW._replace(random_state=1)).html


def test_an_array_and_a_frame_say_the_same():
    X, y = cancer()
    named, bare = (report(BayesianLogisticRegression().fit(it, y), it, y, settings=FEW) for it in (X, X.to_numpy()))
    for j, name in enumerate(X.columns):
        assert name in named.html and f">x{j}<" in bare.html
    assert re.search(r"\d % of the rows", Page(named.html).words)
    headline = [Page(it.html).texts_in("p")[1] for it in (named, bare)]
    assert headline[0] == headline[1]


# --- the words are true -------------------------------------------------------------------------------------


def test_odds_are_those_of_one_standard_deviation():
    X, y = cancer(n_columns=5)
    X = X.iloc[:, [1, 4]]
    model = BayesianLogisticRegression().fit(X, y)
    found = effects(gather(model, X, y, About(), Settings(level=0.8)))
    sd = X.to_numpy().std(axis=0)
    z = norm.ppf(0.9)
    for j, it in enumerate(found):
        mean, std = model.posterior_.mean[j] * sd[j], model.posterior_.std[j] * sd[j]
        assert_allclose([it.mean, it.low, it.high], [mean, mean - z * std, mean + z * std], rtol=1e-9)
        assert_allclose(it.positive, norm.cdf(mean / std), rtol=1e-9)
        at = X.mean().to_numpy().copy()
        assert_allclose(it.before, model.predict_proba(pd.DataFrame([at], columns=X.columns))[0, 1], rtol=1e-9)
        at[j] += sd[j]
        assert_allclose(it.after, model.predict_proba(pd.DataFrame([at], columns=X.columns))[0, 1], rtol=1e-9)
    strongest = max(found, key=lambda it: abs(it.mean))
    factor = np.exp(abs(strongest.mean))
    verb = "multiplies" if strongest.mean > 0 else "divides"
    page = Page(report(model, X, y, settings=FEW).html)
    said = next(text for text in page.texts_in("li") if "An increase" in text)
    assert said.startswith(f"An increase of one standard deviation in {strongest.step.name} ")
    shown = float(re.search(rf"{verb} the odds of malignant by ([\d.,]+)", said)[1].replace(",", ""))
    assert_allclose(shown, factor, rtol=0.05)  # two digits


def test_a_yes_or_no_column_is_stepped_from_no_to_yes():
    X, y = cancer()
    X = X.assign(**{"sex=f": (X.iloc[:, 1] > 18).astype(float)})
    model = BayesianLogisticRegression().fit(X, y)
    it = effects(gather(model, X, y, About(), Settings()))[-1]
    assert_allclose(it.mean, model.coef_[0, -1], rtol=1e-12)
    at = X.mean().to_numpy().copy()
    for end, value in (("before", 0.0), ("after", 1.0)):
        at[-1] = value
        assert_allclose(getattr(it, end), model.predict_proba(pd.DataFrame([at], columns=X.columns))[0, 1], rtol=1e-9)
    assert it.step.short == "0 → 1"


@pytest.mark.parametrize("inference", ["laplace", "exact"])
def test_softmax_effects_are_against_the_most_common_class(inference):
    X, y = wine()
    model = BayesianLogisticRegression(inference=inference).fit(X, y)
    found = effects(gather(model, X, y, About(), Settings()))
    assert {it.against for it in found} == {"class_1"}
    assert {it.label for it in found} == {"class_0", "class_2"}
    draws = model.posterior_.sample(np.random.default_rng(7), 20_000).reshape(20_000, 3, -1)
    sd = X.to_numpy().std(axis=0)
    for it in found:
        gap = (draws[:, int(it.label[-1]), it.place] - draws[:, 1, it.place]) * sd[it.place]
        error = 5 * gap.std() / np.sqrt(4000)  # five standard errors of a mean of 4,000 draws; quantiles are some 2×
        assert_allclose(it.mean, gap.mean(), atol=error)
        assert_allclose([it.low, it.high], np.quantile(gap, [0.05, 0.95]), atol=2.2 * error)
        assert_allclose(it.positive, (gap > 0).mean(), atol=5 * 0.5 / np.sqrt(4000))


def test_a_probit_speaks_of_scores_and_probabilities_not_of_odds():
    X, y = cancer()
    page = Page(report(BayesianProbitRegression().fit(X, y), X, y, settings=FEW).html)
    said = [text for text in page.texts_in("li") if "An increase" in text]
    assert len(said) == 4
    assert all(
        "standard deviations of the threshold" in text and "at the means of the columns" in text for text in said
    )
    assert "odds" not in " ".join(said)


def test_class_means_are_those_of_the_summary_most_apart_first():
    X, y = wine()
    model = NaiveBayes(features="gaussian").fit(X, y)
    page = Page(report(model, X, y, settings=FEW).html)
    said = [text for text in page.texts_in("li") if "on average" in text]
    table = model.summary().to_frame()
    apart = {}
    for name in X.columns:
        m, s = (table.xs(name, level=1)[it].to_numpy() for it in ("mean", "spread"))
        pairs = [(a, b) for a in range(3) for b in range(a)]
        apart[name] = max(abs(m[a] - m[b]) / np.sqrt((s[a] ** 2 + s[b] ** 2) / 2) for a, b in pairs)
    assert [text.split(" is on")[0] for text in said] == sorted(apart, key=apart.get, reverse=True)
    for text in said:
        shown = float(re.search(r": ([\d.]+) standard deviations within", text)[1])
        assert_allclose(shown, apart[text.split(" is on")[0]], rtol=0.05)  # two digits


def test_a_gp_moves_columns_and_averages_probabilities():
    X, y = cancer(80, 2)
    model = GaussianProcessClassifier().fit(X, y)
    page = Page(report(model, X, y, settings=FEW).html)
    said = next(text for text in page.texts_in("li") if text.startswith("Moving mean radius"))
    ends = np.quantile(X["mean radius"], [0.1, 0.9])
    means = []
    for end in ends:
        means.append(model.predict_proba(X.assign(**{"mean radius": end}))[:, 1].mean())
    shown = [float(it) / 100 for it in re.findall(r"from ([\d.]+) % to ([\d.]+) %", said.replace("\u00a0", " "))[0]]
    # All 80 rows are used; what differs is the noise of 400 draws of a probability.
    assert_allclose(shown, means, atol=5 * 0.15 / np.sqrt(400) + 0.001)


def test_scores_are_those_of_rows_left_out():
    X, y = cancer()
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(y)  # labels that have nothing to do with the columns
    model = GaussianProcessClassifier().fit(X, shuffled)
    found = performance(gather(model, X, shuffled, About(), FEW), lambda: None)
    assert found.log_score.gain < 2 * found.log_score.gain_error  # nothing is learnt of them
    clear = performance(gather(BayesianLogisticRegression().fit(X, y), X, y, About(), FEW), lambda: None)
    own = clear.said.proba[np.arange(len(y)), clear.codes]
    assert_allclose(clear.log_score.value, np.log(own).mean())
    assert_allclose(clear.log_score.error, np.log(own).std(ddof=1) / np.sqrt(len(y)))
    assert clear.log_score.gain > 5 * clear.log_score.gain_error
    assert "clearly tell something" in report(BayesianLogisticRegression().fit(X, y), X, y, settings=FEW).html


def test_many_rows_are_sampled_and_the_page_says_so():
    X, y = cancer()
    page = report(LinearDiscriminant().fit(X, y), X, y, settings=Settings(folds=2, most_rows=60))
    assert "Cross-validated on 60 rows drawn from 150" in page.html


def test_a_fold_that_cannot_be_learnt_is_told_at_the_top():
    # Without row 3 the classes are separated: maximum likelihood then has no estimate.
    X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 6.5, 3.0, 4.0, 5.0, 6.0, 7.0]})
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    page = report(BayesianLogisticRegression(prior=None).fit(X, y), X, y, settings=Settings(folds=4))
    assert "How well this model predicts rows that it has not seen is not known: SeparationError" in page.html
    assert "It was not tried on new rows." in page.html
    assert "Right class, unseen rows" not in page.html


def test_the_certificate_is_in_the_words_of_the_certificate():
    X, y = cancer()
    model = BayesianLogisticRegression().fit(X, y)
    found = trust(gather(model, X, y, About(), Settings()))
    certificate = model.certify(X, y, random_state=0)
    assert found.words[0] == certificate.verdict
    assert found.reliable == certificate.reliable
    assert "exact" in trust(gather(LinearDiscriminant().fit(X, y), X, y, About(), Settings())).short
    estimates = LinearDiscriminant(parameters="plugin").fit(X, y)
    assert trust(gather(estimates, X, y, About(), Settings())).short == "estimates only"


def test_draws_of_the_posterior_have_their_number_and_no_tail_of_weights():
    X, y = cancer(60, 1)
    model = BayesianLogisticRegression(inference="exact").fit(X, y)
    material = gather(model, X, y, About(), Settings())
    found, certificate = trust(material), model.certify(X, y)
    assert found.khats is None and found.reliable and found.words == (certificate.verdict,)
    cells = {row[0].text: row[1].text for row in found.table.rows}
    assert any(f"{certificate.draws:,}" in text for text in cells.values())
    assert not any("nan" in text or "k-hat" in name for name, text in cells.items())
    assert "draws" in method(material)[-1]


def test_a_certificate_that_does_not_hold_is_said_at_the_top():
    X, y = wine(13)
    model = BayesianLogisticRegression().fit(X, y)
    assert not model.certify(X, y).reliable  # or the test needs other data
    page = Page(report(model, X, y, settings=FEW).html)
    assert "Its intervals are not to be relied on" in page.words.partition("What was asked")[0]
    assert "The posterior is not the exact one." in page.words


def test_other_rows_than_those_of_the_fit_are_told():
    X, y = cancer()
    page = report(BayesianLogisticRegression().fit(X.iloc[:100], y[:100]), X, y, settings=FEW)
    assert "These are not the data of the fit" in page.html


# --- what it cannot tell ------------------------------------------------------------------------------------


def said_limits(model, X, y, **about):
    material = gather(model.fit(X, y), X, y, About(**about), FEW)
    return {head for head, _ in limits(material, Failed("not asked"), trust(material))}


@pytest.mark.slow
def test_limits_are_chosen_by_what_is_true():
    X, y = cancer()
    logit = BayesianLogisticRegression()
    separated, alike, small, words = (
        "The classes can be told apart without error in these rows.",
        "Some columns say nearly the same.",
        "Some classes are small.",
        "Labels are taken at their word.",
    )
    assert alike in said_limits(logit, X, y)  # radius, perimeter, area
    assert alike not in said_limits(logit, X.iloc[:, :2], y)
    assert separated not in said_limits(logit, X, y)
    assert separated in said_limits(logit, X.iloc[:, :2].assign(sign=(y == "benign") + 0.0), y)
    assert small not in said_limits(logit, X, y)
    for n, said in ((3, True), (20, False)):  # of some sixty rows
        few = np.r_[np.flatnonzero(y == "malignant")[:n], np.flatnonzero(y == "benign")]
        assert (small in said_limits(logit, X.iloc[few], y[few])) is said
    both = np.r_[np.flatnonzero(y == "malignant")[:5], np.flatnonzero(y == "benign")[:5]]
    assert small not in said_limits(logit, X.iloc[both], y[both])  # all of them
    mostly = X.iloc[:, :2].assign(sign=((y == "benign") & (np.arange(len(y)) % 2 == 0)) + 0.0)
    assert separated not in said_limits(logit, mostly, y)
    assert any(it.startswith("Some rows can be told without error (") for it in said_limits(logit, mostly, y))
    assert words in said_limits(logit, X, y)
    assert words not in said_limits(BayesianLogisticRegression(label_noise=0.05), X, y)
    gaps = X.mask(np.broadcast_to(np.arange(len(X))[:, None] % 9 == 0, X.shape) & (np.arange(4) < 2))
    assert "Cells are missing." in said_limits(NaiveBayes(features="gaussian"), gaps, y)
    assert "Cells are missing." not in said_limits(NaiveBayes(features="gaussian"), X, y)
    assert "Cells are missing." in said_limits(logit, X, y, table=gaps)


def test_the_verdict_on_calibration_counts_groups_as_well_as_the_test():
    # As wrong at p as at 1 - p, in the same direction: what the test adds up, (y - p)(1 - 2p), is then zero.
    said = np.repeat(np.linspace(0.05, 0.95, 10), 100)
    truth = said + np.repeat([0.0, 0.1, -0.2, 0.25, -0.25, -0.25, 0.25, -0.2, 0.1, 0.0], 100)
    codes = (np.tile((np.arange(100) + 0.5) / 100, 10) < truth).astype(int)
    X, y = cancer()
    material = gather(LinearDiscriminant().fit(X, y), X, y, About(), FEW)
    proba = np.column_stack([1 - said, said])
    folds = CrossValidated(np.arange(1000), np.log(proba), proba, 2, ())
    found = Performance(codes, codes, folds, (), ())
    assert calibration_test(codes, proba, labels=[0, 1]).pvalue > 0.05  # or the test needs other data
    assert calibration_doubtful(material, found)
    assert calibration_words(material, found).startswith("Take the probabilities with care: only 2 of 10 groups")
    right = (np.tile((np.arange(100) + 0.5) / 100, 10) < said).astype(int)
    good = found._replace(y=right, codes=right)
    assert not calibration_doubtful(material, good)
    assert "10 of 10 groups" in calibration_words(material, good)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (Evidence(-10, 0.1, 0.3), Evidence(-14, 0.1, 0.3), "ahead of b: strong evidence."),
        (Evidence(-10, np.nan, 0.9, "no"), Evidence(-14, 0.1), "not settled: the number of a is not reliable (k-hat"),
        (Evidence(-10, 0.1, np.inf), Evidence(-14, 0.1), "not settled: the number of a is not reliable (k-hat ∞)"),
        (Evidence(-10, 0.1), Evidence(-14, 5.0), "not settled: that of b is known to ± 5.0 only."),
    ],
)
def test_an_order_that_is_not_settled_is_not_called_strong(first, second, said):
    rows = [Measured("a", "evidence", evidence=first), Measured("b", "evidence", evidence=second)]
    words = ranking_words(Comparison.of(rows, "log_evidence", {}, None))
    assert said in words[1]


def test_an_effect_that_the_rows_do_not_determine_is_said_to_be_so():
    X, y = cancer()
    X = X.iloc[:, [1]]
    it = effects(gather(BayesianLogisticRegression().fit(X, y), X, y, About(), FEW))[0]
    wide = it._replace(low=-50.0, high=60.0)
    assert said_of(wide, Links(True, ""), 0.9).endswith("is not determined by these rows.")
    assert "not determined" not in said_of(it, Links(True, ""), 0.9)


def test_whole_numbers_of_a_column_are_whole_and_years_have_no_comma():
    X, y = cancer()
    X = X.iloc[:, :1].assign(year=2008.0 + np.arange(len(X)) % 5, code=12345.0 + np.arange(len(X)))
    page = Page(report(LinearDiscriminant().fit(X, y), X, y, settings=FEW).html)
    cells = page.texts_in("td")
    assert {"2008", "2012", "12,345"} <= set(cells)
    assert "SHA-256 of the names and cells of the columns used and of the target" in page.words


# --- what is given ------------------------------------------------------------------------------------------


def test_texts_of_the_user_are_shown():
    X, y = cancer()
    found = compare({"logit": BayesianLogisticRegression(), "LDA": LinearDiscriminant()}, X, y)
    about = About(
        title="A title",
        question="Is it bad?",
        target="diagnosis",
        notes=("Two rows were dropped.",),
        command="credibly report a.csv",
        code="print('code')",
        fingerprint="ab" * 32,
        comparison=found,
    )
    page = Page(report(found.models_["logit"], X, y, about=about, settings=FEW).html)
    assert page.texts_in("h1") == ["A title"] == page.texts_in("title")
    for text in (*about[1:2], about.notes[0], about.command, about.code, about.fingerprint):
        assert text in page.words
    assert [it["id"] for it in page.all("section")] == [*SECTIONS[:3], "comparison", *SECTIONS[3:]]
    assert f"The best of 2 models is {found.best_}." in page.words
    assert "seconds" not in page.words  # times would make every page another


def test_the_fingerprint_changes_with_a_cell_and_with_a_label():
    X, y = cancer()
    model = LinearDiscriminant().fit(X, y)

    def sha(X, y):
        return fingerprint(gather(model, X, y, About(), FEW))

    other_cell, other_label = X.copy(), y.copy()
    other_cell.iloc[3, 2] += 1
    other_label[0] = "benign" if y[0] == "malignant" else "malignant"
    assert len({sha(X, y), sha(other_cell, y), sha(X, other_label)}) == 3
    assert sha(X, y) == sha(X.copy(), y)
    assert re.fullmatch("[0-9a-f]{64}", sha(X, y))


def test_a_table_is_described_as_it_came():
    from credibly.tables.model import TableModel

    X, y = cancer()
    table = X.assign(side=np.where(np.arange(len(X)) % 3, "left", "right"), diagnosis=y)
    model = TableModel.fit(BayesianLogisticRegression(), table, "diagnosis")
    page = Page(report_table(model, table, settings=FEW).html)
    assert page.texts_in("h1") == ["diagnosis: logistic regression"]
    assert "category, 2 levels" in page.words
    assert "side=left" in page.words
    assert model.data.sha256 in page.words


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    X, y = cancer()
    model = LinearDiscriminant().fit(X, y)
    path = tmp_path / "page.html"
    made = report(model, X, y, path, settings=FEW)
    assert isinstance(made, Report)
    assert path.read_text(encoding="utf-8") == made.html
    with pytest.raises(InputError, match="exists already"):
        report(model, X, y, path, settings=FEW._replace(overwrite=False))
    with pytest.raises(InputError, match="exists already"):
        made.save(path, overwrite=False)
    other = tmp_path / "other.html"
    with pytest.raises(InputError):
        report(model, X, y[:-1], other, settings=FEW)
    assert [it.name for it in tmp_path.iterdir()] == ["page.html"]


def test_a_notebook_shows_it_in_a_frame_of_its_own():
    shown = Report('a "title"', "<!doctype html><p class='x'>")._repr_html_()
    frame = Page(shown)
    assert [tag for tag, _ in frame.elements] == ["iframe"]
    assert frame.all("iframe")[0]["srcdoc"] == "<!doctype html><p class='x'>"
    assert frame.all("iframe")[0]["title"] == 'a "title"'


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (BayesianLogisticRegression(), "not fitted yet"),
        (BayesianLogisticRegression, "is a class"),
        (LogisticRegression(), "Supported are"),
        (LeastSquaresClassifier(), "Supported are"),
        (BayesianGLM(family="poisson").fit([[0.0], [1.0], [2.0]], [1, 2, 4]), "poisson family"),
    ],
)
def test_what_has_no_report_is_refused_with_what_has(model, complaint):
    with pytest.raises(InputError, match=complaint):
        report(model, [[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("about", "settings", "complaint"),
    [
        (About(), Settings(level=90), "level must be"),
        (About(), Settings(folds=1), "folds must be"),
        (About(), Settings(random_state="x"), "random_state"),
        (About(notes="one text"), Settings(), "notes must be"),
        (About(comparison={}), Settings(), "comparison must be"),
    ],
)
def test_settings_are_checked_first(about, settings, complaint):
    X, y = cancer()
    with pytest.raises(InputError, match=complaint):
        report(LinearDiscriminant().fit(X, y), X, y, about=about, settings=settings)


def test_unknown_labels_and_rows_that_do_not_match_are_refused():
    X, y = cancer()
    model = LinearDiscriminant().fit(X, y)
    with pytest.raises(InputError, match="labels for"):
        report(model, X, y[:-1])
    with pytest.raises(InputError, match="not built for"):
        report(model, X, np.where(y == "benign", "other", y))


def test_the_method_of_a_model_is_the_function(tmp_path):
    X, y = cancer()
    model = LinearDiscriminant().fit(X, y)
    path = tmp_path / "page.html"
    made = model.report(X, y, path, title="T", target="diagnosis", notes=["n1"], level=0.8, random_state=3)
    about = About(title="T", target="diagnosis", notes=("n1",))
    assert made.html == report(model, X, y, about=about, settings=Settings(level=0.8, random_state=3)).html
    assert path.read_text(encoding="utf-8") == made.html
    with pytest.raises(InputError, match="exists already"):
        model.report(X, y, path, overwrite=False)


AWKWARD = {
    "yes and no": lambda X, y: (X, y == "malignant"),
    "sparse": lambda X, y: (csr_matrix(X.to_numpy()), y),
    "polars": lambda X, y: (pl.from_pandas(X), y),
    "one column": lambda X, y: (X.iloc[:, :1], y),
    "a constant": lambda X, y: (X.assign(one=1.0), y),
    "six rows": lambda X, y: (X.iloc[:6, :1], np.array(["a", "b", "a", "b", "a", "b"])),
    "a class of one": lambda X, y: (X, np.where(np.arange(len(y)) == 5, "only", y)),
    "letters nobody draws": lambda X, y: (X.rename(columns={"mean radius": "半径 \U0001f600 \x01\x00"}), y),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_have_reports(name):
    X, y = AWKWARD[name](*cancer(100, 3))
    page = Page(report(BayesianLogisticRegression().fit(X, y), X, y, settings=Settings(folds=2)).html)
    assert [it["id"] for it in page.all("section")] == SECTIONS
    assert "A picture is missing" not in page.words
    if name == "a class of one":
        assert "The only row of only cannot be predicted by a model that has not seen it." in page.words
    if name == "yes and no":
        assert "class True" in page.words


# --- names that try to become markup ------------------------------------------------------------------------


@pytest.mark.parametrize("model", [BayesianLogisticRegression()], ids=str)
def test_hostile_names_are_only_text(model):
    X, y = hostile()
    found = compare({pages.HOSTILE[0]: LinearDiscriminant(), "b": BayesianLogisticRegression()}, X, y)
    about = About(title=pages.HOSTILE[1], target=pages.HOSTILE[0], notes=(pages.HOSTILE[1],), comparison=found,
                  command=pages.HOSTILE[0], question=pages.HOSTILE_LABELS[1])  # fmt: skip
    page = Page(report(model.fit(X, y), X, y, about=about, settings=FEW).html)
    plain = Page(report(BayesianLogisticRegression().fit(*cancer()), *cancer(), settings=FEW).html)
    ours = {tag for tag, _ in plain.elements} | {"pattern", "image"}
    assert {tag for tag, _ in page.elements} <= ours
    assert len(page.all("script")) == 1
    assert not [key for _, it in page.elements for key in it if key.startswith("on")]
    assert not page.all("img")
    for name in [*pages.HOSTILE, *pages.HOSTILE_LABELS]:
        assert " ".join(name.split()) in page.words, name
    assert page.texts_in("title") == [pages.HOSTILE[1]]


def test_dollar_signs_stay_dollar_signs_in_figures():
    X, y = hostile()
    html = report(BayesianLogisticRegression().fit(X, y), X, y, settings=FEW).html
    drawn = [text for tag, text in Page(html).texts if tag in {"text", "tspan"}]
    assert "cost in $ per $x^2$" in drawn


def test_recorded_labels_are_scored_as_recorded_where_some_may_be_wrong():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    true = (rng.random(600) < 1 / (1 + np.exp(-4 * X[:, 0]))).astype(int)
    y = np.where(rng.random(600) < 0.2, 1 - true, true)
    model = BayesianLogisticRegression(label_noise=0.2, prior=Normal(scale=3.0)).fit(X, y)
    page = report(model, X, y, settings=Settings(random_state=0))
    assert "do not use it" not in page.html
    assert "too sure" not in page.html
