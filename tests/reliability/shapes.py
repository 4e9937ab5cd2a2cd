"""Shapes of the table, and of the problem in it: few rows, many columns, classes without overlap."""

from collections.abc import Callable

import numpy as np

from reliability.cells import table
from reliability.estimators import Problem
from reliability.inputs import FITS, SAME, UNSETTLED, Answer, Change, Fits, Input, Refused

BINARY = ("BayesianProbitRegression", "NoisyThresholdClassifier")
ONE_CLASS = Refused("only one class.*at least two classes")
LEFT_OUT = Fits(warns="'x2' has one value only and is left out")
FITTED_EXACTLY = Fits(warns="targets vary far less")
SEVERAL: dict[str, Answer] = {
    "every": FITS,
    **dict.fromkeys(BINARY, Refused("3 classes were found.*For more than two use BayesianLogisticRegression")),
    "BayesianGLM, binomial": Refused("proportions between 0 and 1"),
    "… inducing points": Refused("joint softmax is not available.*inference='ep'"),
}


def take(rows: Callable[[Problem], np.ndarray]) -> Change:
    def change(p: Problem) -> Problem:
        kept = rows(p)
        return p.but(X=p.X[kept], y=p.y[kept], codes=p.codes[kept])

    return change


def one_of_each(p: Problem) -> np.ndarray:
    return np.unique(p.codes, return_index=True)[1]


def several(n_classes: int) -> dict[str, Answer]:
    words = f"{n_classes} classes were found.*For more than two use BayesianLogisticRegression"
    return {**SEVERAL, **dict.fromkeys(BINARY, Refused(words))}


def classes(n_classes: int, n: int, columns: int = 3) -> Change:
    """So many classes, asked about in five rows."""

    def change(p: Problem) -> Problem:
        X, codes = np.resize(p.X, (n, 3))[:, :columns], np.arange(n) % n_classes
        return p.but(X=X, y=codes, codes=codes, ask=X[:5])

    return change


def labelled(codes: Callable[[Problem], np.ndarray]) -> Change:
    def change(p: Problem) -> Problem:
        found = codes(p)
        return p.but(y=found, codes=found)

    return change


def imbalanced(p: Problem) -> Problem:
    X, codes = np.resize(p.X, (10_001, 3)), (np.arange(10_001) == 5_000).astype(int)
    return p.but(X=X, y=codes, codes=codes, ask=X[:5])


def last_column(value: float) -> Change:
    return table(lambda X: np.column_stack([X[:, :2], np.full(len(X), value)]))


def above_median(p: Problem) -> np.ndarray:
    return (p.X[:, 0] > np.median(p.X[:, 0])).astype(int)


def quasi_separated(p: Problem) -> Problem:
    """A column that tells the classes apart but for four rows, where it is zero."""
    X = p.X.copy()
    X[:, 0] = np.where(np.arange(len(X)) < 4, 0, 1 - 2 * (p.codes == 0))
    return p.but(X=np.abs(X) if (p.X >= 0).all() else X)


TABLE_SHAPES = [
    Input(
        "0 rows",
        "Refused.",
        take(lambda p: np.arange(0)),
        {"every": Refused("0 sample.*minimum of 1"), "average": Refused("no class.*at least two")},
    ),
    Input(
        "1 row",
        "Refused: one row is one class. The GLM of one target has no dispersion.",
        take(lambda p: np.arange(1)),
        {"every": ONE_CLASS, "glm": FITS, "BayesianGLM, gaussian": Refused("one sample no dispersion.*dispersion=")},
    ),
    Input(
        "one row of every class",
        "Fits: priors say what rows do not. Least squares, which fits two rows exactly, warns of no spread.",
        take(one_of_each),
        {
            "every": FITS,
            "… inducing points": Refused("inducing=6 points.*there are 2 rows"),
            **dict.fromkeys(("LeastSquaresClassifier", "BayesianGLM, gaussian"), FITTED_EXACTLY),
        },
    ),
    Input("1 column", "Fits.", table(lambda X: X[:, :1]), {"every": FITS}),
    Input("0 columns", "Refused.", table(lambda X: X[:, :0]), {"every": Refused("0 feature.*minimum of 1")}),
    Input(
        "1-D X",
        "Refused with how to reshape it.",
        table(lambda X: X[:, 0]),
        {"every": Refused("(?s)2D array.*reshape")},
    ),
    Input("3-D X", "Refused.", table(lambda X: X[:, :, None]), {"every": Refused("dim 3, while dim <= 2 is required")}),
    Input(
        "rows twice",
        "Fits; a row twice is a row of weight 2.",
        take(lambda p: np.repeat(np.arange(36), 2)),
        {"every": FITS},
    ),
    Input(
        "rows in another order",
        "The same model, to rounding.",
        lambda p: take(lambda p: np.random.default_rng(0).permutation(36))(p).but(ask=p.X),
        {"every": SAME, "… ADF": FITS, "… inducing points": FITS},
    ),
    Input(
        "all rows alike",
        "Fits: the classes' shares are what is left. A covariance in every class has nothing to be made of.",
        table(lambda X: np.repeat(X[:1], len(X), axis=0)),
        {
            "every": FITS,
            "QuadraticDiscriminant": Refused("X is constant: no column has more than one value"),
            **dict.fromkeys(
                ("GenerativeClassifier", "NaiveBayes", "NaiveBayes, gaussian"),
                Fits(warns="one value only and is left out"),
            ),
        },
    ),
    Input(
        "a constant column",
        "Harmless; densities with a variance of their own leave it out and say so.",
        last_column(0.5),
        {
            "every": FITS,
            "QuadraticDiscriminant": LEFT_OUT,
            "GenerativeClassifier": LEFT_OUT,
            "bayes": LEFT_OUT,
            "counts": Refused("holds counts"),
            "yes and no": Refused("holds 0 or 1"),
            "categories": FITS,
        },
    ),
    Input(
        "a column of zeros",
        "As a constant column; for counts a value like others.",
        last_column(0.0),
        {
            "every": FITS,
            **dict.fromkeys(("QuadraticDiscriminant", "GenerativeClassifier", "NaiveBayes, gaussian"), LEFT_OUT),
        },
    ),
    Input("a column twice", "Fits: priors share the weight.", table(lambda X: X[:, [0, 1, 2, 0]]), {"every": FITS}),
    Input(
        "a column that is the sum of two",
        "Fits. (Without a prior it is refused with the columns: CollinearityError.)",
        table(lambda X: np.column_stack([X, X[:, 0] + X[:, 1]])),
        {"every": FITS, "yes and no": Refused("holds 0 or 1")},
    ),
    Input(
        "one-hot columns, all of them",
        "As the sum of two.",
        table(lambda X: np.eye(3)[np.arange(len(X)) % 3]),
        {"every": FITS},
    ),
    Input(
        "8 rows, 30 columns",
        "Fits. (Without a prior it is refused.)",
        lambda p: p.but(X=np.resize(p.X, (8, 30)), y=p.codes[4:12].copy(), codes=p.codes[4:12]),
        {"every": FITS, "LeastSquaresClassifier": FITTED_EXACTLY},
    ),
    Input(
        "a column that starts at a million",
        "Fits: columns are centred before they are squared.",
        table(lambda X: X + np.array([0.0, 1e6, 0.0])),
        {"every": FITS, "NaiveBayes, bernoulli": Refused("holds 0 or 1")},
    ),
]

CLASSES = [
    Input("2 classes", "Fits.", classes(2, 20), {"every": FITS}),
    Input("3 classes", "Fits, but where a model is of two.", classes(3, 21), several(3)),
    Input("10 classes", "…", classes(10, 30), several(10), slow=("average",)),
    Input("100 classes", "…", classes(100, 100, columns=1), several(100), slow=("every",)),
    Input(
        "10,000 rows to 1",
        "Fits; the odds are as they are. An exact Gaussian process is refused beyond 10,000 rows.",
        imbalanced,
        {"every": FITS, "gp": Refused("10001 rows would take about.*max_n=10000"), "… inducing points": FITS},
        slow=("average",),
    ),
    Input(
        "a class of one row",
        "Fits.",
        labelled(lambda p: (np.arange(36) == 3).astype(int)),
        {"every": FITS},
    ),
    Input(
        "one class",
        "Refused with the class. A regression has none.",
        labelled(lambda p: np.zeros(36, dtype=int)),
        {
            "every": ONE_CLASS,
            "glm": FITS,
            "BayesianGLM, gaussian": Refused("targets that are all alike no dispersion"),
        },
    ),
    Input(
        "separated classes",
        "Finite, by the prior. (Without one: SeparationError with the columns.)",
        labelled(above_median),
        {"every": FITS},
    ),
    Input(
        "classes 1,000 apart",
        "Finite log-probabilities, far below what a probability can hold; a Normal prior, wide in such units, leaves "
        "softmax unsettled.",
        lambda p: p.but(X=p.X + 1000.0 * p.codes[:, None]),
        {
            "every": FITS,
            "yes and no": Refused("holds 0 or 1"),
            **dict.fromkeys(("LeastSquaresClassifier", "BayesianGLM, gaussian"), FITTED_EXACTLY),
            "… softmax": UNSETTLED,
        },
    ),
    Input("quasi-separated classes", "As separated.", quasi_separated, {"every": FITS}),
]
