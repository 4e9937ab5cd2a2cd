"""Kernels one by one: bad arguments, names, algebra, digits far from home, and scikit-learn's as ours."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as theirs

from credibly.errors import InputError
from credibly.estimators.sklearn_kernels import as_kernel
from credibly.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    LogNormal,
    Matern,
    Number,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
    White,
)


def rows(n: int = 20, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def weights(n: int = 20) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(n, n))


# --- arguments ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "negative": (lambda: RBF(-1.0), "length_scale of RBF must be a positive finite number; got -1.0"),
    "zero": (lambda: RBF(0), "length_scale of RBF must be a positive"),
    "nan": (lambda: Constant(np.nan), "variance of Constant must be a positive finite number; got nan"),
    "infinite": (lambda: White(np.inf), "variance of White must be a positive finite"),
    "a word": (lambda: RBF("auto"), "length_scale of RBF must be a positive finite number; got 'auto'"),
    "a number in quotes": (lambda: RBF("1.0"), "length_scale of RBF must be a positive finite number"),
    "a truth value": (lambda: Constant(True), "variance of Constant must be a positive finite number; got True"),
    "nothing": (lambda: RBF(None), "length_scale of RBF must be a positive finite number; got None"),
    "one bad of several": (lambda: RBF([1.0, -2.0]), "length_scale of RBF, entry 1, must be a positive"),
    "no length scale": (lambda: RBF([]), "one number or one for each column"),
    "a table of length scales": (lambda: RBF([[1.0, 2.0]]), "one number or one for each column"),
    "several variances": (lambda: Constant([1.0, 2.0]), "variance of Constant must be one number"),
    "several scales of a period": (lambda: Periodic([1.0, 2.0]), "length_scale of Periodic must be one number"),
    "negative bias": (lambda: Linear(-0.1), "bias of Linear must be zero or a positive finite number; got -0.1"),
    "nu": (lambda: Matern(nu=2.0), "nu of Matern must be 0.5, 1.5 or 2.5; got 2.0"),
    "nu infinite": (lambda: Matern(nu=np.inf), "use RBF"),
    "degree": (lambda: Polynomial(0), "degree of Polynomial must be a whole number, at least 1; got 0"),
    "half a degree": (lambda: Polynomial(1.5), "degree of Polynomial must be a whole number"),
    "bounds reversed": (lambda: RBF(length_scale_bounds=(2.0, 1.0)), "length_scale_bounds of RBF must be positive"),
    "bounds at zero": (lambda: RBF(length_scale_bounds=(0.0, 1.0)), "positive and finite, the lower one first"),
    "bounds without end": (lambda: RBF(length_scale_bounds=(1.0, np.inf)), "positive and finite"),
    "bounds nan": (lambda: RBF(length_scale_bounds=(np.nan, 2.0)), "positive and finite"),
    "bounds of one": (lambda: RBF(length_scale_bounds=(1.0,)), r"must be a pair \(lower, upper\)"),
    "bounds a word": (lambda: RBF(length_scale_bounds="free"), "or \"fixed\"; got 'free'"),
    "bounds for two of three": (lambda: RBF([1.0] * 3, length_scale_bounds=[(0.1, 2.0)] * 2), "3 such pairs"),
    "start outside": (
        lambda: RBF(3.0, length_scale_bounds=(0.1, 2.0)),
        r"length_scale of RBF is 3.0, outside its bounds \(0.1, 2.0\)",
    ),
    "start outside the default": (lambda: Constant(1e6), "variance of Constant is 1000000.0, outside its bounds"),
    "one start outside": (lambda: RBF([1.0, 3.0], length_scale_bounds=(0.1, 2.0)), "length_scale of RBF is"),
    "start of alpha": (lambda: RationalQuadratic(alpha=1e-6), "alpha of RationalQuadratic is"),
    "prior": (lambda: RBF(length_scale_prior=(0.0, 1.0)), r"must be LogNormal\(median, sigma\) or None"),
    "priors for two of three": (lambda: RBF([1.0] * 3, length_scale_prior=[LogNormal(1, 1)] * 2), "3 of them"),
    "median": (lambda: LogNormal(-1.0, 1.0), "median of LogNormal must be a positive"),
    "sigma": (lambda: LogNormal(1.0, 0.0), "sigma of LogNormal must be a positive"),
    "column in no list": (lambda: RBF(columns="age"), r"Write columns=\['age'\]"),
    "column number in no list": (lambda: Linear(columns=2), r"Write columns=\[2\]"),
    "no column": (lambda: RBF(columns=[]), "columns of RBF must be a list"),
    "column twice": (lambda: RBF(columns=[1, 1]), "each once"),
    "column from the end": (lambda: Periodic(columns=[-1]), "positions from 0 on"),
    "column by truth": (lambda: Polynomial(columns=[True]), "got the entry True"),
    "half a column": (lambda: RBF(columns=[0.5]), "got the entry 0.5"),
    "adding a word": (lambda: RBF() + "noise", "a kernel or a positive number; got 'noise'"),
    "multiplying by zero": (lambda: 0.0 * RBF(), "variance of Constant must be a positive"),
    "multiplying by less": (lambda: RBF() * -2.0, "variance of Constant must be a positive"),
    "column by name": (lambda: RBF(columns=["age"])(rows()), r"by name, \['age'\].*resolved"),
    "column beyond": (lambda: Linear(columns=[3])(rows()), "column 3, counted from 0; the table has 3 columns"),
    "column beyond, names": (lambda: RBF(columns=[2]).resolved(["a", "b"]), "the table has 2 columns"),
    "unknown name": (
        lambda: (RBF(columns=["agee"]) * 2.0 + White()).resolved(["age", "sex"]),
        r"\['agee'\] that are not there; the table has \['age', 'sex'\]",
    ),
    "scales for two of three": (lambda: RBF([1.0, 2.0])(rows()), "2 length scales and looks at 3 columns"),
    "scales for two of three, gradient": (
        lambda: Matern([1.0, 2.0]).gradient_sums(rows(), weights()),
        "2 length scales and looks at 3 columns",
    ),
    "one column as a vector": (lambda: RBF()(np.arange(3.0)), r"got shape \(3,\)\. For one column use X\[:, None\]"),
    "words": (lambda: RBF()(np.array([["a"]])), "a table of numbers"),
    "tables of two widths": (lambda: RBF()(rows(), rows(d=2)), "same columns; got 3 and 2"),
    "tables of two widths, linear": (lambda: Linear()(rows(), rows(d=2)), "same columns; got 3 and 2"),
    "weights of too few": (lambda: RBF().gradient_sums(rows(), weights(5)), r"\(20, 20\); got shape \(5, 5\)"),
    "weights for a constant": (lambda: Constant().gradient_sums(rows(), weights(5)), r"\(20, 20\)"),
    "theta too long": (
        lambda: (2.0 * RBF()).with_theta([0.0, 0.0, 0.0]),
        r"2 natural logarithms, of \(variance, length_scale\); got shape \(3,\)",
    ),
    "theta nan": (lambda: RBF().with_theta([np.nan]), "natural logarithms of positive numbers"),
    "theta too large": (lambda: RBF().with_theta([800.0]), "natural logarithms of positive numbers"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_is_refused_with_a_sentence(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        make()


def test_arguments_are_held_as_floats_and_tuples():
    k = RBF(np.array([1, 2]), length_scale_bounds=np.array([[0.1, 3.0], [0.2, 4.0]]), columns=np.array([1, 0]))
    assert k.length_scale == (1.0, 2.0)
    assert k.length_scale_bounds == ((0.1, 3.0), (0.2, 4.0))
    assert k.columns == (1, 0) and type(k.columns[0]) is int
    assert k == RBF([1.0, 2.0], length_scale_bounds=[(0.1, 3.0), (0.2, 4.0)], columns=[1, 0])
    assert_allclose(k.bounds, np.log([[0.1, 3.0], [0.2, 4.0]]))
    assert RBF(np.float64(2)) == RBF(2)
    assert RBF([1.0]) != RBF(1.0)


def test_a_prior_for_each_length_scale():
    k = RBF([1.0, 2.0], length_scale_prior=[None, LogNormal(1.0, 0.5)])
    assert_allclose(k.log_prior, LogNormal(1.0, 0.5).log_density(np.log(2.0)))
    assert_allclose(k.log_prior_gradient, [0.0, -np.log(2.0) / 0.25])
    assert (k + White(variance_prior=LogNormal(1.0, 2.0))).log_prior_gradient.shape == (3,)


def test_theta_may_leave_the_bounds_and_come_back():
    k = RBF(length_scale_bounds=(0.5, 2.0), columns=["a"]).with_theta(np.log([10.0]))
    assert_allclose(k.length_scale, 10.0)
    assert k.resolved(["a"]).columns == (0,)


def test_without_a_bias_there_is_nothing_to_learn():
    for k in (Linear(), Polynomial(bias=0.0)):
        assert k.theta.shape == (0,) and k.bounds.shape == (0, 2) and k.hyperparameters == ()
        assert k.gradient_sums(rows(), weights()).shape == (0,)
        assert k.with_theta([]) == k


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (RBF(), ("length_scale",)),
        (RBF([1.0, 2.0]), ("length_scale[0]", "length_scale[1]")),
        (2.0 * RBF([1.0, 2.0]), ("variance", "length_scale[0]", "length_scale[1]")),
        (2.0 * RBF() + White(), ("Constant.variance", "length_scale", "White.variance")),
        (RBF() + RBF([1.0, 2.0]), ("RBF1.length_scale", "RBF2.length_scale[0]", "RBF2.length_scale[1]")),
        (Constant(1.0, variance_bounds="fixed") * RBF() + White(), ("length_scale", "variance")),
        (
            RationalQuadratic() * Periodic(),
            ("alpha", "RationalQuadratic.length_scale", "Periodic.length_scale", "period"),
        ),
    ],
    ids=lambda it: repr(it) if isinstance(it, Kernel) else "",
)
def test_names_are_plain_where_that_is_enough(kernel, names):
    assert kernel.hyperparameters == names


def test_names_of_columns_are_found_in_all_parts():
    k = (2.0 * RBF(columns=["b"]) + Linear(columns=["a"])).resolved(["a", "b"])
    assert k == 2.0 * RBF(columns=[1]) + Linear(columns=[0])


# --- algebra ------------------------------------------------------------------------------------------------


def test_numbers_stand_for_constants_on_both_sides():
    assert 2.0 * RBF() == Product(Constant(2.0), RBF())
    assert RBF() * 2 == Product(RBF(), Constant(2.0))
    assert 2 + RBF() == Sum(Constant(2.0), RBF())
    assert RBF() + np.float64(2.0) == Sum(RBF(), Constant(2.0))
    assert RBF() + White() == Sum(RBF(), White())


def test_a_composite_is_positive_definite_if_all_parts_are():
    assert not Kernel.positive_definite
    assert not Counted(RBF()).positive_definite
    assert (RBF() + 2.0 * White()).positive_definite
    assert not (RBF() + 2.0 * Counted(White())).positive_definite


@dataclass(frozen=True)
class Counted(Kernel):
    """A kernel of somebody else's, which counts how often its matrix is asked for."""

    inner: Kernel
    calls: ClassVar[list[int]] = []

    def __call__(self, X, Z=None):
        self.calls.append(len(X))
        return self.inner(X, Z)

    def diag(self, X):
        return self.inner.diag(X)

    def gradient_sums(self, X, M, K=None):
        return self.inner.gradient_sums(X, M, K)


@pytest.mark.parametrize("order", ["left", "right"])
def test_a_known_matrix_is_used_again_beside_constants_and_noise(order):
    X, M = rows(), weights()
    inner = Counted(RBF(1.3))
    k = 2.0 * inner + White(0.1) if order == "left" else White(0.1) + inner * 2.0
    K = k(X)
    Counted.calls.clear()
    found = k.gradient_sums(X, M, K)
    assert not Counted.calls
    assert_allclose(found, k.gradient_sums(X, M), rtol=1e-13)


def test_a_kernel_on_one_screen():
    @dataclass(frozen=True)
    class Tilted(Kernel):
        """k(x, z) = slope · x₀ z₀."""

        slope: float = 1.0
        numbers: ClassVar = (Number("slope"),)

        def __call__(self, X, Z=None):
            return self.slope * np.outer(X[:, 0], X[:, 0] if Z is None else Z[:, 0])

        def diag(self, X):
            return self.slope * X[:, 0] ** 2

        def gradient_sums(self, X, M, K=None):
            return np.array([(M * self(X)).sum()])

    k = 2.0 * Tilted(3.0) + White(0.1)
    assert k.hyperparameters == ("Constant.variance", "slope", "White.variance")
    assert_allclose(k.theta, np.log([2.0, 3.0, 0.1]))
    assert_allclose(k.bounds[1], np.log([1e-5, 1e5]))
    assert k.with_theta(np.log([2.0, 4.0, 0.1])).left.right.slope == pytest.approx(4.0)
    assert k.log_prior == 0.0
    with pytest.raises(InputError, match="slope of Tilted must be a positive"):
        Tilted(-1.0)


# --- digits and memory --------------------------------------------------------------------------------------


def pairwise_gradient(kernel: Kernel, X: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Σ M ∘ (-2g′) ∘ (x_d - z_d)²/ℓ_d², pair by pair, in extended precision."""
    X, M = X.astype(np.longdouble), M.astype(np.longdouble)
    scale = np.asarray(kernel.length_scale, dtype=np.longdouble)
    squares = ((X[:, None, :] - X[None, :, :]) / scale) ** 2
    r = np.sqrt(squares.sum(axis=2))
    if isinstance(kernel, RBF):
        fall = np.exp(-(r**2) / 2)
    elif isinstance(kernel, RationalQuadratic):
        fall = (1 + r**2 / (2 * kernel.alpha)) ** (-kernel.alpha - 1)
    elif kernel.nu == 0.5:
        fall = np.exp(-r) / np.where(r == 0, 1, r)
    elif kernel.nu == 1.5:
        fall = 3 * np.exp(-np.sqrt(np.longdouble(3)) * r)
    else:
        s = np.sqrt(np.longdouble(5)) * r
        fall = np.longdouble(5) / 3 * (1 + s) * np.exp(-s)
    sums = ((M * fall)[:, :, None] * squares).sum(axis=(0, 1))
    return (sums if scale.ndim else sums.sum(keepdims=True)).astype(float)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("ard", [False, True], ids=["one", "ard"])
@pytest.mark.parametrize("kind", ["RBF", "Matern-1/2", "Matern-3/2", "Matern-5/2", "RationalQuadratic"])
def test_close_pairs_in_wide_data_keep_their_digits(kind, ard, spread):
    """Clusters far apart beside the length scale, and pairs closer than a billionth of it."""
    scale = [0.7, 3.1, 1.9] if ard else 1.3
    kernel = {
        "RBF": RBF(scale),
        "Matern-1/2": Matern(scale, 0.5),
        "Matern-3/2": Matern(scale, 1.5),
        "Matern-5/2": Matern(scale, 2.5),
        "RationalQuadratic": RationalQuadratic(scale, 0.4, alpha_bounds="fixed"),
    }[kind]
    rng = np.random.default_rng(5)
    X = spread * rng.normal(size=(6, 3))[rng.integers(6, size=60)] + rng.normal(size=(60, 3))
    X[50:] = X[:10] + 1e-10 * rng.normal(size=(10, 3))
    X[49] = X[0]
    M = rng.normal(size=(60, 60))
    want = pairwise_gradient(kernel, X, M)
    size = np.abs(pairwise_gradient(kernel, X, np.abs(M)))
    assert (np.abs(kernel.gradient_sums(X, M) - want) <= 1e-11 * size).all()


def test_matern_with_a_kink_has_no_trouble_with_rows_that_are_all_the_same():
    X = np.ones((5, 2))
    for k in (Matern(nu=0.5), Matern([1.0, 2.0], nu=0.5)):
        assert_array_equal(k(X), np.ones((5, 5)))
        assert_array_equal(k.gradient_sums(X, weights(5)), np.zeros_like(k.theta))


def test_far_from_zero_the_phase_is_still_right():
    k, x, z = Periodic(0.3, 1.7), 1e9 + 0.25, -3e8 + 0.125
    with mp.workdps(50):
        exact = mp.exp(-2 * mp.sin(mp.pi * (mp.mpf(x) - mp.mpf(z)) / mp.mpf(1.7)) ** 2 / mp.mpf(0.3) ** 2)
    assert_allclose(k([[x]], [[z]]), float(exact), rtol=1e-13)


def test_a_mixture_of_nearly_one_length_scale_is_nearly_rbf():
    X = rows()
    assert_allclose(RationalQuadratic(1.3, 1e5)(X), RBF(1.3)(X), atol=1e-4)  # the difference is r⁴/8α


@pytest.mark.parametrize("kernel", [RBF([2.0] * 30), Matern([2.0] * 30), 2.0 * RBF([2.0] * 30) + White(0.1)], ids=repr)
def test_gradients_need_at_most_two_matrices(kernel):
    n = 700
    X, M = rows(n, 30), weights(n)
    K = kernel(X)
    tracemalloc.start()
    kernel.gradient_sums(X, M, K)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * K.nbytes + 8 * 2**20  # and a few blocks of two megabytes; ∂K would be thirty


# --- scikit-learn's -----------------------------------------------------------------------------------------

PAIRS = {
    "constant": (theirs.ConstantKernel(2.0, (0.1, 10.0)), Constant(2.0, variance_bounds=(0.1, 10.0))),
    "white": (theirs.WhiteKernel(0.3), White(0.3)),
    "rbf": (theirs.RBF(1.3), RBF(1.3)),
    "rbf one in a list": (theirs.RBF([1.3]), RBF(1.3)),
    "rbf ard": (theirs.RBF([0.7, 3.1, 1.9], (0.1, 9.0)), RBF([0.7, 3.1, 1.9], length_scale_bounds=(0.1, 9.0))),
    "rbf bounds for each": (
        theirs.RBF([0.7, 3.1, 1.9], [(0.1, 9.0), (0.2, 8.0), (0.3, 7.0)]),
        RBF([0.7, 3.1, 1.9], length_scale_bounds=[(0.1, 9.0), (0.2, 8.0), (0.3, 7.0)]),
    ),
    "rbf fixed": (theirs.RBF(1.3, "fixed"), RBF(1.3, length_scale_bounds="fixed")),
    "matern 1/2": (theirs.Matern(1.3, nu=0.5), Matern(1.3, 0.5)),
    "matern 1/2 ard": (theirs.Matern([0.7, 3.1, 1.9], nu=0.5), Matern([0.7, 3.1, 1.9], 0.5)),
    "matern 3/2 ard": (theirs.Matern([0.7, 3.1, 1.9]), Matern([0.7, 3.1, 1.9])),
    "matern 5/2": (theirs.Matern(1.3, nu=2.5), Matern(1.3, 2.5)),
    "matern inf": (theirs.Matern([0.7, 3.1, 1.9], nu=np.inf), RBF([0.7, 3.1, 1.9])),
    "rational quadratic": (
        theirs.RationalQuadratic(1.3, 0.4, (0.1, 9.0), (0.2, 8.0)),
        RationalQuadratic(1.3, 0.4, length_scale_bounds=(0.1, 9.0), alpha_bounds=(0.2, 8.0)),
    ),
    "dot product": (theirs.DotProduct(0.6), Linear(0.6)),
    "dot product fixed": (theirs.DotProduct(0.6, "fixed"), Linear(0.6, bias_bounds="fixed")),
    "dot product cubed": (theirs.DotProduct(0.6) ** 3, Polynomial(3, 0.6)),
    "all together": (
        2.0 * theirs.RBF([0.7, 3.1, 1.9]) * theirs.Matern(1.3)
        + theirs.DotProduct(0.6) ** 2.0
        + theirs.WhiteKernel(0.3),
        2.0 * RBF([0.7, 3.1, 1.9]) * Matern(1.3) + Polynomial(2, 0.6) + White(0.3),
    ),
}


def same_as_theirs(kernel: theirs.Kernel, X: np.ndarray) -> None:
    ours, M = as_kernel(kernel), weights(len(X))
    K, dK = kernel(X, eval_gradient=True)
    assert_allclose(ours.theta, kernel.theta, rtol=1e-15)
    assert_allclose(ours.bounds, np.reshape(kernel.bounds, (-1, 2)), rtol=1e-15)
    assert_allclose(ours(X), K, rtol=1e-12, atol=1e-15)
    assert_allclose(ours(X, X[:3]), kernel(X, X[:3]), rtol=1e-12, atol=1e-15)
    assert_allclose(ours.diag(X), kernel.diag(X), rtol=1e-12)
    want = np.einsum("ij,ijp->p", M, dK) if dK.size else np.empty(0)
    size = np.abs(M).sum() * (np.abs(dK).max() if dK.size else 0.0)
    assert_allclose(ours.gradient_sums(X, M), want, rtol=1e-12, atol=1e-14 * size)


@pytest.mark.parametrize("case", list(PAIRS))
def test_a_kernel_of_scikit_learn_is_the_same_as_ours(case):
    kernel, ours = PAIRS[case]
    assert as_kernel(kernel) == ours
    assert as_kernel(ours) is ours
    same_as_theirs(kernel, rows())


def test_sines_are_the_same_in_one_column():
    kernel = theirs.ExpSineSquared(0.8, 1.7, (0.1, 9.0), (0.2, 8.0))
    assert as_kernel(kernel) == Periodic(0.8, 1.7, length_scale_bounds=(0.1, 9.0), period_bounds=(0.2, 8.0))
    same_as_theirs(kernel, rows(d=1))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (theirs.PairwiseKernel(), "got sklearn.gaussian_process.kernels.PairwiseKernel"),
        (theirs.CompoundKernel([theirs.RBF()]), "CompoundKernel"),
        (theirs.RBF() ** 2, "Exponentiation, DotProduct"),
        (theirs.DotProduct() ** 1.5, r"got \(DotProduct\(sigma_0=1\)\) \*\* 1.5"),
        (theirs.RBF() + theirs.PairwiseKernel(), "PairwiseKernel"),
        (theirs.Matern(nu=2.0), "nu of Matern must be"),
        (theirs.RBF(1e7), "outside its bounds"),
        ("rbf", "got 'rbf'"),
        (RBF, "kernel must be a kernel of credibly.kernels"),
    ],
    ids=["pairwise", "compound", "power of rbf", "half power", "inside a sum", "nu", "outside", "a word", "a class"],
)
def test_other_kernels_are_refused_by_name(kernel, message):
    with pytest.raises(InputError, match=message):
        as_kernel(kernel)


def test_a_number_beyond_the_usual_bounds_is_a_factor_all_the_same():
    for value in (1e-9, 1e-5, 1.0, 1e5, 1e9):
        kernel = value * RBF()
        low, high = np.exp(kernel.bounds[0])
        assert kernel.left.variance == value
        assert low <= value * (1 + 1e-12) and value <= high * (1 + 1e-12)
