"""Averages against numbers made by independent tools (../shared/reference, with the scripts that made them)."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.numerics import averages, softmax_averages

REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "reference"
pytestmark = pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"reference values are kept outside: {REFERENCE}")


def load(name: str) -> dict:
    return json.loads((REFERENCE / f"{name}.json").read_text(encoding="utf-8"))


def columns(table: dict) -> dict[str, np.ndarray]:
    return dict(zip(table["columns"], np.array(table["rows"], dtype=float).T, strict=True))


def test_averaged_logit_agrees_with_forty_digits():
    ref = columns(load("gaussian_averages")["logit"])
    log_mass, mean, var = averages.tilted_sigmoid(ref["mu"], ref["s2"])
    assert_allclose(log_mass, ref["log_Z"], rtol=5e-14)
    assert_allclose(averages.log_sigmoid(-ref["mu"], ref["s2"]), ref["log_of_E[1-sigmoid]"], rtol=5e-14)
    assert_allclose(averages.sigmoid(ref["mu"], ref["s2"]), ref["Z"], rtol=5e-14)
    assert_allclose((mean - ref["tilted_mean"]) / np.sqrt(ref["tilted_var"]), 0, atol=1e-13)
    assert_allclose(var, ref["tilted_var"], rtol=5e-13)


def test_averaged_probit_agrees_with_forty_digits():
    ref = columns(load("gaussian_averages")["probit"])
    log_mass, mean, var = averages.tilted_normal_cdf(ref["mu"], ref["s2"])
    assert_allclose(log_mass, ref["log_Z"], rtol=1e-13, atol=1e-38)  # 40 digits of Z near one
    assert_allclose((mean - ref["tilted_mean"]) / np.sqrt(ref["tilted_var"]), 0, atol=5e-13)
    assert_allclose(var, ref["tilted_var"], rtol=1e-13)


def test_averaged_softmax_agrees_with_a_tensor_trapezoid():
    cases = load("softmax_averages")["cases"]
    for case in cases:
        p = softmax_averages.softmax(case["m"], case["S"])
        # Three classes: a product rule made for 1e-6. Five: quasi-random points, made for 1e-4.
        assert_allclose(p, case["p"], atol=1e-6 if len(p) == 3 else 5e-5)
        assert_allclose(p.sum(), 1, rtol=1e-14)
