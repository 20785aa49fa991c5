"""Commands of a recipe on the control machine."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from sparkrun.core.errors import LaunchFailedError
from sparkrun.core.plan import LocalCommand
from sparkrun.utils.proc import stream_process
from sparkrun.utils.shell import parse_answers, quote
from sparkrun.utils.text import quoted_lines

KEPT_LINES = 20


def run_local_command(command: LocalCommand, on_line: Callable[[str], None]) -> None:
    """Run through the user's shell, handing on its output. Raises ``LaunchFailedError`` with its last lines."""
    lines: deque[str] = deque(maxlen=KEPT_LINES)

    def take(line: str) -> None:
        lines.append(line)
        on_line(line)

    env = " ".join(f"{name}={quote(value)}" for name, value in command.env.items())
    text = f"export {env}\n{command.command}\n"
    words = [os.environ.get("SHELL") or "bash", "-c", f"exec 2>&1; {text}"]
    ended = stream_process(words, stdin="", on_line=take, timeout_s=command.timeout_s or None)
    if ended.timed_out or ended.returncode != 0:
        how = f"took longer than {command.timeout_s:g} s" if ended.timed_out else f"ended with exit code {ended.returncode}"
        tail = quoted_lines(lines)
        raise LaunchFailedError(f"{command.title} {how}{tail}", hint="the workload goes on; correct the command in the recipe")


def hook_output(answers: str) -> str:
    """What a command printed beside the engine, as lines below a message: its beginning and its end, as ``docker_exec`` keeps them."""
    return quoted_lines(_output_lines(answers, KEPT_LINES))


def hook_text(answers: str) -> str:
    """The same with all that was kept of the end; empty for what printed nothing, or is no command."""
    return "\n".join(_output_lines(answers, None))


def _output_lines(answers: str, most: int | None) -> tuple[str, ...]:
    said = parse_answers(answers).section("EXEC")
    head, tail, omitted = said.all("HEAD"), said.all("TAIL"), said.number("OMITTED")
    shown_tail = tail if most is None else tail[-most:]
    left_out = (omitted or 0) + len(tail) - len(shown_tail)
    middle = (f"… {left_out} lines left out …",) if left_out else ()
    return (*head, *middle, *shown_tail)
