"""The source of a release, from its commit in `scripts/releases.txt`."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from tests.benchmarks.contestant_process import ROOT


def release_commit(version: str) -> str:
    """Return the commit of a release."""
    lines = (ROOT / "scripts" / "releases.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))[version]


def release_source(version: str) -> Path | None:
    """Return a folder with the package of a release, or None without the history of the repository."""
    commit = release_commit(version)
    folder = ROOT / ".contestants" / f"release-{version}-{commit[:12]}"
    if not folder.is_dir():
        archived = subprocess.run(  # noqa: S603 - git, with a commit of this repository
            ["git", "archive", commit, "graphql_api"],  # noqa: S607
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        if archived.returncode:
            return None
        partial = folder.with_suffix(".partial")
        with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
            archive.extractall(partial, filter="data")
        partial.rename(folder)
    return folder
