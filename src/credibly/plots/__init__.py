"""Figures, drawn by matplotlib from arrays."""

from credibly.plots.comparison import ranked_bars

__all__ = ["ranked_bars"]
