"""Us and the peers in one process tree: ratios, not times."""
