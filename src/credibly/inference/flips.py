"""What is believed of flip probabilities that are estimated."""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from credibly.model.priors import Beta
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.special import log_sigmoid, sigmoid


@dataclass(frozen=True)
class FlipBelief:
    r"""Which flip probabilities are estimated, and what is believed about them.

    .. math:: ε = \tfrac12 σ(θ), \qquad 2ε \sim \mathrm{Beta}(a, b)

    The log density of θ = logit 2ε is concave.

    Parameters
    ----------
    index : (E,) int array
        Which entry of θ each flip probability has; -1 for one that is fixed. Two alike are one parameter.
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
        """ε, (E,), for logits θ, (T,)."""
        return np.where(self.index < 0, self.fixed, 0.5 * sigmoid(theta)[self.index])

    def slope(self, theta: Array) -> Array:
        """dε/dθ, (E, T)."""
        rate = 0.5 * sigmoid(theta) * sigmoid(-theta)
        return np.where(self.index[:, None] == np.arange(self.n_free), rate, 0.0)

    def log_density(self, theta: Array | float) -> float:
        """log p(θ), with the Jacobian of the logit."""
        a, b, logit = self.beta.a, self.beta.b, np.asarray(theta)
        return float((a * log_sigmoid(logit) + b * log_sigmoid(-logit) - betaln(a, b)).sum())

    def gradient(self, theta: Array) -> Array:
        """Gradient of minus the log density."""
        return np.asarray(self.beta.b * sigmoid(theta) - self.beta.a * sigmoid(-theta))
