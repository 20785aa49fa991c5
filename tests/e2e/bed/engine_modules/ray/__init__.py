"""What a launch uses of Ray's Python side."""

from tests.e2e.bed.engine import ray_cluster


def init(address: str = "auto", **_: object) -> None:
    """Fails without a cluster."""
    if not ray_cluster.nodes():
        raise ConnectionError(f"Could not find any running Ray instance at {address}")


def nodes() -> list[dict[str, object]]:
    """Those that are alive."""
    return [{"Alive": True, "NodeManagerAddress": node.address, "Resources": {"GPU": node.gpus}} for node in ray_cluster.nodes()]
