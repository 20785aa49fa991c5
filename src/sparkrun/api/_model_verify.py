"""Reading the files of models in caches, and what that came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sparkrun.api._cache_scope import Scope
from sparkrun.api._model_cache_results import Verification, WrongFile
from sparkrun.api._model_look import Verdicts
from sparkrun.core.events import Bytes, EventSink
from sparkrun.core.facts import Unreachable
from sparkrun.models.cache_hosts import Finding, SharedCache, verify_files
from sparkrun.models.cache_rules import checks_of, short_blobs, uncheckable
from sparkrun.models.hub_cache import CachedModel


def verify_caches(caches: Sequence[SharedCache], scope: Scope, *, quick: bool) -> tuple[Verdicts, tuple[Unreachable, ...]]:
    """Read every model of these caches, all hosts at once; the verdicts, and the hosts that could not."""
    tasks = {
        shared.cache.host: (shared.cache.hub, [check for model in shared.cache.models for check in checks_of(model, quick=quick)])
        for shared in caches
    }
    total = None if quick else sum(check.size_bytes for _hub, checks in tasks.values() for check in checks)
    tasks = {host: task for host, task in tasks.items() if task[1]}
    found = verify_files(tasks, scope.sctx.runner, _teller(scope.sctx.emit, total))
    silent = tuple(answer for answer in found.values() if isinstance(answer, Unreachable))
    others = [model for shared in caches for model in shared.cache.models]
    verdicts: dict[tuple[str, str], Verification] = {}
    for shared in caches:
        answer = found.get(shared.cache.host, ())
        if not isinstance(answer, Unreachable):
            by_path = {finding.path: finding for finding in answer}
            for model in shared.cache.models:
                verdicts[shared.hosts[0], model.repo] = _verification(model, by_path, others, quick=quick)
    return verdicts, silent


def _teller(emit: EventSink, total: int | None) -> Callable[[int, float], None]:
    return lambda done, seconds: emit(Bytes("verify", done, total, seconds))


def _verification(model: CachedModel, by_path: Mapping[str, Finding], others: Iterable[CachedModel], *, quick: bool) -> Verification:
    reasons = {blob.path: "it is shorter than in another cache" for blob in short_blobs(model, others)}
    checks = checks_of(model, quick=quick)
    for check in checks:
        finding = by_path.get(check.path)
        if finding is None:
            reasons[check.path] = "it was not read"
        elif finding.expected_bytes is not None:
            reasons[check.path] = f"it has {check.size_bytes} bytes instead of {finding.expected_bytes}"
        elif finding.verdict != "ok":
            reasons[check.path] = "its content is not what it should be" if finding.verdict == "wrong" else "it cannot be read"
    wrong = tuple(WrongFile(files=blob.files, blob=blob.name, reason=reasons[blob.path]) for blob in model.blobs if blob.path in reasons)
    return Verification(
        quick=quick,
        checked_blobs=len(checks),
        checked_bytes=0 if quick else sum(check.size_bytes for check in checks),
        wrong=wrong,
        unchecked=uncheckable(model),
    )
