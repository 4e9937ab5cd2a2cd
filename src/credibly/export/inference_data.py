"""Draws as ArviZ holds them: groups of labelled arrays, `InferenceData` (ArviZ below 1) or a `DataTree` (from 1 on)."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly._version import __version__
from credibly.diagnostics.inputs import generator
from credibly.errors import InputError, NotDefinedError
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.linear_model import LinearModel
from credibly.export.drawn import RowDraws, Sampled, Variable
from credibly.export.function_draws import sample_function
from credibly.export.parameter_draws import sample_parameters
from credibly.export.tables import labelled_rows, without_table
from credibly.export.weight_draws import sample_weights

if TYPE_CHECKING:
    import xarray as xr

KINDS = (
    (LinearModel, sample_weights),
    (GaussianProcessResults, sample_function),
    (GenerativeClassifierBase, sample_parameters),
)


def to_arviz(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    random_state: Any = None,
) -> Any:
    """Draws of a fitted model as ArviZ's `InferenceData`: for `az.summary`, `az.loo`, `az.plot_forest` and the like.

    Parameters
    ----------
    model : fitted estimator of this library, or TableModel
        Linear models (weights ``coef``, ``intercept``, and ``label_noise`` where it is estimated), Gaussian processes
        (latents ``f``), generative models with ``parameters="integrated"`` (``class_probability``, and ``mean`` and
        ``spread`` of every column in each class).
    X, y : optional
        Rows and labels (or targets) for ``log_likelihood``, ``posterior_predictive`` and ``observed_data``. By default
        those of the fit, where the model holds them. X alone: rows to predict, in the group ``predictions``.
    draws : int, default 1000
        In each chain.
    chains : int, default 4
        Draws are independent, so chains are a layout only: ArviZ compares them with each other.
    random_state : int, Generator or None
        None takes the model's.

    Returns
    -------
    arviz.InferenceData
        An xarray ``DataTree`` from ArviZ 1 on. ``attrs["note"]`` says what the draws are. Labels are codes into
        ``model.classes_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import LinearDiscriminant
    >>> X, y = load_iris(return_X_y=True)
    >>> data = to_arviz(LinearDiscriminant().fit(X, y), X, y, draws=50, random_state=0)
    >>> data.posterior["mean"].sizes["class"], data.log_likelihood["y"].shape
    (3, (4, 50, 150))
    """
    _check_counts(draws, chains)
    arviz, (X, y) = import_arviz(), labelled_rows(model, X, y)
    if X is None and y is not None:
        raise InputError("y came without X: pass both, or neither for the rows of the fit.")
    model = without_table(model)
    sample = next((sample for kind, sample in KINDS if isinstance(model, kind)), None)
    if sample is None:
        raise NotDefinedError(
            f"to_arviz does not exist for {type(model).__name__}: it has no parameters of its own to draw. Export a "
            "linear model, a Gaussian process or a generative model (of a pipeline or an average: its parts)."
        )
    rng = generator(getattr(model, "random_state", None) if random_state is None else random_state)
    sampled: Sampled = sample(model, X, y, rng, draws * chains)
    groups = _groups(sampled, (chains, draws), _attrs(model, sampled))
    return _tree(arviz, groups, _attrs(model, sampled))


def import_arviz() -> Any:
    """ArviZ, without the notice about its next release that it gives once a day."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'credibly[arviz]'") from error
    return arviz


def _check_counts(draws: Any, chains: Any) -> None:
    for value, argument, least in ((draws, "draws", 1), (chains, "chains", 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{argument} must be a whole number of at least {least}; got {value!r}.")


def _attrs(model: Any, sampled: Sampled) -> dict[str, str]:
    """What ArviZ's schema asks for, how the posterior was found, and what to know of the draws."""
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "creation_library": "credibly",
        "creation_library_version": __version__,
        "inference_library": "credibly",
        "inference_library_version": __version__,
        "model": type(model).__name__,
        "inference": sampled.inference,
        "note": "; ".join(sampled.notes),
    }


def _tree(arviz: Any, groups: dict[str, xr.Dataset], attrs: dict[str, str]) -> Any:
    if "InferenceData" in vars(arviz):  # ArviZ 1.3 answers to the name, with a warning, though it has none
        return arviz.InferenceData(attrs=attrs, **groups)
    import xarray as xr

    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs)} | {f"/{name}": it for name, it in groups.items()})


def _groups(sampled: Sampled, shape: tuple[int, int], attrs: dict[str, str]) -> dict[str, xr.Dataset]:
    """The groups of ArviZ's schema."""
    build = _Builder(sampled.coords, shape, attrs)
    groups = {"posterior": build.drawn(sampled.posterior)}
    if sampled.prior:
        groups["prior"] = build.drawn(sampled.prior)
    return groups if sampled.rows is None else groups | _row_groups(build, sampled.rows)


def _row_groups(build: _Builder, rows: RowDraws) -> dict[str, xr.Dataset]:
    again = {"y": Variable(rows.drawn, ("row",))}
    constants = {name: Variable(values, ("row",)) for name, values in rows.constants.items()}
    if rows.X is not None:
        constants["X"] = Variable(rows.X, ("row", "feature"))
    if rows.y is None:  # rows without labels are no observations
        names = ("predictions", "predictions_constant_data")
        groups = {names[0]: build.drawn(again)}
        return groups | ({names[1]: build.fixed(constants)} if constants else {})
    groups = {"posterior_predictive": build.drawn(again)}
    if rows.log_likelihood is not None:
        groups["log_likelihood"] = build.drawn({"y": Variable(rows.log_likelihood, ("row",))})
    groups["observed_data"] = build.fixed({"y": Variable(rows.y, ("row",))})
    return groups | ({"constant_data": build.fixed(constants)} if constants else {})


class _Builder:
    """From arrays to labelled ones."""

    def __init__(self, coords: dict[str, list[Any]], shape: tuple[int, int], attrs: dict[str, str]) -> None:
        self.coords, self.shape, self.attrs = coords, shape, attrs

    def drawn(self, variables: dict[str, Variable]) -> xr.Dataset:
        """Draws first: cut in chains."""
        arrays = {name: it.values.reshape(*self.shape, *it.values.shape[1:]) for name, it in variables.items()}
        dims = {name: ("chain", "draw", *it.dims) for name, it in variables.items()}
        return self._dataset(arrays, dims)

    def fixed(self, variables: dict[str, Variable]) -> xr.Dataset:
        """No draws."""
        return self._dataset(
            {name: it.values for name, it in variables.items()}, {name: it.dims for name, it in variables.items()}
        )

    def _dataset(self, arrays: dict[str, Any], dims: dict[str, tuple[str, ...]]) -> xr.Dataset:
        import xarray as xr

        sizes = {dim: n for name, array in arrays.items() for dim, n in zip(dims[name], array.shape, strict=True)}
        coords = {dim: self.coords.get(dim, np.arange(n)) for dim, n in sizes.items()}
        return xr.Dataset({name: (dims[name], array) for name, array in arrays.items()}, coords, self.attrs)
