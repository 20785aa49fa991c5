"""The stand-in engine: the program that it is called as decides what it does."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.e2e.bed.engine import mpi, ray_cluster, rpc
from tests.e2e.bed.engine.arguments import EngineError
from tests.e2e.bed.engine.engines import ENGINES, run_engine
from tests.e2e.bed.engine.knobs import Knobs, take_knobs
from tests.e2e.bed.engine.record import die, log, record


def main(program: str = "") -> None:
    """Until the engine ends; never returns otherwise."""
    name, argv = program or Path(sys.argv[0]).name, sys.argv[1:]
    if argv[:1] == ["--version"]:
        print(f"{name} 0.0.0+standin")
        return
    if name != "ray" or argv[:1] == ["start"]:
        record(name, argv)
    try:
        if name == "orted":
            mpi.orted(argv)
            return
        knobs, argv = take_knobs(argv, {key: value for key, value in os.environ.items() if key != "BED_MPI_MEETING"})
        signal.signal(signal.SIGTERM, signal.SIG_IGN if knobs.ignore_term else _stop)
        _run(name, argv, knobs)
    except EngineError as error:
        die(str(error), error.code)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(name: str, argv: list[str], knobs: Knobs) -> None:
    if name == "ray":
        ray_cluster.ray(argv, knobs)
    elif name == "mpirun":
        mpi.mpirun(argv, knobs)
    elif name == "rpc-server":
        rpc.rpc_server(argv)
    elif name == "trtllm-llmapi-launch":
        os.execvp(argv[0], argv)
    elif name in ENGINES:
        run_engine(name, argv, knobs)
    else:
        raise EngineError(f"the stand-in engine is no '{name}'", 127)


def _stop(*_: object) -> None:
    log("INFO Shutting down")
    os._exit(0)
