"""Generative classifiers: densities of the columns in every class, and Bayes' rule. Each is a choice of densities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from credibly.errors import InputError, NotDefinedError
from credibly.estimators.columns_plan import columns_plan, gaussian_plan
from credibly.estimators.generative_learning import GenerativeRows
from credibly.estimators.generative_parameters import documented
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.mixed_columns import Table
from credibly.estimators.plans import Plan
from credibly.estimators.shrinkage import read_shrinkage, shrunken
from credibly.estimators.validation import feature_names
from credibly.inference.conjugate import JointSums
from credibly.model.class_conditionals.choices import MultivariateGaussian
from credibly.model.class_conditionals.wishart import Normals
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import dense
from credibly.predictive import GenerativePredictive

SMALLEST_SPREAD = 1e-4  # of a standardised direction, as in scikit-learn: below that it is constant within classes


class Discriminant(GenerativeClassifierBase):
    """What linear and quadratic discriminant analysis share."""

    _covariance: str
    _other_remedy = "shrinkage='ledoit_wolf'"

    def __init__(
        self,
        *,
        parameters: str = "integrated",
        class_prior: Any = "learned",
        prior: Any = "empirical",
        shrinkage: Any = None,
        unlabelled: Any = None,
        tol: float = 1e-10,
        max_iter: int = 2000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.parameters = parameters
        self.class_prior = class_prior
        self.prior = prior
        self.shrinkage = shrinkage
        self.unlabelled = unlabelled
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _plan_for(self, table: Table, codes: Codes, weight: Array | None) -> Plan:
        number, _ = read_shrinkage(self.shrinkage)
        choice = MultivariateGaussian(self._covariance)
        return gaussian_plan(choice, table, feature_names(self), shrinkage=number, **self._columns_to_drop)

    def _adjusted(self, sums: JointSums, rows: GenerativeRows, lacking: AnyArray) -> JointSums:
        """Shrinkage by an estimator of scikit-learn needs the rows, not only their sums."""
        _, estimator = read_shrinkage(self.shrinkage)
        if estimator is None:
            return sums
        if lacking.any():
            raise InputError(
                f"shrinkage={self.shrinkage!r} needs complete, labelled rows; use a number, or none: the default "
                "prior shrinks, too."
            )
        return JointSums(sums.counts, shrunken(estimator, rows, sums.statistics))

    def _refuse_rowwise_shrinkage(self, what: str) -> None:
        if read_shrinkage(self.shrinkage)[1] is not None:
            raise InputError(
                f"{what} is not possible with shrinkage={self.shrinkage!r}, which depends on every single row. Use a "
                "number, or the default prior, which shrinks, too."
            )

    def _no_evidence(self) -> str | None:
        if read_shrinkage(self.shrinkage) != (0.0, None):
            return "with shrinkage the covariance is not that of any posterior"
        return super()._no_evidence()

    @property
    def means_(self) -> Array:
        """Class means, (K, d): posterior means, or estimates."""
        return self._normals().ellipsoids.means

    @property
    def covariance_(self) -> Array:
        """Covariance within classes: (d, d) if shared, else (K, d, d); posterior means, or estimates."""
        metrics = self._normals().ellipsoids.metrics
        return metrics[0].matrix if self._covariance == "shared" else np.array([metric.matrix for metric in metrics])

    def _normals(self) -> Normals:
        if not hasattr(self, "_joint"):
            raise NotDefinedError("The model is not fitted yet.")
        density = self._joint.estimate
        assert isinstance(density, Normals)  # of this family
        return density


@documented
class LinearDiscriminant(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Discriminant):
    r"""Linear discriminant analysis: Gaussian classes with one covariance.

    .. math:: p(x \mid c) = N(x \mid μ_c, Σ), \qquad p(c \mid x) = \mathrm{softmax}_c(β_c^T x + γ_c)

    with β_c = Σ⁻¹μ_c and γ_c = -½ μ_cᵀΣ⁻¹μ_c + log π_c at given parameters; averaged over them (the default) classes
    have Student-t densities, and the log odds flatten far from the data.

    Parameters
    ----------
    shrinkage : None (default), float in [0, 1], "ledoit_wolf" or "oas"
        Covariance shrunk towards the average variance times the identity: by a number, or as scikit-learn estimates it
        (on standardised columns, class by class). The default prior shrinks, too.
    {parameters}

    References
    ----------
    Murphy 2012, sec. 4.2 and 4.6.3; Geisser 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import LinearDiscriminant
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 3.0], [6.0, 5.0], [7.0, np.nan], [8.0, 6.0]])
    >>> model = LinearDiscriminant().fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[1.5, np.nan], [7.0, 5.0]])
    array(['a', 'b'], dtype='<U1')
    >>> model.partial_fit([[20.0, 0.0], [21.0, 1.0]], ["c", "c"]).predict([[20.5, 0.5]])  # a new class
    array(['c'], dtype='<U1')
    """

    _covariance = "shared"

    def transform(self, X: ArrayLike) -> Array:
        """Discriminant axes, (n, min(K - 1, d)): centred, white within classes, best separating first.

        The covariance within classes has divisor n, as scikit-learn's (n - K, as R's, with parameters="moment"); the
        sign of an axis is such that its largest coefficient is positive. A missing cell counts as its expectation given
        the others.
        """
        rows = self._design(X)
        scalings, center = self._axes()
        return rows.map(lambda part: (self._expected_rows(dense(part.X)) - center) @ scalings)

    def _expected_rows(self, X: Array) -> Array:
        """Rows with missing cells at their expectation, over classes and given the observed cells."""
        if not np.isnan(X).any():
            return X
        proba = np.exp(GenerativePredictive(self._joint).log_proba(X))
        ellipsoids, one = self._normals().ellipsoids, np.ones(len(X))
        parts = [ellipsoids.fill(X, np.full(len(X), c), one).X for c in range(proba.shape[1])]
        return np.asarray(np.einsum("nc,cnd->nd", proba, np.array(parts)))

    @property
    def _n_features_out(self) -> int:
        return int(self._axes()[0].shape[1])

    def _axes(self) -> tuple[Array, Array]:
        """Axes of the columns, and where they cross."""
        n, mean, scatter = (getattr(self._sums.statistics, name) for name in ("weight", "mean", "scatter"))
        if n.sum() <= len(n):
            raise InputError("transform needs more rows than classes: there is no spread within classes.")
        within = scatter[0] / (n.sum() - (len(n) if self.parameters == "moment" else 0))
        scale = np.where(np.diag(within) > 0, np.sqrt(np.diag(within)), 1.0)
        values, vectors = np.linalg.eigh(within / np.outer(scale, scale))
        kept = values > SMALLEST_SPREAD**2
        whitener = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
        center = self.class_prior_ @ mean
        _, _, rotation = np.linalg.svd(np.sqrt(self.class_prior_)[:, None] * (mean - center) @ whitener)
        axes = whitener @ rotation[: min(len(n) - 1, int(kept.sum()))].T
        largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
        return axes * np.sign(largest), center


@documented
class QuadraticDiscriminant(Discriminant):
    r"""Quadratic discriminant analysis: Gaussian classes, each with its own covariance.

    .. math:: p(x \mid c) = N(x \mid μ_c, Σ_c)

    Parameters
    ----------
    shrinkage : None (default), float in [0, 1], "ledoit_wolf" or "oas"
        As for `LinearDiscriminant`, for every class on its own.
    {parameters}

    References
    ----------
    Murphy 2012, sec. 4.2 and 4.6.3; Geisser 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import QuadraticDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(0, 5, (50, 2))])  # a cloud inside another
    >>> model = QuadraticDiscriminant().fit(X, np.repeat(["near", "far"], 50))
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array(['near', 'far'], dtype='<U4')
    """

    _covariance = "per_class"


class _ByColumns(GenerativeClassifierBase):
    """Reading for models that may have columns of any kind."""

    @abstractmethod
    def _choice(self) -> Any:
        """What the user says of the columns."""

    @property
    def _mixed(self) -> bool:  # type: ignore[override]  # depends on the densities here
        return not isinstance(self._choice(), MultivariateGaussian)

    def _plan_for(self, table: Table, codes: Codes, weight: Array | None) -> Plan:
        choice = self._choice()
        if isinstance(choice, MultivariateGaussian):
            names = feature_names(self)
            return gaussian_plan(choice, table, names, shrinkage=0.0, **self._columns_to_drop)
        plan = columns_plan(choice, table, codes, weight, feature_names(self))
        return plan.without(table, **self._columns_to_drop)


@documented
class NaiveBayes(_ByColumns):
    r"""Naive Bayes: columns of any kinds, independent given the class.

    .. math:: p(x \mid c) = \prod_j p_j(x_j \mid c)

    Columns may be numbers, counts, yes/no, or categories (strings, pandas categoricals), mixed as they come. Missing
    cells are skipped, in learning and prediction. A category that was not seen in training has the probability of a
    level without any count.

    Parameters
    ----------
    features : "auto" (default), str, family, or list with one per column
        "auto": booleans and two values are "bernoulli", strings and categoricals "categorical", whole numbers that are
        not negative "poisson", other numbers "gaussian". Also "multinomial" (all such columns are one vector of counts,
        as words in a text), "exponential", "gamma" (its shape found at the first fit) and the objects of
        `credibly.class_conditionals`. A list has one per column ("auto" among them), a dict names some columns and
        leaves the others to "auto". `features_` says what was chosen.
    {parameters}

    References
    ----------
    Murphy 2012, sec. 3.5.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from credibly import NaiveBayes
    >>> X = pd.DataFrame(
    ...     {"age": [20.5, 30.1, 41.7, 52.2, np.nan, 61.0], "smoker": ["no", "no", "yes", None, "yes", "yes"]}
    ... )
    >>> model = NaiveBayes().fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.features_
    ['gaussian', 'categorical']
    >>> model.predict(pd.DataFrame({"age": [25.0, np.nan], "smoker": ["no", "yes"]}))
    array([0, 1])
    """

    def __init__(
        self,
        *,
        features: Any = "auto",
        parameters: str = "integrated",
        class_prior: Any = "learned",
        prior: Any = "empirical",
        unlabelled: Any = None,
        tol: float = 1e-10,
        max_iter: int = 2000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.features = features
        self.parameters = parameters
        self.class_prior = class_prior
        self.prior = prior
        self.unlabelled = unlabelled
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _choice(self) -> Any:
        return self.features


@documented
class GenerativeClassifier(_ByColumns):
    r"""A classifier from any class-conditional densities.

    .. math:: p(c \mid x) \propto π_c \, p(x \mid c)

    Parameters
    ----------
    class_conditional : object of credibly.class_conditionals
        `MultivariateGaussian(covariance)` (None: one covariance per class), `Gaussian()`, `Bernoulli()`,
        `Categorical()`, `Multinomial()`, `Poisson()`, `Exponential()`, `Gamma(shape)` for all columns, or
        `Independent([…])` with one per column.
    {parameters}

    References
    ----------
    Murphy 2012, ch. 4 and 9.2.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import GenerativeClassifier
    >>> from credibly.class_conditionals import Exponential
    >>> X = np.array([[0.1], [0.3], [0.2], [2.0], [3.5], [1.5]])
    >>> model = GenerativeClassifier(Exponential(), parameters="plugin").fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.coef_.round(3)  # rates 1/0.2 and 3/7: log odds are linear in x
    array([[4.571]])
    """

    def __init__(
        self,
        class_conditional: Any = None,
        *,
        parameters: str = "integrated",
        class_prior: Any = "learned",
        prior: Any = "empirical",
        unlabelled: Any = None,
        tol: float = 1e-10,
        max_iter: int = 2000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.class_conditional = class_conditional
        self.parameters = parameters
        self.class_prior = class_prior
        self.prior = prior
        self.unlabelled = unlabelled
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _choice(self) -> Any:
        return MultivariateGaussian("per_class") if self.class_conditional is None else self.class_conditional
