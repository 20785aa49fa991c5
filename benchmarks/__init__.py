"""Benchmarks: ours beside a baseline, in the same run."""
