"""Ways out of the library: draws for ArviZ, and coefficients for scoring elsewhere."""

from credibly.export.inference_data import to_arviz
from credibly.export.scoring import to_json

__all__ = ["to_arviz", "to_json"]
