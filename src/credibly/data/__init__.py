"""Where rows live. A model may ask its data two things: `sum` (learning) and `map` (prediction)."""
