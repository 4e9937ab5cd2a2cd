"""What cannot be is refused before work starts, by a message that says what was expected and what came."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.errors import InputError
from credibly.model.centred_prior import CentredNormal
from credibly.model.class_conditionals.base import MAXIMUM_LIKELIHOOD, NotDetermined
from credibly.model.class_conditionals.categorical import Categorical, Counts
from credibly.model.class_conditionals.choices import MultivariateGaussian, one_family
from credibly.model.class_conditionals.gaussian import Gaussian, Moments
from credibly.model.class_conditionals.multivariate import FullGaussian
from credibly.model.class_conditionals.rates import Exponential, Poisson, RateSums
from credibly.model.class_conditionals.statistics import Additive, Parts
from credibly.model.class_conditionals.wishart import Scatter
from credibly.model.conjugate_priors import Dirichlet, Gamma, NormalInverseWishart, Reference
from credibly.model.likelihoods import NormalMixture
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.links import Derivatives, Identity, Link
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape

SHAPE = WeightShape(3, 2, True)  # columns, weight vectors, intercept

# --- Priors of weights ------------------------------------------------------------------------------------------------

WRONG_PRIORS = {
    "mean of five": (
        Normal(mean=np.zeros(5)),
        r"prior mean has shape \(5,\); expected 8 \(all classes\) or 4 \(slopes and intercept\) or 3 \(the slopes\)",
    ),
    "covariance of five": (Normal(cov=np.eye(5)), r"prior covariance has shape \(5, 5\); expected 8×8 .* or 3×3"),
    "scale and covariance": (Normal(scale=2.0, cov=np.eye(3)), r"either scale or cov; got both \(scale=2\.0\)"),
    "two scales": (Normal(scale=[1.0, 2.0]), r"prior scale has shape \(2,\); expected one number or .* \(3,\)"),
    "a word": (Normal(scale="wide"), r"prior scale must be made of numbers; got 'wide'"),
    "infinite": (Normal(scale=np.inf), r"prior scale must be finite; got inf"),
    "a rectangle": (Normal(cov=np.ones((2, 3))), r"prior covariance must be a square matrix; got shape \(2, 3\)"),
}


@pytest.mark.parametrize("wrong", list(WRONG_PRIORS))
def test_priors_that_do_not_fit_the_weights_say_which_would(wrong):
    prior, message = WRONG_PRIORS[wrong]
    with pytest.raises(InputError, match=message):
        prior.moments(SHAPE)


def test_what_is_given_for_the_slopes_is_shared_by_all_classes_and_leaves_the_intercept_alone():
    mean, cov = Normal(mean=[1.0, 2.0, 3.0], cov=2 * np.eye(3), intercept_scale=5.0).moments(SHAPE)
    assert_allclose(mean, [1, 2, 3, 0] * 2)
    assert_allclose(cov, np.diag([2, 2, 2, 25] * 2))


def test_a_prior_at_the_column_means_is_a_plain_one_where_there_is_no_intercept():
    centred = CentredNormal([2.0, 3.0], 10.0, [5.0, 7.0])
    assert repr(centred) == "CentredNormal(2 slopes, intercept_scale=10.0 at the column means)"
    assert_allclose(centred.moments(WeightShape(2, 1, False)).cov, np.diag([4.0, 9.0]))
    cov = centred.moments(WeightShape(2, 1, True)).cov
    at_means = np.array([5.0, 7.0, 1.0])
    assert_allclose(at_means @ cov @ at_means, 100.0, rtol=1e-12)  # the score there has the intercept's scale


def test_degrees_of_freedom_are_one_number():
    with pytest.raises(InputError, match=r"df of StudentT must be one number; got \[1\.0, 2\.0\]"):
        _ = StudentT(df=[1.0, 2.0]).degrees


def test_priors_in_print_and_compared():
    assert repr(Normal(mean=[0.0, 1.0])) == "Normal(mean=…, cov=…, 2 weights)"
    assert repr(Normal(cov=np.eye(3))) == "Normal(mean=…, cov=…, 3 weights)"
    assert repr(Normal(scale=[1.0, 2.0])) == "Normal(scale=[1.0, 2.0], intercept_scale=10.0)"
    assert Normal(scale=[1.0, 2.0]) == Normal(scale=np.array([1.0, 2.0])) != Normal(scale=[1.0, 3.0])
    assert len({Jeffreys(), Jeffreys()}) == 1 and Jeffreys() != StudentT()
    assert repr(Jeffreys()) == "Jeffreys()"


# --- Class conditionals -----------------------------------------------------------------------------------------------

TWO = Moments(np.ones((1, 2)) * 4, np.zeros((1, 2)), np.ones((1, 2)))
RATES = RateSums(np.full((1, 2), 4.0), np.full((1, 2), 3.0), np.zeros((1, 2)))
FULL = FullGaussian(shared=True)
SUMS = Scatter(np.array([5.0]), np.zeros((1, 2)), np.eye(2)[None], np.zeros((1, 2)), True)

WRONG_CHOICES = {
    "levels": (
        lambda: Categorical((2, 3)).posterior(Counts(np.ones((1, 5))), [Dirichlet(1.0), Dirichlet([1.0, 1.0])]),
        r"Dirichlet\(alpha\) has 2 numbers for a column with 3 levels",
    ),
    "covariance": (lambda: MultivariateGaussian("full"), r"covariance must be one of shared, .*; got 'full'"),
    "family": (lambda: one_family("normal"), r"A column's family is 'auto', one of 'gaussian', .*; got 'normal'"),
    "rates": (
        lambda: Poisson().posterior(RATES, Gamma([1.0, 1.0, 1.0], 1.0)),
        r"shape of Gamma has shape \(3,\) for 2 columns",
    ),
    "too many priors": (lambda: Poisson().posterior(RATES, [Gamma(1.0, 1.0)] * 3), "prior has 3 entries for 2 columns"),
    "another's prior": (lambda: Poisson().posterior(RATES, Dirichlet(1.0)), r"is Gamma\(shape, rate\); got Dirichlet"),
    "columns": (
        lambda: Gaussian().posterior(TWO, NormalInverseWishart([0.0, 0.0, 0.0], 1.0, 1.0, 1.0)),
        r"The prior of these columns is .*; got NormalInverseWishart.* for 2 columns",
    ),
    "mean": (
        lambda: FULL.posterior(SUMS, NormalInverseWishart(np.zeros(3), 1.0, np.eye(2), 4)),
        r"mean of NormalInverseWishart has shape \(3,\); expected \(2,\)",
    ),
    "scale": (
        lambda: FULL.posterior(SUMS, NormalInverseWishart(0.0, 1.0, np.eye(3), 4)),
        r"scale of NormalInverseWishart has shape \(3, 3\); expected \(2, 2\)",
    ),
    "strength": (
        lambda: FULL.posterior(SUMS, NormalInverseWishart(0.0, [1.0, 1.0], np.eye(2), 4)),
        r"mean_strength of NormalInverseWishart must be one number here",
    ),
    "freedom": (
        lambda: FULL.posterior(SUMS, NormalInverseWishart(0.0, 1.0, np.eye(2), 1)),
        r"dof of NormalInverseWishart must exceed d - 1 = 1 for 2 columns; got 1",
    ),
    "mixture": (lambda: NormalMixture("ab", [0.0], [1.0]), r"weights of a NormalMixture must be a list of numbers"),
    "mixture of NaN": (lambda: NormalMixture([1.0], [np.nan], [1.0]), r"means of a NormalMixture .* finite numbers"),
}


@pytest.mark.parametrize("wrong", list(WRONG_CHOICES))
def test_choices_that_do_not_fit_the_columns_are_refused(wrong):
    ask, message = WRONG_CHOICES[wrong]
    with pytest.raises(InputError, match=message):
        ask()


UNDETERMINED = {
    "one row": (lambda: Gaussian().posterior(moments(1.0, 0.0), Reference()), "too few rows under prior='reference'"),
    "one value": (lambda: Gaussian().posterior(moments(5.0, 0.0), Reference()), "has one value only"),
    "no rate": (lambda: Exponential().posterior(rates(0.0, 0.0), Reference()), "no values under prior='reference'"),
    "zeros": (lambda: Exponential().plug_in(rates(3.0, 0.0), MAXIMUM_LIKELIHOOD), "has nothing but zeros"),
}


def moments(weight: float, scatter: float) -> Moments:
    """Two classes and columns; the second class and column are these."""
    return Moments(np.array([[9.0, 9.0], [9.0, weight]]), np.zeros((2, 2)), np.array([[1.0, 1.0], [1.0, scatter]]))


def rates(weight: float, total: float) -> RateSums:
    return RateSums(np.array([[9.0, 9.0], [9.0, weight]]), np.array([[1.0, 1.0], [1.0, total]]), np.zeros((2, 2)))


@pytest.mark.parametrize("wrong", list(UNDETERMINED))
def test_a_column_that_says_too_little_in_one_class_is_named(wrong):
    ask, message = UNDETERMINED[wrong]
    with pytest.raises(NotDetermined, match=message) as caught:
        ask()
    assert (caught.value.code, list(caught.value.columns)) == (1, [1])


@pytest.mark.parametrize("left", [0.0, 4e-16], ids=["exactly", "but for rounding"])
def test_columns_that_others_explain_to_all_digits_are_named(left):
    """Rounding may leave a unit or two in the last place, and Cholesky is content with that."""
    sums = Scatter(
        np.array([50.0]), np.zeros((1, 2)), 50 * np.array([[[1.0, 1.0], [1.0, 1.0 + left]]]), np.zeros((1, 2)), True
    )
    with pytest.raises(NotDetermined, match=r"have a singular covariance \(50 rows for 2 columns\)") as caught:
        FULL.plug_in(sums, MAXIMUM_LIKELIHOOD)
    assert len(caught.value.columns) == 1


# --- Forgetting what was never learnt ---------------------------------------------------------------------------------


def scatter(n: float, variance: float, holes: float = 0.0) -> Scatter:
    return Scatter(np.array([n]), np.zeros((1, 1)), np.full((1, 1, 1), variance), np.full((1, 1), holes), True)


@pytest.mark.parametrize(
    ("held", "other", "message"),
    [
        (
            Moments(*(np.full((1, 1), x) for x in (5.0, 0.0, 1.0))),
            Moments(*(np.full((1, 1), x) for x in (2.0, 0.0, 3.0))),
            "variance",
        ),
        (scatter(5.0, 1.0), scatter(2.0, 3.0), "variance"),
        (scatter(5.0, 1.0, holes=1.0), scatter(2.0, 0.5, holes=2.0), "more cells would have been observed"),
    ],
    ids=["by column", "together", "holes"],
)
def test_rows_that_were_never_learnt_cannot_be_forgotten(held, other, message):
    with pytest.raises(InputError, match=f"These rows cannot be forgotten: without them .*{message}"):
        held.remove(other)


@dataclass(frozen=True)
class Totals(Additive):
    """Sums of somebody's own, which do not say of how many rows."""

    total: np.ndarray


def test_the_numbers_of_several_groups_of_columns_and_the_rows_they_know_of():
    parts = Parts((Totals(np.ones((1, 3))), TWO))
    assert [array.shape for array in parts.arrays()] == [(1, 3), (1, 2), (1, 2), (1, 2)]
    assert_allclose(parts.parts[0].least_rows(), [0.0])
    assert_allclose(parts.least_rows(), [4.0])


# --- Means of columns that no row of a class has ----------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_the_mean_of_an_unseen_column_is_predicted_from_the_others(shared):
    """m₀ᵤ + Ψᵤₒ Ψₒₒ⁻¹ (mₒ - m₀ₒ); a class without any value keeps what it had."""
    n, m0, k0 = np.array([6.0, 4.0, 2.0]), np.array([0.5, -0.5]), 2.0
    xbar = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    S = np.array([[3.0, 1.0], [1.0, 2.0]])
    holes = np.array([[0.0, 0.0], [0.0, 4.0], [2.0, 2.0]])
    scatters = S[None] if shared else np.array([S, 2 * S, S])
    prior = NormalInverseWishart(m0, k0, np.eye(2), 5.0)
    beliefs = FullGaussian(shared).posterior(Scatter(n, xbar, scatters, holes, shared), prior)
    seen = (k0 * m0 + n[:, None] * xbar) / (k0 + n)[:, None]
    pulls = [k0 * nc / (k0 + nc) * np.outer(x - m0, x - m0) for nc, x in zip(n, xbar, strict=True)]
    scale = np.eye(2) + (S + sum(pulls) if shared else 2 * S + pulls[1])
    expected = seen.copy()
    expected[1, 1] = m0[1] + scale[1, 0] / scale[0, 0] * (seen[1, 0] - m0[0])
    assert_allclose(beliefs.means, expected, rtol=1e-13)
    assert repr(beliefs).startswith("WishartBeliefs(K=3, d=2, ν=[")


# --- Likelihoods ------------------------------------------------------------------------------------------------------


class Cube(Link):
    """μ = f³: a link of somebody's own, which says nothing of averages."""

    def link(self, mu):
        return np.cbrt(mu)

    def mean(self, f):
        return f**3

    def derivatives(self, f):
        return Derivatives(3 * f**2, 6 * f, np.full_like(f, 6.0))


def test_a_link_that_says_nothing_of_averages_has_none():
    m, v = np.full(2, 3.0), np.ones(2)
    assert Cube().average(m, v) is None
    assert_allclose(Identity().average(m, v), 3.0)


def test_a_noisy_likelihood_of_several_classes_has_one_flip_probability():
    noisy = NoisyCategorical(3, 0.1)
    assert_allclose(noisy.flips, [0.1])
    assert noisy.with_flips(np.array([0.2])) == NoisyCategorical(3, 0.2)
