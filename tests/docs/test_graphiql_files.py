"""The files of GraphiQL are those that the script takes out of the pinned packages, with their licences."""

import re
from hashlib import sha256

from graphql_api.playground.graphiql import ASSET_FILES
from tests.docs.pages import ROOT

PAGES = ROOT / "graphql_api" / "playground" / "pages"
VENDOR = PAGES / "vendor"
SCRIPT = (ROOT / "scripts" / "graphiql-assets").read_text(encoding="utf-8")
LIST = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
SUMS = {name: total for total, name in (line.split("  ") for line in LIST)}
BY_HAND = {"SHA256SUMS", "NOTICES"}


def test_files_are_those_of_the_packages() -> None:
    """Each file has the content that it had when the script took it from its package, and none is there besides."""
    assert {
        path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.name not in BY_HAND
    } == SUMS


def test_script_takes_these_files_of_pinned_packages() -> None:
    """The script names every file with its package's version, and every package with a hash of all of its bytes."""
    taken = [line for line in SCRIPT.splitlines() if line.startswith("take ")]
    names = {file.partition("=")[2] for line in taken for file in line.split()[3:]}
    assert names == set(SUMS)
    for line in taken:
        _, package, hash, *files = line.split()
        name, _, version = package.rpartition("@")
        assert re.fullmatch(r"[A-Za-z0-9+/]{86}==", hash), name
        assert all(f"-{version}." in file for file in files if not file.endswith("LICENSE")), name


def test_page_loads_what_was_taken() -> None:
    """Every script and style that was taken is loaded, and what is loaded is there."""
    loaded = {file.partition("/")[2] for file in ASSET_FILES if file.startswith("vendor/")}
    assert loaded == {name for name in SUMS if not name.endswith("LICENSE")}
    assert all((PAGES / file).is_file() for file in ASSET_FILES)


def test_files_load_nothing_from_elsewhere() -> None:
    """The styles hold their fonts and pictures themselves."""
    for file in ASSET_FILES:
        if file.endswith(".css"):
            text = (PAGES / file).read_text(encoding="utf-8")
            assert not re.search(r"url\((?!['\"]?data:)|@import", text), file


def test_licences_stand_beside() -> None:
    """Each package has its licence here, and what is bundled in it is named with holder and licence."""
    notices = (VENDOR / "NOTICES").read_text(encoding="utf-8")
    for package in ("graphiql", "react", "react-dom"):
        assert "Permission is hereby granted" in (VENDOR / f"{package}-LICENSE").read_text(encoding="utf-8")
    for bundled in ("codemirror", "graphiql-explorer", "Fira Code", "Roboto", "markdown-it", "@headlessui/react"):
        assert bundled in notices
    for licence in ("MIT", "BSD-2-Clause", "0BSD", "OFL-1.1", "Apache-2.0"):
        assert f"======== {licence} ========" in notices
    assert all(file in notices for file in SUMS if re.match(r"(graphiql|plugin-explorer)-\d", file))
