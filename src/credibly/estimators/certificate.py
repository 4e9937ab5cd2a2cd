"""The certificate: how far a fitted model's approximation can be trusted, and its numbers with the error taken out."""

from __future__ import annotations

import warnings
from decimal import ROUND_UP, Context
from html import escape
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.memory import refuse_beyond_memory
from credibly.diagnostics.inputs import generator
from credibly.errors import DataWarning, InputError, UnreliableWarning
from credibly.inference.trust.importance import Correction
from credibly.numerics.arrays import Array
from credibly.numerics.weighted_draws import RELIABLE

FEWEST_DRAWS = 256  # of which seven in eight are from q itself, in pairs: a hundred of those have a tail
DRAWS_SEED = 0  # where random_state is None: the same model and rows give the same certificate

# What is said to users: how far the exact posterior may be where the computation is called accurate.
SMALL_SHIFT = 0.25  # of a mean, in posterior standard deviations
SMALL_WIDENING = 1.25  # of a standard deviation
SMALL_CHANGE = 0.02  # of an averaged probability of a training row
LEAST_SHOWN = 5e-4  # of such a change: less than that is noise of the draws


class Corrected(Protocol):
    """A model's numbers by weighted draws."""

    @property
    def mean(self) -> Array:
        """Of the weights, or of the latents at the training rows."""

    @property
    def std(self) -> Array:
        """Their standard deviations."""

    def log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""

    def khat(self, X: ArrayLike) -> Array:
        """How heavy the tail of each prediction's own weights is, (n,)."""

    def predict(self, X: ArrayLike, offset: ArrayLike | None, exposure: ArrayLike | None) -> Array:
        """The mean of the target, (n,)."""


class Gap(NamedTuple):
    """How far a correction moves an approximation."""

    shift: float  # largest change of a mean, of a weight or of a training row's score, in standard deviations
    widening: float  # largest ratio of a corrected standard deviation to the model's, or the other way round
    change: float  # largest change of an averaged probability of a training row; 0 where targets are no labels

    @property
    def small(self) -> bool:
        """True where the model's own numbers will do."""
        return self.shift <= SMALL_SHIFT and self.widening <= SMALL_WIDENING and self.change <= SMALL_CHANGE


class Found(NamedTuple):
    """What a certificate says."""

    khat: float
    reliable: bool
    ess: float
    draws: int
    log_evidence: float
    log_evidence_se: float
    shift: float
    widening: float
    change: float
    verdict: str
    corrected: Corrected

    @classmethod
    def of(cls, correction: Correction, corrected: Corrected, gap: Gap, advice: str) -> Found:
        """By importance weights."""
        return cls(
            correction.khat,
            correction.reliable,
            correction.ess,
            int(correction.log_weights.size),
            correction.log_evidence,
            correction.log_evidence_se,
            *gap,
            _verdict(correction, gap, advice),
            corrected,
        )


class Certificate:
    r"""How far an approximation can be trusted, from draws weighted by posterior over approximation.

    .. math:: r_s = \frac{p(y, w_s)}{q(w_s)}, \qquad p(y) \approx \frac1S \sum_s r_s, \qquad
              E[g(w)] \approx \frac{\sum_s r_s \, g(w_s)}{\sum_s r_s}, \qquad w_s \sim q

    with the largest ratios smoothed. Corrected numbers warn (`UnreliableWarning`) where `reliable` is False.

    Attributes
    ----------
    khat : float
        Shape of the ratios' tail. Up to 0.5 the approximation is close; up to 0.7 the corrected numbers are good
        (`reliable`); above, neither. NaN for draws of ``inference="exact"``, which need no weights.
    reliable : bool
        Whether the corrected numbers can be used; of exact draws, whether the chains agree.
    accurate : bool
        Whether the model's own numbers will do.
    verdict : str
        What this means, and what to do. It speaks of the computation, not of whether the model fits the data.
    ess : float
        How many independent posterior draws the weighted ones are worth.
    draws : int
    shift : float
        The largest change of a mean by the correction, of a weight or of a training row's score, in posterior standard
        deviations.
    widening : float
        The largest factor by which the correction changes a standard deviation, up or down: 1.1 is ten per cent.
    change : float
        The largest change of an averaged probability of a training row.
    log_evidence, log_evidence_se : float
        Corrected, and its standard error.
    mean, std : arrays
        Corrected; layout of ``posterior_.mean`` (for a Gaussian process: of the latents at the training rows).

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry 2024; Yao, Vehtari, Simpson & Gelman 2018.

    Examples
    --------
    >>> from credibly import BayesianLogisticRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), [0, 1, 0, 1, 1]
    >>> certificate = BayesianLogisticRegression().fit(X, y).certify(X, y)
    >>> certificate.reliable, certificate.mean.shape
    (True, (2,))
    """

    def __init__(self, found: Found) -> None:
        self._found, self._corrected = found, found.corrected
        self.khat, self.reliable, self.ess, self.draws = found.khat, found.reliable, found.ess, found.draws
        self.shift, self.widening, self.change = found.shift, found.widening, found.change
        self.verdict = found.verdict

    @property
    def accurate(self) -> bool:
        """True where the model's own numbers will do."""
        return self.reliable and Gap(self.shift, self.widening, self.change).small

    def _if_reliable(self, what: str) -> None:
        if not self.reliable:
            warnings.warn(
                f"The corrected {what} is not reliable. {self.verdict}",
                UnreliableWarning,
                stacklevel=3,
            )

    @property
    def log_evidence(self) -> float:
        """Corrected log p(y | X)."""
        self._if_reliable("log evidence")
        return self._found.log_evidence

    @property
    def log_evidence_se(self) -> float:
        """Standard error of the corrected log evidence."""
        self._if_reliable("standard error")
        return self._found.log_evidence_se

    @property
    def mean(self) -> Array:
        """Corrected posterior means."""
        self._if_reliable("mean")
        return self._corrected.mean

    @property
    def std(self) -> Array:
        """Corrected posterior standard deviations."""
        self._if_reliable("standard deviation")
        return self._corrected.std

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Corrected log p(class | x), (n, K)."""
        self._if_reliable("log probability")
        return self._corrected.log_proba(X)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Corrected p(class | x), (n, K): the exponential of `predict_log_proba`."""
        self._if_reliable("probability")
        return np.exp(self._corrected.log_proba(X))

    def predict_khat(self, X: ArrayLike) -> Array:
        """k-hat of every prediction, (n,): of the weights times the probability, for the worst class.

        A prediction may be fine where the posterior as a whole is not, and the other way round.
        """
        return self._corrected.khat(X)

    def predict(self, X: ArrayLike, offset: ArrayLike | None = None, exposure: ArrayLike | None = None) -> Array:
        """The corrected mean of a generalised linear model's target, (n,)."""
        self._if_reliable("mean of the target")
        return self._corrected.predict(X, offset, exposure)

    def __repr__(self) -> str:
        khat = "" if np.isnan(self.khat) else f"k-hat {self.khat:.2f}, "
        numbers = f"{khat}{self.draws} draws worth {self.ess:.0f}"
        if self.reliable:
            found = self._found
            numbers += f"; log evidence {found.log_evidence:.3f} ± {found.log_evidence_se:.2g}"
        return f"Certificate: {self.verdict}\n({numbers})"

    def _repr_html_(self) -> str:
        return "<p>" + escape(repr(self)).replace("\n", "<br>") + "</p>"


def _shown(khat: float) -> str:
    """Two digits, or as many as it takes to be seen above the limit."""
    return next(shown for n in range(2, 18) if float(shown := f"{khat:.{n}f}") > RELIABLE)


def _how_far(gap: Gap) -> str:
    if gap.change > SMALL_CHANGE:
        return f"a probability of a training row is off by {gap.change:.2g}"
    if gap.shift > SMALL_SHIFT:
        return f"a mean is off by {gap.shift:.2f} of its standard deviation"
    return f"a standard deviation is off by a factor of {gap.widening:.2f}"


def _rounded_up(value: float) -> str:
    """Two digits, never below the value, so that "by no more than" is true; at least 0.0005."""
    digits = Context(prec=2, rounding=ROUND_UP).create_decimal_from_float(max(value, LEAST_SHOWN))
    return f"{digits:f}"


def _verdict(correction: Correction, gap: Gap, advice: str) -> str:
    khat = correction.khat
    if not correction.reliable:
        return (
            "Do not rely on this model's intervals and evidence, nor on corrected ones: the approximation is far "
            f"from the exact posterior (k-hat {_shown(khat)}, above {RELIABLE}). Advice: {advice}."
        )
    if not gap.small:
        return (
            f"The approximation is not accurate: {_how_far(gap)}. Use the corrected numbers of this certificate, which "
            f"can be trusted (k-hat {khat:.2f}, at most {RELIABLE}), or {advice}."
        )
    return (
        "The computation is accurate: the exact posterior changes no probability of a training row by more than "
        f"{_rounded_up(gap.change)} and no mean by more than {_rounded_up(gap.shift)} standard deviations. Whether the "
        "model fits the data is another question."
    )


def read_draws(draws: Any, n_latents: int) -> int | None:
    """How many draws of so many numbers are asked for, or None for as many as are needed."""
    if draws is None:
        return None
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < FEWEST_DRAWS:
        raise InputError(
            f"draws must be None or a whole number of at least {FEWEST_DRAWS}: with fewer, Pareto smoothing cannot "
            f"tell how heavy the tail is; got {draws!r}."
        )
    what = f"{draws:,} draws of {n_latents:,} numbers"
    refuse_beyond_memory(
        1.5 * int(draws) * n_latents, what, "Ask for fewer, or leave draws out: it takes what is needed."
    )
    return int(draws)


def draws_rng(model: Any, random_state: Any) -> np.random.Generator:
    """For a certificate's draws: others than those that a fit with the same random state has made."""
    seed = model.random_state if random_state is None else random_state
    rng = generator(DRAWS_SEED if seed is None else seed)
    return np.random.default_rng(rng.integers(2**63))


def print_draws(found: Correction) -> None:
    """What `verbose` shows of every doubling of the draws."""
    evidence = f"log evidence {found.log_evidence:.6g} ± {found.log_evidence_se:.2g}"
    print(f"{found.log_weights.size:6d} draws  k-hat {found.khat:.2f}  {evidence}")


def warn_other_data(why: str, stacklevel: int) -> None:
    """Warn that the rows are not those of the fit; so many calls up is the caller of `certify`."""
    warnings.warn(
        f"These are not the data of the fit: {why}. Pass the same rows, labels and weights as to fit.",
        DataWarning,
        stacklevel=stacklevel,
    )
