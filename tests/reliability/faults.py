"""Asks the server of faults; what tests of faults share."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import credibly

HERE = Path(__file__).parent
SOURCES = str(Path(credibly.__file__).parents[1])
WRITING = (
    "credibly/data/files.py",
    "credibly/data/table_files.py",
    "credibly/data/archive.py",
    "credibly/report/page.py",
)


def environment(**more: str) -> dict[str, str]:
    """Of a process that is to import this credibly, with one thread."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([SOURCES, str(HERE)]), "OMP_NUM_THREADS": "1"} | more


class Faults:
    """Work in a process of its own, which a fault befalls."""

    def __init__(self, scratch: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "fault_scenarios.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(FAULTS_TMP=str(scratch)),
        )

    def ask(self, scenario: str, folder: Path, faults: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One outcome for each fault; what is in the folder before is there before each of them."""
        assert self._server.stdin is not None and self._server.stdout is not None
        asked = {"scenario": scenario, "folder": str(folder), "faults": list(faults)}
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        answer = json.loads(self._server.stdout.readline())
        assert isinstance(answer, list), answer["broken"]
        return answer

    def undisturbed(self, scenario: str, folder: Path, files: Sequence[str] = ()) -> dict[str, Any]:
        """What the work does when it is left alone, and how many lines of these files it runs."""
        found = self.ask(scenario, folder, [{"files": list(files)}])[0]
        assert found["end"] == 0, found
        return found

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()


def server(scratch: Path) -> Iterator[Faults]:
    """For a fixture."""
    faults = Faults(scratch)
    yield faults
    faults.close()


def every(lines: int, files: Sequence[str], signal: str, most: int | None = None) -> list[dict[str, Any]]:
    """A signal before each of so many lines, or before `most` of them, evenly."""
    chosen = range(1, lines + 1)
    if most is not None and lines > most:
        chosen = sorted({1 + round(i * (lines - 1) / (most - 1)) for i in range(most)})
    return [{"files": list(files), "signal": signal, "at": at} for at in chosen]
