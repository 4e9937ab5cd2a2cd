"""Arrays in, numbers out: scores, calibration, separation."""

from credibly.diagnostics.scores import brier_score, calibration_error, log_score
from credibly.diagnostics.separation import Separation, separation

__all__ = ["Separation", "brier_score", "calibration_error", "log_score", "separation"]
