"""Gaussian process classification against scikit-learn's Laplace and GPy's EP.

Run by `python -m benchmarks.gaussian_process`. Fits alternate, so that both meet the same neighbours on the machine;
medians and their ratio are printed, with the log evidence that both report, so that only equal answers are compared.
Seconds are of one busy or idle machine and mean nothing by themselves; ratios do.

BLAS is held at one thread for all (`--threads`): two threads of it that wait for a core beside a busy neighbour make
everybody tens of times slower, the peers as much as us. Memory is the peak resident size of a fit in a fresh process,
less that before it, in arrays of n × n numbers.

GPy is optional. Where it lives in another interpreter, name that in CREDIBLY_GPY_PYTHON. It reports its own time,
without its start-up, for the kernel matrix and EP alone.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process import kernels as peer_kernels
from threadpoolctl import threadpool_limits

from benchmarks.linear import RESULTS, seconds
from credibly import GaussianProcessClassifier
from credibly.kernels import RBF, Constant, Kernel

D = 10
VARIANCE, LENGTH, BOUNDS = 4.0, 3.0, (1e-3, 1e3)
PEER_LIMIT = 400  # seconds that a peer may take for one fit
MEMORY_ROWS = 2_000
GPY_PYTHON = "CREDIBLY_GPY_PYTHON"

GPY = """
import json, sys, time
import numpy as np
import GPy, paramz
rows = np.load(sys.argv[1])
X, y = rows["X"], rows["y"].astype(float)[:, None]
variance, length, parallel = float(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "parallel"
np.random.seed(0)
def run(X, y):
    kernel = GPy.kern.RBF(X.shape[1], variance=variance, lengthscale=np.full(X.shape[1], length), ARD=True)
    ep = GPy.inference.latent_function_inference.EP(ep_mode="nested", parallel_updates=parallel)
    labels = paramz.ObsAr(y)
    start = time.perf_counter()
    log_z = ep.inference(kernel, X, GPy.likelihoods.Bernoulli(), labels)[1]
    return time.perf_counter() - start, float(np.ravel(log_z)[0])
run(X[:20], y[:20])
took, log_z = run(X, y)
print(json.dumps({"seconds": took, "log_evidence": log_z, "version": GPy.__version__}))
"""


class Row(NamedTuple):
    """One line of the table: seconds (or arrays), the ratio, what is asked of it, and what was compared."""

    part: str
    what: str
    ours: float
    peer: float | None
    goal: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.peer / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; a memory row (no peer) must not exceed it."""
        if self.goal is None:
            return None
        return self.ours <= self.goal if self.ratio is None else self.ratio >= self.goal


def table(n: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian columns; scores that wave, multiply and rise with four of them each; noisy labels."""
    rng = np.random.default_rng(n + n_classes)
    X = rng.normal(size=(n, D))
    columns = [X[:, np.arange(k, k + 4) % D].T for k in range(1 if n_classes == 2 else n_classes)]
    F = np.column_stack([2 * np.sin(1.5 * a) + b * c - d / 2 for a, b, c, d in columns])
    if n_classes == 2:
        return X, (rng.random(n) < 1 / (1 + np.exp(-2 * F[:, 0]))).astype(int)
    return X, (2 * F + rng.gumbel(size=F.shape)).argmax(axis=1)


def our_kernel() -> Kernel:
    return Constant(VARIANCE, variance_bounds=BOUNDS) * RBF((LENGTH,) * D, length_scale_bounds=BOUNDS)


def peer_kernel() -> Any:
    return peer_kernels.ConstantKernel(VARIANCE, BOUNDS) * peer_kernels.RBF([LENGTH] * D, BOUNDS)


def ours(
    inference: str = "laplace", likelihood: str = "logit", *, optimize: bool = False, n_kernels: int = 1
) -> GaussianProcessClassifier:
    kernel = our_kernel() if n_kernels == 1 else [our_kernel()] * n_kernels
    return GaussianProcessClassifier(kernel, likelihood=likelihood, inference=inference, optimize=optimize)


def peer(*, optimize: bool = False) -> Any:
    return Peer(peer_kernel(), optimizer="fmin_l_bfgs_b" if optimize else None)


def alternate(runs: int, mine: Callable[[], Any], theirs: Callable[[], float]) -> tuple[float, float]:
    """Median seconds of both; the peer reports its own."""
    times = [(seconds(mine), theirs()) for _ in range(runs)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second)


def child(*arguments: str, threads: int) -> dict[str, Any] | None:
    """What a fresh process of this file reports; None when it takes too long."""
    many = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    try:
        done = subprocess.run(
            arguments, env=os.environ | many, capture_output=True, text=True, timeout=PEER_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def of_this_file(*arguments: str, threads: int) -> dict[str, Any] | None:
    return child(sys.executable, "-m", "benchmarks.gaussian_process", "--child", *arguments, threads=threads)


# --- the parts ---------------------------------------------------------------------------------------------------


def laplace(runs: int, n: int, *, optimize: bool) -> Iterator[Row]:
    """Two classes by Laplace, against scikit-learn: hyperparameters as given, or found from the same start."""
    X, y = table(n)
    mine, theirs = ours(optimize=optimize), peer(optimize=optimize)
    took = alternate(runs, lambda: mine.fit(X, y), lambda: seconds(lambda: theirs.fit(X, y)))
    evidence = mine.log_evidence_, float(theirs.log_marginal_likelihood_value_)
    note = f"log evidence {evidence[0]:.6f}, scikit-learn's {evidence[1]:.6f}"
    if optimize and evidence[0] < evidence[1] - 1e-3:
        note += " (LOWER)"
    what = "optimised, same start and bounds" if optimize else "hyperparameters fixed"
    yield Row(
        "b" if optimize else "a", f"Laplace n={n}, {what}, against scikit-learn", *took, 5 if optimize else 3, note
    )


def fixed(runs: int, n: int, threads: int) -> Iterator[Row]:
    return laplace(runs, n, optimize=False)


def optimised(runs: int, n: int, threads: int) -> Iterator[Row]:
    return laplace(max(1, runs // 3), n, optimize=True)


def gpy_interpreter() -> str | None:
    named = os.environ.get(GPY_PYTHON)
    return named or (sys.executable if find_spec("GPy") else None)


def propagation(runs: int, n: int, threads: int) -> Iterator[Row]:
    """EP with the probit at fixed hyperparameters, against GPy's: as it comes, and with its parallel updates."""
    interpreter = gpy_interpreter()
    if interpreter is None:
        print(f"(c) GPy is not installed (name an interpreter that has it in {GPY_PYTHON}): left out.")
        return
    with tempfile.TemporaryDirectory() as folder:
        for size in sorted({min(300, n), n}):
            X, y = table(size)
            rows = Path(folder) / f"{size}.npz"
            np.savez(rows, X=X, y=y)
            for way, goal in (("sequential", 10 if size >= 1000 else None), ("parallel", None)):
                found: dict[str, Any] = {}

                def theirs(rows: Path = rows, way: str = way, found: dict[str, Any] = found) -> float:
                    program = (interpreter, "-c", GPY, str(rows), str(VARIANCE), str(LENGTH), way)
                    found.update(child(*program, threads=threads) or {"seconds": PEER_LIMIT, "log_evidence": np.nan})
                    return float(found["seconds"])

                mine = ours("ep", "probit")
                took = alternate(max(1, runs // 3), lambda: mine.fit(X, y), theirs)  # noqa: B023 - used up here
                note = f"log Z {mine.log_evidence_:.6f}, GPy's {found['log_evidence']:.6f}; {mine.n_iter_} sweeps"
                default = "its default" if way == "sequential" else "parallel updates"
                yield Row("c", f"EP probit n={size}, against GPy ({default})", *took, goal, note)


def classes(runs: int, n: int, threads: int) -> Iterator[Row]:
    """Five classes: the joint softmax against one-vs-rest."""
    X, y = table(n, 5)
    X_test, y_test = table(4 * n, 5)

    def loss(model: Any) -> float:
        log_p = np.log(np.clip(model.predict_proba(X_test), 1e-300, None))
        return float(-log_p[np.arange(len(y_test)), y_test].mean())

    mine, theirs = ours(), peer()
    took = alternate(runs, lambda: mine.fit(X, y), lambda: seconds(lambda: theirs.fit(X, y)))
    note = f"log loss on {len(y_test)} other rows {loss(mine):.4f}, scikit-learn's {loss(theirs):.4f}"
    yield Row("d", f"softmax K=5 n={n}, fixed, against scikit-learn's one-vs-rest", *took, 1, note)
    found = of_this_file("one-vs-rest", str(n), threads=threads)  # once, in a process that has a limit of its own
    theirs_loss = f"{found['loss']:.4f}" if found else f"not known: stopped after {PEER_LIMIT} s"
    for kernels, mine in (("one kernel", ours(optimize=True)), ("5 kernels", ours(optimize=True, n_kernels=5))):
        first = seconds(lambda: mine.fit(X, y))  # noqa: B023 - used up here
        note = f"log loss {loss(mine):.4f}, scikit-learn's, with a kernel for each class, {theirs_loss}"
        theirs_took = float(found["seconds"]) if found else float(PEER_LIMIT)
        what = f"softmax K=5 n={n}, {kernels} optimised, against one-vs-rest"
        yield Row("d", what, first, theirs_took, 1, note)


def one_vs_rest_child(n: int) -> dict[str, Any]:
    (X, y), (X_test, y_test) = table(n, 5), table(4 * n, 5)
    model = peer(optimize=True)
    took = seconds(lambda: model.fit(X, y))
    log_p = np.log(np.clip(model.predict_proba(X_test), 1e-300, None))
    return {"seconds": took, "loss": float(-log_p[np.arange(len(y_test)), y_test].mean())}


FITS: dict[str, Callable[[], Any]] = {
    "Laplace, fixed": ours,
    "Laplace, optimised": lambda: ours(optimize=True),
    "EP, fixed": lambda: ours("ep", "probit"),
    "EP, optimised": lambda: ours("ep", "probit", optimize=True),
    "softmax K=5, fixed": ours,
    "softmax K=5, optimised": lambda: ours(optimize=True),
    "scikit-learn's Laplace, fixed": peer,
    "scikit-learn's Laplace, one gradient": peer,
}


def resident(key: str) -> int:
    """Bytes, from the kernel: VmRSS now, or VmHWM, the most since the program was loaded."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[key].split()[0])


def memory_child(fit: str, n: int) -> dict[str, Any]:
    n_classes = 5 if "K=5" in fit else 2
    model = FITS[fit]()
    model.fit(*table(100, n_classes))  # loads libraries and starts BLAS
    X, y = table(n, n_classes)
    before = resident("VmRSS")
    start = time.perf_counter()
    model.fit(X, y)
    if fit.endswith("one gradient"):
        model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    took = time.perf_counter() - start
    return {"arrays": (resident("VmHWM") - before) / (8 * n**2), "seconds": took}


def memory(runs: int, n: int, threads: int) -> Iterator[Row]:
    """Peak memory of a fit, in n × n arrays."""
    if not Path("/proc/self/status").exists():
        print("(e) peak memory is read from /proc, which this system does not have: left out.")
        return
    for fit in FITS:
        rows = n // 4 if "K=5" in fit else n // 2 if fit == "EP, optimised" else n  # some minutes otherwise
        found = of_this_file("memory", fit, str(rows), threads=threads)
        goal = 6.0 if fit in ("Laplace, fixed", "Laplace, optimised", "EP, fixed", "EP, optimised") else None
        if found is None:
            print(f"(e) {fit}: stopped after {PEER_LIMIT} s")
            continue
        yield Row(
            "e", f"memory of {fit}, n={rows}, in n×n arrays", found["arrays"], None, goal, f"{found['seconds']:.1f} s"
        )


class Part(NamedTuple):
    run: Callable[[int, int, int], Iterator[Row]]
    n: int


PARTS = {
    "a": Part(fixed, 1_000),
    "b": Part(optimised, 1_000),
    "c": Part(propagation, 1_000),
    "d": Part(classes, 500),
    "e": Part(memory, MEMORY_ROWS),
}


HEADER = f"{'':72}{'credibly':>10}{'peer':>11}{'ratio':>7}  goal"


def show(row: Row) -> None:
    if row.peer is None:
        numbers = f"{row.ours:9.2f} {'':>11}{'':>7}"
        goal = "" if row.goal is None else f"at most {row.goal:g}"
    else:
        numbers = f"{row.ours:9.3f}s{row.peer:10.3f}s{row.ratio:7.1f}"
        goal = "" if row.goal is None else f"at least {row.goal:g}"
    verdict = {None: "", True: ": met", False: ": NOT met"}[row.met]
    print(f"({row.part}) {row.what:68}{numbers}  {goal}{verdict}\n      {row.note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="abcde", help="letters of the parts to run (a fixed, b optimised, c EP, …)")
    parser.add_argument("--runs", type=int, default=9, help="fits of each at fixed hyperparameters; a third elsewhere")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows, for a quick look: no goal applies then")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS, for everybody")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # both tell of hyperparameters at their bounds
    if arguments.child:
        job, *rest = arguments.child
        found = one_vs_rest_child(int(rest[0])) if job == "one-vs-rest" else memory_child(rest[0], int(rest[1]))
        print(json.dumps(found))
        return
    ours().fit(*table(100))  # the first fits load libraries
    peer().fit(*table(100))
    load = os.getloadavg() if hasattr(os, "getloadavg") else (np.nan,) * 3
    print(f"{os.cpu_count()} cores, load {load[0]:.1f} before; {arguments.threads} thread(s) of BLAS. Some minutes.")
    print(HEADER)
    rows = []
    with threadpool_limits(arguments.threads, "blas"):
        for part in arguments.only:
            for row in PARTS[part].run(arguments.runs, int(arguments.share * PARTS[part].n), arguments.threads):
                judged = row if arguments.share == 1 else row._replace(goal=None)
                show(judged)
                rows.append({**judged._asdict(), "ratio": row.ratio, "met": judged.met})
    after = os.getloadavg()[0] if hasattr(os, "getloadavg") else np.nan
    print(f"load {after:.1f} after")
    RESULTS.mkdir(exist_ok=True)
    summary = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": [load[0], after],
        "rows": rows,
    }
    (RESULTS / "gaussian_process.local.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
