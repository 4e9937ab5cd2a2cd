"""A reliability curve: as a table, a frame, a figure."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

TABLE_ROWS = 12  # of a curve that are printed


@dataclass(frozen=True)
class ReliabilityCurve:
    """What was said and what happened, bin by bin; every array is (B,), in the order of the probabilities.

    Attributes
    ----------
    predicted : mean probability
    observed : relative frequency
    count : rows
    low, high : interval of the frequency that rows of the bin would have in the long run (Wilson)
    band_low, band_high : where `observed` lies, with probability `level` or more, if the probabilities are right
    level : float
    what : str
        Which probability is looked at.

    Examples
    --------
    >>> from credibly.diagnostics import reliability_curve
    >>> curve = reliability_curve([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], bins=2)
    >>> curve.what, curve.observed
    ('P(1)', array([0., 1.]))
    """

    predicted: Array
    observed: Array
    count: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array
    level: float
    what: str

    @property
    def inside(self) -> Array:
        """Whether each bin's frequency is in its consistency band."""
        return np.asarray((self.band_low <= self.observed) & (self.observed <= self.band_high))

    def __str__(self) -> str:
        lines = [
            f"{self.what}: {int(self.inside.sum())} of {len(self.count)} bins inside the {self.level:.0%} band",
            f"{'predicted':>10}{'observed':>10}{'low':>8}{'high':>8}{'band':>16}{'rows':>8}",
        ]
        for p, o, a, b, c, d, n in zip(*self._columns(), strict=True):
            lines.append(f"{p:10.3f}{o:10.3f}{a:8.3f}{b:8.3f}{f'{c:.3f} … {d:.3f}':>16}{int(n):8d}")
        hidden = len(self.count) - TABLE_ROWS
        return "\n".join(lines[: TABLE_ROWS + 2] + ([f"… and {hidden} more"] if hidden > 0 else []))

    def _columns(self) -> list[Array]:
        return [self.predicted, self.observed, self.low, self.high, self.band_low, self.band_high, self.count]

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame, one row for each bin, with whether it is `inside`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install 'credibly[data]'") from error

        names = [field.name for field in fields(self) if field.name not in {"level", "what"}]
        return pd.DataFrame({name: getattr(self, name) for name in names} | {"inside": self.inside})

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagram, without the histogram that `credibly.plots.reliability` puts beneath it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from credibly.plots.calibration import draw_reliability

        return draw_reliability(self, ax)
