"""The table is the test: every estimator and every input of it, against the answer that is written down."""

import copy
import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import issparse

from credibly.errors import CrediblyError, InputError
from reliability.estimators import SUBJECTS, Problem, Subject, public
from reliability.inputs import Change, Fits, Input, NoArgument, Refused, Same
from reliability.table import SECTIONS

# Sums run in another order for another layout, and modes are found to the square of the solver's tolerance.
ROUNDING = {"rtol": 1e-9, "atol": 1e-12}
SEARCHED = {"rtol": 1e-8, "atol": 1e-8}  # a dispersion is found by a search, to half the digits
# So few rows are for EP or variational inference, whose fixed points are found to 1e-5 standard deviations (`tol`), …
SETTLED = {"rtol": 1e-5, "atol": 1e-5}
# … and with several scores a row, whose averages are sums over fixed points, to 1e-2 of them.
SEVERAL_SCORES = {"rtol": 2e-3, "atol": 2e-3}


# The ways that a table takes to a model: weights, functions, densities of all columns, densities of single columns.
WAYS = ("BayesianLogisticRegression", "GaussianProcessClassifier, Laplace", "LinearDiscriminant", "NaiveBayes")
CANARIES = {
    *("NaN", "+inf", "int8 up to its limits", "text among objects", "a DataFrame", "a polars frame", "CSR"),
    *("0 rows", "all rows alike", "separated classes", "one class", "a masked array"),
}


def cases() -> list:
    """Every input by every way, a few inputs to every other estimator; the whole table with the slow tests."""
    return [
        pytest.param(
            subject,
            given,
            id=f"{section}: {given.name} | {subject.name}",
            marks=[] if _always(subject, given) else [pytest.mark.slow],
        )
        for section, inputs in SECTIONS.items()
        for given in inputs
        for subject in SUBJECTS
    ]


def _always(subject: Subject, given: Input) -> bool:
    return (subject.name in WAYS or given.name in CANARIES) and not given.takes_seconds(subject)


def fit(subject: Subject, problem: Problem):
    model = subject.make()
    weights = {} if problem.weight is None else {"sample_weight": problem.weight}
    return model.fit(problem.X, problem.y, **weights)


def numbers(subject: Subject, model, asked) -> np.ndarray:
    """What the model says of rows, as numbers."""
    if subject.probabilities:
        return model.predict_log_proba(asked)
    return model.predict(asked) if subject.kind == "glm" else np.column_stack([model.predict_latent(asked)[0]])


@cache
def plain_answer(subject: Subject, plain: Change | None) -> np.ndarray:
    problem = subject.problem() if plain is None else plain(subject.problem())
    return numbers(subject, fit(subject, problem), problem.asked)


def snapshot(thing):
    if isinstance(thing, np.ndarray) and thing.dtype == object:
        return thing.copy()
    kept = isinstance(thing, np.ndarray | pd.DataFrame | pd.Series) or issparse(thing)
    return copy.deepcopy(thing) if kept else None


def assert_unchanged(thing, before) -> None:
    if isinstance(before, pd.DataFrame | pd.Series):
        assert thing.equals(before)
    elif issparse(before):
        assert_array_equal(list(vars(thing)), list(vars(before)))
        for attribute in ("data", "indices", "indptr"):
            assert_array_equal(getattr(thing, attribute, 0), getattr(before, attribute, 0))
    elif before is not None and before.dtype == object:
        assert all(one is other for one, other in zip(thing.ravel(), before.ravel(), strict=True))
    elif before is not None:
        assert thing.dtype == before.dtype
        assert np.asarray(thing).tobytes() == np.asarray(before).tobytes()


def check_probabilities(model, asked) -> None:
    p, log_p, found = model.predict_proba(asked), model.predict_log_proba(asked), model.predict(asked)
    assert p.shape == log_p.shape == (len(found), len(model.classes_))
    assert np.isfinite(p).all() and not np.isnan(log_p).any()
    assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert_allclose(np.exp(log_p), p, rtol=1e-12)
    assert_array_equal(found, model.classes_[log_p.argmax(axis=1)])


def check_fits(subject: Subject, given: Input, answer: Fits, problem: Problem) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(subject, problem)
        if subject.probabilities:
            check_probabilities(model, problem.asked)
        else:
            assert not pd.isna(model.predict(problem.asked)).any()
        found = numbers(subject, model, problem.asked)
    said = {str(it.message) for it in caught}
    assert all(answer.warns is not None and re.search(answer.warns, text) for text in said), said
    assert answer.warns is None or said
    if isinstance(answer, Same):
        assert_allclose(found, plain_answer(subject, given.plain), **known_to(subject))


def known_to(subject: Subject) -> dict[str, float]:
    if subject.name == "LeastSquaresClassifier":
        return SEARCHED
    if subject.name == "… softmax":
        return SEVERAL_SCORES
    return SETTLED if subject.kind in ("linear", "glm", "average") else ROUNDING


def check_refused(subject: Subject, answer: Refused, problem: Problem) -> None:
    model = subject.make() if answer.by == "fit" else fit(subject, problem)
    before = {name: id(value) for name, value in vars(model).items()}
    with pytest.raises(InputError, match=answer.words) as caught:
        if answer.by == "fit":
            weights = {} if problem.weight is None else {"sample_weight": problem.weight}
            model.fit(problem.X, problem.y, **weights)
        else:
            model.predict(problem.asked)
    assert isinstance(caught.value, CrediblyError) and isinstance(caught.value, ValueError)
    assert {name: id(value) for name, value in vars(model).items()} == before


@pytest.mark.parametrize(("subject", "given"), cases())
def test_an_input_gets_the_answer_of_the_table(subject: Subject, given: Input) -> None:
    answer, problem = given.answer(subject), given.change(subject.problem())
    before = [snapshot(it) for it in (problem.X, problem.y, problem.weight, problem.ask)]
    if isinstance(answer, NoArgument):
        with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
            fit(subject, problem)
    elif isinstance(answer, Refused):
        check_refused(subject, answer, problem)
    else:
        check_fits(subject, given, answer, problem)
    for thing, kept in zip((problem.X, problem.y, problem.weight, problem.ask), before, strict=True):
        assert_unchanged(thing, kept)


def test_every_public_estimator_is_in_the_table():
    assert {type(subject.make()).__name__ for subject in SUBJECTS} == public()


def test_what_is_always_tested_is_in_the_table():
    assert set(WAYS) <= {subject.name for subject in SUBJECTS}
    assert {given.name for section in SECTIONS.values() for given in section} >= CANARIES


def test_names_of_inputs_and_estimators_are_unique():
    for section in SECTIONS.values():
        names = [given.name for given in section]
        assert len(set(names)) == len(names)
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


def test_no_answer_is_written_for_an_estimator_that_is_not_there():
    known = {it for subject in SUBJECTS for it in (subject.name, subject.kind, subject.columns, "every")}
    for section in SECTIONS.values():
        for given in section:
            assert set(given.answers) <= known
            assert set(given.slow) <= known
