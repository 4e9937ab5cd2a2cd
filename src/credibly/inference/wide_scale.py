r"""The prior scale of very many slopes: where the evidence no longer rises, traces by random probes.

With whitened slopes x and q = (I + H)⁻¹x, along which the mode moves with the scale,

.. math:: d \log Z / dθ = |x|^2 + \operatorname{tr} (I + H)^{-1} - M - \operatorname{tr} \{(I + H)^{-1} dH[q]\},

the first three over slopes only. Probes b of independent signs give both traces, as means of bᵀ(I + H)⁻¹b and of
bᵀ(I + H)⁻¹ dH[q] b; the same probes at every scale, so that the slope is a smooth function of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from credibly.inference.curvature import RowPasses, curvature_moves
from credibly.inference.laplace import Controls
from credibly.inference.preconditioner import preconditioner, solved
from credibly.inference.scale_search import LOG_BOUNDS
from credibly.inference.wide import SEED, VARIANCE_TOL, WideMode, n_probes, wide_mode
from credibly.inference.wide_prior import WidePrior

MOST_SCALES = 20
SETTLED = 1e-3  # in log scale: a thousandth of a scale moves no prediction
LONGEST_STEP = 1.5  # in log scale


class FoundScale(NamedTuple):
    """A scale, and the mode there."""

    theta: float
    passes: RowPasses
    mode: WideMode
    settled: bool


def scale_of(passes: RowPasses, prior_at: Callable[[float], WidePrior], controls: Controls) -> FoundScale:
    """The scale at which the evidence no longer rises, by MacKay's fixed point and then secants of its slope.

    Parameters
    ----------
    passes : RowPasses
    prior_at : function of the log scale θ
    controls : Controls
        Of the search for every mode.
    """
    theta, x = -0.5 * float(np.log(passes.shape[1])), np.zeros(passes.shape)
    seen: list[tuple[float, float, float]] = []
    for _ in range(MOST_SCALES):
        here = passes.with_prior(prior_at(theta))
        mode = wide_mode(here, x, controls)
        squares, determined = _parts_of_slope(here, mode)
        step = _step([*seen, (theta, squares, determined)])
        target = float(np.clip(theta + step, *LOG_BOUNDS))
        if abs(target - theta) < SETTLED:
            return FoundScale(theta, here, mode, settled=True)
        seen.append((theta, squares, determined))
        last = FoundScale(theta, here, mode, settled=False)
        x = here.prior.arrow.solve(mode.x)  # the same weights, whitened by the next prior
        x = prior_at(target).arrow.times(x)
        theta = target
    return last


def _parts_of_slope(passes: RowPasses, mode: WideMode) -> tuple[float, float]:
    """|x|², and what it must be for the evidence not to rise: mostly the number of slopes that the data determine."""
    K, D = passes.shape
    d, m = passes.frame.scale.size, n_probes(K * D)
    probes = np.random.default_rng(SEED).choice([-1.0, 1.0], (m, K, D))
    slopes = mode.x.copy()
    slopes[:, d:] = 0.0
    b = np.concatenate([probes.reshape(m, -1), slopes.reshape(1, -1)])
    near = preconditioner(passes, mode.at, mode.diagonal)
    found = solved(passes, mode.at, near, b, VARIANCE_TOL).x.reshape(-1, K, D)
    moved = passes.directions(found[m])
    pairs = np.zeros((len(moved), K, K))
    for probe, against in zip(probes, found[:m], strict=True):
        pairs += np.einsum("nk,nl->nkl", passes.directions(probe), passes.directions(against)) / m
    bend = curvature_moves(passes, mode.at, mode.f, moved, 0.5 * (pairs + np.swapaxes(pairs, 1, 2)))
    left = float((probes[:, :, :d] * found[:m, :, :d]).sum() / m)
    return float((slopes**2).sum()), K * d - left + bend


def _step(seen: list[tuple[float, float, float]]) -> float:
    """The next step in θ, from (θ, |x|², γ) of the scales tried; the evidence rises with |x|² - γ."""
    theta, squares, gamma = seen[-1]
    step = 0.5 * float(np.log(max(squares, np.finfo(float).tiny) / gamma))  # MacKay: s² ← s² |x|²/γ
    if len(seen) > 1:
        # The fixed point creeps; its logarithm is nearly linear in θ, so that a secant of it lands near the root. Where
        # it does not fall with θ the root would be a minimum: the maximum is far off, on the side that it points to.
        before, other, determined = seen[-2]
        last = 0.5 * float(np.log(max(other, np.finfo(float).tiny) / determined))
        fall = (last - step) / (theta - before)
        step = step / fall if fall > 0 else float(np.sign(step)) * LONGEST_STEP
    return float(np.clip(step, -LONGEST_STEP, LONGEST_STEP))
