"""Names in the sentences of messages: lists that are cut where they are long, and what a misspelt name may mean."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

MOST_NAMED = 8  # cells, columns or files that a message names


def shortened(names: Iterable[Any], most: int = MOST_NAMED, show: Callable[[Any], str] = str) -> str:
    """A list in a sentence, cut where it is long.

    Examples
    --------
    >>> shortened("abcd", most=2, show=repr)
    "'a', 'b' … (4 in all)"
    """
    listed = [show(name) for name in names]
    return ", ".join(listed[:most]) + (f" … ({len(listed)} in all)" if len(listed) > most else "")


def close_names(name: str, present: Sequence[str], most: int = 3) -> list[str]:
    """Those of the names that look like this one, the closest first; capitals and spaces around do not count.

    Examples
    --------
    >>> close_names("agee", ["Age", "page", "sex"])
    ['Age', 'page']
    """
    folded: dict[str, list[str]] = {}
    for other in present:
        folded.setdefault(other.casefold().strip(), []).append(other)
    return [other for near in get_close_matches(name.casefold().strip(), folded, n=most) for other in folded[near]][
        :most
    ]


def did_you_mean(
    name: str, present: Sequence[str], otherwise: str = "", *, most: int = 3, show: Callable[[str], str] = repr
) -> str:
    """A question with the names that are close to one that is not there; `otherwise` where none is.

    Examples
    --------
    >>> did_you_mean("agee", ["age", "sex"])
    "Did you mean 'age'?"
    """
    near = close_names(name, present, most)
    return f"Did you mean {' or '.join(map(show, near))}?" if near else otherwise
