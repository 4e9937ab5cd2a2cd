"""What the linear classifiers share: validate, encode, assemble, delegate."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.estimators.hypothesis_tests import HypothesisTests
from credibly.estimators.learning import filter_from, learn, learn_by_filter, learn_from
from credibly.estimators.linear_model import LinearModel, only
from credibly.estimators.noise import NoiseChoice, learn_with_noise, read_noise, with_noise
from credibly.estimators.probabilities import LabelNoiseMixin, ProbabilityMixin
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.estimators.validation import Table, Training, all_or_nothing, generator, read_training
from credibly.inference.adf import Belief, FullCovariance, Spherical
from credibly.inference.frame import Frame
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Normal
from credibly.numerics.arrays import Array
from credibly.numerics.newton import Status
from credibly.predictive import Predictive, predictive_of

ROUNDING = 1e-9  # of a log evidence
# The family on which a filter projects; None where the posterior is found around its mode.
INFERENCES: dict[str, type[Belief] | None] = {"laplace": None, "adf": FullCovariance, "adf_spherical": Spherical}


class LinearClassifier(LabelNoiseMixin, ProbabilityMixin, ClassifierMixin, HypothesisTests, LinearModel):
    """What the linear classifiers share: everything but the likelihood."""

    _multi_class: ClassVar[bool]

    def __init__(
        self,
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "laplace",
        solver: str = "newton",
        label_noise: Any = 0.0,
        tol: float = 1e-20,
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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame
            Numbers only, all finite.
        y : (n,) labels
            Two or more classes.
        sample_weight : (n,) array, optional
            Multiplies each row's log-likelihood: a weight of 2 is the row twice. 0 or 1 for ``inference="adf"``.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            table = read_training(self, X, y, sample_weight)
            self._forget()
            self._first_fit(table)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
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
            if not hasattr(self, "posterior_"):
                self._first_fit(read_training(self, X, y, sample_weight, classes=classes))
            else:
                if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
                    raise InputError(
                        f"classes={np.asarray(classes).tolist()} differ from those of the first call, "
                        f"{self.classes_.tolist()}; leave them out, or start again with fit."
                    )
                self._update(read_training(self, X, y, sample_weight, classes=self.classes_, reset=False))
        return self

    def _check_choices(self) -> None:
        self._check_shared_choices()
        only(self.solver, {"newton": False, "sgd": True}, "solver")
        if self._family is not None:
            self._check_filter()

    @property
    def _family(self) -> type[Belief] | None:
        family: type[Belief] | None = only(self.inference, INFERENCES, "in this version, inference")
        return family

    def _check_filter(self) -> None:
        """Refuse what one pass over the rows cannot do."""
        if not isinstance(self.prior, Normal | str):
            raise InputError(
                f"inference={self.inference!r} starts from a normal distribution: prior must be a Normal, "
                f'"empirical" or "ard"; got {self.prior!r}. With that prior use inference="laplace".'
            )
        if self.solver == "sgd":
            raise InputError(
                f'inference={self.inference!r} is one pass over the rows and looks for no mode, so solver="sgd" does '
                'not go with it; leave solver="newton".'
            )
        noise = read_noise(self.label_noise, softmax=False)
        if noise is not None and noise.belief is not None:
            raise InputError(
                f"inference={self.inference!r} needs label_noise as a number or a pair of numbers; got "
                f'{self.label_noise!r}. It is estimated with inference="laplace".'
            )

    def _check_filtered(self, table: Table, likelihood: AnyLikelihood) -> None:
        """Refuse rows that one pass with moments of one score cannot learn."""
        if self._family is None:
            return
        if not isinstance(likelihood, Likelihood):
            raise InputError(
                "Only binary classification is supported. The type of the target is multiclass, or "
                f"multi_class is 'softmax': inference={self.inference!r} is for one score a row, and the softmax has "
                'one for each class. Use inference="laplace".'
            )
        weight = np.ones(1) if table.weight is None else table.weight
        odd = np.flatnonzero((weight != 0) & (weight != 1))
        if odd.size:
            raise InputError(
                f"inference={self.inference!r} takes sample_weight 0 (left out) or 1 only; {odd.size} of {len(weight)} "
                f"are others, the first {weight[odd[0]]:g} in row {odd[0]}. A row counts when it is its turn, and a "
                'power of its likelihood has no moments here: repeat rows instead, or use inference="laplace".'
            )

    def _first_fit(self, table: Table) -> None:
        likelihood: Any = self._likelihood_for(len(table.classes))
        self._check_filtered(table, likelihood)
        noise = read_noise(self.label_noise, softmax=isinstance(likelihood, Categorical))
        if noise is not None:
            likelihood = with_noise(likelihood, noise.flips)
        training = table.training(likelihood)
        problem = self._problem(likelihood, training)
        search = self._search(stochastic=self.solver == "sgd")
        learnt = self._learn(problem, noise, search)
        self.classes_ = table.classes
        self._start_keeping(problem, learnt)
        self._keep_noise(noise, learnt)
        self._keep_weights(learnt, problem.frame, training)

    def _learn(self, problem: Problem, noise: NoiseChoice | None, search: Search) -> Learnt:
        if self._family is not None and isinstance(self.prior, Normal | str):
            return learn_by_filter(problem, self.prior, search, self._family)
        if noise is not None and noise.belief is not None:
            return learn_with_noise(problem, self.prior, noise.belief, search)
        return learn(problem, self.prior, search)

    def _update(self, table: Table) -> None:
        self._check_filtered(table, self._likelihood)
        training = table.training(self._likelihood)
        problem = self._next_problem(training)
        posterior, family = self.posterior_, self._family
        if family is not None:
            learnt = filter_from(problem, family.project(posterior.gaussian), family)
        else:
            search = self._search(stochastic=self.solver == "sgd")
            learnt = learn_from(problem, posterior.gaussian, posterior.contrast, search)
        self._keep_weights(learnt, problem.frame, training)

    def _keep_weights(self, learnt: Learnt, frame: Frame, training: Training) -> None:
        if learnt.status.good and self._log_evidence + learnt.result.log_evidence > ROUNDING:
            learnt = learnt._replace(status=Status.EVIDENCE_ABOVE_ZERO)  # a probability of labels is at most one
        self._keep(learnt, frame, training)
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
        self._n_flips = 0 if noise is None or noise.belief is None else noise.belief.n_free

    @property
    def _n_identified(self) -> int:
        return super()._n_identified + self._n_flips

    def _what(self) -> str:
        how = "" if self._family is None else f", {self.inference}"
        return f"classes {self.classes_.tolist()}{how}"

    def _notes(self) -> list[str]:
        order = "One pass over the rows in the order given: another order gives another answer; `mode` is the mean."
        return [*self._noise_notes(), *([] if self._family is None else [order]), *super()._notes()]

    # --- prediction --------------------------------------------------------------------------------------------

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), averaged over the posterior (at the estimate when prior is None).

        Two classes: exact to rounding, into the tails. Three to five: probabilities to about 1e-4; more: 1e-3
        (`credibly.averages.softmax` takes a smaller tolerance).
        """
        rows = self._design(X)
        posterior, predictive = self.posterior_, self._predictive()
        log_proba = predictive.plug_in if self.prior_ is None else predictive.log_proba
        return rows.map(lambda part: log_proba(posterior.scores(part.X)))

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
        return self._predictive().interval(self.predict_latent(X), level)

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share their weights."""
        rows = self._design(X)
        rng = generator(self.random_state if random_state is None else random_state)
        draws = self.posterior_.frame_draws(rng, size)  # (size, K, D)
        f = rows.map(lambda part: np.asarray(part.X @ draws.reshape(-1, draws.shape[-1]).T))
        scores = np.moveaxis(f.reshape(len(f), size, -1), 0, 1)
        return self._predictive().proba(scores)

    def _predictive(self) -> Predictive:
        check_is_fitted(self)
        return predictive_of(true_likelihood(self._likelihood))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class and self.inference == "laplace"
        return tags
