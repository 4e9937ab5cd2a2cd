"""Conjugate priors are plain values: equal by their numbers, short in print, and refused at once when impossible."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from credibly.errors import InputError
from credibly.model.conjugate_priors import Dirichlet, Gamma, NormalInverseWishart, Reference
from credibly.model.priors import Beta

MATRIX = [[2.0, 0.5], [0.5, 1.0]]


def one_of_each():
    return [
        NormalInverseWishart([0.0, 1.0], 0.1, MATRIX, 4),
        NormalInverseWishart(0.0, 0.1, 2.0, 3.0),
        Dirichlet(0.5),
        Dirichlet([1.0, 2.0, 3.0]),
        Gamma(1.0, 0.5),
        Gamma([1.0, 2.0], [0.5, 0.1]),
        Beta(1.0, 9.0),
        Reference(),
    ]


def test_priors_are_equal_exactly_when_kind_and_numbers_are():
    for i, a in enumerate(one_of_each()):
        for j, b in enumerate(one_of_each()):
            assert (a == b) is (i == j)
            assert (a != b) is (i != j)


def test_how_numbers_are_written_does_not_matter_to_equality():
    assert Dirichlet([1, 2]) == Dirichlet((1.0, 2.0)) == Dirichlet(np.array([1.0, 2.0]))
    assert NormalInverseWishart([0, 0], 1, np.eye(2), 4) == NormalInverseWishart((0.0, 0.0), 1.0, [[1, 0], [0, 1]], 4.0)
    assert Gamma(1, 2) == Gamma(1.0, np.float64(2.0))


@pytest.mark.parametrize(
    "other",
    [
        NormalInverseWishart([0.0, 2.0], 0.1, MATRIX, 4),
        NormalInverseWishart([0.0, 1.0], 0.2, MATRIX, 4),
        NormalInverseWishart([0.0, 1.0], 0.1, np.eye(2), 4),
        NormalInverseWishart([0.0, 1.0], 0.1, MATRIX, 5),
        NormalInverseWishart(0.0, 0.1, MATRIX, 4),
        Dirichlet(1.0),
        "a word",
        None,
    ],
    ids=repr,
)
def test_every_number_counts_for_equality(other):
    assert NormalInverseWishart([0.0, 1.0], 0.1, MATRIX, 4) != other
    assert not NormalInverseWishart([0.0, 1.0], 0.1, MATRIX, 4) == other


def test_one_number_for_all_is_not_the_same_as_a_list_of_it():
    assert Dirichlet(1.0) != Dirichlet([1.0])
    assert Gamma(1.0, 1.0) != Gamma([1.0, 1.0], 1.0)


def test_copies_and_pickles_are_equal():
    for prior in one_of_each():
        assert copy.deepcopy(prior) == prior
        assert pickle.loads(pickle.dumps(prior)) == prior


def test_priors_that_may_hold_arrays_cannot_be_keys():
    for prior in (NormalInverseWishart(0.0, 1.0, 1.0, 3.0), Dirichlet(1.0), Gamma(1.0, 1.0)):
        with pytest.raises(TypeError, match="unhashable"):
            hash(prior)
    assert len({Reference(), Reference()}) == 1


def test_priors_cannot_be_changed():
    with pytest.raises(AttributeError):
        Dirichlet(1.0).alpha = 2.0
    with pytest.raises(AttributeError):
        Gamma(1.0, 1.0).rate = -1.0


@pytest.mark.parametrize(
    ("prior", "written"),
    [
        (
            NormalInverseWishart(mean=[0.0, 0.0], mean_strength=0.1, scale=np.eye(2), dof=4),
            "NormalInverseWishart(mean=(2,), mean_strength=0.1, scale=(2, 2), dof=4)",
        ),
        (
            NormalInverseWishart(0.0, 0.01, 2.5, 3.0),
            "NormalInverseWishart(mean=0.0, mean_strength=0.01, scale=2.5, dof=3.0)",
        ),
        (Dirichlet(0.5), "Dirichlet(alpha=0.5)"),
        (Dirichlet([1.0, 2.0]), "Dirichlet(alpha=(2,))"),
        (Gamma(shape=1, rate=0.5), "Gamma(shape=1, rate=0.5)"),
        (Reference(), "Reference()"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_numbers_are_printed_and_arrays_by_their_shape(prior, written):
    assert repr(prior) == written


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormalInverseWishart([0.0, np.nan], 1, 1, 3), "mean of NormalInverseWishart must be finite"),
        (
            lambda: NormalInverseWishart("here", 1, 1, 3),
            "mean of NormalInverseWishart must be made of numbers; got 'here'",
        ),
        (lambda: NormalInverseWishart(0, 0, 1, 3), "mean_strength of NormalInverseWishart must be positive; got 0"),
        (
            lambda: NormalInverseWishart(0, np.inf, 1, 3),
            "mean_strength of NormalInverseWishart must be finite; got inf",
        ),
        (lambda: NormalInverseWishart(0, 1, -2.0, 3), "scale of NormalInverseWishart must be positive; got -2.0"),
        (lambda: NormalInverseWishart(0, 1, [1.0, 0.0], 3), "scale of NormalInverseWishart must be positive"),
        (lambda: NormalInverseWishart(0, 1, [[1.0, 2.0]], 3), "must be a square matrix; got shape (1, 2)"),
        (lambda: NormalInverseWishart(0, 1, [[1.0, 0.5], [0.4, 1.0]], 3), "must be symmetric"),
        (lambda: NormalInverseWishart(0, 1, [[1.0, 2.0], [2.0, 1.0]], 3), "is not positive definite"),
        (lambda: NormalInverseWishart(0, 1, np.ones((2, 2, 2)), 3), "must be a square matrix; got shape (2, 2, 2)"),
        (lambda: NormalInverseWishart(0, 1, 1, 0.0), "dof of NormalInverseWishart must be positive; got 0.0"),
        (lambda: Dirichlet(0.0), "alpha of Dirichlet must be positive; got 0.0"),
        (lambda: Dirichlet([1.0, -1.0]), "alpha of Dirichlet must be positive; got [1.0, -1.0]"),
        (lambda: Dirichlet(None), "alpha of Dirichlet must be finite; got None"),
        (lambda: Gamma(0.0, 1.0), "shape of Gamma must be positive; got 0.0"),
        (lambda: Gamma(1.0, -1.0), "rate of Gamma must be positive; got -1.0"),
        (lambda: Gamma(1.0, np.nan), "rate of Gamma must be finite; got nan"),
        (lambda: Beta(0.0, 1.0), "a of Beta must be positive; got 0.0"),
        (lambda: Beta(1.0, [[1.0], [2.0, 3.0]]), "b of Beta must be made of numbers"),
    ],
)
def test_impossible_numbers_are_refused_by_name(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


# The displayed densities, up to their constants: ratios at two points are those of SciPy's distributions


def test_the_displayed_inverse_wishart_is_that_of_scipy():
    scale, dof, d = np.array(MATRIX), 5.0, 2

    def stated(Sigma):
        return -0.5 * (dof + d + 1) * np.log(np.linalg.det(Sigma)) - 0.5 * np.trace(
            scale @ np.linalg.solve(Sigma, np.eye(d))
        )

    a, b = np.array([[1.0, 0.2], [0.2, 0.7]]), np.array([[3.0, -1.0], [-1.0, 0.9]])
    want = stats.invwishart.logpdf(a, dof, scale) - stats.invwishart.logpdf(b, dof, scale)
    assert_allclose(stated(a) - stated(b), want, rtol=1e-12)


def test_the_displayed_gamma_has_a_shape_and_a_rate():
    shape, rate = 2.5, 0.8
    total = quad(lambda x: x ** (shape - 1) * np.exp(-rate * x), 0, np.inf)[0]
    mean = quad(lambda x: x**shape * np.exp(-rate * x), 0, np.inf)[0] / total
    assert_allclose(mean, shape / rate, rtol=1e-9)
    at = np.array([0.3, 2.0])
    assert_allclose(
        at ** (shape - 1) * np.exp(-rate * at) / total, stats.gamma.pdf(at, shape, scale=1 / rate), rtol=1e-9
    )
