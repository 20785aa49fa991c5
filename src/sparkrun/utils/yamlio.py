"""YAML in and out through libyaml, with texts of several lines written as block literals."""

from __future__ import annotations

from typing import Any

import yaml

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: type = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """The safe dumper; a subclass so that the block style below stays ours."""


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


ODD_VALUES = (ValueError, LookupError, AttributeError, TypeError)
"""What PyYAML raises for a value that is not what its form or its tag says: ``2024-13-45``, ``!!int ''``, ``!!bool x``."""


def load_yaml(text: str) -> object:
    """The document in ``text``; raises ``yaml.YAMLError``, and nothing else whatever the text is."""
    try:
        return yaml.load(text, Loader=_Loader)
    except ODD_VALUES as error:
        raise yaml.YAMLError(f"a value is not what its form says ({error})") from error
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None


def dump_yaml(value: object) -> str:
    """``value`` as YAML, keys in their own order, wide lines."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096))
