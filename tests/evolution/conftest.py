"""Shared configuration: tables in memory."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.evolution.late_store import memory_folder
from tests.support.run_depth import is_deep


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder for the files of a test, in memory. Deep runs need more room than that."""
    with TemporaryDirectory() if is_deep() else memory_folder() as folder:
        yield Path(folder)
