"""Hypotheses as they are read, Wald's formula, sandwiches, and profiles where they are known exactly."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.stats import chi2

from credibly.data.rows import MemoryRows
from credibly.errors import InputError, NotPositiveDefinite
from credibly.inference.hypotheses import (
    Constraints,
    HypothesisResult,
    WeightNames,
    about_free_weights,
    read_hypothesis,
    wald,
)
from credibly.inference.objective import Objective
from credibly.inference.profile import Profile, cut_by_plane
from credibly.inference.sandwich import curvature_is_expected, sum_of_squares
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.model.likelihoods.families import Binomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Log, Logit, Power, Probit
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton
from credibly.numerics.status import Local

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
        ("agee = 0", "No column is called 'agee'. Did you mean 'age'"),
        ("z = 0", "There are: age, dose, x1"),
        ("age*dose = 0", "not linear"),
        ("age**2 = 0", "not linear"),
        ("1/age = 0", "not linear"),
        ("age/0 = 0", "not linear"),
        ("age(dose) = 0", "not linear"),
        ("age = 1e999", "not linear"),
        ("age = 0,", "cannot be read"),
        ("age = = 0", "cannot be read"),
        ("2age = 0", "cannot be read"),
        ("age = `dose", "cannot be read"),
        ("", "cannot be read"),
        ("1:age = 0", "one weight vector"),
    ],
)
def test_what_is_no_linear_equation_is_refused(text, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        read_hypothesis(text, 0.0, ONE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age = 1", "can only be without effect"),
        ("age = 1:dose", "can only be without effect"),
        ("4:age = 0", "No class is called '4'"),
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
    with pytest.raises(InputError, match="2 weights called 'intercept'"):
        read_hypothesis("intercept = 0", 0.0, WeightNames(["intercept", "intercept"]))


# --- Wald ---------------------------------------------------------------------------------------------------


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    return rng.normal(size=4), root @ root.T, rng.normal(size=(2, 4)), rng.normal(size=2)


def constraints(A, r):
    return about_free_weights(Constraints(A, r, [f"row {i}" for i in range(len(A))]), np.eye(A.shape[1]))


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
    with pytest.raises(InputError, match="'row 2' follows from those before it"):
        constraints(np.vstack([A, A.sum(axis=0)]), np.append(r, 0.0))


def test_an_equation_about_nothing_is_refused():
    T = np.array([[1.0], [-1.0]]) / np.sqrt(2)  # two weights that add to zero
    with pytest.raises(InputError, match="says nothing"):
        about_free_weights(Constraints(np.array([[1.0, 1.0]]), np.zeros(1), ["sum"]), T)


def test_a_singular_covariance_is_refused(problem):
    u, _, A, r = problem
    with pytest.raises(InputError, match="singular"):
        wald(u, np.outer(u, u), constraints(A, r))


def test_a_result_says_what_it_is():
    found = HypothesisResult("Wald test", 9.21034037197618, 2)
    assert repr(found) == "Wald test: χ² = 9.21 on 2 df, p = 0.01"
    assert HypothesisResult("Wald test", 2000.0, 1).pvalue == 0.0
    assert 0 < HypothesisResult("Wald test", 1000.0, 1).pvalue < 1e-200  # 1 - cdf would be zero long before


# --- profiles -----------------------------------------------------------------------------------------------


def quadratic(H, mean):
    def expand(u):
        gap = u - mean
        return Local(float(gap @ H @ gap) / 2, H @ gap, PSD.of(H, "H"))

    return expand


def test_the_profile_of_a_quadratic_is_the_normal_interval(problem):
    mean, H, A, _ = problem
    expand = quadratic(H, mean)
    best = newton(expand, np.zeros(4))
    for a in A:
        se = np.sqrt(a @ np.linalg.solve(H, a))
        for side in (-1, 1):
            assert_allclose(
                Profile(expand, cut_by_plane(expand), best, a).limit(1.96, side),
                a @ mean + side * 1.96 * se,
                rtol=1e-10,
            )


def test_one_weight_needs_no_search():
    """k of n labels: l(f) = k f - n log(1 + e^f); the limits solve 2 (l_max - l) = z² directly."""
    k, n, z = 3.0, 10.0, 1.5

    def loss(f):
        return n * np.logaddexp(0, f) - k * f

    def expand(u):
        p = 1 / (1 + np.exp(-u))
        return Local(float(loss(u[0])), n * p - k, PSD.of(np.diag(n * p * (1 - p)), "H"))

    best = newton(expand, np.zeros(1))
    for side in (-1, 1):
        want = brentq(lambda f: 2 * (loss(f) - best.local.value) - z**2, best.x[0], best.x[0] + side * 20, xtol=1e-13)
        assert_allclose(
            Profile(expand, cut_by_plane(expand), best, np.array([2.0])).limit(z, side), 2 * want, rtol=1e-10
        )


def test_a_likelihood_that_levels_out_has_an_infinite_limit():
    """-log(1/2 + e^(-u²/2)) rises by log 3 in all; for z = 2 it would have to rise by z²/2 = 2."""

    def expand(u):
        e = np.exp(-(u @ u) / 2)
        grad = u * e / (0.5 + e)
        return Local(-float(np.log(0.5 + e)), grad, PSD.of(np.eye(2) * max(e / (0.5 + e), 1e-12), "H"))

    best = newton(expand, np.zeros(2))
    profile = Profile(expand, cut_by_plane(expand), best, np.array([1.0, 0.0]))
    assert_array_equal([profile.limit(2.0, side) for side in (-1, 1)], [-np.inf, np.inf])
    # a lower goal is reached, where log(3/2) - log(1/2 + e^(-u²/2)) = z²/2
    z = 1.0
    e = 1.5 * np.exp(-(z**2) / 2) - 0.5
    assert_allclose(profile.limit(z, 1), np.sqrt(-2 * np.log(e)), rtol=1e-9)


def test_a_wall_on_the_way_is_walked_up_to():
    """-log(1 - u) - log(1 + u): finite inside (-1, 1) only; the limit is sqrt(1 - e^(-z²/2))."""

    def expand(u):
        if abs(u[0]) >= 1:
            raise NotPositiveDefinite("outside")
        a, b = 1 / (1 - u[0]), 1 / (1 + u[0])
        return Local(-float(np.log1p(-u[0]) + np.log1p(u[0])), np.array([a - b]), PSD.of(np.diag([a**2 + b**2]), "H"))

    best = newton(expand, np.zeros(1))
    z = 4.0
    assert_allclose(
        Profile(expand, cut_by_plane(expand), best, np.ones(1)).limit(z, 1), np.sqrt(-np.expm1(-(z**2) / 2)), rtol=1e-9
    )


def steep(u):
    """½u² + ¼u⁴."""
    return Local(float(u @ u / 2 + u @ u**3 / 4), u + u**3, PSD(np.diag(np.sqrt(1 + 3 * u**2))))


def outside(u, low, high):
    """The same, but not defined where its weight lies between these."""
    if low < abs(u[0]) < high:
        raise NotPositiveDefinite("outside")
    return steep(u)


def test_a_limit_that_cannot_be_searched_for_is_not_a_number():
    best, a = newton(steep, np.zeros(1)), np.ones(1)
    walled, holed = partial(outside, low=1e-9, high=np.inf), partial(outside, low=0.2, high=0.9)
    there = np.sqrt(np.sqrt(3) - 1)  # u² + ½u⁴ = 1
    assert_allclose(Profile(steep, cut_by_plane(steep), best, a).limit(1.0, 1), there, rtol=1e-12)
    assert np.isnan(Profile(walled, cut_by_plane(walled), best, a).limit(1.0, 1))
    assert np.isnan(Profile(holed, cut_by_plane(holed), best, a).limit(1.0, 1))


def test_a_search_under_the_constraint_that_stalls_gives_no_limit():
    def uphill(t):
        return Local(float(t @ t) / 2, -t - 1.0, PSD(np.eye(t.size)))  # no gradient of that function

    best = newton(steep, np.zeros(2))
    assert np.isnan(Profile(steep, lambda origin, N: uphill, best, np.array([1.0, 0.0])).limit(1.0, 1))


def test_the_profile_leaves_a_saddle_for_the_valleys_beside_it():
    """4v² + ½(1 - v²)w² + ¼w⁴: beyond v = 1 the best w is ±√(v² - 1), and the profile 4v² - ¼(v² - 1)²."""

    def expand(u):
        v, w = u
        value = 4 * v**2 + 0.5 * (1 - v**2) * w**2 + 0.25 * w**4
        H = np.array([[8 - w**2, -2 * v * w], [-2 * v * w, 1 - v**2 + 3 * w**2]])
        bends, V = np.linalg.eigh(H)
        grad = np.array([8 * v - v * w**2, (1 - v**2) * w + w**3])
        return Local(float(value), grad, PSD.of((V * np.abs(bends)) @ V.T, "|H|"), replaced=bool(bends[0] <= 0))

    best = newton(expand, np.zeros(2))
    profile = Profile(expand, cut_by_plane(expand), best, np.array([1.0, 0.0]))
    v = 1.5
    z = np.sqrt(2 * (4 * v**2 - 0.25 * (v**2 - 1) ** 2))
    assert_allclose([profile.limit(z, side) for side in (-1, 1)], [-v, v], rtol=1e-9)


# --- the middle of a sandwich -------------------------------------------------------------------------------


def test_a_proportion_of_trials_counts_as_its_labels():
    rng = np.random.default_rng(4)
    Z, trials = np.column_stack([rng.normal(size=6), np.ones(6)]), rng.integers(1, 6, size=6)
    successes = rng.binomial(trials, 0.4)
    u, link = np.array([0.7, -0.2]), Probit()
    grouped = MemoryRows(Z, successes / trials, trials.astype(float))
    labels = np.concatenate([np.r_[np.ones(s), np.zeros(m - s)] for s, m in zip(successes, trials, strict=True)])
    expanded = MemoryRows(np.repeat(Z, trials, axis=0), labels)
    by_proportion = sum_of_squares(Objective(FamilyLikelihood(Binomial(), link), grouped, None, np.eye(1)), u)
    by_label = sum_of_squares(Objective(BernoulliProbit(), expanded, None, np.eye(1)), u)
    assert_allclose(by_proportion, by_label, rtol=1e-12)


def test_which_likelihoods_have_the_expected_curvature():
    f = np.linspace(-2, 2, 5) + 3.0
    for likelihood, y in (
        (BernoulliLogit(), 1.0),
        (BernoulliProbit(), 1.0),
        (FamilyLikelihood(Binomial(), Probit()), 0.3),
        (FamilyLikelihood(Binomial(), Logit()), 0.3),
        (FamilyLikelihood(Poisson(), Log()), 4.0),
        (FamilyLikelihood(Poisson(), Power(0.5)), 4.0),
    ):
        at = likelihood.slopes(np.full(5, y), f).curvature, likelihood.information(f)
        assert curvature_is_expected(likelihood) == bool(np.allclose(*at, rtol=1e-10))
