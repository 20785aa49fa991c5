"""A recipe on its way to commands, without a host: what each engine writes for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import msgspec

from sparkrun.core.effective import EffectiveConfig, Tiers, build_effective, parse_overrides
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.core.model_source import parse_model
from sparkrun.core.placement import Placement, Slot
from sparkrun.core.recipe import Recipe
from sparkrun.core.recipe.schema import Values
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.commands import Command, CommandContext, RankCommand
from sparkrun.runtimes.ranks import RankContext, RankPorts, rank_contexts, with_peers

SHA = "0123456789abcdef0123456789abcdef01234567"
SNAPSHOT = f"/cache/huggingface/hub/models--org--m/snapshots/{SHA}"


class Served:
    """One recipe with one engine."""

    def __init__(self, runtime: RuntimePlugin, recipe: Recipe, config: EffectiveConfig) -> None:
        self.runtime, self.recipe, self.config = runtime, recipe, config
        facts = HostFacts(host="spark-1", assumed=True)
        self.ctx = CommandContext(recipe=recipe, config=config, model=parse_model(recipe.model), facts=facts, in_container=True)

    def given(self, **changes: object) -> Served:
        """The same with another context."""
        other = Served(self.runtime, self.recipe, self.config)
        other.ctx = msgspec.structs.replace(self.ctx, **changes)
        return other

    def on(self, model: ModelFacts) -> Served:
        """The same with the model's files known."""
        return self.given(facts=HostFacts(host="spark-1", model=model))

    @property
    def command(self) -> Command:
        """The serving command."""
        return self.runtime.generate_command(self.ctx)

    @property
    def words(self) -> list[str]:
        """What the engine gets."""
        return split(self.command.text)

    def ranks(self, hosts: int, *, gpus: int = 1) -> list[RankContext]:
        """The processes on hosts with so many accelerators each, reached at 10.0.0.1 and so on."""
        names = [f"spark-{number}" for number in range(1, hosts + 1)]
        slots = tuple(Slot(number, names[number // gpus], (number % gpus,)) for number in range(hosts * gpus))
        ports = RankPorts(rendezvous=self.runtime.first_port(self.config))
        addresses = {name: f"10.0.0.{number}" for number, name in enumerate(names, start=1)}
        found = rank_contexts(Placement(slots, "greedy"), self.runtime.replica_size(self.config), addresses, ports)
        return list(with_peers(found, [f"job_node_{rank.rank}" for rank in found], ["ann"] * len(found)))

    def rank_commands(self, hosts: int, *, gpus: int = 1) -> list[RankCommand]:
        """What each process runs."""
        return [self.rank_command(rank) for rank in self.ranks(hosts, gpus=gpus)]

    def rank_command(self, rank: RankContext) -> RankCommand:
        """What one process runs."""
        return self.runtime.rank_command(msgspec.structs.replace(self.ctx, rank=rank), self.command)

    def added(self, hosts: int, *, gpus: int = 1) -> list[list[str]]:
        """The words that each process's command has beyond the serving command's own first ones."""
        own = self.words
        found = [split(command.text) for command in self.rank_commands(hosts, gpus=gpus)]
        assert all(words[: len(own)] == own for words in found)
        return [words[len(own) :] for words in found]


Serve = Callable[..., Served]


def configured(runtime: RuntimePlugin, recipe: Recipe, *overrides: str, platform: Values | None = None) -> Served:
    """A recipe with an engine, and what the command line and the platform add."""
    tiers = Tiers(overrides=parse_overrides(overrides), platform=platform or {}, runtime=runtime.defaults)
    return Served(runtime, recipe, build_effective(recipe, tiers))


def split(text: str) -> list[str]:
    """The words of a command, continuations joined."""
    return shlex.split(text.replace("\\\n", " "))


def lines(words: Sequence[Sequence[str]]) -> list[str]:
    """Each list of words as one text, easy to compare."""
    return [" ".join(part) for part in words]
