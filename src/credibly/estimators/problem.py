"""What is to be learnt, how, and what came of it: the records that pass between the files of this room."""

from typing import NamedTuple

from credibly.data.columns import Columns
from credibly.data.rows import Rows
from credibly.inference.drawn_posterior import DrawnPosterior, drawn_posterior
from credibly.inference.evidence import INTERCEPT_SCALE
from credibly.inference.frame import Frame
from credibly.inference.importance import Pairs
from credibly.inference.label_noise import NoiseMode
from credibly.inference.laplace import Controls
from credibly.inference.posterior import InferenceResult, WeightPosterior
from credibly.inference.prior_density import PriorDensity
from credibly.inference.row_space import RowSpace, RowSpacePosterior
from credibly.inference.targets import Target
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.arrays import Array
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights
from credibly.numerics.status import Status

PriorChoice = Normal | StudentT | Jeffreys | str | None


class Problem(NamedTuple):
    """All that learning needs to know of the data."""

    likelihood: AnyLikelihood
    rows: Rows  # of the design, in the frame
    raw: Rows  # before the frame
    frame: Frame
    columns: Columns
    shape: WeightShape
    names: list[str]
    start: Array | None = None  # free weights from which the search may start, where the prior's centre has no meaning
    unit: float = 1.0  # of slopes on standardised columns: what learnt prior scales are multiples of
    intercept_scale: float = INTERCEPT_SCALE  # of learnt priors, at the column means
    limits: ManyWeights = MANY_WEIGHTS


class Search(NamedTuple):
    """How the mode is looked for."""

    controls: Controls
    seed: int | None  # of stochastic gradient; None for Newton


class Drawn(NamedTuple):
    """Weighted draws in the place of the Gaussian that they came from."""

    pairs: Pairs
    log_weights: Array
    target: Target | None  # where the draws are of the skew-symmetric approximation


class Learnt(NamedTuple):
    """A posterior with the prior it came from."""

    result: InferenceResult
    prior: PriorDensity | None  # in the frame
    contrast: Array
    status: Status
    resolved: Normal | StudentT | Jeffreys | None = None  # the prior in data units
    prior_scale: Array | None = None  # on standardised columns, where learnt
    likelihood: AnyLikelihood | None = None  # with what was learnt of it, where it has parameters
    noise_modes: tuple[NoiseMode, ...] = ()
    drawn: Drawn | None = None
    log_evidence_se: float = 0.0  # of an evidence that is corrected by draws
    rung: str | None = None  # how far up "auto" climbed


def posterior_of(learnt: Learnt, frame: Frame) -> WeightPosterior | DrawnPosterior:
    """What was learnt as a posterior in data units: the Gaussian, or draws in its place."""
    gaussian, contrast, drawn = learnt.result.posterior, learnt.contrast, learnt.drawn
    around = WeightPosterior(gaussian, frame, contrast)
    if isinstance(frame, RowSpace):
        around = RowSpacePosterior(gaussian, frame, contrast)
    if drawn is None:
        return around
    return drawn_posterior(around, drawn.pairs.points, drawn.log_weights, drawn.target)
