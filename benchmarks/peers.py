"""The other packages, one small function each; imported when they are used.

A linear fit takes a problem and a tolerance and returns its weights, (d,) or for the softmax (K, d).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.problems import Array, Problem

MOST_ITERATIONS = 100_000  # the budget of seconds ends a search, not this
VARIANCE, LENGTH, BOUNDS = 4.0, 3.0, (1e-3, 1e3)  # of the kernel, in all packages

LinearFit = Callable[[Problem, float], Array]


def scikit_learn(solver: str, problem: Problem, tol: float) -> Array:
    from sklearn.linear_model import LogisticRegression

    X, y, link, scale = problem
    C = np.inf if scale is None else scale**2
    model = LogisticRegression(C=C, solver=solver, tol=tol, max_iter=MOST_ITERATIONS, fit_intercept=False).fit(X, y)
    return np.asarray(model.coef_ if link == "softmax" else model.coef_[0])


def scikit_learn_default(problem: Problem) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=problem.scale**2, fit_intercept=False).fit(problem.X, problem.y)


def glum_irls(problem: Problem, tol: float) -> Array:
    from glum import GeneralizedLinearRegressor

    X, y, _, scale = problem
    model = GeneralizedLinearRegressor(
        alpha=1 / (len(y) * scale**2),
        l1_ratio=0,
        fit_intercept=False,
        family="binomial",
        link="logit",
        solver="irls-ls",
        gradient_tol=tol,
        max_iter=MOST_ITERATIONS,
    )
    return np.ravel(model.fit(X, y.astype(float)).coef_)


def statsmodels_newton(problem: Problem, tol: float) -> Array:
    import statsmodels.api as sm

    return np.asarray(sm.Probit(problem.y, problem.X).fit(method="newton", tol=tol, maxiter=1000, disp=0).params)


def statsmodels_glm(problem: Problem, tol: float) -> Array:
    import statsmodels.api as sm

    family = sm.families.Binomial(sm.families.links.Probit())
    return np.asarray(sm.GLM(problem.y, problem.X, family=family).fit(tol=tol, maxiter=1000).params)


NEWTON: dict[str, LinearFit] = {
    "scikit-learn newton-cholesky": partial(scikit_learn, "newton-cholesky"),
    "glum irls": glum_irls,
    "scikit-learn newton-cg": partial(scikit_learn, "newton-cg"),
}
FIRST_ORDER: dict[str, LinearFit] = {"scikit-learn lbfgs": partial(scikit_learn, "lbfgs")}
LOGISTIC = NEWTON | FIRST_ORDER
SOFTMAX = {name: fit for name, fit in LOGISTIC.items() if "glum" not in name}
SPARSE = {name: fit for name, fit in LOGISTIC.items() if name in ("scikit-learn newton-cg", "scikit-learn lbfgs")}
PROBIT: dict[str, LinearFit] = {"statsmodels newton": statsmodels_newton, "statsmodels GLM": statsmodels_glm}


# --- Gaussian processes --------------------------------------------------------------------------------------------


def scikit_learn_gp(problem: Problem, *, learnt: bool) -> float:
    """The log evidence by Laplace's approximation."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(VARIANCE, BOUNDS) * RBF([LENGTH] * problem.X.shape[1], BOUNDS)
    model = GaussianProcessClassifier(kernel, optimizer="fmin_l_bfgs_b" if learnt else None)
    return float(model.fit(problem.X, problem.y).log_marginal_likelihood_value_)


def gpy_ep(problem: Problem, *, parallel: bool) -> float:
    """The log evidence by expectation propagation with the probit, one site after the other or all at once."""
    import GPy
    import paramz

    np.random.seed(0)  # noqa: NPY002, TID251 - GPy visits sites in an order from the global generator
    d = problem.X.shape[1]
    kernel = GPy.kern.RBF(d, variance=VARIANCE, lengthscale=np.full(d, LENGTH), ARD=True)
    ep = GPy.inference.latent_function_inference.EP(ep_mode="nested", parallel_updates=parallel)
    labels = paramz.ObsAr(problem.y.astype(float)[:, None])
    return float(np.ravel(ep.inference(kernel, problem.X, GPy.likelihoods.Bernoulli(), labels)[1])[0])


def gpytorch_svgp(problem: Problem, epochs: int, points: int = 500, batch: int = 1024) -> Callable[[Array], Array]:
    """A sparse variational Gaussian process; what is returned gives probabilities of class 1.

    Adam with steps from 0.05 down to 0 along half a cosine, in single precision, points and kernel learnt: the best of
    what was tried on 50,000 rows (a constant step of 0.01, as in its examples, and natural gradients scored less).
    """
    import gpytorch
    import torch

    class Sparse(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, at: Any) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(at))
            super().__init__(gpytorch.variational.VariationalStrategy(self, at, q, learn_inducing_locations=True))
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=at.shape[1]))
            self.kernel.outputscale, self.kernel.base_kernel.lengthscale = VARIANCE, LENGTH

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    torch.manual_seed(0)
    X, y = torch.tensor(problem.X, dtype=torch.float32), torch.tensor(problem.y, dtype=torch.float32)
    model, likelihood = Sparse(X[torch.randperm(len(X))[:points]].clone()), gpytorch.likelihoods.BernoulliLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    steps = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(X) // batch))
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(batch):
            optimizer.zero_grad()
            (-bound(model(X[rows]), y[rows])).backward()
            optimizer.step()
            steps.step()
    model.eval(), likelihood.eval()

    def probabilities(X_new: Array) -> Array:
        with torch.no_grad():
            blocks = torch.tensor(X_new, dtype=torch.float32).split(batch)
            return np.concatenate([likelihood(model(block)).mean.numpy() for block in blocks]).astype(float)

    return probabilities


# --- Markov chains -------------------------------------------------------------------------------------------------


def numpyro_nuts(problem: Problem, draws: int = 1_000, chains: int = 4) -> Callable[[], Array]:
    """A sampler of the weights, in double precision. Its first run compiles."""
    import jax
    import numpyro
    from numpyro.distributions import Bernoulli, Normal
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)

    def model(X: Any, y: Any) -> None:
        w = numpyro.sample("w", Normal(0.0, problem.scale).expand([X.shape[1]]).to_event(1))
        numpyro.sample("y", Bernoulli(logits=X @ w), obs=y)

    mcmc = MCMC(
        NUTS(model),
        num_warmup=draws,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run() -> Array:
        mcmc.run(jax.random.PRNGKey(0), problem.X, problem.y)
        return np.asarray(mcmc.get_samples()["w"])

    return run
