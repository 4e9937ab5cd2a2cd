"""Memory that is there, and fits that are refused before they ask for more.

A fit that fills the memory is ended by the system without a word, and with it whatever else runs there. So a fit whose
matrices are known beforehand asks here first.
"""

from pathlib import Path

from credibly.errors import InputError

NEVER_REFUSED = 1 << 26  # bytes: what takes less is not worth a look
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def refuse_beyond_memory(numbers: float, what: str, advice: str) -> None:
    """Raise where so many numbers cannot be held; where the memory cannot be read, nothing is refused.

    Parameters
    ----------
    numbers : float
        Of eight bytes each, that are held at the same time at the least: what fits must not be refused.
    what : str
        What holds them.
    advice : str
        What to change.

    Raises
    ------
    InputError
        With the estimate, the memory that is there, and the advice.
    """
    needed = 8.0 * numbers
    if needed < NEVER_REFUSED:
        return
    there = available_bytes()
    if there is not None and needed > there:
        raise InputError(
            f"There is not enough memory: {what} would take at least {needed / 1e9:,.1f} GB, and {there / 1e9:,.1f} GB "
            f"are available. {advice}"
        )


def available_bytes() -> int | None:
    """Bytes that this process may still take: what the machine leaves, or its control group if less; None if unknown.

    Memory that holds copies of files counts as available, and so does swap space.

    Examples
    --------
    >>> free = available_bytes()
    >>> free is None or free > 0
    True
    """
    kilobytes = _counts(PROC / "meminfo")
    machine = kilobytes.get("MemAvailable")
    left = [None if machine is None else 1024 * (machine + kilobytes.get("SwapFree", 0)), _left_by_group()]
    return min((max(0, it) for it in left if it is not None), default=None)


def _left_by_group() -> int | None:
    """Bytes that the control group of this process leaves (version 2), None where it has no limit."""
    path = next((line[3:] for line in _text(PROC / "self" / "cgroup").splitlines() if line.startswith("0::")), "")
    own = GROUPS / path.strip("/")
    folder = own if (own / "memory.max").is_file() else GROUPS  # in a container it is the one at the root
    most, now = (_text(folder / name).strip() for name in ("memory.max", "memory.current"))
    if not (most.isdigit() and now.isdigit()):  # "max" says that there is no limit
        return None
    counts = _counts(folder / "memory.stat")
    return int(most) - int(now) + counts.get("inactive_file", 0) + counts.get("active_file", 0)


def _counts(path: Path) -> dict[str, int]:
    """Lines that begin with a name and a number."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _text(path: Path) -> str:
    """The text of a file, none where it cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
