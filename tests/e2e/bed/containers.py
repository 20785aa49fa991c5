"""Containers on test hosts, and what they answer to this machine."""

from __future__ import annotations

import http.client
import json
import shlex
from typing import NamedTuple

from tests.e2e.bed.host import Host

ENGINES = "sparkrun-e2e/engines:1"
PORT = 8123
ANSWER_TIMEOUT_S = 20


class Answer(NamedTuple):
    """What an HTTP server said; status 0 when nobody did."""

    status: int
    body: bytes


def start(host: Host, name: str, command: str, *, options: str = "--gpus all", image: str = ENGINES) -> None:
    """A container in the background, on the host's network, that stays when it has ended. ``options`` are more words for `docker run`."""
    host.docker("run", "--detach", "--init", "--network=host", "--name", name, *shlex.split(options), image, *shlex.split(command))


def ended(host: Host, name: str) -> tuple[int, str]:
    """Exit code and log of a container, once it has ended."""
    code = int(host.docker("wait", name))
    return code, host.inside("docker", "logs", name).out


def ask(host: Host, path: str, body: object = None, *, port: int = PORT) -> Answer:
    """GET, or POST with a JSON body, from this machine to a host."""
    connection = http.client.HTTPConnection(host.address, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    except OSError:
        return Answer(0, b"")
    finally:
        connection.close()


def healthy(host: Host, port: int = PORT) -> bool:
    """Whether the server on a port says that it is well."""
    return ask(host, "/health", port=port).status == 200
