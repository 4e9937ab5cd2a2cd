"""What all models linear in their columns share: read rows, call `fit_linear`, hold the frozen fit, delegate."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import Block, MemoryRows
from credibly.data.threads import single_threaded_blas
from credibly.diagnostics.inputs import generator
from credibly.errors import ConvergenceWarning, InputError, NoEvidenceError, UnreliableWarning
from credibly.estimators.certificate import Certificate
from credibly.estimators.exporting import ExportMixin
from credibly.estimators.lazily import lazily
from credibly.estimators.linear_certificate import certify_weights
from credibly.estimators.stored import AnyTraining
from credibly.estimators.summary import Summary, weight_columns
from credibly.estimators.validation import check_limits, feature_names, n_threads, read_columns
from credibly.inference.gaussian import Scores
from credibly.inference.linear.drift import Drift, first_drift, next_drift
from credibly.inference.linear.fit import LinearFit, fit_linear, update_linear
from credibly.inference.linear.loo import leave_one_out
from credibly.inference.linear.posterior import DrawnPosterior, WeightPosterior
from credibly.inference.linear.spec import INFERENCES, Data, LinearSpec, PriorChoice
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.priors import Jeffreys, Normal, StudentT
from credibly.numerics.arrays import Array
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights
from credibly.numerics.status import Report, Status, silent

PRIOR_CHOICES = (
    '"empirical", "ard", "hierarchical", Normal(scale=2.5), Normal(mean=m0, cov=S0), StudentT(df=7, scale=2.5), '
    "Jeffreys() or None"
)
LEARNT_PRIORS = ("empirical", "ard", "hierarchical")
SOFTMAX_BLOCK_ROWS = 256  # with K scores a row, prediction costs far more than reading: small blocks keep threads busy
DRAWN_SCORES = 1_000_000  # held at a time, in predictions by draws
SEED = 0  # of fits that draw, where random_state is None: the same fit twice is the same


def print_progress(step: int, value: float, decrement: float) -> None:
    """Print one step, for `verbose`."""
    print(f"step {step:3d}  objective {value:.10g}  squared decrement {decrement:.2e}")


def only(value: object, allowed: dict[str, Any], argument: str) -> Any:
    """The object that a short string stands for, or an error that lists the strings."""
    if isinstance(value, str) and value in allowed:
        return allowed[value]
    raise InputError(f"{argument} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def check_prior(choice: object) -> None:
    """Refuse what is no prior, before any work."""
    known = isinstance(choice, Normal | StudentT | Jeffreys) or choice is None
    if not known and not (isinstance(choice, str) and choice in LEARNT_PRIORS):
        raise InputError(f"prior must be {PRIOR_CHOICES}; got {choice!r}.")


def check_inference(choice: object) -> None:
    """Refuse what is no way of inference."""
    if choice == "skew":
        raise InputError(
            'inference="skew" is no more: "variational" is the better Gaussian, and "exact" draws from the posterior '
            "itself."
        )
    only(choice, dict.fromkeys(INFERENCES), "inference")


class LinearModel(ExportMixin, BaseEstimator):
    """From clean rows to a `LinearFit`, and what follows from it; subclasses read rows and choose the likelihood."""

    _many_weights: ClassVar[ManyWeights] = MANY_WEIGHTS

    prior: PriorChoice
    fit_intercept: bool
    inference: str
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    fit_: LinearFit
    _data: Data | None = None  # the rows of one fit; None after an update, and of a model that was loaded
    _drift: Drift | None  # after an update; None where nothing is known of it

    # --- fitting -----------------------------------------------------------------------------------------------

    def _check_shared_choices(self) -> None:
        check_prior(self.prior)
        check_inference(self.inference)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        check_limits(self)

    def _spec(self, likelihood: AnyLikelihood, **choices: Any) -> LinearSpec:
        """The arguments of this estimator as `fit_linear` takes them; `choices` are those of a subclass."""
        draws = self.inference == "exact" or choices.get("solver") == "sgd"
        seed = SEED
        if draws and self.random_state is not None:
            seed = int(generator(self.random_state).integers(2**31))
        return LinearSpec(
            likelihood,
            copy(self.prior),  # which may be given other arguments later; a fit may not
            self.inference,
            intercept=bool(self.fit_intercept),
            tol=self.tol,
            max_iter=int(self.max_iter),
            seed=seed,
            limits=self._many_weights,
            **choices,
        )

    def _described(self, training: AnyTraining, log_constant: float = 0.0) -> Data:
        """Rows with what one pass tells of their columns."""
        rows, names = training.rows(self.n_jobs), feature_names(self)
        columns = training.described(rows, names)
        return Data(rows, columns, tuple(names), training.n_counted, training.sparse, log_constant)

    @property
    def _report(self) -> Report:
        return print_progress if self.verbose else silent

    def _hold(self, fit: LinearFit, data: Data | None) -> None:
        """Keep a fit, and its rows where they are in memory; a status that is not good becomes one warning."""
        self.fit_ = fit
        if fit.n_parts == 1 and hasattr(self, "_drift"):
            del self._drift
        held = data is not None and isinstance(data.rows, MemoryRows)
        self._data = replace(data, rows=data.rows.recorded(None)) if data is not None and held else None
        if not fit.status.good:
            warnings.warn(fit.status.value, ConvergenceWarning, stacklevel=4)

    def _fit(self, data: Data, spec: LinearSpec) -> LinearFit:
        return fit_linear(data, spec, self._report)

    def _update(self, training: AnyTraining, log_constant: float = 0.0) -> None:
        """The posterior so far becomes the prior of these rows."""
        before, data = self.fit_, self._described(training, log_constant)
        spec = replace(before.spec, inference=self.inference, tol=self.tol, max_iter=int(self.max_iter))  # as set now
        after = update_linear(replace(before, spec=spec), data, self._report)
        if not hasattr(self, "_drift"):
            self._drift = None if self._data is None or before.spec.flat else first_drift(before, self._data)
        if self._drift is not None and isinstance(data.rows, MemoryRows):
            self._drift = next_drift(self._drift, before, after, data)
            if self._drift.news is not None:
                warnings.warn(self._drift.news, UnreliableWarning, stacklevel=4)
        else:
            self._drift = None
        self._hold(after, None)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_data", None)  # a saved model holds no rows
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._data = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")

    def _fitted(self) -> LinearFit:
        check_is_fitted(self)
        return self.fit_

    # --- the fit, in scikit-learn's words ----------------------------------------------------------------------

    @property
    def posterior_(self) -> WeightPosterior:
        """The posterior of the weights in data units."""
        return self._fitted().posterior

    @property
    def prior_(self) -> Normal | StudentT | Jeffreys | None:
        """The prior used, in data units, with what was learnt of it."""
        return self._fitted().resolved  # type: ignore[return-value]  # a string is resolved by the fit

    @property
    def prior_scale_(self) -> float | Array:
        """Learnt prior scales on standardized columns: one number ("empirical") or one a column ("ard").

        With "hierarchical" the posterior mean of the one scale.
        """
        scales = self._fitted().scales
        if scales is None:
            raise AttributeError(f"prior_scale_ is there for a prior whose scales are learnt: {LEARNT_PRIORS}.")
        return scales if self.fit_.spec.prior == "ard" else float(scales.mean())

    @property
    def rung_(self) -> str:
        """The inference that was used: what "auto" went on to."""
        return self._fitted().rung

    @property
    def status_(self) -> Status:
        """How the search ended, as a sentence."""
        return self._fitted().status

    @property
    def n_iter_(self) -> int:
        """Steps of the last search."""
        return self._fitted().steps

    @property
    def distance_to_mode_(self) -> float:
        """Distance of the estimate to the mode, in posterior standard deviations."""
        return float(np.sqrt(max(self._fitted().decrement, 0.0)))

    @property
    def drift_(self) -> float:
        """After `partial_fit`: how far the mean may be from that of one fit to all rows, in posterior sds.

        NaN where it is not known: the rows of the first fit are gone, or there is no prior.
        """
        self._fitted()
        if not hasattr(self, "_drift"):
            raise AttributeError("drift_ is there after partial_fit: one fit to all rows has none.")
        return float("nan") if self._drift is None else self._drift.estimate

    @property
    def loo_log_proba_(self) -> Array:
        """log p(y_i | all other rows), (n,), on the rows of the fit and without fitting again.

        NaN where the other rows give no posterior. With weights, a row is left out as often as it counts.
        """
        fit = self._fitted()
        with single_threaded_blas():
            return leave_one_out(fit, self._data)

    @property
    def log_likelihood_(self) -> float:
        """log p(y | X, w) at the weights reported."""
        return self._fitted().log_likelihood

    @property
    def log_evidence_(self) -> float:
        """log p(y | X), the weights integrated out; raises for a flat prior, which has none."""
        self._refuse_without_evidence("log_evidence_")
        return self.fit_.log_evidence

    @property
    def log_evidence_se_(self) -> float:
        """Its standard error where it is estimated from draws, else 0."""
        return self._fitted().log_evidence_se

    @property
    def integrated_log_evidence_(self) -> float:
        """`log_evidence_` with all that was learnt by maximising it integrated out under weak priors.

        Prior scales on standardized columns are log-normal with median 1 and spread 1, a dispersion log-normal around
        Pearson's first guess with spread 3, flip probabilities as believed.
        """
        self._refuse_without_evidence("integrated_log_evidence_")
        return self.fit_.integrated_log_evidence

    def _refuse_without_evidence(self, what: str) -> None:
        prior = self._fitted().resolved
        if prior is None or isinstance(prior, Jeffreys):
            which = "prior=None: a flat prior is not" if prior is None else "prior=Jeffreys(): it need not be"
            raise NoEvidenceError(
                f"{what} does not exist with {which} a distribution, so p(y | X) has no value. Use a proper "
                'prior (prior="empirical" or Normal(scale=2.5)), or compare by bic_.'
            )

    @property
    def occam_factor_(self) -> float:
        """What averaging over the weights costs: log_evidence_ - log_likelihood_."""
        return self.log_evidence_ - self.log_likelihood_

    @property
    def effective_parameters_(self) -> float:
        """How many weights the data determined: M - tr(S₀⁻¹ S_N), with a Student-t prior's curvature at the mean."""
        return self._fitted().effective_parameters

    @property
    def bic_(self) -> float:
        """-2 log L + m ln n at the returned estimate, as R and statsmodels; smaller is better."""
        fit = self._fitted()
        return float(-2 * fit.log_likelihood + self._n_identified * np.log(fit.n_rows))

    @property
    def aic_(self) -> float:
        """-2 log L + 2 m at the returned estimate; smaller is better."""
        return float(-2 * self._fitted().log_likelihood + 2 * self._n_identified)

    @property
    def _n_identified(self) -> int:
        return self.fit_.n_identified

    @property
    def rhat_(self) -> float:
        """Rank R-hat of the draws of `inference="exact"`, the worst over weights; below 1.01 where chains agree."""
        return float(self._chains("rhat_").rhat.max())

    @property
    def ess_(self) -> float:
        """Effective size of those draws, bulk and tail, the worst over weights."""
        chains = self._chains("ess_")
        return float(min(chains.ess_bulk.min(), chains.ess_tail.min()))

    def _chains(self, what: str) -> Any:
        posterior = self._fitted().posterior
        if not isinstance(posterior, DrawnPosterior):
            raise AttributeError(f'{what} is there for inference="exact"; this fit used {self.rung_!r}.')
        return posterior.chains

    # --- a table of the weights --------------------------------------------------------------------------------

    def _certificate(self, data: Data, draws: Any, random_state: Any) -> Certificate:
        return certify_weights(self, data, draws, random_state)

    def _weight_names(self) -> list[str]:
        return feature_names(self) + (["intercept"] if self.fit_.shape.intercept else [])

    def summary(self, level: float = 0.9) -> Summary:
        """A table of the weights: estimate, sd, credible interval, probability of being positive.

        Parameters
        ----------
        level : float
            Mass of the interval.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in a notebook, and has `to_frame()`.
        """
        fit = self._fitted()
        flat = fit.resolved is None
        none = "none (flat prior)" if flat else "none (Jeffreys prior)"
        evidence = none if flat or isinstance(fit.resolved, Jeffreys) else f"{self.log_evidence_:.4f}"
        return Summary(
            title=f"{type(self).__name__}: {fit.n_rows} rows, {self._what()}",
            columns=weight_columns(fit.posterior, level, self._test_errors() if flat else None),
            notes=[
                f"log evidence: {evidence}; log likelihood: {self.log_likelihood_:.4f}; "
                f"effective parameters: {self.effective_parameters_:.2f}",
                *self._notes(),
                *(self._test_notes() if flat else []),
                f"lower, upper: {level:.0%} interval. {self.status_.value}",
            ],
            names=self._weight_names(),
            classes=None if fit.shape.n_outputs == 1 else self._outputs(),
        )

    def _test_errors(self) -> Array:
        """Standard errors for z and p, where there is no prior."""
        return self.posterior_.std

    def _test_notes(self) -> list[str]:
        """By which errors they are."""
        return []

    @abstractmethod
    def _what(self) -> str:
        """What the title of a summary says of the model."""

    def _notes(self) -> list[str]:
        """More lines under a summary."""
        fit = self.fit_
        notes = []
        if fit.spec.prior == "hierarchical":
            assert fit.scales is not None
            low, high = np.quantile(fit.scales, (0.05, 0.95))
            notes += [f"Prior scale on standardized columns: {fit.scales.mean():.3g}, 90% {low:.3g} to {high:.3g}."]
        if fit.spec.inference == "auto" and not fit.spec.flat:
            notes += [f"inference='auto' used {fit.rung!r}."]
        if fit.log_evidence_se > 0:
            notes += [f"The log evidence is estimated from draws, standard error {fit.log_evidence_se:.2g}."]
        if fit.rung != "laplace":
            notes += ["`estimate` is the mean."]
        return notes

    @abstractmethod
    def _outputs(self) -> list[Any]:
        """Names of the weight vectors where there are several."""

    # --- prediction --------------------------------------------------------------------------------------------

    @lazily
    def predict_latent(self, X: ArrayLike) -> Scores:
        """Mean and variance of the score: (n,), (n,); K weight vectors: (n, K), (n, K, K)."""
        posterior, K = self.posterior_, self.fit_.shape.n_outputs
        packed = self._rows(X).map(lambda block: _packed(posterior.latent(block.X)))
        if K == 1:
            return Scores(packed[:, 0], packed[:, 1])
        return Scores(packed[:, :K], packed[:, K:].reshape(-1, K, K))

    def _rows(self, X: ArrayLike, n_draws: int = 1) -> MemoryRows:
        """Rows to predict, in blocks that are smaller for more scores a row."""
        check_is_fitted(self)
        table, K = read_columns(self, X), self.fit_.shape.n_outputs
        block_rows = None if K == 1 else SOFTMAX_BLOCK_ROWS
        if n_draws > 1:
            block_rows = max(1, DRAWN_SCORES // (K * n_draws))
        return MemoryRows(table, np.zeros(table.shape[0]), threads=n_threads(self.n_jobs), block_rows=block_rows)

    def _over_draws(self, rows: MemoryRows, summary: Callable[[Array], Array]) -> Array:
        """A summary of the scores of every draw of an exact posterior, (S, n, K), for every block of rows."""
        posterior = self.posterior_
        assert isinstance(posterior, DrawnPosterior)

        def summarised(block: Block) -> Array:
            f = posterior.scores_of(block.X, posterior.draws)
            return np.asarray(summary(f if block.offset is None else f + block.offset[:, None]))

        return rows.map(summarised)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _packed(scores: Scores) -> Array:
    """Means and covariances of a block of rows side by side, so that one array comes back."""
    mean, variance = (part.reshape(len(part), -1) for part in scores)
    return np.concatenate([mean, variance], axis=1)
