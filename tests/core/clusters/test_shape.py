"""A cluster as the JSON of every command."""

from __future__ import annotations

from sparkrun.core.cluster_manager import ClusterEdit, ClusterManager, cluster_json, detailed_json


def test_keys_that_are_not_set_are_left_out(manager: ClusterManager) -> None:
    values = {"hosts": ["a"], "description": "test lab", "user": "dgx", "transfer_mode": "push", "scheduler": "occupancy-sparse"}
    cluster = manager.create("lab", ClusterEdit(values={**values})).cluster

    assert cluster_json(cluster, default=True) == {"name": "lab", **values, "default": True}


def test_secrets_are_masked_and_references_shown(manager: ClusterManager) -> None:
    env = {"HF_TOKEN": "hf_x", "GH_TOKEN": "${GH}", "AB_TOKEN": "x${GH}", "A": "1"}
    cluster = manager.create("lab", ClusterEdit(values={"hosts": ["a"]}, merge={"env": {**env}})).cluster

    assert cluster_json(cluster, default=False)["env"] == {"HF_TOKEN": "***", "GH_TOKEN": "${GH}", "AB_TOKEN": "***", "A": "1"}


def test_details_tell_the_scheduler_in_force(manager: ClusterManager) -> None:
    cluster = manager.create("lab", ClusterEdit(values={"hosts": ["a"]})).cluster

    shape = detailed_json(cluster, default=False)

    assert (shape["effective_scheduler"], shape["scheduler_defaulted"]) == ("greedy", True)
