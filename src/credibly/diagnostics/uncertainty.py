"""Why a prediction is uncertain: because outcomes are, or because the model does not know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, kl_div

from credibly.diagnostics.inputs import check_probabilities, check_sums
from credibly.errors import InputError
from credibly.numerics.arrays import Array


@dataclass(frozen=True)
class UncertaintySplit:
    """Entropy of the predicted class, in nats, and the two reasons for it.

    Attributes
    ----------
    noise : (n,) float array
        Expected entropy of the class if the parameters were known: more rows do not lower it.
    ignorance : (n,) float array
        Mutual information of class and parameters: what knowing the parameters would take away, and more rows will.

    Examples
    --------
    >>> split = uncertainty_split([[[0.1, 0.9]], [[0.3, 0.7]]])  # two draws of one row
    >>> bool(split.noise[0] > split.ignorance[0]), float(split.total[0].round(4))  # total: of the mean, (0.2, 0.8)
    (True, 0.5004)
    """

    noise: Array
    ignorance: Array

    @property
    def total(self) -> Array:
        """Entropy of the averaged probabilities, (n,): noise + ignorance."""
        return np.asarray(self.noise + self.ignorance)


def uncertainty_split(draws: ArrayLike) -> UncertaintySplit:
    r"""Split the uncertainty of every prediction into noise and ignorance.

    .. math:: \underbrace{H(\bar p)}_\text{total} = \underbrace{\frac1S \sum_s H(p_s)}_\text{noise}
              + \underbrace{\frac1S \sum_s \mathrm{KL}(p_s \,\|\, \bar p)}_\text{ignorance}

    with p̄ the mean of S draws and H the entropy in nats. A coin known to be fair is all noise; a row far from all
    others is mostly ignorance. Ask for labels where ignorance is large, not where the total is.

    Parameters
    ----------
    draws : (size, n, K) array
        Class probabilities for draws of the parameters, as from `sample_proba(X, size)`. Two draws or more: a few
        hundred are enough, as ignorance comes out too small by about one part in `size`.

    Returns
    -------
    UncertaintySplit
        `noise`, `ignorance`, `total`, each (n,).

    Notes
    -----
    Ignorance is a sum of terms p log(p/p̄) - p + p̄, none of which is negative, instead of the difference of two
    entropies, in which it would drown where it is small. A probability of zero adds no noise.

    References
    ----------
    Houlsby, Huszár, Ghahramani & Lengyel (2011), eq. 2.

    Examples
    --------
    >>> coin, either = [[0.5, 0.5]], [[0.0, 1.0]]
    >>> split = uncertainty_split([coin + either, coin + [[1.0, 0.0]]])
    >>> split.noise.round(4), split.ignorance.round(4)
    (array([0.6931, 0.    ]), array([0.    , 0.6931]))
    """
    p = _checked(draws)
    noise = entr(p).sum(axis=-1).mean(axis=0)
    ignorance = _divergence(p, p.mean(axis=0)).sum(axis=-1).mean(axis=0)
    return UncertaintySplit(noise, ignorance)


def _divergence(p: Array, mean: Array) -> Array:
    """p log(p/mean) - p + mean, element by element, accurate where the two are close."""
    mean = np.where(mean > 0, mean, p)  # the mean of the smallest numbers there are can be zero
    near = np.abs(mean - p) < p / 2
    u = np.where(near, mean - p, 0.0) / np.where(near, p, 1.0)
    return np.asarray(np.where(near, p * (u - np.log1p(u)), kl_div(p, mean)))


def _checked(draws: ArrayLike) -> Array:
    try:
        given = np.asarray(draws)
        p: Array = given.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"draws must be an array of numbers; got {draws!r:.60}.") from error
    if p.ndim != 3 or p.shape[1] == 0 or p.shape[2] < 2:
        raise InputError(
            "draws must be of shape (size, n, K): draws of the probabilities of K classes at n rows, as from "
            f"model.sample_proba(X, size); got {p.shape}."
        )
    if len(p) < 2:
        raise InputError(
            f"{len(p)} draw(s) cannot show what the model does not know; ask for more, e.g. sample_proba(X, size=1000)."
        )
    check_probabilities(p, given.dtype, "draws")
    check_sums(p, given.dtype, "draws")
    return p
