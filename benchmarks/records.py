"""What a run leaves behind: plain records, gaps, medians, and strict JSON files."""

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS

FOLDER = RESULTS
FORM = "credibly benchmark, 1"


def relative_gap(value: float, best: float) -> float:
    """How far an objective is above the best one known, as a part of it; NaN when either is not a number."""
    return (value - best) / abs(best) if best else value - best


def best_known(values: Iterable[float]) -> float:
    """The smallest finite one; NaN when there is none."""
    return min((value for value in values if math.isfinite(value)), default=math.nan)


@dataclass(frozen=True)
class Measured:
    """A method on a problem: how long, how good, how much memory."""

    method: str
    label: str
    family: str
    threads: int | None  # None: as the package does by itself
    tolerance: float
    times: tuple[float, ...]  # seconds, one for each run
    value: float = math.nan
    gap: float = math.nan  # of the objective, relative to the best known
    gradient_norm: float = math.nan
    difference: float = math.nan  # largest, of probabilities, from those of the reference
    reached: bool = False
    extra_bytes: int | None = None  # peak of the first fit in a fresh process, above the input and what was loaded
    stopped: float = math.nan  # seconds after which it was ended
    note: str = ""

    @property
    def seconds(self) -> float:
        """Median; NaN when it never finished."""
        return statistics.median(self.times) if self.times else math.nan


@dataclass(frozen=True)
class Verdict:
    """One thing asked of a case, and what came."""

    asked: str
    found: str
    met: bool | None  # None: nothing to compare with


@dataclass(frozen=True)
class CaseResult:
    """A case after its run."""

    case: str
    title: str
    mode: str
    spec: dict[str, Any]
    input_bytes: int
    machine: dict[str, Any]
    load: tuple[float | None, float | None]
    measured: tuple[Measured, ...]
    verdicts: tuple[Verdict, ...]

    def of(self, family: str) -> list[Measured]:
        return [row for row in self.measured if row.family == family]

    @property
    def ours(self) -> Measured | None:
        """The fastest of ours that got there; else any of them."""
        mine = self.of("ours")
        return fastest(row for row in mine if row.reached) or fastest(mine) or next(iter(mine), None)

    @property
    def peers(self) -> list[Measured]:
        return [row for row in self.measured if row.family not in ("ours", "limit")]


def fastest(rows: Iterable[Measured]) -> Measured | None:
    """By the median of turns; a time from a probe counts only where no row has had turns."""
    finished = [row for row in rows if row.times]
    turned = [row for row in finished if len(row.times) > 1]
    return min(turned or finished, key=lambda row: row.seconds, default=None)


# --- files ---------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Without NaN and infinities, which JSON has not: None stands for them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def number(value: Any) -> float:
    return math.nan if value is None else float(value)


NUMBERS = ("tolerance", "value", "gap", "gradient_norm", "difference", "stopped")


def measured_from(record: dict[str, Any]) -> Measured:
    numbers = {name: number(record[name]) for name in NUMBERS}
    return Measured(**(record | numbers | {"times": tuple(record["times"])}))


def result_from(record: dict[str, Any]) -> CaseResult:
    fields = {key: value for key, value in record.items() if key != "form"}
    fields["load"] = tuple(fields["load"])
    fields["measured"] = tuple(measured_from(row) for row in fields["measured"])
    fields["verdicts"] = tuple(Verdict(**row) for row in fields["verdicts"])
    return CaseResult(**fields)


def save(result: CaseResult, folder: Path = FOLDER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.case}.json"
    text = json.dumps({"form": FORM, **plain(dataclasses.asdict(result))}, indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def load(folder: Path = FOLDER, order: Sequence[str] = ()) -> list[CaseResult]:
    """All results of this form in a folder; those named in `order` first."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = {
        record["case"]: result_from(record)
        for record in records
        if isinstance(record, dict) and record.get("form") == FORM
    }
    names = [name for name in order if name in found] + sorted(found.keys() - set(order))
    return [found[name] for name in names]


def load_passes(path: Path = FOLDER / "passes.json") -> dict[str, Any] | None:
    """What `benchmarks.passes` has left."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
