"""What a learnt generative model tells: predictions, intervals, draws, evidence, a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import Block, MemoryRows
from credibly.data.threads import single_threaded_blas
from credibly.diagnostics.inputs import generator
from credibly.errors import InputError, NoEvidenceError, NotDefinedError
from credibly.estimators.exporting import ExportMixin
from credibly.estimators.generative_base import GenerativeLearning
from credibly.estimators.generative_learning import in_long_blocks, refuse_completed
from credibly.estimators.lazily import lazily
from credibly.estimators.partial_labels import read_partial_labels
from credibly.estimators.plans import read_generative
from credibly.estimators.prequential import Learner, PrequentialScore, leave_one_out, prequential
from credibly.estimators.probabilities import ProbabilityMixin
from credibly.estimators.summary import Summary
from credibly.estimators.validation import check_draws, n_threads
from credibly.inference.conjugate import IntegratedJoint, PlugInJoint
from credibly.inference.em import UNLABELLED
from credibly.inference.gaussian import normal_quantile
from credibly.model.class_conditionals.base import Beliefs, Linear
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import dense
from credibly.predictive import GenerativePredictive, equal_tails

INTERVAL_DRAWS = 1000  # of the parameters; the rank of a 5 % quantile is then off by some 0.7 %
INTERVAL_SEED = 0  # the same rows get the same interval
DRAWN_NUMBERS = 4_000_000  # probabilities held at a time while quantiles are found: 32 megabytes


def at_least_one(value: Any, argument: str) -> None:
    """Refuse numbers of draws, or of orders, that are none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{argument} must be a whole number of at least 1; got {value!r}.")


class GenerativeClassifierBase(ExportMixin, ProbabilityMixin, GenerativeLearning):
    """Predictions and numbers of a generative model."""

    # --- prediction --------------------------------------------------------------------------------------------

    @lazily
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), by Bayes' rule; parameters averaged out unless they are estimated.

        Missing cells (NaN) are integrated out: a row without any observed cell has the class probabilities.
        """
        rows = self._design(X)
        predictive = GenerativePredictive(self._joint)
        with single_threaded_blas():
            log_proba = rows.map(lambda part: predictive.log_proba(part.X))
        impossible = np.flatnonzero(np.isnan(log_proba[:, 0]))
        if len(impossible):
            raise InputError(
                f"{len(impossible)} rows have probability zero in every class, the first is row {impossible[0]}: under "
                f"parameters={self.parameters!r} what was not seen in a class is impossible there. Use "
                "parameters='integrated' (the default), whose prior leaves room for it."
            )
        return log_proba

    @lazily
    def score_samples(self, X: ArrayLike) -> Array:
        """log p(x), (n,), summed over classes: low for rows unlike any in training."""
        rows = self._design(X)
        predictive = GenerativePredictive(self._joint)
        with single_threaded_blas():
            return rows.map(lambda part: predictive.log_marginal(part.X))

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share their parameters."""
        joint = self._integrated("sample_proba")
        rows = self._design(X)
        rng = generator(self.random_state if random_state is None else random_state)
        with single_threaded_blas():
            draws = [joint.draw(rng) for _ in range(check_draws(size))]
        return np.concatenate(self._mapped(rows, draws, lambda proba: [proba]), axis=1)

    @lazily
    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Array:
        """Equal-tailed credible interval of the probability, from draws of the parameters.

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
        Draws know only the rows of the fit, while `predict_proba` lets the new row, too, say which parameters are
        plausible. Far from all rows of the fit the two can disagree, and the interval looks surer than it should:
        `score_samples` is low there.
        """
        joint = self._integrated("predict_interval")
        normal_quantile(level)  # checks the level
        rows = self._design(X)
        rng = np.random.default_rng(INTERVAL_SEED)
        with single_threaded_blas():
            draws = [joint.draw(rng) for _ in range(INTERVAL_DRAWS)]
        limits = np.concatenate(self._mapped(rows, draws, lambda p: [equal_tails(np.moveaxis(p, 0, -1), level)]))
        return limits[:, 1] if len(self.classes_) == 2 else limits

    def _mapped(self, rows: MemoryRows, draws: list[PlugInJoint], keep: Any) -> list[Array]:
        """What is to be kept of the probabilities (size, b, K) of each block of rows."""
        predictive = GenerativePredictive(self._joint)
        block_rows = max(1, DRAWN_NUMBERS // (len(draws) * len(self.classes_)))

        def block(part: Block) -> list[Array]:
            return list(keep(predictive.proba_draws(part.X, draws)))

        with single_threaded_blas():
            return rows.in_blocks(block_rows).sum(block, lambda a, b: a + b)

    def _integrated(self, what: str) -> IntegratedJoint:
        check_is_fitted(self)
        if not isinstance(self._joint, IntegratedJoint):
            raise InputError(
                f"{what} needs a posterior of the parameters; parameters={self.parameters!r} has estimates only. Use "
                "parameters='integrated' (the default)."
            )
        return self._joint

    def _design(self, X: ArrayLike) -> MemoryRows:
        check_is_fitted(self)
        table = self._plan.to_predict(read_generative(self, X, mixed=self._mixed, reset=False))
        return in_long_blocks(MemoryRows(table, np.zeros(table.shape[0]), threads=n_threads(self.n_jobs)))

    def sample(self, n: int = 1, y: Any = None, random_state: Any = None) -> Any:
        """Draw rows: of a class, or of the whole model.

        Parameters
        ----------
        n : int
        y : label, optional
            The class to draw from; None draws classes, too.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        X of shape (n, d) for a given class, else the pair (X, y). Columns of categories come back as their levels.

        Notes
        -----
        With parameters averaged out every row is an independent draw of the posterior predictive.
        """
        check_is_fitted(self)
        at_least_one(n, "n")
        rng = generator(self.random_state if random_state is None else random_state)
        if y is None:
            log_p = self._joint.weights.log_average(self._sums.counts)
            codes = rng.choice(len(self.classes_), size=n, p=np.exp(log_p))
        else:
            known = self.classes_.tolist()
            if y not in known:
                raise InputError(f"y={y!r} is not a class of this model; it knows {known}.")
            codes = np.full(n, known.index(y))
        source = self._joint.beliefs if isinstance(self._joint, IntegratedJoint) else self._joint.estimate
        X = self._plan.decode(source.sample(rng, codes))
        return X if y is not None else (X, self.classes_[codes])

    def prequential_score(
        self, X: ArrayLike, y: ArrayLike, permutations: int = 10, random_state: Any = None
    ) -> PrequentialScore:
        r"""Σ log p(y_i | x_i, rows before i): the conditional scale on which discriminative models have their evidence.

        It depends on the order of the rows, so it is averaged over random orders.

        Parameters
        ----------
        X, y
            Labelled rows. The score starts from the prior, whatever the model has learnt; a model that is not fitted
            yet finds its (empirical) prior and the families of its columns from these rows.
        permutations : int
            Number of random orders.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        PrequentialScore
            `mean`, `std` (over orders; NaN for one) and `values`.
        """
        at_least_one(permutations, "permutations")
        model = self if hasattr(self, "_sums") else clone(self).fit(X, y)
        model._integrated("prequential_score")
        if not np.isfinite(model._joint.value):
            raise NoEvidenceError(
                "prequential_score needs a proper prior: before the first row prior='reference' is none."
            )
        learner, encoded, codes = model._labelled(X, y, "prequential_score")
        rng = generator(self.random_state if random_state is None else random_state)
        with single_threaded_blas():
            return prequential(rng, learner, encoded, codes, permutations, self._report_order(permutations))

    def loo_log_proba(self, X: ArrayLike, y: ArrayLike) -> Array:
        """log p(y_i | x_i, all other rows), (n,), exactly: each row in turn is taken off the sums.

        Parameters
        ----------
        X, y
            The rows that the model has learnt, all of them, with labels.

        Returns
        -------
        (n,) array; NaN where the other rows do not determine the model.

        Notes
        -----
        The prior, the classes and the levels of categories stay those of the fit.
        """
        check_is_fitted(self)
        self._refuse_rowwise_shrinkage("loo_log_proba")
        if self._completed:
            refuse_completed("loo_log_proba")
        learner, encoded, codes = self._labelled(X, y, "loo_log_proba")
        if learner.family is not self._plan.family or len(codes) != self._n_rows:
            raise InputError(
                f"loo_log_proba needs the {self._n_rows} rows of the fit; these are others ({len(codes)})."
            )
        with single_threaded_blas():
            return leave_one_out(learner, self._sums, encoded, codes)

    def _labelled(self, X: ArrayLike, y: ArrayLike, what: str) -> tuple[Learner, Array, Codes]:
        """The model before any row, and labelled rows as it reads them."""
        table = read_generative(self, X, mixed=self._mixed, reset=False)
        plan = self._plan.grown(table, self._sums.statistics)[0]
        encoded = dense(plan.encode(table))
        labels = read_partial_labels(y, self.unlabelled, len(encoded))
        rows = self._rows(encoded, labels, None, self.classes_)
        if (rows.codes == UNLABELLED).any():
            raise InputError(f"{what} needs a label, among the model's classes, for every row.")
        return Learner(plan.family, self._rule(len(self.classes_)), len(self.classes_)), encoded, rows.codes

    def _report_order(self, permutations: int) -> Any:
        def report(k: int, value: float) -> None:
            if self.verbose:
                print(f"order {k} of {permutations}: {value:.4f}")

        return report

    # --- what was learnt ---------------------------------------------------------------------------------------

    @property
    def class_prior_(self) -> Array:
        """p(c), (K,): what is known of the classes before a row is seen."""
        check_is_fitted(self)
        return np.exp(self._joint.weights.log_average(self._sums.counts))

    @property
    def posterior_(self) -> Beliefs[Any]:
        """Beliefs about the parameters of all classes."""
        check_is_fitted(self)
        if not isinstance(self._joint, IntegratedJoint):
            raise NotDefinedError(
                f"posterior_ does not exist with parameters={self.parameters!r}, which are estimates."
            )
        return self._joint.beliefs

    @property
    def features_(self) -> list[str]:
        """The family of every column."""
        check_is_fitted(self)
        return self._plan.kinds

    @property
    def log_likelihood_(self) -> float:
        """log p(X, y) at the estimates, or at posterior means of the parameters; of observed cells and labels.

        Where cells or labels were completed it is a lower bound, reached by "plugin": expected sums under the last
        step's densities, and the entropy of what is missing.
        """
        check_is_fitted(self)
        features = self._joint.estimate.log_likelihood(self._sums.statistics)
        return features + self._joint.weights.log_likelihood(self._sums.counts) + self._entropy

    @property
    def log_evidence_(self) -> float:
        """The joint evidence log p(X, y), parameters integrated out: of columns *and* labels.

        It ranks generative models of the same columns among themselves, and is not comparable with the log p(y | X) of
        a discriminative model; `prequential_score` is. A lower bound where cells or labels were completed.
        """
        check_is_fitted(self)
        reason = self._no_evidence()
        if reason:
            raise NoEvidenceError(
                f"log_evidence_ does not exist: {reason}. Use parameters='integrated' with a proper prior."
            )
        return self._joint.value + self._entropy

    def _no_evidence(self) -> str | None:
        if not isinstance(self._joint, IntegratedJoint):
            return f"parameters={self.parameters!r} are estimates"
        improper = isinstance(self.prior, str) and self.prior == "reference"
        return "prior='reference' is not a distribution" if improper or not np.isfinite(self._joint.value) else None

    @property
    def occam_factor_(self) -> float:
        """What averaging over the parameters costs: log_evidence_ - log_likelihood_."""
        return self.log_evidence_ - self.log_likelihood_

    @property
    def _n_parameters(self) -> int:
        K = len(self.classes_)
        return self._plan.family.n_parameters(self._sums.statistics) + self._joint.weights.n_parameters(K)

    @property
    def bic_(self) -> float:
        """-2 log p(X, y) + m ln n, joint; smaller is better."""
        return float(-2 * self.log_likelihood_ + self._n_parameters * np.log(self._n_rows))

    @property
    def aic_(self) -> float:
        """-2 log p(X, y) + 2 m, joint; smaller is better."""
        return float(-2 * self.log_likelihood_ + 2 * self._n_parameters)

    def _linear(self) -> Linear:
        check_is_fitted(self)
        source = self._joint.beliefs if isinstance(self._joint, IntegratedJoint) else self._joint.estimate
        linear = source.linear()
        if linear is None:
            raise NotDefinedError(
                "coef_ and intercept_ do not exist: log p(class | x) is not linear in x here. It is for a shared "
                "covariance, Poisson, exponential, gamma and multinomial columns with parameters='plugin' or 'moment', "
                "and for Bernoulli columns."
            )
        log_p = self._joint.weights.log_average(self._sums.counts)
        return Linear(linear.slopes, linear.offsets + log_p)

    @property
    def coef_(self) -> Array:
        """Slopes of the log odds of the second of two classes (1, d), or of log p(c | x) up to a constant (K, d)."""
        slopes = self._linear().slopes
        return slopes[1:] - slopes[:1] if len(slopes) == 2 else slopes - slopes.mean(axis=0)

    @property
    def intercept_(self) -> Array:
        """Intercepts that go with `coef_`: (1,) or (K,)."""
        offsets = self._linear().offsets
        return offsets[1:] - offsets[:1] if len(offsets) == 2 else offsets - offsets.mean()

    def summary(self, level: float = 0.9) -> Summary:
        """A table of E[x | class]: estimate, its sd and credible interval, and the spread of x within the class.

        Parameters
        ----------
        level : float
            Mass of the interval.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in a notebook, and has `to_frame()`.
        """
        check_is_fitted(self)
        normal_quantile(level)  # checks the level
        order = np.argsort(self._plan.family.row_columns(len(self._plan.names)), kind="stable")
        density = self._joint.estimate
        columns: dict[str, AnyArray] = {"mean": density.center()}
        if isinstance(self._joint, IntegratedJoint):
            estimates = self._joint.beliefs.estimates(level)
            columns = {"mean": estimates.mean, "sd": estimates.sd, "lower": estimates.lower, "upper": estimates.upper}
        columns["spread"] = density.spread()
        names = self._plan.row_names()
        evidence = f"log evidence (joint): {self.log_evidence_:.4f}; " if not self._no_evidence() else ""
        shares = ", ".join(f"{label} {p:.4g}" for label, p in zip(self.classes_, self.class_prior_, strict=True))
        interval = f"lower, upper: {level:.0%} interval of the mean. " if "lower" in columns else ""
        return Summary(
            title=f"{type(self).__name__}: {self._n_rows} rows, classes {self.classes_.tolist()}",
            notes=[
                f"{evidence}log likelihood: {self.log_likelihood_:.4f}; parameters: {self._n_parameters}",
                f"class probabilities: {shares}",
                f"{interval}spread: sd within the class. {self.status_.value}",
            ],
            names=[names[i] for i in order],
            classes=list(self.classes_.tolist()),
            columns={name: np.asarray(values)[:, order].reshape(-1) for name, values in columns.items()},
        )
