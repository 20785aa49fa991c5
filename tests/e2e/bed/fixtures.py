"""Test hosts for pytest. A module that uses them says `pytest_plugins = ["tests.e2e.bed.fixtures"]`.

    def test_something(bed: Bed) -> None: ...                                   # two hosts, cabled to each other

    @pytest.mark.parametrize("bed", [Options(count=4)], indirect=True)
    def test_something_with_four(bed: Bed) -> None: ...

Hosts stay up from test to test, and go down when other options are asked for or the session ends; between tests faults are healed and
containers removed, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.bed.bed import Bed, down, up
from tests.e2e.bed.machine import process
from tests.e2e.bed.needs import why_not
from tests.e2e.bed.plan import Options
from tests.e2e.bed.state import FOLDER


class Beds:
    """One bed at a time in each process of a test run."""

    def __init__(self) -> None:
        self._bed: Bed | None = None
        self._folder = FOLDER / os.environ.get("PYTEST_XDIST_WORKER", "")

    def get(self, options: Options) -> Bed:
        """The one that is up when it is as wanted, else a new one."""
        if self._bed is None or self._bed.options != options:
            self.end()
            self._bed = up(options, owner=process(os.getpid()), folder=self._folder)
        return self._bed

    def end(self) -> None:
        """Take down what is up."""
        if self._bed:
            down(self._folder)
        self._bed = None


@pytest.fixture(scope="session")
def _beds() -> Iterator[Beds]:
    if reason := why_not():
        pytest.skip(reason)
    beds = Beds()
    yield beds
    beds.end()


@pytest.fixture
def bed(request: pytest.FixtureRequest, _beds: Beds) -> Iterator[Bed]:
    """Hosts that are up, healthy, and run no container."""
    hosts = _beds.get(getattr(request, "param", Options()))
    yield hosts
    hosts.restore()
