"""The usual causes, as engines speak of them."""

from __future__ import annotations

import pytest

from sparkrun.orchestration.causes import way_out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("vllm: error: unrecognized arguments: --frob 1", "command line"),
        ("error: unknown argument: --frob", "command line"),
        ("error: invalid argument: --frob", "command line"),
        ("launch_server.py: error: argument --tp: invalid int value: 'x'", "value"),
        ("vllm serve: error: argument --dtype: invalid choice: 'f8'", "value"),
        ("Error: No such option: --frob Did you mean --foo?", "command line"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "less memory"),
        ("ValueError: No available memory for the cache blocks.", "less memory"),
        ("... KV cache is needed, which is larger than the available KV cache memory (1.2 GiB)", "less memory"),
        ("OSError: [Errno 98] Address already in use", "port"),
        ("couldn't bind HTTP server socket, hostname: 0.0.0.0, port: 8000", "port"),
        ("OSError: org/m does not appear to have a file named config.json.", "files of the model"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot", "files of the model"),
        ("error loading model: failed to load model from /x.gguf", "files of the model"),
    ],
)
def test_a_cause_has_a_way_out(line: str, told: str) -> None:
    assert told in (way_out(["INFO starting", line, "INFO bye"]) or "")


def test_an_engine_that_says_nothing_known_gets_no_advice() -> None:
    assert way_out(["RuntimeError: the stand-in engine was told to fail", "INFO bye"]) is None
    assert way_out([]) is None
