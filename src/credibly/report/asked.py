"""What was asked: the target, the classes, the model and its prior, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative import LinearDiscriminant, NaiveBayes, QuadraticDiscriminant
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear import BayesianLogisticRegression, BayesianProbitRegression
from credibly.estimators.model_average import ModelAverage
from credibly.model.priors import Jeffreys
from credibly.report.material import Material
from credibly.report.tables import Cell, Head, Table, numeric
from credibly.report.words import count, counted, listed, number, percent

INFERENCES = {
    "laplace": "by Laplace's approximation: a Gaussian at the mode, with the curvature there",
    "variational": "by variational inference: of all Gaussians the one of least divergence from it",
    "ep": "by expectation propagation: a Gaussian with nearly the right mean and covariance",
    "exact": "by draws from it, of Hamiltonian chains",
    "adf": "by assumed-density filtering: one pass over the rows, in their order",
    "adf_spherical": "by assumed-density filtering with one variance for all weights",
}


def shares(material: Material) -> Table:
    """The classes and how many rows each has."""
    counts = np.bincount(material.codes, minlength=len(material.classes))
    heads = [Head("Class", numeric=False), Head("Rows"), Head("Share")]
    rows = [
        [Cell(label), Cell(count(int(n)), float(n)), numeric(n / counts.sum(), percent(n / counts.sum()))]
        for label, n in zip(material.labels, counts, strict=True)
    ]
    return Table.of("The classes", heads, rows)


def question(material: Material) -> str:
    """One sentence: what is to be told from what."""
    if material.about.question:
        return material.about.question
    what = material.about.target or "the class"
    n, d = len(material.codes), len(material.sources)
    return (
        f"How probable is each value of {what} ({listed(material.labels, 4)}), given {counted(d, 'column')}? Learnt "
        f"from {counted(n, 'row')}."
    )


def method(material: Material) -> tuple[str, ...]:
    """The model, its prior and its inference, a sentence each."""
    model = material.model
    said = [_family(model)]
    prior = _prior(model)
    if prior:
        said.append(prior)
    inference = _inference(model)
    if inference:
        said.append(inference)
    return (*said, *_noise(model))


def _family(model: Any) -> str:
    kind = next((said for kind, said in KINDS.items() if isinstance(model, kind)), _threshold)
    return f"The model is {kind if isinstance(kind, str) else kind(model)}."


def _softmax_or_logit(model: Any) -> str:
    several = " for several classes (softmax)" if len(model.classes_) > 2 else ""
    return f"logistic regression{several}: log odds linear in the columns"


def _threshold(model: Any) -> str:
    shown = model.threshold if isinstance(model.threshold, str) else repr(model.threshold)
    return f"a noisy threshold: a score linear in the columns, and a threshold with the distribution {shown}"


def _families(model: Any) -> str:
    kinds, counts = np.unique(np.asarray(model.features_, dtype=str), return_counts=True)
    return ", ".join(f"{counted(int(n), 'column')} {kind}" for kind, n in zip(kinds, counts, strict=True))


KINDS: dict[type, str | Callable[[Any], str]] = {  # the first that fits
    BayesianLogisticRegression: _softmax_or_logit,
    BayesianProbitRegression: "probit regression: a score linear in the columns, and a normally distributed threshold",
    BayesianGLM: lambda it: f"a generalised linear model: the {it.family_.name} family with the {it.link_.name} link",
    LinearDiscriminant: "linear discriminant analysis: Gaussian columns with one covariance for all classes",
    QuadraticDiscriminant: "quadratic discriminant analysis: Gaussian columns with a covariance for each class",
    NaiveBayes: lambda it: f"naive Bayes: columns independent within each class ({_families(it)})",
    GenerativeClassifierBase: "a generative classifier: a distribution of the columns in each class, and Bayes' rule",
    GaussianProcessResults: lambda it: f"a Gaussian process: a smooth function of the columns, kernel {it.kernel_!r}",
    ModelAverage: lambda it: f"an average of {counted(len(it.models_), 'model')}, each as far as it is believed",
}


def _prior(model: Any) -> str | None:
    if isinstance(model, ModelAverage | GaussianProcessResults):
        return None
    if isinstance(model, GenerativeClassifierBase):
        return _generative_prior(model)
    prior, words = model.prior, None
    if prior is None:
        words = "There is no prior: these are maximum-likelihood estimates, used in predictions as if they were known."
    elif isinstance(prior, Jeffreys):
        words = "The prior is Jeffreys' (Firth's bias reduction)."
    elif isinstance(prior, str) and prior in ("empirical", "hierarchical"):
        how = (
            "that the data chose, by the evidence" if prior == "empirical" else "that was drawn along with the weights"
        )
        words = (
            "The prior says that a step of one standard deviation in a column moves the score by "
            f"{number(float(np.mean(model.prior_scale_)), 2)} or so, up or down: a scale {how}."
        )
    elif isinstance(prior, str):
        words = "The prior has a scale for each column, chosen by the evidence: columns may be switched off."
    return words or f"The prior of the weights is {prior!r}, in the units of the columns."


def _generative_prior(model: Any) -> str:
    if model.parameters != "integrated":
        return f"Its parameters are estimates ({model.parameters}); the uncertainty about them is not counted."
    if not isinstance(model.prior, str):
        return f"Its prior is {model.prior!r}."
    if model.prior == "reference":
        return "Its prior is the improper reference prior."
    return "Its prior is a weak one around the mean and spread of all rows, classes mixed."


def _inference(model: Any) -> str | None:
    if isinstance(model, GenerativeClassifierBase):
        return "All sums and integrals are in closed form." if model.parameters == "integrated" else None
    if isinstance(model, ModelAverage):
        return None
    used = getattr(model, "rung_", model.inference)
    later = model.inference == "auto" and used != "laplace"
    why = "; Laplace's approximation was not close enough" if later else ""
    return f"The posterior was found {INFERENCES[used]}{why}."


def _noise(model: Any) -> tuple[str, ...]:
    flips = np.atleast_1d(np.asarray(getattr(model, "label_noise_", 0.0), dtype=float))
    if not flips.any():
        return ()
    rate = " and ".join(percent(float(flip)) for flip in flips)
    learnt = "estimated" if np.any(getattr(model, "label_noise_std_", 0.0)) else "assumed"
    return (
        f"Labels are taken to be wrong with a probability of {rate} ({learnt}); predictions are of the true class.",
    )
