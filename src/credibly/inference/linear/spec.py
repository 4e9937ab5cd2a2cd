"""What is fitted to what: the data, and the choices of a linear model."""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from credibly.data.columns import Columns
from credibly.data.rows import Rows
from credibly.model.likelihoods.kinds import AnyLikelihood, n_outputs
from credibly.model.priors import Beta, Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights
from credibly.numerics.special import log_sigmoid, sigmoid

PriorChoice = Normal | StudentT | Jeffreys | str | None


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
class FlipBelief:
    """Which flip probabilities are estimated, and what is believed about them.

    With Beta(a, b) beliefs about 2ε the log density of θ = logit 2ε is concave.

    Parameters
    ----------
    index : (E,) int array
        Which parameter each flip probability is; -1 for one that is fixed. Two alike are one parameter.
    fixed : (E,) array
        Their values where fixed.
    beta : Beta
        Beliefs about 2ε.
    """

    index: Codes
    fixed: Array
    beta: Beta

    @property
    def n_free(self) -> int:
        """Number of parameters."""
        return int(self.index.max()) + 1

    def flips(self, theta: Array) -> Array:
        """ε, (E,), for logits θ."""
        return np.where(self.index < 0, self.fixed, 0.5 * sigmoid(theta)[self.index])

    def log_density(self, theta: float) -> float:
        """log p(θ) of one parameter, with the Jacobian of the logit."""
        a, b = self.beta.a, self.beta.b
        return float(a * log_sigmoid(np.array(theta)) + b * log_sigmoid(np.array(-theta)) - betaln(a, b))


@dataclass(frozen=True)
class LinearSpec:
    """The choices of a linear model.

    Parameters
    ----------
    likelihood : Likelihood, Categorical or NoisyCategorical
        Of one score a row or of K; label noise wraps it, a GLM's family is one.
    prior : Normal, StudentT, Jeffreys, "empirical", "ard" or None
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
