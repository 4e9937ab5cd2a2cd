"""Learning the shape of a normal-mixture threshold: the one of highest evidence."""

import warnings

import numpy as np

from credibly.errors import DataWarning, InputError, NotPositiveDefinite
from credibly.estimators.learning import learn, objective_of
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.inference.laplace import laplace
from credibly.inference.posterior import InferenceResult
from credibly.model.likelihoods import BernoulliMixture, NormalMixture
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import Array

LOGIT_BOUND = 3.0  # a part has at least a twentieth of the mass of another: smaller ones chase single rows
MEAN_BOUND = 6.0  # in scales of the last part
LOG_SCALE_BOUND = 2.5  # a part is at most some twelve times as wide as another: narrower ones chase single rows
DIFFERENCE = 1e-4  # forward differences of an evidence known to 1e-10
MOST_ROUNDS = 6  # of prior scales and shape in turn
ROWS_PER_NUMBER = 30
GAIN = 1e-4  # nats: a round that gains less is the last


def learn_mixture(problem: Problem, mixture: NormalMixture, choice: PriorChoice, search: Search) -> Learnt:
    """Maximise the evidence (the likelihood, without a prior) over the 3K - 3 numbers of a mixture's shape.

    The given mixture is the start. Its mean and variance cannot be told from intercept and slopes: they are 0 and 1.
    Prior scales that are to be learnt and the shape take turns.
    """
    if isinstance(choice, Jeffreys):
        raise InputError("Under Jeffreys() the shape of a threshold cannot be learnt: there is no evidence to compare.")
    shape = mixture.standardised().to_vector()
    if problem.rows.n_rows < ROWS_PER_NUMBER * shape.size:
        warnings.warn(
            f"{problem.rows.n_rows} rows are few to learn the {shape.size} numbers of a threshold's shape from; give "
            f"the mixture, or at least {ROWS_PER_NUMBER * shape.size} rows.",
            DataWarning,
            stacklevel=6,
        )
    best = _at(problem, shape, choice, search)
    for _ in range(MOST_ROUNDS if shape.size else 0):
        shape = _best_shape(problem, shape, best, search)
        learnt = _at(problem, shape, choice, search)
        gain = _height(learnt.result) - _height(best.result)
        best = learnt if gain > 0 else best
        if gain < GAIN:
            break
    return best


def _at(problem: Problem, shape: Array, choice: PriorChoice, search: Search) -> Learnt:
    likelihood = _likelihood(shape)
    return learn(problem._replace(likelihood=likelihood), choice, search)._replace(likelihood=likelihood)


def _likelihood(shape: Array) -> BernoulliMixture:
    return BernoulliMixture(NormalMixture.from_vector(shape, learn=True))


def _best_shape(problem: Problem, start: Array, learnt: Learnt, search: Search) -> Array:
    """The shape of highest evidence under the prior of a fit, every search starting at the last mode."""
    from scipy.optimize import minimize

    mode = learnt.result.posterior.mean

    def loss(shape: Array) -> float:
        nonlocal mode
        objective = objective_of(problem._replace(likelihood=_likelihood(shape)), learnt.prior, learnt.contrast)
        try:
            result = laplace(objective, mode, search.controls)
        except NotPositiveDefinite:  # without a prior, a shape that explains the rows ever better far out
            return float("inf")
        mode = result.posterior.mean
        return -_height(result)

    bounds = np.repeat([LOGIT_BOUND, MEAN_BOUND, LOG_SCALE_BOUND], start.size // 3)
    found = minimize(
        loss,
        np.clip(start, -bounds, bounds),  # a shape outside is only a start that is moved inside
        method="L-BFGS-B",
        bounds=list(zip(-bounds, bounds, strict=True)),
        options={"eps": DIFFERENCE, "ftol": 1e-9, "gtol": 1e-4, "maxiter": 50},
    )
    return np.asarray(found.x)


def _height(result: InferenceResult) -> float:
    return result.log_likelihood if np.isnan(result.log_evidence) else result.log_evidence
