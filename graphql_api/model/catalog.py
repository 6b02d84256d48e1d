"""A catalog: the entities of one table, validated together. It is loaded by its address `module:attribute`."""

import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from graphql_api.errors import (
    InvalidCatalog,
    InvalidValue,
    ShardQLError,
    UnknownEntity,
    UnknownIndex,
    Violation,
    nearest,
)
from graphql_api.model.entity import Entity
from graphql_api.model.markers import IndexRef
from graphql_api.model.naming import entity_and_version, versioned_name
from graphql_api.model.recorded_elements import ElementStatus
from graphql_api.model.schema_options import VERBS, PageStyle, SchemaOptions, Verb
from graphql_api.model.spec_builder import build_specs
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.model.validation.entity_validation import catalog_violations
from graphql_api.model.validation.table_validation import DEFAULT_MAX_INDEXES
from graphql_api.model.versioned_specs import with_versions
from graphql_api.storage import TableDefinition


class Catalog:
    """Entities that share a table. An invalid catalog raises `InvalidCatalog`, which lists all violations.

    `max_indexes` is the number of indexes that the table may have: a quota of AWS, which can be raised. The other
    arguments shape the GraphQL schema. `namespace` is the prefix of every name: `Plugin_OrderTracking`. `pages`:
    whether pages are for "relay" clients, for "appsync" clients (`items`, `nextToken`), or for "both". `mutations`: the
    mutations of each entity. `batches`: whether each of them also exists for a list of records.
    """

    def __init__(
        self,
        *entities: type[Entity],
        namespace: str | None = None,
        max_indexes: int = DEFAULT_MAX_INDEXES,
        pages: PageStyle = "both",
        mutations: Sequence[Verb] = VERBS,
        batches: bool = True,
    ) -> None:
        self.options = SchemaOptions(pages, mutations, batches)
        violations = [*self.options.violations()]
        violations += [
            Violation("Catalog", None, f"received {argument!r}, which is no entity.", "Pass subclasses of Entity.")
            for argument in entities
            if not _is_entity(argument)
        ]
        specs = build_specs([argument for argument in entities if _is_entity(argument)], violations)
        violations.extend(catalog_violations(specs, namespace, max_indexes))
        if violations:
            raise InvalidCatalog(violations)
        self.namespace = namespace
        self.max_indexes = max_indexes
        self._set_entities(specs)
        self.declared = self
        """the catalog as it was declared; `entities` may be other versions of its entities"""
        self.pinned: frozenset[str] = frozenset()
        """declared names of the entities whose version does not follow the table's record"""
        indexes = [index for spec in specs for index in spec.indexes.values() if index.physical is not None]
        definitions = {index.physical: index.definition for index in indexes}
        expiries = {spec.ttl.stored for spec in specs if spec.ttl is not None}
        self.lookup_store: str | None = None
        """the identity of the store that keeps the mapping items of all lookups; None: the table itself"""
        self._table = TableDefinition(tuple(definitions.values()), ttl_attribute=next(iter(expiries), None))

    def entity(self, wanted: type[Entity] | str) -> EntitySpec:
        """Return an entity by its class, its class name, its declared name or its name in hash keys."""
        found = self._found.get(wanted)
        if found is not None:
            return found
        name = wanted if isinstance(wanted, str) else wanted.__name__
        known = [spec.type_name for spec in self.entities.values()]
        hint = nearest(name, known) or f" It declares {', '.join(known)}."
        raise UnknownEntity(f"The catalog declares no entity {name!r}.{hint}", argument="entity")

    def index(self, of: IndexRef | EntitySpec | type[Entity] | str, attribute: str = "by_id") -> IndexSpec:
        """Return an index by a reference such as `User.by_first_name`, or by entity and attribute."""
        if isinstance(of, IndexRef):
            attribute, of = of.attribute, of.entity
        spec = of if isinstance(of, EntitySpec) else self.entity(of)
        index = spec.indexes.get(attribute)
        if index is None:
            hint = nearest(attribute, spec.indexes) or f" It declares {', '.join(spec.indexes)}."
            raise UnknownIndex(f"{spec.type_name} declares no index {attribute!r}.{hint}", argument="index")
        return index

    def with_entities(self, entities: Mapping[str, EntitySpec]) -> "Catalog":
        """Return a catalog with other specifications of the same entities."""
        catalog = copy(self)
        catalog._set_entities([*entities.values()])  # noqa: SLF001 - of this class
        return catalog

    def _set_entities(self, specs: Sequence[EntitySpec]) -> None:
        self.entities: Mapping[str, EntitySpec] = MappingProxyType({spec.name: spec for spec in specs})
        """by their name in hash keys"""
        self.by_declared_name: Mapping[str, EntitySpec] = MappingProxyType({spec.declared_name: spec for spec in specs})
        self._found: dict[type[Entity] | str, EntitySpec] = {}
        for spec in specs:
            for known in (spec.model, spec.type_name, spec.name, spec.declared_name):
                self._found.setdefault(known, spec)

    @property
    def write_blockers(self) -> Mapping[str, ElementStatus]:
        """The element of the table because of which a server cannot write an entity, by the name of the entity."""
        blockers = ((name, entity.write_blocker) for name, entity in self.entities.items())
        return {name: blocker for name, blocker in blockers if blocker is not None}

    def with_versions(self, versions: Mapping[str, int], *, pinned: bool = False) -> "Catalog":
        """Return a catalog with these versions of entities by their declared names, and the first one of others.

        `pinned`: they are to be used whatever the table's record says.
        """
        names = {name: versioned_name(name, versions.get(name, 1)) for name in self.declared.entities}
        if [*names.values()] == [*self.entities]:
            catalog = self
        else:
            catalog = self.with_entities(with_versions(self.declared.entities, names))
        if pinned and catalog.pinned != versions.keys():
            catalog = copy(catalog)
            catalog.pinned = frozenset(versions)
        return catalog

    def with_lookup_store(self, identity: str) -> "Catalog":
        """Return a catalog whose lookups keep their mapping items in another store."""
        declared = self.declared.with_entities(
            {name: _with_lookup_store(entity, identity) for name, entity in self.declared.entities.items()}
        )
        declared.lookup_store = identity
        declared.declared = declared
        versions = dict(map(entity_and_version, self.entities))
        pinned = {name: version for name, version in versions.items() if name in self.pinned}
        return declared.with_versions(pinned, pinned=True) if pinned else declared

    def table_definition(self) -> TableDefinition:
        """Return the definition of the table that these entities need."""
        return self._table


def _with_lookup_store(entity: EntitySpec, identity: str) -> EntitySpec:
    indexes = {
        name: index if index.lookup is None else replace(index, lookup_store=identity)
        for name, index in entity.indexes.items()
    }
    return replace(entity, indexes=MappingProxyType(indexes))


def _is_entity(argument: object) -> bool:
    return isinstance(argument, type) and issubclass(argument, Entity) and argument is not Entity


# --- loading ---------------------------------------------------------------------------------------------------


_invalid_address = partial(InvalidValue, argument="catalog")


def load_catalog(address: str) -> Catalog:
    """Load the catalog at `module:attribute`. If that is a `Graph`, return its catalog."""
    declared = load_catalog_or_graph(address)
    catalog: Catalog = declared if isinstance(declared, Catalog) else declared.catalog
    return catalog


def load_catalog_or_graph(address: str) -> Any:
    """Load a `Catalog`, or an object with a `catalog`. The working directory is also searched for modules."""
    module_name, colon, attribute = address.partition(":")
    if not colon or not module_name or not attribute:
        remedy = "write MODULE:ATTRIBUTE, for instance app:catalog."
        raise _invalid_address(f"{address!r} is no address of a catalog: {remedy}")
    if module_name.endswith(".py"):
        module_path = ".".join(part for part in Path(module_name).with_suffix("").parts if part.isidentifier())
        raise _invalid_address(f"{module_name!r} is a file. Write the name of its module: {module_path}:{attribute}.")
    module = _import_module(module_name)
    if not hasattr(module, attribute):
        hint = nearest(attribute, vars(module)) or _catalogs_hint(module)
        raise _invalid_address(f"Module {module_name!r} has no attribute {attribute!r}.{hint}")
    declared = getattr(module, attribute)
    if not isinstance(declared, Catalog) and not isinstance(getattr(declared, "catalog", None), Catalog):
        kind = type(declared).__name__
        raise _invalid_address(f"{address} is of type {kind}, not a Catalog.{_catalogs_hint(module)}")
    return declared


def _import_module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ShardQLError:
        raise  # The catalog has reported its own violations.
    except Exception as failure:
        missing = failure.name if isinstance(failure, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            hint = nearest(missing, _sibling_modules(missing))
            raise _invalid_address(f"There is no module {missing!r}.{hint}") from failure
        first_line, *_ = str(failure).splitlines() or ["no message"]
        reason = f"{type(failure).__name__}: {first_line}"
        raise _invalid_address(f"Module {name!r} cannot be imported: {reason}") from failure


def _sibling_modules(name: str) -> list[str]:
    """Return the full names of all modules in the package of a missing module."""
    package, _, _ = name.rpartition(".")
    path = getattr(sys.modules[package], "__path__", ()) if package in sys.modules else None
    return [f"{package}.{module.name}" if package else module.name for module in pkgutil.iter_modules(path)]


def _catalogs_hint(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Catalog)]
    return f" Its catalogs are {', '.join(names)}." if names else " It has no catalog."
