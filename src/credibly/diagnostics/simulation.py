r"""Simulation-based calibration: whether the posterior means what it says, for a model as it is configured.

Draw parameters from the prior and data from the likelihood, learn from the data, and note the rank of each true value
among draws of its posterior. If the posterior is right, all ranks are equally likely, whatever the model:

.. math:: \int p(θ) \, p(y \mid θ) \, p(θ' \mid y) \, dy \;\text{ is symmetric in } θ, θ'.

Notation
--------
====  ================================================================  ========
R     replicates: how often data are simulated                          number
L     draws of each posterior; ranks are 0 … L                          number
M     quantities whose ranks are noted                                  number
r     ranks                                                             (R, M)
====  ================================================================  ========
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc
from scipy.stats import binom

from credibly.diagnostics.inputs import check_level, generator, whole
from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes

BINS = 10
SHOWN = 20  # quantities that are printed


class Simulator(NamedTuple):
    """A model as two functions, for `sbc`.

    Any quantities will do, also such that depend on the data: the log likelihood finds a posterior that has not looked
    at them, which parameters alone do not (Modrák et al. 2023).

    Examples
    --------
    A coin with a uniform prior, ten throws, and the posterior Beta(1 + heads, 11 - heads):

    >>> def throw(rng):
    ...     p = rng.random()
    ...     return np.array([p]), rng.binomial(10, p)
    >>> def learn(rng, heads, size):
    ...     return rng.beta(1 + heads, 11 - heads, size=(size, 1))
    >>> coin = Simulator(simulate=throw, posterior=learn, names=["p"])
    >>> sbc(coin, replicates=200, random_state=0).suspects()
    []
    """

    simulate: Callable[[np.random.Generator], tuple[Array, Any]]  # rng → true quantities (M,), and data
    posterior: Callable[[np.random.Generator, Any, int], Array]  # rng, data, size → draws of them, (size, M)
    names: Sequence[str] | None = None  # of the quantities


class Coverage(NamedTuple):
    """How often intervals held the true value.

    Examples
    --------
    >>> SBC(np.arange(10)[:, None], draws=9, names=["p"]).coverage(0.8).observed  # one rank of each
    array([0.8])
    """

    observed: Array  # (M,), shares of the replicates
    expected: float  # of a right posterior: the level, as near as ranks come to it
    low: float  # where a right posterior's share lies, with probability `level` of the band or more
    high: float


class RankHistogram(NamedTuple):
    """How many ranks fell into each bin.

    Examples
    --------
    >>> SBC(np.arange(10)[:, None], draws=9, names=["p"]).histogram(bins=5).counts.ravel()
    array([2, 2, 2, 2, 2])
    """

    counts: Codes  # (B, M)
    expected: Array  # (B,)
    band_low: Array  # (B,), binomial band of a right posterior
    band_high: Array


class SBCRow(NamedTuple):
    """What the ranks of one quantity say.

    Examples
    --------
    True values in the tails of every posterior, so that intervals are too narrow:

    >>> row = SBC(np.array([[0], [99]] * 20), draws=99, names=["p"]).table[0]
    >>> row.name, row.shift, row.spread > 5, row.coverage
    ('p', 0.0, True, 0.0)
    """

    name: str
    shift: float  # in standard errors; positive: true values lie above the posterior
    spread: float  # in standard errors; positive: they lie in its tails, the posterior is too narrow
    coverage: float  # of 90 % intervals
    pvalue: float  # of ranks that are uniform


@dataclass(frozen=True)
class SBC:
    """Ranks of true values among posterior draws, and what they say.

    Attributes
    ----------
    ranks : (replicates, M) int array
        0 … draws.
    draws : int
        How many draws each rank is among.
    names : list of str
        Of the quantities.

    Examples
    --------
    Ranks that are all low: posteriors lie above the true values.

    >>> SBC(np.array([[0], [1], [2], [3], [2], [1]] * 5), draws=9, names=["p"]).suspects()
    ['p']
    """

    ranks: Codes
    draws: int
    names: list[str] = field(default_factory=list)

    def _scores(self) -> tuple[Array, Array]:
        """Standardised shift and spread, (M,): means of orthogonal polynomials of the rank, times √R."""
        middle, variance = self.draws / 2, self.draws * (self.draws + 2) / 12
        centred = self.ranks - middle
        # Of uniform ranks 0 … L: E[c⁴] = L(L + 2)(3L² + 6L - 4)/240
        fourth = variance * (3 * self.draws * (self.draws + 2) - 4) / 20
        root = np.sqrt(len(self.ranks))
        shift = centred.mean(axis=0) / np.sqrt(variance) * root
        spread = (centred**2 - variance).mean(axis=0) / np.sqrt(fourth - variance**2) * root
        return shift, spread

    @property
    def pvalues(self) -> Array:
        """P-values of uniform ranks, (M,): Neyman's smooth test of order two, χ² = shift² + spread²."""
        shift, spread = self._scores()
        return np.asarray(chdtrc(2, shift**2 + spread**2))

    def coverage(self, level: float = 0.9, band: float = 0.9) -> Coverage:
        """Shares of replicates whose central interval, of this level, held the true value.

        Parameters
        ----------
        level : float
            Mass of the intervals; taken to the nearest that ranks can express.
        band : float
            Mass of the binomial band for the shares.
        """
        cut = round((self.draws + 1) * (1 - check_level(level)) / 2)
        expected = (self.draws + 1 - 2 * cut) / (self.draws + 1)
        held = ((self.ranks >= cut) & (self.ranks <= self.draws - cut)).mean(axis=0)
        low, high = binom.interval(check_level(band), len(self.ranks), expected)
        return Coverage(held, expected, float(low) / len(self.ranks), float(high) / len(self.ranks))

    def histogram(self, bins: int = BINS, level: float = 0.9) -> RankHistogram:
        """Counts of ranks in bins, with the band in which a right posterior's lie."""
        n_bins = whole(bins, "bins")
        if n_bins > self.draws + 1:
            raise InputError(f"bins must not exceed the {self.draws + 1} ranks there are; got {n_bins}.")
        of_rank = np.arange(self.draws + 1) * n_bins // (self.draws + 1)
        share = np.bincount(of_rank) / (self.draws + 1)
        counts = np.array([np.bincount(of_rank[r], minlength=n_bins) for r in self.ranks.T]).T
        band = [np.asarray(end) for end in binom.interval(check_level(level), len(self.ranks), share)]
        return RankHistogram(counts.astype(np.intp), share * len(self.ranks), *band)

    @property
    def table(self) -> list[SBCRow]:
        """A row for each quantity: `name`, `shift`, `spread`, `coverage`, `pvalue`."""
        columns = (*self._scores(), self.coverage(0.9).observed, self.pvalues)
        return [SBCRow(*row) for row in zip(self.names, *(c.tolist() for c in columns), strict=True)]

    def to_frame(self) -> Any:
        """`table` as a pandas data frame, indexed by name."""
        import pandas as pd

        return pd.DataFrame(self.table).set_index("name")

    def suspects(self, alpha: float = 0.05) -> list[str]:
        """Quantities whose ranks are not uniform; `alpha` is the probability of naming any if all are."""
        return [row.name for row in self.table if row.pvalue < check_level(alpha) / len(self.names)]

    def __str__(self) -> str:
        found = self.suspects()
        said = "ranks look uniform" if not found else f"not uniform: {', '.join(found[:5])}"
        lines = [f"Simulation-based calibration, {len(self.ranks)} replicates × {self.draws} draws: {said}"]
        width = max(len(name) for name in self.names) + 2
        lines.append(f"{'':{width}}{'shift':>8}{'spread':>8}{'coverage':>10}{'p-value':>10}")
        for row in self.table[:SHOWN]:
            lines.append(f"{row.name:{width}}{row.shift:8.2f}{row.spread:8.2f}{row.coverage:10.3f}{row.pvalue:10.2g}")
        hidden = len(self.names) - SHOWN
        lines += [f"… and {hidden} more"] if hidden > 0 else []
        _, expected, low, high = self.coverage(0.9)
        lines.append(f"coverage of {expected:.0%} intervals: right ones have {low:.3f} to {high:.3f} nine times in ten")
        return "\n".join(lines)


def sbc(  # noqa: PLR0913 -- a user's choices, by name
    model: Any,
    X: Any = None,
    *,
    replicates: int = 100,
    draws: int = 99,
    classes: ArrayLike = (0, 1),
    random_state: Any = None,
    verbose: bool = False,
) -> SBC:
    """Simulation-based calibration of a model, in the configuration that it has.

    Parameters
    ----------
    model : classifier of this package, or Simulator
        Fitted or not; it is not changed. Its prior must be a distribution that does not depend on the data: an explicit
        one, fixed label noise, `optimize=False` for a Gaussian process. Any other model comes as a `Simulator`.
    X : (n, d) array or frame
        The rows at which labels are simulated (for generative classifiers, which simulate rows too: as many, with these
        columns). Not for a `Simulator`.
    replicates : int
        How often data are simulated and learnt.
    draws : int
        From each posterior; 99 give a hundred ranks.
    classes : labels
        Of a model that is not fitted.
    random_state : int, RandomState, Generator or None
    verbose : bool
        Print progress.

    Returns
    -------
    SBC
        `ranks`, `coverage(level)`, `histogram()`, `table`, `to_frame()`, `suspects()`; prints as a table.

    Notes
    -----
    Quantities are all weights of a linear model, latents or log odds at up to eight rows otherwise, and the log
    likelihood. Data that lack a class are drawn again, which does not harm: p(θ | y) is what it is for those that stay.

    Laplace is an approximation, so that enough replicates will find a shift or spread; the question is whether it
    matters. A `shift` of z means that posteriors are off by about z/√replicates of their standard deviations, a
    `spread` of z that they are too narrow by about 0.8 z/√replicates of their width.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari & Gelman (2018), Algorithm 1; Modrák et al. (2023), for the log likelihood;
    Neyman (1937), for the test.

    Examples
    --------
    A normal mean, whose posterior is known:

    >>> def simulate(rng):
    ...     theta = rng.normal()
    ...     return np.array([theta]), rng.normal(theta)
    >>> def posterior(rng, y, size):
    ...     return rng.normal(y / 2, np.sqrt(1 / 2), size=(size, 1))
    >>> sbc(Simulator(simulate, posterior, ["mean"]), replicates=400, random_state=0).suspects()
    []
    """
    whole(replicates, "replicates", 2)
    whole(draws, "draws", 2)
    simulator = _simulator(model, X, classes)
    found = []
    for k, rng in enumerate(generator(random_state).spawn(replicates), start=1):
        found.append(_ranks(rng, simulator, draws))
        if verbose and k % max(1, replicates // 10) == 0:
            print(f"replicate {k} of {replicates}")
    ranks = np.array(found)
    return SBC(ranks, draws, _names(simulator, ranks.shape[1]))


def _simulator(model: Any, X: Any, classes: ArrayLike) -> Simulator:
    if isinstance(model, Simulator):
        if X is not None:
            raise InputError("A Simulator makes its own data; leave X out.")
        return model
    from credibly.diagnostics.simulated_models import simulator_of

    if X is None:
        raise InputError("sbc(model, X) needs the rows X at which labels are simulated.")
    return simulator_of(model, X, classes)


def _ranks(rng: np.random.Generator, simulator: Simulator, size: int) -> Codes:
    """How many posterior draws lie below each true value; ties are broken by chance."""
    truth, data = simulator.simulate(rng)
    truth = np.atleast_1d(np.asarray(truth, dtype=float))
    drawn = np.asarray(simulator.posterior(rng, data, size), dtype=float)
    if drawn.shape != (size, *truth.shape):
        raise InputError(f"posterior must return draws of shape {(size, *truth.shape)}; got {drawn.shape}.")
    if not (np.isfinite(truth).all() and np.isfinite(drawn).all()):
        raise InputError("simulate and posterior must return finite numbers; some are NaN or infinite.")
    below, equal = (drawn < truth).sum(axis=0), (drawn == truth).sum(axis=0)
    return np.asarray(below + rng.integers(0, equal, endpoint=True), dtype=np.intp)


def _names(simulator: Simulator, n_quantities: int) -> list[str]:
    if simulator.names is None:
        return [f"quantity {j}" for j in range(n_quantities)]
    if len(simulator.names) != n_quantities:
        raise InputError(f"{len(simulator.names)} names for {n_quantities} quantities.")
    return [str(name) for name in simulator.names]
