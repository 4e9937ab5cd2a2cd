"""Modes of a log density that is known by its values: climbed to, judged, and looked for from several places.

Notation
--------
====  ================================================================  =======
u     unbounded coordinates of a point z (numerics/transforms.py)       (M,)
B     a frame: rows are directions, as long as log f's natural unit     (M, M)
t     coordinates in a frame, u = origin + Bᵀt                          (M,)
A     precision, -∇∇ log f at the mode                                  (M, M)
====  ================================================================  =======

In a frame whose unit is a nat all numbers are of order one, whatever the units of z: steps of differences, the tests
for flatness, and how far a step may lead are set there. The first frame has the axes' directions; the next have those
of the Hessian's eigenvectors, so that at the end derivatives are taken along the density's own standard deviations.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from credibly.errors import InputError, NoModeError, NotPositiveDefinite
from credibly.inference.free_density import Derivatives, Target, agrees_with_complex, shown
from credibly.inference.gaussian import Gaussian
from credibly.numerics import differences as d
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, from_root
from credibly.numerics.newton import newton
from credibly.numerics.special import LOG_2PI
from credibly.numerics.status import Local, Solution, Status
from credibly.numerics.transforms import Box

ROUNDS, STEPS = 10, 60  # frames in turn, and Newton steps in each
LOST_IN_ROUNDING = 1e-3  # nats
UNSURE = 0.01  # share of the least curvature by which another step may change it
FLAT = 1e-6  # curvature in natural units: the Gaussian would be a thousand times as wide as a nat says
ROUND_ENOUGH = 1e-3  # smallest over largest curvature of a frame that needs no better one
ENOUGH = 4  # settled rounds after which a frame is as round as it gets
LONGEST = 10.0  # natural units that a step may go where curvature is no guide
FINEST = 1e-4  # how far steps are shortened where they seem too long
SMOOTH = 1e-4  # by how much halving the step may change a second derivative of order one
GAIN, ROUGH_GAIN = 1e-20, 1e-10  # squared Newton decrements to end with, in the last frame and before
PATIENCE = 3  # frames in which the steps may run out
SEARCHES = 10  # further starts for each mode asked for
STRETCHES = (3.0, 10.0, 30.0)  # of those starts, in turn: standard deviations of the mode they are drawn around
SAME = 0.01  # standard deviations between two ends that are one mode
BOUNDED = "Give bounds= where z is limited, a prior, or a start nearer to the mode."


class Peak(NamedTuple):
    """A mode in unbounded coordinates, its precision, and the log of its mass."""

    gaussian: Gaussian
    log_normalizer: float


# --- one climb ----------------------------------------------------------------------------------------------


class Climb:
    """Minus a target in a frame, as `newton` wants it; remembers the Hessian of the last point that was kept."""

    def __init__(self, target: Target, origin: Array, B: Array, final: bool, fine: float):
        self.target, self.origin, self.B, self.final, self.fine = target, origin, B, final, fine
        diagonal = B.sum(axis=0) / np.sqrt(len(B))
        self.noise = d.noise_level(target.value, origin, diagonal, target.eps)
        self._last = self.kept = Derivatives(np.empty(0), np.empty(0), np.inf)
        self._kept_value = np.inf

    def run(self) -> Solution:
        """Newton's steps from the frame's origin."""
        exact = self.target.grad is not None or self.target.analytic
        of_slopes = 10 * self.noise**0.8 if not exact else 0.0  # σ^(4/5), with a margin
        tol = max(GAIN if self.final else ROUGH_GAIN, self.origin.size * of_slopes**2)
        return newton(self.expand, np.zeros_like(self.origin), tol=tol, max_steps=STEPS, report=self._keep)

    def _keep(self, step: int, value: float, decrement: float) -> None:
        # newton reports a point right after it has expanded it
        self.kept, self._kept_value = self._last, value

    def expand(self, t: Array) -> Local:
        """Minus the target to second order; no derivatives are spent on points that are refused by their value."""
        u = self.origin + t @ self.B
        value = -self.target.value(u)
        if value == -np.inf:
            raise _error(self.target, u, u - self.origin, "The log density is +inf {where}: it is unbounded.", BOUNDED)
        if not value <= self._kept_value + 1e-5 + 10 * self.noise or value == np.inf:
            return Local(value, np.zeros_like(t), PSD(np.eye(t.size)))
        self._last = self.target.derivatives(u, self.B, self.noise, self.final, self.fine)
        grad, H = -self._last.grad, -self._last.hessian
        if not (np.isfinite(grad).all() and np.isfinite(H).all()):
            raise NotPositiveDefinite("derivatives are not finite")
        try:
            return Local(value, grad, PSD.of(H, "the precision"), stand_in=lambda: PSD(np.eye(t.size)))
        except NotPositiveDefinite:
            return Local(value, grad, _turned(H, grad), replaced=True)

    def settled(self, end: Solution) -> bool:
        """Whether a better point could not be told from this one."""
        return end.status not in (Status.STEP_LIMIT, Status.STALLED) or end.decrement <= 10 * self.noise


def _turned(H: Array, grad: Array) -> PSD:
    """|H|, so that steps go up where log f bends up too, and no further than curvature can be believed."""
    bends, V = np.linalg.eigh(H)
    least = max(1e-8 * np.abs(bends).max(), 1e-8)
    lengths = np.maximum(np.maximum(np.abs(bends), np.abs(V.T @ grad) / LONGEST), least)
    return PSD.of((V * lengths) @ V.T, "a stand-in")


def axes(target: Target, u: Array) -> Array:
    """A frame along the axes; a length of one where the log density does not bend along an axis."""
    scales = [d.natural_scale(target.value, u, e) for e in np.eye(u.size)]
    return np.diag([1.0 if s is None else s for s in scales])


def find_mode(target: Target, start: Array) -> Peak:
    """The mode that is uphill of a start, or an error that says which direction has none.

    A function that is analytic at the start need not be so elsewhere: complex steps have to hold at the mode, too.
    """
    if target.analytic:
        try:
            peak = _climb_to_mode(target, start)
            if agrees_with_complex(target, peak.gaussian.mean, peak.gaussian.precision.inverse_root):
                return peak
        except NoModeError:
            pass  # differences have the last word
    return _climb_to_mode(replace(target, analytic=False), start)


def _climb_to_mode(target: Target, start: Array) -> Peak:
    u, B, final, fine, good, bad = start, axes(target, start), False, 1.0, 0, 0
    last = np.zeros_like(start)
    for _ in range(ROUNDS):
        climb = Climb(target, u, B, final, fine)
        try:
            end = climb.run()
        except NotPositiveDefinite as error:  # raised at the origin only: newton steps back from others
            raise (_no_end(target, start, u, last, False) if last.any() else _no_derivatives(target, u)) from error
        last, settled = end.x @ B, climb.settled(end)
        u = u + last
        bad += not settled
        bends, V = np.linalg.eigh(-climb.kept.hessian)
        rough = final and climb.kept.change > SMOOTH * max(1.0, np.abs(bends).max())
        if final and settled and not rough:
            good += 1
            done = bends[0] > ROUND_ENOUGH * bends[-1] or good == ENOUGH
            unsure = climb.kept.change > UNSURE * bends[0]  # as of |z|³, whose curvature is that of the step taken
            if bends[0] < -FLAT or (done and (bends[0] < FLAT or unsure)):
                raise _not_a_mode(target, u, V[:, 0] @ B, climb.noise)
            if done:
                return _peak(target, u, B, -climb.kept.hessian)
        if bad == PATIENCE or (rough and fine < FINEST):
            break
        final, fine = final or settled, fine / 10 if rough else 1.0
        B = B if rough else _next_frame(target, u, V.T @ B, bends)
    raise _no_end(target, start, u, last if last.any() else climb.kept.grad @ B, rough)


def _next_frame(target: Target, u: Array, directions: Array, bends: Array) -> Array:
    """Eigenvectors of the Hessian, each as long as the log density's natural unit along it."""
    rows = []
    for row, bend in zip(directions, bends, strict=True):
        s = d.natural_scale(target.value, u, row, 1 / np.sqrt(abs(bend)) if bend else 1.0)
        if s is None:
            rise = target.value(u + row) - target.value(u - row)
            raise _flat(target, u, row) if abs(rise) < FLAT else _no_end(target, u, u, np.sign(rise) * row, False)
        rows.append(s * row)
    return np.array(rows)


def _peak(target: Target, u: Array, B: Array, H: Array) -> Peak:
    """A = B⁻¹HB⁻ᵀ by its root B⁻¹L = (QR)ᵀ, which does not square the condition number."""
    if np.spacing(abs(target.value(u))) > LOST_IN_ROUNDING:
        raise InputError(
            f"log_density is {target.value(u):.3g} where the search ended, z = {shown(target.box.bounded(u))}: numbers "
            f"of that size are rounded to {np.spacing(abs(target.value(u))):.1g}, which hides the mode. Leave the "
            "constant out."
        )
    lengths = np.linalg.norm(B, axis=1)
    root = np.linalg.solve(B / lengths[:, None], PSD.of(H, "the precision").factor / lengths[:, None])
    precision = from_root(root)
    return Peak(Gaussian(u, precision), target.value(u) + 0.5 * (u.size * LOG_2PI - precision.logdet))


# --- several modes ------------------------------------------------------------------------------------------


class Search(NamedTuple):
    """Modes found, heaviest first, and from how many starts."""

    peaks: list[Peak]
    starts: int


def find_modes(rng: np.random.Generator, target: Target, starts: Array, modes: int) -> Search:
    """Modes uphill of the starts and, where several are asked for, of starts drawn around those found.

    A start that leads nowhere is passed over if another leads to a mode.
    """
    peaks: list[Peak] = []
    failures = [failure for start in starts if (failure := _look(target, start, peaks)) is not None]
    draws = SEARCHES * modes if modes > 1 else 0
    for k in range(draws):
        start = _drawn(rng, target, starts, peaks, k)
        if np.isfinite(target.value(start)):
            _look(target, start, peaks)
    if not peaks:
        raise failures[0]
    return Search(sorted(peaks, key=lambda peak: -peak.log_normalizer), len(starts) + draws)


def _look(target: Target, start: Array, peaks: list[Peak]) -> NoModeError | None:
    try:
        new = find_mode(target, start)
    except NoModeError as error:
        return error
    if not any(_same(new, old) for old in peaks):
        peaks.append(new)
    return None


def _same(new: Peak, old: Peak) -> bool:
    apart = new.gaussian.mean - old.gaussian.mean
    return any(np.linalg.norm(apart @ peak.gaussian.precision.factor) < SAME for peak in (new, old))


def _drawn(rng: np.random.Generator, target: Target, starts: Array, peaks: list[Peak], k: int) -> Array:
    white = np.asarray(STRETCHES[k % len(STRETCHES)] * rng.standard_normal(starts.shape[1]))
    if not peaks:
        start = np.asarray(starts[k % len(starts)])
        return np.asarray(start + white @ axes(target, start))
    around = peaks[k // len(STRETCHES) % len(peaks)].gaussian
    return np.asarray(around.mean + around.precision.half_solve_transposed(white))


# --- what went wrong, and where -----------------------------------------------------------------------------


def combination(direction: Array, box: Box, most: int = 3) -> str:
    """A unit vector by its largest coordinates, as 0.71·z[0] - 0.71·log z[3]."""
    unit = direction / np.linalg.norm(direction)
    largest = sorted(
        j
        for j in np.argsort(-np.abs(unit), kind="stable")[:most]
        if abs(unit[j]) > 0.05 or j == np.argmax(np.abs(unit))
    )
    terms = [_term(unit[j], box.names[j]) for j in largest]
    rest = " + …" if len(largest) < len(unit) and 1 - (unit[largest] ** 2).sum() > 0.01 else ""
    first = terms[0].removeprefix("+ ").replace("- ", "-")
    return " ".join([first, *terms[1:]]) + rest


def _term(factor: float, name: str) -> str:
    size = f"{abs(factor):.2f}·" if abs(factor) < 0.995 else ""
    return f"{'-' if factor < 0 else '+'} {size}{name}"


def _error(target: Target, u: Array, direction: Array, what: str, cure: str) -> NoModeError:
    where = f"at z = {shown(target.box.bounded(u))} along {combination(direction, target.box)}"
    return NoModeError(f"{what.format(where=where)} {cure}", direction / np.linalg.norm(direction))


def _not_a_mode(target: Target, u: Array, direction: Array, noise: float) -> NoModeError:
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    highest = max(target.value(u + 0.1 * direction), target.value(u - 0.1 * direction))
    if not highest > target.value(u) + 10 * noise:
        return _flat(target, u, direction)
    what = "The search ended {where} at a saddle: along that direction the log density curves upwards (A is not > 0)."
    return _error(target, u, direction, what, "Start away from it, or ask for several modes (modes=2).")


def _flat(target: Target, u: Array, direction: Array) -> NoModeError:
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    what = "The log density is flat {where}: it has no curvature there, so a Gaussian has no width (A is not > 0)."
    return _error(target, u, direction, what, "Fix that combination, give it a prior, or leave a coordinate out.")


def _no_end(target: Target, start: Array, u: Array, uphill: Array, rough: bool) -> NoModeError:
    if rough:
        what = "The log density is not smooth {where}: second derivatives depend on the step they are taken with."
        return _error(target, u, uphill, what, "A Laplace approximation needs two derivatives at the mode.")
    risen = f"from {target.value(start):.6g} to {target.value(u):.6g}" if u is not start else "without end"
    what = "The log density still rises {where}, " + risen + ": it is unbounded, has its mode at an edge, or a kink."
    return _error(target, u, uphill, what, BOUNDED)


def _no_derivatives(target: Target, u: Array) -> NoModeError:
    return NoModeError(
        f"The log density has no finite derivatives at z = {shown(target.box.bounded(u))}. Start further inside its "
        "support, or give bounds=."
    )
