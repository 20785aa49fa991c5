"""Each engine's flags, and how its command is recognised: data only, one module an engine.

Every module has ``ENGINE`` (an EngineSyntax) and ``FLAGS`` (a FlagMap in rendering order). Where the head of a rendered command
holds a flag already (``-tp`` of vLLM comes first), the map says so with ``leading``.
"""
