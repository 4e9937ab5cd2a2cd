"""Draws of fitted models for ArviZ."""

from credibly.export.arviz import to_arviz

__all__ = ["to_arviz"]
