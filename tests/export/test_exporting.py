"""The methods of the models do what the functions do."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris

from credibly import BayesianLogisticRegression, GaussianProcessClassifier
from credibly.export import to_json


def test_a_model_exports_itself(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegression().fit(X[50:], y[50:])
    text = model.to_json(tmp_path / "model.json")
    assert text == (tmp_path / "model.json").read_text(encoding="utf-8") == to_json(model)
    assert json.loads(model.to_json(covariance=False))["posterior"] is None
    pytest.importorskip("xarray", reason="the extra credibly[arviz] is not installed")
    data = model.to_arviz(draws=7, chains=2, random_state=0)
    assert data.posterior["coef"].shape == (2, 7, 4)
    assert np.array_equal(data.posterior["coef"], model.to_arviz(draws=7, chains=2, random_state=0).posterior["coef"])


def test_a_gaussian_process_has_draws_only():
    pytest.importorskip("xarray", reason="the extra credibly[arviz] is not installed")
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(optimize=False).fit(X[50::5], y[50::5])
    assert model.to_arviz(X[:3], draws=5).predictions["y"].shape == (4, 5, 3)
    assert not hasattr(model, "to_json")
