from __future__ import annotations

import subprocess
import sys

PUT_OFF = """
import sys
from sparkrun.utils.lazy import put_off
finders = list(sys.meta_path)
with put_off("asyncio"):
    import asyncio as first
print("asyncio.events" in sys.modules, sys.meta_path == finders)
"""


def said(script: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", PUT_OFF + script], capture_output=True, text=True, check=True).stdout.split()


def test_a_module_that_is_put_off_is_loaded_by_its_first_use() -> None:
    assert said("""
async def answer(): return 42
print(first.run(answer()), "asyncio.events" in sys.modules)
""") == ["False", "True", "42", "True"]


def test_a_module_that_is_put_off_is_loaded_by_the_next_import() -> None:
    assert said("""
import asyncio
from asyncio import subprocess
print("asyncio.events" in sys.modules, asyncio is first, asyncio.subprocess is subprocess)
""") == ["False", "True", "True", "True", "True"]


def test_other_modules_are_not_put_off() -> None:
    script = (
        "import sys\nfrom sparkrun.utils.lazy import put_off\nwith put_off('asyncio'):\n    import colorsys\nprint(len(vars(colorsys)) > 9)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"
