"""Tables as they come: which columns a model uses, how they become numbers, and models that remember it."""

from credibly.tables.columns import Column
from credibly.tables.comparing import TableComparison, compare_table
from credibly.tables.design import ColumnsDesign
from credibly.tables.fingerprint import Fingerprint
from credibly.tables.formula import FormulaDesign
from credibly.tables.model import Choices, TableModel

__all__ = [
    "Choices",
    "Column",
    "ColumnsDesign",
    "Fingerprint",
    "FormulaDesign",
    "TableComparison",
    "TableModel",
    "compare_table",
]
