"""A mutation run: does a test fail when a line of the code is made wrong?

``make mutation`` runs all of it; ``python tests/mutation/run.py ep --sample 50`` a part. mutmut writes the mutants, one
small change in the body of a function each, and the switch between them. Only the loop is here: ``mutmut run``
starts pytest anew for every mutant, which for this suite is seconds of collection. Here the tests are collected and run
once, and a mutant is a fork of that process which runs only the tests that reach its function, the likeliest first,
until one fails.

Not mutated, because mutmut cannot switch them while a process runs: constants of modules, attributes of classes,
properties, default arguments that are calls. ``SURVIVORS.md`` explains what no test notices.
"""

import argparse
import difflib
import fcntl
import gc
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

sys.path.insert(0, str(Path(__file__).parent))
from targets import SOURCE, TARGETS, Target

DEAREST = 4.0  # seconds of a test that is still worth running for a mutant,
PATIENCE = 30.0  # and of all the tests that are run for one
SLACK = 10.0  # a mutant takes so many times longer than the original, and a few seconds more: it is caught in a loop


class Mutant(NamedTuple):
    """One wrong line; the name is the one by which mutmut's switch knows it."""

    module: str
    name: str
    function: str
    diff: str

    @property
    def switch(self) -> str:
        return f"{self.module}.{self.name}"


class Mutated(Loader):
    """Imports modules with all their mutants inside, in place of those on disk."""

    def __init__(self, files: Iterable[str]) -> None:
        self.sources: dict[str, str] = {}
        self.mutants: list[Mutant] = []
        for file in files:
            path = SOURCE / file
            module = ".".join(("credibly", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
            written = mutate_file_contents(str(path), path.read_text())
            self.sources[module] = written.code
            lines = written.code.splitlines()
            spans = written.line_span_by_function_name
            for name in written.mutant_names:
                function = name.rpartition("__mutmut_")[0]
                old, new = spans[f"{function}__mutmut_orig"], spans[name]
                change = _change(lines[old.start - 1 : old.end], lines[new.start - 1 : new.end])
                self.mutants.append(Mutant(module, name, function, change))

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Takes the place of the usual finder for the modules that are mutated."""
        if name not in self.sources:
            return None
        usual = PathFinder.find_spec(name, path)
        return spec_from_loader(
            name, self, origin=usual.origin, is_package=usual.submodule_search_locations is not None
        )

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = module.__spec__.origin
        exec(compile(self.sources[module.__name__], module.__file__, "exec"), module.__dict__)  # mutmut's, made above


def _change(old: list[str], new: list[str]) -> str:
    plain = [[re.sub(r"\bx\w*__mutmut_(orig|\d+)", "function", line) for line in side] for side in (old, new)]
    changed = [it for it in difflib.ndiff(*plain) if it[0] in "-+"]
    return "\n".join(f"{it[0]} {it[2:].strip()}" for it in changed)


class Outcome(NamedTuple):
    """What became of a mutant: killed (by which test), survived, slow (a loop without end), crashed or untested."""

    mutant: Mutant
    fate: str
    by: str = ""


class MutationRun:
    """A pytest plugin: runs the tests once to see what they reach, then once for every mutant."""

    def __init__(self, mutants: list[Mutant], log: Path, patience: float) -> None:
        self.mutants, self.log, self.patience = mutants, log, patience
        self.cost: dict[pytest.Item, float] = {}
        self.reach: dict[str, list[pytest.Item]] = defaultdict(list)
        self.kills: Counter[pytest.Item] = Counter()
        self.failed = False
        self.child: Child | None = None
        self.outcomes: list[Outcome] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return
        self.failed = True
        if self.child is not None:  # nobody reads the report of a failure, which takes longer than the test
            self.child.tell()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.unregister(name="terminalreporter")
        self._survey(session.items)
        self._control()
        with self.log.open("a") as log:
            for k, mutant in enumerate(self.mutants):
                outcome = self._try(mutant)
                self.outcomes.append(outcome)
                print(json.dumps([*mutant, outcome.fate, outcome.by], ensure_ascii=False), file=log, flush=True)
                if outcome.fate != "killed":
                    _say(f"{k + 1}/{len(self.mutants)} {outcome.fate}: {mutant.switch}\n{mutant.diff}")
        return True

    def _survey(self, items: list[pytest.Item]) -> None:
        set_mutant_under_test("stats")
        for item, following in zip(items, [*items[1:], None], strict=True):
            state()._stats.clear()
            start = time.process_time()
            self._run(item, following)
            self.cost[item] = time.process_time() - start
            if self.failed:
                raise RuntimeError(f"{item.nodeid} fails without a mutant")
            for function in state()._stats:
                self.reach[function].append(item)
        set_mutant_under_test("")
        gc.freeze()  # forks share what they do not touch
        _say(f"{len(items)} tests, {sum(self.cost.values()):.0f} s; {len(self.mutants)} mutants")

    def _control(self) -> None:
        """Without a mutant all tests pass in a fork, and in another order: otherwise they would prove nothing."""
        nothing = Mutant("", "", "", "")
        self.reach["."] = list(self.cost)
        outcome = self._try(nothing)
        if outcome.fate != "survived":
            raise RuntimeError(f"without a mutant: {outcome.fate} {outcome.by}")

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _try(self, mutant: Mutant) -> Outcome:
        tests = self._likeliest_first(self.reach[f"{mutant.module}.{mutant.function}"])
        if not tests:
            return Outcome(mutant, "untested")
        limit = SLACK * sum(self.cost[it] for it in tests) + 5
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            self._until_one_fails(Child(mutant, writing), tests)
        os.close(writing)
        status = _wait(child, 10 * limit)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        if os.WIFSIGNALED(status):
            slow = os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}
            return Outcome(mutant, "slow" if slow else "crashed", str(os.WTERMSIG(status)))
        if not said:
            return Outcome(mutant, "survived")
        killer = tests[int(said)]
        self.kills[killer] += 1
        return Outcome(mutant, "killed", killer.nodeid)

    def _likeliest_first(self, tests: list[pytest.Item]) -> list[pytest.Item]:
        cheap = sorted((it for it in tests if self.cost[it] < DEAREST), key=lambda it: self.cost[it])
        total, chosen = 0.0, []
        for test in cheap:
            total += self.cost[test]
            if total > self.patience:
                break
            chosen.append(test)
        return sorted(chosen, key=lambda it: (self.cost[it] + 1e-3) / (1 + self.kills[it]))

    def _until_one_fails(self, child: "Child", tests: list[pytest.Item]) -> None:
        self.child = child
        try:
            for child.at, (item, following) in enumerate(zip(tests, [*tests[1:], None], strict=True)):
                self._run(item, following)
        except BaseException:  # pytest itself was stopped by the mutant
            child.tell()
        os._exit(0)


class Child:
    """The process of a mutant: silent, but for the number of the test that failed."""

    def __init__(self, mutant: Mutant, writing: int) -> None:
        set_mutant_under_test(mutant.switch)
        self.writing, self.at = writing, 0
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        gc.disable()

    def tell(self) -> None:
        os.write(self.writing, str(self.at).encode())
        os._exit(0)


def _wait(child: int, seconds: float) -> int:
    """The status of a child, which is killed when it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _say(line: str) -> None:
    os.write(TERMINAL, (line + "\n").encode())


def mutate(name: str, target: Target, given: argparse.Namespace) -> list[Outcome]:
    """Run the mutants of the files of one target."""
    loader = Mutated(target.files)
    sys.meta_path.insert(0, loader)
    mutants = loader.mutants
    if given.only:
        wanted = set(Path(given.only).read_text().split())
        mutants = [it for it in mutants if it.switch in wanted]
    random.Random(given.seed).shuffle(mutants)  # so that the first so many are a sample
    run = MutationRun(mutants[given.skip :][: given.sample], given.log, given.patience)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *target.tests]
    if pytest.main(arguments, plugins=[run]) != 0 and not run.outcomes:
        raise SystemExit(f"the tests of {name} do not run")
    return run.outcomes


def report(log: Path) -> None:
    """A table of what became of the mutants of each file."""
    fates: dict[str, Counter[str]] = defaultdict(Counter)
    for line in log.read_text().splitlines():
        module, *_, fate, _ = json.loads(line)
        fates[module][fate] += 1
    columns = ("killed", "slow", "crashed", "survived", "untested")
    _say(f"{'module':<52} mutants " + " ".join(f"{it:>8}" for it in columns))
    for module, found in fates.items():
        _say(f"{module:<52} {found.total():7} " + " ".join(f"{found[it]:8}" for it in columns))
    total = sum(fates.values(), Counter())
    _say(f"{(total['killed'] + total['slow']) / total.total():.1%} of {total.total()} mutants were noticed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=TARGETS, help="all of them, one after the other, if none is given")
    parser.add_argument("--sample", type=int, help="so many mutants of each target, drawn at random")
    parser.add_argument("--skip", type=int, default=0, help="go on after so many of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds of tests for a mutant")
    parser.add_argument("--only", help="a file with names of mutants")
    parser.add_argument("--log", type=Path, default=Path("mutants.jsonl"), help="where a line for each mutant goes")
    given = parser.parse_args()
    os.chdir(SOURCE.parents[1])
    if given.target is None:
        given.log.unlink(missing_ok=True)
        for target in TARGETS:  # modules are mutated when they are imported, so each target has a process of its own
            subprocess.run([sys.executable, __file__, target, *sys.argv[1:]], check=True)
        report(given.log)
    else:
        mutate(given.target, TARGETS[given.target], given)


TERMINAL = os.dup(1)  # pytest takes standard output for itself
fcntl.fcntl(TERMINAL, fcntl.F_SETFD, fcntl.FD_CLOEXEC)

if __name__ == "__main__":
    main()
