"""Rows that are not in memory give the same models as rows that are; a fit that was stopped goes on."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
    ParquetRows,
    QuadraticDiscriminant,
)
from credibly.data.rows import Block, MemoryRows, OutOfCoreRows, Result, Rows
from credibly.errors import InputError, NewClassError

NAMES = ["a", "b", "c"]


@dataclass(frozen=True, eq=False)
class Parts(MemoryRows, OutOfCoreRows):
    """Stored rows that are an array in truth, and say where their blocks are."""

    names: list[str] = field(default_factory=lambda: list(NAMES))
    walks: list[int] = field(default_factory=list)  # one entry for each pass
    stop_after: int | None = None

    @property
    def fingerprint(self) -> str:
        return f"{self.X.shape} {self.X.sum()} {self.y.tolist()} {self.weight} {self.offset}"

    def parts(self, work: Callable[[Iterator[Block]], Result]) -> Generator[Result, None, None]:
        self.walks.append(1)
        if self.stop_after is not None and len(self.walks) > self.stop_after:
            raise KeyboardInterrupt
        return super().parts(lambda blocks: work(block._replace(where="part 7") for block in blocks))


def table(n: int = 900, n_classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.3] + [0.0, 5.0, -1.0]
    scores = X @ rng.normal(size=(3, n_classes)) / [1.0] + rng.gumbel(size=(n, n_classes)) * 3
    return X, scores.argmax(axis=1)


CLASSIFIERS = [
    (BayesianLogisticRegression(), 2),
    (BayesianLogisticRegression(prior=Normal(scale=2.5)), 2),
    (BayesianLogisticRegression(prior=None), 2),
    (BayesianProbitRegression(prior="ard"), 2),
    (BayesianLogisticRegression(prior="empirical"), 3),
    (BayesianLogisticRegression(label_noise=0.1, prior=Normal(scale=1.0)), 2),
    (LinearDiscriminant(), 3),
    (QuadraticDiscriminant(), 2),
    (NaiveBayes(), 3),
]


@pytest.mark.parametrize(("model", "n_classes"), CLASSIFIERS, ids=repr)
@pytest.mark.parametrize("labels", [None, "words"])
def test_classifiers_learn_the_same(model: Any, n_classes: int, labels: str | None) -> None:
    X, codes = table(n_classes=n_classes)
    y = codes + 3 if labels is None else np.array(["no", "perhaps", "yes"])[codes]
    weight = np.tile([1.0, 2.0, 0.0], 300)
    memory = clone(model).fit(pd.DataFrame(X, columns=NAMES), y, sample_weight=weight)
    stored = clone(model).fit(Parts(X, y, weight, block_rows=200))
    assert stored.classes_.tolist() == memory.classes_.tolist()
    assert list(stored.feature_names_in_) == NAMES
    frame = pd.DataFrame(X[:50], columns=NAMES)
    np.testing.assert_allclose(stored.predict_log_proba(frame), memory.predict_log_proba(frame), rtol=1e-9, atol=1e-9)
    if not (hasattr(model, "prior") and model.prior is None):
        np.testing.assert_allclose(stored.log_evidence_, memory.log_evidence_, rtol=1e-10)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "negative_binomial", "binomial"])
@pytest.mark.parametrize("prior", ["empirical", None])
def test_regressions_learn_the_same(family: str, prior: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 3))
    mu = np.exp(X @ [0.3, -0.2, 0.1] + 1)
    y = {
        "gaussian": rng.normal(mu),
        "poisson": rng.poisson(mu).astype(float),
        "gamma": rng.gamma(3.0, mu / 3),
        "negative_binomial": rng.poisson(mu * rng.gamma(2.0, 0.5, size=600)).astype(float),
        "binomial": rng.binomial(5, 1 / (1 + mu)) / 5,
    }[family]
    weight = np.full(600, 5.0) if family == "binomial" else None
    offset = rng.normal(size=600) * 0.1
    link = {"gamma": "log", "gaussian": "identity"}.get(family)
    memory = BayesianGLM(family, link, prior=prior).fit(X, y, weight, offset)
    stored = BayesianGLM(family, link, prior=prior).fit(Parts(X, y, weight, block_rows=170, offset=offset))
    for name in ("coef_", "dispersion_", "deviance_", "null_deviance_", "log_likelihood_", "bic_"):
        np.testing.assert_allclose(getattr(stored, name), getattr(memory, name), rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_least_squares_learns_the_same(n_classes: int) -> None:
    X, y = table(n_classes=n_classes)
    stored = LeastSquaresClassifier().fit(Parts(X, y, names=["x0", "x1", "x2"]))
    np.testing.assert_allclose(stored.coef_, LeastSquaresClassifier().fit(X, y).coef_, rtol=1e-10)


def test_missing_and_infinite_cells_are_named_with_their_place() -> None:
    X, y = table()
    X[400, 1] = np.nan
    with pytest.raises(InputError, match=r"NaN in column 'b' \(part 7; first in row 400 "):
        BayesianLogisticRegression().fit(Parts(X, y))
    with pytest.raises(InputError, match="part 7: cells are missing"):
        LinearDiscriminant().fit(Parts(X, y))
    NaiveBayes().fit(Parts(X, y))  # skips them
    X[400, 1] = np.inf
    with pytest.raises(InputError, match="'b'"):
        NaiveBayes().fit(Parts(X, y))


def test_targets_and_labels_that_do_not_fit_are_named_with_their_place() -> None:
    X, y = table()
    with pytest.raises(InputError, match="part 7: "):
        BayesianGLM("poisson").fit(Parts(X, -1.0 * y))
    with pytest.raises(InputError, match=r"part 7: .*missing labels"):
        BayesianLogisticRegression().fit(Parts(X, np.where(y == 1, None, "a").astype(object)))
    with pytest.raises(InputError, match="only one class"):
        BayesianLogisticRegression().fit(Parts(X, np.zeros(len(X), dtype=int)))


def test_what_needs_single_rows_is_refused(tmp_path: Path) -> None:
    X, y = table()
    pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="inference='ep'"):
        BayesianLogisticRegression(inference="ep").fit(ParquetRows(str(tmp_path / "rows.parquet"), target="y"))
    with pytest.raises(InputError, match="leave out y"):
        BayesianLogisticRegression().fit(Parts(X, y), y)
    with pytest.raises(InputError, match="predict_to"):
        BayesianLogisticRegression().fit(Parts(X, y)).predict(Parts(X, y))
    with pytest.raises(InputError, match="not those of the fit"):
        BayesianLogisticRegression().fit(Parts(X, y)).partial_fit(Parts(X, y, names=["a", "b", "z"]))


def test_updates_take_stored_rows() -> None:
    X, y = table(4000)
    halves = [slice(0, 2000), slice(2000, None)]
    stored, memory = (BayesianLogisticRegression(prior=Normal(scale=2.0)) for _ in range(2))
    for half in halves:
        stored.partial_fit(Parts(X[half], y[half], names=["x0", "x1", "x2"]), classes=[0, 1])
        memory.partial_fit(X[half], y[half], classes=[0, 1])
    np.testing.assert_allclose(stored.posterior_.cov, memory.posterior_.cov, rtol=1e-10)
    with pytest.raises(NewClassError, match="5"):
        stored.partial_fit(Parts(X, y + 5, names=["x0", "x1", "x2"]))


def test_constant_columns_and_rare_values_are_seen_in_all_rows() -> None:
    """A sample chooses the families; that a column varies, or has a third value, may show in one row only."""
    X, y = table(80_000)
    X[:, 0] = np.arange(80_000) % 50 == 0
    X[12_345, 0] = 2.0
    frame = pd.DataFrame(X, columns=NAMES)
    stored, memory = NaiveBayes().fit(Parts(X, y)), NaiveBayes().fit(frame, y)
    assert stored.features_ == memory.features_ == ["poisson", "gaussian", "gaussian"]
    np.testing.assert_allclose(stored.predict_log_proba(frame[:9]), memory.predict_log_proba(frame[:9]), rtol=1e-9)


@pytest.mark.parametrize("stored", [True, False])
def test_a_fit_that_was_stopped_goes_on(tmp_path: Path, stored: bool) -> None:
    X, y = table()
    path = tmp_path / "fit.checkpoint"
    whole = Parts(X, y, block_rows=300)
    reference = BayesianLogisticRegression().fit(whole)
    passes = len(whole.walks)
    assert passes > 4
    model = BayesianLogisticRegression()
    if stored:
        with pytest.raises(KeyboardInterrupt):
            model.fit(Parts(X, y, block_rows=300, stop_after=4), resume=path)
        assert path.exists()
        assert not hasattr(model, "posterior_")
        rest = Parts(X, y, block_rows=300)
        model.fit(rest, resume=path)
        assert len(rest.walks) <= passes - 4
    else:
        model.fit(X, y, resume=path)
    np.testing.assert_allclose(model.posterior_.cov, reference.posterior_.cov, rtol=1e-10)
    assert not path.exists()


def test_a_checkpoint_of_another_fit_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    X, y = table()
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        BayesianLogisticRegression().fit(Parts(X, y, stop_after=3), resume=path)
    with pytest.raises(InputError, match="another fit: parameters"):
        BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(Parts(X, y), resume=path)
    with pytest.raises(InputError, match="another fit: rows"):
        BayesianLogisticRegression().fit(Parts(X[:-1], y[:-1]), resume=path)
    with pytest.raises(InputError, match="another fit: rows"):
        BayesianLogisticRegression().fit(Parts(X, 1 - y), resume=path)
    with pytest.raises(InputError, match="another fit: rows"):
        BayesianLogisticRegression().fit(Parts(X, y, np.full(len(y), 2.0)), resume=path)
    content = path.read_bytes()
    for damaged in (content[:60] + b"?" + content[61:], b"a,b\n1,2\n", b"", content[:10], content[:-7]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="not a checkpoint of a fit, or is damaged"):
            BayesianLogisticRegression().fit(Parts(X, y), resume=path)
        assert path.read_bytes() == damaged  # it may be something else of the user's
    with pytest.raises(InputError, match="resume must be the path"):
        BayesianLogisticRegression().fit(Parts(X, y), resume=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["y", "weight"])
def test_arrays_that_changed_are_another_fit(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    path = tmp_path / "fit.checkpoint"
    passes = []

    def stopping(self: Any, block: Any, merge: Any) -> Any:
        passes.append(1)
        if len(passes) > 3:
            raise KeyboardInterrupt
        return Rows.sum(self, block, merge)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryRows, "sum", stopping)
        with pytest.raises(KeyboardInterrupt):
            BayesianLogisticRegression().fit(X, y, resume=path)
    changed = {"y": (1 - y, None), "weight": (y, np.full(len(y), 2.0))}[change]
    with pytest.raises(InputError, match="another fit: rows"):
        BayesianLogisticRegression().fit(X, *changed, resume=path)
    model = BayesianLogisticRegression().fit(X, y, resume=path)
    np.testing.assert_allclose(model.posterior_.cov, BayesianLogisticRegression().fit(X, y).posterior_.cov, rtol=1e-10)


def test_a_label_of_a_row_that_does_not_count_is_what_it_is_in_memory() -> None:
    X, y = table()
    y[5], weight = 7, np.ones(len(y))
    weight[5] = 0.0
    for model in (BayesianLogisticRegression(prior=Normal()), LinearDiscriminant()):
        memory = clone(model).fit(pd.DataFrame(X, columns=NAMES), y, sample_weight=weight)
        stored = model.fit(Parts(X, y, weight))
        assert stored.classes_.tolist() == memory.classes_.tolist()
        np.testing.assert_allclose(stored.log_evidence_, memory.log_evidence_, rtol=1e-9)


def test_labels_of_two_types_and_too_many_are_refused() -> None:
    X, y = table()
    mixed = np.array([*y[:450].tolist(), *map(str, y[450:])], dtype=object)
    with pytest.raises(InputError, match="different types"):
        BayesianLogisticRegression().fit(Parts(X, mixed, block_rows=450))
    with pytest.raises(InputError, match="more than 1000 labels"):
        BayesianLogisticRegression().fit(Parts(np.zeros((1001, 3)), np.arange(1001), block_rows=300))


# --- predictions into files -------------------------------------------------------------------------------------


def _written(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(("model", "n_classes"), [(BayesianLogisticRegression(), 2), (NaiveBayes(), 3)], ids=repr)
def test_predictions_go_into_a_file(tmp_path: Path, model: Any, n_classes: int, suffix: str) -> None:
    X, y = table(n_classes=n_classes)
    frame = pd.DataFrame(X, columns=NAMES)
    labels = np.array(["no", "perhaps", "yes"])[y]
    model = clone(model).fit(frame, labels)
    path = tmp_path / f"out{suffix}"
    assert model.predict_to(Parts(X, labels, block_rows=101), path, level=0.8) == len(X)
    found = _written(path)
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    proba = found[[f"p_{label}" for label in model.classes_]].to_numpy()
    np.testing.assert_allclose(proba, model.predict_proba(frame), rtol=1e-12)
    ends = found[[name for name in found if name.startswith(("lower", "upper"))]].to_numpy()
    np.testing.assert_allclose(ends, model.predict_interval(frame, 0.8).reshape(len(X), -1), rtol=1e-12)
    with pytest.raises(InputError, match="out"):
        model.predict_to(frame, path)
    assert model.predict_to(frame[:7], path, level=None, overwrite=True) == 7
    assert not [name for name in _written(path) if name.startswith("lower")]


def test_rows_that_lack_a_cell_are_empty_in_the_file(tmp_path: Path) -> None:
    X, y = table()
    model = BayesianLogisticRegression().fit(pd.DataFrame(X, columns=NAMES), y)
    expected = model.predict_proba(pd.DataFrame(X, columns=NAMES))[:, 1]
    holes = X.copy()
    holes[:100, 0] = np.nan  # the first block has no row to predict
    holes[150, 2] = np.nan
    model.predict_to(Parts(holes, y, block_rows=100), tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    empty = np.isnan(holes).any(axis=1)
    assert found.isna().all(axis=1).tolist() == empty.tolist()
    np.testing.assert_allclose(found["p_1"][~empty], expected[~empty], rtol=1e-12)
    assert found["prediction"][~empty].tolist() == (expected[~empty] > 0.5).astype(int).tolist()


def test_predictions_of_a_regression_go_into_a_file(tmp_path: Path) -> None:
    X, y = table()
    model = BayesianGLM("poisson").fit(X, y + 1.0)
    model.predict_to(X, tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found) == ["prediction", "lower", "upper"]
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-12)
