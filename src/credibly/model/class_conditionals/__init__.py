"""p(x | c): exponential families with conjugate priors, whose learning is a sum over rows."""
