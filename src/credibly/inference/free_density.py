"""A log density in unbounded coordinates: what it returns is checked, and its derivatives are had one way or another.

They are given, or taken by complex steps where the function allows those, or by differences of values.
Symbols as in mode_search.py.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.numerics import differences as d
from credibly.numerics.arrays import Array
from credibly.numerics.transforms import Box

AGREES = 1e-4  # given derivatives and differences; those err by 1e-8 at most unless values are very noisy


class Derivatives(NamedTuple):
    """Slopes and bends along a frame; `change`: what the last refinement of the bends changed."""

    grad: Array
    hessian: Array
    change: float


@dataclass(frozen=True)
class Target:
    """log f(z(u)) + log |dz/du|, and how its derivatives are had."""

    log_density: Callable[[Any], Any]
    grad: Callable[[Array], Any] | None
    hess: Callable[[Array], Any] | None
    box: Box
    eps: float = d.EPS
    analytic: bool = False  # whether complex steps may be used

    def value(self, u: Array) -> float:
        """The log density at u; NaN where it is not defined."""
        try:
            out = self.log_density(self.box.bounded(u))
        except (ArithmeticError, ValueError):  # math.exp overflows, math.log has a domain: not defined here
            return np.nan
        return float(number(out)) + float(self.box.log_jacobian(u))

    def complex_value(self, u: Any) -> Any:
        """The same for complex u."""
        return np.asarray(self.log_density(self.box.bounded(u))).reshape(()) + self.box.log_jacobian(u)

    def given_grad(self, u: Array) -> Array:
        """∇ by the user's function and the chain rule."""
        assert self.grad is not None
        slopes = self.box.slopes(u)
        return np.asarray(slopes.z * shaped(self.grad(self.box.bounded(u)), "grad", (u.size,)) + slopes.log_jacobian)

    def given_hess(self, u: Array, grad: Array) -> Array:
        """∇∇ by the user's function and the chain rule, which needs ∇ too where there are bounds."""
        assert self.hess is not None
        slopes = self.box.slopes(u)
        H = np.outer(slopes.z, slopes.z) * shaped(self.hess(self.box.bounded(u)), "hess", (u.size, u.size))
        of_z = (grad - slopes.log_jacobian) / slopes.z
        H[np.diag_indices_from(H)] += of_z * slopes.z_twice + slopes.log_jacobian_twice
        return np.asarray(H)

    def derivatives(self, u: Array, B: Array, noise: float, final: bool, fine: float = 1.0) -> Derivatives:
        """Slopes and bends along B; `fine` multiplies the step of the bends."""
        grad = self._grad(u, B, noise)
        if self.hess is not None:
            H = self.given_hess(u, np.asarray(np.linalg.solve(B, grad), dtype=float))
            return Derivatives(grad, np.asarray(B @ H @ B.T), 0.0)
        return Derivatives(grad, *self._bends(u, B, noise, final, fine))

    def _grad(self, u: Array, B: Array, noise: float) -> Array:
        if self.grad is not None or self.analytic:
            return self._slopes(u, B)
        return d.richardson(lambda h: d.central_gradient(self.value, u, B, h), d.best_step(noise, 1, 2), 2).value

    def _slopes(self, u: Array, B: Array, first: int = 0) -> Array:
        if self.grad is not None:
            return np.asarray(B[first:] @ self.given_grad(u))
        return d.complex_gradient(self.complex_value, u, B, first)

    def _bends(self, u: Array, B: Array, noise: float, final: bool, fine: float) -> d.Estimate:
        if self.grad is None and not self.analytic:
            levels = 3 if final else 1
            h = fine * d.best_step(noise, 2, levels)
            return d.richardson(lambda h: d.hessian_of_values(self.value, u, B, h), h, levels)
        diagonal = B.sum(axis=0) / np.sqrt(len(B))
        of_slopes = d.noise_level(lambda x: self._slopes(x, B).sum(), u, diagonal, self.eps) if final else noise
        levels = 2 if final else 1
        h = fine * d.best_step(of_slopes, 1, levels)
        return d.richardson(
            lambda h: d.hessian_of_gradients(lambda x, first: self._slopes(x, B, first), u, B, h), h, levels
        )


def number(out: Any) -> Any:
    """What a log density returned, if that is one real number."""
    array = np.asarray(out)
    if array.size != 1 or array.dtype.kind not in "fiu":
        what = f"an array of shape {array.shape}" if array.size != 1 else f"{out!r} ({array.dtype})"
        raise InputError(
            f"log_density must return one real number for a point of shape (M,); it returned {what}. Sum over rows, "
            "and return the log density itself."
        )
    return array.reshape(())


def shaped(out: Any, what: str, shape: tuple[int, ...]) -> Array:
    """What grad or hess returned, if it has the right shape."""
    array = np.asarray(out)
    if array.dtype.kind not in "fiu" or (array.shape != shape and not array.size == np.prod(shape) == 1):
        raise InputError(
            f"{what} must return a real array of shape {shape}: derivatives of the log density with respect to z; it "
            f"returned shape {array.shape} of {array.dtype}."
        )
    return array.astype(float).reshape(shape)


def shown(z: Array, most: int = 6) -> str:
    """A point, cut short."""
    numbers = ", ".join(f"{x:.6g}" for x in z[:most])
    return f"[{numbers}{', …' if len(z) > most else ''}]"


# --- derivatives that may be used ---------------------------------------------------------------------------


def agrees_with_complex(target: Target, u: Array, B: Array) -> bool:
    """Whether log f takes complex points and its complex slope is that of differences, beside u, along no axis."""
    rng = np.random.default_rng(0)
    beside, row = (rng.choice([-1.0, 1.0], size=(2, u.size)) * rng.uniform(0.5, 1.0, size=(2, u.size))) @ B
    x, row = u + 0.1 * beside / np.sqrt(u.size), row / np.sqrt(u.size)
    noise = d.noise_level(target.value, x, row, target.eps)
    slope = d.richardson(lambda h: d.central_gradient(target.value, x, row[None], h), d.best_step(noise, 1, 2), 2).value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as for an imaginary part that is thrown away
            exact = d.complex_gradient(target.complex_value, x, row[None])
    except Exception:  # whatever a function does that was not written for complex numbers
        return False
    return bool(np.isfinite(exact).all() and (np.abs(exact - slope) <= 1e-6 * (1 + np.abs(slope))).all())


def check_given(target: Target, u: Array, B: Array) -> None:
    """Refuse a grad or hess that is not the log density's, compared beside the start in natural units."""
    rng = np.random.default_rng(0)
    beside = u + 0.1 * (rng.choice([-1.0, 1.0], size=u.size) / np.sqrt(u.size)) @ B
    x = beside if np.isfinite(target.value(beside)) else u
    noise = d.noise_level(target.value, x, B.sum(axis=0) / np.sqrt(u.size), target.eps)
    slopes = d.richardson(lambda h: d.central_gradient(target.value, x, B, h), d.best_step(noise, 1, 2), 2).value
    if target.grad is not None:
        _compare_grad(target, x, slopes / np.diag(B), np.diag(B))
    if target.hess is not None:
        row = rng.standard_normal(u.size) @ B / np.sqrt(u.size)
        bend = d.richardson(lambda h: d.hessian_of_values(target.value, x, row[None], h), d.best_step(noise, 2, 3), 3)
        _compare_hess(target, x, slopes / np.diag(B), row, float(bend.value[0, 0]))


def _compare_grad(target: Target, x: Array, slopes: Array, units: Array) -> None:
    given = target.given_grad(x)
    gap = np.abs(given - slopes) * units
    if not gap.max() <= AGREES * (1 + np.abs(slopes * units).max()):
        j = int(np.argmax(gap))
        one = target.box.slopes(x)
        theirs, ours = ((g[j] - one.log_jacobian[j]) / one.z[j] for g in (given, slopes))
        raise InputError(
            f"grad contradicts log_density: at z = {shown(target.box.bounded(x))} its component {j} is {theirs:.6g}, "
            f"differences of log_density give {ours:.6g}. It must be the gradient of the log density itself (not of "
            "minus it) with respect to z; correct it, or leave grad out."
        )


def _compare_hess(target: Target, x: Array, grad: Array, row: Array, bend: float) -> None:
    H = target.given_hess(x, grad)
    scale = np.sqrt(np.abs(np.diag(H)))
    if not np.allclose(H, H.T, rtol=1e-8, atol=1e-8 * float((scale[:, None] * scale).max(initial=0.0))):
        raise InputError(f"hess must return a symmetric matrix; at z = {shown(target.box.bounded(x))} it does not.")
    theirs = float(row @ H @ row)
    if not abs(theirs - bend) <= AGREES * (1 + abs(bend)):
        raise InputError(
            f"hess contradicts log_density: at z = {shown(target.box.bounded(x))}, along one direction, its second "
            f"derivative is {theirs:.6g}, differences of log_density give {bend:.6g}. It must be the Hessian of the "
            "log density itself (not of minus it) with respect to z; correct it, or leave hess out."
        )
