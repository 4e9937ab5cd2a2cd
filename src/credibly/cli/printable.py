r"""Text of strangers on a terminal: names and labels are shown, and never obeyed.

A column called ``\x1b]0;…\x07`` would set the title of the window; others move the cursor, hide what was said before,
or turn the direction of writing. Such characters are printed as the escapes that Python would write for them.
"""

import re

# Control characters but for the tab and the end of a line, separators of lines, marks that turn the direction of
# writing, and halves of characters, which no encoding can print.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The same text, with what a terminal would obey spelt out.

    Examples
    --------
    >>> print(printable("age\x1b[2J (años)"))
    age\x1b[2J (años)
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def printable_json(text: str) -> str:
    r"""The same JSON, with such characters written as JSON's own escapes: it is read back as it was.

    Examples
    --------
    >>> print(printable_json('"\x9b2J"'))
    "\u009b2J"
    """
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
