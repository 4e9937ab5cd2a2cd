"""When two generative models may become one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from credibly.errors import InputError
from credibly.estimators.containers import named
from credibly.estimators.generative_learning import refuse_completed
from credibly.estimators.validation import feature_names

SAME = ("parameters", "class_prior", "features", "class_conditional", "shrinkage")


def check_mergeable(mine: Any, theirs: Any) -> None:
    """Refuse models that cannot have learnt parts of the same rows."""
    if type(theirs) is not type(mine):
        raise InputError(f"merge takes another {type(mine).__name__}; got {type(theirs).__name__}.")
    check_is_fitted(theirs)
    for model in (mine, theirs):
        model._refuse_rowwise_shrinkage("merge")
        if model._completed:
            refuse_completed("merge")
    if mine.n_features_in_ != theirs.n_features_in_ or feature_names(mine) != feature_names(theirs):
        raise InputError(
            f"The models have different columns: {named(feature_names(mine))} and {named(feature_names(theirs))}."
        )
    ours, others = ({k: v for k, v in m.get_params().items() if k in SAME} for m in (mine, theirs))
    different = [name for name in ours if not np.array_equal(ours[name], others[name])]
    if different:
        raise InputError(f"The models were made with different {', '.join(different)}; merge needs the same.")


def check_same_prior(mine: Any, theirs: Any) -> None:
    """Refuse models of different priors."""
    if mine.prior_ != theirs.prior_:
        raise InputError(
            "The models have different priors (an empirical prior is made of a model's own first rows). Fit the "
            "second with prior=first.prior_, or both with prior='reference' or an explicit one."
        )
