"""Row by row: log p(y | f) of the hot likelihoods, its slope and its curvature, compiled.

Each likelihood is two functions of scores f and targets y: one for the slope, which is all that a gradient asks for,
and one that makes the rest of what the first has left. Together they give what its `expand` in
`credibly.model.likelihoods` gives. Loops are short, with few arrays each: see `_fused_base`.

Notation
--------
====  ==============================================================================
f     scores of the rows of a tile
e     e^-|f|, which can only underflow
z     the score as seen from the label: f where y = 1, -f where y = 0
K     K₁(|z|) = φ(z)/Φ(-|z|) - |z|, the ladder's first ratio (see `special`)
Q     Φ(-|z|), the smaller of the two probabilities
δ     f - log y, how far a count is below its mean on the log scale (f itself where y = 0)
====  ==============================================================================
"""

from math import gamma, log, pi, sqrt

import numpy as np

from credibly.numerics._fused_base import (
    EXP,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    ROUNDER,
    exact,
    exponential,
    log_of_quotient,
    logarithm,
    power_of_two,
)
from credibly.numerics.arrays import Array

LOGIT, PROBIT, POISSON = 0, 1, 2

HALF_LOG_2PI, ROOT_2PI = 0.5 * log(2 * pi), sqrt(2 * pi)

# (|z| + 3.5) K₁(|z|) as a polynomial in (|z| - 3.5) / (|z| + 3.5), which runs over -1 … 1: its Chebyshev series to
# degree 26, computed with 60 digits. The next term is 2e-17; K₁ comes out right to 3e-16.
MIDDLE = 3.5
LADDER = (
    1.759738854003898, -1.0299783886096472, 0.21069624634473083, 0.15371368344124217,
    -0.10078958422774553, -0.02218009878980324, 0.035587516289165386, 0.002029881822703987,
    -0.011862644414322521, 0.000272167451180788, 0.0038678080250464375, -0.00020437394707506598,
    -0.0012316407370872797, 5.552738797316833e-05, 0.00037629115734778796, -4.2952660611542724e-06,
    -0.00010727843530208728, -3.670142593708427e-06, 2.7552008997320185e-05, 2.08728605150066e-06,
    -6.1022320857347e-06, -5.875571294259887e-07, 1.0966974226692024e-06, 9.145301579451588e-08,
    -1.433336151615983e-07, -5.93487188504413e-09, 1.0258564129313269e-08,
)  # fmt: skip

LARGEST = 709.782712893384  # log of the largest number
SMALLEST = -707.7  # below, the mean of a count is taken for zero: it is under 5e-308
FEW = 16  # counts below that have their log y! in a table, others by Stirling's series
AT_MEAN = np.array([0.0] + [y * log(y) - y - log(gamma(y + 1)) for y in range(1, FEW)])  # log p of y where μ = y


# --- Logit ----------------------------------------------------------------------------------------


@exact
def exp_minus_abs(f: Array, e: Array) -> None:
    """e^-|f| to about one unit in the last place; 0 where that is no normal number."""
    for r in range(f.size):
        e[r] = exponential(-abs(f[r]), 0.0)


@exact
def logit(f: Array, y: Array, work: Array, grad: Array) -> None:
    """±σ(∓f); leaves e and σ(|f|)."""
    e, larger = work[0, : f.size], work[1, : f.size]
    exp_minus_abs(f, e)
    for r in range(f.size):
        s = 2.0 * y[r] - 1.0
        larger[r] = 1.0 / (1.0 + e[r])
        grad[r] = s * (e[r] * larger[r] if s * f[r] > 0.0 else larger[r])


@exact
def logit_rest(f: Array, y: Array, work: Array, log_prob: Array, curvature: Array) -> None:
    """log σ(±f) = min(±f, 0) - log(1 + e), and σ(f) σ(-f)."""
    e, larger = work[0, : f.size], work[1, : f.size]
    for r in range(f.size):
        z = (2.0 * y[r] - 1.0) * f[r]
        log_prob[r] = (z if z < 0.0 else 0.0) - log_of_quotient(e[r], 2.0 + e[r])
    for r in range(f.size):
        curvature[r] = (e[r] * larger[r]) * larger[r]


# --- Probit ---------------------------------------------------------------------------------------


@exact
def ladder(z: Array, K: Array) -> None:
    """K₁(|z|), without cancellation far out."""
    for r in range(z.size):
        x = abs(z[r])
        t = (x - MIDDLE) / (x + MIDDLE)
        square = t * t
        even, odd = LADDER[26], LADDER[25]  # two short loops, which LLVM unrolls; not one long
        for c in LADDER[24::-2]:
            even = even * square + c
        for c in LADDER[23::-2]:
            odd = odd * square + c
        K[r] = (even + t * odd) / (x + MIDDLE)


@exact
def tails(z: Array, K: Array, Q: Array) -> None:
    """Φ(-|z|) = φ(z) / (|z| + K₁); 0 where φ(z) is no normal number."""
    for r in range(z.size):
        x = abs(z[r])
        head = ((16.0 * x + ROUNDER) - ROUNDER) * 0.0625  # few digits, so head² is exact (Cody 1969)
        far = x > 40.0
        density = exponential(-0.5 * (head * head), -0.5 * ((x - head) * (x + head)))
        Q[r] = 0.0 if far else density / (ROOT_2PI * (x + K[r]))


@exact
def log_cdf(z: Array, K: Array, Q: Array, log_prob: Array) -> None:
    """log Φ(z): log(1 - Q) on the right, log φ(z) - log(|z| + K₁) on the left; one series for both logarithms."""
    for r in range(z.size):
        x = abs(z[r])
        left = -0.5 * x * x - HALF_LOG_2PI - logarithm(x + K[r])
        right = log_of_quotient(-Q[r], 2.0 - Q[r])
        log_prob[r] = right if z[r] > 0.0 else left


@exact
def probit(f: Array, y: Array, work: Array, grad: Array) -> None:
    """± the slope r of log Φ(z); leaves z, K and Q."""
    n = f.size
    z, K, Q = work[0, :n], work[1, :n], work[2, :n]
    for r in range(n):
        z[r] = (2.0 * y[r] - 1.0) * f[r]
    ladder(z, K)
    tails(z, K, Q)
    for r in range(n):
        left = abs(z[r]) + K[r]  # φ/Φ
        grad[r] = (2.0 * y[r] - 1.0) * (Q[r] * left / (1.0 - Q[r]) if z[r] > 0.0 else left)


@exact
def probit_rest(f: Array, work: Array, log_prob: Array, curvature: Array) -> None:
    """log Φ(z), and its curvature r (z + r), which is r K₁ on the left."""
    n = f.size
    z, K, Q = work[0, :n], work[1, :n], work[2, :n]
    log_cdf(z, K, Q, log_prob)
    for r in range(n):
        left = abs(z[r]) + K[r]
        slope = Q[r] * left / (1.0 - Q[r]) if z[r] > 0.0 else left
        curvature[r] = slope * (z[r] + slope if z[r] > 0.0 else K[r])


# --- Poisson, log link ----------------------------------------------------------------------------


@exact
def exponentials(delta: Array, e: Array, bend: Array) -> None:
    """e^δ, and e^δ - 1 - δ, of which nothing cancels for small δ: there it is the series from δ²/2 on."""
    for r in range(delta.size):
        x = delta[r]
        rounded = x * LOG2_E + ROUNDER
        k = rounded - ROUNDER
        t = (x - k * LN2_HIGH) - k * LN2_LOW
        p = EXP[13]
        for c in EXP[12:1:-1]:
            p = p * t + c
        p = p * t * t
        half = power_of_two(rounded - 1.0)  # 2^k itself may be too large
        big, small = x > LARGEST, x < SMALLEST
        raised = 2.0 * (half * (1.0 + (t + p)))
        bent = 2.0 * (half * p) + (2.0 * (half * t) - x + (2.0 * half - 1.0))
        e[r] = np.inf if big else (0.0 if small else raised)
        bend[r] = np.inf if big else (-1.0 - x if small else bent)


@exact
def at_mean(y: Array, log_y: Array, out: Array) -> None:
    """log p of a count whose mean it is: y log y - y - log y!, from FEW on by Stirling's series (0 for y = 0)."""
    for r in range(y.size):
        many = y[r] >= FEW
        count = y[r] if many else 1.0
        u = 1.0 / (count * count)
        series = 1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u / 1188)))
        stirling = -0.5 * log_y[r] - HALF_LOG_2PI - series / count
        out[r] = stirling if many else AT_MEAN[int(0.0 if many else y[r])]


@exact
def poisson(f: Array, y: Array, work: Array, grad: Array) -> None:
    """y - μ = -y (e^δ - 1), of which nothing cancels for large counts; leaves log y, δ, e^δ and e^δ - 1 - δ."""
    n = f.size
    log_y, delta, e, bend = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    for r in range(n):
        log_y[r] = logarithm(y[r] if y[r] > 0.0 else 1.0)
    for r in range(n):
        delta[r] = f[r] - log_y[r]
    exponentials(delta, e, bend)
    for r in range(n):
        grad[r] = -y[r] * (bend[r] + delta[r]) if y[r] > 0.0 else -e[r]


@exact
def poisson_rest(y: Array, work: Array, log_prob: Array, curvature: Array) -> None:
    """log p at μ = y less y (e^δ - 1 - δ), and μ."""
    n = y.size
    log_y, e, bend = work[0, :n], work[2, :n], work[3, :n]
    at_mean(y, log_y, log_prob)
    for r in range(n):
        log_prob[r] -= y[r] * bend[r] if y[r] > 0.0 else e[r]
    for r in range(n):
        curvature[r] = y[r] * e[r] if y[r] > 0.0 else e[r]


@exact
def row_slopes(kind: int, f: Array, y: Array, work: Array, grad: Array) -> None:
    """The slope of every row's log probability; leaves in `work` what its value and curvature are made of."""
    if kind == LOGIT:
        logit(f, y, work, grad)
    elif kind == PROBIT:
        probit(f, y, work, grad)
    else:
        poisson(f, y, work, grad)


@exact
def expand_rows(kind: int, f: Array, y: Array, work: Array, out: Array) -> None:
    """Log probability, slope and curvature of every row, into the three rows of `out`."""
    n = f.size
    row_slopes(kind, f, y, work, out[1, :n])
    if kind == LOGIT:
        logit_rest(f, y, work, out[0, :n], out[2, :n])
    elif kind == PROBIT:
        probit_rest(f, work, out[0, :n], out[2, :n])
    else:
        poisson_rest(y, work, out[0, :n], out[2, :n])
