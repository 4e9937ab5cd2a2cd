"""What the table is made of: an input, how it is made from a harmless problem, and the answer decided for it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from reliability.estimators import Problem, Subject

Change = Callable[[Problem], Problem]


@dataclass(frozen=True)
class Fits:
    """A model comes out, with finite probabilities that sum to one."""

    warns: str | None = None  # words of the one kind of warning that is given


@dataclass(frozen=True)
class Same(Fits):
    """… and with the numbers that plain float64 rows in C order give."""


@dataclass(frozen=True)
class Refused:
    """An InputError with these words, by `fit`, or by `predict` after a fit."""

    words: str
    by: str = "fit"


@dataclass(frozen=True)
class NoArgument:
    """There is no such argument: Python's own TypeError."""


Answer = Fits | Refused | NoArgument


@dataclass(frozen=True)
class Input:
    """One row of the table."""

    name: str
    says: str
    change: Change
    answers: dict[str, Answer]
    """By estimator, by what it reads columns as, by kind, or "every"; the most particular one counts."""
    plain: Change | None = None
    """For `Same`: the plain problem of the same meaning; None: the harmless problem itself."""
    slow: tuple[str, ...] = field(default=())
    """Kinds and estimators for which it takes seconds."""

    def answer(self, subject: Subject) -> Answer:
        keys = [subject.name, subject.columns, subject.kind, "every"]
        if subject.kind == "average":  # of linear models
            keys.insert(3, "linear")
        return next(self.answers[key] for key in keys if key in self.answers)

    def takes_seconds(self, subject: Subject) -> bool:
        return bool({subject.name, subject.kind, "every"} & set(self.slow))


FITS, SAME = Fits(), Same()
# Under a prior that is all but flat in these units, or rows that hardly count: the status says that what comes after
# Laplace did not settle.
UNSETTLED = Fits(warns="did not settle|numerically flat")
NO_COUNTS: dict[str, Answer] = {"counts": Refused("holds counts"), "yes and no": Refused("holds 0 or 1")}
GENERATIVE = ("discriminant", "bayes")
MULTINOMIAL = "NaiveBayes, multinomial"


def generative(answer: Answer) -> dict[str, Answer]:
    return dict.fromkeys(GENERATIVE, answer)


def missing(words: str = "NaN in column 'x1'.*drop or impute.*Generative models") -> dict[str, Answer]:
    """A cell that is not there: the generative models take it, but for counts whose sum is then unknown."""
    return {
        "every": Refused(words),
        **generative(FITS),
        MULTINOMIAL: Refused("must not have missing cells"),
    }
