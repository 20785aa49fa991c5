"""Whether a YAML file is a recipe, cheaply, for scans of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LIKELY_KEYS = re.compile(r"""^["']?(?:model|include)["']?[ \t]*:""", re.MULTILINE)


def is_recipe(text: str) -> bool:
    """Whether a text is a recipe as far as a listing is concerned: a model and an image, or an include. Broken YAML is none."""
    if not _LIKELY_KEYS.search(text):
        return False
    import yaml  # loads slowly, and few files are sniffed twice

    from sparkrun.utils.yamlio import load_yaml

    try:
        return is_recipe_mapping(load_yaml(text))
    except yaml.YAMLError:
        return False


def is_recipe_mapping(value: object) -> bool:
    """The same for a value that is read already. The runtime can always be told, so it is not asked for."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("include"), str):
        return True
    return isinstance(value.get("model"), str) and bool(value.get("container") or value.get("containers"))
