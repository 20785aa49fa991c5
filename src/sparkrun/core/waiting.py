"""The wait of a launch: until it answers, or until what it waits for has ended; and the evidence of why."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import EngineDiedError, HostUnreachableError, LaunchFailedError, NotReadyError, SparkrunError, StageFailedError
from sparkrun.core.events import EngineLine, Step
from sparkrun.core.plan import LaunchPlan, RankPlan, Stage
from sparkrun.orchestration.apply import Ledger, apply_stage
from sparkrun.orchestration.causes import way_out
from sparkrun.orchestration.executor import Executor, LogView
from sparkrun.orchestration.guards import Guards, Loss
from sparkrun.orchestration.launch_record import LaunchRecord
from sparkrun.orchestration.ready import EVIDENCE_TIMEOUT_S, Evidence, Outcome, evidence_of, watch_ready
from sparkrun.utils.text import quoted_lines

SETTLE_S = 0.4
"""Ranks drag each other down: after the first has ended, the others are given this long to end too, so that their exit codes are known."""
CLOCK_SLACK_MS = 50
TOGETHER_MS = 1000
OWN_LINES = 20
PEER_LINES = 5
OTHERS_SHOWN = 3
OTHER_LINES = 4
READER_JOIN_S = 5
DOUBT_HINT = "what runs there may go on; once docker is back: sparkrun status, sparkrun stop"


# What engines and their collective libraries say when another rank has gone: NCCL, Gloo, Ray, MPI, sockets.
_PEER = re.compile(
    r"remote process exited|connection (?:was )?(?:reset|closed|refused|aborted)|broken pipe|went away|by peer"
    r"|peer (?:has )?(?:died|left|gone)"
    r"|lost connection|NCCL error|node .* (?:died|failed)|heartbeat",
    re.IGNORECASE,
)


class LaunchWait:
    """What waits for the stages of one launch and for its first answer, with guards by every rank that has begun."""

    def __init__(self, plan: LaunchPlan, executor: Executor, guards: Guards, record: LaunchRecord, sctx: SparkrunContext) -> None:
        self._plan, self._executor, self._guards, self._record, self._sctx = plan, executor, guards, record, sctx

    def apply(self, ledger: Ledger) -> None:
        """Every stage in turn. Raises ``LaunchFailedError`` with the last words of the ranks when one fails."""
        for number, stage in enumerate(self._plan.stages, start=1):
            self._sctx.emit(Step(number, len(self._plan.stages), stage.title))
            try:
                self._apply_stage(stage, ledger)
            except EngineDiedError:
                raise  # it holds the last words already
            except StageFailedError as error:
                self._record.output = error.output
                raise LaunchFailedError(error.message + self._last_words(), hint=error.hint) from error

    def answer(self, *, stream: bool) -> tuple[Outcome, int]:
        """The first answer, and how many lines of the engine's log were shown meanwhile. Raises why there is none."""
        ready = self._plan.ready
        assert ready is not None
        with self._engine_log(wanted=stream) as seen:
            outcome = self._record.outcome = watch_ready(ready, self._sctx.runner, self._guards.alarm)
        if outcome.ready:
            self._guards.settle()
        if self._guards.first:
            raise self._lost(self._guards.first)
        if not outcome.ready:
            raise self._not_ready(outcome)
        return outcome, seen[0]

    def look_at_ranks(self) -> None:
        """Write down how every rank is now."""
        self._evidence(self._plan.ranks)

    def _apply_stage(self, stage: Stage, ledger: Ledger) -> None:
        apply_stage(stage, ledger, self._sctx.runner, self._sctx.emit, self._guards.alarm)
        self._guards.stand_by(stage.guards)
        if self._guards.first:
            raise self._lost(self._guards.first)

    def _not_ready(self, outcome: Outcome) -> SparkrunError:
        head = self._plan.head
        if outcome.unreachable:
            return HostUnreachableError(f"{head.host} does not answer any more: {outcome.reason}")
        if outcome.died:
            return self._ended(head)
        if outcome.in_doubt:
            return HostUnreachableError(f"{outcome.message}: whether rank 0 runs there is not known", hint=DOUBT_HINT)
        evidence = self._evidence([head])[0]
        return NotReadyError(
            f"{self._plan.endpoint} is not ready: {outcome.explain()}; the engine's last lines:{_told(evidence.lines)}",
            hint=_hints(outcome.hint(), way_out(evidence.lines)),
        )

    def _lost(self, loss: Loss) -> SparkrunError:
        if loss.in_doubt:
            return HostUnreachableError(f"{loss.message}: whether rank {loss.rank} runs there is not known", hint=DOUBT_HINT)
        if loss.unreachable:
            return HostUnreachableError(f"{loss.host}, with rank {loss.rank}, does not answer any more: {loss.message}")
        return self._ended(self._plan.ranks[loss.rank])

    def _ended(self, seen_first: RankPlan) -> EngineDiedError:
        """Why the launch ended: the last lines of the rank that ended first, then what the others said."""
        if len(self._plan.ranks) > 1:
            time.sleep(SETTLE_S)
        asked_ms = time.time() * 1000
        seen = self._evidence(self._plan.ranks)
        first = first_cause(seen, ends_in_common(seen, asked_ms, time.time() * 1000), seen_first.rank)
        rank, own = self._plan.ranks[first], seen[first]
        others = [(other, evidence) for other, evidence in zip(self._plan.ranks, seen, strict=True) if other is not rank]
        message = f"the engine of rank {rank.rank} on {rank.host} ended{_how(own)} before it answered; its last lines:{_told(own.lines)}"
        return EngineDiedError(message + _others(others), hint=_hints(own.hint, way_out(own.lines)))

    def _evidence(self, ranks: Sequence[RankPlan]) -> list[Evidence]:
        calls = [(rank.host, self._executor.evidence_call(rank.name)) for rank in ranks]
        seen = [evidence_of(result) for result in self._sctx.runner.run_all(calls, timeout_s=EVIDENCE_TIMEOUT_S)]
        self._record.evidence.update({rank.rank: each for rank, each in zip(ranks, seen, strict=True)})
        return seen

    def _last_words(self) -> str:
        """The last lines of the ranks that have said something; there is nothing to say of one that was never started."""
        seen = zip(self._plan.ranks, self._evidence(self._plan.ranks), strict=True)
        return _others([(rank, evidence) for rank, evidence in seen if evidence.found])

    @contextmanager
    def _engine_log(self, *, wanted: bool) -> Iterator[list[int]]:
        """Emit the head's log lines meanwhile; the yielded list holds how many there were."""
        seen = [0]
        if not wanted:
            yield seen
            return
        stop = threading.Event()

        def show(text: str) -> None:
            seen[0] += 1
            self._sctx.emit(EngineLine(text))

        head = self._plan.head
        call = self._executor.logs_call(head.name, LogView(follow=True))
        reader = threading.Thread(
            target=self._sctx.runner.stream, args=(head.host, call, show), kwargs={"timeout_s": None, "stop": stop}, daemon=True
        )
        reader.start()
        try:
            yield seen
        finally:
            stop.set()
            reader.join(READER_JOIN_S)


def ends_in_common(seen: Sequence[Evidence], asked_ms: float, told_ms: float) -> list[float]:
    """When each rank ended, so that hosts can be compared; infinite for one that has not. ``asked_ms`` and ``told_ms`` bound, by the
    clock of this machine, when the hosts told.

    Where all clocks agree with ours, what they say counts. Else only how long ago it was counts, which is off by as much as one host
    told later than another.
    """
    clocks = [each.now_ms for each in seen if each.now_ms is not None]
    agree = all(asked_ms - CLOCK_SLACK_MS <= now <= told_ms + CLOCK_SLACK_MS for now in clocks)
    return [_end(each, 0 if agree else each.now_ms or 0) for each in seen]


def first_cause(seen: Sequence[Evidence], ends: Sequence[float], seen_first: int) -> int:
    """The rank that dragged the others down. An engine whose peer breaks off often ends faster than the peer itself, so among those that
    ended at about the same time one that does not speak of a peer comes first.
    """
    earliest = min(ends)
    close = [number for number, end in enumerate(ends) if end <= earliest + TOGETHER_MS]
    return min(close, key=lambda number: (_speaks_of_a_peer(seen[number]), ends[number], number != seen_first))


def _speaks_of_a_peer(evidence: Evidence) -> bool:
    return any(_PEER.search(line) for line in evidence.lines[-PEER_LINES:])


def _end(evidence: Evidence, since_ms: int) -> float:
    return float("inf") if evidence.ended_ms is None else evidence.ended_ms - since_ms


def _told(lines: Sequence[str]) -> str:
    return quoted_lines(lines[-OWN_LINES:])


def _hints(*hints: str | None) -> str | None:
    return "\n".join(hint for hint in hints if hint) or None


def _how(seen: Evidence) -> str:
    """The exit code. One that lives by now was started again, by its restart policy."""
    if seen.exit_code is not None:
        return f" with exit code {seen.exit_code}"
    return ", and was started again," if seen.found else ""


def _others(evidence: Sequence[tuple[RankPlan, Evidence]]) -> str:
    """A few lines of each rank that has said something, those that have ended first; never a wall of text."""
    told = sorted(((rank, seen) for rank, seen in evidence if seen.lines), key=lambda pair: pair[1].exit_code is None)
    more = len(told) - OTHERS_SHOWN
    return "".join(_other(rank, seen) for rank, seen in told[:OTHERS_SHOWN]) + (f"\n  and {more} more ranks" if more > 0 else "")


def _other(rank: RankPlan, seen: Evidence) -> str:
    code = "" if seen.exit_code is None else f" (exit code {seen.exit_code})"
    return f"\n  rank {rank.rank} on {rank.host}{code}:{_told(seen.lines[-OTHER_LINES:])}"
