"""Bounded coordinates as functions of unbounded ones, with the volume they bring.

Notation
--------
======  ======================================================  ====
z       the bounded coordinate, lower < z < upper               (M,)
u       the unbounded one: z, log(z - lower), log(upper - z),   (M,)
        or logit((z - lower) / (upper - lower))
J       Π |dz_j / du_j|                                         scalar
======  ======================================================  ====
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property


class Slopes(NamedTuple):
    """Derivatives of z and log J with respect to u, all (M,): no coordinate depends on another."""

    z: Array  # dz/du
    z_twice: Array  # d²z/du²
    log_jacobian: Array
    log_jacobian_twice: Array


@dataclass(frozen=True)
class Box:
    """lower < z < upper, coordinate by coordinate; infinite where there is no bound.

    Every function takes one point (M,) or several (…, M). `bounded` and `log_jacobian` also take complex points, and
    are analytic.

    Examples
    --------
    >>> box = Box(np.array([-np.inf, 0.0, 0.0]), np.array([np.inf, np.inf, 2.0]))
    >>> box.free(np.array([3.0, 1.0, 1.0]))
    array([3., 0., 0.])
    >>> box.bounded(np.array([3.0, 0.0, 0.0]))
    array([3., 1., 1.])
    >>> round(float(box.log_jacobian(np.array([3.0, 0.0, 0.0]))), 4)  # 1 · 1 · (2 · ½ · ½)
    -0.6931
    """

    lower: Array
    upper: Array

    @cached_property
    def _kinds(self) -> tuple[Any, Any, Any]:
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        return low & ~high, ~low & high, low & high

    @cached_property
    def everywhere(self) -> bool:
        """True where there are no bounds at all, so that u is z."""
        return not np.any(self._kinds)

    @cached_property
    def names(self) -> list[str]:
        """Of the unbounded coordinates: z[0], log z[1], logit z[2]."""
        low, high, both = self._kinds
        words = np.select([low | high, both], ["log ", "logit "], "")
        return [f"{word}z[{j}]" for j, word in enumerate(words)]

    def free(self, z: Array) -> Array:
        """u of points inside."""
        low, high, both = self._kinds
        u = np.array(z, dtype=float)
        u[..., low] = np.log(z[..., low] - self.lower[low])
        u[..., high] = np.log(self.upper[high] - z[..., high])
        u[..., both] = np.log(z[..., both] - self.lower[both]) - np.log(self.upper[both] - z[..., both])
        return u

    def bounded(self, u: Any) -> Any:
        """z of any points, always a new array."""
        z = np.array(u)
        if self.everywhere:
            return z
        low, high, both = self._kinds
        z[..., low] = self.lower[low] + np.exp(u[..., low])
        z[..., high] = self.upper[high] - np.exp(u[..., high])
        p, q, _ = _sigmoids(u[..., both])
        width = self.upper[both] - self.lower[both]
        # measured from the nearer end, where differences are exact
        z[..., both] = np.where(np.real(p) < 0.5, self.lower[both] + width * p, self.upper[both] - width * q)
        return z

    def log_jacobian(self, u: Any) -> Any:
        """log J at any points."""
        if self.everywhere:
            return np.zeros(u.shape[:-1])
        low, high, both = self._kinds
        widths = np.log(self.upper[both] - self.lower[both]).sum()
        return u[..., low | high].sum(axis=-1) + _sigmoids(u[..., both]).log_product.sum(axis=-1) + widths

    def slopes(self, u: Array) -> Slopes:
        """Derivatives at one point, for the chain rule."""
        low, high, both = self._kinds
        p, q, _ = _sigmoids(u[both])
        one, two, volume, volume_twice = np.ones_like(u), np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
        one[low] = two[low] = np.exp(u[low])
        one[high] = two[high] = -np.exp(u[high])
        one[both] = (self.upper[both] - self.lower[both]) * p * q
        two[both] = one[both] * (q - p)
        volume[low | high] = 1.0
        volume[both], volume_twice[both] = q - p, -2 * p * q
        return Slopes(one, two, volume, volume_twice)

    def contains(self, z: Array) -> Any:
        """True for points strictly inside."""
        return ((z > self.lower) & (z < self.upper)).all(axis=-1)


class _Sigmoids(NamedTuple):
    p: Any  # 1 / (1 + exp(-u))
    q: Any  # 1 - p
    log_product: Any  # log p + log q


def _sigmoids(u: Any) -> _Sigmoids:
    sign = np.where(np.real(u) >= 0, 1.0, -1.0)
    t = np.exp(-sign * u)  # never overflows
    near, far = 1 / (1 + t), t / (1 + t)
    return _Sigmoids(np.where(sign > 0, near, far), np.where(sign > 0, far, near), -sign * u - 2 * np.log1p(t))
