"""What `make demo` prints, on fewer rows; all of it in a slow test."""

import numpy as np
import pytest

from credibly import BayesianLogisticRegression
from credibly.cli import demo


@pytest.fixture
def few():
    """Sixty patients, two columns."""
    split = demo.load("breast cancer", 2)
    return split._replace(X=split.X[:60], y=split.y[:60])


def test_the_table_of_a_comparison_has_every_model_and_the_best_is_returned_fitted(few, capsys):
    best = demo.compared(few)
    said = capsys.readouterr().out
    assert "Comparison of 7 models by evidence" in said
    for name in ("logit, a scale per column", "probit", "cauchit", "Gaussian process, EP", "Gaussian classes"):
        assert name in said
    assert best.predict_proba(demo.named(few.X_held, few.columns)).shape == (len(few.y_held), 2)


def test_a_certificate_is_told_in_words_with_its_evidence(few, capsys):
    model = BayesianLogisticRegression().fit(demo.named(few.X, few.columns), few.y)
    certificate = demo.certified(model, few)
    said = capsys.readouterr().out
    assert certificate.verdict in said
    assert certificate.reliable
    assert f"certificate {certificate.log_evidence:.2f} ± " in said


def test_a_certificate_that_is_not_reliable_shows_no_corrected_number(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30))
    y = np.where(X[:, 0] > 0, "yes", "no")
    split = demo.Split("few rows, many columns", [f"x{i}" for i in range(30)], X, X, y, y)
    model = BayesianLogisticRegression(prior=demo.Normal(scale=10.0)).fit(demo.named(X, split.columns), y)
    assert not demo.certified(model, split).reliable
    said = capsys.readouterr().out
    assert "Do not rely on this model" in said
    assert "certificate -" not in said


@pytest.mark.slow
def test_the_whole_demo_runs(capsys):
    demo.main()
    said = capsys.readouterr().out
    for heading in ("Which prior, which link", "How far can that be trusted", "Are some labels wrong", "Three classes"):
        assert heading in said
