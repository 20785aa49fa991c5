"""Real recipes, and what an earlier version rendered for them: every difference has a reason. Skipped where they are not at hand."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.effective import Tiers, build_effective
from sparkrun.core.errors import SparkrunError
from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.core.model_source import parse_model
from sparkrun.core.placement import compute_placement
from sparkrun.core.recipe import Recipe, export_recipe, load_recipe_file, load_recipe_text
from sparkrun.core.recipe.knowledge import Surroundings
from sparkrun.core.recipe.validate import validate
from sparkrun.orchestration.primitives import merge_env
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext
from sparkrun.runtimes.environment import LaunchFields, render_recipe_env
from sparkrun.runtimes.ranks import RankPorts, rank_contexts
from sparkrun.runtimes.runtime_cache import CacheKey, CacheSettings, plan_runtime_cache

SHARED = Path(os.environ.get("SPARKRUN_SHARED") or Path(__file__).resolve().parents[3] / "shared")
RECIPES = SHARED / "recipes"
RENDERS = RECIPES / "renders.jsonl"
pytestmark = pytest.mark.skipif(not RENDERS.exists(), reason="no folder of public recipes (set SPARKRUN_SHARED)")

HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 9))
SPARK = HostHardware((AcceleratorSpec("nvidia", "gb10", 1, 121.0, ("gb10", "cuda")),))
PLATFORM_DEFAULTS: dict[str, dict[str, Any]] = {
    "vllm": {"gpu_memory_utilization": 0.8},
    "sglang": {"gpu_memory_utilization": 0.8},
    "llama-cpp": {"mmap": False},
}
PLATFORM_ENV = dict(Surroundings().platform_env)
OWN_ADDRESS = {"VLLM_HOST_IP", "SGLANG_HOST_IP"}
"""Variables that the earlier version's render leaves out, since no network was there to tell them."""

IDENTICAL = "identical"
ONE_HOST = "better: without parallelism one host is used, not each for itself (runtimes.md 4)"
TEMPLATE_KEPT = "better: the template is kept over RPC and bound to the fabric (runtimes.md 9)"
NOT_QUOTED_TWICE = "better: the value of a variable is passed as it is, without the shell's quotes around it"
EXPLAINED = {IDENTICAL, ONE_HOST, TEMPLATE_KEPT, NOT_QUOTED_TWICE}


class Rank(NamedTuple):
    """What one process runs: its words, numbers and JSON as values, and its environment."""

    words: tuple[object, ...]
    env: dict[str, str]


class Planned(NamedTuple):
    """A recipe on eight one-GPU hosts."""

    recipe: Recipe
    runtime: RuntimePlugin
    serving: tuple[object, ...]
    ranks: tuple[Rank, ...]
    warnings: tuple[str, ...]


def value(word: str) -> object:
    try:
        return float(word)
    except ValueError:
        pass
    try:
        return json.dumps(json.loads(word), sort_keys=True) if word[:1] in ("[", "{") else word
    except ValueError:
        return word


def values(command: str) -> tuple[object, ...]:
    return tuple(value(word) for word in shlex.split(re.sub(r"\\\n", " ", command).replace(HOSTS[0], "<HEAD_IP>")))


def plan(path: str, plugins: Plugins) -> Planned:
    return plan_recipe(load_recipe_file(RECIPES / path), plugins)


def plan_recipe(recipe: Recipe, plugins: Plugins) -> Planned:
    runtime = plugins.runtime(recipe.runtime)
    config = build_effective(recipe, Tiers(platform=PLATFORM_DEFAULTS.get(runtime.family, {}), runtime=runtime.defaults))
    config = config.with_values(runtime.settings_in_command(recipe, config))
    demand = runtime.required_nodes(recipe, config, [1] * len(HOSTS)).demand()
    placement = compute_placement(demand, HOSTS, dict.fromkeys(HOSTS, SPARK))
    facts = HostFacts(host=HOSTS[0], assumed=True)
    ctx = CommandContext(recipe=recipe, config=config, model=parse_model(recipe.model), facts=facts, in_container=True)
    contexts = rank_contexts(placement, runtime.replica_size(config), {}, RankPorts(rendezvous=runtime.first_port(config)))
    command = runtime.generate_command(ctx)
    ranks = tuple(_rank(runtime, msgspec.structs.replace(ctx, rank=rank), command) for rank in contexts)
    return Planned(recipe, runtime, values(command.text), ranks, command.warnings)


def _rank(runtime: RuntimePlugin, ctx: CommandContext, command: Command) -> Rank:
    key = CacheKey(family=runtime.family, model=ctx.recipe.model)
    cache = plan_runtime_cache(CacheSettings(), key, runtime.cache_variables, "/cache")
    assert cache is not None
    launch = LaunchFields(cluster_id="job", rank=ctx.rank, runtime_cache_dir="/cache/runtime")
    env = merge_env(
        cache.env,
        runtime.get_extra_env(ctx),
        PLATFORM_ENV if runtime.family in ("vllm", "sglang") else {},
        render_recipe_env(ctx.config.container.env, ctx.config.values(), launch),
        runtime.get_container_env(ctx),
    )
    return Rank(values(runtime.rank_command(ctx, command).text), env)


def rendered(entry: dict[str, Any]) -> tuple[Rank, ...]:
    return tuple(Rank(values(rank["command"]), dict(text.split("=", 1) for text in rank["env"])) for rank in entry["ranks"])


def judge(ours: Planned, theirs: tuple[Rank, ...]) -> str:
    """The class of a difference; a text that is none of the explained ones where there is no reason for it."""
    if ours.runtime.cluster_strategy() == "native/rpc" and len(ours.ranks) > 1:
        return _judge_rpc(ours, theirs)
    own = [rank.words for rank in ours.ranks]
    if ours.runtime.cluster_strategy() == "ray":
        # The earlier render shows the engine alone; ours begins its head's Ray first, and the engine is its last line.
        own = [ours.serving]
    if len(own) == 1 < len(theirs) and not ours.runtime.parallelism(build_effective(ours.recipe)):
        return ONE_HOST if theirs[0].words[: len(own[0])] == own[0] else f"words {own[0]}"
    if own != [rank.words for rank in theirs]:
        return f"words {own}"
    return _judge_env(ours.ranks, theirs)


def _judge_env(ours: tuple[Rank, ...], theirs: tuple[Rank, ...]) -> str:
    different = {
        (name, own.env.get(name), their.env.get(name))
        for own, their in zip(ours, theirs, strict=False)
        for name in {*own.env, *their.env} - OWN_ADDRESS
        if own.env.get(name) != their.env.get(name)
    }
    if all(own is not None and their == f"'{own}'" for _, own, their in different):
        return NOT_QUOTED_TWICE if different else IDENTICAL
    return f"env {different}"


def _judge_rpc(ours: Planned, theirs: tuple[Rank, ...]) -> str:
    head, *workers = ours.ranks
    addresses = [worker.words[2] for worker in workers]
    lends = all(worker.words[::2] == ("rpc-server", worker.words[2], 50052.0) and worker.words[1] == "--host" for worker in workers)
    same_peers = theirs[-1].words[-2:] == head.words[-2:] == ("--rpc", ",".join(f"{address}:50052" for address in addresses))
    kept = head.words[:-2] == ours.serving and len(ours.ranks) == len(theirs)
    return TEMPLATE_KEPT if lends and same_peers and kept else f"rpc {ours.ranks}"


def entries() -> Iterator[dict[str, Any]]:
    for line in RENDERS.read_text().splitlines():
        yield json.loads(line)


def table(rows: list[tuple[str, str]], place: Path) -> str:
    """All verdicts in a file, and how many there are of each as text."""
    place.write_text("".join(f"{verdict}\t{path}\n" for path, verdict in sorted(rows, key=lambda row: row[::-1])))
    counts = Counter(verdict for _, verdict in rows)
    return "\n".join(f"{count:5d}  {verdict}" for verdict, count in counts.most_common())


def test_every_difference_to_an_earlier_render_has_a_reason(plugins: Plugins, tmp_path: Path) -> None:
    rows = []
    for entry in entries():
        try:
            ours = plan(entry["path"], plugins)
        except SparkrunError as error:
            rows.append((entry["path"], f"refused: {error.message}"))
            continue
        assert ours.runtime.plugin_name == entry["runtime"], entry["path"]
        rows.append((entry["path"], judge(ours, rendered(entry))))
    print(table(rows, tmp_path / "renders.tsv"))
    assert len(rows) > 100
    assert [row for row in rows if row[1] not in EXPLAINED] == []


def test_every_real_recipe_becomes_commands_or_is_refused_with_a_reason(plugins: Plugins, tmp_path: Path) -> None:
    rows = []
    for path in real_recipes():
        try:
            ours = plan(path, plugins)
        except SparkrunError as error:
            rows.append((path, f"refused: {error.message.splitlines()[0]}"))
            continue
        assert len(ours.ranks) >= ours.recipe.min_nodes
        rows.append((path, f"{ours.runtime.plugin_name} on {len(ours.ranks)}"))
    print(table(rows, tmp_path / "recipes.tsv"))
    refused = [row for row in rows if row[1].startswith("refused")]
    assert len(rows) > 200
    assert [row for row in refused if not re.search(r"recipe allows 1 node, tensor_parallel \d needs \d", row[1])] == []


def test_flags_of_forks_are_few_suggestions_and_no_warnings(plugins: Plugins, tmp_path: Path) -> None:
    recipes = [load_recipe_file(RECIPES / path) for path in real_recipes()]
    around = {name: Surroundings(runtime=plugins.runtime(name).knowledge()) for name in {recipe.runtime for recipe in recipes}}
    found = [
        (recipe.source.path, finding)
        for recipe in recipes
        for finding in validate(recipe, around[recipe.runtime]).findings
        if finding.code == "unknown-engine-flag"
    ]
    print(table([(str(path), finding.message) for path, finding in found], tmp_path / "flags.tsv"))
    assert {finding.severity for _, finding in found} <= {"suggestion"}
    assert len({path for path, _ in found}) < len(recipes) / 10


def test_an_export_of_a_real_recipe_plans_the_same_launch(plugins: Plugins) -> None:
    for path in real_recipes():
        recipe = load_recipe_file(RECIPES / path)
        try:
            before = plan_recipe(recipe, plugins)
        except SparkrunError:
            continue
        after = plan_recipe(load_recipe_text(export_recipe(recipe), recipe.source), plugins)
        assert (after.runtime.plugin_name, after.serving, after.ranks) == (before.runtime.plugin_name, before.serving, before.ranks), path


def real_recipes() -> Iterator[str]:
    with (RECIPES / "INDEX.tsv").open() as index:
        for row in csv.DictReader(index, delimiter="\t"):
            if row["kind"] == "recipe" and row["path"].endswith((".yaml", ".yml")):
                yield row["path"]
