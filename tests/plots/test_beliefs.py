import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, t

from credibly import BayesianLogisticRegression, Jeffreys, LinearDiscriminant, Normal, StudentT, plots
from credibly.errors import InputError


def densities(ax, n):
    """The curves of n columns: lists of (x, height above the line it stands on), the priors first."""
    curves = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2]
    each = len(curves) // n
    out = []
    for place in range(n):
        base = n - 1 - place
        out.append([np.column_stack([c[:, 0], c[:, 1] - base]) for c in curves[place * each : (place + 1) * each]])
    return out


def test_both_densities_are_those_of_the_model_on_one_scale(cancer):
    model = BayesianLogisticRegression(prior=Normal(scale=[1.0, 2.0, 3.0])).fit(*cancer)
    ax = plots.prior_posterior(model, ["mean texture", "mean radius"], standardized=False)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mean texture", "mean radius"]
    for (before, after), j in zip(densities(ax, 2), (1, 0), strict=True):
        mean, sd = model.posterior_.mean[j], model.posterior_.std[j]
        assert_allclose(
            after[:, 1] / after[:, 1].max(), norm.pdf(after[:, 0], mean, sd) / norm.pdf(0, 0, sd), atol=1e-9
        )
        ratio = before[:, 1].max() / after[:, 1].max()
        assert_allclose(ratio, norm.pdf(0, 0, [1.0, 2.0][j]) / norm.pdf(0, 0, sd), rtol=1e-9)


def test_a_step_of_one_deviation_stretches_both(cancer, logit):
    ax = plots.prior_posterior(logit, "mean radius")
    ((before, after),) = densities(ax, 1)
    sd = cancer.X["mean radius"].std(ddof=0)
    assert_allclose(after[after[:, 1].argmax(), 0], logit.posterior_.mean[0] * sd, rtol=1e-9)
    assert after[:, 1].max() > before[:, 1].max()


def test_student_priors(cancer):
    X = (cancer.X - cancer.X.mean()) / cancer.X.std()
    ax = plots.prior_posterior(BayesianLogisticRegression(prior=StudentT(df=3, scale=2.0)).fit(X, cancer.y), most=1)
    ((before, _),) = densities(ax, 1)
    sd = X["mean radius"].std(ddof=0)
    shape = t.pdf(before[:, 0], 3, scale=2.0 * sd)
    assert_allclose(before[:, 1] / before[:, 1].max(), shape / shape.max(), rtol=1e-9)


def test_several_classes_show_what_is_determined(iris):
    model = BayesianLogisticRegression(prior=Normal(scale=2.0)).fit(*iris)
    ax = plots.prior_posterior(model, "petal width (cm)", standardized=False)
    ((*before, _, _, _),) = densities(ax, 1)
    prior = before[0]
    # w_k - mean(w) of three independent N(0, 4): variance 4 · 2/3.
    shape = norm.pdf(prior[:, 0], 0, 2.0 * np.sqrt(2 / 3))
    assert_allclose(prior[:, 1] / prior[:, 1].max(), shape / shape.max(), rtol=1e-9)
    assert len(ax.get_legend().get_texts()) == 4


def test_draws_are_smoothed(cancer):
    some = np.random.default_rng(0).permutation(len(cancer.y))[:60]
    model = BayesianLogisticRegression(inference="exact", prior=Normal(scale=1.0)).fit(
        cancer.X.iloc[some], cancer.y[some]
    )
    ax = plots.prior_posterior(model, "mean radius", standardized=False)
    ((_, after),) = densities(ax, 1)
    mass = np.diff(after[:, 0]) * (after[1:, 1] + after[:-1, 1]) / 2
    middle = (after[1:, 0] + after[:-1, 0]) / 2
    # A kernel density keeps the mean of its draws; the grid covers five deviations.
    assert_allclose((mass * middle).sum() / mass.sum(), model.posterior_.mean[0], rtol=1e-3)


def test_the_posterior_is_in_the_picture(logit):
    ax = plots.prior_posterior(logit)
    for _, after in densities(ax, 3):
        assert ax.get_xlim()[0] < after[after[:, 1].argmax(), 0] < ax.get_xlim()[1]
        assert_allclose(after[[0, -1], 1], 0, atol=1e-3)


def test_what_has_no_density_is_refused(cancer, iris, logit):
    for prior in (None, Jeffreys()):
        with pytest.raises(InputError, match="not a distribution"):
            plots.prior_posterior(BayesianLogisticRegression(prior=prior).fit(*cancer))
    with pytest.raises(InputError, match="no closed form"):
        plots.prior_posterior(BayesianLogisticRegression(prior=StudentT()).fit(*iris))
    with pytest.raises(InputError, match="weights of a linear model"):
        plots.prior_posterior(LinearDiscriminant().fit(*iris))
    with pytest.raises(InputError, match=r"no columns \['radius'\]"):
        plots.prior_posterior(logit, ["radius"])


def test_it_draws_where_it_is_told_to(logit):
    _, ax = plt.subplots()
    assert plots.prior_posterior(logit, ax=ax) is ax
