"""Every test has a host of its own; what it started is ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripts_host.scratch_host import ScratchHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ScratchHost]:
    scratch = ScratchHost(tmp_path / "host")
    yield scratch
    scratch.close()
