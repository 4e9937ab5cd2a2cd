"""How a user names a noisy threshold: one table."""

from typing import Any

from scipy import stats

from credibly.errors import InputError
from credibly.model.likelihoods.base import Likelihood
from credibly.model.likelihoods.distribution import BernoulliDistribution, from_scipy
from credibly.model.likelihoods.mixture import BernoulliMixture, NormalMixture
from credibly.model.likelihoods.thresholds import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliProbit,
)
from credibly.model.priors import StudentT

THRESHOLDS: dict[str, type[Likelihood]] = {
    "logistic": BernoulliLogit,
    "normal": BernoulliProbit,
    "cauchy": BernoulliCauchit,
    "gumbel": BernoulliCloglog,
    "gumbel_max": BernoulliLoglog,
}
LINKS = {"logit": "logistic", "probit": "normal", "cauchit": "cauchy", "cloglog": "gumbel", "loglog": "gumbel_max"}


def threshold_likelihood(choice: Any) -> Likelihood:
    """The likelihood of a noisy threshold, from whatever names one.

    Parameters
    ----------
    choice : str, NormalMixture, StudentT, frozen distribution of scipy.stats, or Likelihood
        The distribution of the threshold ("logistic", "normal", "cauchy", "gumbel", "gumbel_max"), or the link that it
        gives ("logit", "probit", "cauchit", "cloglog", "loglog"). A StudentT gives its degrees of freedom.

    Returns
    -------
    Likelihood

    Examples
    --------
    >>> threshold_likelihood("cauchy")
    BernoulliCauchit()
    >>> from scipy import stats
    >>> threshold_likelihood(stats.t(4.0))
    BernoulliDistribution(t(4.0))
    """
    if isinstance(choice, Likelihood):
        return choice
    if isinstance(choice, NormalMixture):
        return BernoulliMixture(choice)
    if isinstance(choice, StudentT):
        return BernoulliDistribution(stats.t(degrees_of_freedom(choice)))
    if isinstance(choice, str):
        return _named(choice)
    if hasattr(choice, "cdf") or hasattr(choice, "logpdf"):  # meant as a distribution: say what is wrong with it
        return from_scipy(choice)
    raise InputError(f"{_CHOICES}, not {choice!r}")


def degrees_of_freedom(student: StudentT) -> float:
    """ν of a StudentT; its scales are those of a prior on weights, and a threshold's is one."""
    if student != StudentT(df=student.df):
        raise InputError(
            f"A StudentT threshold has scale one; got {student!r}. For another scale use scipy.stats.t(df, scale=...)."
        )
    return student.degrees


_CHOICES = (
    f"threshold must be one of {', '.join(map(repr, THRESHOLDS))} (or its link, {', '.join(map(repr, LINKS))}), "
    "a NormalMixture, a StudentT, a frozen continuous distribution of scipy.stats, or a Likelihood"
)


def _named(name: str) -> Likelihood:
    kind = THRESHOLDS.get(LINKS.get(name, name))
    if kind is None:
        raise InputError(f"{_CHOICES}, not {name!r}")
    return kind()
