"""The answer in words: what each column does, strongest first."""

from __future__ import annotations

from typing import NamedTuple

from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.report.material import Material
from credibly.report.tables import Table

MOST_SENTENCES = 8


class Answer(NamedTuple):
    """What a model has learnt, in words and as a table."""

    lead: str  # how to read it
    sentences: tuple[str, ...]  # strongest first
    tables: tuple[Table, ...]
    columns: tuple[int, ...]  # strongest first, by their place in the table
    notes: tuple[str, ...] = ()


def answer(material: Material) -> Answer:
    """The answer of a model, in the words of its kind."""
    from credibly.report.average_effects import averaged_answer
    from credibly.report.class_means import generative_answer
    from credibly.report.weights import linear_answer

    model = material.model
    if isinstance(model, LinearClassifier | BayesianGLM):
        return linear_answer(material)
    if isinstance(model, GenerativeClassifierBase):
        return generative_answer(material)
    return averaged_answer(material)
