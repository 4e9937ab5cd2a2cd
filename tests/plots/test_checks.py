import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, Normal, plots
from credibly.errors import InputError

# --- k-hat --------------------------------------------------------------------------------------------------


def test_values_are_sorted_and_coloured_by_the_limits():
    values = np.array([0.9, 0.5, -0.1, 0.7, 0.51, np.inf, 0.2])
    ax = plots.khat(values)
    close, correctable, unreliable, beyond = ax.lines[:4]
    assert_allclose(close.get_xydata(), [[1, -0.1], [2, 0.2], [3, 0.5]])
    assert_allclose(correctable.get_xydata(), [[4, 0.51], [5, 0.7]])
    assert_allclose(unreliable.get_xydata(), [[6, 0.9]])
    assert beyond.get_xdata().tolist() == [7] and beyond.get_ydata()[0] == ax.get_ylim()[1]
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["close: 3 rows", "can be corrected: 2 rows", "not reliable: 2 rows"]
    assert sorted(line.get_ydata()[0] for line in ax.lines[4:]) == [0.5, 0.7]


def test_a_certificate_is_asked_for_its_rows(cancer):
    some = np.random.default_rng(0).permutation(len(cancer.y))[:50]
    X, y = cancer.X.iloc[some], cancer.y[some]
    certificate = BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y).certify(X, y)
    ax = plots.khat(certificate, cancer.X)
    drawn = np.concatenate([line.get_ydata() for line in ax.lines[:4]])
    assert_allclose(np.sort(drawn), np.sort(certificate.predict_khat(cancer.X)))
    with pytest.raises(InputError, match=r"khat\(certificate, X\)"):
        plots.khat(certificate)
    drawn = BayesianLogisticRegression(inference="exact").fit(X, y).certify(X, y)
    with pytest.raises(InputError, match="exact"):
        plots.khat(drawn, cancer.X)


@pytest.mark.parametrize("wrong", [[], [[0.1]], [np.nan], "words", object()])
def test_values_that_are_none_are_refused(wrong):
    with pytest.raises(InputError, match=r"k-hat values must be|khat takes a certificate"):
        plots.khat(wrong)


# --- label noise --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flipped(cancer):
    y = cancer.y.copy()
    wrong = np.random.default_rng(0).choice(len(y), 25, replace=False)
    y[wrong] = np.where(y[wrong] == "benign", "malignant", "benign")
    return y, set(wrong.tolist())


def test_rows_are_ranked_by_the_probability_of_a_flip(cancer, flipped):
    y, wrong = flipped
    model = BayesianLogisticRegression(label_noise="estimate").fit(cancer.X, y)
    ax = plots.label_noise(model, cancer.X, y, most=15)
    p = model.flip_probability(cancer.X, y)
    order = np.argsort(-p)[:15]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"row {i}" for i in order]
    assert len(wrong & set(order.tolist())) >= 10  # of 25 flips at random most lie clearly on the wrong side
    drawn = np.concatenate([line.get_xydata() for line in ax.lines])
    drawn = drawn[np.argsort(drawn[:, 1])]
    assert_allclose(drawn, np.column_stack([p[order], np.arange(15)]))
    for line in ax.lines:
        rows = order[line.get_ydata().astype(int)]
        assert {f"recorded as {label}" for label in y[rows]} == {line.get_label()}
    assert any(f"{p.sum():.1f} of 569" in text.get_text() for text in ax.texts)


def test_rows_have_the_names_of_the_index(cancer, flipped):
    y, _ = flipped
    X = cancer.X.set_index(pd.Index([f"patient {i}" for i in range(len(y))]))
    model = make_pipeline(StandardScaler(), BayesianLogisticRegression(label_noise=0.05)).fit(X, y)
    ax = plots.label_noise(model, X, y, most=3)
    assert all(label.get_text().startswith("patient ") for label in ax.get_yticklabels())


def test_several_classes_and_processes(iris):
    y = iris.y.copy()
    y[[0, 60]] = "virginica", "setosa"
    softmax = BayesianLogisticRegression(label_noise=0.03).fit(iris.X, y)
    ax = plots.label_noise(softmax, iris.X, y, most=4)
    suspects = np.argsort(-softmax.flip_probability(iris.X, y))[:4]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"row {i}" for i in suspects]
    assert len(ax.get_legend().get_texts()) == len(set(y[suspects])) > 1
    two = iris.X.iloc[:100, 2:]
    process = GaussianProcessClassifier(label_noise=0.03, optimize=False).fit(two, y[:100] == "setosa")
    assert len(plots.label_noise(process, two, y[:100] == "setosa").get_yticklabels()) == 20


def test_models_that_take_labels_at_their_word_are_refused(cancer, iris, logit, discriminant):
    with pytest.raises(InputError, match=r'label_noise="estimate"'):
        plots.label_noise(logit, *cancer)
    with pytest.raises(InputError, match="LinearDiscriminant has no model of wrong labels"):
        plots.label_noise(discriminant, *iris)
    with pytest.raises(InputError, match="one label for each"):
        plots.label_noise(BayesianLogisticRegression(label_noise=0.05).fit(*cancer), cancer.X, cancer.y[:3])
