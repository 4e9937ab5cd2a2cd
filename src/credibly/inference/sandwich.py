r"""The middle of a sandwich covariance: sums of squared scores, row by row or group by group.

Notation
--------
====  =================================================================  ================
u     free weights in the frame; W all weight vectors                    (P,), (K, D)
s_n   score of a row: gradient of its log-likelihood in u                (P,)
Z     the design of all rows                                             (n, D)
G     number of groups
====  =================================================================  ================
"""

from functools import partial

import numpy as np
from scipy.sparse import csr_array

from credibly.data.rows import Block, Sums, add
from credibly.inference.objective import Objective, block_gram, row_slopes, scores
from credibly.model.likelihoods import BernoulliLogit, Categorical
from credibly.model.likelihoods.family_likelihood import CanonicalForm, FamilyLikelihood, ThresholdForm, between
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix, weighted_gram


def curvature_is_expected(likelihood: AnyLikelihood) -> bool:
    """Whether the observed curvature is the expected one, whatever the targets: canonical links."""
    if not isinstance(likelihood, FamilyLikelihood):
        return isinstance(likelihood, BernoulliLogit | Categorical)
    form = likelihood.form
    if isinstance(form, ThresholdForm):
        return isinstance(form.threshold, BernoulliLogit)
    return isinstance(form, CanonicalForm)


def sum_of_squares(objective: Objective, u: Array) -> Array:
    r"""The sum of squared scores, for independent rows.

    .. math:: \textstyle\sum_n s_n s_n^T

    A row of weight k is k rows. A proportion of m trials is m rows, too: so many labels 1, and so many 0.

    References
    ----------
    White 1980; HC0 of MacKinnon & White 1985.
    """
    chain = objective.chain
    block = partial(_squares, likelihood=objective.likelihood, W=chain.weights(u))
    return chain.free_both(np.asarray(objective.rows.sum(block, add)[0]))


def _squares(rows: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Proportions):
        f = scores(rows, W)
        zero, one = (likelihood.slopes(np.full_like(f, label), f).grad for label in (0.0, 1.0))
        squares = between(rows.y, zero**2, one**2)
    else:
        grad = row_slopes(likelihood, rows._replace(weight=None), W).grad
        if grad.ndim == 2:
            return (block_gram(rows, grad[:, :, None] * grad[:, None, :]),)
        squares = grad**2
    return (weighted_gram(rows.X, squares if rows.weight is None else squares * rows.weight),)


def sum_of_group_squares(objective: Objective, u: Array, Z: DesignMatrix, groups: Codes) -> Array:
    r"""The sum of squared scores of groups, for rows that depend on each other within them.

    .. math:: \frac{G}{G-1} \textstyle\sum_g (\sum_{n \in g} s_n) (\sum_{n \in g} s_n)^T

    Parameters
    ----------
    objective : Objective
    u : (P,) array
    Z : (n, D) array or csr_array
    groups : (n,) int array
        Codes 0 … G-1.

    References
    ----------
    Liang & Zeger 1986; the factor is that of R's ``sandwich::vcovCL``.
    """
    chain, likelihood = objective.chain, objective.likelihood
    W, n, G = chain.weights(u), len(groups), int(groups.max()) + 1
    grad = objective.rows.map(lambda rows: row_slopes(likelihood, rows, W).grad).reshape(n, -1)
    sums = [csr_array((column, (groups, np.arange(n))), (G, n)) @ Z for column in grad.T]
    S = chain.free(np.concatenate([it if isinstance(it, np.ndarray) else it.toarray() for it in sums], axis=1).T)
    return np.asarray(S @ S.T) * (G / (G - 1))
