"""The built-in schedulers as plugins."""

from __future__ import annotations

import re

import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import PluginError
from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.core.identity import placement_token
from sparkrun.core.placement import Demand, Preference, Slot
from sparkrun.core.scheduler import EXT_SCHEDULER, Scheduler, SchedulerLayers, resolve_scheduler
from sparkrun.schedulers.greedy import GreedyScheduler
from sparkrun.schedulers.occupancy_dense import OccupancyDenseScheduler
from sparkrun.schedulers.occupancy_sparse import OccupancySparseScheduler

ALL = {scheduler.plugin_name: scheduler for scheduler in (GreedyScheduler(), OccupancySparseScheduler(), OccupancyDenseScheduler())}


def find(name: str) -> Scheduler:
    if name not in ALL:
        raise PluginError(f"no scheduler named '{name}'", hint="look")
    return ALL[name]


def test_the_built_in_schedulers_are_found(config: SparkrunConfig) -> None:
    assert {plugin.plugin_name for plugin in Plugins(config).all("scheduler")} == {"greedy", "occupancy-sparse", "occupancy-dense"}
    assert EXT_SCHEDULER == "sparkrun.scheduler"


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (SchedulerLayers("occupancy-dense", "greedy", "occupancy-sparse"), "occupancy-dense"),
        (SchedulerLayers(None, "greedy", "occupancy-sparse"), "greedy"),
        (SchedulerLayers(None, None, "occupancy-sparse"), "occupancy-sparse"),
        (SchedulerLayers(), "greedy"),
        (SchedulerLayers("", "", "occupancy-dense"), "occupancy-dense"),
    ],
)
def test_the_strongest_layer_names_the_scheduler(layers: SchedulerLayers, name: str) -> None:
    assert resolve_scheduler(layers, find).plugin_name == name


@pytest.mark.parametrize(
    ("layers", "who"),
    [(SchedulerLayers("x"), "--scheduler"), (SchedulerLayers(recipe="x"), "the recipe"), (SchedulerLayers(cluster="x"), "the cluster")],
)
def test_an_unknown_scheduler_says_who_named_it_and_nothing_takes_its_place(layers: SchedulerLayers, who: str) -> None:
    with pytest.raises(PluginError, match=rf"no scheduler named 'x' \(named by {who}\)") as refused:
        resolve_scheduler(layers, find)
    assert refused.value.hint == "look"


def test_greedy_tells_the_token_from_the_hosts() -> None:
    assert GreedyScheduler().placement_token(["b", "a"]) == GreedyScheduler().placement_token(["a", "b"]) == placement_token(["a", "b"])


@pytest.mark.parametrize("name", ["occupancy-sparse", "occupancy-dense"])
def test_the_others_give_a_new_token_each_time(name: str) -> None:
    tokens = {ALL[name].placement_token(["a"]) for _ in range(3)}

    assert len(tokens) == 3
    assert all(re.fullmatch(r"[0-9a-f]{12}", token) for token in tokens)


@pytest.mark.parametrize("name", ALL)
def test_a_scheduler_places_and_names_itself(name: str) -> None:
    placement = ALL[name].schedule(Demand(ranks=1), ("a",), {"a": HostHardware((AcceleratorSpec("nvidia", "gb10"),))})

    assert placement.slots == (Slot(0, "a", (0,)),)
    assert placement.scheduler == name


def test_each_prefers_what_its_name_says() -> None:
    assert [scheduler.policy.preference for scheduler in ALL.values()] == [Preference.FIRST, Preference.IDLE, Preference.BUSY]
