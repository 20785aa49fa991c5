"""How a recipe says how much of an accelerator's memory it takes: as a share, or, to some engines, in GiB."""

from __future__ import annotations

import re

from sparkrun.core.values import ConfigValue, number_of

SHARES = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction")
"""The keys that say it as a share."""

_IN_GIB = r"--gpu[-_]memory[-_]utilization[-_]gb(?:=|\s+)['\"]?\{%s\}"


def fraction_problem(key: str, value: ConfigValue, memory_gib: float) -> str | None:
    """What is wrong with a share of memory, given the memory of one accelerator; ``None`` when nothing is."""
    if isinstance(value, str) and "{" in value:
        return None
    share = number_of(value)
    if share is None:
        return f"{key} is a fraction, not {value!r}"
    if 0 < share <= 1:
        return None
    if 2 <= share <= memory_gib:
        return f"{key} is a fraction; {share:g} looks like GiB: {share:g} of {memory_gib:g} GiB is {share / memory_gib:.2f}"
    return f"{key} is a fraction between 0 and 1, not {share:g}"


def takes_gib(command: str | None, key: str) -> bool:
    """Whether the command hands the key to a flag that wants GiB (``--gpu-memory-utilization-gb``)."""
    return bool(command and re.search(_IN_GIB % re.escape(key), command))
