from __future__ import annotations

import pytest

from tests.runtimes.serving import SNAPSHOT, Serve, lines

PLAIN = "model: org/m\nruntime: atlas\ncontainer: a:1\n"


def test_a_command_without_template(serve: Serve) -> None:
    recipe = PLAIN + "defaults: {port: 8888, tensor_parallel: 2, max_model_len: 4096, served_model_name: n, speculative: true}\n"
    assert serve(recipe).command.text == "spark serve org/m --tp-size 2 --max-seq-len 4096 --model-name n --port 8888 --speculative"


def test_the_snapshot_is_served_by_path(serve: Serve) -> None:
    assert serve(PLAIN, model=SNAPSHOT).command.text == f"spark serve {SNAPSHOT}"


def test_a_name_is_added_only_where_one_is_configured(serve: Serve) -> None:
    assert serve(PLAIN + "command: spark serve {model}\n").command.text == "spark serve org/m"
    assert serve(PLAIN + "command: spark serve {model}\n", "served_model_name=n").command.text == "spark serve org/m --model-name n"


def test_each_rank_is_told_its_place_and_workers_serve_nothing(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 2, port: 8000}\n")
    head, worker = (command.text for command in served.rank_commands(2))
    assert head == ("spark serve org/m --tp-size 2 --port 8000 --rank 0 --world-size 2 --master-addr 10.0.0.1 --master-port 29500")
    assert worker == ("spark serve org/m --tp-size 2 --port 0 --rank 1 --world-size 2 --master-addr 10.0.0.1 --master-port 29500")


def test_a_template_without_a_port_gives_its_workers_one(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 2}\ncommand: spark serve {model} --tp-size {tensor_parallel}\n")
    assert lines(served.added(2))[1].startswith("--port 0 --rank 1")


@pytest.mark.parametrize(
    ("defaults", "size"),
    [("{tensor_parallel: 2, ep_size: 2}", 2), ("{tensor_parallel: 2, expert_parallel: 1}", 2), ("{tensor_parallel: 1, ep_size: 2}", 2),
     ("{tensor_parallel: 2, ep_size: 4}", 8), ("{}", 1)],
)  # fmt: skip
def test_world_size(serve: Serve, defaults: str, size: int) -> None:
    served = serve(f"{PLAIN}defaults: {defaults}\n")
    assert served.runtime.world_size(served.config) == size


def test_it_wants_its_own_capabilities_and_no_entrypoint(serve: Serve) -> None:
    runtime = serve(PLAIN).runtime
    assert runtime.default_executor_config() == {"cap_add": ["IPC_LOCK", "SYS_NICE"], "entrypoint": ""}
    assert runtime.requires_capability() == "gb10"
    assert runtime.workers_wait
