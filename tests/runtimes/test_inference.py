from __future__ import annotations

import pytest

from tests.runtimes.serving import Serve


@pytest.mark.parametrize(
    ("runtime", "command", "style"),
    [
        ("vllm-distributed", "vllm serve {model}", "chat"),
        ("vllm-distributed", "vllm serve {model} --runner pooling", "embeddings"),
        ("vllm-distributed", "vllm serve {model} --runner=generate", "chat"),
        ("vllm-distributed", "vllm serve {model} --task embed", "embeddings"),
        ("vllm-distributed", "vllm serve {model} --task score", "none"),
        ("vllm-distributed", "vllm serve {model} --runner pooling --convert classify", "none"),
        ("vllm-distributed", "vllm serve {model} --task auto", "chat"),
        ("sglang", "sglang serve --model-path {model} --is-embedding", "embeddings"),
        ("llama-cpp", "llama-server -hf {model} --embeddings", "embeddings"),
        ("llama-cpp", "llama-server -hf {model} --embedding --pooling rank", "none"),
        ("llama-cpp", "llama-server -hf {model} --reranking", "none"),
        ("modular-max", "max serve --model {model} --task embeddings_generation", "embeddings"),
        ("tokenary", "tokenary serve {model} --ner", "none"),
        ("tokenary", "tokenary serve {model} --encode-only", "embeddings"),
    ],
)
def test_flags_tell_what_a_server_answers(serve: Serve, runtime: str, command: str, style: str) -> None:
    served = serve(f"model: org/m\nruntime: {runtime}\ncontainer: x:1\ncommand: {command}\n")
    assert served.runtime.inference_of(served.recipe, served.command) == style


@pytest.mark.parametrize(
    ("model", "more", "style"),
    [
        ("Qwen/Qwen3-VL-Embedding-8B", "", "embeddings"),
        ("Qwen/Qwen3-Reranker-8B", "", "none"),
        ("BAAI/bge-reranker-v2", "command: vllm serve {model} --runner pooling\n", "none"),
        ("org/m", "metadata: {tags: [embedding]}\n", "embeddings"),
        ("org/m", "metadata: {category: reranker}\n", "none"),
        ("org/m", "capabilities: [rerank]\n", "none"),
        ("org/embedded-coder", "", "chat"),
        ("org/m", "metadata: {tags: [tools, vision]}\n", "chat"),
    ],
)
def test_names_and_tags_tell_it_too(serve: Serve, model: str, more: str, style: str) -> None:
    served = serve(f"model: {model}\nruntime: vllm-distributed\ncontainer: x:1\n{more}")
    assert served.runtime.inference_of(served.recipe, served.command) == style


def test_health_is_asked_where_each_engine_answers(serve: Serve) -> None:
    paths = {
        name: serve(f"model: org/m\nruntime: {name}\ncontainer: x:1\n").runtime.health_path for name in ("sglang", "llama-cpp", "atlas")
    }
    assert paths == {"sglang": "/health", "llama-cpp": "/health", "atlas": "/v1/models"}
