"""The arithmetic of `make honesty`: scores, paired differences, evidence by bridge sampling, the page.

Two sets that come with scikit-learn; nothing of the benchmark's own environment.
"""

import math

import numpy as np
import pytest
from benchmarks.honesty import battery, data, exact, models, page
from numpy.testing import assert_allclose
from scipy.special import log_expit
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

SETS, PAIR = ("iris", "wine"), ("lda", "sk-lda")


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    path = tmp_path_factory.mktemp("honesty") / "scores.jsonl"
    battery.measure(PAIR, SETS, processes=1, path=path)
    return path


def test_paired_differences_are_those_computed_by_hand():
    found = battery.paired([1.0, 2.0, 3.0, 6.0], [0.0, 2.0, 2.0, 4.0])  # differences 1, 0, 1, 2
    assert found.mean == 1.0
    assert_allclose(found.error, math.sqrt((0 + 1 + 0 + 1) / 3) / 2, rtol=1e-15)


def test_calibration_error_weighs_the_gaps_of_bins_by_their_rows():
    p = np.array([[0.95, 0.05], [0.91, 0.09], [0.35, 0.65], [0.35, 0.65]])
    y = np.array([0, 1, 1, 1])  # in the bin above 0.9: one of two is right; in 0.6 to 0.7: both
    assert_allclose(battery.calibration_error(y, p), (abs(1.86 - 1) + abs(1.30 - 2)) / 4)


@pytest.mark.parametrize("name", SETS)
def test_scores_are_those_of_held_out_rows(scores, name):
    record = battery.latest(scores)[name, "sk-lda"]
    X, y = data.load(name).X, data.load(name).y
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(models.MODELS["sk-lda"].make(), X, y, cv=folds, method="predict_proba")
    assert_allclose(record["log_loss"], log_loss(y, np.clip(p, 1e-15, 1)), rtol=1e-12)
    assert_allclose(record["brier"], ((p - np.eye(3)[y]) ** 2).sum(axis=1).mean(), rtol=1e-12)
    assert_allclose(np.mean(record["rows"]), record["log_loss"], rtol=1e-5)


def test_what_is_known_is_not_run_again(scores):
    before = scores.read_text()
    battery.measure(PAIR, SETS, processes=1, path=scores)
    assert scores.read_text() == before
    assert len(before.splitlines()) == 4


def test_a_model_that_raises_is_a_result(monkeypatch, tmp_path):
    def broken():
        raise ValueError("no such rung")

    monkeypatch.setitem(models.MODELS, "lda", models.Model("broken", broken, True))
    battery.measure(("lda",), ("iris",), processes=1, path=tmp_path / "scores.jsonl")
    record = battery.latest(tmp_path / "scores.jsonl")["iris", "lda"]
    assert record["error"] == "ValueError: no such rung"
    assert page.good({("iris", "lda"): record}, "iris", "lda") is None


def test_the_page_tells_the_differences(scores, tmp_path):
    results = battery.latest(scores)
    written = page.write(results, [], docs=tmp_path).read_text()
    line = next(line for line in written.splitlines() if line.startswith("| wine"))
    ours, theirs = (results["wine", model] for model in PAIR)
    difference = ours["log_loss"] - theirs["log_loss"]
    assert f"| 178×13×3 | {ours['log_loss']:.4f} | {theirs['log_loss']:.4f} |" in line
    assert page.signed(difference, 4) in line
    assert (tmp_path / "images" / "honesty_lda.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [
        (-0.003, 0.1, page.BETTER),
        (-0.001, 0, page.NEITHER),
        (0.004, 0, page.NEITHER),
        (0.01, 0.007, page.NEITHER),
        (0.01, 0.006, page.LOST),
    ],
)
def test_a_loss_is_large_and_significant(mean, error, verdict):
    assert page.Line("made up", {}, {}, battery.Difference(mean, error)).verdict == verdict


def test_bridge_sampling_finds_a_known_normaliser():
    rng = np.random.default_rng(0)
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    target = multivariate_normal([1.0, -2.0], cov)
    log_z, error = exact.bridge(lambda w: target.logpdf(w) + 3.5, target.rvs((4, 2_000), random_state=rng), rng)
    assert abs(log_z - 3.5) < 0.01
    assert error < 0.01


def test_the_joint_density_of_two_classes_is_that_of_logistic_regression():
    X, y, w = np.array([[0.5], [-1.0], [2.0]]), np.array([1, 0, 1]), np.array([0.7, -0.3])
    f = 0.7 * X[:, 0] - 0.3
    by_hand = log_expit(f[[0, 2]]).sum() + log_expit(-f[1]) + norm(0, 2.5).logpdf(0.7) + norm(0, 10).logpdf(-0.3)
    assert_allclose(exact.Problem.of(X, y, 2.5).log_joint(w.reshape(1, 1, 2)), by_hand)


def test_centred_weights_have_no_part_along_the_mean_over_classes():
    common = np.ones((3, 3))  # one shared direction, of variance 1, and 0.5 for each class
    mean, sd = exact.centred_moments(np.array([1.0, 2.0, 6.0]), common + 0.5 * np.eye(3), 3)
    assert_allclose(mean, [-2, -1, 3])
    assert_allclose(sd, np.sqrt(0.5 * 2 / 3))
