"""Models by the names that the command gives them, with options as text."""

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    Jeffreys,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
    StudentT,
)
from credibly.errors import DataWarning, InputError
from credibly.estimators.gaussian_process_plan import INFERENCES as PROCESS_INFERENCES
from credibly.estimators.linear_base import LEARNT_PRIORS
from credibly.inference.linear.spec import INFERENCES

AUTO = "auto"
MODELS: dict[str, Callable[..., Any]] = {
    "logistic": BayesianLogisticRegression,
    "probit": BayesianProbitRegression,
    "cauchit": lambda **options: NoisyThresholdClassifier(threshold="cauchy", **options),
    "lda": LinearDiscriminant,
    "qda": QuadraticDiscriminant,
    "naive-bayes": NaiveBayes,
    "gp": GaussianProcessClassifier,
}
TWO_CLASSES = ("probit", "cauchit")
GENERATIVE = ("lda", "qda", "naive-bayes")
MOST_ROWS_GP = 600  # a Gaussian process of more rows is only fitted when it is asked for: time grows with their cube


class Options(NamedTuple):
    """What a user may say of a model, as text."""

    prior: str | None = None
    inference: str | None = None
    label_noise: str | None = None


class Size(NamedTuple):
    """What the choice of models depends on."""

    n_rows: int
    n_classes: int
    gaps: bool  # missing cells, and no word on what to do with them


def make_model(name: str, options: Options) -> Any:
    """An unfitted estimator by its name on the command line."""
    if name not in MODELS:
        raise InputError(f"There is no model {name!r}; choose from {', '.join([*MODELS, AUTO])}.")
    given = {
        "prior": _prior(options.prior, generative=name in GENERATIVE),
        "inference": _one_of(options.inference, INFERENCES, "--inference"),
        "label_noise": _label_noise(options.label_noise),
    }
    chosen = {option: value for option, value in given.items() if value is not UNSAID}
    known = signature(NoisyThresholdClassifier if name == "cauchit" else MODELS[name]).parameters
    for option in chosen:
        if option not in known:
            raise InputError(f"--{option.replace('_', '-')} has no meaning for --model {name}; leave it out.")
    return MODELS[name](**chosen)


def candidates(names: str | None, options: Options, size: Size) -> dict[str, Any]:
    """The models of a comparison by name: those that are asked for, or all that suit the data."""
    if names is not None:
        return {name: make_model(name, options) for name in split_names(names)}
    if options != Options():
        warnings.warn(
            "--prior, --inference and --label-noise are for logistic, probit and cauchit; other models take what they "
            "know of them, and their defaults else.",
            DataWarning,
            stacklevel=2,
        )
    return {name: make_model(name, _fitting(name, options)) for name in suitable(size)}


def suitable(size: Size) -> list[str]:
    """Models worth a look: not those for two classes where there are more, nor those that take too long."""
    names = [name for name in MODELS if name in GENERATIVE or not size.gaps]
    if size.n_classes > 2:
        names = [name for name in names if name not in TWO_CLASSES]
    return [name for name in names if name != "gp" or size.n_rows * (size.n_classes - 1) <= MOST_ROWS_GP]


def _fitting(name: str, options: Options) -> Options:
    """Options that mean something to a model that was not asked for by name."""
    if name in GENERATIVE:
        return Options()
    if name != "gp":
        return options
    known = options.inference in PROCESS_INFERENCES
    return options._replace(prior=None, inference=options.inference if known else None)


def split_names(text: str) -> list[str]:
    """Names that are separated by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"Expected names separated by commas; got {text!r}.")
    return names


# --- options as text -----------------------------------------------------------------------------------------------

UNSAID = object()


def _one_of(text: str | None, allowed: tuple[str, ...], option: str) -> Any:
    if text is None:
        return UNSAID
    if text not in allowed:
        raise InputError(f"{option} must be one of {', '.join(allowed)}; got {text!r}.")
    return text


def _prior(text: str | None, *, generative: bool) -> Any:
    if text is None:
        return UNSAID
    if generative:
        return _one_of(text, ("empirical", "reference"), "--prior of lda, qda and naive-bayes")
    if text in LEARNT_PRIORS:
        return text
    kind, _, numbers = text.partition(":")
    makers: dict[str, Callable[..., Any]] = {
        "none": lambda: None,
        "jeffreys": Jeffreys,
        "normal": lambda scale=2.5: Normal(scale=scale),
        "student": lambda df=7.0, scale=2.5: StudentT(df=df, scale=scale),
    }
    try:
        return makers[kind](*([float(number) for number in numbers.split(",")] if numbers else []))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"--prior must be {', '.join(LEARNT_PRIORS)}, none, jeffreys, normal:SCALE (normal:2.5) or "
            f"student:DF,SCALE (student:7,2.5); got {text!r}."
        ) from error


def _label_noise(text: str | None) -> Any:
    if text is None:
        return UNSAID
    if text == "estimate":
        return text
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        raise InputError(
            "--label-noise must be 'estimate', a probability below 1/2, or two of them (recorded 1 though 0, recorded "
            f"0 though 1) with a comma between; got {text!r}."
        )
    return values[0] if len(values) == 1 else tuple(values)
