"""Line and branch coverage by room, of the JSON that coverage writes; fails below a share. Run by ``make coverage``."""

import json
import sys
from collections import defaultdict
from pathlib import Path

LEAST = 95.0  # per cent, of lines and of branches, in every room
LOW = 90.0  # modules below are named

LINES = "covered_lines", "num_statements"
BRANCHES = "covered_branches", "num_branches"


def share(counts: dict[str, int], kind: tuple[str, str]) -> float:
    """Per cent; what has no branches has them all covered."""
    covered, all_of_them = (counts[name] for name in kind)
    return 100.0 * covered / all_of_them if all_of_them else 100.0


def by_room(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Counts added up over the modules of a room."""
    rooms: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path, file in files.items():
        room = Path(path).parts[Path(path).parts.index("credibly") + 1].removesuffix(".py")
        for name in (*LINES, *BRANCHES):
            rooms[room][name] += file["summary"][name]
    return dict(sorted(rooms.items()))


def main(text: str) -> int:
    """Print a table; 0 if every room has enough."""
    files = json.loads(text)["files"]
    rooms = by_room(files)
    print(f"{'room':<12}{'lines':>9}{'branches':>10}")
    for room, counts in rooms.items():
        print(f"{room:<12}{share(counts, LINES):>7.1f} %{share(counts, BRANCHES):>8.1f} %")
    for path, file in sorted(files.items()):
        lines, branches = (share(file["summary"], kind) for kind in (LINES, BRANCHES))
        if min(lines, branches) < LOW:
            print(f"below {LOW:.0f} %: {path} ({lines:.0f} % of lines, {branches:.0f} % of branches)")
    return int(min(share(counts, kind) for counts in rooms.values() for kind in (LINES, BRANCHES)) < LEAST)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
