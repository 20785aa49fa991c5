"""Found by `python3 -m sglang.launch_server`."""
