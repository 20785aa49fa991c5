"""What the user asks of a launch, as typed values."""

from __future__ import annotations

import msgspec

from sparkrun.core.cluster_manager import TransferMode
from sparkrun.core.hosts import HostOptions
from sparkrun.core.recipe.report import FailOn
from sparkrun.core.values import ConfigValue


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A request to serve a recipe."""

    recipe: str
    """A path, ``@registry/name``, a name, or an https address."""
    hosts: HostOptions = HostOptions()
    overrides: tuple[str, ...] = ()
    """``key=value`` texts, dotted keys allowed; ``env.NAME=value`` sets a variable."""
    settings: dict[str, ConfigValue] = {}
    """Values of dedicated options (``port``, ``tensor_parallel`` …); they win over ``overrides``."""
    env: dict[str, str] = {}
    extra_args: tuple[str, ...] = ()
    """Words appended to the engine's command line as they are."""
    image: str | None = None
    executor: str | None = None
    scheduler: str | None = None
    solo: bool = False
    """One node, whatever the recipe's parallelism would allow."""
    container_name: str | None = None
    """The name of the container in place of one made from the id; several ranks get a number behind it."""
    runtime_cache: bool | None = None
    """Whether compiled kernels are kept on the hosts; ``None`` leaves it to recipe and cluster."""
    fail_on: FailOn = "error"
    """The mildest finding of checking the recipe that stops the launch."""
    rootful: bool = False
    """Run containers privileged and as the image's own user."""
    labels: dict[str, str] = {}
    """Further labels of the containers."""
    executor_args: tuple[str, ...] = ()
    """Further words for ``docker run``, just before the image."""
    trust: bool = False
    """Let the recipe's hooks and host settings run this once."""
    rebuild: bool | None = None
    """Make or fetch the image anew, or do not; ``None`` leaves it to the options of the builder."""
    sync_tuning: bool = True
    """Bring the tuning configs of the recipe's registry to the hosts."""
    executor_config: dict[str, ConfigValue] = {}
    everywhere: bool = False
    """Bring image, model and tuning configs to every host that is given, not only to those with a rank."""
    transfer_mode: TransferMode | None = None
    """How images and models come to hosts; ``None`` leaves it to the cluster."""
    ensure: bool = False
    """The same workload running already is success, once it answers."""
    wait: bool = True
    """Wait until the engine truly answers."""
    stream_log: bool = False
    """Emit the engine's log lines while waiting."""
    keep_on_failure: bool = False
    """Leave what a failed launch started, to look at it."""
    collect_diagnostics: str | None = None
    """A file, which must not exist, for everything about this launch: plan, facts, events, the last lines of each rank."""
    force: bool = False
    """Start it although memory says that it does not fit."""
    auto_detect: bool = True
    """Read the model's own files, here and on the hub, for the memory that it takes; without, only the recipe's metadata counts."""
    probe: bool = False
    """For a plan: look at the hosts, read-only, instead of assuming."""
