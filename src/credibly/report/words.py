"""Numbers and names as a reader wants them: few digits, plain words for how sure something is."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, isnan, log10
from typing import Any

NB = "\u00a0"  # a space at which no line is broken
MINUS = "−"
GROUPED = 1e4  # from here on digits are grouped: 2008 may be a year
LARGE = 1e5  # from here on a number has a power of ten
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# From which probability of its sign on a direction is called what.
SURE = ((0.999, "practically certain"), (0.99, "almost certain"), (0.95, "very likely"), (0.9, "likely"))
LEANING, UNSURE = (0.75, "only leaning that way"), "unclear"


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, and one more before they are rounded off.

    Examples
    --------
    >>> number(31.6713), number(-0.0004512), number(1234.5), number(0.0), number(9885.0, 2)
    ('31.7', '−0.000451', '1234', '0', '9900')
    >>> number(3.14e7).replace(NB, " ")
    '3.14 × 10⁷'
    >>> number(-9.9996e-310).replace(NB, " ")
    '−1.00 × 10⁻³⁰⁹'
    """
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    size = abs(value)
    exponent = floor(log10(size))
    if size >= LARGE * 10 or size < 1e-4:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}{NB}×{NB}10{str(int(power)).translate(SUPERSCRIPTS)}".replace("-", MINUS)
    if exponent > digits:
        value = round(value, digits - 1 - exponent)
    comma = "," if size >= GROUPED else ""
    return f"{value:{comma}.{max(digits - 1 - exponent, 0)}f}".replace("-", MINUS)


def plain(value: float) -> str:
    """A value of a column: whole numbers with all their digits.

    Examples
    --------
    >>> plain(2008.0), plain(-12345.0), plain(0.51234)
    ('2008', '−12,345', '0.512')
    """
    if not isfinite(value) or value != round(value) or abs(value) >= LARGE * 10:
        return number(value)
    return f"{value:{',' if abs(value) >= GROUPED else ''}.0f}".replace("-", MINUS)


def count(value: int) -> str:
    """A whole number: ``12,345``."""
    return f"{value:,}"


def counted(value: int, thing: str, things: str | None = None) -> str:
    """A whole number of things: ``1 row``, ``2,000 rows``."""
    return f"{count(value)} {thing if value == 1 else things or thing + 's'}"


def percent(share: float) -> str:
    """A share in per cent, with more digits near the ends, where they matter.

    Examples
    --------
    >>> percent(0.627).replace(NB, " "), percent(0.9981).replace(NB, " "), percent(1.0).replace(NB, " ")
    ('62.7 %', '99.8 %', '100 %')
    >>> percent(0.99996).replace(NB, " "), percent(2e-7).replace(NB, " ")
    ('more than 99.9 %', 'less than 0.1 %')
    """
    if isnan(share):
        return "–"
    if 0 < share < 0.001:
        return f"less than 0.1{NB}%"
    if 0.999 < share < 1:
        return f"more than 99.9{NB}%"
    shown = f"{100 * share:.1f}"
    return f"{shown.removesuffix('.0')}{NB}%"


def level_name(level: float) -> str:
    """The mass of an interval: ``90 %``."""
    return f"{100 * level:g}{NB}%"


def span(low: float, high: float, level: float) -> str:
    """An interval in words: ``90 %: 2.03 to 3.91``."""
    return f"{level_name(level)}: {number(low)} to {number(high)}"


def surely(probability: float) -> str:
    """A plain word for the probability that an effect has the sign it seems to have.

    Examples
    --------
    >>> surely(0.9999), surely(0.97), surely(0.6)
    ('practically certain', 'very likely', 'unclear')
    """
    for limit, word in (*SURE, LEANING):
        if probability >= limit:
            return word
    return UNSURE


def surely_short(probability: float) -> str:
    """The same for a cell."""
    word = surely(probability)
    return "leaning" if word == LEANING[1] else word


def direction(probability: float) -> str:
    """Half a sentence about a sign: ``the direction is very likely``."""
    word = surely(probability)
    return f"the data are {word}" if word == LEANING[1] else f"the direction is {word}"


def probability(p: float) -> str:
    """A probability as a number that is never rounded to certainty.

    Examples
    --------
    >>> probability(0.5), probability(0.99999).replace(NB, " "), probability(1.0)
    ('0.50', '> 0.999', '1')
    """
    if isnan(p):
        return "–"
    if p in {0.0, 1.0}:
        return f"{p:.0f}"
    if p > 0.999:
        return f">{NB}0.999"
    if p < 0.001:
        return f"<{NB}0.001"
    return f"{p:.3f}" if p > 0.95 or p < 0.05 else f"{p:.2f}"


def p_value(p: float) -> str:
    """``p = 0.29``, ``p < 0.001``."""
    shown = probability(p)
    return f"p {shown}" if shown[0] in "<>" else f"p = {shown}"


def listed(names: Sequence[Any], most: int = 6) -> str:
    """Names in a sentence: ``a, b and c``; a long list is cut, and says so.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed("abcdefgh", most=3)
    ('a, b and c', 'a, b, c and 5 more')
    """
    shown = [str(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {count(len(names) - most)} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
