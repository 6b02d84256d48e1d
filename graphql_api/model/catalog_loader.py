"""Load a catalog by its address `module:attribute`."""

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from graphql_api.errors import InvalidValue, ShardQLError, nearest
from graphql_api.model.catalog import Catalog


def load_catalog(address: str) -> Catalog:
    """Load the catalog at `module:attribute`. If that is a `Graph`, return its catalog."""
    declared = load_catalog_or_graph(address)
    return declared if isinstance(declared, Catalog) else _catalog_of(declared)


def _catalog_of(declared: Any) -> Catalog:
    catalog: Catalog = declared.catalog
    return catalog


def load_catalog_or_graph(address: str) -> Any:
    """Load a `Catalog`, or an object with a `catalog`. The working directory is also searched for modules."""
    module_name, colon, attribute = address.partition(":")
    if not colon or not module_name or not attribute:
        raise _invalid_address(
            f"{address!r} is no address of a catalog: write MODULE:ATTRIBUTE, for instance app:catalog."
        )
    module = _import_module(module_name)
    if not hasattr(module, attribute):
        hint = nearest(attribute, vars(module)) or _catalogs_hint(module)
        raise _invalid_address(f"Module {module_name!r} has no attribute {attribute!r}.{hint}")
    declared = getattr(module, attribute)
    if not isinstance(declared, Catalog) and not isinstance(getattr(declared, "catalog", None), Catalog):
        raise _invalid_address(
            f"{address} is of type {type(declared).__name__}, not a Catalog.{_catalogs_hint(module)}",
        )
    return declared


def _import_module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ShardQLError:
        raise  # The catalog has reported its own violations.
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            hint = nearest(missing.name, _sibling_modules(missing.name))
            raise _invalid_address(f"There is no module {missing.name!r}.{hint}") from missing
        raise _import_failed(name, missing) from missing
    except Exception as failure:
        raise _import_failed(name, failure) from failure


def _invalid_address(message: str) -> InvalidValue:
    return InvalidValue(message, argument="catalog")


def _import_failed(name: str, failure: Exception) -> InvalidValue:
    lines = str(failure).splitlines() or ["no message"]
    return _invalid_address(f"Module {name!r} cannot be imported: {type(failure).__name__}: {lines[0]}")


def _sibling_modules(name: str) -> list[str]:
    """Return the full names of all modules in the package of a missing module."""
    package, _, _ = name.rpartition(".")
    path = sys.modules[package].__path__ if package in sys.modules else None
    return [f"{package}.{module.name}" if package else module.name for module in pkgutil.iter_modules(path)]


def _catalogs_hint(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Catalog)]
    return f" Its catalogs are {', '.join(names)}." if names else " It has no catalog."
