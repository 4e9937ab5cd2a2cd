"""What must not matter: the order of rows and columns, the names of classes, units, and rows given twice.

Two fits that differ by rounding end at modes 1e-10 posterior standard deviations apart at most (the square of the
Newton decrement is below 1e-20), at learnt scales where the evidence has a slope below 1e-10 nats, at EP's fixed point
to 1e-9: `Kind.tol`, 1e-7, leaves two to three digits for matrices that are badly conditioned. The dispersion of a
negative binomial is settled to 1e-7 in its logarithm, on which means far away hang more strongly.
"""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from reliability.properties.models import Case, Kind, drawn, over, standardised


def numbers(model, X) -> np.ndarray:
    """What a model says of rows, in the form in which nothing is lost: logarithms of probabilities, or means."""
    if hasattr(model, "predict_log_proba"):
        return model.predict_log_proba(X)
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def assert_same_model(case: Case, one, other, X_other=None) -> None:
    X, tol = case.new, case.kind.tol
    if hasattr(one, "status_"):
        assert one.status_.good == other.status_.good
    assert_allclose(numbers(other, X if X_other is None else X_other), numbers(one, X), rtol=tol, atol=tol)
    if hasattr(one, "log_evidence_"):
        assert_allclose(other.log_evidence_, one.log_evidence_, rtol=tol, atol=tol)


def part(weight, order):
    return None if weight is None else weight[order]


@over(lambda kind: kind.any_order)
def test_the_order_of_rows_does_not_matter(kind, data):
    case = drawn(kind, data)
    order = case.problem.rng.permutation(len(case.y))
    other = case.fit(case.X[order], case.y[order], part(case.weight, order))
    assert_same_model(case, case.fit(), other)


@over(lambda kind: not kind.draws)
def test_the_order_of_columns_does_not_matter(kind, data):
    case = drawn(kind, data)
    order = case.problem.rng.permutation(case.problem.d)
    assert_same_model(case, case.fit(), case.fit(case.X[:, order]), case.new[:, order])


def of_classes(kind: Kind) -> bool:
    return kind.probabilities


@over(of_classes)
def test_other_names_for_the_classes_change_no_bit(kind, data):
    """Names in the same order, that is."""
    case = drawn(kind, data)
    plain = case.fit()
    for names in (["ash", "birch", "cedar", "elm"], [-7.0, 0.0, 3.0, 1e9]):
        renamed = case.fit(y=np.array(names)[case.y])
        assert_array_equal(renamed.classes_, names[: case.problem.K])
        assert_array_equal(renamed.predict_log_proba(case.new), plain.predict_log_proba(case.new))


@over(lambda kind: kind.probabilities and kind.symmetric and not kind.draws)
def test_exchanging_classes_exchanges_their_probabilities(kind, data):
    case = drawn(kind, data)
    order = case.problem.rng.permutation(case.problem.K)
    plain, exchanged = case.fit(), case.fit(y=order[case.y])
    # Averages of three and more joint scores are good to 1e-4 whatever the order (predict_log_proba says so).
    tol = {"rtol": kind.tol, "atol": kind.tol} if case.problem.K == 2 else {"rtol": 0, "atol": 2e-4}
    assert_allclose(exchanged.predict_proba(case.new)[:, order], plain.predict_proba(case.new), **tol)
    if hasattr(plain, "log_evidence_"):
        assert_allclose(exchanged.log_evidence_, plain.log_evidence_, rtol=kind.tol, atol=kind.tol)


@over(lambda kind: kind.unit_free and not kind.draws and kind.priors_that(standardised))
def test_units_do_not_matter_under_a_standardised_prior(kind, data):
    case = drawn(kind, data, standardised)
    scale = 10.0 ** case.problem.rng.uniform(-3, 3, case.problem.d)
    plain, other = case.fit(), case.fit(case.X * scale)
    here, there = numbers(plain, case.new), numbers(other, case.new * scale)
    assert_allclose(there, here, rtol=kind.tol, atol=kind.tol)


@over(lambda kind: kind.weights is not None)
def test_every_row_twice_is_every_weight_doubled(kind, data):
    case = drawn(kind, data)
    weight = np.ones(len(case.y)) if case.weight is None else case.weight
    twice = case.fit(np.tile(case.X, (2, 1)), np.concatenate([case.y, case.y]), np.tile(weight, 2))
    assert_same_model(case, case.fit(weight=2 * weight), twice)
