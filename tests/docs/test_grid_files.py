"""The built files of the data page come from its sources, and from packages that are pinned by hash."""

import json
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "graphql_api" / "playground" / "grid"
PAGES = ROOT / "graphql_api" / "playground" / "pages" / "grid"
LOCK = json.loads((SOURCE / "package-lock.json").read_text(encoding="utf-8"))["packages"]


def sources_digest() -> str:
    """Return the hash of all sources, as `scripts/grid-assets` computes it."""
    files = [SOURCE / name for name in ("package.json", "package-lock.json", "tsconfig.json")]
    files += sorted((SOURCE / "src").rglob("*.ts*"), key=lambda path: path.relative_to(SOURCE).as_posix().encode())
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def test_built_script_names_its_sources() -> None:
    """The built script begins with the hash of the present sources: run `scripts/grid-assets` after a change."""
    first = (PAGES / "grid.js").read_text(encoding="utf-8").partition("\n")[0]
    assert first == f"// Built by scripts/grid-assets from sources {sources_digest()}"


def test_built_files_are_what_the_script_builds(tmp_path: Path) -> None:
    """The types of the sources are valid, and building them again gives the same files, byte for byte."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed; the hash of the sources is compared instead")
    built = subprocess.run(  # noqa: S603 - a script of this repository
        [ROOT / "scripts" / "grid-assets", tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    if built.returncode and re.search(r"npm (error|ERR!)", built.stderr):
        pytest.skip(f"npm cannot install the packages; the hash of the sources is compared instead: {built.stderr}")
    assert built.returncode == 0, built.stdout + built.stderr
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (PAGES / path.name).read_bytes(), f"run scripts/grid-assets: {path.name}"
    assert {"grid.js", "preact-LICENSE"} == {path.name for path in tmp_path.iterdir()}


def test_packages_are_pinned_by_hash() -> None:
    """Each package of the lock has an exact version and a hash, and none names a registry."""
    packages = {name: one for name, one in LOCK.items() if name}
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert not any("resolved" in one for one in packages.values())
    wanted = {**LOCK[""]["dependencies"], **LOCK[""]["devDependencies"]}
    assert all(packages[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert [*LOCK[""]["dependencies"]] == ["preact"], "a package that is bundled needs its licence next to the script"


def test_styles_load_no_other_files() -> None:
    """The styles load no other file."""
    for path in PAGES.glob("*.css"):
        assert not re.search(r"url\(|@import", path.read_text(encoding="utf-8")), path.name
