"""Which model? Fit several to the same rows, and rank them by how probable they make the labels."""

from credibly.comparison.ranking import compare
from credibly.comparison.result import Comparison

__all__ = ["Comparison", "compare"]
