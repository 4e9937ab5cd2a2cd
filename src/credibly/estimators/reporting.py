"""A page about a fitted model, as a method of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from credibly.report import Report


class ReportMixin:
    """`report`, for every classifier."""

    def report(
        self,
        X: Any,
        y: Any,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        target: str | None = None,
        notes: Sequence[str] = (),
        comparison: Any = None,
        level: float = 0.9,
        random_state: int | None = None,
        overwrite: bool = True,
    ) -> Report:
        """One self-contained HTML page: the answer in words, pictures, calibration, certificate, limits.

        Parameters
        ----------
        X, y
            The rows and labels of the fit.
        path : path, optional
            Where to write the page.
        title, target : str, optional
            The heading of the page, and what the labels are of.
        notes : sequence of str
            What was dropped or changed before the fit.
        comparison : Comparison, optional
            Of this model with others; see `credibly.compare`.
        level : float
            Mass of all intervals.
        random_state : int or None
            Of folds and draws; None is always the same.
        overwrite : bool
            Whether a file that exists may be replaced.

        Returns
        -------
        Report
            With `html` and `save(path)`; shows itself in a notebook. `credibly.report.report` takes more.
        """
        from credibly.report import About, Settings, report

        about = About(title=title, target=target, notes=tuple(notes), comparison=comparison)
        return report(self, X, y, path, about, Settings(level, random_state, overwrite=overwrite))
