"""Noisy thresholds at their edges: where the density is looked at, what is kept, and what the refusals say."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from credibly.errors import InputError
from credibly.model.likelihoods import BernoulliDistribution, BernoulliProbit, Likelihood, LocationScale, NormalMixture
from credibly.model.likelihoods.choices import THRESHOLDS, degrees_of_freedom, threshold_likelihood
from credibly.model.likelihoods.density import DensityThreshold
from credibly.model.likelihoods.distribution import _check_density, from_scipy, parameters
from credibly.model.likelihoods.mixture import BernoulliMixture
from credibly.model.likelihoods.thresholds import BernoulliCloglog
from credibly.model.priors import StudentT

# --- distributions of SciPy ---------------------------------------------------------------------------------


def test_place_and_width_are_the_kink_and_half_the_distance_of_the_quartiles():
    laplace = BernoulliDistribution(stats.laplace(2.0, 3.0))
    assert laplace.center == 2.0
    assert_allclose(laplace.width, 3.0 * np.log(2), rtol=1e-14)


def test_a_place_outside_of_the_distribution_is_no_kink_and_the_median_takes_over():
    """The largest of a thousand logistic numbers is never near their place, that of two is."""
    assert BernoulliDistribution(stats.genlogistic(2.0)).center == 0.0
    largest = stats.genlogistic(1000.0)
    assert largest.ppf(0.01) > 0
    assert BernoulliDistribution(largest).center == largest.median()
    smallest = stats.genlogistic(0.01)
    assert smallest.ppf(0.99) < 0
    assert BernoulliDistribution(smallest).center == smallest.median()


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("f", [2.0, 10.0, 40.0, 300.0])
def test_a_label_that_is_nearly_certain_keeps_the_digits_of_what_is_missing(y, f):
    laplace = BernoulliDistribution(stats.laplace())
    f = f if y == 1 else -f
    assert_allclose(laplace.log_prob(np.array(y), np.array(f)), np.log1p(-np.exp(-abs(f)) / 2), rtol=1e-13)


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("f", [2.0, 30.0, 300.0])
def test_a_distribution_without_a_log_of_its_own_keeps_the_digits_near_one(y, f):
    secant, f = BernoulliDistribution(stats.hypsecant()), f if y == 1 else -f
    missing = 2 / np.pi * np.arctan(np.exp(-abs(f)))
    assert_allclose(secant.log_prob(np.array(y), np.array(f)), np.log1p(-missing), rtol=1e-13)


def test_labels_of_a_distribution_are_taken_row_by_row():
    laplace, f = BernoulliDistribution(stats.laplace()), np.array([-3.0, -3.0, 2.0, 2.0])
    y = np.array([0, 1, 0, 1])
    both = laplace.log_prob(y, f), laplace.grad(y, f)
    for k in range(4):
        assert both[0][k] == laplace.log_prob(y[k], f[k])
        assert both[1][k] == laplace.grad(y[k], f[k])


class Broken:
    """A normal distribution whose logarithms are infinite where they should not be."""

    dist, args, kwds = SimpleNamespace(shapes="a, b"), (1.0, 2.0, 0.5), {"scale": 3.0}

    def __init__(self, what="", where=np.nan):
        self.what, self.where = what, where

    def ppf(self, q):
        return 4.0 * np.asarray(q)  # quartiles 1, 2 and 3

    def _answer(self, what, x):
        return np.where((self.what == what) & (x == self.where), -np.inf, -1.23456)

    def logpdf(self, x):
        return self._answer("logpdf", x)

    def logcdf(self, x):
        return self._answer("logcdf", x)

    def logsf(self, x):
        return self._answer("logsf", x)


def test_a_density_is_looked_at_at_its_quartiles_and_five_of_their_distances_away():
    _check_density(Broken(), "good")
    for what in ("logpdf", "logcdf", "logsf"):
        for where in (-8.0, 1.0, 2.0, 3.0, 12.0):
            with pytest.raises(InputError, match=r"^bad with .* at \[-8\.0, 1\.0, 2\.0, 3\.0, 12\.0\] its log density"):
                _check_density(Broken(what, where), "bad")
        _check_density(Broken(what, 13.0), "elsewhere")


@pytest.mark.parametrize(
    ("dist", "reason"),
    [
        (
            stats.uniform(),
            "uniform has density on [0, 1] only: outside p(y | f) is exactly 0 for one label, its logarithm -inf, and "
            "no Newton step can be made; use a distribution on the whole line",
        ),
        (stats.norm, "norm of scipy.stats has no parameters yet; freeze it by calling it: norm()"),
        (stats.poisson, "poisson of scipy.stats has no parameters yet; freeze it by calling it: poisson()"),
        (
            stats.poisson(2.0),
            "poisson is discrete: its distribution function has steps and no slope; use a continuous one",
        ),
        (
            stats.norm([0.0, 1.0]),
            "each parameter of norm must be one number, not {'loc': [0.0, 1.0], 'scale': 1.0}",
        ),
        (3.0, "a threshold needs a frozen continuous distribution of scipy.stats, not 3.0"),
    ],
    ids=["bounded", "not frozen", "neither", "discrete", "several", "a number"],
)
def test_a_distribution_that_cannot_be_a_threshold_is_told_why(dist, reason):
    with pytest.raises(InputError) as caught:
        from_scipy(dist)
    assert str(caught.value) == reason


def test_parameters_that_are_no_numbers_leave_no_density():
    with pytest.raises(
        InputError, match=r"^norm with {'loc': 0\.0, 'scale': nan} has no usable density: at \[nan, nan"
    ):
        from_scipy(stats.norm(0.0, np.nan))


def test_the_refusal_of_a_density_has_its_numbers():
    with pytest.raises(InputError) as caught:
        _check_density(Broken("logcdf", 2.0), "odd")
    assert str(caught.value) == (
        "odd with {'loc': 0.5, 'scale': 3.0, 'a': 1.0, 'b': 2.0} has no usable density: at [-8.0, 1.0, 2.0, 3.0, 12.0] "
        "its log density is [-1.235, -1.235, -1.235, -1.235, -1.235] and the log probabilities of the two sides "
        "[[-1.235, -1.235, -inf, -1.235, -1.235], [-1.235, -1.235, -1.235, -1.235, -1.235]]"
    )


def test_the_score_moves_with_the_distribution():
    """Steps grow with the distance from the place of the distribution, not from zero."""
    f = np.linspace(-3.0, 3.0, 7)
    here = BernoulliDistribution(stats.genlogistic(2.5)).score(f)
    there = BernoulliDistribution(stats.genlogistic(2.5, loc=-1e3)).score(f - 1e3)
    assert_allclose(there.first, here.first, atol=1e-9)  # a score of 1000 is known to 1e-13, and steps are 1e-3
    assert_allclose(there.second, here.second, atol=1e-6)


def test_the_score_stretches_with_the_distribution():
    f = np.linspace(-3.0, 3.0, 7)
    here = BernoulliDistribution(stats.genlogistic(2.5)).score(f)
    wide = BernoulliDistribution(stats.genlogistic(2.5, scale=100.0)).score(100.0 * f)
    assert_allclose(100.0 * wide.first, here.first, rtol=1e-8)  # 1e-11 and 1e-9 are promised, relative to one
    assert_allclose(100.0**2 * wide.second, here.second, rtol=1e-6, atol=1e-8)


def test_where_the_log_density_underflows_slopes_are_unknown_and_silent():
    lost, f = BernoulliDistribution(stats.hypsecant()), np.array([-1e5, 1e5])
    assert np.isnan(lost.score(f)).all()
    assert np.isnan(lost.grad(np.array([1, 0]), f)).all()


def test_a_distribution_is_shown_as_it_was_made():
    made = BernoulliDistribution(stats.norminvgauss(2.0, 0.5, scale=4.0))
    assert repr(made) == "BernoulliDistribution(norminvgauss(2.0, 0.5, scale=4.0))"


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_closed_forms_of_the_gumbel_threshold_are_those_of_any_density(y):
    gumbel, f, label = BernoulliCloglog(), np.linspace(-2.0, 1.5, 8), np.array(y)
    assert_array_equal(gumbel.grad(label, f), gumbel.slopes(label, f).grad)
    assert_allclose(gumbel.score(f).first, 1 - np.exp(f), rtol=1e-14, atol=1e-15)
    assert_allclose(gumbel.score(f).second, -np.exp(f), rtol=1e-14)
    general = DensityThreshold.slopes(gumbel, label, f)
    assert_allclose(general.curvature, gumbel.slopes(label, f).curvature, rtol=1e-12)
    assert_allclose(DensityThreshold.third(gumbel, label, f), gumbel.third(label, f), rtol=1e-11, atol=1e-14)
    assert_allclose(DensityThreshold.information(gumbel, f), gumbel.information(f), rtol=1e-12)
    assert_allclose(DensityThreshold.information_slope(gumbel, f), gumbel.information_slope(f), rtol=1e-11)


def test_parameters_have_their_names_however_they_are_given():
    assert parameters(stats.norm()) == {"loc": 0.0, "scale": 1.0}
    assert parameters(stats.norm(1.0, 2.0)) == {"loc": 1.0, "scale": 2.0}
    assert parameters(stats.norm(scale=2.0)) == {"loc": 0.0, "scale": 2.0}
    assert parameters(stats.t(3.0, 1.0)) == {"loc": 1.0, "scale": 1.0, "df": 3.0}
    assert parameters(stats.norminvgauss(2.0, 0.5, scale=4.0)) == {"loc": 0.0, "scale": 4.0, "a": 2.0, "b": 0.5}


@pytest.mark.parametrize(("loc", "scale"), [(1.0, 1.0), (0.0, 2.0), (-1.0, 0.5)])
def test_a_closed_form_is_moved_and_stretched_where_it_has_to_be(loc, scale):
    found = from_scipy(stats.norm(loc, scale))
    assert isinstance(found, LocationScale)
    assert (found.loc, found.scale) == (loc, scale)
    assert isinstance(found.likelihood, BernoulliProbit)
    assert isinstance(from_scipy(stats.norm(0.0, 1.0)), BernoulliProbit)


def test_a_threshold_that_is_only_moved_or_stretched_has_defaults_for_the_rest():
    plain = LocationScale(BernoulliProbit())
    assert (plain.loc, plain.scale) == (0.0, 1.0)
    for loc, scale in [(np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0), (0.0, np.inf), (0.0, np.nan)]:
        with pytest.raises(InputError, match=r"^a threshold needs a finite loc and a positive scale, not .* and "):
            LocationScale(BernoulliProbit(), loc, scale)


def test_averages_by_quadrature_are_taken_row_by_row_for_rows_of_any_shape():
    probit, rng = BernoulliProbit(), np.random.default_rng(1)
    y, m, v = np.array([[0.0], [1.0]]), rng.normal(size=(2, 3)), rng.uniform(0.1, 1.0, size=(2, 3))
    for got, want in zip(Likelihood.tilted(probit, y, m, v), probit.tilted(y, m, v), strict=True):
        assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_a_moved_and_stretched_normal_threshold_is_a_mixture_of_one_part(y):
    """A scale of three, whose square and cube are not its double and triple."""
    moved, part = LocationScale(BernoulliProbit(), 0.5, 3.0), BernoulliMixture(NormalMixture([1.0], [0.5], [3.0]))
    label, f, v = np.array(y), np.linspace(-4.0, 4.0, 9), np.full(9, 0.7)
    pairs = [
        (moved.log_prob(label, f), part.log_prob(label, f)),
        *zip(moved.slopes(label, f), part.slopes(label, f), strict=True),
        *zip(moved.expand(label, f), part.expand(label, f), strict=True),
        (moved.third(label, f), part.third(label, f)),
        (moved.mean(f), part.mean(f)),
        *zip(moved.tilted(label, f, v), part.tilted(label, f, v), strict=True),
        (moved.log_average(label, f, v), part.log_average(label, f, v)),
        (moved.information(f), part.information(f)),
        (moved.information_slope(f), part.information_slope(f)),
    ]
    for got, want in pairs:
        assert_allclose(got, want, rtol=1e-12, atol=1e-15)


# --- mixtures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "means", "scales"])
def test_what_is_no_list_of_numbers_is_refused_by_its_name(name):
    good = {"weights": [1.0], "means": [0.0], "scales": [1.0]}
    for bad, rule in [
        (["a"], "numbers"),
        ([None, {}], "numbers"),
        ([], "finite"),
        (1.0, "finite"),
        ([[1.0]], "finite"),
    ]:
        with pytest.raises(InputError, match=rf"^{name} of a NormalMixture must be a list of {rule}.*, not"):
            NormalMixture(**(good | {name: bad}))


def test_the_refusals_of_a_mixture_have_their_numbers():
    with pytest.raises(InputError, match=r"for each part, not 2 weights, 1 means and 3 scales$"):
        NormalMixture([0.5, 0.5], [0.0], [1.0, 1.0, 1.0])
    with pytest.raises(InputError, match=r"sum to one; the smallest is 0.25 and the sum 0.75$"):
        NormalMixture([0.25, 0.5], [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(InputError, match=r"the smallest is 0 and the sum 1$"):
        NormalMixture([0.0, 1.0], [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(InputError, match=r"^scales of a NormalMixture must be positive; the smallest is 0$"):
        NormalMixture([0.5, 0.5], [0.0, 0.0], [0.0, 1.0])


def test_weights_typed_with_nine_digits_sum_to_one():
    NormalMixture([0.333333333, 0.666666666], [0.0, 1.0], [1.0, 1.0])
    with pytest.raises(InputError):
        NormalMixture([0.333333333, 0.666666664], [0.0, 1.0], [1.0, 1.0])


def test_weights_that_are_a_rounding_off_give_probabilities_that_are_not():
    rough = BernoulliMixture(NormalMixture([0.5, 0.5 - 9e-10], [0.0, 0.0], [1.0, 1.0]))
    assert_allclose(rough.mean(np.array(0.0)), 0.5, rtol=1e-15)


def test_a_share_of_a_mixture_is_taken_of_the_row_it_belongs_to():
    mixture = BernoulliMixture(NormalMixture([0.3, 0.7], [-1.0, 1.0], [0.5, 2.0]))
    y, m, v = np.array([[0.0], [1.0]]), np.array([-1.0, 0.0, 2.0]), np.array([[0.5, 1.0, 2.0]])
    whole = mixture.tilted(y, m, v)
    for i in range(2):
        for j in range(3):
            one = mixture.tilted(y[i, 0], m[j], v[0, j])
            assert_allclose([part[i, j] for part in whole], one, rtol=1e-14)


# --- choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has", ["cdf", "logpdf"])
def test_what_is_meant_as_a_distribution_is_told_what_is_wrong_with_it(has):
    with pytest.raises(InputError, match=r"^a threshold needs a frozen continuous distribution of scipy\.stats, not"):
        threshold_likelihood(SimpleNamespace(**{has: None}))


@pytest.mark.parametrize("choice", ["laplace", 3, None])
def test_a_refused_choice_gets_the_list(choice):
    with pytest.raises(InputError) as caught:
        threshold_likelihood(choice)
    assert str(caught.value) == (
        "threshold must be one of 'logistic', 'normal', 'cauchy', 'gumbel', 'gumbel_max' (or its link, 'logit', "
        "'probit', 'cauchit', 'cloglog', 'loglog'), a NormalMixture, a StudentT, a frozen continuous distribution of "
        f"scipy.stats, or a Likelihood, not {choice!r}"
    )


def test_names_are_those_of_the_distributions():
    assert [type(threshold_likelihood(name)) for name in THRESHOLDS] == list(THRESHOLDS.values())


def test_the_degrees_of_freedom_of_a_prior_are_those_of_its_threshold():
    assert degrees_of_freedom(StudentT(df=3.0)) == 3.0
    with pytest.raises(
        InputError, match=r"^A StudentT threshold has scale one; got StudentT\(.*\)\. For another scale"
    ):
        degrees_of_freedom(StudentT(df=3.0, scale=9.0))
