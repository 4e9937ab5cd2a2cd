"""Directions of largest curvature, by Lanczos: as many as predictive variances need, and a diagonal for the rest.

Notation as in `wide` and in `numerics.anchors`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from credibly.numerics.anchors import Anchors
from credibly.numerics.arrays import Array
from credibly.numerics.lanczos import Lanczos
from credibly.numerics.linalg import PSD

VARIANCE_GOAL = 0.05  # relative error of predictive variances, root mean square
CHUNK, MOST_STEPS = 32, 256  # of Lanczos
WORTH, PATIENCE = 0.9, 2  # chunks in a row that do not lower the error by that factor are the last
LEAST_SHARE = 1e-3  # of the diagonal of the curvature


class Checks(NamedTuple):
    """Some rows whose variances are known, as if each were new."""

    rows: Array  # x, whitened: (m, D)
    curvature: Array  # of every score in its row, (m, K)
    variance: Array  # exact, of what is determined of the scores, without the row's own curvature: (m,)
    anchored: Array  # what of the scores' covariance goes with the anchors, exact, without that curvature: (m, K, K)


class Known(NamedTuple):
    """Projections of x, and their exact covariances with it."""

    ends: Array  # E, (M, m)
    exact: Array  # F, (M, m)


def determined(cov: Array) -> Array:
    """Total variance of the scores of each row, less their mean over classes, which changes no probability."""
    own = np.einsum("mkk->mk", cov)
    return np.asarray(own[:, 0] if own.shape[1] == 1 else own[:, 1:].sum(axis=1))


class Found(NamedTuple):
    """A diagonal and directions."""

    diagonal: Array  # Δ, (K, D)
    directions: Array  # S, (K, D, r)
    anchors: Anchors
    error: float


def directions(
    H: Array, apply: Callable[[Array], Array], checks: Checks, known: Known, rng: np.random.Generator
) -> Found:
    """Add directions until the variances of the checked rows are good enough, or no better."""
    best = _balanced(H, np.zeros((1, H.size)), checks, known)
    krylov, idle = Lanczos(apply, rng.standard_normal(H.size)), 0
    while best.error > VARIANCE_GOAL and len(krylov.diagonal) < min(MOST_STEPS, H.size):
        krylov.extend(min(CHUNK, H.size - len(krylov.diagonal)))
        values, vectors = krylov.pairs()
        large = values > 1  # their mean, so that what is left has less
        bulk = (H.size - values[large].sum()) / (H.size - large.sum())  # mean of the other eigenvalues: tr A = M
        V = np.sqrt(values[large] - bulk)[:, None] * vectors[large] * np.sqrt(1 + H).reshape(-1)
        found = _balanced(H, V, checks, known)
        idle = 0 if found.error < WORTH * best.error else idle + 1
        if found.error < best.error:
            best = found
        if idle == PATIENCE:
            break
    return best


def _balanced(H: Array, V: Array, checks: Checks, known: Known) -> Found:
    """Δ for directions V (r, M) of I + H: the rest of the diagonal of H, by the share that makes checked rows right."""
    from scipy.optimize import brentq

    # Data add to the prior's precision, so that Δ ≥ 1. A direction that Lanczos has not quite found may hold more of a
    # weight than the diagonal of H: then nothing is left to add, and what that does to variances is in the error.
    rest = np.maximum(H - (V**2).sum(axis=0).reshape(H.shape), 0.0)
    part = rest / np.where(H > 0, H, 1.0)

    def log_ratio(share: float) -> Array:
        held = Held.of(1 + share * rest, V)
        return np.log(_left_out(held, share * part, checks, known) / checks.variance)

    share = 1.0
    if log_ratio(1.0).mean() < 0 < log_ratio(LEAST_SHARE).mean():
        share = float(brentq(lambda s: log_ratio(s).mean(), LEAST_SHARE, 1.0, xtol=1e-3))
    error = float(np.sqrt(np.mean(np.expm1(log_ratio(share)) ** 2)))
    held = Held.of(1 + share * rest, V)
    S = np.moveaxis((V / np.sqrt(held.diagonal).reshape(-1)).reshape(-1, *H.shape), 0, 2)
    return Found(held.diagonal, S, Anchors.of(known.ends, held.times(known.ends), known.exact), error)


class Held(NamedTuple):
    """B = (Δ + VᵀV)⁻¹ for directions V (r, M)."""

    diagonal: Array  # Δ, (K, D)
    V: Array
    core: PSD  # I + V Δ⁻¹ Vᵀ

    @classmethod
    def of(cls, diagonal: Array, V: Array) -> "Held":
        """Factorise."""
        core = PSD.of((V / diagonal.reshape(-1)) @ V.T + np.eye(len(V)), "the low-rank core")
        return cls(diagonal, V, core)

    def times(self, E: Array) -> Array:
        """B E for columns E (M, m)."""
        alone = E / self.diagonal.reshape(-1, 1)
        along = self.core.solve(self.V @ alone)
        return np.asarray(alone - (self.V.T @ along) / self.diagonal.reshape(-1, 1))

    def explained(self, rows: Array) -> Array:
        """What the directions take off the covariance of every row's scores under Δ alone, (m, K, K)."""
        r, V = len(self.V), self.V.reshape(-1, *self.diagonal.shape)
        spread = np.einsum("rkd,md->rmk", V / self.diagonal, rows, optimize=True)
        white = self.core.half_solve(spread.reshape(r, -1)).reshape(spread.shape)
        return np.asarray(np.einsum("rmk,rml->mkl", white, white))


def _left_out(held: Held, share: Array, checks: Checks, known: Known) -> Array:
    """Variances of the checked rows' scores, anchors put into B, without a row's own part of Δ.

    `share` (K, D) is how much of the diagonal of H is in Δ: as much of what the row adds to it. (To the anchors every
    row adds little: they are what many rows have in common.)
    """
    cov, squares = checks.anchored - held.explained(checks.rows), checks.rows**2
    for k, own in enumerate(held.diagonal):
        alone = own - share[k] * checks.curvature[:, [k]] * squares  # at least 1: H has the row's part in its sum
        cov[:, k, k] += (squares / alone).sum(axis=1)
    a = Anchors.of(known.ends, held.times(known.ends), known.exact).held.reshape(*held.diagonal.shape, -1)
    along = np.einsum("nd,kdm->nkm", checks.rows, a)
    return determined(cov - along @ np.swapaxes(along, 1, 2))
