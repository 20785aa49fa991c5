"""What a relay runs on one of its hosts, read back from the text that is sent."""

from __future__ import annotations

import shlex

from sparkrun.core.remote import ScriptCall
from sparkrun.scripts import SCRIPTS, whole_script


def sink_call(text: str, values: str) -> ScriptCall:
    """The call that a relay's script and a host's assignments stand for."""
    name = next(name for name in SCRIPTS if whole_script(name) == text)
    params: dict[str, str | tuple[str, ...]] = {}
    words = iter(shlex.split(values.partition("\n")[2]))
    for word in words:
        key, _equals, value = word.partition("=")
        params[key] = tuple(iter(lambda: next(words), ")")) if value == "(" else value
    return ScriptCall(name, params)
