"""Whether events happen as often as they were said to, for any classifier's arrays.

Arguments are those of `scores`: true labels, then probabilities.

Notation
--------
======  ================================================================  ====
p, o    probability of an event, and whether it happened (0 or 1)         (n,)
p̄, ō    their means over the rows of a bin                                (B,)
n_b     how many rows a bin has                                           (B,)
======  ================================================================  ====
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, rfft
from scipy.special import chdtrc, ndtr, ndtri

from credibly.diagnostics.inputs import (
    Bins,
    Events,
    Predictions,
    bins_of,
    check_level,
    check_pairs,
    event_of,
    event_or_second,
    generator,
    most_probable,
    read,
    wilson_interval,
)
from credibly.diagnostics.reliability import ReliabilityCurve
from credibly.errors import InputError
from credibly.numerics.arrays import Array

NORMS = ("l1", "squared")


def calibration_error(  # noqa: PLR0913 -- a user's choices, by name
    y: ArrayLike,
    proba: ArrayLike,
    bins: int = 10,
    *,
    norm: str | None = None,
    debiased: bool = False,
    strategy: str = "quantile",
    label: Any = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""How far frequencies are from probabilities, over bins.

    .. math:: \text{l1:}\; \sum_b \tfrac{n_b}{n} | \bar o_b - \bar p_b | \qquad
              \text{squared:}\; \sum_b \tfrac{n_b}{n} (\bar o_b - \bar p_b)^2

    The first is known as the expected calibration error. Both are biased upwards by noise, of the order of the root of
    B/n and of B/n: a perfectly calibrated model does not score zero. The second can be had without that bias.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    bins : int
        How many.
    norm : "l1" or "squared"
        "l1" if None, or "squared" if `debiased`.
    debiased : bool
        Take out of the squares what noise adds to them. The estimate is then right on average, and may be negative.
        Needs two rows in every bin.
    strategy : "quantile" or "uniform"
        Bins of about equal count, or of equal width; as in scikit-learn's `calibration_curve`. Equal probabilities
        share a bin.
    label : optional
        The class whose probability is looked at; None is the most probable class of each row, whichever that is.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Notes
    -----
    Debiased, the variance of o - p in each bin, divided by n_b, is taken from the square. Where probabilities are
    constant in bins that is (ō_b - p̄_b)² - ō_b(1 - ō_b)/(n_b - 1), the estimator that Kumar, Liang & Ma (2019) took
    from Bröcker (2012) and Ferro & Fricker (2012). Where they differ, theirs counts their spread as noise; with o - p,
    calibrated predictions score zero on average whatever they are.

    Examples
    --------
    >>> y, p = [0, 1, 1, 1], [[0.25, 0.75]] * 4
    >>> round(calibration_error(y, p, bins=1), 12)
    0.0
    >>> round(calibration_error(y, p, bins=1, debiased=True), 4)
    -0.0625
    """
    norm = norm or ("squared" if debiased else "l1")
    if norm not in NORMS or (debiased and norm == "l1"):
        known = "'squared' when debiased: absolute values have no unbiased estimator" if debiased else repr(NORMS)
        raise InputError(f"norm must be one of {known}; got {norm!r}.")
    predictions = read(y, proba, labels)
    events = most_probable(predictions) if label is None else event_of(predictions, label)
    groups = bins_of(events.proba, bins, strategy)
    gap = groups.mean(events.happened - events.proba)
    parts = np.abs(gap) if norm == "l1" else gap**2
    if debiased:
        check_pairs(groups)
        parts = parts - groups.variance_of_mean(events.happened - events.proba)
    return float(groups.count @ parts / groups.count.sum())


def reliability_curve(  # noqa: PLR0913 -- a user's choices, by name
    y: ArrayLike,
    proba: ArrayLike,
    bins: int = 10,
    *,
    level: float = 0.9,
    strategy: str = "quantile",
    label: Any = None,
    labels: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Relative frequencies of an event against its probabilities, with intervals and consistency bands.

    Two questions, two bands. How often does it really happen when the model says so? ``low`` … ``high``, around what
    was observed. Could the model be right? `band_low` … `band_high`, around what was predicted, in which each frequency
    lies with probability `level` or more if it is.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    bins : int
        How many; those without rows are left out.
    level : float
        Mass of both bands, for each bin by itself.
    strategy : "quantile" or "uniform"
        Bins of about equal count, or of equal width; as in scikit-learn's `calibration_curve`.
    label : optional
        The class whose probability is looked at. If None: the second of two classes; of more, the most probable class
        of each row, whichever that is.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    ReliabilityCurve
        `predicted`, `observed`, `count`, ``low``, ``high``, `band_low`, `band_high`, `inside`; prints as a table.

    Notes
    -----
    The interval is Wilson's (1927), the best of the simple ones in Brown, Cai & DasGupta (2001). If the probabilities
    are right, the number of events in a bin is a sum of independent events of known, different probabilities; the
    band holds its exact quantiles.

    References
    ----------
    Bröcker & Smith (2007), for consistency bands, there by resampling.

    Examples
    --------
    >>> curve = reliability_curve([0, 1, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], bins=2)
    >>> curve.predicted.round(3), curve.observed.round(3), curve.count
    (array([0.2  , 0.733]), array([0.333, 1.   ]), array([3., 3.]))
    >>> curve.inside
    array([ True,  True])
    """
    z = float(ndtri(0.5 + check_level(level) / 2))
    events = event_or_second(read(y, proba, labels), label)
    groups = bins_of(events.proba, bins, strategy)
    observed = groups.mean(events.happened)
    low, high = wilson_interval(observed, groups.count, z)
    band_low, band_high = _consistency(events, groups, level)
    predicted = groups.mean(events.proba)
    return ReliabilityCurve(
        predicted, observed, groups.count, low, high, band_low, band_high, level=level, what=events.what
    )


def _consistency(events: Events, groups: Bins, level: float) -> Array:
    """Quantiles of the frequency of every bin under its own probabilities, (2, B)."""
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    ends = []
    for b, n in enumerate(groups.count):
        cumulative = number_of_events(events.proba[groups.of_row == b]).cumsum()
        # The last entry is one but for rounding; a quantile beyond it is the number of rows.
        ends.append(np.minimum(np.searchsorted(cumulative, tails), n) / n)
    return np.array(ends).T


def number_of_events(p: Array) -> Array:
    """P(k of these independent events happen), k = 0 … n: the Poisson binomial distribution.

    Distributions of halves are put together by fast Fourier transforms, n log² n in all, to about 1e-15.

    Examples
    --------
    >>> number_of_events(np.array([0.5, 0.5])).round(12)
    array([0.25, 0.5 , 0.25])
    """
    padded = np.append(p, np.zeros((1 << (len(p) - 1).bit_length()) - len(p)))  # events that never happen
    mass = np.column_stack([1 - padded, padded])
    while len(mass) > 1:
        size = 2 * mass.shape[1]
        both = rfft(mass[0::2], n=size) * rfft(mass[1::2], n=size)
        mass = irfft(both, n=size)[:, : size - 1]
    return np.asarray(mass[0, : len(p) + 1])


class CalibrationTest(NamedTuple):
    """A test of the statement that the probabilities are right.

    Examples
    --------
    >>> calibration_test([0, 0, 1, 1], [0.9, 0.8, 0.1, 0.3]).pvalue < 1e-4
    True
    """

    statistic: float
    df: float  # NaN for a normal statistic
    pvalue: float


def calibration_test(
    y: ArrayLike,
    proba: ArrayLike,
    method: str = "spiegelhalter",
    *,
    bins: int = 10,
    label: Any = None,
    labels: ArrayLike | None = None,
) -> CalibrationTest:
    r"""Test whether the labels could have come from these probabilities.

    For rows that the model has not seen. "spiegelhalter" compares the Brier score with its expectation,

    .. math:: z = \frac{\sum_i (\sum_k p_{ik}^2 - p_{i y_i})}
                       {\sqrt{\sum_i (\sum_k p_{ik}^3 - (\sum_k p_{ik}^2)^2)}}

    without bins, for any number of classes. It finds probabilities that are too extreme (z > 0) or too timid (z < 0).
    "hosmer-lemeshow" compares counts in bins, and finds curves of any shape with less power for each:

    .. math:: \chi^2 = \sum_b \frac{(\sum_{i ∈ b} (o_i - p_i))^2}{\sum_{i ∈ b} p_i (1 - p_i)}

    with as many degrees of freedom as bins.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    method : "spiegelhalter" or "hosmer-lemeshow"
    bins : int
        Of about equal count, for "hosmer-lemeshow".
    label : optional
        For "hosmer-lemeshow": as in `reliability_curve`.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    CalibrationTest
        `statistic`, `df` (NaN for z), `pvalue` (two-sided for z). A label that had probability zero refutes the
        model by itself: the statistic is infinite and the p-value zero.

    Notes
    -----
    Hosmer and Lemeshow divide by n_b p̄(1 - p̄) and take two degrees of freedom off for probabilities fitted to the same
    rows. Here each term has expectation one for probabilities given beforehand, however they differ within a bin.

    References
    ----------
    Spiegelhalter (1986); Hosmer & Lemeshow (1980).

    Examples
    --------
    >>> test = calibration_test([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8])
    >>> round(test.statistic, 4), round(test.pvalue, 4)
    (-1.0911, 0.2752)
    """
    if method not in {"spiegelhalter", "hosmer-lemeshow"}:
        raise InputError(f"method must be 'spiegelhalter' or 'hosmer-lemeshow'; got {method!r}.")
    predictions = read(y, proba, labels)
    by_bins = method == "hosmer-lemeshow"
    groups = bins_of(event_or_second(predictions, label).proba, bins, "quantile") if by_bins else None
    if (predictions.own == 0).any():
        return CalibrationTest(np.inf, np.nan if groups is None else float(len(groups.count)), 0.0)
    if groups is None:
        return _spiegelhalter(predictions)
    return _hosmer_lemeshow(event_or_second(predictions, label), groups)


def _spiegelhalter(predictions: Predictions) -> CalibrationTest:
    p = predictions.table
    squares = (p**2).sum(axis=1)
    variance = float(((p**3).sum(axis=1) - squares**2).sum())
    if variance <= len(p) * np.finfo(float).eps:
        raise InputError(
            "All probabilities are equal (1/K) or certain: whatever the labels, the Brier score is the same, and this "
            "test says nothing. Use method='hosmer-lemeshow'."
        )
    z = float((squares - predictions.own).sum() / np.sqrt(variance))
    return CalibrationTest(z, np.nan, float(2 * ndtr(-abs(z))))


def _hosmer_lemeshow(events: Events, groups: Bins) -> CalibrationTest:
    variance = groups.total(events.proba * (1 - events.proba))
    uncertain = variance > 0  # the others predicted with certainty, and rightly
    if not uncertain.any():
        raise InputError("All probabilities are 0 or 1, and right: there is nothing left to test.")
    gap = groups.total(events.happened - events.proba)[uncertain]
    statistic, df = float((gap**2 / variance[uncertain]).sum()), float(uncertain.sum())
    return CalibrationTest(statistic, df, float(chdtrc(df, statistic)))


def randomised_pit(
    y: ArrayLike, proba: ArrayLike, *, random_state: Any = None, labels: ArrayLike | None = None
) -> Array:
    r"""Probability integral transforms of labels, made continuous by chance: uniform if the probabilities are right.

    .. math:: u_i = \sum_{k < y_i} p_{ik} + v_i\, p_{i y_i}, \qquad v_i \sim U(0, 1)

    Classes are taken in the order of their columns; any order will do. For classes with a natural order (grades, say)
    that one shows shifts as slopes of the histogram, and timid or rash predictions as humps or valleys.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    random_state : int, RandomState, Generator or None
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    (n,) float array, between 0 and 1

    References
    ----------
    Smith (1985); Czado, Gneiting & Held (2009), eq. 1.

    Examples
    --------
    >>> u = randomised_pit([0, 1], [0.5, 0.5], random_state=0)
    >>> bool(u[0] < 0.5 < u[1])
    True
    """
    codes, table, _ = read(y, proba, labels)
    below = np.where(np.arange(table.shape[1]) < codes[:, None], table, 0.0).sum(axis=1)
    own = table[np.arange(len(codes)), codes]
    return np.asarray(below + generator(random_state).uniform(size=len(codes)) * own)
