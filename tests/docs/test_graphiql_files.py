"""The files of GraphiQL come from pinned packages, with their licences."""

import re
from hashlib import sha256

from graphql_api.playground.graphiql import ASSET_FILES
from tests.docs.pages import ROOT

PAGES = ROOT / "graphql_api" / "playground" / "pages"
VENDOR = PAGES / "vendor"
SCRIPT = (ROOT / "scripts" / "graphiql-assets").read_text(encoding="utf-8")
LIST = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
CHECKSUMS = {name: total for total, name in (line.split("  ") for line in LIST)}
NOT_DOWNLOADED = {"SHA256SUMS", "NOTICES"}


def test_files_match_their_checksums() -> None:
    """Each vendored file has its recorded checksum, and there are no other files."""
    assert {
        path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.name not in NOT_DOWNLOADED
    } == CHECKSUMS


def test_script_pins_packages() -> None:
    """The script names every file with its package version, and every package with a checksum."""
    taken = [line for line in SCRIPT.splitlines() if line.startswith("take ")]
    names = {file.partition("=")[2] for line in taken for file in line.split()[3:]}
    assert names == set(CHECKSUMS)
    for line in taken:
        _, package, hash, *files = line.split()
        name, _, version = package.rpartition("@")
        assert re.fullmatch(r"[A-Za-z0-9+/]{86}==", hash), name
        assert all(f"-{version}." in file for file in files if not file.endswith("LICENSE")), name


def test_page_loads_all_files() -> None:
    """The page loads every vendored script and style, and all of its assets exist."""
    loaded = {file.partition("/")[2] for file in ASSET_FILES if file.startswith("vendor/")}
    assert loaded == {name for name in CHECKSUMS if not name.endswith("LICENSE")}
    assert all((PAGES / file).is_file() for file in ASSET_FILES)


def test_styles_load_no_other_files() -> None:
    """The styles contain their fonts and images, and load no other file."""
    for file in ASSET_FILES:
        if file.endswith(".css"):
            text = (PAGES / file).read_text(encoding="utf-8")
            assert not re.search(r"url\((?!['\"]?data:)|@import", text), file


def test_licences_are_included() -> None:
    """Each package has its licence. Notices name holder and licence of bundled packages."""
    notices = (VENDOR / "NOTICES").read_text(encoding="utf-8")
    for package in ("graphiql", "react", "react-dom"):
        assert "Permission is hereby granted" in (VENDOR / f"{package}-LICENSE").read_text(encoding="utf-8")
    for bundled in ("codemirror", "graphiql-explorer", "Fira Code", "Roboto", "markdown-it", "@headlessui/react"):
        assert bundled in notices
    for licence in ("MIT", "BSD-2-Clause", "0BSD", "OFL-1.1", "Apache-2.0"):
        assert f"======== {licence} ========" in notices
    assert all(file in notices for file in CHECKSUMS if re.match(r"(graphiql|plugin-explorer)-\d", file))
