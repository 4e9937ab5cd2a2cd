"""A Gaussian process with inducing points: laws, what it answers, what it refuses, and that it can be saved."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, Normal
from credibly.errors import CrediblyError, DataWarning, InputError, NoEvidenceError, NotDefinedError
from credibly.kernels import RBF, Constant, Linear, Matern, Polynomial, White
from credibly.persistence import load, save

EITHER = pytest.mark.parametrize("inference", ["laplace", "ep"])
KERNEL = 3.0 * Matern([0.7, 0.9], nu=1.5) + White(0.05)


def toy(n: int = 60, K: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.logistic(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, K) / K))


def elsewhere(m: int = 9) -> np.ndarray:
    return 1.5 * np.random.default_rng(1).normal(size=(m, 2))


def fitted(X, y, kernel=KERNEL, **options) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(kernel, **{"optimize": False, **options}).fit(X, y)


def same(one, other, Z, tol=1e-8) -> None:
    assert_allclose(one.predict_log_proba(Z), other.predict_log_proba(Z), rtol=tol, atol=tol)
    assert_allclose(one.predict_interval(Z), other.predict_interval(Z), rtol=tol, atol=tol)
    for ours, theirs in zip(one.predict_latent(Z), other.predict_latent(Z), strict=True):
        assert_allclose(ours, theirs, rtol=tol, atol=tol)


# --- laws ----------------------------------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("likelihood", ["logit", "probit", "gumbel"])
def test_all_rows_as_points_give_the_exact_model(inference, likelihood):
    X, y = toy()
    options = {"inference": inference, "likelihood": likelihood}
    exact, induced = fitted(X, y, **options), fitted(X, y, inducing=X, **options)
    same(induced, exact, elsewhere())
    assert_allclose(induced.log_evidence_, exact.log_evidence_, rtol=1e-10)
    assert_allclose(induced.log_likelihood_, exact.log_likelihood_, rtol=1e-9)
    assert_allclose(induced.log_evidence_gradient_, exact.log_evidence_gradient_, rtol=1e-7, atol=1e-8)
    assert_allclose(induced.posterior_.mean, exact.posterior_.mean, rtol=1e-8, atol=1e-8)
    assert_allclose(induced.posterior_.var, exact.posterior_.var, rtol=1e-8)
    assert_allclose(induced.loo_log_proba_, exact.loo_log_proba_, rtol=1e-7)
    assert_allclose(induced.effective_parameters_, exact.effective_parameters_, rtol=1e-8)
    by_number = fitted(X, y, inducing=len(X), **options)
    assert_array_equal(by_number.predict_log_proba(X), induced.predict_log_proba(X))


@EITHER
def test_all_rows_as_points_learn_the_same_kernel(inference):
    X, y = toy()
    kernel = 3.0 * Matern(0.9, nu=1.5)
    exact, induced = (fitted(X, y, kernel, optimize=True, inference=inference, inducing=it) for it in (None, X))
    assert_allclose(induced.log_evidence_, exact.log_evidence_, rtol=1e-8)
    assert_allclose(induced.kernel_.theta, exact.kernel_.theta, atol=1e-2)  # where the evidence is flat to 1e-9
    assert np.abs(induced.log_evidence_gradient_).max() < 1e-2
    assert induced.status_ is exact.status_


def test_a_kernel_of_low_rank_needs_no_more_points_than_its_rank():
    X, y = toy()
    process = fitted(X, y, Constant(0.64) * Linear(bias=1.5), inducing=10, inference="laplace")
    weights = BayesianLogisticRegression(prior=Normal(scale=0.8, intercept_scale=1.2), inference="laplace").fit(X, y)
    assert process.inducing_points_.shape == (3, 2)
    assert_allclose(process.log_evidence_, weights.log_evidence_, rtol=1e-9)
    assert_allclose(process.predict_log_proba(elsewhere()), weights.predict_log_proba(elsewhere()), rtol=1e-8)


@EITHER
def test_the_order_of_rows_and_of_points_does_not_matter(inference):
    X, y = toy()
    order, Z = np.random.default_rng(2).permutation(len(y)), elsewhere(12)
    one = fitted(X, y, inducing=Z, inference=inference)
    other = fitted(X[order], y[order], inducing=Z[::-1], inference=inference)
    same(one, other, X[:5], tol=1e-8)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-10)
    assert_allclose(one.posterior_.mean[order], other.posterior_.mean, rtol=1e-8, atol=1e-8)
    assert_allclose(one.loo_log_proba_[order], other.loo_log_proba_, rtol=1e-7)


@EITHER
def test_the_gradient_of_the_evidence_is_that_of_differences(inference):
    X, y = toy()
    model, h = fitted(X, y, inducing=elsewhere(), inference=inference), 1e-4

    def height(theta: np.ndarray) -> float:
        return fitted(X, y, KERNEL.with_theta(theta), inducing=elsewhere(), inference=inference).log_evidence_

    steps = h * np.eye(KERNEL.theta.size)
    differences = [(height(KERNEL.theta + step) - height(KERNEL.theta - step)) / (2 * h) for step in steps]
    assert_allclose(model.log_evidence_gradient_, differences, rtol=1e-6, atol=1e-6)


def test_renaming_the_classes_turns_the_latents_round():
    X, y = toy()
    one, other = fitted(X, y, inducing=elsewhere()), fitted(X, 1 - y, inducing=elsewhere())
    assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], rtol=1e-9)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-12)


@EITHER
def test_many_rows_are_predicted_as_well_as_by_the_exact_model(inference):
    X, y = toy(400)
    new, truth = toy(1000)[0][400:], toy(1000)[1][400:]
    kernel = 3.0 * RBF([1.0, 1.0])
    exact, induced = (fitted(X, y, kernel, optimize=True, inference=inference, inducing=it) for it in (None, 40))
    scores = [it.predict_log_proba(new)[np.arange(len(new)), truth].mean() for it in (exact, induced)]
    assert abs(scores[1] - scores[0]) < 0.005
    assert abs(induced.log_evidence_ - exact.log_evidence_) < 1.0


# --- answers ---------------------------------------------------------------------------------------------------------


def test_every_answer_of_the_exact_model_is_there():
    X, y = toy(150)
    model = GaussianProcessClassifier(inducing=15).fit(X, np.where(y == 1, "yes", "no"))
    assert model.posterior_.mean.shape == model.posterior_.var.shape == (150,)
    assert model.inducing_points_.shape == (15, 2)
    assert_allclose(model.occam_factor_, model.log_evidence_ - model.log_likelihood_)
    assert 0 < model.effective_parameters_ < 150 and model.loo_log_proba_.mean() < 0
    assert model.sample_proba(X[:4], 3, random_state=0).shape == (3, 4, 2)
    assert "variance" in str(model.summary()) and "sd_log" in str(model.summary())
    assert set(model.predict(X)) == {"yes", "no"}
    assert "InducingPosterior(n=150, InducingGaussian(m=15" in repr(model.posterior_)


def test_draws_have_the_mean_and_the_variance_of_the_posterior():
    X, y = toy()
    model = fitted(X, y, 3.0 * RBF(0.8), inducing=elsewhere(12))
    mean, variance = model.predict_latent(elsewhere(4))
    draws = model.posterior_.sample(np.random.default_rng(0), elsewhere(4), 20_000)[:, :, 0]
    assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 20_000))  # five standard errors
    assert_allclose(draws.var(axis=0), variance, rtol=5 * np.sqrt(2 / 20_000))


def test_more_than_two_classes_are_taken_each_against_the_rest():
    X, y = toy(90, K=3)
    exact, induced = (fitted(X, y, inference="ep", inducing=it) for it in (None, X))
    assert_allclose(induced.one_vs_rest_log_evidence_, exact.one_vs_rest_log_evidence_, rtol=1e-9)
    same(induced, exact, elsewhere())
    assert_allclose(induced.log_evidence_gradient_, exact.log_evidence_gradient_, rtol=1e-7, atol=1e-8)
    assert_allclose(induced.loo_log_proba_, exact.loo_log_proba_, rtol=1e-7)
    assert induced.posterior_.mean.shape == induced.posterior_.var.shape == (90, 3)
    assert induced.sample_proba(X[:4], 2, random_state=0).shape == (2, 4, 3)
    with pytest.raises(NoEvidenceError):
        _ = induced.log_evidence_
    few = fitted(X, y, inference="ep", inducing=12).posterior_
    assert_allclose(few.means(elsewhere()), few.scores(elsewhere()).mean, rtol=1e-9, atol=1e-10)


def test_each_class_may_have_a_kernel_of_its_own():
    X, y = toy(90, K=3)
    kernels = [RBF(0.5), 2.0 * RBF(0.8), Matern(0.7)]
    exact, induced = (fitted(X, y, kernels, inference="ep", inducing=it) for it in (None, X))
    same(induced, exact, elsewhere(), tol=1e-7)
    assert_allclose(induced.log_evidence_gradient_, exact.log_evidence_gradient_, rtol=1e-6, atol=1e-7)
    assert len(fitted(X, y, kernels, inference="ep", inducing=20, optimize=True).kernel_) == 3


def test_the_same_rows_give_the_same_points_and_a_seed_gives_others():
    X, y = toy(200)
    first, again, other = (fitted(X, y, inducing=20, random_state=seed) for seed in (None, None, 7))
    assert_array_equal(first.inducing_points_, again.inducing_points_)
    assert not np.array_equal(first.inducing_points_, other.inducing_points_)


def test_max_n_is_no_limit_with_inducing_points_but_for_draws():
    X, y = toy(200)
    model = fitted(X, y, inducing=20, max_n=100)
    with pytest.raises(InputError, match=r"200 latents.*max_n=100"):
        model.sample_proba(X)


def test_columns_keep_their_names():
    X, y = toy()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = fitted(frame, y, 2.0 * RBF(0.7, columns=["dose"]), inducing=12)
    assert_allclose(model.predict_proba(frame), fitted(X, y, 2.0 * RBF(0.7, columns=[1]), inducing=12).predict_proba(X))


def test_a_large_problem_is_searched_on_a_part_of_the_rows_first(monkeypatch):
    X, y = toy(1500)
    kernel = 3.0 * RBF([1.0, 1.0])
    direct = fitted(X, y, kernel, optimize=True, inducing=30)
    monkeypatch.setattr("credibly.inference.inducing_search.SMALL", 0)
    monkeypatch.setattr("credibly.inference.inducing_search.PARTS", ((200, 15), (400, 20), (700, 30), (1500, 30)))
    for inference in ("laplace", "ep"):
        model = fitted(X, y, kernel, optimize=True, inducing=30, inference=inference, n_restarts=1)
        assert model.status_.good
        assert abs(model.log_evidence_ - direct.log_evidence_) < 3.0  # other points, another inference, half a nat
    given = fitted(X, y, kernel, optimize=True, inducing=direct.inducing_points_)
    assert abs(given.log_evidence_ - direct.log_evidence_) < 1.0


# --- points that move ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"inference": "ep"}, {"optimize": True}], ids=str)
def test_moving_points_gains_evidence(options):
    X, y = toy(120)
    held = fitted(X, y, inducing=6, **options)
    moved = fitted(X, y, inducing=6, optimize_inducing=True, **options)
    assert moved.log_evidence_ > held.log_evidence_
    assert len(moved.inducing_points_) == 6 and not np.isin(moved.inducing_points_, X).all()
    given = fitted(X, y, moved.kernel_, inducing=moved.inducing_points_, **options | {"optimize": False})
    same(given, moved, elsewhere(), tol=1e-7)


def test_hyperparameters_are_at_their_best_for_points_that_moved(monkeypatch):
    X, y = toy(400)
    kernel = 3.0 * RBF([1.0, 1.0])
    small = fitted(X, y, kernel, optimize=True, inducing=8, optimize_inducing=True)
    assert small.status_.good and np.abs(small.log_evidence_gradient_).max() < 0.05
    monkeypatch.setattr("credibly.inference.inducing_search.SMALL", 0)
    monkeypatch.setattr("credibly.inference.inducing_search.PARTS", ((100, 8), (200, 8)))
    monkeypatch.setattr("credibly.inference.inducing_search.JUDGED_ROWS", 200)
    large = fitted(X, y, kernel, optimize=True, inducing=8, optimize_inducing=True)
    best = fitted(X, y, large.kernel_, optimize=True, inducing=large.inducing_points_)
    assert large.status_.good and best.log_evidence_ - large.log_evidence_ < 1.0  # half a nat, by a part's curvature


def test_points_move_for_all_classes_together():
    X, y = toy(120, K=3)
    options = {"inducing": 6, "inference": "ep"}
    for kernel in (KERNEL, [KERNEL, 2.0 * RBF([0.8, 1.0]), 3.0 * RBF([1.0, 0.6])]):
        held, moved = (fitted(X, y, kernel, optimize_inducing=moves, **options) for moves in (False, True))
        assert moved.one_vs_rest_log_evidence_.sum() > held.one_vs_rest_log_evidence_.sum()


# --- saving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
def test_a_saved_model_answers_as_before(tmp_path, K):
    X, y = toy(90, K)
    model = fitted(X, y, inducing=15, inference="ep", optimize=True, kernel=2.0 * RBF([1.0, 1.0]))
    save(model, tmp_path / "model.credibly")
    for there in (load(tmp_path / "model.credibly"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(there.predict_log_proba(X), model.predict_log_proba(X))
        assert_array_equal(there.log_evidence_gradient_, model.log_evidence_gradient_)
        assert_array_equal(there.loo_log_proba_, model.loo_log_proba_)
        assert_array_equal(there.inducing_points_, model.inducing_points_)
        assert str(there.summary()) == str(model.summary())


# --- bad input -------------------------------------------------------------------------------------------------------

REFUSED = {
    "none": ({"inducing": 0}, r"at least 1, or a table; got 0"),
    "negative": ({"inducing": -3}, r"at least 1, or a table; got -3"),
    "half a point": ({"inducing": 2.5}, r"whole number of points.*got 2.5"),
    "yes": ({"inducing": True}, r"whole number of points.*got True"),
    "more than rows": ({"inducing": 61}, r"inducing=61 points.*60 rows.*inducing=None"),
    "text": (
        {"inducing": "many"},
        r"inducing must be None, a whole number of points of at least 1, or a table; got 'many'",
    ),
    "one column": ({"inducing": np.zeros((4, 1))}, r"the 2 columns of X; got shape \(4, 1\)"),
    "no table": ({"inducing": np.zeros(4)}, r"the 2 columns of X; got shape \(4,\)"),
    "empty": ({"inducing": np.zeros((0, 2))}, r"row for each point.*got shape \(0, 2\)"),
    "NaN": ({"inducing": np.array([[0.0, np.nan]])}, r"inducing has entries that are NaN or infinite"),
    "infinite": ({"inducing": np.array([[0.0, np.inf]])}, r"inducing has entries that are NaN or infinite"),
    "adf": ({"inference": "adf"}, r"'laplace' or 'ep'; got 'adf'"),
    "softmax": ({"likelihood": "softmax"}, r"joint softmax is not available.*inference='ep'"),
    "cauchy": ({"likelihood": "cauchy"}, r"must be log-concave.*inducing=None"),
    "label noise": ({"label_noise": 0.1}, r"label_noise is not available with inducing points"),
    "points of a line": ({"optimize_inducing": True, "kernel": RBF(1.0) + Linear(0.5)}, r"stationary.*got.*Linear"),
    "points at kinks": ({"optimize_inducing": True, "kernel": Matern(1.0, nu=0.5)}, r"nu above 0.5.*got.*Matern"),
    "maybe moving": ({"optimize_inducing": 1}, r"optimize_inducing must be True or False; got 1"),
    "nothing to move": ({"optimize_inducing": True, "inducing": None}, r"there are none: give inducing="),
    "overflow": ({"kernel": 1e300 * Polynomial(8, 1e4)}, r"not finite on these rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_means_nothing_is_refused_before_work_starts(name):
    options, match = REFUSED[name]
    X, y = toy()
    with pytest.raises(InputError, match=match) as caught:
        fitted(X, y, **{"inducing": 5, **options})
    assert isinstance(caught.value, CrediblyError)


def test_the_joint_softmax_is_refused_with_what_to_use_instead():
    X, y = toy(90, K=3)
    with pytest.raises(InputError, match=r"more than two classes use inference='ep'"):
        fitted(X, y, inducing=10)


def test_duplicates_among_the_points_are_told_and_change_nothing():
    X, y = toy()
    once = fitted(X, y, inducing=elsewhere())
    with pytest.warns(DataWarning, match=r"Of the 18 inducing points given 9 are used"):
        twice = fitted(X, y, inducing=np.repeat(elsewhere(), 2, axis=0))
    same(once, twice, X[:5])
    assert_array_equal(once.inducing_points_, twice.inducing_points_)


def test_rows_that_are_all_the_same_need_one_point():
    X, y = np.ones((20, 2)), np.arange(20) % 2
    model = fitted(X, y, RBF(), inducing=5)
    assert model.inducing_points_.shape == (1, 2)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], rtol=1e-9)


def test_there_is_no_certificate_with_inducing_points():
    X, y = toy()
    with pytest.raises(NotDefinedError, match="inducing=None"):
        fitted(X, y, inducing=5).certify(X, y)


def test_a_small_kernel_has_a_point_too():
    """All variances together are below what points are added for: then there is one point, not none."""
    x = np.linspace(-1, 1, 12)[:, None]
    model = GaussianProcessClassifier(Constant(1e-4) * RBF(0.5), inducing=5, optimize=False).fit(x, x[:, 0] > 0)
    assert len(model.inducing_points_) == 1
    assert np.isfinite(model.predict_proba(x)).all()


def test_a_row_without_prior_variance_is_nothing_to_refuse():
    x = np.array([[0.0], [1.0], [-2.0], [3.0]])
    model = GaussianProcessClassifier(Constant(4.0) * Linear(), inducing=2, optimize=False).fit(x, [0, 1, 0, 1])
    np.testing.assert_allclose(model.predict_proba([[0.0]]), 0.5)
