"""A cluster as plain data: the documented shape of every ``cluster … --json``."""

from __future__ import annotations

from sparkrun.core.cluster_manager.env_file import is_reference
from sparkrun.core.cluster_manager.keys import KEYS
from sparkrun.core.cluster_manager.model import Cluster
from sparkrun.core.secret_names import is_secret_name
from sparkrun.core.values import ConfigValue

MASK = "***"


def cluster_json(cluster: Cluster, *, default: bool) -> dict[str, ConfigValue]:
    """Name, hosts, every key that the file sets, and whether it is the default cluster. Values of secret variables are masked."""
    shown = {key: cluster.settings[key] for key in KEYS if cluster.settings.get(key) is not None}
    if cluster.env:
        shown["env"] = dict(shown_env(cluster))
    return {"name": cluster.name, "hosts": list(cluster.hosts), **shown, "default": default}


def detailed_json(cluster: Cluster, *, default: bool) -> dict[str, ConfigValue]:
    """As ``cluster_json``, and the scheduler in force."""
    return {
        **cluster_json(cluster, default=default),
        "effective_scheduler": cluster.effective_scheduler,
        "scheduler_defaulted": cluster.scheduler is None,
    }


def shown_env(cluster: Cluster) -> dict[str, str]:
    """The cluster's variables, fit to be shown: a secret is masked unless it is only referred to."""
    return {name: MASK if is_secret_name(name) and value and not is_reference(value) else value for name, value in cluster.env.items()}
