"""``python -m tests.e2e.launch_times``: from `sparkrun run` to ready with everything in place, on 1, 2, 4 and 8 test hosts.

The engine loads in 1 s. Each launch is by a user with a home of its own, so that its connections are cold.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.e2e.bed import Bed, Host, Options, down, up
from tests.e2e.launching import Operator, put_model

COUNTS = (1, 2, 4, 8)
ROUNDS = 3
RUNTIME = "vllm-distributed"


def main() -> None:
    """Bring hosts up, print the table, take them down."""
    with tempfile.TemporaryDirectory(prefix="bed") as folder:
        bed = up(Options(count=max(COUNTS)), folder=Path(folder))
        try:
            show(bed)
        finally:
            down(Path(folder))


def show(bed: Bed) -> None:
    """A line for each number of hosts."""
    put_model(bed.hosts)
    print(f"{'hosts':>5}  {'best s':>6}  all rounds, s")
    for count in COUNTS:
        taken = [launch(bed, bed.hosts[:count]) for _ in range(ROUNDS)]
        print(f"{count:>5}  {min(taken):>6.2f}  {', '.join(f'{each:.2f}' for each in taken)}", flush=True)


def launch(bed: Bed, hosts: tuple[Host, ...]) -> float:
    """How long one launch takes."""
    with tempfile.TemporaryDirectory(prefix="h") as home:
        user = Operator(Path(home), bed)
        recipe, began = user.write(RUNTIME), time.monotonic()
        user.run(recipe, hosts, "--tp", str(len(hosts)), "-e", "BED_LOAD_S=1")
        taken = time.monotonic() - began
        bed.restore()
        return taken


if __name__ == "__main__":
    main()
