"""Serve a small model on this machine, ask it one question, stop it. No GPU, no Docker.

usage: python scripts/demo.py [--question TEXT] [--max-tokens N]

The local executor is switched on by environment for the commands shown here alone; the configuration stays as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

RECIPE = "@builtin/smollm2-135m"
QUESTION = "In two sentences: why is the sky blue?"
SILENCE_TIMEOUT_S = 60.0


class Output(enum.Enum):
    """Where a command's standard output goes; NONE silences its errors too."""

    SHOWN = None
    CAPTURED = subprocess.PIPE
    NONE = subprocess.DEVNULL


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


@dataclass(frozen=True)
class Endpoint:
    """Where the model answers; ``url`` ends in ``/v1``."""

    url: str
    model: str


@dataclass(frozen=True)
class Speed:
    """What one streamed answer measured; the first token's wait is the prompt's, so the rate is of the tokens after it."""

    tokens: int
    first_token_s: float
    rest_s: float

    def __str__(self) -> str:
        rate = f"{(self.tokens - 1) / self.rest_s:.1f} tokens/s" if self.tokens > 1 and self.rest_s > 0 else "too short for a rate"
        return f"{self.tokens} tokens, first after {self.first_token_s:.2f} s, then {rate}"


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, terminate)
    try:
        show(arguments.question, arguments.max_tokens)
    except DemoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def show(question: str, max_tokens: int) -> None:
    """The demo from start to end; the model is stopped however it ends."""
    try:
        endpoint = launch()
    except BaseException:
        sparkrun("stop", RECIPE, output=Output.NONE, check=False)
        raise
    try:
        sparkrun("status", check=False)
        ask(endpoint, question, max_tokens)
    finally:
        sparkrun("stop", RECIPE)


def launch() -> Endpoint:
    """Start the model, or take the one that runs already."""
    return parse_endpoint(sparkrun("run", RECIPE, "--no-follow", "--ensure", "--json", output=Output.CAPTURED))


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint in what ``sparkrun run --json`` prints."""
    try:
        result = json.loads(text)
        return Endpoint(str(result["endpoint"]), str(result["served_model_name"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"sparkrun run --json printed no endpoint ({error!r}): {text.strip()[:200]!r}") from None


def ask(endpoint: Endpoint, question: str, max_tokens: int) -> None:
    """Print the answer as it comes, then its speed."""
    print(f"\n> {question}\n")
    start = time.monotonic()
    moments: list[float] = []
    for piece in parse_stream(stream_chat(endpoint, question, max_tokens)):
        moments.append(time.monotonic())
        print(piece, end="", flush=True)
    if not moments:
        raise DemoError(f"{endpoint.url} ended its answer without a token")
    print(f"\n\n{Speed(len(moments), moments[0] - start, moments[-1] - moments[0])}\n")


def stream_chat(endpoint: Endpoint, question: str, max_tokens: int) -> Iterator[bytes]:
    """The lines of the server's answer, as they arrive."""
    address = urlsplit(endpoint.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=SILENCE_TIMEOUT_S)
    messages = [{"role": "user", "content": question}]
    body = {"model": endpoint.model, "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True}
    try:
        connection.request("POST", f"{address.path}/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise DemoError(f"{endpoint.url} answered {response.status}: {response.read(500).decode(errors='replace')}")
        yield from response
    except (OSError, http.client.HTTPException) as error:
        raise DemoError(f"{endpoint.url} did not answer: {error!r}") from error
    finally:
        connection.close()


def parse_stream(lines: Iterable[bytes]) -> Iterator[str]:
    """The pieces of text, one a token, in the server-sent events of a chat completion."""
    for line in lines:
        data = line.strip().removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        if line.startswith(b"data:"):
            choices = json.loads(data).get("choices") or [{}]
            if text := choices[0].get("delta", {}).get("content"):
                yield str(text)


def sparkrun(*words: str, output: Output = Output.SHOWN, check: bool = True) -> str:
    """Run a sparkrun command on this terminal; returns its standard output where that is captured, else nothing."""
    if output is not Output.NONE:
        print(f"$ sparkrun {shlex.join(words)}", flush=True)
    program = Path(sys.executable).with_name("sparkrun")
    if not program.exists():
        raise DemoError(f"{program} does not exist: start the demo with ./dev.sh demo")
    environment = {**os.environ, "SPARKRUN_FEATURE_EXECUTOR_LOCAL": "1"}
    errors = subprocess.DEVNULL if output is Output.NONE else None
    with signals_held() as release:
        process = subprocess.Popen([program, *words], env=environment, stdout=output.value, stderr=errors, text=True)
        printed = finish(process, release)
    if check and process.returncode:
        raise DemoError(f"sparkrun {words[0]} ended with exit code {process.returncode}")
    return printed


def finish(process: subprocess.Popen[str], release: Callable[[], None]) -> str:
    """What the command printed. An interrupted one is waited for: it undoes what it began."""
    try:
        release()
        return process.communicate()[0] or ""
    except KeyboardInterrupt:  # the terminal sent it to the command too
        process.wait()
        raise
    except SystemExit:
        process.terminate()
        process.wait()
        raise


@contextlib.contextmanager
def signals_held() -> Iterator[Callable[[], None]]:
    """Let interruptions wait, so that none falls between the start of a process and knowing it; the yielded call lets them through."""
    waiting: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _frame: waiting.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}

    def release() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        while waiting:
            signal.raise_signal(waiting.pop())

    try:
        yield release
    finally:
        release()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve a small model on this machine, ask it one question, stop it.")
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--max-tokens", type=int, default=96)
    return parser.parse_args()


def terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
