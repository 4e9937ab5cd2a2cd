r"""Importance weights: how far an approximation can be trusted, and what it becomes when it is corrected.

Draws from q are weighted by how much more probable they are under the posterior than under q. The weights give the
evidence, means and predictions without the approximation's error, and the heaviness of their tail, Pareto's k̂, tells
whether that worked.

Notation
--------
====  =========================================================================  ========
q     the approximation N(m, Σ), symmetric about m                               over (M,)
g     what draws are made from: seven parts q, one part q three times as wide    over (M,)
h     steps from m; draws come in pairs m ± h                                    (S, M)
r     log ratios log p(y, m ± h) - log g(h)                                      (2, S)
w, u  weights of draws under the posterior and under q, each adding to one       (2S,)
====  =========================================================================  ========

Pairs take the odd part of what is averaged off exactly under q, and cost nothing. The wide part finds what the
posterior has beside q, on a long side or a plateau, which draws from q alone would not meet.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry 2024 (PSIS); Yao, Vehtari, Simpson & Gelman 2018.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from credibly.inference.trust.target import Target
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.settings import IMPORTANCE, ImportanceSettings
from credibly.numerics.special import LOG_2PI, log_sum_exp
from credibly.numerics.weighted_draws import CLOSE, RELIABLE, Smoothed, all_equal, pareto_smoothed


class Pairs(NamedTuple):
    """Draws m ± h with their log ratios."""

    center: Array  # m, (M,)
    steps: Array  # h, (S, M)
    log_ratios: Array  # r, (2, S)
    log_tilt: Array  # log q(h) - log g(h), (S,)
    wide: AnyArray  # which are from the wide part, (S,)

    def and_more(self, other: "Pairs") -> "Pairs":
        """Together with other pairs."""
        ratios = np.hstack([self.log_ratios, other.log_ratios])
        joined = (np.concatenate(pair) for pair in zip(self[3:], other[3:], strict=True))
        return Pairs(self.center, np.concatenate([self.steps, other.steps]), ratios, *joined)

    def first(self, size: int) -> "Pairs":
        """The first so many."""
        return Pairs(self.center, self.steps[:size], self.log_ratios[:, :size], self.log_tilt[:size], self.wide[:size])

    @property
    def points(self) -> Array:
        """The draws, (2S, M): first all m + h, then all m - h."""
        return np.concatenate([self.center + self.steps, self.center - self.steps])

    @property
    def log_weights_under_q(self) -> Array:
        """log u, (2S,): of draws from g as draws from q."""
        return np.tile(self.log_tilt - log_sum_exp(self.log_tilt) - np.log(2.0), 2)

    @property
    def ratios_to_q(self) -> Array:
        """Log ratios to q of the draws from q alone."""
        return (self.log_ratios - self.log_tilt)[:, ~self.wide].reshape(-1)


class Correction(NamedTuple):
    """What importance weights make of an approximation."""

    pairs: Pairs
    log_weights: Array  # log w, smoothed, (2S,), of `pairs.points`
    khat: float  # of these weights or of q, whichever is more
    shape: float  # as arviz-stats has it, of a tail however small
    log_evidence: float
    log_evidence_se: float

    @classmethod
    def of(cls, pairs: Pairs) -> "Correction":
        """Smooth the ratios; where those to q are all the evidence, q is the posterior, and nothing is to correct."""
        to_q = (pairs.log_ratios - pairs.log_tilt).reshape(-1)
        if all_equal(to_q):
            return cls(pairs, pairs.log_weights_under_q, 0.0, 0.0, float(to_q.mean()), 0.0)
        own = pareto_smoothed(pairs.ratios_to_q)
        smoothed = pareto_smoothed(pairs.log_ratios.reshape(-1))
        # The evidence is the mean ratio as it is: smoothing cuts ratios at the largest seen, and makes it too small.
        by_pair = np.logaddexp(*pairs.log_ratios)
        log_total = float(log_sum_exp(by_pair))
        return cls(
            pairs,
            smoothed.log_weights,
            max(counted_khat(smoothed), counted_khat(own)),
            max(smoothed.khat, own.khat),
            log_total - float(np.log(pairs.log_ratios.size)),
            _standard_error(by_pair - log_total, pairs.wide),
        )

    @property
    def points(self) -> Array:
        """The draws, (2S, M)."""
        return self.pairs.points

    @property
    def weight_changes(self) -> Array:
        """w - u, (2S,): what the correction adds to an average under q, with the noise of the draws taken off."""
        return np.asarray(np.exp(self.log_weights) - np.exp(self.pairs.log_weights_under_q))

    @property
    def reliable(self) -> bool:
        """True where the corrected numbers can be used."""
        return self.khat <= RELIABLE

    @property
    def ess(self) -> float:
        """How many independent draws from the posterior the weighted ones are worth."""
        return float(np.exp(-np.logaddexp.reduce(2 * self.log_weights)))

    @property
    def mean_se(self) -> float:
        """The largest standard error of a corrected mean, in its standard deviations, from the spread over pairs."""
        up, down = np.exp(self.log_weights).reshape(2, -1)
        h, mass = self.pairs.steps, up + down
        shift = (up - down) @ h
        error = np.sqrt((((up - down)[:, None] * h - np.outer(mass, shift)) ** 2).sum(axis=0))
        return float((error / np.sqrt(mass @ h**2 - shift**2)).max())

    def thinned(self, pairs: int) -> "Correction":
        """The same by the first draws only."""
        return self if len(self.pairs.steps) <= pairs else Correction.of(self.pairs.first(pairs))

    def khats(self, log_terms: Array) -> Array:
        """Of the weights times positive terms (2S, n, K), the worst of the K for each row, (n,).

        With probabilities of all classes as terms, that is of the ratios of a prediction's two sums.
        """
        tails = self.pairs.log_ratios.reshape(-1, 1, 1) + log_terms
        khats = [counted_khat(pareto_smoothed(column)) for column in tails.reshape(len(tails), -1).T]
        return np.asarray(np.reshape(khats, tails.shape[1:]).max(axis=1))


def counted_khat(smoothed: Smoothed, settings: ImportanceSettings = IMPORTANCE) -> float:
    """The published k̂, in proportion where the tail holds less than a twentieth of the mean ratio.

    The shape of a tail does not depend on its size. Of draws from EP, whose numbers need no correction, k̂ may be one:
    the posterior's tail is heavier than any Gaussian's, and holds nothing.
    """
    return smoothed.khat * float(np.clip(smoothed.tail / settings.small_tail, 0.0, 1.0))


def _standard_error(log_shares: Array, wide: AnyArray) -> float:
    """Of the logarithm of the mean ratio, from the spread over pairs, whose two draws are not independent.

    How many pairs are wide is no chance, so spreads count within the wide ones and within the others.
    """
    S = log_shares.size
    shares = S * np.exp(log_shares)
    parts = [part for part in (shares[wide], shares[~wide]) if part.size]
    return float(np.sqrt(sum(((part - part.mean()) ** 2).sum() for part in parts) / (S * (S - 1.0))))


def correct(
    rng: np.random.Generator,
    target: Target,
    draws: int | None = None,
    *,
    settings: ImportanceSettings = IMPORTANCE,
    report: Callable[[Correction], None] | None = None,
) -> Correction:
    """Draw from q, weigh the draws, and go on until the evidence is known well enough.

    Parameters
    ----------
    rng : numpy.random.Generator
    target : Target
    draws : int, optional
        Exactly so many (one more if odd). By default 1,024 are doubled until the log evidence and all means are known
        as well as `settings` ask, until it is plain that the tail is too heavy (k̂ > 1 at 4,096 draws, 0.7 at 16,384),
        or until there are 32,768 (fewer in thousands of dimensions). A tail of shape above 0.5, however little it
        holds, is not believed before there are 4,096.
    settings : ImportanceSettings
    report : function of a Correction, optional
        Called after every doubling.

    Notes
    -----
    Points are Sobol's up to 200 dimensions; the standard error is that of independent ones, so the error is mostly
    smaller.
    """
    M = target.q.mean.size
    points = _Points(rng, M, settings)
    if draws is not None:
        return Correction.of(_draw(target, points, (draws + 1) // 2))
    most = max(settings.first_pairs, min(settings.most_pairs, settings.most_numbers // (2 * M)))
    pairs = _draw(target, points, settings.first_pairs)
    while True:
        found = Correction.of(pairs)
        if report is not None:
            report(found)
        size = len(pairs.steps)
        settled = found.shape <= CLOSE or size >= settings.settled_pairs
        known = found.reliable and found.log_evidence_se <= settings.evidence_se and found.mean_se <= settings.mean_se
        hopeless = found.khat > (settings.hopeless if size < settings.sure_pairs else RELIABLE)
        if (settled and (known or hopeless)) or 2 * size > most:
            return found
        pairs = pairs.and_more(_draw(target, points, size))


def _draw(target: Target, points: "_Points", size: int) -> Pairs:
    """So many pairs, one in eight of them wide."""
    q, settings = target.q, points.settings
    white, wide = points.next(size)
    steps = q.precision.half_solve_transposed(white.T).T
    squares, M, share = (white**2).sum(axis=1), q.mean.size, 1 / settings.one_wide_in
    widened = np.log(share) - M * np.log(settings.wider) + 0.5 * squares * (1 - settings.wider**-2)
    log_tilt = -np.logaddexp(np.log1p(-share), widened)
    log_q = 0.5 * (q.precision.logdet - M * LOG_2PI - squares)
    log_joints = target.log_joints(np.concatenate([q.mean + steps, q.mean - steps])).reshape(2, -1)
    return Pairs(q.mean, steps, log_joints - (log_q - log_tilt), log_tilt, wide)


class _Points:
    """Points of the mixture in white coordinates, as many at a time as asked for.

    Each part has a sequence of its own: every eighth point of one would lie in a corner.
    """

    def __init__(self, rng: np.random.Generator, dim: int, settings: ImportanceSettings) -> None:
        self.rng, self.settings = rng, settings
        self.narrow = _White(rng, dim, settings.sobol_dimensions)
        self.wide = _White(rng, dim, settings.wide_sobol_dimensions)

    def next(self, size: int) -> tuple[Array, AnyArray]:
        """Points (size, dim), and which are wide, in random order."""
        few = size // self.settings.one_wide_in
        points = np.concatenate([self.narrow.next(size - few), self.settings.wider * self.wide.next(few)])
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
