from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sparkrun.utils.files import locked, write_atomic


def test_a_file_appears_whole_with_its_folder_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.yaml"
    write_atomic(path, "text")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("text", 0o600)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "b.yaml"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \udc80")
    assert path.read_text() == "old"
    assert [found.name for found in path.parent.iterdir()] == ["b.yaml"]


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with locked(tmp_path / "lock"):
            order.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        entered.wait()
        order.append("first")
    thread.join(timeout=5)
    assert order == ["first", "second"]
