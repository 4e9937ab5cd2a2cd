"""The distance of each inference to the exact posterior of logistic and softmax regression.

The model is fixed: columns standardised, weights N(0, scale²), intercepts N(0, 10²). The references are long chains
(NumPyro's NUTS, dense mass matrix, double precision), run once and kept as compressed files. Two scales: 2.5, and one
that was learnt, by EP for two classes and by our default for more; the file keeps it, so that every inference is
asked about the same posterior.

Notation
--------
w   weights, (d + 1,) for two classes; (K, d + 1) less their mean over classes for more: what the data can identify.
    An exchangeable Normal prior makes W = HᵀU with U of K − 1 rows, independent N(0, scale²), H orthonormal
    contrasts, so the chains run over U alone; along the mean over classes the posterior is the prior.
p   averaged probability of each training row and class, (n, K)
log Z   log evidence, by bridge sampling between the draws and the Gaussian of their moments (Meng and Wong 1996)
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import multivariate_normal
from sklearn.preprocessing import StandardScaler

import credibly
from benchmarks.honesty import battery, data

SETS = (
    "spector iris wine penguins glass pima ionosphere house_votes birthwt icu diabetes kyphosis newthyroid "
    "breast_cancer urine skulls crabs oils possum infert frogs leafshape saheart haberman nodal donner ecoli zoo"
).split()
SCALES = ("fixed", "learnt")
FIXED, INTERCEPT = 2.5, 10.0
RUNGS = ("laplace", "variational", "ep", "auto", "exact")
CHAINS, WARMUP, DRAWS = 4, 1_000, 5_000
REFERENCES = battery.CACHE / "references"
DISTANCES = battery.CACHE / "distances.jsonl"


class Reference(NamedTuple):
    scale: float  # of the prior
    mean: np.ndarray  # of w, class by class, intercept last
    sd: np.ndarray
    p: np.ndarray
    log_evidence: float
    log_evidence_se: float
    draws: int
    rhat: float  # the worst of the weights
    ess: float
    divergences: int


class Problem(NamedTuple):
    Phi: np.ndarray  # (n, d + 1), ones last
    y: np.ndarray
    classes: int
    sd: np.ndarray  # (d + 1,) of the prior

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, scale: float) -> "Problem":
        d = X.shape[1]
        return cls(np.c_[X, np.ones(len(y))], y, int(y.max()) + 1, np.r_[np.full(d, scale), INTERCEPT])

    @property
    def H(self) -> np.ndarray:
        """Free weights to scores: (K − 1, K) contrasts; two classes have one score, of class 1."""
        return np.array([[0.0, 1.0]]) if self.classes == 2 else helmert(self.classes)

    def weights(self, U: np.ndarray) -> np.ndarray:
        """Draws (size, K − 1, d + 1) of the free weights, as draws of w, one flat row each."""
        W = U if self.classes == 2 else np.einsum("jk,sjd->skd", self.H, U)
        return W.reshape(len(U), -1)

    def log_joint(self, U: np.ndarray) -> np.ndarray:
        """log p(y, U) for draws (size, K − 1, d + 1)."""
        log_prior = -0.5 * ((U / self.sd) ** 2 + np.log(2 * np.pi * self.sd**2)).sum(axis=(1, 2))
        rows = np.arange(len(self.y))
        values = [log_softmax(self.Phi @ u.T @ self.H, axis=1)[rows, self.y].sum() for u in U]
        return log_prior + np.array(values)


def bridge(log_joint: Any, draws: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """log Z and its standard error from chains (chains, size, M); one estimate a chain, the spread is the error."""
    chains, size, M = draws.shape
    half = size // 2
    estimates = []
    for c in range(chains):
        others = np.concatenate([draws[i, ::2] for i in range(chains) if i != c])
        q = multivariate_normal(others.mean(axis=0), np.cov(others.T).reshape(M, M))
        at_posterior, at_q = draws[c, ::2], q.rvs(size=half, random_state=rng).reshape(half, M)
        a = log_joint(at_posterior) - q.logpdf(at_posterior)  # log of the ratio p̃/q
        b = log_joint(at_q) - q.logpdf(at_q)
        log_z = float(np.median(a))
        for _ in range(1_000):  # the optimal bridge for equal numbers of draws
            new = logsumexp(b - np.logaddexp(b, log_z)) - logsumexp(-np.logaddexp(a, log_z))
            new -= np.log(len(b)) - np.log(len(a))
            if abs(new - log_z) < 1e-10:
                break
            log_z = float(new)
        estimates.append(log_z)
    return float(np.mean(estimates)), float(np.std(estimates, ddof=1) / np.sqrt(chains))


def nuts(problem: Problem) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    Phi, y, H = jnp.asarray(problem.Phi), jnp.asarray(problem.y), jnp.asarray(problem.H)
    shape = (problem.classes - 1, problem.Phi.shape[1])

    def model() -> None:
        Z = numpyro.sample("Z", dist.Normal(0.0, 1.0).expand(shape).to_event(2))
        scores = Phi @ (Z * problem.sd).T @ H
        numpyro.sample("y", dist.Categorical(logits=scores), obs=y)

    kernel = NUTS(model, dense_mass=True, target_accept_prob=0.9)
    mcmc = MCMC(
        kernel, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.PRNGKey(0), extra_fields=("diverging",))
    Z = mcmc.get_samples(group_by_chain=True)["Z"]
    table = summary(Z, group_by_chain=True)["Param:0"]
    return {
        "U": np.asarray(Z) * problem.sd,
        "rhat": float(np.max(table["r_hat"])),
        "ess": float(np.min(table["n_eff"])),
        "divergences": int(mcmc.get_extra_fields()["diverging"].sum()),
    }


def learnt_scale(X: np.ndarray, y: np.ndarray) -> float:
    two = y.max() == 1
    model = credibly.BayesianLogisticRegression(inference="ep") if two else credibly.BayesianLogisticRegression()
    return float(np.max(model.fit(X, y).prior_scale_))


def standardized(name: str) -> tuple[np.ndarray, np.ndarray]:
    found = data.load(name)
    return StandardScaler().fit_transform(found.X), found.y


def make_reference(name: str, scale: str) -> Reference:
    X, y = standardized(name)
    problem = Problem.of(X, y, FIXED if scale == "fixed" else learnt_scale(X, y))
    found = nuts(problem)
    chains = found["U"]  # (chains, draws, K − 1, d + 1)
    U = chains.reshape(-1, *chains.shape[2:])
    w = problem.weights(U)
    p = np.mean([softmax(problem.Phi @ u.T @ problem.H, axis=1) for u in U], axis=0)
    flat = chains.reshape(*chains.shape[:2], -1)

    def log_joint(draws: np.ndarray) -> np.ndarray:
        return problem.log_joint(draws.reshape(-1, *U.shape[1:]))

    log_evidence, se = bridge(log_joint, flat, np.random.default_rng(0))
    diagnostics = (len(U), found["rhat"], found["ess"], found["divergences"])
    return Reference(problem.sd[0], w.mean(axis=0), w.std(axis=0), p, log_evidence, se, *diagnostics)


def reference(name: str, scale: str) -> Reference:
    """The exact posterior, from its file or from long chains."""
    path = REFERENCES / f"{name}-{scale}.npz"
    if not path.exists():
        REFERENCES.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **make_reference(name, scale)._asdict())
    with np.load(path) as kept:
        return Reference(*(kept[field] if kept[field].ndim else kept[field].item() for field in Reference._fields))


def centred_moments(mean: np.ndarray, cov: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of weights less their mean over classes; two classes have one weight vector, as it is."""
    if classes > 2:
        C = np.kron(np.eye(classes) - 1 / classes, np.eye(len(mean) // classes))
        mean, cov = C @ mean, C @ cov @ C.T
    return mean, np.sqrt(np.diag(cov))


def distance(name: str, scale: str, rung: str) -> battery.Record:
    """How far the posterior of an inference is from exact: the worst weight, the worst row, the evidence."""
    exact = reference(name, scale)
    X, y = standardized(name)
    prior = credibly.Normal(scale=exact.scale, intercept_scale=INTERCEPT)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = credibly.BayesianLogisticRegression(prior=prior, inference=rung).fit(X, y)
    mean, sd = centred_moments(model.posterior_.mean, model.posterior_.cov, len(model.classes_))
    ratio = sd / exact.sd
    return {
        "rung": str(getattr(model, "rung_", rung) or rung),
        "shift": float(np.max(np.abs(mean - exact.mean) / exact.sd)),
        "ratio": float(np.max(np.maximum(ratio, 1 / ratio))),
        "probability": float(np.max(np.abs(model.predict_proba(X) - exact.p))),
        "evidence": float(model.log_evidence_ - exact.log_evidence),
        "evidence_se": exact.log_evidence_se,
        "warnings": sorted({warning.category.__name__ for warning in caught}),
    }


def measure(sets: tuple[str, ...] = (), references_only: bool = False) -> None:
    """References that are missing, then the distances that are not known at this version of the library."""
    from tqdm import tqdm

    chosen = [name for name in SETS if name in data.LOADERS and (not sets or name in sets)]
    version = battery.source_version()
    done = {(r["set"], r["scale"], r["inference"], r["version"]) for r in battery.known(DISTANCES)}
    for name, scale in tqdm([(name, scale) for name in chosen for scale in SCALES], desc="distance to exact"):
        reference(name, scale)
        for rung in () if references_only else RUNGS:
            if (name, scale, rung, version) in done:
                continue
            record = {"set": name, "scale": scale, "inference": rung, "version": version}
            try:
                record |= distance(name, scale, rung)
            except Exception as error:  # a rung that does not exist, or refuses, is a line of the table
                record["error"] = f"{type(error).__name__}: {str(error)[:200]}"
            battery.remember(record, DISTANCES)
