"""Rows, wherever they are. A model may ask its data two things: `sum` (learning) and `map` (prediction).

Read in this order: rows, memory, columns, threads; then the other sources, parquet (with categories) and dask; then
files, table_files, archive and checkpoint, which write, and progress.
"""
