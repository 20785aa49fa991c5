"""Draw the picture of the README: run the demo, keep what a terminal would show, write docs/images/demo.svg."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/images/demo.svg"
WIDTH = 112


def main() -> int:
    """Record the demo; the picture is only replaced when it succeeded."""
    demo = [sys.executable, str(ROOT / "scripts/demo.py")]
    ended = subprocess.run(demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w"))  # noqa: SIM115 - nothing is shown here
    console.print(Text("$ ./dev.sh demo", style="bold"))
    for line in ended.stdout.splitlines():
        console.print(_styled(line), soft_wrap=False)
    svg = console.export_svg(title="sparkrun", clear=False)
    # The picture must not fetch fonts from anywhere.
    TARGET.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))
    return 0


def _styled(line: str) -> Text:
    if line.startswith(("$ ", "> ")):
        return Text(line, style="bold green")
    if re.match(r"\[\d/\d\] ", line):
        return Text(line, style="bold")
    return Text(line, style="dim" if line.startswith(("  Step", "  done", "Note")) else "")


if __name__ == "__main__":
    raise SystemExit(main())
