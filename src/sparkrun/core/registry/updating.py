"""First fetches, updates and the reading of the bootstrap manifests: each repository once, all at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sparkrun.core.events import Detail, EventSink, Note, Warn
from sparkrun.core.registry.adding import read_manifest
from sparkrun.core.registry.clones import Clones, Fetched
from sparkrun.core.registry.discovery import merge_discovered, restore_defaults
from sparkrun.core.registry.errors import GitError, ManifestError
from sparkrun.core.registry.fetching import FIRST_FETCH_S, UPDATE_S, ensure_all, paths_by_url, update_all
from sparkrun.core.registry.manifest import parse_manifest
from sparkrun.core.registry.model import RegistryEntry
from sparkrun.core.registry.results import UpdateReport, UpdateResult, UpdateStatus
from sparkrun.core.registry.rules import BUILTIN
from sparkrun.core.registry.store import RegistryState, RegistryStore

Outcomes = Mapping[str, Fetched | GitError]


class Manifests(NamedTuple):
    """What the manifests of several repositories declare, and which could not be had."""

    declared: dict[str, tuple[RegistryEntry, ...]]
    failed: tuple[str, ...]
    warnings: tuple[str, ...]


def first_fetch(
    clones: Clones, missing: Iterable[RegistryEntry], entries: tuple[RegistryEntry, ...], seconds: float = FIRST_FETCH_S
) -> dict[str, str]:
    """Fetch what was never fetched; the reason for each address that failed."""
    outcomes = ensure_all(clones, paths_by_url(entries, {entry.url: None for entry in missing}), seconds)
    _link(clones, entries, outcomes)
    return _reasons(outcomes)


def discover(clones: Clones, store: RegistryStore, emit: EventSink, failed: dict[str, str]) -> RegistryState:
    """Read the bootstrap manifests, and fetch the other visible repositories in the same go. Nothing is saved when every manifest fails."""
    state = store.load()
    urls = [*state.pending_urls, *(entry.url for entry in state.entries if entry.enabled and entry.visible)]
    wanted = paths_by_url(state.entries, dict.fromkeys(urls))
    emit(Note(f"fetching {len(wanted)} recipe repositories for the first time"))
    outcomes = ensure_all(clones, wanted, FIRST_FETCH_S)
    failed |= _reasons(outcomes)
    manifests = _manifests(clones, state.pending_urls, outcomes)
    for warning in manifests.warnings:
        emit(Warn(warning))
    if manifests.declared:
        state = store.edit(lambda state: merge_discovered(state, manifests.declared, manifests.failed))
    _link(clones, state.entries, outcomes)
    return state


def update_entries(clones: Clones, chosen: tuple[RegistryEntry, ...], entries: tuple[RegistryEntry, ...], emit: EventSink) -> UpdateReport:
    """The newest commit of the repositories of ``chosen``."""
    urls = {entry.url: None for entry in chosen if _updatable(entry)}
    outcomes = update_all(clones, paths_by_url(entries, urls), UPDATE_S)
    _link(clones, entries, outcomes)
    results = tuple(_result(entry, outcomes) for entry in chosen)
    for result in results:
        emit(Detail(f"{result.registry}: {result.status}{f' ({result.reason})' if result.reason else ''}"))
    return UpdateReport(results)


def update_everything(clones: Clones, store: RegistryStore, emit: EventSink) -> tuple[RegistryState, UpdateReport]:
    """The newest commit of every enabled registry, with missing shipped ones restored and unread manifests read."""
    state = restore_defaults(store.load())
    urls = dict.fromkeys((*state.pending_urls, *(entry.url for entry in state.entries if entry.enabled)))
    emit(Note(f"updating {len(urls)} recipe repositories"))
    outcomes = update_all(clones, paths_by_url(state.entries, urls), UPDATE_S)
    manifests = _manifests(clones, state.pending_urls, outcomes)
    if not state.frozen_because and (manifests.declared or state.saved):
        state = store.edit(lambda state: merge_discovered(restore_defaults(state), manifests.declared, manifests.failed))
    late = first_fetch(clones, [entry for entry in state.entries if _lacks(clones, entry, outcomes)], state.entries, UPDATE_S)
    _link(clones, state.entries, outcomes)
    outcomes = {**outcomes, **{url: GitError(reason, reason) for url, reason in late.items()}}
    results = tuple(_result(entry, outcomes) for entry in state.entries)
    return state, UpdateReport(results, warnings=manifests.warnings)


def _lacks(clones: Clones, entry: RegistryEntry, outcomes: Outcomes) -> bool:
    """Whether a manifest declared folders that the clone, fetched a moment ago, does not hold yet."""
    if not entry.enabled or isinstance(outcomes.get(entry.url), GitError):
        return False
    tree = clones.trees.tree(entry)
    return tree is None or not all(clones.trees.holds(tree, path) for path in entry.wanted_paths)


def _manifests(clones: Clones, urls: Iterable[str], outcomes: Outcomes) -> Manifests:
    declared: dict[str, tuple[RegistryEntry, ...]] = {}
    failed: list[str] = []
    warnings: list[str] = []
    for url in urls:
        if isinstance(outcomes.get(url), GitError):
            failed.append(url)
            continue
        try:
            text = read_manifest(clones.trees.shared(url), url)
            declared[url] = parse_manifest(text, url) if text is not None else ()
        except ManifestError as error:
            failed.append(url)
            warnings.append(error.message)
    return Manifests(declared, tuple(failed), tuple(warnings))


def _updatable(entry: RegistryEntry) -> bool:
    return entry.enabled and entry.name != BUILTIN


def _result(entry: RegistryEntry, outcomes: Outcomes) -> UpdateResult:
    outcome = outcomes.get(entry.url)
    if not _updatable(entry) or outcome is None:
        return UpdateResult(entry.name, "skipped", "built in" if entry.name == BUILTIN else "disabled")
    if isinstance(outcome, GitError):
        return UpdateResult(entry.name, "failed", outcome.reason)
    status: UpdateStatus = "unchanged" if outcome.previous == outcome.commit else "updated"
    return UpdateResult(entry.name, status, commit=outcome.commit, previous=outcome.previous)


def _link(clones: Clones, entries: Iterable[RegistryEntry], outcomes: Outcomes) -> None:
    for entry in entries:
        if isinstance(outcomes.get(entry.url), Fetched):
            clones.link(entry)


def _reasons(outcomes: Outcomes) -> dict[str, str]:
    return {url: outcome.reason for url, outcome in outcomes.items() if isinstance(outcome, GitError)}
