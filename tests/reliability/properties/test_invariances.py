"""What must not matter: the order of rows and columns, the names of classes, units, and rows given twice.

Two fits that differ by rounding end at modes 1e-10 posterior standard deviations apart at most (the square of the
Newton decrement is below 1e-20), at learnt scales where the evidence has a slope below 1e-10 nats, at EP's fixed point
to 1e-9: with TOL = 1e-7 two to three digits are left for matrices that are badly conditioned.
"""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from reliability.properties.models import Kind, drawn, over, standardised

TOL = 1e-7


def numbers(model, X) -> np.ndarray:
    """What a model says of rows, in the form in which nothing is lost: logarithms of probabilities, or means."""
    if hasattr(model, "predict_log_proba"):
        return model.predict_log_proba(X)
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def assert_same_model(one, other, X, X_other=None, tol: float = TOL) -> None:
    assert getattr(one, "status_", None) == getattr(other, "status_", None)
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
    assert_same_model(case.fit(), other, case.new)


@over(lambda kind: not kind.draws)
def test_the_order_of_columns_does_not_matter(kind, data):
    case = drawn(kind, data)
    order = case.problem.rng.permutation(case.problem.d)
    assert_same_model(case.fit(), case.fit(case.X[:, order]), case.new, case.new[:, order])


def of_classes(kind: Kind) -> bool:
    return kind.probabilities


@over(of_classes)
def test_other_names_for_the_classes_change_no_bit(kind, data):
    """Names in the same order, that is."""
    case = drawn(kind, data)
    plain = case.fit()
    for names in (["ash", "birch", "cedar", "elm"], [-7.5, 0.25, 3.0, 1e9]):
        renamed = case.fit(y=np.array(names)[case.y])
        assert_array_equal(renamed.classes_, names[: case.problem.K])
        assert_array_equal(renamed.predict_log_proba(case.new), plain.predict_log_proba(case.new))


@over(lambda kind: kind.probabilities and kind.symmetric and not kind.draws)
def test_exchanging_classes_exchanges_their_probabilities(kind, data):
    case = drawn(kind, data)
    order = case.problem.rng.permutation(case.problem.K)
    plain, exchanged = case.fit(), case.fit(y=order[case.y])
    # Averages of three and more joint scores are good to 1e-4 whatever the order (predict_log_proba says so).
    tol = {"rtol": TOL, "atol": TOL} if case.problem.K == 2 else {"rtol": 0, "atol": 2e-4}
    assert_allclose(exchanged.predict_proba(case.new)[:, order], plain.predict_proba(case.new), **tol)
    if hasattr(plain, "log_evidence_"):
        assert_allclose(exchanged.log_evidence_, plain.log_evidence_, rtol=TOL, atol=TOL)


@over(lambda kind: kind.unit_free and not kind.draws and any(standardised(prior) for prior in kind.priors))
def test_units_do_not_matter_under_a_standardised_prior(kind, data):
    case = drawn(kind, data)
    if not standardised(case.problem.prior):
        return
    scale = 10.0 ** case.problem.rng.uniform(-3, 3, case.problem.d)
    plain, other = case.fit(), case.fit(case.X * scale)
    X, new = (numbers(model, rows) for model, rows in ((plain, case.new), (other, case.new * scale)))
    assert_allclose(new, X, rtol=TOL, atol=TOL)


@over(lambda kind: kind.weights is not None)
def test_every_row_twice_is_every_weight_doubled(kind, data):
    case = drawn(kind, data)
    weight = np.ones(len(case.y)) if case.weight is None else case.weight
    twice = case.fit(np.tile(case.X, (2, 1)), np.concatenate([case.y, case.y]), np.tile(weight, 2))
    assert_same_model(case.fit(weight=2 * weight), twice, case.new)
