"""scikit-learn skins: validate, assemble, delegate."""
