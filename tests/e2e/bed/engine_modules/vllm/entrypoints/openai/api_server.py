"""`python3 -m vllm.entrypoints.openai.api_server`."""

import sys

from tests.e2e.bed.engine.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "serve")
    main("vllm")
