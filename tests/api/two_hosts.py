"""Two hosts in one network that have a model."""

from __future__ import annotations

from pathlib import Path

from sparkrun.testing import FakeCluster

__all__ = ["two_hosts"]


def two_hosts(root: Path, recipe: str) -> FakeCluster:
    """Hosts ``a`` and ``b`` with a GPU each and the model ``org/m``; ``recipe`` is the text of ``r.yaml`` in ``root``."""
    made = FakeCluster("a", "b", root=root)
    made.join()
    for host in made.by_name.values():
        host.gpus = 1
        host.models["org/m"] = "/models/m"
    (root / "r.yaml").write_text(recipe)
    return made
