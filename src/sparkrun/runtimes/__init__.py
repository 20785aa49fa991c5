"""What each engine needs."""
