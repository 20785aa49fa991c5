"""Doing what was planned to be brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.events import ignore_events
from sparkrun.core.plan import Transfer
from sparkrun.core.remote import RemoteResult
from sparkrun.models.files import HubFile
from sparkrun.models.hub import Snapshot, keep_action
from sparkrun.orchestration.distribution import distribute
from sparkrun.orchestration.relay import listen_to, relay_results
from sparkrun.orchestration.transfer_locks import holding_transfers
from sparkrun.testing import FakeCluster


def test_what_needs_no_bytes_is_put_in_place_all_the_same(tmp_path: Path) -> None:
    cluster = FakeCluster("spark-1", root=tmp_path)
    cluster["spark-1"].arriving.add("org/m")
    keep = keep_action("spark-1", "/hub", Snapshot("org/m", "0" * 40, (HubFile("m.safetensors", 1, "w"),)))
    transfer = Transfer(title="model", kind="model", what="org/m", way="copy", source="spark-2", finish=(keep,))

    assert distribute([transfer], cluster, ignore_events, cluster.sctx.config.paths) == ()

    assert "org/m" in cluster["spark-1"].models


def test_a_way_to_a_host_that_breaks_is_raised_where_its_lock_is_waited_for(tmp_path: Path) -> None:
    cluster = FakeCluster("spark-1", root=tmp_path)

    def broken() -> None:
        raise RuntimeError("no way there")

    cluster["spark-1"].on("transfer_lock", broken)
    keep = keep_action("spark-1", "/hub", Snapshot("org/m", "0" * 40, ()))
    transfer = Transfer(title="model", kind="model", what="org/m", way="copy", finish=(keep,))

    with pytest.raises(RuntimeError, match="no way there"), holding_transfers([transfer], cluster, ignore_events):
        pass


def test_a_stream_that_stood_still_is_told_with_the_host_where_it_did() -> None:
    heard = listen_to(("a", "b", "c"))
    heard.take("b\tSTALLED=1")
    ended = RemoteResult("a", 0)

    told = {result.host: result.stderr for result in relay_results(heard, ended, ("a", "b", "c"), ("b", "c"))}

    assert told == dict.fromkeys("bc", "nothing moved through b any more")
