"""Saving and loading models: versioned files of JSON and arrays that never execute anything."""

from credibly.persistence.files import header, load, save

__all__ = ["header", "load", "save"]
