"""Several jobs at the same time, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sparkrun.utils.fanout import LOOK_UP_S

T = TypeVar("T")
GRACE_S = 2.0


def run_together(jobs: Sequence[Callable[[threading.Event], T]]) -> tuple[T, ...]:
    """Run all of them to their ends; results in the given order.

    Each is given the event that tells it to stop: it is set when this is left early, by Ctrl-C or because a job raised; they have
    ``GRACE_S`` for it then. The first exception is raised here.
    """
    stop = threading.Event()
    if len(jobs) == 1:
        return (jobs[0](stop),)
    running = [_Running(job) for job in jobs]
    try:
        for each in running:
            threading.Thread(target=each.run, args=(stop,), daemon=True).start()
        return tuple(each.result() for each in running)
    finally:
        stop.set()
        deadline = time.monotonic() + GRACE_S
        for each in running:
            each.done.wait(max(0.0, deadline - time.monotonic()))


class _Running(Generic[T]):
    def __init__(self, job: Callable[[threading.Event], T]) -> None:
        self._job = job
        self.done = threading.Event()
        self._ended: list[T] = []
        self._error: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            self._ended.append(self._job(stop))
        except BaseException as error:  # noqa: BLE001 - a thread of its own: it is raised where the result is asked for
            stop.set()
            self._error = error
        self.done.set()

    def result(self) -> T:
        while not self.done.wait(LOOK_UP_S):
            pass
        if self._error is not None:
            raise self._error
        return self._ended[0]
