"""A Ray cluster as far as a launch sees it: a head that counts its nodes, `ray status`, and what `import ray` gives."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.e2e.bed.engine.arguments import Arguments, EngineError, parse
from tests.e2e.bed.engine.checks import check_network, gpu_count, is_own
from tests.e2e.bed.engine.knobs import Knobs, misbehaviour
from tests.e2e.bed.engine.record import die, log

ADDRESS_FILE = Path("/tmp/bed-ray-address")
START_TIMEOUT_S = 10


class Node(NamedTuple):
    """A live node."""

    address: str
    gpus: int


def ray(argv: list[str], knobs: Knobs) -> None:
    """``ray start``, ``status`` and ``stop``."""
    verb = argv[0] if argv else ""
    if verb == "start":
        _start(parse(argv[1:]), knobs)
    elif verb == "status":
        _status()
    elif verb != "stop":
        raise EngineError(f"Error: No such command '{verb}'.", 2)


def nodes() -> list[Node]:
    """Those of the cluster that ``RAY_ADDRESS`` or this container's own ``ray start`` names; none without one."""
    told = os.environ.get("RAY_ADDRESS", "")
    if told in {"", "auto"}:
        told = ADDRESS_FILE.read_text() if ADDRESS_FILE.exists() else ""
    host, _, port = told.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 5) as head:
            head.sendall(b"list\n")
            return [Node(*each) for each in json.loads(head.makefile().readline())]
    except (OSError, ValueError):
        return []


def _start(args: Arguments, knobs: Knobs) -> None:
    own = args.text("--node-ip-address")
    if own and not is_own(own):
        raise EngineError(f"ValueError: the node ip address {own} is no address of this host")
    check_network(os.environ)
    gpus = gpu_count(os.environ, knobs.gpus)
    head = args.has("--head")
    rank_knobs = misbehaviour(knobs, 0 if head else 1)
    if rank_knobs.crash_after_s >= 0 and args.has("--block"):
        threading.Timer(rank_knobs.crash_after_s, die, (rank_knobs.text, rank_knobs.code)).start()
    if head:
        port = args.whole("--port", default=6379)
        _in_background(args, lambda: _head(own or "127.0.0.1", port, gpus), (own or "127.0.0.1", port))
        return
    host, _, port_text = args.text("--address").rpartition(":")
    address = (host.strip("[]"), int(port_text or 0))
    _in_background(args, lambda: _worker(own, gpus, address, knobs.join_s), address)


def _in_background(args: Arguments, work: Callable[[], None], where: tuple[str, int]) -> None:
    """Ray's own processes go on when `ray start` has ended, unless it is to block."""
    ADDRESS_FILE.write_text(f"{where[0]}:{where[1]}")
    if args.has("--block"):
        work()
    if os.fork() == 0:
        os.setsid()
        work()
        os._exit(1)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not nodes():
        if time.monotonic() > deadline:
            raise EngineError(f"RuntimeError: Ray did not start within {START_TIMEOUT_S} s")
        time.sleep(0.05)
    print("Ray runtime started.", flush=True)


def _head(own: str, port: int, gpus: int) -> None:
    joined: dict[int, Node] = {0: Node(own, gpus)}
    try:
        server = socket.create_server(("", port), family=socket.AF_INET6 if ":" in own else socket.AF_INET, backlog=64)
    except OSError as error:
        die(f"RuntimeError: Ray cannot listen on port {port}: {error.strerror}")
        return
    log(f"INFO Ray head at {own}:{port}")
    number = 0
    while True:
        number += 1
        peer, _ = server.accept()
        threading.Thread(target=_attend, args=(peer, number, joined), daemon=True).start()


def _attend(peer: socket.socket, number: int, joined: dict[int, Node]) -> None:
    with peer:
        try:
            line = peer.makefile().readline().strip()
            if line == "list":
                peer.sendall((json.dumps(list(joined.values())) + "\n").encode())
            elif line:
                joined[number] = Node(*json.loads(line))
                log(f"INFO node {joined[number].address} joined, {len(joined)} alive")
                while peer.recv(64):
                    pass
        except (OSError, ValueError):
            pass
        if (gone := joined.pop(number, None)) is not None:
            log(f"WARNING node {gone.address} left, {len(joined)} alive")


def _worker(own: str, gpus: int, address: tuple[str, int], join_s: float) -> None:
    head = _connect(address, time.monotonic() + join_s)
    head.sendall((json.dumps(Node(own or head.getsockname()[0], gpus)) + "\n").encode())
    log(f"INFO joined the Ray head at {address[0]}:{address[1]}")
    head.settimeout(None)
    try:
        while head.recv(64):
            pass
    except OSError:
        pass
    die("ERROR the Ray head went away")


def _connect(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, 2)
        except OSError as error:
            if time.monotonic() > deadline:
                die(f"RuntimeError: cannot reach the Ray head at {address[0]}:{address[1]}: {error}")
            time.sleep(0.1)


def _status() -> None:
    found = nodes()
    if not found:
        raise EngineError("ConnectionError: Could not find any running Ray instance.")
    gpus = float(sum(node.gpus for node in found))
    print("======== Autoscaler status ========\nNode status\n" + "-" * 63 + "\nActive:")
    print("".join(f" 1 node_{number:04x}\n" for number in range(len(found))) + "Pending:\n (no pending nodes)")
    print(f"Resources\n{'-' * 63}\nUsage:\n 0.0/{20.0 * len(found)} CPU\n 0.0/{gpus} GPU")
    sys.stdout.flush()
