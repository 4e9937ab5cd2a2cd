"""Tuning numbers that several files share, in records with a reason for each; functions take them as arguments."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the blocks in which arrays are worked on: small enough for the caches of a core, where that matters."""

    table_numbers: int = 400_000
    """Numbers in a block of a table: 3 MB. Smaller blocks fit the cache better, but threads then wait longer for the
    interpreter's lock."""
    table_rows: int = 12_000
    """Rows in a block, at most: its temporaries stay below 128 KB, from which on the allocator asks the system for
    fresh pages every time."""
    softmax_numbers: int = 200_000
    """Numbers in the products p_k z of one block (rows × classes × columns): 1.6 MB."""
    temporaries: int = 2**15
    """Numbers in each of the few intermediate arrays of an element-wise formula: 256 KB."""
    single_scores: int = 2**16
    """Scores at quasi-random points in a block, in single precision: 256 KB."""
    covariances: int = 2**20
    """Numbers in a block of covariances of scores: 8 MB. It need not fit the cache, because the eigenvectors take
    longer than reading it from memory."""


BLOCK_SIZES = BlockSizes()


@dataclass(frozen=True)
class CostModel:
    """Costs of the passes over n rows that a search for the mode of M weights makes, and what they are spent on.

    The unit is a gradient of one row by one weight, so that a pass with the gradient costs n M. Plain Newton takes
    `newton_passes` with the Hessian. A search that starts from the mode of a sample takes as many over the sample, and
    `gradient_passes` and one Hessian over all rows. The cheaper one is chosen, so that times are continuous in n. What
    is decided here moves times, and digits that nobody sees; never which mode is found.
    """

    newton_passes: int = 5
    """With the Hessian. Six or seven were measured, from zero on well-posed problems: with five a sample must pay."""
    gradient_passes: int = 3
    """At most, before the Hessian; one more confirms the last step. Each leaves a tenth of the distance to the mode, or
    less, so that three leave a hundredth of a standard deviation: two labels, counts or several classes, well or ill
    conditioned."""
    sampling: float = 1e6
    """Cost of drawing a sample and of all else that does not grow with the rows: some milliseconds."""

    rows_per_weight: int = 200
    """In the sample, for each weight: its Hessian is then within √(1/200) of that of all rows along most directions."""
    sample_shares: tuple[int, int] = (20, 5)
    """But at least one row in 20, as that costs little, and at most one in 5."""
    most_numbers: int = 10_000_000
    """In a sample, rows times columns, unless `fewest_per_weight` asks for more: 80 MB. It is held in memory, with Dask
    in that of the client."""
    fewest_per_weight: int = 20
    """Rows for each weight with which there is a sample at all: with fewer, its Hessian would be of no use."""
    rough_share: int = 8
    """The search over a sample starts with one row in so many of it."""
    sample_accuracy: float = 0.1
    """Share of the squared distance between the sample's mode and that of all rows to which the sample is searched."""
    sample_steps: int = 20
    """Newton steps over a sample: one that needs more is no guide."""
    least_loss: float = 3.0
    """Nats for each weight, counted in rows of the sample: with less, its classes are all but separated, and its mode
    is no guide. (Fitting a weight takes half a nat off the rows it is fitted to.)"""
    most_nonlinear: float = 0.1
    """Squared relative change of the Hessian between the sample's mode and that of all rows, κ²δ²: where it changes by
    more than a third, steps in its metric go astray, and a larger sample is tried."""
    sample_growth: int = 4
    """A sample that is no guide is tried again with so many times as many rows, while they are fewer than half of all,
    and not too many numbers."""

    newton_hessian_error: float = 5e-11
    """Relative, of the Hessian where Newton from a plain start ends, beside that of the mode: covariances are off by
    it. With few rows another Hessian costs nothing that anybody would notice."""
    hessian_error: float = 1e-4
    """The same where gradients came first, measured along the last step: standard deviations are right to about 5e-5 of
    themselves, a tenth of what Laplace itself is off by with so many rows, and less."""

    nonlinearity_margin: float = 2.0
    """By which κ² is taken to be larger than measured: a last step that is not confirmed costs a gradient."""

    quadratic_numbers: int = 100_000
    """Rows times weights from which on prior scales are searched over a quadratic in the likelihood's place, with a few
    fits in all: below, a fit takes a millisecond, and looking for several maxima of the evidence costs nothing."""
    single_mode_numbers: int = 1_000_000
    """Rows times weights from which on one mode is looked for where there may be several, as many rows leave one."""

    def hessian(self, n_weights: int) -> float:
        """Passes with the gradient alone that one with the Hessian costs (measured: 1.9 for 5 weights, 5 for 100)."""
        return 2.0 + n_weights / 25

    def sample_sizes(self, n_rows: int, n_weights: int, classes: int) -> list[int]:
        """Rows of a sample, and of larger ones in case it is no guide; none where plain Newton costs less."""
        weights = n_weights / min(2, classes)  # a row says something of two of the classes, or more
        least, most = (n_rows // share for share in self.sample_shares)
        fewest = self.fewest_rows(n_weights, classes)
        largest = max(fewest, self.most_numbers * classes // n_weights)
        size = int(min(max(self.rows_per_weight * weights, least), most, largest))
        saved = self.newton_passes - 1 - self.newton_passes * size / n_rows
        gain = n_rows * n_weights * (saved * self.hessian(n_weights) - self.gradient_passes - 1)
        sizes = []
        while gain >= self.sampling and fewest <= size <= min(largest, n_rows // 2):
            sizes.append(size)
            size *= self.sample_growth
        return sizes

    def fewest_rows(self, n_weights: int, classes: int) -> int:
        """Rows of a sample that is of use."""
        return -(-self.fewest_per_weight * n_weights // min(2, classes))

    def last_distance(self, nonlinearity: float, tol: float) -> float:
        """Squared distance to the mode from which a last step is tried, with the Hessian before it.

        Over a Newton step from δ² the Hessian changes by 2κδ of itself, and κ²(δ²)² is left of the squared distance. κ²
        is that of a sample, right to a factor of two where measured, but far too small for rows that are not in it: a
        gradient confirms the step.
        """
        nonlinearity *= self.nonlinearity_margin
        if nonlinearity == 0:
            return float("inf")
        return float(min((self.hessian_error / 2) ** 2 / nonlinearity, (tol / nonlinearity) ** 0.5))


COSTS = CostModel()


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


MANY_WEIGHTS = ManyWeights()


@dataclass(frozen=True)
class ImportanceSettings:
    """Draws of a certificate: how many, where from, and when they are enough."""

    first_pairs: int = 512
    """Doubled from here on."""
    most_pairs: int = 16_384
    """Unless more are asked for."""
    most_numbers: int = 20_000_000
    """In all draws together: 160 MB."""
    evidence_se: float = 0.015
    """Standard error of the log evidence, in nats, at which draws are enough,"""
    mean_se: float = 0.035
    """and that of every mean, in posterior standard deviations."""
    one_wide_in: int = 8
    """Pairs: few enough that q is hardly drawn from less."""
    wider: float = 3.0
    """Of those pairs: as far as a posterior that q has missed usually reaches."""
    hopeless: float = 1.0
    """k̂ that leaves no doubt even if it is not known well."""
    sure_pairs: int = 8_192
    """With so many, one above 0.7 leaves none either."""
    settled_pairs: int = 2_048
    """With fewer, a k̂ above one half may be chance."""
    small_tail: float = 0.05
    """Of the mean ratio: a tail that holds less cannot spoil it."""
    sobol_dimensions: int = 200
    """Beyond, a Sobol sequence of this length is no more even than random points,"""
    wide_sobol_dimensions: int = 20
    """and beyond this, wide points have next to no weight."""


IMPORTANCE = ImportanceSettings()
