"""Rows that come in two halves: a first call is a fit, and what the second adds is what the contract says."""

import numpy as np
from numpy.testing import assert_allclose

from credibly import Normal
from reliability.properties.models import Case, Kind, answers, assert_same_bits, drawn, fixed, over, quietly


def updatable(kind: Kind) -> bool:
    return kind.updates is not None


def normal(prior) -> bool:
    return isinstance(prior, Normal)


def declared(case: Case) -> dict[str, np.ndarray]:
    """The classes, for those whose halves may lack some."""
    return {"classes": np.unique(case.y)} if case.kind.probabilities else {}


def update(case: Case, model, rows: slice):
    weight = {} if case.weight is None else {"sample_weight": case.weight[rows]}
    return quietly(
        model,
        lambda it: it.partial_fit(case.X[rows], case.y[rows], **declared(case), **weight),
        refusing=case.problem.prior is None,
    )


@over(updatable)
def test_the_first_update_is_a_fit(kind, data):
    case = drawn(kind, data)
    assert_same_bits(answers(case.fit(), case.new), answers(update(case, case.model(), slice(None)), case.new))


@over(lambda kind: kind.updates == "sums")
def test_two_halves_are_the_whole_under_a_prior_that_does_not_look_at_them(kind, data):
    """Sums of rows merge to rounding; centred sums of columns far from zero lose three digits at most."""
    case = drawn(kind, data, fixed)
    half = len(case.y) // 2
    whole, model = case.fit(), update(case, case.model(), slice(half))
    update(case, model, slice(half, None))
    assert_allclose(model.predict_log_proba(case.new), whole.predict_log_proba(case.new), rtol=1e-9, atol=1e-9)
    assert_allclose(model.log_evidence_, whole.log_evidence_, rtol=1e-9, atol=1e-9)


@over(lambda kind: kind.updates == "chain" and not kind.any_order)
def test_two_halves_are_one_pass_over_the_whole(kind, data):
    case = drawn(kind, data, normal)  # a learnt one is learnt on the first half
    half = len(case.y) // 2
    whole, model = case.fit(), update(case, case.model(), slice(half))
    update(case, model, slice(half, None))
    assert_allclose(model.predict_log_proba(case.new), whole.predict_log_proba(case.new), rtol=1e-7, atol=1e-9)
    assert_allclose(model.log_evidence_, whole.log_evidence_, rtol=1e-9, atol=1e-9)


@over(lambda kind: kind.updates == "chain" and kind.any_order and kind.of_labels)
def test_the_second_half_has_the_posterior_of_the_first_as_prior(kind, data):
    case = drawn(kind, data, normal)
    half = len(case.y) // 2
    model = update(case, case.model(), slice(half))
    first, evidence = model.posterior_, model.log_evidence_
    again = case.model().set_params(prior=Normal(mean=first.mean, cov=first.cov))
    update(case, again, slice(half, None))
    update(case, model, slice(half, None))
    tol = max(1e-6, kind.tol)
    assert_allclose(model.log_evidence_, evidence + again.log_evidence_, rtol=tol, atol=tol)
    assert_allclose(model.posterior_.mean, again.posterior_.mean, rtol=tol, atol=tol * first.std.max())
