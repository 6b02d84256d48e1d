"""Loading a catalog by its address `MODULE:ATTRIBUTE`."""

from pathlib import Path

import pytest

from graphql_api.errors import InvalidCatalog, InvalidValue
from graphql_api.model.catalog import load_catalog

APP = """
from graphql_api import Catalog, Entity, Id

class Part(Entity):
    part_id: Id[str]

catalog = Catalog(Part, namespace="Shop")
number = 7
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a package. The module path is restored afterwards."""
    name = f"shop_{tmp_path.name.replace('-', '_')}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "app.py").write_text(APP, encoding="utf-8")
    (package / "needy.py").write_text("import missing_library\n", encoding="utf-8")
    (package / "broken.py").write_text("raise RuntimeError('first line\\nsecond line')\n", encoding="utf-8")
    (package / "wrong.py").write_text(APP.replace("Catalog(Part", "Catalog(Part, Part"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return package


def test_catalog_is_loaded_by_address(folder: Path) -> None:
    """A catalog is loaded by module and attribute."""
    assert load_catalog(f"{folder.name}.app:catalog").namespace == "Shop"


def test_working_directory_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the working directory is found even if the directory is not on the module path."""
    monkeypatch.setattr("sys.path", ["/nowhere", *__import__("sys").path[1:]])
    assert load_catalog(f"{folder.name}.app:catalog").namespace == "Shop"


@pytest.mark.parametrize("address", ["app", "app:", ":catalog", ""])
def test_incomplete_address_is_refused(address: str) -> None:
    """An address without module or attribute is refused; the message shows the format."""
    with pytest.raises(InvalidValue, match="write MODULE:ATTRIBUTE"):
        load_catalog(address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("{0}.ap:catalog", "There is no module '{0}.ap'. Did you mean '{0}.app'?"),
        ("{0}x.app:catalog", "There is no module '{0}x'. Did you mean '{0}'?"),
        ("{0}/app.py:catalog", "'{0}/app.py' is a file. Write the name of its module: {0}.app:catalog."),
        ("./{0}/app.py:catalog", "'./{0}/app.py' is a file. Write the name of its module: {0}.app:catalog."),
        ("{0}.app.deeper:catalog", "There is no module '{0}.app.deeper'."),
        ("{0}.app:catalgo", "Module '{0}.app' has no attribute 'catalgo'. Did you mean 'catalog'?"),
        ("{0}.app:zzzzz", "Module '{0}.app' has no attribute 'zzzzz'. Its catalogs are catalog."),
        ("{0}.app:number", "{0}.app:number is of type int, not a Catalog. Its catalogs are catalog."),
        (
            "{0}.needy:catalog",
            "Module '{0}.needy' cannot be imported: ModuleNotFoundError: No module named 'missing_library'",
        ),
        ("{0}.broken:catalog", "Module '{0}.broken' cannot be imported: RuntimeError: first line"),
    ],
)
def test_load_errors_suggest_the_nearest_name(folder: Path, address: str, message: str) -> None:
    """A load error is one line that names what is missing and suggests the nearest name."""
    with pytest.raises(InvalidValue) as failure:
        load_catalog(address.format(folder.name))
    assert failure.value.message == message.format(folder.name)
    assert failure.value.argument == "catalog"


def test_catalog_violations_are_raised_unchanged(folder: Path) -> None:
    """An invalid catalog raises `InvalidCatalog`, not an import error."""
    with pytest.raises(InvalidCatalog, match="Part: is declared twice"):
        load_catalog(f"{folder.name}.wrong:catalog")
