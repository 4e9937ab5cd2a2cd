import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly import BayesianLogisticRegression, BayesianProbitRegression, LinearDiscriminant, Normal, compare, plots
from credibly.errors import InputError


@pytest.fixture(scope="module")
def found(cancer):
    models = {
        "line in $": BayesianLogisticRegression(),
        "probit": BayesianProbitRegression(),
        "tight": BayesianLogisticRegression(prior=Normal(scale=0.01)),
        "two Gaussians": LinearDiscriminant(),
    }
    return compare(models, *cancer, random_state=0)


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_bars_errors_and_numbers_are_those_of_the_table(found):
    ax = plots.evidence(found)
    frame = found.to_frame()
    assert names_of(ax) == [name.replace("$", r"\$") for name in frame.index]
    assert_allclose([bar.get_width() for bar in ax.patches], frame["log_bayes_factor"])
    ends = np.array(ax.collections[0].get_segments())[:, :, 0]
    known = frame["log_evidence_se"].notna()
    assert_allclose(np.diff(ends)[:, 0], 2 * frame["log_evidence_se"][known], atol=1e-12)
    numbers = [text.get_text() for text in ax.texts]
    assert numbers[0].startswith("best,") and numbers[-2].endswith("< 0.001")


def test_kinds_of_evidence_have_colours_and_a_legend(found):
    ax = plots.evidence(found)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(said) == {"evidence", "prequential"}
    kinds = found.to_frame()["kind"]
    colours = {
        kind: {bar.get_facecolor() for bar, k in zip(ax.patches, kinds, strict=True) if k == kind} for kind in said
    }
    assert all(len(it) == 1 for it in colours.values()) and colours["evidence"] != colours["prequential"]


def test_other_rankings_have_neither_errors_nor_kinds(found, cancer):
    only = compare({"a": BayesianLogisticRegression(), "b": BayesianProbitRegression()}, *cancer, by="loo")
    ax = only.plot()
    assert "leave-one-out" in ax.get_xlabel() and ax.get_legend() is None
    assert len(ax.collections[0].get_segments()) == 0
    scores = np.array([row.score("loo") for row in only.rows])
    assert_allclose([bar.get_width() for bar in ax.patches], scores - scores.max())


def test_a_model_that_is_doubted_has_a_mark_that_is_explained(found):
    from dataclasses import replace

    rows = list(found.rows)
    rows[1] = rows[1]._replace(evidence=rows[1].evidence._replace(doubt="k-hat is 0.9", se=np.nan))
    ax = plots.evidence(replace(found, rows=tuple(rows)))
    assert names_of(ax)[1].endswith(" †") and "† not to be relied on" in ax.get_xlabel()


def test_models_without_a_number_are_left_out_and_counted(cancer):
    models = {"a": BayesianLogisticRegression(), "fails": BayesianProbitRegression(max_iter=-1)}
    done = compare(models, *cancer, random_state=0)
    ax = plots.evidence(done)
    assert names_of(ax) == ["a"] and any("1 left out" in text.get_text() for text in ax.texts)


def test_wrong_input_is_refused(found):
    with pytest.raises(InputError, match=r"what credibly\.compare returns; got dict"):
        plots.evidence({})
    with pytest.raises(InputError, match="a value and an error for each of 2 names"):
        plots.ranked_bars(["a", "b"], [1.0], [0.0], "x")
    _, mine = plt.subplots()
    assert plots.evidence(found, mine) is mine
