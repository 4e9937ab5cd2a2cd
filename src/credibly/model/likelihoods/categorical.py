"""Softmax: the likelihood with one latent score per class."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from credibly.model.likelihoods.base import Averaged
from credibly.numerics import softmax_averages
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.softmax_averages import POINTS
from credibly.numerics.special import log_softmax


class CategoricalExpansion(NamedTuple):
    """log p(y | f), its gradient, and the probabilities that its curvature diag(p) - ppᵀ is made of."""

    log_prob: Array  # (n,)
    grad: Array  # (n, K)
    proba: Array  # (n, K)


@dataclass(frozen=True)
class Categorical:
    r"""K classes with one score each, softmax link; the class axis is the last one.

    .. math:: p(y = k \mid f) = e^{f_k} / \textstyle\sum_j e^{f_j}

    Adding a constant to all scores of a row changes nothing, so the joint curvature of all K weight vectors is always
    singular: a prior, or the sum-to-zero convention, makes them unique.

    References
    ----------
    PRML eq. 4.104–4.110, with dy_k/da_j = y_k(δ_kj - y_j) and a positive Hessian (E-2, E-3 of docs/theory.md).

    Examples
    --------
    >>> Categorical(3).mean(np.zeros(3))
    array([0.33333333, 0.33333333, 0.33333333])
    """

    n_classes: int

    log_concave: ClassVar[bool] = True
    two_labels: ClassVar[bool] = False

    def log_prob(self, y: Codes, f: Array) -> Array:
        """log p(y | f); y (n,), f (n, K)."""
        return np.take_along_axis(log_softmax(f), np.asarray(y)[..., None], axis=-1)[..., 0]

    def mean(self, f: Array) -> Array:
        """Class probabilities, of the shape of f."""
        return np.exp(log_softmax(f))

    def grad(self, y: Codes, f: Array) -> Array:
        """The gradient 1[y = k] - p_k alone."""
        proba = np.exp(f - f.max(axis=-1, keepdims=True))
        proba /= proba.sum(axis=-1, keepdims=True)
        grad: Array = -proba
        label = np.asarray(y)[..., None]
        np.put_along_axis(grad, label, 0.0, axis=-1)
        np.put_along_axis(grad, label, -grad.sum(axis=-1, keepdims=True), axis=-1)  # 1 - p_y, which would cancel
        return grad

    def expand(self, y: Codes, f: Array) -> CategoricalExpansion:
        """log p(y | f), its gradient 1[y = k] - p_k, and p."""
        log_proba = log_softmax(f)
        y = np.asarray(y)[..., None]
        log_prob = np.take_along_axis(log_proba, y, axis=-1)[..., 0]
        proba = np.exp(log_proba)
        grad = -proba
        # 1 - p_y without the subtraction that loses a probability near one
        np.put_along_axis(grad, y, -np.expm1(log_prob)[..., None], axis=-1)
        return CategoricalExpansion(log_prob, grad, proba)

    def curvature(self, proba: Array) -> Array:
        """-∇∇ log p = diag(p) - ppᵀ, (n, K, K); the same for every y."""
        return _with_zero_sums(-proba[..., :, None] * proba[..., None, :])

    def curvature_slope(self, proba: Array, V: Array) -> Array:
        r"""∂/∂f_k of tr(V (diag(p) - ppᵀ)), (n, K).

        .. math:: p_k (V_{kk} - \textstyle\sum_a p_a V_{aa} - 2 (Vp)_k + 2 p^T V p)
        """
        diagonal: Array = np.einsum("...kk->...k", V)
        Vp = np.einsum("...kj,...j->...k", V, proba)
        inner: Array = diagonal - 2 * Vp
        return np.asarray(proba * (inner - (proba * inner).sum(axis=-1, keepdims=True)))

    def log_average(self, m: Array, V: Array) -> Array:
        """log E[softmax(f)], f ~ N(m, V): (n, K); the errors are those of `numerics.softmax_averages`."""
        return softmax_averages.log_softmax(m, V)

    def averaged(self, y: Codes, m: Array, V: Array, points: int = POINTS) -> Averaged:
        r"""Averages of log p(y | f), its gradient (n, K) and its curvature (n, K, K), f ~ N(m, V).

        .. math:: \nabla_m E[\log p] = E[\mathrm{grad}], \qquad 2 \nabla_V E[\log p] = -E[\mathrm{curvature}]

        The errors, and the points, are those of `softmax_averages.softplus_of_others`.
        """
        value, gradient, hessian = softmax_averages.softplus_of_others(np.asarray(y), m, V, points=points)
        return Averaged(-value, -gradient, hessian)


def _with_zero_sums(W: Array) -> Array:
    """W with the diagonal that makes rows sum to zero: p_k(1 − p_k) as p_k Σ_{j≠k} p_j, where nothing cancels."""
    k = np.arange(W.shape[-1])
    W[..., k, k] = 0.0
    W[..., k, k] = -W.sum(axis=-1)
    return W
