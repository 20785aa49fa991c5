"""Doing what a plan says, stage by stage; and taking back what was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event

import msgspec

from sparkrun.core.errors import HostUnreachableError, Interrupted, SparkrunError, StageFailedError
from sparkrun.core.events import Detail, EventSink, Note, Warn
from sparkrun.core.plan import HostAction, Stage
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.hooks import hook_output, hook_text
from sparkrun.orchestration.ssh_errors import explain_ssh_failure
from sparkrun.utils.shell import parse_answers

UNDO_TIMEOUT_S = 45
UNDO_CONNECT_TIMEOUT_S = 3


class Ledger:
    """What a launch has begun on hosts, so that it can be taken back."""

    def __init__(self) -> None:
        self.begun: list[HostAction] = []
        self.left: tuple[str, ...] = ()
        """Where taking it back is not confirmed."""

    def begin(self, actions: tuple[HostAction, ...]) -> None:
        """Note actions before they run: one that is interrupted half-way is taken back too."""
        self.begun.extend(actions)


@contextmanager
def undoing(ledger: Ledger, runner: HostRunner, emit: EventSink, *, keep: bool) -> Iterator[None]:
    """Run a launch; when it is left by an error or Ctrl-C, take back what ``ledger`` holds unless ``keep``.

    What went wrong is told at once, before anything is taken back. Ctrl-C becomes ``Interrupted``, which says what is left.
    """
    interrupted = completed = False
    left: tuple[str, ...] = ()
    try:
        yield
        completed = True
    except KeyboardInterrupt:
        interrupted = True
        if ledger.begun and not keep:
            emit(Note("interrupted; undoing what was started"))
    except SparkrunError as error:
        if ledger.begun and not keep:
            emit(Note(f"{_headline(error)}; undoing what was started"))
        raise
    finally:
        if not completed and not keep and ledger.begun:
            left = ledger.left = take_back(ledger, runner, emit)
        if keep and not completed and ledger.begun:
            emit(Note(f"kept as it is: {', '.join(action.host for action in ledger.begun)}"))
    if interrupted:
        raise Interrupted(_interrupted(ledger, keep, left), hint="look with: sparkrun status" if keep or left else None)


def _headline(error: SparkrunError) -> str:
    return error.message.partition("\n")[0].removesuffix("; its last lines:").removesuffix("; the engine's last lines:")


def apply_stage(stage: Stage, ledger: Ledger, runner: HostRunner, emit: EventSink, stop: Event) -> None:
    """Run a stage's actions at the same time. Raises ``StageFailedError`` with every host's reason, first cause first.

    Once ``stop`` is set, the actions are given up: whoever set it knows why.
    """
    ledger.begin(stage.actions)
    results = _run(stage, runner, stop)
    if stop.is_set():
        return
    _refuse_failed(stage, results)
    for result in results:
        emit(Detail(f"{result.host}: {' '.join(result.stdout.split())}"))


def check_stage(stage: Stage, runner: HostRunner) -> None:
    """Run actions that leave nothing behind. Raises ``StageFailedError`` as ``apply_stage`` does."""
    _refuse_failed(stage, _run(stage, runner))


def _run(stage: Stage, runner: HostRunner, stop: Event | None = None) -> Sequence[RemoteResult]:
    limit_s = max((action.timeout_s for action in stage.actions), default=0)
    return runner.run_all([(action.host, action.call) for action in stage.actions], timeout_s=limit_s, stop=stop)


def _refuse_failed(stage: Stage, results: Sequence[RemoteResult]) -> None:
    failures = [(action, result) for action, result in zip(stage.actions, results, strict=True) if not result.ok]
    if failures:
        raise _stage_error(stage, failures)


def take_back(ledger: Ledger, runner: HostRunner, emit: EventSink) -> tuple[str, ...]:
    """Undo everything begun, all hosts at once; returns where that is not confirmed. Ctrl-C starts the undo over once, then gives up."""
    undos = [(action.host, _impatient(action.undo)) for action in reversed(ledger.begun) if action.undo]
    for _attempt in range(2):
        try:
            results = runner.run_all(undos, timeout_s=UNDO_TIMEOUT_S)
            break
        except KeyboardInterrupt:
            emit(Warn("still undoing what was started; press Ctrl-C again to leave it"))
    else:
        return tuple(host for host, _undo in undos)
    left = tuple(result.host for result in results if not result.ok)
    if left:
        emit(Warn(f"could not undo on {', '.join(left)}; look with: sparkrun status -H {','.join(left)}"))
    elif undos:
        emit(Detail("undone: nothing of this launch is left running"))
    return left


def _impatient(call: ScriptCall) -> ScriptCall:
    """A host that was lost does not keep the others' news waiting."""
    return msgspec.structs.replace(call, connect_timeout_s=UNDO_CONNECT_TIMEOUT_S)


def _stage_error(stage: Stage, failures: list[tuple[HostAction, RemoteResult]]) -> StageFailedError | HostUnreachableError:
    told = _failed(stage, failures)
    if all(result.unreachable for _action, result in failures):
        return HostUnreachableError(told, hint=failure_hint(failures[0][1]))
    output = {result.host: text for _action, result in failures if (text := hook_text(result.stdout))}
    return StageFailedError(told, hint=failure_hint(failures[0][1]), output=output)


def _failed(stage: Stage, failures: list[tuple[HostAction, RemoteResult]]) -> str:
    """One host that failed is told by what was done there; several are listed below what was done on all of them. What the first one
    printed stands below it.
    """
    (action, first), *others = failures
    begin = f"{stage.title} failed on {first.host}" if others else f"{action.title} failed"
    more = "".join(f"\n  {result.host}: {failure_text(result)}" for _action, result in others)
    return f"{begin}: {failure_text(first)}{hook_output(first.stdout)}{more}"


def failure_text(result: RemoteResult) -> str:
    """Why a script did not succeed, in one line without the host's name."""
    if failure := explain_ssh_failure(result):
        return failure.message
    return _said(result, "MESSAGE") or _said(result, "REASON") or last_line(result.stderr) or f"exit code {result.returncode}"


def failure_hint(result: RemoteResult) -> str | None:
    """What to do about it, as far as that is known."""
    if failure := explain_ssh_failure(result):
        return failure.hint
    return _said(result, "HINT")


def _said(result: RemoteResult, key: str) -> str | None:
    """What a script answered; one whose output is something else, such as a log, answers on stderr."""
    return parse_answers(result.stdout).text(key) or parse_answers(result.stderr).text(key)


def last_line(text: str) -> str:
    """The last line that holds anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _interrupted(ledger: Ledger, keep: bool, left: tuple[str, ...]) -> str:
    if left:
        return f"interrupted; not everything could be undone on {', '.join(left)}"
    if keep and ledger.begun:
        return "interrupted; what was started is kept"
    return "interrupted; nothing of this launch is left running"
