"""What the linear classifiers share: validate, encode, assemble, delegate."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.diagnostics.inputs import generator
from credibly.errors import InputError
from credibly.estimators.certificate import DRAWS_SEED, Certificate
from credibly.estimators.certified_weights import certify_weights
from credibly.estimators.climbing import Checked, climb, ep_from, learn_auto, learn_by_ep, learn_skewed
from credibly.estimators.hypothesis_tests import HypothesisTests
from credibly.estimators.inference_choice import (
    BY_DRAWS,
    BY_MOMENTS,
    FILTERS,
    INFERENCES,
    check_inference,
    check_rows,
    refuse_inference,
)
from credibly.estimators.lazily import lazily
from credibly.estimators.learning import ChosenPrior, filter_from, learn, learn_by_filter, learn_from
from credibly.estimators.linear_model import LinearModel, only
from credibly.estimators.noise import NoiseChoice, learn_with_noise, read_noise, with_noise
from credibly.estimators.not_in_memory import is_stored
from credibly.estimators.partial_labels import read_classes, refuse_other_classes
from credibly.estimators.probabilities import LabelNoiseMixin, ProbabilityMixin
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.estimators.stored import (
    AnyTable,
    AnyTraining,
    Walk,
    as_in_fit,
    as_it_is,
    read_stored,
    recorded,
    resumable,
    stored_rows,
    with_references,
)
from credibly.estimators.validation import all_or_nothing, check_draws, read_training
from credibly.estimators.wide_learning import in_row_space, whole
from credibly.inference.adf import Belief, Spherical
from credibly.inference.drawn_posterior import DrawnPosterior, drawn_scores
from credibly.inference.frame import Frame
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Normal
from credibly.numerics.arrays import Array
from credibly.numerics.status import Status
from credibly.predictive import Predictive, drawn_log_proba, predictive_of, weighted_interval

ROUNDING = 1e-9  # of a log evidence


class LinearClassifier(LabelNoiseMixin, ProbabilityMixin, ClassifierMixin, HypothesisTests, LinearModel):
    """What the linear classifiers share: everything but the likelihood."""

    _multi_class: ClassVar[bool]

    log_evidence_se_: float
    rung_: str | None

    def __init__(
        self,
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "laplace",
        solver: str = "newton",
        label_noise: Any = 0.0,
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
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _likelihood_for(self, n_classes: int) -> Likelihood | Categorical:
        """The likelihood for so many classes, or an error."""

    # --- learning ----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        resume: str | Path | None = None,
    ) -> Self:
        """Learn the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame; Dask array or frame; ParquetRows
            Numbers only, all finite.
        y : (n,) labels
            Two or more classes. `ParquetRows` have their own.
        sample_weight : (n,) array, optional
            Multiplies each row's log-likelihood: a weight of 2 is the row twice. 0 or 1 for ``inference="adf"``.
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
            self._forget()
            self._first_fit(table, walk)
        return self

    def _read_table(
        self, X: Any, y: Any, sample_weight: Any, walk: Walk, *, classes: Any = None, reset: bool = True
    ) -> AnyTable:
        """Rows in memory, or the classes and columns of rows that are not."""
        if not is_stored(X):
            return read_training(self, X, y, sample_weight, classes=classes, reset=reset)
        refuse_inference(self.inference)
        found = stored_rows(X, y, sample_weight)
        rows = with_references(self, found, self.prior) if reset else as_in_fit(self, found)
        return read_stored(self, walk(rows), rows, classes=classes, reset=reset)

    def partial_fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows: yesterday's posterior is today's prior.

        The first call is `fit`. Prior scales and the standardisation are learnt there and kept; log evidence and log
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
            if not hasattr(self, "posterior_"):
                self._first_fit(self._read_table(X, y, sample_weight, as_it_is, classes=known), as_it_is)
            else:
                refuse_other_classes(known, self.classes_)
                self._update(self._read_table(X, y, sample_weight, as_it_is, classes=self.classes_, reset=False))
        return self

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
        check_is_fitted(self)
        if self._joint is not None and self._fingerprint is None:
            raise InputError(
                "certify with label noise that was estimated needs a model of one fit; partial_fit has kept its value "
                "since. Fit to all rows at once."
            )
        table = read_training(self, X, y, sample_weight, classes=self.classes_, reset=False)
        return certify_weights(self, table.training(self._likelihood), draws, random_state)

    def _advice(self) -> str:
        """What to do where the posterior is not to be trusted."""
        highest = self.inference == "auto" or self._joint is not None  # "auto" takes label noise as a number only
        return super()._advice() if highest else "fit again with inference='auto'"

    def _check_choices(self) -> None:
        self._check_shared_choices()
        only(self.solver, {"newton": False, "sgd": True}, "solver")
        only(self.inference, dict.fromkeys(INFERENCES), "inference")
        if self.inference != "laplace":
            self._check_inference()

    @property
    def _family(self) -> type[Belief] | None:
        """The family on which a filter projects."""
        return FILTERS.get(self.inference)

    def _check_inference(self) -> None:
        """Refuse what the ways other than Laplace's cannot do."""
        check_inference(self.inference, self.prior, self.solver, self.label_noise)

    def _first_fit(self, table: AnyTable, walk: Walk) -> None:
        likelihood: Any = self._likelihood_for(len(table.classes))
        check_rows(self.inference, table.weight, likelihood)
        noise = read_noise(self.label_noise, softmax=isinstance(likelihood, Categorical))
        if noise is not None:
            likelihood = with_noise(likelihood, noise.flips)
        training = recorded(table.training(likelihood), walk, self.n_jobs)
        problem = self._problem(likelihood, training)
        reduced = whole(problem, self.prior) if self._family is Spherical else in_row_space(problem, self.prior)
        search = self._search(stochastic=self.solver == "sgd")
        learnt = reduced.lift(self._learn(reduced.problem, reduced.prior, noise, search))
        self.classes_ = table.classes
        self._start_keeping(problem, learnt)
        self._keep_noise(noise, learnt)
        self._keep_weights(learnt, reduced.frame, training)

    def _learn(self, problem: Problem, prior: PriorChoice, noise: NoiseChoice | None, search: Search) -> Learnt:
        if self.inference in BY_MOMENTS and isinstance(prior, Normal | str):
            if self._family is not None:
                return learn_by_filter(problem, prior, search, self._family)
            return learn_by_ep(problem, prior, search)
        if self.inference in BY_DRAWS:
            way = learn_auto if self.inference == "auto" else learn_skewed
            return way(problem, prior, search, self._draws_rng())
        if noise is not None and noise.belief is not None:
            return learn_with_noise(problem, prior, noise.belief, search)
        return learn(problem, prior, search)

    def _update(self, table: AnyTable) -> None:
        check_rows(self.inference, table.weight, self._likelihood)
        training = table.training(self._likelihood)
        self._make_room(training)
        problem = self._next_problem(training)
        watched = self.inference == "laplace" and self._watch_drift()
        before = self.posterior_.gaussian
        self._keep_weights(self._learn_more(problem), self.posterior_.frame, training)
        if watched:
            self._tell_drift(problem, before)

    def _learn_more(self, problem: Problem) -> Learnt:
        """The posterior after more rows, with the one before them as prior."""
        prior, family = self.posterior_.gaussian, self._family
        search = self._search(stochastic=self.solver == "sgd")
        if family is not None:
            return filter_from(problem, family.project(prior), family)
        if self.inference == "ep":
            return ep_from(problem, ChosenPrior(prior, None, None, Status.CONVERGED), search)
        learnt = learn_from(problem, prior, self.posterior_.contrast, search)
        if self.inference == "skew":
            return Checked.of(problem, learnt, self._draws_rng()).skewed()
        return climb(problem, learnt, search, self._draws_rng()) if self.inference == "auto" else learnt

    def _draws_rng(self) -> np.random.Generator:
        return generator(DRAWS_SEED if self.random_state is None else self.random_state)

    def _keep_weights(self, learnt: Learnt, frame: Frame, training: AnyTraining) -> None:
        if learnt.status.good and self._log_evidence + learnt.result.log_evidence > ROUNDING:
            learnt = learnt._replace(status=Status.EVIDENCE_ABOVE_ZERO)  # a probability of labels is at most one
        first = self._n_rows == 0
        self._keep(learnt, frame, training)
        se = learnt.log_evidence_se
        self.log_evidence_se_ = se if first else float(np.hypot(self.log_evidence_se_, se))
        if self.inference == "auto":
            self.rung_ = learnt.rung
        shape = self._shape
        W = self.posterior_.mean.reshape(shape.n_outputs, -1)
        if shape.n_outputs > 1:
            W = W - W.mean(axis=0)  # a constant added to all classes changes no probability
        self.coef_ = W[:, : shape.n_features]
        self.intercept_ = W[:, -1] if shape.intercept else np.zeros(shape.n_outputs)

    def _keep_noise(self, noise: NoiseChoice | None, learnt: Learnt) -> None:
        likelihood = self._likelihood
        flips = likelihood.flips if isinstance(likelihood, LabelNoise | NoisyCategorical) else np.zeros(1)
        std = learnt.noise_modes[0].flips_std if learnt.noise_modes else np.zeros_like(flips)
        one = np.ndim(self.label_noise) == 0
        self.label_noise_, self.label_noise_std_ = (float(a[0]) if one else a for a in (flips, std))
        self.label_noise_modes_ = [
            {"label_noise": float(mode.flips[0]) if one else mode.flips, "log_evidence": mode.log_evidence}
            | {"log_joint": mode.log_joint}
            for mode in learnt.noise_modes
        ]
        if noise is not None and noise.belief is not None and learnt.noise_modes:
            solution = learnt.noise_modes[0].result.solution
            self._joint = (noise.belief, Gaussian(solution.x, solution.local.hessian))
        self._n_flips = 0 if noise is None or noise.belief is None else noise.belief.n_free

    @property
    def _n_identified(self) -> int:
        return super()._n_identified + self._n_flips

    def _what(self) -> str:
        how = "" if self.inference == "laplace" else f", {self.inference}"
        return f"classes {self.classes_.tolist()}{how}"

    def _notes(self) -> list[str]:
        """How the posterior was found, where it matters for reading the table."""
        said = []
        if self._family is not None:
            said = ["One pass over the rows in the order given: another order gives another answer."]
        if self.inference == "auto":
            said = [f"inference='auto' used {self.rung_!r}."]
        if self.log_evidence_se_ > 0:
            said += [f"The log evidence is corrected by draws, standard error {self.log_evidence_se_:.2g}."]
        if self.inference in BY_MOMENTS or isinstance(self.posterior_, DrawnPosterior):
            said += ["`mode` is the mean."]
        return [*self._noise_notes(), *said, *super()._notes()]

    # --- prediction --------------------------------------------------------------------------------------------

    @lazily
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), averaged over the posterior (at the estimate when prior is None).

        Two classes: a relative error of 1e-12, into the tails. Three: probabilities to 1e-6; four and five: 1e-4; more:
        1e-3 (five times as much where scores have standard deviations beyond 5).
        """
        rows = self._design(X)
        posterior, predictive = self.posterior_, self._predictive()
        if isinstance(posterior, DrawnPosterior):
            return rows.map(lambda part: drawn_log_proba(predictive, drawn_scores(posterior, part.X)))
        log_proba = predictive.plug_in if self.prior_ is None else predictive.log_proba
        return rows.map(lambda part: log_proba(posterior.determined_scores(part.X)))

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
        predictive, rows = self._predictive(), self._design(X)
        posterior = self.posterior_
        if isinstance(posterior, DrawnPosterior):
            return rows.map(lambda part: weighted_interval(predictive, drawn_scores(posterior, part.X), level))
        return rows.map(lambda part: predictive.interval(posterior.determined_scores(part.X), level))

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share their weights."""
        rows = self._design(X, self.posterior_.frame.full)
        rng = generator(self.random_state if random_state is None else random_state)
        draws = self.posterior_.frame_draws(rng, check_draws(size))  # (size, K, D)
        f = rows.map(lambda part: np.asarray(part.X @ draws.reshape(-1, draws.shape[-1]).T))
        return self._predictive().proba(np.moveaxis(f.reshape(len(f), size, -1), 0, 1))

    def _predictive(self) -> Predictive:
        check_is_fitted(self)
        return predictive_of(true_likelihood(self._likelihood))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class and self.inference not in BY_MOMENTS
        return tags
