"""Rows, wherever they are. A model may ask its data two things: `sum` (learning) and `map` (prediction)."""
