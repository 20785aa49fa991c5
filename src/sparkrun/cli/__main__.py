"""The console script ``sparkrun``."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from sparkrun import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted (by a signal: 128 and its number)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:  # nothing else is imported for it
        print(f"sparkrun, version {__version__}")
        return 0
    # Starting makes many objects and no garbage; looking for it meanwhile costs a tenth of the time.
    gc.set_threshold(100_000, 20, 50)
    from sparkrun.cli.root import run_command
    from sparkrun.cli.signals import heeding_signals

    try:
        with heeding_signals() as heard:
            code = run_command(arguments)
        sys.stdout.flush()
        return heard.exit_code(code)
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        gc.freeze()  # what is there now has to be looked through no more when Python ends


if __name__ == "__main__":
    raise SystemExit(main())
