"""A host on which podman answers to the name of docker."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.bed import Bed, Host, Options
from tests.e2e.bed.containers import ENGINES
from tests.e2e.bed.hardware import CDI
from tests.e2e.bed.images import ensure_archive
from tests.e2e.bed.state import IMAGES
from tests.e2e.conftest import Ended
from tests.e2e.launching import MODEL, chat, put_model
from tests.e2e.users import OWN_PROGRAM, typed_on

NEEDED = ("/usr/bin/podman", "/usr/libexec/podman/catatonit")
DOCKER = '#!/bin/sh\nexec /usr/bin/podman "$@"\n'
"""As in Debian's package podman-docker."""
SETTINGS = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
runc = ["/usr/local/sbin/runc", "/usr/local/bin/runc"]
"""
"""A host without systemd."""
STORAGE = '[storage]\ndriver = "overlay"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/docker/podman"\n'
"""On the one file system of a test host that can hold layers."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.parametrize("bed", [Options(count=1, binds=OWN_PROGRAM)], indirect=True, ids=["bed"]),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="not installed: podman catatonit"),
]
pytest_plugins = ["tests.e2e.bed.fixtures"]


@pytest.fixture
def host(bed: Bed) -> Host:
    (made,) = bed.hosts
    files = {"usr/local/bin/docker": DOCKER, "etc/cdi/nvidia.yaml": CDI, "etc/containers/containers.conf": SETTINGS}
    files["etc/containers/storage.conf"] = STORAGE
    for name, text in files.items():
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        (made.root / name).write_text(text)
    (made.root / "usr/local/bin/docker").chmod(0o755)
    made.load(ensure_archive(IMAGES, "engines"))
    recipe = {"model": MODEL, "runtime": "vllm-distributed", "container": ENGINES, "defaults": {"host": "0.0.0.0", "port": 8000}}
    (made.root / "root/recipe.yaml").write_text(json.dumps(recipe))
    put_model([made])
    return made


def run(host: Host, *words: str) -> Ended:
    return typed_on(host, "run", "/root/recipe.yaml", "-H", "127.0.0.1", "--no-follow", *words)


def podman(host: Host, *words: str) -> str:
    return host.inside("podman", *words).out


def test_podman_serves_tells_and_stops(host: Host) -> None:
    ran = run(host, "--json", "-e", "X_TOKEN=s3cr3t")
    assert ran.code == 0, ran.err
    assert "ready" in chat(host)
    (name,) = podman(host, "ps", "--format", "{{.Names}}").split()
    said = json.loads(podman(host, "inspect", name))[0]
    assert said["Config"]["Labels"]["sparkrun.distribution"] == "sparkrun"
    assert "s3cr3t" not in json.dumps(said)
    seen = json.loads(typed_on(host, "status", "--json", "-H", "127.0.0.1").out)["solo_entries"]
    assert [(entry["meta"]["state"], entry["status"]) for entry in seen] == [("ready", "running")]
    assert "Application startup complete" in typed_on(host, "logs", MODEL, "-H", "127.0.0.1").out
    again = run(host, "-e", "X_TOKEN=s3cr3t")
    assert (again.code, "runs already" in again.err) == (1, True)
    stopped = typed_on(host, "stop", MODEL, "-H", "127.0.0.1")
    assert stopped.code == 0, stopped.err
    assert podman(host, "ps", "--all", "--quiet") == ""


def test_an_engine_that_ends_under_podman_is_told_with_its_last_lines(host: Host) -> None:
    ran = run(host, "-e", "BED_CRASH_AFTER_S=0.5", "-e", "BED_LOAD_S=60", "-e", "BED_CODE=7")
    assert (ran.code, "ended with exit code 7" in ran.err, "told to fail" in ran.err) == (1, True, True), ran.err
    assert podman(host, "ps", "--all", "--quiet") == ""


def test_hooks_run_in_a_container_of_podman(host: Host) -> None:
    recipe = json.loads((host.root / "root/recipe.yaml").read_text())
    (host.root / "root/recipe.yaml").write_text(json.dumps({**recipe, "pre_exec": ["echo prepared >/tmp/prepared"]}))
    ran = run(host)
    assert ran.code == 0, ran.err
    (name,) = podman(host, "ps", "--format", "{{.Names}}").split()
    assert podman(host, "exec", name, "cat", "/tmp/prepared") == "prepared\n"
    assert typed_on(host, "stop", "--all", "-H", "127.0.0.1").code == 0


def test_podman_tries_a_changed_launch_before_it_replaces_what_runs(host: Host) -> None:
    assert run(host).code == 0
    before = podman(host, "ps", "--quiet", "--no-trunc")
    refused = run(host, "--executor-args=--nope")
    assert (refused.code, "unknown flag: --nope" in refused.err, "goes on as it was" in refused.err) == (1, True, True), refused.err
    assert podman(host, "ps", "--all", "--quiet", "--no-trunc") == before
    changed = run(host, "-e", "SOMETHING=else")
    assert changed.code == 0, changed.err
    assert podman(host, "ps", "--all", "--quiet", "--no-trunc") not in ("", before)
    assert len(podman(host, "ps", "--all", "--quiet").split()) == 1
    assert typed_on(host, "logs", MODEL, "--since", "1h", "-n", "1", "-H", "127.0.0.1").out
    assert typed_on(host, "stop", "--all", "-H", "127.0.0.1").code == 0


def test_an_image_that_podman_lacks_is_named(host: Host) -> None:
    ran = run(host, "--image", "sparkrun-e2e/engines:nope", "--offline")
    assert (ran.code, "sparkrun-e2e/engines:nope" in ran.err) == (1, True), ran.err
