"""Found by `python3 -m vllm.entrypoints.openai.api_server`."""
