"""A `llama-server` for machines without one: llama.cpp's own server out of the Python package xllamacpp, started with llama-server's flags.

    python -m sparkrun.embedded.llama_server -m model.gguf --alias tiny --port 8080

Two processes: xllamacpp holds the interpreter for as long as it loads a model, so the engine runs in a child, and the parent, which
does nothing but wait, can answer a signal at any moment and say how the engine ended.
"""

import contextlib
import ctypes
import importlib
import importlib.metadata
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparkrun.embedded.errors import FAILED, WRONG_USAGE, LauncherError
from sparkrun.embedded.gguf_hub import HubModel, HubRequest, open_hub, parse_hub_request, resolve_model
from sparkrun.embedded.llama_args import ParsedArgs, Setting, help_text, parse_args
from sparkrun.embedded.llama_bindings import Target, split_commas
from sparkrun.embedded.llama_flags import Kind

PROGRAM = "sparkrun-llama-server"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
# llama-server chooses the number of slots itself, xllamacpp takes one.
DEFAULT_PARALLEL = -1
GGUF_MAGIC = b"GGUF"
STOP_GRACE_S = 2.0
KILL_GRACE_S = 1.0
LOG_GRACE_S = 10
POLL_S = 0.01
# linux/prctl.h
PR_SET_PDEATHSIG = 1

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
WATCHED = STOP_SIGNALS | {signal.SIGCHLD}


class ServePlan(NamedTuple):
    """Everything a start needs. `hub` is None when the settings name a model file; `port` 0 is still to be chosen."""

    settings: tuple[Setting, ...]
    hosts: tuple[str, ...]
    port: int
    hub: HubRequest | None
    hub_name: str
    hub_token: str
    offline: bool
    share_port: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until a signal ends it. 0: stopped as asked; 1: failed; 2: wrong usage; 128+n: the engine was ended by signal n."""
    code, report = _outcome(lambda: _run(sys.argv[1:] if argv is None else argv, os.environ))
    sys.stderr.write(report)
    return code


def plan_serving(parsed: ParsedArgs) -> ServePlan:
    """What to serve and where. Touches nothing."""
    _check_one_model(parsed)
    spec = parsed.text("--hf-repo")
    projector = parsed.value("--mmproj-auto") is not False and not parsed.text("--mmproj")
    port = parsed.value("--port")
    return ServePlan(
        settings=parsed.settings,
        hosts=tuple(split_commas(parsed.text("--host"))) or (DEFAULT_HOST,),
        port=port if isinstance(port, int) else DEFAULT_PORT,
        hub=parse_hub_request(spec, file=parsed.text("--hf-file"), projector=projector) if spec else None,
        hub_name=spec,
        hub_token=parsed.text("--hf-token"),
        offline=parsed.value("--offline") is True,
        share_port=parsed.value("--reuse-port") is True,
    )


def check_files(settings: Sequence[Setting]) -> None:
    """Every file that a flag names is there and can be read; the model begins like a GGUF file."""
    for setting in settings:
        if setting.flag.kind is Kind.FILE:
            start = _first_bytes(setting)
            if setting.flag.name == "--model" and start != GGUF_MAGIC:
                raise LauncherError(f"{setting.value} is not a GGUF file", hint="give a model that ends in .gguf")


def choose_port(plan: ServePlan) -> int:
    """The port, or a free one for 0. Raises LauncherError when one of the addresses cannot be bound."""
    port = plan.port
    # As llama.cpp's server does: a port that only waits out old connections is free.
    option = socket.SO_REUSEPORT if plan.share_port else socket.SO_REUSEADDR
    for host in plan.hosts:
        # llama.cpp takes a host that ends so for the path of a UNIX socket.
        if not host.endswith(".sock"):
            port = _bindable_port(host, port, option)
    return port


def build_params(engine: Any, plan: ServePlan, model: HubModel | None = None) -> Any:
    """`xllamacpp.CommonParams` for a plan; `model` holds the files that came from the hub."""
    params = engine.CommonParams()
    params.n_parallel = DEFAULT_PARALLEL
    for setting in plan.settings:
        apply_setting(Target(engine, params), setting)
    params.hostnames = list(plan.hosts)
    params.port = plan.port
    if model is not None:
        _use_hub_model(params, plan, model)
    return params


def apply_setting(target: Target, setting: Setting) -> None:
    """Sets one flag's value on the parameters."""
    if setting.flag.bind is None:
        return
    try:
        setting.flag.bind(target, setting.value)
    except AttributeError:
        version = importlib.metadata.version("xllamacpp")
        message = f"{setting.source} is not supported by the embedded engine (xllamacpp {version})"
        raise LauncherError(message, hint="leave it out, or install a newer xllamacpp", exit_code=WRONG_USAGE) from None
    except OverflowError:
        raise _wrong_value(setting, "the number is out of range") from None
    except ValueError as error:
        raise _wrong_value(setting, str(error)) from None


def _check_one_model(parsed: ParsedArgs) -> None:
    sources = {setting.flag.name: setting.source for setting in parsed.settings}
    model, repo, file = (sources.get(name) for name in ("--model", "--hf-repo", "--hf-file"))
    if not model and not repo:
        raise LauncherError("no model is given", hint="write -m /path/to/model.gguf or -hf user/repo:quant", exit_code=WRONG_USAGE)
    if model and repo:
        raise LauncherError(f"two models are given, by {model} and by {repo}", hint="leave one of them out", exit_code=WRONG_USAGE)
    if file and not repo:
        raise LauncherError(f"{file} needs a repository", hint="add -hf user/repo", exit_code=WRONG_USAGE)


def _run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    if {"-h", "--help", "--usage"} & set(argv):
        print(f"usage: {PROGRAM} -m FILE [flags of llama-server]\n\n{help_text()}")
        return 0
    if "--version" in argv:
        print(f"{PROGRAM}, xllamacpp {_engine_version()}")
        return 0
    parsed = parse_args(argv, env)
    for warning in parsed.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return _start(plan_serving(parsed))


def _start(plan: ServePlan) -> int:
    check_files(plan.settings)
    port = choose_port(plan)
    _watch_signals()
    if plan.port == 0:
        print(f"port: {port}", flush=True)
    return _supervise(lambda: _serve(plan._replace(port=port)))


def _serve(plan: ServePlan) -> int:
    """Runs in the child: loads the model and serves until a signal ends the process."""
    engine = _import_engine()
    model = resolve_model(plan.hub, open_hub(plan.hub_token, offline=plan.offline)) if plan.hub else None
    params = build_params(engine, plan, model)
    try:
        # The variable keeps the server alive; its threads do the work.
        server = engine.Server(params)
    except (RuntimeError, ValueError) as error:
        hint = "the lines of llama.cpp above say why"
        raise LauncherError(f"llama.cpp could not start with {params.model.path}: {error}", hint=hint) from None
    print(f"serving on {server.listening_address}", flush=True)
    while True:
        signal.pause()


def _watch_signals() -> None:
    """From here on the signals wait until `_supervise` asks for them, so none is lost and none interrupts."""
    # A handler keeps SIGCHLD from being dropped while it is blocked.
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)


def _supervise(engine: Callable[[], int]) -> int:
    """Runs the engine in a child and waits for its end or for a signal."""
    sys.stdout.flush()
    parent = os.getpid()
    report, report_end = os.pipe()
    child = os.fork()
    if child == 0:
        _become_engine(parent, engine, report_end)
    os.close(report_end)
    while True:
        signum = signal.sigwait(WATCHED)
        if signum in STOP_SIGNALS:
            return _stop(child, signum)
        status = _reap(child)
        if status is not None:
            return _told(report) or _exit_code(status)


def _become_engine(parent: int, engine: Callable[[], int], report_end: int) -> None:
    """The child's life. Never returns: the engine's threads may be busy, so the interpreter is not wound down.

    llama.cpp writes its log in a thread of its own, so an error is told by the parent, after the last line of that log.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Ctrl-C reaches the whole group; the parent ends the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    _die_with(parent)
    code, report = _outcome(engine)
    sys.stdout.flush()
    if report:
        os.write(report_end, bytes([code]) + report.encode())
    _exit_logged(code)


def _exit_logged(code: int) -> None:
    """End once llama.cpp has written what is left of its log; one that takes too long for that is given up."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LOG_GRACE_S)
    _finish_log()
    os._exit(code)


def _finish_log() -> None:
    """common_log_pause of llama.cpp returns when the log's thread has written all lines."""
    engine = sys.modules.get("xllamacpp.xllamacpp")
    if engine is None or engine.__file__ is None:
        return
    library = ctypes.CDLL(engine.__file__)
    with contextlib.suppress(AttributeError):
        log, pause = library._Z15common_log_mainv, library._Z16common_log_pauseP10common_log
        log.restype, pause.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        pause(log())


def _told(report: int) -> int | None:
    """Tells what the child reported of its end, if it did: the code to exit with."""
    with open(report, "rb") as file:
        told = file.read()
    if not told:
        return None
    sys.stderr.write(told[1:].decode())
    return told[0]


def _die_with(parent: int) -> None:
    """A parent that is killed takes the child along (Linux only), so that no engine is left holding the port."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(FAILED)


def _stop(child: int, signum: int) -> int:
    """Ends the child: 0, or 128+n in the rare case that even SIGKILL does not end it (a device call that hangs)."""
    for ending, grace_s in ((signal.SIGTERM, STOP_GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        os.kill(child, ending)
        if _ended_within(child, grace_s):
            return 0
    print(f"error: the engine (process {child}) does not end\n  hint: look at dmesg, a device may hang", file=sys.stderr, flush=True)
    os._exit(128 + signum)


def _ended_within(child: int, grace_s: float) -> bool:
    deadline = time.monotonic() + grace_s
    while _reap(child) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _reap(child: int) -> int | None:
    """The wait status of the child, None while it runs."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return status if pid else None


def _exit_code(status: int) -> int:
    """The child's own code, its error already told; a signal is told here."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    signum = os.WTERMSIG(status)
    out_of_memory = "memory may have run out: lower --ctx-size or take a smaller model"
    hint = out_of_memory if signum == signal.SIGKILL else "the lines of llama.cpp above say why"
    print(f"error: the engine was ended by {signal.Signals(signum).name}\n  hint: {hint}", file=sys.stderr)
    return 128 + signum


def _outcome(work: Callable[[], int]) -> tuple[int, str]:
    """Top of both processes: the exit code, and for a failure the two lines that tell it."""
    try:
        return work(), ""
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED, ""
    except LauncherError as error:
        message, hint, code = str(error), error.hint, error.exit_code
    except Exception as error:  # noqa: BLE001  the top of a program
        message, hint, code = f"{type(error).__name__}: {error}", "this is a fault of the embedded server, please report it", FAILED
    return code, f"error: {message}\n  hint: {hint}\n"


def _import_engine() -> Any:
    """xllamacpp is large and optional, so it is imported only where it runs."""
    try:
        return importlib.import_module("xllamacpp")
    except ModuleNotFoundError:
        raise _no_engine() from None
    except ImportError as error:
        raise LauncherError(f"xllamacpp cannot be loaded: {error}", hint="install it again: pip install 'sparkrun[local]'") from None


def _engine_version() -> str:
    try:
        return importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        raise _no_engine() from None


def _no_engine() -> LauncherError:
    return LauncherError("xllamacpp is not installed", hint="pip install 'sparkrun[local]'")


def _use_hub_model(params: Any, plan: ServePlan, model: HubModel) -> None:
    """llama-server calls a model from the hub by what stood behind -hf."""
    params.model.path = model.path
    if model.projector_path:
        params.mmproj.path = model.projector_path
    if not params.model_alias:
        params.model_alias = {plan.hub_name}


def _first_bytes(setting: Setting) -> bytes:
    path = Path(str(setting.value))
    try:
        with path.open("rb") as file:
            return file.read(len(GGUF_MAGIC))
    except FileNotFoundError:
        raise LauncherError(f"{setting.source}: there is no file {path}", hint="check the path") from None
    except OSError as error:
        raise LauncherError(f"{setting.source}: cannot read {path}: {error.strerror}", hint="check the path and its rights") from None


def _bindable_port(host: str, port: int, option: int) -> int:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, option, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except socket.gaierror as error:
        raise LauncherError(f"host {host} is unknown: {error.strerror}", hint="write an address of this machine, or 0.0.0.0") from None
    except OSError as error:
        raise LauncherError(f"cannot listen on {host} port {port}: {error.strerror}", hint=_port_hint(error)) from None


def _port_hint(error: OSError) -> str:
    hints = {
        "Address already in use": "stop what uses it, or write --port 0 for a free one",
        "Permission denied": "take a port above 1023",
    }
    return hints.get(error.strerror or "", "write an address of this machine, or 0.0.0.0")


def _wrong_value(setting: Setting, reason: str) -> LauncherError:
    return LauncherError(f"{setting.source}: {reason}", hint="--help tells what it takes", exit_code=WRONG_USAGE)


if __name__ == "__main__":
    sys.exit(main())
