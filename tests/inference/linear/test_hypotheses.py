"""Hypotheses as they are read, and Wald's formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from credibly.errors import InputError
from credibly.inference.linear.hypotheses import (
    Constraints,
    HypothesisResult,
    WeightNames,
    in_coordinates,
    read_hypothesis,
    wald,
)

ONE = WeightNames(["age", "dose", "x1", "a b, c=d", "Sepal.Length", "intercept"])
THREE = WeightNames(["age", "dose", "intercept"], ["1", "2", "sea bass"])


def rows(hypothesis, r=0.0, names=ONE):
    R, right, _ = read_hypothesis(hypothesis, r, names)
    return R.tolist(), right.tolist()


# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "R", "r"),
    [
        ("age = 0", [[1, 0, 0, 0, 0, 0]], [0]),
        ("age", [[1, 0, 0, 0, 0, 0]], [0]),
        ("age == 0", [[1, 0, 0, 0, 0, 0]], [0]),
        (" age=0 , dose = 0", [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]], [0, 0]),
        ("dose = 2*x1", [[0, 1, -2, 0, 0, 0]], [0]),
        ("3*age - dose = 1", [[3, -1, 0, 0, 0, 0]], [1]),
        ("1 = 3*age - dose", [[-3, 1, 0, 0, 0, 0]], [-1]),
        ("age*3 = 1e2", [[3, 0, 0, 0, 0, 0]], [100]),
        ("-(age + dose)/2 = x1 - 1.5 + 2*3", [[-0.5, -0.5, -1, 0, 0, 0]], [4.5]),
        ("age = dose = 0", [[1, -1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]], [0, 0]),
        ("`a b, c=d` = 1, age = 0", [[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]], [1, 0]),
        ("a b, c=d", [[0, 0, 0, 1, 0, 0]], [0]),  # the whole text is a column's name
        ("Sepal.Length = intercept", [[0, 0, 0, 0, 1, -1]], [0]),
        ("age + age = 0", [[2, 0, 0, 0, 0, 0]], [0]),
    ],
)
def test_equations_are_read(text, R, r):
    assert rows(text) == (R, r)


def test_a_list_holds_names_or_equations():
    assert rows(["age", "a b, c=d"]) == ([[1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]], [0, 0])
    assert rows(["age", "dose = 1"]) == ([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]], [0, 1])


def test_a_matrix_is_taken_as_it_is_and_r_is_spread():
    R = np.arange(12.0).reshape(2, 6)
    assert rows(R, 1.0) == (R.tolist(), [1, 1])
    assert rows(R[1], [2.0]) == ([R[1].tolist()], [2])


def test_python_words_and_other_alphabets_can_be_names():
    names = WeightNames(["lambda", "True", "größe", "e5"])
    assert rows("lambda = True, größe = 1e5*e5", names=names) == ([[1, -1, 0, 0], [0, 0, 1, -1e5]], [0, 0])


def test_a_column_without_a_class_is_the_same_for_all_classes():
    R, r = rows("dose", names=THREE)
    assert R == [[0, -1, 0, 0, 1, 0, 0, 0, 0], [0, -1, 0, 0, 0, 0, 0, 1, 0]]
    assert r == [0, 0]
    assert rows(["dose"], names=THREE) == (R, r)


def test_a_class_and_a_column_are_one_weight():
    assert rows("1:age = `sea bass`:dose + 2", names=THREE) == ([[1, 0, 0, 0, 0, 0, 0, -1, 0]], [2])
    assert rows("2*2:age = 0", names=THREE) == ([[0, 0, 0, 2, 0, 0, 0, 0, 0]], [0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee = 0", "agee.*age"),
        ("z = 0", "age, dose, x1"),
        ("age*dose = 0", "not linear"),
        ("age**2 = 0", "not linear"),
        ("1/age = 0", "not linear"),
        ("age/0 = 0", "not linear"),
        ("age(dose) = 0", "not linear"),
        ("age = 1e999", "not linear"),
        ("age = 0,", "read"),
        ("age = = 0", "read"),
        ("2age = 0", "read"),
        ("age = `dose", "read"),
        ("", "read"),
        ("1:age = 0", "1:age"),
    ],
)
def test_what_is_no_linear_equation_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        read_hypothesis(text, 0.0, ONE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age = 1", "age = 1"),
        ("age = 1:dose", "age = 1:dose"),
        ("4:age = 0", "'4'"),
    ],
)
def test_with_several_classes_some_equations_have_no_meaning(text, message):
    with pytest.raises(InputError, match=message):
        read_hypothesis(text, 0.0, THREE)


@pytest.mark.parametrize(
    ("hypothesis", "r"),
    [
        (np.eye(5), 0.0),
        (np.zeros((0, 6)), 0.0),
        (np.zeros((1, 1, 6)), 0.0),
        (np.eye(6), [1.0, 2.0]),
        (np.full((1, 6), np.nan), 0.0),
        (object(), 0.0),
        ("age = 0", 1.0),
        ([], 0.0),
    ],
)
def test_matrices_that_do_not_fit_are_refused(hypothesis, r):
    with pytest.raises(InputError):
        read_hypothesis(hypothesis, r, ONE)


def test_a_name_that_two_weights_have_is_refused():
    with pytest.raises(InputError, match="'intercept'"):
        read_hypothesis("intercept = 0", 0.0, WeightNames(["intercept", "intercept"]))


# --- Wald ---------------------------------------------------------------------------------------------------


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    return rng.normal(size=4), root @ root.T, rng.normal(size=(2, 4)), rng.normal(size=2)


def constraints(A, r):
    return in_coordinates(Constraints(A, r, [f"row {i}" for i in range(len(A))]), np.eye(A.shape[1]))


def test_the_statistic_is_walds(problem):
    u, C, A, r = problem
    gap = A @ u - r
    found = wald(u, C, constraints(A, r))
    assert_allclose(found.statistic, gap @ np.linalg.solve(A @ C @ A.T, gap), rtol=1e-12)
    assert found.df == 2
    assert_allclose(found.pvalue, chi2.sf(found.statistic, 2), rtol=1e-13)


def test_equivalent_equations_give_the_same_statistic(problem):
    u, C, A, r = problem
    mixed = np.array([[2.0, 1e6], [-1e-3, 5.0]])
    assert_allclose(
        wald(u, C, constraints(mixed @ A, mixed @ r)).statistic, wald(u, C, constraints(A, r)).statistic, rtol=1e-10
    )


def test_a_slope_and_an_intercept_far_from_the_data_are_tested_without_loss():
    """In data units A C Aᵀ has a condition number of 1e16; the exact answer is u² for unit C."""
    far = 1e8
    A = np.array([[1.0, 0.0], [-far, 1.0]])
    u = np.array([0.3, 0.4])
    assert_allclose(wald(u, np.eye(2), constraints(A, np.zeros(2))).statistic, 0.25, rtol=1e-7)


def test_equations_that_repeat_others_are_named(problem):
    _, _, A, r = problem
    with pytest.raises(InputError, match="'row 2'"):
        constraints(np.vstack([A, A.sum(axis=0)]), np.append(r, 0.0))


def test_an_equation_about_nothing_is_refused():
    T = np.array([[1.0], [-1.0]]) / np.sqrt(2)  # two weights that add to zero
    with pytest.raises(InputError, match="'sum'"):
        in_coordinates(Constraints(np.array([[1.0, 1.0]]), np.zeros(1), ["sum"]), T)


def test_a_singular_covariance_is_refused(problem):
    u, _, A, r = problem
    with pytest.raises(InputError, match="singular"):
        wald(u, np.outer(u, u), constraints(A, r))


def test_a_result_says_what_it_is():
    found = HypothesisResult("Wald test", 9.21034037197618, 2)
    assert repr(found) == "Wald test: χ² = 9.21 on 2 df, p = 0.01"
    assert HypothesisResult("Wald test", 2000.0, 1).pvalue == 0.0
    assert 0 < HypothesisResult("Wald test", 1000.0, 1).pvalue < 1e-200  # 1 - cdf would be zero long before
