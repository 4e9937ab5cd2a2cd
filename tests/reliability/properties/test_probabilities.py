"""What every prediction keeps, whatever the rows: it is a probability, and asking changes nothing."""

import copy

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from reliability.properties.models import Kind, answers, as_arrays, assert_same_bits, drawn, over


def with_probabilities(kind: Kind) -> bool:
    return kind.probabilities


@over(with_probabilities)
def test_probabilities_are_between_zero_and_one_and_sum_to_one(kind, data):
    case = drawn(kind, data)
    proba = case.fit().predict_proba(case.new)
    assert proba.shape == (len(case.new), case.problem.K)
    assert ((proba >= 0) & (proba <= 1)).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)


@over(with_probabilities)
def test_logarithms_of_probabilities_are_consistent_into_the_tails(kind, data):
    """None is NaN or -∞ (a class is never impossible), and the largest is what the others leave, to full precision."""
    case = drawn(kind, data)
    model = case.fit()
    log_proba = model.predict_log_proba(case.new)
    assert np.isfinite(log_proba).all()
    assert (log_proba <= 0).all()
    assert_array_equal(model.predict_proba(case.new), np.exp(log_proba))
    assert_array_equal(model.predict(case.new), model.classes_[log_proba.argmax(axis=1)])
    ordered = np.sort(log_proba, axis=1)
    others = np.exp(ordered[:, :-1]).sum(axis=1)
    # Weights of draws and of models sum to one but for rounding, which is all there is of log p beside a tiny other.
    assert_allclose(ordered[:, -1], np.log1p(-others), rtol=1e-11, atol=1e-12 if kind.draws else 0)


@over()
def test_one_row_alone_is_told_the_same_as_among_others(kind, data):
    """To 1e-12: how a product of matrices is summed may depend on their shape, the answer not."""
    case = drawn(kind, data)
    model = case.fit()
    together = answers(model, case.new)
    for i in range(0, len(case.new), 3):
        for name, alone in answers(model, case.new[i : i + 1]).items():
            if name in {"sample_proba", "predict"}:
                continue  # draws, of all rows at once; the larger of two numbers that may be one
            for a, b in zip(as_arrays(alone), as_arrays(together[name]), strict=True):
                assert_allclose(a[0], b[i], rtol=1e-12, atol=1e-12, err_msg=name)


@over()
def test_asking_changes_no_later_answer(kind, data):
    case = drawn(kind, data)
    model = case.fit()
    before = answers(model, case.new)
    if kind.intervals and kind.posterior:  # others draw parameters, as sample_proba does
        model.predict_interval(case.new[:1])
    if hasattr(model, "summary"):
        options = {"uncertainty": False} if hasattr(model, "kernel_") else {}
        str(model.summary(**options))
    answers(model, case.X)
    assert_same_bits(before, answers(model, case.new))


@over()
def test_rows_labels_and_weights_are_only_read(kind, data):
    case = drawn(kind, data)
    given = [array for array in (case.X, case.y, case.weight, case.new) if array is not None]
    before = copy.deepcopy(given)
    for array in given:
        array.setflags(write=False)
    answers(case.fit(), case.new)
    for array, was in zip(given, before, strict=True):
        assert_array_equal(array, was)
