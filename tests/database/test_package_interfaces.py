"""The exports of all packages."""

from importlib import import_module
from pkgutil import iter_modules, walk_packages

import pytest

import graphql_api

PACKAGES = [
    "graphql_api",
    *(found.name for found in walk_packages(graphql_api.__path__, "graphql_api.") if found.ispkg),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_export_resolves(package: str) -> None:
    """Each name in `__all__` is an attribute of its package, also if it is resolved lazily."""
    module = import_module(package)
    assert [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_export_hides_a_module(package: str) -> None:
    """No export has the name of a module in its package, because importing the module would replace it."""
    module = import_module(package)
    modules = {found.name for found in iter_modules(module.__path__)}
    assert modules.isdisjoint(getattr(module, "__all__", ()))


@pytest.mark.parametrize("package", ["graphql_api", "graphql_api.schema", "graphql_api.server", "graphql_api.ops"])
def test_unknown_export_is_an_attribute_error(package: str) -> None:
    """An unknown name of a package raises `AttributeError`, as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = import_module(package).nothing
