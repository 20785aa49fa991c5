"""Writes down how a process was started: never into the log, which must not hold what its environment does."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

RECORD = "/tmp/bed-engine.jsonl"


def record(program: str, argv: list[str]) -> None:
    """One more line, in a file that every user of the container can write to."""
    call = {
        "program": program,
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109
        "uid": os.getuid(),
        "host": socket.gethostname(),
    }
    try:
        descriptor = os.open(RECORD, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        log(f"WARNING how this was called is not written down: {error}")
        return
    with os.fdopen(descriptor, "w") as stream:
        stream.write(json.dumps(call) + "\n")


def log(text: str) -> None:
    """A line of the engine's log."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def die(text: str, code: int = 1) -> None:
    """Last words, and the end, from any thread."""
    log(text)
    sys.stdout.flush()
    os._exit(code)
