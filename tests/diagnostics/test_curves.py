import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.diagnostics import auc, precision_recall_curve, roc_curve
from credibly.errors import InputError

RNG = np.random.default_rng(2)
P = RNG.uniform(size=60).round(1)  # many ties
Y = (RNG.random(60) < P).astype(int)


def test_the_curves_are_shares_above_each_threshold():
    curve = roc_curve(Y, P)
    for at, fpr, tpr in zip(curve.thresholds, curve.false_positive, curve.true_positive, strict=True):
        assert_allclose([fpr, tpr], [(P[Y == 0] >= at).mean(), (P[Y == 1] >= at).mean()])
    assert curve.thresholds[0] == np.inf and len(curve.thresholds) == len(np.unique(P)) + 1
    found = precision_recall_curve(Y, P)
    for at, precision, recall in zip(found.thresholds, found.precision, found.recall, strict=False):
        assert_allclose([precision, recall], [Y[P >= at].mean(), (P[Y == 1] >= at).mean()])


def test_areas_are_those_of_the_curves():
    curve, found = roc_curve(Y, P), precision_recall_curve(Y, P)
    assert_allclose(np.trapezoid(curve.true_positive, curve.false_positive), auc(Y, P).value, rtol=1e-12)
    assert_allclose(-(np.diff(found.recall) * found.precision[:-1]).sum(), found.average_precision, rtol=1e-12)
    assert_allclose(found.share, Y.mean())


def test_a_class_has_to_be_chosen_among_three():
    table = np.full((3, 3), 1 / 3)
    with pytest.raises(InputError, match=r"say which with label=, one of \[0, 1, 2\]"):
        roc_curve([0, 1, 2], table)
    assert_allclose(precision_recall_curve([0, 1, 2], table, label=2).share, 1 / 3)
    with pytest.raises(InputError, match="3 rows are of it and 0 are not"):
        roc_curve([1, 1, 1], [0.1, 0.2, 0.3])
