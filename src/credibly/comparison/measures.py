"""One model of a comparison: fitted, and measured by everything it can be ranked by."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.base import clone

from credibly.comparison.candidates import BY_EVIDENCE, Candidate, final_step
from credibly.errors import CrediblyError
from credibly.estimators.glm import BayesianGLM
from credibly.inference.gaussian import Gaussian
from credibly.model.likelihoods.families import Gaussian as Normally
from credibly.model.likelihoods.links import Identity
from credibly.numerics.arrays import Array

PERMUTATIONS = 10  # orders of the rows over which a prequential score is averaged
NAN = float("nan")
EVIDENCE, PREQUENTIAL, JOINT = "evidence", "prequential", "joint evidence"


class Request(NamedTuple):
    """What is asked of every model alike."""

    by: str
    all_generative: bool
    seed: int  # the same for all, so that their order does not matter

    @property
    def joint(self) -> bool:
        """Whether models stand on the scale of p(X, y), generative ones among themselves."""
        return self.all_generative and self.by in {"joint_evidence", "bic"}


class Evidence(NamedTuple):
    """A log evidence with its error bar, and how far it can be trusted."""

    value: float = NAN
    se: float = NAN
    khat: float = NAN
    doubt: str | None = None


class Measured(NamedTuple):
    """A row of a comparison."""

    name: str
    kind: str  # what `evidence` is
    model: Any = None  # fitted; None if that failed
    fit_time: float = NAN
    error: str | None = None
    evidence: Evidence = Evidence()
    bic: float = NAN
    aic: float = NAN
    loo: Array | None = None  # (n,), log p(y_i | other rows)
    effective_parameters: float = NAN
    notes: tuple[str, ...] = ()

    @property
    def loo_sum(self) -> float:
        """Σ log p(y_i | other rows); NaN where a row has none."""
        return NAN if self.loo is None else float(self.loo.sum())

    def score(self, by: str) -> float:
        """What models are ranked by, on the scale of a log probability: larger is better."""
        return {"bic": -0.5 * self.bic, "loo": self.loo_sum}.get(by, self.evidence.value)


def kind_of(candidate: Candidate, request: Request) -> str:
    """On which scale a model's evidence stands."""
    if not candidate.generative:
        return EVIDENCE
    return JOINT if request.joint else PREQUENTIAL


def measure(candidate: Candidate, X: Any, y: Any, request: Request) -> Measured:
    """Fit a clone and measure it; a failure is told in its row, warnings become notes."""
    row = Measured(candidate.name, kind_of(candidate, request))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            model = clone(candidate.estimator).fit(X, y)
            row = row._replace(model=model, fit_time=time.perf_counter() - start)
            row = _numbers(row, candidate, X, y, request)
        except Exception as error:  # whatever it is, the other models are not lost
            row = row._replace(error=_said(error))
    said = dict.fromkeys(f"{it.category.__name__}: {it.message}" for it in caught)
    return row._replace(notes=(*row.notes, *said))


def _numbers(row: Measured, candidate: Candidate, X: Any, y: Any, request: Request) -> Measured:
    final, rows = final_step(row.model), _transformed(row.model, X)
    notes: list[str] = []

    errors: list[str] = []

    def ask(what: Callable[[], Any], nothing: Any, *rankings: str) -> Any:
        """A number, or nothing; what is missing is told where it is more than not defined, or ranked by."""
        try:
            return what()
        except Exception as error:  # the other numbers are not lost
            if request.by in rankings:
                errors.append(_said(error))
            elif not isinstance(error, AttributeError):  # that is: it does not exist for this model
                notes.append(_said(error))
            return nothing

    conditional = not candidate.generative
    measured = row._replace(
        evidence=ask(lambda: _evidence(final, row.kind, rows, y, request.seed), Evidence(), *BY_EVIDENCE),
        bic=ask(lambda: final.bic_ if conditional or request.all_generative else NAN, NAN, "bic"),
        aic=ask(lambda: final.aic_ if conditional or request.all_generative else NAN, NAN),
        loo=ask(lambda: final.loo_log_proba_ if conditional else final.loo_log_proba(rows, y), None, "loo"),
        effective_parameters=ask(lambda: final.effective_parameters_, NAN),
    )
    return measured._replace(notes=tuple(notes), error=errors[0] if errors else None)


def _evidence(final: Any, kind: str, X: Any, y: Any, seed: int) -> Evidence:
    if kind == PREQUENTIAL:
        score = final.prequential_score(X, y, permutations=PERMUTATIONS, random_state=seed)
        return Evidence(score.mean, score.std)
    own = float(final.log_evidence_)
    if kind == JOINT or _exact(final):
        return Evidence(own, 0.0)
    certify = getattr(final, "certify", None)
    if certify is None:
        return Evidence(own)
    try:
        certificate = certify(X, y, random_state=seed)
    except CrediblyError as error:  # as for label noise that is estimated: certificates are about the rest
        return Evidence(own, doubt=_said(error))
    khat = float(certificate.khat)
    if certificate.reliable:
        return Evidence(float(certificate.log_evidence), float(certificate.log_evidence_se), khat)
    return Evidence(own, NAN, khat, str(certificate.verdict))


def _exact(model: Any) -> bool:
    """Whether the evidence is in closed form: a Gaussian target, on the identity link, with a normal prior."""
    if not isinstance(model, BayesianGLM) or not isinstance(model.fit_.prior, Gaussian):
        return False
    return isinstance(model.family_, Normally) and isinstance(model.link_, Identity)


def _transformed(model: Any, X: Any) -> Any:
    """Rows as they reach the last step of a pipeline."""
    return X if final_step(model) is model or len(model.steps) == 1 else model[:-1].transform(X)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
