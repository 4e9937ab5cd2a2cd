"""How far the first Newton step should go where the quadratic is known to fall short."""

import math

LONGEST = 2.0  # times a Newton step: beyond, scores are too far from normal


def stretch_from_zero(log_likelihood: float, decrement: float) -> float:
    r"""How many times as long a Newton step of logistic weights from zero should be.

    It falls short, as probabilities saturate on the way. Where the scores f that it leads to are about normal with
    variance s², the loss is least along it at the t with

    .. math:: t\,\mathrm E\,\sigma'(t f) = \sigma'(0) = 1/4, \qquad
              \mathrm E\,\sigma'(t f) \approx \tfrac14 (1 + \pi t^2 s^2 / 8)^{-1/2}

    (Stein's lemma, and PRML eq. 4.153), which is :math:`t = (1 - \pi s^2/8)^{-1/2}`. At zero n rows have the log
    likelihood -n log 2 and the curvature 1/4 each, so that s² = 4δ²/n.

    Parameters
    ----------
    log_likelihood : float
        At weights of zero.
    decrement : float
        δ² there.

    Examples
    --------
    >>> round(stretch_from_zero(-1000 * math.log(2), 250.0), 3)  # s² = 1
    1.283
    >>> stretch_from_zero(-1000 * math.log(2), 1000.0)  # all but separated
    2.0
    """
    rows = -log_likelihood / math.log(2)
    if not rows > 0:  # offsets that fit every label leave nothing to be said
        return 1.0
    return 1 / math.sqrt(max(1 - math.pi / 2 * decrement / rows, LONGEST**-2))
