"""What is compared with whom, and what is asked: the table of the project's own goals."""

from benchmarks.harness import Case
from benchmarks.peers import NEWTON
from benchmarks.problems import GP_COLUMNS, Spec
from benchmarks.rules import Adds, BetterAndFaster, Faster, Memory, Near, Rule, SquareArrays, WithinPasses

NEWTONS = ("scikit_learn.newton-cholesky", "glum_.irls", "scikit_learn.newton-cg")
GRADIENTS = ("scikit_learn.lbfgs", "glum_.lbfgs", "dask_ml_.lbfgs")
STOCHASTIC = ("scikit_learn.sag", "scikit_learn.saga")
EVERY = (*NEWTONS, *GRADIENTS, "scikit_learn.liblinear", "statsmodels_.ridge")
FEW = ("scikit_learn.newton-cholesky", "glum_.irls", "scikit_learn.lbfgs")
PASSES = ("limits.gradient", "limits.hessian")
AS_EXACT = ("ours.logistic_as_exact",)
WORDS = {
    "well": "",
    "ill": ", ill-conditioned",
    "separable": ", near-separable",
    "ill-separable": ", ill-conditioned and near-separable",
}
SCALES = {"well": 1.0, "ill": 10.0, "separable": 10.0, "ill-separable": 10.0}


def short(n: int) -> str:
    """1e5 for 100,000 and 2e5 for 200,000; smaller numbers as they are."""
    return f"{n:.0e}".replace("e+0", "e") if n >= 1_000 and n == float(f"{n:.0e}") else str(n)


def logistic(n: int, d: int, columns: str, rules: tuple[Rule, ...] = (), *, quick: bool = False) -> Case:
    many = n * d >= 10_000_000
    peers = (*NEWTONS, *GRADIENTS) if many else (*EVERY, *(STOCHASTIC if "separable" in columns else ()))
    return Case(
        name=f"logistic-{short(n)}x{d}-{columns}",
        title=f"logistic {n:,} × {d}{WORDS[columns]}",
        spec=Spec("logit", n, d, columns, scale=SCALES[columns]),
        ours="ours.logistic",
        peers=(*AS_EXACT, *peers),
        rules=(*rules, Memory()),
        limits=PASSES,
        quick=quick,
        quick_peers=(*(AS_EXACT if rules else ()), *FEW),  # where nothing is asked of the time, one is enough
    )


NEWTON_PEER = "the fastest Newton peer"
DENSE = [
    logistic(1_000, 30, "well", quick=True),
    logistic(10_000, 10, "well", (Faster(1.5),), quick=True),
    logistic(10_000, 10, "ill"),
    logistic(10_000, 10, "separable"),
    logistic(10_000, 30, "well", quick=True),
    logistic(100_000, 10, "well"),
    logistic(100_000, 30, "well", (Faster(2),), quick=True),
    logistic(100_000, 30, "ill"),
    logistic(
        100_000,
        30,
        "separable",
        (Faster(4, (NEWTON,), NEWTON_PEER),),
        quick=True,
    ),
    logistic(
        100_000,
        30,
        "ill-separable",
        (Faster(4, (NEWTON,), NEWTON_PEER),),
        quick=True,
    ),
    logistic(100_000, 100, "well"),
    logistic(
        100_000,
        100,
        "ill",
        (Faster(3, (NEWTON,), NEWTON_PEER),),
        quick=True,
    ),
    logistic(100_000, 300, "well"),
    logistic(1_000_000, 30, "well", (Faster(3),), quick=True),
    logistic(1_000_000, 30, "ill"),
    logistic(1_000_000, 30, "separable"),
    logistic(1_000_000, 100, "well", (Faster(1.1),)),
    logistic(1_000_000, 100, "ill"),
    logistic(1_000_000, 100, "separable"),
    logistic(200_000, 500, "well", (WithinPasses(1.5),)),
    logistic(200_000, 500, "ill"),
    logistic(200_000, 500, "separable"),
]

SMALL = Case(
    name="logistic-200x5",
    title="logistic 200 × 5, against scikit-learn as it comes",
    spec=Spec("logit", 200, 5),
    ours="ours.logistic",
    peers=("scikit_learn.default",),
    rules=(Faster(1, who="scikit-learn's default"),),
    accuracy=1e-2,  # its default does not reach 1e-8, and is not asked to
    quick=True,
)

SOFTMAX_PEERS = ("scikit_learn.newton-cholesky", "scikit_learn.lbfgs", "scikit_learn.newton-cg")
SOFTMAX = [
    Case(
        name="softmax-1e5x30x5",
        title="softmax 100,000 × 30, 5 classes",
        spec=Spec("softmax", 100_000, 30, classes=5),
        ours="ours.logistic",
        peers=(*AS_EXACT, *SOFTMAX_PEERS, *STOCHASTIC),
        rules=(Faster(1.5), Memory()),
        limits=PASSES,
        quick=True,
        quick_peers=(*AS_EXACT, *SOFTMAX_PEERS[:2]),
    ),
    Case(
        name="softmax-2e4x784x10",
        title="softmax 20,000 × 784, 10 classes",
        spec=Spec("softmax", 20_000, 784, classes=10, scale=0.3),
        ours="ours.logistic",
        peers=("scikit_learn.lbfgs", "scikit_learn.newton-cg"),
        limits=PASSES,
    ),
]

SPARSE = Case(
    name="sparse-1e5x5e4",
    title="logistic, CSR 100,000 × 50,000, 50 ones a row",
    spec=Spec("logit", 100_000, 50_000, "sparse"),
    ours="ours.logistic",
    peers=("scikit_learn.lbfgs", "scikit_learn.newton-cg", "scikit_learn.liblinear"),
    rules=(Faster(0.8), Memory()),
    limits=PASSES[:1],
    quick=True,
    quick_peers=("scikit_learn.newton-cg",),
)


def maximum_likelihood(kind: str, ours: str, peers: tuple[str, ...], rules: tuple[Rule, ...], *, quick: bool) -> Case:
    return Case(
        name=f"{kind}-1e5x30",
        title=f"{kind} 100,000 × 30, maximum likelihood",
        spec=Spec(kind, 100_000, 30, scale=None),
        ours=ours,
        peers=peers,
        rules=rules,
        limits=PASSES,
        quick=quick,
    )


STATSMODELS = ("statsmodels_.glm", "statsmodels_.newton")
LIKELIHOODS = [
    maximum_likelihood("probit", "ours.probit", STATSMODELS, (Faster(8, who="statsmodels"),), quick=True),
    maximum_likelihood(
        "poisson",
        "ours.glm",
        (*STATSMODELS, "glum_.irls", "scikit_learn.poisson_newton", "scikit_learn.poisson_lbfgs"),
        (Faster(1),),
        quick=False,
    ),
    maximum_likelihood("gamma", "ours.glm", ("statsmodels_.glm", "glum_.irls"), (), quick=False),
]


def generative(model: str, title: str, peers: tuple[str, ...], rules: tuple[Rule, ...], *, quick: bool = False) -> Case:
    return Case(
        name=f"generative-{model.replace('_', '-')}",
        title=f"{title}, 1,000,000 × 50",
        spec=Spec("generative", 1_000_000, 50),
        ours=f"ours.{model}",
        peers=peers,
        rules=(*rules, Near(0.01)),
        reference=peers[0],
        quick=quick,
    )


LDA, QDA, BAYES = "linear discriminant", "quadratic discriminant", "naive Bayes"
AVERAGED, ESTIMATED = "prediction, averaged", "prediction, parameters estimated"
GENERATIVE = [
    generative("lda", LDA, ("scikit_learn.lda", "scikit_learn.lda_lsqr"), (Faster(1),), quick=True),
    generative("lda_predict", f"{LDA}, {AVERAGED}", ("scikit_learn.lda_predict",), ()),
    generative("lda_plugin_predict", f"{LDA}, {ESTIMATED}", ("scikit_learn.lda_predict",), ()),
    generative("qda", QDA, ("scikit_learn.qda",), (Faster(1),)),
    generative("qda_predict", f"{QDA}, {AVERAGED}", ("scikit_learn.qda_predict",), (Faster(2),)),
    generative("qda_plugin_predict", f"{QDA}, {ESTIMATED}", ("scikit_learn.qda_predict",), (Faster(2),)),
    generative("naive_bayes", BAYES, ("scikit_learn.naive_bayes",), (Faster(1),), quick=True),
    generative("naive_bayes_predict", f"{BAYES}, {AVERAGED}", ("scikit_learn.naive_bayes_predict",), (Faster(2),)),
    generative(
        "naive_bayes_plugin_predict", f"{BAYES}, {ESTIMATED}", ("scikit_learn.naive_bayes_predict",), (Faster(2),)
    ),
]


def gaussian_process(
    n: int, way: str, title: str, peers: tuple[str, ...], goal: float | None, *, quick: bool = False
) -> Case:
    return Case(
        name=f"gp-{way}-{n}",
        title=f"Gaussian process, {title}, n = {n:,}",
        spec=Spec("gp", n, GP_COLUMNS),
        ours=f"ours.gp_{way}",
        peers=peers,
        rules=(*(() if goal is None else (Faster(goal),)), *((SquareArrays(6),) if n >= 2_000 else ())),
        accuracy=1e-4 if way == "optimised" else 1e-6,  # of the log evidence; both stop when it hardly rises
        quick=quick,
    )


FIXED, LEARNT, PROPAGATION = "Laplace, kernel given", "Laplace, kernel learnt", "EP with the probit, kernel given"
PROCESSES = [
    *(
        gaussian_process(n, "laplace", FIXED, ("scikit_learn.gp_laplace",), 3 if n == 1_000 else None, quick=n == 1_000)
        for n in (500, 1_000, 2_000, 4_000)
    ),
    *(
        gaussian_process(n, "optimised", LEARNT, ("scikit_learn.gp_optimised",), 5 if n == 1_000 else None)
        for n in (500, 1_000, 2_000)
    ),
    *(
        gaussian_process(n, "ep", PROPAGATION, ("gpy.ep", "gpy.ep_parallel"), 10 if n == 1_000 else None)
        for n in (500, 1_000)
    ),
    *(
        Case(
            name=f"gp-{way.replace('_', '-')}-500",
            title=f"Gaussian process, 5 classes, softmax against one-vs-rest, kernel {kernel}, n = 500",
            spec=Spec("gp-classes", 500, GP_COLUMNS, classes=5, n_test=2_000),
            ours=f"ours.gp_{way}",
            peers=(f"scikit_learn.gp_{way}",),
            rules=(BetterAndFaster(1),),
            accuracy=float("inf"),  # two models: judged by labels that they did not see
        )
        for way, kernel in (("classes", "given"), ("classes_optimised", "learnt"))
    ),
    *(
        Case(
            name=f"gp-inducing-{n}",
            title=f"Gaussian process, 500 inducing points, n = {n:,}",
            spec=Spec("gp", n, GP_COLUMNS, n_test=10_000),
            ours="ours.gp_inducing",
            peers=tuple(f"gpytorch_.svgp_{epochs}" for epochs in all_epochs),
            rules=(BetterAndFaster(10),),
            accuracy=float("inf"),
            turns=n < 50_000,  # there peers take minutes
            quick=n == 5_000,
            quick_peers=("gpytorch_.svgp_30",),
        )
        for n, all_epochs in ((5_000, (30, 100)), (50_000, (5, 15, 30)))
    ),
]

SAMPLING = Case(
    name="nuts-768x8",
    title="posterior of a logistic model, 768 × 8, against 4 × 1,000 draws of NUTS",
    spec=Spec("logit", 768, 8, scale=2.5),
    ours="ours.logistic_predictive",
    peers=("numpyro_.vectorized", "numpyro_.sequential"),
    rules=(Faster(1_000, who="NUTS"), Near(0.01)),
    reference="numpyro_.vectorized",
    quick=True,
    quick_peers=("numpyro_.vectorized",),
)

IMPORT = Case(
    name="import",
    title="importing a model, on top of scikit-learn's linear models",
    spec=Spec("logit", 10, 1),
    ours="importing.ours",
    peers=("importing.peer",),
    rules=(Adds(0.30),),
    quick=True,
)

CASES = [*DENSE, SMALL, *SOFTMAX, SPARSE, *LIKELIHOODS, *GENERATIVE, *PROCESSES, SAMPLING, IMPORT]
NAMES = [case.name for case in CASES]


def chosen(mode: str, only: tuple[str, ...] = ()) -> list[Case]:
    """Those of a mode; with `only`, those whose name holds one of these words, whatever the mode."""
    if only:
        return [case for case in CASES if any(word in case.name for word in only)]
    return [case for case in CASES if mode == "full" or case.quick]
