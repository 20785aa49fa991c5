"""Every long flag that an engine is known to accept, one file an engine: what the list is of, then the names.

Facts for "did you mean": a flag that is missing here may belong to another version or a fork, so nothing is refused for it.
"""
