"""Draws from a density known up to a factor: many Hamiltonian chains side by side, and the factor itself.

Every chain is a row of one matrix, so a gradient for all of them takes a few matrix products. The caller has whitened
the density by the best Gaussian known: where that is right, the density is nearly N(0, I).

Notation
--------
====  ===============================================================  ===========
z     points in the caller's coordinates, a row for each chain         (C, M)
x     points in inner coordinates, z = m + A x                         (C, M)
m, A  mean and root of the covariance, learnt in warm-up               (M,), (M, M)
p     momenta, drawn anew from N(0, I) before every trajectory         (C, M)
ε, L  step size (an angle), number of steps; the same for all chains   scalars
S     draws of each chain                                              scalar
H, n  half chains; draws of each                                       scalars
====  ===============================================================  ===========

References
----------
Neal 2011, MCMC using Hamiltonian dynamics (Handbook of Markov Chain Monte Carlo, ch. 5).
Shahbaba, Lan, Johnson & Neal 2014, Split Hamiltonian Monte Carlo.
Hoffman & Gelman 2014, The No-U-Turn sampler (dual averaging of the step size: sec. 3.2).
Hoffman, Radul & Sountsov 2021, An adaptive-MCMC scheme for setting trajectory lengths in Hamiltonian Monte Carlo.
Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, Rank-normalization, folding, and localization: an improved R-hat.
Meng & Wong 1996, Simulating ratios of normalizing constants via a simple identity.
Frühwirth-Schnatter 2004, Estimating marginal likelihoods for mixture and Markov switching models.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD
from credibly.numerics.special import log_sum_exp

Flags = NDArray[np.bool_]
Density = Callable[[Array], tuple[Array, Array]]
"""Points (C, M) → log density (C,), up to a constant, and its gradient (C, M). Not finite outside its domain."""


@dataclass(frozen=True)
class ChainSettings:
    """Numbers of chains, of their adaptation, and of draws that are enough."""

    chains: int = 64
    """Many, so that a pass is spent on matrix products; few enough that each is long enough to be judged."""
    spread: float = 1.5
    """Standard deviation of the starts: wider than the density, so that chains that stay where they began are seen."""
    acceptance: float = 0.8
    """Mean probability of acceptance that the step size is adapted to. On logistic and softmax posteriors 0.7 and 0.9
    were as good."""
    jitter: float = 0.1
    """Part of the step size by which it varies from trajectory to trajectory, so that no period is met forever."""
    adaptation_draws: int = 20
    """Trajectories of one round of step-size adaptation."""
    trials: int = 10
    """Trajectories by which lengths are compared: 640 pairs of points for each length."""
    longest: int = 512
    """Steps of a trajectory at most."""
    first_draws: int = 100
    """Of each chain, before they are judged for the first time. With fewer R-hat is rarely below 1.01, even if a draw
    in two is as good as independent."""
    rhat: float = 1.01
    """The rank-normalized R-hat of every coordinate must be below (Vehtari et al. 2021, sec. 4)."""
    ess: float = 400.0
    """The bulk and the tail effective sample size of every coordinate must reach this (the same place)."""
    restart_rhat: float = 1.03
    """Above, some chains have not come from where they began: the draws only serve another warm-up. One of 64 chains
    that does not move makes 1.05."""
    divergences: float = 1e-4
    """Part of the trajectories above which steps are too long: somewhere the density bends faster than they can follow,
    and chains would keep away from there. Half of what acceptance lacks is then taken off, and draws are made anew."""
    highest_acceptance: float = 0.98
    """Acceptance from which on that is not tried again."""
    max_passes: int = 20_000
    """Gradient evaluations, each for all chains, at most."""


CHAIN_SETTINGS = ChainSettings()

QUARTER_PERIOD = math.pi / 2  # of N(0, I), where x turns into p: the start is forgotten
FARTHEST_TRIED = 1.5  # quarter periods of the lengths that are compared first: N(0, I) has its best at one
INSIDE = 0.9  # share of them: a best length beyond may be the rise to a better one, and twice as many are compared
DIVERGENCE = 1000.0  # nats by which the energy of a trajectory is off: Stan's limit
START_HALVINGS = 10  # of the distance to the origin, for chains that would start outside the domain
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75  # of dual averaging, as Hoffman & Gelman have them
FIRST_STEP = 0.5  # where adaptation starts: nearer to what is found than a factor of four, in most cases
INITIAL_STEPS = 16  # of a trajectory at most, while chains come in from where they started
FEWEST_DRAWS = 8  # of a chain: halves of four are the shortest that can be judged
BRIDGE_STEPS, BRIDGE_TOLERANCE = 1000, 1e-10  # of the fixed point, in nats: far below any standard error


@dataclass(frozen=True)
class Chains:
    """Draws of many chains, in the caller's coordinates, and how far to trust them."""

    points: Array  # (C, S, M)
    log_density: Array  # (C, S), the caller's
    rhat: Array  # (M,)
    ess_bulk: Array  # (M,)
    ess_tail: Array  # (M,)
    acceptance: float  # mean probability of acceptance, over draws and chains that stayed in the domain
    divergences: int  # trajectories, among the draws, whose energy was off by more than 1,000 nats; all were rejected
    exits: int  # trajectories that met a density that is not finite, and were rejected
    step_size: float
    steps: int
    passes: int  # gradient evaluations in all, warm-up included
    converged: bool  # False: the budget ended before R-hat, ESS, divergences and the number of draws were as wanted


@np.errstate(over="ignore", invalid="ignore")  # in `density`, too: what is not finite is rejected and counted
def hamiltonian_chains(  # noqa: PLR0913
    rng: np.random.Generator,
    density: Density,
    dim: int,
    settings: ChainSettings = CHAIN_SETTINGS,
    *,
    draws: int = 0,
    report: Callable[[int], None] | None = None,
    judged: Callable[[Array], Array] | None = None,
) -> Chains:
    r"""Draw by Hamiltonian Monte Carlo until the draws are good enough.

    Steps follow the energy :math:`H = -\log π(x) + \tfrac12 p^\top p`. As π is close to N(0, I), whose trajectories are
    circles, a step is a turn on a circle between two kicks by the force that N(0, I) leaves over:

    .. math::
        p_- = p + \tan\tfrac ε2 \, r(x), \quad
        \binom{x'}{p_+} = \binom{\phantom{-}\cos ε \quad \sin ε}{-\sin ε \quad \cos ε} \binom{x}{p_-}, \quad
        p' = p_+ + \tan\tfrac ε2 \, r(x'), \qquad r(x) = ∇\log π(x) + x.

    Each chain accepts the end of its trajectory with probability :math:`\min(1, e^{H - H'})`. Chains start from
    N(0, spread² I). Warm-up finds ε, L, m and A. Draws are judged when there are 100, 200, 400, … of each chain.

    Parameters
    ----------
    rng : numpy.random.Generator
        The same state gives the same draws.
    density : Density
        Close to N(0, I), up to a factor. It is asked for all chains at once.
    dim : int
        Number of coordinates M.
    settings : ChainSettings
        With the budget: if `max_passes` run out, `converged` is False.
    draws : int
        Draws, of all chains together, to make at least.
    report : callable, optional
        Called after each pass with their number so far.
    judged : callable, optional
        Of draws (C, S, M): the numbers (C, S, …) whose R-hat and ESS count, by default the draws themselves.

    Raises
    ------
    InputError
        If the density is not finite where chains would start, or if the budget ends before there is anything to judge.

    Notes
    -----
    The leapfrog has ε/2 for tan and x + εp for the turn. Both are reversible and keep volumes, so both draw from
    π whatever it is; a turn is exact for every Gaussian with covariance I (tan ε/2 makes it so for any mean), and then
    one of ε = π/2 gives an independent draw. On the posterior of 768 rows and 9 weights that took half of the passes;
    where posteriors are skewed, as on separated classes, it takes as many as the leapfrog.

    Examples
    --------
    >>> chains = hamiltonian_chains(np.random.default_rng(0), lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=3)
    >>> chains.converged, chains.points.shape
    (True, (64, 100, 3))
    """
    ensemble = _Ensemble(rng, density, dim, settings, report)
    ensemble.warm_up()
    size = wanted = max(settings.first_draws, math.ceil(draws / settings.chains))
    kept: list[_Draw] = []
    earlier: list[_Draw] = []
    while True:
        while len(kept) < size and ensemble.affords(ensemble.steps):
            kept.append(ensemble.draw())
        spent = len(kept) < size
        if len(kept) < FEWEST_DRAWS:
            kept = earlier  # the budget ended in another warm-up
        if not kept:
            raise InputError(
                f"max_passes={settings.max_passes} ran out in warm-up, before there were draws to judge. "
                "Allow some thousand passes."
            )
        points = np.stack([draw.z for draw in kept], axis=1)
        rhat, ess_bulk, ess_tail = convergence(points if judged is None else judged(points))
        good = bool((rhat < settings.rhat).all() and (np.minimum(ess_bulk, ess_tail) >= settings.ess).all())
        divergences = sum(draw.divergences for draw in kept)
        too_many_divergences = (
            divergences > settings.divergences * len(kept) * settings.chains and ensemble.can_raise_acceptance()
        )
        if spent or (good and not too_many_divergences):
            break
        if too_many_divergences or not rhat.max() <= settings.restart_rhat:
            if not ensemble.affords(2 * ensemble.steps * size):  # a new start would end with fewer draws
                break
            ensemble.warm_up(points.reshape(-1, dim), raise_acceptance=too_many_divergences)
            earlier, kept = kept, []
        if not too_many_divergences:
            size *= 2
    return Chains(
        points=points,
        log_density=np.stack([draw.log_density for draw in kept], axis=1),
        rhat=rhat,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        acceptance=float(np.mean([draw.acceptance for draw in kept])),
        divergences=divergences,
        exits=sum(draw.exits for draw in kept),
        step_size=ensemble.step_size,
        steps=ensemble.steps,
        passes=ensemble.passes,
        converged=good and not too_many_divergences and len(kept) >= wanted,
    )


class _State(NamedTuple):
    """The points of all chains, in inner coordinates."""

    x: Array  # (C, M)
    log_density: Array  # (C,), -inf for a chain that has left the domain
    force: Array  # (C, M), gradient + x: what N(0, I) leaves of it


class _Draw(NamedTuple):
    """One draw of every chain, in the caller's coordinates."""

    z: Array  # (C, M)
    log_density: Array  # (C,)
    acceptance: float  # mean over chains that stayed in the domain: no step size keeps the others there
    harmonic_acceptance: float
    divergences: int
    exits: int


class _Step(NamedTuple):
    """A point of a trajectory."""

    state: _State
    acceptance: Array  # (C,) probability, if the trajectory ended here
    diverged: Flags  # (C,) on the way here
    outside: Flags  # (C,) on the way here


class _Ensemble:
    """All chains: where they are, and how they move."""

    def __init__(
        self,
        rng: np.random.Generator,
        density: Density,
        dim: int,
        settings: ChainSettings,
        report: Callable[[int], None] | None,
    ):
        self.rng, self.density, self.settings, self.report = rng, density, settings, report
        self.passes, self.trajectories, self.acceptance = 0, 0, settings.acceptance
        self.mean: Array = np.zeros(dim)
        self.A: Array = np.eye(dim)
        self.step_size = FIRST_STEP
        self.steps = 1
        self.state = self._start(dim)

    def _start(self, dim: int) -> _State:
        x = self.settings.spread * self.rng.standard_normal((self.settings.chains, dim))
        for _ in range(START_HALVINGS):
            state = self._at(x)
            lost = np.isneginf(state.log_density)
            if not lost.any():
                return state
            x = np.where(lost[:, None], 0.5 * x, x)
        raise InputError(
            f"{lost.sum()} of {len(lost)} chains cannot start: the log density or its gradient is not finite near the "
            "center of the Gaussian approximation that they start from. Check the data and the prior for overflow."
        )

    def _outer(self, x: Array) -> Array:
        return self.mean + x @ self.A.T

    def affords(self, passes: int) -> bool:
        """True while the budget allows so many more."""
        return self.passes + passes <= self.settings.max_passes

    def _at(self, x: Array) -> _State:
        """One pass. A chain is lost, at a log density of -inf, where that or the gradient is not finite."""
        self.passes += 1
        log_density, gradient = self.density(self._outer(x))
        if self.report is not None:
            self.report(self.passes)
        lost = ~(np.isfinite(log_density) & np.isfinite(gradient).all(axis=1))
        if lost.any():
            log_density, gradient = np.where(lost, -np.inf, log_density), np.where(lost[:, None], 0.0, gradient)
        return _State(x, log_density, gradient @ self.A + x)

    def _trajectory(self, steps: int) -> Iterator[_Step]:
        """The points of a trajectory, as `hamiltonian_chains` has it; a chain that is lost comes to rest."""
        angle, state = self._next_step_size(), self.state
        cos, sin, tan = math.cos(angle), math.sin(angle), math.tan(0.5 * angle)
        p = self.rng.standard_normal(state.x.shape)
        before = state.log_density - 0.5 * (p**2).sum(axis=1)
        diverged, outside = np.zeros((2, len(p)), dtype=bool)
        for _ in range(steps):
            p = p + tan * state.force
            x, p = cos * state.x + sin * p, cos * p - sin * state.x
            state = self._at(x)
            p = p + tan * state.force
            after = state.log_density - 0.5 * (p**2).sum(axis=1)
            outside = outside | (np.isneginf(state.log_density) & ~diverged)
            diverged = diverged | (~(after > before - DIVERGENCE) & ~outside)
            lost = diverged | outside
            p = np.where(lost[:, None], 0.0, p)
            yield _Step(state, np.exp(np.where(lost, -np.inf, np.minimum(after - before, 0.0))), diverged, outside)

    def _next_step_size(self) -> float:
        """ε, varied in the order of Halton's sequence of base 2: the bits of a number read backwards."""
        self.trajectories += 1
        u = int(f"{self.trajectories:b}"[::-1], 2) / (1 << self.trajectories.bit_length())
        return float(self.step_size * (1.0 + self.settings.jitter * (2.0 * u - 1.0)))

    def draw(self) -> _Draw:
        """Move every chain to the end of a trajectory, or leave it where it is."""
        *_, end = self._trajectory(self.steps)
        self._accept(end)
        inside = end.acceptance[~end.outside]
        with np.errstate(divide="ignore"):
            harmonic = 1.0 / np.mean(1.0 / inside) if len(inside) else 0.0
        return _Draw(
            self._outer(self.state.x),
            self.state.log_density,
            float(inside.mean()) if len(inside) else 0.0,
            float(harmonic),
            int(np.count_nonzero(end.diverged)),
            int(np.count_nonzero(end.outside)),
        )

    def _accept(self, end: _Step) -> None:
        accepted, moved = self.rng.random(len(end.acceptance)) < end.acceptance, end.state
        self.state = _State(
            np.where(accepted[:, None], moved.x, self.state.x),
            np.where(accepted, moved.log_density, self.state.log_density),
            np.where(accepted[:, None], moved.force, self.state.force),
        )

    # --- warm-up --------------------------------------------------------------------------------------------

    def warm_up(self, draws: Array | None = None, raise_acceptance: bool = False) -> None:
        """Find coordinates, step size and length; from draws (N, M) in the caller's coordinates, if there are any."""
        if raise_acceptance:
            self.acceptance = 0.5 * (1.0 + self.acceptance)
        if draws is not None:
            self._whiten(draws)
        self._whiten(self._adapt_step_size(initial=True))
        self._whiten(self._adapt_step_size())  # better draws, better coordinates
        self._adapt_step_size()
        self._choose_length()

    def can_raise_acceptance(self) -> bool:
        """True while the step size may still be adapted to a higher acceptance."""
        return self.acceptance < self.settings.highest_acceptance

    def _whiten(self, draws: Array) -> None:
        z = self._outer(self.state.x)
        self.mean, self.A = draws.mean(axis=0), _root_of_covariance(draws)
        self.state = self._at(solve_triangular(self.A, (z - self.mean).T, lower=True).T)

    def _adapt_step_size(self, initial: bool = False) -> Array:
        r"""Adapt the step size to the wanted acceptance; the draws of the second half, (N, M).

        Dual averaging, with a the mean probability of acceptance of all chains (initially, while they come in from
        where they started, the harmonic mean, so that steps become as small as the farthest needs):

        .. math::
            \log ε_{t+1} = μ - \frac{\sqrt t}{γ(t + t_0)} \sum_{s ≤ t} (a_* - a_s), \qquad
            \log \bar ε_{t+1} = t^{-κ} \log ε_{t+1} + (1 - t^{-κ}) \log \bar ε_t

        Trajectories last a quarter of the period of N(0, I), and a step at most that.
        """
        center, missing, log_average = math.log(2.0 * self.step_size), 0.0, math.log(self.step_size)
        smallest, longest = QUARTER_PERIOD / self.settings.longest, INITIAL_STEPS if initial else self.settings.longest
        seen = [self._outer(self.state.x)]
        for t in range(1, self.settings.adaptation_draws + 1):
            self.steps = min(max(1, round(QUARTER_PERIOD / self.step_size)), longest)
            if not self.affords(self.steps):
                break
            drawn = self.draw()
            seen.append(drawn.z)
            missing += self.acceptance - (drawn.harmonic_acceptance if initial else drawn.acceptance)
            log_step = max(center - math.sqrt(t) / GAMMA * missing / (t + T0), math.log(smallest))
            log_average += t**-KAPPA * (log_step - log_average)
            self.step_size = min(math.exp(log_step), QUARTER_PERIOD)
        self.step_size = FIRST_STEP if initial else min(math.exp(log_average), QUARTER_PERIOD)
        return np.concatenate(seen[len(seen) // 2 :])

    def _choose_length(self) -> None:
        r"""Take the length of trajectories that gives most independent draws for its passes.

        A trajectory passes all shorter ones on its way. With the probability :math:`a_l` of acceptance after l steps,

        .. math:: ρ(l) = 1 - \frac{\mathrm{E}[a_l (h(x_l) - h(x_0))^2]}{2 \operatorname{Var} h(x_0)}

        is the correlation of successive values of h, and a draw is worth (1 - ρ)/(1 + ρ) independent ones. For h stand
        all coordinates and, as in the criterion of Hoffman et al. 2021, their squares; the slowest
        counts. To l passes two are added, for the time that drawing momenta and judging draws take.
        """
        size = math.ceil(FARTHEST_TRIED * QUARTER_PERIOD / self.step_size)
        while size <= self.settings.longest and self.affords(2 * self.settings.trials * size):
            slowest = self._correlations(size).max(axis=1)
            worth = (1.0 - slowest) / (1.0 + slowest) / np.arange(3, size + 3)
            self.steps = 1 + int(worth.argmax())
            if self.steps < INSIDE * size:
                break
            size *= 2

    def _correlations(self, size: int) -> Array:
        """ρ after 1 … size steps, for all coordinates and their squares, (size, 2M)."""

        def functions(x: Array) -> Array:
            return np.hstack([x, x**2])

        squared_jumps, starts = np.zeros((size, 2 * len(self.mean))), []
        for _ in range(self.settings.trials):
            starts.append(functions(self.state.x))
            for i, step in enumerate(self._trajectory(size)):
                moved = np.where(step.acceptance[:, None] > 0, functions(step.state.x), starts[-1])
                squared_jumps[i] += step.acceptance @ (moved - starts[-1]) ** 2
            self._accept(step)
        h = np.concatenate(starts)
        return np.asarray(1.0 - squared_jumps / len(h) / (2.0 * h.var(axis=0)))


def shrunk_covariance(draws: Array) -> Array:
    r"""The covariance of draws (N, M), shrunk towards I by as much as its noise calls for.

    .. math::
        (1 - λ) S + λ I, \qquad λ = \min\Bigl(1, \sum_{ij} \widehat{\operatorname{Var}} S_{ij} / \|S - I\|^2\Bigr)

    The caller's Gaussian, which is I here, is kept where draws do not know better.

    References
    ----------
    Ledoit & Wolf 2004, A well-conditioned estimator for large-dimensional covariance matrices (sec. 3, with I for μI).
    """
    N, M = draws.shape
    x = draws - draws.mean(axis=0)
    S = x.T @ x / N
    noise = (((x**2).sum(axis=1) ** 2).mean() - (S**2).sum()) / N
    share = min(1.0, noise / ((S - np.eye(M)) ** 2).sum())
    return np.asarray((1.0 - share) * S + share * np.eye(M))


def _root_of_covariance(draws: Array) -> Array:
    return PSD.of(shrunk_covariance(draws), "the covariance of the draws").factor


# --- How good draws are -------------------------------------------------------------------------------------


class Convergence(NamedTuple):
    """Agreement of chains, and the number of independent draws that theirs are worth, for each coordinate."""

    rhat: Array  # (M,)
    ess_bulk: Array  # (M,)
    ess_tail: Array  # (M,)


def convergence(points: Array) -> Convergence:
    """Rank-normalized split R-hat, bulk and tail effective sample size of draws (C, S, M).

    R-hat is the larger of those of the draws and of their distances to the median. Tail ESS is the smaller of those
    of the 5 % and the 95 % quantile. NaN where a coordinate never moves.

    Notes
    -----
    arviz-stats gives the same numbers, in four times the time, after an import that takes longer than most chains.

    References
    ----------
    Vehtari et al. 2021, sec. 3–4.
    """
    n = points.shape[1] // 2
    halves = np.concatenate([points[:, :n], points[:, -n:]])
    N = len(halves) * n
    table = ndtri((np.arange(2, 2 * N + 1) / 2 - 0.375) / (N + 0.25))  # the normal scores of ranks 1, 1½, 2, … N
    columns = [_column_convergence(halves[:, :, j].copy(), table) for j in range(points.shape[2])]
    return Convergence(*np.array(columns).T)


def _column_convergence(x: Array, table: Array) -> tuple[float, float, float]:
    """R-hat, bulk and tail ESS of one coordinate of half chains (H, n)."""
    order = x.ravel().argsort()
    ordered = x.ravel()[order]
    scores = _normal_scores(order, ordered, table).reshape(x.shape)
    distances = np.abs(x - np.median(ordered)).ravel()
    by_distance = distances.argsort()
    folded = _normal_scores(by_distance, distances[by_distance], table).reshape(x.shape)
    tail = min(effective_size((x <= q).astype(float)) for q in np.quantile(ordered, (0.05, 0.95)))
    return max(_rhat(scores), _rhat(folded)), effective_size(scores), tail


def _normal_scores(order: Codes, ordered: Array, table: Array) -> Array:
    """The scores of all draws; equal ones, as rejections leave them, share that of their mean rank."""
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(starts, len(ordered)))
    scores = np.empty(len(ordered))
    scores[order] = np.repeat(table[2 * starts + counts - 1], counts)
    return scores


def _rhat(x: Array) -> float:
    """√((n-1)/n + B/(nW)) of half chains (H, n): B/n is the variance of their means, W the mean of their variances."""
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    return math.sqrt((n - 1) / n + x.mean(axis=1).var(ddof=1) / within) if within > 0 else math.nan


def effective_size(x: Array) -> float:
    r"""The number of independent draws that give a mean as good as that of half chains (H, n).

    .. math:: Hn / \Bigl(-1 + 2 \sum_k (\hat ρ_{2k} + \hat ρ_{2k+1})\Bigr)

    with Geyer's initial monotone sequence: pairs up to the first that is not positive, none larger than one before.
    """
    H, n = x.shape
    means, size = x.mean(axis=1), next_fast_len(2 * n, real=True)
    spectrum = rfft(x - means[:, None], size, axis=1)
    covariance = irfft((spectrum.real**2 + spectrum.imag**2).mean(axis=0), size)[:n] / n  # at lags 0, 1, … n - 1
    total = covariance[0] + means.var(ddof=1)
    if not total > 0:
        return math.nan
    rho = 1.0 - (covariance[0] * n / (n - 1) - covariance) / total
    rho[0] = 1.0
    pairs = rho[: 2 * ((n - 1) // 2)].reshape(-1, 2)
    sums = pairs.sum(axis=1)
    positive = int(np.append(sums[:-1] <= 0, True).argmax())  # how many pairs come before the first that is not
    tau = -1.0 + 2.0 * np.minimum.accumulate(sums[:positive]).sum() + max(pairs[positive, 0], 0.0)
    return float(H * n / max(tau, 1.0 / math.log10(H * n)))  # the bound of Vehtari et al. for alternating draws


# --- The normalizing constant -------------------------------------------------------------------------------


class LogNormalizer(NamedTuple):
    """log ∫ exp(log density), and its standard error."""

    value: float
    se: float


def bridge_log_normalizer(rng: np.random.Generator, density: Density, chains: Chains) -> LogNormalizer:
    r"""The logarithm of the integral of the density, by bridge sampling to a Gaussian.

    For any function h of a point, and a density g that is known,

    .. math:: Z = \int e^{\log π} = \mathrm{E}_g[h e^{\log π}] / \mathrm{E}_π[h g].

    The best h is :math:`1/(s_1 e^{\log π} + s_2 Z g)`, with shares s of independent draws from both, so Z is the fixed
    point of that. g is a Gaussian with the moments of half of the chains, and meets the draws of the other half; then
    the halves change places, and the two results are averaged.

    Returns
    -------
    LogNormalizer
        The standard error is that of Frühwirth-Schnatter (2004, eq. 16), with the effective number of draws.

    References
    ----------
    Meng & Wong 1996, eq. 4.1; Gronau et al. 2017, A tutorial on bridge sampling, eq. 15.
    """
    halves = [slice(0, None, 2), slice(1, None, 2)]
    results = [_bridge(rng, density, chains, fitted, met) for fitted, met in (halves, halves[::-1])]
    return LogNormalizer(
        sum(result.value for result in results) / 2, math.sqrt(sum(result.se**2 for result in results)) / 2
    )


def _bridge(rng: np.random.Generator, density: Density, chains: Chains, fitted: slice, met: slice) -> LogNormalizer:
    C, S, M = chains.points.shape
    draws = chains.points[fitted].reshape(-1, M)
    mean, L = draws.mean(axis=0), _root_of_covariance(draws)
    log_factor = -0.5 * M * math.log(2.0 * math.pi) - np.log(np.diag(L)).sum()

    posterior = chains.points[met]
    u = solve_triangular(L, (posterior.reshape(-1, M) - mean).T, lower=True)
    log_ratio = chains.log_density[met] - (log_factor - 0.5 * (u**2).sum(axis=0)).reshape(posterior.shape[:2])
    normal = rng.standard_normal((C * max(1, log_ratio.size // C), M))
    log_target = np.concatenate([density(mean + e @ L.T)[0] for e in np.split(normal, len(normal) // C)])
    log_target = np.where(np.isfinite(log_target), log_target, -np.inf)  # outside the domain
    log_ratio_normal = log_target - (log_factor - 0.5 * (normal**2).sum(axis=1))

    n = S // 2
    effective = effective_size(np.concatenate([log_ratio[:, :n], log_ratio[:, -n:]]))
    log_s1, log_s2 = np.log([effective, len(normal)]) - math.log(effective + len(normal))
    log_z = float(np.median(log_ratio))
    for _ in range(BRIDGE_STEPS):
        # With the density divided by Z: under the Gaussian π/(s₁π + s₂g), under the posterior g/(s₁π + s₂g).
        log_f1 = -np.logaddexp(log_s1, log_s2 - (log_ratio_normal - log_z))
        log_f2 = -np.logaddexp(log_s1 + (log_ratio - log_z), log_s2)
        step = float(_log_mean(log_f1) - _log_mean(log_f2.ravel()))
        log_z += step
        if abs(step) < BRIDGE_TOLERANCE:
            break
    f1, f2 = np.exp(log_f1), np.exp(log_f2)
    effective = effective_size(np.concatenate([f2[:, :n], f2[:, -n:]]))
    return LogNormalizer(log_z, math.sqrt(f1.var() / f1.mean() ** 2 / len(f1) + f2.var() / f2.mean() ** 2 / effective))


def _log_mean(log_values: Array) -> Array:
    return log_sum_exp(log_values) - math.log(len(log_values))
