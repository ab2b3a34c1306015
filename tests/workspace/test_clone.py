"""Folders are removed whatever their modes and depth, and whoever else is at it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from interlock.workspace.clone import remove_folder


def grow(folder: Path) -> None:
    """Many files, folders without rights, and some depth."""
    for number in range(20):
        place = folder / f"{number}" / "a" / "b" / "c"
        place.mkdir(parents=True)
        for name in range(10):
            (place / f"{name}").write_text("x")
        place.parent.chmod(0o000 if number % 2 else 0o755)


@pytest.mark.req("LY-30")
def test_two_that_remove_the_same_folder_do_not_trip_over_each_other(tmp_path: Path) -> None:
    """A run that clears up finds what another one is removing: both end without an error, and it is gone."""
    failed: list[BaseException] = []

    def remove(folder: Path, together: threading.Barrier) -> None:
        together.wait()
        try:
            remove_folder(folder)
        except BaseException as error:  # noqa: BLE001 - of a thread, told to the test
            failed.append(error)

    for number in range(20):
        folder = tmp_path / f"folder-{number}"
        grow(folder)
        together = threading.Barrier(3)
        threads = [threading.Thread(target=remove, args=(folder, together)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not folder.exists()
    assert failed == []
