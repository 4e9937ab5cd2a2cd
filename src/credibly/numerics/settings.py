"""Tuning numbers that several files share, in records with a reason for each; functions take them as arguments."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchCosts:
    """How a search for the mode spends its passes over the rows.

    A pass with the Hessian costs as much as several with the gradient alone, and a pass over a sample next to nothing.
    What is decided here moves times, and digits that nobody sees; never which mode is found.
    """

    sampled_numbers: int = 300_000
    """Rows times weights from which on a search starts from the mode of a sample: below, a pass takes less than a
    millisecond."""
    rows_per_weight: int = 200
    """In the sample, for each weight: its Hessian is then within √(1/200) of that of all rows along most directions."""
    sample_shares: tuple[int, int] = (20, 5)
    """But at least one row in 20, as that costs little, and at most one in 5."""
    fewest_per_weight: int = 20
    """Where even that leaves fewer rows for each weight there is no sample: its Hessian would be of no use."""
    first_share: int = 10
    """One row of the sample in so many: a first, rough search starts there."""
    sample_accuracy: float = 0.1
    """Share of the squared distance between the sample's mode and that of all rows to which the sample is searched."""
    sample_steps: int = 20
    """Newton steps over a sample: one that needs more is no guide."""
    least_loss: float = 3.0
    """Nats for each weight, counted in rows of the sample: with less, its classes are all but separated, and its mode
    is no guide. (Fitting a weight takes half a nat off the rows it is fitted to.)"""
    sample_growth: int = 4
    """A sample that is no guide is tried again with so many times as many rows, while they are fewer than half."""
    quadratic_numbers: int = 100_000
    """Rows times weights from which on prior scales are searched over a quadratic in the likelihood's place, with a few
    fits in all: below, a fit takes a millisecond, and looking for several maxima of the evidence costs nothing."""
    single_mode_numbers: int = 1_000_000
    """Rows times weights from which on one mode is looked for where there may be several, as many rows leave one."""
    hessian_error: float = 2e-11
    """Relative, of the Hessian where a sampled search ends, beside that of the mode: covariances are off by it."""
    weights_for_one_hessian: int = 60
    """From so many weights on a pass with the Hessian costs more than the four gradients that make a second one
    unnecessary."""
    farthest: float = 0.01
    """Squared distance to the mode, in standard deviations, down to which a search by gradients goes in any case."""
    confirmed_numbers: int = 1_000_000
    """Rows times squared weights up to which the Hessian is formed once more at the mode itself: that takes no time."""

    def distances(self, nonlinearity: float, n_weights: int, tol: float) -> tuple[float, float]:
        """Squared distances to the mode at which gradients have done their part, and from which the last step is taken.

        Over a Newton step from δ² the Hessian changes by κδ of itself, and κ²(δ²)² is left: the last step may start
        where κδ is at most `hessian_error`, the last but one where κ²δ² is.
        """
        last = max(min(self.hessian_error**2 / nonlinearity, self.farthest), tol**2)
        before = min(self.hessian_error / nonlinearity, self.farthest)
        return (last if n_weights >= self.weights_for_one_hessian else max(before, last)), last


SEARCH_COSTS = SearchCosts()


@dataclass(frozen=True)
class ManyWeights:
    """From how many weights on a linear model is fitted without the matrix of all pairs of them, and how.

    Weights are columns plus intercept, times classes for the softmax.
    """

    largest_matrix: int = 5_000
    """Weights up to which matrices of all pairs are formed: 200 MB each, five of them in a fit, and a second or two for
    each Cholesky factor. The space of few rows has at most so many coordinates, too."""
    narrow: int = 1_000
    """Weights up to which the space of few rows is not looked for, however few: a factor takes milliseconds."""
    few_rows: float = 0.5
    """Rows for each weight of a class up to which their space is used below `largest_matrix`: at a half, a factor there
    takes an eighth of the time."""
    largest_basis: int = 200_000_000
    """Numbers in a basis of that space, rows times columns that occur in them: 1.6 GB."""
    mode_tol: float = 1e-4
    """Squared Newton decrement from which conjugate gradients take one more step, to a tenth of it or less, and end, if
    that is more than `tol`: the mode to three thousandths of a posterior standard deviation. Draws tell the posterior
    far less well."""
    probes: int = 12
    """Random vectors for the log determinant in the evidence, whose standard error is known to a fifth by so many."""
    draws: int = 400
    """Draws that stand for the posterior: by so many a standard deviation is known to four per cent, 1/√800, and a
    variance to seven."""
