"""A stream handed on from host to host: the script for the first of them, and what all of them said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.core.routes import Link
from sparkrun.scripts import split_script, whole_script
from sparkrun.utils.shell import quote

SIGPIPE_CODE = "141"
"""How a feed ends that nobody listens to any more: the fault is with those who took."""


def relay_call(first: str, sinks: Sequence[tuple[str, ScriptCall]], links: Sequence[Link], *, idle_s: float, feed: str = "") -> ScriptCall:
    """What ``first`` runs so that all ``sinks`` get the stream: its own one too, when it is among them, and the others along ``links``.

    The stream is the output of ``feed`` (bash) on ``first``, or what comes on its stdin. All sinks run the same script. A host where
    nothing moves for ``idle_s`` gives up.
    """
    calls = dict(sinks)
    name = sinks[0][1].name
    hosts = (first, *(link.target for link in links))
    params = {
        "TEXT": whole_script("relay"),
        "SINK": whole_script(name),
        "FEED": feed,
        "LIFELINE": "1" if feed else "",
        "IDLE_S": str(round(idle_s)),
        "HOSTS": hosts,
        "VALUES": tuple(split_script(name, calls[host].params)[0] if host in calls else "" for host in hosts),
        "WAYS": ("", *(" ".join(quote(word) for word in link.way) for link in links)),
    }
    return ScriptCall("relay", params)


class Heard(msgspec.Struct):
    """What a chain of hosts has said so far, line by line."""

    lines: dict[str, list[str]]
    bytes_done: int = 0

    def take(self, line: str) -> None:
        """A line as ``relay.sh`` prints it; what is none is dropped."""
        host, tab, said = line.partition("\t")
        if not tab or host not in self.lines:
            return
        key, _equals, value = said.partition("=")
        if key == "BYTES" and value.isdecimal():
            self.bytes_done = max(self.bytes_done, int(value))
        else:
            self.lines[host].append(said)


def listen_to(hosts: Iterable[str]) -> Heard:
    """Nothing heard yet of any of the hosts."""
    return Heard({host: [] for host in hosts})


def relay_results(heard: Heard, whole: RemoteResult, hosts: Sequence[str], targets: Iterable[str]) -> tuple[RemoteResult, ...]:
    """How it ended on each target. ``hosts`` is the chain, and ``whole`` how the script of its first host ended.

    A target that never said how it ended was lost, or somebody before it was: the first of them says why.
    """
    return tuple(_result(host, heard, whole, hosts) for host in targets)


def _result(host: str, heard: Heard, whole: RemoteResult, hosts: Sequence[str]) -> RemoteResult:
    said = heard.lines[host]
    returned = _value(said, "RETURNED")
    if returned is not None:
        text = "\n".join(said) if returned == "0" else _with_cause(said, heard, hosts)
        return RemoteResult(host, int(returned), text, connected=True, began=True)
    if not whole.ok and not whole.stdout and host == hosts[0]:
        return msgspec.structs.replace(whole, host=host)
    ssh = "\n".join(line.removeprefix("SSH=") for line in said if line.startswith("SSH="))
    return RemoteResult(host, 255, "\n".join(said), ssh or _why_lost(host, heard, whole, hosts), unreachable=True)


def _with_cause(said: Sequence[str], heard: Heard, hosts: Sequence[str]) -> str:
    """What a target said of its failure; where the stream ended early at its source, that is why."""
    source = heard.lines[hosts[0]]
    complaint, code = _value(source, "FEED_SAID"), _value(source, "FEED")
    if not complaint or code in (None, SIGPIPE_CODE):
        return "\n".join(said)
    return f"REASON=source_failed\nMESSAGE={hosts[0]} could not read it: {complaint}"


def _why_lost(host: str, heard: Heard, whole: RemoteResult, hosts: Sequence[str]) -> str:
    for before in hosts[: hosts.index(host)]:
        said = heard.lines[before]
        if feed := _value(said, "FEED_SAID") or _value(said, "FEED"):
            return f"{before} could not read it: {feed}"
        if _value(said, "LOST") is not None:
            return f"{before}, which it came through, was lost"
    if still := next((each for each in hosts[: hosts.index(host) + 1] if _value(heard.lines[each], "STALLED")), None):
        return f"nothing moved through {still} any more"
    return whole.stderr.strip() or f"the stream through {hosts[0]} ended early"


def _value(lines: Iterable[str], key: str) -> str | None:
    found = [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]
    return found[-1] if found else None
