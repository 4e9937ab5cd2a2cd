"""What the cost model decides where a mistake would cost memory, not time alone."""

import pytest

from credibly.numerics.settings import COSTS


@pytest.mark.parametrize("n_rows", [10**6, 10**8, 10**9])
@pytest.mark.parametrize(("n_weights", "classes"), [(31, 1), (101, 1), (505, 5)])
def test_samples_are_held_in_memory_whatever_the_number_of_rows(n_rows, n_weights, classes):
    sizes = COSTS.sample_sizes(n_rows, n_weights, classes)
    columns = n_weights // classes
    assert sizes and max(sizes) * columns <= COSTS.most_numbers


def test_a_sample_of_many_columns_has_as_many_rows_as_are_of_use():
    (size,) = COSTS.sample_sizes(10**6, 2000, 1)
    assert size == COSTS.fewest_rows(2000, 1)
