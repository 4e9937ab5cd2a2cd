"""What every class-conditional family must satisfy; one without an entry in `ENTRIES` fails the first test.

The heart is one law: the predictive of a row is the ratio of the evidence with it and without it. It ties statistics,
posterior, marginal likelihood and predictive together, with no tolerance but that of rounding.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit, factorial, gamma, gammaln, logsumexp

from credibly.errors import InputError
from credibly.model import class_conditionals
from credibly.model.class_conditionals.base import MAXIMUM_LIKELIHOOD, MOMENT, ClassConditional, NotDetermined
from credibly.model.class_conditionals.bernoulli import Bernoulli
from credibly.model.class_conditionals.categorical import Categorical, relevelled
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.constant import Constant
from credibly.model.class_conditionals.gaussian import Gaussian, Spherical
from credibly.model.class_conditionals.independent import Group, Product
from credibly.model.class_conditionals.multinomial import Multinomial
from credibly.model.class_conditionals.multivariate import FullGaussian, with_columns, without_columns
from credibly.model.class_conditionals.rates import Exponential, Gamma, Poisson, TimeFamily, gamma_shape
from credibly.model.conjugate_priors import Dirichlet, NormalInverseWishart, Reference
from credibly.model.conjugate_priors import Gamma as GammaPrior
from credibly.model.priors import Beta

K = 3
CODES = np.arange(60) % K
SHAPE = 2.5
SIZES = (2, 3, 4)
MANY = 1_000  # draws of parameters
ROWS = 20_000  # draws of rows, per class
REAL, POSITIVE = "real", "positive"
UNFINISHED = {TimeFamily}  # abstract but for Python: it has no number of events
COUNTS = tuple(range(200))  # rates are below 8: what is beyond has a probability below 1e-100

# --- rows -----------------------------------------------------------------------------------------------------


def normal_rows(rng, codes):
    mixed = rng.normal(size=(len(codes), 3)) @ [[1.0, 0.6, -0.3], [0.0, 0.8, 0.5], [0.0, 0.0, 1.2]]
    return mixed + codes[:, None] * [0.9, -0.4, 0.2] + [3.0, 0.0, -7.0]


def binary_rows(low, high):
    def rows(rng, codes):
        p = 0.5 + 0.1 * codes[:, None] * [1.0, -1.0, 0.5]
        return np.where(rng.random((len(codes), 3)) < p, high, low).astype(float)

    return rows


def category_rows(rng, codes):
    return np.column_stack([(rng.integers(size, size=len(codes)) + (codes == 1)) % size for size in SIZES]).astype(
        float
    )


def poisson_rows(rng, codes):
    return rng.poisson([0.7, 2.0, 3.0] + codes[:, None] * [0.2, 0.9, -0.8]).astype(float)


def time_rows(shape):
    def rows(rng, codes):
        return rng.gamma(shape, [1.0, 30.0, 0.02] * (1.0 + 0.4 * codes[:, None]))

    return rows


def word_rows(rng, codes):
    p = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    return rng.multinomial(rng.integers(1, 9, size=len(codes)), p[codes]).astype(float)


# --- displayed equations, typed again: log densities of cells at the maximum-likelihood estimate, (n, d) or (n, 1) --


def normal_cells(X, codes, c, x):
    own = X[codes == c]
    return stats.norm.logpdf(x, own.mean(axis=0), own.std(axis=0))


def spherical_cells(X, codes, c, x):
    own = X[codes == c]
    return stats.norm.logpdf(x, own.mean(axis=0), np.sqrt(own.var(axis=0).mean()))


def covariance(X, codes, c, shared):
    classes = range(K) if shared else [c]
    D = np.vstack([X[codes == k] - X[codes == k].mean(axis=0) for k in classes])
    return D.T @ D / len(D)


def full_cells(shared):
    def cells(X, codes, c, x):
        return stats.multivariate_normal(X[codes == c].mean(axis=0), covariance(X, codes, c, shared)).logpdf(x)[:, None]

    return cells


def bernoulli_cells(high):
    def cells(X, codes, c, x):
        return stats.bernoulli.logpmf(x == high, (X[codes == c] == high).mean(axis=0))

    return cells


def categorical_cells(X, codes, c, x):
    shares = [
        np.bincount(column.astype(int), minlength=size) for column, size in zip(X[codes == c].T, SIZES, strict=True)
    ]
    p = [share / share.sum() for share in shares]
    return np.column_stack([np.log(p[j][x[:, j].astype(int)]) for j in range(len(SIZES))])


def poisson_cells(X, codes, c, x):
    return stats.poisson.logpmf(x, X[codes == c].mean(axis=0))


def gamma_cells(shape):
    def cells(X, codes, c, x):
        return stats.gamma.logpdf(x, shape, scale=X[codes == c].mean(axis=0) / shape)

    return cells


def multinomial_cells(X, codes, c, x):
    own = X[codes == c].sum(axis=0)
    return stats.multinomial.logpmf(x, x.sum(axis=1).astype(int), own / own.sum())[:, None]


# --- entries --------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One family with rows of its support, a proper prior and its displayed equation typed again."""

    name: str
    family: ClassConditional[Any]
    rows: Callable[..., Any]
    prior: Any
    cells: Callable[..., Any]
    supports: tuple[Any, ...]  # per column; empty where the columns have no density of their own
    n_parameters: int
    outside: float | None = None  # a cell that the family refuses

    @property
    def columns(self) -> int:
        return len(self.supports) or 4

    @property
    def is_full(self) -> bool:
        return isinstance(self.family, FullGaussian)

    @property
    def is_multinomial(self) -> bool:
        return isinstance(self.family, Multinomial)


FULL_PRIOR = NormalInverseWishart([2.0, 0.5, -6.0], 0.7, [[2.0, 0.5, 0.0], [0.5, 1.5, -0.4], [0.0, -0.4, 3.0]], 4.5)
COLUMN_PRIORS = [NormalInverseWishart(m, k, s, v) for m, k, s, v in ((2, 0.3, 1.1, 1.5), (0, 2, 0.6, 4), (-5, 1, 3, 2))]
ROUND_PRIORS = [NormalInverseWishart(m, k, 1.3, 2.5) for m, k in ((2, 0.3), (0, 2), (-5, 1))]
BETAS = [Beta(0.6, 1.7), Beta(2, 3), Beta(1, 0.5)]
DIRICHLETS = [Dirichlet(0.7), Dirichlet([1.0, 2.0, 0.4]), Dirichlet(1)]
RATES = [GammaPrior(2.0, 0.8), GammaPrior(0.5, 1.5), GammaPrior(3.0, 0.2)]

SIMPLE = [
    Entry("FullGaussian-shared", FullGaussian(True), normal_rows, FULL_PRIOR, full_cells(True), (REAL,) * 3, 9 + 6),
    Entry("FullGaussian", FullGaussian(False), normal_rows, FULL_PRIOR, full_cells(False), (REAL,) * 3, 9 + 18),
    Entry("Gaussian", Gaussian(), normal_rows, COLUMN_PRIORS, normal_cells, (REAL,) * 3, 18),
    Entry("Spherical", Spherical(), normal_rows, ROUND_PRIORS, spherical_cells, (REAL,) * 3, 9 + 3),
    Entry("Bernoulli", Bernoulli(), binary_rows(0, 1), BETAS, bernoulli_cells(1), ((0, 1),) * 3, 9, 0.5),
    Entry(
        "Bernoulli-reversed", Bernoulli((2, -1)), binary_rows(2, -1), BETAS, bernoulli_cells(-1), ((2, -1),) * 3, 9, 0
    ),
    Entry(
        "Categorical",
        Categorical(SIZES),
        category_rows,
        DIRICHLETS,
        categorical_cells,
        tuple(tuple(range(size)) for size in SIZES),
        K * (1 + 2 + 3),
    ),
    Entry("Poisson", Poisson(), poisson_rows, RATES, poisson_cells, (COUNTS,) * 3, 9, 1.5),
    Entry("Exponential", Exponential(), time_rows(1.0), RATES, gamma_cells(1.0), (POSITIVE,) * 3, 9, -0.1),
    Entry("Gamma", Gamma(SHAPE), time_rows(SHAPE), RATES, gamma_cells(SHAPE), (POSITIVE,) * 3, 9, 0.0),
    Entry("Gamma-peaked-at-0", Gamma(0.8), time_rows(0.8), RATES, gamma_cells(0.8), (POSITIVE,) * 3, 9, 0.0),
    Entry("Multinomial", Multinomial(), word_rows, Dirichlet([0.5, 1, 2, 0.7]), multinomial_cells, (), 9, -1.0),
]
CONSTANT = Entry(
    "Constant",
    Constant(4.0),
    lambda rng, codes: np.full((len(codes), 3), 4.0),
    [Reference()] * 3,
    lambda X, codes, c, x: np.zeros_like(x),
    ((4.0,),) * 3,
    0,
)
NAMED = {entry.name: entry for entry in SIMPLE}

# Columns of several kinds, those of one kind not side by side
KINDS = ["Gaussian", "Bernoulli", "Categorical", "Poisson", "Exponential", "Gamma"]
PLACES = [np.array([g, 6 + g, 12 + g]) for g in range(6)]


def in_places(parts, axis=-1):
    """What belongs to groups of columns, in the order of the columns."""
    joined = np.concatenate(parts, axis=axis)
    return np.take(joined, np.argsort(np.concatenate(PLACES)), axis=axis)


def mixed_cells(X, codes, c, x):
    return in_places([NAMED[kind].cells(X[:, at], codes, c, x[:, at]) for kind, at in zip(KINDS, PLACES, strict=True)])


MIXED = Entry(
    "Product",
    Product(tuple(Group(NAMED[kind].family, at) for kind, at in zip(KINDS, PLACES, strict=True))),
    lambda rng, codes: in_places([NAMED[kind].rows(rng, codes) for kind in KINDS]),
    [NAMED[KINDS[j % 6]].prior[j // 6] for j in range(18)],
    mixed_cells,
    tuple(NAMED[KINDS[j % 6]].supports[j // 6] for j in range(18)),
    sum(NAMED[kind].n_parameters for kind in KINDS),
)

ENTRIES = [*SIMPLE, MIXED, CONSTANT]
EVERY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda it: it.name)
LEARNING = pytest.mark.parametrize("entry", [*SIMPLE, MIXED], ids=lambda it: it.name)  # those with parameters
BY_COLUMN = pytest.mark.parametrize("entry", [it for it in ENTRIES if it.supports], ids=lambda it: it.name)
SKIPPING = pytest.mark.parametrize(
    "entry", [it for it in ENTRIES if it.family.skips_missing and not it.is_multinomial], ids=lambda it: it.name
)
IN_UNITS = pytest.mark.parametrize(  # not counts and categories
    "entry", [it for it in ENTRIES if {REAL, POSITIVE} & set(it.supports)], ids=lambda it: it.name
)
OF_COLUMNS = pytest.mark.parametrize(
    "entry", [it for it in ENTRIES if isinstance(it.family, ColumnFamily)], ids=lambda it: it.name
)
BOTH_FULL = pytest.mark.parametrize("entry", [it for it in ENTRIES if it.is_full], ids=lambda it: it.name)


@cache
def rows_of(name: str, seed: int = 0) -> np.ndarray:
    entry = next(it for it in ENTRIES if it.name == name)
    X = entry.rows(np.random.default_rng(seed), CODES)
    X.flags.writeable = False
    return X


def new_rows(entry, n=4):
    return rows_of(entry.name, seed=1)[:n].copy()


def summary(entry, X, codes=CODES, weight=None):
    return entry.family.summarise(X, codes, weight, K)


def posterior(entry, X, codes=CODES, weight=None):
    return entry.family.posterior(summary(entry, X, codes, weight), entry.prior)


def plug_in(entry, X=None, divisor=MAXIMUM_LIKELIHOOD):
    return entry.family.plug_in(summary(entry, rows_of(entry.name) if X is None else X), divisor)


def numbers(statistics):
    """All arrays of some statistics, those of their parts among them."""
    parts = getattr(statistics, "parts", None)
    found = statistics.arrays() if parts is None else [values for part in parts for values in numbers(part)]
    assert found
    return found


def assert_same(a, b, rtol=1e-10):
    """Equal numbers, relative to the largest of each kind: scatters may have entries that cancel."""
    for x, y in zip(numbers(a), numbers(b), strict=True):
        assert_allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max(initial=0.0))


def concrete(base):
    found, waiting = set(), [base]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("credibly.") and not inspect.isabstract(kind) and kind not in UNFINISHED:
                found.add(kind)
    return found


def test_every_family_has_an_entry_here():
    for module in pkgutil.iter_modules(class_conditionals.__path__, class_conditionals.__name__ + "."):
        importlib.import_module(module.name)
    assert concrete(ClassConditional) == {type(entry.family) for entry in ENTRIES}


# --- statistics: a sum over rows ------------------------------------------------------------------------------


@EVERY
@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, K - 1)), min_size=1, max_size=15))
def test_blocks_merge_to_the_whole_in_any_order(entry, rows):
    block, codes = np.array(rows).T
    X = rows_of(entry.name)[: len(rows)]
    whole = summary(entry, X, codes)
    a, b, c = (summary(entry, X[block == i], codes[block == i]) for i in range(3))
    assert_same(a.merge(b).merge(c), whole)
    assert_same(a.merge(b.merge(c)), whole)
    assert_same(b.merge(a), a.merge(b))


@EVERY
@settings(max_examples=20)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, K - 1)), min_size=1, max_size=15))
def test_rows_that_were_merged_can_be_removed(entry, rows):
    kept, codes = np.array(rows).T
    kept = kept.astype(bool)
    X = rows_of(entry.name)[: len(rows)]
    a, b = (summary(entry, X[mask], codes[mask]) for mask in (kept, ~kept))
    both = a.merge(b)
    for left, want, size in zip(numbers(both.remove(b)), numbers(a), numbers(both), strict=True):
        # relative to what was there before: the difference cannot have more digits
        assert_allclose(left, want, rtol=1e-9, atol=1e-9 * np.abs(size).max())


@EVERY
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_when_all_rows_are_removed_block_by_block(entry, seed):
    rng, codes = np.random.default_rng(seed), np.arange(300) % K
    X, w = entry.rows(rng, codes), rng.random(300)
    left = summary(entry, X, codes, w)
    for block in np.split(rng.permutation(300), 30):
        left = left.remove(summary(entry, X[block], codes[block], w[block]))
    for values in numbers(left):
        assert_array_equal(values, 0)


FAR_OUT = pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8])
GAUSSIANS = pytest.mark.parametrize("family", [Gaussian(), FullGaussian(True), FullGaussian(False)], ids=repr)


@FAR_OUT
@GAUSSIANS
@pytest.mark.parametrize("seed", range(3))
def test_rows_far_from_the_origin_can_be_removed_as_well(family, offset, seed):
    X, none = np.random.default_rng(seed).normal(size=(50, 2)) + offset, np.zeros(50, dtype=int)
    left = family.summarise(X, none, None, 1).remove(family.summarise(X[10:], none[10:], None, 1))
    want = family.summarise(X[:10], none[:10], None, 1)
    assert_allclose(left.mean, want.mean, rtol=1e-14)
    # the two means have errors of eps · offset, of which the scatter sees 2 · factor · gap ≈ 50 of about one each
    assert_allclose(left.scatter, want.scatter, rtol=1e-12, atol=100 * 4 * np.finfo(float).eps * (1 + offset))


@FAR_OUT
@GAUSSIANS
@pytest.mark.parametrize("seed", range(3))
def test_the_one_row_that_is_left_has_a_mean_and_no_variance(family, offset, seed):
    """What rounding leaves of a scatter must not become a density that is sure of itself."""
    X, none = np.random.default_rng(seed).normal(size=(200, 2)) + offset, np.zeros(200, dtype=int)
    left = family.summarise(X, none, None, 1).remove(family.summarise(X[1:], none[1:], None, 1))
    assert_allclose(left.mean[0], X[0], rtol=1e-13, atol=1e-13)  # 200 times the rounding of a mean
    with pytest.raises(NotDetermined):
        family.plug_in(left, MAXIMUM_LIKELIHOOD)


@EVERY
def test_removing_more_rows_than_there_are_is_refused(entry):
    X = rows_of(entry.name)
    whole = summary(entry, X)
    part = summary(entry, X[:30], CODES[:30])
    with pytest.raises(InputError, match="cannot be forgotten"):
        part.remove(whole)
    with pytest.raises(InputError, match="cannot be forgotten"):  # rows of a class that has none
        summary(entry, X, np.zeros_like(CODES)).remove(summary(entry, X[:1], np.array([2])))


@EVERY
def test_an_integer_weight_is_that_many_rows(entry):
    X, times = rows_of(entry.name), np.random.default_rng(3).integers(0, 4, size=len(CODES))
    repeated = summary(entry, X.repeat(times, axis=0), CODES.repeat(times))
    assert_same(summary(entry, X, CODES, times.astype(float)), repeated)
    assert_same(summary(entry, X, CODES, np.ones(len(X))), summary(entry, X), rtol=1e-14)


@EVERY
def test_classes_are_taken_in_any_order_and_new_ones_are_empty(entry):
    X, order = rows_of(entry.name), np.array([2, -1, 0, 1])
    place = np.array([2, 3, 0])  # where each class goes
    wider = entry.family.summarise(X, place[CODES], None, 4)
    assert_same(summary(entry, X).take(order), wider, rtol=1e-14)


@EVERY
def test_all_rows_as_one_class_are_the_pooled_classes(entry):
    X = rows_of(entry.name)
    one = entry.family.describing.summarise(X, np.zeros_like(CODES), None, 1)
    assert_same(summary(entry, X).pooled(), one)


@EVERY
def test_statistics_change_when_rows_come_and_not_otherwise(entry):
    X = rows_of(entry.name)
    whole, fewer = summary(entry, X), summary(entry, X[:-2], CODES[:-2])
    assert whole.change(whole) == 0
    assert whole.change(fewer) > 0
    assert fewer.change(summary(entry, X[:30], CODES[:30])) > whole.change(fewer)  # 28 rows are more than two


@SKIPPING
def test_missing_cells_of_blocks_are_skipped_like_those_of_the_whole(entry):
    X = rows_of(entry.name).copy()
    X[np.random.default_rng(4).random(X.shape) < 0.3] = np.nan
    assert_same(summary(entry, X[:25], CODES[:25]).merge(summary(entry, X[25:], CODES[25:])), summary(entry, X))


# --- densities ------------------------------------------------------------------------------------------------


def stated(entry, X, x):
    """The displayed equation at the estimates from X, missing cells of x left out, (n, K)."""
    seen = ~np.isnan(x)
    filled = np.where(seen, x, X[0])
    cells = [entry.cells(X, CODES, c, filled) for c in range(K)]
    return np.column_stack(
        [np.where(seen, part, 0).sum(axis=1) if part.shape == x.shape else part[:, 0] for part in cells]
    )


@EVERY
def test_the_plug_in_density_is_that_of_the_displayed_equation(entry):
    X, x = rows_of(entry.name), new_rows(entry, 60)
    density = plug_in(entry)
    assert_allclose(density.log_density(x), stated(entry, X, x), rtol=1e-11)
    ratio = density.log_ratio(x) - density.log_density(x)
    assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), atol=1e-11)


@EVERY
def test_the_log_likelihood_is_the_sum_over_rows(entry):
    X, density = rows_of(entry.name), plug_in(entry)
    for rows, codes in ((X, CODES), (X[:7], CODES[:7]), (X[:0], CODES[:0])):
        want = density.log_density(rows)[np.arange(len(rows)), codes].sum()
        assert_allclose(density.log_likelihood(summary(entry, rows, codes)), want, rtol=1e-11)
    w = np.linspace(0.0, 2.0, len(X))
    want = (w * density.log_density(X)[np.arange(len(X)), CODES]).sum()
    assert_allclose(density.log_likelihood(summary(entry, X, CODES, w)), want, rtol=1e-11)


@LEARNING
def test_the_maximum_of_the_likelihood_is_where_the_plug_in_is(entry):
    """No density drawn from the posterior has a higher likelihood."""
    statistics, rng = summary(entry, rows_of(entry.name)), np.random.default_rng(5)
    best = plug_in(entry).log_likelihood(statistics)
    beliefs = posterior(entry, rows_of(entry.name))
    assert all(beliefs.draw(rng).log_likelihood(statistics) < best for _ in range(20))
    assert beliefs.expectation().log_likelihood(statistics) < best


@LEARNING
def test_a_class_without_rows_has_no_plug_in_density(entry):
    with pytest.raises(NotDetermined, match="class number 1") as caught:
        entry.family.plug_in(summary(entry, rows_of(entry.name), CODES // 2 * 2), MAXIMUM_LIKELIHOOD)
    assert caught.value.code == 1


@EVERY
def test_parameters_are_counted(entry):
    assert entry.family.n_parameters(summary(entry, rows_of(entry.name))) == entry.n_parameters


@pytest.mark.parametrize("entry", [it for it in ENTRIES if it.outside is not None], ids=lambda it: it.name)
def test_values_outside_the_support_are_refused_by_name(entry):
    X = rows_of(entry.name).copy()
    names = [f"x{j}" for j in range(X.shape[1])]
    entry.family.check(X, names)
    X[4, 1], X[5, 2] = entry.outside, np.nan
    with pytest.raises(InputError, match=f"'x1' has {entry.outside:g} in row 4"):
        entry.family.check(X, names)
    X[4, 1] = np.nan
    entry.family.check(X, names)


@EVERY
def test_a_linear_density_differs_between_classes_as_its_logarithm_does(entry):
    x, density = new_rows(entry, 30), plug_in(entry)
    for model, log_density in ((density, density.log_density), *averaged(entry)):
        linear = model.linear()
        if linear is None:
            continue
        got = x @ linear.slopes.T + linear.offsets
        want = log_density(x)
        assert_allclose(got - got[:, :1], want - want[:, :1], rtol=1e-10, atol=1e-10)


def averaged(entry):
    beliefs = posterior(entry, rows_of(entry.name))
    return [(beliefs, beliefs.log_predictive)]


def test_the_families_with_linear_log_densities_say_so():
    linear = {entry.name for entry in ENTRIES if plug_in(entry).linear() is not None}
    others = {"FullGaussian", "Gaussian", "Spherical", "Categorical", "Product"}  # quadratic, or of no number
    assert linear == {entry.name for entry in ENTRIES} - others
    beliefs = {entry.name for entry in ENTRIES if posterior(entry, rows_of(entry.name)).linear() is not None}
    assert beliefs == {"Bernoulli", "Bernoulli-reversed", "Constant"}  # the average density is one of the family


def test_gaussian_columns_with_equal_variances_are_linear_in_the_classes():
    X, density = rows_of("Gaussian"), plug_in(NAMED["Gaussian"])
    equal = type(density)(density.mean, np.broadcast_to(density.variance[0], density.variance.shape))
    got, want = X @ equal.linear().slopes.T + equal.linear().offsets, equal.log_density(X)
    assert_allclose(got - got[:, :1], want - want[:, :1], rtol=1e-10, atol=1e-10)


def gaussian_form(density, x):
    first, second = density.mean / density.variance, -1 / (2 * density.variance)
    g = np.sqrt(-2 * second) * np.exp(first**2 / (4 * second))
    return (2 * np.pi) ** -0.5 * g * np.exp(first * x + second * x**2)


def bernoulli_form(density, x):
    eta = density.log_one - density.log_zero
    return expit(-eta) * np.exp(eta * x)


def poisson_form(density, x):
    eta = np.log(density.rate)
    return 1 / factorial(x) * np.exp(-np.exp(eta)) * np.exp(eta * x)


def exponential_form(density, x):
    eta = -density.rate
    return -eta * np.exp(eta * x)


def gamma_form(density, x):
    eta = -density.rate
    return x ** (SHAPE - 1) / gamma(SHAPE) * (-eta) ** SHAPE * np.exp(eta * x)


EXPONENTIAL_FORMS = {
    "Gaussian": gaussian_form,
    "Bernoulli": bernoulli_form,
    "Poisson": poisson_form,
    "Exponential": exponential_form,
    "Gamma": gamma_form,
}


@pytest.mark.parametrize("name", EXPONENTIAL_FORMS)
def test_the_exponential_family_form_is_the_same_density(name):
    """p(x | η) = h(x) g(η) exp(ηᵀu(x)), natural parameters as the docstring has them."""
    entry = NAMED[name]
    x, density = new_rows(entry), plug_in(entry)
    if name == "Gaussian":  # g(η) underflows far from the origin: exp(-μ²/(2σ²))
        density = type(density)(density.mean - density.mean.mean(axis=0), density.variance)
        x = x - rows_of(name).mean(axis=0)
    want = EXPONENTIAL_FORMS[name](density, x[:, None, :]).prod(axis=2)
    assert_allclose(np.exp(density.log_density(x)), want, rtol=1e-11)


# --- integrals ------------------------------------------------------------------------------------------------


def nodes(support, values):
    """Points and log weights of a sum or integral over one column: trapezia after a double exponential substitution."""
    if not isinstance(support, str):
        return np.array(support, dtype=float), np.zeros(len(support))
    if support == REAL:
        t, h = np.linspace(-3.4, 3.4, 241, retstep=True)
        u, s = np.pi / 2 * np.sinh(t), values.std()
        return values.mean() + s * np.sinh(u), np.log(h * s * np.pi / 2 * np.cosh(t) * np.cosh(u))
    t, h = np.linspace(-4.4, 3.4, 281, retstep=True)
    u, s = np.pi / 2 * np.sinh(t), values.mean()
    return s * np.exp(u), np.log(h * s * np.pi / 2 * np.cosh(t)) + u


def both_logs(entry):
    return plug_in(entry).log_density, posterior(entry, rows_of(entry.name)).log_predictive


@BY_COLUMN
def test_the_density_of_every_column_integrates_to_one(entry):
    X = rows_of(entry.name)
    for log_density, (j, support) in product(both_logs(entry), enumerate(entry.supports)):
        points, log_weight = nodes(support, X[:, j])
        x = np.full((len(points), X.shape[1]), np.nan)
        x[:, j] = points
        assert_allclose(logsumexp(log_density(x) + log_weight[:, None], axis=0), 0, atol=1e-9)


@BY_COLUMN
def test_a_missing_cell_is_integrated_out(entry):
    """With the integral of one column this makes the integral over all columns one."""
    X, x = rows_of(entry.name), new_rows(entry, 3)
    for log_density, (j, support) in product(both_logs(entry), enumerate(entry.supports)):
        points, log_weight = nodes(support, X[:, j])
        without = x.copy()
        without[:, j] = np.nan
        for row, got in zip(x, log_density(without), strict=True):
            each = np.tile(row, (len(points), 1))
            each[:, j] = points
            assert_allclose(got, logsumexp(log_density(each) + log_weight[:, None], axis=0), rtol=1e-9, atol=1e-9)


@BOTH_FULL
def test_the_density_of_two_correlated_columns_integrates_to_one(entry):
    X = rows_of(entry.name)
    (a, log_a), (b, log_b) = (nodes(REAL, X[:, j]) for j in (0, 1))
    x = np.column_stack([np.repeat(a, len(b)), np.tile(b, len(a)), np.full(len(a) * len(b), np.nan)])
    log_weight = (log_a[:, None] + log_b).ravel()[:, None]
    for log_density in both_logs(entry):
        assert_allclose(logsumexp(log_density(x) + log_weight, axis=0), 0, atol=1e-9)


def test_the_probabilities_of_all_rows_with_the_same_sum_add_up_to_one():
    entry = NAMED["Multinomial"]
    for total in (0, 1, 5):
        x = np.array([row for row in product(range(total + 1), repeat=4) if sum(row) == total], dtype=float)
        for log_density in both_logs(entry):
            assert_allclose(logsumexp(log_density(x), axis=0), 0, atol=1e-11)


# --- missing cells --------------------------------------------------------------------------------------------


@EVERY
def test_a_row_without_any_cell_says_nothing(entry):
    x = np.full((2, entry.columns), np.nan)
    for log_density in both_logs(entry):
        assert_array_equal(log_density(x), 0)
    x[0] = new_rows(entry, 1)[0]  # another row beside it does not change that
    for log_density in both_logs(entry):
        assert_array_equal(log_density(x)[1], 0)
        assert_allclose(log_density(x)[0], log_density(x[:1])[0], rtol=1e-12)


@SKIPPING
def test_missing_cells_leave_the_product_over_the_others(entry):
    X, x = rows_of(entry.name), new_rows(entry, 30)
    x[np.random.default_rng(6).random(x.shape) < 0.4] = np.nan
    assert_allclose(plug_in(entry).log_density(x), stated(entry, X, x), rtol=1e-11, atol=1e-12)


@BOTH_FULL
def test_missing_cells_leave_the_marginal_gaussian_and_student(entry):
    X, shared = rows_of(entry.name), entry.family.shared
    density, beliefs = plug_in(entry), posterior(entry, X)
    for kept in ([0], [2], [0, 2], [1, 2], [0, 1, 2]):
        x = np.full((5, 3), np.nan)
        x[:, kept] = new_rows(entry, 5)[:, kept]
        part = np.ix_(kept, kept)
        for c in range(K):
            cov = covariance(X, CODES, c, shared)
            normal = stats.multivariate_normal(X[CODES == c].mean(axis=0)[kept], cov[part])
            assert_allclose(density.log_density(x)[:, c], normal.logpdf(x[:, kept]), rtol=1e-11)
            m, k, scale, dof = niw_update(X, c, shared)
            student = stats.multivariate_t(m[kept], scale[part] * (k + 1) / (k * (dof - 2)), dof - 2)
            assert_allclose(beliefs.log_predictive(x)[:, c], student.logpdf(x[:, kept]), rtol=1e-11)


def niw_update(X, c, shared):
    """Murphy 2012, eqs. 4.210-4.213, naively; with a shared covariance every class adds to Ψ and ν."""
    m0, k0, P0, v0 = (np.asarray(value) for value in (FULL_PRIOR.mean, 0.7, FULL_PRIOR.scale, 4.5))
    scale, dof = P0.copy(), v0
    for k in range(K) if shared else [c]:
        own = X[CODES == k]
        n, mean = len(own), own.mean(axis=0)
        scale = scale + own.T @ own - n * np.outer(mean, mean) + k0 * n / (k0 + n) * np.outer(mean - m0, mean - m0)
        dof = dof + n
    own = X[CODES == c]
    return (k0 * m0 + own.sum(axis=0)) / (k0 + len(own)), k0 + len(own), scale, dof


def test_missing_counts_leave_the_others_given_their_own_sum():
    X, x = rows_of("Multinomial"), new_rows(NAMED["Multinomial"], 20)
    for kept in ([0], [1, 3], [0, 2, 3]):
        part = Entry("", Multinomial(), None, Dirichlet(np.array([0.5, 1, 2, 0.7])[kept]), multinomial_cells, (), 0)
        holes = np.full_like(x, np.nan)
        holes[:, kept] = x[:, kept]
        density = plug_in(NAMED["Multinomial"])
        assert_allclose(density.log_density(holes), plug_in(part, X[:, kept]).log_density(x[:, kept]), atol=1e-11)
        got = posterior(NAMED["Multinomial"], X).log_predictive(holes)
        assert_allclose(got, posterior(part, X[:, kept]).log_predictive(x[:, kept]), atol=1e-11)


def test_counts_that_are_impossible_in_a_class_and_all_that_was_observed_still_have_a_number():
    """θ = 0 for the only observed column: the equation is 0/0, its limit is one."""
    density = Multinomial().plug_in(Multinomial().summarise(np.array([[0.0, 2.0]]), np.array([0]), None, 1), MOMENT)
    assert not np.isnan(density.log_density(np.array([[3.0, np.nan]]))).any()


def test_multinomial_rows_to_learn_from_must_be_complete():
    with pytest.raises(InputError, match="must not have missing cells"):
        Multinomial().summarise(np.array([[1.0, np.nan]]), np.array([0]), None, 1)


@SKIPPING
def test_a_column_without_any_cell_is_as_if_it_were_not_there(entry):
    X, x = rows_of(entry.name).copy(), new_rows(entry)
    j = 1
    X[:, j], x[:, j] = np.nan, np.nan
    others = np.delete(np.arange(X.shape[1]), j)
    there, gone = posterior(entry, X), posterior(without(entry, j), X[:, others])
    assert_allclose(there.log_marginal, gone.log_marginal, rtol=1e-12)
    assert_allclose(there.log_predictive(x), gone.log_predictive(x[:, others]), rtol=1e-12)
    assert_allclose(there.log_expected(x), gone.log_expected(x[:, others]), rtol=1e-12)


def without(entry, j):
    """The same family without one column."""
    family = entry.family
    if isinstance(family, Categorical):
        family = Categorical(tuple(np.delete(family.sizes, j)))
    if isinstance(family, Product):
        groups = []
        for group in family.groups:
            kept = group.columns[group.columns != j]
            assert not isinstance(group.family, Categorical) or len(kept) == 3
            groups.append(Group(group.family, kept - (kept > j)))
        family = Product(tuple(groups))
    return entry._replace(family=family, prior=[prior for i, prior in enumerate(entry.prior) if i != j])


@EVERY
def test_rows_without_holes_are_complete_as_they_are(entry):
    X, w, beliefs = rows_of(entry.name), np.linspace(0.5, 1.5, len(CODES)), posterior(entry, rows_of(entry.name))
    completed = entry.family.complete(X, CODES, w, K, beliefs.filling)
    assert_same(completed.statistics, summary(entry, X, CODES, w), rtol=1e-14)
    assert completed.entropy == 0


@BOTH_FULL
def test_completed_rows_have_the_expected_sums_of_the_conditional_gaussian(entry):
    x, w, codes = new_rows(entry, 12), np.linspace(0.5, 1.5, 12), CODES[:12]
    x[np.arange(12), np.arange(12) % 3] = np.nan
    x[:3, 0], x[3] = np.nan, np.nan
    filling = plug_in(entry)
    statistics, entropy = entry.family.complete(x, codes, w, K, filling)
    total, first, second, want = np.zeros(K), np.zeros((K, 3)), np.zeros((K, 3, 3)), 0.0
    for row, c, weight in zip(x, codes, w, strict=True):
        m, cov = conditional(filling, row, c)
        missing = np.isnan(row)
        total[c] += weight
        first[c] += weight * m
        second[c] += weight * (np.outer(m, m) + cov)
        want += weight * stats.multivariate_normal(m[missing], cov[np.ix_(missing, missing)]).entropy()
    scatter = second - np.einsum("ci,cj->cij", first, first) / total[:, None, None]
    assert_allclose(statistics.weight, total, rtol=1e-12)
    assert_allclose(statistics.mean, first / total[:, None], rtol=1e-12)
    # the naive second moments cancel: means of seven, squared, are 50 times the scatter
    assert_allclose(statistics.scatter, scatter.sum(axis=0)[None] if entry.family.shared else scatter, atol=1e-10)
    assert_allclose(entropy, want, rtol=1e-12)


@BOTH_FULL
def test_completed_blocks_merge_to_the_completed_whole(entry):
    x, w, codes, filling = new_rows(entry, 12), np.linspace(0.5, 1.5, 12), CODES[:12], plug_in(entry)
    x[np.arange(12), np.arange(12) % 3] = np.nan
    whole, first, second = (
        entry.family.complete(x[part], codes[part], w[part], K, filling) for part in (slice(12), slice(5), slice(5, 12))
    )
    assert_same(first.statistics.merge(second.statistics), whole.statistics)
    assert_same(whole.statistics.remove(second.statistics), first.statistics)
    assert_allclose(first.entropy + second.entropy, whole.entropy, rtol=1e-13)


def conditional(filling, row, c):
    """Mean and covariance of a whole row given its observed cells, by the textbook."""
    ellipsoids = filling.ellipsoids
    mean, cov = ellipsoids.means[c], ellipsoids.metrics[min(c, len(ellipsoids.metrics) - 1)].matrix
    m, o = np.isnan(row), ~np.isnan(row)
    gain = np.linalg.solve(cov[np.ix_(o, o)], cov[np.ix_(o, m)]).T
    full, left = row.copy(), np.zeros_like(cov)
    full[m] = mean[m] + gain @ (row[o] - mean[o])
    left[np.ix_(m, m)] = cov[np.ix_(m, m)] - gain @ cov[np.ix_(o, m)]
    return full, left


# --- posteriors -----------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize(
    "learnt", [slice(0), slice(1), slice(0, 60, 3), slice(60)], ids=["none", "one", "class", "all"]
)
def test_the_predictive_of_a_row_is_the_evidence_with_it_over_that_without_it(entry, learnt):
    """In every class, those without rows among them."""
    X, codes, x = rows_of(entry.name)[learnt], CODES[learnt], new_rows(entry)
    before = posterior(entry, X, codes)
    got = before.log_predictive(x)
    for (i, row), c in product(enumerate(x), range(K)):
        after = posterior(entry, np.vstack([X, row]), np.append(codes, c))
        assert_allclose(got[i, c], after.log_marginal - before.log_marginal, rtol=1e-9, atol=1e-9)


@EVERY
def test_without_rows_the_evidence_is_one(entry):
    assert_allclose(posterior(entry, rows_of(entry.name)[:0], CODES[:0]).log_marginal, 0, atol=1e-12)


@EVERY
def test_the_evidence_is_the_product_of_one_step_predictives_in_any_order(entry):
    X, codes = rows_of(entry.name)[:10], CODES[:10]
    whole = posterior(entry, X, codes).log_marginal
    for order in (np.arange(10), np.arange(10)[::-1], np.argsort(codes, kind="stable")):
        steps, statistics = 0.0, summary(entry, X[:0], codes[:0])
        for i in order:
            beliefs = entry.family.posterior(statistics, entry.prior)
            steps += beliefs.log_predictive(X[[i]])[0, codes[i]]
            statistics = statistics.merge(summary(entry, X[[i]], codes[[i]]))
        assert_allclose(steps, whole, rtol=1e-10)


@SKIPPING
def test_the_law_of_the_predictive_holds_with_missing_cells(entry):
    X, x = rows_of(entry.name).copy(), new_rows(entry)
    X[np.random.default_rng(7).random(X.shape) < 0.3] = np.nan
    x[np.arange(4), [0, 1, 2, 0]] = np.nan
    before = posterior(entry, X)
    for (i, row), c in product(enumerate(x), range(K)):
        after = posterior(entry, np.vstack([X, row]), np.append(CODES, c))
        assert_allclose(before.log_predictive(x)[i, c], after.log_marginal - before.log_marginal, rtol=1e-9, atol=1e-9)


@EVERY
def test_the_expected_log_density_is_the_derivative_of_the_evidence_with_respect_to_the_weight_of_a_row(entry):
    """d/dw log ∫ p(x|θ)ʷ p(θ, others) dθ = E[log p(x|θ)] under the posterior with all rows."""
    X, x, h = rows_of(entry.name), new_rows(entry, 2), 0.01
    if entry.family.skips_missing and not entry.is_multinomial:
        x[1, 1] = np.nan
    for row, c in product(x, range(K)):
        rows, codes = np.vstack([X, row]), np.append(CODES, c)

        def evidence(w, rows=rows, codes=codes):
            return posterior(entry, rows, codes, np.append(np.ones(len(CODES)), w)).log_marginal

        # truncation h⁴ f⁗'/30 ≈ 1e-11, rounding eps · |log Z| / h ≈ 1e-11
        slope = (8 * (evidence(1 + h) - evidence(1 - h)) - evidence(1 + 2 * h) + evidence(1 - 2 * h)) / (12 * h)
        got = posterior(entry, rows, codes).log_expected(row[None])[0, c]
        assert_allclose(got, slope, rtol=1e-9, atol=1e-9)


@LEARNING
def test_the_expected_log_density_is_below_the_log_predictive(entry):
    beliefs, x = posterior(entry, rows_of(entry.name)), new_rows(entry, 60)
    assert (beliefs.log_expected(x) < beliefs.log_predictive(x)).all()  # Jensen


@OF_COLUMNS
def test_columns_of_one_kind_are_a_product_of_that_kind(entry):
    X, x, d = rows_of(entry.name), new_rows(entry, 10), entry.columns
    family = Product.of([entry.family] * d)
    if entry.is_multinomial:
        entry = entry._replace(prior=[Dirichlet(a) for a in entry.prior.alpha])
    wrapped = entry._replace(family=family)
    assert [group.columns.tolist() for group in family.groups] == [list(range(d))]
    assert_array_equal(posterior(wrapped, X).log_predictive(x), posterior(entry, X).log_predictive(x))
    assert posterior(wrapped, X).log_marginal == posterior(entry, X).log_marginal
    assert_array_equal(plug_in(wrapped, X).log_density(x), plug_in(entry, X).log_density(x))
    assert_array_equal(family.row_columns(d), entry.family.row_columns(d))


def test_columns_of_several_kinds_are_handled_kind_by_kind():
    X, x = rows_of("Product"), new_rows(MIXED, 10)
    parts = [(NAMED[kind], at) for kind, at in zip(KINDS, PLACES, strict=True)]
    each = [posterior(entry, X[:, at]) for entry, at in parts]
    whole = posterior(MIXED, X)
    assert_allclose(whole.log_marginal, sum(part.log_marginal for part in each), rtol=1e-13)
    for method in ("log_predictive", "log_expected"):
        want = sum(getattr(part, method)(x[:, at]) for part, (_, at) in zip(each, parts, strict=True))
        assert_allclose(getattr(whole, method)(x), want, rtol=1e-13)
    assert repr(whole) == ("ProductBeliefs(3 gaussian, 3 bernoulli, 3 categorical, 3 poisson, 3 exponential, 3 gamma)")


def test_multinomial_columns_among_others_are_one_factor():
    words, counts = rows_of("Multinomial"), rows_of("Poisson")
    X = np.column_stack([words[:, 0], counts[:, 0], words[:, 1], counts[:, 1], words[:, 2:]])
    family = Product.of([Multinomial(), Poisson(), Multinomial(), Poisson(), Multinomial(), Multinomial()])
    alphas, rates = [Dirichlet(a) for a in NAMED["Multinomial"].prior.alpha], RATES
    prior = [alphas[0], rates[0], alphas[1], rates[1], alphas[2], alphas[3]]
    whole = family.posterior(family.summarise(X, CODES, None, K), prior)
    word_beliefs = posterior(NAMED["Multinomial"], words)
    count_beliefs = posterior(NAMED["Poisson"]._replace(prior=rates[:2]), counts[:, :2])
    assert_allclose(whole.log_marginal, word_beliefs.log_marginal + count_beliefs.log_marginal, rtol=1e-13)
    want = word_beliefs.log_predictive(words) + count_beliefs.log_predictive(counts[:, :2])
    assert_allclose(whole.log_predictive(X), want, rtol=1e-12)
    linear = family.plug_in(family.summarise(X, CODES, None, K), MAXIMUM_LIKELIHOOD)
    got = X @ linear.linear().slopes.T + linear.linear().offsets
    assert_allclose(np.diff(got, axis=1), np.diff(linear.log_density(X), axis=1), atol=1e-10)


def test_a_column_that_does_not_determine_its_parameters_is_numbered_among_all_columns():
    X = np.column_stack([np.ones(6), np.arange(6.0), np.full(6, 4.0), np.arange(6.0)])
    family = Product.of([Poisson(), Gaussian(), Gaussian(), Gaussian()])
    with pytest.raises(NotDetermined, match="class number 0 has one value only") as caught:
        family.plug_in(family.summarise(X, np.zeros(6, dtype=int), None, 1), MOMENT)
    assert caught.value.columns.tolist() == [2]


# --- draws ----------------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    log_density: np.ndarray  # (draws, rows, K)
    center: np.ndarray  # (draws, K, R)
    spread: np.ndarray


@cache
def draws_of(name: str) -> Draws:
    entry = next(it for it in ENTRIES if it.name == name)
    beliefs, rng, x = posterior(entry, rows_of(name)), np.random.default_rng(8), new_rows(entry)
    drawn = [beliefs.draw(rng) for _ in range(MANY)]
    parts = [(one.log_density(x), one.center(), one.spread()) for one in drawn]
    return Draws(*(np.array(values) for values in zip(*parts, strict=True)))


def quantities(family, X):
    """The quantities of a summary: the columns, or an indicator for every level of a column of categories."""
    if isinstance(family, Product):
        return np.concatenate([quantities(group.family, X[:, group.columns]) for group in family.groups], axis=1)
    if isinstance(family, Categorical):
        return np.concatenate([np.eye(size)[X[:, j].astype(int)] for j, size in enumerate(family.sizes)], axis=1)
    return X


def assert_within_five_errors(values, want, axis=0):
    error = values.std(axis=axis) / np.sqrt(values.shape[axis])
    assert (np.abs(values.mean(axis=axis) - want) <= 5 * error + 1e-12).all()


@pytest.mark.slow
@EVERY
def test_densities_drawn_from_the_posterior_average_to_the_predictive(entry):
    beliefs, x = posterior(entry, rows_of(entry.name)), new_rows(entry)
    assert_within_five_errors(np.exp(draws_of(entry.name).log_density - beliefs.log_predictive(x)), 1.0)


@EVERY
def test_log_densities_drawn_from_the_posterior_average_to_the_expected_one(entry):
    beliefs, x = posterior(entry, rows_of(entry.name)), new_rows(entry)
    assert_within_five_errors(draws_of(entry.name).log_density, beliefs.log_expected(x))


@LEARNING
def test_estimates_are_means_and_quantiles_of_drawn_centres(entry):
    center, level = draws_of(entry.name).center, 0.9
    mean, sd, lower, upper = posterior(entry, rows_of(entry.name)).estimates(level)
    assert mean.shape == sd.shape == lower.shape == upper.shape == center.shape[1:]
    assert_within_five_errors(center, mean)
    inside = ((center > lower) & (center < upper)).mean(axis=0)
    assert (np.abs(inside - level) < 5 * np.sqrt(level * (1 - level) / MANY)).all()
    below = (center < lower).mean(axis=0)  # equal tails
    assert (np.abs(below - 0.05) < 5 * np.sqrt(0.05 * 0.95 / MANY)).all()


@EVERY
def test_the_mean_and_sd_of_estimates_are_integrals_over_their_quantiles(entry):
    """E[g] = ∫ (g(lower) + g(upper)) / 2 d(level), by trapezia after level = σ(π sinh t)."""
    beliefs = posterior(entry, rows_of(entry.name))
    t, h = np.linspace(-3, 3, 91, retstep=True)
    levels, weights = (
        expit(np.pi * np.sinh(t)),
        h * np.pi * np.cosh(t) * expit(np.pi * np.sinh(t)) * expit(-np.pi * np.sinh(t)),
    )
    mean, sd, *_ = beliefs.estimates(0.5)
    total = square = 0.0
    for level, weight in zip(levels, weights, strict=True):
        *_, lower, upper = beliefs.estimates(level)
        total = total + weight * (lower + upper) / 2
        square = square + weight * ((lower - mean) ** 2 + (upper - mean) ** 2) / 2
    assert_allclose(total, mean, rtol=1e-10)
    assert_allclose(np.sqrt(square), sd, rtol=1e-9)


@EVERY
def test_centre_and_spread_are_the_moments_of_sampled_rows(entry):
    density, rng, codes = plug_in(entry), np.random.default_rng(9), np.repeat(np.arange(K), ROWS)
    if entry.is_multinomial:
        with pytest.raises(InputError, match="how many counts a row has is not part of the model"):
            density.sample(rng, codes)
        return
    x = quantities(entry.family, density.sample(rng, codes)).reshape(K, ROWS, -1)
    assert_within_five_errors(x, density.center(), axis=1)
    assert_within_five_errors((x - density.center()[:, None]) ** 2, density.spread() ** 2, axis=1)


@BOTH_FULL
def test_sampled_rows_have_the_covariance(entry):
    density, rng = plug_in(entry), np.random.default_rng(10)
    for c in range(K):
        x = density.sample(rng, np.full(ROWS, c)) - density.center()[c]
        products = x[:, :, None] * x[:, None, :]
        assert_within_five_errors(products, covariance(rows_of(entry.name), CODES, c, entry.family.shared))


@EVERY
def test_rows_of_the_predictive_have_the_moments_of_rows_of_drawn_densities(entry):
    beliefs, rng, codes = (
        posterior(entry, rows_of(entry.name)),
        np.random.default_rng(11),
        np.repeat(np.arange(K), ROWS),
    )
    if entry.is_multinomial:
        with pytest.raises(InputError, match="how many counts a row has is not part of the model"):
            beliefs.sample(rng, codes)
        return
    x = quantities(entry.family, beliefs.sample(rng, codes)).reshape(K, ROWS, -1)
    mean, sd, *_ = beliefs.estimates(0.5)
    assert_within_five_errors(x, mean, axis=1)
    squares = (x - mean[:, None]) ** 2
    inner = draws_of(entry.name).spread ** 2  # Var[x] = E[variance] + Var[centre]
    error = np.hypot(squares.std(axis=1) / np.sqrt(ROWS), inner.std(axis=0) / np.sqrt(MANY))
    assert (np.abs(squares.mean(axis=1) - inner.mean(axis=0) - sd**2) <= 5 * error + 1e-12).all()


# --- priors ---------------------------------------------------------------------------------------------------


@IN_UNITS
def test_the_empirical_prior_follows_the_units(entry):
    """Columns in other units have the same density, in those units."""
    real = np.array([support == REAL for support in entry.supports], dtype=bool)
    units = np.array([isinstance(support, str) for support in entry.supports], dtype=bool)
    factor, shift = np.where(units, 1024.0, 1.0), np.where(real, 5.0, 0.0)
    X, x = rows_of(entry.name), new_rows(entry, 10)
    family, logs = entry.family, []
    for scale, move in ((1.0, 0.0), (factor, shift)):
        table = X * scale + move
        prior = family.empirical_prior(family.describing.summarise(table, np.zeros_like(CODES), None, 1))
        logs.append(family.posterior(summary(entry, table), prior).log_predictive(x * scale + move))
    assert_allclose(logs[1], logs[0] - np.log(factor).sum(), rtol=1e-10)


@BOTH_FULL
def test_gaussian_classes_without_a_prior_have_student_predictives(entry):
    """Geisser 1964: n_c - d degrees of freedom and S (1 + 1/n_c) / (n_c - d); shared, n - K - d + 1."""
    X, x, d, shared = rows_of(entry.name), new_rows(entry, 10), 3, entry.family.shared
    beliefs = entry.family.posterior(summary(entry, X), entry.family.reference_prior())
    assert np.isnan(beliefs.log_marginal)
    for c in range(K):
        own = X[CODES == c]
        n = len(own)
        dof = len(X) - K - d + 1 if shared else n - d
        S = covariance(X, CODES, c, shared) * (len(X) if shared else n)
        student = stats.multivariate_t(own.mean(axis=0), S * (1 + 1 / n) / dof, dof)
        assert_allclose(beliefs.log_predictive(x)[:, c], student.logpdf(x), rtol=1e-11)


def reference_predictive(name):
    X, x = rows_of(name), new_rows(NAMED[name], 10)
    family = NAMED[name].family
    beliefs = family.posterior(family.summarise(X, CODES, None, K), family.reference_prior())
    return [X[CODES == c] for c in range(K)], x, beliefs.log_predictive(x)


def test_gaussian_columns_without_a_prior_have_student_predictives():
    classes, x, got = reference_predictive("Gaussian")
    for c, own in enumerate(classes):
        n = len(own)
        want = stats.t.logpdf(x, n - 1, own.mean(axis=0), own.std(axis=0, ddof=1) * np.sqrt(1 + 1 / n)).sum(axis=1)
        assert_allclose(got[:, c], want, rtol=1e-11)


def test_spherical_classes_without_a_prior_have_a_multivariate_student_predictive():
    classes, x, got = reference_predictive("Spherical")
    for c, own in enumerate(classes):
        n, d = own.shape
        dof = d * (n - 1)
        scale = ((own - own.mean(axis=0)) ** 2).sum() / dof * (1 + 1 / n)
        want = stats.multivariate_t(own.mean(axis=0), scale * np.eye(d), dof).logpdf(x)
        assert_allclose(got[:, c], want, rtol=1e-11)


def test_counts_without_a_prior_have_negative_binomial_predictives():
    classes, x, got = reference_predictive("Poisson")
    for c, own in enumerate(classes):
        n = len(own)
        want = stats.nbinom.logpmf(x, own.sum(axis=0) + 0.5, n / (n + 1)).sum(axis=1)
        assert_allclose(got[:, c], want, rtol=1e-10)


@pytest.mark.parametrize(("name", "shape"), [("Exponential", 1.0), ("Gamma", SHAPE)])
def test_times_without_a_prior_have_beta_prime_predictives(name, shape):
    classes, x, got = reference_predictive(name)
    for c, own in enumerate(classes):
        want = stats.betaprime.logpdf(x, shape, len(own) * shape, scale=own.sum(axis=0)).sum(axis=1)
        assert_allclose(got[:, c], want, rtol=1e-10)


def test_probabilities_without_a_prior_get_half_a_count_for_every_outcome():
    classes, x, got = reference_predictive("Bernoulli")
    for c, own in enumerate(classes):
        want = stats.bernoulli.logpmf(x, (own.sum(axis=0) + 0.5) / (len(own) + 1)).sum(axis=1)
        assert_allclose(got[:, c], want, rtol=1e-12)
    classes, x, got = reference_predictive("Categorical")
    for c, own in enumerate(classes):
        counts = [np.bincount(own[:, j].astype(int), minlength=size) + 0.5 for j, size in enumerate(SIZES)]
        p = [count / count.sum() for count in counts]
        want = sum(np.log(p[j][x[:, j].astype(int)]) for j in range(3))
        assert_allclose(got[:, c], want, rtol=1e-12)
    classes, x, got = reference_predictive("Multinomial")
    for c, own in enumerate(classes):
        want = stats.dirichlet_multinomial.logpmf(x.astype(int), own.sum(axis=0) + 0.5, x.sum(axis=1).astype(int))
        assert_allclose(got[:, c], want, rtol=1e-10)


@EVERY
def test_the_reference_prior_of_a_family_is_what_reference_means_to_it(entry):
    X, x = rows_of(entry.name), new_rows(entry)
    own, named = (
        entry.family.posterior(summary(entry, X), prior) for prior in (entry.family.reference_prior(), Reference())
    )
    assert_array_equal(own.log_predictive(x), named.log_predictive(x))


@LEARNING
def test_a_prior_of_another_kind_is_refused(entry):
    wrong = Beta(1, 1) if not isinstance(entry.family, Bernoulli) else Dirichlet(1.0)
    with pytest.raises(InputError, match="prior"):
        entry.family.posterior(summary(entry, rows_of(entry.name)), wrong)


@LEARNING
def test_a_list_of_priors_has_one_for_each_column(entry):
    wrong = [Dirichlet(1.0)] * 5 if entry.is_multinomial else [*np.atleast_1d(np.array(entry.prior, dtype=object))] * 2
    with pytest.raises(InputError, match=r"columns|NormalInverseWishart"):
        entry.family.posterior(summary(entry, rows_of(entry.name)), wrong)


def test_one_variance_cannot_have_several_priors():
    """Spherical classes have one variance: column priors that disagree about it are refused, not chosen from."""
    X = rows_of("Spherical")
    for scale, dof in (([1.3, 9.0, 1.3], 2.5), (1.3, [2.5, 7.0, 2.5])):
        with pytest.raises(InputError):
            Spherical().posterior(Spherical().summarise(X, CODES, None, K), NormalInverseWishart(0, 1, scale, dof))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("family", [Poisson(), Exponential(), Gamma(SHAPE)], ids=repr)
def test_a_rate_prior_with_arrays_has_one_entry_for_each_column(family, n_classes):
    """As `conjugate_priors` says of arrays; two classes and two columns must not be taken for one another."""
    X = rows_of("Poisson")[:, 1:] + 1
    statistics = family.summarise(X, CODES % n_classes, None, n_classes)
    each = family.posterior(statistics, [GammaPrior(1.0, 0.3), GammaPrior(2.0, 0.4)])
    together = family.posterior(statistics, GammaPrior([1.0, 2.0], [0.3, 0.4]))
    assert_array_equal(together.a, each.a)
    assert_array_equal(together.b, each.b)
    assert together.log_marginal == each.log_marginal


@pytest.mark.parametrize("several", ["mean_strength", "dof"])
def test_one_covariance_has_one_strength_and_one_dof(several):
    numbers = {"mean_strength": 1.0, "dof": 5.0} | {several: [5.0, 6.0, 7.0]}
    prior = NormalInverseWishart(mean=0.0, scale=np.eye(3), **numbers)
    with pytest.raises(InputError, match=several):
        FullGaussian(False).posterior(summary(NAMED["FullGaussian"], rows_of("FullGaussian")), prior)


def test_a_diagonal_prior_of_all_columns_is_one_prior_for_each():
    X, x = rows_of("Gaussian"), new_rows(NAMED["Gaussian"])
    means, strengths, scales, dofs = ([getattr(prior, name) for prior in COLUMN_PRIORS] for name in fields_of_prior())
    together = NormalInverseWishart(means, strengths, np.diag(scales), dofs)
    beliefs = Gaussian().posterior(Gaussian().summarise(X, CODES, None, K), together)
    assert_array_equal(beliefs.log_predictive(x), posterior(NAMED["Gaussian"], X).log_predictive(x))


def fields_of_prior():
    return "mean", "mean_strength", "scale", "dof"


def test_the_prior_of_some_columns_is_the_marginal_of_that_of_all():
    """The evidence of two columns is that of the model of two columns with the marginal prior."""
    kept = np.array([0, 2])
    part = without_columns(FULL_PRIOR, kept, 3)
    empty = FullGaussian(False).summarise(np.zeros((0, 3)), CODES[:0], None, 1)
    x = np.array([[1.0, np.nan, -3.0], [4.0, np.nan, -9.0]])
    whole = FullGaussian(False).posterior(empty, FULL_PRIOR)
    fewer = FullGaussian(False).posterior(FullGaussian(False).summarise(np.zeros((0, 2)), CODES[:0], None, 1), part)
    assert_allclose(fewer.log_predictive(x[:, kept]), whole.log_predictive(x), rtol=1e-12)
    assert without_columns(with_columns(part, kept, 3), kept, 3) == part


# --- the Gaussian with shrunk covariances, gamma shapes, levels -------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_shrinkage_moves_covariances_to_their_average_variance(shared):
    X, s = rows_of("FullGaussian"), 0.3
    density = FullGaussian(shared, s).plug_in(FullGaussian(shared).summarise(X, CODES, None, K), MAXIMUM_LIKELIHOOD)
    for c, metric in enumerate(density.ellipsoids.metrics):
        cov = covariance(X, CODES, c, shared)
        assert_allclose(metric.matrix, (1 - s) * cov + s * np.trace(cov) / 3 * np.eye(3), rtol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_the_divisor_of_a_variance_is_that_of_r(shared):
    X = rows_of("FullGaussian")
    density = FullGaussian(shared).plug_in(FullGaussian(shared).summarise(X, CODES, None, K), MOMENT)
    for c, metric in enumerate(density.ellipsoids.metrics):
        want = covariance(X, CODES, c, shared) * (60 / 57 if shared else 20 / 19)
        assert_allclose(metric.matrix, want, rtol=1e-12)
    columns = Gaussian().plug_in(Gaussian().summarise(X, CODES, None, K), MOMENT)
    assert_allclose(columns.variance, [X[CODES == c].var(axis=0, ddof=1) for c in range(K)], rtol=1e-12)
    one = Spherical().plug_in(Spherical().summarise(X, CODES, None, K), MOMENT)
    assert_allclose(one.variance[:, 0], [X[CODES == c].var(axis=0, ddof=1).mean() for c in range(K)], rtol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_collinear_columns_have_no_covariance(shared):
    X = rows_of("FullGaussian").copy()
    X[:, 2] = X[:, 0] - 2 * X[:, 1]
    family = FullGaussian(shared)
    with pytest.raises(
        NotDetermined, match="the classes together have a sing" if shared else "class number 0 has a sing"
    ):
        family.plug_in(family.summarise(X, CODES, None, K), MAXIMUM_LIKELIHOOD)


@pytest.mark.parametrize("shared", [True, False])
def test_too_few_rows_are_counted_in_the_message(shared):
    X, family = rows_of("FullGaussian")[:3], FullGaussian(shared)
    message = "the classes together have 3 rows" if shared else "class number 0 has 1 rows"
    with pytest.raises(NotDetermined, match=message):
        family.plug_in(family.summarise(X, CODES[:3], None, K), MOMENT)
    with pytest.raises(NotDetermined, match="too few rows for 3 columns"):
        family.posterior(family.summarise(X, CODES[:3], None, K), Reference())


@pytest.mark.parametrize("shape", [1e-3, 0.5, 1.0, 7.0, 1e5])
def test_the_shape_of_a_gamma_column_solves_its_equation(shape):
    from mpmath import log, mp, psi

    with mp.workdps(40):
        gap = log(shape) - psi(0, shape)
    # for large shapes the gap is 1/(2k): what log k and ψ(k) lose by cancelling is eps · log k · 2k of it
    assert_allclose(gamma_shape(float(gap)), shape, rtol=1e-14 + 4e-16 * shape * np.log(shape + 1))


def test_a_shape_without_spread_is_refused_and_an_unknown_one_cannot_be_used():
    with pytest.raises(NotDetermined, match="shape of a gamma column cannot be found"):
        gamma_shape(0.0)
    with pytest.raises(InputError, match="not known yet"):
        Gamma().summarise(rows_of("Gamma"), CODES, None, K)
    with pytest.raises(InputError, match="shape of Gamma must be positive"):
        Gamma(-1.0)


def test_two_values_must_differ():
    with pytest.raises(InputError, match="two different numbers"):
        Bernoulli((1, 1))


def test_an_outcome_that_a_class_never_had_is_impossible_in_its_plug_in_density_only():
    X, codes = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), np.array([0, 0, 1, 1])
    statistics = Bernoulli().summarise(X, codes, None, 2)
    density = Bernoulli().plug_in(statistics, MAXIMUM_LIKELIHOOD)
    x = np.array([[1.0, 1.0], [0.0, np.nan], [1.0, np.nan]])
    assert_allclose(np.exp(density.log_density(x)), [[0, 0.25], [1, 0.5], [0, 0.5]], rtol=1e-15)
    assert density.linear() is None
    assert_allclose(density.log_likelihood(statistics), np.log(0.5) * 6, rtol=1e-15)
    averaged = Bernoulli().posterior(statistics, Beta(1, 1)).log_predictive(x)
    assert_allclose(np.exp(averaged), [[1 / 8, 1 / 4], [3 / 4, 1 / 2], [1 / 4, 1 / 2]], rtol=1e-15)  # Laplace


def test_a_level_that_was_never_seen_has_the_probability_of_one_without_counts():
    entry = NAMED["Categorical"]._replace(prior=Dirichlet(0.5))
    beliefs = posterior(entry, rows_of(entry.name))
    x = np.array([[np.nan, 3.0, np.nan]])
    assert_allclose(np.exp(beliefs.log_predictive(x)), 0.5 / (20 + 3 * 0.5 + 0.5), rtol=1e-14)
    assert_array_equal(plug_in(entry).log_density(x), 0)  # and tells nothing where parameters are known


def test_counts_follow_their_levels_to_another_list():
    entry = NAMED["Categorical"]
    counts = summary(entry, rows_of(entry.name))
    order = [np.array([1, 0]), np.array([0, 2, 3]), np.array([2, -1, 0, 1])]
    moved = relevelled(counts, entry.family, order, (2, 4, 3)).counts
    assert_array_equal(moved[:, [1, 0, 2, 4, 5, 8, 6, 7]], counts.counts[:, [0, 1, 2, 3, 4, 5, 7, 8]])
    assert_array_equal(moved[:, 3], 0)


# --- sparse rows ----------------------------------------------------------------------------------------------


def sparse_rows(name):
    X = rows_of(name).copy()
    if name == "Gaussian":
        X[np.random.default_rng(12).random(X.shape) < 0.7] = 0.0
    return X


@pytest.mark.parametrize(
    "name", ["Bernoulli", "Bernoulli-reversed", "Poisson", "Multinomial", "Gaussian", "Exponential"]
)
def test_sparse_rows_give_what_dense_ones_give(name):
    entry, X = NAMED[name], sparse_rows(name)
    weight = np.linspace(0.3, 1.7, len(X))
    for table, w in product((csr_array(X),), (None, weight)):
        assert_same(summary(entry, table, CODES, w), summary(entry, X, CODES, w), rtol=1e-13)
    density, beliefs = plug_in(entry, X), posterior(entry, X)
    for method in (density.log_density, density.log_ratio, beliefs.log_predictive, beliefs.log_expected):
        assert_allclose(method(csr_array(X)), method(X), rtol=1e-12, atol=1e-13)


def test_sparse_rows_of_a_product_are_cut_into_its_columns():
    X = np.column_stack([rows_of("Poisson")[:, 0], rows_of("Bernoulli"), rows_of("Poisson")[:, 1]])
    family = Product.of([Poisson(), *[Bernoulli()] * 3, Poisson()])
    statistics = family.summarise(csr_array(X), CODES, None, K)
    assert_same(statistics, family.summarise(X, CODES, None, K), rtol=1e-13)
    density = family.plug_in(statistics, MAXIMUM_LIKELIHOOD)
    assert_allclose(density.log_density(csr_array(X)), density.log_density(X), rtol=1e-12)


@pytest.mark.parametrize("values", [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
def test_sparse_rows_meet_impossible_outcomes_as_dense_ones_do(values):
    X = np.array([[values[0], 1.0], [values[1], 0.0]])
    density = Bernoulli().plug_in(Bernoulli().summarise(csr_array(X), np.zeros(2, dtype=int), None, 1), MOMENT)
    x = np.array([[values[2], 1.0], [values[0], 0.0], [0.0, 0.0]])
    assert_array_equal(density.log_density(csr_array(x)), density.log_density(x))
    assert density.log_density(csr_array(x))[0, 0] == -np.inf


@pytest.mark.parametrize("name", ["Bernoulli", "Poisson", "Multinomial"])
def test_values_outside_the_support_of_sparse_rows_are_refused_by_name(name):
    X = rows_of(name).copy()
    X[3, 1] = -2.0
    with pytest.raises(InputError, match="'b' has -2 in row 3"):
        NAMED[name].family.check(csr_array(X), ["a", "b", "c", "d"])


@pytest.mark.parametrize("family", [Gamma(SHAPE), Bernoulli((1, 2))], ids=repr)
def test_zeros_that_sparse_rows_do_not_store_are_checked_like_others(family):
    X = np.array([[1.0, 2.0], [0.0, 1.0]])
    for table in (X, csr_array(X)):
        with pytest.raises(InputError, match="'a' has 0 in row 1"):
            family.check(table, ["a", "b"])


# --- natural parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "rows", "log_h", "log_g"),
    [
        (Bernoulli(), [[0.0], [1.0], [1.0]], lambda x: 0 * x, lambda eta: -np.log1p(np.exp(eta))),
        (Poisson(), [[0.0], [4.0], [2.0]], lambda x: -gammaln(x + 1), lambda eta: -np.exp(eta)),
        (Exponential(), [[0.5], [4.0], [2.0]], lambda x: 0 * x, lambda eta: np.log(-eta)),
    ],
    ids=["bernoulli", "poisson", "exponential"],
)
def test_natural_parameters_are_those_of_the_exponential_family(family, rows, log_h, log_g):
    x = np.array(rows)
    density = family.plug_in(family.summarise(x, np.zeros(3, dtype=int), None, 1), MAXIMUM_LIKELIHOOD)
    eta = density.natural()
    assert_allclose(density.log_density(x), log_h(x) + log_g(eta) + x @ eta.T, rtol=1e-12)


def test_natural_parameters_of_a_normal_column_go_with_x_and_its_square():
    x = np.array([[0.5], [4.0], [2.0]])
    density = Gaussian().plug_in(Gaussian().summarise(x, np.zeros(3, dtype=int), None, 1), MAXIMUM_LIKELIHOOD)
    first, second = density.natural()[0, 0]
    log_g = 0.5 * np.log(-2 * second) + first**2 / (4 * second)
    exponent = first * x + second * x**2
    assert_allclose(density.log_density(x), -0.5 * np.log(2 * np.pi) + log_g + exponent, rtol=1e-12)


def test_natural_parameters_of_a_categorical_column_go_with_the_indicators_of_its_levels():
    x = np.array([[0.0], [2.0], [2.0], [1.0]])
    family = Categorical((3,))
    density = family.plug_in(family.summarise(x, np.zeros(4, dtype=int), None, 1), MAXIMUM_LIKELIHOOD)
    indicators = np.eye(3)[x[:, 0].astype(int)]
    assert_allclose(density.log_density(x), indicators @ density.natural().T, rtol=1e-15)
    assert_allclose(np.exp(density.natural()), [[0.25, 0.25, 0.5]], rtol=1e-15)


def test_natural_parameters_that_are_not_finite_are_refused():
    x = np.zeros((3, 1))
    density = Poisson().plug_in(Poisson().summarise(x, np.zeros(3, dtype=int), None, 1), MAXIMUM_LIKELIHOOD)
    with pytest.raises(AttributeError, match="no finite natural parameters"):
        density.natural()
