"""Models linear in their columns: from data and a specification to one frozen fit."""
