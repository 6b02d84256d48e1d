"""The exports of all packages."""

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages

import pytest

import graphql_api

PACKAGES = [
    "graphql_api",
    *(found.name for found in walk_packages(graphql_api.__path__, "graphql_api.") if found.ispkg),
]


def exports(package: str) -> set[str]:
    """Return the names that the `__init__` of a package imports from its own modules, lazily or not."""
    file = import_module(package).__file__
    assert file is not None
    body = ast.parse(Path(file).read_text()).body
    statements = [*body, *(inner for node in body if isinstance(node, ast.If) for inner in node.body)]
    imports = [node for node in statements if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if (node.module or "").startswith(f"{package}.")]
    return {alias.name for node in own for alias in node.names} - {"lazy_exports"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_export_resolves(package: str) -> None:
    """Each export is an attribute of its package, also if it is resolved lazily."""
    module = import_module(package)
    assert [name for name in exports(package) if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_export_hides_a_module(package: str) -> None:
    """No export has the name of a module in its package, because importing the module would replace it."""
    modules = {found.name for found in iter_modules(import_module(package).__path__)}
    assert modules.isdisjoint(exports(package))


def test_the_root_exports_what_it_imports() -> None:
    """`__all__` of the package lists exactly its interface, so that `import *` and type checkers agree."""
    assert set(graphql_api.__all__) == exports("graphql_api")


@pytest.mark.parametrize("package", ["graphql_api", "graphql_api.schema", "graphql_api.server", "graphql_api.ops"])
def test_unknown_export_is_an_attribute_error(package: str) -> None:
    """An unknown name of a package raises `AttributeError`, as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = import_module(package).nothing
