"""Averages of inverse links over a normal latent score: E[σ(f)], E[Φ(f)], E[softmax(f)] with f ~ N(m, v).

These are the predictive probabilities of a classifier whose posterior is Gaussian. `sigmoid` and `normal_cdf` and
their logarithms are right to a relative error of 1e-12, far tails included; `softmax` is right to 1e-6 for three
classes and to 1e-3 for ten, as the notes of `log_softmax` say; `mackay_sigmoid` is the textbook approximation, for
comparison.

Examples
--------
>>> from credibly import averages
>>> round(float(averages.sigmoid(2.0, 1.0)), 4), round(float(averages.mackay_sigmoid(2.0, 1.0)), 4)
(0.8445, 0.8448)
"""

from credibly.numerics.averages import log_normal_cdf, log_sigmoid, mackay_sigmoid, normal_cdf, sigmoid
from credibly.numerics.softmax_averages import log_softmax, softmax

__all__ = [
    "log_normal_cdf",
    "log_sigmoid",
    "log_softmax",
    "mackay_sigmoid",
    "normal_cdf",
    "sigmoid",
    "softmax",
]
