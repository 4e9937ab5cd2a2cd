"""A thousand random problems, from trivial to nearly singular: every fit ends converged or right about why not.

`torture_linear` and `torture_gp` make the problems; `torture_linear_checks` and `torture_gp_checks` look at what each
fit claims with formulas typed again: the distance to the mode, the fixed point of EP, the evidence and its slope, and
for a refusal a linear programme or singular values. Nothing may warn beyond the status, and nothing may be NaN.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from reliability import torture_gp, torture_linear
from reliability.torture_gp import gaussian_problem
from reliability.torture_gp_checks import examine_gaussian
from reliability.torture_linear import linear_problem
from reliability.torture_linear_checks import examine_linear

EVERY = 17  # of the thousand, one in so many is in the normal suite


def table(what: str, examine: Callable[[int], str], indices: range) -> Counter[str]:
    """How so many problems ended; printed under ``-s``."""
    ended = Counter(examine(index) for index in indices)
    print(f"\n{what}: {ended.total()} problems")
    for how, count in ended.most_common():
        print(f"  {count:4d}  {how}")
    return ended


def linear(index: int) -> str:
    return examine_linear(linear_problem(index))


def gaussian(index: int) -> str:
    return examine_gaussian(gaussian_problem(index))


def test_some_linear_problems_end_as_they_say():
    ended = table("Linear models, a sample", linear, range(0, torture_linear.COUNT, EVERY))
    assert len(ended) > 2  # a sample in which all goes well would test nothing but that


def test_some_gaussian_processes_end_as_they_say():
    ended = table("Gaussian processes, a sample", gaussian, range(0, torture_gp.COUNT, EVERY))
    assert len(ended) > 2


@pytest.mark.slow
def test_every_linear_problem_ends_as_it_says():
    ended = table("Linear models", linear, range(torture_linear.COUNT))
    assert ended.total() == 500
    assert sum(count for how, count in ended.items() if "to the goal only" in how) <= 5


@pytest.mark.slow
def test_every_gaussian_process_ends_as_it_says():
    assert table("Gaussian processes", gaussian, range(torture_gp.COUNT)).total() == 500
