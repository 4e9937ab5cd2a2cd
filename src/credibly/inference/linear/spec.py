"""What is fitted to what: the data, and the choices of a linear model."""

from dataclasses import dataclass

import numpy as np

from credibly.data.columns import Columns
from credibly.data.rows import MemoryRows, Rows
from credibly.errors import InputError
from credibly.inference.flips import FlipBelief
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, n_outputs
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights

PriorChoice = Normal | StudentT | Jeffreys | str | None

INFERENCES = ("auto", "laplace", "variational", "ep", "adf", "adf_spherical", "exact")
BY_MOMENTS = ("ep", "adf", "adf_spherical")  # of one score a row at a time


@dataclass(frozen=True)
class Data:
    """Rows with labels as codes (or targets), and what one pass has told of their columns.

    Memory, Parquet and Dask alike: nobody below can tell.
    """

    rows: Rows
    columns: Columns
    names: tuple[str, ...]
    n_counted: int  # rows of positive weight
    sparse: bool = False  # whether zeros must stay zeros
    log_constant: float = 0.0  # of the log likelihood, whatever the weights: binomial coefficients


@dataclass(frozen=True)
class LinearSpec:
    """The choices of a linear model.

    Parameters
    ----------
    likelihood : Likelihood, Categorical or NoisyCategorical
        Of one score a row or of K; label noise wraps it, a GLM's family is one.
    prior : Normal, StudentT, Jeffreys, "empirical", "ard", "hierarchical" or None
    inference : str
        A key of `fit.RUNGS`, or "auto".
    intercept : bool
    flips : FlipBelief, optional
        Flip probabilities that are learnt.
    free_dispersion : bool
        Whether the dispersion of a GLM's family is learnt.
    solver : "newton" or "sgd"
    tol : float
        Squared distance to the mode, in posterior standard deviations, from which the last step is taken.
    max_iter : int
        Steps, sweeps or passes of stochastic gradient at most.
    seed : int
        Of stochastic gradient and of draws.
    draws, max_passes : int, optional
        Of exact inference: more draws, and a budget of passes.
    limits : ManyWeights
    """

    likelihood: AnyLikelihood
    prior: PriorChoice = "empirical"
    inference: str = "auto"
    intercept: bool = True
    flips: FlipBelief | None = None
    free_dispersion: bool = False
    solver: str = "newton"
    tol: float = 1e-10
    max_iter: int = 100
    seed: int = 0
    draws: int | None = None
    max_passes: int | None = None
    limits: ManyWeights = MANY_WEIGHTS

    @property
    def flat(self) -> bool:
        """Whether there is no prior that is a distribution: no evidence, no averaging."""
        return self.prior is None or isinstance(self.prior, Jeffreys)

    @property
    def learns_scales(self) -> bool:
        """Whether prior scales are learnt."""
        return isinstance(self.prior, str)

    def shape(self, data: Data) -> WeightShape:
        """How many weights there are."""
        return WeightShape(len(data.names), n_outputs(self.likelihood), self.intercept)

    @property
    def n_parameters(self) -> int:
        """Parameters of the likelihood that are learnt: what AIC and BIC count beside the weights."""
        return (0 if self.flips is None else self.flips.n_free) + self.free_dispersion


# --- what does not go together --------------------------------------------------------------------------------


def refuse_combinations(spec: LinearSpec, data: Data) -> None:
    """Raise, before any work, where choices do not go together, or not with these rows."""
    prior = spec.prior
    if isinstance(prior, Normal) and prior.standardized and not (prior.mean is None and prior.cov is None):
        raise InputError(
            f"standardized=True is for scales; mean and cov of a Normal are in the units of the data. Got {prior!r} "
            "with both: give scale= instead, or leave standardized=False."
        )
    if spec.flat:
        _refuse_without_prior(spec)
    if spec.prior == "hierarchical" and spec.inference != "exact":
        raise InputError(
            'prior="hierarchical" draws the scale of the coefficients together with them, which only '
            f'inference="exact" can; got inference={spec.inference!r}. Give inference="exact", or prior="empirical".'
        )
    if spec.solver == "sgd" and spec.inference not in ("auto", "laplace"):
        raise InputError(
            f'solver="sgd" ends near the mode, which is Laplace\'s way; with inference={spec.inference!r} leave '
            'solver="newton".'
        )
    if spec.solver == "sgd" and spec.flips is not None:
        raise InputError(
            'label_noise cannot be estimated with solver="sgd"; give it a number, or leave solver="newton".'
        )
    if spec.inference in BY_MOMENTS:
        _refuse_moments(spec, data)


def _refuse_without_prior(spec: LinearSpec) -> None:
    if spec.inference not in ("auto", "laplace"):
        raise InputError(
            f"inference={spec.inference!r} needs a prior that is a distribution; got prior={spec.prior!r}. Use "
            'prior="empirical" or Normal(scale=2.5), or leave inference="auto".'
        )
    if not isinstance(spec.prior, Jeffreys):
        return
    if spec.solver == "sgd":
        raise InputError('solver="sgd" cannot follow Jeffreys(): it is no sum over rows. Use solver="newton".')
    if spec.flips is not None:
        raise InputError("label_noise cannot be estimated with prior=Jeffreys(); give it a number, or another prior.")
    if spec.free_dispersion:
        raise InputError("Jeffreys() needs a known dispersion for this family; give dispersion=.")


def _refuse_moments(spec: LinearSpec, data: Data) -> None:
    how = f"inference={spec.inference!r}"
    if not isinstance(spec.prior, Normal | str):
        raise InputError(
            f'{how} starts from a normal distribution: prior must be a Normal, "empirical" or "ard"; got '
            f'{spec.prior!r}. With that prior use inference="variational".'
        )
    if not isinstance(spec.likelihood, Likelihood):
        raise InputError(
            "Only binary classification is supported. The type of the target is multiclass, or multi_class is "
            f"'softmax': {how} is for one score a row, and the softmax has one for each class. Use "
            'inference="variational", "exact" or "auto".'
        )
    if not spec.likelihood.two_labels:
        raise InputError(f'{how} is for two classes; for this family use inference="variational", "exact" or "auto".')
    if not isinstance(data.rows, MemoryRows):
        raise InputError(
            f"{how} looks at single rows many times, which files and clusters cannot give. Use "
            'inference="variational", or fit to a sample of the rows in memory.'
        )
    weight = np.ones(1) if data.rows.weight is None else data.rows.weight
    if spec.inference == "ep":
        odd, expected = (weight > 0) & (weight < 1), "0 (left out) or at least 1"
        advice = 'A part of a row has no moments here: use inference="variational".'
    else:
        odd, expected = (weight != 0) & (weight != 1), "0 (left out) or 1 only"
        advice = (
            "A row counts when it is its turn, and a power of its likelihood has no moments here: repeat rows instead, "
            'or use inference="variational".'
        )
    rows = np.flatnonzero(odd)
    if rows.size:
        raise InputError(
            f"{how} takes sample_weight {expected}; {rows.size} of {len(weight)} are others, the first "
            f"{weight[rows[0]]:g} in row {rows[0]}. {advice}"
        )
