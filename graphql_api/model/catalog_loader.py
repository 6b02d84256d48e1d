"""Finds a catalog by its address, as the command line is given it: `module:attribute`."""

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from graphql_api.errors import InvalidValue, ShardQLError, nearest
from graphql_api.model.catalog import Catalog


def load_catalog(address: str) -> Catalog:
    """The catalog at `module:attribute`, or that of the schema which stands there."""
    declared = load_declared(address)
    return declared if isinstance(declared, Catalog) else _catalog_of(declared)


def _catalog_of(declared: Any) -> Catalog:
    found: Catalog = declared.catalog
    return found


def load_declared(address: str) -> Any:
    """A catalog, or what has one as its `catalog`; modules are also looked for in the working directory."""
    module_name, colon, attribute = address.partition(":")
    if not colon or not module_name or not attribute:
        raise _not_found(f"{address!r} is no address of a catalog: write MODULE:ATTRIBUTE, for instance app:catalog.")
    module = _imported(module_name)
    if not hasattr(module, attribute):
        hint = nearest(attribute, vars(module)) or _known_catalogs(module)
        raise _not_found(f"Module {module_name!r} has no attribute {attribute!r}.{hint}")
    found = getattr(module, attribute)
    if not isinstance(found, Catalog) and not isinstance(getattr(found, "catalog", None), Catalog):
        raise _not_found(
            f"{address} is of type {type(found).__name__}, not a Catalog.{_known_catalogs(module)}",
        )
    return found


def _imported(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ShardQLError:
        raise  # the catalog itself says what is wrong with it
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            hint = nearest(missing.name, _modules_beside(missing.name))
            raise _not_found(f"There is no module {missing.name!r}.{hint}") from missing
        raise _failed(name, missing) from missing
    except Exception as failure:
        raise _failed(name, failure) from failure


def _not_found(message: str) -> InvalidValue:
    return InvalidValue(message, argument="catalog")


def _failed(name: str, failure: Exception) -> InvalidValue:
    lines = str(failure).splitlines() or ["no message"]
    return _not_found(f"Module {name!r} cannot be imported: {type(failure).__name__}: {lines[0]}")


def _modules_beside(name: str) -> list[str]:
    """Full names of the modules among which a missing one was looked for."""
    package, _, _ = name.rpartition(".")
    path = sys.modules[package].__path__ if package in sys.modules else None
    return [f"{package}.{found.name}" if package else found.name for found in pkgutil.iter_modules(path)]


def _known_catalogs(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Catalog)]
    return f" Its catalogs are {', '.join(names)}." if names else " It holds no catalog."
