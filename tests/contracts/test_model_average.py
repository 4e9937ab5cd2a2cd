"""An average of models is an estimator like any other."""

import numpy as np
import pytest
from sklearn.utils import get_tags

from credibly import BayesianLogisticRegression, LinearDiscriminant, ModelAverage, Normal, compare
from credibly.errors import InputError

TIGHT, WIDE = BayesianLogisticRegression(prior=Normal(1.0)), BayesianLogisticRegression(prior=Normal(10.0))


def test_an_average_takes_what_all_its_models_take():
    both = ModelAverage({"weights": TIGHT, "densities": LinearDiscriminant()})
    assert get_tags(both).input_tags.sparse and not get_tags(both).input_tags.allow_nan
    assert get_tags(ModelAverage([LinearDiscriminant()])).input_tags.allow_nan
    for nothing in ([], None, [()], 5, [("a", TIGHT)]):
        get_tags(ModelAverage(nothing))  # fit says what is wrong, not the tags


def test_an_average_knows_its_columns_however_it_was_made():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    found = compare([TIGHT, WIDE], X, y)
    for average in (found.average(), ModelAverage([TIGHT, WIDE]).fit(X, y)):
        assert average.n_features_in_ == 3


def test_labels_that_were_forgotten_are_asked_for():
    with pytest.raises(InputError, match="requires y to be passed"):
        compare([TIGHT], np.zeros((4, 2)), None)
