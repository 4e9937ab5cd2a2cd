"""The whole table, by sections."""

from reliability.cells import CELLS
from reliability.columns import COLUMNS
from reliability.containers import ARRAYS, FRAMES, SPARSE
from reliability.inputs import Input
from reliability.labels import LABEL_SHAPES, LABELS, WEIGHTS
from reliability.questions import QUESTIONS
from reliability.shapes import CLASSES, TABLE_SHAPES

SECTIONS: dict[str, list[Input]] = {
    "Cells": CELLS,
    "Arrays and lists": ARRAYS,
    "Data frames": FRAMES,
    "Columns of data frames": COLUMNS,
    "Sparse tables": SPARSE,
    "Shapes": TABLE_SHAPES,
    "Classes": CLASSES,
    "Labels": LABELS,
    "Shapes of labels": LABEL_SHAPES,
    "Weights": WEIGHTS,
    "Questions to a fitted model": QUESTIONS,
}
