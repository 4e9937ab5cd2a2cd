"""When the compiled kernels are loaded: a decision about time that must never change an answer."""

import pytest

from credibly.numerics import fused


@pytest.fixture
def ledger(monkeypatch):
    """A process that has not loaded the kernels."""

    class NotLoaded:
        currsize = 0

    monkeypatch.setattr(fused, "_kernels", type("Kernels", (), {"cache_info": staticmethod(NotLoaded)}))
    monkeypatch.setattr(fused, "available", lambda: True)
    return fused._Ledger()


@pytest.mark.parametrize("cached", [False, True])
def test_small_passes_are_never_worth_it(ledger, cached, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda: cached)
    assert not any(ledger.pays(fused.WORTH_CALLING - 1) for _ in range(10_000))


def test_one_pass_over_a_large_table_is_worth_compiling_for(ledger, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda: False)
    assert ledger.pays(fused.WORTH_COMPILING)


def test_many_middling_passes_are_worth_loading_for_but_not_compiling(ledger, monkeypatch):
    passes = fused.WORTH_LOADING // fused.WORTH_CALLING + 1
    monkeypatch.setattr(fused, "compiled_before", lambda: False)
    assert not any(ledger.pays(fused.WORTH_CALLING) for _ in range(passes))
    monkeypatch.setattr(fused, "compiled_before", lambda: True)
    assert ledger.pays(fused.WORTH_CALLING)


def test_without_numba_nothing_is_worth_it(ledger, monkeypatch):
    monkeypatch.setattr(fused, "available", lambda: False)
    assert not ledger.pays(10 * fused.WORTH_COMPILING)
