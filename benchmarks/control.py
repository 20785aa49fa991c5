"""What the control side takes for commands that reach no host: each beside a bare Python, in a home with a thousand recipes."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.home import NO_HOST, RECIPES, Home, made
from benchmarks.measure import Command, Size, Timing, size_side_by_side, time_side_by_side

LIST_BUDGET_MS = 120.0
COMPLETION_BUDGET_MS = 80.0
DRY_RUN_BUDGET_MS = 200.0
MEMORY_BUDGET_MIB = 60.0
SIZE_RUNS = 3
"""Memory is the same in every run but for a page or two."""


def measure_list(runs: int, recipes: int = RECIPES) -> list[Timing]:
    """``sparkrun list`` and ``search`` over so many recipes that were listed before."""
    return timed(listing, runs, recipes)


def measure_completion(runs: int, recipes: int = RECIPES) -> list[Timing]:
    """What the shell asks for when the user presses Tab."""
    return timed(completion, runs, recipes)


def measure_dry_run(runs: int) -> list[Timing]:
    """``run --dry-run`` of a recipe file for a host that is not asked, and for this machine, which is looked at."""
    return timed(dry_run, runs, recipes=1)


def measure_saved(runs: int) -> list[Timing]:
    """Commands about what is saved, and ``status`` where nothing was ever started."""
    return timed(saved, runs, recipes=1)


def measure_memory(runs: int, recipes: int = RECIPES) -> list[Size]:
    """The peak memory of each of these commands."""
    with made(recipes) as home:
        commands = [command for group in (listing, completion, dry_run, saved) for command in group(home)]
        return size_side_by_side(home.baseline(), commands, runs=min(runs, SIZE_RUNS))


def timed(group: Callable[[Home], tuple[Command, ...]], runs: int, recipes: int) -> list[Timing]:
    with made(recipes) as home:
        return time_side_by_side(home.baseline(), group(home), runs=runs)


def listing(home: Home) -> tuple[Command, ...]:
    return (
        command(home, "list", budget_ms=LIST_BUDGET_MS),
        command(home, "list", "--json", budget_ms=LIST_BUDGET_MS),
        command(home, "search", "Model-00", budget_ms=LIST_BUDGET_MS),
    )


def completion(home: Home) -> tuple[Command, ...]:
    return (
        tab(home, "sparkrun st"),
        tab(home, "sparkrun run --dr"),
        tab(home, "sparkrun run model-00"),
        tab(home, "sparkrun run @thousand/model-00"),
        tab(home, "sparkrun cluster show l"),
    )


def dry_run(home: Home) -> tuple[Command, ...]:
    recipe = str(home.recipe)
    return (
        command(home, "run", recipe, "-H", NO_HOST, "--dry-run", budget_ms=DRY_RUN_BUDGET_MS, name="run FILE -H HOST --dry-run"),
        command(home, "run", recipe, "-H", "localhost", "--dry-run", name="run FILE -H localhost --dry-run"),
    )


def saved(home: Home) -> tuple[Command, ...]:
    return (command(home, "cluster", "list"), command(home, "registry", "list"), command(home, "status"))


def command(home: Home, *words: str, budget_ms: float | None = None, name: str = "") -> Command:
    """A command of sparkrun, in that home."""
    return Command(f"sparkrun {name or ' '.join(words)}", home.sparkrun(*words), budget_ms=budget_ms, budget_mib=MEMORY_BUDGET_MIB)


def tab(home: Home, line: str) -> Command:
    """What bash runs for Tab at the end of a line."""
    asked = (f"COMP_WORDS={line}", f"COMP_CWORD={line.count(' ')}", "_SPARKRUN_COMPLETE=bash_complete")
    return Command(f"{line}<Tab>", home.words(*asked, *home.sparkrun()[-1:]), budget_ms=COMPLETION_BUDGET_MS, budget_mib=MEMORY_BUDGET_MIB)
