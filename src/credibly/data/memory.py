"""Memory that is there, and fits that are refused before they ask for more.

A fit that fills the memory is ended by the system without a word, and with it whatever else runs there. So a fit whose
matrices are known beforehand asks here first.
"""

from collections.abc import Iterator
from pathlib import Path

from credibly.errors import InputError

NEVER_REFUSED = 1 << 26  # bytes: what takes less is not worth a look
UNLIMITED = 1 << 60  # control groups of the first version say "no limit" by a number beyond this one
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# Files of a control group, by version: its limit, what it uses, and of that what the system gives back when needed.
SECOND = ("memory.max", "memory.current", ("inactive_file", "active_file"))
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


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
    """What this process may still take: the least that the machine and its control groups leave; None if unknown.

    Memory that holds copies of files counts as available, and so does swap space.

    Examples
    --------
    >>> found = available_bytes()
    >>> found is None or found > 0
    True
    """
    kilobytes = _counts(PROC / "meminfo")
    machine = [1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))] if "MemAvailable" in kilobytes else []
    return min((max(0, left) for left in (*machine, *_left_by_groups())), default=None)


def _left_by_groups() -> Iterator[int]:
    """What the control groups of this process, and those around them, leave; any of them may have a limit."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root, names = (GROUPS / "memory", FIRST) if controllers else (GROUPS, SECOND)
        folders = [part for part in path.split("/") if part not in {"", ".."}]
        for depth in range(len(folders) + 1):  # inside a container only the outermost may be there
            yield from _left_by(root.joinpath(*folders[:depth]), *names)


def _left_by(folder: Path, limit: str, used: str, given_back: tuple[str, ...]) -> Iterator[int]:
    most, now = _text(folder / limit).strip(), _text(folder / used).strip()
    if most.isdigit() and now.isdigit() and int(most) < UNLIMITED:  # the second version says "max"
        counts = _counts(folder / "memory.stat")
        yield int(most) - int(now) + sum(counts.get(name, 0) for name in given_back)


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
