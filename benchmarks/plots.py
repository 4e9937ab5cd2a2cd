"""Cost against rows and against columns, log–log, for the page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import CaseResult, Measured
from benchmarks.tables import better_threads

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLOURS = {"ours": "#0b6e4f", "newton": "#3b6fb6", "first-order": "#c0662b", "other": "#8a5aa8", "limit": "#999999"}
MARKERS = "osD^vP*X"


def lines(results: Sequence[CaseResult], kind: str, along: str, held: dict[str, Any]) -> dict[str, list[Any]]:
    """(size, row) by method, for well-conditioned cases of a kind with everything but one size held."""
    found: dict[str, list[Any]] = {}
    for result in results:
        if result.spec["kind"] != kind or any(result.spec[key] != value for key, value in held.items()):
            continue
        for row in better_threads(result.measured):
            if row.times and (row.reached or row.family == "limit"):
                found.setdefault(row.method, []).append((result.spec[along], row))
    return {method: sorted(points, key=lambda point: point[0]) for method, points in found.items() if len(points) > 1}


def panel(axes: Any, found: dict[str, list[tuple[int, Measured]]], label: str) -> None:
    for i, points in enumerate(found.values()):
        row = points[0][1]
        ours, limit = row.family == "ours", row.family == "limit"
        axes.loglog(
            [size for size, _ in points],
            [measured.seconds for _, measured in points],
            marker="" if limit else MARKERS[i % len(MARKERS)],
            linestyle=("--" if row.method == "limits.hessian" else ":") if limit else "-",
            color=COLOURS[row.family],
            linewidth=2.5 if ours else 1.2,
            zorder=3 if ours else 2,
            label=row.label,
        )
    axes.set_xlabel(label)
    axes.set_ylabel("seconds")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=7, frameon=False)


PANELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bench_rows.png": ("logit", "n", {"columns": "well", "d": 30, "scale": 1.0}, "rows (30 columns)"),
    "bench_columns.png": ("logit", "d", {"columns": "well", "n": 100_000, "scale": 1.0}, "columns (100,000 rows)"),
    "bench_gp.png": ("gp", "n", {"n_test": 0}, "rows (Gaussian process)"),
}


def draw(results: Sequence[CaseResult], folder: Path = IMAGES) -> list[Path]:
    """The pictures for which there are two sizes at least."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    written = []
    for name, (kind, along, held, label) in PANELS.items():
        found = lines(results, kind, along, held)
        if not found:
            continue
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        panel(figure.subplots(), found, label)
        figure.savefig(folder / name, dpi=130, metadata={"Software": None})
        written.append(folder / name)
    return written
