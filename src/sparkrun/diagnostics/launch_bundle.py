"""What one launch leaves for a diagnosis: its plan, what was seen of the hosts, what happened when, and the last words of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkrun import __version__
from sparkrun.core.events import Detail, EngineLine, Note, Phase, Script, Step, Warn
from sparkrun.core.timings import Heard, Timing
from sparkrun.diagnostics.ndjson import RecordFile
from sparkrun.orchestration.launch_record import LaunchRecord

SCHEMA_VERSION = 1


@contextmanager
def collecting(path: Path | None) -> Iterator[LaunchRecord]:
    """A record for a launch inside, written to ``path`` however that ends. Raises before it begins where the file cannot be made."""
    if path is None:
        yield LaunchRecord()
        return
    record = LaunchRecord(thorough=True)
    with RecordFile(path) as file:
        try:
            yield record
        except BaseException as error:
            write_launch(record, file, error)
            raise
        write_launch(record, file, None)


def write_launch(record: LaunchRecord, file: RecordFile, error: BaseException | None) -> None:
    """Everything that is known of a launch."""
    plan = record.plan
    file.secrets = plan.secret_values if plan else ()
    hosts = list(plan.hosts) if plan else []
    file.add("diag_header", {"sparkrun_version": __version__, "schema_version": SCHEMA_VERSION, "hosts": hosts})
    if plan:
        file.add("run_recipe", {"recipe": plan.recipe, "recipe_ref": plan.recipe_ref, "model": plan.model, "runtime": plan.runtime})
        file.add("run_config", {"config": plan.config, "parallelism": plan.parallelism})
        file.add("run_serve_command", {"command": plan.head.command})
        file.add("run_plan", {"plan": plan.public()})
    for host, facts in record.facts.items():
        file.add("host_facts", {"host": host, "facts": facts})
    for heard in record.heard:
        if (fields := _event(heard)) is not None:
            file.add("run_event", fields)
    for timing in record.timings:
        file.add("run_phase", _phase(timing))
    _write_ranks(record, file)
    for host, text in record.output.items():
        file.add("run_hook_output", {"host": host, "text": text})
    if record.outcome:
        file.add("run_health_check", {"outcome": record.outcome})
    if error is not None:
        file.add(
            "run_error", {"error": str(error) or type(error).__name__, "kind": type(error).__name__, "hint": getattr(error, "hint", None)}
        )
    file.add("run_launch_result", {"workload_id": plan.cluster_id if plan else None, "rc": 0 if error is None else 1})
    file.add("run_timeline", {"timings": record.timings})
    file.add("run_summary", {"success": error is None, "total_duration_seconds": round(record.seconds, 3)})
    file.add("bundle_complete", {"schema_version": SCHEMA_VERSION, "truncated": file.truncated, "operation_success": error is None})


def _write_ranks(record: LaunchRecord, file: RecordFile) -> None:
    for rank in record.plan.ranks if record.plan else ():
        if seen := record.evidence.get(rank.rank):
            fields = {"host": rank.host, "container": rank.name, "rank": rank.rank, "exit_code": seen.exit_code, "found": seen.found}
            file.add("run_container_logs", {**fields, "lines": len(seen.lines), "tail": seen.lines})


def _phase(timing: Timing) -> dict[str, object]:
    status = "skipped" if timing.skipped else "error" if timing.seconds is None else "end"
    return {"phase": timing.title, "status": status, "duration_seconds": timing.seconds, "reason": timing.skipped}


def _event(heard: Heard) -> dict[str, object] | None:
    at = {"at_seconds": round(heard.at_s, 3)}
    match heard.event:
        case Phase(number, _total, title, skipped):
            return {**at, "kind": "phase", "text": f"{number} {title}", "skipped": skipped}
        case Step(number, total, title):
            return {**at, "kind": "step", "text": f"{number}/{total} {title}"}
        case Note(text) | Warn(text) | Detail(text) | EngineLine(text):
            return {**at, "kind": type(heard.event).__name__.lower(), "text": text}
        case Script(host, call):
            return {**at, "kind": "script", "host": host, "text": ", ".join(part.name for part in call.chain)}
        case _:
            return None
