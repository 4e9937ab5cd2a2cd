"""Links by name, and how a link is averaged over a normal score, as plain data.

Notation
--------
====  ==========================================================
F     the inverse link: probability, or mean, at a score
m, v  mean and variance of the score; s = √v
====  ==========================================================
"""

from typing import Any

from credibly.errors import NotDefinedError
from credibly.model.likelihoods import BernoulliLogit, BernoulliMixture, BernoulliProbit, Likelihood, NormalMixture
from credibly.model.likelihoods.choices import LINKS as LINK_NAMES
from credibly.model.likelihoods.choices import THRESHOLDS
from credibly.model.likelihoods.links import Identity, Link, Log, Power
from credibly.model.likelihoods.mixture import LOGISTIC_MIXTURE

Document = dict[str, Any]

BY_KIND = {THRESHOLDS[threshold]: link for link, threshold in LINK_NAMES.items()}
MIXTURE_ERROR, TRAPEZOID_ERROR, ROUNDING = 1e-8, 1e-9, 1e-10  # largest errors of a probability
# Poles of the link are at ±i or farther, in units of the score at ±i/s: the error is exp(-2π/step) = 1e-11. From the
# link's strip, which is narrower where the score is wider, comes the factor max(1, s).
STEP, REACH = 0.25, 9.0


def threshold_link(likelihood: Likelihood) -> Document:
    """The link of a noisy threshold by name, with its parameters."""
    if isinstance(likelihood, BernoulliMixture):
        return {"name": "normal_mixture", **mixture(likelihood.mixture)}
    name = BY_KIND.get(type(likelihood))
    if name is None:
        raise NotDefinedError(
            f"This model cannot be written as plain coefficients: its link {likelihood!r} has no name that other "
            f"programs know. These have one: {', '.join(sorted(BY_KIND.values()))}, normal mixtures. Save "
            "the model instead (credibly.save)."
        )
    return {"name": name}


def threshold_average(likelihood: Likelihood) -> Document:
    """How E[F(f)] is computed: Σ w Φ((m - mean) / √(scale² + v)), or a sum over equal steps."""
    if isinstance(likelihood, BernoulliLogit):
        return {"kind": "normal_mixture", **mixture(LOGISTIC_MIXTURE), "error": MIXTURE_ERROR}
    if isinstance(likelihood, BernoulliProbit):
        return {"kind": "normal_mixture", **mixture(NormalMixture([1.0], [0.0], [1.0])), "error": ROUNDING}
    if isinstance(likelihood, BernoulliMixture):
        return {"kind": "normal_mixture", **mixture(likelihood.mixture), "error": ROUNDING}
    return {"kind": "trapezoid", "step": STEP, "reach": REACH, "error": TRAPEZOID_ERROR}


def mixture(threshold: NormalMixture) -> Document:
    """Its parts as lists."""
    return {name: list(getattr(threshold, name)) for name in ("weights", "means", "scales")}


def mean_link(link: Link) -> Document:
    """The link of a generalised linear model by name."""
    if link.threshold is not None:
        return threshold_link(link.threshold)
    if isinstance(link, Power):
        return {"name": "power", "exponent": link.p}
    if isinstance(link, Identity | Log):
        return {"name": link.name}
    raise NotDefinedError(
        f"This model cannot be written as plain coefficients: its link {link!r} has no name that other programs know. "
        "Save the model instead (credibly.save)."
    )


def mean_average(link: Link) -> Document:
    """How the mean is averaged over a normal score; "plug_in" where the average does not exist."""
    if link.threshold is not None:
        return threshold_average(link.threshold)
    kinds = {1.0: "identity", 0.0: "log_normal", 0.5: "square"}
    return {"kind": kinds.get(link.power, "plug_in") if link.power is not None else "plug_in", "error": ROUNDING}
