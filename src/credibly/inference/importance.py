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
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.special import LOG_2PI, log_sum_exp
from credibly.numerics.weighted_draws import CLOSE, RELIABLE, Smoothed, all_equal, pareto_smoothed

FIRST_PAIRS = 512  # draws are doubled from here on
MOST_PAIRS = 16_384  # by default
LARGEST_POOL = 20_000_000  # numbers in all draws together, 160 megabytes
GOAL = 0.015  # standard error of the log evidence, in nats, at which draws are enough
MEAN_GOAL = 0.035  # standard error of every mean, in posterior standard deviations, likewise
SMALL_SHIFT = 0.25  # of a mean, in posterior standard deviations: q itself will do
SMALL_WIDENING = 1.25  # of a standard deviation, likewise
ONE_WIDE_IN = 8  # pairs
WIDER = 3.0
HOPELESS = 1.0  # k̂ that leaves no doubt even if it is not known well
SURE_PAIRS = 8_192  # with so many, one above 0.7 leaves none either
SMALL_TAIL = 0.05  # of the mean ratio: a tail that holds less cannot spoil it
SETTLED_PAIRS = 2_048  # with fewer, a k̂ above one half may be chance
WIDE_SOBOL_DIMENSIONS = 20  # with more, wide points have next to no weight
SOBOL_DIMENSIONS = 200  # beyond that a Sobol sequence of this length is no more even than random points


@dataclass(frozen=True)
class Pairs:
    """Draws m ± h with their log ratios; most are from q, some from a wider Gaussian, all weighed by the mixture g."""

    center: Array  # m, (M,)
    steps: Array  # h, (S, M)
    log_ratios: Array  # r = log p(y, m ± h) - log g(h), (2, S)
    log_tilt: Array | None = None  # log q(h) - log g(h), (S,); None where all are from q
    wide: AnyArray | None = None  # which are from the wider one, (S,)

    def first(self, size: int) -> "Pairs":
        """The first so many pairs."""
        tilt, wide = (None if it is None else it[:size] for it in (self.log_tilt, self.wide))
        return Pairs(self.center, self.steps[:size], self.log_ratios[:, :size], tilt, wide)

    def and_more(self, other: "Pairs") -> "Pairs":
        """Together with other pairs."""
        held = zip((self.log_tilt, self.wide), (other.log_tilt, other.wide), strict=True)
        tilt, wide = (None if one is None or two is None else np.concatenate([one, two]) for one, two in held)
        steps, ratios = np.concatenate([self.steps, other.steps]), np.hstack([self.log_ratios, other.log_ratios])
        return Pairs(self.center, steps, ratios, tilt, wide)

    @property
    def own(self) -> "Pairs":
        """Those from q, weighed by q."""
        if self.log_tilt is None or self.wide is None:
            return self
        kept = ~self.wide
        return Pairs(self.center, self.steps[kept], (self.log_ratios - self.log_tilt)[:, kept])

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
        log_weights = self.log_split if self.log_tilt is None else self.log_split + self.log_tilt
        return np.asarray(log_weights - np.logaddexp.reduce(log_weights, axis=None)).reshape(-1)

    def plain(self) -> Smoothed:
        """Weights of single draws."""
        return pareto_smoothed(self.log_ratios.reshape(-1))

    def symmetrised(self) -> Smoothed:
        """The same for pairs, as draws from q*: each has one ratio, and its draws share the weight."""
        pair = pareto_smoothed(np.logaddexp(*self.log_ratios) - np.log(2.0))
        return pair._replace(log_weights=(pair.log_weights + self.log_split).reshape(-1))


class Correction(NamedTuple):
    """What importance weights make of an approximation."""

    pairs: Pairs
    log_weights: Array  # (2S,), of `pairs.points`, smoothed; they sum to one
    khat: float  # of q or q*, whichever is less; more where that of these weights is more
    log_evidence: float
    log_evidence_se: float
    khat_plain: float  # of q itself
    khat_symmetrised: float  # of q*, the skew-corrected q
    shape: float  # k̂ as arviz-stats has it, of a tail however small
    by_pair: bool  # whether weights are those of pairs

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
        if self.by_pair:
            tails = np.logaddexp(*ratios)
        else:
            tails = ratios.reshape(log_terms.shape)
        columns = tails.reshape(len(tails), -1).T
        khats = np.array([counted_khat(pareto_smoothed(column)) for column in columns])
        return np.asarray(khats.reshape(tails.shape[1:]).max(axis=1))

    @classmethod
    def of(cls, pairs: Pairs) -> "Correction":
        """Smooth the ratios, of single draws or of pairs: whichever have the lighter tail."""
        if pairs.log_tilt is not None and all_equal((pairs.log_ratios - pairs.log_tilt).reshape(-1)):
            return cls.of(pairs.own)  # q is the posterior, and nothing is to be corrected
        plain, pair = pairs.plain(), pairs.symmetrised()
        best = pair if counted_khat(pair) < counted_khat(plain) else plain
        q, q_star = (plain, pair) if pairs.wide is None else (pairs.own.plain(), pairs.own.symmetrised())
        khat_plain, khat_symmetrised = counted_khat(q), counted_khat(q_star)
        khat = max(counted_khat(best), min(khat_plain, khat_symmetrised))
        shape = max(best.khat, min(q.khat, q_star.khat))
        # The evidence is the mean ratio as it is: smoothing cuts ratios at the largest seen, and makes it too small.
        pair_ratios = np.logaddexp(*pairs.log_ratios)
        log_total = float(log_sum_exp(pair_ratios))
        log_evidence = log_total - float(np.log(pairs.log_ratios.size))
        error = _standard_error(pair_ratios - log_total, pairs.wide)
        numbers = best.log_weights, khat, log_evidence, error
        return cls(pairs, *numbers, khat_plain, khat_symmetrised, shape, best is pair)


def counted_khat(smoothed: Smoothed) -> float:
    """The published k̂, in proportion where the tail holds less than a twentieth of the mean ratio.

    The shape of a tail does not depend on its size. Of draws from EP, whose numbers need no correction, k̂ may be one:
    the posterior's tail is heavier than any Gaussian's, and holds nothing.
    """
    return smoothed.khat * float(np.clip(smoothed.tail / SMALL_TAIL, 0.0, 1.0))


def _standard_error(log_shares: Array, wide: AnyArray | None) -> float:
    """Of the logarithm of the mean ratio, from the spread over pairs, whose two draws are not independent.

    How many pairs are wide is no chance, so spreads count within the wide ones and within the others.
    """
    S = log_shares.size
    shares = S * np.exp(log_shares)
    parts = [shares] if wide is None or not wide.any() else [shares[wide], shares[~wide]]
    return float(np.sqrt(sum(((part - part.mean()) ** 2).sum() for part in parts) / (S * (S - 1.0))))


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
        at most `goal` and those of all means are at most 0.035 standard deviations, until it is plain that the tail is
        too heavy (k̂ > 1 at 4,096 draws, 0.7 at 16,384), or until there are 32,768 (fewer in thousands of dimensions).
        A tail of shape above 0.5, however little it holds, is not believed before there are 4,096.
    goal : float
        In nats.
    report : function of a Correction, optional
        Told of every doubling.

    Notes
    -----
    Points are Sobol's up to 200 dimensions; the standard error is that of independent ones, so the error is mostly
    smaller. One pair in eight is from a Gaussian three times as wide as q: what the posterior has beside q, on a long
    side or a plateau, draws from q alone would not meet, and all ratios are to the mixture of both.
    """
    M = target.q.mean.size
    points = _Points(rng, M)
    if draws is not None:
        return Correction.of(_draw(target, points, (draws + 1) // 2))
    most = max(FIRST_PAIRS, min(MOST_PAIRS, LARGEST_POOL // (2 * M)))
    pairs = _draw(target, points, FIRST_PAIRS)
    while True:
        found = Correction.of(pairs)
        if report is not None:
            report(found)
        size = len(pairs.steps)
        settled = found.shape <= CLOSE or size >= SETTLED_PAIRS
        known = found.reliable and found.log_evidence_se <= goal and found.mean_se <= MEAN_GOAL
        hopeless = found.khat > (HOPELESS if size < SURE_PAIRS else RELIABLE)
        if (settled and (known or hopeless)) or 2 * size > most:
            return found
        pairs = pairs.and_more(_draw(target, points, size))


def _draw(target: Target, points: "_Points", size: int) -> Pairs:
    """So many pairs, one in eight of them wide."""
    q = target.q
    white, wide = points.next(size)
    steps = q.precision.half_solve_transposed(white.T).T
    squares, M = (white**2).sum(axis=1), q.mean.size
    share = np.log([1 - 1 / ONE_WIDE_IN, 1 / ONE_WIDE_IN])
    log_tilt = -np.logaddexp(share[0], share[1] - M * np.log(WIDER) + 0.5 * squares * (1 - WIDER**-2))
    log_q = 0.5 * (q.precision.logdet - M * LOG_2PI - squares)
    return Pairs(q.mean, steps, target.log_joints(steps) - (log_q - log_tilt), log_tilt, wide)


class _Points:
    """Points of the mixture in white coordinates, as many at a time as asked for.

    Each part has a sequence of its own: every eighth point of one would lie in a corner.
    """

    def __init__(self, rng: np.random.Generator, dim: int) -> None:
        self.rng, self.narrow = rng, _White(rng, dim, SOBOL_DIMENSIONS)
        self.wide = _White(rng, dim, WIDE_SOBOL_DIMENSIONS)

    def next(self, size: int) -> tuple[Array, AnyArray]:
        """Points (size, dim), and which are wide, in random order."""
        few = size // ONE_WIDE_IN
        points = np.concatenate([self.narrow.next(size - few), WIDER * self.wide.next(few)])
        order = self.rng.permutation(size)  # so that the first of them are a mixture, too
        return points[order], (np.arange(size) >= size - few)[order]


class _White:
    """Standard normal points, as many at a time as asked for."""

    def __init__(self, rng: np.random.Generator, dim: int, most_sobol: int) -> None:
        self.rng, self.dim = rng, dim
        # 48 bits: with the usual 30 a coordinate may be exactly 0, whose normal quantile is infinite
        self.sobol = qmc.Sobol(dim, scramble=True, bits=48, rng=rng) if dim <= most_sobol else None

    def next(self, size: int) -> Array:
        """(size, dim)."""
        if self.sobol is None:
            return self.rng.standard_normal((size, self.dim))
        whole = 1 << max(0, size - 1).bit_length()  # a power of two, for which the sequence is made
        return np.asarray(ndtri(self.sobol.random(whole)[:size]))
