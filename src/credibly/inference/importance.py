r"""How far an approximation can be trusted, and what it becomes when it is corrected.

Draws from q are weighted by how much more probable they are under the posterior than under q. The weights give the
evidence, means and predictions without the approximation's error, and the heaviness of their tail, Pareto's k̂, tells
whether that worked.

Notation
--------
====  =========================================================================  ========
q     the approximation N(m, Σ), symmetric about m
h     steps from m, h ~ N(0, Σ); draws come in pairs m ± h                       (S, M)
r     log ratios log p(y, m ± h) - log q(m ± h)                                  (2, S)
====  =========================================================================  ========

Pairs cost little (scores are linear in the weights), take the odd part of what is averaged off exactly under q, and
give the skew-symmetric approximation q*(w) = 2 q(w) p(w) / (p(w) + p(2m - w)): of each pair, one or the other with
probabilities in proportion to p. Its ratio p/q* is the mean ratio of the pair.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry 2024 (PSIS); Yao, Vehtari, Simpson & Gelman 2018; Pozza, Durante & Szabo 2026
(skew-symmetric approximations).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from credibly.inference.targets import Target
from credibly.numerics.arrays import Array
from credibly.numerics.special import LOG_2PI
from credibly.numerics.weighted_draws import Smoothed, pareto_smoothed

FIRST_PAIRS = 512  # draws are doubled from here on
MOST_PAIRS = 16_384  # by default
LARGEST_POOL = 20_000_000  # numbers in all draws together, 160 megabytes
GOAL = 0.01  # standard error of the log evidence, in nats, at which draws are enough
MEAN_GOAL = 0.025  # standard error of every mean, in posterior standard deviations, likewise
RELIABLE = 0.7  # k̂ above which corrected numbers are noise
CLOSE = 0.5  # k̂ below which q itself is near the posterior: ratios have a finite variance
SMALL_SHIFT = 0.25  # of a mean, in posterior standard deviations: q itself will do
SETTLED_PAIRS = 2_048  # with fewer, a k̂ above one half may be chance
SOBOL_DIMENSIONS = 200  # beyond that a Sobol sequence of this length is no more even than random points


@dataclass(frozen=True)
class Pairs:
    """Draws m ± h from a Gaussian with their log ratios."""

    center: Array  # m, (M,)
    steps: Array  # h, (S, M)
    log_ratios: Array  # r, (2, S)

    def first(self, size: int) -> "Pairs":
        """The first so many pairs."""
        return Pairs(self.center, self.steps[:size], self.log_ratios[:, :size])

    @property
    def points(self) -> Array:
        """The draws, (2S, M): first all m + h, then all m - h."""
        return np.concatenate([self.center + self.steps, self.center - self.steps])

    @property
    def log_split(self) -> Array:
        """Log probabilities with which each draw of a pair stands for it, (2, S): the skew-symmetric correction."""
        top = self.log_ratios.max(axis=0)
        excluded = top == -np.inf  # both impossible: it does not matter which
        with np.errstate(invalid="ignore"):
            split = self.log_ratios - np.logaddexp(*self.log_ratios)
        return np.asarray(np.where(excluded, np.log(0.5), split))

    @property
    def skew_log_weights(self) -> Array:
        """Weights of the draws under q*, (2S,)."""
        return np.asarray(self.log_split - np.log(self.log_ratios.shape[1])).reshape(-1)

    def plain(self) -> Smoothed:
        """Weights of single draws, with q as the proposal."""
        return pareto_smoothed(self.log_ratios.reshape(-1))

    def symmetrised(self) -> Smoothed:
        """The same with q* as the proposal: each pair has one ratio, and its draws share the weight."""
        pair = pareto_smoothed(np.logaddexp(*self.log_ratios) - np.log(2.0))
        return pair._replace(log_weights=(pair.log_weights + self.log_split).reshape(-1))


class Correction(NamedTuple):
    """What importance weights make of an approximation."""

    pairs: Pairs
    log_weights: Array  # (2S,), of `pairs.points`, smoothed; they sum to one
    khat: float
    log_evidence: float
    log_evidence_se: float
    khat_plain: float  # of q itself
    khat_symmetrised: float  # of q*, the skew-corrected q
    shape: float  # of the tail, however little it holds

    @property
    def reliable(self) -> bool:
        """Whether the corrected numbers can be used."""
        return self.khat <= RELIABLE

    @property
    def ess(self) -> float:
        """How many independent draws from the posterior the weighted ones are worth."""
        return float(np.exp(-np.logaddexp.reduce(2 * self.log_weights)))

    def of_first(self, pairs: int) -> "Correction":
        """The same by the first draws only."""
        return self if len(self.pairs.steps) <= pairs else Correction.of(self.pairs.first(pairs))

    @property
    def mean_se(self) -> float:
        """The largest standard error of a corrected mean, in its standard deviations, from the spread over pairs."""
        up, down = np.exp(self.log_weights).reshape(2, -1)
        h, mass = self.pairs.steps, up + down
        shift = (up - down) @ h
        error = np.sqrt((((up - down)[:, None] * h - np.outer(mass, shift)) ** 2).sum(axis=0))
        return float((error / np.sqrt(mass @ h**2 - shift**2)).max())

    def khats(self, log_terms: Array) -> Array:
        """Of the weights times positive terms (2S, n, K), the worst of the K for each row, (n,).

        With probabilities of all classes as terms, that is of the ratios of a prediction's two sums.
        """
        ratios = self.pairs.log_ratios[..., None, None] + log_terms.reshape(2, -1, *log_terms.shape[1:])
        if self.khat_symmetrised < self.khat_plain:
            tails = np.logaddexp(*ratios)
        else:
            tails = ratios.reshape(log_terms.shape)
        columns = tails.reshape(len(tails), -1).T
        khats = np.array([pareto_smoothed(column).khat for column in columns])
        return np.asarray(khats.reshape(tails.shape[1:]).max(axis=1))

    @classmethod
    def of(cls, pairs: Pairs) -> "Correction":
        """Smooth the ratios, of single draws or of pairs: whichever have the lighter tail."""
        plain, pair = pairs.plain(), pairs.symmetrised()
        best = pair if pair.khat < plain.khat else plain
        by_pair = best.log_shares if best is pair else np.logaddexp(*best.log_shares.reshape(2, -1))
        error = _standard_error(by_pair)
        return cls(pairs, best.log_weights, best.khat, best.log_mean, error, plain.khat, pair.khat, best.shape)


def _standard_error(log_shares: Array) -> float:
    """Of the logarithm of the mean ratio, from the spread over pairs, whose two draws are not independent."""
    S = log_shares.size
    return float(np.sqrt(((S * np.exp(log_shares) - 1.0) ** 2).sum() / (S * (S - 1.0))))


def correct(
    rng: np.random.Generator,
    target: Target,
    draws: int | None = None,
    *,
    goal: float = GOAL,
    report: Callable[[Correction], None] | None = None,
) -> Correction:
    """Draw from q, weigh the draws, and go on until the evidence is known well enough.

    Parameters
    ----------
    rng : numpy.random.Generator
    target : Target
    draws : int, optional
        Exactly so many (one more if odd). By default 1,024 are doubled until the standard error of the log evidence is
        at most `goal` and those of all means are at most 0.025 standard deviations, until it is plain that the tail is
        too heavy (k̂ > 0.7 at 4,096 draws), or until there are 32,768 (fewer in thousands of dimensions). A tail of
        shape above 0.5, however little it holds, is not believed before there are 4,096.
    goal : float
        In nats.
    report : function of a Correction, optional
        Told of every doubling.

    Notes
    -----
    Points are Sobol's up to 200 dimensions; the standard error is that of independent ones, so the error is mostly
    smaller.
    """
    M = target.q.mean.size
    points = _White(rng, M)
    if draws is not None:
        return Correction.of(_draw(target, points.next((draws + 1) // 2)))
    most = max(FIRST_PAIRS, min(MOST_PAIRS, LARGEST_POOL // (2 * M)))
    pairs = _draw(target, points.next(FIRST_PAIRS))
    while True:
        found = Correction.of(pairs)
        if report is not None:
            report(found)
        size = len(pairs.steps)
        settled = found.shape <= CLOSE or size >= SETTLED_PAIRS
        known = found.log_evidence_se <= goal and found.mean_se <= MEAN_GOAL
        if (settled and (known or not found.reliable)) or 2 * size > most:
            return found
        more = _draw(target, points.next(size))
        steps, ratios = np.concatenate([pairs.steps, more.steps]), np.hstack([pairs.log_ratios, more.log_ratios])
        pairs = Pairs(pairs.center, steps, ratios)


def _draw(target: Target, white: Array) -> Pairs:
    q = target.q
    steps = q.precision.half_solve_transposed(white.T).T
    log_q = 0.5 * (q.precision.logdet - q.mean.size * LOG_2PI - (white**2).sum(axis=1))
    return Pairs(q.mean, steps, target.log_joints(steps) - log_q)


class _White:
    """Standard normal points, as many at a time as asked for."""

    def __init__(self, rng: np.random.Generator, dim: int) -> None:
        self.rng, self.dim = rng, dim
        # 60 bits: with the usual 30 a coordinate may be exactly 0, whose normal quantile is infinite
        self.sobol = qmc.Sobol(dim, scramble=True, bits=60, rng=rng) if dim <= SOBOL_DIMENSIONS else None

    def next(self, size: int) -> Array:
        """(size, dim)."""
        if self.sobol is None:
            return self.rng.standard_normal((size, self.dim))
        whole = 1 << max(0, size - 1).bit_length()  # a power of two, for which the sequence is made
        return np.asarray(ndtri(self.sobol.random(whole)[:size]))
