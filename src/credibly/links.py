"""Links of generalised linear models, named by the link: the probit is Φ⁻¹.

Examples
--------
Five links of a probability, and the probability that a score of one stands for:

>>> import numpy as np
>>> for link in [Logit(), Probit(), Cloglog(), Loglog(), Cauchit()]:
...     print(f"{link.name:8s}{float(link.mean(np.array(1.0))):.3f}")
logit   0.731
probit  0.841
cloglog 0.934
loglog  0.692
cauchit 0.750

One of your own is a subclass of `Link` with three methods; `BayesianGLM(family, link)` takes it:

>>> class Square(Link):
...     def link(self, mu):
...         return np.square(mu)
...
...     def mean(self, f):
...         return np.sqrt(f)
...
...     def derivatives(self, f):
...         return tuple(factor * f**power for factor, power in [(0.5, -0.5), (-0.25, -1.5), (0.375, -2.5)])
>>> float(Square().log_mean(np.array(np.e**2)))
1.0
"""

from credibly.model.likelihoods.links import (
    Cauchit,
    Cloglog,
    Identity,
    Link,
    Log,
    Logit,
    Loglog,
    Power,
    Probit,
)

__all__ = ["Cauchit", "Cloglog", "Identity", "Link", "Log", "Logit", "Loglog", "Power", "Probit"]
