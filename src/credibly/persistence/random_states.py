"""Random number generators as their state.

NumPy takes a position inside a generator's buffer as it comes, and reads there: one that lies outside would read
memory that is not the generator's. So states are checked before NumPy sees them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from credibly.errors import ModelFileError
from credibly.persistence.refusals import Unsavable

Down = Callable[[str, Any], Any]

# For each generator: arrays of its state (type, length) and integers (below which number).
_ARRAYS: dict[str, dict[str, tuple[str, int]]] = {
    "MT19937": {"key": ("u4", 624)},
    "PCG64": {},
    "PCG64DXSM": {},
    "Philox": {"counter": ("u8", 4), "key": ("u8", 2)},
    "SFC64": {"state": ("u8", 4)},
}
_INTEGERS: dict[str, dict[str, int]] = {
    "MT19937": {"pos": 625},
    "PCG64": {"state": 2**128, "inc": 2**128},
    "PCG64DXSM": {"state": 2**128, "inc": 2**128},
    "Philox": {},
    "SFC64": {},
}
_HALF = {"has_uint32": 2, "uinteger": 2**32}  # of all but MT19937: the unused half of a draw


def encode_generator(value: np.random.Generator, down: Down) -> Any:
    """A Generator: the state of its bit generator."""
    return _encode(dict(value.bit_generator.state), down)


def encode_legacy(value: np.random.RandomState, down: Down) -> Any:
    """A RandomState: the same, and the normal draw that it keeps for next time."""
    state = dict(value.get_state(legacy=False))
    return [_encode(state, down), int(state["has_gauss"]), down(".gauss", float(state["gauss"]))]


def decode_generator(payload: Any, down: Down) -> np.random.Generator:
    """A Generator that goes on where the saved one was."""
    return np.random.Generator(_bits(down(".state", payload)))


def decode_legacy(payload: Any, down: Down) -> np.random.RandomState:
    """A RandomState that goes on where the saved one was."""
    encoded, has_gauss, encoded_gauss = payload
    state, gauss = down(".state", encoded), down(".gauss", encoded_gauss)
    if has_gauss not in (0, 1) or type(gauss) is not float:
        raise ModelFileError("the state of a RandomState is not one")
    made = np.random.RandomState(_bits(state))
    made.set_state({**made.get_state(legacy=False), "has_gauss": has_gauss, "gauss": gauss})
    return made


def _encode(state: dict[str, Any], down: Down) -> Any:
    name = state["bit_generator"]
    if name not in _ARRAYS:
        raise Unsavable(f"a random generator on {name} cannot be saved; use numpy.random.default_rng, or an integer")
    kept = {key: it for key, it in state.items() if key not in ("has_gauss", "gauss")}
    return down(".state", {key: dict(it) if isinstance(it, dict) else it for key, it in kept.items()})


def _bits(state: Any) -> np.random.BitGenerator:
    name = state["bit_generator"]
    if name not in _ARRAYS:
        raise ModelFileError(f"there is no random generator {name!r:.40}")
    inner = state["state"]
    _check_keys(inner, {*_ARRAYS[name], *_INTEGERS[name]})
    for key, (dtype, length) in _ARRAYS[name].items():
        _check_array(inner[key], dtype, length)
    for key, limit in _INTEGERS[name].items():
        _check_integer(inner[key], limit)
    _check_keys(state, {"bit_generator", "state", *_outer(name)})
    if name == "Philox":
        _check_array(state["buffer"], "u8", 4)
    for key, limit in _outer(name).items():
        if key != "buffer":
            _check_integer(state[key], limit)
    made: np.random.BitGenerator = getattr(np.random, name)(0)
    made.state = state
    return made


def _outer(name: str) -> dict[str, int]:
    """What stands beside the state proper, and below which number."""
    if name == "MT19937":
        return {}
    return {**_HALF, "buffer": 0, "buffer_pos": 5} if name == "Philox" else _HALF


def _check_keys(state: Any, expected: set[str]) -> None:
    if not isinstance(state, dict) or set(state) != expected:
        raise ModelFileError("the state of a random generator has not the parts it should have")


def _check_array(value: Any, dtype: str, length: int) -> None:
    if not (isinstance(value, np.ndarray) and value.dtype == np.dtype(dtype) and value.shape == (length,)):
        raise ModelFileError("the state of a random generator has not the size it should have")


def _check_integer(value: Any, limit: int) -> None:
    if type(value) is not int or not 0 <= value < limit:
        raise ModelFileError("the state of a random generator is out of range")
