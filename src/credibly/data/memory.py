"""Memory that is there, and fits that are refused before they ask for more.

A fit that fills the memory is ended by the system without a word, and with it whatever else runs there. So a fit whose
matrices are known beforehand asks here first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from credibly.errors import InputError

NEVER_REFUSED = 1 << 26  # bytes: what takes less is not worth a look
UNLIMITED = 1 << 60  # control groups of the first version say "no limit" by a number beyond this one
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
    """What this process may still take: the least that the machine and its control groups leave; None if unknown.

    Memory that holds copies of files counts as available, and so does swap space.

    Examples
    --------
    >>> found = available_bytes()
    >>> found is None or found > 0
    True
    """
    found = [_machine(), *(limit.left for limit in _groups())]
    return min((max(one, 0) for one in found if one is not None), default=None)


class _Group(NamedTuple):
    """The files of a control group that say what its processes may take."""

    folder: Path
    most: str
    used: str
    cached: tuple[str, ...]  # in memory.stat: what the system gives back when it is needed

    @property
    def left(self) -> int | None:
        """None without a limit, or where it cannot be read."""
        try:
            most, used = ((self.folder / name).read_text() for name in (self.most, self.used))
            if not most.strip().isdigit() or int(most) >= UNLIMITED:  # the second version says "max"
                return None
            counts = _counts((self.folder / "memory.stat").read_text())
            return int(most) - int(used) + sum(counts.get(name, 0) for name in self.cached)
        except (OSError, ValueError):
            return None


def _machine() -> int | None:
    try:
        kilobytes = _counts((PROC / "meminfo").read_text().replace(":", ""))
    except (OSError, ValueError):
        return None
    if "MemAvailable" not in kilobytes:
        return None
    return 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))


def _counts(text: str) -> dict[str, int]:
    """Lines that begin with a name and a number."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _groups() -> Iterator[_Group]:
    """The control groups of this process and those around them; any of them may have a limit."""
    try:
        lines = [line.split(":", 2) for line in (PROC / "self" / "cgroup").read_text().splitlines()]
    except (OSError, ValueError):
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if not controllers:
            for folder in _around(GROUPS, path):
                yield _Group(folder, "memory.max", "memory.current", ("inactive_file", "active_file"))
        elif "memory" in controllers.split(","):
            for folder in _around(GROUPS / "memory", path):
                cached = ("total_inactive_file", "total_active_file")
                yield _Group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", cached)


def _around(root: Path, path: str) -> Iterator[Path]:
    """A group and the groups around it; inside a container only the outermost may be there."""
    parts = [part for part in path.split("/") if part not in {"", ".."}]
    return (root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))
