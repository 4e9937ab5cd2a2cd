"""Where the averaged probability lies in its interval, and what more rows do to the width.

docs/trust.md tells it in words. With α = (1 - level)/2 on either side of the interval [l, u]:

- the mean of a probability whose quantiles these are is at most (1 - α) u + α and at least (1 - α) l, in the tails too;
- for one normal score and a threshold with one peak it is inside where it is itself between α and 1 - α;
- generative models average over the parameters *given the row*, which the interval does not know: the two agree at
  rows like those of the fit.
"""

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from scipy.stats import norm

from credibly import StudentT
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, threshold_likelihood
from reliability.properties.models import KINDS, Case, Kind, drawn, fixed, over
from reliability.properties.problems import Problem

DRAWN = 2e-3  # rank error of quantiles by deterministic draws, which softmax models have (predictive.py)
FEW_ROWS = 5  # in a class, below which a row of a generative model's own fit can still be a surprise to it


def discriminative(kind: Kind) -> bool:
    return kind.intervals and kind.probabilities and kind.posterior


def generative(kind: Kind) -> bool:
    return kind.intervals and kind.probabilities and not kind.posterior


def asked(model, X, level: float = 0.9):
    """Averaged probabilities, and the ends of their intervals: of the second of two classes, or of all."""
    limits, proba = model.predict_interval(X, level), model.predict_proba(X)
    return (proba[:, 1] if limits.ndim == 2 else proba), limits[..., 0], limits[..., 1]


@over(lambda kind: kind.intervals and kind.posterior)
def test_a_wider_level_gives_a_wider_interval_within_the_range(kind, data):
    case = drawn(kind, data)
    model = case.fit()
    narrow, wide = (model.predict_interval(case.new, level) for level in (0.5, 0.9))
    for limits in (narrow, wide):
        assert (limits[..., 0] <= limits[..., 1]).all()
    assert (wide[..., 0] <= narrow[..., 0]).all() and (narrow[..., 1] <= wide[..., 1]).all()
    if kind.of_labels:
        assert ((wide >= 0) & (wide <= 1)).all()


@over(discriminative)
def test_the_interval_holds_the_averaged_probability_between_a_tenth_and_nine_tenths(kind, data):
    case = drawn(kind, data)
    level = data.draw(st.sampled_from([0.8, 0.9, 0.95]))
    proba, low, high = asked(case.fit(), case.new, level)
    between = (proba >= 0.1) & (proba <= 0.9)
    # Where a score hardly varies the interval is a point, and the average is that point but for rounding.
    slack = 1e-12 if case.problem.K == 2 else 1e-4  # averages of three and more scores are good to that
    assert (low[between] - slack <= proba[between]).all() and (proba[between] <= high[between] + slack).all()


@over(lambda kind: discriminative(kind) and kind.evidence)
def test_in_the_tails_the_average_leaves_the_interval_by_no_more_than_the_mass_outside(kind, data):
    """It may be above the upper end, since a mean is not a median. One against the rest has no such average."""
    case = drawn(kind, data)
    level = data.draw(st.sampled_from([0.5, 0.9]))
    proba, low, high = asked(case.fit(), case.new, level)
    mass = 0.5 - level / 2 + (0 if case.problem.K == 2 and not kind.draws else DRAWN)
    slack = 1e-12 if case.problem.K == 2 else 1e-4
    assert (proba <= (1 - mass) * high + mass + slack).all()
    assert (proba >= (1 - mass) * low - slack).all()


LINKS = {
    "logit": BernoulliLogit(),
    "probit": BernoulliProbit(),
    **{name: threshold_likelihood(name) for name in ("cauchy", "gumbel", "gumbel_max")},
}


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_one_normal_score_has_its_average_inside_where_that_is_no_rarer_than_a_tail(link, level):
    """Over all means and standard deviations, on a grid; a mixture of distant thresholds would need (1 - α) u + α."""
    m, s = (a.ravel() for a in np.meshgrid(np.linspace(-40, 40, 161), np.geomspace(0.01, 40, 60)))
    z, mass = norm.ppf(0.5 + level / 2), 0.5 - level / 2
    average = np.exp(link.log_average(np.array(1.0), m, s**2))
    outside = (average < link.mean(m - z * s)) | (average > link.mean(m + z * s))
    assert not outside[(average >= mass) & (average <= 1 - mass)].any()


@over(generative)
def test_at_rows_of_the_fit_the_interval_of_a_generative_model_holds_the_averaged_probability(kind, data):
    case = drawn(kind, data)
    assume(np.bincount(case.y).min() >= FEW_ROWS)
    proba, low, high = asked(case.fit(), case.X[:4])
    between = (proba >= 0.1) & (proba <= 0.9)
    assert (low <= high).all() and ((low >= 0) & (high <= 1)).all()
    assert (low[between] <= proba[between]).all() and (proba[between] <= high[between]).all()


def fixed_without_tails(prior) -> bool:
    """A Student-t prior can let go of a weight that it held, which opens its intervals."""
    return fixed(prior) and not isinstance(prior, StudentT)


@over(lambda kind: kind.intervals and kind.priors_that(fixed_without_tails))
def test_four_times_the_rows_make_intervals_narrower(kind, data):
    """On average over the rows, and under a prior that is given: a learnt one may have been switched off before.

    In single rows an interval can grow, as the probability leaves a tail; where hardly anything is left to learn
    (columns so large or small beside the prior that all rows are certain, or none is) the average can, by little.
    """
    case = drawn(kind, data, fixed_without_tails)
    weight = None if case.weight is None else np.tile(case.weight, 4)
    more = case.fit(np.tile(case.X, (4, 1)), np.concatenate([case.y] * 4), weight)
    before, after = (np.diff(model.predict_interval(case.X[:8])).mean() for model in (case.fit(), more))
    assert after < before if case.problem.orders == 0 else after < before + 1e-3


def test_a_student_prior_that_lets_go_of_a_weight_opens_its_interval():
    """Found by the property above: separated rows of a small column, held near zero until they came four times."""
    sizes = {"seed": 1, "n": 26, "d": 1, "K": 2, "signal": np.inf, "orders": 3, "shift": 0.0}
    problem = Problem(**sizes, weighted=True, intercept=False, prior=StudentT(df=4))
    case = Case.of(KINDS["logistic"], problem)
    more = case.fit(np.tile(case.X, (4, 1)), np.tile(case.y, 4), np.tile(case.weight, 4))
    before, after = (np.diff(model.predict_interval(case.X[:8])).mean() for model in (case.fit(), more))
    assert before < 0.3 and after > 0.9
