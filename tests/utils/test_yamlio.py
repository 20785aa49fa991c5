"""YAML from elsewhere: whatever is wrong with it is an error of YAML."""

from __future__ import annotations

import pytest
import yaml

from sparkrun.utils.yamlio import load_yaml


@pytest.mark.parametrize(
    "text",
    [
        "x: 2024-13-45",
        "x: !!float y",
        "x: !!int ''",
        "x: !!bool y",
        "x: !!timestamp y",
        "x: " + "[" * 2000 + "]" * 2000,
        "x: [",
        "x: \0",
        "? [a]\n: b",
    ],
)
def test_whatever_cannot_be_read_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
