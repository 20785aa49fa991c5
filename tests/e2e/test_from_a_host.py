"""A launch that is typed on one of its own hosts, which is then named by its loopback address."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.bed import Bed, Options
from tests.e2e.bed.containers import ENGINES
from tests.e2e.launching import MODEL, chat, engine_call, put_model
from tests.e2e.users import OWN_PROGRAM, typed_on

OPTIONS = Options(count=2, binds=OWN_PROGRAM)
SSH_CONFIG = """\
Host {address}
  User {user}
  IdentityFile {key}
  StrictHostKeyChecking accept-new
"""

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("bed", [OPTIONS], indirect=True, ids=["bed"])]
pytest_plugins = ["tests.e2e.bed.fixtures"]


@pytest.mark.parametrize("runtime", ["vllm-distributed", "vllm-ray", "sglang"])
def test_p7_no_other_node_hears_of_loopback(bed: Bed, runtime: str) -> None:
    here, other = bed.hosts
    put_model(bed.hosts)
    (here.root / "root/.ssh").mkdir(parents=True, exist_ok=True)
    (here.root / "root/.ssh/config").write_text(
        SSH_CONFIG.format(address=other.address, user=other.user, key=f"{here.home}/.ssh/id_ed25519")
    )
    recipe: dict[str, Any] = {"model": MODEL, "runtime": runtime, "container": ENGINES, "defaults": {"host": "0.0.0.0", "port": 8000}}
    (here.root / "root/recipe.yaml").write_text(json.dumps(recipe))
    hosts = ("-H", f"127.0.0.1,{other.address}")
    ran = typed_on(here, "run", "/root/recipe.yaml", *hosts, "--tp", "2", "--json", "--no-follow")
    assert ran.code == 0, ran.err
    assert ran.json["endpoint"] == "http://127.0.0.1:8000/v1"
    assert "ready" in chat(here)
    (name,) = other.docker("ps", "--format", "{{.Names}}").split()
    (own,) = here.docker("ps", "--format", "{{.Names}}").split()
    call = engine_call(other, name, {"vllm-ray": "ray", "sglang": "sglang"}.get(runtime, "vllm"))
    told = {**call.env, "argv": " ".join(call.argv), "container": json.dumps(json.loads(other.docker("inspect", name))[0]["Config"]["Env"])}
    assert not {name: text for name, text in told.items() if "127.0.0.1" in text or "localhost" in text or "::1" in text}
    assert here.address in " ".join(call.argv)
    assert engine_call(here, own, "sglang" if runtime == "sglang" else "vllm").env["NODE_IP"] == here.address
    stopped = typed_on(here, "stop", "--all", *hosts)
    assert stopped.code == 0, stopped.err
