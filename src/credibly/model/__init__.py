"""What we believe: the nouns of Bayes' rule."""
