"""Identities of the generative classifiers: sums that merge and forget, chain rules, marginals, and what cannot matter.

Laws of sums hold for complete labelled rows under explicit or reference priors, and for estimates. Where a logarithm
of a probability is compared to 1e-9 the tolerance is absolute near zero: log p of a certain class is the logarithm of
one minus something small, and has no more digits than that.
"""

from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from credibly import GenerativeClassifier, LinearDiscriminant, NaiveBayes, QuadraticDiscriminant
from credibly.class_conditionals import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    Independent,
    Multinomial,
    MultivariateGaussian,
    Poisson,
)
from credibly.errors import DataWarning
from credibly.estimators import generative_learning
from credibly.priors import Beta, Dirichlet, NormalInverseWishart
from credibly.priors import Gamma as GammaPrior

FIVE_STANDARD_ERRORS = 5.0
D = 3  # columns


# --- data of every kind -------------------------------------------------------------------------------------
# Each function draws n = len(codes) rows; `late` rows may have levels that the others have not.


def normal_columns(rng, codes, late=None):
    centres = 2 * rng.normal(size=(codes.max() + 1, D)) + rng.choice([0.0, 100.0])  # far from zero, sums cancel
    mixing = np.eye(D) + np.triu(rng.uniform(-1, 1, (D, D)), 1)  # never near singular: there sums keep fewer digits
    return centres[codes] + rng.normal(size=(len(codes), D)) @ mixing


def yes_or_no(rng, codes, late=None):
    return (rng.random((len(codes), D)) < rng.uniform(0.2, 0.8, (codes.max() + 1, D))[codes]).astype(float)


def categories(rng, codes, late=None):
    """Levels 0, 2, 4; in late rows also 1 and 7."""
    n_levels = np.full((len(codes), D), 3) if late is None else np.where(late, 5, 3)[:, None] + np.zeros(D, dtype=int)
    return np.array([0.0, 2.0, 4.0, 1.0, 7.0])[rng.integers(n_levels)]


def counts(rng, codes, late=None):
    return rng.poisson(rng.uniform(3, 12, (codes.max() + 1, D))[codes]).astype(float)


def times(rng, codes, late=None):
    return rng.gamma(2.5, rng.uniform(0.3, 3, (codes.max() + 1, D))[codes])


def mixed(rng, codes, late=None):
    n_levels = np.full(len(codes), 3) if late is None else np.where(late, 4, 3)
    return pd.DataFrame(
        {
            "height": normal_columns(rng, codes)[:, 0],
            "visits": counts(rng, codes)[:, 0],
            "member": yes_or_no(rng, codes)[:, 0].astype(bool),
            "colour": np.array(["red", "green", "blue", "aqua"])[rng.integers(n_levels)],
            "wait": times(rng, codes)[:, 0],
        }
    )


MIXED = ["gaussian", "poisson", "bernoulli", "categorical", "exponential"]
NIW = NormalInverseWishart(mean=0.5, mean_strength=0.3, scale=2.0, dof=D + 1.5)
BETA, DIRICHLET, GAMMA = Beta(0.7, 1.3), Dirichlet(0.8), GammaPrior(2.0, 0.5)


@dataclass
class Kind:
    """An estimator, the rows it is for, and an explicit prior."""

    estimator: Any
    rows: Any
    prior: Any
    gaussian: bool = False  # columns that depend on each other
    draws: bool = True  # whether it can be sampled


KINDS = {
    "lda": Kind(LinearDiscriminant(), normal_columns, NIW, gaussian=True),
    "qda": Kind(QuadraticDiscriminant(), normal_columns, NIW, gaussian=True),
    "lda shrunk": Kind(LinearDiscriminant(shrinkage=0.3), normal_columns, NIW, gaussian=True, draws=False),
    "nb gaussian": Kind(NaiveBayes(features="gaussian"), normal_columns, NIW),
    "nb bernoulli": Kind(NaiveBayes(features="bernoulli"), yes_or_no, BETA),
    "nb categorical": Kind(NaiveBayes(features="categorical"), categories, DIRICHLET),
    "nb poisson": Kind(NaiveBayes(features="poisson"), counts, GAMMA),
    "nb mixed": Kind(NaiveBayes(features=MIXED), mixed, [NIW, GAMMA, BETA, DIRICHLET, GAMMA]),
    "shared": Kind(GenerativeClassifier(MultivariateGaussian("shared")), normal_columns, NIW, gaussian=True),
    "per class": Kind(GenerativeClassifier(MultivariateGaussian("per_class")), normal_columns, NIW, gaussian=True),
    "diagonal": Kind(GenerativeClassifier(MultivariateGaussian("diagonal")), normal_columns, NIW),
    "spherical": Kind(GenerativeClassifier(MultivariateGaussian("spherical")), normal_columns, NIW),
    "gaussian": Kind(GenerativeClassifier(Gaussian()), normal_columns, NIW),
    "bernoulli": Kind(GenerativeClassifier(Bernoulli()), yes_or_no, BETA),
    "categorical": Kind(GenerativeClassifier(Categorical()), categories, DIRICHLET),
    "multinomial": Kind(GenerativeClassifier(Multinomial()), counts, DIRICHLET, draws=False),
    "poisson": Kind(GenerativeClassifier(Poisson()), counts, GAMMA),
    "exponential": Kind(GenerativeClassifier(Exponential()), times, GAMMA),
    "gamma": Kind(GenerativeClassifier(Gamma(2.5)), times, GAMMA),
    "independent": Kind(
        GenerativeClassifier(Independent([Gaussian(), Gamma(1.5), Exponential()])), times, [NIW, GAMMA, GAMMA]
    ),
}
EVERY_WAY = [(kind, learning) for kind in KINDS for learning in ("explicit", "plugin")]
EVERY_WAY += [(kind, learning) for kind in list(KINDS)[:8] for learning in ("reference", "moment")]


def over(kinds=KINDS):
    return pytest.mark.parametrize("kind", list(kinds), ids=str)


def unfitted(kind: str, learning: str = "explicit", **choices):
    given = {"prior": KINDS[kind].prior if learning == "explicit" else learning}
    if learning in {"plugin", "moment"}:
        given = {"parameters": learning}
    return clone(KINDS[kind].estimator).set_params(**given | choices)


def some_codes(rng, n: int, K: int) -> np.ndarray:
    """Every class at least 2 D times, so that estimates exist, in random order."""
    return rng.permutation(np.concatenate([np.repeat(np.arange(K), 2 * D), rng.integers(K, size=n)]))


def part(X, chosen):
    return X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]


def stacked(*tables):
    return pd.concat(tables, ignore_index=True) if hasattr(tables[0], "iloc") else np.concatenate(tables)


def labels(codes: np.ndarray) -> np.ndarray:
    return np.array(["ash", "birch", "cedar", "elm"])[codes]


def evidence(model) -> float | None:
    try:
        return model.log_evidence_
    except AttributeError:
        return None


def assert_same_evidence(one, other, tol: float) -> None:
    """Both have none, or the same."""
    found = evidence(one), evidence(other)
    assert found == (None, None) or found[0] == pytest.approx(found[1], rel=tol)


def assert_same(one, other, X, tol: float = 1e-9) -> None:
    """The same model, as far as its numbers tell."""
    assert_array_equal(one.classes_, other.classes_)
    assert_allclose(one.class_count_, other.class_count_, rtol=tol)
    assert_allclose(one.predict_log_proba(X), other.predict_log_proba(X), rtol=tol, atol=tol)
    assert_allclose(one.score_samples(X), other.score_samples(X), rtol=tol, atol=tol)
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=tol)
    assert_same_evidence(one, other, tol)
    assert_allclose([one.bic_, one.aic_], [other.bic_, other.aic_], rtol=tol)


TWO_PARTS = {
    "seed": st.integers(0, 2**32 - 1),
    "sizes": st.tuples(st.integers(0, 30), st.integers(0, 30)),
    "new_class": st.booleans(),
}


def two_parts(kind, seed, sizes, new_class):
    """Rows A and B; B may have a class that A has not, and has levels that A has not."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([some_codes(rng, sizes[0], 3), some_codes(rng, sizes[1], 4 if new_class else 3)])
    late = np.arange(len(codes)) >= sizes[0] + 6 * D
    X, y = KINDS[kind].rows(rng, codes, late), labels(codes)
    return (part(X, ~late), y[~late]), (part(X, late), y[late])


# --- sums ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "learning"), EVERY_WAY)
@given(**TWO_PARTS)
@settings(max_examples=3)
def test_learning_at_once_in_parts_and_by_merging_agree(kind, learning, seed, sizes, new_class):
    (A, a), (B, b) = two_parts(kind, seed, sizes, new_class)
    X, y = stacked(A, B), np.concatenate([a, b])
    whole = unfitted(kind, learning).fit(X, y)
    assert_same(unfitted(kind, learning).fit(A, a).partial_fit(B, b), whole, X)
    one, other = unfitted(kind, learning).fit(A, a), unfitted(kind, learning).fit(B, b)
    assert_same(deepcopy(one).merge(other), whole, X)
    assert_same(other.merge(one), whole, X)


@pytest.mark.parametrize(("kind", "learning"), EVERY_WAY)
@given(**TWO_PARTS)
@settings(max_examples=3)
def test_forgetting_rows_is_never_having_seen_them(kind, learning, seed, sizes, new_class):
    """Classes and levels that only the forgotten rows had are gone, too."""
    (A, a), (B, b) = two_parts(kind, seed, sizes, new_class)
    both = unfitted(kind, learning).fit(stacked(A, B), np.concatenate([a, b]))
    assert_same(both.forget(B, b), unfitted(kind, learning).fit(A, a), A)


@over()
def test_forgetting_row_by_row_and_learning_again_changes_nothing(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    model, whole = unfitted(kind).fit(X, y), unfitted(kind).fit(X, y)
    for i in range(6):
        row = slice(i, i + 1)
        model.forget(part(X, row), y[row])
    for i in reversed(range(6)):
        row = slice(i, i + 1)
        model.partial_fit(part(X, row), y[row])
    assert_same(model, whole, X)


@over()
def test_a_frozen_empirical_prior_can_be_shared(kind):
    rng = np.random.default_rng(1)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    first, rest = np.arange(len(y)) < 25, np.arange(len(y)) >= 25
    start = unfitted(kind, "empirical").fit(part(X, first), y[first])
    rows = [(part(X, first), y[first]), (part(X, rest), y[rest])]
    one, other = (unfitted(kind, "empirical", prior=start.prior_).partial_fit(*some) for some in rows)
    whole = unfitted(kind, "empirical", prior=start.prior_).fit(X, y)
    assert_same(one.merge(other), whole, X)
    assert_same(start.partial_fit(*rows[1]), whole, X)
    assert_same(start.forget(*rows[1]), unfitted(kind, "empirical").fit(*rows[0]), rows[0][0])


def test_columns_told_by_their_looks_merge_too():
    """Kinds are found at the first fit; here both halves show the same ones."""
    rng = np.random.default_rng(0)
    codes = np.tile([0, 1, 2], 30)
    X, y = mixed(rng, codes), labels(codes)
    half = np.arange(90) < 45
    start = NaiveBayes().fit(X[half], y[half])
    assert start.features_ == ["gaussian", "poisson", "bernoulli", "categorical", "gaussian"]
    other = NaiveBayes(prior=start.prior_).fit(X[~half], y[~half])
    assert_same(start.merge(other), NaiveBayes(prior=other.prior_).fit(X, y), X)


# --- chain rules --------------------------------------------------------------------------------------------

PROPER = {name: kind for name, kind in KINDS.items() if name != "lda shrunk"}


def one_step(model, x, label) -> tuple[float, float]:
    """log p(label | x, rows before) and log p(x | rows before)."""
    c = list(model.classes_).index(label)
    return model.predict_log_proba(x)[0, c], model.score_samples(x)[0]


def in_order(kind, X, y, order):
    """Row by row: log p(y_i | x_i, before) and log p(x_i | before), and the model at the end.

    Before the first row all classes are alike, so that its label has probability 1/K whatever it looks like.
    """
    classes = np.unique(y)
    first = part(X, order[:1])
    model = unfitted(kind).partial_fit(first, y[order[:1]], classes=classes)
    steps = [(-np.log(len(classes)), model.log_evidence_ + np.log(len(classes)))]
    for i in order[1:]:
        row = part(X, [i])
        steps.append(one_step(model, row, y[i]))
        model.partial_fit(row, y[[i]])
    return np.array(steps), model


def known_levels(kind, X):
    """Levels that are not known before they come have a probability of their own: let the first row know them."""
    if kind in {"nb categorical", "categorical"}:
        return pd.DataFrame({f"x{j}": pd.Categorical(X[:, j]) for j in range(D)})
    return X.astype({"colour": "category"}) if kind == "nb mixed" else X


@over(PROPER)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=2)
def test_the_evidence_is_the_product_of_one_step_predictions_in_any_order(kind, seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(10) % 3)
    X, y = known_levels(kind, KINDS[kind].rows(rng, codes)), labels(codes)
    whole = unfitted(kind).fit(X, y)
    for _ in range(2):
        steps, model = in_order(kind, X, y, rng.permutation(len(y)))
        assert_allclose(steps.sum(), whole.log_evidence_, rtol=1e-9)
        assert_same(model, whole, X)


@over(PROPER)
def test_the_prequential_score_is_the_evidence_without_the_columns_own(kind):
    """Σ log p(y_i | x_i, before) = log p(X, y) - Σ log p(x_i | before), for every order of the rows."""
    rng = np.random.default_rng(0)
    codes = np.array([0, 1, 1])
    X, y = known_levels(kind, KINDS[kind].rows(rng, codes)), labels(codes)
    model = unfitted(kind).fit(X, y)
    found = model.prequential_score(X, y, permutations=30, random_state=0)
    assert found.values.shape == (30,)
    assert_allclose([found.mean, found.std], [found.values.mean(), found.values.std(ddof=1)], rtol=1e-12)
    scores = []
    for order in permutations(range(3)):
        steps, _ = in_order(kind, X, y, np.array(order))
        scores.append(steps[:, 0].sum())
        assert_allclose(scores[-1], model.log_evidence_ - steps[:, 1].sum(), rtol=1e-9, atol=1e-9)
    nearest = np.abs(found.values[:, None] - np.array(scores)).min(axis=1)
    assert_allclose(nearest, 0, atol=1e-9)
    assert len(np.unique(found.values.round(9))) > 1  # orders differ, and so do their scores


@over(PROPER)
def test_the_prequential_score_starts_from_the_prior_whatever_was_learnt(kind):
    rng = np.random.default_rng(0)
    codes = np.arange(12) % 3
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    fitted, fresh = unfitted(kind).fit(X, y), unfitted(kind)
    both = [m.prequential_score(X, y, permutations=3, random_state=5).values for m in (fitted, fresh)]
    assert_array_equal(*both)
    assert_same(fitted, unfitted(kind).fit(X, y), X)  # and the model is as it was


# --- probabilities add up to one ----------------------------------------------------------------------------


@pytest.mark.parametrize("learning", ["explicit", "reference", "plugin"])
@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian", "spherical", "exponential", "gamma"])
def test_the_predictive_density_of_one_column_integrates_to_one(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 5, 2)
    X = KINDS[kind].rows(rng, codes)[:, :1]
    X = X - X.mean() if X.min() < 0 or X.mean() > 50 else X
    model = unfitted(kind, learning).fit(X, codes)
    low = 0.0 if kind in {"exponential", "gamma"} else -np.inf
    total = quad(lambda x: np.exp(model.score_samples([[x]])[0]), low, np.inf, epsabs=1e-9, limit=200)[0]
    assert total == pytest.approx(1, abs=1e-7)  # quad's own error on infinite ranges


@pytest.mark.parametrize("learning", ["explicit", "reference", "plugin"])
@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian"])
def test_the_predictive_density_of_two_columns_integrates_to_one(kind, learning):
    """x = tan(πu/2) turns the plane into a square; Gauss–Legendre there."""
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 15, 2)
    X = KINDS[kind].rows(rng, codes)[:, :2]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = unfitted(kind, learning).fit(X, codes)
    u, weight = np.polynomial.legendre.leggauss(160)
    x, jacobian = np.tan(np.pi * u / 2), np.pi / 2 / np.cos(np.pi * u / 2) ** 2
    grid = np.array(list(product(x, repeat=2)))
    density = np.exp(model.score_samples(grid)).reshape(160, 160)
    each = weight * jacobian
    assert each @ density @ each == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("learning", ["explicit", "reference"])
def test_probabilities_of_all_discrete_rows_add_up_to_one(learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 10, 2)
    every = {
        "nb bernoulli": list(product([0.0, 1.0], repeat=D)),
        "nb categorical": list(product([0.0, 2.0, 4.0], repeat=D)),
        "nb poisson": list(product(range(60), repeat=D)),
    }
    for kind, rows in every.items():
        model = unfitted(kind, learning).fit(KINDS[kind].rows(rng, codes), codes)
        total = np.exp(model.score_samples(np.array(rows, dtype=float))).sum()
        assert total == pytest.approx(1, abs=1e-6)  # counts of 60 and more have less than that
    words = unfitted("multinomial", learning).fit(counts(rng, codes), codes)
    rows = [np.bincount(c, minlength=D).astype(float) for c in combinations_with_replacement(range(D), 5)]
    assert np.exp(words.score_samples(np.array(rows))).sum() == pytest.approx(1, rel=1e-12)


# --- what cannot matter -------------------------------------------------------------------------------------


@over()
@pytest.mark.parametrize("learning", ["empirical", "reference", "plugin"])
def test_the_order_of_rows_does_not_matter(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    order = rng.permutation(len(y))
    plain, shuffled = unfitted(kind, learning).fit(X, y), unfitted(kind, learning).fit(part(X, order), y[order])
    assert_same(shuffled, plain, X, tol=1e-10)


@over()
@pytest.mark.parametrize(("n_jobs", "rows_at_a_time"), [(1, 7), (3, 1)])
def test_how_rows_are_cut_and_who_works_on_them_does_not_matter(kind, n_jobs, rows_at_a_time, monkeypatch):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    whole = unfitted(kind, "empirical").fit(X, y)
    expected = whole.predict_log_proba(X)
    monkeypatch.setattr(generative_learning, "BLOCK_NUMBERS", 1)
    monkeypatch.setattr(generative_learning, "FEWEST_ROWS", rows_at_a_time)
    cut = unfitted(kind, "empirical", n_jobs=n_jobs).fit(X, y)
    assert_allclose(cut.predict_log_proba(X), expected, rtol=1e-10, atol=1e-10)
    assert_same(cut, whole, X, tol=1e-10)


@pytest.mark.parametrize("kind", ["lda", "qda"])
@pytest.mark.parametrize("parameters", ["integrated", "plugin"])
def test_how_incomplete_rows_are_cut_does_not_matter(kind, parameters, monkeypatch):
    X, y = gappy(0)
    whole = unfitted(kind, "empirical", parameters=parameters).fit(X, y)
    monkeypatch.setattr(generative_learning, "BLOCK_NUMBERS", 1)
    monkeypatch.setattr(generative_learning, "FEWEST_ROWS", 11)
    cut = unfitted(kind, "empirical", parameters=parameters, n_jobs=2).fit(X, y)
    assert_same(cut, whole, X, tol=1e-8)  # both stop when expected sums move by less than 1e-10


def gappy(seed: int, share: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with holes, and labels of which every fifth is missing."""
    rng = np.random.default_rng(seed)
    codes = np.arange(90) % 3
    X = normal_columns(rng, codes)
    X[rng.random(X.shape) < share] = np.nan
    y = codes.astype(float)
    y[::5] = np.nan
    return X, y


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian", "nb poisson"])
def test_the_number_of_threads_changes_nothing_at_all(kind, n_jobs):
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=400_000)  # large enough to be cut
    X = KINDS[kind].rows(rng, codes)
    plain, threaded = (unfitted(kind, n_jobs=jobs).fit(X, codes) for jobs in (1, n_jobs))
    assert threaded.log_evidence_ == plain.log_evidence_
    assert_array_equal(threaded.predict_log_proba(X[:1000]), plain.predict_log_proba(X[:1000]))


@over()
@pytest.mark.parametrize("learning", ["empirical", "plugin", "moment"])
def test_a_weight_is_a_number_of_copies(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    weight = rng.integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    weighted = unfitted(kind, learning).fit(X, y, sample_weight=weight)
    repeated = unfitted(kind, learning).fit(part(X, copies), y[copies])
    seen = part(X, weight > 0)
    assert_allclose(weighted.predict_log_proba(seen), repeated.predict_log_proba(seen), rtol=1e-9, atol=1e-9)
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, rtol=1e-9)
    assert_allclose(weighted.class_count_, repeated.class_count_)
    assert_same_evidence(weighted, repeated, 1e-9)
    twice = unfitted(kind, learning).fit(stacked(X, X), np.tile(y, 2))
    doubled = unfitted(kind, learning).fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert_allclose(doubled.predict_log_proba(X), twice.predict_log_proba(X), rtol=1e-9, atol=1e-9)


@over()
def test_weighted_rows_are_forgotten_with_their_weight(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, y = KINDS[kind].rows(rng, codes), labels(codes)
    weight, later = rng.uniform(0.5, 2, len(y)), np.arange(len(y)) >= 2 * len(y) // 3
    model = unfitted(kind).fit(X, y, sample_weight=weight)
    model.forget(part(X, later), y[later], sample_weight=weight[later])
    assert_same(model, unfitted(kind).fit(part(X, ~later), y[~later], sample_weight=weight[~later]), part(X, ~later))


@over()
@pytest.mark.parametrize("learning", ["empirical", "reference", "plugin"])
def test_names_of_classes_do_not_matter(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = KINDS[kind].rows(rng, codes)
    other = np.array([2, 0, 1])
    plain, renamed = unfitted(kind, learning).fit(X, codes), unfitted(kind, learning).fit(X, other[codes])
    log_proba = renamed.predict_log_proba(X)[:, other]
    assert_allclose(log_proba, plain.predict_log_proba(X), rtol=1e-10, atol=1e-10)
    assert_allclose(renamed.log_likelihood_, plain.log_likelihood_, rtol=1e-12)
    assert_same_evidence(renamed, plain, 1e-12)


@pytest.mark.parametrize("learning", ["empirical", "reference", "plugin"])
@over({name: kind for name, kind in KINDS.items() if name not in {"nb mixed", "independent"}})
def test_the_order_of_columns_does_not_matter(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, order = KINDS[kind].rows(rng, codes), [2, 0, 1]
    plain, moved = unfitted(kind, learning).fit(X, codes), unfitted(kind, learning).fit(X[:, order], codes)
    assert_allclose(moved.predict_log_proba(X[:, order]), plain.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    assert_allclose(moved.log_likelihood_, plain.log_likelihood_, rtol=1e-11)
    assert_same_evidence(moved, plain, 1e-11)


def test_the_order_of_mixed_columns_does_not_matter():
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = mixed(rng, codes)
    moved = X[X.columns[::-1]]
    plain, turned = NaiveBayes().fit(X, codes), NaiveBayes().fit(moved, codes)
    assert turned.features_ == plain.features_[::-1]
    assert_allclose(turned.predict_log_proba(moved), plain.predict_log_proba(X), rtol=1e-10, atol=1e-10)
    assert_allclose(turned.log_evidence_, plain.log_evidence_, rtol=1e-12)


UNITS = {
    "shift": st.floats(-50, 50),
    "factor": st.floats(0.01, 100).flatmap(lambda c: st.sampled_from([c, -c])),
    "column": st.integers(0, D - 1),
}
INVARIANT = ["lda", "qda", "nb gaussian", "diagonal", "shared", "per class"]


@pytest.mark.parametrize("kind", INVARIANT)
@pytest.mark.parametrize("learning", ["empirical", "reference", "plugin"])
@given(**UNITS)
@settings(max_examples=6)
def test_units_and_origins_of_columns_change_nothing(kind, learning, shift, factor, column):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = normal_columns(rng, codes)
    X -= X.mean(axis=0)
    other = X.copy()
    other[:, column] = factor * X[:, column] + shift
    plain, changed = unfitted(kind, learning).fit(X, codes), unfitted(kind, learning).fit(other, codes)
    assert_allclose(changed.predict_log_proba(other), plain.predict_log_proba(X), rtol=1e-8, atol=1e-8)
    lengths = len(codes) * np.log(abs(factor))  # a density is per unit
    assert_allclose(changed.log_likelihood_ + lengths, plain.log_likelihood_, rtol=1e-8)
    if evidence(plain) is not None:
        assert_allclose(changed.log_evidence_ + lengths, plain.log_evidence_, rtol=1e-8)


@pytest.mark.parametrize("kind", ["exponential", "gamma"])
@given(factor=st.floats(1e-6, 1e6))
@settings(max_examples=6)
def test_the_unit_of_a_waiting_time_changes_nothing(kind, factor):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = times(rng, codes)
    plain, changed = unfitted(kind, "empirical").fit(X, codes), unfitted(kind, "empirical").fit(factor * X, codes)
    assert_allclose(changed.predict_log_proba(factor * X), plain.predict_log_proba(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["lda", "qda"])
@pytest.mark.parametrize("parameters", ["integrated", "plugin"])
@pytest.mark.parametrize(("units", "origin"), [([1e-6, 1.0, 1e3], 0.0), ([1e5, 1e-3, 1.0], 1e5)], ids=str)
@pytest.mark.parametrize("lacking", ["cells of the first column", "cells and labels"])
def test_units_do_not_matter_for_rows_that_are_completed(kind, parameters, units, origin, lacking):
    """Also not for when the search stops: its rule must not look at the largest column only."""
    X, y = gappy(0)
    X -= np.nanmean(X, axis=0)
    if lacking == "cells of the first column":
        rng, codes = np.random.default_rng(0), np.arange(90) % 3
        X, y = normal_columns(rng, codes), codes
        X -= X.mean(axis=0)
        X[rng.random(90) < 0.4, 0] = np.nan
    plain = unfitted(kind, "empirical", parameters=parameters).fit(X, y)
    other = (X + origin) * units
    log_proba = unfitted(kind, "empirical", parameters=parameters).fit(other, y).predict_log_proba(other)
    # Expected sums are left when a step moves them by 1e-10; shifted cells have lost five digits.
    assert_allclose(log_proba, plain.predict_log_proba(X), rtol=1e-6, atol=1e-6)


# --- missing cells ------------------------------------------------------------------------------------------


@over()
@pytest.mark.parametrize("learning", ["empirical", "explicit", "reference", "plugin"])
def test_a_row_without_any_cell_has_the_class_probabilities(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = KINDS[kind].rows(rng, codes)
    model = unfitted(kind, learning).fit(X, codes)
    empty = pd.DataFrame({name: [None] for name in X.columns}) if hasattr(X, "columns") else np.full((1, D), np.nan)
    assert_allclose(model.predict_proba(empty)[0], model.class_prior_, rtol=1e-12)
    assert_allclose(model.score_samples(empty), 0, atol=1e-12)
    n = model.class_count_
    averaged = learning not in {"plugin", "moment"}
    assert_allclose(model.class_prior_, (n + averaged) / (n + averaged).sum(), rtol=1e-12)


def sub_prior(prior, kept, d: int):
    """The part of a prior of Gaussian columns that concerns some of them."""
    return NormalInverseWishart(
        np.asarray(prior.mean)[kept],
        prior.mean_strength,
        np.asarray(prior.scale)[np.ix_(kept, kept)],
        prior.dof - (d - len(kept)),
    )


CORRELATED = NormalInverseWishart([0.5, -0.2, 1.0], 0.3, [[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 3.0]], 6.0)


@pytest.mark.parametrize("kind", ["lda", "qda", "shared", "per class"])
@pytest.mark.parametrize("learning", ["empirical", "explicit", "reference", "plugin", "moment"])
@pytest.mark.parametrize("column", range(D))
def test_a_gaussian_column_without_cells_is_not_there(kind, learning, column):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = normal_columns(rng, codes)
    kept = [j for j in range(D) if j != column]
    empty = X.copy()
    empty[:, column] = np.nan
    priors = {"prior": CORRELATED} if learning == "explicit" else {}
    with pytest.warns(DataWarning, match=f"x{column}"):
        model = unfitted(kind, learning, **priors).fit(empty, codes)
    if learning == "explicit":
        priors = {"prior": sub_prior(CORRELATED, kept, D)}
    without = unfitted(kind, learning, **priors).fit(X[:, kept], codes)
    log_proba = without.predict_log_proba(X[:, kept])
    assert_allclose(model.predict_log_proba(empty), log_proba, rtol=1e-10, atol=1e-10)
    assert_allclose(model.predict_log_proba(X), log_proba, rtol=1e-10, atol=1e-10)  # values there are not looked at
    assert_allclose(model.log_likelihood_, without.log_likelihood_, rtol=1e-10)
    assert_same_evidence(model, without, 1e-10)


@pytest.mark.parametrize("learning", ["empirical", "explicit", "reference", "plugin"])
@pytest.mark.parametrize(
    "kind", ["nb gaussian", "nb bernoulli", "nb categorical", "nb poisson", "exponential", "gamma", "diagonal"]
)
@pytest.mark.filterwarnings("ignore::credibly.errors.DataWarning")  # may be left out with a warning, as by LDA
def test_an_independent_column_without_cells_is_not_there(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, kept = KINDS[kind].rows(rng, codes), [0, 2]
    empty = X.copy()
    empty[:, 1] = np.nan
    model, without = unfitted(kind, learning).fit(empty, codes), unfitted(kind, learning).fit(X[:, kept], codes)
    assert_allclose(model.predict_log_proba(empty), without.predict_log_proba(X[:, kept]), rtol=1e-10, atol=1e-10)
    assert_same_evidence(model, without, 1e-10)


@pytest.mark.parametrize("learning", ["empirical", "explicit", "plugin", "moment"])
@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian", "nb bernoulli", "nb categorical", "nb poisson", "gamma"])
def test_predicting_without_a_column_is_having_learnt_without_it(kind, learning):
    """The marginal of what was learnt is what is learnt from the marginal."""
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X, kept = KINDS[kind].rows(rng, codes), [0, 2]
    correlated = learning == "explicit" and KINDS[kind].gaussian
    priors = [{"prior": CORRELATED}, {"prior": sub_prior(CORRELATED, kept, D)}] if correlated else [{}, {}]
    model = unfitted(kind, learning, **priors[0]).fit(X, codes)
    without = unfitted(kind, learning, **priors[1]).fit(X[:, kept], codes)
    blind = X.copy()
    blind[:, 1] = np.nan
    assert_allclose(model.predict_log_proba(blind), without.predict_log_proba(X[:, kept]), rtol=1e-9, atol=1e-9)
    assert_allclose(model.score_samples(blind), without.score_samples(X[:, kept]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["nb gaussian", "nb bernoulli", "nb categorical", "nb poisson", "nb mixed"])
def test_naive_bayes_with_holes_still_merges_forgets_and_has_an_exact_evidence(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 30, 3)
    X, y = known_levels(kind, KINDS[kind].rows(rng, codes)), labels(codes)
    X = X.mask(rng.random(X.shape) < 0.2) if hasattr(X, "mask") else np.where(rng.random(X.shape) < 0.2, np.nan, X)
    first = np.arange(len(y)) < 25
    A, B = (part(X, first), y[first]), (part(X, ~first), y[~first])
    whole = unfitted(kind).fit(X, y)
    assert_same(unfitted(kind).fit(*A).merge(unfitted(kind).fit(*B)), whole, X)
    steps, _ = in_order(kind, X, y, rng.permutation(len(y)))
    assert_allclose(steps.sum(), whole.log_evidence_, rtol=1e-9)
    assert_same(whole.forget(*B), unfitted(kind).fit(*A), A[0])


@pytest.mark.parametrize("kind", ["lda", "qda"])
def test_one_missing_cell_has_the_exact_posterior_in_the_limit_of_many_rows(kind):
    """Completing is variational: the bound approaches the evidence from below as rows make parameters certain."""
    gaps = []
    for n in (30, 300, 3000):
        rng = np.random.default_rng(0)
        codes = np.arange(n) % 2
        X = normal_columns(rng, codes)
        hole = X.copy()
        hole[0, 1] = np.nan
        before = unfitted(kind).fit(X[1:], codes[1:])
        exact = before.log_evidence_ + sum(one_step(before, hole[:1], codes[0]))  # p(rest) p(observed cells | rest)
        gaps.append(exact - unfitted(kind).fit(hole, codes).log_evidence_)
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    assert gaps[2] < gaps[0] / 30  # theory: falls like one over n, a hundredfold


# --- missing labels -----------------------------------------------------------------------------------------


@over()
@pytest.mark.parametrize("learning", ["empirical", "plugin"])
def test_labels_that_could_have_been_missing_change_nothing_at_all(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 3)
    X = KINDS[kind].rows(rng, codes)
    plain = unfitted(kind, learning).fit(X, codes)
    for labels_given, marker in ((codes.astype(object), None), (codes.astype(float), None), (codes, -1)):
        other = unfitted(kind, learning, unlabelled=marker).fit(X, labels_given)
        assert_array_equal(other.predict_log_proba(X), plain.predict_log_proba(X))
        assert other.log_likelihood_ == plain.log_likelihood_
        assert evidence(other) == evidence(plain)


@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian", "nb bernoulli", "nb categorical", "nb poisson", "gamma"])
@pytest.mark.parametrize("learning", ["empirical", "plugin"])
def test_completing_rows_never_lowers_the_objective(kind, learning):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 60, 3)
    X, y = KINDS[kind].rows(rng, codes), codes.astype(float)
    y[15:] = np.nan
    y[:15] = codes[:15] = np.repeat(np.arange(3), 5)
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    model = unfitted(kind, learning, tol=1e-8).fit(X, y)
    path = model.objective_path_
    assert len(path) > 2
    assert (np.diff(path) >= -1e-12 * np.abs(path[-1])).all()
    final = model.log_likelihood_ if learning == "plugin" else model.log_evidence_
    assert_allclose(path[-1], final, rtol=1e-12)


@pytest.mark.parametrize(
    ("marker", "said"), [(None, None), (np.nan, None), (pd.NA, None), (-1, -1), ("?", "?")], ids=repr
)
def test_every_way_to_say_that_a_label_is_missing_is_the_same(marker, said):
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 2
    X = normal_columns(rng, codes)
    y, reference = labels(codes).astype(object), labels(codes).astype(object)
    y[10:] = marker
    reference[10:] = None
    model = LinearDiscriminant(unlabelled=said)
    expected = LinearDiscriminant().fit(X, reference)
    assert_array_equal(model.fit(X, y).predict_log_proba(X), expected.predict_log_proba(X))


@pytest.mark.parametrize("learning", ["empirical", "plugin"])
@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian"])
def test_a_row_with_neither_label_nor_cells_is_no_data(kind, learning):
    X, y = gappy(0)
    nothing = np.vstack([X, np.full((7, D), np.nan)])
    plain = unfitted(kind, learning).fit(X, y)
    padded = unfitted(kind, learning).fit(nothing, np.append(y, np.full(7, np.nan)))
    assert_allclose(padded.predict_log_proba(X), plain.predict_log_proba(X), rtol=1e-8, atol=1e-8)
    assert_allclose(padded.class_count_, plain.class_count_, rtol=1e-8)
    assert_allclose(padded.log_likelihood_, plain.log_likelihood_, rtol=1e-9)


# --- running backwards --------------------------------------------------------------------------------------

DRAWN = {name: kind for name, kind in KINDS.items() if kind.draws}


def as_drawn(kind, X):
    names = ["height", "visits", "member", "colour", "wait"]
    return pd.DataFrame(X, columns=names).infer_objects() if kind == "nb mixed" else X


@over(DRAWN)
def test_rows_that_were_drawn_teach_the_parameters_they_were_drawn_from(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 60, 3)
    model = unfitted(kind, "plugin").fit(KINDS[kind].rows(rng, codes), labels(codes))
    X, y = model.sample(20_000, random_state=1)
    X = as_drawn(kind, X)
    again = unfitted(kind, "plugin").fit(X, y)
    n, p = again.class_count_, model.class_prior_
    assert_allclose((again.class_prior_ - p) / np.sqrt(p * (1 - p) / len(y)), 0, atol=FIVE_STANDARD_ERRORS)
    known, found = model.summary().to_frame(), again.summary().to_frame()
    per_row = np.repeat(n, len(known) // 3)
    error = known["spread"] / np.sqrt(per_row)
    assert (np.abs(found["mean"] - known["mean"]) <= FIVE_STANDARD_ERRORS * error).all()
    if not hasattr(model, "covariance_"):
        return
    true, learnt = model.covariance_, again.covariance_
    v = np.diagonal(true, axis1=-2, axis2=-1)
    size = n.sum() if true.ndim == 2 else n[:, None, None]
    error = np.sqrt((v[..., :, None] * v[..., None, :] + true**2) / size)  # of a Gaussian sample covariance
    assert_allclose((learnt - true) / error, 0, atol=FIVE_STANDARD_ERRORS)


@over(DRAWN)
def test_rows_of_one_class_are_drawn_from_that_class(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 60, 3)
    model = unfitted(kind, "empirical").fit(KINDS[kind].rows(rng, codes), labels(codes))
    X = as_drawn(kind, model.sample(4000, y="birch", random_state=1))
    X_all, y_all = model.sample(12_000, random_state=2)
    X_all = as_drawn(kind, X_all)
    of_class = model.predict_proba(part(X_all, y_all == "birch"))
    there = model.predict_proba(X)
    error = np.sqrt(there.var(axis=0) / len(there) + of_class.var(axis=0) / len(of_class))
    assert (np.abs(there.mean(axis=0) - of_class.mean(axis=0)) <= FIVE_STANDARD_ERRORS * error + 1e-12).all()
    calibrated = model.predict_proba(X_all)  # what is drawn from the model has the classes that the model says
    hits = y_all[:, None] == model.classes_
    error = np.sqrt((calibrated * (1 - calibrated)).mean(axis=0) / len(hits))
    assert (np.abs((hits - calibrated).mean(axis=0)) <= FIVE_STANDARD_ERRORS * error + 1e-12).all()


# --- the separator ------------------------------------------------------------------------------------------

SEPARATED = {
    "lda": "plugin",
    "shared": "moment",
    "nb bernoulli": "empirical",
    "nb poisson": "plugin",
    "exponential": "plugin",
    "gamma": "plugin",
    "multinomial": "plugin",
    "lda shrunk": "plugin",
}


@pytest.mark.parametrize(("kind", "learning"), SEPARATED.items())
@pytest.mark.parametrize("K", [2, 3])
def test_slopes_and_intercepts_reproduce_the_probabilities(kind, learning, K):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 40, K)
    X = KINDS[kind].rows(rng, codes)
    model = unfitted(kind, learning).fit(X, codes)
    score = X @ model.coef_.T + model.intercept_
    if K == 2:
        assert model.coef_.shape == (1, D) and model.intercept_.shape == (1,)
        assert_allclose(model.predict_proba(X)[:, 1], expit(score[:, 0]), rtol=1e-9)
        log_odds = np.diff(model.predict_log_proba(X), axis=1)
        assert_allclose(log_odds, score, rtol=1e-9, atol=1e-9)
    else:
        assert_allclose(model.predict_log_proba(X), log_softmax(score, axis=1), rtol=1e-9, atol=1e-9)
        assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-9 * np.abs(model.coef_).max())


@pytest.mark.parametrize("kind", ["lda", "qda", "nb gaussian", "nb categorical", "nb mixed"])
def test_a_posterior_that_is_not_linear_in_x_has_no_slopes(kind):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 20, 2)
    model = unfitted(kind).fit(KINDS[kind].rows(rng, codes), codes)
    assert not hasattr(model, "coef_") and not hasattr(model, "intercept_")


def test_lda_axes_are_white_within_classes_and_their_distances_give_the_posterior():
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 60, 3)
    X = normal_columns(rng, codes)
    model = LinearDiscriminant(parameters="plugin").fit(X, codes)
    Z, centres = model.transform(X), model.transform(model.means_)
    gaps = Z - centres[codes]
    assert_allclose(gaps.T @ gaps / len(Z), np.eye(2), atol=1e-9)
    squared = ((Z[:, None] - centres) ** 2).sum(axis=2)
    expected = log_softmax(np.log(model.class_prior_) - squared / 2, axis=1)
    assert_allclose(model.predict_log_proba(X), expected, rtol=1e-8, atol=1e-8)


# --- far away -----------------------------------------------------------------------------------------------


def exact_log_odds(X, y, x, digits: int = 60) -> float:
    """log p(1 | x) - log p(0 | x) of maximum-likelihood LDA in multiple precision, from the rows themselves."""
    with mpmath.workdps(digits):
        rows = [[mpmath.mpf(float(v)) for v in row] for row in X]
        d, groups = len(rows[0]), [[r for r, c in zip(rows, y, strict=True) if c == k] for k in (0, 1)]
        means = [mpmath.matrix([mpmath.fsum(r[j] for r in g) / len(g) for j in range(d)]) for g in groups]
        S = mpmath.zeros(d)
        for mean, group in zip(means, groups, strict=True):
            for r in group:
                gap = mpmath.matrix(r) - mean
                S += gap * gap.T / len(rows)
        w = mpmath.lu_solve(S, means[1] - means[0])
        middle = (means[0] + means[1]) / 2
        point = mpmath.matrix([mpmath.mpf(float(v)) for v in x])
        prior = mpmath.log(mpmath.mpf(len(groups[1])) / len(groups[0]))
        return (w.T * (point - middle))[0] + prior


def test_far_classes_keep_their_log_probabilities_where_scikit_learn_loses_them():
    """scikit-learn takes the logarithm of a probability that was rounded to zero, and floors it near -708."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 2)) + 60.0 * y[:, None]
    theirs = LinearDiscriminantAnalysis().fit(X, y).predict_log_proba(X)
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    ours = model.predict_log_proba(X)
    truth = np.array([float(exact_log_odds(X, y, x)) for x in X[::10]])
    log_odds = np.diff(ours, axis=1)[::10, 0]
    assert_allclose(log_odds, truth, rtol=1e-10)
    assert np.abs(truth).min() > 1000
    floored = theirs.min(axis=1)
    assert (floored > -710).all()  # whatever the row
    assert np.abs(floored[::10] + np.abs(truth)).min() > 300


def test_a_middling_row_keeps_its_log_probability_where_scikit_learn_loses_it():
    """The rarer class of three: its log probability is far from -708, but its probability relative to one is lost."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 2)) + 6.0 * y[:, None]
    theirs = LinearDiscriminantAnalysis().fit(X, y).predict_log_proba(X)
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    ours = model.predict_log_proba(X)
    truth = np.array([float(exact_log_odds(X, y, x)) for x in X])
    with mpmath.workdps(60):
        expected = np.array([[float(-mpmath.log1p(mpmath.exp(s * mpmath.mpf(t)))) for s in (1, -1)] for t in truth])
    assert_allclose(ours, expected, rtol=1e-9)
    lost = np.abs(theirs - expected) > 100
    assert lost.any()  # cells that scikit-learn gives as about -708
    assert np.abs(expected[lost]).max() < 200
    assert_allclose(theirs[lost], -708.4, atol=0.1)
