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
CHOOSING, MEASURING = slice(0, None, 2), slice(1, None, 2)  # of the checked rows


class Checks(NamedTuple):
    """Some rows whose variances are known, as if each were new: without its own curvature and that of its copies.

    Every other one serves to choose the posterior, and the rest to say how good it is.
    """

    rows: Array  # x, whitened: (m, D)
    curvature: Array  # of every score in its row and all copies of it, (m, K)
    variance: Array  # exact, of what is determined of the scores, without that curvature: (m,)
    anchored: Array  # what of the scores' variances goes with the anchors, exact, without that curvature: (m, K)


class Known(NamedTuple):
    """Projections of x, and their exact covariances with it."""

    ends: Array  # E, (M, m)
    exact: Array  # F, (M, m)


def every_class(rows: Array, K: int) -> Array:
    """Rows (m, D) as vectors (m·K, K·D), one for the score of every class."""
    return np.asarray(np.einsum("md,kl->mkld", rows, np.eye(K))).reshape(len(rows) * K, -1)


def determined(own: Array) -> Array:
    """Total variance of the scores (m, K) of each row, less their mean over classes, which changes no probability."""
    return np.asarray(own[:, 0] if own.shape[1] == 1 else own[:, 1:].sum(axis=1))


class Found(NamedTuple):
    """A diagonal and directions."""

    diagonal: Array  # Δ, (K, D)
    directions: Array  # S, (K, D, r)
    anchors: Anchors
    chosen_error: float  # of the variances of the rows that it was chosen by
    error: float  # of the others'


def directions(
    H: Array, apply: Callable[[Array], Array], checks: Checks, known: Known, rng: np.random.Generator
) -> Found:
    """Add directions until the variances of the checked rows are good enough, or no better."""
    best = _balanced(H, np.zeros((1, H.size)), checks, known)
    krylov, idle = Lanczos(apply, rng.standard_normal(H.size)), 0
    while best.chosen_error > VARIANCE_GOAL and len(krylov.diagonal) < min(MOST_STEPS, H.size):
        krylov.extend(min(CHUNK, H.size - len(krylov.diagonal)))
        values, vectors = krylov.pairs()
        large = values > 1  # their mean, so that what is left has less
        bulk = (H.size - values[large].sum()) / (H.size - large.sum())  # mean of the other eigenvalues: tr A = M
        V = np.sqrt(values[large] - bulk)[:, None] * vectors[large] * np.sqrt(1 + H).reshape(-1)
        found = _balanced(H, V, checks, known)
        idle = 0 if found.chosen_error < WORTH * best.chosen_error else idle + 1
        if found.chosen_error < best.chosen_error:
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

    def bias(share: float) -> float:
        return float(log_ratio(share)[CHOOSING].mean())

    share = 1.0
    if bias(1.0) < 0:  # the variances are too small
        share = LEAST_SHARE
        if bias(LEAST_SHARE) > 0:
            share = float(brentq(bias, LEAST_SHARE, 1.0, xtol=1e-3))
    errors = np.expm1(log_ratio(share)) ** 2
    chosen_error, error = (float(np.sqrt(np.mean(errors[part]))) for part in (CHOOSING, MEASURING))
    held = Held.of(1 + share * rest, V)
    S = np.moveaxis((V / np.sqrt(held.diagonal).reshape(-1)).reshape(-1, *H.shape), 0, 2)
    return Found(held.diagonal, S, Anchors.of(known.ends, held.times(known.ends), known.exact), chosen_error, error)


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


def _left_out(held: Held, share: Array, checks: Checks, known: Known) -> Array:
    """Variances of the checked rows' scores, anchors put into B, without the part of Δ that a row and its copies have.

    `share` (K, D) is how much of the diagonal of H is in Δ: as much of what they add to it, e. Without directions the
    variance is then Σz²/(Δ - e), which is more than Σz²/Δ by Σ eΔ/(Δ - e) (z/Δ)²; with them Bz is in the place of z/Δ,
    which is right to first order in e. (To the anchors every row adds little: they are what many rows have in common.)
    """
    (K, D), m = held.diagonal.shape, len(checks.rows)
    Bz = held.times(every_class(checks.rows, K).T).T.reshape(m, K, K, D)
    e = share * checks.curvature[:, :, None] * checks.rows[:, None] ** 2  # at most Δ - 1: H has it in its sum
    gain = e * held.diagonal / (held.diagonal - e)
    own = np.einsum("md,mkkd->mk", checks.rows, Bz) + np.einsum("mkld,mkld,mld->mk", Bz, Bz, gain)
    a = Anchors.of(known.ends, held.times(known.ends), known.exact).held.reshape(K, D, -1)
    along = np.einsum("nd,kdm->nkm", checks.rows, a)
    return determined(own + checks.anchored - (along**2).sum(axis=2))
