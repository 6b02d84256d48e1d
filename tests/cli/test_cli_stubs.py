"""`shardql stubs`: the stubs of a catalog are written next to its modules, and `--check` finds stale ones."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import run

CATALOG = "shop_catalog:catalog"
SOURCE = '''"""A shop."""

from graphql_api import Catalog, Entity, Id, Index
from shop_parts.lines import Line


class Shop(Entity):
    """A shop."""

    shop_id: Id[str]
    town: str

    by_town = Index(hash="town")


catalog = Catalog(Shop, Line)
'''
LINES = """from graphql_api import Entity, Id


class Line(Entity):
    line_id: Id[int]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a catalog whose entities are in a module and in a package. The modules are unloaded afterwards."""
    (tmp_path / "shop_catalog.py").write_text(SOURCE, "utf-8")
    (tmp_path / "shop_parts").mkdir()
    (tmp_path / "shop_parts" / "__init__.py").touch()
    (tmp_path / "shop_parts" / "lines.py").write_text(LINES, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("shop_catalog", "shop_parts"))]:
        del sys.modules[name]


def stubs(folder: Path) -> dict[str, str]:
    """Return the stubs in a folder."""
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.pyi")}


def test_stubs_are_written_next_to_the_modules(shop: Path) -> None:
    """Each module that declares entities gets a stub, always the same, and a second run changes nothing."""
    result = run("stubs", CATALOG)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{shop}/shop_catalog.pyi is written.\n{shop}/shop_parts/lines.pyi is written.\n",
    )
    written = stubs(shop)
    assert [*sorted(written)] == ["shop_catalog.pyi", "shop_parts/lines.pyi"]
    assert "by_town: _typing.ClassVar[_ShopByTown]" in written["shop_catalog.pyi"]
    assert "line_id: int" in written["shop_parts/lines.pyi"]
    assert run("stubs", CATALOG).stdout.count("is up to date.") == 2
    assert run("stubs", CATALOG, "--check").exit_code == 0
    assert stubs(shop) == written


def test_check_finds_missing_and_stale_stubs(shop: Path) -> None:
    """`--check` fails while a stub is missing or differs, says how to update it, and writes nothing."""
    missing = run("stubs", CATALOG, "--check")
    assert missing.exit_code == 1
    assert missing.stdout.endswith(f"To update the stubs: shardql stubs {CATALOG}\n")
    assert stubs(shop) == {}
    run("stubs", CATALOG)
    written = stubs(shop)
    (shop / "shop_catalog.py").write_text(SOURCE.replace("town: str\n", "town: str\n    phone: str\n"), "utf-8")
    del sys.modules["shop_catalog"]
    importlib.invalidate_caches()
    stale = run("stubs", CATALOG, "--check")
    assert stale.exit_code == 1
    assert (
        f"{shop}/shop_catalog.pyi differs from the catalog.\n{shop}/shop_parts/lines.pyi is up to date.\n"
        in stale.stdout
    )
    assert stubs(shop) == written
    assert run("stubs", CATALOG).exit_code == 0
    assert "phone: str" in stubs(shop)["shop_catalog.pyi"]
    assert run("stubs", CATALOG, "--check").exit_code == 0


def test_a_formatted_stub_is_up_to_date(shop: Path) -> None:
    """A stub may be formatted: only its content counts. A broken one is written again."""
    run("stubs", CATALOG)
    path = shop / "shop_catalog.pyi"
    text = path.read_text("utf-8")
    path.write_text(f"# formatted\n\n{text.replace(' = ...', '=...')}", "utf-8")
    assert run("stubs", CATALOG, "--check").exit_code == 0
    path.write_text("class", "utf-8")
    assert run("stubs", CATALOG, "--check").exit_code == 1
    run("stubs", CATALOG)
    assert path.read_text("utf-8") == text


def test_stubs_can_be_written_to_a_folder(shop: Path) -> None:
    """`--output` names a folder, in which stubs have the paths of their modules."""
    run("stubs", CATALOG, "--output", "typings")
    assert [*sorted(stubs(shop))] == ["typings/shop_catalog.pyi", "typings/shop_parts/lines.pyi"]
    assert run("stubs", CATALOG, "--output", "typings", "--check").exit_code == 0
    elsewhere = run("stubs", CATALOG, "--output", "other", "--check")
    assert elsewhere.exit_code == 1
    assert elsewhere.stdout.endswith(f"shardql stubs {CATALOG} --output other\n")


def test_installed_modules_need_a_folder(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stub is written into the folders of installed packages, unless a folder is named."""
    (shop / "site-packages").mkdir()
    (shop / "shop_parts").rename(shop / "site-packages" / "shop_parts")
    monkeypatch.syspath_prepend(str(shop / "site-packages"))
    result = run("stubs", CATALOG)
    assert "shop_parts.lines is an installed package: --output FOLDER writes its stub.\n" in result.stdout
    assert [*stubs(shop)] == ["shop_catalog.pyi"]
    assert run("stubs", CATALOG, "--check").exit_code == 0
    run("stubs", CATALOG, "--output", "typings")
    assert "typings/shop_parts/lines.pyi" in stubs(shop)
