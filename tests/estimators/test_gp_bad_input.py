"""Every bad input of a Gaussian process has a decided answer: an error that says what to change, or a result."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import sklearn.gaussian_process.kernels as theirs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from credibly import GaussianProcessClassifier
from credibly.errors import CrediblyError, InputError, NewClassError, NotDefinedError
from credibly.kernels import RBF, Constant, Kernel, Linear, Polynomial

NAMES = ["age", "dose", "bmi"]
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(30, 3)), columns=NAMES)
Y = (X["age"] + 0.5 * RNG.normal(size=30) > 0).to_numpy().astype(int)
Y3 = np.digitize(X["age"], [-0.5, 0.5])
KERNEL = 4.0 * RBF(1.5)
MODEL = GaussianProcessClassifier(KERNEL, optimize=False).fit(X, Y)


def fit(X=X, y=Y, **options):
    return GaussianProcessClassifier(**{"kernel": KERNEL, "optimize": False} | options).fit(X, y)


def broken(value, column="dose"):
    return X.assign(**{column: np.where(np.arange(len(X)) == 3, value, X[column])})


def check_refused(match, error=InputError, **options):
    with pytest.raises(error, match=match) as caught:
        fit(**options)
    assert isinstance(caught.value, CrediblyError) and isinstance(caught.value, ValueError)


# --- cells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_cells_that_are_not_finite_are_refused_by_column(value, name):
    match = rf"{name}.*'dose'.*drop or impute"
    check_refused(match, X=broken(value))
    with pytest.raises(InputError, match=match):
        MODEL.predict(broken(value))


def test_the_message_about_missing_cells_speaks_of_this_model():
    with pytest.raises(InputError) as caught:
        fit(X=broken(np.nan))
    assert "Linear models" not in str(caught.value)


TEXT = {
    "text": X.assign(dose="high"),
    "categories": X.assign(dose=pd.Categorical(["low", "high"] * 15)),
    "objects": np.array([["low", "1"]] * 30, dtype=object),
    "dates": X.assign(dose=pd.Timestamp("2024-01-01")),
}


@pytest.mark.parametrize("name", list(TEXT))
def test_what_is_not_a_number_is_refused_with_the_way_to_encode_it(name):
    check_refused(r"(?s)numbers.*OneHotEncoder|'dose'", X=TEXT[name])


def test_complex_numbers_are_refused():
    check_refused("[Cc]omplex", X=X.to_numpy() + 1j)


def test_magnitudes_that_cannot_be_squared_are_refused_by_column():
    check_refused(r"beyond 1e100 in column 'dose'.*Change the unit", X=broken(1e101))
    check_refused(r"differ by less than 1e-100 in column 'dose'.*unit", X=X.assign(dose=X["dose"] * 1e-105))


@pytest.mark.parametrize("scale", [1e90, 1e-90])
def test_large_and_small_units_are_taken_by_the_default_kernel(scale):
    want = GaussianProcessClassifier().fit(X, Y).predict_proba(X)
    moved = GaussianProcessClassifier().fit(X * scale, Y).predict_proba(X * scale)
    assert_allclose(moved, want, rtol=0, atol=1e-6)


def test_a_row_far_beyond_all_others_is_predicted_by_the_prior():
    assert_allclose(MODEL.predict_proba(broken(1e90))[3], 0.5, atol=1e-12)
    assert_array_equal(MODEL.predict_proba(broken(1e90))[:3], MODEL.predict_proba(X)[:3])


# --- shapes -----------------------------------------------------------------------------------------------------


def test_tables_of_another_shape_are_refused():
    check_refused(r"(?s)2D array.*reshape", X=X["age"].to_numpy())
    check_refused(r"0 sample\(s\).*minimum of 1", X=X.iloc[:0], y=[])
    check_refused(r"0 feature\(s\).*minimum of 1", X=X.to_numpy()[:, :0])
    check_refused(r"inconsistent numbers of samples: \[30, 5\]", y=Y[:5])
    check_refused(r"1d array.*\(30, 2\)", y=np.column_stack([Y, Y]))
    with pytest.raises(InputError, match=r"(?s)2D array.*reshape"):
        fit(X=X.to_numpy()).predict(X.to_numpy()[0])
    with pytest.raises(InputError, match=r"2 features.*expecting 3"):
        fit(X=X.to_numpy()).predict(X.to_numpy()[:, :2])


def test_columns_that_were_not_there_are_refused_by_name():
    with pytest.raises(InputError, match=r"(?s)unseen at fit time.*weight.*now missing.*dose"):
        MODEL.predict(X.rename(columns={"dose": "weight"}))


def test_sparse_tables_are_refused_with_advice():
    match = r"sparse.*GaussianProcessClassifier.*X\.toarray\(\).*linear model"
    check_refused(match, X=csr_array(X.to_numpy()))
    with pytest.raises(InputError, match=match):
        fit(X=X.to_numpy()).predict(csr_array(X.to_numpy()))


# --- labels -----------------------------------------------------------------------------------------------------


def test_labels_that_cannot_be_used_are_refused():
    check_refused(r"only one class, 0; .*at least two classes", y=np.zeros(30, dtype=int))
    check_refused(r"missing labels.*1 of 30.*row 0.*drop", y=[None, *["a", "b"] * 14, "a"])
    check_refused(r"y.*NaN", y=np.where(np.arange(30) == 3, np.nan, Y))
    check_refused(r"class labels.*continuous", y=X["age"])
    check_refused(r"requires y", y=None)
    check_refused(r"one type", y=np.array([1, "a"] * 15, dtype=object))


def test_the_message_about_one_class_does_not_advise_partial_fit():
    with pytest.raises(InputError) as caught:
        fit(y=np.zeros(30))
    assert "partial_fit" not in str(caught.value)


def test_labels_asked_about_after_the_fit_must_be_known():
    noisy = fit(label_noise=0.1)
    with pytest.raises(NewClassError, match=r"\[7\]; it knows \[0, 1\]"):
        noisy.flip_probability(X, np.full(30, 7))
    with pytest.raises(InputError, match="3 labels for 30 rows"):
        noisy.flip_probability(X, Y[:3])


def test_the_message_about_a_new_label_speaks_of_this_model():
    with pytest.raises(NewClassError) as caught:
        fit(label_noise=0.1).flip_probability(X, np.full(30, 7))
    assert "linear model" not in str(caught.value)


# --- arguments --------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "inference": ({"inference": "vb"}, r"inference must be one of 'laplace', 'ep', 'adf'; got 'vb'"),
    "inference None": ({"inference": None}, r"inference must be one of .*; got None"),
    "likelihood": ({"likelihood": "foo"}, r"'logit', 'probit'.*'foo'"),
    "likelihood None": ({"likelihood": None}, r"'logit', 'probit'.*None"),
    "softmax ep": ({"likelihood": "softmax", "inference": "ep"}, r"inference='laplace'; got 'ep'.*likelihood='logit'"),
    "softmax adf": ({"likelihood": "softmax", "inference": "adf"}, r"inference='laplace'; got 'adf'"),
    "restarts -1": ({"n_restarts": -1}, r"n_restarts must be a whole number of at least 0; got -1"),
    "restarts 1.5": ({"n_restarts": 1.5}, r"n_restarts must be a whole number of at least 0; got 1.5"),
    "restarts True": ({"n_restarts": True}, r"n_restarts must be a whole number"),
    "optimize": ({"optimize": "yes"}, r"optimize must be True or False; got 'yes'"),
    "optimize 1": ({"optimize": 1}, r"optimize must be True or False; got 1"),
    "inducing": ({"inducing": 31}, r"inducing=31 points.*30 rows.*inducing=None"),
    "inducing points": ({"inducing": np.zeros((2, 4))}, r"the 3 columns of X; got shape \(2, 4\)"),
    "max_n 0": ({"max_n": 0}, r"max_n must be a whole number.*got 0"),
    "max_n text": ({"max_n": "many"}, r"max_n must be a whole number.*got 'many'"),
    "noise 0.5": ({"label_noise": 0.5}, r"below 1/2.*got 0.5.*says nothing"),
    "noise -0.1": ({"label_noise": -0.1}, r"below 1/2.*got -0.1"),
    "noise text": ({"label_noise": "guess"}, r'"estimate".*got \'guess\''),
    "noise one entry": ({"label_noise": (0.1,)}, r"two entries \(eps01, eps10\)"),
    "noise pair": ({"label_noise": (0.1, 0.7)}, r"below 1/2.*got 0.7"),
    "tol": ({"tol": -1.0}, r"tol must be a number of at least 0"),
    "max_iter": ({"max_iter": 0}, r"max_iter must be a number of at least 1; got 0"),
    "n_jobs": ({"n_jobs": 0}, r"n_jobs must be None, -1 or at least 1; got 0"),
}


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_arguments_that_mean_nothing_are_refused(name):
    options, match = ARGUMENTS[name]
    check_refused(match, **options)


def test_the_message_about_a_likelihood_names_the_argument():
    with pytest.raises(InputError, match=r"likelihood must.*softmax"):
        fit(likelihood="foo")


def test_half_an_iteration_is_refused():
    check_refused("max_iter", max_iter=1.5)


def test_a_random_state_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'x' cannot be used to seed"):
        MODEL.sample_proba(X, random_state="x")
    with pytest.raises(ValueError, match="'x' cannot be used to seed"):
        fit(optimize=True, n_restarts=1, random_state="x")


def test_too_many_rows_are_refused_with_the_memory_they_would_take():
    rows, labels = np.zeros((12_000, 1)), np.arange(12_000) % 2
    rows[:, 0] = labels
    # Six n × n arrays of eight bytes.
    check_refused(
        r"12000 rows.*6\.9 GB.*max_n=10000.*subset.*GaussianBasis.*raise max_n", X=rows, y=labels, kernel=None
    )
    check_refused(r"30 rows.*max_n=29", max_n=29)
    fit(max_n=30)


def test_weights_are_no_argument():
    with pytest.raises(TypeError, match="sample_weight"):
        GaussianProcessClassifier().fit(X, Y, sample_weight=np.ones(30))


def test_there_is_no_partial_fit_and_the_reason_is_told():
    for model in (GaussianProcessClassifier(), MODEL):
        assert not hasattr(model, "partial_fit")
        with pytest.raises(NotDefinedError, match=r"no partial_fit.*all rows.*Fit again.*credibly\.basis"):
            model.partial_fit(X, Y)
    assert issubclass(NotDefinedError, AttributeError)


# --- kernels ----------------------------------------------------------------------------------------------------

KERNELS = {
    "text": ("rbf", r"kernel must be a kernel of credibly\.kernels, or scikit-learn's.*; got 'rbf'"),
    "number": (3.0, r"kernel must be a kernel of credibly\.kernels.*float"),
    "class": (RBF, r"kernel must be a kernel of credibly\.kernels"),
    "function": (np.dot, r"kernel must be a kernel of credibly\.kernels"),
    "list of two for one function": ([RBF(), RBF()], r"list of 2.*1 latent function.*one kernel"),
    "empty list": ([], r"list of 0.*takes one kernel"),
    "scales": (RBF([1.0, 2.0]), r"2 length scales.*3 columns"),
    "unknown column": (RBF(columns=["height"]), r"\['height'\].*not there.*\['age', 'dose', 'bmi'\]"),
    "column too far": (RBF(columns=[7]), r"column 7.*3 columns"),
    "pairwise": (theirs.PairwiseKernel(), r"scikit-learn's.*PairwiseKernel"),
    "compound": (theirs.CompoundKernel([theirs.RBF()]), r"scikit-learn's.*CompoundKernel"),
    "power": (theirs.RBF() ** 2, r"DotProduct\(…\) \*\* degree.*RBF"),
    "matern": (theirs.Matern(nu=2.0), r"nu of Matern must be 0\.5, 1\.5 or 2\.5; got 2"),
    "their bounds": (theirs.RBF(1.0, (2.0, 3.0)), r"length_scale of RBF is 1\.0, outside its bounds \(2\.0, 3\.0\)"),
}


@pytest.mark.parametrize("name", list(KERNELS))
def test_kernels_that_cannot_be_used_are_refused(name):
    kernel, match = KERNELS[name]
    check_refused(match, kernel=kernel)


def test_a_list_of_kernels_must_have_one_for_each_class():
    check_refused(r"list of 2.*3 latent function.*list of 3, one for each class", kernel=[RBF(), RBF()], y=Y3)
    check_refused(r"kernel must be a kernel", kernel=[RBF(), "rbf", RBF()], y=Y3)
    check_refused(r"list of 2.*list of 3", kernel=[RBF(), RBF()], y=Y3, inference="ep")


def test_the_message_about_a_kernel_shows_what_came():
    with pytest.raises(InputError, match="'rbf'"):
        fit(kernel="rbf")


def test_bounds_that_exclude_the_start_name_the_hyperparameter():
    with pytest.raises(InputError, match=r"length_scale of RBF is 1\.0, outside.*widen length_scale_bounds.*\"fixed\""):
        RBF(1.0, length_scale_bounds=(2.0, 3.0))
    with pytest.raises(InputError, match=r"variance of Constant is 5\.0, outside"):
        Constant(5.0, variance_bounds=(0.1, 1.0))


@dataclass(frozen=True)
class Foreign(Kernel):
    """A user's kernel with a mistake."""

    mistake: str

    def __call__(self, X, Z=None):
        Z = X if Z is None else Z
        if self.mistake == "error":
            raise RuntimeError("my own mistake")
        distance = np.abs(X[:, None] - Z[None]).sum(axis=2)
        slope = X.sum(axis=1)[:, None] - Z.sum(axis=1)
        results = {
            "shape": np.ones((len(X), 1)),
            "vector": np.ones(len(X)),
            "NaN": np.full(distance.shape, np.nan),
            "distance": distance,
            "asymmetric": np.exp(-distance) + 0.1 * slope,
            "list": np.exp(-distance).tolist(),
        }
        return results[self.mistake]

    def diag(self, X):
        return np.ones(len(X))

    def gradient_sums(self, X, M, K=None):
        return np.zeros(0)


MISTAKES = {
    "shape": r"Foreign\(mistake='shape'\).*shape \(30, 1\) for 30 rows",
    "vector": r"shape \(30,\) for 30 rows",
    "NaN": r"Foreign\(mistake='NaN'\) is not finite",
    "distance": r"not positive semi-definite.*eigenvalue -\d.*no covariance.*credibly\.kernels",
    "asymmetric": r"not symmetric: k\(x, z\) differs from k\(z, x\)",
}


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_kernel_that_is_no_covariance_is_refused(mistake, inference):
    check_refused(MISTAKES[mistake], kernel=Foreign(mistake), inference=inference)


def test_a_sum_or_product_with_such_a_kernel_is_refused_too():
    check_refused(r"not positive semi-definite", kernel=Foreign("distance") + RBF())
    check_refused(r"not positive semi-definite", kernel=2.0 * Foreign("distance"))
    check_refused(r"not positive semi-definite", kernel=[RBF(), RBF(), Foreign("distance")], y=Y3)


def test_an_error_inside_a_kernel_comes_out_as_it_is_and_leaves_the_fit():
    model = fit()
    want = model.predict_log_proba(X)
    model.set_params(kernel=Foreign("error"))
    with pytest.raises(RuntimeError, match="my own mistake"):
        model.fit(X, Y)
    assert_array_equal(model.predict_log_proba(X), want)


def test_a_kernel_that_returns_a_list_is_refused():
    check_refused(r"must return a NumPy array; got list", kernel=Foreign("list"))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_polynomial_that_overflows_is_refused():
    check_refused(r"Polynomial\(degree=4.*not finite.*overflows.*scale the columns", kernel=Polynomial(4), X=X * 1e90)


def test_overflow_in_fit_is_told_by_the_error_alone():
    with pytest.raises(InputError, match="overflows"):
        fit(kernel=Polynomial(3), X=X * 1e90)


def test_overflow_in_prediction_is_told_by_the_error_alone():
    with pytest.raises(InputError):
        fit(kernel=Polynomial(3)).predict_proba(X * 1e90)


# --- questions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1.5, 1.0, 0.0, -0.1, np.nan, "much", None], ids=str)
def test_levels_outside_zero_and_one_are_refused(level):
    match = r"level must lie between 0 and 1, such as 0\.9; got"
    for ask in (
        lambda: MODEL.predict_interval(X, level=level),
        lambda: fit(y=Y3).predict_interval(X, level=level),
        lambda: MODEL.summary(level=level),
    ):
        with pytest.raises(InputError, match=match):
            ask()


def test_draws_of_too_many_rows_at_once_are_refused():
    with pytest.raises(InputError, match=r"60 latents.*60 rows.*max_n=30.*fewer rows at a time"):
        fit(max_n=30).sample_proba(pd.concat([X, X]))
    with pytest.raises(InputError, match=r"90 latents.*30 rows × 3 functions.*max_n=30"):
        fit(max_n=30, y=Y3).sample_proba(X)
    assert fit(max_n=30).sample_proba(X).shape == (1, 30, 2)


@pytest.mark.parametrize("size", [0, -1, 2.5, "three"], ids=str)
def test_numbers_of_draws_that_mean_nothing_are_refused(size):
    with pytest.raises(InputError, match="size"):
        MODEL.sample_proba(X, size=size)


def test_costs_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"costs must be a 2×2 table"):
        MODEL.decide(X, np.eye(3))


QUESTIONS = {
    "predict_latent": (X,),
    "sample_proba": (X,),
    "summary": (),
    "predict": (X,),
    "predict_proba": (X,),
    "predict_log_proba": (X,),
    "predict_interval": (X,),
    "predict_recorded_proba": (X,),
    "decide": (X, 1 - np.eye(2)),
    "flip_probability": (X, Y),
    "score": (X, Y),
}


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_questions_before_the_fit_are_refused(name):
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        getattr(GaussianProcessClassifier(), name)(*QUESTIONS[name])


@pytest.mark.parametrize(
    "name", ["log_evidence_", "occam_factor_", "log_evidence_gradient_", "loo_log_proba_", "effective_parameters_"]
)
def test_attributes_before_the_fit_are_not_there(name):
    assert not hasattr(GaussianProcessClassifier(), name)
    with pytest.raises(NotFittedError):
        getattr(GaussianProcessClassifier(), name)


@pytest.mark.parametrize(
    "bad", [{"X": broken(np.nan)}, {"y": np.zeros(30)}, {"kernel": "rbf"}], ids=["X", "y", "kernel"]
)
def test_a_fit_that_is_refused_leaves_the_earlier_one(bad):
    model = fit()
    want, kernel = model.predict_log_proba(X), model.kernel_
    if "kernel" in bad:
        model.set_params(**bad)
    with pytest.raises(InputError):
        model.fit(bad.get("X", X), bad.get("y", Y))
    assert_array_equal(model.predict_log_proba(X), want)
    assert model.kernel_ is kernel


def test_a_linear_kernel_on_rows_of_zeros_alone_says_nothing():
    model = fit(kernel=Linear())
    assert_allclose(model.predict_proba(X * 0.0), 0.5, atol=1e-12)
