"""Links of generalised linear models, named by the link: the probit is Φ⁻¹."""

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
