"""Rows are dealt evenly, and nobody sees the row that it predicts."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier

from credibly.diagnostics.cross_validation import Rows, cross_validate, stratified_folds, stratified_sample
from credibly.errors import InputError


@pytest.mark.parametrize("folds", [2, 5, 10])
@pytest.mark.parametrize("counts", [(50, 50), (7, 93), (2, 3, 41)])
def test_folds_are_alike_in_size_and_classes(counts, folds):
    codes = np.repeat(np.arange(len(counts)), counts)
    found = stratified_folds(np.random.default_rng(3), codes, folds)
    sizes = np.bincount(found, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for code, count in enumerate(counts):
        share = np.bincount(found[codes == code], minlength=folds)
        assert share.max() - share.min() <= 1
        assert share.max() < count  # a class is never left out whole


def test_a_sample_keeps_the_shares_and_the_rare():
    codes = np.repeat([0, 1, 2], [900, 98, 2])
    kept = stratified_sample(np.random.default_rng(0), codes, 100)
    assert np.bincount(codes[kept]).tolist() == [90, 10, 2]
    assert (np.diff(kept) > 0).all()
    assert stratified_sample(np.random.default_rng(0), codes, 1000).tolist() == list(range(1000))


def log_of(model, X):
    with np.errstate(divide="ignore"):
        return np.log(model.predict_proba(X))


def test_no_row_is_seen_by_the_model_that_predicts_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    said = cross_validate(KNeighborsClassifier(1), Rows(X, y, y), log_of, folds=5, random_state=0)
    assert sorted(said.rows) == list(range(300))
    right = (said.proba.argmax(axis=1) == y[said.rows]).mean()
    assert abs(right - 0.5) < 5 * 0.5 / np.sqrt(300)  # its nearest neighbour would be the row itself


def test_base_rates_are_those_of_the_rows_that_were_learnt():
    y = np.repeat([0, 1], [13, 27])
    said = cross_validate(DummyClassifier(), Rows(np.zeros((40, 1)), y, y), log_of, folds=4, random_state=1)
    np.testing.assert_allclose(said.proba, said.base)  # a dummy says the shares of what it has learnt
    assert len(np.unique(said.base[:, 0])) > 1


def test_what_cannot_be_split_is_refused():
    y = np.array([0, 1])
    with pytest.raises(InputError, match="two folds"):
        cross_validate(DummyClassifier(), Rows(np.zeros((2, 1)), y, y), log_of, folds=1, random_state=0)
    with pytest.raises(InputError, match="single row"):
        cross_validate(DummyClassifier(), Rows(np.zeros((2, 1)), y, y), log_of, folds=2, random_state=0)
