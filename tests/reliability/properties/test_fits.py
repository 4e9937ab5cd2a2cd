"""What every fit keeps: a proper posterior, a finite evidence, and the same answer again, however it travels."""

import pickle
from tempfile import TemporaryDirectory

import numpy as np
from numpy.testing import assert_allclose
from sklearn.base import clone

from credibly import Status, load, save
from reliability.properties.models import KINDS, answers, assert_same_bits, drawn, over, quietly

NO_STANDARD_DEVIATIONS = {Status.FITTED_EXACTLY, Status.UNDETERMINED}


@over()
def test_a_fit_warns_once_where_its_status_is_bad_and_asking_never_does(kind, data):
    """`Case.fit` looks at the warnings of every fit in these files (`models.explain`); of asking they are errors."""
    case = drawn(kind, data)
    model = case.fit()
    answers(model, case.new)
    if hasattr(model, "status_"):
        assert model.status_.value.endswith(".")


@over()
def test_fitting_again_gives_the_same_bits(kind, data):
    case = drawn(kind, data)
    model = case.fit()
    first = answers(model, case.new)
    given = {} if case.weight is None else {"sample_weight": case.weight}
    assert_same_bits(first, answers(quietly(model, lambda it: it.fit(case.X, case.y, **given)), case.new))
    assert_same_bits(first, answers(quietly(clone(model), lambda it: it.fit(case.X, case.y, **given)), case.new))


@over()
def test_a_pickle_and_a_file_give_the_same_bits(kind, data):
    case = drawn(kind, data)
    model = case.fit()
    first = answers(model, case.new)
    assert_same_bits(first, answers(pickle.loads(pickle.dumps(model)), case.new))
    with TemporaryDirectory() as folder:
        save(model, f"{folder}/model")
        assert_same_bits(first, answers(load(f"{folder}/model"), case.new))


@over(lambda kind: kind.posterior)
def test_the_covariance_is_positive_definite(kind, data):
    """But where a status says that there is none, and for what softmax cannot see without a prior."""
    case = drawn(kind, data)
    model = case.fit()
    posterior = model.posterior_
    if hasattr(posterior, "var"):  # of a function: at the rows of the fit, and elsewhere
        assert (posterior.var > 0).all()
        variance = model.predict_latent(case.new).variance
        assert (variance > 0).all() if variance.ndim == 1 else (np.linalg.eigvalsh(variance) > 0).all()
        return
    if model.status_ in NO_STANDARD_DEVIATIONS:
        assert np.isnan(posterior.std).any()
        return
    cov, std = posterior.cov, posterior.std
    assert_allclose(cov, cov.T, rtol=1e-12)
    values = np.linalg.eigvalsh(cov / np.outer(std, std))
    softmax = kind.probabilities and case.problem.K > 2
    unseen = len(values) // case.problem.K if softmax and case.problem.prior is None else 0
    assert (values[unseen:] > 0).all()


@over(lambda kind: kind in (KINDS["linear discriminant"], KINDS["quadratic discriminant"]))
def test_covariances_within_classes_are_positive_definite(kind, data):
    case = drawn(kind, data)
    for cov in np.atleast_3d(case.fit().covariance_.T).T:
        std = np.sqrt(np.diag(cov))
        assert (np.linalg.eigvalsh(cov / np.outer(std, std)) > 0).all()


@over(lambda kind: kind.evidence)
def test_the_evidence_is_finite_and_of_labels_at_most_that_of_certainty(kind, data):
    case = drawn(kind, data)
    model = case.fit()
    if not hasattr(model, "log_evidence_"):
        assert case.problem.prior is None or "Jeffreys" in repr(case.problem.prior)
        return
    assert np.isfinite(model.log_evidence_)
    assert_allclose(model.log_evidence_, model.log_likelihood_ + model.occam_factor_, rtol=1e-12, atol=1e-12)
    if kind.of_labels and model.status_.good:
        assert model.log_evidence_ <= 1e-9
