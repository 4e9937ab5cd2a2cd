"""Tuning numbers that several files share, in records: functions take one as an argument, and tests pass another."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ManyWeights:
    """From how many weights on a linear model is fitted without the matrix of all pairs of them, and how.

    Weights are columns plus intercept, times classes for the softmax.

    Parameters
    ----------
    largest_matrix : int
        Weights up to which matrices of all pairs are formed: 200 MB each, five of them in a fit, and a second or two
        for each Cholesky factor. The row space has at most so many coordinates, too.
    narrow : int
        Weights up to which the row space is not looked for, however few rows there are: a factor takes milliseconds.
    few_rows : float
        Rows for each column up to which the row space is used below `largest_matrix`: at a half, a factor there takes
        an eighth of the time.
    largest_basis : int
        Numbers in a basis of the row space, 1.6 GB: rows times columns that occur in them.
    mode_tol : float
        Squared Newton decrement at which conjugate-gradient steps end, if that is more than `tol`: the mode to three
        thousandths of a posterior standard deviation. Each digit more takes as long as all before it.
    probes : int
        Random vectors for the log determinant in the evidence: its standard error is known to a fifth by so many.
    draws : int
        Draws that stand for the posterior: a standard deviation is known to 1/√(2·400), four per cent, by so many, and
        a variance to seven.
    """

    largest_matrix: int = 5_000
    narrow: int = 1_000
    few_rows: float = 0.5
    largest_basis: int = 200_000_000
    mode_tol: float = 1e-5
    probes: int = 12
    draws: int = 400
