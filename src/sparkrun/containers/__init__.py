"""Container images on their way to hosts."""
