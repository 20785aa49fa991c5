"""Serve LLMs from recipes on one or several accelerator hosts."""

__version__ = "0.5.0"
