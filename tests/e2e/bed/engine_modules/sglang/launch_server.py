"""`python3 -m sglang.launch_server`."""

from tests.e2e.bed.engine.main import main

if __name__ == "__main__":
    main("sglang")
