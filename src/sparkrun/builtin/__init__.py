"""Recipes that ship inside the package, as the registry ``@builtin``."""
