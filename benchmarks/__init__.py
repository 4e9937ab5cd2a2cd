"""Us and the peers in one process tree: ratios, not times.

`python -m benchmarks quick` (ten minutes) and `python -m benchmarks full` run the harness: `cases` says what is
compared and what is asked, `problems` makes the data, `peers` has one small adapter for each package, `harness` runs
them in turns, `tables` and `plots` write docs/benchmarks.md. The other scripts measure accuracy, or what a certificate
costs; each says how it is run.
"""
