"""Disks that are full or read-only: small file systems in memory, which only root can mount."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount an empty file system of this size on a new folder. Skip the test if that is not allowed."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    if _run("mount", *options, str(folder)):
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


def make_read_only(disk: Path) -> None:
    """Make a small disk read-only. No file on it may be open for writing."""
    assert _run("mount", "-o", "remount,ro", str(disk)) == 0


def fill(disk: Path) -> Path:
    """Fill a disk completely. Return the file that takes the space."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return filler


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603 - commands of this module
    except OSError:
        return 1
