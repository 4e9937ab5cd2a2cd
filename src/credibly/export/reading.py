"""The formulas of a scoring document, carried out from the document alone: what every other program has to do.

Notation
--------
====  ==================================================================================  ============
x     a row; z its cells standardised, (x - center) / scale, with 1 last (intercept)      (d,), (D,)
m, s  mean and standard deviation of the score
F     the inverse link
====  ==================================================================================  ============
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, stdtr

from credibly.inference.posterior import normal_quantile
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.special import log_softmax
from credibly.numerics.weighted_draws import weighted_quantiles

Document = dict[str, Any]


class Scored(NamedTuple):
    """What a document says of rows.

    Attributes
    ----------
    prediction : (n, K) probabilities of classes, or (n,) means
    interval : (n, 2) of P(classes[1]) or of the mean, (n, K, 2) of K classes, or None where there is no posterior
    """

    prediction: Array
    interval: Array | None


def score(document: Document, X: Array, level: float) -> Scored:
    """Predictions for rows of features."""
    Z = standardised(document, X)
    posterior, averaged = document["posterior"], document["prediction"] == "averaged"
    f = Z @ np.array(document["standardised"]["weights"]).T  # (n, outputs)
    if posterior is not None and posterior["kind"] == "draws":
        drawn = by_draws(document, Z, level)
        return drawn if averaged else drawn._replace(prediction=probabilities(document["link"], f))
    if document["link"]["name"] == "softmax":
        return Scored(probabilities(document["link"], f), None)
    m = f[:, 0]
    v = np.zeros(len(m)) if posterior is None else variances(posterior["root"], Z)
    mean = average(document, m, v) if averaged else inverse_link(document["link"], m)
    interval = None if posterior is None else ends(document, m, normal_quantile(level) * np.sqrt(v))
    if document["classes"] is not None:
        return Scored(np.column_stack([1.0 - mean, mean]), interval)
    return Scored(np.where(inside(document, inverse_link(document["link"], m)), mean, np.nan), interval)


def inside(document: Document, mu: Array) -> AnyArray:
    """Whether the family has such a mean; a row whose mean at the estimate it has not has no prediction."""
    low, high = limits(document)
    return np.asarray((mu > low) & (mu < high)) if document["mean_range"] is not None else np.ones(mu.shape, dtype=bool)


def limits(document: Document) -> tuple[float, float]:
    """The ends of the means' range; null is infinity."""
    low, high = document["mean_range"] or (None, None)
    return -np.inf if low is None else low, np.inf if high is None else high


def probabilities(link: Document, f: Array) -> Array:
    """Of all classes, (…, K), at scores (…, 1) or (…, K); promised absolutely, so that 1 - p will do."""
    if link["name"] == "softmax":
        return np.exp(log_softmax(f))
    one = inverse_link(link, f[..., 0])
    return np.stack([1.0 - one, one], axis=-1)


def standardised(document: Document, X: Array) -> Array:
    """z, with ones last where there is an intercept."""
    frame = document["standardised"]
    Z = (X - np.array(frame["center"])) / np.array(frame["scale"])
    return np.column_stack([Z, np.ones(len(Z))]) if frame["intercept"] else Z


def variances(root: list[list[float]], Z: Array) -> Array:
    """|R z|²; rows of R end where only zeros would follow."""
    full = np.zeros((len(root), Z.shape[1]))
    for i, row in enumerate(root):
        full[i, : len(row)] = row
    return np.asarray(((Z @ full.T) ** 2).sum(axis=1))


def inverse_link(link: Document, f: Array) -> Array:
    """F(f)."""
    name = link["name"]
    if name == "normal_mixture":
        return mixed(link, f, np.zeros(()))
    if name == "student":
        return np.asarray(stdtr(link["df"], f))
    if name == "power":
        with np.errstate(all="ignore"):
            return np.where(f > 0, np.asarray(f, dtype=float) ** (1 / link["exponent"]), np.nan)
    with np.errstate(over="ignore"):
        return np.asarray(INVERSE_LINKS[name](f))


INVERSE_LINKS: dict[str, Any] = {
    "logit": expit,
    "probit": ndtr,
    "cauchit": lambda f: np.arctan2(1.0, -f) / np.pi,
    "cloglog": lambda f: -np.expm1(-np.exp(f)),
    "loglog": lambda f: np.exp(-np.exp(-f)),
    "identity": lambda f: f,
    "log": np.exp,
}


def mixed(parts: Document, m: Array, v: Array) -> Array:
    """Σ w Φ((m - mean) / √(scale² + v))."""
    w, means, scales = (np.array(parts[name]) for name in ("weights", "means", "scales"))
    return np.asarray(ndtr((m[..., None] - means) / np.sqrt(scales**2 + v[..., None])) @ w)


def average(document: Document, m: Array, v: Array) -> Array:
    """E[F(f)] for f ~ N(m, v)."""
    how, link = document["average"], document["link"]
    if how["kind"] == "normal_mixture":
        return mixed(how, m, v)
    if how["kind"] == "trapezoid":
        return np.array([stepped(how, link, *row) for row in zip(m, np.sqrt(v), strict=True)])
    if how["kind"] == "log_normal":
        return np.exp(m + v / 2)
    if how["kind"] == "square":
        return np.asarray(m**2 + v)
    return inverse_link(link, m)


def stepped(how: Document, link: Document, m: float, s: float) -> float:
    """h Σ φ(kh) F(m + s k h) over |kh| ≤ reach, h = step / max(1, s)."""
    h = how["step"] / max(1.0, s)
    x = h * np.arange(-int(how["reach"] / h), int(how["reach"] / h) + 1)
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    return float(h * density @ inverse_link(link, m + s * x))


def ends(document: Document, m: Array, half: Array) -> Array:
    """F(m ± z s), the smaller end first; a score without a mean counts as the end of the means' range."""
    f = np.column_stack([m - half, m + half])
    mu = inverse_link(document["link"], f)
    if document.get("mean_range") is None:
        return mu
    falling, (least, most) = document["link"].get("exponent", 1.0) < 0, limits(document)
    mu = np.where(np.isnan(mu), np.inf if falling else least, mu)
    mu = np.where(mu < least, least, np.where(mu > most, most, mu))
    return np.asarray(mu[:, ::-1] if falling else mu)


def by_draws(document: Document, Z: Array, level: float) -> Scored:
    """Probabilities at every draw of the weights, averaged by the draws' weights; quantiles of them."""
    posterior = document["posterior"]
    share, draws = np.array(posterior["weights"]), np.array(posterior["draws"])
    f = Z @ draws.reshape(len(draws), -1, Z.shape[1]).swapaxes(1, 2)  # (S, n, outputs)
    proba = probabilities(document["link"], f)
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    interval = weighted_quantiles(proba, share, tails)
    averaged = np.tensordot(share, proba, axes=1)
    return Scored(np.asarray(averaged), interval[:, 1] if proba.shape[-1] == 2 else interval)
