"""Arrays in, numbers out: scores, calibration, uncertainty, separation; and simulation of one's own model."""

from credibly.diagnostics.calibration import (
    CalibrationTest,
    calibration_error,
    calibration_test,
    randomised_pit,
    reliability_curve,
)
from credibly.diagnostics.curves import PrecisionRecallCurve, ROCCurve, precision_recall_curve, roc_curve
from credibly.diagnostics.reliability import ReliabilityCurve
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
    "PrecisionRecallCurve",
    "ROCCurve",
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
    "precision_recall_curve",
    "randomised_pit",
    "reliability_curve",
    "roc_curve",
    "sbc",
    "separation",
    "uncertainty_split",
]
