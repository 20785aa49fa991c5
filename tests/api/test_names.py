from __future__ import annotations

import subprocess
import sys

import pytest

from sparkrun import api


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(api, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = api.runn


def test_finding_recipes_loads_no_plugin() -> None:
    script = "import sys; from sparkrun import api; api.search_recipes; print('scitrera_app_framework' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_error_of_the_family_is_public() -> None:
    from sparkrun.core import errors

    family = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, errors.SparkrunError)}
    assert family <= set(api.__all__), family - set(api.__all__)
