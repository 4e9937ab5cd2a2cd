"""Pure functions of arrays; this room knows no statistics vocabulary."""
