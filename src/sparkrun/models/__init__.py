"""Model files on their way to hosts."""
