"""Speed beside other packages (`make bench`), and honesty of the defaults (`make honesty`, in `benchmarks.honesty`).

`speed` has the cases and goals, `problems` makes the tables, `peers` has one small function for each other package,
`timing` runs us and them in turns, `page` writes docs/benchmarks.md.
"""
