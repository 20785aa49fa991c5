"""Helpers with no opinion."""
