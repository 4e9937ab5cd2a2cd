"""Saving and loading models: files of JSON and arrays, in which nothing is ever run."""

from credibly.persistence.model_file import header, load, save

__all__ = ["header", "load", "save"]
