"""Figures of data, models and comparisons, drawn by matplotlib; every function returns the Axes it has drawn on."""

from credibly.plots.beliefs import prior_posterior
from credibly.plots.calibration import reliability
from credibly.plots.checks import khat, label_noise
from credibly.plots.columns import effect, latent_function
from credibly.plots.comparison import evidence, ranked_bars
from credibly.plots.curves import precision_recall, roc
from credibly.plots.surface import decision_surface
from credibly.plots.weights import coefficients

__all__ = [
    "coefficients",
    "decision_surface",
    "effect",
    "evidence",
    "khat",
    "label_noise",
    "latent_function",
    "precision_recall",
    "prior_posterior",
    "ranked_bars",
    "reliability",
    "roc",
]
