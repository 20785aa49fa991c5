"""Records for whoever has to find out what went wrong, on this machine or from afar."""
