"""What kind of likelihood it is: how many scores a row has, what lies under label noise, what it resembles."""

from credibly.model.likelihoods.base import Likelihood
from credibly.model.likelihoods.categorical import Categorical
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Logit
from credibly.model.likelihoods.proportions import Proportions
from credibly.model.likelihoods.thresholds import BernoulliLogit

AnyLikelihood = Likelihood | Categorical | NoisyCategorical


def n_outputs(likelihood: AnyLikelihood) -> int:
    """How many scores, and weight vectors, a model has: one, or one per class."""
    return 1 if isinstance(likelihood, Likelihood) else likelihood.n_classes


def true_likelihood(likelihood: AnyLikelihood) -> Likelihood | Categorical:
    """The likelihood of the true class: what lies under label noise, or the likelihood itself."""
    return likelihood.base if isinstance(likelihood, LabelNoise | NoisyCategorical) else likelihood


def concave_relative(likelihood: AnyLikelihood) -> Likelihood | Categorical | None:
    """A log-concave likelihood of the same labels, whose mode is a good place to start from; None where none is known.

    The logit for every other threshold, and no label noise for some.
    """
    base = true_likelihood(likelihood)
    if base.log_concave:
        return base
    if isinstance(base, FamilyLikelihood) and isinstance(base.family, Proportions):
        return FamilyLikelihood(base.family, Logit())
    return BernoulliLogit() if base.two_labels else None
