"""Separated or not: against integer arithmetic on small tables, published cases, and the law that forbids both."""

import sys
import time
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_array, csr_matrix, hstack, identity
from scipy.special import expit, softmax
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from credibly import separation
from credibly.diagnostics import separating_direction
from credibly.diagnostics.overlap import Climb, Pairs, climb, overlap_is_certain, proves_overlap, span_and_null
from credibly.errors import InputError
from helpers import needs_shared

# --- An exact answer ----------------------------------------------------------------------------------------


def with_ones(X, intercept=True):
    return np.column_stack([X, np.ones(len(X), dtype=np.asarray(X).dtype)]) if intercept else np.asarray(X)


def gap_matrix(Z, y):
    """One row per pair (row, other class), the first class left out, and the pairs."""
    n_classes = max(y) + 1
    pairs = [(i, k) for i, k in product(range(len(y)), range(n_classes)) if k != y[i]]
    G = np.zeros((len(pairs), n_classes, Z.shape[1]), dtype=Z.dtype)
    for p, (i, k) in enumerate(pairs):
        G[p, y[i]] += Z[i]
        G[p, k] -= Z[i]
    return G[:, 1:].reshape(len(pairs), -1), pairs


def exact_strict(X, y, intercept=True):
    """(n, K) mask of the pairs that some separating direction puts strictly on their side.

    max Σ t subject to t ≤ gap, 0 ≤ t ≤ 1, by the simplex method in integers: Edmonds' pivots (every division is
    exact) and Bland's rule (no cycles). A pair is strict when its t can be one; by convexity all can be so at once.
    """
    G, pairs = gap_matrix(with_ones(np.asarray(X, dtype=np.int64), intercept), y)
    (m, size), one = G.shape, np.eye(len(pairs), dtype=np.int64)
    zero, wide, column = 0 * one, np.zeros((m, 2 * size), dtype=np.int64), np.zeros((m, 1), dtype=np.int64)
    goal = np.zeros((1, 2 * size + 3 * m + 1), dtype=np.int64)
    goal[0, 2 * size : 2 * size + m] = -1
    # columns: positive and negative part of the weights, t, slack of t ≤ gap, slack of t ≤ 1, right-hand side
    T = np.vstack([np.hstack([-G, G, one, one, zero, column]), np.hstack([wide, one, zero, one, column + 1]), goal])
    basis, pivot = np.arange(2 * size + m, 2 * size + 3 * m), 1
    while (T[-1, :-1] < 0).any():
        enter = int(np.argmax(T[-1, :-1] < 0))
        candidates = np.flatnonzero(T[:-1, enter] > 0)
        leave = candidates[0]
        for r in candidates[1:]:
            mine, best = T[r, -1] * T[leave, enter], T[leave, -1] * T[r, enter]
            if mine < best or (mine == best and basis[r] < basis[leave]):
                leave = r
        row, new_pivot = T[leave].copy(), T[leave, enter]
        T = (new_pivot * T - np.outer(T[:, enter], row)) // pivot
        T[leave], basis[leave], pivot = row, enter, new_pivot
        assert np.abs(T).max() < 2**31  # so that no product overflows
    value = np.zeros(2 * size + 3 * m)
    value[basis] = T[:-1, -1] / pivot
    strict = np.zeros((len(y), max(y) + 1), dtype=bool)
    strict[tuple(np.transpose(pairs))] = value[2 * size : 2 * size + m] == 1
    return strict


def small_problem(rng):
    """Up to 12 rows on an integer grid, one or two columns, two or three classes, half of them with a signal."""
    n_classes, d = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    n = int(rng.integers(n_classes, 13))
    X = rng.integers(0, int(rng.integers(2, 7)), size=(n, d))
    y = rng.integers(0, n_classes, size=n)
    if rng.random() < 0.5:
        s = 2 * X[:, 0] - X[:, -1] + rng.integers(0, 2, size=n)
        y = np.searchsorted(np.quantile(s, np.arange(1, n_classes) / n_classes), s)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def kind_of(settled):
    """`settled`: strict pairs, and the row's own class."""
    return "complete" if settled.all() else "quasi-complete"


def assert_right(X, y, intercept, found, strict):
    """Kind, rows, direction and columns, all from the exact set of strict pairs."""
    own = np.arange(max(y) + 1) == np.asarray(y)[:, None]
    assert found.kind == (kind_of(strict | own) if strict.any() else "none")
    assert bool(found) == strict.any()
    assert_array_equal(found.rows, np.flatnonzero((strict | own).all(axis=1)))
    B = np.vstack([0 * found.direction, found.direction]) if max(y) == 1 else found.direction
    f = with_ones(np.asarray(X, dtype=float), intercept) @ B.T
    gaps = f[own][:, None] - f
    size = np.abs(gaps).max()
    assert (gaps[strict] > 1e-9 * size).all()  # integers below 7 in 3 columns: true gaps are far larger
    assert np.abs(gaps[~strict]).max(initial=0) <= 1e-12 * size
    unused = [j for j in range(X.shape[1]) if j not in found.columns]
    assert (B[:, unused] == B[:1, unused]).all()


def assert_names_what_is_needed(X, y, intercept, found, strict):
    """Without the columns not named, the same pairs are strict; without one that is named, fewer are."""
    assert_array_equal(exact_strict(X[:, found.columns], y, intercept), strict)
    for j in found.columns:
        fewer = [it for it in found.columns if it != j]
        assert (exact_strict(X[:, fewer], y, intercept) != strict).any()


@pytest.mark.parametrize("seed", range(3))
def test_small_tables_agree_with_integer_arithmetic(seed):
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(80):
        (X, y), intercept = small_problem(rng), rng.random() < 0.7
        strict, found = exact_strict(X, y, intercept), separation(X, y, intercept)
        assert_right(X, y, intercept, found, strict)
        if found:
            assert_names_what_is_needed(X, y, intercept, found, strict)
        seen.add((found.kind, max(y)))
    assert seen == set(product(["none", "quasi-complete", "complete"], [1, 2]))


def test_the_programme_alone_gives_the_same_answers(monkeypatch):
    """Newton steps are a short cut: without them the linear programme decides everything."""

    def nowhere(pairs, span):
        return Climb(False, np.zeros(pairs.shape), None)

    monkeypatch.setattr(separating_direction, "climb", nowhere)
    monkeypatch.setattr(sys.modules["credibly.diagnostics.separation"], "climb", nowhere)
    rng = np.random.default_rng(11)
    for _ in range(60):
        X, y = small_problem(rng)
        assert_right(X, y, True, separation(X, y), exact_strict(X, y))


def strict_by_one_programme(X, y):
    """The same largest set for tables of some size: max Σ t at once, by HiGHS, on small integers."""
    G, pairs = gap_matrix(with_ones(X.astype(float)), y)
    m, size = G.shape
    rows = hstack([csr_array(-G), identity(m)])
    cost = np.append(np.zeros(size), -np.ones(m))
    bounds = [(None, None)] * size + [(0, 1)] * m
    t = linprog(cost, A_ub=rows, b_ub=np.zeros(m), bounds=bounds).x[size:]
    assert (np.minimum(t, 1 - t) < 1e-6).all()  # the solver's tolerance is 1e-7
    strict = np.zeros((len(y), max(y) + 1), dtype=bool)
    strict[tuple(np.transpose(pairs))] = t > 0.5
    return strict


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_larger_tables_agree_with_one_programme_over_all_rows(n_classes, seed):
    """400 rows: many more than are looked at first. Rare binary columns, some of which rule out a class."""
    rng = np.random.default_rng(seed)
    X = (rng.random((400, 6)) < rng.uniform(0.005, 0.3, size=6)).astype(int)
    y = (X @ rng.normal(size=(6, n_classes)) + rng.gumbel(size=(400, n_classes))).argmax(axis=1)
    y = np.where(X[:, 0] > 0, n_classes - 1, y) if seed % 2 else y
    assert_right(X, y, True, separation(X, y), strict_by_one_programme(X, y))


# --- Published cases ----------------------------------------------------------------------------------------


@needs_shared
def test_the_diaphragm_of_the_urinary_tract_data_is_named_with_its_seven_rows(refload):
    case = refload.load("separation")["cases"]["sex2_dia"]
    X, y, _ = refload.design(case["design"])
    found = separation(pd.DataFrame(X[:, 1:], columns=case["coef_names"][1:]), y)
    assert (found.kind, found.columns) == ("quasi-complete", ["dia"])
    assert_array_equal(found.rows, np.flatnonzero(X[:, case["coef_names"].index("dia")]))
    assert len(found.rows) == case["rows_strictly_separated_by_lp"] == 7
    assert_allclose(found.direction[:-1] / found.direction[5], np.eye(6)[5], atol=1e-12)


def test_iris_setosa_is_separated_and_the_other_two_are_not():
    X, y = load_iris(return_X_y=True, as_frame=True)
    setosa = separation(X, y == 0)
    assert (setosa.kind, len(setosa.columns), len(setosa.rows)) == ("complete", 1, 150)
    assert separation(X[y > 0], y[y > 0]).kind == "none"
    three = separation(X, y)  # setosa against each of the others
    assert three.kind == "quasi-complete"
    assert_array_equal(three.rows, np.flatnonzero(y == 0))


@pytest.mark.parametrize(
    ("x", "y", "kind", "rows"),
    [
        ([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1], "complete", range(6)),  # Albert & Anderson's three cases on a line
        ([1, 2, 3, 3, 4, 5], [0, 0, 0, 1, 1, 1], "quasi-complete", [0, 1, 4, 5]),
        ([1, 2, 4, 3, 4, 5], [0, 0, 0, 1, 1, 1], "none", []),
    ],
)
def test_on_a_line_the_largest_and_smallest_values_decide(x, y, kind, rows):
    found = separation(np.array(x)[:, None], y)
    assert found.kind == kind
    assert_array_equal(found.rows, rows)


def test_every_column_that_rules_out_a_class_is_named():
    rng = np.random.default_rng(0)
    X = (rng.random((500, 6)) < 0.1).astype(float)
    y = np.where(X[:, 1] + X[:, 4] > 0, 1, rng.integers(0, 2, 500))
    found = separation(X, y)
    assert (found.kind, found.columns) == ("quasi-complete", [1, 4])
    assert_array_equal(found.rows, np.flatnonzero(X[:, 1] + X[:, 4]))


def test_a_column_that_separates_only_after_another_has_is_named_too():
    """x separates all but the rows at 0; among those the second column does: two steps of peeling."""
    X = np.array([[-1, 0], [1, 0], [1, 5], [-1, -5], [0, 1], [0, 0], [0, 0], [0, 1], [0, 2]])
    y = [0, 1, 1, 0, 1, 0, 1, 1, 1]
    found = separation(X, y)
    assert found.columns == [0, 1]
    assert_array_equal(found.rows, [0, 1, 2, 3, 4, 7, 8])


def test_thresholds_on_one_column_are_the_plainest_explanation_for_any_number_of_classes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 5))
    y = np.array([2, 0, 3, 1])[np.digitize(X[:, 3], [-1, 0, 0.5])]
    found = separation(X, y)
    assert (found.kind, found.columns) == ("complete", [3])
    assert_array_equal((with_ones(X) @ found.direction.T).argmax(axis=1), y)


def test_few_columns_are_named_when_few_suffice():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 20))
    found = separation(X, X[:, 4] - X[:, 9] + X[:, 15] > 0.1)
    assert (found.kind, found.columns) == ("complete", [4, 9, 15])


# --- Units, shapes and kinds of table -----------------------------------------------------------------------

N = 240
RNG = np.random.default_rng(3)
NORMAL = RNG.normal(size=(N, 3))
NOISY = (RNG.random(N) < expit(NORMAL @ [1, -1, 0.5])).astype(int)
RARE = np.isin(np.arange(N), RNG.permutation(N)[:12])
TABLES = {
    "none": (NORMAL, NOISY),
    "quasi-complete": (np.column_stack([NORMAL, RARE]), np.where(RARE, 1, NOISY)),
    "complete": (NORMAL, (NORMAL @ [1.0, -1.0, 0.5] > 0).astype(int)),
}
EVERY_KIND = pytest.mark.parametrize("kind", TABLES)
CHANGES = {
    "units": lambda X: X * 10.0 ** np.linspace(-8, 8, X.shape[1]),
    "tiny": lambda X: X * 1e-150,
    "huge": lambda X: X * 1e150,
    "offsets": lambda X: X + 1e6,
    "float32": lambda X: X.astype(np.float32),
    "sparse": csr_matrix,
    "coordinates": coo_matrix,
    "list": lambda X: X.tolist(),
    "a constant column": lambda X: np.column_stack([X, np.full(len(X), 3.0)]),
    "a column twice": lambda X: np.column_stack([X, -2 * X[:, 0]]),
    "a sum of columns": lambda X: np.column_stack([X, X.sum(axis=1)]),
    "a column nearly twice": lambda X: np.column_stack([X, X[:, 0] + 1e-13 * (np.arange(len(X)) % 7)]),
}


@EVERY_KIND
@pytest.mark.parametrize("change", CHANGES)
def test_units_offsets_formats_and_dependent_columns_do_not_matter(kind, change):
    X, y = TABLES[kind]
    plain, found = separation(X, y), separation(CHANGES[change](X), y)
    assert found.kind == plain.kind == kind
    assert_array_equal(found.rows, plain.rows)
    assert len(found.columns) <= len(plain.columns)
    if kind == "quasi-complete":
        assert found.columns == [3]


@EVERY_KIND
def test_an_outlying_row_does_not_hide_the_others(kind):
    X, y = TABLES[kind]
    far = np.vstack([X, 1e10 * X[np.argmax(y)]])  # on its own side, if there is one
    assert separation(far, np.append(y, 1)).kind == kind


@EVERY_KIND
def test_neither_order_nor_repetition_of_rows_matters(kind):
    X, y = TABLES[kind]
    plain = separation(X, y)
    order = np.random.default_rng(0).permutation(3 * N)
    found = separation(np.tile(X, (3, 1))[order], np.tile(y, 3)[order])
    assert found.kind == kind
    assert_array_equal(found.rows, np.flatnonzero(np.isin(order % N, plain.rows)))


@EVERY_KIND
def test_names_and_labels_may_be_words(kind):
    X, y = TABLES[kind]
    names = ["a", "b", "c", "d"][: X.shape[1]]
    plain = separation(X, y)
    found = separation(pd.DataFrame(X, columns=names), pd.Series(np.where(y == 1, "yes", "no")))
    assert found.kind == kind
    assert found.columns == [names[j] for j in plain.columns]
    assert_array_equal(found.direction, plain.direction)
    text = str(found)
    assert ("overlap" in text) if kind == "none" else (kind in text and all(repr(it) in text for it in found.columns))


def test_columns_may_be_true_and_false():
    X, y = TABLES["quasi-complete"]
    found = separation(X[:, 3:].astype(bool), y)
    assert (found.kind, found.columns, len(found.rows)) == ("quasi-complete", [0], 12)


def test_with_as_many_free_columns_as_rows_any_labels_are_separated():
    rng = np.random.default_rng(4)
    for n_classes in (2, 3):
        found = separation(rng.normal(size=(9, 20)), np.arange(9) % n_classes)
        assert (found.kind, len(found.rows)) == ("complete", 9)
        assert len(found.columns) < 9


def test_rows_that_are_equal_are_never_told_apart():
    assert separation(np.ones((4, 2)), [0, 1, 0, 1]).kind == "none"
    assert separation(np.zeros((4, 2)), [0, 1, 0, 1], fit_intercept=False).kind == "none"
    assert separation(np.zeros((4, 0)), [0, 1, 0, 1]).kind == "none"
    assert separation(np.zeros((4, 0)), [0, 1, 0, 1], fit_intercept=False).kind == "none"


def test_without_an_intercept_thresholds_are_at_zero():
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    assert separation(x, [0, 0, 1, 1]).kind == "complete"
    assert separation(x, [0, 0, 1, 1], fit_intercept=False).kind == "none"
    assert separation(x - 2.5, [0, 0, 1, 1], fit_intercept=False).kind == "complete"


def test_a_class_of_one_row_inside_the_others_is_not_separated_and_outside_it_is():
    X, y = NORMAL, np.where(NOISY, 1, 0)
    X = np.vstack([X, X.mean(axis=0)])
    assert separation(X, np.append(y, 2)).kind == "none"
    X[-1] += [50.0, 0.0, 0.0]
    found = separation(X, np.append(y, 2))
    assert (found.kind, found.columns) == ("quasi-complete", [0])
    assert_array_equal(found.rows, [N])


@pytest.mark.parametrize("by", [1e-3, 1e-6, 1e-9])
def test_overlap_by_a_hair_is_overlap_and_a_gap_of_a_hair_is_separation(by):
    x = np.linspace(-2, 2, 40)
    y = (x > 0).astype(int)
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    for side, kind in ((1, "none"), (-1, "complete")):
        x[19], x[20] = side * by, -side * by
        assert separation(x[:, None], y).kind == kind
        mirrored = np.column_stack([np.tile(x, 2), np.repeat([1.0, -1.0], 40)])  # a slope across is no help
        assert separation(mirrored @ turned, np.tile(y, 2)).kind == kind


def test_a_direction_for_three_classes_may_rule_out_a_class_without_settling_any_row():
    x = np.repeat([0.0, 1.0], 6)[:, None]
    found = separation(x, [0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2])
    assert (found.kind, found.columns, len(found.rows)) == ("quasi-complete", [0], 0)
    f = with_ones(x) @ found.direction.T
    assert_allclose(f[:6, :2].T, np.stack([f[:6, 0]] * 2), atol=1e-12)
    assert (f[:6, 2] < f[:6, 0]).all()
    assert_allclose(f[6:], np.stack([f[6:, 0]] * 3, axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[np.nan], [1.0]], [0, 1], "NaN or infinite"),
        ([[np.inf], [1.0]], [0, 1], "NaN or infinite"),
        ([[1.0], [2.0]], [0, 0], "1 classes"),
        ([[1.0], [2.0]], [0, 1, 1], r"labels of shape \(3,\)"),
        ([[1.0], [2.0]], [[0], [1]], r"labels of shape \(2, 1\)"),
        ([1.0, 2.0], [0, 1], r"shape \(2,\)"),
        ([["a"], ["b"]], [0, 1], "numbers"),
        ([[1.0], [2.0]], [0.0, np.nan], "with NaN"),
        ([[1.0], [2.0]], [None, 1], "sorted"),
        (np.zeros((0, 2)), [], "0 classes"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(X, y, message):
    with pytest.raises(InputError, match=message):
        separation(X, y)


# --- The proof of overlap -----------------------------------------------------------------------------------


def fitted(X, y, C=np.inf):
    model = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(X, y)
    return model.predict_proba(X)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_fit_to_overlapping_classes_proves_that_they_overlap(n_classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 8))
    y = (X @ rng.normal(size=(8, n_classes)) + rng.gumbel(size=(2000, n_classes))).argmax(axis=1)
    proba = fitted(X, y)
    assert overlap_is_certain(with_ones(X), y, proba)
    if n_classes == 2:
        assert overlap_is_certain(with_ones(X), y, proba[:, 1])


def test_a_fit_that_has_not_converged_can_prove_it_too():
    X, y = TABLES["none"]
    assert overlap_is_certain(with_ones(X), y, fitted(X, y, C=1.0))


def test_probabilities_that_underflow_are_no_obstacle():
    """A row far out on its own side: its probability of the other class is zero in floating point."""
    X, y = np.vstack([NORMAL, [900.0, -900.0, 450.0]]), np.append(NOISY, 1)
    proba = softmax(with_ones(X) @ np.array([[0, 0, 0, 0], [1.0, -1.0, 0.5, 0.0]]).T, axis=1)
    assert proba[-1, 0] == 0
    assert overlap_is_certain(with_ones(X), y, proba)


def test_weights_of_rows_belong_to_the_multipliers():
    X, y = TABLES["none"]
    weight = np.exp(3 * np.random.default_rng(6).normal(size=N))
    proba = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y, sample_weight=weight).predict_proba(X)
    assert overlap_is_certain(with_ones(X), y, proba, weight)
    assert not overlap_is_certain(with_ones(X), y, proba)


@pytest.mark.parametrize("kind", ["quasi-complete", "complete"])
@pytest.mark.parametrize("size", [0.0, 1.0, 10.0, 100.0, 1000.0])
def test_no_probabilities_prove_overlap_of_separated_classes(kind, size):
    """Along the direction, the farther the more confident, and with the best fit of the other rows: still no proof."""
    X, y = TABLES[kind]
    found = separation(X, y)
    Z = with_ones(X)
    rest = np.setdiff1d(np.arange(N), found.rows)
    best = np.zeros(Z.shape[1])
    if len(rest):
        model = LogisticRegression(C=np.inf, tol=1e-10).fit(X[rest, :3], y[rest])
        best = np.append(np.append(model.coef_[0], 0.0), model.intercept_[0])
    f = Z @ (best + size * found.direction / np.abs(found.direction).max())
    assert not overlap_is_certain(Z, y, softmax(np.column_stack([0 * f, f]), axis=1))


def test_on_small_tables_a_proof_is_never_wrong_and_never_missing():
    rng = np.random.default_rng(7)
    overlapping = proven = 0
    for _ in range(200):
        X, y = small_problem(rng)
        Z, n_classes = with_ones(X.astype(float)), max(y) + 1
        separated = exact_strict(X, y).any()
        for scale in (0.0, 1.0, 5.0, 30.0):
            proba = softmax(scale * Z @ rng.normal(size=(Z.shape[1], n_classes)), axis=1)
            assert not (separated and overlap_is_certain(Z, y, proba))
        pairs = Pairs.of(Z, y, n_classes)
        walked = climb(pairs, span_and_null(pairs)[0])
        assert not (separated and walked.overlap)
        overlapping, proven = overlapping + (not separated), proven + walked.overlap
    assert proven == overlapping > 40


def test_a_class_without_rows_and_dependent_columns_are_left_to_the_programme():
    X, y = TABLES["none"]
    Z, proba = with_ones(X), fitted(X, y)
    assert not overlap_is_certain(Z, y, np.column_stack([proba * 0.9, np.full(N, 0.1)]))
    assert not overlap_is_certain(np.column_stack([Z, Z[:, 0]]), y, proba)


def test_the_corrected_multipliers_solve_the_equation():
    """The proof by hand: e = 1 - A(AᵀA)⁻¹Aᵀ1 is positive, and λe is orthogonal to every column."""
    X, y = TABLES["none"]
    Z, proba = with_ones(X), fitted(X, y, C=1.0)
    A = np.where(y == 1, proba[:, 0], -proba[:, 1])[:, None] * Z
    e = 1 - A @ np.linalg.lstsq(A, np.ones(N), rcond=None)[0]
    assert_allclose(A.T @ e, 0, atol=1e-10)
    pairs = Pairs.of(Z, y, 2)
    assert proves_overlap(pairs, proba, np.eye(4)) == (e.min() > 1e-3)


def test_pairs_add_up_to_gradient_information_and_gram_matrix():
    """For three classes, against the written-out rows g_ik = (e_y - e_k) ⊗ z_i."""
    rng = np.random.default_rng(8)
    Z, y, B = rng.normal(size=(30, 4)), np.arange(30) % 3, rng.normal(size=(2, 4))
    G, at = gap_matrix(Z, y)
    pairs, weight = Pairs.of(Z, y, 3), rng.random((30, 3))
    flat = weight[tuple(np.transpose(at))]
    assert_allclose(pairs.gaps(B)[tuple(np.transpose(at))], G @ B.reshape(-1), rtol=1e-12)
    assert_allclose(pairs.total(weight).reshape(-1), G.T @ flat, rtol=1e-12, atol=1e-13)
    assert_allclose(pairs.gram(weight), (G.T * flat) @ G, rtol=1e-11, atol=1e-12)
    proba = softmax(rng.normal(size=(30, 3)), axis=1)
    full = sum(np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z)) for p, z in zip(proba, Z, strict=True))
    assert_allclose(pairs.information(proba), full[4:, 4:], rtol=1e-11, atol=1e-12)


# --- Speed --------------------------------------------------------------------------------------------------


def large(kind):
    rng = np.random.default_rng(9)
    X, w = rng.normal(size=(10_000, 50)), rng.normal(size=50)
    y = (rng.random(10_000) < expit(X @ w / 4)).astype(int)
    if kind == "complete":
        return X, (X @ w > 0).astype(int)
    if kind == "quasi-complete":
        X[:, 7] = rng.random(10_000) < 0.02
        return X, np.where(X[:, 7] == 1, 1, y)
    return X, y


@EVERY_KIND
def test_ten_thousand_rows_and_fifty_columns_take_less_than_a_second(kind):
    X, y = large(kind)
    separation(X[:100], y[:100])  # imports
    spent = time.process_time()
    found = separation(X, y)
    spent = time.process_time() - spent
    assert found.kind == kind
    assert kind != "quasi-complete" or found.columns == [7]
    assert spent < 1.0  # measured: 0.1 to 0.3 seconds of processor time


def test_overlap_is_proven_without_a_programme(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a linear programme was solved")

    monkeypatch.setattr(separating_direction, "_solve", refuse)
    assert separation(*large("none")).kind == "none"
