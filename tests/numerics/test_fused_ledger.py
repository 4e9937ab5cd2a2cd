"""When the compiled kernels are loaded: a decision about time that must never change an answer."""

import os
from pathlib import Path

import pytest

from credibly.numerics import fused


@pytest.fixture
def ledger(monkeypatch):
    """A process that has not loaded the kernels."""
    monkeypatch.setattr(fused, "available", lambda: True)
    return fused._Ledger()


@pytest.mark.parametrize("cached", [False, True])
def test_small_passes_are_never_worth_it(ledger, cached, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda module: cached)
    assert not any(ledger.pays("logit", fused.WORTH_CALLING - 1) for _ in range(10_000))


@pytest.mark.parametrize("kind", [*fused.KINDS, fused.SOFTMAX])
def test_one_pass_over_a_large_table_is_worth_compiling_for(ledger, kind, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda module: False)
    assert ledger.pays(kind, fused.WORTH_COMPILING)


def test_what_is_compiled_is_compiled_whole_and_told_once(ledger, monkeypatch, caplog):
    """A process that reads files only would else leave half a module, and the next one would be told again."""
    loaded = []
    monkeypatch.setattr(fused, "compiled_before", lambda module: False)
    monkeypatch.setattr(fused, "load", loaded.append)
    for kind in (fused.COLUMNS, "logit", "probit", fused.COLUMNS):
        assert ledger.pays(kind, fused.WORTH_COMPILING)
    assert loaded == [fused.COLUMNS, "logit"]  # the others are in one of these modules
    assert len([record for record in caplog.records if "compiles its kernels" in record.message]) == 1
    monkeypatch.setattr(fused, "compiled_before", lambda module: True)
    assert ledger.pays(fused.SOFTMAX, fused.WORTH_COMPILING)
    assert len(loaded) == 2  # what is there is loaded as it is asked for


def test_many_middling_passes_are_worth_loading_for_but_not_compiling(ledger, monkeypatch):
    passes = fused.WORTH_LOADING // fused.WORTH_CALLING + 1
    monkeypatch.setattr(fused, "compiled_before", lambda module: False)
    assert not any(ledger.pays("logit", fused.WORTH_CALLING) for _ in range(passes))
    monkeypatch.setattr(fused, "compiled_before", lambda module: True)
    assert ledger.pays("logit", fused.WORTH_CALLING)


def test_when_numpy_has_taken_as_long_as_compiling_would_it_is_worth_compiling_for(ledger, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda module: False)
    middling = fused.WORTH_COMPILING // 2
    assert not any(ledger.pays("logit", middling) for _ in range(fused.WALKED_LONG // middling - 1))
    assert ledger.pays("logit", middling)


def test_what_is_loaded_serves_small_passes_of_its_own_kernels_only(ledger, monkeypatch):
    monkeypatch.setattr(fused, "compiled_before", lambda module: module == "_fused_kernels")
    assert ledger.pays("logit", fused.WORTH_COMPILING)
    assert ledger.pays("poisson", fused.WORTH_CALLING)
    assert not ledger.pays("softmax", fused.WORTH_COMPILING - 1)  # not compiled yet: twenty seconds, for a small table


def test_without_numba_nothing_is_worth_it(ledger, monkeypatch):
    monkeypatch.setattr(fused, "available", lambda: False)
    assert not ledger.pays("logit", 10 * fused.WORTH_COMPILING)


def test_compiled_code_older_than_any_source_is_forgotten(tmp_path, monkeypatch):
    """Numba compares a compiled function with its own file, not with the files of what it calls."""
    held = tmp_path / "__pycache__"
    held.mkdir()
    old, new, other = (held / name for name in ("_fused_a.take_up-1.nbi", "_fused_b.take_up-1.nbi", "linalg.nbi"))
    for path, when in [
        (old, 50),
        (tmp_path / "_fused_b.py", 100),
        (tmp_path / "_fused_a.py", 10),
        (new, 150),
        (other, 1),
    ]:
        path.write_text("")
        os.utime(path, (when, when))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(fused, "__file__", str(tmp_path / "fused.py"))
    monkeypatch.setattr(fused, "_last_changed", fused._last_changed.__wrapped__)
    fused._forget_stale.__wrapped__()
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)
    assert fused.compiled_before.__wrapped__("_fused_b")
    assert not fused.compiled_before.__wrapped__("_fused_a")


@pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")
def test_compiled_code_is_looked_for_where_numba_keeps_it(tmp_path, monkeypatch):
    """Beside the sources; where those may not be written, as in a container, with the user's caches; or as told."""
    from numba.core.caching import _CacheLocator
    from numba.misc.appdirs import AppDirs

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    sources = Path(fused.__file__).parent
    own = _CacheLocator.get_suitable_cache_subpath(fused.__file__)
    assert fused._compiled_folder() == sources / "__pycache__"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert fused._compiled_folder() == Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / own
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fused._compiled_folder() == Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / own
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "told"))
    assert fused._compiled_folder() == tmp_path / "told" / own


def test_compiled_code_that_another_process_removed_first_is_no_error(tmp_path, monkeypatch):
    held = tmp_path / "__pycache__"
    held.mkdir()
    (tmp_path / "_fused_a.py").write_text("")
    (held / "_fused_a.take_up-1.nbi").symlink_to(held / "gone")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(fused, "__file__", str(tmp_path / "fused.py"))
    monkeypatch.setattr(fused, "_last_changed", fused._last_changed.__wrapped__)
    fused._forget_stale.__wrapped__()
    assert len(list(held.iterdir())) == 1


@pytest.mark.skipif(not fused.available(), reason="numba, a core dependency, cannot be imported here")
def test_what_is_loaded_ahead_serves_the_first_call(ledger, monkeypatch):
    monkeypatch.setattr(fused, "_LEDGER", ledger)
    assert not ledger.pays("softmax", fused.WORTH_CALLING)
    fused.load()
    for kind in (*fused.KINDS, fused.SOFTMAX, fused.COLUMNS):
        assert ledger.pays(kind, fused.WORTH_CALLING)
