"""Data and fitted models for the pictures; every figure is drawn to its end, and closed."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, LinearDiscriminant

plt = pytest.importorskip("matplotlib.pyplot")


class Data(NamedTuple):
    X: pd.DataFrame
    y: np.ndarray


@pytest.fixture(autouse=True)
def drawn() -> Iterator[None]:
    """What is wrong with a figure often shows only when it is laid out: do that, then forget it."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture(scope="session")
def cancer() -> Data:
    data = load_breast_cancer(as_frame=True)
    return Data(data.data[["mean radius", "mean texture", "mean smoothness"]], data.target_names[data.target])


@pytest.fixture(scope="session")
def iris() -> Data:
    data = load_iris(as_frame=True)
    return Data(data.data, data.target_names[data.target])


@pytest.fixture(scope="session")
def logit(cancer):
    return BayesianLogisticRegression().fit(*cancer)


@pytest.fixture(scope="session")
def softmax(iris):
    return BayesianLogisticRegression().fit(*iris)


@pytest.fixture(scope="session")
def discriminant(iris):
    return LinearDiscriminant().fit(*iris)


@pytest.fixture(scope="session")
def process(iris):
    """Two columns, three classes."""
    return GaussianProcessClassifier().fit(iris.X.iloc[:, :2], iris.y)
