"""What the linear classifiers share: validate, encode, assemble, delegate."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.diagnostics.inputs import generator
from credibly.estimators.certificate import Certificate
from credibly.estimators.lazily import lazily
from credibly.estimators.linear_base import LinearModel, only
from credibly.estimators.noise import read_noise, with_noise
from credibly.estimators.not_in_memory import is_stored
from credibly.estimators.partial_labels import read_classes, refuse_other_classes
from credibly.estimators.probabilities import LabelNoiseMixin, ProbabilityMixin
from credibly.estimators.stored import (
    AnyTable,
    Walk,
    as_in_fit,
    as_it_is,
    read_stored,
    recorded,
    resumable,
    stored_rows,
    with_references,
)
from credibly.estimators.tests import HypothesisTests
from credibly.estimators.validation import all_or_nothing, check_draws, forget_fit, read_training
from credibly.inference.linear.posterior import DrawnPosterior
from credibly.inference.linear.spec import BY_MOMENTS, Data, PriorChoice
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array
from credibly.predictive import Predictive, interval_over_draws, log_proba_over_draws, predictive_of


class LinearClassifier(LabelNoiseMixin, ProbabilityMixin, ClassifierMixin, HypothesisTests, LinearModel):
    """What the linear classifiers share: everything but the likelihood."""

    _multi_class: ClassVar[bool]

    def __init__(
        self,
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "auto",
        solver: str = "newton",
        label_noise: Any = 0.0,
        draws: int | None = None,
        max_passes: int | None = None,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.inference = inference
        self.solver = solver
        self.label_noise = label_noise
        self.draws = draws
        self.max_passes = max_passes
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _likelihood_for(self, n_classes: int) -> Likelihood | Categorical:
        """The likelihood for so many classes, or an error."""

    # --- fitting -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        resume: str | Path | None = None,
    ) -> Self:
        """Fit the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame; Dask array or frame; ParquetRows
            Numbers only, all finite.
        y : (n,) labels
            Two or more classes. `ParquetRows` have their own.
        sample_weight : (n,) array, optional
            Multiplies each row's log-likelihood: a weight of 2 is the row twice. 0 or at least 1 for
            ``inference="ep"``, 0 or 1 for "adf".
        resume : path, optional
            A file in which the results of every pass over the rows are kept until the fit is done: a fit that was
            stopped goes on from there when it is called again in the same way.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas(), resumable(self, resume) as walk:
            self._check_choices()
            table = self._read_table(X, y, sample_weight, walk)
            forget_fit(self)
            self._first_fit(table, walk)
        return self

    def partial_fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows: yesterday's posterior is today's prior.

        The first call is `fit`. Prior scales and the standardization are learnt there and kept; log evidence and log
        likelihood accumulate by the chain rule.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : (K,) labels, optional
            All classes there will ever be; needed at the first call if its rows lack some.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            known = None if classes is None else read_classes(classes)
            if not hasattr(self, "fit_"):
                self._first_fit(self._read_table(X, y, sample_weight, as_it_is, classes=known), as_it_is)
            else:
                refuse_other_classes(known, self.classes_)
                table = self._read_table(X, y, sample_weight, as_it_is, classes=self.classes_, reset=False)
                self._update(table.training(self._likelihood))
        return self

    def _check_choices(self) -> None:
        self._check_shared_choices()
        only(self.solver, dict.fromkeys(("newton", "sgd")), "solver")

    def _read_table(
        self, X: Any, y: Any, sample_weight: Any, walk: Walk, *, classes: Any = None, reset: bool = True
    ) -> AnyTable:
        """Rows in memory, or the classes and columns of rows that are not."""
        if not is_stored(X):
            return read_training(self, X, y, sample_weight, classes=classes, reset=reset)
        found = stored_rows(X, y, sample_weight)
        rows = with_references(self, found, self.prior) if reset else as_in_fit(self, found)
        return read_stored(self, walk(rows), rows, classes=classes, reset=reset)

    def _first_fit(self, table: AnyTable, walk: Walk) -> None:
        likelihood: AnyLikelihood = self._likelihood_for(len(table.classes))
        noise = read_noise(self.label_noise, softmax=isinstance(likelihood, Categorical))
        if noise is not None:
            assert isinstance(likelihood, Likelihood | Categorical)
            likelihood = with_noise(likelihood, noise.flips)
        data = self._described(recorded(table.training(likelihood), walk, self.n_jobs))
        spec = self._spec(
            likelihood,
            flips=None if noise is None else noise.belief,
            solver=self.solver,
            draws=self.draws,
            max_passes=self.max_passes,
        )
        self.classes_ = table.classes
        self._hold(self._fit(data, spec), data)

    # --- the fit, in scikit-learn's words ----------------------------------------------------------------------

    @property
    def coef_(self) -> Array:
        """Coefficients in data units, (1, d); (K, d) for K weight vectors, adding to zero over classes."""
        return self._estimate[:, : self.fit_.shape.n_features]

    @property
    def intercept_(self) -> Array:
        """Intercepts, (1,) or (K,)."""
        W, shape = self._estimate, self.fit_.shape
        return W[:, -1] if shape.intercept else np.zeros(shape.n_outputs)

    @property
    def _estimate(self) -> Array:
        W = self._fitted().weights
        return W - W.mean(axis=0) if len(W) > 1 else W  # a constant added to all classes changes no probability

    @property
    def _likelihood(self) -> AnyLikelihood:  # type: ignore[override]  # which a Gaussian process sets
        """The likelihood of class codes, with what was learnt of it."""
        fit = self._fitted()
        given, used = fit.spec.likelihood, fit.likelihood
        if isinstance(given, Likelihood) or not isinstance(used, Likelihood):
            return used
        # The softmax of two classes is fitted as the logit of their difference.
        return (
            given.with_flips(used.flips[:1])
            if isinstance(given, NoisyCategorical) and isinstance(used, LabelNoise)
            else given
        )

    @property
    def label_noise_(self) -> float | Array:
        """Flip probabilities, given or estimated: one number, or a pair."""
        noisy = self._likelihood
        flips = noisy.flips if isinstance(noisy, LabelNoise | NoisyCategorical) else np.zeros(1)
        return self._one_or_pair(flips)

    @property
    def label_noise_std_(self) -> float | Array:
        """Their posterior standard deviations; 0 where given."""
        modes = self._fitted().noise_modes
        return self._one_or_pair(modes[0].flips_sd if modes else np.zeros(2))

    @property
    def label_noise_modes_(self) -> list[dict[str, Any]]:
        """All modes found where flip probabilities are estimated, the best first."""
        return [
            {
                "label_noise": self._one_or_pair(mode.flips),
                "log_evidence": mode.log_evidence,
                "log_joint": mode.log_joint,
            }
            for mode in self._fitted().noise_modes
        ]

    def _one_or_pair(self, flips: Array) -> float | Array:
        return float(flips[0]) if np.ndim(self.label_noise) == 0 else flips

    def _what(self) -> str:
        how = "" if self.inference in ("auto", "laplace") else f", {self.inference}"
        return f"classes {self.classes_.tolist()}{how}"

    def _outputs(self) -> list[Any]:
        return list(self.classes_.tolist())

    def _notes(self) -> list[str]:
        """How the posterior was found, where it matters for reading the table."""
        order = ["One pass over the rows in the order given: another order gives another answer."]
        filtered = self.inference in ("adf", "adf_spherical")
        return [*self._noise_notes(), *(order if filtered else []), *super()._notes()]

    # --- prediction --------------------------------------------------------------------------------------------

    @lazily
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), averaged over the posterior (at the estimate when prior is None).

        Two classes: a relative error of 1e-12, into the tails. Three: probabilities to 1e-6; four and five: 1e-4; more:
        1e-3 (five times as much where scores have standard deviations beyond 5).
        """
        predictive, posterior = self._predictive(), self.posterior_
        if isinstance(posterior, DrawnPosterior):
            return self._over_draws(self._rows(X, len(posterior.draws)), partial(log_proba_over_draws, predictive))
        log_proba = predictive.plug_in if self.prior_ is None else predictive.log_proba
        return self._rows(X).map(lambda block: log_proba(posterior.scores(block.X)))

    @lazily
    def decision_function(self, X: ArrayLike) -> Array:
        """Averaged log odds of `classes_[1]`, (n,); of K classes the averaged log probabilities, (n, K)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @lazily
    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Array:
        """Equal-tailed credible interval of the probability.

        Parameters
        ----------
        X : (n, d) array or frame
        level : float
            Mass of the interval.

        Returns
        -------
        (n, 2) array for P(classes_[1]) of two classes, (n, K, 2) for K.

        Notes
        -----
        Far in a tail the averaged probability can lie above the upper limit: a mean is not a median.
        """
        predictive, posterior = self._predictive(), self.posterior_
        if isinstance(posterior, DrawnPosterior):
            ends = partial(interval_over_draws, predictive, level=level)
            return self._over_draws(self._rows(X, len(posterior.draws)), ends)
        return self._rows(X).map(lambda block: predictive.interval(posterior.scores(block.X), level))

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share their weights."""
        posterior, predictive = self.posterior_, self._predictive()
        rng = generator(self.random_state if random_state is None else random_state)
        rows, scores = self._rows(X, check_draws(size)), posterior.score_draws(rng, size)
        p = rows.map(lambda block: np.moveaxis(predictive.proba(scores(block.X)), 0, 1))
        return np.moveaxis(p, 1, 0)

    def _predictive(self) -> Predictive:
        return predictive_of(true_likelihood(self._likelihood))

    # --- trust -------------------------------------------------------------------------------------------------

    def certify(
        self,
        X: ArrayLike,
        y: ArrayLike,
        draws: int | None = None,
        random_state: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Certificate:
        """How far this posterior can be trusted, and its numbers corrected by importance weights.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the fit (after `partial_fit`: all of them); a `DataWarning` says when they are others.
        draws : int, optional
            By default as many as it takes for a standard error of 0.015 of the log evidence, 1,024 to 32,768.
        random_state : int, Generator or None
            None takes the model's, and where that is None too, always the same draws.

        Returns
        -------
        Certificate
            `khat`, `reliable`, `verdict`, `log_evidence`, `mean`, `std`, `predict_proba(X)` and more.
        """
        return self._certificate(self._read_data(X, y, sample_weight), draws, random_state)

    def _read_data(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Data:
        """Rows and labels as the fit read them."""
        check_is_fitted(self)
        table = read_training(self, X, y, sample_weight, classes=self.classes_, reset=False)
        return self._described(table.training(self._likelihood))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class and self.inference not in BY_MOMENTS
        return tags
