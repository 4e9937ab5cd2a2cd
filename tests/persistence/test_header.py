"""What a file says of itself."""

import json
import platform

import numpy as np
import pytest

import credibly
from credibly.persistence import header, save
from persistence.cases import CASES


@pytest.fixture(scope="module")
def about(tmp_path_factory):
    folder = tmp_path_factory.mktemp("headers")

    def read(name):
        path = folder / "model"
        save(CASES[name]().model, path)
        found = header(path)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        return found

    return read


def test_a_linear_model(about):
    found = about("logistic on a frame")
    assert found["class"] == "BayesianLogisticRegression"
    assert found["classes"] == [0, 1] and found["target"] is None
    assert found["columns"][0] == {"name": "sepal length", "type": "number"} and len(found["columns"]) == 4
    model = CASES["logistic on a frame"]().model
    assert found["data"] == {"rows": 50, "log_likelihood": model.log_likelihood_}
    assert found["parameters"]["prior"] == "'empirical'"
    versions = found["versions"]
    assert versions["credibly"] == credibly.__version__ and versions["python"] == platform.python_version()
    assert versions["numpy"] == np.__version__ and {"scipy", "scikit-learn"} <= versions.keys()
    assert "object" not in found


def test_columns_without_names_are_numbered(about):
    assert [it["name"] for it in about("logistic, ard prior")["columns"]] == ["x0", "x1", "x2", "x3"]


def test_columns_of_every_kind_with_their_levels(about):
    columns = {it["name"]: it for it in about("NaiveBayes on a mixed frame")["columns"]}
    assert columns["length"] == {"name": "length", "type": "gaussian"}
    assert columns["count"]["type"] == "poisson" and columns["wide"]["type"] == "bernoulli"
    assert columns["level"] == {"name": "level", "type": "categorical", "levels": ["a", "b", "never seen"]}
    assert columns["group"]["levels"] == [0, 1, 2]
    assert columns["day"]["levels"][0] == "2024-01-01"


def test_a_table_model(about):
    found = about("table, logistic")
    assert found["class"] == "TableModel" and found["target"] == "species"
    assert found["classes"] == ["versicolor", "virginica"]
    assert {"name": "text", "type": "category", "levels": ["long", "short"]} in found["columns"]
    assert found["data"]["rows"] == 49 and len(found["data"]["sha256"]) == 64
    assert found["notes"] == ["1 of 50 rows lack a cell and were left out."]
    assert found["parameters"]["prior"] == "'empirical'"


def test_a_formula(about):
    found = about("formula")
    assert found["formula"].startswith("species ~ poly(length, 2)") and found["target"] == "species"
    kinds = {it["name"]: it["type"] for it in found["columns"]}
    assert kinds == {"length": "number", "count": "number", "text": "category", "level": "category"}
    assert {"name": "level", "type": "category", "levels": ["a", "b"]} in found["columns"]


def test_labels_that_json_lacks_are_text(about):
    assert about("logistic, labels are bytes")["classes"] == ["b'no'", "b'yes'"]
    assert about("logistic, labels are large integers")["classes"] == [2**62, 2**63]
    assert about("logistic, labels are booleans")["classes"] == [False, True]


def test_models_that_keep_no_rows_count_them_and_others_have_them(about):
    assert about("GP, default kernel")["data"]["rows"] == 50
    assert about("LinearDiscriminant, default")["data"]["rows"] == 50
    assert about("updated logistic")["data"] == {"rows": 50, "log_likelihood": None}
    assert about("pipeline")["data"]["rows"] == 50


def test_choices_that_may_print_an_address_are_named_by_their_kind(about):
    assert about("threshold scipy t")["parameters"]["threshold"] == "rv_continuous_frozen"


def test_every_case_has_a_header(about):
    for name in ("comparison", "density", "average of models", "basis", "GLM poisson with log", "GP by EP"):
        assert about(name)["class"] == type(CASES[name]().model).__name__
