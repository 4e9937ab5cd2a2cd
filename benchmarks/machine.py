"""What a result depends on besides the code: the machine, in facts that name nobody, and the versions of packages."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "credibly",
    "numpy",
    "scipy",
    "scikit-learn",
    "statsmodels",
    "glum",
    "dask-ml",
    "gpy",
    "gpytorch",
    "torch",
    "numpyro",
    "jax",
)


def processor() -> str:
    """The model of the processor, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def load() -> float | None:
    """Processes that wanted a core during the last minute, on average."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def facts() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": versions(),
    }


def resident(key: str) -> int | None:
    """Bytes of this process: VmRSS now, VmHWM the most since `forget_peak`; None where there is no /proc."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    except OSError:
        return None
    return 1024 * int(lines[key].split()[0])


def forget_peak() -> None:
    """Let VmHWM begin anew; where that is not allowed the peak includes the making of the table."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return
