"""JSON as model files use it: plain ASCII, numbers that are numbers, no key twice, not too deep.

NaN and the infinities are not JSON; `codecs` writes them as ``{"float": "nan"}``.
"""

import json
import re
from typing import Any

from credibly.errors import ModelFileError

MOST_DEPTH = 160  # levels of brackets; a decoder that calls itself needs some three frames for each
LONGEST_INTEGER = 20  # characters; larger ones are written in hexadecimal by `codecs`
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def dump(value: Any) -> bytes:
    """A value of dicts with string keys, lists, strings, finite numbers, booleans and None as text."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def parse(text: bytes) -> Any:
    """The value of such a text, or a ModelFileError.

    Examples
    --------
    >>> parse(b'{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    _check_depth(text)
    try:
        return json.loads(
            text.decode("ascii"),
            parse_float=_float,
            parse_int=_int,
            parse_constant=_refuse_constant,
            object_pairs_hook=_distinct,
        )
    except ValueError as error:  # of which JSONDecodeError and UnicodeDecodeError are kinds
        raise ModelFileError(f"its header is not the JSON that save() writes ({error})") from error


def depth(text: bytes) -> int:
    """How deep brackets are nested, strings left out.

    Examples
    --------
    >>> depth(b'[{"[[[": []}]')
    3
    """
    deepest = now = 0
    for bracket in _STRING.sub(b"", text).translate(None, _NO_BRACKET):
        now += 1 if bracket in b"[{" else -1
        deepest = max(deepest, now)
    return deepest


def _check_depth(text: bytes) -> None:
    """Before parsing: a parser that calls itself could be made to run out of stack."""
    if depth(text) > MOST_DEPTH:
        raise ModelFileError(f"its header is nested more than {MOST_DEPTH} levels deep")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:30]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError("an integer is too long")
    return int(text)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value
