"""A launch plan and a launch's result as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparkrun.cli.memory_text import memory_lines
from sparkrun.core.plan import gaps_together, mask
from sparkrun.orchestration.docker import docker_text

if TYPE_CHECKING:
    from sparkrun.api import LaunchPlan, RunResult
    from sparkrun.core.plan import RankPlan
    from sparkrun.core.timings import Timing


_HEAD_WORDS = 4
"""``docker run -d --init`` stand on one line."""


def plan_text(plan: LaunchPlan) -> str:
    """Every rank's command as it would run, and why; secrets masked."""
    text: str = mask("\n".join(_plan_lines(plan)), plan.secret_values)
    return text


def preparation_text(plan: LaunchPlan) -> str:
    """What is done before a launch, and nothing of the launch itself."""
    hosts = ", ".join((*plan.hosts, *plan.staged_hosts))
    lines = [f"Recipe: {plan.recipe_ref}", f"Image:  {plan.image}", f"Hosts:  {hosts}"]
    lines += [f"Note: {note}" for note in plan.notes]
    lines += [f"warning: {warning}" for warning in plan.warnings]
    lines += list(_gap_lines(plan))
    idle = "Nothing is known to be missing: nobody looked." if plan.assumed_hosts else "Nothing is to be done."
    lines += list(_preparing_lines(plan)) or ([] if plan.gaps else [idle])
    text: str = mask("\n".join(lines), plan.secret_values)
    return text


def _gap_lines(plan: LaunchPlan) -> Iterator[str]:
    return (f"warning: {gap.text} ({gap.hint})" for gap in gaps_together(plan.gaps))


def result_text(result: RunResult, *, timings: bool = True) -> str:
    """Where it answers, how long that took, and what to type next."""
    state = "ready" if result.ready else "started; not waited for"
    times = [f"  after: {', '.join(_times(result))}"] if timings and result.ready else []
    tree = ["  took:", *_timing_lines(result.timings, 4)] if timings and result.timings else []
    return "\n".join([f"{result.served_model_name} is {state}: {result.endpoint}", *times, *tree, *_next_lines(result)])


def _plan_lines(plan: LaunchPlan) -> Iterator[str]:
    yield f"Recipe:   {plan.recipe_ref}"
    yield f"Runtime:  {plan.runtime}, executor {plan.executor}"
    yield f"Model:    {plan.model}" + (f" ({plan.model_path})" if plan.model_path and plan.model_path != plan.model else "")
    if plan.image:
        yield f"Image:    {plan.image}"
    yield f"Hosts:    {', '.join(plan.hosts)}"
    yield f"Cluster:  {plan.cluster_id}"
    yield f"Endpoint: {plan.endpoint}   model name: {plan.served_model_name}"
    if plan.memory:
        yield from memory_lines(plan.memory, assumed=bool(set(plan.hosts) & set(plan.assumed_hosts)))
    for note in plan.notes:
        yield f"Note: {note}"
    for warning in plan.warnings:
        yield f"warning: {warning}"
    yield from _gap_lines(plan)
    yield from _preparing_lines(plan)
    for number, stage in enumerate(plan.stages, start=1):
        yield f"Step {number}/{len(plan.stages)}: {stage.title}"
    for rank in plan.ranks:
        yield from _rank_lines(rank)


def _preparing_lines(plan: LaunchPlan) -> Iterator[str]:
    """What is built and brought first."""
    for number, build in enumerate(plan.builds, start=1):
        yield f"Build {number}/{len(plan.builds)}: {build.title}; why: {build.why}"
    for number, transfer in enumerate(plan.transfers, start=1):
        yield f"Transfer {number}/{len(plan.transfers)}: {transfer.title}" + (f"; {transfer.account}" if transfer.account else "")
    if plan.tuning and plan.tuning.copies:
        yield f"Tuning: {len(plan.tuning.copies)} configs of @{plan.tuning.registry} to {plan.tuning.folder}"
    for stage in plan.tuning.sends if plan.tuning else ():
        yield f"Tuning: {stage.title}"


def _rank_lines(rank: RankPlan) -> Iterator[str]:
    gpus = f", GPU {','.join(map(str, rank.gpus))}" if rank.gpus else ""
    yield f"Rank {rank.rank} ({rank.role}) on {rank.host}{gpus}:"
    for name, value in sorted(rank.env.items()):
        yield f"  {name}={value}"
    for name in sorted(rank.secret_env):
        yield f"  {name}=***"
    if rank.image:
        yield "  Container (its variables are those above):"
        yield from (f"    {line}" for line in _container_lines(rank))
    yield "  Serve command:"
    for line in rank.command.splitlines():
        yield f"    {line}"


def _container_lines(rank: RankPlan) -> Iterator[str]:
    """The words that start the container, an option a line; what stands elsewhere in the plan is left out."""
    words = list(rank.run)
    until = words.index(rank.image) if rank.image in words else len(words)
    lines: list[list[str]] = []
    for word in words[:until]:
        if lines and (not word.startswith("-") or (len(lines) == 1 and len(lines[0]) < _HEAD_WORDS)):
            lines[-1].append(word)
        else:
            lines.append([word])
    shown = [line for line in lines if line[0] != "-e" and not (line[0] == "--label" and line[-1].startswith("sparkrun."))]
    yield from (f"{docker_text(line)} \\" for line in shown)
    yield str(rank.image)


def _times(result: RunResult) -> Iterator[str]:
    for label, value in (("port", result.port_open_ms), ("healthy", result.healthy_ms), ("first token", result.first_token_ms)):
        if value is not None:
            yield f"{label} {value / 1000:.2f} s"


def _timing_lines(timings: tuple[Timing, ...], indent: int) -> Iterator[str]:
    for timing in timings:
        spent = f"{timing.seconds:.2f} s" if timing.seconds is not None else "-"
        yield f"{' ' * indent}{spent:>8}  {timing.title}" + (f" — skipped ({timing.skipped})" if timing.skipped else "")
        yield from _timing_lines(timing.parts, indent + 2)


def _next_lines(result: RunResult) -> Iterator[str]:
    yield f"  try:  curl {result.endpoint}/chat/completions -H 'Content-Type: application/json' \\"
    yield f'          -d \'{{"model": "{result.served_model_name}", "messages": [{{"role": "user", "content": "Hello"}}]}}\''
    yield f"  logs: sparkrun logs {result.cluster_id}"
    yield f"  stop: sparkrun stop {result.cluster_id}"
