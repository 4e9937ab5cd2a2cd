"""What is asked of a case, each as an object with a sentence and a verdict."""

import math
from dataclasses import dataclass
from typing import Protocol

from benchmarks.records import CaseResult, Measured, Verdict, fastest


class Rule(Protocol):
    def judge(self, result: CaseResult) -> Verdict: ...


def ratio(ours: Measured | None, peer: Measured | None) -> float:
    """How many times longer the peer took; NaN when one of them never finished."""
    return math.nan if ours is None or peer is None else peer.seconds / ours.seconds


def time(seconds: float) -> str:
    """A time in three digits, in the unit that fits."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "–" if math.isnan(seconds) else f"{seconds * 1e9:.3g} ns"


def by_default(result: CaseResult, ours: Measured, peer: Measured) -> str:
    """The same ratio for ours as it comes, to rounding, where it is not that which counts."""
    others = [row for row in result.of("ours") if math.isnan(row.tolerance) and row.reached and row != ours]
    return "".join(f"; at its default tolerance {ratio(row, peer):.3g}×" for row in others)


def there(ours: Measured | None) -> str:
    """Why ours does not count, or nothing."""
    if ours is None or not ours.times:
        return "ours did not finish" + (f" ({ours.note})" if ours and ours.note else "")
    return "" if ours.reached else ours.note or f"ours is not at the optimum (gap {ours.gap:.1e})"


@dataclass(frozen=True)
class Faster:
    """So many times faster than the fastest peer, of some families, that reaches the same answer."""

    at_least: float
    among: tuple[str, ...] = ("newton", "first-order", "other")
    who: str = "the fastest peer"

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"{self.at_least:g}× {self.who}"
        ours, peers = result.ours, [row for row in result.peers if row.family in self.among]
        peer = fastest(row for row in peers if row.reached)
        if problem := there(ours):
            return Verdict(asked, problem, False)
        assert ours is not None
        if peer is None:
            return self.none_there(asked, ours, peers)
        found = ratio(ours, peer)
        text = f"{found:.3g}× ({time(ours.seconds)}; {peer.label} {time(peer.seconds)})"
        return Verdict(asked, text + by_default(result, ours, peer), found >= self.at_least)

    def none_there(self, asked: str, ours: Measured, peers: list[Measured]) -> Verdict:
        """Nobody got there: met when all that were stopped had been given the time, else open."""
        stopped = [row.stopped for row in peers if math.isfinite(row.stopped)]
        if not stopped:
            return Verdict(asked, "no such peer got there", None)
        more = min(stopped) / ours.seconds
        text = f"no such peer got there in {time(min(stopped))}: more than {more:.3g}× ({time(ours.seconds)})"
        return Verdict(asked, text, True if more >= self.at_least else None)


@dataclass(frozen=True)
class WithinPasses:
    """Not above the fastest peer's time plus so many Hessian passes."""

    passes: float

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"at most the fastest peer plus {self.passes:g} dsyrk passes"
        ours, peer = result.ours, fastest(row for row in result.peers if row.reached)
        one = fastest(row for row in result.of("limit") if row.method == "limits.hessian")
        if problem := there(ours):
            return Verdict(asked, problem, False)
        if peer is None or one is None:
            return Verdict(asked, "no peer got there, or no pass was timed", None)
        assert ours is not None
        limit = peer.seconds + self.passes * one.seconds
        text = f"{time(ours.seconds)}; {peer.label} {time(peer.seconds)} + {self.passes:g} × {time(one.seconds)}"
        return Verdict(asked, text, ours.seconds <= limit)


@dataclass(frozen=True)
class Memory:
    """Peak of a fit, in a fresh process, above the input: a share of the input and a constant."""

    share: float = 0.1
    megabytes: float = 200.0

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"peak memory: input + {100 * self.share:g} % + {self.megabytes:g} MB"
        extra = [row.extra_bytes for row in result.of("ours") if row.extra_bytes is not None]
        if not extra:
            return Verdict(asked, "not measured", None)
        limit = self.share * result.input_bytes + 1e6 * self.megabytes
        text = f"input ({result.input_bytes / 1e6:.0f} MB) + {max(extra) / 1e6:.0f} MB, limit + {limit / 1e6:.0f} MB"
        return Verdict(asked, text, max(extra) <= limit)


@dataclass(frozen=True)
class SquareArrays:
    """Peak of a fit above the input, in arrays of n × n numbers."""

    at_most: float

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"peak memory: {self.at_most:g} arrays of n × n numbers"
        extra = [row.extra_bytes for row in result.of("ours") if row.extra_bytes is not None]
        if not extra:
            return Verdict(asked, "not measured", None)
        arrays = max(extra) / (8 * result.spec["n"] ** 2)
        return Verdict(asked, f"{arrays:.1f}", arrays <= self.at_most)


@dataclass(frozen=True)
class Adds:
    """No more seconds than so many on top of the peer's."""

    at_most: float

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"adds at most {time(self.at_most)}"
        ours, peer = result.ours, fastest(result.peers)
        if ours is None or peer is None:
            return Verdict(asked, "not measured", None)
        added = ours.seconds - peer.seconds
        return Verdict(asked, f"{added:+.2f} s", added <= self.at_most)


@dataclass(frozen=True)
class Near:
    """Probabilities that differ from those of the reference by no more than this."""

    at_most: float

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"probabilities within {self.at_most:g}"
        ours = result.ours
        if ours is None or math.isnan(ours.difference):
            return Verdict(asked, "not compared", None)
        return Verdict(asked, f"{ours.difference:.1e}", ours.difference <= self.at_most)


@dataclass(frozen=True)
class BetterAndFaster:
    """At least the score of the best-scoring peer, in a part of its time.

    Of peers whose scores are within `equal` of the best one, the fastest counts.
    """

    times: float
    equal: float = 1e-3

    def judge(self, result: CaseResult) -> Verdict:
        asked = f"the best peer's held-out log score or better, {self.times:g}× faster"
        ours, peers = result.ours, [row for row in result.peers if math.isfinite(row.value)]
        if ours is None or not math.isfinite(ours.value):
            return Verdict(asked, there(ours) or "no score", False)
        if not peers:
            return Verdict(asked, "no peer finished", None)
        best = min(row.value for row in peers)
        peer = fastest(row for row in peers if row.value <= best + self.equal)
        assert peer is not None
        found = ratio(ours, peer)
        text = (
            f"score {-ours.value:.4f} in {time(ours.seconds)}; {peer.label} {-peer.value:.4f} in {time(peer.seconds)}"
        )
        return Verdict(asked, f"{text} ({found:.3g}×)", ours.value <= best + self.equal and found >= self.times)
