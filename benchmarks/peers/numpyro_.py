"""NumPyro: Hamiltonian Monte Carlo (NUTS), 4 chains of 1,000 draws after 1,000 for warming up.

Compiled beforehand: the first run is not timed. Double precision.
"""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from scipy.special import expit

from benchmarks.peers import OTHER, Method
from benchmarks.problems import Problem

jax.config.update("jax_enable_x64", True)
numpyro.set_host_device_count(2)
CHAINS, DRAWS = 4, 1_000


def logistic(X: Any, scale: float, y: Any = None) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, scale).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=y)


def sampler(chain_method: str) -> MCMC:
    return MCMC(
        NUTS(logistic),
        num_warmup=DRAWS,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method=chain_method,
        progress_bar=False,
    )


def draw(mcmc: MCMC, problem: Problem) -> Any:
    mcmc.run(jax.random.PRNGKey(0), problem.X, problem.spec.scale, problem.y)
    return np.asarray(mcmc.get_samples()["w"])


def probabilities(w: Any, problem: Problem) -> Any:
    return expit(problem.X @ w.T).mean(axis=1)


def nuts(chain_method: str) -> Method:
    def compiled(problem: Problem) -> MCMC:
        mcmc: MCMC = problem.keep(f"NUTS {chain_method}", lambda: sampler(chain_method))
        problem.keep(f"NUTS {chain_method}, first run", lambda: draw(mcmc, problem))
        return mcmc

    def fit(problem: Problem, tolerance: float) -> Any:
        return draw(compiled(problem), problem)

    label = f"NumPyro NUTS, {chain_method} chains"
    return Method(label, OTHER, fit, probabilities, threads=(None,), prepare=compiled)


METHODS = {"vectorized": nuts("vectorized"), "sequential": nuts("sequential")}
