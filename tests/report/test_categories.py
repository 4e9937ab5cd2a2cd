"""A category is told level against level: nobody can be two kinds of patient at once."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from credibly import BayesianLogisticRegression, GaussianProcessClassifier
from credibly.report import About, Settings, report_table
from credibly.report.average_effects import averaged_answer
from credibly.report.categories import Category, bent_terms, categories_of
from credibly.report.limits import limits
from credibly.report.material import gather
from credibly.report.performance import Failed
from credibly.report.trust import Trust
from credibly.report.weights import effects, linear_answer
from credibly.tables.model import Choices, TableModel
from helpers import load_by_path

pages = load_by_path(Path(__file__).with_name("pages.py"))
NOTHING = Trust("", "", ())


def patients(n_rows: int = 200) -> pd.DataFrame:
    """Admissions to intensive care: an emergency is worse, and there are three kinds of ward."""
    rng = np.random.default_rng(0)
    age = rng.normal(60, 12, n_rows)
    kind = np.where(rng.random(n_rows) < 0.4, "Emergency", "Elective")
    ward = rng.choice(["a", "b", "c"], n_rows, p=[0.2, 0.5, 0.3])
    score = 0.05 * (age - 60) + 1.5 * (kind == "Emergency") - 1.0 * (ward == "c") - 0.5
    died = rng.random(n_rows) < 1 / (1 + np.exp(-score))
    return pd.DataFrame({"age": age, "type": kind, "ward": ward, "outcome": np.where(died, "died", "lived")})


def material_of(model: TableModel, frame: pd.DataFrame, **about):
    rows = model.training_rows(frame)
    groups = categories_of(model.design)
    return gather(model.model, rows.X, rows.y, About(groups=groups, bent=bent_terms(model.design), **about), Settings())


def by_hand(model, names, level, base):
    """Mean and standard deviation of a difference of two weights, from the posterior's covariance."""
    step = np.zeros(model.posterior_.mean.size)
    step[names.index(level)], step[names.index(base)] = 1.0, -1.0
    return step @ model.posterior_.mean, np.sqrt(step @ model.posterior_.cov @ step)


@pytest.mark.parametrize("told", [True, False], ids=["design", "recognised"])
def test_a_level_is_told_against_the_commonest(told):
    table = patients()
    model = TableModel.fit(BayesianLogisticRegression(), table, "outcome")
    material = material_of(model, table) if told else gather(
        model.model, *model.training_rows(table)[:2], About(), Settings())  # fmt: skip
    names = list(material.names)
    found = {it.step.name: it for it in effects(material)}
    assert list(found) == ["age", "type=Emergency", "ward=a", "ward=c"]
    middle = material.matrix.mean(axis=0)
    for name, base in (("type=Emergency", "type=Elective"), ("ward=a", "ward=b"), ("ward=c", "ward=b")):
        it = found[name]
        mean, sd = by_hand(model.model, names, name, base)
        assert_allclose([it.mean, it.low, it.high], [mean, *(mean + norm.ppf([0.05, 0.95]) * sd)], rtol=1e-8)
        assert_allclose(it.positive, norm.cdf(mean / sd), rtol=1e-8)
        for end, level in (("before", base), ("after", name)):
            row = middle.copy()
            row[[j for j, other in enumerate(names) if other.startswith(name.split("=")[0])]] = 0.0
            row[names.index(level)] = 1.0
            said = model.model.predict_proba(pd.DataFrame([row], columns=names))[0, 1]
            assert_allclose(getattr(it, end), said, rtol=1e-8)
    sentence = next(text for text in linear_answer(material).sentences if text.startswith("type"))
    start = "type=Emergency instead of type=Elective multiplies the odds of lived by "
    assert sentence.startswith(start)
    shown = float(re.match(r"[\d.]+", sentence.removeprefix(start))[0])
    assert_allclose(shown, np.exp(found["type=Emergency"].mean), rtol=0.05)  # two digits


@pytest.mark.parametrize("inference", ["laplace", "exact"])
def test_several_classes_and_draws_have_contrasts_too(inference):
    table = patients()
    table["outcome"] = np.where(np.arange(len(table)) % 4 == 0, "moved", table["outcome"])
    model = TableModel.fit(BayesianLogisticRegression(inference=inference), table, "outcome")
    material = material_of(model, table)
    draws = model.model.posterior_.sample(np.random.default_rng(7), 20_000).reshape(20_000, 3, -1)
    names, labels = list(material.names), list(material.labels)
    for it in effects(material):
        if it.step.name != "type=Emergency":
            continue
        both = draws[:, labels.index(it.label)] - draws[:, labels.index(it.against)]
        gap = both[:, names.index("type=Emergency")] - both[:, names.index("type=Elective")]
        error = 5 * gap.std() / np.sqrt(4000)  # five standard errors; quantiles are some 2×
        assert_allclose(it.mean, gap.mean(), atol=error)
        assert_allclose([it.low, it.high], np.quantile(gap, [0.05, 0.95]), atol=2.2 * error)


def test_a_level_left_out_is_what_others_are_told_against():
    table = patients()
    model = TableModel.fit(BayesianLogisticRegression(prior=None), table, "outcome")
    material = material_of(model, table)
    found = {it.step.name: it for it in effects(material)}
    assert list(found) == ["age", "type=Emergency", "ward=b", "ward=c"]
    assert_allclose(found["ward=c"].mean, model.model.coef_[0, 3], rtol=1e-10)
    assert found["ward=c"].step.subject == "ward=c instead of ward=a"


def test_categories_of_a_formula_stand_alone_or_are_left():
    table = patients()
    model = TableModel.fit(
        BayesianLogisticRegression(), table, choices=Choices(formula="outcome ~ poly(age, 2) + type + age:ward")
    )
    assert categories_of(model.design) == (Category("type", ("type=Elective", "type=Emergency")),)
    material = material_of(model, table)
    heads = {head for head, _ in limits(material, Failed("not asked"), NOTHING)}
    assert "Effects have the shapes that the formula gives them." in heads
    assert "Effects are straight lines and do not depend on each other." not in heads


def test_levels_of_one_category_are_not_said_to_be_alike():
    table = patients()
    model = TableModel.fit(BayesianLogisticRegression(), table, "outcome")  # type=Elective is 1 - type=Emergency
    heads = {head for head, _ in limits(material_of(model, table), Failed("not asked"), NOTHING)}
    assert "Some columns say nearly the same." not in heads


def test_a_process_moves_from_level_to_level():
    table = patients(80)
    model = TableModel.fit(GaussianProcessClassifier(optimize=False), table, "outcome")
    material = material_of(model, table)
    said = [text for text in averaged_answer(material).sentences if text.startswith("type=Emergency instead of")]
    assert len(said) == 1
    means = []
    for level in ("Elective", "Emergency"):
        means.append(model.predict_proba(table.assign(type=level))[:, 1].mean())
    shown = [float(it) / 100 for it in re.findall(r"from ([\d.]+) % to ([\d.]+) %", said[0].replace("\u00a0", " "))[0]]
    # All 80 rows are used; what differs is the noise of 400 draws of a probability.
    assert_allclose(shown, means, atol=5 * 0.15 / np.sqrt(400) + 0.001)


def test_the_page_has_no_impossible_step():
    table = patients()
    model = TableModel.fit(BayesianLogisticRegression(), table, "outcome")
    page = pages.Page(report_table(model, table, settings=Settings(folds=2)).html)
    assert "A picture is missing" not in page.words
    assert "1 instead of 0)" not in page.words
    assert "3 columns of the table, 6 of the model" in page.words
    assert "Probabilities for each value of type, with intervals." in [it.get("aria-label") for it in page.all("svg")]
    assert "or a level instead of type=Elective and ward=b." in page.words
    drawn = [text for tag, text in page.texts if tag in {"text", "tspan"}]
    assert "type=Emergency" in drawn and "type=Elective" not in drawn
    assert "Emergency" in drawn  # a point of the figure of the category
