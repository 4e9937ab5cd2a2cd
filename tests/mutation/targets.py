"""What is mutated, and by which tests it should be noticed."""

from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "credibly"


class Target(NamedTuple):
    """Files of the library, and the tests that are run against their mutants."""

    files: list[str]
    tests: list[str]


TORTURE = ["tests/reliability/test_torture_functions.py", "tests/reliability/test_torture_averages.py"]
THRESHOLDS = [
    "tests/model/test_threshold_details.py",
    "tests/model/test_likelihood_kinds.py",
    "tests/contracts/test_likelihoods.py",
    "tests/model/test_thresholds.py",
    "tests/inference/linear/test_label_noise.py",
    "tests/reference/test_label_noise_reference.py",
    "tests/reference/test_threshold_averages_reference.py",
    *TORTURE,
]
FAMILIES = [
    "tests/model/test_family_details.py",
    "tests/contracts/test_families.py",
    "tests/model/test_links.py",
    "tests/reference/test_glm_reference.py",
]


def _likelihoods(*names: str) -> list[str]:
    return [f"model/likelihoods/{name}.py" for name in names]


def _linear(*names: str) -> list[str]:
    return [f"inference/linear/{name}.py" for name in names]


TARGETS = {
    "special": Target(
        ["numerics/special.py", "numerics/quadrature.py", "numerics/averages.py", "numerics/softmax_averages.py"],
        [
            "tests/numerics/test_special.py",
            "tests/numerics/test_quadrature.py",
            "tests/numerics/test_averages.py",
            "tests/contracts/test_likelihoods.py",
            "tests/reference/test_averages_reference.py",
            *TORTURE,
        ],
    ),
    "newton": Target(
        ["numerics/linalg.py", "numerics/newton.py", "numerics/iterative.py", "numerics/settings.py"],
        [
            "tests/numerics/test_linalg.py",
            "tests/numerics/test_products.py",
            "tests/numerics/test_iterative.py",
            "tests/numerics/test_settings.py",
            "tests/laws/test_newton.py",
            "tests/inference/linear/test_laplace.py",
            "tests/inference/linear/test_separate_classes.py",
        ],
    ),
    "draws": Target(
        ["numerics/weighted_draws.py", "numerics/missing.py", "numerics/differences.py"],
        [
            "tests/numerics/test_weighted_draws.py",
            "tests/numerics/test_missing.py",
            "tests/numerics/test_differences.py",
            "tests/inference/test_density.py",
        ],
    ),
    "rows": Target(
        ["data/rows.py", "data/columns.py", "data/parquet.py"],
        [
            "tests/data/test_rows.py",
            "tests/contracts/test_sources.py",
            "tests/data/test_parquet.py",
            "tests/data/test_parquet_bad_input.py",
        ],
    ),
    "files": Target(
        ["data/archive.py", "data/checkpoint.py", "persistence/objects.py", "persistence/model_file.py"],
        [
            "tests/persistence/test_values.py",
            "tests/persistence/test_files.py",
            "tests/persistence/test_header.py",
            "tests/persistence/test_round_trip.py",
            "tests/estimators/test_stored.py",
        ],
    ),
    "laplace": Target(
        _linear("laplace", "objective", "design", "priors", "several_starts"),
        [
            "tests/inference/linear/test_laplace.py",
            "tests/inference/linear/test_objective.py",
            "tests/inference/linear/test_priors.py",
            "tests/inference/linear/test_separate_classes.py",
            "tests/inference/linear/test_several_starts.py",
            "tests/laws/test_linear_laws.py",
        ],
    ),
    "evidence": Target(
        _linear("hyper"),
        [
            "tests/inference/linear/test_hyper.py",
            "tests/inference/linear/test_label_noise.py",
            "tests/reference/test_label_noise_reference.py",
            "tests/laws/test_linear_laws.py",
        ],
    ),
    "hypotheses": Target(
        _linear("hypotheses", "covariance", "nested", "profile", "jeffreys"),
        [
            "tests/inference/linear/test_hypotheses.py",
            "tests/inference/linear/test_profile.py",
            "tests/inference/linear/test_covariance.py",
            "tests/inference/linear/test_nested.py",
            "tests/inference/linear/test_jeffreys.py",
            "tests/estimators/test_hypothesis_tests.py",
        ],
    ),
    "filters": Target(
        _linear("ep", "adf"),
        ["tests/inference/linear/test_ep.py", "tests/inference/linear/test_adf.py"],
    ),
    "ep": Target(
        ["inference/ep.py"],
        ["tests/inference/test_ep_choices.py", "tests/inference/test_ep.py"],
    ),
    "thresholds": Target(
        _likelihoods("base", "choices", "density", "distribution", "mixture", "thresholds"), THRESHOLDS
    ),
    "noise": Target(_likelihoods("categorical", "kinds", "label_noise"), THRESHOLDS),
    "families": Target(_likelihoods("families", "family_base", "family_likelihood", "links", "proportions"), FAMILIES),
}
