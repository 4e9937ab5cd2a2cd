"""Every way of inference, and certificates, against exact posteriors (../shared/…/reference).

The truth is quadrature, or importance sampling with millions of draws and a stored standard error; see
`shared/reference/README.md`. Errors of means are the largest over weights, in true posterior standard deviations.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    Normal,
    Status,
    StudentT,
)
from credibly.kernels import RBF, Constant
from helpers import SHARED, SHARED_IS_HERE, load_refload, needs_shared

pytestmark = needs_shared

MODELS = {
    "logit": BayesianLogisticRegression,
    "probit": BayesianProbitRegression,
    "softmax": BayesianLogisticRegression,
}
SEEDS = range(5)
STANDARD_ERRORS = 3.0
CLOSE, RELIABLE = 0.5, 0.7
MEAN_ERROR = 0.05  # of a corrected mean where k̂ < 0.5, in standard deviations
# Of Gaussians: of a mean, in standard deviations; of a standard deviation; of an averaged probability.
GAUSSIAN_MEAN, GAUSSIAN_SD, GAUSSIAN_PROBA = 0.25, 0.15, 0.02
# Where no Gaussian has the standard deviations to 15 %: six rows, separated classes, a weight that the rows leave to a
# Student-t prior. The certificate tells those that are farther off than a quarter.
SKEWED = {
    "bioassay_bda3": 0.21,
    "bioassay_vague": 0.21,
    "bioassay_probit": 0.2,
    "iris_setosa_separated": 0.35,
    "sex2_dia-t4": 0.4,
    "sex2_dia-t7": 0.25,
}


def intercept_last(vector) -> np.ndarray:
    return np.roll(np.asarray(vector, dtype=float), -1, axis=-1)


def stacked(vector, K: int) -> np.ndarray:
    """K weight vectors with the intercept last in each."""
    return intercept_last(np.reshape(vector, (K, -1))).reshape(-1)


class Case:
    """Rows, model and true posterior of one reference case."""

    def __init__(self, name, model, rows, truth):
        self.name, self.model, (self.X, self.y, self.weight) = name, model, rows
        self.mean, self.std, self.log_evidence, self.log_evidence_se, self.mean_se, self.points, self.proba = truth

    def __repr__(self):
        return self.name

    @cache  # noqa: B019  # cases live as long as the module
    def fitted(self, inference="laplace"):
        model = type(self.model)(**{**self.model.get_params(deep=False), "inference": inference})
        return model.fit(self.X, self.y, sample_weight=self.weight)

    @cache  # noqa: B019
    def certificate(self, inference, seed):
        return self.fitted(inference).certify(self.X, self.y, random_state=seed, sample_weight=self.weight)

    def error(self, mean) -> float:
        return float(np.abs((mean - self.mean) / self.std).max())

    def widening(self, std) -> float:
        """The largest error of a standard deviation, relative to the true one."""
        return float(np.abs(std / self.std - 1).max())

    def proba_error(self, model):
        """Errors of averaged probabilities at the stored rows, (n, K)."""
        p = model.predict_proba(self.points)
        return np.abs((p if self.proba.ndim == 2 else p[:, 1]) - self.proba)


def labelled(X, y, w):
    """Proportions of trials as two weighted rows each: y = 1 for the successes, y = 0 for the failures."""
    if set(np.unique(y)) <= {0.0, 1.0}:
        return X, y.astype(int), w
    rows, labels, counts = np.vstack([X, X]), np.repeat([1, 0], len(y)), np.concatenate([w * y, w * (1 - y)])
    return rows[counts > 0], labels[counts > 0], counts[counts > 0]


def bayes_cases(name: str) -> list[Case]:
    refload = load_refload()
    found = []
    for key, case in refload.load(name)["cases"].items():
        X, y, w = refload.design(case["design"])
        if name == "bayes_binary":
            K, (X, y, w) = 1, labelled(X, y, w)
        else:
            K, w = len(case["levels"]), None
        cov = case.get("S0")
        cov = np.diag(stacked(case["S0_diagonal"], K)) if cov is None else np.roll(np.array(cov), (-1, -1), (0, 1))
        model = MODELS[case["link"]](prior=Normal(mean=stacked(case["m0"], K), cov=cov))
        post, accuracy = case["posterior"], case["accuracy"]
        errors = accuracy.get("log_evidence_se", 0.0), accuracy.get("mean_se_max_in_sd", 0.0)
        truth = (stacked(post["mean"], K), stacked(post["sd"], K), post["log_evidence"], *errors)
        points = np.array(case["test_points"])[:, 1:], np.array(post["predictive"])
        found.append(Case(key, model, (X[:, 1:], y, w), (*truth, *points)))
    return found


def student_cases() -> list[Case]:
    refload = load_refload()
    found = []
    for key, case in refload.load("bayes_student_prior")["cases"].items():
        X, y, _ = refload.design(case["design"])
        scale = intercept_last(case["prior_scale"])
        for df, stored in case["df"].items():
            if "posterior" not in stored:
                continue
            post = stored["posterior"]
            prior = StudentT(df=float(df), scale=scale[:-1], intercept_scale=scale[-1])
            std, relative = intercept_last(post["sd"]), np.max(np.array(post["mean_se"]) / np.array(post["sd"]))
            truth = (intercept_last(post["mean"]), std, post["log_evidence"], post["log_evidence_se"], relative)
            points = X[:5, 1:], np.array(post["predictive_first_5_rows"])
            model = BayesianLogisticRegression(prior=prior)
            found.append(Case(f"{key}-t{df}", model, (X[:, 1:], y.astype(int), None), (*truth, *points)))
    return found


def pima(columns) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.concat([pd.read_csv(SHARED / "data" / f"pima_{part}.csv") for part in ("tr", "te")])
    return frame[list(columns)].to_numpy(float), (frame["type"] == "Yes").to_numpy(int)


def linear_rows(name: str) -> tuple[np.ndarray, np.ndarray, Normal, str]:
    """Columns, labels, prior and link of a case of bayes_linear.json, as its keys say."""
    if name.startswith("frielwyse"):
        _, _, which, tau, ddof = name.split("_")
        X, y = pima(["npreg", "glu", "bmi", "ped", "age"][: 4 if which == "M1" else 5])
        scale = float(tau.removeprefix("tau")) ** -0.5
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=int(ddof[-1]))
        return X, y, Normal(scale=scale, intercept_scale=scale), "logit"
    data, link = name.rsplit("_", 1)
    if data.startswith("chopinridgway"):
        X, y = pima(["npreg", "glu", "bp", "skin", "bmi", "ped", "age"])
    else:
        frame = pd.read_csv(SHARED / "data" / f"{data}.csv")
        frame = frame.replace({"Present": 1, "Absent": 0}).infer_objects() if data == "saheart" else frame
        values = frame.to_numpy(dtype=float)
        X, y = values[:, :-1], values[:, -1].astype(int)
    X = 0.5 * (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return X, y, Normal(scale=5.0, intercept_scale=20.0), link


def linear_cases() -> list[Case]:
    found = []
    for key, case in load_refload().load("bayes_linear", SHARED / "data" / "reference")["cases"].items():
        if key.startswith("bioassay"):  # bayes_binary.json has them, by quadrature
            continue
        X, y, prior, link = linear_rows(key)
        std = intercept_last(case["post_sd"])
        relative = np.max(np.array(case["post_mean_mcse"]) / np.array(case["post_sd"]))
        truth = (intercept_last(case["post_mean"]), std, case["is_logZ"], case["is_logZ_se"], relative)
        found.append(Case(key, MODELS[link](prior=prior), (X, y, None), (*truth, None, None)))
    return found


BINARY, SOFTMAX, STUDENT, LINEAR = [], [], [], []
if SHARED_IS_HERE:
    BINARY, SOFTMAX = bayes_cases("bayes_binary"), bayes_cases("bayes_softmax")
    STUDENT, LINEAR = student_cases(), linear_cases()
EVERY = [*BINARY, *SOFTMAX, *STUDENT, *LINEAR]


def over(cases):
    """A test for every case."""
    return pytest.mark.parametrize("case", [pytest.param(it, id=it.name) for it in cases])


# --- corrected Laplace --------------------------------------------------------------------------------------


def check_corrected(case, inference) -> None:
    """Over seeds: the evidence within three standard errors where k̂ ≤ 0.7, means within 0.05 sd where k̂ < 0.5."""
    for seed in SEEDS:
        found = case.certificate(inference, seed)
        if found.reliable:
            error = np.hypot(found.log_evidence_se, case.log_evidence_se)
            assert abs(found.log_evidence - case.log_evidence) <= STANDARD_ERRORS * error, seed
        if found.khat < CLOSE:
            assert case.error(found.mean) <= MEAN_ERROR + STANDARD_ERRORS * case.mean_se, seed


@over(EVERY)
def test_corrected_laplace_is_right_wherever_it_is_called_reliable(case):
    check_corrected(case, "laplace")


@over([*BINARY, *LINEAR])
def test_corrected_ep_is_right_wherever_it_is_called_reliable(case):
    check_corrected(case, "ep")


def test_most_certificates_on_the_reference_posteriors_are_reliable():
    """Else the tests above would say little."""
    found = [case.certificate("laplace", 0).khat for case in [*BINARY, *STUDENT, *LINEAR]]
    assert np.mean(np.array(found) < RELIABLE) > 0.8 and np.mean(np.array(found) < CLOSE) > 0.5


@over([*BINARY, *STUDENT])
def test_corrected_predictions(case):
    """A probability's deviation is at most √(p(1 - p)), so its error at most that over √ess."""
    for seed in SEEDS:
        found = case.certificate("laplace", seed)
        if found.reliable:
            p = found.predict_proba(case.points)[:, 1]
            error = np.sqrt(case.proba * (1 - case.proba) / found.ess)
            assert (np.abs(p - case.proba) <= 4 * error + 1e-4).all(), seed  # stored errors are below 1e-4


@over(SOFTMAX)
def test_corrected_softmax_predictions(case):
    for seed in SEEDS[:2]:
        found = case.certificate("laplace", seed)
        if not found.reliable:
            assert case.name == "iris_full"  # separated, fifteen weights: k-hat of 0.55 to 0.85 over seeds
            continue
        p = found.predict_proba(case.points)
        assert (np.abs(p - case.proba) <= 4 * np.sqrt(case.proba * (1 - case.proba) / found.ess) + 1e-4).all()


# --- expectation propagation --------------------------------------------------------------------------------


@over([*BINARY, *LINEAR])
def test_means_of_ep_are_at_least_ten_times_nearer_than_the_mode(case):
    laplace, ep = (case.error(case.fitted(it).posterior_.mean) for it in ("laplace", "ep"))
    assert case.fitted("ep").status_ is Status.CONVERGED
    # what the stored truth does not know is no error of EP
    assert ep - STANDARD_ERRORS * case.mean_se <= 0.1 * laplace


def test_how_much_nearer_the_means_of_ep_are():
    """The claim "10 to 100 times": at least 20 times on all ten posteriors known best, and up to 400 times."""
    ratio = [
        case.error(case.fitted("laplace").posterior_.mean) / case.error(case.fitted("ep").posterior_.mean)
        for case in BINARY
    ]
    assert min(ratio) > 20 and max(ratio) < 500


def test_the_evidence_of_ep_is_not_always_nearer():
    """Separated iris: EP 0.44 nats off, Laplace 0.15; and the bioassays, where Laplace's errors cancel."""
    off = {
        case.name: [abs(case.fitted(it).log_evidence_ - case.log_evidence) for it in ("laplace", "ep")]
        for case in BINARY
    }
    assert [round(error, 2) for error in off["iris_setosa_separated"]] == [0.15, 0.44]
    worse = {name for name, (laplace, ep) in off.items() if ep > laplace}
    assert worse == {"iris_setosa_separated", "bioassay_bda3", "bioassay_vague"}


# --- Gaussians and draws --------------------------------------------------------------------------------------


def check_gaussian(case, model) -> None:
    assert model.status_.good
    assert case.error(model.posterior_.mean) <= GAUSSIAN_MEAN + STANDARD_ERRORS * case.mean_se
    assert case.widening(model.posterior_.std) <= SKEWED.get(case.name, GAUSSIAN_SD)
    if case.points is not None:
        assert case.proba_error(model).max() <= GAUSSIAN_PROBA


@over(EVERY)
def test_variational_means_widths_and_probabilities(case):
    """And its evidence is a lower bound."""
    model = case.fitted("variational")
    check_gaussian(case, model)
    assert model.log_evidence_ <= case.log_evidence + STANDARD_ERRORS * case.log_evidence_se


@over([*BINARY, *LINEAR])
def test_means_widths_and_probabilities_of_ep(case):
    check_gaussian(case, case.fitted("ep"))


@over(EVERY)
def test_means_widths_and_probabilities_of_auto(case):
    model = case.fitted("auto")
    check_gaussian(case, model)
    later = "ep" if case in [*BINARY, *LINEAR] else "variational"
    assert model.rung_ in {"laplace", later}
    named = case.fitted(model.rung_)
    assert_allclose(model.posterior_.mean, named.posterior_.mean, rtol=1e-5, atol=1e-5 * named.posterior_.std.max())


def test_auto_keeps_laplace_where_it_will_do():
    used = {case.name: case.fitted("auto").rung_ for case in EVERY}
    assert {name for name, rung in used.items() if rung == "laplace"} == {
        "chopinridgway_pima532_probit",
        "saheart_probit",
    }


def table(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(SHARED / "data" / f"{name}.csv").drop(columns=list(drop)).dropna()
    y = frame.pop(target).to_numpy()
    return pd.get_dummies(frame, drop_first=True).to_numpy(float), y


TABLES = {
    "pima768": ("diabetes",),
    "default": ("default",),
    "saheart": ("chd",),
    "lowbwt": ("low", ("id", "bwt")),
    "glow500": ("fracture", ("sub_id", "site_id", "phy_id")),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_where_auto_keeps_laplace_its_probabilities_are_right_to_a_hundredth(name, link):
    """By the certificate's difference of averages, in which the noise of the draws cancels."""
    X, y = table(name, *TABLES[name])
    model = MODELS[link]().fit(X, y)
    assert model.rung_ == "laplace" or link == "logit"  # whose tails are heavier: most are left for EP
    if model.rung_ == "laplace":
        found = model.certify(X, y)
        assert found.accurate and found.change <= 0.01


@over(EVERY)
def test_draws_have_the_true_moments_probabilities_and_evidence(case):
    model = case.fitted("exact")
    assert model.status_ is Status.CONVERGED and model.rhat_ < 1.01 and model.ess_ >= 400
    error = 4 / np.sqrt(model.ess_)  # of the worst of some ten weights
    assert case.error(model.posterior_.mean) <= error + STANDARD_ERRORS * case.mean_se
    assert case.widening(model.posterior_.std) <= error + STANDARD_ERRORS * case.mean_se
    if case.points is not None:
        assert (case.proba_error(model) <= error * np.sqrt(case.proba * (1 - case.proba)) + 1e-4).all()
    off = abs(model.log_evidence_ - case.log_evidence)
    assert off <= 0.05 and off <= 4 * np.hypot(model.log_evidence_se_, case.log_evidence_se)


@over(EVERY)
@pytest.mark.parametrize("inference", ["laplace", "variational", "ep"])
def test_what_is_called_accurate_is(case, inference):
    """To what the certificate promises, and what its draws know: 0.02 of a probability, a quarter of a deviation."""
    if inference == "ep" and case not in [*BINARY, *LINEAR]:
        return  # refused
    model = case.fitted(inference)
    for seed in SEEDS[:2]:
        found = case.certificate(inference, seed)
        if not found.accurate:
            continue
        noise = 3 / np.sqrt(2 * found.ess)
        assert case.error(model.posterior_.mean) <= 0.25 + noise
        assert np.exp(np.abs(np.log(model.posterior_.std / case.std)).max()) <= 1.25 + noise
        if case.points is not None:
            assert case.proba_error(model).max() <= 0.02 + 0.5 * noise


def test_what_is_called_accurate_is_about_half():
    """Else the test above would say little."""
    found = [case.certificate(it, 0).accurate for case in EVERY for it in ("laplace", "variational")]
    assert 0.3 < np.mean(found) < 0.9


# --- Gaussian processes -------------------------------------------------------------------------------------


def gp_cases():
    if not SHARED_IS_HERE:
        return {}
    found = {}
    for name, case in load_refload().load("gp_binary")["cases"].items():
        for link in ("logit", "probit"):
            exact = case[link]["exact"]
            if "X" in case and exact:
                for inference in ("laplace", "ep"):
                    found[f"{name}-{link}-{inference}"] = (
                        case,
                        link,
                        exact.get("orthant", exact.get("sampling")),
                        inference,
                    )
    return found


GP = gp_cases()
WITH_LATENTS = [name for name, (case, link, *_) in GP.items() if "sampling" in case[link]["exact"]]


@cache
def gp_certificate(name, seed):
    case, link, _, inference = GP[name]
    lengths = case["lengthscales"]
    kernel = Constant(case["variance"]) * RBF(lengths[0] if case.get("isotropic") else lengths)
    model = GaussianProcessClassifier(kernel, likelihood=link, inference=inference, optimize=False)
    model.fit(case["X"], case["y"])
    return model, model.certify(case["X"], case["y"], random_state=seed)


@pytest.mark.parametrize("name", GP)
def test_the_corrected_evidence_and_predictions_of_a_gaussian_process(name):
    case, _, exact, _ = GP[name]
    p = np.array(exact["predictive"])
    stored = np.max(exact.get("predictive_se", exact.get("predictive_se_max", exact.get("predictive_mcse_max", 0.0))))
    for seed in SEEDS[:3]:
        _, found = gp_certificate(name, seed)
        if found.reliable:
            error = np.hypot(found.log_evidence_se, exact["log_evidence_se"])
            assert abs(found.log_evidence - exact["log_evidence"]) <= STANDARD_ERRORS * error, seed
            error = np.sqrt(p * (1 - p) / found.ess)
            assert (np.abs(found.predict_proba(case["X_test"])[:, 1] - p) <= 4 * np.hypot(error, stored)).all(), seed


def test_the_tight_clusters_of_iris_where_neither_ep_nor_laplace_has_the_evidence():
    """Probit: exact -18.808, EP -19.154, Laplace -19.139; corrected from EP's draws it is right."""
    model, found = gp_certificate("iris150_ard-probit-ep", 0)
    assert round(model.log_evidence_, 3) == -19.154
    assert round(gp_certificate("iris150_ard-probit-laplace", 0)[0].log_evidence_, 3) == -19.139
    assert found.reliable and abs(found.log_evidence + 18.808) <= STANDARD_ERRORS * found.log_evidence_se < 0.1


@pytest.mark.parametrize("name", WITH_LATENTS)
def test_corrected_latents_of_a_gaussian_process(name):
    case, link, _, _ = GP[name]
    stored = case[link]["exact"]["sampling"]
    mean, std = np.array(stored["latent_mean"]), np.array(stored["latent_sd"])
    _, found = gp_certificate(name, 0)
    if found.reliable:
        assert found.mean.shape == found.std.shape == mean.shape
        # weighted means have an error of about 1/√ess of a deviation; 150 of them: four of those
        assert np.abs((found.mean - mean) / std).max() <= 4 / np.sqrt(found.ess) + 0.01  # 0.01: NUTS, two of its errors
    if found.khat < CLOSE:  # above, squares have no finite variance
        assert_allclose(found.std, std, rtol=4 / np.sqrt(found.ess) + 0.02)


MULTICLASS = load_refload().load("gp_multiclass")["cases"] if SHARED_IS_HERE else {}


@pytest.mark.parametrize("case", MULTICLASS.values(), ids=MULTICLASS.keys())
def test_the_corrected_softmax_gaussian_process(case):
    kernel = Constant(case["variance"]) * RBF(case["lengthscales"])
    model = GaussianProcessClassifier(kernel, likelihood="softmax", optimize=False).fit(case["X"], case["y"])
    exact = case["exact"]
    mean, std = (np.transpose(exact[f"latent_{it}_class_by_point"]) for it in ("mean", "sd"))
    p = np.array(exact["predictive"])
    for seed in SEEDS[:3]:
        found = model.certify(case["X"], case["y"], random_state=seed)
        assert found.reliable
        error = np.hypot(found.log_evidence_se, exact["log_evidence_se"])
        assert abs(found.log_evidence - exact["log_evidence"]) <= STANDARD_ERRORS * error
        assert abs(found.log_evidence - exact["log_evidence"]) < abs(model.log_evidence_ - exact["log_evidence"])
        # ninety means: four errors of 1/√ess, and NUTS's own of 0.005
        assert np.abs((found.mean - mean) / std).max() <= 4 / np.sqrt(found.ess) + 0.01
        assert found.mean.shape == mean.shape
        error = np.sqrt(p * (1 - p) / found.ess)
        assert (np.abs(found.predict_proba(case["X_test"]) - p) <= 4 * error + 0.003).all()  # 0.003: four of NUTS's
