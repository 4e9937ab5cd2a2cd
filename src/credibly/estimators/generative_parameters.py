"""What all generative classifiers take and have, for their docstrings."""

PARAMETERS = """parameters : "integrated" (default), "plugin" or "moment"
        Average over the parameters of the densities (conjugate, in closed form), or estimate them: by maximum
        likelihood, or with R's divisors (n - K pooled, n_c - 1).
    class_prior : "learned" (default), "uniform", array or Dirichlet
        Class probabilities: from the labels (Dirichlet(1, …, 1) when integrated, else n_c / n), equal, or given in the
        order of the sorted classes.
    prior : "empirical" (default), "reference", or conjugate priors
        Beliefs about the parameters: weak ones in the units of the data, found at the first fit and frozen in `prior_`;
        none (improper, no evidence); or `credibly.priors.NormalInverseWishart`, `Beta`, `Dirichlet`, `Gamma` (for
        independent columns one for all of them, or a list with one each).
    unlabelled : label, optional
        What marks a row without a label, besides None, NaN and pd.NA.
    tol : float
        Completing rows that lack a label or cells stops when expected sums change by less than this, relatively.
    max_iter : int
        Most steps of completing.
    n_jobs : int or None
        Threads for large tables; None uses as many as BLAS may.
    random_state : int, RandomState or None
        For `sample`, `sample_proba` and `prequential_score`.
    verbose : bool
        Print every step of completing, and of `prequential_score`.

    Attributes
    ----------
    classes_ : (K,) array
    class_count_, class_prior_ : (K,) arrays
        Weight of the rows of each class, and p(class).
    prior_ : conjugate prior, list of them, or None
        The prior used; ``prior=model.prior_`` shares it.
    features_ : list of str
        The family of every column.
    posterior_ : Beliefs
        Of the parameters ("integrated").
    log_evidence_ : float
        The joint evidence log p(X, y) ("integrated" with a proper prior).
    log_likelihood_, bic_, aic_, occam_factor_ : float
        Of columns and labels together.
    coef_, intercept_ : arrays
        Where log p(class | x) is linear in x.
    objective_path_ : (n_iter_,) array
        Log likelihood, or lower bound on the log evidence, while rows were completed.
    status_ : Status
    n_iter_ : int
"""


def documented(cls: type) -> type:
    """Put the parameters and attributes that all generative classifiers share into a docstring."""
    if cls.__doc__ is not None:  # stripped under python -OO
        cls.__doc__ = cls.__doc__.replace("{parameters}", PARAMETERS.strip())
    return cls
