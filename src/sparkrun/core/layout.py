"""A recipe's ``layout``: which ranks run on which host with which of its GPUs, said outright."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.errors import PlacementError, RecipeError
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean

_FORM = "layout: {placements: [{host: HOST, ranks: [0], local_gpus: [0]}]}"


class LayoutError(RecipeError):
    """A layout is malformed, or does not go with the ranks and hosts of the launch."""


class LayoutRequiredError(PlacementError):
    """The ranks would land on accelerators of several vendors; only a layout can say which goes where. ``vendors`` is by host."""

    def __init__(self, vendors: Mapping[str, Sequence[str]]) -> None:
        told = "; ".join(f"{host} has {' and '.join(names)}" for host, names in vendors.items())
        super().__init__(
            f"accelerators of several vendors need a layout: {told}",
            hint=f"name hosts of one vendor with -H, or write in the recipe {_FORM}",
        )
        self.vendors = {host: tuple(names) for host, names in vendors.items()}


class LayoutPlace(msgspec.Struct, frozen=True):
    """Ranks of one host; ``local_gpus`` are the indices of their GPUs there, in the same order."""

    host: str
    ranks: tuple[int, ...]
    local_gpus: tuple[int, ...]


class RecipeLayout(msgspec.Struct, frozen=True):
    """The layout of a recipe. ``requires`` are capability tags that every host in it must have."""

    placements: tuple[LayoutPlace, ...]
    requires: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that it names, in order."""
        return tuple(place.host for place in self.placements)

    def check(self, world_size: int, hosts: Mapping[str, Sequence[str]]) -> None:
        """That it covers ranks 0 … ``world_size`` - 1 once, on given hosts that have what it requires.

        ``hosts`` maps each host to its capability tags. Raises ``LayoutError``.
        """
        ranks = [rank for place in self.placements for rank in place.ranks]
        if sorted(ranks) != list(range(world_size)):
            raise LayoutError(_cover_text(ranks, world_size), hint=f"name each of the ranks 0 to {world_size - 1} once")
        for host in self.hosts:
            if host not in hosts:
                raise LayoutError(
                    f"layout: {host} is none of the given hosts", hint=did_you_mean(host, hosts) or f"given: {', '.join(hosts)}"
                )
            missing = [tag for tag in self.requires if tag not in hosts[host]]
            if missing:
                raise LayoutError(f"layout: {host} lacks {', '.join(missing)}", hint=f"it has {', '.join(hosts[host]) or 'no accelerator'}")


def parse_layout(value: ConfigValue, where: str = "layout") -> RecipeLayout | None:
    """The ``layout`` of a recipe, ``None`` when there is none. ``where`` begins the messages. Raises ``LayoutError``."""
    if value is None or value == {}:
        return None
    entries = _mapping(value, where, ("requires", "placements"))
    places = tuple(
        _place(entry, f"{where}.placements[{number}]") for number, entry in enumerate(_list(entries, "placements", where), start=1)
    )
    if not places:
        raise LayoutError(f"{where}: no placements", hint=_FORM)
    requires = tuple(
        _capability(entry, f"{where}.requires[{number}]") for number, entry in enumerate(_list(entries, "requires", where), start=1)
    )
    _refuse_twice([place.host for place in places], f"{where}: host")
    return RecipeLayout(places, requires)


def check_vendors(vendors: Mapping[str, Sequence[str]]) -> None:
    """Raises ``LayoutRequiredError`` when the hosts of a placement, or one of them, have accelerators of several vendors."""
    if len({name for names in vendors.values() for name in names}) > 1:
        raise LayoutRequiredError(vendors)


def _place(value: ConfigValue, where: str) -> LayoutPlace:
    entry = _mapping(value, where, ("host", "ranks", "local_gpus"))
    host = entry.get("host")
    if not isinstance(host, str) or not host:
        raise LayoutError(f"{where}: host must be the name of a host", hint=_FORM)
    ranks, gpus = (tuple(_numbers(_list(entry, key, where), f"{where}.{key}")) for key in ("ranks", "local_gpus"))
    if len(ranks) != len(gpus) or not ranks:
        raise LayoutError(f"{where}: {len(ranks)} ranks and {len(gpus)} local_gpus", hint="give every rank one GPU")
    _refuse_twice(gpus, f"{where}: GPU")
    return LayoutPlace(host, ranks, gpus)


def _capability(value: ConfigValue, where: str) -> str:
    tag = value if isinstance(value, str) else _mapping(value, where, ("capability",)).get("capability")
    if not isinstance(tag, str) or not tag:
        raise LayoutError(f"{where}: capability must be a tag such as cuda or gb10")
    return tag


def _mapping(value: ConfigValue, where: str, known: Sequence[str]) -> dict[str, ConfigValue]:
    if not isinstance(value, dict):
        raise LayoutError(f"{where} must be a mapping", hint=_FORM)
    for key in value:
        if key not in known:
            raise LayoutError(f"{where}: unknown key '{key}'", hint=did_you_mean(key, known) or f"keys: {', '.join(known)}")
    return value


def _list(entry: Mapping[str, ConfigValue], key: str, where: str) -> list[ConfigValue]:
    value = entry.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise LayoutError(f"{where}.{key} must be a list", hint=_FORM)
    return value


def _numbers(values: Sequence[ConfigValue], where: str) -> Iterator[int]:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise LayoutError(f"{where} must be whole numbers from 0 on, not {value!r}")
        yield value


def _refuse_twice(names: Sequence[object], what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LayoutError(f"{what} {twice} is named twice", hint="put all of it into one entry")


def _cover_text(ranks: Sequence[int], world_size: int) -> str:
    missing = [str(rank) for rank in range(world_size) if rank not in ranks]
    extra = [str(rank) for rank in sorted({rank for rank in ranks if rank >= world_size})]
    twice = [str(rank) for rank in sorted({rank for rank in ranks if ranks.count(rank) > 1})]
    told = [
        f"{what} {', '.join(found)}" for what, found in (("without", missing), ("beyond the world size", extra), ("twice", twice)) if found
    ]
    return f"layout does not cover {world_size} rank{'s' * (world_size != 1)}: {'; '.join(told)}"
