"""A fitted model and its rows as one self-contained HTML page: what it found, how sure it is, what it cannot tell."""

from credibly.report.build import report, report_table
from credibly.report.material import About, Settings
from credibly.report.page import Report

__all__ = ["About", "Report", "Settings", "report", "report_table"]
