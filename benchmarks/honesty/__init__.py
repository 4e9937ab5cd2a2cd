"""Held-out log loss of the defaults on some fifty real data sets, and the distance of each inference to exact.

`make honesty` runs what is not yet known and writes docs/honesty.md. Read on in `data` (the sets), `models` (who is
compared with whom), `battery` (five folds, the cache of results), `exact` (long Hamiltonian chains), `page`.
"""
