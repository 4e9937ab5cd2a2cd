"""Arrays in, numbers out: scores, calibration, uncertainty, separation; and simulation of one's own model."""

from credibly.diagnostics.calibration import (
    CalibrationTest,
    ReliabilityCurve,
    calibration_error,
    calibration_test,
    randomised_pit,
    reliability_curve,
)
from credibly.diagnostics.scores import (
    AUC,
    BrierDecomposition,
    auc,
    brier_decomposition,
    brier_score,
    log_score,
)
from credibly.diagnostics.separation import Separation, separation
from credibly.diagnostics.simulation import SBC, Coverage, RankHistogram, SBCRow, Simulator, sbc
from credibly.diagnostics.uncertainty import UncertaintySplit, uncertainty_split

__all__ = [
    "AUC",
    "SBC",
    "BrierDecomposition",
    "CalibrationTest",
    "Coverage",
    "RankHistogram",
    "ReliabilityCurve",
    "SBCRow",
    "Separation",
    "Simulator",
    "UncertaintySplit",
    "auc",
    "brier_decomposition",
    "brier_score",
    "calibration_error",
    "calibration_test",
    "log_score",
    "randomised_pit",
    "reliability_curve",
    "sbc",
    "separation",
    "uncertainty_split",
]
