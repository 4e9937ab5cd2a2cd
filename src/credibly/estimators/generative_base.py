"""What generative classifiers share: sums of rows are learnt, merged and forgotten."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import ConvergenceWarning, InputError, NewClassError
from credibly.estimators.generative_choices import check_priors, class_weights, not_determined
from credibly.estimators.generative_learning import (
    GenerativeRows,
    Learnt,
    describe_all,
    learn,
    print_step,
    refuse_completed,
    refuse_large,
    sum_rows,
)
from credibly.estimators.generative_merging import check_mergeable, check_same_prior
from credibly.estimators.generative_stored import fit_stored
from credibly.estimators.linear_base import only
from credibly.estimators.mixed_columns import Table
from credibly.estimators.not_in_memory import is_stored, refuse_resume
from credibly.estimators.partial_labels import (
    Labels,
    joined_classes,
    places,
    read_classes,
    read_partial_labels,
    refuse_no_label,
)
from credibly.estimators.plans import Plan, read_generative
from credibly.estimators.stored import stored_rows
from credibly.estimators.validation import (
    all_or_nothing,
    check_limits,
    feature_names,
    forget_fit,
    n_threads,
    read_weights,
    refuse_one_class,
)
from credibly.inference.conjugate import Integrate, Joint, JointSums, PlugIn, Rule
from credibly.inference.em import UNLABELLED, Limits
from credibly.model.class_conditionals.base import MAXIMUM_LIKELIHOOD, MOMENT, NotDetermined
from credibly.model.class_conditionals.statistics import refuse_impossible
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.status import Status, silent

DIVISORS = {"plugin": MAXIMUM_LIKELIHOOD, "moment": MOMENT}


class GenerativeLearning(ClassifierMixin, BaseEstimator):
    """From rows to sums and a joint model; subclasses choose the family and read the columns."""

    parameters: str
    class_prior: Any
    prior: Any
    unlabelled: Any
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    _mixed: bool = False  # whether columns may be other things than numbers

    classes_: AnyArray
    prior_: Any
    _plan: Plan
    _sums: JointSums
    _joint: Joint
    _declared: set[Any]  # classes that stay although no row has them
    _completed: bool  # whether some rows lacked something
    _entropy: float
    _n_rows: int

    @abstractmethod
    def _plan_for(self, table: Table, codes: Codes, weight: Array | None) -> Plan:
        """How the columns of a first fit are read, and the family that describes them."""

    # --- learning ----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        resume: None = None,
    ) -> Self:
        """Learn the densities of all classes.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame; Dask array or frame; ParquetRows
            NaN is a missing cell.
        y : (n,) labels
            None, NaN, pd.NA and the marker given as `unlabelled` are rows without a label. `ParquetRows` have their
            own, one for every row; so must Dask's rows.
        sample_weight : (n,) array, optional
            A weight of 2 is the row twice.
        resume : None
            Of linear classifiers and GLMs only: this one takes two passes.

        Returns
        -------
        self
        """
        refuse_resume(resume, self)
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            if is_stored(X):
                rows = stored_rows(X, y, sample_weight)
                forget_fit(self)
                fit_stored(self, rows)
                return self
            table, labels, weight = self._read(X, y, sample_weight, reset=True)
            refuse_one_class(labels.classes)
            forget_fit(self)
            self._first_fit(table, labels, weight, ())
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more rows: their sums are added. New classes may come at any time.

        The first call is `fit` (and may hold one class only); the prior and the families of the columns are found there
        and kept.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : (K,) labels, optional
            Classes that exist although no row has shown them yet.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            first = not hasattr(self, "_sums")
            table, labels, weight = self._read(X, y, sample_weight, reset=first, some_label=first)
            declared = () if classes is None else tuple(read_classes(classes).tolist())
            if first:
                self._first_fit(table, labels, weight, declared)
            else:
                self._refuse_rowwise_shrinkage("partial_fit")
                self._update(table, labels, weight, declared)
        return self

    def add_class(self, label: Any, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn a class that is new, from its rows; the densities of the others stay as they are.

        (With a shared covariance its rows also say something about that.)

        Parameters
        ----------
        label : label
            Not among `classes_`.
        X : (n, d) array or frame
        sample_weight : (n,) array, optional

        Returns
        -------
        self
        """
        check_is_fitted(self)
        refuse_no_label(label, self.unlabelled)
        if label in set(self.classes_.tolist()):
            raise InputError(f"The model knows the class {label!r} already; use partial_fit to learn more rows of it.")
        n_rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X, dtype=object))
        return self.partial_fit(X, np.array([label] * n_rows), sample_weight=sample_weight)

    def merge(self, other: Self) -> Self:
        """Take over what another model has learnt, in place: as if its rows had been given to this one.

        Parameters
        ----------
        other : estimator of the same kind
            Fitted with the same columns, families and prior (``prior=model.prior_`` shares an empirical one).

        Returns
        -------
        self
        """
        check_is_fitted(self)
        check_mergeable(self, other)
        with all_or_nothing(self):
            plan, mine, theirs = self._plan.joined(other._plan, self._sums.statistics, other._sums.statistics)
            check_same_prior(self, other)
            classes = joined_classes(self.classes_, other.classes_)
            ours = JointSums(self._sums.counts, mine).take(places(self.classes_, classes))
            others = JointSums(other._sums.counts, theirs).take(places(other.classes_, classes))
            self._plan, self._n_rows = plan, self._n_rows + other._n_rows
            self._declared = {*self._declared, *other._declared}
            self._keep_sums(ours.merge(others), classes)
        return self

    def forget(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Unlearn rows, exactly: as if they had never been there. In place: `copy.deepcopy` a model to keep it.

        Parameters
        ----------
        X, y, sample_weight
            Rows as they were given to `fit` or `partial_fit`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._refuse_rowwise_shrinkage("forget")
        if self._completed:
            refuse_completed("forget")
        with all_or_nothing(self), single_threaded_blas():
            table, labels, weight = self._read(X, y, sample_weight, reset=False)
            new = [label for label in labels.classes.tolist() if label not in set(self.classes_.tolist())]
            if new:
                raise NewClassError(f"The model has not learnt any row of {new}; it knows {self.classes_.tolist()}.")
            if self._plan.grown(table, self._sums.statistics)[0] is not self._plan:
                refuse_impossible("a category that was never seen would have fewer than no rows")
            rows = self._rows(self._plan.encode(table), labels, weight, self.classes_)
            if rows.lacking(self._plan.family).any():
                raise InputError("Rows without a label, or with missing cells, were never learnt here.")
            left = self._sums.remove(sum_rows(self._plan.family, rows.rows(), len(self.classes_)))
            self._n_rows -= len(rows.codes)
            self._plan, statistics = self._plan.shrunk(left.statistics)
            sums, classes = self._without_empty(JointSums(left.counts, statistics))
            try:
                joint = self._rule(len(classes)).learn(self._plan.family, sums)
            except NotDetermined as error:
                if self.prior_ is None or self._no_proper_prior:
                    self._explain(error, classes)
                refuse_impossible("a covariance would not be positive definite")
            self._keep(Learnt(sums, joint, 0.0, np.array([joint.value]), Status.CONVERGED), classes)
        return self

    # --- the steps ---------------------------------------------------------------------------------------------

    def _check_choices(self) -> None:
        only(self.parameters, {"integrated": None, **DIVISORS}, "parameters")
        check_priors(self.class_prior, self.prior)
        check_limits(self)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, some_label: bool = True
    ) -> tuple[Table, Labels, Array | None]:
        table = read_generative(self, X, mixed=self._mixed, reset=reset)
        n_rows = table.n_rows if hasattr(table, "n_rows") else table.shape[0]
        labels = read_partial_labels(y, self.unlabelled, n_rows, some_label=some_label)
        weight = read_weights(sample_weight, np.empty((n_rows, 0)))
        labels = labels if weight is None else labels.with_weight(weight)
        return table, labels, weight

    def _rows(self, X: Any, labels: Labels, weight: Array | None, classes: AnyArray) -> GenerativeRows:
        """Rows that count, with codes into these classes."""
        order = np.append(places(classes, labels.classes), UNLABELLED)  # the last entry serves the code -1
        rows = GenerativeRows(X, order[labels.codes], weight, n_threads(self.n_jobs))
        return rows if weight is None else rows.only(weight > 0)

    def _first_fit(self, table: Table, labels: Labels, weight: Array | None, declared: tuple[Any, ...]) -> None:
        classes = joined_classes(labels.classes, np.array(declared)) if declared else labels.classes
        try:
            self._plan = self._plan_for(table, labels.codes, weight)
        except NotDetermined as error:
            self._explain(error, classes)
        rows = self._rows(self._plan.encode(table), labels, weight, classes)
        self._declared = set(declared)
        self._entropy, self._completed, self._n_rows = 0.0, False, 0
        self._learn(rows, None, classes)

    def _update(self, table: Table, labels: Labels, weight: Array | None, declared: tuple[Any, ...]) -> None:
        found = joined_classes(labels.classes, np.array(declared)) if declared else labels.classes
        classes = joined_classes(self.classes_, found)
        self._plan, statistics = self._plan.grown(table, self._sums.statistics)
        self._declared = {*self._declared, *declared}
        base = JointSums(self._sums.counts, statistics).take(places(self.classes_, classes))
        self._learn(self._rows(self._plan.encode(table), labels, weight, classes), base, classes)

    def _learn(self, rows: GenerativeRows, base: JointSums | None, classes: AnyArray) -> None:
        family = self._plan.family
        refuse_large(family, rows.X.shape[1], len(classes))
        lacking = rows.lacking(family)
        sums = sum_rows(family, rows.only(~lacking).rows(), len(classes))
        if base is None:
            self.prior_ = self._resolve_prior(rows, None if lacking.any() else sums.statistics.pooled())
        limits = Limits(self.tol, self.max_iter, print_step if self.verbose else silent)
        try:
            total = sums if base is None else base.merge(sums)
            adjusted = self._adjusted(total, rows, lacking)
            learnt = learn(family, self._rule(len(classes)), adjusted, rows, lacking, limits)
        except NotDetermined as error:
            self._explain(error, classes)
        self._completed = self._completed or bool(lacking.any())
        self._entropy += learnt.entropy
        self._n_rows += int(rows.says_something().sum())
        self._keep(learnt if adjusted is total else learnt._replace(sums=total), classes)

    def _adjusted(self, sums: JointSums, rows: GenerativeRows, lacking: AnyArray) -> JointSums:
        """The sums that the model is made of, where those are not the rows' own."""
        return sums

    def _resolve_prior(self, rows: GenerativeRows | None, pooled: Any) -> Any:
        """The prior of all columns, in the units of the data; None where parameters are estimated."""
        if self.parameters != "integrated":
            return None
        if not isinstance(self.prior, str):
            return self.prior
        family = self._plan.family
        if self.prior == "reference":
            return family.reference_prior()
        if pooled is None:
            assert rows is not None
            pooled = describe_all(family, rows.rows())
        return self._plan.full_prior(family.empirical_prior(pooled))

    @property
    def _no_proper_prior(self) -> bool:
        return isinstance(self.prior, str) and self.prior == "reference"

    @property
    def _columns_to_drop(self) -> dict[str, bool]:
        """An explicit prior has room for every column; one made of the rows, or none, has not."""
        integrated, explicit = self.parameters == "integrated", not isinstance(self.prior, str)
        empirical = integrated and not explicit and self.prior == "empirical"
        return {"drop_constant": empirical, "drop_empty": not (integrated and explicit)}

    def _rule(self, n_classes: int) -> Rule:
        weights = class_weights(self.class_prior, n_classes, integrated=self.parameters == "integrated")
        if self.parameters == "integrated":
            return Integrate(self._plan.prior(self.prior_), weights)
        return PlugIn(DIVISORS[self.parameters], weights)

    def _keep_sums(self, sums: JointSums, classes: AnyArray) -> None:
        """A model from sums alone, after merging or forgetting."""
        try:
            joint = self._rule(len(classes)).learn(self._plan.family, sums)
        except NotDetermined as error:
            self._explain(error, classes)
        self._keep(Learnt(sums, joint, 0.0, np.array([joint.value]), Status.CONVERGED), classes)

    def _keep(self, learnt: Learnt, classes: AnyArray) -> None:
        """Turn what was learnt into fitted attributes, and a bad status into one warning."""
        self.classes_ = classes
        self._sums, self._joint = learnt.sums, learnt.joint
        self.class_count_ = learnt.sums.counts
        self.status_, self.n_iter_ = learnt.status, len(learnt.path)
        self.objective_path_ = learnt.path
        if not learnt.status.good:
            warnings.warn(learnt.status.value, ConvergenceWarning, stacklevel=5)

    def _without_empty(self, sums: JointSums) -> tuple[JointSums, AnyArray]:
        """Without classes that lost their last row, unless they were declared."""
        declared = np.array([label in self._declared for label in self.classes_.tolist()])
        kept = np.flatnonzero((sums.counts > 0) | declared)
        if not len(kept):
            raise InputError("These are all the rows that the model has learnt; nothing would be left of it.")
        return sums.take(kept), self.classes_[kept]

    def _refuse_rowwise_shrinkage(self, what: str) -> None:
        """Only discriminants can have it."""

    def _explain(self, error: NotDetermined, classes: AnyArray) -> NoReturn:
        """The error of a class that its rows do not determine, with names."""
        names = self._plan.names if hasattr(self, "_plan") else feature_names(self)
        other = self._other_remedy if self.parameters != "integrated" else None
        raise InputError(not_determined(error, classes, names, other)) from error

    _other_remedy = "more rows"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_sums")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
