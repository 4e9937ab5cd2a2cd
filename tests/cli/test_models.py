"""Models and their options as text."""

import pytest

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, Jeffreys, NaiveBayes, Normal, StudentT
from credibly.cli.models import MODELS, Options, Size, candidates, make_model, suitable
from credibly.errors import DataWarning, InputError


@pytest.mark.parametrize("name", MODELS)
def test_every_name_makes_a_model(name):
    assert hasattr(make_model(name, Options()), "fit")


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("empirical", "empirical"),
        ("ard", "ard"),
        ("none", None),
        ("jeffreys", Jeffreys()),
        ("normal", Normal(scale=2.5)),
        ("normal:1.5", Normal(scale=1.5)),
        ("student:4", StudentT(df=4.0, scale=2.5)),
        ("student:4,1", StudentT(df=4.0, scale=1.0)),
    ],
)
def test_priors(text, prior):
    assert repr(make_model("logistic", Options(prior=text)).prior) == repr(prior)


@pytest.mark.parametrize("text", ["normal:x", "normal:1,2", "flat", "student:1,2,3", "none:3"])
def test_priors_that_mean_nothing(text):
    with pytest.raises(InputError, match=r"--prior must be|scale"):
        make_model("logistic", Options(prior=text))


@pytest.mark.parametrize(("text", "noise"), [("estimate", "estimate"), ("0.1", 0.1), ("0.1,0.2", (0.1, 0.2))])
def test_label_noise(text, noise):
    assert make_model("logistic", Options(label_noise=text)).label_noise == noise


def test_options_without_meaning_are_refused():
    with pytest.raises(InputError, match="--inference has no meaning for --model lda"):
        make_model("lda", Options(inference="ep"))
    with pytest.raises(InputError, match="--prior of lda"):
        make_model("lda", Options(prior="normal:2"))
    with pytest.raises(InputError, match="--label-noise must be"):
        make_model("logistic", Options(label_noise="some"))
    with pytest.raises(InputError, match="--inference must be one of"):
        make_model("logistic", Options(inference="mcmc"))
    with pytest.raises(InputError, match="There is no model 'forest'; choose from logistic"):
        make_model("forest", Options())


def test_models_that_suit_the_data():
    assert "probit" in suitable(Size(100, 2, False))
    assert "probit" not in suitable(Size(100, 3, False))
    assert "gp" not in suitable(Size(100_000, 2, False))
    assert suitable(Size(100, 2, True)) == ["lda", "qda", "naive-bayes"]


def test_candidates_by_name_take_the_options():
    found = candidates("logistic, naive-bayes", Options(), Size(10, 2, False))
    assert [type(it) for it in found.values()] == [BayesianLogisticRegression, NaiveBayes]
    with pytest.warns(DataWarning, match="are for logistic"):
        everything = candidates(None, Options(inference="ep", prior="normal:1"), Size(10, 2, False))
    assert everything["logistic"].inference == everything["gp"].inference == "ep"
    assert isinstance(everything["gp"], GaussianProcessClassifier)
    with pytest.raises(InputError, match="separated by commas"):
        candidates(" , ", Options(), Size(10, 2, False))
