"""How far an approximation can be trusted: importance weights by the posterior itself."""
