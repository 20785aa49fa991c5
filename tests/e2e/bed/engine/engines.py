"""What each engine makes of its command line: whom its ranks meet, what it needs, what it serves."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.e2e.bed.engine import ray_cluster
from tests.e2e.bed.engine.arguments import Arguments, EngineError, parse
from tests.e2e.bed.engine.checks import check_gpus, check_model, check_network, gpu_count
from tests.e2e.bed.engine.knobs import Knobs, misbehaviour
from tests.e2e.bed.engine.meeting import Meeting, meet
from tests.e2e.bed.engine.record import die, log
from tests.e2e.bed.engine.serving import Service, serve, wait_for_end

FLAGS = Path(__file__).parent / "flags"


class Job(NamedTuple):
    """One process of an engine. ``service`` is ``None`` for a rank that answers nobody."""

    rank: int
    model: str
    service: Service | None
    meetings: tuple[Meeting, ...] = ()
    gpus: int = 0
    """Accelerators it wants on this node; 0 for an engine that needs none."""
    ray_gpus: int = 0
    """Accelerators it wants from a Ray cluster."""
    servers: tuple[tuple[str, int], ...] = ()
    """Others that it has to reach."""
    files: tuple[str, ...] = ()
    """What it reads besides the model."""


def run_engine(name: str, argv: list[str], knobs: Knobs) -> None:
    """Check, meet, load, serve. Raises ``EngineError``."""
    args = parse(argv)
    if not knobs.any_flag and (FLAGS / f"{name}.txt").exists():
        args.refuse_unknown(name, frozenset((FLAGS / f"{name}.txt").read_text().split()))
    job = ENGINES[name](args)
    own = misbehaviour(knobs, job.rank)
    if own.crash_after_s >= 0:
        threading.Timer(own.crash_after_s, die, (own.text, own.code)).start()
    _check(job, knobs)
    for meeting in job.meetings:
        meet(meeting, knobs.join_s)
    _load(job.model, own)
    if job.service is None:
        wait_for_end()
    else:
        serve(job.service, own)


def _check(job: Job, knobs: Knobs) -> None:
    check_network(os.environ)
    if job.gpus:
        check_gpus(job.gpus, gpu_count(os.environ, knobs.gpus))
    if job.model and not knobs.any_model:
        check_model(job.model, os.environ)
    for path in job.files:
        if not Path(path).is_file():
            raise EngineError(f"FileNotFoundError: {path} is not here")
    for host, port in job.servers:
        try:
            socket.create_connection((host, port), 5).close()
        except OSError as error:
            raise EngineError(f"Failed to connect to {host}:{port}: {error}") from None
    if job.ray_gpus:
        _check_ray(job.ray_gpus)


def _check_ray(wanted: int) -> None:
    found = sum(node.gpus for node in ray_cluster.nodes())
    if found < wanted:
        raise EngineError(f"ValueError: the Ray cluster has {found} GPUs, the placement group needs {wanted}")


def _load(model: str, knobs: Knobs) -> None:
    for number in range(knobs.log_lines):
        log(f"INFO loader.py:{number} Loading safetensors checkpoint shards: {100 * number // knobs.log_lines}% of {model}")
    if knobs.hang:
        log(f"INFO loading {model}")
        wait_for_end()
    time.sleep(knobs.load_s)
    log(f"INFO model {model} loaded")


# --- vLLM ---------------------------------------------------------------------------------------------------------------------------------


def vllm(args: Arguments) -> Job:
    """``vllm serve MODEL``: one engine over several nodes, or several engines (data parallel) that share requests."""
    model = args.text("--model") or _second_word(args, "vllm", "serve")
    size = args.whole("--tensor-parallel-size", "-tp", default=1) * args.whole("--pipeline-parallel-size", "-pp", default=1)
    nodes, rank = args.whole("--nnodes", "-n", default=1), args.whole("--node-rank", "-r", default=0)
    on_ray = args.text("--distributed-executor-backend") == "ray"
    if size % nodes:
        raise EngineError(f"AssertionError: World size ({size}) must be divisible by nnodes ({nodes})")
    if rank and not args.has("--headless"):
        raise EngineError(f"ValueError: node rank {rank} serves no requests: start it with --headless")
    service = Service(
        names=args.flags.get("--served-model-name") or (model,),
        host=args.text("--host", default="0.0.0.0"),
        port=args.whole("--port", default=8000),
        api_key=args.text("--api-key", default=os.environ.get("VLLM_API_KEY", "")),
        pooling=args.text("--runner") == "pooling" or args.text("--task") in {"embed", "score", "rank"} or args.has("--convert"),
    )
    data = _data_parallel(args, model)
    master = args.text("--master-addr"), args.whole("--master-port", default=29501)
    return Job(
        rank=rank or data.rank,
        model=model,
        service=None if args.has("--headless") else service,
        meetings=(Meeting("vllm", rank, nodes, *master, f"world {size} of {model}"), *((data,) if rank == 0 else ())),
        gpus=0 if on_ray else size * _local_engines(args) // nodes,
        ray_gpus=size if on_ray else 0,
    )


def _local_engines(args: Arguments) -> int:
    """Engines of this process: all of them when there is nobody to meet."""
    alone = not args.has("--data-parallel-address", "-dpa", "--data-parallel-rank", "-dpn")
    return args.whole("--data-parallel-size-local", "-dpl", default=args.whole("--data-parallel-size", "-dp", default=1) if alone else 1)


def _data_parallel(args: Arguments, model: str) -> Meeting:
    """Heads of the data-parallel engines. One node may hold several, which are one process."""
    size, local = args.whole("--data-parallel-size", "-dp", default=1), args.whole("--data-parallel-size-local", "-dpl", default=0)
    start = args.whole("--data-parallel-start-rank", "-dpr", default=0)
    rank = args.whole("--data-parallel-rank", "-dpn", default=start // local if local else 0)
    processes = size // local if local else size
    if not args.has("--data-parallel-address", "-dpa"):
        processes = 1
    return Meeting(
        "vllm data parallel",
        rank,
        processes,
        args.text("--data-parallel-address", "-dpa"),
        args.whole("--data-parallel-rpc-port", "-dpp", default=13345),
        f"{size} engines of {model}",
    )


# --- SGLang -------------------------------------------------------------------------------------------------------------------------------


def sglang(args: Arguments) -> Job:
    """``sglang serve`` and ``python3 -m sglang.launch_server``. A rank that is not the head answers for its health alone."""
    model = args.text("--model-path", "--model")
    if not model:
        raise EngineError("sglang: error: the following arguments are required: --model-path/--model", 2)
    tensor = args.whole("--tp-size", "--tp", "--tensor-parallel-size", default=1)
    data = args.whole("--dp-size", "--dp", "--data-parallel-size", default=1)
    attention = args.has("--enable-dp-attention")
    if attention and tensor % data:
        raise EngineError(f"AssertionError: tp_size {tensor} must be divisible by dp_size {data}")
    size = tensor * args.whole("--pp-size", "--pp", "--pipeline-parallel-size", default=1) * (1 if attention else data)
    nodes, rank = args.whole("--nnodes", default=1), args.whole("--node-rank", default=0)
    if size % nodes:
        raise EngineError(f"AssertionError: tp_size * pp_size ({size}) must be divisible by number of nodes ({nodes})")
    address, _, port = args.text("--dist-init-addr", "--nccl-init-addr").rpartition(":")
    service = Service(
        names=args.flags.get("--served-model-name") or (model,),
        host=args.text("--host", default="127.0.0.1"),
        port=args.whole("--port", default=30000),
        api_key=args.text("--api-key"),
        pooling=args.has("--is-embedding"),
        any_model=True,
        health_only=rank > 0,
    )
    meeting = Meeting("sglang", rank, nodes, address.strip("[]"), int(port or 0), f"world {size} of {model}")
    return Job(rank=rank, model=model, service=service, meetings=(meeting,), gpus=size // nodes)


# --- Atlas, Tokenary, MAX -----------------------------------------------------------------------------------------------------------------


def ranked(program: str, default_port: int) -> Callable[[Arguments], Job]:
    """``spark serve MODEL`` and ``tokenary serve MODEL``: ``--rank r --world-size W``; only rank 0 serves."""

    def job(args: Arguments) -> Job:
        model = args.text("--model") or _second_word(args, program, "serve")
        rank, size = args.whole("--rank", default=0), args.whole("--world-size", default=1)
        port = args.whole("--port", default=default_port)
        service = Service(
            names=(args.text("--model-name", "--served-model-name", default=model),),
            host=args.text("--host", default="0.0.0.0"),
            port=port,
            api_key=args.text("--auth-token", "--api-key", default=os.environ.get("ATLAS_AUTH_TOKEN", "")),
            any_model=True,
        )
        meeting = Meeting(program, rank, size, args.text("--master-addr"), args.whole("--master-port", default=0), model)
        return Job(rank=rank, model=model, service=service if rank == 0 and port else None, meetings=(meeting,), gpus=1)

    return job


def modular_max(args: Arguments) -> Job:
    """``max serve``, on one node."""
    model = args.text("--model", "--model-path")
    service = Service(
        (args.text("--served-model-name", default=model),), args.text("--host", default="0.0.0.0"), args.whole("--port", default=8000)
    )
    return Job(rank=0, model=model, service=service, gpus=max(1, args.text("--devices").count(",") + 1))


# --- llama.cpp ----------------------------------------------------------------------------------------------------------------------------


def llama_server(args: Arguments) -> Job:
    """``llama-server``: needs a file, or a hub model; reaches its RPC servers before it loads."""
    path, hub = args.text("-m", "--model"), args.text("-hf", "-hfr", "--hf-repo")
    if not path and not hub:
        raise EngineError("error: no model is given: -m FILE or -hf REPO")
    servers = tuple(_endpoint(each) for each in args.text("--rpc").split(",") if each)
    service = Service(
        names=(args.text("-a", "--alias", default=path or hub),),
        host=args.text("--host", default="127.0.0.1"),
        port=args.whole("--port", default=8080),
        api_key=args.text("--api-key", default=os.environ.get("LLAMA_API_KEY", "")),
        pooling=args.has("--embedding", "--embeddings"),
        any_model=True,
    )
    return Job(rank=0, model=path, service=service, servers=servers, files=tuple(filter(None, (args.text("-mm", "--mmproj"),))))


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


# --- TensorRT-LLM -------------------------------------------------------------------------------------------------------------------------


def trtllm(args: Arguments) -> Job:
    """``trtllm-serve MODEL``: over several nodes it is started by ``mpirun``, and its ranks meet at the first one."""
    words = args.words[1:] if args.words[:1] == ("serve",) else args.words
    if not words:
        raise EngineError("Usage: trtllm-serve serve [OPTIONS] MODEL\n\nError: Missing argument 'MODEL'.", 2)
    size = args.whole("--tp-size", default=1) * args.whole("--pp-size", default=1)
    rank, ranks = (int(os.environ.get(f"OMPI_COMM_WORLD_{name}", default)) for name, default in (("RANK", "0"), ("SIZE", "1")))
    if size != ranks:
        raise EngineError(f"RuntimeError: world size {ranks} is not tp_size * pp_size ({size})")
    address, _, port = os.environ.get("BED_MPI_MEETING", "").rpartition(":")
    service = Service(
        names=(args.text("--served-model-name", default=words[0]),),
        host=args.text("--host", default="localhost"),
        port=args.whole("--port", default=8000),
        any_model=True,
    )
    return Job(
        rank=rank,
        model=words[0],
        service=service if rank == 0 else None,
        meetings=(Meeting("trtllm", rank, ranks, address, int(port or 0), f"world {size} of {words[0]}"),),
        gpus=1,
        files=tuple(filter(None, (args.text("--extra-llm-api-options", "--config"),))),
    )


def _second_word(args: Arguments, program: str, verb: str) -> str:
    if args.words[:1] != (verb,):
        raise EngineError(f"{program}: error: argument subparser: invalid choice: {args.words[:1]} (choose from '{verb}')", 2)
    if len(args.words) != 2:
        raise EngineError(f"{program} {verb}: error: one model is wanted, given: {' '.join(args.words[1:]) or 'none'}", 2)
    return args.words[1]


ENGINES: dict[str, Callable[[Arguments], Job]] = {
    "vllm": vllm,
    "sglang": sglang,
    "spark": ranked("spark", 8888),
    "tokenary": ranked("tokenary", 8000),
    "max": modular_max,
    "llama-server": llama_server,
    "trtllm-serve": trtllm,
}
"""By the name of the program."""
